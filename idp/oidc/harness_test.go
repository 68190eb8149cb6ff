package oidc_test

import (
	"context"
	"crypto"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/gatehouse-id/gatehouse/idp"
	"github.com/gatehouse-id/gatehouse/idp/oidc"
	"github.com/gatehouse-id/gatehouse/idp/oidc/oidctest"
	"github.com/gatehouse-id/gatehouse/internal/clocktest"
	"github.com/gatehouse-id/gatehouse/internal/secret"
)

const (
	issuer   = "https://auth.example.com"
	flowName = "a-flow-that-nobody-guesses-0123456789"
)

func newClock() *clocktest.Clock { return clocktest.New(time.Now().Truncate(time.Second)) }

// lab is one of our providers, connected to a scripted OpenID provider.
type lab struct {
	*oidc.Provider

	t     *testing.T
	op    *oidctest.OP
	clock *clocktest.Clock
	log   *observer.ObservedLogs
	key   crypto.Signer // our key pair, under any name
	used  map[string]time.Time
	mu    sync.Mutex // guards used

	now, most atomic.Int64 // requests to the provider that run now, and the maximum
}

func open(t *testing.T, change ...func(*oidc.Config)) *lab {
	t.Helper()
	return openAs(t, "corp", oidctest.New(t), change...)
}

func openAs(t *testing.T, id string, op *oidctest.OP, change ...func(*oidc.Config)) *lab {
	t.Helper()
	l := &lab{t: t, op: op, clock: newClock(), key: oidctest.NewKeys(t, "ours").RSA, used: map[string]time.Time{}}
	op.Now = l.clock.Now
	cfg := oidc.Config{
		Issuer: op.URL, ClientID: oidctest.ClientID, ClientSecret: secret.New(oidctest.ClientSecret), Scopes: []string{"profile", "email"},
		Mapping: idp.Mapping{Attributes: []idp.Attribute{
			{From: "name", To: "fullName"},
			{From: "groups", To: "groups"},
			{From: "address.locality", To: "city"},
		}},
	}
	for _, f := range change {
		f(&cfg)
	}
	core, logs := observer.New(zap.DebugLevel)
	l.log = logs
	var err error
	l.Provider, err = oidc.New(cfg, l.env(id, zap.New(core)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return l
}

var transport = &http.Transport{DisableCompression: true}

func (l *lab) env(id string, log *zap.Logger) idp.Env {
	refuse := &http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
		return nil, errors.New("the address is not a public one")
	})}
	return idp.Env{
		ID: id, Issuer: issuer, Now: l.clock.Now, Random: rand.Reader, Log: log,
		Client: &http.Client{Timeout: 5 * time.Second, Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
			n := l.now.Add(1)
			defer l.now.Add(-1)
			for old := l.most.Load(); n > old && !l.most.CompareAndSwap(old, n); old = l.most.Load() {
			}
			return transport.RoundTrip(r)
		})}, Checked: refuse,
		Once: func(_ context.Context, key string, until time.Time) error {
			l.mu.Lock()
			defer l.mu.Unlock()
			if l.used[key].After(l.clock.Now()) {
				return idp.ErrReplayed
			}
			l.used[key] = until
			return nil
		},
		KeyPair: func(_ context.Context, name string) (*idp.Key, error) {
			if name == "missing" {
				return nil, errors.New("there is no such key pair")
			}
			return &idp.Key{Name: name, Signer: l.key}, nil
		},
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// begin starts a sign-in.
func (l *lab) begin(q idp.Request) *idp.Next {
	l.t.Helper()
	if q.Flow == "" {
		q.Flow = flowName
	}
	next, err := l.Begin(l.t.Context(), q)
	if err != nil {
		l.t.Fatalf("Begin = %v", err)
	}
	return next
}

// visit takes a browser through the provider, and returns the request with which it returns.
func (l *lab) visit(next *idp.Next) *http.Request {
	l.t.Helper()
	return httptest.NewRequest(http.MethodGet, l.walk(next), nil)
}

func (l *lab) walk(next *idp.Next) string {
	l.t.Helper()
	client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	res, err := client.Get(next.URL)
	if err != nil {
		l.t.Fatal(err)
	}
	defer res.Body.Close()
	back := res.Header.Get("Location")
	if !strings.HasPrefix(back, issuer+"/oidc/") {
		l.t.Fatalf("the provider answers %s, Location %q", res.Status, back)
	}
	return back
}

// signIn signs in as the provider's script says. maxAge is negative if q does not set it.
func (l *lab) signIn(q idp.Request) (*idp.Identity, error) {
	l.t.Helper()
	next := l.begin(q)
	r := l.visit(next)
	if flow, err := l.FlowOf(r); err != nil || flow != flowName {
		l.t.Fatalf("FlowOf = %q, %v, want %q", flow, err, flowName)
	}
	return l.Finish(l.t.Context(), next.State, r)
}

// whenever is a request that any sign-in satisfies.
var whenever = idp.Request{MaxAge: -1}

func isInvalid(err error) bool { return errors.As(err, new(*idp.Invalid)) }

func isRejection(err error) bool { return errors.As(err, new(*idp.Rejection)) }

// kind classifies an error.
func kind(err error) string {
	switch {
	case err == nil:
		return "none"
	case isInvalid(err):
		return "invalid"
	case isRejection(err):
		return "rejection"
	}
	return "unknown"
}

func edit(address string, change func(url.Values)) *http.Request {
	u, err := url.Parse(address)
	if err != nil {
		panic(err)
	}
	v := u.Query()
	if change != nil {
		change(v)
	}
	u.RawQuery = v.Encode()
	return httptest.NewRequest(http.MethodGet, u.String(), nil)
}

// forge makes an unsigned compact token of a header and claims, with the given text as signature.
func forge(header, claims, signature string) string {
	e := base64.RawURLEncoding.EncodeToString
	return e([]byte(header)) + "." + e([]byte(claims)) + "." + e([]byte(signature))
}
