package console

import (
	"context"
	"crypto/x509"
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/challenge"
	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/identity/webflow"
	"github.com/gatehouse-id/gatehouse/idp"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/storage"
)

// fakeProviders stands for the providers that run. What down names does not answer.
type fakeProviders struct {
	mu    sync.Mutex // guards all below
	down  string
	tried []settings.LoginMethod

	certificates map[string][]*x509.Certificate
	uses         map[string][]idp.KeyUse
}

func (p *fakeProviders) Test(_ context.Context, id string) (steps idp.Steps) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if id == p.down {
		steps.Fail("metadata", errors.New("no answer"), "look at the `metadata`")
		return steps
	}
	steps.OK("metadata", "of %s", id)
	return steps
}

func (p *fakeProviders) Try(ctx context.Context, m settings.LoginMethod) (idp.Steps, error) {
	p.mu.Lock()
	p.tried = append(p.tried, m)
	p.mu.Unlock()
	if m.SAML != nil && strings.HasPrefix(m.SAML.IDPMetadata, "https://down.") {
		return nil, errors.New("nothing listens there")
	}
	return p.Test(ctx, m.ID), nil
}

func (p *fakeProviders) Certificates(context.Context) map[string][]*x509.Certificate {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.certificates
}

func (p *fakeProviders) KeyUses(_ context.Context, id string) []idp.KeyUse {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.uses[id]
}

func (p *fakeProviders) fail(id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.down = id
}

// addProvider adds a provider to the settings, unless it is there.
func (h *harness) addProvider(id, name string) {
	h.t.Helper()
	_, err := h.settings.Edit(settings.WithRights(h.t.Context(), settings.Owner), audit.Actor{}, func(u *settings.Units) error {
		for i := range u.LoginMethods.LoginMethods {
			if m := &u.LoginMethods.LoginMethods[i]; m.ID == id {
				m.Name = name
				return nil
			}
		}
		u.LoginMethods.LoginMethods = append(u.LoginMethods.LoginMethods,
			settings.LoginMethod{ID: id, Name: name, Type: settings.TypeOIDC, OIDC: &settings.OIDCAttributes{
				Issuer: "https://login.corp.example", ClientID: "gatehouse", ClientSecret: "planted-provider-secret",
				ClientAuthenticationMethod: "CLIENT_SECRET_BASIC",
			}})
		return nil
	})
	h.must(err)
}

