package audit_test

import (
	"testing"

	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/storage"
	"github.com/gatehouse-id/gatehouse/storage/storagetest"
)

// TestVerifyNamesEachChainOnce: a chain is verified once, even when the engine reads its name a second time.
func TestVerifyNamesEachChainOnce(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.add(created, "p1", "admin")
	list, err := audit.Verify(t.Context(), storagetest.Twice(h.store), nil)
	if err != nil || len(list) != 1 {
		t.Errorf("Verify names %d chains, %v, want 1", len(list), err)
	}
}

// TestVerifyLooksAtEachBlockOnce: what is found does not depend on how often the engine reads it. On PostgreSQL a view
// is run again when a block is added meanwhile.
func TestVerifyLooksAtEachBlockOnce(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	for range 200 {
		h.add(created, "p1", "admin")
		h.must(h.keep.Seal(t.Context()))
	}
	h.must(h.store.Update(t.Context(), func(tx storage.Tx) error {
		for rec, err := range tx.Scan(storage.Range{Prefix: []byte("event_log/"), Limit: 1}) {
			if err != nil {
				return err
			}
			return tx.Delete(rec.Key)
		}
		return nil
	}))
	list, err := audit.Verify(t.Context(), storagetest.Twice(h.store), nil)
	if err != nil || list[0].Blocks != 200 || list[0].Events != 199 || len(list[0].Problems) != 1 {
		t.Errorf("Verify = %d blocks, %d events, %q, %v, want one problem in 200 blocks", list[0].Blocks, list[0].Events, list[0].Problems, err)
	}
}
