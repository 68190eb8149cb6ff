package access

import (
	"net/http"

	"github.com/gatehouse-id/gatehouse/internal/jsonapi"
	"github.com/gatehouse-id/gatehouse/internal/openapi"
)

// Operations describes the routes for the OpenAPI document: a row for each operation. A test compares them with
// routes.go.
func Operations() []openapi.Operation {
	partition := []openapi.Param{{Name: jsonapi.PartitionHeader, Text: "Only persons of this partition, while persons are kept in partitions"}}
	decided := func(conflict string) []openapi.Answer {
		return []openapi.Answer{
			{Status: http.StatusOK, Body: Request{}},
			{Status: http.StatusNotFound},
			{Status: http.StatusConflict, Text: conflict},
		}
	}
	return []openapi.Operation{
		{
			Method: http.MethodGet, Path: "/api/access-requests", ID: "listAccessRequests", Tag: readAPI,
			Summary: "Lists requests for access to sites and what was decided, those of a person together",
			Query: []openapi.Param{
				{Name: "state", Text: "Only these: open, granted, refused or revoked (also a grant that has ended by itself)"},
				{Name: "person_id", Text: "Only those of this person"},
				{Name: "site", Text: "Only those for this site, an origin such as https://wiki.example.com"},
				{Name: "limit", Text: "How many at most, 1 to 1000. Default: 100"},
				{Name: "after", Text: "What next was in the answer before"},
			},
			Header: partition, Answers: []openapi.Answer{{Status: http.StatusOK, Body: page{}}, {Status: http.StatusBadRequest}},
		},
		{
			Method: http.MethodGet, Path: "/api/access-requests/{id}", ID: "getAccessRequest", Tag: readAPI,
			Summary: "Reads a request for access", Header: partition,
			Answers: []openapi.Answer{{Status: http.StatusOK, Body: Request{}}, {Status: http.StatusNotFound}},
		},
		{
			Method: http.MethodPost, Path: "/api/access-requests/{id}/grant", ID: "grantAccess", Tag: decideAPI,
			Summary: "Lets the person pass for a time (a duration such as 8h), a number of uses, or both, or changes what was decided",
			Header:  partition, Body: grantRequest{},
			Answers: []openapi.Answer{{Status: http.StatusOK, Body: Request{}}, {Status: http.StatusNotFound}},
		},
		{
			Method: http.MethodPost, Path: "/api/access-requests/{id}/refuse", ID: "refuseAccess", Tag: decideAPI,
			Summary: "Turns an open request down",
			Header:  partition, Body: noteRequest{}, Answers: decided("The request is not open"),
		},
		{
			Method: http.MethodPost, Path: "/api/access-requests/{id}/revoke", ID: "revokeAccess", Tag: decideAPI,
			Summary: "Ends a grant at once, with what it has opened",
			Header:  partition, Body: noteRequest{}, Answers: decided("There is no grant that holds"),
		},
	}
}
