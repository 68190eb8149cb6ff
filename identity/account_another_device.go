package identity

import (
	"errors"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/google/uuid"
	"rsc.io/qr"

	"github.com/gatehouse-id/gatehouse/identity/config"
	"github.com/gatehouse-id/gatehouse/internal/page"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

const (
	anotherDevicePath = devicesPath + "/sign-in"
	ownLinksPerPerson = 10 // that a person makes before the first wait
)

// ownLinks tells whether persons make action tokens on a page that sign them in elsewhere.
func ownLinks(f *config.Features) bool {
	return f.LoginEnabled && f.ActionToken.Login.Enabled && f.ActionToken.Login.UIGenerationEnabled
}

// givesLinks tells whether a sign-in may be carried to another device: one at a provider may not, since that says how long it lasts and whom it is for.
func givesLinks(r *sessionRecord, u *config.Units) bool {
	return ownLinks(&u.Features) && (r.Provider == provider || r.Provider == "")
}

// anotherDevicePart leads from the devices to the page that makes a link. It is nil where none is made.
func anotherDevicePart(a *onAccount) []page.Part {
	if !givesLinks(&a.si.session, a.u) {
		return nil
	}
	return []page.Part{{ID: "another", Title: page.Say("device.another"), Text: page.Say("device.another.text"), Links: []page.Action{{Label: "account.another_device.title", URL: anotherDevicePath}}}}
}

// anotherDevice returns who may make a link: to do so is as much as to set up a way to sign in. Otherwise it has written the answer and is not ok.
func (s *Service) anotherDevice(w http.ResponseWriter, r *http.Request) (*onAccount, bool) {
	a, ok := s.guard(w, r, anotherDevicePath)
	if !ok {
		return nil, false
	}
	if !givesLinks(&a.si.session, a.u) {
		s.Pages.Error(w, r, http.StatusNotFound, "error.not_found", "")
		return nil, false
	}
	si, st, ok := s.requireSetUp(w, r, anotherDevicePath)
	if !ok {
		return nil, false
	}
	a.si, a.level = si, max(a.level, st.setUpLevel())
	return a, true
}

// showAnotherDevice serves GET /account/devices/sign-in: it makes nothing.
func (s *Service) showAnotherDevice(w http.ResponseWriter, r *http.Request) {
	if a, ok := s.anotherDevice(w, r); ok {
		s.anotherDevicePage(w, r, a, http.StatusOK, page.Dashboard{})
	}
}

func (s *Service) anotherDevicePage(w http.ResponseWriter, r *http.Request, a *onAccount, status int, d page.Dashboard) {
	d.Key = "another_device"
	form := &page.PartForm{Action: anotherDevicePath, CSRF: a.csrf, Submit: "device.another.make"}
	if len(d.Parts) == 0 {
		d.Parts, d.Cancel = []page.Part{{Form: form}}, devicesPath
	} else {
		form.Submit, form.Quiet = "device.another.again", true
		d.Parts = append(d.Parts, page.Part{Text: page.Say("device.another.again.text"), Form: form})
	}
	s.accountPage(w, r, a, status, d)
}

// handleAnotherDevice serves POST /account/devices/sign-in: it makes a link that signs the person in once, and shows it, the only time.
func (s *Service) handleAnotherDevice(w http.ResponseWriter, r *http.Request) {
	a, ok := s.anotherDevice(w, r)
	if !ok || !s.checkSecurityForm(w, r, a.si, anotherDevicePath, anotherDevicePath) {
		return
	}
	token, life, wait, err := s.makeOwnLink(r, a)
	link := s.cfg.Issuer + ticketPath + "?" + url.Values{linkParam: {token}}.Encode()
	var code *qr.Code
	if err == nil && wait == 0 {
		code, err = qr.Encode(link, qr.M)
	}
	switch {
	case errors.Is(err, errMismatch):
		s.redirect(w, r, anotherDevicePath)
	case err != nil:
		s.fail(w, r, err, anotherDevicePath)
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
// with it. errMismatch: by now the session may not.
func (s *Service) makeOwnLink(r *http.Request, a *onAccount) (token string, life, wait time.Duration, err error) {
	if token, err = secret.NewToken(s.Random, secret.ActionToken); err != nil {
		return "", 0, 0, err
	}
	id, err := uuid.NewRandomFromReader(s.Random)
	if err != nil {
		return "", 0, 0, err
	}
	ev, err := s.newEvents(s.Origin(r), signInLinkMade)
	if err != nil {
		return "", 0, 0, err
	}
	person, now := a.si.session.PersonID, s.Now()
	err = s.Store.Update(r.Context(), func(tx storage.Tx) error {
		if err := s.still(tx, a); err != nil {
			return err
		}
		st, err := s.maySetUp(tx, a.si)
		if err != nil {
			return err
		}
		from, err := s.live(tx, a.si.id, now)
		if err != nil {
			return err
		}
		if !givesLinks(&from, st.units) {
			return errMismatch
		}
		if wait, err = s.tooMany(tx, "own-link", person, ownLinksPerPerson, now); err != nil || wait > 0 {
			return err
		}
		if err := forgetOwnLink(tx, person, now); err != nil {
			return err
		}
		login := st.units.Features.ActionToken.Login
		life = lasting(time.Duration(login.TTL)*time.Second, s.latest(from).Sub(now))
		rec := actionTokenRecord{
			ID: id.String(), PersonID: person, Epoch: from.Epoch, Actions: []Action{{Type: ActionLogin}}, Level: min(login.AuthenticationLevel, from.Level),
			CreatedAt: now, ExpiresAt: now.Add(life), Session: a.si.id,
		}
		if err := putActionToken(tx, secret.Hash(token), rec); err != nil {
			return err
		}
		if err := ownLinkOf.Put(tx, person, rec.ID, rec.ExpiresAt); err != nil {
			return err
		}
		return s.Events.Append(tx, a.si.own(ev[0], ""))
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
		_, err = revokeActionToken(tx, storage.Key(person, id), now)
	}
	if err != nil {
		return err
	}
	return ownLinkOf.Delete(tx, person)
}

// maker returns the session in which the person has made a token on a page, or nil for any other token. When the session is over: ErrNoActionToken.
func (s *Service) maker(tx storage.Tx, id, person string, epoch int64, now time.Time) (*sessionRecord, error) {
	if id == "" {
		return nil, nil //nolint:nilnil // nobody's
	}
	rec, err := s.live(tx, id, now)
	if errors.Is(err, storage.ErrNotFound) || err == nil && (rec.PersonID != person || rec.Epoch != epoch) {
		err = ErrNoActionToken
	}
	return &rec, err
}

// heir returns a session of the same person on another device, no better than this one: it has what this one was raised to only as long as that lasts, is no
// sign-in of its own, and ends no later than this one would.
func (s *Service) heir(from *sessionRecord, level int, now time.Time) sessionRecord {
	begun := from.begun()
	if from.Passkey == "" && slices.Contains(begun.AMR, passkeyWord) { // nobody has kept by which, so it could not go with that
		begun.Level = passwordLevel
	}
	rec := sessionRecord{
		PersonID: from.PersonID, Epoch: from.Epoch, AuthTime: from.AuthTime, Unproven: from.Unproven, Opened: now, Seen: now, NotAfter: s.latest(*from), Provider: provider,
		Passkey: from.Passkey, Base: &baseRecord{Level: min(begun.Level, level), AMR: []string{stepUpWord}},
	}
	for _, x := range from.Raised {
		if x.Level = min(x.Level, level); x.Level > passwordLevel { // also what the sign-in has reached itself: that may fall
			rec.Raised = append(rec.Raised, x)
		}
	}
	rec.settleLevel()
	return rec
}
