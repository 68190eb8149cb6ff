package lab

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Postgres is a server of PostgreSQL of its own, killed and started many times on the same port and data. It asks
// for no password.
type Postgres struct {
	Dir  string // data, log and socket
	Port int

	bin      string
	owner    *syscall.Credential // nil: this process may run a server itself
	settings []string            // further arguments of the server
	cmd      *exec.Cmd
	gone     chan struct{} // closed when the process is gone
}

// NewPostgres makes a server and starts it, with the database gatehouse. settings are of the form name=value.
func NewPostgres(settings ...string) (*Postgres, error) {
	p, err := place(settings)
	if err != nil {
		return nil, err
	}
	err = p.tool("initdb", "-D", p.data(), "-U", "gatehouse", "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync", "--wal-segsize=4")
	if err == nil {
		err = p.Start()
	}
	if err == nil {
		_, err = p.query("postgres", "CREATE DATABASE gatehouse")
	}
	if err != nil {
		p.Remove()
		return nil, err
	}
	return p, nil
}

// Standby makes a server that follows p, and starts it.
func (p *Postgres) Standby(settings ...string) (*Postgres, error) {
	s, err := place(settings)
	if err != nil {
		return nil, err
	}
	if err := s.Follow(p); err != nil {
		s.Remove()
		return nil, err
	}
	return s, nil
}

// place finds a directory and a port.
func place(settings []string) (*Postgres, error) {
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb") // a good pattern
	if len(found) == 0 {
		return nil, errors.New("the package postgresql is missing: make install")
	}
	slices.Sort(found)
	p := &Postgres{bin: filepath.Dir(found[len(found)-1]), settings: settings}
	var err error
	if p.owner, err = unprivileged(); err != nil {
		return nil, err
	}
	ports, err := FreePorts(1)
	if err != nil {
		return nil, err
	}
	p.Port = ports[0]
	in := "/dev/shm" // a sync of memory costs nothing, and no process that is killed loses what it has written
	if _, err := os.Stat(in); err != nil {
		in = ""
	}
	if p.Dir, err = os.MkdirTemp(in, "gatehouse-pg"); err != nil {
		return nil, err
	}
	if p.owner != nil {
		err = os.Chown(p.Dir, int(p.owner.Uid), int(p.owner.Gid))
	}
	return p, err
}

// unprivileged returns the user to run a server as: it refuses root.
func unprivileged() (*syscall.Credential, error) {
	if os.Getuid() != 0 {
		return nil, nil
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		u, err = user.Lookup("nobody")
	}
	if err != nil {
		return nil, fmt.Errorf("PostgreSQL refuses root: %w", err)
	}
	uid, err1 := strconv.ParseUint(u.Uid, 10, 32)
	gid, err2 := strconv.ParseUint(u.Gid, 10, 32)
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, errors.Join(err1, err2)
}

func (p *Postgres) data() string { return filepath.Join(p.Dir, "data") }

func (p *Postgres) command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(p.bin, name), args...)
	cmd.Dir, cmd.Env = p.Dir, append(os.Environ(), "LC_ALL=C")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: p.owner}
	return cmd
}

func (p *Postgres) tool(name string, args ...string) error {
	if out, err := p.command(name, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", name, err, out)
	}
	return nil
}

// Follow makes the server a copy of another one, which it follows from then on, and starts it.
func (p *Postgres) Follow(of *Postgres) error {
	if err := os.RemoveAll(p.data()); err != nil {
		return err
	}
	from := fmt.Sprintf("host=127.0.0.1 port=%d user=gatehouse application_name=standby", of.Port)
	if err := p.tool("pg_basebackup", "-D", p.data(), "-d", from, "-R", "-c", "fast", "--no-sync"); err != nil {
		return err
	}
	return p.Start()
}

// Start starts the server and waits until it takes connections.
func (p *Postgres) Start() error {
	var failed error
	started := soon(time.Minute, func() bool {
		if p.cmd == nil || !p.running() { // again, if processes of the server that was killed still hold its memory
			failed = p.launch()
		}
		return failed != nil || p.answers()
	})
	if !started {
		raw, _ := os.ReadFile(filepath.Join(p.Dir, "log")) // for the message
		p.Kill()
		return fmt.Errorf("PostgreSQL does not start: %s", raw[max(0, len(raw)-1000):])
	}
	return failed
}

// soon asks until something is so, which no channel tells, and returns false if it never is.
func soon(limit time.Duration, is func() bool) bool {
	tick, end := time.NewTicker(10*time.Millisecond), time.After(limit)
	defer tick.Stop()
	for !is() {
		select {
		case <-tick.C:
		case <-end:
			return false
		}
	}
	return true
}

