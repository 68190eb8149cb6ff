package keystore

import (
	"net/http"

	"github.com/gatehouse-id/gatehouse/internal/coded"
	"github.com/gatehouse-id/gatehouse/internal/jsonapi"
)

// invalid is a 400: a member is wrong.
func invalid(path string, wrong error) *jsonapi.Error {
	return jsonapi.Invalid(jsonapi.ProblemAt(path, wrong))
}

// conflict is a 409 of the API. words are its message for pages.
func conflict(message string, words *coded.Error) *jsonapi.Error {
	return &jsonapi.Error{Status: http.StatusConflict, Message: message, Words: words}
}
