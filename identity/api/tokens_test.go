package api_test

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/identity"
	"github.com/gatehouse-id/gatehouse/identity/actiontoken"
	"github.com/gatehouse-id/gatehouse/identity/api"
	"github.com/gatehouse-id/gatehouse/identity/federation"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/idp/idptest"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/secret"
)

const (
	tokenPath = "/api/credentials/token"
	checkPath = "/api/credentials/tokens/validate"
	welcome   = "https://app.example.com/welcome"
)

type actions = []actiontoken.Action

func signingIn() actiontoken.Action { return actiontoken.Action{Type: actiontoken.ActionLogin} }

func activation() actiontoken.Action {
	return actiontoken.Action{Type: actiontoken.ActionActivatePerson}
}

func couple(idp, external string) actiontoken.Action {
	return actiontoken.Action{Type: actiontoken.ActionCouple, Parameters: map[string]string{"idp_id": idp, "external_id": external}}
}

func ofSession(id string) actiontoken.Action {
	return actiontoken.Action{Type: actiontoken.ActionCoupleSession, Parameters: map[string]string{"session_id": id}}
}

// newTokens is people with the providers partner and, switched off, old; every feature of action tokens is on.
func newTokens(t testing.TB, change ...func(*identity.Config, *api.Deps)) *people {
	t.Helper()
	h := newPeople(t, append([]func(*identity.Config, *api.Deps){func(c *identity.Config, _ *api.Deps) {
		c.Providers = []federation.Provider{
			{ID: "partner", Source: idptest.New(), Path: "oidc"}, {ID: "old", Source: idptest.New(), Path: "oidc", Disabled: true},
		}
	}}, change...)...)
	h.set(func(u *settings.Units) {
		f := &u.Features.ActionToken
		f.Login.Enabled, f.AppToWeb.Enabled, f.Coupling.Enabled = true, true, true
		f.WhitelistedURLs = []settings.WhitelistedURL{{ID: "1", URL: "https://app.example.com/welcome"}, {ID: "2", URL: "https://good.example/a"}}
	})
	return h
}

// make makes a token by the API.
func (h *people) make(person string, n actiontoken.NewActionToken) actiontoken.ActionToken {
	h.Helper()
	a := h.call(http.MethodPost, "/api/persons/"+person+"/tokens", n)
	var made actiontoken.ActionToken
	if err := json.Unmarshal(a.Body.Bytes(), &made); err != nil || a.status() != 201 ||
		!secret.IsToken(secret.ActionToken, made.Token) || made.ID == "" {
		h.Fatalf("make = %d %s, want 201 with a token", a.status(), a.Body)
	}
	return made
}

func (h *people) token(person string, of ...actiontoken.Action) string {
	h.Helper()
	return h.make(person, actiontoken.NewActionToken{Actions: of}).Token
}

func (h *people) process(token string, header ...string) reply {
	h.Helper()
	return h.call(http.MethodPost, tokenPath, map[string]string{"token": token}, header...)
}

func (h *people) checkToken(token string, header ...string) reply {
	h.Helper()
	return h.call(http.MethodPost, checkPath, map[string]string{"token": token}, header...)
}

// done reads what a token has done.
func (h *people) done(a reply) (d actiontoken.ActionsDone) {
	h.Helper()
	if err := json.Unmarshal(a.Body.Bytes(), &d); err != nil || a.status() != 200 {
		h.Fatalf("token = %d %s, want 200", a.status(), a.Body)
	}
	return d
}

