package stepup

import (
	"crypto/subtle"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"go.uber.org/zap"
	"rsc.io/qr"

	"github.com/gatehouse-id/gatehouse/identity/front"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/proof"
	"github.com/gatehouse-id/gatehouse/identity/session"
	"github.com/gatehouse-id/gatehouse/internal/cookie"
	"github.com/gatehouse-id/gatehouse/internal/page"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

// phoneSetUp is a request of the page that sets up a phone, beside the phone.
type phoneSetUp struct {
	si         *session.Current
	self, next string
	token      string
	rec        pushEnrolRecord
}

func pushEnrolPurpose(session string) string { return "set-up of a phone " + session }

// pushSetUp reads what the two handlers of the page share, and begins a set-up where there is none. Otherwise it has written the answer and is not ok.
func (s *Service) pushSetUp(w http.ResponseWriter, r *http.Request) (x phoneSetUp, ok bool) {
	x.self, x.next = withFlow(PushMethod.setUp, r)
	si, st, ok := s.RequireSetUp(w, r, x.self)
	switch {
	case !ok:
		return x, false
	case s.push == nil:
		s.pages.Error(w, r, http.StatusNotFound, "error.not_found", "")
		return x, false
	case len(st.Own.Devices) >= pushDevices:
		s.front.Redirect(w, r, x.next)
		return x, false
	}
	x.si = si
	if err := s.beginEnrol(r, &x); err != nil {
		s.front.Fail(w, r, err, x.self)
		return x, false
	}
	return x, true
}

// beginEnrol returns the set-up of a session: the same one when the page is loaded again.
func (s *Service) beginEnrol(r *http.Request, x *phoneSetUp) error {
	token, err := secret.NewToken(s.random, secret.MailLink)
	if err != nil {
		return err
	}
	number, err := newPushNumber(s.random)
	if err != nil {
		return err
	}
	sealed, err := s.keyring.Seal(pushEnrolPurpose(x.si.ID), []byte(token))
	if err != nil {
		return err
	}
	now := s.now()
	return s.store.Update(r.Context(), func(tx storage.Tx) error {
		rec, err := pushEnrols.Get(tx, x.si.ID)
		if err == nil && rec.ExpiresAt.After(now) && rec.Tries < pushEnrolTry {
			if open, err := s.keyring.Open(pushEnrolPurpose(x.si.ID), rec.Sealed); err == nil {
				x.token, x.rec = string(open), rec
				return nil
			}
			err = storage.ErrNotFound
		}
		if err != nil && !errors.Is(err, storage.ErrNotFound) {
			return err
		}
		x.token = token
		x.rec = pushEnrolRecord{PersonID: x.si.Session.PersonID, Sealed: sealed, Token: secret.Hash(token), Number: number, ExpiresAt: now.Add(pushEnrolLife)}
		if err := pushEnrolKeys.Put(tx, secret.Hash(token), x.si.ID, x.rec.ExpiresAt.Add(session.CollectAfter)); err != nil {
			return err
		}
		return pushEnrols.Put(tx, x.si.ID, x.rec, x.rec.ExpiresAt.Add(session.CollectAfter))
	})
}

// showPush serves GET /account/security/push: a link for the phone, then the number that the phone shows.
func (s *Service) showPush(w http.ResponseWriter, r *http.Request) {
	if x, ok := s.pushSetUp(w, r); ok {
		s.pushSetUpPage(w, r, x, http.StatusOK, "")
	}
}

func (s *Service) pushSetUpPage(w http.ResponseWriter, r *http.Request, x phoneSetUp, status int, problem string) {
	in := page.Push{Key: "add", Cancel: x.next, Problem: problem}
	if x.rec.Cookie == "" {
		in.Link, in.Refresh = s.issuer+pushEnrolPath+"?"+url.Values{proof.LinkParam: {x.token}}.Encode(), problem == ""
		code, err := qr.Encode(in.Link, qr.M)
		if err != nil {
			s.front.Fail(w, r, err, front.SecurityPath)
			return
		}
		drawn := page.NewQR(code.Size, code.Black)
		in.QR = &drawn
		s.pushPage(w, r, x.si.Locales(), status, in)
		return
	}
	var err error
	if in.CSRF, err = s.front.SecurityForm(w, r, x.si, "push"); err != nil {
		s.front.Fail(w, r, err, front.SecurityPath)
		return
	}
	in.Key, in.Action, in.Fields = "found", x.self, page.Fields(problem != "", numberField("push.number_phone"))
	in.Facts = []page.PushFact{{Label: "push.phone", Value: front.AgentText(x.rec.Agent)}}
	s.pushPage(w, r, x.si.Locales(), status, in)
}

// handlePush serves POST /account/security/push: the number that the phone shows.
func (s *Service) handlePush(w http.ResponseWriter, r *http.Request) {
	x, ok := s.pushSetUp(w, r)
	if !ok || !s.front.CheckSecurityForm(w, r, x.si, "push", x.self) {
		return
	}
	if x.rec.Cookie == "" {
		s.front.Redirect(w, r, x.self)
		return
	}
	err := s.addPhone(w, r, &x, strings.TrimSpace(r.PostForm.Get("number")))
	switch {
	case errors.Is(err, person.ErrMismatch) && x.rec.Tries < pushEnrolTry:
		s.pushSetUpPage(w, r, x, http.StatusUnprocessableEntity, "problem.push_number")
	case errors.Is(err, person.ErrMismatch): // begun anew
		s.front.Redirect(w, r, x.self)
	case err != nil:
		s.front.Fail(w, r, err, x.self)
	default:
		s.front.Redirect(w, r, x.next)
	}
}

// addPhone stores a phone whose number was typed here, and raises the session: whoever has both screens is one.
func (s *Service) addPhone(w http.ResponseWriter, r *http.Request, x *phoneSetUp, number string) error {
	now, personID := s.now(), x.si.Session.PersonID
	err := s.store.Update(r.Context(), func(tx storage.Tx) error { // counted before it is looked at
		rec, err := pushEnrols.Get(tx, x.si.ID)
		if errors.Is(err, storage.ErrNotFound) || err == nil && (rec.Cookie != x.rec.Cookie || rec.Tries >= pushEnrolTry || !rec.ExpiresAt.After(now)) {
			return person.ErrMismatch
		}
		if err != nil {
			return err
		}
		rec.Tries++
		x.rec = rec
		return pushEnrols.Put(tx, x.si.ID, rec, rec.ExpiresAt.Add(session.CollectAfter))
	})
	if err != nil {
		return err
	}
	if subtle.ConstantTimeCompare([]byte(number), []byte(x.rec.Number)) != 1 {
		return person.ErrMismatch
	}
	id, err := secret.ID(s.random, 16)
	if err != nil {
		return err
	}
	ev, err := s.person.NewEvents(s.origin(r), stepUpAdded)
	if err != nil {
		return err
	}
	return s.raise(w, r, raise{si: x.si, method: &PushMethod, setUp: true, spend: func(tx storage.Tx, own *Record) (bool, error) {
		st, err := s.MaySetUp(tx, x.si)
		if err != nil {
			return false, err
		}
		rec, err := pushEnrols.Get(tx, x.si.ID)
		if errors.Is(err, storage.ErrNotFound) || err == nil && (rec.Cookie != x.rec.Cookie || rec.PersonID != personID) || len(st.Own.Devices) >= pushDevices {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		if err := pushEnrols.Delete(tx, x.si.ID); err != nil {
			return false, err
		}
		if err := pushEnrolKeys.Delete(tx, secret.Hash(x.token)); err != nil {
			return false, err
		}
		var list []pushDeviceRecord
		for _, d := range own.Devices {
			if d.Cookie != rec.Cookie { // the same phone again
				list = append(list, d)
			}
		}
		own.Devices = append(list, pushDeviceRecord{ID: id, Cookie: rec.Cookie, Agent: rec.Agent, Since: now.Truncate(time.Second)})
		return true, s.events.Append(tx, x.si.OwnEvent(ev[0], PushMethod.Name))
	}})
}

// phoneRequest is a request of the phone that follows the link.
type phoneRequest struct {
	token, session string
	rec            pushEnrolRecord
	person         person.Record
}

// form binds the form to the link.
func (x *phoneRequest) form() string { return "enrol:" + secret.Hash(x.token) }

// enrolOpened reads it. Otherwise it has written the answer and is not ok.
func (s *Service) enrolOpened(w http.ResponseWriter, r *http.Request) (x phoneRequest, ok bool) {
	if token := r.URL.Query().Get(proof.LinkParam); token != "" && r.Method != http.MethodPost {
		if secret.IsToken(secret.MailLink, token) {
			s.jar.Set(w, kindEnrol, token, pushEnrolLife)
		}
		w.Header().Set("Referrer-Policy", "no-referrer")
		s.front.Redirect(w, r, pushEnrolPath)
		return x, false
	}
	x.token = s.jar.Get(r, kindEnrol)
	now := s.now()
	err := s.store.View(r.Context(), func(tx storage.Tx) (err error) {
		if x.session, err = pushEnrolKeys.Get(tx, secret.Hash(x.token)); err == nil {
			x.rec, err = pushEnrols.Get(tx, x.session)
		}
		if err == nil {
			x.person, err = person.Records.Get(tx, x.rec.PersonID)
		}
		if err == nil {
			_, err = s.session.Live(tx, x.session, now)
		}
		return err
	})
	mine := s.phone(r)
	switch {
	case err != nil && !errors.Is(err, storage.ErrNotFound):
		s.front.Fail(w, r, err, pushEnrolPath)
	case err != nil, x.rec.Token != secret.Hash(x.token), !x.rec.ExpiresAt.After(now), x.rec.Tries >= pushEnrolTry, x.rec.Cookie != "" && (mine == "" || x.rec.Cookie != secret.Hash(mine)):
		s.jar.Clear(w, kindEnrol)
		s.pages.Error(w, r, http.StatusBadRequest, "error.link", "")
	default:
		return x, true
	}
	return x, false
}

// showEnrol serves GET /push/enrol, on the phone: it asks, and changes nothing.
func (s *Service) showEnrol(w http.ResponseWriter, r *http.Request) {
	x, ok := s.enrolOpened(w, r)
	if !ok {
		return
	}
	if x.rec.Cookie != "" {
		s.pushPage(w, r, nil, http.StatusOK, page.Push{Key: "enrolled", Number: x.rec.Number})
		return
	}
	browser, err := s.jar.Browser(w, r, s.front.NewID)
	if err != nil {
		s.front.Fail(w, r, err, pushEnrolPath)
		return
	}
	s.pushPage(w, r, nil, http.StatusOK, page.Push{
		Key: "enrol", Fill: []any{"account", x.person.Username}, Action: pushEnrolPath, CSRF: s.pages.CSRF(browser, x.form()),
	})
}

// handleEnrol serves POST /push/enrol, on the phone: it is offered, and shows the number that the other screen asks for.
func (s *Service) handleEnrol(w http.ResponseWriter, r *http.Request) {
	x, ok := s.enrolOpened(w, r)
	if !ok {
		return
	}
	if err := s.pages.CheckPost(r, s.jar.Get(r, cookie.KindBrowser), x.form()); err != nil {
		s.log.Info("form refused", zap.String("path", r.URL.Path), zap.Error(err))
		s.pages.Refuse(w, r, err, pushEnrolPath)
		return
	}
	mine, err := s.phone(r), error(nil)
	if mine == "" {
		mine, err = s.front.NewID()
	}
	if err == nil {
		err = s.store.Update(r.Context(), func(tx storage.Tx) error {
			rec, err := pushEnrols.Get(tx, x.session)
			if errors.Is(err, storage.ErrNotFound) || err == nil && (rec.Token != x.rec.Token || rec.Cookie != "" && rec.Cookie != secret.Hash(mine)) {
				return person.ErrMismatch // another phone was faster
			}
			if err != nil {
				return err
			}
			rec.Cookie, rec.Agent = secret.Hash(mine), session.KeptAgent(r.UserAgent())
			return pushEnrols.Put(tx, x.session, rec, rec.ExpiresAt.Add(session.CollectAfter))
		})
	}
	switch {
	case errors.Is(err, person.ErrMismatch):
		s.front.Redirect(w, r, pushEnrolPath)
	case err != nil:
		s.front.Fail(w, r, err, pushEnrolPath)
	default:
		s.jar.Set(w, kindPush, mine, pushCookie)
		s.front.Redirect(w, r, pushEnrolPath)
	}
}
