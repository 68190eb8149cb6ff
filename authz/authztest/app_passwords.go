package authztest

import (
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/authz"
	"github.com/gatehouse-id/gatehouse/authz/apppassword"
	"github.com/gatehouse-id/gatehouse/authz/client"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/authn"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

// DavSite and CodeSite are sites that app passwords open.
const DavSite = "https://dav.example.com"

// CodeSite is the other site that app passwords open.
const CodeSite = "https://code.example.com"

// AProgram is the origin of uses of app passwords.
var AProgram = audit.Origin{ClientIP: "192.0.2.7", UserAgent: "DAVx5"}

// NewWithAppPasswords starts a server on which people can make app passwords.
func NewWithAppPasswords(t *testing.T, opts ...Option) *Harness {
	t.Helper()
	return New(t, append(opts, WithAppPasswords())...)
}

// WithAppPasswords lets people make app passwords.
func WithAppPasswords() Option {
	return WithConfig(func(c *authz.Config) {
		c.AppPasswordSites = []apppassword.Site{
			{Origin: DavSite, Scopes: []string{"calendar", "secure.read"}},
			{Origin: CodeSite, Groups: []string{"developers"}},
		}
		c.Scopes = append(c.Scopes, client.Scope{Name: "calendar", Description: "Your calendar"})
		c.APIClients = append(c.APIClients, &client.APIClient{
			ID: "dav", Secrets: []secret.String{secret.New(Secret("dav"))}, APIs: []string{"introspection"}, Audiences: []string{DavSite},
		})
	})
}

// NothingElse is a change in whose transaction nothing else happens.
func NothingElse(storage.Tx) error { return nil }

// MakeAppPassword makes one for the calendar, changed by change.
func MakeAppPassword(t *testing.T, h *Harness, change func(*authn.AppPasswordRequest)) (string, error) {
	t.Helper()
	q := authn.AppPasswordRequest{
		Person: Demo, Name: "Phone", Sites: []string{DavSite}, Scopes: []string{"calendar"}, Life: 90 * 24 * time.Hour,
		AuthTime: h.Clock.Now(), Level: 1,
	}
	if change != nil {
		change(&q)
	}
	made, err := h.Server().AppPasswords().Make(t.Context(), q, audit.Actor{ID: q.Person, Name: "demo", Origin: AProgram},
		NothingElse, NothingElse)
	return made.Reveal(), err
}

// MustMakeAppPassword makes an app password and returns its text.
func MustMakeAppPassword(t *testing.T, h *Harness, change func(*authn.AppPasswordRequest)) string {
	t.Helper()
	made, err := MakeAppPassword(t, h, change)
	if err != nil {
		t.Fatalf("Make = %v", err)
	}
	return made
}
