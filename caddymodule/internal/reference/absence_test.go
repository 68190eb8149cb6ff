package reference_test

import (
	"os"
	"slices"
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
		"login": closed, "scopes": argued, "groups": argued, "partition": argued, "level": argued, "audience": argued, "clients": argued,
		"tokens": closed, "headers": other, "assertion": other,
		"public": closed, "need": argued, "policy": argued, "allow": argued, "deny": argued, "shadow": other, "preflight": closed,
		"session": argued, "replay": closed, "request_access": closed, "device_bound": closed,
		"strip_token": other, "upstream_token": other, "accept": closed, "introspect": closed, "mcp": closed,
		"limit": argued, "quota": argued, "plan": argued, "audit": other,
	},
	"limit":        {"match": closed},
	"quota":        {"match": closed},
	"plan":         {"limit": argued, "quota": argued, "default": argued},
	"group":        {"plan": required},
	"forward_auth": {"origins": argued, "client_certificate_header": closed},
	"assertion":    {"domain": required, "scopes": other},
	"mcp":          {"name": other, "documentation": other, "tool": argued, "challenge_tools": other},
	"introspect": {
		"client": required, "auth": other, "key": other, "key_id": other, "issuer": other, "jwks": other, "cache": closed, "timeout": other,
		"groups": closed, "map_level": closed,
	},
	"policy":    {"allow": argued, "deny": argued, "public": closed},
	"allow":     {"name": other, "match": argued, "need": argued, "when": argued, "audit": other},
	"deny":      {"name": other, "match": closed, "need": closed, "when": closed, "message": other},
	"ext_authz": {"tls": closed, "client_ca": argued},
	"client": {
		"name": other, "public": closed, "native": closed, "secret": closed, "secret_hash": closed, "auth_method": other, "jwks": closed,
		"redirect_uris": closed, "post_logout_redirect_uris": closed,
		"backchannel_logout_uri": other, "frontchannel_logout_uri": other, "initiate_login_uri": other, "grants": closed, "scopes": closed,
		"default_scopes": closed, "authorization_details_types": closed,
		"idps": closed, "groups": argued, "consent": closed, "pkce": argued, "par": argued, "fapi2": argued, "mtls": argued, "dpop": argued,
		"request_object": argued, "request_object_alg": other, "password_only": closed, "plan": argued, "contact": other,
		"id_token_alg": other, "token_alg": other, "id_token_encryption": other, "userinfo_alg": other, "userinfo_encryption": other,
		"authorization_response_alg": other, "id_token_claims": other, "token_format": other,
		"subject_type": other, "app": other, "audiences": closed, "exchange": closed, "origins": closed, "max_sessions": other,
		"disabled": argued, "logo": other, "lifetimes": other, "second_factor": argued,
	},
	"exchange": {"from": closed, "to": closed, "id_jag": closed, "txn_token": closed},
	"api_client": {
		"secret": closed, "secret_hash": closed, "apis": closed, "audiences": argued, "introspection_alg": other, "partitions": argued,
		"tls_client_auth": closed, "organisation": argued, "max_level": closed, "disabled": argued,
	},
	"header": {"trust": required, "user": required, "attributes": closed, "parameters": closed},
	"provider": {
		"name": other, "disabled": argued, "assurance": closed, "map": closed, "constant": closed, "level": closed, "couple": argued,
		"identify_by": closed, "domains": argued, "icon": other,
		"timeout": other,
	},
	"saml": {
		"metadata": required, "metadata_certificate": argued, "entity": other, "expired_certificates": closed, "refresh": other,
		"allow_unsolicited": closed, "sign": other, "decrypt": other,
		"name_id": other, "subject": other, "authn_context": argued, "map_level": closed, "provider_name": other, "artifact": other,
		"entity_id": other, "client_key": other,
		"server_certificate": argued, "scheme": argued,
	},
	"oidc": {
		"issuer": required, "client_id": required, "client_secret": other, "auth_method": other, "key": other, "key_id": other, "decrypt": other,
		"scopes": other, "claims": other,
		"response_mode": other, "audiences": closed, "map_level": closed, "metadata": other, "metadata_expiration": other,
		"id_token_encryption_required":  argued,
		"user_info_encryption_required": argued, "front_channel_logout": closed, "email_verified_strings": closed, "migrate": closed,
	},
	"metadata": {"authorization_url": other, "token_url": other, "jwks_url": other, "user_info_url": other, "end_session_url": other},
	"google": {
		"client_id": required, "client_secret": required, "select_account": other, "scopes": other, "issuer": other,
		"hosted_domain": argued,
	},
	"microsoft": {
		"client_id": required, "client_secret": required, "select_account": other, "scopes": other, "issuer": other, "tenant": argued,
		"tenants": argued, "front_channel_logout": closed,
	},
	"azure_ad_b2c": {
		"tenant": required, "policy": required, "policy_in": other, "client_id": required, "client_secret": other, "scopes": other,
		"front_channel_logout": closed, "issuer": other,
	},
	"apple": {
		"client_id": required, "team_id": required, "key_id": required, "key": required, "scopes": other, "jwks_uri": other,
		"domain_verification_file": other, "issuer": other,
	},
	"itsme": {
		"client_id": required, "service_code": required, "security_level": argued, "key": other, "scopes": other, "claims": other,
		"map_level": closed, "discovery_url": other,
		"metadata_expiration": other, "front_channel_logout": closed, "issuer": other,
	},
	"preset": {
		"client_id": required, "client_secret": required, "scopes": other, "authorization_url": other, "token_url": other,
		"profile_url": other, "emails_url": other,
	},
	"oauth2": {
		"client_id": required, "client_secret": required, "auth_method": other, "scopes": other, "authorization_url": required,
		"token_url": required, "profile_url": required,
		"subject": required, "email": closed, "email_verified": closed,
	},
	"ldap": {
		"url": required, "starttls": closed, "ca": closed, "bind": other, "template": other, "base": required, "match": argued,
		"networks": argued, "attributes": closed, "email_verified": closed,
		"groups": closed, "migrate": closed, "pool": other,
	},
	"groups":   {"map": required, "base": other, "match": other},
	"kerberos": {"keytab": other, "service": other, "realms": argued, "networks": argued, "auto": closed, "without_pac": closed},
	"scope":    {"description": other, "level": argued, "assurance": argued, "usage_limit": argued},
	"badger":   {"min_free": other},
	"postgres": {"direct_url": other, "schema": other, "cluster": closed, "pool": other, "durability": other},
	"registration": {
		"redirect_hosts": argued, "schemes": closed, "expires": closed, "limit": closed, "clients": closed, "management": closed,
	},
	"client_metadata_documents": {
		"trust": closed, "max_size": closed, "timeout": closed, "cache": closed,
		"clients": closed, "schemes": closed,
	},
	"trust_issuer": {
		"match": required, "client": required, "audience": closed, "scopes": argued, "jwks": other, "id_jag": closed, "reuse": closed,
	},
	"service_provider": {
		"name": other, "metadata": required, "metadata_certificate": argued, "entity": other, "expired_certificates": closed, "name_id": other,
		"attributes": closed, "attribute": closed,
		"groups": argued, "level": argued, "second_factor": argued, "consent": argued, "idp_initiated": closed,
		"signed_requests": argued, "encryption": closed,
	},
	"attribute": {"as": other, "label": other, "required": argued, "optional": other, "unverified": closed},
	"admin":     {"level": closed, "viewer": closed, "helpdesk": closed, "operator": closed, "owner": closed, "see_as": closed},
	"person": {
		"password": closed, "password_hash": closed, "name": other, "given_name": other, "family_name": other, "email": other,
		"email_verified": closed, "groups": closed, "locale": other,
		"partition": closed,
	},
	"session": {"idle": closed, "absolute": closed, "remember": closed, "per_person": closed},
	"lockout": {"failures": closed, "window": closed},
	"breach":  {"url": other, "file": other, "timeout": other, "on_failure": argued},
	"identity": {
		"person": closed, "partitions": closed, "admin": closed, "session": closed, "lockout": closed, "password_hash": closed, "locales": other,
		"extension": other, "brand": other,
		"bootstrap": other, "credentials_key": closed, "passkeys": other, "common_passwords": closed, "second_factor": argued,
		"usernames": argued, "scim_verifies_emails": closed,
		"access_mail": other, "access_mail_groups": other, "breach": argued, "sign_in": argued, "sign_up": closed, "verify_email": argued,
		"verify_phone": argued, "invitations": closed,
		"activation": argued, "password_reset": closed, "username_reminder": closed, "breach_check": argued, "link_several": closed,
		"another_device": closed, "phone_sign_in": closed, "device_bound": argued,
		"passkey_upgrade": argued, "passkey_rp_id": argued, "passkey_origins": closed,
		"app_passwords": closed, "admin_console": closed, "authenticator": closed, "pin": closed, "pin_reset": closed, "email_code": closed,
		"sms": closed, "delivered_code": closed,
		"set_up_on_demand": closed, "security_emails": other, "welcome_emails": other, "invitation_emails": other, "configuration_api": closed,
		"credentials_api": closed, "events_api": closed,
		"person_api": closed, "statistics_api": closed, "session_api": closed, "storage_api": closed,
	},
	"gatehouse": {
		"issuer": required, "storage": argued, "encryption_key": argued, "scope": closed, "authorization_details": closed,
		"client": closed, "api_client": closed,
		"client_metadata_documents": argued, "trust_issuer": closed, "registration": closed, "policy": closed, "forward_auth": closed,
		"forward_auth_any": closed, "forward_auth_from": argued,
		"forward_auth_secret": closed, "ext_authz": closed, "idp": closed, "service_provider": closed, "saml_sign": other, "identity": closed,
		"events": other, "par": argued,
		"client_cert_header": closed, "client_ca": closed, "mtls_endpoint_aliases": other, "shared_signals": closed, "outbound": closed,
		"mail": closed, "sms": closed, "push": closed, "plan": argued, "group": other,
	},
	"outbound": {"allow": closed},
}

