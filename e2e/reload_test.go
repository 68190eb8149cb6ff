package e2e

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/chromedp/cdproto/storage"
)

// TestReload changes the configuration under load, and once to one that is wrong: no request fails and nobody is signed out.
func TestReload(t *testing.T) {
	t.Parallel()
	s := start(t, "")
	b := s.browse(t)
	b.open(s.Wiki + "/")
	b.signIn(person, s.Password)
	var cookies []string
	for _, c := range call(b, storage.GetCookies, storage.GetCookiesParams{}).Cookies {
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
	var done atomic.Int64
	for range 2 { // each on connections of its own that it keeps
		for _, r := range []struct{ address, header, value string }{
			{s.API + "/report", "Authorization", "Bearer " + token},
			{s.Wiki + "/page", "Cookie", strings.Join(cookies, "; ")},
		} {
			load.Go(func() { hammer(ctx, t, r.address, r.header, r.value, &done) })
		}
	}
	for i := range 20 {
		s.write(s.caddyfile() + fmt.Sprintf("\n# %d\nhttp://localhost:%d {\n\trespond %d\n}\n", i, freePorts(t, 1)[0], 200+i))
		if out, err := reload(); err != nil {
			t.Fatalf("reload %d: %v\n%s", i, err, out)
		}
	}
	s.write(strings.Replace(s.caddyfile(), "grants client_credentials", "grants everything", 1))
	if out, err := reload(); err == nil || !strings.Contains(out, "Caddyfile:") {
		t.Errorf("a wrong configuration was answered with %v, %q: want an error that names the line", err, out)
	}
	stop()
	load.Wait()
	if done.Load() < 200 {
		t.Errorf("only %d requests were served meanwhile: too few to tell", done.Load())
	}
	t.Logf("%d requests", done.Load())
	b.open(s.Wiki + "/after")
	checkSeen(t, b.seen(), "/after")
}

// hammer sends one request after the other until ctx ends. Each must be answered with 200.
func hammer(ctx context.Context, t *testing.T, address, header, value string, done *atomic.Int64) {
	client := &http.Client{Transport: &http.Transport{}, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	defer client.CloseIdleConnections()
	for ctx.Err() == nil {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
		if err != nil {
			t.Error(err)
			return
		}
		req.Header.Set(header, value)
		resp, err := client.Do(req)
		if err == nil {
			_, err = io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
		}
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			t.Errorf("GET %s during a reload: %v", address, err)
			return
		case resp.StatusCode != http.StatusOK:
			t.Errorf("GET %s during a reload: %s", address, resp.Status)
			return
		}
		done.Add(1)
	}
}
