//go:build unix

package caddymodule_test

import (
	"fmt"
	"html"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/gatehouse-id/gatehouse/caddymodule/servertest"
	"github.com/gatehouse-id/gatehouse/internal/dbsc"
	"github.com/gatehouse-id/gatehouse/internal/dbsc/dbsctest"
)

// browser sends requests to a server without a network, and keeps cookies of each host.
type browser struct {
	b       *testing.B
	server  *caddyhttp.Server
	cookies map[string]map[string]string
}

// do sends a request by https and returns the answer.
func (v *browser) do(method, address string, form url.Values, headers ...string) *httptest.ResponseRecorder {
	v.b.Helper()
	at, err := url.Parse(address)
	if err != nil {
		v.b.Fatal(err)
	}
	r := httptest.NewRequestWithContext(v.b.Context(), method, address, strings.NewReader(form.Encode()))
	r.Header = http.Header{
		"Accept": {"text/html"}, "Sec-Fetch-Mode": {"navigate"}, "Sec-Fetch-Dest": {"document"},
		"Cookie": {v.cookie(at.Host)},
	}
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Origin", at.Scheme+"://"+at.Host)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	rec := httptest.NewRecorder()
	v.server.ServeHTTP(rec, r)
	for _, c := range rec.Result().Cookies() {
		if v.cookies[at.Host] == nil {
			v.cookies[at.Host] = map[string]string{}
		}
		v.cookies[at.Host][c.Name] = c.Value
	}
	return rec
}

func (v *browser) cookie(host string) string {
	var list []string
	for name, value := range v.cookies[host] {
		list = append(list, name+"="+value)
	}
	return strings.Join(list, "; ")
}

var formToken = regexp.MustCompile(`<input type="hidden" name="csrf" value="([^"]*)"`)

// signIn signs the demo person in at a site, and returns what the site answers with its session.
func (v *browser) signIn(address string) http.Header {
	v.b.Helper()
	for range 10 {
		rec := v.do(http.MethodGet, address, nil)
		if rec.Code == http.StatusOK && strings.Contains(rec.Body.String(), `type="password"`) {
			token := formToken.FindStringSubmatch(rec.Body.String())
			rec = v.do(http.MethodPost, address, url.Values{
				"username": {"demo@example.com"}, "password": {servertest.TestPassword}, "csrf": {html.UnescapeString(token[1])},
			})
		}
		if rec.Header().Get("Secure-Session-Registration") != "" && strings.HasPrefix(address, "https://wiki.") {
			return rec.Header()
		}
		to, err := rec.Result().Location()
		if err != nil {
			v.b.Fatalf("%s = %d %s", address, rec.Code, rec.Body)
		}
		at, err := url.Parse(address)
		if err != nil {
			v.b.Fatal(err)
		}
		address = at.ResolveReference(to).String()
	}
	v.b.Fatal("the sign-in does not end")
	return nil
}

// BenchmarkSession measures what the proof of its device adds to a request with a session at a site: the same Caddy and
// session, on disk and without a network.
func BenchmarkSession(b *testing.B) {
	config := fmt.Sprintf(`{
	admin off
	persist_config off
	auto_https off
	log {
		output discard
	}
	gatehouse {
		issuer https://auth.example.com
		storage badger %s
		identity {
			device_bound on
			person demo@example.com {
				password "%s"
			}
		}
	}
}
http://auth.example.com:0, http://wiki.example.com:0 {
	bind 127.0.0.1
	@issuer host auth.example.com
	handle @issuer {
		gatehouse
	}
	handle {
		protect {
			login https://wiki.example.com
		}
		respond ok
	}
}
`, filepath.Join(b.TempDir(), "store"), servertest.TestPassword)
	server := loaded(b, config)
	const site = "https://wiki.example.com"
	visit := func(bound bool) string {
		v := &browser{b: b, server: server, cookies: map[string]map[string]string{}}
		offer := v.signIn(site + "/page")
		if device := dbsctest.New(b); bound {
			headers := append([]string{"Sec-Fetch-Mode", "no-cors", "Sec-Fetch-Site", "same-origin"}, device.Registration(offer)...)
			if rec := v.do(http.MethodPost, site+dbsc.RegisterPath, nil, headers...); rec.Code != http.StatusOK {
				b.Fatalf("registration = %d %s", rec.Code, rec.Body)
			}
		}
		return v.cookie("wiki.example.com")
	}
	for name, cookie := range map[string]string{"plain": visit(false), "bound": visit(true)} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			before := cpuTime(b)
			for b.Loop() {
				r := httptest.NewRequestWithContext(b.Context(), http.MethodGet, site+"/page", nil)
				r.Header = http.Header{
					"Accept": {"*/*"}, "Accept-Encoding": {"gzip"}, "User-Agent": {"bench"},
					"Cookie": {cookie}, "X-Request-Id": {"1"},
				}
				w := &sink{header: http.Header{}}
				if server.ServeHTTP(w, r); w.status != http.StatusOK {
					b.Fatalf("status = %d, want 200", w.status)
				}
			}
			b.ReportMetric(float64(cpuTime(b)-before)/float64(b.N), "cpu-ns/op")
		})
	}
}