// aside are the blocks that decide about no one.
var aside = []string{
	"authorization_details", "member", "lifetimes", "shadow", "events", "webhook", "mail", "sms", "push", "password_hash", "brand",
}

// TestAbsentOptionsAllowNothing: what is absent is not allowed. Each option of each block says what its absence means,
// and one whose absence lets someone pass stands in the table of docs/hardening.md.
func TestAbsentOptionsAllowNothing(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("../../../docs/hardening.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(raw), "### What is absent")
	table, _, _ = strings.Cut(table, "\n###")
	seen := map[*reference.Block]bool{}
	var visit func(name string, block *reference.Block)
	visit = func(name string, block *reference.Block) {
		if seen[block] || slices.Contains(aside, name) {
			return
		}
		seen[block] = true
		if absences[name] == nil {
			t.Errorf("%s: the block has no table of what its absent options mean", name)
			return
		}
		for _, o := range block.Options {
			effect, known := absences[name][o.Word]
			if shared := map[bool]string{name == "forward_auth": "protect", strings.HasPrefix(block.Head, "idp "): "provider"}[true]; !known {
				effect, known = absences[shared][o.Word]
			}
			switch {
			case !known:
				t.Errorf("%s: the absence of %s: nothing says who passes", name, o.Word)
			case effect == argued && !strings.Contains(table, "`"+o.Word+"`"):
				t.Errorf("%s: the absence of %s lets someone pass, and docs/hardening.md does not say whom", name, o.Word)
			}
			for _, inner := range o.Blocks {
				visit(nameOf(o.Word, inner), inner)
			}
		}
	}
	visit("gatehouse", &reference.Gatehouse)
	visit("protect", &reference.Protect)
	if !strings.Contains(table, "`sslmode`") { // of the URL of a database, and no word of the Caddyfile
		t.Error("docs/hardening.md does not say what a URL of PostgreSQL without sslmode means")
	}
}

// nameOf is the name of the table of a block that a word opens: of several that can follow the word, what comes next.
func nameOf(word string, block *reference.Block) string {
	switch fields := strings.Fields(block.Head); {
	case block == &reference.OAuth2Preset:
		return "preset"
	case word == "idp":
		return fields[2]
	case word == "storage":
		return fields[1]
	}
	return word
}