func (p *Postgres) launch() error {
	log, err := os.OpenFile(filepath.Join(p.Dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	args := []string{"-D", p.data(), "-p", strconv.Itoa(p.Port), "-k", p.Dir}
	for _, s := range append([]string{
		"listen_addresses=127.0.0.1", "max_connections=200", "shared_buffers=32MB", "min_wal_size=16MB",
		"max_wal_size=128MB", "wal_keep_size=64MB",
		"max_wal_senders=8", "wal_retrieve_retry_interval=200ms", "log_min_messages=fatal",
	}, p.settings...) {
		args = append(args, "-c", s)
	}
	p.cmd = p.command("postgres", args...)
	p.cmd.SysProcAttr.Pdeathsig = syscall.SIGQUIT // it ends together with its parent
	p.cmd.Stdout, p.cmd.Stderr = log, log
	if err := p.cmd.Start(); err != nil {
		return err
	}
	gone, cmd := make(chan struct{}), p.cmd
	p.gone = gone
	go func() {
		_ = cmd.Wait() // it is killed
		close(gone)
	}()
	return nil
}

func (p *Postgres) running() bool {
	select {
	case <-p.gone:
		return false
	default:
		return true
	}
}

func (p *Postgres) answers() bool {
	_, err := p.query("postgres", "SELECT 1")
	return err == nil
}

// Kill ends all processes of the server at once, as a power failure would.
func (p *Postgres) Kill() {
	if p.cmd == nil || !p.running() {
		return
	}
	children := childrenOf(p.cmd.Process.Pid)
	_ = p.cmd.Process.Kill() // it may be gone
	for _, pid := range children {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	<-p.gone
	for _, pid := range children { // they hold the memory of the server until they are gone
		soon(time.Second, func() bool { return syscall.Kill(pid, 0) != nil })
	}
}

func childrenOf(pid int) (children []int) {
	all, _ := filepath.Glob("/proc/[0-9]*/stat") // a good pattern
	for _, name := range all {
		raw, err := os.ReadFile(name)
		if errors.Is(err, fs.ErrNotExist) || err != nil {
			continue // gone by now
		}
		_, rest, _ := strings.Cut(string(raw), ") ")
		if f := strings.Fields(rest); len(f) > 1 && f[1] == strconv.Itoa(pid) {
			if child, err := strconv.Atoi(filepath.Base(filepath.Dir(name))); err == nil {
				children = append(children, child)
			}
		}
	}
	return children
}

// Remove kills the server and removes its directory.
func (p *Postgres) Remove() {
	p.Kill()
	_ = os.RemoveAll(p.Dir)
}

// Promote makes a standby take writes. It returns when it does.
func (p *Postgres) Promote() error {
	return p.tool("pg_ctl", "promote", "-D", p.data(), "-w", "-t", "60")
}

// Query runs statements in the database of Gatehouse and returns what they print.
func (p *Postgres) Query(sql string) (string, error) { return p.query("gatehouse", sql) }

func (p *Postgres) query(database, sql string) (string, error) {
	cmd := p.command("psql", "-XAtq", "-h", p.Dir, "-p", strconv.Itoa(p.Port), "-U", "gatehouse", "-d", database, "-c", sql)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s: %w: %s", sql, err, out)
	}
	return strings.TrimSpace(string(out)), nil
}

// Dump returns the tables of the database of Gatehouse as statements, which other versions of PostgreSQL run too.
func (p *Postgres) Dump() (string, error) {
	cmd := p.command("pg_dump", "--inserts", "--no-owner", "--no-privileges",
		"-h", p.Dir, "-p", strconv.Itoa(p.Port), "-U", "gatehouse", "gatehouse")
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("pg_dump: %w", err)
	}
	var statements strings.Builder
	for line := range strings.Lines(string(out)) {
		if !strings.HasPrefix(line, `\`) && !strings.HasPrefix(line, "--") && line != "\n" { // orders to psql, which older ones do not know
			statements.WriteString(line)
		}
	}
	return statements.String(), nil
}

// Restore runs what Dump has returned.
func (p *Postgres) Restore(statements string) error {
	cmd := p.command("psql", "-Xq", "-v", "ON_ERROR_STOP=1", "-h", p.Dir, "-p", strconv.Itoa(p.Port), "-U", "gatehouse", "-d", "gatehouse")
	cmd.Stdin = strings.NewReader(statements)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("psql: %w: %s", err, out)
	}
	return nil
}

// SyncWith has commits wait for a standby, or with false for none, and returns when that holds.
func (p *Postgres) SyncWith(standby bool) error {
	names, want := "", "0"
	if standby {
		names, want = "*", "1"
	}
	// Several statements in one command are one transaction, which ALTER SYSTEM refuses.
	if _, err := p.Query("ALTER SYSTEM SET synchronous_standby_names = '" + names + "'"); err != nil {
		return err
	}
	if _, err := p.Query("SELECT pg_reload_conf()"); err != nil {
		return err
	}
	var failed error
	follows := soon(time.Minute, func() bool {
		got, err := p.Query("SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming' AND sync_state = 'sync'")
		failed = err
		return err != nil || got == want
	})
	if !follows {
		return errors.New("the standby does not follow")
	}
	if failed == nil { // the checkpointer is who tells the others whether to wait for a standby. It reads the settings first
		_, failed = p.Query("CHECKPOINT")
	}
	return failed
}

// KeepTablesIn has the tables that are made from now on in a directory, such as one of a small disk.
func (p *Postgres) KeepTablesIn(dir string) error {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	if p.owner != nil {
		if err := os.Chmod(filepath.Dir(dir), 0o711); err != nil { //nolint:gosec // it has to get there
			return err
		}
		if err := os.Chown(dir, int(p.owner.Uid), int(p.owner.Gid)); err != nil {
			return err
		}
	}
	if _, err := p.Query("CREATE TABLESPACE small LOCATION '" + dir + "'"); err != nil {
		return err
	}
	_, err := p.Query("ALTER DATABASE gatehouse SET default_tablespace = small")
	return err
}

// Address returns host and port.
func (p *Postgres) Address() string { return fmt.Sprintf("127.0.0.1:%d", p.Port) }
