package idp

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/gatehouse-id/gatehouse/internal/authn"
	"github.com/gatehouse-id/gatehouse/internal/coded"
)

// Bounds of what is accepted from providers.
const (
	// MaxValue is the longest value of a detail in characters. Longer values are left out.
	MaxValue = 1024
	// maxValues is the largest number of values of a detail. Further values are left out.
	maxValues = 20
	// MaxSubject is the longest Subject, Issuer and Username in characters.
	MaxSubject = 1024
)

// Attribute maps an attribute of the provider to a detail of the person.
type Attribute struct {
	From string `json:"from"`
	To   string `json:"to"`
}

// Constant is a detail that every person from the provider gets.
type Constant struct {
	Detail string `json:"detail"`
	Value  string `json:"value"`
}

// Mapping says how attributes become details.
type Mapping struct {
	Attributes []Attribute `json:"attributes,omitempty"`
	Constants  []Constant  `json:"constants,omitempty"`
}

// Validate returns an error for a name that is empty or too long, and for one attribute mapped twice to the same
// detail.
func (m Mapping) Validate() error {
	seen := map[Attribute]bool{}
	for _, a := range m.Attributes {
		switch {
		case !isName(a.From) || !isName(a.To):
			return coded.Errorf("attribute_name", "", "map %q %q: both are names of 1 to 256 printable characters", a.From, a.To)
		case seen[a]:
			return coded.Errorf("twice", "", "map %s %s appears twice", a.From, a.To)
		}
		seen[a] = true
	}
	for _, c := range m.Constants {
		if !isName(c.Detail) || !IsText(c.Value, MaxValue) {
			return coded.Errorf("constant", "value max", "constant %q: the name has 1 to 256 printable characters, the value at most %d", c.Detail, MaxValue)
		}
	}
	return nil
}

// Apply returns the details. Several attributes can map to one detail, which then gets all their values without
// repeats. A constant replaces mapped values, so the provider cannot change it.
func (m Mapping) Apply(raw map[string][]string) map[string][]string {
	out := map[string][]string{}
	add := func(detail, value string) {
		if value == "" || !IsText(value, MaxValue) || len(out[detail]) >= maxValues {
			return
		}
		for _, have := range out[detail] {
			if have == value {
				return
			}
		}
		out[detail] = append(out[detail], value)
	}
	for _, a := range m.Attributes {
		for _, v := range raw[a.From] {
			add(a.To, strings.TrimSpace(v))
		}
	}
	for _, c := range m.Constants {
		delete(out, c.Detail)
	}
	for _, c := range m.Constants {
		add(c.Detail, c.Value)
	}
	return out
}

// Single returns the value of an attribute that has exactly one, of at most MaxSubject characters, and otherwise "".
func Single(values []string) string {
	if len(values) != 1 || strings.TrimSpace(values[0]) == "" || !IsText(values[0], MaxSubject) {
		return ""
	}
	return values[0]
}

// IsText reports whether s is UTF-8 without control characters, of at most limit characters.
func IsText(s string, limit int) bool {
	return utf8.ValidString(s) && utf8.RuneCountInString(s) <= limit && !authn.Turns(s) && !strings.ContainsFunc(s, unicode.IsControl)
}

// Printable returns the part of s that can be shown to a client: the ASCII characters that RFC 6749 4.1.2.1 allows in
// an error description, at most 256.
func Printable(s string) string {
	s = strings.Map(func(c rune) rune {
		if c < 0x20 || c > 0x7e || c == '"' || c == '\\' {
			return '?'
		}
		return c
	}, s)
	return s[:min(len(s), 256)]
}

func isName(s string) bool { return s != "" && IsText(s, 256) && strings.TrimSpace(s) == s }
