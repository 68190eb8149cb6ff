package clientstore_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"errors"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/gatehouse-id/gatehouse/authz"
	"github.com/gatehouse-id/gatehouse/authz/authztest"
	"github.com/gatehouse-id/gatehouse/authz/certificate"
	"github.com/gatehouse-id/gatehouse/authz/client"
	"github.com/gatehouse-id/gatehouse/internal/jwa"
	"github.com/gatehouse-id/gatehouse/internal/secret"
)

// certHeader carries the certificate of a request of a test, and verifiedHeader says that its chain was verified.
const (
	certHeader     = "X-Test-Certificate"
	verifiedHeader = "X-Test-Verified"
)

// withCertificates stands in for the TLS connection.
func withCertificates(authorities *x509.CertPool) authztest.Option {
	return authztest.WithCertificates(func(r *http.Request) (*certificate.Presented, error) {
		switch text := r.Header.Get(certHeader); text {
		case "":
			return nil, nil //nolint:nilnil // no certificate
		case "garbage":
			return nil, errors.New("the header of the proxy is not a certificate")
		default:
			raw, err := base64.StdEncoding.DecodeString(text)
			if err != nil {
				return nil, err
			}
			leaf, err := x509.ParseCertificate(raw)
			return &certificate.Presented{Leaf: leaf, Verified: r.Header.Get(verifiedHeader) != "", Authorities: authorities}, err
		}
	})
}

// certified is a client's certificate with its key.
type certified struct {
	cert *x509.Certificate
	key  crypto.Signer
}

// issue returns a certificate of an authority. nil: it is its own.
func issue(t testing.TB, by *certified, change func(*x509.Certificate)) *certified {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(authztest.AssertionIDs.Add(1)), NotBefore: authztest.Start.Add(-time.Hour),
		NotAfter:    authztest.Start.Add(24 * time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	if change != nil {
		change(template)
	}
	parent, signing := template, crypto.Signer(key)
	if by != nil {
		parent, signing = by.cert, by.key
	}
	raw, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signing)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(raw)
	if err != nil {
		t.Fatal(err)
	}
	return &certified{cert, key}
}

func authority(t testing.TB) (*certified, *x509.CertPool) {
	t.Helper()
	ca := issue(t, nil, func(c *x509.Certificate) {
		c.IsCA, c.BasicConstraintsValid, c.KeyUsage, c.Subject = true, true, x509.KeyUsageCertSign, pkix.Name{CommonName: "the authority"}
	})
	pool := x509.NewCertPool()
	pool.AddCert(ca.cert)
	return ca, pool
}

// headers are those of a request over a connection with the certificate, whose chain the server has not verified.
func (h *certified) headers() []string {
	return []string{certHeader, base64.StdEncoding.EncodeToString(h.cert.Raw)}
}

func (h *certified) verified() []string { return append(h.headers(), verifiedHeader, "yes") }

