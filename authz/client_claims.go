package authz

import "slices"

// scopeClaims are the claims that a scope gives. (OpenID Connect Core 5.4)
var scopeClaims = map[string][]string{
	"profile": {
		"name", "family_name", "given_name", "middle_name", "nickname", "preferred_username", "profile", "picture", "website", "gender",
		"birthdate", "zoneinfo", "locale", "updated_at",
	},
	"email":   {"email", "email_verified"},
	"phone":   {"phone_number", "phone_number_verified"},
	"address": {"address"},
}

// scopeOfClaim is the standard scope that gives a claim; "" when none does.
func scopeOfClaim(name string) string {
	for scope, claims := range scopeClaims {
		if slices.Contains(claims, name) {
			return scope
		}
	}
	return ""
}

// allowedClaims returns the claims that a scope of the client could give.
func (c *Client) allowedClaims(names []string) (out []string) {
	for _, name := range names {
		if scope := scopeOfClaim(name); scope != "" && c.hasScope(scope) {
			out = append(out, name)
		}
	}
	return out
}
