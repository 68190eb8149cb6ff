package movein

import (
	"encoding/json"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"

	yaml "go.yaml.in/yaml/v3"
)

// told is all that the operator sees of an import.
func told(t *testing.T, read func(io.Reader) (*Clients, error), file string) string {
	t.Helper()
	c, err := read(strings.NewReader(file))
	if err != nil {
		t.Fatalf("%v\n%s", err, file)
	}
	out := c.Caddyfile()
	for _, n := range c.Notes {
		out += n.Client + n.About + ": " + n.Text + "\n"
	}
	return out
}

// loses returns the members of an object, and of those within it, without which the operator would see the same.
// silent are paths of members that mean nothing elsewhere.
func loses(t *testing.T, read func(io.Reader) (*Clients, error), whole map[string]any, encode func(any) string,
	silent []string,
) (out []string) {
	t.Helper()
	all := told(t, read, encode(whole))
	var walk func(v any, path string)
	walk = func(v any, path string) {
		switch v := v.(type) {
		case map[string]any:
			for _, name := range slices.Sorted(maps.Keys(v)) {
				at, value := strings.TrimPrefix(path+"."+name, "."), v[name]
				if slices.Contains(silent, at) {
					continue
				}
				delete(v, name)
				c, err := read(strings.NewReader(encode(whole)))
				same := err == nil && c.Caddyfile() == "" && all == ""
				if err == nil && !same {
					same = told(t, read, encode(whole)) == all
				}
				if v[name] = value; same {
					out = append(out, at)
				}
				walk(value, at)
			}
		case []any:
			for _, one := range v {
				walk(one, path+"[]")
			}
		}
	}
	walk(whole, "")
	return out
}

func jsonText(v any) string {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(raw)
}

func yamlText(v any) string {
	raw, err := yaml.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(raw)
}

