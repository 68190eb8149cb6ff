package serviceprovider

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/idp/saml/samlidp"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/authn"
	"github.com/gatehouse-id/gatehouse/internal/outbox"
	"github.com/gatehouse-id/gatehouse/storage"
)

// Service providers with a SOAP logout service learn that a session has ended from a LogoutRequest that we post. It
// goes through an outbox with a lane for each: the transaction that ends the session writes what is to be sent.

const (
	logoutEvery  = 2 * time.Second // how soon what another server wrote is seen
	logoutTries  = 12              // about five hours
	logoutMost   = time.Hour       // between two tries
	logoutFirst  = 10 * time.Second
	logoutAtOnce = 4 // requests to one service provider at a time
	logoutLanes  = 4 // service providers that are called at a time
	logoutMaxAge = visitKept + 30*24*time.Hour
)

func logoutQueue(log *zap.Logger) outbox.Config {
	return outbox.Config{
		First: logoutFirst, Most: logoutMost, Tries: logoutTries, MaxAge: logoutMaxAge, AtOnce: logoutAtOnce, Every: logoutEvery,
		Log: log.With(zap.String("sent", "SAML logout request")),
	}
}

// Run posts LogoutRequests until ctx ends. Several can run at a time.
func (s *Service) Run(ctx context.Context) {
	if u, err := s.units(ctx); err == nil {
		s.refresh(u) // what cannot be read is known before someone signs in there
	} else if ctx.Err() == nil {
		s.deps.Log.Error("service providers cannot be looked at", zap.Error(err))
	}
	s.logouts.Run(ctx, s.sendLogout)
}

// units reads the settings.
func (s *Service) units(ctx context.Context) (u *settings.Units, err error) {
	err = s.deps.Store.View(ctx, func(tx storage.Tx) (err error) {
		u, err = s.deps.Units(tx)
		return err
	})
	return u, err
}

// sendLogout makes one try. A service provider that is gone, or takes no such request any more, needs none.
func (s *Service) sendLogout(ctx context.Context, _, _ string, rec logoutRecord) error {
	u, err := s.units(ctx)
	if err != nil {
		return err
	}
	m := s.byID(u, rec.Visit.Provider)
	if m == nil {
		return nil
	}
	meta, err := m.source.Get(ctx)
	if err != nil {
		return err
	}
	if meta.EntityID != rec.Visit.Entity || meta.SOAPLogout() == "" {
		return nil
	}
	return s.sendSOAP(ctx, m, meta, rec.Visit)
}

// SessionEnded queues the LogoutRequests of a session, in the transaction that ends it.
func (s *Service) SessionEnded(tx storage.Tx, personID, session string) error {
	return s.endVisits(tx, storage.Prefix(personID, session), "", "")
}

// SessionsEnded is SessionEnded for all sessions of a person except one ("": no exception).
func (s *Service) SessionsEnded(tx storage.Tx, personID, except string) error {
	return s.endVisits(tx, storage.Prefix(personID), except, "")
}

// endVisits ends visits. provider limits them to one service provider; empty: all.
func (s *Service) endVisits(tx storage.Tx, prefix []byte, except, provider string) error {
	type visit struct {
		key string
		visitRecord
	}
	var list []visit
	for e, err := range visits.Scan(tx, storage.Range{Prefix: prefix}) {
		if err != nil {
			return err
		}
		if storage.Parts(e.Key)[1] != except && (provider == "" || e.Value.Provider == provider) {
			list = append(list, visit{e.Key, e.Value})
		}
	}
	for _, v := range list {
		session := storage.Parts(v.key)[1]
		if err := forgetVisit(tx, v.key, session, v.visitRecord); err != nil {
			return err
		}
		if err := s.logouts.Add(tx, v.Provider, session, v.At, logoutRecord{Visit: v.visitRecord}); err != nil {
			return err
		}
	}
	return nil
}

// Forget removes what is stored of a person who is removed. It is a hook of that removal.
func (s *Service) Forget(tx storage.Tx, personID string) error {
	if err := s.endVisits(tx, storage.Prefix(personID), "", ""); err != nil {
		return err
	}
	var keys, also []string
	for e, err := range names.Scan(tx, storage.Range{Prefix: storage.Prefix(personID)}) {
		if err != nil {
			return err
		}
		keys = append(keys, e.Key)
	}
	for e, err := range grants.Scan(tx, storage.Range{Prefix: storage.Prefix(personID)}) {
		if err != nil {
			return err
		}
		also = append(also, e.Key)
	}
	for _, key := range keys {
		if err := names.Delete(tx, key); err != nil {
			return err
		}
	}
	for _, key := range also {
		if err := grants.Delete(tx, key); err != nil {
			return err
		}
	}
	return nil
}

