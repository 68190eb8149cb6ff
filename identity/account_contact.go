package identity

import (
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/config"
	"github.com/gatehouse-id/gatehouse/identity/notify"
	"github.com/gatehouse-id/gatehouse/internal/page"
	"github.com/gatehouse-id/gatehouse/storage"
)

const (
	contactPath = profilePath + "/contact"
	confirmPath = profilePath + "/confirm"
)

func changeEmailLevel(u *config.Units) int { return u.StepUp.Actions.ChangeEmailAuthenticationLevel }

// verifiesPhone tells whether numbers are shown to be a person's own by a code.
func (s *Service) verifiesPhone(u *config.Units) bool {
	return s.sendsTexts(u) && u.Attributes.Verification.MobileNumberEnabled
}

func (s *Service) verifies(kind contactKind, u *config.Units) bool {
	if kind == contactPhone {
		return s.verifiesPhone(u)
	}
	return s.verifiesEmail(u)
}

// contactMethods are the step-up methods whose codes go to such a contact.
var contactMethods = map[contactKind]string{contactEmail: "email", contactPhone: "sms"}

// contactPost is accountPost for a change of how the person is reached. Where codes that raise the level of a sign-in are sent there, or could be, it is a
// set-up of that method too: whoever knows the password alone would have them sent elsewhere, or nowhere and then set up a method of their own.
func (s *Service) contactPost(w http.ResponseWriter, r *http.Request, path string) (*onAccount, bool) {
	a, ok := s.guard(w, r, path, changeEmailLevel)
	if !ok {
		return nil, false
	}
	st, err := s.standingOf(r.Context(), a.si)
	if err != nil {
		s.fail(w, r, err, path)
		return nil, false
	}
	a.level = s.contactLevel(st)
	if a.si, ok = s.requireLevel(w, r, a.level, path); !ok {
		return nil, false
	}
	return a, r.Method != http.MethodPost || s.checkSecurityForm(w, r, a.si, path, path)
}

// contactLevel is the level that a change of how the person is reached needs.
func (s *Service) contactLevel(st *standing) int {
	u := st.units
	level := max(dashboardLevel(u), changeEmailLevel(u))
	for kind, name := range contactMethods {
		if m := pick(st.all, name); m != nil && m.level(u) > 0 && (s.verifies(kind, u) || slices.Contains(st.has, m)) {
			level = max(level, st.setUpLevel())
		}
	}
	if s.sendsPINs(st) && s.verifiesEmail(u) {
		level = max(level, st.setUpLevel())
	}
	return level
}

// contact is one way to reach a person, about to be changed.
type contact struct {
	Kind  contactKind
	Value string
}

// find returns where the contact stands in a profile, and whether it is the primary one and verified. i is -1 when it is not there.
func (c contact) find(p *Profile) (i int, primary, verified bool) {
	if c.Kind == contactPhone {
		if i = slices.IndexFunc(p.PhoneNumbers, func(n PhoneNumber) bool { return sameNumber(n.Value, c.Value) }); i >= 0 {
			return i, p.PhoneNumbers[i].Primary, p.PhoneNumbers[i].Verified
		}
		return -1, false, false
	}
	if i = slices.IndexFunc(p.EmailAddresses, func(e EmailAddress) bool { return foldEmail(e.Value) == foldEmail(c.Value) }); i >= 0 {
		return i, p.EmailAddresses[i].Primary, p.EmailAddresses[i].Verified
	}
	return -1, false, false
}

// sameNumber tells whether two spellings are of one number.
func sameNumber(a, b string) bool {
	x, isX := parsePhone(a)
	y, isY := parsePhone(b)
	return a == b || isX && isY && x == y
}

// put adds the contact, or says of the one that is there that it is verified.
func (c contact) put(p *Profile, verified bool) {
	i, _, _ := c.find(p)
	switch {
	case i < 0 && c.Kind == contactPhone:
		p.PhoneNumbers = append(p.PhoneNumbers, PhoneNumber{Value: c.Value, Verified: verified})
	case i < 0:
		p.EmailAddresses = append(p.EmailAddresses, EmailAddress{Value: c.Value, Verified: verified})
	case c.Kind == contactPhone:
		p.PhoneNumbers[i].Verified = p.PhoneNumbers[i].Verified || verified
	default:
		p.EmailAddresses[i].Verified = p.EmailAddresses[i].Verified || verified
	}
}

