package signup

import (
	"cmp"
	"errors"
	"net/http"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/challenge"
	"github.com/gatehouse-id/gatehouse/identity/federation"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/session"
	"github.com/gatehouse-id/gatehouse/identity/webflow"
	"github.com/gatehouse-id/gatehouse/internal/web"
	"github.com/gatehouse-id/gatehouse/storage"
)

// readRegisterCode is readRegistration for the page that asks for a code.
func (s *Service) readRegisterCode(q *webflow.Request) (*registration, error) {
	x, err := s.readRegistration(q)
	if err != nil {
		return nil, err
	}
	if !x.again || s.toConfirmNext(x) == "" || x.named && x.typed.PHC == "" { // the settings can have changed
		return nil, q.RedirectAway(registerURL(x.Name))
	}
	return x, nil
}

// showRegisterCode serves GET /sign-in/register/confirm?flow=…: it asks for the code that was sent.
func (s *Service) showRegisterCode(q *webflow.Request) error {
	x, err := s.readRegisterCode(q)
	if err != nil {
		return err
	}
	return s.renderSignUpCode(q, x.detour(), x.pending(), http.StatusOK, web.Form{})
}

// handleRegisterCode serves POST /sign-in/register/confirm?flow=…: the code creates the person, or another one is sent.
func (s *Service) handleRegisterCode(q *webflow.Request) error {
	x, err := s.readRegisterCode(q)
	if err != nil {
		return err
	}
	p := x.pending()
	if err := s.deps.Front.CheckForm(q, p.form(), p.action); err != nil {
		return err
	}
	if q.PostForm.Get("send") != "" {
		return s.sendNextCode(q, x.detour(), p)
	}
	code := q.PostForm.Get("code")
	if code == "" {
		in := web.Form{Problem: "problem.code_missing"}
		return s.renderSignUpCode(q, x.detour(), p, http.StatusUnprocessableEntity, in)
	}
	part := s.toConfirmNext(x)
	spend, err := s.deps.Proof.CheckCode(q.Context(), p.codePurpose(part), code)
	if err == nil {
		x.typed.confirm(part)
		if s.toConfirmNext(x) == "" {
			return s.finishRegister(q, x, spend)
		}
		err = s.keepInput(q, x, spend)
	}
	switch {
	case errors.Is(err, person.ErrMismatch):
		in := web.Form{Problem: "problem.code"}
		return s.renderSignUpCode(q, x.detour(), p, http.StatusUnprocessableEntity, in)
	case err != nil:
		return s.failRegister(q, x, err)
	}
	return s.sendNextCode(q, x.detour(), x.pending())
}

// finishRegister creates the person and signs the person in. spend uses up the last code; nil: no code was needed.
func (s *Service) finishRegister(q *webflow.Request, x *registration, spend func(storage.Tx) (bool, error)) error {
	err := s.register(q, x, spend)
	switch {
	case err == nil:
		return s.deps.Front.Finish(q, x.SignIn, x.Flow)
	case errors.Is(err, errAddressTaken) && spend != nil: // only its owner gets to know
		p := x.pending()
		p.typed.Verified, p.typed.PhoneProven = false, false
		in := web.Form{Problem: "problem.code"}
		return s.renderSignUpCode(q, x.detour(), p, http.StatusUnprocessableEntity, in)
	}
	return s.failRegister(q, x, err)
}

// failRegister answers a registration that has failed.
func (s *Service) failRegister(q *webflow.Request, x *registration, err error) error {
	q.Again = registerURL(x.Name)
	problem := ""
	switch {
	case errors.Is(err, errKnown):
		return q.Redirect(x.Done())
	case errors.Is(err, federation.ErrAsk):
		return q.Redirect(federation.ConnectURL(x.Name))
	case errors.Is(err, federation.ErrBlocked):
		reason := x.Provider.Name + ": the person is not active"
		s.deps.Federation.RecordFailure(q.Request, x.Flow.Demand.Client.ID, x.Provider.ID, "", reason)
		return &webflow.Answer{Status: http.StatusForbidden, Key: "error.denied"}
	case errors.Is(err, person.ErrMismatch):
		return q.Redirect(registerCodeURL(x.Name))
	case errors.Is(err, federation.ErrUsed):
		return webflow.TooLate(person.DefaultReturn)
	case errors.Is(err, person.ErrUsernameTaken):
		x.typed.problem("username", "problem.username_taken")
	case errors.Is(err, errAddressTaken):
		x.typed.problem("email", "problem.sign_up")
	case errors.As(err, new(*person.ValidationError)):
		problem = "problem.profile"
	default:
		return err
	}
	return s.renderRegister(q, x, http.StatusUnprocessableEntity, web.Form{Problem: problem})
}

