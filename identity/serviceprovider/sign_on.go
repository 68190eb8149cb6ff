package serviceprovider

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/identity/session"
	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/identity/webflow"
	"github.com/gatehouse-id/gatehouse/idp"
	"github.com/gatehouse-id/gatehouse/idp/saml/samlidp"
	"github.com/gatehouse-id/gatehouse/internal/denial"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/internal/web"
	"github.com/gatehouse-id/gatehouse/storage"
)

const (
	nameBytes = 24 // of names of requests and of people
	maxName   = 64 // characters of a name in an address
)

// errorLogout is the message about a sign-out that is refused.
const errorLogout = "error.service_provider_logout"

// never is the end of what does not end by itself.
var never time.Time

// pageError is an error page that says why, with its reason for operators.
func (s *Service) pageError(q *webflow.Request, status int, key string, why denial.Refusal, cause error) error {
	why.Status = status
	s.front.Refuse(q, why, cause)
	out := &webflow.Answer{Status: status, Key: key, Cause: cause}
	if key == errorLogout {
		out.Again, out.Label = signOutPath, "account.sign_out"
	}
	return out
}

// badRequest answers a message that cannot be believed, and any other error as it is.
func (s *Service) badRequest(q *webflow.Request, provider string, err error) error {
	if !errors.As(err, new(*idp.Invalid)) && !errors.Is(err, idp.ErrReplayed) {
		return err
	}
	return s.pageError(q, http.StatusBadRequest, badKey(q), denial.Refusal{Reason: denial.ServiceProviderRequest, ClientID: provider}, err)
}

// badKey is the message about a request that is refused: for a sign-in, or for a sign-out.
func badKey(q *webflow.Request) string {
	if q.URL.Path == logoutPath {
		return errorLogout
	}
	return "error.service_provider"
}

// unknown answers a message of a service provider that no one has registered.
func (s *Service) unknown(q *webflow.Request) error {
	return s.pageError(q, http.StatusBadRequest, badKey(q), denial.Refusal{Reason: denial.ServiceProviderUnknown}, s.unknownCause(q.Settings))
}

// unknownCause says why a service provider is unknown. It can be one whose metadata has never been read.
func (s *Service) unknownCause(u *settings.Units) error {
	const text = "no service_provider has the issuer of the message as its entity ID"
	var unread []string
	for _, m := range s.members(u) {
		if m.source.Known() == nil {
			unread = append(unread, m.ID)
		}
	}
	if len(unread) == 0 {
		return errors.New(text)
	}
	return fmt.Errorf("%s; the metadata of %s cannot be read", text, strings.Join(unread, ", "))
}

// showMetadata serves GET /sso/metadata.
func (s *Service) showMetadata(q *webflow.Request) error {
	if s.deps.KeyPair == nil {
		return webflow.NotFound()
	}
	keys, err := s.keys(q.Context())
	if err != nil {
		return err
	}
	w := samlidp.Writer{EntityID: s.entityID()}
	doc, err := w.OwnMetadata(keys, s.deps.Issuer+signOnPath, s.deps.Issuer+logoutPath, s.deps.Issuer+soapPath)
	if err != nil {
		return err
	}
	h := q.W.Header()
	h.Set("Content-Type", "application/samlmetadata+xml; charset=utf-8") // SAML metadata 4.1.1
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-cache")
	h.Set("Content-Length", strconv.Itoa(len(doc)))
	if q.Method != http.MethodHead {
		_, _ = q.W.Write(doc)
	}
	return nil
}

// receive reads a message that a browser brings.
func (s *Service) receive(q *webflow.Request) (*samlidp.Incoming, error) {
	if q.Method != http.MethodGet && q.Method != http.MethodPost {
		q.W.Header().Set("Allow", "GET, POST")
		return nil, &webflow.Answer{Status: http.StatusMethodNotAllowed, Key: "error.method"}
	}
	if s.deps.KeyPair == nil {
		return nil, webflow.NotFound()
	}
	if !s.deps.Admit(q.Request, 0) {
		return nil, webflow.ErrTooMany
	}
	q.Body = http.MaxBytesReader(q.W, q.Body, idp.MaxBody)
	in, err := samlidp.Receive(q.Request)
	if err != nil {
		return nil, s.badRequest(q, "", err)
	}
	return in, nil
}

