package mfa

import (
	"bytes"
	"crypto/subtle"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"rsc.io/qr"

	"github.com/gatehouse-id/gatehouse/identity/challenge"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/session"
	"github.com/gatehouse-id/gatehouse/identity/webflow"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/internal/web"
	"github.com/gatehouse-id/gatehouse/storage"
)

const pushForm = "push"

// phoneSetUp is a request of the page that sets up a phone: on the screen next to the phone.
type phoneSetUp struct {
	setUp
	token string // of the link for the phone
	rec   pushEnrolRecord
}

func pushEnrolPurpose(sessionID string) string { return "set-up of a phone " + sessionID }

// readPhoneSetUp reads what the two handlers of the page share, and begins a set-up where none is under way.
func (s *Service) readPhoneSetUp(q *webflow.Request) (x phoneSetUp, err error) {
	var stored pushEnrolRecord
	x.setUp, err = s.readSetUp(q, pushMethod.setUp, func(tx storage.Tx) (err error) {
		stored, _, err = pushEnrols.Find(tx, q.SignIn.ID)
		return err
	})
	switch {
	case err != nil:
	case s.deps.Push == nil:
		err = webflow.NotFound()
	case len(x.standing.Own.Devices) >= maxPhones:
		err = redirectInstead(q, x.next)
	default:
		x.token, x.rec, err = s.pendingPhone(q, stored)
	}
	return x, err
}

// waiting reports whether a set-up can go on.
func (e *pushEnrolRecord) waiting(now time.Time) bool {
	return e.ExpiresAt.After(now) && e.Tries < pushEnrolTries
}

// pendingPhone returns the set-up of the session and the token of its link: the stored one when the page is loaded
// again, otherwise a new one.
func (s *Service) pendingPhone(q *webflow.Request, stored pushEnrolRecord) (token string, rec pushEnrolRecord, err error) {
	now, purpose := s.deps.Now(), pushEnrolPurpose(q.SignIn.ID)
	if stored.waiting(now) {
		if open, err := s.deps.Keyring.Open(purpose, stored.Sealed); err == nil {
			return string(open), stored, nil
		}
		// The key that sealed it is gone.
	}
	if token, err = secret.NewToken(s.deps.Random, secret.MailLink); err != nil {
		return "", rec, err
	}
	number, err := newPushNumber(s.deps.Random)
	if err != nil {
		return "", rec, err
	}
	sealed, err := s.deps.Keyring.Seal(purpose, []byte(token))
	if err != nil {
		return "", rec, err
	}
	fresh := pushEnrolRecord{
		PersonID: q.SignIn.Session.PersonID, Sealed: sealed, Token: secret.Hash(token), Number: number, ExpiresAt: now.Add(pushEnrolLife),
	}
	err = s.deps.Store.Update(q.Context(), func(tx storage.Tx) error {
		rec = fresh
		id := q.SignIn.ID
		last, _, err := pushEnrols.Find(tx, id)
		if err != nil {
			return err
		}
		if last.waiting(now) && !bytes.Equal(last.Sealed, stored.Sealed) { // another tab was faster
			rec = last
			return nil
		}
		until := fresh.ExpiresAt.Add(session.CollectAfter)
		if err := pushEnrolKeys.Put(tx, fresh.Token, id, until); err != nil {
			return err
		}
		return pushEnrols.Put(tx, id, fresh, until)
	})
	if err != nil || rec.Token == fresh.Token {
		return token, rec, err
	}
	open, err := s.deps.Keyring.Open(purpose, rec.Sealed)
	return string(open), rec, err
}

// showPush serves GET /account/security/push: a link for the phone, then a field for the number that the phone shows.
func (s *Service) showPush(q *webflow.Request) error {
	x, err := s.readPhoneSetUp(q)
	if err != nil {
		return err
	}
	return s.phoneSetUpPage(q, x, http.StatusOK, "")
}

