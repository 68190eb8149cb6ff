package api_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/identity"
	"github.com/gatehouse-id/gatehouse/identity/actiontoken"
	"github.com/gatehouse-id/gatehouse/identity/api"
	"github.com/gatehouse-id/gatehouse/identity/federation"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/idp/idptest"
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

// doing is a token to be made with these actions.
func doing(of ...actiontoken.Action) actiontoken.NewActionToken {
	return actiontoken.NewActionToken{Actions: of}
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
	return h.make(person, doing(of...)).Token
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
	revoked := h.make(ann, doing(signingIn()))
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
	web := doing(signingIn())
	web.AppToWeb = true
	for _, tt := range []struct {
		name string
		n    actiontoken.NewActionToken
		at   func(*settings.Features) *bool
		code int
	}{
		{"login", doing(signingIn()), func(f *settings.Features) *bool { return &f.ActionToken.Login.Enabled }, 1028},
		{"login_enabled", doing(signingIn()), func(f *settings.Features) *bool { return &f.LoginEnabled }, 1028},
		{"app to web", web, func(f *settings.Features) *bool { return &f.ActionToken.AppToWeb.Enabled }, 1060},
		{"coupling", doing(couple("partner", "1")), func(f *settings.Features) *bool { return &f.ActionToken.Coupling.Enabled }, 1054},
		{"coupling of a session", doing(ofSession("1")), func(f *settings.Features) *bool { return &f.ActionToken.Coupling.Enabled }, 1054},
	} {
		token := h.make(demoID, tt.n).Token
		h.set(func(u *settings.Units) { *tt.at(&u.Features) = false })
		h.process(token).check(t, tt.name+" off", 503, tt.code)
		h.checkToken(token).check(t, tt.name+" off, validate", 400, tt.code)
		h.process(secret4(t)).check(t, tt.name+" off, unknown token", 400, 3011)
		h.set(func(u *settings.Units) { *tt.at(&u.Features) = true })
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
