package account

import (
	"cmp"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/challenge"
	"github.com/gatehouse-id/gatehouse/identity/mfa"
	"github.com/gatehouse-id/gatehouse/identity/notify"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/session"
	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/identity/webflow"
	"github.com/gatehouse-id/gatehouse/internal/web"
	"github.com/gatehouse-id/gatehouse/storage"
)

const contactPath = webflow.ProfilePath + "/contact"

func changeEmailLevel(u *settings.Units) int { return u.StepUp.Actions.ChangeEmailAuthenticationLevel }

// verifies reports whether a contact of this kind needs a code that was sent there.
func (s *Service) verifies(kind person.ContactKind, u *settings.Units) bool {
	if kind == person.ContactPhone {
		return s.deps.Person.VerifiesPhone(u)
	}
	return s.deps.Front.VerifiesEmail(u)
}

// contactMethods are the step-up methods that send their codes to such a contact.
var contactMethods = map[person.ContactKind]string{person.ContactEmail: "email", person.ContactPhone: "sms"}

// contactLevel is the level that a change of contacts needs. If step-up codes are sent to a contact, or could be,
// changing it also sets up that method. Otherwise a stolen password would be enough to redirect the codes, or to remove
// the contact and set up another method.
func (s *Service) contactLevel(st *mfa.Standing) int {
	u := st.Units
	level := max(webflow.DashboardLevel(u), changeEmailLevel(u))
	for kind, name := range contactMethods {
		if m := mfa.Pick(st.All, name); m != nil && m.Level(u) > 0 && (s.verifies(kind, u) || slices.Contains(st.Has, m)) {
			level = max(level, st.SetUpLevel())
		}
	}
	if s.deps.StepUp.SendsPINs(st) && s.deps.Front.VerifiesEmail(u) {
		level = max(level, st.SetUpLevel())
	}
	return level
}

// handleContact serves POST /account/profile/contact: an e-mail address or telephone number is added, confirmed, made
// the primary one or removed.
func (s *Service) handleContact(q *webflow.Request) error {
	q.Again = webflow.ProfilePath
	read, err := s.profileReader(q)
	if err != nil {
		return err
	}
	var v *profilePage
	level, err := s.readLevel(q, func(tx storage.Tx, st *mfa.Standing) (_ int, err error) {
		v, err = read(tx)
		return s.contactLevel(st), err
	})
	if err == nil && q.SignIn != nil && q.SignIn.Session.Level < level {
		err = s.keepTypedContact(q)
	}
	if err != nil {
		return err
	}
	a, err := s.deps.Front.VisitPost(q, webflow.ProfilePath, changeEmailLevel, func(*settings.Units) int { return level })
	if err != nil {
		return err
	}
	if err := s.forgetTypedContact(a, v); err != nil {
		return err
	}
	c := person.Contact{Kind: person.ContactKind(q.PostForm.Get("kind")), Value: strings.TrimSpace(q.PostForm.Get("value"))}
	if c.Kind != person.ContactEmail && c.Kind != person.ContactPhone {
		return &webflow.Answer{Status: http.StatusBadRequest, Key: "error.bad_request", Again: webflow.ProfilePath}
	}
	if q.PostForm.Get("do") == "add" {
		return s.addContact(a, v, c)
	}
	return s.editContact(a, v, c, q.PostForm.Get("do"))
}

// addContact adds a contact, or sends the code that confirms it.
func (s *Service) addContact(a *webflow.Visit, v *profilePage, c person.Contact) error {
	if number, ok := person.ParsePhone(c.Value); ok && c.Kind == person.ContactPhone {
		c.Value = number
	}
	verifies := s.verifies(c.Kind, a.Settings)
	switch problem := c.Problem(a.Settings, &v.own, verifies); {
	case problem != "":
		return s.refuseContact(a, v, c, problem)
	case verifies:
		return s.sendContactCode(a, v, c)
	}
	return s.changeContact(a, contactChange{apply: func(p *person.Profile) { c.Put(p, false) }, done: "added"})
}

// editContact does one of the actions of a contact that the profile has.
func (s *Service) editContact(a *webflow.Visit, v *profilePage, c person.Contact, do string) error {
	verifies := s.verifies(c.Kind, a.Settings)
	i, primary, verified := c.Find(&v.own)
	isEmail := c.Kind == person.ContactEmail
	switch {
	case i < 0: // removed meanwhile
	case do == "verify" && verifies && !verified:
		if _, ok := person.ParsePhone(c.Value); !ok && !isEmail {
			return s.refuseContact(a, v, c, "problem.phone")
		}
		return s.sendContactCode(a, v, c)
	case do == "primary" && (verified || !verifies) && !(isEmail && v.locked("email")):
		return s.changeContact(a, contactChange{apply: c.Prefer, done: "primary"})
	case do == "remove" && !isEmail && len(v.own.PhoneNumbers) == 1 &&
		a.Settings.Attributes.PersonCreationMandatoryFields.MobileNumberRequired:
		return s.renderProfile(a, v, http.StatusUnprocessableEntity, web.Dashboard{Problem: "problem.phone_required"})
	case do == "remove" && !(primary && isEmail):
		return s.changeContact(a, contactChange{apply: c.Drop, done: "removed"})
	}
	return a.Redirect(webflow.ProfilePath)
}

// refuseContact writes the page with the problem of a contact that was typed.
func (s *Service) refuseContact(a *webflow.Visit, v *profilePage, c person.Contact, problem string) error {
	name := c.Field()
	v.problems = map[string]string{name: problem}
	v.edit = string(c.Kind)
	if person.IsText(c.Value, person.MaxLine) {
		v.values[name] = c.Value
	}
	return s.renderProfile(a, v, http.StatusUnprocessableEntity, web.Dashboard{})
}

