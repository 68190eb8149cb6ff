package client

import (
	"net/url"
	"testing"
)

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
		"http://localhost:65535/cb":             true,
		"http://localhost:99999/cb":             false,
		"http://localhost:01234/cb":             false,
		"http://127.0.0.1:0/cb":                 false,
		"http://[::1]:/cb":                      false,
		"https://app.example.com:99999/cb":      false,
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
		"https://*.example.com/cb":              false, // it would match itself alone
		"https://app.example.com/*":             false,
		"https://a.example.com\\@b.example/":    false,
	} {
		if err := validateRedirectURI(uri); (err == nil) != good {
			t.Errorf("validateRedirectURI(%q) = %v, want good %v", uri, err, good)
		}
	}
}

// FuzzAllowsRedirect: an allowed URI differs from the registered one at most by the port of a loopback host, and only
// for public clients.
func FuzzAllowsRedirect(f *testing.F) {
	registered := []string{
		"https://app/cb", "http://127.0.0.1/cb", "http://127.0.0.1:80/cb?x=1", "http://[::1]/cb",
		"com.example.app:/cb", "http://localhost/cb",
	}
	for _, s := range append(registered, "http://127.0.0.1:1234/cb", "http://127.0.0.1:1234@evil/cb", "http://[::1]:99999/cb",
		"http://127.0.0.1:/cb", "https://app/cb/", "http://localhost:55611/cb") {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, sent string) {
		for _, reg := range registered {
			if reg == sent {
				continue
			}
			if (&Client{RedirectURIs: []string{reg}}).AllowsRedirect(sent) {
				t.Errorf("allowed(%q, %q) = true for a confidential client", reg, sent)
			}
			if !(&Client{RedirectURIs: []string{reg}, Public: true}).AllowsRedirect(sent) {
				continue
			}
			if validateRedirectURI(sent) != nil {
				continue // refused beforehand
			}
			a, errA := url.Parse(reg)
			b, errB := url.Parse(sent)
			if errA != nil || errB != nil {
				t.Fatalf("allowed(%q, %q) although one is no URI", reg, sent)
			}
			loopback := b.Hostname() == "127.0.0.1" || b.Hostname() == "::1" || b.Hostname() == "localhost"
			if !loopback || a.Scheme != b.Scheme || a.Hostname() != b.Hostname() || a.RequestURI() != b.RequestURI() ||
				b.User != nil || b.Fragment != "" {
				t.Errorf("allowed(%q, %q) = true", reg, sent)
			}
		}
	})
}
