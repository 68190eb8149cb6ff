package console

import (
	"cmp"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/gatehouse-id/gatehouse/admin/console/layout"
	"github.com/gatehouse-id/gatehouse/authz/client"
	"github.com/gatehouse-id/gatehouse/authz/clientstore"
	"github.com/gatehouse-id/gatehouse/docs/integrations"
	"github.com/gatehouse-id/gatehouse/internal/stats"
	"github.com/gatehouse-id/gatehouse/internal/web"
	"github.com/gatehouse-id/gatehouse/storage"
)

// applicationsScreen is the list of the clients.
func (c *Console) applicationsScreen() *layout.Screen {
	return &layout.Screen{
		Name: "applications", Path: "/applications", Icon: "app", Role: layout.Viewer, Show: c.showApplications,
		Acts: []*layout.Act{{Name: "add", Role: layout.Operator, Ask: c.askAdd, Do: c.add}},
	}
}

func applicationPath(id string) string { return layout.Root + "/applications/" + url.PathEscape(id) }

// originCell says where a client comes from.
func originCell(origin string) web.Cell {
	return web.Cell{Text: web.Say("console.origin." + origin), Kind: "plain"}
}

func (c *Console) showApplications(v *layout.Visit) (*web.Console, error) {
	list, err := c.Clients.List(v.Context())
	if err != nil {
		return nil, err
	}
	used, err := c.lastUses(v, list)
	if err != nil {
		return nil, err
	}
	q, order, after := strings.TrimSpace(v.URL.Query().Get("q")), v.URL.Query().Get("order"), v.URL.Query().Get("after")
	begin, _ := slices.BinarySearchFunc(list, after, func(a clientstore.Info, after string) int {
		if a.ID <= after {
			return -1
		}
		return 1
	})
	if order == orderUnused {
		slices.SortStableFunc(list, func(a, b clientstore.Info) int { return used[a.ID].Compare(used[b.ID]) })
		begin = 1 + slices.IndexFunc(list, func(a clientstore.Info) bool { return a.ID == after }) // 0 after one that is gone
	}
	t := &web.Table{
		Label: web.Say("console.applications.title"),
		Columns: []string{
			"console.column.application", "console.field.grants", "console.column.state", "console.column.seen", "console.field.origin",
		},
	}
	next := ""
	for i := begin; i < len(list); i++ {
		a := &list[i]
		if !strings.Contains(strings.ToLower(a.ID+"\n"+a.Name), strings.ToLower(q)) {
			continue
		}
		if len(t.Rows) == layout.Rows {
			next = list[i-1].ID
			break
		}
		t.Rows = append(t.Rows, web.TableRow{
			URL: applicationPath(a.ID),
			Cells: []web.Cell{
				c.applicationCell(a),
				{Name: strings.Join(a.Grants, ", ")},
				enabledCell(a),
				usedCell(used[a.ID]), originCell(a.Origin),
			},
		})
	}
	t.First, t.Next = v.Pages(next)
	out := &web.Console{Title: web.Say("console.applications.title"), Actions: v.Buttons(), Parts: []web.ConsolePart{{Table: t}}}
	out.Filter = &web.Filter{Action: v.Path(), Fields: []web.Field{
		{Name: "q", Type: "search", Label: "console.field.search", Value: q, EnterKeyHint: "search"},
		{
			Name: "order", Type: "select", Label: "console.field.order", Value: order,
			Options: []web.Option{{Label: "console.order.id"}, {Value: orderUnused, Label: "console.order.unused"}},
		},
	}}
	if q != "" || order == orderUnused {
		out.Filter.Clear = v.Path()
	}
	if len(t.Rows) == 0 {
		out.Parts[0].Empty = v.Empty("console.applications.none", "add")
	}
	return out, nil
}

// orderUnused lists the applications that no one uses first.
const orderUnused = "unused"

// lastUses returns when applications were last used: for a person, or by showing who they are.
func (c *Console) lastUses(v *layout.Visit, list []clientstore.Info) (used map[string]time.Time, err error) {
	ids := make([]string, len(list))
	for i := range list {
		ids[i] = list[i].ID
	}
	err = c.Store.View(v.Context(), func(tx storage.Tx) (err error) {
		used, err = stats.LastOfEach(tx, append([]string{stats.ClientCalls}, usedByPeople...), stats.Application, ids)
		return err
	})
	return used, err
}

func usedCell(at time.Time) web.Cell {
	if at.IsZero() {
		return layout.OrNone("")
	}
	return web.Cell{Text: web.Say("console.time", "time", at)}
}

// applicationCell names an application, and its id where that is another word.
func (c *Console) applicationCell(a *clientstore.Info) web.Cell {
	out := web.Cell{Name: cmp.Or(a.Name, a.ID), Logo: c.logoOf(a)}
	if out.Name != a.ID {
		out.Note = a.ID
	}
	return out
}

