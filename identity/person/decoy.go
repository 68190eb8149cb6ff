package person

import (
	"bytes"
	"context"
	"sync"

	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

const (
	maxDecoys    = 8   // kinds of imported hashes
	decoySample  = 500 // passwords that are read at the start
	decoyPurpose = "gatehouse decoy v1"
)

// decoys are hashes made by other systems, one of each kind and cost. Checking an imported hash takes another time than
// checking one of this service. So the password for an unknown username is checked against one of these kinds, too. The
// choice depends on the name and a secret, so it stays the same and cannot be predicted.
type decoys struct {
	key []byte

	mu   sync.RWMutex // guards kind
	kind map[string]string
}

// learn remembers a hash of another system if it is the first of its kind.
func (d *decoys) learn(phc string) {
	kind := secret.ForeignKind(phc)
	if kind == "" {
		return
	}
	d.mu.RLock()
	_, known := d.kind[kind]
	full := len(d.kind) >= maxDecoys
	d.mu.RUnlock()
	if known || full {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.kind[kind] = phc
}

// of returns the hash for an unknown username, in the form of FoldTyped. Empty: a hash of this service. A new kind
// changes the choice only for the names that get the new kind.
func (d *decoys) of(name string) (phc string) {
	d.mu.RLock()
	defer d.mu.RUnlock()
	if len(d.kind) == 0 {
		return ""
	}
	most := secret.MAC(d.key, "", name)
	for kind, hash := range d.kind {
		if m := secret.MAC(d.key, kind, name); bytes.Compare(m, most) > 0 {
			most, phc = m, hash
		}
	}
	return phc
}

// learnDecoys reads which kinds of hashes are stored.
func (s *Service) learnDecoys(ctx context.Context) error {
	return s.deps.Store.View(ctx, func(tx storage.Tx) error {
		for e, err := range Passwords.Scan(tx, storage.Range{Limit: decoySample}) {
			if err != nil {
				return err
			}
			s.decoys.learn(e.Value.PHC)
		}
		return nil
	})
}
