// Package openapitest checks OpenAPI documents in tests.
package openapitest

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Check returns what is wrong with the structure of a document of package openapi. It knows the part of OpenAPI 3.1
// that such documents use.
func Check(doc []byte) (wrong []string) {
	var d struct {
		OpenAPI    string
		Info       struct{ Title, Version string }
		Servers    []struct{ URL string }
		Paths      map[string]map[string]operation
		Components struct {
			Schemas         map[string]map[string]any
			SecuritySchemes map[string]map[string]any
		}
		Security []map[string][]string
	}
	dec := json.NewDecoder(strings.NewReader(string(doc)))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&d); err != nil {
		return []string{err.Error()}
	}
	fail := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	if !strings.HasPrefix(d.OpenAPI, "3.1.") || d.Info.Title == "" || d.Info.Version == "" || len(d.Servers) != 1 ||
		len(d.Paths) == 0 || len(d.Security) != 1 {
		fail("the head is incomplete")
	}
	for scheme := range d.Security[0] {
		if d.Components.SecuritySchemes[scheme] == nil {
			fail("security scheme %s is not described", scheme)
		}
	}
	c := &checker{schemas: d.Components.Schemas, fail: fail, ids: map[string]bool{}, used: map[string]bool{}}
	for _, path := range slices.Sorted(maps.Keys(d.Paths)) {
		for _, method := range slices.Sorted(maps.Keys(d.Paths[path])) {
			c.operation(path, method, d.Paths[path][method])
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.schemas)) {
		c.schema("schema "+name, c.schemas[name])
	}
	for _, name := range slices.Sorted(maps.Keys(c.schemas)) {
		if !c.used[name] {
			fail("schema %s is used by nothing", name)
		}
	}
	return wrong
}

var placeholder = regexp.MustCompile(`\{([A-Za-z0-9_-]+)\}`)

type operation struct {
	OperationID string `json:"operationId"`
	Summary     string
	Tags        []string
	Deprecated  bool
	Security    *[]map[string][]string
	Parameters  []struct {
		Name, In, Description string
		Required              bool
		Schema                map[string]any
	}
	RequestBody *struct {
		Required bool
		Content  map[string]struct{ Schema map[string]any }
	} `json:"requestBody"`
	Responses map[string]struct {
		Description string
		Content     map[string]struct{ Schema map[string]any }
	}
}

type checker struct {
	schemas   map[string]map[string]any
	fail      func(format string, args ...any)
	ids, used map[string]bool
}

func (c *checker) operation(path, method string, o operation) {
	at := strings.ToUpper(method) + " " + path
	if !strings.HasPrefix(path, "/") || !slices.Contains([]string{"get", "put", "post", "delete", "patch"}, method) {
		c.fail("%s: not a path and method", at)
	}
	if o.OperationID == "" || c.ids[o.OperationID] || o.Summary == "" || len(o.Tags) != 1 || o.Tags[0] == "" {
		c.fail("%s: operationId, summary or tag is missing or not unique", at)
	}
	c.ids[o.OperationID] = true
	declared := map[string]bool{}
	for _, p := range o.Parameters {
		if p.Name == "" || declared[p.In+p.Name] || p.In != "path" && p.In != "query" && p.In != "header" || p.In == "path" && !p.Required {
			c.fail("%s: parameter %s %q is wrong", at, p.In, p.Name)
		}
		declared[p.In+p.Name] = true
		c.schema(at+" "+p.Name, p.Schema)
	}
	for _, m := range placeholder.FindAllStringSubmatch(path, -1) {
		if !declared["path"+m[1]] {
			c.fail("%s: path parameter %s is not described", at, m[1])
		}
	}
	if b := o.RequestBody; b != nil {
		if method == "get" || method == "delete" || len(b.Content) != 1 {
			c.fail("%s: the body is wrong", at)
		}
		c.schema(at+" body", b.Content["application/json"].Schema)
	}
	c.responses(at, o)
}

func (c *checker) responses(at string, o operation) {
	success := false
	for status, r := range o.Responses {
		success = success || status[0] == '2'
		if len(status) != 3 || !isStatus(status) || r.Description == "" {
			c.fail("%s: response %s is wrong", at, status)
		}
		if len(r.Content) > 1 || status == "204" && len(r.Content) > 0 {
			c.fail("%s: the body of response %s is wrong", at, status)
		}
		for kind, content := range r.Content {
			if kind != "application/json" {
				c.fail("%s: response %s is %s", at, status, kind)
			}
			c.schema(at+" "+status, content.Schema)
		}
	}
	if !success {
		c.fail("%s: no response says that it went well", at)
	}
}

func isStatus(s string) bool {
	n, err := strconv.Atoi(s)
	return err == nil && http.StatusText(n) != ""
}

// schema looks at every schema inside of a schema.
func (c *checker) schema(at string, s map[string]any) {
	if s == nil {
		c.fail("%s: no schema", at)
		return
	}
	if ref, ok := s["$ref"].(string); ok {
		name, ok := strings.CutPrefix(ref, "#/components/schemas/")
		if !ok || c.schemas[name] == nil {
			c.fail("%s: %s leads nowhere", at, ref)
		}
		c.used[name] = true
	}
	kind, has := s["type"].(string)
	if has && !slices.Contains([]string{"object", "array", "string", "boolean", "integer", "number"}, kind) {
		c.fail("%s: type %q", at, kind)
	}
	if items, ok := s["items"].(map[string]any); ok || kind == "array" {
		c.schema(at+"[]", items)
	}
	properties, _ := s["properties"].(map[string]any)
	for name, p := range properties {
		inner, _ := p.(map[string]any)
		c.schema(at+"."+name, inner)
	}
	if required, ok := s["required"].([]any); ok {
		for _, name := range required {
			if text, ok := name.(string); !ok || properties[text] == nil {
				c.fail("%s: required %v is no property", at, name)
			}
		}
	}
	if more, ok := s["additionalProperties"].(map[string]any); ok {
		c.schema(at+"{}", more)
	}
}
