// Package keystore keeps the key pairs and certificates with which login methods sign, decrypt and authenticate: it
// checks each one when it is added, seals its private key, and serves the certificates API. (identity service document,
// "KeyPair", "Certificates")
package keystore

import (
	"bytes"
	"context"
	"crypto"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/jsonapi"
	"github.com/gatehouse-id/gatehouse/internal/mldsa"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

const maxKeyPairs = 200

var (
	// ErrUnknown says that no key pair has the name or id.
	ErrUnknown = errors.New("no such key pair")
	// ErrNoPrivateKey says that a key pair is a certificate or public key alone.
	ErrNoPrivateKey = errors.New("the key pair has no private key")
	// ErrKind says that a keytab stands where a key pair is needed, or a key pair where a keytab is.
	ErrKind = errors.New("the key pair is of another type")
	// ErrStage says that the next keys of a pair are there already, or that there are none to switch to or to retire.
	ErrStage = errors.New("the key pair is at another stage of its rotation")
)

// KeyPair is a key pair on the wire. (identity service document, KeyPair)
type KeyPair struct {
	// ID is chosen by Gatehouse. It is refused where a single key pair is added.
	ID      string `json:"id,omitempty"`
	Name    string `json:"name" rest:"required"`
	KeyType string `json:"key_type" rest:"required"`
	// PrivateKey and PublicKey are PEM in Base64, and the private key of a KEYTAB is the file in Base64. It is never
	// answered, and an empty one keeps what is stored.
	PrivateKey jsonapi.Secret `json:"private_key" rest:"required"`
	PublicKey  string         `json:"public_key" rest:"required"`
}

// Material is a key pair to work with. It must not be changed.
type Material struct {
	ID   string // "": Gatehouse's own pair
	Name string
	Type string // RSA, EC, ML-DSA, CERTIFICATE or KEYTAB
	// Keytab is the file of a KEYTAB, which has none of the following.
	Keytab secret.String
	// Certificate is nil for a public key without one.
	Certificate *x509.Certificate
	PublicKey   crypto.PublicKey
	Key         crypto.Signer // nil for a certificate or public key alone
	// Others are the keys that are published next to these, and decrypt if they can: those that take their place soon,
	// and the former ones.
	Others []*Material
}

// Deps are the dependencies of the service. All of it is required.
type Deps struct {
	Store   storage.Store
	Keyring *secret.Keyring
	Events  *audit.Recorder
	Origin  func(*http.Request) audit.Origin // says where a request came from
	Log     *zap.Logger
	Now     func() time.Time
	Random  io.Reader
}

// Named is the id and name of a stored key pair.
type Named struct{ ID, Name string }

// Finish ends a change of key pairs in its transaction. (Owner.Change)
type Finish func(tx storage.Tx, replaced ...Named) error

// Owner is the configuration that the key pairs are part of.
type Owner interface {
	// Change prepares a change of key pairs by the caller of ctx. The transaction that makes it calls finish last, with
	// the stored pairs that get a key or certificate from outside, and ends with its error. finish writes a new version
	// of the configuration, so everything derived from it is read again.
	Change(ctx context.Context, by audit.Actor) (finish Finish, err error)
	// Uses returns the places in the configuration that name a key pair, as tx sees them.
	Uses(tx storage.Tx, id, name string) ([]string, error)
}

// Service reads and changes the key pairs. Several may share one store at a time, such as during a reload: each sees
// what the others write. It is safe for concurrent use.
type Service struct {
	store   storage.Store
	keyring *secret.Keyring
	events  *audit.Recorder
	origin  func(*http.Request) audit.Origin
	log     *zap.Logger
	now     func() time.Time
	random  io.Reader
	owner   Owner
	users   []UsedBy
	signers []UsedBy

	making sync.Mutex // held while Gatehouse's own pair is made
	mu     sync.Mutex
	parsed map[string]parsedRecord // guarded by mu; by id
}

// parsedRecord is a record that has been opened and parsed.
type parsedRecord struct {
	source []byte // of the record: what reports whether it is still the same
	*Material
}

// New returns a service for the key pairs of a configuration.
func New(d Deps, owner Owner) *Service {
	return &Service{
		store: d.Store, keyring: d.Keyring, events: d.Events, origin: d.Origin, log: d.Log, now: d.Now, random: d.Random, owner: owner,
		parsed: map[string]parsedRecord{},
	}
}

// Get returns the key pair of a name or id. "" is Gatehouse's own, which is made at the first call: RSA of 3072 bits
// with a self-signed certificate of ten years.
func (s *Service) Get(ctx context.Context, name string) (*Material, error) {
	if name == "" {
		return s.own(ctx)
	}
	var id string
	var rec record
	err := s.store.View(ctx, func(tx storage.Tx) error {
		var err error
		id, rec, err = find(tx, name)
		return err
	})
	if errors.Is(err, storage.ErrNotFound) {
		return nil, ErrUnknown
	}
	if err != nil {
		return nil, err
	}
	return s.material(id, rec)
}

// A Use is what a key pair is named for.
type Use int

// The uses of key pairs.
const (
	Public  Use = iota // its certificate or public key, at least
	Private            // its private key
	Tickets            // its keytab
)

// CheckNamed returns nil if a key pair has this name or id, and what its use needs. Errors: ErrUnknown,
// ErrNoPrivateKey, ErrKind.
func (s *Service) CheckNamed(tx storage.Tx, name string, use Use) error {
	_, rec, err := find(tx, name)
	switch {
	case errors.Is(err, storage.ErrNotFound):
		return ErrUnknown
	case err != nil:
		return err
	case (use == Tickets) != (rec.Type == Keytab):
		return ErrKind
	case use == Private && len(rec.Private) == 0:
		return ErrNoPrivateKey
	}
	return nil
}

// find returns the pair of this name, or of this id: no name has the form of an id.
func find(tx storage.Tx, name string) (id string, rec record, err error) {
	id = name
	if !isID(name) {
		if id, err = keyNames.Get(tx, name); err != nil {
			return "", rec, err
		}
	}
	rec, err = keyPairs.Get(tx, id)
	return id, rec, err
}

func isID(s string) bool { return len(s) == 36 && uuid.Validate(s) == nil }

// newID returns a UUID. (RFC 9562, version 4)
func (s *Service) newID() (string, error) {
	id, err := uuid.NewRandomFromReader(s.random)
	return id.String(), err
}

// material opens and parses a record, once for each state of it.
func (s *Service) material(id string, rec record) (*Material, error) {
	source := slices.Concat(rec.Private, rec.Public, []byte(rec.Name))
	for _, beside := range rec.spares() {
		source = slices.Concat(source, beside.Private, beside.Public)
	}
	s.mu.Lock()
	known, ok := s.parsed[id]
	s.mu.Unlock()
	if ok && bytes.Equal(known.source, source) {
		return known.Material, nil
	}
	m, err := s.open(id, rec)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.parsed) > 2*maxKeyPairs {
		clear(s.parsed)
	}
	s.parsed[id] = parsedRecord{source, m}
	return m, nil
}

