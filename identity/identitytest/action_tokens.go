package identitytest

import (
	"strings"
	"sync"
	"testing"

	"github.com/gatehouse-id/gatehouse/identity"
	"github.com/gatehouse-id/gatehouse/identity/actiontoken"
	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/storage"
)

// AppWelcome is the address to which action tokens lead.
const AppWelcome = "https://app.example.com/welcome?from=token" //nolint:gosec // an address, no credentials

// ActionTokens is a harness with every feature of action tokens switched on.
type ActionTokens struct {
	*Federated
	mu sync.Mutex // guards u
	u  settings.Units
}

// NewActionTokens starts a harness with every feature of action tokens switched on.
func NewActionTokens(t testing.TB, change ...func(*identity.Config)) *ActionTokens {
	t.Helper()
	h := &ActionTokens{u: settings.Defaults()}
	f := &h.u.Features.ActionToken
	f.Login.Enabled, f.AppToWeb.Enabled, f.Coupling.Enabled = true, true, true
	f.WhitelistedURLs = []settings.WhitelistedURL{{ID: "1", URL: "https://app.example.com/welcome"}}
	h.Federated = NewFederated(t, change...)
	h.Units = func(storage.Tx) (*settings.Units, error) {
		h.mu.Lock()
		defer h.mu.Unlock()
		u := h.u
		return &u, nil
	}
	h.Start()
	return h
}

// Set changes the configuration units.
func (h *ActionTokens) Set(change func(*settings.Units)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	change(&h.u)
}

// Process makes a token for demo and processes it.
func (h *ActionTokens) Process(n actiontoken.NewActionToken) (actiontoken.ActionsDone, error) {
	h.T.Helper()
	made, err := h.ActionToken.Make(h.T.Context(), h.DemoID(), n, audit.Actor{ID: "ops"})
	if err != nil {
		h.T.Fatal(err)
	}
	return h.ActionToken.Process(h.T.Context(), made.Token, "", audit.Actor{ID: "ops"})
}

// Link returns the path of the page that a LOGIN action leads to.
func (h *ActionTokens) Link(n actiontoken.NewActionToken) string {
	h.T.Helper()
	n.Actions = append(n.Actions, actiontoken.Action{Type: actiontoken.ActionLogin})
	d, err := h.Process(n)
	if err != nil {
		h.T.Fatal(err)
	}
	path, ok := strings.CutPrefix(d.RedirectURI, Issuer)
	if !ok {
		h.T.Fatalf("redirect_uri = %q, want one of ours", d.RedirectURI)
	}
	return path
}
