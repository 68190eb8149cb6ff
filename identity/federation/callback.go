package federation

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"github.com/fxamacker/cbor/v2"
	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/identity/front"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/proof"
	"github.com/gatehouse-id/gatehouse/identity/session"
	"github.com/gatehouse-id/gatehouse/idp"
	"github.com/gatehouse-id/gatehouse/internal/cookie"
	"github.com/gatehouse-id/gatehouse/internal/login"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

const (
	// Events of refused answers cost storage, and strangers can cause them.
	refusalEventsPerSecond = 10
	refusalEventsBurst     = 100

	maxHeld = 32 << 10 // bytes
)

// callbacks are the endpoints that answers to sign-ins come to.
var callbacks = map[string]string{"saml": "acs", "oidc": "callback"}

// signOuts are the endpoints where anybody can have XML verified without that anything was begun here.
var signOuts = map[string]string{"saml": "slo"}

// handleProvider serves /saml/<id>/<op> and /oidc/<id>/<op>.
func (s *Service) handleProvider(path string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		s.serveProvider(w, r, path, r.PathValue("id"), r.PathValue("op"))
	}
}

func (s *Service) serveProvider(w http.ResponseWriter, r *http.Request, path, id, op string) {
	known, err := s.Current(r.Context())
	if err != nil {
		s.front.Fail(w, r, err, "")
		return
	}
	r.Body = http.MaxBytesReader(w, r.Body, idp.MaxBody)
	p := known.Get(id)
	if p != nil && p.Path != path {
		p = nil
	}
	if op == callbacks[path] {
		s.callback(w, r, p)
		return
	}
	if p != nil {
		if op == signOuts[path] && !s.admit(r) {
			s.front.Fail(w, r, front.ErrTooMany, "")
			return
		}
		if h, ok := p.Source.(idp.Handler); ok && h.Handle(w, r, op, &host{s, p}) {
			return
		}
	}
	s.pages.Error(w, r, http.StatusNotFound, "error.not_found", "")
}

// callback takes the answer of a provider. What is verified is kept, and the browser comes again by GET of our own origin, which brings
// the cookies that a POST from the provider's page does not. p is nil when the provider is not there or switched off.
func (s *Service) callback(w http.ResponseWriter, r *http.Request, p *Member) {
	if p == nil {
		s.pages.Error(w, r, http.StatusForbidden, "error.no_idp", "")
		return
	}
	if r.Method != http.MethodGet && r.Method != http.MethodPost {
		w.Header().Set("Allow", "GET, POST")
		s.pages.Error(w, r, http.StatusMethodNotAllowed, "error.method", "")
		return
	}
	name, err := p.redirector.FlowOf(r)
	if err != nil {
		s.invalidAnswer(w, r, "", front.FlowRecord{}, p, err)
		return
	}
	if s.postAgain(w, r) {
		return
	}
	if name == "" && !s.admit(r) { // nothing was begun here, and strangers have signatures verified
		s.front.Fail(w, r, front.ErrTooMany, "")
		return
	}
	rec, status, err := s.takeFlow(w, r, p, name)
	switch {
	case err != nil:
		s.front.Fail(w, r, err, "")
		return
	case status == http.StatusForbidden:
		s.RecordFailure(r, "", "", "an answer of "+p.Name+" came to another browser")
		s.pages.Error(w, r, status, "error.forbidden", "")
		return
	case status != 0:
		s.RecordFailure(r, "", "", "an answer of "+p.Name+" came to no sign-in")
		s.pages.Error(w, r, status, "error.expired", "/account")
		return
	}
	var f front.FlowRecord
	if rec.SignIn != "" {
		if f, err = s.front.ReadFlow(r.Context(), rec.SignIn); err != nil {
			s.front.Fail(w, r, err, "")
			return
		}
	}
	s.finish(w, r, p, name, rec, f)
}

