// Package fieldname compares the names of HTTP fields as servers behind CGI read them, for which several spellings are
// one name.
package fieldname

import (
	"net/http"
	"strings"
	"unicode/utf8"
)

// Same reports whether two names are equal to software that folds case and any sign to -, since programs behind CGI
// read _ for it. Some servers write _ for _ and . alone, lighttpd for all that is neither letter nor digit.
func Same(a, b string) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range len(a) {
		if fold(a[i]) != fold(b[i]) {
			return false
		}
	}
	return true
}

func fold(c byte) byte {
	switch {
	case 'A' <= c && c <= 'Z':
		return c + 'a' - 'A'
	case 'a' <= c && c <= 'z', '0' <= c && c <= '9':
		return c
	}
	return '-'
}

// Plain returns a name with - for each other sign. It is the name itself if no other one can pass for it.
func Plain(name string) string {
	return strings.Map(func(c rune) rune {
		if c < utf8.RuneSelf && fold(byte(c)) == '-' {
			return '-'
		}
		return c
	}, name)
}

// A Set finds names in any spelling that is the Same.
type Set struct {
	byLen [64][]string // fields of each length
	long  []string
}

// NewSet returns a set of names.
func NewSet(names ...string) *Set {
	s := new(Set)
	for _, n := range names {
		if len(n) < len(s.byLen) {
			s.byLen[len(n)] = append(s.byLen[len(n)], n)
		} else {
			s.long = append(s.long, n)
		}
	}
	return s
}

// Has reports whether name is a spelling of one in the set.
func (s *Set) Has(name string) bool {
	candidates := s.long
	if len(name) < len(s.byLen) {
		candidates = s.byLen[len(name)]
	}
	for _, c := range candidates {
		if Same(c, name) {
			return true
		}
	}
	return false
}

// DeleteFrom deletes every spelling of the names.
func (s *Set) DeleteFrom(h http.Header) {
	for name := range h {
		if s.Has(name) {
			delete(h, name)
		}
	}
}
