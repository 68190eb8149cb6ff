package recheck_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/internal/recheck"
	"github.com/gatehouse-id/gatehouse/storage"
	"github.com/gatehouse-id/gatehouse/storage/badgerstore"
)

// fakeClock is a clock whose timers go off when it is moved.
type fakeClock struct {
	mu     sync.Mutex // guards all below
	now    time.Time
	timers []*fakeTimer
}

type fakeTimer struct {
	at time.Time
	f  func()
}

func (c *fakeClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *fakeClock) After(d time.Duration, f func()) func() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := &fakeTimer{c.now.Add(d), f}
	c.timers = append(c.timers, t)
	return func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		i := slices.Index(c.timers, t)
		if i >= 0 {
			c.timers = slices.Delete(c.timers, i, i+1)
		}
		return i >= 0
	}
}

// move moves the clock, and the timers by as much: the clock of a machine can be set, too, and timers do not see that.
func (c *fakeClock) move(clock, timers time.Duration) {
	c.mu.Lock()
	until := c.now.Add(timers)
	var due []*fakeTimer
	for {
		i := slices.IndexFunc(c.timers, func(t *fakeTimer) bool { return !t.at.After(until) })
		if i < 0 {
			break
		}
		due = append(due, c.timers[i])
		c.timers = slices.Delete(c.timers, i, i+1)
	}
	for _, t := range c.timers {
		t.at = t.at.Add(clock - timers)
	}
	c.now = c.now.Add(clock)
	c.mu.Unlock()
	for _, t := range due {
		t.f()
	}
}

// world is a store with a number under each key, and a list of what rests on them. What is open ends when the number
// is less than it wants.
type world struct {
	*fakeClock
	*recheck.List[string, int]

	store   storage.Store
	tracker storage.Tracker // nil: the store cannot tell
	again   time.Duration   // how soon answers want to be asked again then
	asked   atomic.Int64
	down    atomic.Bool
	until   time.Duration // how long an answer stands. 0: for a day
	state   atomic.Int64
	stopped atomic.Bool // Changed fails
}

const every = 4 * time.Second

var errDown = errors.New("down")

func newWorld(t testing.TB) *world {
	t.Helper()
	s, err := badgerstore.OpenMemory()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	w := &world{fakeClock: &fakeClock{now: time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)}, store: s, tracker: s, until: 24 * time.Hour}
	w.List = recheck.New(recheck.Config[string, int]{
		Ask: w.ask, Now: w.Now, After: w.After, Every: every,
		Changed: func(context.Context) (any, error) {
			if w.stopped.Load() {
				return nil, errDown
			}
			return w.state.Load(), nil
		},
	})
	return w
}

func (w *world) ask(ctx context.Context, key string) (n int, b recheck.Basis, err error) {
	down := w.down.Load()
	w.asked.Add(1)
	if down {
		return 0, b, errDown
	}
	read := func(tx storage.Tx) error {
		v, err := tx.Get([]byte("t/" + key))
		if err == nil {
			n, err = strconv.Atoi(string(v))
		}
		return err
	}
	if b.Again = w.again; w.tracker == nil {
		return n, b, w.store.View(ctx, read)
	}
	b.Reading, err = w.tracker.Track(ctx, read)
	b.Until = w.Now().Add(w.until)
	return n, b, err
}

// settle waits until the list has nothing to do.
func (w *world) settle() {
	for !w.Idle() {
		runtime.Gosched()
	}
}

// move moves the clock once the list has nothing to do, so its timers are set.
func (w *world) move(clock, timers time.Duration) {
	w.settle()
	w.fakeClock.move(clock, timers)
}

func (w *world) put(t testing.TB, key string, n int) {
	t.Helper()
	err := w.store.Update(context.Background(), func(tx storage.Tx) error {
		return tx.Put([]byte("t/"+key), []byte(strconv.Itoa(n)), time.Time{})
	})
	if err != nil {
		t.Error(err)
	}
}

// stream is something open.
type stream struct {
	wants  int
	closes time.Time // by the clock. Zero: never
	world  *world
	judged chan struct{} // has a token when it was judged
	ended  chan struct{} // closed when it was ended
}

func (w *world) stream(wants int) *stream {
	return &stream{wants: wants, world: w, judged: make(chan struct{}, 1), ended: make(chan struct{})}
}

func (s *stream) Judge(n int) (bool, time.Time) {
	defer func() {
		select {
		case s.judged <- struct{}{}:
		default:
		}
	}()
	return n >= s.wants && (s.closes.IsZero() || s.world.Now().Before(s.closes)), s.closes
}

