package oidc_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/google/go-cmp/cmp"

	"github.com/gatehouse-id/gatehouse/idp"
	"github.com/gatehouse-id/gatehouse/idp/oidc"
	"github.com/gatehouse-id/gatehouse/idp/oidc/oidctest"
)

// host is the identity service.
type host struct {
	mu    sync.Mutex // guards all below
	ended []idp.EndQuery
	flows map[string]string
	sent  string
	err   error
}

func (h *host) EndSessions(_ context.Context, q idp.EndQuery, _ *http.Request) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.err != nil {
		return 0, h.err
	}
	h.ended = append(h.ended, q)
	return 1, nil
}

func (h *host) Ended(_ http.ResponseWriter, _ *http.Request, flow string) ([]byte, string, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	ret, ok := h.flows[flow]
	if !ok {
		return nil, "", idp.ErrNoFlow
	}
	delete(h.flows, flow)
	return nil, ret, nil
}

func (h *host) Home() string { return "/home" }

func (h *host) Go(_ http.ResponseWriter, _ *http.Request, n *idp.Next) { h.sent = n.URL }

func (h *host) Fail(w http.ResponseWriter, _ *http.Request, err error) {
	if isInvalid(err) {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	w.WriteHeader(http.StatusServiceUnavailable)
}

func (l *lab) backChannel(t *testing.T, token string, h *host) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequest(http.MethodPost, "/oidc/corp/backchannel-logout", strings.NewReader(url.Values{"logout_token": {token}}.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	w := httptest.NewRecorder()
	if !l.Handle(w, r, "backchannel-logout", h) {
		t.Error("backchannel-logout is not served")
	}
	return w
}

func TestBackChannelLogout(t *testing.T) {
	t.Parallel()
	l := open(t)
	for _, tc := range []struct {
		name   string
		change map[string]any
		want   idp.EndQuery
	}{
		{"sub and sid", nil, idp.EndQuery{Issuer: l.op.URL, Subject: "alice", Sessions: []string{"sid-alice"}}},
		{"sub", map[string]any{"sid": nil}, idp.EndQuery{Issuer: l.op.URL, Subject: "alice"}},
		{"sid", map[string]any{"sub": nil}, idp.EndQuery{Issuer: l.op.URL, Sessions: []string{"sid-alice"}}},
	} {
		h := new(host)
		w := l.backChannel(t, l.op.LogoutToken(tc.change), h)
		if w.Code != http.StatusOK || w.Header().Get("Cache-Control") != "no-store" || w.Body.Len() != 0 {
			t.Errorf("%s: status %d %v %q", tc.name, w.Code, w.Header(), w.Body)
		}
		if diff := cmp.Diff([]idp.EndQuery{tc.want}, h.ended); diff != "" {
			t.Errorf("%s: ended (-want +got):\n%s", tc.name, diff)
		}
	}
}

func TestBackChannelLogoutRefused(t *testing.T) {
	t.Parallel()
	l := open(t)
	now := l.clock.Now().Unix()
	keys := oidctest.NewKeys(t, "op")
	event := func(v any) map[string]any {
		return map[string]any{"events": map[string]any{"http://schemas.openid.net/event/backchannel-logout": v}}
	}
	twice := l.op.LogoutToken(nil)
	if w := l.backChannel(t, twice, new(host)); w.Code != http.StatusOK {
		t.Fatalf("control: %d %s", w.Code, w.Body)
	}
	tokens := map[string]string{
		"replayed": twice, "empty": "", "garbage": "a.b.c", "unsigned": forge(`{"alg":"none"}`, `{}`, ""),
		"signed by a stranger": oidctest.NewKeys(t, "other").Sign(t, l.op.LogoutClaims(now, nil)),
		"an access token": oidctest.Sign(t, jose.RS256, keys.RSA, map[jose.HeaderKey]any{"kid": keys.ID, "typ": "at+jwt"},
			l.op.LogoutClaims(now, nil)),
		"an ID token": keys.Sign(t,
			map[string]any{"iss": l.op.URL, "aud": oidctest.ClientID, "sub": "alice", "iat": now, "exp": now + 300, "nonce": "n"}),
	}
	for name, change := range map[string]map[string]any{
		"other iss": {"iss": "https://evil.example"}, "no iss": {"iss": nil}, "other aud": {"aud": "other"},
		"several auds": {"aud": []string{oidctest.ClientID, "other"}},
		"no iat":       {"iat": nil}, "future iat": {"iat": now + 61}, "no exp": {"exp": nil}, "expired": {"exp": now - 1},
		"exp in a year": {"exp": now + 31_536_000},
		"no jti":        {"jti": nil}, "jti of another type": {"jti": 7}, "no sub and no sid": {"sub": nil, "sid": nil},
		"no events":     {"events": nil},
		"another event": {"events": map[string]any{"x": map[string]any{}}}, "event that is no object": event("x"),
		"event that is null": event(nil),
		"nonce":              {"nonce": "n"}, "nonce that is null": {"nonce": json.RawMessage("null")}, "sid with a line end": {"sid": "a\nb"},
	} {
		tokens[name] = l.op.LogoutToken(change)
	}
	for name, token := range tokens {
		h := new(host)
		if w := l.backChannel(t, token, h); w.Code != http.StatusBadRequest || len(h.ended) != 0 ||
			!strings.Contains(w.Body.String(), `"invalid_request"`) {
			t.Errorf("%s: status %d %s, ended %v, want 400 and nothing", name, w.Code, w.Body, h.ended)
		}
	}
	for name, r := range map[string]*http.Request{
		"GET":          httptest.NewRequest(http.MethodGet, "/?logout_token="+url.QueryEscape(l.op.LogoutToken(nil)), nil),
		"in the query": httptest.NewRequest(http.MethodPost, "/?logout_token="+url.QueryEscape(l.op.LogoutToken(nil)), nil),
	} {
		h, w := new(host), httptest.NewRecorder()
		l.Handle(w, r, "backchannel-logout", h)
		if w.Code/100 != 4 || len(h.ended) != 0 {
			t.Errorf("%s: status %d, ended %v", name, w.Code, h.ended)
		}
	}
	if w := l.backChannel(t, l.op.LogoutToken(nil), &host{err: errors.New("storage is down")}); w.Code != http.StatusServiceUnavailable ||
		w.Header().Get("Retry-After") == "" {
		t.Errorf("storage down: status %d, want 503 with Retry-After", w.Code)
	}
}

// TestBackChannelReplayRace presents one logout token twenty times at once.
func TestBackChannelReplayRace(t *testing.T) {
	t.Parallel()
	l := open(t)
	token, h := l.op.LogoutToken(nil), new(host)
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() { l.backChannel(t, token, h) })
	}
	wg.Wait()
	if len(h.ended) != 1 {
		t.Errorf("one token ended sessions %d times, want once", len(h.ended))
	}
}

