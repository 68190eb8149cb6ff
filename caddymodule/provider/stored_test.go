package provider_test

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"math/big"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/caddymodule/servertest"
	"github.com/gatehouse-id/gatehouse/idp/saml/samltest"
)

// TestKeyPairWithoutPrivateKey: a certificate alone can neither sign nor decrypt, so it is refused where it is set, by
// the Caddyfile and by the configuration API. It must never come to an anonymous request that panics.
func TestKeyPairWithoutPrivateKey(t *testing.T) {
	s := servertest.Configured(t, "")
	s.MustLoad()
	add := func(name, kind, private string, want int) string {
		t.Helper()
		pair := servertest.KeyPair(t, name, time.Hour)
		pair["key_type"] = kind
		if private != "" {
			pair["private_key"] = ""
		}
		return s.MustCall(http.MethodPost, "/v2/config/certificates", map[string]any{"key_pair": pair}, want)
	}
	add("certificate", "CERTIFICATE", "none", http.StatusOK)
	add("bare", "EC", "none", http.StatusOK)
	add("whole", "EC", "", http.StatusOK)
	method := func(key, more string) any {
		return servertest.Decode[any](t,
			`{"login_methods":{"login_methods":[{"id":"corp","type":"OPEN_ID_CONNECT","enabled":true,"open_id_connect_attributes":{"client_id":"gatehouse",`+
				`"issuer":"https://corp.example.com","signing_key_id":"`+key+`"`+more+`}}]}}`)
	}
	const signs = `,"client_authentication_method":"PRIVATE_KEY_JWT"`
	for _, key := range []string{"certificate", "bare"} {
		for _, use := range []string{signs, `,"id_token_encryption_required":true`, `,"user_info_encryption_required":true`} {
			body := s.MustCall(http.MethodPost, "/api/v2/config", method(key, use), http.StatusBadRequest)
			if !strings.Contains(body, "open_id_connect_attributes.signing_key_id") || !strings.Contains(body, "has no private key") {
				t.Errorf("%s%s: %s", key, use, body)
			}
		}
	}
	s.MustCall(http.MethodPost, "/api/v2/config", method("whole", signs), http.StatusNoContent)
	if resp, body := s.Get("/oidc/corp/jwks"); resp.StatusCode != http.StatusOK || !strings.Contains(body, `"crv":"P-256"`) {
		t.Errorf("jwks = %d %s", resp.StatusCode, body)
	}

	// The Caddyfile can name a pair that is there and does not fit: the provider does without, and check says why.
	for _, tc := range []struct{ idp, about, want, path string }{
		{
			"idp partner saml {\n metadata https://idp.example/m\n sign certificate\n}", "idp partner",
			`the key pair "certificate" has no private key`, "/saml/partner/metadata",
		},
		{
			"idp partner saml {\n metadata https://idp.example/m\n decrypt bare\n}", "idp partner", `the key pair "bare" has no private key`,
			"/saml/partner/metadata",
		},
		{
			"idp partner saml {\n metadata https://idp.example/m\n sign whole\n}", "idp partner", `the key pair "whole" is not RSA`,
			"/saml/partner/metadata",
		},
		{
			"idp two oidc {\n issuer https://two.example\n client_id x\n auth_method private_key_jwt\n key bare\n}", "idp two",
			`the key pair "bare" has no private key`, "/oidc/two/jwks",
		},
		{
			"idp two oidc {\n issuer https://two.example\n client_id x\n decrypt certificate\n}", "idp two",
			`the key pair "certificate" has no private key`, "/oidc/two/jwks",
		},
	} {
		before := s.Extra
		s.Extra += tc.idp
		s.MustLoad()
		s.WantFinding("warning", "Caddyfile:", tc.about+": a key pair cannot be used", tc.want)
		s.Transport.CloseIdleConnections() // those of the configuration before
		if resp, body := s.Get(tc.path); resp.StatusCode != http.StatusServiceUnavailable {
			t.Errorf("%s: GET %s = %d %s, want 503", tc.idp, tc.path, resp.StatusCode, body)
		}
		s.Extra = before
	}

	// One that comes later is judged when it comes.
	s.Extra += "idp partner saml {\n metadata https://idp.example/m\n sign later\n}\nidp two oidc {\n issuer https://two.example\n client_id x\n auth_method private_key_jwt\n key later\n}"
	s.MustLoad()
	for _, kind := range []string{"CERTIFICATE", "EC"} {
		if body := add("later", kind, "none", http.StatusBadRequest); !strings.Contains(body, "key_pair.private_key") ||
			!strings.Contains(body, "idp partner") {
			t.Errorf("later, %s: %s", kind, body)
		}
	}
	add("later", "EC", "", http.StatusOK)
	for path, want := range map[string]int{"/saml/partner/metadata": http.StatusServiceUnavailable, "/oidc/two/jwks": http.StatusOK} {
		if resp, body := s.Get(path); resp.StatusCode != want {
			t.Errorf("GET %s = %d %s, want %d", path, resp.StatusCode, body, want)
		}
	}
}

