package oidc_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/gatehouse-id/gatehouse/idp"
	"github.com/gatehouse-id/gatehouse/idp/oidc"
	"github.com/gatehouse-id/gatehouse/idp/oidc/oidctest"
	"github.com/gatehouse-id/gatehouse/internal/jwa"
	"github.com/gatehouse-id/gatehouse/internal/secret"
)

func TestSignIn(t *testing.T) {
	t.Parallel()
	l := open(t)
	got, err := l.signIn(whenever)
	if err != nil {
		t.Fatal(err)
	}
	want := &idp.Identity{
		Issuer: l.op.URL, Subject: "alice", Email: "alice@example.org", EmailVerified: true, Level: 1, AuthTime: l.clock.Now(),
		Details:  map[string][]string{"fullName": {"Alice Example"}, "groups": {"staff", "admins"}, "city": {"Utrecht"}},
		Sessions: []string{"sid-alice"}, Form: "client " + oidctest.ClientID,
	}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(idp.Identity{}, "Held")); diff != "" {
		t.Errorf("identity (-want +got):\n%s", diff)
	}
	if len(got.Held) == 0 || len(got.Held) > 32<<10 {
		t.Errorf("Held has %d bytes", len(got.Held))
	}
	if n := l.op.Count("/jwks"); n != 1 {
		t.Errorf("jwks were fetched %d times, want once", n)
	}
	if _, err := l.signIn(whenever); err != nil {
		t.Errorf("second sign-in: %v", err)
	}
	for path, want := range map[string]int{"/.well-known/openid-configuration": 1, "/jwks": 1, "/userinfo": 2} {
		if n := l.op.Count(path); n != want {
			t.Errorf("%s was asked for %d times, want %d", path, n, want)
		}
	}
}

// TestPreferredUsername: what people call themselves at the provider names them here only where the operator maps it.
func TestPreferredUsername(t *testing.T) {
	t.Parallel()
	l := open(t, func(c *oidc.Config) {
		c.Mapping.Attributes = append(c.Mapping.Attributes, idp.Attribute{From: "preferred_username", To: "username"})
	})
	if got, err := l.signIn(whenever); err != nil || got.Username != "alice" {
		t.Errorf("identity = %+v, %v, want the username alice", got, err)
	}
}

func TestAuthorizationRequest(t *testing.T) {
	t.Parallel()
	levels := func(c *oidc.Config) { c.Levels = map[string]int{"silver": 2, "gold": 3, "bronze": 1, "platinum": 4} }
	for _, tc := range []struct {
		name   string
		change func(*oidc.Config)
		q      idp.Request
		want   map[string]string // empty: it must not be there
	}{
		{"plain", nil, whenever, map[string]string{
			"response_type": "code", "client_id": oidctest.ClientID, "redirect_uri": issuer + "/oidc/corp/callback", "scope": "openid profile email",
			"state": flowName, "code_challenge_method": "S256", "prompt": "", "max_age": "", "login_hint": "", "acr_values": "",
			"response_mode": "", "claims": "",
		}},
		{"passive", nil, idp.Request{Passive: true, MaxAge: -1}, map[string]string{"prompt": "none", "max_age": ""}},
		{"force", nil, idp.Request{Force: true, MaxAge: -1}, map[string]string{"prompt": "login", "max_age": "0"}},
		{"max age", nil, idp.Request{MaxAge: 90 * time.Second}, map[string]string{"max_age": "90", "prompt": ""}},
		{
			"hint and languages", nil,
			idp.Request{MaxAge: -1, Hint: "ann@example.com", Locales: []string{"nl-NL", "en"}},
			map[string]string{"login_hint": "ann@example.com", "ui_locales": "nl-NL en"},
		},
		{"hint with a line end", nil, idp.Request{MaxAge: -1, Hint: "ann\r\nx"}, map[string]string{"login_hint": ""}},
		{"level", levels, idp.Request{MaxAge: -1, Level: 2}, map[string]string{"acr_values": "silver gold platinum"}},
		{"level that every sign-in has", levels, idp.Request{MaxAge: -1, Level: 1}, map[string]string{"acr_values": ""}},
		{"form_post", func(c *oidc.Config) { c.ResponseMode = "form_post" }, whenever, map[string]string{"response_mode": "form_post"}},
		{
			"claims", func(c *oidc.Config) { c.Claims = oidc.ClaimsParameter([]string{"groups"}) }, whenever,
			map[string]string{"claims": `{"id_token":{"groups":null},"userinfo":{"groups":null}}`},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			l := open(t, func(c *oidc.Config) {
				if tc.change != nil {
					tc.change(c)
				}
			})
			u, err := url.Parse(l.begin(tc.q).URL)
			if err != nil {
				t.Fatal(err)
			}
			got := u.Query()
			for name, want := range tc.want {
				if got.Get(name) != want || len(got[name]) > 1 || got.Has(name) != (want != "") {
					t.Errorf("%s = %q, want %q", name, got[name], want)
				}
			}
			if len(got.Get("nonce")) < 40 || len(got.Get("code_challenge")) != 43 {
				t.Errorf("nonce %q, code_challenge %q: too short", got.Get("nonce"), got.Get("code_challenge"))
			}
		})
	}
}

