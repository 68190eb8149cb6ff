// Package par stores pushed authorization requests (RFC 9126), finds them by their reference, and lets each be finished
// once. (docs/decisions/authorization.md#pushed-requests)
package par

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/gatehouse-id/gatehouse/authz/client"
	"github.com/gatehouse-id/gatehouse/authz/clientstore"
	"github.com/gatehouse-id/gatehouse/authz/jsonresponse"
	"github.com/gatehouse-id/gatehouse/authz/oauth"
	"github.com/gatehouse-id/gatehouse/internal/denial"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

// Prefix begins each reference. (RFC 9126 2.2)
const Prefix = "urn:ietf:params:oauth:request_uri:"

const (
	lifetime = time.Minute   // for the browser to begin
	kept     = 2 * time.Hour // how long after that a browser that has begun can finish
	mostOpen = 1000          // requests of a client with credentials that no one has finished
	idBytes  = 32
)

var (
	errUnknown = denial.New(denial.FlowExpired, "the pushed request is unknown, has expired, was finished, or is another client's")
	errTooMany = denial.New(denial.TooManyBegun, "too much was begun from this network")
	errFull    = denial.New(denial.TooManyBegun, "the client has pushed too many requests that no one has finished")
)

// Deps are the dependencies of pushed requests. All are required.
type Deps struct {
	Store   storage.Store
	Clients *clientstore.Registry
	// Check returns the parameters of an authorization request, read from its request object if it has one, or what is
	// wrong with them.
	Check func(ctx context.Context, f oauth.Form) (oauth.Form, error)
	// Bind writes the key of the proof in a request into the parameters, and returns what notes in a transaction that the
	// proof was used. nil: no proof was sent.
	Bind   func(w http.ResponseWriter, r *http.Request, c *client.Client, params map[string][]string) (spent func(storage.Tx) error, err error)
	Admit  func(r *http.Request, size int) bool // whether a stranger may store one more request, of size bytes
	Now    func() time.Time
	Random io.Reader
}

// Requests are the pushed requests of one configuration. They are safe for concurrent use.
type Requests struct{ deps Deps }

// New returns the pushed requests of a store.
func New(deps Deps) *Requests { return &Requests{deps} }

// credentials are the parameters by which a client authenticates. They are no part of the request.
var credentials = []string{"client_secret", "client_assertion", "client_assertion_type"}

// Handle serves POST /oauth/par (RFC 9126 2). The request passes the checks of the authorization endpoint, and the
// client gets what is wrong in the answer.
func (p *Requests) Handle(w http.ResponseWriter, r *http.Request) error {
	f, err := oauth.ParseForm(r)
	if err != nil {
		return err
	}
	r.PostForm = url.Values(f.Values)
	oauth.Learn(r.Context(), f.Get("client_id"), f.Get("redirect_uri"), f.Get("scope"))
	c, err := p.deps.Clients.Authenticate(r, f)
	if err != nil {
		return err
	}
	denial.Learn(r.Context(), func(a *denial.Refusal) { a.ClientID = c.ID })
	if _, sent := f.Values["request_uri"]; sent {
		return oauth.InvalidRequest(nil, "request_uri cannot be pushed") // RFC 9126 2.1
	}
	if id := f.Get("client_id"); id != "" && id != c.ID {
		return oauth.InvalidRequest(nil, "client_id is another client's")
	}
	params := map[string][]string{}
	for name, values := range f.Values {
		params[name] = values
	}
	for _, name := range credentials {
		delete(params, name)
	}
	params["client_id"] = []string{c.ID}
	checked, err := p.deps.Check(r.Context(), oauth.Form{Values: params})
	if err != nil {
		return asAnswer(err)
	}
	spent, err := p.deps.Bind(w, r, c, checked.Values)
	if err != nil {
		return err
	}
	rec := &record{ClientID: c.ID, Params: checked.Values}
	if !p.deps.Admit(r, pushed.Size(*rec)) {
		return oauth.TemporarilyUnavailable(errTooMany)
	}
	id, err := secret.ID(p.deps.Random, idBytes)
	if err != nil {
		return oauth.ServerError(err)
	}
	if err := p.store(r.Context(), secret.Hash(id), rec, c.Public, spent); err != nil {
		return err
	}
	jsonresponse.Write(w, http.StatusCreated, parResponse{RequestURI: Prefix + id, ExpiresIn: jsonresponse.Seconds(lifetime)})
	return nil
}

