package gateway

import (
	"errors"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/gatehouse-id/gatehouse/caddymodule/console/frame"
	"github.com/gatehouse-id/gatehouse/identity/access"
	"github.com/gatehouse-id/gatehouse/identity/front"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/internal/page"
	"github.com/gatehouse-id/gatehouse/storage"
)

const requestsPath = "/requests"

func requestPath(id string) string { return frame.Root + requestsPath + "/" + url.PathEscape(id) }

// requestsScreen lists what people have asked to open, and what they have been granted.
func (g *gateway) requestsScreen() *frame.Screen {
	return &frame.Screen{Name: "requests", Path: requestsPath, Icon: "mail", Role: frame.Viewer, Show: g.showRequests}
}

// requestKinds are how good the states are.
var requestKinds = map[access.State]string{access.Open: "warn", access.Granted: "good", access.Refused: "bad", access.Revoked: "plain"}

// requestStates are the states that can be chosen, the first one unless something else is.
var requestStates = []access.State{access.Open, access.Granted, access.Refused, access.Revoked}

func requestCell(s access.State) page.Cell {
	return page.Cell{Text: page.Say("console.request." + string(s)), Kind: requestKinds[s]}
}

func (g *gateway) showRequests(v *frame.Visit) (*page.Console, error) {
	q := v.URL.Query()
	f := access.Filter{State: access.State(q.Get("state")), Site: strings.TrimSpace(q.Get("site")), After: q.Get("after"), Limit: frame.Rows + 1}
	list, err := g.Access.List(v.Context(), f)
	if err != nil {
		return nil, err
	}
	next := ""
	if len(list) > frame.Rows {
		list = list[:frame.Rows]
		next = list[len(list)-1].ID
	}
	t := &page.Table{Label: page.Say("console.requests.title"), Columns: []string{"console.column.person", "console.column.site", "console.column.reason", "console.column.time", "console.column.state"}}
	for i := range list {
		r := &list[i]
		t.Rows = append(t.Rows, page.TableRow{URL: requestPath(r.ID), Cells: []page.Cell{{Name: r.Username}, {Name: r.Site, Code: true}, {Name: r.Reason}, {Text: page.Say("console.time", "time", r.AskedAt)}, requestCell(r.State)}})
	}
	t.First, t.Next = v.Pages(next)
	states := page.Field{Name: "state", Type: "select", Label: "console.column.state", Value: q.Get("state"), Options: []page.Option{{Label: "console.any"}}}
	for _, s := range requestStates {
		states.Options = append(states.Options, page.Option{Value: string(s), Label: "console.request." + string(s)})
	}
	out := &page.Console{
		Title: page.Say("console.requests.title"), Lead: page.Say("console.requests.text"), Parts: []page.ConsolePart{{Table: t}},
		Actions: []page.Action{{Label: "console.waiting.title", URL: v.Path() + "/waiting", Quiet: true}, {Label: "console.blocked.title", URL: v.Path() + "/blocked"}},
		Filter:  &page.Filter{Action: v.Path(), Fields: []page.Field{{Name: "site", Type: "search", Label: "console.column.site", Value: f.Site}, states}},
	}
	filtered := f.Site != "" || f.State != ""
	if filtered {
		out.Filter.Clear = v.Path()
	}
	switch {
	case len(list) > 0:
	case filtered:
		out.Parts[0].Empty = &page.Empty{Text: page.Say("console.none"), Next: &page.Action{Label: "console.filter.clear", URL: v.Path()}}
	default:
		out.Parts[0].Empty = &page.Empty{Text: page.Say("console.requests.none"), Next: &page.Action{Label: "console.sites.title", URL: frame.Root + sitesPath}}
	}
	return out, nil
}

// requestScreen is one request. Who decides about it must have more to say than the person who asks, and is not that
// person.
func (g *gateway) requestScreen() *frame.Screen {
	in := func(states ...access.State) func(*frame.Visit) bool {
		return func(v *frame.Visit) bool {
			for _, s := range states {
				if shownRequest(v).State == s {
					return true
				}
			}
			return false
		}
	}
	return &frame.Screen{
		Name: "request", Path: requestsPath + "/{id}", Role: frame.Viewer, Find: g.findRequest, Rank: g.rankOfRequest, Show: g.showRequest,
		Acts: []*frame.Act{
			{Name: "grant", Role: frame.Operator, Ask: askGrant, Do: g.grant},
			{Name: "refuse", Role: frame.Operator, Danger: true, When: in(access.Open), Ask: askNote, Do: g.decide(func() decision { return g.Access.Refuse })},
			{Name: "revoke-access", Role: frame.Operator, Danger: true, When: in(access.Granted), Ask: askNote, Do: g.decide(func() decision { return g.Access.Revoke })},
		},
	}
}

// shownRequest is the request that the screen is about.
func shownRequest(v *frame.Visit) *access.Request { return v.About.(*access.Request) }

func (g *gateway) findRequest(v *frame.Visit) error {
	r, err := g.Access.Get(v.Context(), v.PathValue("id"))
	if errors.Is(err, access.ErrNone) {
		return front.NotFound()
	}
	if err != nil {
		return err
	}
	v.About, v.Called, v.Self = &r, r.Username, r.Person == v.Me()
	return g.Store.View(v.Context(), func(tx storage.Tx) (err error) {
		v.Rank, err = g.rankOfRequest(v, tx)
		return err
	})
}

