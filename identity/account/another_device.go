package account

import (
	"errors"
	"net/http"
	"net/url"
	"time"

	"github.com/google/uuid"
	"rsc.io/qr"

	"github.com/gatehouse-id/gatehouse/identity/actiontoken"
	"github.com/gatehouse-id/gatehouse/identity/front"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/proof"
	"github.com/gatehouse-id/gatehouse/internal/page"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

const (
	anotherDevicePath = front.DevicesPath + "/sign-in"
	ownLinksPerPerson = 10 // that a person makes before the first wait
)

// anotherDevicePart leads from the devices to the page that makes a link. It is nil where none is made.
func anotherDevicePart(a *front.Visit) []page.Part {
	if !actiontoken.GivesLinks(&a.Si.Session, a.U) {
		return nil
	}
	return []page.Part{{ID: "another", Title: page.Say("device.another"), Text: page.Say("device.another.text"), Links: []page.Action{{Label: "account.another_device.title", URL: anotherDevicePath}}}}
}

// anotherDevice returns who may make a link: to do so is as much as to set up a way to sign in. Otherwise it has written the answer and is not ok.
func (s *Service) anotherDevice(w http.ResponseWriter, r *http.Request) (*front.Visit, bool) {
	a, ok := s.front.Guard(w, r, anotherDevicePath)
	if !ok {
		return nil, false
	}
	if !actiontoken.GivesLinks(&a.Si.Session, a.U) {
		s.pages.Error(w, r, http.StatusNotFound, "error.not_found", "")
		return nil, false
	}
	si, st, ok := s.stepup.RequireSetUp(w, r, anotherDevicePath)
	if !ok {
		return nil, false
	}
	a.Si, a.Level = si, max(a.Level, st.SetUpLevel())
	return a, true
}

// showAnotherDevice serves GET /account/devices/sign-in: it makes nothing.
func (s *Service) showAnotherDevice(w http.ResponseWriter, r *http.Request) {
	if a, ok := s.anotherDevice(w, r); ok {
		s.anotherDevicePage(w, r, a, http.StatusOK, page.Dashboard{})
	}
}

func (s *Service) anotherDevicePage(w http.ResponseWriter, r *http.Request, a *front.Visit, status int, d page.Dashboard) {
	d.Key = "another_device"
	form := &page.PartForm{Action: anotherDevicePath, CSRF: a.Csrf, Submit: "device.another.make"}
	if len(d.Parts) == 0 {
		d.Parts, d.Cancel = []page.Part{{Form: form}}, front.DevicesPath
	} else {
		form.Submit, form.Quiet = "device.another.again", true
		d.Parts = append(d.Parts, page.Part{Text: page.Say("device.another.again.text"), Form: form})
	}
	s.front.RenderAccount(w, r, a, status, d)
}

// handleAnotherDevice serves POST /account/devices/sign-in: it makes a link that signs the person in once, and shows it, the only time.
func (s *Service) handleAnotherDevice(w http.ResponseWriter, r *http.Request) {
	a, ok := s.anotherDevice(w, r)
	if !ok || !s.front.CheckSecurityForm(w, r, a.Si, anotherDevicePath, anotherDevicePath) {
		return
	}
	token, life, wait, err := s.makeOwnLink(r, a)
	link := s.issuer + actiontoken.TicketPath + "?" + url.Values{proof.LinkParam: {token}}.Encode()
	var code *qr.Code
	if err == nil && wait == 0 {
		code, err = qr.Encode(link, qr.M)
	}
	switch {
	case errors.Is(err, person.ErrMismatch):
		s.front.Redirect(w, r, anotherDevicePath)
	case err != nil:
		s.front.Fail(w, r, err, anotherDevicePath)
	case wait > 0:
		s.anotherDevicePage(w, r, a, http.StatusTooManyRequests, throttled(w, wait))
	default:
		s.anotherDevicePage(w, r, a, http.StatusOK, page.Dashboard{Parts: []page.Part{{
			Text: page.Say("device.another.scan", "time", life),
			Code: &page.Code{QR: page.NewQR(code.Size, code.Black), Text: page.Say("device.another.link"), Value: link},
		}}})
	}
}

// makeOwnLink makes the token of a link in place of the one that the person has made before. It is worth no more than the session that makes it, and ends
// with it. person.ErrMismatch: by now the session may not.
func (s *Service) makeOwnLink(r *http.Request, a *front.Visit) (token string, life, wait time.Duration, err error) {
	if token, err = secret.NewToken(s.random, secret.ActionToken); err != nil {
		return "", 0, 0, err
	}
	id, err := uuid.NewRandomFromReader(s.random)
	if err != nil {
		return "", 0, 0, err
	}
	ev, err := s.person.NewEvents(s.origin(r), signInLinkMade)
	if err != nil {
		return "", 0, 0, err
	}
	personID, now := a.Si.Session.PersonID, s.now()
	err = s.store.Update(r.Context(), func(tx storage.Tx) error {
		if err := s.still(tx, a); err != nil {
			return err
		}
		st, err := s.stepup.MaySetUp(tx, a.Si)
		if err != nil {
			return err
		}
		from, err := s.session.Live(tx, a.Si.ID, now)
		if err != nil {
			return err
		}
		if !actiontoken.GivesLinks(&from, st.Units) {
			return person.ErrMismatch
		}
		if wait, err = s.proof.CountRequest(tx, "own-link", personID, ownLinksPerPerson, now); err != nil || wait > 0 {
			return err
		}
		if err := forgetOwnLink(tx, personID, now); err != nil {
			return err
		}
		login := st.Units.Features.ActionToken.Login
		life = lasting(time.Duration(login.TTL)*time.Second, s.session.Latest(from).Sub(now))
		rec := actiontoken.Record{
			ID: id.String(), PersonID: personID, Epoch: from.Epoch, Actions: []actiontoken.Action{{Type: actiontoken.ActionLogin}}, Level: min(login.AuthenticationLevel, from.Level),
			CreatedAt: now, ExpiresAt: now.Add(life), Session: a.Si.ID,
		}
		if err := actiontoken.Put(tx, secret.Hash(token), rec); err != nil {
			return err
		}
		if err := ownLinkOf.Put(tx, personID, rec.ID, rec.ExpiresAt); err != nil {
			return err
		}
		return s.events.Append(tx, a.Si.OwnEvent(ev[0], ""))
	})
	return token, life, wait, err
}

// lasting is how long a link is good in a session that goes on for left at the most, in a number that people can read.
func lasting(life, left time.Duration) time.Duration {
	unit := time.Hour
	if left < unit {
		unit = time.Minute
	}
	if left < unit { // what is left of its last minute
		return min(life, left)
	}
	return min(life, left.Truncate(unit))
}

// forgetOwnLink takes away the link that a person has made for another device, if there is one.
func forgetOwnLink(tx storage.Tx, person string, now time.Time) error {
	id, err := ownLinkOf.Get(tx, person)
	if errors.Is(err, storage.ErrNotFound) {
		return nil
	}
	if err == nil {
		_, err = actiontoken.Revoke(tx, storage.Key(person, id), now)
	}
	if err != nil {
		return err
	}
	return ownLinkOf.Delete(tx, person)
}
