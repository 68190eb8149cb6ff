package scim

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
)

// Bounds of a filter, and so of the cost of reading it and of comparing it with each resource.
const (
	maxFilter      = 4096 // bytes
	maxFilterDepth = 16   // of parentheses, not and brackets
	maxFilterNodes = 128  // comparisons
)

// filter is a condition on resources. (RFC 7644 3.4.2.2)
type filter interface {
	// match reports whether a resource, or within brackets one value, meets the condition.
	match(o object) bool
}

type (
	and  struct{ a, b filter }
	or   struct{ a, b filter }
	not  struct{ f filter }
	some struct { // attr[filter]: one value meets all of it
		attr *attribute
		in   string // member of the resource, or of its extension
		ext  string
		f    filter
	}
	comparison struct {
		attr, sub *attribute // sub may be nil
		op        string     // eq ne co sw ew pr gt ge lt le
		value     any        // string, bool, json.Number or nil
		text      string     // of a string, folded where case does not matter
		at        time.Time  // of a dateTime
	}
)

func (f and) match(o object) bool { return f.a.match(o) && f.b.match(o) }
func (f or) match(o object) bool  { return f.a.match(o) || f.b.match(o) }
func (f not) match(o object) bool { return !f.f.match(o) }

func (f some) match(o object) bool {
	if f.ext != "" {
		o, _ = o[f.ext].(object)
	}
	list, ok := o[f.in].([]any)
	if one, isOne := o[f.in].(object); isOne {
		list, ok = []any{one}, true
	}
	if !ok {
		return false
	}
	for _, v := range list {
		if o, ok := v.(object); ok && f.f.match(o) {
			return true
		}
	}
	return false
}

// filterParser reads the grammar of RFC 7644 figure 1: or binds weaker than and, and weaker than not.
type filterParser struct {
	s     string
	at    int
	root  *resourceType
	in    *attribute // within brackets: the attribute whose values are looked at
	depth int
	nodes int
}

func filterError(detail string) *Error { return bad(invalidFilter, "filter: "+detail) }

// parseFilter reads a filter of a resource type.
func parseFilter(t *resourceType, s string) (filter, error) {
	if len(s) > maxFilter || !utf8.ValidString(s) {
		return nil, filterError(fmt.Sprintf("want UTF-8 of at most %d bytes", maxFilter))
	}
	p := &filterParser{s: s, root: t}
	f, err := p.or()
	if err != nil {
		return nil, err
	}
	if p.space(); p.at < len(p.s) {
		return nil, filterError("there is more after its end")
	}
	return f, nil
}

func (p *filterParser) space() {
	for p.at < len(p.s) && p.s[p.at] == ' ' {
		p.at++
	}
}

// word takes a word in any case if it comes next and ends there.
func (p *filterParser) word(w string) bool {
	p.space()
	end := p.at + len(w)
	if end > len(p.s) || !equalFold(p.s[p.at:end], w) || end < len(p.s) && p.s[end] != ' ' && p.s[end] != '(' {
		return false
	}
	p.at = end
	return true
}

func (p *filterParser) char(c byte) bool {
	p.space()
	if p.at >= len(p.s) || p.s[p.at] != c {
		return false
	}
	p.at++
	return true
}

func (p *filterParser) or() (filter, error) {
	f, err := p.and()
	for err == nil && p.word("or") {
		var g filter
		if g, err = p.and(); err == nil {
			f = or{f, g}
		}
	}
	return f, err
}

func (p *filterParser) and() (filter, error) {
	f, err := p.term()
	for err == nil && p.word("and") {
		var g filter
		if g, err = p.term(); err == nil {
			f = and{f, g}
		}
	}
	return f, err
}

func (p *filterParser) term() (filter, error) {
	negated := p.word("not")
	if !p.char('(') {
		if negated {
			return nil, filterError("not wants parentheses")
		}
		return p.comparison()
	}
	if p.depth++; p.depth > maxFilterDepth {
		return nil, filterError("it is nested too deeply")
	}
	f, err := p.or()
	if err != nil {
		return nil, err
	}
	if !p.char(')') {
		return nil, filterError("a parenthesis is not closed")
	}
	p.depth--
	if negated {
		f = not{f}
	}
	return f, nil
}

// path takes the longest run of characters of a path.
func (p *filterParser) path() string {
	p.space()
	start := p.at
	for p.at < len(p.s) && (isLetter(p.s[p.at]) || strings.IndexByte("0123456789-_$:.", p.s[p.at]) >= 0) {
		p.at++
	}
	return p.s[start:p.at]
}

