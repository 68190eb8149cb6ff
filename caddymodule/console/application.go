package console

import (
	"cmp"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/gatehouse-id/gatehouse/authz/client"
	"github.com/gatehouse-id/gatehouse/authz/registry"
	"github.com/gatehouse-id/gatehouse/caddymodule/console/frame"
	"github.com/gatehouse-id/gatehouse/caddymodule/manage"
	"github.com/gatehouse-id/gatehouse/identity/front"
	"github.com/gatehouse-id/gatehouse/internal/event"
	"github.com/gatehouse-id/gatehouse/internal/page"
	"github.com/gatehouse-id/gatehouse/internal/tally"
	"github.com/gatehouse-id/gatehouse/storage"
)

// applicationScreen is one client. Those of the Caddyfile are shown and not changed.
func (c *Console) applicationScreen() *frame.Screen {
	// Who has the secret of a client that provisions people can become anyone.
	may := func(v *frame.Visit) error {
		if slices.Contains(shownClient(v).Scopes, provisioningScope) && v.Role != frame.Owner {
			return frame.Denied("the client provisions people")
		}
		return nil
	}
	return &frame.Screen{
		Name: "application", Path: "/applications/{id}", Role: frame.Viewer, Find: c.findApplication, Show: c.showApplication,
		Acts: []*frame.Act{
			{Name: "edit-client", Role: frame.Operator, May: may, When: func(v *frame.Visit) bool { return shownClient(v).Stored }, Ask: c.askEditClient, Do: c.editClient},
			{Name: "rotate", Role: frame.Operator, May: may, When: hasSecret, Ask: askRotate, Do: c.rotate},
			{Name: "end-old", Role: frame.Operator, Danger: true, When: hasSecret, Do: c.endOld},
			{Name: "disable", Role: frame.Operator, Danger: true, When: func(v *frame.Visit) bool { return shownClient(v).Stored && !shownClient(v).Disabled }, Do: c.disable(true)},
			{Name: "enable", Role: frame.Operator, May: may, When: func(v *frame.Visit) bool { return shownClient(v).Stored && shownClient(v).Disabled }, Do: c.disable(false)},
			{Name: "revoke-client", Role: frame.Operator, Danger: true, Do: c.revokeClient},
			{Name: "remove-client", Role: frame.Operator, Danger: true, When: func(v *frame.Visit) bool { return shownClient(v).Stored }, Do: c.removeClient},
		},
	}
}

func (c *Console) findApplication(v *frame.Visit) error {
	list, err := c.Clients.List(v.Context())
	if err != nil {
		return err
	}
	i := slices.IndexFunc(list, func(a registry.Info) bool { return a.ID == v.PathValue("id") })
	if i < 0 {
		return front.NotFound()
	}
	v.About, v.Called = &list[i], cmp.Or(list[i].Name, list[i].ID)
	return nil
}

// hasSecret tells whether the client has a secret that is made here.
func hasSecret(v *frame.Visit) bool {
	return shownClient(v).Stored && !shownClient(v).Public && slices.Contains([]string{"", "post", "basic"}, shownClient(v).AuthMethod)
}

func (c *Console) showApplication(v *frame.Visit) (*page.Console, error) {
	a := shownClient(v)
	out := &page.Console{Name: v.Called, Up: &page.Up{Label: page.Say("console.applications.title"), URL: frame.Root + "/applications"}, Tags: []page.Cell{enabledCell(a), originCell(a.Origin)}}
	kind := "console.client.confidential"
	if a.Public {
		kind = "console.client.public"
	}
	facts := []page.ConsoleFact{
		{Label: "console.field.client_id", Cells: []page.Cell{{Name: a.ID, Code: true}}},
		{Label: "console.field.client_kind", Cells: []page.Cell{{Text: page.Say(kind)}}},
		{Label: "console.field.grants", Cells: []page.Cell{frame.OrNone(strings.Join(a.Grants, ", "))}},
		{Label: "console.field.scopes", Cells: []page.Cell{frame.OrNone(strings.Join(a.Scopes, ", "))}},
	}
	if a.Origin == registry.OriginConfiguration {
		out.Lead = page.Say("console.client.declared")
		if place := c.PlaceOf("client " + a.ID); place != "" {
			facts = append(facts, page.ConsoleFact{Label: "console.field.origin", Cells: []page.Cell{{Name: place, Code: true}}})
		}
	}
	if !a.CreatedAt.IsZero() {
		facts = append(facts, page.ConsoleFact{Label: "console.column.created", Cells: []page.Cell{{Text: page.Say("console.time", "time", a.CreatedAt)}}})
	}
	used, err := c.usedFacts(v, a.ID)
	if err != nil {
		return nil, err
	}
	facts = append(facts, used...)
	uris := page.ConsoleFact{Label: "console.field.redirect_uris"}
	for _, u := range a.RedirectURIs {
		uris.Cells = append(uris.Cells, page.Cell{Name: u, Code: true})
	}
	if len(uris.Cells) > 0 {
		facts = append(facts, uris)
	}
	out.Parts = []page.ConsolePart{
		{Facts: facts, Actions: append(v.Buttons(), page.Action{Label: "console.preview.title", URL: previewPath(a.ID)})},
		{ID: "caddyfile", Title: page.Say("console.client.source"), Text: page.Say("console.client.source.text"), Source: c.SourceOf(&a.Client)},
	}
	return out, nil
}

