package rar

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/gatehouse-id/gatehouse/internal/web"
)

// Describe returns what a person is shown of details that Read has returned: everything that they say, in the words of
// the operator. A member that the operator gave no words is shown by its name.
func (t *Types) Describe(text string) (out []web.Detail) {
	for _, one := range Split(text) {
		d, name := parse(one), typeOf(one)
		s := web.Detail{Type: name}
		of := t.byName[name]
		if of == nil {
			of = new(Type) // it was removed since
		}
		s.Title = of.Description
		for _, member := range common[1:] {
			if v, there := d[member]; there {
				s.Rows = append(s.Rows, web.DetailRow{Name: member, Values: valuesOf(v)})
			}
		}
		// Those of the operator in their order.
		own := map[string]any{}
		collect(own, "", d)
		for _, m := range of.Members {
			if v, there := own[m.Path]; there {
				label := m.Label
				if len(label) == 0 {
					label = web.Texts{"": m.Path}
				}
				s.Rows = append(s.Rows, web.DetailRow{Name: m.Path, Label: label, Values: valuesOf(v)})
				delete(own, m.Path)
			}
		}
		for _, path := range slices.Sorted(maps.Keys(own)) {
			s.Rows = append(s.Rows, web.DetailRow{Name: path, Label: web.Texts{"": path}, Values: valuesOf(own[path])})
		}
		out = append(out, s)
	}
	return out
}

// collect adds the members of an object by their paths, without the common ones.
func collect(into map[string]any, path string, d map[string]any) {
	for name, v := range d {
		at := strings.TrimPrefix(path+"."+name, ".")
		if path == "" && slices.Contains(common, name) {
			continue
		}
		if inner, ok := v.(map[string]any); ok {
			collect(into, at, inner)
			continue
		}
		into[at] = v
	}
}

func valuesOf(v any) (out []string) {
	switch v := v.(type) {
	case string:
		return []string{v}
	case json.Number:
		return []string{string(v)}
	case []any:
		for _, one := range v {
			out = append(out, valuesOf(one)...)
		}
		return out
	}
	return []string{fmt.Sprint(v)}
}
