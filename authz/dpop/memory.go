package dpop

import (
	"cmp"
	"context"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/authz/oauth"
	"github.com/gatehouse-id/gatehouse/internal/denial"
	"github.com/gatehouse-id/gatehouse/storage"
)

const (
	writeEvery  = 100 * time.Millisecond
	writeAtOnce = 1000    // records of one transaction
	mostPending = 1 << 16 // uses that wait to be written
	mostKept    = 1 << 21 // uses in memory: about 100 MB
	longest     = nonceLife + window + margin

	// stripes is the number of proofs that can be looked at at the same time.
	stripes = 64
)

var errUntold = denial.New(denial.ProofInvalid,
	"the proof is older than this server, and the one before has ended without storing which proofs were used")

// Memory knows the proofs that were used at resources, for the one process that uses a store. They are written a little
// later, for the process after this one. A process that could not do so, since it was killed, leaves a mark, and the
// next one takes no proof that could have been used before. (docs/decisions/token-endpoint.md#dpop) It is safe for
// concurrent use, and shared by all Proofs of the store.
type Memory struct {
	store storage.Store
	now   func() time.Time
	log   *zap.Logger
	most  int // MemoryConfig.Most
	after func(time.Duration) <-chan time.Time

	stripe [stripes]sync.Mutex // held while it is decided about a proof whose key begins with this byte
	wake   chan struct{}       // holds a token when there is something to write

	mu      sync.Mutex // guards all below
	phase   phase
	fence   time.Time                       // a proof that existed then could have been used. Zero: none
	ask     time.Time                       // until then the store knows uses that are not in memory
	used    map[int64]map[[16]byte]struct{} // by the second in which the proof becomes too old
	kept    int                             // in used
	pending map[string]time.Time            // not written yet: key of the table, and until when it matters
	failing bool                            // the last write has failed
}

type phase int

const (
	unopened phase = iota
	open
	closed // uses are written before the answer
)

// MemoryConfig are the dependencies and the size of a memory.
type MemoryConfig struct {
	Now  func() time.Time
	Log  *zap.Logger
	Most int // uses in memory. More are written before the answer. Default: 2 million, about 100 MB
}

// NewMemory returns the memory of a store, or nil for a store that several processes can use: there each use must be
// written before the answer. Run must be called.
func NewMemory(store storage.Store, cfg MemoryConfig) *Memory {
	if _, shared := store.(storage.Shared); shared {
		return nil
	}
	return &Memory{
		store: store, now: cfg.Now, log: cfg.Log, most: cmp.Or(cfg.Most, mostKept), after: time.After, wake: make(chan struct{}, 1),
		used: map[int64]map[[16]byte]struct{}{}, pending: map[string]time.Time{},
	}
}

// Run writes what was used until ctx ends, and then the rest, so the next process has no doubt. The store must not be
// closed before it has returned.
func (m *Memory) Run(ctx context.Context) {
	if m == nil {
		return
	}
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-m.wake:
			select {
			case <-ctx.Done():
			case <-m.after(writeEvery):
				m.write(context.WithoutCancel(ctx)) //nolint:errcheck // it is logged, and tried again
			}
		}
	}
	m.close(context.WithoutCancel(ctx))
}

// ready reads the mark of the process before, and sets our own, before the first use.
func (m *Memory) ready(ctx context.Context) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.phase != unopened {
		return nil
	}
	now := m.now()
	var fence time.Time
	err := m.store.Update(ctx, func(tx storage.Tx) error {
		before, _, err := running.Find(tx, "")
		if err != nil {
			return err
		}
		if fence = before.Fence; before.Runs {
			fence = now
		}
		return running.Put(tx, "", runningRecord{Runs: true, Fence: fence}, time.Time{})
	})
	if err != nil {
		return err
	}
	m.phase, m.ask, m.fence = open, now.Add(longest), fence
	return nil
}

// lowerFence follows a clock that was set back: proofs that clients make now would all be from before the fence, and no
// nonce behind it would be taken. m.mu is held.
func (m *Memory) lowerFence(now time.Time) {
	fence := m.fence.Round(0) // by the clock, not by the time that has passed
	if now = now.Round(0); fence.After(now.Add(window)) {
		m.fence, m.ask = now, fence.Add(longest)
	}
}

