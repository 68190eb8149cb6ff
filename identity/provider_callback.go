package identity

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/fxamacker/cbor/v2"
	"go.uber.org/zap"

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
	known, err := s.providers(r.Context())
	if err != nil {
		s.fail(w, r, err, "")
		return
	}
	r.Body = http.MaxBytesReader(w, r.Body, idp.MaxBody)
	p := known.get(id)
	if p != nil && p.Path != path {
		p = nil
	}
	if op == callbacks[path] {
		s.callback(w, r, p)
		return
	}
	if p != nil {
		if op == signOuts[path] && !s.Admit(r) {
			s.fail(w, r, errTooMany, "")
			return
		}
		if h, ok := p.Source.(idp.Handler); ok && h.Handle(w, r, op, &host{s, p}) {
			return
		}
	}
	s.Pages.Error(w, r, http.StatusNotFound, "error.not_found", "")
}

// callback takes the answer of a provider. What is verified is kept, and the browser comes again by GET of our own origin, which brings
// the cookies that a POST from the provider's page does not. p is nil when the provider is not there or switched off.
func (s *Service) callback(w http.ResponseWriter, r *http.Request, p *registered) {
	if p == nil {
		s.Pages.Error(w, r, http.StatusForbidden, "error.no_idp", "")
		return
	}
	if r.Method != http.MethodGet && r.Method != http.MethodPost {
		w.Header().Set("Allow", "GET, POST")
		s.Pages.Error(w, r, http.StatusMethodNotAllowed, "error.method", "")
		return
	}
	name, err := p.redirector.FlowOf(r)
	if err != nil {
		s.invalidAnswer(w, r, "", flowRecord{}, p, err)
		return
	}
	if s.postAgain(w, r) {
		return
	}
	if name == "" && !s.Admit(r) { // nothing was begun here, and strangers have signatures verified
		s.fail(w, r, errTooMany, "")
		return
	}
	rec, status, err := s.takeFlow(w, r, p, name)
	switch {
	case err != nil:
		s.fail(w, r, err, "")
		return
	case status == http.StatusForbidden:
		s.recordFailure(r, "", "", "an answer of "+p.Name+" came to another browser")
		s.Pages.Error(w, r, status, "error.forbidden", "")
		return
	case status != 0:
		s.recordFailure(r, "", "", "an answer of "+p.Name+" came to no sign-in")
		s.Pages.Error(w, r, status, "error.expired", "/account")
		return
	}
	var f flowRecord
	if rec.SignIn != "" {
		if f, err = s.readFlow(r.Context(), rec.SignIn); err != nil {
			s.fail(w, r, err, "")
			return
		}
	}
	s.finish(w, r, p, name, rec, f)
}

// takeFlow uses up the flow of an answer: a second one finds nothing, however many come at once. status is that of the page when it is not to
// be had. The flow of an answer that nobody has asked for begins here.
func (s *Service) takeFlow(w http.ResponseWriter, r *http.Request, p *registered, name string) (rec providerFlowRecord, status int, err error) {
	if name == "" {
		tracker, err := s.tracker(w, r)
		now := s.Now()
		return providerFlowRecord{Provider: p.ID, Tracker: secret.Hash(tracker), Answered: true, CreatedAt: now, ExpiresAt: now.Add(flowLife)}, 0, err
	}
	if len(name) > 80 {
		return rec, http.StatusBadRequest, nil
	}
	key, now := secret.Hash(name), s.Now()
	look := func(tx storage.Tx) error {
		status = 0
		var err error
		rec, err = providerFlows.Get(tx, key)
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
	if err := s.Store.View(r.Context(), look); err != nil || status != 0 {
		return rec, status, err // strangers cause no write
	}
	err = s.Store.Update(r.Context(), func(tx storage.Tx) error {
		if err := look(tx); err != nil || status != 0 {
			return err
		}
		used := rec
		used.Answered, used.State = true, nil
		return providerFlows.Put(tx, key, used, rec.ExpiresAt.Add(collectAfter))
	})
	return rec, status, err
}

// finish has the provider verify the answer and keeps the identity.
func (s *Service) finish(w http.ResponseWriter, r *http.Request, p *registered, name string, rec providerFlowRecord, f flowRecord) {
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
		s.fail(w, r, err, "")
		return
	default:
		s.unreachableProvider(w, r, rec.SignIn, f, p, &providerError{err})
		return
	}
	if name == "" {
		if name, err = secret.ID(s.Random, flowNameBytes); err != nil {
			s.fail(w, r, err, "")
			return
		}
	}
	key := secret.Hash(name)
	raw, err := cbor.Marshal(id)
	if err == nil {
		rec.Identity, err = s.seal("identity", key, raw)
	}
	rec.Answered, rec.State = true, nil
	if err == nil {
		err = s.Store.Update(r.Context(), func(tx storage.Tx) error {
			return providerFlows.Put(tx, key, rec, rec.ExpiresAt.Add(collectAfter))
		})
	}
	if err != nil {
		s.fail(w, r, err, "")
		return
	}
	s.onward(w, r, f.Demand.Client.Name, "/sign-in/provider/done?flow="+name)
}