func (s *stream) End() { close(s.ended) }

func (s *stream) wantOpen(t *testing.T, why string) {
	t.Helper()
	select {
	case <-s.ended:
		t.Errorf("%s: it was ended", why)
	default:
	}
}

// open adds a stream and waits until it was judged.
func (w *world) open(key string, wants int) *stream {
	s := w.stream(wants)
	w.Add(key, s)
	<-s.judged
	return s
}

func TestCommitEndsWhatRestsOnIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.put(t, "a", 2)
	w.put(t, "b", 2)
	low, high, other := w.open("a", 1), w.open("a", 2), w.open("b", 2)
	late := w.stream(3)
	w.Add("a", late)
	<-late.ended // it was not allowed by the time it came
	w.put(t, "a", 1)
	<-high.ended
	low.wantOpen(t, "what stays allowed")
	other.wantOpen(t, "what rests on something else")
	w.put(t, "a", 0)
	<-low.ended
	if other.wantOpen(t, "in the end"); w.asked.Load() > 8 {
		t.Errorf("asked %d times", w.asked.Load())
	}
}

func TestTimeEndsWithoutACommit(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.put(t, "a", 1)
	hours, stays := w.stream(1), w.open("a", 1)
	hours.closes = w.Now().Add(time.Hour)
	w.Add("a", hours)
	<-hours.judged
	w.move(time.Hour-time.Nanosecond, time.Hour-time.Nanosecond)
	hours.wantOpen(t, "before its hours are over")
	w.move(time.Nanosecond, time.Nanosecond)
	<-hours.ended
	stays.wantOpen(t, "without hours")

	// A clock that is set is noticed within the bound, though no timer was for this time.
	hours = w.stream(1)
	hours.closes = w.Now().Add(time.Hour)
	w.Add("a", hours)
	<-hours.judged
	w.move(2*time.Hour, 0)
	w.move(every, every)
	<-hours.ended
	stays.wantOpen(t, "after the clock was set")
}

func TestAnswerIsAskedAgainWhenItEnds(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.until = time.Hour
	w.put(t, "a", 1)
	s := w.open("a", 1)
	asked := w.asked.Load()
	w.move(time.Hour, time.Hour)
	<-s.judged
	if got := w.asked.Load(); got != asked+1 {
		t.Errorf("asked %d times at its end, want once", got-asked)
	}
	s.wantOpen(t, "still allowed")
}

// Without a store that can tell, what is open is asked about every few seconds, and ends with the first failure.
func TestStoreThatCannotTell(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.tracker = nil
	w.put(t, "a", 1)
	s, other := w.open("a", 1), w.open("a", 0)
	w.move(every, every)
	<-s.judged
	s.wantOpen(t, "still allowed")
	<-other.judged
	w.put(t, "a", 0)
	w.move(every, every)
	<-s.ended
	<-other.judged
	w.down.Store(true)
	w.move(every, every)
	<-other.ended
}

// What others have revoked in a shared store ends as soon as the answer wants to be asked again, also when it rests on
// something else that can be watched.
func TestRevokedElsewhere(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.tracker, w.again = nil, 900*time.Millisecond
	w.put(t, "a", 1)
	s := w.open("a", 1)
	w.move(w.again, w.again)
	<-s.judged
	s.wantOpen(t, "still allowed")
	w.put(t, "a", 0)
	w.move(w.again, w.again)
	<-s.ended
	sooner := recheck.Basis{Again: time.Second}
	for _, other := range []recheck.Basis{{}, {Again: time.Minute}, {Until: w.Now()}} {
		if got := []time.Duration{sooner.And(other).Again, other.And(sooner).Again}; got[0] != time.Second || got[1] != time.Second {
			t.Errorf("%v and %v are asked about again after %v, want a second", sooner, other, got)
		}
	}
}

// A store that cannot be asked is asked again for a while, and then everything ends.
func TestStoreThatCannotBeAsked(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.put(t, "a", 1)
	s := w.open("a", 1)
	fail := func() {
		t.Helper()
		asked := w.asked.Load()
		w.down.Store(true)
		w.put(t, "a", 2)
		for w.asked.Load() == asked {
			runtime.Gosched()
		}
	}
	fail()
	w.settle()
	w.down.Store(false)
	w.move(every/4, every/4)
	<-s.judged
	s.wantOpen(t, "after a failure that did not last")
	fail()
	for range 4 {
		s.wantOpen(t, "within the bound")
		w.move(every/4, every/4)
	}
	<-s.ended
}

