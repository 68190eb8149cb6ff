package authz_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/gatehouse-id/gatehouse/authz/authztest"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

// TestPeerOutbound plays what other products have fallen for: a client that names an address makes the server call its
// own network.
func TestPeerOutbound(t *testing.T) {
	t.Parallel()
	var reached atomic.Int64
	inside := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached.Add(1) }))
	t.Cleanup(inside.Close)
	t.Run("peer 36: jwks_uri of a client that was added while the server runs", func(t *testing.T) {
		t.Parallel()
		stored := 0
		for _, uri := range []string{
			inside.URL + "/jwks", strings.Replace(inside.URL, "127.0.0.1", "localhost", 1),
			"https://169.254.169.254/latest", "https://10.0.0.1/jwks", "https://[::1]/jwks",
		} {
			s := authztest.NewSigner(t, "signer", jose.ES256)
			s.Client.JWKS, s.Client.JWKSURI = nil, uri
			h := authztest.New(t)
			if _, err := h.Server().Clients().Add(t.Context(), *s.Client, authztest.Admin); err != nil {
				continue // not even stored
			}
			stored++
			for _, kid := range []string{"one", "another"} {
				s.Kid = kid
				if res := h.Post("/oauth/token", authztest.AssertionForm(s.Sign(t, s.Claims(h), ""))); res.Status < 400 ||
					strings.Contains(res.Body, "169.254") {
					t.Errorf("%s: Token = %d %s, want a refusal", uri, res.Status, res.Body)
				}
				h.Clock.Advance(2 * time.Minute)
			}
			if !strings.Contains(h.Log(), "the address is not a public one") {
				t.Errorf("%s: the log does not say why: %s", uri, h.Log())
			}
		}
		if n := reached.Load(); n != 0 || stored < 3 {
			t.Errorf("%d requests arrived, want none; %d clients were stored", n, stored)
		}
	})
	t.Run("peer 53: backchannel_logout_uri of a client that was added while the server runs", func(t *testing.T) {
		t.Parallel()
		p := authztest.NewParty(t)
		h := authztest.New(t)
		c := p.Hears("added")
		c.Secrets = []secret.String{secret.New(authztest.Secret("added"))}
		if _, err := h.Server().Clients().Add(t.Context(), *c, authztest.Admin); err != nil {
			t.Fatal(err)
		}
		h.Config.Clients = append(h.Config.Clients, c) // for the harness alone
		b := h.Browser(authztest.Demo)
		b.Tokens("added")
		if err := h.Store.Update(t.Context(),
			func(tx storage.Tx) error { return h.Server().SessionEnded(tx, authztest.Demo, b.Session()) }); err != nil {
			t.Fatal(err)
		}
		authztest.SendLogouts(t, h)
		if n := len(p.Taken()); n != 0 {
			t.Errorf("%d logout tokens were sent to a loopback address", n)
		}
	})
}
