package oidctest

import (
	"crypto/rand"
	"encoding/json"
	"html/template"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// Our team and key at a provider that behaves like Apple.
const (
	AppleTeam   = "TEAM123456"
	AppleKey    = "KEY1234567"
	ApplePerson = "001234.0f9c7a3be1c4412c8e4f3f7b6ad2c1aa.0713"
	AppleRelay  = "dpdcnf87nu@privaterelay.appleid.com"
)

// appleSecretLife is the longest life of a client secret.
const appleSecretLife = 15777000 * time.Second

// applePage is the page after a sign-in: the answer is posted to the application.
var applePage = template.Must(template.New("").Parse(`<!doctype html><title>Sign in with Apple</title>
<form method="post" action="{{.Action}}">{{range $k, $v := .Fields}}<input type="hidden" name="{{$k}}" value="{{$v}}">{{end}}<button type="submit">Continue</button></form>
`))

// NewApple starts a provider that behaves like Apple. It demands form_post for the scopes name and email, and a client
// secret that key has signed; tells the name in the form at the first sign-in of a person only; and writes booleans as
// text.
func NewApple(t testing.TB, key any) *OP {
	o := New(t)
	o.authenticated = true
	o.behave = func(w http.ResponseWriter, r *http.Request) bool {
		switch r.URL.Path {
		case "/.well-known/openid-configuration":
			JSON(w, http.StatusOK, map[string]any{
				"issuer": o.URL, "authorization_endpoint": o.URL + "/auth/authorize", "token_endpoint": o.URL + "/auth/token",
				"revocation_endpoint": o.URL + "/auth/revoke",
				"jwks_uri":            o.URL + "/auth/keys", "response_types_supported": []string{"code"},
				"response_modes_supported": []string{"query", "fragment", "form_post"},
				"subject_types_supported":  []string{"pairwise"}, "id_token_signing_alg_values_supported": []string{"RS256"},
				"scopes_supported":                      []string{"openid", "email", "name"},
				"token_endpoint_auth_methods_supported": []string{"client_secret_post"},
			})
		case "/auth/keys":
			r.URL.Path = "/jwks"
			return false
		case "/auth/authorize":
			o.appleAuthorize(w, r)
		case "/auth/token":
			if why := o.appleSecret(r, key); why != "" {
				JSON(w, http.StatusBadRequest, map[string]string{"error": "invalid_client", "error_description": why})
				return true
			}
			r.URL.Path = "/token"
			return false
		default:
			http.NotFound(w, r)
		}
		return true
	}
	o.Change(func(s *Script) {
		s.Sub = ApplePerson
		s.IDToken = map[string]any{"sid": nil, "email": "ann@example.com", "email_verified": "true", "nonce_supported": true}
	})
	return o
}

func (o *OP) appleAuthorize(w http.ResponseWriter, r *http.Request) {
	scopes := strings.Fields(r.Form.Get("scope"))
	asks := slices.Contains(scopes, "name") || slices.Contains(scopes, "email")
	switch {
	case r.Form.Get("client_id") != ClientID || r.Form.Get("response_type") != "code" || r.Form.Get("redirect_uri") == "":
		http.Error(w, "invalid_request: Invalid client.", http.StatusBadRequest)
		return
	case asks && r.Form.Get("response_mode") != "form_post":
		http.Error(w, "invalid_request: response_mode must be form_post when name or email scope is requested.", http.StatusBadRequest)
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	code := rand.Text()
	o.grants[code] = r.Form
	fields := map[string]string{"code": code, "state": r.Form.Get("state")}
	if slices.Contains(scopes, "name") && !o.seen[o.script.Sub] {
		o.seen[o.script.Sub] = true
		raw, err := json.Marshal(map[string]any{
			"name":  map[string]string{"firstName": "Ann", "lastName": "Example"},
			"email": o.script.IDToken["email"],
		})
		if err != nil {
			o.t.Error(err)
		}
		fields["user"] = string(raw)
	}
	for name, value := range o.script.Response {
		if delete(fields, name); value != "" {
			fields[name] = value
		}
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_ = applePage.Execute(w, map[string]any{"Action": r.Form.Get("redirect_uri"), "Fields": fields}) // the client may be gone
}

// appleSecret returns what is wrong with the client secret of a token request.
func (o *OP) appleSecret(r *http.Request, key any) string {
	if r.Header.Get("Authorization") != "" || r.PostForm.Get("client_id") != ClientID {
		return "the client is not in the body"
	}
	parsed, err := jose.ParseSignedCompact(r.PostForm.Get("client_secret"), []jose.SignatureAlgorithm{jose.ES256})
	if err != nil || parsed.Signatures[0].Header.KeyID != AppleKey {
		return "alg or kid is another"
	}
	payload, err := parsed.Verify(key)
	if err != nil {
		return "the signature is another"
	}
	var c struct {
		Iss, Sub, Aud string
		Iat, Exp      int64
	}
	now := o.Now().Unix()
	switch err := json.Unmarshal(payload, &c); {
	case err != nil || c.Iss != AppleTeam || c.Sub != ClientID || c.Aud != o.URL:
		return "iss, sub or aud is another"
	case c.Iat > now+60 || c.Exp <= now || c.Exp-now > int64(appleSecretLife.Seconds()):
		return "it has expired, or is valid for too long"
	}
	return ""
}
