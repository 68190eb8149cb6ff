package oidc_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/gatehouse-id/gatehouse/idp"
	"github.com/gatehouse-id/gatehouse/idp/oidc"
	"github.com/gatehouse-id/gatehouse/idp/oidc/oidctest"
	"github.com/gatehouse-id/gatehouse/internal/secret"
)

func openItsme(t *testing.T, change ...func(*oidc.Config)) *lab {
	t.Helper()
	var l *lab
	op := oidctest.NewItsme(t, func() (set jose.JSONWebKeySet) {
		w := httptest.NewRecorder()
		if !l.Handle(w, httptest.NewRequest(http.MethodGet, issuer+"/oidc/itsme/jwks", nil), "jwks", nil) {
			t.Error("our keys are not published")
		}
		if err := json.Unmarshal(w.Body.Bytes(), &set); err != nil {
			t.Error(err)
		}
		return set
	})
	l = openAs(t, "itsme", op, append([]func(*oidc.Config){func(c *oidc.Config) {
		c.Preset, c.ClientSecret, c.Scopes, c.ServiceCode = oidc.Itsme, secret.String{}, nil, oidctest.ItsmeService
		c.Issuer += "/v2"
		c.Mapping = idp.Mapping{Attributes: []idp.Attribute{
			{From: "name", To: "name"},
			{From: oidctest.ItsmeNational, To: "nationalNumber"},
			{From: "address.locality", To: "city"},
		}}
	}}, change...)...)
	return l
}

func advanced(c *oidc.Config) { c.SecurityLevel = oidc.ItsmeAdvanced }

// TestItsme: who signs in at itsme, as whom and at which level.
func TestItsme(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		config func(*oidc.Config)
		level  int // that is asked for
		asked  string
		want   int
	}{
		"basic":                        {asked: oidctest.ItsmeBasic, want: 2},
		"advanced":                     {config: advanced, asked: oidctest.ItsmeAdvanced, want: 3},
		"basic, and that is enough":    {level: 2, asked: oidctest.ItsmeBasic, want: 2},
		"more than basic is asked for": {level: 3, asked: oidctest.ItsmeAdvanced, want: 3},
		"more than there is":           {level: 4, asked: oidctest.ItsmeBasic, want: 2},
		"as the operator says":         {config: func(c *oidc.Config) { c.Level = 4 }, asked: oidctest.ItsmeBasic, want: 4},
		"as the operator says for each": {config: func(c *oidc.Config) {
			c.Levels = map[string]int{
				oidctest.ItsmeBasic:    1,
				oidctest.ItsmeAdvanced: 4,
			}
		}, level: 2, asked: oidctest.ItsmeAdvanced, want: 4},
		"only advanced is worth a level": {
			config: func(c *oidc.Config) { c.Levels = map[string]int{oidctest.ItsmeAdvanced: 4} },
			asked:  oidctest.ItsmeBasic, want: 1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var change []func(*oidc.Config)
			if c.config != nil {
				change = append(change, c.config)
			}
			l := openItsme(t, change...)
			got, err := l.signIn(idp.Request{MaxAge: -1, Level: c.level})
			if err != nil {
				t.Fatal(err)
			}
			if got.Issuer != l.op.URL+"/v2" || got.Subject != "6g2k9rgglem2dttw5d51ulkxpv24phwatiu6" || got.Level != c.want ||
				got.Email != "ann@example.com" || got.EmailVerified ||
				!slices.Equal(got.Details["nationalNumber"], []string{"85010244229"}) || !slices.Equal(got.Details["city"], []string{"TONGEREN"}) {
				t.Errorf("%+v, want level %d", got, c.want)
			}
			if _, asked := l.op.Last("/v2/authorization"); asked.Get("acr_values") != c.asked ||
				asked.Get("scope") != "openid profile email service:"+oidctest.ItsmeService {
				t.Errorf("asked %v, want %s", asked, c.asked)
			}
		})
	}
}