func (h *certified) thumbprint() string {
	sum := sha256.Sum256(h.cert.Raw)
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// jwk is the certificate in a client's jwks.
func (h *certified) jwk() jose.JSONWebKey {
	return jose.JSONWebKey{Key: h.key.Public(), Certificates: []*x509.Certificate{h.cert}}
}

func host(names ...string) func(*x509.Certificate) {
	return func(c *x509.Certificate) { c.DNSNames = names }
}

func asks(id string, more ...string) url.Values {
	f := url.Values{"client_id": {id}, "grant_type": {"client_credentials"}}
	for i := 0; i+1 < len(more); i += 2 {
		if f.Set(more[i], more[i+1]); more[i+1] == "" {
			f.Del(more[i])
		}
	}
	return f
}

// A client with a certificate gets in at every endpoint where clients authenticate.
func TestClientWithCertificate(t *testing.T) {
	t.Parallel()
	ca, pool := authority(t)
	h := authztest.New(t, withCertificates(pool), authztest.WithClients(authztest.Robot("robot", nil)),
		authztest.WithConfig(func(c *authz.Config) {
			c.APIClients = append(c.APIClients,
				&client.APIClient{ID: "gateway", APIs: []string{"introspection"}, CertificateSubject: &certificate.Subject{DNS: "gateway.example.com"}})
		}))
	cert := issue(t, ca, host("robot.example.com"))
	for name, headers := range map[string][]string{"verified by Caddy": cert.verified(), "verified by us": cert.headers()} {
		authztest.WantStatus(t, name, h.Post("/oauth/token", asks("robot"), headers...), http.StatusOK)
	}
	pushed := h.Post("/oauth/par", h.Params("robot"), cert.verified()...)
	authztest.WantStatus(t, "par", pushed, http.StatusCreated)
	res := h.Browser(authztest.Demo).Follow("/oauth/authorize?" +
		url.Values{"client_id": {"robot"}, "request_uri": {pushed.Text("request_uri")}}.Encode())
	_, params := res.Redirect()
	form := h.CodeForm("robot", params.Get("code"))
	form.Set("client_id", "robot")
	tokens := h.Post("/oauth/token", form, cert.verified()...)
	authztest.WantStatus(t, "code", tokens, http.StatusOK)
	tokens = h.Post("/oauth/token", asks("robot", "grant_type", "refresh_token", "refresh_token", tokens.Text("refresh_token")),
		cert.verified()...)
	authztest.WantStatus(t, "refresh", tokens, http.StatusOK)
	authztest.WantStatus(t, "device", h.Post("/oauth/device_authorization", url.Values{"client_id": {"robot"}}, cert.verified()...),
		http.StatusOK)
	gateway := issue(t, ca, host("gateway.example.com"))
	about := url.Values{"token": {tokens.Text("access_token")}, "client_id": {"gateway"}}
	if res := h.Post("/oauth/api/v2/token/introspect", about, gateway.verified()...); res.Status != http.StatusOK ||
		!strings.Contains(res.Body, `"active":true`) {
		t.Errorf("introspection = %d %s, want an active token", res.Status, res.Body)
	}
	authztest.WantStatus(t, "introspection with another certificate",
		h.Post("/oauth/api/v2/token/introspect", about, cert.verified()...), http.StatusUnauthorized)
	authztest.WantStatus(t, "revoke",
		h.Post("/oauth/revoke", url.Values{"client_id": {"robot"}, "token": {tokens.Text("access_token")}}, cert.verified()...), http.StatusOK)
	authztest.WantActive(t, h, "after revoke", tokens.Text("access_token"), false)
	methods, err := json.Marshal(h.Get("/.well-known/openid-configuration").JSON()["token_endpoint_auth_methods_supported"])
	if err != nil || !strings.Contains(string(methods), `"tls_client_auth","self_signed_tls_client_auth"`) {
		t.Errorf("methods in the metadata are %s", methods)
	}
	h.Invariants(t)
}

func TestClientCertificateAttacks(t *testing.T) {
	t.Parallel()
	ca, pool := authority(t)
	stranger, _ := authority(t)
	disabled := authztest.Robot("sleeper", func(c *client.Client) { c.Disabled = true })
	h := authztest.New(t, withCertificates(pool),
		authztest.WithClients(authztest.Robot("robot", nil), authztest.Robot("other", func(c *client.Client) { c.ID = "second" }), disabled))
	good := issue(t, ca, host("robot.example.com"))
	t.Run("attack 441: certificates that are not the client's", func(t *testing.T) {
		for name, headers := range map[string][]string{
			"without a certificate":           nil,
			"a proxy's garbage":               {certHeader, "garbage"},
			"of another client":               issue(t, ca, host("other.example.com")).verified(),
			"of another client, not verified": issue(t, ca, host("other.example.com")).headers(),
			"of an unknown authority":         issue(t, stranger, host("robot.example.com")).headers(),
			"self-signed":                     issue(t, nil, host("robot.example.com")).headers(),
			"a wildcard":                      issue(t, ca, host("*.example.com")).verified(),
			"the name as common name":         issue(t, ca, func(c *x509.Certificate) { c.Subject.CommonName = "robot.example.com" }).verified(),
			"expired": issue(t, ca, func(c *x509.Certificate) {
				c.DNSNames, c.NotAfter = []string{"robot.example.com"}, authztest.Start.Add(-time.Second)
			}).verified(),
			"not valid yet": issue(t, ca, func(c *x509.Certificate) {
				c.DNSNames, c.NotBefore = []string{"robot.example.com"}, authztest.Start.Add(time.Minute)
			}).verified(),
			"for servers alone": issue(t, ca, func(c *x509.Certificate) {
				c.DNSNames, c.ExtKeyUsage = []string{"robot.example.com"}, []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
			}).headers(),
			"issued by a client": issue(t, good, host("robot.example.com")).headers(),
		} {
			if res := h.Post("/oauth/token", asks("robot"), headers...); res.Status != http.StatusUnauthorized ||
				res.Text("error") != "invalid_client" {
				t.Errorf("%s: %d %s, want 401 invalid_client", name, res.Status, res.Body)
			}
		}
	})
	for name, try := range map[string]*authztest.Response{
		"a secret beside it": h.Post("/oauth/token", asks("robot", "client_secret", authztest.Secret("robot")), good.verified()...),
		"an empty secret": h.Post("/oauth/token", asks("robot", "client_secret", ""),
			append(good.verified(), authztest.Basic("robot", "x")...)...),
		"for another client":    h.Post("/oauth/token", asks("second"), good.verified()...),
		"for an unknown client": h.Post("/oauth/token", asks("nobody"), good.verified()...),
		"for a disabled client": h.Post("/oauth/token", asks("sleeper"), issue(t, ca, host("sleeper.example.com")).verified()...),
		"for a client's secret": h.Post("/oauth/token", asks("reports"), good.verified()...),
		"introspection by OAuth": h.Post("/oauth/api/v2/token/introspect", url.Values{"token": {"x"}, "client_id": {"robot"}},
			good.verified()...),
		"introspection of ops":  h.Post("/oauth/api/v2/token/introspect", url.Values{"token": {"x"}, "client_id": {"ops"}}, good.verified()...),
		"introspection of none": h.Post("/oauth/api/v2/token/introspect", url.Values{"token": {"x"}}, good.verified()...),
	} {
		if try.Status != http.StatusUnauthorized {
			t.Errorf("%s: %d %s, want 401", name, try.Status, try.Body)
		}
	}
	t.Run("attack 442: a connection that outlives the certificate", func(t *testing.T) {
		h.Clock.Advance(25 * time.Hour)
		authztest.WantStatus(t, "expired on an open connection", h.Post("/oauth/token", asks("robot"), good.verified()...),
			http.StatusUnauthorized)
	})
	without := authztest.New(t, authztest.WithClients(authztest.Robot("robot", nil)))
	authztest.WantStatus(t, "a header where nobody has a certificate",
		without.Post("/oauth/token", asks("robot"), good.verified()...), http.StatusUnauthorized)
	h.Invariants(t)
}

func selfSigned(c *client.Client) {
	c.AuthMethod, c.CertificateSubject = "self_signed_tls_client_auth", nil
}

func TestSelfSignedCertificate(t *testing.T) {
	t.Parallel()
	mine, next := issue(t, nil, nil), issue(t, nil, nil)
	byKey := issue(t, nil, nil)
	set := &jwa.KeySet{Keys: []jose.JSONWebKey{
		mine.jwk(),
		{Key: next.key.Public(), CertificateThumbprintSHA256: thumb(next)},
		{Key: byKey.key.Public()},
	}}
	h := authztest.New(t, withCertificates(nil),
		authztest.WithClients(authztest.Robot("robot", func(c *client.Client) { selfSigned(c); c.JWKS = set })))
	for name, cert := range map[string]*certified{"by x5c": mine, "by x5t#S256": next, "by its key": byKey} {
		authztest.WantStatus(t, name, h.Post("/oauth/token", asks("robot"), cert.headers()...), http.StatusOK)
	}
	again := &certified{key: mine.key} // another certificate with the key of a registered one
	raw, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{SerialNumber: big.NewInt(7), NotAfter: mine.cert.NotAfter},
		mine.cert, mine.key.Public(), mine.key)
	if err == nil {
		again.cert, err = x509.ParseCertificate(raw)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Run("attack 442: certificates that are not in the jwks", func(t *testing.T) {
		for name, headers := range map[string][]string{
			"none": nil, "another": issue(t, nil, nil).headers(),
			"another of the same key": again.headers(), "another, verified": issue(t, nil, nil).verified(),
		} {
			if res := h.Post("/oauth/token", asks("robot"), headers...); res.Status != http.StatusUnauthorized {
				t.Errorf("%s: %d %s, want 401", name, res.Status, res.Body)
			}
		}
	})
	h.Clock.Advance(25 * time.Hour)
	authztest.WantStatus(t, "expired", h.Post("/oauth/token", asks("robot"), mine.headers()...), http.StatusUnauthorized)
	h.Invariants(t)
}

func thumb(h *certified) []byte {
	sum := sha256.Sum256(h.cert.Raw)
	return sum[:]
}

// A client that has published a new certificate gets in by it, and strangers cannot make us ask for its keys at will.
func TestSelfSignedCertificateFromURL(t *testing.T) {
	t.Parallel()
	first, second := issue(t, nil, nil), issue(t, nil, nil)
	var published atomic.Pointer[certified]
	var fetches atomic.Int64
	published.Store(first)
	keys := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fetches.Add(1)
		set := jose.JSONWebKeySet{Keys: []jose.JSONWebKey{published.Load().jwk()}}
		json.NewEncoder(w).Encode(set) //nolint:errcheck,errchkjson // the client went away
	}))
	t.Cleanup(keys.Close)
	h := authztest.New(t, withCertificates(nil),
		authztest.WithClients(authztest.Robot("robot", func(c *client.Client) { selfSigned(c); c.JWKSURI = keys.URL })))
	authztest.WantStatus(t, "first", h.Post("/oauth/token", asks("robot"), first.headers()...), http.StatusOK)
	published.Store(second)
	for range 3 {
		authztest.WantStatus(t, "a moment later", h.Post("/oauth/token", asks("robot"), second.headers()...), http.StatusUnauthorized)
	}
	if n := fetches.Load(); n != 1 {
		t.Errorf("the keys were fetched %d times within a minute, want once", n)
	}
	h.Clock.Advance(time.Minute)
	authztest.WantStatus(t, "after a minute", h.Post("/oauth/token", asks("robot"), second.headers()...), http.StatusOK)
	authztest.WantStatus(t, "the former one", h.Post("/oauth/token", asks("robot"), first.headers()...), http.StatusUnauthorized)
}

