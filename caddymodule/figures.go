package caddymodule

import (
	"cmp"
	"context"
	"runtime"
	"runtime/debug"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/identity/session"
	"github.com/gatehouse-id/gatehouse/internal/event"
	"github.com/gatehouse-id/gatehouse/storage"
)

const (
	maxWaiting    = 1000        // messages that are counted at most
	maxSessions   = 100_000     // sessions that are counted at most
	countSessions = time.Minute // how long their number is good for, since counting reads them all
)

var (
	descBuild    = prometheus.NewDesc("gatehouse_build_info", "Always 1: the version of Gatehouse, and of Go.", []string{"version", "goversion"}, nil)
	descWaiting  = prometheus.NewDesc("gatehouse_messages_waiting", "Messages that are not handed over yet, up to 1,000, by kind (mail, sms, push).", []string{"kind"}, nil)
	descSessions = prometheus.NewDesc("gatehouse_sessions", "Sessions that are kept, up to 100,000, counted once a minute.", nil, nil)
)

// figures are read from storage when the metrics are scraped.
type figures struct {
	store   storage.Store
	waiting map[string]func(ctx context.Context, most int) (int, error) // by kind

	mu       sync.Mutex // guards what follows
	sessions int
	counted  time.Time
}

// figures returns what the instance shows in the metrics.
func (i *instance) figures() *figures {
	f := &figures{store: i.core.Store, waiting: map[string]func(context.Context, int) (int, error){}}
	if i.mail != nil {
		f.waiting["mail"] = i.mail.Waiting
	}
	if i.texts != nil {
		f.waiting["sms"] = i.texts.Waiting
	}
	if i.pushes != nil {
		f.waiting["push"] = i.pushes.Waiting
	}
	return f
}

// collectFigures adds what is read from storage. A figure that cannot be read is left out.
func (m *metrics) collectFigures(ch chan<- prometheus.Metric) {
	ch <- prometheus.MustNewConstMetric(descBuild, prometheus.GaugeValue, 1, version(), runtime.Version())
	f := m.figures.Load()
	if f == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), expiryTimeout)
	defer cancel()
	for kind, waiting := range f.waiting {
		if n, err := waiting(ctx, maxWaiting); err == nil {
			ch <- prometheus.MustNewConstMetric(descWaiting, prometheus.GaugeValue, float64(n), kind)
		}
	}
	if n, err := f.countSessions(ctx); err == nil {
		ch <- prometheus.MustNewConstMetric(descSessions, prometheus.GaugeValue, float64(n))
	}
}

func (f *figures) countSessions(ctx context.Context) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.counted.IsZero() && time.Since(f.counted) < countSessions {
		return f.sessions, nil
	}
	var n int
	err := f.store.View(ctx, func(tx storage.Tx) (err error) {
		n, err = session.Count(tx, maxSessions)
		return err
	})
	if err == nil {
		f.sessions, f.counted = n, time.Now()
	}
	return n, err
}

// modulePath is that of go.mod.
const modulePath = "github.com/gatehouse-id/gatehouse"

// version is that of Gatehouse in this program: of its module, whose program or part it is.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	for _, m := range append(info.Deps, &info.Main) {
		if m.Path == modulePath {
			return cmp.Or(m.Version, "unknown")
		}
	}
	return "unknown"
}

// sayReady writes the one line that says what runs.
func (i *instance) sayReady(ctx context.Context) {
	fields := []zap.Field{zap.String("issuer", i.issuer.String()), zap.String("version", version()), zap.String("storage", i.core.place)}
	if clients, err := i.authz.Clients().List(ctx); err == nil {
		fields = append(fields, zap.Int("clients", len(clients)))
	}
	var persons int64
	err := i.core.Store.View(ctx, func(tx storage.Tx) (err error) {
		persons, _, err = i.identity.Person.CountPersons(tx, event.DefaultPartition)
		return err
	})
	if err == nil {
		fields = append(fields, zap.Int64("persons", persons))
	}
	i.log.Info("gatehouse ready", fields...)
}
