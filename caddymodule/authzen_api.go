package caddymodule

import (
	"errors"
	"net/http"

	"github.com/gatehouse-id/gatehouse/admin/authzen"
	"github.com/gatehouse-id/gatehouse/caddymodule/adminapi"
	"github.com/gatehouse-id/gatehouse/caddymodule/protect"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/internal/jsonapi"
	"github.com/gatehouse-id/gatehouse/internal/openapi"
	"github.com/gatehouse-id/gatehouse/storage"
)

// openAuthZEN makes the API by which others ask the policies. The answers are those of explain, without what is known
// of persons: an unknown person and one who cannot sign in are strangers.
func (i *instance) openAuthZEN(a *App) *authzen.API {
	return authzen.New(i.issuer.String(), explainAPI, i.gate, func(r *http.Request) (authzen.Ask, func(), error) {
		inst, err := a.Instance(r.Context())
		if err != nil {
			return nil, nil, err
		}
		return func(q authzen.Question) (authzen.Decision, error) { return askPolicies(inst, r, q) }, inst.Leave, nil
	})
}

// nobodysClient is an id that no client can have.
const nobodysClient = " "

func askPolicies(inst *adminapi.Instance, r *http.Request, q authzen.Question) (d authzen.Decision, err error) {
	in := adminapi.ExplainRequest{
		URL: q.URL, Method: q.Method, IP: q.IP, Gate: q.Gate, Person: q.Person, Client: q.Client,
		Level: q.Level, Scopes: q.Scopes,
	}
	if in.Client != "" {
		if in.Client, err = usableClient(inst, r, in.Client); err != nil {
			return d, err
		}
		if in.Client == "" {
			in.Person = ""
		}
	}
	out, err := inst.AnswerExplain(r, in)
	switch {
	case errors.Is(err, person.ErrNoPerson):
		in.Person = ""
		out, err = inst.AnswerExplain(r, in)
	case err == nil && in.Person != "" && in.Client == "" && out.Verdict == protect.SignIn && out.Caller != nil:
		// The site knows no browsers, or a policy is asked by itself: the person comes by a token.
		in.Client = nobodysClient
		out, err = inst.AnswerExplain(r, in)
	}
	if err != nil {
		status, text := adminapi.Refused(err)
		return d, (&jsonapi.Error{Status: status, Message: text}).With(err)
	}
	d.Decision = (out.Verdict == protect.Allow || out.Verdict == protect.Open) && len(out.Steps) > 0
	d.Context = map[string]any{"verdict": out.Verdict}
	if n := len(out.Steps); n == 0 {
		d.Context = map[string]any{"error": map[string]any{
			"status":  http.StatusNotFound,
			"message": "no protect stands on the way of this request",
		}}
	} else if last := out.Steps[n-1]; !d.Decision {
		if d.Context["reason"] = last.Reason; last.WantedLevel > 0 {
			d.Context["wanted_level"] = last.WantedLevel
		}
		for _, l := range last.Limits {
			if l.Refuses {
				d.Context["limit"], d.Context["retry_after"] = l.Limit, l.Wait
			}
		}
	}
	return d, nil
}

// usableClient returns the id of a client, or "" if it is unknown or disabled.
func usableClient(inst *adminapi.Instance, r *http.Request, id string) (string, error) {
	usable := ""
	err := inst.Store.View(r.Context(), func(tx storage.Tx) error {
		c, found, err := inst.Authz.Clients().Find(tx, id)
		if usable = ""; found && !c.Disabled {
			usable = id
		}
		return err
	})
	return usable, err
}

// describeAuthZEN describes the operations for the OpenAPI document.
func describeAuthZEN() []openapi.Operation {
	answers := []openapi.Answer{
		{Status: http.StatusOK, Body: authzen.Decision{}},
		{Status: http.StatusForbidden, Text: "The API client may not use this API"},
		{Status: http.StatusServiceUnavailable, Text: "It cannot be told now"},
	}
	several := []openapi.Answer{{Status: http.StatusOK, Body: map[string]any{}}, answers[1], answers[2]}
	return []openapi.Operation{
		{
			Method: http.MethodPost, Path: "/access/v1/evaluation", ID: "evaluateAccess", Tag: explainAPI,
			Summary: "Decides whether a subject may do something with a resource (AuthZEN)",
			Body:    map[string]any{}, Answers: answers,
		},
		{
			Method: http.MethodPost, Path: "/access/v1/evaluations", ID: "evaluateAccesses", Tag: explainAPI,
			Summary: "Decides about up to 100 questions at once (AuthZEN)",
			Body:    map[string]any{}, Answers: several,
		},
		{
			Method: http.MethodGet, Path: "/.well-known/authzen-configuration", ID: "getAuthZENConfiguration", Tag: explainAPI,
			Summary: "Reads where to ask (AuthZEN)", Public: true,
			Answers: []openapi.Answer{{Status: http.StatusOK, Body: map[string]any{}}},
		},
	}
}