// TestAuthorizationURLWithQuery keeps the endpoint's own query, which cannot replace our parameters.
func TestAuthorizationURLWithQuery(t *testing.T) {
	t.Parallel()
	l := open(t)
	l.op.Change(func(s *oidctest.Script) {
		s.Discovery = map[string]any{"authorization_endpoint": l.op.URL + "/authorize?tenant=a&client_id=other&prompt=none"}
	})
	u, err := url.Parse(l.begin(whenever).URL)
	if err != nil {
		t.Fatal(err)
	}
	if q := u.Query(); q.Get("tenant") != "a" || !slices.Equal(q["client_id"], []string{oidctest.ClientID}) {
		t.Errorf("query = %v", q)
	}
}

func TestClientAuthentication(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		method string
		held   func(t *testing.T, r *http.Request, form url.Values)
	}{
		{oidc.AuthBasic, func(t *testing.T, r *http.Request, form url.Values) {
			user, password, _ := r.BasicAuth()
			if user != oidctest.ClientID || password != url.QueryEscape(oidctest.ClientSecret) ||
				form.Has("client_secret") || form.Has("client_id") {
				t.Errorf("Basic %q %q, form %v", user, password, form)
			}
		}},
		{oidc.AuthPost, func(t *testing.T, r *http.Request, form url.Values) {
			if r.Header.Get("Authorization") != "" || form.Get("client_secret") != oidctest.ClientSecret {
				t.Errorf("Authorization %q, form %v", r.Header.Get("Authorization"), form)
			}
		}},
		{oidc.AuthPrivateKey, func(t *testing.T, r *http.Request, form url.Values) {
			if r.Header.Get("Authorization") != "" || form.Has("client_secret") ||
				form.Get("client_assertion_type") != "urn:ietf:params:oauth:client-assertion-type:jwt-bearer" {
				t.Errorf("Authorization %q, form %v", r.Header.Get("Authorization"), form)
			}
		}},
	} {
		t.Run(tc.method, func(t *testing.T) {
			t.Parallel()
			l := open(t, func(c *oidc.Config) {
				if c.AuthMethod = tc.method; tc.method == oidc.AuthPrivateKey {
					c.ClientSecret, c.Key = secret.String{}, "signer"
				}
			})
			if tc.method == oidc.AuthPrivateKey {
				l.op.Change(func(s *oidctest.Script) { s.ClientKeys = l.published() })
			}
			if _, err := l.signIn(whenever); err != nil {
				t.Fatal(err)
			}
			r, _ := l.op.Last("/token")
			tc.held(t, r, r.PostForm)
			if r.URL.RawQuery != "" {
				t.Errorf("query = %q, want none", r.URL.RawQuery)
			}
		})
	}
}

// published returns the keys in our jwks.
func (l *lab) published() *jwa.KeySet {
	l.t.Helper()
	w := httptest.NewRecorder()
	if !l.Handle(w, httptest.NewRequest(http.MethodGet, "/oidc/corp/jwks", nil), "jwks", nil) || w.Code != http.StatusOK {
		l.t.Fatalf("jwks: %d", w.Code)
	}
	if body := w.Body.String(); strings.Contains(body, `"d"`) || strings.Contains(body, `"priv"`) {
		l.t.Fatal("our jwks hold a private key")
	}
	set := new(jwa.KeySet)
	if err := json.Unmarshal(w.Body.Bytes(), set); err != nil {
		l.t.Fatal(err)
	}
	return set
}

