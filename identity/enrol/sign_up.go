package enrol

import (
	"cmp"
	"errors"
	"net/http"
	"time"

	"github.com/google/uuid"

	"github.com/gatehouse-id/gatehouse/identity/config"
	"github.com/gatehouse-id/gatehouse/identity/front"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/proof"
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
	return f.SignUpEnabled && f.LoginEnabled && u.PasswordLogin() && (s.notify != nil || !confirmsSignUp(u) && !person.ActivatesByEmail(u))
}

// confirmsSignUp tells whether whoever signs up shows first that they read the address.
func confirmsSignUp(u *config.Units) bool { return u.Attributes.Verification.EmailEnabled }

// showSignUp serves GET /sign-up?flow=…. What waits for its confirmation in this browser is filled in again.
func (s *Service) showSignUp(w http.ResponseWriter, r *http.Request) {
	a, ok := s.front.Detour(w, r, signUpPath, s.canSignUp)
	if !ok {
		return
	}
	t := &typedSignUp{}
	if p, err := s.pending(r); err == nil {
		t = &p.typed
		t.emailAgain, t.phoneAgain = t.Email, t.Phone
	} else if !errors.Is(err, storage.ErrNotFound) {
		s.front.Fail(w, r, err, signUpPath)
		return
	}
	s.signUpPage(w, r, a, http.StatusOK, t, page.Form{})
}

func (s *Service) signUpPage(w http.ResponseWriter, r *http.Request, a front.Detour, status int, t *typedSignUp, in page.Form) {
	in.Key, in.Action, in.Links = "sign_up", front.WithSignIn(signUpPath, a.ID), []page.FormLink{backToSignIn(a.ID)}
	in.Fields = page.Fields(in.Problem != "", signUpFields(a.U, t)...)
	s.signUpForm(w, r, a, "sign_up:"+a.ID, status, in)
}

// signUpForm is front.FormPage for a form after which the person may be sent on elsewhere.
func (s *Service) signUpForm(w http.ResponseWriter, r *http.Request, a front.Detour, form string, status int, in page.Form) {
	if to := s.afterSignUp(a); page.LocalPath(to) == "" {
		a.Flow.Demand.Client.Targets = append(a.Flow.Demand.Client.Targets, front.TargetsOf(to)...)
	}
	s.front.FormPage(w, r, a, form, status, in)
}

// afterSignUp is where a person goes who has signed up: where they were going, else where the configuration says.
func (s *Service) afterSignUp(a front.Detour) string {
	d := a.Flow.Demand
	switch {
	case !comesForNothing(a):
		return d.Return
	case a.U.Redirects.URLAfterSignUp != "":
		return front.Absolute(a.U, a.U.Redirects.URLAfterSignUp)
	}
	return front.Landing(a.U, "")
}

// handleSignUp serves POST /sign-up?flow=…. Nobody is created here unless addresses are not confirmed: what was typed waits.
func (s *Service) handleSignUp(w http.ResponseWriter, r *http.Request) {
	a, ok := s.front.Detour(w, r, signUpPath, s.canSignUp)
	if !ok || !s.front.CheckPost(w, r, "sign_up:"+a.ID, front.WithSignIn(signUpPath, a.ID)) {
		return
	}
	t := s.readSignUp(r, a.U)
	t.Custom = front.ReadCustom(person.CustomFieldsOf(a.U, config.OwnMethod), r.PostForm, t.problems)
	if len(t.problems) > 0 {
		s.signUpPage(w, r, a, http.StatusUnprocessableEntity, t, page.Form{})
		return
	}
	wait, err := s.countSignUp(r)
	if err == nil && wait == 0 {
		// The same hash for an address that is taken: neither answer nor time tells.
		t.PHC, err = s.person.HashNew(r.Context(), r.PostForm.Get("password"))
		if problem := front.PasswordProblem(err); problem != "" {
			t.problem("password", problem)
			s.signUpPage(w, r, a, http.StatusUnprocessableEntity, t, page.Form{})
			return
		}
	}
	if err != nil {
		s.front.Fail(w, r, err, front.WithSignIn(signUpPath, a.ID))
		return
	}
	t.Phone, _ = person.ParsePhone(t.Phone)
	t.Locale = s.pages.Lang(r, a.Flow.Demand.Locales, a.Flow.Demand.Client.ID)
	switch {
	case wait > 0:
		in := page.Form{}
		front.Waits(w, &in, "problem.wait", wait)
		s.signUpPage(w, r, a, http.StatusTooManyRequests, t, in)
	case s.toConfirm(a.U, t) != "":
		s.awaitCode(w, r, a, t)
	default:
		s.finishSignUp(w, r, a, &pendingSignUp{typed: *t}, *t, nil)
	}
}

// countSignUp counts a form that would be hashed and stored. wait is how long none is taken from this address.
func (s *Service) countSignUp(r *http.Request) (wait time.Duration, err error) {
	if !s.admit(r) {
		return 0, front.ErrTooMany
	}
	now, from := s.now(), proof.Network(s.origin(r).ClientIP)
	err = s.store.Update(r.Context(), func(tx storage.Tx) error {
		wait, err = s.proof.CountRequest(tx, "sign-up-address", from, signUpsPerAddress, now)
		return err
	})
	return wait, err
}

