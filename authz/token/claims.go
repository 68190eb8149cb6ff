package token

import (
	"encoding/json"
	"strconv"

	"github.com/gatehouse-id/gatehouse/internal/login"
)

// ClaimsRequest is what the claims parameter asks for in addition to the scopes, by name. (OpenID Connect Core 5.5)
// Essential and voluntary claims are treated alike: an unknown value is left out (5.5.1).
type ClaimsRequest struct {
	Userinfo []string `cbor:"1,keyasint,omitempty"`
	IDToken  []string `cbor:"2,keyasint,omitempty"`
}

// PersonClaims returns the known ones of these claims of a person in the types of OpenID Connect Core 5.1.
func PersonClaims(person *login.Subject, names []string) map[string]any {
	out := map[string]any{}
	for _, name := range names {
		value := person.Profile[name]
		if name == "preferred_username" && value == "" {
			value = person.Username
		}
		if value != "" {
			out[name] = claimValue(name, value)
		}
	}
	return out
}

func claimValue(claim, value string) any {
	switch claim {
	case "email_verified", "phone_number_verified":
		return value == "true"
	case "updated_at":
		if seconds, err := strconv.ParseInt(value, 10, 64); err == nil {
			return json.Number(strconv.FormatInt(seconds, 10))
		}
	case "address":
		return map[string]string{"formatted": value} // OpenID Connect Core 5.1.1
	}
	return value
}
