package account

import (
	"errors"
	"net/http"
	"net/url"
	"time"

	"github.com/google/uuid"
	"rsc.io/qr"

	"github.com/gatehouse-id/gatehouse/identity/actiontoken"
	"github.com/gatehouse-id/gatehouse/identity/challenge"
	"github.com/gatehouse-id/gatehouse/identity/mfa"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/webflow"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/internal/web"
	"github.com/gatehouse-id/gatehouse/storage"
)

const (
	anotherDevicePath = webflow.DevicesPath + "/sign-in"
	ownLinksPerPerson = 10 // that a person makes before the first wait
)

// anotherDevicePart leads from the devices to the page that makes a link. It is nil if this sign-in cannot be carried
// over.
func anotherDevicePart(a *webflow.Visit) []web.Part {
	if !actiontoken.GivesLinks(&a.SignIn.Session, a.Settings) {
		return nil
	}
	return []web.Part{{
		ID: "another", Title: web.Say("device.another"), Text: web.Say("device.another.text"),
		Links: []web.Action{{Label: "account.another_device.title", URL: anotherDevicePath}},
	}}
}

// visitAnotherDevice admits a person who can make a link. A link is a way to sign in, so it needs the level of setting
// up a method.
func (s *Service) visitAnotherDevice(q *webflow.Request, admit guard) (*webflow.Visit, error) {
	if q.SignIn != nil && !actiontoken.GivesLinks(&q.SignIn.Session, q.Settings) {
		if _, err := s.deps.Front.VisitOf(q, anotherDevicePath); err != nil {
			return nil, err
		}
		return nil, webflow.NotFound()
	}
	return s.visit(q, admit, anotherDevicePath, func(_ storage.Tx, st *mfa.Standing) (int, error) { return st.SetUpLevel(), nil })
}

// showAnotherDevice serves GET /account/devices/sign-in, which makes nothing yet.
func (s *Service) showAnotherDevice(q *webflow.Request) error {
	a, err := s.visitAnotherDevice(q, s.deps.Front.VisitOf)
	if err != nil {
		return err
	}
	return s.renderAnotherDevice(a, http.StatusOK, web.Dashboard{})
}

func (s *Service) renderAnotherDevice(a *webflow.Visit, status int, d web.Dashboard) error {
	d.Key = "another_device"
	form := &web.PartForm{Action: anotherDevicePath, CSRF: a.CSRF, Submit: "device.another.make"}
	if len(d.Parts) == 0 {
		d.Parts, d.Cancel = []web.Part{{Form: form}}, webflow.DevicesPath
	} else {
		form.Submit, form.Quiet = "device.another.again", true
		d.Parts = append(d.Parts, web.Part{Text: web.Say("device.another.again.text"), Form: form})
	}
	return s.render(a, status, d)
}

// handleAnotherDevice serves POST /account/devices/sign-in: it makes a link that signs the person in once. Only this
// answer shows the link.
func (s *Service) handleAnotherDevice(q *webflow.Request) error {
	a, err := s.visitAnotherDevice(q, s.deps.Front.VisitPost)
	if err != nil {
		return err
	}
	token, life, wait, err := s.makeOwnLink(a)
	switch {
	case errors.Is(err, person.ErrMismatch):
		return q.Redirect(anotherDevicePath)
	case err != nil:
		return err
	case wait > 0:
		return s.renderAnotherDevice(a, http.StatusTooManyRequests, throttle(a, wait))
	}
	link := s.deps.Issuer + actiontoken.TicketPath + "?" + url.Values{challenge.LinkParam: {token}}.Encode()
	code, err := qr.Encode(link, qr.M)
	if err != nil {
		return err
	}
	return s.renderAnotherDevice(a, http.StatusOK, web.Dashboard{Parts: []web.Part{{
		Text: web.Say("device.another.scan", "time", life),
		Code: &web.Code{QR: web.NewQR(code.Size, code.Black), Text: web.Say("device.another.link"), Value: link},
	}}})
}

// makeOwnLink makes the token of a link, in place of the person's last one. It gives no more than the session that
// makes it, and ends with that session. person.ErrMismatch: by now the session is not allowed to.
func (s *Service) makeOwnLink(a *webflow.Visit) (token string, life, wait time.Duration, err error) {
	if token, err = secret.NewToken(s.deps.Random, secret.ActionToken); err != nil {
		return "", 0, 0, err
	}
	id, err := uuid.NewRandomFromReader(s.deps.Random)
	if err != nil {
		return "", 0, 0, err
	}
	ev, err := s.deps.Person.NewEvents(s.originOf(a), signInLinkMade)
	if err != nil {
		return "", 0, 0, err
	}
	personID, now := a.SignIn.Session.PersonID, s.deps.Now()
	err = s.deps.Store.Update(a.Context(), func(tx storage.Tx) error {
		if err := s.recheck(tx, a, now); err != nil {
			return err
		}
		st, err := s.deps.StepUp.CheckSetUp(tx, a.SignIn, now)
		if err != nil {
			return err
		}
		from, err := s.deps.Session.Live(tx, a.SignIn.ID, now)
		if err != nil {
			return err
		}
		if !actiontoken.GivesLinks(&from, st.Units) {
			return person.ErrMismatch
		}
		if wait, err = s.deps.Proof.CountRequest(tx, "own-link", personID, ownLinksPerPerson, now); err != nil || wait > 0 {
			return err
		}
		if err := revokeOwnLink(tx, personID, now); err != nil {
			return err
		}
		login := st.Units.Features.ActionToken.Login
		life = linkLife(time.Duration(login.TTL)*time.Second, s.deps.Session.Latest(from).Sub(now))
		rec := actiontoken.Record{
			ID: id.String(), PersonID: personID, Epoch: from.Epoch, Actions: []actiontoken.Action{{Type: actiontoken.ActionLogin}},
			Level: min(login.AuthenticationLevel, from.Level), CreatedAt: now, ExpiresAt: now.Add(life), Session: a.SignIn.ID,
		}
		if err := actiontoken.Put(tx, secret.Hash(token), rec); err != nil {
			return err
		}
		if err := ownLinkOf.Put(tx, personID, rec.ID, rec.ExpiresAt); err != nil {
			return err
		}
		return s.deps.Events.Append(tx, a.SignIn.OwnEvent(ev[0], ""))
	})
	return token, life, wait, err
}

// linkLife returns the validity of a link in a session that has at most left to go, rounded down to a number that
// people can read.
func linkLife(life, left time.Duration) time.Duration {
	unit := time.Hour
	if left < unit {
		unit = time.Minute
	}
	if left < unit { // the last minute of the session
		return min(life, left)
	}
	return min(life, left.Truncate(unit))
}

// revokeOwnLink revokes the link that a person has made for another device, if there is one.
func revokeOwnLink(tx storage.Tx, person string, now time.Time) error {
	id, ok, err := ownLinkOf.Find(tx, person)
	if err != nil || !ok {
		return err
	}
	if _, err := actiontoken.RevokeIn(tx, storage.Key(person, id), now); err != nil {
		return err
	}
	return ownLinkOf.Delete(tx, person)
}
