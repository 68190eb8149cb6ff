package oauth2

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/idp"
	"github.com/gatehouse-id/gatehouse/idp/idptest"
	"github.com/gatehouse-id/gatehouse/idp/oauth2/oauth2test"
	"github.com/gatehouse-id/gatehouse/internal/secret"
)

const flowName = "a-flow-that-nobody-guesses-0123456789"

// standIn is a provider that behaves like that of a preset.
type standIn struct {
	*oauth2test.Provider

	t      *testing.T
	preset string
}

// newStandIn starts a provider of a person with that profile, who has no list of addresses. Without one it is the
// person of its own.
func newStandIn(t *testing.T, preset, profile string) *standIn {
	t.Helper()
	s := &standIn{oauth2test.New(t, preset), t, preset}
	if profile != "" {
		s.Change(func(sc *oauth2test.Script) { sc.Profile, sc.Emails = profile, "" })
	}
	return s
}

// visit is the answer of the provider after a person has allowed what the address asks.
func (s *standIn) visit(n *idp.Next) *http.Request {
	u, err := url.Parse(n.URL)
	if err != nil {
		s.t.Fatal(err)
	}
	back, err := s.Allow(u.Query())
	if err != nil {
		s.t.Fatalf("the authorization request is %s: %v", n.URL, err)
	}
	return httptest.NewRequest(http.MethodGet, back, nil)
}

