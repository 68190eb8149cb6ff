package usage

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/storage"
	"github.com/gatehouse-id/gatehouse/storage/badgerstore"
	"github.com/gatehouse-id/gatehouse/storage/storagetest"
)

var start = time.Date(2096, 5, 30, 23, 59, 59, 0, time.UTC)

func memory(t *testing.T) storage.Store {
	t.Helper()
	store, err := badgerstore.OpenMemory(func(o *badgerstore.Options) { o.Now = func() time.Time { return start } })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() }) //nolint:errcheck // in memory
	return storagetest.Twice(store)
}

func counter(store storage.Store) *Counter {
	return New(store, func() time.Time { return start }, zap.NewNop())
}

func flush(t *testing.T, c *Counter) {
	t.Helper()
	if err := c.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// find returns what a query selects, read in pages of a size.
func find(t *testing.T, store storage.Store, query string, size int) (out []string) {
	t.Helper()
	v, err := url.ParseQuery(query)
	if err != nil {
		t.Fatal(err)
	}
	q, err := ParseQuery(v, start.Add(24*time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	q.Limit = size
	for {
		var rows []Row
		next := ""
		if err := store.View(t.Context(), func(tx storage.Tx) (err error) {
			rows, next, err = q.Find(tx)
			return err
		}); err != nil {
			t.Fatal(err)
		}
		for i := range rows {
			out = append(out, strings.Join(rows[i].Cells(), " "))
		}
		if q.After = next; next == "" {
			return out
		}
	}
}

// TestUsage: requests are counted for each client, site and day, by several processes, and found by each of them.
func TestUsage(t *testing.T) {
	t.Parallel()
	store := memory(t)
	a, b := counter(store), counter(store)
	for n := range 5 {
		a.Site("api").Passed("shop", start.Add(time.Duration(n)*time.Second)) // one is before midnight
		b.Site("api").Passed("shop", start)
	}
	a.Site("wiki").Passed("shop", start)
	a.Site("api").Limited("shop", start)
	b.Site("api").Passed("shops", start)
	b.Site("api").Passed("", start)
	(*Counter)(nil).Site("api").Passed("shop", start)
	flush(t, a)
	flush(t, b)
	flush(t, a) // nothing is new
	all := []string{
		"2096-05-31 shop api 4 0", "2096-05-30 shops api 1 0", "2096-05-30 shop wiki 1 0", "2096-05-30 shop api 6 1",
	}
	for query, want := range map[string][]string{
		"":                          all,
		"from=2096-05-31":           all[:1],
		"to=2096-05-30":             all[1:],
		"to=2096-05-29":             nil,
		"client=shop":               {all[0], all[2], all[3]},
		"client=sho":                nil,
		"site=wiki":                 {all[2]},
		"site=https://wiki/":        {all[2]},
		"client=shop&site=api":      {all[0], all[3]},
		"client=shop&to=2096-05-30": {all[2], all[3]},
	} {
		for size := 1; size < 6; size++ {
			if got := find(t, store, query, size); fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("%q in pages of %d = %q, want %q", query, size, got, want)
			}
		}
	}
	var file strings.Builder
	q, err := ParseQuery(url.Values{}, start)
	if err != nil {
		t.Fatal(err)
	}
	if err := q.Export(t.Context(), store, &file); err != nil {
		t.Fatal(err)
	}
	if want := "day,client_id,site,requests,limited\r\n2096-05-30,shops,api,1,0\r\n2096-05-30,shop,wiki,1,0\r\n2096-05-30,shop,api,6,1\r\n"; file.String() != want {
		t.Errorf("Export = %q, want %q", file.String(), want)
	}
}

// TestQueries: what has no answer is an error that says why.
func TestQueries(t *testing.T) {
	t.Parallel()
	store := memory(t)
	for query, want := range map[string]string{
		"from=soon": "from must be a day", "to=2096-13-01": "to must be a day", "from=2096-06-02&to=2096-06-01": "the first day",
		"from=1960-01-01&to=1960-02-01": "the first day", "from=2090-01-01": "750 days", "after=!": "after must be", "after=AA": "after must be",
	} {
		v, err := url.ParseQuery(query)
		if err != nil {
			t.Fatal(err)
		}
		q, err := ParseQuery(v, start)
		if err == nil {
			q.Limit = 10
			err = store.View(t.Context(), func(tx storage.Tx) error { _, _, err := q.Find(tx); return err })
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q = %v, want %q", query, err, want)
		}
	}
}

// failing is a store that cannot write for a time.
type failing struct {
	storage.Store
	down atomic.Bool
}

func (f *failing) Update(ctx context.Context, fn func(storage.Tx) error) error {
	if f.down.Load() {
		return errors.New("no")
	}
	return f.Store.Update(ctx, fn)
}

// TestUsageWithoutStorage: requests are counted while storage fails, and written afterwards, once.
func TestUsageWithoutStorage(t *testing.T) {
	t.Parallel()
	store := &failing{Store: memory(t)}
	c := counter(store)
	store.down.Store(true)
	for range 3 {
		c.Site("api").Passed("shop", start)
		if err := c.Flush(t.Context()); err == nil {
			t.Fatal("Flush = nil, want an error")
		}
	}
	store.down.Store(false)
	flush(t, c)
	flush(t, c)
	if got := find(t, store, "", 10); fmt.Sprint(got) != "[2096-05-30 shop api 3 0]" {
		t.Errorf("usage = %q", got)
	}
}

// TestUsageIsBounded: clients that are too many count together, in memory and in storage.
func TestUsageIsBounded(t *testing.T) {
	t.Parallel()
	store := memory(t)
	c := counter(store)
	s := c.Site("api")
	for n := range mostKeys + 10 {
		s.Passed(fmt.Sprint("client", n), start)
	}
	if n := len(s.clients); n != mostKeys+1 || s.clients[Other].passed != 10 {
		t.Errorf("%d clients are remembered, and %v others", n, s.clients[Other])
	}
	s.clients = map[string]*numbers{}
	if err := store.Update(t.Context(), func(tx storage.Tx) error {
		return heads.Put(tx, dayKey(start.Unix()/daySeconds), headRecord{mostPairs - 1}, time.Time{})
	}); err != nil {
		t.Fatal(err)
	}
	c = counter(store)
	for _, name := range []string{"a", "b", "c"} {
		c.Site("api").Passed(name, start)
	}
	flush(t, c)
	c.Site("api").Passed("a", start)
	flush(t, c)
	if got := find(t, store, "", 10); fmt.Sprint(got) != "[2096-05-30 a api 2 0 2096-05-30 (other) api 2 0]" {
		t.Errorf("usage = %q", got)
	}
}

// TestUsageConcurrently counts and writes at once.
func TestUsageConcurrently(t *testing.T) {
	t.Parallel()
	store := memory(t)
	c := counter(store)
	s := c.Site("api")
	var done sync.WaitGroup
	for n := range 8 {
		done.Go(func() {
			for range 500 {
				s.Passed(fmt.Sprint("client", n%2), start)
			}
		})
	}
	done.Go(func() {
		for range 10 {
			c.Flush(t.Context()) //nolint:errcheck // the last one counts
		}
	})
	done.Wait()
	flush(t, c)
	if got := find(t, store, "", 10); fmt.Sprint(got) != "[2096-05-30 client1 api 2000 0 2096-05-30 client0 api 2000 0]" {
		t.Errorf("usage = %q", got)
	}
}

func BenchmarkPassed(b *testing.B) {
	s := New(nil, nil, zap.NewNop()).Site("api")
	b.ReportAllocs()
	for b.Loop() {
		s.Passed("a-client-of-usual-length", start)
	}
}
