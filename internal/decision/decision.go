// Package decision keeps for a week what sites have decided about requests, so that an operator can see whom other
// rules would have let in or refused. It keeps no token, cookie, query or body. Who decides, and by which rules, is not
// here.
package decision

import (
	"context"
	"fmt"
	"hash/maphash"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/internal/event"
	"github.com/gatehouse-id/gatehouse/storage"
)

// Bounds of what is kept. (docs/decisions.md#shadow-rules)
const (
	Kept      = 7 * 24 * time.Hour // how long a decision can be asked for
	slotCount = 16384              // decisions that are kept at once
	perSecond = 100                // decisions that are kept in one second
	maxWaits  = 10 * perSecond     // decisions that wait for storage
	maxSeen   = 16384              // decisions of this hour that are known to be kept
	writeWait = 500 * time.Millisecond
	maxText   = 512 // bytes of a text
	maxList   = 64  // groups or scopes
)

// Decision is what a site has decided about a request, and what its shadow rules would have.
type Decision struct {
	At         time.Time `cbor:"1,keyasint" json:"time"`
	Site       string    `cbor:"2,keyasint" json:"site"` // scheme and host
	Method     string    `cbor:"3,keyasint" json:"method"`
	Path       string    `cbor:"4,keyasint" json:"path"` // without the query
	IP         string    `cbor:"5,keyasint,omitempty" json:"ip,omitempty"`
	Live       string    `cbor:"6,keyasint" json:"live"` // verdict
	LiveRule   string    `cbor:"7,keyasint,omitempty" json:"live_rule,omitempty"`
	Shadow     string    `cbor:"8,keyasint" json:"shadow"`
	ShadowRule string    `cbor:"9,keyasint,omitempty" json:"shadow_rule,omitempty"`

	PersonID  string    `cbor:"10,keyasint,omitempty" json:"person_id,omitempty"`
	Username  string    `cbor:"11,keyasint,omitempty" json:"username,omitempty"`
	Partition string    `cbor:"12,keyasint,omitempty" json:"partition,omitempty"`
	ClientID  string    `cbor:"13,keyasint,omitempty" json:"client_id,omitempty"`
	Provider  string    `cbor:"14,keyasint,omitempty" json:"provider,omitempty"`
	Groups    []string  `cbor:"15,keyasint,omitempty" json:"groups,omitempty"`
	Scopes    []string  `cbor:"16,keyasint,omitempty" json:"scopes,omitempty"`
	Audience  []string  `cbor:"17,keyasint,omitempty" json:"audience,omitempty"`
	Level     int       `cbor:"18,keyasint,omitempty" json:"level,omitempty"`
	AuthTime  time.Time `cbor:"19,keyasint,omitzero" json:"auth_time,omitzero"`
	Browser   bool      `cbor:"20,keyasint,omitempty" json:"browser,omitempty"` // a session, not a token
	Navigates bool      `cbor:"21,keyasint,omitempty" json:"navigates,omitempty"`
}

// Recorder keeps decisions. Record never waits for storage, and a nil Recorder keeps nothing.
type Recorder struct {
	store storage.Store
	now   func() time.Time
	log   *zap.Logger
	seed  maphash.Seed
	lost  atomic.Int64

	mu     sync.Mutex // guards what follows
	waits  []Decision
	hour   int64
	seen   map[uint64]struct{} // of this hour
	second int64               // that taken is about
	taken  int

	writing sync.Mutex // held while a batch is written
}

// NewRecorder returns a recorder that writes while Run runs. now is the system's if it is nil.
func NewRecorder(store storage.Store, now func() time.Time, log *zap.Logger) *Recorder {
	if now == nil {
		now = time.Now
	}
	return &Recorder{store: store, now: now, log: log, seed: maphash.MakeSeed(), seen: map[uint64]struct{}{}}
}

