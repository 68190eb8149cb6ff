package federation_test

import (
	"bytes"
	"context"
	"image"
	"image/png"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/gatehouse-id/gatehouse/identity/federation"
	"github.com/gatehouse-id/gatehouse/identity/identitytest"
	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/idp/idptest"
	"github.com/gatehouse-id/gatehouse/internal/authn"
	"github.com/gatehouse-id/gatehouse/internal/logo"
	"github.com/gatehouse-id/gatehouse/internal/web"
	"github.com/gatehouse-id/gatehouse/storage"
)

// managerStub returns the managed providers that a test sets.
type managerStub struct {
	list    []federation.Provider
	version uint64
	err     error
}

func (m *managerStub) Providers(context.Context, *settings.Units) ([]federation.Provider, uint64, error) {
	return m.list, m.version, m.err
}

// callback is the address at which a browser comes back from a provider.
func callback(path, state, ticket string) string {
	return path + "?" + url.Values{"state": {state}, "ticket": {ticket}}.Encode()
}

// TestLogosOfProviders: a stored picture is on the button of its provider, and in the list of the person's accounts.
func TestLogosOfProviders(t *testing.T) {
	t.Parallel()
	e := identitytest.NewFederated(t)
	e.Deps.Pages.SetLogos(logo.Shown{
		Store: e.Store, Declares: func(string) bool { return false },
		Providers: func(ctx context.Context) (all map[string]*web.Logo, err error) {
			err = e.Store.View(ctx, func(tx storage.Tx) error {
				all, err = logo.All(tx, web.ProviderLogo)
				return err
			})
			return all, err
		},
	})
	b := e.Browser()
	if body := b.Get("/next").Body.String(); strings.Contains(body, "/assets/idp") {
		t.Errorf("a button has a picture before there is one:\n%s", body)
	}
	var raw bytes.Buffer
	if err := png.Encode(&raw, image.NewGray(image.Rect(0, 0, 48, 24))); err != nil {
		t.Fatal(err)
	}
	l, err := web.NewLogo(web.ProviderLogo, "partner", raw.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	err = e.Store.Update(t.Context(), func(tx storage.Tx) error { return logo.Put(tx, web.ProviderLogo, "partner", l, raw.Bytes()) })
	if err != nil {
		t.Fatal(err)
	}
	want := `<img src="` + l.Image().Path + `" alt="" width="24" height="24">`
	if body := b.Get("/next").Body.String(); !strings.Contains(body, want) {
		t.Errorf("the button has no %s:\n%s", want, body)
	}
	e.At("partner")
	e.MustEnter(b, identitytest.Ann())
	if body := b.Get("/account/security/accounts").Body.String(); !strings.Contains(body, `<img class="logo" src="`+l.Image().Path+`"`) {
		t.Errorf("the account at the provider has no picture:\n%s", body)
	}
}

func TestManagedProviders(t *testing.T) {
	t.Parallel()
	e := identitytest.NewFederated(t)
	m := &managerStub{version: 1}
	e.Manager = m
	e.Start()
	source := idptest.New()
	b := e.Browser()
	if body := b.Get("/next").Body.String(); strings.Contains(body, "Managed one") {
		t.Fatal("a provider is there too early")
	}
	m.list, m.version = []federation.Provider{
		{ID: "managed", Name: "Managed one", Source: source, Path: "oidc"},
		{ID: "partner", Name: "Not this", Source: source},
	}, 2
	body := b.Get("/next").Body.String()
	if !strings.Contains(body, "Managed one") || strings.Contains(body, "Not this") {
		t.Errorf("page:\n%s", body)
	}
	if body := b.Get("/next?service").Body.String(); !strings.Contains(body, "Managed one") {
		t.Errorf("page:\n%s", body)
	}
	plain := e.Demand
	e.Demand = func(r *http.Request) authn.Demand {
		return authn.Demand{
			MaxAge: -1, Return: r.URL.RequestURI(), Provider: "identity", Providers: []string{"identity", "partner", "managed"},
			Client: authn.Client{ID: "shop"},
		}
	}
	if body := b.Get("/next?asked").Body.String(); !strings.Contains(body, "Managed one") || strings.Contains(body, "Partner account") ||
		!strings.Contains(body, `name="password"`) {
		t.Errorf("page of the service itself:\n%s", body)
	}
	e.Demand = plain
	e.Asking(func(d *authn.Demand) { d.Provider = "managed" })
	away := b.Leave("/next?x")
	m.list, m.version = nil, 3
	late := callback("/oidc/managed/callback", identitytest.State(t, away), source.Answer(identitytest.Ann(), nil))
	if a := b.Get(late); a.Code != http.StatusForbidden || b.IsSignedIn() {
		t.Errorf("answer of a provider that is gone: %d", a.Code)
	}
	m.err = storage.ErrUnavailable
	if a := e.Browser().Get("/next?y"); a.Code != http.StatusServiceUnavailable {
		t.Errorf("nobody can tell: %d, want 503", a.Code)
	}
}

// TestSessionsOfProvidersThatAreOff: what a provider has signed in counts for nothing while it is disabled or gone.
func TestSessionsOfProvidersThatAreOff(t *testing.T) {
	t.Parallel()
	e := identitytest.NewFederated(t)
	u, source := settings.Defaults(), idptest.New()
	own := u.LoginMethods.LoginMethods
	with := func(more ...settings.LoginMethod) { u.LoginMethods.LoginMethods = append(slices.Clone(own), more...) }
	e.Units = func(storage.Tx) (*settings.Units, error) { return &u, nil }
	e.Manager = &managerStub{list: []federation.Provider{{ID: "managed", Name: "Managed one", Source: source, Path: "oidc"}}, version: 1}
	e.Start()
	off := settings.LoginMethod{ID: "managed", Type: settings.TypeOIDC, Removable: true}
	on := off
	on.Enabled = true
	with(on)
	plain := e.Demand
	e.Asking(func(d *authn.Demand) { d.Provider = "managed" })
	stored, declared := e.Browser(), e.Browser()
	away := stored.Leave("/next")
	stored.Get(callback("/oidc/managed/callback", identitytest.State(t, away), source.Answer(identitytest.Ann(), nil)))
	e.Demand = plain
	e.At("partner")
	err := e.Store.Update(t.Context(), func(tx storage.Tx) error {
		return e.Person.CoupleProved(tx, "partner", identitytest.Known(), e.DemoID(), e.Clock.Now())
	})
	if err != nil {
		t.Fatal(err)
	}
	e.MustEnter(declared, identitytest.Known())
	start := func(change func(*federation.Provider)) {
		identitytest.WithProvider("partner", change)(&e.Config)
		e.Start()
	}
	for _, tt := range []struct {
		name             string
		change           func()
		stored, declared bool
	}{
		{"as they were", func() {}, true, true},
		{"attack 1811: one of the settings is off", func() { with(off) }, false, true},
		{"attack 1811: it is removed", func() { with() }, false, true},
		{"it is back", func() { with(on) }, true, true},
		{"attack 1811: one of the Caddyfile is off", func() { start(func(p *federation.Provider) { p.Disabled = true }) }, true, false},
		{"it is back too", func() { start(func(p *federation.Provider) { p.Disabled = false }) }, true, true},
		{"attack 1811: it is removed from the Caddyfile", func() { e.Config.Providers = e.Config.Providers[1:]; e.Start() }, true, false},
	} {
		tt.change()
		for b, want := range map[*identitytest.Browser]bool{stored: tt.stored, declared: tt.declared} {
			if got := b.IsSignedIn(); got != want {
				t.Errorf("%s: the browser at one of the settings (%t) is signed in: %t, want %t", tt.name, b == stored, got, want)
			}
		}
	}
}
