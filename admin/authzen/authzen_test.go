package authzen_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/gatehouse-id/gatehouse/caddymodule/servertest"
)

// pdp is a server that others ask, with policies for its questions.
type pdp struct {
	*servertest.Server
	site string
}

func newPDP(t *testing.T) *pdp {
	t.Helper()
	s := servertest.NewServer(t)
	s.Storage, s.Key = "storage memory authzen", "encryption_key "+servertest.TestKey
	s.Extra = servertest.APIClient("pep", "policies") + servertest.APIClient("other", "persons introspection") + `policy records {
			deny {
				match path /records/locked*
				message closed
			}
			allow {
				name writers
				match method GET PUT
				need person demo@example.com
			}
			allow {
				name readers
				match method GET
			}
			allow {
				name machines
				match method POST
				need client reports
			}
			allow {
				name strong
				match method DELETE
				need level 3
			}
			public /health
		}`
	s.Site = "protect {\n\t\tpolicy records\n\t}"
	s.MustLoad()
	return &pdp{s, "http://" + s.API}
}

// question is a whole one; changes are members by their paths, such as subject.id. nil removes one.
func (p *pdp) question(changes ...any) map[string]any {
	q := map[string]any{
		"subject": map[string]any{"type": "user", "id": "demo@example.com"}, "action": map[string]any{"name": "GET"},
		"resource": map[string]any{"type": "record", "id": p.site + "/records/1"},
	}
	for i := 0; i+1 < len(changes); i += 2 {
		path := strings.Split(changes[i].(string), ".") //nolint:forcetypeassert // a name
		at := q
		for _, name := range path[:len(path)-1] {
			if at[name] == nil {
				at[name] = map[string]any{}
			}
			at = at[name].(map[string]any) //nolint:forcetypeassert // as above
		}
		if at[path[len(path)-1]] = changes[i+1]; changes[i+1] == nil {
			delete(at, path[len(path)-1])
		}
	}
	return q
}

