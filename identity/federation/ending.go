package federation

import (
	"context"
	"net/url"
	"time"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/identity/session"
	"github.com/gatehouse-id/gatehouse/identity/webflow"
	"github.com/gatehouse-id/gatehouse/idp"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/internal/web"
	"github.com/gatehouse-id/gatehouse/storage"
)

const endingLife = time.Hour // how long a sign-out at a provider may take

// endingURL is the page that takes a browser to the provider.
func endingURL(params url.Values) string { return "/sign-out/provider?" + params.Encode() }

// EndAtProvider stores what a provider needs to sign the browser out there too, and returns the path that leads there
// and then to ret; "" when the provider cannot do that. The caller ends the session afterwards.
func (s *Service) EndAtProvider(q *webflow.Request, ret string) (string, error) {
	if q.SignIn == nil || !q.SignIn.Session.Held {
		return "", nil
	}
	known, err := s.Registry(q.Context(), q.Settings)
	if err != nil {
		return "", err
	}
	p := known.Get(q.SignIn.Session.Provider)
	if p == nil {
		return "", nil
	}
	if _, ok := p.Source.(idp.Ender); !ok {
		return "", nil
	}
	raw, err := s.heldOf(q)
	if err != nil || raw == nil {
		return "", err
	}
	name, err := secret.ID(s.deps.Random, flowNameBytes)
	if err != nil {
		return "", err
	}
	tracker, err := s.tracker(q.W, q.Request)
	if err != nil {
		return "", err
	}
	key := secret.Hash(name)
	rec := endingRecord{Provider: p.ID, Tracker: secret.Hash(tracker), Return: ret, ExpiresAt: s.deps.Now().Add(endingLife)}
	if rec.Held, err = s.Seal("farewell", key, raw); err != nil {
		return "", err
	}
	err = s.deps.Store.Update(q.Context(), func(tx storage.Tx) error {
		return endings.Create(tx, key, rec, rec.ExpiresAt.Add(session.CollectAfter))
	})
	return endingURL(url.Values{"flow": {name}}), err
}

// heldOf returns what the provider keeps with the session of a request. nil: nothing.
func (s *Service) heldOf(q *webflow.Request) ([]byte, error) {
	var h session.ProviderRecord
	err := s.deps.Store.View(q.Context(), func(tx storage.Tx) (err error) {
		h, _, err = session.ProviderRecords.Find(tx, q.SignIn.ID)
		return err
	})
	if err != nil || len(h.Sealed) == 0 {
		return nil, err
	}
	return s.Unseal("held", h.Identity, h.Sealed)
}

// showEnding serves GET /sign-out/provider?flow=…: the browser has signed out here and continues to the provider.
func (s *Service) showEnding(q *webflow.Request) error {
	name := q.URL.Query().Get("flow")
	key := secret.Hash(name)
	var rec endingRecord
	err := s.deps.Store.View(q.Context(), func(tx storage.Tx) (err error) {
		rec, _, err = endings.Find(tx, key)
		return err
	})
	switch {
	case err != nil:
		return err
	case rec.Held == nil || !rec.ExpiresAt.After(s.deps.Now()):
		return q.Redirect("/sign-out")
	case !s.tracks(q.Request, rec.Tracker):
		return forbidden("error.forbidden")
	}
	known, err := s.Registry(q.Context(), q.Settings)
	if err != nil {
		return err
	}
	p := known.Get(rec.Provider)
	if p != nil && q.URL.Query().Get("hop") == "" {
		// As for a sign-in: the chain of redirects that a form began ends here.
		to := endingURL(url.Values{"flow": {name}, "hop": {"1"}})
		s.deps.Pages.Render(q.W, q.Request, web.View{Template: "forward", Data: web.Forward{Name: p.Name, To: to}})
		return nil
	}
	return s.endThere(q, name, rec, p)
}

// endThere sends the browser to the provider, or on where the provider cannot help: the session here has ended anyway.
func (s *Service) endThere(q *webflow.Request, name string, rec endingRecord, p *Member) error {
	var next *idp.Next
	key := secret.Hash(name)
	raw, err := s.Unseal("farewell", key, rec.Held)
	if err == nil && p != nil {
		if ender, ok := p.Source.(idp.Ender); ok {
			ctx, cancel := context.WithTimeout(q.Context(), p.Timeout)
			defer cancel()
			next, err = ender.End(ctx, idp.EndRequest{Flow: name, Held: raw})
		}
	}
	if err != nil {
		s.deps.Log.Warn("sign-out at the provider failed", zap.String("provider", rec.Provider), zap.Error(err))
	}
	if next == nil {
		return q.LeaveTo(rec.Return)
	}
	state, err := s.Seal("end", key, next.State)
	if err != nil {
		return err
	}
	err = s.deps.Store.Update(q.Context(), func(tx storage.Tx) error {
		rec, err := endings.Get(tx, key)
		if err != nil {
			return err
		}
		rec.Held, rec.State = nil, state
		return endings.Put(tx, key, rec, rec.ExpiresAt.Add(session.CollectAfter))
	})
	if err != nil {
		return err
	}
	s.send(q.W, q.Request, nil, next)
	return nil
}