func TestClientCertificateValidate(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		change func(*client.Client)
		want   string
	}{
		"no name":      {func(c *client.Client) { c.CertificateSubject = nil }, "needs the name in the certificate"},
		"two names":    {func(c *client.Client) { c.CertificateSubject.IP = "192.0.2.1" }, "exactly one of"},
		"a bad name":   {func(c *client.Client) { c.CertificateSubject = &certificate.Subject{DN: "robot"} }, "subject_dn"},
		"a secret too": {func(c *client.Client) { c.Secrets = []secret.String{secret.New(authztest.Secret("x"))} }, "has a certificate instead"},
		"keys too":     {func(c *client.Client) { c.JWKSURI = "https://robot.example.com/jwks" }, "jwks: it is for"},
		"other method": {
			func(c *client.Client) { c.AuthMethod = "private_key_jwt"; c.JWKSURI = "https://robot.example.com/jwks" },
			"certificate_subject: it is for",
		},
		"public":        {func(c *client.Client) { c.Public = true }, "remove public or auth_method"},
		"no keys":       {selfSigned, "self_signed_tls_client_auth needs a file or a URL"},
		"without fault": {nil, ""},
	} {
		err := authztest.Robot("robot", tt.change).Validate()
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%s: Validate = %v, want %q", name, err, tt.want)
		}
	}
	api := &client.APIClient{ID: "gateway", APIs: []string{"events"}, CertificateSubject: &certificate.Subject{}}
	if err := api.Validate(); err == nil || !strings.Contains(err.Error(), "exactly one of") ||
		!strings.Contains(err.Error(), "it is for introspection") {
		t.Errorf("Validate = %v", err)
	}
}

