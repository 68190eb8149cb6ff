package inventory_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/authz/dpop/dpoptest"
	"github.com/gatehouse-id/gatehouse/caddymodule/servertest"
)

// A client with `dpop required` gets tokens with a proof alone. They open a site with a proof for each request, an MCP
// site says which algorithms it takes, and as a bearer token they open nothing.
func TestDPoPSite(t *testing.T) {
	s := servertest.NewServer(t)
	s.Site = "protect orders.read {\n\t\tmcp\n\t}"
	s.Extra += "client bound {\n\t\t\tsecret " + servertest.TestSecret +
		"\n\t\t\tgrants client_credentials\n\t\t\tscopes orders.read scim\n\t\t\tdpop required\n\t\t}"
	s.MustLoad()
	site, key := "http://"+s.API, dpoptest.NewKey(t)
	ask := func(proofs ...string) (int, string) {
		form := url.Values{"grant_type": {"client_credentials"}, "scope": {"orders.read scim"}, "resource": {site}}
		r := s.Request(http.MethodPost, s.Issuer()+"/oauth/token", strings.NewReader(form.Encode()))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.SetBasicAuth("bound", servertest.TestSecret)
		for _, proof := range proofs {
			r.Header.Add("DPoP", proof)
		}
		res, body := s.Do(r)
		return res.StatusCode, body
	}
	if status, body := ask(); status != http.StatusBadRequest || !strings.Contains(body, `"invalid_dpop_proof"`) {
		t.Errorf("a token without a proof = %d %s, want 400 invalid_dpop_proof", status, body)
	}
	status, body := ask(key.Proof("POST", s.Issuer()+"/oauth/token", "", time.Now()))
	answer := servertest.Decode[struct {
		Token string `json:"access_token"`
		Type  string `json:"token_type"`
	}](t, body)
	if status != http.StatusOK || answer.Type != "DPoP" {
		t.Fatalf("a token with a proof = %d %s, want token_type DPoP", status, body)
	}
	get := func(target, authorization string, proofs ...string) *http.Response {
		r := s.Request(http.MethodGet, target, nil)
		r.Header.Set("Authorization", authorization)
		for _, proof := range proofs {
			r.Header.Add("DPoP", proof)
		}
		res, _ := s.Do(r)
		return res
	}
	proof := key.Proof("GET", site+"/a", answer.Token, time.Now())
	if res := get(site+"/a?b", "DPoP "+answer.Token, proof); res.StatusCode != http.StatusOK {
		t.Errorf("with a proof = %d %v, want 200", res.StatusCode, res.Header)
	}
	for name, res := range map[string]*http.Response{
		"the proof again": get(site+"/a?b", "DPoP "+answer.Token, proof), "as a bearer token": get(site+"/a", "Bearer "+answer.Token),
		"without a proof": get(site+"/a", "DPoP "+answer.Token),
	} {
		challenges := res.Header.Values("WWW-Authenticate")
		if res.StatusCode != http.StatusUnauthorized || len(challenges) != 2 || !strings.HasPrefix(challenges[0], "Bearer ") ||
			!strings.Contains(challenges[0], "resource_metadata=") || !strings.HasPrefix(challenges[1], `DPoP algs="ES256 `) {
			t.Errorf("%s = %d, challenges %q, want 401, Bearer with the metadata first, and DPoP", name, res.StatusCode, challenges)
		}
	}
	if res := get(s.Issuer()+"/scim/v2/Users", "Bearer "+answer.Token); res.StatusCode != http.StatusUnauthorized {
		t.Errorf("SCIM with it as a bearer token = %d, want 401", res.StatusCode)
	}
	if _, body := s.Do(s.Request(http.MethodGet, site+"/.well-known/oauth-protected-resource", nil)); !strings.Contains(body,
		`"dpop_signing_alg_values_supported":["ES256","EdDSA","Ed25519","PS256","RS256"]`) {
		t.Errorf("metadata of the site = %s, want the algorithms of proofs", body)
	}
}