// drop takes the contact away.
func (c contact) drop(p *Profile) {
	i, primary, _ := c.find(p)
	switch {
	case i < 0:
	case c.Kind == contactPhone:
		p.PhoneNumbers = slices.Delete(p.PhoneNumbers, i, i+1)
	case !primary: // another one has to take its place first
		p.EmailAddresses = slices.Delete(p.EmailAddresses, i, i+1)
	}
}

// prefer makes the contact the primary one.
func (c contact) prefer(p *Profile) {
	at, _, _ := c.find(p)
	if at < 0 {
		return
	}
	if c.Kind == contactPhone {
		for i := range p.PhoneNumbers {
			p.PhoneNumbers[i].Primary = i == at
		}
		return
	}
	for i := range p.EmailAddresses {
		p.EmailAddresses[i].Primary = i == at
	}
}

// problem says why the contact cannot be added, or "".
func (c contact) problem(u *config.Units, p *Profile, verifies bool) string {
	i, _, verified := c.find(p)
	_, isNumber := parsePhone(c.Value)
	switch {
	case c.Kind == contactEmail && (!isEmail(c.Value) || !u.Features.CustomEmailValidation.Check(c.Value)):
		return "problem.email"
	case c.Kind == contactPhone && !isNumber:
		return "problem.phone"
	case i >= 0 && (verified || !verifies):
		return "problem.contact_there"
	case c.Kind == contactEmail && len(p.EmailAddresses) >= maxEntries, c.Kind == contactPhone && len(p.PhoneNumbers) >= maxEntries:
		return "problem.contact_many"
	}
	return ""
}

// handleContact serves POST /account/profile/contact: an e-mail address or telephone number is added, confirmed, made the primary one or removed.
func (s *Service) handleContact(w http.ResponseWriter, r *http.Request) {
	if err := s.keepContact(r); err != nil {
		s.fail(w, r, err, profilePath)
		return
	}
	a, ok := s.contactPost(w, r, profilePath)
	if !ok {
		return
	}
	v, err := s.readOwn(r, a)
	if err == nil {
		err = s.forgetContact(r, a)
	}
	if err != nil {
		s.fail(w, r, err, profilePath)
		return
	}
	c := contact{contactKind(r.PostForm.Get("kind")), strings.TrimSpace(r.PostForm.Get("value"))}
	if c.Kind != contactEmail && c.Kind != contactPhone {
		s.Pages.Error(w, r, http.StatusBadRequest, "error.bad_request", profilePath)
		return
	}
	verifies, what := s.verifies(c.Kind, a.u), ""
	if number, ok := parsePhone(c.Value); ok && c.Kind == contactPhone && r.PostForm.Get("do") == "add" {
		c.Value = number
	}
	i, primary, verified := c.find(&v.own)
	change := func(*Profile) {}
	switch do := r.PostForm.Get("do"); {
	case do == "add":
		if problem := c.problem(a.u, &v.own, verifies); problem != "" {
			s.contactRefused(w, r, a, v, c, problem)
			return
		}
		if verifies {
			s.sendContactCode(w, r, a, v, c)
			return
		}
		what, change = "added", func(p *Profile) { c.put(p, false) }
	case i < 0: // gone meanwhile
	case do == "verify" && verifies && !verified:
		if _, ok := parsePhone(c.Value); !ok && c.Kind == contactPhone {
			s.contactRefused(w, r, a, v, c, "problem.phone")
			return
		}
		s.sendContactCode(w, r, a, v, c)
		return
	case do == "primary" && (verified || !verifies) && !(c.Kind == contactEmail && v.locked("email")):
		what, change = "primary", c.prefer
	case do == "remove" && c.Kind == contactPhone && len(v.own.PhoneNumbers) == 1 && a.u.Attributes.PersonCreationMandatoryFields.MobileNumberRequired:
		s.writeProfilePage(w, r, a, v, http.StatusUnprocessableEntity, page.Dashboard{Problem: "problem.phone_required"})
		return
	case do == "remove" && !(primary && c.Kind == contactEmail):
		what, change = "removed", c.drop
	}
	if what == "" {
		s.redirect(w, r, profilePath)
		return
	}
	s.changeContact(w, r, a, change, nil, what)
}

// contactRefused writes the page with what is wrong about a contact that was typed.
func (s *Service) contactRefused(w http.ResponseWriter, r *http.Request, a *onAccount, v *profilePage, c contact, problem string) {
	name := c.field()
	v.problems = map[string]string{name: problem}
	if isText(c.Value, maxLine) {
		v.values[name] = c.Value
	}
	s.writeProfilePage(w, r, a, v, http.StatusUnprocessableEntity, page.Dashboard{})
}

