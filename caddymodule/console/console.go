// Package console is the admin console: pages below /admin of the issuer on which administrators look after persons,
// groups, sessions and applications. Who may see and do what is here; what is done belongs to identity, authz and the
// package manage, which the commands share, and how pages look belongs to internal/page.
//
// A new screen is a file of its own with a value of type screen, and a line in the list of screens.go. The screen says
// its path, the role that sees it, what it is about, how it is shown, and its acts: each is a page that asks, with the
// numbers of what it hits, and a form that does it. Nothing else is to be done for sign-in, level, age of the sign-in,
// rights, forged forms, and the navigation: the list is their only source. Tests take the list too, so that a screen or
// an act without a row in the table of rights fails them (rights_test.go). Texts are messages that begin with console.
package console

import (
	"context"
	"net/http"
	"time"

	"github.com/gatehouse-id/gatehouse/authz/client"
	"github.com/gatehouse-id/gatehouse/authz/registry"
	"github.com/gatehouse-id/gatehouse/caddymodule/internal/finding"
	"github.com/gatehouse-id/gatehouse/caddymodule/manage"
	"github.com/gatehouse-id/gatehouse/identity"
	"github.com/gatehouse-id/gatehouse/identity/config"
	"github.com/gatehouse-id/gatehouse/internal/event"
	"github.com/gatehouse-id/gatehouse/internal/page"
	"github.com/gatehouse-id/gatehouse/storage"
)

// Root is where the console is.
const Root = "/admin"

// Config is what the operator has decided about the console.
type Config struct {
	// Level is the level that a session needs. Default: 2
	Level int
	// Groups are the names of the groups of the roles. Default: gatehouse- and the name of the role
	Groups map[Role]string
}

// Clients are the applications. authz implements it.
type Clients interface {
	List(ctx context.Context) ([]registry.Info, error)
	Add(ctx context.Context, c client.Client, by event.Actor) (secretText string, err error)
	Change(ctx context.Context, id, reason string, by event.Actor, fn func(c *client.Client) error) error
	ReplaceSecret(ctx context.Context, id string, keep bool, by event.Actor) (secretText string, err error)
	EndOldSecrets(ctx context.Context, id string, by event.Actor) error
	Remove(ctx context.Context, id string, by event.Actor) error
	Revoke(ctx context.Context, id string, by event.Actor) error
}

// Deps is what the console works with.
type Deps struct {
	Identity *identity.Service
	Manage   *manage.Service
	Clients  Clients
	Store    storage.Store
	Pages    *page.Renderer
	// Units returns the settings as tx sees them.
	Units func(tx storage.Tx) (*config.Units, error)
	// PlaceOf returns where an option stands in the Caddyfile, as file:line, or "".
	PlaceOf func(option string) string
	// SourceOf returns a client as a block of the Caddyfile.
	SourceOf func(*client.Client) string
	// GroupUses returns where the configuration names a group.
	GroupUses func(ctx context.Context, group string) ([]string, error)
	// Findings returns what is wrong with the configuration and the machine at this moment.
	Findings func(ctx context.Context) ([]finding.Finding, error)
	// Mails says that e-mails are sent.
	Mails bool
	Now   func() time.Time
}

// Console serves the pages. It is safe for concurrent use.
type Console struct {
	Deps

	cfg Config
	mux *http.ServeMux
}

// New returns a console.
func New(cfg Config, d Deps) *Console {
	c := &Console{Deps: d, cfg: cfg.complete(), mux: http.NewServeMux()}
	c.routes()
	d.Identity.Front.OnNav(c.entrance)
	d.Identity.Person.OnRemove(c.guardOwner)
	return c
}

// Paths returns the prefixes of the paths that ServeHTTP answers.
func (c *Console) Paths() []string { return []string{Root} }

// ServeHTTP answers the paths of the screens, and 404 for others.
func (c *Console) ServeHTTP(w http.ResponseWriter, r *http.Request) { c.mux.ServeHTTP(w, r) }
