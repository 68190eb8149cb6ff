package account

import (
	"cmp"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/config"
	"github.com/gatehouse-id/gatehouse/identity/front"
	"github.com/gatehouse-id/gatehouse/identity/notify"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/proof"
	"github.com/gatehouse-id/gatehouse/identity/session"
	"github.com/gatehouse-id/gatehouse/identity/stepup"
	"github.com/gatehouse-id/gatehouse/internal/page"
	"github.com/gatehouse-id/gatehouse/storage"
)

const (
	contactPath = front.ProfilePath + "/contact"
	confirmPath = front.ProfilePath + "/confirm"
)

func changeEmailLevel(u *config.Units) int { return u.StepUp.Actions.ChangeEmailAuthenticationLevel }

func (s *Service) verifies(kind person.ContactKind, u *config.Units) bool {
	if kind == person.ContactPhone {
		return s.person.VerifiesPhone(u)
	}
	return s.front.VerifiesEmail(u)
}

// contactMethods are the step-up methods whose codes go to such a contact.
var contactMethods = map[person.ContactKind]string{person.ContactEmail: "email", person.ContactPhone: "sms"}

// contactPost is accountPost for a change of how the person is reached. Where codes that raise the level of a sign-in are sent there, or could be, it is a
// set-up of that method too: whoever knows the password alone would have them sent elsewhere, or nowhere and then set up a method of their own.
func (s *Service) contactPost(w http.ResponseWriter, r *http.Request, path string) (*front.Visit, bool) {
	a, ok := s.front.Guard(w, r, path, changeEmailLevel)
	if !ok {
		return nil, false
	}
	st, err := s.stepup.StandingOf(r.Context(), a.Si)
	if err != nil {
		s.front.Fail(w, r, err, path)
		return nil, false
	}
	a.Level = s.contactLevel(st)
	if a.Si, ok = s.front.RequireLevel(w, r, a.Level, path); !ok {
		return nil, false
	}
	return a, r.Method != http.MethodPost || s.front.CheckSecurityForm(w, r, a.Si, path, path)
}

// contactLevel is the level that a change of how the person is reached needs.
func (s *Service) contactLevel(st *stepup.Standing) int {
	u := st.Units
	level := max(front.DashboardLevel(u), changeEmailLevel(u))
	for kind, name := range contactMethods {
		if m := stepup.Pick(st.All, name); m != nil && m.Level(u) > 0 && (s.verifies(kind, u) || slices.Contains(st.Has, m)) {
			level = max(level, st.SetUpLevel())
		}
	}
	if s.stepup.SendsPINs(st) && s.front.VerifiesEmail(u) {
		level = max(level, st.SetUpLevel())
	}
	return level
}

