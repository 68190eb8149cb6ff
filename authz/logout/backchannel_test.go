package logout_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/authz"
	"github.com/gatehouse-id/gatehouse/authz/authztest"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

func answer(p *authztest.Party, status int) {
	p.Mu.Lock()
	defer p.Mu.Unlock()
	p.Status = status
}

func TestBackchannelLogout(t *testing.T) {
	t.Parallel()
	p, q := authztest.NewParty(t), authztest.NewParty(t)
	pair := q.Hears("pair")
	pair.SubjectType, pair.IDTokenAlg = "pairwise", "ES256"
	h := authztest.New(t, authztest.WithClients(p.Hears("listener"), pair))
	b := h.Browser(authztest.Demo)
	hint := b.Tokens("listener").ID
	b.Tokens("listener") // twice in one session: one logout token
	pairSub := idClaimsAs(t, h, b.Tokens("pair").ID)["sub"]
	b.Tokens("shop") // does not want to hear
	elsewhere := h.Browser(authztest.Demo)
	elsewhere.Tokens("listener") // another session of the same person
	session := b.Session()
	if res := b.Get("/oauth/logout?id_token_hint=" + hint); res.Status != http.StatusOK {
		t.Fatalf("logout = %d %s", res.Status, res.Body)
	}
	authztest.SendLogouts(t, h)
	tokens := p.Taken()
	if len(tokens) != 1 {
		t.Fatalf("%d logout tokens came, want 1", len(tokens))
	}
	claims := authztest.LogoutToken(t, h, tokens[0])
	now := float64(h.Clock.Now().Unix())
	for name, want := range map[string]any{
		"iss": h.Issuer, "aud": "listener", "sub": authztest.Demo, "sid": session,
		"iat": now, "exp": now + 120,
	} {
		if claims[name] != want {
			t.Errorf("%s = %v, want %v", name, claims[name], want)
		}
	}
	if events, err := json.Marshal(claims["events"]); err != nil ||
		string(events) != `{"http://schemas.openid.net/event/backchannel-logout":{}}` {
		t.Errorf("events = %s, %v", events, err)
	}
	if claims["nonce"] != nil || claims["jti"] == nil {
		t.Errorf("claims %v, want jti and no nonce", claims)
	}
	if other := q.Taken(); len(other) != 1 || authztest.LogoutToken(t, h, other[0])["sub"] != pairSub {
		t.Errorf("%d logout tokens for the pairwise client, want one for %v", len(other), pairSub)
	}
	authztest.SendLogouts(t, h)
	if again := p.Taken(); len(again) != 0 {
		t.Errorf("%d logout tokens came again", len(again))
	}
	// A logout token is not accepted as another token.
	if res := h.Get("/oauth/userinfo", "Authorization", "Bearer "+tokens[0]); res.Status != http.StatusUnauthorized {
		t.Errorf("userinfo by a logout token = %d", res.Status)
	}
	h.Browser(authztest.Guest).SignIn(authztest.Guest).Code("shop", "prompt", "none", "id_token_hint", tokens[0]) // as a hint it names no one
	h.Invariants(t)
}

// idClaimsAs reads the claims of an ID token without checking its audience and algorithm.
func idClaimsAs(t *testing.T, h *authztest.Harness, raw string) map[string]any {
	t.Helper()
	payload, err := h.Keys.Verify(raw, "JWT")
	if err != nil {
		t.Fatal(err)
	}
	var claims map[string]any
	if err := json.Unmarshal(payload, &claims); err != nil {
		t.Fatal(err)
	}
	return claims
}

