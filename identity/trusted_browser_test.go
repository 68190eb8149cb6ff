package identity_test

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
	"github.com/gatehouse-id/gatehouse/identity/config"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/session"
	"github.com/gatehouse-id/gatehouse/identity/trusted"
	"github.com/gatehouse-id/gatehouse/internal/event"
	"github.com/gatehouse-id/gatehouse/internal/login"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

const (
	robin         = "robin@example.com"
	robinPassword = "The password of robin!"
)

// trust is a service where the shop needs level 2 and accepts trusted browsers, and the app of the demo person.
type trust struct {
	*harness

	u   *config.Units
	app string // secret of the authenticator app
}

func trusting(t *testing.T) *trust {
	t.Helper()
	h, u := stepping(t, 0, func(c *identity.Config) {
		c.Persons = append(c.Persons, person.NewPerson{Username: robin, Password: secret.New(robinPassword)})
	})
	app, _, _ := h.plain().app(authenticatorPage)
	u.Organisations = []config.Organisation{{ID: "acme", ServiceProviders: map[string]config.ServiceProvider{
		"shop": {ID: "shop", RequiredAuthenticationLevel: 2, UseTrustedDevice: "true"},
	}}}
	return &trust{h, u, app}
}

// change changes the service provider of the shop.
func (x *trust) change(f func(sp *config.ServiceProvider)) {
	sp := x.u.Organisations[0].ServiceProviders["shop"]
	f(&sp)
	x.u.Organisations[0].ServiceProviders["shop"] = sp
}

// comes opens the shop in a new session of a browser, with the password, and returns where that leads.
func (x *trust) comes(b *browser) *answer { x.t.Helper(); return x.comesAs(b, demo, demoPassword) }

func (x *trust) comesAs(b *browser, username, password string) *answer {
	x.t.Helper()
	for name := range b.cookies {
		if strings.HasSuffix(name, "-session") {
			delete(b.cookies, name)
		}
	}
	a := b.post(b.get("/next"), "username", username, "password", password)
	if a.Code != http.StatusSeeOther {
		x.t.Fatalf("sign-in of %s: %d\n%s", username, a.Code, a.Body)
	}
	return b.get(a.Header().Get("Location"))
}

// confirms types the code of the app, and returns the page that asks whether the browser is trusted.
func (x *trust) confirms(b *browser, a *answer) *answer {
	x.t.Helper()
	if !isAsked(a) {
		x.t.Fatalf("%s: %d, want the second factor to be asked for\n%s", a.url, a.Code, a.Body)
	}
	a = b.post(a, "code", x.code(x.app))
	if a.Code != http.StatusSeeOther {
		x.t.Fatalf("the code: %d\n%s", a.Code, a.Body)
	}
	x.clock.Advance(30 * time.Second) // the code of this step is used up
	return b.get(a.Header().Get("Location"))
}

// trusted is a new browser that the demo person trusts.
func (x *trust) trusted() *browser {
	x.t.Helper()
	b := x.browser()
	a := b.post(x.confirms(b, x.comes(b)), "trust", "yes")
	if a = b.get(a.Header().Get("Location")); !entered(a) || b.cookie("trusted") == "" {
		x.t.Fatalf("who trusts the browser comes to %s: %d\n%s", a.url, a.Code, a.Body)
	}
	return b
}

// isAsked tells whether a page asks for the second factor, or for one to be set up.
func isAsked(a *answer) bool { return strings.HasPrefix(a.url, "/step-up?") }

func entered(a *answer) bool { return strings.HasPrefix(a.Body.String(), "signed in as ") }

// wantAsked checks that a browser is asked for the second factor.
func (x *trust) wantAsked(what string, a *answer) {
	x.t.Helper()
	if !isAsked(a) {
		x.t.Errorf("%s: %s %d, want the second factor to be asked for\n%s", what, a.url, a.Code, a.Body)
	}
}

