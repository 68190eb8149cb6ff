package console

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/admin"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/storage"
)

// crowd adds people to a group, and returns their ids.
func (h *harness) crowd(group string, many int) (ids []string) {
	h.t.Helper()
	for i := range many {
		p, err := h.id.Person.AddPerson(h.t.Context(),
			person.NewPerson{Username: fmt.Sprintf("%s%03d@example.com", group, i), Groups: []string{group}}, audit.Actor{})
		h.must(err)
		ids = append(ids, p.ID)
	}
	return ids
}

// inState counts who is in a state.
func (h *harness) inState(ids []string, state person.State) (n int) {
	h.t.Helper()
	h.must(h.store.View(h.t.Context(), func(tx storage.Tx) error {
		people, err := h.id.Person.ManyPersons(tx, ids)
		n = 0
		for _, p := range people {
			if p.State == state {
				n++
			}
		}
		return err
	}))
	return n
}

// TestBulk: whom the list selects, or whose boxes are checked, are changed in the background with an event for each;
// the page that asks says how many they are, and who may not be changed is left out and listed.
func TestBulk(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	crowd := h.crowd("crowd", 45)
	h.as("nobody@example.com")
	b := h.as("helpdesk@example.com")
	if a := b.get("/admin/persons"); !strings.Contains(a.form(), `formaction="/admin/persons/block-many"`) ||
		strings.Contains(a.form(), "join-many") || strings.Contains(a.form(), "/export") {
		t.Fatalf("a helpdesk is not offered what they may do to many:\n%s", a.form())
	}
	if a := h.as("viewer@example.com").get("/admin/persons"); strings.Contains(a.form(), `name="person"`) {
		t.Errorf("a viewer can choose people:\n%s", a.form())
	}
	if a := b.acts("/admin/persons/block-many"); a.Code != http.StatusUnprocessableEntity {
		t.Errorf("blocking nobody = %d", a.Code)
	}
	nobody := h.personID("nobody@example.com")
	chosen := url.Values{"person": {
		nobody, h.personID("two.helpdesk@example.com"), h.personID("owner@example.com"),
		h.personID("helpdesk@example.com"), "x",
	}}.Encode()
	asked := b.get("/admin/persons/block-many?" + chosen)
	for _, want := range []string{"<dt>People</dt><dd><span>4</span>", "<dt>Sessions that will end</dt><dd><span>2</span>"} {
		if !strings.Contains(asked.form(), want) {
			t.Errorf("the page that asks has no %q:\n%s", want, asked.form())
		}
	}
	a := b.acts("/admin/persons/block-many?"+chosen, "reason", "reorganised")
	job := strings.TrimSuffix(a.url, "?done=block-many")
	if a.Code != http.StatusOK || !strings.HasPrefix(job, "/admin/jobs/") || a.Header().Get("Refresh") == "" {
		t.Fatalf("the work leads to %s = %d\n%s", a.url, a.Code, a.form())
	}
	if h.inState([]string{nobody}, person.Blocked) != 1 && h.console.Manage.WorkOff(t.Context()) != nil {
		t.Fatal("the work fails")
	}
	a = b.get(job)
	if h.inState([]string{nobody}, person.Blocked) != 1 || a.Header().Get("Refresh") != "" ||
		strings.Count(a.form(), "Has an equal or higher role") != 3 {
		t.Errorf("after the work, whom a helpdesk may not block is not listed:\n%s", a.form())
	}
	happened := h.allEvents(t.Context())
	if e := happened[len(happened)-1]; e.Type != "person.PersonBlockedEvent" || e.Actor != h.personID("helpdesk@example.com") ||
		e.Reason != "reorganised" {
		t.Errorf("the event of a person has %s by %q because %q", e.Type, e.AgentUser, e.Reason)
	}
	if a := b.get("/admin/persons"); !strings.Contains(a.form(), job) {
		t.Errorf("the list has no way to the work:\n%s", a.form())
	}
	b = h.as("operator@example.com")
	a = b.submit(b.get("/admin/persons/export?in=crowd"))
	if n := strings.Count(a.Body.String(), "@example.com,ACTIVE"); a.Code != http.StatusOK || n != 45 {
		t.Errorf("the export = %d with %d people, want 45\n%s", a.Code, n, a.Body)
	}
	a = b.acts("/admin/persons/join-many?all=yes&in=crowd", "group", "staff")
	if !strings.HasPrefix(a.url, "/admin/jobs/") {
		t.Fatalf("joining = %d\n%s", a.Code, a.form())
	}
	h.must(h.console.Manage.WorkOff(t.Context()))
	if a = b.get("/admin/persons?group=staff&q=crowd"); !strings.Contains(a.form(), "crowd044") {
		t.Errorf("the crowd is not in the group:\n%s", a.form())
	}
	if a := b.acts("/admin/persons/join-many?all=yes&in=crowd", "group", "gatehouse-helpdesk"); a.Code != http.StatusUnprocessableEntity {
		t.Errorf("giving a role to many = %d", a.Code)
	}
	h.must(h.console.Manage.WorkOff(t.Context()))
	if a := b.acts("/admin/persons/leave-many?all=yes&in=crowd", "group", "crowd"); a.Code != http.StatusOK {
		t.Errorf("leaving = %d", a.Code)
	}
	h.must(h.console.Manage.WorkOff(t.Context()))
	if a = b.get("/admin/persons?group=crowd"); strings.Contains(a.form(), "crowd0") {
		t.Errorf("somebody is still in the group that all have left:\n%s", a.form())
	}
	if n := h.inState(crowd, person.Active); n != 45 {
		t.Errorf("%d of 45 are active", n)
	}
}

