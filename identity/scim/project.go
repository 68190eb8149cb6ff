package scim

import (
	"net/url"
	"slices"
	"strings"
)

const maxSelected = 100 // attributes that a request names

// selection is the attributes that a request selects. (RFC 7644 3.9)
type selection struct {
	t        *resourceType
	only     map[string][]string // attribute to sub-attributes, none: the whole; nil: all
	excluded map[string][]string
}

// selectionOf reads the parameters attributes and excludedAttributes. An unknown name selects nothing.
func selectionOf(t *resourceType, attributes, excluded []string) (selection, error) {
	sel := selection{t: t}
	if len(attributes) > 0 && len(excluded) > 0 {
		return sel, bad(invalidValue, "attributes and excludedAttributes exclude each other")
	}
	if len(attributes)+len(excluded) > maxSelected {
		return sel, bad(invalidValue, "too many attributes are named")
	}
	read := func(names []string) map[string][]string {
		if len(names) == 0 {
			return nil
		}
		out := map[string][]string{}
		for _, n := range names {
			a, sub, ok := t.resolve(strings.TrimSpace(n))
			if !ok {
				continue
			}
			name, subName := a.name, ""
			if sub != nil {
				subName = sub.name
			}
			if find(t.root, name) == nil { // extension:attribute.sub: the whole attribute
				i := strings.LastIndexByte(name, ':')
				name, subName = name[:i], name[i+1:]
			}
			if before, seen := out[name]; subName == "" || seen && before == nil {
				out[name] = nil
			} else {
				out[name] = append(before, subName)
			}
		}
		return out
	}
	sel.only, sel.excluded = read(attributes), read(excluded)
	return sel, nil
}

// selectionOfQuery reads them from a URL, where commas separate names.
func selectionOfQuery(t *resourceType, q url.Values) (selection, error) {
	split := func(name string) (out []string) {
		for _, v := range q[name] {
			out = append(out, strings.Split(v, ",")...)
		}
		return slices.DeleteFunc(out, func(s string) bool { return strings.TrimSpace(s) == "" })
	}
	return selectionOf(t, split("attributes"), split("excludedAttributes"))
}

// isAll reports whether nothing was selected.
func (sel selection) isAll() bool { return sel.only == nil && sel.excluded == nil }

// wants reports whether an attribute is selected.
func (sel selection) wants(name string) bool {
	if sel.only != nil {
		_, named := sel.only[name]
		return named
	}
	subs, named := sel.excluded[name]
	return !named || subs != nil
}

// project returns the selected attributes of a resource, and those that are always returned.
func (sel selection) project(o object) object {
	if sel.isAll() {
		return o
	}
	out := object{}
	for name, v := range o {
		a := find(sel.t.root, name)
		if a != nil && a.returned == returnedAlways {
			out[name] = v
			continue
		}
		if !sel.wants(name) {
			continue
		}
		keep, drop := sel.only[name], sel.excluded[name]
		v = narrow(v, func(sub string) bool {
			return (keep == nil || slices.Contains(keep, sub)) && !slices.Contains(drop, sub)
		})
		if v != nil {
			out[name] = v
		}
	}
	return out
}

// narrow removes the members of complex values that are not selected.
func narrow(v any, wanted func(string) bool) any {
	switch v := v.(type) {
	case object:
		out := object{}
		for name, member := range v {
			if wanted(name) {
				out[name] = member
			}
		}
		if len(out) == 0 {
			return nil
		}
		return out
	case []any:
		out := make([]any, 0, len(v))
		for _, one := range v {
			if one = narrow(one, wanted); one != nil {
				out = append(out, one)
			}
		}
		if len(out) == 0 {
			return nil
		}
		return out
	}
	return v
}
