package mfa

import (
	"errors"
	"io"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/mfa/codes"
	"github.com/gatehouse-id/gatehouse/identity/notify"
	"github.com/gatehouse-id/gatehouse/identity/passkey"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/session"
	"github.com/gatehouse-id/gatehouse/identity/webflow"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/denial"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/internal/web"
	"github.com/gatehouse-id/gatehouse/storage"
)

const passkeyForm = "passkey"

// passkeySetUp is a request of a page about passkeys.
type passkeySetUp struct {
	setUp
	set     passkey.Set
	waiting passkey.Challenge // for a passkey to add
}

// readPasskeySetUp reads what the pages about passkeys share.
func (s *Service) readPasskeySetUp(q *webflow.Request, path string) (x passkeySetUp, err error) {
	if !s.HasPasskeys() {
		return x, webflow.NotFound()
	}
	x.setUp, err = s.readSetUp(q, path, func(tx storage.Tx) (err error) {
		if x.set, err = passkey.Read(tx, q.SignIn.Session.PersonID); err != nil {
			return err
		}
		x.waiting, err = passkey.ReadChallenge(tx, passkey.ChallengeAdd, q.SignIn.ID)
		return err
	})
	return x, err
}

// showAddPasskey serves GET /account/security/passkeys/add.
func (s *Service) showAddPasskey(q *webflow.Request) error {
	x, err := s.readPasskeySetUp(q, passkeyMethod.setUp)
	if err != nil {
		return err
	}
	return s.addPasskeyPage(q, x, http.StatusOK, "")
}

func (s *Service) addPasskeyPage(q *webflow.Request, x passkeySetUp, status int, problem string) error {
	in := web.PasskeyAdd{Cancel: x.next, Problem: problem}
	v := web.View{Template: "passkey_add", Status: status, Locales: q.SignIn.Locales()}
	if len(x.set.Keys) >= passkey.Most {
		in.Full = passkey.Most
		v.Data = in
		s.deps.Pages.Render(q.W, q.Request, v)
		return nil
	}
	challenge, err := s.Passkeys.EnsureChallenge(q.Context(), passkey.ChallengeAdd, q.SignIn.ID, x.waiting)
	if err == nil && len(x.set.Handle) == 0 {
		x.set, err = s.addHandle(q)
	}
	if err != nil {
		return err
	}
	csrf, err := s.deps.Front.FormToken(q, webflow.SessionForm(passkeyForm, q.SignIn))
	if err != nil {
		return err
	}
	in.Passkey = &web.Passkey{
		Action: x.self, Again: x.self, CSRF: csrf,
		Options: s.Passkeys.MakeOptions(q.SignIn.Person.Username, q.SignIn.Person.Name, challenge, &x.set), Create: true,
		Label: "security.passkey.add",
		Life:  passkey.ChallengeSeconds,
	}
	v.Client, v.Data = x.client, in
	s.deps.Pages.Render(q.W, q.Request, v)
	return nil
}

// addHandle gives a person's passkeys their handle.
func (s *Service) addHandle(q *webflow.Request) (set passkey.Set, err error) {
	fresh := make([]byte, passkey.HandleBytes)
	if _, err := io.ReadFull(s.deps.Random, fresh); err != nil {
		return set, err
	}
	err = s.deps.Store.Update(q.Context(), func(tx storage.Tx) (err error) {
		if set, err = passkey.Read(tx, q.SignIn.Session.PersonID); err != nil || len(set.Handle) > 0 { // another tab was faster
			return err
		}
		set.Handle = fresh
		return passkey.Put(tx, q.SignIn.Session.PersonID, set)
	})
	return set, err
}

// handleAddPasskey serves POST /account/security/passkeys/add.
func (s *Service) handleAddPasskey(q *webflow.Request) error {
	x, err := s.readPasskeySetUp(q, passkeyMethod.setUp)
	if err == nil {
		err = s.deps.Front.CheckForm(q, webflow.SessionForm(passkeyForm, q.SignIn), x.self)
	}
	if err != nil {
		return err
	}
	challenge, err := s.Passkeys.SpendChallenge(q.Context(), passkey.ChallengeAdd, q.SignIn.ID)
	if err != nil {
		return err
	}
	x.waiting = passkey.Challenge{} // spent
	if challenge == nil {
		return s.addPasskeyPage(q, x, http.StatusUnprocessableEntity, "problem.passkey_late")
	}
	var fresh []string
	key, err := s.Passkeys.Attest(&x.set, challenge, q.PostForm.Get("credential"), false)
	if err == nil {
		key, fresh, err = s.addPasskey(q, key)
	}
	switch {
	case errors.Is(err, errKnownPasskey):
		return s.addPasskeyPage(q, x, http.StatusUnprocessableEntity, "problem.passkey_known")
	case errors.Is(err, person.ErrMismatch):
		s.deps.Front.Refuse(q, denial.Refusal{Reason: denial.PasskeyRefused}, err)
		return s.addPasskeyPage(q, x, http.StatusUnprocessableEntity, "problem.passkey_failed")
	case err != nil:
		return err
	}
	next := x.next
	if next == webflow.SecurityPath { // otherwise the step-up goes on
		next = passkeyNamePath + "?" + url.Values{"id": {key.ID}}.Encode()
	}
	if len(fresh) == 0 {
		return q.Redirect(next)
	}
	return s.recoveryPage(q, web.Recovery{Codes: fresh, Added: passkeyMethod.Name, Next: next})
}