const wholeKeycloak = `{
"id":"5b5a","realm":"staff","displayName":"Staff","enabled":true,"keycloakVersion":"26.0.5","notBefore":1700000000,"sslRequired":"external","accessTokenLifespan":600,
"ssoSessionIdleTimeout":1800,"ssoSessionMaxLifespan":36000,"offlineSessionIdleTimeout":2592000,"registrationAllowed":true,"registrationEmailAsUsername":true,"rememberMe":true,
"verifyEmail":true,"loginWithEmailAllowed":true,"resetPasswordAllowed":true,"bruteForceProtected":true,"failureFactor":30,"passwordPolicy":"length(12)","otpPolicyType":"totp",
"webAuthnPolicyRpEntityName":"staff","smtpServer":{"host":"mail.example.com"},"loginTheme":"corp","eventsEnabled":true,"internationalizationEnabled":true,"supportedLocales":["de"],"defaultLocale":"de",
"roles":{"realm":[{"name":"admin"}]},"defaultRole":{"name":"default-roles-staff"},"groups":[{"name":"all","subGroups":[{"name":"dev"}]}],
"clientScopes":[{"name":"orders"}],"defaultDefaultClientScopes":["profile"],"scopeMappings":[{"client":"shop"}],"requiredActions":[{"alias":"UPDATE_PASSWORD"}],
"authenticationFlows":[{"alias":"browser"}],"browserFlow":"browser","attributes":{"cibaExpiresIn":"120","frontendUrl":"https://sso.example.com"},"organizationsEnabled":true,"browserSecurityHeaders":{"xFrameOptions":"DENY"},
"identityProviders":[{"alias":"corp","displayName":"Corp","providerId":"oidc","enabled":true,"trustEmail":true,"storeToken":true,"postBrokerLoginFlowAlias":"second factor",
 "config":{"issuer":"https://corp.example.com","clientId":"staff","defaultScope":"openid email","clientAuthMethod":"client_secret_post","prompt":"login",
  "syncMode":"FORCE","tokenUrl":"https://corp.example.com/token","clientSecret":"planted-provider-secret"}},
 {"alias":"old","providerId":"saml","enabled":true,"config":{}}],
"identityProviderMappers":[{"name":"m"}],
"components":{"org.keycloak.storage.UserStorageProvider":[{"name":"ldap","providerId":"ldap"}],"org.keycloak.keys.KeyProvider":[{"name":"rsa","providerId":"rsa-generated"}],"org.keycloak.userprofile.UserProfileProvider":[{"providerId":"declarative"}]},
"clients":[{"id":"c1","clientId":"shop","name":"Shop","description":"The shop","rootUrl":"https://shop.example.com","adminUrl":"https://shop.example.com/admin","baseUrl":"/home","surrogateAuthRequired":true,
 "enabled":true,"alwaysDisplayInConsole":true,"clientAuthenticatorType":"client-secret","secret":"planted-client-secret","redirectUris":["/callback"],"webOrigins":["https://www.example.com"],"notBefore":1,
 "bearerOnly":false,"consentRequired":true,"standardFlowEnabled":true,"implicitFlowEnabled":true,"directAccessGrantsEnabled":true,"serviceAccountsEnabled":true,"authorizationServicesEnabled":true,
 "publicClient":false,"frontchannelLogout":true,"protocol":"openid-connect","fullScopeAllowed":true,"authenticationFlowBindingOverrides":{"browser":"x"},"nodeReRegistrationTimeout":-1,
 "protocolMappers":[{"name":"p","protocolMapper":"oidc-sha256-pairwise-sub-mapper"}],"defaultClientScopes":["profile","roles","orders"],"optionalClientScopes":["email","microprofile-jwt"],
 "attributes":{"id.token.signed.response.alg":"ES256","user.info.response.signature.alg":"ES256","authorization.signed.response.alg":"ES256","access.token.signed.response.alg":"PS256",
  "frontchannel.logout.url":"https://shop.example.com/out","backchannel.logout.url":"https://shop.example.com/back","post.logout.redirect.uris":"https://shop.example.com/bye","acr.loa.map":"{\"gold\":2}",
  "default.acr.values":"gold","client.session.max.lifespan":"7200","client.session.idle.timeout":"3600","access.token.lifespan":"120","use.refresh.tokens":"true","pkce.code.challenge.method":"S256",
  "require.pushed.authorization.requests":"true","dpop.bound.access.tokens":"true","tls.client.certificate.bound.access.tokens":"true","oauth2.device.authorization.grant.enabled":"true",
  "jwks.url":"https://shop.example.com/jwks","request.object.signature.alg":"RS256","login_theme":"corp","oidc.ciba.grant.enabled":"true","id.token.encrypted.response.alg":"RSA-OAEP"}}],
"users":[]}`

// TestKeycloakLosesNothing: of a full export every member of the realm and of its clients is an option of the Caddyfile
// or has a line.
func TestKeycloakLosesNothing(t *testing.T) {
	t.Parallel()
	var whole map[string]any
	if err := json.Unmarshal([]byte(wholeKeycloak), &whole); err != nil {
		t.Fatal(err)
	}
	silent := []string{
		"id", "realm", "enabled", "keycloakVersion", "users", // of the file itself, and read elsewhere
		"accessTokenLifespan",                                       // is that of clients without their own
		"identityProviders[].enabled", "identityProviders[].config", // of providers that are named as a whole
		"identityProviders[].config.clientSecret", "identityProviders[].config.tokenUrl", // from the environment, and discovered
		"components.org.keycloak.keys.KeyProvider", // keys are made again
		"clients[].id", "clients[].enabled", "clients[].protocol", // at their defaults
		"clients[].secret", "clients[].clientAuthenticatorType", "clients[].bearerOnly", "clients[].publicClient",
		"clients[].nodeReRegistrationTimeout",
		"clients[].attributes.use.refresh.tokens", // at its default
	}
	for _, path := range loses(t, Keycloak, whole, jsonText, silent) {
		if deep(path) {
			continue
		}
		t.Errorf("%s is lost without a line", path)
	}
	if text := told(t, Keycloak, wholeKeycloak); strings.Contains(text, "planted") {
		t.Errorf("a secret is told:\n%s", text)
	}
}

// deep reports whether a path is within a part that is named as a whole.
func deep(path string) bool {
	for _, part := range []string{
		"smtpServer.", "roles.", "defaultRole.", "groups[].", "clientScopes[].", "scopeMappings[].", "requiredActions[].",
		"authenticationFlows[].", "browserSecurityHeaders.",
		"identityProviderMappers[].", "components.", "clients[].authenticationFlowBindingOverrides.",
	} {
		if strings.HasPrefix(path, part) {
			return true
		}
	}
	return false
}

