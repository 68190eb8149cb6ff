package e2e

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"
)

// startBound starts a server with device-bound sessions: an issuer and a wiki over https.
func startBound(t *testing.T) (s *server, port int) {
	t.Helper()
	s, port = startSecure(t, "", "device_bound on", func(s *server) string {
		return fmt.Sprintf(`
wiki.example.com {
	tls %[1]s/cert.pem %[1]s/key.pem
	protect {
		login
		allow {
			match path /payroll
			need device_bound
		}
		allow
	}
	reverse_proxy %[2]s
}
`, s.dir, s.Echo)
	})
	s.Wiki = "https://wiki.example.com"
	return s, port
}

// startSecure starts a server with an issuer over https, these options of gatehouse and identity, and these sites.
func startSecure(t *testing.T, options, identity string, sites func(s *server) string) (s *server, port int) {
	t.Helper()
	s = &server{
		t: t, dir: t.TempDir(), secrets: map[string]string{}, Echo: application(t), Password: random(12),
		Issuer: "https://auth.example.com",
	}
	pool := certify(t, s.dir)
	ports := freePorts(t, 2)
	s.write(fmt.Sprintf(`{
	admin off
	persist_config off
	skip_install_trust
	default_bind 127.0.0.1
	grace_period 100ms
	https_port %d
	http_port %d
	gatehouse {
		issuer %s
		storage badger %[4]s/data
		%[8]s
		identity {
			%[6]s
			password_hash {
				memory 8MiB
				iterations 1
			}
			person %[5]s {
				password {env.TEST_PASSWORD}
			}
		}
	}
}

auth.example.com {
	tls %[4]s/cert.pem %[4]s/key.pem
	gatehouse
}
%[7]s`, ports[0], ports[1], s.Issuer, s.dir, person, identity, strings.ReplaceAll(sites(s), "PORT", fmt.Sprint(ports[0])), options))
	s.secret("password", s.Password)
	s.run(filepath.Join(s.dir, "Caddyfile"), s.dir, "TEST_PASSWORD="+s.Password)
	s.until(t, &http.Client{Transport: &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12},
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", fmt.Sprintf("127.0.0.1:%d", ports[0]))
		},
	}}, s.Issuer+"/healthz")
	return s, ports[0]
}

// onDevice starts a Chromium with a profile of its own, which trusts the certificate of the server.
func (s *server) onDevice(t *testing.T, port int) *tab {
	t.Helper()
	home := t.TempDir()
	db := "sql:" + filepath.Join(home, ".pki", "nssdb")
	for _, args := range [][]string{
		{"mkdir", "-p", filepath.Join(home, ".pki", "nssdb")},
		{"certutil", "-N", "-d", db, "--empty-password"},
		{"certutil", "-A", "-d", db, "-n", "test", "-t", "CP,,", "-i", filepath.Join(s.dir, "cert.pem")},
	} {
		if out, err := exec.CommandContext(t.Context(), args[0], args[1:]...).CombinedOutput(); err != nil { //nolint:gosec // fixed commands
			t.Fatalf("%v: %v: make install\n%s", args, err, out)
		}
	}
	return s.browseWith(t, chromedp.ExecPath(program(t, windowed)), chromedp.Env("HOME="+home), chromedp.Flag("headless", "new"),
		chromedp.Flag("host-resolver-rules", fmt.Sprintf("MAP *.example.com:443 127.0.0.1:%d", port)),
		chromedp.Flag("enable-features", "DeviceBoundSessions,EnableBoundSessionCredentialsSoftwareKeysForManualTesting"))
}

// cookies returns the cookies of a browser whose names end so.
func (b *tab) cookiesOf(kind string) (out []*network.Cookie) {
	b.t.Helper()
	for _, c := range b.cookies() {
		if strings.HasSuffix(c.Name, kind) {
			out = append(out, c)
		}
	}
	return out
}

// endSecondCookies takes away the second cookies of a browser, as if they had ended.
func (b *tab) endSecondCookies() {
	b.t.Helper()
	for _, c := range b.cookiesOf("-bound") {
		call(b, network.DeleteCookies, network.DeleteCookiesParams{Name: c.Name, Domain: c.Domain, Path: c.Path})
	}
}

// worksOn asserts that a bound session opens what asks for one, and goes on without its second cookies.
func (b *tab) worksOn(wiki string) {
	b.t.Helper()
	if status := b.open(wiki + "/payroll"); status != 200 {
		b.t.Errorf("a page that needs a bound session = %d", status)
	}
	b.endSecondCookies()
	b.open(wiki + "/after")
	if at := b.location(); at != wiki+"/after" {
		b.t.Errorf("after the end of the second cookies the browser is at %s", at)
	}
}

