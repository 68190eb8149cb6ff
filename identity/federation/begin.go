package federation

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/url"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/identity/session"
	"github.com/gatehouse-id/gatehouse/identity/webflow"
	"github.com/gatehouse-id/gatehouse/idp"
	"github.com/gatehouse-id/gatehouse/internal/authn"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/internal/web"
	"github.com/gatehouse-id/gatehouse/storage"
)

const (
	// kindTracker is the cookie that binds the answers of providers to the browser that was sent there. Unlike the
	// others it is sent along when the provider's page posts to us.
	kindTracker = "tracker"

	flowNameBytes = idp.FlowLength * 6 / 8 // in base64url
)

// ProviderURL is the page that sends the browser of a sign-in to a provider.
func ProviderURL(flow, id string) string {
	return "/sign-in/provider?" + url.Values{"flow": {flow}, "idp": {id}}.Encode()
}

// OnwardURL is ProviderURL for a browser that no page has led there. One that can have something after # in its address
// goes by way of a page, which keeps that from the provider and for the return.
func OnwardURL(r *http.Request, d *authn.Demand, flow, id string) string {
	if webflow.CanKeep(r, d) {
		return ProviderURL(flow, id) + "&hop=1"
	}
	return ProviderURL(flow, id)
}

// exchangeIn reads the sign-in and the provider that a request names, while people can sign in there.
func (s *Service) exchangeIn(q *webflow.Request) (*exchange, *Ways, error) {
	id, f, err := s.deps.Front.FlowIn(q)
	if err != nil {
		return nil, nil, err
	}
	q.Again = webflow.FlowURL(id)
	if !q.Settings.Features.LoginEnabled {
		return nil, nil, session.ErrClosed
	}
	known, err := s.Registry(q.Context(), q.Settings)
	if err != nil {
		return nil, nil, err
	}
	ways := known.Ways(f.Demand)
	p := ways.Find(q.URL.Query().Get("idp"))
	if p == nil {
		return nil, nil, &webflow.Answer{Status: http.StatusForbidden, Key: "error.no_idp", Again: q.Again}
	}
	if p.Phone {
		return nil, nil, cmp.Or(q.Redirect(PhoneURL(id, p.ID)), webflow.ErrAnswered)
	}
	return &exchange{Provider: p, SignIn: id, Flow: f}, ways, s.checkNetwork(q, p, ways)
}

// showProvider serves GET /sign-in/provider?flow=…&idp=…: it sends the browser to the provider, or asks for a password.
func (s *Service) showProvider(q *webflow.Request) error {
	x, ways, err := s.exchangeIn(q)
	if err != nil {
		return err
	}
	p, d := x.Provider, &x.Flow.Demand
	if p.taker != nil {
		return s.askPassword(q, x, ways)
	}
	if q.URL.Query().Get("hop") != "" {
		// Browsers apply form-action to the redirects that follow a POST, and where the provider redirects to is
		// unknown: so the chain ends here.
		s.deps.Pages.Render(q.W, q.Request,
			s.deps.Front.View(*d, "forward", http.StatusOK, web.Forward{Name: p.Name, To: ProviderURL(x.SignIn, p.ID)}))
		return nil
	}
	if !s.deps.Admit(q.Request, 0) {
		return webflow.ErrTooMany
	}
	if x.Flow.Typed != "" && ways.ByUsername(x.Flow.Typed) == p {
		d.Hint = x.Flow.Typed // other providers do not learn it
	}
	next, err := s.begin(q, x)
	if rejection := new(idp.Rejection); errors.As(err, &rejection) { // it cannot do what is asked
		return s.rejected(q, &Answer{exchange: *x}, rejection)
	}
	if err != nil {
		return s.providerFailed(q, x, err)
	}
	s.deps.Log.Debug("sent to a provider", zap.String("provider", p.ID))
	s.send(q.W, q.Request, d.Locales, next)
	return nil
}

// begin asks the provider where to send the browser, and stores what is needed to read the answer.
func (s *Service) begin(q *webflow.Request, x *exchange) (*idp.Next, error) {
	name, err := secret.ID(s.deps.Random, flowNameBytes)
	if err != nil {
		return nil, err
	}
	tracker, err := s.tracker(q.W, q.Request)
	if err != nil {
		return nil, err
	}
	d, p := x.Flow.Demand, x.Provider
	ctx, cancel := context.WithTimeout(q.Context(), p.Timeout)
	defer cancel()
	next, err := p.redirector.Begin(ctx, idp.Request{
		Flow: name, Level: d.Level, Force: isForced(d), MaxAge: d.MaxAge, Passive: d.Passive, Hint: d.Hint, Locales: d.Locales,
		Custom: d.CustomParams, ProviderName: d.Client.Name, Client: d.Client.ID,
	})
	if err != nil {
		return nil, &providerError{err}
	}
	now, key := s.deps.Now(), secret.Hash(name)
	rec := providerFlowRecord{
		Provider: p.ID, SignIn: x.SignIn, Tracker: secret.Hash(tracker), CreatedAt: now,
		ExpiresAt: now.Add(webflow.FlowLife),
	}
	if rec.State, err = s.Seal("flow", key, next.State); err != nil {
		return nil, err
	}
	return next, s.deps.Store.Update(q.Context(), func(tx storage.Tx) error {
		return ProviderFlows.Create(tx, key, rec, rec.ExpiresAt.Add(session.CollectAfter))
	})
}

// isForced reports whether the person must sign in again. (prompt=login, max_age=0)
func isForced(d authn.Demand) bool { return !d.NotBefore.IsZero() && !d.SelectAccount }

// send sends the browser to where a provider wants it.
func (s *Service) send(w http.ResponseWriter, r *http.Request, locales []string, next *idp.Next) {
	if next.Form == nil {
		web.Redirect(w, web.WithoutFragment(next.URL))
		return
	}
	form := web.FormPost{Action: next.Form.Action, Away: true}
	for _, field := range next.Form.Fields {
		form.Fields = append(form.Fields, web.Hidden{Name: field.Name, Value: field.Value})
	}
	s.deps.Pages.Render(w, r, web.View{Template: "form_post", Locales: locales, Data: form})
}

// tracker returns the value of the tracker cookie, and sets a missing cookie.
func (s *Service) tracker(w http.ResponseWriter, r *http.Request) (string, error) {
	if v := s.deps.Jar.Get(r, kindTracker); len(v) >= 43 {
		return v, nil
	}
	v, err := s.deps.Front.NewID()
	if err != nil {
		return "", err
	}
	s.deps.Jar.SetCrossSite(w, kindTracker, v, 0)
	return v, nil
}

// tracks reports whether the request comes from the browser whose tracker cookie has this hash.
func (s *Service) tracks(r *http.Request, hash string) bool {
	v := s.deps.Jar.Get(r, kindTracker)
	return v != "" && hash != "" && secret.New(hash).Equal(secret.Hash(v))
}

// Seal encrypts data of a provider for storage. kind and key say what the data is for: Unseal needs the same ones.
func (s *Service) Seal(kind, key string, data []byte) ([]byte, error) {
	if data == nil {
		data = []byte{}
	}
	return s.deps.Keyring.Seal("identity provider "+kind+" "+key, data)
}

// Unseal decrypts what Seal has encrypted.
func (s *Service) Unseal(kind, key string, sealed []byte) ([]byte, error) {
	return s.deps.Keyring.Open("identity provider "+kind+" "+key, sealed)
}