// wantInside checks that a browser needs no second factor.
func (x *trust) wantInside(what string, a *answer) {
	x.t.Helper()
	if !entered(a) {
		x.t.Errorf("%s: %s %d, want to be in\n%s", what, a.url, a.Code, a.Body)
	}
}

func TestTrustedBrowser(t *testing.T) {
	t.Parallel()
	x := trusting(t)
	b := x.browser()
	a := x.confirms(b, x.comes(b))
	box := a.Body.String()
	if i := strings.Index(box, `type="checkbox"`); !strings.HasPrefix(a.url, "/step-up/trust?flow=") || i < 0 || strings.Contains(box, "checked") ||
		!strings.Contains(box, "Trust this browser for 30 days") {
		t.Fatalf("after the second factor: %s\n%s", a.url, a.Body)
	}
	if a := b.get(a.url); !strings.HasPrefix(a.url, "/step-up/trust") {
		t.Errorf("the page again: %s", a.url)
	}
	if a = b.post(a); a.Code != http.StatusSeeOther || b.cookie("trusted") != "" {
		t.Errorf("who does not trust the browser: %d, cookie %q", a.Code, b.cookie("trusted"))
	}
	x.wantInside("who does not trust the browser", b.get("/next"))
	x.wantAsked("without trust", x.comes(b))

	a = x.confirms(b, b.get("/next"))
	a = b.post(a, "trust", "yes")
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
	x.wantInside("who trusts the browser", b.get("/next"))
	x.wantLevel(b, 3)
	_, value, _ := strings.Cut(b.cookie("trusted"), ".")
	for key, rec := range x.dump() {
		if strings.Contains(key+rec, value) {
			t.Errorf("the secret is stored under %q", key)
		}
	}

	earlier := b.cookie("trusted")
	was := earlier
	x.wantInside("the password and a trusted browser", x.comes(b))
	x.wantLevel(b, 1)
	if b.cookie("trusted") == was {
		t.Error("the secret stays the same")
	}
	was = b.cookie("trusted")
	x.wantInside("the same session", b.get("/next?again=1"))
	if b.cookie("trusted") != was {
		t.Error("a further request of the session changes the secret")
	}
	for kind, want := range map[string]int{"login.BrowserTrustedEvent": 1, "login.TrustedBrowserUsedEvent": 1, "login.BrowserTrustEndedEvent": 0} {
		if got := x.events()[kind]; got != want {
			t.Errorf("%d events %s, want %d", got, kind, want)
		}
	}
	x.wantAsked("another browser", x.comes(x.browser()))

	got := b.cookie("trusted")
	for name := range b.cookies {
		if strings.HasSuffix(name, "-trusted") {
			b.cookies[name] = earlier // the answer with the other one was lost
		}
	}
	x.wantInside("the same session without the answer", b.get("/next?again=2"))
	if b.cookie("trusted") != got {
		t.Error("the secret of the lost answer is not given again")
	}
	x.wantInside("the next session", x.comes(b))
	if n := x.events()["login.BrowserTrustEndedEvent"]; n != 0 {
		t.Errorf("%d trusts have ended", n)
	}

	list := b.get("/account/devices")
	if !strings.Contains(list.Body.String(), "Trusted browsers") || !strings.Contains(list.Body.String(), "Stop trusting") {
		t.Fatalf("the devices:\n%s", list.Body)
	}
	if a := b.get("/account/data/download"); !strings.Contains(a.Body.String(), `"trusted_browsers"`) {
		t.Errorf("the download has no trusted browser: %d", a.Code)
	}
	_, part, _ := strings.Cut(list.Body.String(), "Trusted browsers")
	id, _, _ := strings.Cut(b.cookie("trusted"), ".")
	if !strings.Contains(part, id) {
		t.Fatalf("the part has no form for %s:\n%s", id, part)
	}
	a = b.do(http.MethodPost, "/account/devices", url.Values{"csrf": {field.FindStringSubmatch(part)[1]}, "trusted": {id}}.Encode())
	if a.Code != http.StatusSeeOther || !strings.Contains(b.get(a.Header().Get("Location")).Body.String(), "no longer trusted") {
		t.Errorf("not trusted any more: %d\n%s", a.Code, a.Body)
	}
	x.wantAsked("the same session, no longer trusted", b.get("/next"))
	x.wantAsked("no longer trusted", x.comes(b))
	if got := x.events()["login.BrowserTrustEndedEvent"]; got != 1 {
		t.Errorf("%d events of the end, want 1", got)
	}
	x.checkInvariants()
}

