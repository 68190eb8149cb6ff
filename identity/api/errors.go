package api

import (
	"errors"
	"net/http"

	"github.com/gatehouse-id/gatehouse/identity/actiontoken"
	"github.com/gatehouse-id/gatehouse/identity/challenge"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/internal/jsonapi"
	"github.com/gatehouse-id/gatehouse/internal/ratelimit"
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

// apiOff answers for an API that is switched off or missing. That of persons has no code.
func apiOff(name string) *jsonapi.Error {
	e := &jsonapi.Error{Status: http.StatusServiceUnavailable, Code: 1001, Message: name + " API not available"}
	if name == "person" {
		e.Code = 0
	}
	return e
}

func badHeader(name, problem string) *jsonapi.Error {
	return &jsonapi.Error{Status: http.StatusBadRequest, Code: codeParameter, Message: "the header " + name + " " + problem}
}

func badEncryption() *jsonapi.Error {
	return &jsonapi.Error{Status: http.StatusBadRequest, Code: 3002, Message: "invalid parameter encryption"}
}

func badCredentials() *jsonapi.Error {
	return &jsonapi.Error{
		Status: http.StatusUnauthorized, Code: 3013, Message: "invalid credentials",
		Details: []detail{{3013, "problem.mismatch"}},
	}
}

func personBlocked(status int) *jsonapi.Error {
	return &jsonapi.Error{Status: status, Code: 1009, Message: "the person is blocked"}
}

func passwordBlocked() *jsonapi.Error {
	return &jsonapi.Error{
		Status: http.StatusUnauthorized, Code: 1068, Message: "blocked for now: too many tries",
		Details: []detail{{1068, "problem.wait"}},
	}
}

func personInactive() *jsonapi.Error {
	return &jsonapi.Error{Status: http.StatusForbidden, Code: 1039, Message: "the person is inactive"}
}

func attributesMissing(anyOf [][]string) *jsonapi.Error {
	e := &jsonapi.Error{Status: http.StatusForbidden, Code: 3003, Message: "the person lacks required verified attributes"}
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

func noActionToken(status int) *jsonapi.Error {
	return &jsonapi.Error{Status: status, Code: 3011, Message: "action token not found or invalid"}
}

func actionsFailed() *jsonapi.Error {
	return &jsonapi.Error{Status: http.StatusBadRequest, Code: 3012, Message: "one or more actions failed"}
}

func coupledAlready() *jsonapi.Error {
	return &jsonapi.Error{Status: http.StatusBadRequest, Code: 1052, Message: "the external identity is coupled with another account"}
}

func noProvider() *jsonapi.Error {
	return &jsonapi.Error{Status: http.StatusBadRequest, Code: 1056, Message: "the identity provider does not exist or is disabled"}
}

func wrongState() *jsonapi.Error {
	return &jsonapi.Error{Status: http.StatusBadRequest, Code: 1063, Message: "the person is in the wrong state for login"}
}

// featureOff says which feature of action tokens is switched off.
func featureOff(status int, feature string) *jsonapi.Error {
	code := map[string]int{actiontoken.FeatureLogin: 1028, actiontoken.FeatureAppToWeb: 1060, actiontoken.FeatureCoupling: 1054}[feature]
	return &jsonapi.Error{Status: status, Code: code, Message: "the feature of action tokens " + feature + " is disabled"}
}

// conflict says which existing thing or which switch prevents the operation.
func conflict(why string) *jsonapi.Error {
	return &jsonapi.Error{Status: http.StatusConflict, Message: why}
}

// refused answers an invalid member with 400, a repetition that comes too soon with 429, and an unknown person or thing
// with 404.
func refused(w http.ResponseWriter, err error) error {
	invalid, soon := new(person.ValidationError), new(challenge.TooSoonError)
	switch {
	case errors.As(err, &invalid):
		return jsonapi.Invalid(jsonapi.Problem{Path: invalid.Field, Problem: invalid.Problem})
	case errors.As(err, &soon):
		ratelimit.RetryAfter(w, soon.Wait)
		return tooManyRequests().With(err)
	}
	return missing(err)
}

func tooManyRequests() *jsonapi.Error {
	return &jsonapi.Error{Status: http.StatusTooManyRequests, Message: "too many requests"}
}

func noIDs() *jsonapi.Error {
	return &jsonapi.Error{Status: http.StatusBadRequest, Code: 4004, Message: "both user ID and actor ID are missing"}
}

func badLimit() *jsonapi.Error {
	return &jsonapi.Error{Status: http.StatusBadRequest, Code: 4002, Message: "invalid limit: it must be a number from 1 to 1000"}
}

func badOffset() *jsonapi.Error {
	return &jsonapi.Error{Status: http.StatusBadRequest, Code: 4003, Message: "invalid offset: it must be at least 0"}
}

func badQuery(message string) *jsonapi.Error {
	return &jsonapi.Error{Status: http.StatusBadRequest, Message: message}
}
