package api

import (
	"net/http"

	"github.com/gatehouse-id/gatehouse/internal/openapi"
)

// Operations describes the routes for the OpenAPI document: a row for each operation. A test holds them against routes.go.
func Operations() []openapi.Operation {
	return []openapi.Operation{
		{
			Method: http.MethodGet, Path: "/api/events", ID: "searchEvents", Tag: eventsAPI, Summary: "Searches the events of a person or actor, the newest first",
			Query: []openapi.Param{
				{Name: "actor", Text: "Id of who caused them; not required when userId is given"},
				{Name: "userId", Text: "Id of the person they happened to; not required when actor is given"},
				{Name: "limit", Text: "How many events, 1 to 1000", Required: true},
				{Name: "offset", Text: "How many to pass over, at least 0", Required: true},
			},
			Answers: []openapi.Answer{{Status: http.StatusOK, Body: resultSet{}}, {Status: http.StatusBadRequest, Text: "4002 limit, 4003 offset, 4004 neither id"}},
		},
	}
}
