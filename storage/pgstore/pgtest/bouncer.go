package pgtest

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

const bouncerConfig = `[databases]
* = host=127.0.0.1 port=%d
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %d
unix_socket_dir =
auth_type = plain
auth_file = %s
pool_mode = transaction
default_pool_size = 8
max_client_conn = 500
`

// Bouncer starts a PgBouncer in transaction mode in front of the server, until the test ends, and returns its address.
func (s *Server) Bouncer(t testing.TB) string {
	t.Helper()
	bin, err := exec.LookPath("pgbouncer")
	if err != nil {
		if bin = "/usr/sbin/pgbouncer"; !exists(bin) {
			t.Fatal("the package pgbouncer is missing: run scripts/install.sh")
		}
	}
	for range 5 { // someone else may take the port
		port, err := freePort()
		if err != nil {
			t.Fatal(err)
		}
		if s.bounce(t, bin, port) {
			return net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
		}
	}
	t.Fatal("pgbouncer does not start")
	return ""
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func (s *Server) bounce(t testing.TB, bin string, port int) bool {
	t.Helper()
	users, config := filepath.Join(s.Dir, fmt.Sprintf("users%d", port)), filepath.Join(s.Dir, fmt.Sprintf("bouncer%d.ini", port))
	for path, text := range map[string]string{
		users:  fmt.Sprintf("%q %q\n", User, Password),
		config: fmt.Sprintf(bouncerConfig, s.Port, port, users),
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if s.owner != nil {
			if err := os.Chown(path, int(s.owner.Uid), int(s.owner.Gid)); err != nil {
				t.Fatal(err)
			}
		}
	}
	cmd := s.command(bin, "-q", config)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		_ = cmd.Wait()
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-gone
	})
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for {
		c, err := pgconn.Connect(ctx, URLAt(net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), User, Password, Database))
		if err == nil {
			_ = c.Close(ctx)
			return true
		}
		select {
		case <-gone:
			return false
		case <-ctx.Done():
			t.Fatal(err)
		case <-tick.C:
		}
	}
}
