package protect

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/gatehouse-id/gatehouse/authz/client"
	"github.com/gatehouse-id/gatehouse/authz/token"
	"github.com/gatehouse-id/gatehouse/authz/transaction"
	"github.com/gatehouse-id/gatehouse/caddymodule/internal/caddyfileutil"
	"github.com/gatehouse-id/gatehouse/caddymodule/internal/reference"
)

// wordTransaction makes the assertion of a site a transaction token.
const wordTransaction = "txn_token"

// TransactionToken says what the transaction tokens of a site are for. (docs/experimental/transaction-tokens.md)
type TransactionToken struct {
	// The trust domain in which they are valid. Required.
	Domain string `json:"domain"`
	// The scopes of the transaction, as far as the sender has them; a browser has those whose level it has reached.
	// Default: the scopes of the site, otherwise those of the access token that OpenID Connect gives no meaning.
	Scopes []string `json:"scopes,omitempty"`
}

// transactor begins transactions. *transaction.Signer is one.
type transactor interface {
	Begin(c transaction.Claims, alg string, ends time.Time) (transaction.Token, error)
}

func (p *Protect) readTransaction(d *caddyfile.Dispenser) error {
	p.Transaction = new(TransactionToken)
	return caddyfileutil.ReadBlock(d, "assertion "+wordTransaction, &reference.TransactionToken, caddyfileutil.Subdirectives{
		"domain": caddyfileutil.Value(&p.Transaction.Domain, client.CheckDomain),
		"scopes": caddyfileutil.Values(&p.Transaction.Scopes, caddyfileutil.CheckScope),
	})
}

// resolve replaces placeholders, and checks what they stand for.
func (t *TransactionToken) resolve(res *caddyfileutil.Resolver) {
	t.Domain = res.Plain("assertion domain", t.Domain, client.CheckDomain)
	t.Scopes = res.List("assertion scopes", t.Scopes, caddyfileutil.CheckScope)
}

// begin returns the first token of a transaction: this request. (draft-ietf-oauth-transaction-tokens-09 4.1)
func (p *Protect) begin(g *requestState, who *token.Introspection, site, method string) (string, error) {
	if g.entrance.Transactions == nil {
		return "", errors.New("nothing here signs transaction tokens")
	}
	details, err := json.Marshal(transaction.Request{
		Method: method, Host: strings.ToLower(g.r.Host), Path: cmp.Or(g.r.URL.EscapedPath(), "/"),
		Details: json.RawMessage(who.AuthorizationDetails),
	})
	if err != nil {
		return "", fmt.Errorf("write the context of a transaction: %w", err)
	}
	says := transaction.Claims{
		Audience: p.Transaction.Domain, Subject: who.Subject, Scope: strings.Join(p.transactionScopes(g, who), " "),
		Details: details, Workload: site, Requester: transaction.Requester{Address: p.origin(g.r).ClientIP, ACR: token.ACR(who.Level)},
	}
	if g.site == nil {
		says.Requester.Client = who.ClientID
	}
	made, err := g.entrance.Transactions.Begin(says, p.AssertionAlg, who.ExpiresAt)
	return made.Text, err
}

// transactionScopes are the scopes of a transaction.
func (p *Protect) transactionScopes(g *requestState, who *token.Introspection) []string {
	want := p.Transaction.Scopes
	if len(want) == 0 {
		want = p.Scopes
	}
	if g.site != nil { // a browser, which has no token with scopes
		return slices.DeleteFunc(slices.Clone(want), func(name string) bool {
			level, assurance := p.scopeLevel(name)
			return level > who.Level || assurance > who.Assurance(p.now())
		})
	}
	if len(want) == 0 {
		return slices.DeleteFunc(slices.Clone(who.Scope), func(name string) bool { return slices.Contains(client.StandardScopes, name) })
	}
	return slices.DeleteFunc(slices.Clone(want), func(name string) bool { return !slices.Contains(who.Scope, name) })
}
