package metrics

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gatehouse-id/gatehouse/identity/keystore"
)

// timeout is the time that a scrape of the metrics waits for reads from storage.
const timeout = 2 * time.Second

var descCertificate = prometheus.NewDesc("gatehouse_certificate_expiry_seconds",
	"Seconds until a certificate of the configuration ends, negative when it has. Gatehouse's own has an empty name.", []string{"name"}, nil)

// Expiries are the certificates of a configuration.
type Expiries func(context.Context) ([]keystore.Expiry, error)

// ShowCertificates shows the certificates of the newest configuration.
func (m *Metrics) ShowCertificates(read Expiries) { m.certificates.Store(&read) }

// collectCertificates adds a line for each certificate. If they cannot be read, the line is left out, so the other
// metrics are still served.
func (m *Metrics) collectCertificates(ch chan<- prometheus.Metric) {
	read := m.certificates.Load()
	if read == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	list, err := (*read)(ctx)
	if err != nil {
		return
	}
	for _, e := range list {
		ch <- prometheus.MustNewConstMetric(descCertificate, prometheus.GaugeValue, time.Until(e.NotAfter).Seconds(), e.Name)
	}
}
