package trustedbrowser

import (
	"errors"
	"net/http"
	"net/url"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/challenge"
	"github.com/gatehouse-id/gatehouse/identity/session"
	"github.com/gatehouse-id/gatehouse/identity/webflow"
	"github.com/gatehouse-id/gatehouse/internal/authn"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/internal/web"
	"github.com/gatehouse-id/gatehouse/storage"
)

// OfferURL is the page of a flow that asks whether the browser is trusted.
func OfferURL(flow string) string { return offerPath + "?flow=" + url.QueryEscape(flow) }

// Offers reports whether the person is asked on the way to an application: they have just used a second factor for it,
// and were not asked yet.
func (s *Service) Offers(q *webflow.Request, d authn.Demand) bool {
	return !d.Passive && !d.Unused && d.Return != "" && q.SignIn != nil && q.Settings.TrustsBrowsers(d.Client.ID) &&
		raisedFor(q.SignIn.Session, d)
}

// raisedFor reports whether the session was raised for a demand.
func raisedFor(rec session.Record, d authn.Demand) bool {
	return rec.Level >= Level && rec.RaisedFor != "" && rec.RaisedFor == secret.Hash(d.Return)
}

// offerForm binds the form to its flow and session.
func offerForm(flow string, si *session.Current) string { return "trust:" + flow + ":" + si.ID }

// readOffer returns the flow of a request. Where there is nothing to ask, the browser goes on.
func (s *Service) readOffer(q *webflow.Request) (id string, d authn.Demand, err error) {
	id, flow, err := s.deps.Front.FlowIn(q)
	if err != nil {
		return "", d, err
	}
	if !s.Offers(q, flow.Demand) {
		if err := q.Redirect(flow.Demand.Return); err != nil {
			return "", d, err
		}
		return "", d, webflow.ErrAnswered
	}
	return id, flow.Demand, nil
}

// showOffer serves GET /step-up/trust?flow=….
func (s *Service) showOffer(q *webflow.Request) error {
	id, d, err := s.readOffer(q)
	if err != nil {
		return err
	}
	form := web.Form{
		Key: "trust_browser", Action: OfferURL(id),
		Fields: web.Fields(false, web.Field{Name: "trust", Type: "checkbox", Label: "trust_browser.label", Hint: "sign_in.remember.hint"}),
	}
	if form.CSRF, err = s.deps.Front.FormToken(q, offerForm(id, q.SignIn)); err != nil {
		return err
	}
	s.deps.Pages.Render(q.W, q.Request, s.deps.Front.View(d, "form", http.StatusOK, form))
	return nil
}

// handleOffer serves POST /step-up/trust?flow=….
func (s *Service) handleOffer(q *webflow.Request) error {
	id, d, err := s.readOffer(q)
	if err != nil {
		return err
	}
	if err := s.deps.Front.CheckForm(q, offerForm(id, q.SignIn), OfferURL(id)); err != nil {
		return err
	}
	if err := s.answer(q, d, q.PostForm.Get("trust") != ""); err != nil {
		return err
	}
	return q.Redirect(d.Return)
}

// answer notes that the person was asked and, if they want it, trusts the browser.
func (s *Service) answer(q *webflow.Request, d authn.Demand, trusts bool) error {
	id, err := secret.ID(s.deps.Random, 16)
	if err != nil {
		return err
	}
	fresh, err := secret.ID(s.deps.Random, secretBytes)
	if err != nil {
		return err
	}
	from := s.deps.Origin(q.Request)
	ev, err := s.deps.Person.NewEvents(from, browserTrusted)
	if err != nil {
		return err
	}
	now, before, done := s.deps.Now(), s.carried(q.Request), false
	err = s.deps.Store.Update(q.Context(), func(tx storage.Tx) error {
		done = false
		open, err := s.open(tx, q, now)
		if err != nil || open == nil || !raisedFor(open.Session, d) {
			return err
		}
		rec := open.Session
		rec.RaisedFor = ""
		u, err := s.deps.Units(tx)
		if err != nil {
			return err
		}
		if trusts && u.TrustsBrowsers(d.Client.ID) {
			if err := makeRoom(tx, rec.PersonID, before.id, rec.Epoch, rec.Global, now); err != nil {
				return err
			}
			browser := Record{
				Secret: secret.Hash(fresh), Epoch: rec.Epoch, Global: rec.Global, Since: now, Used: now, ExpiresAt: now.Add(life),
				Address: from.ClientIP, Agent: session.KeptAgent(from.UserAgent),
			}
			if err := Browsers.Create(tx, storage.Key(rec.PersonID, id), browser, browser.ExpiresAt); err != nil {
				return err
			}
			e := open.OwnEvent(ev[0], "")
			e.ClientID = d.Client.ID
			if err := s.deps.Events.Append(tx, e); err != nil {
				return err
			}
			rec.Trusted, done = id, true
		}
		return session.Records.Put(tx, open.ID, rec, s.deps.Session.Collect(rec))
	})
	if err == nil && done {
		s.deps.Jar.Set(q.W, cookieKind, carried{id, fresh}.String(), life)
	}
	return err
}

// open returns the session of a request within a transaction. nil: it has ended, or is another one now.
func (s *Service) open(tx storage.Tx, q *webflow.Request, now time.Time) (*session.Current, error) {
	open, err := s.deps.Session.Open(tx, challenge.Hashed(s.deps.Jar.Get(q.Request, session.CookieSession)), now)
	if errors.Is(err, storage.ErrNotFound) || err == nil && open.ID != q.SignIn.ID {
		return nil, nil //nolint:nilnil // no such session
	}
	return open, err
}
