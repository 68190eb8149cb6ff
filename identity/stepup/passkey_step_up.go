package stepup

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"time"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/identity/config"
	"github.com/gatehouse-id/gatehouse/identity/front"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/session"
	"github.com/gatehouse-id/gatehouse/internal/cookie"
	"github.com/gatehouse-id/gatehouse/internal/page"
	"github.com/gatehouse-id/gatehouse/storage"
)

const (
	passkeyStepUpPath = "/step-up/passkey"
	passkeysPath      = front.SecurityPath + "/passkeys"
	passkeyNamePath   = passkeysPath + "/name"
	passkeyRemovePath = passkeysPath + "/remove"
)

// passkeyMethod is a passkey of a person who has signed in by something else.
var passkeyMethod = Method{
	Name: session.MethodPasskey, page: passkeyStepUpPath, setUp: passkeysPath + "/add",
	needs: (*Service).HasPasskeys,
	Level: func(*config.Units) int { return session.PasskeyLevel },
	has: func(tx storage.Tx, si *session.Current, _ *Record) (bool, error) {
		set, err := ReadPasskeys(tx, si.Session.PersonID)
		return len(set.Keys) > 0, err // suspect ones too: they must not make it easier to add another
	},
	check: checkPasskeyStepUp,
}

// Usable are the passkeys that are taken.
func (p *passkeySetRecord) Usable() (out []passkeyRecord) {
	for _, k := range p.Keys {
		if !k.Suspect {
			out = append(out, k)
		}
	}
	return out
}

// passkeyStepUp reads a step-up that goes on by a passkey. Otherwise it has written the answer and is not ok.
func (s *Service) passkeyStepUp(w http.ResponseWriter, r *http.Request) (x request, ok bool) {
	if x, ok = s.stepUpFlow(w, r); ok && Pick(x.offered, passkeyMethod.Name) == nil {
		s.front.Redirect(w, r, URL(x.id)+"&choose=1")
		ok = false
	}
	return x, ok
}

// bound is what the challenge of a step-up is bound to.
func (x *request) bound() string { return storage.Key(x.id, x.si.ID) }

// showPasskeyStepUp serves GET /step-up/passkey?flow=….
func (s *Service) showPasskeyStepUp(w http.ResponseWriter, r *http.Request) {
	if x, ok := s.passkeyStepUp(w, r); ok {
		s.passkeyStepUpPage(w, r, x, http.StatusOK, page.StepUpPasskey{})
	}
}

func (s *Service) passkeyStepUpPage(w http.ResponseWriter, r *http.Request, x request, status int, in page.StepUpPasskey) {
	challenge, err := s.PasskeyChallenge(r.Context(), challengeStepUp, x.bound())
	var set passkeySetRecord
	if err == nil {
		err = s.store.View(r.Context(), func(tx storage.Tx) (err error) {
			set, err = ReadPasskeys(tx, x.si.Session.PersonID)
			return err
		})
	}
	if err != nil {
		s.front.Fail(w, r, err, URL(x.id))
		return
	}
	in.Account, in.Cancel = x.si.Person.Username, page.LocalPath(x.flow.Demand.Cancel)
	if len(x.offered) > 1 {
		in.Others = URL(x.id) + "&choose=1"
	}
	in.Passkey = &page.Passkey{
		Action: passkeyStepUpPath + "?flow=" + x.id, CSRF: s.pages.CSRF(s.jar.Get(r, cookie.KindBrowser), stepUpForm(x, &passkeyMethod)),
		Options: s.UseOptions(challenge, set.Usable()), Again: passkeyStepUpPath + "?flow=" + x.id, Label: "step_up.passkey.choice", Life: ChallengeSeconds,
	}
	s.pages.Render(w, r, s.front.View(x.flow.Demand, "step_up_passkey", status, in))
}

// handlePasskeyStepUp serves POST /step-up/passkey?flow=….
func (s *Service) handlePasskeyStepUp(w http.ResponseWriter, r *http.Request) {
	x, ok := s.passkeyStepUp(w, r)
	if !ok {
		return
	}
	if err := s.pages.CheckPost(r, s.jar.Get(r, cookie.KindBrowser), stepUpForm(x, &passkeyMethod)); err != nil {
		s.log.Info("form refused", zap.String("path", r.URL.Path), zap.Error(err))
		s.pages.Refuse(w, r, err, URL(x.id))
		return
	}
	challenge, err := s.SpendChallenge(r.Context(), challengeStepUp, x.bound())
	if err == nil && challenge == nil {
		s.passkeyStepUpPage(w, r, x, http.StatusUnprocessableEntity, page.StepUpPasskey{Problem: "problem.passkey_late"})
		return
	}
	var wait time.Duration
	if err == nil {
		t := &answer{flow: x.id, si: x.si, from: s.origin(r), own: x.st.Own, counter: x.st.counter(x.si.Session.PersonID, &passkeyMethod), code: r.PostForm.Get("credential"), challenge: challenge}
		wait, err = s.tryStepUp(w, r, x.flow, &passkeyMethod, t)
	}
	switch {
	case err == nil && wait > 0:
		in := page.StepUpPasskey{Problem: "problem.wait", Wait: front.RetryAfter(w, wait)}
		s.passkeyStepUpPage(w, r, x, http.StatusTooManyRequests, in)
	case err == nil:
		s.front.Redirect(w, r, x.flow.Demand.Return)
	case errors.Is(err, person.ErrMismatch):
		s.passkeyStepUpPage(w, r, x, http.StatusUnprocessableEntity, page.StepUpPasskey{Problem: "problem.passkey"})
	default:
		s.front.Fail(w, r, err, URL(x.id))
	}
}

// checkPasskeyStepUp checks the answer of one of the person's own passkeys.
func checkPasskeyStepUp(ctx context.Context, s *Service, t *answer) (func(storage.Tx, *Record) (bool, error), error) {
	personID := t.si.Session.PersonID
	said, err := ReadAssertion(t.code)
	if err != nil {
		return nil, s.passkeyRefused(t, err)
	}
	a, set, err := s.OwnerOf(ctx, said.RawID)
	if err != nil {
		return nil, err
	}
	if a.ID != personID {
		return nil, s.passkeyRefused(t, &passkeyError{errors.New("the passkey is not the person's")})
	}
	key, copied, err := s.VerifyPasskey(&set, t.challenge, said, true)
	if err == nil && copied {
		err = cmp.Or[error](s.Suspect(ctx, personID, key, t.from), ErrCopied)
	}
	if err != nil {
		return nil, s.passkeyRefused(t, err)
	}
	t.passkey = key.ID
	now := s.now()
	return func(tx storage.Tx, _ *Record) (bool, error) {
		_, err := s.UsePasskey(tx, personID, key, now)
		if errors.Is(err, person.ErrMismatch) {
			return false, nil
		}
		return true, err
	}, nil
}

// passkeyRefused logs why an answer is not taken.
func (s *Service) passkeyRefused(t *answer, err error) error {
	if errors.Is(err, person.ErrMismatch) {
		s.log.Info("passkey refused", zap.String("person_id", t.si.Session.PersonID), zap.NamedError("cause", err))
	}
	return err
}
