// Package webpage recognizes an HTML page, such as one of a sign-in, a proxy or an error, where a document for a
// machine was expected.
package webpage

import (
	"bytes"
	"strings"
)

// Head is the number of bytes of a document that are looked at.
const Head = 512

// Is reports whether a document, of which raw is at least the beginning, is an HTML page.
func Is(raw []byte) bool {
	raw = bytes.TrimPrefix(raw[:min(len(raw), Head)], []byte("\xef\xbb\xbf"))
	for {
		raw = bytes.TrimLeft(raw, " \t\r\n\f")
		end := ""
		switch {
		case bytes.HasPrefix(raw, []byte("<!--")):
			end = "-->"
		case bytes.HasPrefix(raw, []byte("<?")): // XHTML
			end = "?>"
		default:
			return begins(raw, "<!doctype html") || begins(raw, "<html") || begins(raw, "<head") || begins(raw, "<body")
		}
		_, rest, found := bytes.Cut(raw, []byte(end))
		if !found {
			return false
		}
		raw = rest
	}
}

// begins reports whether raw begins with a word in any case, and not with a longer one.
func begins(raw []byte, word string) bool {
	return len(raw) >= len(word) && strings.EqualFold(string(raw[:len(word)]), word) &&
		(len(raw) == len(word) || bytes.IndexByte([]byte(" \t\r\n\f>/"), raw[len(word)]) >= 0)
}