// takeFlow uses up the flow of an answer: a second one finds nothing, however many come at once. status is that of the page when it is not to
// be had. The flow of an answer that nobody has asked for begins here.
func (s *Service) takeFlow(w http.ResponseWriter, r *http.Request, p *Member, name string) (rec providerFlowRecord, status int, err error) {
	if name == "" {
		tracker, err := s.tracker(w, r)
		now := s.now()
		return providerFlowRecord{Provider: p.ID, Tracker: secret.Hash(tracker), Answered: true, CreatedAt: now, ExpiresAt: now.Add(front.FlowLife)}, 0, err
	}
	if len(name) > 80 {
		return rec, http.StatusBadRequest, nil
	}
	key, now := secret.Hash(name), s.now()
	look := func(tx storage.Tx) error {
		status = 0
		var err error
		rec, err = ProviderFlows.Get(tx, key)
		switch {
		case errors.Is(err, storage.ErrNotFound):
			status = http.StatusBadRequest
			return nil
		case err != nil:
			return err
		case !s.tracks(r, rec.Tracker):
			status = http.StatusForbidden // and stays open for the browser that began
		case rec.Provider != p.ID || rec.Answered || !rec.ExpiresAt.After(now):
			status = http.StatusBadRequest
		}
		return nil
	}
	if err := s.store.View(r.Context(), look); err != nil || status != 0 {
		return rec, status, err // strangers cause no write
	}
	err = s.store.Update(r.Context(), func(tx storage.Tx) error {
		if err := look(tx); err != nil || status != 0 {
			return err
		}
		used := rec
		used.Answered, used.State = true, nil
		return ProviderFlows.Put(tx, key, used, rec.ExpiresAt.Add(session.CollectAfter))
	})
	return rec, status, err
}

// finish has the provider verify the answer and keeps the identity.
func (s *Service) finish(w http.ResponseWriter, r *http.Request, p *Member, name string, rec providerFlowRecord, f front.FlowRecord) {
	id, err := s.verifyAnswer(r, p, name, rec)
	rejection, invalid := new(idp.Rejection), new(idp.Invalid)
	switch {
	case err == nil:
	case errors.As(err, &rejection):
		s.rejected(w, r, p, f, rejection)
		return
	case errors.As(err, &invalid), errors.Is(err, idp.ErrReplayed):
		s.invalidAnswer(w, r, rec.SignIn, f, p, err)
		return
	case rec.SignIn == "" || isOurs(err):
		s.front.Fail(w, r, err, "")
		return
	default:
		s.unreachableProvider(w, r, rec.SignIn, f, p, &providerError{err})
		return
	}
	if name == "" {
		if name, err = secret.ID(s.random, flowNameBytes); err != nil {
			s.front.Fail(w, r, err, "")
			return
		}
	}
	key := secret.Hash(name)
	raw, err := cbor.Marshal(id)
	if err == nil {
		rec.Identity, err = s.Seal("identity", key, raw)
	}
	rec.Answered, rec.State = true, nil
	if err == nil {
		err = s.store.Update(r.Context(), func(tx storage.Tx) error {
			return ProviderFlows.Put(tx, key, rec, rec.ExpiresAt.Add(session.CollectAfter))
		})
	}
	if err != nil {
		s.front.Fail(w, r, err, "")
		return
	}
	s.onward(w, r, f.Demand.Client.Name, "/sign-in/provider/done?flow="+name)
}

// isOurs tells whether it is our storage that fails, and not the provider.
func isOurs(err error) bool {
	return errors.Is(err, storage.ErrUnavailable) || errors.Is(err, storage.ErrFull) || errors.Is(err, storage.ErrCorrupt) || errors.Is(err, secret.ErrSealed)
}

