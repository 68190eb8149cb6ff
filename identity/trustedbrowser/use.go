package trustedbrowser

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/session"
	"github.com/gatehouse-id/gatehouse/identity/webflow"
	"github.com/gatehouse-id/gatehouse/internal/authn"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

const secretBytes = 32

// carried is the value of a browser's cookie.
type carried struct{ id, secret string }

func (c carried) String() string { return c.id + "." + c.secret }

// carried returns what the browser of a request carries, or nothing.
func (s *Service) carried(r *http.Request) carried {
	id, value, ok := strings.Cut(s.deps.Jar.Get(r, cookieKind), ".")
	if !ok || id == "" || value == "" {
		return carried{}
	}
	return carried{id, value}
}

// fresh reports whether a demand is for a sign-in with all its factors now, without a trusted browser.
func fresh(d authn.Demand) bool { return d.MaxAge >= 0 || !d.NotBefore.IsZero() && !d.Anew }

// Counts reports whether the trusted browser counts for the second factor, where the session meets a demand but for its
// level. The secret in the cookie is good for one session: an earlier one was copied, or a copy was used, so it ends
// the trust.
func (s *Service) Counts(q *webflow.Request, d authn.Demand) (counts bool, err error) {
	if d.Level != Level || q.SignIn == nil || q.SignIn.Session.Level < session.PasswordLevel ||
		!q.Settings.TrustsBrowsers(d.Client.ID) || fresh(d) {
		return false, nil
	}
	now := s.deps.Now()
	if id := q.SignIn.Session.Trusted; id != "" {
		var browser Record
		err := s.deps.Store.View(q.Context(), func(tx storage.Tx) (err error) {
			browser, counts, err = s.still(tx, q.SignIn, id, now)
			return err
		})
		if counts {
			s.giveAgain(q, browser, now)
		}
		if err != nil || counts {
			return counts, err
		}
	}
	if has := s.carried(q.Request); has != (carried{}) {
		return s.use(q, d, has, now)
	}
	return false, nil
}

// giveAgain gives the browser its secret once more, if the answer of this session that held it was lost.
func (s *Service) giveAgain(q *webflow.Request, browser Record, now time.Time) {
	has, salt := s.carried(q.Request), q.SignIn.Session.TrustSalt
	if len(salt) == 0 || has.id != q.SignIn.Session.Trusted {
		return
	}
	if next := after(salt, has.secret); secret.New(browser.Secret).Equal(secret.Hash(next)) {
		s.deps.Jar.Set(q.W, cookieKind, carried{has.id, next}.String(), browser.ExpiresAt.Sub(now))
	}
}

// after is the secret that follows another one in the session with a salt. No one can compute it without the salt,
// which the store alone has, nor without the secret, which it has not: so an answer that was lost can be given again.
func after(salt []byte, value string) string {
	mac := hmac.New(sha256.New, salt)
	mac.Write([]byte(value))
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// still returns a trust that has counted in a session, and reports whether it is there and valid.
func (s *Service) still(tx storage.Tx, si *session.Current, id string, now time.Time) (rec Record, valid bool, err error) {
	rec, found, err := Browsers.Find(tx, storage.Key(si.Session.PersonID, id))
	if err != nil || !found {
		return rec, false, err
	}
	global, err := session.GlobalEpoch(tx)
	return rec, rec.valid(si.Person.Epoch, global, now), err
}

// use takes the secret of the cookie for this session, and gives the browser another one.
func (s *Service) use(q *webflow.Request, d authn.Demand, has carried, now time.Time) (bool, error) {
	salt := make([]byte, secretBytes)
	if _, err := io.ReadFull(s.deps.Random, salt); err != nil {
		return false, err
	}
	next := after(salt, has.secret)
	from := s.deps.Origin(q.Request)
	ev, err := s.deps.Person.NewEvents(from, browserUsed, Ended)
	if err != nil {
		return false, err
	}
	var counts, renewed, ended bool
	var until time.Time
	err = s.deps.Store.Update(q.Context(), func(tx storage.Tx) error {
		counts, renewed, ended = false, false, false
		open, err := s.open(tx, q, now)
		if err != nil || open == nil {
			return err
		}
		key := storage.Key(open.Session.PersonID, has.id)
		browser, valid, err := s.still(tx, open, has.id, now)
		if counts = valid; err != nil || !counts { // of another person, made up, or ended
			return err
		}
		if open.Session.Trusted == has.id { // another request of this session was faster
			return nil
		}
		e := open.OwnEvent(ev[0], "")
		if renewed = secret.New(browser.Secret).Equal(secret.Hash(has.secret)); renewed {
			browser.Secret, browser.Used, until = secret.Hash(next), now, browser.ExpiresAt
			browser.Address, browser.Agent = from.ClientIP, session.KeptAgent(from.UserAgent)
			rec := open.Session
			rec.Trusted, rec.TrustSalt = has.id, salt
			if err := Browsers.Put(tx, key, browser, browser.ExpiresAt); err != nil {
				return err
			}
			if err := session.Records.Put(tx, open.ID, rec, s.deps.Session.Collect(rec)); err != nil {
				return err
			}
		} else {
			counts, ended = false, true
			e = open.OwnEvent(ev[1], "an earlier secret of the browser was used")
			if err := Browsers.Delete(tx, key); err != nil {
				return err
			}
		}
		e.ClientID = d.Client.ID
		return s.deps.Events.Append(tx, e)
	})
	switch {
	case err != nil:
		return false, err
	case renewed:
		q.SignIn.Session.Trusted, q.SignIn.Session.TrustSalt = has.id, salt
		s.deps.Jar.Set(q.W, cookieKind, carried{has.id, next}.String(), until.Sub(now))
	case ended:
		s.deps.Jar.Clear(q.W, cookieKind)
	}
	return counts, nil
}
