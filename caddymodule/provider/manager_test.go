package provider_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/gatehouse-id/gatehouse/caddymodule/provider"
	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/idp/saml/samltest"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage/badgerstore"
)

// TestReloadWarnsOfStoredMetadata: login methods whose certificate or metadata has expired since they were stored are
// in the log when the configuration is loaded, not only once a sign-in fails.
func TestReloadWarnsOfStoredMetadata(t *testing.T) {
	t.Parallel()
	now := time.Now()
	old := samltest.New("https://old.example/metadata", time.Now)
	old.Key = samltest.NewKeyUntil("expired", now.AddDate(-2, 0, 0), now.AddDate(-1, 0, 0))
	over := strings.Replace(string(samltest.New("https://over.example/metadata", time.Now).Metadata()), " entityID=",
		` validUntil="2020-01-01T00:00:00Z" entityID=`, 1)
	var methods []any
	for id, metadata := range map[string]string{"old": string(old.Metadata()), "over": over} {
		methods = append(methods, map[string]any{
			"id": id, "type": "SAML", "enabled": true,
			"saml_attributes": map[string]any{"idp_metadata": metadata},
		})
	}
	stored, err := json.Marshal(map[string]any{"login_methods": map[string]any{"login_methods": methods}})
	if err != nil {
		t.Fatal(err)
	}
	store, err := badgerstore.OpenMemory()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() }) //nolint:errcheck // a memory store
	ring, err := secret.NewKeyring(bytes.Repeat([]byte{7}, secret.KeySize))
	if err != nil {
		t.Fatal(err)
	}
	units, err := settings.New(t.Context(), settings.Config{Verify: func(settings.LoginMethod) error { return nil }, Bootstrap: stored},
		settings.Deps{Store: store, Keyring: ring})
	if err != nil {
		t.Fatal(err)
	}
	core, logs := observer.New(zap.WarnLevel)
	m := provider.NewManager(provider.Deps{
		Issuer: "https://auth.example.com", File: provider.NewSet(caddy.ModuleMap{}), Store: store, Config: units, Log: zap.New(core),
	})
	t.Cleanup(m.Close)
	if _, err := m.Open(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	for id, want := range map[string]string{
		"old":  "has expired or is not valid yet",
		"over": "it was valid until 2020-01-01T00:00:00Z and has expired",
	} {
		found := logs.FilterField(zap.String("provider", id)).All()
		if len(found) != 1 || !strings.Contains(toText(found[0].ContextMap()["error"]), want) {
			t.Errorf("log of %s = %v, want %q", id, found, want)
		}
	}
}

func toText(v any) string {
	s, _ := v.(string)
	return s
}

// TestTryWhatIsNotAdded: the metadata at an address are looked at before a provider is added, and only where the
// operator lets requests go.
func TestTryWhatIsNotAdded(t *testing.T) {
	t.Parallel()
	mux := http.NewServeMux()
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	mux.HandleFunc("/.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		at := server.URL
		_ = json.NewEncoder(w).Encode(map[string]string{
			"issuer": at, "authorization_endpoint": at + "/authorize",
			"token_endpoint": at + "/token", "jwks_uri": at + "/jwks",
		})
	})
	mux.HandleFunc("/jwks", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"keys":[{"kty":"OKP","crv":"Ed25519","kid":"a","use":"sig","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}`))
	})
	t.Run("attack 601: metadata of an internal address", func(t *testing.T) {
		for _, allowed := range []bool{false, true} {
			d := provider.Deps{Issuer: "https://auth.example.com", File: provider.NewSet(caddy.ModuleMap{}), Log: zap.NewNop()}
			if allowed {
				d.Allow = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
			}
			steps, err := provider.NewManager(d).Try(t.Context(),
				settings.LoginMethod{ID: "new", Type: settings.TypeOIDC, OIDC: &settings.OIDCAttributes{Issuer: server.URL}})
			if err != nil {
				t.Fatal(err)
			}
			if ok := steps.Err() == nil && len(steps) > 2; ok != allowed {
				t.Errorf("the metadata of this machine, allowed: %t: %+v", allowed, steps)
			}
		}
	})
}
