// Package providerhttp makes the HTTP requests of a sign-in to one identity provider, with limits of size, time and
// number, without redirects, and with a pause while the provider does not answer. It reads JSON strictly, so two
// readers cannot understand it differently.
package providerhttp

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/gatehouse-id/gatehouse/idp"
	"github.com/gatehouse-id/gatehouse/internal/breaker"
	"github.com/gatehouse-id/gatehouse/internal/webpage"
)

const (
	requests = 32              // to the provider, in parallel
	maxBody  = 1 << 20         // bytes of an answer
	wait     = 5 * time.Second // for one answer
)

var errDown = errors.New("the provider has not answered several times: it is left alone for some seconds")

// Caller makes requests to one provider. It is safe for concurrent use.
type Caller struct {
	client  *http.Client    // for the hosts in written
	checked *http.Client    // for all others
	written map[string]bool // hosts with ports that appear in the configuration
	now     func() time.Time
	breaker breaker.Breaker
	slots   chan struct{} // one for each running request
}

// New returns a caller for the hosts with ports that the operator has written. All others must be public.
func New(env idp.Env, written map[string]bool) *Caller {
	return &Caller{
		client: plain(env.Client), checked: plain(env.Checked), written: written, now: env.Now,
		slots: make(chan struct{}, requests),
	}
}

// plain returns a client that keeps no cookies and follows no redirects.
func plain(c *http.Client) *http.Client {
	own := *c
	own.Jar, own.CheckRedirect = nil, func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &own
}

// Answer is a response of the provider, bounded and of one of the accepted media types.
type Answer struct {
	Status int
	Media  string // without parameters
	Body   []byte
	Header http.Header
	TLS    *tls.ConnectionState // nil: the connection was not encrypted
}

// Ask makes a request. Any readable response is an answer, whatever its status. An error means that the provider did
// not answer, or not in a readable way. Errors contain neither the address nor the data sent.
func (c *Caller) Ask(ctx context.Context, req *http.Request, media ...string) (*Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	if !c.breaker.Allow(c.now()) {
		return nil, errDown
	}
	select {
	case c.slots <- struct{}{}:
		defer func() { <-c.slots }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	req.Header.Set("Accept", strings.Join(media, ", "))
	req.Header.Set("Accept-Encoding", "identity") // a compressed answer is refused, not inflated
	client := c.checked                           // metadata may name any host, even on an intranet
	if c.written[HostPort(req.URL)] {
		client = c.client
	}
	res, err := client.Do(req.WithContext(ctx))
	if err != nil {
		c.report(ctx, false)
		if inner := errors.Unwrap(err); inner != nil {
			err = inner // without the address
		}
		return nil, fmt.Errorf("no answer: %w", err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(io.LimitReader(res.Body, maxBody+1))
	c.report(ctx, err == nil)
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
	got, _, err := mime.ParseMediaType(res.Header.Get("Content-Type"))
	for _, m := range media {
		if err == nil && got == m {
			return &Answer{Status: res.StatusCode, Media: got, Body: body, Header: res.Header, TLS: res.TLS}, nil
		}
	}
	if slices.Contains(media, mediaJSON) && isObject(body) { // text/plain of a bucket, text/html of PHP, or no type
		return &Answer{Status: res.StatusCode, Media: mediaJSON, Body: body, Header: res.Header, TLS: res.TLS}, nil
	}
	if webpage.Is(body) {
		return nil, fmt.Errorf("status %d with an HTML page, not %s: the address is that of a page, or a proxy answers in its place",
			res.StatusCode, media[0])
	}
	return nil, fmt.Errorf("status %d with another content type than %s", res.StatusCode, media[0])
}

const mediaJSON = "application/json"

// isObject reports whether a body is a JSON object and nothing else.
func isObject(body []byte) bool {
	return bytes.HasPrefix(bytes.TrimLeft(body, " \t\r\n"), []byte("{")) && json.Valid(body)
}

// report tells the breaker the outcome. If the person has left, the outcome is unknown.
func (c *Caller) report(ctx context.Context, answered bool) {
	if answered || !errors.Is(ctx.Err(), context.Canceled) {
		c.breaker.Done(c.now(), answered)
	}
}

// HostPort names a host as New takes it: in lower case, always with a port.
func HostPort(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = map[string]string{"https": "443", "http": "80"}[u.Scheme]
	}
	return net.JoinHostPort(strings.ToLower(u.Hostname()), port)
}
