package caddymodule_test

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/gatehouse-id/gatehouse/caddymodule/servertest"
	"github.com/gatehouse-id/gatehouse/internal/openapi/openapitest"
)

// described is the part of the document that the test looks at.
type described struct {
	Servers []struct{ URL string }
	Paths   map[string]map[string]struct {
		Tags     []string
		Security *[]any
		Body     any `json:"requestBody"`
	}
}

var pathParameter = regexp.MustCompile(`\{[^}]+\}`)

// TestOpenAPI holds the document against what is served: every operation is there and asks for credentials, and no
// other method is.
func TestOpenAPI(t *testing.T) {
	s := servertest.Configured(t, "")
	s.InIdentity = "session_api on\ncredentials_key " + strings.Repeat("ab", 32) // without these the two APIs answer nothing but 503
	s.MustLoad()
	resp, body := s.Get("/api/openapi.json")
	if resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != "application/json;charset=UTF-8" ||
		resp.Header.Get("X-Content-Type-Options") != "nosniff" {
		t.Fatalf("GET /api/openapi.json = %d %v", resp.StatusCode, resp.Header)
	}
	if again, _ := s.Call(http.MethodGet, "/api/openapi.json", nil, "If-None-Match",
		resp.Header.Get("ETag")); again.StatusCode != http.StatusNotModified {
		t.Errorf("with its ETag = %d, want 304", again.StatusCode)
	}
	if post, _ := s.Call(http.MethodPost, "/api/openapi.json", map[string]any{}); post.StatusCode != http.StatusMethodNotAllowed ||
		post.Header.Get("Allow") != "GET, HEAD" {
		t.Errorf("POST = %d %q", post.StatusCode, post.Header.Get("Allow"))
	}
	for _, wrong := range openapitest.Check([]byte(body)) {
		t.Error(wrong)
	}
	doc := servertest.Decode[described](t, body)
	if len(doc.Servers) != 1 || doc.Servers[0].URL != s.Issuer() {
		t.Errorf("servers = %v, want the issuer", doc.Servers)
	}
	for _, path := range slices.Sorted(maps.Keys(doc.Paths)) {
		var allow []string
		for method, o := range doc.Paths[path] {
			method = strings.ToUpper(method)
			allow = append(allow, method)
			if method == http.MethodGet {
				allow = append(allow, http.MethodHead)
			}
			if o.Security != nil {
				continue
			}
			r := s.Request(method, s.Issuer()+pathParameter.ReplaceAllString(path, "x"), nil)
			if resp, text := s.Do(r); resp.StatusCode != http.StatusUnauthorized ||
				!strings.HasPrefix(resp.Header.Get("WWW-Authenticate"), "Basic ") {
				t.Errorf("%s %s without credentials = %d %s, want 401", method, path, resp.StatusCode, text)
			}
		}
		slices.Sort(allow)
		resp, text := s.Call(http.MethodPatch, pathParameter.ReplaceAllString(path, "x"), map[string]any{})
		got := strings.Split(strings.ReplaceAll(resp.Header.Get("Allow"), " ", ""), ",")
		slices.Sort(got)
		if resp.StatusCode != http.StatusMethodNotAllowed || !slices.Equal(got, allow) {
			t.Errorf("PATCH %s = %d %s, allows %q, want 405 and %q", path, resp.StatusCode, text, got, allow)
		}
	}
}

// TestOpenAPIKnowsEveryRoute reads the routes of the APIs in their sources.
func TestOpenAPIKnowsEveryRoute(t *testing.T) {
	s := servertest.Configured(t, "")
	s.MustLoad()
	_, body := s.Get("/api/openapi.json")
	doc := servertest.Decode[described](t, body)
	names := map[string]bool{}
	for path := range doc.Paths {
		names[pathParameter.ReplaceAllString(path, "{}")] = true
	}
	for _, file := range []string{
		"../identity/settings/routes.go", "../identity/keystore/routes.go", "../identity/api/routes.go",
		"../identity/access/routes.go",
	} {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			if f, ok := n.(*ast.FuncDecl); ok && f.Name.Name == "Paths" { // prefixes, not routes
				return false
			}
			lit, ok := n.(*ast.BasicLit)
			if !ok || lit.Kind != token.STRING {
				return true
			}
			route, err := strconv.Unquote(lit.Value)
			if _, path, found := strings.Cut(route, " "); found {
				route = path
			}
			if err == nil && strings.HasPrefix(route, "/") && len(route) > 1 && !names[pathParameter.ReplaceAllString(route, "{}")] {
				t.Errorf("%s serves %s, which /api/openapi.json does not describe: add a row to openapi.go beside it", file, route)
			}
			return true
		})
	}
}

// TestOpenAPIHoldsNoSecret: it is for everybody.
func TestOpenAPIHoldsNoSecret(t *testing.T) {
	s := servertest.Configured(t, "")
	s.MustLoad()
	_, body := s.Get("/api/openapi.json")
	for _, secret := range []string{servertest.OpsSecret, servertest.TestSecret, servertest.TestPassword, s.Dir} {
		if strings.Contains(body, secret) {
			t.Errorf("the document holds %q", secret)
		}
	}
	if !json.Valid([]byte(body)) {
		t.Error("the document is not JSON")
	}
}