// rankOfRequest reads the role of the person who asks.
func (g *gateway) rankOfRequest(v *frame.Visit, tx storage.Tx) (frame.Role, error) {
	_, rec, err := g.Identity.Person.Find(tx, shownRequest(v).Person)
	if errors.Is(err, person.ErrNoPerson) {
		return frame.Nobody, nil
	}
	return g.RoleOf(rec.PartitionName(), rec.Groups), err
}

func (g *gateway) showRequest(v *frame.Visit) (*page.Console, error) {
	r := shownRequest(v)
	when := func(label string, t time.Time) page.ConsoleFact {
		return page.ConsoleFact{Label: label, Cells: []page.Cell{{Text: page.Say("console.time", "time", t)}}}
	}
	facts := []page.ConsoleFact{
		{Label: "console.column.person", Cells: []page.Cell{{Name: r.Username, URL: personPath(r.Person)}}},
		{Label: "console.column.site", Cells: []page.Cell{{Name: r.Site, Code: true}}},
		{Label: "console.column.reason", Cells: []page.Cell{{Name: r.Reason}}},
		when("console.column.time", r.AskedAt),
	}
	if !r.Decided.IsZero() {
		facts = append(facts, page.ConsoleFact{Label: "console.column.by", Cells: []page.Cell{{Name: r.By, Note: r.Note}}})
	}
	if !r.Ends.IsZero() {
		facts = append(facts, when("console.request.ends", r.Ends))
	}
	if r.Uses > 0 {
		facts = append(facts, page.ConsoleFact{Label: "console.request.uses", Cells: []page.Cell{{Name: strconv.Itoa(r.Uses-r.Used) + "/" + strconv.Itoa(r.Uses)}}})
	}
	ways := page.Action{Label: "console.explain.title", URL: frame.With(frame.Root+explainPath, "url", r.Site+"/", "person", r.Person)}
	out := &page.Console{
		Title: page.Say("console.request.title", "name", r.Username), Tags: []page.Cell{requestCell(r.State)}, Up: &page.Up{Label: page.Say("console.requests.title"), URL: frame.Root + requestsPath},
		Parts: []page.ConsolePart{{Facts: facts, Actions: append(v.Buttons(), ways)}},
	}
	if v.Self {
		out.Lead = page.Say("console.request.self")
	}
	return out, nil
}

var noteField = page.Field{Name: "note", Label: "console.request.note", Hint: "console.request.note.hint", MaxLength: 300}

func askGrant(v *frame.Visit) (frame.Question, error) {
	return frame.Question{Fill: []any{"site", shownRequest(v).Site}, Fields: []page.Field{
		{Name: "hours", Label: "console.request.hours", Value: "8", InputMode: "numeric", MaxLength: 5}, {Name: "uses", Label: "console.request.uses", Hint: "console.request.uses.hint", InputMode: "numeric", MaxLength: 4}, noteField,
	}}, nil
}

func askNote(v *frame.Visit) (frame.Question, error) {
	return frame.Question{Fill: []any{"site", shownRequest(v).Site}, Fields: []page.Field{noteField}}, nil
}

// number reads a number of a form. Empty: 0
func number(in url.Values, name string) (int, error) {
	text := strings.TrimSpace(in.Get(name))
	if text == "" {
		return 0, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 || n > 100_000 {
		return 0, &frame.Problem{Field: name, Key: "console.problem.value"}
	}
	return n, nil
}

func (g *gateway) grant(v *frame.Visit, in url.Values) (frame.Result, error) {
	hours, err := number(in, "hours")
	if err != nil {
		return frame.Result{}, err
	}
	uses, err := number(in, "uses")
	if err != nil {
		return frame.Result{}, err
	}
	r := shownRequest(v)
	_, err = g.Access.Grant(v.Context(), r.Person, r.Site, access.Terms{For: time.Duration(hours) * time.Hour, Uses: uses}, in.Get("note"), v.Actor())
	return frame.Result{}, problemOfAccess(err)
}

// decision refuses or revokes.
type decision = access.Decision

func (g *gateway) decide(how func() decision) func(*frame.Visit, url.Values) (frame.Result, error) {
	return func(v *frame.Visit, in url.Values) (frame.Result, error) {
		r := shownRequest(v)
		_, err := how()(v.Context(), r.Person, r.Site, in.Get("note"), v.Actor())
		return frame.Result{}, problemOfAccess(err)
	}
}

// problemOfAccess is what an administrator is told of an error.
func problemOfAccess(err error) error {
	switch {
	case errors.Is(err, access.ErrTerms):
		return &frame.Problem{Field: "hours", Key: "console.request.terms"}
	case errors.Is(err, access.ErrReason):
		return &frame.Problem{Field: "note", Key: "console.problem.value"}
	case errors.Is(err, access.ErrState), errors.Is(err, access.ErrNone):
		return &frame.Problem{Key: "console.problem.changed"}
	}
	return err
}
