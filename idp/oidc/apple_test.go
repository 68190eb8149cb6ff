package oidc_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"golang.org/x/net/html"

	"github.com/gatehouse-id/gatehouse/idp"
	"github.com/gatehouse-id/gatehouse/idp/oidc"
	"github.com/gatehouse-id/gatehouse/idp/oidc/oidctest"
	"github.com/gatehouse-id/gatehouse/internal/secret"
)

func openApple(t *testing.T, change ...func(*oidc.Config)) *lab {
	t.Helper()
	key := oidctest.NewKeys(t, "ours").EC
	l := openAs(t, "apple", oidctest.NewApple(t, key.Public()), append([]func(*oidc.Config){func(c *oidc.Config) {
		c.Preset, c.ClientSecret, c.Scopes = oidc.Apple, secret.String{}, nil
		c.TeamID, c.KeyID, c.Key = oidctest.AppleTeam, oidctest.AppleKey, "apple"
		c.Mapping = idp.Mapping{Attributes: []idp.Attribute{
			{From: "name", To: "name"},
			{From: "given_name", To: "given_name"},
			{From: "family_name", To: "family_name"},
			{From: "email", To: "email"},
			{From: "email_verified", To: "email_verified"},
			{From: "groups", To: "groups"},
		}}
	}}, change...)...)
	l.key = key
	return l
}

// posted takes a browser to the page of Apple and returns what its form posts.
func (l *lab) posted(next *idp.Next) url.Values {
	l.t.Helper()
	res, err := http.Get(next.URL)
	if err != nil {
		l.t.Fatal(err)
	}
	defer res.Body.Close()
	page, err := html.Parse(res.Body)
	if err != nil || res.StatusCode != http.StatusOK {
		l.t.Fatalf("status %d, %v", res.StatusCode, err)
	}
	form := url.Values{}
	for n := range page.Descendants() {
		at := map[string]string{}
		for _, a := range n.Attr {
			at[a.Key] = a.Val
		}
		switch n.Data {
		case "input":
			form.Set(at["name"], at["value"])
		case "form":
			if at["action"] != issuer+"/oidc/apple/callback" {
				l.t.Fatalf("the form goes to %s", at["action"])
			}
		}
	}
	return form
}

