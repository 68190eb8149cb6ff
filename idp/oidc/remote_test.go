package oidc_test

import (
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/idp"
	"github.com/gatehouse-id/gatehouse/idp/oidc"
	"github.com/gatehouse-id/gatehouse/idp/oidc/oidctest"
)

const discovery = "/.well-known/openid-configuration"

// TestFetchedOnce: under concurrent requests, metadata and keys are fetched once.
func TestFetchedOnce(t *testing.T) {
	t.Parallel()
	l := open(t)
	var wg sync.WaitGroup
	for range 30 {
		wg.Go(func() { l.accepts("one of many") })
	}
	wg.Wait()
	if d, k := l.op.Count(discovery), l.op.Count("/jwks"); d != 1 || k != 1 {
		t.Errorf("metadata were fetched %d times and keys %d times, want once each", d, k)
	}
}

// TestDiscoveryDown: sign-ins do not wait for a provider that was down a moment ago, and the provider is found again
// soon.
func TestDiscoveryDown(t *testing.T) {
	t.Parallel()
	l := open(t)
	l.op.Change(func(s *oidctest.Script) {
		s.Handlers = map[string]http.HandlerFunc{discovery: func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) }}
	})
	for range 50 {
		if _, err := l.Begin(t.Context(), idp.Request{Flow: flowName}); err == nil {
			t.Fatal("Begin holds without metadata")
		}
	}
	if n := l.op.Count(discovery); n != 1 {
		t.Errorf("the provider was asked %d times in a moment, want once", n)
	}
	l.op.Change(func(s *oidctest.Script) { s.Handlers = nil })
	l.clock.Advance(6 * time.Second)
	l.accepts("up again")
}

// TestDownLater: fetched data are used for a day while nothing can be fetched.
func TestDownLater(t *testing.T) {
	t.Parallel()
	l := open(t)
	l.accepts("control")
	down := func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) }
	l.op.Change(func(s *oidctest.Script) { s.Handlers = map[string]http.HandlerFunc{discovery: down, "/jwks": down} })
	for range 12 {
		l.clock.Advance(2 * time.Hour)
		l.accepts("by what is known")
	}
	l.clock.Advance(3 * time.Hour)
	if _, err := l.Begin(t.Context(), idp.Request{Flow: flowName}); err == nil {
		t.Error("metadata of the day before yesterday are used")
	}
}

// TestRequestsAreBounded: a slow provider gets at most 32 of our requests in parallel, and no caller waits longer than
// allowed.
func TestRequestsAreBounded(t *testing.T) {
	t.Parallel()
	l := open(t, func(c *oidc.Config) { c.Timeout = 3 * time.Second })
	l.accepts("control")
	l.op.Change(func(s *oidctest.Script) {
		s.Handlers = map[string]http.HandlerFunc{"/token": func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }}
	})
	next := l.begin(whenever)
	back := l.walk(next)
	var wg sync.WaitGroup
	for range 100 {
		wg.Go(func() {
			if _, err := l.Finish(t.Context(), next.State, edit(back, nil)); kind(err) != "unknown" {
				t.Errorf("Finish at a slow provider = %v", err)
			}
		})
	}
	wg.Wait()
	if n := l.most.Load(); n > 32 || n < 2 {
		t.Errorf("%d requests ran at a time, want at most 32", n)
	}
}
