package scim

import (
	"slices"
)

// implied puts the values that a filter of equalities demands into o. It returns false for any other filter.
func implied(f filter, o object) bool {
	switch f := f.(type) {
	case and:
		return implied(f.a, o) && implied(f.b, o)
	case comparison:
		if f.op != "eq" || f.value == nil {
			return false
		}
		o[f.attr.name] = f.value
		return true
	}
	return false
}

// remove removes values: those that meet the filter, those that value lists (as a large directory sends it), or all.
func (p *path) remove(in object, op operation) error {
	value := op.value
	if p.attr.required && p.sub == nil {
		return bad(mutability, p.attr.name+" cannot be removed") // RFC 7644 3.5.2.2
	}
	list, isList := in[p.attr.name].([]any)
	switch {
	case p.sub != nil && !isList:
		if o, ok := in[p.attr.name].(object); ok {
			if delete(o, p.sub.name); len(o) == 0 {
				delete(in, p.attr.name)
			}
		}
		return nil
	case p.sub != nil:
		return p.setIn(in, list, func(o object) bool { return p.filter == nil || p.filter.match(o) }, object{p.sub.name: nil})
	case p.filter == nil && value == nil, !isList:
		delete(in, p.attr.name)
		return nil
	}
	gone, err := p.listed(op)
	if err != nil {
		return err
	}
	kept := slices.DeleteFunc(slices.Clone(list), func(v any) bool {
		o, ok := v.(object)
		switch {
		case p.filter != nil:
			return ok && p.filter.match(o)
		case ok:
			return gone[o["value"]]
		}
		return gone[v]
	})
	set(in, p.attr.name, any(kept))
	if len(kept) == 0 {
		delete(in, p.attr.name)
	}
	return nil
}

// listed returns the values that a remove names by its value.
func (p *path) listed(op operation) (map[any]bool, error) {
	out := map[any]bool{}
	if op.value == nil {
		return out, nil
	}
	v, err := op.read.value(&attribute{name: p.attr.name, kind: p.attr.kind, multi: true, sub: p.attr.sub}, op.value, p.attr.name)
	if err != nil {
		return nil, err
	}
	list, _ := v.([]any)
	for _, v := range list {
		if o, ok := v.(object); ok {
			v = o["value"]
		}
		out[v] = true
	}
	return out, nil
}