// TestItsmeAttacks: what a person, or someone between us and itsme, can change.
func TestItsmeAttacks(t *testing.T) {
	t.Parallel()
	t.Run("attack 590: a sign-in at a lower level than is demanded", func(t *testing.T) {
		t.Parallel()
		for name, c := range map[string]struct {
			config func(*oidc.Config)
			acr    any
			err    string
			level  int
		}{
			"basic for advanced":        {advanced, oidctest.ItsmeBasic, "rejection", 0},
			"none for advanced":         {advanced, nil, "rejection", 0},
			"another for advanced":      {advanced, "urn:strong", "rejection", 0},
			"a list for advanced":       {advanced, []string{oidctest.ItsmeAdvanced}, "rejection", 0},
			"another for basic":         {nil, "urn:strong", "rejection", 0},
			"none for basic":            {nil, nil, "none", 1},
			"advanced for basic":        {nil, oidctest.ItsmeAdvanced, "none", 3},
			"a longer one for advanced": {advanced, oidctest.ItsmeAdvanced + "x", "rejection", 0},
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				var change []func(*oidc.Config)
				if c.config != nil {
					change = append(change, c.config)
				}
				l := openItsme(t, change...)
				l.op.Change(func(s *oidctest.Script) { s.IDToken["acr"] = c.acr })
				got, err := l.signIn(whenever)
				if kind(err) != c.err || err == nil && got.Level != c.level {
					t.Errorf("%+v, %v, want the error %s, level %d", got, err, c.err, c.level)
				}
			})
		}
		// A person takes acr_values out of the address: a higher level for what asks is not reached.
		l := openItsme(t)
		next := l.begin(idp.Request{MaxAge: -1, Level: 3})
		next.URL = strings.Replace(next.URL, url.QueryEscape(oidctest.ItsmeAdvanced), url.QueryEscape(oidctest.ItsmeBasic), 1)
		if got, err := l.Finish(t.Context(), next.State, l.visit(next)); err != nil || got.Level != 2 {
			t.Errorf("%+v, %v, want level 2", got, err)
		}
	})
	t.Run("attack 591: what itsme tells unencrypted, unsigned, for another client", func(t *testing.T) {
		t.Parallel()
		for name, change := range map[string]func(*lab, *oidctest.Script){
			"an ID token that is not encrypted": func(_ *lab, s *oidctest.Script) { s.Seal = nil },
			"user info that is not encrypted":   func(l *lab, s *oidctest.Script) { s.SealUserInfo = l.op.Sign },
			"user info that is JSON":            func(_ *lab, s *oidctest.Script) { s.SealUserInfo = nil },
			"an ID token of another client":     func(_ *lab, s *oidctest.Script) { s.IDToken["aud"] = "another" },
			"user info of another client":       func(_ *lab, s *oidctest.Script) { s.UserInfo["aud"] = "another" },
			"user info of another issuer":       func(_ *lab, s *oidctest.Script) { s.UserInfo["iss"] = "https://evil.example/v2" },
			"user info of another person":       func(_ *lab, s *oidctest.Script) { s.UserInfo["sub"] = "another" },
			"the issuer without its path":       func(l *lab, s *oidctest.Script) { s.IDToken["iss"] = l.op.URL },
			"an ID token of another sign-in":    func(_ *lab, s *oidctest.Script) { s.IDToken["nonce"] = "another" },
			"an encrypted ID token by a stranger": func(l *lab, s *oidctest.Script) {
				s.Seal = func(claims map[string]any) string {
					return oidctest.Encrypt(l.t, jose.Recipient{Algorithm: jose.RSA_OAEP_256, Key: l.key.Public()}, jose.A128CBC_HS256, "",
						oidctest.NewKeys(l.t, "another").Sign(l.t, claims))
				}
			},
			"by a padding that can be guessed": func(l *lab, s *oidctest.Script) {
				s.Seal = func(claims map[string]any) string {
					return oidctest.Encrypt(l.t, jose.Recipient{Algorithm: jose.RSA1_5, Key: l.key.Public()}, jose.A128CBC_HS256, "", //nolint:staticcheck // what must be refused
						l.op.Sign(claims))
				}
			},
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				l := openItsme(t)
				l.op.Change(func(s *oidctest.Script) { change(l, s) })
				if got, err := l.signIn(whenever); !isInvalid(err) {
					t.Errorf("%+v, %v, want it refused", got, err)
				}
			})
		}
	})
	t.Run("attack 591: metadata with a token endpoint on another host", func(t *testing.T) {
		t.Parallel()
		l := openItsme(t)
		other := oidctest.New(t)
		l.op.Change(func(s *oidctest.Script) {
			s.Handlers = map[string]http.HandlerFunc{"/v2/.well-known/openid-configuration": func(w http.ResponseWriter, _ *http.Request) {
				at := l.op.URL + "/v2"
				oidctest.JSON(w, http.StatusOK, map[string]any{
					"issuer": at, "authorization_endpoint": at + "/authorization", "token_endpoint": other.URL + "/token", "jwks_uri": at + "/jwkSet",
					"userinfo_endpoint": at + "/userinfo",
				})
			}}
		})
		if got, err := l.signIn(whenever); kind(err) != "unknown" || other.Count("/token") != 0 {
			t.Errorf("%+v, %v, asked %d times, want no assertion for another host", got, err, other.Count("/token"))
		}
	})
}