// handleSignOn serves GET and POST /sso/saml: a service provider asks for a sign-in. The request is kept, and the
// browser continues without it. A POST from elsewhere carries no cookies, so it decides nothing.
func (s *Service) handleSignOn(q *webflow.Request) error {
	in, err := s.receive(q)
	if err != nil {
		return err
	}
	m, asked, meta, err := s.requestOf(q, in)
	if err != nil {
		return err
	}
	now := s.now()
	rec := requestRecord{
		Provider: m.ID, Entity: meta.EntityID, ID: asked.ID, Service: asked.Service.Location, Relay: in.Relay, Format: asked.Format,
		Qualifier: asked.Qualifier,
		Force:     asked.Force, Passive: asked.Passive, Comparison: asked.Comparison, Classes: asked.Classes,
		Unnamed: asked.Unnamed, CreatedAt: now,
		ExpiresAt: now.Add(webflow.FlowLife),
	}
	if named := asked.Subject; named != nil {
		rec.Subject = nameRef{named.Value, named.Format, named.Qualifier}
	}
	return s.keep(q, rec)
}

// requestOf verifies an AuthnRequest, and returns who it is from.
func (s *Service) requestOf(q *webflow.Request, in *samlidp.Incoming) (*member, *samlidp.Request, *samlidp.Metadata, error) {
	m, meta, err := s.byEntity(q.Context(), q.Settings, in.Issuer)
	if err != nil {
		return nil, nil, nil, s.failed(q, m, err)
	}
	if m == nil {
		return nil, nil, nil, s.unknown(q)
	}
	want := samlidp.Want{Destination: s.deps.Issuer + signOnPath, Signed: m.Signed, Now: s.now}
	asked, err := meta.AuthnRequest(in, want)
	if newer := m.source.Renew(q.Context(), meta, err); newer != nil {
		meta = newer
		asked, err = meta.AuthnRequest(in, want)
	}
	if err != nil {
		return nil, nil, nil, s.badRequest(q, m.ID, err)
	}
	return m, asked, meta, nil
}

// checkEntity refuses a service provider that does not count for its entity ID. It must not sign people in under that
// name, since it can ask less of them.
func (s *Service) checkEntity(q *webflow.Request, m *member, meta *samlidp.Metadata) error {
	counts, _, err := s.byEntity(q.Context(), q.Settings, meta.EntityID)
	switch {
	case counts != nil && counts.ID != m.ID:
		why := denial.Refusal{Reason: denial.ServiceProviderUnknown, ClientID: m.ID}
		return s.pageError(q, http.StatusBadRequest, "error.service_provider", why,
			errors.New("another service_provider has its entity ID: give it one of its own"))
	case err != nil:
		return s.failed(q, m, err)
	case counts == nil: // its metadata have changed just now
		return s.unknown(q)
	}
	return nil
}

// failed answers that the metadata of a service provider, or what is stored of all, cannot be read. nil: it is unknown
// which one it would be.
func (s *Service) failed(q *webflow.Request, m *member, err error) error {
	why := denial.Refusal{Reason: denial.Unavailable}
	if m != nil {
		why.ClientID = m.ID
	}
	return s.pageError(q, http.StatusServiceUnavailable, "error.service_provider_down", why, err)
}

// keep stores a request and sends the browser on to its answer.
func (s *Service) keep(q *webflow.Request, rec requestRecord) error {
	if !s.deps.Admit(q.Request, requests.Size(rec)) {
		return webflow.ErrTooMany
	}
	name, err := secret.ID(s.deps.Random, nameBytes)
	if err != nil {
		return err
	}
	err = s.deps.Store.Update(q.Context(), func(tx storage.Tx) error {
		if rec.ID != "" {
			if _, done, err := answered.Find(tx, answerKey(rec)); err != nil || done {
				if done {
					err = idp.ErrReplayed
				}
				return err
			}
		}
		if err := hold(tx, rec.Entity, rec.Provider); err != nil {
			return err
		}
		return requests.Create(tx, secret.Hash(name), rec, rec.ExpiresAt.Add(session.CollectAfter))
	})
	if err != nil {
		return s.badRequest(q, rec.Provider, err)
	}
	web.RedirectStatus(q.W, continueURL(name), http.StatusSeeOther)
	return nil
}

// hold keeps a service provider as the one that counts for an entity ID.
func hold(tx storage.Tx, entity, provider string) error {
	key := secret.Hash(entity)
	if held, _, err := holders.Find(tx, key); err != nil || held.Provider == provider {
		return err
	}
	return holders.Put(tx, key, holderRecord{provider}, time.Time{})
}

// answerKey names a request, so it is answered once.
func answerKey(rec requestRecord) string { return secret.Hash(storage.Key(rec.Entity, rec.ID)) }

func continueURL(name string) string { return continuePath + "?" + url.Values{"flow": {name}}.Encode() }

