// Package settings stores the configuration units of the identity service: it checks a change as a whole, stores it in
// one transaction with its event, and serves both versions of the configuration API. A change takes effect at once, on
// every node. (identity service document, "Resources and fields", "Endpoints")
package settings

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/identity/keystore"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/internal/web"
	"github.com/gatehouse-id/gatehouse/storage"
)

// Config is the operator's configuration. It must not be changed after New.
type Config struct {
	// Fixed are the login methods that the Caddyfile declares: shown, never stored, never changed.
	Fixed []LoginMethod
	// Verify checks whether a provider could be made of an enabled login method. It returns nil, ErrTypeNotSupported, a
	// MethodError, or what is wrong with the whole method, in words for the caller of the API. Without Verify no login
	// method can be enabled.
	Verify func(LoginMethod) error
	// VerifyMetadata says what is wrong with the metadata of a service provider, in words for the caller of the API.
	// nil: only their beginning is checked.
	VerifyMetadata func(metadata string) error
	// Reserved reports whether an application is there that need not be one of an organisation. The API client of an
	// organisation cannot make it its own. It may be nil.
	Reserved func(ctx context.Context, application string) (bool, error)
	// APIClients returns the ids of the API clients. nil: they are not known, and any name is taken for one.
	APIClients func() []string
	// Bootstrap is the JSON of units that is applied when storage holds no unit. It may be empty.
	Bootstrap []byte
	// BootstrapFault says why Bootstrap cannot be had. It matters only when storage holds no unit: then New returns it.
	BootstrapFault error
	// Mail reports whether e-mails can be sent: some switches are then on unless someone switches them off.
	Mail bool
	// Policies are those that the Caddyfile declares, by their names: shown, never stored, never changed.
	Policies map[string]FixedPolicy
	// CheckPolicy returns what is wrong with a policy, in words for the caller of the API, and the member that it is
	// about. Without it no policy can be stored.
	CheckPolicy func(name string, p Policy) (path string, err error)
	// PolicyUsers returns the sites that name a policy. It may be nil.
	PolicyUsers func(name string) []string
	// Clients are the organisations that API clients belong to by their own configuration, by the ids of the clients,
	// or EveryOrganisation. A client that is not there belongs to the organisation that names it, if there is one.
	Clients map[string]string
	// Switches are the values of switches that no one sets otherwise, by path: "features.sign_up_enabled".
	Switches map[string]bool
}

// Deps are the dependencies of the service. Store and Keyring are required.
type Deps struct {
	Store   storage.Store
	Keyring *secret.Keyring
	Events  *audit.Recorder
	// Origin says where a request came from. Default: the server itself.
	Origin func(*http.Request) audit.Origin
	Log    *zap.Logger
	Now    func() time.Time
	Random io.Reader
}

// Service reads and changes the units. Several may share one store at a time, such as during a reload: each sees what
// the others write. It is safe for concurrent use.
type Service struct {
	store    storage.Store
	keyring  *secret.Keyring
	events   *audit.Recorder
	origin   func(*http.Request) audit.Origin
	onSignIn func(tx storage.Tx, by audit.Actor, paths []string, at time.Time) error // nil: nothing
	log      *zap.Logger
	random   io.Reader
	cfg      Config
	standard *Units // never changed
	keyPairs *keystore.Service
	cache    atomic.Pointer[state]
	turn     chan struct{} // holds one value while a change is made
	shown    derived[[]*web.Overrides]
	owners   derived[*web.Organisations]
	pictures derived[map[string]*web.Logo]
}

// state is the stored state at one version.
type state struct {
	version   versionRecord
	units     *Units
	revisions map[string]uint64 // of each unit; absent: never changed
	chosen    chosen
	bound     map[string]string // the organisation that has named an API client last, by the folded name
	clients   map[string]string // Config.Clients
}

