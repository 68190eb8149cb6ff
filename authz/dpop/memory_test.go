package dpop_test

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/authz/dpop"
	"github.com/gatehouse-id/gatehouse/authz/dpop/dpoptest"
	"github.com/gatehouse-id/gatehouse/authz/oauth"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
	"github.com/gatehouse-id/gatehouse/storage/badgerstore"
)

// countingStore counts transactions, and can refuse to write.
type countingStore struct {
	storage.Store
	updates, views atomic.Int64
	full           atomic.Bool
	wrote          chan struct{} // gets a token after each Update, if there is room
}

func (s *countingStore) Update(ctx context.Context, fn func(storage.Tx) error) error {
	s.updates.Add(1)
	if s.full.Load() {
		return storage.ErrFull
	}
	err := s.Store.Update(ctx, fn)
	select {
	case s.wrote <- struct{}{}:
	default:
	}
	return err
}

func (s *countingStore) View(ctx context.Context, fn func(storage.Tx) error) error {
	s.views.Add(1)
	return s.Store.View(ctx, fn)
}

// resource is a server with a store, and a client that has a bound token for it.
type resource struct {
	t      *testing.T
	store  *countingStore
	ring   *secret.Keyring
	key    *dpoptest.Key
	clock  atomic.Int64 // seconds
	memory *dpop.Memory
	proofs *dpop.Proofs
	end    func() // as the process does when it is told to
}

func newResource(t *testing.T) *resource {
	t.Helper()
	store, err := badgerstore.OpenMemory()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	ring, err := secret.NewKeyring(make([]byte, secret.KeySize))
	if err != nil {
		t.Fatal(err)
	}
	s := &resource{t: t, store: &countingStore{Store: store, wrote: make(chan struct{}, 1000)}, ring: ring, key: dpoptest.NewKey(t)}
	s.clock.Store(1_800_000_000)
	s.start()
	return s
}

func (s *resource) now() time.Time { return time.Unix(s.clock.Load(), 5e8).UTC() }

// start begins a process, whatever has become of the one before.
func (s *resource) start() {
	s.t.Helper()
	s.memory = dpop.NewMemory(s.store, dpop.MemoryConfig{Now: s.now, Log: zap.NewNop()})
	s.proofs = dpop.New(dpop.Deps{Store: s.store, Keyring: s.ring, Memory: s.memory, Now: s.now})
	ctx, cancel := context.WithCancel(s.t.Context())
	var all sync.WaitGroup
	memory := s.memory
	all.Go(func() { memory.Run(ctx) })
	s.end = func() {
		cancel()
		all.Wait()
	}
	s.t.Cleanup(s.end)
}

// kill begins a process after one that could write nothing any more.
func (s *resource) kill() {
	s.t.Helper()
	s.store.full.Store(true)
	s.end()
	s.store.full.Store(false)
	s.start()
}

func (s *resource) proof(changes ...dpoptest.Claims) string {
	s.t.Helper()
	return s.key.Proof(http.MethodGet, at, text, s.now(), changes...)
}

// ask returns the error code of a request with a proof, "": it passes, and the nonce of the answer.
func (s *resource) ask(proof string) (code, nonce string) {
	answer := http.Header{}
	f, err := s.proofs.Admit(s.t.Context(), http.Header{dpop.Header: {proof}},
		dpop.Request{Method: http.MethodGet, URL: at, Token: text}, true, s.key.JKT)
	s.proofs.Offer(answer, f, err)
	if e := new(oauth.Error); errors.As(err, &e) {
		code = e.Code
	} else if err != nil {
		code = err.Error()
	}
	return code, answer.Get(dpop.NonceHeader)
}

func (s *resource) want(what, proof, code string) {
	s.t.Helper()
	if got, _ := s.ask(proof); got != code {
		s.t.Errorf("%s: error = %q, want %q", what, got, code)
	}
}

const (
	passes  = ""
	invalid = "invalid_dpop_proof"
	nonced  = "use_dpop_nonce"
)

