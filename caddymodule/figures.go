package caddymodule

import (
	"context"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/admin/console"
	"github.com/gatehouse-id/gatehouse/caddymodule/metrics"
	"github.com/gatehouse-id/gatehouse/identity/notify"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/storage"
)

// figures returns what the instance shows in the metrics.
func (i *instance) figures() *metrics.Figures {
	return &metrics.Figures{Store: i.core.Store, Waiting: i.waiting()}
}

// outgoing returns the messages that are not handed over yet, in the order in which they are shown.
func (i *instance) outgoing() (out []notify.Outgoing) {
	if i.mail != nil {
		out = append(out, i.mail)
	}
	if i.texts != nil {
		out = append(out, i.texts)
	}
	if i.pushes != nil {
		out = append(out, i.pushes)
	}
	return out
}

// waiting returns what counts the messages that are not handed over yet, by kind.
func (i *instance) waiting() map[string]func(context.Context, int) (int, error) {
	waiting := map[string]func(context.Context, int) (int, error){}
	for _, o := range i.outgoing() {
		waiting[o.Channel()] = o.Waiting
	}
	return waiting
}

// machine returns how the servers, the disk and the queues are, for the console.
func (i *instance) machine(ctx context.Context) (m console.Machine, err error) {
	if m.Nodes, err = i.core.Node.List(ctx); err != nil {
		return m, err
	}
	m.Waiting = map[string]int{}
	for kind, count := range i.waiting() {
		if m.Waiting[kind], err = count(ctx, console.MostWaiting); err != nil {
			return m, err
		}
	}
	if free := i.core.Metrics.Free(); free != nil {
		m.Free = free()
	}
	m.Certificates, err = i.config.KeyPairs().Expiries(ctx)
	return m, err
}

// sayReady writes the one line that says what runs.
func (i *instance) sayReady(ctx context.Context) {
	fields := []zap.Field{
		zap.String("issuer", i.issuer.String()), zap.String("version", metrics.Version()),
		zap.String("storage", i.core.Place),
	}
	if clients, err := i.authz.Clients().List(ctx); err == nil {
		fields = append(fields, zap.Int("clients", len(clients)))
	}
	var persons int64
	err := i.core.Store.View(ctx, func(tx storage.Tx) (err error) {
		persons, _, err = i.identity.Person.CountPersons(tx, audit.DefaultPartition)
		return err
	})
	if err == nil {
		fields = append(fields, zap.Int64("persons", persons))
	}
	i.log.Info("gatehouse ready", fields...)
}
