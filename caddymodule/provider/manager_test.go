package provider_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/gatehouse-id/gatehouse/caddymodule/provider"
	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/idp/kerberos/kerberostest"
	"github.com/gatehouse-id/gatehouse/idp/saml/samltest"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
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

// faulty is a store that cannot be read for a while.
type faulty struct {
	storage.Store
	down atomic.Bool
}

func (f *faulty) View(ctx context.Context, fn func(storage.Tx) error) error {
	if f.down.Load() {
		return storage.ErrUnavailable
	}
	return f.Store.View(ctx, fn)
}

// TestStorageFailsAtAChange: a login method whose keytab cannot be read when the configuration changes stays as it was,
// and is renewed once storage answers. A new one comes then.
func TestStorageFailsAtAChange(t *testing.T) {
	t.Parallel()
	memory, err := badgerstore.OpenMemory()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { memory.Close() }) //nolint:errcheck // a memory store
	store := &faulty{Store: memory}
	ring, err := secret.NewKeyring(bytes.Repeat([]byte{7}, secret.KeySize))
	if err != nil {
		t.Fatal(err)
	}
	methods := func(ids ...string) string {
		var list []string
		for _, id := range ids {
			list = append(list, `{"id":"`+id+`","name":"`+strings.Join(ids, " and ")+`","type":"KERBEROS","enabled":true,"removable":true,`+
				`"kerberos_attributes":{"keytab_id":"tickets"}}`)
		}
		return `"login_methods":{"login_methods":[` + strings.Join(list, ",") + `]}`
	}
	keytab := base64.StdEncoding.EncodeToString(kerberostest.Keytab(t, "HTTP/auth.example.com"))
	config, err := settings.New(t.Context(), settings.Config{
		Verify: func(settings.LoginMethod) error { return nil },
		Bootstrap: []byte(`{"key_pairs":[{"name":"tickets","key_type":"KEYTAB","private_key":"` + keytab + `","public_key":""}],` +
			methods("desk") + `}`),
	}, settings.Deps{Store: store, Keyring: ring})
	if err != nil {
		t.Fatal(err)
	}
	core, logs := observer.New(zap.ErrorLevel)
	m := provider.NewManager(provider.Deps{
		Issuer: "https://auth.example.com", File: provider.NewSet(caddy.ModuleMap{}), Store: store, Config: config, Log: zap.New(core),
	})
	t.Cleanup(m.Close)
	current := func() *settings.Units {
		t.Helper()
		u, err := config.Current(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return u
	}
	var version uint64
	want := func(what string, u *settings.Units, names ...string) {
		t.Helper()
		list, v, err := m.Providers(t.Context(), u)
		var got []string
		for _, p := range list {
			got = append(got, p.Name)
		}
		if err != nil || !slices.Equal(got, names) {
			t.Errorf("%s: Providers = %q, %v, want %q", what, got, err, names)
		}
		version = v
	}
	want("at first", current(), "desk")
	owner := settings.WithRights(t.Context(), settings.Owner)
	if _, err := config.Import(owner, []byte(`{`+methods("desk", "hall")+`}`), audit.Actor{ID: "owner"}); err != nil {
		t.Fatal(err)
	}
	changed := current()
	store.down.Store(true)
	want("while storage fails", changed, "desk and hall")
	before := version
	want("while storage still fails", changed, "desk and hall")
	if version != before || logs.Len() != 1 {
		t.Errorf("while storage still fails: version %d after %d, log %v, want one entry", version, before, logs.All())
	}
	store.down.Store(false)
	want("afterwards", changed, "desk and hall", "desk and hall")
	before = version
	if want("later", changed, "desk and hall", "desk and hall"); version != before || len(m.Warnings(t.Context())["hall"]) != 0 {
		t.Errorf("later: version %d after %d, warnings %v", version, before, m.Warnings(t.Context()))
	}
}
