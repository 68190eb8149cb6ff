package clientstore

import (
	"context"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/authz/cimd"
	"github.com/gatehouse-id/gatehouse/authz/client"
	"github.com/gatehouse-id/gatehouse/authz/oauth"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/authn"
	"github.com/gatehouse-id/gatehouse/internal/denial"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

// How often failed authentications become events: an event is a synced write, and strangers must not cause many of
// them.
const (
	failureEventsPerSecond = 5
	failureEventsBurst     = 50
	verdictTime            = 5 * time.Second
)

// identification are the credentials of a caller.
type identification struct {
	id, secret string
	method     string // one of those below, or private_key_jwt; then secret is the assertion
}

const (
	methodBasic = "basic"
	methodPost  = "post"
	methodNone  = "none"
)

var (
	errNoCredentials = denial.New(denial.NoCredentials, "credentials are missing or malformed")
	errAssertion     = errors.New("the client assertion is invalid")
	errReplayed      = errors.New("the client assertion was used before")
	errUnknownClient = denial.New(denial.ClientUnknown, "unknown client")
	errDisabled      = denial.New(denial.ClientDisabled, "the client is disabled")
	errSecret        = denial.New(denial.ClientSecret, "wrong secret")
	errMethod        = errors.New("another authentication method than the client's")
)

// verdictContext outlives a caller who hangs up, who must not get around the verdict and its event.
func verdictContext(req *http.Request) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(req.Context()), verdictTime)
}

// Authenticate returns the client that sent the request. (RFC 6749 2.3, 3.2.1; token server document, "Authentication")
func (r *Registry) Authenticate(req *http.Request, f oauth.Form) (*client.Client, error) {
	c, err := r.authenticate(req, f)
	if err == nil && !c.Public {
		r.noteCall(r.deps.ClientCalled, req, c.ID)
	}
	return c, err
}

func (r *Registry) authenticate(req *http.Request, f oauth.Form) (*client.Client, error) {
	readings, err := r.readCredentials(req.Header, f)
	if err != nil {
		return nil, r.refuseClient(req, readings[0].id, err)
	}
	if r.docs.Takes(readings[0].id) {
		req = req.WithContext(cimd.Asking(req.Context(), r.deps.Origin(req).ClientIP, f.Get("grant_type") == client.GrantRefreshToken))
	}
	if p := readings[0]; p.method == client.MethodWorkload {
		ctx, cancel := verdictContext(req)
		defer cancel()
		w, err := r.workload(ctx, p.id, p.secret)
		if errors.As(err, new(*oauth.Error)) || err == nil {
			return w.client(), r.refuseClient(req, p.id, err)
		}
		return nil, r.refuseClient(req, p.id, oauth.InvalidClient(fmt.Errorf("%w: %w", errAssertion, err)))
	} else if p.method == client.MethodPrivateKey {
		ctx, cancel := verdictContext(req)
		defer cancel()
		c, err := r.authenticateByKey(ctx, p)
		return c, r.refuseClient(req, p.id, err)
	}
	var refused error
	id := readings[0].id
	for _, p := range readings {
		c, why, err := r.authenticateBySecret(req, p)
		if err != nil {
			return nil, err
		}
		if why == nil {
			return c, nil
		}
		if refused == nil || errors.Is(refused, errUnknownClient) {
			refused, id = why, p.id
		}
	}
	return nil, r.refuseClient(req, id, oauth.InvalidClient(refused))
}

