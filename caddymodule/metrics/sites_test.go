package metrics

import (
	"crypto/rand"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/stats"
	"github.com/gatehouse-id/gatehouse/storage"
	"github.com/gatehouse-id/gatehouse/storage/badgerstore"
)

// TestSitesAreCountedForTheConsole: what a site lets pass, refuses and sends to a stronger sign-in is in the statistics
// too, each request once.
func TestSitesAreCountedForTheConsole(t *testing.T) {
	t.Parallel()
	store, err := badgerstore.OpenMemory()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	m := New(store, audit.NewKeeper(store, nil, zap.NewNop()))
	m.Sites = stats.NewBuffer(store, nil, rand.Reader, zap.NewNop())
	const site = "wiki.example.com"
	passes := m.SitePasses(site)
	for range 3 {
		passes.Inc()
	}
	m.CountSite(site, "refused", "group_missing")
	m.CountSite(site, "refused", "level_too_low") // a program cannot be sent to a sign-in
	m.CountSite(site, "sign_in", "level_too_low")
	m.CountSite(site, "sign_in", "sign_in_too_old")
	m.CountSite(site, "sign_in", "sign_in_too_old")
	m.CountSite(site, "sign_in", "no_credentials")
	m.CountShadow(site, "soon", "allow", "deny")
	m.CountShadow(site, "soon", "allow", "step-up")
	m.CountShadow(site, "", "deny", "allow")
	m.CountShadow(site, "", "allow", "allow")
	m.Sites.Flush(t.Context())
	if err := stats.New(store, nil, zap.NewNop()).Count(t.Context()); err != nil {
		t.Fatal(err)
	}
	want, got := map[string]int64{
		stats.Admissions: 3, stats.Denials: 2, stats.StepUps: 3, stats.Tried: 4, stats.TriedRefusals: 2,
		stats.TriedEntries: 1,
	}, map[string]int64{}
	err = store.View(t.Context(), func(tx storage.Tx) error {
		clear(got)
		now := time.Now()
		for measure := range want {
			a, err := stats.Read(tx, stats.Query{
				Measure: measure, By: stats.Site, Unit: stats.Day, Since: now.Add(-24 * time.Hour),
				Until: now.Add(time.Hour),
			})
			if err != nil {
				return err
			}
			for _, s := range a.Series {
				if s.Name == site {
					got[measure] = s.Total
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for measure, n := range want {
		if got[measure] != n {
			t.Errorf("%s of %s = %d, want %d", measure, site, got[measure], n)
		}
	}
}