// TestAProofCountsOnce at a resource, however often and from wherever it is sent at the same time, and after a restart.
// No request waits for the disk.
func TestAProofCountsOnce(t *testing.T) {
	t.Parallel()
	s := newResource(t)
	s.want("the first of all", s.proof(), passes) // reads and sets the mark
	<-s.store.wrote
	<-s.store.wrote // and was written itself
	s.clock.Add(int64((10 * time.Minute).Seconds()))
	before, views := s.store.updates.Load(), s.store.views.Load()
	proofs := make([]string, 20)
	for i := range proofs {
		proofs[i] = s.proof()
		var passed atomic.Int64
		var all sync.WaitGroup
		for range 50 {
			all.Go(func() {
				switch code, _ := s.ask(proofs[i]); code {
				case passes:
					passed.Add(1)
				case invalid:
				default:
					t.Errorf("error = %q, want %q", code, invalid)
				}
			})
		}
		all.Wait()
		if n := passed.Load(); n != 1 {
			t.Errorf("%d of 50 with one proof passed, want 1", n)
		}
	}
	if n := s.store.views.Load() - views; n != 0 {
		t.Errorf("requests with a proof have read %d times, want 0", n)
	}
	s.end()
	// On a busy machine each is written by itself, and the end is noted.
	if n := s.store.updates.Load() - before; n > int64(len(proofs))+1 {
		t.Errorf("%d requests with %d proofs took %d writes, want one for each proof at most", 50*len(proofs), len(proofs), n)
	}
	s.want("after the end, as a request that is still under way", s.proof(), passes)
	late := s.proof()
	s.want("another one", late, passes)
	s.want("the same again", late, invalid)
	s.start()
	for _, proof := range append(proofs, late) {
		s.want("after a restart", proof, invalid)
	}
	s.want("after a restart, a new one", s.proof(), passes)
}

// TestAttackAfterAKill: a process that was killed could not say which proofs it has taken. The next one takes none that
// is as old, and a nonce gets clients on at once.
func TestAttackAfterAKill(t *testing.T) {
	t.Parallel()
	t.Run("attack 407: a proof used before a kill", func(t *testing.T) {
		s := newResource(t)
		nonce := dpoptest.Claims{"nonce": s.nonce()}
		spent := map[string]string{
			"by its time": s.proof(), "by a time that is ahead": s.proof(dpoptest.Claims{"iat": s.now().Add(time.Minute - time.Second).Unix()}),
			"by a nonce": s.proof(nonce),
		}
		for name, proof := range spent {
			s.want(name, proof, passes)
		}
		s.kill()
		for name, proof := range spent {
			s.want("killed: "+name, proof, nonced)
		}
		s.want("a nonce of before", s.proof(nonce), nonced)
		code, fresh := s.ask(s.proof())
		if code != nonced || fresh == "" {
			t.Fatalf("a new proof without a nonce = %q, nonce %q, want one to be asked for", code, fresh)
		}
		s.end()
		s.start()
		for name, proof := range spent {
			s.want("killed, and ended at once: "+name, proof, nonced)
		}
		mended := s.proof(dpoptest.Claims{"nonce": fresh})
		s.want("with the nonce", mended, passes)
		s.want("with the nonce, again", mended, invalid)
		s.clock.Add(61)
		for name, proof := range spent {
			s.want("a minute later: "+name, proof, nonced)
		}
		s.clock.Add(60)
		s.want("without a nonce, two minutes later", s.proof(), passes)
		s.want("with the same nonce", s.proof(dpoptest.Claims{"nonce": fresh}), passes)
		s.end()
		s.start()
		s.want("after a restart that was told", s.proof(), passes)
	})
}

// TestAClockThatIsSetBackAfterAKill: a machine that has lost its power can start with a clock that is ahead until it
// hears of the time. Clients with a nonce get on then, too.
func TestAClockThatIsSetBackAfterAKill(t *testing.T) {
	t.Parallel()
	s := newResource(t)
	hour := int64(time.Hour.Seconds())
	s.clock.Add(hour)
	s.want("before", s.proof(), passes)
	s.kill()
	s.want("killed", s.proof(), nonced)
	s.clock.Add(-hour)
	old := s.proof()
	s.want("by its time", old, nonced)
	mended := s.proof(dpoptest.Claims{"nonce": s.nonce()})
	s.want("with a nonce", mended, passes)
	s.want("with a nonce, again", mended, invalid)
	s.clock.Add(121)
	s.want("two minutes later", s.proof(), passes)
}

