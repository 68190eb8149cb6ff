package api

import (
	"net/http"

	"github.com/gatehouse-id/gatehouse/identity"
	"github.com/gatehouse-id/gatehouse/identity/actiontoken"
	"github.com/gatehouse-id/gatehouse/identity/assurance"
	"github.com/gatehouse-id/gatehouse/identity/challenge"
	"github.com/gatehouse-id/gatehouse/identity/invitation"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/qrlogin"
	"github.com/gatehouse-id/gatehouse/identity/uservalues"
	"github.com/gatehouse-id/gatehouse/internal/jsonapi"
	"github.com/gatehouse-id/gatehouse/internal/openapi"
)

// tokenDescribed is actionTokenRequest with its required members.
type tokenDescribed struct {
	Token string `json:"token" rest:"required"`
}

// credentialsDescribed is credentialsRequest with its required members.
type credentialsDescribed struct {
	Username            string `json:"username" rest:"required"`
	Password            string `json:"password" rest:"required"`
	EncryptionParameter string `json:"encryption_parameter" rest:"required"`
}

// Operations describes the routes for the OpenAPI document: a row for each operation. A test compares them with
// routes.go.
func Operations() []openapi.Operation {
	about := openapi.Param{Name: contextHeader, Text: "Data of the client about its flow: key1=value1;key2=value2"}
	return []openapi.Operation{
		{
			Method: http.MethodPost, Path: "/api/credentials/validate", ID: "validateCredentials", Tag: credentialsAPI,
			Summary: "Returns the person with a username and an encrypted password",
			Header: []openapi.Param{
				about,
				{Name: jsonapi.PartitionHeader, Text: "The partition of the username; required while persons are kept in partitions"},
			},
			Body: credentialsDescribed{},
			Answers: []openapi.Answer{
				{Status: http.StatusOK, Body: person.Profile{}},
				{Status: http.StatusBadRequest, Text: "3001 parameter, 3002 encryption"},
				{
					Status: http.StatusUnauthorized,
					Text:   "3013 invalid credentials, 1009 blocked, 1068 too many tries; no code: no or wrong credentials of the API client",
				},
				{Status: http.StatusForbidden, Text: "1039 inactive, 3003 attributes missing; no code: the API client may not use this API"},
				{Status: http.StatusTooManyRequests, Text: "Too many requests of the API client at once"},
				{Status: http.StatusServiceUnavailable, Text: "1001 not available; no code: try again later"},
			},
		},
		{
			Method: http.MethodPost, Path: "/api/credentials/token", ID: "processActionToken", Tag: credentialsAPI,
			Summary: "Carries out the actions of an action token, and uses it up",
			Body:    tokenDescribed{},
			Answers: []openapi.Answer{
				{Status: http.StatusOK, Body: actiontoken.ActionsDone{}},
				{
					Status: http.StatusBadRequest,
					Text:   "3001 parameter, 3011 no such token, 3012 an action failed, 1009 blocked, 1052 coupled with another, 1056 no such provider, 1063 wrong state",
				},
				{Status: http.StatusTooManyRequests, Text: "Too many requests of the API client at once"},
				{
					Status: http.StatusServiceUnavailable,
					Text:   "1001 not available, 1028 login, 1054 coupling, 1060 app to web disabled; no code: try again later",
				},
			},
		},
		{
			Method: http.MethodPost, Path: "/api/credentials/tokens/validate", ID: "validateActionToken", Tag: credentialsAPI,
			Summary: "Checks whether an action token is valid",
			Header:  []openapi.Param{about}, Body: tokenDescribed{}, Deprecated: true,
			Answers: []openapi.Answer{
				{Status: http.StatusNoContent},
				{Status: http.StatusBadRequest, Text: "3001 parameter, 1028 login, 1054 coupling, 1060 app to web disabled"},
				{Status: http.StatusUnauthorized, Text: "3011 invalid token; no code: no or wrong credentials of the API client"},
				{Status: http.StatusTooManyRequests, Text: "Too many requests of the API client at once"},
				{Status: http.StatusServiceUnavailable, Text: "1001 not available; no code: try again later"},
			},
		},
		{
			Method: http.MethodGet, Path: "/api/persons", ID: "listPersons", Tag: personsAPI,
			Summary: "Lists persons, or searches for some, page by page",
			Query: []openapi.Param{
				{Name: "text", Text: "The beginning of a username, an e-mail address or an id, or the beginnings of words of the name"},
				{Name: "group", Text: "Only members of this group: its name or id"},
				{Name: "state", Text: "ACTIVE, INACTIVE, BLOCKED or REMOVED. Default: all but REMOVED"},
				{Name: "seen_since", Text: "Only persons whose last sign-in was at this time or later: RFC 3339, or milliseconds since 1970"},
				{Name: "seen_before", Text: "Only persons whose last sign-in was before this time"},
				{Name: "order", Text: "recent: by the last sign-in, the latest first, without persons who have never signed in"},
				{Name: "limit", Text: "How many, 1 to 1000. Default: 100"},
				{Name: "after", Text: "The value of next in the previous page"},
				{Name: "format", Text: "json, or csv for all of them in one file. Default: json"},
			},
			Header: []openapi.Param{{Name: jsonapi.PartitionHeader, Text: "The partition of the persons; required while persons are kept in partitions"}},
			Answers: []openapi.Answer{
				{Status: http.StatusOK, Body: personsAnswer{}},
				{Status: http.StatusBadRequest, Text: "4002 limit; no code: another parameter"},
			},
		},
		{
			Method: http.MethodPost, Path: "/api/persons/{id}/tokens", ID: "makeActionToken", Tag: personsAPI,
			Summary: "Makes an action token for a person",
			Body:    newTokenRequest{}, Answers: []openapi.Answer{
				{Status: http.StatusCreated, Body: actiontoken.ActionToken{}},
				{Status: http.StatusNotFound},
			},
		},
		{
			Method: http.MethodDelete, Path: "/api/persons/{id}/tokens", ID: "revokeActionTokens", Tag: personsAPI,
			Summary: "Revokes every action token of a person",
			Answers: []openapi.Answer{{Status: http.StatusNoContent}, {Status: http.StatusNotFound}},
		},
		{
			Method: http.MethodDelete, Path: "/api/persons/{id}/tokens/{token}", ID: "revokeActionToken", Tag: personsAPI,
			Summary: "Revokes an action token",
			Answers: []openapi.Answer{{Status: http.StatusNoContent}, {Status: http.StatusNotFound}},
		},
		{
			Method: http.MethodPost, Path: "/api/persons/{id}/codes", ID: "makeCode", Tag: personsAPI,
			Summary: "Makes a code for a person, which someone delivers, and which replaces the previous one",
			Body:    codeRequest{}, Answers: []openapi.Answer{
				{Status: http.StatusCreated, Body: challenge.DeliveredCode{}},
				{Status: http.StatusForbidden, Text: "The person has a role in the admin console"},
				{Status: http.StatusNotFound},
				{Status: http.StatusConflict, Text: "Codes for this are switched off, or the person is in the wrong state"},
				{Status: http.StatusTooManyRequests, Text: "Another code was made a moment ago"},
			},
		},
		{
			Method: http.MethodPost, Path: "/api/persons/invitations", ID: "invitePerson", Tag: personsAPI,
			Summary: "Invites someone: makes the person and sends a link",
			Header:  []openapi.Param{{Name: jsonapi.PartitionHeader, Text: "The partition of the new username"}},
			Body:    invitation.NewInvitation{}, Answers: []openapi.Answer{
				{Status: http.StatusCreated, Body: invitation.Invitation{}},
				{Status: http.StatusForbidden, Text: "One of the groups gives a role in the admin console"},
				{Status: http.StatusConflict, Text: "The username is taken, or invitations are switched off"},
			},
		},
		{
			Method: http.MethodPost, Path: "/api/persons/{id}/invitation", ID: "inviteAgain", Tag: personsAPI,
			Summary: "Sends an invited person a new link, which replaces the previous one",
			Answers: []openapi.Answer{
				{Status: http.StatusCreated, Body: invitation.Invitation{}},
				{Status: http.StatusForbidden, Text: "The person has a role in the admin console"},
				{Status: http.StatusNotFound},
				{Status: http.StatusConflict, Text: "The person is not invited, or invitations are switched off"},
				{Status: http.StatusTooManyRequests, Text: "Another link was made a moment ago"},
			},
		},
		{
			Method: http.MethodDelete, Path: "/api/persons/{id}/invitation", ID: "withdrawInvitation", Tag: personsAPI,
			Summary: "Withdraws an invitation: removes the person, who has not accepted it yet",
			Answers: []openapi.Answer{
				{Status: http.StatusNoContent},
				{Status: http.StatusForbidden, Text: "The person has a role in the admin console"},
				{Status: http.StatusNotFound},
				{Status: http.StatusConflict, Text: "The person is not invited"},
			},
		},
		{
			Method: http.MethodPost, Path: "/api/persons/{id}/phone-numbers/code", ID: "sendNumberCode", Tag: personsAPI,
			Summary: "Sends a code to a telephone number of a person",
			Body:    numberRequest{}, Answers: []openapi.Answer{
				{Status: http.StatusAccepted, Body: numberSent{}},
				{Status: http.StatusForbidden, Text: "The person has a role in the admin console"},
				{Status: http.StatusNotFound},
				{Status: http.StatusConflict, Text: "The validation of numbers is switched off, or the person is blocked"},
				{Status: http.StatusTooManyRequests, Text: "Another code was sent a moment ago"},
			},
		},
		{
			Method: http.MethodPost, Path: "/api/persons/{id}/phone-numbers/verify", ID: "verifyNumber", Tag: personsAPI,
			Summary: "Verifies the number by the code that was sent",
			Body:    verifyRequest{}, Answers: []openapi.Answer{
				{Status: http.StatusNoContent},
				{Status: http.StatusForbidden, Text: "The person has a role in the admin console"},
				{Status: http.StatusNotFound},
				{Status: http.StatusConflict, Text: "The validation of numbers is switched off, or the person is blocked"},
			},
		},
		{
			Method: http.MethodPost, Path: "/api/persons/{id}/mobile-login", ID: "lookAtMobileLogin", Tag: personsAPI,
			Summary: "Returns the details that an app shows before the person approves a code that it has scanned",
			Body:    scannedRequest{}, Answers: []openapi.Answer{
				{Status: http.StatusOK, Body: qrlogin.Waiting{}},
				{Status: http.StatusBadRequest, Text: "The token belongs to no code, or no longer does"},
				{Status: http.StatusForbidden, Text: "The person has a role in the admin console"},
				{Status: http.StatusNotFound},
				{Status: http.StatusConflict, Text: "Signing in by a phone is switched off, or the code is no longer waiting"},
			},
		},
		{
			Method: http.MethodPost, Path: "/api/persons/{id}/mobile-login/answer", ID: "answerMobileLogin", Tag: personsAPI,
			Summary: "Approves or denies a code for a person who uses an app: the browser that shows it is signed in",
			Body:    phoneAnswer{}, Answers: []openapi.Answer{
				{Status: http.StatusNoContent},
				{Status: http.StatusBadRequest, Text: "The number is wrong, the token belongs to no code, or step_up_type is missing"},
				{Status: http.StatusForbidden, Text: "The person has a role in the admin console"},
				{Status: http.StatusNotFound},
				{Status: http.StatusConflict, Text: "Signing in by a phone is switched off, the code is no longer waiting, or the person is blocked"},
			},
		},
		{
			Method: http.MethodGet, Path: "/api/events", ID: "searchEvents", Tag: eventsAPI,
			Summary: "Searches the events of a person or actor, the newest first",
			Query: []openapi.Param{
				{Name: "actor", Text: "Id of the actor that caused them; not required when userId is given"},
				{Name: "userId", Text: "Id of the person they happened to; not required when actor is given"},
				{Name: "limit", Text: "How many events, 1 to 1000", Required: true},
				{Name: "offset", Text: "How many to skip, at least 0", Required: true},
				{Name: "since", Text: "Only events from this time on: RFC 3339, or milliseconds since 1970"},
				{Name: "until", Text: "Only events before this time"},
			},
			Header: []openapi.Param{{Name: jsonapi.PartitionHeader, Text: "Only events of this partition"}},
			Answers: []openapi.Answer{
				{Status: http.StatusOK, Body: resultSet{}},
				{Status: http.StatusBadRequest, Text: "4002 limit, 4003 offset, 4004 neither id"},
			},
		},
		{
			Method: http.MethodPost, Path: "/api/persons/{id}/identity-card", ID: "reportIdentityCard", Tag: assuranceAPI,
			Summary: "Records that an identity card of a person was validated or refused; replaces the earlier report of the API client",
			Body:    assurance.Report{}, Answers: []openapi.Answer{
				{Status: http.StatusOK, Body: assurance.Status{}},
				{Status: http.StatusBadRequest},
				{Status: http.StatusNotFound},
				{Status: http.StatusConflict, Text: "Sixteen parties have confirmed the identity of the person"},
			},
		},
		{
			Method: http.MethodGet, Path: "/api/persons/{id}/assurance", ID: "readAssurance", Tag: assuranceAPI,
			Summary: "Returns how well the identity of a person is assured, and the evidence",
			Answers: []openapi.Answer{{Status: http.StatusOK, Body: assurance.Status{}}, {Status: http.StatusNotFound}},
		},
		{
			Method: http.MethodDelete, Path: "/api/persons/{id}/assurance", ID: "withdrawAssurance", Tag: assuranceAPI,
			Summary: "Withdraws all evidence of the identity of a person",
			Answers: []openapi.Answer{{Status: http.StatusNoContent}, {Status: http.StatusNotFound}},
		},
		{
			Method: http.MethodGet, Path: "/api/persons/{id}/sessions", ID: "listSessions", Tag: sessionsAPI,
			Summary: "Lists the live sessions of a person, page by page",
			Query: []openapi.Param{
				{Name: "limit", Text: "How many, 1 to 1000. Default: 100"},
				{Name: "after", Text: "The value of next in the previous page"},
			},
			Answers: []openapi.Answer{
				{Status: http.StatusOK, Body: sessionsAnswer{}},
				{Status: http.StatusBadRequest, Text: "4002 limit; no code: another parameter"},
				{Status: http.StatusNotFound},
			},
		},
		{
			Method: http.MethodDelete, Path: "/api/persons/{id}/sessions", ID: "endSessions", Tag: sessionsAPI,
			Summary: "Ends all sessions of a person, with their tokens",
			Answers: []openapi.Answer{{Status: http.StatusNoContent}, {Status: http.StatusNotFound}},
		},
		{
			Method: http.MethodGet, Path: "/api/persons/{id}/trusted-browsers", ID: "listTrustedBrowsers", Tag: sessionsAPI,
			Summary: "Lists the trusted browsers of a person, which count for the second factor",
			Answers: []openapi.Answer{{Status: http.StatusOK, Body: trustedAnswer{}}, {Status: http.StatusNotFound}},
		},
		{
			Method: http.MethodDelete, Path: "/api/persons/{id}/trusted-browsers", ID: "endTrustInBrowsers", Tag: sessionsAPI,
			Summary: "Ends the trust in all browsers of a person. Sessions continue",
			Answers: []openapi.Answer{{Status: http.StatusNoContent}, {Status: http.StatusNotFound}},
		},
		{
			Method: http.MethodDelete, Path: "/api/persons/{id}/trusted-browsers/{browser}", ID: "endTrustInBrowser", Tag: sessionsAPI,
			Summary: "Ends the trust in a browser of a person",
			Answers: []openapi.Answer{{Status: http.StatusNoContent}, {Status: http.StatusNotFound}},
		},
		{
			Method: http.MethodGet, Path: "/api/sessions/{session}", ID: "readSession", Tag: sessionsAPI, Summary: "Reads a live session",
			Answers: []openapi.Answer{{Status: http.StatusOK, Body: identity.OpenSession{}}, {Status: http.StatusNotFound}},
		},
		{
			Method: http.MethodDelete, Path: "/api/sessions/{session}", ID: "endSession", Tag: sessionsAPI,
			Summary: "Ends a session, with its tokens",
			Answers: []openapi.Answer{{Status: http.StatusNoContent}, {Status: http.StatusNotFound}},
		},
		{
			Method: http.MethodGet, Path: "/api/storage/{id}", ID: "listValues", Tag: storageAPI,
			Summary: "Reads all values that the API client keeps for a person",
			Answers: []openapi.Answer{{Status: http.StatusOK, Body: valuesAnswer{}}, {Status: http.StatusNotFound}},
		},
		{
			Method: http.MethodDelete, Path: "/api/storage/{id}", ID: "clearValues", Tag: storageAPI,
			Summary: "Removes all values that the API client keeps for a person",
			Answers: []openapi.Answer{{Status: http.StatusNoContent}, {Status: http.StatusNotFound}},
		},
		{
			Method: http.MethodGet, Path: "/api/storage/{id}/{key}", ID: "readValue", Tag: storageAPI,
			Summary: "Reads a value that the API client keeps for a person",
			Answers: []openapi.Answer{{Status: http.StatusOK, Body: uservalues.Value{}}, {Status: http.StatusNotFound}},
		},
		{
			Method: http.MethodPut, Path: "/api/storage/{id}/{key}", ID: "storeValue", Tag: storageAPI,
			Summary: "Stores a JSON value of at most 16 KiB for a person, which replaces the previous one",
			Body:    map[string]any{},
			Answers: []openapi.Answer{
				{Status: http.StatusNoContent},
				{Status: http.StatusBadRequest, Text: "Not JSON, too long, or a key with other characters than allowed"},
				{Status: http.StatusNotFound},
				{Status: http.StatusConflict, Text: "64 values or 64 KiB are already stored"},
				{Status: http.StatusPreconditionFailed, Text: "The value has changed"},
			},
		},
		{
			Method: http.MethodDelete, Path: "/api/storage/{id}/{key}", ID: "removeValue", Tag: storageAPI, Summary: "Removes a value",
			Answers: []openapi.Answer{
				{Status: http.StatusNoContent},
				{Status: http.StatusNotFound},
				{Status: http.StatusPreconditionFailed, Text: "The value has changed"},
			},
		},
		{
			Method: http.MethodGet, Path: "/api/v1/statistics", ID: "listMeasures", Tag: statisticsAPI, Summary: "Lists the measures",
			Answers: []openapi.Answer{{Status: http.StatusOK, Body: measuresAnswer{}}},
		},
		{
			Method: http.MethodGet, Path: "/api/v1/statistics/{measure}", ID: "readStatistics", Tag: statisticsAPI,
			Summary: "Returns the counts of a measure, per minute, hour or day",
			Query: []openapi.Param{
				{Name: "by", Text: "Split by provider or application; admissions, denials, site_step_ups and those of shadow rules by site, decisions by latency, rule_decisions by rule"},
				{Name: "unit", Text: "minute (kept for three hours), hour (32 days) or day (two years). Default: day"},
				{Name: "since", Text: "From the unit of this time on: RFC 3339, or milliseconds since 1970. Default: an hour, a day or thirty days before until"},
				{Name: "until", Text: "Before this time. Default: now"},
				{Name: "format", Text: "json or csv. Default: json"},
			},
			Header: []openapi.Param{{Name: jsonapi.PartitionHeader, Text: "Only what happened in this partition"}},
			Answers: []openapi.Answer{
				{Status: http.StatusOK, Body: statisticsAnswer{}},
				{Status: http.StatusBadRequest, Text: "No such measure, unit or time"},
			},
		},
		{
			Method: http.MethodGet, Path: "/api/v1/usage", ID: "readUsage", Tag: statisticsAPI,
			Summary: "Returns the number of requests of each client at each protected site, per day",
			Query: []openapi.Param{
				{Name: "from", Text: "From this day on, such as 2026-01-31, in UTC. Default: 30 days before to"},
				{Name: "to", Text: "Until this day, included. Default: today"},
				{Name: "client", Text: "Only requests of this client"},
				{Name: "site", Text: "Only requests at this site, such as api.example.com"},
				{Name: "limit", Text: "How many, 1 to 1000. Default: 100"},
				{Name: "after", Text: "The value of next in the previous page"},
				{Name: "format", Text: "json, or csv for all of them in one file. Default: json"},
			},
			Answers: []openapi.Answer{
				{Status: http.StatusOK, Body: usageAnswer{}},
				{Status: http.StatusBadRequest, Text: "4002 limit; no code: another parameter"},
				{Status: http.StatusForbidden, Text: "The API client is limited to partitions, and clients belong to none"},
			},
		},
	}
}
