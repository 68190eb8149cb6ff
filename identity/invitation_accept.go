package identity

import (
	"errors"
	"net/http"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/config"
	"github.com/gatehouse-id/gatehouse/identity/notify"
	"github.com/gatehouse-id/gatehouse/internal/event"
	"github.com/gatehouse-id/gatehouse/internal/page"
	"github.com/gatehouse-id/gatehouse/storage"
)

// accepting is what accepting an invitation needs before its transaction.
type accepting struct {
	token               string // of the link
	browser             string // hash of its cookie
	later               bool   // a code has to activate the person as well
	from                event.Origin
	accepted, activated event.Event
	custom              []CustomAttribute // that the person has filled in
}

func (s *Service) prepareEnrolment(r *http.Request, token, browser string) (*accepting, error) {
	u, err := s.configured(r.Context())
	if err != nil {
		return nil, err
	}
	from := s.Origin(r)
	ev, err := s.newEvents(from, invitationAccepted, personActivated)
	if err != nil {
		return nil, err
	}
	return &accepting{token: token, browser: browser, later: activatedLater(&u.Features.PersonActivation), from: from, accepted: ev[0], activated: ev[1]}, nil
}

// activatedLater tells whether whoever accepts an invitation has to be activated by a code as well.
func activatedLater(a *config.PersonActivation) bool {
	return a.Enabled && a.Type == activationByCode && a.ExternallyDeliveredCode.ForceActivationAfterAcceptingInvitation
}

// enrol uses the link of an invitation up and makes the person active, or inactive where a code activates them. how is by what they sign in from now on.
// errMismatch: this browser has not shown what it had to.
func (s *Service) enrol(tx storage.Tx, how string, e *accepting, now time.Time) (*invited, error) {
	x, err := s.readInvitation(tx, e.token, now)
	if err != nil {
		return nil, err
	}
	if !x.shown(e.browser) {
		return nil, errMismatch
	}
	if _, err := s.spendLink(tx, linkInvitation, e.token, now); err != nil {
		return nil, err
	}
	if err := invitations.Delete(tx, x.id); err != nil {
		return nil, err
	}
	x.rec.State, x.rec.UpdatedAt = Active, now
	happened := []event.Event{e.accepted, e.activated}
	if e.later {
		x.rec.State, happened = Inactive, happened[:1]
	}
	x.rec.Epoch++ // codes and links of before end
	x.proveAddresses()
	x.prof.Profile.setCustom(e.custom)
	if err := x.prof.check(); err != nil {
		return nil, err
	}
	x.rec.take(&x.prof)
	if err := persons.Put(tx, x.id, x.rec, time.Time{}); err != nil {
		return nil, err
	}
	if err := profiles.Put(tx, x.id, x.prof, time.Time{}); err != nil {
		return nil, err
	}
	if x.inv.Skipped && x.required() {
		how += ", without showing that they are meant"
	}
	if err := s.appendInvited(tx, x, x.themselves(e.from), how, happened...); err != nil {
		return nil, err
	}
	return x, s.tell(tx, told{id: x.id, rec: &x.rec, profile: &x.prof.Profile}, notify.Welcome, onWeb.enabled, now)
}

// proveAddresses marks what the person has shown to be theirs: the address whose link was opened, where it went there, and the number that got the code.
func (x *invited) proveAddresses() {
	p := x.prof.Profile.clone()
	for i := range p.EmailAddresses {
		if a := &p.EmailAddresses[i]; x.inv.Sent && foldEmail(a.Value) == foldEmail(x.inv.Email) {
			a.Verified = true
		}
	}
	for i := range p.PhoneNumbers {
		if n := &p.PhoneNumbers[i]; x.inv.Number != "" && n.Value == x.inv.Number {
			n.Verified = true
		}
	}
	x.prof.Profile = p
}

