package federation

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"time"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/identity/front"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/session"
	"github.com/gatehouse-id/gatehouse/idp"
	"github.com/gatehouse-id/gatehouse/internal/page"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

const endingLife = time.Hour // how long a sign-out at a provider may take

// host is what a provider may ask of the service.
type host struct {
	s *Service
	p *Member
}

var _ idp.Host = (*host)(nil)

// EndSessions implements idp.Host.
func (h *host) EndSessions(ctx context.Context, q idp.EndQuery, from *http.Request) (ended int, err error) {
	if q.Subject == "" && len(q.Sessions) == 0 {
		return 0, errors.New("identity: a sign-out names neither a subject nor a session")
	}
	s := h.s
	var names []string
	for _, n := range q.Sessions {
		names = append(names, sessionName(q.Issuer, n))
	}
	look := names
	if q.Subject != "" {
		look = []string{subjectName(q.Issuer, q.Subject)}
	}
	ids, err := s.namedSessions(ctx, h.p.ID, look)
	if err != nil {
		return 0, err
	}
	for _, id := range ids {
		ev, err := s.person.NewEvents(s.origin(from), front.SignedOut)
		if err != nil {
			return ended, err
		}
		done, now := false, s.now()
		err = s.store.Update(ctx, func(tx storage.Tx) error {
			done = false
			rec, err := s.session.Live(tx, id, now)
			if errors.Is(err, storage.ErrNotFound) {
				return nil
			}
			if err != nil {
				return err
			}
			hr, err := session.HeldRecords.Get(tx, id)
			if errors.Is(err, storage.ErrNotFound) || (err == nil && (!rec.Held || hr.Provider != h.p.ID || !hr.Matches(names))) {
				return nil
			}
			if err != nil {
				return err
			}
			person, err := person.Records.Get(tx, rec.PersonID)
			if err != nil && !errors.Is(err, storage.ErrNotFound) {
				return err
			}
			if err := s.person.Watcher().TokensEnded(tx, rec.PersonID, id); err != nil {
				return err
			}
			if err := s.session.End(tx, id, rec); err != nil {
				return err
			}
			done = true
			return s.events.Append(tx, (&session.Current{ID: id, Session: rec, Person: person}).OwnEvent(ev[0], "signed out at "+h.p.Name))
		})
		if err != nil {
			return ended, err
		}
		if done {
			ended++
		}
	}
	s.log.Info("signed out by a provider", zap.String("provider", h.p.ID), zap.Int("sessions", ended))
	return ended, nil
}

// namedSessions returns the live sessions that lie under one of the names. The names of those that have ended are there for a while, and
// whoever wants to stay can have made many of them: they count for nothing.
func (s *Service) namedSessions(ctx context.Context, providerID string, names []string) (ids []string, err error) {
	now := s.now()
	err = s.store.View(ctx, func(tx storage.Tx) error {
		ids = nil
		seen := map[string]bool{}
		for _, n := range names {
			for e, err := range sessionNames.Scan(tx, storage.Range{Prefix: storage.Prefix(providerID, n)}) {
				if err != nil {
					return err
				}
				id := storage.Parts(e.Key)[2]
				if seen[id] {
					continue
				}
				seen[id] = true
				if _, err := s.session.Live(tx, id, now); errors.Is(err, storage.ErrNotFound) {
					continue
				} else if err != nil {
					return err
				}
				ids = append(ids, id)
			}
		}
		return nil
	})
	return ids, err
}

// Ended implements idp.Host.
func (h *host) Ended(_ http.ResponseWriter, r *http.Request, flow string) (state []byte, ret string, err error) {
	s, key, now := h.s, secret.Hash(flow), h.s.now()
	var rec endingRecord
	err = s.store.Update(r.Context(), func(tx storage.Tx) (err error) {
		rec, err = endings.Get(tx, key)
		if errors.Is(err, storage.ErrNotFound) || (err == nil && (rec.Provider != h.p.ID || rec.State == nil || !rec.ExpiresAt.After(now) || !s.tracks(r, rec.Tracker))) {
			return idp.ErrNoFlow
		}
		if err != nil {
			return err
		}
		return endings.Delete(tx, key)
	})
	if err != nil {
		return nil, "", err
	}
	state, err = s.Unseal("end", key, rec.State)
	return state, rec.Return, err
}

// Home implements idp.Host.
func (h *host) Home() string { return "/sign-out" }

// Go implements idp.Host.
func (h *host) Go(w http.ResponseWriter, r *http.Request, n *idp.Next) { h.s.sendTo(w, r, nil, n) }

// Fail implements idp.Host.
func (h *host) Fail(w http.ResponseWriter, r *http.Request, err error) {
	switch {
	case errors.As(err, new(*idp.Rejection)):
		h.s.log.Info("refused by the provider", zap.String("provider", h.p.ID), zap.NamedError("cause", err))
		h.s.pages.Error(w, r, http.StatusForbidden, "error.refused", "")
	case errors.As(err, new(*idp.Invalid)), errors.Is(err, idp.ErrReplayed), errors.Is(err, idp.ErrNoFlow):
		h.s.log.Info("message of a provider refused", zap.String("provider", h.p.ID), zap.NamedError("cause", err))
		h.s.pages.Error(w, r, http.StatusBadRequest, "error.answer", "")
	default:
		ref := h.s.pages.Error(w, r, http.StatusServiceUnavailable, "error.unavailable", "")
		h.s.log.Error("request failed", zap.String("path", r.URL.Path), zap.String("ref", ref), zap.Error(err))
	}
}