func post(form url.Values) *http.Request {
	r := httptest.NewRequest(http.MethodPost, issuer+"/oidc/apple/callback", strings.NewReader(form.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	return r
}

// byApple signs in, with what change does to the form on its way.
func (l *lab) byApple(change func(url.Values)) (*idp.Identity, error) {
	l.t.Helper()
	next := l.begin(whenever)
	form := l.posted(next)
	if change != nil {
		change(form)
	}
	r := post(form)
	if flow, err := l.FlowOf(r); err != nil || flow != flowName {
		l.t.Fatalf("FlowOf = %q, %v", flow, err)
	}
	return l.Finish(l.t.Context(), next.State, r)
}

// TestApple: who signs in at Apple, as whom, with which name and whose address.
func TestApple(t *testing.T) {
	t.Parallel()
	t.Run("the name comes once", func(t *testing.T) {
		t.Parallel()
		l := openApple(t)
		first, err := l.byApple(nil)
		if err != nil {
			t.Fatal(err)
		}
		if first.Issuer != l.op.URL || first.Subject != oidctest.ApplePerson || first.Email != "ann@example.com" ||
			!first.EmailVerified || first.EmailPrivate ||
			!slices.Equal(first.Details["name"], []string{"Ann Example"}) || !slices.Equal(first.Details["given_name"], []string{"Ann"}) ||
			!slices.Equal(first.Details["family_name"], []string{"Example"}) {
			t.Errorf("first %+v", first)
		}
		second, err := l.byApple(nil)
		if err != nil || second.Subject != first.Subject || second.Details["name"] != nil || second.Email != "ann@example.com" {
			t.Errorf("second %+v, %v: want no name", second, err)
		}
	})
	t.Run("only what is asked for", func(t *testing.T) {
		t.Parallel()
		l := openApple(t, func(c *oidc.Config) { c.Scopes = []string{"email"} })
		got, err := l.byApple(func(form url.Values) { form.Set("user", `{"name":{"firstName":"Eve"}}`) })
		if err != nil || got.Details["name"] != nil {
			t.Errorf("%+v, %v: want no name without its scope", got, err)
		}
		if _, asked := l.op.Last("/auth/authorize"); asked.Get("response_mode") != "form_post" || asked.Get("scope") != "openid email" ||
			asked.Has("prompt") || asked.Get("nonce") == "" {
			t.Errorf("asked %v", asked)
		}
	})
	t.Run("without both scopes by a redirect", func(t *testing.T) {
		t.Parallel()
		l := openApple(t, func(c *oidc.Config) { c.Scopes = []string{} })
		next := l.begin(whenever)
		u, err := url.Parse(next.URL)
		if err != nil || u.Query().Has("response_mode") || u.Query().Get("scope") != "openid" {
			t.Errorf("asked %s, %v", next.URL, err)
		}
	})
	t.Run("attack 588: tokens of another team's client, with another issuer, key or nonce", func(t *testing.T) {
		t.Parallel()
		for name, c := range map[string]struct {
			token map[string]any
			seal  func(*lab) func(map[string]any) string
		}{
			"of another client":       {token: map[string]any{"aud": "com.example.another"}},
			"of two clients":          {token: map[string]any{"aud": []string{oidctest.ClientID, "com.example.another"}}},
			"of another issuer":       {token: map[string]any{"iss": "https://appleid.apple.com.evil.example"}},
			"of another sign-in":      {token: map[string]any{"nonce": "another"}},
			"without a nonce":         {token: map[string]any{"nonce": nil}},
			"of nobody":               {token: map[string]any{"sub": nil}},
			"expired":                 {token: map[string]any{"exp": 1}},
			"of another access token": {token: map[string]any{"at_hash": "AAAAAAAAAAAAAAAAAAAAAA"}},
			"by another key": {seal: func(l *lab) func(map[string]any) string {
				return func(claims map[string]any) string { return oidctest.NewKeys(l.t, "another").Sign(l.t, claims) }
			}},
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				l := openApple(t)
				l.op.Change(func(s *oidctest.Script) {
					for k, v := range c.token {
						s.IDToken[k] = v
					}
					if c.seal != nil {
						s.Seal = c.seal(l)
					}
				})
				if got, err := l.byApple(nil); !isInvalid(err) {
					t.Errorf("%+v, %v, want it refused", got, err)
				}
			})
		}
	})
	t.Run("addresses", func(t *testing.T) {
		t.Parallel()
		for name, c := range map[string]struct {
			token             map[string]any
			email             string
			verified, private bool
		}{
			"verified as a boolean":      {map[string]any{"email_verified": true}, "ann@example.com", true, false},
			"not verified":               {map[string]any{"email_verified": "false"}, "ann@example.com", false, false},
			"not verified, as a boolean": {map[string]any{"email_verified": false}, "ann@example.com", false, false},
			"verified by another word":   {map[string]any{"email_verified": "yes"}, "ann@example.com", false, false},
			"not said":                   {map[string]any{"email_verified": nil}, "ann@example.com", false, false},
			"none":                       {map[string]any{"email": nil, "email_verified": nil}, "", false, false},
			"a relay": {
				map[string]any{"email": oidctest.AppleRelay, "is_private_email": "true"},
				oidctest.AppleRelay, true, true,
			},
			"a relay, as a boolean": {
				map[string]any{"email": oidctest.AppleRelay, "is_private_email": true},
				oidctest.AppleRelay, true, true,
			},
			"a relay that is not called so": {
				map[string]any{"email": strings.ToUpper(oidctest.AppleRelay)},
				strings.ToUpper(oidctest.AppleRelay), true, true,
			},
			"called private": {map[string]any{"is_private_email": "true"}, "ann@example.com", true, true},
			"not a relay":    {map[string]any{"is_private_email": "false"}, "ann@example.com", true, false},
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				l := openApple(t)
				l.op.Change(func(s *oidctest.Script) {
					for k, v := range c.token {
						s.IDToken[k] = v
					}
				})
				got, err := l.byApple(nil)
				if err != nil {
					t.Fatal(err)
				}
				if got.Email != c.email || got.EmailVerified != c.verified || got.EmailPrivate != c.private {
					t.Errorf("%q, verified %t, private %t, want %q, %t, %t", got.Email, got.EmailVerified, got.EmailPrivate,
						c.email, c.verified, c.private)
				}
				if proof := got.Details["email_verified"]; !c.verified && len(proof) > 0 && proof[0] == "true" {
					t.Errorf("the details prove an address: %v", got.Details)
				}
			})
		}
	})
}

