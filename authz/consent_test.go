package authz_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/authz"
	"github.com/gatehouse-id/gatehouse/authz/authztest"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/storage"
)

func TestConsent(t *testing.T) {
	t.Parallel()
	h := authztest.New(t)
	b := h.Browser(authztest.Demo)
	for _, c := range []struct {
		name string
		with []string
		asks bool
	}{
		{"first time", []string{"scope", "openid"}, true},
		{"remembered", []string{"scope", "openid"}, false},
		{"one scope more", []string{"scope", "openid orders.read"}, true},
		{"both remembered", []string{"scope", "orders.read openid"}, false},
		{"fewer", []string{"scope", "orders.read"}, false},
		{"prompt=consent", []string{"scope", "openid", "prompt", "consent"}, true},
	} {
		b.Code("asks", c.with...)
		if got := authztest.AskedForConsent(b); got != c.asks {
			t.Errorf("%s: asked = %v, want %v", c.name, got, c.asks)
		}
	}
	guest := h.Browser(authztest.Guest)
	guest.Code("asks")
	if !authztest.AskedForConsent(guest) {
		t.Error("another person was not asked")
	}
	h.Invariants(t)
}

func TestConsentModes(t *testing.T) {
	t.Parallel()
	for mode, want := range map[string][3]bool{"on": {true, false, true}, "off": {false, false, true}, "always": {true, true, true}} {
		h := authztest.New(t, authztest.WithConfig(func(c *authz.Config) { c.Clients[0].Consent = mode }))
		b := h.Browser(authztest.Demo)
		for i, with := range [][]string{nil, nil, {"prompt", "consent"}} {
			b.Code("shop", with...)
			if got := authztest.AskedForConsent(b); got != want[i] {
				t.Errorf("consent %s, request %d %q: asked = %v, want %v", mode, i+1, with, got, want[i])
			}
		}
		h.Invariants(t)
	}
}

func TestConsentDenied(t *testing.T) {
	t.Parallel()
	h := authztest.New(t)
	b := h.Browser(authztest.Demo)
	b.Decision = "deny"
	res := b.Authorize("asks")
	authztest.WantRedirectError(t, h, "deny", res, "access_denied")
	if res.Status != http.StatusSeeOther {
		t.Errorf("Consent(deny) status = %d, want 303", res.Status)
	}
	b.Decision = "allow"
	b.Code("asks")
	if !authztest.AskedForConsent(b) {
		t.Error("after a denial nobody was asked")
	}
	h.Invariants(t)
}

func TestConsentPage(t *testing.T) {
	t.Parallel()
	h := authztest.New(t)
	b := h.Browser(authztest.Demo)
	b.Decision = "-"
	page := b.Authorize("asks", "scope", "openid email orders.read")
	for _, want := range []string{"The asks", "asks.example.com", "demo@example.com", "Read your orders"} {
		if !strings.Contains(page.Body, want) {
			t.Errorf("the consent page lacks %q", want)
		}
	}
	csp := page.Header.Get("Content-Security-Policy")
	if !strings.Contains(csp, "form-action 'self' https://asks.example.com") || !strings.Contains(csp, "frame-ancestors 'none'") {
		t.Errorf("Content-Security-Policy = %s", csp)
	}
	h.Invariants(t)
}

// TestConsentEvent: the event is written with the consent, once.
func TestConsentEvent(t *testing.T) {
	t.Parallel()
	h := authztest.New(t)
	b := h.Browser(authztest.Demo)
	b.Code("asks")
	b.Code("asks")
	var found []audit.Event
	err := h.Store.View(t.Context(), func(tx storage.Tx) error {
		found = nil
		for e, err := range audit.OfPerson(tx, authztest.Demo) {
			if err != nil {
				return err
			}
			if e.Type == "consent.ConsentGivenEvent" {
				found = append(found, e)
			}
		}
		return nil
	})
	if err != nil || len(found) != 1 {
		t.Fatalf("events = %+v, %v, want one", found, err)
	}
	if e := found[0]; e.Name != "Consent Given" || e.ClientID != "asks" || e.Actor != authztest.Demo || e.AgentUser != "demo@example.com" ||
		e.SessionID != b.Session() {
		t.Errorf("event = %+v", e)
	}
}

func TestConsentAfterSignOut(t *testing.T) {
	t.Parallel()
	h := authztest.New(t)
	b := h.Browser(authztest.Demo)
	b.Decision = "-"
	action, fields := authztest.Form(b.Authorize("asks").Body)
	fields.Set("decision", "allow")
	h.People.EndSession(b.Session())
	if res := b.Post(action, fields); res.Status == http.StatusSeeOther && strings.Contains(res.Location(), "code=") || res.Status >= 500 {
		t.Errorf("Consent(signed out) = %d %q, want no code", res.Status, res.Location())
	}
	h.Invariants(t)
}

func TestConsentTooOld(t *testing.T) {
	t.Parallel()
	h := authztest.New(t)
	b := h.Browser(authztest.Demo)
	b.Decision = "-"
	action, fields := authztest.Form(b.Authorize("asks").Body)
	fields.Set("decision", "allow")
	h.Clock.Advance(time.Hour)
	res := b.Post(action, fields)
	authztest.WantPage(t, "consent after an hour", res, http.StatusBadRequest)
	if !strings.Contains(res.Body, "again=true") {
		t.Error("the page has no way to start again")
	}
	h.Invariants(t)
}

