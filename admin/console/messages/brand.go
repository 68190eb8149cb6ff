package messages

import (
	"net/url"
	"strconv"
	"strings"

	"github.com/gatehouse-id/gatehouse/admin/console/layout"
	"github.com/gatehouse-id/gatehouse/internal/web"
)

const brandPath = messagesPath + "/brand"

// brandScreen shows the presentation of the operator, and of the organisations of applications, on pages.
func (t *texts) brandScreen() *layout.Screen {
	return &layout.Screen{Name: "brand", Path: brandPath, Role: layout.Viewer, Show: t.showBrand}
}

func (t *texts) showBrand(v *layout.Visit) (*web.Console, error) {
	b := t.pages.Brand()
	fact := func(option string, value web.Cell) web.ConsoleFact {
		if at := t.PlaceOf("identity: brand " + option); at != t.PlaceOf("identity: brand") { // it is there
			value.Note = at
		}
		return web.ConsoleFact{Label: "console.brand." + option, Cells: []web.Cell{value}}
	}
	logo := web.Cell{Text: web.Say("console.brand.no_logo")}
	if path := t.pages.LogoPath(); path != "" {
		logo = web.Cell{Text: web.Say("console.brand.logo.see"), URL: path}
	}
	accents := t.pages.Accents()
	colors := &web.Table{
		Label: web.Say("console.brand.colors"),
		Columns: []string{
			"console.column.scheme", "console.brand.color", "console.brand.contrast",
			"console.brand.contrast.ink", "console.column.state",
		},
	}
	for i, a := range accents {
		state := web.Cell{Text: web.Say("console.brand.legible"), Kind: "good"}
		if a.Changed {
			state.Hint = web.Say("console.brand.changed")
		}
		colors.Rows = append(colors.Rows,
			web.TableRow{Cells: []web.Cell{
				{Text: web.Say("console.scheme." + []string{"light", "dark"}[i])},
				{Name: a.Color, Code: true},
				ratio(a.OnCard), ratio(a.OfInk), state,
			}})
	}
	out := &web.Console{
		Title: web.Say("console.brand.title"), Up: up(), Lead: web.Say("console.brand.text"),
		Parts: []web.ConsolePart{
			{Facts: []web.ConsoleFact{
				fact("name", web.Cell{Name: b.Name}), fact("logo", logo),
				fact("color", web.Cell{Name: strings.TrimPrefix(b.Color, "#"), Code: b.Color != ""}), fact("help", layout.OrNone(b.Help)),
			}},
			{ID: "colors", Title: web.Say("console.brand.colors"), Text: web.Say("console.brand.colors.text"), Table: colors},
			{ID: "pages", Title: web.Say("console.brand.pages"), Frames: frames("sign_in", t.locale(v))},
			{ID: "caddyfile", Title: web.Say("console.settings.caddyfile"), Text: web.Say("console.brand.caddyfile"), Source: brandSource(b)},
		},
	}
	if b.Color == "" {
		out.Parts[0].Facts[2].Cells[0] = web.Cell{Text: web.Say("console.origin.default")}
	}
	u, err := t.Config.Current(v.Context())
	if err != nil {
		return nil, err
	}
	orgs := web.ConsolePart{
		ID: "organisations", Title: web.Say("console.brand.organisations"),
		Text: web.Say("console.brand.organisations.text"),
	}
	list := &web.Table{Label: orgs.Title, Columns: []string{"console.column.name", "console.brand.help", "console.column.language"}}
	for i := range u.Organisations {
		o := &u.Organisations[i]
		list.Rows = append(list.Rows,
			web.TableRow{
				URL:   layout.Root + "/settings/" + url.PathEscape("organisations"),
				Cells: []web.Cell{{Name: o.Name}, layout.OrNone(o.SupportEmail), layout.OrNone(o.PreferredLanguage)},
			})
	}
	if orgs.Table = list; len(list.Rows) == 0 {
		orgs.Table, orgs.Empty = nil,
			&web.Empty{
				Text: web.Say("console.brand.organisations.none"),
				Next: &web.Action{Label: "console.brand.organisations.open", URL: layout.Root + "/settings/organisations"},
			}
	}
	out.Parts = append(out.Parts, orgs)
	return out, nil
}

// ratio is a contrast ratio in words.
func ratio(r float64) web.Cell {
	return web.Cell{Name: strconv.FormatFloat(float64(int(r*10))/10, 'f', 1, 64) + " : 1"}
}

// brandSource is the brand as a block of the Caddyfile.
func brandSource(b web.Brand) string {
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
