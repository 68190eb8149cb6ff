package logout_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/authz/authztest"
)

const (
	asked_    = "asks"
	signedOut = "signed out"
	refusedAs = "refused"
)

// outcome names what a logout answer is: asks, signed out, refused, or its target.
func outcome(res *authztest.Response) string {
	switch {
	case res.Location() != "":
		return res.Location()
	case res.Status == http.StatusBadRequest:
		return refusedAs
	case strings.Contains(res.Body, `action="/oauth/logout"`):
		return asked_
	case res.Status == http.StatusOK:
		return signedOut
	}
	return res.Body
}

// TestLogout has the rows of the conformance suite's logout plans.
func TestLogout(t *testing.T) {
	t.Parallel()
	h := authztest.New(t)
	const back = "https://shop.example.com/"
	foreign := h.Tokens("shop", authztest.Guest).ID
	for _, c := range []struct {
		name string
		with []string
		// first is the first answer, then that of the confirmation form.
		first, then string
	}{
		{"everything", []string{"id_token_hint", "own", "post_logout_redirect_uri", back, "state", "x y"}, back + "?state=x+y", ""},
		{"client_id beside the hint", []string{"id_token_hint", "own", "client_id", "shop", "post_logout_redirect_uri", back}, back, ""},
		{"no state", []string{"id_token_hint", "own", "post_logout_redirect_uri", back}, back, ""},
		{"no parameters", nil, asked_, signedOut},
		{"only state", []string{"state", "x"}, asked_, signedOut},
		{"hint alone", []string{"id_token_hint", "own"}, signedOut, ""},
		{"hint and state alone", []string{"id_token_hint", "own", "state", "x"}, signedOut, ""},
		{"no hint", []string{"post_logout_redirect_uri", back, "state", "x"}, asked_, signedOut},
		{"client_id instead of a hint", []string{"client_id", "shop", "post_logout_redirect_uri", back}, asked_, signedOut},
		{"hint of another person", []string{"id_token_hint", foreign, "post_logout_redirect_uri", back}, asked_, back},
		{"broken hint", []string{"id_token_hint", "broken", "post_logout_redirect_uri", back}, asked_, signedOut},
		{"hint that says alg none", []string{"id_token_hint", "none", "post_logout_redirect_uri", back}, asked_, signedOut},
		{"unregistered target", []string{"id_token_hint", "own", "post_logout_redirect_uri", "https://evil.example/"}, refusedAs, ""},
		{"query added to the target", []string{"id_token_hint", "own", "post_logout_redirect_uri", back + "?foo=bar"}, refusedAs, ""},
		{"target of another client", []string{"id_token_hint", "own", "post_logout_redirect_uri", "https://other.example.com/"}, refusedAs, ""},
		{"another client_id", []string{"id_token_hint", "own", "client_id", "other"}, refusedAs, ""},
		{"unknown client_id", []string{"client_id", "nobody", "post_logout_redirect_uri", back}, refusedAs, ""},
		{"start page of a site", []string{"post_logout_redirect_uri", "https://wiki.example.com/"}, asked_, "https://wiki.example.com/"},
		{"other page of a site", []string{"post_logout_redirect_uri", "https://wiki.example.com/x"}, asked_, signedOut},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := h.Browser(authztest.Demo)
			own := b.Tokens("shop").ID
			b.Person = ""
			h.Clock.Advance(2 * time.Hour) // hints count after they have expired
			v := url.Values{}
			for i := 0; i < len(c.with); i += 2 {
				value := c.with[i+1]
				switch value {
				case "own":
					value = own
				case "broken":
					value = own[:len(own)-4] + "AAAA"
				case "none":
					value = "eyJhbGciOiJub25lIiwidHlwIjoiSldUIn0." + strings.Split(own, ".")[1] + "."
				}
				v.Set(c.with[i], value)
			}
			res := b.Get("/oauth/logout?" + v.Encode())
			if got := outcome(res); got != c.first {
				t.Fatalf("Logout(%q) = %d %s, want %s", c.with, res.Status, got, c.first)
			}
			if c.then != "" {
				if !authztest.SignedIn(b) {
					t.Fatal("signed out before the confirmation")
				}
				action, fields := authztest.Form(res.Body)
				if fields.Has("id_token_hint") || strings.Contains(res.Body, foreign) {
					t.Error("the page holds the ID token")
				}
				res = b.Post(action, fields)
				if got := outcome(res); got != c.then {
					t.Errorf("Logout(confirmed %q) = %d %s, want %s", c.with, res.Status, got, c.then)
				}
			}
			if still := authztest.SignedIn(b); still != (c.first == refusedAs) {
				t.Errorf("Logout(%q): still signed in = %v", c.with, still)
			}
			h.Invariants(t)
		})
	}
}