// TestTrustedBrowsers: a person has at most ten, and one in each browser.
func TestTrustedBrowsers(t *testing.T) {
	t.Parallel()
	x := trusting(t)
	var all []*browser
	for range 11 {
		all = append(all, x.trusted())
		x.clock.Advance(time.Minute)
	}
	x.wantAsked("the oldest of eleven", x.comes(all[0]))
	x.wantInside("the next one", x.comes(all[1]))
	again := all[1]
	x.change(func(sp *config.ServiceProvider) { sp.UseTrustedDevice = "" })
	a := x.comes(again)
	x.change(func(sp *config.ServiceProvider) { sp.UseTrustedDevice = "TRUE" })
	again.post(x.confirms(again, a), "trust", "yes")
	x.wantInside("trusted twice", x.comes(again))
	x.wantInside("another one", x.comes(all[2]))
	if n := strings.Count(again.get("/account/devices").Body.String(), `name="trusted"`); n != 10 {
		t.Errorf("%d trusted browsers are listed, want 10", n)
	}
}

// TestTrustedBrowserBySAML: it counts too where each request of a service provider needs a sign-in, but not where the
// service provider demands one.
func TestTrustedBrowserBySAML(t *testing.T) {
	t.Parallel()
	x := trusting(t)
	x.withKeys()
	x.u.Organisations[0].ServiceProviders["wiki"] = config.ServiceProvider{
		ID: "wiki", Type: "SAML", SAMLMetadata: metadataAs(wikiEntity, wikiACS), RequiredAuthenticationLevel: 2, UseTrustedDevice: "true",
	}
	x.u.Features.CookieBasedSAMLAuthentication = false
	x.serve()
	b := x.browser()
	a := x.confirms(b, b.enter(b.request(x.authnRequest("_one"), "")))
	a = b.post(a, "trust", "yes")
	if d := b.get(a.Header().Get("Location")).deliver(t); !slices.Equal(d.status(), []string{"Success"}) {
		t.Fatalf("with the second factor: %q", d.status())
	}
	x.clock.Advance(time.Minute)
	if d := b.enter(b.request(x.authnRequest("_two"), "")).deliver(t); !slices.Equal(d.status(), []string{"Success"}) || d.text(".//AuthnContextClassRef") != "https://refeds.org/profile/mfa" {
		t.Errorf("with the trusted browser: %q, %q", d.status(), d.text(".//AuthnContextClassRef"))
	}
	x.clock.Advance(time.Minute)
	x.wantAsked("attack 855: ForceAuthn", b.enter(b.request(x.authnRequest("_three", with(`ForceAuthn="true"`)...), "")))
}

