// Package session stores who is signed in in which browser, at which level, and until when.
package session

import (
	"cmp"
	"errors"
	"net/http"
	"time"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/cookie"
	"github.com/gatehouse-id/gatehouse/internal/dbsc"
	"github.com/gatehouse-id/gatehouse/storage"
)

// ErrClosed says that signing in is switched off.
var ErrClosed = errors.New("signing in is switched off")

// Config says how long a sign-in lasts.
type Config struct {
	Idle     time.Duration // without use. Default: 1 hour
	Absolute time.Duration // in all. Default: 12 hours
	Remember time.Duration // in all, for a person who stays signed in, used or not. Default: 30 days. Negative: not offered
	// PerPerson is the maximum number of sessions of a person, and of browsers that are recognised. The least recently
	// used one makes room. Default: 50
	PerPerson int
	// DeviceBound says that new sessions are bound to the device of the browser where it can. (package dbsc)
	DeviceBound bool
}

// Deps are the dependencies of the service.
type Deps struct {
	Person *person.Service
	Store  storage.Store
	Events *audit.Recorder
	// Units returns the settings as tx sees them.
	Units func(tx storage.Tx) (*settings.Units, error)
	// Origin tells where a request came from.
	Origin func(*http.Request) audit.Origin
	Jar    cookie.Jar
	// Issuer is our own URL, without a trailing slash.
	Issuer string
	// Devices checks the proofs of browsers for sessions that are bound to a device.
	Devices *dbsc.Guard
	Log     *zap.Logger
	Now     func() time.Time
}

// Service keeps sessions. It is safe for concurrent use; the hooks are set before it is used.
type Service struct {
	deps Deps
	cfg  Config

	trusts      func(r *http.Request, provider string) bool // nil: every sender
	signsIn     func(tx storage.Tx, provider string) (bool, error)
	forgetHooks []func(tx storage.Tx, session string) error
	factorHooks []func(tx storage.Tx, person string) error
	noted       func(dbsc.Outcome) // nil: outcomes are not counted
}

// WithDefaults returns the configuration with the defaults in place of what is 0.
func (c Config) WithDefaults() Config {
	c.Idle, c.Absolute, c.Remember = cmp.Or(c.Idle, time.Hour), cmp.Or(c.Absolute, 12*time.Hour), cmp.Or(c.Remember, 30*24*time.Hour)
	if c.PerPerson <= 0 {
		c.PerPerson = 50
	}
	return c
}

// New returns a service. It fails if sessions would last less than a minute.
func New(cfg Config, d Deps) (*Service, error) {
	cfg = cfg.WithDefaults()
	if cfg.Idle < time.Minute || cfg.Absolute < time.Minute {
		return nil, errors.New("identity: sessions must last at least a minute")
	}
	return &Service{deps: d, cfg: cfg}, nil
}
