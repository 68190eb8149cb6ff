package openapi

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
)

// schemas gathers the schemas of named types. (JSON Schema 2020-12, as in OpenAPI 3.1)
type schemas struct {
	names map[string]object
	types map[string]reflect.Type
	err   error
}

var (
	timeType = reflect.TypeFor[time.Time]()
	rawType  = reflect.TypeFor[json.RawMessage]()
)

// of returns the schema of a value's type.
func (s *schemas) of(v any) object { return s.schema(reflect.TypeOf(v)) }

func (s *schemas) schema(t reflect.Type) object {
	switch t {
	case timeType:
		return object{"type": "string", "format": "date-time"}
	case rawType:
		return object{}
	}
	switch t.Kind() {
	case reflect.Pointer:
		return s.schema(t.Elem())
	case reflect.Struct:
		if t.Name() == "" {
			return s.object(t)
		}
		return s.named(t)
	case reflect.Slice, reflect.Array:
		return object{"type": "array", "items": s.schema(t.Elem())}
	case reflect.Map:
		return object{"type": "object", "additionalProperties": s.schema(t.Elem())}
	case reflect.String:
		return object{"type": "string"}
	case reflect.Bool:
		return object{"type": "boolean"}
	case reflect.Int64:
		return object{"type": "integer", "format": "int64"}
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return object{"type": "integer"}
	case reflect.Float32, reflect.Float64:
		return object{"type": "number"}
	case reflect.Interface:
		return object{}
	}
	s.err = fmt.Errorf("openapi: no schema for %s", t)
	return object{}
}

// named refers to the schema of a struct, which is made once. Of two types with the same name in two packages the
// second one gets the package's name in front.
func (s *schemas) named(t reflect.Type) object {
	if s.types == nil {
		s.types = map[string]reflect.Type{}
	}
	name := strings.ToUpper(t.Name()[:1]) + t.Name()[1:]
	if other, ok := s.types[name]; ok && other != t {
		pkg := t.PkgPath()[strings.LastIndexByte(t.PkgPath(), '/')+1:]
		name = strings.ToUpper(pkg[:1]) + pkg[1:] + name
	}
	if s.types[name] == nil {
		s.types[name], s.names[name] = t, object{} // first, since it may hold itself
		s.names[name] = s.object(t)
	}
	return object{"$ref": "#/components/schemas/" + name}
}

// object is the schema of a struct: unknown members are refused.
func (s *schemas) object(t reflect.Type) object {
	properties := object{}
	var required []string
	for _, f := range reflect.VisibleFields(t) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if !f.IsExported() || name == "-" || f.Anonymous && name == "" {
			continue
		}
		if name == "" {
			name = f.Name
		}
		properties[name] = s.member(f)
		if f.Tag.Get("rest") == "required" {
			required = append(required, name)
		}
	}
	out := object{"type": "object", "properties": properties, "additionalProperties": false}
	if len(required) > 0 {
		slices.Sort(required)
		out["required"] = required
	}
	return out
}

// member adds the tags of a field to the schema of its type: check holds limits, of which those that JSON Schema can
// express are shown.
func (s *schemas) member(f reflect.StructField) object {
	out := s.schema(f.Type)
	if f.Type.Name() == "Secret" {
		out["writeOnly"] = true
	}
	rule := strings.Split(f.Tag.Get("check"), ",")
	switch {
	case rule[0] == "enum" && len(rule) == 2:
		out["enum"] = strings.Split(rule[1], "|")
	case rule[0] == "int" && len(rule) == 3:
		out["minimum"], out["maximum"] = number(rule[1]), number(rule[2])
	case rule[0] == "text" && len(rule) == 2:
		out["maxLength"] = number(rule[1])
	case rule[0] == "most" && len(rule) >= 2 && out["type"] == "array":
		out["maxItems"] = number(rule[1])
		if len(rule) == 4 && rule[2] == "enum" {
			if items, ok := out["items"].(object); ok {
				items["enum"] = strings.Split(rule[3], "|")
			}
		}
	}
	return out
}

func number(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		panic("openapi: " + s + " is not a limit")
	}
	return n
}
