package console

import (
	"net/url"
	"strings"

	"github.com/gatehouse-id/gatehouse/authz/client"
	"github.com/gatehouse-id/gatehouse/authz/registry"
	"github.com/gatehouse-id/gatehouse/internal/page"
)

// applicationsScreen is the list of the clients.
func applicationsScreen() *screen {
	return &screen{
		name: "applications", path: "/applications", icon: "app", role: Viewer, show: (*Console).showApplications,
		acts: []*act{{name: "add", role: Operator, ask: (*Console).askAdd, do: (*Console).add}},
	}
}

func applicationPath(id string) string { return Root + "/applications/" + url.PathEscape(id) }

// originCell says where a client comes from.
func originCell(origin string) page.Cell {
	return page.Cell{Text: page.Say("console.origin." + origin), Kind: "plain"}
}

func (c *Console) showApplications(v *visit) (*page.Console, error) {
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
		if len(t.Rows) == pageRows {
			next = list[i-1].ID
			break
		}
		name := a.Name
		if name == "" {
			name = a.ID
		}
		t.Rows = append(t.Rows, page.TableRow{URL: applicationPath(a.ID), Cells: []page.Cell{{Name: name}, {Name: a.ID, Code: true}, {Name: strings.Join(a.Grants, ", ")}, enabledCell(a), originCell(a.Origin)}})
	}
	t.First, t.Next = pagesOf(v, next)
	out := &page.Console{Title: page.Say("console.applications.title"), Actions: c.buttons(v), Parts: []page.ConsolePart{{Table: t}}}
	out.Filter = &page.Filter{Action: v.path(), Fields: []page.Field{{Name: "q", Type: "search", Label: "console.field.search", Value: q, EnterKeyHint: "search"}}}
	if q != "" {
		out.Filter.Clear = v.path()
	}
	if len(t.Rows) == 0 {
		out.Parts[0].Empty = c.empty(v, "console.applications.none", "add")
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
	{"machine", client.Client{Grants: []string{"client_credentials"}}},
	{"device", client.Client{Public: true, Grants: []string{"device_code", "refresh_token"}, Scopes: []string{"openid", "profile"}}},
}

func (c *Console) askAdd(*visit) (question, error) {
	var options []page.Option
	for _, t := range templates {
		options = append(options, page.Option{Value: t.name, Label: "console.template." + t.name})
	}
	return question{fields: []page.Field{
		{Name: "template", Type: "select", Options: options},
		{Name: "client_id", Required: true, Hint: "console.field.client_id.hint", MaxLength: 128},
		{Name: "name", Label: "console.field.client_name", MaxLength: 128},
		{Name: "redirect_uris", Type: "textarea", Hint: "console.field.redirect_uris.hint"},
		{Name: "scopes", Hint: "console.field.scopes.hint"},
	}}, nil
}

// add adds a client, and shows its secret once.
func (c *Console) add(v *visit, in url.Values) (result, error) {
	var n client.Client
	for _, t := range templates {
		if t.name == in.Get("template") {
			n = t.client
		}
	}
	if len(n.Grants) == 0 {
		return result{}, &problem{field: "template", key: "console.problem.value"}
	}
	n.ID, n.Name, n.RedirectURIs = strings.TrimSpace(in.Get("client_id")), strings.TrimSpace(in.Get("name")), lines(in.Get("redirect_uris"))
	if scopes := lines(in.Get("scopes")); len(scopes) > 0 {
		n.Scopes = scopes
	}
	secret, err := c.Clients.Add(v.Context(), n, c.actor(v))
	if err != nil || secret == "" {
		return result{to: applicationPath(n.ID)}, err
	}
	return c.secretPage(n.ID, secret), nil
}

// secretPage shows a new secret, the only time that it is shown.
func (c *Console) secretPage(id, secret string) result {
	return result{page: &page.Console{
		Title: page.Say("console.secret.title"), Up: &page.Up{Name: id, URL: applicationPath(id)},
		Parts: []page.ConsolePart{{
			Facts:  []page.ConsoleFact{{Label: "console.field.client_id", Cells: []page.Cell{{Name: id, Code: true}}}},
			Secret: &page.Secret{Text: page.Say("console.secret.once"), Value: secret}, Actions: []page.Action{{Label: "console.secret.kept", URL: applicationPath(id)}},
		}},
	}}
}