// TestToken has a row for every row of the document about the processing of action tokens.
func TestToken(t *testing.T) {
	t.Parallel()
	h := newTokens(t)
	ann := h.add(person.NewPerson{Username: "ann", Password: secret.New(demoPassword)})
	bob := h.add(person.NewPerson{Username: "bob"})
	newcomer := h.add(person.NewPerson{Username: "newcomer", Inactive: true})
	invited := h.add(person.NewPerson{Username: "invited", Inactive: true})
	h.process(h.token(bob, couple("partner", "4711"))).check(t, "bob's identity", 200, 0)
	blocked := h.add(person.NewPerson{Username: "blocked"})
	blockedLogin, blockedCouple := h.token(blocked, signingIn()), h.token(blocked, couple("partner", "9"))
	h.setState("blocked", person.Blocked)
	revoked := h.make(ann, actiontoken.NewActionToken{Actions: actions{signingIn()}})
	h.call(http.MethodDelete, "/api/persons/"+ann+"/tokens/"+revoked.ID, nil).check(t, "revoke", 204, 0)
	for _, tt := range []struct {
		name, token  string
		status, code int
		failed       string
	}{
		{"login", h.token(ann, signingIn()), 200, 0, ""},
		{"coupling", h.token(ann, couple("partner", "0815")), 200, 0, ""},
		{"coupling an identity that the person has already", h.token(ann, couple("partner", "0815")), 200, 0, ""},
		{"activation", h.token(newcomer, activation()), 200, 0, ""},
		{"activation and login, in any order", h.token(invited, signingIn(), activation()), 200, 0, ""},

		{"unknown", secret4(t), 400, 3011, ""},
		{"no token at all", "token", 400, 3011, ""},
		{"revoked", revoked.Token, 400, 3011, ""},
		{"blocked", blockedLogin, 400, 1009, ""},
		{"blocked, for coupling", blockedCouple, 400, 1009, ""},
		{"coupled with another", h.token(ann, couple("partner", "4711")), 400, 1052, "COUPLE_EXTERNAL_IDP_FROM_PARAMETERS"},
		{"a second identity at the provider", h.token(bob, couple("partner", "4712")), 400, 3012, "COUPLE_EXTERNAL_IDP_FROM_PARAMETERS"},
		{"no such provider", h.token(ann, couple("nowhere", "1")), 400, 1056, "COUPLE_EXTERNAL_IDP_FROM_PARAMETERS"},
		{"a provider that is switched off", h.token(ann, couple("old", "1")), 400, 1056, "COUPLE_EXTERNAL_IDP_FROM_PARAMETERS"},
		{"the service itself as provider", h.token(ann, couple("identity", "1")), 400, 1056, "COUPLE_EXTERNAL_IDP_FROM_PARAMETERS"},
		{"no such session", h.token(ann, ofSession("0123456789abcdef")), 400, 3012, "COUPLE_EXTERNAL_IDP_FROM_SESSION"},
		{"activation of who is active", h.token(ann, activation()), 400, 3012, "PERSON_ACTIVATION"},
		{"login of who is inactive", h.token(h.add(person.NewPerson{Username: "still", Inactive: true}), signingIn()), 400, 1063, "LOGIN"},
	} {
		a := h.process(tt.token)
		a.check(t, tt.name, tt.status, tt.code)
		if want := `{"failed_actions":["` + tt.failed + `"]}`; tt.failed != "" && string(a.Details) != want {
			t.Errorf("%s: details %s, want %s", tt.name, a.Details, want)
		}
		if tt.status == 200 {
			h.process(tt.token).check(t, tt.name+", again", 400, 3011)
		}
	}
	for name, body := range map[string]any{
		"nothing": "", "no token": "{}", "an empty token": `{"token":""}`, "a number": `{"token":1}`,
		"another member": `{"token":"x","admin":true}`,
	} {
		for _, path := range []string{tokenPath, checkPath} {
			h.call(http.MethodPost, path, body).check(t, name+" to "+path, 400, 3001)
			h.call(http.MethodPost, path, body, "Authorization", "none").check(t, name+" to "+path+" without credentials", 401, 0)
		}
	}
	h.holdsNoSecret()
}

