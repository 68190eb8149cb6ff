package secret

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/crypto/bcrypt"
)

// cheap is a cost for tests that are not about cost.
var cheap = HashCost{MemoryKiB: 8, Iterations: 1, Concurrency: 4}

func TestHasher(t *testing.T) {
	t.Parallel()
	h := NewHasher(cheap)
	phc, err := h.Hash(t.Context(), "correct horse")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(phc, "$argon2id$v=19$m=8,t=1,p=1$") || CheckPHC(phc) != nil {
		t.Errorf("Hash = %q, want a PHC string", phc)
	}
	if again, err := h.Hash(t.Context(), "correct horse"); err != nil || again == phc {
		t.Errorf("Hash twice = %q, %v, want another salt", again, err)
	}
	bc, err := bcrypt.GenerateFromPassword([]byte("correct horse"), bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	costly := NewHasher(HashCost{MemoryKiB: 16, Iterations: 1})
	for _, c := range []struct {
		name, phc, password string
		h                   *Hasher
		ok, stale           bool
	}{
		{"right", phc, "correct horse", h, true, false},
		{"wrong", phc, "correct horsf", h, false, false},
		{"empty", phc, "", h, false, false},
		{"stale", phc, "correct horse", costly, true, true},
		{"stale and wrong", phc, "wrong", costly, false, false},
		{"bcrypt", string(bc), "correct horse", h, true, true},
		{"bcrypt 2y", "$2y$" + string(bc)[4:], "correct horse", h, true, true},
		{"bcrypt wrong", string(bc), "correct", h, false, false},
		{"bcrypt NUL", string(bc), "correct horse\x00", h, false, false},
	} {
		ok, stale, err := c.h.Verify(t.Context(), c.phc, c.password)
		if err != nil || ok != c.ok || stale != c.stale {
			t.Errorf("Verify(%s) = %t, %t, %v, want %t, %t", c.name, ok, stale, err, c.ok, c.stale)
		}
	}
}

// TestKnownHash is a vector of the reference implementation: argon2 "password", salt "somesalt", -id -t 2 -k 256 -p 1
// (results of 16 and 32 bytes).
func TestKnownHash(t *testing.T) {
	t.Parallel()
	const phc = "$argon2id$v=19$m=256,t=2,p=1$c29tZXNhbHQ$nf65EOgLrQMR/uIPnA4rEsF5h7TKyQwu9U1bMCHGi/4"
	ok, stale, err := NewHasher(cheap).Verify(t.Context(), phc, "password")
	if !ok || !stale || err != nil {
		t.Errorf("Verify(vector) = %t, %t, %v, want true, true", ok, stale, err)
	}
}

func TestTwinsOf72Bytes(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a", 72)
	bc, err := bcrypt.GenerateFromPassword([]byte(long), bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	h := NewHasher(cheap)
	if ok, _, err := h.Verify(t.Context(), string(bc), long); !ok || err != nil {
		t.Errorf("Verify(72 bytes) = %t, %v, want true", ok, err)
	}
	if ok, _, err := h.Verify(t.Context(), string(bc), long+"b"); ok || err != nil {
		t.Errorf("Verify(72 bytes and more) = %t, %v, want false", ok, err)
	}
}

func TestHashFormats(t *testing.T) {
	t.Parallel()
	const salt, sum = "AAAAAAAAAAAAAAAAAAAAAA", "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
	h := NewHasher(cheap)
	for _, phc := range []string{
		"", "plain", "$", "$1$abc$def", "$argon2id$", "$argon2x$v=19$m=8,t=1,p=1$" + salt + "$" + sum,
		"$argon2id$v=16$m=8,t=1,p=1$" + salt + "$" + sum,
		"$argon2id$v=19$m=1048576,t=1,p=1$" + salt + "$" + sum, "$argon2id$v=19$m=8,t=100000,p=1$" + salt + "$" + sum,
		"$argon2id$v=19$m=262144,t=64,p=1$" + salt + "$" + sum,
		"$argon2id$v=19$m=8,t=0,p=1$" + salt + "$" + sum, "$argon2id$v=19$m=8,t=1,p=0$" + salt + "$" + sum,
		"$argon2id$v=19$m=8,t=1,p=200$" + salt + "$" + sum,
		"$argon2id$v=19$m=08,t=1,p=1$" + salt + "$" + sum, "$argon2id$v=19$m=8,t=1,p=1,x=2$" + salt + "$" + sum,
		"$argon2id$v=19$t=1,m=8,p=1$" + salt + "$" + sum,
		"$argon2id$v=19$m=8,t=1,p=1$AA$" + sum, "$argon2id$v=19$m=8,t=1,p=1$" + salt + "$AA",
		"$argon2id$v=19$m=8,t=1,p=1$" + salt + "$" + sum + "=", "$argon2id$v=19$m=8,t=1,p=1$" + salt + "$" + sum + "$",
		"$2a$31$abcdefghijklmnopqrstuuN8FkQkWQ6nHYyWCyqzs6tsZqk9oGqFm", "$2a$04$short",
		"$argon2id$v=19$m=8,t=1,p=1$" + salt + "$" + strings.Repeat("A", 600),
	} {
		if err := CheckPHC(phc); !errors.Is(err, ErrHashFormat) {
			t.Errorf("CheckPHC(%q) = %v, want ErrHashFormat", phc, err)
		}
		if ok, _, err := h.Verify(t.Context(), phc, "x"); ok || !errors.Is(err, ErrHashFormat) {
			t.Errorf("Verify(%q) = %t, %v, want ErrHashFormat", phc, ok, err)
		}
	}
	if h.Computed() != 0 {
		t.Errorf("%d hashes computed for unreadable hashes, want 0", h.Computed())
	}
}

// occupy takes all slots of a hasher by computations that end when release is called, once for each.
func occupy(t *testing.T, h *Hasher) (release func()) {
	t.Helper()
	var err error
	for range h.queue.size {
		if release, err = h.queue.acquire(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	return release
}

func await(cond func() bool) {
	for !cond() {
		runtime.Gosched()
	}
}

func TestHasherIsBounded(t *testing.T) {
	t.Parallel()
	h := NewHasher(HashCost{MemoryKiB: 8, Iterations: 1, Concurrency: 2})
	h.queue.wait = 20 * time.Millisecond
	release := occupy(t, h)
	if err := h.Waste(t.Context(), "x"); !errors.Is(err, ErrBusy) {
		t.Errorf("Waste after the longest wait = %v, want ErrBusy", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	h.queue.wait = time.Hour
	var queued sync.WaitGroup
	results := make(chan error, lineFactor*h.queue.size)
	for range cap(results) {
		queued.Go(func() { results <- h.Waste(ctx, "x") })
	}
	await(func() bool { return h.Waiting() == int64(cap(results)) }) // the line fills
	if err := h.Waste(t.Context(), "x"); !errors.Is(err, ErrBusy) {
		t.Errorf("Waste beyond the line = %v, want ErrBusy at once", err)
	}
	cancel()
	queued.Wait()
	close(results)
	for err := range results {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("Waste after its caller went = %v, want context.Canceled", err)
		}
	}
	if h.Computed() != 0 {
		t.Errorf("%d hashes computed, want 0", h.Computed())
	}
	release()
	if err := h.Waste(t.Context(), "x"); err != nil || h.Computed() != 1 {
		t.Errorf("Waste with a free place = %v, %d computed, want nil, 1", err, h.Computed())
	}
}

// TestFloodOfOneNetworkKeepsOnlyThatNetworkWaiting: a network that asks for one hash is next, however many another one
// has asked for before.
func TestFloodOfOneNetworkKeepsOnlyThatNetworkWaiting(t *testing.T) {
	t.Parallel()
	h := NewHasher(HashCost{MemoryKiB: 8, Iterations: 1, Concurrency: 1})
	h.queue.wait = time.Hour
	release := occupy(t, h)
	served := make(chan string, 2*lineFactor)
	var all sync.WaitGroup
	ask := func(network string) {
		before := h.Waiting()
		all.Go(func() {
			if err := h.Waste(AskedBy(t.Context(), network, nil), "x"); err != nil {
				network += " " + err.Error()
			}
			served <- network
		})
		await(func() bool { return h.Waiting() > before })
	}
	for range lineFactor {
		ask("flood")
	}
	if err := h.Waste(AskedBy(t.Context(), "flood", nil), "x"); !errors.Is(err, ErrBusy) {
		t.Errorf("one more of the flood: %v, want ErrBusy", err)
	}
	ask("home")
	ask("office")
	release()
	all.Wait()
	close(served)
	var order []string
	for n := range served {
		order = append(order, n)
	}
	// The answers of two computations can overtake each other by one.
	if home, office := slices.Index(order, "home"), slices.Index(order, "office"); home < 0 || home > 3 || office < 0 || office > 4 ||
		len(order) != lineFactor+2 {
		t.Errorf("home is served as number %d, office as number %d of %d, want among the first", home, office, len(order))
	}
	if h.Waiting() != 0 || h.queue.taken != 0 || len(h.queue.lines) != 0 || len(h.queue.turns) != 0 {
		t.Errorf("the queue is left as %+v, want empty", h.queue)
	}
}

// TestFullQueueHasRoomForAnotherNetwork: many networks that flood make room for one that asks once.
func TestFullQueueHasRoomForAnotherNetwork(t *testing.T) {
	t.Parallel()
	q := newQueue(1, 4, 8)
	q.wait = time.Hour
	release, err := q.acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	refused := make(chan error, 8)
	for i := range 8 {
		network := []string{"a", "b"}[i%2]
		all.Go(func() {
			release, err := q.acquire(AskedBy(t.Context(), network, nil))
			if err == nil {
				release()
			} else {
				refused <- err
			}
		})
	}
	await(func() bool { return q.Waiting() == 8 })
	gone := make(chan struct{})
	all.Go(func() {
		if release, err := q.acquire(AskedBy(t.Context(), "home", gone)); err == nil {
			release()
		} else {
			refused <- err
		}
	})
	if err := <-refused; !errors.Is(err, ErrBusy) || q.Waiting() != 8 {
		t.Errorf("one of a long line is refused with %v, and %d wait, want ErrBusy and 8", err, q.Waiting())
	}
	close(gone)
	if err := <-refused; !errors.Is(err, context.Canceled) {
		t.Errorf("a browser that has gone waits: %v, want context.Canceled", err)
	}
	release()
	all.Wait()
	if len(refused) != 0 || q.taken != 0 || q.Waiting() != 0 {
		t.Errorf("%d more are refused, %d slots taken, %d wait, want none", len(refused), q.taken, q.Waiting())
	}
}

// TestPartKeepsOthersServed: a busy part takes few places in the queue of the whole.
func TestPartKeepsOthersServed(t *testing.T) {
	t.Parallel()
	h := NewHasher(HashCost{MemoryKiB: 8, Iterations: 1, Concurrency: 2})
	part := h.Part()
	h.queue.wait, part.queue.wait = time.Hour, time.Hour
	release := occupy(t, h)
	ctx, cancel := context.WithCancel(t.Context())
	var queued sync.WaitGroup
	inQueue, waiting := part.queue.size, part.queue.most
	for range inQueue + waiting {
		queued.Go(func() { part.Waste(ctx, "x") }) //nolint:errcheck // it is cancelled
	}
	await(func() bool { return part.Waiting() >= int64(waiting) && h.Waiting() >= int64(inQueue) }) // the queues fill
	if n := h.Waiting(); n != int64(inQueue) {
		t.Errorf("%d computations of the part wait in the queue of the whole, want %d", n, inQueue)
	}
	if err := part.Waste(t.Context(), "x"); !errors.Is(err, ErrBusy) {
		t.Errorf("Waste of the part beyond its queue = %v, want ErrBusy", err)
	}
	cancel()
	queued.Wait()
	if h.Waiting() != 0 || part.Waiting() != 0 || part.queue.taken != 0 {
		t.Errorf("%d and %d wait, %d slots are taken, want none", h.Waiting(), part.Waiting(), part.queue.taken)
	}
	release()
	if err := part.Waste(t.Context(), "x"); err != nil || h.Computed() != 1 || h.queue.taken != 1 || part.queue.taken != 0 {
		t.Errorf("Waste of the part with a free place = %v, %d computed, want nil, 1", err, h.Computed())
	}
}

func TestHashCostIsBounded(t *testing.T) {
	t.Parallel()
	h := NewHasher(HashCost{MemoryKiB: 1 << 31, Iterations: 1 << 31})
	if h.cost.MemoryKiB != maxMemoryKiB || uint64(h.cost.MemoryKiB)*uint64(h.cost.Iterations) > maxWork || h.cost.Concurrency < 1 {
		t.Errorf("cost %+v is beyond what Verify accepts", h.cost)
	}
}

func FuzzParseArgon2id(f *testing.F) {
	f.Add("$argon2id$v=19$m=19456,t=2,p=1$AAAAAAAAAAAAAAAAAAAAAA$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA")
	f.Add("$argon2id$v=19$m=-1,t=2,p=300$$")
	f.Fuzz(func(t *testing.T, phc string) {
		p, sum, err := parseArgon2id(phc)
		if err == nil && (p.memory > maxMemoryKiB || p.lanes == 0 || p.iterations == 0 || len(sum) < 16) {
			t.Errorf("parseArgon2id(%q) = %+v, beyond the bounds", phc, p)
		}
	})
}

func BenchmarkVerify(b *testing.B) {
	h := NewHasher(HashCost{})
	phc, err := h.Hash(b.Context(), "correct horse")
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if ok, _, err := h.Verify(b.Context(), phc, "correct horse"); !ok || err != nil {
			b.Fatal(ok, err)
		}
	}
}
