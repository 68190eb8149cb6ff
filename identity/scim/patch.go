package scim

import (
	"reflect"
	"regexp"
	"slices"
	"strings"
)

const maxOperations = 1000 // of one PATCH

// operation is one change of a PATCH. (RFC 7644 3.5.2)
type operation struct {
	op    string // add, replace, remove
	path  *path  // nil: the resource
	value any
	read  *reader
}

// mayHavePassword reports whether the operation can set a password. It may be wrong where it says yes.
func (o operation) mayHavePassword() bool {
	if o.path != nil {
		return o.path.attr.name == "password"
	}
	v, isObject := o.value.(object)
	if !isObject {
		return true
	}
	for name := range v {
		if strings.Contains(lower(name), "password") {
			return true
		}
	}
	return false
}

// path names the target of an operation. (RFC 7644 figure 7)
type path struct {
	ext    *attribute // the extension that attr belongs to, or nil
	attr   *attribute
	filter filter     // nil: all values
	sub    *attribute // nil: the whole
}

// parsePatch reads a PATCH message, without operations on what is not known.
func (d *reader) parsePatch(t *resourceType, v any) ([]operation, error) {
	m, err := message(v, patchMessage, "Operations")
	if err != nil {
		return nil, err
	}
	list, _ := m["Operations"].([]any)
	if len(list) == 0 || len(list) > maxOperations {
		return nil, bad(invalidSyntax, "Operations wants 1 to 1000 operations")
	}
	out := make([]operation, 0, len(list))
	for _, v := range list {
		o, err := members(v, "op", "path", "value")
		if err != nil {
			return nil, err
		}
		op, err := d.operation(t, o)
		name, _ := o["path"].(string)
		if err != nil {
			if err := d.excuse(err, conditions.ReplaceAllString(name, "")); err != nil {
				return nil, err
			}
			continue
		}
		if t.foreignPath(name) {
			d.omit(conditions.ReplaceAllString(name, "")) // as in a resource that is sent whole
			continue
		}
		out = append(out, op)
	}
	return out, nil
}

func (d *reader) operation(t *resourceType, o object) (op operation, err error) {
	name, _ := o["op"].(string)
	op.op, op.value, op.read = lower(name), o["value"], d
	if !slices.Contains([]string{"add", "replace", "remove"}, op.op) {
		return op, bad(invalidSyntax, "op wants add, replace or remove")
	}
	_, hasValue := o["value"]
	if op.op != "remove" && !hasValue {
		return op, bad(invalidValue, op.op+" wants a value")
	}
	switch p := o["path"].(type) {
	case nil:
		if op.op == "remove" {
			return op, bad(noTarget, "remove wants a path") // RFC 7644 3.5.2.2
		}
		return op, nil
	case string:
		if !t.foreignPath(p) {
			op.path, err = t.path(p)
		}
		return op, err
	}
	return op, bad(invalidPath, "path wants a text")
}

var conditions = regexp.MustCompile(`\[[^\]]*\]`)

// foreignPath reports whether a path leads into an extension of someone else.
func (t *resourceType) foreignPath(s string) bool {
	name, _, _ := strings.Cut(s, "[")
	return foreign(t.canonical(name))
}