// TestAssertionIsFresh: a jti is used once, and the assertion is valid for a minute.
func TestAssertionIsFresh(t *testing.T) {
	t.Parallel()
	l := open(t, func(c *oidc.Config) { c.AuthMethod, c.ClientSecret = oidc.AuthPrivateKey, secret.String{} })
	l.op.Change(func(s *oidctest.Script) { s.ClientKeys = l.published() })
	seen := map[string]bool{}
	for range 2 {
		if _, err := l.signIn(whenever); err != nil {
			t.Fatal(err)
		}
		_, form := l.op.Last("/token")
		parsed, err := jose.ParseSignedCompact(form.Get("client_assertion"), []jose.SignatureAlgorithm{jose.RS256})
		if err != nil {
			t.Fatal(err)
		}
		var c struct {
			Aud, Jti string
			Exp, Iat int64
		}
		if err := json.Unmarshal(parsed.UnsafePayloadWithoutVerification(), &c); err != nil {
			t.Fatal(err)
		}
		if c.Aud != l.op.URL || c.Exp-c.Iat != 60 || len(c.Jti) < 22 || seen[c.Jti] {
			t.Errorf("assertion = %+v", c)
		}
		seen[c.Jti] = true
	}
}

func TestLevels(t *testing.T) {
	t.Parallel()
	l := open(t, func(c *oidc.Config) { c.Level, c.Levels = 2, map[string]int{"gold": 3, "tin": 1} })
	for acr, want := range map[any]int{"gold": 3, "tin": 1, "unheard of": 2, nil: 2, 3: 2} {
		l.op.Change(func(s *oidctest.Script) {
			s.IDToken, s.UserInfo = map[string]any{"acr": acr}, map[string]any{"acr": "gold"}
		})
		if got, err := l.signIn(whenever); err != nil || got.Level != want {
			t.Errorf("acr %v: level = %+v, %v, want %d", acr, got, err, want)
		}
	}
}

func TestAuthTime(t *testing.T) {
	t.Parallel()
	l := open(t)
	for _, tc := range []struct {
		name string
		q    idp.Request
		ago  time.Duration // age of the sign-in there; negative: not stated
		want string
	}{
		{"any age", whenever, 9 * time.Hour, "none"},
		{"young enough", idp.Request{MaxAge: time.Hour}, 50 * time.Minute, "none"},
		{"too old", idp.Request{MaxAge: time.Hour}, 62 * time.Minute, "rejection"},
		{"not said", idp.Request{MaxAge: time.Hour}, -1, "rejection"},
		{"not said and not asked", whenever, -1, "none"},
		{"forced", idp.Request{Force: true, MaxAge: -1}, 0, "none"},
		{"forced, and the address was changed", idp.Request{Force: true, MaxAge: -1}, time.Hour, "rejection"},
		{"in the future", whenever, -2 * time.Hour, "invalid"},
	} {
		at := any(l.clock.Now().Add(-tc.ago).Unix())
		if tc.ago == -1 {
			at = nil
		}
		l.op.Change(func(s *oidctest.Script) { s.IDToken = map[string]any{"auth_time": at} })
		if _, err := l.signIn(tc.q); kind(err) != tc.want {
			t.Errorf("%s: %v, want %s", tc.name, err, tc.want)
		}
	}
}