func enabledCell(a *clientstore.Info) web.Cell {
	if a.Disabled {
		return web.Cell{Text: web.Say("console.client.disabled"), Kind: "bad"}
	}
	return web.Cell{Text: web.Say("console.client.enabled"), Kind: "good"}
}

// templates are the usual settings of applications, by the words of the form.
var templates = []struct {
	name   string
	client client.Client
}{
	{"web", client.Client{Grants: []string{"authorization_code", "refresh_token"}, Scopes: []string{"openid", "profile", "email"}}},
	{"spa", client.Client{
		Public: true, Grants: []string{"authorization_code", "refresh_token"},
		Scopes: []string{"openid", "profile", "email"},
	}},
	{"native", client.Client{
		Public: true, Native: true, Grants: []string{"authorization_code", "refresh_token"},
		Scopes: []string{"openid", "profile", "email"},
	}},
	{"mcp", client.Client{
		Public: true, Native: true, Grants: []string{"authorization_code", "refresh_token"},
		Scopes: []string{"openid", "profile", "email"}, Consent: "always",
	}},
	{"machine", client.Client{Grants: []string{"client_credentials"}}},
	{"device", client.Client{Public: true, Grants: []string{"device_code", "refresh_token"}, Scopes: []string{"openid", "profile"}}},
}

func (c *Console) askAdd(*layout.Visit) (layout.Question, error) {
	var options []web.Option
	for _, t := range templates {
		options = append(options, web.Option{Value: t.name, Label: "console.template." + t.name})
	}
	return layout.Question{Fields: []web.Field{
		{Name: "template", Type: "select", Options: options},
		{Name: "client_id", Required: true, Hint: "console.field.client_id.hint", MaxLength: 128},
		{Name: "name", Label: "console.field.client_name", MaxLength: 128},
		{Name: "redirect_uris", Type: "textarea", Hint: "console.field.redirect_uris.hint"},
		{Name: "scopes", Hint: "console.field.scopes.hint"},
	}}, nil
}

// addedFields are the fields of the form that adds a client, with the options that errors name.
var addedFields = []clientField{
	{Field: web.Field{Name: "client_id"}, option: "id"},
	{Field: web.Field{Name: "name"}, option: "name"},
	{Field: web.Field{Name: "redirect_uris"}, option: "redirect_uris"},
	{Field: web.Field{Name: "scopes"}, option: "scopes"},
}

// provisioningScope lets a client change everyone, owners included, and what they sign in with.
const provisioningScope = "scim"

// add adds a client, and shows its secret once.
func (c *Console) add(v *layout.Visit, in url.Values) (layout.Result, error) {
	var n client.Client
	for _, t := range templates {
		if t.name == in.Get("template") {
			n = t.client
		}
	}
	if len(n.Grants) == 0 {
		return layout.Result{}, &layout.Problem{Field: "template", Key: "console.problem.value"}
	}
	n.ID, n.Name, n.RedirectURIs = strings.TrimSpace(in.Get("client_id")), strings.TrimSpace(in.Get("name")),
		layout.Lines(in.Get("redirect_uris"))
	if scopes := layout.Lines(in.Get("scopes")); len(scopes) > 0 {
		n.Scopes = scopes
	}
	if slices.Contains(n.Scopes, provisioningScope) && v.Role != layout.Owner {
		return layout.Result{}, &layout.Problem{Field: "scopes", Key: "console.problem.scope_not_yours", Fill: []any{"scope", provisioningScope}}
	}
	secret, err := c.Clients.Add(v.Context(), n, v.Actor())
	if err != nil || secret == "" {
		return layout.Result{To: applicationPath(n.ID)}, blamedClient(err, addedFields)
	}
	return c.secretPage(&n, secret), nil
}

// secretPage shows a new secret, the only time that it is shown, also within the settings of an application that the
// guides know.
func (c *Console) secretPage(a *client.Client, secret string) layout.Result {
	return layout.Result{Page: &web.Console{
		Title: web.Say("console.secret.title"), Up: &web.Up{Name: a.ID, URL: applicationPath(a.ID)},
		Parts: append([]web.ConsolePart{{
			Facts:  []web.ConsoleFact{{Label: "console.field.client_id", Cells: []web.Cell{{Name: a.ID, Code: true}}}},
			Secret: &web.Secret{Text: web.Say("console.secret.once"), Value: secret},
			Actions: []web.Action{
				{Label: "console.secret.kept", URL: applicationPath(a.ID)},
				{Label: "console.connection.title", URL: applicationPath(a.ID) + "/connection"},
			},
		}}, c.snippets(integrations.Fitting(a.RedirectURIs), a.ID, secret, a.RedirectURIs)...),
	}}
}