// secret4 is an unknown token.
func secret4(t testing.TB) string {
	t.Helper()
	token, err := secret.NewToken(strings.NewReader(strings.Repeat("x", 32)), secret.ActionToken)
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// TestTokenAnswer holds the answer against the document.
func TestTokenAnswer(t *testing.T) {
	t.Parallel()
	h := newTokens(t)
	made := h.make(h.person(demo), actiontoken.NewActionToken{Actions: actions{couple("partner", "4711")}, RedirectURI: welcome, TTL: 60})
	if want := h.clock.Now().Add(time.Minute); !made.ExpiresAt.Equal(want) {
		t.Errorf("expires_at = %v, want %v", made.ExpiresAt, want)
	}
	const want = `{"profile":{"email_addresses":[{"primary":true,"verified":true,"value":"demo@example.com"}],"name":{"display_name":"Demo Person"}},` +
		`"results":[{"type":"COUPLE_EXTERNAL_IDP_FROM_PARAMETERS","execution_status":"SUCCESS","parameters":{"external_id":"4711","idp_id":"partner"}}],` +
		`"redirect_uri":"https://app.example.com/welcome"}`
	if a := h.process(made.Token); a.status() != 200 || a.Body.String() != want {
		t.Errorf("token = %d\n%s, want\n%s", a.status(), a.Body, want)
	}
	d := h.done(h.process(h.make(h.person(demo), actiontoken.NewActionToken{Actions: actions{signingIn()}, RedirectURI: welcome}).Token))
	if !strings.HasPrefix(d.RedirectURI, issuer+"/sign-in/token?ticket=ghlt_") {
		t.Errorf("redirect_uri of a login = %q, want a page of Gatehouse", d.RedirectURI)
	}
	types := map[string]int{}
	for _, e := range h.events() {
		types[e.Type]++
	}
	if types["person.ActionTokenCreatedEvent"] != 2 || types["person.ActionTokenProcessedEvent"] != 2 ||
		types["person.ExternalIdentityCoupledEvent"] != 1 {
		t.Errorf("events = %v", types)
	}
}

// TestActionTokenSwitches: each feature, in both operations, and at once.
func TestActionTokenSwitches(t *testing.T) {
	t.Parallel()
	h := newTokens(t)
	demoID := h.person(demo)
	web := actiontoken.NewActionToken{Actions: actions{signingIn()}, AppToWeb: true}
	for _, tt := range []struct {
		name   string
		n      actiontoken.NewActionToken
		change func(u *settings.Units, on bool)
		code   int
	}{
		{
			"login",
			actiontoken.NewActionToken{Actions: actions{signingIn()}},
			func(u *settings.Units, on bool) { u.Features.ActionToken.Login.Enabled = on }, 1028,
		},
		{
			"login_enabled",
			actiontoken.NewActionToken{Actions: actions{signingIn()}},
			func(u *settings.Units, on bool) { u.Features.LoginEnabled = on }, 1028,
		},
		{"app to web", web, func(u *settings.Units, on bool) { u.Features.ActionToken.AppToWeb.Enabled = on }, 1060},
		{
			"coupling",
			actiontoken.NewActionToken{Actions: actions{couple("partner", "1")}},
			func(u *settings.Units, on bool) { u.Features.ActionToken.Coupling.Enabled = on }, 1054,
		},
		{
			"coupling of a session",
			actiontoken.NewActionToken{Actions: actions{ofSession("1")}},
			func(u *settings.Units, on bool) { u.Features.ActionToken.Coupling.Enabled = on }, 1054,
		},
	} {
		token := h.make(demoID, tt.n).Token
		h.set(func(u *settings.Units) { tt.change(u, false) })
		h.process(token).check(t, tt.name+" off", 503, tt.code)
		h.checkToken(token).check(t, tt.name+" off, validate", 400, tt.code)
		h.process(secret4(t)).check(t, tt.name+" off, unknown token", 400, 3011)
		h.set(func(u *settings.Units) { tt.change(u, true) })
		h.checkToken(token).check(t, tt.name+" on, validate", 204, 0)
	}
	token := h.make(demoID, web).Token
	h.set(func(u *settings.Units) { u.Features.ActionToken.Login.Enabled = false })
	h.process(token).check(t, "app to web does not need login", 200, 0)
	h.set(func(u *settings.Units) { u.Features.CredentialsAPIEnabled = false })
	h.process(secret4(t)).check(t, "the API off", 503, 1001)
	h.checkToken(secret4(t)).check(t, "the API off, validate", 503, 1001)
	h.set(func(u *settings.Units) { u.Features.PersonAPIEnabled = false })
	h.call(http.MethodPost, "/api/persons/"+demoID+"/tokens", web).check(t, "the person API off", 503, 0)
}

// TestActionTokenTTL: of the configuration where the maker does not say, the shortest of the actions.
func TestActionTokenTTL(t *testing.T) {
	t.Parallel()
	h := newTokens(t)
	h.set(func(u *settings.Units) {
		f := &u.Features.ActionToken
		f.Login.TTL, f.AppToWeb.TTL, f.Coupling.TTL = 100, 50, 200
	})
	demoID := h.person(demo)
	for _, tt := range []struct {
		name string
		n    actiontoken.NewActionToken
		want time.Duration
	}{
		{"login", actiontoken.NewActionToken{Actions: actions{signingIn()}}, 100 * time.Second},
		{"app to web", actiontoken.NewActionToken{Actions: actions{signingIn()}, AppToWeb: true}, 50 * time.Second},
		{"coupling", actiontoken.NewActionToken{Actions: actions{couple("partner", "1")}}, 200 * time.Second},
		{"both", actiontoken.NewActionToken{Actions: actions{couple("partner", "1"), signingIn()}}, 100 * time.Second},
		{"activation", actiontoken.NewActionToken{Actions: actions{activation()}}, time.Hour},
		{"said by its maker", actiontoken.NewActionToken{Actions: actions{signingIn()}, TTL: 7}, 7 * time.Second},
	} {
		made := h.make(demoID, tt.n)
		if got := made.ExpiresAt.Sub(h.clock.Now()); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
		h.clock.Advance(tt.want)
		h.checkToken(made.Token).check(t, tt.name+" at its end", 401, 3011)
		h.process(made.Token).check(t, tt.name+" at its end", 400, 3011)
	}
}

// TestMakeToken: the members of a request, and the callers that are allowed to make one.
func TestMakeToken(t *testing.T) {
	t.Parallel()
	h := newTokens(t)
	demoID := h.person(demo)
	path := "/api/persons/" + demoID + "/tokens"
	many := make(actions, 11)
	for i := range many {
		many[i] = couple("partner", "x")
	}
	removed := h.add(person.NewPerson{Username: "removed"})
	h.setState("removed", person.Removed)
	type m = map[string]any
	for _, tt := range []struct {
		name, path string
		body       any
		status     int
	}{
		{"no actions", path, m{}, 400},
		{"empty actions", path, m{"actions": actions{}}, 400},
		{"too many actions", path, m{"actions": many}, 400},
		{"an unknown action", path, m{"actions": actions{{Type: "login"}}}, 400},
		{"login twice", path, m{"actions": actions{signingIn(), signingIn()}}, 400},
		{"a parameter missing", path, m{"actions": actions{{Type: actiontoken.ActionCouple, Parameters: map[string]string{"idp_id": "x"}}}}, 400},
		{"a parameter empty", path, m{"actions": actions{couple("partner", "")}}, 400},
		{"a parameter too long", path, m{"actions": actions{couple("partner", strings.Repeat("x", 513))}}, 400},
		{"a parameter with a control character", path, m{"actions": actions{couple("partner", "a\x00b")}}, 400},
		{
			"a parameter that is unknown", path,
			m{"actions": actions{{Type: actiontoken.ActionLogin, Parameters: map[string]string{"level": "4"}}}},
			400,
		},
		{"negative ttl", path, m{"actions": actions{signingIn()}, "ttl": -1}, 400},
		{"endless ttl", path, m{"actions": actions{signingIn()}, "ttl": 31536001}, 400},
		{"no time at all", path, m{"actions": actions{signingIn()}, "ttl": 0}, 400},
		{"a second", path, m{"actions": actions{signingIn()}, "ttl": 1}, 201},
		{"level 0", path, m{"actions": actions{signingIn()}, "authentication_level": 0}, 400},
		{"level 3, above the max_level of the client", path, m{"actions": actions{signingIn()}, "authentication_level": 3}, 400},
		{"level 2, its max_level", path, m{"actions": actions{signingIn()}, "authentication_level": 2}, 201},
		{"level 5", path, m{"actions": actions{signingIn()}, "authentication_level": 5}, 400},
		{"a level without a login", path, m{"actions": actions{activation()}, "authentication_level": 2}, 400},
		{"app to web without a login", path, m{"actions": actions{activation()}, "app_to_web": true}, 400},
		{"an unknown member", path, m{"actions": actions{signingIn()}, "person": "x"}, 400},
		{"an unknown person", "/api/persons/0198aaaa-0000-7000-8000-00000000000a/tokens", m{"actions": actions{signingIn()}}, 404},
		{"a username", "/api/persons/" + demo + "/tokens", m{"actions": actions{signingIn()}}, 404},
		{"removed", "/api/persons/" + removed + "/tokens", m{"actions": actions{signingIn()}}, 404},
		{"an id in upper case", "/api/persons/" + strings.ToUpper(demoID) + "/tokens", m{"actions": actions{signingIn()}}, 201},
	} {
		if a := h.call(http.MethodPost, tt.path, tt.body); a.status() != tt.status {
			t.Errorf("%s = %d %s, want %d", tt.name, a.status(), a.Body, tt.status)
		}
	}
	h.call(http.MethodPost, path, m{"actions": actions{signingIn()}}, "Authorization", "none").check(t, "without credentials", 401, 0)
	if a := h.call(http.MethodGet, path, nil); a.status() != 405 || a.Header().Get("Allow") != "DELETE, POST" {
		t.Errorf("GET = %d %q, want 405", a.status(), a.Header().Get("Allow"))
	}
}

func TestRevokeTokens(t *testing.T) {
	t.Parallel()
	h := newTokens(t)
	demoID, ann := h.person(demo), h.add(person.NewPerson{Username: "ann"})
	var tokens []string
	for range 3 {
		tokens = append(tokens, h.token(demoID, signingIn()))
	}
	other := h.make(ann, actiontoken.NewActionToken{Actions: actions{signingIn()}})
	h.call(http.MethodDelete, "/api/persons/"+demoID+"/tokens/"+other.ID, nil).check(t, "another person's token", 404, 0)
	h.call(http.MethodDelete, "/api/persons/"+demoID+"/tokens", nil).check(t, "all", 204, 0)
	h.call(http.MethodDelete, "/api/persons/"+demoID+"/tokens", nil).check(t, "none", 204, 0)
	for _, token := range tokens {
		h.process(token).check(t, "revoked", 400, 3011)
	}
	h.checkToken(other.Token).check(t, "another person's token", 204, 0)
	h.call(http.MethodDelete, "/api/persons/"+ann+"/tokens/"+other.ID, nil).check(t, "one", 204, 0)
	h.call(http.MethodDelete, "/api/persons/"+ann+"/tokens/"+other.ID, nil).check(t, "one again", 404, 0)
	h.call(http.MethodDelete, "/api/persons/0198aaaa-0000-7000-8000-00000000000a/tokens", nil).check(t, "nobody", 404, 0)
	for range 1203 { // more than one transaction bears
		if _, err := h.persons.ActionToken.Make(t.Context(), ann, actiontoken.NewActionToken{Actions: actions{signingIn()}},
			audit.Actor{}); err != nil {
			t.Fatal(err)
		}
	}
	h.call(http.MethodDelete, "/api/persons/"+ann+"/tokens", nil).check(t, "many", 204, 0)
	for key := range h.dump() {
		if strings.Contains(key, "identity_action_token") {
			t.Fatalf("%q is still there", key)
		}
	}
}

// TestTokenAllOrNothing: a failing action undoes the others, and the token can be used when the cause is gone.
func TestTokenAllOrNothing(t *testing.T) {
	t.Parallel()
	h := newTokens(t)
	ann, bob := h.add(person.NewPerson{Username: "ann", Inactive: true}), h.add(person.NewPerson{Username: "bob"})
	h.process(h.token(bob, couple("partner", "taken"))).check(t, "bob's identity", 200, 0)
	token := h.token(ann, activation(), signingIn(), couple("partner", "taken"))
	before := h.dump()
	a := h.process(token)
	a.check(t, "one action fails", 400, 1052)
	if string(a.Details) != `{"failed_actions":["COUPLE_EXTERNAL_IDP_FROM_PARAMETERS"]}` {
		t.Errorf("details = %s", a.Details)
	}
	after := h.dump()
	for key, value := range after {
		if before[key] != value {
			t.Errorf("%q has changed", key)
		}
	}
	if len(after) != len(before) {
		t.Errorf("%d records, want %d", len(after), len(before))
	}
	h.setState("bob", person.Removed)
	d := h.done(h.process(token))
	var types []string
	for _, r := range d.Results {
		types = append(types, r.Type+" "+r.Status)
	}
	if !slices.Equal(types, []string{"PERSON_ACTIVATION SUCCESS", "LOGIN SUCCESS", "COUPLE_EXTERNAL_IDP_FROM_PARAMETERS SUCCESS"}) {
		t.Errorf("results = %v", types)
	}
	if p, err := h.persons.Person.Person(t.Context(), ann); err != nil || p.State != person.Active {
		t.Errorf("ann = %+v, %v, want active", p, err)
	}
	h.process(token).check(t, "again", 400, 3011)
}

// TestActionTokenRedirectURI: the whitelist, when the token is made and when it is used.
func TestActionTokenRedirectURI(t *testing.T) {
	t.Parallel()
	h := newTokens(t)
	demoID := h.person(demo)
	path := "/api/persons/" + demoID + "/tokens"
	try := func(to string) int {
		return h.call(http.MethodPost, path, actiontoken.NewActionToken{Actions: actions{signingIn()}, RedirectURI: to}).status()
	}
	for _, to := range []string{"https://good.example/a", "https://good.example/a/b", "https://good.example/a?x=1", welcome} {
		if got := try(to); got != 201 {
			t.Errorf("redirect_uri %q = %d, want 201", to, got)
		}
	}
	t.Run("attack 233: redirect_uri of an action token that only looks like a whitelisted URL", func(t *testing.T) {
		for _, to := range []string{
			"https://good.example.evil.example/a", "https://good.example@evil.example/a", "//evil.example/a", "https:evil.example",
			`\\evil.example`, `https:\\evil.example`,
			"https://good.example/a/../b", "https://good.example/aX", "https://good.example/", "https://good.example", "HTTPS://GOOD.EXAMPLE/a",
			"https://GOOD.example/a",
			"https://good.example:8443/a", "https://good.example:443/a", "https://good.example/a\t", "https://good.example/a\n",
			" https://good.example/a",
			"https://good.example/a/%2e%2e/b", "https://good.example%2f@evil.example/a", "https://gооd.example/a",
			"https://xn--good-example/a", "http://good.example/a",
			"javascript:alert(1)", "/account", "good.example/a", "https://good.example/a/%00",
		} {
			if got := try(to); got != 400 {
				t.Errorf("redirect_uri %q = %d, want 400", to, got)
			}
		}
	})
	token := h.make(demoID, actiontoken.NewActionToken{Actions: actions{signingIn()}, RedirectURI: welcome}).Token
	h.set(func(u *settings.Units) { u.Features.ActionToken.WhitelistedURLs = nil })
	a := h.process(token)
	a.check(t, "taken off the list since", 400, 3012)
	if string(a.Details) != `{"failed_actions":["LOGIN"]}` {
		t.Errorf("details = %s", a.Details)
	}
}

func TestTokenAttacks(t *testing.T) {
	t.Parallel()
	t.Run("attack 231: a token twice, sixty-four times at once, a second late, after a change of the password, with a bit flipped, of another partition", func(t *testing.T) {
		t.Parallel()
		h := newTokens(t, func(c *identity.Config, _ *api.Deps) { c.Partitions.On = true })
		demoID := h.person(demo)
		twice := h.token(demoID, couple("partner", "1"))
		h.process(twice).check(t, "first", 200, 0)
		h.process(twice).check(t, "second", 400, 3011)

		at := h.token(demoID, signingIn())
		var mu sync.Mutex
		n := map[int]int{}
		var all sync.WaitGroup
		for range 64 {
			all.Go(func() {
				a := h.process(at)
				mu.Lock()
				defer mu.Unlock()
				n[a.Code]++
			})
		}
		all.Wait()
		if n[0] != 1 || n[3011] != 63 {
			t.Errorf("at once: codes %v, want one success and 3011 for the rest", n)
		}
		tickets := 0
		for key := range h.dump() {
			if strings.Contains(key, "identity_sign_in_ticket") {
				tickets++
			}
		}
		if tickets != 1 {
			t.Errorf("%d sign-ins were prepared, want 1", tickets)
		}

		late := h.make(demoID, actiontoken.NewActionToken{Actions: actions{signingIn()}, TTL: 60}).Token
		h.clock.Advance(61 * time.Second)
		h.process(late).check(t, "a second late", 400, 3011)

		token := h.token(demoID, signingIn())
		for i := range token {
			flipped := []byte(token)
			flipped[i] ^= 1
			h.clock.Advance(time.Second)
			h.process(string(flipped)).check(t, "flipped", 400, 3011)
		}
		h.process(token, "X-Service-Persons-Partition-Id", "west").check(t, "another partition", 400, 3011)
		h.checkToken(token, "X-Service-Persons-Partition-Id", "west").check(t, "another partition, validate", 401, 3011)
		h.call(http.MethodPost, "/api/persons/"+demoID+"/tokens", actiontoken.NewActionToken{Actions: actions{signingIn()}},
			"X-Service-Persons-Partition-Id", "west").
			check(t, "made from another partition", 404, 0)
		h.call(http.MethodDelete, "/api/persons/"+demoID+"/tokens", nil, "X-Service-Persons-Partition-Id", "west").check(t,
			"revoked from another partition", 404, 0)
		h.process(token, "X-Service-Persons-Partition-Id", "default", "X-Service-Persons-Partition-Id", "west").check(t,
			"two partitions", 400, 3001)
		if err := h.persons.Person.SetPassword(t.Context(), demoID, secret.New("another password 2"), audit.Actor{}); err != nil {
			t.Fatal(err)
		}
		h.process(token).check(t, "after a change of the password", 400, 3011)
		h.checkToken(token).check(t, "after a change of the password, validate", 401, 3011)
	})
	t.Run("attack 232: validate, then process, and the reverse", func(t *testing.T) {
		t.Parallel()
		h := newTokens(t)
		token := h.token(h.person(demo), couple("partner", "1"))
		for range 3 {
			if a := h.checkToken(token); a.status() != 204 || a.Body.Len() != 0 {
				t.Errorf("validate = %d %s, want 204 as often as it is asked", a.status(), a.Body)
			}
		}
		h.process(token).check(t, "process after validate", 200, 0)
		h.checkToken(token).check(t, "validate after process", 401, 3011)
		h.process(token).check(t, "process again", 400, 3011)
	})
	t.Run("attack 244: every path by every method, without credentials, with wrong ones, without the right", func(t *testing.T) {
		t.Parallel()
		h := newTokens(t)
		h.set(func(u *settings.Units) { u.Features.CredentialsAPIEnabled, u.Features.PersonAPIEnabled = false, false })
		for _, path := range []string{validatePath, tokenPath, checkPath, "/api/persons/x/tokens", "/api/persons/x/tokens/y"} {
			for _, method := range []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "PURGE"} {
				for name, header := range map[string][]string{
					"none": {"Authorization", "none"}, "wrong": {"Authorization", "Basic " + base64.StdEncoding.EncodeToString([]byte("ops:guess"))},
				} {
					if a := h.call(method, path, "{", header...); a.status() != 401 || !strings.HasPrefix(a.Header().Get("WWW-Authenticate"), "Basic ") {
						t.Errorf("%s %s with %s credentials = %d, want 401", method, path, name, a.status())
					}
				}
				if a := h.call(method, path, "{", "Authorization",
					"Basic "+base64.StdEncoding.EncodeToString([]byte("other:secret of other"))); a.status() != 403 {
					t.Errorf("%s %s without the right = %d, want 403", method, path, a.status())
				}
				if a := h.call(method, path, "{"); a.status() != 503 {
					t.Errorf("%s %s switched off = %d, want 503 after authentication", method, path, a.status())
				}
			}
		}
	})
	t.Run("attack 247: ids in paths that are paths, NUL, quotes, placeholders, 10 kB", func(t *testing.T) {
		t.Parallel()
		h := newTokens(t)
		demoID := h.person(demo)
		for _, id := range []string{
			"..%2f" + demoID, "%00", demoID + "%00", "'%20OR%201=1--", "%7Benv.HOME%7D", strings.Repeat("x", 10_000),
			demoID + "%2ftokens", "identity",
		} {
			for _, path := range []string{"/api/persons/" + id + "/tokens", "/api/persons/" + demoID + "/tokens/" + id} {
				if a := h.call(http.MethodDelete, path, nil); a.status() != 404 {
					t.Errorf("DELETE %.80s = %d %s, want 404", path, a.status(), a.Body)
				}
			}
		}
	})
	t.Run("attack 248,249,251: members that are not there, twice, in another case; bodies too deep and too large", func(t *testing.T) {
		t.Parallel()
		h := newTokens(t)
		token := h.token(h.person(demo), signingIn())
		for _, body := range []string{
			`{"token":"` + token + `","person":"x"}`, `{"token":"` + token + `","token":"` + token + `"}`, `{"Token":"` + token + `"}`,
			`{"to\u212Aen":"` + token + `"}`,
			`{"token":"` + token + `"}{}`, `{"token":null}`, strings.Repeat(`{"token":`, 100_000), `{"token":` + strings.Repeat("[", 1000),
		} {
			if a := h.call(http.MethodPost, tokenPath, body); a.status() != 400 && a.status() != 413 {
				t.Errorf("body %.80s = %d %s, want 400 or 413", body, a.status(), a.Body)
			}
		}
		h.checkToken(token).check(t, "the token afterwards", 204, 0)
	})
	t.Run("attack 269: tokens of a person who was removed, for a person of the same username", func(t *testing.T) {
		t.Parallel()
		h := newTokens(t)
		ann := h.add(person.NewPerson{Username: "ann"})
		token := h.token(ann, signingIn())
		h.setState("ann", person.Removed)
		h.add(person.NewPerson{Username: "ann"})
		h.process(token).check(t, "the old token", 400, 3011)
		h.checkToken(token).check(t, "the old token, validate", 401, 3011)
	})
}