// TestBulkEnds: work on many persons goes on after a crash where it was, ends when someone stops it, and when who has
// asked for it loses the right.
func TestBulkEnds(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	crowd := h.crowd("crowd", 60)
	h.clock.Advance(time.Second)
	begin := func() (*browser, string) {
		b := h.as("operator@example.com")
		a := b.acts("/admin/persons/block-many?all=yes&in=crowd")
		return b, strings.TrimSuffix(a.url, "?done=block-many")
	}
	// part works until a number of writes has been made, as by a node that is killed then.
	part := func(writes int) {
		ctx, kill := context.WithCancel(t.Context())
		defer kill()
		var count func()
		count = func() {
			if writes--; writes == 0 {
				kill()
			}
			h.meanwhile.set(count)
		}
		h.meanwhile.set(count)
		_ = h.console.Manage.WorkOff(ctx)
		h.meanwhile.set(nil)
	}
	b, job := begin()
	part(33)
	if n := h.inState(crowd, person.Blocked); n < 20 || n >= 45 {
		t.Fatalf("%d of 60 are blocked after a part of the work", n)
	}
	if a := b.acts(job + "/stop-job"); a.Code != http.StatusOK || !strings.Contains(a.form(), "Stopped") {
		t.Errorf("stop = %d\n%s", a.Code, a.form())
	}
	before := h.inState(crowd, person.Blocked)
	h.must(h.console.Manage.WorkOff(t.Context()))
	if n := h.inState(crowd, person.Blocked); n != before {
		t.Errorf("stopped work went on from %d to %d", before, n)
	}
	_, job = begin()
	part(50)
	h.must(h.console.Manage.WorkOff(t.Context())) // of another node
	if n := h.inState(crowd, person.Blocked); n != 60 {
		t.Errorf("%d of 60 are blocked after all work", n)
	}
	if a := b.get(job); !strings.Contains(a.form(), "<dd><span>60</span>") {
		t.Errorf("the page of the work says:\n%s", a.form())
	}
	blocked := 0
	for _, e := range h.allEvents(t.Context()) {
		if e.Type == "person.PersonBlockedEvent" {
			blocked++
		}
	}
	if blocked != 60 {
		t.Errorf("60 blocks have %d events", blocked)
	}
	t.Run("attack 553: work on many persons goes on after the role is lost", func(t *testing.T) {
		for what, lose := range map[string]func(id string){
			"a block": func(id string) {
				h.must(h.id.Person.SetState(t.Context(), id, person.Blocked, audit.Actor{ID: "test"}))
			},
			"all sessions end": func(id string) { h.must(h.id.Person.EndSessions(t.Context(), id, audit.Actor{ID: "test"})) },
		} {
			id := h.personID("operator@example.com")
			h.must(h.id.Person.SetState(t.Context(), id, person.Active, audit.Actor{ID: "test"}))
			b := h.as("operator@example.com")
			a := b.acts("/admin/persons/unblock-many?all=yes&in=crowd")
			lose(id)
			h.must(h.console.Manage.WorkOff(t.Context()))
			if n := h.inState(crowd, person.Blocked); n != 60 {
				t.Errorf("after %s of who has asked, %d were unblocked", what, 60-n)
			}
			if a = h.as("owner@example.com").get(strings.TrimSuffix(a.url, "?done=unblock-many")); !strings.Contains(a.form(), "lost the role") {
				t.Errorf("after %s the page of the work says:\n%s", what, a.form())
			}
		}
	})
}

