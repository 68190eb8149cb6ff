package oidc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	maxFresh  = 24 * time.Hour  // longest use of fetched data without checking again
	minFresh  = time.Minute     // and the shortest
	maxStale  = 24 * time.Hour  // further use while nothing can be fetched
	again     = time.Minute     // least time between two fetches
	againDown = 5 * time.Second // the same while there is nothing to use
	requests  = 32              // to the provider, in parallel
	maxBody   = 1 << 20         // bytes of an answer
	wait      = 5 * time.Second // for one answer
)

var (
	errDown   = errors.New("the provider has not answered several times: it is left alone for some seconds")
	errClosed = errors.New("the configuration has changed meanwhile")
)

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

// get returns the value. fits tells whether it contains what the caller looks for. If not, it is fetched again, but at
// most once a minute, so strangers cannot make us call the provider at will. Even then the value may not fit.
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

// start fetches in a goroutine of the provider, so that the first caller can leave. c.mu is held.
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

// answer is a response of the provider, bounded and of one of the accepted media types.
type answer struct {
	status int
	media  string
	body   []byte
	header http.Header
}

// ask makes a request. Any readable response is an answer, whatever its status. An error means that the provider did
// not answer, or not in a readable way. Errors contain neither the address nor the data sent.
func (p *Provider) ask(ctx context.Context, req *http.Request, media ...string) (*answer, error) {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	if !p.breaker.Allow(p.env.Now()) {
		return nil, errDown
	}
	select {
	case p.slots <- struct{}{}:
		defer func() { <-p.slots }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	req.Header.Set("Accept", strings.Join(media, ", "))
	req.Header.Set("Accept-Encoding", "identity") // a compressed answer is refused, not inflated
	client := p.checked                           // metadata may name any host, even on an intranet
	if p.written[hostPort(req.URL)] {
		client = p.client
	}
	res, err := client.Do(req.WithContext(ctx))
	if err != nil {
		p.report(ctx, false)
		if inner := errors.Unwrap(err); inner != nil {
			err = inner // without the address
		}
		return nil, fmt.Errorf("no answer: %w", err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(io.LimitReader(res.Body, maxBody+1))
	p.report(ctx, err == nil)
	if err != nil {
		return nil, fmt.Errorf("the answer ended early: %w", err)
	}
	if len(body) > maxBody {
		return nil, errors.New("the answer is too large")
	}
	if e := res.Header.Get("Content-Encoding"); e != "" && !strings.EqualFold(e, "identity") {
		return nil, errors.New("the answer is compressed, which was not asked for")
	}
	if res.StatusCode >= 300 && res.StatusCode < 400 {
		return nil, fmt.Errorf("status %d: redirects are not followed", res.StatusCode)
	}
	a := &answer{status: res.StatusCode, body: body, header: res.Header}
	got, _, err := mime.ParseMediaType(res.Header.Get("Content-Type"))
	if err == nil {
		a.media = got
	}
	for _, m := range media {
		if a.media == m {
			return a, nil
		}
	}
	return nil, fmt.Errorf("status %d with another content type than %s", a.status, media[0])
}

// report tells the breaker the outcome. If the person has left, the outcome is unknown.
func (p *Provider) report(ctx context.Context, answered bool) {
	if answered || !errors.Is(ctx.Err(), context.Canceled) {
		p.breaker.Done(p.env.Now(), answered)
	}
}

// fetchObject reads a published JSON document, and returns how long it can be used.
func (p *Provider) fetchObject(ctx context.Context, from string, media ...string) (object, time.Duration, error) {
	req, err := http.NewRequest(http.MethodGet, from, nil) //nolint:noctx // ask gives it one
	if err != nil {
		return nil, 0, errors.New("not an address")
	}
	a, err := p.ask(ctx, req, media...)
	if err != nil {
		return nil, 0, err
	}
	if a.status != http.StatusOK {
		return nil, 0, fmt.Errorf("status %d", a.status)
	}
	o, err := readObject(a.body)
	return o, freshness(a.header), err
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
