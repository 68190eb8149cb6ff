package federation

import (
	"context"
	"errors"
	"net/http"
	"time"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/identity/challenge"
	"github.com/gatehouse-id/gatehouse/identity/webflow"
	"github.com/gatehouse-id/gatehouse/idp"
	"github.com/gatehouse-id/gatehouse/internal/authn"
	"github.com/gatehouse-id/gatehouse/internal/cookie"
	"github.com/gatehouse-id/gatehouse/internal/denial"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/internal/web"
	"github.com/gatehouse-id/gatehouse/storage"
)

const (
	refusalLife = 10 * time.Minute

	// Events of refused answers cost storage, and strangers can cause them.
	refusalEventsPerSecond = 10
	refusalEventsBurst     = 100
)

// Unreachable says that no way to sign in reaches the level that is demanded.
func Unreachable(d authn.Demand) *authn.Refusal {
	code := webflow.UnmetLevel
	if d.Passive {
		code = "interaction_required"
	}
	return &authn.Refusal{Code: code, Reason: "the authentication level cannot be reached"}
}

// refuse takes the browser back to the application that asked, which is told of the refusal there. Without an
// application the person sees a page.
func (s *Service) refuse(q *webflow.Request, f webflow.FlowRecord, why *authn.Refusal) error {
	if f.Demand.Client.ID == "" {
		return &webflow.Answer{Status: http.StatusForbidden, Key: "error.refused", Again: f.Demand.Return}
	}
	rec := refusalRecord{
		Code: why.Code, Reason: idp.Printable(why.Reason), SAMLStatus: why.SAMLStatus, Cause: idp.Printable(why.Cause),
		ExpiresAt: s.deps.Now().Add(refusalLife),
	}
	key := storage.Key(f.Browser, secret.Hash(f.Demand.Return))
	err := s.deps.Store.Update(q.Context(), func(tx storage.Tx) error { return refusals.Put(tx, key, rec, rec.ExpiresAt) })
	if err != nil {
		q.Again = ""
		return err
	}
	return s.redirect(q, f.Demand.Client.Name, f.Demand.Return)
}

// BrowserID returns the value of the cookie that binds flows to a browser.
func (s *Service) BrowserID(r *http.Request) string { return s.deps.Jar.Get(r, cookie.KindBrowser) }

// refusalKey is the key of the refusal of a demand in a browser. Empty: there can be none.
func (s *Service) refusalKey(r *http.Request, d authn.Demand) string {
	browser := s.BrowserID(r)
	if d.Return == "" || browser == "" {
		return ""
	}
	return storage.Key(secret.Hash(browser), secret.Hash(d.Return))
}

// RefusalIn returns why a provider has not signed the person in for this demand in this browser. nil: none has refused.
// The caller forgets the refusal when it has told it.
func (s *Service) RefusalIn(tx storage.Tx, r *http.Request, d authn.Demand, now time.Time) (*authn.Refusal, error) {
	key := s.refusalKey(r, d)
	if key == "" {
		return nil, nil //nolint:nilnil // no refusal
	}
	rec, _, err := refusals.Find(tx, key)
	if err != nil || !rec.ExpiresAt.After(now) {
		return nil, err
	}
	return &authn.Refusal{Code: rec.Code, Reason: rec.Reason, SAMLStatus: rec.SAMLStatus, Cause: rec.Cause}, nil
}

// ForgetRefusal deletes the refusal of a demand, which is told once.
func (s *Service) ForgetRefusal(r *http.Request, d authn.Demand) error {
	key := s.refusalKey(r, d)
	return s.deps.Store.Update(r.Context(), func(tx storage.Tx) error { return refusals.Delete(tx, key) })
}

// providerFailed answers when a provider is down or slow: the person can try again or sign in another way. Errors that
// are not the provider's are returned as they are.
func (s *Service) providerFailed(q *webflow.Request, x *exchange, err error) error {
	status := http.StatusBadGateway
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		status = http.StatusGatewayTimeout
	case !errors.As(err, new(*providerError)):
		return err
	}
	s.deps.Front.Refuse(q, denial.Refusal{
		Where: denial.SignIn, Reason: denial.ProviderFailed, By: "provider", Provider: x.Provider.ID,
		ClientID: x.Flow.Demand.Client.ID, Status: status,
	}, err)
	s.RecordFailure(q.Request, x.Flow.Demand.Client.ID, x.Provider.ID, "", "provider "+x.Provider.Name+" failed")
	if x.Flow.Demand.Passive {
		return s.refuse(q, x.Flow, &authn.Refusal{Code: "temporarily_unavailable", Reason: "the identity provider does not answer"})
	}
	if errors.As(err, new(*idp.Misconfigured)) {
		return s.showTrouble(q, x, "trouble.setup", status)
	}
	return s.showTrouble(q, x, "trouble.down", status)
}

// showTrouble shows why a provider has signed no one in, and what the person can do: try again, sign in another way, or
// go back to the application.
func (s *Service) showTrouble(q *webflow.Request, x *exchange, key string, status int) error {
	data := web.Trouble{
		Key: key, Name: x.Provider.Name, Again: ProviderURL(x.SignIn, x.Provider.ID), Cancel: web.LocalPath(x.Flow.Demand.Cancel),
	}
	if known, err := s.Registry(q.Context(), q.Settings); err == nil && !known.Ways(x.Flow.Demand).Alone() {
		data.Other = x.chooseURL()
	}
	s.deps.Pages.Render(q.W, q.Request, s.troubleView(q, x, status, data))
	return nil
}

// troubleView is the page of a trouble. It keeps nothing of an address that the provider has written.
func (s *Service) troubleView(q *webflow.Request, x *exchange, status int, data web.Trouble) web.View {
	v := s.deps.Front.View(x.Flow.Demand, "trouble", status, data)
	if q.Foreign {
		v.Fragment = ""
	}
	return v
}

// RecordFailure writes the event of a failed sign-in, unless there are too many of them.
func (s *Service) RecordFailure(r *http.Request, client, provider, person, reason string) {
	if !s.refused.AllowN(s.deps.Now(), 1) {
		return
	}
	ev, err := s.deps.Person.NewEvents(s.deps.Origin(r), challenge.LoginFailed)
	if err == nil {
		e := ev[0]
		e.PersonID, e.ClientID, e.Provider, e.Reason, e.Ref = person, client, provider, reason, denial.RefOf(r.Context())
		err = s.deps.Store.Update(context.WithoutCancel(r.Context()), func(tx storage.Tx) error { return s.deps.Events.Append(tx, e) })
	}
	if err != nil {
		s.deps.Log.Error("event not written", zap.Error(err))
	}
}
