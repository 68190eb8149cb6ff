package mfa_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/gatehouse-id/gatehouse/identity"
	"github.com/gatehouse-id/gatehouse/identity/identitytest"
	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/authn"
	"github.com/gatehouse-id/gatehouse/storage"
)

// withApp returns a harness in which the person has set up an authenticator app, and its secret. asked is second_factor
// of the Caddyfile, "" for the default.
func withApp(t *testing.T, asked string) (*identitytest.Harness, *settings.Units, string) {
	t.Helper()
	h, u := identitytest.NewStepping(t, 0, func(c *identity.Config) { c.SecondFactor = asked })
	key, _, _ := h.Plain().AddApp(identitytest.AuthenticatorPage)
	return h, u, key
}

// byPassword signs the person in with the password alone, and returns what comes of it.
func byPassword(h *identitytest.Harness, target string) (*identitytest.Browser, *identitytest.Answer) {
	h.T.Helper()
	b := h.Browser()
	a := b.Post(b.Get(target), "username", identitytest.Demo, "password", identitytest.DemoPassword)
	return b, b.Get(a.Header().Get("Location"))
}

// TestSecondStep: someone with the password of a person who has set up a second step does not get in, at an application
// or on the pages of the account, however no one asked for a level. (CVE-2025-64103)
func TestSecondStep(t *testing.T) {
	t.Parallel()
	h, _, key := withApp(t, "")
	b, a := byPassword(h, "/next")
	if !strings.HasPrefix(a.URL, "/step-up?flow=") {
		t.Fatalf("after the password: %d at %s, want the second step\n%s", a.Code, a.URL, a.Body)
	}
	for _, path := range []string{"/next", "/account", "/account/profile", "/account/security", "/account/devices", "/account/data/download"} {
		if got := b.Get(path); !strings.HasPrefix(got.URL, "/step-up?flow=") {
			t.Errorf("GET %s with the password alone = %d at %s, want the second step", path, got.Code, got.URL)
		}
	}
	if a = b.Post(a, "code", h.Code(key)); a.Code != http.StatusSeeOther {
		t.Fatalf("the code = %d\n%s", a.Code, a.Body)
	}
	for _, path := range []string{"/next", "/account"} {
		if got := b.Get(path); got.Code != http.StatusOK || strings.HasPrefix(got.URL, "/step-up") {
			t.Errorf("GET %s after the second step = %d at %s", path, got.Code, got.URL)
		}
	}
}

// TestSecondStepPassive: an application that forbids pages is told that one is needed.
func TestSecondStepPassive(t *testing.T) {
	t.Parallel()
	h, _, _ := withApp(t, "")
	b, _ := byPassword(h, "/next")
	before := h.Demand
	h.Demand = func(r *http.Request) authn.Demand {
		d := before(r)
		d.Passive = true
		return d
	}
	if a := b.Get("/next"); strings.TrimSpace(a.Body.String()) != "interaction_required" {
		t.Errorf("prompt=none = %d %s, want interaction_required", a.Code, a.Body)
	}
}

// TestSecondFactor: what the Caddyfile, the settings, the client and the organisation of an application say, the last
// one most, about a person who has an app and about one who has none.
func TestSecondFactor(t *testing.T) {
	t.Parallel()
	const whenSetUp, always, onDemand = authn.SecondFactorWhenSetUp, authn.SecondFactorAlways, authn.SecondFactorOnDemand
	for name, c := range map[string]struct {
		caddyfile, client       string
		settings, application   string
		withApp, withoutAnyStep bool // they are asked
	}{
		"nobody says":                    {"", "", "", "", true, false},
		"the Caddyfile: on demand":       {onDemand, "", "", "", false, false},
		"the Caddyfile: always":          {always, "", "", "", true, true},
		"the settings: on demand":        {always, "", "ON_DEMAND", "", false, false},
		"the settings: always":           {onDemand, "", "ALWAYS", "", true, true},
		"the client: on demand":          {"", onDemand, "ALWAYS", "", false, false},
		"the client: always":             {onDemand, always, "", "", true, true},
		"the client: when set up":        {onDemand, whenSetUp, "", "", true, false},
		"the application: on demand":     {"", always, "ALWAYS", "ON_DEMAND", false, false},
		"the application: when it is up": {"", onDemand, "", "WHEN_SET_UP", true, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for has, asked := range map[bool]bool{true: c.withApp, false: c.withoutAnyStep} {
				h, u := identitytest.NewStepping(t, 0, func(cfg *identity.Config) { cfg.SecondFactor = onDemand })
				if has {
					h.Plain().AddApp(identitytest.AuthenticatorPage)
				}
				h.Config.SecondFactor = c.caddyfile
				h.Start()
				u.StepUp.SecondFactor = c.settings
				if c.application != "" {
					u.Organisations = []settings.Organisation{{
						ID:               "acme",
						ServiceProviders: map[string]settings.ServiceProvider{"shop": {SecondFactor: c.application}},
					}}
				}
				before := h.Demand
				h.Demand = func(r *http.Request) authn.Demand {
					d := before(r)
					d.SecondFactor = c.client
					return d
				}
				_, a := byPassword(h, "/next")
				if got := strings.HasPrefix(a.URL, "/step-up?flow="); got != asked {
					t.Errorf("with an app %v: ended at %s with %d, want asked %v", has, a.URL, a.Code, asked)
				}
				p, err := h.Person.Person(t.Context(), identitytest.Demo)
				if err != nil {
					t.Fatal(err)
				}
				var level int
				err = h.Store.View(t.Context(), func(tx storage.Tx) (err error) {
					level, err = h.Subjects().Needs(tx, "shop", c.client, p.ID, h.Clock.Now())
					return err
				})
				if err != nil || level >= 2 != asked {
					t.Errorf("Needs without a page, with an app %v = %d, %v, want 2: %v", has, level, err, asked)
				}
			}
		})
	}
}

