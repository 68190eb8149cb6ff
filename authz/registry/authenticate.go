package registry

import (
	"context"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/authz/client"
	"github.com/gatehouse-id/gatehouse/authz/oauth"
	"github.com/gatehouse-id/gatehouse/internal/event"
	"github.com/gatehouse-id/gatehouse/internal/login"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

// How often failed authentications become events: an event is a synced write, and strangers must not cause many of
// them.
const (
	failureEventsPerSecond = 5
	failureEventsBurst     = 50
)

// identification is what a caller presents to prove who it is.
type identification struct {
	id, secret string
	method     string // basic, post, none, private_key_jwt; then secret is the assertion
}

var (
	errNoCredentials = errors.New("credentials are missing or malformed")
	errAssertion     = errors.New("the client assertion is not good")
	errReplayed      = errors.New("the client assertion was used before")
	errUnknownClient = errors.New("unknown client")
	errDisabled      = errors.New("the client is disabled")
	errSecret        = errors.New("wrong secret")
	errMethod        = errors.New("another authentication method than the client's")
)

// Authenticate returns the client that sent the request. (RFC 6749 2.3, 3.2.1; token server document, "Authentication")
func (r *Registry) Authenticate(req *http.Request, f oauth.Form) (*client.Client, error) {
	p, err := readCredentials(req.Header, f)
	if err != nil {
		return nil, r.refuseClient(req, p.id, err)
	}
	if p.method == client.MethodPrivateKey {
		c, err := r.authenticateByKey(req.Context(), p)
		return c, r.refuseClient(req, p.id, err)
	}
	reg, err := r.lookup(req.Context(), p.id)
	if err != nil {
		return nil, err
	}
	known, against := reg != nil, r.checks.decoy
	if known {
		against = reg.credential
	}
	// An unknown client is compared too, so that timing does not reveal which clients exist.
	right, err := r.checks.check(req.Context(), against, "client", p.id, p.secret)
	if err == nil && !right && r.fixed[p.id] != nil {
		err = r.costLookup(req.Context())
	}
	if err != nil {
		return nil, cannotCheck(err)
	}
	switch {
	case !known:
		err = errUnknownClient
	case reg.client.Disabled:
		err = errDisabled
	case reg.client.AuthMethod == client.MethodPrivateKey:
		err = errMethod // it has no secret
	case reg.client.Public != (p.method == "none"): // a confidential client is never let in by its name alone
		err = errMethod
	case p.method == "post" && reg.client.AuthMethod != "post":
		err = errMethod
	case p.method != "none" && !right:
		err = errSecret
	default:
		return reg.client, nil
	}
	return nil, r.refuseClient(req, p.id, oauth.InvalidClient(err))
}

// lookup is read outside a transaction. A client of the configuration costs no View.
func (r *Registry) lookup(ctx context.Context, id string) (reg *entry[client.Client], err error) {
	if reg = r.fixed[id]; reg != nil {
		return reg, nil
	}
	err = r.view(ctx, func(tx storage.Tx) (err error) {
		reg, err = r.read(tx, id)
		return err
	})
	return reg, err
}

// costLookup makes a wrong secret of a client of the configuration as expensive as an unknown client, which was looked
// up in storage.
func (r *Registry) costLookup(ctx context.Context) error {
	return r.view(ctx, func(tx storage.Tx) error {
		_, err := clients.Has(tx, "")
		return err
	})
}

// cannotCheck: too many slow hashes at once, or a caller that has gone.
func cannotCheck(err error) error {
	if errors.Is(err, secret.ErrHashFormat) {
		return oauth.ServerError(err)
	}
	return oauth.TemporarilyUnavailable(err)
}

// readCredentials finds the one way in which a request authenticates its client.
func readCredentials(h http.Header, f oauth.Form) (identification, error) {
	headers := h.Values("Authorization")
	posted := f.Has("client_secret")
	asserted := f.Has("client_assertion") || f.Has("client_assertion_type")
	ways := len(headers)
	for _, way := range []bool{posted, asserted} {
		if way {
			ways++
		}
	}
	if ways > 1 {
		return identification{}, oauth.InvalidRequest(nil, "more than one way of client authentication") // RFC 6749 2.3
	}
	switch {
	case len(headers) == 1:
		p, err := basicCredentials(headers[0], true)
		if err != nil {
			return identification{}, err
		}
		if f.Has("client_id") && f.Get("client_id") != p.id {
			return identification{}, oauth.InvalidRequest(nil, "client_id is not the authenticated client")
		}
		return p, nil
	case posted:
		return identification{id: f.Get("client_id"), secret: f.Get("client_secret"), method: "post"}, nil
	case asserted:
		return readAssertion(f)
	case f.Has("client_id"):
		return identification{id: f.Get("client_id"), method: "none"}, nil
	}
	return identification{}, oauth.InvalidRequest(errNoCredentials, "client authentication or client_id is missing")
}

// basicCredentials reads HTTP Basic (RFC 7617). OAuth clients encode id and secret as form values first (RFC 6749
// 2.3.1). Values are never read both ways, since one client's name could then be another's.
func basicCredentials(header string, formEncoded bool) (identification, error) {
	scheme, encoded, _ := strings.Cut(header, " ")
	if !strings.EqualFold(scheme, "Basic") {
		return identification{}, oauth.InvalidClient(errNoCredentials)
	}
	if strings.Contains(encoded, ",") {
		// Two headers that a proxy has joined.
		return identification{}, oauth.InvalidRequest(nil, "more than one way of client authentication")
	}
	raw, err := base64.StdEncoding.Strict().DecodeString(strings.TrimLeft(encoded, " "))
	if err != nil || strings.ContainsAny(encoded, "\r\n") {
		return identification{}, oauth.InvalidClient(errNoCredentials)
	}
	id, password, ok := strings.Cut(string(raw), ":")
	if !ok || id == "" || password == "" {
		return identification{}, oauth.InvalidClient(errNoCredentials)
	}
	if formEncoded {
		if id, err = url.QueryUnescape(id); err != nil {
			return identification{}, oauth.InvalidClient(errNoCredentials)
		}
		if password, err = url.QueryUnescape(password); err != nil {
			return identification{}, oauth.InvalidClient(errNoCredentials)
		}
	}
	if client.CheckID(id) != nil || !client.IsText(password) || len(password) > client.MaxSecret {
		return identification{}, oauth.InvalidClient(errNoCredentials)
	}
	return identification{id: id, secret: password, method: "basic"}, nil
}

// AuthenticateAPI returns the API client of HTTP Basic credentials, if it is allowed this API. The credentials of OAuth
// clients are wrong here. (token server document, "Authentication")
func (r *Registry) AuthenticateAPI(req *http.Request, api string) (*client.APIClient, error) {
	headers := req.Header.Values("Authorization")
	if len(headers) > 1 {
		return nil, oauth.InvalidRequest(nil, "more than one Authorization header")
	}
	if len(headers) == 0 {
		return nil, oauth.InvalidClient(errNoCredentials)
	}
	p, err := basicCredentials(headers[0], false)
	if err != nil {
		return nil, r.refuseClient(req, "", err)
	}
	reg, right, err := r.checkAPI(req.Context(), p)
	if err == nil && !right {
		// The document says only HTTP Basic. Libraries for OAuth clients encode id and secret as form values all the
		// same (RFC 6749 2.3.1), so credentials that are wrong as they stand are decoded and checked again. Either way
		// they must be the secret of that API client.
		if q, encoded := basicCredentials(headers[0], true); encoded == nil && q != p {
			p = q
			reg, right, err = r.checkAPI(req.Context(), p)
		}
	}
	if err != nil {
		return nil, err
	}
	switch {
	case reg == nil:
		err = errUnknownClient
	case reg.client.Disabled:
		err = errDisabled
	case !right:
		err = errSecret
	case !slices.Contains(reg.client.APIs, api):
		return nil, &oauth.Error{Status: http.StatusForbidden, Code: "access_denied", Description: "the API client may not use this API"}
	default:
		return reg.client, nil
	}
	return nil, r.refuseClient(req, p.id, oauth.InvalidClient(err))
}

// AuthorizeAPI returns the id of the API client whose Basic credentials a request to an API of another package carries,
// if it is allowed that API. Errors: login.ErrNoCredentials, login.ErrNotAllowed. Any other error is a failure, not a
// verdict.
func (r *Registry) AuthorizeAPI(req *http.Request, api string) (client string, err error) {
	c, err := r.AuthenticateAPI(req, api)
	if err == nil {
		return c.ID, nil
	}
	if e := new(oauth.Error); errors.As(err, &e) {
		switch e.Status {
		case http.StatusBadRequest, http.StatusUnauthorized:
			return "", fmt.Errorf("%w: %w", login.ErrNoCredentials, err)
		case http.StatusForbidden:
			return "", fmt.Errorf("%w: %w", login.ErrNotAllowed, err)
		}
	}
	return "", err
}

// PartitionsOf returns the partitions that an API client is limited to. None: all.
func (r *Registry) PartitionsOf(apiClient string) []string {
	if reg := r.apis[apiClient]; reg != nil {
		return reg.client.Partitions
	}
	return nil
}

// checkAPI finds an API client (nil: unknown) and tells whether the secret is its own. API clients stand in the
// configuration alone, so neither a known nor an unknown one costs a read.
func (r *Registry) checkAPI(ctx context.Context, p identification) (reg *entry[client.APIClient], right bool, err error) {
	reg = r.apis[p.id]
	against := r.checks.decoy
	if reg != nil {
		against = reg.credential
	}
	right, err = r.checks.check(ctx, against, "api_client", p.id, p.secret)
	if err != nil {
		return nil, false, cannotCheck(err)
	}
	return reg, right, nil
}

// refuseClient writes the event of a failed authentication, as far as the rate allows, and returns err.
func (r *Registry) refuseClient(req *http.Request, id string, err error) error {
	if err == nil {
		return nil
	}
	if e := new(oauth.Error); !errors.As(err, &e) || e.Status != http.StatusUnauthorized || !r.failures.AllowN(r.deps.Now(), 1) {
		return err
	}
	e, failed := r.deps.Events.New(eventClientAuthFailed, r.deps.Origin(req))
	if failed == nil {
		e.ClientID, e.Actor = event.Clean(id), event.Clean(id)
		e.Reason = reasonOf(err)
		failed = r.deps.Store.Update(req.Context(), func(tx storage.Tx) error { return r.deps.Events.Append(tx, e) })
	}
	if failed != nil {
		// The answer is a refusal even if its event cannot be written.
		r.deps.Log.Error("event of a failed client authentication not written", zap.Error(failed))
	}
	return err
}

func reasonOf(err error) string {
	if cause := errors.Unwrap(err); cause != nil {
		return cause.Error()
	}
	return fmt.Sprint(err)
}

func compare(a, b []byte) int { return subtle.ConstantTimeCompare(a, b) }

func keyedHash(h string) ([]byte, bool) {
	text, ok := strings.CutPrefix(h, client.KeyedHashPrefix)
	if !ok {
		return nil, false
	}
	sum, err := client.DecodeKeyedHash(text)
	return sum, err == nil
}
