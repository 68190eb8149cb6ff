// Package wire reports which fields of a settings struct appear in JSON, and under which names.
package wire

import (
	"iter"
	"reflect"
	"slices"
	"strings"
	"sync"
)

// Field is a field of a struct as it is on the wire.
type Field struct {
	Name  string // the member of the object
	Check string // which values are valid, as package kind reads it; "" is every one of the type
	Index int    // of the field in the struct
	Type  reflect.Type
}

// fields has the fields of each struct that was asked for: each check of the settings goes through all of them.
var fields sync.Map // []Field by reflect.Type

// Fields yields the fields of a struct that are on the wire, in the order in which they are declared.
func Fields(t reflect.Type) iter.Seq[Field] {
	known, ok := fields.Load(t)
	if !ok {
		known, _ = fields.LoadOrStore(t, read(t))
	}
	return slices.Values(known.([]Field))
}

func read(t reflect.Type) (out []Field) {
	for i := range t.NumField() {
		if f := t.Field(i); f.IsExported() {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			out = append(out, Field{name, f.Tag.Get("check"), i, f.Type})
		}
	}
	return out
}