// provider is ours, for the stand-in.
func (s *standIn) provider(change ...func(*Config)) *Provider {
	s.t.Helper()
	cfg := Config{
		Preset: s.preset, Issuer: presets[s.preset].Issuer, ClientID: oauth2test.ClientID, ClientSecret: secret.New(oauth2test.ClientSecret),
		AuthorizationURL: s.URL + "/authorize", TokenURL: s.URL + "/token", ProfileURL: s.URL + "/profile?fields=x",
	}
	if s.preset == GitHub {
		cfg.EmailsURL = s.URL + "/emails"
	}
	for _, f := range change {
		f(&cfg)
	}
	var mu sync.Mutex
	used := map[string]bool{}
	p, err := New(cfg, idp.Env{
		ID: "code", Issuer: "https://auth.example.com", Now: time.Now, Random: rand.Reader, Client: s.Server.Client(),
		Checked: &http.Client{Transport: refuseAll{}},
		Once: func(_ context.Context, key string, _ time.Time) error {
			mu.Lock()
			defer mu.Unlock()
			if used[key] {
				return idp.ErrReplayed
			}
			used[key] = true
			return nil
		},
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return p
}

// refuseAll stands for hosts that no one has written.
type refuseAll struct{}

func (refuseAll) RoundTrip(*http.Request) (*http.Response, error) { return nil, errors.New("refused") }

func (s *standIn) signIn(p *Provider) (*idp.Identity, error) {
	s.t.Helper()
	n, err := p.Begin(s.t.Context(), idp.Request{Flow: flowName, MaxAge: -1})
	if err != nil {
		s.t.Fatal(err)
	}
	return p.Finish(s.t.Context(), n.State, s.visit(n))
}

func TestContract(t *testing.T) {
	t.Parallel()
	idptest.TestRedirector(t, func(t *testing.T) idptest.Subject {
		t.Helper()
		s := newStandIn(t, Discord, `{"id":"80351110224678912"}`)
		return idptest.Subject{Redirector: s.provider(), Answer: s.visit}
	})
}

// identities are the people who sign in at each provider.
var identities = map[string]idp.Identity{
	GitHub:   {Issuer: "https://github.com", Subject: "1", Email: "octocat@github.com", EmailVerified: true},
	Discord:  {Issuer: "https://discord.com", Subject: "80351110224678912", Email: "nelly@discord.com", EmailVerified: true},
	Facebook: {Issuer: "https://www.facebook.com", Subject: "10158", Form: "client gatehouse", Email: "ada@example.com"},
	LinkedIn: {Issuer: "https://www.linkedin.com/oauth", Subject: "782bbtaQ", Email: "doe@email.com", EmailVerified: true},
	Twitter:  {Issuer: "https://x.com", Subject: "2244994945", Email: "dev@x.com", EmailVerified: true},
}

func TestPresets(t *testing.T) {
	t.Parallel()
	for preset := range presets {
		t.Run(preset, func(t *testing.T) {
			t.Parallel()
			want, known := identities[preset]
			if !known {
				t.Fatal("nobody at this preset is known")
			}
			s := newStandIn(t, preset, "")
			p := s.provider(func(cfg *Config) {
				cfg.Mapping.Attributes = []idp.Attribute{{From: "name", To: "name"}, {From: "data.name", To: "name"}, {From: "global_name", To: "name"}}
			})
			got, err := s.signIn(p)
			if err != nil {
				t.Fatal(err)
			}
			if got.Issuer != want.Issuer || got.Subject != want.Subject || got.Form != want.Form || got.Email != want.Email ||
				got.EmailVerified != want.EmailVerified || got.Level != 1 || len(got.Held) == 0 {
				t.Errorf("the identity is %+v, want %+v", got, want)
			}
			if (len(got.Details["name"]) == 1) != (preset != Discord) {
				t.Errorf("the details are %v", got.Details)
			}
			if steps := p.Check(t.Context()); steps.Err() != nil || steps[1].Result != idp.StepOK || steps[2].Result != idp.StepOK {
				t.Errorf("Check = %+v", steps)
			}
			if steps := s.provider(func(cfg *Config) { cfg.ClientSecret = secret.New("another secret") }).Check(t.Context()); steps.Err() == nil ||
				strings.Contains(fmt.Sprint(steps), "another") {
				t.Errorf("Check with a wrong secret = %+v", steps)
			}
			if _, err := s.signIn(s.provider(func(cfg *Config) { cfg.ClientSecret = secret.New("another secret") })); err == nil ||
				strings.Contains(err.Error(), "another") {
				t.Errorf("a sign-in with a wrong secret = %v, want an error without it", err)
			}
		})
	}
}

func TestUnverifiedAddresses(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ preset, profile, emails, email string }{
		"GitHub, primary not verified": {
			GitHub, `{"id":1,"email":"a@b.example"}`,
			`[{"email":"a@b.example","verified":false,"primary":true}]`, "a@b.example",
		},
		"GitHub, scope not allowed":      {GitHub, `{"id":1,"email":"a@b.example"}`, "", ""},
		"Discord":                        {Discord, `{"id":"1","email":"a@b.example","verified":false}`, "", "a@b.example"},
		"Discord, a text for a boolean":  {Discord, `{"id":"1","email":"a@b.example","verified":"true"}`, "", "a@b.example"},
		"LinkedIn":                       {LinkedIn, `{"sub":"1","email":"a@b.example","email_verified":false}`, "", "a@b.example"},
		"Facebook never says":            {Facebook, `{"id":"1","email":"a@b.example","verified":true,"email_verified":true}`, "", "a@b.example"},
		"an address that is none":        {Discord, `{"id":"1","email":"nobody","verified":true}`, "", ""},
		"X without an address":           {Twitter, `{"data":{"id":"1"}}`, "", ""},
		"Discord, a list for an address": {Discord, `{"id":"1","email":["a@b.example","c@d.example"],"verified":true}`, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStandIn(t, c.preset, c.profile)
			s.Change(func(sc *oauth2test.Script) { sc.Emails = c.emails })
			got, err := s.signIn(s.provider())
			if err != nil || got.Email != c.email || got.EmailVerified {
				t.Errorf("the identity is %+v, %v, want the address %q, not verified", got, err, c.email)
			}
		})
	}
}

