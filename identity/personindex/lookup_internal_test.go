package personindex

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"iter"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/idp"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
	"github.com/gatehouse-id/gatehouse/storage/badgerstore"
	"github.com/gatehouse-id/gatehouse/storage/storagetest"
)

var (
	noon     = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)
	signedIn = audit.Type{Type: "login.LoginSucceededEvent", Name: "Login Succeeded", Counts: audit.CountSignIn}
)

type harness struct {
	testing.TB
	store   storage.Store
	rec     *audit.Recorder
	persons *person.Service
	keeper  *Keeper

	mu   sync.Mutex // guards time
	time time.Time
}

func (h *harness) now() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.time
}

func (h *harness) pass(d time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.time = h.time.Add(d)
}

func newHarness(t testing.TB, closures bool) *harness {
	t.Helper()
	h := &harness{TB: t, time: noon}
	memory, err := badgerstore.OpenMemory(func(o *badgerstore.Options) { o.Now = h.now })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { memory.Close() }) //nolint:errcheck // a memory store
	h.store = memory
	if closures {
		h.store = storagetest.Closures(t, memory)
	}
	ring, err := secret.NewKeyring(make([]byte, secret.KeySize))
	if err != nil {
		t.Fatal(err)
	}
	h.rec = &audit.Recorder{Random: rand.Reader, Now: h.now, Note: Note}
	units := settings.Defaults()
	h.persons, err = person.New(context.Background(), person.Config{}, person.Deps{
		Store: h.store, Keyring: ring, Hasher: secret.NewHasher(secret.HashCost{}), Events: h.rec, Now: h.now,
		Random: rand.Reader, Log: zap.NewNop(),
		Units: func(storage.Tx) (*settings.Units, error) { return &units, nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	h.persons.OnWelcome(func(storage.Tx, person.Recipient, person.Welcome, time.Time) error { return nil })
	h.keeper = New(h.store, h.now, zap.NewNop())
	return h
}

// add creates a person and returns the id.
func (h *harness) add(username, given, family string, groups ...string) string {
	h.Helper()
	p, err := h.persons.AddPerson(h.Context(), person.NewPerson{Username: username, GivenName: given, FamilyName: family, Groups: groups},
		audit.Actor{})
	if err != nil {
		h.Fatal(err)
	}
	return p.ID
}

func (h *harness) signIn(id string) {
	h.Helper()
	e, err := h.rec.New(signedIn, audit.Self)
	if err == nil {
		e.PersonID = id
		err = h.store.Update(h.Context(), func(tx storage.Tx) error { return h.rec.Append(tx, e) })
	}
	if err != nil {
		h.Fatal(err)
	}
}

func (h *harness) keep() {
	h.Helper()
	if err := h.keeper.keep(h.Context()); err != nil {
		h.Fatal(err)
	}
}

func (h *harness) build() {
	h.Helper()
	if err := h.keeper.build(h.Context(), 0); err != nil {
		h.Fatal(err)
	}
}

func (h *harness) page(q Query) Answer {
	h.Helper()
	var out Answer
	err := h.store.View(h.Context(), func(tx storage.Tx) (err error) {
		out, err = Find(tx, h.persons, q)
		return err
	})
	if err != nil {
		h.Fatalf("Find(%+v) = %v", q, err)
	}
	return out
}

// all goes through all pages of a list, and returns the part of the usernames in front of the @.
func (h *harness) all(q Query) string {
	h.Helper()
	var out []string
	for {
		a := h.page(q)
		for _, f := range a.Persons {
			name, _, _ := strings.Cut(f.Username, "@")
			out = append(out, name)
		}
		if q.After = a.Next; a.Next == "" {
			return strings.Join(out, " ")
		}
	}
}

func (h *harness) want(q Query, want string) {
	h.Helper()
	for _, q.Limit = range []int{1, 2, 100} {
		if got := h.all(q); got != want {
			h.Errorf("Find(%+v) in pages of %d = %q, want %q", q, q.Limit, got, want)
		}
	}
}

// TestFindsPersons: an operator finds people by what is known of them, each once, page by page, before and after the
// persons of an earlier version are listed.
func TestFindsPersons(t *testing.T) {
	t.Parallel()
	h := newHarness(t, true)
	ann := h.add("ann@example.com", "Ann", "Berg", "staff")
	h.add("bob@example.com", "Bob Ann", "Bergmann", "staff", "board")
	h.add("cid@example.com", "José", "Ångström-Berg")
	dan := h.add("dan@example.com", "Dan", "Former")
	h.add("annie@example.com", "", "")
	state := func(id string, to person.State) {
		t.Helper()
		if err := h.persons.SetState(t.Context(), id, to, audit.Actor{}); err != nil {
			t.Fatal(err)
		}
	}
	state(dan, person.Blocked)
	staff := ""
	err := h.store.View(t.Context(), func(tx storage.Tx) error {
		g, err := h.persons.Group(tx, audit.DefaultPartition, "staff")
		staff = g.ID
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	check := func(t *testing.T) {
		t.Helper()
		for _, tt := range []struct {
			q    Query
			want string
		}{
			{Query{}, "ann annie bob cid dan"},
			{Query{Text: "ann"}, "ann annie bob"},
			{Query{Text: "ANN@EXAMPLE"}, "ann"},
			{Query{Text: "example.com"}, "ann annie bob cid dan"},
			{Query{Text: "@example.com"}, "ann annie bob cid dan"},
			{Query{Text: "example bergmann"}, "bob"},
			{Query{Text: "exam", Group: staff, State: person.Active}, "ann bob"},
			{Query{Text: "berg"}, "ann bob cid"},
			{Query{Text: "berg jose"}, "cid"},
			{Query{Text: "angstrom"}, "cid"},
			{Query{Text: "bergmann ann"}, "bob"},
			{Query{Text: "bergmann ann", Group: staff}, "bob"},
			{Query{Text: "ann", Group: staff}, "ann bob"},
			{Query{Text: ann[:8]}, "ann"},
			{Query{Text: strings.ToUpper(ann)}, "ann"},
			{Query{Text: "nobody"}, ""},
			{Query{Text: "=+-"}, ""},
			{Query{Text: strings.Repeat("x\x00", 400)}, ""},
			{Query{Group: staff, State: person.Blocked}, ""},
			{Query{State: person.Blocked}, "dan"},
			{Query{State: person.Active}, "ann annie bob cid"},
			{Query{Partition: "north"}, ""},
		} {
			ordered := !strings.Contains(tt.want, "ann bob") && !strings.Contains(tt.q.Text, "example.com")
			if tt.q.Group != "" && tt.q.Text == "" || ordered {
				h.want(tt.q, tt.want)
				continue
			}
			got := strings.Fields(h.all(Query{Text: tt.q.Text, Group: tt.q.Group, Limit: 2}))
			if slices.Sort(got); strings.Join(got, " ") != tt.want { // the order of words is that of the index
				t.Errorf("Find(%+v) = %q, want %q", tt.q, got, tt.want)
			}
		}
		if got := strings.Fields(h.all(Query{Group: staff, Limit: 1})); len(got) != 2 || !slices.Contains(got, "bob") {
			t.Errorf("members = %q", got)
		}
	}
	check(t)
	h.build()
	check(t)
	h.keep()
	check(t)

	// What has changed is found as it is now, and not as it was.
	state(dan, person.Active)
	h.want(Query{State: person.Blocked}, "")
	_, err = h.persons.UpdatePerson(t.Context(), dan, person.Edit{}, func(_ storage.Tx, d *person.Details) error {
		d.Profile.Name = person.Name{FirstName: "Daniel", LastName: "Newname"}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	h.keep()
	h.want(Query{Text: "newname"}, "dan")
	if got := h.all(Query{Text: "form", Limit: 5}); got != "" {
		t.Errorf("by the name before = %q", got)
	}
	state(dan, person.Removed)
	h.want(Query{Text: "newname"}, "")
	h.keep()
	h.want(Query{State: person.Removed}, "dan")
	h.want(Query{}, "ann annie bob cid")
	left := 0
	err = h.store.View(t.Context(), func(tx storage.Tx) error {
		left = 0
		for e, err := range places.Scan(tx, storage.Range{}) {
			if err != nil {
				return err
			}
			if strings.HasSuffix(e.Key, dan) && !strings.HasPrefix(e.Key, byState) {
				left++
			}
		}
		return nil
	})
	if err != nil || left > 0 {
		t.Errorf("a person who was removed is still listed in %d places, %v", left, err)
	}
}

// TestLastSignIn: people are listed by their last sign-in, each once.
func TestLastSignIn(t *testing.T) {
	t.Parallel()
	h := newHarness(t, true)
	ann, bob, cid := h.add("ann@example.com", "Ann", ""), h.add("bob@example.com", "Bob", ""), h.add("cid@example.com", "Cid", "")
	h.add("never@example.com", "", "")
	h.build()
	for _, id := range []string{ann, bob, ann, cid, bob} {
		h.pass(time.Hour)
		h.signIn(id)
		h.keep()
	}
	h.want(Query{Recent: true}, "bob cid ann")
	h.want(Query{SeenSince: noon.Add(4 * time.Hour)}, "bob cid")
	h.want(Query{SeenBefore: noon.Add(5 * time.Hour), SeenSince: noon}, "cid ann")
	h.want(Query{Recent: true, Text: "ann"}, "ann")
	if a := h.page(Query{Text: "bob", Limit: 1}); !a.Persons[0].Seen.Equal(noon.Add(5 * time.Hour)) {
		t.Errorf("last sign-in of bob = %v", a.Persons[0].Seen)
	}
	if err := h.persons.SetState(t.Context(), cid, person.Removed, audit.Actor{}); err != nil {
		t.Fatal(err)
	}
	h.want(Query{Recent: true}, "bob ann")
}

// TestForeignCursors: a cursor that is not of the list is refused, and shows no one of another partition.
func TestForeignCursors(t *testing.T) {
	t.Parallel()
	h := newHarness(t, true)
	h.add("ann@example.com", "Ann", "")
	for _, after := range []string{"x", "!!", "AA", cursor(9, "a"), strings.Repeat("AAAA", 1000)} {
		err := h.store.View(t.Context(), func(tx storage.Tx) error {
			_, err := Find(tx, h.persons, Query{After: after})
			return err
		})
		if !errors.Is(err, ErrCursor) {
			t.Errorf("cursor %.20q = %v, want %v", after, err, ErrCursor)
		}
	}
	if a := h.page(Query{Recent: true, After: cursor(0, seenKey("north", noon)), Limit: 10}); len(a.Persons) > 0 {
		t.Errorf("another partition's persons = %v", a.Persons)
	}
}

// fill stores many persons, and returns the id of their group.
func (h *harness) fill(many int) string {
	h.Helper()
	group := ""
	for from := 0; from < many; from += 250 {
		err := h.store.Update(h.Context(), func(tx storage.Tx) error {
			for i := from; i < min(from+250, many); i++ {
				name := fmt.Sprintf("user%07d@example.com", i)
				rec := person.Record{
					State: person.Active, Username: name, GivenName: fmt.Sprintf("Given%d", i%5000),
					FamilyName: fmt.Sprintf("Family%d", i/10), Email: name,
					CreatedAt: noon, UpdatedAt: noon,
				}
				rec.Name = rec.GivenName + " " + rec.FamilyName
				if i%1000 == 0 {
					rec.Groups = []string{"staff"}
				}
				if i%100 == 0 {
					rec.State = person.Blocked
				}
				if err := person.CreatePerson(tx, uuid.NewSHA1(uuid.NameSpaceURL, []byte(name)).String(), rec, nil, name); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			h.Fatal(err)
		}
	}
	err := h.store.View(h.Context(), func(tx storage.Tx) error {
		g, err := h.persons.Group(tx, audit.DefaultPartition, "staff")
		group = g.ID
		return err
	})
	if err != nil {
		h.Fatal(err)
	}
	return group
}

// BenchmarkFind measures a page of 50 among many persons: 20,000, or as many as GATEHOUSE_BENCH_PERSONS says.
func BenchmarkFind(b *testing.B) {
	h := newHarness(b, false)
	many := cmp.Or(benchPersons(), 20_000)
	group := h.fill(many)
	h.build()
	for i := 0; i < many; i += 50 {
		h.pass(time.Second)
		h.signIn(uuid.NewSHA1(uuid.NameSpaceURL, fmt.Appendf(nil, "user%07d@example.com", i)).String())
	}
	h.keep()
	middle := fmt.Sprintf("user%07d", many/2)
	for name, q := range map[string]Query{
		"all": {}, "username": {Text: middle}, "usernames of many": {Text: "user0"}, "name": {Text: "given77"},
		"two words": {Text: "given77 family7"}, "id": {Text: "5af1"},
		"nobody": {Text: "nobody"}, "group": {Group: group}, "group and name": {Group: group, Text: "given"}, "blocked": {State: person.Blocked},
		"blocked of the group": {State: person.Blocked, Group: group}, "recent": {Recent: true},
		"recent and blocked": {Recent: true, State: person.Blocked},
		"not since":          {SeenBefore: noon.Add(time.Minute)}, "a removed one by name": {Text: "given", State: person.Removed},
	} {
		b.Run(name, func(b *testing.B) {
			q.Limit = 50
			for b.Loop() {
				h.page(q)
			}
		})
	}
}

func benchPersons() int {
	n, err := strconv.Atoi(os.Getenv("GATEHOUSE_BENCH_PERSONS"))
	if err != nil {
		return 0
	}
	return n
}

// TestLinked: the identities of one provider are counted, up to a number.
func TestLinked(t *testing.T) {
	t.Parallel()
	h := newHarness(t, false)
	err := h.store.Update(t.Context(), func(tx storage.Tx) error {
		for i := range 5 {
			for _, provider := range []string{"corp", "corp-two"} {
				if err := person.Identities.Put(tx, person.ExternalKey(provider, fmt.Sprint(i)), person.IdentityRecord{}, time.Time{}); err != nil {
					return err
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ most, want int }{{10, 5}, {3, 3}} {
		err := h.store.View(t.Context(), func(tx storage.Tx) error {
			n, err := Linked(tx, "corp", c.most)
			if n != c.want {
				t.Errorf("Linked up to %d = %d, want %d", c.most, n, c.want)
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
	}
}

// scanning is a store that notes where scans of what is due begin.
type scanning struct {
	storage.Store

	from []string
}

func (s *scanning) View(ctx context.Context, fn func(storage.Tx) error) error {
	return s.Store.View(ctx, func(tx storage.Tx) error { return fn(scanningTx{tx, s}) })
}

type scanningTx struct {
	storage.Tx

	s *scanning
}

func (t scanningTx) Scan(r storage.Range) iter.Seq2[storage.Record, error] {
	t.s.from = append(t.s.from, string(r.After))
	return t.Tx.Scan(r)
}

// What was done leaves marks in the store for a while. The people of a busy second are listed in several batches, and
// none of them looks through those of the batches before it.
func TestBatchesOfABusySecond(t *testing.T) {
	t.Parallel()
	h := newHarness(t, false)
	s := &scanning{Store: h.store}
	h.keeper.store = s
	key := func(i int) string { return stamp(noon) + fmt.Sprintf("%05d", i) }
	err := h.store.Update(t.Context(), func(tx storage.Tx) error {
		for i := range 2*batch + 1 {
			if err := dues.Put(tx, key(i), dueRecord{Person: strconv.Itoa(i), Seen: noon}, never); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil {
		err = h.keeper.keep(t.Context())
	}
	if want := []string{"", string(dues.Key(key(batch - 1))), string(dues.Key(key(2*batch - 1)))}; err != nil || !slices.Equal(s.from, want) {
		t.Errorf("keep = %v, scans begin at %q, want %q", err, s.from, want)
	}
}

// TestSubjectsOfAnEarlierVersion: an identity that was linked before identities were listed by their subjects, and with
// an issuer, is not linked to someone else without one.
func TestSubjectsOfAnEarlierVersion(t *testing.T) {
	t.Parallel()
	h := newHarness(t, true)
	ann, bob := h.add("ann", "Ann", "A"), h.add("bob", "Bob", "B")
	id := &idp.Identity{Issuer: "https://partner.example", Subject: "4711"}
	key := person.IdentityKey("partner", id)
	err := h.store.Update(t.Context(), func(tx storage.Tx) error {
		rec := person.IdentityRecord{PersonID: ann, Issuer: id.Issuer, Subject: id.Subject}
		if err := person.Identities.Put(tx, key, rec, never); err != nil {
			return err
		}
		return person.IdentitiesOf.Put(tx, storage.Key(ann, "partner", key), struct{}{}, never)
	})
	if err != nil {
		t.Fatal(err)
	}
	h.build()
	couple := func(to string) error {
		return h.store.Update(t.Context(), func(tx storage.Tx) error {
			return h.persons.CoupleProved(tx, "partner", &idp.Identity{Subject: id.Subject}, to, h.now())
		})
	}
	if err := couple(bob); !errors.Is(err, person.ErrCoupled) {
		t.Errorf("CoupleProved(bob) = %v, want %v", err, person.ErrCoupled)
	}
	err = h.store.Update(t.Context(), func(tx storage.Tx) error { return person.Uncouple(tx, ann, "partner", key) })
	if err != nil {
		t.Fatal(err)
	}
	if err := couple(bob); err != nil {
		t.Errorf("CoupleProved(bob) once ann is unlinked = %v", err)
	}
}
