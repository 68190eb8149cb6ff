package members

import (
	"encoding/json"
	"errors"
	"net/http"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/gatehouse-id/gatehouse/admin/console/layout"
	"github.com/gatehouse-id/gatehouse/identity/settings/wire"
	"github.com/gatehouse-id/gatehouse/internal/jsonapi"
)

// Read sets the members of an object to what was typed, or says what is wrong with it. What has no field stays, and so
// does what is as its page has shown it, blanks around it included; but secrets are emptied. Rows that were added and
// left empty are none.
func (f *Form) Read(v reflect.Value) (wrong *layout.Problem) {
	f.each(f.root(v), func(m member) {
		if wrong == nil {
			wrong = f.read(m)
		}
	})
	return wrong
}

func (f *Form) read(m member) *layout.Problem {
	typed, sent := f.In[m.name]
	switch kind := m.typeOf(); {
	case kind == "checkbox":
		m.v.SetBool(sent)
	case kind == "checks":
		checked := m.checked(f.In)
		if !slices.Equal(slices.Sorted(slices.Values(m.texts())), slices.Sorted(slices.Values(checked))) {
			m.v.Set(reflect.ValueOf(checked))
		}
	case kind == "password": // or a stored one would go wherever the new address leads
		m.v.SetString(strings.TrimSpace(f.In.Get(m.name)))
		f.Secret = f.Secret || m.v.Len() > 0
	case !sent:
	case kind == "rows":
		return f.readRows(m)
	default:
		return m.set(typed[0])
	}
	return nil
}

// set sets a member to the text of its field.
func (m *member) set(typed string) *layout.Problem {
	typed = strings.TrimSpace(strings.ReplaceAll(typed, "\r\n", "\n"))
	line, lines := lineOf(m.v.Type())
	switch kind := m.v.Kind(); {
	case kind == reflect.Int:
		least, most := m.limits()
		n, err := strconv.Atoi(typed)
		if err != nil || n < least || n > most {
			return &layout.Problem{Field: m.name, Key: "console.problem.number", Fill: []any{"from", least, "to", most}}
		}
		m.v.SetInt(int64(n))
	case typed == strings.TrimSpace(strings.ReplaceAll(textOf(m.v), "\r\n", "\n")):
	case kind == reflect.String:
		m.v.SetString(typed)
	case kind == reflect.Map:
		next := reflect.MakeMap(m.v.Type())
		for _, one := range linesIn(typed) {
			name, value, found := strings.Cut(one, strings.TrimSpace(between))
			name, value = strings.TrimSpace(name), strings.TrimSpace(value)
			if !found || name == "" {
				return &layout.Problem{Field: m.name, Key: "console.problem.pairs"}
			}
			if next.MapIndex(reflect.ValueOf(name)).IsValid() {
				return &layout.Problem{Field: m.name, Key: "console.rows.twice"}
			}
			next.SetMapIndex(reflect.ValueOf(name), reflect.ValueOf(value))
		}
		m.v.Set(next)
	default:
		next := reflect.MakeSlice(m.v.Type(), 0, 0)
		for _, one := range linesIn(typed) {
			entry := reflect.New(m.v.Type().Elem()).Elem()
			if !lines {
				entry.SetString(one)
				next = reflect.Append(next, entry)
				continue
			}
			entry.Field(line).SetString(one)
			for i := range m.v.Len() { // it keeps its id
				if m.v.Index(i).Field(line).String() == one {
					entry.Set(m.v.Index(i))
				}
			}
			next = reflect.Append(next, entry)
		}
		m.v.Set(next)
	}
	return nil
}

func linesIn(text string) (out []string) {
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" {
			out = append(out, line)
		}
	}
	return out
}

