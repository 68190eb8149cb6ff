package enrol

import (
	"cmp"
	"errors"
	"net/http"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/federation"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/proof"
	"github.com/gatehouse-id/gatehouse/identity/session"
	"github.com/gatehouse-id/gatehouse/internal/page"
	"github.com/gatehouse-id/gatehouse/storage"
)

// confirmingRegister is readRegistering for the page that takes a code.
func (s *Service) confirmingRegister(w http.ResponseWriter, r *http.Request) (x *registration, ok bool) {
	if x, ok = s.readRegistering(w, r); ok && (!x.again || x.confirms(s) == "" || x.named && x.typed.PHC == "") { // or the configuration is another since
		s.front.Redirect(w, r, RegisterURL(x.Name))
		return nil, false
	}
	return x, ok
}

// showRegisterCode serves GET /sign-in/register/confirm?flow=…: it asks for the code that was sent.
func (s *Service) showRegisterCode(w http.ResponseWriter, r *http.Request) {
	if x, ok := s.confirmingRegister(w, r); ok {
		s.signUpCodePage(w, r, x.aside(), x.pending(), http.StatusOK, page.Form{})
	}
}

// handleRegisterCode serves POST /sign-in/register/confirm?flow=…: the code makes the person, or another one is sent.
func (s *Service) handleRegisterCode(w http.ResponseWriter, r *http.Request) {
	x, ok := s.confirmingRegister(w, r)
	if !ok {
		return
	}
	p := x.pending()
	if !s.front.CheckPost(w, r, p.form(), p.action) {
		return
	}
	if r.PostForm.Get("send") != "" {
		s.sendAgain(w, r, x.aside(), p)
		return
	}
	code := r.PostForm.Get("code")
	if code == "" {
		s.signUpCodePage(w, r, x.aside(), p, http.StatusUnprocessableEntity, page.Form{Problem: "problem.code_missing"})
		return
	}
	what := x.confirms(s)
	spend, err := s.proof.CheckCode(r.Context(), p.code(what), code)
	if err == nil {
		before := x.typed
		x.typed.Verified, x.typed.PhoneProven = before.Verified || what == confirmEmail, before.PhoneProven || what == confirmPhone
		if x.confirms(s) == "" {
			s.finishRegister(w, r, x, spend)
			return
		}
		if err = s.keepTyped(r, x, spend); err != nil {
			x.typed = before
		}
	}
	switch {
	case errors.Is(err, person.ErrMismatch):
		s.signUpCodePage(w, r, x.aside(), p, http.StatusUnprocessableEntity, page.Form{Problem: "problem.code"})
	case err != nil:
		s.failRegister(w, r, x, err)
	default:
		s.sendAgain(w, r, x.aside(), x.pending())
	}
}

var (
	// errKnown says that the identity is somebody's by now.
	errKnown = errors.New("identity: the identity is known")
	// errAddressTaken says that somebody has the address.
	errAddressTaken = errors.New("identity: the address is taken")
)

// finishRegister makes the person and signs them in. spend uses up the code that was typed last. nil: none
func (s *Service) finishRegister(w http.ResponseWriter, r *http.Request, x *registration, spend func(storage.Tx) (bool, error)) {
	switch err := s.register(w, r, x, spend); {
	case err == nil:
		s.front.Enter(w, r, x.SignIn, x.Flow)
	case errors.Is(err, errAddressTaken) && spend != nil: // told its owner alone
		p := x.pending()
		p.typed.Verified, p.typed.PhoneProven = false, false
		s.signUpCodePage(w, r, x.aside(), p, http.StatusUnprocessableEntity, page.Form{Problem: "problem.code"})
	default:
		s.failRegister(w, r, x, err)
	}
}

