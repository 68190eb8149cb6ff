package caddymodule_test

import (
	"fmt"
	"net/http"
	"strings"
	"syscall"
	"testing"

	"github.com/gatehouse-id/gatehouse/storage"
)

// TestRestartOnAFullDisk: a server that is started on a full disk lets existing tokens in, refuses new ones and says
// why.
func TestRestartOnAFullDisk(t *testing.T) {
	s := newServer(t)
	s.mustLoad()
	token := s.token()
	s.stop()
	roomy := s.storage
	s.storage += " {\n min_free 100000TiB\n}"
	s.mustLoad()
	if got := s.enters(token); got != http.StatusOK {
		t.Errorf("a token from before, on a full disk = %d, want 200", got)
	}
	if resp, body := s.get("/healthz"); resp.StatusCode != http.StatusServiceUnavailable || !strings.Contains(body, "free space") {
		t.Errorf("GET /healthz = %d %s, want 503 that names the free space", resp.StatusCode, body)
	}
	r := s.request(http.MethodPost, s.issuer()+"/oauth/token", strings.NewReader("grant_type=client_credentials"))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.SetBasicAuth("reports", testSecret)
	if resp, body := s.do(r); resp.StatusCode != http.StatusServiceUnavailable || resp.Header.Get("Retry-After") == "" {
		t.Errorf("POST /oauth/token = %d %s, want 503 with Retry-After", resp.StatusCode, body)
	}
	s.stop()
	s.storage = roomy
	s.mustLoad()
	if got := s.enters(s.token()); got != http.StatusOK {
		t.Errorf("with space again = %d, want 200", got)
	}
}

// TestStorageReopenedEvent: a store that was opened again by itself is an event, whose reason names no path.
func TestStorageReopenedEvent(t *testing.T) {
	s := newServer(t)
	s.storage, s.key = "storage memory reopened", "encryption_key "+testKey
	heard.Lock()
	heard.events, heard.hold = nil, nil
	heard.Unlock()
	s.options = "events {\n\t\ton gatehouse.storage.StorageReopenedEvent gatehouse_test\n\t}"
	s.mustLoad()
	memoryOf(t, "reopened").reopened(fmt.Errorf("%w: open /secret/path: %w", storage.ErrUnavailable, syscall.EMFILE))
	reason := func() any {
		heard.Lock()
		defer heard.Unlock()
		for _, e := range heard.events {
			return e.Data["reason"]
		}
		return nil
	}
	eventually(t, "the event is told", func() bool { return reason() != nil })
	if got := reason(); got != "storage: no file descriptors are left" {
		t.Errorf("reason = %q, want the one of /healthz", got)
	}
}
