package identity

import (
	"cmp"
	"errors"
	"net/http"
	"time"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/identity/federation"
	"github.com/gatehouse-id/gatehouse/identity/front"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/proof"
	"github.com/gatehouse-id/gatehouse/identity/session"
	"github.com/gatehouse-id/gatehouse/identity/stepup"
	"github.com/gatehouse-id/gatehouse/internal/cookie"
	"github.com/gatehouse-id/gatehouse/internal/event"
	"github.com/gatehouse-id/gatehouse/internal/page"
	"github.com/gatehouse-id/gatehouse/storage"
)

const passkeySignInPath = "/sign-in/passkey"

// offerPasskey returns the form of the sign-in page for who has a passkey, or nil where none signs anybody in.
func (s *Service) offerPasskey(r *http.Request, id string, ways *federation.Ways) (*page.Passkey, error) {
	if !ways.Passkey {
		return nil, nil //nolint:nilnil // not offered
	}
	challenge, err := s.StepUp.PasskeyChallenge(r.Context(), stepup.ChallengeSignIn, id)
	if err != nil {
		return nil, err
	}
	return &page.Passkey{
		Action: passkeySignInPath + "?flow=" + id, CSRF: s.pages.CSRF(s.jar.Get(r, cookie.KindBrowser), passkeyForm(id)), Options: s.StepUp.UseOptions(challenge, nil), Again: front.FlowURL(id),
		Offer: ways.Password || ways.HasDomains(), Quiet: ways.Password, Remember: s.Session.OffersRemember(), Label: "sign_in.passkey", Life: stepup.ChallengeSeconds,
	}, nil
}

func passkeyForm(id string) string { return "passkey:" + id }

// handlePasskey serves POST /sign-in/passkey?flow=…: the answer of a passkey.
func (s *Service) handlePasskey(w http.ResponseWriter, r *http.Request) {
	id, f, ok := s.Front.Flow(w, r)
	if !ok {
		return
	}
	if err := s.pages.CheckPost(r, s.jar.Get(r, cookie.KindBrowser), passkeyForm(id)); err != nil {
		s.log.Info("form refused", zap.String("path", r.URL.Path), zap.Error(err))
		s.pages.Refuse(w, r, err, front.FlowURL(id))
		return
	}
	known, err := s.Federation.Current(r.Context())
	if err == nil {
		err = s.Front.IsOpen(r.Context())
	}
	if err != nil {
		s.Front.Fail(w, r, err, front.FlowURL(id))
		return
	}
	ways := known.Ways(f.Demand)
	if !ways.Passkey {
		s.Front.Redirect(w, r, front.FlowURL(id))
		return
	}
	in := page.SignIn{Remember: r.PostForm.Get("remember") != ""}
	challenge, err := s.StepUp.SpendChallenge(r.Context(), stepup.ChallengeSignIn, id)
	var wait time.Duration
	switch {
	case err == nil && challenge == nil:
		in.Problem = "problem.passkey_late"
		s.signInPage(w, r, id, f, ways, http.StatusUnprocessableEntity, in)
		return
	case err == nil:
		wait, err = s.signInByPasskey(w, r, f, challenge, r.PostForm.Get("credential"), in.Remember)
	}
	switch {
	case err == nil && wait > 0:
		in.Problem, in.Wait = "problem.wait", front.RetryAfter(w, wait)
		s.signInPage(w, r, id, f, ways, http.StatusTooManyRequests, in)
	case err == nil:
		s.Front.Enter(w, r, id, f)
	case errors.Is(err, person.ErrMismatch):
		in.Problem = "problem.passkey"
		s.signInPage(w, r, id, f, ways, http.StatusUnprocessableEntity, in)
	default:
		s.Front.Fail(w, r, err, front.FlowURL(id))
	}
}

// signInByPasskey counts the try, checks the answer and opens the session. wait is how long no try is taken, person.ErrMismatch every reason why the answer
// signs nobody in.
func (s *Service) signInByPasskey(w http.ResponseWriter, r *http.Request, f front.FlowRecord, challenge []byte, answer string, remember bool) (wait time.Duration, err error) {
	ctx, from := r.Context(), s.origin(r)
	said, unread := stepup.ReadAssertion(answer)
	var credential []byte // nobody's where the answer cannot be read, but counted like any other
	if unread == nil {
		credential = said.RawID
	}
	a, set, err := s.StepUp.OwnerOf(ctx, credential)
	if err != nil {
		return 0, err
	}
	device := s.Session.DeviceToken(r)
	at, err := s.Proof.BeginAttempt(ctx, a, stepup.CredentialKey(credential), proof.Origin{Address: from.ClientIP, Device: proof.Hashed(device)})
	if err != nil {
		return 0, err
	}
	if at.Wait > 0 {
		s.log.Info("sign-in not taken: too many tries", zap.String("person_id", a.ID), zap.String("client_ip", from.ClientIP))
		return at.Wait, nil
	}
	if unread != nil {
		return 0, s.refusePasskey(r, f, a, at, from, unread)
	}
	key, copied, err := s.StepUp.VerifyPasskey(&set, challenge, said, false)
	switch {
	case err == nil && copied:
		err = cmp.Or[error](s.StepUp.Suspect(ctx, a.ID, key, from), stepup.ErrCopied)
	case err == nil && a.Person.State != person.Active:
		err = person.ErrMismatch
	}
	if err != nil {
		return 0, s.refusePasskey(r, f, a, at, from, err)
	}
	if device == "" {
		if device, err = s.Front.NewID(); err != nil {
			return 0, err
		}
	}
	err = s.Front.Admit(w, r, f, front.Identification{
		Person: a.ID, Level: session.PasskeyLevel, AMR: session.PasskeyWord, Passkey: key.ID, Reason: "by passkey", Remember: remember, Device: device, From: from,
		Prove: func(tx storage.Tx, now time.Time) (person.Record, error) {
			rec, err := s.StepUp.UsePasskey(tx, a.ID, key, now)
			if err != nil {
				return rec, err
			}
			if err := s.Proof.Undo(tx, at, true, now); err != nil {
				return rec, err
			}
			return rec, proof.DeviceRecords.Put(tx, storage.Key(a.ID, proof.Hashed(device)), proof.DeviceRecord{Epoch: rec.Epoch, Seen: now}, now.Add(session.DeviceLife))
		},
	})
	if errors.Is(err, person.ErrMismatch) {
		err = s.refusePasskey(r, f, a, at, from, err)
	}
	return 0, err
}

// refusePasskey logs why an answer signs nobody in, and writes its events.
func (s *Service) refusePasskey(r *http.Request, f front.FlowRecord, a person.Holder, at proof.Attempt, from event.Origin, cause error) error {
	if !errors.Is(cause, person.ErrMismatch) {
		s.Proof.NotEvaluated(r.Context(), at)
		return cause
	}
	s.log.Info("sign-in refused", zap.String("person_id", a.ID), zap.String("client_ip", from.ClientIP), zap.NamedError("cause", cause))
	return cmp.Or(s.Proof.Failed(r.Context(), f.Demand.Client.ID, a, at, from), person.ErrMismatch)
}
