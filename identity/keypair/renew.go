package keypair

import (
	"cmp"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"time"

	"github.com/gatehouse-id/gatehouse/internal/event"
	"github.com/gatehouse-id/gatehouse/storage"
)

// Summary is what an administrator sees of a key pair.
type Summary struct {
	ID       string // "": Gatehouse's own
	Name     string
	Type     string
	Private  bool      // whether it has a private key
	NotAfter time.Time // of its certificate. Zero: it has none
	UsedBy   []string  // places in the configuration and in the Caddyfile
	PEM      []byte    // the public part. nil: a keytab has none
	// Next is what takes its place soon, and Former what it has taken the place of, or nil.
	Next, Former *Spare
}

// Spare is a key pair beside the one that is used.
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
		out.PEM = p.encode(p.Public)
	}
	if s := p.Next; s != nil {
		out.Next = &Spare{s.NotAfter, s.Since, p.encode(s.Public)}
	}
	if s := p.Former; s != nil {
		out.Former = &Spare{s.NotAfter, s.Since, p.encode(s.Public)}
	}
	if p.id == "" {
		return out, nil
	}
	places, err := s.owner.Uses(tx, p.id, p.Name)
	out.UsedBy = append(s.usedBy(p.id, p.Name), places...)
	return out, err
}

// encode is the public part of a pair of the type of the record.
func (r record) encode(public []byte) []byte {
	kind := "PUBLIC KEY"
	if r.Certificate {
		kind = "CERTIFICATE"
	}
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: public})
}

// Renew replaces the keys of a pair by new ones of the same type and size, and its certificate by one that the new key
// has signed. The name stays, so that what uses the pair uses the new keys at once. "" is Gatehouse's own. Errors:
// ErrUnknown, ErrNoPrivateKey, which is also that of a keytab.
func (s *Service) Renew(ctx context.Context, id string, by event.Actor) error {
	return s.turn(ctx, id, "new keys of", by, func(old record) (record, error) { return s.successor(id, old) })
}

// Announce makes the keys that take the place of a pair soon. From then on they are published beside it, and decrypt.
// Errors: as of Renew, and ErrStage if they are there.
func (s *Service) Announce(ctx context.Context, id string, by event.Actor) error {
	return s.turn(ctx, id, "the next keys are published for", by, func(old record) (record, error) {
		if old.Next != nil {
			return old, ErrStage
		}
		made, err := s.successor(id, old)
		old.Next = &spare{made.Private, made.Public, made.NotAfter, s.now().UTC()}
		return old, err
	})
}

// Switch lets the keys that were announced take the place of a pair, which is published beside them and decrypts until
// it is retired. Errors: as of Renew, and ErrStage if nothing was announced.
func (s *Service) Switch(ctx context.Context, id string, by event.Actor) error {
	return s.turn(ctx, id, "the next keys are used for", by, func(old record) (record, error) {
		if old.Next == nil {
			return old, ErrStage
		}
		next := old.as(old.Next)
		next.Former = &spare{old.Private, old.Public, old.NotAfter, s.now().UTC()}
		return next, nil
	})
}

// Retire removes the keys that others have taken the place of. Errors: as of Renew, and ErrStage if there are none.
func (s *Service) Retire(ctx context.Context, id string, by event.Actor) error {
	return s.turn(ctx, id, "the former keys are retired of", by, func(old record) (record, error) {
		if old.Former == nil {
			return old, ErrStage
		}
		old.Former = nil
		return old, nil
	})
}

// turn replaces the record of a pair by what change makes of it, unless it has changed meanwhile.
func (s *Service) turn(ctx context.Context, id, what string, by event.Actor, change func(record) (record, error)) error {
	table, key := keyPairs, id
	if id == "" {
		table, key = ownKeys, ownKey
	}
	var old record
	err := s.store.View(ctx, func(tx storage.Tx) (err error) {
		old, err = table.Get(tx, key)
		return err
	})
	if errors.Is(err, storage.ErrNotFound) {
		return ErrUnknown
	}
	if err != nil {
		return err
	}
	if len(old.Private) == 0 || old.Type == Keytab { // the realm has the keys of a keytab too
		return ErrNoPrivateKey
	}
	next, err := change(old)
	if errors.Is(err, ErrStage) {
		return err
	}
	if err != nil {
		return fmt.Errorf("make a key pair: %w", err)
	}
	e, err := s.newEvent(certificateUpdated, by)
	if err != nil {
		return err
	}
	e.Reason = what + " " + cmp.Or(old.Name, "Gatehouse's own key pair")
	newVersion, err := s.owner.NewVersion()
	if err != nil {
		return err
	}
	return s.store.Update(ctx, func(tx storage.Tx) error {
		now, err := table.Get(tx, key)
		if errors.Is(err, storage.ErrNotFound) || err == nil && !now.same(old) {
			return ErrUnknown
		}
		if err != nil {
			return err
		}
		if err := table.Put(tx, key, next, time.Time{}); err != nil {
			return err
		}
		if err := newVersion(tx); err != nil {
			return err
		}
		return s.events.Append(tx, e)
	})
}

// successor makes a record with new keys.
func (s *Service) successor(id string, old record) (record, error) {
	next := record{Name: old.Name, Type: old.Type, Certificate: old.Certificate}
	m, err := s.open(id, old)
	if err != nil {
		return next, err
	}
	var signer crypto.Signer
	switch key := m.PublicKey.(type) {
	case *rsa.PublicKey:
		signer, err = rsa.GenerateKey(s.random, key.N.BitLen())
	case *ecdsa.PublicKey:
		signer, err = ecdsa.GenerateKey(key.Curve, s.random)
	default:
		err = errors.New("no key of this type can be made")
	}
	if err != nil {
		return next, err
	}
	if next.Certificate {
		next.Public, next.NotAfter, err = s.selfSigned(m.Certificate.Subject, signer)
	} else {
		next.Public, err = x509.MarshalPKIXPublicKey(signer.Public())
	}
	if err != nil {
		return next, err
	}
	private, err := x509.MarshalPKCS8PrivateKey(signer)
	if err != nil {
		return next, err
	}
	next.Private, err = s.keyring.Seal(sealPurpose(id), private)
	return next, err
}

// selfSigned returns a certificate of ten years for a key, and when it ends.
func (s *Service) selfSigned(subject pkix.Name, key crypto.Signer) (der []byte, ends time.Time, err error) {
	serial := make([]byte, 17)
	if _, err := io.ReadFull(s.random, serial[1:]); err != nil {
		return nil, ends, err
	}
	serial[0] = 1 // RFC 5280 4.1.2.2: a positive number of at most 20 octets
	now := s.now()
	template := &x509.Certificate{
		SerialNumber: new(big.Int).SetBytes(serial), Subject: subject,
		NotBefore: now.Add(-time.Hour).UTC(), NotAfter: now.AddDate(ownKeyYears, 0, 0).UTC(),
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment, BasicConstraintsValid: true,
	}
	der, err = x509.CreateCertificate(s.random, template, template, key.Public(), key)
	return der, template.NotAfter, err
}