// TestAppleUser: the form field user is text of a stranger.
func TestAppleUser(t *testing.T) {
	t.Parallel()
	t.Run("attack 586: a forged form field user", func(t *testing.T) {
		t.Parallel()
		for name, c := range map[string]struct {
			user string
			want string // the name
		}{
			"an address": {
				`{"email":"victim@example.com","email_verified":true,"name":{"firstName":"Ann","lastName":"Example"}}`,
				"Ann Example",
			},
			"an address in a name": {`{"name":{"firstName":"Ann","lastName":"Example","email":"victim@example.com"}}`, "Ann Example"},
			"other claims": {
				`{"sub":"victim","groups":["admins"],"name":{"firstName":"Ann","lastName":"Example","groups":["admins"]}}`,
				"Ann Example",
			},
			"one name":             {`{"name":{"firstName":"Ann"}}`, "Ann"},
			"names that are lists": {`{"name":{"firstName":["Ann"],"lastName":{"x":"y"}}}`, ""},
			"a name that is text":  {`{"name":"Ann Example"}`, ""},
			"control characters":   {`{"name":{"firstName":"Ann\u0000","lastName":"Exam\nple"}}`, ""},
			"a long name":          {`{"name":{"firstName":"` + strings.Repeat("A", 129) + `"}}`, ""},
			"a long field":         {`{"name":{"firstName":"Ann"},"x":"` + strings.Repeat("x", 4096) + `"}`, ""},
			"twice the same name":  {`{"name":{"firstName":"Ann","firstName":"Eve"}}`, ""},
			"no JSON":              {`Ann`, ""},
			"a list":               {`["Ann"]`, ""},
			"nothing":              {``, ""},
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				l := openApple(t)
				got, err := l.byApple(func(form url.Values) { form.Set("user", c.user) })
				if err != nil {
					t.Fatal(err)
				}
				if has := strings.Join(got.Details["name"], "|"); has != c.want {
					t.Errorf("the name is %q, want %q", has, c.want)
				}
				if got.Email != "ann@example.com" || got.Subject != oidctest.ApplePerson || got.Details["groups"] != nil ||
					!slices.Equal(got.Details["email"], []string{"ann@example.com"}) {
					t.Errorf("%+v, want the claims of the ID token", got)
				}
			})
		}
	})
	t.Run("attack 586: a form field user without a valid code, in the address, twice", func(t *testing.T) {
		t.Parallel()
		for name, change := range map[string]func(url.Values){
			"an invented code": func(f url.Values) { f.Set("code", "invented") },
			"no code":          func(f url.Values) { f.Del("code") },
			"two users":        func(f url.Values) { f.Add("user", `{"name":{"firstName":"Eve"}}`) },
			"an ID token":      func(f url.Values) { f.Set("id_token", "x.y.z") },
		} {
			if got, err := openApple(t).byApple(change); !isInvalid(err) {
				t.Errorf("%s: %+v, %v, want it refused", name, got, err)
			}
		}
		l := openApple(t)
		next := l.begin(whenever)
		form := l.posted(next)
		form.Set("user", `{"name":{"firstName":"Eve"}}`)
		got, err := l.Finish(t.Context(), next.State, httptest.NewRequest(http.MethodGet, issuer+"/oidc/apple/callback?"+form.Encode(), nil))
		if err == nil && got.Details["name"] != nil {
			t.Errorf("a name in the address is taken: %v", got.Details)
		}
	})
	t.Run("attack 587: the same form a second time", func(t *testing.T) {
		t.Parallel()
		l := openApple(t)
		next := l.begin(whenever)
		form := l.posted(next)
		if _, err := l.Finish(t.Context(), next.State, post(form)); err != nil {
			t.Fatal(err)
		}
		if got, err := l.Finish(t.Context(), next.State, post(form)); !isInvalid(err) {
			t.Errorf("%+v, %v, want the code to be used up", got, err)
		}
		other := l.begin(idp.Request{MaxAge: -1, Flow: "another-flow-that-nobody-guesses-0123456"})
		fresh := l.posted(l.begin(whenever))
		if got, err := l.Finish(t.Context(), other.State, post(fresh)); !isInvalid(err) {
			t.Errorf("%+v, %v, want a code of another flow refused", got, err)
		}
	})
	t.Run("people cannot be identified by it", func(t *testing.T) {
		t.Parallel()
		for _, claim := range []string{"name", "given_name", "family_name"} {
			cfg := oidc.Config{Preset: oidc.Apple, ClientID: "x", TeamID: oidctest.AppleTeam, KeyID: oidctest.AppleKey, Key: "k", IdentifyBy: claim}
			if err := cfg.Validate(); err == nil || !strings.Contains(err.Error(), "choose their names") {
				t.Errorf("identify_by %s: %v", claim, err)
			}
		}
	})
}

