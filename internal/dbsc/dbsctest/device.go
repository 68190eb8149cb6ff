// Package dbsctest plays the part of a browser that binds its sessions to its device.
package dbsctest

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/go-jose/go-jose/v4"

	"github.com/gatehouse-id/gatehouse/internal/dbsc"
)

// Device is a device with its key.
type Device struct {
	T   testing.TB
	Key crypto.Signer
	ID  string // of the session, as the server calls it
}

// New returns a device with an EC key.
func New(t testing.TB) *Device {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return &Device{T: t, Key: key}
}

// Proof returns a signed challenge, with the public key if it registers.
func (d *Device) Proof(challenge string, registers bool) string {
	return d.ProofAs("dbsc+jwt", challenge, registers)
}

// ProofAs is Proof with another typ.
func (d *Device) ProofAs(typ, challenge string, registers bool) string {
	d.T.Helper()
	alg := jose.ES256
	if _, ok := d.Key.(*rsa.PrivateKey); ok {
		alg = jose.RS256
	}
	o := (&jose.SignerOptions{EmbedJWK: registers}).WithType(jose.ContentType(typ))
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: alg, Key: d.Key}, o)
	if err != nil {
		d.T.Fatal(err)
	}
	payload, err := json.Marshal(map[string]string{"jti": challenge})
	if err != nil {
		d.T.Fatal(err)
	}
	signed, err := signer.Sign(payload)
	if err != nil {
		d.T.Fatal(err)
	}
	text, err := signed.CompactSerialize()
	if err != nil {
		d.T.Fatal(err)
	}
	return text
}

// Request returns a request of a browser to a path of the exchange, with headers in pairs.
func Request(origin, path string, headers ...string) *http.Request {
	r := httptest.NewRequest(http.MethodPost, origin+path, http.NoBody)
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	r.Header.Set("Sec-Fetch-Mode", "no-cors")
	r.Header.Set("Sec-Fetch-Dest", "empty")
	r.Header.Set("Origin", origin)
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	return r
}

// Registration returns the headers of a request that registers the device, after an answer with these headers.
func (d *Device) Registration(answer http.Header) []string {
	return []string{"Secure-Session-Response", d.Proof(Offered(answer), true)}
}

// Asks returns the headers of a request for another second cookie, before the proof.
func (d *Device) Asks() []string { return []string{"Sec-Secure-Session-Id", d.ID} }

// Refresh returns the headers of a request with the proof that an answer asks for.
func (d *Device) Refresh(answer http.Header) []string {
	return append(d.Asks(), "Secure-Session-Response", d.Proof(Challenge(answer), false))
}

// Offered returns the challenge of an answer that offers to register, or "".
func Offered(answer http.Header) string {
	return param(answer.Get("Secure-Session-Registration"), `challenge="`)
}

// Challenge returns the challenge of an answer that asks for a proof, or "".
func Challenge(answer http.Header) string { return param(answer.Get("Secure-Session-Challenge"), `"`) }

// param returns the text between a word and the next quote.
func param(header, word string) string {
	_, rest, _ := strings.Cut(header, word)
	value, _, _ := strings.Cut(rest, `"`)
	return value
}

// Instructions are the instructions of the server.
type Instructions struct {
	ID          string `json:"session_identifier"`
	Continue    *bool  `json:"continue"`
	RefreshURL  string `json:"refresh_url"`
	Scope       struct{ Origin string }
	Credentials []struct{ Name, Attributes string }
}

// Learn reads the instructions of an answer, and remembers what the session is called.
func (d *Device) Learn(body string) Instructions {
	d.T.Helper()
	var in Instructions
	if err := json.Unmarshal([]byte(body), &in); err != nil {
		d.T.Fatalf("instructions %q: %v", body, err)
	}
	if in.Continue == nil {
		d.ID = in.ID
		if in.RefreshURL != dbsc.RefreshPath {
			d.T.Errorf("refresh_url = %q, want %q", in.RefreshURL, dbsc.RefreshPath)
		}
	}
	return in
}
