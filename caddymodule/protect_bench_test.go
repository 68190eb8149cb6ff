//go:build unix

package caddymodule_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/gatehouse-id/gatehouse/authz/dpop/dpoptest"
	"github.com/gatehouse-id/gatehouse/caddymodule/servertest"
)

// sink discards an answer.
type sink struct {
	header http.Header
	status int
}

func (s *sink) Header() http.Header         { return s.header }
func (s *sink) WriteHeader(status int)      { s.status = status }
func (s *sink) Write(b []byte) (int, error) { return len(b), nil }

// cpuTime returns what the process has used so far, in nanoseconds.
func cpuTime(b *testing.B) int64 {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return u.Utime.Nano() + u.Stime.Nano()
}

// loaded runs a Caddyfile with one server until the benchmark ends.
func loaded(b *testing.B, config string) *caddyhttp.Server {
	b.Helper()
	raw, _, err := caddyconfig.GetAdapter("caddyfile").Adapt([]byte(config), map[string]any{"filename": "Caddyfile"})
	if err != nil {
		b.Fatal(err)
	}
	if err := caddy.Load(raw, true); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := caddy.Stop(); err != nil {
			b.Error(err)
		}
	})
	app, err := caddy.ActiveContext().App("http")
	if err != nil {
		b.Fatal(err)
	}
	for _, s := range app.(*caddyhttp.App).Servers { //nolint:forcetypeassert // it is Caddy's own
		return s
	}
	b.Fatal("no server")
	return nil
}

// BenchmarkProtect measures what protect adds to a site: the same Caddy, the same handler behind it, records on disk,
// no network.
func BenchmarkProtect(b *testing.B) {
	elsewhere := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"active":true,"sub":"7d1c","username":"demo@example.com","name":"Demo Person","groups":["staff"],"scope":"a","client_id":"bench"}`)
	}))
	b.Cleanup(elsewhere.Close)
	config := fmt.Sprintf(`{
	admin off
	persist_config off
	log {
		output discard
	}
	gatehouse {
		issuer http://localhost:1
		storage badger %s
		client bench {
			secret %s
			grants client_credentials password
			scopes a
			default_scopes a
		}
		client jwt {
			secret %s
			grants client_credentials password
			token_format jwt
			scopes a
			default_scopes a
		}
		identity {
			person demo@example.com {
				password "%s"
				name Demo Person
				groups staff
			}
		}
	}
}
http://localhost:0 {
	@issuer host localhost
	handle @issuer {
		gatehouse
	}
}
http://127.0.0.1:0 {
	@protected path /protected
	protect @protected a
	@limited path /limited
	protect @limited a {
		limit 1000000/s per ip
		limit 1000000/s per client
		quota 1000000M/month per client
	}
	@audited path /audited
	protect @audited a {
		audit log
	}
	@elsewhere path /elsewhere
	protect @elsewhere a {
		introspect %s {
			client bench %s
			cache 1h
		}
	}
	respond ok
}
`, filepath.Join(b.TempDir(), "store"), servertest.TestSecret, servertest.TestSecret, servertest.TestPassword, elsewhere.URL, servertest.TestSecret)
	server := loaded(b, config)

	key := dpoptest.NewKey(b)
	token := func(client string, form url.Values, proofs ...string) string {
		r := httptest.NewRequestWithContext(b.Context(), http.MethodPost, "http://localhost:1/oauth/token", strings.NewReader(form.Encode()))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.SetBasicAuth(client, servertest.TestSecret)
		for _, proof := range proofs {
			r.Header.Set("DPoP", proof)
		}
		rec := httptest.NewRecorder()
		server.ServeHTTP(rec, r)
		var answer struct {
			AccessToken string `json:"access_token"`
		}
		if err := json.Unmarshal(rec.Body.Bytes(), &answer); err != nil || answer.AccessToken == "" {
			b.Fatalf("token: %d %s", rec.Code, rec.Body)
		}
		return answer.AccessToken
	}
	own := url.Values{"grant_type": {"client_credentials"}}
	demo := url.Values{"grant_type": {"password"}, "username": {"demo@example.com"}, "password": {servertest.TestPassword}}

	for _, bb := range []struct{ name, path, token string }{
		{"without", "/open", ""},
		{"client", "/protected", token("bench", own)},
		{"limited", "/limited", token("bench", own)},
		{"audited", "/audited", token("bench", own)},
		{"person", "/protected", token("bench", demo)},
		{"jwt", "/protected", token("jwt", own)},
		{"person-jwt", "/protected", token("jwt", demo)},
		{"elsewhere", "/elsewhere", "a-token-of-a-server-elsewhere-of-usual-length-0123456789"},
	} {
		b.Run(bb.name, func(b *testing.B) {
			b.ReportAllocs()
			before := cpuTime(b)
			for b.Loop() {
				r := httptest.NewRequestWithContext(b.Context(), http.MethodGet, "http://127.0.0.1"+bb.path, nil)
				r.Header = http.Header{
					"Accept": {"*/*"}, "Accept-Encoding": {"gzip"}, "User-Agent": {"bench"},
					"Authorization": {"Bearer " + bb.token}, "X-Request-Id": {"1"},
				}
				w := &sink{header: http.Header{}}
				if server.ServeHTTP(w, r); w.status != http.StatusOK {
					b.Fatalf("status = %d, want 200", w.status)
				}
			}
			b.ReportMetric(float64(cpuTime(b)-before)/float64(b.N), "cpu-ns/op")
		})
	}

	// The key checks and the record of the proof are what this adds to "client". The proofs are made beforehand.
	bound := token("bench", own, key.Proof("POST", "http://localhost:1/oauth/token", "", time.Now()))
	b.Run("dpop", func(b *testing.B) {
		proofs := make([]string, b.N)
		for i := range proofs {
			proofs[i] = key.Proof("GET", "http://127.0.0.1/protected", bound, time.Now())
		}
		b.ReportAllocs()
		b.ResetTimer()
		before := cpuTime(b)
		for _, proof := range proofs {
			r := httptest.NewRequestWithContext(b.Context(), http.MethodGet, "http://127.0.0.1/protected", nil)
			r.Header = http.Header{
				"Accept": {"*/*"}, "Accept-Encoding": {"gzip"}, "User-Agent": {"bench"}, "Authorization": {"DPoP " + bound},
				"Dpop": {proof}, "X-Request-Id": {"1"},
			}
			w := &sink{header: http.Header{}}
			if server.ServeHTTP(w, r); w.status != http.StatusOK {
				b.Fatalf("status = %d, want 200", w.status)
			}
		}
		b.ReportMetric(float64(cpuTime(b)-before)/float64(b.N), "cpu-ns/op")
	})
}