// asAnswer makes a refusal of the authorization endpoint one of this endpoint: those that would have been pages there
// have a status of pages.
func asAnswer(err error) error {
	e := *oauth.AsError(err)
	if e.Status == http.StatusForbidden {
		e.Status = http.StatusBadRequest
	}
	return &e
}

func (p *Requests) store(ctx context.Context, key string, rec *record, public bool, spent func(storage.Tx) error) error {
	now := p.deps.Now().UTC()
	rec.ExpiresAt = now.Add(lifetime)
	index := storage.Key(rec.ClientID, key)
	full := false
	err := p.deps.Store.Update(ctx, func(tx storage.Tx) error {
		full = false
		if !public { // strangers can push for a public client, so its bound is that of their network
			var err error
			if full, err = isFull(tx, rec.ClientID, now); err != nil || full {
				return err
			}
		}
		if spent != nil {
			if err := spent(tx); err != nil {
				return err
			}
		}
		if err := open.Put(tx, index, openRecord{rec.ExpiresAt}, rec.ExpiresAt); err != nil {
			return err
		}
		return pushed.Create(tx, key, *rec, rec.ExpiresAt.Add(kept))
	})
	if err == nil && full {
		return oauth.TooManyTries(errFull, lifetime)
	}
	return oauth.StorageError(err)
}

// isFull reports whether a client has as many requests open as it may.
func isFull(tx storage.Tx, clientID string, now time.Time) (bool, error) {
	n := 0
	for e, err := range open.Scan(tx, storage.Range{Prefix: storage.Prefix(clientID)}) {
		if err != nil {
			return false, err
		}
		if e.Value.ExpiresAt.After(now) {
			n++
		}
	}
	return n >= mostOpen, nil
}

// Is reports whether a request_uri begins like our references.
func Is(requestURI string) bool { return strings.HasPrefix(requestURI, Prefix) }

// Find returns the parameters of a pushed request of a client, and its key for Spend. Reading changes nothing: a person
// can load the sign-in page again.
func (p *Requests) Find(ctx context.Context, clientID, requestURI string) (f oauth.Form, key string, err error) {
	key = secret.Hash(strings.TrimPrefix(requestURI, Prefix))
	var rec record
	found := false
	err = p.deps.Store.View(ctx, func(tx storage.Tx) (err error) {
		rec, found, err = pushed.Find(tx, key)
		return err
	})
	if err != nil {
		return f, "", oauth.StorageError(err)
	}
	if !found || rec.Spent || rec.ClientID != clientID || !rec.ExpiresAt.After(p.deps.Now().UTC()) {
		return f, "", gone()
	}
	return oauth.Form{Values: rec.Params}, key, nil
}

// gone is the refusal of a reference. (RFC 9101 7)
func gone() error {
	return &oauth.Error{
		Status: http.StatusBadRequest, Code: "invalid_request_uri",
		Description: "the pushed request has expired or was used before", Cause: errUnknown,
	}
}

// Spend finishes a pushed request, in the transaction that issues its answer. A second time is refused.
func Spend(tx storage.Tx, clientID, key string) error {
	rec, err := pushed.Get(tx, key)
	if errors.Is(err, storage.ErrNotFound) || err == nil && (rec.Spent || rec.ClientID != clientID) {
		return gone()
	}
	if err != nil {
		return err
	}
	rec.Spent, rec.Params = true, nil
	if err := open.Delete(tx, storage.Key(clientID, key)); err != nil {
		return err
	}
	return pushed.Put(tx, key, rec, rec.ExpiresAt.Add(kept))
}

// parResponse is the response to a client. (RFC 9126 2.2)
type parResponse struct {
	RequestURI string `json:"request_uri"`
	ExpiresIn  int64  `json:"expires_in"` // seconds
}

// AppendJSON implements jsonresponse.Body.
func (a parResponse) AppendJSON(dst []byte) []byte {
	body, _ := json.Marshal(a) //nolint:errchkjson // a text and a number are never refused
	return append(dst, body...)
}
