package console

import (
	"sync"
	"time"

	"github.com/gatehouse-id/gatehouse/admin/console/layout"
	"github.com/gatehouse-id/gatehouse/admin/console/providers"
	"github.com/gatehouse-id/gatehouse/identity/access"
	"github.com/gatehouse-id/gatehouse/storage"
)

const (
	// keepWaiting is the life of the counts in the navigation, unless something was done meanwhile.
	keepWaiting = 15 * time.Second
	// mostWaits is more than a badge shows.
	mostWaits = 100
)

// waiting keeps the last counts of the matters that wait for administrators.
type waiting struct {
	mu     sync.Mutex // guards what follows
	at     time.Time
	counts map[string]int
}

// forget has it counted again.
func (w *waiting) forget() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.counts = nil
}

// recall returns what was counted lately, or nil.
func (w *waiting) recall(now time.Time) map[string]int {
	w.mu.Lock()
	defer w.mu.Unlock()
	if now.Sub(w.at) >= keepWaiting || now.Before(w.at) {
		return nil
	}
	return w.counts
}

func (w *waiting) keep(now time.Time, counts map[string]int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.at, w.counts = now, counts
}

// waitingNow returns how many messages have failed, requests are open, certificates expire soon, and what the
// configuration lacks, by the screens that show them.
func (c *Console) waitingNow(v *layout.Visit) (map[string]int, error) {
	if counts := c.waiting.recall(v.Now); counts != nil {
		return counts, nil
	}
	open, err := c.Gateway.Access.List(v.Context(), access.Filter{State: access.Open, Limit: mostWaits})
	if err != nil {
		return nil, err
	}
	counts := map[string]int{"requests": len(open)}
	err = c.Store.View(v.Context(), func(tx storage.Tx) (err error) {
		counts["queue"], err = c.failedMessages(tx, v)
		return err
	})
	if err != nil {
		return nil, err
	}
	// What the machine cannot tell is told by the overview, and keeps no other page back.
	if m, err := c.Machine(v.Context()); err == nil {
		counts["keys"] = providers.Soon(v.Context(), v.Now, m.Certificates, c.Setup)
	}
	if found, err := c.Findings(v.Context()); err == nil {
		counts["overview"] = len(found)
	}
	c.waiting.keep(v.Now, counts)
	return counts, nil
}