// contactChange is a change of the person's contacts.
type contactChange struct {
	apply func(*person.Profile)
	// spend uses up the code that confirms the contact, and is false if the code is invalid by now. nil: the change
	// needs no code.
	spend func(storage.Tx) (bool, error)
	flow  string // the sign-in that continues afterwards. Empty: the person was at their profile
	done  string // word for what was done
}

// changeContact makes the change. A username that was the primary address follows that address.
func (s *Service) changeContact(a *webflow.Visit, c contactChange) error {
	err := s.applyContact(a, c, true)
	if errors.Is(err, person.ErrUsernameTaken) { // the new address is another person's username, so this username stays
		err = s.applyContact(a, c, false)
	}
	switch {
	case errors.Is(err, person.ErrMismatch), errors.As(err, new(*person.ValidationError)):
		return a.Redirect(contactReturn(c.flow))
	case err != nil:
		a.Again = contactReturn(c.flow)
		return err
	case c.flow != "":
		return a.Redirect(contactReturn(c.flow))
	}
	return a.Redirect(doneURL(webflow.ProfilePath, c.done))
}

func (s *Service) applyContact(a *webflow.Visit, c contactChange, rename bool) error {
	// Verified: the request decides nothing about that. A contact was verified before, or spend has checked its code.
	_, err := s.updateAs(a, person.Edit{By: s.actor(a), Verified: true}, func(tx storage.Tx, d *person.Details) error {
		if c.spend != nil {
			if ok, err := c.spend(tx); err != nil || !ok {
				return cmp.Or(err, person.ErrMismatch)
			}
		}
		before := d.Profile.PrimaryEmail()
		c.apply(&d.Profile)
		after := d.Profile.PrimaryEmail()
		if rename && after.Verified && before.Value != "" && person.FoldEmail(d.Username) == person.FoldEmail(before.Value) {
			d.Username = after.Value
		}
		return nil
	})
	return err
}

// contactCode is the purpose of the code for a contact.
func contactCode(a *webflow.Visit, c person.Contact) challenge.CodePurpose {
	return challenge.CodePurpose{
		Purpose: "contact " + string(c.Kind), Subject: a.SignIn.ID, Bound: a.SignIn.ID, To: c.Value,
		Limit: a.SignIn.Session.PersonID,
	}
}

// sendContactCode sends a code to a contact that the person claims, and leads to the page that takes it.
func (s *Service) sendContactCode(a *webflow.Visit, v *profilePage, c person.Contact) error {
	wait, sent, err := s.sendCode(a, c, "")
	switch {
	case errors.Is(err, person.ErrMismatch):
		return a.Redirect(webflow.ProfilePath)
	case err != nil:
		return err
	case wait > 0 && !sent:
		d := throttle(a, wait)
		d.Problem, v.values[c.Field()], v.edit = "problem.sent", c.Value, string(c.Kind)
		return s.renderProfile(a, v, http.StatusTooManyRequests, d)
	}
	return a.Redirect(confirmPath)
}

// sendCode sends a code to a contact. If none is sent for now, wait says for how long, and sent whether an earlier one
// for this contact still waits on the page that takes it. flow is the sign-in that continues afterwards, "" for none.
func (s *Service) sendCode(a *webflow.Visit, c person.Contact, flow string) (wait time.Duration, sent bool, err error) {
	code, err := challenge.NewSentCode(s.deps.Random)
	if err != nil {
		return 0, false, err
	}
	now := s.deps.Now()
	err = s.deps.Store.Update(a.Context(), func(tx storage.Tx) error {
		sent = false
		if err := s.recheck(tx, a, now); err != nil {
			return err
		}
		wait, err = s.deps.Proof.SendCode(tx, contactCode(a, c), code, now, func(tx storage.Tx, code string) error {
			return s.deliverCode(tx, a, c, code, now)
		})
		if err != nil {
			return err
		}
		if wait > 0 {
			rec, _, err := newContacts.Find(tx, a.SignIn.ID)
			sent = rec.ExpiresAt.After(now) && rec.contact() == c
			return err
		}
		rec := newContactRecord{Kind: string(c.Kind), Value: c.Value, ExpiresAt: now.Add(person.SentCodeLife), Flow: flow}
		return newContacts.Put(tx, a.SignIn.ID, rec, rec.ExpiresAt.Add(session.CollectAfter))
	})
	return wait, sent, err
}

// deliverCode sends the code. The real owner of the address or number learns only that someone claims it.
func (s *Service) deliverCode(tx storage.Tx, a *webflow.Visit, c person.Contact, code string, now time.Time) error {
	id, rec := a.SignIn.Session.PersonID, &a.SignIn.Person
	if number, ok := person.ParsePhone(c.Value); ok && c.Kind == person.ContactPhone {
		to := person.Recipient{ID: id, Record: rec, Profile: &person.Profile{PreferredLocale: rec.Locale}}
		return s.deps.Person.TextCode(tx, to, notify.SMSPhoneCode, number, code, now)
	}
	return s.deps.Person.SendNotice(tx, notify.Notice{
		Kind: notify.AddressCode, To: c.Value, PersonID: id, Locales: a.SignIn.Locales(), At: now, Data: map[string]string{"code": code},
	})
}

func (r *newContactRecord) contact() person.Contact {
	return person.Contact{Kind: person.ContactKind(r.Kind), Value: r.Value}
}

// ForgetNewContact removes the contact whose code a session waits for. It is called when the session ends with the
// person.
func ForgetNewContact(tx storage.Tx, session string) error { return newContacts.Delete(tx, session) }
