package invitation

import (
	"errors"
	"net/http"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/challenge"
	"github.com/gatehouse-id/gatehouse/identity/federation"
	"github.com/gatehouse-id/gatehouse/identity/notify"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/session"
	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/identity/webflow"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/web"
	"github.com/gatehouse-id/gatehouse/storage"
)

// acceptance is the data that is prepared before the transaction that accepts an invitation.
type acceptance struct {
	token               string // of the link
	browser             string // hash of its cookie
	inactive            bool   // the person needs an activation code as well
	from                audit.Origin
	accepted, activated audit.Event
	custom              []person.CustomAttribute // of the form
}

func (s *Service) prepareAcceptance(q *webflow.Request, token, browser string) (*acceptance, error) {
	from := s.deps.Origin(q.Request)
	ev, err := s.deps.Person.NewEvents(from, invitationAccepted, person.EventActivated)
	if err != nil {
		return nil, err
	}
	return &acceptance{
		token: token, browser: browser, inactive: needsCode(&q.Settings.Features.PersonActivation),
		from: from, accepted: ev[0], activated: ev[1],
	}, nil
}

// needsCode reports whether a person who accepts an invitation must be activated by a code as well.
func needsCode(a *settings.PersonActivation) bool {
	return a.Enabled && a.Type == person.ActivationByCode &&
		a.ExternallyDeliveredCode.ForceActivationAfterAcceptingInvitation
}

// acceptInvitation uses up the link of an invitation and makes the person active, or inactive if a code is needed. how
// is the way to sign in from now on. person.ErrMismatch: this browser has not passed the check.
func (s *Service) acceptInvitation(tx storage.Tx, how string, e *acceptance, now time.Time) (*invitation, error) {
	x, err := s.readInvitation(tx, e.token, now)
	if err != nil {
		return nil, err
	}
	if !x.isChecked(e.browser) {
		return nil, person.ErrMismatch
	}
	if _, err := s.deps.Proof.SpendLink(tx, linkInvitation, e.token, now); err != nil {
		return nil, err
	}
	if err := invitations.Delete(tx, x.id); err != nil {
		return nil, err
	}
	x.rec.State, x.rec.UpdatedAt = person.Inactive, now
	x.rec.Epoch++ // ends earlier codes and links
	x.verifyContacts()
	x.prof.Profile.SetCustom(e.custom)
	if err := x.prof.Check(); err != nil {
		return nil, err
	}
	x.rec.Take(&x.prof)
	if err := person.Records.Put(tx, x.id, x.rec, time.Time{}); err != nil {
		return nil, err
	}
	if err := person.Profiles.Put(tx, x.id, x.prof, time.Time{}); err != nil {
		return nil, err
	}
	if x.inv.Skipped && x.needsCheck() {
		how += ", without showing that they are meant"
	}
	by := x.actor(e.from)
	if err := s.appendEvents(tx, x.id, &x.rec, by, how, e.accepted); err != nil {
		return nil, err
	}
	if e.inactive {
		t := person.Recipient{ID: x.id, Record: &x.rec, Profile: &x.prof.Profile}
		return x, s.deps.Person.Notify(tx, t, notify.Welcome, person.ReasonWeb.Enabled, now)
	}
	x.rec.Awaits = person.ReasonWeb // decides whether the welcome is sent
	x.rec, err = s.deps.Person.Activate(tx, x.id, x.rec, by.Fill(e.activated, x.id, how), now)
	return x, err
}

// verifyContacts marks the address that the link was sent to, and the number that the code was sent to, as verified.
func (x *invitation) verifyContacts() {
	if x.inv.Sent {
		x.prof.VerifyEmail(x.inv.Email)
	}
	p := x.prof.Profile.Clone()
	for i := range p.PhoneNumbers {
		if n := &p.PhoneNumbers[i]; x.inv.Number != "" && n.Value == x.inv.Number {
			n.Verified = true
		}
	}
	x.prof.Profile = p
}

// acceptByPassword gives the person the password, opens a session and redirects. person.ErrMismatch: the check is no
// longer valid.
func (s *Service) acceptByPassword(q *webflow.Request, x *invitation, phc string, custom []person.CustomAttribute) error {
	personID := x.id
	e, err := s.prepareAcceptance(q, x.token, x.browser)
	if err != nil {
		return err
	}
	e.custom = custom
	accept := func(tx storage.Tx, now time.Time) (person.Record, error) {
		if x, err = s.acceptInvitation(tx, "by password", e, now); err != nil {
			return person.Record{}, err
		}
		password := person.PasswordRecord{PHC: phc, ChangedAt: now, SetBy: x.setBy()}
		return x.rec, person.Passwords.Put(tx, x.id, password, time.Time{})
	}
	if e.inactive {
		now := s.deps.Now()
		err = s.deps.Store.Update(q.Context(), func(tx storage.Tx) error {
			_, err := accept(tx, now)
			return err
		})
	} else {
		err = s.deps.Front.AdmitNew(q.W, q.Request, webflow.FlowRecord{}, personID, "by invitation", accept)
	}
	if err != nil {
		return err
	}
	return s.leaveInvitation(q, x)
}

