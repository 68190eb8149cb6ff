package providerhttp

import (
	"fmt"
	"net/http"
	"slices"

	"github.com/gatehouse-id/gatehouse/idp"
)

// Stopped reports whether an error of an authorization response says that the person has gone back, or that the
// provider lets them no further: RFC 6749 4.1.2.1 has one word for both. Apple and LinkedIn have words of their own.
func Stopped(failure string) bool {
	return slices.Contains([]string{"access_denied", "user_cancelled_authorize", "user_cancelled_login"}, failure)
}

// StepClient is the step in which we authenticate.
const StepClient = "client authentication"

// CheckClient reports what a token endpoint has answered to a code that no one has issued. known are errors besides
// those of RFC 6749 5.2 by which a provider refuses such a code.
func CheckClient(steps *idp.Steps, status int, failure string, known ...string) {
	switch {
	case failure == "invalid_grant" || slices.Contains(known, failure):
		steps.OK(StepClient, "the provider knows the client, and refuses a code that it has not issued")
	case failure == "invalid_client" || status == http.StatusUnauthorized:
		steps.Fail(StepClient, fmt.Errorf("the provider does not accept the client (status %d)", status),
			"compare client id and secret with those at the provider, and the way in which they are sent; a secret may have expired")
	case failure == "unauthorized_client":
		steps.Fail(StepClient, fmt.Errorf("the client has no authorization code flow there (status %d)", status),
			"allow the authorization code flow for the client at the provider")
	default:
		steps.Warn(StepClient, fmt.Sprintf("the provider answers status %d, which tells neither that it knows the client nor that it does not",
			status), "")
	}
}
