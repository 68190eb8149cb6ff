package e2e

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"html"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// openLDAP is a running slapd with Ann, Ben and a crowd.
type openLDAP struct {
	cmd  *exec.Cmd
	port int
	CA   string // file
}

const (
	readerPassword = "reader-of-the-directory"
	crowd          = 40 // further people
)

// startOpenLDAP serves it by TLS until the end of the test.
func startOpenLDAP(t *testing.T) *openLDAP {
	t.Helper()
	dir, port := t.TempDir(), freePorts(t, 1)[0]
	l := &openLDAP{port: port, CA: filepath.Join(dir, "crt.pem")}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		DNSNames:    []string{"localhost"},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	crt, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	people := fmt.Sprintf("dn: dc=example,dc=com\nobjectClass: dcObject\nobjectClass: organization\no: Example\ndc: example\n\n"+
		"dn: cn=reader,dc=example,dc=com\nobjectClass: organizationalRole\nobjectClass: simpleSecurityObject\ncn: reader\nuserPassword: %s\n\n"+
		"dn: ou=people,dc=example,dc=com\nobjectClass: organizationalUnit\nou: people\n\ndn: ou=groups,dc=example,dc=com\nobjectClass: organizationalUnit\nou: groups\n\n", readerPassword)
	all := []string{"ann", "ben"}
	for i := range crowd {
		all = append(all, fmt.Sprintf("p%d", i))
	}
	for _, who := range all {
		people += fmt.Sprintf("dn: uid=%[1]s,ou=people,dc=example,dc=com\nobjectClass: inetOrgPerson\nuid: %[1]s\ncn: %[1]s Example\ngivenName: %[1]s\nsn: Example\nmail: %[1]s@example.com\nuserPassword: password of %[1]s\n\n", who)
	}
	people += "dn: cn=staff,ou=groups,dc=example,dc=com\nobjectClass: groupOfNames\ncn: staff\nmember: uid=ann,ou=people,dc=example,dc=com\n"
	for name, content := range map[string]string{
		"crt.pem":     string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: crt})),
		"key.pem":     string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})),
		"people.ldif": people,
		"slapd.conf": strings.ReplaceAll(`include /etc/ldap/schema/core.schema
include /etc/ldap/schema/cosine.schema
include /etc/ldap/schema/inetorgperson.schema
modulepath /usr/lib/ldap
moduleload back_mdb
TLSCertificateFile DIR/crt.pem
TLSCertificateKeyFile DIR/key.pem
database mdb
suffix "dc=example,dc=com"
directory DIR/db
maxsize 16777216
access to attrs=userPassword by anonymous auth by * none
access to * by dn.exact="cn=reader,dc=example,dc=com" read by self read by anonymous auth by * none
`, "DIR", dir),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "db"), 0o700); err != nil {
		t.Fatal(err)
	}
	conf := filepath.Join(dir, "slapd.conf")
	if said, err := exec.Command("/usr/sbin/slapadd", "-f", conf, "-l", filepath.Join(dir, "people.ldif")).CombinedOutput(); err != nil {
		t.Fatalf("slapadd: %v: make install\n%s", err, said)
	}
	var out bytes.Buffer
	l.cmd = exec.Command("/usr/sbin/slapd", "-f", conf, "-h", fmt.Sprintf("ldaps://127.0.0.1:%d", port), "-d", "0")
	l.cmd.Stdout, l.cmd.Stderr = &out, &out
	if err := l.cmd.Start(); err != nil {
		t.Fatalf("slapd: %v: make install", err)
	}
	gone := make(chan error, 1)
	go func() { gone <- l.cmd.Wait() }()
	t.Cleanup(func() {
		_ = l.cmd.Process.Kill() // it may be gone
		<-gone
	})
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(20 * time.Second); ; <-tick.C {
		if c, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port)); err == nil {
			c.Close()
			return l
		}
		select {
		case err := <-gone:
			gone <- err
			t.Fatalf("slapd ended: %v\n%s", err, out.String())
		default:
		}
		if time.Now().After(end) {
			t.Fatal("slapd does not answer")
		}
	}
}

// connections returns the local addresses of those that were open to the directory while the kernel's list was read.
func (l *openLDAP) connections(t *testing.T) map[string]bool {
	t.Helper()
	raw, err := os.ReadFile("/proc/net/tcp")
	if err != nil {
		t.Fatal(err)
	}
	open := map[string]bool{}
	for line := range strings.Lines(string(raw)) {
		f := strings.Fields(line)
		if len(f) > 3 && strings.HasSuffix(f[2], fmt.Sprintf(":%04X", l.port)) && f[3] == "01" {
			open[f[1]] = true
		}
	}
	return open
}

var toStaff = regexp.MustCompile(`href="(/sign-in/provider\?[^"]*idp=staff)"`)

