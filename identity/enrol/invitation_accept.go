package enrol

import (
	"errors"
	"net/http"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/config"
	"github.com/gatehouse-id/gatehouse/identity/federation"
	"github.com/gatehouse-id/gatehouse/identity/front"
	"github.com/gatehouse-id/gatehouse/identity/notify"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/proof"
	"github.com/gatehouse-id/gatehouse/identity/session"
	"github.com/gatehouse-id/gatehouse/internal/event"
	"github.com/gatehouse-id/gatehouse/internal/page"
	"github.com/gatehouse-id/gatehouse/storage"
)

// acceptance is what accepting an invitation needs before its transaction.
type acceptance struct {
	token               string // of the link
	browser             string // hash of its cookie
	later               bool   // a code has to activate the person as well
	from                event.Origin
	accepted, activated event.Event
	custom              []person.CustomAttribute // that the person has filled in
}

func (s *Service) prepareEnrolment(r *http.Request, token, browser string) (*acceptance, error) {
	u, err := s.person.Settings(r.Context())
	if err != nil {
		return nil, err
	}
	from := s.origin(r)
	ev, err := s.person.NewEvents(from, invitationAccepted, person.EventActivated)
	if err != nil {
		return nil, err
	}
	return &acceptance{token: token, browser: browser, later: activatedLater(&u.Features.PersonActivation), from: from, accepted: ev[0], activated: ev[1]}, nil
}

// activatedLater tells whether whoever accepts an invitation has to be activated by a code as well.
func activatedLater(a *config.PersonActivation) bool {
	return a.Enabled && a.Type == person.ActivationByCode && a.ExternallyDeliveredCode.ForceActivationAfterAcceptingInvitation
}

// enrol uses the link of an invitation up and makes the person active, or inactive where a code activates them. how is by what they sign in from now on.
// person.ErrMismatch: this browser has not shown what it had to.
func (s *Service) enrol(tx storage.Tx, how string, e *acceptance, now time.Time) (*invitation, error) {
	x, err := s.readInvitation(tx, e.token, now)
	if err != nil {
		return nil, err
	}
	if !x.shown(e.browser) {
		return nil, person.ErrMismatch
	}
	if _, err := s.proof.SpendLink(tx, LinkInvitation, e.token, now); err != nil {
		return nil, err
	}
	if err := invitations.Delete(tx, x.id); err != nil {
		return nil, err
	}
	x.rec.State, x.rec.UpdatedAt = person.Inactive, now
	x.rec.Epoch++ // codes and links of before end
	x.proveAddresses()
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
	if x.inv.Skipped && x.required() {
		how += ", without showing that they are meant"
	}
	if err := s.appendInvited(tx, x, x.themselves(e.from), how, e.accepted); err != nil {
		return nil, err
	}
	if e.later {
		return x, s.person.Notify(tx, person.Recipient{ID: x.id, Rec: &x.rec, Profile: &x.prof.Profile}, notify.Welcome, person.ReasonWeb.Enabled, now)
	}
	x.rec.Awaits = person.ReasonWeb // decides whether they are welcomed
	x.rec, err = s.person.Activate(tx, x.id, x.rec, x.themselves(e.from).Fill(e.activated, x.id, how), now)
	return x, err
}

