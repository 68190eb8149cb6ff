package identity

import (
	"errors"
	"net/http"
	"time"

	"github.com/google/uuid"

	"github.com/gatehouse-id/gatehouse/identity/config"
	"github.com/gatehouse-id/gatehouse/internal/event"
	"github.com/gatehouse-id/gatehouse/internal/page"
	"github.com/gatehouse-id/gatehouse/storage"
)

const (
	signUpPath     = "/sign-up"
	signUpCodePath = signUpPath + "/confirm"
	signUpSentPath = signUpPath + "/sent"

	signUpLife        = time.Hour // of what waits for its address to be confirmed
	signUpsPerAddress = 20        // forms in a window
	kindSignUp        = "sign-up" // cookie that names it
)

// canSignUp tells whether people make accounts of their own. Addresses that are to be confirmed need something to send by.
func (s *Service) canSignUp(u *config.Units) bool {
	f := u.Features
	return f.SignUpEnabled && f.LoginEnabled && u.PasswordLogin() && (s.Notify != nil || !confirmsSignUp(u) && !activatesByEmail(u))
}

// confirmsSignUp tells whether whoever signs up shows first that they read the address.
func confirmsSignUp(u *config.Units) bool { return u.Attributes.Verification.EmailEnabled }

// showSignUp serves GET /sign-up?flow=…. What waits for its confirmation in this browser is filled in again.
func (s *Service) showSignUp(w http.ResponseWriter, r *http.Request) {
	a, ok := s.beside(w, r, signUpPath, s.canSignUp)
	if !ok {
		return
	}
	t := &typedSignUp{}
	if p, err := s.pending(r); err == nil {
		t = &p.typed
		t.emailAgain, t.phoneAgain = t.Email, t.Phone
	} else if !errors.Is(err, storage.ErrNotFound) {
		s.fail(w, r, err, signUpPath)
		return
	}
	s.signUpPage(w, r, a, http.StatusOK, t, page.Form{})
}

func (s *Service) signUpPage(w http.ResponseWriter, r *http.Request, a aside, status int, t *typedSignUp, in page.Form) {
	in.Key, in.Action, in.Links = "sign_up", withSignIn(signUpPath, a.id), []page.FormLink{backToSignIn(a.id)}
	in.Fields = page.Fields(in.Problem != "", signUpFields(a.u, t)...)
	s.signUpForm(w, r, a, "sign_up:"+a.id, status, in)
}

// signUpForm is formPage for a form after which the person may be sent on elsewhere.
func (s *Service) signUpForm(w http.ResponseWriter, r *http.Request, a aside, form string, status int, in page.Form) {
	if to := s.afterSignUp(a); page.LocalPath(to) == "" {
		a.flow.Demand.Client.Targets = append(a.flow.Demand.Client.Targets, targetsOf(to)...)
	}
	s.formPage(w, r, a, form, status, in)
}

// afterSignUp is where a person goes who has signed up: where they were going, else where the configuration says.
func (s *Service) afterSignUp(a aside) string {
	d := a.flow.Demand
	switch {
	case !comesForNothing(a):
		return d.Return
	case a.u.Redirects.URLAfterSignUp != "":
		return absolute(a.u, a.u.Redirects.URLAfterSignUp)
	}
	return landing(a.u, "")
}

// handleSignUp serves POST /sign-up?flow=…. Nobody is created here unless addresses are not confirmed: what was typed waits.
func (s *Service) handleSignUp(w http.ResponseWriter, r *http.Request) {
	a, ok := s.beside(w, r, signUpPath, s.canSignUp)
	if !ok || !s.checkForm(w, r, "sign_up:"+a.id, withSignIn(signUpPath, a.id)) {
		return
	}
	t := s.readSignUp(r, a.u)
	t.Custom = customFieldsOf(a.u, config.OwnMethod).read(r, t.problems)
	if len(t.problems) > 0 {
		s.signUpPage(w, r, a, http.StatusUnprocessableEntity, t, page.Form{})
		return
	}
	wait, err := s.countSignUp(r)
	if err == nil && wait == 0 {
		// The same hash for an address that is taken: neither answer nor time tells.
		t.PHC, err = s.hashNew(r.Context(), r.PostForm.Get("password"))
		if problem := passwordProblem(err); problem != "" {
			t.problem("password", problem)
			s.signUpPage(w, r, a, http.StatusUnprocessableEntity, t, page.Form{})
			return
		}
	}
	if err != nil {
		s.fail(w, r, err, withSignIn(signUpPath, a.id))
		return
	}
	t.Phone, _ = parsePhone(t.Phone)
	t.Locale = s.Pages.Lang(r, a.flow.Demand.Locales, a.flow.Demand.Client.ID)
	switch {
	case wait > 0:
		in := page.Form{}
		waits(w, &in, "problem.wait", wait)
		s.signUpPage(w, r, a, http.StatusTooManyRequests, t, in)
	case s.toConfirm(a.u, t) != "":
		s.awaitCode(w, r, a, t)
	default:
		s.finishSignUp(w, r, a, &pendingSignUp{typed: *t}, *t, nil)
	}
}

// countSignUp counts a form that would be hashed and stored. wait is how long none is taken from this address.
func (s *Service) countSignUp(r *http.Request) (wait time.Duration, err error) {
	if !s.Admit(r) {
		return 0, errTooMany
	}
	now, from := s.Now(), network(s.Origin(r).ClientIP)
	err = s.Store.Update(r.Context(), func(tx storage.Tx) error {
		wait, err = s.tooMany(tx, "sign-up-address", from, signUpsPerAddress, now)
		return err
	})
	return wait, err
}

