package caddymodule_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
)

const (
	userURN  = "urn:ietf:params:scim:schemas:core:2.0:User"
	groupURN = "urn:ietf:params:scim:schemas:core:2.0:Group"
	patchURN = "urn:ietf:params:scim:api:messages:2.0:PatchOp"
)

// provisioning is a server with clients that provision, one that signs persons in, and a site for the group crew.
type provisioning struct {
	*server
	bearer string
}

func newProvisioning(t *testing.T) *provisioning {
	t.Helper()
	s := newServer(t)
	s.extra = `client legacy {
		secret ` + testSecret + `
		grants password
		scopes orders.read scim
		default_scopes orders.read
	}
	client hr {
		secret ` + testSecret + `
		grants client_credentials
		scopes scim orders.read
	}
	api_client registrar {
		secret ` + testSecret + `
		apis persons introspection configuration
	}
	api_client other {
		secret ` + testSecret + `
		apis introspection
	}`
	s.site = "protect orders.read {\n groups crew\n }"
	s.mustLoad()
	p := &provisioning{server: s}
	p.bearer = p.token("hr", url.Values{"grant_type": {"client_credentials"}, "scope": {"scim"}})
	return p
}

func (p *provisioning) token(client string, form url.Values) string {
	p.t.Helper()
	r := p.request(http.MethodPost, p.issuer()+"/oauth/token", strings.NewReader(form.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.SetBasicAuth(client, testSecret)
	_, body := p.do(r)
	var answer struct {
		AccessToken string `json:"access_token"`
	}
	if err := json.Unmarshal([]byte(body), &answer); err != nil || answer.AccessToken == "" {
		p.t.Fatalf("Token(%s) = %s", client, body)
	}
	return answer.AccessToken
}

func (p *provisioning) password(username, password string) url.Values {
	return url.Values{"grant_type": {"password"}, "username": {username}, "password": {password}}
}

// scim sends a request with the bearer token and returns what it answers; body is JSON.
func (p *provisioning) scim(method, path, body string) (int, map[string]any) {
	p.t.Helper()
	return p.scimAs("Bearer "+p.bearer, method, path, body)
}

func (p *provisioning) scimAs(credentials, method, path, body string) (int, map[string]any) {
	p.t.Helper()
	r := p.request(method, p.issuer()+"/scim/v2"+path, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/scim+json")
	if credentials != "" {
		r.Header.Set("Authorization", credentials)
	}
	resp, raw := p.do(r)
	var out map[string]any
	if raw != "" {
		if err := json.Unmarshal([]byte(raw), &out); err != nil {
			p.t.Fatalf("%s %s = %d %s", method, path, resp.StatusCode, raw)
		}
	}
	return resp.StatusCode, out
}

func (p *provisioning) made(path, body string) string {
	p.t.Helper()
	status, o := p.scim(http.MethodPost, path, body)
	id, _ := o["id"].(string)
	if status != http.StatusCreated || id == "" {
		p.t.Fatalf("POST %s = %d %v", path, status, o)
	}
	return id
}

// What SCIM says of a person and a group holds at protect with the next request.
func TestSCIMAtProtect(t *testing.T) {
	p := newProvisioning(t)
	anna := p.made("/Users", `{"schemas":["`+userURN+`"],"userName":"anna@example.com","password":"correct horse 1"}`)
	token := p.token("legacy", p.password("anna@example.com", "correct horse 1"))
	if got := p.enters(token); got != http.StatusForbidden {
		t.Errorf("protect = %d for a person outside of the group, want 403", got)
	}
	group := p.made("/Groups", `{"schemas":["`+groupURN+`"],"displayName":"crew","members":[{"value":"`+anna+`"}],
		"urn:gatehouse:params:scim:schemas:extension:2.0:Group":{"permissions":["sail"]}}`)
	if got := p.enters(token); got != http.StatusOK {
		t.Errorf("protect = %d for a member of the group, want 200", got)
	}
	r := p.request(http.MethodPost, p.issuer()+"/oauth/api/v2/token/introspect", strings.NewReader(url.Values{"token": {token}}.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.SetBasicAuth("registrar", testSecret)
	if _, body := p.do(r); !strings.Contains(body, `"group_permissions":{"crew":["sail"]}`) {
		t.Errorf("Introspect = %s, want the permissions of the group", body)
	}
	patch := func(path, op string) {
		t.Helper()
		if status, o := p.scim(http.MethodPatch, path, `{"schemas":["`+patchURN+`"],"Operations":[`+op+`]}`); status != http.StatusOK && status != http.StatusNoContent {
			t.Fatalf("PATCH %s = %d %v", path, status, o)
		}
	}
	patch("/Groups/"+group, `{"op":"remove","path":"members[value eq \"`+anna+`\"]"}`)
	if got := p.enters(token); got != http.StatusForbidden {
		t.Errorf("protect = %d for a person who has left the group, want 403", got)
	}
	patch("/Groups/"+group, `{"op":"add","path":"members","value":[{"value":"`+anna+`"}]}`)
	patch("/Users/"+anna, `{"op":"replace","path":"active","value":false}`)
	if got := p.enters(token); got != http.StatusUnauthorized {
		t.Errorf("protect = %d for a blocked person, want 401", got)
	}
	patch("/Users/"+anna, `{"op":"replace","path":"active","value":true}`)
	if got := p.enters(token); got != http.StatusUnauthorized {
		t.Errorf("protect = %d for a token of before the block, want 401", got)
	}
	token = p.token("legacy", p.password("anna@example.com", "correct horse 1"))
	if got := p.enters(token); got != http.StatusOK {
		t.Errorf("protect = %d for a new token, want 200", got)
	}
	if status, _ := p.scim(http.MethodDelete, "/Users/"+anna, ""); status != http.StatusNoContent {
		t.Errorf("DELETE = %d, want 204", status)
	}
	if got := p.enters(token); got != http.StatusUnauthorized {
		t.Errorf("protect = %d for a deleted person, want 401", got)
	}
	p.made("/Users", `{"schemas":["`+userURN+`"],"userName":"anna@example.com","password":"correct horse 1"}`)
	if got := p.enters(token); got != http.StatusUnauthorized {
		t.Errorf("protect = %d for the token of another person of the name, want 401", got)
	}
}

func TestWhoMayProvision(t *testing.T) {
	p := newProvisioning(t)
	basic := func(id, secret string) string {
		r := p.request(http.MethodGet, p.issuer(), nil)
		r.SetBasicAuth(id, secret)
		return r.Header.Get("Authorization")
	}
	own := p.token("hr", url.Values{"grant_type": {"client_credentials"}, "scope": {"orders.read"}})
	of := p.password("demo@example.com", testPassword)
	of.Set("scope", "scim")
	persons := p.token("legacy", of)
	for name, c := range map[string]struct {
		credentials string
		want        int
	}{
		"an API client":                   {basic("registrar", testSecret), 200},
		"a client with the scope":         {"bearer " + p.bearer, 200},
		"an API client for other APIs":    {basic("other", testSecret), 403},
		"an OAuth client's credentials":   {basic("hr", testSecret), 401},
		"a wrong secret":                  {basic("registrar", testSecret+"x"), 401},
		"a client without the scope":      {"Bearer " + own, 403},
		"a person with the scope":         {"Bearer " + persons, 403},
		"no token":                        {"Bearer ", 401},
		"no credentials":                  {"", 401},
		"another scheme":                  {"Digest x", 401},
		"a token that is none of ours":    {"Bearer " + strings.Repeat("x", 40), 401},
		"a token as a password":           {basic("registrar", p.bearer), 401},
		"a token in front of credentials": {"Bearer " + p.bearer + " " + basic("registrar", testSecret), 401},
	} {
		if status, o := p.scimAs(c.credentials, http.MethodGet, "/Users", ""); status != c.want {
			t.Errorf("%s: GET /scim/v2/Users = %d %v, want %d", name, status, o, c.want)
		}
	}
	r := p.request(http.MethodPost, p.issuer()+"/scim/v2/Users", strings.NewReader(`{"schemas":["`+userURN+`"],"userName":"mallory"}`))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", "Bearer "+p.bearer)
	r.Header.Set("Sec-Fetch-Site", "cross-site")
	if resp, body := p.do(r); resp.StatusCode != http.StatusForbidden {
		t.Errorf("POST from another site = %d %s, want 403", resp.StatusCode, body)
	}
	r = p.request(http.MethodGet, p.issuer()+"/scim/v2/Users?access_token="+p.bearer, nil)
	if resp, _ := p.do(r); resp.StatusCode != http.StatusUnauthorized {
		t.Errorf("GET with the token in the URL = %d, want 401", resp.StatusCode)
	}
}

func TestPersonAPISwitchedOff(t *testing.T) {
	p := newProvisioning(t)
	set := func(on bool) {
		t.Helper()
		r := p.request(http.MethodPost, p.issuer()+"/api/v2/config/features", strings.NewReader(fmt.Sprintf(`{"person_api_enabled":%t}`, on)))
		r.Header.Set("Content-Type", "application/json")
		r.SetBasicAuth("registrar", testSecret)
		if resp, body := p.do(r); resp.StatusCode != http.StatusNoContent {
			t.Fatalf("POST features = %d %s", resp.StatusCode, body)
		}
	}
	for _, c := range []struct {
		on   bool
		want int
	}{{false, http.StatusServiceUnavailable}, {true, http.StatusOK}} {
		set(c.on)
		if status, _ := p.scim(http.MethodGet, "/Users", ""); status != c.want {
			t.Errorf("person_api_enabled %t: GET /scim/v2/Users = %d, want %d", c.on, status, c.want)
		}
	}
	if status, _ := p.scimAs("", http.MethodGet, "/Users", ""); status != http.StatusUnauthorized {
		t.Errorf("without credentials = %d, want 401", status)
	}
}
