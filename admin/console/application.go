package console

import (
	"cmp"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/gatehouse-id/gatehouse/admin"
	"github.com/gatehouse-id/gatehouse/admin/console/layout"
	"github.com/gatehouse-id/gatehouse/authz/client"
	"github.com/gatehouse-id/gatehouse/authz/clientstore"
	"github.com/gatehouse-id/gatehouse/identity/webflow"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/authn"
	"github.com/gatehouse-id/gatehouse/internal/stats"
	"github.com/gatehouse-id/gatehouse/internal/web"
	"github.com/gatehouse-id/gatehouse/storage"
)

// applicationScreen is the page of one client. Clients of the Caddyfile are shown but cannot be changed.
func (c *Console) applicationScreen() *layout.Screen {
	// Anyone with the secret of a client that provisions people can become anyone.
	may := func(v *layout.Visit) error {
		if slices.Contains(shownClient(v).Scopes, provisioningScope) && v.Role != layout.Owner {
			return layout.Denied("the client provisions people")
		}
		return nil
	}
	return &layout.Screen{
		Name: "application", Path: "/applications/{id}", Role: layout.Viewer, Find: c.findApplication, Show: c.showApplication,
		Acts: []*layout.Act{
			{
				Name: "edit-client", Role: layout.Operator, May: may, When: func(v *layout.Visit) bool { return shownClient(v).Stored },
				Ask: c.askEditClient, Do: c.editClient,
			},
			{
				Name: "set-logo", Role: layout.Operator, Hidden: true, Upload: layout.MaxPictureUpload, May: may,
				When: func(v *layout.Visit) bool { return shownClient(v).Stored }, Ask: layout.AskPicture,
				Do: layout.TakePicture(func(v *layout.Visit, raw []byte) error {
					return c.Clients.SetLogo(v.Context(), shownClient(v).ID, raw, v.Actor())
				}),
			},
			{
				Name: "remove-logo", Role: layout.Operator, Hidden: true, May: may,
				When: func(v *layout.Visit) bool { return shownClient(v).Logo != nil },
				Do: func(v *layout.Visit, _ url.Values) (layout.Result, error) {
					return layout.Result{}, c.Clients.RemoveLogo(v.Context(), shownClient(v).ID, v.Actor())
				},
			},
			{Name: "rotate", Role: layout.Operator, May: may, When: hasSecret, Ask: askRotate, Do: c.rotate},
			{Name: "end-old", Role: layout.Operator, Danger: true, When: hasOldSecrets, Do: c.endOld},
			{
				Name: "disable", Role: layout.Operator, Danger: true,
				When: func(v *layout.Visit) bool { return shownClient(v).Stored && !shownClient(v).Disabled }, Do: c.disable(true),
			},
			{
				Name: "enable", Role: layout.Operator, May: may,
				When: func(v *layout.Visit) bool { return shownClient(v).Stored && shownClient(v).Disabled }, Do: c.disable(false),
			},
			{Name: "revoke-client", Role: layout.Operator, Danger: true, Do: c.revokeClient},
			{
				Name: "remove-client", Role: layout.Operator, Danger: true, May: mayRemoveClient,
				When: func(v *layout.Visit) bool { return shownClient(v).Stored }, Do: c.removeClient,
			},
		},
	}
}

func (c *Console) findApplication(v *layout.Visit) error {
	list, err := c.Clients.List(v.Context())
	if err != nil {
		return err
	}
	i := slices.IndexFunc(list, func(a clientstore.Info) bool { return a.ID == v.PathValue("id") })
	if i < 0 {
		return webflow.NotFound()
	}
	v.About, v.Called = &list[i], cmp.Or(list[i].Name, list[i].ID)
	return nil
}

// hasSecret reports whether the client has a secret that is generated here.
func hasSecret(v *layout.Visit) bool {
	return shownClient(v).Stored && !shownClient(v).Public && slices.Contains([]string{"", "post", "basic"}, shownClient(v).AuthMethod)
}

// hasOldSecrets reports whether the client has secrets besides the newest.
func hasOldSecrets(v *layout.Visit) bool { return hasSecret(v) && shownClient(v).OldSecrets > 0 }

func (c *Console) showApplication(v *layout.Visit) (*web.Console, error) {
	a := shownClient(v)
	out := c.applicationPage(a, "console.application.tab")
	out.Actions = v.Buttons()
	kind := "console.client.confidential"
	if a.Public {
		kind = "console.client.public"
	}
	facts := []web.ConsoleFact{
		{Label: "console.field.client_id", Cells: []web.Cell{{Name: a.ID, Code: true}}},
		{Label: "console.field.client_kind", Cells: []web.Cell{{Text: web.Say(kind)}}},
		{Label: "console.field.grants", Cells: []web.Cell{layout.OrNone(strings.Join(a.Grants, ", "))}},
		{Label: "console.field.scopes", Cells: []web.Cell{layout.OrNone(strings.Join(a.Scopes, ", "))}},
	}
	if len(a.Groups) > 0 {
		facts = append(facts, web.ConsoleFact{Label: "console.field.client_groups", Cells: []web.Cell{{Name: strings.Join(a.Groups, ", ")}}})
	}
	if a.Origin == clientstore.OriginConfiguration {
		out.Lead = web.Say("console.client.declared")
		if place := c.PlaceOf("client " + a.ID); place != "" {
			facts = append(facts, web.ConsoleFact{Label: "console.field.origin", Cells: []web.Cell{{Name: place, Code: true}}})
		}
	}
	if !a.CreatedAt.IsZero() {
		facts = append(facts, web.ConsoleFact{
			Label: "console.column.created",
			Cells: []web.Cell{{Text: web.Say("console.time", "time", a.CreatedAt)}},
		})
	}
	facts = append(facts, layout.LinksFact(v, "console.field.client_logo", "set-logo", "remove-logo")...)
	used, active, err := c.usedFacts(v, a.ID)
	if err != nil {
		return nil, err
	}
	out.AtStake = web.Say("console.zone.application", "sessions", active)
	facts = append(facts, used...)
	uris := web.ConsoleFact{Label: "console.field.redirect_uris"}
	for _, u := range a.RedirectURIs {
		uris.Cells = append(uris.Cells, web.Cell{Name: u, Code: true})
	}
	if len(uris.Cells) > 0 {
		facts = append(facts, uris)
	}
	out.Parts = []web.ConsolePart{
		{Facts: facts},
		{ID: "caddyfile", Title: web.Say("console.client.source"), Text: web.Say("console.client.source.text"), Source: c.SourceOf(&a.Client)},
	}
	return out, nil
}

