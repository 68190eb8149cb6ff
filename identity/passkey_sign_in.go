package identity

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"time"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/identity/challenge"
	"github.com/gatehouse-id/gatehouse/identity/passkey"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/session"
	"github.com/gatehouse-id/gatehouse/identity/webflow"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/denial"
	"github.com/gatehouse-id/gatehouse/internal/web"
	"github.com/gatehouse-id/gatehouse/storage"
)

const (
	passkeySignInPath = "/sign-in/passkey"
	passkeyForm       = "passkey"

	// relatedOriginsPath lists the other origins that may use passkeys of this host, for browsers. (Web Authentication
	// Level 3 5.11.1)
	relatedOriginsPath = "/.well-known/webauthn"
)

// serveRelatedOrigins serves GET /.well-known/webauthn.
func (s *Service) serveRelatedOrigins(w http.ResponseWriter, r *http.Request) {
	doc := s.StepUp.Passkeys.Related()
	if doc == nil || r.Method != http.MethodGet && r.Method != http.MethodHead {
		s.ServeElse(w, r)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "max-age=300")
	if _, err := w.Write(doc); err != nil {
		s.log.Debug("related origins not sent", zap.Error(err))
	}
}

// offerPasskey returns the form of the sign-in page for people with a passkey, or nil where no passkey signs in.
func (s *Service) offerPasskey(x *signIn) (*web.Passkey, error) {
	if !x.ways.Passkey {
		return nil, nil //nolint:nilnil // not offered
	}
	challenge, err := s.StepUp.Passkeys.Challenge(x.Context(), passkey.ChallengeSignIn, x.id)
	if err != nil {
		return nil, err
	}
	csrf, err := s.Front.FormToken(x.Request, passkeyForm+":"+x.id)
	return &web.Passkey{
		Action: passkeySignInPath + "?flow=" + x.id, CSRF: csrf, Options: s.StepUp.Passkeys.UseOptions(challenge, nil),
		Again: webflow.FlowURL(x.id),
		Offer: x.ways.Password || x.ways.HasDomains(), Quiet: x.ways.Password, Remember: s.Session.OffersRemember(), Label: "sign_in.passkey",
		Life: passkey.ChallengeSeconds,
	}, err
}

// handlePasskey serves POST /sign-in/passkey?flow=…: the answer of a passkey.
func (s *Service) handlePasskey(q *webflow.Request) error {
	x, err := s.signInPost(q, passkeyForm)
	if err != nil {
		return err
	}
	if !x.ways.Passkey {
		return q.Redirect(webflow.FlowURL(x.id))
	}
	in := web.SignIn{Remember: q.PostForm.Get("remember") != ""}
	challenge, err := s.StepUp.Passkeys.SpendChallenge(q.Context(), passkey.ChallengeSignIn, x.id)
	if err != nil {
		return err
	}
	if challenge == nil {
		return s.signInProblem(x, in, "problem.passkey_late")
	}
	switch wait, err := s.signInByPasskey(x, challenge, in.Remember); {
	case err == nil && wait > 0:
		in.Problem, in.Wait = "problem.wait", webflow.RetryAfter(q.W, wait)
		return s.signInPage(x, http.StatusTooManyRequests, in)
	case err == nil:
		return s.Front.Finish(q, x.id, x.flow)
	case errors.Is(err, person.ErrMismatch):
		return s.signInProblem(x, in, "problem.passkey")
	default:
		return err
	}
}

// passkeyTry is an answer of a passkey while it is checked.
type passkeyTry struct {
	client  string // that asked for the sign-in
	account person.Holder
	attempt challenge.Attempt
	from    audit.Origin
}

// signInByPasskey counts the attempt, checks the answer and opens the session. wait is how long no attempt is allowed.
// person.ErrMismatch: the answer signs no one in, for any reason.
func (s *Service) signInByPasskey(x *signIn, asked []byte, remember bool) (wait time.Duration, err error) {
	ctx, t := x.Context(), &passkeyTry{client: x.flow.Demand.Client.ID, from: s.origin(x.Request.Request)}
	assertion, malformed := passkey.ReadAssertion(x.PostForm.Get("credential"))
	var credential []byte // empty for a malformed answer, which counts like any other
	if malformed == nil {
		credential = assertion.RawID
	}
	a, set, err := s.StepUp.Passkeys.OwnerOf(ctx, credential)
	if err != nil {
		return 0, err
	}
	device := s.Session.DeviceToken(x.Request.Request)
	t.account = a
	t.attempt, err = s.Proof.BeginAttempt(ctx, a, passkey.CredentialKey(credential),
		challenge.Source{Address: t.from.ClientIP, Device: challenge.Hashed(device)})
	if err != nil {
		return 0, err
	}
	if t.attempt.Wait > 0 {
		s.refuseAccount(ctx, denial.Refusal{Where: denial.SignIn, Reason: denial.Throttled, By: "passkey", ClientID: t.client}, a, t.from, nil)
		return t.attempt.Wait, nil
	}
	if malformed != nil {
		return 0, s.refusePasskey(ctx, t, malformed)
	}
	key, copied, err := s.StepUp.Passkeys.Verify(&set, asked, assertion, false)
	switch {
	case err == nil && copied:
		err = cmp.Or[error](s.StepUp.Suspect(ctx, a.ID, key, t.from), passkey.ErrCopied)
	case err == nil && a.Person.State != person.Active:
		err = person.ErrMismatch
	}
	if err != nil {
		if a.ID == "" {
			x.signals = s.StepUp.Passkeys.UnknownSignal(credential)
		}
		return 0, s.refusePasskey(ctx, t, err)
	}
	if device == "" {
		if device, err = s.Front.NewID(); err != nil {
			return 0, err
		}
	}
	err = s.Front.Admit(x.W, x.Request.Request, x.flow, webflow.Identification{
		Person: a.ID, Level: session.PasskeyLevel, AMR: session.AMRPasskey, Passkey: key.ID, Vouched: key.Vouched, Reason: webflow.ByPasskey,
		Remember: remember, Device: device, From: t.from,
		Prove: func(tx storage.Tx, now time.Time) (person.Record, error) {
			rec, err := s.StepUp.Passkeys.Use(tx, a.ID, key, now)
			if err == nil && key.Vouched && s.Person.HasRole(&rec) {
				err = person.ErrMismatch
			}
			if err != nil {
				return rec, err
			}
			if err := s.Proof.Undo(tx, t.attempt, true, now); err != nil {
				return rec, err
			}
			return rec, s.Proof.RememberDevice(tx, a.ID, rec.Epoch, challenge.Hashed(device), now)
		},
	})
	if errors.Is(err, person.ErrMismatch) {
		err = s.refusePasskey(ctx, t, err)
	}
	return 0, err
}

// refusePasskey logs why an answer signs no one in, and writes its events.
func (s *Service) refusePasskey(ctx context.Context, t *passkeyTry, cause error) error {
	if !errors.Is(cause, person.ErrMismatch) {
		s.Proof.NotEvaluated(ctx, t.attempt)
		return cause
	}
	why := denial.Refusal{Where: denial.SignIn, Reason: denial.PasskeyRefused, By: "passkey", ClientID: t.client}
	if a := t.account; a.ID != "" && a.Person.State != person.Active {
		why.Reason = challenge.ReasonOf(a.Person.State)
	}
	s.refuseAccount(ctx, why, t.account, t.from, cause)
	return cmp.Or(s.Proof.Failed(ctx, t.client, t.account, t.attempt, t.from), person.ErrMismatch)
}
