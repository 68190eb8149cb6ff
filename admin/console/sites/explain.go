package sites

import (
	"cmp"
	"errors"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/gatehouse-id/gatehouse/admin"
	"github.com/gatehouse-id/gatehouse/admin/console/layout"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/internal/web"
)

// explainScreen shows the outcome of a hypothetical request. Nothing is sent or stored, so the form is sent by GET, and
// the answer can be shared by its address.
func (g *gateway) explainScreen() *layout.Screen {
	return &layout.Screen{Name: "explain", Path: explainPath, Role: layout.Viewer, Show: g.showExplain}
}

// methods are the choices of the form. The address can have others.
var methods = []string{
	http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete,
	http.MethodHead, http.MethodOptions,
}

func (g *gateway) showExplain(v *layout.Visit) (*web.Console, error) {
	in := v.URL.Query()
	out := &web.Console{
		Title: web.Say("console.explain.title"), Lead: web.Say("console.explain.text"),
		Up: &web.Up{Label: web.Say("console.sites.title"), URL: layout.Root + sitesPath},
	}
	q := Question{
		URL: strings.TrimSpace(in.Get("url")), Method: cmp.Or(in.Get("method"), http.MethodGet), Address: strings.TrimSpace(in.Get("address")),
		Person: strings.TrimSpace(in.Get("person")),
	}
	fields := []web.Field{
		{Name: "url", Label: "console.field.url", Hint: "console.field.url.hint", Value: q.URL},
		{Name: "person", Label: "console.column.person", Hint: "console.explain.person.hint", Value: q.Person},
		{Name: "method", Type: "select", Label: "console.column.method", Value: q.Method},
		{Name: "address", Label: "console.column.address", Hint: "console.explain.address.hint", Value: q.Address},
		{Name: "at", Label: "console.column.time", Hint: "console.explain.at.hint", Value: strings.TrimSpace(in.Get("at"))},
		{
			Name: "level", Type: "select", Label: "console.column.level", Value: in.Get("level"),
			Options: []web.Option{{Label: "console.explain.level"}},
		},
	}
	for _, m := range methods {
		fields[2].Options = append(fields[2].Options, web.Option{Value: m, Label: m})
	}
	for n := 1; n <= 4; n++ {
		fields[5].Options = append(fields[5].Options, web.Option{Value: strconv.Itoa(n), Label: strconv.Itoa(n)})
	}
	out.Filter = &web.Filter{Action: v.Path(), Fields: fields, Submit: "console.explain.ask"}
	if q.URL == "" {
		return out, nil
	}
	wrong := ""
	if at := fields[4].Value; at != "" {
		when, ok := parseTime(at)
		if q.At = when.Format(time.RFC3339); !ok {
			wrong = "at"
		}
	}
	q.Level, _ = strconv.Atoi(in.Get("level")) //nolint:errcheck // without a number it is that of the session
	if _, err := netip.ParseAddr(q.Address); err != nil && q.Address != "" {
		wrong = "address"
	}
	if wrong == "" {
		found, err := g.Explain(v.Request.Request, q)
		bad := new(Wrong)
		switch {
		case err == nil:
			out.Parts = explained(found)
			if person.IsID(q.Person) { // as links from other pages have it
				if p, err := g.Identity.Person.Person(v.Context(), q.Person); err == nil {
					fields[1].Value = admin.Typed(p)
				}
			}
			return out, nil
		case errors.Is(err, person.ErrNoPerson):
			wrong = "person"
		case errors.As(err, &bad):
			out.Problem = web.Say("console.explain.problem", "reason", web.Foreign(bad.Reason))
		default:
			return nil, err
		}
	}
	for i := range fields {
		if fields[i].Name == wrong {
			if fields[i].Problem = "console.problem.value"; wrong == "person" {
				fields[i].Problem = "console.problem.filter"
			}
		}
	}
	return out, nil
}

// verdictKinds rate the verdicts. The others are bad.
var verdictKinds = map[string]string{
	"public": "good", "allow": "good", "sign-in": "warn", "step-up": "warn", "renew": "warn", "wait": "warn",
}

// verdictCell is a verdict.
func verdictCell(verdict string) web.Cell {
	return web.Cell{Text: web.Say("console.verdict." + verdict), Kind: cmp.Or(verdictKinds[verdict], "bad")}
}

