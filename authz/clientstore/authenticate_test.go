package clientstore_test

import (
	"encoding/base64"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/gatehouse-id/gatehouse/authz/client"
	"github.com/gatehouse-id/gatehouse/authz/clientstore"
	"github.com/gatehouse-id/gatehouse/authz/oauth"
	"github.com/gatehouse-id/gatehouse/internal/denial"
	"github.com/gatehouse-id/gatehouse/internal/secret"
)

const shopSecret = "the secret of the shop in this test, 50% + more"

// shopOf returns a registry with the client shop, which has these secrets.
func shopOf(t testing.TB, deps clientstore.Deps, secrets ...secret.String) (*clientstore.Registry, error) {
	t.Helper()
	return clientstore.New(t.Context(), clientstore.Config{
		Issuer: "https://auth.example.com",
		Clients: []*client.Client{{
			ID: "shop", Secrets: secrets, Grants: []string{"authorization_code"}, RedirectURIs: []string{"https://shop.example.com/callback"},
		}},
	}, deps)
}

// refusal reports whether err is the verdict that credentials are wrong or malformed.
func refusal(err error) bool {
	e := new(oauth.Error)
	return errors.As(err, &e) && (e.Status == http.StatusUnauthorized || e.Status == http.StatusBadRequest)
}

// asBasic returns the client that a header authenticates.
func asBasic(r *clientstore.Registry, header string) (*client.Client, error) {
	req := httptest.NewRequest(http.MethodPost, "/oauth/token", http.NoBody)
	req.Header.Set("Authorization", header)
	return r.Authenticate(req, oauth.Form{})
}

// FuzzBasic: a header authenticates the client that net/http reads in it, as form values or as it stands, and is
// refused otherwise.
func FuzzBasic(f *testing.F) {
	encode := func(text string) string { return "Basic " + base64.StdEncoding.EncodeToString([]byte(text)) }
	for _, seed := range []string{
		"Basic c2hvcDpzZWNyZXQ=", "basic c2hvcDpzZWNyZXQ=", "Basic", "Basic a, Basic b", "Bearer x", "Basic =",
		"Basic  YTpi", "Basic YSUzQWI6Yg==", encode("shop:" + shopSecret), encode("sh%6Fp:" + url.QueryEscape(shopSecret)),
		encode("shop:" + shopSecret + " "), encode("shop:x:" + shopSecret),
	} {
		f.Add(seed)
	}
	r, err := shopOf(f, dependencies(f), secret.New(shopSecret))
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, header string) {
		c, err := asBasic(r, header)
		if err != nil {
			if !refusal(err) {
				t.Fatalf("%q = %v, want a refusal", header, err)
			}
			return
		}
		scheme, rest, _ := strings.Cut(header, " ")
		req := &http.Request{Header: http.Header{"Authorization": {scheme + " " + strings.TrimLeft(rest, " ")}}}
		id, password, _ := req.BasicAuth()
		decodedID, _ := url.QueryUnescape(id)
		decoded, _ := url.QueryUnescape(password)
		if c.ID != "shop" || (id != "shop" || password != shopSecret) && (decodedID != "shop" || decoded != shopSecret) {
			t.Fatalf("%q authenticates %q", header, c.ID)
		}
	})
}

// FuzzBasicSecret: each secret that a client can have comes back, as form values and as it stands.
func FuzzBasicSecret(f *testing.F) {
	for _, seed := range []string{shopSecret, "with:colons:in:the:secret:of:the:shop", "100%41 of a secret of 32 characters", "ünïcödé in the secret of the shop ☺"} {
		f.Add(seed)
	}
	deps := dependencies(f)
	f.Fuzz(func(t *testing.T, text string) {
		r, err := shopOf(t, deps, secret.New(text))
		if err != nil {
			return // it is refused in a configuration
		}
		for _, password := range []string{text, url.QueryEscape(text)} {
			header := "Basic " + base64.StdEncoding.EncodeToString([]byte("shop:"+password))
			if c, err := asBasic(r, header); err != nil || c.ID != "shop" {
				t.Fatalf("%q with the secret %q = %v", header, text, err)
			}
		}
	})
}

// FuzzAssertion: text that no client has signed is refused, and the client that the refusal names is a valid id, the
// same as client_id.
func FuzzAssertion(f *testing.F) {
	for _, seed := range []string{
		"", "a.b.c", "eyJhbGciOiJub25lIn0.eyJzdWIiOiJ4In0.", "eyJhbGciOiJFUzI1NiJ9.eyJzdWIiOiJzaG9wIn0.AA",
		"eyJhbGciOiJFUzI1NiIsImNyaXQiOlsieCJdfQ.eyJzdWIiOltdfQ.AA",
	} {
		f.Add(seed, "shop")
	}
	deps := dependencies(f)
	r, err := shopOf(f, deps, secret.New(shopSecret))
	if err != nil {
		f.Fatal(err)
	}
	refusals := denial.NewRecorder(deps.Store, nil, nil, nil, deps.Log)
	f.Fuzz(func(t *testing.T, raw, id string) {
		form, err := oauth.ParseQuery(url.Values{
			"client_assertion_type": {"urn:ietf:params:oauth:client-assertion-type:jwt-bearer"}, "client_assertion": {raw}, "client_id": {id},
		}.Encode())
		if err != nil {
			return
		}
		req := httptest.NewRequest(http.MethodPost, "/oauth/token", http.NoBody)
		req = refusals.Begin(httptest.NewRecorder(), req, "", denial.Refusal{})
		c, err := r.Authenticate(req, form)
		if !refusal(err) {
			t.Fatalf("%q = %v, %v, want a refusal", raw, c, err)
		}
		named := ""
		denial.Learn(req.Context(), func(f *denial.Refusal) { named = f.ClientID })
		if named != "" && (client.CheckID(named) != nil || id != "" && named != id) {
			t.Fatalf("%q of %q is refused as an assertion of %q", raw, id, named)
		}
	})
}
