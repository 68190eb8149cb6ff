// Package idptest has an identity provider that a test controls, and the contract tests of every idp.Redirector.
package idptest

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"net/http"
	"net/url"
	"sync"

	"github.com/gatehouse-id/gatehouse/idp"
)

// Place is the address where a Provider sends browsers.
const Place = "https://idp.example/login"

// Provider is a Redirector with answers chosen by the test. An answer has the query parameters state and ticket; Answer
// makes tickets. It is safe for concurrent use.
type Provider struct {
	mu       sync.Mutex // guards all below
	requests []idp.Request
	tickets  map[string]func(state []byte) (*idp.Identity, error)
	begin    func(context.Context, idp.Request) (*idp.Next, error)
	refresh  func(context.Context, []byte) (*idp.Identity, error)
	end      func(context.Context, idp.EndRequest) (*idp.Next, error)
	handle   func(http.ResponseWriter, *http.Request, string, idp.Host) bool
	closed   bool
}

var (
	_ idp.Redirector = (*Provider)(nil)
	_ idp.Refresher  = (*Provider)(nil)
	_ idp.Ender      = (*Provider)(nil)
	_ idp.Handler    = (*Provider)(nil)
	_ idp.Closer     = (*Provider)(nil)
)

// New returns a provider that sends browsers to Place and has no answers yet.
func New() *Provider {
	return &Provider{tickets: map[string]func([]byte) (*idp.Identity, error){}}
}

// Parameters implements idp.Provider.
func (p *Provider) Parameters() []string { return nil }

// Begin implements idp.Redirector.
func (p *Provider) Begin(ctx context.Context, q idp.Request) (*idp.Next, error) {
	p.mu.Lock()
	p.requests = append(p.requests, q)
	begin := p.begin
	p.mu.Unlock()
	if begin != nil {
		return begin(ctx, q)
	}
	return &idp.Next{URL: Place + "?" + url.Values{"state": {q.Flow}}.Encode(), State: []byte("state of " + q.Flow)}, nil
}

// FlowOf implements idp.Redirector.
func (p *Provider) FlowOf(r *http.Request) (string, error) {
	if err := r.ParseForm(); err != nil {
		return "", &idp.Invalid{Reason: "the form is malformed"}
	}
	return r.Form.Get("state"), nil
}

// Finish implements idp.Redirector. The state must be the one that Begin returned for this flow.
func (p *Provider) Finish(_ context.Context, state []byte, r *http.Request) (*idp.Identity, error) {
	p.mu.Lock()
	answer := p.tickets[r.Form.Get("ticket")]
	p.mu.Unlock()
	switch flow := r.Form.Get("state"); {
	case answer == nil:
		return nil, &idp.Invalid{Reason: "there is no such ticket"}
	case flow != "" && !bytes.Equal(state, []byte("state of "+flow)):
		return nil, &idp.Invalid{Reason: "the answer is for another flow"}
	}
	return answer(state)
}

// Refresh implements idp.Refresher.
func (p *Provider) Refresh(ctx context.Context, held []byte) (*idp.Identity, error) {
	p.mu.Lock()
	refresh := p.refresh
	p.mu.Unlock()
	if refresh == nil {
		return nil, errors.New("idptest: nothing to refresh")
	}
	return refresh(ctx, held)
}

// End implements idp.Ender.
func (p *Provider) End(ctx context.Context, q idp.EndRequest) (*idp.Next, error) {
	p.mu.Lock()
	end := p.end
	p.mu.Unlock()
	if end == nil {
		return nil, nil //nolint:nilnil // nothing to do
	}
	return end(ctx, q)
}

// Handle implements idp.Handler.
func (p *Provider) Handle(w http.ResponseWriter, r *http.Request, op string, h idp.Host) bool {
	p.mu.Lock()
	handle := p.handle
	p.mu.Unlock()
	return handle != nil && handle(w, r, op, h)
}

// Close implements idp.Closer.
func (p *Provider) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	return nil
}

// Closed reports whether Close was called.
func (p *Provider) Closed() bool { p.mu.Lock(); defer p.mu.Unlock(); return p.closed }

// Answer returns a ticket for the given identity or error. It can be used more than once.
func (p *Provider) Answer(id *idp.Identity, err error) (ticket string) {
	return p.AnswerFunc(func([]byte) (*idp.Identity, error) { return id, err })
}

// AnswerFunc is Answer for an answer that depends on the state.
func (p *Provider) AnswerFunc(fn func(state []byte) (*idp.Identity, error)) (ticket string) {
	var b [8]byte
	rand.Read(b[:]) //nolint:errcheck // never fails
	ticket = hex.EncodeToString(b[:])
	p.mu.Lock()
	defer p.mu.Unlock()
	p.tickets[ticket] = fn
	return ticket
}

// Requests returns the requests that Begin has received.
func (p *Provider) Requests() []idp.Request {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]idp.Request(nil), p.requests...)
}

// OnBegin sets the behaviour of Begin.
func (p *Provider) OnBegin(fn func(context.Context, idp.Request) (*idp.Next, error)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.begin = fn
}

// OnRefresh sets the behaviour of Refresh.
func (p *Provider) OnRefresh(fn func(context.Context, []byte) (*idp.Identity, error)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refresh = fn
}

// OnEnd sets the behaviour of End.
func (p *Provider) OnEnd(fn func(context.Context, idp.EndRequest) (*idp.Next, error)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.end = fn
}

// OnHandle sets the behaviour of Handle.
func (p *Provider) OnHandle(fn func(http.ResponseWriter, *http.Request, string, idp.Host) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.handle = fn
}