func TestProfilesOfNobody(t *testing.T) {
	t.Parallel()
	for name, profile := range map[string]string{
		"no id": `{"name":"x"}`, "null": `{"id":null}`, "empty": `{"id":""}`, "blank": `{"id":" "}`, "zero": `{"id":0}`,
		"a fraction": `{"id":1.5}`, "an exponent": `{"id":1e3}`, "negative": `{"id":-1}`,
		"true": `{"id":true}`, "a list": `{"id":["1"]}`, "an object": `{"id":{"id":"1"}}`, "twice": `{"id":"1","id":"2"}`,
		"a list of persons": `[{"id":"1"}]`, "no JSON": `id=1`,
		"long": `{"id":"` + strings.Repeat("x", 2000) + `"}`, "deep": strings.Repeat(`{"id":`, 100) + "1" + strings.Repeat("}", 100),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStandIn(t, Discord, profile)
			if got, err := s.signIn(s.provider()); err == nil {
				t.Errorf("the identity is %+v, want none", got)
			}
		})
	}
}

func TestTokenEndpointsThatMisbehave(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ media, body string }{
		"GitHub's error with 200": {"application/json", `{"error":"bad_verification_code"}`},
		"Facebook's error":        {"application/json", `{"error":{"message":"x","type":"OAuthException"}}`},
		"a form":                  {"application/x-www-form-urlencoded", `access_token=the-access-token&token_type=bearer`},
		"no token":                {"application/json", `{"token_type":"bearer"}`},
		"another kind":            {"application/json", `{"access_token":"the-access-token","token_type":"mac"}`},
		"a header in the token":   {"application/json", `{"access_token":"the-access-token\r\nX: 1","token_type":"bearer"}`},
		"a page":                  {"text/html", `<html>`},
		"nothing":                 {"application/json", ``},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStandIn(t, Discord, `{"id":"1"}`)
			s.Change(func(sc *oauth2test.Script) {
				sc.Token = func(w http.ResponseWriter) bool {
					w.Header().Set("Content-Type", c.media)
					io.WriteString(w, c.body) //nolint:errcheck // the client is gone
					return true
				}
			})
			if got, err := s.signIn(s.provider()); err == nil || strings.Contains(err.Error(), "the-access-token") {
				t.Errorf("Finish = %+v, %v, want an error without the token", got, err)
			}
		})
	}
}

func TestAttacks(t *testing.T) {
	t.Parallel()
	s := newStandIn(t, Discord, `{"id":"1"}`)
	p := s.provider()
	begin := func(flow string) *idp.Next {
		n, err := p.Begin(t.Context(), idp.Request{Flow: flow, MaxAge: -1})
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	n := begin(flowName)
	mine := begin("the-flow-of-the-attacker-0123456789abc")
	good := func() url.Values { return s.visit(n).URL.Query() }
	with := func(change func(url.Values)) url.Values {
		v := good()
		change(v)
		return v
	}
	for name, c := range map[string]struct {
		state []byte
		v     url.Values
	}{
		"a code of another sign-in":  {n.State, s.visit(mine).URL.Query()},
		"a code for another browser": {n.State, with(func(v url.Values) { v.Set("code", s.visit(mine).URL.Query().Get("code")) })},
		"two codes":                  {n.State, with(func(v url.Values) { v.Add("code", "x") })},
		"two states":                 {n.State, with(func(v url.Values) { v.Add("state", flowName) })},
		"a token beside the code":    {n.State, with(func(v url.Values) { v.Set("access_token", "the-access-token") })},
		"a code and an error":        {n.State, with(func(v url.Values) { v.Set("error", "access_denied") })},
		"a long code":                {n.State, with(func(v url.Values) { v.Set("code", strings.Repeat("x", 10_000)) })},
		"no flow":                    {nil, good()},
		"another provider's flow": {[]byte(`{"provider":"other","issuer":"https://discord.com","client":"gatehouse","flow":"` +
			flowName + `"}`), good()},
	} {
		r := httptest.NewRequest(http.MethodGet, "https://auth.example.com/oidc/code/callback?"+c.v.Encode(), nil)
		if got, err := p.Finish(t.Context(), c.state, r); !errors.As(err, new(*idp.Invalid)) {
			t.Errorf("%s: Finish = %+v, %v, want it refused", name, got, err)
		}
	}
	r := httptest.NewRequest(http.MethodGet,
		"https://auth.example.com/oidc/code/callback?"+url.Values{"error": {"<script>"}, "state": {flowName}}.Encode(), nil)
	if _, err := p.Finish(t.Context(), n.State, r); !errors.As(err, new(*idp.Rejection)) || strings.Contains(err.Error(), "script") {
		t.Errorf("an error of the provider = %v, want a rejection without its text", err)
	}
}

// TestIssuerOfAnswers: GitHub names itself in its answers, so one that names another provider is refused. How another
// provider names itself is not known.
func TestIssuerOfAnswers(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		preset, authorization, iss string
		good                       bool
	}{
		"GitHub":                {GitHub, "", "https://github.com/login/oauth", true},
		"GitHub without a name": {GitHub, "", "", true},
		"another than GitHub":   {GitHub, "", "https://evil.example", false},
		"our name for GitHub":   {GitHub, "", "https://github.com", false},
		"GitHub Enterprise Server": {
			GitHub, "https://github.corp.example/login/oauth/authorize",
			"https://github.corp.example/login/oauth", true,
		},
		"a preset without one":    {Discord, "", "https://discord.com/api", true},
		"a provider of one's own": {"", "https://forge.example/authorize", "https://forge.example", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStandIn(t, c.preset, `{"id":"1"}`)
			p := s.provider(func(cfg *Config) { cfg.AuthorizationURL, cfg.Subject = c.authorization, "id" })
			n, err := p.Begin(t.Context(), idp.Request{Flow: flowName, MaxAge: -1})
			if err != nil {
				t.Fatal(err)
			}
			r := s.visit(n)
			if c.iss != "" {
				r.URL.RawQuery += "&iss=" + url.QueryEscape(c.iss)
			}
			got, err := p.Finish(t.Context(), n.State, r)
			if c.good && err != nil || !c.good && !errors.As(err, new(*idp.Invalid)) {
				t.Errorf("Finish = %+v, %v, want it accepted: %t", got, err, c.good)
			}
		})
	}
}

