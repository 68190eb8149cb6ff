package activation

import (
	"errors"
	"net/http"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/challenge"
	"github.com/gatehouse-id/gatehouse/identity/notify"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/identity/webflow"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/web"
	"github.com/gatehouse-id/gatehouse/storage"
)

const (
	linkActivation challenge.LinkKind = "activation"

	activationPath     = "/activate"
	activationDonePath = activationPath + "/done"
)

// greet welcomes a new person, or sends the link that activates the account.
func (s *Service) greet(tx storage.Tx, t person.Recipient, how person.Welcome, now time.Time) error {
	t.Stranger = how == person.ReasonWeb && !t.Profile.PrimaryEmail().Verified
	if !t.Record.AwaitsNow() {
		if err := s.deps.Person.Notify(tx, t, notify.Welcome, how.Enabled, now); err != nil {
			return err
		}
		return s.sendVerification(tx, t, how, now)
	}
	u, err := s.deps.Units(tx)
	if err != nil || !person.ActivatesByEmail(u) || s.deps.Notify == nil {
		return err
	}
	return s.sendActivation(tx, t, "", u, now)
}

// sendActivation sends the link that activates a person, in place of the previous one. flow is the sign-in that asked
// for it, "" for none.
func (s *Service) sendActivation(tx storage.Tx, t person.Recipient, flow string, u *settings.Units, now time.Time) error {
	t.Stranger = t.Record.Awaits == person.ReasonWeb
	n := t.Notice(notify.Activation, now)
	if n.To == "" {
		return nil
	}
	var err error
	data := map[string]string{challenge.LinkTo: n.To, webflow.LinkFlow: flow}
	life := time.Duration(u.Features.PersonActivation.ExpirationTime) * time.Second
	if n.Link, err = s.deps.Proof.NewLink(tx, linkActivation, t.ID, data, life, now); err != nil {
		return err
	}
	return s.deps.Notify.Send(tx, n)
}

// activateReader makes a person active who has proved to read the address, and marks the address as verified.
// challenge.ErrNoLink: the person does not wait for activation.
func (s *Service) activateReader(
	tx storage.Tx, id, address string, done audit.Event, now time.Time,
) (person.Record, error) {
	rec, err := person.Records.Get(tx, id)
	if errors.Is(err, storage.ErrNotFound) || err == nil && !rec.AwaitsNow() {
		return rec, challenge.ErrNoLink
	}
	if err != nil {
		return rec, err
	}
	prof, err := person.ReadProfile(tx, id, &rec)
	if err != nil {
		return rec, err
	}
	prof.VerifyEmail(address)
	rec.Take(&prof)
	if err := person.Profiles.Put(tx, id, prof, time.Time{}); err != nil {
		return rec, err
	}
	done.Actor, done.AgentUser = id, rec.Username
	return s.deps.Person.Activate(tx, id, rec, done, now)
}

// openActivation reads the link of the request and the sign-in that it was sent for.
func (s *Service) openActivation(q *webflow.Request) (a webflow.Detour, o *challenge.OpenLink, err error) {
	now := s.deps.Now()
	a.U = q.Settings
	o, err = s.deps.Front.LinkIn(q, linkActivation, "/sign-in", func(tx storage.Tx, o *challenge.OpenLink) (err error) {
		a.ID, a.Flow, err = s.deps.Front.SignInIn(tx, q, o.Record.Data[webflow.LinkFlow], now)
		return err
	})
	if err == nil {
		q.Again = activationPath
	}
	return a, o, err
}

// showActivation serves GET /activate: it asks, and changes nothing.
func (s *Service) showActivation(q *webflow.Request) error {
	a, o, err := s.openActivation(q)
	if err != nil {
		return err
	}
	return s.deps.Front.RenderForm(q, a.WithTarget(afterActivation(a.U)), o.Form(), http.StatusOK, web.Form{
		Key: "activate_link", Fill: []any{"to", o.Record.Data[challenge.LinkTo]}, Action: activationPath,
	})
}

// handleActivation serves POST /activate: the person becomes active, and the link is used up.
func (s *Service) handleActivation(q *webflow.Request) error {
	a, o, err := s.openActivation(q)
	if err == nil {
		err = s.deps.Front.CheckLink(q, o)
	}
	if err != nil {
		return err
	}
	if err := s.activateByLink(q, o); err != nil {
		return s.deps.Front.LinkError(q, linkActivation, "/sign-in", err)
	}
	s.deps.Jar.Clear(q.W, challenge.LinkCookieOf(linkActivation))
	if to := afterActivation(a.U); to != "" && a.IsPlainSignIn() {
		return q.LeaveTo(to)
	}
	return q.Redirect(webflow.WithSignIn(activationDonePath, a.ID))
}

func (s *Service) activateByLink(q *webflow.Request, o *challenge.OpenLink) error {
	ev, err := s.deps.Person.NewEvents(s.deps.Origin(q.Request), person.EventActivated)
	if err != nil {
		return err
	}
	now := s.deps.Now()
	return s.deps.Store.Update(q.Context(), func(tx storage.Tx) error {
		link, err := s.deps.Proof.SpendLink(tx, linkActivation, o.Token, now)
		if err != nil {
			return err
		}
		done := audit.Actor{}.Fill(ev[0], link.PersonID, "by a link")
		_, err = s.activateReader(tx, link.PersonID, link.Data[challenge.LinkTo], done, now)
		return err
	})
}

// showActivationDone serves GET /activate/done?flow=…: the way to sign in.
func (s *Service) showActivationDone(q *webflow.Request) error {
	a, err := s.deps.Front.DetourOf(q, activationDonePath, webflow.Always)
	if err != nil {
		return err
	}
	return s.deps.Front.RenderForm(q, a, "", http.StatusOK, web.Form{Key: "activate_done", Next: webflow.SignInURL(a.ID)})
}