// path reads attribute, attribute.sub, attribute[filter] or attribute[filter].sub.
func (t *resourceType) path(s string) (*path, error) {
	if len(s) > maxFilter {
		return nil, bad(invalidPath, "path is too long")
	}
	p := &filterParser{s: s, root: t}
	name := p.path()
	a, sub, ok := t.resolve(name)
	if !ok {
		e := unfit(unknown("", name))
		e.Type = invalidPath
		return nil, e
	}
	out := &path{attr: a, sub: sub}
	if strings.HasPrefix(a.name, "urn:") {
		base := a.name
		if i := strings.LastIndexByte(base, ':'); find(t.root, base) == nil {
			base = base[:i] // extension:attribute.sub
			out = &path{ext: find(t.root, base), attr: find(t.root, base).find(a.name[i+1:]), sub: sub}
		} else if sub != nil {
			out = &path{ext: a, attr: sub}
		}
	}
	if p.at < len(s) && s[p.at] == '[' {
		if !out.attr.multi || out.attr.sub == nil || out.sub != nil {
			return nil, bad(invalidPath, "brackets belong after an attribute of several values")
		}
		p.at++
		p.in = out.attr
		var err error
		if out.filter, err = p.or(); err != nil {
			return nil, err
		}
		if !p.char(']') {
			return nil, bad(invalidPath, "a bracket is not closed")
		}
		if p.char('.') {
			if out.sub = out.attr.find(p.path()); out.sub == nil {
				e := unfit("path names no sub-attribute that is known")
				e.Type = invalidPath
				return nil, e
			}
		}
	}
	if p.space(); p.at < len(s) {
		return nil, bad(invalidPath, "there is more after the path's end")
	}
	for _, a := range []*attribute{out.attr, out.sub} {
		if a != nil && a.mutability == readOnly {
			return nil, bad(mutability, a.name+" cannot be changed")
		}
	}
	return out, nil
}

// apply changes the resource o in place.
func (t *resourceType) apply(o object, ops []operation) error {
	for _, op := range ops {
		if err := t.applyOne(o, op); err != nil {
			return err
		}
	}
	for _, a := range t.root {
		if a.required && a.name != "schemas" && o[a.name] == nil {
			return bad(invalidValue, a.name+" is required")
		}
	}
	return nil
}

func (t *resourceType) applyOne(o object, op operation) error {
	if op.path != nil {
		in := o
		if op.path.ext != nil {
			if in, _ = o[op.path.ext.name].(object); in == nil {
				in = object{}
			}
			o[op.path.ext.name] = in
		}
		err := op.path.apply(in, op)
		name := op.path.attr.name
		if op.path.ext != nil {
			name = op.path.ext.name + ":" + name
		}
		if op.path.ext != nil || !op.path.attr.required {
			err = op.read.excuse(err, name)
		}
		if op.path.ext != nil && len(in) == 0 {
			delete(o, op.path.ext.name)
		}
		return err
	}
	value, ok := op.value.(object)
	if !ok {
		return bad(invalidValue, "value wants an object where there is no path")
	}
	for name, v := range value { // in any order: no two of them are about the same attribute
		if equalFold(name, "schemas") || t.foreignPath(name) {
			continue
		}
		p, err := t.path(name)
		if err != nil {
			if e := asError(err); e.Type == mutability {
				continue // as in a resource that is sent whole
			}
			if err := op.read.excuse(err, name); err != nil {
				return err
			}
			continue
		}
		if err := t.applyOne(o, operation{op.op, p, v, op.read}); err != nil {
			return err
		}
	}
	return nil
}

func (p *path) apply(in object, op operation) error {
	switch {
	case op.op == "remove":
		return p.remove(in, op)
	case p.filter != nil:
		return p.setMatching(in, op)
	case p.sub != nil:
		return p.setSub(in, op)
	case p.attr.multi:
		return p.setMulti(in, op)
	}
	v, err := op.read.value(p.attr, op.value, p.attr.name)
	if err != nil {
		return err
	}
	if o, ok := v.(object); ok { // sub-attributes that are not named stay (RFC 7644 3.5.2.1, 3.5.2.3)
		merged, _ := in[p.attr.name].(object)
		if merged == nil {
			merged = object{}
		}
		for name, v := range o {
			merged[name] = v
		}
		v = merged
	}
	set(in, p.attr.name, v)
	return nil
}

// set gives a member a value, and removes the member if there is no value.
func set(in object, name string, v any) {
	if v == nil {
		delete(in, name)
		return
	}
	in[name] = v
}

