package metrics

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"
)

var descParty = prometheus.NewDesc("gatehouse_party_warnings",
	"What keeps people from signing in at an identity provider (idp) or a service provider, now or within 30 days, as a number of warnings of `check`.", []string{"kind", "id"}, nil)

// Parties counts what is wrong with each identity provider and service provider, by its kind and id.
type Parties func(context.Context) (map[[2]string]int, error)

// ShowParties shows the parties of the newest configuration.
func (m *Metrics) ShowParties(read Parties) { m.parties.Store(&read) }

// collectParties adds a line for each party. If they cannot be read, the lines are left out, so the other metrics are
// still served.
func (m *Metrics) collectParties(ch chan<- prometheus.Metric) {
	read := m.parties.Load()
	if read == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	list, err := (*read)(ctx)
	if err != nil {
		return
	}
	for of, count := range list {
		ch <- prometheus.MustNewConstMetric(descParty, prometheus.GaugeValue, float64(count), of[0], of[1])
	}
}