// knock signs in by the directory without a browser, and returns the status and the last page.
func (s *server) knock(t *testing.T, username, password string) (int, string) {
	v := s.visit(t, username, password)
	follow := func(resp *http.Response) (*http.Response, string) {
		for range 10 {
			if resp.StatusCode/100 != 3 {
				break
			}
			to, err := resp.Location()
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			resp = v.get(to.String())
		}
		raw, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		return resp, string(raw)
	}
	_, page := follow(v.get(s.Issuer + "/sign-in"))
	link := toStaff.FindStringSubmatch(page)
	if link == nil {
		return 0, page
	}
	at := s.Issuer + html.UnescapeString(link[1])
	_, page = follow(v.get(at))
	token := hiddenTag.FindStringSubmatch(page)
	if token == nil {
		return 0, page
	}
	resp, page := follow(v.post(at, url.Values{token[1]: {token[2]}, "username": {username}, "password": {password}}))
	return resp.StatusCode, page
}

// TestLDAPGuide signs people in by OpenLDAP, with the configuration of the guide.
func TestLDAPGuide(t *testing.T) {
	t.Parallel()
	guide, err := os.ReadFile("../docs/ldap.md")
	if err != nil {
		t.Fatal(err)
	}
	block := example(t, string(guide), "The Caddyfile", "caddyfile")
	_, block, _ = strings.Cut(block, "\t\tidp staff ldap {")
	block, _, found := strings.Cut(block, "\n\t\t}\n")
	if !found {
		t.Fatal("the guide has no block for a directory")
	}
	l := startOpenLDAP(t)
	// The first server is not there.
	urls := fmt.Sprintf("ldaps://127.0.0.1:%d ldaps://localhost:%d\n\t\t\tca %s", freePorts(t, 1)[0], l.port, l.CA)
	block = strings.Replace(block, "ldaps://ldap1.example.com ldaps://ldap2.example.com", urls, 1)
	s := startEdited(t, "", func(caddyfile string) string {
		return strings.Replace(caddyfile, "\n\t\tidentity {", "\n\t\tidp staff ldap {"+block+"\n\t\t}\n\t\tidentity {", 1)
	}, "LDAP_PASSWORD="+readerPassword)
	s.secret("password of the account that searches", readerPassword)

	b := s.browse(t)
	b.open(s.Wiki + "/")
	b.choose("staff")
	if title := b.text("h1"); title != "Sign in with Staff directory" {
		t.Errorf("the form of the directory: %s at %s", title, b.location())
	}
	b.signIn("ann", "password of ben")
	if said := b.text("[role=alert]"); !strings.Contains(said, "Incorrect username or password") {
		t.Errorf("a wrong password: %s", said)
	}
	b.signIn("ann@example.com", "password of ann")
	b.reaches(s.Wiki + "/")
	if got := b.seen(); got.User != "ann" || got.Name != "ann Example" || got.Groups != "staff" {
		t.Errorf("the site sees %+v", got)
	}

	t.Run("many at once share the connections", func(t *testing.T) {
		var all sync.WaitGroup
		most, stop := 0, make(chan struct{})
		watched := make(chan struct{})
		go func() {
			defer close(watched)
			var before map[string]bool
			for {
				now, both := l.connections(t), 0
				for address := range now {
					if before[address] { // both lists have it, so it was open between them
						both++
					}
				}
				most, before = max(most, both), now
				select {
				case <-stop:
					return
				case <-time.After(5 * time.Millisecond):
				}
			}
		}()
		for i := range crowd {
			who := fmt.Sprintf("p%d", i) // attempts at one account at once are bounded
			all.Go(func() {
				if status, page := s.knock(t, who, "password of "+who); status != http.StatusOK || strings.Contains(page, `name="password"`) {
					t.Errorf("%s: %d %.600s", who, status, page)
				}
			})
		}
		all.Wait()
		close(stop)
		<-watched
		if most > 8 {
			t.Errorf("%d connections were open at once, want 8", most)
		}
	})
	t.Run("names that are filters find nobody", func(t *testing.T) {
		for _, name := range []string{"*", "ann)(uid=*", "*)(|(uid=*", `\61nn`, "uid=ann,ou=people,dc=example,dc=com", "ann,ou=people", "a*n"} {
			if status, page := s.knock(t, name, "password of ann"); status != http.StatusUnprocessableEntity {
				t.Errorf("%q: %d %.600s", name, status, page)
			}
		}
	})
	t.Run("a directory that has stopped keeps nobody else waiting", func(t *testing.T) {
		if err := l.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		var staff sync.WaitGroup
		for range 10 {
			staff.Go(func() {
				if status, page := s.knock(t, "ben", "password of ben"); status/100 != 5 || !strings.Contains(page, "isn’t responding") {
					t.Errorf("%d %.600s", status, page)
				}
			})
		}
		own := s.browse(t)
		own.open(s.Wiki + "/")
		own.signIn(person, s.Password)
		own.reaches(s.Wiki + "/")
		staff.Wait()
		if err := l.cmd.Process.Signal(syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
		if status, page := s.knock(t, "ben", "password of ben"); status != http.StatusOK {
			t.Errorf("once it goes on: %d %.600s", status, page)
		}
	})
}
