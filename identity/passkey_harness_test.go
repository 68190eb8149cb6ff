package identity_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"html"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/fxamacker/cbor/v2"

	"github.com/gatehouse-id/gatehouse/identity"
)

const (
	addPasskeyPage = "/account/security/passkeys/add"
	rpID           = "auth.example.com"
)

// The flags of authenticator data (Web Authentication Level 3 6.1).
const (
	userPresent, userVerified, backupEligible, backedUp, attested = 1, 4, 8, 16, 64
)

// token is an authenticator with one passkey. Tests can tamper with its answers before they are sent.
type token struct {
	t      testing.TB
	key    crypto.Signer
	id     []byte
	handle []byte
	count  uint32 // the signature counter of its next answer
	steps  uint32 // how much the counter grows per answer; 0: no counter, as in many authenticators
	flags  byte
	rpID   string
	origin string
	// Each of these changes a part of the answer: client the client data, answer the whole answer, data the
	// authenticator data before it is signed, and sign the signature.
	client, answer func(map[string]any)
	data           func([]byte) []byte
	sign           func([]byte) []byte
}

func newToken(t testing.TB) *token {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	id := make([]byte, 32)
	rand.Read(id) //nolint:errcheck // never fails
	return &token{t: t, key: key, id: id, count: 1, steps: 1, flags: userPresent | userVerified, rpID: rpID, origin: issuer}
}

// bent returns a copy of the authenticator, changed by the function.
func (k *token) bent(change func(k *token)) *token {
	c := *k
	change(&c)
	return &c
}

