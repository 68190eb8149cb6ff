package console

import (
	"crypto/rand"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/admin/console/sites"
	"github.com/gatehouse-id/gatehouse/internal/stats"
)

// TestNumbersOfManySites: of 150 sites, the one with the fewest requests shows its own numbers.
func TestNumbersOfManySites(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.sites = nil
	buffer := stats.NewBuffer(h.store, h.clock.Now, rand.Reader, zap.NewNop())
	for i := range 150 {
		name := fmt.Sprintf("s%03d.example.com", i)
		h.sites = append(h.sites, sites.Site{ID: name, Name: name, Gates: []sites.Gate{{Kind: "protect", Origins: []string{"https://" + name}}}})
		for range 48 - min(i, 149)/149*7 {
			buffer.Site(name).Denied()
		}
	}
	buffer.Flush(t.Context())
	h.clock.Advance(time.Minute)
	h.count()
	b := h.as("viewer@example.com")
	if a := b.get(sites.SitePath("s000.example.com")); !strings.Contains(a.form(), ">48<") {
		t.Errorf("the page of the first site does not show its 48 refusals:\n%s", a.form())
	}
	if a := b.get(sites.SitePath("s149.example.com")); !strings.Contains(a.form(), ">41<") {
		t.Errorf("the page of the last site does not show its 41 refusals:\n%s", a.form())
	}
}
