package limit

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

var start = time.Date(2035, 1, 1, 0, 0, 0, 0, time.UTC)

func bucket(t testing.TB, text string, burst int64) *Bucket {
	t.Helper()
	r, err := ParseRate(text)
	if err != nil {
		t.Fatal(err)
	}
	b, err := NewBucket(r, burst)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// model is a bucket of tokens that drip in, one each interval.
type model struct {
	credit, every, burst time.Duration
	last                 time.Time
}

func (m *model) take(now time.Time) bool {
	m.credit = min(m.credit+now.Sub(m.last), m.every*m.burst)
	if m.last = now; m.credit < m.every {
		return false
	}
	m.credit -= m.every
	return true
}

// TestModel draws a million requests of callers with different limits and compares every answer with the model. No
// caller passes the rate plus the burst in any period, and one that goes on asking gets its share.
func TestModel(t *testing.T) {
	t.Parallel()
	rates := []struct {
		text  string
		burst int64
		every time.Duration
	}{
		{"100/min", 20, 600 * time.Millisecond},
		{"20/s", 20, 50 * time.Millisecond},
		{"5/min", 1, 12 * time.Second},
		{"1000/h", 50, 3600 * time.Millisecond},
	}
	draw := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // the same each time
	table := newTable(1000)
	now := start
	type caller struct {
		key    Key
		bucket *Bucket
		model  model
		passed []time.Time
		rate   int
	}
	var callers []*caller
	for i, r := range rates {
		for n := range 5 {
			callers = append(callers, &caller{
				key: Key{Rule: uint64(i), Name: fmt.Sprint(n)}, bucket: bucket(t, r.text, r.burst),
				model: model{credit: r.every * time.Duration(r.burst), every: r.every, burst: time.Duration(r.burst), last: now}, rate: i,
			})
		}
	}
	for step := range 1_000_000 {
		now = now.Add(time.Duration(draw.Int64N(int64(40 * time.Millisecond))))
		c := callers[draw.IntN(len(callers))]
		got, want := table.take(c.key, c.bucket, now), c.model.take(now)
		if got.OK != want {
			t.Fatalf("step %d, %s of %s: %t, want %t", step, c.key.Name, rates[c.rate].text, got.OK, want)
		}
		if left := int64(c.model.credit / c.model.every); got.Remaining != left || (left == 0) != (got.Retry > 0) {
			t.Fatalf("step %d: %d remain, retry after %s, want %d", step, got.Remaining, got.Retry, left)
		}
		if !got.OK {
			if table.look(c.key, c.bucket, now.Add(got.Retry-1), 1).OK || !table.look(c.key, c.bucket, now.Add(got.Retry), 1).OK {
				t.Fatalf("step %d: a request is not possible after exactly %s", step, got.Retry)
			}
			continue
		}
		c.passed = append(c.passed, now)
	}
	for _, c := range callers {
		per := c.bucket.Rate.Per.Length
		for i, first := 0, 0; i < len(c.passed); i++ {
			for c.passed[i].Sub(c.passed[first]) >= per {
				first++
			}
			if n := int64(i - first + 1); n > c.bucket.Rate.Count+c.bucket.Burst {
				t.Fatalf("%d requests passed in %s of %s", n, per, c.bucket.Rate)
			}
		}
	}
}

// TestShare: a caller that asks without a pause gets its burst, and then exactly its rate.
func TestShare(t *testing.T) {
	t.Parallel()
	table, b, n := newTable(10), bucket(t, "7/s", 3), 0
	for step := range 100_000 { // ten seconds
		if table.take(Key{Name: "a"}, b, start.Add(time.Duration(step)*100*time.Microsecond)).OK {
			n++
		}
	}
	if n < 72 || n > 73 {
		t.Errorf("%d requests passed in ten seconds, want 3 and 7 a second", n)
	}
}

// TestConcurrently: of many at once, exactly the burst passes, and what is returned can be had again.
func TestConcurrently(t *testing.T) {
	t.Parallel()
	table, b, k := newTable(100), bucket(t, "100/h", 0), Key{Name: "a"}
	var passed atomic.Int64
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			for range 1000 {
				if table.take(k, b, start).OK {
					passed.Add(1)
				}
			}
		})
	}
	all.Wait()
	if n := passed.Load(); n != 100 {
		t.Errorf("%d passed at once, want 100", n)
	}
	table.giveBack(k, b, 1)
	if !table.take(k, b, start).OK || table.take(k, b, start).OK {
		t.Error("what was returned cannot be had again exactly once")
	}
	table.lift(k)
	if got := table.take(k, b, start); !got.OK || got.Remaining != 99 {
		t.Errorf("after it was lifted: %+v, want a full bucket", got)
	}
}