// verifyAnswer returns the identity that the answer proves, judged by what holds for all providers.
func (s *Service) verifyAnswer(r *http.Request, p *Member, name string, rec providerFlowRecord) (*idp.Identity, error) {
	var state []byte
	if rec.SignIn != "" {
		var err error
		if state, err = s.Unseal("flow", secret.Hash(name), rec.State); err != nil {
			return nil, err
		}
	}
	ctx, cancel := context.WithTimeout(r.Context(), p.Timeout)
	defer cancel()
	id, err := p.redirector.Finish(ctx, state, r)
	if err != nil {
		return nil, err
	}
	switch {
	case id.Subject == "" || !person.IsText(id.Subject, idp.MaxSubject) || !person.IsText(id.Issuer, idp.MaxSubject):
		return nil, &idp.Invalid{Reason: "the subject is empty, too long or no text"}
	case len(id.Held) > maxHeld:
		return nil, &idp.Invalid{Reason: "the provider holds too much"}
	case !id.NotAfter.IsZero() && !id.NotAfter.After(s.now()):
		return nil, &idp.Invalid{Reason: "the session at the provider has ended"}
	}
	own := *id
	own.Level = min(max(id.Level, 1), 4)
	return &own, nil
}

// rejected tells whoever asked that the provider has signed nobody in. (token server document, "Authorization error extension fields")
func (s *Service) rejected(w http.ResponseWriter, r *http.Request, p *Member, f front.FlowRecord, why *idp.Rejection) {
	s.log.Info("sign-in refused by the provider", zap.String("provider", p.ID), zap.String("client_ip", s.origin(r).ClientIP), zap.NamedError("cause", why))
	s.RecordFailure(r, f.Demand.Client.ID, "", "refused by "+p.Name+": "+why.Reason)
	refusal := &login.Refusal{Code: "access_denied", Reason: "the identity provider has signed nobody in", SAMLStatus: why.SAMLStatus, Cause: why.Cause}
	if why.Passive || f.Demand.Passive {
		refusal.Code = "login_required"
	}
	s.refuseFlow(w, r, f, refusal)
}

// invalidAnswer writes the one page for every answer that is not to be believed.
func (s *Service) invalidAnswer(w http.ResponseWriter, r *http.Request, id string, f front.FlowRecord, p *Member, err error) {
	s.log.Info("answer of a provider refused", zap.String("provider", p.ID), zap.String("client_ip", s.origin(r).ClientIP), zap.NamedError("cause", err))
	s.RecordFailure(r, f.Demand.Client.ID, "", "an answer of "+p.Name+" was refused")
	if f.Demand.Passive && f.Demand.Client.ID != "" {
		s.refuseFlow(w, r, f, &login.Refusal{Code: "login_required", Reason: "the answer of the identity provider was refused"})
		return
	}
	again := ""
	if id != "" && s.jar.SameBrowser(r, f.Browser) {
		again = front.FlowURL(id) + "&choose=1"
	}
	s.pages.Error(w, r, http.StatusBadRequest, "error.answer", again)
}

// RecordFailure writes the event of a sign-in that failed, as far as there are not too many.
func (s *Service) RecordFailure(r *http.Request, client, person, reason string) {
	if !s.refused.AllowN(s.now(), 1) {
		return
	}
	ev, err := s.person.NewEvents(s.origin(r), proof.LoginFailed)
	if err == nil {
		e := ev[0]
		e.PersonID, e.ClientID, e.Reason = person, client, reason
		err = s.store.Update(context.WithoutCancel(r.Context()), func(tx storage.Tx) error { return s.events.Append(tx, e) })
	}
	if err != nil {
		s.log.Error("event not written", zap.Error(err))
	}
}

// Answer is the flow of a provider whose identity is verified and not used yet.
type Answer struct {
	Name     string
	Rec      providerFlowRecord
	Known    *Registry
	Provider *Member
	Identity *idp.Identity
	// signIn is the sign-in that asked, with its id. For an answer that nobody has asked for it leads to the account page.
	SignIn string
	Flow   front.FlowRecord
}