// addPasskey stores a passkey that was verified, and raises the session to its level. With the first one it returns
// recovery codes, unless the person has some.
func (s *Service) addPasskey(q *webflow.Request, key passkey.Passkey) (_ passkey.Passkey, fresh []string, err error) {
	personID := q.SignIn.Session.PersonID
	if key.ID, err = secret.ID(s.deps.Random, 16); err != nil {
		return key, nil, err
	}
	fresh, hashes, err := codes.NewRecovery(s.deps.Random, personID)
	if err != nil {
		return key, nil, err
	}
	ev, err := s.deps.Person.NewEvents(s.deps.Origin(q.Request), passkeyAdded, recoveryMade)
	if err != nil {
		return key, nil, err
	}
	now, made := s.deps.Now(), false
	key.Since, key.Vouched = now.Truncate(time.Second), q.SignIn.Session.Vouched
	err = s.raise(q, gain{method: &passkeyMethod, passkey: key.ID, setUp: true, spend: func(tx storage.Tx, own *Record) (bool, error) {
		made = false
		st, err := s.CheckSetUp(tx, q.SignIn, now)
		if err != nil {
			return false, err
		}
		set, err := s.putPasskey(tx, q, key, ev[0], now)
		if made = err == nil && len(set.Keys) == 1 && len(own.Recovery) == 0 &&
			recoveryMethod.Level(st.Units) <= session.PasskeyLevel; err != nil || !made {
			return true, err
		}
		own.Recovery = hashes
		return true, s.deps.Events.Append(tx, q.SignIn.OwnEvent(ev[1], ""))
	}})
	if !made {
		fresh = nil
	}
	return key, fresh, err
}

// putPasskey stores a passkey that was verified, with its event and its message. person.ErrMismatch: the person can
// have no more.
func (s *Service) putPasskey(tx storage.Tx, q *webflow.Request, key passkey.Passkey, ev audit.Event,
	now time.Time,
) (set passkey.Set, err error) {
	personID := q.SignIn.Session.PersonID
	if set, err = passkey.Read(tx, personID); err != nil {
		return set, err
	}
	if len(set.Keys) >= passkey.Most || len(set.Handle) == 0 {
		return set, person.ErrMismatch
	}
	// Web Authentication Level 3 7.1, step 26: a credential id must not be registered twice.
	err = passkey.Own(tx, key.Credential, personID)
	if errors.Is(err, storage.ErrExists) {
		return set, errKnownPasskey
	}
	if err != nil {
		return set, err
	}
	set.Made++
	key.Number = set.Made
	set.Keys = append(slices.Clone(set.Keys), key)
	if err := passkey.Put(tx, personID, set); err != nil {
		return set, err
	}
	if err := s.notifyMethod(tx, personID, &q.SignIn.Person, notify.PasskeyAdded, session.MethodPasskey, now); err != nil {
		return set, err
	}
	reason := ""
	if key.Automatic {
		reason = passkeyAutomatic
	}
	return set, s.deps.Events.Append(tx, q.SignIn.OwnEvent(ev, reason))
}

// notifyMethod tells a person what has happened to one of their sign-in methods. No setting switches the message off:
// it is sent wherever e-mails are.
func (s *Service) notifyMethod(tx storage.Tx, personID string, rec *person.Record, kind notify.Kind, method string, now time.Time) error {
	if s.deps.Notify == nil {
		return nil
	}
	prof, err := person.ReadProfile(tx, personID, rec)
	if err != nil {
		return err
	}
	n := person.Recipient{ID: personID, Record: rec, Profile: &prof.Profile}.Notice(kind, now)
	n.Link, n.Data["method"] = webflow.SecurityPath, method
	return s.deps.Person.SendNotice(tx, n)
}
