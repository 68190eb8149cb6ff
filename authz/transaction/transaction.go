// Package transaction makes and reads transaction tokens: they tell each service of a trust domain what was asked at
// its edge, and by which person or client. (draft-ietf-oauth-transaction-tokens-09;
// docs/experimental/transaction-tokens.md)
package transaction

import (
	"cmp"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/gatehouse-id/gatehouse/authz/keys"
	"github.com/gatehouse-id/gatehouse/internal/secret"
)

// Header is the header that carries a transaction token. (draft 8.1)
const Header = "Txn-Token"

const (
	lifetime = 60 * time.Second
	// maxChain is the number of workloads that can get a token for one after another.
	maxChain = 5
	// maxContext bounds what a workload can say about a transaction, in bytes.
	maxContext = 4 << 10

	algorithm = "ES256"
)

// Claims are the claims of a transaction token. (draft 6.2)
type Claims struct {
	Issuer   string `json:"iss"`
	Audience string `json:"aud"` // the trust domain
	Subject  string `json:"sub"`
	ID       string `json:"txn"`
	Scope    string `json:"scope"`
	// Details stay the same in the whole transaction.
	Details   json.RawMessage `json:"tctx,omitempty"`
	Requester Requester       `json:"rctx"`
	Workload  string          `json:"req_wl"`        // that has asked for this token
	Before    *Actor          `json:"act,omitempty"` // the workloads that have asked for those that it takes the place of
	IssuedAt  int64           `json:"iat"`
	Expires   int64           `json:"exp"`
}

// Requester is the party that began the transaction.
type Requester struct {
	Address string `json:"req_ip,omitempty"`
	ACR     string `json:"acr,omitempty"`       // the authentication level of the person
	Client  string `json:"client_id,omitempty"` // that the access token was issued to; empty for a browser
}

// Actor is a chain of workloads, the last one first. (RFC 8693 4.1)
type Actor struct {
	Subject string `json:"sub"`
	Before  *Actor `json:"act,omitempty"`
}

// Request is a request at a site, as tctx has it.
type Request struct {
	Method  string          `json:"method"`
	Host    string          `json:"host"`
	Path    string          `json:"path"` // percent-encoded, without the query
	Details json.RawMessage `json:"authorization_details,omitempty"`
}

// ErrChain says that a token was replaced too often.
var ErrChain = errors.New("the transaction token was replaced too often")

// Context returns tctx for what a workload says about a transaction, a JSON object or nothing, and the authorization
// details of its token. What a site says of a request, and the details, is nothing that a workload can say.
func Context(said, details string) (json.RawMessage, error) {
	members := map[string]json.RawMessage{}
	if said != "" {
		if len(said) > maxContext {
			return nil, fmt.Errorf("it has more than %d bytes", maxContext)
		}
		if err := json.Unmarshal([]byte(said), &members); err != nil || members == nil {
			return nil, errors.New("it is not a JSON object")
		}
		for name := range members {
			switch strings.ToLower(name) {
			case "method", "host", "path", "authorization_details":
				return nil, fmt.Errorf("%s is not for workloads to say", name)
			}
		}
	}
	if details != "" {
		members["authorization_details"] = json.RawMessage(details)
	}
	if len(members) == 0 {
		return nil, nil
	}
	return json.Marshal(members)
}

// Signer signs and reads transaction tokens of an issuer. It is safe for concurrent use.
type Signer struct {
	issuer string
	keys   *keys.Keys
	now    func() time.Time
	random io.Reader
}

// New returns the signer of an issuer. now and random nil: the system's.
func New(issuer string, k *keys.Keys, now func() time.Time, random io.Reader) *Signer {
	if now == nil {
		now = time.Now
	}
	if random == nil {
		random = rand.Reader
	}
	return &Signer{issuer: issuer, keys: k, now: now, random: random}
}

// Token is a signed transaction token.
type Token struct {
	Claims

	Text string
}

// Begin returns the token of a new transaction. It ends after a minute, or at ends if that is sooner; zero: a minute.
// Issuer, ID and times are filled in. alg "": ES256.
func (s *Signer) Begin(c Claims, alg string, ends time.Time) (Token, error) {
	id, err := secret.ID(s.random, 16)
	if err != nil {
		return Token{}, err
	}
	c.ID, c.Before = id, nil
	return s.sign(c, alg, ends)
}

// Replace returns a token in place of another one, for a workload that calls the next: with these of its scopes, and
// the same end, so no number of replacements prolongs a transaction. (draft 9.15) Errors: ErrChain.
func (s *Signer) Replace(c Claims, workload, scope, alg string) (Token, error) {
	n := 1
	for a := c.Before; a != nil; a = a.Before {
		n++
	}
	if n >= maxChain {
		return Token{}, ErrChain
	}
	if c.Workload != workload {
		c.Before = &Actor{Subject: c.Workload, Before: c.Before}
	}
	c.Workload, c.Scope = workload, scope
	return s.sign(c, alg, time.Unix(c.Expires, 0))
}

func (s *Signer) sign(c Claims, alg string, ends time.Time) (Token, error) {
	now := s.now()
	until := now.Add(lifetime)
	if !ends.IsZero() && ends.Before(until) {
		until = ends
	}
	c.Issuer, c.IssuedAt, c.Expires = s.issuer, now.Unix(), until.Unix()
	text, err := s.keys.Sign(cmp.Or(alg, algorithm), keys.TypeTransaction, c)
	return Token{c, text}, err
}

// Read returns the claims of a token that the issuer has signed and that has not expired.
func (s *Signer) Read(text string) (c Claims, err error) {
	payload, err := s.keys.Verify(text, keys.TypeTransaction)
	if err != nil {
		return c, err
	}
	if err := json.Unmarshal(payload, &c); err != nil {
		return c, fmt.Errorf("%w: %w", keys.ErrUnverified, err)
	}
	if c.Issuer != s.issuer || c.Subject == "" || c.ID == "" || !time.Unix(c.Expires, 0).After(s.now()) {
		return c, keys.ErrUnverified
	}
	return c, nil
}