// handleContact serves POST /account/profile/contact: an e-mail address or telephone number is added, confirmed, made the primary one or removed.
func (s *Service) handleContact(w http.ResponseWriter, r *http.Request) {
	if err := s.keepContact(r); err != nil {
		s.front.Fail(w, r, err, front.ProfilePath)
		return
	}
	a, ok := s.contactPost(w, r, front.ProfilePath)
	if !ok {
		return
	}
	v, err := s.readOwn(r, a)
	if err == nil {
		err = s.forgetContact(r, a)
	}
	if err != nil {
		s.front.Fail(w, r, err, front.ProfilePath)
		return
	}
	c := person.Contact{Kind: person.ContactKind(r.PostForm.Get("kind")), Value: strings.TrimSpace(r.PostForm.Get("value"))}
	if c.Kind != person.ContactEmail && c.Kind != person.ContactPhone {
		s.pages.Error(w, r, http.StatusBadRequest, "error.bad_request", front.ProfilePath)
		return
	}
	verifies, what := s.verifies(c.Kind, a.U), ""
	if number, ok := person.ParsePhone(c.Value); ok && c.Kind == person.ContactPhone && r.PostForm.Get("do") == "add" {
		c.Value = number
	}
	i, primary, verified := c.Find(&v.own)
	change := func(*person.Profile) {}
	switch do := r.PostForm.Get("do"); {
	case do == "add":
		if problem := c.Problem(a.U, &v.own, verifies); problem != "" {
			s.contactRefused(w, r, a, v, c, problem)
			return
		}
		if verifies {
			s.sendContactCode(w, r, a, v, c)
			return
		}
		what, change = "added", func(p *person.Profile) { c.Put(p, false) }
	case i < 0: // gone meanwhile
	case do == "verify" && verifies && !verified:
		if _, ok := person.ParsePhone(c.Value); !ok && c.Kind == person.ContactPhone {
			s.contactRefused(w, r, a, v, c, "problem.phone")
			return
		}
		s.sendContactCode(w, r, a, v, c)
		return
	case do == "primary" && (verified || !verifies) && !(c.Kind == person.ContactEmail && v.locked("email")):
		what, change = "primary", c.Prefer
	case do == "remove" && c.Kind == person.ContactPhone && len(v.own.PhoneNumbers) == 1 && a.U.Attributes.PersonCreationMandatoryFields.MobileNumberRequired:
		s.writeProfilePage(w, r, a, v, http.StatusUnprocessableEntity, page.Dashboard{Problem: "problem.phone_required"})
		return
	case do == "remove" && !(primary && c.Kind == person.ContactEmail):
		what, change = "removed", c.Drop
	}
	if what == "" {
		s.front.Redirect(w, r, front.ProfilePath)
		return
	}
	s.changeContact(w, r, a, change, nil, what)
}

// contactRefused writes the page with what is wrong about a contact that was typed.
func (s *Service) contactRefused(w http.ResponseWriter, r *http.Request, a *front.Visit, v *profilePage, c person.Contact, problem string) {
	name := c.Field()
	v.problems = map[string]string{name: problem}
	if person.IsText(c.Value, person.MaxLine) {
		v.values[name] = c.Value
	}
	s.writeProfilePage(w, r, a, v, http.StatusUnprocessableEntity, page.Dashboard{})
}

// changeContact changes how the person is reached, and with the primary address the username that was the address before. spend, where there is one,
// uses up the code that shows the contact to be the person's own.
func (s *Service) changeContact(w http.ResponseWriter, r *http.Request, a *front.Visit, change func(*person.Profile), spend func(storage.Tx) (bool, error), what string) {
	err := s.updateContact(r, a, change, spend, true)
	if errors.Is(err, person.ErrUsernameTaken) { // the address is another person's username: this one keeps theirs
		err = s.updateContact(r, a, change, spend, false)
	}
	switch {
	case errors.Is(err, person.ErrMismatch), errors.As(err, new(*person.ValidationError)):
		s.front.Redirect(w, r, a.Back())
	case err != nil:
		s.front.Fail(w, r, err, a.Back())
	case a.Flow != "":
		s.front.Redirect(w, r, a.Back())
	default:
		s.front.Redirect(w, r, front.DoneURL(front.ProfilePath, what))
	}
}

func (s *Service) updateContact(r *http.Request, a *front.Visit, change func(*person.Profile), spend func(storage.Tx) (bool, error), rename bool) error {
	// Nothing that the request says is called verified: either it was before, or spend has shown it.
	_, err := s.person.UpdatePerson(r.Context(), a.Si.Session.PersonID, person.Edit{By: s.front.Actor(r, a.Si), Verified: true}, func(tx storage.Tx, d *person.Details) error {
		if err := s.still(tx, a); err != nil {
			return err
		}
		if spend != nil {
			if ok, err := spend(tx); err != nil || !ok {
				return cmp.Or(err, person.ErrMismatch)
			}
		}
		before := d.Profile.PrimaryEmail()
		change(&d.Profile)
		after := d.Profile.PrimaryEmail()
		if rename && after.Verified && before.Value != "" && person.FoldEmail(d.Username) == person.FoldEmail(before.Value) {
			d.Username = after.Value
		}
		return nil
	})
	return err
}

