// Package challenge issues and verifies one-time codes, e-mail links and passwords, and throttles guesses. The packages
// that need a proof register their purposes and paths with it.
package challenge

import (
	"errors"
	"io"
	"net/http"
	"time"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/session"
	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/denial"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

// Config says when failed sign-ins are slowed down.
type Config struct {
	Failures int           // of one person from one address. Default: 5
	Window   time.Duration // in which they count. Default: 15 minutes
}

// Deps are the dependencies of the service.
type Deps struct {
	Person  *person.Service
	Session *session.Service
	Store   storage.Store
	// Keyring derives the keys of the hashes of codes.
	Keyring *secret.Keyring
	// Hasher computes slow hashes, a bounded number at a time.
	Hasher *secret.Hasher
	Events *audit.Recorder
	// Units returns the settings as tx sees them.
	Units func(tx storage.Tx) (*settings.Units, error)
	// Origin tells where a request came from.
	Origin func(*http.Request) audit.Origin
	// Refusals keeps why someone was refused. nil: they are logged alone.
	Refusals *denial.Recorder
	Log      *zap.Logger
	Now      func() time.Time
	Random   io.Reader
}

// Service checks proofs. It is safe for concurrent use; purposes and paths are registered before it is used.
type Service struct {
	deps       Deps
	cfg        Config
	deliveries map[DeliveredPurpose]deliveredTermsFunc
	linkPaths  map[LinkKind]string
	fallback   Fallback // nil: no one
}

// New returns a service. It fails if the limits of cfg are too low.
func New(cfg Config, d Deps) (*Service, error) {
	if cfg.Failures == 0 {
		cfg.Failures = 5
	}
	if cfg.Window == 0 {
		cfg.Window = 15 * time.Minute
	}
	if cfg.Failures < 1 || cfg.Window < time.Second {
		return nil, errors.New("identity: the lockout needs at least one failure and a window of one second")
	}
	return &Service{deps: d, cfg: cfg}, nil
}