// finishSignUp creates the person and signs them in, or sends the link that activates them. spend uses up what the last of it
// was confirmed by; until was what was confirmed before.
func (s *Service) finishSignUp(w http.ResponseWriter, r *http.Request, a front.Detour, p *pendingSignUp, until typedSignUp, spend func(storage.Tx) (bool, error)) {
	inactive := a.U.Features.PersonActivation.Enabled && !(p.typed.Verified && person.ActivatesByEmail(a.U))
	c, err := s.newSignUp(r, p, inactive, spend)
	if err == nil && inactive {
		now := s.now()
		err = s.store.Update(r.Context(), func(tx storage.Tx) error {
			_, err := c.create(tx, now)
			if errors.Is(err, person.ErrUsernameTaken) && person.ActivatesByEmail(a.U) {
				return s.tellOwner(tx, &p.typed, now) // nothing was written, and the answer is the same
			}
			return err
		})
	} else if err == nil {
		err = s.front.AdmitNew(w, r, a.Flow, c.id, "signed up", c.create)
	}
	switch again := front.WithSignIn(signUpPath, a.ID); {
	case err == nil && inactive:
		s.jar.Clear(w, kindSignUp)
		s.front.Redirect(w, r, front.WithSignIn(signUpSentPath, a.ID))
	case err == nil:
		s.jar.Clear(w, kindSignUp)
		s.front.LeaveTo(w, r, s.afterSignUp(a))
	case errors.Is(err, person.ErrMismatch), errors.Is(err, person.ErrUsernameTaken) && p.typed.Verified:
		p.typed = until
		s.signUpCodePage(w, r, a, p, http.StatusUnprocessableEntity, page.Form{Problem: "problem.code"})
	case errors.Is(err, person.ErrUsernameTaken):
		s.signUpPage(w, r, a, http.StatusUnprocessableEntity, &p.typed, page.Form{Problem: "problem.sign_up"})
	case errors.As(err, new(*person.ValidationError)): // the configuration is another since
		s.pages.Error(w, r, http.StatusBadRequest, "error.expired", again)
	default:
		s.front.Fail(w, r, err, again)
	}
}

// newAccount is somebody about to become a person.
type newAccount struct {
	*Service

	id       string
	inactive bool
	rec      person.Record
	prof     person.ProfileRecord
	folded   string
	pending  *pendingSignUp
	by       event.Actor
	recorded []event.Event // created, signed up
	spend    func(storage.Tx) (bool, error)
}

func (s *Service) newSignUp(r *http.Request, p *pendingSignUp, inactive bool, spend func(storage.Tx) (bool, error)) (*newAccount, error) {
	id, err := uuid.NewRandomFromReader(s.random)
	if err != nil {
		return nil, err
	}
	c := &newAccount{Service: s, id: id.String(), inactive: inactive, pending: p, spend: spend, by: event.Actor{ID: id.String(), Name: p.typed.Email, Origin: s.origin(r)}}
	n, err := s.person.Place(p.typed.newcomer())
	if err != nil {
		return nil, err
	}
	if c.rec, c.prof, c.folded, err = n.Records(); err != nil {
		return nil, err
	}
	c.recorded, err = s.person.NewEvents(c.by.Origin, person.EventCreated, personSignedUp)
	return c, err
}

// create writes the person, in the transaction that uses up the code, or returns person.ErrUsernameTaken, person.ErrMismatch or a *person.ValidationError.
func (c *newAccount) create(tx storage.Tx, now time.Time) (person.Record, error) {
	if c.spend != nil {
		if ok, err := c.spend(tx); err != nil || !ok {
			return c.rec, cmp.Or(err, person.ErrMismatch)
		}
	}
	taken, err := c.takenBy(tx, c.pending.typed.Email)
	if err != nil {
		return c.rec, err
	}
	if taken != nil {
		return c.rec, person.ErrUsernameTaken
	}
	if c.pending.hash != "" {
		if err := signUps.Delete(tx, c.pending.hash); err != nil {
			return c.rec, err
		}
	}
	if err := c.person.CheckConfigured(tx, &c.prof, nil); err != nil {
		return c.rec, err
	}
	c.rec.CreatedAt, c.rec.UpdatedAt = now, now
	if c.inactive {
		if err := c.person.MakeAwait(tx, &c.rec, person.ReasonWeb); err != nil {
			return c.rec, err
		}
	}
	if err := person.CreatePerson(tx, c.id, c.rec, &c.prof, c.folded); err != nil {
		return c.rec, err
	}
	if err := person.Passwords.Create(tx, c.id, person.PasswordRecord{PHC: c.pending.typed.PHC, ChangedAt: now}, time.Time{}); err != nil {
		return c.rec, err
	}
	for _, e := range c.recorded {
		if err := c.events.Append(tx, c.by.Fill(e, c.id, "")); err != nil {
			return c.rec, err
		}
	}
	return c.rec, c.Greet(tx, person.Recipient{ID: c.id, Rec: &c.rec, Profile: &c.prof.Profile}, person.ReasonWeb, now)
}

// takenBy returns who has an address already, as username or as verified address, or nil.
func (s *Service) takenBy(tx storage.Tx, address string) (*person.Recipient, error) {
	folded, err := person.Fold(address)
	if err != nil {
		return nil, err
	}
	name, err := person.ReadName(tx, event.DefaultPartition, folded)
	id := name.PersonID
	if errors.Is(err, storage.ErrNotFound) {
		ids, err := person.ByVerifiedEmail(tx, address)
		if err != nil || len(ids) == 0 {
			return nil, err
		}
		id = ids[0]
	} else if err != nil {
		return nil, err
	}
	rec, err := person.Records.Get(tx, id)
	if err != nil {
		return nil, err
	}
	t, err := s.proof.LinkReached(tx, id, &rec)
	return &t, err
}
