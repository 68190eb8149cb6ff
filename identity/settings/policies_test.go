package settings_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/authn"
	"github.com/gatehouse-id/gatehouse/internal/jsonapi"
)

const policies = "/api/v2/config/policies"

// withPolicies is a world whose Caddyfile has the policy office, and a site that uses office and staff.
func withPolicies(t *testing.T) *world {
	t.Helper()
	w := newWorld(t)
	w.service = w.another(settings.Config{
		Policies: map[string]settings.FixedPolicy{"office": {Place: "Caddyfile:7", Policy: settings.Policy{Public: []string{"/healthz"}}}},
		CheckPolicy: func(_ string, p settings.Policy) (string, error) {
			if len(p.Allow) > 0 && len(p.Allow[0].When) > 0 {
				return "allow[0].when[0]", errors.New("is no time")
			}
			return "", nil
		},
		PolicyUsers: func(name string) []string {
			if name == "office" || name == "staff" {
				return []string{"https://wiki.example.com (Caddyfile:30)"}
			}
			return nil
		},
	}, zap.NewNop())
	gate := &jsonapi.Gate{
		Log: zap.NewNop(), Issuer: "https://auth.example.com", Secure: func(*http.Request) bool { return true },
		Authorize: func(r *http.Request, api string) (string, error) {
			switch id, _, _ := r.BasicAuth(); {
			case id == "":
				return "", authn.ErrNoCredentials
			case id == "ops" && api == "policies", id == "other" && api == "configuration":
				return id, nil
			}
			return "", authn.ErrNotAllowed
		},
	}
	w.handler = settings.NewAPI(w.service, gate, func(context.Context) error { return nil })
	return w
}

// A policy is made, read, replaced and removed, each with its event.
func TestPolicyByAPI(t *testing.T) {
	t.Parallel()
	w := withPolicies(t)
	const body = `{"allow":[{"match":[{"path":["/x/*"]}],"need":{"groups":["staff"],"level":2}}]}`
	made := w.must(201, "PUT", policies+"/guests", body)
	if got := w.must(200, "GET", policies+"/guests", ""); got.body != body || got.header.Get("ETag") != made.header.Get("ETag") ||
		got.header.Get("ETag") == "" {
		t.Errorf("what was stored reads\n%s, want\n%s", got.body, body)
	}
	want := `[{"name":"office","source":"CADDYFILE","place":"Caddyfile:7","used_by":["https://wiki.example.com (Caddyfile:30)"],"policy":{"public":["/healthz"]}},` +
		`{"name":"guests","source":"API","used_by":[],"policy":` + body + `}]`
	if got := w.read(policies); got != want {
		t.Errorf("list:\n got %s\nwant %s", got, want)
	}
	w.must(412, "PUT", policies+"/guests", `{"public":["/x"]}`, "If-Match", `"other"`)
	w.must(412, "PUT", policies+"/new", `{"public":["/x"]}`, "If-Match", "*")
	w.must(412, "PUT", policies+"/guests", `{"public":["/x"]}`, "If-None-Match", "*")
	w.must(201, "PUT", policies+"/new", `{"public":["/x"]}`, "If-None-Match", "*")
	w.must(204, "PUT", policies+"/guests", `{"public":["/x"]}`, "If-Match", made.header.Get("ETag"))
	if got := w.read(policies + "/guests"); got != `{"public":["/x"]}` {
		t.Errorf("after it was replaced: %s", got)
	}
	w.must(412, "DELETE", policies+"/guests", "", "If-Match", made.header.Get("ETag"))
	w.must(204, "DELETE", policies+"/guests", "")
	w.must(404, "GET", policies+"/guests", "")
	w.must(404, "DELETE", policies+"/guests", "")
	var reasons []string
	for _, e := range w.events() {
		reasons = append(reasons, e.Actor+" "+e.Reason)
	}
	if got := strings.Join(reasons, ", "); got != "ops policies.guests, ops policies.guests, ops policies.new, ops policies.guests" {
		t.Errorf("events: %s", got)
	}
}

// What cannot be stored is refused with its place, and nothing is changed.
func TestPolicyRefused(t *testing.T) {
	t.Parallel()
	w := withPolicies(t)
	w.must(201, "PUT", policies+"/staff", `{"public":["/x"]}`)
	before := w.read(policies)
	for body, want := range map[string]string{
		`{"allow":[{"when":["never"]}]}`:                 `allow[0].when[0]: is no time`,
		`{"allow":[{"need":{"grups":["a"]}}]}`:           `allow[0].need.grups: unknown member`,
		`{"allow":[{"place":"Caddyfile:1"}]}`:            `allow[0].place: unknown member`,
		`{"allow":[{"need":{"level":5}}]}`:               `allow[0].need.level: must be from 0 to 4`,
		`{"deny":[{"message":"a\u0007b"}]}`:              `deny[0].message: has a control character`,
		`{"allow":[{"need":{"claims":[{"name":"x"}]}}]}`: `allow[0].need.claims[0].values: is required`,
		`{"allow":{}}`:                                    `allow: must be an array`,
		`{"allow":null,"public":["/x"]}`:                  `allow: must be an array`,
		`{"public":["` + strings.Repeat("x", 300) + `"]}`: `public[0]: has more than 256 characters`,
	} {
		if a := w.must(400, "PUT", policies+"/staff", body); !strings.Contains(a.body, want) {
			t.Errorf("%.60s: %s, want %q", body, a.body, want)
		}
	}
	for _, tt := range []struct{ method, path, body, want string }{
		{"PUT", "/office", `{"public":["/x"]}`, "is written in the Caddyfile (Caddyfile:7)"},
		{"DELETE", "/office", "", "is written in the Caddyfile (Caddyfile:7)"},
		{"DELETE", "/staff", "", "is used by https://wiki.example.com (Caddyfile:30)"},
	} {
		if a := w.must(409, tt.method, policies+tt.path, tt.body); !strings.Contains(a.body, tt.want) {
			t.Errorf("%s %s: %s, want %q", tt.method, tt.path, a.body, tt.want)
		}
	}
	w.must(400, "PUT", policies+"/a%20b", `{"public":["/x"]}`)
	w.must(403, "GET", policies, "", "Authorization", "Basic b3RoZXI6eA==") // an API client of other units
	w.must(401, "GET", policies, "", "Authorization", "")
	if after := w.read(policies); after != before {
		t.Errorf("something was stored:\n%s\n%s", before, after)
	}
	// Neither does an import.
	if _, err := w.service.Diff(w.Context(), []byte(`{"policies":{}}`)); err == nil || !strings.Contains(err.Error(), "is used by") {
		t.Errorf("an import without the policy: %v", err)
	}
}

