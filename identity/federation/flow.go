package federation

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"time"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/identity/front"
	"github.com/gatehouse-id/gatehouse/identity/session"
	"github.com/gatehouse-id/gatehouse/idp"
	"github.com/gatehouse-id/gatehouse/internal/login"
	"github.com/gatehouse-id/gatehouse/internal/page"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

const (
	// kindTracker is the cookie that binds the answers of providers to the browser that was sent there. Unlike the others it comes along
	// when the provider's page posts to us.
	kindTracker = "tracker"

	flowNameBytes = 32
	refusalLife   = 10 * time.Minute
)

// ProviderURL is where a browser is sent to a provider from.
func ProviderURL(flow, id string) string {
	return "/sign-in/provider?" + url.Values{"flow": {flow}, "idp": {id}}.Encode()
}

// showProvider serves GET /sign-in/provider?flow=…&idp=…: it sends the browser to the provider.
func (s *Service) showProvider(w http.ResponseWriter, r *http.Request) {
	id, f, ok := s.front.Flow(w, r)
	if !ok {
		return
	}
	if err := s.front.IsOpen(r.Context()); err != nil {
		s.front.Fail(w, r, err, front.FlowURL(id))
		return
	}
	known, err := s.Current(r.Context())
	if err != nil {
		s.front.Fail(w, r, err, front.FlowURL(id))
		return
	}
	ways := known.Ways(f.Demand)
	p := ways.Find(r.URL.Query().Get("idp"))
	if p == nil {
		s.pages.Error(w, r, http.StatusForbidden, "error.no_idp", front.FlowURL(id))
		return
	}
	if r.URL.Query().Get("hop") != "" {
		// Browsers apply form-action to the redirects that follow a POST, and where the provider leads is not known: so the chain ends here.
		s.pages.Render(w, r, s.front.View(f.Demand, "forward", http.StatusOK, page.Forward{Name: p.Name, To: ProviderURL(id, p.ID)}))
		return
	}
	if !s.admit(r) {
		s.front.Fail(w, r, front.ErrTooMany, front.FlowURL(id))
		return
	}
	if f.Typed != "" && ways.ByUsername(f.Typed) == p {
		f.Demand.Hint = f.Typed // whoever it does not lead to has no business with it
	}
	name, next, err := s.beginProvider(w, r, id, f, p)
	if err != nil {
		s.unreachableProvider(w, r, id, f, p, err)
		return
	}
	s.log.Debug("sent to a provider", zap.String("provider", p.ID), zap.Int("flow_bytes", len(name)))
	s.sendTo(w, r, f.Demand.Locales, next)
}

// beginProvider asks the provider where the browser goes and keeps what it needs for the answer.
func (s *Service) beginProvider(w http.ResponseWriter, r *http.Request, id string, f front.FlowRecord, p *Member) (string, *idp.Next, error) {
	name, err := secret.ID(s.random, flowNameBytes)
	if err != nil {
		return "", nil, err
	}
	tracker, err := s.tracker(w, r)
	if err != nil {
		return "", nil, err
	}
	d := f.Demand
	ctx, cancel := context.WithTimeout(r.Context(), p.Timeout)
	defer cancel()
	next, err := p.redirector.Begin(ctx, idp.Request{
		Flow: name, Level: d.Level, Force: isForced(d), MaxAge: d.MaxAge, Passive: d.Passive, Hint: d.Hint, Locales: d.Locales,
		Custom: d.CustomParams, ProviderName: d.Client.Name, Client: d.Client.ID,
	})
	if err != nil {
		return "", nil, &providerError{err}
	}
	now, key := s.now(), secret.Hash(name)
	rec := providerFlowRecord{Provider: p.ID, SignIn: id, Tracker: secret.Hash(tracker), CreatedAt: now, ExpiresAt: now.Add(front.FlowLife)}
	if rec.State, err = s.Seal("flow", key, next.State); err != nil {
		return "", nil, err
	}
	return name, next, s.store.Update(r.Context(), func(tx storage.Tx) error {
		return ProviderFlows.Create(tx, key, rec, rec.ExpiresAt.Add(session.CollectAfter))
	})
}

// isForced tells whether the person must prove themselves again. (prompt=login, max_age=0)
func isForced(d login.Demand) bool { return !d.NotBefore.IsZero() && !d.SelectAccount }

// tracker returns the value of the tracker cookie, which is set when there is none.
func (s *Service) tracker(w http.ResponseWriter, r *http.Request) (string, error) {
	if v := s.jar.Get(r, kindTracker); len(v) >= 43 {
		return v, nil
	}
	v, err := s.front.NewID()
	if err != nil {
		return "", err
	}
	s.jar.SetCrossSite(w, kindTracker, v, 0)
	return v, nil
}

// tracks tells whether the request comes from the browser whose tracker cookie is bound.
func (s *Service) tracks(r *http.Request, bound string) bool {
	v := s.jar.Get(r, kindTracker)
	return v != "" && bound != "" && secret.New(bound).Equal(secret.Hash(v))
}