// takeCookies copies the cookies of another browser, all but the second ones, and returns how many there were.
func (b *tab) takeCookies(of *tab) (copied int) {
	b.t.Helper()
	for _, kind := range []string{"-session", "-site", "-browser", "-device"} {
		for _, c := range of.cookiesOf(kind) {
			copied++
			call(b, network.SetCookie, network.SetCookieParams{
				Name: c.Name, Value: c.Value, URL: "https://" + c.Domain, Path: c.Path, Secure: &c.Secure, HTTPOnly: &c.HTTPOnly, SameSite: c.SameSite,
			})
		}
	}
	return copied
}

// TestDeviceBoundSessions: a real browser binds its sessions at the issuer and at a site, works on when the second
// cookie is gone, and a copy of its session cookies in another profile leads to the sign-in page.
func TestDeviceBoundSessions(t *testing.T) {
	t.Parallel()
	s, port := startBound(t)
	b := s.onDevice(t, port)
	b.open(s.Wiki + "/payroll")
	b.signIn(person, s.Password)
	b.reaches(s.Wiki + "/payroll")
	b.until(`!document.title.includes("device")`) // the page tries again until the session is bound
	for deadline := 0; len(b.cookiesOf("-bound")) < 2; deadline++ {
		b.open(s.Wiki + "/page")
		if deadline == 50 {
			names := ""
			for _, c := range b.cookies() {
				names += " " + c.Domain + ":" + c.Name
			}
			t.Fatalf("cookies:%s, want two sessions bound", names)
		}
	}
	b.worksOn(s.Wiki)
	b.open(s.Issuer + "/account/devices")
	if text := b.text("main"); !strings.Contains(text, "Bound to the device") {
		t.Errorf("the page of devices: %s", text)
	}

	t.Run("attack 8331: a copy of the cookies", func(t *testing.T) {
		thief := s.onDevice(t, port)
		copied := thief.takeCookies(b)
		thief.open(s.Wiki + "/after")
		if at := thief.location(); copied < 4 || !strings.HasPrefix(at, s.Issuer+"/sign-in") {
			t.Errorf("%d copied cookies lead another browser to %s, want the sign-in page", copied, at)
		}
	})
}

// TestDeviceBoundBehindAnotherProxy: a browser binds its session at a site that another proxy serves, by the paths that
// the proxy passes on, and the session cookie alone opens nothing there.
func TestDeviceBoundBehindAnotherProxy(t *testing.T) {
	t.Parallel()
	s, port := startSecure(t, `forward_auth_from 127.0.0.1
		forward_auth wiki {
			origins https://wiki.example.com
			login
			allow {
				match path /payroll
				need device_bound
			}
			allow
		}`, "device_bound on", func(s *server) string {
		return fmt.Sprintf(`
wiki.example.com {
	tls %[1]s/cert.pem %[1]s/key.pem
	handle /.gatehouse/* {
		rewrite * /oauth/forward-auth/site{uri}
		reverse_proxy https://127.0.0.1:PORT {
			header_up Host auth.example.com
			transport http {
				tls_server_name auth.example.com
				tls_trust_pool file %[1]s/cert.pem
			}
		}
	}
	handle {
		forward_auth https://127.0.0.1:PORT {
			uri /oauth/forward-auth?profile=caddy&policy=wiki
			header_up Host auth.example.com
			copy_headers Remote-User Remote-Name Remote-Email Remote-Groups Remote-Assertion Cookie
			transport http {
				tls_server_name auth.example.com
				tls_trust_pool file %[1]s/cert.pem
			}
		}
		reverse_proxy %[2]s
	}
}
`, s.dir, s.Echo)
	})
	s.Wiki = "https://wiki.example.com"
	b := s.onDevice(t, port)
	b.open(s.Wiki + "/page")
	b.signIn(person, s.Password)
	b.reaches(s.Wiki + "/page")
	bound := func() bool {
		for _, c := range b.cookiesOf("-bound") {
			if c.Domain == "wiki.example.com" {
				return true
			}
		}
		return false
	}
	for tries := 0; !bound(); tries++ {
		if b.open(s.Wiki + "/page"); tries == 50 {
			t.Fatal("the browser does not bind its session at the site of another proxy")
		}
	}
	b.worksOn(s.Wiki)
	thief := s.onDevice(t, port)
	copied := thief.takeCookies(b)
	thief.open(s.Wiki + "/after")
	if at := thief.location(); copied < 4 || !strings.HasPrefix(at, s.Issuer+"/sign-in") {
		t.Errorf("%d copied cookies lead another browser to %s, want the sign-in page", copied, at)
	}
}
