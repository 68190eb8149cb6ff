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
	activityPage = 20   // events of a page
	activityLook = 400  // events that are looked at for one page, once there is something on it
	activityDeep = 5000 // how far back the pages go
)

// quiet are kinds of events that happen all the time without the person doing anything.
var quiet = []string{"token.AccessTokenIssuedEvent", "token.AccessTokenRefreshedEvent", "token.AccessTokenRevokedEvent"}

// activity returns events of a person from the newest but offset on, and the offset of those after them, 0 where there are none.
func activity(tx storage.Tx, person string, offset int) (list []event.Event, next int, err error) {
	for looked := 0; looked < activityLook || len(list) == 0 && offset <= activityDeep; {
		found, total, err := event.Find(tx, event.Query{Person: person, Limit: activityPage, Offset: offset})
		if err != nil {
			return nil, 0, err
		}
		for _, e := range found {
			if len(list) == activityPage {
				return list, offset, nil
			}
			offset, looked = offset+1, looked+1
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

// showActivity serves GET /account/activity?from=…: what has happened to the account, the newest first.
func (s *Service) showActivity(w http.ResponseWriter, r *http.Request) {
	a, ok := s.front.Guard(w, r, front.ActivityPath)
	if !ok {
		return
	}
	from, err := strconv.Atoi(r.URL.Query().Get("from"))
	if err != nil || from < 0 || from > activityDeep {
		from = 0
	}
	part, next := page.Part{Empty: "activity.none"}, 0
	err = s.store.View(r.Context(), func(tx storage.Tx) error {
		list, n, err := activity(tx, a.Si.Session.PersonID, from)
		if err != nil {
			return err
		}
		part.Rows, next = nil, n
		for _, e := range list {
			row, err := s.activityRow(tx, e)
			if err != nil {
				return err
			}
			part.Rows = append(part.Rows, row)
		}
		return nil
	})
	if err != nil {
		s.front.Fail(w, r, err, front.ActivityPath)
		return
	}
	if from > 0 {
		part.Links = append(part.Links, page.Action{Label: "activity.newest", URL: front.ActivityPath})
	}
	if next > 0 && next <= activityDeep {
		part.Links = append(part.Links, page.Action{Label: "activity.older", URL: front.ActivityPath + "?" + url.Values{"from": {strconv.Itoa(next)}}.Encode()})
	}
	s.front.RenderAccount(w, r, a, http.StatusOK, page.Dashboard{Key: "activity", Parts: []page.Part{part}})
}

// byAnother tells whether somebody else than the person did it, whose address is none of theirs to know.
func byAnother(e event.Event) bool { return e.Actor != "" && e.Actor != e.PersonID }

// activityRow is an event in words. One that there are no words for is called what others are told.
func (s *Service) activityRow(tx storage.Tx, e event.Event) (page.Row, error) {
	name := ""
	if e.ClientID != "" {
		var err error
		if name, err = s.apps.ApplicationName(tx, e.ClientID); err != nil {
			return page.Row{}, err
		}
	}
	row := page.Row{Icon: activityIcon(e.Type), Name: e.Name, Title: page.Say("activity." + e.Type)}
	switch {
	case byAnother(e):
		row.Details = []page.Text{page.Say("activity.at", "time", e.Occurred), page.Say("activity.by_other")}
	case e.ClientIP != "" && e.UserAgent != event.Self.UserAgent:
		row.Details = []page.Text{page.Say("activity.from", "time", e.Occurred, "address", e.ClientIP), front.AgentText(e.UserAgent)}
	default:
		row.Details = []page.Text{page.Say("activity.at", "time", e.Occurred)}
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
	case "session":
		return "device"
	case "consent", "token":
		return "app"
	}
	return "person"
}
