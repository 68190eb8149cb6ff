package lab

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Server is the binary under test, started and killed many times on the same ports and data.
type Server struct {
	Config
	Secrets
	Ports Ports

	Log  string // file for standard error, of all starts one after the other
	HTTP *http.Client

	cmd    *exec.Cmd
	exited chan struct{} // closed when the process is gone
	exit   error
	loads  int
}

// New prepares a server and writes its configuration. It does not start it.
func New(c Config) (*Server, error) {
	if c.Data == "" {
		c.Data = filepath.Join(c.Dir, "data")
	}
	c.Address = cmp.Or(c.Address, "127.0.0.1")
	if _, err := os.Stat(c.Binary); err != nil {
		return nil, fmt.Errorf("the binary under test is missing, `make build` makes it: %w", err)
	}
	p, err := FreePorts(5)
	if err != nil {
		return nil, err
	}
	s := &Server{
		Config: c, Ports: Ports{p[0], p[1], p[2], p[3], p[4]}, Secrets: newSecrets(),
		Log: filepath.Join(c.Dir, "server.log"), HTTP: NewHTTP(c.Address),
	}
	return s, s.WriteConfig()
}

// NewHTTP returns a client of the server whose sites, of localhost, are at an address. It keeps connections, follows
// no redirect and gives up after 10 s.
func NewHTTP(address string) *http.Client { return newHTTP(address, nil) }

