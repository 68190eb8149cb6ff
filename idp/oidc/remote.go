package oidc

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gatehouse-id/gatehouse/idp/providerhttp"
)

const (
	maxFresh  = 24 * time.Hour  // longest use of fetched data without checking again
	minFresh  = time.Minute     // and the shortest
	maxStale  = 24 * time.Hour  // further use while nothing can be fetched
	again     = time.Minute     // least time between two fetches
	againDown = 5 * time.Second // the same while there is nothing to use
	wait      = 5 * time.Second // for one answer
)

var errClosed = errors.New("the configuration has changed meanwhile")

type object = providerhttp.Object

// cache holds a document that the provider publishes. It is fetched on first use, and again in the background when it
// is old. A caller waits only while there is no document.
type cache[T any] struct {
	p     *Provider
	fetch func(ctx context.Context) (value T, fresh time.Duration, err error)

	mu     sync.Mutex // guards all below
	value  T
	have   bool
	fresh  time.Time // no fetch is needed before then
	tried  time.Time
	err    error         // of the last try
	flight chan struct{} // closed at the end of the running fetch; nil: none runs
}

// get returns the value. fits reports whether it contains what the caller looks for. If not, it is fetched again, but
// at most once a minute, so strangers cannot make us call the provider at will. Even then the value may not fit.
func (c *cache[T]) get(ctx context.Context, fits func(T) bool) (T, error) {
	c.mu.Lock()
	now := c.p.env.Now()
	usable := c.usable(now)
	good := usable && fits(c.value)
	if good && now.Before(c.fresh) {
		defer c.mu.Unlock()
		return c.value, nil
	}
	pause := again
	if !usable {
		pause = againDown
	}
	if c.flight == nil && (c.tried.IsZero() || now.Sub(c.tried) >= pause) {
		c.start(now)
	}
	flight := c.flight
	if good || flight == nil {
		defer c.mu.Unlock()
		return c.result(now)
	}
	c.mu.Unlock()
	select {
	case <-flight:
	case <-ctx.Done():
		var zero T
		return zero, ctx.Err()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.result(now)
}

func (c *cache[T]) usable(now time.Time) bool {
	return c.have && now.Before(c.fresh.Add(maxStale))
}

func (c *cache[T]) result(now time.Time) (T, error) {
	if c.usable(now) {
		return c.value, nil
	}
	var zero T
	if c.err == nil {
		return zero, errClosed
	}
	return zero, c.err
}

// start fetches in a goroutine of the provider, so the first caller can leave. c.mu is held.
func (c *cache[T]) start(now time.Time) {
	flight := make(chan struct{})
	if !c.p.spawn(func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(ctx, wait)
		defer cancel()
		value, fresh, err := c.fetch(ctx)
		c.mu.Lock()
		defer c.mu.Unlock()
		c.flight = nil
		defer close(flight)
		if c.err = err; err == nil {
			c.value, c.have, c.fresh = value, true, now.Add(fresh)
		}
	}) {
		c.err = errClosed
		return
	}
	c.tried, c.flight = now, flight
}

// fetchObject reads a published JSON document, and returns how long it can be used.
func (p *Provider) fetchObject(ctx context.Context, from string, media ...string) (object, time.Duration, error) {
	o, a, err := p.fetch(ctx, from, media...)
	if a == nil {
		return nil, 0, err
	}
	return o, freshness(a.Header), err
}

// fetch reads a published JSON document. The answer is not nil where there is one with status 200.
func (p *Provider) fetch(ctx context.Context, from string, media ...string) (object, *providerhttp.Answer, error) {
	req, err := http.NewRequest(http.MethodGet, from, nil) //nolint:noctx // Ask gives it one
	if err != nil {
		return nil, nil, errors.New("not an address")
	}
	a, err := p.calls.Ask(ctx, req, media...)
	if err != nil {
		return nil, nil, err
	}
	if a.Status != http.StatusOK {
		return nil, nil, fmt.Errorf("status %d", a.Status)
	}
	o, err := providerhttp.ReadObject(a.Body)
	return o, a, err
}

// freshness reads Cache-Control (RFC 9111 5.2.2) within our bounds; 0: not stated.
func freshness(h http.Header) time.Duration {
	for d := range strings.SplitSeq(strings.ToLower(strings.Join(h.Values("Cache-Control"), ",")), ",") {
		d = strings.TrimSpace(d)
		if d == "no-store" || d == "no-cache" {
			return minFresh
		}
		if age, ok := strings.CutPrefix(d, "max-age="); ok {
			if n, err := strconv.ParseInt(age, 10, 32); err == nil {
				return min(max(time.Duration(n)*time.Second, minFresh), maxFresh)
			}
		}
	}
	return 0
}
