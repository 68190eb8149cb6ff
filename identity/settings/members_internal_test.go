package settings

import (
	"reflect"

	"github.com/gatehouse-id/gatehouse/identity/settings/wire"
)

// member is a member of a unit that is neither an object nor an array of objects.
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
		for f := range wire.Fields(t) {
			out = append(out, membersOf(f.Type, path+"."+f.Name, f.Check)...)
		}
		return out
	case reflect.Slice:
		if holdsObjects(t) {
			return membersOf(t.Elem(), path+"[]", "")
		}
	case reflect.Map:
		if holdsObjects(t) {
			return membersOf(t.Elem(), path+"{}", "")
		}
	}
	return []member{{path, t, tag}}
}
