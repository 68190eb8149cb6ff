package config

import (
	"bytes"
	"context"
	"crypto"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/google/uuid"

	"github.com/gatehouse-id/gatehouse/storage"
)

const maxKeyPairs = 200

var (
	// ErrNoKeyPair says that no key pair has the name or id.
	ErrNoKeyPair = errors.New("config: no such key pair")
	// ErrNoPrivateKey says that a key pair is a certificate or public key alone.
	ErrNoPrivateKey = errors.New("config: the key pair has no private key")
)

// KeyPair is a key pair on the wire. (identity service document, KeyPair)
type KeyPair struct {
	// ID is ours. It is refused where a key pair is added.
	ID      string `json:"id,omitempty"`
	Name    string `json:"name" rest:"required"`
	KeyType string `json:"key_type" rest:"required"`
	// PrivateKey and PublicKey are PEM in Base64. The private key is never answered, and an empty one keeps what is stored.
	PrivateKey Secret `json:"private_key" rest:"required"`
	PublicKey  string `json:"public_key" rest:"required"`
}

// KeyMaterial is a key pair to work with. It must not be changed.
type KeyMaterial struct {
	ID   string // "": our own pair
	Name string
	Type string // RSA, EC or CERTIFICATE
	// Certificate is nil for a public key without one.
	Certificate *x509.Certificate
	PublicKey   crypto.PublicKey
	Key         crypto.Signer // nil for a certificate or public key alone
}

// pairState is what a service knows of key pairs.
type pairState struct {
	making sync.Mutex // held while our own pair is made
	mu     sync.Mutex
	known  map[string]cachedKey // guarded by mu; what was parsed, by id
	users  []UsedBy
}

type cachedKey struct {
	record []byte // the sealed private key and the public one: what tells whether it is still the same
	*KeyMaterial
}

// KeyPair returns the key pair of a name or id. "" is our own, which is made at the first call: RSA of 3072 bits with a certificate of ten years that
// it has signed itself.
func (s *Service) KeyPair(ctx context.Context, name string) (*KeyMaterial, error) {
	if name == "" {
		return s.ownPair(ctx)
	}
	var id string
	var rec keyPairRecord
	err := s.Store.View(ctx, func(tx storage.Tx) error {
		var err error
		id, rec, err = findPair(tx, name)
		return err
	})
	if errors.Is(err, storage.ErrNotFound) {
		return nil, ErrNoKeyPair
	}
	if err != nil {
		return nil, err
	}
	return s.material(id, rec)
}

// findPair returns the pair of this name, or of this id: no name has the form of an id.
func findPair(tx storage.Tx, name string) (id string, rec keyPairRecord, err error) {
	id = name
	if !isUUID(name) {
		if id, err = keyNames.Get(tx, name); err != nil {
			return "", rec, err
		}
	}
	rec, err = keyPairs.Get(tx, id)
	return id, rec, err
}

func isUUID(s string) bool { return len(s) == 36 && uuid.Validate(s) == nil }

// material opens and parses a record.
func (s *Service) material(id string, rec keyPairRecord) (*KeyMaterial, error) {
	same := slices.Concat(rec.Private, rec.Public, []byte(rec.Name))
	s.pairs.mu.Lock()
	known, ok := s.pairs.known[id]
	s.pairs.mu.Unlock()
	if ok && bytes.Equal(known.record, same) {
		return known.KeyMaterial, nil
	}
	m, err := s.open(id, rec)
	if err != nil {
		return nil, err
	}
	s.pairs.mu.Lock()
	defer s.pairs.mu.Unlock()
	if s.pairs.known == nil || len(s.pairs.known) > 2*maxKeyPairs {
		s.pairs.known = map[string]cachedKey{}
	}
	s.pairs.known[id] = cachedKey{same, m}
	return m, nil
}

func (s *Service) open(id string, rec keyPairRecord) (*KeyMaterial, error) {
	m := &KeyMaterial{ID: id, Name: rec.Name, Type: rec.Type}
	var err error
	if rec.Certificate {
		if m.Certificate, err = x509.ParseCertificate(rec.Public); err == nil {
			m.PublicKey = m.Certificate.PublicKey
		}
	} else {
		m.PublicKey, err = x509.ParsePKIXPublicKey(rec.Public)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: key pair %s: %w", storage.ErrCorrupt, id, err)
	}
	if len(rec.Private) == 0 {
		return m, nil
	}
	der, err := s.Keyring.Open(keyPurpose(id), rec.Private)
	if err != nil {
		return nil, fmt.Errorf("key pair %s: %w (is encryption_key the one that sealed it?)", id, err)
	}
	key, err := x509.ParsePKCS8PrivateKey(der)
	if err != nil { // not wrapped: an error of the parser could repeat what it read
		return nil, fmt.Errorf("%w: key pair %s", storage.ErrCorrupt, id)
	}
	signer, ok := key.(crypto.Signer)
	if !ok {
		return nil, fmt.Errorf("%w: key pair %s", storage.ErrCorrupt, id)
	}
	m.Key = signer
	return m, nil
}

func keyPurpose(id string) string { return "config_key_pair/" + id }

// KeyPairs returns every key pair as it is answered, in the order of their names. Our own is not among them.
func (s *Service) KeyPairs(tx storage.Tx) ([]KeyPair, error) {
	out := []KeyPair{}
	for e, err := range keyNames.Scan(tx, storage.Range{}) {
		if err != nil {
			return nil, err
		}
		rec, err := keyPairs.Get(tx, e.Value)
		if err != nil {
			return nil, err
		}
		out = append(out, rec.shown(e.Value))
	}
	return out, nil
}

// shown is the pair as it is answered: private_key is always empty.
func (r keyPairRecord) shown(id string) KeyPair {
	return KeyPair{ID: id, Name: r.Name, KeyType: r.Type, PublicKey: encodePublic(r.Public, r.Certificate)}
}
