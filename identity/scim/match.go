package scim

import (
	"cmp"
	"encoding/json"
	"strings"
	"time"
)

// complete checks that the value can be compared with the attribute, and prepares it.
func (c comparison) complete(path string) (comparison, error) {
	a := c.leaf()
	if a.typ() == typeComplex {
		v := a.find("value")
		if v == nil || c.sub != nil {
			return c, filterError(path + " has sub-attributes: name one of them")
		}
		c.sub, a = v, v // RFC 7643 2.4: the value of a complex attribute is its sub-attribute value
	}
	if c.value == nil {
		if c.op != "eq" && c.op != "ne" {
			return c, filterError("null can only be equal")
		}
		return c, nil
	}
	switch a.typ() {
	case typeBoolean:
		if s, ok := c.value.(string); ok && (strings.EqualFold(s, "true") || strings.EqualFold(s, "false")) {
			c.value = strings.EqualFold(s, "true")
		}
		if _, ok := c.value.(bool); !ok || c.op != "eq" && c.op != "ne" {
			return c, filterError(path + " is true or false, and can only be equal")
		}
		return c, nil
	case typeBinary:
		if c.op != "eq" && c.op != "ne" {
			return c, filterError(path + " can only be equal")
		}
	}
	s, ok := c.value.(string)
	if !ok {
		return c, filterError(path + " wants a text in quotation marks")
	}
	c.text = a.folded(s)
	if a.typ() == typeDateTime && c.op != "co" && c.op != "sw" && c.op != "ew" {
		var err error
		if c.at, err = time.Parse(time.RFC3339, s); err != nil {
			return c, filterError(path + " wants a time such as 2026-01-31T12:00:00Z")
		}
	}
	return c, nil
}

// leaf is the attribute whose values are compared.
func (c comparison) leaf() *attribute {
	if c.sub != nil {
		return c.sub
	}
	return c.attr
}

// folded returns the form in which texts are compared: lower case, unless the attribute is case-sensitive. (RFC 7643
// 2.2)
func (a *attribute) folded(s string) string {
	if a.exact || a.typ() == typeBinary {
		return s
	}
	return strings.ToLower(s)
}

// values returns all values of the attribute in a resource.
func (c comparison) values(o object) []any { return valuesOf(o, c.attr, c.sub) }

func valuesOf(o object, a, sub *attribute) []any {
	name, nested := a.name, ""
	if !strings.HasPrefix(name, "urn:") || o[name] == nil { // an attribute of an extension that is complex: extension:attribute
		if i := strings.LastIndexByte(name, ':'); strings.HasPrefix(name, "urn:") && i > 0 {
			name, nested = name[:i], name[i+1:]
		}
	}
	v := o[name]
	if nested != "" {
		ext, _ := v.(object)
		v = ext[nested]
	}
	list, ok := v.([]any)
	if !ok {
		if v == nil {
			return nil
		}
		list = []any{v}
	}
	if sub == nil {
		return list
	}
	var out []any
	for _, v := range list {
		o, _ := v.(object)
		switch v := o[sub.name].(type) {
		case nil:
		case []any:
			out = append(out, v...)
		default:
			out = append(out, v)
		}
	}
	return out
}

// match: one of several values is enough. A resource without the attribute is unequal to every value.
func (c comparison) match(o object) bool {
	values := c.values(o)
	switch {
	case c.op == "pr":
		return len(values) > 0
	case c.value == nil:
		return (len(values) == 0) == (c.op == "eq")
	case c.op == "ne":
		c.op = "eq"
		return !c.any(values)
	}
	return c.any(values)
}

func (c comparison) any(values []any) bool {
	for _, v := range values {
		if c.holds(v) {
			return true
		}
	}
	return false
}

func (c comparison) holds(v any) bool {
	switch v := v.(type) {
	case bool:
		return v == c.value
	case json.Number:
		return false
	case string:
		if !c.at.IsZero() {
			at, err := time.Parse(time.RFC3339, v)
			return err == nil && ordered(c.op, at.Compare(c.at))
		}
		s := c.leaf().folded(v)
		switch c.op {
		case "co":
			return strings.Contains(s, c.text)
		case "sw":
			return strings.HasPrefix(s, c.text)
		case "ew":
			return strings.HasSuffix(s, c.text)
		}
		return ordered(c.op, cmp.Compare(s, c.text))
	}
	return false
}

func ordered(op string, sign int) bool {
	switch op {
	case "eq":
		return sign == 0
	case "gt":
		return sign > 0
	case "ge":
		return sign >= 0
	case "lt":
		return sign < 0
	case "le":
		return sign <= 0
	}
	return false
}

// equals returns the text that a filter demands an attribute (and sub-attribute) to have, if every resource that meets
// the filter has it. An index then replaces a scan.
func equals(f filter, attr, sub string) (text string, ok bool) {
	switch f := f.(type) {
	case and:
		if text, ok = equals(f.a, attr, sub); ok {
			return text, ok
		}
		return equals(f.b, attr, sub)
	case some:
		if f.ext != "" || f.in != attr || sub == "" {
			return "", false
		}
		return equals(f.f, sub, "")
	case comparison:
		name := ""
		if f.sub != nil {
			name = f.sub.name
		}
		if f.op != "eq" || f.attr.name != attr || name != sub {
			return "", false
		}
		text, ok = f.value.(string)
		return text, ok
	}
	return "", false
}
