package token_test

import (
	"net/http"
	"reflect"
	"testing"

	"github.com/gatehouse-id/gatehouse/authz"
	"github.com/gatehouse-id/gatehouse/authz/authztest"
	"github.com/gatehouse-id/gatehouse/authz/client"
	"github.com/gatehouse-id/gatehouse/internal/authn"
)

// withGroups lets the client shop ask for what people's groups say, and gives the person groups.
func withGroups(idTokenClaims bool) authztest.Option {
	return authztest.WithConfig(func(c *authz.Config) {
		authztest.ChangeClient(c, "shop", func(c *client.Client) {
			c.Scopes = append(c.Scopes, "groups", "roles", "permissions")
			c.IDTokenClaims = idTokenClaims
		})
	})
}

// TestGroupsOfAMember: an application that asks for the scope groups learns that someone is a member, wherever its
// library looks.
func TestGroupsOfAMember(t *testing.T) {
	t.Parallel()
	names, permissions := []any{"admins", "staff"}, []any{"read"}
	for _, c := range []struct {
		scope string
		want  map[string]any
	}{
		{"openid groups", map[string]any{"groups": names}},
		{"openid roles", map[string]any{"roles": names}},
		{"openid permissions", map[string]any{"permissions": permissions}},
		{"openid groups roles permissions", map[string]any{"groups": names, "roles": names, "permissions": permissions}},
		{"openid profile", map[string]any{}},
	} {
		t.Run(c.scope, func(t *testing.T) {
			t.Parallel()
			h := authztest.New(t, withGroups(true))
			h.People.Change(authztest.Demo, func(s *authn.Subject) { s.Groups = []string{"staff", "admins"} })
			tokens := h.Tokens("shop", authztest.Demo, "scope", c.scope)
			refreshed := h.Refresh("shop", tokens.Refresh)
			for what, got := range map[string]map[string]any{
				"userinfo":      h.Get("/oauth/userinfo", "Authorization", "Bearer "+tokens.Access).JSON(),
				"introspection": h.Introspect(tokens.Access).JSON(),
				"ID token":      authztest.IDClaims(t, h, tokens.ID),
				"new ID token":  authztest.IDClaims(t, h, refreshed.Text("id_token")),
			} {
				for _, name := range []string{"groups", "roles", "permissions"} {
					if !reflect.DeepEqual(got[name], c.want[name]) {
						t.Errorf("%s: %s = %v, want %v", what, name, got[name], c.want[name])
					}
				}
			}
		})
	}
}

// TestNobodysGroups: who is in no group has an empty list, which a library can search like any other.
func TestNobodysGroups(t *testing.T) {
	t.Parallel()
	h := authztest.New(t, withGroups(true))
	h.People.Change(authztest.Demo, func(s *authn.Subject) { s.Groups = nil })
	claims := authztest.IDClaims(t, h, h.Tokens("shop", authztest.Demo, "scope", "openid groups permissions").ID)
	for _, name := range []string{"groups", "permissions"} {
		if got, ok := claims[name].([]any); !ok || len(got) != 0 {
			t.Errorf("%s = %v, want an empty list", name, claims[name])
		}
	}
}

// TestIDTokenClaims: a library that reads nothing but the ID token shows people with their name and address.
func TestIDTokenClaims(t *testing.T) {
	t.Parallel()
	want := map[string]any{
		"name": "demo Person", "preferred_username": "demo@example.com",
		"email": "demo@example.com", "email_verified": true,
	}
	for _, on := range []bool{true, false} {
		h := authztest.New(t, withGroups(on))
		claims := authztest.IDClaims(t, h, h.Tokens("shop", authztest.Demo, "scope", "openid profile email groups").ID)
		for name, value := range want {
			if got, found := claims[name]; found != on || (on && got != value) {
				t.Errorf("id_token_claims %t: %s = %v", on, name, got)
			}
		}
		if _, found := claims["groups"]; found != on {
			t.Errorf("id_token_claims %t: groups = %v", on, claims["groups"])
		}
		// Never more than the scopes.
		claims = authztest.IDClaims(t, h, h.Tokens("shop", authztest.Demo, "scope", "openid").ID)
		for _, name := range []string{"name", "email", "groups"} {
			if value, found := claims[name]; found {
				t.Errorf("id_token_claims %t, scope openid: %s = %v", on, name, value)
			}
		}
	}
}

// TestGroupsByClaimsParameter: groups can be asked for one by one, if the client is allowed their scope.
func TestGroupsByClaimsParameter(t *testing.T) {
	t.Parallel()
	h := authztest.New(t, withGroups(false))
	asked := []string{"claims", `{"id_token":{"groups":null},"userinfo":{"permissions":null}}`}
	tokens := h.Tokens("shop", authztest.Demo, asked...)
	if claims := authztest.IDClaims(t, h, tokens.ID); !reflect.DeepEqual(claims["groups"], []any{"staff"}) || claims["permissions"] != nil {
		t.Errorf("ID token = %v, want the groups alone", claims)
	}
	info := h.Get("/oauth/userinfo", "Authorization", "Bearer "+tokens.Access)
	if got := info.JSON(); info.Status != http.StatusOK || !reflect.DeepEqual(got["permissions"], []any{"read"}) || got["groups"] != nil {
		t.Errorf("Userinfo = %v, want the permissions alone", got)
	}
	res := h.Browser(authztest.Demo).Authorize("other", asked...)
	_, params := res.Redirect()
	other := h.Redeem("other", params.Get("code"))
	if claims := authztest.IDClaimsFor(t, h, other.Text("id_token"), "other"); claims["groups"] != nil {
		t.Errorf("a client without the scope got groups: %v", claims)
	}
}
