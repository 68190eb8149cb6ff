package eventtest_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/storage"
	"github.com/gatehouse-id/gatehouse/storage/badgerstore"
	"github.com/gatehouse-id/gatehouse/storage/pgstore"
	"github.com/gatehouse-id/gatehouse/storage/pgstore/pgtest"
	"github.com/gatehouse-id/gatehouse/storage/transfer"
)

var server *pgtest.Server

func TestMain(m *testing.M) { pgtest.Main(m, func(s *pgtest.Server) { server = s }) }

var (
	created = audit.Type{Type: "person.PersonCreatedEvent", Name: "Person Created"}
	issued  = audit.Type{Type: "token.AccessTokenIssuedEvent", Name: "Access Token Issued", Brief: true}
)

var schemas atomic.Int64

// database opens a PostgreSQL storage, as one node of those that name the same schema.
func database(t testing.TB, schema string) *pgstore.Store {
	t.Helper()
	s, err := pgstore.Open(context.Background(), pgstore.Options{URL: server.URL(pgtest.Database), Schema: schema, SweepEvery: -1, Pool: 4})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func newSchema() string { return fmt.Sprintf("events %d", schemas.Add(1)) }

// onBoth runs a test on both engines.
func onBoth(t *testing.T, test func(h *nodes)) {
	t.Helper()
	t.Parallel()
	t.Run("badger", func(t *testing.T) {
		t.Parallel()
		s, err := badgerstore.OpenMemory()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		test(newNodes(t, s))
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		test(newNodes(t, database(t, newSchema())))
	})
}

// nodes are three nodes of a storage, one of which seals, and their clock.
type nodes struct {
	*testing.T

	store storage.Store
	rec   [3]*audit.Recorder
	keep  *audit.Keeper
	time  time.Time
}

func newNodes(t *testing.T, s storage.Store) *nodes {
	h := &nodes{T: t, store: s, time: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
	now := func() time.Time { return h.time }
	for lane := range h.rec {
		h.rec[lane] = &audit.Recorder{Random: rand.Reader, Now: now, Lane: func() int { return lane }}
	}
	h.keep = audit.NewKeeper(s, now, zap.NewNop())
	return h
}

func (h *nodes) must(err error) {
	h.Helper()
	if err != nil {
		h.Fatal(err)
	}
}

func (h *nodes) view(fn func(tx storage.Tx) error) {
	h.Helper()
	h.must(h.store.View(context.Background(), fn))
}

func (h *nodes) update(fn func(tx storage.Tx) error) {
	h.Helper()
	h.must(h.store.Update(context.Background(), fn))
}

// add has a node append an event of a person, a second after the one before.
func (h *nodes) add(node int, person string) string {
	h.Helper()
	e, err := h.rec[node].New(created, audit.Self)
	h.must(err)
	e.PersonID = person
	h.update(func(tx storage.Tx) error { return h.rec[node].Append(tx, e) })
	h.time = h.time.Add(time.Second)
	return e.ID
}

func (h *nodes) seal() {
	h.Helper()
	h.must(h.keep.Seal(context.Background()))
	h.time = h.time.Add(time.Second)
}

// filled writes events from three nodes in turn, the third until it was killed.
func (h *nodes) filled() {
	h.Helper()
	for round := range 4 {
		for node := range h.rec {
			if node == 2 && round == 3 {
				continue
			}
			for range 3 {
				h.add(node, "ann")
			}
		}
		h.seal()
	}
	h.seal()
}

// verify returns what is wrong, by chain, and the chains that were found.
func (h *nodes) verify() (wrong map[string]string, list []audit.Verified) {
	h.Helper()
	list, err := audit.Verify(context.Background(), h.store, nil)
	h.must(err)
	wrong = map[string]string{}
	for _, v := range list {
		if len(v.Problems) > 0 {
			wrong[v.Chain] = strings.Join(v.Problems, "; ")
		}
	}
	return wrong, list
}

// The chains of the three nodes, and what their keys begin with.
var chainNames = [3]string{"default", "default/node2", "default/node3"}

func keyOf(table string, node int) string {
	kind := "kept"
	if node > 0 {
		kind += fmt.Sprint("/", node)
	}
	return table + "/" + string(storage.Prefix("default", kind))
}

// records returns those of a table that belong to the chain of a node, in the order of their numbers.
func (h *nodes) records(tx storage.Tx, table string, node int) (list []storage.Record) {
	h.Helper()
	for rec, err := range tx.Scan(storage.Range{Prefix: []byte(keyOf(table, node))}) {
		h.must(err)
		list = append(list, rec)
	}
	return list
}

func put(tx storage.Tx, r storage.Record) error { return tx.Put(r.Key, r.Value, r.Expires) }

// nodeAttack changes the chain of a node, and says what Verify has to find.
type nodeAttack struct {
	fn   func(h *nodes, tx storage.Tx, node int) error
	want string
}

// TestEventsOfEachNodeAreVerified: attack: someone who can write to the storage changes, removes, or reorders an event
// of one of three nodes, or a block. It is found in the chain of that node, with its number.
func TestEventsOfEachNodeAreVerified(t *testing.T) {
	t.Parallel()
	attacks := map[string]nodeAttack{
		"a removed event": {func(h *nodes, tx storage.Tx, node int) error {
			return tx.Delete(h.records(tx, "event_log", node)[4].Key)
		}, "has lost 1 of 3 events: 5"},
		"a changed event": {func(h *nodes, tx storage.Tx, node int) error {
			r := h.records(tx, "event_log", node)[4]
			r.Value = []byte(strings.Replace(string(r.Value), "127.0.0.1", "127.0.0.2", 1))
			return put(tx, r)
		}, "(events 4 to 6, sealed"},
		"two events exchanged": {func(h *nodes, tx storage.Tx, node int) error {
			list := h.records(tx, "event_log", node)
			a, b := list[3], list[5]
			a.Value, b.Value = b.Value, a.Value
			return errors.Join(put(tx, a), put(tx, b))
		}, "(events 4 to 6, sealed"},
		"an event of another node in its place": {func(h *nodes, tx storage.Tx, node int) error {
			r, other := h.records(tx, "event_log", node)[4], h.records(tx, "event_log", (node+1)%3)[4]
			r.Value = other.Value
			return put(tx, r)
		}, "(events 4 to 6, sealed"},
		"a removed block": {func(h *nodes, tx storage.Tx, node int) error {
			return tx.Delete(h.records(tx, "event_block", node)[1].Key)
		}, "block 2 was removed"},
		"a block of another node in its place": {func(h *nodes, tx storage.Tx, node int) error {
			r, other := h.records(tx, "event_block", node)[1], h.records(tx, "event_block", (node+1)%3)[1]
			r.Value = other.Value
			return put(tx, r)
		}, "was changed itself"},
	}
	t.Run("attack 491: an event or block of one of several nodes is removed, changed, exchanged", func(t *testing.T) { eachNode(t, attacks) })
}

func eachNode(t *testing.T, attacks map[string]nodeAttack) {
	t.Helper()
	onBoth(t, func(h *nodes) {
		h.filled()
		if wrong, list := h.verify(); len(wrong) > 0 || len(list) != 3 {
			h.Fatalf("before the attacks: %v in %d chains", wrong, len(list))
		}
		for name, a := range attacks {
			for node, chain := range chainNames {
				var before []storage.Record
				h.update(func(tx storage.Tx) error {
					before = append(h.records(tx, "event_log", node), h.records(tx, "event_block", node)...)
					return a.fn(h, tx, node)
				})
				if wrong, _ := h.verify(); len(wrong) != 1 || !strings.Contains(wrong[chain], a.want) {
					h.Errorf("%s of %s: Verify finds %q, want %q in this chain alone", name, chain, wrong, a.want)
				}
				h.update(func(tx storage.Tx) error {
					for _, r := range before {
						if err := put(tx, r); err != nil {
							return err
						}
					}
					return nil
				})
			}
		}
	})
}

// cut removes the blocks of a chain from one on, with all their events, and makes the head and the numbering those of a
// chain that never had them. With the first block the whole chain goes.
func (h *nodes) cut(node int, block int) {
	h.Helper()
	h.update(func(tx storage.Tx) error {
		list := h.records(tx, "event_block", node)
		events := h.records(tx, "event_log", node)
		for _, r := range append(list[block-1:], events[3*(block-1):]...) {
			if err := tx.Delete(r.Key); err != nil {
				return err
			}
		}
		return errors.Join(tx.Delete([]byte(keyOf("event_chain", node))), tx.Delete([]byte(keyOf("event_next", node))))
	})
	if block == 1 {
		return
	}
	h.replay(node, block-1)
}

// replay makes the head of a chain again from the blocks that are left, as an attacker would who knows our program.
func (h *nodes) replay(node, blocks int) {
	h.Helper()
	h.update(func(tx storage.Tx) error {
		last, err := lasts.Decode(h.records(tx, "event_block", node)[blocks-1].Value)
		if err != nil {
			return err
		}
		if err := heads.Put(tx, strings.TrimPrefix(keyOf("event_chain", node), "event_chain/"), //nolint:gosec // small
			forgedHead{Block: uint64(blocks), Event: last.Last, Hash: last.Hash}, time.Time{}); err != nil {
			return err
		}
		return numbers.Put(tx, strings.TrimPrefix(keyOf("event_next", node), "event_next/"), last.Last+1, time.Time{})
	})
}

// The records that an attacker forges.
type (
	forgedHead struct {
		Block uint64    `cbor:"b"`
		Event uint64    `cbor:"e"`
		Hash  []byte    `cbor:"h"`
		CutAt time.Time `cbor:"ca"`
	}
	lastBlock struct {
		Last uint64 `cbor:"l"`
		Hash []byte `cbor:"h"`
	}
)

var (
	heads   = storage.NewTable[forgedHead]("event_chain")
	lasts   = storage.NewTable[lastBlock]("event_block")
	numbers = storage.NewTable[uint64]("event_next")
)

// TestEventsOfADeadNodeCannotBeCutOff: attack: a node was killed and never comes back. Someone removes its last events,
// or all of them, with blocks, head and numbering, so its chain alone looks whole. The chain of another node names what
// is missing.
func TestEventsOfADeadNodeCannotBeCutOff(t *testing.T) {
	t.Parallel()
	for name, from := range map[string]int{
		"attack 492: the last events of a node that is gone are cut off": 3,
		"attack 492: all events of a node that is gone are cut off":      1,
	} {
		t.Run(name, func(t *testing.T) {
			onBoth(t, func(h *nodes) {
				h.filled()
				h.cut(2, from)
				wrong, _ := h.verify()
				if len(wrong) != 1 || !strings.Contains(wrong[chainNames[2]], "blocks were removed from the end: block") ||
					!strings.Contains(wrong[chainNames[2]], "names block 3") {
					h.Errorf("Verify finds %q, want that of %s something was removed", wrong, chainNames[2])
				}
			})
		})
	}
}

// TestTheOnlyBusyNodeIsNamed: attack: one node alone has events, and then is gone. What it wrote last is named in the
// chain of another one, which had nothing to seal itself, within a second.
func TestTheOnlyBusyNodeIsNamed(t *testing.T) {
	t.Parallel()
	t.Run("attack 492: the last events of the only busy node are cut off", onlyBusyNode)
}

func onlyBusyNode(t *testing.T) {
	onBoth(t, func(h *nodes) {
		h.add(0, "ann")
		h.seal()
		for range 3 {
			h.add(1, "ann")
			h.add(1, "ann")
			h.add(1, "ann")
			h.seal()
		}
		_, before := h.verify()
		for range 5 { // what only names others is no reason for them to name it
			h.seal()
		}
		if wrong, after := h.verify(); len(wrong) > 0 || after[0].Blocks != before[0].Blocks || after[1].Blocks != before[1].Blocks {
			h.Errorf("idle nodes have made blocks: %+v, before %+v, wrong %v", after, before, wrong)
		}
		h.cut(1, 3)
		if wrong, _ := h.verify(); len(wrong) != 1 || !strings.Contains(wrong[chainNames[1]], "names block 3") {
			h.Errorf("Verify finds %q, want that the last block of %s is missing", wrong, chainNames[1])
		}
	})
}

// TestACheckpointCannotBeTakenOut: attack: before the end of one node's chain is cut off, the blocks of the others that
// name it are removed, or made not to name it.
func TestACheckpointCannotBeTakenOut(t *testing.T) {
	t.Parallel()
	for name, attack := range map[string]func(tx storage.Tx, r storage.Record) error{
		"attack 493: checkpoints are removed": func(tx storage.Tx, r storage.Record) error { return tx.Delete(r.Key) },
		"attack 493: checkpoints are changed": func(tx storage.Tx, r storage.Record) error {
			r.Value = []byte(strings.Replace(string(r.Value), "kept/2", "kept/3", 1))
			return put(tx, r)
		},
	} {
		t.Run(name, func(t *testing.T) {
			onBoth(t, func(h *nodes) {
				h.filled()
				h.cut(2, 3)
				h.update(func(tx storage.Tx) error {
					for node := range 2 {
						for _, r := range h.records(tx, "event_block", node) {
							if strings.Contains(string(r.Value), "kept/2") {
								if err := attack(tx, r); err != nil {
									return err
								}
							}
						}
					}
					return nil
				})
				found := name[strings.LastIndexByte(name, ' ')+1:]
				if wrong, _ := h.verify(); !strings.Contains(wrong[chainNames[0]], found) || !strings.Contains(wrong[chainNames[1]], found) {
					h.Errorf("Verify finds %q, want that blocks of both others were %s", wrong, found)
				}
			})
		})
	}
}

// TestARebuiltChainIsNotTheOneThatOthersName: attack: an event of one node is removed and its chain is built again from
// there, sealed by our own program.
func TestARebuiltChainIsNotTheOneThatOthersName(t *testing.T) {
	t.Parallel()
	t.Run("attack 494: the chain of a node is built anew without an event", rebuiltChain)
}

func rebuiltChain(t *testing.T) {
	onBoth(t, func(h *nodes) {
		h.filled()
		var kept [][]byte
		h.view(func(tx storage.Tx) error {
			kept = nil
			for _, r := range h.records(tx, "event_log", 1) {
				kept = append(kept, r.Value)
			}
			return nil
		})
		h.cut(1, 2)
		h.update(func(tx storage.Tx) error {
			list, err := numbers.Get(tx, strings.TrimPrefix(keyOf("event_next", 1), "event_next/"))
			if err != nil {
				return err
			}
			for _, value := range slices.Delete(kept, 0, 4) { // the fourth is left out
				key := []byte(keyOf("event_log", 1))
				for shift := 56; shift >= 0; shift -= 8 {
					key = append(key, byte(list>>shift)) //nolint:gosec // one byte
				}
				if err := tx.Put(key, value, time.Time{}); err != nil {
					return err
				}
				list++
			}
			return numbers.Put(tx, strings.TrimPrefix(keyOf("event_next", 1), "event_next/"), list, time.Time{})
		})
		h.seal()
		if wrong, _ := h.verify(); !strings.Contains(wrong[chainNames[1]], ", through event 6, is not the one that block") {
			h.Errorf("Verify finds %q, want that the blocks of %s are others than before", wrong, chainNames[1])
		}
	})
}

// TestEventsBeforeThereWereSeveralChains: an older node still writes next to a new one, so both number in one chain and
// name no other. From the moment on when none is left, each has its own, and the old one is its beginning.
func TestEventsBeforeThereWereSeveralChains(t *testing.T) {
	onBoth(t, func(h *nodes) {
		several, lane := false, 0
		h.keep.Links = func() bool { return several }
		h.rec[1].Lane = func() int { return lane }
		for range 3 {
			h.add(0, "ann")
			h.add(1, "ann")
			e, err := h.rec[0].New(issued, audit.Self)
			h.must(err)
			h.update(func(tx storage.Tx) error { return h.rec[0].Append(tx, e) })
			h.seal()
		}
		h.view(func(tx storage.Tx) error {
			for rec, err := range tx.Scan(storage.Range{Prefix: []byte("event_block/")}) {
				if err != nil || strings.Contains(string(rec.Value), "brief") || strings.Contains(string(rec.Value), "kept") {
					h.Errorf("a block names another chain, which older nodes do not know: %v", err)
				}
			}
			return nil
		})
		several, lane = true, 1
		h.add(0, "ann")
		h.add(1, "ann")
		h.seal()
		h.seal()
		wrong, list := h.verify()
		var got []string
		for _, v := range list {
			got = append(got, fmt.Sprintf("%s %d", v.Chain, v.Events))
		}
		if want := []string{"default/tokens 3", "default 7", "default/node2 1"}; len(wrong) > 0 || !slices.Equal(got, want) {
			h.Errorf("chains %v, wrong %v, want %v", got, wrong, want)
		}
	})
}

// TestChainsInAnotherStorage: what three nodes have written is copied from PostgreSQL into a directory and back. All
// chains are sound there, go on, and an end that is cut off there is still missed.
func TestChainsInAnotherStorage(t *testing.T) {
	t.Parallel()
	h := newNodes(t, database(t, newSchema()))
	h.filled()
	dir, err := badgerstore.OpenMemory()
	h.must(err)
	t.Cleanup(func() { _ = dir.Close() })
	for _, to := range []storage.Store{dir, database(t, newSchema())} {
		_, err := (&transfer.Copy{Name: "the storage before", From: transfer.FromStore(h.store), To: to}).Run(t.Context())
		h.must(err)
		h.store, h.keep = to, audit.NewKeeper(to, func() time.Time { return h.time }, zap.NewNop())
		h.add(0, "ann")
		h.seal()
		h.seal()
		if wrong, list := h.verify(); len(wrong) > 0 || len(list) != 3 {
			t.Errorf("Verify = %q in %d chains, want 3 sound ones", wrong, len(list))
		}
	}
	h.cut(2, 3)
	if wrong, _ := h.verify(); !strings.Contains(wrong[chainNames[2]], "names block 3, through event 9") {
		t.Errorf("Verify finds %q, want that of %s something was removed", wrong, chainNames[2])
	}
}

// TestTwoNodesInOneChain: two nodes that number in one chain for a moment, such as one that was paused and one that
// took its place, lose nothing and skip no number.
func TestTwoNodesInOneChain(t *testing.T) {
	t.Parallel()
	schema := newSchema()
	h := newNodes(t, database(t, schema))
	other := database(t, schema)
	var all sync.WaitGroup
	var stored atomic.Int64
	for node, s := range map[int]storage.Store{1: h.store, 2: other} {
		rec := &audit.Recorder{Random: rand.Reader, Now: time.Now, Lane: func() int { return 1 }}
		for range 4 {
			all.Go(func() {
				for range 10 {
					e, err := rec.New(created, audit.Self)
					if err == nil {
						e.PersonID = fmt.Sprint("of ", node)
						err = s.Update(context.Background(), func(tx storage.Tx) error { return rec.Append(tx, e) })
					}
					if err == nil {
						stored.Add(1)
					} else if !errors.Is(err, storage.ErrUnavailable) { // in conflict each time
						t.Errorf("Append = %v", err)
					}
				}
			})
		}
	}
	all.Wait()
	h.seal()
	wrong, list := h.verify()
	if len(wrong) > 0 || len(list) != 1 || int64(list[0].Events) < stored.Load() || list[0].Sealed != list[0].Events { //nolint:gosec // small
		t.Errorf("Verify = %+v, want at least %d events without a gap", list, stored.Load())
	}
}
