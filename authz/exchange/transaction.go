package exchange

import (
	"context"
	"encoding/json"
	"errors"
	"net/netip"
	"strings"
	"time"

	"github.com/gatehouse-id/gatehouse/authz/client"
	"github.com/gatehouse-id/gatehouse/authz/clientstore"
	"github.com/gatehouse-id/gatehouse/authz/jsonresponse"
	"github.com/gatehouse-id/gatehouse/authz/oauth"
	"github.com/gatehouse-id/gatehouse/authz/token"
	"github.com/gatehouse-id/gatehouse/authz/transaction"
	"github.com/gatehouse-id/gatehouse/internal/denial"
	"github.com/gatehouse-id/gatehouse/internal/strictjson"
	"github.com/gatehouse-id/gatehouse/storage"
)

// TypeTransaction is the type of a transaction token.
// (draft-ietf-oauth-transaction-tokens-09; docs/decisions/token-endpoint.md#transaction-tokens)
const TypeTransaction = "urn:ietf:params:oauth:token-type:txn_token"

const maxDepth = 8 // of request_details and request_context

var errReplaced = denial.New(denial.SubjectToken, "the transaction token was replaced too often")

// transactionRequest has the parameters of a request for a transaction token.
type transactionRequest struct {
	domain  string
	details string // request_details: what the workload says about the transaction, in JSON
	address string // of the caller that the workload serves
	// replaces is the transaction token that is exchanged, if it is one.
	replaces transaction.Claims
}

// readTransaction reads what is particular to a request for a transaction token. (draft 7.1)
func (x *request) readTransaction() error {
	f := x.Form
	audience := f.All("audience")
	t := &transactionRequest{details: f.Get("request_details")}
	said := f.Get("request_context")
	switch {
	case len(audience) != 1:
		return oauth.InvalidRequest(nil, "audience must be the name of one trust domain")
	case f.Has("resource"):
		return oauth.InvalidTarget(nil, "a transaction token has a trust domain, and no resource")
	case f.Get("actor_token") != "" || f.Get("actor_token_type") != "":
		return oauth.InvalidRequest(nil, "a transaction token names no actor")
	case f.Has("authorization_details"):
		return oauth.InvalidDetails(nil, "a transaction token has the authorization_details of the access token")
	case x.kind != typeAccess && x.kind != TypeTransaction:
		return oauth.InvalidRequest(nil, "a transaction token needs an access token or a transaction token")
	case x.kind == TypeTransaction && t.details+said != "":
		return oauth.InvalidRequest(nil, "request_details and request_context are those of the first token of the transaction")
	}
	for name, text := range map[string]string{"request_details": t.details, "request_context": said} {
		if text != "" && !isObject([]byte(text)) {
			return oauth.InvalidRequest(nil, name+" is not a JSON object")
		}
	}
	if _, err := transaction.Context(t.details, ""); err != nil {
		return oauth.InvalidRequest(nil, "request_details: "+err.Error())
	}
	var err error
	if t.address, err = addressIn(said); err != nil {
		return err
	}
	if x.scope, err = client.ParseScope(f.Get("scope")); err != nil {
		return oauth.InvalidScope(err, "scope is malformed")
	}
	if len(x.scope) == 0 { // draft 7.1: the purpose of the transaction
		return oauth.InvalidScope(nil, "scope is missing: a transaction token says what it is for")
	}
	t.domain, x.transaction = audience[0], t
	return nil
}

// isObject reports whether raw is one JSON object that can be read in one way.
func isObject(raw []byte) bool {
	if strictjson.Check(raw, maxDepth) != nil {
		return false
	}
	v, err := strictjson.Value(raw)
	_, ok := v.(map[string]any)
	return err == nil && ok
}

// addressIn returns req_ip of request_context. Its other members are not for workloads to say, and are ignored.
func addressIn(said string) (string, error) {
	if said == "" {
		return "", nil
	}
	var members struct {
		Address *string `json:"req_ip"`
	}
	if err := json.Unmarshal([]byte(said), &members); err != nil {
		return "", oauth.InvalidRequest(err, "req_ip in request_context is not an IP address")
	}
	if members.Address == nil {
		return "", nil
	}
	address, err := netip.ParseAddr(*members.Address)
	if err != nil || address.Zone() != "" {
		return "", oauth.InvalidRequest(nil, "req_ip in request_context is not an IP address")
	}
	return address.Unmap().String(), nil
}

