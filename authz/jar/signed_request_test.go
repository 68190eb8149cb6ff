package jar_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/gatehouse-id/gatehouse/authz"
	"github.com/gatehouse-id/gatehouse/authz/authztest"
	"github.com/gatehouse-id/gatehouse/authz/client"
)

// openSigned is the address of a request by value.
func openSigned(s *authztest.Signer, object string) string {
	return "/oauth/authorize?" + url.Values{"client_id": {s.Client.ID}, "request": {object}}.Encode()
}

// TestSignedRequest: what a client has signed counts, in the address and pushed, and nothing next to it. (RFC 9101)
func TestSignedRequest(t *testing.T) {
	t.Parallel()
	for _, alg := range new(client.Client).RequestAlgorithms() {
		t.Run(string(alg), func(t *testing.T) {
			t.Parallel()
			s := authztest.NewSigner(t, "signer", alg)
			s.Client.Scopes, s.Client.Audiences = []string{"openid", "profile", "email"}, []string{"https://a.example.com", "https://b.example.com"}
			s.Client.RedirectURIs = append(s.Client.RedirectURIs, "https://signer.example.com/other")
			h := authztest.New(t, authztest.WithClients(s.Client))
			object := s.Object(t, h, map[string]any{
				"scope": "openid profile", "state": "inside", "nonce": "the nonce inside", "max_age": 600,
				"resource": []string{"https://a.example.com", "https://b.example.com"},
				"claims":   map[string]any{"id_token": map[string]any{"email": nil}}, "prompt": "login",
			})
			at := openSigned(s, object) + "&" + url.Values{
				"state": {"outside"}, "nonce": {"outside"}, "scope": {"openid email"}, "redirect_uri": {"https://signer.example.com/other"},
				"response_type": {"token"}, "prompt": {"none"},
				"code_challenge": {"x"}, "response_mode": {"fragment"},
			}.Encode()
			pushed := s.PushForm(t, h, "request", object, "state", "outside")
			authztest.WantStatus(t, "PAR", pushed, http.StatusCreated)
			h.Clock.Advance(59 * time.Second)
			for name, address := range map[string]string{
				"by value": at, "pushed": "/oauth/authorize?" +
					url.Values{"client_id": {"signer"}, "request_uri": {pushed.Text("request_uri")}}.Encode(),
			} {
				target, answer := h.Browser(authztest.Demo).Follow(address).Redirect()
				if target != s.Client.RedirectURIs[0] || answer.Get("state") != "inside" || answer.Get("iss") != h.Issuer {
					t.Errorf("%s: %s %v", name, target, answer)
				}
				res := s.RedeemSigned(t, h, answer.Get("code"))
				authztest.WantStatus(t, name, res, http.StatusOK)
				if got := authztest.ScopesOf(res); got != "openid profile" {
					t.Errorf("%s: scope = %q", name, got)
				}
				if claims := authztest.IDClaimsFor(t, h, res.Text("id_token"), "signer"); claims["nonce"] != "the nonce inside" ||
					claims["email"] != "demo@example.com" {
					t.Errorf("%s: ID token = %v", name, claims)
				}
				if got := h.Introspect(res.Text("access_token")).JSON()["aud"]; len(got.([]any)) != 2 { //nolint:forcetypeassert // a list
					t.Errorf("%s: aud = %v", name, got)
				}
			}
			h.Invariants(t)
		})
	}
}

