package console

import (
	"errors"
	"net/url"
	"strconv"
	"strings"

	"github.com/gatehouse-id/gatehouse/admin"
	"github.com/gatehouse-id/gatehouse/admin/console/layout"
	"github.com/gatehouse-id/gatehouse/admin/console/settingspages"
	"github.com/gatehouse-id/gatehouse/admin/console/sites"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/personindex"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/denial"
	"github.com/gatehouse-id/gatehouse/internal/web"
	"github.com/gatehouse-id/gatehouse/storage"
)

const (
	shownResults = 8   // of each kind
	maxSearched  = 100 // characters
)

// searchScreen is the page of the search box: everything that has the words that were entered.
func (c *Console) searchScreen() *layout.Screen {
	return &layout.Screen{Name: "search", Path: layout.SearchPath, Role: layout.Viewer, Show: c.showSearch}
}

func (c *Console) showSearch(v *layout.Visit) (*web.Console, error) {
	q := strings.TrimSpace(v.URL.Query().Get("q"))
	if runes := []rune(q); len(runes) > maxSearched {
		q = string(runes[:maxSearched])
	}
	out := &web.Console{Title: web.Say("console.search.title")}
	words := c.Pages.WordsOf(v.Context(), c.Pages.Lang(v.Request.Request, v.SignIn.Locales(), ""))
	finders := []func(*layout.Visit, web.Words, string) (web.ConsolePart, error){
		c.findRefusal, c.findPeople, c.findApplications, c.findSites, c.findGroups, c.findSettings,
	}
	if q == "" {
		finders, out.Lead = nil, web.Say("console.search.text")
	} else {
		out.Lead = web.Say("console.search.for", "text", q)
	}
	for _, find := range append(finders, c.findCommands) {
		part, err := find(v, words, q)
		if err != nil {
			return nil, err
		}
		if part.Table != nil && len(part.Table.Rows) > 0 {
			out.Parts = append(out.Parts, part)
		}
	}
	if len(out.Parts) == 0 {
		out.Parts = []web.ConsolePart{{Empty: &web.Empty{Text: web.Say("console.search.none")}}}
	}
	return out, nil
}

// results is an empty part for what was found of a kind.
func results(id string, title web.Text, columns ...string) web.ConsolePart {
	return web.ConsolePart{ID: id, Title: title, Table: &web.Table{Label: title, Columns: columns}}
}

// full reports whether a part has as many results as it shows.
func full(part *web.ConsolePart) bool { return len(part.Table.Rows) >= shownResults }

// matches reports whether each word of a search begins one of the words of a text, or the search is within it.
func matches(text, q string) bool {
	text, q = strings.ToLower(text), strings.ToLower(q)
	if strings.Contains(text, q) {
		return true
	}
	have := strings.Fields(text)
	for _, wanted := range strings.Fields(q) {
		found := false
		for _, word := range have {
			found = found || strings.HasPrefix(word, wanted)
		}
		if !found {
			return false
		}
	}
	return true
}

func (c *Console) findRefusal(v *layout.Visit, _ web.Words, q string) (web.ConsolePart, error) {
	part := results("refusals", web.Say("console.refusals.title"), "console.column.request", "console.column.time", "console.column.reason")
	ref, err := denial.ParseRef(q)
	if err != nil {
		return part, nil //nolint:nilerr // it is something else
	}
	f, err := c.Gateway.Refusals.Find(v.Context(), ref)
	if errors.Is(err, denial.ErrUnknown) {
		return part, nil
	}
	if err != nil {
		return part, err
	}
	part.Table.Rows = []web.TableRow{{URL: sites.RefusalPath(ref), Cells: []web.Cell{
		{Name: strings.TrimSpace(f.Method + " " + f.Site + f.Path), Note: ref},
		{Text: web.Say("console.time", "time", f.At)},
		{Name: f.Why()},
	}}}
	return part, nil
}

