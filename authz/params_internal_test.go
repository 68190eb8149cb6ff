package authz

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
		f, err := parseForm(r)
		if (err == nil) != c.good {
			t.Errorf("%s: parseForm = %v, want good %v", c.name, err, c.good)
		}
		if err != nil && asError(err).Code != "invalid_request" {
			t.Errorf("%s: parseForm = %v, want invalid_request", c.name, err)
		}
		if c.name == "plus and %20" && f.get("a") != "b c d" {
			t.Errorf("get(a) = %q, want %q", f.get("a"), "b c d")
		}
	}
}

func TestParseFormTwoTypes(t *testing.T) {
	t.Parallel()
	r := httptest.NewRequest(http.MethodPost, "/oauth/token", strings.NewReader("a=b"))
	r.Header["Content-Type"] = []string{"application/x-www-form-urlencoded", "application/x-www-form-urlencoded"}
	if _, err := parseForm(r); err == nil {
		t.Error("parseForm took two content types")
	}
}

// FuzzParseQuery: what is taken means the same to the standard library, and survives being written again.
func FuzzParseQuery(f *testing.F) {
	for _, s := range []string{"a=b&c=d", "a=%zz", "a=b;c=d", "%EF%BB%BFa=b", "a=%c0%af", "=", "&&&", "a", "a=b=c", "a=%00", "\xff=\xfe"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		got, err := parseQuery(raw)
		if err != nil {
			if asError(err).Code != "invalid_request" || asError(err).Status != http.StatusBadRequest {
				t.Errorf("parseQuery(%q) = %v, want invalid_request", raw, err)
			}
			return
		}
		want, err := url.ParseQuery(raw)
		if err != nil {
			t.Fatalf("parseQuery took %q, which net/url refuses: %v", raw, err)
		}
		if got.encode() != want.Encode() {
			t.Errorf("parseQuery(%q) = %s, net/url reads %s", raw, got.encode(), want.Encode())
		}
		again, err := parseQuery(got.encode())
		if err != nil || again.encode() != got.encode() {
			t.Errorf("parseQuery(%q) again = %s, %v", got.encode(), again.encode(), err)
		}
		for name, values := range got.values {
			if !utf8.ValidString(name) || hasControl(name) || (len(values) > 1 && got.get(name) != "") {
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
		got, err := parseForm(r)
		if err != nil {
			if asError(err).Code != "invalid_request" {
				t.Errorf("parseForm(%q) = %v, want invalid_request", body, err)
			}
			return
		}
		for name, values := range got.values {
			if name != "resource" && len(values) != 1 {
				t.Errorf("parseForm(%q) repeats %q", body, name)
			}
			for _, v := range values {
				if !utf8.ValidString(v) || hasControl(v) {
					t.Errorf("parseForm(%q) took %q", body, v)
				}
			}
		}
	})
}

func TestValidateRedirectURI(t *testing.T) {
	t.Parallel()
	for uri, good := range map[string]bool{
		"https://app.example.com/cb":            true,
		"https://app.example.com/cb?tenant=1":   true,
		"https://app.example.com":               true,
		"https://app.example.com:8443/":         true,
		"http://127.0.0.1/cb":                   true,
		"http://127.0.0.1:8080/cb":              true,
		"http://[::1]/cb":                       true,
		"http://localhost:3000/cb":              true,
		"com.example.app:/cb":                   true,
		"com.example.app://cb":                  true,
		"":                                      false,
		"/cb":                                   false,
		"//app.example.com/cb":                  false,
		"app.example.com/cb":                    false,
		"http://app.example.com/cb":             false,
		"https://app.example.com/cb#frag":       false,
		"https://app.example.com/cb#":           false,
		"https://user@app.example.com/cb":       false,
		"https://app.example.com/a/../b":        false,
		"https://app.example.com/c b":           false,
		"https://app.example.com/cb?code=1":     false,
		"https://app.example.com/cb?x=1&state=": false,
		"https://app.example.com/cb?a;b":        false,
		"https://app%2eexample.com/cb":          false,
		"https://äpp.example.com/cb":            false,
		"https://:443/cb":                       false,
		"https:///cb":                           false,
		"javascript:alert(1)":                   false,
		"data:text/html,x":                      false,
		"myapp:/cb":                             false,
		"https://*.example.com/cb":              true, // a name like any other: it matches itself alone
		"https://a.example.com\\@b.example/":    false,
	} {
		if err := validateRedirectURI(uri); (err == nil) != good {
			t.Errorf("validateRedirectURI(%q) = %v, want good %v", uri, err, good)
		}
	}
}

// FuzzMatchRedirectURI: whatever matches differs from what is registered at most by the port of a loopback address.
func FuzzMatchRedirectURI(f *testing.F) {
	registered := []string{"https://app/cb", "http://127.0.0.1/cb", "http://127.0.0.1:80/cb?x=1", "http://[::1]/cb", "com.example.app:/cb", "http://localhost/cb"}
	for _, s := range append(registered, "http://127.0.0.1:1234/cb", "http://127.0.0.1:1234@evil/cb", "http://[::1]:99999/cb", "http://127.0.0.1:/cb", "https://app/cb/") {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, sent string) {
		for _, reg := range registered {
			if !matchRedirectURI(reg, sent) || reg == sent {
				continue
			}
			if validateRedirectURI(sent) != nil {
				continue // refused beforehand
			}
			a, errA := url.Parse(reg)
			b, errB := url.Parse(sent)
			if errA != nil || errB != nil {
				t.Fatalf("match(%q, %q) although one is no URI", reg, sent)
			}
			loopback := b.Hostname() == "127.0.0.1" || b.Hostname() == "::1"
			if !loopback || a.Scheme != b.Scheme || a.Hostname() != b.Hostname() || a.RequestURI() != b.RequestURI() || b.User != nil || b.Fragment != "" {
				t.Errorf("match(%q, %q) = true", reg, sent)
			}
		}
	})
}