// TestSignedRequestRequired: a client of which signed requests are demanded gets nothing by one that anybody could have
// written. Others can choose, and an object without times is good enough for OpenID Connect.
func TestSignedRequestRequired(t *testing.T) {
	t.Parallel()
	s := authztest.NewSigner(t, "signer", jose.ES256)
	h := authztest.New(t, authztest.WithClients(s.Client))
	answer := func(address string) url.Values {
		_, answer := h.Browser(authztest.Demo).Follow(address).Redirect()
		return answer
	}
	plain, bare := h.AuthorizeURL("signer"),
		openSigned(s, s.Sign(t, s.Request(h, map[string]any{"nbf": nil, "exp": nil, "iat": nil, "iss": nil}), ""))
	for name, address := range map[string]string{
		"not signed": plain, "without times": bare,
		"by its other type": openSigned(s, s.Sign(t, s.Request(h, nil), "JWT")),
	} {
		if answer := answer(address); answer.Get("code") == "" {
			t.Errorf("%s: %v, want a code", name, answer)
		}
	}
	h.Restart(func(c *authz.Config) {
		authztest.ChangeClient(c, "signer", func(c *client.Client) { c.SignedRequestRequired = true })
	})
	if answer := answer(plain); answer.Get("error") != "invalid_request" || answer.Has("code") {
		t.Errorf("not signed = %v, want invalid_request", answer)
	}
	authztest.WantPage(t, "without times", h.Browser(authztest.Demo).Get(bare), http.StatusBadRequest)
	if answer := answer(openSigned(s, s.Object(t, h, nil))); answer.Get("code") == "" {
		t.Errorf("signed = %v, want a code", answer)
	}
	if res := h.Post("/oauth/authorize",
		url.Values{"client_id": {"signer"}, "request": {s.Object(t, h, nil)}}); !strings.HasPrefix(res.Location(), "/oauth/authorize?posted=") {
		t.Errorf("posted = %d %q", res.Status, res.Location())
	}
	doc := h.Get("/.well-known/openid-configuration").JSON()
	if algs, _ := json.Marshal(doc["request_object_signing_alg_values_supported"]); doc["request_parameter_supported"] != true ||
		doc["request_uri_parameter_supported"] != false ||
		string(algs) != `["RS256","PS256","ES256","EdDSA","Ed25519"]` {
		t.Errorf("metadata = %v", doc)
	}
	h.Invariants(t)
}

// TestSignedRequestStartsAgain: the page of a signed request that has expired has no link that would send it unsigned.
func TestSignedRequestStartsAgain(t *testing.T) {
	t.Parallel()
	s := authztest.NewSigner(t, "signer", jose.ES256)
	h := authztest.New(t, authztest.WithClients(s.Client))
	b := h.Browser("")
	target, err := url.Parse(b.Follow(openSigned(s, s.Object(t, h, nil))).Location())
	if err != nil {
		t.Fatal(err)
	}
	h.Clock.Advance(2 * time.Hour)
	back := target.Query().Get("return")
	if res := b.Get(back); res.Status != http.StatusBadRequest || strings.Contains(res.Body, "again=true") {
		t.Errorf("%s = %d %s, want the page without a link to start again", back, res.Status, res.Body)
	}
	authztest.WantPage(t, "again", b.Get(back+"&again=true"), http.StatusBadRequest)
}

