package config

import (
	"bytes"
	"encoding/json"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// Member is a member of a unit that is not an object itself.
type member struct {
	// path has [] for the entries of an array and {} for those of an object with free names.
	path string
	kind reflect.Type
	tag  string // check
}

// members returns every member of every unit, in the order of the table.
func members() []member {
	var out []member
	d := Defaults()
	for _, un := range table {
		out = append(out, membersOf(reflect.TypeOf(un.of(&d)).Elem(), un.name, "")...)
	}
	return out
}

func membersOf(t reflect.Type, path, tag string) []member {
	switch t.Kind() {
	case reflect.Pointer:
		return membersOf(t.Elem(), path, tag)
	case reflect.Struct:
		var out []member
		for f := range fieldsOf(t) {
			out = append(out, membersOf(f.typ, path+"."+f.name, f.check)...)
		}
		return out
	case reflect.Slice:
		if hasMembers(t.Elem()) {
			return membersOf(t.Elem(), path+"[]", "")
		}
	case reflect.Map:
		if hasMembers(t.Elem()) {
			return membersOf(t.Elem(), path+"{}", "")
		}
	}
	return []member{{path, t, tag}}
}

func hasMembers(t reflect.Type) bool {
	return t.Kind() == reflect.Struct || t.Kind() == reflect.Pointer
}

type jsonField struct {
	name, check string
	index       int
	typ         reflect.Type
}

// fieldsOf yields the fields of a struct that are on the wire.
func fieldsOf(t reflect.Type) func(func(jsonField) bool) {
	return func(yield func(jsonField) bool) {
		for i := range t.NumField() {
			f := t.Field(i)
			if !f.IsExported() {
				continue
			}
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if !yield(jsonField{name, f.Tag.Get("check"), i, f.Type}) {
				return
			}
		}
	}
}

// visit calls fn for every member of a value that is not an object itself, with its path in the body and its path as in member.
// inside tells whether it is part of an array or of an object with free names.
func visit(v reflect.Value, at, path string, inside bool, fn func(v reflect.Value, at, path string, inside bool)) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			visit(v.Elem(), at, path, inside, fn)
		}
		return
	case reflect.Struct:
		for f := range fieldsOf(v.Type()) {
			visit(v.Field(f.index), at+"."+f.name, path+"."+f.name, inside, fn)
		}
		return
	case reflect.Slice:
		if hasMembers(v.Type().Elem()) {
			for i := range v.Len() {
				visit(v.Index(i), at+"["+strconv.Itoa(i)+"]", path+"[]", true, fn)
			}
			return
		}
	case reflect.Map:
		if hasMembers(v.Type().Elem()) {
			for it := v.MapRange(); it.Next(); {
				visit(it.Value(), at+"."+shown(it.Key().String()), path+"{}", true, fn)
			}
			return
		}
	}
	fn(v, at, path, inside)
}

// Change is a member that differs between two states; arrays and objects with free names are one member.
type Change struct {
	Path string          `json:"path"`
	From json.RawMessage `json:"from"`
	To   json.RawMessage `json:"to"`

	unit string
}

// changes returns what differs between two states.
func changes(from, to *Units) []Change {
	var out []Change
	for _, un := range table {
		before := len(out)
		out = append(out, changesOf(reflect.ValueOf(un.of(from)).Elem(), reflect.ValueOf(un.of(to)).Elem(), un.name)...)
		if un.name == "login_methods" && len(out) == before && !sameSecrets(from, to) {
			list := encode(from.LoginMethods.LoginMethods) // nothing that is read differs
			out = append(out, Change{Path: "login_methods.login_methods", From: list, To: list})
		}
		for i := range out[before:] {
			out[before+i].unit = un.name
		}
	}
	return out
}

func changesOf(a, b reflect.Value, path string) []Change {
	if a.Kind() == reflect.Struct {
		var out []Change
		for f := range fieldsOf(a.Type()) {
			out = append(out, changesOf(a.Field(f.index), b.Field(f.index), path+"."+f.name)...)
		}
		return out
	}
	from, to := encode(a.Interface()), encode(b.Interface())
	if bytes.Equal(from, to) {
		return nil
	}
	return []Change{{Path: path, From: from, To: to}}
}

func sameSecrets(a, b *Units) bool {
	all := func(u *Units) (out []string) {
		for at, s := range u.secrets() {
			if *s != "" {
				out = append(out, at+"="+s.Reveal())
			}
		}
		slices.Sort(out)
		return out
	}
	return slices.Equal(all(a), all(b))
}
