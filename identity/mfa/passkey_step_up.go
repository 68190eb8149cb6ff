package mfa

import (
	"cmp"
	"context"
	"errors"
	"net/http"

	"github.com/gatehouse-id/gatehouse/identity/passkey"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/session"
	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/identity/webflow"
	"github.com/gatehouse-id/gatehouse/internal/web"
	"github.com/gatehouse-id/gatehouse/storage"
)

const (
	passkeyStepUpPath = "/step-up/passkey"
	passkeysPath      = webflow.SecurityPath + "/passkeys"
	passkeyNamePath   = passkeysPath + "/name"
	passkeyRemovePath = passkeysPath + "/remove"
)

// passkeyMethod is a passkey of a person who has signed in by something else.
var passkeyMethod = Method{
	Name: session.MethodPasskey, page: passkeyStepUpPath, setUp: passkeysPath + "/add",
	needs: (*Service).HasPasskeys,
	Level: func(*settings.Units) int { return session.PasskeyLevel },
	has: func(tx storage.Tx, si *session.Current, _ *Record) (bool, error) {
		set, err := passkey.Read(tx, si.Session.PersonID)
		return len(set.Keys) > 0, err // suspect ones count too: they must not make it easier to add another
	},
	check: checkPasskey,
}

// passkeyStepUp is a step-up that goes on with a passkey.
type passkeyStepUp struct {
	*stepUp
	set     passkey.Set
	waiting passkey.Challenge
}

// readPasskeyStepUp reads what the two handlers of the page share.
func (s *Service) readPasskeyStepUp(q *webflow.Request) (x passkeyStepUp, err error) {
	x.stepUp, err = s.readOwnPage(q, &passkeyMethod, func(tx storage.Tx, up *stepUp) (err error) {
		if x.set, err = passkey.Read(tx, q.SignIn.Session.PersonID); err != nil {
			return err
		}
		x.waiting, err = passkey.ReadChallenge(tx, passkey.ChallengeStepUp, up.bound(q.SignIn))
		return err
	})
	return x, err
}

// showPasskeyStepUp serves GET /step-up/passkey?flow=….
func (s *Service) showPasskeyStepUp(q *webflow.Request) error {
	x, err := s.readPasskeyStepUp(q)
	if err != nil {
		return err
	}
	return s.passkeyStepUpPage(q, x, http.StatusOK, web.StepUpPasskey{})
}

func (s *Service) passkeyStepUpPage(q *webflow.Request, x passkeyStepUp, status int, in web.StepUpPasskey) error {
	challenge, err := s.Passkeys.EnsureChallenge(q.Context(), passkey.ChallengeStepUp, x.bound(q.SignIn), x.waiting)
	if err != nil {
		return err
	}
	csrf, err := s.deps.Front.FormToken(q, x.form(q.SignIn, &passkeyMethod))
	if err != nil {
		return err
	}
	in.Account, in.Another, in.Cancel = q.SignIn.Person.Username, webflow.AnotherInFlow(x.id), web.LocalPath(x.flow.Demand.Cancel)
	if len(x.offered) > 1 {
		in.Others = chooseURL(x.id)
	}
	self := passkeyStepUpPath + "?flow=" + x.id
	in.Passkey = &web.Passkey{
		Action: self, CSRF: csrf, Options: s.Passkeys.UseOptions(challenge, x.set.Usable()), Again: self, Label: "step_up.passkey.choice",
		Life: passkey.ChallengeSeconds,
	}
	s.deps.Pages.Render(q.W, q.Request, s.deps.Front.View(x.flow.Demand, "step_up_passkey", status, in))
	return nil
}

// handlePasskeyStepUp serves POST /step-up/passkey?flow=….
func (s *Service) handlePasskeyStepUp(q *webflow.Request) error {
	x, err := s.readPasskeyStepUp(q)
	if err == nil {
		err = s.deps.Front.CheckForm(q, x.form(q.SignIn, &passkeyMethod), URL(x.id))
	}
	if err != nil {
		return err
	}
	challenge, err := s.Passkeys.SpendChallenge(q.Context(), passkey.ChallengeStepUp, x.bound(q.SignIn))
	if err != nil {
		return err
	}
	x.waiting = passkey.Challenge{} // spent
	if challenge == nil {
		return s.passkeyStepUpPage(q, x, http.StatusUnprocessableEntity, web.StepUpPasskey{Problem: "problem.passkey_late"})
	}
	wait, err := s.tryAnswer(q, &response{
		stepUp: x.stepUp, method: &passkeyMethod, signIn: q.SignIn, from: s.deps.Origin(q.Request),
		code: q.PostForm.Get("credential"), challenge: challenge,
	})
	switch {
	case err == nil && wait > 0:
		in := web.StepUpPasskey{Problem: "problem.wait", Wait: webflow.RetryAfter(q.W, wait)}
		return s.passkeyStepUpPage(q, x, http.StatusTooManyRequests, in)
	case err == nil:
		return q.Redirect(x.flow.Demand.Return)
	case errors.Is(err, person.ErrMismatch):
		return s.passkeyStepUpPage(q, x, http.StatusUnprocessableEntity, web.StepUpPasskey{Problem: "problem.passkey"})
	}
	return err
}

// checkPasskey checks the answer of one of the person's own passkeys.
func checkPasskey(ctx context.Context, s *Service, a *response) (spender, error) {
	key, err := s.verifyAnswer(ctx, a)
	if err != nil {
		return nil, err
	}
	a.passkey = key.ID
	now := s.deps.Now()
	return func(tx storage.Tx, _ *Record) (bool, error) {
		rec, err := s.Passkeys.Use(tx, a.signIn.Session.PersonID, key, now)
		if err == nil && key.Vouched && s.deps.Person.HasRole(&rec) {
			err = person.ErrMismatch
		}
		if errors.Is(err, person.ErrMismatch) {
			return false, nil
		}
		return true, err
	}, nil
}

func (s *Service) verifyAnswer(ctx context.Context, a *response) (key passkey.Passkey, err error) {
	assertion, err := passkey.ReadAssertion(a.code)
	if err != nil {
		return key, err
	}
	owner, set, err := s.Passkeys.OwnerOf(ctx, assertion.RawID)
	if err != nil {
		return key, err
	}
	if owner.ID != a.signIn.Session.PersonID {
		return key, passkey.Refuse("the passkey belongs to another person, or is unknown")
	}
	key, copied, err := s.Passkeys.Verify(&set, a.challenge, assertion, true)
	if err == nil && copied {
		err = cmp.Or(s.Suspect(ctx, owner.ID, key, a.from), passkey.ErrCopied)
	}
	return key, err
}
