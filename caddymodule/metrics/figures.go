package metrics

import (
	"cmp"
	"context"
	"runtime"
	"runtime/debug"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gatehouse-id/gatehouse/identity/session"
	"github.com/gatehouse-id/gatehouse/storage"
)

const (
	maxWaiting    = 1000        // messages that are counted at most
	maxSessions   = 100_000     // sessions that are counted at most
	countSessions = time.Minute // how long their number is good for, since counting reads them all
)

var (
	descBuild = prometheus.NewDesc("gatehouse_build_info", "Always 1: the version of Gatehouse, and of Go.",
		[]string{"version", "goversion"}, nil)
	descWaiting = prometheus.NewDesc("gatehouse_messages_waiting",
		"Messages that are not handed over yet, up to 1,000, by kind (mail, sms, push).", []string{"kind"}, nil)
	descSessions = prometheus.NewDesc("gatehouse_sessions", "Sessions that are kept, up to 100,000, counted once a minute.", nil, nil)
)

// Figures are read from storage when the metrics are scraped.
type Figures struct {
	Store storage.Store
	// Waiting are the messages that are not handed over yet, by kind.
	Waiting map[string]func(ctx context.Context, most int) (int, error)

	mu       sync.Mutex // guards what follows
	sessions int
	counted  time.Time
}

// ShowFigures shows the figures of a configuration, until it is released or there is a newer one.
func (m *Metrics) ShowFigures(f *Figures) (release func()) { return m.figures.Use(f) }

// collectFigures adds what is read from storage. A figure that cannot be read is left out.
func (m *Metrics) collectFigures(ch chan<- prometheus.Metric) {
	ch <- prometheus.MustNewConstMetric(descBuild, prometheus.GaugeValue, 1, Version(), runtime.Version())
	f := m.figures.Load()
	if f == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	for kind, waiting := range f.Waiting {
		if n, err := waiting(ctx, maxWaiting); err == nil {
			ch <- prometheus.MustNewConstMetric(descWaiting, prometheus.GaugeValue, float64(n), kind)
		}
	}
	if n, err := f.countSessions(ctx); err == nil {
		ch <- prometheus.MustNewConstMetric(descSessions, prometheus.GaugeValue, float64(n))
	}
}

func (f *Figures) countSessions(ctx context.Context) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.counted.IsZero() && time.Since(f.counted) < countSessions {
		return f.sessions, nil
	}
	var n int
	err := f.Store.View(ctx, func(tx storage.Tx) (err error) {
		n, err = session.Count(tx, maxSessions)
		return err
	})
	if err == nil {
		f.sessions, f.counted = n, time.Now()
	}
	return n, err
}

// The paths in the go.mod files of what is built.
const (
	gatehousePath = "github.com/gatehouse-id/gatehouse"
	caddyPath     = "github.com/caddyserver/caddy/v2"
)

// Version is that of Gatehouse in this program: of its module, whose program or part it is. A release replaces it by
// the directory of its sources, and has its own version all the same. "unknown" if the build does not say.
func Version() string { return built(gatehousePath).Version }

// CaddyVersion is that of Caddy in this program, or of the module that replaces it.
func CaddyVersion() string {
	m := built(caddyPath)
	if m.Replace != nil {
		return cmp.Or(m.Replace.Version, m.Version)
	}
	return m.Version
}

// built returns a module of this program.
func built(path string) debug.Module {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, m := range append(info.Deps, &info.Main) {
			if m.Path == path && m.Version != "" {
				return *m
			}
		}
	}
	return debug.Module{Version: "unknown"}
}
