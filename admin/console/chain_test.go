package console

import (
	"net/http"
	"strings"
	"testing"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/storage"
)

// TestChainScreen: an operator has the seals of the events checked, and the page says how far, when and by which
// server, and what is wrong.
func TestChainScreen(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	b, me := h.as("operator@example.com"), h.personID("operator@example.com")
	if body := b.get("/admin/events").Body.String(); !strings.Contains(body, `href="/admin/events/chain"`) {
		t.Errorf("the events do not lead to their seals\n%s", body)
	}
	shows := func(what string, want ...string) {
		t.Helper()
		a := b.get("/admin/events/chain")
		for _, w := range want {
			if !strings.Contains(a.form(), w) {
				t.Errorf("%s: the page lacks %q\n%s", what, w, a.form())
			}
		}
	}
	shows("before", "hasn’t been checked")
	keeper := audit.NewKeeper(h.store, h.clock.Now, zap.NewNop())
	h.must(keeper.Seal(t.Context()))
	h.actHasEvent(b, me, "/admin/events/chain/check-chain", "console.EventChainCheckedEvent")
	if a := b.do(http.MethodGet, "/admin/events/chain", ""); a.Header().Get("Refresh") == "" {
		t.Error("while it waits, the page does not load itself again")
	}
	n := len(h.allEvents(t.Context()))
	b.acts("/admin/events/chain/check-chain")
	if after := len(h.allEvents(t.Context())); after != n {
		t.Errorf("asking again has %d events, want none", after-n)
	}
	h.must(h.console.Manage.WorkOffChecks(t.Context(), "node-1"))
	shows("after a check", "Unchanged", "node-1", "21 November 2035", "operator@example.com", "default")
	// Someone takes the newest sealed event away.
	h.must(h.store.Update(t.Context(), func(tx storage.Tx) error {
		var last []byte
		for rec, err := range tx.Scan(storage.Range{Prefix: []byte("event_log/")}) {
			if err != nil {
				return err
			}
			if last == nil {
				last = rec.Key
			}
		}
		return tx.Delete(last)
	}))
	b.acts("/admin/events/chain/check-chain")
	h.must(h.console.Manage.WorkOffChecks(t.Context(), "node-2"))
	shows("after a change", "Changed", "node-2", "default: ")
	if a := h.as("viewer@example.com").do(http.MethodGet, "/admin/events/chain/check-chain", ""); a.Code != http.StatusForbidden {
		t.Errorf("a viewer: %d", a.Code)
	}
}
