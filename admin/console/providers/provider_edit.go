package providers

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/gatehouse-id/gatehouse/admin/console/layout"
	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/identity/settings/effect"
	"github.com/gatehouse-id/gatehouse/identity/settings/wire"
	"github.com/gatehouse-id/gatehouse/internal/jsonapi"
	"github.com/gatehouse-id/gatehouse/internal/web"
)

const (
	// methodPath is the path of a login method in the settings.
	methodPath = "login_methods.login_methods[]."
	// maxField is the maximum size of a member in a form, in bytes. Longer metadata are changed by the command.
	maxField = 16 << 10
)

var (
	// fixedMembers are those that no form changes: other pages switch a method on, and its type is what it is.
	fixedMembers = []string{"id", "type", "enabled", "removable"}
	// ownMembers are those that mean something where people sign in with a password that is kept here.
	ownMembers = []string{"name", "auto_activation_enabled", "custom_attribute_fields"}

	secretType = reflect.TypeFor[jsonapi.Secret]()
)

// editable reports whether a method is one of the settings, Gatehouse's own among them.
func editable(v *layout.Visit) bool { return !isDeclared(&providerOf(v).LoginMethod) }

func mayEditProvider(v *layout.Visit) error {
	if !editable(v) {
		return layout.Denied("the provider is not one of the settings")
	}
	return nil
}

// methodField is a member of a login method in the form that edits it. Its name is the path within the method.
type methodField struct {
	web.Field

	value reflect.Value // of the member
	check string
}

// methodFields are the members of a method, and of the attribute object of its type, that do something.
func methodFields(m *settings.LoginMethod) (out []methodField) {
	var walk func(v reflect.Value, prefix string)
	walk = func(v reflect.Value, prefix string) {
		for f := range wire.Fields(v.Type()) {
			at, path := v.Field(f.Index), prefix+f.Name
			switch {
			case prefix == "" && slices.Contains(fixedMembers, path), m.ID == settings.OwnMethod && prefix == "" &&
				!slices.Contains(ownMembers, path):
			case at.Kind() == reflect.Struct:
				walk(at, path+".")
			case at.Kind() == reflect.Pointer:
				if !at.IsNil() {
					walk(at.Elem(), path+".")
				}
			default:
				if one := fieldOf(path, at, f.Check); works(path, f.Type) && len(one.text()) <= maxField {
					out = append(out, one)
				}
			}
		}
	}
	walk(reflect.ValueOf(m).Elem(), "")
	return out
}

// works reports whether a member does something already.
func works(path string, t reflect.Type) bool {
	if t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Struct {
		return slices.ContainsFunc(pairOf(t.Elem()), func(f wire.Field) bool { return works(path+"[]."+f.Name, f.Type) })
	}
	e, _ := effect.Of(methodPath + path)
	return e.Does != ""
}

func fieldOf(path string, at reflect.Value, check string) methodField {
	f := methodField{web.Field{
		Name: path, Label: layout.MemberLabel(methodPath + path), Called: path, Hint: layout.MemberHint(methodPath + path), Wire: path,
	}, at, check}
	kind, args, _ := strings.Cut(check, ",")
	switch {
	case at.Type() == secretType:
		f.Type, f.Hint = "password", "console.field.secret_stays.hint"
	case at.Kind() == reflect.Bool:
		f.Type = "checkbox"
	case at.Kind() == reflect.Int:
		f.InputMode, f.MaxLength, f.Required = "numeric", 12, true
	case at.Kind() == reflect.Slice, kind == "lines", kind == "metadata":
		f.Type = "textarea"
	case kind == "enum":
		f.Type = "select"
		for _, word := range strings.Split(args, "|") {
			f.Options = append(f.Options, web.Option{Value: word, Label: layout.WordLabel(word)})
		}
	}
	return f
}

