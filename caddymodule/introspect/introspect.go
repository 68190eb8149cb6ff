// Package introspect asks another authorization server about the bearer tokens of a site, by token introspection (RFC
// 7662), with signed answers where that server offers them (RFC 9701), and caches the answers.
package introspect

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/authz/token"
	"github.com/gatehouse-id/gatehouse/internal/breaker"
	"github.com/gatehouse-id/gatehouse/internal/denial"
	"github.com/gatehouse-id/gatehouse/internal/depcache"
	"github.com/gatehouse-id/gatehouse/internal/outbound"
	"github.com/gatehouse-id/gatehouse/internal/secret"
)

const (
	requests = 64       // to the server, in parallel
	kept     = 16 << 20 // bytes of answers in memory
	limits   = 1 << 20  // bytes that remember which tokens have a usage limit
)

// The kinds of what is kept in memory.
const (
	aboutToken byte = iota
	aboutLimit
)

// Server is an authorization server elsewhere. It can be asked by several goroutines.
type Server struct {
	cfg     config
	host    string // in logs and metrics
	same    [sha256.Size]byte
	client  *http.Client
	log     *zap.Logger
	now     func() time.Time
	random  io.Reader
	breaker breaker.Breaker
	keys    keyCache
	slots   chan struct{} // one for each running request
	answers *depcache.Cache[*serverAnswer]
	limited *depcache.Cache[struct{}]

	mu      sync.Mutex // guards the fields below
	began   uint64     // flights so far
	flights map[depcache.Key]*flight
}

// config are the values of the options.
type config struct {
	endpoint, client string
	secret           secret.String
	auth             string
	signer           *signer
	issuer, jwks     string
	cache, timeout   time.Duration
	groups           []string
	levels           map[string]int
}

// flight is a question under way. Those who ask about the same token wait for it.
type flight struct {
	number uint64
	asked  time.Time
	done   chan struct{} // closed at the end, after the fields below are set
	answer *serverAnswer
	err    error
}

func newServer(cfg config, same [sha256.Size]byte, log *zap.Logger, now func() time.Time, random io.Reader) (*Server, error) {
	u, err := url.Parse(cfg.endpoint)
	if err != nil {
		return nil, fmt.Errorf("introspect: %w", err)
	}
	s := &Server{
		cfg: cfg, host: u.Host, same: same, client: pooled(), log: log, now: now, random: random, slots: make(chan struct{}, requests),
		answers: depcache.New(nil, kept, (*serverAnswer).weigh), limited: depcache.New(nil, limits, func(struct{}) int { return 0 }),
		flights: map[depcache.Key]*flight{},
	}
	s.breaker.Changed = s.breakerChanged
	s.keys.fetch = s.fetchKeys
	return s, nil
}

// pooled returns a client that keeps connections. The operator has written the addresses, so they can belong to an
// intranet. Redirects are not followed.
func pooled() *http.Client {
	client := outbound.New(true)
	if t, ok := client.Transport.(*http.Transport); ok {
		t.MaxIdleConnsPerHost, t.MaxConnsPerHost, t.MaxResponseHeaderBytes = requests/2, requests, 32<<10
	}
	return client
}

// Close lets go of the connections that no one uses. Requests that are under way go on.
func (s *Server) Close() {
	s.client.CloseIdleConnections()
	s.breaker.Forget()
}

// Same reports whether two servers are configured alike, so the answer of one is that of the other.
func (s *Server) Same(other *Server) bool { return s == other || s.same == other.same }

// Introspect asks about an access token. An unknown, expired or revoked one is inactive, and so is one that cannot be
// used as a bearer token. An error means that the server could not be asked, or that its answer is not valid: callers
// must refuse. The server may count it as a use of the token, so a request asks once.
func (s *Server) Introspect(ctx context.Context, text string) (*token.Introspection, error) {
	return s.look(ctx, text, false)
}

// Recheck is Introspect for a request that has been let in already. It does not count as a use.
func (s *Server) Recheck(ctx context.Context, text string) (*token.Introspection, error) {
	return s.look(ctx, text, true)
}