func TestErrorResponses(t *testing.T) {
	t.Parallel()
	l := open(t)
	for _, tc := range []struct {
		code, want       string
		passive, stopped bool
	}{
		{"access_denied", "rejection", false, true},
		{"user_cancelled_authorize", "rejection", false, true},
		{"login_required", "rejection", true, false},
		{"interaction_required", "rejection", true, false},
		{"consent_required", "rejection", true, false},
		{"server_error", "unknown", false, false},
		{"temporarily_unavailable", "unknown", false, false},
		{"<script>alert(1)</script>", "rejection", false, false},
	} {
		l.op.Change(func(s *oidctest.Script) {
			s.Response = map[string]string{"code": "", "error": tc.code, "error_description": "<script>words</script>"}
		})
		_, err := l.signIn(whenever)
		if kind(err) != tc.want || strings.Contains(err.Error(), "script") {
			t.Errorf("error=%s: %v, want %s without what was sent", tc.code, err, tc.want)
		}
		if r := new(idp.Rejection); errors.As(err, &r) && (r.Passive != tc.passive || r.Cancelled != tc.stopped) {
			t.Errorf("error=%s: Passive = %t, Cancelled = %t, want %t, %t", tc.code, r.Passive, r.Cancelled, tc.passive, tc.stopped)
		}
	}
	if n := l.op.Count("/token"); n != 0 {
		t.Errorf("the token endpoint was asked %d times, want never", n)
	}
}

func TestFormPost(t *testing.T) {
	t.Parallel()
	l := open(t, func(c *oidc.Config) { c.ResponseMode = "form_post" })
	next := l.begin(whenever)
	u, err := url.Parse(l.walk(next))
	if err != nil {
		t.Fatal(err)
	}
	post := func(query string) *http.Request {
		r := httptest.NewRequest(http.MethodPost, "/oidc/corp/callback"+query, strings.NewReader(u.RawQuery))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		return r
	}
	if _, err := l.FlowOf(post("?state=" + flowName)); !isInvalid(err) {
		t.Errorf("parameters in query and body: %v, want invalid", err)
	}
	r := post("")
	if flow, err := l.FlowOf(r); err != nil || flow != flowName {
		t.Fatalf("FlowOf = %q, %v", flow, err)
	}
	if got, err := l.Finish(t.Context(), next.State, r); err != nil || got.Subject != "alice" {
		t.Errorf("Finish = %+v, %v, want alice", got, err)
	}
	if _, err := open(t).FlowOf(post("")); !isInvalid(err) {
		t.Errorf("POST where query was asked for: %v, want invalid", err)
	}
}

func TestUserInfoOverwrites(t *testing.T) {
	t.Parallel()
	l := open(t, func(c *oidc.Config) {
		c.Mapping.Attributes = append(c.Mapping.Attributes, idp.Attribute{From: "dept", To: "dept"}, idp.Attribute{From: "only", To: "only"},
			idp.Attribute{From: "a.b", To: "ab"}, idp.Attribute{From: "acr", To: "acr"})
		c.Mapping.Constants = []idp.Constant{{Detail: "source", Value: "corp"}}
	})
	l.op.Change(func(s *oidctest.Script) {
		s.IDToken = map[string]any{"dept": "old", "only": 7, "a.b": []any{"exact", true}, "a": map[string]any{"b": "nested"}, "acr": "true one"}
		s.UserInfo = map[string]any{"acr": "golden", "dept": "new", "groups": []any{"x", 1, map[string]any{"y": 1}, nil, "line\nend"}}
	})
	got, err := l.signIn(whenever)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string][]string{
		"fullName": {"Alice Example"}, "groups": {"x", "1"}, "city": {"Utrecht"}, "dept": {"new"}, "only": {"7"}, "ab": {"exact", "true"},
		"source": {"corp"}, "acr": {"true one"},
	}
	if diff := cmp.Diff(want, got.Details); diff != "" {
		t.Errorf("details (-want +got):\n%s", diff)
	}
}

// TestVerifiedEmail: proof of one address never counts for another.
func TestVerifiedEmail(t *testing.T) {
	t.Parallel()
	l := open(t)
	for _, tc := range []struct {
		name         string
		id, info     map[string]any
		mail         string
		wantVerified bool
	}{
		{"both at userinfo", nil, nil, "alice@example.org", true},
		{
			"verified in the ID token, other address at userinfo",
			map[string]any{"email": "a@example.org", "email_verified": true},
			map[string]any{"email": "boss@example.org", "email_verified": nil},
			"boss@example.org", false,
		},
		{
			"proof at userinfo, address in the ID token",
			map[string]any{"email": "boss@example.org"},
			map[string]any{"email": nil, "email_verified": true},
			"", false,
		},
		{
			"ID token alone",
			map[string]any{"email": "a@example.org", "email_verified": true},
			map[string]any{"email": nil, "email_verified": nil},
			"a@example.org", true,
		},
		{"as a string", nil, map[string]any{"email_verified": "true"}, "alice@example.org", false},
		{"as another string", nil, map[string]any{"email_verified": "false"}, "alice@example.org", false},
		{"as a number", nil, map[string]any{"email_verified": 1}, "alice@example.org", false},
		{"address with a line end", nil, map[string]any{"email": "a@example.org\nb"}, "", false},
	} {
		l.op.Change(func(s *oidctest.Script) { s.IDToken, s.UserInfo = tc.id, tc.info })
		got, err := l.signIn(whenever)
		if err != nil {
			t.Fatalf("%s: %v", tc.name, err)
		}
		if got.Email != tc.mail || got.EmailVerified != tc.wantVerified {
			t.Errorf("%s: email %q verified %t, want %q %t", tc.name, got.Email, got.EmailVerified, tc.mail, tc.wantVerified)
		}
	}
}

