package identity

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/internal/cookie"
	"github.com/gatehouse-id/gatehouse/internal/event"
	"github.com/gatehouse-id/gatehouse/internal/page"
	"github.com/gatehouse-id/gatehouse/storage"
)

const passkeySignInPath = "/sign-in/passkey"

// passkeyOptions are what a browser is asked for. (Web Authentication Level 3 5.1.10 and 5.1.11, the JSON forms)
type passkeyOptions struct {
	Challenge        string              `json:"challenge"`
	Timeout          int64               `json:"timeout"` // milliseconds
	UserVerification string              `json:"userVerification,omitempty"`
	RPID             string              `json:"rpId,omitempty"`
	Allow            []passkeyDescriptor `json:"allowCredentials,omitempty"`

	RP          *passkeyName        `json:"rp,omitempty"`
	User        *passkeyName        `json:"user,omitempty"`
	Parameters  []passkeyParameter  `json:"pubKeyCredParams,omitempty"`
	Selection   *passkeySelection   `json:"authenticatorSelection,omitempty"`
	Attestation string              `json:"attestation,omitempty"`
	Exclude     []passkeyDescriptor `json:"excludeCredentials,omitempty"`
}

type passkeyName struct {
	ID          string `json:"id"`
	Name        string `json:"name"`
	DisplayName string `json:"displayName,omitempty"`
}

type passkeyDescriptor struct {
	Type       string   `json:"type"`
	ID         string   `json:"id"`
	Transports []string `json:"transports,omitempty"`
}

type passkeyParameter struct {
	Type string `json:"type"`
	Alg  int64  `json:"alg"`
}

type passkeySelection struct {
	ResidentKey        string `json:"residentKey"`
	RequireResidentKey bool   `json:"requireResidentKey"`
	UserVerification   string `json:"userVerification"`
}

// describe names passkeys to a browser.
func describe(keys []passkeyRecord) (out []passkeyDescriptor) {
	for _, k := range keys {
		out = append(out, passkeyDescriptor{"public-key", encodeBytes(k.Credential), k.Transports})
	}
	return out
}

// useOptions asks for a passkey of the person, or of anybody when there are no keys.
func (s *Service) useOptions(challenge []byte, keys []passkeyRecord) string {
	return optionsText(passkeyOptions{
		Challenge: encodeBytes(challenge), Timeout: challengeLife.Milliseconds(), RPID: s.rp.Config.RPID, UserVerification: "required", Allow: describe(keys),
	})
}

func optionsText(o passkeyOptions) string {
	raw, err := json.Marshal(o)
	if err != nil {
		return "{}" // cannot be: texts and numbers alone
	}
	return string(raw)
}

// offerPasskey returns the form of the sign-in page for who has a passkey, or nil where none signs anybody in.
func (s *Service) offerPasskey(r *http.Request, id string, ways *ways) (*page.Passkey, error) {
	if !ways.passkey {
		return nil, nil //nolint:nilnil // not offered
	}
	challenge, err := s.passkeyChallenge(r.Context(), challengeSignIn, id)
	if err != nil {
		return nil, err
	}
	return &page.Passkey{
		Action: passkeySignInPath + "?flow=" + id, CSRF: s.Pages.CSRF(s.jar.Get(r, cookie.KindBrowser), passkeyForm(id)), Options: s.useOptions(challenge, nil), Again: flowURL(id),
		Offer: ways.password || ways.hasDomains(), Quiet: ways.password, Remember: s.offersRemember(), Label: "sign_in.passkey", Life: challengeSeconds,
	}, nil
}

// challengeSeconds is for how long a page counts on its challenge: a little less than it is good for, and no more than is left of one that a page
// before has shown.
const challengeSeconds = int(challengeLife/time.Second)/2 - 10

func passkeyForm(id string) string { return "passkey:" + id }

// handlePasskey serves POST /sign-in/passkey?flow=…: the answer of a passkey.
func (s *Service) handlePasskey(w http.ResponseWriter, r *http.Request) {
	id, f, ok := s.flow(w, r)
	if !ok {
		return
	}
	if err := s.Pages.CheckPost(r, s.jar.Get(r, cookie.KindBrowser), passkeyForm(id)); err != nil {
		s.Log.Info("form refused", zap.String("path", r.URL.Path), zap.Error(err))
		s.Pages.Refuse(w, r, err, flowURL(id))
		return
	}
	known, err := s.providers(r.Context())
	if err == nil {
		err = s.isOpen(r.Context())
	}
	if err != nil {
		s.fail(w, r, err, flowURL(id))
		return
	}
	ways := known.ways(f.Demand)
	if !ways.passkey {
		s.redirect(w, r, flowURL(id))
		return
	}
	in := page.SignIn{Remember: r.PostForm.Get("remember") != ""}
	challenge, err := s.spendChallenge(r.Context(), challengeSignIn, id)
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
		in.Problem, in.Wait = "problem.wait", retryAfter(w, wait)
		s.signInPage(w, r, id, f, ways, http.StatusTooManyRequests, in)
	case err == nil:
		s.goIn(w, r, id, f)
	case errors.Is(err, errMismatch):
		in.Problem = "problem.passkey"
		s.signInPage(w, r, id, f, ways, http.StatusUnprocessableEntity, in)
	default:
		s.fail(w, r, err, flowURL(id))
	}
}