func (s *Service) open(id string, rec record) (*Material, error) {
	m := &Material{ID: id, Name: rec.Name, Type: rec.Type}
	var err error
	if rec.Type == Keytab {
		var raw []byte
		raw, err = s.private(id, rec)
		m.Keytab = secret.New(string(raw))
		return m, err
	}
	if rec.Certificate {
		if m.Certificate, err = x509.ParseCertificate(rec.Public); err == nil {
			m.PublicKey = m.Certificate.PublicKey
		}
	} else {
		m.PublicKey, err = mldsa.ParsePKIXPublicKey(rec.Public)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: key pair %s: %w", storage.ErrCorrupt, id, err)
	}
	if len(rec.Private) == 0 {
		return m, nil
	}
	der, err := s.private(id, rec)
	if err != nil {
		return nil, err
	}
	key, err := mldsa.ParsePKCS8PrivateKey(der)
	if err != nil { // not wrapped: an error of the parser could repeat what it read
		return nil, fmt.Errorf("%w: key pair %s", storage.ErrCorrupt, id)
	}
	signer, ok := key.(crypto.Signer)
	if !ok {
		return nil, fmt.Errorf("%w: key pair %s", storage.ErrCorrupt, id)
	}
	m.Key = signer
	for _, beside := range rec.spares() {
		other, err := s.open(id, rec.as(beside))
		if err != nil { // the keys in use do not depend on them
			s.log.Error("the next or former keys of a key pair cannot be read, and are left out", zap.String("key_pair", rec.Name), zap.Error(err))
			continue
		}
		m.Others = append(m.Others, other)
	}
	return m, nil
}

// private is the private key or keytab of a record.
func (s *Service) private(id string, rec record) ([]byte, error) {
	raw, err := s.keyring.Open(sealPurpose(id), rec.Private)
	if err != nil {
		return nil, fmt.Errorf("key pair %s: %w (is encryption_key the one that sealed it?)", id, err)
	}
	return raw, nil
}

// sealPurpose binds a sealed private key to its key pair.
func sealPurpose(id string) string { return "config_key_pair/" + id }

// List returns every key pair as it is answered, in the order of their names, without Gatehouse's own.
func (s *Service) List(tx storage.Tx) ([]KeyPair, error) {
	list, err := allPairs(tx)
	return answers(list), err
}

// answer is the pair as it is answered: private_key is always empty.
func (r record) answer(id string) KeyPair {
	return KeyPair{ID: id, Name: r.Name, KeyType: r.Type, PublicKey: encodePublic(r.Public, r.Certificate)}
}
