// Package secret makes, hides, hashes and seals secrets: tokens, client secrets, passwords, private keys.
package secret

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"hash/crc32"
	"io"
	"math/big"
	"strings"
)

// Redacted is the text that a String shows.
const Redacted = "[redacted]"

// String is a secret: %v, JSON and zap print "[redacted]". Only Reveal returns the text.
type String struct{ s string }

// New wraps a secret.
func New(s string) String { return String{s} }

// Reveal returns the secret itself.
func (s String) Reveal() string { return s.s }

// IsZero tells whether the secret is empty.
func (s String) IsZero() bool { return s.s == "" }

// String returns "[redacted]".
func (s String) String() string { return Redacted }

// GoString returns "[redacted]".
func (s String) GoString() string { return Redacted }

// MarshalText returns "[redacted]", so that JSON and logs hide the secret.
func (s String) MarshalText() ([]byte, error) { return []byte(Redacted), nil }

// UnmarshalText reads the secret from configuration.
func (s *String) UnmarshalText(b []byte) error { s.s = string(b); return nil }

// Equal compares in constant time.
func (s String) Equal(other string) bool {
	a, b := sha256.Sum256([]byte(s.s)), sha256.Sum256([]byte(other))
	return subtle.ConstantTimeCompare(a[:], b[:]) == 1
}

// Kind is the prefix of a token. It tells secret scanners and readers of logs what was leaked.
type Kind string

// The kinds of tokens.
const (
	AccessToken  Kind = "ghat_"
	RefreshToken Kind = "ghrt_"
	Code         Kind = "ghac_"
	Session      Kind = "ghss_" // sessions at the issuer
	SiteSession  Kind = "ghsi_" // sessions at a site that protect guards
	SiteCode     Kind = "ghsc_"
	ActionToken  Kind = "ghap_"
	SignInTicket Kind = "ghlt_" // of a sign-in by action token
	MailLink     Kind = "ghml_" // of a link that a person receives by mail
)

const (
	tokenBytes = 32
	bodyLen    = 43 // base64url of 32 bytes
	sumLen     = 6  // base64url of 4 bytes
)

// NewToken returns kind, 256 random bits in base64url and a checksum. A failing source of randomness is an error.
func NewToken(random io.Reader, kind Kind) (string, error) {
	var b [tokenBytes]byte
	if _, err := io.ReadFull(random, b[:]); err != nil {
		return "", err
	}
	body := string(kind) + base64.RawURLEncoding.EncodeToString(b[:])
	return body + checksum(body), nil
}

// IsToken tells whether s has the form of a token of this kind: prefix, length, alphabet and checksum are right. It
// lets a made-up token be refused without a read from storage, and proves nothing else.
func IsToken(kind Kind, s string) bool {
	if len(s) != len(kind)+bodyLen+sumLen || !strings.HasPrefix(s, string(kind)) {
		return false
	}
	body := s[:len(kind)+bodyLen]
	if checksum(body) != s[len(body):] {
		return false
	}
	// The last character of the body carries two unused bits. They must be zero, so that each token has one spelling.
	_, err := base64.RawURLEncoding.Strict().DecodeString(body[len(kind):])
	return err == nil
}

func checksum(body string) string {
	sum := crc32.ChecksumIEEE([]byte(body))
	return base64.RawURLEncoding.EncodeToString([]byte{byte(sum >> 24), byte(sum >> 16), byte(sum >> 8), byte(sum)})
}

// Hash returns SHA-256 of a token as a storage key: 32 bytes. Tokens are random, so a fast hash is enough.
func Hash(token string) string {
	h := sha256.Sum256([]byte(token))
	return string(h[:])
}

// ID returns n random bytes (at least 16) in base64url, for identifiers that are not secret.
func ID(random io.Reader, n int) (string, error) {
	b := make([]byte, max(n, 16))
	if _, err := io.ReadFull(random, b); err != nil {
		return "", err
	}
	return base64.RawURLEncoding.EncodeToString(b), nil
}

// Text returns n characters of an alphabet of ASCII, each of them equally likely, for codes that people type.
func Text(random io.Reader, alphabet string, n int) (string, error) {
	most := big.NewInt(int64(len(alphabet)))
	out := make([]byte, n)
	for i := range out {
		at, err := rand.Int(random, most)
		if err != nil {
			return "", err
		}
		out[i] = alphabet[at.Int64()]
	}
	return string(out), nil
}

// MAC returns HMAC-SHA256 of the parts under key, each part bound by its length.
func MAC(key []byte, parts ...string) []byte {
	m := hmac.New(sha256.New, key)
	var n [4]byte
	for _, p := range parts {
		n = [4]byte{byte(len(p) >> 24), byte(len(p) >> 16), byte(len(p) >> 8), byte(len(p))}
		m.Write(n[:])
		io.WriteString(m, p) //nolint:errcheck // a hash never fails
	}
	return m.Sum(nil)
}

// ErrBusy says that the machine cannot take more slow hashes now. Answer 503 with Retry-After.
var ErrBusy = errors.New("secret: too many password checks at once")
