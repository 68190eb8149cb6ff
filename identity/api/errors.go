package api

import (
	"errors"
	"net/http"

	"github.com/gatehouse-id/gatehouse/identity/actiontoken"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/proof"
	"github.com/gatehouse-id/gatehouse/internal/pace"
	"github.com/gatehouse-id/gatehouse/internal/rest"
)

// Every error code of the package, one line each. (identity service document, "Errors")

// codeParameter: a required parameter is missing, or one is malformed.
const codeParameter = 3001

// detail is the reason why credentials are refused, with the key of the text that a page would show.
type detail struct {
	Code int    `json:"code"`
	Key  string `json:"error_message_key"`
}

// missingAttributes names attributes, of which any one is enough.
type missingAttributes struct {
	AnyOf []string `json:"any_of"`
}

func credentialsOff() *rest.Error {
	return &rest.Error{Status: http.StatusServiceUnavailable, Code: 1001, Message: "credentials API not available"}
}

func badHeader(name, problem string) *rest.Error {
	return &rest.Error{Status: http.StatusBadRequest, Code: codeParameter, Message: "the header " + name + " " + problem}
}

func badEncryption() *rest.Error {
	return &rest.Error{Status: http.StatusBadRequest, Code: 3002, Message: "invalid parameter encryption"}
}

func badCredentials() *rest.Error {
	return &rest.Error{Status: http.StatusUnauthorized, Code: 3013, Message: "invalid credentials", Details: []detail{{3013, "problem.mismatch"}}}
}

func personBlocked(status int) *rest.Error {
	return &rest.Error{Status: status, Code: 1009, Message: "the person is blocked"}
}

func passwordBlocked() *rest.Error {
	return &rest.Error{Status: http.StatusUnauthorized, Code: 1068, Message: "blocked for now: too many tries", Details: []detail{{1068, "problem.wait"}}}
}

func personInactive() *rest.Error {
	return &rest.Error{Status: http.StatusForbidden, Code: 1039, Message: "the person is inactive"}
}

func attributesMissing(anyOf [][]string) *rest.Error {
	e := &rest.Error{Status: http.StatusForbidden, Code: 3003, Message: "the person lacks required verified attributes"}
	var list []missingAttributes
	for _, names := range anyOf {
		list = append(list, missingAttributes{names})
	}
	e.Details = list
	return e
}

// failedActions names the actions of a token that have failed.
type failedActions struct {
	Actions []string `json:"failed_actions"`
}

func noActionToken(status int) *rest.Error {
	return &rest.Error{Status: status, Code: 3011, Message: "action token not found or invalid"}
}

func actionsFailed() *rest.Error {
	return &rest.Error{Status: http.StatusBadRequest, Code: 3012, Message: "one or more actions failed"}
}

func coupledAlready() *rest.Error {
	return &rest.Error{Status: http.StatusBadRequest, Code: 1052, Message: "the external identity is coupled with another account"}
}

func noProvider() *rest.Error {
	return &rest.Error{Status: http.StatusBadRequest, Code: 1056, Message: "the identity provider does not exist or is disabled"}
}

func wrongState() *rest.Error {
	return &rest.Error{Status: http.StatusBadRequest, Code: 1063, Message: "the person is in the wrong state for login"}
}

// featureOff says which feature of action tokens is switched off.
func featureOff(status int, feature string) *rest.Error {
	code := map[string]int{actiontoken.FeatureLogin: 1028, actiontoken.FeatureAppToWeb: 1060, actiontoken.FeatureCoupling: 1054}[feature]
	return &rest.Error{Status: status, Code: code, Message: "the feature of action tokens " + feature + " is disabled"}
}

// conflict says which existing thing or which switch prevents the operation.
func conflict(why string) *rest.Error { return &rest.Error{Status: http.StatusConflict, Message: why} }

func personsOff() *rest.Error {
	return &rest.Error{Status: http.StatusServiceUnavailable, Message: "person API not available"}
}

// refused answers an invalid member with 400, a repetition that comes too soon with 429, and an unknown person or thing
// with 404.
func refused(w http.ResponseWriter, err error) error {
	invalid, soon := new(person.ValidationError), new(proof.TooSoonError)
	switch {
	case errors.As(err, &invalid):
		return rest.Invalid(rest.Problem{Path: invalid.Field, Problem: invalid.Problem})
	case errors.As(err, &soon):
		pace.RetryAfter(w, soon.Wait)
		return tooManyRequests().With(err)
	}
	return missing(err)
}

func tooManyRequests() *rest.Error {
	return &rest.Error{Status: http.StatusTooManyRequests, Message: "too many requests"}
}

func eventsOff() *rest.Error {
	return &rest.Error{Status: http.StatusServiceUnavailable, Code: 1001, Message: "events API not available"}
}

func sessionsOff() *rest.Error {
	return &rest.Error{Status: http.StatusServiceUnavailable, Code: 1001, Message: "session API not available"}
}

func storageOff() *rest.Error {
	return &rest.Error{Status: http.StatusServiceUnavailable, Code: 1001, Message: "storage API not available"}
}

func statisticsOff() *rest.Error {
	return &rest.Error{Status: http.StatusServiceUnavailable, Code: 1001, Message: "statistics API not available"}
}

func noIDs() *rest.Error {
	return &rest.Error{Status: http.StatusBadRequest, Code: 4004, Message: "both user ID and actor ID are missing"}
}

func badLimit() *rest.Error {
	return &rest.Error{Status: http.StatusBadRequest, Code: 4002, Message: "invalid limit: it must be a number from 1 to 1000"}
}

func badOffset() *rest.Error {
	return &rest.Error{Status: http.StatusBadRequest, Code: 4003, Message: "invalid offset: it must be at least 0"}
}

func badQuery(message string) *rest.Error {
	return &rest.Error{Status: http.StatusBadRequest, Message: message}
}
