package console

import (
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/gatehouse-id/gatehouse/authz/client"
	"github.com/gatehouse-id/gatehouse/authz/registry"
	"github.com/gatehouse-id/gatehouse/caddymodule/console/frame"
	"github.com/gatehouse-id/gatehouse/internal/page"
	"github.com/gatehouse-id/gatehouse/internal/tally"
	"github.com/gatehouse-id/gatehouse/storage"
)

// applicationsScreen is the list of the clients.
func (c *Console) applicationsScreen() *frame.Screen {
	return &frame.Screen{
		Name: "applications", Path: "/applications", Icon: "app", Role: frame.Viewer, Show: c.showApplications,
		Acts: []*frame.Act{{Name: "add", Role: frame.Operator, Ask: c.askAdd, Do: c.add}},
	}
}

func applicationPath(id string) string { return frame.Root + "/applications/" + url.PathEscape(id) }

// originCell says where a client comes from.
func originCell(origin string) page.Cell {
	return page.Cell{Text: page.Say("console.origin." + origin), Kind: "plain"}
}

func (c *Console) showApplications(v *frame.Visit) (*page.Console, error) {
	list, err := c.Clients.List(v.Context())
	if err != nil {
		return nil, err
	}
	used, err := c.lastUses(v, list)
	if err != nil {
		return nil, err
	}
	q, order, after := strings.TrimSpace(v.URL.Query().Get("q")), v.URL.Query().Get("order"), v.URL.Query().Get("after")
	begin, _ := slices.BinarySearchFunc(list, after, func(a registry.Info, after string) int {
		if a.ID <= after {
			return -1
		}
		return 1
	})
	if order == orderUnused {
		slices.SortStableFunc(list, func(a, b registry.Info) int { return used[a.ID].Compare(used[b.ID]) })
		begin = 1 + slices.IndexFunc(list, func(a registry.Info) bool { return a.ID == after }) // 0 after one that is gone
	}
	t := &page.Table{Label: page.Say("console.applications.title"), Columns: []string{"console.column.application", "console.field.client_id", "console.field.grants", "console.column.state", "console.column.seen", "console.field.origin"}}
	next := ""
	for i := begin; i < len(list); i++ {
		a := &list[i]
		if !strings.Contains(strings.ToLower(a.ID+"\n"+a.Name), strings.ToLower(q)) {
			continue
		}
		if len(t.Rows) == frame.Rows {
			next = list[i-1].ID
			break
		}
		name := a.Name
		if name == "" {
			name = a.ID
		}
		t.Rows = append(t.Rows, page.TableRow{URL: applicationPath(a.ID), Cells: []page.Cell{{Name: name}, {Name: a.ID, Code: true}, {Name: strings.Join(a.Grants, ", ")}, enabledCell(a), usedCell(used[a.ID]), originCell(a.Origin)}})
	}
	t.First, t.Next = v.Pages(next)
	out := &page.Console{Title: page.Say("console.applications.title"), Actions: v.Buttons(), Parts: []page.ConsolePart{{Table: t}}}
	out.Filter = &page.Filter{Action: v.Path(), Fields: []page.Field{
		{Name: "q", Type: "search", Label: "console.field.search", Value: q, EnterKeyHint: "search"},
		{Name: "order", Type: "select", Label: "console.field.order", Value: order, Options: []page.Option{{Label: "console.order.id"}, {Value: orderUnused, Label: "console.order.unused"}}},
	}}
	if q != "" || order == orderUnused {
		out.Filter.Clear = v.Path()
	}
	if len(t.Rows) == 0 {
		out.Parts[0].Empty = v.Empty("console.applications.none", "add")
	}
	return out, nil
}

// orderUnused lists the applications that nobody uses first.
const orderUnused = "unused"

// lastUses returns when applications were last used: for a person, or by showing who they are.
func (c *Console) lastUses(v *frame.Visit, list []registry.Info) (used map[string]time.Time, err error) {
	ids := make([]string, len(list))
	for i := range list {
		ids[i] = list[i].ID
	}
	err = c.Store.View(v.Context(), func(tx storage.Tx) (err error) {
		used, err = tally.LastOfEach(tx, append([]string{tally.ClientCalls}, usedByPeople...), tally.Application, ids)
		return err
	})
	return used, err
}

