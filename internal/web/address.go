package web

import (
	"net/url"
	"strings"
)

// LocalPath returns ref if it is a path (and query) on our own origin, and "" otherwise. It refuses everything that a
// browser could read as another host, scheme or directory.
func LocalPath(ref string) string {
	if ref == "" || ref[0] != '/' || strings.HasPrefix(ref, "//") || strings.ContainsAny(ref, "\\#") || len(ref) > 4096 {
		return ""
	}
	for i := range len(ref) {
		if ref[i] <= 0x20 || ref[i] >= 0x7f {
			return ""
		}
	}
	u, err := url.Parse(ref)
	if err != nil || u.IsAbs() || u.Host != "" || u.User != nil || u.Opaque != "" {
		return ""
	}
	// Checked after decoding too: a later reader may take /%2f/evil or /%5cevil for another host, and dots lead to
	// other paths.
	for seg := range strings.SplitSeq(strings.TrimPrefix(u.Path, "/"), "/") {
		if seg == "." || seg == ".." {
			return ""
		}
	}
	if strings.Contains(u.Path, "//") || strings.ContainsAny(u.Path, "\\\x00\t\r\n") {
		return ""
	}
	return ref
}

// IsLink accepts the targets of external links: an http or https URL without a user, or the mailto URL of an address.
func IsLink(s string) bool {
	u, err := url.Parse(s)
	if err != nil || len(s) > 2048 || strings.ContainsFunc(s, func(c rune) bool { return c <= ' ' || c >= 0x7f }) {
		return false
	}
	switch u.Scheme {
	case "http", "https":
		return u.Host != "" && u.User == nil
	case "mailto":
		return strings.Contains(u.Opaque, "@")
	}
	return false
}

// isWeb accepts the address of an external page: an http or https URL without a user.
func isWeb(s string) bool { return IsLink(s) && strings.HasPrefix(s, "http") }
