package e2e

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
)

// TestSignIn takes a browser to a protected page: sign-in, back to the exact address, sign-out.
func TestSignIn(t *testing.T) {
	t.Parallel()
	for name, scripts := range map[string]bool{"with scripts": true, "without scripts": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := start(t, "")
			b := s.browse(t)
			if !scripts {
				call(b, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
			}
			target := s.Wiki + "/deep/page;v=1?x=1&y=%2Fa%20b&x=2&=&empty"
			b.open(target)
			if got := b.location(); !strings.HasPrefix(got, s.Issuer+"/") {
				t.Fatalf("a browser without a session landed at %s, want a page of %s", got, s.Issuer)
			}
			b.shot("sign-in")
			b.signIn(person, "not the password")
			if !strings.HasPrefix(b.location(), s.Issuer+"/") || b.text("[role=alert]") == "" {
				t.Fatalf("a wrong password was not told at %s", b.location())
			}
			b.shot("sign-in-wrong")
			if status := b.signIn(person, s.Password); status != http.StatusOK {
				t.Errorf("status after sign-in = %d, want 200", status)
			}
			if got := b.location(); got != target {
				t.Errorf("landed at %s, want %s", got, target)
			}
			checkSeen(t, b.seen(), strings.TrimPrefix(target, s.Wiki))

			b.open(s.Wiki + "/another")
			checkSeen(t, b.seen(), "/another")

			signOut(b)
			b.open(target)
			if got := b.location(); !strings.HasPrefix(got, s.Issuer+"/") || !b.has("#password") {
				t.Errorf("after sign-out the page is still open at %s", got)
			}
		})
	}
}

func checkSeen(t *testing.T, got seen, uri string) {
	t.Helper()
	want := seen{Method: "GET", URI: uri, User: person, Name: "Demo Person", Email: person, Groups: "staff"}
	if got != want {
		t.Errorf("upstream saw %+v, want %+v", got, want)
	}
}

// signOut leaves by the path that the gateway reserves on every site.
func signOut(b *tab) {
	b.t.Helper()
	b.open(b.s.Wiki + "/.gatehouse/logout")
	if b.has("main form button:not([type])") {
		b.shot("sign-out")
		b.click("main form button:not([type])")
	}
	b.shot("signed-out")
}

// TestTabs opens several protected pages at once; each tab returns to its own.
func TestTabs(t *testing.T) {
	t.Parallel()
	s := start(t, "")
	first := s.browse(t)
	tabs := []*tab{first, first.tab(), first.tab()}
	for i, b := range tabs {
		b.open(s.Wiki + "/tab?n=" + string(rune('a'+i)))
		if !b.has("#password") {
			t.Fatalf("tab %d is not at sign-in but at %s", i, b.location())
		}
	}
	for i, b := range tabs {
		b.signIn(person, s.Password)
		if got, want := b.location(), s.Wiki+"/tab?n="+string(rune('a'+i)); got != want {
			t.Errorf("tab %d landed at %s, want %s", i, got, want)
		}
	}
	fresh := first.tab()
	fresh.open(s.Wiki + "/later")
	checkSeen(t, fresh.seen(), "/later")
}

// TestOnlyNavigationsAreSentAway sends requests that are not navigations: they get 401, because a script cannot use a
// sign-in page.
func TestOnlyNavigationsAreSentAway(t *testing.T) {
	t.Parallel()
	s := start(t, "")
	for _, tt := range []struct {
		name, method string
		header       map[string]string
		want         int
	}{
		{"navigation", "GET", map[string]string{"Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}, 302},
		{"old browser", "GET", map[string]string{"Accept": "text/html,*/*"}, 302},
		{"fetch", "GET", map[string]string{"Sec-Fetch-Mode": "cors", "Accept": "text/html"}, 401},
		{"script", "GET", map[string]string{"Accept": "*/*"}, 401},
		{"form", "POST", map[string]string{"Sec-Fetch-Mode": "navigate", "Accept": "text/html"}, 401},
		{"wrong bearer", "GET", map[string]string{"Sec-Fetch-Mode": "navigate", "Authorization": "Bearer nonsense"}, 401},
	} {
		req, err := http.NewRequestWithContext(t.Context(), tt.method, s.Wiki+"/", nil)
		if err != nil {
			t.Fatal(err)
		}
		for k, v := range tt.header {
			req.Header.Set(k, v)
		}
		resp, err := s.client().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		redirected := resp.Header.Get("Location") != ""
		if got := resp.StatusCode; got != tt.want && !(tt.want == 302 && got == 303) || redirected != (tt.want == 302) {
			t.Errorf("%s: status = %d with Location %q, want %d", tt.name, got, resp.Header.Get("Location"), tt.want)
		}
	}
}

// TestBearer calls a protected API with and without a token.
func TestBearer(t *testing.T) {
	t.Parallel()
	s := start(t, "")
	token := s.clientCredentials("reports", s.ReportsSecret)
	for _, tt := range []struct {
		name, authorization string
		want                int
		challenge           string
	}{
		{"no token", "", 401, "Bearer"},
		{"forged", "Bearer " + token[:len(token)-2] + "zz", 401, `error="invalid_token"`},
		{"good", "Bearer " + token, 200, ""},
	} {
		req, err := http.NewRequestWithContext(t.Context(), "GET", s.API+"/report", nil)
		if err != nil {
			t.Fatal(err)
		}
		if tt.authorization != "" {
			req.Header.Set("Authorization", tt.authorization)
		}
		req.Header.Set("Remote-User", "root")
		resp, err := s.client().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != tt.want || !strings.Contains(resp.Header.Get("WWW-Authenticate"), tt.challenge) {
			t.Errorf("%s: status = %d, challenge %q, want %d and %q", tt.name, resp.StatusCode,
				resp.Header.Get("WWW-Authenticate"), tt.want, tt.challenge)
		}
	}
	if got := s.introspect(token); !got.Active || got.ClientID != "reports" || got.Subject != "reports" {
		t.Errorf("introspection = %+v", got)
	}
	s.revoke("reports", s.ReportsSecret, token)
	if got := s.introspect(token); got.Active {
		t.Error("a revoked token is active")
	}
	req, err := http.NewRequestWithContext(t.Context(), "GET", s.API+"/report", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	resp, err := s.client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusUnauthorized {
		t.Errorf("a revoked token opens the API: %d", resp.StatusCode)
	}
}

// form posts a form as a client and returns the answer.
func (s *server) form(path, id, secret string, form url.Values) *http.Response {
	s.t.Helper()
	req, err := http.NewRequestWithContext(s.t.Context(), http.MethodPost, s.Issuer+path, strings.NewReader(form.Encode()))
	if err != nil {
		s.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.SetBasicAuth(url.QueryEscape(id), url.QueryEscape(secret)) // RFC 6749 2.3.1
	resp, err := s.client().Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { resp.Body.Close() })
	return resp
}
