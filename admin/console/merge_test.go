package console

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/storage"
)

// details returns the stored details of a person.
func (h *harness) details(id string) (d person.Details, linked []person.Identity) {
	h.t.Helper()
	h.must(h.store.View(h.t.Context(), func(tx storage.Tx) (err error) {
		if d, err = h.id.Person.Details(tx, id); err == nil {
			linked, err = person.CoupledIdentities(tx, id)
		}
		return err
	}))
	return d, linked
}

// TestMerge: one account takes over another one.
func TestMerge(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	keep, gone := h.personID("nobody@example.com"), h.personID("two.nobody@example.com")
	h.setEmail("nobody@example.com")
	h.setEmail("two.nobody@example.com")
	h.link("corp", keep)
	h.link("corp", gone)
	h.link("lab", gone)
	_, err := h.id.Person.AddGroup(t.Context(), person.GroupChange{Name: "editors", Add: []string{gone}}, audit.Actor{ID: "test"})
	h.must(err)
	theirs, own := h.as("two.nobody@example.com"), h.as("nobody@example.com")
	b := h.as("operator@example.com")
	path := personPath(keep) + "/merge"
	for who, want := range map[string]string{
		"nowhere@example.com": "No one has that username", "nobody@example.com": "That is this account",
		"operator@example.com": "own account",
	} {
		if a := b.acts(path, "other", who); a.Code != http.StatusUnprocessableEntity || !strings.Contains(a.form(), want) {
			t.Errorf("merge with %s: %d\n%s", who, a.Code, a.form())
		}
	}
	before := h.events()
	first := b.get(path)
	asked := b.submit(first, "other", "two.nobody@example.com")
	const danger = `class="button danger"`
	if strings.Contains(first.form(), danger) || !strings.Contains(asked.form(), danger) {
		t.Errorf("the button that merges is red, and the one that shows what happens is not:\n%s\n%s", first.form(), asked.form())
	}
	for _, want := range []string{"editors", "lab", "corp", "two.nobody@example.com"} {
		if !strings.Contains(asked.form(), want) {
			t.Errorf("the question lacks %q\n%s", want, asked.form())
		}
	}
	if after := h.events(); after != before {
		t.Fatalf("the question has caused %s", after[len(before):])
	}
	if a := b.submit(asked); a.Header().Get("Location") != personPath(keep)+"?done=merge" {
		t.Fatalf("merge = %d\n%s", a.Code, a.form())
	}
	d, linked := h.details(keep)
	var providers, addresses []string
	for _, l := range linked {
		providers = append(providers, l.Provider)
		if l.Record.PersonID != keep {
			t.Errorf("the link at %s opens %s", l.Provider, l.Record.PersonID)
		}
	}
	for _, e := range d.Profile.EmailAddresses {
		if addresses = append(addresses, e.Value); e.Primary != (e.Value == "nobody@example.com") {
			t.Errorf("address %+v", e)
		}
	}
	if !slices.Equal(providers, []string{"corp", "lab"}) ||
		!slices.Equal(addresses, []string{"nobody@example.com", "two.nobody@example.com"}) ||
		!slices.Equal(d.Groups, []string{"staff", "editors"}) {
		t.Errorf("linked %q, addresses %q, groups %q", providers, addresses, d.Groups)
	}
	if _, err := h.id.Person.Person(t.Context(), "two.nobody@example.com"); err == nil {
		t.Error("the other account is still there")
	}
	h.must(h.store.View(t.Context(), func(tx storage.Tx) error {
		if rec, found, err := person.Identities.Find(tx, storage.Key("corp", gone)); err != nil || found {
			t.Errorf("the link that ends opens %q (%v)", rec.PersonID, err)
		}
		return nil
	}))
	if theirs.do(http.MethodGet, "/account", "").Code == http.StatusOK || own.do(http.MethodGet, "/account", "").Code != http.StatusOK {
		t.Error("the session of the removed account goes on, or that of the other one has ended")
	}
	found := false
	for _, e := range h.allEvents(t.Context()) {
		found = found || e.Type == "person.PersonsMergedEvent" && e.PersonID == keep && e.Actor == h.personID("operator@example.com") &&
			e.Reason == "two.nobody@example.com "+gone
	}
	if !found {
		t.Errorf("no event tells of it: %s", h.events()[len(before):])
	}
	if g := h.groupID("editors"); g != "" {
		h.must(h.store.View(t.Context(), func(tx storage.Tx) error {
			ids, err := h.id.Person.Members(tx, g, "", 10)
			if !slices.Equal(ids, []string{keep}) {
				t.Errorf("members of the group = %q", ids)
			}
			return err
		}))
	}
}

// TestMergeRights: no one raises anybody by a merge.
func TestMergeRights(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	t.Run("attack 558: a merge gives rights, or removes someone of equal or higher rank", func(t *testing.T) {
		keep := h.personID("nobody@example.com")
		operator, owner := h.as("operator@example.com"), h.as("owner@example.com")
		for _, c := range []struct {
			name string
			b    *browser
			gone string
		}{
			{"an operator removes an operator", operator, "two.operator@example.com"},
			{"an operator removes an owner", operator, "two.owner@example.com"},
			{"an operator gives the role of a viewer", operator, "viewer@example.com"},
			{"an owner removes an owner", owner, "two.owner@example.com"},
		} {
			id := h.personID(c.gone)
			for _, fields := range [][]string{{"other", c.gone}, {"other", id, "confirmed", id}} {
				asked := c.b.get(personPath(keep) + "/merge")
				if a := c.b.submit(asked, fields...); a.Code != http.StatusForbidden {
					t.Errorf("%s: %d\n%s", c.name, a.Code, a.form())
				}
			}
			if d, _ := h.details(id); d.State != person.Active {
				t.Errorf("%s: the account is %s", c.name, d.State)
			}
		}
		blocked := h.personID("two.nobody@example.com")
		h.must(h.id.Person.SetState(t.Context(), blocked, person.Blocked, audit.Actor{ID: "test"}))
		if a := operator.acts(personPath(keep)+"/merge", "other", blocked, "confirmed", blocked); a.Code != http.StatusUnprocessableEntity {
			t.Errorf("the links of a blocked account go over: %d", a.Code)
		}
		// The role comes between the question and the confirmation.
		h.must(h.id.Person.SetState(t.Context(), blocked, person.Active, audit.Actor{ID: "test"}))
		asked := operator.submit(operator.get(personPath(keep)+"/merge"), "other", blocked)
		h.moves("two.nobody@example.com", "gatehouse-viewer", true)
		if a := operator.submit(asked); a.Code != http.StatusForbidden {
			t.Errorf("a role goes over that has come in between: %d", a.Code)
		}
		// An owner can: it is theirs to give.
		if a := owner.acts(personPath(keep)+"/merge", "other", blocked, "confirmed", blocked); a.Code != http.StatusOK ||
			!strings.Contains(a.form(), "have been merged") {
			t.Errorf("an owner: %d\n%s", a.Code, a.form())
		}
	})
}