// TestConformanceMessageSigning are the modules about request objects of the OpenID Foundation's plan FAPI 2.0 Message
// Signing. TestConformanceFAPI2 has the others.
func TestConformanceMessageSigning(t *testing.T) {
	t.Parallel()
	s, other, rsa := authztest.NewSigner(t, "signer", jose.ES256), authztest.NewSigner(t, "other-signer", jose.ES256),
		authztest.NewSigner(t, "rsa-signer", jose.PS256)
	s.Client.SignedRequestRequired, other.Client.SignedRequestRequired, rsa.Client.SignedRequestRequired = true, true, true
	rsa.Client.RequestAlg, rsa.Client.JWKS.Keys[0].Algorithm = "PS256", ""
	h := authztest.New(t, authztest.WithClients(s.Client, other.Client, rsa.Client))
	now := h.Clock.Now().Unix()
	type changes = map[string]any
	good := func(t *testing.T, s *authztest.Signer, object string, beside ...string) {
		t.Helper()
		res := s.PushForm(t, h, append(beside, "request", object)...)
		authztest.WantStatus(t, "PAR", res, http.StatusCreated)
		_, answer := h.Browser(authztest.Demo).Follow("/oauth/authorize?" +
			url.Values{"client_id": {s.Client.ID}, "request_uri": {res.Text("request_uri")}}.Encode()).Redirect()
		authztest.WantStatus(t, "code", s.RedeemSigned(t, h, answer.Get("code")), http.StatusOK)
		if state := answer.Get("state"); state != "the state" && state != "" {
			t.Errorf("state = %q", state)
		}
	}
	bad := func(t *testing.T, object string) {
		t.Helper()
		authztest.WantError(t, "PAR", s.PushForm(t, h, "request", object), http.StatusBadRequest, "invalid_request_object")
		authztest.WantPage(t, "by value", h.Browser(authztest.Demo).Get(openSigned(s, object)), http.StatusBadRequest)
	}
	for module, run := range map[string]func(*testing.T){
		"ensure-request-object-with-multiple-aud-succeeds": func(t *testing.T) {
			good(t, s, s.Object(t, h, changes{"aud": []string{"https://other.example.net", h.Issuer}}))
		},
		"ensure-request-object-with-nbf-8-seconds-in-the-future-is-accepted": func(t *testing.T) {
			good(t, s, s.Object(t, h, changes{"nbf": now + 8}))
		},
		"ensure-different-nonce-inside-and-outside-request-object": func(t *testing.T) { good(t, s, s.Object(t, h, nil), "nonce", "outside") },
		"ensure-different-state-inside-and-outside-request-object": func(t *testing.T) { good(t, s, s.Object(t, h, nil), "state", "outside") },
		"state-only-outside-request-object-not-used": func(t *testing.T) {
			good(t, s, s.Object(t, h, changes{"state": nil}), "state", "outside")
			_, answer := h.Browser(authztest.Demo).Follow(openSigned(s, s.Object(t, h, changes{"state": nil})) + "&state=outside").Redirect()
			if answer.Get("code") == "" || answer.Has("state") {
				t.Errorf("answer = %v, want no state", answer)
			}
		},
		"ensure-expired-request-object-fails": func(t *testing.T) {
			bad(t,
				s.Object(t, h, changes{"exp": now - 300, "nbf": now - 600}))
		},
		"ensure-request-object-without-exp-fails":          func(t *testing.T) { bad(t, s.Object(t, h, changes{"exp": nil})) },
		"ensure-request-object-without-nbf-fails":          func(t *testing.T) { bad(t, s.Object(t, h, changes{"nbf": nil})) },
		"ensure-request-object-with-exp-over-60-fails":     func(t *testing.T) { bad(t, s.Object(t, h, changes{"exp": now + 70*60})) },
		"ensure-request-object-with-nbf-over-60-fails":     func(t *testing.T) { bad(t, s.Object(t, h, changes{"nbf": now - 70*60})) },
		"ensure-request-object-with-bad-aud-fails":         func(t *testing.T) { bad(t, s.Object(t, h, changes{"aud": h.Issuer + "/other"})) },
		"ensure-request-object-without-redirect-uri-fails": func(t *testing.T) { bad(t, s.Object(t, h, changes{"redirect_uri": nil})) },
		"par-authorization-request-containing-request_uri": func(t *testing.T) {
			bad(t, s.Object(t, h, changes{"request_uri": "urn:ietf:params:oauth:request_uri:x"}))
		},
		"ensure-matching-key-in-authorization-request": func(t *testing.T) {
			bad(t, authztest.SignWith(t, jose.ES256, other.Key, s.Kid, s.Request(h, nil), authztest.RequestType))
		},
		"ensure-request-object-with-invalid-signature-fails": func(t *testing.T) {
			object := s.Object(t, h, nil)
			bad(t,
				object[:len(object)-8]+"AAAAAAAA")
		},
		"ensure-request-object-signature-algorithm-is-not-none": func(t *testing.T) {
			bad(t, authztest.PlainObject(t, s.Request(h, nil)))
		},
		"ensure-signed-request-object-with-RS256-fails": func(t *testing.T) {
			good(t, rsa, rsa.Object(t, h, nil))
			object := authztest.SignWith(t, jose.RS256, rsa.Key, rsa.Kid, rsa.Request(h, nil), authztest.RequestType)
			authztest.WantError(t, "RS256", rsa.PushForm(t, h, "request", object), http.StatusBadRequest, "invalid_request_object")
		},
		"ensure-unsigned-request-at-par-endpoint-fails": func(t *testing.T) {
			var form []string
			for name, values := range h.Params("signer") {
				form = append(form, name, values[0])
			}
			authztest.WantError(t, "PAR", s.PushForm(t, h, form...), http.StatusBadRequest, "invalid_request")
		},
	} {
		t.Run("fapi2-message-signing-final-test-plan/"+authztest.FAPIPrefix+module, run)
	}
	h.Invariants(t)
}

