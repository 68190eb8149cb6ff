package account

import (
	"errors"
	"net/http"
	"slices"

	"github.com/gatehouse-id/gatehouse/identity/front"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/session"
	"github.com/gatehouse-id/gatehouse/internal/page"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

// maxDevices is how many sessions a page shows. More than these are ended together.
const maxDevices = 50

// showDevices serves GET /account/devices: the browsers in which the person is signed in.
func (s *Service) showDevices(w http.ResponseWriter, r *http.Request) {
	a, ok := s.front.Guard(w, r, front.DevicesPath)
	if !ok {
		return
	}
	var list []session.Live
	now := s.now()
	err := s.store.View(r.Context(), func(tx storage.Tx) (err error) {
		list, err = s.session.OpenSessions(tx, a.Si.Session.PersonID, a.Si.Session.Epoch, now)
		return err
	})
	if err != nil {
		s.front.Fail(w, r, err, front.DevicesPath)
		return
	}
	sessions := page.Part{}
	for _, open := range list {
		row := page.Row{Icon: "device", Title: front.AgentText(open.Rec.Agent), Details: []page.Text{page.Say("device.since", "time", open.Rec.OpenedAt())}}
		if open.Rec.Address != "" {
			row.Details = append(row.Details, page.Say("device.seen_at", "time", open.Rec.Seen, "address", open.Rec.Address))
		} else {
			row.Details = append(row.Details, page.Say("device.seen", "time", open.Rec.Seen))
		}
		if open.Rec.Provider != session.LocalProvider && open.Rec.Provider != "" {
			row.Details = append(row.Details, page.Say("device.provider", "provider", s.federation.ProviderName(open.Rec.Provider)))
		}
		if open.ID == a.Si.ID {
			row.Mark = page.Say("device.this")
			sessions.Rows = append([]page.Row{row}, sessions.Rows...)
			continue
		}
		row.Actions = []page.Action{{Label: "device.end", URL: front.DevicesPath, CSRF: a.Csrf, Fields: []page.Hidden{{Name: "session", Value: open.ID}}}}
		if len(sessions.Rows) < maxDevices {
			sessions.Rows = append(sessions.Rows, row)
		}
	}
	d := page.Dashboard{Key: "devices", Parts: append([]page.Part{sessions}, anotherDevicePart(a)...)}
	if len(list) > 1 {
		d.Parts = append(d.Parts, page.Part{ID: "others", Title: page.Say("device.others"), Text: page.Say("device.others.text"), Form: &page.PartForm{
			Action: front.DevicesPath, CSRF: a.Csrf, Submit: "device.end_others", Quiet: true, Hidden: []page.Hidden{{Name: "session", Value: "others"}},
		}})
	}
	s.front.RenderAccount(w, r, a, http.StatusOK, d)
}

// handleDevices serves POST /account/devices: it ends one session of the person, or all but this one.
func (s *Service) handleDevices(w http.ResponseWriter, r *http.Request) {
	a, ok := s.front.GuardPost(w, r, front.DevicesPath)
	if !ok {
		return
	}
	which := r.PostForm.Get("session")
	ev, err := s.person.NewEvents(s.origin(r), front.SignedOut, person.SessionsEnded)
	now, token, own := s.now(), "", session.Record{}
	if err == nil && which == "others" {
		token, err = secret.NewToken(s.random, secret.Session)
	}
	if err == nil {
		err = s.store.Update(r.Context(), func(tx storage.Tx) error {
			if err := s.still(tx, a); err != nil {
				return err
			}
			list, err := s.session.OpenSessions(tx, a.Si.Session.PersonID, a.Si.Session.Epoch, now)
			if err != nil {
				return err
			}
			list = slices.DeleteFunc(list, func(o session.Live) bool { return o.ID == a.Si.ID || which != "others" && o.ID != which })
			for _, o := range list {
				if err := s.session.End(tx, o.ID, o.Rec); err != nil {
					return err
				}
			}
			if which == "others" { // whoever has taken the cookie of this browser is elsewhere too, and may have made a link
				if own, err = s.session.Renew(tx, a.Si.ID, token); err != nil {
					return err
				}
				if err := forgetOwnLink(tx, a.Si.Session.PersonID, now); err != nil {
					return err
				}
			}
			switch {
			case len(list) == 0: // what was wanted
				return nil
			case which == "others":
				return s.events.Append(tx, a.Si.OwnEvent(ev[1], "all other browsers"))
			}
			e := a.Si.OwnEvent(ev[0], "from another browser")
			e.SessionID = list[0].ID
			return s.events.Append(tx, e)
		})
	}
	switch {
	case errors.Is(err, person.ErrMismatch):
		s.front.Redirect(w, r, front.DevicesPath)
	case err != nil:
		s.front.Fail(w, r, err, front.DevicesPath)
	default:
		if which == "others" {
			s.session.SetSession(w, token, own, now)
		}
		s.front.Redirect(w, r, front.DoneURL(front.DevicesPath, "ended"))
	}
}