// TestStopped: who has gone back at the provider is told apart from who cannot sign in there at all.
func TestStopped(t *testing.T) {
	t.Parallel()
	p := newStandIn(t, LinkedIn, "").provider()
	for failure, want := range map[string]bool{
		"access_denied": true, "user_cancelled_login": true, "user_cancelled_authorize": true,
		"server_error": false, "invalid_scope": false, "unheard_of": false,
	} {
		n, err := p.Begin(t.Context(), idp.Request{Flow: flowName, MaxAge: -1})
		if err != nil {
			t.Fatal(err)
		}
		answer := httptest.NewRequest(http.MethodGet,
			"https://auth.example.com/oidc/code/callback?"+url.Values{"error": {failure}, "state": {flowName}}.Encode(), nil)
		_, err = p.Finish(t.Context(), n.State, answer)
		if no := new(idp.Rejection); !errors.As(err, &no) || no.Cancelled != want || strings.Contains(no.Reason, "unheard") {
			t.Errorf("%s: %v, want a rejection, stopped: %t", failure, err, want)
		}
	}
}

// TestServersOfOnesOwn: people of GitHub Enterprise Server are not those of GitHub with the same numbers, and what they
// have is asked where they are.
func TestServersOfOnesOwn(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		cfg            Config
		issuer, emails string
	}{
		"GitHub": {Config{Preset: GitHub}, "https://github.com", "https://api.github.com/user/emails"},
		"GitHub Enterprise Server": {
			Config{Preset: GitHub, ProfileURL: "https://github.corp.example/api/v3/user"},
			"https://github.corp.example",
			"https://github.corp.example/api/v3/user/emails",
		},
		"its addresses elsewhere": {Config{
			Preset: GitHub, ProfileURL: "https://github.corp.example/api/v3/user",
			EmailsURL: "https://mail.corp.example",
		}, "https://github.corp.example", "https://mail.corp.example"},
		"a newer version": {Config{Preset: Facebook, ProfileURL: "https://graph.facebook.com/v30.0/me"}, "https://www.facebook.com", ""},
	} {
		if got := c.cfg.withDefaults(); got.Issuer != c.issuer || got.EmailsURL != c.emails {
			t.Errorf("%s: issuer %q, addresses at %q, want %q and %q", name, got.Issuer, got.EmailsURL, c.issuer, c.emails)
		}
	}
}

