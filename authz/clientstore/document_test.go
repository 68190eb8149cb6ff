package clientstore_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/authz/cimd"
	"github.com/gatehouse-id/gatehouse/authz/clientstore"
	"github.com/gatehouse-id/gatehouse/storage"
)

// asked is a store that counts the Readings that are taken, and the transactions that only read.
type asked struct {
	storage.Store

	readings, views int
}

func (s *asked) Track(ctx context.Context, fn func(storage.Tx) error) (*storage.Reading, error) {
	s.readings++
	return s.Store.(storage.Tracker).Track(ctx, fn) //nolint:forcetypeassert // of Badger
}

func (s *asked) View(ctx context.Context, fn func(storage.Tx) error) error {
	s.views++
	return s.Store.View(ctx, fn)
}

// sharedStore is one that other processes write to as well, so no Reading is worth taking.
type sharedStore struct{ *asked }

func (sharedStore) Clock(context.Context) (time.Time, error) { return time.Time{}, nil }

// everyDocument answers with the metadata document of the client whose id is the address.
type everyDocument struct{}

func (everyDocument) RoundTrip(r *http.Request) (*http.Response, error) {
	body := `{"client_id":"` + r.URL.String() +
		`","client_name":"An app","redirect_uris":["http://localhost/callback"],"token_endpoint_auth_method":"none"}`
	return &http.Response{
		StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}},
		Body: io.NopCloser(strings.NewReader(body)), ContentLength: -1, Request: r,
	}, nil
}

// A request of a client with a metadata document does not ask a store in vain that other processes write to. In our own
// it needs none while the document is remembered.
func TestNoReadingOfASharedStore(t *testing.T) {
	t.Parallel()
	const id = "https://app.example/client.json"
	deps := dependencies(t)
	deps.HTTP = &http.Client{Transport: everyDocument{}}
	own := &asked{Store: deps.Store}
	for name, c := range map[string]struct {
		store           storage.Store
		readings, views int // the views of the second request
	}{"our own": {own, 1, 0}, "shared": {sharedStore{own}, 0, 1}} {
		deps.Store = c.store
		r, err := clientstore.New(t.Context(), clientstore.Config{Issuer: "https://auth.example.com", Documents: cimd.Config{On: true}}, deps)
		if err != nil {
			t.Fatal(err)
		}
		own.readings = 0
		for range 2 {
			own.views = 0
			if _, err := r.Get(cimd.Asking(t.Context(), "192.0.2.1", false), id); err != nil {
				t.Error(err)
			}
		}
		if own.readings != c.readings || own.views != c.views {
			t.Errorf("%s: %d readings, %d views of a second request, want %d and %d", name, own.readings, own.views, c.readings, c.views)
		}
	}
}
