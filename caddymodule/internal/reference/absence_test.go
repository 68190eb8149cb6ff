package reference_test

import (
	"os"
	"strings"
	"testing"

	"github.com/gatehouse-id/gatehouse/caddymodule/internal/reference"
)

// What the absence of an option means for who passes.
const (
	required = "required" // there is no absence
	closed   = "closed"   // no one passes, or no one more than with it
	argued   = "argued"   // someone passes who would not with it: docs/hardening.md says who, and why
	other    = "other"    // it is not about who passes
)

// absences are the options of everything that decides who passes.
var absences = map[string]map[string]string{
	"protect": {
		"login": closed, "scopes": argued, "groups": argued, "partition": argued, "level": argued, "audience": argued, "clients": argued, "tokens": closed, "headers": other, "assertion": other,
		"public": closed, "need": argued, "policy": argued, "allow": argued, "deny": argued, "shadow": other, "preflight": closed, "session": argued, "replay": closed, "request_access": closed,
		"strip_token": other, "upstream_token": other, "accept": closed, "introspect": closed, "mcp": closed,
	},
	"forward_auth": {"origins": argued, "client_certificate_header": closed},
	"mcp":          {"name": other, "documentation": other, "tool": argued},
	"introspect": {
		"client": required, "auth": other, "key": other, "key_id": other, "issuer": other, "jwks": other, "cache": closed, "timeout": other, "groups": closed, "map_level": closed,
	},
	"policy":    {"allow": argued, "deny": argued, "public": closed},
	"allow":     {"name": other, "match": argued, "need": argued, "when": argued},
	"deny":      {"name": other, "match": closed, "need": closed, "when": closed, "message": other},
	"ext_authz": {"tls": closed, "client_ca": argued},
	"client": {
		"name": other, "public": closed, "native": closed, "secret": closed, "secret_hash": closed, "auth_method": other, "jwks": closed, "redirect_uris": closed, "post_logout_redirect_uris": closed,
		"backchannel_logout_uri": other, "frontchannel_logout_uri": other, "initiate_login_uri": other, "grants": closed, "scopes": closed, "default_scopes": closed, "authorization_details_types": closed,
		"idps": closed, "consent": closed, "pkce": argued, "par": argued, "fapi2": argued, "mtls": argued, "dpop": argued, "request_object": argued, "request_object_alg": other, "password_only": closed,
		"id_token_alg": other, "id_token_encryption": other, "userinfo_alg": other, "userinfo_encryption": other, "authorization_response_alg": other, "id_token_claims": other, "token_format": other,
		"subject_type": other, "app": other, "audiences": closed, "exchange": closed, "origins": closed, "max_sessions": other, "disabled": argued, "logo": other, "lifetimes": other, "second_factor": argued,
	},
	"exchange": {"from": closed, "to": closed, "id_jag": closed},
	"api_client": {
		"secret": closed, "secret_hash": closed, "apis": closed, "audiences": argued, "introspection_alg": other, "partitions": argued, "tls_client_auth": closed, "organisation": argued, "max_level": closed, "disabled": argued,
	},
	"header": {"trust": required, "user": required, "level": closed, "attributes": closed, "parameters": closed, "name": other, "disabled": argued, "assurance": closed},
}

// TestAbsentOptionsAllowNothing: what is absent is not allowed. Each option says what its absence means, and one whose
// absence lets someone pass stands in the table of docs/hardening.md.
func TestAbsentOptionsAllowNothing(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("../../../docs/hardening.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(raw), "### What is absent")
	table, _, _ = strings.Cut(table, "\n###")
	for name, block := range map[string]*reference.Block{
		"protect": &reference.Protect, "forward_auth": &reference.ForwardAuth, "mcp": &reference.MCP, "introspect": &reference.Introspect, "policy": &reference.Policy, "allow": &reference.Allow,
		"deny": &reference.Deny, "ext_authz": &reference.ExtAuthz, "client": &reference.Client, "exchange": &reference.Exchange, "api_client": &reference.APIClient, "header": &reference.HeaderIDP,
	} {
		for _, o := range block.Options {
			effect, known := absences[name][o.Word]
			if !known && name == "forward_auth" {
				effect, known = absences["protect"][o.Word]
			}
			switch {
			case !known:
				t.Errorf("%s: the absence of %s: nothing says who passes", name, o.Word)
			case effect == argued && !strings.Contains(table, "`"+o.Word+"`"):
				t.Errorf("%s: the absence of %s lets someone pass, and docs/hardening.md does not say whom", name, o.Word)
			}
		}
	}
}
