// Package console is the admin console: pages below /admin of the issuer on which administrators manage people, groups,
// sessions and applications. The rights, forms and navigation that all screens share are in package layout; the changes
// themselves are made by identity, authz and package admin, like those of the commands.
//
// A new screen is a file of its own with a value of type layout.Screen, and a line in the list of screens.go. Screens
// about other subjects have packages of their own next to layout, which the list includes. Tests read the list too, so
// a screen or an act without a row in the table of rights fails them (rights_test.go). Texts are messages that begin
// with console.
package console

import (
	"context"
	"net/http"
	"time"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/admin"
	"github.com/gatehouse-id/gatehouse/admin/alert"
	"github.com/gatehouse-id/gatehouse/admin/console/layout"
	"github.com/gatehouse-id/gatehouse/admin/console/maintenance"
	"github.com/gatehouse-id/gatehouse/admin/console/messages"
	"github.com/gatehouse-id/gatehouse/admin/console/providers"
	"github.com/gatehouse-id/gatehouse/admin/console/settingspages"
	"github.com/gatehouse-id/gatehouse/admin/console/sites"
	"github.com/gatehouse-id/gatehouse/admin/diagnostic"
	"github.com/gatehouse-id/gatehouse/authz/client"
	"github.com/gatehouse-id/gatehouse/authz/clientstore"
	"github.com/gatehouse-id/gatehouse/identity"
	"github.com/gatehouse-id/gatehouse/identity/notify"
	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/web"
	"github.com/gatehouse-id/gatehouse/storage"
)

// Clients are the applications. authz implements it.
type Clients interface {
	List(ctx context.Context) ([]clientstore.Info, error)
	Add(ctx context.Context, c client.Client, by audit.Actor) (secretText string, err error)
	Change(ctx context.Context, id, reason string, by audit.Actor, fn func(c *client.Client) error) error
	Edit(ctx context.Context, id, seen, reason string, by audit.Actor, fn func(c *client.Client) error) error
	ReplaceSecret(ctx context.Context, id string, keep bool, seen string, by audit.Actor) (secretText string, err error)
	EndOldSecrets(ctx context.Context, id string, by audit.Actor) error
	SetLogo(ctx context.Context, id string, raw []byte, by audit.Actor) error
	RemoveLogo(ctx context.Context, id string, by audit.Actor) error
	Remove(ctx context.Context, id string, by audit.Actor) error
	Revoke(ctx context.Context, id string, by audit.Actor) error
}

// Deps are the dependencies of the console.
type Deps struct {
	Identity *identity.Service
	Manage   *admin.Service
	Clients  Clients
	Store    storage.Store
	Pages    *web.Renderer
	// Units returns the settings as tx sees them.
	Units func(tx storage.Tx) (*settings.Units, error)
	// PlaceOf returns where an option stands in the Caddyfile, as file:line, or "".
	PlaceOf func(option string) string
	// SourceOf returns a client as a block of the Caddyfile.
	SourceOf func(*client.Client) string
	// GroupUses returns where the configuration names a group.
	GroupUses func(ctx context.Context, group string) ([]string, error)
	// Findings returns what is wrong with the configuration and the machine at this moment.
	Findings func(ctx context.Context) ([]diagnostic.Finding, error)
	// Machine returns how the servers, the disk and the queues are.
	Machine func(ctx context.Context) (Machine, error)
	// Gateway are the dependencies of the screens about sites.
	Gateway sites.Deps
	// Setup are the dependencies of the screens of sign-in providers and keys, Settings those of the settings.
	Setup    providers.Deps
	Settings settingspages.Deps
	// Messages are the dependencies of the screens of texts and the brand.
	Messages messages.Deps
	// Upkeep are the dependencies of the screens about the storage and blocked sign-ins.
	Upkeep maintenance.Deps
	// Alerts are kept by the screens of alerts.
	Alerts *alert.Service
	// Mails says that e-mails are sent.
	Mails bool
	// Mail sends messages to the owners. nil: e-mail is off
	Mail notify.Sender
	Now  func() time.Time
	// After is time.After. nil: that of package time
	After func(time.Duration) <-chan time.Time
	Log   *zap.Logger
}

// Console serves the pages. It is safe for concurrent use.
type Console struct {
	Deps

	frame   *layout.Frame
	screens []*layout.Screen
	waiting waiting
}

// New returns a console.
func New(cfg layout.Config, d Deps) *Console {
	c := &Console{Deps: d, frame: layout.New(cfg,
		layout.Deps{Identity: d.Identity, Store: d.Store, Pages: d.Pages, Now: d.Now, After: d.After})}
	c.frame.Waiting, c.frame.Acted = c.waitingNow, c.waiting.forget
	c.screens = c.all()
	c.frame.Add(c.screens...)
	c.frame.Close()
	d.Identity.Front.OnNav(c.frame.Entrance)
	d.Identity.Front.SeeBy(c)
	d.Identity.Person.OnRemove(c.guardOwner)
	d.Manage.Allow = c.allowJob
	d.Manage.GivesRole = func(group string) bool { return c.frame.RoleOfGroup("", group) != layout.Nobody }
	return c
}

// EndStreams ends the answers that last as long as a page is open. It is called when the configuration or the process
// is to end, which waits for every answer.
func (c *Console) EndStreams() { c.frame.EndStreams() }

// Paths returns the prefixes of the paths that ServeHTTP answers.
func (c *Console) Paths() []string { return []string{layout.Root} }

// ServeHTTP answers the paths of the screens, and 404 for others.
func (c *Console) ServeHTTP(w http.ResponseWriter, r *http.Request) { c.frame.ServeHTTP(w, r) }
