package lab

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Patroni is PostgreSQL as Patroni and etcd keep it: two servers, of which one follows the other and takes over.
type Patroni struct {
	Members []*Member

	dir   string
	owner *syscall.Credential
	etcd  *exec.Cmd
}

// Member is one server, with the Patroni that keeps it.
type Member struct {
	Name string
	Port int

	of   *Patroni
	rest int // port of its API
	cmd  *exec.Cmd
	gone chan struct{}
}

const memberConfig = `scope: gatehouse
name: %[1]s
restapi: {listen: "127.0.0.1:%[2]d", connect_address: "127.0.0.1:%[2]d"}
etcd3: {host: "127.0.0.1:%[3]d"}
bootstrap:
  dcs:
    ttl: 20
    loop_wait: 1
    retry_timeout: 3
    primary_start_timeout: 0
    synchronous_mode: true
    postgresql:
      use_pg_rewind: true
      parameters: {max_connections: 200, shared_buffers: 32MB, max_wal_size: 128MB, min_wal_size: 80MB, wal_keep_size: 64MB}
  initdb: [{encoding: UTF8}, {locale: C}]
  pg_hba: [local all all trust, host all all 127.0.0.1/32 trust, host replication all 127.0.0.1/32 trust]
postgresql:
  listen: "127.0.0.1:%[4]d"
  connect_address: "127.0.0.1:%[4]d"
  data_dir: %[5]s/%[1]s
  bin_dir: %[6]s
  pgpass: %[5]s/%[1]s.pass
  remove_data_directory_on_diverged_timelines: true
  remove_data_directory_on_rewind_failure: true
  authentication: {superuser: {username: gatehouse}, replication: {username: replicator}}
  parameters: {unix_socket_directories: %[5]s}
`

// NewPatroni starts etcd and two members, with the database gatehouse, and waits until one follows the other.
func NewPatroni(ctx context.Context) (*Patroni, error) {
	p, err := newPatroni(ctx)
	if err != nil && p != nil {
		err = fmt.Errorf("%w\n%s", err, p.tail())
		p.Remove()
	}
	return p, err
}

func newPatroni(ctx context.Context) (*Patroni, error) {
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb") // a good pattern
	if len(found) == 0 {
		return nil, errors.New("the package postgresql is missing: make install")
	}
	p := &Patroni{}
	var err error
	if p.owner, err = unprivileged(); err != nil {
		return nil, err
	}
	ports, err := FreePorts(6)
	if err != nil {
		return nil, err
	}
	if p.dir, err = os.MkdirTemp("", "gatehouse-patroni"); err != nil {
		return nil, err
	}
	if p.owner != nil {
		if err := os.Chown(p.dir, int(p.owner.Uid), int(p.owner.Gid)); err != nil {
			return p, err
		}
	}
	url, peer := fmt.Sprintf("http://127.0.0.1:%d", ports[0]), fmt.Sprintf("http://127.0.0.1:%d", ports[1])
	p.etcd, _, err = p.start("etcd", "etcd", "--data-dir", filepath.Join(p.dir, "etcd-data"), "--listen-client-urls", url,
		"--advertise-client-urls", url,
		"--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", "default="+peer)
	if err != nil {
		return p, err
	}
	for i := range 2 {
		m := &Member{Name: fmt.Sprintf("member%d", i), Port: ports[2+i], rest: ports[4+i], of: p}
		config := fmt.Sprintf(memberConfig, m.Name, m.rest, ports[0], m.Port, p.dir, filepath.Dir(found[len(found)-1]))
		if err := os.WriteFile(m.config(), []byte(config), 0o644); err != nil { //nolint:gosec // another user reads it
			return p, err
		}
		p.Members = append(p.Members, m)
		if err := m.Start(); err != nil {
			return p, err
		}
	}
	if err := p.Settled(ctx); err != nil {
		return p, err
	}
	cmd := exec.Command(filepath.Join(filepath.Dir(found[len(found)-1]), "createdb"), "-h", "127.0.0.1", "-p",
		strconv.Itoa(p.Leader(ctx).Port), "-U", "gatehouse", "gatehouse")
	if out, err := cmd.CombinedOutput(); err != nil {
		return p, fmt.Errorf("createdb: %w: %s", err, out)
	}
	return p, nil
}

