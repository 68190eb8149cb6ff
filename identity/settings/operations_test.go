package settings_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/storage"
)

// documented is every operation of the identity service document with the statuses that it lists for it; those of the
// certificates are in certificate_test.go.
var documented = map[string][]int{
	"GET /api/config":                                                                           {200, 400, 405, 500},
	"POST /api/config/extension/reload":                                                         {200, 405, 500},
	"GET /api/config/identity-providers":                                                        {200, 400, 405, 500},
	"POST /api/v2/attributes":                                                                   {204, 401, 409},
	"GET /api/v2/attributes":                                                                    {200, 401, 409},
	"POST /api/v2/config":                                                                       {204, 400, 409},
	"GET /api/v2/config":                                                                        {200, 409},
	"GET /api/v2/config/custom-messages":                                                        {200, 401, 409, 500},
	"PUT /api/v2/config/custom-messages":                                                        {204, 400, 401, 409},
	"PUT /api/v2/config/custom-messages/{locale_variant}/batch":                                 {204, 401, 409, 500},
	"DELETE /api/v2/config/custom-messages/{locale_variant}/{message_key}":                      {204, 401, 409, 500},
	"POST /api/v2/config/features":                                                              {204, 409},
	"GET /api/v2/config/features":                                                               {200, 409, 500},
	"POST /api/v2/config/features/action-token/whitelisted-urls":                                {201, 409, 500},
	"GET /api/v2/config/features/action-token/whitelisted-urls":                                 {200, 409, 500},
	"DELETE /api/v2/config/features/action-token/whitelisted-urls/{url-id}":                     {204, 401, 409, 500},
	"GET /api/v2/config/login-methods":                                                          {200, 401, 409, 500},
	"POST /api/v2/config/notifications/email":                                                   {204, 400, 401, 409},
	"GET /api/v2/config/notifications/email":                                                    {200, 401, 409, 500},
	"GET /api/v2/config/organisations":                                                          {200, 401, 409},
	"POST /api/v2/config/organisations/{organisation-id}/service-providers":                     {200, 401, 409},
	"GET /api/v2/config/organisations/{organisation-id}/service-providers":                      {200, 401, 409},
	"POST /api/v2/config/organisations/{organisation-id}/service-providers/{serviceProviderId}": {204, 401, 409},
	"GET /api/v2/config/organisations/{organisation-id}/service-providers/{serviceProviderId}":  {200, 401, 409}, // listed as 204 with a body
	"POST /api/v2/config/password-policy":                                                       {204, 400, 401, 409},
	"POST /api/v2/config/redirects":                                                             {204, 400, 401, 409},
	"GET /api/v2/config/redirects":                                                              {200, 401, 409, 500},
	"POST /api/v2/config/redirects/whitelisted-urls":                                            {200, 400, 401, 409},
	"GET /api/v2/config/redirects/whitelisted-urls":                                             {200, 401, 409},
	"DELETE /api/v2/config/redirects/whitelisted-urls/{url_id}":                                 {204, 401, 409},
	"POST /api/v2/config/step-up":                                                               {204, 400, 401, 409},
	"GET /api/v2/config/step-up":                                                                {200, 409, 500},
	"POST /api/v2/config/ui-extension":                                                          {204, 400, 401, 409},
	"GET /api/v2/config/ui-extension":                                                           {200, 401, 409, 500},
}

// good are requests that succeed in the world of prepared.
var good = map[string]string{ // operation -> body
	"POST /api/v2/attributes": `{"verification":{"email_required":true}}`,
	"POST /api/v2/config": `{"features":{"login_enabled":false},"password_policy":` + policy +
		`,"messages":{"nl":{"a":"b"}},"profile":{"required_attributes_validation_rules":[{"any_of":["EMAIL","PHONE"]}]}}`,
	"PUT /api/v2/config/custom-messages":                                                        `{"default":{"sign_in.title":"Welcome"}}`,
	"PUT /api/v2/config/custom-messages/{locale_variant}/batch":                                 `{"sign_in.title":"Welkom"}`,
	"POST /api/v2/config/features":                                                              `{"action_token":{"login":{"enabled":true,"ttl":60}}}`,
	"POST /api/v2/config/features/action-token/whitelisted-urls":                                `{"url":"https://new.example.com/a"}`,
	"POST /api/v2/config/notifications/email":                                                   `{"welcome":{"on_web_enabled":false}}`,
	"POST /api/v2/config/organisations/{organisation-id}/service-providers":                     `[{"id":"two","name":"Two"},{"name":"Three"}]`,
	"POST /api/v2/config/organisations/{organisation-id}/service-providers/{serviceProviderId}": `{"name":"Changed"}`,
	"POST /api/v2/config/password-policy":                                                       policy,
	"POST /api/v2/config/redirects":                                                             `{"url_after_login":"https://www.example.com/in"}`,
	"POST /api/v2/config/redirects/whitelisted-urls":                                            `{"url":"https://new.example.com"}`,
	"POST /api/v2/config/step-up":                                                               `{"actions":{"dashboard_step_up_authentication_level":2}}`,
	"POST /api/v2/config/ui-extension":                                                          `{"enable_login_redirect":false}`,
}