// EndAtProvider keeps what a provider needs to sign the browser out there too, and returns the path that leads there and then to ret; "" when there is
// nothing to do. It is called before the session ends.
func (s *Service) EndAtProvider(w http.ResponseWriter, r *http.Request, si *session.Current, ret string) (string, error) {
	if !si.Session.Held {
		return "", nil
	}
	known, err := s.Current(r.Context())
	if err != nil {
		return "", err
	}
	p := known.Get(si.Session.Provider)
	if p == nil {
		return "", nil
	}
	if _, ok := p.Source.(idp.Ender); !ok {
		return "", nil
	}
	name, err := secret.ID(s.random, flowNameBytes)
	if err != nil {
		return "", err
	}
	tracker, err := s.tracker(w, r)
	if err != nil {
		return "", err
	}
	key := secret.Hash(name)
	rec := endingRecord{Provider: p.ID, Tracker: secret.Hash(tracker), Return: ret, ExpiresAt: s.now().Add(endingLife)}
	var sealed []byte
	var identity string
	err = s.store.View(r.Context(), func(tx storage.Tx) error {
		h, err := session.HeldRecords.Get(tx, si.ID)
		if errors.Is(err, storage.ErrNotFound) {
			return nil
		}
		sealed, identity = h.Sealed, h.Identity
		return err
	})
	if err != nil || len(sealed) == 0 {
		return "", err
	}
	raw, err := s.Unseal("held", identity, sealed)
	if err != nil {
		return "", err
	}
	if rec.Held, err = s.Seal("farewell", key, raw); err != nil {
		return "", err
	}
	err = s.store.Update(r.Context(), func(tx storage.Tx) error {
		return endings.Create(tx, key, rec, rec.ExpiresAt.Add(session.CollectAfter))
	})
	return "/sign-out/provider?" + url.Values{"flow": {name}}.Encode(), err
}

// showEnding serves GET /sign-out/provider?flow=…: the browser has signed out here and goes on to the provider.
func (s *Service) showEnding(w http.ResponseWriter, r *http.Request) {
	name := r.URL.Query().Get("flow")
	key := secret.Hash(name)
	var rec endingRecord
	err := s.store.View(r.Context(), func(tx storage.Tx) (err error) {
		rec, err = endings.Get(tx, key)
		return err
	})
	switch {
	case errors.Is(err, storage.ErrNotFound) || (err == nil && (rec.Held == nil || !rec.ExpiresAt.After(s.now()))):
		s.front.Redirect(w, r, "/sign-out")
		return
	case err != nil:
		s.front.Fail(w, r, err, "")
		return
	case !s.tracks(r, rec.Tracker):
		s.pages.Error(w, r, http.StatusForbidden, "error.forbidden", "")
		return
	}
	known, err := s.Current(r.Context())
	if err != nil {
		s.front.Fail(w, r, err, "")
		return
	}
	p := known.Get(rec.Provider)
	if p != nil && r.URL.Query().Get("hop") == "" {
		// As for a sign-in: the chain of redirects that a form began ends here.
		to := "/sign-out/provider?" + url.Values{"flow": {name}, "hop": {"1"}}.Encode()
		s.pages.Render(w, r, page.View{Template: "forward", Data: page.Forward{Name: p.Name, To: to}})
		return
	}
	s.redirectToEnding(w, r, key, name, rec, p)
}

// redirectToEnding sends the browser to the provider, or on when the provider is of no help: the session here has ended anyway.
func (s *Service) redirectToEnding(w http.ResponseWriter, r *http.Request, key, name string, rec endingRecord, p *Member) {
	var next *idp.Next
	raw, err := s.Unseal("farewell", key, rec.Held)
	if err == nil && p != nil {
		if ender, ok := p.Source.(idp.Ender); ok {
			ctx, cancel := context.WithTimeout(r.Context(), p.Timeout)
			defer cancel()
			next, err = ender.End(ctx, idp.EndRequest{Flow: name, Held: raw})
		}
	}
	if err != nil {
		s.log.Warn("sign-out at the provider failed", zap.String("provider", rec.Provider), zap.Error(err))
	}
	if next == nil {
		s.sendTo(w, r, nil, &idp.Next{URL: rec.Return})
		return
	}
	rec.Held = nil
	if rec.State, err = s.Seal("end", key, next.State); err == nil {
		err = s.store.Update(r.Context(), func(tx storage.Tx) error { return endings.Put(tx, key, rec, rec.ExpiresAt.Add(session.CollectAfter)) })
	}
	if err != nil {
		s.front.Fail(w, r, err, "")
		return
	}
	s.sendTo(w, r, nil, next)
}
