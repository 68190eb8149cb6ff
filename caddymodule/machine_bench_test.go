//go:build unix

package caddymodule_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/gatehouse-id/gatehouse/caddymodule/servertest"
)

// BenchmarkMachine measures the endpoints that machines call, through Caddy and with records on disk, but without a
// network: a client gets a token, alone and as one of many, an API client asks about it and about one of a person, the
// client revokes it, and a device asks whether someone has allowed it.
func BenchmarkMachine(b *testing.B) {
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
			password_only
			scopes a
			default_scopes a
		}
		client tv {
			secret %[2]s
			grants device_code
			scopes openid
		}
		api_client api {
			secret %[2]s
			apis introspection
		}
		identity {
			person demo@example.com {
				password "%[3]s"
				name Demo Person
				groups staff
			}
		}
	}
}
http://localhost:0 {
	gatehouse
}
`, filepath.Join(b.TempDir(), "store"), servertest.TestSecret, servertest.TestPassword)
	server := loaded(b, config)
	post := func(b *testing.B, path, form, client string, w http.ResponseWriter) {
		b.Helper()
		r := httptest.NewRequestWithContext(b.Context(), http.MethodPost, "http://localhost:1"+path, strings.NewReader(form))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.SetBasicAuth(client, servertest.TestSecret)
		server.ServeHTTP(w, r)
	}
	issue := func(b *testing.B, f url.Values) string {
		b.Helper()
		rec := httptest.NewRecorder()
		post(b, "/oauth/token", f.Encode(), "bench", rec)
		var answer struct {
			AccessToken string `json:"access_token"`
		}
		if err := json.Unmarshal(rec.Body.Bytes(), &answer); err != nil || answer.AccessToken == "" {
			b.Fatalf("token: %d %s", rec.Code, rec.Body)
		}
		return answer.AccessToken
	}
	own := url.Values{"grant_type": {"client_credentials"}}
	ofClient := issue(b, own)
	ofPerson := issue(b, url.Values{"grant_type": {"password"}, "username": {"demo@example.com"}, "password": {servertest.TestPassword}})
	rec := httptest.NewRecorder()
	post(b, "/oauth/device_authorization", "", "tv", rec)
	var begun struct {
		Code string `json:"device_code"`
	}
	if err := json.Unmarshal(rec.Body.Bytes(), &begun); err != nil || begun.Code == "" {
		b.Fatalf("device: %d %s", rec.Code, rec.Body)
	}
	poll := url.Values{"grant_type": {"urn:ietf:params:oauth:grant-type:device_code"}, "device_code": {begun.Code}}.Encode()
	for range 20 { // until it has to wait as long as devices must at most
		post(b, "/oauth/token", poll, "tv", httptest.NewRecorder())
	}
	const introspect = "/oauth/api/v2/token/introspect"
	for _, bb := range []struct{ name, path, client, form string }{
		{"token", "/oauth/token", "bench", own.Encode()},
		{"introspect client", introspect, "api", "token=" + ofClient},
		{"introspect person", introspect, "api", "token=" + ofPerson},
		{"introspect unknown", introspect, "api", "token=" + ofClient[:53] + "x"},
		{"revoke unknown", "/oauth/revoke", "bench", "token=" + ofClient[:53] + "x"},
		{"waiting device", "/oauth/token", "tv", poll},
	} {
		want := http.StatusOK
		if bb.client == "tv" {
			want = http.StatusBadRequest
		}
		b.Run(bb.name, func(b *testing.B) {
			b.ReportAllocs()
			before := cpuTime(b)
			for b.Loop() {
				w := &sink{header: http.Header{}}
				if post(b, bb.path, bb.form, bb.client, w); w.status != want {
					b.Fatalf("status = %d, want %d", w.status, want)
				}
			}
			b.ReportMetric(float64(cpuTime(b)-before)/float64(b.N), "cpu-ns/op")
		})
	}
	b.Run("token, 64 at once", func(b *testing.B) {
		b.ReportAllocs()
		b.SetParallelism((64 + runtime.GOMAXPROCS(0) - 1) / runtime.GOMAXPROCS(0))
		before := cpuTime(b)
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				w := &sink{header: http.Header{}}
				if post(b, "/oauth/token", own.Encode(), "bench", w); w.status != http.StatusOK {
					b.Errorf("status = %d, want 200", w.status)
					return
				}
			}
		})
		b.ReportMetric(float64(cpuTime(b)-before)/float64(b.N), "cpu-ns/op")
	})
}
