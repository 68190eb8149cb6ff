package lab

import (
	"context"
	"net"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"
)

// Echo is the upstream. It counts the requests that reach it.
type Echo struct {
	Addr      string
	Hits      atomic.Int64
	Forbidden atomic.Int64 // requests marked MustNotArrive
	server    *http.Server
}

// MustNotArrive marks requests that protect must refuse.
const MustNotArrive = "X-Lab-Must-Not-Arrive"

// NewEcho starts an upstream. The query "ms" makes it wait that many milliseconds before it answers; an upgraded
// connection repeats every line.
func NewEcho() (*Echo, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	e := &Echo{Addr: l.Addr().String()}
	e.server = &http.Server{Handler: e, ReadHeaderTimeout: 10 * time.Second}
	go e.server.Serve(l) //nolint:errcheck // ends with Close
	return e, nil
}

// Close ends the upstream.
func (e *Echo) Close() { _ = e.server.Close() }

func (e *Echo) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	e.Hits.Add(1)
	if r.Header.Get(MustNotArrive) != "" {
		e.Forbidden.Add(1)
	}
	if r.Header.Get("Upgrade") != "" {
		ServeTunnel(w)
		return
	}
	if ms, err := strconv.Atoi(r.URL.Query().Get("ms")); err == nil {
		Pause(r.Context(), time.Duration(ms)*time.Millisecond)
	}
	w.Header().Set("Content-Type", "text/plain")
	w.Header().Set("Content-Length", "3")
	_, _ = w.Write([]byte("ok\n"))
}

// Pause waits for d or until ctx ends, and reports whether it waited to the end.
func Pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
