package oauth

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestParseForm(t *testing.T) {
	t.Parallel()
	const kind = "application/x-www-form-urlencoded"
	for _, c := range []struct {
		name, query, kind, body string
		good                    bool
	}{
		{"simple", "", kind, "a=b&c=d", true},
		{"empty", "", kind, "", true},
		{"charset", "", kind + "; charset=UTF-8", "a=b", true},
		{"resource repeats", "", kind, "resource=a&resource=b", true},
		{"plus and %20", "", kind, "a=b+c%20d", true},
		{"unknown query", "utm=1", kind, "a=b", true},
		{"other charset", "", kind + "; charset=utf-16", "a=b", false},
		{"json", "", "application/json", `{"a":"b"}`, false},
		{"text", "", "text/plain", "a=b", false},
		{"multipart", "", "multipart/form-data; boundary=x", "a=b", false},
		{"no type", "", "", "a=b", false},
		{"repeated", "", kind, "a=b&a=b", false},
		{"repeated empty", "", kind, "a=&a=b", false},
		{"query of ours", "client_secret=x", kind, "a=b", false},
		{"semicolon", "", kind, "a=b;c=d", false},
		{"bad escape", "", kind, "a=%zz", false},
		{"cut escape", "", kind, "a=%4", false},
		{"nul", "", kind, "a=%00", false},
		{"newline", "", kind, "a=b%0Ac", false},
		{"nul in a name", "", kind, "a%00=b", false},
		{"overlong UTF-8", "", kind, "a=%c0%af", false},
		{"not UTF-8", "", kind, "a=%ff", false},
		{"byte order mark", "", kind, "%EF%BB%BFa=b", false},
		{"too large", "", kind, "a=" + strings.Repeat("x", maxForm), false},
		{"too many", "", kind, strings.Repeat("a&", maxParameters+1), false},
	} {
		r := httptest.NewRequest(http.MethodPost, "/oauth/token?"+c.query, strings.NewReader(c.body))
		r.Header.Del("Content-Type")
		if c.kind != "" {
			r.Header.Set("Content-Type", c.kind)
		}
		f, err := ParseForm(r)
		if (err == nil) != c.good {
			t.Errorf("%s: parseForm = %v, want good %v", c.name, err, c.good)
		}
		if err != nil && AsError(err).Code != "invalid_request" {
			t.Errorf("%s: parseForm = %v, want invalid_request", c.name, err)
		}
		if c.name == "plus and %20" && f.Get("a") != "b c d" {
			t.Errorf("get(a) = %q, want %q", f.Get("a"), "b c d")
		}
	}
}

func TestParseFormTwoTypes(t *testing.T) {
	t.Parallel()
	r := httptest.NewRequest(http.MethodPost, "/oauth/token", strings.NewReader("a=b"))
	r.Header["Content-Type"] = []string{"application/x-www-form-urlencoded", "application/x-www-form-urlencoded"}
	if _, err := ParseForm(r); err == nil {
		t.Error("parseForm took two content types")
	}
}

// FuzzParseQuery: an accepted query means the same to the standard library and survives being written again.
func FuzzParseQuery(f *testing.F) {
	for _, s := range []string{"a=b&c=d", "a=%zz", "a=b;c=d", "%EF%BB%BFa=b", "a=%c0%af", "=", "&&&", "a", "a=b=c", "a=%00", "\xff=\xfe"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		got, err := ParseQuery(raw)
		if err != nil {
			if AsError(err).Code != "invalid_request" || AsError(err).Status != http.StatusBadRequest {
				t.Errorf("parseQuery(%q) = %v, want invalid_request", raw, err)
			}
			return
		}
		want, err := url.ParseQuery(raw)
		if err != nil {
			t.Fatalf("parseQuery took %q, which net/url refuses: %v", raw, err)
		}
		if got.Encode() != want.Encode() {
			t.Errorf("parseQuery(%q) = %s, net/url reads %s", raw, got.Encode(), want.Encode())
		}
		again, err := ParseQuery(got.Encode())
		if err != nil || again.Encode() != got.Encode() {
			t.Errorf("parseQuery(%q) again = %s, %v", got.Encode(), again.Encode(), err)
		}
		for name, values := range got.Values {
			if !utf8.ValidString(name) || HasControl(name) || (len(values) > 1 && got.Get(name) != "") {
				t.Errorf("parseQuery(%q) has %q", raw, name)
			}
		}
	})
}

func FuzzParseForm(f *testing.F) {
	f.Add("grant_type=client_credentials&scope=a", "application/x-www-form-urlencoded", "")
	f.Add("a=%00", "application/x-www-form-urlencoded; charset=utf-8", "code=x")
	f.Add("a=b", "multipart/form-data; boundary=\"", "%")
	f.Fuzz(func(t *testing.T, body, kind, query string) {
		r := &http.Request{Method: http.MethodPost, URL: &url.URL{RawQuery: query}, Header: http.Header{"Content-Type": {kind}}}
		r.Body = http.NoBody
		if body != "" {
			r.Body = httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body)).Body
		}
		got, err := ParseForm(r)
		if err != nil {
			if AsError(err).Code != "invalid_request" {
				t.Errorf("parseForm(%q) = %v, want invalid_request", body, err)
			}
			return
		}
		for name, values := range got.Values {
			if name != "resource" && len(values) != 1 {
				t.Errorf("parseForm(%q) repeats %q", body, name)
			}
			for _, v := range values {
				if !utf8.ValidString(v) || HasControl(v) {
					t.Errorf("parseForm(%q) took %q", body, v)
				}
			}
		}
	})
}
