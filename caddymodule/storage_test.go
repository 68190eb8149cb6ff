package caddymodule_test

import (
	"fmt"
	"net/http"
	"strings"
	"syscall"
	"testing"

	"github.com/gatehouse-id/gatehouse/caddymodule/servertest"
	"github.com/gatehouse-id/gatehouse/storage"
)

// TestRestartOnAFullDisk: a server that is started on a full disk lets existing tokens in, refuses new ones and says
// why.
func TestRestartOnAFullDisk(t *testing.T) {
	s := servertest.NewServer(t)
	s.MustLoad()
	token := s.Token()
	s.Stop()
	roomy := s.Storage
	s.Storage += " {\n min_free 100000TiB\n}"
	s.MustLoad()
	if got := s.Enters(token); got != http.StatusOK {
		t.Errorf("a token from before, on a full disk = %d, want 200", got)
	}
	if resp, body := s.Get("/healthz"); resp.StatusCode != http.StatusServiceUnavailable || !strings.Contains(body, "free space") {
		t.Errorf("GET /healthz = %d %s, want 503 that names the free space", resp.StatusCode, body)
	}
	r := s.Request(http.MethodPost, s.Issuer()+"/oauth/token", strings.NewReader("grant_type=client_credentials"))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.SetBasicAuth("reports", servertest.TestSecret)
	if resp, body := s.Do(r); resp.StatusCode != http.StatusServiceUnavailable || resp.Header.Get("Retry-After") == "" {
		t.Errorf("POST /oauth/token = %d %s, want 503 with Retry-After", resp.StatusCode, body)
	}
	s.Stop()
	s.Storage = roomy
	s.MustLoad()
	if got := s.Enters(s.Token()); got != http.StatusOK {
		t.Errorf("with space again = %d, want 200", got)
	}
}

// TestStorageReopenedEvent: a store that was opened again by itself is an event, whose reason names no path.
func TestStorageReopenedEvent(t *testing.T) {
	s := servertest.NewServer(t)
	s.Storage, s.Key = "storage memory reopened", "encryption_key "+servertest.TestKey
	heard.Lock()
	heard.events, heard.hold = nil, nil
	heard.Unlock()
	s.Options = "events {\n\t\ton gatehouse.storage.StorageReopenedEvent gatehouse_test\n\t}"
	s.MustLoad()
	servertest.MemoryOf(t, "reopened").Reopened(fmt.Errorf("%w: open /secret/path: %w", storage.ErrUnavailable, syscall.EMFILE))
	reason := func() any {
		heard.Lock()
		defer heard.Unlock()
		for _, e := range heard.events {
			return e.Data["reason"]
		}
		return nil
	}
	servertest.Eventually(t, "the event is told", func() bool { return reason() != nil })
	if got := reason(); got != "storage: no file descriptors are left" {
		t.Errorf("reason = %q, want the one of /healthz", got)
	}
}
