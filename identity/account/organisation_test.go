package account_test

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/identitytest"
	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/authn"
	"github.com/gatehouse-id/gatehouse/storage"
)

// TestOrganisationLinks: the account page links to the start of an application, and to the person's account at the
// organisation that owns it.
func TestOrganisationLinks(t *testing.T) {
	t.Parallel()
	h, b, u, _ := dashboard(t)
	h.Account.Tie(&given{
		person: h.Details(identitytest.Demo).ID,
		list:   []authn.Application{{ID: "shop", Name: "The shop <b>"}, {ID: "other", Name: "Another one"}},
	})
	shows := func() string { t.Helper(); return b.Get("/account/applications").Body.String() }
	if body := shows(); strings.Contains(body, `class="away"`) {
		t.Errorf("without an organisation the page leads elsewhere:\n%s", body)
	}
	shop := map[string]settings.ServiceProvider{"shop": {ID: "shop"}}
	u.Organisations = []settings.Organisation{{ID: "acme", Name: "Acme <b>", ServiceProviders: shop}}
	if body := shows(); strings.Contains(body, `class="away"`) {
		t.Errorf("an organisation without addresses has links:\n%s", body)
	}
	o := &u.Organisations[0]
	o.LandingPageURL, o.AccountLinkURL, o.IsPrivate = "https://shop.example.com/?a=1&b", "https://acme.example.com/me", true
	body := shows()
	for _, want := range []string{
		`<a href="https://shop.example.com/?a=1&amp;b" rel="noopener noreferrer">Open The shop &lt;b&gt;</a>`,
		`<a href="https://acme.example.com/me" rel="noopener noreferrer">Your account at Acme &lt;b&gt;</a>`,
	} {
		if strings.Count(body, want) != 1 {
			t.Errorf("the page has %d of %s, want 1:\n%s", strings.Count(body, want), want, body)
		}
	}
	if o.Name = ""; !strings.Contains(shows(), ">Your account at acme.example.com</a>") {
		t.Errorf("an organisation without a name is not called by its host:\n%s", shows())
	}
	u.Organisations = append(u.Organisations,
		settings.Organisation{ID: "later", LandingPageURL: "https://later.example.com/", ServiceProviders: shop})
	if body := shows(); !strings.Contains(body, "https://later.example.com/") || strings.Contains(body, "https://shop.example.com/") {
		t.Errorf("of two that claim an application not the last one has it:\n%s", body)
	}
	if got := b.Get("/account/applications").Header().Get("Referrer-Policy"); got != "same-origin" {
		t.Errorf("Referrer-Policy = %q", got)
	}
	t.Run("attack 276: addresses of an organisation that a browser would run", func(t *testing.T) {
		for _, evil := range []string{
			"javascript:alert(1)", "JaVaScRiPt:alert(1)", "data:text/html,x", "vbscript:x", "//evil.example",
			"/account", "https://user@evil.example/", "mailto:a@b", "https://", "\x00https://x.example",
		} {
			u.Organisations = []settings.Organisation{{ID: "acme", LandingPageURL: evil, AccountLinkURL: evil, ServiceProviders: shop}}
			if body := shows(); strings.Contains(body, `class="away"`) {
				t.Errorf("%q is a link:\n%s", evil, body)
			}
		}
	})
}

// TestOpenApplication: the account page leads to where a sign-in at an application begins.
func TestOpenApplication(t *testing.T) {
	t.Parallel()
	h, b, u, _ := dashboard(t)
	h.Account.Tie(&given{
		person: h.Details(identitytest.Demo).ID,
		list:   []authn.Application{{ID: "shop", Name: "The shop", Start: "https://shop.example.com/login?a=1&iss=x"}},
	})
	if body := b.Get("/account/applications").Body.String(); strings.Count(body,
		`<a href="https://shop.example.com/login?a=1&amp;iss=x" rel="noopener noreferrer">Open The shop</a>`) != 1 {
		t.Errorf("the page does not lead there:\n%s", body)
	}
	u.Organisations = []settings.Organisation{{
		ID: "acme", LandingPageURL: "https://shop.example.com/start",
		ServiceProviders: map[string]settings.ServiceProvider{"shop": {ID: "shop"}},
	}}
	if body := b.Get("/account/applications").Body.String(); !strings.Contains(body, "https://shop.example.com/start") ||
		strings.Contains(body, "/login") {
		t.Errorf("the start page of the organisation does not take its place:\n%s", body)
	}
}

