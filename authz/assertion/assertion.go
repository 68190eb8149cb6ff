// Package assertion signs statements about requests for the upstream to verify: that this very request passed the
// gateway, and who made it. (docs/assertion.md; docs/decisions/gateway.md#signed-assertions)
package assertion

import (
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"strings"
	"sync"
	"time"

	"github.com/gatehouse-id/gatehouse/authz/keys"
	"github.com/gatehouse-id/gatehouse/internal/jwa"
)

const (
	lifetime = 60 * time.Second
	// reuse is the time during which a signed statement is handed out again for the same request of the same person.
	// What an upstream gets is valid for at least the rest of the lifetime.
	reuse = 30 * time.Second
	// maxRecent bounds one of the two generations of statements in memory. One takes about 1 KiB.
	maxRecent = 4096
	// maxGroups bounds the bytes of the groups. With more of them no server would take the header.
	maxGroups = 4 << 10
	// maxHeader is the longest header line that nginx takes by default, and maxRest what there is in one besides
	// groups and a signature of ML-DSA.
	maxHeader, maxRest = 8 << 10, 1 << 10
)

// Algorithms are those that statements can be signed with, the default first.
var Algorithms = []string{"ES256", "ML-DSA-44", "ML-DSA-65", "ML-DSA-87"}

// Request is the request that a statement is bound to, as the upstream receives it.
type Request struct {
	Method string
	Host   string // of the Host header
	Path   string // percent-encoded, without the query
}

// Hash is the member req#S256 of cnf: the SHA-256 of method, host in lower case and path, each ended by a line feed,
// which none of them can contain.
func (r Request) Hash() string {
	h := sha256.New()
	for _, part := range [...]string{r.Method, strings.ToLower(r.Host), r.Path} {
		h.Write([]byte(part))
		h.Write([]byte{'\n'})
	}
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil))
}

// Statement is a statement about a request.
type Statement struct {
	Algorithm string   // one of Algorithms; empty: the default
	Audience  string   // the origin of the site
	Subject   string   // the person, or the client for its own token
	Client    string   // that the token was issued to; empty for the session of a browser
	Session   string   // of the sign-in; empty for a client's own token
	ACR       string   // the authentication level; empty for a client's own token
	Groups    []string // of the person
	Request   Request
}

// claims are the claims of an assertion. They have no nonce, auth_time, azp or scope, which ID tokens and access tokens
// need.
type claims struct {
	Issuer   string       `json:"iss"`
	Audience string       `json:"aud"`
	Subject  string       `json:"sub"`
	Client   string       `json:"client_id,omitempty"`
	Session  string       `json:"sid,omitempty"`
	ACR      string       `json:"acr,omitempty"`
	Groups   []string     `json:"groups,omitzero"` // absent when there are too many for a header
	Confirm  confirmation `json:"cnf"`             // RFC 7800
	IssuedAt int64        `json:"iat,omitempty"`
	Expires  int64        `json:"exp,omitempty"`
}

type confirmation struct {
	Request string `json:"req#S256"`
}

// Signer signs assertions of an issuer. It is safe for concurrent use.
type Signer struct {
	issuer string
	keys   *keys.Keys
	now    func() time.Time

	mu      sync.Mutex // guards all below
	recent  map[[sha256.Size]byte]signed
	older   map[[sha256.Size]byte]signed
	turned  time.Time // when older was recent
	version uint64    // of the keys that signed them
}

type signed struct {
	text string
	at   time.Time
}

// New returns the signer of an issuer. now nil: the system's clock.
func New(issuer string, k *keys.Keys, now func() time.Time) *Signer {
	if now == nil {
		now = time.Now
	}
	return &Signer{issuer: issuer, keys: k, now: now}
}

// Sign returns a statement as a JWT. A statement that was signed in the last 30 seconds is returned again: it is found
// by everything that it says, so it is never out of date.
func (s *Signer) Sign(about Statement) (string, error) {
	c := claims{
		Issuer: s.issuer, Audience: about.Audience, Subject: about.Subject, Client: about.Client, Session: about.Session, ACR: about.ACR,
		Groups: fitting(about.Groups, about.Algorithm), Confirm: confirmation{about.Request.Hash()},
	}
	what, err := json.Marshal(c)
	if err != nil {
		return "", err
	}
	alg := cmp.Or(about.Algorithm, Algorithms[0])
	key, now, version := sha256.Sum256(append([]byte(alg), what...)), s.now(), s.keys.Version()
	if text, ok := s.find(key, now, version); ok {
		return text, nil
	}
	c.IssuedAt, c.Expires = now.Unix(), now.Add(lifetime).Unix()
	text, err := s.keys.Sign(alg, keys.TypeAssertion, c)
	if err != nil {
		return "", err
	}
	s.keep(key, signed{text, now}, version)
	return text, nil
}

// fitting returns the groups, never nil, or nil if there are too many for a header.
func fitting(groups []string, alg string) []string {
	size, most := 0, maxGroups
	if signature := jwa.SignatureSize(alg); signature > 0 {
		most = base64.RawURLEncoding.DecodedLen(maxHeader - maxRest - signature)
	}
	for _, g := range groups {
		size += len(g) + len(`"",`)
	}
	switch {
	case size > most:
		return nil
	case groups == nil:
		return []string{}
	}
	return groups
}

func (s *Signer) find(key [sha256.Size]byte, now time.Time, version uint64) (string, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if version != s.version {
		return "", false
	}
	have, ok := s.recent[key]
	if !ok {
		have, ok = s.older[key]
	}
	if age := now.Sub(have.at); !ok || age < 0 || age >= reuse {
		return "", false
	}
	return have.text, true
}

// keep stores a statement. Those that are too old go with the generation that they are in.
func (s *Signer) keep(key [sha256.Size]byte, made signed, version uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if version != s.version {
		s.recent, s.older, s.version = nil, nil, version
	}
	if age := made.at.Sub(s.turned); s.recent == nil || len(s.recent) >= maxRecent || age >= reuse || age < 0 {
		s.older, s.recent, s.turned = s.recent, map[[sha256.Size]byte]signed{}, made.at
	}
	s.recent[key] = made
}