// TestBulkTakesTurns: work that is asked for later does not wait for the end of what was begun before.
func TestBulkTakesTurns(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	long, short := h.crowd("crowd", 100), h.crowd("leaked", 5)
	h.clock.Advance(time.Second)
	b := h.as("operator@example.com")
	for _, group := range []string{"crowd", "leaked"} {
		b.acts("/admin/persons/block-many?all=yes&in=" + group)
	}
	ctx, kill := context.WithCancel(t.Context())
	writes := 0
	var count func()
	count = func() {
		if writes++; writes == 60 {
			kill()
		}
		h.meanwhile.set(count)
	}
	h.meanwhile.set(count)
	if err := h.console.Manage.WorkOff(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("work that is cut off = %v, want that it was canceled", err)
	}
	h.meanwhile.set(nil)
	if of := h.inState(short, person.Blocked); of != 5 || h.inState(long, person.Blocked) > 60 {
		t.Errorf("after 60 writes, %d of 5 are blocked, and %d of 100 who were to be before them", of, h.inState(long, person.Blocked))
	}
	h.must(h.console.Manage.WorkOff(t.Context()))
	if n := h.inState(long, person.Blocked); n != 100 {
		t.Errorf("%d of 100 are blocked in the end", n)
	}
}

// TestBulkStopsAtOnce: once someone has stopped the work, no one is changed any more, also of those who were read
// before.
func TestBulkStopsAtOnce(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	crowd := h.crowd("crowd", 18)
	h.clock.Advance(time.Second)
	b := h.as("operator@example.com")
	a := b.acts("/admin/persons/block-many?all=yes&in=crowd")
	job := strings.TrimSuffix(a.url, "?done=block-many")
	writes := 0
	var count func()
	count = func() {
		if writes++; writes < 5 {
			h.meanwhile.set(count)
			return
		}
		h.must(h.console.Manage.StopJob(t.Context(), strings.TrimPrefix(job, "/admin/jobs/"), audit.Actor{ID: "test"}))
	}
	h.meanwhile.set(count)
	h.must(h.console.Manage.WorkOff(t.Context()))
	if n := h.inState(crowd, person.Blocked); n != 4 {
		t.Errorf("%d people are blocked by work that was stopped before the fifth", n)
	}
	if a := b.get(job); !strings.Contains(a.form(), "<dd><span>4</span>") || !strings.Contains(a.form(), "Stopped") {
		t.Errorf("the page of the work says:\n%s", a.form())
	}
}

// TestBulkCount: the page that asks counts in a bounded part of the people, however few the filter selects.
func TestBulkCount(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	const many = 5100
	h.crowd("crowd", many)
	h.must(h.store.View(t.Context(), func(tx storage.Tx) error {
		n, err := h.console.Manage.Count(tx, admin.Selection{Filter: admin.Filter{State: person.Blocked}}, h.clock.Now())
		if n.Persons != 0 || !n.More {
			t.Errorf("among %d people are %+v, want that there may be more", many, n)
		}
		return err
	}))
}