// A public client whose tokens are bound to a certificate of its own refreshes them with that certificate alone.
func TestPublicClientWithCertificate(t *testing.T) {
	t.Parallel()
	app := &client.Client{
		ID: "app", Public: true, MTLSRequired: true, Grants: []string{"authorization_code", "refresh_token"}, Consent: "off",
		RedirectURIs: []string{"https://app.example.com/callback"}, Scopes: []string{"openid"}, DefaultScopes: []string{"openid"},
	}
	h := authztest.New(t, withCertificates(nil), authztest.WithClients(app))
	mine, other := issue(t, nil, nil), issue(t, nil, nil)
	redeem := func(headers ...string) *authztest.Response {
		form := h.CodeForm("app", h.Browser(authztest.Demo).Code("app"))
		form.Set("client_id", "app")
		return h.Post("/oauth/token", form, headers...)
	}
	authztest.WantStatus(t, "without a certificate", redeem(), http.StatusBadRequest)
	tokens := redeem(mine.headers()...)
	authztest.WantStatus(t, "with one", tokens, http.StatusOK)
	if said := h.Introspect(tokens.Text("access_token")); !strings.Contains(said.Body, `"cnf":{"x5t#S256":"`+mine.thumbprint()+`"}`) {
		t.Errorf("introspection = %s", said.Body)
	}
	bearer := []string{"Authorization", "Bearer " + tokens.Text("access_token")}
	t.Run("attack 446: tokens of a public client with another certificate", func(t *testing.T) {
		again := url.Values{"client_id": {"app"}, "grant_type": {"refresh_token"}, "refresh_token": {tokens.Text("refresh_token")}}
		if res := h.Post("/oauth/token", again, other.headers()...); res.Status != http.StatusBadRequest || res.Text("error") != "invalid_grant" {
			t.Errorf("refresh with another certificate = %d %s, want 400 invalid_grant", res.Status, res.Body)
		}
		authztest.WantStatus(t, "refresh without one", h.Post("/oauth/token", again), http.StatusBadRequest)
		authztest.WantStatus(t, "userinfo", h.Get("/oauth/userinfo", append(bearer, mine.headers()...)...), http.StatusOK)
		authztest.WantStatus(t, "userinfo with another certificate", h.Get("/oauth/userinfo", append(bearer, other.headers()...)...),
			http.StatusUnauthorized)
		authztest.WantStatus(t, "userinfo without one", h.Get("/oauth/userinfo", bearer...), http.StatusUnauthorized)
		authztest.WantStatus(t, "refresh", h.Post("/oauth/token", again, mine.headers()...), http.StatusOK)
	})
	for name, change := range map[string]func(*client.Client){
		"dpop too": func(c *client.Client) { c.DPoPRequired = true },
		"implicit": func(c *client.Client) { c.Grants = append(c.Grants, "implicit") },
	} {
		c := *app
		c.Grants = append([]string{}, app.Grants...)
		if change(&c); c.Validate() == nil {
			t.Errorf("%s: Validate = nil, want an error", name)
		}
	}
	h.Invariants(t)
}
