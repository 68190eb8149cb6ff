// Package decisionlog keeps the decisions of protected sites for a week, so an operator can see which callers other
// rules would have allowed or refused. It stores no token, cookie, query or body.
package decisionlog

import (
	"context"
	"hash/maphash"
	"slices"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/recentlog"
	"github.com/gatehouse-id/gatehouse/storage"
)

// Bounds of what is kept. (docs/decisions/operation.md#shadow-rules)
const (
	Kept      = 7 * 24 * time.Hour // how long a decision can be asked for
	slotCount = 16384              // decisions that are kept at once

	differingCount = 1024  // of them that differ, once more
	maxSeen        = 16384 // decisions of this hour that are known to be kept
	maxText        = 512   // bytes of a text
	maxList        = 64    // groups or scopes
)

// Decision is the decision of a site about a request, and that of its shadow rules.
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
	ring    *recentlog.Ring[Decision]
	differs *recentlog.Ring[Decision]
	now     func() time.Time
	seed    maphash.Seed

	mu   sync.Mutex // guards what follows
	hour int64
	seen map[uint64]struct{} // of this hour
}

// NewRecorder returns a recorder that writes while Run runs. now is the system's if it is nil.
func NewRecorder(store storage.Store, now func() time.Time, log *zap.Logger) *Recorder {
	if now == nil {
		now = time.Now
	}
	return &Recorder{
		ring:    recentlog.New(store, kept, log.With(zap.String("kind", "decisions of sites"))),
		differs: recentlog.New(store, differing, log.With(zap.String("kind", "differences of shadow rules"))),
		now:     now, seed: maphash.MakeSeed(), seen: map[uint64]struct{}{},
	}
}

// Record keeps a decision, unless the same caller has got the same one for the same path in this hour. differs reports
// whether the shadow rules would have let in what was refused, or the reverse.
func (r *Recorder) Record(d *Decision, differs bool) {
	if r == nil {
		return
	}
	if !r.Once(d.Site, d.Method, d.Path, d.PersonID, d.ClientID, d.Live, d.Shadow, d.ShadowRule) {
		return
	}
	kept := *d
	kept.At = r.now().UTC()
	kept.trim()
	if r.ring.Add(kept.At, kept); differs {
		r.differs.Add(kept.At, kept)
	}
}

// Once reports whether it has not been asked about these words in this hour. Those that are too many are not new.
func (r *Recorder) Once(words ...string) bool {
	if r == nil {
		return false
	}
	hour := r.now().Unix() / 3600
	r.mu.Lock()
	defer r.mu.Unlock()
	if hour != r.hour {
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
		if *s = audit.Clean(*s); len(*s) > maxText {
			*s = strings.ToValidUTF8((*s)[:maxText], "")
		}
	}
	for _, list := range []*[]string{&d.Groups, &d.Scopes, &d.Audience} {
		*list = (*list)[:min(len(*list), maxList):min(len(*list), maxList)]
	}
}

// Run writes what waits, until ctx ends, and what waits then.
func (r *Recorder) Run(ctx context.Context) {
	var both sync.WaitGroup
	both.Go(func() { r.differs.Run(ctx) })
	r.ring.Run(ctx)
	both.Wait()
}

// Differing returns the newest decisions at these sites whose shadow rules would have let in what was refused, or the
// reverse: at most limit of the last 1,024 of all sites.
func (r *Recorder) Differing(ctx context.Context, sites []string, limit int) (out []Decision, err error) {
	if r == nil {
		return nil, nil
	}
	oldest := r.now().Add(-Kept)
	err = r.differs.Each(ctx, func() { out = nil }, func(d *Decision) bool {
		if !d.At.Before(oldest) && slices.Contains(sites, d.Site) {
			out = append(out, *d)
		}
		return true
	})
	slices.SortStableFunc(out, func(a, b Decision) int { return b.At.Compare(a.At) })
	return out[:min(len(out), limit)], err
}

// List returns the decisions that are kept and not older than since, and how many were lost since the start.
func (r *Recorder) List(ctx context.Context, since time.Time) (out []Decision, lost int64, err error) {
	if oldest := r.now().Add(-Kept); since.Before(oldest) {
		since = oldest
	}
	err = r.ring.Each(ctx, func() { out = nil }, func(d *Decision) bool {
		if !d.At.Before(since) {
			out = append(out, *d)
		}
		return true
	})
	return out, r.ring.Lost(), err
}