// TestVerifiedEmailAsString: a provider that lets people write their own claims can send any string, so a string does
// not link with someone's account, not even by way of a mapped detail, unless the operator has said so.
func TestVerifiedEmailAsString(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name    string
		strings bool
		claim   any
		want    bool
		detail  []string
	}{
		{"string", false, "true", false, nil},
		{"string, another case", false, "True", false, nil},
		{"boolean", false, true, true, []string{"true"}},
		{"false", false, false, false, []string{"false"}},
		{"string, accepted", true, "true", true, []string{"true"}},
		{"string of another case, accepted", true, "TRUE", false, nil},
		{"number, accepted", true, 1, false, nil},
		{"array, accepted", true, []any{"true"}, false, nil},
	} {
		l := open(t, func(c *oidc.Config) {
			c.EmailVerifiedStrings = tc.strings
			c.Mapping.Attributes = []idp.Attribute{{From: "email_verified", To: "email_verified"}}
		})
		l.op.Change(func(s *oidctest.Script) { s.UserInfo = map[string]any{"email_verified": tc.claim} })
		got, err := l.signIn(whenever)
		if err != nil {
			t.Fatalf("%s: %v", tc.name, err)
		}
		if got.EmailVerified != tc.want || !slices.Equal(got.Details["email_verified"], tc.detail) {
			t.Errorf("%s: verified %t, detail %q, want %t %q", tc.name, got.EmailVerified, got.Details["email_verified"], tc.want, tc.detail)
		}
	}
}

// TestIdentifyBy: a claim identifies a person in addition to sub, and sub belongs to our client id.
func TestIdentifyBy(t *testing.T) {
	t.Parallel()
	for claim, want := range map[string]string{"": "", "oid": "staff-7", "org.number": "7", "groups": "", "nothing": ""} {
		l := open(t, func(c *oidc.Config) { c.IdentifyBy = claim })
		l.op.Change(func(s *oidctest.Script) {
			s.UserInfo = map[string]any{"oid": "staff-7", "org": map[string]any{"number": 7}, "groups": []any{"a", "b"}}
		})
		got, err := l.signIn(whenever)
		if err != nil || got.Stable != want || got.Form != "client "+oidctest.ClientID {
			t.Errorf("identify_by %q: stable %q, form %q, %v, want %q", claim, got.Stable, got.Form, err, want)
		}
	}
}

func TestManualMetadata(t *testing.T) {
	t.Parallel()
	op := oidctest.New(t)
	l := openAs(t, "corp", op, func(c *oidc.Config) {
		c.Metadata = oidc.Metadata{AuthorizationURL: op.URL + "/authorize", TokenURL: op.URL + "/token", JWKSURL: op.URL + "/jwks"}
	})
	got, err := l.signIn(whenever)
	if err != nil || got.Subject != "alice" || got.Email != "" {
		t.Errorf("identity = %+v, %v, want alice without userinfo", got, err)
	}
	if n := op.Count("/.well-known/openid-configuration") + op.Count("/userinfo"); n != 0 {
		t.Errorf("what is not configured was asked %d times", n)
	}
	if next, err := l.End(t.Context(), idp.EndRequest{Flow: flowName}); next != nil || err != nil {
		t.Errorf("End without end_session_url = %+v, %v, want nothing", next, err)
	}
}