const policy = `{"min_length":10,"max_length":64,"lower_case_char_required":true,"upper_case_char_required":true,"special_char_required":false,"breached_password_blocked":false}`

// bad are bodies that are refused with 400.
var bad = map[string][]string{
	"POST /api/v2/attributes": {
		`{"verification":{"email":true}}`,
		`[]`, `{"verification":1}`,
	},
	"POST /api/v2/config": {
		`{"features":{"login_enabled":"yes"}}`,
		`{"password_policy":{"min_length":3}}`, `{"role":"admin"}`,
		`{"profile":{"required_attributes_validation_rules":[{"any_of":["SHOE_SIZE"]}]}}`,
	},
	"PUT /api/v2/config/custom-messages": {
		`{"locales":{"xx_yy_zz_a_b":{}}}`,
		`{"locales":{"..":{"a":"b"}}}`, `{"default":{"a":1}}`,
	},
	"PUT /api/v2/config/custom-messages/{locale_variant}/batch": {
		`{"a":{"b":"c"}}`,
		`{"a b":"c"}`, `{"":"c"}`,
	},
	"POST /api/v2/config/features": {
		`{"login_enabled":1}`,
		`{"action_token":{"login":{"ttl":-1}}}`, `{"action_token":{"login":{"ttl":99999999999}}}`,
		`{"action_token":{"login":{"authentication_level":5}}}`, `{"person_activation":{"type":"PIGEON"}}`,
	},
	"POST /api/v2/config/features/action-token/whitelisted-urls": {
		`{}`,
		`{"url":"https://new.example.com","id":"1"}`, `{"url":7}`,
	},
	"POST /api/v2/config/notifications/email": {`{"welcome":true}`, `{"nobody":true}`},
	"POST /api/v2/config/organisations/{organisation-id}/service-providers": {
		`{}`, `[{"id":"a/b"}]`,
		`[{"id":"x"},{"id":"x"}]`, `[{"required_authentication_level":9}]`,
	},
	"POST /api/v2/config/organisations/{organisation-id}/service-providers/{serviceProviderId}": {
		`{"id":"other"}`,
		`{"saml_metadata":"<a/>"}`, `{"secret":"x"}`,
	},
	"POST /api/v2/config/password-policy": {
		strings.Replace(policy, "10", "65", 1),
		strings.Replace(policy, "10", "-1", 1), strings.Replace(policy, "10", "2147483648", 1), strings.Replace(policy, "10", `"8"`, 1),
		strings.Replace(policy, `"min_length":10,`, "", 1),
	},
	"POST /api/v2/config/redirects": {
		`{"url_after_login":"javascript:alert(1)"}`,
		`{"default_origin_url":"https://www.example.com/path"}`, `{"url_whitelist":[{"url":"*"}]}`,
		`{"url_whitelist":[{"id":"0b6d2a4e-6d4e-4b3e-9d5f-111111111111","url":"https://a.example"}]}`,
	},
	"POST /api/v2/config/redirects/whitelisted-urls": {`{"url":"*"}`},
	"POST /api/v2/config/step-up": {
		`{"actions":{"dashboard_step_up_authentication_level":0}}`,
		`{"strategy":"USER_PREFERENCE"}`, `{"stategy":"WEAKEST"}`,
	},
	"POST /api/v2/config/ui-extension": {
		`{"base_url":"ftp://a.example"}`,
		`{"login_path":"//evil.example"}`,
	},
}

// prepared is a world with something of everything.
func prepared(t *testing.T) *world {
	t.Helper()
	w := newWorld(t)
	w.must(204, http.MethodPost, "/api/v2/config", `{
		"organisations":[{"id":"acme","name":"Acme","service_providers":{"one":{"id":"one","name":"One"}}},{"id":"other","service_providers":{"theirs":{"name":"Theirs"}}}],
		"custom_messages":{"default":{"old":"x"},"locales":{"nl_NL":{"greeting":"hoi"}}},
		"features":{"action_token":{"whitelisted_urls":[{"url":"https://app.example.com/"}]}},
		"redirects":{"url_whitelist":[{"url":"https://www.example.com/welcome"}]}
	}`)
	return w
}

// fill puts what a prepared world has for the names of a path.
func (w *world) fill(path string) string {
	u := w.units(w.service)
	return strings.NewReplacer(
		"{locale_variant}", "nl_NL", "{message_key}", "greeting", "{organisation-id}", "acme", "{serviceProviderId}", "one",
		"{url-id}", u.Features.ActionToken.WhitelistedURLs[0].ID, "{url_id}", u.Redirects.URLWhitelist[0].ID,
	).Replace(path)
}

