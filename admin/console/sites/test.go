package sites

import (
	"cmp"
	"errors"
	"net/url"
	"strings"

	"github.com/gatehouse-id/gatehouse/admin/console/layout"
	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/internal/web"
)

// testAct puts a table of cases to a policy, as it is and as it would be after an edit. Nothing is sent or stored.
func (g *gateway) testAct() *layout.Act {
	return &layout.Act{Name: "test-policy", Role: layout.Viewer, Ask: g.askTest, Do: g.testPolicy}
}

// askTest asks for cases, and for a stored policy for the rules that they are put to as well.
func (g *gateway) askTest(v *layout.Visit) (layout.Question, error) {
	sites, err := g.Sites()
	if err != nil {
		return layout.Question{}, err
	}
	return g.askCases(shownPolicy(v), exampleCases(shownPolicy(v), sites)), nil
}

// askCases is the form of the test.
func (g *gateway) askCases(p *settings.PolicyEntry, cases string) layout.Question {
	q := layout.Question{Submit: "console.test.run", Fields: []web.Field{
		{Name: "cases", Type: "textarea", Label: "console.test.cases", Hint: "console.test.cases.hint", Value: cases, Required: true},
	}}
	if p.Stored() {
		field := rulesField("console.test.json.hint", g.rulesText(&p.Policy))
		field.Label, field.Required = "console.test.json", false
		q.Fields = append(q.Fields, field)
	}
	return q
}

// exampleCases are cases to begin with: a person of each group that the policy names, and a stranger.
func exampleCases(p *settings.PolicyEntry, sites []Site) string {
	site := "https://site.example.com"
	for _, user := range p.UsedBy {
		name, _, _ := strings.Cut(user, " (")
		if u, err := url.Parse(name); err == nil && u.Scheme != "" && u.Host != "" {
			site = name
			break
		}
		if at := PathOfUser(user, sites); at != "" {
			site = "https://" + name
			break
		}
	}
	group := "staff"
	for _, r := range append(append([]settings.PolicyRule{}, p.Policy.Allow...), p.Policy.Deny...) {
		if len(r.Need.Groups) > 0 {
			group = r.Need.Groups[0]
			break
		}
	}
	return "site " + site + "\n\nperson ann {\n  groups " + group +
		"\n  level 2\n}\n\nallow   ann  GET  /\nsign-in -    GET  /\n?       ann  POST /\n"
}

// testPolicy shows what each case gets, below the form that can be sent again.
func (g *gateway) testPolicy(v *layout.Visit, in url.Values) (layout.Result, error) {
	p := shownPolicy(v)
	var stored *settings.Policy
	if p.Stored() {
		stored = &p.Policy
	}
	now, err := g.TestPolicy(v.Request.Request, p.Name, stored, in.Get("cases"))
	if err != nil {
		return layout.Result{}, problemOfTest(err)
	}
	var edited []Tested
	if text := in.Get("rules"); stored != nil && text != "" {
		next, _, wrong := g.parsePolicy(text)
		if wrong != nil {
			return layout.Result{}, wrong
		}
		if textOf(next) != textOf(p.Policy) {
			if edited, err = g.TestPolicy(v.Request.Request, p.Name, &next, in.Get("cases")); err != nil {
				return layout.Result{}, problemOfTest(err)
			}
		}
	}
	q := g.askCases(p, in.Get("cases"))
	q.Parts = []web.ConsolePart{testedPart(now, edited)}
	return layout.Result{Ask: &q}, nil
}

// problemOfTest says what is wrong with the cases. Reasons are English, as those of the command.
func problemOfTest(err error) error {
	if bad := new(Wrong); errors.As(err, &bad) {
		return &layout.Problem{Field: cmp.Or(bad.Field, "cases"), Key: "console.test.problem", Fill: []any{"reason", web.Foreign(bad.Reason)}}
	}
	return err
}

// testedPart is the table of the cases. edited nil: the policy is the stored one
func testedPart(now, edited []Tested) web.ConsolePart {
	t := &web.Table{
		Label: web.Say("console.test.title"),
		Columns: []string{
			"console.field.request", "console.field.caller", "console.column.wanted",
			"console.column.outcome", "console.column.rule",
		},
	}
	if edited != nil {
		t.Columns = append(t.Columns[:3], "console.test.stored", "console.test.edited")
	}
	failed, changed := 0, 0
	for i := range now {
		one := &now[i]
		who := web.Cell{Name: one.Caller}
		if one.Caller == "-" {
			who = web.Cell{Text: web.Say("console.explain.stranger")}
		}
		want := layout.OrNone("")
		if one.Want != "" {
			want = web.Cell{Text: web.Say("console.verdict." + one.Want)}
		}
		got, rule, ok := verdictCell(one.Got), layout.OrNone(one.Rule), one.OK
		cells := []web.Cell{got, rule}
		if one.Place != "" && !strings.HasSuffix(one.Rule, one.Place) {
			cells[1].Note = one.Place
		}
		if edited != nil { // each with its rule below
			next := verdictCell(edited[i].Got)
			got.Note, next.Note, ok = one.Rule, edited[i].Rule, edited[i].OK
			if cells = []web.Cell{got, next}; edited[i].Got != one.Got {
				changed++
			}
		}
		if !ok {
			want.Kind, want.Hint = "bad", web.Say("console.test.other")
			failed++
		}
		t.Rows = append(t.Rows, web.TableRow{Cells: append([]web.Cell{{Name: one.Method + " " + one.URL, Code: true}, who, want}, cells...)})
	}
	part := web.ConsolePart{ID: "tested", Title: web.Say("console.test.title"), Table: t, Text: web.Say("console.test.good", "n", len(now))}
	switch {
	case failed > 0:
		part.Text = web.Say("console.test.bad", "n", failed, "all", len(now))
	case changed > 0:
		part.Text = web.Say("console.test.changed", "n", changed, "all", len(now))
	}
	return part
}
