package caddymodule

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/authz/dpop"
	"github.com/gatehouse-id/gatehouse/authz/keys"
	"github.com/gatehouse-id/gatehouse/caddymodule/metrics"
	"github.com/gatehouse-id/gatehouse/identity/lookup"
	"github.com/gatehouse-id/gatehouse/internal/cluster"
	"github.com/gatehouse-id/gatehouse/internal/decision"
	"github.com/gatehouse-id/gatehouse/internal/event"
	"github.com/gatehouse-id/gatehouse/internal/refusal"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/internal/tally"
	"github.com/gatehouse-id/gatehouse/storage"
	"github.com/gatehouse-id/gatehouse/storage/transfer"
)

// Two pools hold what outlives a configuration. At a reload the new configuration starts before the old one is cleaned
// up, and finds the store open, with its workers and counters. A store closes with its last configuration, after its
// vaults.
var (
	stores = caddy.NewUsagePool() // place of the store -> *openStore
	vaults = caddy.NewUsagePool() // place, keys and hash cost -> *vault
)

// openStore is a store that configurations share.
type openStore struct {
	storage.Store
	node    *cluster.Node
	options string
	metrics *metrics.Metrics
	pace    *beginPace
	keeper  *event.Keeper // of the store's events
	refused *refusal.Recorder
	decided *decision.Recorder
	proofs  *dpop.Memory
	shared  bool // several processes can use the store
	log     *zap.Logger

	recorder atomic.Pointer[event.Recorder] // of the newest configuration; nil: none has started yet

	stop    context.CancelFunc // ends the keeper and the recorder
	stopped chan struct{}      // closed when they have ended
}

// reopener is a store that opens itself again after a failure.
type reopener interface {
	OnReopen(tell func(failure error))
}

// What one node of a store does for all of them. (docs/cluster.md#workers)
const (
	roleEvents = "events"     // seals and collects events
	roleKeys   = "keys"       // makes successors of signing keys
	roleReseal = "reseal"     // seals with the first encryption key what an older one has sealed
	roleCounts = "statistics" // moves what has happened into the counters
	roleLists  = "lists"      // keeps the indexes by which persons are found
)

func newOpenStore(store storage.Store, node *cluster.Node, options string, log *zap.Logger) *openStore {
	keeper := event.NewKeeper(store, nil, log.Named("events"))
	keeper.Links = node.HasLanes
	o := &openStore{
		Store: store, node: node, options: options, metrics: metrics.New(store, keeper), pace: newBeginPace(time.Now), keeper: keeper, log: log, stopped: make(chan struct{}),
	}
	if r, ok := store.(reopener); ok {
		r.OnReopen(o.reopened)
	}
	o.refused = refusal.NewRecorder(store, o.metrics, nil, nil, log.Named("refusals"))
	o.decided = decision.NewRecorder(store, nil, log.Named("decisions"))
	_, o.shared = store.(storage.Shared)
	o.proofs = dpop.NewMemory(store, time.Now, log.Named("proofs"))
	o.metrics.Unkept = o.refused.Lost
	o.metrics.Sites = tally.NewBuffer(store, nil, rand.Reader, log.Named("statistics"))
	work, stop := context.WithCancel(context.Background())
	o.stop = stop
	go func() {
		defer close(o.stopped)
		joined, leave := context.WithCancel(context.Background())
		var node, workers sync.WaitGroup
		node.Go(func() { o.node.Run(joined) })
		workers.Go(func() { o.node.Lead(work, roleEvents, o.keeper.Run) })
		workers.Go(func() { o.refused.Run(work) })
		workers.Go(func() { o.decided.Run(work) })
		workers.Go(func() { o.proofs.Run(work) })
		workers.Go(func() { o.metrics.Sites.Run(work) })
		workers.Go(func() { o.node.Lead(work, roleCounts, tally.New(store, nil, log.Named("statistics")).Run) })
		workers.Go(func() { o.node.Lead(work, roleLists, lookup.New(store, nil, log.Named("lists")).Run) })
		workers.Wait()
		leave()
		node.Wait()
	}()
	return o
}

// Destruct ends the workers and closes the store when the last configuration has let go of it.
func (o *openStore) Destruct() error {
	o.stop()
	<-o.stopped
	return o.Close()
}

// vault belongs to a store and one set of encryption keys. It holds the keys that sign tokens, the worker that rotates
// them, and the bounded hasher of passwords. A reload that changes the keys makes another vault.
type vault struct {
	keyring *secret.Keyring
	keys    *keys.Keys
	hasher  *secret.Hasher
	stop    context.CancelFunc
	stopped chan struct{}
}

// Destruct ends the worker and waits for it.
func (v *vault) Destruct() error {
	v.stop()
	<-v.stopped
	return nil
}

// core is what one configuration holds of the pools. Call release once to give it back.
type core struct {
	*openStore
	*vault

	place, vaultKey string
}

