package trustedbrowser_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/identity"
	"github.com/gatehouse-id/gatehouse/identity/identitytest"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/session"
	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/identity/trustedbrowser"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/authn"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

const (
	robin         = "robin@example.com"
	robinPassword = "The password of robin!"
)

// trust is a service where the shop needs level 2 and accepts trusted browsers, and the app of the demo person.
type trust struct {
	*identitytest.Harness

	u   *settings.Units
	app string // secret of the authenticator app
}

func trusting(t *testing.T) *trust {
	t.Helper()
	h, u := identitytest.NewStepping(t, 0, func(c *identity.Config) {
		c.Persons = append(c.Persons, person.NewPerson{Username: robin, Password: secret.New(robinPassword)})
	})
	app, _, _ := h.Plain().AddApp(identitytest.AuthenticatorPage)
	u.Organisations = []settings.Organisation{{ID: "acme", ServiceProviders: map[string]settings.ServiceProvider{
		"shop": {ID: "shop", RequiredAuthenticationLevel: 2, UseTrustedDevice: "true"},
	}}}
	return &trust{h, u, app}
}

// change changes the service provider of the shop.
func (x *trust) change(f func(sp *settings.ServiceProvider)) {
	sp := x.u.Organisations[0].ServiceProviders["shop"]
	f(&sp)
	x.u.Organisations[0].ServiceProviders["shop"] = sp
}

// comes opens the shop in a new session of a browser, with the password, and returns where that leads.
func (x *trust) comes(b *identitytest.Browser) *identitytest.Answer {
	x.T.Helper()
	return x.comesAs(b, identitytest.Demo, identitytest.DemoPassword)
}

func (x *trust) comesAs(b *identitytest.Browser, username, password string) *identitytest.Answer {
	x.T.Helper()
	for name := range b.Cookies {
		if strings.HasSuffix(name, "-session") {
			delete(b.Cookies, name)
		}
	}
	a := b.Post(b.Get("/next"), "username", username, "password", password)
	if a.Code != http.StatusSeeOther {
		x.T.Fatalf("sign-in of %s: %d\n%s", username, a.Code, a.Body)
	}
	return b.Get(a.Header().Get("Location"))
}

// confirms types the code of the app, and returns the page that asks whether the browser is trusted.
func (x *trust) confirms(b *identitytest.Browser, a *identitytest.Answer) *identitytest.Answer {
	x.T.Helper()
	if !isAsked(a) {
		x.T.Fatalf("%s: %d, want the second factor to be asked for\n%s", a.URL, a.Code, a.Body)
	}
	a = b.Post(a, "code", x.Code(x.app))
	if a.Code != http.StatusSeeOther {
		x.T.Fatalf("the code: %d\n%s", a.Code, a.Body)
	}
	x.Clock.Advance(30 * time.Second) // the code of this step is used up
	return b.Get(a.Header().Get("Location"))
}

// trusted is a new browser that the demo person trusts.
func (x *trust) trusted() *identitytest.Browser {
	x.T.Helper()
	b := x.Browser()
	a := b.Post(x.confirms(b, x.comes(b)), "trust", "yes")
	if a = b.Get(a.Header().Get("Location")); !entered(a) || b.Cookie("trusted") == "" {
		x.T.Fatalf("who trusts the browser comes to %s: %d\n%s", a.URL, a.Code, a.Body)
	}
	return b
}

// isAsked reports whether a page asks for the second factor, or for one to be set up.
func isAsked(a *identitytest.Answer) bool { return strings.HasPrefix(a.URL, "/step-up?") }

func entered(a *identitytest.Answer) bool { return strings.HasPrefix(a.Body.String(), "signed in as ") }

// wantAsked checks that a browser is asked for the second factor.
func (x *trust) wantAsked(what string, a *identitytest.Answer) {
	x.T.Helper()
	if !isAsked(a) {
		x.T.Errorf("%s: %s %d, want the second factor to be asked for\n%s", what, a.URL, a.Code, a.Body)
	}
}

// wantInside checks that a browser needs no second factor.
func (x *trust) wantInside(what string, a *identitytest.Answer) {
	x.T.Helper()
	if !entered(a) {
		x.T.Errorf("%s: %s %d, want to be in\n%s", what, a.URL, a.Code, a.Body)
	}
}