func (m *Member) config() string { return filepath.Join(m.of.dir, m.Name+".yml") }

func (p *Patroni) start(name, program string, args ...string) (*exec.Cmd, chan struct{}, error) {
	log, err := os.OpenFile(filepath.Join(p.dir, name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, nil, err
	}
	defer log.Close()
	cmd := exec.Command(program, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = p.dir, log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: p.owner, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return nil, nil, fmt.Errorf("%w: install the packages patroni and etcd-server", err)
	}
	gone := make(chan struct{})
	go func() {
		_ = cmd.Wait() // it is killed
		close(gone)
	}()
	return cmd, gone, nil
}

// Start starts a member.
func (m *Member) Start() (err error) {
	m.cmd, m.gone, err = m.of.start(m.Name, "patroni", m.config())
	return err
}

// KillServer kills the server alone, so its Patroni sees it.
func (m *Member) KillServer() {
	raw, err := os.ReadFile(filepath.Join(m.of.dir, m.Name, "postmaster.pid"))
	if err != nil {
		return
	}
	line, _, _ := strings.Cut(string(raw), "\n")
	pid, err := strconv.Atoi(line)
	if err != nil {
		return
	}
	children := childrenOf(pid)
	for _, one := range append([]int{pid}, children...) {
		_ = syscall.Kill(one, syscall.SIGKILL) // it may be gone
	}
}

// Kill kills the server and its Patroni, as the loss of a machine would.
func (m *Member) Kill() {
	_ = m.cmd.Process.Kill() // it may be gone
	<-m.gone
	m.KillServer()
}

// Leader returns the member that takes writes, or nil.
func (p *Patroni) Leader(ctx context.Context) *Member {
	for _, m := range p.Members {
		if status, _ := m.get(ctx, "/leader"); status == http.StatusOK {
			return m
		}
	}
	return nil
}

func (m *Member) get(ctx context.Context, path string) (status int, body []byte) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d%s", m.rest, path), nil)
	if err != nil {
		return 0, nil
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, nil
	}
	defer res.Body.Close()
	body, _ = io.ReadAll(res.Body) // what is there says enough
	return res.StatusCode, body
}

// Settled waits until one member takes writes and waits for the other.
func (p *Patroni) Settled(ctx context.Context) error {
	for range 900 {
		for _, m := range p.Members {
			_, body := m.get(ctx, "/cluster")
			var c struct {
				Members []struct{ Role, State string }
			}
			_ = json.Unmarshal(body, &c) // it may not run yet
			leads, follows := false, false
			for _, o := range c.Members {
				leads = leads || o.Role == "leader" && o.State == "running"
				follows = follows || o.Role == "sync_standby" && (o.State == "running" || o.State == "streaming")
			}
			if leads && follows {
				return nil
			}
		}
		if !Pause(ctx, 100*time.Millisecond) {
			break
		}
	}
	return errors.New("no member of Patroni follows the other")
}

func (p *Patroni) tail() string {
	var b strings.Builder
	for _, m := range p.Members {
		raw, _ := os.ReadFile(filepath.Join(p.dir, m.Name+".log")) // for the message
		fmt.Fprintf(&b, "%s: %s\n", m.Name, raw[max(0, len(raw)-1500):])
	}
	return b.String()
}

// Remove kills all of it and removes its directory.
func (p *Patroni) Remove() {
	for _, m := range p.Members {
		if m.cmd != nil {
			m.Kill()
		}
	}
	if p.etcd != nil {
		_ = p.etcd.Process.Kill() // it may be gone
	}
	_ = os.RemoveAll(p.dir)
}
