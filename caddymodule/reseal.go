package caddymodule

import (
	"context"
	"errors"
	"time"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/caddymodule/adminapi"
)

const (
	resealAgain  = time.Hour
	resealReport = 10_000 // people between two lines of the log
)

// reseal seals what lasts and an older encryption key has sealed with the first one: the secrets of the next people
// past after, and before those everything else. (docs/decisions/operation.md#encryption-keys)
func (i *instance) reseal(ctx context.Context, after string) (out adminapi.Resealed, err error) {
	out.Older = i.core.Keyring.HasOlder()
	if after == "" {
		if out.SigningKeys, err = i.core.Keys.Reseal(ctx); err == nil {
			out.Left, err = i.resealFew(ctx)
		}
		if err == nil {
			out.Clients, err = i.authz.Clients().OlderSecrets(ctx)
		}
		if err != nil {
			return out, err
		}
	}
	part, err := i.identity.StepUp.Reseal(ctx, after)
	out.People, out.Sealed, out.Left, out.Next = part.People, part.Sealed, out.Left+part.Left, part.Next
	return out, err
}

// resealFew reseals what there is little of: settings, key pairs, the targets of alerts and the headers of streams of
// shared signals. It returns how many secrets no key opens.
func (i *instance) resealFew(ctx context.Context) (left int, err error) {
	for _, reseal := range []func(context.Context) (int, error){i.config.Reseal, i.alerts.Reseal, i.authz.Reseal} {
		n, failed := reseal(ctx)
		left, err = left+n, errors.Join(err, failed)
	}
	return left, err
}

// keepSealed calls resealAll, and then looks every hour at the settings, which another node can have sealed with
// another key since, until ctx ends.
func (i *instance) keepSealed(ctx context.Context) {
	i.resealAll(ctx)
	tick := time.NewTicker(resealAgain)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if _, err := i.resealFew(ctx); err != nil && ctx.Err() == nil {
			i.log.Error("settings are not resealed; trying again", zap.Error(err))
		}
	}
}

// resealAll calls reseal to the end, if there are older keys, and says when they can go.
func (i *instance) resealAll(ctx context.Context) {
	if !i.core.Keyring.HasOlder() {
		return
	}
	var all adminapi.Resealed
	for after, reported := "", 0; ; {
		part, err := i.reseal(ctx, after)
		if err != nil && ctx.Err() == nil {
			i.log.Error("values that older encryption keys sealed are not resealed; trying again", zap.Error(err))
			select {
			case <-ctx.Done():
			case <-time.After(resealAgain):
			}
		}
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			continue
		}
		all.Add(part)
		if all.People >= reported+resealReport {
			reported = all.People
			i.log.Info("sealing with the first encryption key", zap.Int("people", all.People), zap.Int("sealed", all.Sealed))
		}
		if after = part.Next; after == "" {
			break
		}
	}
	say := i.log.Info
	if all.Left > 0 {
		say = i.log.Warn
	}
	say(all.Verdict(), zap.Int("people", all.People), zap.Int("sealed", all.Sealed), zap.Int("signing_keys", all.SigningKeys),
		zap.Int("left", all.Left), zap.String("clients", all.NamedClients()))
}
