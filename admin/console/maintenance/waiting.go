package maintenance

import (
	"encoding/base64"
	"errors"
	"net/url"
	"strconv"
	"strings"

	"github.com/gatehouse-id/gatehouse/admin/console/layout"
	"github.com/gatehouse-id/gatehouse/identity/challenge"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/personindex"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/web"
	"github.com/gatehouse-id/gatehouse/storage"
)

const (
	waitingPath = "/requests/waiting"
	blockedPath = "/requests/blocked"
	personsPath = layout.Root + "/persons/"
)

// upToRequests leads to the screen that the two below belong to.
var upToRequests = &web.Up{Label: web.Say("console.requests.title"), URL: layout.Root + "/requests"}

// waitingScreen lists people who were invited, or have signed up, and have not come in yet.
func (u *upkeep) waitingScreen() *layout.Screen {
	return &layout.Screen{Name: "waiting", Path: waitingPath, Role: layout.Viewer, Show: u.showWaiting}
}

// waitingStates are the states that can be chosen, the first one unless something else is.
var waitingStates = []person.State{person.Invited, person.Inactive}

func (u *upkeep) showWaiting(v *layout.Visit) (*web.Console, error) {
	state := waitingStates[0]
	if v.URL.Query().Get("state") == string(waitingStates[1]) {
		state = waitingStates[1]
	}
	var found personindex.Answer
	err := u.Store.View(v.Context(), func(tx storage.Tx) (err error) {
		found, err = personindex.Find(tx, u.Identity.Person,
			personindex.Query{Partition: audit.DefaultPartition, State: state, After: v.URL.Query().Get("after"), Limit: layout.Rows})
		return err
	})
	if err != nil && !errors.Is(err, personindex.ErrCursor) { // of another list: this one is empty
		return nil, err
	}
	word := strings.ToLower(string(state))
	// Each is dealt with on the page of its person.
	act, label := "invite-again", "console.act.invite-again"
	if state == person.Inactive {
		act, label = "unblock", "console.waiting.approve"
	}
	t := &web.Table{
		Label:   web.Say("console.waiting.title"),
		Columns: []string{"console.column.person", "console.column.email", "console.column.created", label, "console.act.remove"},
	}
	for i := range found.Persons {
		p := &found.Persons[i]
		at, rank := personsPath+url.PathEscape(p.ID), u.RoleOf(p.Partition, p.Groups)
		do, remove := web.Cell{}, web.Cell{}
		if v.Role >= layout.Helpdesk && v.Outranks(rank) {
			do = web.Cell{Text: web.Say(label), URL: at + "/" + act}
		}
		if v.Role >= layout.Operator && v.Outranks(rank) && rank != layout.Owner {
			remove = web.Cell{Text: web.Say("console.act.remove"), URL: at + "/remove"}
		}
		email := web.Cell{}
		if !strings.EqualFold(p.Email, p.Username) {
			email.Name = p.Email
		}
		t.Rows = append(t.Rows, web.TableRow{
			URL:   at,
			Cells: []web.Cell{{Name: p.Username, Note: p.Name}, email, when(p.CreatedAt), do, remove},
		})
	}
	t.First, t.Next = v.Pages(found.Next)
	part := web.ConsolePart{
		ID: "waiting", Title: web.Say("console.waiting." + word),
		Text: web.Say("console.waiting." + word + ".text"), Table: t,
	}
	for _, s := range waitingStates {
		part.Choices = append(part.Choices,
			web.Choice{Label: "console.waiting." + strings.ToLower(string(s)), URL: layout.With(v.Path(), "state", string(s)), Current: s == state})
	}
	if len(t.Rows) == 0 && found.Next == "" {
		part.Empty = &web.Empty{Text: web.Say("console.waiting.none")}
	}
	return &web.Console{Title: web.Say("console.waiting.title"), Up: upToRequests, Parts: []web.ConsolePart{part}}, nil
}

