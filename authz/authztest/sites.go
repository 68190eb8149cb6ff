package authztest

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/gatehouse-id/gatehouse/authz"
	"github.com/gatehouse-id/gatehouse/internal/audit"
)

// WikiOrigin is the origin of a site.
const WikiOrigin = "https://wiki.example.com"

// SiteBinding binds a sign-in at a site to a browser.
const SiteBinding = "the value of the site's cookie, as random as it must be"

// SiteCode sends a browser through the sign-in for a site and returns the one-time code.
func SiteCode(t *testing.T, h *Harness, b *Browser, d authz.SiteDemand) string {
	t.Helper()
	start, err := h.Server().BeginSite(t.Context(), d, SiteBinding)
	if err != nil {
		t.Fatalf("BeginSite = %v", err)
	}
	res := b.Follow(start)
	u, err := url.Parse(res.Location())
	if err != nil || res.Status != http.StatusFound || u.Query().Get(authz.SiteCodeParam) == "" {
		t.Fatalf("Site = %d %q, want a code", res.Status, res.Location())
	}
	clean := strings.TrimSuffix(res.Location(), authz.SiteCodeParam+"="+u.Query().Get(authz.SiteCodeParam))
	if strings.TrimRight(clean, "?&") != strings.TrimRight(d.Return, "?&") {
		t.Errorf("Site leads to %s, want the very URL %s", res.Location(), d.Return)
	}
	return u.Query().Get(authz.SiteCodeParam)
}

// FinishSite redeems the code of a sign-in at a site.
func FinishSite(t *testing.T, h *Harness, origin, code, binding string) (authz.SiteLogin, error) {
	t.Helper()
	return h.Server().FinishSite(t.Context(), origin, code, binding, audit.Origin{ClientIP: "192.0.2.1"})
}

// SiteActive reports whether a token opens a site.
func SiteActive(t *testing.T, h *Harness, origin, token string) bool {
	t.Helper()
	in, err := h.Server().SiteSession(t.Context(), origin, token, "")
	if err != nil {
		t.Fatalf("SiteSession = %v", err)
	}
	return in.Active
}

// OpenSite signs a browser in at a site.
func OpenSite(t *testing.T, h *Harness, b *Browser) authz.SiteLogin {
	t.Helper()
	in, err := FinishSite(t, h, WikiOrigin, SiteCode(t, h, b, authz.SiteDemand{Origin: WikiOrigin, Return: WikiOrigin + "/page?a=1&b"}),
		SiteBinding)
	if err != nil {
		t.Fatalf("FinishSite = %v", err)
	}
	return in
}

// BeginSite begins a sign-in at a site and returns its address.
func BeginSite(t *testing.T, h *Harness, d authz.SiteDemand) string {
	t.Helper()
	start, err := h.Server().BeginSite(t.Context(), d, SiteBinding)
	if err != nil {
		t.Fatal(err)
	}
	return start
}