// TestProviderByItsMetadata: an owner names an address, sees what is there before anything is saved, and adds the
// provider. One that cannot be used is not added.
func TestProviderByItsMetadata(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	b := h.as("owner@example.com")
	asked := b.get("/admin/providers/add-provider")
	for what, at := range map[string]string{
		"does not answer":  "https://down.example/metadata",
		"is not encrypted": "http://login.corp.example/metadata",
	} {
		if a := b.submit(asked, "kind", "saml", "metadata_url", at); a.Code != http.StatusUnprocessableEntity ||
			!strings.Contains(a.form(), `id="metadata_url-problem"`) {
			t.Errorf("an address that %s = %d\n%s", what, a.Code, a.form())
		}
	}
	found := b.submit(asked, "kind", "oidc", "metadata_url", "https://login.corp.example/.well-known/openid-configuration")
	if found.Code != http.StatusOK || !strings.Contains(found.form(), "<table") || !strings.Contains(found.form(), `value="corp"`) {
		t.Fatalf("what was found = %d\n%s", found.Code, found.form())
	}
	if u, err := h.settings.Current(t.Context()); err != nil || len(u.LoginMethods.LoginMethods) != 2 {
		t.Fatalf("it is saved before anybody has seen it: %v %v", u.LoginMethods.LoginMethods, err)
	}
	const secret = "what the provider calls us"
	fields := []string{
		"metadata_url", "https://login.corp.example/.well-known/openid-configuration", "provider_name", "Corp <b>",
		"provider_id", "declared", "client_id", "gatehouse", "client_secret", secret,
	}
	if a := b.submit(found, fields...); a.Code != http.StatusUnprocessableEntity || !strings.Contains(a.form(), `id="provider_id-problem"`) ||
		strings.Contains(a.Body.String(), secret) {
		t.Errorf("a taken id = %d\n%s", a.Code, a.form())
	}
	fields[5] = "corp"
	a := b.submit(found, fields...)
	a = b.get(a.Header().Get("Location"))
	if a.Code != http.StatusOK || !strings.HasPrefix(a.url, "/admin/providers/corp") ||
		!strings.Contains(a.form(), issuer+"/oidc/corp/callback") || strings.Contains(a.Body.String(), secret) {
		t.Fatalf("the page of the new provider: %d %s\n%s", a.Code, a.url, a.form())
	}
	u, err := h.settings.Current(t.Context())
	h.must(err)
	for _, m := range u.LoginMethods.LoginMethods {
		if m.ID == "corp" && (m.Enabled || m.OIDC.ClientSecret.Reveal() != secret || m.OIDC.DiscoveryURL == "") {
			t.Errorf("the provider was added as %+v", m)
		}
	}
	if a := b.acts("/admin/providers/corp/enable-provider"); a.Code != http.StatusOK ||
		!strings.Contains(a.form(), `href="/admin/providers/corp/disable-provider"`) {
		t.Errorf("switched on: %d\n%s", a.Code, a.form())
	}
	for _, down := range []string{"", "corp"} {
		h.providers.fail(down)
		a := b.submit(b.get("/admin/providers/corp/test-provider"))
		if bad := strings.Contains(a.form(), "look at the <code>metadata</code>"); a.Code != http.StatusOK || bad != (down != "") {
			t.Errorf("a test of a provider (down: %t) = %d\n%s", down != "", a.Code, a.form())
		}
	}
	if a := b.get("/admin/providers/declared"); !strings.Contains(a.form(), "Caddyfile:20") || strings.Contains(a.form(), "disable-provider") {
		t.Errorf("a provider of the Caddyfile:\n%s", a.form())
	}
}

// TestHealthOfProviders: when a provider has signed someone in, and when and why it has failed, stands on its page.
func TestHealthOfProviders(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	b := h.as("viewer@example.com")
	happen := func(kind audit.Type, reason string) {
		t.Helper()
		h.clock.Advance(time.Minute)
		e, err := h.id.Person.NewEvents(audit.Self, kind)
		h.must(err)
		e[0].Provider, e[0].Reason = "declared", reason
		h.must(h.store.Update(t.Context(), func(tx storage.Tx) error { return h.recorder.Append(tx, e[0]) }))
	}
	happen(webflow.LoginSucceeded, "")
	happen(challenge.LoginFailed, "Corp is <b>down</b>")
	h.count()
	a := b.get("/admin/providers/declared")
	if !strings.Contains(a.form(), "Corp is &lt;b&gt;down&lt;/b&gt;") || !strings.Contains(a.form(), "No sign-ins since") {
		t.Errorf("the page of a provider that fails:\n%s", a.form())
	}
	happen(webflow.LoginSucceeded, "")
	h.count()
	if a := b.get("/admin/providers/declared"); strings.Contains(a.form(), "No sign-ins since") {
		t.Errorf("the page of a provider that works again:\n%s", a.form())
	}
}

// TestReasonsOfOthersAreQuoted: what a parser says is English in each language, so it is quoted in its own.
func TestReasonsOfOthersAreQuoted(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	b := h.as("owner@example.com")
	const said = "nothing listens there"
	for lang, want := range map[string]string{"de": `<q lang="en">` + said + `</q>`, "en": "This can’t be used: " + said} {
		b.get("/language?to=" + lang + "&back=%2Fadmin")
		asked := b.get("/admin/providers/add-provider")
		if a := b.submit(asked, "kind", "saml", "metadata_url", "https://down.example/metadata"); strings.Count(a.form(), want) != 2 {
			t.Errorf("%s: the summary and the field don’t have %s:\n%s", lang, want, a.form())
		}
	}
}