// text is the value of a member as it is in its field. A secret is in no page.
func (f *methodField) text() string {
	switch v := f.value; {
	case v.Type() == secretType:
		return ""
	case v.Kind() == reflect.Slice:
		var lines []string
		for i := range v.Len() {
			lines = append(lines, entryText(v.Index(i)))
		}
		return strings.Join(lines, "\n")
	default:
		return scalarText(v)
	}
}

func scalarText(v reflect.Value) string {
	switch v.Kind() {
	case reflect.Bool:
		return map[bool]string{true: "yes"}[v.Bool()]
	case reflect.Int:
		return strconv.FormatInt(v.Int(), 10)
	}
	return strings.TrimSpace(v.String())
}

// between separates the two members of an entry, such as the attribute of the provider and ours.
const between = " = "

// pairOf are the two members that people write of an entry: the first ones besides its id.
func pairOf(t reflect.Type) (out []wire.Field) {
	for f := range wire.Fields(t) {
		if f.Name != "id" && len(out) < 2 {
			out = append(out, f)
		}
	}
	return out
}

func entryText(v reflect.Value) string {
	if v.Kind() != reflect.Struct {
		return scalarText(v)
	}
	pair := pairOf(v.Type())
	return scalarText(v.Field(pair[0].Index)) + between + scalarText(v.Field(pair[1].Index))
}

// typed returns the input of the field. One that was not sent is as it was.
func (f *methodField) typed(in url.Values) string {
	if f.Type != "checkbox" && !in.Has(f.Name) {
		return f.text()
	}
	text := strings.TrimSpace(strings.ReplaceAll(in.Get(f.Name), "\r\n", "\n"))
	if f.value.Kind() != reflect.Slice {
		return text
	}
	var lines []string
	for line := range strings.SplitSeq(text, "\n") {
		if line = strings.TrimSpace(line); line != "" {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "\n")
}

// set takes what was typed, or says what is wrong with it.
func (f *methodField) set(typed string) *layout.Problem {
	if f.value.Kind() != reflect.Slice {
		return f.setScalar(f.value, f.check, typed)
	}
	before := f.value
	next := reflect.MakeSlice(before.Type(), 0, 0)
	for line := range strings.SplitSeq(typed, "\n") {
		if line == "" {
			continue
		}
		entry := reflect.New(before.Type().Elem()).Elem()
		if entry.Kind() != reflect.Struct {
			entry.SetString(line)
			next = reflect.Append(next, entry)
			continue
		}
		at := strings.LastIndex(line, between)
		if at < 0 {
			return &layout.Problem{Field: f.Name, Key: "console.problem.pairs"}
		}
		first, second := strings.TrimSpace(line[:at]), strings.TrimSpace(line[at+len(between):])
		pair := pairOf(entry.Type())
		for i := range before.Len() { // what people don't write of an entry stays
			if scalarText(before.Index(i).Field(pair[0].Index)) == first {
				entry.Set(before.Index(i))
			}
		}
		for i, text := range []string{first, second} {
			if wrong := f.setScalar(entry.Field(pair[i].Index), pair[i].Check, text); wrong != nil {
				return wrong
			}
		}
		next = reflect.Append(next, entry)
	}
	f.value.Set(next)
	return nil
}

func (f *methodField) setScalar(v reflect.Value, check, typed string) *layout.Problem {
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(typed != "")
	case reflect.Int:
		_, args, _ := strings.Cut(check, ",")
		low, high, _ := strings.Cut(args, ",")
		least, _ := strconv.Atoi(low)
		most, _ := strconv.Atoi(high)
		n, err := strconv.Atoi(typed)
		if err != nil || n < least || n > most {
			return &layout.Problem{Field: f.Name, Key: "console.problem.number", Fill: []any{"from", least, "to", most}}
		}
		v.SetInt(int64(n))
	default:
		v.SetString(typed)
	}
	return nil
}

// markOf tells states of a login method apart, whatever its secrets are.
func markOf(m *settings.LoginMethod) (string, error) {
	raw, err := json.Marshal(m)
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:8]), err
}

