package keystore

import (
	"context"
	"time"

	"github.com/gatehouse-id/gatehouse/storage"
)

// Summary is the view of a key pair for administrators.
type Summary struct {
	ID       string // "": Gatehouse's own
	Name     string
	Type     string
	Private  bool      // whether it has a private key
	NotAfter time.Time // of its certificate. Zero: it has none
	UsedBy   []string  // places in the configuration and in the Caddyfile
	PEM      []byte    // the public part. nil: a keytab has none
	// Next are the next keys, and Former the former ones, or nil.
	Next, Former *Spare
}

// Stage returns the stage of its rotation.
func (s *Summary) Stage() Stage {
	switch {
	case !s.Private || s.Type == Keytab:
		return Fixed
	case s.Former != nil:
		return Switched
	case s.Next != nil:
		return Announced
	}
	return Idle
}

// Spare is a key pair next to the one that is used.
type Spare struct {
	NotAfter time.Time // of its certificate. Zero: it has none
	Since    time.Time // that it is what it is
	PEM      []byte    // the public part
}

// Summaries returns the key pairs in the order of their names, Gatehouse's own first once it is made.
func (s *Service) Summaries(ctx context.Context) (out []Summary, err error) {
	err = s.store.View(ctx, func(tx storage.Tx) error {
		var all []pair
		own, found, err := ownKeys.Find(tx, ownKey)
		if err != nil {
			return err
		}
		if found {
			all = []pair{{"", own}}
		}
		list, err := allPairs(tx)
		if err != nil {
			return err
		}
		out = nil
		for _, p := range append(all, list...) {
			one, err := s.summary(tx, p)
			if err != nil {
				return err
			}
			out = append(out, one)
		}
		return nil
	})
	return out, err
}

func (s *Service) summary(tx storage.Tx, p pair) (Summary, error) {
	out := Summary{ID: p.id, Name: p.Name, Type: p.Type, Private: len(p.Private) > 0, NotAfter: p.NotAfter}
	if p.Type != Keytab {
		out.PEM = encodePEM(p.Public, p.Certificate)
	}
	out.Next, out.Former = p.Next.shown(), p.Former.shown()
	if p.id == "" {
		return out, nil
	}
	places, err := s.owner.Uses(tx, p.id, p.Name)
	out.UsedBy = append(s.usedBy(p.id, p.Name), places...)
	return out, err
}

func (s *spare) shown() *Spare {
	if s == nil {
		return nil
	}
	return &Spare{s.NotAfter, s.Since, encodePEM(s.Public, !s.NotAfter.IsZero())}
}