// watching is a Watcher that tells service providers, too.
type watching struct {
	person.Watcher
	s *Service
}

// WithWatcher returns a Watcher that tells service providers of the end of sessions, besides what another one does.
func (s *Service) WithWatcher(w person.Watcher) person.Watcher { return &watching{w, s} }

func (w *watching) SessionEnded(tx storage.Tx, personID, session string) error {
	return errors.Join(w.Watcher.SessionEnded(tx, personID, session), w.s.SessionEnded(tx, personID, session))
}

func (w *watching) SessionsEnded(tx storage.Tx, personID, except string) error {
	return errors.Join(w.Watcher.SessionsEnded(tx, personID, except), w.s.SessionsEnded(tx, personID, except))
}

// Applications knows what people have granted to applications.
type Applications interface {
	Applications(tx storage.Tx, person string, now time.Time) ([]authn.Application, error)
	ApplicationName(tx storage.Tx, id string) (string, error)
	WithdrawConsent(ctx context.Context, person, application string, by audit.Actor) (int, error)
}

// prefix begins the ids of service providers among those of applications.
const prefix = "saml:"

// applications are those of another, and the service providers.
type applications struct {
	next Applications
	s    *Service
}

// With returns the applications of another one, and the service providers.
func (s *Service) With(a Applications) Applications { return &applications{a, s} }

// Applications returns the applications that a person has granted something, sorted by name.
func (a *applications) Applications(tx storage.Tx, personID string, now time.Time) ([]authn.Application, error) {
	list, err := a.next.Applications(tx, personID, now)
	if err != nil {
		return nil, err
	}
	u, err := a.s.deps.Units(tx)
	if err != nil {
		return nil, err
	}
	for e, err := range grants.Scan(tx, storage.Range{Prefix: storage.Prefix(personID)}) {
		if err != nil {
			return nil, err
		}
		m := a.s.byID(u, storage.Parts(e.Key)[1])
		if m == nil {
			continue
		}
		app := authn.Application{ID: prefix + m.ID, Name: m.Name, Since: e.Value.First, Last: e.Value.Last}
		if meta := m.source.Known(); meta != nil {
			app.Owner = hostOf(meta.DefaultService())
		}
		for _, name := range e.Value.Told {
			app.Scopes = append(app.Scopes, authn.Scope{Name: name, Description: name})
		}
		list = append(list, app)
	}
	slices.SortStableFunc(list, func(a, b authn.Application) int { return strings.Compare(a.Name, b.Name) })
	return list, nil
}

func hostOf(s samlidp.Service) string {
	for _, o := range origin(s.Location) {
		_, host, _ := strings.Cut(o, "://")
		return host
	}
	return ""
}

// ApplicationName returns the name of an application for people, or its id.
func (a *applications) ApplicationName(tx storage.Tx, id string) (string, error) {
	own, is := strings.CutPrefix(id, prefix)
	if !is {
		return a.next.ApplicationName(tx, id)
	}
	u, err := a.s.deps.Units(tx)
	if err != nil {
		return "", err
	}
	if m := a.s.byID(u, own); m != nil {
		return m.Name, nil
	}
	return own, nil
}

// WithdrawConsent takes back what a person has allowed a service provider, and ends their sessions there as far as it
// can be told. The name by which it knows the person stays: with another one it would find another account.
func (a *applications) WithdrawConsent(ctx context.Context, personID, id string, by audit.Actor) (n int, err error) {
	own, is := strings.CutPrefix(id, prefix)
	if !is {
		return a.next.WithdrawConsent(ctx, personID, id, by)
	}
	ev, err := a.s.deps.Person.NewEvents(by.Origin, eventWithdrawn)
	if err != nil {
		return 0, err
	}
	e := by.Fill(ev[0], personID, own)
	e.ClientID = own
	key := storage.Key(personID, own)
	err = a.s.deps.Store.Update(ctx, func(tx storage.Tx) error {
		n = 0
		if _, found, err := grants.Find(tx, key); err != nil || !found {
			return err
		}
		n = 1
		if err := grants.Delete(tx, key); err != nil {
			return err
		}
		if err := a.s.endVisits(tx, storage.Prefix(personID), "", own); err != nil {
			return err
		}
		return a.s.deps.Events.Append(tx, e)
	})
	return n, err
}