func TestTrustedBrowser(t *testing.T) {
	t.Parallel()
	x := trusting(t)
	b := x.Browser()
	a := x.confirms(b, x.comes(b))
	box := a.Body.String()
	if i := strings.Index(box, `type="checkbox"`); !strings.HasPrefix(a.URL, "/step-up/trust?flow=") || i < 0 ||
		strings.Contains(box, "checked") ||
		!strings.Contains(box, "Trust this browser for 30 days") {
		t.Fatalf("after the second factor: %s\n%s", a.URL, a.Body)
	}
	if a := b.Get(a.URL); !strings.HasPrefix(a.URL, "/step-up/trust") {
		t.Errorf("the page again: %s", a.URL)
	}
	if a = b.Post(a); a.Code != http.StatusSeeOther || b.Cookie("trusted") != "" {
		t.Errorf("who does not trust the browser: %d, cookie %q", a.Code, b.Cookie("trusted"))
	}
	x.wantInside("who does not trust the browser", b.Get("/next"))
	x.wantAsked("without trust", x.comes(b))

	a = x.confirms(b, b.Get("/next"))
	a = b.Post(a, "trust", "yes")
	set := ""
	for _, c := range a.Header().Values("Set-Cookie") {
		if strings.Contains(c, "-trusted=") {
			set = c
		}
	}
	for _, want := range []string{"__Host-", "; Path=/", "; Max-Age=2592000", "; HttpOnly", "; Secure", "; SameSite=Lax"} {
		if !strings.Contains(set, want) {
			t.Errorf("the cookie %q has no %s", set, want)
		}
	}
	x.wantInside("who trusts the browser", b.Get("/next"))
	x.WantLevel(b, 3)
	_, value, _ := strings.Cut(b.Cookie("trusted"), ".")
	for key, rec := range x.Dump() {
		if strings.Contains(key+rec, value) {
			t.Errorf("the secret is stored under %q", key)
		}
	}

	earlier := b.Cookie("trusted")
	was := earlier
	x.wantInside("the password and a trusted browser", x.comes(b))
	x.WantLevel(b, 1)
	if b.Cookie("trusted") == was {
		t.Error("the secret stays the same")
	}
	was = b.Cookie("trusted")
	x.wantInside("the same session", b.Get("/next?again=1"))
	if b.Cookie("trusted") != was {
		t.Error("a further request of the session changes the secret")
	}
	for kind, want := range map[string]int{
		"login.BrowserTrustedEvent": 1, "login.TrustedBrowserUsedEvent": 1,
		"login.BrowserTrustEndedEvent": 0,
	} {
		if got := x.Events()[kind]; got != want {
			t.Errorf("%d events %s, want %d", got, kind, want)
		}
	}
	x.wantAsked("another browser", x.comes(x.Browser()))

	got := b.Cookie("trusted")
	for name := range b.Cookies {
		if strings.HasSuffix(name, "-trusted") {
			b.Cookies[name] = earlier // the answer with the other one was lost
		}
	}
	x.wantInside("the same session without the answer", b.Get("/next?again=2"))
	if b.Cookie("trusted") != got {
		t.Error("the secret of the lost answer is not given again")
	}
	x.wantInside("the next session", x.comes(b))
	if n := x.Events()["login.BrowserTrustEndedEvent"]; n != 0 {
		t.Errorf("%d trusts have ended", n)
	}

	list := b.Get("/account/devices")
	if !strings.Contains(list.Body.String(), "Trusted browsers") || !strings.Contains(list.Body.String(), "Stop trusting") {
		t.Fatalf("the devices:\n%s", list.Body)
	}
	if a := b.Get("/account/data/download"); !strings.Contains(a.Body.String(), `"trusted_browsers"`) {
		t.Errorf("the download has no trusted browser: %d", a.Code)
	}
	_, part, _ := strings.Cut(list.Body.String(), "Trusted browsers")
	id, _, _ := strings.Cut(b.Cookie("trusted"), ".")
	if !strings.Contains(part, id) {
		t.Fatalf("the part has no form for %s:\n%s", id, part)
	}
	a = b.Do(http.MethodPost, "/account/devices",
		url.Values{"csrf": {identitytest.CSRFField.FindStringSubmatch(part)[1]}, "trusted": {id}}.Encode())
	if a.Code != http.StatusSeeOther || !strings.Contains(b.Get(a.Header().Get("Location")).Body.String(), "no longer trusted") {
		t.Errorf("not trusted any more: %d\n%s", a.Code, a.Body)
	}
	x.wantAsked("the same session, no longer trusted", b.Get("/next"))
	x.wantAsked("no longer trusted", x.comes(b))
	if got := x.Events()["login.BrowserTrustEndedEvent"]; got != 1 {
		t.Errorf("%d events of the end, want 1", got)
	}
	x.CheckInvariants()
}

