package ldaptest

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	ldapv3 "github.com/go-ldap/ldap/v3"
)

// OpenLDAP is a running slapd.
type OpenLDAP struct {
	URL string

	log lockedBuffer
}

// lockedBuffer is the output of a process that a test reads meanwhile.
type lockedBuffer struct {
	mu   sync.Mutex // guards all below
	buf  bytes.Buffer
	more chan struct{} // closed by the next Write; nil: none waits
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.more != nil {
		close(b.more)
		b.more = nil
	}
	return b.buf.Write(p)
}

// next is closed when there is more than String returned before.
func (b *lockedBuffer) next() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.more == nil {
		b.more = make(chan struct{})
	}
	return b.more
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// Slapd says how slapd runs.
type Slapd struct {
	Logged   bool   // Log has what it is asked and what it answers
	Database string // a further line of the configuration of its database
}

// StartOpenLDAP serves entries below Base by slapd until the test ends, next to Reader, who finds people.
func StartOpenLDAP(t testing.TB, entries []Entry, run Slapd) *OpenLDAP {
	t.Helper()
	dir := t.TempDir()
	conf := filepath.Join(dir, "slapd.conf")
	base := []Entry{
		{DN: Base, Attributes: map[string][]string{"objectClass": {"dcObject", "organization"}, "o": {"Example"}, "dc": {"example"}}},
		{
			DN: Reader, Password: ReaderPW,
			Attributes: map[string][]string{"objectClass": {"organizationalRole", "simpleSecurityObject"}, "cn": {"reader"}},
		},
		{DN: People, Attributes: map[string][]string{"objectClass": {"organizationalUnit"}, "ou": {"people"}}},
	}
	for name, content := range map[string]string{
		"people.ldif": ldif(append(base, entries...)),
		"slapd.conf": "include /etc/ldap/schema/core.schema\ninclude /etc/ldap/schema/cosine.schema\ninclude /etc/ldap/schema/inetorgperson.schema\n" +
			"modulepath /usr/lib/ldap\nmoduleload back_mdb\n" +
			"database mdb\nsuffix " + Base + "\ndirectory " + dir + "/db\nmaxsize 67108864\nindex uid eq\n" +
			"access to attrs=userPassword by anonymous auth by * none\naccess to * by dn.exact=" + Reader +
			" read by self read by anonymous auth by * none\n" +
			run.Database + "\ndatabase monitor\naccess to * by * read\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "db"), 0o700); err != nil {
		t.Fatal(err)
	}
	if said, err := exec.Command("/usr/sbin/slapadd", "-q", "-f", conf, "-b", Base, "-l",
		filepath.Join(dir, "people.ldif")).CombinedOutput(); err != nil {
		t.Fatalf("slapadd: %v: run scripts/install.sh\n%s", err, said)
	}
	l := &OpenLDAP{}
	level := "0"
	if run.Logged {
		level = "stats"
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.URL = "ldap://" + ln.Addr().String()
	ln.Close()
	cmd := exec.Command("/usr/sbin/slapd", "-f", conf, "-h", l.URL, "-d", level)
	cmd.Stdout, cmd.Stderr = &l.log, &l.log
	if err := cmd.Start(); err != nil {
		t.Fatalf("slapd: %v: run scripts/install.sh", err)
	}
	gone := make(chan error, 1)
	go func() { gone <- cmd.Wait() }()
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may be gone
		<-gone                 //nolint:errcheck // it was killed
	})
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(20 * time.Second); ; <-tick.C {
		if c, err := ldapv3.DialURL(l.URL); err == nil {
			c.Close()
			return l
		}
		select {
		case err := <-gone:
			gone <- err
			t.Fatalf("slapd ended: %v\n%s", err, l.log.String())
		default:
		}
		if time.Now().After(end) {
			t.Fatalf("slapd does not answer\n%s", l.log.String())
		}
	}
}

// Log returns the output of slapd when all connections that it has accepted are closed, or when ctx ends.
func (l *OpenLDAP) Log(ctx context.Context) string {
	for {
		more := l.log.next()
		said := l.log.String()
		if strings.Count(said, " ACCEPT from ") == strings.Count(said, " closed") || ctx.Err() != nil {
			return said
		}
		select {
		case <-more:
		case <-ctx.Done():
		}
	}
}

// Connections returns how many connections slapd has taken, and how many are open, without the one that asks.
func (l *OpenLDAP) Connections(t testing.TB) (made, open int) {
	t.Helper()
	c, err := ldapv3.DialURL(l.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	read := func(name string) int {
		res, err := c.Search(&ldapv3.SearchRequest{
			BaseDN: "cn=" + name + ",cn=Connections,cn=Monitor", Filter: "(objectClass=*)",
			Attributes: []string{"monitorCounter"},
		})
		if err != nil || len(res.Entries) != 1 {
			t.Fatalf("slapd counts no connections: %v", err)
		}
		n, err := strconv.Atoi(res.Entries[0].GetAttributeValue("monitorCounter"))
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	return read("Total") - 1, read("Current") - 1
}

// ldif writes entries with every value in base64, so it can be any. (RFC 2849)
func ldif(entries []Entry) string {
	var b strings.Builder
	line := func(name, value string) {
		fmt.Fprintf(&b, "%s:: %s\n", name, base64.StdEncoding.EncodeToString([]byte(value)))
	}
	for _, e := range entries {
		line("dn", e.DN)
		for _, name := range slices.Sorted(maps.Keys(e.Attributes)) {
			for _, v := range e.Attributes[name] {
				line(name, v)
			}
		}
		if e.Password != "" {
			line("userPassword", e.Password)
		}
		b.WriteByte('\n')
	}
	return b.String()
}
