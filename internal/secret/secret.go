// Package secret makes, hides, hashes and seals secrets: tokens, client secrets, passwords, private keys.
package secret

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"hash"
	"hash/crc32"
	"io"
	"math/big"
	"slices"
	"strings"
	"sync"
)

// Redacted is the text that a String shows.
const Redacted = "[redacted]"

// String is a secret: %v, JSON and zap print "[redacted]". Only Reveal returns the text.
type String struct{ s string }

// New wraps a secret.
func New(s string) String { return String{s} }

// Reveal returns the secret itself.
func (s String) Reveal() string { return s.s }

// IsZero reports whether the secret is empty.
func (s String) IsZero() bool { return s.s == "" }

// String returns "[redacted]".
func (s String) String() string { return Redacted }

// GoString returns "[redacted]".
func (s String) GoString() string { return Redacted }

// MarshalText returns "[redacted]", so JSON and logs hide the secret.
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
	AppPassword  Kind = "ghpw_" // that a person has made for a program
	DeviceCode   Kind = "ghdc_" // of a device that waits for a person
	PhoneCode    Kind = "ghqc_" // of a code that a phone scans
	Registration Kind = "ghrg_" // by which a client manages its registration
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
	var room [64]byte
	text := base64.RawURLEncoding.AppendEncode(append(room[:0], kind...), b[:])
	sum := checksum(text)
	return string(append(text, sum[:]...)), nil
}

// HasPrefix reports whether s begins like a token of some kind, whether or not it has the form of one.
func HasPrefix(s string) bool {
	return len(s) >= len(AccessToken) && s[:2] == "gh" && s[len(AccessToken)-1] == '_'
}

// IsToken reports whether s has the form of a token of this kind: prefix, length, alphabet and checksum are right. It
// lets a made-up token be refused without a read from storage, and proves nothing else.
func IsToken(kind Kind, s string) bool {
	if len(s) != len(kind)+bodyLen+sumLen || !strings.HasPrefix(s, string(kind)) {
		return false
	}
	var room [64]byte
	body := append(room[:0], s[:len(kind)+bodyLen]...)
	if sum := checksum(body); string(sum[:]) != s[len(body):] {
		return false
	}
	// The last character of the body carries two unused bits. They must be zero, so each token has one spelling.
	var b [tokenBytes + 1]byte
	_, err := strictURL.Decode(b[:], body[len(kind):])
	return err == nil
}

var strictURL = base64.RawURLEncoding.Strict()

// checksum is CRC-32 in base64url. crc32.ChecksumIEEE would move its argument to the heap.
func checksum(body []byte) (text [sumLen]byte) {
	sum := ^uint32(0)
	for _, b := range body {
		sum = crc32.IEEETable[byte(sum)^b] ^ sum>>8
	}
	sum = ^sum
	base64.RawURLEncoding.Encode(text[:], []byte{byte(sum >> 24), byte(sum >> 16), byte(sum >> 8), byte(sum)})
	return text
}

// Hash returns SHA-256 of a token as a storage key: 32 bytes. Tokens are random, so a fast hash is enough.
func Hash(token string) string {
	var room [128]byte // longer than any token
	h := sha256.Sum256(append(room[:0], token...))
	return string(h[:])
}

// ID returns n random bytes (at least 16) in base64url, for identifiers that are not secret. It never begins with -,
// which a command would take for the beginning of an option.
func ID(random io.Reader, n int) (string, error) {
	b := make([]byte, max(n, 16))
	if _, err := io.ReadFull(random, b); err != nil {
		return "", err
	}
	if b[0]>>2 == dash {
		b[0] ^= 0x80
	}
	return base64.RawURLEncoding.EncodeToString(b), nil
}

// dash is the number that base64url writes as -.
const dash = 62

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

// MAC returns HMAC-SHA256 of the parts under key, each part bound by its length. A key that is used often is a MACKey.
func MAC(key []byte, parts ...string) []byte {
	m := newMAC(key)
	return slices.Clone(m.sum(parts))
}

// MACKey is a key that is prepared for many MACs. It is safe for concurrent use.
type MACKey struct{ idle sync.Pool }

// NewMACKey prepares a key.
func NewMACKey(key []byte) *MACKey {
	key = slices.Clone(key)
	return &MACKey{sync.Pool{New: func() any { return newMAC(key) }}}
}

// MAC is the function MAC under this key.
func (k *MACKey) MAC(parts ...string) (sum [sha256.Size]byte) {
	m := k.idle.Get().(*mac) //nolint:errcheck,forcetypeassert // New makes no other
	copy(sum[:], m.sum(parts))
	k.idle.Put(m)
	return sum
}

// mac computes MACs one after the other.
type mac struct {
	hash hash.Hash
	text []byte // what is hashed
	out  [sha256.Size]byte
}

func newMAC(key []byte) *mac { return &mac{hash: hmac.New(sha256.New, key)} }

// sum returns a MAC that is valid until the next call. It keeps nothing of the parts, which can be secrets.
func (m *mac) sum(parts []string) []byte {
	m.text = m.text[:0]
	for _, p := range parts {
		m.text = append(m.text, byte(len(p)>>24), byte(len(p)>>16), byte(len(p)>>8), byte(len(p)))
		m.text = append(m.text, p...)
	}
	m.hash.Reset()
	m.hash.Write(m.text)
	clear(m.text)
	return m.hash.Sum(m.out[:0])
}

// ErrBusy says that the machine cannot take more slow hashes now. Answer 503 with Retry-After.
var ErrBusy = errors.New("too many password checks at once")
