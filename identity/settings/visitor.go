package settings

import (
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/gatehouse-id/gatehouse/identity/settings/wire"
)

// place is the place of a value in the units.
type place struct {
	at   string // in a body, such as redirects.url_whitelist[0].id
	path string // the same with [] for an entry of an array and {} for an entry of an object with free names
	tag  string // check
	// entry reports whether the value is inside an array or an object with free names.
	entry bool
	// part reports whether the value is inside a member: an array or object of plain values is one member.
	part bool
}

// visitor goes through the values of a unit, the outer ones first.
type visitor struct {
	// value is called for each value except objects with fixed names, whose members are visited instead, and null.
	value func(v reflect.Value, p place)
	// name is called for each name in an object with free names, before its value. nil: for none.
	name func(name string, p place)
	// rewrites reports whether value changes what it is given.
	rewrites bool
}

// visit starts at a unit.
func (u *Units) visit(un unit, vis visitor) {
	for f := range wire.Fields(reflect.TypeFor[Units]()) {
		if f.Name == un.name {
			vis.visit(reflect.ValueOf(u).Elem().Field(f.Index), place{at: un.name, path: un.name, tag: f.Check})
		}
	}
}

// visitMembers calls fn for each member of a unit: a value that is neither an object nor an array of objects.
func (u *Units) visitMembers(un unit, fn func(v reflect.Value, p place)) {
	u.visit(un, visitor{value: func(v reflect.Value, p place) {
		if !p.part && !holdsObjects(v.Type()) {
			fn(v, p)
		}
	}})
}

func (vis visitor) visit(v reflect.Value, p place) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			vis.visit(v.Elem(), p)
		}
		return
	case reflect.Struct:
		for f := range wire.Fields(v.Type()) {
			vis.visit(v.Field(f.Index), place{p.at + "." + f.Name, p.path + "." + f.Name, f.Check, p.entry, p.part})
		}
		return
	}
	vis.value(v, p)
	_, tag, _ := strings.Cut(p.tag, ",") // most
	_, tag, _ = strings.Cut(tag, ",")    // N
	switch part := !holdsObjects(v.Type()); v.Kind() {
	case reflect.Slice:
		for i := range v.Len() {
			vis.visit(v.Index(i), place{p.at + "[" + strconv.Itoa(i) + "]", p.path + "[]", tag, true, part})
		}
	case reflect.Map:
		names, tag, _ := strings.Cut(tag, ",")
		for _, key := range slices.SortedFunc(slices.Values(v.MapKeys()),
			func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) }) {
			at := place{p.at + "." + shown(key.String()), p.path + "{}", names, true, part}
			if vis.name != nil {
				vis.name(key.String(), at)
			}
			at.tag = entryTag(names, tag, v.Type().Elem())
			item := v.MapIndex(key)
			if vis.rewrites { // values of maps cannot be set in place
				item = reflect.New(v.Type().Elem()).Elem()
				item.Set(v.MapIndex(key))
			}
			vis.visit(item, at)
			if vis.rewrites {
				v.SetMapIndex(key, item)
			}
		}
	}
}

// entryTag returns the tag of an entry of an object with free names: its own, or the usual one for texts and
// translations.
func entryTag(names, tag string, of reflect.Type) string {
	switch {
	case tag != "":
		return tag
	case names == "message":
		return "lines," + strconv.Itoa(maxMessage)
	case of.Kind() == reflect.String:
		return "text," + strconv.Itoa(maxMessage)
	case names == "locale":
		return "most,2000,message"
	}
	return ""
}

// holdsObjects reports whether a type is an array of objects, or an object with free names whose values are objects.
func holdsObjects(t reflect.Type) bool {
	if t.Kind() != reflect.Slice && t.Kind() != reflect.Map {
		return false
	}
	return t.Elem().Kind() == reflect.Struct || t.Elem().Kind() == reflect.Pointer
}
