package authz_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/authz/authztest"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/storage/badgerstore"
)

// onDisk is a harness whose store syncs to a disk.
func onDisk(b *testing.B) *authztest.Harness {
	b.Helper()
	store, err := badgerstore.Open(b.Context(), badgerstore.Options{Dir: b.TempDir()})
	if err != nil {
		b.Fatal(err)
	}
	// What a server also does: sealing the events.
	ctx, stop := context.WithCancel(context.Background())
	var beside sync.WaitGroup
	beside.Go(func() { audit.NewKeeper(store, nil, zap.NewNop()).Run(ctx) })
	b.Cleanup(func() {
		stop()
		beside.Wait()
		if err := store.Close(); err != nil {
			b.Error(err)
		}
	})
	return authztest.New(b, authztest.WithStore(store))
}

// serve sends a form to the server without a network.
func serve(h *authztest.Harness, path string, f url.Values, basic []string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(f.Encode()))
	r.Header.Set("Content-Type", authztest.FormType)
	r.Header.Set(basic[0], basic[1])
	w := httptest.NewRecorder()
	h.Server().ServeHTTP(w, r)
	return w
}

func BenchmarkIntrospect(b *testing.B) {
	h := onDisk(b)
	got := h.Tokens("shop", authztest.Demo)
	basic := authztest.Basic("ops", authztest.Secret("ops"))
	b.Run("http", func(b *testing.B) {
		b.ReportAllocs()
		f := url.Values{"token": {got.Access}}
		for b.Loop() {
			if w := serve(h, authztest.IntrospectPath, f, basic); w.Code != http.StatusOK {
				b.Fatal(w.Code, w.Body)
			}
		}
	})
	for name, token := range map[string]string{
		"person": got.Access, "client": authztest.OwnToken(h).Text("access_token"),
		"forged": got.Access[:53] + "x",
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if i, err := h.Server().Introspect(b.Context(), token); err != nil || i.Active != (name != "forged") {
					b.Fatal(i, err)
				}
			}
		})
	}
}

func BenchmarkClientCredentials(b *testing.B) {
	h := onDisk(b)
	f := url.Values{"grant_type": {"client_credentials"}}
	basic := authztest.Basic("reports", authztest.Secret("reports"))
	b.SetParallelism(32) // times the cores: 64 on two
	b.ReportAllocs()
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if w := serve(h, "/oauth/token", f, basic); w.Code != http.StatusOK {
				b.Error(w.Code, w.Body)
				return
			}
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "tokens/s")
}

func BenchmarkRefresh(b *testing.B) {
	h := onDisk(b)
	for name, scope := range map[string]string{"plain": "orders.read", "openid": "openid"} {
		b.Run(name, func(b *testing.B) {
			token := h.Tokens("shop", authztest.Demo, "scope", scope).Refresh
			basic := authztest.Basic("shop", authztest.Secret("shop"))
			b.ReportAllocs()
			for b.Loop() {
				w := serve(h, "/oauth/token", url.Values{"grant_type": {"refresh_token"}, "refresh_token": {token}}, basic)
				if w.Code != http.StatusOK {
					b.Fatal(w.Code, w.Body)
				}
				token = (&authztest.Response{Body: w.Body.String()}).Text("refresh_token")
			}
		})
	}
}

// BenchmarkSignInAgain: code flows of one person at one client. before is how many there were already: the costs are
// the same.
func BenchmarkSignInAgain(b *testing.B) {
	for _, before := range []int{30, 3000} {
		b.Run(fmt.Sprint("before=", before), func(b *testing.B) {
			h := onDisk(b)
			browser := h.Browser(authztest.Demo)
			for range before {
				browser.Tokens("shop", "scope", "orders.read")
			}
			b.ReportAllocs()
			for b.Loop() {
				browser.Tokens("shop", "scope", "orders.read")
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "flows/s")
		})
	}
}