// Policies are exported and imported with the rest, each of them a change of its own. Those of the Caddyfile stay
// there.
func TestPoliciesAreExported(t *testing.T) {
	t.Parallel()
	w := withPolicies(t)
	w.must(201, "PUT", policies+"/guests", `{"allow":[{"need":{"groups":["guests"]}}]}`)
	raw, err := w.service.Export(w.Context())
	if err != nil || !strings.Contains(string(raw), `"policies":{"guests":{"allow":[{"need":{"groups":["guests"]}}]}}`) {
		t.Fatalf("export: %s, %v", raw, err)
	}
	other := withPolicies(t)
	changed, err := other.service.Diff(t.Context(), raw)
	if err != nil || len(changed) != 1 || changed[0].Path != "policies.guests" || string(changed[0].From) != "null" {
		t.Errorf("diff: %+v, %v", changed, err)
	}
	if _, err := other.service.Import(t.Context(), raw, audit.Actor{ID: "test"}); err != nil {
		t.Fatal(err)
	}
	if got := other.read(policies + "/guests"); got != `{"allow":[{"need":{"groups":["guests"]}}]}` {
		t.Errorf("after the import: %s", got)
	}
}

// A policy that was stored before the Caddyfile had one of the same name counts for nothing, and can be removed.
func TestPolicyOfTheCaddyfileWins(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	check := func(string, settings.Policy) (string, error) { return "", nil }
	if _, err := w.another(settings.Config{CheckPolicy: check}, zap.NewNop()).Import(t.Context(),
		[]byte(`{"policies":{"office":{"public":["/open"]}}}`), audit.Actor{ID: "test"}); err != nil {
		t.Fatal(err)
	}
	s := w.another(settings.Config{
		CheckPolicy: check, Policies: map[string]settings.FixedPolicy{"office": {Place: "Caddyfile:3"}},
		PolicyUsers: func(string) []string { return []string{"a site"} },
	}, zap.NewNop())
	if got := s.OverruledPolicies(w.units(s)); got["office"] != "Caddyfile:3" {
		t.Errorf("overruled: %v", got)
	}
	if _, err := s.Import(t.Context(), []byte(`{"policies":{"office":{"public":["/other"]}}}`), audit.Actor{ID: "test"}); err == nil ||
		!strings.Contains(err.Error(), "is written in the Caddyfile (Caddyfile:3)") {
		t.Errorf("a change of it: %v", err)
	}
	if _, err := s.Import(t.Context(), []byte(`{"policies":{}}`), audit.Actor{ID: "test"}); err != nil {
		t.Errorf("its removal: %v", err)
	}
}

// TestEmptyListOfAPolicy: a list that is there and names no one is refused, since an absent part of a rule lets in
// everyone.
func TestEmptyListOfAPolicy(t *testing.T) {
	t.Parallel()
	w := withPolicies(t)
	w.must(201, "PUT", policies+"/staff", `{"public":["/x"]}`)
	before := w.read(policies)
	for name, tt := range map[string]struct{ body, at string }{
		"attack 6089: no rule":            {`{"allow":[],"public":["/x"]}`, "allow"},
		"attack 6089: no request":         {`{"allow":[{"match":[]}]}`, "allow[0].match"},
		"attack 6089: no hour":            {`{"allow":[{"when":[]}]}`, "allow[0].when"},
		"attack 6089: no group":           {`{"allow":[{"need":{"groups":[]}}]}`, "allow[0].need.groups"},
		"attack 6089: no scope":           {`{"allow":[{"need":{"scopes":[]}}]}`, "allow[0].need.scopes"},
		"attack 6089: no claim":           {`{"allow":[{"need":{"claims":[]}}]}`, "allow[0].need.claims"},
		"attack 6089: no person":          {`{"allow":[{"need":{"persons":[]}}]}`, "allow[0].need.persons"},
		"attack 6089: no client":          {`{"allow":[{"need":{"clients":[]}}]}`, "allow[0].need.clients"},
		"attack 6089: no provider":        {`{"allow":[{"need":{"providers":[]}}]}`, "allow[0].need.providers"},
		"attack 6089: no group to refuse": {`{"deny":[{"need":{"groups":[]},"when":["mon"]}]}`, "deny[0].need.groups"},
	} {
		t.Run(name, func(t *testing.T) {
			if a := w.must(400, "PUT", policies+"/staff", tt.body); !strings.Contains(a.body, tt.at+": is empty") {
				t.Errorf("PUT %s = %s, want %s to be empty", tt.body, a.body, tt.at)
			}
		})
	}
	if after := w.read(policies); after != before {
		t.Errorf("something was stored:\n%s\n%s", before, after)
	}
}