// nonce returns one that is good now.
func (s *resource) nonce() string {
	s.t.Helper()
	code, nonce := s.ask(s.proof(dpoptest.Claims{"iat": s.now().Add(-time.Hour).Unix()}))
	if code != nonced || nonce == "" {
		s.t.Fatalf("an old proof = %q, nonce %q, want a nonce", code, nonce)
	}
	return nonce
}

// TestProofsOnAFullDisk: what cannot be stored is refused after a moment, and goes on when there is room again.
func TestProofsOnAFullDisk(t *testing.T) {
	t.Parallel()
	s := newResource(t)
	s.want("the first", s.proof(), passes)
	<-s.store.wrote
	<-s.store.wrote
	s.store.full.Store(true)
	var last string
	for code := passes; code == passes; {
		last = s.proof()
		code, _ = s.ask(last)
	}
	s.store.full.Store(false)
	for code := "unknown"; code != passes; code, _ = s.ask(s.proof()) {
	}
	s.want("what was refused", last, passes)
	s.want("the same again", last, invalid)
}

// TestMemoryOfProofsIsBounded: what finds no room is written at once and counts once all the same, and what is too old
// makes room.
func TestMemoryOfProofsIsBounded(t *testing.T) {
	t.Parallel()
	s := newResource(t)
	bounded := func(most int) { // which nothing runs, so each write is one before an answer
		m := dpop.NewMemory(s.store, dpop.MemoryConfig{Now: s.now, Log: zap.NewNop(), Most: most})
		s.proofs = dpop.New(dpop.Deps{Store: s.store, Keyring: s.ring, Memory: m, Now: s.now})
	}
	use := func(n int) (proofs []string, writes int64) {
		before := s.store.updates.Load()
		for range n {
			proofs = append(proofs, s.proof())
			s.want("a new proof", proofs[len(proofs)-1], passes)
		}
		return proofs, s.store.updates.Load() - before
	}
	bounded(11)
	use(1) // sets the mark
	first, n := use(10)
	if n != 0 {
		t.Errorf("%d of 11 uses were written before the answer, want none", n)
	}
	more, n := use(20)
	if n != 20 {
		t.Errorf("%d of 20 uses more were written before the answer, want all", n)
	}
	for _, proof := range append(first, more...) {
		s.want("again", proof, invalid)
	}
	lasting := s.proof(dpoptest.Claims{"nonce": s.nonce()})
	s.want("with a nonce, which lives longer", lasting, passes)
	s.clock.Add(int64((3 * time.Minute).Seconds()))
	s.want("with the nonce, again, when there is room", lasting, invalid)
	if _, n = use(12); n != 1 {
		t.Errorf("%d of 12 uses three minutes later were written before the answer, want 1", n)
	}
}

// sharedStore is a store that other processes use too.
type sharedStore struct{ storage.Store }

func (sharedStore) Clock(context.Context) (time.Time, error) { return time.Time{}, nil }

// TestNoMemoryWhereOthersWrite: servers of one database know of each other's proofs from the database alone.
func TestNoMemoryWhereOthersWrite(t *testing.T) {
	t.Parallel()
	s := newResource(t)
	m := dpop.NewMemory(sharedStore{s.store}, dpop.MemoryConfig{Now: s.now, Log: zap.NewNop()})
	if m != nil {
		t.Error("there is a memory")
	}
	m.Run(t.Context())
	two := [2]*dpop.Proofs{}
	for i := range two {
		two[i] = dpop.New(dpop.Deps{Store: s.store, Keyring: s.ring, Memory: m, Now: s.now})
	}
	var passed atomic.Int64
	var all sync.WaitGroup
	proof := s.proof()
	for i := range 50 {
		all.Go(func() {
			_, err := two[i%2].Admit(t.Context(), http.Header{dpop.Header: {proof}},
				dpop.Request{Method: http.MethodGet, URL: at, Token: text}, true, s.key.JKT)
			if err == nil {
				passed.Add(1)
			}
		})
	}
	all.Wait()
	if n := passed.Load(); n != 1 {
		t.Errorf("%d of 50 at two servers passed, want 1", n)
	}
}