// acceptInvitation gives the person the password, opens a session and leads on. errMismatch: what was shown holds no more.
func (s *Service) acceptInvitation(w http.ResponseWriter, r *http.Request, x *invited, browser, phc string, custom []CustomAttribute) error {
	personID := x.id
	e, err := s.prepareEnrolment(r, x.token, browser)
	if err != nil {
		return err
	}
	e.custom = custom
	accept := func(tx storage.Tx, now time.Time) (personRecord, error) {
		if x, err = s.enrol(tx, "by password", e, now); err != nil {
			return personRecord{}, err
		}
		return x.rec, passwords.Put(tx, x.id, passwordRecord{PHC: phc, ChangedAt: now}, time.Time{})
	}
	if e.later {
		now := s.Now()
		err = s.Store.Update(r.Context(), func(tx storage.Tx) error {
			_, err := accept(tx, now)
			return err
		})
	} else {
		err = s.admitNew(w, r, flowRecord{}, personID, "by invitation", accept)
	}
	if err != nil {
		return err
	}
	s.leaveInvitation(w, r, x)
	return nil
}

// leaveInvitation leads on whoever has accepted.
func (s *Service) leaveInvitation(w http.ResponseWriter, r *http.Request, x *invited) {
	s.jar.Clear(w, linkCookieOf(linkInvitation))
	if x.rec.State != Active {
		s.Pages.Render(w, r, page.View{Template: "message", Locales: x.locales(), Data: page.Message{Key: "invitation_inactive", Next: "/sign-in"}})
		return
	}
	s.sendOn(w, r, afterInvitation(x.units))
}

// inviteByProvider sends the person to a provider, whose identity signs them in from now on.
func (s *Service) inviteByProvider(w http.ResponseWriter, r *http.Request, x *invited, p *registered) {
	if p == nil {
		s.Pages.Error(w, r, http.StatusForbidden, "error.no_idp", invitationPath)
		return
	}
	id, err := s.newFlow(w, r, invitationDemand(x))
	if err == nil {
		err = s.changeFlow(r.Context(), id, func(f *flowRecord) { f.Invited = x.id })
	}
	if err != nil {
		s.fail(w, r, err, invitationPath)
		return
	}
	s.redirect(w, r, providerURL(id, p.ID)+"&hop=1")
}

// enterInvited takes the answer of a provider to which an invited person was sent: its identity becomes theirs. The link must be open in this
// browser still.
func (s *Service) enterInvited(w http.ResponseWriter, r *http.Request, a *answered) {
	x, err := s.coupleInvited(w, r, a)
	switch {
	case err == nil:
		s.leaveInvitation(w, r, x)
	case errors.Is(err, ErrCoupled), errors.Is(err, ErrCoupledOther):
		s.recordFailure(r, "", a.flow.Invited, a.provider.Name+": coupled already")
		s.Pages.Error(w, r, http.StatusConflict, "error.coupled", invitationPath)
	case errors.Is(err, errUsed):
		s.Pages.Error(w, r, http.StatusBadRequest, "error.expired", invitationPath)
	case errors.Is(err, errMismatch):
		s.redirect(w, r, invitationCheckPath)
	default:
		s.failInvitation(w, r, err)
	}
}

func (s *Service) coupleInvited(w http.ResponseWriter, r *http.Request, a *answered) (x *invited, err error) {
	e, err := s.prepareEnrolment(r, s.jar.Get(r, linkCookieOf(linkInvitation)), hashed(s.browserID(r)))
	if err != nil {
		return nil, err
	}
	o, err := s.prepare(r, a)
	if err != nil {
		return nil, err
	}
	err = s.Store.Update(r.Context(), func(tx storage.Tx) error {
		if x, err = s.enrol(tx, "by "+a.provider.Name, e, o.now); err != nil {
			return err
		}
		if x.id != a.flow.Invited {
			return errNoLink // another invitation was opened meanwhile
		}
		if err := s.couple(tx, a.provider.ID, a.identity, x.id, o.now); err != nil {
			return err
		}
		if x.rec.State == Active {
			return s.bind(tx, a, o, &found{id: x.id, person: x.rec, newlyOne: true})
		}
		coupled := (&signedIn{session: sessionRecord{PersonID: x.id}, person: x.rec}).own(o.ev[evCoupled], "by "+a.provider.Name)
		if err := takeAnswer(tx, a); err != nil {
			return err
		}
		return s.Events.Append(tx, coupled)
	})
	if err == nil && x.rec.State == Active {
		s.entered(w, r, a, o)
	}
	return x, err
}

// isInvited tells whether the answer of a provider is for an invited person.
func isInvited(a *answered) bool { return a.signIn != "" && a.flow.Invited != "" }
