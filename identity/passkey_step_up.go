package identity

import (
	"context"
	"errors"
	"net/http"
	"time"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/identity/config"
	"github.com/gatehouse-id/gatehouse/internal/cookie"
	"github.com/gatehouse-id/gatehouse/internal/page"
	"github.com/gatehouse-id/gatehouse/storage"
)

const (
	passkeyStepUpPath = "/step-up/passkey"
	passkeysPath      = securityPath + "/passkeys"
	passkeyNamePath   = passkeysPath + "/name"
	passkeyRemovePath = passkeysPath + "/remove"
)

// passkeyMethod is a passkey of a person who has signed in by something else.
var passkeyMethod = stepUpMethod{
	name: methodPasskey, page: passkeyStepUpPath, setUp: passkeysPath + "/add",
	needs: (*Service).hasPasskeys,
	level: func(*config.Units) int { return passkeyLevel },
	has: func(tx storage.Tx, si *signedIn, _ *stepUpRecord) (bool, error) {
		set, err := readPasskeys(tx, si.session.PersonID)
		return len(set.Keys) > 0, err // suspect ones too: they must not make it easier to add another
	},
	check: checkPasskeyStepUp,
}

// usable are the passkeys that are taken.
func (p *passkeySetRecord) usable() (out []passkeyRecord) {
	for _, k := range p.Keys {
		if !k.Suspect {
			out = append(out, k)
		}
	}
	return out
}

// passkeyStepUp reads a step-up that goes on by a passkey. Otherwise it has written the answer and is not ok.
func (s *Service) passkeyStepUp(w http.ResponseWriter, r *http.Request) (x steppingUp, ok bool) {
	if x, ok = s.stepUpFlow(w, r); ok && pick(x.offered, passkeyMethod.name) == nil {
		s.redirect(w, r, stepUpURL(x.id)+"&choose=1")
		ok = false
	}
	return x, ok
}

// bound is what the challenge of a step-up is bound to.
func (x *steppingUp) bound() string { return storage.Key(x.id, x.si.id) }

// showPasskeyStepUp serves GET /step-up/passkey?flow=….
func (s *Service) showPasskeyStepUp(w http.ResponseWriter, r *http.Request) {
	if x, ok := s.passkeyStepUp(w, r); ok {
		s.passkeyStepUpPage(w, r, x, http.StatusOK, page.StepUpPasskey{})
	}
}

func (s *Service) passkeyStepUpPage(w http.ResponseWriter, r *http.Request, x steppingUp, status int, in page.StepUpPasskey) {
	challenge, err := s.passkeyChallenge(r.Context(), challengeStepUp, x.bound())
	var set passkeySetRecord
	if err == nil {
		err = s.Store.View(r.Context(), func(tx storage.Tx) (err error) {
			set, err = readPasskeys(tx, x.si.session.PersonID)
			return err
		})
	}
	if err != nil {
		s.fail(w, r, err, stepUpURL(x.id))
		return
	}
	in.Account, in.Cancel = x.si.person.Username, page.LocalPath(x.flow.Demand.Cancel)
	if len(x.offered) > 1 {
		in.Others = stepUpURL(x.id) + "&choose=1"
	}
	in.Passkey = &page.Passkey{
		Action: passkeyStepUpPath + "?flow=" + x.id, CSRF: s.Pages.CSRF(s.jar.Get(r, cookie.KindBrowser), stepUpForm(x, &passkeyMethod)),
		Options: s.useOptions(challenge, set.usable()), Again: passkeyStepUpPath + "?flow=" + x.id, Label: "step_up.passkey.choice", Life: challengeSeconds,
	}
	s.Pages.Render(w, r, s.view(x.flow.Demand, "step_up_passkey", status, in))
}

// handlePasskeyStepUp serves POST /step-up/passkey?flow=….
func (s *Service) handlePasskeyStepUp(w http.ResponseWriter, r *http.Request) {
	x, ok := s.passkeyStepUp(w, r)
	if !ok {
		return
	}
	if err := s.Pages.CheckPost(r, s.jar.Get(r, cookie.KindBrowser), stepUpForm(x, &passkeyMethod)); err != nil {
		s.Log.Info("form refused", zap.String("path", r.URL.Path), zap.Error(err))
		s.Pages.Refuse(w, r, err, stepUpURL(x.id))
		return
	}
	challenge, err := s.spendChallenge(r.Context(), challengeStepUp, x.bound())
	if err == nil && challenge == nil {
		s.passkeyStepUpPage(w, r, x, http.StatusUnprocessableEntity, page.StepUpPasskey{Problem: "problem.passkey_late"})
		return
	}
	var wait time.Duration
	if err == nil {
		t := &stepUpTry{flow: x.id, si: x.si, from: s.Origin(r), own: x.st.own, counter: x.st.counter(x.si.session.PersonID, &passkeyMethod), code: r.PostForm.Get("credential"), challenge: challenge}
		wait, err = s.tryStepUp(w, r, x.flow, &passkeyMethod, t)
	}
	switch {
	case err == nil && wait > 0:
		in := page.StepUpPasskey{Problem: "problem.wait", Wait: retryAfter(w, wait)}
		s.passkeyStepUpPage(w, r, x, http.StatusTooManyRequests, in)
	case err == nil:
		s.redirect(w, r, x.flow.Demand.Return)
	case errors.Is(err, errMismatch):
		s.passkeyStepUpPage(w, r, x, http.StatusUnprocessableEntity, page.StepUpPasskey{Problem: "problem.passkey"})
	default:
		s.fail(w, r, err, stepUpURL(x.id))
	}
}

// checkPasskeyStepUp checks the answer of one of the person's own passkeys.
func checkPasskeyStepUp(ctx context.Context, s *Service, t *stepUpTry) (func(storage.Tx, *stepUpRecord) (bool, error), error) {
	person := t.si.session.PersonID
	said, err := readAssertion(t.code)
	if err != nil {
		return nil, s.passkeyRefused(t, err)
	}
	a, set, err := s.ownerOf(ctx, said.RawID)
	if err != nil {
		return nil, err
	}
	if a.id != person {
		return nil, s.passkeyRefused(t, &passkeyError{errors.New("the passkey is not the person's")})
	}
	key, copied, err := s.verifyPasskey(&set, t.challenge, said, true)
	if err == nil && copied {
		err = cmpErr(s.suspect(ctx, person, key, t.from), errCopied)
	}
	if err != nil {
		return nil, s.passkeyRefused(t, err)
	}
	t.passkey = key.ID
	now := s.Now()
	return func(tx storage.Tx, _ *stepUpRecord) (bool, error) {
		_, err := s.usePasskey(tx, person, key, now)
		if errors.Is(err, errMismatch) {
			return false, nil
		}
		return true, err
	}, nil
}

// passkeyRefused logs why an answer is not taken.
func (s *Service) passkeyRefused(t *stepUpTry, err error) error {
	if errors.Is(err, errMismatch) {
		s.Log.Info("passkey refused", zap.String("person_id", t.si.session.PersonID), zap.NamedError("cause", err))
	}
	return err
}