// ofTransaction: a transaction token stands for what it says, as long as the person and the client may still be here.
func (s *service) ofTransaction(tx storage.Tx, x *request) (*subject, error) {
	c := x.transaction.replaces
	if c.Audience != x.transaction.domain { // draft 9.15: aud stays
		return nil, refuse(errInactive)
	}
	sub := &subject{scope: strings.Fields(c.Scope), ends: time.Unix(c.Expires, 0).UTC(), access: token.Access{
		Subject: c.Subject, Level: token.ACRLevel(c.Requester.ACR),
	}}
	if !sub.ends.After(x.Now) {
		return nil, refuse(errInactive)
	}
	if c.Subject == c.Requester.Client {
		sub.access.Subject = "" // a client for itself
	}
	if c.Requester.Client == "" {
		return sub, nil
	}
	_, ok, err := s.deps.Tokens.CheckStanding(tx, c.Requester.Client, sub.access.Subject)
	if err == nil && !ok {
		err = refuse(errInactive)
	}
	return sub, err
}

// transact gives a transaction token: for an access token the first one of a transaction, for another one of the same
// transaction one with fewer scopes. It opens nothing here.
func (s *service) transact(ctx context.Context, x *request, sub *subject) (jsonresponse.Body, error) {
	c, t := x.Client, x.transaction
	err := s.deps.Clients.May(c, clientstore.Permission{
		Grant: client.GrantTokenExchange, From: sub.from, Domain: t.domain, Provider: sub.access.Provider,
	})
	if err != nil {
		return nil, err
	}
	scope, err := s.narrow(x, sub)
	if err != nil {
		return nil, err
	}
	if err := s.deps.Clients.May(c, clientstore.Permission{Grant: client.GrantTokenExchange, Scope: scope}); err != nil {
		return nil, err
	}
	made, err := s.transactionOf(x, sub, strings.Join(scope, " "))
	if errors.Is(err, transaction.ErrChain) {
		return nil, refuse(errReplaced)
	}
	if err != nil {
		return nil, oauth.ServerError(err)
	}
	e, err := s.deps.Events.New(eventTransacted, x.From)
	if err != nil {
		return nil, oauth.ServerError(err)
	}
	e.PersonID, e.ClientID, e.SessionID, e.Actor = sub.access.Subject, c.ID, sub.access.SessionID, c.ID
	e.Reason = "transaction " + made.ID + " in the trust domain " + t.domain
	err = s.deps.Store.Update(ctx, func(tx storage.Tx) error {
		again, err := s.judge(tx, x)
		if err != nil {
			return err
		}
		if again.access.Epochs != sub.access.Epochs {
			return refuse(errInactive)
		}
		if err := x.Spend(tx); err != nil {
			return err
		}
		return s.deps.Events.Append(tx, e)
	})
	if err != nil {
		return nil, oauth.StorageError(err)
	}
	return &jsonresponse.Token{
		TokenType: notAToken, AccessToken: made.Text, IssuedType: TypeTransaction,
		ExpiresIn: jsonresponse.Seconds(time.Unix(made.Expires, 0).Sub(x.Now)), Scope: made.Scope,
	}, nil
}

func (s *service) transactionOf(x *request, sub *subject, scope string) (transaction.Token, error) {
	c, t := x.Client, x.transaction
	if x.kind == TypeTransaction {
		return s.deps.Transactions.Replace(t.replaces, c.ID, scope, c.TokenAlg)
	}
	details, err := transaction.Context(t.details, sub.details)
	if err != nil {
		return transaction.Token{}, err
	}
	says := transaction.Claims{
		Audience: t.domain, Subject: sub.access.Subject, Scope: scope, Details: details, Workload: c.ID,
		Requester: transaction.Requester{Address: t.address, Client: sub.from},
	}
	if says.Subject == "" {
		says.Subject = sub.from
	} else {
		says.Requester.ACR = token.ACR(sub.access.Level)
	}
	return s.deps.Transactions.Begin(says, c.TokenAlg, sub.ends)
}
