package console

import (
	"net/url"
	"slices"

	"github.com/gatehouse-id/gatehouse/admin/console/layout"
	"github.com/gatehouse-id/gatehouse/identity/webflow"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/web"
	"github.com/gatehouse-id/gatehouse/storage"
)

const livePath = "/events/live"

// liveScreen is the stream of new events that the live page of events reads. A person who opens its address is led
// to that page.
func (c *Console) liveScreen() *layout.Screen {
	return &layout.Screen{
		Name: "events", Path: livePath, Role: layout.Viewer, Feed: c.feedEvents,
		Show: func(v *layout.Visit) (*web.Console, error) {
			q := liveQuery(v, nil)
			q.Set("live", "1")
			if err := v.Redirect(layout.Root + "/events?" + q.Encode()); err != nil {
				return nil, err
			}
			return nil, webflow.ErrAnswered
		},
	}
}

// liveQuery is the filter of a page of events for a stream that begins at a place.
func liveQuery(v *layout.Visit, at audit.Cursor) url.Values {
	q := v.URL.Query()
	for _, name := range []string{layout.SinceParam, "done", "after", "live"} {
		q.Del(name)
	}
	if len(at) > 0 {
		q.Set("after", at.String())
	}
	return q
}

// feedEvents tells of the events that the filter selects and that were stored after the place that the page knows, or
// that the browser has come to. Without one it begins now.
func (c *Console) feedEvents(v *layout.Visit) (layout.Feed, error) {
	s, wrong, err := c.eventSearch(v)
	if err != nil {
		return nil, err
	}
	if wrong != "" {
		return nil, webflow.NotFound()
	}
	s.Following = true
	if id := v.Header.Get("Last-Event-ID"); id != "" {
		if s.Behind, err = audit.ParseCursor(id); err != nil {
			s.Behind = nil
		}
	}
	return func(v *layout.Visit) (m layout.Message, err error) {
		var list []audit.Numbered
		var next audit.Cursor
		var names map[string]string
		err = c.Store.View(v.Context(), func(tx storage.Tx) (err error) {
			if len(s.Behind) == 0 {
				next, err = s.Last(tx)
			} else {
				list, next, names, err = c.Manage.Events(tx, s)
			}
			return err
		})
		if err != nil {
			return m, err
		}
		if s.Behind = next; len(list) == 0 {
			return m, nil
		}
		slices.Reverse(list)
		m.ID, m.Name = s.Behind.String(), "rows"
		m.Data, err = c.Pages.Rows(v.Request.Request, v.SignIn.Locales(), c.eventTable(list, names, true))
		return m, err
	}, nil
}
