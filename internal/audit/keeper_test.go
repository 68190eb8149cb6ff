package audit_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/storage"
)

// verify returns the result of Verify for a chain.
func (h *harness) verify(chain string) audit.Verified {
	h.Helper()
	list, err := audit.Verify(context.Background(), h.store, nil)
	h.must(err)
	for _, v := range list {
		if v.Chain == chain {
			return v
		}
	}
	h.Fatalf("there is no chain %s among %v", chain, list)
	return audit.Verified{}
}

func TestSeal(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	var told []string
	h.keep.Use(audit.Settings{Tell: func(e audit.Event) { told = append(told, e.ID) }})
	first, second := h.add(created, "p1", "a"), h.add(created, "p2", "a")
	h.add(issued, "", "shop")
	if v := h.verify("default"); v.Unsealed != 2 || v.Blocks != 0 || v.Problems != nil {
		t.Errorf("Verify before sealing = %+v, want 2 events unsealed", v)
	}
	h.must(h.keep.Seal(t.Context()))
	third := h.add(created, "p1", "a")
	h.must(h.keep.Seal(t.Context()))
	h.must(h.keep.Seal(t.Context())) // nothing to do
	h.add(created, "p1", "a")
	v := h.verify("default")
	if v.Blocks != 2 || v.Events != 3 || v.Sealed != 3 || v.Unsealed != 1 || v.Problems != nil || !v.SealedAt.Equal(h.time.Add(-time.Second)) {
		t.Errorf("Verify = %+v, want 3 events in 2 blocks and 1 unsealed", v)
	}
	if v := h.verify("default/tokens"); v.Blocks != 1 || v.Events != 1 || v.Problems != nil {
		t.Errorf("Verify of the tokens = %+v, want 1 event in 1 block", v)
	}
	if got, want := h.keep.Stats(), (audit.Stats{Sealed: 4}); got != want {
		t.Errorf("Stats = %+v, want %+v", got, want)
	}
	if want := []string{first.ID, second.ID, third.ID}; !slices.Equal(told, want) {
		t.Errorf("Tell was called with %v, want each event that is not brief once, in order: %v", told, want)
	}
}

