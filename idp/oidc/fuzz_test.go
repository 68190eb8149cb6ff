package oidc

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/idp"
	"github.com/gatehouse-id/gatehouse/idp/oidc/oidctest"
	"github.com/gatehouse-id/gatehouse/idp/providerhttp"
)

const fuzzIssuer = "https://op.example"

// offline is a provider whose answers come from a table.
func offline(t testing.TB, now time.Time) *Provider {
	t.Helper()
	keys, err := json.Marshal(oidctest.NewKeys(t, "op").Public())
	if err != nil {
		t.Fatal(err)
	}
	answers := map[string]string{
		"/.well-known/openid-configuration": `{"issuer":"` + fuzzIssuer + `","authorization_endpoint":"` + fuzzIssuer + `/a","token_endpoint":"` +
			fuzzIssuer + `/t","jwks_uri":"` + fuzzIssuer + `/j"}`,
		"/j": string(keys),
	}
	ours := oidctest.NewKeys(t, "ours").RSA
	client := &http.Client{Transport: table(func(r *http.Request) (*http.Response, error) {
		return &http.Response{
			StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}},
			Body: io.NopCloser(strings.NewReader(answers[r.URL.Path])), Request: r,
		}, nil
	})}
	p, err := New(Config{Issuer: fuzzIssuer, ClientID: "gatehouse", Decrypt: []string{""}}, idp.Env{
		ID: "corp", Issuer: "https://auth.example.com", Now: func() time.Time { return now }, Random: rand.Reader, Log: zap.NewNop(),
		Client: client, Checked: client,
		Once: func(context.Context, string, time.Time) error { return nil },
		KeyPair: func(context.Context, string) (*idp.Key, error) {
			return &idp.Key{Signer: ours}, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() }) // always nil
	return p
}

type table func(*http.Request) (*http.Response, error)

func (f table) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// FuzzIDToken signs any payload with the provider's key: an accepted token must mean the same to a plain JSON reader.
func FuzzIDToken(f *testing.F) {
	now := time.Unix(1_700_000_000, 0)
	for _, seed := range []string{
		`{"iss":"https://op.example","sub":"a","aud":"gatehouse","iat":1700000000,"exp":1700000300,"nonce":"n"}`,
		`{"iss":"https://op.example","sub":"a","aud":["gatehouse"],"azp":"gatehouse","iat":1.7e9,"exp":1700000300.5,"auth_time":1700000000}`,
		`{"iss":"https://op.example","sub":"a","sub":"b","aud":"gatehouse","iat":1700000000,"exp":1700000300}`,
		`{"ISS":"https://op.example","Sub":"a","aud":"gatehouse","iat":1700000000,"exp":1700000300}`,
		`{"_claim_names":{"a":"b"},"_claim_sources":{"b":{}}}`, `[]`, `null`, `{"aud":{}}`, "\xff{",
		`{"iss":"https://op.example","sub":"\ud800"}`,
	} {
		f.Add([]byte(seed))
	}
	keys := oidctest.NewKeys(f, "op")
	p := offline(f, now)
	m, err := p.currentMetadata(f.Context())
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, payload []byte) {
		raw := oidctest.Sign(t, jose.ES256, keys.EC, map[jose.HeaderKey]any{"kid": keys.ID + ".ec"}, payload)
		id, err := p.verifyIDToken(t.Context(), m, raw, "access")
		if err != nil {
			if id != nil || !isInvalid(err) {
				t.Fatalf("verifyIDToken(%q) = %v, %v, want invalid and nothing", payload, id, err)
			}
			return
		}
		var plain struct {
			Iss, Sub string
			Exp      float64
		}
		if err := json.Unmarshal(payload, &plain); err != nil || plain.Iss != fuzzIssuer || plain.Exp <= float64(now.Unix()) || id.subject == "" {
			t.Fatalf("verifyIDToken(%q) is taken: %+v, %v", payload, plain, err)
		}
		if _, err := p.identity(id, object{"sub": id.subject}, heldData{}); err != nil {
			t.Fatalf("identity of %q: %v", payload, err)
		}
	})
}

// FuzzToken puts any text in the place of a token: it is refused and nothing panics.
func FuzzToken(f *testing.F) {
	p := offline(f, time.Unix(1_700_000_000, 0))
	m, err := p.currentMetadata(f.Context())
	if err != nil {
		f.Fatal(err)
	}
	ours := oidctest.NewKeys(f, "ours")
	f.Add("a.b.c")
	f.Add("....")
	f.Add("eyJhbGciOiJSU0EtT0FFUCIsImVuYyI6IkEyNTZHQ00ifQ....")
	f.Add(oidctest.Encrypt(f, jose.Recipient{Algorithm: jose.RSA_OAEP, Key: ours.RSA.Public()}, jose.A256GCM, jose.NONE, "a.b.c"))
	f.Add(oidctest.NewKeys(f, "other").Sign(f, map[string]any{"iss": fuzzIssuer}))
	f.Fuzz(func(t *testing.T, raw string) {
		if id, err := p.verifyIDToken(t.Context(), m, raw, ""); err == nil {
			t.Fatalf("verifyIDToken(%q) = %v", raw, id)
		}
		if l, err := p.verifyLogout(t.Context(), raw); err == nil {
			t.Fatalf("verifyLogout(%q) = %v", raw, l)
		}
	})
}

// FuzzObject compares the reader with encoding/json, and checks that no claims cause a panic.
func FuzzObject(f *testing.F) {
	for _, seed := range []string{
		`{}`, `{"a":1,"a":2}`, `{"a":[{"b":{"c":[null,true,1e400]}}],"keys":[{"kty":"RSA"}]}`, `{"a":1} {}`,
		`{"a.b":1,"a":{"b":2}}`, `{"a`, "{\"\xff\":1}",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		o, err := providerhttp.ReadObject(raw)
		if err != nil {
			return
		}
		if !json.Valid(raw) {
			t.Fatalf("remote.ReadObject(%q) accepts text that is not JSON", raw)
		}
		var plain map[string]json.RawMessage
		if err := json.Unmarshal(raw, &plain); err != nil || len(plain) != len(o) {
			t.Fatalf("remote.ReadObject(%q) has %d members, encoding/json %d, %v", raw, len(o), len(plain), err)
		}
		flat := o.Flatten()
		for name := range o {
			if _, ok := flat[name]; !ok {
				t.Fatalf("Flatten(%q) has lost %q", raw, name)
			}
		}
		_, _ = readKeys(o)                       // either is fine
		_, _ = offlineMetadata.readMetadata(o)   // either is fine
		_, _, _ = readLogout(o, time.Unix(1, 0)) // either is fine
		_ = merge(o, o)
		if out, err := json.Marshal(o); err != nil || bytes.Contains(out, []byte("\x00")) {
			t.Fatalf("remote.ReadObject(%q) cannot be written: %v", raw, err)
		}
	})
}

var offlineMetadata = &Provider{cfg: Config{Issuer: fuzzIssuer}}

func isInvalid(err error) bool {
	_, ok := err.(*idp.Invalid) //nolint:errorlint // it must be the error itself
	return ok
}
