package caddymodule_test

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/caddymodule/servertest"
)

// startStreams starts an upstream that answers each request with an event stream. It has one event, and at the path
// live another one after each call of send.
func startStreams(t *testing.T, live string) (address string, send func()) {
	t.Helper()
	sent := make(chan struct{}, 1)
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		more := sent
		if r.URL.Path != live {
			more = nil
		}
		for {
			if _, err := fmt.Fprint(w, "data: x\n"); err != nil || http.NewResponseController(w).Flush() != nil {
				return
			}
			select {
			case <-more:
			case <-r.Context().Done():
				return
			}
		}
	}))
	t.Cleanup(upstream.Close)
	return upstream.Listener.Addr().String(), func() { sent <- struct{}{} }
}

// openStream opens an event stream at the protected API and reads its first line.
func openStream(ctx context.Context, s *servertest.Server, path, token string) *bufio.Reader {
	s.T.Helper()
	r := s.Request(http.MethodGet, "http://"+s.API+path, nil).WithContext(ctx)
	r.Header.Set("Authorization", "Bearer "+token)
	resp, err := s.Transport.RoundTrip(r)
	if err != nil {
		s.T.Fatalf("%s: %v", path, err)
	}
	s.T.Cleanup(func() { resp.Body.Close() })
	out := bufio.NewReader(resp.Body)
	if line, err := out.ReadString('\n'); resp.StatusCode != http.StatusOK || err != nil || line != "data: x\n" {
		s.T.Fatalf("%s = %d %q, %v", path, resp.StatusCode, line, err)
	}
	return out
}

// TestReloadEndsOpenRequests: a request that the rules before a reload have let in ends after it, unless its site has
// the same rules as before.
func TestReloadEndsOpenRequests(t *testing.T) {
	s := servertest.NewServer(t)
	s.Grace = "1h" // Caddy itself would end what is open after that
	upstream, send := startStreams(t, "/kept")
	at := func(path, protect string) string {
		return fmt.Sprintf("handle %s {\n\t\t%s\n\t\treverse_proxy %s {\n\t\t\tflush_interval -1\n\t\t}\n\t}\n\t", path, protect, upstream)
	}
	kept := at("/kept", "protect orders.read")
	s.Site = kept + at("/narrowed", "protect orders.read {\n\t\t\taccept app_passwords\n\t\t\tpublic /1\n\t\t}") +
		at("/denied", "protect orders.read {\n\t\t\tpublic /2\n\t\t}") + at("/removed", "protect orders.read {\n\t\t\tpublic /3\n\t\t}")
	s.MustLoad()
	token := s.Token()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	stays := openStream(ctx, s, "/kept", token) // first, since it is looked at before the others are
	ended := map[string]*bufio.Reader{}
	for _, path := range []string{"/narrowed", "/denied", "/removed"} {
		ended[path] = openStream(ctx, s, path, token)
	}
	s.Site = kept + at("/narrowed", "protect orders.read {\n\t\t\tpublic /1\n\t\t}") +
		at("/denied", "protect orders.read {\n\t\t\tpublic /2\n\t\t\tdeny {\n\t\t\t\tmatch path /denied\n\t\t\t}\n\t\t}")
	s.MustLoad()
	t.Run("attack 8054: app passwords, a rule and a site that a reload takes away", func(t *testing.T) {
		for path, stream := range ended {
			if line, err := stream.ReadString('\n'); err == nil || ctx.Err() != nil {
				t.Errorf("%s is still open: %q, %v", path, line, err)
			}
		}
	})
	send()
	if line, err := stays.ReadString('\n'); err != nil || line != "data: x\n" {
		t.Errorf("the stream at the site with the rules as before = %q, %v", line, err)
	}
	cancel()
}
