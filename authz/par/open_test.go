package par_test

import (
	"context"
	"crypto/rand"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/authz/client"
	"github.com/gatehouse-id/gatehouse/authz/clientstore"
	"github.com/gatehouse-id/gatehouse/authz/oauth"
	"github.com/gatehouse-id/gatehouse/authz/par"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
	"github.com/gatehouse-id/gatehouse/storage/badgerstore"
)

// TestPushesWithoutEnd: a client with 1,000 requests that no one has finished has to wait. Others, and public clients,
// whose requests strangers can push, do not.
func TestPushesWithoutEnd(t *testing.T) {
	t.Parallel()
	at := time.Date(2035, 3, 1, 12, 0, 0, 0, time.UTC)
	now := func() time.Time { return at }
	store, err := badgerstore.OpenMemory(func(o *badgerstore.Options) { o.Now = now })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	ring, err := secret.NewKeyring(make([]byte, secret.KeySize))
	if err != nil {
		t.Fatal(err)
	}
	const password = "the secret of each client of this test"
	codes := func(id string, public bool, secrets ...secret.String) *client.Client {
		return &client.Client{
			ID: id, Public: public, Secrets: secrets, Grants: []string{"authorization_code"},
			RedirectURIs: []string{"https://" + id + ".example.com/callback"},
		}
	}
	registry, err := clientstore.New(t.Context(), clientstore.Config{
		Issuer: "https://auth.example.com", Clients: []*client.Client{
			codes("shop", false, secret.New(password)), codes("other", false, secret.New(password)), codes("spa", true),
		},
	}, clientstore.Deps{
		Store: store, Keyring: ring, Events: &audit.Recorder{Random: rand.Reader, Now: now},
		Origin: audit.PeerOrigin, Log: zap.NewNop(), Now: now, Random: rand.Reader,
	})
	if err != nil {
		t.Fatal(err)
	}
	requests := par.New(par.Deps{
		Store: store, Clients: registry, Now: now, Random: rand.Reader,
		Check: func(_ context.Context, f oauth.Form) (oauth.Form, error) { return f, nil },
		Bind: func(http.ResponseWriter, *http.Request, *client.Client, map[string][]string) (func(storage.Tx) error, error) {
			return nil, nil
		},
		Admit: func(*http.Request, int) bool { return true },
	})
	push := func(id string) (reference string, err error) {
		form := url.Values{"client_id": {id}, "client_secret": {password}}
		if id == "spa" { // it is public
			form.Del("client_secret")
		}
		r := httptest.NewRequest(http.MethodPost, "/oauth/par", strings.NewReader(form.Encode()))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		w := httptest.NewRecorder()
		err = requests.Handle(w, r)
		_, rest, _ := strings.Cut(w.Body.String(), `"request_uri":"`)
		reference, _, _ = strings.Cut(rest, `"`)
		return reference, err
	}
	for range 999 {
		if _, err := push("shop"); err != nil {
			t.Fatal(err)
		}
	}
	var last string
	for i, step := range []struct {
		client  string
		after   time.Duration
		refused bool
	}{
		{"shop", 0, false},
		{"shop", 0, true},
		{"spa", 0, false},
		{"other", 0, false},
		{"shop", time.Minute, false},
		{"other", 0, false},
	} {
		at = at.Add(step.after)
		reference, err := push(step.client)
		refused := new(oauth.Error)
		if got := errors.As(err, &refused) && refused.Status == http.StatusTooManyRequests; got != step.refused || err != nil && !got {
			t.Errorf("push %d, of %s = %v, want refused: %t", i, step.client, err, step.refused)
		}
		last = reference
	}
	_, key, err := requests.Find(t.Context(), "other", last)
	if err != nil {
		t.Fatalf("Find = %v", err)
	}
	spend := func(tx storage.Tx) error { return par.Spend(tx, "other", key) }
	if err := store.Update(t.Context(), spend); err != nil {
		t.Errorf("Spend = %v", err)
	}
	if err := store.Update(t.Context(), spend); err == nil {
		t.Error("a request is finished twice")
	}
}