func (s *Service) phoneSetUpPage(q *webflow.Request, x phoneSetUp, status int, problem string) (err error) {
	in := web.Push{Key: "add", Cancel: x.next, Problem: problem}
	if x.rec.Cookie == "" {
		in.Link, in.Refresh = s.deps.Issuer+pushEnrolPath+"?"+url.Values{challenge.LinkParam: {x.token}}.Encode(), problem == ""
		code, err := qr.Encode(in.Link, qr.M)
		if err != nil {
			return err
		}
		drawn := web.NewQR(code.Size, code.Black)
		in.QR = &drawn
	} else {
		if in.CSRF, err = s.deps.Front.FormToken(q, webflow.SessionForm(pushForm, q.SignIn)); err != nil {
			return err
		}
		in.Key, in.Action, in.Fields = "found", x.self, web.Fields(problem != "", numberField("push.number_phone"))
		in.Facts = []web.PushFact{{Label: "push.phone", Value: webflow.AgentText(x.rec.Agent)}}
	}
	s.deps.Pages.Render(q.W, q.Request, web.View{Template: "push", Status: status, Locales: q.SignIn.Locales(), Client: x.client, Data: in})
	return nil
}

// handlePush serves POST /account/security/push: the number that the phone shows.
func (s *Service) handlePush(q *webflow.Request) error {
	x, err := s.readPhoneSetUp(q)
	if err == nil {
		err = s.deps.Front.CheckForm(q, webflow.SessionForm(pushForm, q.SignIn), x.self)
	}
	if err != nil {
		return err
	}
	if x.rec.Cookie == "" {
		return q.Redirect(x.self)
	}
	err = s.addPhone(q, &x, strings.TrimSpace(q.PostForm.Get("number")))
	switch {
	case errors.Is(err, person.ErrMismatch) && x.rec.Tries < pushEnrolTries:
		return s.phoneSetUpPage(q, x, http.StatusUnprocessableEntity, "problem.push_number")
	case errors.Is(err, person.ErrMismatch): // a new set-up begins
		return q.Redirect(x.self)
	case err != nil:
		return err
	}
	return q.Redirect(x.next)
}

// addPhone stores a phone whose number was typed on the other screen, and raises the session: the same person has both
// screens.
func (s *Service) addPhone(q *webflow.Request, x *phoneSetUp, number string) error {
	now := s.deps.Now()
	if err := s.countPhone(q, x, now); err != nil { // counted before it is compared
		return err
	}
	if subtle.ConstantTimeCompare([]byte(number), []byte(x.rec.Number)) != 1 {
		return person.ErrMismatch
	}
	id, err := secret.ID(s.deps.Random, 16)
	if err != nil {
		return err
	}
	ev, err := s.deps.Person.NewEvents(s.deps.Origin(q.Request), stepUpAdded)
	if err != nil {
		return err
	}
	return s.raise(q, gain{method: &pushMethod, setUp: true, spend: func(tx storage.Tx, own *Record) (bool, error) {
		st, err := s.CheckSetUp(tx, q.SignIn, now)
		if err != nil {
			return false, err
		}
		rec, _, err := pushEnrols.Find(tx, q.SignIn.ID)
		if err != nil || rec.Cookie != x.rec.Cookie || rec.PersonID != q.SignIn.Session.PersonID || len(st.Own.Devices) >= maxPhones {
			return false, err
		}
		if err := pushEnrols.Delete(tx, q.SignIn.ID); err != nil {
			return false, err
		}
		if err := pushEnrolKeys.Delete(tx, secret.Hash(x.token)); err != nil {
			return false, err
		}
		sameCookie := func(d pushDeviceRecord) bool { return d.Cookie == rec.Cookie } // the same phone again
		own.Devices = append(slices.DeleteFunc(slices.Clone(own.Devices), sameCookie),
			pushDeviceRecord{ID: id, Cookie: rec.Cookie, Agent: rec.Agent, Since: now.Truncate(time.Second)})
		return true, s.deps.Events.Append(tx, q.SignIn.OwnEvent(ev[0], pushMethod.Name))
	}})
}

// countPhone counts a number that was typed. person.ErrMismatch: the set-up is over, or another phone has taken it.
func (s *Service) countPhone(q *webflow.Request, x *phoneSetUp, now time.Time) error {
	return s.deps.Store.Update(q.Context(), func(tx storage.Tx) error {
		rec, _, err := pushEnrols.Find(tx, q.SignIn.ID)
		if err != nil {
			return err
		}
		if rec.Cookie != x.rec.Cookie || !rec.waiting(now) {
			return person.ErrMismatch
		}
		rec.Tries++
		x.rec = rec
		return pushEnrols.Put(tx, q.SignIn.ID, rec, rec.ExpiresAt.Add(session.CollectAfter))
	})
}

