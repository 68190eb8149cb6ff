package grant_test

import (
	"errors"
	"net/http"
	"net/url"
	"slices"
	"testing"
	"time"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"

	"github.com/gatehouse-id/gatehouse/authz"
	"github.com/gatehouse-id/gatehouse/authz/authztest"
	"github.com/gatehouse-id/gatehouse/authz/client"
	"github.com/gatehouse-id/gatehouse/authz/clientstore"
	"github.com/gatehouse-id/gatehouse/internal/secret"
)

// The members of the documented answer, for each grant.
func TestToken(t *testing.T) {
	t.Parallel()
	h := authztest.New(t)
	code := h.Redeem("shop", h.Browser(authztest.Demo).Code("shop"))
	plain := h.Redeem("two", h.Browser(authztest.Demo).Code("two", "scope", "profile"))
	for _, tc := range []struct {
		name string
		res  *authztest.Response
		want []string
	}{
		{"code", code, []string{"access_token", "expires_in", "id_token", "profile_id", "refresh_token", "scope", "token_type"}},
		{"code without openid and refresh", plain, []string{"access_token", "expires_in", "profile_id", "scope", "token_type"}},
		{
			"refresh", h.Refresh("shop", code.Text("refresh_token")),
			[]string{"access_token", "expires_in", "id_token", "profile_id", "refresh_token", "scope", "token_type"},
		},
		{"client_credentials", authztest.OwnToken(h), []string{"access_token", "expires_in", "scope", "token_type"}},
	} {
		authztest.WantStatus(t, tc.name, tc.res, http.StatusOK)
		authztest.WantAPIHeaders(t, tc.name, tc.res)
		var got []string
		for member := range tc.res.JSON() {
			got = append(got, member)
		}
		slices.Sort(got)
		if !slices.Equal(got, tc.want) {
			t.Errorf("%s: members = %v, want %v", tc.name, got, tc.want)
		}
		if tc.res.Text("token_type") != "bearer" || tc.res.JSON()["expires_in"] != 900.0 {
			t.Errorf("%s = %s, want bearer for 900 seconds", tc.name, tc.res.Body)
		}
	}
	if code.Text("profile_id") != "static" {
		t.Errorf("profile_id = %q, want static", code.Text("profile_id"))
	}
	authztest.WantEvent(t, h, authztest.Demo, "token.AccessTokenIssuedEvent", 2)
	authztest.WantEvent(t, h, authztest.Demo, "token.AccessTokenRefreshedEvent", 1)
	h.Invariants(t)
}

func TestScopes(t *testing.T) {
	t.Parallel()
	h := authztest.New(t, authztest.WithConfig(func(c *authz.Config) {
		authztest.ChangeClient(c, "poster", func(c *client.Client) { c.DefaultScopes = nil })
	}))
	for _, tc := range []struct{ name, scope, want string }{
		{"none: the defaults", "", "reports.read"},
		{"one", "orders.read", "orders.read"},
		{"two", "reports.read orders.read", "reports.read orders.read"},
		{"spaces", " reports.read  orders.read ", "reports.read orders.read"},
	} {
		if res := authztest.OwnToken(h, "scope", tc.scope); res.Text("scope") != tc.want {
			t.Errorf("%s: scope = %d %s, want %q", tc.name, res.Status, res.Body, tc.want)
		}
	}
	res := h.Post("/oauth/token",
		url.Values{"grant_type": {"client_credentials"}, "client_id": {"poster"}, "client_secret": {authztest.Secret("poster")}})
	authztest.WantError(t, "none and no defaults", res, 400, "invalid_scope")
	if got := h.Tokens("shop", authztest.Demo, "scope",
		"openid offline_access"); authztest.ScopesOf(h.Introspect(got.Access)) != "offline_access openid" {
		t.Error("offline_access is not granted")
	}
	authztest.WantError(t, "offline_access of a client that cannot refresh", authztest.OwnToken(h, "scope", "offline_access"), 400,
		"invalid_scope")
	h.Invariants(t)
}

