package mfa

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/passkey"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/session"
	"github.com/gatehouse-id/gatehouse/identity/webflow"
	"github.com/gatehouse-id/gatehouse/internal/denial"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/internal/web"
	"github.com/gatehouse-id/gatehouse/storage"
)

const (
	// upgradePath is the page between a sign-in with a password and what asked for it, on which a browser makes a passkey
	// without a question. Our script asks for it where the browser can do so.
	upgradePath = "/sign-in/passkey/new"
	upgradeForm = "passkey upgrade"

	passkeyAutomatic = "automatic" // reason of an event
)

// Upgrade is the page that follows a sign-in with a password, with which the person gets a passkey. It is "" where they
// had one before, so no one gets back what they have removed.
func (s *Service) Upgrade(ctx context.Context, flow, personID string) (page string, err error) {
	if !s.Passkeys.Upgrades() {
		return "", nil
	}
	err = s.deps.Store.View(ctx, func(tx storage.Tx) error {
		set, err := passkey.Read(tx, personID)
		if page = ""; err == nil && set.Made == 0 {
			page = upgradeURL(flow)
		}
		return err
	})
	return page, err
}

func upgradeURL(flow string) string { return upgradePath + "?" + url.Values{"flow": {flow}}.Encode() }

// upgrade is a request of that page.
type upgrade struct {
	id      string // of the flow
	flow    webflow.FlowRecord
	set     passkey.Set
	waiting passkey.Challenge
	// ok says that the person may get a passkey. Otherwise the sign-in goes on.
	ok bool
}

func (s *Service) readUpgrade(q *webflow.Request) (x upgrade, err error) {
	if x.id, x.flow, err = s.deps.Front.FlowIn(q); err != nil {
		return x, err
	}
	q.Again = webflow.FlowURL(x.id)
	if q.SignIn == nil || q.SignIn.Session.Provider != session.LocalProvider {
		return x, nil
	}
	err = s.deps.Store.View(q.Context(), func(tx storage.Tx) error {
		st, err := s.StandingIn(tx, q.SignIn, q.Settings)
		if err != nil {
			return err
		}
		if x.set, err = passkey.Read(tx, q.SignIn.Session.PersonID); err != nil {
			return err
		}
		x.ok = s.Passkeys.Upgrades() && x.set.Made == 0 && q.SignIn.Session.Level >= st.SetUpLevel()
		x.waiting, err = passkey.ReadChallenge(tx, passkey.ChallengeAdd, q.SignIn.ID)
		return err
	})
	return x, err
}

// showUpgrade serves GET /sign-in/passkey/new?flow=….
func (s *Service) showUpgrade(q *webflow.Request) error {
	x, err := s.readUpgrade(q)
	if err != nil {
		return err
	}
	if !x.ok {
		return s.deps.Front.Finish(q, x.id, x.flow)
	}
	challenge, err := s.Passkeys.EnsureChallenge(q.Context(), passkey.ChallengeAdd, q.SignIn.ID, x.waiting)
	if err == nil && len(x.set.Handle) == 0 {
		x.set, err = s.addHandle(q)
	}
	if err != nil {
		return err
	}
	csrf, err := s.deps.Front.FormToken(q, webflow.SessionForm(upgradeForm, q.SignIn))
	if err != nil {
		return err
	}
	s.deps.Pages.Render(q.W, q.Request, s.deps.Front.View(x.flow.Demand, "passkey_upgrade", http.StatusOK, web.PasskeyUpgrade{
		Action: upgradeURL(x.id), CSRF: csrf,
		Options: s.Passkeys.UpgradeOptions(q.SignIn.Person.Username, q.SignIn.Person.Name, challenge, &x.set),
	}))
	return nil
}

// handleUpgrade serves POST /sign-in/passkey/new?flow=…: the answer of the browser, empty when it made no passkey. The
// sign-in goes on in any case.
func (s *Service) handleUpgrade(q *webflow.Request) error {
	x, err := s.readUpgrade(q)
	if err != nil {
		return err
	}
	if !x.ok {
		return s.deps.Front.Finish(q, x.id, x.flow)
	}
	if err := s.deps.Front.CheckForm(q, webflow.SessionForm(upgradeForm, q.SignIn), q.Again); err != nil {
		return err
	}
	challenge, err := s.Passkeys.SpendChallenge(q.Context(), passkey.ChallengeAdd, q.SignIn.ID)
	if err != nil {
		return err
	}
	answer := q.PostForm.Get("credential")
	if challenge != nil && answer != "" {
		switch err := s.upgrade(q, &x.set, challenge, answer); {
		case errors.Is(err, person.ErrMismatch), errors.Is(err, errKnownPasskey):
			s.deps.Front.Refuse(q, denial.Refusal{Reason: denial.PasskeyRefused}, err)
		case err != nil:
			return err
		}
	}
	return s.deps.Front.Finish(q, x.id, x.flow)
}

// upgrade stores the passkey that the browser has made. The session stays at its level: no one has used the passkey.
func (s *Service) upgrade(q *webflow.Request, set *passkey.Set, challenge []byte, answer string) error {
	key, err := s.Passkeys.Attest(set, challenge, answer, true)
	if err != nil {
		return err
	}
	if key.ID, err = secret.ID(s.deps.Random, 16); err != nil {
		return err
	}
	ev, err := s.deps.Person.NewEvents(s.deps.Origin(q.Request), passkeyAdded)
	if err != nil {
		return err
	}
	now := s.deps.Now()
	key.Since, key.Vouched = now.Truncate(time.Second), q.SignIn.Session.Vouched
	return s.deps.Store.Update(q.Context(), func(tx storage.Tx) error {
		if _, err := s.CheckSetUp(tx, q.SignIn, now); err != nil {
			return err
		}
		set, err := s.putPasskey(tx, q, key, ev[0], now)
		if err == nil && set.Made > 1 { // another tab was faster
			err = person.ErrMismatch
		}
		return err
	})
}