// TestAutheliaLosesNothing is the same for Authelia's configuration.
func TestAutheliaLosesNothing(t *testing.T) {
	t.Parallel()
	whole := map[string]any{
		"theme": "dark", "server": map[string]any{"address": "tcp://:9091"}, "session": map[string]any{"name": "s"},
		"access_control":         map[string]any{"default_policy": "deny"},
		"authentication_backend": map[string]any{"file": "users.yml"}, "notifier": map[string]any{"smtp": "x"},
		"identity_providers": map[string]any{"oidc": map[string]any{
			"lifespans": map[string]any{"access_token": "1h"}, "cors": map[string]any{"endpoints": "token"},
			"authorization_policies": map[string]any{"two": "x"},
			"clients": []any{map[string]any{
				"client_id": "grafana", "client_name": "Grafana", "client_secret": "$pbkdf2-sha512$planted", "public": false,
				"redirect_uris":  []any{"https://grafana.example.com/cb"},
				"scopes":         []any{"openid", "groups", "offline_access"},
				"grant_types":    []any{"authorization_code", "urn:ietf:params:oauth:grant-type:device_code"},
				"response_types": []any{"code", "id_token"},
				"response_modes": []any{"form_post"}, "authorization_policy": "two_factor", "consent_mode": "implicit", "require_pkce": true,
				"pkce_challenge_method":                 "plain",
				"require_pushed_authorization_requests": true, "token_endpoint_auth_method": "client_secret_post",
				"audience": []any{"https://x.example.com"}, "access_token_signed_response_alg": "RS256",
				"id_token_signed_response_alg": "ES256", "userinfo_signed_response_alg": "ES256", "authorization_signed_response_alg": "ES256",
				"sector_identifier_uri": "https://x.example.com/s",
				"lifespan":              "custom", "pre_configured_consent_duration": "1w", "claims_policy": "c",
			}},
		}},
	}
	silent := []string{"identity_providers.oidc.clients[].client_secret", "identity_providers.oidc.clients[].public"}
	for _, path := range loses(t, Authelia, whole, yamlText, silent) {
		if part := "identity_providers.oidc."; strings.HasPrefix(path, part+"clients") || !strings.Contains(strings.TrimPrefix(path, part), ".") {
			t.Errorf("%s is lost without a line", path)
		}
	}
	if text := told(t, Authelia, yamlText(whole)); strings.Contains(text, "planted") || !strings.Contains(text, "device_code") ||
		!strings.Contains(text, "token_format jwt") {
		t.Errorf("import says:\n%s", text)
	}
}