// post sends a body as an API client. headers are name, value.
func (p *pdp) send(t *testing.T, method, path, client, body string, headers ...string) (*http.Response, string) {
	t.Helper()
	r := p.Request(method, p.Issuer()+path, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	if client != "" {
		r.SetBasicAuth(client, servertest.OpsSecret)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	return p.Do(r)
}

func (p *pdp) ask(t *testing.T, path string, body any) (status int, answer map[string]any) {
	t.Helper()
	raw, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	res, text := p.send(t, http.MethodPost, path, "pep", string(raw))
	if err := json.NewDecoder(bytes.NewBufferString(text)).Decode(&answer); err != nil {
		t.Fatalf("%s %s = %d %s", path, raw, res.StatusCode, text)
	}
	return res.StatusCode, answer
}

const (
	evaluation  = "/access/v1/evaluation"
	evaluations = "/access/v1/evaluations"
)

// TestAuthZEN are the modules of the OpenID Foundation's plans for AuthZEN 1.0, evaluation and evaluations, with
// questions about a site in place of the suite's records.
func TestAuthZEN(t *testing.T) {
	p := newPDP(t)
	decides := func(want bool, changes ...any) func(*testing.T) {
		return func(t *testing.T) {
			t.Helper()
			if status, answer := p.ask(t, evaluation, p.question(changes...)); status != http.StatusOK || answer["decision"] != want {
				t.Errorf("%v = %d %v, want decision %t", changes, status, answer, want)
			}
		}
	}
	refuses := func(changes ...any) func(*testing.T) {
		return func(t *testing.T) {
			t.Helper()
			if status, answer := p.ask(t, evaluation, p.question(changes...)); status != http.StatusBadRequest || answer["decision"] != nil {
				t.Errorf("%v = %d %v, want 400", changes, status, answer)
			}
		}
	}
	type items = []any
	several := func(want []bool, in map[string]any) func(*testing.T) {
		return func(t *testing.T) {
			t.Helper()
			status, answer := p.ask(t, evaluations, in)
			list, _ := answer["evaluations"].([]any)
			got := make([]bool, 0, len(list))
			for _, one := range list {
				d, _ := one.(map[string]any)
				b, ok := d["decision"].(bool)
				if got = append(got, b); !ok {
					t.Errorf("%v has no decision", one)
				}
			}
			if status != http.StatusOK || !slices.Equal(got, want) {
				t.Errorf("%v = %d %v, want %v", in, status, answer, want)
			}
		}
	}
	// of makes a request of several questions; each item is the question's own part.
	of := func(top map[string]any, semantic string, list ...any) map[string]any {
		in := map[string]any{"evaluations": list}
		for name, v := range top {
			in[name] = v
		}
		if semantic != "" {
			in["options"] = map[string]any{"evaluations_semantic": semantic}
		}
		return in
	}
	read, write, locked := map[string]any{"action": map[string]any{"name": "read"}}, map[string]any{"action": map[string]any{"name": "POST"}},
		map[string]any{"resource": map[string]any{"type": "record", "id": p.site + "/records/locked/1"}}
	transport := func(path string) map[string]func(*testing.T) {
		good, err := json.Marshal(p.question())
		if err != nil {
			t.Fatal(err)
		}
		want := func(status int, method, client, body string, headers ...string) func(*testing.T) {
			return func(t *testing.T) {
				t.Helper()
				if res, text := p.send(t, method, path, client, body, headers...); res.StatusCode != status {
					t.Errorf("%s as %q %v = %d %s, want %d", method, client, headers, res.StatusCode, text, status)
				}
			}
		}
		return map[string]func(*testing.T){
			"x-request-id-echoed": func(t *testing.T) {
				for id, want := range map[string]string{
					"bfe9eb29-ab87-4ca3-be83-a1d5d8305716": "bfe9eb29-ab87-4ca3-be83-a1d5d8305716",
					strings.Repeat("x", 300):               "",
				} {
					for _, body := range []string{string(good), "{}", "nonsense"} {
						if res, _ := p.send(t, http.MethodPost, path, "pep", body, "X-Request-ID", id); res.Header.Get("X-Request-ID") != want {
							t.Errorf("X-Request-ID = %q, want %q", res.Header.Get("X-Request-ID"), want)
						}
					}
				}
			},
			"idempotency": func(t *testing.T) {
				_, first := p.send(t, http.MethodPost, path, "pep", string(good))
				if _, again := p.send(t, http.MethodPost, path, "pep", string(good)); again != first {
					t.Errorf("%s, then %s", first, again)
				}
			},
			"reject-get-method":      want(http.StatusMethodNotAllowed, http.MethodGet, "pep", ""),
			"reject-put-method":      want(http.StatusMethodNotAllowed, http.MethodPut, "pep", string(good)),
			"reject-top-level-array": want(http.StatusBadRequest, http.MethodPost, "pep", "["+string(good)+"]"),
			"reject-non-json-content-type": want(http.StatusUnsupportedMediaType, http.MethodPost, "pep", string(good),
				"Content-Type", "text/plain"),
			"accept-content-type-with-charset": want(http.StatusOK, http.MethodPost, "pep", string(good), "Content-Type",
				"application/json; charset=utf-8"),
			"reject-malformed-json":           want(http.StatusBadRequest, http.MethodPost, "pep", string(good[:len(good)-1])),
			"reject-empty-body":               want(http.StatusBadRequest, http.MethodPost, "pep", ""),
			"missing-credentials-returns-401": want(http.StatusUnauthorized, http.MethodPost, "", string(good)),
			"invalid-credentials-returns-401": want(http.StatusUnauthorized, http.MethodPost, "nobody", string(good)),
			"of-ours-another-api-returns-403": want(http.StatusForbidden, http.MethodPost, "other", string(good)),
		}
	}
	for plan, modules := range map[string]map[string]func(*testing.T){
		"authzen-pdp-evaluation-": {
			"fixture-request-permit-decision": decides(true), "fixture-request-deny-decision": decides(false, "action.name", "POST"),
			"request-with-optional-context": decides(true, "context.time", "1985-10-26T01:22-07:00",
				"context.ip", "203.0.113.7"),
			"request-with-additional-properties": decides(true, "subject.properties.department", "Sales",
				"resource.properties.owner", "x", "action.properties.method", "GET"),
			"of-ours-unknown-fields": decides(true, "subject.age", 7, "resource.x", "y",
				"action.z", true, "more", items{1}),
			"fixture-request-deny-based-on-properties":           decides(false, "action.name", "DELETE", "subject.properties.level", 2),
			"fixture-request-permit-based-on-subject-properties": decides(true, "action.name", "DELETE", "subject.properties.level", 3),
			"of-ours-permit-based-on-resource-properties": decides(true, "resource.id", "/records/1", "resource.properties.hostname",
				"nowhere.example.com", "resource.properties.policy", "records"),
			"missing-subject": refuses("subject", nil), "missing-action": refuses("action", nil),
			"missing-resource":     refuses("resource", nil),
			"subject-missing-type": refuses("subject.type", nil), "subject-missing-id": refuses("subject.id", nil),
			"subject-is-string":     refuses("subject", "demo@example.com"),
			"resource-missing-type": refuses("resource.type", nil), "resource-missing-id": refuses("resource.id", nil),
			"action-missing-name": refuses("action.name", nil), "action-name-is-number": refuses("action.name", 7),
			"unknown-subject-fields-ignored":   decides(true, "subject.foo", "bar"),
			"unknown-resource-fields-ignored":  decides(true, "resource.foo", 1),
			"unknown-action-fields-ignored":    decides(true, "action.foo", nil, "action.bar", items{}),
			"unknown-top-level-fields-ignored": decides(true, "foo", map[string]any{}),
			"of-ours-members-in-another-case":  refuses("subject", nil, "Subject", map[string]any{"type": "user", "id": "demo@example.com"}),
		},
		"authzen-pdp-evaluations-": {
			"batch-request-with-evaluations-array":   several([]bool{true, false}, of(p.question(), "", read, write)),
			"batch-with-fixture-decisions-validated": several([]bool{true, false}, of(p.question(), "", map[string]any{}, write)),
			"batch-with-fully-specified-evaluations": several([]bool{true, false, true},
				of(nil, "", p.question(), p.question("action.name", "POST"), p.question("action.name", "PUT"))),
			"batch-with-context-inheritance": several([]bool{true, true},
				of(p.question("context.ip", "203.0.113.7"), "", map[string]any{"context": map[string]any{"time": "x"}}, read)),
			"evaluation-level-errors": several([]bool{true, false, true},
				of(p.question(), "", read, map[string]any{"action": map[string]any{"name": "frobnicate"}}, read)),
			"execute-all-explicit":                   several([]bool{true, false, true}, of(p.question(), "execute_all", read, write, read)),
			"default-semantic-is-execute-all":        several([]bool{false, true, false}, of(p.question(), "", write, read, write)),
			"deny-on-first-deny":                     several([]bool{true, false}, of(p.question(), "deny_on_first_deny", read, write, read)),
			"permit-on-first-permit":                 several([]bool{false, true}, of(p.question(), "permit_on_first_permit", write, read, write)),
			"per-eval-overrides-default":             several([]bool{true, false}, of(p.question(), "", read, locked)),
			"missing-subject-returns-decision-false": several([]bool{false, false}, of(p.question("subject", nil), "", read, read)),
			"batch-with-properties-validated": several([]bool{false, true},
				of(p.question("action.name", "DELETE"), "", map[string]any{"subject": map[string]any{"properties": map[string]any{"level": 1}}},
					map[string]any{"subject": map[string]any{"properties": map[string]any{"level": 4}}})),
			"batch-with-subject-properties-validated": several([]bool{true},
				of(p.question("subject.properties.level", 3), "", map[string]any{"action": map[string]any{"name": "can_delete"}})),
			"batch-with-default-value-merging": several([]bool{true, false},
				of(p.question("resource.id", nil), "", map[string]any{"resource": map[string]any{"id": p.site + "/records/1"}}, locked)),
			"unknown-top-level-fields-ignored": several([]bool{true}, of(p.question("foo", "bar"), "", read)),
			"missing-evaluations-array-backward-compat": func(t *testing.T) {
				if status, answer := p.ask(t, evaluations, p.question()); status != http.StatusOK || answer["decision"] != true {
					t.Errorf("%d %v", status, answer)
				}
			},
			"empty-evaluations-array-backward-compat": func(t *testing.T) {
				if status, answer := p.ask(t, evaluations, of(p.question("action.name", "POST"), "")); status != http.StatusOK ||
					answer["decision"] != false {
					t.Errorf("%d %v", status, answer)
				}
			},
			"unknown-semantic-value": func(t *testing.T) {
				if status, answer := p.ask(t, evaluations, of(p.question(), "first_come", read)); status != http.StatusBadRequest {
					t.Errorf("%d %v", status, answer)
				}
			},
		},
	} {
		path := evaluation
		if strings.Contains(plan, "evaluations") {
			path = evaluations
		}
		for module, run := range transport(path) {
			modules[module] = run
		}
		for module, run := range modules {
			t.Run(plan+"test-plan/"+plan+module, run)
		}
	}
}

// TestAuthZENDecisions: who asks learns what the site would do, and nothing of persons that they could not read
// elsewhere.
func TestAuthZENDecisions(t *testing.T) {
	p := newPDP(t)
	for name, tt := range map[string]struct {
		changes []any
		want    string
	}{
		"a person": {nil, `{"context":{"verdict":"allow"},"decision":true}`},
		"a rule that denies": {
			[]any{"resource.id", p.site + "/records/locked"},
			`{"context":{"reason":"denied_by_rule","verdict":"deny"},"decision":false}`,
		},
		"too weak a sign-in": {
			[]any{"action.name", "DELETE"},
			`{"context":{"reason":"level_too_low","verdict":"step-up","wanted_level":3},"decision":false}`,
		},
		"an unknown person": {
			[]any{"subject.id", "demi@example.com"},
			`{"context":{"reason":"no_credentials","verdict":"sign-in"},"decision":false}`,
		},
		"a stranger": {
			[]any{"subject.type", "anonymous", "subject.id", "-"},
			`{"context":{"reason":"no_credentials","verdict":"sign-in"},"decision":false}`,
		},
		"a public path": {
			[]any{"subject.type", "anonymous", "subject.id", "-", "resource.id", p.site + "/health"},
			`{"context":{"verdict":"public"},"decision":true}`,
		},
		"a client": {
			[]any{"subject.type", "client", "subject.id", "reports", "action.name", "create"},
			`{"context":{"verdict":"allow"},"decision":true}`,
		},
		"an unknown client": {
			[]any{"subject.type", "client", "subject.id", "nobody", "action.name", "create"},
			`{"context":{"reason":"no_credentials","verdict":"sign-in"},"decision":false}`,
		},
		"by a client": {
			[]any{"subject.properties.client", "reports", "action.name", "POST"},
			`{"context":{"verdict":"allow"},"decision":true}`,
		},
		"by an unknown client": {
			[]any{"subject.properties.client", "nobody"},
			`{"context":{"reason":"no_credentials","verdict":"sign-in"},"decision":false}`,
		},
		"a client as a list":    {[]any{"subject.properties.client", []any{}}, `subject.properties.client: want the id of the client`},
		"another kind":          {[]any{"subject.type", "robot"}, `subject.type: want user, client or anonymous`},
		"another action":        {[]any{"action.name", "frobnicate"}, `action.name: want an HTTP method`},
		"no address":            {[]any{"resource.id", "record-1"}, `resource.id: want the address of a site`},
		"a route without host":  {[]any{"resource.id", "/records/1"}, `resource.id: want the address of a site`},
		"no site":               {[]any{"resource.id", "https://nowhere.example.com/"}, `no site of the configuration answers`},
		"a policy of no name":   {[]any{"resource.properties.policy", "nothing"}, `there is no forward_auth and no policy of this name`},
		"a wrong address":       {[]any{"context.ip", "nowhere"}, `ip: want an address`},
		"an address as number":  {[]any{"context.ip", 7}, `context.ip: must be an address`},
		"a level out of bounds": {[]any{"subject.properties.level", 9}, `subject.properties.level: want a number`},
		"a level as text":       {[]any{"subject.properties.level", "3"}, `subject.properties.level: want a number`},
		"scopes as text":        {[]any{"subject.properties.scopes", "a b"}, `subject.properties.scopes: must be a list`},
		"properties as a list":  {[]any{"resource.properties", []any{}}, `resource.properties: must be an object`},
		"context as a text":     {[]any{"context", "x"}, `context: must be an object`},
	} {
		_, answer := p.ask(t, evaluation, p.question(tt.changes...))
		if got, _ := json.Marshal(answer); !strings.Contains(string(got), tt.want) {
			t.Errorf("%s: %s, want %s", name, got, tt.want)
		}
	}
	_, doc := p.Get("/.well-known/authzen-configuration")
	want := fmt.Sprintf(`{"access_evaluation_endpoint":"%[1]s/access/v1/evaluation","access_evaluations_endpoint":"%[1]s/access/v1/evaluations","policy_decision_point":"%[1]s"}`, p.Issuer())
	if strings.TrimSpace(doc) != want {
		t.Errorf("metadata = %s, want %s", doc, want)
	}
	t.Run("attack 438: questions without end, without credentials, of other APIs; about persons, to learn who exists", func(t *testing.T) {
		var many []any
		for range 101 {
			many = append(many, map[string]any{})
		}
		in := p.question()
		in["evaluations"] = many
		if status, answer := p.ask(t, evaluations, in); status != http.StatusBadRequest {
			t.Errorf("101 questions = %d %v, want 400", status, answer)
		}
		memory := servertest.MemoryOf(t, "authzen")
		views := func(changes ...any) int64 {
			before := memory.Views.Load()
			p.ask(t, evaluation, p.question(changes...))
			return memory.Views.Load() - before
		}
		stranger := views("subject.type", "anonymous")
		for _, kind := range []string{"user", "client"} { // one look-up more, and no search for similar names
			if n := views("subject.type", kind, "subject.id", "nobody@example.com"); n != stranger+1 {
				t.Errorf("an unknown %s costs %d reads, a stranger %d", kind, n, stranger)
			}
		}
		for body, status := range map[string]int{
			strings.Repeat("[", 70): http.StatusBadRequest, `{"subject":` + strings.Repeat(`{"a":`, 70): http.StatusBadRequest,
			"\"" + strings.Repeat("x", 300<<10) + "\"": http.StatusRequestEntityTooLarge,
			`{"evaluations":{}}`:                       http.StatusBadRequest, `{"evaluations":[1]}`: http.StatusBadRequest,
			`{"evaluations":[null]}`: http.StatusBadRequest, "null": http.StatusBadRequest,
		} {
			if res, text := p.send(t, http.MethodPost, evaluations, "pep", body); res.StatusCode != status {
				t.Errorf("%.40s = %d %s, want %d", body, res.StatusCode, text, status)
			}
		}
		for path, status := range map[string]int{"/access/v1/evaluation/": http.StatusNotFound, "/access/v1/evaluation/x": http.StatusNotFound} {
			if res, text := p.send(t, http.MethodPost, path, "pep", "{}"); res.StatusCode != status {
				t.Errorf("%s = %d %s, want %d", path, res.StatusCode, text, status)
			}
		}
		_, known := p.ask(t, evaluation, p.question("subject.id", "guest@example.com", "action.name", "POST"))
		_, unknown := p.ask(t, evaluation, p.question("subject.id", "nobody@example.com", "action.name", "POST"))
		if fmt.Sprint(unknown["decision"]) != fmt.Sprint(known["decision"]) || strings.Contains(fmt.Sprint(unknown), "example.com") {
			t.Errorf("unknown = %v, known = %v", unknown, known)
		}
		if res, _ := p.send(t, http.MethodPost, evaluation, "pep", "{}", "Origin",
			"https://evil.example.com"); res.StatusCode != http.StatusForbidden {
			t.Errorf("of another origin = %d, want 403", res.StatusCode)
		}
	})
}

// TestAuthZENKnowsLimits: a question about a caller above a limit is answered with no, the limit and the time to wait,
// and questions count nothing.
func TestAuthZENKnowsLimits(t *testing.T) {
	p := newPDP(t)
	p.Site = "protect {\n\t\tlimit 2/h per client\n\t}"
	p.MustLoad()
	token := p.Token()
	ask := func() (bool, map[string]any) {
		t.Helper()
		_, answer := p.ask(t, evaluation, p.question("subject", map[string]any{"type": "client", "id": "reports"}))
		decision, _ := answer["decision"].(bool)
		context, _ := answer["context"].(map[string]any)
		return decision, context
	}
	for range 4 {
		if ok, context := ask(); !ok {
			t.Fatalf("below the limit = no, %v", context)
		}
	}
	for range 2 {
		if status := p.Enters(token); status != http.StatusOK {
			t.Fatalf("a request below the limit = %d", status)
		}
	}
	ok, context := ask()
	wait, _ := context["retry_after"].(float64)
	if ok || context["verdict"] != "wait" || context["reason"] != "rate_limited" || context["limit"] != "limit 2/h per client" ||
		wait < 1790 || wait > 1800 {
		t.Errorf("above the limit = %t %v, want no, the limit and half an hour", ok, context)
	}
}
