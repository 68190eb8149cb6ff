package identitytest

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

// AddPasskeyPage is the path of the page that adds a passkey.
const AddPasskeyPage = "/account/security/passkeys/add" //nolint:gosec // a path, no credentials

// RPID is the relying party of passkeys.
const RPID = "auth.example.com"

// The flags of authenticator data (Web Authentication Level 3 6.1).
const (
	UserPresent    = 1
	UserVerified   = 4
	BackupEligible = 8
	BackedUp       = 16
	attested       = 64
)

// Authenticator is an authenticator with one passkey. Tests can tamper with its answers before they are sent.
type Authenticator struct {
	t      testing.TB
	Key    crypto.Signer
	ID     []byte
	Handle []byte
	Count  uint32 // the signature counter of its next answer
	Steps  uint32 // how much the counter grows per answer; 0: no counter, as in many authenticators
	Flags  byte
	RPID   string
	Origin string
	// Each of these changes a part of the answer: client the client data, answer the whole answer, data the
	// authenticator data before it is signed, and sign the signature.
	Client, Answer func(map[string]any)
	Data           func([]byte) []byte
	Sign           func([]byte) []byte
}

// NewAuthenticator returns an authenticator with a new passkey.
func NewAuthenticator(t testing.TB) *Authenticator {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	id := make([]byte, 32)
	rand.Read(id) //nolint:errcheck // never fails
	return &Authenticator{t: t, Key: key, ID: id, Count: 1, Steps: 1, Flags: UserPresent | UserVerified, RPID: RPID, Origin: Issuer}
}

// Bent returns a copy of the authenticator, changed by the function.
func (k *Authenticator) Bent(change func(k *Authenticator)) *Authenticator {
	c := *k
	change(&c)
	return &c
}

