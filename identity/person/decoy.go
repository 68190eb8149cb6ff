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
	decoySample  = 500 // passwords that are looked through at the start
	decoyPurpose = "gatehouse decoy v1"
)

// decoys are hashes that other systems have made, one of each kind and cost that is known here. Imported ones cost other times than ours until
// they are replaced, so a name that is nobody's is held against one of them as often as against one of ours: by a choice that stays with the
// name, and that nobody can foretell.
type decoys struct {
	key []byte

	mu   sync.RWMutex // guards what follows
	kind map[string]string
}

// learn remembers a hash if it is the first of its kind, and not one of ours.
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

// of returns the hash that a name is held against that is nobody's. Empty: one of ours. Another kind that becomes known changes the choice for
// the names alone that it falls to.
func (d *decoys) of(name string) (phc string) {
	d.mu.RLock()
	defer d.mu.RUnlock()
	if len(d.kind) == 0 {
		return ""
	}
	if folded, err := Fold(name); err == nil {
		name = folded
	}
	most := secret.MAC(d.key, "", name)
	for kind, hash := range d.kind {
		if m := secret.MAC(d.key, kind, name); bytes.Compare(m, most) > 0 {
			most, phc = m, hash
		}
	}
	return phc
}

// learnDecoys looks which kinds of hashes there are.
func (s *Service) learnDecoys(ctx context.Context) error {
	return s.store.View(ctx, func(tx storage.Tx) error {
		for e, err := range Passwords.Scan(tx, storage.Range{Limit: decoySample}) {
			if err != nil {
				return err
			}
			s.decoys.learn(e.Value.PHC)
		}
		return nil
	})
}