// isOurs tells whether it is our storage that fails, and not the provider.
func isOurs(err error) bool {
	return errors.Is(err, storage.ErrUnavailable) || errors.Is(err, storage.ErrFull) || errors.Is(err, storage.ErrCorrupt) || errors.Is(err, secret.ErrSealed)
}

// verifyAnswer returns the identity that the answer proves, judged by what holds for all providers.
func (s *Service) verifyAnswer(r *http.Request, p *registered, name string, rec providerFlowRecord) (*idp.Identity, error) {
	var state []byte
	if rec.SignIn != "" {
		var err error
		if state, err = s.unseal("flow", secret.Hash(name), rec.State); err != nil {
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
	case id.Subject == "" || !isText(id.Subject, idp.MaxSubject) || !isText(id.Issuer, idp.MaxSubject):
		return nil, &idp.Invalid{Reason: "the subject is empty, too long or no text"}
	case len(id.Held) > maxHeld:
		return nil, &idp.Invalid{Reason: "the provider holds too much"}
	case !id.NotAfter.IsZero() && !id.NotAfter.After(s.Now()):
		return nil, &idp.Invalid{Reason: "the session at the provider has ended"}
	}
	own := *id
	own.Level = min(max(id.Level, 1), 4)
	return &own, nil
}

// rejected tells whoever asked that the provider has signed nobody in. (token server document, "Authorization error extension fields")
func (s *Service) rejected(w http.ResponseWriter, r *http.Request, p *registered, f flowRecord, why *idp.Rejection) {
	s.Log.Info("sign-in refused by the provider", zap.String("provider", p.ID), zap.String("client_ip", s.Origin(r).ClientIP), zap.NamedError("cause", why))
	s.recordFailure(r, f.Demand.Client.ID, "", "refused by "+p.Name+": "+why.Reason)
	refusal := &login.Refusal{Code: "access_denied", Reason: "the identity provider has signed nobody in", SAMLStatus: why.SAMLStatus, Cause: why.Cause}
	if why.Passive || f.Demand.Passive {
		refusal.Code = "login_required"
	}
	s.refuseFlow(w, r, f, refusal)
}

// invalidAnswer writes the one page for every answer that is not to be believed.
func (s *Service) invalidAnswer(w http.ResponseWriter, r *http.Request, id string, f flowRecord, p *registered, err error) {
	s.Log.Info("answer of a provider refused", zap.String("provider", p.ID), zap.String("client_ip", s.Origin(r).ClientIP), zap.NamedError("cause", err))
	s.recordFailure(r, f.Demand.Client.ID, "", "an answer of "+p.Name+" was refused")
	if f.Demand.Passive && f.Demand.Client.ID != "" {
		s.refuseFlow(w, r, f, &login.Refusal{Code: "login_required", Reason: "the answer of the identity provider was refused"})
		return
	}
	again := ""
	if id != "" && s.jar.SameBrowser(r, f.Browser) {
		again = flowURL(id) + "&choose=1"
	}
	s.Pages.Error(w, r, http.StatusBadRequest, "error.answer", again)
}

// recordFailure writes the event of a sign-in that failed, as far as there are not too many.
func (s *Service) recordFailure(r *http.Request, client, person, reason string) {
	if !s.refused.AllowN(s.Now(), 1) {
		return
	}
	ev, err := s.newEvents(s.Origin(r), loginFailed)
	if err == nil {
		e := ev[0]
		e.PersonID, e.ClientID, e.Reason = person, client, reason
		err = s.Store.Update(context.WithoutCancel(r.Context()), func(tx storage.Tx) error { return s.Events.Append(tx, e) })
	}
	if err != nil {
		s.Log.Error("event not written", zap.Error(err))
	}
}

// answered is the flow of a provider whose identity is verified and not used yet.
type answered struct {
	name     string
	rec      providerFlowRecord
	known    *registry
	provider *registered
	identity *idp.Identity
	// signIn is the sign-in that asked, with its id. For an answer that nobody has asked for it leads to the account page.
	signIn string
	flow   flowRecord
}

// readAnswered returns the flow that the request names; otherwise it has written the answer and is not ok.
func (s *Service) readAnswered(w http.ResponseWriter, r *http.Request) (a *answered, ok bool) {
	a = &answered{name: r.URL.Query().Get("flow")}
	key := secret.Hash(a.name)
	err := s.Store.View(r.Context(), func(tx storage.Tx) (err error) {
		a.rec, err = providerFlows.Get(tx, key)
		return err
	})
	known, listErr := s.providers(r.Context())
	switch {
	case errors.Is(err, storage.ErrNotFound) || (err == nil && (a.rec.Identity == nil || !a.rec.ExpiresAt.After(s.Now()))):
		s.Pages.Error(w, r, http.StatusBadRequest, "error.expired", "/account")
		return nil, false
	case err == nil && listErr != nil:
		err = listErr
	}
	if err != nil {
		s.fail(w, r, err, "")
		return nil, false
	}
	if !s.tracks(r, a.rec.Tracker) {
		s.Pages.Error(w, r, http.StatusForbidden, "error.forbidden", "")
		return nil, false
	}
	a.known = known
	if a.provider = known.get(a.rec.Provider); a.provider == nil { // switched off meanwhile
		s.Pages.Error(w, r, http.StatusForbidden, "error.no_idp", "")
		return nil, false
	}
	raw, err := s.unseal("identity", key, a.rec.Identity)
	if err == nil {
		a.identity = new(idp.Identity)
		err = cbor.Unmarshal(raw, a.identity)
		if a.provider.VerifiesEmail {
			believe(a.identity)
		}
	}
	if err != nil {
		s.fail(w, r, err, "")
		return nil, false
	}
	a.flow.Demand = login.Demand{MaxAge: -1, Return: "/sign-in"} // which leads on, for nothing in particular
	if a.rec.SignIn != "" {
		if a.signIn, a.flow, ok = s.flowOf(w, r, a.rec.SignIn); !ok {
			return nil, false
		}
		if known.ways(a.flow.Demand).find(a.provider.ID) == nil {
			s.Pages.Error(w, r, http.StatusForbidden, "error.no_idp", "")
			return nil, false
		}
	}
	if why := s.unfit(a, known.reach); why != nil {
		s.recordFailure(r, a.flow.Demand.Client.ID, "", a.provider.Name+": "+why.Reason)
		s.refuseFlow(w, r, a.flow, why)
		return nil, false
	}
	return a, true
}

// key is the key in identities of the identity.
func (a *answered) key() string { return identityKey(a.provider.ID, a.identity) }

// identityKey is by issuer and subject exactly; without an issuer by the subject regardless of case.
func identityKey(providerID string, id *idp.Identity) string {
	if id.Issuer == "" {
		if folded, err := fold(id.Subject); err == nil {
			return externalKey(providerID, folded)
		}
	}
	return storage.Key(providerID, secret.Hash(id.Issuer+"\x00"+id.Subject))
}

// unfit tells why a sign-in at the provider is older or weaker than what was asked for and what can be stepped up to from it, or is nil. Providers do not all do what they are told.
func (s *Service) unfit(a *answered, reach int) *login.Refusal {
	at, d, began := a.identity.AuthTime, a.flow.Demand, a.rec.CreatedAt
	const skew = providerSkew
	tooOld := isForced(d) && at.Add(skew).Before(began)
	switch {
	case !at.IsZero() && (tooOld || (d.MaxAge >= 0 && began.Sub(at) > d.MaxAge+skew)):
		return &login.Refusal{Code: "login_required", Reason: "the identity provider has not asked the person again"}
	case max(a.identity.Level, reach) < d.Level:
		return unreachableAt(d)
	}
	return nil
}

// browserID returns the value of the cookie that binds flows.
func (s *Service) browserID(r *http.Request) string { return s.jar.Get(r, cookie.KindBrowser) }

// emailDomain returns the domain of a username that is an e-mail address, in lower case.
func emailDomain(username string) string {
	_, domain, ok := strings.Cut(username, "@")
	if !ok || strings.Contains(domain, "@") {
		return ""
	}
	return strings.ToLower(domain)
}

// first returns the one or first value of a detail.
func first(details map[string][]string, names ...string) string {
	for _, n := range names {
		if v := details[n]; len(v) > 0 && v[0] != "" {
			return v[0]
		}
	}
	return ""
}

// hasTrue tells whether a detail is the word true.
func hasTrue(details map[string][]string, name string) bool {
	return slices.Equal(details[name], []string{"true"})
}
