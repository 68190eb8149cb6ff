// Package workload authenticates clients by tokens of external issuers such as GitHub Actions and Kubernetes (RFC
// 7523). It verifies the token and returns the client that it stands for.
package workload

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/go-jose/go-jose/v4"

	"github.com/gatehouse-id/gatehouse/authz/client"
	"github.com/gatehouse-id/gatehouse/authz/oauth"
	"github.com/gatehouse-id/gatehouse/internal/denial"
	"github.com/gatehouse-id/gatehouse/internal/outbound"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

const (
	maxToken = 16 << 10         // bytes
	maxText  = 1024             // bytes of sub and jti
	maxAge   = 10 * time.Minute // of a token, by its iat
	skew     = 30 * time.Second // by which clocks can differ
	margin   = 10 * time.Minute // how much longer than its validity a used one is remembered
)

// The reasons of refusals, for log and events.
var (
	errMalformed = denial.New(denial.AssertionInvalid, "the assertion is not a signed token that can be read")
	errUnknown   = denial.New(denial.AssertionUntrusted, "the issuer of the assertion is not one of trust_issuer")
	// ErrReplayed says that a token was used before.
	ErrReplayed = denial.New(denial.AssertionReplayed, "the assertion was used before")
)

// Statement is a token of a trusted issuer that was verified.
type Statement struct {
	Issuer  string
	Subject string // the workload, as its issuer names it
	Client  string // that it stands for
	Scopes  []string
	Expires time.Time

	seen  string    // key of the record of its use. Empty: it can be used again
	until time.Time // of that record
}

// Issuers are the issuers that one configuration trusts. They are safe for concurrent use.
type Issuers struct {
	own   string // our issuer
	rules []rule
	now   func() time.Time
}

// rule is a Rule with its keys.
type rule struct {
	Rule

	keys *keySet
}

// New returns the issuers of a configuration, or says all that is wrong with it. own is our issuer. allow are networks
// besides public ones to which addresses in the metadata of issuers can lead.
func New(own string, rules []Rule, allow []netip.Prefix, now func() time.Time) (*Issuers, error) {
	t := &Issuers{own: own, now: now}
	var p client.Problems
	trusted, untrusted := outbound.New(true), outbound.New(false, allow...)
	sets := map[string]*keySet{}
	for _, r := range rules {
		p.AddErr(r.Validate())
		if r.Provider != "" && r.Issuer == own {
			p.Addf("trust_issuer %s: id_jag: identity assertions for this server come from others", own)
		}
		if r.Audience == "" {
			r.Audience = own
		}
		source := r.Issuer + " " + r.KeysURI
		keys := sets[source]
		if keys == nil || r.Keys != nil {
			keys = newKeySet(r, trusted, untrusted)
		}
		if r.Keys == nil {
			sets[source] = keys
		}
		t.rules = append(t.rules, rule{r, keys})
	}
	return t, p.Join()
}

// Any reports whether an issuer is trusted at all.
func (t *Issuers) Any() bool { return len(t.rules) > 0 }

// Clients are the ids of the clients that workloads can stand for.
func (t *Issuers) Clients() (ids []string) {
	for _, r := range t.rules {
		if r.Provider == "" {
			ids = append(ids, r.Client)
		}
	}
	return ids
}

// Knows reports whether an issuer is trusted.
func (t *Issuers) Knows(issuer string) bool {
	return slices.ContainsFunc(t.rules, func(r rule) bool { return r.Issuer == issuer })
}

type claims = client.AssertionClaims

// Verify returns what a token says that stands for a client, or with an empty id for the first client of the
// configuration that it fits. Nothing of it is used up: see Spend. An *oauth.Error is a failure, not a verdict.
func (t *Issuers) Verify(ctx context.Context, raw, clientID string) (*Statement, error) {
	if len(raw) > maxToken {
		return nil, errMalformed
	}
	parsed, err := jose.ParseSignedCompact(raw, client.AssertionAlgorithms)
	if err != nil {
		return nil, errMalformed
	}
	header := parsed.Signatures[0].Header
	if typ, named := header.ExtraHeaders[jose.HeaderType]; named && !strings.EqualFold(fmt.Sprint(typ), "JWT") {
		return nil, invalid("it is another kind of token") // RFC 8725 3.11
	}
	return byRules(t, parsed, func(r *rule) bool { return r.Provider == "" && (clientID == "" || r.Client == clientID) },
		func(r *rule) (*Statement, error) {
			return t.try(ctx, r, parsed)
		})
}

