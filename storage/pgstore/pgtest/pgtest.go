// Package pgtest starts a PostgreSQL server for the tests of a package, in a temporary directory.
package pgtest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// The superuser of the server, and its database.
const (
	User     = "gatehouse"
	Password = "p@ss/word"
	Database = "gatehouse"
)

// Server is a running server.
type Server struct {
	Dir  string // data, log and socket
	Port int    // of 127.0.0.1 and of the socket

	owner *syscall.Credential // nil: this process may run a server itself
	bin   string
	stdin io.Closer
	gone  chan struct{} // closed when the server has ended
}

// Main is TestMain of a package whose tests share a server, which it hands to use.
func Main(m *testing.M, use func(*Server)) {
	s, err := Start()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	use(s)
	code := m.Run()
	s.Stop()
	os.Exit(code)
}

// Start makes a server and starts it.
func Start() (*Server, error) {
	s := &Server{}
	if err := s.start(); err != nil {
		s.Stop()
		return nil, fmt.Errorf("start PostgreSQL for tests: %w", err)
	}
	return s, nil
}

func (s *Server) start() (err error) {
	if s.bin, err = binaries(); err != nil {
		return err
	}
	if s.owner, err = owner(); err != nil {
		return err
	}
	if s.Dir, err = os.MkdirTemp(memory(), "gatehouse-pg"); err != nil {
		return err
	}
	password := filepath.Join(s.Dir, "password")
	if err := os.WriteFile(password, []byte(Password+"\n"), 0o600); err != nil {
		return err
	}
	if err := s.certify(); err != nil {
		return err
	}
	if s.owner != nil {
		for _, path := range []string{s.Dir, password, s.Certificate(), s.key()} {
			if err := os.Chown(path, int(s.owner.Uid), int(s.owner.Gid)); err != nil {
				return err
			}
		}
	}
	out, err := s.command(filepath.Join(s.bin, "initdb"), "-D", s.data(), "-U", User, "--pwfile="+password, "--auth=scram-sha-256",
		"--encoding=UTF8", "--locale=C", "--no-sync", "--no-instructions", "--wal-segsize=4").CombinedOutput()
	if err != nil {
		return fmt.Errorf("initdb: %w: %s", err, out)
	}
	return s.Run()
}

func (s *Server) data() string { return filepath.Join(s.Dir, "data") }

// binaries returns the directory of the programs of the server.
func binaries() (string, error) {
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	slices.SortFunc(found, func(a, b string) int { return version(b) - version(a) })
	for _, path := range found {
		return filepath.Dir(path), nil
	}
	if path, err := exec.LookPath("initdb"); err == nil {
		return filepath.Dir(path), nil
	}
	return "", errors.New("the package postgresql is missing: run scripts/install.sh")
}

func version(path string) int {
	n, _ := strconv.Atoi(filepath.Base(filepath.Dir(filepath.Dir(path))))
	return n
}

// owner returns the user to run the server as: it refuses root.
func owner() (*syscall.Credential, error) {
	if os.Getuid() != 0 {
		return nil, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err := strconv.ParseUint(u.Uid, 10, 32)
		if err != nil {
			return nil, err
		}
		gid, err := strconv.ParseUint(u.Gid, 10, 32)
		if err != nil {
			return nil, err
		}
		return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
	}
	return nil, errors.New("root cannot run it, and there is neither a user postgres nor nobody")
}

// memory returns a directory in memory if there is one with room: its fsync costs nothing.
func memory() string {
	const dir = "/dev/shm"
	var fs syscall.Statfs_t
	if syscall.Statfs(dir, &fs) == nil && fs.Bavail*uint64(fs.Bsize) > 1<<30 {
		return dir
	}
	return ""
}

// command returns a command that runs as the owner.
func (s *Server) command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(name, args...)
	cmd.Dir = s.Dir
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	if s.owner != nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: s.owner}
	}
	return cmd
}

// Run starts the server on its data, after Kill or Start.
func (s *Server) Run() error {
	var err error
	for range 5 { // someone else may take the port
		if s.Port == 0 {
			if s.Port, err = freePort(); err != nil {
				return err
			}
		}
		if err = s.run(); err == nil {
			return nil
		}
		if out, _ := os.ReadFile(filepath.Join(s.Dir, "log")); !strings.Contains(string(out), "could not bind") {
			return fmt.Errorf("%w: %s", err, out)
		}
		s.Port = 0
	}
	return err
}