// TestPasswordGrantAlways: a password is not enough for a client where a second step is always needed.
func TestPasswordGrantAlways(t *testing.T) {
	t.Parallel()
	h, u := identitytest.NewConfigured(t)
	for _, c := range []struct {
		asked string
		ok    bool
	}{{"", true}, {"ALWAYS", false}, {"ON_DEMAND", true}} {
		u.StepUp.SecondFactor = c.asked
		_, err := h.CheckPassword(t.Context(), "shop", identitytest.Demo, identitytest.DemoPassword, audit.Origin{ClientIP: "192.0.2.1"})
		if (err == nil) != c.ok {
			t.Errorf("CheckPassword with %q = %v, want success %v", c.asked, err, c.ok)
		}
	}
}

// TestSecurityCard: the overview of the account says what a sign-in asks for, not what it could.
func TestSecurityCard(t *testing.T) {
	t.Parallel()
	const on, off, demand = "Signing in takes a second step.", "Only a password protects your account.",
		"A second step is set up. Only some apps ask for it."
	for name, c := range map[string]struct {
		asked string
		app   bool
		want  string
	}{
		"nothing is set up":            {"", false, off},
		"an app":                       {"", true, on},
		"an app, asked for on demand":  {authn.SecondFactorOnDemand, true, demand},
		"nothing, asked for on demand": {authn.SecondFactorOnDemand, false, off},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h, _ := identitytest.NewStepping(t, 0, func(cfg *identity.Config) { cfg.SecondFactor = authn.SecondFactorOnDemand })
			b := h.Plain()
			if c.app {
				b.AddApp(identitytest.AuthenticatorPage)
			}
			h.Config.SecondFactor = c.asked
			h.Start()
			if a := b.Get("/account"); !strings.Contains(a.Body.String(), c.want) {
				t.Errorf("GET /account = %d at %s, want %q\n%s", a.Code, a.URL, c.want, a.Body)
			}
		})
	}
}

// TestSecondStepForgotten: who has forgotten the PIN that is the only second step gets a link by the password alone.
func TestSecondStepForgotten(t *testing.T) {
	t.Parallel()
	for _, second := range []string{"", authn.SecondFactorAlways} {
		t.Run("second_factor "+second, func(t *testing.T) {
			t.Parallel()
			h, _, box := identitytest.NewWithPIN(t)
			h.Config.SecondFactor = second
			h.Start()
			b, asked := byPassword(h, "/next")
			forgot := pinForgot + "?flow=" + strings.TrimPrefix(asked.URL, "/step-up?flow=")
			if !strings.Contains(asked.Body.String(), forgot) {
				t.Fatalf("the page of the PIN at %s has no link to %s:\n%s", asked.URL, forgot, asked.Body)
			}
			form := b.Get(pinLink(b, box, forgot))
			if a := b.Post(form, "pin", "827164", "again", "827164"); a.Code != http.StatusSeeOther {
				t.Fatalf("another PIN = %d at %s:\n%s", a.Code, form.URL, a.Body)
			}
			if a := b.Get("/next"); !strings.HasPrefix(a.Body.String(), "signed in as ") {
				t.Errorf("with another PIN: %d at %s", a.Code, a.URL)
			}
		})
	}
}

// TestSecondStepFirst: where a second step is always required, a person without a method sets one up on the way, and
// then is signed in.
func TestSecondStepFirst(t *testing.T) {
	t.Parallel()
	h, _ := identitytest.NewStepping(t, 0, func(c *identity.Config) { c.SecondFactor = authn.SecondFactorAlways })
	b, asked := byPassword(h, "/next")
	page := identitytest.AuthenticatorPage + "?flow=" + strings.TrimPrefix(asked.URL, "/step-up?flow=")
	if !strings.Contains(asked.Body.String(), page) {
		t.Fatalf("the page at %s offers no app at %s:\n%s", asked.URL, page, asked.Body)
	}
	b.AddApp(page)
	if a := b.Get("/next"); !strings.HasPrefix(a.Body.String(), "signed in as ") {
		t.Errorf("with an app: %d at %s", a.Code, a.URL)
	}
}