// TestDexAndHydraLoseNothing is the same for the clients of Dex and Hydra.
func TestDexAndHydraLoseNothing(t *testing.T) {
	t.Parallel()
	dex := map[string]any{
		"issuer": "https://dex.example.com", "storage": map[string]any{"type": "sqlite3"}, "web": map[string]any{"http": "x"},
		"expiry": map[string]any{"idTokens": "1h"},
		"oauth2": map[string]any{
			"skipApprovalScreen": true, "grantTypes": []any{"implicit"}, "alwaysShowLoginScreen": true,
			"passwordConnector": "local",
		},
		"staticClients": []any{map[string]any{
			"id": "app", "name": "App", "secret": "planted", "redirectURIs": []any{"https://app.example.com/cb"}, "public": false,
			"trustedPeers": []any{"other"}, "logoURL": "https://app.example.com/logo",
		}},
		"connectors": []any{map[string]any{"type": "oidc", "id": "corp", "name": "Corp", "config": map[string]any{
			"issuer": "https://corp.example.com", "clientID": "c", "clientSecret": "planted", "redirectURI": "https://dex.example.com/callback",
			"scopes": []any{"email"}, "getUserInfo": true,
		}}},
	}
	silent := []string{
		"issuer", "staticClients[].secret", "staticClients[].public", "connectors[].config.clientSecret",
		"connectors[].config.redirectURI",
	}
	for _, path := range loses(t, Dex, dex, yamlText, silent) {
		if !strings.HasPrefix(path, "storage.") && !strings.HasPrefix(path, "web.") && !strings.HasPrefix(path, "expiry.") {
			t.Errorf("Dex: %s is lost without a line", path)
		}
	}
	hydra := map[string]any{
		"client_id": "app", "client_name": "App", "client_secret": "planted", "redirect_uris": []any{"https://app.example.com/cb"},
		"post_logout_redirect_uris": []any{"https://app.example.com/bye"},
		"grant_types":               []any{"authorization_code", "urn:ietf:params:oauth:grant-type:device_code"},
		"response_types":            []any{"code", "token"},
		"scope":                     "openid offline orders", "audience": []any{"https://x.example.com"},
		"token_endpoint_auth_method": "client_secret_post", "allowed_cors_origins": []any{"https://www.example.com"}, "subject_type": "pairwise",
		"backchannel_logout_uri": "https://app.example.com/back",
		"skip_consent":           true, "frontchannel_logout_uri": "https://app.example.com/front", "userinfo_signed_response_alg": "RS256",
		"access_token_strategy":                          "jwt",
		"authorization_code_grant_access_token_lifespan": "1h", "refresh_token_grant_refresh_token_lifespan": "720h", "owner": "ops",
		"policy_uri": "https://app.example.com/policy", "tos_uri": "https://app.example.com/tos",
		"logo_uri": "https://app.example.com/logo", "contacts": []any{"ops@example.com"}, "metadata": map[string]any{"x": 1.5},
		"created_at": "2024-01-01T00:00:00Z", "client_secret_expires_at": 1700000000,
	}
	silent = []string{"client_secret", "created_at"}
	for _, path := range loses(t, Hydra, hydra, jsonText, silent) {
		if !strings.HasPrefix(path, "metadata.") {
			t.Errorf("Hydra: %s is lost without a line", path)
		}
	}
}

// TestKeycloakWithoutUsers: the partial export of the admin console has the clients alone.
func TestKeycloakWithoutUsers(t *testing.T) {
	t.Parallel()
	c, err := Keycloak(strings.NewReader(`{"realm":"staff","enabled":true,"clients":[{"clientId":"shop","secret":"**********","redirectUris":["https://shop.example.com/callback"],"standardFlowEnabled":true,"protocol":"openid-connect"}],"keycloakVersion":"24.0.5"}`))
	if err != nil {
		t.Fatal(err)
	}
	if got := holds(t, c); got["shop"].TokenFormat != "jwt" || strings.Join(got["shop"].DefaultScopes, " ") != "openid" {
		t.Errorf("the client is %+v", got["shop"])
	}
}

// TestPrintedBlocksAreValid: a client that a Caddyfile could not have is named and not printed.
func TestPrintedBlocksAreValid(t *testing.T) {
	t.Parallel()
	c, err := Authelia(strings.NewReader(yamlText(map[string]any{"identity_providers": map[string]any{"oidc": map[string]any{"clients": []any{
		map[string]any{"client_id": "job", "grant_types": []any{"client_credentials", "refresh_token"}, "scopes": []any{"read"}},
		map[string]any{"client_id": "spa", "public": true, "grant_types": []any{"client_credentials"}},
		map[string]any{"client_id": "app", "redirect_uris": []any{"javascript:alert(1)", "https://app.example.com/cb"}},
	}}}})))
	if err != nil {
		t.Fatal(err)
	}
	got := holds(t, c)
	if len(got) != 2 || strings.Join(got["job"].Grants, " ") != "client_credentials" ||
		strings.Join(got["app"].RedirectURIs, " ") != "https://app.example.com/cb" {
		t.Errorf("printed:\n%s", c.Caddyfile())
	}
	for id, want := range map[string]string{"spa": "client_credentials", "job": "refresh_token", "app": "javascript"} {
		if !strings.Contains(c.said(id), want) {
			t.Errorf("the notes of %s do not mention %s: %s", id, want, c.said(id))
		}
	}
	for _, one := range got {
		if err := problem(one); err != nil {
			t.Errorf("the block of %s is refused: %v", one.ID, err)
		}
	}
}
