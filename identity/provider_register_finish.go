package identity

import (
	"cmp"
	"errors"
	"net/http"
	"time"

	"github.com/gatehouse-id/gatehouse/internal/page"
	"github.com/gatehouse-id/gatehouse/storage"
)

// confirmingRegister is readRegistering for the page that takes a code.
func (s *Service) confirmingRegister(w http.ResponseWriter, r *http.Request) (x *registering, ok bool) {
	if x, ok = s.readRegistering(w, r); ok && (!x.again || x.confirms(s) == "" || x.named && x.typed.PHC == "") { // or the configuration is another since
		s.redirect(w, r, registerURL(x.name))
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
	if !s.checkForm(w, r, p.form(), p.action) {
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
	spend, err := s.checkCode(r.Context(), p.code(what), code)
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
	case errors.Is(err, errMismatch):
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
func (s *Service) finishRegister(w http.ResponseWriter, r *http.Request, x *registering, spend func(storage.Tx) (bool, error)) {
	switch err := s.register(w, r, x, spend); {
	case err == nil:
		s.goIn(w, r, x.signIn, x.flow)
	case errors.Is(err, errAddressTaken) && spend != nil: // told its owner alone
		p := x.pending()
		p.typed.Verified, p.typed.PhoneProven = false, false
		s.signUpCodePage(w, r, x.aside(), p, http.StatusUnprocessableEntity, page.Form{Problem: "problem.code"})
	default:
		s.failRegister(w, r, x, err)
	}
}

// failRegister answers who could not be registered.
func (s *Service) failRegister(w http.ResponseWriter, r *http.Request, x *registering, err error) {
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
		s.redirect(w, r, x.done())
	case errors.Is(err, errAsk):
		s.redirect(w, r, connectURL(x.name))
	case errors.Is(err, errBlocked):
		s.recordFailure(r, x.flow.Demand.Client.ID, "", x.provider.Name+": the person is not active")
		s.Pages.Error(w, r, http.StatusForbidden, "error.denied", "")
	case errors.Is(err, ErrUsernameTaken):
		refuse("username", "problem.username_taken")
	case errors.Is(err, errAddressTaken):
		refuse("email", "problem.sign_up")
	case errors.Is(err, errMismatch):
		s.redirect(w, r, registerCodeURL(x.name))
	case errors.Is(err, errUsed):
		s.Pages.Error(w, r, http.StatusBadRequest, "error.expired", "/account")
	case errors.As(err, new(*ValidationError)):
		refuse("", "problem.profile")
	default:
		s.fail(w, r, err, registerURL(x.name))
	}
}

// asNewcomer returns who somebody becomes by what the provider says and what they have typed.
func (s *Service) asNewcomer(x *registering) (*newcomer, error) {
	n, err := s.prepareNewcomer(x.answered)
	if err != nil {
		return nil, err
	}
	t := &x.typed
	if x.named {
		n.named, n.person.Username = true, t.Username
		n.person.Email, n.person.EmailVerified = t.Email, &t.Verified
	}
	if t.GivenName != n.person.GivenName || t.FamilyName != n.person.FamilyName {
		n.person.Name = "" // it is made of those
	}
	n.person.GivenName, n.person.FamilyName, n.person.Locale = t.GivenName, t.FamilyName, cmp.Or(n.person.Locale, t.Locale)
	n.person.Profile = &Profile{CustomAttributes: t.Custom}
	if t.Phone != "" {
		n.person.Profile.PhoneNumbers = []PhoneNumber{{Value: t.Phone, Primary: true, Verified: t.PhoneProven}}
	}
	if n.rec, n.prof, n.folded, err = n.person.records(); err != nil {
		return nil, err
	}
	n.rec.CreatedAt, n.rec.UpdatedAt = s.Now(), s.Now()
	return n, nil
}

// register makes the person, couples the identity and opens its session, all or nothing. errKnown, errAsk, errUsed, errAddressTaken, errMismatch,
// ErrUsernameTaken and *ValidationError say why not.
func (s *Service) register(w http.ResponseWriter, r *http.Request, x *registering, spend func(storage.Tx) (bool, error)) error {
	n, err := s.asNewcomer(x)
	if err != nil {
		return err
	}
	o, err := s.prepare(r, x.answered)
	if err != nil {
		return err
	}
	device := s.device(r)
	if device == "" {
		if device, err = s.newID(); err != nil {
			return err
		}
	}
	err = s.Store.Update(r.Context(), func(tx storage.Tx) error {
		if spend != nil {
			if ok, err := spend(tx); err != nil || !ok {
				return cmpErr(err, errMismatch)
			}
		}
		if x.named && !x.keepsEmail() {
			if taken, err := s.takenBy(tx, x.typed.Email); err != nil || taken != nil {
				return cmpErr(err, errAddressTaken)
			}
		}
		if x.named { // otherwise the address is the provider's, which nobody can change here
			if err := s.checkConfigured(tx, &n.prof, nil); err != nil {
				return err
			}
		}
		f, err := s.personOf(tx, x.answered, n, o.now)
		if err == nil && !f.created { // nobody whose password was not asked for gets another one
			err = errKnown
		}
		if err != nil {
			return err
		}
		if x.named {
			if err := passwords.Create(tx, f.id, passwordRecord{PHC: x.typed.PHC, ChangedAt: o.now}, time.Time{}); err != nil {
				return err
			}
			known := deviceRecord{Epoch: f.person.Epoch, Seen: o.now}
			if err := devices.Put(tx, storage.Key(f.id, hashed(device)), known, o.now.Add(deviceLife)); err != nil {
				return err
			}
		}
		return s.bind(tx, x.answered, o, f)
	})
	if err != nil {
		return err
	}
	s.entered(w, r, x.answered, o)
	if x.named {
		s.jar.Set(w, kindDevice, device, deviceLife)
	}
	return nil
}
