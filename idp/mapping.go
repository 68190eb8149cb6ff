package idp

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Bounds of what is taken from providers.
const (
	// MaxValue is the longest value of a detail in characters. What is longer is left out.
	MaxValue = 1024
	// MaxValues is how many values a detail has at most. What is more is left out.
	MaxValues = 20
	// MaxSubject is the longest Subject, Issuer and Username in characters.
	MaxSubject = 1024
)

// Attribute says which attribute of the provider becomes which detail of the person.
type Attribute struct {
	From string `json:"from"`
	To   string `json:"to"`
}

// Constant is a detail that everybody from the provider has.
type Constant struct {
	Detail string `json:"detail"`
	Value  string `json:"value"`
}

// Mapping is how attributes become details.
type Mapping struct {
	Attributes []Attribute `json:"attributes,omitempty"`
	Constants  []Constant  `json:"constants,omitempty"`
}

// Validate returns what is wrong: a name that is empty or too long, or one attribute mapped twice to the same detail.
func (m Mapping) Validate() error {
	seen := map[Attribute]bool{}
	for _, a := range m.Attributes {
		switch {
		case !isName(a.From) || !isName(a.To):
			return fmt.Errorf("map %q %q: both are names of 1 to 256 printable characters", a.From, a.To)
		case seen[a]:
			return fmt.Errorf("map %s %s is there twice", a.From, a.To)
		}
		seen[a] = true
	}
	for _, c := range m.Constants {
		if !isName(c.Detail) || !IsText(c.Value, MaxValue) {
			return fmt.Errorf("constant %q: the name has 1 to 256 printable characters, the value at most %d", c.Detail, MaxValue)
		}
	}
	return nil
}

// Apply returns the details. Several attributes may lead to one detail, whose values then follow each other without repeats; a constant
// takes the place of what was mapped, so that nobody at the provider decides about it.
func (m Mapping) Apply(raw map[string][]string) map[string][]string {
	out := map[string][]string{}
	add := func(detail, value string) {
		if value == "" || !IsText(value, MaxValue) || len(out[detail]) >= MaxValues {
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

// IsText tells whether s is UTF-8 without control characters, of at most limit characters.
func IsText(s string, limit int) bool {
	return utf8.ValidString(s) && utf8.RuneCountInString(s) <= limit && !strings.ContainsFunc(s, unicode.IsControl)
}

// Printable returns s as it may be shown to a client: ASCII characters that RFC 6749 4.1.2.1 allows in an error description, at most 256.
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
