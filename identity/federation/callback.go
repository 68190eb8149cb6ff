package federation

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/fxamacker/cbor/v2"

	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/session"
	"github.com/gatehouse-id/gatehouse/identity/webflow"
	"github.com/gatehouse-id/gatehouse/idp"
	"github.com/gatehouse-id/gatehouse/internal/authn"
	"github.com/gatehouse-id/gatehouse/internal/denial"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

const (
	maxHeld     = 32 << 10 // bytes
	maxFlowName = 80
)

// callbacks are the endpoints that answers to sign-ins come to.
var callbacks = map[string]string{"saml": "acs", "oidc": "callback", "kerberos": "negotiate"}

// signOuts are the endpoints where a stranger can have XML verified without a flow that began here.
var signOuts = map[string]string{"saml": "slo"}

// returns are the endpoints where browsers come from a sign-out at a provider.
var returns = map[string]bool{"slo": true, "signed-out": true}

// handleProvider serves /saml/<id>/<op>, /oidc/<id>/<op> and /kerberos/<id>/<op>.
func (s *Service) handleProvider(path string) webflow.Handler {
	return func(q *webflow.Request) error {
		q.Foreign = true
		known, err := s.Registry(q.Context(), q.Settings)
		if err != nil {
			return err
		}
		q.Body = http.MaxBytesReader(q.W, q.Body, idp.MaxBody)
		p, op := known.Get(q.PathValue("id")), q.PathValue("op")
		if p != nil && (p.Path != path || p.redirector == nil) {
			p = nil
		}
		if op == callbacks[path] {
			return s.callback(q, p)
		}
		if p != nil {
			if op == signOuts[path] && !s.deps.Admit(q.Request, 0) {
				return webflow.ErrTooMany
			}
			if h, ok := p.Source.(idp.Handler); ok && h.Handle(q.W, q.Request, op, &host{s: s, p: p, op: op, q: q}) {
				return nil
			}
		}
		return webflow.NotFound()
	}
}

// callback takes the answer of a provider. What is verified is stored, and the browser returns by a GET from our own
// origin, which sends the cookies that a POST from the provider's page does not. p is nil when the provider is unknown
// or switched off.
func (s *Service) callback(q *webflow.Request, p *Member) error {
	if p == nil {
		return forbidden("error.no_idp")
	}
	if q.Method != http.MethodGet && q.Method != http.MethodPost {
		q.W.Header().Set("Allow", "GET, POST")
		return &webflow.Answer{Status: http.StatusMethodNotAllowed, Key: "error.method"}
	}
	name, err := p.redirector.FlowOf(q.Request)
	if err != nil {
		return s.invalid(q, &Answer{exchange: exchange{Provider: p}}, err)
	}
	if s.postAgain(q.W, q.Request) {
		return nil
	}
	if asked, err := s.challenge(q, p, name); asked {
		return err
	}
	if name == "" && !s.deps.Admit(q.Request, 0) { // no flow began here, and strangers have signatures verified
		return webflow.ErrTooMany
	}
	a, err := s.takeFlow(q, p, name)
	switch {
	case errors.Is(err, errOtherBrowser):
		s.RecordFailure(q.Request, "", p.ID, "", "an answer of "+p.Name+" came to another browser")
		return forbidden("error.forbidden")
	case errors.Is(err, idp.ErrNoFlow):
		s.RecordFailure(q.Request, "", p.ID, "", "an answer of "+p.Name+" came to no sign-in")
		return expired()
	case err != nil:
		return err
	}
	return s.finish(q, a)
}

// takeFlow uses up the flow of an answer, so of several answers only one finds it. The flow of an answer that was not
// asked for begins here. errOtherBrowser, idp.ErrNoFlow.
func (s *Service) takeFlow(q *webflow.Request, p *Member, name string) (*Answer, error) {
	a, now := &Answer{exchange: exchange{Provider: p}, Name: name}, s.deps.Now()
	if name == "" {
		tracker, err := s.tracker(q.W, q.Request)
		a.Rec = providerFlowRecord{
			Provider: p.ID, Tracker: secret.Hash(tracker), Answered: true, CreatedAt: now,
			ExpiresAt: now.Add(webflow.FlowLife),
		}
		return a, err
	}
	if len(name) > maxFlowName {
		return nil, idp.ErrNoFlow
	}
	look := func(tx storage.Tx) error { return s.lookAt(tx, q, a, now) }
	if err := s.deps.Store.View(q.Context(), look); err != nil {
		return nil, err // strangers cause no write
	}
	return a, s.deps.Store.Update(q.Context(), func(tx storage.Tx) error {
		if err := look(tx); err != nil {
			return err
		}
		used := a.Rec
		used.Answered, used.State = true, nil
		return ProviderFlows.Put(tx, a.key(), used, used.ExpiresAt.Add(session.CollectAfter))
	})
}

// lookAt reads the flow of an answer, which is open and belongs to the browser. errOtherBrowser, idp.ErrNoFlow.
func (s *Service) lookAt(tx storage.Tx, q *webflow.Request, a *Answer, now time.Time) (err error) {
	a.Rec, err = ProviderFlows.Get(tx, a.key())
	switch {
	case errors.Is(err, storage.ErrNotFound):
		return idp.ErrNoFlow
	case err != nil:
		return err
	case !s.tracks(q.Request, a.Rec.Tracker):
		return errOtherBrowser // and the flow stays open for its own browser
	case a.Rec.Provider != a.Provider.ID || a.Rec.Answered || !a.Rec.ExpiresAt.After(now):
		return idp.ErrNoFlow
	}
	if a.SignIn = a.Rec.SignIn; a.SignIn != "" {
		a.Flow, err = webflow.FlowRecords.Get(tx, a.SignIn)
	}
	return err
}

