package grant

import (
	"context"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/gatehouse-id/gatehouse/authz/client"
	"github.com/gatehouse-id/gatehouse/authz/clientstore"
	"github.com/gatehouse-id/gatehouse/authz/jsonresponse"
	"github.com/gatehouse-id/gatehouse/authz/oauth"
	"github.com/gatehouse-id/gatehouse/authz/token"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/denial"
	"github.com/gatehouse-id/gatehouse/storage"
)

// Request is a request of the token endpoint, its client authenticated.
type Request struct {
	Client *client.Client
	// Workload has shown its token in place of credentials of the client. nil: there was something else.
	Workload *clientstore.Workload
	Form     oauth.Form
	From     audit.Origin
	Now      time.Time // of the whole request
	// Proved is the proof that the sender has given. The tokens are bound to it.
	Proved token.Confirmation
	// spent notes in the transaction that issues them that the proof was used. nil: nothing has to be noted.
	spent func(storage.Tx) error
}

// Spend notes that the proof of the request was used. A second time is refused, and nothing is issued. Each grant calls
// it in the transaction that stores its tokens.
func (q *Request) Spend(tx storage.Tx) error {
	if q.spent == nil {
		return nil
	}
	return q.spent(tx)
}

// grantHandler returns the answer to a request whose client is allowed the grant.
type grantHandler[B jsonresponse.Body] func(*Grants, context.Context, *Request) (B, error)

// Answer is a grantHandler of another package. An answer with a Status is written with that instead of 200.
type Answer func(context.Context, *Request) (jsonresponse.Body, error)

// served is one grant_type: the grant that the client must have, and what answers.
type served struct {
	grant  string
	answer grantHandler[jsonresponse.Body]
}

// tokenGrants is every grant_type of the package. Serve adds those of others.
var tokenGrants = map[string]served{
	client.GrantCode:              {client.GrantCode, ofPerson((*Grants).grantAuthorizationCode)},
	client.GrantRefreshToken:      {client.GrantRefreshToken, ofPerson((*Grants).grantRefresh)},
	client.GrantClientCredentials: {client.GrantClientCredentials, ofClient((*Grants).grantClientCredentials)},
	client.GrantPassword:          {client.GrantPassword, ofPerson((*Grants).grantPassword)},
	typeJWTBearer:                 {client.GrantJWTBearer, ofPerson((*Grants).grantJWTBearer)},
	typeValidateBearer:            {client.GrantValidateBearer, ofPerson((*Grants).validateBearer)},
}

// ofClient is for a grant that concerns the client alone.
func ofClient[B jsonresponse.Body](grant grantHandler[B]) grantHandler[jsonresponse.Body] {
	return func(s *Grants, ctx context.Context, q *Request) (jsonresponse.Body, error) { return grant(s, ctx, q) }
}

// ofPerson is for a grant that concerns a person, so a provider that has gone since must be known.
func ofPerson[B jsonresponse.Body](grant grantHandler[B]) grantHandler[jsonresponse.Body] {
	return func(s *Grants, ctx context.Context, q *Request) (jsonresponse.Body, error) {
		if err := s.clients.RefreshProviders(ctx); err != nil {
			return nil, err
		}
		return grant(s, ctx, q)
	}
}

// Serve adds a grant_type of another package, for clients with a grant. Its answer calls RefreshProviders where it
// concerns a person. Serve must not be called later than New's caller.
func (s *Grants) Serve(name, grant string, answer Answer) {
	s.served[name] = served{grant, func(_ *Grants, ctx context.Context, q *Request) (jsonresponse.Body, error) { return answer(ctx, q) }}
}

// Types are the grant types served, for the metadata.
func (s *Grants) Types() []string { return slices.Collect(maps.Keys(s.served)) }

// HandleToken serves POST /oauth/token (RFC 6749 3.2; token server document, "Token endpoint"). The order is: read the
// request once, authenticate the client, check that it is allowed the grant, run the grant. Nothing is answered before
// it is durable.
func (s *Grants) HandleToken(w http.ResponseWriter, r *http.Request) error {
	f, err := oauth.ParseForm(r)
	if err != nil {
		return err
	}
	r.PostForm = url.Values(f.Values) // as ParseForm leaves it; ErrorCode reads it
	oauth.Learn(r.Context(), f.Get("client_id"), f.Get("redirect_uri"), f.Get("scope"))
	c, workload, err := s.authenticate(r, f)
	if err != nil {
		return err
	}
	denial.Learn(r.Context(), func(a *denial.Refusal) { a.ClientID = c.ID })
	name := f.Get("grant_type")
	if name == "" {
		return oauth.InvalidRequest(nil, "grant_type is missing")
	}
	served, ok := s.served[name]
	if !ok {
		return oauth.UnsupportedGrantType(name)
	}
	q := &Request{Client: c, Workload: workload, Form: f, From: s.deps.Origin(r), Now: s.now()}
	if q.Proved, q.spent, err = s.deps.Prove(w, r, c); err != nil {
		return err
	}
	issues := served.grant != client.GrantValidateBearer
	if bound, err := s.clients.Bind(r, c); err != nil && issues {
		return err
	} else if bound != "" && issues {
		if !q.Proved.IsZero() {
			return oauth.InvalidRequest(nil, "the tokens of the client are bound to its certificate: send no DPoP proof")
		}
		q.Proved.X5T = bound
	}
	if err := s.clients.May(c, clientstore.Permission{Grant: served.grant, Unbound: issues && q.Proved.IsZero()}); err != nil {
		return err
	}
	answer, err := served.answer(s, r.Context(), q)
	if err != nil {
		return err
	}
	status := http.StatusOK
	if other, ok := answer.(interface{ Status() int }); ok {
		status = other.Status()
	}
	jsonresponse.Write(w, status, answer)
	return nil
}

// errUnproved is the cause of a refusal of what is bound to a key.
var errUnproved = denial.New(denial.KeyUnproved, "it is bound to a key or certificate that the sender has not proved to have")

// heldBy returns the binding of the client's refresh tokens. Those of a client with credentials are bound to these
// already, so it can change its key. (RFC 9449 5)
func (q *Request) heldBy() token.Confirmation {
	if q.Client.Public {
		return q.Proved
	}
	return token.Confirmation{}
}

// authenticate returns the client of a request. One whose workload shows a token needs no other credentials.
func (s *Grants) authenticate(r *http.Request, f oauth.Form) (*client.Client, *clientstore.Workload, error) {
	if f.Get("grant_type") == typeJWTBearer && s.clients.TrustsIssuers() && !clientstore.HasCredentials(r.Header, f) {
		w, err := s.clients.AuthenticateWorkload(r, f)
		if err != nil {
			return nil, nil, err
		}
		return w.Client, w, nil
	}
	c, err := s.clients.Authenticate(r, f)
	return c, nil, err
}

// respond makes the answer for an access token.
func (s *Grants) respond(c *client.Client, i *token.Draft, now time.Time) *jsonresponse.Token {
	t := &jsonresponse.Token{
		TokenType: i.Rec.Confirmation.TokenType(), AccessToken: i.Token, ExpiresIn: jsonresponse.Seconds(i.Rec.ExpiresAt.Sub(now)),
		Scope:                strings.Join(i.Rec.Scope, " "),
		AuthorizationDetails: jsonresponse.Written(i.Rec.AuthorizationDetails),
	}
	if i.Rec.Subject != "" {
		t.ProfileID = s.tokens.ProfileID(c, i.Rec.Subject)
	}
	return t
}
