package serviceprovider

import (
	"slices"

	"github.com/gatehouse-id/gatehouse/internal/authn"
)

// Classes of sign-ins. (SAML authentication context 3.4)
const (
	classUnspecified = "urn:oasis:names:tc:SAML:2.0:ac:classes:unspecified"
	classProtected   = "urn:oasis:names:tc:SAML:2.0:ac:classes:PasswordProtectedTransport" //nolint:gosec // a word of the protocol
	classMFA         = "https://refeds.org/profile/mfa"

	highest = 4 // authentication level
)

// levels are the authentication levels that classes stand for. What names one kind of device is not among them: of a
// second factor we say that there was one, and not which. (docs/decisions/saml.md#saml-classes)
var levels = map[string]int{
	classUnspecified: 0, classProtected: 1, classMFA: 2,
	"urn:oasis:names:tc:SAML:2.0:ac:classes:Password": 1, "https://refeds.org/profile/sfa": 1,
	"http://schemas.microsoft.com/claims/multipleauthn": 2,
}

// demanded returns the level that a RequestedAuthnContext needs. false: no sign-in here is of such a class. (SAML core
// 3.3.2.2.1)
func demanded(comparison string, classes []string) (level int, ok bool) {
	if len(classes) == 0 {
		return 0, true
	}
	level = -1
	for _, c := range classes {
		n, known := levels[c]
		switch {
		case !known:
		case comparison == "better": // than every class
			level = max(level, n+1)
		case comparison == "maximum":
			level = 0
		case level < 0 || n < level: // exact, minimum: one of them is enough
			level = n
		}
	}
	return level, level >= 0 && level <= highest
}

// class returns the class of a sign-in that answers a RequestedAuthnContext. false: it is of none that are asked for.
func class(comparison string, classes []string, r *authn.Result) (string, bool) {
	own := classUnspecified
	switch {
	case r.Level >= 2:
		own = classMFA
	case r.Level == 1:
		own = classProtected
	}
	switch {
	case len(classes) == 0:
		return own, true
	case comparison == "exact": // the strongest that the sign-in reaches
		best, level := "", -1
		for _, c := range classes {
			if n, known := levels[c]; known && n <= r.Level && n > level {
				best, level = c, n
			}
		}
		return best, best != ""
	case comparison == "maximum":
		return own, slices.ContainsFunc(classes, func(c string) bool { n, known := levels[c]; return known && r.Level <= max(n, 1) })
	}
	return own, true
}