// changeContact changes how the person is reached, and with the primary address the username that was the address before. spend, where there is one,
// uses up the code that shows the contact to be the person's own.
func (s *Service) changeContact(w http.ResponseWriter, r *http.Request, a *onAccount, change func(*Profile), spend func(storage.Tx) (bool, error), what string) {
	err := s.updateContact(r, a, change, spend, true)
	if errors.Is(err, ErrUsernameTaken) { // the address is another person's username: this one keeps theirs
		err = s.updateContact(r, a, change, spend, false)
	}
	switch {
	case errors.Is(err, errMismatch), errors.As(err, new(*ValidationError)):
		s.redirect(w, r, a.back())
	case err != nil:
		s.fail(w, r, err, a.back())
	case a.flow != "":
		s.redirect(w, r, a.back())
	default:
		s.redirect(w, r, doneURL(profilePath, what))
	}
}

func (s *Service) updateContact(r *http.Request, a *onAccount, change func(*Profile), spend func(storage.Tx) (bool, error), rename bool) error {
	// Nothing that the request says is called verified: either it was before, or spend has shown it.
	_, err := s.UpdatePerson(r.Context(), a.si.session.PersonID, Edit{By: s.actor(r, a.si), Verified: true}, func(tx storage.Tx, d *Details) error {
		if err := s.still(tx, a); err != nil {
			return err
		}
		if spend != nil {
			if ok, err := spend(tx); err != nil || !ok {
				return cmpErr(err, errMismatch)
			}
		}
		before := d.Profile.primaryEmail()
		change(&d.Profile)
		after := d.Profile.primaryEmail()
		if rename && after.Verified && before.Value != "" && foldEmail(d.Username) == foldEmail(before.Value) {
			d.Username = after.Value
		}
		return nil
	})
	return err
}

// contactCode is what the code for a contact is good for.
func contactCode(a *onAccount, c contact) codeFor {
	return codeFor{Purpose: "contact " + string(c.Kind), Subject: a.si.id, Bound: a.si.id, To: c.Value, Limit: a.si.session.PersonID}
}

// sendContactCode sends a code to a contact that the person says is theirs, and leads to the page that takes it.
func (s *Service) sendContactCode(w http.ResponseWriter, r *http.Request, a *onAccount, v *profilePage, c contact) {
	wait, err := s.sendToContact(r, a, c)
	switch {
	case errors.Is(err, errMismatch):
		s.redirect(w, r, profilePath)
	case err != nil:
		s.fail(w, r, err, profilePath)
	case wait > 0:
		if sent, ok, err := s.newContact(r, a); err == nil && ok && sent == c { // the code is there, and the page that takes it was left
			s.redirect(w, r, confirmPath)
			return
		}
		d := throttled(w, wait)
		d.Problem, v.values[c.field()] = "problem.sent", c.Value
		s.writeProfilePage(w, r, a, v, http.StatusTooManyRequests, d)
	default:
		s.redirect(w, r, confirmPath)
	}
}

func (s *Service) sendToContact(r *http.Request, a *onAccount, c contact) (wait time.Duration, err error) {
	code, err := newSentCode(s.Random)
	if err != nil {
		return 0, err
	}
	now := s.Now()
	err = s.Store.Update(r.Context(), func(tx storage.Tx) error {
		if err := s.still(tx, a); err != nil {
			return err
		}
		wait, err = s.sendCode(tx, contactCode(a, c), code, now, func(tx storage.Tx, code string) error {
			return s.tellContact(tx, a, c, code, now)
		})
		if err != nil || wait > 0 {
			return err
		}
		rec := newContactRecord{Kind: string(c.Kind), Value: c.Value, ExpiresAt: now.Add(sentCodeLife), Flow: a.flow}
		return newContacts.Put(tx, a.si.id, rec, rec.ExpiresAt.Add(collectAfter))
	})
	return wait, err
}

// tellContact sends the code there: whoever has the address learns nothing but that somebody says it is theirs.
func (s *Service) tellContact(tx storage.Tx, a *onAccount, c contact, code string, now time.Time) error {
	if number, ok := parsePhone(c.Value); ok && c.Kind == contactPhone {
		return s.textCode(tx, told{id: a.si.session.PersonID, rec: &a.si.person, profile: &Profile{PreferredLocale: a.si.person.Locale}}, notify.SMSPhoneCode, number, code, now)
	}
	return s.send(tx, notify.Notice{
		Kind: notify.AddressCode, To: c.Value, PersonID: a.si.session.PersonID, Locales: a.si.locales(), At: now, Data: map[string]string{"code": code},
	})
}

