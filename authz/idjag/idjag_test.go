package idjag_test

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/gatehouse-id/gatehouse/authz"
	"github.com/gatehouse-id/gatehouse/authz/authztest"
	"github.com/gatehouse-id/gatehouse/authz/client"
	"github.com/gatehouse-id/gatehouse/authz/clientstore"
	"github.com/gatehouse-id/gatehouse/authz/workload"
	"github.com/gatehouse-id/gatehouse/internal/authn"
	"github.com/gatehouse-id/gatehouse/internal/secret"
)

const (
	idJAG = authztest.TokenType + "id-jag"
	chat  = "https://auth.chat.example"
)

// withIdentities trusts the issuer for the client wiki, and links the subject u1 there to Demo.
func withIdentities(b *authztest.BuildServer) authztest.Option {
	return func(h *authztest.Harness) {
		h.People.Link("corp", b.URL, "u1", authztest.Demo)
		h.Config.Providers = append(h.Config.Providers, clientstore.Provider{ID: "corp"})
		h.Config.Clients = append(h.Config.Clients,
			&client.Client{
				ID: "wiki", Secrets: []secret.String{secret.New(authztest.Secret("wiki"))},
				Grants: []string{"authorization_code", "refresh_token", "jwt_bearer"}, IDPs: []string{"corp"},
				RedirectURIs: []string{"https://wiki.example.com/callback"},
				Scopes:       []string{"openid", "chat.read", "chat.write", "orders.read", "secure.read"}, DefaultScopes: []string{"chat.read"},
				Audiences: []string{"https://tools.example.com", "https://api.example.com"},
			},
			&client.Client{
				ID: "stranger", Secrets: []secret.String{secret.New(authztest.Secret("stranger"))},
				Grants: []string{"client_credentials"}, Scopes: []string{"chat.read"}, IDPs: []string{"corp"},
			},
		)
		h.Config.Trusted = append(h.Config.Trusted,
			workload.Rule{Issuer: b.URL, Client: "wiki", Provider: "corp", Scopes: []string{"chat.read", "chat.write", "secure.read"}})
	}
}

func assertionFor(raw string, more ...string) url.Values {
	return authztest.JobForm(raw, append([]string{"scope", ""}, more...)...)
}