func TestAttacksOnConsent(t *testing.T) {
	t.Parallel()
	h := authztest.New(t)
	t.Run("attack 27: forged consent forms", func(t *testing.T) {
		b := h.Browser(authztest.Demo)
		b.Decision = "-"
		action, good := authztest.Form(b.Authorize("asks").Body)
		good.Set("decision", "allow")
		other := h.Browser(authztest.Guest)
		other.Decision = "-"
		otherAction, otherGood := authztest.Form(other.Authorize("asks").Body)
		change := func(name, value string) url.Values {
			v := url.Values{}
			for k := range good {
				v.Set(k, good.Get(k))
			}
			if value == "" {
				v.Del(name)
			} else {
				v.Set(name, value)
			}
			return v
		}
		for _, c := range []struct {
			name   string
			action string
			form   url.Values
		}{
			{"without its token", action, change("csrf", "")},
			{"with a made-up token", action, change("csrf", strings.Repeat("A", 60))},
			{"with the token of another person", action, change("csrf", otherGood.Get("csrf"))},
			{"for the flow of another person", otherAction, good},
			{"for the flow of another person in the body", action, change("request", otherGood.Get("request"))},
			{"with a scope added", action, change("scope", "openid orders.write")},
			{"without a decision", action, change("decision", "")},
			{"with another decision", action, change("decision", "maybe")},
			{"without a flow", "/oauth/consent", good},
		} {
			if res := b.Post(c.action, c.form); res.Status != http.StatusForbidden || res.Location() != "" {
				t.Errorf("Consent(%s) = %d %q, want 403", c.name, res.Status, res.Location())
			}
		}
		for name, headers := range map[string][]string{
			"cross-site":   {"Sec-Fetch-Site", "cross-site", "Origin", authztest.Evil},
			"same-site":    {"Sec-Fetch-Site", "same-site", "Origin", h.Issuer},
			"other origin": {"Origin", authztest.Evil},
			"no origin":    {"X-Nothing", "x"},
		} {
			if res := b.Post(action, good, headers...); res.Status != http.StatusForbidden {
				t.Errorf("Consent(%s) = %d, want 403", name, res.Status)
			}
		}
		if res := b.Get(action + "&" + good.Encode()); res.Status != http.StatusMethodNotAllowed {
			t.Errorf("GET consent = %d, want 405", res.Status)
		}
		// The same form is accepted from its own browser, so each refusal above had its own reason.
		if res := b.Post(action, good); res.Status != http.StatusSeeOther || !strings.Contains(res.Location(), "code=") {
			t.Errorf("Consent(good) = %d %q, want 303 with a code", res.Status, res.Location())
		}
		h.Invariants(t)
	})
	t.Run("attack 26: a form of another person, of another origin, of another type", func(t *testing.T) {
		b := h.Browser(authztest.Demo)
		b.Decision = "-"
		action, good := authztest.Form(b.Authorize("asks", "prompt", "consent").Body)
		good.Set("decision", "allow")
		b.SignIn(authztest.Guest) // the person changed in another tab
		if res := b.Post(action, good); res.Status != http.StatusForbidden {
			t.Errorf("Consent(of the person before) = %d, want 403", res.Status)
		}
		b.SignIn(authztest.Demo)
		plain := h.Do(http.MethodPost, action, good.Encode(), "Content-Type", "text/plain", "Origin", h.Issuer, "Cookie", cookies(b))
		if plain.Status != http.StatusForbidden {
			t.Errorf("Consent(text/plain) = %d, want 403", plain.Status)
		}
		h.Invariants(t)
	})
}

func cookies(b *authztest.Browser) string {
	var out []string
	for _, c := range b.Cookies() {
		out = append(out, c.Name+"="+c.Value)
	}
	return strings.Join(out, "; ")
}

// A code is worthless once its consent is withdrawn, like the tokens that it would have given.
func TestConsentWithdrawnBeforeRedeeming(t *testing.T) {
	t.Parallel()
	h := authztest.New(t)
	b := h.Browser(authztest.Demo)
	code := b.Code("asks")
	if _, err := h.Server().WithdrawConsent(t.Context(), authztest.Demo, "asks", authztest.Admin); err != nil {
		t.Fatal(err)
	}
	if res := h.Redeem("asks", code); res.Status != http.StatusBadRequest || !strings.Contains(res.Body, "invalid_grant") {
		t.Errorf("Token(withdrawn) = %d %s, want 400 invalid_grant", res.Status, res.Body)
	}
	// A new consent gives a new code.
	if res := h.Redeem("asks", b.Code("asks")); res.Status != http.StatusOK {
		t.Errorf("Token(allowed again) = %d %s, want 200", res.Status, res.Body)
	}
	h.Invariants(t)
}

// TestConsentOfAnotherPerson: who is not the person that is signed in leaves the question to sign in, and comes back to
// it.
func TestConsentOfAnotherPerson(t *testing.T) {
	t.Parallel()
	h := authztest.New(t)
	b := h.Browser(authztest.Demo)
	b.Decision = "-" // to be asked
	res := b.Authorize("asks")
	_, link, _ := strings.Cut(res.Body, `href="/sign-in?other=1&amp;redirect=`)
	link, rest, _ := strings.Cut(link, `"`)
	back, err := url.QueryUnescape(link)
	if err != nil || !strings.HasPrefix(back, "/oauth/authorize?flow=") || !strings.HasPrefix(rest, ">Not you?") {
		t.Errorf("the page leads another person to %q, want back to the request:\n%s", back, res.Body)
	}
}