// Record keeps a decision, unless the same caller has got the same one for the same path in this hour.
func (r *Recorder) Record(d *Decision) {
	if r == nil {
		return
	}
	now := r.now().UTC()
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.isNew(now, d.Site, d.Method, d.Path, d.PersonID, d.ClientID, d.Live, d.Shadow, d.ShadowRule) {
		return
	}
	if s := now.Unix(); s != r.second {
		r.second, r.taken = s, 0
	}
	if r.taken >= perSecond || len(r.waits) >= maxWaits {
		r.lost.Add(1)
		return
	}
	r.taken++
	kept := *d
	kept.At = now
	kept.trim()
	r.waits = append(r.waits, kept)
}

// Once tells whether it has not been asked about these words in this hour.
func (r *Recorder) Once(words ...string) bool {
	if r == nil {
		return false
	}
	now := r.now().UTC()
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.isNew(now, words...)
}

// isNew remembers words until the hour ends. Those that are too many are not new. mu is held.
func (r *Recorder) isNew(now time.Time, words ...string) bool {
	if hour := now.Unix() / 3600; hour != r.hour {
		r.hour = hour
		clear(r.seen)
	}
	var h maphash.Hash
	h.SetSeed(r.seed)
	for _, w := range words {
		h.WriteString(w) //nolint:errcheck // it never fails
		h.WriteByte(0)   //nolint:errcheck // nor does this
	}
	key := h.Sum64()
	if _, known := r.seen[key]; known || len(r.seen) >= maxSeen {
		return false
	}
	r.seen[key] = struct{}{}
	return true
}

func (d *Decision) trim() {
	for _, s := range []*string{&d.Site, &d.Method, &d.Path, &d.IP, &d.LiveRule, &d.ShadowRule, &d.Username, &d.ClientID, &d.Provider} {
		if *s = event.Clean(*s); len(*s) > maxText {
			*s = strings.ToValidUTF8((*s)[:maxText], "")
		}
	}
	for _, list := range []*[]string{&d.Groups, &d.Scopes, &d.Audience} {
		*list = (*list)[:min(len(*list), maxList):min(len(*list), maxList)]
	}
}

// Run writes what waits, until ctx ends, and what waits then.
func (r *Recorder) Run(ctx context.Context) {
	tick := time.NewTicker(writeWait)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
			defer cancel()
			r.flush(last)
			return
		case <-tick.C:
			r.flush(ctx)
		}
	}
}

// flush writes what waits, in one transaction. What cannot be written is lost.
func (r *Recorder) flush(ctx context.Context) {
	r.writing.Lock()
	defer r.writing.Unlock()
	r.mu.Lock()
	batch := r.waits
	r.waits = nil
	r.mu.Unlock()
	if len(batch) == 0 {
		return
	}
	err := r.store.Update(ctx, func(tx storage.Tx) error {
		next, _, err := nexts.Find(tx, "")
		if err != nil {
			return err
		}
		for _, d := range batch {
			if err := slots.Put(tx, fmt.Sprintf("%04x", next%slotCount), d, d.At.Add(Kept)); err != nil {
				return err
			}
			next++
		}
		return nexts.Put(tx, "", next, time.Time{})
	})
	if err != nil {
		r.lost.Add(int64(len(batch)))
		r.log.Warn("decisions of sites are not kept", zap.Int("decisions", len(batch)), zap.Error(err))
	}
}

// List returns the decisions that are kept and not older than since, and how many were lost since the start.
func (r *Recorder) List(ctx context.Context, since time.Time) (out []Decision, lost int64, err error) {
	r.flush(ctx)
	if oldest := r.now().Add(-Kept); since.Before(oldest) {
		since = oldest
	}
	err = r.store.View(ctx, func(tx storage.Tx) error {
		out = nil
		for e, err := range slots.Scan(tx, storage.Range{}) {
			if err != nil {
				return err
			}
			if !e.Value.At.Before(since) {
				out = append(out, e.Value)
			}
		}
		return nil
	})
	return out, r.lost.Load(), err
}
