package introspect

import (
	"errors"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
)

// series are the metrics of all servers, which outlive a configuration.
type series struct {
	requests *prometheus.CounterVec
	duration *prometheus.HistogramVec
	breaker  *prometheus.GaugeVec
}

var counters = sync.OnceValue(func() *series {
	return &series{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "gatehouse_remote_introspections_total",
			Help: "Tokens looked up at authorization servers elsewhere, by server and result (active, inactive, failed; cached and shared cost no request).",
		}, []string{"server", "result"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "gatehouse_remote_introspection_seconds", Help: "Time that questions to authorization servers elsewhere took, by server.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5},
		}, []string{"server"}),
		breaker: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "gatehouse_remote_introspection_breakers_open",
			Help: "Sites at which an authorization server elsewhere is left alone since it does not answer, by server.",
		}, []string{"server"}),
	}
})

// Register adds the metrics to the registry of a configuration.
func Register(reg *prometheus.Registry) error {
	if reg == nil {
		return nil
	}
	all := counters()
	for _, c := range []prometheus.Collector{all.requests, all.duration, all.breaker} {
		if err := reg.Register(c); err != nil && !errors.As(err, new(prometheus.AlreadyRegisteredError)) {
			return err
		}
	}
	return nil
}

// count counts a question.
func (s *Server) count(start time.Time, a *serverAnswer, err error) {
	result := "failed"
	if err == nil {
		if result = "inactive"; a.in.Active {
			result = "active"
		}
	}
	counters().requests.WithLabelValues(s.host, result).Inc()
	counters().duration.WithLabelValues(s.host).Observe(s.now().Sub(start).Seconds())
}

func (s *Server) breakerChanged(open bool) {
	gauge := counters().breaker.WithLabelValues(s.host)
	if open {
		gauge.Inc()
		s.log.Error("the authorization server elsewhere does not answer: requests are refused, and it is asked again every few seconds",
			zap.String("server", s.host))
		return
	}
	gauge.Dec()
	s.log.Info("the authorization server elsewhere answers again", zap.String("server", s.host))
}
