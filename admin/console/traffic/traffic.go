// Package traffic has the screens of the admin console for the calls of clients and people: who is near a limit, how
// many there were, and what was called.
package traffic

import (
	"errors"
	"net/url"
	"time"

	"github.com/gatehouse-id/gatehouse/admin"
	"github.com/gatehouse-id/gatehouse/admin/console/layout"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/webflow"
	"github.com/gatehouse-id/gatehouse/internal/web"
	"github.com/gatehouse-id/gatehouse/storage"
)

// traffic is the screens.
type traffic struct {
	*layout.Frame

	Manage *admin.Service
}

// Screens returns the screens, in the order of the navigation.
func Screens(f *layout.Frame, m *admin.Service) []*layout.Screen {
	t := &traffic{f, m}
	return []*layout.Screen{t.limitsScreen(), t.usageScreen(), t.usageFileScreen(), t.callsScreen(), t.callsFileScreen()}
}

func personPath(id string) string { return layout.Root + "/persons/" + url.PathEscape(id) }

func applicationPath(id string) string { return layout.Root + "/applications/" + url.PathEscape(id) }

func clientCell(id string) web.Cell {
	if id == "" {
		return web.Cell{Name: "—"}
	}
	return web.Cell{Name: id, URL: applicationPath(id)}
}

// personNamed returns the id of a person by a username, an address or an id. A removed person has an id. ok false: no
// one is known by it.
func (t *traffic) personNamed(v *layout.Visit, who string) (id string, ok bool, err error) {
	p, err := t.Identity.Person.Person(v.Context(), who)
	switch {
	case err == nil:
		return p.ID, true, nil
	case errors.Is(err, person.ErrNoPerson):
		return who, person.IsID(who), nil
	}
	return "", false, err
}

// names returns the usernames of persons by their ids.
func (t *traffic) names(v *layout.Visit, ids []string) (out map[string]string, err error) {
	err = t.Store.View(v.Context(), func(tx storage.Tx) (err error) {
		out, err = t.Manage.Names(tx, ids)
		return err
	})
	return out, err
}

const dayForm = "2006-01-02"

// days reads the days from and to of an address, both included. wrong is the field that is no day.
func days(q url.Values) (since, until time.Time, wrong string) {
	for name, to := range map[string]*time.Time{"from": &since, "to": &until} {
		text := q.Get(name)
		if text == "" {
			continue
		}
		at, err := time.Parse(dayForm, text)
		if err != nil {
			return since, until, name
		}
		if *to = at; name == "to" {
			*to = at.AddDate(0, 0, 1)
		}
	}
	return since, until, ""
}

// fill gives the fields of a filter their values, and marks the wrong one. It reports whether any has a value.
func fill(fields []web.Field, q url.Values, wrong string) (filtered bool) {
	for i := range fields {
		f := &fields[i]
		if f.Value = q.Get(f.Name); f.Value != "" {
			filtered = true
		}
		if f.Name == wrong {
			f.Problem = "console.problem.filter"
		}
	}
	return filtered
}

// filter fills the fields of a page's filter from its address, and offers what it selects as a file. It reports whether
// any field has a value.
func filter(v *layout.Visit, out *web.Console, wrong string) (filtered bool) {
	if filtered = fill(out.Filter.Fields, v.URL.Query(), wrong); filtered {
		out.Filter.Clear = v.Path()
	}
	if wrong == "" {
		out.Actions = []web.Action{fileOf(v)}
	}
	return filtered
}

// fileOf leads to the list as a file, with the same filter.
func fileOf(v *layout.Visit) web.Action {
	q := v.URL.Query()
	for _, name := range []string{layout.SinceParam, "done", "after"} {
		q.Del(name)
	}
	return web.Action{Label: "console.export", URL: v.Path() + ".csv?" + q.Encode(), Quiet: true}
}

// redirect answers with a redirect to a page of the console.
func redirect(v *layout.Visit, to string) error {
	if err := v.Redirect(to); err != nil {
		return err
	}
	return webflow.ErrAnswered
}