// TestClockBack: a clock that goes back makes no one wait longer than an empty bucket takes.
func TestClockBack(t *testing.T) {
	t.Parallel()
	table, b, k := newTable(10), bucket(t, "60/min", 2), Key{Name: "a"}
	for range 2 {
		table.take(k, b, start)
	}
	back := start.Add(-24 * time.Hour)
	if got := table.take(k, b, back); got.OK || got.Retry > time.Second {
		t.Errorf("a day earlier: %+v, want a second to wait", got)
	}
	if !table.take(k, b, back.Add(time.Second)).OK {
		t.Error("a second after that, nothing passes")
	}
}

// TestNewLimit: another burst counts from the next request on.
func TestNewLimit(t *testing.T) {
	t.Parallel()
	table, k := newTable(10), Key{Name: "a"}
	for range 10 {
		table.take(k, bucket(t, "10/h", 0), start)
	}
	if table.take(k, bucket(t, "10/h", 5), start).OK {
		t.Error("an empty bucket is full after a change of its burst")
	}
}

func address(n uint32) (k Key) {
	binary.BigEndian.PutUint32(k.Addr[:], n)
	return k
}

// TestFlood: a flood of new addresses does not free those that are being limited, and a table is bounded.
func TestFlood(t *testing.T) {
	t.Parallel()
	const room = 6400
	table, b := newTable(room), bucket(t, "2/min", 2)
	limited := room / 4
	for n := range limited {
		for range 3 {
			table.take(address(uint32(n)), b, start)
		}
	}
	now := start
	for n := range 20 * room {
		now = now.Add(time.Microsecond)
		table.take(address(uint32(limited+n)), b, now)
	}
	if n := table.size(); n > room {
		t.Errorf("%d keys are remembered, want at most %d", n, room)
	}
	free := 0
	for n := range limited {
		if table.look(address(uint32(n)), b, now, 1).OK {
			free++
		}
	}
	if free > 0 {
		t.Errorf("%d of %d addresses that are being limited were forgotten", free, limited)
	}
	// And when all are being limited, those that come then share one bucket of a shard.
	full := newTable(64)
	passed := 0
	for n := range 10_000 {
		for range 3 {
			if full.take(address(uint32(n)), b, start).OK {
				passed++
			}
		}
	}
	if most := 2*64 + 2*64; passed > most {
		t.Errorf("%d requests of a flood passed, want at most %d", passed, most)
	}
}

// TestMillionAddresses measures the memory of a full table. It does not run in parallel, so the heap is its own.
func TestMillionAddresses(t *testing.T) { //nolint:paralleltest // see above
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	table, b := newTable(1_000_000), bucket(t, "20/s", 20)
	for n := range uint32(2_000_000) {
		table.take(address(n), b, start)
	}
	if used := heap() - before; used > 200<<20 {
		t.Errorf("a flood of addresses uses %d MiB, want less than 200", used>>20)
	} else {
		t.Logf("%d keys use %d MiB", table.size(), used>>20)
	}
	runtime.KeepAlive(table)
}

func BenchmarkTake(b *testing.B) {
	table, bucket, k := newTable(1000), bucket(b, "20/s", 20), Key{Rule: 7, Name: "a-client-of-usual-length"}
	now := start
	b.ReportAllocs()
	for b.Loop() {
		now = now.Add(50 * time.Millisecond)
		table.take(k, bucket, now)
	}
}
