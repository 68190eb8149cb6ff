package servertest

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
)

// APIClient returns the block of an API client.
func APIClient(id, apis string) string {
	return "api_client " + id + " {\n\t\t\tsecret " + OpsSecret + "\n\t\t\tapis " + apis + "\n\t\t}\n"
}

// OpsSecret is the secret of the clients of APIs.
const OpsSecret = "the-secret-of-the-administrator-here"

// Configured returns a server whose configuration API the client admin may use.
func Configured(t *testing.T, extra string) *Server {
	t.Helper()
	s := NewServer(t)
	s.Extra = extra + "\napi_client admin {\n\tsecret " + OpsSecret +
		"\n\tapis configuration events credentials persons policies access access_decisions statistics storage sessions assurance\n}\n"
	return s
}

// Call makes a request to an API as admin. body nil: none.
func (s *Server) Call(method, path string, body any, headers ...string) (*http.Response, string) {
	s.T.Helper()
	raw := []byte(nil)
	if body != nil {
		var err error
		if raw, err = json.Marshal(body); err != nil {
			s.T.Fatal(err)
		}
	}
	r := s.Request(method, s.Issuer()+path, strings.NewReader(string(raw)))
	r.SetBasicAuth("admin", OpsSecret)
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	return s.Do(r)
}

// MustCall is Call that must be answered with this status.
func (s *Server) MustCall(method, path string, body any, want int) string {
	s.T.Helper()
	resp, text := s.Call(method, path, body) //nolint:bodyclose // it is read and closed
	if resp.StatusCode != want {
		s.T.Fatalf("%s %s = %d %s, want %d", method, path, resp.StatusCode, text, want)
	}
	return text
}

// PoliciesPath is the path of the policies in the configuration API.
const PoliciesPath = "/api/v2/config/policies"

// WithPolicies returns a server whose API client admin can change policies.
func WithPolicies(t *testing.T) *Server {
	t.Helper()
	s := NewServer(t)
	s.Extra = "api_client admin {\n\tsecret " + OpsSecret + "\n\tapis configuration policies\n}\n"
	return s
}

// RuleJSON is a rule of a policy in the configuration API.
type RuleJSON = map[string]any