// afterFence returns the first second in which a nonce is taken that was made after the fence.
func (m *Memory) afterFence(now time.Time) int64 {
	if m == nil {
		return 0
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.lowerFence(now)
	if m.fence.IsZero() {
		return 0
	}
	return m.fence.Unix() + 1
}

// close writes the rest, and that this was done. A fence stays as long as there can be proofs from before it.
func (m *Memory) close(ctx context.Context) {
	m.mu.Lock()
	was, fence := m.phase, m.fence
	m.phase = closed
	m.mu.Unlock()
	// Who is deciding in memory has decided when all stripes were free.
	for i := range m.stripe {
		m.stripe[i].Lock()
		m.stripe[i].Unlock() //nolint:staticcheck // it was waited for
	}
	if was != open || m.write(ctx) != nil {
		return
	}
	now := m.now()
	err := m.store.Update(ctx, func(tx storage.Tx) error {
		if !fence.Add(longest).After(now) {
			return running.Delete(tx, "")
		}
		return running.Put(tx, "", runningRecord{Fence: fence}, fence.Add(longest))
	})
	if err != nil {
		m.log.Warn("used DPoP proofs: the end was not stored, so the next start asks clients for a nonce", zap.Error(err))
	}
}

// write writes what is pending.
func (m *Memory) write(ctx context.Context) error {
	for {
		m.mu.Lock()
		batch := make(map[string]time.Time, min(len(m.pending), writeAtOnce))
		for key, until := range m.pending {
			if len(batch) == writeAtOnce {
				break
			}
			batch[key] = until
		}
		m.mu.Unlock()
		if len(batch) == 0 {
			return nil
		}
		err := m.store.Update(ctx, func(tx storage.Tx) error {
			for key, until := range batch {
				if err := used.Put(tx, key, struct{}{}, until.Add(margin)); err != nil {
					return err
				}
			}
			return nil
		})
		m.mu.Lock()
		first := err != nil && !m.failing
		if m.failing = err != nil; err == nil {
			for key := range batch {
				delete(m.pending, key)
			}
		}
		m.mu.Unlock()
		if first {
			m.log.Error("used DPoP proofs cannot be stored, so requests with a proof wait for the storage", zap.Error(err))
		}
		if err != nil {
			m.poke()
			return err
		}
	}
}

func (m *Memory) poke() {
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

// use notes that a proof was used. One that was used before, or could have been, is refused.
func (m *Memory) use(ctx context.Context, f *Proof) error {
	if err := m.ready(ctx); err != nil {
		return err
	}
	stripe := &m.stripe[f.key[0]%stripes]
	stripe.Lock()
	defer stripe.Unlock()
	now := m.now()
	m.mu.Lock()
	m.lowerFence(now)
	if m.kept >= m.most {
		m.forget(now)
	}
	known, untold, ask := m.has(f), !m.fence.IsZero() && !f.since.After(m.fence), m.ask.After(now)
	room := m.phase == open && !m.failing && m.kept < m.most && len(m.pending) < mostPending
	if !room {
		m.ask = now.Add(longest) // for this use
	}
	m.mu.Unlock()
	switch {
	case known:
		return replayed()
	case untold:
		return oauth.UseNonce(errUntold)
	case !room:
		return m.store.Update(ctx, f.Spend)
	}
	if ask {
		written := false
		err := m.store.View(ctx, func(tx storage.Tx) (err error) {
			written, err = used.Has(tx, f.key)
			return err
		})
		if err != nil {
			return err
		}
		if written {
			return replayed()
		}
	}
	m.note(f, now)
	return nil
}

func (m *Memory) has(f *Proof) bool {
	_, known := m.used[f.until.Unix()][[16]byte([]byte(f.key))]
	return known
}

// forget drops the uses of proofs that are too old by now. m.mu is held.
func (m *Memory) forget(now time.Time) {
	for end, old := range m.used {
		if time.Unix(end, 0).Add(margin).Before(now) {
			m.kept -= len(old)
			delete(m.used, end)
		}
	}
}

// note keeps a use, and forgets those of proofs that are too old by now.
func (m *Memory) note(f *Proof, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	second := f.until.Unix()
	of := m.used[second]
	if of == nil {
		m.forget(now)
		of = map[[16]byte]struct{}{}
		m.used[second] = of
	}
	of[[16]byte([]byte(f.key))] = struct{}{}
	m.kept++
	if m.pending[f.key] = f.until; len(m.pending) == 1 {
		m.poke()
	}
}