func usedCell(at time.Time) page.Cell {
	if at.IsZero() {
		return frame.OrNone("")
	}
	return page.Cell{Text: page.Say("console.time", "time", at)}
}

func enabledCell(a *registry.Info) page.Cell {
	if a.Disabled {
		return page.Cell{Text: page.Say("console.client.disabled"), Kind: "bad"}
	}
	return page.Cell{Text: page.Say("console.client.enabled"), Kind: "good"}
}

// templates are what applications usually need, by the words of the form.
var templates = []struct {
	name   string
	client client.Client
}{
	{"web", client.Client{Grants: []string{"authorization_code", "refresh_token"}, Scopes: []string{"openid", "profile", "email"}}},
	{"spa", client.Client{Public: true, Grants: []string{"authorization_code", "refresh_token"}, Scopes: []string{"openid", "profile", "email"}}},
	{"native", client.Client{Public: true, Native: true, Grants: []string{"authorization_code", "refresh_token"}, Scopes: []string{"openid", "profile", "email"}}},
	{"mcp", client.Client{Public: true, Native: true, Grants: []string{"authorization_code", "refresh_token"}, Scopes: []string{"openid", "profile", "email"}, Consent: "always"}},
	{"machine", client.Client{Grants: []string{"client_credentials"}}},
	{"device", client.Client{Public: true, Grants: []string{"device_code", "refresh_token"}, Scopes: []string{"openid", "profile"}}},
}

func (c *Console) askAdd(*frame.Visit) (frame.Question, error) {
	var options []page.Option
	for _, t := range templates {
		options = append(options, page.Option{Value: t.name, Label: "console.template." + t.name})
	}
	return frame.Question{Fields: []page.Field{
		{Name: "template", Type: "select", Options: options},
		{Name: "client_id", Required: true, Hint: "console.field.client_id.hint", MaxLength: 128},
		{Name: "name", Label: "console.field.client_name", MaxLength: 128},
		{Name: "redirect_uris", Type: "textarea", Hint: "console.field.redirect_uris.hint"},
		{Name: "scopes", Hint: "console.field.scopes.hint"},
	}}, nil
}

// provisioningScope lets a client change everyone, owners included, and what they sign in with.
const provisioningScope = "scim"

// add adds a client, and shows its secret once.
func (c *Console) add(v *frame.Visit, in url.Values) (frame.Result, error) {
	var n client.Client
	for _, t := range templates {
		if t.name == in.Get("template") {
			n = t.client
		}
	}
	if len(n.Grants) == 0 {
		return frame.Result{}, &frame.Problem{Field: "template", Key: "console.problem.value"}
	}
	n.ID, n.Name, n.RedirectURIs = strings.TrimSpace(in.Get("client_id")), strings.TrimSpace(in.Get("name")), frame.Lines(in.Get("redirect_uris"))
	if scopes := frame.Lines(in.Get("scopes")); len(scopes) > 0 {
		n.Scopes = scopes
	}
	if slices.Contains(n.Scopes, provisioningScope) && v.Role != frame.Owner {
		return frame.Result{}, &frame.Problem{Field: "scopes", Key: "console.problem.scope_not_yours", Fill: []any{"scope", provisioningScope}}
	}
	secret, err := c.Clients.Add(v.Context(), n, v.Actor())
	if err != nil || secret == "" {
		return frame.Result{To: applicationPath(n.ID)}, err
	}
	return c.secretPage(n.ID, secret), nil
}

// secretPage shows a new secret, the only time that it is shown.
func (c *Console) secretPage(id, secret string) frame.Result {
	return frame.Result{Page: &page.Console{
		Title: page.Say("console.secret.title"), Up: &page.Up{Name: id, URL: applicationPath(id)},
		Parts: []page.ConsolePart{{
			Facts:  []page.ConsoleFact{{Label: "console.field.client_id", Cells: []page.Cell{{Name: id, Code: true}}}},
			Secret: &page.Secret{Text: page.Say("console.secret.once"), Value: secret}, Actions: []page.Action{{Label: "console.secret.kept", URL: applicationPath(id)}},
		}},
	}}
}