func (s *Server) look(ctx context.Context, text string, again bool) (*token.Introspection, error) {
	arrived := s.now()
	question := depcache.KeyOf(aboutToken, text)
	if s.cfg.cache > 0 {
		if a, ok := s.answers.Find(question, arrived); ok {
			counters().requests.WithLabelValues(s.host, "cached").Inc()
			in := a.in
			return &in, ctx.Err()
		}
	}
	var a *serverAnswer
	var err error
	if _, counted := s.limited.Find(depcache.KeyOf(aboutLimit, text), arrived); counted {
		a, err = s.ask(ctx, text, again)
	} else {
		a, err = s.join(ctx, question, text, arrived, again)
	}
	if err != nil {
		return nil, err
	}
	in := a.in
	return &in, ctx.Err()
}

// join waits for the answer to a question. Requests with the same token ask once, but no request is answered by a
// question that was older than the cache allows when the request arrived: the token may have been revoked in between.
func (s *Server) join(ctx context.Context, question depcache.Key, text string, arrived time.Time, again bool) (*serverAnswer, error) {
	s.mu.Lock()
	before := s.began
	for {
		f := s.flights[question]
		leads := f == nil
		if leads {
			f = s.begin(ctx, question, text)
		}
		s.mu.Unlock()
		select {
		case <-f.done:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		recent := f.number > before || s.cfg.cache > 0 && f.asked.After(arrived.Add(-s.cfg.cache))
		switch {
		case leads, f.err != nil:
			return f.answer, f.err
		case f.answer.limited: // one answer, one use
			return s.ask(ctx, text, again)
		case recent:
			counters().requests.WithLabelValues(s.host, "shared").Inc()
			return f.answer, nil
		}
		s.mu.Lock()
	}
}

// begin asks in a goroutine, so the first one to ask can leave. s.mu is held.
func (s *Server) begin(ctx context.Context, question depcache.Key, text string) *flight {
	s.began++
	f := &flight{number: s.began, asked: s.now(), done: make(chan struct{})}
	s.flights[question] = f
	go func() {
		f.answer, f.err = s.ask(ctx, text, false)
		if f.err == nil {
			s.keep(question, text, f)
		}
		s.mu.Lock()
		delete(s.flights, question)
		s.mu.Unlock()
		close(f.done)
	}()
	return f
}

// keep remembers an answer. What counts is when the question was asked, not when the answer came. An inactive token is
// not remembered, and neither is one whose uses are counted elsewhere.
func (s *Server) keep(question depcache.Key, text string, f *flight) {
	a := f.answer
	switch {
	case !a.in.Active:
		return
	case a.limited:
		s.limited.Keep(depcache.KeyOf(aboutLimit, text), struct{}{}, f.asked.Add(longestLimit), f.asked)
		return
	}
	until := f.asked.Add(s.cfg.cache)
	if end := a.in.ExpiresAt; !end.IsZero() && end.Before(until) {
		until = end
	}
	s.answers.Keep(question, a, until, f.asked)
}

// longestLimit is the time that the usage limit of a token is remembered.
const longestLimit = 24 * time.Hour

// ask puts a question to the server. It goes on when the request that caused it has ended: what the server would do
// with half a question is not known.
func (s *Server) ask(ctx context.Context, text string, again bool) (a *serverAnswer, err error) {
	start := s.now()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.cfg.timeout)
	defer cancel()
	defer func() {
		if v := recover(); v != nil {
			s.log.Error("panic", zap.Any("panic", v), zap.Stack("stack"))
			a, err = nil, failure("the answer cannot be read")
		}
		s.count(start, a, err)
	}()
	doc, err := s.exchange(ctx, text, again)
	if err != nil {
		return nil, err
	}
	a, err = s.read(doc)
	if err == nil && a.why != "" {
		s.log.Info("the authorization server calls a token active that is not accepted", zap.String("server", s.host),
			zap.String("reason", a.why))
	}
	return a, err
}

// failure is the error of a question without a valid answer. It holds neither the token nor the address.
func failure(format string, args ...any) error {
	return denial.New(denial.AuthorityUnavailable, "the authorization server elsewhere: "+fmt.Sprintf(format, args...))
}

// Probe asks about a token that no one has issued, to find out whether the server answers.
func (s *Server) Probe(ctx context.Context) error {
	text, err := secret.ID(s.random, 24)
	if err != nil {
		return err
	}
	a, err := s.ask(ctx, text, false)
	if err != nil {
		return err
	}
	if a.in.Active || a.why != "" {
		return failure("it calls a token active that no one has issued")
	}
	return nil
}
