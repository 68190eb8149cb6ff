package sites

import (
	"errors"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/gatehouse-id/gatehouse/admin/console/layout"
	"github.com/gatehouse-id/gatehouse/identity/access"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/webflow"
	"github.com/gatehouse-id/gatehouse/internal/web"
	"github.com/gatehouse-id/gatehouse/storage"
)

const requestsPath = "/requests"

// RequestPath is the page of a request for access.
func RequestPath(id string) string { return layout.Root + requestsPath + "/" + url.PathEscape(id) }

// requestsScreen lists what people have asked to open, and what they have been granted.
func (g *gateway) requestsScreen() *layout.Screen {
	return &layout.Screen{Name: "requests", Path: requestsPath, Icon: "inbox", Role: layout.Viewer, Show: g.showRequests}
}

// requestKinds rate the states.
var requestKinds = map[access.State]string{access.Open: "warn", access.Granted: "good", access.Refused: "bad", access.Revoked: "plain"}

// requestStates are the states that can be chosen, the first one unless something else is.
var requestStates = []access.State{access.Open, access.Granted, access.Refused, access.Revoked}

func requestCell(s access.State) web.Cell {
	return web.Cell{Text: web.Say("console.request." + string(s)), Kind: requestKinds[s]}
}

func (g *gateway) showRequests(v *layout.Visit) (*web.Console, error) {
	q := v.URL.Query()
	f := access.Filter{
		State: access.State(q.Get("state")), Site: strings.TrimSpace(q.Get("site")),
		After: q.Get("after"), Limit: layout.Rows + 1,
	}
	list, err := g.Access.List(v.Context(), f)
	if err != nil {
		return nil, err
	}
	next := ""
	if len(list) > layout.Rows {
		list = list[:layout.Rows]
		next = list[len(list)-1].ID
	}
	t := &web.Table{
		Label:   web.Say("console.requests.title"),
		Columns: []string{"console.column.person", "console.column.site", "console.column.reason", "console.column.time", "console.column.state"},
	}
	decidable, err := g.decidable(v, list)
	if err != nil {
		return nil, err
	}
	if len(decidable) > 0 {
		t.Columns = append(t.Columns, "console.act.grant", "console.act.refuse")
	}
	for i := range list {
		r := &list[i]
		row := web.TableRow{
			URL: RequestPath(r.ID),
			Cells: []web.Cell{
				{Name: r.Username},
				{Name: r.Site, Code: true},
				{Name: r.Reason},
				{Text: web.Say("console.time", "time", r.AskedAt)},
				requestCell(r.State),
			},
		}
		if decidable[r.ID] {
			row.Cells = append(row.Cells,
				web.Cell{Text: web.Say("console.act.grant"), URL: RequestPath(r.ID) + "/grant"},
				web.Cell{Text: web.Say("console.act.refuse"), URL: RequestPath(r.ID) + "/refuse"})
		}
		t.Rows = append(t.Rows, row)
	}
	t.First, t.Next = v.Pages(next)
	states := web.Field{
		Name: "state", Type: "select", Label: "console.column.state", Value: q.Get("state"),
		Options: []web.Option{{Label: "console.any"}},
	}
	for _, s := range requestStates {
		states.Options = append(states.Options, web.Option{Value: string(s), Label: "console.request." + string(s)})
	}
	out := &web.Console{
		Title: web.Say("console.requests.title"), Lead: web.Say("console.requests.text"), Parts: []web.ConsolePart{{Table: t}},
		Actions: []web.Action{
			{Label: "console.waiting.title", URL: v.Path() + "/waiting", Quiet: true},
			{Label: "console.blocked.title", URL: v.Path() + "/blocked"},
		},
		Filter: &web.Filter{
			Action: v.Path(),
			Fields: []web.Field{{Name: "site", Type: "search", Label: "console.column.site", Value: f.Site}, states},
		},
	}
	filtered := f.Site != "" || f.State != ""
	if filtered {
		out.Filter.Clear = v.Path()
	}
	switch {
	case len(list) > 0:
	case filtered:
		out.Parts[0].Empty = &web.Empty{Text: web.Say("console.none"), Next: &web.Action{Label: "console.filter.clear", URL: v.Path()}}
	default:
		out.Parts[0].Empty = &web.Empty{
			Text: web.Say("console.requests.none"),
			Next: &web.Action{Label: "console.sites.title", URL: layout.Root + sitesPath},
		}
	}
	return out, nil
}