// B64 encodes bytes as passkeys do.
func B64(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

// coseKey returns the public key as authenticators encode it (RFC 9053).
func (k *Authenticator) coseKey() []byte {
	m := map[int]any{}
	switch p := k.Key.Public().(type) {
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

func (k *Authenticator) encode(v any) []byte {
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

func (k *Authenticator) authData(flags byte, rest []byte) []byte {
	sum := sha256.Sum256([]byte(k.RPID))
	out := append(sum[:], flags)
	out = binary.BigEndian.AppendUint32(out, k.Count)
	k.Count += k.Steps
	if k.Steps == 0 {
		out = append(out[:33], 0, 0, 0, 0)
	}
	out = append(out, rest...)
	if k.Data != nil {
		out = k.Data(out)
	}
	return out
}

func (k *Authenticator) clientData(kind, challenge string) []byte {
	m := map[string]any{"type": kind, "challenge": challenge, "origin": k.Origin, "crossOrigin": false}
	if k.Client != nil {
		k.Client(m)
	}
	out, err := json.Marshal(m)
	if err != nil {
		k.t.Fatal(err)
	}
	return out
}

// Options are the WebAuthn options in a page.
type Options struct {
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

// PasskeyForm is the form in a page that is answered with a passkey.
type PasskeyForm struct {
	Options
	Action, CSRF string
}

var passkeyFields = regexp.MustCompile(`<form method="post" action="([^"]*)" data-passkey="[a-z]+" data-options="([^"]*)"[^>]* hidden>`)

// ReadPasskeyForm returns the form of a page that asks for a passkey.
func (b *Browser) ReadPasskeyForm(page *Answer) PasskeyForm {
	b.H.T.Helper()
	body := page.Body.String()
	at := passkeyFields.FindStringSubmatchIndex(body)
	if at == nil {
		b.H.T.Fatalf("GET %s: status %d, no form for a passkey:\n%s", page.URL, page.Code, body)
	}
	f := PasskeyForm{Action: html.UnescapeString(body[at[2]:at[3]])}
	if err := json.Unmarshal([]byte(html.UnescapeString(body[at[4]:at[5]])), &f.Options); err != nil {
		b.H.T.Fatal(err)
	}
	f.CSRF = CSRFField.FindStringSubmatch(body[at[1]:])[1]
	return f
}

// AnswerPasskey sends the form with the answer of an authenticator.
func (b *Browser) AnswerPasskey(f PasskeyForm, credential string, more ...string) *Answer {
	v := url.Values{"csrf": {f.CSRF}, "credential": {credential}}
	for i := 0; i+1 < len(more); i += 2 {
		v.Set(more[i], more[i+1])
	}
	return b.Do(http.MethodPost, f.Action, v.Encode())
}

func (k *Authenticator) json(response map[string]any) string {
	k.t.Helper()
	m := map[string]any{
		"id": B64(k.ID), "rawId": B64(k.ID), "type": "public-key", "authenticatorAttachment": "platform",
		"clientExtensionResults": map[string]any{}, "response": response,
	}
	if k.Answer != nil {
		k.Answer(m)
	}
	out, err := json.Marshal(m)
	if err != nil {
		k.t.Fatal(err)
	}
	return string(out)
}

// Create returns the answer to a page that asks for a new passkey.
func (k *Authenticator) Create(o Options) string {
	k.t.Helper()
	handle, err := base64.RawURLEncoding.DecodeString(o.User.ID)
	if err != nil {
		k.t.Fatal(err)
	}
	k.Handle = handle
	rest := binary.BigEndian.AppendUint16(make([]byte, 16), uint16(len(k.ID))) //nolint:gosec // short
	rest = slices.Concat(rest, k.ID, k.coseKey())
	object := k.encode(map[string]any{"fmt": "none", "attStmt": map[string]any{}, "authData": k.authData(k.Flags|attested, rest)})
	return k.json(map[string]any{
		"clientDataJSON": B64(k.clientData("webauthn.create", o.Challenge)), "attestationObject": B64(object),
		"transports": []string{"internal", "hybrid"},
	})
}

// Use returns the answer to a page that asks for an existing passkey.
func (k *Authenticator) Use(o Options) string {
	k.t.Helper()
	client, data := k.clientData("webauthn.get", o.Challenge), k.authData(k.Flags, nil)
	sum := sha256.Sum256(client)
	signed := slices.Concat(data, sum[:])
	var sig []byte
	var err error
	switch key := k.Key.(type) {
	case ed25519.PrivateKey:
		sig, err = key.Sign(rand.Reader, signed, crypto.Hash(0))
	default:
		digest := sha256.Sum256(signed)
		sig, err = key.Sign(rand.Reader, digest[:], crypto.SHA256)
	}
	if err != nil {
		k.t.Fatal(err)
	}
	if k.Sign != nil {
		sig = k.Sign(sig)
	}
	response := map[string]any{"clientDataJSON": B64(client), "authenticatorData": B64(data), "signature": B64(sig)}
	if k.Handle != nil {
		response["userHandle"] = B64(k.Handle)
	}
	return k.json(response)
}

// AddPasskey adds the token in a browser whose session is allowed to add passkeys.
func (b *Browser) AddPasskey(k *Authenticator) {
	b.H.T.Helper()
	f := b.ReadPasskeyForm(b.Get(AddPasskeyPage))
	if next := b.AnswerPasskey(f, k.Create(f.Options)).Next(); !strings.HasPrefix(next, "/account/security/passkeys/name?id=") {
		b.H.T.Fatalf("a new passkey leads to %q", next)
	}
}

// Next returns the destination of an answer: that of a redirect, or of the link of a page with recovery codes.
func (a *Answer) Next() string {
	if m := regexp.MustCompile(`<div class="buttons"><a class="button" href="([^"]+)"`).FindStringSubmatch(a.Body.String()); m != nil {
		return html.UnescapeString(m[1])
	}
	return a.Header().Get("Location")
}

// PasskeysOn switches passkeys on; they are off in other tests.
func PasskeysOn(c *identity.Config) { c.Passkeys.Off = false }

// WithPasskey returns a harness where the demo person has a passkey.
func WithPasskey(t testing.TB) (*Harness, *Authenticator) {
	t.Helper()
	h, k := New(t, PasskeysOn), NewAuthenticator(t)
	b := h.Browser()
	b.SignIn(Demo, DemoPassword)
	b.AddPasskey(k)
	return h, k
}

// TryPasskey opens the sign-in page and answers it with the passkey.
func (b *Browser) TryPasskey(k *Authenticator) *Answer {
	b.H.T.Helper()
	f := b.ReadPasskeyForm(b.Get("/next"))
	return b.AnswerPasskey(f, k.Use(f.Options))
}

// LinkTo returns the first link in a page that begins with the prefix.
func LinkTo(t *testing.T, page *Answer, prefix string) string {
	t.Helper()
	_, rest, ok := strings.Cut(page.Body.String(), `href="`+prefix)
	if !ok {
		t.Fatalf("no link to %s:\n%s", prefix, page.Body)
	}
	rest, _, _ = strings.Cut(rest, `"`)
	return prefix + rest
}

// Signers returns a key for each algorithm that passkeys can use.
func Signers(t testing.TB) map[string]crypto.Signer {
	t.Helper()
	_, ed, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	rs, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	return map[string]crypto.Signer{"ES256": NewAuthenticator(t).Key, "EdDSA": ed, "RS256": rs}
}

// PasskeyRemoval matches the address at which a passkey is removed.
var PasskeyRemoval = regexp.MustCompile(`/account/security/passkeys/remove\?id=[0-9A-Za-z_-]+`)

// Level returns the level of a browser's session.
func (b *Browser) Level() int {
	b.H.T.Helper()
	s, err := b.H.SessionOf(b)
	if err != nil {
		b.H.T.Fatal(err)
	}
	return s.Level
}
