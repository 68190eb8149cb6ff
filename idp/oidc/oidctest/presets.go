package oidctest

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// NewGoogle starts a provider that behaves like Google: prompts that it does not know end at a page of its own, tokens
// have no auth_time, and answers carry more parameters than are asked for.
func NewGoogle(t testing.TB) *OP {
	o := New(t)
	o.behave = func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path != "/authorize" {
			return false
		}
		prompt := r.Form.Get("prompt")
		if r.Form.Has("prompt") && !slices.Contains([]string{"none", "consent", "select_account"}, prompt) {
			http.Error(w, "Error 400: invalid_request. Invalid prompt: "+prompt, http.StatusBadRequest)
			return true
		}
		return false
	}
	o.Change(func(s *Script) {
		s.Sub = "110169484474386276334"
		s.Discovery = map[string]any{"end_session_endpoint": nil}
		s.Response = map[string]string{"scope": "email profile openid", "authuser": "0", "prompt": "none", "hd": "example.com"}
		s.Token = map[string]any{"refresh_token": nil, "scope": "openid email profile"}
		s.IDToken = map[string]any{
			"auth_time": nil, "sid": nil, "azp": ClientID, "hd": "example.com", "email": "ann@example.com", "email_verified": true,
		}
		s.UserInfo = map[string]any{
			"preferred_username": nil, "groups": nil, "address": nil, "name": "Ann Example", "given_name": "Ann", "family_name": "Example",
			"email": "ann@example.com", "email_verified": true,
			"hd": "example.com", "picture": "https://lh3.googleusercontent.com/a/x",
		}
	})
	return o
}

// The tenants of a provider that behaves like Microsoft. Everybody at PersonalTenant has an account of their own.
const (
	Tenant         = "72f988bf-86f1-41af-91ab-2d7cd011db47"
	OtherTenant    = "b9419818-09af-49c2-b0c3-653adc1f376e"
	PersonalTenant = "9188040d-6c67-4c5b-b112-36a304b66dad"
)

// NewMicrosoft starts a provider that behaves like Microsoft Entra: the addresses of each tenant are below its name,
// all share their keys, and the metadata of common and organizations name {tenantid} for an issuer. Tests choose the
// tenant by the claims of the ID token.
func NewMicrosoft(t testing.TB) *OP {
	o := New(t)
	o.behave = func(w http.ResponseWriter, r *http.Request) bool {
		parts := strings.Split(strings.TrimPrefix(r.URL.Path, "/"), "/")
		tenant, rest := parts[0], "/"+strings.Join(parts[1:], "/")
		at := o.URL + "/" + tenant
		named := map[string]string{"common": "{tenantid}", "organizations": "{tenantid}", "consumers": PersonalTenant}[tenant]
		if named == "" {
			named = tenant
		}
		switch rest {
		case "/v2.0/.well-known/openid-configuration":
			JSON(w, http.StatusOK, map[string]any{
				"issuer": o.URL + "/" + named + "/v2.0", "authorization_endpoint": at + "/oauth2/v2.0/authorize",
				"token_endpoint": at + "/oauth2/v2.0/token",
				"jwks_uri":       at + "/discovery/v2.0/keys", "userinfo_endpoint": o.URL + "/oidc/userinfo",
				"end_session_endpoint":                  at + "/oauth2/v2.0/logout",
				"id_token_signing_alg_values_supported": []string{"RS256"},
				"token_endpoint_auth_methods_supported": []string{"client_secret_post", "private_key_jwt", "client_secret_basic"},
			})
		case "/discovery/v2.0/keys":
			o.mu.Lock()
			defer o.mu.Unlock()
			if o.script.Keys != nil {
				JSON(w, http.StatusOK, o.script.Keys)
				return true
			}
			JSON(w, http.StatusOK, map[string]any{"keys": []any{o.keys.WithIssuer(o.t, o.URL+"/{tenantid}/v2.0")}})
		case "/oauth2/v2.0/authorize", "/oauth2/v2.0/token", "/oidc/userinfo":
			r.URL.Path = "/" + parts[len(parts)-1]
			return false
		default:
			if r.URL.Path == "/oidc/userinfo" {
				r.URL.Path = "/userinfo"
				return false
			}
			http.NotFound(w, r)
		}
		return true
	}
	o.Change(func(s *Script) {
		s.Sub = "AAAAAAAAAAAAAAAAAAAAAIkzqFVrSaSaFHy782bbtaQ"
		s.Response = map[string]string{"iss": "", "session_state": "fe1540c3-a69a-469a-9fa3-8a2470936421"}
		s.Token = map[string]any{"refresh_token": nil}
		s.UserInfo = map[string]any{
			"preferred_username": nil, "groups": nil, "address": nil, "name": "Ann Example",
			"email": nil, "email_verified": nil,
		}
		s.IDToken = o.OfTenant(Tenant, nil)
	})
	return o
}

