// Package members makes the form of an object of the settings from its type, and reads what was typed into it: a field
// for a text, a number or a switch, a line for each text of a list, and a row of fields for each entry of a list of
// objects.
package members

import (
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/gatehouse-id/gatehouse/admin/console/layout"
	"github.com/gatehouse-id/gatehouse/identity/settings/effect"
	"github.com/gatehouse-id/gatehouse/identity/settings/wire"
	"github.com/gatehouse-id/gatehouse/internal/jsonapi"
	"github.com/gatehouse-id/gatehouse/internal/web"
)

const (
	// maxField is the maximum size of a member in a form, in bytes. Longer metadata are changed by the command.
	maxField = 16 << 10
	// maxFields is the maximum number of fields in the rows of a form: what it sends has to be accepted.
	maxFields = 400
)

// Form is the form of an object.
type Form struct {
	// Path is that of the object in the settings, as labels have it: login_methods.login_methods[].
	Path string
	// Name begins the names of the fields, At the places in errors. Empty: they begin with the members.
	Name, At string
	// Skip reports whether a member stands elsewhere, by its path in the settings. nil: none does
	Skip func(path string) bool
	// Open is the path of the page with all of an entry whose place is added to it.
	Open string
	// In has the fields that were sent. nil: the form is opened
	In url.Values
	// Secret says that Read has found a secret.
	Secret bool

	left   int               // fields that rows have room for
	places map[string]string // the names of the fields by their places in errors
}

// member is a member of an object in a form.
type member struct {
	name, path, at, check string
	v                     reflect.Value
	quiet                 bool // a row above has said what it is for
}

func (f *Form) root(v reflect.Value) member {
	return member{name: f.Name, path: f.Path, at: f.At, v: v}
}

// Fields returns the fields of an object.
func (f *Form) Fields(v reflect.Value) (out []web.Field) {
	f.left, f.places = maxFields, map[string]string{}
	f.each(f.root(v), func(m member) { out = append(out, f.field(m)) })
	return out
}

// each visits the members that have a field.
func (f *Form) each(m member, visit func(member)) {
	switch t := m.v.Type(); {
	case t.Kind() == reflect.Pointer:
		if !m.v.IsNil() {
			m.v = m.v.Elem()
			f.each(m, visit)
		}
	case t.Kind() == reflect.Struct:
		for one := range wire.Fields(t) {
			if one.Name == "id" && !m.hasID() {
				continue
			}
			path := m.path + "." + one.Name
			f.each(member{joined(m.name, one.Name), path, joined(m.at, one.Name), one.Check, m.v.Field(one.Index), m.quiet}, visit)
		}
	case f.Skip != nil && f.Skip(m.path), strings.HasPrefix(m.check, "image"), !works(m.path, t), len(textOf(m.v)) > maxField:
	default:
		visit(m)
	}
}

// hasID reports whether the id of an object is for people to choose: that of an entry of a list, which is an object of
// its own. Others are chosen by Gatehouse, or are the name of the entry.
func (m *member) hasID() bool { return strings.HasSuffix(m.path, "[]") && isDeep(m.v.Type()) }

func joined(path, member string) string { return strings.TrimPrefix(path+"."+member, ".") }

// works reports whether a member does something already.
func works(path string, t reflect.Type) bool {
	if elem, inside := entryOf(t); elem != nil {
		for one := range wire.Fields(elem) {
			if works(path+inside+"."+one.Name, one.Type) {
				return true
			}
		}
		return false
	}
	if t.Kind() == reflect.Struct {
		return true // it is looked into
	}
	e, _ := effect.Of(path)
	return e.Does != ""
}

// entryOf returns the type of the objects in a list, or by free names, and what they add to a path. nil: it has none
func entryOf(t reflect.Type) (elem reflect.Type, inside string) {
	switch {
	case t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Struct:
		return t.Elem(), "[]"
	case t.Kind() == reflect.Map && t.Elem().Kind() == reflect.Struct:
		return t.Elem(), "{}"
	}
	return nil, ""
}

// lineOf returns the member of an entry whose entries are lines of one field: the only one besides its id, if that is
// a text.
func lineOf(t reflect.Type) (index int, ok bool) {
	elem, inside := entryOf(t)
	if inside != "[]" {
		return 0, false
	}
	for one := range wire.Fields(elem) {
		switch {
		case one.Name == "id":
		case ok, one.Type.Kind() != reflect.String:
			return 0, false
		default:
			index, ok = one.Index, true
		}
	}
	return index, ok
}

// isDeep reports whether entries have lists of entries themselves. They have a page of their own.
func isDeep(elem reflect.Type) bool {
	for one := range wire.Fields(elem) {
		t := one.Type
		if inner, _ := entryOf(t); inner != nil || t.Kind() == reflect.Struct && isDeep(t) {
			return true
		}
	}
	return false
}

// hasRows reports whether a member is a list of rows.
func (m *member) hasRows() bool {
	elem, _ := entryOf(m.v.Type())
	_, lines := lineOf(m.v.Type())
	return elem != nil && !lines
}

