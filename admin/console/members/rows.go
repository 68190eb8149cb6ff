package members

import (
	"cmp"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/gatehouse-id/gatehouse/identity/settings/wire"
	"github.com/gatehouse-id/gatehouse/internal/web"
)

const (
	// button is the name of the buttons that change the rows of a form, focus that of the row that was changed.
	button, focus = "row", "row-focus"
	// keyName is the last part of the name of the field with the name of an entry.
	keyName = "key"
	// maxRows is the maximum number of rows of a list that buttons add. Lists of the settings are not longer.
	maxRows = 200
)

func rowName(list string, i int) string { return list + "[" + strconv.Itoa(i) + "]" }

// keysOf returns the names of the entries of an object, in their order.
func keysOf(v reflect.Value) []string {
	keys := make([]string, 0, v.Len())
	for _, key := range v.MapKeys() {
		keys = append(keys, key.String())
	}
	slices.Sort(keys)
	return keys
}

// rows adds the rows of a list to its field: those that were sent, or its entries.
func (f *Form) rows(m member, out *web.Field) {
	isMap := m.v.Kind() == reflect.Map
	if sent := f.In; !sent.Has(m.name) { // boxes of what was not sent are as they are stored
		f.In = nil
		defer func() { f.In = sent }()
	}
	if out.Ordered = !isMap; f.In.Has(m.name) {
		for i := 0; f.In.Has(rowName(m.name, i)); i++ {
			f.row(m, out, i, f.In.Get(rowName(m.name, i)))
		}
	} else if isMap {
		for i, key := range keysOf(m.v) {
			f.row(m, out, i, ":"+key)
		}
	} else {
		for i := range m.v.Len() {
			f.row(m, out, i, strconv.Itoa(i))
		}
	}
	_, args, _ := strings.Cut(m.check, ",")
	args, _, _ = strings.Cut(args, ",")
	most, err := strconv.Atoi(args)
	if err != nil {
		most = maxRows
	}
	out.Full = len(out.Rows) >= most || f.left <= 0
	if out.Focus = f.In.Get(focus) == m.name; f.left < 0 { // what they send would be too much
		out.Type, out.Rows, out.Value, out.ReadOnly, out.Hint, out.Wire = "", nil, strconv.Itoa(m.v.Len()), true, "console.rows.many", ""
	}
}

func (f *Form) row(m member, out *web.Field, i int, origin string) {
	entry, key := m.stored(origin)
	row := web.FieldRow{Name: rowName(m.name, i), Origin: origin}
	row.Focus = f.In.Get(focus) == row.Name
	deep := isDeep(entry.Type())
	if deep && origin != "" && f.Open != "" {
		row.Open = f.Open + url.QueryEscape(m.placeOf(origin))
	}
	if m.v.Kind() == reflect.Map {
		field := f.field(member{row.Name + "." + keyName, m.path + "{}." + keyName, m.at + "." + key, "", reflect.ValueOf(key), i > 0})
		field.Required = origin != ""
		row.Fields, row.Called = append(row.Fields, field), field.Value
	}
	f.entry(m, i, key, entry, func(one member) {
		field := f.field(one)
		if row.Fields = append(row.Fields, field); row.Called == "" && field.Type == "" {
			row.Called = field.Value
		}
	})
	f.left -= len(row.Fields)
	out.Rows = append(out.Rows, row)
}

// entry visits the members of an entry that a row has: all of them, or those that name an entry with a page of its own.
func (f *Form) entry(m member, i int, key string, entry reflect.Value, visit func(member)) {
	row := member{name: rowName(m.name, i), path: m.path + "[]", at: m.at + "[" + strconv.Itoa(i) + "]", v: entry, quiet: m.quiet || i > 0}
	if m.v.Kind() == reflect.Map {
		row.at, row.path = joined(m.at, key), m.path+"{}"
	}
	deep := isDeep(entry.Type())
	f.each(row, func(one member) {
		if member := one.name[len(row.name)+1:]; !deep || member == "id" || member == "name" {
			visit(one)
		}
	})
}

// stored returns a copy of the entry that a row was made of, and its name. A row that was added has none.
func (m *member) stored(origin string) (reflect.Value, string) {
	elem, _ := entryOf(m.v.Type())
	entry := reflect.New(elem).Elem()
	if key, named := strings.CutPrefix(origin, ":"); named && m.v.Kind() == reflect.Map {
		if old := m.v.MapIndex(reflect.ValueOf(key)); old.IsValid() {
			entry.Set(old)
			return entry, key
		}
	} else if i, err := strconv.Atoi(origin); err == nil && m.v.Kind() == reflect.Slice && i >= 0 && i < m.v.Len() {
		entry.Set(m.v.Index(i))
		return entry, ""
	}
	fresh(entry, "")
	return entry, ""
}