// TestSignedRequestAttacks holds what must not pass for a client's own request.
func TestSignedRequestAttacks(t *testing.T) {
	t.Parallel()
	s, other := authztest.NewSigner(t, "signer", jose.RS256), authztest.NewSigner(t, "other-signer", jose.ES256)
	evil := authztest.NewSigner(t, "signer", jose.ES256)
	var asked atomic.Int64
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		json.NewEncoder(w).Encode(evil.Set()) //nolint:errcheck,errchkjson // a test
	}))
	t.Cleanup(web.Close)
	h := authztest.New(t, authztest.WithClients(s.Client, other.Client))
	refused := func(t *testing.T, objects map[string]string) {
		t.Helper()
		b := h.Browser(authztest.Demo).SignIn(authztest.Demo)
		for name, object := range objects {
			authztest.WantPage(t, name, b.Get(openSigned(s, object)), http.StatusBadRequest)
			authztest.WantError(t, name, s.PushForm(t, h, "request", object), http.StatusBadRequest, "invalid_request_object")
		}
	}
	with := func(header map[jose.HeaderKey]any) string {
		opts := (&jose.SignerOptions{ExtraHeaders: header}).WithType(authztest.RequestType)
		signing, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: evil.Key}, opts)
		if err != nil {
			t.Fatal(err)
		}
		payload, err := json.Marshal(s.Request(h, nil))
		if err != nil {
			t.Fatal(err)
		}
		signed, err := signing.Sign(payload)
		if err != nil {
			t.Fatal(err)
		}
		raw, err := signed.CompactSerialize()
		if err != nil {
			t.Fatal(err)
		}
		return raw
	}
	t.Run("attack 431: a request object signed by none, by the public key as a secret, by another key or algorithm", func(t *testing.T) {
		public, err := json.Marshal(s.Set().Keys[0])
		if err != nil {
			t.Fatal(err)
		}
		good := s.Object(t, h, nil)
		parts := strings.Split(good, ".")
		refused(t, map[string]string{
			"none":                      authztest.PlainObject(t, s.Request(h, nil)),
			"none with a signature":     strings.Split(authztest.PlainObject(t, s.Request(h, nil)), ".")[0] + "." + parts[1] + "." + parts[2],
			"HS256 with the public key": authztest.SignWith(t, jose.HS256, public, s.Kid, s.Request(h, nil), authztest.RequestType),
			"an algorithm of no list":   authztest.SignWith(t, jose.RS512, s.Key, s.Kid, s.Request(h, nil), authztest.RequestType),
			"another one than its key":  authztest.SignWith(t, jose.PS256, s.Key, s.Kid, s.Request(h, nil), authztest.RequestType),
			"another client's key":      authztest.SignWith(t, jose.ES256, other.Key, other.Kid, s.Request(h, nil), authztest.RequestType),
			"without a signature":       parts[0] + "." + parts[1] + ".",
			"another payload": parts[0] + "." +
				strings.Split(authztest.PlainObject(t, s.Request(h, map[string]any{"scope": "openid email"})), ".")[1] + "." + parts[2],
			"no JWT":   "nonsense",
			"too long": s.Object(t, h, map[string]any{"x": strings.Repeat("x", 25<<10)}),
		})
	})
	t.Run("attack 432: a request object that brings its key, or says where it is", func(t *testing.T) {
		refused(t, map[string]string{
			"jwk":            with(map[jose.HeaderKey]any{"jwk": evil.Set().Keys[0]}),
			"jku":            with(map[jose.HeaderKey]any{"jku": web.URL + "/jwks", "kid": evil.Kid}),
			"x5u":            with(map[jose.HeaderKey]any{"x5u": web.URL + "/chain"}),
			"the client's":   with(map[jose.HeaderKey]any{"kid": s.Kid, "jku": web.URL + "/jwks"}),
			"a path":         with(map[jose.HeaderKey]any{"kid": "../../../../dev/null"}),
			"an empty kid":   with(map[jose.HeaderKey]any{"kid": ""}),
			"markup":         with(map[jose.HeaderKey]any{"kid": "' OR 1=1 --<script>"}),
			"a critical one": with(map[jose.HeaderKey]any{"crit": []string{"http://example.com/new"}, "http://example.com/new": true}),
		})
		if n := asked.Load(); n != 0 {
			t.Errorf("%d requests for keys that a header names, want none", n)
		}
	})
	t.Run("attack 433: a token of another kind, or for another server, as a request object", func(t *testing.T) {
		refused(t, map[string]string{
			"an assertion":         s.Sign(t, s.Claims(h), ""),
			"with parameters":      s.Sign(t, s.Request(h, map[string]any{"sub": "signer"}), ""),
			"typed as one":         s.Sign(t, s.Request(h, nil), "client-authentication+jwt"),
			"an access token":      s.Sign(t, s.Request(h, nil), "at+jwt"),
			"for another server":   s.Object(t, h, map[string]any{"aud": "https://as.example.net"}),
			"for several others":   s.Object(t, h, map[string]any{"aud": []string{"https://as.example.net", h.Issuer + "/"}}),
			"for nobody":           s.Object(t, h, map[string]any{"aud": nil}),
			"of another client":    s.Object(t, h, map[string]any{"client_id": "other-signer"}),
			"of no client":         s.Object(t, h, map[string]any{"client_id": nil}),
			"by another issuer":    s.Object(t, h, map[string]any{"iss": "other-signer"}),
			"around another":       s.Object(t, h, map[string]any{"request": s.Object(t, h, nil)}),
			"around a reference":   s.Object(t, h, map[string]any{"request_uri": web.URL}),
			"a time as text":       s.Object(t, h, map[string]any{"exp": "soon"}),
			"beyond numbers":       s.Object(t, h, map[string]any{"exp": 1e300}),
			"from the past":        s.Object(t, h, map[string]any{"exp": -1e300}),
			"made in the future":   s.Object(t, h, map[string]any{"iat": h.Clock.Now().Unix() + 120}),
			"valid in the future":  s.Object(t, h, map[string]any{"nbf": h.Clock.Now().Unix() + 120}),
			"a name with a line":   s.Object(t, h, map[string]any{"x\n": "y"}),
			"an answer of someone": s.Sign(t, s.Request(h, nil), "token-introspection+jwt"),
		})
		// And a request object is no assertion.
		res := h.Post("/oauth/token", authztest.AssertionForm(s.Sign(t, s.Claims(h), authztest.RequestType)))
		authztest.WantError(t, "as an assertion", res, http.StatusUnauthorized, "invalid_client")
	})
	t.Run("attack 434: a request object beside what would be something else", func(t *testing.T) {
		good := s.Object(t, h, nil)
		b := h.Browser(authztest.Demo).SignIn(authztest.Demo)
		for name, address := range map[string]string{
			"twice":              openSigned(s, good) + "&request=" + good,
			"empty":              h.AuthorizeURL("signer") + "&request=",
			"with a reference":   openSigned(s, good) + "&request_uri=" + url.QueryEscape(web.URL),
			"of another client":  "/oauth/authorize?client_id=other-signer&request=" + good,
			"without the client": "/oauth/authorize?request=" + good,
		} {
			authztest.WantPage(t, name, b.Get(address), http.StatusBadRequest)
		}
		// A parameter that is listed inside is not several parameters.
		authztest.WantRedirectError(t, h, "a list", b.Get(openSigned(s, s.Object(t, h, map[string]any{"scope": []string{"openid", "email"}}))),
			"invalid_scope")
		authztest.WantError(t, "of a client without keys", h.Call("/oauth/par", "shop", h.Params("shop", "request", good)),
			http.StatusBadRequest, "request_not_supported")
		if strings.Contains(h.Log(), good) {
			t.Error("a request object is in the log")
		}
	})
	h.Invariants(t)
}
