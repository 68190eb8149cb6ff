package console

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"flag"
	"fmt"
	"html"
	"iter"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/admin/console/layout"
	"github.com/gatehouse-id/gatehouse/authz/grant"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/session"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/denial"
	"github.com/gatehouse-id/gatehouse/internal/recentlog"
	"github.com/gatehouse-id/gatehouse/internal/sessionindex"
	"github.com/gatehouse-id/gatehouse/storage"
	"github.com/gatehouse-id/gatehouse/storage/badgerstore"
	"github.com/gatehouse-id/gatehouse/storage/storagetest"
)

var (
	scalePersons = flag.Int("persons", 0, "measure the pages of the console with so many people, on disk")
	scaleEvents  = flag.Int("events", 0, "and so many events")
)

// sessionKeys has the shape of the records that sessions are counted by.
var sessionKeys = storage.NewTable[map[int]string]("identity_session_key")

// counting is a store that counts the records that are read.
type counting struct {
	storage.Store

	read atomic.Int64
}

// View implements storage.Store.
func (c *counting) View(ctx context.Context, fn func(storage.Tx) error) error {
	return c.Store.View(ctx, func(tx storage.Tx) error { return fn(countingTx{tx, c}) })
}

// Update implements storage.Store.
func (c *counting) Update(ctx context.Context, fn func(storage.Tx) error) error {
	return c.Store.Update(ctx, func(tx storage.Tx) error { return fn(countingTx{tx, c}) })
}

type countingTx struct {
	storage.Tx

	c *counting
}

// Get implements storage.Tx.
func (t countingTx) Get(key []byte) ([]byte, error) { t.c.read.Add(1); return t.Tx.Get(key) }

// GetMany implements storage.Tx.
func (t countingTx) GetMany(keys ...[]byte) ([][]byte, error) {
	t.c.read.Add(int64(len(keys)))
	return t.Tx.GetMany(keys...)
}

// Scan implements storage.Tx.
func (t countingTx) Scan(r storage.Range) iter.Seq2[storage.Record, error] {
	return func(yield func(storage.Record, error) bool) {
		for rec, err := range t.Tx.Scan(r) {
			t.c.read.Add(1)
			if !yield(rec, err) {
				return
			}
		}
	}
}

// populate adds people with names, groups, states and sessions, and events: about the persons, or, where there are
// more than four a person, one about each and tokens of an application, of which a busy installation has most. Ids
// ascend, since millions of records in random order would take hours to write.
func (h *harness) populate(persons, events int) {
	h.t.Helper()
	id := func(i int) string {
		u := uuid.UUID{6: 0x70, 8: 0x80}
		binary.BigEndian.PutUint32(u[:], uint32(i+1)<<4)
		return u.String()
	}
	now := h.clock.Now()
	const together = 250
	for from := 0; from < persons; from += together {
		h.must(h.store.Update(h.t.Context(), func(tx storage.Tx) error {
			for i := from; i < min(from+together, persons); i++ {
				name := fmt.Sprintf("user%07d@example.com", i)
				rec := person.Record{
					State: person.Active, Username: name, GivenName: fmt.Sprintf("Given%d", i%5000),
					FamilyName: fmt.Sprintf("Family%d", i/10), Email: name, CreatedAt: now, UpdatedAt: now,
				}
				rec.Name = rec.GivenName + " " + rec.FamilyName
				if i%200 == 1 {
					rec.Groups = []string{"staff"}
				}
				if i%100 == 0 {
					rec.State = person.Blocked
				}
				if err := person.CreatePerson(tx, id(i), rec, nil, name); err != nil {
					return err
				}
				if i%10 == 0 {
					if err := session.Records.Put(tx, id(i),
						session.Record{
							PersonID: id(i), AuthTime: now, Opened: now, Seen: now, Level: 1, AMR: []string{"pwd"},
							Address: fmt.Sprintf("192.0.2.%d", i%250),
						}, time.Time{}); err != nil {
						return err
					}
					if err := sessionindex.Note(tx, sessionindex.Address, fmt.Sprintf("192.0.2.%d", i%250), id(i), time.Time{}); err != nil {
						return err
					}
					if err := sessionKeys.Put(tx, id(i), map[int]string{1: id(i)}, time.Time{}); err != nil {
						return err
					}
				}
			}
			return nil
		}))
	}
	bulk := &audit.Recorder{
		Random: rand.Reader, Now: h.clock.Now,
		PartitionOf: func(storage.Tx, string) (string, error) { return audit.DefaultPartition, nil },
	}
	about := events
	if events > 4*persons {
		about = persons
	}
	kinds := []audit.Type{person.EventCreated, person.EventUpdated, {Type: "person.PersonBlockedEvent", Name: "Person Blocked"}}
	for from := 0; from < events; from += together {
		h.must(h.store.Update(h.t.Context(), func(tx storage.Tx) error {
			for i := from; i < min(from+together, events); i++ {
				kind := kinds[i%len(kinds)]
				if i >= about {
					kind = grant.EventAccessIssued
				}
				e, err := bulk.New(kind, audit.Origin{ClientIP: fmt.Sprintf("192.0.2.%d", i%250)})
				if err != nil {
					return err
				}
				if i < about {
					e.PersonID, e.Actor = id(i%max(persons, 1)), "admin"
				} else {
					e.ClientID = "shop"
				}
				if err := bulk.Append(tx, e); err != nil {
					return err
				}
			}
			return nil
		}))
	}
	h.must(audit.NewKeeper(h.store, h.clock.Now, zap.NewNop()).Seal(h.t.Context()))
	h.listPersons()
}