// newContact returns the contact whose code this session waits for; ok is false when there is none.
func (s *Service) newContact(r *http.Request, a *onAccount) (c contact, ok bool, err error) {
	now := s.Now()
	err = s.Store.View(r.Context(), func(tx storage.Tx) error {
		rec, err := newContacts.Get(tx, a.si.id)
		if errors.Is(err, storage.ErrNotFound) {
			ok = false
			return nil
		}
		c, ok = contact{contactKind(rec.Kind), rec.Value}, err == nil && rec.ExpiresAt.After(now)
		a.flow = rec.Flow
		return err
	})
	return c, ok, err
}

// back is where a person goes who has confirmed a contact, or leaves that alone.
func (a *onAccount) back() string {
	if a.flow != "" {
		return completeURL(a.flow)
	}
	return profilePath
}

// confirming reads whom and what a request of the page that takes a code is about. Otherwise it has written the answer and is not ok.
func (s *Service) confirming(w http.ResponseWriter, r *http.Request) (a *onAccount, c contact, ok bool) {
	if a, ok = s.contactPost(w, r, confirmPath); !ok {
		return nil, c, false
	}
	c, ok, err := s.newContact(r, a)
	if err != nil {
		s.fail(w, r, err, profilePath)
		return nil, c, false
	}
	if !ok || !s.verifies(c.Kind, a.u) {
		s.redirect(w, r, a.back())
		return nil, c, false
	}
	if a.flow != "" {
		var f flowRecord
		if a.flow, f, err = s.signInOf(r, a.flow); err != nil {
			s.fail(w, r, err, profilePath)
			return nil, c, false
		}
		a.client = f.Demand.Client
	}
	return a, c, true
}

// showConfirm serves GET /account/profile/confirm: the field for the code that was sent to a new address or number.
func (s *Service) showConfirm(w http.ResponseWriter, r *http.Request) {
	if a, c, ok := s.confirming(w, r); ok {
		s.confirmPage(w, r, a, c, http.StatusOK, page.Form{})
	}
}

func (s *Service) confirmPage(w http.ResponseWriter, r *http.Request, a *onAccount, c contact, status int, f page.Form) {
	f.Key, f.Fill, f.Action, f.CSRF, f.Cancel = "confirm."+string(c.Kind), []any{"to", c.Value}, confirmPath, a.csrf, a.back()
	field := page.Field{Name: "code", Type: "code", Label: "confirm.code", Required: true, MaxLength: maxCode}
	if f.Problem == "problem.code" {
		field.Problem, f.Problem = f.Problem, ""
	}
	f.Fields = page.Fields(f.Problem != "", field)
	f.Other = &page.OtherButton{Name: "again", Label: "step_up.send_again"}
	s.Pages.Render(w, r, page.View{Template: "form", Status: status, Locales: a.si.locales(), Client: a.client, Data: f})
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
		case errors.Is(err, errMismatch):
			s.redirect(w, r, a.back())
		case err != nil:
			s.fail(w, r, err, confirmPath)
		case wait > 0:
			f := page.Form{Problem: "problem.sent", Wait: int((wait + time.Second - 1) / time.Second)}
			w.Header().Set("Retry-After", strconv.Itoa(f.Wait)) // RFC 6585 4
			s.confirmPage(w, r, a, c, http.StatusTooManyRequests, f)
		default:
			s.redirect(w, r, confirmPath)
		}
		return
	}
	code := r.PostForm.Get("code")
	if !isText(code, maxCode) {
		code = "-" // nobody's, but counted like any other
	}
	spend, err := s.checkCode(r.Context(), contactCode(a, c), code)
	switch {
	case errors.Is(err, errMismatch):
		s.confirmPage(w, r, a, c, http.StatusUnprocessableEntity, page.Form{Problem: "problem.code"})
	case err != nil:
		s.fail(w, r, err, confirmPath)
	default:
		s.changeContact(w, r, a, func(p *Profile) { c.put(p, true) }, func(tx storage.Tx) (bool, error) {
			if err := newContacts.Delete(tx, a.si.id); err != nil {
				return false, err
			}
			return spend(tx)
		}, "added")
	}
}

// forgetNewContact removes the contact whose code a session waits for. It is a hook of its end with the person.
func forgetNewContact(tx storage.Tx, session string) error { return newContacts.Delete(tx, session) }