// TestTrustedBrowsers: a person has at most ten, and one in each browser.
func TestTrustedBrowsers(t *testing.T) {
	t.Parallel()
	x := trusting(t)
	var all []*identitytest.Browser
	for range 11 {
		all = append(all, x.trusted())
		x.Clock.Advance(time.Minute)
	}
	x.wantAsked("the oldest of eleven", x.comes(all[0]))
	x.wantInside("the next one", x.comes(all[1]))
	again := all[1]
	x.change(func(sp *settings.ServiceProvider) { sp.UseTrustedDevice = "" })
	a := x.comes(again)
	x.change(func(sp *settings.ServiceProvider) { sp.UseTrustedDevice = "TRUE" })
	again.Post(x.confirms(again, a), "trust", "yes")
	x.wantInside("trusted twice", x.comes(again))
	x.wantInside("another one", x.comes(all[2]))
	if n := strings.Count(again.Get("/account/devices").Body.String(), `name="trusted"`); n != 10 {
		t.Errorf("%d trusted browsers are listed, want 10", n)
	}
}

// TestTrustedBrowserBySAML: it counts too where each request of a service provider needs a sign-in, but not where the
// service provider demands one.
func TestTrustedBrowserBySAML(t *testing.T) {
	t.Parallel()
	x := trusting(t)
	x.WithKeys()
	x.u.Organisations[0].ServiceProviders["wiki"] = settings.ServiceProvider{
		ID: "wiki", Type: "SAML", SAMLMetadata: identitytest.MetadataAs(identitytest.WikiEntity, identitytest.WikiACS),
		RequiredAuthenticationLevel: 2, UseTrustedDevice: "true",
	}
	x.u.Features.CookieBasedSAMLAuthentication = false
	x.Serve()
	b := x.Browser()
	a := x.confirms(b, b.Enter(b.Request(x.AuthnRequest("_one"), "")))
	a = b.Post(a, "trust", "yes")
	if d := b.Get(a.Header().Get("Location")).Deliver(t); !slices.Equal(d.Status(), []string{"Success"}) {
		t.Fatalf("with the second factor: %q", d.Status())
	}
	x.Clock.Advance(time.Minute)
	if d := b.Enter(b.Request(x.AuthnRequest("_two"), "")).Deliver(t); !slices.Equal(d.Status(), []string{"Success"}) ||
		d.Text(".//AuthnContextClassRef") != "https://refeds.org/profile/mfa" {
		t.Errorf("with the trusted browser: %q, %q", d.Status(), d.Text(".//AuthnContextClassRef"))
	}
	x.Clock.Advance(time.Minute)
	x.wantAsked("attack 855: ForceAuthn",
		b.Enter(b.Request(x.AuthnRequest("_three", identitytest.WithAttributes(`ForceAuthn="true"`)...), "")))
}

