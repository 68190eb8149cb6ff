package client

import (
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/gatehouse-id/gatehouse/internal/loopback"
)

// Exchange says what a client can make of the tokens that others send to it. (RFC 8693)
type Exchange struct {
	// From are the ids of the clients whose tokens it can exchange, besides its own.
	From []string `json:"from,omitempty"`
	// To are the audiences of the tokens that it gets for them.
	To []string `json:"to"`
	// IDJAG are the servers elsewhere for which it can get identity assertions.
	IDJAG []IDJAG `json:"id_jag,omitempty"`
	// Domains are the trust domains for which it can get transaction tokens.
	Domains []string `json:"txn_token,omitempty"`
}

// IDJAG is an authorization server elsewhere that takes identity assertions about people.
type IDJAG struct {
	Issuer   string   `json:"issuer"`
	ClientID string   `json:"client_id"`        // of the client there
	Scopes   []string `json:"scopes,omitempty"` // that it can ask for there
}

// MayAssert returns what the client can get identity assertions with for an issuer, or nil.
func (c *Client) MayAssert(issuer string) *IDJAG {
	if c.Exchange == nil {
		return nil
	}
	for i := range c.Exchange.IDJAG {
		if c.Exchange.IDJAG[i].Issuer == issuer {
			return &c.Exchange.IDJAG[i]
		}
	}
	return nil
}

// MayExchange reports whether the client can exchange a token of a client for one with these audiences.
func (c *Client) MayExchange(from string, to []string) bool {
	return c.Exchange != nil && (from == c.ID || slices.Contains(c.Exchange.From, from)) && len(to) > 0 && hasResources(c.Exchange.To, to)
}

// MayTransact reports whether the client can get transaction tokens for a trust domain, in place of access tokens of a
// client. from "": in place of transaction tokens.
func (c *Client) MayTransact(domain, from string) bool {
	return c.Exchange != nil && slices.Contains(c.Exchange.Domains, domain) &&
		(from == "" || from == c.ID || slices.Contains(c.Exchange.From, from))
}

// ExchangeTargets writes audiences as the client's own list does, once each. None: the only one of the list.
func (c *Client) ExchangeTargets(asked []string) []string {
	if c.Exchange == nil {
		return asked
	}
	if len(asked) == 0 && len(c.Exchange.To) == 1 {
		return c.Exchange.To
	}
	own, out := c.Exchange.To, make([]string, 0, len(asked))
	for _, target := range asked {
		plain := plainResource(target)
		if i := slices.IndexFunc(own, func(a string) bool { return plainResource(a) == plain }); i >= 0 && !slices.Contains(own, target) {
			target = own[i]
		}
		out = append(out, target)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// CheckIssuer says what is wrong with the issuer of an authorization server elsewhere. (RFC 8414 2)
func CheckIssuer(s string) error {
	u, err := url.Parse(s)
	if err != nil || u.Host == "" || u.User != nil || len(s) > maxTarget || strings.ContainsAny(s, "?# ") ||
		(u.Scheme != "https" && (u.Scheme != "http" || !loopback.Is(u.Hostname()))) {
		return fmt.Errorf("%q is not an issuer such as https://auth.example.com", s)
	}
	return nil
}

var trustDomain = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9./:_-]{0,251}[A-Za-z0-9])?$`)

// CheckDomain says what is wrong with the name of a trust domain.
func CheckDomain(s string) error {
	if !trustDomain.MatchString(s) {
		return fmt.Errorf("%q is not the name of a trust domain, such as shop.example.com", s)
	}
	return nil
}

func (c *Client) checkExchange(p *Problems) {
	switch has := c.HasGrant(GrantTokenExchange); {
	case has && c.Public:
		p.Addf("grants: a public client cannot use token_exchange: anyone who knows its name could exchange tokens")
	case has && (c.Exchange == nil || len(c.Exchange.To)+len(c.Exchange.IDJAG)+len(c.Exchange.Domains) == 0):
		p.Addf("exchange is missing: token_exchange needs the audiences that tokens are exchanged for: add `exchange { to https://api.example.com }`")
	case !has && c.Exchange != nil:
		p.Addf("exchange: the client does not have the grant token_exchange")
	case c.Exchange != nil && (slices.Contains(c.Exchange.From, "") ||
		slices.ContainsFunc(c.Exchange.To, func(to string) bool { return to == "" || len(to) > maxTarget || !IsText(to) })):
		p.Addf("exchange: a client or audience is empty, too long or has control characters")
	}
	if c.Exchange == nil {
		return
	}
	for _, name := range c.Exchange.Domains {
		if err := CheckDomain(name); err != nil {
			p.Addf("exchange: txn_token: %w", err)
		}
		if c.SubjectType == SubjectPairwise {
			p.Addf("exchange: txn_token: a client with subject_type pairwise would learn the public identifiers of people: remove either")
		}
	}
	for i, of := range c.Exchange.IDJAG {
		switch {
		case CheckIssuer(of.Issuer) != nil:
			p.Addf("exchange: id_jag: %q is not the issuer of an authorization server such as https://auth.example.com", of.Issuer)
		case of.ClientID == "" || len(of.ClientID) > maxTarget || !IsText(of.ClientID):
			p.Addf("exchange: id_jag %s: the id of the client there is missing, too long or has control characters", of.Issuer)
		case slices.ContainsFunc(of.Scopes, func(s string) bool { return !isScopeToken(s) }):
			p.Addf("exchange: id_jag %s: a scope has a character that scopes must not have", of.Issuer)
		case slices.ContainsFunc(c.Exchange.IDJAG[:i], func(o IDJAG) bool { return o.Issuer == of.Issuer }):
			p.Addf("exchange: id_jag %s is there twice", of.Issuer)
		case c.SubjectType == SubjectPairwise:
			p.Addf("exchange: id_jag: a client with subject_type pairwise would learn the public identifiers of people: remove either")
		}
	}
}

// maxTarget is the longest audience in bytes.
const maxTarget = 512