// TestWhatSuchProvidersCannot: no one is taken for freshly signed in whom the provider has only recognised.
func TestWhatSuchProvidersCannot(t *testing.T) {
	t.Parallel()
	p := newStandIn(t, GitHub, `{"id":1}`).provider()
	for name, q := range map[string]idp.Request{
		"without a page": {Flow: flowName, MaxAge: -1, Passive: true}, "again": {Flow: flowName, MaxAge: -1, Force: true},
		"not long ago": {Flow: flowName, MaxAge: time.Hour},
	} {
		rejection := new(idp.Rejection)
		if _, err := p.Begin(t.Context(), q); !errors.As(err, &rejection) || rejection.Passive != q.Passive {
			t.Errorf("%s: Begin = %v, want a rejection", name, err)
		}
	}
}

// TestRefresh reads the profile again by the access token of the sign-in, while that lives.
func TestRefresh(t *testing.T) {
	t.Parallel()
	for preset := range presets {
		t.Run(preset, func(t *testing.T) {
			t.Parallel()
			s := newStandIn(t, preset, "")
			p := s.provider()
			was, err := s.signIn(p)
			if err != nil {
				t.Fatal(err)
			}
			now, err := p.Refresh(t.Context(), was.Held)
			if err != nil || now.Subject != was.Subject || now.Email != was.Email || len(now.Details) != len(was.Details) {
				t.Errorf("Refresh = %+v, %v, want %+v", now, err, was)
			}
			moved := s.provider(func(c *Config) { c.ClientID = "another" })
			if _, err := moved.Refresh(t.Context(), was.Held); err == nil {
				t.Error("Refresh with the token of another client gives an identity")
			}
			var h heldData
			if err := json.Unmarshal(was.Held, &h); err != nil {
				t.Fatal(err)
			}
			h.Until = time.Now().Add(-time.Second)
			ended, err := json.Marshal(h)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := p.Refresh(t.Context(), ended); err == nil {
				t.Error("Refresh with a token that has ended gives an identity")
			}
		})
	}
}

func TestDown(t *testing.T) {
	t.Parallel()
	s := newStandIn(t, Discord, `{"id":"1"}`)
	p := s.provider(func(c *Config) { c.Timeout = 50 * time.Millisecond })
	n, err := p.Begin(t.Context(), idp.Request{Flow: flowName, MaxAge: -1})
	if err != nil {
		t.Fatal(err)
	}
	r := s.visit(n)
	s.Change(func(sc *oauth2test.Script) { sc.Hang = true })
	if _, err := p.Finish(t.Context(), n.State, r); err == nil || errors.As(err, new(*idp.Invalid)) || errors.As(err, new(*idp.Rejection)) {
		t.Errorf("Finish at a provider that hangs = %v, want an error that says nothing of the person", err)
	}
}

func TestConfigErrors(t *testing.T) {
	t.Parallel()
	good := Config{Preset: GitHub, ClientID: "x", ClientSecret: secret.New("y")}
	if err := good.Validate(); err != nil {
		t.Errorf("Validate = %v", err)
	}
	for want, change := range map[string]func(*Config){
		"client_id is missing":     func(c *Config) { c.ClientID = "" },
		"client_secret is missing": func(c *Config) { c.ClientSecret = secret.String{} },
		"there is no preset":       func(c *Config) { c.Preset = "gitlub" },
		"token_url: want https":    func(c *Config) { c.TokenURL = "http://github.com/token" },
		"profile_url: is missing":  func(c *Config) { c.Preset = "" },
		"subject is missing":       func(c *Config) { c.Preset = "" },
		"emails_url: only GitHub":  func(c *Config) { c.Preset, c.EmailsURL = Discord, "https://discord.com/emails" },
		"emails_url: want https":   func(c *Config) { c.EmailsURL = "http://github.corp.example/emails" },
		"auth_method":              func(c *Config) { c.AuthMethod = "none" },
		"level: want":              func(c *Config) { c.Level = 9 },
	} {
		c := good
		change(&c)
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Validate = %v, want one that has %q", err, want)
		}
	}
}
