package authz_test

import (
	"net/http"
	"testing"

	"github.com/gatehouse-id/gatehouse/authz/authztest"
)

// TestResponseModes holds how answers travel. (OAuth 2.0 Multiple Response Type Encoding Practices 2.1; Form Post
// Response Mode 2)
func TestResponseModes(t *testing.T) {
	t.Parallel()
	h := authztest.New(t)
	b := h.Browser(authztest.Demo).SignIn(authztest.Demo)
	for _, c := range []struct {
		name string
		with []string
		want string // query, fragment, form_post
		err  string
	}{
		{"default", nil, "query", ""},
		{"query", []string{"response_mode", "query"}, "query", ""},
		{"fragment", []string{"response_mode", "fragment"}, "fragment", ""},
		{"form_post", []string{"response_mode", "form_post"}, "form_post", ""},
		{"error in the query", []string{"scope", "nonsense"}, "query", "invalid_scope"},
		{"error in the fragment", []string{"response_mode", "fragment", "scope", "nonsense"}, "fragment", "invalid_scope"},
		{"error by form", []string{"response_mode", "form_post", "scope", "nonsense"}, "form_post", "invalid_scope"},
		{"early error in the fragment", []string{"response_mode", "fragment", "request", "x"}, "fragment", "request_not_supported"},
		{"unknown mode", []string{"response_mode", "web_message"}, "query", "invalid_request"},
		{
			"silent error by form",
			[]string{"response_mode", "form_post", "prompt", "none", "acr_values", "urn:gatehouse:level:4"},
			"form_post", "interaction_required",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			mode, answer := authztest.AnswerOf(t, b.Authorize("shop", c.with...))
			if mode != c.want || answer.Get("error") != c.err || answer.Get("iss") != h.Issuer || answer.Get("state") != "the state" {
				t.Errorf("answer by %s %v, want by %s with error %q, iss and state", mode, answer, c.want, c.err)
			}
			if c.err != "" {
				return
			}
			if res := h.Redeem("shop", answer.Get("code")); res.Status != http.StatusOK {
				t.Errorf("Token = %d %s, want 200", res.Status, res.Body)
			}
		})
	}
	h.Invariants(t)
}

// TestFormPostAfterConsent holds that the answer to our form can be a form for the client.
func TestFormPostAfterConsent(t *testing.T) {
	t.Parallel()
	h := authztest.New(t)
	for decision, want := range map[string]string{"allow": "code", "deny": "error"} {
		b := h.Browser(authztest.Demo)
		b.Decision = decision
		if mode, answer := authztest.AnswerOf(t, b.Authorize("asks", "response_mode", "form_post", "prompt", "consent")); mode != "form_post" ||
			!answer.Has(want) {
			t.Errorf("%s: answer by %s %v, want %s by form_post", decision, mode, answer, want)
		}
	}
	h.Invariants(t)
}
