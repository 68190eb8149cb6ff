// Package shared holds what survives a reload: the open store, background workers, keys and counters. It also sets the
// limits of memory and processors for the process.
package shared

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/authz/clientstore"
	"github.com/gatehouse-id/gatehouse/authz/dpop"
	"github.com/gatehouse-id/gatehouse/authz/keys"
	"github.com/gatehouse-id/gatehouse/caddymodule/metrics"
	"github.com/gatehouse-id/gatehouse/identity/personindex"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/botauth"
	"github.com/gatehouse-id/gatehouse/internal/calllog"
	"github.com/gatehouse-id/gatehouse/internal/cluster"
	"github.com/gatehouse-id/gatehouse/internal/decisionlog"
	"github.com/gatehouse-id/gatehouse/internal/denial"
	"github.com/gatehouse-id/gatehouse/internal/limit"
	"github.com/gatehouse-id/gatehouse/internal/newest"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/internal/stats"
	"github.com/gatehouse-id/gatehouse/internal/usage"
	"github.com/gatehouse-id/gatehouse/storage"
	"github.com/gatehouse-id/gatehouse/storage/transfer"
)

// Two pools keep everything that outlives a configuration. At a reload the new configuration starts before the old one
// is cleaned up, and finds the store open, with its workers and counters. A store closes with its last configuration,
// after its vaults.
var (
	Stores = caddy.NewUsagePool() // place of the store -> *OpenStore
	vaults = caddy.NewUsagePool() // place, keys and hash cost -> *vault
)

// Unclosed counts the stores that are open, and those that no configuration uses any more and are still being closed.
var Unclosed atomic.Int64

// OpenStore is a store that configurations share.
type OpenStore struct {
	storage.Store
	Node    *cluster.Node
	options string
	Metrics *metrics.Metrics
	Pace    *beginPace
	Keeper  *audit.Keeper // of the store's events
	Refused *denial.Recorder
	Decided *decisionlog.Recorder
	Proofs  *dpop.Memory
	Limits  *limit.Counters
	Calls   *calllog.Log
	Usage   *usage.Counter
	Robots  *botauth.Verifier // remembers the signatures that count once
	Shared  bool              // several processes can use the store
	log     *zap.Logger

	Recorder newest.Of[*audit.Recorder] // nil: no configuration has started yet
	Contact  newest.Of[TellContact]     // likewise

	stop    context.CancelFunc // ends the keeper and the recorder
	stopped chan struct{}      // closed when they have ended
}

// reopener is a store that opens itself again after a failure.
type reopener interface {
	OnReopen(tell func(failure error))
}

// The work that one node of a store does for all of them. (docs/cluster.md#workers)
const (
	roleEvents = "events"         // seals and collects events
	roleKeys   = "keys"           // makes successors of signing keys
	RoleReseal = "reseal"         // seals data of older encryption keys again with the first one
	RoleManage = "administration" // does work on many persons, and ends blocks that have expired
	roleCounts = "statistics"     // moves what has happened into the counters
	roleLists  = "lists"          // keeps the indexes by which persons are found
)

func newOpenStore(store storage.Store, node *cluster.Node, options string, log *zap.Logger) *OpenStore {
	Unclosed.Add(1)
	keeper := audit.NewKeeper(store, nil, log.Named("events"))
	keeper.Links = node.HasLanes
	o := &OpenStore{
		Store: store, Node: node, options: options, Metrics: metrics.New(store, keeper), Pace: newBeginPace(time.Now), Keeper: keeper,
		log: log, stopped: make(chan struct{}),
	}
	if r, ok := store.(reopener); ok {
		r.OnReopen(o.reopened)
	}
	o.Refused = denial.NewRecorder(store, o.Metrics, nil, nil, log.Named("refusals"))
	o.Decided = decisionlog.NewRecorder(store, nil, log.Named("decisions"))
	_, o.Shared = store.(storage.Shared)
	o.Proofs = dpop.NewMemory(store, dpop.MemoryConfig{Now: time.Now, Log: log.Named("proofs")})
	o.Limits = limit.NewCounters(store, nil, log.Named("limits"))
	o.Limits.Quotas.Announce, o.Limits.Quotas.Nodes = o.announce, node.Count
	o.Calls = calllog.New(store, nil, log.Named("calls"))
	o.Calls.Recorder, o.Calls.Lane = o.Recorder.Load, node.Lane
	o.Metrics.Calls, o.Metrics.Limits = o.Calls.Stats, o.Limits.Fill
	o.Robots = botauth.New(time.Now)
	o.Usage = usage.New(store, nil, log.Named("usage"))
	o.Metrics.Unkept = o.Refused.Lost
	o.Metrics.Sites = stats.NewBuffer(store, nil, rand.Reader, log.Named("statistics"))
	work, stop := context.WithCancel(context.Background())
	o.stop = stop
	go func() {
		defer close(o.stopped)
		joined, leave := context.WithCancel(context.Background())
		var node, workers sync.WaitGroup
		node.Go(func() { o.Node.Run(joined) })
		workers.Go(func() { o.Node.Lead(work, roleEvents, o.Keeper.Run) })
		workers.Go(func() { o.Refused.Run(work) })
		workers.Go(func() { o.Decided.Run(work) })
		workers.Go(func() { o.Proofs.Run(work) })
		workers.Go(func() { o.Metrics.Sites.Run(work) })
		workers.Go(func() { o.Limits.Run(work) })
		workers.Go(func() { o.Calls.Run(work) })
		workers.Go(func() { o.Usage.Run(work) })
		workers.Go(func() { o.Node.Lead(work, roleCounts, stats.New(store, nil, log.Named("statistics")).Run) })
		workers.Go(func() { o.Node.Lead(work, roleLists, personindex.New(store, nil, log.Named("lists")).Run) })
		workers.Wait()
		leave()
		node.Wait()
	}()
	return o
}