func (s *Server) run() error {
	log, err := os.Create(filepath.Join(s.Dir, "log"))
	if err != nil {
		return err
	}
	defer log.Close()
	// The shell ends the server when this process is no more.
	const script = `"$@" & pid=$!; read -r line; kill -INT $pid; wait $pid`
	cmd := s.command("/bin/sh", "-c", script, "sh", filepath.Join(s.bin, "postgres"), "-D", s.data(), "-p", strconv.Itoa(s.Port), "-k", s.Dir,
		"-c", "listen_addresses=127.0.0.1", "-c", "max_connections=300", "-c", "shared_buffers=64MB", "-c", "min_wal_size=32MB",
		"-c", "max_wal_size=128MB",
		"-c", "ssl=on", "-c", "ssl_cert_file="+s.Certificate(), "-c", "ssl_key_file="+s.key(), "-c", "autovacuum_naptime=10s", "-c",
		"log_min_messages=error")
	cmd.Stdout, cmd.Stderr = log, log
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	s.stdin = stdin
	if err := cmd.Start(); err != nil {
		return err
	}
	gone := make(chan struct{})
	s.gone = gone
	go func() {
		defer close(gone)
		_ = cmd.Wait()
	}()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(time.Minute)
	for {
		if s.answers() {
			return nil
		}
		select {
		case <-tick.C:
		case <-gone:
			return errors.New("postgres has ended")
		case <-deadline:
			return errors.New("postgres does not answer")
		}
	}
}

func (s *Server) answers() bool {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	c, err := pgconn.Connect(ctx, s.URL("postgres"))
	if err != nil {
		return false
	}
	defer c.Close(ctx)
	if _, err := c.Exec(ctx, "CREATE DATABASE "+Database).ReadAll(); err != nil {
		var e *pgconn.PgError
		return errors.As(err, &e) && e.Code == "42P04"
	}
	return true
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

// Address returns host and port.
func (s *Server) Address() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.Port)) }

// URL returns the URL of a database for the superuser.
func (s *Server) URL(database string, options ...string) string {
	return URLAt(s.Address(), User, Password, database, options...)
}

// URLAt returns the URL of a database at an address. Without options there is no TLS.
func URLAt(address, name, password, database string, options ...string) string {
	if len(options) == 0 {
		options = []string{"sslmode=disable"}
	}
	u := url.URL{
		Scheme: "postgres", User: url.UserPassword(name, password), Host: address, Path: "/" + database,
		RawQuery: strings.Join(options, "&"),
	}
	return u.String()
}

// Exec runs statements in a database as the superuser.
func (s *Server) Exec(t testing.TB, database, sql string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c, err := pgconn.Connect(ctx, s.URL(database))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(ctx)
	if _, err := c.Exec(ctx, sql).ReadAll(); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// Kill ends the server at once, as a power failure would end its processes. It returns when it has ended.
func (s *Server) Kill() {
	raw, err := os.ReadFile(filepath.Join(s.data(), "postmaster.pid"))
	if err != nil {
		return
	}
	line, _, _ := strings.Cut(string(raw), "\n")
	if pid, err := strconv.Atoi(line); err == nil {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	_ = s.stdin.Close()
	<-s.gone
}

// Stop ends the server and removes what it has kept.
func (s *Server) Stop() {
	if s.stdin != nil {
		_ = s.stdin.Close()
		<-s.gone
	}
	if s.Dir != "" {
		_ = os.RemoveAll(s.Dir)
	}
}

// Dump returns the tables of a database, with their rows.
func (s *Server) Dump(t testing.TB, database string) []string {
	t.Helper()
	const text = `SELECT c.oid::regclass::text, query_to_xml('TABLE ' || c.oid::regclass, true, false, '')::text
		FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
		WHERE c.relkind = 'r' AND n.nspname NOT IN ('pg_catalog', 'information_schema') ORDER BY 1`
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c, err := pgconn.Connect(ctx, s.URL(database))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(ctx)
	results, err := c.Exec(ctx, text).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, row := range results[0].Rows {
		out = append(out, string(row[0])+" "+string(row[1]))
	}
	return out
}