func TestLogoutByPost(t *testing.T) {
	t.Parallel()
	h := authztest.New(t)
	b := h.Browser(authztest.Demo)
	own := b.Tokens("shop").ID
	res := h.Post("/oauth/logout",
		url.Values{"id_token_hint": {own}, "post_logout_redirect_uri": {"https://shop.example.com/"}, "state": {"s"}})
	if res.Status != http.StatusSeeOther {
		t.Fatalf("Logout(POST of a client) = %d, want 303", res.Status)
	}
	// The ID token names a person with all claims: it must not end up in the browser's history and in logs.
	if strings.Contains(res.Location(), own) || strings.Contains(res.Location(), strings.Split(own, ".")[1]) {
		t.Errorf("the address of the 303 holds the ID token: %s", res.Location())
	}
	if res = b.Get(res.Location()); res.Location() != "https://shop.example.com/?state=s" {
		t.Errorf("Logout = %d %q, want back to the client", res.Status, res.Location())
	}
	if authztest.SignedIn(b) {
		t.Error("the person is still signed in")
	}
	// The address is worth nothing later.
	b = h.Browser(authztest.Demo)
	res = h.Post("/oauth/logout", url.Values{"id_token_hint": {b.Tokens("shop").ID}})
	h.Clock.Advance(10 * time.Minute)
	if got := outcome(b.Get(res.Location())); got != asked_ || !authztest.SignedIn(b) {
		t.Errorf("Logout(an old address) = %s, want a question", got)
	}
	// Without a valid hint there is nothing to hide, and strangers have nothing stored.
	for _, hint := range []string{"", "broken", own + "x"} {
		res = h.Post("/oauth/logout", url.Values{"id_token_hint": {hint}, "client_id": {"shop"}, "state": {"s"}})
		if res.Location() != "/oauth/logout?client_id=shop&state=s" {
			t.Errorf("Logout(POST with the hint %.10q) leads to %s", hint, res.Location())
		}
	}
	h.Invariants(t)
}

func TestLogoutNobody(t *testing.T) {
	t.Parallel()
	h := authztest.New(t)
	res := h.Browser("").Get("/oauth/logout")
	if got := outcome(res); got != signedOut {
		t.Errorf("Logout(nobody) = %d %s, want the page that says signed out", res.Status, got)
	}
	res = h.Browser("").Get("/oauth/logout?client_id=shop&post_logout_redirect_uri=https://shop.example.com/")
	if !strings.Contains(res.Body, `href="https://shop.example.com/"`) {
		t.Errorf("Logout(nobody, client_id) = %d %s, want a link to the client", res.Status, res.Body)
	}
	h.Invariants(t)
}

func TestAttacksOnLogout(t *testing.T) {
	t.Parallel()
	h := authztest.New(t)
	t.Run("attack 108: signing somebody else out", func(t *testing.T) {
		b := h.Browser(authztest.Demo)
		own := b.Tokens("shop").ID
		b.Person = ""
		foreign := h.Tokens("shop", authztest.Guest).ID
		for _, query := range []string{
			"", "?state=x", "?id_token_hint=" + foreign, "?post_logout_redirect_uri=" + url.QueryEscape(authztest.Evil),
			"?id_token_hint=" + own + "&post_logout_redirect_uri=" + url.QueryEscape(authztest.Evil),
			"?id_token_hint=" + own + "&id_token_hint=" + foreign,
		} {
			if res := b.Get("/oauth/logout" + query); res.Location() != "" {
				t.Errorf("Logout(%s) leads to %s", query, res.Location())
			}
		}
		if !authztest.SignedIn(b) {
			t.Error("the person was signed out")
		}
		// The confirmation form, sent by another site.
		_, fields := authztest.Form(b.Get("/oauth/logout").Body)
		for name, headers := range map[string][]string{
			"cross-site": {"Sec-Fetch-Site", "cross-site"}, "other origin": {"Origin", authztest.Evil}, "no origin": {"X-Nothing", "x"},
		} {
			if res := b.Post("/oauth/logout", fields, headers...); res.Status != http.StatusForbidden {
				t.Errorf("Logout(%s) = %d, want 403", name, res.Status)
			}
		}
		if res := b.Post("/oauth/logout", url.Values{"csrf": {"made up"}}); res.Status != http.StatusForbidden {
			t.Errorf("Logout(made-up token) = %d, want 403", res.Status)
		}
		if !authztest.SignedIn(b) {
			t.Error("the person was signed out")
		}
		// A confirmation without a valid hint does not become one for a client.
		fields.Set("client_id", "shop")
		fields.Set("post_logout_redirect_uri", "https://shop.example.com/")
		if res := b.Post("/oauth/logout", fields); res.Location() != "" {
			t.Errorf("Logout(fields added) leads to %s", res.Location())
		}
		h.Invariants(t)
	})
}

// TestLogoutFromOurOwnPage: a link on a page of the issuer asks nothing. One of another site asks and can be turned
// down.
func TestLogoutFromOurOwnPage(t *testing.T) {
	t.Parallel()
	h := authztest.New(t)
	fetch := func(site, dest string) []string {
		return []string{"Sec-Fetch-Site", site, "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", dest}
	}
	b := h.Browser(authztest.Demo)
	b.Tokens("shop")
	b.Person = ""
	for _, foreign := range [][]string{
		fetch("cross-site", "document"), fetch("none", "document"), fetch("same-origin", "iframe"),
		append(fetch("same-origin", "document"), "Sec-Purpose", "prefetch"),
	} {
		if res := b.Get("/oauth/logout", foreign...); outcome(res) != asked_ ||
			!strings.Contains(res.Body, "Stay signed in") || !authztest.SignedIn(b) {
			t.Errorf("Logout(%q) = %s, want a question that can be turned down", foreign, outcome(res))
		}
		if res := b.Post("/oauth/logout", url.Values{"csrf": {"guessed"}}, foreign...); res.Status != http.StatusForbidden ||
			!authztest.SignedIn(b) {
			t.Errorf("POST with a wrong token, %q = %d", foreign, res.Status)
		}
	}
	if res := b.Get("/oauth/logout", fetch("same-origin", "document")...); outcome(res) != signedOut || authztest.SignedIn(b) {
		t.Errorf("Logout(from our page) = %s, want signed out", outcome(res))
	}
}