// await waits for an effect in the background.
func await(t *testing.T, what string, f func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !f() {
		select {
		case <-ctx.Done():
			t.Fatalf("%s has not come", what)
		case <-tick.C:
		}
	}
}

// TestCheck: an operator reads what is wrong with a provider, and what to do.
func TestCheck(t *testing.T) {
	t.Parallel()
	garbage := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, "<html>welcome")
	}
	for name, c := range map[string]struct {
		config func(*oidc.Config)
		script func(*oidctest.Script)
		failed string // the step; empty: none
		says   string
	}{
		"all is well": {says: "the provider knows the client"},
		"our key pair is gone": {config: func(c *oidc.Config) {
			c.AuthMethod, c.ClientSecret, c.Key = oidc.AuthPrivateKey, secret.String{}, "missing"
		}, failed: "key pairs", says: "missing"},
		"no keys": {
			script: func(s *oidctest.Script) { s.Keys = map[string]any{"keys": []any{}} }, failed: "keys",
			says: "RSA key of 2048 bits",
		},
		"wrong secret": {
			config: func(c *oidc.Config) { c.ClientSecret = secret.New("hush-hush") }, failed: "client authentication",
			says: "compare client id and secret",
		},
		"another issuer": {
			script: func(s *oidctest.Script) { s.Discovery = map[string]any{"issuer": "https://else.example"} },
			failed: "metadata", says: "exactly as the provider does",
		},
		"a page for the metadata": {script: func(s *oidctest.Script) {
			s.Handlers = map[string]http.HandlerFunc{"/.well-known/openid-configuration": garbage}
		}, failed: "metadata", says: "HTML page"},
		"no metadata": {script: func(s *oidctest.Script) {
			s.Handlers = map[string]http.HandlerFunc{"/.well-known/openid-configuration": http.NotFound}
		}, failed: "metadata"},
		"a page for the token": {
			script: func(s *oidctest.Script) { s.Handlers = map[string]http.HandlerFunc{"/token": garbage} },
			failed: "client authentication",
		},
		"not allowed there": {script: func(s *oidctest.Script) {
			s.Handlers = map[string]http.HandlerFunc{"/token": says(400, "unauthorized_client")}
		}, failed: "client authentication", says: "allow the authorization code flow"},
		"an answer that says less": {script: func(s *oidctest.Script) {
			s.Handlers = map[string]http.HandlerFunc{"/token": says(400, "invalid_request")}
		}, says: "tells neither"},
		"a clock that is wrong": {script: func(s *oidctest.Script) {
			s.Handlers = map[string]http.HandlerFunc{"/.well-known/openid-configuration": func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Date", "Mon, 02 Jan 2006 15:04:05 GMT")
				at := "http://" + r.Host
				oidctest.JSON(w, 200, map[string]any{
					"issuer": at, "authorization_endpoint": at + "/authorize", "token_endpoint": at + "/token",
					"jwks_uri": at + "/jwks",
				})
			}}
		}, says: "synchronise the clock"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var change []func(*oidc.Config)
			if c.config != nil {
				change = append(change, c.config)
			}
			l := open(t, change...)
			if c.script != nil {
				l.op.Change(c.script)
			}
			steps := l.Check(t.Context())
			all, failed := "", ""
			for _, s := range steps {
				all += s.Result + " " + s.Name + ": " + s.What + "; " + s.Fix + "\n"
				if s.Result == idp.StepFailed && failed == "" {
					failed = s.Name
				}
			}
			if failed != c.failed || !strings.Contains(all, c.says) || (steps.Err() == nil) != (failed == "") {
				t.Errorf("failed %q, want %q and the words %q:\n%s", failed, c.failed, c.says, all)
			}
			if strings.Contains(all, "hush-hush") || strings.Contains(all, oidctest.ClientSecret) {
				t.Errorf("the secret is in what is shown:\n%s", all)
			}
		})
	}
}

// says answers an error of OAuth.
func says(status int, code string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		oidctest.JSON(w, status, map[string]string{"error": code})
	}
}

func TestClosed(t *testing.T) {
	t.Parallel()
	l := open(t)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Begin(t.Context(), idp.Request{Flow: flowName}); err == nil {
		t.Error("Begin of a closed provider that knows nothing = nil")
	}
}
