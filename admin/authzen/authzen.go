// Package authzen is a policy decision point for other applications and gateways (OpenID AuthZEN Authorization API
// 1.0): it reads their questions, has each evaluated, and writes the decisions. (docs/decisions/operation.md#authzen)
package authzen

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/gatehouse-id/gatehouse/internal/jsonapi"
)

// The paths that are served.
const (
	evaluationPath  = "/access/v1/evaluation"
	evaluationsPath = "/access/v1/evaluations"
	metadataPath    = "/.well-known/authzen-configuration"
)

const (
	maxBody        = 256 << 10 // bytes
	maxEvaluations = 100       // of one request
	maxRequestID   = 256       // bytes of X-Request-ID
)

// Question is a question about a request that no one has made.
type Question struct {
	Person, Client string // both: the person by a token of the client; none: a stranger
	Level          int    // of the sign-in. 0: that of the strongest session
	Scopes         []string
	URL, Method    string
	IP             string // Default: of no machine
	Gate           string // a forward_auth or policy. Empty: that of the URL
}

// Decision is the answer to one question.
type Decision struct {
	Decision bool           `json:"decision"`
	Context  map[string]any `json:"context,omitempty"`
}

// Ask answers a question. A *jsonapi.Error below 500 is about the question; any other error means that it cannot tell.
type Ask func(q Question) (Decision, error)

// API serves the paths. It is safe for concurrent use.
type API struct {
	issuer string
	gate   *jsonapi.Gate
	asking func(r *http.Request) (ask Ask, done func(), err error)
	routes map[string]http.Handler
}

// New returns the API of an issuer for API clients that may use api. asking begins to answer the questions of a
// request.
func New(issuer, api string, gate *jsonapi.Gate, asking func(r *http.Request) (ask Ask, done func(), err error)) *API {
	a := &API{issuer: issuer, gate: gate, asking: asking}
	post := func(h jsonapi.Handler) http.Handler {
		return gate.Methods(api, nil, map[string]jsonapi.Handler{http.MethodPost: h})
	}
	a.routes = map[string]http.Handler{
		evaluationPath: post(a.evaluation), evaluationsPath: post(a.evaluations),
		metadataPath: http.HandlerFunc(a.metadata),
	}
	return a
}

// Paths returns the paths that are served.
func (*API) Paths() []string { return []string{evaluationPath, evaluationsPath, metadataPath} }

func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h, found := a.routes[r.URL.Path]
	if !found {
		a.gate.Fail(w, r, jsonapi.NotFound())
		return
	}
	// Authorization API 1.0 10.1.3: the answer has the identifier of its request
	if id := r.Header.Get("X-Request-ID"); id != "" && len(id) <= maxRequestID &&
		!strings.ContainsFunc(id, func(c rune) bool { return c < ' ' || c > '~' }) {
		w.Header().Set("X-Request-ID", id)
	}
	h.ServeHTTP(w, r)
}

// metadata serves GET /.well-known/authzen-configuration (Authorization API 1.0 9.2).
func (a *API) metadata(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		a.gate.Fail(w, r, &jsonapi.Error{Status: http.StatusMethodNotAllowed, Message: "method not allowed"})
		return
	}
	jsonapi.JSON(w, http.StatusOK, map[string]string{
		"policy_decision_point": a.issuer, "access_evaluation_endpoint": a.issuer + evaluationPath,
		"access_evaluations_endpoint": a.issuer + evaluationsPath,
	})
}

// evaluation serves POST /access/v1/evaluation (Authorization API 1.0 6).
func (a *API) evaluation(w http.ResponseWriter, r *http.Request, _ string) error {
	in, err := read(w, r)
	if err != nil {
		return err
	}
	return a.one(w, r, in)
}

// one answers a question by itself, which must be complete.
func (a *API) one(w http.ResponseWriter, r *http.Request, in object) error {
	q, err := question(in)
	if err != nil {
		return err
	}
	ask, done, err := a.asking(r)
	if err != nil {
		return unavailable(err)
	}
	defer done()
	d, err := decide(ask, q)
	if err != nil {
		return err
	}
	jsonapi.JSON(w, http.StatusOK, d)
	return nil
}

// The semantics of several questions, and the decision after which no more are answered. (Authorization API 1.0
// 7.1.2.1)
var semantics = map[string]struct{ stops, at bool }{
	"execute_all": {}, "deny_on_first_deny": {stops: true, at: false}, "permit_on_first_permit": {stops: true, at: true},
}

// evaluations serves POST /access/v1/evaluations (Authorization API 1.0 7). Without questions of its own the request
// is one question.
func (a *API) evaluations(w http.ResponseWriter, r *http.Request, _ string) error {
	in, err := read(w, r)
	if err != nil {
		return err
	}
	items, err := in.list("evaluations")
	if err != nil {
		return err
	}
	if len(items) == 0 {
		return a.one(w, r, in)
	}
	if len(items) > maxEvaluations {
		return jsonapi.Invalid(jsonapi.Problem{Path: "evaluations", Problem: fmt.Sprintf("at most %d", maxEvaluations)})
	}
	options, err := in.object("options")
	if err != nil {
		return err
	}
	how := semantics["execute_all"]
	if options["evaluations_semantic"] != nil {
		name, _ := options.text("evaluations_semantic")
		known := false
		if how, known = semantics[name]; !known {
			return jsonapi.Invalid(jsonapi.Problem{
				Path:    "options.evaluations_semantic",
				Problem: "want execute_all, deny_on_first_deny or permit_on_first_permit",
			})
		}
	}
	ask, done, err := a.asking(r)
	if err != nil {
		return unavailable(err)
	}
	defer done()
	out := make([]Decision, 0, len(items))
	for _, item := range items {
		var d Decision
		q, err := question(in.with(item))
		if err == nil {
			d, err = decide(ask, q)
		} else {
			d, err = refused(err)
		}
		if err != nil {
			return err
		}
		if out = append(out, d); how.stops && d.Decision == how.at {
			break
		}
	}
	jsonapi.JSON(w, http.StatusOK, map[string]any{"evaluations": out})
	return nil
}

// decide asks a question. What cannot be asked is denied, with the reason.
func decide(ask Ask, q Question) (Decision, error) {
	d, err := ask(q)
	if err != nil {
		return refused(err)
	}
	return d, nil
}

// refused makes an error about a question a decision.
func refused(err error) (Decision, error) {
	if e, ok := err.(*jsonapi.Error); ok && e.Status < http.StatusInternalServerError { //nolint:errorlint // as decide and question return it
		return Decision{Context: map[string]any{"error": map[string]any{"status": e.Status, "message": e.Message}}}, nil
	}
	return Decision{}, unavailable(err)
}

func unavailable(err error) error {
	return (&jsonapi.Error{Status: http.StatusServiceUnavailable, Message: "try again later"}).With(err)
}

// read reads a body. Members that are not known are ignored. (Authorization API 1.0 10.1.1)
func read(w http.ResponseWriter, r *http.Request) (object, error) {
	raw, err := jsonapi.Body(w, r, maxBody)
	if err != nil {
		return nil, err
	}
	if err := check(raw); err != nil {
		return nil, jsonapi.Invalid(jsonapi.Problem{Problem: "the body " + err.Error()})
	}
	var in object
	if err := json.Unmarshal(raw, &in); err != nil || in == nil {
		return nil, jsonapi.Invalid(jsonapi.Problem{Problem: "the body must be an object"})
	}
	return in, nil
}