// makeNewcomer returns the person that the provider's answer and the form create.
func (s *Service) makeNewcomer(x *registration) (*federation.Newcomer, error) {
	n, err := s.deps.Federation.PrepareNewcomer(x.Answer)
	if err != nil {
		return nil, err
	}
	t := &x.typed
	if x.named {
		n.Named, n.Person.Username = true, t.Username
		n.Person.Email, n.Person.EmailVerified = t.Email, &t.Verified
	}
	if t.GivenName != n.Person.GivenName || t.FamilyName != n.Person.FamilyName {
		n.Person.Name = "" // is made from those
	}
	n.Person.GivenName, n.Person.FamilyName = t.GivenName, t.FamilyName
	n.Person.Locale = cmp.Or(n.Person.Locale, t.Locale)
	said := n.Person.Profile
	if n.Person.Profile = t.profile(); said != nil {
		typed := n.Person.Profile.CustomAttributes
		n.Person.Profile.CustomAttributes = said.CustomAttributes
		n.Person.Profile.SetCustom(typed)
	}
	if n.Rec, n.Prof, n.Folded, err = n.Person.Records(); err != nil {
		return nil, err
	}
	n.Rec.CreatedAt, n.Rec.UpdatedAt = s.deps.Now(), s.deps.Now()
	return n, nil
}

// register creates the person, links the identity and opens its session, in one transaction. Errors: errKnown,
// errAddressTaken, federation.ErrAsk, federation.ErrBlocked, federation.ErrUsed, person.ErrMismatch,
// person.ErrUsernameTaken, *person.ValidationError.
func (s *Service) register(q *webflow.Request, x *registration, spend func(storage.Tx) (bool, error)) error {
	n, err := s.makeNewcomer(x)
	if err != nil {
		return err
	}
	o, err := s.deps.Federation.PrepareSession(q.Request, x.Answer)
	if err != nil {
		return err
	}
	device := s.deps.Session.DeviceToken(q.Request)
	if device == "" {
		if device, err = s.deps.Front.NewID(); err != nil {
			return err
		}
	}
	hash := challenge.Hashed(device)
	err = s.deps.Store.Update(q.Context(), func(tx storage.Tx) error {
		if spend != nil {
			if ok, err := spend(tx); err != nil || !ok {
				return cmp.Or(err, person.ErrMismatch)
			}
		}
		if err := s.checkNewcomer(tx, x, n, o.Now); err != nil {
			return err
		}
		f, err := s.deps.Federation.PersonOf(tx, x.Answer, n, o.Now)
		if err == nil && !f.Created { // the person was not asked for a password, so there must not be a new one
			err = errKnown
		}
		if err != nil {
			return err
		}
		if x.named {
			password := person.PasswordRecord{PHC: x.typed.PHC, ChangedAt: o.Now, SetBy: x.Provider.Untrusted()}
			if err := putPassword(tx, f, password, hash); err != nil {
				return err
			}
		}
		return s.deps.Federation.Bind(tx, x.Answer, o, f)
	})
	if err != nil {
		return err
	}
	s.deps.Federation.FinishSignIn(q.W, q.Request, x.Answer, o)
	if x.named {
		s.deps.Jar.Set(q.W, session.CookieDevice, device, session.DeviceLife)
	}
	return nil
}

// checkNewcomer checks the address and the required details of a person who chooses a username. Otherwise they are the
// provider's, and the form cannot change them.
func (s *Service) checkNewcomer(tx storage.Tx, x *registration, n *federation.Newcomer, now time.Time) error {
	if !x.named {
		return nil
	}
	if !x.keepsEmail() {
		if owner, err := s.findOwner(tx, x.typed.Email); err != nil || owner != nil {
			return cmp.Or(err, errAddressTaken)
		}
	}
	return s.deps.Person.CheckConfigured(tx, &n.Prof, nil, now)
}

// putPassword stores the password of a new person, and that the person knows the device (hash of its cookie).
func putPassword(tx storage.Tx, f *federation.Match, password person.PasswordRecord, device string) error {
	if err := person.Passwords.Create(tx, f.ID, password, time.Time{}); err != nil {
		return err
	}
	known := challenge.DeviceRecord{Epoch: f.Person.Epoch, Seen: password.ChangedAt}
	return challenge.DeviceRecords.Put(tx, storage.Key(f.ID, device), known, known.Seen.Add(session.DeviceLife))
}