func TestWhatNoAnswerRestsOn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.put(t, "a", 1)
	w.put(t, "b", 1)
	a, b := w.open("a", 1), w.open("b", 1)
	asked := w.asked.Load()
	w.move(every, every)
	w.state.Add(1)
	w.move(every, every)
	<-a.judged
	<-b.judged
	if got := w.asked.Load(); got != asked+2 {
		t.Errorf("asked %d times after a change, want once for each", got-asked)
	}
	w.stopped.Store(true)
	w.move(every, every)
	<-a.ended
	<-b.ended
}

// What has left is not asked about any more, and leaves nothing behind.
func TestLeave(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.put(t, "a", 1)
	s := w.stream(1)
	e := w.Add("a", s)
	<-s.judged
	e.Leave()
	e.Leave()
	asked := w.asked.Load()
	w.put(t, "a", 0)
	w.move(time.Hour, time.Hour)
	if w.asked.Load() != asked || len(w.timers) > 0 {
		t.Errorf("asked %d times, %d timers are set", w.asked.Load()-asked, len(w.timers))
	}
	s.wantOpen(t, "it has left")
}

// 10,000 that are quiet cost nothing while nothing changes but what they do not rest on.
func TestQuietOnesAskNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const n = 10_000
	all := make([]*stream, n)
	for i := range all {
		key := fmt.Sprint(i / 2)
		if i%2 == 0 {
			w.put(t, key, 1)
		}
		all[i] = w.open(key, 1)
	}
	w.settle()
	asked := w.asked.Load()
	for i := range 1000 {
		w.move(time.Second, time.Second)
		if i%10 == 0 {
			w.put(t, fmt.Sprint("other ", i), i)
		}
	}
	if got := w.asked.Load() - asked; got != 0 {
		t.Errorf("asked %d times in 1000 s", got)
	}
	w.put(t, "7", 0)
	<-all[14].ended
	<-all[15].ended
	all[13].wantOpen(t, "another key")
	if got := w.asked.Load() - asked; got != 1 {
		t.Errorf("asked %d times after one change", got)
	}
}

// TestNothingSurvivesTheCommitThatEndsIt makes random changes while streams come and go, and from several sides. In the
// end exactly those are open that are allowed, and each that was not allowed for good was ended.
func TestNothingSurvivesTheCommitThatEndsIt(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		w := newWorld(t)
		const keys = 6
		for k := range keys {
			w.put(t, fmt.Sprint(k), 5)
		}
		var mu sync.Mutex // guards open
		open := map[*stream]string{}
		var sides sync.WaitGroup
		for side := range uint64(3) {
			sides.Go(func() {
				r := rand.New(rand.NewPCG(seed, side)) //nolint:gosec // repeatable
				for range 60 {
					key := fmt.Sprint(r.IntN(keys))
					switch r.IntN(4) {
					case 0:
						w.put(t, key, r.IntN(6))
					case 1:
						w.move(time.Millisecond, time.Millisecond)
					default:
						s := w.stream(r.IntN(7))
						e := w.Add(key, s)
						if r.IntN(4) == 0 {
							e.Leave()
							continue
						}
						mu.Lock()
						open[s] = key
						mu.Unlock()
					}
				}
			})
		}
		sides.Wait()
		// The last word on each key.
		last := map[string]int{}
		for k := range keys {
			key := fmt.Sprint(k)
			last[key] = k % 5
			w.put(t, key, last[key])
		}
		for s, key := range open {
			if s.wants > last[key] {
				<-s.ended
			}
		}
	}
}

type quiet struct{}

func (quiet) Judge(int) (bool, time.Time) { return true, time.Time{} }
func (quiet) End()                        {}

// BenchmarkOpen reports what one that is open takes in memory, each on a key of its own.
func BenchmarkOpen(b *testing.B) {
	w := newWorld(b)
	const n = 10_000
	for i := range n {
		w.put(b, fmt.Sprint(i), 1)
	}
	heap := func() uint64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	for b.Loop() {
		before := heap()
		entries := make([]*recheck.Entry[string, int], n)
		for i := range entries {
			entries[i] = w.Add(fmt.Sprint(i), quiet{})
		}
		for w.asked.Load()%n != 0 {
			runtime.Gosched()
		}
		b.ReportMetric(float64(heap()-before)/n, "bytes/open")
		for _, e := range entries {
			e.Leave()
		}
	}
}