// words are those of members that are no enum, since other spellings of them are stored too.
var words = map[string]string{
	"organisations[].service_providers{}.type":                                                    "|SAML|OIDC",
	"organisations[].service_providers{}.use_trusted_device":                                      "|true|false",
	"organisations[].service_providers{}.include_unmapped_custom_attributes_within_saml_response": "|true|false",
}

// choices are the words that a member can be. nil: it is another kind of text
func (m *member) choices() []string {
	list := words[m.path]
	if kind, args, _ := strings.Cut(m.check, ","); kind == "enum" {
		list = args
	} else if before, args, found := strings.Cut(m.check, ",enum,"); found && strings.HasPrefix(before, "most,") {
		list = args
	}
	if list == "" {
		return nil
	}
	return strings.Split(list, "|")
}

// texts are the texts of a list.
func (m *member) texts() []string {
	out := make([]string, m.v.Len())
	for i := range out {
		out[i] = m.v.Index(i).String()
	}
	return out
}

// checked are the words whose boxes were checked. Each has a name of its own, since no form has two fields of one.
func (m *member) checked(in url.Values) []string {
	return slices.DeleteFunc(m.choices(), func(word string) bool { return !in.Has(m.name + "." + word) })
}

// limits are the least and the greatest value of a number.
func (m *member) limits() (least, most int) {
	_, args, _ := strings.Cut(m.check, ",")
	low, high, _ := strings.Cut(args, ",")
	least, _ = strconv.Atoi(low)
	most, _ = strconv.Atoi(high)
	return least, most
}

var secretType = reflect.TypeFor[jsonapi.Secret]()

// typeOf is the type of a field.
func (m *member) typeOf() string {
	kind, _, _ := strings.Cut(m.check, ",")
	switch t := m.v.Type(); {
	case m.hasRows():
		return "rows"
	case t == secretType:
		return "password"
	case t.Kind() == reflect.Bool:
		return "checkbox"
	case t.Kind() == reflect.Slice && m.choices() != nil:
		return "checks"
	case m.choices() != nil:
		return "select"
	case t.Kind() == reflect.Slice, t.Kind() == reflect.Map, kind == "lines", kind == "metadata":
		return "textarea"
	}
	return ""
}

// field is the field of a member, with what was typed, or its value.
func (f *Form) field(m member) web.Field {
	f.places[m.at] = m.name
	wired := strings.TrimPrefix(strings.TrimPrefix(m.name, f.Name), ".")
	if i := strings.LastIndex(wired, "]."); i >= 0 {
		wired = wired[i+2:]
	}
	if wired == "" {
		wired = m.name
	}
	out := web.Field{Name: m.name, Type: m.typeOf(), Label: layout.MemberLabel(m.path), Called: wired}
	if !m.quiet {
		out.Hint, out.Wire = layout.MemberHint(m.path), wired
	}
	typed, sent := f.In[m.name]
	switch out.Type {
	case "rows":
		f.rows(m, &out)
	case "password":
		out.Hint, out.Wire = "console.field.secret_stays.hint", ""
	case "checkbox":
		out.Checked = sent || f.In == nil && m.v.Bool()
	case "checks":
		checked := m.checked(f.In)
		if f.In == nil {
			checked = m.texts()
		}
		for _, word := range m.choices() {
			out.Options = append(out.Options, web.Option{Value: word, Label: layout.WordLabel(word), Checked: slices.Contains(checked, word)})
		}
	default:
		if out.Value = textOf(m.v); sent {
			out.Value = typed[0]
		}
		if m.v.Kind() == reflect.Int {
			out.InputMode, out.MaxLength, out.Required = "numeric", 12, true
		}
		if out.Type == "select" {
			list := m.choices()
			if !slices.Contains(list, out.Value) { // not set yet: a browser would send the first word
				list = slices.Insert(list, 0, out.Value)
			}
			for _, word := range list {
				out.Options = append(out.Options, web.Option{Value: word, Label: layout.WordLabel(word)})
			}
		}
	}
	return out
}

// between separates the two sides of an entry that is one line, such as a format and a name in it.
const between = " = "

// textOf is the value of a member as it stands in its field. A secret is in no page.
func textOf(v reflect.Value) string {
	switch line, ok := lineOf(v.Type()); {
	case v.Type() == secretType:
		return ""
	case ok:
		return linesOf(v, func(entry reflect.Value) string { return entry.Field(line).String() })
	case v.Kind() == reflect.Slice && v.Type().Elem().Kind() == reflect.String:
		return linesOf(v, reflect.Value.String)
	case v.Kind() == reflect.Map && v.Type().Elem().Kind() == reflect.String:
		var lines []string
		for _, key := range v.MapKeys() {
			lines = append(lines, key.String()+between+v.MapIndex(key).String())
		}
		slices.Sort(lines)
		return strings.Join(lines, "\n")
	case v.Kind() == reflect.Int:
		return strconv.FormatInt(v.Int(), 10)
	case v.Kind() == reflect.String:
		return v.String()
	}
	return ""
}

func linesOf(v reflect.Value, text func(reflect.Value) string) string {
	lines := make([]string, v.Len())
	for i := range lines {
		lines[i] = text(v.Index(i))
	}
	return strings.Join(lines, "\n")
}
