package grant_test

import (
	"context"
	"encoding/base64"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/authz"
	"github.com/gatehouse-id/gatehouse/authz/authztest"
	"github.com/gatehouse-id/gatehouse/authz/client"
	"github.com/gatehouse-id/gatehouse/internal/audit/eventtest"
	"github.com/gatehouse-id/gatehouse/internal/authn"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

func TestCodeAttacks(t *testing.T) {
	t.Parallel()
	authztest.Attack(t, "attack 41: a code is redeemed twice", func(t *testing.T, h *authztest.Harness) {
		code := h.Browser(authztest.Demo).Code("shop")
		first := h.Redeem("shop", code)
		authztest.WantStatus(t, "first", first, http.StatusOK)
		authztest.WantActive(t, h, "before", first.Text("access_token"), true)
		authztest.WantError(t, "second", h.Redeem("shop", code), 400, "invalid_grant")
		authztest.WantActive(t, h, "access token", first.Text("access_token"), false)
		authztest.WantActive(t, h, "refresh token", first.Text("refresh_token"), false)
		authztest.WantError(t, "refresh", h.Refresh("shop", first.Text("refresh_token")), 400, "invalid_grant")
		authztest.WantEvent(t, h, authztest.Demo, "token.CodeReplayedEvent", 1)
	})
	authztest.Attack(t, "attack 41: a code is replayed after a rotation and after its lifetime", func(t *testing.T, h *authztest.Harness) {
		code := h.Browser(authztest.Demo).Code("shop")
		second := h.Refresh("shop", h.Redeem("shop", code).Text("refresh_token"))
		h.Clock.Advance(10 * time.Minute)
		authztest.WantActive(t, h, "before", second.Text("access_token"), true)
		authztest.WantError(t, "replay", h.Redeem("shop", code), 400, "invalid_grant")
		authztest.WantActive(t, h, "rotated access token", second.Text("access_token"), false)
		authztest.WantActive(t, h, "rotated refresh token", second.Text("refresh_token"), false)
	})
	authztest.Attack(t, "attack 42: another client presents the code", func(t *testing.T, h *authztest.Harness) {
		code := h.Browser(authztest.Demo).Code("shop")
		authztest.WantError(t, "other", h.Token("other", h.CodeForm("shop", code)), 400, "invalid_grant")
		authztest.WantEvent(t, h, authztest.Demo, "token.CodeRefusedEvent", 1)
		res := h.Redeem("shop", code)
		authztest.WantStatus(t, "shop afterwards", res, http.StatusOK)
		authztest.WantError(t, "other, spent", h.Token("other", h.CodeForm("shop", code)), 400, "invalid_grant")
		authztest.WantActive(t, h, "shop's token", res.Text("access_token"), true)
	})
	authztest.Attack(t, "attack 43: 64 redeem one code at once", func(t *testing.T, h *authztest.Harness) {
		code := h.Browser(authztest.Demo).Code("shop")
		// Each of them has found the code good before the first one spends it.
		inner := h.Store.Store
		h.Store.Store = &barrier{Store: inner, missing: 64, all: make(chan struct{})}
		all := authztest.Together(64, func(int) *authztest.Response { return h.Redeem("shop", code) })
		h.Store.Store = inner
		if n := authztest.CountStatus(all, 200); n != 1 {
			t.Errorf("%d of 64 got tokens, want exactly 1", n)
		}
		for _, res := range all {
			if res.Status == 200 {
				authztest.WantActive(t, h, "after the replays", res.Text("access_token"), false)
				authztest.WantActive(t, h, "again", res.Text("access_token"), false)
			} else {
				authztest.WantError(t, "loser", res, 400, "invalid_grant")
			}
		}
		authztest.WantEvent(t, h, authztest.Demo, "token.CodeReplayedEvent", 63)
		err := h.Store.View(t.Context(), func(tx storage.Tx) error {
			for e, err := range eventtest.All(tx) {
				if err != nil {
					return err
				}
				if e.Type == "token.CodeReplayedEvent" && e.Reason != "the code was used before" {
					t.Errorf("the reason of a replay = %q, want that of one after the other", e.Reason)
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	})
	authztest.Attack(t, "a code is redeemed after the person has signed out", func(t *testing.T, h *authztest.Harness) {
		b := h.Browser(authztest.Demo)
		code := b.Code("shop")
		authztest.WantStatus(t, "sign-out", b.Follow("/oauth/logout?id_token_hint="+b.Tokens("other").ID), http.StatusOK)
		authztest.WantError(t, "code of an ended session", h.Redeem("shop", code), 400, "invalid_grant")
		b = h.Browser(authztest.Demo)
		code = b.Code("shop")
		h.People.EndSession(b.Session())
		authztest.WantError(t, "code of an expired session", h.Redeem("shop", code), 400, "invalid_grant")
		// What was redeemed before lives on: a sign-out ends no application's access.
		b = h.Browser(authztest.Demo)
		tokens := b.Tokens("shop")
		h.People.EndSession(b.Session())
		authztest.WantActive(t, h, "token redeemed before", tokens.Access, true)
		authztest.WantStatus(t, "refresh", h.Refresh("shop", tokens.Refresh), http.StatusOK)
	})
	authztest.Attack(t, "attack 44: a code after its lifetime", func(t *testing.T, h *authztest.Harness) {
		b := h.Browser(authztest.Demo)
		good, late := b.Code("shop"), b.Code("shop")
		h.Clock.Advance(30*time.Second - time.Millisecond)
		authztest.WantStatus(t, "in time", h.Redeem("shop", good), http.StatusOK)
		h.Clock.Advance(time.Millisecond)
		authztest.WantError(t, "late", h.Redeem("shop", late), 400, "invalid_grant")
	})
	authztest.Attack(t, "attack 24: a verifier for a code without challenge", func(t *testing.T, h *authztest.Harness) {
		code := h.Browser(authztest.Demo).Code("shop", "code_challenge", "", "code_challenge_method", "")
		authztest.WantError(t, "downgrade", h.Redeem("shop", code), 400, "invalid_grant")
		f := h.CodeForm("shop", code)
		f.Del("code_verifier")
		authztest.WantError(t, "burned", h.Token("shop", f), 400, "invalid_grant")
	})
	authztest.Attack(t, "attack 11: the redirect URI of the token request", func(t *testing.T, h *authztest.Harness) {
		b := h.Browser(authztest.Demo)
		for _, tc := range []struct {
			name       string
			sent       bool
			redirect   string
			wantStatus int
		}{
			{"same", true, "https://shop.example.com/callback", 200},
			{"none", true, "", 400},
			{"other", true, "https://shop.example.com/callback/", 400},
			{"not sent, none", false, "", 200},
			{"not sent, registered", false, "https://shop.example.com/callback", 200},
			{"not sent, other", false, "https://evil.example.com/", 400},
		} {
			var changes []string
			if !tc.sent {
				changes = []string{"redirect_uri", "", "scope", "profile"}
			}
			f := h.CodeForm("shop", b.Code("shop", changes...))
			f.Set("redirect_uri", tc.redirect)
			if tc.redirect == "" {
				f.Del("redirect_uri")
			}
			authztest.WantStatus(t, tc.name, h.Token("shop", f), tc.wantStatus)
			if tc.wantStatus != 200 {
				f.Set("redirect_uri", "https://shop.example.com/callback")
				authztest.WantError(t, tc.name+", second try", h.Token("shop", f), 400, "invalid_grant")
			}
		}
	})
	authztest.Attack(t, "attack 69: the person is disabled before the code is redeemed", func(t *testing.T, h *authztest.Harness) {
		b := h.Browser(authztest.Demo)
		code := b.Code("shop")
		h.People.Change(authztest.Demo, func(p *authn.Subject) { p.Active = false })
		authztest.WantError(t, "blocked", h.Redeem("shop", code), 400, "invalid_grant")
		h.People.Change(authztest.Demo, func(p *authn.Subject) { p.Active = true; p.Epoch++ })
		authztest.WantError(t, "after a new password", h.Redeem("shop", code), 400, "invalid_grant")
	})
	authztest.Attack(t, "attack 72: 10,000 tokens and codes are unique", func(t *testing.T, h *authztest.Harness) {
		seen := map[string]bool{}
		bits := [256]int{}
		for range 10_000 {
			token, err := secret.NewToken(authztest.Randomness, secret.AccessToken)
			if err != nil || seen[token] {
				t.Fatalf("NewToken = %v, or a token twice", err)
			}
			seen[token] = true
			raw, err := base64.RawURLEncoding.DecodeString(token[5:48])
			if err != nil {
				t.Fatal(err)
			}
			for i := range bits {
				bits[i] += int(raw[i/8] >> (i % 8) & 1)
			}
		}
		for i, n := range bits {
			if n < 4700 || n > 5300 { // six standard deviations
				t.Errorf("bit %d is set in %d of 10000 tokens", i, n)
			}
		}
		for range 50 {
			token := authztest.OwnToken(h).Text("access_token")
			if seen[token] || !secret.IsToken(secret.AccessToken, token) {
				t.Fatal("a token that is no token, or twice")
			}
			seen[token] = true
		}
	})
}

func TestVerifier(t *testing.T) {
	t.Parallel()
	h := authztest.New(t, authztest.WithConfig(func(c *authz.Config) {
		authztest.ChangeClient(c, "other", func(c *client.Client) { c.PKCERequired = true })
	}))
	b := h.Browser(authztest.Demo)
	// A public client, a confidential one that need not send a challenge and does, and one that must.
	for _, id := range []string{"spa", "shop", "other"} {
		for name, verifier := range map[string]string{
			"none": "", "short": authztest.Verifier[:42], "other": strings.Repeat("a", 43), "padded": authztest.Verifier + "=",
			"the challenge": authztest.Challenge,
			"long":          strings.Repeat("a", 129),
		} {
			code := b.Code(id)
			f := h.CodeForm(id, code)
			f.Set("code_verifier", verifier)
			authztest.WantError(t, id+": "+name, h.Token(id, f), 400, "invalid_grant")
			authztest.WantError(t, id+": "+name+", then right", h.Redeem(id, code), 400, "invalid_grant")
			code = b.Code(id)
			f = h.CodeForm(id, code)
			f.Del("code_verifier")
			authztest.WantError(t, id+": left out", h.Token(id, f), 400, "invalid_grant")
		}
		authztest.WantStatus(t, id+": right", h.Redeem(id, b.Code(id)), 200)
	}
	h.Invariants(t)
}

// TestCodeOfBeforeAChange: a code is redeemed by the rules of the moment, not by those of the moment it was asked for.
func TestCodeOfBeforeAChange(t *testing.T) {
	t.Parallel()
	authztest.Attack(t, "a code without a challenge, of a client that must send one since", func(t *testing.T, h *authztest.Harness) {
		code := h.Browser(authztest.Demo).Code("shop", "code_challenge", "", "code_challenge_method", "")
		h.Restart(func(c *authz.Config) {
			authztest.ChangeClient(c, "shop", func(c *client.Client) { c.PKCERequired = true })
		})
		f := h.CodeForm("shop", code)
		f.Del("code_verifier")
		authztest.WantError(t, "redeemed", h.Token("shop", f), 400, "invalid_grant")
	})
	authztest.Attack(t, "a code for a scope that was taken from the client since", func(t *testing.T, h *authztest.Harness) {
		code := h.Browser(authztest.Demo).Code("shop", "scope", "openid profile")
		h.Restart(func(c *authz.Config) {
			authztest.ChangeClient(c, "shop", func(c *client.Client) {
				c.Scopes = slices.DeleteFunc(slices.Clone(c.Scopes), func(s string) bool { return s == "profile" })
				c.DefaultScopes = nil
			})
		})
		res := h.Redeem("shop", code)
		authztest.WantStatus(t, "redeemed", res, http.StatusOK)
		if got := res.Text("scope"); got != "openid" {
			t.Errorf("scope = %q, want what the client may still have", got)
		}
	})
}

// TestVerifierIsNoSecret: a confidential client that must use PKCE authenticates all the same. The verifier proves that
// the code is redeemed where it was asked for, not by whom.
func TestVerifierIsNoSecret(t *testing.T) {
	t.Parallel()
	h := authztest.New(t, authztest.WithConfig(func(c *authz.Config) {
		authztest.ChangeClient(c, "shop", func(c *client.Client) { c.PKCERequired = true })
	}))
	code := h.Browser(authztest.Demo).Code("shop")
	f := h.CodeForm("shop", code)
	authztest.WantError(t, "nothing", h.Post("/oauth/token", f), 400, "invalid_request")
	f.Set("client_id", "shop")
	authztest.WantError(t, "its name alone", h.Post("/oauth/token", f), 401, "invalid_client")
	f.Set("client_secret", "")
	authztest.WantError(t, "an empty secret", h.Post("/oauth/token", f), 401, "invalid_client")
	f.Set("client_secret", authztest.Secret("other"))
	authztest.WantError(t, "the secret of another client", h.Post("/oauth/token", f), 401, "invalid_client")
	f.Del("client_secret")
	f.Del("client_id")
	authztest.WantError(t, "another client", h.Post("/oauth/token", f, authztest.Basic("other", authztest.Secret("other"))...), 400,
		"invalid_grant")
	authztest.WantStatus(t, "its secret", h.Redeem("shop", code), 200)
	h.Invariants(t)
}

// barrier is a store that lets no one write before a number of callers want to.
type barrier struct {
	storage.Store

	mu      sync.Mutex // guards missing
	missing int
	all     chan struct{} // closed when they are all there
}

func (s *barrier) Update(ctx context.Context, fn func(storage.Tx) error) error {
	s.mu.Lock()
	if s.missing--; s.missing == 0 {
		close(s.all)
	}
	s.mu.Unlock()
	select {
	case <-s.all:
	case <-ctx.Done():
		return ctx.Err()
	}
	return s.Store.Update(ctx, fn)
}

func TestRequestAttacks(t *testing.T) {
	t.Parallel()
	authztest.Attack(t, "attack 46: repeated parameters", func(t *testing.T, h *authztest.Harness) {
		for _, body := range []string{
			"grant_type=client_credentials&grant_type=client_credentials", "grant_type=client_credentials&scope=reports.read&scope=reports.read",
			"grant_type=client_credentials&client_id=reports&client_id=reports", "grant_type=authorization_code&code=a&code=b",
		} {
			authztest.WantError(t, body, authztest.PostRaw(h, "/oauth/token", body), 400, "invalid_request")
		}
		code := h.Browser(authztest.Demo).Code("shop")
		res := h.Call("/oauth/token?code="+code, "shop", h.CodeForm("shop", code))
		authztest.WantError(t, "code in query and body", res, 400, "invalid_request")
	})
	authztest.Attack(t, "attack 47: two ways of client authentication", func(t *testing.T, h *authztest.Harness) {
		for name, body := range map[string]string{
			"secret":    "client_secret=" + authztest.Secret("reports"),
			"assertion": "client_assertion_type=urn%3Aietf%3Aparams%3Aoauth%3Aclient-assertion-type%3Ajwt-bearer&client_assertion=e30.e30.e30",
			"other id":  "client_id=shop",
		} {
			authztest.WantError(t, name, authztest.PostRaw(h, "/oauth/token", "grant_type=client_credentials&"+body), 400, "invalid_request")
		}
		authztest.WantStatus(t, "same id", authztest.PostRaw(h, "/oauth/token", "grant_type=client_credentials&client_id=reports"), 200)
	})
	authztest.Attack(t, "attack 48: two Authorization headers", func(t *testing.T, h *authztest.Harness) {
		basic := authztest.Basic("reports", authztest.Secret("reports"))
		authztest.WantError(t, "two", authztest.PostRaw(h, "/oauth/token", "grant_type=client_credentials", basic...), 400, "invalid_request")
		res := h.Do(http.MethodPost, "/oauth/token", "grant_type=client_credentials", "Content-Type", authztest.FormType,
			"Authorization", basic[1]+", "+basic[1])
		authztest.WantError(t, "joined", res, 400, "invalid_request")
	})
	authztest.Attack(t, "attack 49: secrets in the query", func(t *testing.T, h *authztest.Harness) {
		for _, q := range []string{
			"client_id=poster&client_secret=" + authztest.Secret("poster"), "client_secret=" + authztest.Secret("poster"),
			"code=c-o-d-e", "refresh_token=r-t",
			"password=p-w", "grant_type=client_credentials",
		} {
			res := h.Do(http.MethodPost, "/oauth/token?"+q, "grant_type=client_credentials&scope=openid", "Content-Type", authztest.FormType)
			authztest.WantError(t, q, res, 400, "invalid_request")
		}
		if strings.Contains(h.Log(), authztest.Secret("poster")) || strings.Contains(h.Log(), "c-o-d-e") {
			t.Error("the log holds the query")
		}
	})
	authztest.Attack(t, "attack 51: other content types", func(t *testing.T, h *authztest.Harness) {
		for _, ct := range []string{
			"application/json", "text/plain", "multipart/form-data; boundary=x", "", authztest.FormType + "; charset=utf-16",
			authztest.FormType + "; charset=utf-8; charset=utf-16",
			authztest.FormType + "; boundary=x",
		} {
			res := authztest.PostRaw(h, "/oauth/token", "grant_type=client_credentials", "Content-Type", ct)
			authztest.WantError(t, ct, res, 400, "invalid_request")
		}
		res := authztest.PostRaw(h, "/oauth/token", "grant_type=client_credentials", "Content-Type", authztest.FormType,
			"Content-Type", authztest.FormType)
		authztest.WantError(t, "twice", res, 400, "invalid_request")
		res = authztest.PostRaw(h, "/oauth/token", "grant_type=client_credentials", "Content-Type", authztest.FormType+"; charset=UTF-8")
		authztest.WantStatus(t, "utf-8", res, 200)
	})
	authztest.Attack(t, "attack 52: all parameters in the query", func(t *testing.T, h *authztest.Harness) {
		authztest.WantError(t, "query", authztest.PostRaw(h, "/oauth/token?grant_type=client_credentials&scope=reports.read", ""), 400,
			"invalid_request")
		authztest.WantError(t, "nothing", authztest.PostRaw(h, "/oauth/token", ""), 400, "invalid_request")
	})
	authztest.Attack(t, "attack 53: bodies with two readings", func(t *testing.T, h *authztest.Harness) {
		for _, body := range []string{
			"grant_type=client_credentials;scope=reports.read", "grant_type=client_credentials&scope=%zz",
			"grant_type=client_credentials&scope=a%00b",
			"grant_type=client_credentials&scope=%c0%af", "\ufeffgrant_type=client_credentials", "grant_type=client_credentials&scope=\xff",
			"grant_type=client_credentials&scope=a%0d%0ab",
		} {
			authztest.WantError(t, body, authztest.PostRaw(h, "/oauth/token", body), 400, "invalid_request")
		}
		for _, body := range []string{"scope=reports.read+orders.read", "scope=reports.read%20orders.read"} {
			res := authztest.PostRaw(h, "/oauth/token", "grant_type=client_credentials&"+body)
			if got := authztest.ScopesOf(res); got != "orders.read reports.read" {
				t.Errorf("%s gave scope %q", body, got)
			}
		}
	})
	authztest.Attack(t, "attack 54: grant types that are none", func(t *testing.T, h *authztest.Harness) {
		for _, gt := range []string{
			"foo", "CLIENT_CREDENTIALS", "client_credentials ", " client_credentials", "implicit", "validate_bearer",
			"URN:service:oauth2:grant_type:validate_bearer",
			"device_code", "URN:ietf:params:oauth:grant-type:device_code",
		} {
			authztest.WantError(t, gt, authztest.OwnToken(h, "grant_type", gt), 400, "unsupported_grant_type")
		}
		authztest.WantError(t, "none", authztest.PostRaw(h, "/oauth/token", "scope=reports.read"), 400, "invalid_request")
	})
	authztest.Attack(t, "attack 62: scopes without end", func(t *testing.T, h *authztest.Harness) {
		var many strings.Builder
		for i := range 9000 {
			many.WriteString("s" + string(rune('a'+i%26)) + strings.Repeat("x", i%3) + " ")
		}
		for name, scope := range map[string]string{"long": strings.Repeat("a", 50_000), "many": many.String()} {
			authztest.WantError(t, name, authztest.OwnToken(h, "scope", scope), 400, "invalid_scope")
			res := h.Post("/oauth/token", url.Values{"grant_type": {"client_credentials"}, "scope": {scope}},
				authztest.Basic("reports", strings.Repeat("x", 40))...)
			authztest.WantError(t, name+", a stranger", res, 401, "invalid_client")
		}
		authztest.WantError(t, "body", authztest.OwnToken(h, "scope", strings.Repeat("a", 70_000)), 400, "invalid_request")
	})
	authztest.Attack(t, "attack 63: scopes that are none", func(t *testing.T, h *authztest.Harness) {
		for _, scope := range []string{
			`reports.read "x"`, `reports.read\x`, "reports.read\x7f", "reports.reäd", "unknown",
			"reports.read unknown", "openid",
		} {
			authztest.WantError(t, scope, authztest.OwnToken(h, "scope", scope), 400, "invalid_scope")
		}
		res := authztest.OwnToken(h, "scope", "reports.read orders.read reports.read")
		if res.Text("scope") != "reports.read orders.read" {
			t.Errorf("duplicates: scope = %q, want them once", res.Text("scope"))
		}
		authztest.WantError(t, "a scope with a level", authztest.OwnToken(h, "scope", "secure.read"), 400, "invalid_scope")
	})
	authztest.Attack(t, "attack 76: other spellings of the path", func(t *testing.T, h *authztest.Harness) {
		for _, path := range []string{
			"//oauth/token", "/oauth/./token", "/oauth/token/", "/OAuth/Token", "/oauth/v2/token", "/oauth/v1/../token",
			"/oauth//token", "/oauth/token;x",
		} {
			authztest.WantStatus(t, path, authztest.PostRaw(h, h.Issuer+path, "grant_type=client_credentials"), 404)
		}
		for _, path := range []string{"/oauth/token", "/oauth/v1/token", "/%6fauth/token"} {
			res := h.Do(http.MethodPost, path, "grant_type=client_credentials&client_id=reports", "Content-Type", authztest.FormType)
			authztest.WantError(t, path, res, 401, "invalid_client")
			authztest.WantStatus(t, path, authztest.PostRaw(h, path, "grant_type=client_credentials"), 200)
		}
		code := h.Browser(authztest.Demo).Code("shop")
		authztest.WantStatus(t, "v1", h.Call("/oauth/v1/token", "shop", h.CodeForm("shop", code)), 200)
	})
	authztest.Attack(t, "attack 77: scripts of other origins", func(t *testing.T, h *authztest.Harness) {
		for _, path := range []string{"/oauth/token", "/oauth/revoke", "/oauth/v1/token", "/oauth/api/v2/token/introspect", "/oauth/authorize"} {
			for _, origin := range []string{"https://evil.example.com", "null", "https://spa.example.com.evil.example", "http://spa.example.com"} {
				for _, method := range []string{http.MethodOptions, http.MethodPost} {
					res := h.Do(method, path, "", "Origin", origin, "Access-Control-Request-Method", "POST", "Content-Type", authztest.FormType)
					if got := res.Header.Get("Access-Control-Allow-Origin"); got != "" {
						t.Errorf("%s %s from %s: Access-Control-Allow-Origin = %q, want none", method, path, origin, got)
					}
				}
			}
		}
		res := h.Do(http.MethodPost, "/oauth/token", "", "Origin", "https://spa.example.com", "Content-Type", authztest.FormType)
		if got := res.Header.Get("Access-Control-Allow-Origin"); got != "https://spa.example.com" ||
			res.Header.Get("Access-Control-Allow-Credentials") != "" {
			t.Errorf("token from the client's origin: %q, want it allowed without credentials", got)
		}
		res = h.Do(http.MethodPost, "/oauth/api/v2/token/introspect", "", "Origin", "https://spa.example.com", "Content-Type", authztest.FormType)
		if got := res.Header.Get("Access-Control-Allow-Origin"); got != "" {
			t.Errorf("introspection: Access-Control-Allow-Origin = %q, want none", got)
		}
	})
	authztest.Attack(t, "attack 78: headers of every answer", func(t *testing.T, h *authztest.Harness) {
		authztest.WantAPIHeaders(t, "200", authztest.OwnToken(h))
		authztest.WantAPIHeaders(t, "code", h.Redeem("shop", h.Browser(authztest.Demo).Code("shop")))
		authztest.WantError(t, "400", authztest.OwnToken(h, "scope", "nope"), 400, "invalid_scope")
		authztest.WantError(t, "401", h.Post("/oauth/token", url.Values{}, authztest.Basic("x", "y")...), 401, "invalid_client")
		res := h.Get("/oauth/token")
		authztest.WantError(t, "405", res, 405, "invalid_request")
		if res.Header.Get("Allow") != "POST" {
			t.Errorf("405: Allow = %q, want POST", res.Header.Get("Allow"))
		}
	})
}
