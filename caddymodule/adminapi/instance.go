package adminapi

import (
	"context"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/admin"
	"github.com/gatehouse-id/gatehouse/admin/backup"
	"github.com/gatehouse-id/gatehouse/admin/diagnostic"
	"github.com/gatehouse-id/gatehouse/authz"
	"github.com/gatehouse-id/gatehouse/caddymodule/client"
	"github.com/gatehouse-id/gatehouse/caddymodule/explain"
	"github.com/gatehouse-id/gatehouse/caddymodule/internal/caddyfileutil"
	"github.com/gatehouse-id/gatehouse/caddymodule/protect"
	"github.com/gatehouse-id/gatehouse/identity"
	"github.com/gatehouse-id/gatehouse/identity/access"
	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/idp"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/cluster"
	"github.com/gatehouse-id/gatehouse/internal/decisionlog"
	"github.com/gatehouse-id/gatehouse/internal/denial"
	"github.com/gatehouse-id/gatehouse/internal/limit"
	"github.com/gatehouse-id/gatehouse/storage"
)

// Instance is the running configuration, as the operations of the admin API work on it. It stays open until Leave is
// called.
type Instance struct {
	Issuer    string
	Authz     *authz.Server
	Identity  *identity.Service
	Access    *access.Service
	Config    *settings.Service
	Store     storage.Store
	Scopes    []string // that the configuration and the standards name
	Sites     []string // addresses that let no one in without credentials
	Place     string   // where the records lie
	Free      uint64   // bytes of free space there; 0: unknown
	Refusals  *denial.Recorder
	Decisions *decisionlog.Recorder
	Limits    *limit.Counters
	Node      *cluster.Node // this process
	Backups   *backup.Service
	Recorder  *audit.Recorder
	Log       *zap.Logger

	// Check reports whether it can serve and write. reason is the part of the error that is safe to show to anyone.
	Check func(ctx context.Context) (reason string, err error)
	// Findings returns what is wrong with the configuration, and with the machine at this moment.
	Findings func(ctx context.Context) ([]diagnostic.Finding, error)
	// Written returns a client as the configuration says it, or nil.
	Written func(id string) *client.Client
	// Reseal seals with the first encryption key what an older one has sealed, past after.
	Reseal func(ctx context.Context, after string) (Resealed, error)
	// OwnerGroup is the group of the owners of the admin console.
	OwnerGroup string
	// PlaceOf returns where an option stands in the Caddyfile, as file:line, or "".
	PlaceOf func(option string) string
	// Providers asks the identity providers and returns their answers by their ids: ok, or what is wrong.
	Providers func(ctx context.Context) map[string]string
	// TestProvider tries what a sign-in at a provider needs. No steps: there is nothing to ask.
	TestProvider func(ctx context.Context, id string) idp.Steps
	// Explain tells what the sites of the configuration do with a request that no one has made.
	Explain func(ctx context.Context, q explain.Request, c protect.Caller) (*explain.Answer, error)
	// Mail, Texts and Pushes send messages. nil: not configured.
	Mail, Texts, Pushes outbox

	Leave func()
}

// manage does what this API shares with the admin console.
func (i *Instance) manage() *admin.Service {
	return &admin.Service{Identity: i.Identity, Authz: i.Authz, Store: i.Store, Recorder: i.Recorder, Limits: i.Limits}
}

// outbox sends messages while the instance runs.
type outbox interface {
	// Waiting counts the messages that wait, up to most.
	Waiting(ctx context.Context, most int) (int, error)
	// Check asks the service that messages are handed to.
	Check(ctx context.Context) error
}

// App is the part of the app that the commands need.
type App interface {
	// Instance waits for the running instance and holds it. Its error is safe to show to anyone.
	Instance(ctx context.Context) (*Instance, error)
}

// activeApp returns the app of the configuration that is active now. A remembered app would be wrong after a failed
// reload.
func activeApp() (App, bool) {
	found, err := caddy.ActiveContext().AppIfConfigured(caddyfileutil.AppName)
	if err != nil {
		return nil, false
	}
	a, ok := found.(App)
	return a, ok
}