// TestTokenOfAnAdministrator: an API client signs in, and links, no one with a role in the console: neither by a token
// that it makes now, nor by one of before the person got the role.
func TestTokenOfAnAdministrator(t *testing.T) {
	t.Parallel()
	var role atomic.Bool
	h := newTokens(t, func(c *identity.Config, _ *api.Deps) {
		c.HasRole = func(string, []string) bool { return role.Load() }
	})
	demoID := h.person(demo)
	for name, n := range map[string]actiontoken.NewActionToken{
		"a sign-in":                    {Actions: actions{signingIn()}},
		"a sign-in at level 1":         {Actions: actions{signingIn()}, Level: 1},
		"a sign-in from an app":        {Actions: actions{signingIn()}, AppToWeb: true},
		"a link":                       {Actions: actions{couple("partner", "1")}},
		"a link to a session":          {Actions: actions{ofSession("x")}},
		"a sign-in after another link": {Actions: actions{couple("partner", "2"), signingIn()}},
	} {
		role.Store(false)
		before := h.make(demoID, n).Token
		role.Store(true)
		t.Run("attack 7229: "+name, func(t *testing.T) {
			h.call(http.MethodPost, "/api/persons/"+demoID+"/tokens", n).check(t, "made", 400, 0)
			h.process(before).check(t, "made before the role", 400, 3012)
		})
	}
	for key := range h.dump() {
		if strings.Contains(key, "identity_sign_in_ticket") {
			t.Error("a sign-in was prepared")
		}
	}
	role.Store(false)
	h.process(h.token(demoID, signingIn())).check(t, "without a role", 200, 0)
}
