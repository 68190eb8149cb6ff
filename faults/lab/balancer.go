package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

const balancerConfig = `global
	maxconn 4000
defaults
	mode http
	timeout connect 1s
	timeout client 45s
	timeout server 45s
	timeout tunnel 1h
	option redispatch 1
	http-error status 502 content-type text/plain string "try again" hdr Retry-After 1
	http-error status 503 content-type text/plain string "try again" hdr Retry-After 1
	http-error status 504 content-type text/plain string "try again" hdr Retry-After 1
	default-server inter 500ms fall 2 rise 2
`

// Balance starts HAProxy in front of nodes, for their issuer and their API, at 127.0.0.1, and returns it as one server
// that cannot be started. Kill ends HAProxy.
func Balance(ctx context.Context, dir string, nodes ...*Server) (*Server, error) {
	var b strings.Builder
	b.WriteString(balancerConfig)
	for name, port := range map[string]int{"issuer": nodes[0].Ports.Issuer, "api": nodes[0].Ports.API} {
		fmt.Fprintf(&b, "listen %s\n\tbind 127.0.0.1:%d\n", name, port)
		if name == "issuer" {
			fmt.Fprintf(&b, "\toption httpchk\n\thttp-check send meth GET uri /healthz ver HTTP/1.1 hdr Host localhost:%d\n", port)
		}
		for i, n := range nodes {
			how := "check"
			if name != "issuer" {
				how = fmt.Sprintf("track issuer/node-%d", i)
			}
			fmt.Fprintf(&b, "\tserver node-%d %s:%d %s\n", i, n.Address, port, how)
		}
	}
	file := filepath.Join(dir, "haproxy.cfg")
	if err := os.WriteFile(file, []byte(b.String()), 0o600); err != nil {
		return nil, err
	}
	program, err := exec.LookPath("haproxy")
	if err != nil {
		program = "/usr/sbin/haproxy"
	}
	n := nodes[0]
	s := &Server{Config: n.Config, Ports: n.Ports, Secrets: n.Secrets, Log: filepath.Join(dir, "haproxy.log"), HTTP: NewHTTP("127.0.0.1")}
	s.Address, s.Dir = "127.0.0.1", dir
	log, err := os.Create(s.Log)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	s.cmd = exec.Command(program, "-db", "-f", file)
	s.cmd.Stdout, s.cmd.Stderr, s.cmd.SysProcAttr = log, log, &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := s.cmd.Start(); err != nil {
		return nil, fmt.Errorf("%w: make install", err)
	}
	s.exited = make(chan struct{})
	go func(c *exec.Cmd, done chan struct{}) {
		s.exit = c.Wait()
		close(done)
	}(s.cmd, s.exited)
	for range 1000 {
		if s.Healthy(ctx) {
			return s, nil
		}
		if !s.Alive() || !Pause(ctx, 20*time.Millisecond) {
			break
		}
	}
	s.Kill()
	return nil, errors.New("HAProxy does not start: " + s.LogTail(5))
}
