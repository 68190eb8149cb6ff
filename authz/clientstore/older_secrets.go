package clientstore

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/authz/client"
	"github.com/gatehouse-id/gatehouse/storage"
)

// The secrets of stored clients are kept as hashes, each made with the encryption key that was the first one then. When
// a client uses a secret, its hash is replaced by one of the present first key. (docs/operation.md#rotate-keys)

// hash is the keyed hash of a secret in the form in which it is stored.
func (s *secretChecks) hash(id, text string) string {
	sum := s.keys[0].MAC("client", id, text)
	return client.KeyedHashPrefix + s.name + ":" + base64.RawURLEncoding.EncodeToString(sum[:])
}

// isOlder reports whether a keyed hash is not one of the first key.
func (s *secretChecks) isOlder(hash string) bool {
	text, keyed := strings.CutPrefix(hash, client.KeyedHashPrefix)
	return keyed && !strings.HasPrefix(text, s.name+":")
}

// renewed returns hashes with those of this secret replaced where an older key of the ring has made them, or they have
// no name of a key. nil: nowhere
func (s *secretChecks) renewed(id, text string, hashes []string) (out []string) {
	for i, h := range hashes {
		sum, ok := keyedHash(h)
		if !ok || !s.isOlder(h) {
			continue
		}
		for _, key := range s.keys {
			if mac := key.MAC("client", id, text); compare(mac[:], sum) == 1 {
				if out == nil {
					out = slices.Clone(hashes)
				}
				out[i] = s.hash(id, text)
			}
		}
	}
	return out
}

// renewHash stores the hash of a right secret under the first key, if it was made with an older one. A failure refuses
// no one: the older key is still there, and the next use tries again.
func (r *Registry) renewHash(req *http.Request, p identification) {
	ctx, cancel := verdictContext(req)
	defer cancel()
	if err := r.tryRenewHash(ctx, p); err != nil {
		r.deps.Log.Warn("secret of a client not hashed with the first encryption key; its next use tries again",
			zap.String("client_id", p.id), zap.Error(err))
	}
}

func (r *Registry) tryRenewHash(ctx context.Context, p identification) error {
	var before clientRecord
	var found bool
	err := r.deps.Store.View(ctx, func(tx storage.Tx) (err error) {
		before, found, err = clients.Find(tx, p.id)
		return err
	})
	if err != nil || !found {
		return err
	}
	var c client.Client
	if err := json.Unmarshal(before.Client, &c); err != nil {
		return fmt.Errorf("decode client: %w", err)
	}
	if c.SecretHashes = r.checks.renewed(p.id, p.secret, c.SecretHashes); c.SecretHashes == nil {
		return nil
	}
	raw, err := json.Marshal(c)
	if err != nil {
		return fmt.Errorf("encode client: %w", err)
	}
	return r.deps.Store.Update(ctx, func(tx storage.Tx) error {
		rec, found, err := clients.Find(tx, p.id)
		if err != nil || !found || !bytes.Equal(rec.Client, before.Client) { // changed or removed meanwhile
			return err
		}
		rec.Client = raw
		return clients.Put(tx, p.id, rec, never)
	})
}

// OlderSecrets returns the ids of the stored clients with a secret whose hash the first encryption key has not made.
// Each use of such a secret, and a new one in its place, ends that.
func (r *Registry) OlderSecrets(ctx context.Context) (ids []string, err error) {
	err = r.deps.Store.View(ctx, func(tx storage.Tx) error {
		ids = nil
		for e, err := range clients.Scan(tx, storage.Range{}) {
			if err != nil {
				return err
			}
			reg, err := r.parse(e.Key, e.Value)
			if err != nil {
				return err
			}
			if slices.ContainsFunc(reg.client.SecretHashes, r.checks.isOlder) {
				ids = append(ids, e.Key)
			}
		}
		return nil
	})
	return ids, err
}
