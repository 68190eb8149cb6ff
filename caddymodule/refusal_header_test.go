package caddymodule_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/gatehouse-id/gatehouse/caddymodule/servertest"
)

// TestRefusalHeader: every refusal has its reference in the header Gatehouse-Ref, and an ErrorResponse nothing but the
// documented members.
func TestRefusalHeader(t *testing.T) {
	w := servertest.NewWalk(t)
	form := func(r *http.Request) { r.Header.Set("Content-Type", "application/x-www-form-urlencoded") }
	for name, tt := range map[string]struct {
		method, url, body string
		change            func(*http.Request)
		status            int
		members           []string // of the JSON. nil: it is a page
	}{
		"configuration API": {"GET", w.Issuer() + "/api/v2/config", "", nil, 401, []string{"error_message"}},
		"events API":        {"GET", w.Issuer() + "/api/events", "", nil, 401, []string{"error_message"}},
		"credentials API":   {"POST", w.Issuer() + "/api/credentials/validate", "{}", nil, 401, []string{"error_message"}},
		"SCIM":              {"GET", w.Issuer() + "/scim/v2/Users", "", nil, 401, []string{"detail", "ref", "schemas", "status"}},
		"token endpoint": {
			"POST", w.Issuer() + "/oauth/token", url.Values{"grant_type": {"client_credentials"}}.Encode(), form, 400,
			[]string{"error", "error_description", "ref"},
		},
		"site": {"GET", "http://" + w.API + "/", "", nil, 401, []string{"error", "error_description", "ref"}},
		"page": {
			"GET", w.Issuer() + "/oauth/authorize?client_id=nobody", "",
			func(r *http.Request) { r.Header.Set("Accept", "text/html") }, 400, nil,
		},
	} {
		r := w.Request(tt.method, tt.url, strings.NewReader(tt.body))
		if tt.change != nil {
			tt.change(r)
		}
		resp, body := w.Do(r)
		ref := resp.Header.Get("Gatehouse-Ref")
		if resp.StatusCode != tt.status || !servertest.Reference.MatchString(ref) {
			t.Errorf("%s = %d with the reference %q, want %d with one: %s", name, resp.StatusCode, ref, tt.status, body)
			continue
		}
		if tt.members == nil {
			if !strings.Contains(body, ref) {
				t.Errorf("%s: the page does not have the reference %s of the header", name, ref)
			}
			continue
		}
		var members map[string]any
		if err := json.Unmarshal([]byte(body), &members); err != nil {
			t.Fatalf("%s: %v in %s", name, err, body)
		}
		var names []string
		for member := range members {
			names = append(names, member)
		}
		if slices.Sort(names); !slices.Equal(names, tt.members) {
			t.Errorf("%s answers the members %q, want %q", name, names, tt.members)
		}
		if inside, ok := members["ref"]; ok && inside != ref {
			t.Errorf("%s: the body has the reference %v, the header %s", name, inside, ref)
		}
		if out := w.Run("", "why", ref); out == "" {
			t.Errorf("%s: why %s says nothing", name, ref)
		}
	}
	if resp, _ := w.Get("/healthz"); resp.Header.Get("Gatehouse-Ref") != "" {
		t.Error("an answer that refuses nothing has a reference")
	}
}
