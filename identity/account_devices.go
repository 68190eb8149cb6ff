package identity

import (
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/gatehouse-id/gatehouse/internal/event"
	"github.com/gatehouse-id/gatehouse/internal/page"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

// openSession is a live session of a person.
type openSession struct {
	id  string
	rec sessionRecord
}

// openSessions returns the live sessions of a person, the one used last first.
func (s *Service) openSessions(tx storage.Tx, personID string, epoch int64, now time.Time) (out []openSession, err error) {
	for e, err := range sessionsOf.Scan(tx, storage.Range{Prefix: storage.Prefix(personID)}) {
		if err != nil {
			return nil, err
		}
		id := storage.Parts(e.Key)[1]
		rec, err := s.live(tx, id, now)
		if errors.Is(err, storage.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if rec.PersonID == personID && rec.Epoch == epoch {
			out = append(out, openSession{id, rec})
		}
	}
	slices.SortStableFunc(out, func(a, b openSession) int { return b.rec.Seen.Compare(a.rec.Seen) })
	return out, nil
}

// from keeps with a session where it was used from.
func (r *sessionRecord) from(o event.Origin) { r.Address, r.Agent = o.ClientIP, keptAgent(o.UserAgent) }

// agentText is a browser in words.
func agentText(header string) page.Text {
	switch a := readAgent(header); {
	case a.Browser != "" && a.System != "":
		return page.Say("device.browser", "browser", a.Browser, "system", a.System)
	case a.Browser != "" || a.System != "":
		return page.Say(a.Browser + a.System)
	}
	return page.Say("device.unknown")
}

// maxDevices is how many sessions a page shows. More than these are ended together.
const maxDevices = 50

// showDevices serves GET /account/devices: the browsers in which the person is signed in.
func (s *Service) showDevices(w http.ResponseWriter, r *http.Request) {
	a, ok := s.guard(w, r, devicesPath)
	if !ok {
		return
	}
	var list []openSession
	now := s.Now()
	err := s.Store.View(r.Context(), func(tx storage.Tx) (err error) {
		list, err = s.openSessions(tx, a.si.session.PersonID, a.si.session.Epoch, now)
		return err
	})
	if err != nil {
		s.fail(w, r, err, devicesPath)
		return
	}
	sessions := page.Part{}
	for _, open := range list {
		row := page.Row{Icon: "device", Title: agentText(open.rec.Agent), Details: []page.Text{page.Say("device.since", "time", open.rec.opened())}}
		if open.rec.Address != "" {
			row.Details = append(row.Details, page.Say("device.seen_at", "time", open.rec.Seen, "address", open.rec.Address))
		} else {
			row.Details = append(row.Details, page.Say("device.seen", "time", open.rec.Seen))
		}
		if open.rec.Provider != provider && open.rec.Provider != "" {
			row.Details = append(row.Details, page.Say("device.provider", "provider", s.providerName(open.rec.Provider)))
		}
		if open.id == a.si.id {
			row.Mark = page.Say("device.this")
			sessions.Rows = append([]page.Row{row}, sessions.Rows...)
			continue
		}
		row.Actions = []page.Action{{Label: "device.end", URL: devicesPath, CSRF: a.csrf, Fields: []page.Hidden{{Name: "session", Value: open.id}}}}
		if len(sessions.Rows) < maxDevices {
			sessions.Rows = append(sessions.Rows, row)
		}
	}
	d := page.Dashboard{Key: "devices", Parts: append([]page.Part{sessions}, anotherDevicePart(a)...)}
	if len(list) > 1 {
		d.Parts = append(d.Parts, page.Part{ID: "others", Title: page.Say("device.others"), Text: page.Say("device.others.text"), Form: &page.PartForm{
			Action: devicesPath, CSRF: a.csrf, Submit: "device.end_others", Quiet: true, Hidden: []page.Hidden{{Name: "session", Value: "others"}},
		}})
	}
	s.accountPage(w, r, a, http.StatusOK, d)
}

// handleDevices serves POST /account/devices: it ends one session of the person, or all but this one.
func (s *Service) handleDevices(w http.ResponseWriter, r *http.Request) {
	a, ok := s.guardPost(w, r, devicesPath)
	if !ok {
		return
	}
	which := r.PostForm.Get("session")
	ev, err := s.newEvents(s.Origin(r), signedOut, sessionsEnded)
	now, token, own := s.Now(), "", sessionRecord{}
	if err == nil && which == "others" {
		token, err = secret.NewToken(s.Random, secret.Session)
	}
	if err == nil {
		err = s.Store.Update(r.Context(), func(tx storage.Tx) error {
			if err := s.still(tx, a); err != nil {
				return err
			}
			list, err := s.openSessions(tx, a.si.session.PersonID, a.si.session.Epoch, now)
			if err != nil {
				return err
			}
			list = slices.DeleteFunc(list, func(o openSession) bool { return o.id == a.si.id || which != "others" && o.id != which })
			for _, o := range list {
				if err := s.end(tx, o.id, o.rec); err != nil {
					return err
				}
			}
			if which == "others" { // whoever has taken the cookie of this browser is elsewhere too, and may have made a link
				if own, err = s.renew(tx, a.si.id, token); err != nil {
					return err
				}
				if err := forgetOwnLink(tx, a.si.session.PersonID, now); err != nil {
					return err
				}
			}
			switch {
			case len(list) == 0: // what was wanted
				return nil
			case which == "others":
				return s.Events.Append(tx, a.si.own(ev[1], "all other browsers"))
			}
			e := a.si.own(ev[0], "from another browser")
			e.SessionID = list[0].id
			return s.Events.Append(tx, e)
		})
	}
	switch {
	case errors.Is(err, errMismatch):
		s.redirect(w, r, devicesPath)
	case err != nil:
		s.fail(w, r, err, devicesPath)
	default:
		if which == "others" {
			s.setSession(w, token, own, now)
		}
		s.redirect(w, r, doneURL(devicesPath, "ended"))
	}
}