// explained shows an explanation. Reasons are English: they name options.
func explained(e *Explanation) (out []web.ConsolePart) {
	facts := []web.ConsoleFact{
		{Label: "console.column.outcome", Cells: []web.Cell{verdictCell(e.Verdict)}},
		{Label: "console.field.request", Cells: []web.Cell{{Name: e.Method + " " + e.URL, Code: true}}},
		{Label: "console.field.caller", Cells: callerCells(e.Caller)},
	}
	if rule, place := e.decider(); rule != "" {
		facts = append(facts, web.ConsoleFact{Label: "console.field.decides", Cells: []web.Cell{{Name: rule}}})
		if place != "" && !strings.HasSuffix(rule, place) {
			facts[len(facts)-1].Cells = append(facts[len(facts)-1].Cells, web.Cell{Name: place, Code: true})
		}
	}
	add := func(label, value string, code bool) {
		if value != "" {
			facts = append(facts, web.ConsoleFact{Label: label, Cells: []web.Cell{{Name: value, Code: code, Quoted: !code}}})
		}
	}
	add("console.field.why", e.why(), false)
	add("console.field.message", e.Message, false)
	add("console.field.gate", e.Gate, true)
	add("console.field.handler", e.Handler, true)
	if e.Status != 0 {
		add("console.field.status", strconv.Itoa(e.Status), true)
		add("console.field.challenge", e.Challenge, true)
	}
	for _, n := range e.Notes {
		add("console.field.note", n, false)
	}
	out = append(out, web.ConsolePart{ID: "answer", Title: web.Say("console.explain.answer"), Facts: facts})
	for i := range e.Steps {
		out = append(out, stepPart(&e.Steps[i], i, len(e.Steps) > 1))
	}
	return out
}

// callerCells say who made the request.
func callerCells(c *Caller) []web.Cell {
	if c == nil {
		return []web.Cell{{Text: web.Say("console.explain.stranger")}}
	}
	out := []web.Cell{{Name: c.Username, URL: personPath(c.PersonID)}}
	if c.PersonID == "" {
		out[0] = web.Cell{Name: c.ClientID, URL: applicationPath(c.ClientID)}
	}
	if c.Level > 0 {
		out = append(out, web.Cell{Text: web.Say("console.level", "n", c.Level), Kind: "plain"})
	}
	for _, name := range c.Groups {
		out = append(out, web.Cell{Name: name, Kind: "plain"})
	}
	if len(c.Scopes) > 0 {
		out = append(out, web.Cell{Name: strings.Join(c.Scopes, " "), Code: true})
	}
	switch {
	case c.SignedIn == 0:
	case c.SignedIn < time.Second:
		out = append(out, web.Cell{Text: web.Say("console.explain.signed_in.now")})
	default:
		out = append(out, web.Cell{Text: web.Say("console.explain.signed_in", "age", c.SignedIn)})
	}
	return out
}

// stepPart shows one directive on the way, and how each of its rules fits the request. several: it is one of several
func stepPart(s *Step, i int, several bool) web.ConsolePart {
	part := web.ConsolePart{ID: "step" + strconv.Itoa(i), Title: web.Say("console.explain.step", "place", cmp.Or(s.Place, "—"))}
	if several {
		part.Facts = []web.ConsoleFact{{Label: "console.column.outcome", Cells: []web.Cell{verdictCell(s.Verdict)}}}
	}
	if s.Why != "" && several {
		part.Facts = append(part.Facts, web.ConsoleFact{Label: "console.field.why", Cells: []web.Cell{{Name: s.Why, Quoted: true}}})
	}
	if s.WantedLevel > 0 {
		part.Facts = append(part.Facts,
			web.ConsoleFact{Label: "console.field.wanted", Cells: []web.Cell{{Text: web.Say("console.level", "n", s.WantedLevel)}}})
	}
	headers := web.ConsoleFact{Label: "console.field.headers"}
	for _, h := range s.Headers {
		headers.Cells = append(headers.Cells, web.Cell{Name: h.Name + ": " + h.Value, Code: true})
	}
	if len(headers.Cells) > 0 {
		part.Facts = append(part.Facts, headers)
	}
	if len(s.Rules) == 0 {
		part.Text = web.Say("console.explain.no_rules")
		return part
	}
	part.Table = &web.Table{
		Label:   web.Say("console.rules.title"),
		Columns: []string{"console.column.rule", "console.column.does", "console.column.fit", "console.column.place"},
	}
	for _, l := range s.Rules {
		fit := web.Cell{Text: web.Say("console.fit." + l.Fit)}
		if l.Decides {
			fit.Kind, fit.Hint = "warn", web.Say("console.explain.decides")
		}
		place := l.Place
		if strings.HasSuffix(l.Rule, place) {
			place = ""
		}
		part.Table.Rows = append(part.Table.Rows,
			web.TableRow{Cells: []web.Cell{{Name: l.Rule}, kindCell(l.Kind), fit, {Name: place, Code: place != ""}}})
	}
	return part
}