// signInByPasskey counts the try, checks the answer and opens the session. wait is how long no try is taken, errMismatch every reason why the answer
// signs nobody in.
func (s *Service) signInByPasskey(w http.ResponseWriter, r *http.Request, f flowRecord, challenge []byte, answer string, remember bool) (wait time.Duration, err error) {
	ctx, from := r.Context(), s.Origin(r)
	said, unread := readAssertion(answer)
	var credential []byte // nobody's where the answer cannot be read, but counted like any other
	if unread == nil {
		credential = said.RawID
	}
	a, set, err := s.ownerOf(ctx, credential)
	if err != nil {
		return 0, err
	}
	device := s.device(r)
	at, err := s.countTry(ctx, a, credentialKey(credential), whence{address: from.ClientIP, device: hashed(device)})
	if err != nil {
		return 0, err
	}
	if at.wait > 0 {
		s.Log.Info("sign-in not taken: too many tries", zap.String("person_id", a.id), zap.String("client_ip", from.ClientIP))
		return at.wait, nil
	}
	if unread != nil {
		return 0, s.refusePasskey(r, f, a, at, from, unread)
	}
	key, copied, err := s.verifyPasskey(&set, challenge, said, false)
	switch {
	case err == nil && copied:
		err = cmpErr(s.suspect(ctx, a.id, key, from), errCopied)
	case err == nil && a.person.State != Active:
		err = errMismatch
	}
	if err != nil {
		return 0, s.refusePasskey(r, f, a, at, from, err)
	}
	if device == "" {
		if device, err = s.newID(); err != nil {
			return 0, err
		}
	}
	err = s.admit(w, r, f, shown{
		person: a.id, level: passkeyLevel, amr: passkeyWord, passkey: key.ID, reason: "by passkey", remember: remember, device: device, from: from,
		prove: func(tx storage.Tx, now time.Time) (personRecord, error) {
			rec, err := s.usePasskey(tx, a.id, key, now)
			if err != nil {
				return rec, err
			}
			if err := s.giveBack(tx, at, true, now); err != nil {
				return rec, err
			}
			return rec, devices.Put(tx, storage.Key(a.id, hashed(device)), deviceRecord{Epoch: rec.Epoch, Seen: now}, now.Add(deviceLife))
		},
	})
	if errors.Is(err, errMismatch) {
		err = s.refusePasskey(r, f, a, at, from, err)
	}
	return 0, err
}

// errCopied says that a passkey's counter has gone back.
var errCopied = &passkeyError{errors.New("the counter of the passkey went back")}

// refusePasskey logs why an answer signs nobody in, and writes its events.
func (s *Service) refusePasskey(r *http.Request, f flowRecord, a account, at attempt, from event.Origin, cause error) error {
	if !errors.Is(cause, errMismatch) {
		s.notEvaluated(r.Context(), at)
		return cause
	}
	s.Log.Info("sign-in refused", zap.String("person_id", a.id), zap.String("client_ip", from.ClientIP), zap.NamedError("cause", cause))
	return cmpErr(s.failed(r.Context(), f.Demand.Client.ID, a, at, from), errMismatch)
}

// ownerOf returns whose a credential is and all passkeys of that person, or nobody.
func (s *Service) ownerOf(ctx context.Context, credential []byte) (a account, set passkeySetRecord, err error) {
	err = s.Store.View(ctx, func(tx storage.Tx) error {
		a, set = account{}, passkeySetRecord{}
		id, err := passkeyOwners.Get(tx, credentialKey(credential))
		if errors.Is(err, storage.ErrNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		if a.person, err = persons.Get(tx, id); err != nil {
			return err
		}
		a.id = id
		set, err = readPasskeys(tx, id)
		return err
	})
	return a, set, err
}

// usePasskey writes that a passkey has been used and returns the person, or errMismatch when what was verified holds no more.
func (s *Service) usePasskey(tx storage.Tx, person string, key passkeyRecord, now time.Time) (personRecord, error) {
	rec, err := persons.Get(tx, person)
	if errors.Is(err, storage.ErrNotFound) || (err == nil && rec.State != Active) {
		return rec, errMismatch
	}
	if err != nil {
		return rec, err
	}
	set, err := readPasskeys(tx, person)
	if err != nil {
		return rec, err
	}
	key.Used = now
	if !set.replace(key) {
		return rec, errMismatch
	}
	return rec, putPasskeys(tx, person, set)
}