func TestFrontChannelLogout(t *testing.T) {
	t.Parallel()
	l := open(t)
	if l.Handle(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil), "frontchannel-logout", new(host)) {
		t.Error("frontchannel-logout is served although it is not switched on")
	}
	l = open(t, func(c *oidc.Config) { c.FrontChannelLogout = true })
	for _, tc := range []struct {
		name, method, query string
		status, ended       int
	}{
		{"good", http.MethodGet, url.Values{"iss": {l.op.URL}, "sid": {"sid-alice"}}.Encode(), 200, 1},
		{"no sid", http.MethodGet, url.Values{"iss": {l.op.URL}}.Encode(), 400, 0},
		{"no iss", http.MethodGet, url.Values{"sid": {"sid-alice"}}.Encode(), 400, 0},
		{"nothing", http.MethodGet, "", 400, 0},
		{"other iss", http.MethodGet, url.Values{"iss": {"https://evil.example"}, "sid": {"sid-alice"}}.Encode(), 400, 0},
		{"sid twice", http.MethodGet, url.Values{"iss": {l.op.URL}, "sid": {"a", "b"}}.Encode(), 400, 0},
		{"POST", http.MethodPost, url.Values{"iss": {l.op.URL}, "sid": {"sid-alice"}}.Encode(), 405, 0},
	} {
		h, w := new(host), httptest.NewRecorder()
		w.Header().Set("X-Frame-Options", "DENY")
		l.Handle(w, httptest.NewRequest(tc.method, "/oidc/corp/frontchannel-logout?"+tc.query, nil), "frontchannel-logout", h)
		if w.Code != tc.status || len(h.ended) != tc.ended {
			t.Errorf("%s: status %d, ended %v, want %d and %d", tc.name, w.Code, h.ended, tc.status, tc.ended)
		}
		if tc.ended > 0 {
			want := []idp.EndQuery{{Issuer: l.op.URL, Sessions: []string{"sid-alice"}}}
			if diff := cmp.Diff(want, h.ended); diff != "" {
				t.Errorf("%s: ended (-want +got):\n%s", tc.name, diff)
			}
			if csp := w.Header().Get("Content-Security-Policy"); !strings.HasSuffix(csp, "frame-ancestors "+l.op.URL) ||
				w.Header().Get("X-Frame-Options") != "" {
				t.Errorf("headers = %v: the provider's page must be able to frame it, and no other", w.Header())
			}
		}
	}
}