// phoneLink is a request of the phone that follows the link.
type phoneLink struct {
	token, session string
	rec            pushEnrolRecord
	person         person.Record
}

// form binds the form to the link.
func (x *phoneLink) form() string { return "enrol:" + secret.Hash(x.token) }

// readPhoneLink reads a request of the phone that follows the link. The link is put into a cookie, and the browser sent
// on without it.
func (s *Service) readPhoneLink(q *webflow.Request) (x phoneLink, err error) {
	q.Again = pushEnrolPath
	if token := q.URL.Query().Get(challenge.LinkParam); token != "" && q.Method != http.MethodPost {
		if secret.IsToken(secret.MailLink, token) {
			s.deps.Jar.Set(q.W, kindEnrol, token, pushEnrolLife)
		}
		return x, redirectInstead(q, pushEnrolPath)
	}
	x.token = s.deps.Jar.Get(q.Request, kindEnrol)
	now := s.deps.Now()
	err = s.deps.Store.View(q.Context(), func(tx storage.Tx) (err error) {
		if x.session, err = pushEnrolKeys.Get(tx, secret.Hash(x.token)); err != nil {
			return err
		}
		if x.rec, err = pushEnrols.Get(tx, x.session); err != nil {
			return err
		}
		if x.person, err = person.Records.Get(tx, x.rec.PersonID); err != nil {
			return err
		}
		_, err = s.deps.Session.Live(tx, x.session, now)
		return err
	})
	phone := s.phone(q.Request)
	switch {
	case err != nil && !errors.Is(err, storage.ErrNotFound):
		return x, err
	case err != nil, x.rec.Token != secret.Hash(x.token), !x.rec.waiting(now),
		x.rec.Cookie != "" && (phone == "" || x.rec.Cookie != secret.Hash(phone)):
		s.deps.Jar.Clear(q.W, kindEnrol)
		return x, &webflow.Answer{Status: http.StatusBadRequest, Key: "error.link"}
	}
	return x, nil
}

// showEnrol serves GET /push/enrol, on the phone: a question; it changes nothing.
func (s *Service) showEnrol(q *webflow.Request) error {
	x, err := s.readPhoneLink(q)
	if err != nil {
		return err
	}
	if x.rec.Cookie != "" {
		return s.phonePage(q, http.StatusOK, web.Push{Key: "enrolled", Number: x.rec.Number})
	}
	csrf, err := s.deps.Front.FormToken(q, x.form())
	if err != nil {
		return err
	}
	return s.phonePage(q, http.StatusOK, web.Push{Key: "enrol", Fill: []any{"account", x.person.Username}, Action: pushEnrolPath, CSRF: csrf})
}

// handleEnrol serves POST /push/enrol, on the phone: the phone is offered, and shows the number that the other screen
// asks for.
func (s *Service) handleEnrol(q *webflow.Request) error {
	x, err := s.readPhoneLink(q)
	if err == nil {
		err = s.deps.Front.CheckForm(q, x.form(), pushEnrolPath)
	}
	if err != nil {
		return err
	}
	phone := s.phone(q.Request)
	if phone == "" {
		if phone, err = s.deps.Front.NewID(); err != nil {
			return err
		}
	}
	err = s.deps.Store.Update(q.Context(), func(tx storage.Tx) error {
		rec, _, err := pushEnrols.Find(tx, x.session)
		if err != nil {
			return err
		}
		if rec.Token != x.rec.Token || rec.Cookie != "" && rec.Cookie != secret.Hash(phone) {
			return person.ErrMismatch // another phone was faster
		}
		rec.Cookie, rec.Agent = secret.Hash(phone), session.KeptAgent(q.UserAgent())
		return pushEnrols.Put(tx, x.session, rec, rec.ExpiresAt.Add(session.CollectAfter))
	})
	switch {
	case errors.Is(err, person.ErrMismatch):
	case err != nil:
		return err
	default:
		s.deps.Jar.Set(q.W, kindPush, phone, phoneLife)
	}
	return q.Redirect(pushEnrolPath)
}