// Destruct ends the workers and closes the store when the last configuration has released it.
func (o *OpenStore) Destruct() error {
	defer Unclosed.Add(-1)
	o.stop()
	<-o.stopped
	return o.Close()
}

// vault belongs to a store and one set of encryption keys. It holds the keys that sign tokens, the worker that rotates
// them, and the bounded hasher of passwords. A reload that changes the keys makes another vault.
type vault struct {
	Keyring *secret.Keyring
	Keys    *keys.Keys
	Hasher  *secret.Hasher
	// SlowSecrets remembers secrets of clients under these keys.
	SlowSecrets *clientstore.SlowSecrets
	stop        context.CancelFunc
	stopped     chan struct{}
}

// Destruct ends the worker and waits for it.
func (v *vault) Destruct() error {
	v.stop()
	<-v.stopped
	return nil
}

// Core is the share of one configuration in the pools. Call Release once to give it back.
type Core struct {
	*OpenStore
	*vault

	Place    string // of the store
	vaultKey string
}

// Open takes a store and a vault from the pools, and opens them if they are not there. On an error it keeps nothing.
func Open(ctx context.Context, s Storage, keys [][]byte, cost secret.HashCost, log *zap.Logger) (*Core, error) {
	if n := cores(); cost.Concurrency <= 0 {
		cost.Concurrency = max(1, n-1) // hashes leave one for everything else
	}
	paceCollector()
	warnOfNewStore(s, len(keys) > 0, log)
	if len(keys) == 0 {
		key, err := storedKey(s, log)
		if err != nil {
			return nil, err
		}
		keys = [][]byte{key}
	}
	c := &Core{Place: s.Place()}
	pooled, loaded, err := Stores.LoadOrNew(c.Place, func() (caddy.Destructor, error) {
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
		o := newOpenStore(store, node, s.Options(), log)
		if err := o.Limits.Quotas.Load(ctx); err != nil {
			return nil, errors.Join(fmt.Errorf("storage %s: %w", s.Place(), err), o.Destruct())
		}
		return o, nil
	})
	if err != nil {
		return nil, err
	}
	c.OpenStore = pooled.(*OpenStore) //nolint:forcetypeassert // nothing else is stored
	if loaded && c.options != s.Options() {
		_, err := Stores.Delete(c.Place)
		return nil, errors.Join(fmt.Errorf("storage %s is open with other options (%s, now %s): restart to change them", c.Place,
			c.options, s.Options()), err)
	}
	if err := c.openVault(ctx, keys, cost, log); err != nil {
		_, closeErr := Stores.Delete(c.Place)
		return nil, errors.Join(err, closeErr)
	}
	return c, nil
}

// join makes this process a node of the store. It refuses an incompletely copied store, and one of a newer version.
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

func (c *Core) openVault(ctx context.Context, sealing [][]byte, cost secret.HashCost, log *zap.Logger) error {
	ring, err := secret.NewKeyring(sealing...)
	if err != nil {
		return err
	}
	fingerprint := sha256.New()
	for _, key := range sealing {
		fingerprint.Write(key)
	}
	c.vaultKey = fmt.Sprintf("%s %s %v", c.Place, hex.EncodeToString(fingerprint.Sum(nil)), cost)
	node := c.Node
	pooled, _, err := vaults.LoadOrNew(c.vaultKey, func() (caddy.Destructor, error) {
		signing, err := keys.New(ctx, c.Store, ring, time.Now, rand.Reader, log.Named("keys"))
		if err != nil {
			return nil, fmt.Errorf("signing keys: %w (is encryption_key the one that sealed them?)", err)
		}
		work, stop := context.WithCancel(context.Background())
		v := &vault{
			Keyring: ring, Keys: signing, Hasher: secret.NewHasher(cost), SlowSecrets: clientstore.NewSlowSecrets(), stop: stop,
			stopped: make(chan struct{}),
		}
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
	c.Metrics.Watch(c.Hasher)
	return nil
}

// Release gives the vault and the store back.
func (c *Core) Release() error {
	_, err := vaults.Delete(c.vaultKey)
	_, storeErr := Stores.Delete(c.Place)
	return errors.Join(err, storeErr)
}