// golang.org/x/oauth2 is the library of Go clients.
func TestOAuth2Package(t *testing.T) {
	t.Parallel()
	h := authztest.New(t)
	ep := oauth2.Endpoint{AuthURL: h.Issuer + "/oauth/authorize", TokenURL: h.Issuer + "/oauth/token"}
	for client, style := range map[string]oauth2.AuthStyle{
		"shop": oauth2.AuthStyleInHeader, "poster": oauth2.AuthStyleInParams,
		"spa": oauth2.AuthStyleAutoDetect,
	} {
		c := &oauth2.Config{ClientID: client, ClientSecret: authztest.Secret(client), Endpoint: ep, Scopes: []string{"openid", "profile"}}
		c.Endpoint.AuthStyle = style
		for _, known := range h.Config.Clients {
			if known.ID == client {
				c.RedirectURL = known.RedirectURIs[0]
				if known.Public {
					c.ClientSecret = ""
				}
			}
		}
		verifier := oauth2.GenerateVerifier()
		res := h.Browser(authztest.Demo).Follow(c.AuthCodeURL("state", oauth2.S256ChallengeOption(verifier)))
		_, params := res.Redirect()
		tok, err := c.Exchange(t.Context(), params.Get("code"), oauth2.VerifierOption(verifier))
		if err != nil {
			t.Errorf("%s: Exchange: %v", client, err)
			continue
		}
		authztest.WantActive(t, h, client, tok.AccessToken, true)
		tok.Expiry = time.Unix(1, 0)
		next, err := c.TokenSource(t.Context(), tok).Token()
		if err != nil || next.AccessToken == tok.AccessToken || next.RefreshToken == tok.RefreshToken {
			t.Errorf("%s: refresh: %v", client, err)
		}
	}
	cc := &clientcredentials.Config{ClientID: "reports", ClientSecret: authztest.Secret("reports"), TokenURL: ep.TokenURL}
	tok, err := cc.Token(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	authztest.WantActive(t, h, "client credentials", tok.AccessToken, true)
	h.Invariants(t)
}

func TestMaxSessions(t *testing.T) {
	t.Parallel()
	h := authztest.New(t, authztest.WithConfig(func(c *authz.Config) {
		authztest.ChangeClient(c, "shop", func(c *client.Client) { c.MaxSessions = 3 })
	}))
	b := h.Browser(authztest.Demo)
	other := b.Tokens("spa")
	var got []authztest.Tokens
	for range 5 {
		got = append(got, b.Tokens("shop"))
		h.Clock.Advance(time.Second)
	}
	for i, tokens := range got {
		authztest.WantActive(t, h, "access token", tokens.Access, i >= 2)
		authztest.WantActive(t, h, "refresh token", tokens.Refresh, i >= 2)
	}
	authztest.WantActive(t, h, "another client's", other.Access, true)
	authztest.WantStatus(t, "revoke", h.Revoke("shop", got[3].Refresh), 200)
	b.Tokens("shop")
	authztest.WantActive(t, h, "the oldest, after another was revoked", got[2].Access, true)
	h.Invariants(t)
}

// TestRenewalsLeaveThePhoneSignedIn: an application that signs in again and again in one browser without a page, as
// many do instead of using their refresh token, does not push out the tokens of the same person's phone.
func TestRenewalsLeaveThePhoneSignedIn(t *testing.T) {
	t.Parallel()
	h := authztest.New(t)
	phone, office, laptop := h.Browser(authztest.Demo), h.Browser(authztest.Demo), h.Browser(authztest.Demo)
	kept := map[string]authztest.Tokens{"phone": phone.Tokens("spa"), "office": office.Tokens("spa")}
	renewed := []authztest.Tokens{laptop.Tokens("spa")}
	for range 29 {
		h.Clock.Advance(10 * time.Minute)
		renewed = append(renewed, laptop.Tokens("spa", "prompt", "none"))
	}
	for name, tokens := range kept {
		authztest.WantStatus(t, "refresh token of the "+name, h.Refresh("spa", tokens.Refresh), http.StatusOK)
	}
	authztest.WantActive(t, h, "the oldest renewal", renewed[0].Refresh, false)
	authztest.WantActive(t, h, "the newest renewal", renewed[29].Refresh, true)
	// A new device takes the place of one of the many renewals, not of a device that signed in long ago.
	tablet := h.Browser(authztest.Demo).Tokens("spa")
	authztest.WantActive(t, h, "the tablet", tablet.Refresh, true)
	h.Invariants(t)
}

func TestImportedHashes(t *testing.T) {
	t.Parallel()
	const text = "an imported secret of the old house"
	hasher := secret.NewHasher(secret.HashCost{MemoryKiB: 64, Iterations: 1, Concurrency: 1})
	phc, err := hasher.Hash(t.Context(), text)
	if err != nil {
		t.Fatal(err)
	}
	h := authztest.New(t, authztest.WithClients(&client.Client{
		ID: "imported", SecretHashes: []string{phc}, Grants: []string{"client_credentials"}, Scopes: []string{"a"}, DefaultScopes: []string{"a"},
	}))
	f := url.Values{"grant_type": {"client_credentials"}}
	before := h.Hashes()
	for range 5 {
		authztest.WantStatus(t, "right", h.Post("/oauth/token", f, authztest.Basic("imported", text)...), 200)
	}
	if n := h.Hashes() - before; n != 1 {
		t.Errorf("%d slow hashes for 5 right secrets, want 1", n)
	}
	authztest.WantError(t, "wrong", h.Post("/oauth/token", f, authztest.Basic("imported", text+"x")...), 401, "invalid_client")
	h.Invariants(t)
}

func TestAdmin(t *testing.T) {
	t.Parallel()
	h := authztest.New(t)
	ctx, s := t.Context(), h.Server()
	text, err := s.Clients().Add(ctx,
		client.Client{ID: "stored", Grants: []string{"client_credentials"}, Scopes: []string{"a", "b"}, DefaultScopes: []string{"a"}},
		authztest.Admin)
	if err != nil || len(text) < 32 {
		t.Fatalf("AddClient = %q, %v, want a secret", text, err)
	}
	f := url.Values{"grant_type": {"client_credentials"}}
	basic := authztest.Basic("stored", text)
	token := h.Post("/oauth/token", f, basic...)
	authztest.WantStatus(t, "stored", token, 200)
	authztest.WantActive(t, h, "stored", token.Text("access_token"), true)
	for _, id := range []string{"stored", "shop"} {
		c := client.Client{ID: id, Grants: []string{"client_credentials"}}
		if _, err := s.Clients().Add(ctx, c, authztest.Admin); !errors.Is(err, clientstore.ErrExists) {
			t.Errorf("AddClient(%q) = %v, want ErrClientExists", id, err)
		}
	}
	if _, err := s.Clients().Add(ctx, client.Client{ID: "bad"}, authztest.Admin); err == nil {
		t.Error("AddClient without grants = nil, want an error")
	}
	list, err := s.Clients().List(ctx)
	if err != nil || len(list) != len(h.Config.Clients)+1 {
		t.Fatalf("ListClients = %d, %v", len(list), err)
	}
	for _, c := range list {
		if len(c.Secrets)+len(c.SecretHashes) > 0 || c.Stored != (c.ID == "stored") {
			t.Errorf("ListClients: %q stored = %t, secrets = %d", c.ID, c.Stored, len(c.Secrets)+len(c.SecretHashes))
		}
	}
	issued, err := s.IssueToken(ctx, authz.IssueRequest{ClientID: "stored", Lifetime: time.Minute}, authztest.Admin)
	if err != nil || !issued.ExpiresAt.Equal(authztest.Start.Add(time.Minute)) {
		t.Fatalf("IssueToken = %+v, %v", issued, err)
	}
	authztest.WantActive(t, h, "issued", issued.Token.Reveal(), true)
	if err := s.RevokeToken(ctx, issued.Token.Reveal(), authztest.Admin); err != nil {
		t.Error(err)
	}
	authztest.WantActive(t, h, "revoked", issued.Token.Reveal(), false)
	for _, q := range []authz.IssueRequest{
		{ClientID: "shop"},
		{ClientID: "stored", Scope: []string{"c"}},
		{ClientID: "nobody"},
		{ClientID: "stored", Lifetime: -1},
	} {
		if _, err := s.IssueToken(ctx, q, authztest.Admin); err == nil {
			t.Errorf("IssueToken(%+v) = nil, want an error", q)
		}
	}
	if err := s.Clients().Remove(ctx, "shop", authztest.Admin); !errors.Is(err, clientstore.ErrDeclared) {
		t.Errorf("RemoveClient(shop) = %v, want ErrClientFixed", err)
	}
	if err := s.Clients().Remove(ctx, "stored", authztest.Admin); err != nil {
		t.Fatal(err)
	}
	authztest.WantActive(t, h, "of a client that is gone", token.Text("access_token"), false)
	authztest.WantError(t, "gone", h.Post("/oauth/token", f, basic...), 401, "invalid_client")
	for name, err := range map[string]error{
		"RemoveClient": s.Clients().Remove(ctx, "stored", authztest.Admin),
		"RevokeClient": s.Clients().Revoke(ctx, "stored", authztest.Admin),
	} {
		if !errors.Is(err, clientstore.ErrUnknown) {
			t.Errorf("%s = %v, want ErrClientUnknown", name, err)
		}
	}
	// A later client of that id inherits nothing.
	if _, err := s.Clients().Add(ctx,
		client.Client{
			ID: "stored", Secrets: []secret.String{secret.New(text)}, Grants: []string{"client_credentials"}, Scopes: []string{"a"},
			DefaultScopes: []string{"a"},
		}, authztest.Admin); err != nil {
		t.Fatal(err)
	}
	authztest.WantActive(t, h, "of the former client", token.Text("access_token"), false)
	authztest.WantStatus(t, "the new one", h.Post("/oauth/token", f, basic...), 200)
	h.Invariants(t)
}

// An id that is stored and in the configuration is an error.
func TestClientTwice(t *testing.T) {
	t.Parallel()
	h := authztest.New(t)
	if _, err := h.Server().Clients().Add(t.Context(), client.Client{ID: "later", Grants: []string{"client_credentials"}},
		authztest.Admin); err != nil {
		t.Fatal(err)
	}
	later := &client.Client{
		ID: "later", Secrets: []secret.String{secret.New(authztest.Secret("later"))},
		Grants: []string{"client_credentials"},
	}
	if err := h.Try(func(c *authz.Config) { c.Clients = append(slices.Clone(c.Clients), later) }); err == nil {
		t.Error("New = nil, want an error for a client that is stored too")
	}
	if err := h.Try(func(c *authz.Config) { c.Clients = append(slices.Clone(c.Clients), c.Clients[0]) }); err == nil {
		t.Error("New = nil, want an error for a client that is declared twice")
	}
}