// finish has the provider verify the answer and stores the identity.
func (s *Service) finish(q *webflow.Request, a *Answer) error {
	id, err := s.verify(q, a)
	rejection := new(idp.Rejection)
	switch {
	case err == nil:
	case errors.As(err, &rejection):
		return s.rejected(q, a, rejection)
	case errors.As(err, new(*idp.Invalid)), errors.Is(err, idp.ErrReplayed):
		return s.invalid(q, a, err)
	case a.SignIn == "" || isStorageError(err):
		return err
	default:
		return s.providerFailed(q, &a.exchange, &providerError{err})
	}
	if a.Name == "" {
		if a.Name, err = secret.ID(s.deps.Random, flowNameBytes); err != nil {
			return err
		}
	}
	key := a.key()
	raw, err := cbor.Marshal(id)
	if err != nil {
		return err
	}
	sealed, err := s.Seal("identity", key, raw)
	if err != nil {
		return err
	}
	err = s.deps.Store.Update(q.Context(), func(tx storage.Tx) error {
		rec, found, err := ProviderFlows.Find(tx, key)
		if err != nil {
			return err
		}
		if !found { // the answer was not asked for
			rec = a.Rec
		}
		rec.Answered, rec.State, rec.Identity = true, nil, sealed
		return ProviderFlows.Put(tx, key, rec, rec.ExpiresAt.Add(session.CollectAfter))
	})
	if err != nil {
		return err
	}
	return s.redirect(q, a.Flow.Demand.Client.Name, a.Done())
}

// isStorageError reports whether our storage fails, and not the provider.
func isStorageError(err error) bool {
	return errors.Is(err, storage.ErrUnavailable) || errors.Is(err, storage.ErrFull) || errors.Is(err, storage.ErrCorrupt) ||
		errors.Is(err, secret.ErrSealed)
}

// verify returns the identity that the answer proves, checked by the rules of all providers.
func (s *Service) verify(q *webflow.Request, a *Answer) (*idp.Identity, error) {
	var state []byte
	if a.SignIn != "" {
		var err error
		if state, err = s.Unseal("flow", a.key(), a.Rec.State); err != nil {
			return nil, err
		}
	}
	ctx, cancel := context.WithTimeout(q.Context(), a.Provider.Timeout)
	defer cancel()
	id, err := a.Provider.redirector.Finish(ctx, state, q.Request)
	if err != nil {
		return nil, err
	}
	return s.acceptable(id)
}

// acceptable checks an identity by the rules of all providers.
func (s *Service) acceptable(id *idp.Identity) (*idp.Identity, error) {
	switch {
	case id.Subject == "" || !person.IsText(id.Subject, idp.MaxSubject) || !person.IsText(id.Issuer, idp.MaxSubject):
		return nil, &idp.Invalid{Reason: "the subject is empty, too long or no text"}
	case len(id.Held) > maxHeld:
		return nil, &idp.Invalid{Reason: "the provider holds too much"}
	case !id.NotAfter.IsZero() && !id.NotAfter.After(s.deps.Now()):
		return nil, &idp.Invalid{Reason: "the session at the provider has ended"}
	}
	own := *id
	own.Level = min(max(id.Level, 1), 4)
	return &own, nil
}

// rejected tells the application that the provider has not signed the person in, unless no one has chosen the provider
// and there are other ways. (token server document, "Authorization error extension fields")
func (s *Service) rejected(q *webflow.Request, a *Answer, why *idp.Rejection) error {
	s.refuseAnswer(q, a, denial.ProviderRefused, why)
	s.RecordFailure(q.Request, a.Flow.Demand.Client.ID, a.Provider.ID, "", "refused by "+a.Provider.Name+": "+why.Reason)
	if led, err := s.instead(q, &a.exchange); led || err != nil {
		return err
	}
	// An application that names the provider itself is told, whatever the cause.
	if d := &a.Flow.Demand; why.Cancelled && a.SignIn != "" && !d.Passive && d.Provider == "" {
		return s.showTrouble(q, &a.exchange, "trouble.cancelled", http.StatusOK)
	}
	told := &authn.Refusal{
		Code: "access_denied", Reason: "the identity provider has not signed anyone in",
		SAMLStatus: why.SAMLStatus, Cause: why.Cause,
	}
	if why.Passive || a.Flow.Demand.Passive {
		told.Code = "login_required"
	}
	return s.refuse(q, a.Flow, told)
}

// refuseAnswer records why an answer of a provider signs no one in.
func (s *Service) refuseAnswer(q *webflow.Request, a *Answer, reason denial.Reason, cause error) {
	s.deps.Front.Refuse(q, denial.Refusal{
		Where: denial.SignIn, Reason: reason, By: "provider", Provider: a.Provider.ID, ClientID: a.Flow.Demand.Client.ID,
	}, cause)
}

// invalid answers, with one page for all causes, an answer that must not be believed.
func (s *Service) invalid(q *webflow.Request, a *Answer, err error) error {
	s.refuseAnswer(q, a, denial.ProviderAnswer, err)
	s.RecordFailure(q.Request, a.Flow.Demand.Client.ID, a.Provider.ID, "", "an answer of "+a.Provider.Name+" was refused")
	if a.Flow.Demand.Passive && a.Flow.Demand.Client.ID != "" {
		return s.refuse(q, a.Flow, &authn.Refusal{Code: "login_required", Reason: "the answer of the identity provider was refused"})
	}
	answer := &webflow.Answer{Status: http.StatusBadRequest, Key: "error.answer"}
	if a.SignIn != "" && s.deps.Jar.SameBrowser(q.Request, a.Flow.Browser) {
		answer.Again = a.chooseURL()
	}
	return answer
}
