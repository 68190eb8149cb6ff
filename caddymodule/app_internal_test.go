package caddymodule

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap"
)

func waiting() *App { return &App{ready: make(chan struct{})} }

// TestAwait: Caddy starts its apps in random order, so requests may come before Start is done.
func TestAwait(t *testing.T) {
	t.Parallel()
	a, inst := waiting(), &instance{gone: make(chan struct{})}
	inst.users.Store(1)
	got := make(chan *instance)
	for range 20 {
		go func() {
			i, err := a.enter(t.Context())
			if err != nil {
				t.Errorf("enter: %v", err)
			}
			got <- i
		}()
	}
	a.settled(inst, nil)
	for range 20 {
		if i := <-got; i != inst {
			t.Errorf("enter = %p, want %p", i, inst)
		}
	}
	if n := inst.users.Load(); n != 21 {
		t.Errorf("%d users, want 21", n)
	}

	a = waiting()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := a.await(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("await with a cancelled context = %v", err)
	}
	broken := errors.New("broken")
	a.settled(nil, broken)
	if _, err := a.await(t.Context()); !errors.Is(err, broken) {
		t.Errorf("await after a failed start = %v, want %v", err, broken)
	}
}

// TestCleanup: it may follow a Provision that never came or failed, a Start that never came, and itself.
func TestCleanup(t *testing.T) {
	t.Parallel()
	for name, a := range map[string]*App{"unprovisioned": {}, "not started": waiting()} {
		for range 2 {
			if err := a.Cleanup(); err != nil {
				t.Errorf("%s: Cleanup = %v", name, err)
			}
		}
		if a.ready == nil {
			continue
		}
		if _, err := a.await(t.Context()); !errors.Is(err, errStopped) {
			t.Errorf("%s: await after Cleanup = %v, want %v", name, err, errStopped)
		}
	}
	a := new(App)
	ctx, cancel := caddy.NewContext(caddy.Context{Context: t.Context()})
	defer cancel()
	if err := a.Provision(ctx); err == nil {
		t.Fatal("Provision took an empty configuration")
	}
	if err := a.Cleanup(); err != nil {
		t.Errorf("Cleanup after a failed Provision = %v", err)
	}
}

// TestInstanceClose: parts close in the opposite order, each of them once, and one that fails keeps no other open.
func TestInstanceClose(t *testing.T) {
	t.Parallel()
	i := &instance{log: zap.NewNop()}
	var closed []string
	for _, part := range []string{"storage", "events", "providers"} {
		i.onClose(part, func() error {
			closed = append(closed, part)
			return errors.New("broken")
		})
	}
	i.close()
	i.close()
	if want := []string{"providers", "events", "storage"}; !slices.Equal(closed, want) {
		t.Errorf("closed %q, want %q", closed, want)
	}
}
