// Package providers has the screens of the admin console on which an installation is set up: sign-in providers, keys
// and storage.
package providers

import (
	"context"
	"crypto/x509"
	"errors"
	"net/url"
	"time"

	"github.com/gatehouse-id/gatehouse/admin/console/layout"
	"github.com/gatehouse-id/gatehouse/authz"
	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/idp"
	"github.com/gatehouse-id/gatehouse/internal/jsonapi"
	"github.com/gatehouse-id/gatehouse/internal/web"
	"github.com/gatehouse-id/gatehouse/storage"
)

// Providers are the identity providers that run. provider.Manager implements it.
type Providers interface {
	// Test tries, step by step, what a sign-in at a provider needs. It signs no one in.
	Test(ctx context.Context, id string) idp.Steps
	// Try is Test for a login method that need not be stored or switched on.
	Try(ctx context.Context, m settings.LoginMethod) (idp.Steps, error)
	// Certificates returns the certificates with which the signatures of each provider are checked, by its id, as they
	// are known now.
	Certificates(ctx context.Context) map[string][]*x509.Certificate
	// KeyUses returns what a provider uses our key pairs for.
	KeyUses(ctx context.Context, id string) []idp.KeyUse
}

// Deps are the dependencies of the screens.
type Deps struct {
	Issuer    string
	Config    *settings.Service
	Providers Providers
	Authz     *authz.Server
	Pages     *web.Renderer
	// PublicKey returns the public part of a signing key as JSON, or nil.
	PublicKey func(id string) []byte
	// OlderKeys reports whether the configuration has encryption keys besides the first.
	OlderKeys func() bool
	// Names returns the usernames of persons by their ids.
	Names func(tx storage.Tx, ids []string) (map[string]string, error)
	Store storage.Store
	// PlaceOf returns where an option stands in the Caddyfile, as file:line, or "".
	PlaceOf func(option string) string
	Now     func() time.Time
}

// setup makes the screens.
type setup struct{ Deps }

// Screens returns the screens that stand before the events in the navigation.
func Screens(d Deps) []*layout.Screen {
	s := &setup{d}
	return []*layout.Screen{s.providersScreen(), s.providerScreen(), s.apiClientsScreen()}
}

// LastScreens returns the screens that stand at the end of the navigation.
func LastScreens(d Deps) []*layout.Screen {
	s := &setup{d}
	return []*layout.Screen{s.keysScreen()}
}

// pathOf is that of a screen about one thing.
func pathOf(screen, id string) string { return layout.Root + screen + "/" + url.PathEscape(id) }

// when is a time, or a dash for none.
func when(t time.Time) web.Cell {
	if t.IsZero() {
		return layout.OrNone("")
	}
	return web.Cell{Text: web.Say("console.time", "time", t)}
}

// write is the context of what the person of the visit writes: they must have the role at that moment, too.
func write(v *layout.Visit) context.Context { return v.Writing() }

// refused returns what is wrong with the settings as a problem of a field. Other errors stay.
func refused(field string, err error) error {
	if e := new(jsonapi.Error); errors.As(err, &e) && e.Status < 500 {
		return layout.SettingProblem(field, e)
	}
	return err
}
