package personindex

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/modeltest"
	"github.com/gatehouse-id/gatehouse/storage"
)

// scatter stores persons with random names, states and groups, and returns them by id: about two in five are in many,
// some in few.
func (h *harness) scatter(r *rand.Rand, people int) map[string]person.Record {
	h.Helper()
	pick := func(from ...string) string { return from[r.IntN(len(from))] }
	out := map[string]person.Record{}
	for i := range people {
		name := fmt.Sprintf("%s%03d@%s", pick("ann", "bob", "given", "user"), i, pick("example.com", "given.example.org"))
		rec := person.Record{
			State: person.State(pick(string(person.Active), string(person.Active), string(person.Blocked), string(person.Invited))), Username: name,
			GivenName: pick("Given", "Given Ann", "Bob", "Giselle", "Ann-Given"), FamilyName: pick("Berg", "Bergmann", "Family", "Given", "Annis"),
			Email: pick(name, fmt.Sprintf("bob%03d@example.net", i)), CreatedAt: noon, UpdatedAt: noon,
		}
		if r.IntN(5) < 2 {
			rec.Groups = append(rec.Groups, "many")
		}
		if r.IntN(30) == 0 {
			rec.Groups = append(rec.Groups, "few")
		}
		out[uuid.NewSHA1(uuid.NameSpaceURL, []byte(name)).String()] = rec
	}
	err := h.store.Update(h.Context(), func(tx storage.Tx) error {
		for id, rec := range out {
			if err := person.CreatePerson(tx, id, rec, nil, person.FoldEmail(rec.Username)); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		h.Fatal(err)
	}
	return out
}

// TestFindsMembersAmongMany: a text finds the members of a group that a look at everybody finds, each once and in the
// order in which it finds them without the group, in pages of any size, by the lists of names and before they are made.
func TestFindsMembersAmongMany(t *testing.T) {
	t.Parallel()
	h := newHarness(t, false)
	all := h.scatter(rand.New(rand.NewPCG(1, 2)), 900) //nolint:gosec // the same persons each time
	group := map[string]string{"": ""}
	err := h.store.View(t.Context(), func(tx storage.Tx) error {
		for _, name := range []string{"many", "few"} {
			g, err := h.persons.Group(tx, audit.DefaultPartition, name)
			if err != nil {
				return err
			}
			group[name] = g.ID
			if (g.Members < probed) != (name == "few") {
				t.Errorf("%s has %d members", name, g.Members)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	ids := func(q Query) (out []string) {
		t.Helper()
		for {
			a := h.page(q)
			for _, f := range a.Persons {
				out = append(out, f.ID)
			}
			if q.After = a.Next; a.Next == "" {
				return out
			}
		}
	}
	check := func(t *testing.T) {
		t.Helper()
		for _, text := range []string{
			"given", "giv", "given berg", "ann", "bob", "b", "user0", "user012@example.com", "bob@", "example", "zoe", "given zoe",
		} {
			for _, state := range []person.State{"", person.Active, person.Blocked} {
				everybody := ids(Query{Text: text, State: state, Limit: 100})
				for name := range group {
					var want []string
					for id, rec := range all {
						if (state == "" || rec.State == state) && (name == "" || slices.Contains(rec.Groups, name)) && fits(&rec, text) {
							want = append(want, id)
						}
					}
					slices.Sort(want)
					for _, limit := range []int{modeltest.Rounds(11, 3), 50, maxLimit} {
						got := ids(Query{Text: text, State: state, Group: group[name], Limit: limit})
						if name == "many" {
							ordered := slices.DeleteFunc(slices.Clone(everybody), func(id string) bool { return !slices.Contains(all[id].Groups, name) })
							if !slices.Equal(got, ordered) {
								t.Errorf("%q, %s of %s in pages of %d: not in the order of everybody", text, state, name, limit)
							}
						}
						if slices.Sort(got); !slices.Equal(got, want) {
							t.Errorf("%q, %s of %s in pages of %d finds %d, want %d", text, state, cmp.Or(name, "all"), limit, len(got), len(want))
						}
					}
				}
			}
		}
	}
	check(t)
	h.build()
	check(t)
}

// fits reports whether a text finds a person.
func fits(r *person.Record, text string) bool {
	return strings.HasPrefix(r.Username, text) || strings.HasPrefix(r.Email, text) ||
		!strings.Contains(text, "@") && named(wordsOf(r), words(text))
}

// reading is a transaction that counts the records that are read by their keys, by table.
type reading struct {
	storage.Tx

	of map[string]int
}

func (t reading) GetMany(keys ...[]byte) ([][]byte, error) {
	for _, key := range keys {
		table, _, _ := strings.Cut(string(key), "/")
		t.of[table]++
	}
	return t.Tx.GetMany(keys...)
}

// TestReadsMembersAlone: of many people with a name, and of those whose usernames begin so, only the members of the
// group that is asked for are read.
func TestReadsMembersAlone(t *testing.T) {
	t.Parallel()
	h := newHarness(t, false)
	all := h.scatter(rand.New(rand.NewPCG(3, 4)), 900) //nolint:gosec // the same persons each time
	h.build()
	for _, text := range []string{"giselle", "user"} {
		members := 0
		for _, rec := range all {
			if fits(&rec, text) && slices.Contains(rec.Groups, "many") {
				members++
			}
		}
		read := map[string]int{}
		var found Answer
		err := h.store.View(t.Context(), func(tx storage.Tx) error {
			clear(read)
			g, err := h.persons.Group(tx, audit.DefaultPartition, "many")
			if err == nil {
				found, err = Find(reading{tx, read}, h.persons, Query{Text: text, Group: g.ID, Limit: maxLimit})
			}
			return err
		})
		if err != nil || len(found.Persons) != members || members == 0 {
			t.Fatalf("Find(%q) = %d persons, %v, want %d", text, len(found.Persons), err, members)
		}
		if looked := read["identity_group_member"]; 2*read["identity_person"] > looked || 2*read["identity_lookup_of"] > looked {
			t.Errorf("Find(%q) reads %v for %d members", text, read, members)
		}
	}
}
