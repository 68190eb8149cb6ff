package oidc_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/gatehouse-id/gatehouse/idp"
	"github.com/gatehouse-id/gatehouse/idp/oidc"
	"github.com/gatehouse-id/gatehouse/idp/oidc/oidctest"
)

// TestPasswordGrant asks an old server about passwords by its token endpoint.
func TestPasswordGrant(t *testing.T) {
	t.Parallel()
	l := open(t, func(c *oidc.Config) {
		c.Mapping.Attributes = append(c.Mapping.Attributes, idp.Attribute{From: "preferred_username", To: "username"})
	})
	ask := func(username, password string) (*idp.Identity, error) {
		return l.AskPassword(t.Context(), idp.Credentials{Username: username, Password: password})
	}
	if _, err := ask("alice", "secret"); err == nil || errors.Is(err, idp.ErrCredentials) ||
		!strings.Contains(err.Error(), "unsupported_grant_type") {
		t.Errorf("a server without the grant: %v, want what the operator has to change", err)
	}
	l.op.Change(func(s *oidctest.Script) { s.Passwords = map[string]string{"alice": "secret"} })
	for _, wrong := range [][2]string{{"alice", "guess"}, {"bob", "secret"}, {"alice", ""}, {"alice", "  "}, {"", "secret"}} {
		if _, err := ask(wrong[0], wrong[1]); !errors.Is(err, idp.ErrCredentials) {
			t.Errorf("%q: %v, want ErrCredentials", wrong, err)
		}
	}
	if n := l.op.Count("/token"); n != 3 {
		t.Errorf("%d requests for a token, want 3: an empty password is not sent", n)
	}
	for name, change := range map[string]map[string]any{"with an ID token": nil, "without one": {"id_token": nil}} {
		l.op.Change(func(s *oidctest.Script) { s.Token = change })
		id, err := ask("alice", "secret")
		if err != nil || id.Subject != "alice" || id.Username != "alice" || id.Email != "alice@example.org" || !id.EmailVerified ||
			id.Issuer != l.op.URL || len(id.Held) > 0 {
			t.Errorf("%s: %+v, %v", name, id, err)
		}
	}
	if _, form := l.op.Last("/token"); form.Get("scope") != "openid profile email" || form.Get("client_secret") != "" {
		t.Errorf("asked with scope %q", form.Get("scope"))
	}
	refused := map[string]func(*oidctest.Script){
		"an ID token for somebody else's client": func(s *oidctest.Script) { s.IDToken = map[string]any{"aud": "another"} },
		"an ID token that is old":                func(s *oidctest.Script) { s.IDToken = map[string]any{"exp": 1} },
		"userinfo of another person":             func(s *oidctest.Script) { s.UserInfo = map[string]any{"sub": "bob"} },
		"nobody named": func(s *oidctest.Script) {
			s.Token, s.UserInfo = map[string]any{"id_token": nil}, map[string]any{"sub": nil}
		},
		"garbage": func(s *oidctest.Script) {
			s.Handlers = map[string]http.HandlerFunc{"/token": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) }}
		},
	}
	for name, change := range refused {
		l.op.Change(func(s *oidctest.Script) {
			*s = oidctest.Script{Sub: "alice", Passwords: map[string]string{"alice": "secret"}}
			change(s)
		})
		if id, err := ask("alice", "secret"); err == nil || errors.Is(err, idp.ErrCredentials) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %+v, %v, want an error that is no wrong password", name, id, err)
		}
	}
}
