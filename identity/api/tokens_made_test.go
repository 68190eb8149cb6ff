package api_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/actiontoken"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/internal/audit"
)

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
		{"login", doing(signingIn()), 100 * time.Second},
		{"app to web", actiontoken.NewActionToken{Actions: actions{signingIn()}, AppToWeb: true}, 50 * time.Second},
		{"coupling", doing(couple("partner", "1")), 200 * time.Second},
		{"both", doing(couple("partner", "1"), signingIn()), 100 * time.Second},
		{"activation", doing(activation()), time.Hour},
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
	other := h.make(ann, doing(signingIn()))
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
		if _, err := h.persons.ActionToken.Make(t.Context(), ann, doing(signingIn()),
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