// The directory, and its policies, of a provider that behaves like Azure AD B2C.
const (
	Directory     = "775527ff-9a37-4307-8b3d-cc311f58d925"
	Policy        = "B2C_1_sign_in"
	AnotherPolicy = "B2C_1_without_second_factor"
)

// NewAzureADB2C starts a provider that behaves like Azure AD B2C: a directory whose policies share the issuer, the keys
// and the clients. Policies are in the path of addresses, or their parameter p, in any case.
func NewAzureADB2C(t testing.TB) *OP {
	o := New(t)
	o.behave = func(w http.ResponseWriter, r *http.Request) bool {
		rest, ok := strings.CutPrefix(r.URL.Path, "/contoso.onmicrosoft.com/")
		policy := r.URL.Query().Get("p")
		suffix := "?p=" + policy
		at := o.URL + "/contoso.onmicrosoft.com"
		if first, after, found := strings.Cut(rest, "/"); policy == "" && found {
			policy, rest, suffix, at = first, after, "", at+"/"+first
		}
		if !ok || !strings.EqualFold(policy, Policy) && !strings.EqualFold(policy, AnotherPolicy) {
			http.NotFound(w, r)
			return true
		}
		switch rest {
		case "v2.0/.well-known/openid-configuration":
			JSON(w, http.StatusOK, map[string]any{
				"issuer": o.URL + "/" + Directory + "/v2.0/", "authorization_endpoint": at + "/oauth2/v2.0/authorize" + suffix,
				"token_endpoint": at + "/oauth2/v2.0/token" + suffix,
				"jwks_uri":       at + "/discovery/v2.0/keys" + suffix, "end_session_endpoint": at + "/oauth2/v2.0/logout" + suffix,
				"id_token_signing_alg_values_supported": []string{"RS256"},
			})
			return true
		case "discovery/v2.0/keys":
			r.URL.Path = "/jwks"
		case "oauth2/v2.0/authorize", "oauth2/v2.0/token":
			r.URL.Path = "/" + rest[len("oauth2/v2.0/"):]
		default:
			http.NotFound(w, r)
			return true
		}
		return false
	}
	o.Change(func(s *Script) {
		s.Response = map[string]string{"iss": ""}
		s.Token = map[string]any{"refresh_token": nil}
		s.IDToken = map[string]any{
			"iss": o.URL + "/" + Directory + "/v2.0/", "tfp": Policy, "sid": nil, "name": "Ann Example",
			"emails": []string{"ann@example.com"},
		}
	})
	return o
}

// OfTenant are the claims of an ID token at a tenant of a provider like Microsoft. A nil value in change removes a
// claim.
func (o *OP) OfTenant(tenant string, change map[string]any) map[string]any {
	return over(map[string]any{
		"iss": o.URL + "/" + tenant + "/v2.0", "tid": tenant, "oid": "00000000-0000-0000-66f3-3332eca7ea81", "ver": "2.0",
		"auth_time": nil, "sid": nil,
		"preferred_username": "ann@example.com", "name": "Ann Example",
	}, change)
}

// WithIssuer is the RSA key as a provider like Microsoft publishes it: with the issuer that it signs for.
func (k Keys) WithIssuer(t testing.TB, issuer string) map[string]any {
	t.Helper()
	raw, err := json.Marshal(k.Public().Keys[0])
	if err != nil {
		t.Fatal(err)
	}
	var out map[string]any
	if err := json.Unmarshal(raw, &out); err != nil {
		t.Fatal(err)
	}
	out["issuer"] = issuer
	return out
}