// readRows sets a list to the rows of the form.
func (f *Form) readRows(m member) *layout.Problem {
	isMap := m.v.Kind() == reflect.Map
	next := reflect.New(m.v.Type()).Elem()
	fresh(next, "")
	var all []string // the entries that were read, without their ids
	for i := 0; f.In.Has(rowName(m.name, i)); {
		row := rowName(m.name, i)
		entry, before := m.stored(f.In.Get(row))
		empty := asJSON(entry)
		key := strings.TrimSpace(f.In.Get(row + "." + keyName))
		var wrong *layout.Problem
		first := ""
		f.entry(m, i, key, entry, func(one member) {
			if first == "" {
				first = one.name
			}
			if wrong == nil {
				wrong = f.read(one)
			}
		})
		is := asJSON(entry)
		switch twice := slices.Contains(all, is); {
		case wrong != nil:
			return wrong
		case f.In.Get(row) == "" && is == empty && key == "":
			rows := takeRows(f.In, m.name)
			putRows(f.In, m.name, slices.Delete(rows, i, i+1))
			continue
		case isMap && key == "":
			return &layout.Problem{Field: row + "." + keyName, Key: "console.settings_problem.required"}
		case isMap && next.MapIndex(reflect.ValueOf(key)).IsValid():
			return &layout.Problem{Field: row + "." + keyName, Key: "console.rows.twice"}
		case isMap:
			named(entry, m.check, before, key)
			next.SetMapIndex(reflect.ValueOf(key), entry)
		case twice && is != empty:
			return &layout.Problem{Field: first, Key: "console.rows.twice"}
		default:
			all, next = append(all, is), reflect.Append(next, entry)
		}
		i++
	}
	if next.Len() > 0 || m.v.Len() > 0 {
		m.v.Set(next)
	}
	return nil
}

// named lets the id of an entry follow its name, where the one is the other.
func named(entry reflect.Value, check, before, key string) {
	for one := range wire.Fields(entry.Type()) {
		if one.Name == "id" && strings.HasSuffix(check, ",id") && entry.Field(one.Index).String() == before {
			entry.Field(one.Index).SetString(key)
		}
	}
}

// asJSON tells entries apart whatever their ids are.
func asJSON(entry reflect.Value) string {
	one := reflect.New(entry.Type()).Elem()
	one.Set(entry)
	for f := range wire.Fields(one.Type()) {
		if f.Name == "id" && !isDeep(one.Type()) {
			one.Field(f.Index).SetZero()
		}
	}
	raw, err := json.Marshal(one.Interface())
	if err != nil {
		return ""
	}
	return string(raw)
}

// Changed returns the members that differ between two states of an object, as JSON of an object that has them alone. A
// list is one member. nil: none does
func Changed(before, after reflect.Value) any {
	if before.Kind() != reflect.Struct {
		if raw, was := asValue(after), asValue(before); raw != was {
			return json.RawMessage(raw)
		}
		return nil
	}
	out := map[string]any{}
	for one := range wire.Fields(before.Type()) {
		if value := Changed(before.Field(one.Index), after.Field(one.Index)); value != nil {
			out[one.Name] = value
		}
	}
	if len(out) == 0 {
		return nil
	}
	return out
}

func asValue(v reflect.Value) string {
	raw, err := json.Marshal(v.Interface())
	if err != nil {
		return ""
	}
	return string(raw)
}

// Refused returns what is wrong with an object as a problem of the field that it names. Other errors stay.
func (f *Form) Refused(v reflect.Value, err error) error {
	e := new(jsonapi.Error)
	if !errors.As(err, &e) || e.Status >= 500 {
		return err
	}
	if e.Status == http.StatusPreconditionFailed {
		return &layout.Problem{Key: "console.settings.moved"}
	}
	details, _ := e.Details.([]jsonapi.Problem)
	if len(details) == 0 {
		return layout.SettingProblem("", e)
	}
	details = slices.Clone(details)
	details[0].Path = inMethod.ReplaceAllString(details[0].Path, "")
	f.Fields(v)
	best := ""
	for at := range f.places {
		if rest, ok := strings.CutPrefix(details[0].Path, at); ok && (rest == "" || strings.ContainsAny(rest[:1], ".[")) && len(at) > len(best) {
			best = at
		}
	}
	field := f.places[best]
	if details[0].Path == best && field != "" {
		details[0].Path = field
	}
	return layout.SettingProblem(field, &jsonapi.Error{Status: e.Status, Message: e.Message, Details: details, Words: e.Words})
}

// inMethod matches the place of a login method at the beginning of a path.
var inMethod = regexp.MustCompile(`^login_methods\.login_methods\[\d+\]\.?`)
