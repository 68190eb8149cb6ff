package config

import (
	"context"
	"errors"
	"time"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/storage"
)

const (
	// expirySoon is how long before its end a certificate is spoken of.
	expirySoon = 30 * 24 * time.Hour
	// expiryLook is how often the certificates are looked at.
	expiryLook = time.Hour
)

// Expiry is when a certificate ends.
type Expiry struct {
	Name     string    `json:"name"` // of the key pair; "" is our own
	NotAfter time.Time `json:"not_after"`
	Soon     bool      `json:"soon"` // within 30 days, or over
	Over     bool      `json:"over"`
}

// Expiries returns the certificates in the order of their names, our own first once it is made.
func (s *Service) Expiries(ctx context.Context) ([]Expiry, error) {
	now := s.Now()
	var out []Expiry
	add := func(rec keyPairRecord) {
		if rec.Certificate {
			out = append(out, Expiry{rec.Name, rec.NotAfter, !rec.NotAfter.After(now.Add(expirySoon)), !rec.NotAfter.After(now)})
		}
	}
	err := s.Store.View(ctx, func(tx storage.Tx) error {
		rec, err := ownKeys.Get(tx, ownKey)
		if err == nil {
			add(rec)
		} else if !errors.Is(err, storage.ErrNotFound) {
			return err
		}
		for e, err := range keyNames.Scan(tx, storage.Range{}) {
			if err != nil {
				return err
			}
			rec, err := keyPairs.Get(tx, e.Value)
			if err != nil {
				return err
			}
			add(rec)
		}
		return nil
	})
	return out, err
}

// Run seals anew what an older key has sealed, and looks at the certificates every hour, until ctx ends. Failures are logged and tried again.
func (s *Service) Run(ctx context.Context) error {
	tick := time.NewTicker(expiryLook)
	defer tick.Stop()
	for {
		if err := errors.Join(s.Reseal(ctx), s.ReportExpiries(ctx)); err != nil && ctx.Err() == nil {
			s.Log.Error("certificates not looked at", zap.Error(err))
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// ReportExpiries logs the certificates that end within 30 days or have ended, each day once, whichever node does it.
func (s *Service) ReportExpiries(ctx context.Context) error {
	list, err := s.Expiries(ctx)
	if err != nil {
		return err
	}
	now := s.Now()
	for _, e := range list {
		if !e.Soon {
			continue
		}
		key := storage.Key(now.UTC().Format(time.DateOnly), e.Name)
		first := false
		err := s.Store.Update(ctx, func(tx storage.Tx) error {
			err := expiryLogged.Create(tx, key, struct{}{}, now.Add(48*time.Hour))
			first = err == nil
			if errors.Is(err, storage.ErrExists) {
				return nil
			}
			return err
		})
		if err != nil {
			return err
		}
		if first {
			s.Log.Warn("a certificate ends soon: add the next one and change what uses it", zap.String("key_pair", e.Name), zap.Time("not_after", e.NotAfter),
				zap.Bool("over", e.Over))
		}
	}
	return nil
}