func TestAttacksOnTrustedBrowsers(t *testing.T) {
	t.Parallel()
	for name, attack := range map[string]func(*trust){
		"attack 851: the cookie of another person": func(x *trust) {
			b, m := x.trusted(), x.browser()
			m.cookies = b.clone().cookies
			x.wantAsked("robin with the cookie of demo", x.comesAs(m, robin, robinPassword))
			x.wantInside("demo afterwards", x.comes(b))
		},
		"attack 852: an earlier secret": func(x *trust) {
			b := x.trusted()
			thief := b.clone()
			x.wantInside("the person", x.comes(b))
			x.wantAsked("the thief, later", x.comes(thief))
			if got := x.events()["login.BrowserTrustEndedEvent"]; got != 1 || thief.cookie("trusted") != "" {
				x.t.Errorf("%d events, cookie %q", got, thief.cookie("trusted"))
			}
			x.wantAsked("the person, in the session where it counted", b.get("/next"))
			x.wantAsked("the person, in another one", x.comes(b))
		},
		"attack 852: a thief who is faster": func(x *trust) {
			b := x.trusted()
			thief := b.clone()
			x.wantInside("the thief", x.comes(thief)) // with password and cookie
			x.wantAsked("the person", x.comes(b))
			x.wantAsked("the thief afterwards", thief.get("/next"))
		},
		"attack 853: a made-up secret": func(x *trust) {
			b := x.trusted()
			right := b.cookie("trusted")
			id, value, _ := strings.Cut(right, ".")
			m := x.browser()
			put := func(v string) {
				for name := range b.cookies {
					if strings.HasSuffix(name, "-trusted") {
						m.cookies[name] = v
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
			x.change(func(sp *config.ServiceProvider) { sp.UseTrustedDevice = "false" })
			a := x.comes(b)
			x.wantAsked("false", a)
			if a := b.post(a, "code", x.code(x.app)); a.Header().Get("Location") != "/next" || !entered(b.get("/next")) {
				x.t.Errorf("false: the way leads to %q, want the application", a.Header().Get("Location"))
			}
			x.clock.Advance(30 * time.Second)
			x.change(func(sp *config.ServiceProvider) { sp.UseTrustedDevice = "true" })
			x.u.Organisations = append(x.u.Organisations, config.Organisation{ID: "other", ServiceProviders: map[string]config.ServiceProvider{"shop": {ID: "shop"}}})
			x.wantAsked("another organisation lists it without", x.comes(b))
			x.u.Organisations = x.u.Organisations[:1]
			x.wantInside("as before", x.comes(b))
			before := x.demand
			x.demand = func(r *http.Request) login.Demand {
				d := before(r)
				d.Level, d.Client = 2, login.Client{ID: "other"}
				return d
			}
			x.wantAsked("another application, in the session where it counts", b.get("/next"))
		},
		"attack 855: level 3": func(x *trust) {
			b := x.trusted()
			x.change(func(sp *config.ServiceProvider) { sp.RequiredAuthenticationLevel = 3 })
			x.wantAsked("level 3", x.comes(b))
		},
		"attack 855: a fresh sign-in": func(x *trust) {
			b := x.trusted()
			x.wantInside("any sign-in", x.comes(b))
			before := x.demand
			for name, strict := range map[string]func(d *login.Demand){
				"prompt=login": func(d *login.Demand) { d.NotBefore = x.clock.Now().Add(-time.Hour) },
				"max_age":      func(d *login.Demand) { d.MaxAge = time.Hour },
			} {
				x.demand = func(r *http.Request) login.Demand {
					d := before(r)
					strict(&d)
					return d
				}
				x.wantAsked(name, b.get("/next"))
			}
		},
		"attack 855: pages of the account": func(x *trust) {
			b := x.trusted()
			x.wantInside("the application", x.comes(b))
			x.u.StepUp.Actions.DashboardStepUpAuthenticationLevel = 2
			x.wantAsked("the account", b.get("/account"))
			x.u.StepUp.Actions.DashboardStepUpAuthenticationLevel = 1
			x.u.Features.PINEnabled = true
			x.wantAsked("another method", b.get("/account/security/pin"))
		},
		"attack 856: 30 days later": func(x *trust) {
			b := x.trusted()
			x.clock.Advance(30*24*time.Hour - time.Minute)
			x.wantInside("a minute before", x.comes(b))
			x.clock.Advance(time.Minute)
			x.wantAsked("in a session where it counted", b.get("/next"))
			x.wantAsked("in another one", x.comes(b))
		},
		"attack 857: without a second factor": func(x *trust) {
			b := x.browser()
			page := x.comes(b)
			flow := strings.TrimPrefix(page.url, "/step-up?flow=")
			x.wantAsked("the page", b.get("/step-up/trust?flow="+flow))
			form := url.Values{"csrf": {page.csrf()}, "trust": {"yes"}}.Encode()
			if a := b.do(http.MethodPost, "/step-up/trust?flow="+flow, form); a.Code != http.StatusSeeOther {
				x.t.Errorf("the form: %d", a.Code)
			}
			offer := x.confirms(b, page)
			if a := b.do(http.MethodPost, offer.url, form); a.Code != http.StatusForbidden {
				x.t.Errorf("the form of another page: %d, want 403", a.Code)
			}
			if a := x.browser().do(http.MethodPost, offer.url, url.Values{"csrf": {offer.csrf()}, "trust": {"yes"}}.Encode()); a.Code != http.StatusForbidden {
				x.t.Errorf("another browser: %d, want 403", a.Code)
			}
			if got := x.events()["login.BrowserTrustedEvent"]; got != 0 || b.cookie("trusted") != "" {
				x.t.Errorf("%d browsers are trusted", got)
			}
			b.post(offer, "trust", "yes")
			b.post(offer, "trust", "yes")
			if got := x.events()["login.BrowserTrustedEvent"]; got != 1 {
				x.t.Errorf("%d browsers are trusted by one form, want 1", got)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := trusting(t)
			x.t = t
			attack(x)
			x.checkInvariants()
		})
	}
}

// TestTrustedBrowserEnds: what ends the trust in all browsers of a person, but not of others.
func TestTrustedBrowserEnds(t *testing.T) {
	t.Parallel()
	admin := event.Actor{ID: "admin"}
	for name, end := range map[string]func(*trust, *browser) error{
		"another password": func(x *trust, _ *browser) error {
			return x.Person.SetPassword(x.t.Context(), demo, secret.New(demoPassword), admin)
		},
		"a block": func(x *trust, _ *browser) error {
			if err := x.Person.SetState(x.t.Context(), demo, person.Blocked, admin); err != nil {
				return err
			}
			return x.Person.SetState(x.t.Context(), demo, person.Active, admin)
		},
		"the end of the person's sessions": func(x *trust, _ *browser) error { return x.Person.EndSessions(x.t.Context(), demo, admin) },
		"an administrator": func(x *trust, _ *browser) error {
			ended, err := x.Trusted.ForgetFor(x.t.Context(), x.idOf(demo), "", admin)
			if err == nil && ended != 2 {
				x.t.Errorf("the trust has ended in %d browsers, want 2", ended)
			}
			return err
		},
		"the end of all sessions": func(x *trust, _ *browser) error { return x.store.Update(x.t.Context(), session.EndAllSessions) },
		"another factor": func(x *trust, b *browser) error {
			x.u.Features.PINEnabled = true
			a := b.get("/account/security/pin")
			if a = b.post(a, "pin", "739152", "again", "739152"); a.Code != http.StatusSeeOther {
				x.t.Fatalf("the PIN: %d\n%s", a.Code, a.Body)
			}
			x.u.Features.PINEnabled = false
			return nil
		},
		"other recovery codes": func(x *trust, b *browser) error {
			if a := b.post(b.get("/account/security/recovery")); a.Code != http.StatusOK {
				x.t.Fatalf("other recovery codes: %d\n%s", a.Code, a.Body)
			}
			return nil
		},
		"the sign-out everywhere else": func(x *trust, b *browser) error {
			x.comes(x.browser())
			a := b.get("/account/devices")
			_, part, _ := strings.Cut(a.Body.String(), "All other devices")
			if m := field.FindStringSubmatch(part); m != nil {
				a = b.do(http.MethodPost, "/account/devices", url.Values{"csrf": {m[1]}, "session": {"others"}}.Encode())
			}
			if a.Code != http.StatusSeeOther {
				x.t.Fatalf("sign out everywhere else: %d\n%s", a.Code, a.Body)
			}
			return nil
		},
		"an address that is no longer there": func(x *trust, _ *browser) error {
			_, err := x.Person.UpdatePerson(x.t.Context(), x.idOf(demo), person.Edit{By: admin}, func(_ storage.Tx, d *person.Details) error {
				d.Profile.EmailAddresses = []person.EmailAddress{{Value: "else@example.com", Verified: true, Primary: true}}
				return nil
			})
			return err
		},
	} {
		t.Run("attack 856: "+name, func(t *testing.T) {
			t.Parallel()
			x := trusting(t)
			x.t = t
			b, other := x.trusted(), x.trusted()
			if err := end(x, b); err != nil {
				t.Fatal(err)
			}
			x.wantAsked("the browser", x.comes(b))
			x.wantAsked("another one", x.comes(other))
			if strings.Contains(other.get("/account/devices").Body.String(), "Stop trusting") {
				t.Error("a trusted browser is listed")
			}
			x.checkInvariants()
		})
	}
}

// TestTrustedBrowserIsEnded: an administrator or backend ends the trust in one browser of a person: it counts for no
// further request, while the other browsers and the sessions go on.
func TestTrustedBrowserIsEnded(t *testing.T) {
	t.Parallel()
	x := trusting(t)
	admin := event.Actor{ID: "admin", Name: "Ann Admin"}
	b := x.trusted()
	x.clock.Advance(time.Minute)
	other := x.trusted()
	x.wantInside("the browser", x.comes(b))
	var list []trusted.Info
	demoID := x.idOf(demo)
	err := x.store.View(t.Context(), func(tx storage.Tx) (err error) {
		list, err = x.Trusted.Listed(tx, demoID, x.clock.Now())
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	id, value, _ := strings.Cut(b.cookie("trusted"), ".")
	if len(list) != 2 || list[1].ID != id || list[1].UserAgent == "" || !list[1].LastUsedAt.After(list[1].TrustedAt) || list[1].ExpiresAt.Sub(list[1].TrustedAt) != 30*24*time.Hour {
		t.Fatalf("listed are %+v, want %s as the second one", list, id)
	}
	if said := fmt.Sprintf("%+v", list); strings.Contains(said, value) || strings.Contains(said, secret.Hash(value)) {
		t.Errorf("the list has the secret: %s", said)
	}
	for _, of := range []string{robin, demo} { // attack 887: by the id of another person's browser
		which := map[string]string{robin: id, demo: "made-up"}[of]
		if ended, err := x.Trusted.ForgetFor(t.Context(), x.idOf(of), which, admin); ended != 0 || err != nil {
			t.Errorf("browser %s of %s: %d, %v", which, of, ended, err)
		}
	}
	if got := x.events()["login.BrowserTrustEndedEvent"]; got != 0 {
		t.Errorf("%d events although no trust has ended", got)
	}
	if ended, err := x.Trusted.ForgetFor(t.Context(), x.idOf(demo), id, admin); ended != 1 || err != nil {
		t.Fatalf("the browser: %d, %v", ended, err)
	}
	if a := b.get("/account/profile"); a.Code != http.StatusOK || isAsked(a) {
		t.Errorf("the session has ended, too: %d %s", a.Code, a.url)
	}
	x.wantAsked("the session where it counted", b.get("/next"))
	x.wantAsked("a new session", x.comes(b))
	x.wantInside("the other browser", x.comes(other))
	if _, err := x.Trusted.ForgetFor(t.Context(), "nobody@example.com", "", admin); !errors.Is(err, person.ErrNoPerson) {
		t.Errorf("nobody's browsers: %v", err)
	}
	if got := x.events()["login.BrowserTrustEndedEvent"]; got != 1 {
		t.Errorf("%d events, want 1", got)
	}
	x.checkInvariants()
}