// setMulti adds to, or replaces, all values.
func (p *path) setMulti(in object, op operation) error {
	v, err := op.read.value(p.attr, op.value, p.attr.name)
	if err != nil {
		return err
	}
	fresh, _ := v.([]any)
	if op.op == "replace" {
		set(in, p.attr.name, v)
		return nil
	}
	list, _ := in[p.attr.name].([]any)
	list = slices.Clone(list)
	for _, v := range fresh {
		if slices.ContainsFunc(list, func(o any) bool { return reflect.DeepEqual(o, v) }) {
			continue // RFC 7644 3.5.2.1: a value that is there already changes nothing
		}
		list = append(demoted(list, v), v)
	}
	if len(list) > 0 {
		in[p.attr.name] = list
	}
	return nil
}

// demoted clears the primary mark of all values when a new value has it. (RFC 7644 3.5.2)
func demoted(list []any, by any) []any {
	if o, ok := by.(object); !ok || o["primary"] != true {
		return list
	}
	out := make([]any, len(list))
	for i, v := range list {
		if o, ok := v.(object); ok && o["primary"] == true {
			c := cloneObject(o)
			c["primary"] = false
			v = c
		}
		out[i] = v
	}
	return out
}

func cloneObject(o object) object {
	out := make(object, len(o))
	for k, v := range o {
		out[k] = v
	}
	return out
}

// setSub changes one sub-attribute of every value.
func (p *path) setSub(in object, op operation) error {
	v, err := op.read.value(p.sub, op.value, p.attr.name+"."+p.sub.name)
	if err != nil {
		return err
	}
	if !p.attr.multi {
		o, _ := in[p.attr.name].(object)
		if o == nil {
			o = object{}
		}
		set(o, p.sub.name, v)
		if len(o) == 0 {
			delete(in, p.attr.name)
		} else {
			in[p.attr.name] = o
		}
		return nil
	}
	list, _ := in[p.attr.name].([]any)
	if len(list) == 0 {
		return bad(noTarget, p.attr.name+" has no value whose "+p.sub.name+" could change")
	}
	return p.setIn(in, list, func(object) bool { return true }, object{p.sub.name: v})
}

// setIn changes members of the chosen values.
func (p *path) setIn(in object, list []any, chosen func(object) bool, to object) error {
	out := slices.Clone(list)
	for i, v := range out {
		o, ok := v.(object)
		if !ok || !chosen(o) {
			continue
		}
		c := cloneObject(o)
		for name, v := range to {
			if sub := p.attr.find(name); sub != nil && sub.mutability == immutable && c[name] != nil && c[name] != v {
				return bad(mutability, p.attr.name+"."+name+" cannot be changed")
			}
			set(c, name, v)
		}
		if to["primary"] == true {
			out = demoted(out, to)
		}
		out[i] = c
	}
	in[p.attr.name] = out
	return nil
}

// setMatching changes the values that meet the filter. If there are none and the filter demands equality alone, it
// makes such a value, as directories expect of add and of emails[type eq "work"].value.
func (p *path) setMatching(in object, op operation) error {
	to := object{}
	if p.sub != nil {
		v, err := op.read.value(p.sub, op.value, p.attr.name+"."+p.sub.name)
		if err != nil {
			return err
		}
		to[p.sub.name] = v
	} else {
		v, err := op.read.one(p.attr, op.value, p.attr.name)
		if err != nil {
			return err
		}
		o, ok := v.(object)
		if !ok {
			return bad(invalidValue, p.attr.name+" wants an object")
		}
		to = o
	}
	list, _ := in[p.attr.name].([]any)
	if slices.ContainsFunc(list, func(v any) bool { o, ok := v.(object); return ok && p.filter.match(o) }) {
		return p.setIn(in, list, p.filter.match, to)
	}
	made := object{}
	if op.op == "replace" && p.sub == nil || !implied(p.filter, made) {
		return bad(noTarget, "no value of "+p.attr.name+" meets the condition") // RFC 7644 3.5.2.3
	}
	for name, v := range to {
		set(made, name, v)
	}
	in[p.attr.name] = append(demoted(list, made), any(made))
	return nil
}

// listed are the values that a remove names by its value.
