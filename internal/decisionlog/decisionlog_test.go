package decisionlog_test

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/internal/decisionlog"
	"github.com/gatehouse-id/gatehouse/storage/badgerstore"
)

// Decisions are kept for a week, once an hour for the same caller and path, and not too many in a second.
func TestRecorder(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 23, 9, 0, 0, 0, time.UTC)
	store, err := badgerstore.OpenMemory(func(o *badgerstore.Options) { o.Now = func() time.Time { return now } })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	r := decisionlog.NewRecorder(store, func() time.Time { return now }, zap.NewNop())
	list := func() (out []decisionlog.Decision, lost int64) {
		t.Helper()
		out, lost, err := r.List(t.Context(), now.Add(-decisionlog.Kept))
		if err != nil {
			t.Fatal(err)
		}
		return out, lost
	}
	d := decisionlog.Decision{
		Site: "https://wiki.example.com", Method: "GET", Path: "/x", PersonID: "p1", Live: "allow",
		Shadow: "deny", Groups: make([]string, 100),
	}
	for range 3 {
		r.Record(&d, true)
	}
	if got, _ := list(); len(got) != 1 || !got[0].At.Equal(now) || got[0].Path != "/x" || len(got[0].Groups) != 64 {
		t.Fatalf("one decision three times: %+v, want it once, with as many groups as are kept", got)
	}
	now = now.Add(time.Hour)
	d.Path = "/" + strings.Repeat("é\n", 1000)
	r.Record(&d, true)
	if got, _ := list(); len(got) != 2 || len(got[1].Path) > 512 || strings.Contains(got[1].Path, "\n") {
		t.Fatalf("a long path: %d decisions", len(got))
	}
	for i := range 150 {
		d.Path = "/" + strconv.Itoa(i)
		r.Record(&d, true)
	}
	if got, lost := list(); len(got) != 101 || lost != 51 {
		t.Errorf("151 in a second: %d kept and %d lost, want 101 with that of the hour before, and 51", len(got), lost)
	}
	d.Path, d.Site = "/agrees", "https://shop.example.com"
	r.Record(&d, false)
	if got, err := r.Differing(t.Context(), []string{"https://wiki.example.com"}, 5); err != nil || len(got) != 5 || !got[0].At.Equal(now) {
		t.Errorf("the newest differences = %d, %v, want 5", len(got), err)
	}
	if got, err := r.Differing(t.Context(), []string{"https://shop.example.com"}, 5); err != nil || len(got) != 0 {
		t.Errorf("a decision that does not differ is among the differences: %v, %v", got, err)
	}
	if !r.Once("rule", "p1") || r.Once("rule", "p1") || !r.Once("rule", "p2") {
		t.Error("Once does not say once")
	}
	now = now.Add(decisionlog.Kept)
	if !r.Once("rule", "p1") {
		t.Error("Once does not say so again in another hour")
	}
	if got, _ := list(); len(got) != 100 {
		t.Errorf("after a week: %d, want those that are a week old to the second", len(got))
	}
	now = now.Add(time.Second)
	if got, _ := list(); len(got) != 0 {
		t.Errorf("after more than a week: %d, want none", len(got))
	}
	var none *decisionlog.Recorder
	if none.Record(&d, true); none.Once("x") {
		t.Error("a recorder that is not there keeps something")
	}
}
