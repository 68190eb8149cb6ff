package oidc_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/idp"
	"github.com/gatehouse-id/gatehouse/idp/oidc"
	"github.com/gatehouse-id/gatehouse/idp/oidc/oidctest"
)

func TestRefresh(t *testing.T) {
	t.Parallel()
	l := open(t, func(c *oidc.Config) {
		c.Mapping.Attributes = append(c.Mapping.Attributes, idp.Attribute{From: "dept", To: "dept"})
		c.Levels = map[string]int{"gold": 3}
	})
	l.op.Change(func(s *oidctest.Script) { s.IDToken = map[string]any{"dept": "one", "acr": "gold"} })
	was, err := l.signIn(whenever)
	if err != nil {
		t.Fatal(err)
	}
	l.clock.turn(time.Hour)
	before := was.AuthTime.Unix()
	l.op.Change(func(s *oidctest.Script) {
		s.IDToken = map[string]any{"auth_time": before, "nonce": nil}
		s.UserInfo = map[string]any{"dept": "two", "name": "Alice Married"}
	})
	now, err := l.Refresh(t.Context(), was.Held)
	if err != nil {
		t.Fatal(err)
	}
	if now.Subject != "alice" || now.Level != 3 || !now.AuthTime.Equal(was.AuthTime) || now.Details["dept"][0] != "two" || now.Details["fullName"][0] != "Alice Married" {
		t.Errorf("refreshed = %+v", now)
	}
	if string(now.Held) == string(was.Held) {
		t.Error("Held is as before, although the provider has rotated the refresh token")
	}
	if _, err := l.Refresh(t.Context(), was.Held); !isRejection(err) {
		t.Errorf("a spent refresh token: %v, want a rejection", err)
	}
	l.op.Change(func(s *oidctest.Script) {
		s.Token, s.UserInfo = map[string]any{"id_token": nil}, map[string]any{"name": "Alice Again"}
	})
	again, err := l.Refresh(t.Context(), now.Held)
	if err != nil || again.Details["fullName"][0] != "Alice Again" {
		t.Errorf("without a new ID token: %+v, %v", again, err)
	}
	for name, change := range map[string]map[string]any{
		"somebody else": {"sub": "bob", "nonce": nil}, "another sign-in": {"auth_time": before, "nonce": nil}, "another nonce": {"nonce": "other"},
	} {
		l.op.Change(func(s *oidctest.Script) { s.Token, s.IDToken = nil, nil })
		fresh, err := l.signIn(whenever)
		if err != nil {
			t.Fatal(err)
		}
		l.op.Change(func(s *oidctest.Script) { s.IDToken = change })
		if _, err := l.Refresh(t.Context(), fresh.Held); !isInvalid(err) {
			t.Errorf("refreshed ID token of %s: %v, want invalid", name, err)
		}
	}
	l.op.Change(func(s *oidctest.Script) { s.IDToken, s.Token = nil, map[string]any{"refresh_token": nil} })
	without, err := l.signIn(whenever)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.Refresh(t.Context(), without.Held); kind(err) != "unknown" {
		t.Errorf("without a refresh token: %v, want an error that is not a verdict", err)
	}
}

// TestRefreshIsCutShort keeps the rotated refresh token if userinfo fails after it.
func TestRefreshIsCutShort(t *testing.T) {
	t.Parallel()
	l := open(t)
	was, err := l.signIn(whenever)
	if err != nil {
		t.Fatal(err)
	}
	l.op.Change(func(s *oidctest.Script) {
		s.IDToken = map[string]any{"nonce": nil}
		s.Handlers = map[string]http.HandlerFunc{"/userinfo": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) }}
	})
	rotated, err := l.Refresh(t.Context(), was.Held)
	if err == nil || rotated == nil || rotated.Subject != "" || len(rotated.Held) == 0 {
		t.Fatalf("Refresh = %+v, %v, want an error and what is held now", rotated, err)
	}
	l.op.Change(func(s *oidctest.Script) { s.Handlers = nil })
	if now, err := l.Refresh(t.Context(), rotated.Held); err != nil || now.Subject != "alice" {
		t.Errorf("with the rotated token: %+v, %v, want alice", now, err)
	}
}
