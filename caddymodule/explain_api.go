package caddymodule

import (
	"context"
	"errors"
	"net/http"

	"github.com/gatehouse-id/gatehouse/caddymodule/adminapi"
	"github.com/gatehouse-id/gatehouse/internal/authn"
	"github.com/gatehouse-id/gatehouse/internal/jsonapi"
	"github.com/gatehouse-id/gatehouse/internal/openapi"
)

const (
	explainPath = "/api/v1/explain"
	explainAPI  = "policies" // as API clients are allowed it
	maxExplain  = 64 << 10   // bytes of a body
)

// explainer serves POST /api/v1/explain: what `caddy gatehouse explain` tells, for API clients. It tells of persons,
// refusals and tokens only what the client could read elsewhere. (docs/decisions/operation.md#explained-requests)
type explainer struct {
	http.Handler

	gate     *jsonapi.Gate
	instance func(context.Context) (*adminapi.Instance, error)
}

func newExplainer(gate *jsonapi.Gate, on func(*http.Request) error, instance func(context.Context) (*adminapi.Instance, error)) *explainer {
	e := &explainer{gate: gate, instance: instance}
	e.Handler = gate.Methods(explainAPI, on, map[string]jsonapi.Handler{http.MethodPost: e.explain})
	return e
}

// Paths implements pathHandler.
func (*explainer) Paths() []string { return []string{explainPath} }

func (e *explainer) explain(w http.ResponseWriter, r *http.Request, _ string) error {
	var in adminapi.ExplainRequest
	if err := jsonapi.Decode(w, r, maxExplain, &in); err != nil {
		return err
	}
	if in.URL == "" && in.Ref == "" {
		return jsonapi.Invalid(jsonapi.Problem{Path: "url", Problem: "is required, or a ref"})
	}
	for _, need := range []struct {
		asked     bool
		what, api string
	}{
		{in.Person != "" || in.Ref != "", "persons", "persons"},
		{in.Token != "", "tokens", "introspection"},
		{in.Ref != "", "refusals", "events"},
	} {
		if need.asked {
			if err := e.may(r, need.what, need.api); err != nil {
				return err
			}
		}
	}
	inst, err := e.instance(r.Context())
	if err != nil {
		return (&jsonapi.Error{Status: http.StatusServiceUnavailable, Message: "try again later"}).With(err)
	}
	defer inst.Leave()
	out, err := inst.AnswerExplain(r, in)
	if err != nil {
		status, text := adminapi.Refused(err)
		return (&jsonapi.Error{Status: status, Message: text}).With(err)
	}
	jsonapi.JSON(w, http.StatusOK, out)
	return nil
}

// may reports whether the API client of a request can read what it asks about by another API.
func (e *explainer) may(r *http.Request, what, api string) error {
	_, err := e.gate.Authorize(r, api)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, authn.ErrNotAllowed), errors.Is(err, authn.ErrNoCredentials):
		return (&jsonapi.Error{Status: http.StatusForbidden, Message: "to ask about " + what + " the API client needs the API " + api}).With(err)
	}
	return (&jsonapi.Error{Status: http.StatusServiceUnavailable, Message: "try again later"}).With(err)
}

// describeExplain describes the operation for the OpenAPI document.
func describeExplain() openapi.Operation {
	return openapi.Operation{
		Method: http.MethodPost, Path: explainPath, ID: "explain", Tag: explainAPI,
		Summary: "Tells what a request would get, how each rule stands to it, and which one decides",
		Body:    adminapi.ExplainRequest{},
		Answers: []openapi.Answer{
			{Status: http.StatusOK, Body: adminapi.ExplainAnswer{}},
			{
				Status: http.StatusForbidden,
				Text:   "The API client may not use this API, or not ask about persons (persons), tokens (introspection) or refusals (persons, events)",
			},
			{Status: http.StatusNotFound, Text: "The person or refusal is unknown"},
			{Status: http.StatusConflict, Text: "The configuration API is switched off"},
		},
	}
}
