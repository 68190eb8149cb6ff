package openapi_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/internal/openapi"
	"github.com/gatehouse-id/gatehouse/internal/openapi/openapitest"
)

type colour struct {
	Name   string            `json:"name" rest:"required" check:"text,20"`
	Kind   string            `json:"kind" check:"enum,WARM|COLD"`
	Level  int               `json:"level" check:"int,1,4"`
	Made   time.Time         `json:"made"`
	Parts  []colour          `json:"parts" check:"most,3"`
	Others map[string]string `json:"others"`
	Any    json.RawMessage   `json:"any"`
	Hidden string            `json:"-"`
	Inner  struct {
		On bool `json:"on"`
	} `json:"inner"`
}

func table() []openapi.Operation {
	return []openapi.Operation{
		{
			Method: http.MethodGet, Path: "/colours", ID: "listColours", Tag: "colours", Summary: "Lists",
			Answers: []openapi.Answer{{Status: 200, Body: []colour{}}}, Query: []openapi.Param{{Name: "limit", Text: "how many", Required: true}},
		},
		{
			Method: http.MethodPost, Path: "/colours/{id}", ID: "putColour", Tag: "colours", Summary: "Puts", Body: colour{},
			Answers: []openapi.Answer{{Status: 204}, {Status: 400, Text: "wrong"}},
		},
		{
			Method: http.MethodGet, Path: "/open", ID: "open", Tag: "colours", Summary: "Open", Public: true,
			Answers: []openapi.Answer{{Status: 200}},
		},
	}
}

func TestDocument(t *testing.T) {
	t.Parallel()
	doc, err := openapi.Document("Colours", "1.0.0", "https://auth.example.com", table())
	if err != nil {
		t.Fatal(err)
	}
	if wrong := openapitest.Check(doc); len(wrong) > 0 {
		t.Errorf("Check = %q, want nothing\n%s", wrong, doc)
	}
	again, err := openapi.Document("Colours", "1.0.0", "https://auth.example.com", table())
	if err != nil || string(again) != string(doc) {
		t.Errorf("Document twice differs (%v)", err)
	}
	var d struct {
		Paths map[string]map[string]struct {
			Responses map[string]any
			Security  *[]any
		}
		Components struct {
			Schemas map[string]struct {
				Required             []string
				AdditionalProperties any
				Properties           map[string]map[string]any
			}
		}
	}
	if err := json.Unmarshal(doc, &d); err != nil {
		t.Fatal(err)
	}
	c := d.Components.Schemas["Colour"]
	if !slices.Equal(c.Required, []string{"name"}) || c.AdditionalProperties != false || len(c.Properties) != 8 {
		t.Errorf("Colour = %+v", c)
	}
	for member, want := range map[string]string{
		"name": `{"maxLength":20,"type":"string"}`, "kind": `{"enum":["WARM","COLD"],"type":"string"}`,
		"level":  `{"maximum":4,"minimum":1,"type":"integer"}`,
		"made":   `{"format":"date-time","type":"string"}`,
		"parts":  `{"items":{"$ref":"#/components/schemas/Colour"},"maxItems":3,"type":"array"}`,
		"others": `{"additionalProperties":{"type":"string"},"type":"object"}`, "any": `{}`,
	} {
		got, err := json.Marshal(c.Properties[member])
		if err != nil || string(got) != want {
			t.Errorf("%s = %s, want %s", member, got, want)
		}
	}
	for status, want := range map[string]bool{
		"204": true, "400": true, "401": true, "403": true, "413": true, "415": true,
		"503": true, "200": false,
	} {
		if _, ok := d.Paths["/colours/{id}"]["post"].Responses[status]; ok != want {
			t.Errorf("POST /colours/{id} has %s: %v, want %v", status, ok, want)
		}
	}
	if got := d.Paths["/open"]["get"]; got.Security == nil || len(*got.Security) != 0 || len(got.Responses) != 1 {
		t.Errorf("GET /open = %+v, want no security and no refusals", got)
	}
	twice := append(table(), table()[0])
	if _, err := openapi.Document("x", "1", "https://x", twice); err == nil {
		t.Error("Document with an operation twice = nil, want an error")
	}
}

func TestCheckFinds(t *testing.T) {
	t.Parallel()
	doc, err := openapi.Document("Colours", "1.0.0", "https://auth.example.com", table())
	if err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string][2]string{
		"another version":          {`"openapi": "3.1.1"`, `"openapi": "3.0.0"`},
		"a reference to nothing":   {`#/components/schemas/ErrorResponse"`, `#/components/schemas/Gone"`},
		"an undescribed parameter": {`"/colours/{id}": {`, `"/colours/{id}/{other}": {`},
		"an id twice":              {`"operationId": "open"`, `"operationId": "putColour"`},
		"a type that is none":      {`"type": "boolean"`, `"type": "bool"`},
		"no title":                 {`"title": "Colours"`, `"title": ""`},
		"an unknown member":        {`"info": {`, `"infos": {`},
		"no success":               {`"204": {`, `"404": {`},
		"a status that is none":    {`"204": {`, `"299": {`},
		"a missing property":       {"\"required\": [\n          \"name\"", "\"required\": [\n          \"names\""},
	} {
		if !strings.Contains(string(doc), change[0]) {
			t.Fatalf("%s: the document has no %s", name, change[0])
		}
		if wrong := openapitest.Check([]byte(strings.ReplaceAll(string(doc), change[0], change[1]))); len(wrong) == 0 {
			t.Errorf("Check with %s = nothing", name)
		}
	}
}