// openCore takes a store and a vault from the pools, and opens them if they are not there. On an error it holds
// nothing.
func openCore(ctx context.Context, s Storage, keys [][]byte, cost secret.HashCost, log *zap.Logger) (*core, error) {
	if n := cores(); cost.Concurrency <= 0 {
		cost.Concurrency = max(1, n-1) // hashes leave one for everything else
	}
	paceCollector()
	warnOfNewStore(s, log)
	if len(keys) == 0 {
		key, err := storedKey(s, log)
		if err != nil {
			return nil, err
		}
		keys = [][]byte{key}
	}
	c := &core{place: s.Place()}
	pooled, loaded, err := stores.LoadOrNew(c.place, func() (caddy.Destructor, error) {
		store, err := s.Open(ctx, log.Named("storage"))
		if errors.Is(err, fs.ErrPermission) {
			return nil, fmt.Errorf("storage %s: this user cannot write to the directory of the storage: make it writable, or name another with `storage`: %w", s.Place(), err)
		}
		if err != nil {
			return nil, err
		}
		node, err := join(ctx, store, log)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("storage %s: %w", s.Place(), err), store.Close())
		}
		return newOpenStore(store, node, s.Options(), log), nil
	})
	if err != nil {
		return nil, err
	}
	c.openStore = pooled.(*openStore) //nolint:forcetypeassert // nothing else is stored
	if loaded && c.options != s.Options() {
		_, err := stores.Delete(c.place)
		return nil, errors.Join(fmt.Errorf("storage %s is open with other options (%s, now %s): restart to change them", c.place, c.options, s.Options()), err)
	}
	if err := c.openVault(ctx, keys, cost, log); err != nil {
		_, closeErr := stores.Delete(c.place)
		return nil, errors.Join(err, closeErr)
	}
	return c, nil
}

// join makes this process a node of the store. It refuses a store with a part of a copy, and one of a newer version.
func join(ctx context.Context, store storage.Store, log *zap.Logger) (*cluster.Node, error) {
	if err := store.View(ctx, transfer.Complete); err != nil {
		return nil, err
	}
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return cluster.Join(ctx, store, cluster.Options{Host: host, Version: metrics.Version(), Log: log.Named("cluster")})
}

func (c *core) openVault(ctx context.Context, sealing [][]byte, cost secret.HashCost, log *zap.Logger) error {
	ring, err := secret.NewKeyring(sealing...)
	if err != nil {
		return err
	}
	fingerprint := sha256.New()
	for _, key := range sealing {
		fingerprint.Write(key)
	}
	c.vaultKey = fmt.Sprintf("%s %s %v", c.place, hex.EncodeToString(fingerprint.Sum(nil)), cost)
	node := c.node
	pooled, _, err := vaults.LoadOrNew(c.vaultKey, func() (caddy.Destructor, error) {
		signing, err := keys.New(ctx, c.Store, ring, time.Now, rand.Reader, log.Named("keys"))
		if err != nil {
			return nil, fmt.Errorf("signing keys: %w (is encryption_key the one that sealed them?)", err)
		}
		work, stop := context.WithCancel(context.Background())
		v := &vault{keyring: ring, keys: signing, hasher: secret.NewHasher(cost), stop: stop, stopped: make(chan struct{})}
		go func() {
			defer close(v.stopped)
			var workers sync.WaitGroup
			workers.Go(func() { signing.Run(work) })
			workers.Go(func() { node.Lead(work, roleKeys, signing.Renew) })
			workers.Wait()
		}()
		return v, nil
	})
	if err != nil {
		return err
	}
	c.vault = pooled.(*vault) //nolint:forcetypeassert // nothing else is stored
	c.metrics.Watch(c.hasher)
	return nil
}

// release gives the vault and the store back.
func (c *core) release() error {
	_, err := vaults.Delete(c.vaultKey)
	_, storeErr := stores.Delete(c.place)
	return errors.Join(err, storeErr)
}

// warnOfNewStore tells of a store that will be made where its key file says that there was one before: the directory
// may have been removed, or its disk not mounted.
func warnOfNewStore(s Storage, log *zap.Logger) {
	kf, ok := s.(KeyFiler)
	if !ok {
		return
	}
	path, exists := kf.KeyFile()
	if _, err := os.Stat(path); err == nil && !exists {
		log.Warn("there is no storage, but the key of one: a new, empty storage is made. Was its directory removed, or is its disk not mounted?",
			zap.String("storage", s.Place()), zap.String("key", path))
	}
}

// storedKey returns the key that lies next to the store. It makes one when the store is new too.
func storedKey(s Storage, log *zap.Logger) ([]byte, error) {
	kf, ok := s.(KeyFiler)
	if !ok {
		return nil, fmt.Errorf("encryption_key is required with this storage (%s)", s.Place())
	}
	path, needed := kf.KeyFile()
	key, err := readKeyFile(path)
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.ENOTDIR) {
		return nil, notWritable(s, path, err)
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return key, err
	}
	if needed {
		return nil, fmt.Errorf("the storage exists, and its key %s is missing: put the file back, or give the key as encryption_key", path)
	}
	key = make([]byte, secret.KeySize)
	if _, err := io.ReadFull(rand.Reader, key); err != nil {
		return nil, err
	}
	if err := writeKeyFile(path, key); err != nil {
		return nil, notWritable(s, path, err)
	}
	log.Info("made an encryption key: keep a copy of it apart from the backups", zap.String("file", path))
	return readKeyFile(path)
}

// notWritable is the error of a storage whose directory cannot be made or used.
func notWritable(s Storage, path string, err error) error {
	return fmt.Errorf("storage %s: its key cannot be read or made in %s by this user: make that a directory that is writable, or name another with `storage`: %w",
		s.Place(), filepath.Dir(path), err)
}

func readKeyFile(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("encryption key %s can be read by others: chmod 600 it", path)
	}
	raw, err := os.ReadFile(path) //nolint:gosec // the operator's own path
	if err != nil {
		return nil, err
	}
	key, err := parseKey(strings.TrimSpace(string(raw)))
	if err != nil {
		return nil, fmt.Errorf("encryption key %s: %w", path, err)
	}
	return key, nil
}

// writeKeyFile writes a complete and synced file, or nothing. An existing file stays.
func writeKeyFile(path string, key []byte) error {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, filepath.Base(path)+".*") // mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) //nolint:errcheck // linked below, or not needed
	_, err = f.WriteString(base64.StdEncoding.EncodeToString(key) + "\n")
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Link(f.Name(), path); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	d, err := os.Open(dir) //nolint:gosec // the operator's own path
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