// decidable returns the open requests of a list that the person of the visit can decide about, by their ids.
func (g *gateway) decidable(v *layout.Visit, list []access.Request) (out map[string]bool, err error) {
	if v.Role < layout.Operator {
		return nil, nil
	}
	err = g.Manage.Store.View(v.Context(), func(tx storage.Tx) error {
		out = map[string]bool{}
		for i := range list {
			r := &list[i]
			if r.State != access.Open || r.Person == v.Me() {
				continue
			}
			rank, err := g.rankOf(tx, r.Person)
			if err != nil {
				return err
			}
			if v.Outranks(rank) {
				out[r.ID] = true
			}
		}
		return nil
	})
	return out, err
}

// requestScreen is one request. Only a different person of higher rank can decide about it.
func (g *gateway) requestScreen() *layout.Screen {
	in := func(states ...access.State) func(*layout.Visit) bool {
		return func(v *layout.Visit) bool {
			for _, s := range states {
				if shownRequest(v).State == s {
					return true
				}
			}
			return false
		}
	}
	return &layout.Screen{
		Name: "request", Path: requestsPath + "/{id}", Role: layout.Viewer, Find: g.findRequest, Rank: g.rankOfRequest, Show: g.showRequest,
		Acts: []*layout.Act{
			{Name: "grant", Role: layout.Operator, Ask: askGrant, Do: g.grant},
			{
				Name: "refuse", Role: layout.Operator, When: in(access.Open), Ask: askNote,
				Do: g.decide(func() decision { return g.Access.Refuse }),
			},
			{
				Name: "revoke-access", Role: layout.Operator, Danger: true, When: in(access.Granted), Ask: askNote,
				Do: g.decide(func() decision { return g.Access.Revoke }),
			},
		},
	}
}

// shownRequest is the request that the screen is about.
func shownRequest(v *layout.Visit) *access.Request { return v.About.(*access.Request) }