// TestItsmeAsked: what is asked for, and what itsme cannot do.
func TestItsmeAsked(t *testing.T) {
	t.Parallel()
	l := openItsme(t, func(c *oidc.Config) {
		c.Key = "itsme"
		c.Scopes, c.Claims = []string{"eid", "service:SOMETHING_ELSE"}, oidc.ClaimsParameter([]string{oidctest.ItsmeNational})
	})
	if _, err := l.Begin(t.Context(), idp.Request{Flow: flowName, MaxAge: -1, Passive: true}); !isRejection(err) {
		t.Errorf("without a page: %v", err)
	}
	got, err := l.signIn(idp.Request{MaxAge: time.Minute, Force: true, Locales: []string{"nl-BE", "nl"}})
	if err != nil || !got.AuthTime.Equal(l.clock.Now()) {
		t.Errorf("a fresh sign-in: %+v, %v", got, err)
	}
	_, asked := l.op.Last("/v2/authorization")
	var claims map[string]map[string]any
	if err := json.Unmarshal([]byte(asked.Get("claims")), &claims); err != nil {
		t.Fatal(err)
	}
	if _, ok := claims["userinfo"][oidctest.ItsmeNational]; !ok || asked.Get("scope") != "openid eid service:"+oidctest.ItsmeService {
		t.Errorf("asked %v", asked)
	}
	steps := l.Check(t.Context())
	if steps.Err() != nil {
		t.Errorf("Check = %+v", steps)
	}
	l.key = oidctest.NewKeys(t, "ours").EC
	if err := l.CheckKeys(t.Context()); err == nil || !strings.Contains(err.Error(), "RSA") {
		t.Errorf("CheckKeys = %v", err)
	}
	if steps := l.Check(t.Context()); steps.Err() == nil {
		t.Errorf("Check = %+v", steps)
	}
}

// TestItsmeOptions: what cannot be meant is refused, in words.
func TestItsmeOptions(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*oidc.Config)
		want   string
	}{
		"no service":          {func(c *oidc.Config) { c.ServiceCode = "" }, `service_code ""`},
		"two scopes":          {func(c *oidc.Config) { c.ServiceCode = "A email" }, `service_code "A email"`},
		"another level":       {func(c *oidc.Config) { c.SecurityLevel = "HIGH" }, `security_level "HIGH"`},
		"another acr":         {func(c *oidc.Config) { c.Levels = map[string]int{"urn:strong": 3} }, `map_level "urn:strong"`},
		"a secret":            {func(c *oidc.Config) { c.ClientSecret = secret.New("x") }, "client_secret"},
		"a service elsewhere": {func(c *oidc.Config) { c.Preset = oidc.Google }, "they are for itsme"},
	} {
		cfg := oidc.Config{Preset: oidc.Itsme, ClientID: "gatehouse", ServiceCode: oidctest.ItsmeService}
		if err := cfg.Validate(); err != nil {
			t.Fatal(err)
		}
		c.change(&cfg)
		if err := cfg.Validate(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}