func isLetter(c byte) bool { return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' }

// attributes returns the attribute and sub-attribute that a path names here.
func (p *filterParser) attributes(path string) (a, sub *attribute, err error) {
	ok := false
	if p.in != nil {
		a = p.in.find(path)
		ok = a != nil
	} else {
		a, sub, ok = p.root.resolve(path)
	}
	if !ok {
		return nil, nil, filterError(unknown("", path))
	}
	for _, x := range []*attribute{a, sub} {
		if x != nil && (x.returned == returnedNever || x.mutability == writeOnly) {
			return nil, nil, filterError(x.name + " cannot be looked for")
		}
	}
	return a, sub, nil
}

func (p *filterParser) comparison() (filter, error) {
	if p.nodes++; p.nodes > maxFilterNodes {
		return nil, filterError("it has too many conditions")
	}
	path := p.path()
	if path == "" {
		return nil, filterError("want the name of an attribute")
	}
	a, sub, err := p.attributes(path)
	if err != nil {
		return nil, err
	}
	if p.at < len(p.s) && p.s[p.at] == '[' {
		return p.brackets(a, sub)
	}
	c, err := p.operator(path, comparison{attr: a, sub: sub})
	return c, err
}

// operator reads what comes after the name of an attribute.
func (p *filterParser) operator(path string, c comparison) (comparison, error) {
	for _, op := range []string{"eq", "ne", "co", "sw", "ew", "gt", "ge", "lt", "le"} {
		if p.word(op) {
			c.op = op
			break
		}
	}
	if c.op == "" {
		if !p.word("pr") && !p.present() {
			return c, filterError("want one of eq, ne, co, sw, ew, pr, gt, ge, lt, le after " + path)
		}
		c.op = "pr"
		return c, nil
	}
	var err error
	if c.value, err = p.value(); err != nil {
		return c, err
	}
	return c.complete(path)
}

// within returns the condition attr[filter].sub op value, as Microsoft Entra asks for emails[type eq "work"].value: one
// of the values that meet the filter is enough, and a resource without them is unequal to every value.
func (c comparison) within(f some) filter {
	negated := c.op == "ne"
	switch {
	case c.op != "pr" && c.value == nil:
		c.op, negated = "pr", !negated
	case negated:
		c.op = "eq"
	}
	f.f = and{f.f, c}
	if negated {
		return not{f}
	}
	return f
}

// present takes pr where a condition ends without a space.
func (p *filterParser) present() bool {
	p.space()
	if end := p.at + 2; end < len(p.s) && equalFold(p.s[p.at:end], "pr") && (p.s[end] == ')' || p.s[end] == ']') {
		p.at = end
		return true
	}
	return false
}

func (p *filterParser) brackets(a, sub *attribute) (filter, error) {
	f := some{attr: a, in: a.name}
	if sub != nil { // an attribute of an extension
		f = some{attr: sub, in: sub.name, ext: a.name}
	}
	if p.in != nil || f.attr.sub == nil {
		return nil, filterError("brackets belong after an attribute with sub-attributes")
	}
	p.at++
	if p.depth++; p.depth > maxFilterDepth {
		return nil, filterError("it is nested too deeply")
	}
	p.in = f.attr
	var err error
	if f.f, err = p.or(); err != nil {
		return nil, err
	}
	p.in = nil
	p.depth--
	if !p.char(']') {
		return nil, filterError("a bracket is not closed")
	}
	if p.at == len(p.s) || p.s[p.at] != '.' {
		return f, nil
	}
	p.at++
	name := p.path()
	c := comparison{attr: f.attr.find(name)}
	if c.attr == nil {
		return nil, filterError(unknown(f.attr.name+".", name))
	}
	if c, err = p.operator(f.attr.name+"."+name, c); err != nil {
		return nil, err
	}
	return c.within(f), nil
}

// value takes a JSON text, number, true, false or null.
func (p *filterParser) value() (any, error) {
	p.space()
	start := p.at
	if p.at < len(p.s) && p.s[p.at] == '"' {
		for p.at++; p.at < len(p.s) && p.s[p.at] != '"'; p.at++ {
			if p.s[p.at] == '\\' {
				p.at++
			}
		}
		p.at++
	} else {
		for p.at < len(p.s) && (isLetter(p.s[p.at]) || strings.IndexByte("0123456789-+.", p.s[p.at]) >= 0) {
			p.at++
		}
	}
	if p.at > len(p.s) || p.at == start {
		return nil, filterError("want a value in JSON")
	}
	dec := json.NewDecoder(strings.NewReader(p.s[start:p.at]))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil || dec.More() {
		if w := lower(p.s[start:p.at]); w == "true" || w == "false" { // as a large directory writes them
			return w == "true", nil
		}
		return nil, filterError("want a value in JSON")
	}
	return v, nil
}
