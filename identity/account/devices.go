package account

import (
	"errors"
	"net/http"

	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/session"
	"github.com/gatehouse-id/gatehouse/identity/trustedbrowser"
	"github.com/gatehouse-id/gatehouse/identity/webflow"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/internal/web"
	"github.com/gatehouse-id/gatehouse/storage"
)

const (
	maxDevices = 50 // sessions on the page. Further ones can only be ended together
	allOthers  = "others"
)

// showDevices serves GET /account/devices: the browsers in which the person is signed in.
func (s *Service) showDevices(q *webflow.Request) error {
	a, err := s.deps.Front.VisitOf(q, webflow.DevicesPath)
	if err != nil {
		return err
	}
	var list []session.Session
	var trusts []trustedbrowser.Browser
	now := s.deps.Now()
	err = s.deps.Store.View(q.Context(), func(tx storage.Tx) (err error) {
		if list, err = s.deps.Session.OpenSessions(tx, a.SignIn.Session.PersonID, a.SignIn.Session.Epoch, now); err != nil {
			return err
		}
		trusts, err = trustedbrowser.OfPerson(tx, a.SignIn.Session.PersonID, a.SignIn.Session.Epoch, now)
		return err
	})
	if err != nil {
		return err
	}
	sessions := web.Part{}
	for _, open := range list {
		row := s.deviceRow(open)
		if open.ID == a.SignIn.ID {
			row.Mark = web.Say("device.this")
			sessions.Rows = append([]web.Row{row}, sessions.Rows...)
			continue
		}
		row.Actions = []web.Action{{
			Label: "device.end", URL: webflow.DevicesPath, CSRF: a.CSRF,
			Fields: []web.Hidden{{Name: "session", Value: open.ID}},
		}}
		if len(sessions.Rows) < maxDevices {
			sessions.Rows = append(sessions.Rows, row)
		}
	}
	d := web.Dashboard{Key: "devices", Parts: append([]web.Part{sessions}, anotherDevicePart(a)...)}
	if len(trusts) > 0 {
		d.Parts = append(d.Parts, trustedPart(a, trusts))
	}
	if len(list) > 1 {
		d.Parts = append(d.Parts, web.Part{
			ID: "others", Title: web.Say("device.others"),
			Text: web.Say("device.others.text"), Form: &web.PartForm{
				Action: webflow.DevicesPath, CSRF: a.CSRF, Submit: "device.end_others", Quiet: true,
				Hidden: []web.Hidden{{Name: "session", Value: allOthers}},
			},
		})
	}
	return s.render(a, http.StatusOK, d)
}

// trustedPart lists the browsers that count for the second factor.
func trustedPart(a *webflow.Visit, list []trustedbrowser.Browser) web.Part {
	part := web.Part{ID: "trusted", Title: web.Say("device.trusted"), Text: web.Say("device.trusted.text")}
	for _, b := range list {
		rec := b.Record
		seen := web.Say("device.seen", "time", rec.Used)
		if rec.Address != "" {
			seen = web.Say("device.seen_at", "time", rec.Used, "address", rec.Address)
		}
		part.Rows = append(part.Rows, web.Row{
			Icon: "device", Title: webflow.AgentText(rec.Agent), Details: []web.Text{web.Say("device.trusted.until", "time", rec.ExpiresAt), seen},
			Actions: []web.Action{{
				Label: "device.trusted.end", URL: webflow.DevicesPath, CSRF: a.CSRF,
				Fields: []web.Hidden{{Name: "trusted", Value: b.ID}},
			}},
		})
	}
	return part
}

// endTrust ends the trust in one browser of the person.
func (s *Service) endTrust(a *webflow.Visit, id string) error {
	ev, err := s.deps.Person.NewEvents(s.originOf(a), trustedbrowser.Ended)
	if err != nil {
		return err
	}
	now := s.deps.Now()
	return s.deps.Store.Update(a.Context(), func(tx storage.Tx) error {
		if err := s.recheck(tx, a, now); err != nil {
			return err
		}
		_, err := s.deps.Trusted.Forget(tx, a.SignIn.Session.PersonID, id, now, a.SignIn.OwnEvent(ev[0], "by the person"))
		return err
	})
}

