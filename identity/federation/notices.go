package federation

import (
	"cmp"
	"errors"
	"net/http"
	"time"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/identity/notify"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/storage"
)

// tellPerson tells a person that a provider has signed in that they have a new account, or that the provider signs them
// in to the one they had.
func (s *Service) tellPerson(tx storage.Tx, a *Answer, m *Match, now time.Time) error {
	switch {
	case m.NewlyOne:
		return s.deps.Person.TellCoupled(tx, m.ID, &m.Person, a.Provider.ID, a.Identity, now)
	case m.Created:
		if err := s.tellUncoupled(tx, a, uncoupled(a, nil), now); err != nil {
			return err
		}
		u, err := s.deps.Person.Switches(tx)
		if err != nil || !person.ReasonWeb.Enabled(u) {
			return err
		}
		prof, err := person.ReadProfile(tx, m.ID, &m.Person)
		if err != nil {
			return err
		}
		return s.deps.Person.SendNotice(tx,
			person.Recipient{ID: m.ID, Record: &m.Person, Profile: &prof.Profile, VerifiedOnly: true}.Notice(notify.Welcome, now))
	}
	return nil
}

// NoticeTo is a notice to an organisation, in its language.
func NoticeTo(o *settings.Organisation, kind notify.Kind, at time.Time) notify.Notice {
	n := notify.Notice{Kind: kind, To: o.SupportEmail, At: at}
	if o.PreferredLanguage != "" {
		n.Locales = []string{o.PreferredLanguage}
	}
	return n
}

// uncoupled is the notice about settings that kept an identity from being coupled with the account that has its
// address, at a provider that couples by address. err is why the identity signs no one in, if it does not. Empty: the
// settings are right.
func uncoupled(a *Answer, err error) notify.Kind {
	_, verified := person.VerifiedEmail(a.Identity)
	switch {
	case !a.Provider.CoupleEmail:
		return ""
	case !verified:
		return notify.CouplingUnverified
	case errors.Is(err, errSeveral):
		return notify.CouplingAmbiguous
	case errors.Is(err, errUntrusted):
		return notify.CouplingUntrusted
	}
	return ""
}

// tellUncoupled tells the organisation of the application that asked what keeps accounts from being coupled.
func (s *Service) tellUncoupled(tx storage.Tx, a *Answer, kind notify.Kind, now time.Time) error {
	if s.deps.Notify == nil || kind == "" {
		return nil
	}
	units, err := s.deps.Units(tx)
	if err != nil || !units.EmailNotifications.ConfigurationErrorForAccountLinking {
		return err
	}
	client := a.Flow.Demand.Client
	o := units.OrganisationOf(client.ID)
	if o == nil || o.SupportEmail == "" {
		return nil
	}
	key := storage.Key("coupling", string(kind), a.Provider.ID, o.ID)
	last, _, err := person.NoticeTimes.Find(tx, key)
	if err != nil {
		return err
	}
	if now.Before(last.At.Add(person.UncoupledEvery)) {
		return nil
	}
	if err := person.NoticeTimes.Put(tx, key, person.NoticeTimeRecord{At: now}, now.Add(person.UncoupledEvery)); err != nil {
		return err
	}
	n := NoticeTo(o, kind, now)
	n.Data = map[string]string{"provider": a.Provider.Name, "application": cmp.Or(client.Name, client.ID)}
	return s.deps.Person.SendNotice(tx, n)
}

// warnUncoupled is tellUncoupled for an identity that signed no one in. Its errors do not stop the person.
func (s *Service) warnUncoupled(r *http.Request, a *Answer, err error) {
	kind := uncoupled(a, err)
	if kind == "" || s.deps.Notify == nil {
		return
	}
	now := s.deps.Now()
	if err := s.deps.Store.Update(r.Context(), func(tx storage.Tx) error { return s.tellUncoupled(tx, a, kind, now) }); err != nil {
		s.deps.Log.Warn("the organisation is not told why accounts are not coupled", zap.String("provider", a.Provider.ID), zap.Error(err))
	}
}