// TestBackchannelLogoutRetries holds that a party that is down is notified later, with a bounded number of tries.
func TestBackchannelLogoutRetries(t *testing.T) {
	t.Parallel()
	p, well := authztest.NewParty(t), authztest.NewParty(t)
	h := authztest.New(t, authztest.WithClients(p.Hears("listener"), well.Hears("well")))
	out := func() {
		b := h.Browser(authztest.Demo)
		b.Tokens("listener")
		b.Tokens("well")
		if err := h.Store.Update(t.Context(),
			func(tx storage.Tx) error { return h.Server().SessionEnded(tx, authztest.Demo, b.Session()) }); err != nil {
			t.Fatal(err)
		}
	}
	answer(p, http.StatusServiceUnavailable)
	out()
	authztest.SendLogouts(t, h)
	if n, m := len(p.Taken()), len(well.Taken()); n != 1 || m != 1 {
		t.Fatalf("%d and %d tokens, want one each", n, m)
	}
	authztest.SendLogouts(t, h)
	h.Restart(nil) // it is on disk
	authztest.SendLogouts(t, h)
	if n := len(p.Taken()); n != 0 {
		t.Errorf("%d tries before it is time", n)
	}
	h.Clock.Advance(10 * time.Second)
	authztest.SendLogouts(t, h)
	h.Clock.Advance(10 * time.Second) // the wait grows
	authztest.SendLogouts(t, h)
	if n := len(p.Taken()); n != 1 {
		t.Errorf("%d tries, want 1", n)
	}
	answer(p, http.StatusNoContent)
	h.Clock.Advance(10 * time.Second)
	authztest.SendLogouts(t, h)
	h.Clock.Advance(24 * time.Hour)
	authztest.SendLogouts(t, h)
	if n := len(p.Taken()); n != 1 {
		t.Errorf("%d tries, want 1 and then none, since it was taken", n)
	}
	answer(p, http.StatusBadRequest)
	out()
	for range 100 {
		authztest.SendLogouts(t, h)
		h.Clock.Advance(time.Hour)
	}
	if n := len(p.Taken()); n != 16 {
		t.Errorf("%d tries, want 16 and no more", n)
	}
	if n := len(well.Taken()); n != 1 {
		t.Errorf("the party that is well got %d tokens, want 1", n)
	}
	h.Invariants(t)
}

// TestBackchannelLogoutNeverDelays holds that a person who signs out waits for no party.
func TestBackchannelLogoutNeverDelays(t *testing.T) {
	t.Parallel()
	p := authztest.NewParty(t)
	p.Held = make(chan struct{})
	h := authztest.New(t, authztest.WithClients(p.Hears("listener")))
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- h.Server().Run(ctx) }()
	b := h.Browser(authztest.Demo)
	hint := b.Tokens("listener").ID
	if res := b.Get("/oauth/logout?id_token_hint=" + hint); res.Status != http.StatusOK || b.Session() != "" {
		t.Errorf("logout = %d, want it at once", res.Status)
	}
	close(p.Held)
	deadline := time.After(2 * time.Minute)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for got := 0; got == 0; {
		select {
		case <-tick.C:
			got = len(p.Taken())
		case <-deadline:
			t.Fatal("no logout token came")
		}
	}
	stop()
	if err := <-done; err != nil {
		t.Errorf("Run = %v", err)
	}
	h.Invariants(t)
}

// TestBackchannelLogoutLate holds that a client that redeems its code after the end of the session opens no session of
// its own, which no one would tell of the end.
func TestBackchannelLogoutLate(t *testing.T) {
	t.Parallel()
	p := authztest.NewParty(t)
	h := authztest.New(t, authztest.WithClients(p.Hears("listener")))
	b := h.Browser(authztest.Demo)
	code := b.Code("listener")
	h.People.EndSession(b.Session())
	authztest.WantError(t, "Token", h.Redeem("listener", code), http.StatusBadRequest, "invalid_grant")
	h.Clock.Advance(10 * time.Second)
	authztest.SendLogouts(t, h)
	if n := len(p.Taken()); n != 0 {
		t.Errorf("%d logout tokens, want none", n)
	}
	h.Invariants(t)
}

// TestSessionsEnded holds that clients are notified of all sessions of a person except the one that goes on.
func TestSessionsEnded(t *testing.T) {
	t.Parallel()
	p := authztest.NewParty(t)
	h := authztest.New(t, authztest.WithClients(p.Hears("listener")))
	var all []*authztest.Browser
	for range 3 {
		b := h.Browser(authztest.Demo)
		b.Tokens("listener")
		all = append(all, b)
	}
	h.Tokens("listener", authztest.Guest)
	if err := h.Store.Update(t.Context(),
		func(tx storage.Tx) error { return h.Server().SessionsEnded(tx, authztest.Demo, all[1].Session()) }); err != nil {
		t.Fatal(err)
	}
	authztest.SendLogouts(t, h)
	ended := map[any]bool{}
	for _, raw := range p.Taken() {
		ended[authztest.LogoutToken(t, h, raw)["sid"]] = true
	}
	if len(ended) != 2 || ended[all[1].Session()] {
		t.Errorf("sessions %v were told of, want the first and the third", ended)
	}
	h.Invariants(t)
}