func (c *Console) findPeople(v *layout.Visit, _ web.Words, q string) (web.ConsolePart, error) {
	part := results("people", web.Say("console.persons.title"), "console.column.person", "console.column.groups", "console.column.state")
	var found personindex.Answer
	err := c.Store.View(v.Context(), func(tx storage.Tx) (err error) {
		found, err = personindex.Find(tx, c.Identity.Person, personindex.Query{Text: q, Limit: shownResults})
		return err
	})
	for _, p := range found.Persons {
		part.Table.Rows = append(part.Table.Rows, web.TableRow{URL: personPath(p.ID), Cells: []web.Cell{
			{Name: admin.Typed(p.Person), Note: besides(&p.Person), Initials: sites.Initials(&p.Person)},
			{Name: strings.Join(p.Groups, ", ")},
			sites.StateCell(p.State),
		}})
	}
	if found.Next != "" {
		part.Actions = []web.Action{{Label: "console.search.people", URL: layout.Root + "/persons?" + url.Values{"q": {q}}.Encode()}}
	}
	return part, err
}

func (c *Console) findApplications(v *layout.Visit, _ web.Words, q string) (web.ConsolePart, error) {
	part := results("applications", web.Say("console.applications.title"), "console.column.application", "console.column.state")
	list, err := c.Clients.List(v.Context())
	for i := range list {
		if a := &list[i]; matches(a.ID+" "+a.Name, q) && !full(&part) {
			part.Table.Rows = append(part.Table.Rows,
				web.TableRow{URL: applicationPath(a.ID), Cells: []web.Cell{c.applicationCell(a), enabledCell(a)}})
		}
	}
	return part, err
}

func (c *Console) findSites(_ *layout.Visit, _ web.Words, q string) (web.ConsolePart, error) {
	part := results("sites", web.Say("console.sites.title"), "console.column.site")
	list, err := c.Gateway.Sites()
	for i := range list {
		if matches(list[i].ID, q) && !full(&part) {
			part.Table.Rows = append(part.Table.Rows, web.TableRow{URL: sites.SitePath(list[i].ID), Cells: []web.Cell{{Name: list[i].ID}}})
		}
	}
	return part, err
}

func (c *Console) findGroups(v *layout.Visit, _ web.Words, q string) (web.ConsolePart, error) {
	part := results("groups", web.Say("console.groups.title"), "console.column.group", "console.column.members")
	var list []person.Group
	err := c.Store.View(v.Context(), func(tx storage.Tx) (err error) {
		list, err = c.Identity.Person.Groups(tx, audit.DefaultPartition, "", maxScan)
		return err
	})
	for _, g := range list {
		if matches(g.Name, q) && !full(&part) {
			part.Table.Rows = append(part.Table.Rows,
				web.TableRow{URL: groupPath(g.ID), Cells: []web.Cell{{Name: g.Name}, {Name: strconv.FormatInt(g.Members, 10)}}})
		}
	}
	return part, err
}

// findSettings finds members of the settings by their labels and by the names that programs use.
func (c *Console) findSettings(v *layout.Visit, words web.Words, q string) (web.ConsolePart, error) {
	part := results("settings", web.Say("console.settings.title"), "console.column.setting", "console.column.unit")
	list, _, err := c.Settings.Config.UnitStates(v.Context())
	for i := range list {
		unit := web.Cell{Text: web.Say("console.unit." + list[i].Name), Name: list[i].Name}
		for _, m := range list[i].Members {
			label := layout.MemberLabel(m.Path)
			if full(&part) || !matches(words.T(label)+" "+words.T(unit.Text.Key), q) && !strings.Contains(m.Path, strings.ToLower(q)) {
				continue
			}
			part.Table.Rows = append(part.Table.Rows, web.TableRow{URL: settingspages.UnitPath(list[i].Name), Cells: []web.Cell{
				{Text: web.Say(label), Name: m.Path, Wire: m.Path}, unit,
			}})
		}
	}
	return part, err
}

// findCommands finds pages, and what can be done on them. Without words it lists everything that can be done.
func (c *Console) findCommands(v *layout.Visit, words web.Words, q string) (web.ConsolePart, error) {
	part := results("commands", web.Say("console.search.commands"), "console.column.command", "console.column.page")
	for _, at := range c.frame.Commands(v) {
		page := web.Say("console." + at.Screen + ".title")
		if what := words.T(at.Label); (q == "" && at.Label != page.Key) || (q != "" && matches(what, q)) {
			row := web.TableRow{URL: at.URL, Cells: []web.Cell{{Text: web.Say(at.Label)}, {}}}
			if at.Label != page.Key {
				row.Cells[1].Text = page
			}
			part.Table.Rows = append(part.Table.Rows, row)
		}
	}
	return part, nil
}
