package console

import (
	"maps"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/gatehouse-id/gatehouse/admin"
	"github.com/gatehouse-id/gatehouse/admin/console/layout"
	"github.com/gatehouse-id/gatehouse/admin/console/providers"
)

// The rows of the table of rights about the screens of package setup. Objects have two letters: one of the settings,
// and one of the Caddyfile.
func init() {
	stored := [4]string{"--", "--", "--", "+-"}
	maps.Copy(rights, map[string][4]string{
		"/providers":                       {"+", "+", "+", "+"},
		"/providers/add-provider":          {"-", "-", "-", "+"},
		"/providers/{id}":                  {"++", "++", "++", "++"},
		"/providers/{id}/test-provider":    {"--", "--", "++", "++"},
		"/providers/{id}/edit-provider":    stored,
		"/providers/{id}/enable-provider":  stored,
		"/providers/{id}/disable-provider": stored,
		"/providers/{id}/raise-provider":   stored,
		"/providers/{id}/remove-provider":  stored,
		"/providers/{id}/set-icon":         stored,
		"/providers/{id}/remove-icon":      stored,
		"/api-clients":                     {"+", "+", "+", "+"},
		"/keys":                            {"+", "+", "+", "+"},
		"/keys/rotate-keys":                {"-", "-", "-", "+"},
		"/keys/retire-key":                 {"-", "-", "-", "+"},
		"/keys/announce-pair":              {"-", "-", "-", "+"},
		"/keys/switch-pair":                {"-", "-", "-", "+"},
		"/keys/retire-pair":                {"-", "-", "-", "+"},
		"/keys/renew-pair":                 {"-", "-", "-", "+"},
		"/keys/public-key":                 {"+", "+", "+", "+"},
		"/keys/public-pair":                {"+", "+", "+", "+"},
	})
}

// setupObjects returns the subjects of a row about a screen of package setup. nil: it is about another screen.
func (h *harness) setupObjects(path string) []string {
	h.t.Helper()
	if strings.HasPrefix(path, "/providers/{id}") {
		h.addProvider("corp", "Corp")
		return []string{"corp", "declared"}
	}
	return nil
}

// setupPaths writes a payload into what the screens of package setup show, and returns their paths.
func (h *harness) setupPaths(payload, q string) (out []string) {
	h.t.Helper()
	h.addProvider("corp", strings.TrimSpace(payload))
	for _, path := range []string{
		"/providers", "/providers/corp", "/providers/corp/edit-provider", "/providers/corp/disable-provider",
		"/providers/add-provider?" + q, "/api-clients?" + q, "/keys", "/keys/retire-key?key=" + url.QueryEscape(payload),
		"/keys/renew-pair?pair=" + url.QueryEscape(payload),
	} {
		out = append(out, layout.Root+path)
	}
	return out
}

// setup returns the dependencies of the screens of package setup in this test.
func (h *harness) setup() providers.Deps {
	m := &admin.Service{Identity: h.id, Authz: h.az, Store: h.store}
	return providers.Deps{
		Authz: h.az, Pages: h.pages, PublicKey: h.keys.Public, OlderKeys: func() bool { return false }, Names: m.Names, Issuer: issuer,
		Config: h.settings, Providers: h.providers, Store: h.store, Now: h.clock.Now, PlaceOf: func(option string) string {
			return map[string]string{"idp declared": "Caddyfile:20", "api_client billing": "Caddyfile:40"}[option]
		},
	}
}

// TestEverySetupActHasItsEvent: what is set up in the console is recorded with who did it. "-" changes nothing.
func TestEverySetupActHasItsEvent(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	owner, ownerID := h.as("owner@example.com"), h.personID("owner@example.com")
	_, err := h.settings.KeyPairs().Get(t.Context(), "") // makes Gatehouse's own
	h.must(err)
	for _, c := range []struct {
		path, event string
		fields      []string
	}{
		{
			"/admin/providers/add-provider", "configuration.ConfigurationUpdatedEvent",
			[]string{
				"found", "yes", "kind", "saml", "metadata_url", "https://login.corp.example/metadata", "provider_name",
				"Corp", "provider_id", "corp",
			},
		},
		{"/admin/providers/corp/test-provider", "-", nil},
		{"/admin/providers/corp/edit-provider", "configuration.ConfigurationUpdatedEvent", []string{"name", "Corp of the house"}},
		{"/admin/providers/corp/enable-provider", "configuration.ConfigurationUpdatedEvent", nil},
		{"/admin/providers/corp/disable-provider", "configuration.ConfigurationUpdatedEvent", nil},
		{"/admin/providers/corp/remove-provider", "configuration.ConfigurationUpdatedEvent", nil},
		{"/admin/keys/rotate-keys", "token.SigningKeysRotatedEvent", nil},
		{"/admin/keys/retire-key?key=" + h.az.SigningKeys()[0].ID, "token.SigningKeyRetiredEvent", nil},
		{"/admin/keys/announce-pair?pair=own", "configuration.CertificateUpdatedEvent", nil},
		{"/admin/keys/switch-pair?pair=own", "configuration.CertificateUpdatedEvent", nil},
		{"/admin/keys/retire-pair?pair=own", "configuration.CertificateUpdatedEvent", nil},
		{"/admin/keys/renew-pair?pair=own", "configuration.CertificateUpdatedEvent", nil},
	} {
		h.actHasEvent(owner, ownerID, c.path, c.event, c.fields...)
	}
}

// actHasEvent does something, and demands an event of its actor. Empty: any; "-": none.
func (h *harness) actHasEvent(b *browser, actor, path, want string, fields ...string) {
	h.t.Helper()
	n := len(h.allEvents(h.t.Context()))
	if a := b.acts(path, fields...); a.Code != http.StatusOK || strings.Contains(a.Body.String(), `id="problem"`) {
		h.t.Errorf("%s = %d\n%s", path, a.Code, a.form())
		return
	}
	found := want == "-"
	for _, e := range h.allEvents(h.t.Context())[n:] {
		found = found || e.Actor == actor && (want == "" || e.Type == want)
		if e.Type == "person.PersonBlockedEvent" && e.Reason != "left the company" {
			h.t.Errorf("the event of a block has the reason %q", e.Reason)
		}
	}
	if !found {
		h.t.Errorf("%s has no event %s of %s: %s", path, want, actor, typesOf(h.allEvents(h.t.Context())[n:]))
	}
}