// newHTTP is NewHTTP with the address that connections come from.
func newHTTP(address string, from net.Addr) *http.Client {
	dial := func(ctx context.Context, network, to string) (net.Conn, error) {
		if port, ok := strings.CutPrefix(to, "localhost:"); ok {
			to = net.JoinHostPort(address, port)
		}
		return (&net.Dialer{LocalAddr: from}).DialContext(ctx, network, to)
	}
	return &http.Client{
		Timeout:       10 * time.Second,
		Transport:     &http.Transport{MaxIdleConns: 0, MaxIdleConnsPerHost: 512, DisableCompression: true, DialContext: dial},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// Issuer returns the address of the issuer.
func (s *Server) Issuer() string { return site(s.Ports.Issuer) }

// APISite returns the address of the site that accepts bearer tokens.
func (s *Server) APISite() string { return site(s.Ports.API) }

// Open returns the address of the site without protect.
func (s *Server) Open() string { return site(s.Ports.Open) }

// Wiki returns the address of the site that signs browsers in.
func (s *Server) Wiki() string { return site(s.Ports.Wiki) }

// Admin returns the address of Caddy's admin API.
func (s *Server) Admin() string { return fmt.Sprintf("http://127.0.0.1:%d", s.Ports.Admin) }

func site(port int) string { return fmt.Sprintf("http://localhost:%d", port) }

func (s *Server) configFile() string { return filepath.Join(s.Dir, "Caddyfile") }

// WriteConfig writes the Caddyfile that the next start reads.
func (s *Server) WriteConfig() error {
	return os.WriteFile(s.configFile(), []byte(s.Caddyfile(s.Ports, s.Secrets, "start")), 0o600)
}

// Start starts the process without waiting until it is ready.
func (s *Server) Start() error {
	log, err := os.OpenFile(s.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	s.cmd = exec.Command(s.Binary, "run", "--config", s.configFile(), "--adapter", "caddyfile")
	s.cmd.Dir, s.cmd.Stdout, s.cmd.Stderr = s.Dir, log, log
	s.cmd.Env = append(os.Environ(), "HOME="+s.Dir, "XDG_DATA_HOME="+s.Dir+"/xdg-data", "XDG_CONFIG_HOME="+s.Dir+"/xdg-config")
	s.cmd.Env = append(s.cmd.Env, s.Env...)
	// The process dies together with its parent.
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := s.cmd.Start(); err != nil {
		return err
	}
	s.exited = make(chan struct{})
	go func(c *exec.Cmd, done chan struct{}) {
		s.exit = c.Wait()
		close(done)
	}(s.cmd, s.exited)
	return nil
}

// StartReady starts the process and returns how long it took until /healthz said 200, and each site took connections.
func (s *Server) StartReady(ctx context.Context) (time.Duration, error) {
	begin := time.Now()
	if err := s.Start(); err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		if s.Healthy(ctx) && s.listens(ctx) {
			return time.Since(begin), nil
		}
		select {
		case <-tick.C:
		case <-s.exited:
			return 0, fmt.Errorf("the server ended at its start: %w\n%s", errors.Join(s.exit), s.LogTail(15))
		case <-ctx.Done():
			return 0, fmt.Errorf("the server is not ready after two minutes\n%s", s.LogTail(15))
		}
	}
}

// Healthy reports whether /healthz says 200.
func (s *Server) Healthy(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	return s.Get(ctx, s.Issuer()+"/healthz").Status == http.StatusOK
}

// listens reports whether all sites take connections: Caddy opens one after the other.
func (s *Server) listens(ctx context.Context) bool {
	for _, port := range []int{s.Ports.API, s.Ports.Open, s.Ports.Wiki} {
		c, err := (&net.Dialer{}).DialContext(ctx, "tcp", net.JoinHostPort(s.Address, strconv.Itoa(port)))
		if err != nil {
			return false
		}
		c.Close() //nolint:errcheck // nothing was sent
	}
	return true
}

// PID returns the process id.
func (s *Server) PID() int { return s.cmd.Process.Pid }

// Signal sends a signal to the process.
func (s *Server) Signal(sig syscall.Signal) error { return s.cmd.Process.Signal(sig) }

// Kill ends the process at once and waits until it is gone.
func (s *Server) Kill() {
	if s.cmd == nil {
		return
	}
	_ = s.cmd.Process.Signal(syscall.SIGKILL) // it may be gone already
	<-s.exited
	s.HTTP.CloseIdleConnections()
}

// Alive reports whether the process runs.
func (s *Server) Alive() bool {
	select {
	case <-s.exited:
		return false
	default:
		return true
	}
}

// WaitExit waits until the process is gone and returns its exit error, or false if it still runs after d.
func (s *Server) WaitExit(d time.Duration) (error, bool) { //nolint:revive // the error is a value here
	select {
	case <-s.exited:
		return s.exit, true
	case <-time.After(d):
		return nil, false
	}
}

// Load posts a Caddyfile to the admin API, as `caddy reload` does. An empty one is the lab's own, changed in a comment.
func (s *Server) Load(ctx context.Context, caddyfile string) Answer {
	if caddyfile == "" {
		s.loads++
		caddyfile = s.Caddyfile(s.Ports, s.Secrets, "") + fmt.Sprintf("http://localhost:%d/lab-load-%d {\n\trespond ok\n}\n",
			s.Ports.Open, s.loads)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.Admin()+"/load", strings.NewReader(caddyfile))
	if err != nil {
		return Answer{Err: err}
	}
	req.Header.Set("Content-Type", "text/caddyfile")
	req.Header.Set("Cache-Control", "must-revalidate") // load it even if it is the same
	slow := &http.Client{Timeout: time.Minute, Transport: &http.Transport{DisableKeepAlives: true}}
	return s.do(slow, req)
}

// LogText returns the whole log.
func (s *Server) LogText() string {
	b, err := os.ReadFile(s.Log)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// LogTail returns the last lines of the log.
func (s *Server) LogTail(n int) string {
	lines := strings.Split(strings.TrimSpace(s.LogText()), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

// Panics returns the lines of the log about a panic or a fatal error of the Go runtime.
func (s *Server) Panics() []string {
	var found []string
	for line := range strings.Lines(s.LogText()) {
		l := strings.ToLower(line)
		if strings.Contains(l, "panic") || strings.HasPrefix(l, "fatal error:") || strings.Contains(l, "sigbus") {
			found = append(found, line[:min(len(line), 1500)])
		}
	}
	return found
}

// Clone returns another server with the same secrets and configuration on other ports, with another working directory
// and Badger directory. It is not started.
func (s *Server) Clone(dir, data string) (*Server, error) {
	c := s.Config
	c.Dir, c.Data = dir, data
	n, err := New(c)
	if err != nil {
		return nil, err
	}
	n.Secrets = s.Secrets
	return n, n.WriteConfig()
}

// Node returns another server with the same secrets, configuration and ports of sites, at another address. It is not
// started.
func (s *Server) Node(dir, address, storage string) (*Server, error) {
	c := s.Config
	c.Dir, c.Address, c.Storage = dir, address, storage
	admin, err := FreePorts(1)
	if err != nil {
		return nil, err
	}
	n := &Server{Config: c, Ports: s.Ports, Secrets: s.Secrets, Log: filepath.Join(dir, "server.log"), HTTP: NewHTTP(address)}
	n.Ports.Admin = admin[0]
	return n, n.WriteConfig()
}

// Command runs a command of operators for the running server, with input, and returns what it prints.
func (s *Server) Command(ctx context.Context, input string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, s.Binary,
		append(append([]string{"gatehouse"}, args...), "--address", strings.TrimPrefix(s.Admin(), "http://"))...)
	cmd.Dir, cmd.Stdin, cmd.Env = s.Dir, strings.NewReader(input), append(os.Environ(), "HOME="+s.Dir)
	out, err := cmd.CombinedOutput()
	return string(out), err
}
