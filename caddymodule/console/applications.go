package console

import (
	"net/url"
	"strings"

	"github.com/gatehouse-id/gatehouse/authz/client"
	"github.com/gatehouse-id/gatehouse/authz/registry"
	"github.com/gatehouse-id/gatehouse/caddymodule/console/frame"
	"github.com/gatehouse-id/gatehouse/internal/page"
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
	q, after := strings.TrimSpace(v.URL.Query().Get("q")), v.URL.Query().Get("after")
	t := &page.Table{Label: page.Say("console.applications.title"), Columns: []string{"console.column.application", "console.field.client_id", "console.field.grants", "console.column.state", "console.field.origin"}}
	next := ""
	for i := range list {
		a := &list[i]
		if a.ID <= after || !strings.Contains(strings.ToLower(a.ID+"\n"+a.Name), strings.ToLower(q)) {
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
		t.Rows = append(t.Rows, page.TableRow{URL: applicationPath(a.ID), Cells: []page.Cell{{Name: name}, {Name: a.ID, Code: true}, {Name: strings.Join(a.Grants, ", ")}, enabledCell(a), originCell(a.Origin)}})
	}
	t.First, t.Next = v.Pages(next)
	out := &page.Console{Title: page.Say("console.applications.title"), Actions: v.Buttons(), Parts: []page.ConsolePart{{Table: t}}}
	out.Filter = &page.Filter{Action: v.Path(), Fields: []page.Field{{Name: "q", Type: "search", Label: "console.field.search", Value: q, EnterKeyHint: "search"}}}
	if q != "" {
		out.Filter.Clear = v.Path()
	}
	if len(t.Rows) == 0 {
		out.Parts[0].Empty = v.Empty("console.applications.none", "add")
	}
	return out, nil
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
