package safexml

import (
	"slices"
	"strconv"
	"strings"
)

// canonical writes the start tags of canonical XML without comments: inclusive (Canonical XML 1.0 and 1.1, for a root)
// or exclusive (Exclusive XML Canonicalization 1.0).
type canonical struct {
	exclusive bool
	prefixes  []string // treated inclusively; #default is the default namespace

	rendered []binding // declarations of the open elements
	marks    []int     // how many there are around each open element
}

// start returns a start tag, and the same with the declarations of the elements around it. The element is open until
// end.
func (c *canonical) start(scope []binding, ev *event) (tag, detached []byte) {
	c.marks = append(c.marks, len(c.rendered))
	var declared []binding
	for _, prefix := range c.uses(scope, ev) {
		uri, ok := lookup(scope, prefix)
		if was, known := lookup(c.rendered, prefix); !ok || was == uri && (known || prefix == "") {
			continue
		}
		declared = append(declared, binding{prefix, uri})
	}
	c.rendered = append(c.rendered, declared...)
	return startTag(scope, ev, declared), startTag(scope, ev, current(c.rendered))
}

func (c *canonical) end() {
	c.rendered = c.rendered[:c.marks[len(c.marks)-1]]
	c.marks = c.marks[:len(c.marks)-1]
}

// uses returns the prefixes that an element declares if they are not declared around it.
func (c *canonical) uses(scope []binding, ev *event) (out []string) {
	if !c.exclusive {
		for _, b := range current(scope) {
			out = append(out, b.prefix)
		}
		return append(out, "") // which can be undeclared
	}
	prefix, _ := splitName(ev.name)
	out = append(out, prefix)
	for _, a := range ev.attrs {
		if prefix, _ := splitName(a.name); prefix != "" && prefix != "xmlns" && prefix != "xml" {
			out = append(out, prefix)
		}
	}
	for _, prefix := range c.prefixes {
		if prefix == "#default" {
			prefix = ""
		}
		out = append(out, prefix)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// current returns the bindings that count, without those of the prefix xml.
func current(scope []binding) (out []binding) {
	for _, b := range slices.Backward(scope) {
		if b.prefix != "xml" && !slices.ContainsFunc(out, func(o binding) bool { return o.prefix == b.prefix }) {
			out = append(out, b)
		}
	}
	return out
}

func startTag(scope []binding, ev *event, declared []binding) []byte {
	out := []byte("<" + ev.name)
	declared = slices.SortedFunc(slices.Values(declared), func(a, b binding) int { return strings.Compare(a.prefix, b.prefix) })
	for i, b := range declared {
		if i > 0 && declared[i-1].prefix == b.prefix { // twice in what is used
			continue
		}
		name := "xmlns"
		if b.prefix != "" {
			name += ":" + b.prefix
		}
		out = attribute(out, name, b.uri)
	}
	type named struct{ space, local, name, value string }
	var attrs []named
	for _, a := range ev.attrs {
		prefix, local := splitName(a.name)
		if a.name == "xmlns" || prefix == "xmlns" {
			continue
		}
		n := named{"", local, a.name, resolve(a.value)}
		switch prefix {
		case "":
		case "xml":
			n.space = nsXML
		default:
			n.space, _ = lookup(scope, prefix)
		}
		attrs = append(attrs, n)
	}
	slices.SortFunc(attrs, func(a, b named) int {
		if a.space != b.space {
			return strings.Compare(a.space, b.space)
		}
		return strings.Compare(a.local, b.local)
	})
	for _, a := range attrs {
		out = attribute(out, a.name, a.value)
	}
	return append(out, '>')
}

func attribute(out []byte, name, value string) []byte {
	out = append(out, " "+name+`="`...)
	out = append(out, escape(value, true)...)
	return append(out, '"')
}

var (
	textEscapes  = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", "\r", "&#xD;")
	valueEscapes = strings.NewReplacer("&", "&amp;", "<", "&lt;", `"`, "&quot;", "\t", "&#x9;", "\n", "&#xA;", "\r", "&#xD;")
)

// escape writes a text, or the value of an attribute. (Canonical XML 1.0, 2.3)
func escape(s string, isValue bool) []byte {
	if isValue {
		return []byte(valueEscapes.Replace(s))
	}
	return []byte(textEscapes.Replace(s))
}

// lines makes one kind of line ends. (XML 2.11)
func lines(s string) string {
	return strings.ReplaceAll(strings.ReplaceAll(s, "\r\n", "\n"), "\r", "\n")
}

// resolve replaces references that the scanner has let through.
func resolve(s string) string {
	if !strings.Contains(s, "&") {
		return s
	}
	var out strings.Builder
	for {
		before, after, ok := strings.Cut(s, "&")
		out.WriteString(before)
		if !ok {
			return out.String()
		}
		ref, rest, _ := strings.Cut(after, ";")
		s = rest
		if plain, ok := entities[ref]; ok {
			out.WriteString(plain)
			continue
		}
		digits, base := strings.TrimPrefix(ref, "#"), 10
		if hex, isHex := strings.CutPrefix(digits, "x"); isHex {
			digits, base = hex, 16
		}
		n, _ := strconv.ParseUint(digits, base, 32)
		out.WriteRune(rune(n)) //nolint:gosec // the scanner has checked it
	}
}

var entities = map[string]string{"lt": "<", "gt": ">", "amp": "&", "apos": "'", "quot": `"`}
