package denial

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"slices"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/gatehouse-id/gatehouse/internal/recentlog"
	"github.com/gatehouse-id/gatehouse/storage"
)

// Bounds of what is kept. (docs/decisions/operation.md#refusals)
const (
	Kept      = 24 * time.Hour      // how long a reference can be looked up
	slotCount = recentlog.Size      // refusals that are kept at once
	perSecond = recentlog.PerSecond // refusals that are kept in one second; the rest are counted
)

// ErrUnknown says that no refusal of the last day has the reference.
var ErrUnknown = errors.New("no refusal of the last 24 hours has this reference: only the newest 8,192 are kept, and at most 100 a second")

// Counter counts, for the metrics. It must be safe for concurrent use and fast.
type Counter interface {
	CountRefusal(f *Refusal)
	// CountCode counts the error code of an answer, which one refusal can have more than one of.
	CountCode(f *Refusal)
	CountEntry(e Entry)
}

// Recorder keeps refusals for a day. Its methods never wait for storage, except Find, and a nil Recorder
// writes log lines alone.
type Recorder struct {
	ring    *recentlog.Ring[Refusal]
	counter Counter
	now     func() time.Time
	random  io.Reader
	persons atomic.Pointer[PersonFunc]
}

// NewRecorder returns a recorder that writes while Run runs. now and random are the system's if they are nil.
func NewRecorder(store storage.Store, counter Counter, now func() time.Time, random io.Reader, log *zap.Logger) *Recorder {
	if now == nil {
		now = time.Now
	}
	if random == nil {
		random = rand.Reader
	}
	r := &Recorder{
		ring:    recentlog.New(store, kept, log.With(zap.String("kind", "references of refusals"))),
		counter: counter, now: now, random: random,
	}
	r.ring.Complete = func(tx storage.Tx, f *Refusal) error { return f.introduce(tx, r.persons.Load()) }
	return r
}

// PersonFunc returns username and partition of a person, both empty if there is no such person. The partition is empty
// if persons are not kept apart.
type PersonFunc func(tx storage.Tx, id string) (username, partition string, err error)

// Know says how persons are found whom a refusal names by their id alone. The newest configuration decides.
func (r *Recorder) Know(find PersonFunc) { r.persons.Store(&find) }

// Ref returns a new reference, for an answer that is written before Refuse is called.
func (r *Recorder) Ref() string {
	if r == nil {
		return ""
	}
	return NewRef(r.random)
}

// Refuse keeps and counts a refusal and writes its log line to log, once, with the cause and further fields. It returns
// the reference, and makes one if the refusal has none. The slip of the request says what f does not. Of several
// refusals of a request with a slip, the first one counts.
func (r *Recorder) Refuse(ctx context.Context, log *zap.Logger, f Refusal, cause error, more ...zap.Field) (ref string) {
	from, first := f.fill(ctx)
	if f.Code != "" && r != nil && r.counter != nil {
		r.counter.CountCode(&f)
	}
	if !first {
		return f.Ref
	}
	if !f.Reason.known() {
		f.Reason = Internal
	}
	if f.Ref == "" {
		f.Ref = r.Ref()
	}
	f.trim()
	if c := log.Check(level(&f), message(&f)); c != nil {
		fields := append([]zap.Field{zap.Inline(&f)}, more...)
		if from != "" && !slices.ContainsFunc(more, func(f zap.Field) bool { return f.Key == "client_ip" }) {
			fields = append(fields, zap.String("client_ip", from))
		}
		if cause != nil {
			fields = append(fields, zap.NamedError("cause", cause))
		}
		c.Write(fields...)
	}
	if span := trace.SpanFromContext(ctx); span.IsRecording() {
		span.AddEvent("refused", trace.WithAttributes(
			attribute.String("gatehouse.ref", f.Ref), attribute.String("gatehouse.reason", string(f.Reason)),
			attribute.String("gatehouse.where", f.Where)))
	}
	if r == nil {
		return f.Ref
	}
	f.At = r.now().UTC()
	if r.counter != nil {
		r.counter.CountRefusal(&f)
	}
	if f.Ref != "" {
		r.ring.Add(f.At, f)
	}
	return f.Ref
}