// Seal and unseal keep what belongs to a provider from whoever reads the storage.
func (s *Service) Seal(kind, key string, data []byte) ([]byte, error) {
	if data == nil {
		data = []byte{}
	}
	return s.keyring.Seal("identity provider "+kind+" "+key, data)
}

func (s *Service) Unseal(kind, key string, sealed []byte) ([]byte, error) {
	return s.keyring.Open("identity provider "+kind+" "+key, sealed)
}

// providerError is the provider's failure, not ours.
type providerError struct{ cause error }

func (p *providerError) Error() string { return "provider: " + p.cause.Error() }

func (p *providerError) Unwrap() error { return p.cause }

// unreachableProvider writes the page for a provider that is down or slow: it can be tried again, or another way be taken.
func (s *Service) unreachableProvider(w http.ResponseWriter, r *http.Request, id string, f front.FlowRecord, p *Member, err error) {
	failed := new(providerError)
	if !errors.As(err, &failed) && !errors.Is(err, context.DeadlineExceeded) {
		s.front.Fail(w, r, err, front.FlowURL(id))
		return
	}
	status := http.StatusBadGateway
	if errors.Is(err, context.DeadlineExceeded) {
		status = http.StatusGatewayTimeout
	}
	s.log.Warn("identity provider failed", zap.String("provider", p.ID), zap.Int("status", status), zap.Error(err))
	s.RecordFailure(r, f.Demand.Client.ID, "", "provider "+p.Name+" failed")
	if f.Demand.Passive {
		s.refuseFlow(w, r, f, &login.Refusal{Code: "temporarily_unavailable", Reason: "the identity provider does not answer"})
		return
	}
	s.trouble(w, r, id, f, p, status, "trouble.down")
}

// trouble writes a page that says what went wrong at the provider and leads back.
func (s *Service) trouble(w http.ResponseWriter, r *http.Request, id string, f front.FlowRecord, p *Member, status int, key string) {
	data := page.Trouble{Key: key, Name: p.Name, Again: ProviderURL(id, p.ID), Cancel: page.LocalPath(f.Demand.Cancel)}
	if known, err := s.Current(r.Context()); err == nil {
		if ways := known.Ways(f.Demand); !ways.Alone() {
			data.Other = front.FlowURL(id) + "&choose=1"
		}
	}
	s.pages.Render(w, r, s.front.View(f.Demand, "trouble", status, data))
}

// sendTo sends the browser to where a provider wants it.
func (s *Service) sendTo(w http.ResponseWriter, r *http.Request, locales []string, next *idp.Next) {
	if next.Form != nil {
		form := page.FormPost{Action: next.Form.Action, Away: true}
		for _, field := range next.Form.Fields {
			form.Fields = append(form.Fields, page.Hidden{Name: field.Name, Value: field.Value})
		}
		s.pages.Render(w, r, page.View{Template: "form_post", Locales: locales, Data: form})
		return
	}
	h := w.Header()
	h.Set("Location", next.URL)
	h.Set("Cache-Control", "no-store")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(http.StatusSeeOther)
}

// refuseFlow takes the browser back to whoever asked, who is told of the refusal there. Who asked for nothing in particular gets a page.
func (s *Service) refuseFlow(w http.ResponseWriter, r *http.Request, f front.FlowRecord, why *login.Refusal) {
	if f.Demand.Client.ID == "" {
		s.pages.Error(w, r, http.StatusForbidden, "error.refused", f.Demand.Return)
		return
	}
	rec := refusalRecord{
		Code: why.Code, Reason: idp.Printable(why.Reason), SAMLStatus: why.SAMLStatus, Cause: idp.Printable(why.Cause), ExpiresAt: s.now().Add(refusalLife),
	}
	err := s.store.Update(r.Context(), func(tx storage.Tx) error {
		return refusals.Put(tx, storage.Key(f.Browser, secret.Hash(f.Demand.Return)), rec, rec.ExpiresAt)
	})
	if err != nil {
		s.front.Fail(w, r, err, "")
		return
	}
	s.onward(w, r, f.Demand.Client.Name, f.Demand.Return)
}

// TakeRefusal returns, once, why a provider has signed nobody in for this demand in this browser.
func (s *Service) TakeRefusal(r *http.Request, d login.Demand) (*login.Refusal, error) {
	browser := s.BrowserID(r)
	if d.Return == "" || browser == "" {
		return nil, nil //nolint:nilnil // there is none
	}
	key := storage.Key(secret.Hash(browser), secret.Hash(d.Return))
	var rec refusalRecord
	err := s.store.View(r.Context(), func(tx storage.Tx) (err error) {
		rec, err = refusals.Get(tx, key)
		return err
	})
	if errors.Is(err, storage.ErrNotFound) {
		return nil, nil //nolint:nilnil // there is none
	}
	if err == nil {
		err = s.store.Update(r.Context(), func(tx storage.Tx) error { return refusals.Delete(tx, key) })
	}
	if err != nil || !rec.ExpiresAt.After(s.now()) {
		return nil, err
	}
	return &login.Refusal{Code: rec.Code, Reason: rec.Reason, SAMLStatus: rec.SAMLStatus, Cause: rec.Cause}, nil
}
