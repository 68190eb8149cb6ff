package oidctest

import (
	"crypto/rand"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/go-jose/go-jose/v4"
)

// Our service at a provider that behaves like itsme, and the levels that it knows.
const (
	ItsmeService  = "GATEHOUSE_LOGIN"
	ItsmeBasic    = "http://itsme.services/v2/claim/acr_basic"
	ItsmeAdvanced = "http://itsme.services/v2/claim/acr_advanced"
	ItsmeNational = "http://itsme.services/v2/claim/BENationalNumber"
)

// NewItsme starts a provider that behaves like itsme. It demands the scope of our service and an RSA key that signs for
// its token endpoint, by the keys at the address that clientKeys returns; signs and encrypts all that it tells; calls
// that application/json; and keeps no session, so it names no auth_time.
func NewItsme(t testing.TB, clientKeys func() jose.JSONWebKeySet) *OP {
	o := New(t)
	o.authenticated = true
	at := o.URL + "/v2"
	o.behave = func(w http.ResponseWriter, r *http.Request) bool {
		rest, ok := strings.CutPrefix(r.URL.Path, "/v2")
		switch {
		case ok && rest == "/.well-known/openid-configuration":
			JSON(w, http.StatusOK, map[string]any{
				"issuer": at, "authorization_endpoint": at + "/authorization", "token_endpoint": at + "/token", "userinfo_endpoint": at + "/userinfo",
				"jwks_uri":                 at + "/jwkSet",
				"response_types_supported": []string{"code"}, "subject_types_supported": []string{"pairwise"},
				"acr_values_supported":                             []string{ItsmeBasic, ItsmeAdvanced},
				"id_token_signing_alg_values_supported":            []string{"RS256"},
				"id_token_encryption_alg_values_supported":         []string{"RSA-OAEP", "RSA-OAEP-256"},
				"token_endpoint_auth_methods_supported":            []string{"private_key_jwt"},
				"token_endpoint_auth_signing_alg_values_supported": []string{"RS256"},
			})
		case ok && rest == "/jwkSet":
			r.URL.Path = "/jwks"
			return false
		case ok && rest == "/authorization":
			o.itsmeAuthorize(w, r)
		case ok && rest == "/token":
			if why := o.itsmeAssertion(r, clientKeys()); why != "" {
				JSON(w, http.StatusUnauthorized, map[string]string{"error": "invalid_client", "error_description": why})
				return true
			}
			if len(encKeys(clientKeys())) == 0 {
				JSON(w, http.StatusBadRequest, map[string]string{"error": "invalid_client", "error_description": "there is no key to encrypt for"})
				return true
			}
			r.URL.Path = "/token"
			return false
		case ok && rest == "/userinfo":
			r.URL.Path = "/userinfo"
			return false
		default:
			http.NotFound(w, r)
		}
		return true
	}
	o.acr = func(asked url.Values) string { // the higher one of both
		if strings.Contains(asked.Get("acr_values"), ItsmeAdvanced) {
			return ItsmeAdvanced
		}
		return ItsmeBasic
	}
	seal := func(claims map[string]any) string {
		keys := encKeys(clientKeys())
		if len(keys) == 0 {
			return ""
		}
		e, err := jose.NewEncrypter(jose.A128CBC_HS256, jose.Recipient{Algorithm: jose.RSA_OAEP_256, Key: keys[0].Key, KeyID: keys[0].KeyID},
			(&jose.EncrypterOptions{}).WithContentType("JWT"))
		if err != nil {
			t.Error(err)
			return ""
		}
		sealed, err := e.Encrypt([]byte(o.keys.Sign(t, claims)))
		if err != nil {
			t.Error(err)
			return ""
		}
		out, err := sealed.CompactSerialize()
		if err != nil {
			t.Error(err)
		}
		return out
	}
	o.Change(func(s *Script) {
		s.Sub = "6g2k9rgglem2dttw5d51ulkxpv24phwatiu6"
		s.Seal, s.SealUserInfo, s.UserInfoMedia = seal, seal, "application/json"
		s.Token = map[string]any{"refresh_token": nil}
		s.IDToken = map[string]any{"iss": at, "sid": nil, "auth_time": nil, "at_hash": nil}
		s.UserInfo = map[string]any{
			"iss": at, "aud": ClientID, "preferred_username": nil, "groups": nil, "name": "Ann Example", "given_name": "Ann",
			"family_name": "Example", "locale": "NL",
			"email": "ann@example.com", "email_verified": false, "phone_number": "+32 493310088", "phone_number_verified": true,
			"address":     map[string]any{"locality": "TONGEREN", "postal_code": "3700", "street_address": "Jekerstraat 39"},
			ItsmeNational: "85010244229",
		}
	})
	return o
}

// encKeys are the keys of a client to encrypt for.
func encKeys(set jose.JSONWebKeySet) (out []jose.JSONWebKey) {
	for _, k := range set.Keys {
		if k.Use == "enc" {
			out = append(out, k)
		}
	}
	return out
}

func (o *OP) itsmeAuthorize(w http.ResponseWriter, r *http.Request) {
	scopes, acr := strings.Fields(r.Form.Get("scope")), strings.Fields(r.Form.Get("acr_values"))
	back, err := url.Parse(r.Form.Get("redirect_uri"))
	switch {
	case err != nil || r.Form.Get("client_id") != ClientID || r.Form.Get("response_type") != "code":
		http.Error(w, "invalid_request: the client or its redirect URI is unknown", http.StatusBadRequest)
		return
	case !slices.Contains(scopes, "openid") || !slices.Contains(scopes, "service:"+ItsmeService):
		http.Error(w, "invalid_scope: openid and the service are required", http.StatusBadRequest)
		return
	case slices.ContainsFunc(acr, func(a string) bool { return a != ItsmeBasic && a != ItsmeAdvanced }):
		http.Error(w, "invalid_request: acr_values", http.StatusBadRequest)
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	code := rand.Text()
	o.grants[code] = r.Form
	back.RawQuery = url.Values{"code": {code}, "state": {r.Form.Get("state")}}.Encode()
	http.Redirect(w, r, back.String(), http.StatusFound)
}

// itsmeAssertion returns what is wrong with the authentication of a token request. Each assertion is taken once.
func (o *OP) itsmeAssertion(r *http.Request, keys jose.JSONWebKeySet) string {
	if r.Header.Get("Authorization") != "" || r.PostForm.Has("client_secret") ||
		r.PostForm.Get("client_assertion_type") != "urn:ietf:params:oauth:client-assertion-type:jwt-bearer" {
		return "the client must authenticate by private_key_jwt"
	}
	parsed, err := jose.ParseSignedCompact(r.PostForm.Get("client_assertion"), []jose.SignatureAlgorithm{jose.RS256})
	if err != nil {
		return "alg is not RS256"
	}
	found := keys.Key(parsed.Signatures[0].Header.KeyID)
	if len(found) != 1 || found[0].Use != "sig" {
		return "kid is unknown"
	}
	payload, err := parsed.Verify(found[0].Key)
	if err != nil {
		return "the signature is another"
	}
	var c struct {
		Iss, Sub, Aud, Jti string
		Exp                int64
	}
	if err := json.Unmarshal(payload, &c); err != nil || c.Iss != ClientID || c.Sub != ClientID || c.Aud != o.URL+"/v2/token" ||
		c.Jti == "" || c.Exp <= o.Now().Unix() {
		return "iss, sub, aud, jti or exp is wrong"
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.seen[c.Jti] {
		return "the assertion was used"
	}
	o.seen[c.Jti] = true
	return ""
}
