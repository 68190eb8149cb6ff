package clientstore_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"

	"github.com/gatehouse-id/gatehouse/authz/client"
	"github.com/gatehouse-id/gatehouse/authz/clientstore"
	"github.com/gatehouse-id/gatehouse/authz/oauth"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

const slowSecret = "the right one, which no stranger sends"

// slowClient authenticates a client with a slow hash, from an address.
type slowClient func(ctx context.Context, address, text string) error

// newSlowClients returns a client and an API client with the hash in a registry.
func newSlowClients(t *testing.T, deps clientstore.Deps, phc string) (legacy, api slowClient) {
	t.Helper()
	r, err := clientstore.New(t.Context(), clientstore.Config{
		Issuer: "https://auth.example.com",
		Clients: []*client.Client{{
			ID: "legacy", SecretHashes: []string{phc}, Grants: []string{"authorization_code"},
			RedirectURIs: []string{"https://legacy.example.com/callback"},
		}},
		APIClients: []*client.APIClient{{ID: "helpdesk", APIs: []string{"events"}, SecretHashes: []string{phc}}},
	}, deps)
	if err != nil {
		t.Fatal(err)
	}
	request := func(ctx context.Context, address, id, text string) *http.Request {
		req := httptest.NewRequestWithContext(ctx, http.MethodPost, "/", http.NoBody)
		req.RemoteAddr = address + ":1234"
		req.SetBasicAuth(id, text)
		return req
	}
	legacy = func(ctx context.Context, address, text string) error {
		_, err := r.Authenticate(request(ctx, address, "legacy", text), oauth.Form{})
		return err
	}
	api = func(ctx context.Context, address, text string) error {
		_, err := r.AuthenticateAPI(request(ctx, address, "helpdesk", text), "events")
		return err
	}
	return legacy, api
}

// Client ids are public, and each wrong secret of a client with an imported hash costs a slow computation. A flood of
// them must not keep people from signing in, whose passwords share the same few slots.
func TestWrongSecretsLeaveRoomForPeople(t *testing.T) {
	t.Parallel()
	deps := dependencies(t)
	deps.Hasher = secret.NewHasher(secret.HashCost{MemoryKiB: 4 << 10, Iterations: 1, Concurrency: 1})
	phc, err := deps.Hasher.Hash(t.Context(), slowSecret)
	if err != nil {
		t.Fatal(err)
	}
	authenticate, _ := newSlowClients(t, deps, phc)
	ctx, stop := context.WithCancel(t.Context())
	var strangers sync.WaitGroup
	for range 64 {
		strangers.Go(func() {
			for ctx.Err() == nil {
				if authenticate(ctx, "192.0.2.1", "a wrong one") == nil {
					t.Error("a wrong secret is taken")
				}
			}
		})
	}
	for i := range 20 {
		if ok, _, err := deps.Hasher.Verify(t.Context(), phc, slowSecret); err != nil || !ok {
			t.Errorf("sign-in %d under a flood of wrong client secrets = %v, %v, want true", i, ok, err)
		}
	}
	stop()
	strangers.Wait()
	if err := authenticate(t.Context(), "192.0.2.1", slowSecret); err != nil {
		t.Errorf("the right secret = %v", err)
	}
}