// refuse fills the log of refusals, of which so many are kept.
func (h *harness) refuse(refusals int) {
	h.t.Helper()
	h.clock.Advance(time.Second)
	owner := h.personID("owner@example.com")
	for i := range refusals {
		h.refused.Refuse(h.t.Context(), zap.NewNop(), denial.Refusal{
			Where: denial.Site, Reason: denial.GroupMissing, Status: http.StatusForbidden, Site: "wiki.example.com", Method: http.MethodGet,
			Path: fmt.Sprintf("/pages/%d", i), PersonID: owner, Username: "owner@example.com",
			WantedGroups: []string{"staff"}, Groups: []string{"guests"},
		}, nil)
		if i%recentlog.PerSecond == recentlog.PerSecond-1 || i == refusals-1 {
			h.clock.Advance(time.Second)
			if _, _, err := h.refused.List(h.t.Context(), denial.Filter{Limit: 1}); err != nil { // writes what waits
				h.t.Fatal(err)
			}
		}
	}
	h.clock.Advance(-time.Duration(1+refusals/recentlog.PerSecond) * time.Second)
	if lost := h.refused.Lost(); lost > 0 {
		h.t.Fatalf("%d of %d refusals are not kept", lost, refusals)
	}
}

// pagesToMeasure are the lists, searches and pages whose time could grow with the number of people and events.
func (h *harness) pagesToMeasure(b *browser, persons int) []string {
	middle := fmt.Sprintf("user%07d", persons/2)
	one := h.personID(middle + "@example.com")
	q := func(path string, pairs ...string) string { return layout.With(layout.Root+path, pairs...) }
	return []string{
		q(""), q("", "period", "hour"), q("", "period", "month"), q("/persons"), q("/persons", "q", middle), q("/persons", "q", "user0"),
		q("/persons", "q", "given77"), q("/persons", "q", "given77 family7"), q("/persons", "q", one[:6]), q("/persons", "q", "nobody at all"),
		q("/persons", "q", "example.com"), q("/search", "q", "example.com"), q("/search", "q", "family7"), q("/search", "q", "nothing like it"),
		q("/persons", "group", "staff"), q("/persons", "group", "staff", "q", "given"), q("/persons", "state", "BLOCKED"),
		q("/persons", "group", "staff", "q", "user0"), q("/persons", "group", "staff", "q", "given family7"),
		q("/persons", "group", "staff", "q", "given", "state", "ACTIVE"), q("/persons", "group", "staff", "q", "given", "state", "BLOCKED"),
		q("/persons", "group", "staff", "q", "nobody at all"), q("/persons", "state", "BLOCKED", "q", "given"),
		q("/persons", "state", "BLOCKED", "q", "user0"), q("/persons", "state", "ACTIVE"), q("/persons", "state", "INVITED", "q", "given77"),
		b.following(q("/persons"), 1), b.following(q("/persons", "group", "staff"), 1), b.following(q("/persons", "group", "staff"), persons),
		b.following(q("/persons", "group", "staff", "q", "given"), 1), b.following(q("/persons", "state", "BLOCKED"), persons),
		b.following(q("/persons", "q", "given77 family7"), 1),
		q("/persons", "state", "BLOCKED", "group", "staff"), q("/persons/" + one), q("/persons/" + one + "/edit"),
		q("/persons/" + one + "/block"), q("/persons/" + one + "/opens"),
		q("/groups"), q("/groups/" + h.groupID("staff")), b.following(q("/groups/"+h.groupID("staff")), 1), q("/sessions"),
		b.following(q("/sessions"), 1), q("/sessions", "address", "192.0.2.7"), q("/applications"),
		q("/applications/shop"), q("/sites"), q("/sites/explain"), q("/refusals"),
		q("/refusals", "where", denial.OAuth), q("/refusals", "person", middle+"@example.com"), q("/requests"), q("/policies"), q("/providers"),
		q("/api-clients"), q("/keys"),
		q("/events"), q("/events", "person", middle+"@example.com"), q("/events", "kind", "person.PersonBlockedEvent"),
		q("/events", "kind", "person"), q("/events", "address", "192.0.2.7"),
		q("/events", "kind", "person.PersonBlockedEvent", "address", "192.0.2.8"), q("/events", "client", "nobody"),
		q("/events", "since", "2035-11-21"), b.following(q("/events"), 1), b.following(q("/events", "kind", "person"), 1), q("/events/1"),
		q("/events/live"), q("/events/alerts"), q("/events/chain"), q("/storage"), q("/messages"), q("/messages/queue"),
		q("/persons/block-many", "all", "yes", "state", "BLOCKED"), q("/persons/export"),
	}
}

