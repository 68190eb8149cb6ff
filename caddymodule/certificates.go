package caddymodule

import (
	"context"

	"go.uber.org/zap"
)

// watchCertificates gives the metrics access to the certificates, and logs once a day which ones expire soon.
func (i *instance) watchCertificates(ctx context.Context) {
	i.core.Metrics.ShowCertificates(i.config.KeyPairs().Expiries)
	i.core.Metrics.ShowParties(i.partyProblems)
	if err := i.config.Run(ctx); err != nil {
		i.log.Error("certificates are no longer watched", zap.Error(err))
	}
}
