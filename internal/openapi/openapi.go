// Package openapi describes JSON APIs: it makes an OpenAPI 3.1 document from a table of operations and the Go types of
// their bodies.
package openapi

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Version is the version of OpenAPI that Document follows.
const Version = "3.1.1"

// Operation is one method of one path. Every operation needs Basic credentials unless Public is set.
type Operation struct {
	Method, Path string // "/x/{id}" has a path parameter
	ID           string // unique
	Tag          string // the API, as it is named where API clients are allowed it
	Summary      string
	Query        []Param
	Header       []Param
	// Body is any value of the type of the request's body. It is nil without a body.
	Body any
	// Answers are the special answers of the operation: 401, 403 and 503 are added, and with a body 400, 413 and 415.
	Answers    []Answer
	Deprecated bool
	Public     bool
}

// Answer is a status and the type of its body. Without a body it is nil, and from status 400 on it is then an
// ErrorResponse.
type Answer struct {
	Status int
	Text   string
	Body   any
}

// Param is a parameter in the query or a header: a string.
type Param struct {
	Name, Text string
	Required   bool
}

// ErrorResponse is the body of every refusal. (identity service document, "Errors")
type ErrorResponse struct {
	Code    int    `json:"error_code,omitempty"`
	Message string `json:"error_message" rest:"required"`
	Details any    `json:"details,omitempty"`
}

type object = map[string]any

var placeholder = regexp.MustCompile(`\{([A-Za-z0-9_-]+)\}`)

// Document returns the description of the operations at an origin. The same operations give the same document. Two
// operations with the same method and path, or the same id, are an error.
func Document(title, version, origin string, operations []Operation) ([]byte, error) {
	s := &schemas{names: map[string]object{}}
	paths, ids := map[string]object{}, map[string]bool{}
	for _, o := range operations {
		at := paths[o.Path]
		if at == nil {
			at = object{}
			paths[o.Path] = at
		}
		method := strings.ToLower(o.Method)
		if at[method] != nil || ids[o.ID] || o.ID == "" {
			return nil, fmt.Errorf("openapi: %s %s (%s) is there twice or has no id", o.Method, o.Path, o.ID)
		}
		ids[o.ID] = true
		at[method] = o.describe(s)
	}
	if s.err != nil {
		return nil, s.err
	}
	doc := object{
		"openapi": Version,
		"info":    object{"title": title, "version": version},
		"servers": []object{{"url": origin}},
		"paths":   paths,
		"components": object{
			"schemas":         s.names,
			"securitySchemes": object{"basic_auth": object{"type": "http", "scheme": "basic", "description": "Id and secret of an API client"}},
		},
		"security": []object{{"basic_auth": []string{}}},
	}
	return json.MarshalIndent(doc, "", "  ")
}

func (o Operation) describe(s *schemas) object {
	out := object{"operationId": o.ID, "summary": o.Summary, "tags": []string{o.Tag}}
	if o.Deprecated {
		out["deprecated"] = true
	}
	if o.Public {
		out["security"] = []object{}
	}
	var params []object
	for _, m := range placeholder.FindAllStringSubmatch(o.Path, -1) {
		params = append(params, object{"name": m[1], "in": "path", "required": true, "schema": object{"type": "string"}})
	}
	for _, in := range []struct {
		place string
		list  []Param
	}{{"query", o.Query}, {"header", o.Header}} {
		for _, p := range in.list {
			params = append(params, object{
				"name": p.Name, "in": in.place, "required": p.Required, "description": p.Text,
				"schema": object{"type": "string"},
			})
		}
	}
	if len(params) > 0 {
		out["parameters"] = params
	}
	if o.Body != nil {
		out["requestBody"] = object{"required": true, "content": object{"application/json": object{"schema": s.of(o.Body)}}}
	}
	responses := object{}
	for _, a := range o.answers() {
		responses[strconv.Itoa(a.Status)] = a.describe(s)
	}
	out["responses"] = responses
	return out
}

// answers adds the answers that every operation has.
func (o Operation) answers() []Answer {
	out := slices.Clone(o.Answers)
	add := func(status int, text string) {
		if !slices.ContainsFunc(out, func(a Answer) bool { return a.Status == status }) {
			out = append(out, Answer{Status: status, Text: text})
		}
	}
	if o.Body != nil {
		add(http.StatusBadRequest, "The body is wrong: details name the member")
		add(http.StatusRequestEntityTooLarge, "The body is too large")
		add(http.StatusUnsupportedMediaType, "The body is not application/json")
	}
	if !o.Public {
		add(http.StatusUnauthorized, "No or wrong credentials")
		add(http.StatusForbidden, "The API client may not use this API")
		add(http.StatusServiceUnavailable, "Temporarily unavailable: try again later")
	}
	return out
}

func (a Answer) describe(s *schemas) object {
	text := a.Text
	if text == "" {
		text = http.StatusText(a.Status)
	}
	out := object{"description": text}
	body := a.Body
	if body == nil && a.Status >= http.StatusBadRequest {
		body = ErrorResponse{}
	}
	if body != nil {
		out["content"] = object{"application/json": object{"schema": s.of(body)}}
	}
	return out
}