// TestIdentityAssertion: a client shows what the identity provider of a company says, and gets a token of the person
// who signs in here by that provider, without a page.
func TestIdentityAssertion(t *testing.T) {
	t.Parallel()
	b := authztest.NewBuildServer(t, jose.ES256)
	h := authztest.New(t, withIdentities(b))
	res := h.Token("wiki", assertionFor(b.Sign(t, b.About(h, "auth_time", h.Clock.Now().Unix()-60), authztest.IDJAGType)))
	authztest.WantStatus(t, "an assertion", res, http.StatusOK)
	authztest.WantAPIHeaders(t, "an assertion", res)
	if authztest.ScopesOf(res) != "chat.read chat.write" || res.Text("refresh_token") != "" || res.Text("id_token") != "" {
		t.Errorf("answer = %s", res.Body)
	}
	in := h.Introspect(res.Text("access_token")).JSON()
	aud, _ := in["aud"].([]any)
	if in["sub"] != authztest.Demo || in["client_id"] != "wiki" || in["username"] == nil ||
		!slices.Equal(authztest.Texts(aud), []string{"https://tools.example.com"}) || in["auth_time"] != float64(h.Clock.Now().Unix()-60) {
		t.Errorf("introspection = %v", in)
	}
	authztest.WantReason(t, h, "token.AccessTokenIssuedEvent", "identity assertion of "+b.URL)
	for name, said := range map[string]float64{
		"a sign-in that is still to come": float64(h.Clock.Now().Unix() + 86400),
		"a time without end":              1e300,
	} {
		raw := b.Sign(t, b.About(h, "auth_time", said, "jti", name), authztest.IDJAGType)
		later := h.Introspect(h.Token("wiki", assertionFor(raw)).Text("access_token")).JSON()["auth_time"]
		if later, _ := later.(float64); later <= 0 || later > float64(h.Clock.Now().Unix()) {
			t.Errorf("%s: auth_time = %v, want no later than the assertion", name, later)
		}
	}
	less := h.Token("wiki", assertionFor(b.Sign(t, b.About(h), authztest.IDJAGType), "scope", "chat.read", "resource",
		"https://tools.example.com"))
	if authztest.WantStatus(t, "less", less, http.StatusOK); authztest.ScopesOf(less) != "chat.read" {
		t.Errorf("scope = %q", authztest.ScopesOf(less))
	}
	silent := h.Token("wiki", assertionFor(b.Sign(t, b.About(h, "scope", nil, "resource", nil), authztest.IDJAGType)))
	if authztest.WantStatus(t, "without scope and resource", silent, http.StatusOK); authztest.ScopesOf(silent) != "chat.read" {
		t.Errorf("scope = %q, want the default of the client", authztest.ScopesOf(silent))
	}
	// A key that the assertion is bound to.
	key := authztest.NewKeyHolder(t, h)
	bound := b.About(h, "cnf", map[string]any{"jkt": key.JKT})
	authztest.WantError(t, "without the proof", h.Token("wiki", assertionFor(b.Sign(t, bound, authztest.IDJAGType))), 400, "invalid_grant")
	proved := h.Token("wiki", assertionFor(b.Sign(t, bound, authztest.IDJAGType)), key.ProofFor("/oauth/token")...)
	if authztest.WantStatus(t, "with the proof", proved, http.StatusOK); proved.Text("token_type") != "DPoP" {
		t.Errorf("token_type = %q", proved.Text("token_type"))
	}
	meta := h.Get("/.well-known/oauth-authorization-server").JSON()
	if profiles, _ := meta["authorization_grant_profiles_supported"].([]any); !slices.Equal(authztest.Texts(profiles),
		[]string{"urn:ietf:params:oauth:grant-profile:id-jag"}) {
		t.Errorf("metadata = %v", meta["authorization_grant_profiles_supported"])
	}
	// Blocking the person ends the token.
	h.People.Change(authztest.Demo, func(s *authn.Subject) { s.Active = false })
	authztest.WantActive(t, h, "of a blocked person", res.Text("access_token"), false)
	h.Invariants(t)
}

// TestIdentityAssertionBeforeARole: a token of an identity that someone else has vouched for ends when its person gets
// a role in the admin console.
func TestIdentityAssertionBeforeARole(t *testing.T) {
	t.Parallel()
	for name, vouched := range map[string]bool{"attack 8267: of a link that an API client has made": true, "of a link of the person": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := authztest.NewBuildServer(t, jose.ES256)
			h := authztest.New(t, withIdentities(b))
			if vouched {
				h.People.VouchForLinks()
			}
			res := h.Token("wiki", assertionFor(b.Sign(t, b.About(h), authztest.IDJAGType)))
			authztest.WantStatus(t, "an assertion", res, http.StatusOK)
			for _, admin := range []bool{false, true} {
				h.People.Change(authztest.Demo, func(s *authn.Subject) { s.Administrator = admin })
				authztest.WantActive(t, h, fmt.Sprintf("with a role: %v", admin), res.Text("access_token"), !admin || !vouched)
			}
		})
	}
}

