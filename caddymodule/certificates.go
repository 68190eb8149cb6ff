package caddymodule

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/identity/keypair"
)

// expiryTimeout is how long a scrape of the metrics waits for the certificates.
const expiryTimeout = 2 * time.Second

var descCertificate = prometheus.NewDesc("gatehouse_certificate_expiry_seconds",
	"Seconds until a certificate of the configuration ends, negative when it has. Gatehouse's own has an empty name.", []string{"name"}, nil)

// expiries are the certificates of the newest configuration.
type expiries func(context.Context) ([]keypair.Expiry, error)

// collectCertificates adds a line for each certificate. If they cannot be read, the line is left out, so that the other
// metrics are still served.
func (m *metrics) collectCertificates(ch chan<- prometheus.Metric) {
	read := m.certificates.Load()
	if read == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), expiryTimeout)
	defer cancel()
	list, err := (*read)(ctx)
	if err != nil {
		return
	}
	for _, e := range list {
		ch <- prometheus.MustNewConstMetric(descCertificate, prometheus.GaugeValue, time.Until(e.NotAfter).Seconds(), e.Name)
	}
}

// watchCertificates gives the metrics access to the certificates, and logs once a day which ones expire soon.
func (i *instance) watchCertificates(ctx context.Context) {
	read := expiries(i.config.KeyPairs().Expiries)
	i.core.metrics.certificates.Store(&read)
	if err := i.config.Run(ctx); err != nil {
		i.log.Error("certificates are no longer watched", zap.Error(err))
	}
}
