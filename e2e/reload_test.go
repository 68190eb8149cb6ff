package e2e

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// TestReload changes the configuration under load, once to an invalid one: no request fails and no session ends.
func TestReload(t *testing.T) {
	t.Parallel()
	s := startEdited(t, "", func(caddyfile string) string {
		return strings.Replace(caddyfile, "grace_period 100ms", "grace_period 5s", 1) // no request is cut off, however busy the machine is
	})
	b := s.browse(t)
	b.open(s.Wiki + "/")
	b.signIn(person, s.Password)
	var cookies []string
	for _, c := range b.cookies() {
		cookies = append(cookies, c.Name+"="+c.Value)
	}
	token := s.clientCredentials("reports", s.ReportsSecret)
	file := filepath.Join(s.dir, "Caddyfile")
	reload := func() (string, error) {
		return s.gatehouse("", "reload", "--config", file, "--adapter", "caddyfile", "--address", s.Admin)
	}

	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var load sync.WaitGroup
	var workers []*worker
	for range 2 { // each on its own connection, which it keeps
		workers = append(workers,
			&worker{address: s.API + "/report", header: "Authorization", value: "Bearer " + token},
			&worker{address: s.Wiki + "/page", header: "Cookie", value: strings.Join(cookies, "; ")})
	}
	for _, w := range workers {
		load.Go(func() { w.hammer(ctx, t) })
	}
	for i := range 20 {
		s.write(s.caddyfile() + fmt.Sprintf("\n# %d\nhttp://localhost:%d {\n\trespond %d\n}\n", i, freePorts(t, 1)[0], 200+i))
		if out, err := reload(); err != nil {
			t.Fatalf("reload %d: %v\n%s", i, err, out)
		}
		// Each worker gets an answer on a connection of the new configuration before the next reload: Caddy gives each
		// configuration its own socket, and the system resets connections that wait in the queue of a socket that
		// closes.
		for _, w := range workers {
			w.advance(t, 20)
		}
	}
	s.write(strings.Replace(s.caddyfile(), "grants client_credentials", "grants everything", 1))
	if out, err := reload(); err == nil || !strings.Contains(out, "Caddyfile:") {
		t.Errorf("a wrong configuration was answered with %v, %q: want an error with the line number", err, out)
	}
	stop()
	load.Wait()
	b.open(s.Wiki + "/after")
	checkSeen(t, b.seen(), "/after")
}

// worker sends one request after the other on a connection that it keeps. Each must be answered with 200. It reopens a
// new connection that is closed before the first answer, as browsers do: the connection waited in the queue of a socket
// that Caddy closed.
type worker struct {
	address, header, value string
	done                   atomic.Int64
}

// maxDials is the maximum number of new connections of a worker in a row.
const maxDials = 3

// advance waits until the worker has received n more answers.
func (w *worker) advance(t *testing.T, n int64) {
	t.Helper()
	goal := w.done.Load() + n
	deadline := time.After(step)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for w.done.Load() < goal {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("GET %s: no more answers", w.address)
		}
	}
}

func (w *worker) hammer(ctx context.Context, t *testing.T) {
	client := &http.Client{
		Transport:     &http.Transport{},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	defer client.CloseIdleConnections()
	dials := 0
	for ctx.Err() == nil {
		kept := false
		traced := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
			GetConn: func(string) { kept = false }, // net/http opens a new one by itself where one that it had kept is closed
			GotConn: func(c httptrace.GotConnInfo) { kept = c.Reused },
		})
		req, err := http.NewRequestWithContext(traced, http.MethodGet, w.address, nil)
		if err != nil {
			t.Error(err)
			return
		}
		req.Header.Set(w.header, w.value)
		resp, err := client.Do(req)
		if err == nil {
			_, err = io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
		}
		if resp == nil && (errors.Is(err, syscall.ECONNRESET) || errors.Is(err, io.EOF)) && !kept && dials < maxDials {
			dials++
			t.Logf("GET %s: a new connection was closed, made again", w.address)
			continue
		}
		dials = 0
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			t.Errorf("GET %s during a reload: %v", w.address, err)
			return
		case resp.StatusCode != http.StatusOK:
			t.Errorf("GET %s during a reload: %s", w.address, resp.Status)
			return
		}
		w.done.Add(1)
	}
}
