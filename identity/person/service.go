// Package person stores people: profile, groups, password, and identities at providers. Each change is one transaction
// with its event and its notice. Packages above register hooks for what must happen when a person changes.
package person

import (
	"context"
	"io"
	"time"

	"go.uber.org/zap"
	"golang.org/x/time/rate"

	"github.com/gatehouse-id/gatehouse/identity/notify"
	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/depcache"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

// Config is the configuration of persons.
type Config struct {
	Partitions PartitionConfig
	// EmailUsernames: new usernames are e-mail addresses, except those that providers give.
	EmailUsernames bool
	// CommonPasswords allows passwords that are on the list of common ones, or repeat a name.
	CommonPasswords bool
	// SiteNames are the names of the site: passwords must not repeat them either.
	SiteNames []string
	// HasRole reports whether groups of a partition give a role in the admin console. nil: no groups do.
	HasRole func(partition string, groups []string) bool
}

// Deps are the dependencies of the service.
type Deps struct {
	Store storage.Store
	// Keyring derives the secret that chooses decoys, and the one under which compared passwords are remembered.
	Keyring *secret.Keyring
	// Hasher computes slow hashes, a bounded number at a time.
	Hasher *secret.Hasher
	Events *audit.Recorder
	// Units returns the settings as tx sees them.
	Units func(tx storage.Tx) (*settings.Units, error)
	// Notify sends e-mails. nil: none are sent.
	Notify notify.Sender
	// SMS sends text messages. nil: none are sent.
	SMS notify.SMSSender
	// Breached reports whether a password is known from a breach. nil: not checked, and the policy cannot demand it.
	Breached BreachCheck
	Log      *zap.Logger
	Now      func() time.Time
	Random   io.Reader
}

// Service keeps persons. It is safe for concurrent use; the hooks are set before it is used.
type Service struct {
	deps     Deps
	settings *depcache.One[*settings.Units]

	cfg    Config
	made   *secret.Hasher // a part of hasher, for new passwords: a directory sets thousands of them
	doubts *rate.Limiter  // bounds the events of breach checks that failed
	decoys decoys

	comparedKeys [][]byte // see compared; the first one makes new results

	watching       Watcher
	removeHooks    []removeHook
	changeHooks    []changeHook
	passwordHooks  []passwordHook
	welcomeHook    welcomeHook
	nameOfProvider func(id string) string
	kept           []string // usernames of the default partition, folded
}

// New returns a service for one configuration. Several can share a store, such as during a reload.
func New(ctx context.Context, cfg Config, d Deps) (*Service, error) {
	if err := cfg.Partitions.check(); err != nil {
		return nil, err
	}
	s := &Service{
		deps: d, settings: depcache.NewOne[*settings.Units](d.Store),
		cfg: cfg, made: d.Hasher.Part(), doubts: rate.NewLimiter(rate.Every(time.Minute), 10),
		decoys:       decoys{key: d.Keyring.Derive(decoyPurpose), kind: map[string]string{}},
		comparedKeys: d.Keyring.DeriveAll(comparedPurpose),
	}
	if err := s.learnDecoys(ctx); err != nil {
		s.deps.Log.Warn("kinds of imported hashes not looked up", zap.Error(err))
	}
	return s, nil
}

// View reads persons and groups in one snapshot. fn can run several times and only reads.
func (s *Service) View(ctx context.Context, fn func(storage.Tx) error) error {
	return s.deps.Store.View(ctx, fn)
}

// Settings returns the present settings, from memory while nothing changes.
func (s *Service) Settings(ctx context.Context) (*settings.Units, error) {
	return s.settings.Ask(ctx, s.deps.Units)
}
