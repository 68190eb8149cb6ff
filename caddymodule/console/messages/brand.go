package messages

import (
	"net/url"
	"strconv"
	"strings"

	"github.com/gatehouse-id/gatehouse/caddymodule/console/frame"
	"github.com/gatehouse-id/gatehouse/internal/page"
)

const brandPath = messagesPath + "/brand"

// brandScreen is how the pages present the operator, and the organisations of applications.
func (t *texts) brandScreen() *frame.Screen {
	return &frame.Screen{Name: "brand", Path: brandPath, Role: frame.Viewer, Show: t.showBrand}
}

func (t *texts) showBrand(v *frame.Visit) (*page.Console, error) {
	b := t.pages.Brand()
	fact := func(option string, value page.Cell) page.ConsoleFact {
		if at := t.PlaceOf("identity: brand " + option); at != t.PlaceOf("identity: brand") { // it is there
			value.Note = at
		}
		return page.ConsoleFact{Label: "console.brand." + option, Cells: []page.Cell{value}}
	}
	logo := page.Cell{Text: page.Say("console.brand.no_logo")}
	if path := t.pages.LogoPath(); path != "" {
		logo = page.Cell{Text: page.Say("console.brand.logo.see"), URL: path}
	}
	accents := t.pages.Accents()
	colors := &page.Table{Label: page.Say("console.brand.colors"), Columns: []string{"console.column.scheme", "console.brand.color", "console.brand.contrast", "console.brand.contrast.ink", "console.column.state"}}
	for i, a := range accents {
		state := page.Cell{Text: page.Say("console.brand.legible"), Kind: "good"}
		if a.Changed {
			state.Hint = page.Say("console.brand.changed")
		}
		colors.Rows = append(colors.Rows, page.TableRow{Cells: []page.Cell{{Text: page.Say("console.scheme." + []string{"light", "dark"}[i])}, {Name: a.Color, Code: true}, ratio(a.OnCard), ratio(a.OfInk), state}})
	}
	out := &page.Console{
		Title: page.Say("console.brand.title"), Up: up(), Lead: page.Say("console.brand.text"),
		Parts: []page.ConsolePart{
			{Facts: []page.ConsoleFact{fact("name", page.Cell{Name: b.Name}), fact("logo", logo), fact("color", page.Cell{Name: strings.TrimPrefix(b.Color, "#"), Code: b.Color != ""}), fact("help", frame.OrNone(b.Help))}},
			{ID: "colors", Title: page.Say("console.brand.colors"), Text: page.Say("console.brand.colors.text"), Table: colors},
			{ID: "pages", Title: page.Say("console.brand.pages"), Frames: frames("sign_in", t.locale(v))},
			{ID: "caddyfile", Title: page.Say("console.settings.caddyfile"), Text: page.Say("console.brand.caddyfile"), Source: brandSource(b)},
		},
	}
	if b.Color == "" {
		out.Parts[0].Facts[2].Cells[0] = page.Cell{Text: page.Say("console.origin.default")}
	}
	u, err := t.Config.Current(v.Context())
	if err != nil {
		return nil, err
	}
	orgs := page.ConsolePart{ID: "organisations", Title: page.Say("console.brand.organisations"), Text: page.Say("console.brand.organisations.text")}
	list := &page.Table{Label: orgs.Title, Columns: []string{"console.column.name", "console.brand.help", "console.column.language"}}
	for i := range u.Organisations {
		o := &u.Organisations[i]
		list.Rows = append(list.Rows, page.TableRow{URL: frame.Root + "/settings/" + url.PathEscape("organisations"), Cells: []page.Cell{{Name: o.Name}, frame.OrNone(o.SupportEmail), frame.OrNone(o.PreferredLanguage)}})
	}
	if orgs.Table = list; len(list.Rows) == 0 {
		orgs.Table, orgs.Empty = nil, &page.Empty{Text: page.Say("console.brand.organisations.none"), Next: &page.Action{Label: "console.brand.organisations.open", URL: frame.Root + "/settings/organisations"}}
	}
	out.Parts = append(out.Parts, orgs)
	return out, nil
}

// ratio is a contrast ratio in words.
func ratio(r float64) page.Cell {
	return page.Cell{Name: strconv.FormatFloat(float64(int(r*10))/10, 'f', 1, 64) + " : 1"}
}

// brandSource is the brand as a block of the Caddyfile.
func brandSource(b page.Brand) string {
	quote := func(s string) string {
		if strings.ContainsAny(s, " \t\"{}#`") {
			return "`" + strings.ReplaceAll(s, "`", "") + "`"
		}
		return s
	}
	lines := []string{"\tname " + quote(b.Name)}
	if len(b.Logo) > 0 {
		lines = append(lines, "\tlogo /etc/gatehouse/logo.png")
	}
	if b.Color != "" {
		lines = append(lines, "\tcolor "+strings.TrimPrefix(b.Color, "#"))
	}
	if b.Help != "" {
		lines = append(lines, "\thelp "+b.Help)
	}
	return "brand {\n" + strings.Join(lines, "\n") + "\n}"
}
