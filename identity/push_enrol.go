package identity

import (
	"crypto/subtle"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"go.uber.org/zap"
	"rsc.io/qr"

	"github.com/gatehouse-id/gatehouse/internal/cookie"
	"github.com/gatehouse-id/gatehouse/internal/page"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

// addingPhone is a request of the page that sets up a phone, beside the phone.
type addingPhone struct {
	si         *signedIn
	self, next string
	token      string
	rec        pushEnrolRecord
}

func pushEnrolPurpose(session string) string { return "set-up of a phone " + session }

// pushSetUp reads what the two handlers of the page share, and begins a set-up where there is none. Otherwise it has written the answer and is not ok.
func (s *Service) pushSetUp(w http.ResponseWriter, r *http.Request) (x addingPhone, ok bool) {
	x.self, x.next = withFlow(pushMethod.setUp, r)
	si, st, ok := s.requireSetUp(w, r, x.self)
	switch {
	case !ok:
		return x, false
	case s.Push == nil:
		s.Pages.Error(w, r, http.StatusNotFound, "error.not_found", "")
		return x, false
	case len(st.own.Devices) >= pushDevices:
		s.redirect(w, r, x.next)
		return x, false
	}
	x.si = si
	if err := s.beginEnrol(r, &x); err != nil {
		s.fail(w, r, err, x.self)
		return x, false
	}
	return x, true
}

// beginEnrol returns the set-up of a session: the same one when the page is loaded again.
func (s *Service) beginEnrol(r *http.Request, x *addingPhone) error {
	token, err := secret.NewToken(s.Random, secret.MailLink)
	if err != nil {
		return err
	}
	number, err := newPushNumber(s.Random)
	if err != nil {
		return err
	}
	sealed, err := s.Keyring.Seal(pushEnrolPurpose(x.si.id), []byte(token))
	if err != nil {
		return err
	}
	now := s.Now()
	return s.Store.Update(r.Context(), func(tx storage.Tx) error {
		rec, err := pushEnrols.Get(tx, x.si.id)
		if err == nil && rec.ExpiresAt.After(now) && rec.Tries < pushEnrolTry {
			if open, err := s.Keyring.Open(pushEnrolPurpose(x.si.id), rec.Sealed); err == nil {
				x.token, x.rec = string(open), rec
				return nil
			}
			err = storage.ErrNotFound
		}
		if err != nil && !errors.Is(err, storage.ErrNotFound) {
			return err
		}
		x.token = token
		x.rec = pushEnrolRecord{PersonID: x.si.session.PersonID, Sealed: sealed, Token: secret.Hash(token), Number: number, ExpiresAt: now.Add(pushEnrolLife)}
		if err := pushEnrolKeys.Put(tx, secret.Hash(token), x.si.id, x.rec.ExpiresAt.Add(collectAfter)); err != nil {
			return err
		}
		return pushEnrols.Put(tx, x.si.id, x.rec, x.rec.ExpiresAt.Add(collectAfter))
	})
}

// showPush serves GET /account/security/push: a link for the phone, then the number that the phone shows.
func (s *Service) showPush(w http.ResponseWriter, r *http.Request) {
	if x, ok := s.pushSetUp(w, r); ok {
		s.pushSetUpPage(w, r, x, http.StatusOK, "")
	}
}

func (s *Service) pushSetUpPage(w http.ResponseWriter, r *http.Request, x addingPhone, status int, problem string) {
	in := page.Push{Key: "add", Cancel: x.next, Problem: problem}
	if x.rec.Cookie == "" {
		in.Link, in.Refresh = s.cfg.Issuer+pushEnrolPath+"?"+url.Values{linkParam: {x.token}}.Encode(), problem == ""
		code, err := qr.Encode(in.Link, qr.M)
		if err != nil {
			s.fail(w, r, err, securityPath)
			return
		}
		drawn := page.NewQR(code.Size, code.Black)
		in.QR = &drawn
		s.pushPage(w, r, x.si.locales(), status, in)
		return
	}
	var err error
	if in.CSRF, err = s.securityForm(w, r, x.si, "push"); err != nil {
		s.fail(w, r, err, securityPath)
		return
	}
	in.Key, in.Action, in.Fields = "found", x.self, page.Fields(problem != "", numberField("push.number_phone"))
	in.Facts = []page.PushFact{{Label: "push.phone", Value: agentText(x.rec.Agent)}}
	s.pushPage(w, r, x.si.locales(), status, in)
}

// handlePush serves POST /account/security/push: the number that the phone shows.
func (s *Service) handlePush(w http.ResponseWriter, r *http.Request) {
	x, ok := s.pushSetUp(w, r)
	if !ok || !s.checkSecurityForm(w, r, x.si, "push", x.self) {
		return
	}
	if x.rec.Cookie == "" {
		s.redirect(w, r, x.self)
		return
	}
	err := s.addPhone(w, r, &x, strings.TrimSpace(r.PostForm.Get("number")))
	switch {
	case errors.Is(err, errMismatch) && x.rec.Tries < pushEnrolTry:
		s.pushSetUpPage(w, r, x, http.StatusUnprocessableEntity, "problem.push_number")
	case errors.Is(err, errMismatch): // begun anew
		s.redirect(w, r, x.self)
	case err != nil:
		s.fail(w, r, err, x.self)
	default:
		s.redirect(w, r, x.next)
	}
}

// addPhone stores a phone whose number was typed here, and raises the session: whoever has both screens is one.
func (s *Service) addPhone(w http.ResponseWriter, r *http.Request, x *addingPhone, number string) error {
	now, person := s.Now(), x.si.session.PersonID
	err := s.Store.Update(r.Context(), func(tx storage.Tx) error { // counted before it is looked at
		rec, err := pushEnrols.Get(tx, x.si.id)
		if errors.Is(err, storage.ErrNotFound) || err == nil && (rec.Cookie != x.rec.Cookie || rec.Tries >= pushEnrolTry || !rec.ExpiresAt.After(now)) {
			return errMismatch
		}
		if err != nil {
			return err
		}
		rec.Tries++
		x.rec = rec
		return pushEnrols.Put(tx, x.si.id, rec, rec.ExpiresAt.Add(collectAfter))
	})
	if err != nil {
		return err
	}
	if subtle.ConstantTimeCompare([]byte(number), []byte(x.rec.Number)) != 1 {
		return errMismatch
	}
	id, err := secret.ID(s.Random, 16)
	if err != nil {
		return err
	}
	ev, err := s.newEvents(s.Origin(r), stepUpAdded)
	if err != nil {
		return err
	}
	return s.raise(w, r, raising{si: x.si, method: &pushMethod, setUp: true, spend: func(tx storage.Tx, own *stepUpRecord) (bool, error) {
		st, err := s.maySetUp(tx, x.si)
		if err != nil {
			return false, err
		}
		rec, err := pushEnrols.Get(tx, x.si.id)
		if errors.Is(err, storage.ErrNotFound) || err == nil && (rec.Cookie != x.rec.Cookie || rec.PersonID != person) || len(st.own.Devices) >= pushDevices {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		if err := pushEnrols.Delete(tx, x.si.id); err != nil {
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
		return true, s.Events.Append(tx, x.si.own(ev[0], pushMethod.name))
	}})
}

// enrolled is a request of the phone that follows the link.
type enrolled struct {
	token, session string
	rec            pushEnrolRecord
	person         personRecord
}

// form binds the form to the link.
func (x *enrolled) form() string { return "enrol:" + secret.Hash(x.token) }

// enrolOpened reads it. Otherwise it has written the answer and is not ok.
func (s *Service) enrolOpened(w http.ResponseWriter, r *http.Request) (x enrolled, ok bool) {
	if token := r.URL.Query().Get(linkParam); token != "" && r.Method != http.MethodPost {
		if secret.IsToken(secret.MailLink, token) {
			s.jar.Set(w, kindEnrol, token, pushEnrolLife)
		}
		w.Header().Set("Referrer-Policy", "no-referrer")
		s.redirect(w, r, pushEnrolPath)
		return x, false
	}
	x.token = s.jar.Get(r, kindEnrol)
	now := s.Now()
	err := s.Store.View(r.Context(), func(tx storage.Tx) (err error) {
		if x.session, err = pushEnrolKeys.Get(tx, secret.Hash(x.token)); err == nil {
			x.rec, err = pushEnrols.Get(tx, x.session)
		}
		if err == nil {
			x.person, err = persons.Get(tx, x.rec.PersonID)
		}
		if err == nil {
			_, err = s.live(tx, x.session, now)
		}
		return err
	})
	mine := s.phone(r)
	switch {
	case err != nil && !errors.Is(err, storage.ErrNotFound):
		s.fail(w, r, err, pushEnrolPath)
	case err != nil, x.rec.Token != secret.Hash(x.token), !x.rec.ExpiresAt.After(now), x.rec.Tries >= pushEnrolTry, x.rec.Cookie != "" && (mine == "" || x.rec.Cookie != secret.Hash(mine)):
		s.jar.Clear(w, kindEnrol)
		s.Pages.Error(w, r, http.StatusBadRequest, "error.link", "")
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
	browser, err := s.jar.Browser(w, r, s.newID)
	if err != nil {
		s.fail(w, r, err, pushEnrolPath)
		return
	}
	s.pushPage(w, r, nil, http.StatusOK, page.Push{
		Key: "enrol", Fill: []any{"account", x.person.Username}, Action: pushEnrolPath, CSRF: s.Pages.CSRF(browser, x.form()),
	})
}

// handleEnrol serves POST /push/enrol, on the phone: it is offered, and shows the number that the other screen asks for.
func (s *Service) handleEnrol(w http.ResponseWriter, r *http.Request) {
	x, ok := s.enrolOpened(w, r)
	if !ok {
		return
	}
	if err := s.Pages.CheckPost(r, s.jar.Get(r, cookie.KindBrowser), x.form()); err != nil {
		s.Log.Info("form refused", zap.String("path", r.URL.Path), zap.Error(err))
		s.Pages.Refuse(w, r, err, pushEnrolPath)
		return
	}
	mine, err := s.phone(r), error(nil)
	if mine == "" {
		mine, err = s.newID()
	}
	if err == nil {
		err = s.Store.Update(r.Context(), func(tx storage.Tx) error {
			rec, err := pushEnrols.Get(tx, x.session)
			if errors.Is(err, storage.ErrNotFound) || err == nil && (rec.Token != x.rec.Token || rec.Cookie != "" && rec.Cookie != secret.Hash(mine)) {
				return errMismatch // another phone was faster
			}
			if err != nil {
				return err
			}
			rec.Cookie, rec.Agent = secret.Hash(mine), keptAgent(r.UserAgent())
			return pushEnrols.Put(tx, x.session, rec, rec.ExpiresAt.Add(collectAfter))
		})
	}
	switch {
	case errors.Is(err, errMismatch):
		s.redirect(w, r, pushEnrolPath)
	case err != nil:
		s.fail(w, r, err, pushEnrolPath)
	default:
		s.jar.Set(w, kindPush, mine, pushCookie)
		s.redirect(w, r, pushEnrolPath)
	}
}