func TestOperations(t *testing.T) {
	t.Parallel()
	for op, statuses := range documented {
		method, path, _ := strings.Cut(op, " ")
		v1 := strings.HasPrefix(path, "/api/config")
		for _, status := range statuses {
			t.Run(fmt.Sprintf("%s %d", op, status), func(t *testing.T) {
				t.Parallel()
				w := prepared(t)
				path := w.fill(path)
				before := w.read("/api/v2/config")
				switch {
				case status < 300:
					a := w.must(status, method, path, good[op])
					if a.body == "" != (status == 204 || strings.HasSuffix(path, "/reload")) {
						t.Errorf("%s = %d with body %q", op, status, a.body)
					}
					return
				case status == 401:
					w.must(401, method, path, good[op], "Authorization", "")
				case status == 405:
					a := w.must(405, http.MethodPatch, path, "")
					if !strings.Contains(a.header.Get("Allow"), method) {
						t.Errorf("PATCH %s: Allow = %q, want %s in it", path, a.header.Get("Allow"), method)
					}
				case status == 400 && method == http.MethodGet:
					w.must(400, method, path+"?fields=secrets", "")
					w.must(400, method, path+"?unknown=1", "")
				case status == 400:
					for _, body := range bad[op] {
						if a := w.must(400, method, path, body); !strings.Contains(a.body, `"error_message"`) {
							t.Errorf("%s %s: body %q is no ErrorResponse", op, body, a.body)
						}
					}
				case status == 409 || v1:
					w.must(204, http.MethodPost, "/api/v2/config/features", `{"configuration_api_enabled":false}`)
					w.must(status, method, path, good[op])
					return
				default: // 500
					w.store.fail(errors.New("something that nobody has thought of"))
					w.must(500, method, path, good[op])
					w.store.broken.Store(nil)
				}
				if after := w.read("/api/v2/config"); after != before {
					t.Errorf("%s %d changed something:\n%s\n%s", op, status, before, after)
				}
			})
		}
	}
}

// TestEveryOperationIsShown: the routes are those of the document, and what takes a body is shown with a good and with
// bad ones.
func TestEveryOperationIsShown(t *testing.T) {
	t.Parallel()
	for op := range documented {
		method, path, _ := strings.Cut(op, " ")
		if path == "/api/config/extension/reload" || method == http.MethodGet || method == http.MethodDelete {
			continue
		}
		if good[op] == "" || len(bad[op]) == 0 {
			t.Errorf("%s is shown without a good or without a bad body", op)
		}
	}
}

// TestBadBodies: 400 also where the document does not list it.
func TestBadBodies(t *testing.T) {
	t.Parallel()
	for op, bodies := range bad {
		method, path, _ := strings.Cut(op, " ")
		t.Run(op, func(t *testing.T) {
			t.Parallel()
			w := prepared(t)
			path := w.fill(path)
			before := w.read("/api/v2/config")
			for _, body := range bodies {
				w.must(400, method, path, body)
			}
			w.must(415, method, path, good[op], "Content-Type", "text/plain")
			most := 512 << 10
			if path == "/api/v2/config" {
				most = settings.MaxConfiguration
			}
			w.must(413, method, path, `{"x":"`+strings.Repeat("x", most)+`"}`)
			w.must(400, method, path, good[op]+"x")
			if after := w.read("/api/v2/config"); after != before {
				t.Errorf("something was stored:\n%s\n%s", before, after)
			}
		})
	}
}

// TestStorageDoubt: what storage cannot tell is 503, with Retry-After.
func TestStorageDoubt(t *testing.T) {
	t.Parallel()
	w := prepared(t)
	for op := range documented {
		method, path, _ := strings.Cut(op, " ")
		path = w.fill(path)
		w.store.fail(fmt.Errorf("%w: poisoned", storage.ErrUnavailable))
		if a := w.must(503, method, path, good[op]); a.header.Get("Retry-After") == "" || strings.Contains(a.body, "poisoned") {
			t.Errorf("%s = 503 %s with Retry-After %q", op, a.body, a.header.Get("Retry-After"))
		}
		w.store.broken.Store(nil)
	}
}