// New returns a service and applies the bootstrap when storage holds no unit.
func New(ctx context.Context, cfg Config, deps Deps) (*Service, error) {
	if deps.Store == nil || deps.Keyring == nil {
		return nil, errors.New("config: Store and Keyring are required")
	}
	if deps.Now == nil {
		deps.Now = time.Now
	}
	if deps.Random == nil {
		deps.Random = rand.Reader
	}
	if deps.Log == nil {
		deps.Log = zap.NewNop()
	}
	if deps.Events == nil {
		deps.Events = &audit.Recorder{Random: deps.Random, Now: deps.Now}
	}
	if deps.Origin == nil {
		deps.Origin = func(*http.Request) audit.Origin { return audit.Self }
	}
	fixed := &Units{LoginMethods: LoginMethods{LoginMethods: cfg.Fixed}}
	fixed = fixed.clone()
	fixed.complete() // once, since all states share them
	cfg.Fixed = fixed.LoginMethods.LoginMethods
	s := &Service{
		store: deps.Store, keyring: deps.Keyring, events: deps.Events, origin: deps.Origin, log: deps.Log, random: deps.Random,
		cfg: cfg, standard: cfg.standard(), turn: make(chan struct{}, 1),
	}
	s.keyPairs = keystore.New(keystore.Deps(deps), keyPairOwner{s})
	if err := s.bootstrap(ctx); err != nil {
		return nil, fmt.Errorf("config: %w", err)
	}
	return s, nil
}

// Units returns the configuration as tx sees it. It costs one point read while nothing changes.
func (s *Service) Units(tx storage.Tx) (*Units, error) {
	st, err := s.state(tx)
	if err != nil {
		return nil, err
	}
	return st.units, nil
}

// IsCurrent reports whether u is the newest configuration that has been read.
func (s *Service) IsCurrent(u *Units) bool {
	known := s.cache.Load()
	return known == nil || known.units == u
}

// Current returns the configuration as it is now.
func (s *Service) Current(ctx context.Context) (u *Units, err error) {
	err = s.store.View(ctx, func(tx storage.Tx) error {
		u, err = s.Units(tx)
		return err
	})
	return u, err
}

// VersionKey is the record that Units reads while nothing changes, for those who read others along with it.
func VersionKey() []byte { return versions.Key(versionKey) }

func version(tx storage.Tx) (versionRecord, error) {
	v, _, err := versions.Find(tx, versionKey)
	return v, err
}

func (s *Service) state(tx storage.Tx) (*state, error) {
	v, err := version(tx)
	if err != nil {
		return nil, err
	}
	if known := s.cache.Load(); known != nil && known.version.is(v) {
		return known, nil
	}
	st, err := s.load(tx, v)
	if err != nil {
		return nil, err
	}
	return s.remember(st), nil
}

// remember caches a state and returns the one to use: of two that were read at the same time the first one, since
// IsCurrent and those who keep Units know a version by its address. An older state does not replace a newer one.
func (s *Service) remember(st *state) *state {
	for {
		known := s.cache.Load()
		switch {
		case known != nil && known.version.is(st.version):
			return known
		case known != nil && known.version.Version > st.version.Version, s.cache.CompareAndSwap(known, st):
			return st
		}
	}
}

func (v versionRecord) is(other versionRecord) bool {
	return v.Version == other.Version && bytes.Equal(v.Nonce, other.Nonce)
}

// load reads every unit. Members that a unit does not hold have their defaults.
func (s *Service) load(tx storage.Tx, v versionRecord) (*state, error) {
	u := s.standard.clone()
	u.LoginMethods.LoginMethods = nil // arrays are replaced, and encoding/json would reuse what is there
	st := &state{version: v, units: u, revisions: map[string]uint64{}, chosen: chosen{}, clients: s.cfg.Clients}
	var err error
	if st.bound, err = readBound(tx); err != nil {
		return nil, err
	}
	for _, un := range table {
		rec, stored, err := units.Find(tx, un.name)
		if err != nil {
			return nil, err
		}
		if !stored {
			continue
		}
		if err := s.read(u, un, rec); err != nil {
			return nil, err
		}
		st.revisions[un.name] = rec.Revision
		st.chosen.add(un.name, rec.JSON)
	}
	s.addFixed(u)
	u.complete()
	settleTwins(u, u)
	return st, nil
}

// read reads a stored unit into u.
func (s *Service) read(u *Units, un unit, rec unitRecord) error {
	if err := json.Unmarshal(rec.JSON, un.of(u)); err != nil {
		return fmt.Errorf("%w: unit %s: %w", storage.ErrCorrupt, un.name, err)
	}
	s.unseal(u, rec.Secrets)
	return nil
}

// newID returns a UUID. (RFC 9562, version 4)
func (s *Service) newID() (string, error) {
	id, err := uuid.NewRandomFromReader(s.random)
	return id.String(), err
}