// usedByPeople are the counters that show when an application was last used for a person.
var usedByPeople = []string{audit.CountSignIn, audit.CountActive}

// usedFacts returns when an application was last used for a person, when and from where it last authenticated, and in
// how many sessions it has tokens, from existing counters and lists. active is the number of these sessions in words.
func (c *Console) usedFacts(v *layout.Visit, id string) (out []web.ConsoleFact, active web.Text, err error) {
	last, open, called := layout.OrNone(""), web.Cell{}, stats.Last{}
	err = c.Store.View(v.Context(), func(tx storage.Tx) error {
		last, open, called = layout.OrNone(""), web.Cell{}, stats.Last{}
		var at time.Time
		for _, measure := range usedByPeople {
			l, _, err := stats.LastOf(tx, measure, stats.Application, id)
			if err != nil {
				return err
			}
			if l.At.After(at) {
				at = l.At
			}
		}
		if !at.IsZero() {
			last = web.Cell{Text: web.Say("console.time", "time", at)}
		}
		n, more, err := c.Manage.CountSessions(tx, admin.SessionFilter{Application: id}, maxCounted, v.Now)
		if err != nil {
			return err
		}
		key := "console.count"
		if active = web.Say("console.number.sessions", "n", n); more {
			key, active = "console.count.more", web.Say("console.number.sessions.more", "n", n)
		}
		if open.Text = web.Say(key, "n", n); n > 0 {
			open.URL = layout.With(layout.Root+"/sessions", "client", id)
		}
		if called, _, err = stats.LastOf(tx, stats.ClientCalls, stats.Application, id); err != nil {
			return err
		}
		return nil
	})
	out = []web.ConsoleFact{{Label: "console.field.last_used", Cells: []web.Cell{last}}}
	if !called.At.IsZero() {
		out = append(out, web.ConsoleFact{
			Label: "console.field.client_called",
			Cells: []web.Cell{{Text: web.Say("console.time", "time", called.At), Note: called.Address}},
		})
	}
	return append(out, web.ConsoleFact{Label: "console.field.client_sessions", Cells: []web.Cell{open}}), active, err
}

func askRotate(v *layout.Visit) (layout.Question, error) {
	return layout.Question{
		Hidden: []web.Hidden{{Name: "seen", Value: shownClient(v).SecretsMark}},
		Fields: []web.Field{{Name: "keep", Type: "checkbox", Checked: true, Hint: "console.field.keep.hint"}},
	}, nil
}

// rotate makes a new secret. The previous one stays valid if the form says so, until it is ended.
func (c *Console) rotate(v *layout.Visit, in url.Values) (layout.Result, error) {
	secret, err := c.Clients.ReplaceSecret(v.Context(), shownClient(v).ID, in.Has("keep"), layout.Part(in, "seen"), v.Actor())
	if err != nil {
		return layout.Result{}, err
	}
	return c.secretPage(&shownClient(v).Client, secret), nil
}

func (c *Console) endOld(v *layout.Visit, _ url.Values) (layout.Result, error) {
	return layout.Result{}, c.Clients.EndOldSecrets(v.Context(), shownClient(v).ID, v.Actor())
}

func (c *Console) disable(to bool) func(*layout.Visit, url.Values) (layout.Result, error) {
	return func(v *layout.Visit, _ url.Values) (layout.Result, error) {
		out := layout.Switched(shownClient(v).Disabled, to, "disable", "enable")
		return out, c.Clients.Change(v.Context(), shownClient(v).ID, "disabled", v.Actor(), func(n *client.Client) error {
			n.Disabled = to
			return nil
		})
	}
}

func (c *Console) revokeClient(v *layout.Visit, _ url.Values) (layout.Result, error) {
	return layout.Result{}, c.Clients.Revoke(v.Context(), shownClient(v).ID, v.Actor())
}

// mayRemoveClient lets only owners remove an application that needs a second factor: added again, it would need none.
// (docs/decisions/console.md#settings-of-sign-in)
func mayRemoveClient(v *layout.Visit) error {
	needs := []string{authn.SecondFactorAlways, authn.SecondFactorWhenSetUp}
	if v.Role != layout.Owner && slices.Contains(needs, shownClient(v).SecondFactor) {
		return layout.Denied("the client needs a second factor")
	}
	return nil
}

func (c *Console) removeClient(v *layout.Visit, _ url.Values) (layout.Result, error) {
	return layout.Result{To: layout.Root + "/applications"}, c.Clients.Remove(v.Context(), shownClient(v).ID, v.Actor())
}

// logoOf returns the picture of a client. nil: none
func (c *Console) logoOf(a *clientstore.Info) *web.Image {
	if a.Logo != nil {
		return a.Logo.Image()
	}
	return c.Pages.DeclaredLogo(web.ClientLogo, a.ID)
}
