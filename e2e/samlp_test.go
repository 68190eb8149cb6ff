package e2e

import (
	"bufio"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"html"
	"io"
	"math/big"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// startSAMLP serves npm's samlp, a second independent identity provider, until the end of the test. It signs with
// xml-crypto and encrypts with xml-encryption.
func startSAMLP(t *testing.T) (origin string) {
	t.Helper()
	dir, port := t.TempDir(), freePorts(t, 1)[0]
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "samlp"}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(time.Hour),
	}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	for name, block := range map[string]*pem.Block{
		"key": {Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}, "cert": {Type: "CERTIFICATE", Bytes: cert},
	} {
		if err := os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command("node", "node/samlp.mjs")
	cmd.Env = environ(dir, fmt.Sprintf("PORT=%d", port), "KEY="+filepath.Join(dir, "key"), "CERT="+filepath.Join(dir, "cert"))
	cmd.Stderr = t.Output()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may be gone
		_ = cmd.Wait()
	})
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
		t.Fatalf("samlp says %q: %v", line, err)
	}
	return fmt.Sprintf("http://localhost:%d", port)
}

// TestSAMLP signs in at npm's samlp: a valid answer reaches the upstream behind protect, an invalid one gets an error
// page.
func TestSAMLP(t *testing.T) {
	t.Parallel()
	origin := startSAMLP(t)
	_, s := openShopEdited(t, func(caddyfile string) string {
		var blocks strings.Builder
		for _, id := range []string{"plain", "gcm", "cbc", "sha1", "open"} {
			more := ""
			if id == "open" {
				more = "\t\t\tallow_unsolicited\n"
			}
			fmt.Fprintf(&blocks, "\t\tidp %s saml {\n\t\t\tmetadata %s/%s/metadata\n\t\t\tmap http://schemas.xmlsoap.org/ws/2005/05/identity/claims/emailaddress email\n"+
				"\t\t\tcouple email\n%s\t\t}\n", id, origin, id, more)
		}
		return strings.Replace(caddyfile, "\t\tapi_client ops {", blocks.String()+"\t\tapi_client ops {", 1)
	})
	b := s.browse(t)
	for _, id := range []string{"plain", "gcm", "cbc", "open"} {
		t.Run(id, func(t *testing.T) {
			b := b.in(t)
			b.forget()
			b.open(s.Wiki + "/deep?x=1")
			b.choose(id)
			b.leaves(origin)
			if got := b.location(); got != s.Wiki+"/deep?x=1" {
				t.Fatalf("landed at %s, which says %q", got, b.text("body"))
			}
			if got := b.seen(); got.Email != "alice@example.org" {
				t.Errorf("the upstream saw %+v", got)
			}
		})
	}
	t.Run("signed by SHA-1", func(t *testing.T) {
		b := b.in(t)
		b.forget()
		b.open(s.Wiki + "/")
		b.choose("sha1")
		b.leaves(origin)
		b.refused(s)
		b.open(s.Wiki + "/")
		if got := b.location(); !strings.HasPrefix(got, s.Issuer) {
			t.Errorf("refused, and at %s", got)
		}
	})
	t.Run("unasked", func(t *testing.T) {
		b := b.in(t)
		b.forget()
		b.open(origin + "/plain/start?to=" + s.Issuer)
		b.leaves(origin)
		b.refused(s)
		b.open(s.Wiki + "/")
		if got := b.location(); !strings.HasPrefix(got, s.Issuer) {
			t.Errorf("not allowed to sign in unasked, and at %s", got)
		}
	})
	t.Run("unasked where that is allowed", func(t *testing.T) {
		b := b.in(t)
		b.forget()
		b.open(origin + "/open/start?to=" + s.Issuer)
		b.leaves(origin)
		b.open(s.Wiki + "/")
		if got := b.location(); got != s.Wiki+"/" {
			t.Fatalf("landed at %s, which says %q", got, b.text("body"))
		}
		if got := b.seen(); got.Email != "alice@example.org" {
			t.Errorf("the upstream saw %+v", got)
		}
	})
}

// TestSAMLReplay posts one answer repeatedly, also after the server was killed. It needs no particular browser, because
// the answer is unsolicited.
func TestSAMLReplay(t *testing.T) {
	t.Parallel()
	origin := startSAMLP(t)
	_, s := openShopEdited(t, func(caddyfile string) string {
		return strings.Replace(caddyfile, "\t\tapi_client ops {",
			"\t\tidp open saml {\n\t\t\tmetadata "+origin+"/open/metadata\n\t\t\tallow_unsolicited\n\t\t}\n\t\tapi_client ops {", 1)
	})
	t.Run("attack 163: the same answer again, and after a restart", func(t *testing.T) {
		resp, err := http.Get(origin + "/open/start?to=" + s.Issuer)
		if err != nil {
			t.Fatal(err)
		}
		page, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		found := regexp.MustCompile(`name="SAMLResponse"\s+value="([^"]+)"`).FindSubmatch(page)
		if err != nil || found == nil {
			t.Fatalf("samlp answers %q: %v", page, err)
		}
		post := func() (status int, session bool) {
			resp, err := s.client().PostForm(s.Issuer+"/saml/open/acs", url.Values{"SAMLResponse": {html.UnescapeString(string(found[1]))}})
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			return resp.StatusCode, slices.ContainsFunc(resp.Cookies(),
				func(c *http.Cookie) bool { return c.MaxAge >= 0 && strings.Contains(c.Name, "session") })
		}
		if status, session := post(); status != http.StatusSeeOther {
			t.Fatalf("the answer: %d, session %t", status, session)
		}
		refused := func(when string) {
			if status, session := post(); status != http.StatusBadRequest && status != http.StatusForbidden || session {
				t.Errorf("the answer %s: %d, session %t, want it refused", when, status, session)
			}
		}
		refused("again")
		s.restart()
		refused("after a restart")
	})
}

// restart kills the server and starts it again on the same data.
func (s *server) restart() {
	t := s.t
	t.Helper()
	if err := s.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-s.exit
	out, err := os.OpenFile(s.log, os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	old := s.cmd
	s.cmd = exec.Command(old.Path, old.Args[1:]...)
	s.cmd.Dir, s.cmd.Stdout, s.cmd.Stderr, s.cmd.Env = old.Dir, out, out, old.Env
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { s.exit <- s.cmd.Wait() }()
	s.await(s.Issuer + "/healthz")
}

// leaves waits until the form that submits itself has taken the browser away from origin.
func (b *tab) leaves(origin string) {
	b.t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(step); strings.HasPrefix(b.location(), origin) ||
		eval[string](b, "document.readyState") != "complete"; <-tick.C {
		if time.Now().After(end) {
			b.t.Fatalf("the browser stays at %s", b.location())
		}
	}
}

// refused checks that the browser shows an error page of the server.
func (b *tab) refused(s *server) {
	b.t.Helper()
	if got := b.location(); !strings.HasPrefix(got, s.Issuer) || b.has("input[type=password]") {
		b.t.Errorf("the browser is at %s: %s", got, b.text("body"))
	}
	if got := eval[int64](b, "performance.getEntriesByType('navigation')[0].responseStatus"); got != http.StatusForbidden &&
		got != http.StatusBadRequest {
		b.t.Errorf("the page has status %d", got)
	}
}
