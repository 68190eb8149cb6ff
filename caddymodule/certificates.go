package caddymodule

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/identity/keypair"
)

// expiryTimeout is how long a scrape of the metrics waits for the certificates.
const expiryTimeout = 2 * time.Second

// keyMembers are the options of providers that name key pairs of the configuration.
var keyMembers = []string{"sign", "decrypt", "key"}

// providerKeys returns who uses which key pair, such as "idp partner", by the names of the pairs. It is asked before the modules are loaded, which takes
// their configuration away.
func providerKeys(raw caddy.ModuleMap) map[string][]string {
	repl := caddy.NewReplacer()
	users := map[string][]string{}
	for _, id := range slices.Sorted(maps.Keys(raw)) {
		var members map[string]json.RawMessage
		if json.Unmarshal(raw[id], &members) != nil {
			continue
		}
		for _, m := range keyMembers {
			var names []string
			if json.Unmarshal(members[m], &names) != nil {
				var name string
				if json.Unmarshal(members[m], &name) != nil {
					continue
				}
				names = []string{name}
			}
			for _, name := range names {
				name = repl.ReplaceAll(name, "")
				if by := "idp " + id; !slices.Contains(users[name], by) {
					users[name] = append(users[name], by)
				}
			}
		}
	}
	return users
}

var descCertificate = prometheus.NewDesc("gatehouse_certificate_expiry_seconds",
	"Seconds until a certificate of the configuration ends, negative when it has. Gatehouse's own has an empty name.", []string{"name"}, nil)

// expiries are the certificates of the newest configuration.
type expiries func(context.Context) ([]keypair.Expiry, error)

// collectCertificates adds a line for each certificate. What cannot be read is left out, as the other metrics are worth more than none.
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

// watchCertificates tells the metrics of the certificates, and the log once a day of those that end soon.
func (i *instance) watchCertificates(ctx context.Context) {
	read := expiries(i.config.KeyPairs().Expiries)
	i.core.metrics.certificates.Store(&read)
	if err := i.config.Run(ctx); err != nil {
		i.log.Error("certificates are no longer watched", zap.Error(err))
	}
}

// certificateLine is what check says of a certificate.
func certificateLine(e keypair.Expiry) string {
	name, state := e.Name, "until"
	if name == "" {
		name = "of Gatehouse itself"
	}
	switch {
	case e.Over:
		state = "EXPIRED on"
	case e.Soon:
		state = "ENDS SOON, on"
	}
	return fmt.Sprintf("certificate    %s: %s %s", name, state, e.NotAfter.UTC().Format(time.DateOnly))
}