func TestNotThere(t *testing.T) {
	t.Parallel()
	w := prepared(t)
	for _, tt := range []struct{ method, path, body string }{
		{"DELETE", "/api/v2/config/custom-messages/nl_NL/nothing", ""},
		{"DELETE", "/api/v2/config/custom-messages/fr/greeting", ""},
		{"DELETE", "/api/v2/config/custom-messages/default/nothing", ""},
		{"DELETE", "/api/v2/config/redirects/whitelisted-urls/1", ""},
		{"DELETE", "/api/v2/config/features/action-token/whitelisted-urls/1", ""},
		{"GET", "/api/v2/config/organisations/nobody/service-providers", ""},
		{"POST", "/api/v2/config/organisations/nobody/service-providers", "[]"},
		{"GET", "/api/v2/config/organisations/acme/service-providers/nothing", ""},
		{"POST", "/api/v2/config/organisations/acme/service-providers/nothing", "{}"},
		{"GET", "/api/v2/nothing", ""},
		{"GET", "/api/config/nothing", ""},
		{"GET", "/api/config/", ""},
		{"GET", "/api/v2/config/features/", ""},
	} {
		w.must(404, tt.method, tt.path, tt.body)
		w.must(401, tt.method, tt.path, tt.body, "Authorization", "")
	}
}

// TestHead: HEAD is GET without the body, and OPTIONS says what there is.
func TestHead(t *testing.T) {
	t.Parallel()
	w := prepared(t)
	if get, head := w.must(200, "GET", "/api/v2/config/features", ""),
		w.must(200, "HEAD", "/api/v2/config/features", ""); get.header.Get("ETag") != head.header.Get("ETag") {
		t.Errorf("HEAD has ETag %q, GET %q", head.header.Get("ETag"), get.header.Get("ETag"))
	}
	a := w.must(405, "OPTIONS", "/api/v2/config/features", "", "Origin", "https://auth.example.com")
	if got := a.header.Get("Allow"); got != "GET, HEAD, POST" {
		t.Errorf("OPTIONS: Allow = %q, want GET, HEAD, POST", got)
	}
	for name := range a.header {
		if strings.HasPrefix(name, "Access-Control-") {
			t.Errorf("OPTIONS: %s is there", name)
		}
	}
}

func TestConfigurationFields(t *testing.T) {
	t.Parallel()
	w := prepared(t)
	for _, tt := range []struct {
		query string
		want  []string
	}{
		{"", []string{"messages", "password_policy", "profile"}},
		{"?fields=profile", []string{"profile"}},
		{"?fields=profile&fields=messages", []string{"messages", "profile"}},
		{"?fields=profile,password_policy", []string{"password_policy", "profile"}},
	} {
		body := w.read("/api/config" + tt.query)
		for _, member := range []string{"messages", "password_policy", "profile"} {
			if got, want := strings.Contains(body, `"`+member+`":`), slices.Contains(tt.want, member); got != want {
				t.Errorf("GET /api/config%s has %s: %v, want %v", tt.query, member, got, want)
			}
		}
	}
	w.must(400, "GET", "/api/config?fields=", "")
}

func TestIdentityProviders(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.must(204, "POST", "/api/v2/config", `{"login_methods":{"login_methods":[{"id":"partner","name":"Partner","type":"SAML","enabled":true,
		"saml_attributes":{"idp_metadata":"https://partner.example.com/metadata","authentication_level_mappings":[{"authn_context_class_ref_name":"urn:x:strong","authentication_level":3}]}}]}}`)
	want := `{"result":[{"id":"partner","name":"Partner","type":"SAML","enabled":true,"saml_properties":{"authn_context":"urn:x:strong"}},{"id":"edge","name":"The edge","type":"HEADER","enabled":true}]}`
	if got := w.read("/api/config/identity-providers"); got != want {
		t.Errorf("identity providers:\n got %s\nwant %s", got, want)
	}
}

func TestReload(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.must(200, "POST", "/api/config/extension/reload", "")
	if n := w.reloads.Load(); n != 1 {
		t.Errorf("reloaded %d times, want 1", n)
	}
	w.mu.Lock()
	w.fails = errors.New("open /etc/passwd: permission denied")
	w.mu.Unlock()
	if a := w.must(500, "POST", "/api/config/extension/reload", ""); strings.Contains(a.body, "passwd") {
		t.Errorf("the answer tells of the file: %s", a.body)
	}
}

// TestLargeConfiguration: what the API answers can be sent back, although it is larger than the body of one unit can
// be.
func TestLargeConfiguration(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	texts := map[string]string{}
	for i := range 300 {
		texts[fmt.Sprintf("of.an.application.%d", i)] = strings.Repeat("x", 1000)
	}
	for _, unit := range []map[string]any{
		{"custom_messages": map[string]any{"default": texts, "locales": map[string]any{}}},
		{"messages": map[string]any{"nl": texts}},
	} {
		raw, err := json.Marshal(unit)
		if err != nil {
			t.Fatal(err)
		}
		w.must(204, "POST", "/api/v2/config", string(raw))
	}
	export, err := w.service.Export(t.Context())
	if err != nil || len(export) <= 512<<10 {
		t.Fatalf("Export = %d bytes, %v", len(export), err)
	}
	w.must(204, "POST", "/api/v2/config", string(export))
}