// TestIdentityAssertionAttacks: see docs/attacks/identity-assertions.md.
func TestIdentityAssertionAttacks(t *testing.T) {
	t.Parallel()
	b, other := authztest.NewBuildServer(t, jose.ES256), authztest.NewBuildServer(t, jose.ES256)
	t.Run("attack 521: an assertion that is not for this client and server", func(t *testing.T) {
		t.Parallel()
		h := authztest.New(t, authztest.WithDeployment(other), withIdentities(b))
		now := h.Clock.Now().Unix()
		for name, raw := range map[string]string{
			"another issuer":   b.Sign(t, b.About(h, "iss", "https://evil.example"), authztest.IDJAGType),
			"another key":      other.Sign(t, b.About(h), authztest.IDJAGType),
			"another audience": b.Sign(t, b.About(h, "aud", "https://other.example"), authztest.IDJAGType),
			"two audiences":    b.Sign(t, b.About(h, "aud", []string{h.Issuer, "https://other.example"}), authztest.IDJAGType),
			"another client":   b.Sign(t, b.About(h, "client_id", "shop"), authztest.IDJAGType),
			"no client":        b.Sign(t, b.About(h, "client_id", nil), authztest.IDJAGType),
			"type JWT":         b.Sign(t, b.About(h), "JWT"), "no type": b.Sign(t, b.About(h), ""),
			"type of an access token": b.Sign(t, b.About(h), "at+jwt"),
			"expired":                 b.Sign(t, b.About(h, "exp", now), authztest.IDJAGType),
			"old":                     b.Sign(t, b.About(h, "iat", now-700), authztest.IDJAGType),
			"of the future":           b.Sign(t, b.About(h, "iat", now+300), authztest.IDJAGType),
			"no jti":                  b.Sign(t, b.About(h, "jti", nil), authztest.IDJAGType),
			"no exp":                  b.Sign(t, b.About(h, "exp", nil), authztest.IDJAGType),
			"no sub":                  b.Sign(t, b.About(h, "sub", nil), authztest.IDJAGType),
			"bound to a certificate":  b.Sign(t, b.About(h, "cnf", map[string]any{"x5t#S256": "x"}), authztest.IDJAGType), "text": "x.y.z",
			"resource of a number":          b.Sign(t, b.About(h, "resource", 1), authztest.IDJAGType),
			"a trusted issuer of workloads": other.Sign(t, other.About(h), authztest.IDJAGType),
		} {
			authztest.WantError(t, name, h.Token("wiki", assertionFor(raw)), 400, "invalid_grant")
		}
		good := func() string { return b.Sign(t, b.About(h), authztest.IDJAGType) }
		authztest.WantError(t, "without credentials", h.Post("/oauth/token", assertionFor(good(), "client_id", "wiki")), 400, "invalid_grant")
		authztest.WantError(t, "with a wrong secret", h.Post("/oauth/token", assertionFor(good()), authztest.Basic("wiki", "wrong")...),
			401, "invalid_client")
		authztest.WantError(t, "by another client", h.Token("stranger", assertionFor(good())), 400, "unauthorized_client")
		authztest.WantError(t, "as a client assertion", h.Post("/oauth/token", authztest.AssertionForm(good(), "scope", "chat.read")),
			401, "invalid_client")
		authztest.WantError(t, "a job's token", h.Token("wiki", assertionFor(other.Sign(t, other.Job(h), "JWT"))), 400, "invalid_grant")
		authztest.WantError(t, "with details", h.Token("wiki", assertionFor(good(), "authorization_details", `[{"type":"a"}]`)), 400,
			"invalid_authorization_details")
		authztest.WantActive(t, h, "as an access token", good(), false)
		authztest.WantStatus(t, "as it is meant", h.Token("wiki", assertionFor(good())), http.StatusOK)
		h.Invariants(t)
	})
	authztest.Attack(t, "peer 34: an assertion that no key of its issuer has signed", func(t *testing.T, h *authztest.Harness) {
		evil := authztest.NewSigner(t, "evil", jose.ES256)
		for _, kind := range []struct {
			from   *authztest.BuildServer
			claims map[string]any
			typ    string
			post   func(raw string) *authztest.Response
		}{
			{b, b.About(h), authztest.IDJAGType, func(raw string) *authztest.Response { return h.Token("wiki", assertionFor(raw)) }},
			{other, other.Job(h), "JWT", func(raw string) *authztest.Response { return h.Post("/oauth/token", authztest.JobForm(raw)) }},
		} {
			public, err := json.Marshal(kind.from.Set().Keys[0])
			payload, err2 := json.Marshal(kind.claims)
			embedding, err3 := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: evil.Key},
				(&jose.SignerOptions{EmbedJWK: true}).WithType(jose.ContentType(kind.typ)))
			if err := errors.Join(err, err2, err3); err != nil {
				t.Fatal(err)
			}
			embedded, err := embedding.Sign(payload)
			if err != nil {
				t.Fatal(err)
			}
			own, err := embedded.CompactSerialize()
			if err != nil {
				t.Fatal(err)
			}
			none := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"none","typ":"`+kind.typ+`"}`)) + "." +
				base64.RawURLEncoding.EncodeToString(payload) + "."
			for name, raw := range map[string]string{
				"HS256 with the issuer's public key": authztest.SignWith(t, jose.HS256, public, kind.from.Kid, kind.claims, kind.typ),
				"no signature":                       none,
				"a key of its own in the header":     own,
				"a kid that is not known":            authztest.SignWith(t, jose.ES256, evil.Key, "unknown", kind.claims, kind.typ),
				"another's key under a known kid":    authztest.SignWith(t, jose.ES256, evil.Key, kind.from.Kid, kind.claims, kind.typ),
				"no kid":                             authztest.SignWith(t, jose.ES256, evil.Key, "", kind.claims, kind.typ),
			} {
				authztest.WantError(t, kind.typ+", "+name, kind.post(raw), http.StatusBadRequest, "invalid_grant")
			}
			authztest.WantStatus(t, kind.typ+", as it should be", kind.post(kind.from.Sign(t, kind.claims, kind.typ)), http.StatusOK)
		}
	}, authztest.WithDeployment(other), withIdentities(b))
	authztest.Attack(t, "attack 522: an assertion twice", func(t *testing.T, h *authztest.Harness) {
		raw := b.Sign(t, b.About(h), authztest.IDJAGType)
		all := authztest.Together(8, func(int) *authztest.Response { return h.Token("wiki", assertionFor(raw)) })
		if n := authztest.CountStatus(all, http.StatusOK); n != 1 {
			t.Errorf("%d of 8 succeeded, want 1", n)
		}
		h.Restart(nil)
		authztest.WantError(t, "after a restart", h.Token("wiki", assertionFor(raw)), 400, "invalid_grant")
	}, withIdentities(b))
	authztest.Attack(t, "attack 523: an assertion about somebody else", func(t *testing.T, h *authztest.Harness) {
		h.People.Link("corp", "https://another.example", "u2", authztest.Guest)
		h.People.Link("partner", b.URL, "u3", authztest.Guest)
		for name, claims := range map[string]map[string]any{
			"unknown": b.About(h, "sub", "u9"), "the subject in other letters": b.About(h, "sub", "U1"),
			"by an address":     b.About(h, "sub", "demo@example.com", "email", "demo@example.com", "email_verified", true),
			"of another issuer": b.About(h, "sub", "u2"), "of another provider": b.About(h, "sub", "u3"),
			"by our own id": b.About(h, "sub", authztest.Demo),
		} {
			authztest.WantError(t, name, h.Token("wiki", assertionFor(b.Sign(t, claims, authztest.IDJAGType))), 400, "invalid_grant")
		}
		h.People.Change(authztest.Demo, func(s *authn.Subject) { s.Active = false })
		authztest.WantError(t, "of a blocked person", h.Token("wiki", assertionFor(b.Sign(t, b.About(h), authztest.IDJAGType))), 400,
			"invalid_grant")
		h.People.Change(authztest.Demo, func(s *authn.Subject) { s.Active = true })
		h.People.Link("corp", b.URL, "u1", "")
		authztest.WantError(t, "after the identity was unlinked", h.Token("wiki", assertionFor(b.Sign(t, b.About(h), authztest.IDJAGType))), 400,
			"invalid_grant")
	}, withIdentities(b))
	for name, tt := range map[string]struct {
		asks string
		has  bool
		want string
	}{
		"attack 3835: always asked for":          {authn.SecondFactorAlways, false, "invalid_grant"},
		"attack 3835: set up":                    {"", true, "invalid_grant"},
		"attack 3835: set up, asked on demand":   {authn.SecondFactorOnDemand, true, ""},
		"attack 3835: not set up, nor asked for": {"", false, ""},
	} {
		authztest.Attack(t, name, func(t *testing.T, h *authztest.Harness) {
			h.People.SetUpSecondFactor(tt.has)
			if res := h.Token("wiki", assertionFor(b.Sign(t, b.About(h), authztest.IDJAGType))); res.Text("error") != tt.want {
				t.Errorf("Token = %d %s, want %q", res.Status, res.Body, tt.want)
			}
		}, withIdentities(b), authztest.WithConfig(func(c *authz.Config) {
			authztest.ChangeClient(c, "wiki", func(c *client.Client) { c.SecondFactor = tt.asks })
		}))
	}
	authztest.Attack(t, "attack 524: more than the assertion says", func(t *testing.T, h *authztest.Harness) {
		for name, c := range map[string]struct {
			claims map[string]any
			form   []string
			code   string
		}{
			"a scope that the assertion lacks":      {b.About(h, "scope", "chat.read"), []string{"scope", "chat.write"}, "invalid_scope"},
			"a scope that the operator did not add": {b.About(h), []string{"scope", "orders.read"}, "invalid_scope"},
			"a scope that the client lacks":         {b.About(h, "scope", "admin"), []string{"scope", "admin"}, "invalid_scope"},
			"none that is allowed":                  {b.About(h, "scope", "admin"), nil, "invalid_scope"},
			"an empty scope":                        {b.About(h, "scope", ""), nil, "invalid_scope"},
			"a scope of a higher level":             {b.About(h, "scope", "secure.read"), nil, "invalid_scope"},
			"another resource":                      {b.About(h), []string{"resource", "https://api.example.com"}, "invalid_target"},
			"a resource that the client lacks":      {b.About(h, "resource", "https://evil.example"), nil, "invalid_target"},
		} {
			authztest.WantError(t, name, h.Token("wiki", assertionFor(b.Sign(t, c.claims, authztest.IDJAGType), c.form...)), 400, c.code)
		}
	}, withIdentities(b))
}

// asserters are a shop that gets identity assertions for a chat server, and one that does not.
func asserters() authztest.Option {
	return authztest.WithConfig(func(c *authz.Config) {
		authztest.ChangeClient(c, "shop", func(c *client.Client) {
			c.Grants, c.Exchange = append(slices.Clone(c.Grants), "token_exchange"),
				&client.Exchange{IDJAG: []client.IDJAG{{Issuer: chat, ClientID: "shop-at-chat", Scopes: []string{"chat.read", "chat.write"}}}}
		})
		authztest.ChangeClient(c, "two", func(c *client.Client) {
			c.Grants, c.Exchange = append(slices.Clone(c.Grants), "token_exchange"), &client.Exchange{From: []string{"shop"}, To: []string{chat}}
		})
	})
}

func askAssertion(token string, more ...string) url.Values {
	return authztest.ExchangeForm(token,
		append([]string{
			"subject_token_type", authztest.TokenType + "id_token", "requested_token_type", idJAG, "audience", chat, "scope",
			"chat.read",
		}, more...)...)
}

// TestIdentityAssertionIsIssued: an application gets an assertion about the person who has signed in, for the
// authorization server of another one.
func TestIdentityAssertionIsIssued(t *testing.T) {
	t.Parallel()
	h := authztest.New(t, asserters())
	tokens := h.Tokens("shop", authztest.Demo, "scope", "openid email")
	res := h.Token("shop", askAssertion(tokens.ID, "resource", "https://api.chat.example"))
	authztest.WantStatus(t, "an assertion", res, http.StatusOK)
	if res.Text("issued_token_type") != idJAG || res.Text("token_type") != "N_A" || res.JSON()["expires_in"] != 300.0 ||
		authztest.ScopesOf(res) != "chat.read" || res.Text("refresh_token") != "" {
		t.Errorf("answer = %s", res.Body)
	}
	parsed, err := jose.ParseSignedCompact(res.Text("access_token"), []jose.SignatureAlgorithm{jose.RS256, jose.ES256})
	if err != nil {
		t.Fatal(err)
	}
	parts := strings.Split(res.Text("access_token"), ".")
	raw, err := base64.RawURLEncoding.DecodeString(parts[1])
	var claims map[string]any
	if err != nil || json.Unmarshal(raw, &claims) != nil {
		t.Fatal(err)
	}
	now := float64(h.Clock.Now().Unix())
	if parsed.Signatures[0].Header.ExtraHeaders[jose.HeaderType] != authztest.IDJAGType || claims["iss"] != h.Issuer ||
		claims["sub"] != authztest.Demo || claims["aud"] != chat || claims["client_id"] != "shop-at-chat" ||
		claims["scope"] != "chat.read" || claims["iat"] != now || claims["exp"] != now+300 || claims["email"] != "demo@example.com" ||
		claims["email_verified"] != true || len(claims["jti"].(string)) < 20 {
		t.Errorf("claims = %s", raw)
	}
	authztest.WantReason(t, h, "token.IdentityAssertionIssuedEvent", "for "+chat+" as client shop-at-chat")
	again := h.Token("shop", askAssertion(tokens.Refresh, "subject_token_type", authztest.TokenType+"refresh_token", "scope", ""))
	authztest.WantStatus(t, "by a refresh token", again, http.StatusOK)
	if again.Text("access_token") == res.Text("access_token") || authztest.ScopesOf(again) != "chat.read chat.write" {
		t.Errorf("the second = %s", again.Body)
	}
	// Without a scope in the assertion, the server there would give all that the client has there.
	if raw, err := base64.RawURLEncoding.DecodeString(strings.Split(again.Text("access_token"), ".")[1]); err != nil ||
		!strings.Contains(string(raw), `"scope":"chat.read chat.write"`) {
		t.Errorf("asked without a scope = %s, %v", raw, err)
	}
	key := authztest.NewKeyHolder(t, h)
	bound := h.Token("shop", askAssertion(tokens.ID), key.ProofFor("/oauth/token")...)
	if raw, err := base64.RawURLEncoding.DecodeString(strings.Split(bound.Text("access_token"), ".")[1]); err != nil ||
		!strings.Contains(string(raw), `"cnf":{"jkt":"`+key.JKT+`"}`) {
		t.Errorf("bound = %s, %v", raw, err)
	}
	meta := h.Get("/.well-known/oauth-authorization-server").JSON()
	if chained, _ := meta["identity_chaining_requested_token_types_supported"].([]any); !slices.Equal(authztest.Texts(chained),
		[]string{idJAG}) {
		t.Errorf("metadata = %v", meta["identity_chaining_requested_token_types_supported"])
	}
	h.Invariants(t)
}

// TestIdentityAssertionsAreLimited: see docs/attacks/identity-assertions.md.
func TestIdentityAssertionsAreLimited(t *testing.T) {
	t.Parallel()
	authztest.Attack(t, "attack 525: assertions that the operator does not allow", func(t *testing.T, h *authztest.Harness) {
		shop := h.Tokens("shop", authztest.Demo, "scope", "openid")
		for name, c := range map[string]struct {
			by, code string
			form     url.Values
		}{
			"another server":          {"shop", "invalid_target", askAssertion(shop.ID, "audience", "https://evil.example")},
			"the server with a slash": {"shop", "invalid_target", askAssertion(shop.ID, "audience", chat+"/")},
			"no server":               {"shop", "invalid_request", askAssertion(shop.ID, "audience", "")},
			"another scope":           {"shop", "invalid_scope", askAssertion(shop.ID, "scope", "chat.admin")},
			"an access token": {
				"shop", "invalid_request",
				askAssertion(shop.Access, "subject_token_type", authztest.TokenType+"access_token"),
			},
			"an actor": {
				"shop", "invalid_request",
				askAssertion(shop.ID, "actor_token", shop.Access, "actor_token_type", authztest.TokenType+"access_token"),
			},
			"another client's token":   {"two", "invalid_request", askAssertion(shop.ID)},
			"a resource with fragment": {"shop", "invalid_target", askAssertion(shop.ID, "resource", "https://api.chat.example/#x")},
			"details":                  {"shop", "invalid_authorization_details", askAssertion(shop.ID, "authorization_details", `[{"type":"a"}]`)},
		} {
			authztest.WantError(t, name, h.Token(c.by, c.form), 400, c.code)
		}
		two := h.Tokens("two", authztest.Demo, "scope", "openid")
		authztest.WantError(t, "a client without id_jag", h.Token("two", askAssertion(two.ID)), 400, "invalid_target")
		given := h.Token("shop", askAssertion(shop.ID)).Text("access_token")
		authztest.WantActive(t, h, "the assertion as an access token", given, false)
		authztest.WantError(t, "the assertion as an ID token", h.Token("shop", askAssertion(given)), 400, "invalid_request")
		authztest.WantError(t, "the assertion here", h.Token("shop", assertionFor(given)), 400, "unsupported_grant_type")
		h.Clock.Advance(25 * time.Hour)
		authztest.WantError(t, "an old ID token", h.Token("shop", askAssertion(shop.ID)), 400, "invalid_request")
		fresh := h.Tokens("shop", authztest.Demo, "scope", "openid")
		h.People.Change(authztest.Demo, func(s *authn.Subject) { s.Active = false })
		authztest.WantError(t, "a blocked person", h.Token("shop", askAssertion(fresh.ID)), 400, "invalid_request")
	}, asserters())
}

// TestWrongIdentityAssertionRules: what is wrong with a rule is said when the server starts.
func TestWrongIdentityAssertionRules(t *testing.T) {
	t.Parallel()
	b := authztest.NewBuildServer(t, jose.ES256)
	h := authztest.New(t, withIdentities(b))
	rule := func(change func(*workload.Rule)) func(*authz.Config) {
		return func(c *authz.Config) {
			r := workload.Rule{Issuer: b.URL, Client: "wiki", Provider: "corp"}
			change(&r)
			c.Trusted = []workload.Rule{r}
		}
	}
	for want, change := range map[string]func(*authz.Config){
		`there is no client "nobody"`:             rule(func(r *workload.Rule) { r.Client = "nobody" }),
		`jwt_bearer, which "shop" lacks`:          rule(func(r *workload.Rule) { r.Client = "shop" }),
		`lacks the provider "other"`:              rule(func(r *workload.Rule) { r.Provider = "other" }),
		"identity assertions for this server":     rule(func(r *workload.Rule) { r.Issuer = h.Issuer }),
		"an identity assertion counts once":       rule(func(r *workload.Rule) { r.Reuse = true }),
		"and for those of a trust_issuer with id": func(c *authz.Config) { c.Trusted = nil },
	} {
		if err := h.Try(change); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error = %v, want %q", err, want)
		}
	}
	for want, j := range map[string]client.IDJAG{
		"is not the issuer of an authorization server": {Issuer: "http://chat.example", ClientID: "x"},
		"the id of the client there is missing":        {Issuer: chat},
		"a scope has a character":                      {Issuer: chat, ClientID: "x", Scopes: []string{"a b"}},
	} {
		c := client.Client{
			ID: "x", Secrets: []secret.String{secret.New(authztest.Secret("x"))}, Grants: []string{"token_exchange"},
			Scopes: []string{"openid"}, Exchange: &client.Exchange{IDJAG: []client.IDJAG{j}},
		}
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error = %v, want %q", err, want)
		}
	}
}