// Lost is the number of refusals that are not kept, because there were too many in a second or storage failed.
func (r *Recorder) Lost() int64 { return r.ring.Lost() }

// Run writes what waits, until ctx ends, and what waits then.
func (r *Recorder) Run(ctx context.Context) { r.ring.Run(ctx) }

// introduce completes what is known of the person.
func (f *Refusal) introduce(tx storage.Tx, find *PersonFunc) error {
	if find == nil || f.PersonID == "" || (f.Username != "" && f.Partition != "") {
		return nil
	}
	username, partition, err := (*find)(tx, f.PersonID)
	if err == nil {
		f.Username, f.Partition = cmp.Or(f.Username, username), cmp.Or(f.Partition, partition)
	}
	return err
}

// Find returns the refusal of a reference, or ErrUnknown. Any other error is a failure of storage.
func (r *Recorder) Find(ctx context.Context, ref string) (Refusal, error) {
	now := r.now()
	var found Refusal
	err := r.ring.Each(ctx, func() { found = Refusal{} }, func(f *Refusal) bool {
		if f.Ref == ref && f.At.Add(Kept).After(now) {
			found = *f
		}
		return found.Ref == ""
	})
	if err == nil && found.Ref == "" {
		err = ErrUnknown
	}
	return found, err
}

// Filter says which refusals List returns. The zero value: all.
type Filter struct {
	Person, Where string   // empty: any
	Sites         []string // hosts. Empty: any
	Reason        Reason   // empty: any
	Behind        string   // the reference of the last one of the list before
	Limit         int      // 0: any number
}

// List returns the refusals of the last day, newest first. more: there are others after the last one.
func (r *Recorder) List(ctx context.Context, f Filter) (out []Refusal, more bool, err error) {
	now := r.now()
	var all []*Refusal
	err = r.ring.Each(ctx, func() { all = nil }, func(one *Refusal) bool {
		if one.At.Add(Kept).After(now) && f.wants(one) {
			all = append(all, one)
		}
		return true
	})
	if err != nil {
		return nil, false, err
	}
	slices.SortFunc(all, func(a, b *Refusal) int { return cmp.Or(b.At.Compare(a.At), cmp.Compare(a.Ref, b.Ref)) })
	if i := slices.IndexFunc(all, func(one *Refusal) bool { return one.Ref == f.Behind }); f.Behind != "" && i >= 0 {
		all = all[i+1:]
	}
	if more = f.Limit > 0 && len(all) > f.Limit; more {
		all = all[:f.Limit]
	}
	for _, one := range all {
		out = append(out, *one)
	}
	return out, more, nil
}

// wants reports whether a refusal belongs to the list.
func (f *Filter) wants(one *Refusal) bool {
	fits := func(want, is string) bool { return want == "" || want == is }
	return fits(f.Person, one.PersonID) && (len(f.Sites) == 0 || slices.Contains(f.Sites, one.Site)) && fits(f.Where, one.Where) &&
		fits(string(f.Reason), string(one.Reason))
}

// level is that of the log line: our own failures are errors, refusals are not.
func level(f *Refusal) zapcore.Level {
	switch f.Reason {
	case Unavailable, Internal:
		return zap.ErrorLevel
	case ProviderFailed:
		return zap.WarnLevel
	}
	return zap.InfoLevel
}

func message(f *Refusal) string {
	switch {
	case level(f) == zap.ErrorLevel:
		return "request failed"
	case f.Where == SignIn:
		return "sign-in refused"
	case f.Where == StepUp:
		return "step-up refused"
	}
	return "request refused"
}