// blockedScreen lists the counters that accept no attempts at the moment.
func (u *upkeep) blockedScreen() *layout.Screen {
	return &layout.Screen{
		Name: "blocked", Path: blockedPath, Role: layout.Viewer, Show: u.showBlocked,
		Acts: []*layout.Act{{Name: "unblock-address", Role: layout.Operator, Hidden: true, Ask: askUnblock, Do: u.unblock}},
	}
}

// kinds are the counters that messages know.
var kinds = map[string]bool{
	"address": true, "person-address": true, "person": true, "device": true, "reset-address": true,
	"remind-address": true, "sign-up-address": true,
}

func (u *upkeep) showBlocked(v *layout.Visit) (*web.Console, error) {
	after, err := base64.RawURLEncoding.DecodeString(v.URL.Query().Get("after"))
	if err != nil {
		after = nil // the beginning
	}
	var list []challenge.Block
	var next string
	var people []person.Person
	err = u.Store.View(v.Context(), func(tx storage.Tx) (err error) {
		if list, next, err = u.Identity.Proof.Blocks(tx, string(after), layout.Rows, v.Now); err != nil {
			return err
		}
		var ids []string
		for _, b := range list {
			if b.PersonID != "" {
				ids = append(ids, b.PersonID)
			}
		}
		people, err = u.Identity.Person.ManyPersons(tx, ids)
		return err
	})
	if err != nil {
		return nil, err
	}
	names := map[string]string{}
	for i := range people {
		names[people[i].ID] = people[i].Username
	}
	t := &web.Table{
		Label: web.Say("console.blocked.title"),
		Columns: []string{
			"console.column.throttle", "console.column.address", "console.column.person", "console.column.attempts",
			"console.column.until", "console.column.action",
		},
	}
	for _, b := range list {
		what := web.Cell{Name: b.Kind, Code: true}
		if kinds[b.Kind] {
			what = web.Cell{Text: web.Say("console.blocked." + b.Kind)}
		}
		who, act := layout.OrNone(""), web.Cell{}
		switch {
		case names[b.PersonID] != "": // the page of a person has what is done about it
			who = web.Cell{Name: names[b.PersonID], URL: personsPath + url.PathEscape(b.PersonID)}
		case b.PersonID == "" && b.Address != "" && b.Kind != "person-address":
			act = v.Link("unblock-address", "address", b.Address)
		case b.Kind == "person-address" || b.Kind == "person":
			who = web.Cell{Text: web.Say("console.blocked.nobody")}
		}
		t.Rows = append(t.Rows, web.TableRow{Cells: []web.Cell{
			what, layout.OrNone(b.Address), who,
			{Name: strconv.Itoa(b.Failures)},
			when(b.Until), act,
		}})
	}
	t.First, t.Next = v.Pages(base64.RawURLEncoding.EncodeToString([]byte(next)))
	out := &web.Console{
		Title: web.Say("console.blocked.title"), Lead: web.Say("console.blocked.text"), Up: upToRequests,
		Parts: []web.ConsolePart{{Table: t}},
	}
	if len(list) == 0 && next == "" {
		out.Parts[0].Empty = &web.Empty{Text: web.Say("console.blocked.none")}
	}
	return out, nil
}

func askUnblock(v *layout.Visit) (layout.Question, error) {
	address, hidden := v.Chosen("address")
	return layout.Question{
		Hidden: hidden,
		Facts:  []web.ConsoleFact{{Label: "console.column.address", Cells: []web.Cell{layout.OrNone(address)}}},
	}, nil
}

// unblock forgets what is counted against an address.
func (u *upkeep) unblock(v *layout.Visit, in url.Values) (layout.Result, error) {
	n, err := u.Identity.Proof.UnlockAddress(v.Context(), layout.Part(in, "address"), v.Actor())
	if err == nil && n == 0 {
		err = &layout.Problem{Key: "console.problem.gone"}
	}
	return layout.Result{}, err
}