// TestSecretsAfterTheOldKeyIsGone: a secret that a stored client has used since there is a new encryption key is right
// without the older one. Clients that have not used theirs are named.
func TestSecretsAfterTheOldKeyIsGone(t *testing.T) {
	t.Parallel()
	deps := dependencies(t)
	open := func(keys ...byte) *clientstore.Registry {
		t.Helper()
		var all [][]byte
		for _, b := range keys {
			all = append(all, bytes.Repeat([]byte{b}, secret.KeySize))
		}
		var err error
		if deps.Keyring, err = secret.NewKeyring(all...); err != nil {
			t.Fatal(err)
		}
		r, err := clientstore.New(t.Context(), clientstore.Config{Issuer: "https://auth.example.com"}, deps)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	older := func(r *clientstore.Registry, when string, want ...string) {
		t.Helper()
		if ids, err := r.OlderSecrets(t.Context()); err != nil || !slices.Equal(ids, want) {
			t.Errorf("%s: clients with hashes of another key are %v, %v, want %v", when, ids, err, want)
		}
	}
	stored := func(id string) client.Client {
		return client.Client{ID: id, Grants: []string{"authorization_code"}, RedirectURIs: []string{"https://" + id + ".example.com/callback"}}
	}
	uses := func(r *clientstore.Registry, id, text string) error {
		req := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/oauth/token", http.NoBody)
		req.SetBasicAuth(id, text)
		_, err := r.Authenticate(req, oauth.Form{})
		return err
	}
	r := open(1)
	texts := map[string]string{}
	for _, id := range []string{"batch", "idle"} {
		var err error
		if texts[id], err = r.Add(t.Context(), stored(id), audit.Actor{ID: "ops"}); err != nil {
			t.Fatal(err)
		}
	}
	kept := texts["batch"] // stays right next to a newer one
	var err error
	if texts["batch"], err = r.ReplaceSecret(t.Context(), "batch", true, "", audit.Actor{ID: "ops"}); err != nil {
		t.Fatal(err)
	}
	reg := clientstore.Registered{Client: stored("registered"), Metadata: []byte("{}"), Token: "hash of a token"}
	if texts["registered"], err = r.Register(t.Context(), reg, 10, audit.Self); err != nil {
		t.Fatal(err)
	}
	older(r, "with the key that has hashed them")

	full := deps
	full.Store = fullStore{deps.Store}
	deps, full = full, deps
	if err := uses(open(2, 1), "batch", texts["batch"]); err != nil {
		t.Errorf("on a full disk the secret is wrong: %v", err)
	}
	deps = full
	r = open(2, 1)
	older(r, "with a new key", "batch", "idle", "registered")
	for _, text := range []string{texts["batch"], "x" + texts["batch"][1:], kept} {
		if err := uses(r, "batch", text); (err == nil) != (text == texts["batch"] || text == kept) {
			t.Errorf("batch authenticates: %v", err)
		}
	}
	older(r, "after both secrets of batch were used", "idle", "registered")
	if err := uses(r, "registered", texts["registered"]); err != nil {
		t.Error(err)
	}
	older(r, "after the registered client was used", "idle")
	if _, err := r.FindRegistered(t.Context(), "registered", reg.Token); err != nil {
		t.Errorf("the client manages its registration no more: %v", err)
	}

	r = open(2)
	older(r, "without the older key", "idle")
	for id, text := range texts {
		if err := uses(r, id, text); (err == nil) != (id != "idle") {
			t.Errorf("without the older key %s authenticates: %v", id, err)
		}
	}
	if err := uses(r, "batch", kept); err != nil {
		t.Errorf("the secret that was kept is wrong without the older key: %v", err)
	}
}

// fullStore refuses writes.
type fullStore struct{ storage.Store }

func (fullStore) Update(context.Context, func(storage.Tx) error) error { return storage.ErrFull }

// TestSecretHashesOfVersion01: hashes without the name of their key, as version 0.1 has stored them, stay right, and
// get the name when they are used.
func TestSecretHashesOfVersion01(t *testing.T) {
	t.Parallel()
	deps := dependencies(t)
	ring, err := secret.NewKeyring(bytes.Repeat([]byte{1}, secret.KeySize))
	if err != nil {
		t.Fatal(err)
	}
	deps.Keyring = ring
	r, err := clientstore.New(t.Context(), clientstore.Config{Issuer: "https://auth.example.com"}, deps)
	if err != nil {
		t.Fatal(err)
	}
	const text = "a secret of more than 32 characters"
	sum := secret.NewMACKey(ring.DeriveAll("gatehouse client secret v1")[0]).MAC("client", "batch", text)
	c := client.Client{
		ID: "batch", Grants: []string{"client_credentials"}, Scopes: []string{"api"},
		SecretHashes: []string{client.KeyedHashPrefix + base64.RawURLEncoding.EncodeToString(sum[:])},
	}
	if _, err := r.Add(t.Context(), c, audit.Actor{ID: "ops"}); err != nil {
		t.Fatal(err)
	}
	for _, want := range [][]string{{"batch"}, nil} {
		if ids, err := r.OlderSecrets(t.Context()); err != nil || !slices.Equal(ids, want) {
			t.Errorf("hashes without the name of the first key: %v, %v, want %v", ids, err, want)
		}
		req := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/oauth/token", http.NoBody)
		req.SetBasicAuth("batch", text)
		if _, err := r.Authenticate(req, oauth.Form{}); err != nil {
			t.Errorf("the secret is wrong: %v", err)
		}
	}
}

// attack: a flood of wrong secrets for one client locks out all clients with a hash in PHC form, since one hash is
// computed at a time and each waits for those that came before.
func TestWrongSecretsLeaveRoomForClients(t *testing.T) {
	t.Parallel()
	t.Run("attack 7085: a flood of wrong secrets, and the right one from elsewhere", func(t *testing.T) {
		t.Parallel()
		const strangers, fair = 300, 20 // computations before the right one, with room for a machine that is busy
		deps := dependencies(t)
		deps.Hasher = secret.NewHasher(secret.HashCost{MemoryKiB: 4 << 10, Iterations: 1, Concurrency: 1})
		phc, err := deps.Hasher.Hash(t.Context(), slowSecret)
		if err != nil {
			t.Fatal(err)
		}
		legacy, api := newSlowClients(t, deps, phc)
		ctx, stop := context.WithCancel(t.Context())
		var flood, begun sync.WaitGroup
		begun.Add(strangers)
		for range strangers {
			flood.Go(func() {
				begun.Done()
				for ctx.Err() == nil {
					_ = legacy(ctx, "192.0.2.1", "a wrong one")
				}
			})
		}
		begun.Wait()
		for name, authenticate := range map[string]slowClient{"client": legacy, "API client": api} {
			before := deps.Hasher.Computed()
			if err := authenticate(t.Context(), "198.51.100.7", slowSecret); err != nil {
				t.Errorf("the right secret of the %s under a flood of wrong ones = %v", name, err)
			}
			if n := deps.Hasher.Computed() - before; n > fair {
				t.Errorf("the %s waited for %d computations, want its turn next to one network", name, n)
			}
		}
		stop()
		flood.Wait()
	})
	t.Run("attack 7085: after a reload", func(t *testing.T) {
		t.Parallel()
		deps := dependencies(t)
		deps.Hasher = secret.NewHasher(secret.HashCost{MemoryKiB: 64, Iterations: 1, Concurrency: 1})
		deps.SlowSecrets = clientstore.NewSlowSecrets()
		phc, err := deps.Hasher.Hash(t.Context(), slowSecret)
		if err != nil {
			t.Fatal(err)
		}
		computed := deps.Hasher.Computed()
		for range 2 {
			legacy, _ := newSlowClients(t, deps, phc)
			if err := legacy(t.Context(), "198.51.100.7", slowSecret); err != nil {
				t.Errorf("the right secret = %v", err)
			}
		}
		if n := deps.Hasher.Computed() - computed; n != 1 {
			t.Errorf("%d hashes were computed before and after a reload, want 1", n)
		}
	})
}