// usedByPeople are the measures that say when an application was last used for a person.
var usedByPeople = []string{event.CountSignIn, event.CountActive}

// usedFacts say when an application was last used for a person, when it has shown who it is and from where, and in how
// many sessions it has tokens, from what is counted and listed anyway.
func (c *Console) usedFacts(v *frame.Visit, id string) ([]page.ConsoleFact, error) {
	last, open, called := frame.OrNone(""), page.Cell{}, tally.Last{}
	err := c.Store.View(v.Context(), func(tx storage.Tx) error {
		last, open, called = frame.OrNone(""), page.Cell{}, tally.Last{}
		var at time.Time
		for _, measure := range usedByPeople {
			l, _, err := tally.LastOf(tx, measure, tally.Application, id)
			if err != nil {
				return err
			}
			if l.At.After(at) {
				at = l.At
			}
		}
		if !at.IsZero() {
			last = page.Cell{Text: page.Say("console.time", "time", at)}
		}
		n, more, err := c.Manage.CountSessions(tx, manage.SessionFilter{Application: id}, maxCounted, v.Now)
		if err != nil {
			return err
		}
		key := "console.count"
		if more {
			key = "console.count.more"
		}
		if open.Text = page.Say(key, "n", n); n > 0 {
			open.URL = frame.With(frame.Root+"/sessions", "client", id)
		}
		if called, _, err = tally.LastOf(tx, tally.ClientCalls, tally.Application, id); err != nil {
			return err
		}
		return nil
	})
	out := []page.ConsoleFact{{Label: "console.field.last_used", Cells: []page.Cell{last}}}
	if !called.At.IsZero() {
		out = append(out, page.ConsoleFact{Label: "console.field.client_called", Cells: []page.Cell{{Text: page.Say("console.time", "time", called.At), Note: called.Address}}})
	}
	return append(out, page.ConsoleFact{Label: "console.field.client_sessions", Cells: []page.Cell{open}}), err
}

func askRotate(v *frame.Visit) (frame.Question, error) {
	return frame.Question{
		Hidden: []page.Hidden{{Name: "seen", Value: shownClient(v).SecretsMark}},
		Fields: []page.Field{{Name: "keep", Type: "checkbox", Checked: true, Hint: "console.field.keep.hint"}},
	}, nil
}

// rotate makes a new secret. The one of before stays valid if the form says so, until it is ended.
func (c *Console) rotate(v *frame.Visit, in url.Values) (frame.Result, error) {
	secret, err := c.Clients.ReplaceSecret(v.Context(), shownClient(v).ID, in.Has("keep"), frame.Part(in, "seen"), v.Actor())
	if err != nil {
		return frame.Result{}, err
	}
	return c.secretPage(shownClient(v).ID, secret), nil
}

func (c *Console) endOld(v *frame.Visit, _ url.Values) (frame.Result, error) {
	return frame.Result{}, c.Clients.EndOldSecrets(v.Context(), shownClient(v).ID, v.Actor())
}

func (c *Console) disable(to bool) func(*frame.Visit, url.Values) (frame.Result, error) {
	return func(v *frame.Visit, _ url.Values) (frame.Result, error) {
		return frame.Result{}, c.Clients.Change(v.Context(), shownClient(v).ID, "disabled", v.Actor(), func(n *client.Client) error {
			n.Disabled = to
			return nil
		})
	}
}

func (c *Console) revokeClient(v *frame.Visit, _ url.Values) (frame.Result, error) {
	return frame.Result{}, c.Clients.Revoke(v.Context(), shownClient(v).ID, v.Actor())
}

func (c *Console) removeClient(v *frame.Visit, _ url.Values) (frame.Result, error) {
	return frame.Result{To: frame.Root + "/applications"}, c.Clients.Remove(v.Context(), shownClient(v).ID, v.Actor())
}
