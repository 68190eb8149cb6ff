package client

import "slices"

// The scopes and claims about a person's groups. Libraries read membership from one of them, whichever they know:
// groups and roles are the names of the groups, permissions what the groups permit.
// (docs/decisions/keys.md#groups-in-claims)
const (
	ScopeGroups      = "groups"
	ScopeRoles       = "roles"
	ScopePermissions = "permissions"
)

// ScopeClaims are the claims that a scope gives. (OpenID Connect Core 5.4)
var ScopeClaims = map[string][]string{
	"profile": {
		"name", "family_name", "given_name", "middle_name", "nickname", "preferred_username", "profile", "picture", "website", "gender",
		"birthdate", "zoneinfo", "locale", "updated_at", "partition",
	},
	"email":   {"email", "email_verified"},
	"phone":   {"phone_number", "phone_number_verified"},
	"address": {"address"},

	ScopeGroups:      {ScopeGroups},
	ScopeRoles:       {ScopeRoles},
	ScopePermissions: {ScopePermissions},
}

// ClaimsOf returns the claims that scopes give.
func ClaimsOf(scopes []string) (out []string) {
	for _, scope := range scopes {
		out = append(out, ScopeClaims[scope]...)
	}
	return out
}

// ScopeOfClaim is the standard scope that gives a claim; "" when none does.
func ScopeOfClaim(name string) string {
	for scope, claims := range ScopeClaims {
		if slices.Contains(claims, name) {
			return scope
		}
	}
	return ""
}

// AllowedClaims returns the claims that a scope of the client could give.
func (c *Client) AllowedClaims(names []string) (out []string) {
	for _, name := range names {
		if scope := ScopeOfClaim(name); scope != "" && c.HasScope(scope) {
			out = append(out, name)
		}
	}
	return out
}