func TestAttacksOnTrustedBrowsers(t *testing.T) {
	t.Parallel()
	for name, attack := range map[string]func(*trust){
		"attack 851: the cookie of another person": func(x *trust) {
			b, m := x.trusted(), x.Browser()
			m.Cookies = b.Clone().Cookies
			x.wantAsked("robin with the cookie of demo", x.comesAs(m, robin, robinPassword))
			x.wantInside("demo afterwards", x.comes(b))
		},
		"attack 852: an earlier secret": func(x *trust) {
			b := x.trusted()
			thief := b.Clone()
			x.wantInside("the person", x.comes(b))
			x.wantAsked("the thief, later", x.comes(thief))
			if got := x.Events()["login.BrowserTrustEndedEvent"]; got != 1 || thief.Cookie("trusted") != "" {
				x.T.Errorf("%d events, cookie %q", got, thief.Cookie("trusted"))
			}
			x.wantAsked("the person, in the session where it counted", b.Get("/next"))
			x.wantAsked("the person, in another one", x.comes(b))
		},
		"attack 852: a thief who is faster": func(x *trust) {
			b := x.trusted()
			thief := b.Clone()
			x.wantInside("the thief", x.comes(thief)) // with password and cookie
			x.wantAsked("the person", x.comes(b))
			x.wantAsked("the thief afterwards", thief.Get("/next"))
		},
		"attack 853: a made-up secret": func(x *trust) {
			b := x.trusted()
			right := b.Cookie("trusted")
			id, value, _ := strings.Cut(right, ".")
			m := x.Browser()
			put := func(v string) {
				for name := range b.Cookies {
					if strings.HasSuffix(name, "-trusted") {
						m.Cookies[name] = v
					}
				}
			}
			for _, v := range []string{strings.Repeat("A", 22) + "." + value, id, id + ".", "." + value, "", ".", id + "/x." + value} {
				put(v)
				x.wantAsked("with "+v, x.comes(m))
			}
			x.wantInside("the person", x.comes(b))
			put(id + "." + strings.Repeat("A", len(value)))
			x.wantAsked("with the id and another secret", x.comes(m))
			x.wantAsked("the person afterwards", x.comes(b))
		},
		"attack 854: an application without the member": func(x *trust) {
			b := x.trusted()
			x.change(func(sp *settings.ServiceProvider) { sp.UseTrustedDevice = "false" })
			a := x.comes(b)
			x.wantAsked("false", a)
			if a := b.Post(a, "code", x.Code(x.app)); a.Header().Get("Location") != "/next" || !entered(b.Get("/next")) {
				x.T.Errorf("false: the way leads to %q, want the application", a.Header().Get("Location"))
			}
			x.Clock.Advance(30 * time.Second)
			x.change(func(sp *settings.ServiceProvider) { sp.UseTrustedDevice = "true" })
			x.u.Organisations = append(x.u.Organisations,
				settings.Organisation{ID: "other", ServiceProviders: map[string]settings.ServiceProvider{"shop": {ID: "shop"}}})
			x.wantAsked("another organisation lists it without", x.comes(b))
			x.u.Organisations = x.u.Organisations[:1]
			x.wantInside("as before", x.comes(b))
			before := x.Demand
			x.Demand = func(r *http.Request) authn.Demand {
				d := before(r)
				d.Level, d.Client = 2, authn.Client{ID: "other"}
				return d
			}
			x.wantAsked("another application, in the session where it counts", b.Get("/next"))
		},
		"attack 855: level 3": func(x *trust) {
			b := x.trusted()
			x.change(func(sp *settings.ServiceProvider) { sp.RequiredAuthenticationLevel = 3 })
			x.wantAsked("level 3", x.comes(b))
		},
		"attack 855: a fresh sign-in": func(x *trust) {
			b := x.trusted()
			x.wantInside("any sign-in", x.comes(b))
			before := x.Demand
			for name, strict := range map[string]func(d *authn.Demand){
				"prompt=login": func(d *authn.Demand) { d.NotBefore = x.Clock.Now().Add(-time.Hour) },
				"max_age":      func(d *authn.Demand) { d.MaxAge = time.Hour },
			} {
				x.Demand = func(r *http.Request) authn.Demand {
					d := before(r)
					strict(&d)
					return d
				}
				x.wantAsked(name, b.Get("/next"))
			}
		},
		"attack 855: pages of the account": func(x *trust) {
			b := x.trusted()
			x.wantInside("the application", x.comes(b))
			x.u.StepUp.Actions.DashboardStepUpAuthenticationLevel = 2
			x.wantAsked("the account", b.Get("/account"))
			x.u.StepUp.Actions.DashboardStepUpAuthenticationLevel = 1
			x.u.Features.PINEnabled = true
			x.wantAsked("another method", b.Get("/account/security/pin"))
		},
		"attack 856: 30 days later": func(x *trust) {
			b := x.trusted()
			x.Clock.Advance(30*24*time.Hour - time.Minute)
			x.wantInside("a minute before", x.comes(b))
			x.Clock.Advance(time.Minute)
			x.wantAsked("in a session where it counted", b.Get("/next"))
			x.wantAsked("in another one", x.comes(b))
		},
		"attack 857: without a second factor": func(x *trust) {
			b := x.Browser()
			page := x.comes(b)
			flow := strings.TrimPrefix(page.URL, "/step-up?flow=")
			x.wantAsked("the page", b.Get("/step-up/trust?flow="+flow))
			form := url.Values{"csrf": {page.CSRF()}, "trust": {"yes"}}.Encode()
			if a := b.Do(http.MethodPost, "/step-up/trust?flow="+flow, form); a.Code != http.StatusSeeOther {
				x.T.Errorf("the form: %d", a.Code)
			}
			offer := x.confirms(b, page)
			if a := b.Do(http.MethodPost, offer.URL, form); a.Code != http.StatusForbidden {
				x.T.Errorf("the form of another page: %d, want 403", a.Code)
			}
			if a := x.Browser().Do(http.MethodPost, offer.URL,
				url.Values{"csrf": {offer.CSRF()}, "trust": {"yes"}}.Encode()); a.Code != http.StatusForbidden {
				x.T.Errorf("another browser: %d, want 403", a.Code)
			}
			if got := x.Events()["login.BrowserTrustedEvent"]; got != 0 || b.Cookie("trusted") != "" {
				x.T.Errorf("%d browsers are trusted", got)
			}
			b.Post(offer, "trust", "yes")
			b.Post(offer, "trust", "yes")
			if got := x.Events()["login.BrowserTrustedEvent"]; got != 1 {
				x.T.Errorf("%d browsers are trusted by one form, want 1", got)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := trusting(t)
			x.T = t
			attack(x)
			x.CheckInvariants()
		})
	}
}

