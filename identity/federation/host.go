package federation

import (
	"context"
	"errors"
	"net/http"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/session"
	"github.com/gatehouse-id/gatehouse/identity/webflow"
	"github.com/gatehouse-id/gatehouse/idp"
	"github.com/gatehouse-id/gatehouse/internal/denial"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/internal/web"
	"github.com/gatehouse-id/gatehouse/storage"
)

// host are the functions of the service for the code of a provider.
type host struct {
	s  *Service
	p  *Member
	op string // the endpoint that is served
	q  *webflow.Request
	// leave is set when the session of this browser ends, and others hear of it only by the browser: it returns the page
	// that tells them and then leads to ret.
	leave func(ret string) (string, error)
}

var _ idp.Host = (*host)(nil)

// LeaveBy sets the function that prepares what a browser does whose session a provider ends. It is called before the
// service is used.
func (s *Service) LeaveBy(leaving func(q *webflow.Request) (func(ret string) (string, error), error)) {
	s.leaving = leaving
}

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
		var leave func(ret string) (string, error)
		if h.q.SignIn != nil && h.q.SignIn.ID == id && s.leaving != nil {
			if leave, err = s.leaving(h.q); err != nil {
				return ended, err
			}
		}
		done, err := h.endSession(ctx, id, names, from)
		if err != nil {
			return ended, err
		}
		if done {
			ended++
			if leave != nil {
				h.leave = leave
			}
		}
	}
	s.deps.Log.Info("signed out by a provider", zap.String("provider", h.p.ID), zap.Int("sessions", ended))
	return ended, nil
}

// endSession ends a session if it has not ended, was opened with an identity of the provider, and has all the names.
func (h *host) endSession(ctx context.Context, id string, names []string, from *http.Request) (done bool, err error) {
	s, now := h.s, h.s.deps.Now()
	ev, err := s.deps.Person.NewEvents(s.deps.Origin(from), webflow.SignedOut)
	if err != nil {
		return false, err
	}
	err = s.deps.Store.Update(ctx, func(tx storage.Tx) error {
		done = false
		rec, err := s.deps.Session.Unended(tx, id, now)
		if errors.Is(err, storage.ErrNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		held, ok, err := session.ProviderRecords.Find(tx, id)
		if err != nil || !ok || !rec.Held || held.Provider != h.p.ID || !held.Matches(names) {
			return err
		}
		person, _, err := person.Records.Find(tx, rec.PersonID)
		if err != nil {
			return err
		}
		if err := s.deps.Person.Watcher().TokensEnded(tx, rec.PersonID, id); err != nil {
			return err
		}
		if err := s.deps.Session.End(tx, id, rec); err != nil {
			return err
		}
		done = true
		return s.deps.Events.Append(tx, (&session.Current{ID: id, Session: rec, Person: person}).OwnEvent(ev[0], "signed out at "+h.p.Name))
	})
	return done, err
}

// namedSessions returns the sessions that have not ended and are stored under one of the names. The names of ended
// sessions stay for a while, and an attacker who wants to stay signed in can have made many of them: they are ignored.
func (s *Service) namedSessions(ctx context.Context, providerID string, names []string) (ids []string, err error) {
	now := s.deps.Now()
	err = s.deps.Store.View(ctx, func(tx storage.Tx) error {
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
				if _, err := s.deps.Session.Unended(tx, id, now); errors.Is(err, storage.ErrNotFound) {
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
	s, key, now := h.s, secret.Hash(flow), h.s.deps.Now()
	var rec endingRecord
	err = s.deps.Store.Update(r.Context(), func(tx storage.Tx) (err error) {
		if rec, _, err = endings.Find(tx, key); err != nil {
			return err
		}
		if rec.Provider != h.p.ID || rec.State == nil || !rec.ExpiresAt.After(now) || !s.tracks(r, rec.Tracker) {
			return idp.ErrNoFlow
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
func (h *host) Go(w http.ResponseWriter, r *http.Request, n *idp.Next) {
	if h.leave != nil && n.Form == nil { // a form cannot wait for others
		at, err := h.leave(n.URL)
		if err == nil {
			web.Redirect(w, at)
			return
		}
		h.s.deps.Log.Warn("no sign-out at the service providers and clients", zap.Error(err))
	}
	h.s.send(w, r, nil, n)
}

// Fail implements idp.Host.
func (h *host) Fail(w http.ResponseWriter, r *http.Request, err error) {
	switch {
	case errors.As(err, new(*idp.Rejection)):
		h.s.deps.Front.RefuseIn(r.Context(), denial.Refusal{Reason: denial.ProviderRefused, Provider: h.p.ID, Status: http.StatusForbidden}, err)
		h.s.deps.Pages.Error(w, r, http.StatusForbidden, "error.refused", "")
	case errors.As(err, new(*idp.Invalid)), errors.Is(err, idp.ErrReplayed), errors.Is(err, idp.ErrNoFlow):
		h.s.deps.Front.RefuseIn(r.Context(), denial.Refusal{Reason: denial.ProviderAnswer, Provider: h.p.ID, Status: http.StatusBadRequest}, err)
		key, again := "error.answer", ""
		if returns[h.op] { // from a sign-out
			key, again = "error.sign_out", h.Home()
		}
		h.s.deps.Pages.Error(w, r, http.StatusBadRequest, key, again)
	default:
		ref := h.s.deps.Pages.Error(w, r, http.StatusServiceUnavailable, "error.unavailable", "")
		h.s.deps.Log.Error("request failed", zap.String("path", r.URL.Path), zap.String("ref", ref), zap.Error(err))
	}
}