// failRegister answers who could not be registered.
func (s *Service) failRegister(w http.ResponseWriter, r *http.Request, x *registration, err error) {
	if x.typed.problems == nil {
		x.typed.problems = map[string]string{}
	}
	refuse := func(field, problem string) {
		in := page.Form{}
		if field == "" {
			in.Problem = problem
		} else {
			x.typed.problem(field, problem)
		}
		s.registerPage(w, r, x, http.StatusUnprocessableEntity, in)
	}
	switch {
	case errors.Is(err, errKnown):
		s.front.Redirect(w, r, x.Done())
	case errors.Is(err, federation.ErrAsk):
		s.front.Redirect(w, r, federation.ConnectURL(x.Name))
	case errors.Is(err, federation.ErrBlocked):
		s.federation.RecordFailure(r, x.Flow.Demand.Client.ID, "", x.Provider.Name+": the person is not active")
		s.pages.Error(w, r, http.StatusForbidden, "error.denied", "")
	case errors.Is(err, person.ErrUsernameTaken):
		refuse("username", "problem.username_taken")
	case errors.Is(err, errAddressTaken):
		refuse("email", "problem.sign_up")
	case errors.Is(err, person.ErrMismatch):
		s.front.Redirect(w, r, registerCodeURL(x.Name))
	case errors.Is(err, federation.ErrUsed):
		s.pages.Error(w, r, http.StatusBadRequest, "error.expired", "/account")
	case errors.As(err, new(*person.ValidationError)):
		refuse("", "problem.profile")
	default:
		s.front.Fail(w, r, err, RegisterURL(x.Name))
	}
}

// asNewcomer returns who somebody becomes by what the provider says and what they have typed.
func (s *Service) asNewcomer(x *registration) (*federation.Newcomer, error) {
	n, err := s.federation.PrepareNewcomer(x.Answer)
	if err != nil {
		return nil, err
	}
	t := &x.typed
	if x.named {
		n.Named, n.Person.Username = true, t.Username
		n.Person.Email, n.Person.EmailVerified = t.Email, &t.Verified
	}
	if t.GivenName != n.Person.GivenName || t.FamilyName != n.Person.FamilyName {
		n.Person.Name = "" // it is made of those
	}
	n.Person.GivenName, n.Person.FamilyName, n.Person.Locale = t.GivenName, t.FamilyName, cmp.Or(n.Person.Locale, t.Locale)
	n.Person.Profile = &person.Profile{CustomAttributes: t.Custom}
	if t.Phone != "" {
		n.Person.Profile.PhoneNumbers = []person.PhoneNumber{{Value: t.Phone, Primary: true, Verified: t.PhoneProven}}
	}
	if n.Rec, n.Prof, n.Folded, err = n.Person.Records(); err != nil {
		return nil, err
	}
	n.Rec.CreatedAt, n.Rec.UpdatedAt = s.now(), s.now()
	return n, nil
}

// register makes the person, couples the identity and opens its session, all or nothing. errKnown, federation.ErrAsk, federation.ErrUsed, errAddressTaken, person.ErrMismatch,
// person.ErrUsernameTaken and *person.ValidationError say why not.
func (s *Service) register(w http.ResponseWriter, r *http.Request, x *registration, spend func(storage.Tx) (bool, error)) error {
	n, err := s.asNewcomer(x)
	if err != nil {
		return err
	}
	o, err := s.federation.PrepareSession(r, x.Answer)
	if err != nil {
		return err
	}
	device := s.session.DeviceToken(r)
	if device == "" {
		if device, err = s.front.NewID(); err != nil {
			return err
		}
	}
	err = s.store.Update(r.Context(), func(tx storage.Tx) error {
		if spend != nil {
			if ok, err := spend(tx); err != nil || !ok {
				return cmp.Or(err, person.ErrMismatch)
			}
		}
		if x.named && !x.keepsEmail() {
			if taken, err := s.takenBy(tx, x.typed.Email); err != nil || taken != nil {
				return cmp.Or(err, errAddressTaken)
			}
		}
		if x.named { // otherwise the address is the provider's, which nobody can change here
			if err := s.person.CheckConfigured(tx, &n.Prof, nil); err != nil {
				return err
			}
		}
		f, err := s.federation.PersonOf(tx, x.Answer, n, o.Now)
		if err == nil && !f.Created { // nobody whose password was not asked for gets another one
			err = errKnown
		}
		if err != nil {
			return err
		}
		if x.named {
			if err := person.Passwords.Create(tx, f.ID, person.PasswordRecord{PHC: x.typed.PHC, ChangedAt: o.Now}, time.Time{}); err != nil {
				return err
			}
			known := proof.DeviceRecord{Epoch: f.Person.Epoch, Seen: o.Now}
			if err := proof.DeviceRecords.Put(tx, storage.Key(f.ID, proof.Hashed(device)), known, o.Now.Add(session.DeviceLife)); err != nil {
				return err
			}
		}
		return s.federation.Bind(tx, x.Answer, o, f)
	})
	if err != nil {
		return err
	}
	s.federation.FinishSignIn(w, r, x.Answer, o)
	if x.named {
		s.jar.Set(w, session.CookieDevice, device, session.DeviceLife)
	}
	return nil
}
