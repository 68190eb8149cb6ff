package account

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/gatehouse-id/gatehouse/identity/front"
	"github.com/gatehouse-id/gatehouse/internal/event"
	"github.com/gatehouse-id/gatehouse/internal/page"
	"github.com/gatehouse-id/gatehouse/storage"
)

const (
	activityPage = 20   // events on one page
	activityScan = 400  // events that are read for one page that has at least one event
	activityDeep = 5000 // how many events the pages go back
)

// quiet are types of events that happen all the time without the person doing anything.
var quiet = []string{"token.AccessTokenIssuedEvent", "token.TokenExchangedEvent", "token.AccessTokenRefreshedEvent", "token.AccessTokenRevokedEvent", "token.AppPasswordUsedEvent"}

// readActivity returns events of a person, newest first from offset on, and the offset of the next older ones. next is
// 0 at the end.
func readActivity(tx storage.Tx, person string, offset int) (list []event.Event, next int, err error) {
	for read := 0; read < activityScan || len(list) == 0 && offset <= activityDeep; {
		found, total, err := event.Find(tx, event.Query{Person: person, Limit: activityPage, Offset: offset})
		if err != nil {
			return nil, 0, err
		}
		for _, e := range found {
			if len(list) == activityPage {
				return list, offset, nil
			}
			offset, read = offset+1, read+1
			if e.PersonID == person && !slices.Contains(quiet, e.Type) {
				list = append(list, e)
			}
		}
		if len(found) == 0 || offset >= total {
			return list, 0, nil
		}
	}
	return list, offset, nil
}

// showActivity serves GET /account/activity?from=…: what has happened to the account, newest first.
func (s *Service) showActivity(q *front.Request) error {
	a, err := s.front.VisitOf(q, front.ActivityPath)
	if err != nil {
		return err
	}
	from, err := strconv.Atoi(q.URL.Query().Get("from"))
	if err != nil || from < 0 || from > activityDeep {
		from = 0
	}
	part, next := page.Part{Empty: "activity.none"}, 0
	err = s.store.View(q.Context(), func(tx storage.Tx) error {
		list, n, err := readActivity(tx, a.SignIn.Session.PersonID, from)
		if err != nil {
			return err
		}
		part.Rows, next = nil, n
		for _, e := range actsOf(list) {
			row, err := s.activityRow(tx, e)
			if err != nil {
				return err
			}
			part.Rows = append(part.Rows, row)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if from > 0 {
		part.Links = append(part.Links, page.Action{Label: "activity.newest", URL: front.ActivityPath})
	}
	if next > 0 && next <= activityDeep {
		older := front.ActivityPath + "?" + url.Values{"from": {strconv.Itoa(next)}}.Encode()
		part.Links = append(part.Links, page.Action{Label: "activity.older", URL: older})
	}
	return s.render(a, http.StatusOK, page.Dashboard{Key: "activity", Parts: []page.Part{part}})
}

// byAnother tells whether an event was caused by somebody other than the person, who must not learn that somebody's
// address.
func byAnother(e event.Event) bool { return e.Actor != "" && e.Actor != e.PersonID }

// activityRow describes an event. A type without a message of its own is shown by its name.
func (s *Service) activityRow(tx storage.Tx, e act) (page.Row, error) {
	name := ""
	if e.application != "" {
		var err error
		if name, err = s.apps.ApplicationName(tx, e.application); err != nil {
			return page.Row{}, err
		}
	}
	row := page.Row{Icon: activityIcon(e.Type), Name: e.Name, Title: page.Say("activity." + e.Type)}
	switch {
	case byAnother(e.Event):
		row.Details = []page.Text{page.Say("activity.at", "time", e.Occurred), page.Say("activity.by_other")}
	case e.ClientIP != "" && e.UserAgent != event.Self.UserAgent:
		row.Details = []page.Text{page.Say("activity.from", "time", e.Occurred, "address", e.ClientIP), front.AgentText(e.UserAgent)}
	default:
		row.Details = []page.Text{page.Say("activity.at", "time", e.Occurred)}
	}
	if provider, ok := strings.CutPrefix(e.Reason, front.SignedInBy); ok {
		row.Details = append(row.Details, page.Say("device.provider", "provider", provider))
	} else if e.Reason == front.ByPasskey {
		row.Details = append(row.Details, page.Say("activity.passkey"))
	}
	if name != "" {
		row.Details = append(row.Details, page.Say("activity.client", "client", name))
	}
	return row, nil
}

func activityIcon(kind string) string {
	switch group, _, _ := strings.Cut(kind, "."); group {
	case "login":
		return "door"
	case "session", "device":
		return "device"
	case "consent", "token":
		return "app"
	}
	return "person"
}