// authenticateBySecret returns a client by its secret, or a public one by its id, or why it is refused. An error is a
// failure, not a verdict. No slow hash is computed for a caller that has gone.
func (r *Registry) authenticateBySecret(req *http.Request, p identification) (c *client.Client, refused, err error) {
	reg := r.fixed[p.id] // without a context: it costs no View
	if reg == nil {
		ctx, cancel := verdictContext(req)
		defer cancel()
		if reg, err = r.lookup(ctx, p.id); err != nil {
			return nil, nil, err
		}
	}
	known, against := reg != nil, r.checks.decoy
	if known {
		against = reg.credential
	}
	// An unknown client is compared too, so timing does not reveal which clients exist.
	right, err := r.checks.check(req, against, "client", p.id, p.secret)
	if err == nil && !right && r.fixed[p.id] != nil {
		err = r.costLookup(req)
	}
	if err != nil {
		return nil, nil, cannotCheck(err)
	}
	switch {
	case !known:
		return nil, errUnknownClient, nil
	case reg.client.Disabled:
		return nil, errDisabled, nil
	case reg.client.UsesCertificate() && p.method == methodNone:
		refused, err = r.checkCertificate(req, reg.client)
		return reg.client, refused, err
	case reg.client.IsWithoutSecret():
		return nil, errMethod, nil
	case reg.client.Public != (p.method == methodNone): // a confidential client is never let in by its name alone
		return nil, errMethod, nil
	case p.method == methodPost && reg.client.AuthMethod == methodBasic:
		return nil, errMethod, nil
	case p.method != methodNone && !right:
		return nil, errSecret, nil
	case right && r.checks.renewed(p.id, p.secret, reg.client.SecretHashes) != nil:
		r.renewHash(req, p)
	}
	return reg.client, nil, nil
}

// lookup is read outside a transaction. A client of the configuration costs no View.
func (r *Registry) lookup(ctx context.Context, id string) (reg *entry[client.Client], err error) {
	if reg = r.fixed[id]; reg != nil {
		return reg, nil
	}
	documented := r.docs.Takes(id)
	if documented {
		if reg := r.ready.find(ctx, id, r.docs); reg != nil {
			return reg, nil
		}
	}
	err = r.view(ctx, func(tx storage.Tx) (err error) {
		reg, err = r.read(tx, id)
		return err
	})
	if err == nil && documented && (reg == nil || reg.client.Document != nil) {
		return r.fromDocument(ctx, id, reg)
	}
	return reg, err
}

