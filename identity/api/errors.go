package api

import (
	"net/http"

	"github.com/gatehouse-id/gatehouse/internal/rest"
)

// EVERY error code of the package, one line each. (identity service document, "Errors")

func eventsOff() *rest.Error {
	return &rest.Error{Status: http.StatusServiceUnavailable, Code: 1001, Message: "events API not available"}
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