// proveAddresses marks what the person has shown to be theirs: the address whose link was opened, where it went there, and the number that got the code.
func (x *invitation) proveAddresses() {
	p := x.prof.Profile.Clone()
	for i := range p.EmailAddresses {
		if a := &p.EmailAddresses[i]; x.inv.Sent && person.FoldEmail(a.Value) == person.FoldEmail(x.inv.Email) {
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

// acceptInvitation gives the person the password, opens a session and leads on. person.ErrMismatch: what was shown holds no more.
func (s *Service) acceptInvitation(w http.ResponseWriter, r *http.Request, x *invitation, browser, phc string, custom []person.CustomAttribute) error {
	personID := x.id
	e, err := s.prepareEnrolment(r, x.token, browser)
	if err != nil {
		return err
	}
	e.custom = custom
	accept := func(tx storage.Tx, now time.Time) (person.Record, error) {
		if x, err = s.enrol(tx, "by password", e, now); err != nil {
			return person.Record{}, err
		}
		return x.rec, person.Passwords.Put(tx, x.id, person.PasswordRecord{PHC: phc, ChangedAt: now}, time.Time{})
	}
	if e.later {
		now := s.now()
		err = s.store.Update(r.Context(), func(tx storage.Tx) error {
			_, err := accept(tx, now)
			return err
		})
	} else {
		err = s.front.AdmitNew(w, r, front.FlowRecord{}, personID, "by invitation", accept)
	}
	if err != nil {
		return err
	}
	s.leaveInvitation(w, r, x)
	return nil
}

// leaveInvitation leads on whoever has accepted.
func (s *Service) leaveInvitation(w http.ResponseWriter, r *http.Request, x *invitation) {
	s.jar.Clear(w, proof.LinkCookieOf(LinkInvitation))
	if x.rec.State != person.Active {
		s.pages.Render(w, r, page.View{Template: "message", Locales: x.locales(), Data: page.Message{Key: "invitation_inactive", Next: "/sign-in"}})
		return
	}
	s.front.LeaveTo(w, r, afterInvitation(x.units))
}

// inviteByProvider sends the person to a provider, whose identity signs them in from now on.
func (s *Service) inviteByProvider(w http.ResponseWriter, r *http.Request, x *invitation, p *federation.Member) {
	if p == nil {
		s.pages.Error(w, r, http.StatusForbidden, "error.no_idp", InvitationPath)
		return
	}
	id, err := s.front.NewFlow(w, r, invitationDemand(x))
	if err == nil {
		err = s.front.ChangeFlow(r.Context(), id, func(f *front.FlowRecord) { f.Invited = x.id })
	}
	if err != nil {
		s.front.Fail(w, r, err, InvitationPath)
		return
	}
	s.front.Redirect(w, r, federation.ProviderURL(id, p.ID)+"&hop=1")
}

// EnterInvited takes the answer of a provider to which an invited person was sent: its identity becomes theirs. The link must be open in this
// browser still.
func (s *Service) EnterInvited(w http.ResponseWriter, r *http.Request, a *federation.Answer) {
	x, err := s.coupleInvited(w, r, a)
	switch {
	case err == nil:
		s.leaveInvitation(w, r, x)
	case errors.Is(err, person.ErrCoupled), errors.Is(err, person.ErrCoupledOther):
		s.federation.RecordFailure(r, "", a.Flow.Invited, a.Provider.Name+": coupled already")
		s.pages.Error(w, r, http.StatusConflict, "error.coupled", InvitationPath)
	case errors.Is(err, federation.ErrUsed):
		s.pages.Error(w, r, http.StatusBadRequest, "error.expired", InvitationPath)
	case errors.Is(err, person.ErrMismatch):
		s.front.Redirect(w, r, invitationCheckPath)
	default:
		s.failInvitation(w, r, err)
	}
}

func (s *Service) coupleInvited(w http.ResponseWriter, r *http.Request, a *federation.Answer) (x *invitation, err error) {
	e, err := s.prepareEnrolment(r, s.jar.Get(r, proof.LinkCookieOf(LinkInvitation)), proof.Hashed(s.federation.BrowserID(r)))
	if err != nil {
		return nil, err
	}
	o, err := s.federation.PrepareSession(r, a)
	if err != nil {
		return nil, err
	}
	err = s.store.Update(r.Context(), func(tx storage.Tx) error {
		if x, err = s.enrol(tx, "by "+a.Provider.Name, e, o.Now); err != nil {
			return err
		}
		if x.id != a.Flow.Invited {
			return proof.ErrNoLink // another invitation was opened meanwhile
		}
		if err := s.person.CoupleIdentity(tx, a.Provider.ID, a.Identity, x.id, o.Now); err != nil {
			return err
		}
		if x.rec.State == person.Active {
			return s.federation.Bind(tx, a, o, &federation.Match{ID: x.id, Person: x.rec, NewlyOne: true})
		}
		coupled := (&session.Current{Session: session.Record{PersonID: x.id}, Person: x.rec}).OwnEvent(o.Ev[federation.EvCoupled], "by "+a.Provider.Name)
		if err := federation.TakeAnswer(tx, a); err != nil {
			return err
		}
		return s.events.Append(tx, coupled)
	})
	if err == nil && x.rec.State == person.Active {
		s.federation.FinishSignIn(w, r, a, o)
	}
	return x, err
}

// IsInvited tells whether the answer of a provider is for an invited person.
func IsInvited(a *federation.Answer) bool { return a.SignIn != "" && a.Flow.Invited != "" }