// finishSignUp creates the person and signs them in, or sends the link that activates them. spend uses up what the last of it
// was confirmed by; until was what was confirmed before.
func (s *Service) finishSignUp(w http.ResponseWriter, r *http.Request, a aside, p *pendingSignUp, until typedSignUp, spend func(storage.Tx) (bool, error)) {
	inactive := a.u.Features.PersonActivation.Enabled && !(p.typed.Verified && activatesByEmail(a.u))
	c, err := s.newSignUp(r, p, inactive, spend)
	if err == nil && inactive {
		now := s.Now()
		err = s.Store.Update(r.Context(), func(tx storage.Tx) error {
			_, err := c.create(tx, now)
			if errors.Is(err, ErrUsernameTaken) && activatesByEmail(a.u) {
				return s.tellOwner(tx, &p.typed, now) // nothing was written, and the answer is the same
			}
			return err
		})
	} else if err == nil {
		err = s.admitNew(w, r, a.flow, c.id, "signed up", c.create)
	}
	switch again := withSignIn(signUpPath, a.id); {
	case err == nil && inactive:
		s.jar.Clear(w, kindSignUp)
		s.redirect(w, r, withSignIn(signUpSentPath, a.id))
	case err == nil:
		s.jar.Clear(w, kindSignUp)
		s.sendOn(w, r, s.afterSignUp(a))
	case errors.Is(err, errMismatch), errors.Is(err, ErrUsernameTaken) && p.typed.Verified:
		p.typed = until
		s.signUpCodePage(w, r, a, p, http.StatusUnprocessableEntity, page.Form{Problem: "problem.code"})
	case errors.Is(err, ErrUsernameTaken):
		s.signUpPage(w, r, a, http.StatusUnprocessableEntity, &p.typed, page.Form{Problem: "problem.sign_up"})
	case errors.As(err, new(*ValidationError)): // the configuration is another since
		s.Pages.Error(w, r, http.StatusBadRequest, "error.expired", again)
	default:
		s.fail(w, r, err, again)
	}
}

// signingUp is somebody about to become a person.
type signingUp struct {
	*Service

	id       string
	inactive bool
	rec      personRecord
	prof     profileRecord
	folded   string
	pending  *pendingSignUp
	by       Actor
	events   []event.Event // created, signed up
	spend    func(storage.Tx) (bool, error)
}

func (s *Service) newSignUp(r *http.Request, p *pendingSignUp, inactive bool, spend func(storage.Tx) (bool, error)) (*signingUp, error) {
	id, err := uuid.NewRandomFromReader(s.Random)
	if err != nil {
		return nil, err
	}
	c := &signingUp{Service: s, id: id.String(), inactive: inactive, pending: p, spend: spend, by: Actor{ID: id.String(), Name: p.typed.Email, Origin: s.Origin(r)}}
	n, err := s.place(p.typed.newcomer())
	if err != nil {
		return nil, err
	}
	if c.rec, c.prof, c.folded, err = n.records(); err != nil {
		return nil, err
	}
	c.events, err = s.newEvents(c.by.Origin, personCreated, personSignedUp)
	return c, err
}

// create writes the person, in the transaction that uses up the code, or returns ErrUsernameTaken, errMismatch or a *ValidationError.
func (c *signingUp) create(tx storage.Tx, now time.Time) (personRecord, error) {
	if c.spend != nil {
		if ok, err := c.spend(tx); err != nil || !ok {
			return c.rec, cmpErr(err, errMismatch)
		}
	}
	taken, err := c.takenBy(tx, c.pending.typed.Email)
	if err != nil {
		return c.rec, err
	}
	if taken != nil {
		return c.rec, ErrUsernameTaken
	}
	if c.pending.hash != "" {
		if err := signUps.Delete(tx, c.pending.hash); err != nil {
			return c.rec, err
		}
	}
	if err := c.checkConfigured(tx, &c.prof, nil); err != nil {
		return c.rec, err
	}
	c.rec.CreatedAt, c.rec.UpdatedAt = now, now
	if c.inactive {
		if err := c.makeAwait(tx, &c.rec, onWeb); err != nil {
			return c.rec, err
		}
	}
	if err := createPerson(tx, c.id, c.rec, &c.prof, c.folded); err != nil {
		return c.rec, err
	}
	if err := passwords.Create(tx, c.id, passwordRecord{PHC: c.pending.typed.PHC, ChangedAt: now}, time.Time{}); err != nil {
		return c.rec, err
	}
	for _, e := range c.events {
		if err := c.Events.Append(tx, c.by.did(e, c.id, "")); err != nil {
			return c.rec, err
		}
	}
	return c.rec, c.greet(tx, told{id: c.id, rec: &c.rec, profile: &c.prof.Profile}, onWeb, now)
}

// takenBy returns who has an address already, as username or as verified address, or nil.
func (s *Service) takenBy(tx storage.Tx, address string) (*told, error) {
	folded, err := fold(address)
	if err != nil {
		return nil, err
	}
	name, err := readName(tx, event.DefaultPartition, folded)
	id := name.PersonID
	if errors.Is(err, storage.ErrNotFound) {
		ids, err := personsWithEmail(tx, address)
		if err != nil || len(ids) == 0 {
			return nil, err
		}
		id = ids[0]
	} else if err != nil {
		return nil, err
	}
	rec, err := persons.Get(tx, id)
	if err != nil {
		return nil, err
	}
	t, err := s.reached(tx, id, &rec)
	return &t, err
}
