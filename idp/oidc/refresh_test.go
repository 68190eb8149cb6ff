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
	l.clock.Advance(time.Hour)
	before := was.AuthTime.Unix()
	l.op.Change(func(s *oidctest.Script) {
		s.IDToken = map[string]any{"auth_time": before, "nonce": nil}
		s.UserInfo = map[string]any{"dept": "two", "name": "Alice Married"}
	})
	now, err := l.Refresh(t.Context(), was.Held)
	if err != nil {
		t.Fatal(err)
	}
	if now.Subject != "alice" || now.Level != 3 || !now.AuthTime.Equal(was.AuthTime) || now.Details["dept"][0] != "two" ||
		now.Details["fullName"][0] != "Alice Married" {
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
		"somebody else": {"sub": "bob", "nonce": nil}, "another sign-in": {"auth_time": before, "nonce": nil},
		"another nonce": {"nonce": "other"},
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
	l.op.Change(func(s *oidctest.Script) {
		s.IDToken, s.Token = nil, map[string]any{"refresh_token": nil, "expires_in": 60}
	})
	without, err := l.signIn(whenever)
	if err != nil {
		t.Fatal(err)
	}
	l.clock.Advance(48 * time.Hour)
	if _, err := l.Refresh(t.Context(), without.Held); kind(err) != "unknown" {
		t.Errorf("without a refresh token: %v, want an error that is not a verdict", err)
	}
}

// TestRefreshWithoutRefreshToken asks userinfo with the access token of the sign-in, as long as that lives.
func TestRefreshWithoutRefreshToken(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		life   any
		lasts  time.Duration // how long it is asked
		endsAt time.Duration // when it is not any more. Zero: the provider says so
	}{
		"the access token lives for an hour":        {3600, 59 * time.Minute, time.Hour},
		"its end is written as a text":              {"3600", 59 * time.Minute, time.Hour},
		"the provider does not say how long":        {nil, 48 * time.Hour, 0},
		"the provider says something else for that": {"soon", 48 * time.Hour, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := open(t)
			l.op.Change(func(s *oidctest.Script) { s.Token = map[string]any{"refresh_token": nil, "expires_in": tt.life} })
			was, err := l.signIn(whenever)
			if err != nil {
				t.Fatal(err)
			}
			l.clock.Advance(tt.lasts)
			l.op.Change(func(s *oidctest.Script) { s.UserInfo = map[string]any{"name": "Alice Married"} })
			now, err := l.Refresh(t.Context(), was.Held)
			if err != nil || now.Subject != "alice" || now.Details["fullName"][0] != "Alice Married" || !now.AuthTime.Equal(was.AuthTime) {
				t.Errorf("Refresh = %+v, %v, want what userinfo says now", now, err)
			}
			l.op.Change(func(s *oidctest.Script) { s.UserInfo = map[string]any{"sub": "bob"} })
			if _, err := l.Refresh(t.Context(), was.Held); !isInvalid(err) {
				t.Errorf("Refresh with the userinfo of another person = %v, want invalid", err)
			}
			l.op.Change(func(s *oidctest.Script) { s.UserInfo = nil })
			if l.clock.Advance(max(0, tt.endsAt-tt.lasts)); tt.endsAt == 0 {
				l.op.Change(func(s *oidctest.Script) {
					s.Handlers = map[string]http.HandlerFunc{"/userinfo": func(w http.ResponseWriter,
						_ *http.Request,
					) {
						w.WriteHeader(http.StatusUnauthorized)
					}}
				})
			}
			if _, err := l.Refresh(t.Context(), was.Held); kind(err) != "unknown" {
				t.Errorf("Refresh after the end of the access token = %v, want an error that is not a verdict", err)
			}
		})
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
		s.Handlers = map[string]http.HandlerFunc{"/userinfo": func(w http.ResponseWriter,
			_ *http.Request,
		) {
			w.WriteHeader(http.StatusBadGateway)
		}}
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
