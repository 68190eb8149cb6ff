package trusted

import (
	"net/http"
	"strings"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/front"
	"github.com/gatehouse-id/gatehouse/identity/session"
	"github.com/gatehouse-id/gatehouse/internal/login"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

const secretBytes = 32

// carried is what a browser carries in its cookie.
type carried struct{ id, secret string }

func (c carried) String() string { return c.id + "." + c.secret }

// carried returns what the browser of a request carries, or nothing.
func (s *Service) carried(r *http.Request) carried {
	id, value, ok := strings.Cut(s.jar.Get(r, cookieKind), ".")
	if !ok || id == "" || value == "" {
		return carried{}
	}
	return carried{id, value}
}

// fresh tells whether a demand is for a sign-in with all its factors now, without a trusted browser.
func fresh(d login.Demand) bool { return d.MaxAge >= 0 || !d.NotBefore.IsZero() && !d.Anew }

// Counts tells whether the trusted browser counts for the second factor, where the session meets a demand but for its
// level. The secret in the cookie is good for one session: an earlier one was copied, or a copy was used, so it ends
// the trust.
func (s *Service) Counts(q *front.Request, d login.Demand) (counts bool, err error) {
	if d.Level != Level || q.SignIn == nil || q.SignIn.Session.Level < session.PasswordLevel || !q.Settings.TrustsBrowsers(d.Client.ID) || fresh(d) {
		return false, nil
	}
	now := s.now()
	if id := q.SignIn.Session.Trusted; id != "" {
		err := s.store.View(q.Context(), func(tx storage.Tx) (err error) {
			counts, err = s.still(tx, q.SignIn, id, now)
			return err
		})
		if err != nil || counts {
			return counts, err
		}
	}
	if has := s.carried(q.Request); has != (carried{}) {
		return s.use(q, d, has, now)
	}
	return false, nil
}

// still tells whether a trust that has counted in a session is there and valid.
func (s *Service) still(tx storage.Tx, si *session.Current, id string, now time.Time) (bool, error) {
	rec, found, err := Browsers.Find(tx, storage.Key(si.Session.PersonID, id))
	if err != nil || !found {
		return false, err
	}
	global, err := session.GlobalEpoch(tx)
	return rec.valid(si.Person.Epoch, global, now), err
}

// use takes the secret of the cookie for this session, and gives the browser another one.
func (s *Service) use(q *front.Request, d login.Demand, has carried, now time.Time) (bool, error) {
	next, err := secret.ID(s.random, secretBytes)
	if err != nil {
		return false, err
	}
	from := s.origin(q.Request)
	ev, err := s.person.NewEvents(from, browserUsed, Ended)
	if err != nil {
		return false, err
	}
	var counts, renewed, ended bool
	var until time.Time
	err = s.store.Update(q.Context(), func(tx storage.Tx) error {
		counts, renewed, ended = false, false, false
		open, err := s.open(tx, q, now)
		if err != nil || open == nil {
			return err
		}
		key := storage.Key(open.Session.PersonID, has.id)
		browser, found, err := Browsers.Find(tx, key)
		if err != nil || !found { // of another person, made up, or ended
			return err
		}
		if counts, err = s.still(tx, open, has.id, now); err != nil || !counts {
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
			rec.Trusted = has.id
			if err := Browsers.Put(tx, key, browser, browser.ExpiresAt); err != nil {
				return err
			}
			if err := session.Records.Put(tx, open.ID, rec, s.session.Collect(rec)); err != nil {
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
		return s.events.Append(tx, e)
	})
	switch {
	case err != nil:
		return false, err
	case renewed:
		q.SignIn.Session.Trusted = has.id
		s.jar.Set(q.W, cookieKind, carried{has.id, next}.String(), until.Sub(now))
	case ended:
		s.jar.Clear(q.W, cookieKind)
	}
	return counts, nil
}