func b64(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

// coseKey returns the public key as authenticators encode it (RFC 9053).
func (k *token) coseKey() []byte {
	m := map[int]any{}
	switch p := k.key.Public().(type) {
	case *ecdsa.PublicKey:
		raw, err := p.Bytes()
		if err != nil {
			k.t.Fatal(err)
		}
		m = map[int]any{1: 2, 3: -7, -1: 1, -2: raw[1:33], -3: raw[33:]}
	case ed25519.PublicKey:
		m = map[int]any{1: 1, 3: -8, -1: 6, -2: []byte(p)}
	case *rsa.PublicKey:
		m = map[int]any{1: 3, 3: -257, -1: p.N.Bytes(), -2: []byte{1, 0, 1}}
	}
	return k.encode(m)
}

func (k *token) encode(v any) []byte {
	k.t.Helper()
	mode, err := cbor.CTAP2EncOptions().EncMode()
	if err != nil {
		k.t.Fatal(err)
	}
	out, err := mode.Marshal(v)
	if err != nil {
		k.t.Fatal(err)
	}
	return out
}

func (k *token) authData(flags byte, rest []byte) []byte {
	sum := sha256.Sum256([]byte(k.rpID))
	out := append(sum[:], flags)
	out = binary.BigEndian.AppendUint32(out, k.count)
	k.count += k.steps
	if k.steps == 0 {
		out = append(out[:33], 0, 0, 0, 0)
	}
	out = append(out, rest...)
	if k.data != nil {
		out = k.data(out)
	}
	return out
}

func (k *token) clientData(kind, challenge string) []byte {
	m := map[string]any{"type": kind, "challenge": challenge, "origin": k.origin, "crossOrigin": false}
	if k.client != nil {
		k.client(m)
	}
	out, err := json.Marshal(m)
	if err != nil {
		k.t.Fatal(err)
	}
	return out
}

// options are the WebAuthn options in a page.
type options struct {
	Challenge, RPID  string
	RP               struct{ ID string }
	User             struct{ ID, Name, DisplayName string }
	UserVerification string
	AllowCredentials []struct{ ID string }
	Exclude          []struct{ ID string } `json:"excludeCredentials"`
	Selection        struct {
		ResidentKey, UserVerification string
	} `json:"authenticatorSelection"`
	Attestation string
}

// passkeyForm is the form in a page that is answered with a passkey.
type passkeyForm struct {
	options
	action, csrf string
}

var passkeyFields = regexp.MustCompile(`<form method="post" action="([^"]*)" data-passkey="[a-z]+" data-options="([^"]*)"[^>]* hidden>`)

func (b *browser) passkeyForm(page *answer) passkeyForm {
	b.h.t.Helper()
	body := page.Body.String()
	at := passkeyFields.FindStringSubmatchIndex(body)
	if at == nil {
		b.h.t.Fatalf("GET %s: status %d, no form for a passkey:\n%s", page.url, page.Code, body)
	}
	f := passkeyForm{action: html.UnescapeString(body[at[2]:at[3]])}
	if err := json.Unmarshal([]byte(html.UnescapeString(body[at[4]:at[5]])), &f.options); err != nil {
		b.h.t.Fatal(err)
	}
	f.csrf = field.FindStringSubmatch(body[at[1]:])[1]
	return f
}

func (b *browser) answer(f passkeyForm, credential string, more ...string) *answer {
	v := url.Values{"csrf": {f.csrf}, "credential": {credential}}
	for i := 0; i+1 < len(more); i += 2 {
		v.Set(more[i], more[i+1])
	}
	return b.do(http.MethodPost, f.action, v.Encode())
}

func (k *token) json(response map[string]any) string {
	k.t.Helper()
	m := map[string]any{"id": b64(k.id), "rawId": b64(k.id), "type": "public-key", "authenticatorAttachment": "platform", "clientExtensionResults": map[string]any{}, "response": response}
	if k.answer != nil {
		k.answer(m)
	}
	out, err := json.Marshal(m)
	if err != nil {
		k.t.Fatal(err)
	}
	return string(out)
}

// create returns the answer to a page that asks for a new passkey.
func (k *token) create(o options) string {
	k.t.Helper()
	handle, err := base64.RawURLEncoding.DecodeString(o.User.ID)
	if err != nil {
		k.t.Fatal(err)
	}
	k.handle = handle
	rest := binary.BigEndian.AppendUint16(make([]byte, 16), uint16(len(k.id))) //nolint:gosec // short
	rest = slices.Concat(rest, k.id, k.coseKey())
	object := k.encode(map[string]any{"fmt": "none", "attStmt": map[string]any{}, "authData": k.authData(k.flags|attested, rest)})
	return k.json(map[string]any{"clientDataJSON": b64(k.clientData("webauthn.create", o.Challenge)), "attestationObject": b64(object), "transports": []string{"internal", "hybrid"}})
}

// use returns the answer to a page that asks for an existing passkey.
func (k *token) use(o options) string {
	k.t.Helper()
	client, data := k.clientData("webauthn.get", o.Challenge), k.authData(k.flags, nil)
	sum := sha256.Sum256(client)
	signed := slices.Concat(data, sum[:])
	var sig []byte
	var err error
	switch key := k.key.(type) {
	case ed25519.PrivateKey:
		sig, err = key.Sign(rand.Reader, signed, crypto.Hash(0))
	default:
		digest := sha256.Sum256(signed)
		sig, err = key.Sign(rand.Reader, digest[:], crypto.SHA256)
	}
	if err != nil {
		k.t.Fatal(err)
	}
	if k.sign != nil {
		sig = k.sign(sig)
	}
	response := map[string]any{"clientDataJSON": b64(client), "authenticatorData": b64(data), "signature": b64(sig)}
	if k.handle != nil {
		response["userHandle"] = b64(k.handle)
	}
	return k.json(response)
}

// addPasskey adds the token in a browser whose session is allowed to add passkeys.
func (b *browser) addPasskey(k *token) {
	b.h.t.Helper()
	f := b.passkeyForm(b.get(addPasskeyPage))
	if next := b.answer(f, k.create(f.options)).next(); !strings.HasPrefix(next, "/account/security/passkeys/name?id=") {
		b.h.t.Fatalf("a new passkey leads to %q", next)
	}
}

// next is where an answer leads: by a redirect, or by the link of a page with recovery codes.
func (a *answer) next() string {
	if m := regexp.MustCompile(`<div class="buttons"><a class="button" href="([^"]+)"`).FindStringSubmatch(a.Body.String()); m != nil {
		return html.UnescapeString(m[1])
	}
	return a.Header().Get("Location")
}

// passkeysOn switches passkeys on; they are off in other tests.
func passkeysOn(c *identity.Config) { c.NoPasskeys = false }

// withPasskey returns a harness where the demo person has a passkey.
func withPasskey(t testing.TB) (*harness, *token) {
	t.Helper()
	h, k := newHarness(t, passkeysOn), newToken(t)
	b := h.browser()
	b.signIn(demo, demoPassword)
	b.addPasskey(k)
	return h, k
}

// tryPasskey opens the sign-in page and answers it with the passkey.
func (b *browser) tryPasskey(k *token) *answer {
	b.h.t.Helper()
	f := b.passkeyForm(b.get("/next"))
	return b.answer(f, k.use(f.options))
}
