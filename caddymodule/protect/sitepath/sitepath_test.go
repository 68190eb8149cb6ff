package sitepath_test

import (
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/gatehouse-id/gatehouse/caddymodule/protect/sitepath"
)

func TestCanonicalPath(t *testing.T) {
	t.Parallel()
	for _, path := range []string{
		"/", "/admin", "/admin/", "/a/b.c/d-e_f~g", "/.well-known/x", "/...x", "/a%20b", "/caf%C3%A9", "/caf%c3%a9", "/a:b@c!$&'()*+,=",
		"/a%22b", "/.gatehouse/logout",
	} {
		if !sitepath.Canonical(path) {
			t.Errorf("Canonical(%q) = false, want true", path)
		}
	}
	for _, path := range []string{
		"", "*", "admin", "//admin", "/a//b", "/.", "/./admin", "/x/../admin", "/x/..", "/%61dmin", "/%2e%2e/admin", "/%2E/admin",
		"/public%2f..%2fadmin", "/public/..%2fadmin",
		"/public/..;/admin", "/admin;x", "/admin%3bx", "/admin%09", "/admin%00", "/admin%0a", "/admin%7f", "/admin%ff",
		"/%c0%ae%c0%ae/admin", "/\\admin", "/%5cadmin",
		"/%252e%252e/admin", "/a%2", "/a%", "/a%zz", "/%ef%bc%8e%ef%bc%8e/admin", "/public%ef%bc%8fadmin", "/%e2%80%a5/admin", "/a/. /b",
		"/a/.. /b", "/a/%20/b", "/a\tb", "/a b",
		"/a%e2%80%8bb", "/a%c2%85b", "/a%e2%80%a8b", "/a/%2E%2E%20/b", "/a/.../b",
	} {
		if sitepath.Canonical(path) {
			t.Errorf("Canonical(%q) = true, want false", path)
		}
	}
}

func FuzzCanonicalPath(f *testing.F) {
	for _, s := range []string{"/public/../admin", "/public/%2e%2e/admin", "/a%20b", "/caf%C3%A9"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if !sitepath.Canonical(s) {
			return
		}
		path, err := url.PathUnescape(s)
		if err != nil {
			t.Fatalf("Canonical(%q) = true, and it cannot be decoded: %v", s, err)
		}
		again, err := url.PathUnescape(path)
		if err == nil && again != path {
			t.Fatalf("Canonical(%q) = true, and decoding it twice makes %q", s, again)
		}
		if resolved := (&url.URL{Path: "/"}).JoinPath(path).Path; resolved != path {
			t.Fatalf("Canonical(%q) = true, and resolving it makes %q", s, resolved)
		}
		if strings.ContainsAny(path, "\\;\x00\r\n") {
			t.Fatalf("Canonical(%q) = true, and it holds a separator", s)
		}
	})
}

func TestPublicPaths(t *testing.T) {
	t.Parallel()
	public := sitepath.Public{"/healthz", "/assets/*"}
	for path, want := range map[string]bool{
		"/healthz": true, "/healthz/": false, "/healthz/x": false, "/HEALTHZ": false, "/assets/": true, "/assets/a/b.css": true, "/assets": false,
		"/assetsx": false, "/": false, "/admin": false,
	} {
		if got := public.Match(path); got != want {
			t.Errorf("match(%q) = %v, want %v", path, got, want)
		}
	}
	for _, s := range []string{"/*", "*", "", "healthz", "/a*", "/a/*/b", "/../x", "/a//b", "/a;b"} {
		if sitepath.CheckPublic(s) == nil {
			t.Errorf("CheckPublic(%q) = nil, want an error", s)
		}
	}
}

func TestCutParam(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, query, rest string
		values            []string
	}{
		{"none", "a=1&b=2", "a=1&b=2", nil},
		{"empty", "", "", nil},
		{"alone", "gatehouse_code=x", "", []string{"x"}},
		{"last", "a=%7E&&b=+&gatehouse_code=x%2By", "a=%7E&&b=+", []string{"x+y"}},
		{"twice", "gatehouse_code=x&a&gatehouse_code=y", "a", []string{"x", "y"}},
		{"escaped name", "gatehouse%5Fcode=x&a=1", "a=1", []string{"x"}},
		{"no value", "gatehouse_code", "", []string{""}},
		{"longer name", "xgatehouse_code=1&gatehouse_codex=2", "xgatehouse_code=1&gatehouse_codex=2", nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			rest, values := sitepath.CutParam(tt.query, "gatehouse_code")
			if rest != tt.rest || !slices.Equal(values, tt.values) {
				t.Errorf("CutParam(%q) = %q, %q, want %q, %q", tt.query, rest, values, tt.rest, tt.values)
			}
		})
	}
}

func FuzzCutParam(f *testing.F) {
	for _, s := range []string{"a=1&gatehouse_code=x&b", "gatehouse%5Fcode=1", "&&", "a=%zz&gatehouse_code"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, query string) {
		rest, values := sitepath.CutParam(query, "gatehouse_code")
		if (values == nil) != (rest == query) && query != rest {
			t.Fatalf("CutParam(%q) = %q, %q", query, rest, values)
		}
		if again, more := sitepath.CutParam(rest, "gatehouse_code"); more != nil || again != rest {
			t.Fatalf("CutParam(%q) = %q, which still has %q", query, rest, more)
		}
	})
}