// askEditProvider asks for the members of a login method. A form that was opened before a change by someone else shows
// both values.
func askEditProvider(v *layout.Visit) (layout.Question, error) {
	m := &providerOf(v).LoginMethod
	mark, err := markOf(m)
	if err != nil {
		return layout.Question{}, err
	}
	q := layout.Question{Submit: "console.save", Hidden: []web.Hidden{{Name: "seen", Value: mark}}}
	t := &web.Table{
		Label:   web.Say("console.unit.typed"),
		Columns: []string{"console.column.member", "console.column.now", "console.column.typed"},
	}
	fields := methodFields(m.WithAttributes())
	for i := range fields {
		f := &fields[i]
		now := f.text()
		if f.Value = now; f.Type == "checkbox" {
			f.Value, f.Checked = "", now != ""
		}
		q.Fields = append(q.Fields, f.Field)
		if typed := f.typed(v.PostForm); typed != now && f.Type != "password" {
			t.Rows = append(t.Rows, web.TableRow{Cells: []web.Cell{{Name: f.Name}, layout.OrNone(now), layout.OrNone(typed)}})
		}
	}
	if sent := v.PostForm.Get("seen"); sent != "" && sent != mark && len(t.Rows) > 0 {
		q.Parts = []web.ConsolePart{{ID: "typed", Title: web.Say("console.unit.typed"), Text: web.Say("console.unit.typed.text"), Table: t}}
	}
	return q, nil
}

// editProvider saves the members that differ from what the form has shown. An empty secret stays as it is stored.
func (s *setup) editProvider(v *layout.Visit, in url.Values) (layout.Result, error) {
	all := methodFields(providerOf(v).WithAttributes())
	fields := slices.DeleteFunc(slices.Clone(all), func(f methodField) bool { return f.typed(in) == f.text() })
	_, err := s.Config.Edit(write(v), v.Actor(), func(u *settings.Units) error {
		list := u.LoginMethods.LoginMethods
		at := slices.IndexFunc(list, func(m settings.LoginMethod) bool { return m.ID == providerOf(v).ID && !isDeclared(&m) })
		if at < 0 {
			return &layout.Problem{Key: "console.problem.gone"}
		}
		if mark, err := markOf(&list[at]); err != nil || mark != in.Get("seen") {
			return errors.Join(err, &layout.Problem{Key: "console.settings.moved"})
		}
		if len(fields) == 0 { // saved as it was
			return nil
		}
		next := list[at].WithAttributes()
		members := methodFields(next)
		for i := range members { // or a stored secret would go wherever the new address leads
			if members[i].value.Type() == secretType {
				members[i].value.SetString("")
			}
		}
		for i := range fields {
			f := &members[slices.IndexFunc(members, func(m methodField) bool { return m.Name == fields[i].Name })]
			if wrong := f.set(fields[i].typed(in)); wrong != nil {
				return wrong
			}
		}
		list[at] = *next
		return nil
	})
	return layout.Result{}, refusedMember(err, all)
}

// inMethod matches the place of a login method at the beginning of an error.
var inMethod = regexp.MustCompile(`^login_methods\.login_methods\[\d+\]\.?`)

// refusedMember returns what is wrong with a method as a problem of the field that it names. Other errors stay.
func refusedMember(err error, fields []methodField) error {
	e := new(jsonapi.Error)
	if !errors.As(err, &e) || e.Status >= 500 {
		return err
	}
	text := inMethod.ReplaceAllString(e.Message, "")
	best := ""
	for i := range fields {
		name := fields[i].Name
		if rest, ok := strings.CutPrefix(text, name); ok && strings.ContainsAny(rest[:min(1, len(rest))], ":[.") && len(name) > len(best) {
			best = name
		}
	}
	e.Message = text
	return layout.SettingProblem(best, e)
}
