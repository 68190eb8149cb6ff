package caddymodule_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/gatehouse-id/gatehouse/caddymodule/servertest"
)

func made(p *servertest.Provisioning, path, body string) string {
	p.T.Helper()
	status, o := p.SCIM(http.MethodPost, path, body)
	id, _ := o["id"].(string)
	if status != http.StatusCreated || id == "" {
		p.T.Fatalf("POST %s = %d %v", path, status, o)
	}
	return id
}

// What SCIM says of a person and a group holds at protect with the next request.
func TestSCIMAtProtect(t *testing.T) {
	p := servertest.NewProvisioning(t)
	anna := made(p, "/Users", `{"schemas":["`+servertest.UserURN+`"],"userName":"anna@example.com","password":"correct horse 1"}`)
	token := p.Token("legacy", p.Password("anna@example.com", "correct horse 1"))
	if got := p.Enters(token); got != http.StatusForbidden {
		t.Errorf("protect = %d for a person outside of the group, want 403", got)
	}
	group := made(p, "/Groups", `{"schemas":["`+servertest.GroupURN+`"],"displayName":"crew","members":[{"value":"`+anna+`"}],
		"urn:gatehouse:params:scim:schemas:extension:2.0:Group":{"permissions":["sail"]}}`)
	if got := p.Enters(token); got != http.StatusOK {
		t.Errorf("protect = %d for a member of the group, want 200", got)
	}
	r := p.Request(http.MethodPost, p.Issuer()+"/oauth/api/v2/token/introspect", strings.NewReader(url.Values{"token": {token}}.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.SetBasicAuth("registrar", servertest.TestSecret)
	if _, body := p.Do(r); !strings.Contains(body, `"group_permissions":{"crew":["sail"]}`) {
		t.Errorf("Introspect = %s, want the permissions of the group", body)
	}
	patch := func(path, op string) {
		t.Helper()
		if status, o := p.SCIM(http.MethodPatch, path,
			`{"schemas":["`+servertest.PatchURN+`"],"Operations":[`+op+`]}`); status != http.StatusOK && status != http.StatusNoContent {
			t.Fatalf("PATCH %s = %d %v", path, status, o)
		}
	}
	patch("/Groups/"+group, `{"op":"remove","path":"members[value eq \"`+anna+`\"]"}`)
	if got := p.Enters(token); got != http.StatusForbidden {
		t.Errorf("protect = %d for a person who has left the group, want 403", got)
	}
	patch("/Groups/"+group, `{"op":"add","path":"members","value":[{"value":"`+anna+`"}]}`)
	patch("/Users/"+anna, `{"op":"replace","path":"active","value":false}`)
	if got := p.Enters(token); got != http.StatusUnauthorized {
		t.Errorf("protect = %d for a blocked person, want 401", got)
	}
	patch("/Users/"+anna, `{"op":"replace","path":"active","value":true}`)
	if got := p.Enters(token); got != http.StatusUnauthorized {
		t.Errorf("protect = %d for a token of before the block, want 401", got)
	}
	token = p.Token("legacy", p.Password("anna@example.com", "correct horse 1"))
	if got := p.Enters(token); got != http.StatusOK {
		t.Errorf("protect = %d for a new token, want 200", got)
	}
	if status, _ := p.SCIM(http.MethodDelete, "/Users/"+anna, ""); status != http.StatusNoContent {
		t.Errorf("DELETE = %d, want 204", status)
	}
	if got := p.Enters(token); got != http.StatusUnauthorized {
		t.Errorf("protect = %d for a deleted person, want 401", got)
	}
	made(p, "/Users", `{"schemas":["`+servertest.UserURN+`"],"userName":"anna@example.com","password":"correct horse 1"}`)
	if got := p.Enters(token); got != http.StatusUnauthorized {
		t.Errorf("protect = %d for the token of another person of the name, want 401", got)
	}
}

func TestWhoMayProvision(t *testing.T) {
	p := servertest.NewProvisioning(t)
	basic := func(id, secret string) string {
		r := p.Request(http.MethodGet, p.Issuer(), nil)
		r.SetBasicAuth(id, secret)
		return r.Header.Get("Authorization")
	}
	own := p.Token("hr", url.Values{"grant_type": {"client_credentials"}, "scope": {"orders.read"}})
	of := p.Password("demo@example.com", servertest.TestPassword)
	of.Set("scope", "scim")
	persons := p.Token("legacy", of)
	for name, c := range map[string]struct {
		credentials string
		want        int
	}{
		"an API client":                   {basic("registrar", servertest.TestSecret), 200},
		"a client with the scope":         {"bearer " + p.Bearer, 200},
		"an API client for other APIs":    {basic("other", servertest.TestSecret), 403},
		"an OAuth client's credentials":   {basic("hr", servertest.TestSecret), 401},
		"a wrong secret":                  {basic("registrar", servertest.TestSecret+"x"), 401},
		"a client without the scope":      {"Bearer " + own, 403},
		"a person with the scope":         {"Bearer " + persons, 403},
		"no token":                        {"Bearer ", 401},
		"no credentials":                  {"", 401},
		"another scheme":                  {"Digest x", 401},
		"a token that is not one of ours": {"Bearer " + strings.Repeat("x", 40), 401},
		"a token as a password":           {basic("registrar", p.Bearer), 401},
		"a token in front of credentials": {"Bearer " + p.Bearer + " " + basic("registrar", servertest.TestSecret), 401},
	} {
		if status, o := p.SCIMAs(c.credentials, http.MethodGet, "/Users", ""); status != c.want {
			t.Errorf("%s: GET /scim/v2/Users = %d %v, want %d", name, status, o, c.want)
		}
	}
	r := p.Request(http.MethodPost, p.Issuer()+"/scim/v2/Users",
		strings.NewReader(`{"schemas":["`+servertest.UserURN+`"],"userName":"mallory"}`))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", "Bearer "+p.Bearer)
	r.Header.Set("Sec-Fetch-Site", "cross-site")
	if resp, body := p.Do(r); resp.StatusCode != http.StatusForbidden {
		t.Errorf("POST from another site = %d %s, want 403", resp.StatusCode, body)
	}
	r = p.Request(http.MethodGet, p.Issuer()+"/scim/v2/Users?access_token="+p.Bearer, nil)
	if resp, _ := p.Do(r); resp.StatusCode != http.StatusUnauthorized {
		t.Errorf("GET with the token in the URL = %d, want 401", resp.StatusCode)
	}
}

func TestPersonAPISwitchedOff(t *testing.T) {
	p := servertest.NewProvisioning(t)
	set := func(on bool) {
		t.Helper()
		r := p.Request(http.MethodPost, p.Issuer()+"/api/v2/config/features", strings.NewReader(fmt.Sprintf(`{"person_api_enabled":%t}`, on)))
		r.Header.Set("Content-Type", "application/json")
		r.SetBasicAuth("registrar", servertest.TestSecret)
		if resp, body := p.Do(r); resp.StatusCode != http.StatusNoContent {
			t.Fatalf("POST features = %d %s", resp.StatusCode, body)
		}
	}
	for _, c := range []struct {
		on   bool
		want int
	}{{false, http.StatusServiceUnavailable}, {true, http.StatusOK}} {
		set(c.on)
		if status, _ := p.SCIM(http.MethodGet, "/Users", ""); status != c.want {
			t.Errorf("person_api_enabled %t: GET /scim/v2/Users = %d, want %d", c.on, status, c.want)
		}
	}
	if status, _ := p.SCIMAs("", http.MethodGet, "/Users", ""); status != http.StatusUnauthorized {
		t.Errorf("without credentials = %d, want 401", status)
	}
}
