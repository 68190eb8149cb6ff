package authztest

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/gatehouse-id/gatehouse/authz/client"
)

// Params returns valid parameters of an authorization request of a client: scope openid, state, nonce, PKCE. Each
// change is a name and a value that replaces it; an empty value removes it.
func (h *Harness) Params(client string, changes ...string) url.Values {
	v := url.Values{
		"response_type": {"code"}, "client_id": {client}, "redirect_uri": {h.client(client).RedirectURIs[0]},
		"scope": {"openid"}, "state": {"the state"},
		"nonce": {"the nonce"}, "code_challenge": {Challenge}, "code_challenge_method": {"S256"},
	}
	for i := 0; i+1 < len(changes); i += 2 {
		if changes[i+1] == "" {
			v.Del(changes[i])
		} else {
			v.Set(changes[i], changes[i+1])
		}
	}
	return v
}

func (h *Harness) client(id string) *client.Client {
	h.T.Helper()
	for _, c := range h.Config.Clients {
		if c.ID == id {
			return c
		}
	}
	h.T.Fatalf("no client %q", id)
	return nil
}

// AuthorizeURL returns the path and query of an authorization request.
func (h *Harness) AuthorizeURL(client string, changes ...string) string {
	h.T.Helper()
	return "/oauth/authorize?" + h.Params(client, changes...).Encode()
}

// Authorize runs an authorization request to its end. See Params for changes.
func (b *Browser) Authorize(client string, changes ...string) *Response {
	b.h.T.Helper()
	return b.Follow(b.h.AuthorizeURL(client, changes...))
}

// Code runs an authorization request and returns its code, or fails the test.
func (b *Browser) Code(client string, changes ...string) string {
	b.h.T.Helper()
	res := b.Authorize(client, changes...)
	_, params := res.Redirect()
	if params.Get("code") == "" {
		b.h.T.Fatalf("Authorize(%q) = %d %q, want a code; log: %s", client, res.Status, res.Location(), b.h.Log())
	}
	return params.Get("code")
}

// Basic returns the header name and value of a client's Basic credentials (RFC 6749 2.3.1).
func Basic(id, secret string) []string {
	r := &http.Request{Header: http.Header{}}
	r.SetBasicAuth(url.QueryEscape(id), url.QueryEscape(secret))
	return []string{"Authorization", r.Header.Get("Authorization")}
}

// Call posts a form to an endpoint with the client's credentials: Basic, or client_id alone for a public client.
func (h *Harness) Call(endpoint, client string, f url.Values, headers ...string) *Response {
	h.T.Helper()
	if h.client(client).Public {
		f.Set("client_id", client)
		return h.Post(endpoint, f, headers...)
	}
	return h.Post(endpoint, f, append(Basic(client, Secret(client)), headers...)...)
}

// Token posts a form to the token endpoint with the client's credentials.
func (h *Harness) Token(client string, f url.Values, headers ...string) *Response {
	h.T.Helper()
	return h.Call("/oauth/token", client, f, headers...)
}

// CodeForm is the form that redeems a code of Params.
func (h *Harness) CodeForm(client, code string) url.Values {
	h.T.Helper()
	return url.Values{
		"grant_type": {"authorization_code"}, "code": {code}, "redirect_uri": {h.client(client).RedirectURIs[0]}, "code_verifier": {Verifier},
	}
}

// Redeem redeems a code of Params.
func (h *Harness) Redeem(client, code string) *Response {
	h.T.Helper()
	return h.Token(client, h.CodeForm(client, code))
}

// Refresh uses a refresh token.
func (h *Harness) Refresh(client, token string) *Response {
	h.T.Helper()
	return h.Token(client, url.Values{"grant_type": {"refresh_token"}, "refresh_token": {token}})
}

// Tokens are the tokens of a client after a flow.
type Tokens struct{ Access, Refresh, ID string }

// Tokens runs a whole code flow of a person in a new browser, or fails the test.
func (h *Harness) Tokens(client, person string, changes ...string) Tokens {
	h.T.Helper()
	return h.Browser(person).Tokens(client, changes...)
}

// Tokens runs a whole code flow in this browser, or fails the test.
func (b *Browser) Tokens(client string, changes ...string) Tokens {
	b.h.T.Helper()
	res := b.h.Redeem(client, b.Code(client, changes...))
	if res.Status != http.StatusOK {
		b.h.T.Fatalf("Token(%q) = %d %s, want 200", client, res.Status, res.Body)
	}
	return Tokens{res.Text("access_token"), res.Text("refresh_token"), res.Text("id_token")}
}

// Introspect asks about a token as the API client ops.
func (h *Harness) Introspect(token string) *Response {
	h.T.Helper()
	return h.Post("/oauth/api/v2/token/introspect", url.Values{"token": {token}}, Basic("ops", Secret("ops"))...)
}

// Active reports whether a token is active, and fails the test when the server cannot answer.
func (h *Harness) Active(token string) bool {
	h.T.Helper()
	res := h.Introspect(token)
	if res.Status != http.StatusOK {
		h.T.Fatalf("Introspect = %d %s, want 200", res.Status, res.Body)
	}
	return strings.Contains(res.Body, `"active":true`)
}

// Validate asks about a token by the validation grant, as the client rs.
func (h *Harness) Validate(token string) *Response {
	h.T.Helper()
	return h.Token("rs", url.Values{"grant_type": {"urn:service:oauth2:grant_type:validate_bearer"}, "token": {token}})
}

// Revoke revokes a token with the client's credentials.
func (h *Harness) Revoke(client, token string) *Response {
	h.T.Helper()
	return h.Call("/oauth/revoke", client, url.Values{"token": {token}})
}

// Enter opens the page for the codes of devices, signs in if asked, and sends a code. It returns the answer.
func (b *Browser) Enter(userCode string, headers ...string) *Response {
	b.h.T.Helper()
	action, fields := Form(b.Follow("/device").Body)
	fields.Set("user_code", userCode)
	return b.Post(action, fields, headers...)
}

// Decide enters the code of a device, follows to the question, and presses the button allow or deny. It returns the
// last answer.
func (b *Browser) Decide(userCode, decision string) *Response {
	b.h.T.Helper()
	res := b.follow(b.Enter(userCode))
	action, fields := Form(res.Body)
	if !strings.HasPrefix(action, "/device/allow") {
		return res
	}
	fields.Set("decision", decision)
	return b.follow(b.Post(action, fields))
}