// TestAppleSecret: the client secret is made by our key, kept for minutes, and what Apple refuses is an error.
func TestAppleSecret(t *testing.T) {
	t.Parallel()
	sent := func(l *lab) string {
		_, form := l.op.Last("/auth/token")
		return form.Get("client_secret")
	}
	t.Run("kept for minutes", func(t *testing.T) {
		t.Parallel()
		l := openApple(t)
		used := map[string]bool{}
		for _, step := range []struct {
			turn time.Duration
			want int
		}{{0, 1}, {4 * time.Minute, 1}, {2 * time.Minute, 2}, {time.Hour, 3}} {
			l.clock.Advance(step.turn)
			if _, err := l.byApple(nil); err != nil {
				t.Fatalf("after %s: %v", step.turn, err)
			}
			if used[sent(l)] = true; len(used) != step.want {
				t.Errorf("after %s %d secrets were made, want %d", step.turn, len(used), step.want)
			}
		}
		parsed, err := jose.ParseSignedCompact(sent(l), []jose.SignatureAlgorithm{jose.ES256})
		if err != nil {
			t.Fatal(err)
		}
		var c struct{ Iat, Exp int64 }
		if err := json.Unmarshal(parsed.UnsafePayloadWithoutVerification(), &c); err != nil || c.Exp-c.Iat > 600 {
			t.Errorf("it is valid for %d s, %v", c.Exp-c.Iat, err)
		}
	})
	t.Run("by the new key at once", func(t *testing.T) {
		t.Parallel()
		l := openApple(t)
		if _, err := l.byApple(nil); err != nil {
			t.Fatal(err)
		}
		other, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		l.key = other // which Apple does not know
		if got, err := l.byApple(nil); kind(err) != "unknown" || !strings.Contains(err.Error(), "invalid_client") {
			t.Errorf("%+v, %v, want Apple to refuse the secret", got, err)
		}
	})
	t.Run("what Apple refuses", func(t *testing.T) {
		t.Parallel()
		for name, change := range map[string]func(*oidc.Config){
			"another team":   func(c *oidc.Config) { c.TeamID = "TEAM000000" },
			"another key id": func(c *oidc.Config) { c.KeyID = "KEY0000000" },
		} {
			l := openApple(t, change)
			if got, err := l.byApple(nil); kind(err) != "unknown" || !strings.Contains(err.Error(), "invalid_client") {
				t.Errorf("%s: %+v, %v", name, got, err)
			}
			if steps := l.Check(t.Context()); steps.Err() == nil {
				t.Errorf("%s: Check = %+v", name, steps)
			}
		}
	})
	t.Run("a key of another kind", func(t *testing.T) {
		t.Parallel()
		l := openApple(t)
		l.key = oidctest.NewKeys(t, "ours").RSA
		if err := l.CheckKeys(t.Context()); err == nil || !strings.Contains(err.Error(), "P-256") {
			t.Errorf("CheckKeys = %v", err)
		}
		if steps := l.Check(t.Context()); steps.Err() == nil || !strings.Contains(steps.Err().Error(), "P-256") {
			t.Errorf("Check = %+v", steps)
		}
	})
	t.Run("tested step by step", func(t *testing.T) {
		t.Parallel()
		l := openApple(t)
		steps := l.Check(t.Context())
		if steps.Err() != nil || len(steps) < 5 {
			t.Errorf("Check = %+v", steps)
		}
		if l.Handle(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, issuer+"/oidc/apple/jwks", nil), "jwks", nil) {
			t.Error("the key of Apple is published")
		}
	})
	t.Run("of 20 at once", func(t *testing.T) {
		t.Parallel()
		l := openApple(t)
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() {
				if _, err := l.byApple(nil); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
	})
}