func (s *Service) deviceRow(open session.Session) web.Row {
	rec := open.Record
	row := web.Row{Icon: "device", Title: webflow.AgentText(rec.Agent), Details: []web.Text{web.Say("device.since", "time", rec.OpenedAt())}}
	if rec.Address != "" {
		row.Details = append(row.Details, web.Say("device.seen_at", "time", rec.Seen, "address", rec.Address))
	} else {
		row.Details = append(row.Details, web.Say("device.seen", "time", rec.Seen))
	}
	if rec.IsBound() {
		row.Details = append(row.Details, web.Say("device.bound"))
	}
	if rec.Provider != session.LocalProvider && rec.Provider != "" {
		row.Details = append(row.Details, web.Say("device.provider", "provider", s.deps.Federation.ProviderName(rec.Provider)))
	}
	return row
}

// handleDevices serves POST /account/devices: it ends one session of the person, all but this one, or the trust in a
// browser.
func (s *Service) handleDevices(q *webflow.Request) error {
	a, err := s.deps.Front.VisitPost(q, webflow.DevicesPath)
	if err != nil {
		return err
	}
	done := "ended"
	switch which, trust := q.PostForm.Get("session"), q.PostForm.Get("trusted"); {
	case trust != "":
		done, err = "untrusted", s.endTrust(a, trust)
	case which != allOthers:
		err = s.endOne(a, which)
	default:
		err = s.endOthers(a)
	}
	switch {
	case errors.Is(err, person.ErrMismatch):
		return q.Redirect(webflow.DevicesPath)
	case err != nil:
		return err
	}
	return q.Redirect(doneURL(webflow.DevicesPath, done))
}

// endOne ends the session with this id, if it is another one of the person.
func (s *Service) endOne(a *webflow.Visit, id string) error {
	ev, err := s.deps.Person.NewEvents(s.originOf(a), webflow.SignedOut)
	if err != nil {
		return err
	}
	now := s.deps.Now()
	return s.deps.Store.Update(a.Context(), func(tx storage.Tx) error {
		if err := s.recheck(tx, a, now); err != nil {
			return err
		}
		ended, err := s.endSessions(tx, a, func(o session.Session) bool { return o.ID == id })
		if err != nil || ended == 0 { // ended already
			return err
		}
		e := a.SignIn.OwnEvent(ev[0], "from another browser")
		e.SessionID = id
		return s.deps.Events.Append(tx, e)
	})
}

// endOthers ends all other sessions of the person. Someone who has stolen the cookie of this browser can have made a
// link and would stay signed in, so this session gets a new cookie and the link is revoked.
func (s *Service) endOthers(a *webflow.Visit) error {
	ev, err := s.deps.Person.NewEvents(s.originOf(a), person.SessionsEnded)
	if err != nil {
		return err
	}
	token, err := secret.NewToken(s.deps.Random, secret.Session)
	if err != nil {
		return err
	}
	now, own := s.deps.Now(), session.Record{}
	err = s.deps.Store.Update(a.Context(), func(tx storage.Tx) error {
		if err := s.recheck(tx, a, now); err != nil {
			return err
		}
		ended, err := s.endSessions(tx, a, func(session.Session) bool { return true })
		if err != nil {
			return err
		}
		if own, err = s.deps.Session.Renew(tx, a.SignIn.ID, token); err != nil {
			return err
		}
		if err := trustedbrowser.EndAll(tx, a.SignIn.Session.PersonID); err != nil {
			return err
		}
		if err := revokeOwnLink(tx, a.SignIn.Session.PersonID, now); err != nil || ended == 0 {
			return err
		}
		return s.deps.Events.Append(tx, a.SignIn.OwnEvent(ev[0], "all other browsers"))
	})
	if err == nil {
		s.deps.Session.SetCookie(a.W, token, own, now)
	}
	return err
}

// endSessions ends the other sessions of the person that which selects, and returns their number. Those are among them
// that do not count now, and would count again.
func (s *Service) endSessions(tx storage.Tx, a *webflow.Visit, which func(session.Session) bool) (ended int, err error) {
	list, err := session.Stored(tx, a.SignIn.Session.PersonID)
	if err != nil {
		return 0, err
	}
	for _, o := range list {
		if o.ID == a.SignIn.ID || !which(o) {
			continue
		}
		if err := s.deps.Session.End(tx, o.ID, o.Record); err != nil {
			return ended, err
		}
		ended++
	}
	return ended, nil
}
