package enrol

import (
	"errors"
	"net/http"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/config"
	"github.com/gatehouse-id/gatehouse/identity/front"
	"github.com/gatehouse-id/gatehouse/identity/notify"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/proof"
	"github.com/gatehouse-id/gatehouse/internal/event"
	"github.com/gatehouse-id/gatehouse/internal/page"
	"github.com/gatehouse-id/gatehouse/storage"
)

const (
	linkActivation proof.LinkKind = "activation"

	activationPath     = "/activate"
	activationDonePath = activationPath + "/done"
)

// greet welcomes a new person, or sends the link that activates the account.
func (s *Service) greet(tx storage.Tx, t person.Recipient, how person.Welcome, now time.Time) error {
	t.Stranger = how == person.ReasonWeb && !t.Profile.PrimaryEmail().Verified
	if !t.Record.AwaitsNow() {
		if err := s.person.Notify(tx, t, notify.Welcome, how.Enabled, now); err != nil {
			return err
		}
		return s.sendVerification(tx, t, how, now)
	}
	u, err := s.units(tx)
	if err != nil || !person.ActivatesByEmail(u) || s.notify == nil {
		return err
	}
	return s.sendActivation(tx, t, "", u, now)
}

// sendActivation sends the link that activates a person, in place of the previous one. flow is the sign-in that asked
// for it, "" for none.
func (s *Service) sendActivation(tx storage.Tx, t person.Recipient, flow string, u *config.Units, now time.Time) error {
	t.Stranger = t.Record.Awaits == person.ReasonWeb
	n := t.Notice(notify.Activation, now)
	if n.To == "" {
		return nil
	}
	var err error
	data, life := map[string]string{proof.LinkTo: n.To, front.LinkFlow: flow}, seconds(u.Features.PersonActivation.ExpirationTime)
	if n.Link, err = s.proof.NewLink(tx, linkActivation, t.ID, data, life, now); err != nil {
		return err
	}
	return s.notify.Send(tx, n)
}

// activateReader makes a person active who has proved to read the address, and marks the address as verified.
// proof.ErrNoLink: the person does not wait for activation.
func (s *Service) activateReader(
	tx storage.Tx, id, address string, done event.Event, now time.Time,
) (person.Record, error) {
	rec, err := person.Records.Get(tx, id)
	if errors.Is(err, storage.ErrNotFound) || err == nil && !rec.AwaitsNow() {
		return rec, proof.ErrNoLink
	}
	if err != nil {
		return rec, err
	}
	prof, err := person.ReadProfile(tx, id, &rec)
	if err != nil {
		return rec, err
	}
	verifyEmail(&prof, address)
	rec.Take(&prof)
	if err := person.Profiles.Put(tx, id, prof, time.Time{}); err != nil {
		return rec, err
	}
	done.Actor, done.AgentUser = id, rec.Username
	return s.person.Activate(tx, id, rec, done, now)
}

// openActivation reads the link of the request and the sign-in that it was sent for.
func (s *Service) openActivation(q *front.Request) (a front.Detour, o *proof.OpenLink, err error) {
	now := s.now()
	a.U = q.Settings
	o, err = s.front.LinkIn(q, linkActivation, "/sign-in", func(tx storage.Tx, o *proof.OpenLink) (err error) {
		a.ID, a.Flow, err = s.front.SignInIn(tx, q, o.Record.Data[front.LinkFlow], now)
		return err
	})
	if err == nil {
		q.Again = activationPath
	}
	return a, o, err
}

// showActivation serves GET /activate: it asks, and changes nothing.
func (s *Service) showActivation(q *front.Request) error {
	a, o, err := s.openActivation(q)
	if err != nil {
		return err
	}
	return s.front.RenderForm(q, withTargets(a, afterActivation(a.U)), o.Form(), http.StatusOK, page.Form{
		Key: "activate_link", Fill: []any{"to", o.Record.Data[proof.LinkTo]}, Action: activationPath,
	})
}

// handleActivation serves POST /activate: the person becomes active, and the link is used up.
func (s *Service) handleActivation(q *front.Request) error {
	a, o, err := s.openActivation(q)
	if err == nil {
		err = s.front.CheckLink(q, o)
	}
	if err != nil {
		return err
	}
	if err := s.activateByLink(q, o); err != nil {
		return s.front.LinkError(q, linkActivation, "/sign-in", err)
	}
	s.jar.Clear(q.W, proof.LinkCookieOf(linkActivation))
	if to := afterActivation(a.U); to != "" && isPlainSignIn(a) {
		return q.LeaveTo(to)
	}
	return q.Redirect(front.WithSignIn(activationDonePath, a.ID))
}

func (s *Service) activateByLink(q *front.Request, o *proof.OpenLink) error {
	ev, err := s.person.NewEvents(s.origin(q.Request), person.EventActivated)
	if err != nil {
		return err
	}
	now := s.now()
	return s.store.Update(q.Context(), func(tx storage.Tx) error {
		link, err := s.proof.SpendLink(tx, linkActivation, o.Token, now)
		if err != nil {
			return err
		}
		done := event.Actor{}.Fill(ev[0], link.PersonID, "by a link")
		_, err = s.activateReader(tx, link.PersonID, link.Data[proof.LinkTo], done, now)
		return err
	})
}

// showActivationDone serves GET /activate/done?flow=…: the way to sign in.
func (s *Service) showActivationDone(q *front.Request) error {
	a, err := s.detour(q, activationDonePath, always)
	if err != nil {
		return err
	}
	return s.front.RenderForm(q, a, "", http.StatusOK, page.Form{Key: "activate_done", Next: signInURL(a.ID)})
}
