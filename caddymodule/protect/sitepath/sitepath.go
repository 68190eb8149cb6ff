// Package sitepath decides which spellings of a path can be read in one way only, and takes parameters out of queries.
package sitepath

import (
	"net/url"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/gatehouse-id/gatehouse/internal/coded"
)

// Public are paths that need no sign-in: exact ones, and prefixes that end in "/*".
type Public []string

// Match reports whether a decoded path, whose escaped form is canonical, is public.
func (l Public) Match(path string) bool {
	for _, p := range l {
		if prefix, ok := strings.CutSuffix(p, "*"); ok {
			if strings.HasPrefix(path, prefix) {
				return true
			}
		} else if path == p {
			return true
		}
	}
	return false
}

// CheckPublic accepts a path that is open: /exact and /below/*.
func CheckPublic(s string) error {
	path := strings.TrimSuffix(s, "*")
	switch {
	case s == "/*":
		return coded.New("public_all", "/* would open the whole site: leave protect out instead")
	case path != s && !strings.HasSuffix(path, "/"):
		return coded.Errorf("public_star", "value", "%q: a * must be alone after a slash, as in /assets/*", s)
	case strings.Contains(path, "*") || !Canonical((&url.URL{Path: path}).EscapedPath()):
		return coded.Errorf("public_path", "value", "%q is not a path such as /healthz or /assets/*", s)
	}
	return nil
}

// Canonical reports whether servers can read an escaped path in one way only. Where a path decides about access,
// any other spelling is refused: empty and dot segments, backslashes, parameters (;), needless escapes, escaped or
// doubly escaped separators, control characters, anything that is not UTF-8, and characters that normalise to one of
// these.
func Canonical(escaped string) bool {
	if escaped == "" || escaped[0] != '/' || strings.Contains(escaped, "//") {
		return false
	}
	plain := true
	for i := 0; i < len(escaped); i++ {
		switch c := escaped[i]; {
		case c == '%':
			if i+2 >= len(escaped) {
				return false
			}
			b, ok := unhex(escaped[i+1], escaped[i+2])
			if !ok || Unreserved(b) || strings.IndexByte("/\\%;.", b) >= 0 || b < ' ' || b == 0x7f {
				return false
			}
			plain = plain && b < utf8.RuneSelf
			i += 2
		case c == '\\' || c == ';' || c <= ' ' || c == 0x7f:
			return false
		case c >= utf8.RuneSelf:
			plain = false
		}
	}
	path := escaped
	if strings.IndexByte(escaped, '%') >= 0 {
		var err error
		if path, err = url.PathUnescape(escaped); err != nil {
			return false
		}
	}
	before := ""
	for seg := range strings.SplitSeq(path[1:], "/") {
		if seg != "" && strings.Trim(seg, ". ") == "" { // ".", "..", and what some systems take for them
			return false
		}
		// Windows opens the directory "api" by the names "api." and "api ". At the end of a path Caddy's matchers do the
		// same.
		if before != "" && strings.ContainsAny(before[len(before)-1:], ". ") {
			return false
		}
		before = seg
	}
	return plain || (utf8.ValidString(path) && strings.IndexFunc(path, lookalike) < 0)
}

// lookalike reports whether compatibility normalisation (Unicode NFKC) turns a character into a separator, or whether
// it is invisible.
func lookalike(r rune) bool {
	switch r {
	case 0x2024, 0x2025, 0x2026, 0xfe52, 0xff0e, // dots
		0xff0f, 0xfe68, 0xff3c, // slash, backslashes
		0xfe6a, 0xff05, // percent
		0xfe54, 0xff1b, 0x037e: // semicolon
		return true
	}
	return unicode.Is(unicode.Cf, r) || unicode.Is(unicode.Cc, r) || unicode.Is(unicode.Zl, r) || unicode.Is(unicode.Zp, r)
}

// Unreserved reports whether a character means the same escaped and plain: escaping it is another spelling of a path.
// (RFC 3986, 2.3)
func Unreserved(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '-' || c == '.' || c == '_' || c == '~'
}

func unhex(a, b byte) (byte, bool) {
	h, ok1 := nibble(a)
	l, ok2 := nibble(b)
	return h<<4 | l, ok1 && ok2
}

func nibble(c byte) (byte, bool) {
	switch {
	case '0' <= c && c <= '9':
		return c - '0', true
	case 'a' <= c && c <= 'f':
		return c - 'a' + 10, true
	case 'A' <= c && c <= 'F':
		return c - 'A' + 10, true
	}
	return 0, false
}

// QueryKey returns the decoded name of one pair of a query. A name that cannot be decoded is returned as it is.
func QueryKey(pair string) string {
	key, _, _ := strings.Cut(pair, "=")
	if !strings.ContainsAny(key, "%+") {
		return key
	}
	if k, err := url.QueryUnescape(key); err == nil {
		return k
	}
	return key
}

// CutParam takes every parameter of this name out of a raw query and leaves the rest byte for byte. values are those
// taken out.
func CutParam(rawQuery, name string) (rest string, values []string) {
	if rawQuery == "" {
		return "", nil
	}
	for pair := range strings.SplitSeq(rawQuery, "&") {
		if QueryKey(pair) == name {
			_, v, _ := strings.Cut(pair, "=")
			if u, err := url.QueryUnescape(v); err == nil {
				v = u
			}
			values = append(values, v)
		}
	}
	if values == nil {
		return rawQuery, nil
	}
	kept := slices.DeleteFunc(strings.Split(rawQuery, "&"), func(pair string) bool { return QueryKey(pair) == name })
	return strings.Join(kept, "&"), values
}