// ReadAnswered returns the flow that the request names; otherwise it has written the answer and is not ok.
func (s *Service) ReadAnswered(w http.ResponseWriter, r *http.Request) (a *Answer, ok bool) {
	a = &Answer{Name: r.URL.Query().Get("flow")}
	key := secret.Hash(a.Name)
	err := s.store.View(r.Context(), func(tx storage.Tx) (err error) {
		a.Rec, err = ProviderFlows.Get(tx, key)
		return err
	})
	known, listErr := s.Current(r.Context())
	switch {
	case errors.Is(err, storage.ErrNotFound) || (err == nil && (a.Rec.Identity == nil || !a.Rec.ExpiresAt.After(s.now()))):
		s.pages.Error(w, r, http.StatusBadRequest, "error.expired", "/account")
		return nil, false
	case err == nil && listErr != nil:
		err = listErr
	}
	if err != nil {
		s.front.Fail(w, r, err, "")
		return nil, false
	}
	if !s.tracks(r, a.Rec.Tracker) {
		s.pages.Error(w, r, http.StatusForbidden, "error.forbidden", "")
		return nil, false
	}
	a.Known = known
	if a.Provider = known.Get(a.Rec.Provider); a.Provider == nil { // switched off meanwhile
		s.pages.Error(w, r, http.StatusForbidden, "error.no_idp", "")
		return nil, false
	}
	raw, err := s.Unseal("identity", key, a.Rec.Identity)
	if err == nil {
		a.Identity = new(idp.Identity)
		err = cbor.Unmarshal(raw, a.Identity)
		if a.Provider.VerifiesEmail {
			believe(a.Identity)
		}
	}
	if err != nil {
		s.front.Fail(w, r, err, "")
		return nil, false
	}
	a.Flow.Demand = login.Demand{MaxAge: -1, Return: "/sign-in"} // which leads on, for nothing in particular
	if a.Rec.SignIn != "" {
		if a.SignIn, a.Flow, ok = s.front.FlowOf(w, r, a.Rec.SignIn); !ok {
			return nil, false
		}
		if known.Ways(a.Flow.Demand).Find(a.Provider.ID) == nil {
			s.pages.Error(w, r, http.StatusForbidden, "error.no_idp", "")
			return nil, false
		}
	}
	if why := s.unfit(a, known.Reach); why != nil {
		s.RecordFailure(r, a.Flow.Demand.Client.ID, "", a.Provider.Name+": "+why.Reason)
		s.refuseFlow(w, r, a.Flow, why)
		return nil, false
	}
	return a, true
}

// Key is the key in identities of the identity.
func (a *Answer) Key() string { return person.IdentityKey(a.Provider.ID, a.Identity) }

// unfit tells why a sign-in at the provider is older or weaker than what was asked for and what can be stepped up to from it, or is nil. Providers do not all do what they are told.
func (s *Service) unfit(a *Answer, reach int) *login.Refusal {
	at, d, began := a.Identity.AuthTime, a.Flow.Demand, a.Rec.CreatedAt
	const skew = providerSkew
	tooOld := isForced(d) && at.Add(skew).Before(began)
	switch {
	case !at.IsZero() && (tooOld || (d.MaxAge >= 0 && began.Sub(at) > d.MaxAge+skew)):
		return &login.Refusal{Code: "login_required", Reason: "the identity provider has not asked the person again"}
	case max(a.Identity.Level, reach) < d.Level:
		return unreachableAt(d)
	}
	return nil
}

// BrowserID returns the value of the cookie that binds flows.
func (s *Service) BrowserID(r *http.Request) string { return s.jar.Get(r, cookie.KindBrowser) }

// emailDomain returns the domain of a username that is an e-mail address, in lower case.
func emailDomain(username string) string {
	_, domain, ok := strings.Cut(username, "@")
	if !ok || strings.Contains(domain, "@") {
		return ""
	}
	return strings.ToLower(domain)
}