// TestTrustedBrowserEnds: what ends the trust in all browsers of a person, but not of others.
func TestTrustedBrowserEnds(t *testing.T) {
	t.Parallel()
	admin := audit.Actor{ID: "admin"}
	for name, end := range map[string]func(*trust, *identitytest.Browser) error{
		"another password": func(x *trust, _ *identitytest.Browser) error {
			return x.Person.SetPassword(x.T.Context(), identitytest.Demo, secret.New(identitytest.DemoPassword), admin)
		},
		"a block": func(x *trust, _ *identitytest.Browser) error {
			if err := x.Person.SetState(x.T.Context(), identitytest.Demo, person.Blocked, admin); err != nil {
				return err
			}
			return x.Person.SetState(x.T.Context(), identitytest.Demo, person.Active, admin)
		},
		"the end of the person's sessions": func(x *trust, _ *identitytest.Browser) error {
			return x.Person.EndSessions(x.T.Context(), identitytest.Demo, admin)
		},
		"an administrator": func(x *trust, _ *identitytest.Browser) error {
			ended, err := x.Trusted.ForgetFor(x.T.Context(), x.IDOf(identitytest.Demo), "", admin)
			if err == nil && ended != 2 {
				x.T.Errorf("the trust has ended in %d browsers, want 2", ended)
			}
			return err
		},
		"the end of all sessions": func(x *trust, _ *identitytest.Browser) error {
			return x.Store.Update(x.T.Context(), session.EndAllSessions)
		},
		"another factor": func(x *trust, b *identitytest.Browser) error {
			x.u.Features.PINEnabled = true
			a := b.Get("/account/security/pin")
			if a = b.Post(a, "pin", "739152", "again", "739152"); a.Code != http.StatusSeeOther {
				x.T.Fatalf("the PIN: %d\n%s", a.Code, a.Body)
			}
			x.u.Features.PINEnabled = false
			return nil
		},
		"other recovery codes": func(x *trust, b *identitytest.Browser) error {
			if a := b.Post(b.Get("/account/security/recovery")); a.Code != http.StatusOK {
				x.T.Fatalf("other recovery codes: %d\n%s", a.Code, a.Body)
			}
			return nil
		},
		"the sign-out everywhere else": func(x *trust, b *identitytest.Browser) error {
			x.comes(x.Browser())
			a := b.Get("/account/devices")
			_, part, _ := strings.Cut(a.Body.String(), "All other devices")
			if m := identitytest.CSRFField.FindStringSubmatch(part); m != nil {
				a = b.Do(http.MethodPost, "/account/devices", url.Values{"csrf": {m[1]}, "session": {"others"}}.Encode())
			}
			if a.Code != http.StatusSeeOther {
				x.T.Fatalf("sign out everywhere else: %d\n%s", a.Code, a.Body)
			}
			return nil
		},
		"an address that is no longer there": func(x *trust, _ *identitytest.Browser) error {
			_, err := x.Person.UpdatePerson(x.T.Context(), x.IDOf(identitytest.Demo), person.Edit{By: admin},
				func(_ storage.Tx, d *person.Details) error {
					d.Profile.EmailAddresses = []person.EmailAddress{{Value: "else@example.com", Verified: true, Primary: true}}
					return nil
				})
			return err
		},
	} {
		t.Run("attack 856: "+name, func(t *testing.T) {
			t.Parallel()
			x := trusting(t)
			x.T = t
			b, other := x.trusted(), x.trusted()
			if err := end(x, b); err != nil {
				t.Fatal(err)
			}
			x.wantAsked("the browser", x.comes(b))
			x.wantAsked("another one", x.comes(other))
			if strings.Contains(other.Get("/account/devices").Body.String(), "Stop trusting") {
				t.Error("a trusted browser is listed")
			}
			x.CheckInvariants()
		})
	}
}