// TestAppleAsked: what Apple does not know is not asked for, and what it cannot do is refused before.
func TestAppleAsked(t *testing.T) {
	t.Parallel()
	l := openApple(t)
	if _, err := l.Begin(t.Context(), idp.Request{Flow: flowName, MaxAge: -1, Passive: true}); !isRejection(err) {
		t.Errorf("without a page: %v", err)
	}
	next := l.begin(idp.Request{MaxAge: time.Minute, Force: true})
	if strings.Contains(next.URL, "prompt") || strings.Contains(next.URL, "max_age") {
		t.Errorf("asked %s", next.URL)
	}
	if _, err := l.Finish(t.Context(), next.State, post(l.posted(next))); err != nil {
		t.Errorf("a fresh sign-in: %v", err)
	}
	l.op.Change(func(s *oidctest.Script) { s.IDToken["auth_time"] = l.clock.Now().Add(-time.Hour).Unix() })
	next = l.begin(idp.Request{MaxAge: time.Minute, Force: true})
	if got, err := l.Finish(t.Context(), next.State, post(l.posted(next))); !isRejection(err) {
		t.Errorf("an old sign-in: %+v, %v", got, err)
	}
	l.op.Change(func(s *oidctest.Script) {
		s.Response = map[string]string{"code": "", "error": "user_cancelled_authorize"}
	})
	if got, err := l.byApple(nil); !isRejection(err) {
		t.Errorf("a person who cancels: %+v, %v", got, err)
	}
}

// TestAppleOptions: what cannot be meant is refused, in words.
func TestAppleOptions(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*oidc.Config)
		want   string
	}{
		"no team":          {func(c *oidc.Config) { c.TeamID = "" }, `team_id ""`},
		"no key id":        {func(c *oidc.Config) { c.KeyID = "key" }, `key_id "key"`},
		"no key":           {func(c *oidc.Config) { c.Key = "" }, "key is missing"},
		"a secret":         {func(c *oidc.Config) { c.ClientSecret = secret.New("x") }, "client_secret"},
		"keys without TLS": {func(c *oidc.Config) { c.JWKSURL = "http://appleid.apple.com/auth/keys" }, "must be https"},
		"a team elsewhere": {func(c *oidc.Config) { c.Preset = oidc.Google }, "they are for Apple"},
	} {
		cfg := oidc.Config{Preset: oidc.Apple, ClientID: "com.example.web", TeamID: oidctest.AppleTeam, KeyID: oidctest.AppleKey, Key: "apple"}
		if err := cfg.Validate(); err != nil {
			t.Fatal(err)
		}
		c.change(&cfg)
		if err := cfg.Validate(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	elsewhere := oidctest.New(t)
	moved := openApple(t, func(c *oidc.Config) { c.JWKSURL = elsewhere.URL + "/jwks" })
	if _, err := moved.byApple(nil); err != nil || elsewhere.Count("/jwks") == 0 || moved.op.Count("/jwks") != 0 {
		t.Errorf("keys elsewhere: %v, fetched %d times there and %d times of Apple", err, elsewhere.Count("/jwks"), moved.op.Count("/jwks"))
	}
}