// costLookup makes a wrong secret of a client of the configuration as expensive as an unknown client, which was looked
// up in storage.
func (r *Registry) costLookup(req *http.Request) error {
	ctx, cancel := verdictContext(req)
	defer cancel()
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

// readCredentials finds the one way in which a request authenticates its client. Basic credentials can have two
// readings. With an error there is one, of which only the id can be set.
func (r *Registry) readCredentials(h http.Header, f oauth.Form) ([]identification, error) {
	headers := h.Values("Authorization")
	posted := f.Has("client_secret")
	asserted := f.Has("client_assertion") || f.Has("client_assertion_type")
	ways := len(headers)
	for _, way := range []bool{posted, asserted} {
		if way {
			ways++
		}
	}
	none := []identification{{}}
	if ways > 1 {
		return none, oauth.InvalidRequest(nil, "more than one way of client authentication") // RFC 6749 2.3
	}
	switch {
	case len(headers) == 1:
		readings, err := basicReadings(headers[0])
		if err != nil {
			return none, err
		}
		if f.Has("client_id") {
			readings = slices.DeleteFunc(readings, func(p identification) bool { return p.id != f.Get("client_id") })
		}
		if len(readings) == 0 {
			return none, oauth.InvalidRequest(nil, "client_id is not the authenticated client")
		}
		return readings, nil
	case posted:
		return []identification{{id: f.Get("client_id"), secret: f.Get("client_secret"), method: methodPost}}, nil
	case asserted:
		p, err := r.readAssertion(f)
		return []identification{p}, err
	case f.Has("client_id"):
		return []identification{{id: f.Get("client_id"), method: methodNone}}, nil
	}
	return none, oauth.InvalidRequest(errNoCredentials, "client authentication or client_id is missing")
}

// basicReadings returns what the Basic credentials of an OAuth client can mean: form values (RFC 6749 2.3.1), and the
// bytes as they are, which curl and many libraries send. Either way they must be the secret of that very client, so no
// client becomes another.
func basicReadings(header string) ([]identification, error) {
	text, err := basicText(header)
	if err != nil {
		return nil, err
	}
	decoded, err := basicCredentials(text, true)
	if !hasFormEncoding(text) { // the other reading is the same
		return []identification{decoded}, err
	}
	var out []identification
	if err == nil {
		out = append(out, decoded)
	}
	if raw, failed := basicCredentials(text, false); failed == nil && raw != decoded {
		out = append(out, raw)
	}
	if len(out) == 0 {
		return nil, err
	}
	return out, nil
}

// hasFormEncoding reports whether text can mean something else as a form value.
func hasFormEncoding(text string) bool { return strings.ContainsAny(text, "%+") }

var strictBase64 = base64.StdEncoding.Strict()

// basicText returns what the header of HTTP Basic (RFC 7617) encodes.
func basicText(header string) (string, error) {
	scheme, encoded, _ := strings.Cut(header, " ")
	if !strings.EqualFold(scheme, "Basic") {
		return "", oauth.InvalidClient(errNoCredentials)
	}
	if strings.Contains(encoded, ",") {
		// Two headers that a proxy has joined.
		return "", oauth.InvalidRequest(nil, "more than one way of client authentication")
	}
	var room [256]byte
	raw, err := strictBase64.AppendDecode(room[:0], []byte(strings.TrimLeft(encoded, " ")))
	if err != nil || strings.ContainsAny(encoded, "\r\n") {
		return "", oauth.InvalidClient(errNoCredentials)
	}
	return string(raw), nil
}

// basicCredentials reads id and password, as form values or as they are.
func basicCredentials(text string, formEncoded bool) (identification, error) {
	id, password, ok := strings.Cut(text, ":")
	if !ok || id == "" || password == "" {
		return identification{}, oauth.InvalidClient(errNoCredentials)
	}
	if formEncoded {
		var err error
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
	return identification{id: id, secret: password, method: methodBasic}, nil
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
	text, err := basicText(headers[0])
	if err != nil {
		return nil, r.refuseClient(req, "", err)
	}
	p, err := basicCredentials(text, false)
	if err != nil {
		return nil, r.refuseClient(req, "", err)
	}
	reg, right, err := r.checkAPI(req, p)
	if err == nil && !right && hasFormEncoding(text) {
		// The document says only HTTP Basic. Libraries for OAuth clients encode id and secret as form values all the
		// same (RFC 6749 2.3.1), so credentials that are wrong as they stand are decoded and checked again. Either way
		// they must be the secret of that API client.
		if q, encoded := basicCredentials(text, true); encoded == nil && q != p {
			p = q
			reg, right, err = r.checkAPI(req, p)
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
		r.noteCall(r.deps.Called, req, reg.client.ID)
		if err := r.belong(req, reg.client.ID, api); err != nil {
			return nil, err
		}
		return reg.client, nil
	}
	if api == "introspection" && r.isOAuthClient(req, p) {
		return nil, r.refuseClient(req, p.id,
			oauth.InvalidClientFor(err, "only an api_client can introspect, and "+oauth.Quoted(p.id)+" is a client"))
	}
	return nil, r.refuseClient(req, p.id, oauth.InvalidClient(err))
}

// isOAuthClient reports whether the credentials of a caller that is no API client are those of a client with a secret.
func (r *Registry) isOAuthClient(req *http.Request, p identification) bool {
	p.method = methodBasic
	c, refused, err := r.authenticateBySecret(req, p)
	return err == nil && refused == nil && c != nil
}

// noteCall says that a client has called. called nil: nothing is noted
func (r *Registry) noteCall(called func(id, address string), req *http.Request, id string) {
	if called != nil {
		called(id, r.deps.Origin(req).ClientIP)
	}
}

// belong says for the request that the API client belongs to an organisation, so its events name it. Introspection is
// so frequent that it is not asked for: it has no event.
func (r *Registry) belong(req *http.Request, id, api string) error {
	if r.deps.OrganisationOf == nil || api == "introspection" {
		return nil
	}
	organisation, err := r.deps.OrganisationOf(req.Context(), id)
	if errors.Is(err, authn.ErrNotAllowed) {
		return &oauth.Error{
			Status: http.StatusForbidden, Code: "access_denied",
			Description: "the organisation of the API client does not exist any more", Cause: err,
		}
	}
	if err == nil && organisation != "" {
		audit.Belongs(req, organisation)
	}
	return err
}

// APIClients returns the API clients without their secrets, in the order of their ids.
func (r *Registry) APIClients() (out []client.APIClient) {
	for _, id := range slices.Sorted(maps.Keys(r.apis)) {
		c := *r.apis[id].client
		c.Secrets, c.SecretHashes = nil, nil
		out = append(out, c)
	}
	return out
}

// AuthorizeAPI returns the id of the API client whose Basic credentials a request to an API of another package carries,
// if it is allowed that API. Errors: authn.ErrNoCredentials, authn.ErrNotAllowed. Any other error is a failure, not a
// verdict.
func (r *Registry) AuthorizeAPI(req *http.Request, api string) (client string, err error) {
	c, err := r.AuthenticateAPI(req, api)
	if err == nil {
		return c.ID, nil
	}
	if e := new(oauth.Error); errors.As(err, &e) {
		switch e.Status {
		case http.StatusBadRequest, http.StatusUnauthorized:
			return "", fmt.Errorf("%w: %w", authn.ErrNoCredentials, err)
		case http.StatusForbidden:
			return "", fmt.Errorf("%w: %w", authn.ErrNotAllowed, err)
		}
	}
	return "", err
}

// defaultMaxLevel is the level of a second factor that is not one of the strongest.
const defaultMaxLevel = 2

// MaxLevelOf returns the highest level of sign-ins that an API client can make tokens for.
func (r *Registry) MaxLevelOf(apiClient string) int {
	if reg := r.apis[apiClient]; reg != nil && reg.client.MaxLevel > 0 {
		return reg.client.MaxLevel
	}
	return defaultMaxLevel
}

// PartitionsOf returns the partitions that an API client is limited to. None: all.
func (r *Registry) PartitionsOf(apiClient string) []string {
	if reg := r.apis[apiClient]; reg != nil {
		return reg.client.Partitions
	}
	return nil
}

// HasAPI reports whether an API client can use an API.
func (r *Registry) HasAPI(apiClient, api string) bool {
	reg := r.apis[apiClient]
	return reg != nil && !reg.client.Disabled && slices.Contains(reg.client.APIs, api)
}

// checkAPI finds an API client (nil: unknown) and reports whether the secret is its own. API clients stand in the
// configuration alone, so neither a known nor an unknown one costs a read.
func (r *Registry) checkAPI(req *http.Request, p identification) (reg *entry[client.APIClient], right bool, err error) {
	reg = r.apis[p.id]
	against := r.checks.decoy
	if reg != nil {
		against = reg.credential
	}
	right, err = r.checks.check(req, against, "api_client", p.id, p.secret)
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
	if client.CheckID(id) == nil {
		denial.Learn(req.Context(), func(f *denial.Refusal) { f.ClientID = id })
	}
	if e := new(oauth.Error); !errors.As(err, &e) || e.Status != http.StatusUnauthorized {
		return err
	}
	return r.noteFailure(req, id, err)
}

// noteFailure is refuseClient for any refusal.
func (r *Registry) noteFailure(req *http.Request, id string, err error) error {
	if !r.failures.AllowN(r.deps.Now(), 1) {
		return err
	}
	e, failed := r.deps.Events.New(eventClientAuthFailed, r.deps.Origin(req))
	if failed == nil {
		if client.CheckID(id) == nil { // otherwise it is no client's
			e.ClientID, e.Actor = id, id
		}
		e.Reason, e.Ref = reasonOf(err), denial.RefOf(req.Context())
		ctx, cancel := verdictContext(req)
		defer cancel()
		failed = r.deps.Store.Update(ctx, func(tx storage.Tx) error { return r.deps.Events.Append(tx, e) })
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