// TestTrustedBrowserIsEnded: an administrator or backend ends the trust in one browser of a person: it counts for no
// further request, while the other browsers and the sessions go on.
func TestTrustedBrowserIsEnded(t *testing.T) {
	t.Parallel()
	x := trusting(t)
	admin := audit.Actor{ID: "admin", Name: "Ann Admin"}
	b := x.trusted()
	x.Clock.Advance(time.Minute)
	other := x.trusted()
	x.wantInside("the browser", x.comes(b))
	var list []trustedbrowser.Info
	demoID := x.IDOf(identitytest.Demo)
	err := x.Store.View(t.Context(), func(tx storage.Tx) (err error) {
		list, err = x.Trusted.Listed(tx, demoID, x.Clock.Now())
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	id, value, _ := strings.Cut(b.Cookie("trusted"), ".")
	if len(list) != 2 || list[1].ID != id || list[1].UserAgent == "" || !list[1].LastUsedAt.After(list[1].TrustedAt) ||
		list[1].ExpiresAt.Sub(list[1].TrustedAt) != 30*24*time.Hour {
		t.Fatalf("listed are %+v, want %s as the second one", list, id)
	}
	if said := fmt.Sprintf("%+v", list); strings.Contains(said, value) || strings.Contains(said, secret.Hash(value)) {
		t.Errorf("the list has the secret: %s", said)
	}
	for _, of := range []string{robin, identitytest.Demo} { // attack 887: by the id of another person's browser
		which := map[string]string{robin: id, identitytest.Demo: "made-up"}[of]
		if ended, err := x.Trusted.ForgetFor(t.Context(), x.IDOf(of), which, admin); ended != 0 || err != nil {
			t.Errorf("browser %s of %s: %d, %v", which, of, ended, err)
		}
	}
	if got := x.Events()["login.BrowserTrustEndedEvent"]; got != 0 {
		t.Errorf("%d events although no trust has ended", got)
	}
	if ended, err := x.Trusted.ForgetFor(t.Context(), x.IDOf(identitytest.Demo), id, admin); ended != 1 || err != nil {
		t.Fatalf("the browser: %d, %v", ended, err)
	}
	if a := b.Get("/account/profile"); a.Code != http.StatusOK || isAsked(a) {
		t.Errorf("the session has ended, too: %d %s", a.Code, a.URL)
	}
	x.wantAsked("the session where it counted", b.Get("/next"))
	x.wantAsked("a new session", x.comes(b))
	x.wantInside("the other browser", x.comes(other))
	if _, err := x.Trusted.ForgetFor(t.Context(), "nobody@example.com", "", admin); !errors.Is(err, person.ErrNoPerson) {
		t.Errorf("nobody's browsers: %v", err)
	}
	if got := x.Events()["login.BrowserTrustEndedEvent"]; got != 1 {
		t.Errorf("%d events, want 1", got)
	}
	x.CheckInvariants()
}