// contactCode is what the code for a contact is good for.
func contactCode(a *front.Visit, c person.Contact) proof.CodePurpose {
	return proof.CodePurpose{Purpose: "contact " + string(c.Kind), Subject: a.Si.ID, Bound: a.Si.ID, To: c.Value, Limit: a.Si.Session.PersonID}
}

// sendContactCode sends a code to a contact that the person says is theirs, and leads to the page that takes it.
func (s *Service) sendContactCode(w http.ResponseWriter, r *http.Request, a *front.Visit, v *profilePage, c person.Contact) {
	wait, err := s.sendToContact(r, a, c)
	switch {
	case errors.Is(err, person.ErrMismatch):
		s.front.Redirect(w, r, front.ProfilePath)
	case err != nil:
		s.front.Fail(w, r, err, front.ProfilePath)
	case wait > 0:
		if sent, ok, err := s.newContact(r, a); err == nil && ok && sent == c { // the code is there, and the page that takes it was left
			s.front.Redirect(w, r, confirmPath)
			return
		}
		d := throttled(w, wait)
		d.Problem, v.values[c.Field()] = "problem.sent", c.Value
		s.writeProfilePage(w, r, a, v, http.StatusTooManyRequests, d)
	default:
		s.front.Redirect(w, r, confirmPath)
	}
}

func (s *Service) sendToContact(r *http.Request, a *front.Visit, c person.Contact) (wait time.Duration, err error) {
	code, err := proof.NewSentCode(s.random)
	if err != nil {
		return 0, err
	}
	now := s.now()
	err = s.store.Update(r.Context(), func(tx storage.Tx) error {
		if err := s.still(tx, a); err != nil {
			return err
		}
		wait, err = s.proof.SendCode(tx, contactCode(a, c), code, now, func(tx storage.Tx, code string) error {
			return s.tellContact(tx, a, c, code, now)
		})
		if err != nil || wait > 0 {
			return err
		}
		rec := newContactRecord{Kind: string(c.Kind), Value: c.Value, ExpiresAt: now.Add(person.SentCodeLife), Flow: a.Flow}
		return newContacts.Put(tx, a.Si.ID, rec, rec.ExpiresAt.Add(session.CollectAfter))
	})
	return wait, err
}

// tellContact sends the code there: whoever has the address learns nothing but that somebody says it is theirs.
func (s *Service) tellContact(tx storage.Tx, a *front.Visit, c person.Contact, code string, now time.Time) error {
	if number, ok := person.ParsePhone(c.Value); ok && c.Kind == person.ContactPhone {
		return s.person.TextCode(tx, person.Recipient{ID: a.Si.Session.PersonID, Rec: &a.Si.Person, Profile: &person.Profile{PreferredLocale: a.Si.Person.Locale}}, notify.SMSPhoneCode, number, code, now)
	}
	return s.person.SendNotice(tx, notify.Notice{
		Kind: notify.AddressCode, To: c.Value, PersonID: a.Si.Session.PersonID, Locales: a.Si.Locales(), At: now, Data: map[string]string{"code": code},
	})
}

// newContact returns the contact whose code this session waits for; ok is false when there is none.
func (s *Service) newContact(r *http.Request, a *front.Visit) (c person.Contact, ok bool, err error) {
	now := s.now()
	err = s.store.View(r.Context(), func(tx storage.Tx) error {
		rec, err := newContacts.Get(tx, a.Si.ID)
		if errors.Is(err, storage.ErrNotFound) {
			ok = false
			return nil
		}
		c, ok = person.Contact{Kind: person.ContactKind(rec.Kind), Value: rec.Value}, err == nil && rec.ExpiresAt.After(now)
		a.Flow = rec.Flow
		return err
	})
	return c, ok, err
}