// TestNotifyUnlinked: an organisation that asks for it is told when a person unlinks one of its applications.
func TestNotifyUnlinked(t *testing.T) {
	t.Parallel()
	h, _, u, m := dashboard(t)
	at := h.Clock.Now()
	unlink := func(what string, want ...string) {
		t.Helper()
		err := h.Store.Update(t.Context(), func(tx storage.Tx) error {
			return h.Account.Unlinked(tx, authn.Unlinked{Person: "person", Subject: "pairwise", ClientID: "shop", Client: "The shop", At: at})
		})
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		for _, n := range identitytest.WantNotices(t, what, m, want...) {
			if n.Name != "" || n.Link != "" || n.PersonID != "person" || !n.At.Equal(at) || len(n.Data) != 2 ||
				n.Data["application"] != "The shop" || n.Data["subject"] != "pairwise" {
				t.Errorf("%s: notice = %+v, want the application and the subject by which it knows the person alone", what, n)
			}
		}
	}
	unlink("no organisation")
	u.Organisations = []settings.Organisation{{
		ID: "acme", SupportEmail: "help@acme.example",
		ServiceProviders: map[string]settings.ServiceProvider{"shop": {ID: "shop"}},
	}}
	o := &u.Organisations[0]
	unlink("switched off")
	o.NotifyWhenUserDoesUnlinkAccount = true
	unlink("switched on", "account_unlinked help@acme.example")
	o.ServiceProviders = map[string]settings.ServiceProvider{"other": {ID: "other"}}
	unlink("an application of somebody else")
	o.ServiceProviders = map[string]settings.ServiceProvider{"shop": {ID: "shop"}}
	o.SupportEmail = ""
	unlink("without an address")
	o.SupportEmail, o.PreferredLanguage = "help@acme.example", "nl_NL"
	tx := func(tx storage.Tx) error {
		return h.Account.Unlinked(tx, authn.Unlinked{Person: "person", Subject: "pairwise", ClientID: "shop", Client: "The shop", At: at})
	}
	if err := h.Store.Update(t.Context(), tx); err != nil {
		t.Fatal(err)
	}
	if list := identitytest.WantNotices(t, "in its language", m, "account_unlinked help@acme.example"); len(list) == 1 &&
		!slices.Equal(list[0].Locales, []string{"nl_NL"}) {
		t.Errorf("locales = %q, want nl_NL", list[0].Locales)
	}
	t.Run("giving and taking back fills no mailbox", func(t *testing.T) {
		leaves := func(person, client string) {
			t.Helper()
			if err := h.Store.Update(t.Context(), func(tx storage.Tx) error {
				return h.Account.Unlinked(tx, authn.Unlinked{Person: person, Subject: "pairwise", ClientID: client, Client: client, At: h.Clock.Now()})
			}); err != nil {
				t.Fatal(err)
			}
		}
		for range 50 {
			leaves("flood", "shop")
		}
		told := slices.Repeat([]string{"account_unlinked help@acme.example"}, 5)
		identitytest.WantNotices(t, "fifty times", m, told...)
		leaves("another", "shop")
		o.ServiceProviders["blog"] = settings.ServiceProvider{ID: "blog"}
		leaves("flood", "blog")
		identitytest.WantNotices(t, "another person, and another application", m, told[:2]...)
		h.Clock.Advance(time.Hour)
		leaves("flood", "shop")
		identitytest.WantNotices(t, "an hour later", m, told[:1]...)
	})
	h.Notices = nil
	h.Start()
	unlink("without mail")
}

// TestRequiredAuthenticationLevel: if an organisation demands a level for an application, no lower level is enough,
// even if the application asks for less.
func TestRequiredAuthenticationLevel(t *testing.T) {
	t.Parallel()
	h, u := identitytest.NewStepping(t, 0)
	require := func(client string, level int) {
		u.Organisations = []settings.Organisation{{
			ID:               "acme",
			ServiceProviders: map[string]settings.ServiceProvider{client: {ID: client, RequiredAuthenticationLevel: level}},
		}}
	}
	enters := func(b *identitytest.Browser) bool {
		t.Helper()
		return strings.HasPrefix(b.Get("/next").Body.String(), "signed in as ")
	}
	b := h.Browser()
	b.Plain()
	require("other", 3)
	if !enters(b) {
		t.Error("the level of another application keeps a person out")
	}
	require("shop", 1)
	if !enters(b) {
		t.Error("level 1 keeps out who has signed in by password")
	}
	require("shop", 3)
	a := b.Get("/next")
	if enters(b) || !strings.Contains(a.URL, "/step-up") && !strings.Contains(a.URL, "/account/security") {
		t.Errorf("level 3 leads to %q, want a step-up", a.URL)
	}
	u.Organisations = append(u.Organisations,
		settings.Organisation{
			ID:               "other",
			ServiceProviders: map[string]settings.ServiceProvider{"shop": {ID: "shop", RequiredAuthenticationLevel: 1}},
		})
	if enters(b) {
		t.Error("another organisation that claims the application has taken the level away")
	}
	b.AddApp(identitytest.AuthenticatorPage)
	if !enters(b) {
		t.Error("who has stepped up to level 3 is kept out")
	}
	t.Run("attack 266: an application that asks for less than its organisation demands", func(t *testing.T) {
		if enters(h.Browser()) {
			t.Error("nobody enters")
		}
		silent := h.Browser()
		u.Organisations = nil
		silent.Plain()
		require("shop", 3)
		before := h.Demand
		h.Demand = func(r *http.Request) authn.Demand {
			d := before(r)
			d.Passive, d.Level = true, 1
			return d
		}
		if a := silent.Get("/next"); a.Code != http.StatusForbidden || !strings.Contains(a.Body.String(), "interaction_required") {
			t.Errorf("a passive request = %d %s, want interaction_required", a.Code, a.Body)
		}
		_, err := h.CheckPassword(t.Context(), "shop", identitytest.Demo, identitytest.DemoPassword, audit.Origin{ClientIP: "203.0.113.7"})
		if refusal := new(authn.Refusal); !errors.As(err, &refusal) || refusal.Code != "access_denied" {
			t.Errorf("the password grant: %v, want a refusal", err)
		}
		if _, err := h.CheckPasswordOnly(t.Context(), "other", identitytest.Demo, identitytest.DemoPassword,
			audit.Origin{ClientIP: "203.0.113.7"}); err != nil {
			t.Errorf("the password grant of another application: %v", err)
		}
	})
}