var nextPage = regexp.MustCompile(`href="([^"]*)" rel="next"`)

// following returns the address so many pages after a page of a list, or that of the last one.
func (b *browser) following(path string, pages int) string {
	b.h.t.Helper()
	for range pages {
		next := nextPage.FindStringSubmatch(b.get(path).Body.String())
		if next == nil {
			break
		}
		path = html.UnescapeString(next[1])
	}
	return path
}

// TestScale: no page of the console reads more records among many people and events than among few. With -persons and
// -events it measures how long each takes:
//
//	go test ./admin/console -run TestScale -v -timeout 3h -persons 1000000 -events 10000000
func TestScale(t *testing.T) {
	t.Parallel()
	if *scalePersons > 0 {
		measure(t)
		return
	}
	reads := map[string][]int64{}
	const few, many = 500, 2500
	for _, persons := range []int{few, many} {
		counted := &counting{}
		h := newHarnessOver(t, func(s storage.Store) storage.Store { counted.Store = s; return storagetest.Closures(t, counted) })
		h.populate(persons, 4*persons)
		b := h.as("owner@example.com")
		for i, path := range h.pagesToMeasure(b, persons) {
			before := counted.read.Load()
			if a := b.get(path); a.Code != http.StatusOK {
				t.Errorf("GET %s = %d", path, a.Code)
			}
			key := fmt.Sprint(i)
			reads[key] = append(reads[key], counted.read.Load()-before)
			if persons == many {
				t.Logf("%6d %6d records: %s", reads[key][0], reads[key][1], path)
				if reads[key][1] > 2*reads[key][0]+500 {
					t.Errorf("GET %s reads %d records among %d people, and %d among %d", path, reads[key][0], few, reads[key][1], many)
				}
			}
		}
	}
}

// measure prints the time of each page, and demands what is promised. Each closure runs once, as in production.
func measure(t *testing.T) {
	t.Helper()
	const rounds, listMost, pageMost = 21, 15 * time.Millisecond, 10 * time.Millisecond
	store, err := badgerstore.Open(t.Context(), badgerstore.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	counted := &counting{Store: store}
	h := newHarnessOver(t, func(s storage.Store) storage.Store { _ = s.Close(); return counted })
	start := time.Now()
	h.populate(*scalePersons, *scaleEvents)
	h.refuse(8192)
	t.Logf("%d people and %d events in %s", *scalePersons, *scaleEvents, time.Since(start).Round(time.Second))
	b := h.as("owner@example.com")
	t.Logf("%9s %9s %7s", "median", "worst", "records")
	for _, path := range h.pagesToMeasure(b, *scalePersons) {
		var took []time.Duration
		before := counted.read.Load()
		for range rounds {
			begun := time.Now()
			if a := b.get(path); a.Code != http.StatusOK {
				t.Errorf("GET %s = %d", path, a.Code)
			}
			took = append(took, time.Since(begun))
		}
		slices.Sort(took)
		median, worst, records := took[rounds/2], took[rounds-1], (counted.read.Load()-before)/rounds
		what, _ := url.QueryUnescape(path)
		t.Logf("%9s %9s %7d  %s", median.Round(10*time.Microsecond), worst.Round(10*time.Microsecond), records, what)
		if median > listMost {
			t.Errorf("GET %s takes %s, want at most %s", path, median, listMost)
		} else if median > pageMost {
			t.Logf("above %s: %s", pageMost, path)
		}
	}
}
