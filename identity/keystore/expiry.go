package keystore

import (
	"context"
	"errors"
	"time"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/storage"
)

// expirySoon is the time before the end of a certificate from which the log and the commands warn about it.
const expirySoon = 30 * 24 * time.Hour

// Expiry is the expiry of a certificate.
type Expiry struct {
	Name     string    `json:"name"` // of the key pair; "" is Gatehouse's own
	NotAfter time.Time `json:"not_after"`
	Soon     bool      `json:"soon"` // within 30 days, or over
	Over     bool      `json:"over"`
}

// Expiries returns the certificates in the order of their names, Gatehouse's own first once it is made.
func (s *Service) Expiries(ctx context.Context) ([]Expiry, error) {
	now := s.now()
	var out []Expiry
	add := func(rec record) {
		if rec.Certificate {
			out = append(out, Expiry{rec.Name, rec.NotAfter, !rec.NotAfter.After(now.Add(expirySoon)), !rec.NotAfter.After(now)})
		}
	}
	err := s.store.View(ctx, func(tx storage.Tx) error {
		out = nil
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

// ReportExpiries logs the certificates that end within 30 days or have ended. Each is logged once a day, by one of the
// nodes.
func (s *Service) ReportExpiries(ctx context.Context) error {
	list, err := s.Expiries(ctx)
	if err != nil {
		return err
	}
	now := s.now()
	for _, e := range list {
		if !e.Soon {
			continue
		}
		key := storage.Key(now.UTC().Format(time.DateOnly), e.Name)
		first := false
		err := s.store.Update(ctx, func(tx storage.Tx) error {
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
			s.log.Warn("a certificate ends soon: rotate its key pair, or replace one from elsewhere", zap.String("key_pair", e.Name),
				zap.Time("not_after", e.NotAfter),
				zap.Bool("over", e.Over))
		}
	}
	return nil
}