// showStart serves GET /sso/start/{id}: a sign-in that begins here. (SAML profiles 4.1.5)
func (s *Service) showStart(q *webflow.Request) error {
	m := s.byID(q.Settings, q.PathValue("id"))
	if m == nil || !m.Starts || s.deps.KeyPair == nil {
		return webflow.NotFound()
	}
	relay := q.URL.Query().Get("RelayState")
	if relay != "" && !slices.Contains(m.Relays, relay) {
		return s.pageError(q, http.StatusBadRequest, "error.service_provider",
			denial.Refusal{Reason: denial.ServiceProviderRequest, ClientID: m.ID},
			errors.New("the RelayState of the link is not one that the service provider's idp_initiated names"))
	}
	if !s.deps.Admit(q.Request, 0) {
		return webflow.ErrTooMany
	}
	meta, err := m.source.Get(q.Context())
	if err != nil {
		return s.failed(q, m, err)
	}
	if err := s.checkEntity(q, m, meta); err != nil {
		return err
	}
	now := s.now()
	return s.keep(q, requestRecord{
		Provider: m.ID, Entity: meta.EntityID, Service: meta.DefaultService().Location, Relay: relay, CreatedAt: now,
		ExpiresAt: now.Add(webflow.FlowLife),
	})
}

// open is a request that can be answered.
type open struct {
	name string
	rec  requestRecord
	m    *member
	meta *samlidp.Metadata
}

// service returns the destination of the response.
func (o *open) service() samlidp.Service { return samlidp.Service{Location: o.rec.Service} }

// openOf returns the request that an address names, while its service provider still has the place for its response.
func (s *Service) openOf(q *webflow.Request) (*open, error) {
	o := &open{name: q.URL.Query().Get("flow")}
	if o.name == "" || len(o.name) > maxName || s.deps.KeyPair == nil {
		return nil, webflow.NotFound()
	}
	err := s.deps.Store.View(q.Context(), func(tx storage.Tx) (err error) {
		o.rec, _, err = requests.Find(tx, secret.Hash(o.name))
		return err
	})
	if err != nil {
		return nil, err
	}
	if o.rec.Provider == "" || !o.rec.ExpiresAt.After(s.now()) {
		return nil, &webflow.Answer{Status: http.StatusBadRequest, Key: "error.expired"}
	}
	if o.m = s.byID(q.Settings, o.rec.Provider); o.m == nil {
		return nil, s.unknown(q)
	}
	if o.meta, err = o.m.source.Get(q.Context()); err != nil {
		return nil, s.failed(q, o.m, err)
	}
	there := slices.ContainsFunc(o.meta.Services, func(a samlidp.Service) bool { return a.Location == o.rec.Service })
	if o.meta.EntityID != o.rec.Entity || !there {
		return nil, s.unknown(q)
	}
	if err := s.checkEntity(q, o.m, o.meta); err != nil {
		return nil, err
	}
	return o, nil
}

// refuse tells the service provider why there is no sign-in. The request is answered by that.
func (s *Service) refuse(q *webflow.Request, o *open, code, detail string, why denial.Refusal, cause error) error {
	why.ClientID = o.m.ID
	s.front.Refuse(q, why, cause)
	w, err := s.writer(q.Context())
	if err != nil {
		return err
	}
	if err := s.spend(q.Context(), o); err != nil {
		return s.badRequest(q, o.m.ID, err)
	}
	next, err := w.Refuse(o.service(), o.rec.ID, o.rec.Relay, code, detail)
	if err != nil {
		return fmt.Errorf("refuse a sign-in at a service provider: %w", err)
	}
	s.deps.Log.Debug("a service provider was told why there is no sign-in", zap.String("service_provider", o.m.ID),
		zap.String("status", detail))
	s.send(q, o.m, next, false)
	return nil
}

// spend marks a request as answered.
func (s *Service) spend(ctx context.Context, o *open) error {
	return s.deps.Store.Update(ctx, func(tx storage.Tx) error { return spendIn(tx, o) })
}

// spendIn is spend within a transaction. idp.ErrReplayed: it was answered before.
func spendIn(tx storage.Tx, o *open) error {
	key := secret.Hash(o.name)
	if _, found, err := requests.Find(tx, key); err != nil || !found {
		if err == nil {
			err = idp.ErrReplayed
		}
		return err
	}
	if err := requests.Delete(tx, key); err != nil || o.rec.ID == "" {
		return err
	}
	err := answered.Create(tx, answerKey(o.rec), struct{}{}, o.rec.ExpiresAt.Add(session.CollectAfter))
	if errors.Is(err, storage.ErrExists) {
		return idp.ErrReplayed
	}
	return err
}
