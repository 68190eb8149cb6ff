package identity

import (
	"cmp"
	"errors"
	"net/http"
	"time"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/identity/config"
	"github.com/gatehouse-id/gatehouse/identity/notify"
	"github.com/gatehouse-id/gatehouse/internal/login"
	"github.com/gatehouse-id/gatehouse/storage"
)

// unlinkedPerPerson is how often an organisation hears that a person has left one application, before the first pause: nobody fills its mailbox by
// coming and going.
const unlinkedPerPerson = 5

// Unlinked tells the organisation of an application that a person has taken back what they had given to it, if it wants to know. It hears nothing of
// the person but the subject by which the application knows them. authz calls it in the transaction in which it happens.
func (s *Service) Unlinked(tx storage.Tx, u login.Unlinked) error {
	if s.Notify == nil {
		return nil
	}
	units, err := s.Units(tx)
	if err != nil {
		return err
	}
	o := units.OrganisationOf(u.ClientID)
	if o == nil || !o.NotifyWhenUserDoesUnlinkAccount || o.SupportEmail == "" {
		return nil
	}
	wait, err := s.tooMany(tx, "unlinked", storage.Key(u.Person, u.ClientID), unlinkedPerPerson, u.At)
	if err != nil {
		return err
	}
	if wait > 0 {
		s.Log.Info("organisation not told of a withdrawal: too many", zap.String("person_id", u.Person), zap.String("client_id", u.ClientID))
		return nil
	}
	n := noticeTo(o, notify.AccountUnlinked, u.At)
	n.PersonID, n.Data = u.Person, map[string]string{"application": u.Client, "subject": u.Subject}
	return s.send(tx, n)
}

// noticeTo is a notice to an organisation, in its language.
func noticeTo(o *config.Organisation, kind notify.Kind, at time.Time) notify.Notice {
	n := notify.Notice{Kind: kind, To: o.SupportEmail, At: at}
	if o.PreferredLanguage != "" {
		n.Locales = []string{o.PreferredLanguage}
	}
	return n
}

// uncoupled is why an identity did not become the person's with its address, at a provider whose identities are to be coupled so. err is why it signs
// nobody in, if it does not. Empty: somebody has set nothing wrong.
func uncoupled(a *answered, err error) notify.Kind {
	_, verified := verifiedEmail(a.identity)
	switch {
	case !a.provider.CoupleEmail:
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

// uncoupledEvery is how often at most an organisation is told of one cause at one provider.
const uncoupledEvery = 6 * time.Hour

// tellUncoupled tells the organisation of the application that a person is on the way to what keeps accounts from being coupled.
func (s *Service) tellUncoupled(tx storage.Tx, a *answered, kind notify.Kind, now time.Time) error {
	if s.Notify == nil || kind == "" {
		return nil
	}
	units, err := s.Units(tx)
	if err != nil || !units.EmailNotifications.ConfigurationErrorForAccountLinking {
		return err
	}
	client := a.flow.Demand.Client
	o := units.OrganisationOf(client.ID)
	if o == nil || o.SupportEmail == "" {
		return nil
	}
	key := storage.Key("coupling", string(kind), a.provider.ID, o.ID)
	last, err := noticed.Get(tx, key)
	if err != nil && !errors.Is(err, storage.ErrNotFound) {
		return err
	}
	if now.Before(last.At.Add(uncoupledEvery)) {
		return nil
	}
	if err := noticed.Put(tx, key, noticedRecord{At: now}, now.Add(uncoupledEvery)); err != nil {
		return err
	}
	n := noticeTo(o, kind, now)
	n.Data = map[string]string{"provider": a.provider.Name, "application": cmp.Or(client.Name, client.ID)}
	return s.send(tx, n)
}

// warnUncoupled tells the same of an identity that signed nobody in. The person goes on, whatever becomes of it.
func (s *Service) warnUncoupled(r *http.Request, a *answered, err error) {
	kind := uncoupled(a, err)
	if kind == "" || s.Notify == nil {
		return
	}
	now := s.Now()
	if err := s.Store.Update(r.Context(), func(tx storage.Tx) error { return s.tellUncoupled(tx, a, kind, now) }); err != nil {
		s.Log.Warn("nobody is told why accounts are not coupled", zap.String("provider", a.provider.ID), zap.Error(err))
	}
}
