package servertest

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// The schemas of RFC 7643 and RFC 7644.
const (
	UserURN  = "urn:ietf:params:scim:schemas:core:2.0:User"
	GroupURN = "urn:ietf:params:scim:schemas:core:2.0:Group"
	PatchURN = "urn:ietf:params:scim:api:messages:2.0:PatchOp"
)

// Provisioning is a server with clients that provision, one that signs persons in, and a site for the group crew.
type Provisioning struct {
	*Server
	Bearer string
}

// NewProvisioning starts one.
func NewProvisioning(t *testing.T) *Provisioning {
	t.Helper()
	s := NewServer(t)
	s.Extra = `client legacy {
		secret ` + TestSecret + `
		grants password
		scopes orders.read scim
		default_scopes orders.read
	}
	client hr {
		secret ` + TestSecret + `
		grants client_credentials
		scopes scim orders.read
	}
	api_client registrar {
		secret ` + TestSecret + `
		apis persons introspection configuration
	}
	api_client other {
		secret ` + TestSecret + `
		apis introspection
	}`
	s.Site = "protect orders.read {\n groups crew\n }"
	s.MustLoad()
	p := &Provisioning{Server: s}
	p.Bearer = p.Token("hr", url.Values{"grant_type": {"client_credentials"}, "scope": {"scim"}})
	return p
}

// Token gets a token with this form.
func (p *Provisioning) Token(client string, form url.Values) string {
	p.T.Helper()
	r := p.Request(http.MethodPost, p.Issuer()+"/oauth/token", strings.NewReader(form.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.SetBasicAuth(client, TestSecret)
	_, body := p.Do(r) //nolint:bodyclose // it is read and closed
	var answer struct {
		AccessToken string `json:"access_token"`
	}
	if err := json.Unmarshal([]byte(body), &answer); err != nil || answer.AccessToken == "" {
		p.T.Fatalf("Token(%s) = %s", client, body)
	}
	return answer.AccessToken
}

// Password returns the form of the password grant.
func (p *Provisioning) Password(username, password string) url.Values {
	return url.Values{"grant_type": {"password"}, "username": {username}, "password": {password}}
}

// SCIM sends a request with the bearer token and returns what it answers; body is JSON.
func (p *Provisioning) SCIM(method, path, body string) (int, map[string]any) {
	p.T.Helper()
	return p.SCIMAs("Bearer "+p.Bearer, method, path, body)
}

// SCIMAs is SCIM with other credentials.
func (p *Provisioning) SCIMAs(credentials, method, path, body string) (int, map[string]any) {
	p.T.Helper()
	r := p.Request(method, p.Issuer()+"/scim/v2"+path, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/scim+json")
	if credentials != "" {
		r.Header.Set("Authorization", credentials)
	}
	resp, raw := p.Do(r) //nolint:bodyclose // it is read and closed
	var out map[string]any
	if raw != "" {
		if err := json.Unmarshal([]byte(raw), &out); err != nil {
			p.T.Fatalf("%s %s = %d %s", method, path, resp.StatusCode, raw)
		}
	}
	return resp.StatusCode, out
}