func (g *gateway) findRequest(v *layout.Visit) error {
	r, err := g.Access.Get(v.Context(), v.PathValue("id"))
	if errors.Is(err, access.ErrNone) {
		return webflow.NotFound()
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
func (g *gateway) rankOfRequest(v *layout.Visit, tx storage.Tx) (layout.Role, error) {
	return g.rankOf(tx, shownRequest(v).Person)
}

// rankOf reads the role of a person.
func (g *gateway) rankOf(tx storage.Tx, personID string) (layout.Role, error) {
	_, rec, err := g.Identity.Person.Find(tx, personID)
	if errors.Is(err, person.ErrNoPerson) {
		return layout.Nobody, nil
	}
	return g.RoleOf(rec.PartitionName(), rec.Groups), err
}

func (g *gateway) showRequest(v *layout.Visit) (*web.Console, error) {
	r := shownRequest(v)
	when := func(label string, t time.Time) web.ConsoleFact {
		return web.ConsoleFact{Label: label, Cells: []web.Cell{{Text: web.Say("console.time", "time", t)}}}
	}
	facts := []web.ConsoleFact{
		{Label: "console.column.person", Cells: []web.Cell{{Name: r.Username, URL: personPath(r.Person)}}},
		{Label: "console.column.site", Cells: []web.Cell{{Name: r.Site, Code: true}}},
		{Label: "console.column.reason", Cells: []web.Cell{{Name: r.Reason}}},
		when("console.column.time", r.AskedAt),
	}
	if !r.Decided.IsZero() {
		facts = append(facts, web.ConsoleFact{Label: "console.column.by", Cells: []web.Cell{{Name: r.By, Note: r.Note}}})
	}
	if !r.Ends.IsZero() {
		facts = append(facts, when("console.request.ends", r.Ends))
	}
	if r.Uses > 0 {
		facts = append(facts, web.ConsoleFact{
			Label: "console.request.uses",
			Cells: []web.Cell{{Name: strconv.Itoa(r.Uses-r.Used) + "/" + strconv.Itoa(r.Uses)}},
		})
	}
	explain := layout.With(layout.Root+explainPath, "url", r.Site+"/", "person", r.Person)
	ways := web.Action{Label: "console.explain.title", URL: explain, Quiet: true}
	out := &web.Console{
		Title: web.Say("console.request.title", "name", r.Username), Tags: []web.Cell{requestCell(r.State)},
		Up:    &web.Up{Label: web.Say("console.requests.title"), URL: layout.Root + requestsPath},
		Parts: []web.ConsolePart{{Facts: facts}}, Actions: append(v.Buttons(), ways),
	}
	if v.Self {
		out.Lead = web.Say("console.request.self")
	}
	return out, nil
}

var noteField = web.Field{Name: "note", Label: "console.request.note", Hint: "console.request.note.hint", MaxLength: 300}

func askGrant(v *layout.Visit) (layout.Question, error) {
	return layout.Question{Fill: []any{"site", shownRequest(v).Site}, Fields: []web.Field{
		{Name: "hours", Label: "console.request.hours", Value: "8", InputMode: "numeric", MaxLength: 5},
		{Name: "uses", Label: "console.request.uses", Hint: "console.request.uses.hint", InputMode: "numeric", MaxLength: 4},
		noteField,
	}}, nil
}

func askNote(v *layout.Visit) (layout.Question, error) {
	return layout.Question{Fill: []any{"site", shownRequest(v).Site}, Fields: []web.Field{noteField}}, nil
}

// number reads a number of a form. Empty: 0
func number(in url.Values, name string) (int, error) {
	text := strings.TrimSpace(in.Get(name))
	if text == "" {
		return 0, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 || n > 100_000 {
		return 0, &layout.Problem{Field: name, Key: "console.problem.value"}
	}
	return n, nil
}

func (g *gateway) grant(v *layout.Visit, in url.Values) (layout.Result, error) {
	hours, err := number(in, "hours")
	if err != nil {
		return layout.Result{}, err
	}
	uses, err := number(in, "uses")
	if err != nil {
		return layout.Result{}, err
	}
	r := shownRequest(v)
	_, err = g.Access.Grant(v.Context(), r.Person, r.Site, access.Terms{For: time.Duration(hours) * time.Hour, Uses: uses},
		in.Get("note"), v.Actor())
	return layout.Result{}, problemOfAccess(err)
}

// decision refuses or revokes.
type decision = access.Decision

func (g *gateway) decide(how func() decision) func(*layout.Visit, url.Values) (layout.Result, error) {
	return func(v *layout.Visit, in url.Values) (layout.Result, error) {
		r := shownRequest(v)
		_, err := how()(v.Context(), r.Person, r.Site, in.Get("note"), v.Actor())
		return layout.Result{}, problemOfAccess(err)
	}
}

// problemOfAccess returns the message to an administrator about an error.
func problemOfAccess(err error) error {
	switch {
	case errors.Is(err, access.ErrTerms):
		return &layout.Problem{Field: "hours", Key: "console.request.terms"}
	case errors.Is(err, access.ErrReason):
		return &layout.Problem{Field: "note", Key: "console.problem.value"}
	case errors.Is(err, access.ErrState), errors.Is(err, access.ErrNone):
		return &layout.Problem{Key: "console.problem.changed"}
	}
	return err
}
