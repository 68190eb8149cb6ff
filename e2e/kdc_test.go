package e2e

import (
	"bytes"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

const realm = "EXAMPLE.TEST"

// kdc is a running KDC of MIT Kerberos, with ann, ben and the service of localhost.
type kdc struct {
	t      *testing.T
	dir    string
	keytab string // file with the keys of the service
}

// startKDC serves a realm until the end of the test. commands are those of the guide that make the service and its
// keytab, in the names of the guide.
func startKDC(t *testing.T, commands string) *kdc {
	t.Helper()
	k := &kdc{t: t, dir: t.TempDir()}
	k.keytab = filepath.Join(k.dir, "http.keytab")
	port := freePorts(t, 1)[0]
	place := strings.NewReplacer("REALM", realm, "DIR", k.dir, "PORT", fmt.Sprint(port))
	for name, content := range map[string]string{
		"krb5.conf": `[libdefaults]
 default_realm = REALM
 dns_lookup_kdc = false
 dns_lookup_realm = false
 dns_canonicalize_hostname = false
 rdns = false
 udp_preference_limit = 1
 default_ccache_name = FILE:DIR/nobody
[realms]
 REALM = {
  kdc = 127.0.0.1:PORT
 }
[domain_realm]
 localhost = REALM
`,
		"kdc.conf": `[kdcdefaults]
 kdc_listen = 127.0.0.1:PORT
 kdc_tcp_listen = 127.0.0.1:PORT
[realms]
 REALM = {
  database_name = DIR/principal
  key_stash_file = DIR/stash
  acl_file = DIR/acl
  supported_enctypes = aes256-cts-hmac-sha1-96:normal aes128-cts-hmac-sha1-96:normal
 }
[logging]
 kdc = FILE:DIR/kdc.log
`,
	} {
		if err := os.WriteFile(filepath.Join(k.dir, name), []byte(place.Replace(content)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	k.must("/usr/sbin/kdb5_util", "create", "-s", "-r", realm, "-P", random(12))
	for _, who := range []string{"ann", "ben"} {
		k.must("/usr/sbin/kadmin.local", "-q", "addprinc -pw "+passwordOf(who)+" "+who)
	}
	commands = strings.ReplaceAll(commands, "auth.example.com", "localhost")
	k.must("bash", "-ec", `kadmin() { /usr/sbin/kadmin.local "$@"; }`+"\n"+commands)
	if _, err := os.Stat(k.keytab); err != nil {
		t.Fatalf("the commands of the guide make no keytab: %v", err)
	}
	var out bytes.Buffer
	cmd := k.command("/usr/sbin/krb5kdc", "-n")
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatalf("krb5kdc: %v: make install", err)
	}
	gone := make(chan error, 1)
	go func() { gone <- cmd.Wait() }()
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may be gone
		<-gone
	})
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(20 * time.Second); ; <-tick.C {
		if c, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port)); err == nil {
			c.Close()
			return k
		}
		select {
		case err := <-gone:
			gone <- err
			t.Fatalf("krb5kdc ended: %v\n%s", err, out.String())
		default:
		}
		if time.Now().After(end) {
			t.Fatal("krb5kdc does not answer")
		}
	}
}

func passwordOf(who string) string { return "password-of-" + who }

// env are the variables by which programs find the realm and the tickets of someone. No one has tickets by default.
func (k *kdc) env(who string) []string {
	return []string{
		"KRB5_CONFIG=" + filepath.Join(k.dir, "krb5.conf"), "KRB5_KDC_PROFILE=" + filepath.Join(k.dir, "kdc.conf"),
		"KRB5CCNAME=FILE:" + filepath.Join(k.dir, "tickets-of-"+who),
	}
}

func (k *kdc) command(name string, args ...string) *exec.Cmd { return k.as("nobody", name, args...) }

// as is a command of someone with tickets.
func (k *kdc) as(who, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(k.t.Context(), name, args...)
	cmd.Dir, cmd.Env = k.dir, environ(k.dir, k.env(who)...)
	return cmd
}

func (k *kdc) must(name string, args ...string) {
	k.t.Helper()
	if said, err := k.command(name, args...).CombinedOutput(); err != nil {
		k.t.Fatalf("%s: %v: make install\n%s", name, err, said)
	}
}

// ticket signs someone in to their computer, with options of kinit.
func (k *kdc) ticket(who string, options ...string) {
	k.t.Helper()
	cmd := k.as(who, "kinit", append(options, who)...)
	cmd.Stdin = strings.NewReader(passwordOf(who) + "\n")
	if said, err := cmd.CombinedOutput(); err != nil {
		k.t.Fatalf("kinit: %v: make install\n%s", err, said)
	}
}

// curl calls curl as someone, with their own cookies, and returns the status and the page.
func (k *kdc) curl(t *testing.T, who string, args ...string) (status, page string) {
	t.Helper()
	cmd := k.as(who, "curl", append([]string{"-sS", "-w", "\n%{http_code}", "-c", "jar", "-b", "jar"}, args...)...)
	cmd.Dir = t.TempDir()
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("curl: %v\n%s", err, out)
	}
	i := strings.LastIndexByte(string(out), '\n')
	return string(out[i+1:]), string(out[:i])
}

// seen has curl answer another server of localhost, and returns what it answers: a token of someone that Gatehouse has
// not seen.
func (k *kdc) seen(t *testing.T, who string) string {
	t.Helper()
	var answer atomic.Value
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if said := r.Header.Get("Authorization"); said != "" {
			answer.Store(said)
			return
		}
		w.Header().Set("WWW-Authenticate", "Negotiate")
		w.WriteHeader(http.StatusUnauthorized)
	}))
	defer other.Close()
	u, err := url.Parse(other.URL)
	if err != nil {
		t.Fatal(err)
	}
	k.curl(t, who, "--negotiate", "-u", ":", "http://localhost:"+u.Port()+"/")
	said, ok := answer.Load().(string)
	if !ok || !strings.HasPrefix(said, "Negotiate YI") {
		t.Fatalf("curl answers %q, want a ticket", said)
	}
	return said
}
