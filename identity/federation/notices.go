package federation

import (
	"cmp"
	"errors"
	"net/http"
	"time"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/identity/config"
	"github.com/gatehouse-id/gatehouse/identity/notify"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/storage"
)

// tellOpened tells a person whom a provider has brought: that there is an account now, or that the provider signs them in to theirs.
func (s *Service) tellOpened(tx storage.Tx, a *Answer, f *Match, now time.Time) error {
	switch {
	case f.NewlyOne:
		return s.person.TellCoupled(tx, f.ID, &f.Person, a.Provider.ID, now)
	case f.Created:
		if err := s.tellUncoupled(tx, a, uncoupled(a, nil), now); err != nil {
			return err
		}
		u, err := s.person.Switches(tx)
		if err != nil || !person.ReasonWeb.Enabled(u) {
			return err
		}
		prof, err := person.ReadProfile(tx, f.ID, &f.Person)
		if err != nil {
			return err
		}
		return s.person.SendNotice(tx, person.Recipient{ID: f.ID, Rec: &f.Person, Profile: &prof.Profile, VerifiedOnly: true}.Notice(notify.Welcome, now))
	}
	return nil
}

// NoticeTo is a notice to an organisation, in its language.
func NoticeTo(o *config.Organisation, kind notify.Kind, at time.Time) notify.Notice {
	n := notify.Notice{Kind: kind, To: o.SupportEmail, At: at}
	if o.PreferredLanguage != "" {
		n.Locales = []string{o.PreferredLanguage}
	}
	return n
}

// uncoupled is why an identity did not become the person's with its address, at a provider whose identities are to be coupled so. err is why it signs
// nobody in, if it does not. Empty: somebody has set nothing wrong.
func uncoupled(a *Answer, err error) notify.Kind {
	_, verified := person.VerifiedEmail(a.Identity)
	switch {
	case !a.Provider.CoupleEmail:
		return ""
	case !verified:
		return notify.CouplingUnverified
	case errors.Is(err, errSeveral):
		return notify.CouplingAmbiguous
	case errors.Is(err, errUnbelieved):
		return notify.CouplingUntrusted
	}
	return ""
}

// tellUncoupled tells the organisation of the application that a person is on the way to what keeps accounts from being coupled.
func (s *Service) tellUncoupled(tx storage.Tx, a *Answer, kind notify.Kind, now time.Time) error {
	if s.notify == nil || kind == "" {
		return nil
	}
	units, err := s.units(tx)
	if err != nil || !units.EmailNotifications.ConfigurationErrorForAccountLinking {
		return err
	}
	client := a.Flow.Demand.Client
	o := units.OrganisationOf(client.ID)
	if o == nil || o.SupportEmail == "" {
		return nil
	}
	key := storage.Key("coupling", string(kind), a.Provider.ID, o.ID)
	last, err := person.NoticeTimes.Get(tx, key)
	if err != nil && !errors.Is(err, storage.ErrNotFound) {
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
	return s.person.SendNotice(tx, n)
}

// warnUncoupled tells the same of an identity that signed nobody in. The person goes on, whatever becomes of it.
func (s *Service) warnUncoupled(r *http.Request, a *Answer, err error) {
	kind := uncoupled(a, err)
	if kind == "" || s.notify == nil {
		return
	}
	now := s.now()
	if err := s.store.Update(r.Context(), func(tx storage.Tx) error { return s.tellUncoupled(tx, a, kind, now) }); err != nil {
		s.log.Warn("nobody is told why accounts are not coupled", zap.String("provider", a.Provider.ID), zap.Error(err))
	}
}
