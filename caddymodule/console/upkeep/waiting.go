package upkeep

import (
	"encoding/base64"
	"errors"
	"net/url"
	"strconv"
	"strings"

	"github.com/gatehouse-id/gatehouse/caddymodule/console/frame"
	"github.com/gatehouse-id/gatehouse/identity/lookup"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/proof"
	"github.com/gatehouse-id/gatehouse/internal/event"
	"github.com/gatehouse-id/gatehouse/internal/page"
	"github.com/gatehouse-id/gatehouse/storage"
)

const (
	waitingPath = "/requests/waiting"
	blockedPath = "/requests/blocked"
	personsPath = frame.Root + "/persons/"
)

// upToRequests leads to the screen that the two below belong to.
var upToRequests = &page.Up{Label: page.Say("console.requests.title"), URL: frame.Root + "/requests"}

// waitingScreen lists people who were invited, or have signed up, and have not come in yet.
func (u *upkeep) waitingScreen() *frame.Screen {
	return &frame.Screen{Name: "waiting", Path: waitingPath, Role: frame.Viewer, Show: u.showWaiting}
}

// waitingStates are the states that can be chosen, the first one unless something else is.
var waitingStates = []person.State{person.Invited, person.Inactive}

func (u *upkeep) showWaiting(v *frame.Visit) (*page.Console, error) {
	state := waitingStates[0]
	if v.URL.Query().Get("state") == string(waitingStates[1]) {
		state = waitingStates[1]
	}
	var found lookup.Answer
	err := u.Store.View(v.Context(), func(tx storage.Tx) (err error) {
		found, err = lookup.Find(tx, u.Identity.Person, lookup.Query{Partition: event.DefaultPartition, State: state, After: v.URL.Query().Get("after"), Limit: frame.Rows})
		return err
	})
	if err != nil && !errors.Is(err, lookup.ErrCursor) { // of another list: this one is empty
		return nil, err
	}
	word := strings.ToLower(string(state))
	// Each is dealt with on the page of its person.
	act, label := "invite-again", "console.act.invite-again"
	if state == person.Inactive {
		act, label = "unblock", "console.waiting.approve"
	}
	t := &page.Table{Label: page.Say("console.waiting.title"), Columns: []string{"console.column.person", "console.column.email", "console.column.created", label, "console.act.remove"}}
	for i := range found.Persons {
		p := &found.Persons[i]
		at, rank := personsPath+url.PathEscape(p.ID), u.RoleOf(p.Partition, p.Groups)
		do, remove := page.Cell{}, page.Cell{}
		if v.Role >= frame.Helpdesk && v.Outranks(rank) {
			do = page.Cell{Text: page.Say(label), URL: at + "/" + act}
		}
		if v.Role >= frame.Operator && v.Outranks(rank) && rank != frame.Owner {
			remove = page.Cell{Text: page.Say("console.act.remove"), URL: at + "/remove"}
		}
		t.Rows = append(t.Rows, page.TableRow{URL: at, Cells: []page.Cell{{Name: p.Username, Note: p.Name}, {Name: p.Email}, when(p.CreatedAt), do, remove}})
	}
	t.First, t.Next = v.Pages(found.Next)
	part := page.ConsolePart{ID: "waiting", Title: page.Say("console.waiting." + word), Text: page.Say("console.waiting." + word + ".text"), Table: t}
	for _, s := range waitingStates {
		part.Choices = append(part.Choices, page.Choice{Label: "console.waiting." + strings.ToLower(string(s)), URL: frame.With(v.Path(), "state", string(s)), Current: s == state})
	}
	if len(t.Rows) == 0 && found.Next == "" {
		part.Empty = &page.Empty{Text: page.Say("console.waiting.none"), Next: &page.Action{Label: "console.persons.title", URL: strings.TrimSuffix(personsPath, "/")}}
	}
	return &page.Console{Title: page.Say("console.waiting.title"), Up: upToRequests, Parts: []page.ConsolePart{part}}, nil
}

// blockedScreen lists the counters that accept no attempts at the moment.
func (u *upkeep) blockedScreen() *frame.Screen {
	return &frame.Screen{
		Name: "blocked", Path: blockedPath, Role: frame.Viewer, Show: u.showBlocked,
		Acts: []*frame.Act{{Name: "unblock-address", Role: frame.Operator, Hidden: true, Ask: askUnblock, Do: u.unblock}},
	}
}

// kinds are the counters that messages know.
var kinds = map[string]bool{"address": true, "person-address": true, "person": true, "device": true, "reset-address": true, "remind-address": true, "sign-up-address": true}

func (u *upkeep) showBlocked(v *frame.Visit) (*page.Console, error) {
	after, err := base64.RawURLEncoding.DecodeString(v.URL.Query().Get("after"))
	if err != nil {
		after = nil // the beginning
	}
	var list []proof.Block
	var next string
	var people []person.Person
	err = u.Store.View(v.Context(), func(tx storage.Tx) (err error) {
		if list, next, err = u.Identity.Proof.Blocks(tx, string(after), frame.Rows, v.Now); err != nil {
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
	t := &page.Table{Label: page.Say("console.blocked.title"), Columns: []string{"console.column.throttle", "console.column.address", "console.column.person", "console.column.attempts", "console.column.until", "console.column.action"}}
	for _, b := range list {
		what := page.Cell{Name: b.Kind, Code: true}
		if kinds[b.Kind] {
			what = page.Cell{Text: page.Say("console.blocked." + b.Kind)}
		}
		who, act := frame.OrNone(""), page.Cell{}
		switch {
		case names[b.PersonID] != "": // the page of a person has what is done about it
			who = page.Cell{Name: names[b.PersonID], URL: personsPath + url.PathEscape(b.PersonID)}
		case b.PersonID == "" && b.Address != "" && b.Kind != "person-address":
			act = v.Link("unblock-address", "address", b.Address)
		case b.Kind == "person-address" || b.Kind == "person":
			who = page.Cell{Text: page.Say("console.blocked.nobody")}
		}
		t.Rows = append(t.Rows, page.TableRow{Cells: []page.Cell{what, frame.OrNone(b.Address), who, {Name: strconv.Itoa(b.Failures)}, when(b.Until), act}})
	}
	t.First, t.Next = v.Pages(base64.RawURLEncoding.EncodeToString([]byte(next)))
	out := &page.Console{Title: page.Say("console.blocked.title"), Lead: page.Say("console.blocked.text"), Up: upToRequests, Parts: []page.ConsolePart{{Table: t}}}
	if len(list) == 0 && next == "" {
		out.Parts[0].Empty = &page.Empty{Text: page.Say("console.blocked.none"), Next: &page.Action{Label: "console.events.title", URL: frame.With(frame.Root+"/events", "kind", "login.LoginThrottledEvent")}}
	}
	return out, nil
}

func askUnblock(v *frame.Visit) (frame.Question, error) {
	address, hidden := v.Chosen("address")
	return frame.Question{Hidden: hidden, Facts: []page.ConsoleFact{{Label: "console.column.address", Cells: []page.Cell{frame.OrNone(address)}}}}, nil
}

// unblock forgets what is counted against an address.
func (u *upkeep) unblock(v *frame.Visit, in url.Values) (frame.Result, error) {
	n, err := u.Identity.Proof.UnlockAddress(v.Context(), frame.Part(in, "address"), v.Actor())
	if err == nil && n == 0 {
		err = &frame.Problem{Key: "console.problem.gone"}
	}
	return frame.Result{}, err
}