// fresh sets what a new entry has: empty lists, the first word of each choice, and the least number.
func fresh(v reflect.Value, check string) {
	switch v.Kind() {
	case reflect.Struct:
		for one := range wire.Fields(v.Type()) {
			fresh(v.Field(one.Index), one.Check)
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 0, 0))
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
	case reflect.Int:
		least, _ := (&member{check: check}).limits()
		v.SetInt(int64(least))
	case reflect.String:
		if words := (&member{check: check}).choices(); len(words) > 0 {
			v.SetString(words[0])
		}
	}
}

// placeOf returns the place of the entry that a row was made of, as At takes it apart.
func (m *member) placeOf(origin string) string {
	if key, named := strings.CutPrefix(origin, ":"); named {
		return m.at + "{" + url.QueryEscape(key) + "}"
	}
	return m.at + "[" + origin + "]"
}

// Entry calls do with the entry of an object at a place: its path in the settings, and the object itself, which may be
// changed. It reports whether there is such an entry.
func Entry(v reflect.Value, place, path, at string, do func(v reflect.Value, path, at string)) bool {
	switch {
	case place == "":
		do(v, path, at)
		return true
	case place[0] == '[' && v.Kind() == reflect.Slice:
		number, rest, _ := strings.Cut(place[1:], "]")
		i, err := strconv.Atoi(number)
		return err == nil && i >= 0 && i < v.Len() && Entry(v.Index(i), rest, path+"[]", at+"["+number+"]", do)
	case place[0] == '{' && v.Kind() == reflect.Map:
		name, rest, _ := strings.Cut(place[1:], "}")
		key, err := url.QueryUnescape(name)
		old := v.MapIndex(reflect.ValueOf(key))
		if err != nil || !old.IsValid() {
			return false
		}
		entry := reflect.New(old.Type()).Elem()
		entry.Set(old)
		if !Entry(entry, rest, path+"{}", joined(at, key), do) {
			return false
		}
		v.SetMapIndex(reflect.ValueOf(key), entry)
		return true
	case v.Kind() == reflect.Struct:
		name := strings.TrimPrefix(place, ".")
		end := strings.IndexAny(name, ".[{")
		if end < 0 {
			end = len(name)
		}
		for one := range wire.Fields(v.Type()) {
			if one.Name == name[:end] {
				return Entry(v.Field(one.Index), name[end:], path+"."+one.Name, joined(at, one.Name), do)
			}
		}
	}
	return false
}

// Called returns the name of an entry, or its id.
func Called(entry reflect.Value) (name string) {
	if entry.Kind() == reflect.Struct {
		for one := range wire.Fields(entry.Type()) {
			if text := entry.Field(one.Index); text.Kind() == reflect.String && text.Len() > 0 && (one.Name == "name" || one.Name == "id") {
				name = text.String() // the name is declared behind the id
			}
		}
	}
	return name
}

// Pressed does what a button of a row was pressed for, and reports whether one was. The form is then shown again.
func Pressed(in url.Values) bool {
	act, name, pressed := strings.Cut(in.Get(button), " ")
	in.Del(button)
	if !pressed {
		return false
	}
	if act == "add" {
		if list := takeRows(in, name); len(list) < maxRows {
			list = append(list, url.Values{"": {""}})
			putRows(in, name, list)
			in.Set(focus, rowName(name, len(list)-1))
		} else {
			putRows(in, name, list)
		}
		return true
	}
	at := strings.LastIndexByte(name, '[')
	i, err := strconv.Atoi(strings.TrimSuffix(name[max(at+1, 0):], "]"))
	if at < 0 || err != nil {
		return true
	}
	name = name[:at]
	list := takeRows(in, name)
	switch to := i + map[string]int{"up": -1, "down": 1}[act]; {
	case i < 0 || i >= len(list):
	case act == "remove":
		list = slices.Delete(list, i, i+1)
		if in.Set(focus, name); len(list) > 0 {
			in.Set(focus, rowName(name, min(i, len(list)-1)))
		}
	case to >= 0 && to < len(list):
		list[i], list[to] = list[to], list[i]
		in.Set(focus, rowName(name, to))
	}
	putRows(in, name, list)
	return true
}

// takeRows takes the rows of a list out of a form, each with its fields by the rest of their names.
func takeRows(in url.Values, list string) []url.Values {
	rows, order := map[int]url.Values{}, []int{}
	for name, values := range in {
		rest, inside := strings.CutPrefix(name, list+"[")
		number, rest, closed := strings.Cut(rest, "]")
		i, err := strconv.Atoi(number)
		if !inside || !closed || err != nil || i < 0 {
			continue
		}
		if rows[i] == nil {
			rows[i], order = url.Values{}, append(order, i)
		}
		rows[i][rest] = values
		delete(in, name)
	}
	slices.SortFunc(order, cmp.Compare)
	out := make([]url.Values, len(order))
	for to, i := range order {
		out[to] = rows[i]
	}
	return out
}

func putRows(in url.Values, list string, rows []url.Values) {
	for i, row := range rows {
		for rest, values := range row {
			in[rowName(list, i)+rest] = values
		}
	}
}