// TestSignOutThere sends the browser to the provider and back.
func TestSignOutThere(t *testing.T) {
	t.Parallel()
	l := open(t)
	id, err := l.signIn(whenever)
	if err != nil {
		t.Fatal(err)
	}
	next, err := l.End(t.Context(), idp.EndRequest{Flow: flowName, Held: id.Held, Locales: []string{"nl"}})
	if err != nil || next == nil {
		t.Fatalf("End = %v, %v", next, err)
	}
	u, err := url.Parse(next.URL)
	if err != nil {
		t.Fatal(err)
	}
	q := u.Query()
	if q.Get("client_id") != oidctest.ClientID || q.Get("post_logout_redirect_uri") != issuer+"/oidc/corp/signed-out" ||
		strings.Count(q.Get("id_token_hint"), ".") != 2 || q.Get("ui_locales") != "nl" {
		t.Errorf("End sends to %v", q)
	}
	h := &host{flows: map[string]string{flowName: "https://shop.example/bye"}}
	back := func() string {
		h.sent = ""
		l.Handle(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, l.walk(next), nil), "signed-out", h)
		return h.sent
	}
	if got := back(); got != "https://shop.example/bye" {
		t.Errorf("the browser continues to %q", got)
	}
	if got := back(); got != "/home" {
		t.Errorf("the same again leads to %q, want our own page", got)
	}
	w := httptest.NewRecorder()
	l.Handle(w, httptest.NewRequest(http.MethodGet, "/?state=a&state=b", nil), "signed-out", h)
	if w.Code != http.StatusBadRequest {
		t.Errorf("state twice: status %d", w.Code)
	}
	if l.Handle(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil), "jwks", h) {
		t.Error("jwks are served although the provider needs none")
	}
	if _, err := open(t).End(t.Context(), idp.EndRequest{Flow: flowName, Held: []byte("{")}); err != nil {
		t.Errorf("End with nothing kept: %v", err)
	}
}

// TestSignOutWhileDown: a sign-out waits no longer than a sign-in.
func TestSignOutWhileDown(t *testing.T) {
	t.Parallel()
	l := open(t, func(c *oidc.Config) { c.Timeout = 50 * time.Millisecond })
	l.op.Change(func(s *oidctest.Script) {
		s.Handlers = map[string]http.HandlerFunc{"/.well-known/openid-configuration": func(_ http.ResponseWriter,
			r *http.Request,
		) {
			<-r.Context().Done()
		}}
	})
	kept := fmt.Sprintf(`{"iss":%q,"client":%q}`, l.op.URL, oidctest.ClientID)
	if next, err := l.End(t.Context(), idp.EndRequest{Flow: flowName, Held: []byte(kept)}); err == nil {
		t.Errorf("End = %v, want an error", next)
	}
}