// leaveInvitation redirects a person who has accepted, or says that the account is still inactive.
func (s *Service) leaveInvitation(q *webflow.Request, x *invitation) error {
	s.deps.Jar.Clear(q.W, challenge.LinkCookieOf(linkInvitation))
	if x.rec.State == person.Active {
		return q.LeaveTo(webflow.AfterSignUp(x.units))
	}
	s.deps.Pages.Render(q.W, q.Request, web.View{
		Template: "message", Locales: x.locales(), Data: web.Message{Key: "invitation_inactive", Next: "/sign-in"},
	})
	return nil
}

// acceptByProvider sends the person to a provider, whose identity signs the person in from now on. p is nil for an
// unknown provider.
func (s *Service) acceptByProvider(q *webflow.Request, x *invitation, p *federation.Member) error {
	if p == nil {
		return &webflow.Answer{Status: http.StatusForbidden, Key: "error.no_idp", Again: invitationPath}
	}
	id, err := s.deps.Front.NewFlow(q.W, q.Request, x.demand())
	if err != nil {
		return err
	}
	if err := s.deps.Front.ChangeFlow(q.Context(), id, func(f *webflow.FlowRecord) { f.Invited = x.id }); err != nil {
		return err
	}
	return q.Redirect(federation.ProviderURL(id, p.ID) + "&hop=1")
}

// isInvited reports whether the answer of a provider is for an invited person.
func isInvited(a *federation.Answer) bool { return a.SignIn != "" && a.Flow.Invited != "" }

// takeInvited takes the answer of the provider that an invited person was sent to: its identity becomes the person's.
// The link must still be open in this browser.
func (s *Service) takeInvited(q *webflow.Request, a *federation.Answer) error {
	x, err := s.coupleInvited(q, a)
	switch {
	case err == nil:
		return s.leaveInvitation(q, x)
	case errors.Is(err, person.ErrCoupled), errors.Is(err, person.ErrCoupledOther):
		s.deps.Federation.RecordFailure(q.Request, "", a.Provider.ID, a.Flow.Invited, a.Provider.Name+": coupled already")
		return &webflow.Answer{Status: http.StatusConflict, Key: "error.coupled", Again: invitationPath}
	case errors.Is(err, federation.ErrUsed):
		return webflow.TooLate(invitationPath)
	case errors.Is(err, person.ErrMismatch):
		return q.Redirect(invitationCheckPath)
	}
	return s.invitationError(q, err)
}

// coupleInvited accepts the invitation and links the identity to the person, in one transaction.
func (s *Service) coupleInvited(q *webflow.Request, a *federation.Answer) (x *invitation, err error) {
	browser := challenge.Hashed(s.deps.Federation.BrowserID(q.Request))
	e, err := s.prepareAcceptance(q, s.deps.Jar.Get(q.Request, challenge.LinkCookieOf(linkInvitation)), browser)
	if err != nil {
		return nil, err
	}
	o, err := s.deps.Federation.PrepareSession(q.Request, a)
	if err != nil {
		return nil, err
	}
	err = s.deps.Store.Update(q.Context(), func(tx storage.Tx) error {
		if x, err = s.acceptInvitation(tx, "by "+a.Provider.Name, e, o.Now); err != nil {
			return err
		}
		if x.id != a.Flow.Invited {
			return challenge.ErrNoLink // another invitation was opened meanwhile
		}
		if err := s.deps.Person.CoupleProved(tx, a.Provider.ID, a.Identity, x.id, o.Now); err != nil {
			return err
		}
		if err := person.NoteVouched(tx, a.Provider.ID, a.Identity, x.setBy() != ""); err != nil {
			return err
		}
		if x.rec.State == person.Active {
			return s.deps.Federation.Bind(tx, a, o, &federation.Match{ID: x.id, Person: x.rec, NewlyOne: true})
		}
		if err := federation.TakeAnswer(tx, a); err != nil {
			return err
		}
		si := &session.Current{Session: session.Record{PersonID: x.id}, Person: x.rec}
		return s.deps.Events.Append(tx, si.OwnEvent(o.Ev[federation.EvCoupled], "by "+a.Provider.Name))
	})
	if err == nil && x.rec.State == person.Active {
		s.deps.Federation.FinishSignIn(q.W, q.Request, a, o)
	}
	return x, err
}