// TestBackchannelLogoutAddress holds that a client that was added by command cannot make us call addresses that are not
// public, unless the operator has opened their network.
func TestBackchannelLogoutAddress(t *testing.T) {
	t.Parallel()
	told := func(t *testing.T, allow ...netip.Prefix) (int, string) {
		t.Helper()
		p := authztest.NewParty(t)
		h := authztest.New(t, authztest.WithConfig(func(c *authz.Config) { c.OutboundAllow = allow }))
		c := p.Hears("added")
		c.Secrets = []secret.String{secret.New(authztest.Secret("added"))}
		if _, err := h.Server().Clients().Add(t.Context(), *c, authztest.Admin); err != nil {
			t.Fatal(err)
		}
		h.Config.Clients = append(h.Config.Clients, c) // for the harness alone
		b := h.Browser(authztest.Demo)
		b.Tokens("added")
		if err := h.Store.Update(t.Context(),
			func(tx storage.Tx) error { return h.Server().SessionEnded(tx, authztest.Demo, b.Session()) }); err != nil {
			t.Fatal(err)
		}
		authztest.SendLogouts(t, h)
		return len(p.Taken()), h.Log()
	}
	t.Run("attack 264: a client's address in our own network", func(t *testing.T) {
		t.Parallel()
		n, log := told(t, netip.MustParsePrefix("10.0.0.0/8"))
		if n != 0 {
			t.Errorf("%d logout tokens were sent to a loopback address", n)
		}
		if !strings.Contains(log, "the address is not a public one") {
			t.Error("the log does not say why")
		}
	})
	t.Run("a network that is opened", func(t *testing.T) {
		t.Parallel()
		if n, _ := told(t, netip.MustParsePrefix("127.0.0.0/8")); n != 1 {
			t.Errorf("%d logout tokens were sent to a network that the operator has opened, want 1", n)
		}
	})
}

// TestFrontchannelLogout holds that the page after a sign-out loads the clients' pages in frames and then continues.
func TestFrontchannelLogout(t *testing.T) {
	t.Parallel()
	front := authztest.PairwiseClient("front", "front.example.com")
	front.SubjectType, front.FrontchannelLogoutURI = "", "https://front.example.com/out?a=b"
	h := authztest.New(t, authztest.WithClients(front))
	b := h.Browser(authztest.Demo)
	hint := b.Tokens("front").ID
	session := b.Session()
	target := "/oauth/logout?" + url.Values{
		"id_token_hint": {hint}, "post_logout_redirect_uri": {"https://front.example.com/"},
		"state": {"s"},
	}.Encode()
	res := b.Get(target)
	frame := "https://front.example.com/out?a=b&amp;" +
		strings.ReplaceAll(url.Values{"iss": {h.Issuer}, "sid": {session}}.Encode(), "&", "&amp;")
	if res.Status != http.StatusOK || !strings.Contains(res.Body, `<iframe src="`+frame+`"`) {
		t.Errorf("logout = %d %s, want a frame of %s", res.Status, res.Body, frame)
	}
	if policy := res.Header.Get("Content-Security-Policy"); !strings.Contains(policy, "; frame-src https://front.example.com;") &&
		!strings.Contains(policy, " frame-src https://front.example.com;") {
		t.Errorf("policy %q, want the client's origin in frame-src", policy)
	}
	if got := res.Header.Get("Refresh"); got != "3; url=https://front.example.com/?state=s" {
		t.Errorf("Refresh = %q, want the way on", got)
	}
	if b.Session() != "" {
		t.Error("the session goes on")
	}
	if res := b.Get(target); res.Status != http.StatusFound { // signed out: no frames
		t.Errorf("second logout = %d, want a redirect", res.Status)
	}
	h.Invariants(t)
}

func TestLogoutURIsValidate(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ back, front, want string }{
		{"https://else.example.com/x", "https://p.example.com/y", ""},
		{"http://localhost:9/x", "", ""},
		{"http://else.example.com/x", "", "must be https"},
		{"com.example.app:/x", "", "must be https"},
		{"https://else.example.com/x#f", "", "fragment"},
		{"/x", "", "absolute"},
		{"", "https://else.example.com/y", "does not have the scheme, host and port"},
		{"", "https://p.example.com:8443/y", "does not have the scheme, host and port"},
	} {
		client := authztest.PairwiseClient("p", "p.example.com")
		client.BackchannelLogoutURI, client.FrontchannelLogoutURI = c.back, c.front
		err := client.Validate()
		if (err == nil) != (c.want == "") || (err != nil && !strings.Contains(err.Error(), c.want)) {
			t.Errorf("Validate(%q, %q) = %v, want %q", c.back, c.front, err, c.want)
		}
	}
}
