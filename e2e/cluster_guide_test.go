package e2e

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// installed returns the path of a program of Debian.
func installed(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		path, err = exec.LookPath("/usr/sbin/" + name)
	}
	if err != nil {
		t.Fatalf("%v: make install", err)
	}
	return path
}

// TestClusterGuide: the programs for which docs/cluster.md has configurations accept them.
func TestClusterGuide(t *testing.T) {
	t.Parallel()
	guide, dir := read(t, "../docs/cluster.md"), t.TempDir()
	write := func(name, content string) string {
		t.Helper()
		name = filepath.Join(dir, name)
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	ports := freePorts(t, 2)
	config := strings.Replace(example(t, guide, "Behind HAProxy", "haproxy"), ":443 ssl crt /etc/haproxy/example.com.pem alpn h2,http/1.1",
		fmt.Sprintf(":%d", ports[0]), 1)
	if out, err := exec.Command(installed(t, "haproxy"), "-c", "-f", write("haproxy.cfg", config)).CombinedOutput(); err != nil {
		t.Errorf("HAProxy: %v\n%s", err, out)
	}

	users := write("users", `"gatehouse" "x"`+"\n")
	config = strings.NewReplacer("6432", fmt.Sprint(ports[1]), "/etc/pgbouncer/userlist.txt",
		users).Replace(example(t, guide, "PgBouncer", "ini"))
	args := []string{installed(t, "pgbouncer"), write("pgbouncer.ini", config+"unix_socket_dir =\n")}
	if os.Getuid() == 0 { // which PgBouncer refuses
		for _, name := range []string{dir, filepath.Dir(dir), users, args[1]} {
			if err := os.Chmod(name, 0o755); err != nil { //nolint:gosec // for another user to read
				t.Fatal(err)
			}
		}
		args = append([]string{"setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups"}, args...)
	}
	var said output
	cmd := exec.Command(args[0], args[1:]...) //nolint:gosec // a program of Debian
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	gone := make(chan struct{})
	go func() { cmd.Wait(); close(gone) }() //nolint:errcheck // it is killed
	defer func() {
		cmd.Process.Kill() //nolint:errcheck // it may have ended
		<-gone
	}()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for limit := time.After(2 * time.Minute); ; {
		c, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", ports[1])) //nolint:noctx // a local port
		if err == nil {
			c.Close()
			return
		}
		select {
		case <-gone:
			t.Fatalf("PgBouncer ended:\n%s", said.String())
		case <-limit:
			t.Fatalf("PgBouncer takes no connections:\n%s", said.String())
		case <-tick.C:
		}
	}
}