// TestUnusableMetadata: SAML metadata that no one can sign in with is refused when it comes, with the reason.
func TestUnusableMetadata(t *testing.T) {
	s := servertest.Configured(t, "")
	s.MustLoad()
	p := samltest.New("https://idp.example/metadata", time.Now)
	p.SSO = "https://idp.example/sso"
	good := string(p.Metadata())
	with := func(key *samltest.Key) string {
		other := samltest.New("https://idp.example/metadata", time.Now)
		other.Key = key
		return string(other.Metadata())
	}
	now := time.Now()
	weak := func() *samltest.Key {
		key, err := rsa.GenerateKey(rand.Reader, 1024)
		if err != nil {
			t.Fatal(err)
		}
		template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: now.Add(-time.Hour), NotAfter: now.Add(time.Hour)}
		der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
		if err != nil {
			t.Fatal(err)
		}
		cert, err := x509.ParseCertificate(der)
		if err != nil {
			t.Fatal(err)
		}
		return &samltest.Key{Signer: key, Certificate: cert}
	}
	method := func(metadata string) any {
		raw, err := json.Marshal(metadata)
		if err != nil {
			t.Fatal(err)
		}
		return servertest.Decode[any](t,
			`{"login_methods":{"login_methods":[{"id":"partner","name":"Partner","type":"SAML","enabled":true,"saml_attributes":{"idp_metadata":`+
				string(raw)+`}}]}}`)
	}
	first, last := strings.Index(good, "<ds:X509Certificate>"), strings.Index(good, "</ds:X509Certificate>")
	if first < 0 || last < 0 {
		t.Fatalf("metadata without a certificate: %s", good)
	}
	for name, tc := range map[string]struct{ metadata, want string }{
		"expired":              {strings.Replace(good, " entityID=", ` validUntil="2020-01-01T00:00:00Z" entityID=`, 1), "has expired"},
		"no certificate":       {good[:first] + "<ds:X509Certificate>" + good[last:], "certificate"},
		"script as an address": {strings.ReplaceAll(good, "https://idp.example/sso", "javascript:alert(1)"), "not an http address"},
		"RSA of 1024 bits":     {with(weak()), "too weak"},
		"expired certificate": {
			with(samltest.NewKeyUntil("old", now.AddDate(-2, 0, 0), now.AddDate(-1, 0, 0))),
			"has expired or is not valid yet",
		},
		"artifact only": {strings.ReplaceAll(strings.ReplaceAll(good, "bindings:HTTP-Redirect", "bindings:SOAP"), "bindings:HTTP-POST",
			"bindings:SOAP"), "no address for sign-in"},
		"service provider": {strings.ReplaceAll(good, "IDPSSODescriptor", "SPSSODescriptor"), "not that of an identity provider"},
	} {
		body := s.MustCall(http.MethodPost, "/api/v2/config", method(tc.metadata), http.StatusBadRequest)
		if !strings.Contains(body, "login_methods.login_methods[") || !strings.Contains(body, tc.want) {
			t.Errorf("%s: %s, want %q", name, body, tc.want)
		}
	}
	s.MustCall(http.MethodPost, "/api/v2/config", method(good), http.StatusNoContent)
}
