package caddymodule

import (
	"context"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/caddymodule/metrics"
	"github.com/gatehouse-id/gatehouse/internal/event"
	"github.com/gatehouse-id/gatehouse/storage"
)

// figures returns what the instance shows in the metrics.
func (i *instance) figures() *metrics.Figures {
	waiting := map[string]func(context.Context, int) (int, error){}
	if i.mail != nil {
		waiting["mail"] = i.mail.Waiting
	}
	if i.texts != nil {
		waiting["sms"] = i.texts.Waiting
	}
	if i.pushes != nil {
		waiting["push"] = i.pushes.Waiting
	}
	return &metrics.Figures{Store: i.core.Store, Waiting: waiting}
}

// sayReady writes the one line that says what runs.
func (i *instance) sayReady(ctx context.Context) {
	fields := []zap.Field{zap.String("issuer", i.issuer.String()), zap.String("version", metrics.Version()), zap.String("storage", i.core.Place)}
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