// byRules returns what a token is by one of the rules of its issuer that fit.
func byRules[T any](t *Issuers, parsed *jose.JSONWebSignature, fits func(*rule) bool, try func(*rule) (*T, error)) (*T, error) {
	var unverified claims
	if json.Unmarshal(parsed.UnsafePayloadWithoutVerification(), &unverified) != nil {
		return nil, errMalformed
	}
	refused := errUnknown
	for i := range t.rules {
		r := &t.rules[i]
		if r.Issuer != unverified.Issuer || !fits(r) {
			continue
		}
		out, err := try(r)
		if err == nil || errors.As(err, new(*oauth.Error)) {
			return out, err
		}
		refused = err
	}
	return nil, refused
}

// try verifies a token by one rule.
func (t *Issuers) try(ctx context.Context, r *rule, parsed *jose.JSONWebSignature) (*Statement, error) {
	payload, err := r.keys.verify(ctx, parsed, t.now())
	if err != nil {
		return nil, err
	}
	var c claims
	if json.Unmarshal(payload, &c) != nil {
		return nil, errMalformed
	}
	if err := r.check(&c, t.now().UTC()); err != nil {
		return nil, err
	}
	if err := r.matches(payload, c.Subject); err != nil {
		return nil, err
	}
	return r.statement(&c), nil
}

// matches holds that each claim that the rule names is as it says.
func (r *rule) matches(payload []byte, subject string) error {
	var all map[string]any
	if json.Unmarshal(payload, &all) != nil {
		return errMalformed
	}
	for _, m := range r.Match {
		value, isText := all[m.Claim].(string)
		if !isText || !slices.ContainsFunc(m.Patterns, func(p string) bool { return fits(p, value) }) {
			return denial.New(denial.AssertionUntrusted,
				fmt.Sprintf("match of trust_issuer: the claim %s is not as it says in the assertion of %s", m.Claim, subject))
		}
	}
	return nil
}

// statement returns the claims of a token that has passed.
func (r *rule) statement(c *claims) *Statement {
	st := &Statement{Issuer: c.Issuer, Subject: c.Subject, Client: r.Client, Scopes: r.Scopes, Expires: at(*c.Expires)}
	if !r.Reuse {
		st.seen, st.until = storage.Key(secret.Hash(c.Issuer), secret.Hash(c.ID)), at(*c.IssuedAt).Add(maxAge+skew+margin)
	}
	return st
}

func invalid(why string) error {
	return denial.New(denial.AssertionInvalid, "the assertion cannot be used: "+why)
}

func at(seconds float64) time.Time { return time.Unix(int64(seconds), 0).UTC() }

// check judges the claims of a token whose signature is good. (RFC 7523 3)
func (r *rule) check(c *claims, now time.Time) error {
	if c.Issuer != r.Issuer {
		return invalid("iss is another one")
	}
	if aud, _ := c.SoleAudience(); aud != r.Audience {
		return invalid("aud is not the audience of trust_issuer")
	}
	switch {
	case c.Subject == "" || len(c.Subject) > maxText || strings.ContainsFunc(c.Subject, unicode.IsControl):
		return invalid("sub is missing or too long")
	case c.Expires == nil || c.IssuedAt == nil:
		return invalid("exp or iat is missing")
	case !r.Reuse && (c.ID == "" || len(c.ID) > maxText):
		return invalid("jti is missing or too long")
	}
	switch {
	case client.Ahead(*c.Expires, now) <= 0:
		return invalid("it has expired")
	case client.Ahead(*c.IssuedAt, now) < -maxAge-skew:
		return invalid("it is more than 10 minutes old")
	case client.Ahead(*c.IssuedAt, now) > skew, c.NotBefore != nil && client.Ahead(*c.NotBefore, now) > skew:
		return invalid("it is not valid yet")
	}
	return nil
}

// Spend marks a token as used, or returns storage.ErrExists if it was used before. (RFC 7523 3, 7)
func (s *Statement) Spend(tx storage.Tx) error {
	if s.seen == "" {
		return nil
	}
	return seen.Create(tx, s.seen, struct{}{}, s.until)
}
