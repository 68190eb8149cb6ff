package account

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/gatehouse-id/gatehouse/identity/webflow"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/web"
	"github.com/gatehouse-id/gatehouse/storage"
)

const (
	activityPage = 20   // events on one page
	activityScan = 400  // events that are read for one page that has at least one event
	activityDeep = 5000 // how many events the pages go back
)

// routineEvents are types of events that happen all the time without the person doing anything.
var routineEvents = []string{
	"token.AccessTokenIssuedEvent", "token.TokenExchangedEvent", "token.TransactionTokenIssuedEvent", "token.AccessTokenRefreshedEvent",
	"token.AccessTokenRevokedEvent", "token.AppPasswordUsedEvent",
}

// readActivity returns events of a person, newest first from offset on, and the offset of the next older ones. next is
// 0 at the end.
func readActivity(tx storage.Tx, person string, offset int) (list []audit.Event, next int, err error) {
	for read := 0; read < activityScan || len(list) == 0 && offset <= activityDeep; {
		found, total, err := audit.Find(tx, audit.Query{Person: person, Limit: activityPage, Offset: offset})
		if err != nil {
			return nil, 0, err
		}
		for _, e := range found {
			if len(list) == activityPage {
				return list, offset, nil
			}
			offset, read = offset+1, read+1
			if e.PersonID == person && !slices.Contains(routineEvents, e.Type) {
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
func (s *Service) showActivity(q *webflow.Request) error {
	a, err := s.deps.Front.VisitOf(q, webflow.ActivityPath)
	if err != nil {
		return err
	}
	from, err := strconv.Atoi(q.URL.Query().Get("from"))
	if err != nil || from < 0 || from > activityDeep {
		from = 0
	}
	part, next := web.Part{Empty: "activity.none"}, 0
	err = s.deps.Store.View(q.Context(), func(tx storage.Tx) error {
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
		part.Links = append(part.Links, web.Action{Label: "activity.newest", URL: webflow.ActivityPath})
	}
	if next > 0 && next <= activityDeep {
		older := webflow.ActivityPath + "?" + url.Values{"from": {strconv.Itoa(next)}}.Encode()
		part.Links = append(part.Links, web.Action{Label: "activity.older", URL: older})
	}
	return s.render(a, http.StatusOK, web.Dashboard{Key: "activity", Parts: []web.Part{part}})
}

// byAnother reports whether an event was caused by someone other than the person, who must not learn that someone's
// address.
func byAnother(e audit.Event) bool { return e.Actor != "" && e.Actor != e.PersonID }

// activityRow describes an event. A type without a message of its own is shown by its name.
func (s *Service) activityRow(tx storage.Tx, e act) (web.Row, error) {
	name := ""
	if e.application != "" {
		var err error
		if name, err = s.apps.ApplicationName(tx, e.application); err != nil {
			return web.Row{}, err
		}
	}
	row := web.Row{Icon: activityIcon(e.Type), Name: e.Name, Title: web.Say("activity." + e.Type)}
	switch {
	case byAnother(e.Event):
		row.Details = []web.Text{web.Say("activity.at", "time", e.Occurred), web.Say("activity.by_other")}
	case e.ClientIP != "" && e.UserAgent != audit.Self.UserAgent:
		row.Details = []web.Text{web.Say("activity.from", "time", e.Occurred, "address", e.ClientIP), webflow.AgentText(e.UserAgent)}
	default:
		row.Details = []web.Text{web.Say("activity.at", "time", e.Occurred)}
	}
	if provider, ok := strings.CutPrefix(e.Reason, webflow.SignedInBy); ok {
		row.Details = append(row.Details, web.Say("device.provider", "provider", provider))
	} else if e.Reason == webflow.ByPasskey {
		row.Details = append(row.Details, web.Say("activity.passkey"))
	}
	if name != "" {
		row.Details = append(row.Details, web.Say("activity.client", "client", name))
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