func TestSealManyAtOnce(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	const many = 5000
	h.must(h.store.Update(t.Context(), func(tx storage.Tx) error {
		for range 1500 {
			e, err := h.rec.New(issued, audit.Self)
			h.must(err)
			h.must(h.rec.Append(tx, e))
		}
		return nil
	}))
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			for range (many - 1500) / 20 {
				e, err := h.rec.New(issued, audit.Self)
				if err == nil {
					err = h.store.Update(context.Background(), func(tx storage.Tx) error { return h.rec.Append(tx, e) })
				}
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	// Two keepers at once, as during a reload: each event is sealed once, and no event is left out.
	other := audit.NewKeeper(h.store, h.now, zap.NewNop())
	for _, k := range []*audit.Keeper{h.keep, other} {
		wg.Go(func() {
			for range 20 {
				if err := k.Seal(context.Background()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	h.must(h.keep.Seal(t.Context()))
	if v := h.verify("default/tokens"); v.Events != many || v.Unsealed != 0 || v.Problems != nil {
		t.Errorf("Verify = %+v, want %d events sealed", v, many)
	}
}

// TestVerifyFinds changes the stored records directly, as an attacker with access to the disk could.
func TestVerifyFinds(t *testing.T) {
	t.Parallel()
	type change = func(t *testing.T, tx storage.Tx, records map[string][]storage.Record) error
	put := func(tx storage.Tx, r storage.Record) error { return tx.Put(r.Key, r.Value, time.Time{}) }
	replace := func(r storage.Record, old, new string) storage.Record { //nolint:revive // the usual words
		out := strings.Replace(string(r.Value), old, new, 1)
		if out == string(r.Value) {
			panic("the record does not say " + old)
		}
		r.Value = []byte(out)
		return r
	}
	for _, tt := range []struct {
		name string
		fn   change
		want string
	}{
		{"a changed event", func(_ *testing.T, tx storage.Tx, r map[string][]storage.Record) error {
			return put(tx, replace(r["event_log"][4], "192.0.2.1", "192.0.2.2"))
		}, "an event of block 2 (events 4 to 6"},
		{"a removed event", func(_ *testing.T, tx storage.Tx, r map[string][]storage.Record) error {
			return tx.Delete(r["event_log"][4].Key)
		}, "block 2 (events 4 to 6, sealed 2026-01-02T03:04:11Z) has lost 1 of 3 events"},
		{"two events exchanged", func(_ *testing.T, tx storage.Tx, r map[string][]storage.Record) error {
			a, b := r["event_log"][3], r["event_log"][4]
			a.Value, b.Value = b.Value, a.Value
			if err := put(tx, a); err != nil {
				return err
			}
			return put(tx, b)
		}, "an event of block 2"},
		{"an event that takes another's number", func(_ *testing.T, tx storage.Tx, r map[string][]storage.Record) error {
			r["event_log"][5].Value = r["event_log"][0].Value
			return put(tx, r["event_log"][5])
		}, "an event of block 2"},
		{"an event before the first", func(_ *testing.T, tx storage.Tx, r map[string][]storage.Record) error {
			e := r["event_log"][0]
			e.Key = append(append([]byte(nil), e.Key[:len(e.Key)-8]...), 0, 0, 0, 0, 0, 0, 0, 0)
			return put(tx, e)
		}, "event 0 was inserted"},
		{"an event far behind", func(_ *testing.T, tx storage.Tx, r map[string][]storage.Record) error {
			e := r["event_log"][0]
			e.Key = append(append([]byte(nil), e.Key[:len(e.Key)-8]...), 1, 0, 0, 0, 0, 0, 0, 0)
			return put(tx, e)
		}, "was inserted: the next one would be number 11"},
		{"a lost event that was not sealed yet", func(_ *testing.T, tx storage.Tx, r map[string][]storage.Record) error {
			return tx.Delete(r["event_log"][9].Key)
		}, "1 events behind the last block are missing"},
		{"a removed block", func(_ *testing.T, tx storage.Tx, r map[string][]storage.Record) error {
			return tx.Delete(r["event_block"][1].Key)
		}, "block 2 was removed"},
		{"a changed block", func(_ *testing.T, tx storage.Tx, r map[string][]storage.Record) error {
			return put(tx, replace(r["event_block"][0], string(r["event_block"][0].Value[len(r["event_block"][0].Value)-3:]), "\x00\x00\x00"))
		}, "block 1 (events 1 to 3, sealed 2026-01-02T03:04:08Z) was changed itself"},
		{"the last block removed with its events", func(_ *testing.T, tx storage.Tx, r map[string][]storage.Record) error {
			for _, e := range r["event_log"][6:9] {
				if err := tx.Delete(e.Key); err != nil {
					return err
				}
			}
			return tx.Delete(r["event_block"][2].Key)
		}, "block 3 was removed"},
		{"a block put into another's place", func(_ *testing.T, tx storage.Tx, r map[string][]storage.Record) error {
			r["event_block"][1].Value = r["event_block"][0].Value
			return put(tx, r["event_block"][1])
		}, "block 2 (events 1 to 3, sealed 2026-01-02T03:04:08Z) was changed itself"},
		{"the head removed", func(_ *testing.T, tx storage.Tx, r map[string][]storage.Record) error {
			return tx.Delete(r["event_chain"][0].Key)
		}, "block 1 stands behind the head of the chain"},
		{"the numbering removed", func(_ *testing.T, tx storage.Tx, r map[string][]storage.Record) error {
			return tx.Delete(r["event_next"][0].Key)
		}, "the number of the next event was removed"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			h := newHarness(t)
			for range 3 {
				for range 3 {
					h.add(created, "p", "a")
				}
				h.must(h.keep.Seal(t.Context()))
			}
			h.add(created, "p", "a")
			if v := h.verify("default"); v.Blocks != 3 || v.Problems != nil {
				t.Fatalf("Verify = %+v, want 3 sound blocks", v)
			}
			h.must(h.store.Update(t.Context(), func(tx storage.Tx) error {
				all := map[string][]storage.Record{}
				for rec, err := range tx.Scan(storage.Range{}) {
					if err != nil {
						return err
					}
					table, _, _ := strings.Cut(string(rec.Key), "/")
					all[table] = append(all[table], rec)
				}
				return tt.fn(t, tx, all)
			}))
			v := h.verify("default")
			if !strings.Contains(strings.Join(v.Problems, "\n"), tt.want) {
				t.Errorf("Verify finds %q, want %q", v.Problems, tt.want)
			}
		})
	}
}

// TestSealKeepsTimesExactly: storage keeps fractions of seconds, and a hashed time must read back the same.
func TestSealKeepsTimesExactly(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	for i := range 500 {
		h.time = h.time.Add(time.Duration(i) * 1_234_567 * time.Nanosecond)
		h.add(created, "p", "a")
		h.must(h.keep.Seal(t.Context()))
	}
	if v := h.verify("default"); v.Blocks != 500 || v.Problems != nil {
		t.Errorf("Verify = %d blocks, %q, want 500 sound ones", v.Blocks, v.Problems)
	}
}

// TestAnchors: a head that was written down elsewhere reveals a chain that was rebuilt from scratch.
func TestAnchors(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	var heads []string
	for range 4 {
		h.add(created, "p", "a")
		h.must(h.keep.Seal(t.Context()))
		heads = append(heads, h.verify("default").Head)
	}
	h.keep.Use(audit.Settings{Retention: audit.Retention{Kept: 3 * time.Second}})
	if n, err := h.keep.Collect(t.Context()); n != 2 || err != nil {
		t.Fatalf("Collect = %d, %v, want 2", n, err)
	}
	_, lastHash, _ := strings.Cut(heads[3], ":")
	for _, tt := range []struct{ name, anchor, want string }{
		{"the last", "default@" + heads[3], ""},
		{"one before", "default@" + heads[2], ""},
		{"the checkpoint", "default@" + heads[1], ""},
		{"one that was collected", "default@" + heads[0], ""},
		{"another hash", "default@3:" + lastHash, "block 3 is not the one of the anchor"},
		{"another hash of the checkpoint", "default@2:" + lastHash, "block 2 is not the one of the anchor"},
		{"a block that is not there", "default@5:" + lastHash, "the chain ends with block 4, before that of the anchor, 5"},
		{"a chain that is not there", "west@1:" + lastHash, "there is no such chain"},
	} {
		a, err := audit.ParseAnchor(tt.anchor)
		h.must(err)
		list, err := audit.Verify(t.Context(), h.store, nil, a)
		h.must(err)
		var got []string
		for _, v := range list {
			got = append(got, v.Problems...)
		}
		if text := strings.Join(got, "; "); (tt.want == "") != (text == "") || !strings.Contains(text, tt.want) {
			t.Errorf("Verify with %s = %q, want %q", tt.name, text, tt.want)
		}
	}
	for _, s := range []string{"", "default", "default@1", "default@0:" + lastHash, "default@x:" + lastHash, "default@1:abc"} {
		if _, err := audit.ParseAnchor(s); err == nil {
			t.Errorf("ParseAnchor(%q) succeeded", s)
		}
	}
}

func TestSealNeverOverwrites(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.add(created, "p", "a")
	h.must(h.keep.Seal(t.Context()))
	h.must(h.store.Update(t.Context(), func(tx storage.Tx) error {
		for rec, err := range tx.Scan(storage.Range{Prefix: []byte("event_chain/")}) {
			if err != nil {
				return err
			}
			return tx.Delete(rec.Key)
		}
		return nil
	}))
	if err := h.keep.Seal(t.Context()); err == nil {
		t.Error("Seal over blocks that are there succeeded, want an error")
	}
}

func TestCollect(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	const day = 24 * time.Hour
	add := func(days int) {
		h.add(created, "p", "a")
		h.add(created, "p", "b")
		h.add(issued, "", "shop")
		h.must(h.keep.Seal(t.Context()))
		h.time = h.time.Add(time.Duration(days) * day)
	}
	collect := func(want int) {
		t.Helper()
		if n, err := h.keep.Collect(t.Context()); n != want || err != nil {
			t.Errorf("Collect = %d, %v, want %d", n, err, want)
		}
	}
	for range 4 {
		add(10)
	}
	collect(0) // the default is forever
	if n := h.count(); n != 12 {
		t.Errorf("%d events, want all 12 forever", n)
	}
	h.keep.Use(audit.Settings{Retention: audit.Retention{Kept: 35 * day, Brief: 15 * day}})
	collect(2 + 3) // the events of day 0, the tokens of days 0, 10, 20
	if got, want := h.keep.Stats(), (audit.Stats{Sealed: 12, Collected: 5, Behind: 3}); got != want {
		t.Errorf("Stats = %+v, want %+v", got, want)
	}
	page, total := h.find(audit.Query{Person: "p", Limit: 100})
	if total != 6 || len(page) != 6 {
		t.Errorf("Find = %d events, total %d, want the 6 that are left", len(page), total)
	}
	page, total = h.find(audit.Query{Person: "p", Limit: 100, Offset: 4})
	if total != 6 || len(page) != 2 {
		t.Errorf("Find from 4 = %d events, total %d, want the last 2 of 6", len(page), total)
	}
	if v := h.verify("default"); v.Blocks != 3 || v.From != 3 || v.Events != 6 || v.Problems != nil || !v.CutAt.Equal(h.time) {
		t.Errorf("Verify behind the checkpoint = %+v, want 3 sound blocks from event 3", v)
	}
	if v := h.verify("default/tokens"); v.Blocks != 1 || v.Problems != nil {
		t.Errorf("Verify of the tokens = %+v, want 1 sound block", v)
	}
	add(0)
	collect(0)
	h.time = h.time.Add(400 * day)
	collect(2*4 + 2)
	if _, total := h.find(audit.Query{Actor: "b", Limit: 1}); total != 0 || h.count() != 0 {
		t.Errorf("total %d, %d events, want none", total, h.count())
	}
	add(0)
	if v := h.verify("default"); v.Blocks != 1 || v.Events != 2 || v.Problems != nil {
		t.Errorf("Verify of a chain that continues = %+v, want 1 block of 2 events", v)
	}
	if page, total := h.find(audit.Query{Person: "p", Actor: "b", Limit: 10}); total != 1 || len(page) != 1 {
		t.Errorf("Find = %d events, total %d, want 1", len(page), total)
	}
}

func TestBriefRetentionIsThatOfAllByDefault(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.add(issued, "", "shop")
	h.must(h.keep.Seal(t.Context()))
	h.keep.Use(audit.Settings{Retention: audit.Retention{Kept: time.Hour}})
	h.time = h.time.Add(time.Hour)
	if n, err := h.keep.Collect(t.Context()); n != 1 || err != nil {
		t.Errorf("Collect = %d, %v, want 1", n, err)
	}
}

// TestSettingsOfAConfigurationThatCameToNothing: after a failed configuration the earlier settings apply again.
func TestSettingsOfAConfigurationThatCameToNothing(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	told := map[string]int{}
	use := func(name string, keep time.Duration) (release func()) {
		return h.keep.Use(audit.Settings{Retention: audit.Retention{Kept: keep}, Tell: func(audit.Event) { told[name]++ }})
	}
	first := use("first", time.Hour)
	second := use("second", time.Minute)
	add := func() {
		h.add(created, "p", "a")
		h.must(h.keep.Seal(t.Context()))
	}
	add()
	second()
	add()
	h.time = h.time.Add(30 * time.Minute)
	if n, err := h.keep.Collect(t.Context()); n != 0 || err != nil {
		t.Errorf("Collect = %d, %v, want nothing under the first settings", n, err)
	}
	third := use("third", time.Hour)
	first()
	add()
	third()
	add()
	if told["first"] != 1 || told["second"] != 1 || told["third"] != 1 {
		t.Errorf("Tell was called with %v, want each event once", told)
	}
}

// TestCollectLeavesPagesWhole: an actor's events in several partitions are collected at different times, and each page
// still agrees with its total.
func TestCollectLeavesPagesWhole(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	for i := range 40 {
		h.add(created, "p", "admin", in([]string{"default", "west"}[i%2]))
		if i%7 == 0 {
			h.must(h.keep.Seal(t.Context()))
		}
	}
	h.must(h.keep.Seal(t.Context()))
	h.keep.Use(audit.Settings{Retention: audit.Retention{Kept: time.Minute}})
	for left := 40; left > 0; {
		h.time = h.time.Add(2 * time.Second)
		n, err := h.keep.Collect(t.Context())
		h.must(err)
		left -= n
		var got []string
		for offset := 0; ; offset += 3 {
			page, total := h.find(audit.Query{Actor: "admin", Limit: 3, Offset: offset})
			if total != left || h.count() != left {
				t.Fatalf("total %d, %d events, want %d", total, h.count(), left)
			}
			if len(page) != max(0, min(3, left-offset)) {
				t.Fatalf("page at %d of %d has %d events", offset, left, len(page))
			}
			if got = append(got, page...); len(page) == 0 {
				break
			}
		}
		if sorted := slices.Clone(got); len(slices.Compact(sorted)) != left {
			t.Fatalf("pages repeat events: %v", got)
		}
	}
	for _, chain := range []string{"default", "west"} {
		if v := h.verify(chain); v.Problems != nil || v.Blocks != 0 {
			t.Errorf("Verify(%s) = %+v, want an empty sound chain", chain, v)
		}
	}
}

// failing is a store whose views fail.
type failing struct{ storage.Store }

func (failing) View(context.Context, func(storage.Tx) error) error { return storage.ErrUnavailable }

func TestRunSealsAtTheEndAndLogsOnce(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.add(created, "p", "a")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	h.keep.Run(ctx)
	if v := h.verify("default"); v.Unsealed != 0 || v.Blocks != 1 {
		t.Errorf("Verify after Run = %+v, want everything sealed", v)
	}
	core, logs := observer.New(zap.InfoLevel)
	ctx, cancel = context.WithTimeout(t.Context(), 1800*time.Millisecond)
	defer cancel()
	audit.NewKeeper(failing{h.store}, h.now, zap.New(core)).Run(ctx)
	if n := logs.FilterMessage("events not sealed or collected; retrying").Len(); n != 1 {
		t.Errorf("%d log lines for one lasting error, want 1", n)
	}
}
