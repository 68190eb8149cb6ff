// Package wire reports which fields of a settings struct appear in JSON, and under which names.
package wire

import (
	"iter"
	"reflect"
	"strings"
)

// Field is a field of a struct as it is on the wire.
type Field struct {
	Name  string // the member of the object
	Check string // which values are valid, as package kind reads it; "" is every one of the type
	Index int    // of the field in the struct
	Type  reflect.Type
}

// Fields yields the fields of a struct that are on the wire, in the order in which they are declared.
func Fields(t reflect.Type) iter.Seq[Field] {
	return func(yield func(Field) bool) {
		for i := range t.NumField() {
			f := t.Field(i)
			if !f.IsExported() {
				continue
			}
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if !yield(Field{name, f.Tag.Get("check"), i, f.Type}) {
				return
			}
		}
	}
}