// confirming reads whom and what a request of the page that takes a code is about. Otherwise it has written the answer and is not ok.
func (s *Service) confirming(w http.ResponseWriter, r *http.Request) (a *front.Visit, c person.Contact, ok bool) {
	if a, ok = s.contactPost(w, r, confirmPath); !ok {
		return nil, c, false
	}
	c, ok, err := s.newContact(r, a)
	if err != nil {
		s.front.Fail(w, r, err, front.ProfilePath)
		return nil, c, false
	}
	if !ok || !s.verifies(c.Kind, a.U) {
		s.front.Redirect(w, r, a.Back())
		return nil, c, false
	}
	if a.Flow != "" {
		var f front.FlowRecord
		if a.Flow, f, err = s.front.SignInOf(r, a.Flow); err != nil {
			s.front.Fail(w, r, err, front.ProfilePath)
			return nil, c, false
		}
		a.Client = f.Demand.Client
	}
	return a, c, true
}

// showConfirm serves GET /account/profile/confirm: the field for the code that was sent to a new address or number.
func (s *Service) showConfirm(w http.ResponseWriter, r *http.Request) {
	if a, c, ok := s.confirming(w, r); ok {
		s.confirmPage(w, r, a, c, http.StatusOK, page.Form{})
	}
}

func (s *Service) confirmPage(w http.ResponseWriter, r *http.Request, a *front.Visit, c person.Contact, status int, f page.Form) {
	f.Key, f.Fill, f.Action, f.CSRF, f.Cancel = "confirm."+string(c.Kind), []any{"to", c.Value}, confirmPath, a.Csrf, a.Back()
	field := page.Field{Name: "code", Type: "code", Label: "confirm.code", Required: true, MaxLength: proof.MaxCode}
	if f.Problem == "problem.code" {
		field.Problem, f.Problem = f.Problem, ""
	}
	f.Fields = page.Fields(f.Problem != "", field)
	f.Other = &page.OtherButton{Name: "again", Label: "step_up.send_again"}
	s.pages.Render(w, r, page.View{Template: "form", Status: status, Locales: a.Si.Locales(), Client: a.Client, Data: f})
}

// handleConfirm serves POST /account/profile/confirm: a right code shows that the address or number is the person's own.
func (s *Service) handleConfirm(w http.ResponseWriter, r *http.Request) {
	a, c, ok := s.confirming(w, r)
	if !ok {
		return
	}
	if r.PostForm.Get("again") != "" {
		wait, err := s.sendToContact(r, a, c)
		switch {
		case errors.Is(err, person.ErrMismatch):
			s.front.Redirect(w, r, a.Back())
		case err != nil:
			s.front.Fail(w, r, err, confirmPath)
		case wait > 0:
			f := page.Form{Problem: "problem.sent", Wait: int((wait + time.Second - 1) / time.Second)}
			w.Header().Set("Retry-After", strconv.Itoa(f.Wait)) // RFC 6585 4
			s.confirmPage(w, r, a, c, http.StatusTooManyRequests, f)
		default:
			s.front.Redirect(w, r, confirmPath)
		}
		return
	}
	code := r.PostForm.Get("code")
	if !person.IsText(code, proof.MaxCode) {
		code = "-" // nobody's, but counted like any other
	}
	spend, err := s.proof.CheckCode(r.Context(), contactCode(a, c), code)
	switch {
	case errors.Is(err, person.ErrMismatch):
		s.confirmPage(w, r, a, c, http.StatusUnprocessableEntity, page.Form{Problem: "problem.code"})
	case err != nil:
		s.front.Fail(w, r, err, confirmPath)
	default:
		s.changeContact(w, r, a, func(p *person.Profile) { c.Put(p, true) }, func(tx storage.Tx) (bool, error) {
			if err := newContacts.Delete(tx, a.Si.ID); err != nil {
				return false, err
			}
			return spend(tx)
		}, "added")
	}
}

// ForgetNewContact removes the contact whose code a session waits for. It is a hook of its end with the person.
func ForgetNewContact(tx storage.Tx, session string) error { return newContacts.Delete(tx, session) }
