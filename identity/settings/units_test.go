package settings_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/secret"
)

// unitPaths are the units with a GET and a POST of their own.
var unitPaths = map[string]string{
	"attributes": "/api/v2/attributes", "features": "/api/v2/config/features", "redirects": "/api/v2/config/redirects",
	"step_up":      "/api/v2/config/step-up",
	"ui_extension": "/api/v2/config/ui-extension", "email_notifications": "/api/v2/config/notifications/email",
}

// full is something in every member that can be set.
const full = `{
	"attributes":{"name_visible_on_dashboard":true,"verification":{"email_required":true}},
	"custom_messages":{"default":{"sign_in.title":"Welcome"},"locales":{"nl":{"sign_in.title":"Welkom"},"nl_NL_informal":{"sign_in.title":"Hoi"}}},
	"features":{"action_token":{"login":{"enabled":true,"ttl":120,"authentication_level":2},"coupling":{"enabled":true},"whitelisted_urls":[{"url":"https://app.example.com/"}]},
		"custom_email_validation":{"enabled":true,"before_at_regex":"[a-z.]+","after_at_regex":"example\\.com"}},
	"login_methods":{"login_methods":[
		{"id":"partner","name":"Partner","type":"SAML","enabled":true,"authentication_level":2,"attribute_mappings":[{"map_from":"mail","map_to":"email"}],
			"saml_attributes":{"idp_metadata":"https://partner.example.com/metadata","comparison":"MINIMUM","authentication_level_mappings":[{"authn_context_class_ref_name":"urn:x:strong","authentication_level":3}]}},
		{"id":"corp","name":"Corp","type":"OPEN_ID_CONNECT","enabled":true,
			"open_id_connect_attributes":{"client_authentication_method":"CLIENT_SECRET_BASIC","client_id":"gatehouse","client_secret":"canary-oidc","discovery_url":"https://corp.example.com/.well-known/openid-configuration","scopes":["openid","email"]}},
		{"id":"directory","type":"LDAP","ladp_attributes":{"server_urls":"ldaps://ldap.example.com","password":"canary-ldap","ip_ranges":["10.0.0.0/8"]}},
		{"id":"social","type":"GOOGLE","google_attributes":{"clientId":"g","client_secret":"canary-google"}},
		{"id":"eu","type":"EIDAS","eidas_attributes":{"authentication_service":"CUSTOM","required_level_of_assurance":"LOW_PLUS"}}
	]},
	"organisations":[{"id":"acme","name":"Acme","landing_page_url":"https://acme.example.com/","account_link_url":"https://acme.example.com/me","support_email":"help@acme.example.com","preferred_language":"nl","is_private":true,"notify_when_user_does_unlink_account":true,
		"service_providers":{"one":{"name":"One","type":"OIDC","required_authentication_level":2,"identity_attributes":{"mail":{"attribute_name":"mail","required":true,"saml_attribute_names":{"x":"urn:mail"}}}}},
		"user_profile_attributes":{"saml_subject_name_attributes":{"type":"persistent"}}}],
	"redirects":{"default_origin_url":"https://www.example.com","url_after_login":"/welcome","url_after_logout":"https://www.example.com/bye","url_whitelist":[{"url":"https://www.example.com/a"}]},
	"step_up":{"actions":{"dashboard_step_up_authentication_level":2}},
	"password_policy":{"min_length":10,"max_length":128,"lower_case_char_required":true,"upper_case_char_required":true,"special_char_required":true,"breached_password_blocked":false},
	"profile":{"required_attributes_validation_rules":[{"any_of":["EMAIL","PHONE"]},{"any_of":["NAME"]}]},
	"messages":{"en":{"sign_in.title":"Hello"}}
}`

// TestSameAgain: a unit that is read and written back stays the same, with the same tag and without an event.
func TestSameAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.must(204, "POST", "/api/v2/config", full)
	n := len(w.events())
	same := func(get, method, post, body string) {
		t.Helper()
		before := w.must(200, "GET", get, "")
		if body == "" {
			body = before.body
		}
		w.must(204, method, post, body)
		after := w.must(200, "GET", get, "")
		if before.body != after.body || before.header.Get("ETag") != after.header.Get("ETag") || before.header.Get("ETag") == "" {
			t.Errorf("%s of what was read changed it:\n%s %s\n%s %s", post, before.header.Get("ETag"), before.body,
				after.header.Get("ETag"), after.body)
		}
	}
	for _, path := range unitPaths {
		same(path, "POST", path, "")
	}
	same("/api/v2/config", "POST", "/api/v2/config", "")
	same("/api/config", "POST", "/api/v2/config", "")
	same("/api/v2/config/custom-messages", "PUT", "/api/v2/config/custom-messages", "")
	same("/api/config?fields=password_policy", "POST", "/api/v2/config", "")
	list := w.read("/api/v2/config/organisations/acme/service-providers")
	w.must(200, "POST", "/api/v2/config/organisations/acme/service-providers", list)
	one := w.read("/api/v2/config/organisations/acme/service-providers/one")
	w.must(204, "POST", "/api/v2/config/organisations/acme/service-providers/one", one)
	if got := len(w.events()); got != n {
		t.Errorf("%d events were written for changes that change nothing: %+v", got-n, w.events()[0])
	}
	if strings.Contains(w.read("/api/v2/config"), "canary") {
		t.Error("a secret is read back")
	}
	for want, m := range map[string]string{"canary-oidc": "corp", "canary-ldap": "directory", "canary-google": "social"} {
		for _, lm := range w.units(w.service).LoginMethods.LoginMethods {
			got := ""
			switch {
			case lm.ID != m:
				continue
			case lm.OIDC != nil:
				got = lm.OIDC.ClientSecret.Reveal()
			case lm.LDAP != nil:
				got = lm.LDAP.Password.Reveal()
			case lm.Google != nil:
				got = lm.Google.ClientSecret.Reveal()
			}
			if got != want {
				t.Errorf("the secret of %s is %q after an empty one was written, want %q", m, got, want)
			}
		}
	}
}

// TestWrittenIsRead: what a change leaves in memory is what another service reads from storage.
func TestWrittenIsRead(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, body := range []string{full, `{"features":{"login_enabled":false}}`, `{"login_methods":{"login_methods":[]},"organisations":[]}`} {
		w.must(204, "POST", "/api/v2/config", body)
		kept := w.units(w.service)
		read := w.units(w.another(settings.Config{Fixed: []settings.LoginMethod{fixed}, Verify: verify}, zap.NewNop()))
		if !reflect.DeepEqual(kept, read) {
			t.Errorf("after %s it is in memory\n%+v\nand in storage\n%+v", body, kept, read)
		}
	}
}

// TestGoldens: the JSON of each unit, by default and with a value in every member.
func TestGoldens(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	golden(t, "defaults", w)
	w.must(204, "POST", "/api/v2/config", full)
	golden(t, "full", w)
}

var uuids = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}`)

func golden(t *testing.T, name string, w *world) {
	t.Helper()
	raw, err := w.service.Export(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var units map[string]json.RawMessage
	if err := json.Unmarshal(raw, &units); err != nil {
		t.Fatal(err)
	}
	units["login_methods"] = json.RawMessage(w.read("/api/v2/config/login-methods"))
	for unit, text := range units {
		got := uuids.ReplaceAllString(indent(t, string(text)), "00000000-0000-4000-8000-000000000000")
		file := filepath.Join("testdata", name, unit+".json")
		if *update {
			if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if got != string(want) {
			t.Errorf("%s is\n%s\nwant\n%s", file, got, want)
		}
	}
}

// TestMerge: objects merge, arrays and maps are replaced whole.
func TestMerge(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.must(204, "POST", "/api/v2/config", full)
	w.must(204, "POST", "/api/v2/config/features", `{"action_token":{"login":{"ttl":7}}}`)
	u := w.units(w.service)
	if at := u.Features.ActionToken; at.Login.TTL != 7 || !at.Login.Enabled || at.Login.AuthenticationLevel != 2 || !at.Coupling.Enabled ||
		len(at.WhitelistedURLs) != 1 {
		t.Errorf("a nested member replaced more than itself: %+v", at)
	}
	w.must(204, "POST", "/api/v2/config/redirects", `{"url_whitelist":[{"url":"https://b.example.com"}]}`)
	if u := w.units(w.service); len(u.Redirects.URLWhitelist) != 1 || u.Redirects.URLWhitelist[0].URL != "https://b.example.com" ||
		u.Redirects.URLAfterLogin != "/welcome" {
		t.Errorf("an array is not replaced whole, or more than it: %+v", u.Redirects)
	}
	w.must(204, "PUT", "/api/v2/config/custom-messages/nl/batch", `{"a":"1"}`)
	w.must(204, "PUT", "/api/v2/config/custom-messages/nl/batch", `{"b":"2"}`)
	w.must(204, "PUT", "/api/v2/config/custom-messages/default/batch", `{"c":"3"}`)
	if m := w.units(w.service).CustomMessages; len(m.Locales["nl"]) != 3 || len(m.Default) != 2 {
		t.Errorf("a batch does not merge per key: %+v", m)
	}
	w.must(204, "DELETE", "/api/v2/config/custom-messages/nl_NL_informal/sign_in.title", "")
	key := strings.Repeat("é", 256) // the longest, of which each character is six in a path
	w.must(204, "PUT", "/api/v2/config/custom-messages/nl/batch", `{"`+key+`":"4"}`)
	w.must(204, "DELETE", "/api/v2/config/custom-messages/nl/"+url.PathEscape(key), "")
	if m := w.units(w.service).CustomMessages; len(m.Locales["nl"]) != 3 {
		t.Errorf("the message of a long key is not deleted: %+v", m)
	}
	w.must(204, "PUT", "/api/v2/config/custom-messages", `{"locales":{"fr":{"a":"b"}}}`)
	if m := w.units(w.service).CustomMessages; len(m.Default) != 0 || len(m.Locales) != 1 {
		t.Errorf("PUT does not replace all: %+v", m)
	}
	w.must(204, "POST", "/api/v2/config", `{"organisations":[]}`)
	if n := len(w.units(w.service).Organisations); n != 0 {
		t.Errorf("%d organisations are left, want 0", n)
	}
	w.must(204, "POST", "/api/v2/config", `{}`)
}

// TestOneSettingWithTwoNames: the switch of delivered codes and its deprecated name are one setting, by whichever name
// it is changed.
func TestOneSettingWithTwoNames(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for i, step := range []struct {
		body string
		want bool
	}{
		{`{"step_up_authentication_method_externally_delivered_code_enabled":true}`, true},
		{`{"externally_delivered_code_step_up":{"enabled":false}}`, false},
		{`{"externally_delivered_code_step_up":{"enabled":true}}`, true},
		{`{"step_up_authentication_method_externally_delivered_code_enabled":false}`, false},
		{`{"externally_delivered_code_step_up":{"expiration_time":300}}`, false},
		{`{"externally_delivered_code_step_up":{"enabled":true},"step_up_authentication_method_externally_delivered_code_enabled":false}`, true},
		{`{"externally_delivered_code_step_up":{"enabled":true},"step_up_authentication_method_externally_delivered_code_enabled":false}`, false},
	} {
		w.must(204, "POST", "/api/v2/config/features", step.body)
		f := w.units(w.service).Features
		if f.ExternallyDeliveredCodeStepUp.Enabled != step.want || f.StepUpExternallyDeliveredCodeEnabled != step.want {
			t.Errorf("step %d, %s: %t and %t, want both %t", i+1, step.body, f.ExternallyDeliveredCodeStepUp.Enabled,
				f.StepUpExternallyDeliveredCodeEnabled, step.want)
		}
	}
}

// TestEvent: a change is one event, which names its members and never their values.
func TestEvent(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.must(204, "POST", "/api/v2/config", full)
	w.must(204, "POST", "/api/v2/config", `{"features":{"login_enabled":false},"redirects":{"url_after_login":"/other"}}`)
	updates := func() []audit.Event {
		return slices.DeleteFunc(w.events(), func(e audit.Event) bool { return e.Type != "configuration.ConfigurationUpdatedEvent" })
	}
	e := updates()
	if len(e) != 2 {
		t.Fatalf("%d events, want 2", len(e))
	}
	if e[0].Type != "configuration.ConfigurationUpdatedEvent" || e[0].Actor != "ops" ||
		e[0].Reason != "features.login_enabled, redirects.url_after_login" {
		t.Errorf("event %+v", e[0])
	}
	if text := fmt.Sprintf("%+v", e); strings.Contains(text, "canary") || strings.Contains(text, "/other") {
		t.Errorf("an event has a value: %s", text)
	}
	// A new secret alone is a change too.
	method := `{"login_methods":{"login_methods":[{"id":"social","type":"GOOGLE","google_attributes":{"clientId":"g","client_secret":"%s"}}]}}`
	w.must(204, "POST", "/api/v2/config", fmt.Sprintf(method, "canary-2"))
	tag := w.must(200, "GET", "/api/v2/config/login-methods", "").header.Get("ETag")
	w.must(204, "POST", "/api/v2/config", fmt.Sprintf(method, "canary-3"))
	if e = updates(); len(e) != 4 || e[0].Reason != "login_methods.login_methods" {
		t.Errorf("after a new secret: %d events, the last %+v", len(e), e[0])
	}
	if now := w.must(200, "GET", "/api/v2/config/login-methods", "").header.Get("ETag"); now == tag {
		t.Error("a new secret leaves the tag as it was")
	}
	for _, l := range w.logs.All() {
		if text := fmt.Sprint(l.Message, l.ContextMap()); strings.Contains(text, "canary") {
			t.Errorf("a secret is in the log: %s", text)
		}
	}
}

func TestIfMatch(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, tt := range []struct{ get, method, path, body string }{
		{"/api/v2/config/features", "POST", "/api/v2/config/features", `{"action_token":{"login":{"ttl":%d}}}`},
		{"/api/v2/config", "POST", "/api/v2/config", `{"features":{"action_token":{"coupling":{"ttl":%d}}}}`},
		{"/api/v2/config/custom-messages", "PUT", "/api/v2/config/custom-messages/nl/batch", `{"a":"%d"}`},
		{
			"/api/v2/config/redirects/whitelisted-urls", "POST", "/api/v2/config/redirects/whitelisted-urls",
			`{"url":"https://www.example.com/%d"}`,
		},
		{
			"/api/config?fields=password_policy", "POST", "/api/v2/config/password-policy",
			`{"min_length":8,"max_length":%d,"lower_case_char_required":false,"upper_case_char_required":false,"special_char_required":false,"breached_password_blocked":false}`,
		},
	} {
		tag := w.must(200, "GET", tt.get, "").header.Get("ETag")
		a := w.call(tt.method, tt.path, fmt.Sprintf(tt.body, 101), "If-Match", tag)
		if a.status > 204 {
			t.Errorf("%s %s with the tag of now = %d %s", tt.method, tt.path, a.status, a.body)
		}
		fresh := a.header.Get("ETag")
		if fresh == tag || fresh != w.must(200, "GET", tt.get, "").header.Get("ETag") {
			t.Errorf("%s %s: the tag went from %s to %s, GET has %s", tt.method, tt.path, tag, fresh,
				w.must(200, "GET", tt.get, "").header.Get("ETag"))
		}
		before := w.read(tt.get)
		for _, stale := range []string{tag, `"nonsense"`, "W/" + fresh, tag + `, "x"`} {
			w.must(412, tt.method, tt.path, fmt.Sprintf(tt.body, 102), "If-Match", stale)
		}
		if w.read(tt.get) != before {
			t.Errorf("%s %s: a refused change was stored", tt.method, tt.path)
		}
		w.must(304, "GET", tt.get, "", "If-None-Match", "W/"+fresh)
		if a := w.call(tt.method, tt.path, fmt.Sprintf(tt.body, 103), "If-Match", `"x", `+fresh); a.status > 204 {
			t.Errorf("%s %s with the tag among others = %d", tt.method, tt.path, a.status)
		}
		if a := w.call(tt.method, tt.path, fmt.Sprintf(tt.body, 104), "If-Match", "*"); a.status > 204 {
			t.Errorf("%s %s with * = %d", tt.method, tt.path, a.status)
		}
		now := w.must(200, "GET", tt.get, "").header.Get("ETag")
		for _, held := range []string{"*", now, "W/" + now, `"x", ` + now} { // RFC 9110 13.1.2: only if it is another
			w.must(412, tt.method, tt.path, fmt.Sprintf(tt.body, 105), "If-None-Match", held)
		}
		if a := w.call(tt.method, tt.path, fmt.Sprintf(tt.body, 106), "If-None-Match", tag); a.status > 204 {
			t.Errorf("%s %s with If-None-Match of another tag = %d", tt.method, tt.path, a.status)
		}
	}
}

// TestEffectiveAtOnce: another service over the same store, as during a reload, sees a change with its next read.
func TestEffectiveAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	other := w.another(settings.Config{}, zap.NewNop())
	first := w.units(other)
	if again := w.units(other); again != first {
		t.Error("what has not changed is read again")
	}
	w.must(204, "POST", "/api/v2/config/features", `{"login_enabled":false}`)
	if w.units(other).Features.LoginEnabled {
		t.Error("the other service does not see the change")
	}
	if !first.Features.LoginEnabled {
		t.Error("a state that was given out has changed")
	}
}

// TestTogether: administrators who write at once lose nothing, and one of those with the same If-Match wins.
func TestTogether(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			a := w.call("PUT", "/api/v2/config/custom-messages/nl/batch", fmt.Sprintf(`{"key.%d":"x"}`, i))
			b := w.call("POST", "/api/v2/config/redirects/whitelisted-urls", fmt.Sprintf(`{"url":"https://www.example.com/%d"}`, i))
			if a.status != 204 || b.status != 200 {
				t.Errorf("writer %d: %d %s, %d %s", i, a.status, a.body, b.status, b.body)
			}
		})
	}
	all.Wait()
	u := w.units(w.service)
	if n, m := len(u.CustomMessages.Locales["nl"]), len(u.Redirects.URLWhitelist); n != 20 || m != 20 {
		t.Errorf("%d messages and %d URLs are there, want 20 and 20", n, m)
	}
	if n := len(w.events()); n != 40 {
		t.Errorf("%d events, want 40", n)
	}
	tag := w.must(200, "GET", "/api/v2/config/features", "").header.Get("ETag")
	var mu sync.Mutex
	got := map[int]int{}
	for i := range 20 {
		all.Go(func() {
			a := w.call("POST", "/api/v2/config/features", fmt.Sprintf(`{"action_token":{"login":{"ttl":%d}}}`, 100+i), "If-Match", tag)
			mu.Lock()
			defer mu.Unlock()
			got[a.status]++
		})
	}
	all.Wait()
	if got[204] != 1 || got[412] != 19 {
		t.Errorf("20 writers with one tag: %v, want one 204 and 19 412", got)
	}
}

func TestSwitchedOff(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.must(204, "POST", "/api/v2/config/features", `{"configuration_api_enabled":false}`)
	for path, want := range map[string]int{
		"/api/config": 500, "/api/config/identity-providers": 500, "/api/v2/config": 409, "/api/v2/attributes": 409,
		"/v2/config/certificates": 409,
	} {
		w.must(want, "GET", path, "")
		w.must(401, "GET", path, "", "Authorization", "")
	}
	// The way back, which does not go through the API.
	if _, err := w.service.Import(settings.WithRights(t.Context(), settings.Owner), []byte(`{"features":{"configuration_api_enabled":true}}`),
		audit.Actor{ID: "command"}); err != nil {
		t.Fatal(err)
	}
	w.must(200, "GET", "/api/v2/config", "")
}

func TestFixedLoginMethods(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	post := func(status int, methods string) {
		t.Helper()
		w.must(status, "POST", "/api/v2/config", `{"login_methods":{"login_methods":`+methods+`}}`)
	}
	ids := func() (out []string) {
		for _, m := range w.units(w.service).LoginMethods.LoginMethods {
			out = append(out, fmt.Sprint(m.ID, m.Removable))
		}
		return out
	}
	const saml = `{"id":"partner","type":"SAML","enabled":true,"saml_attributes":{"idp_metadata":"https://partner.example.com/metadata"}}`
	post(204, `[`+saml+`]`) // those that are not named stay, since they are not removable
	if got := fmt.Sprint(ids()); got != "[identityfalse partnertrue edgefalse]" {
		t.Errorf("login methods %s", got)
	}
	post(409, `[{"id":"edge","type":"HEADER","enabled":false}]`)
	post(409, `[{"id":"edge","type":"SAML","enabled":true,"saml_attributes":{"idp_metadata":"https://evil.example.com/"}}]`)
	post(400, `[{"id":"identity","type":"SAML"}]`)
	post(400, `[{"id":"second","type":"USERNAME_AND_PASSWORD","enabled":true}]`)
	post(400, `[{"id":"mine","type":"HEADER","enabled":true}]`)
	post(400, `[`+saml+`,`+saml+`]`)
	post(400, `[{"id":"partner","type":"SAML","enabled":true}]`)
	post(400, `[{"id":"corp","type":"OPEN_ID_CONNECT","enabled":true,"open_id_connect_attributes":{"client_id":"x"}}]`)
	post(400, `[{"id":"corp","type":"OPEN_ID_CONNECT","enabled":true,"open_id_connect_attributes":{"client_id":"x","issuer":"https://c.example.com","manual_metadata_setup":true}}]`)
	post(400, `[{"id":"p","type":"SAML","open_id_connect_attributes":{}}]`)
	post(400, `[{"id":"p","type":"SAML","name":"impossible","enabled":true,"saml_attributes":{"idp_metadata":"https://partner.example.com/metadata"}}]`)
	post(400, `[{"id":"p","type":"SAML","saml_attributes":{"idp_metadata":"<!DOCTYPE x [<!ENTITY a \"b\">]><md:EntityDescriptor xmlns:md=\"urn:oasis:names:tc:SAML:2.0:metadata\"/>"}}]`)
	post(400, `[{"id":"corp","type":"OPEN_ID_CONNECT","open_id_connect_attributes":{"signing_key_id":"nobody"}}]`)
	// As long as the Caddyfile takes, since what is shown of its providers is sent back.
	post(204, `[{"id":"corp","type":"OPEN_ID_CONNECT","open_id_connect_attributes":{"metadata_expiration_time_in_seconds":31622400}}]`)
	post(400, `[{"id":"corp","type":"OPEN_ID_CONNECT","open_id_connect_attributes":{"metadata_expiration_time_in_seconds":31622401}}]`)
	post(409, `[{"id":"directory","type":"KERBEROS","enabled":true}]`)
	post(204, `[{"id":"directory","type":"KERBEROS","enabled":false,"removable":false},`+saml+`]`)
	if got := fmt.Sprint(ids()); got != "[identityfalse directorytrue partnertrue edgefalse]" {
		t.Errorf("login methods %s", got)
	}
	post(204, `[{"id":"identity","type":"USERNAME_AND_PASSWORD","enabled":false}]`)
	if m := w.units(w.service).LoginMethods.LoginMethods; len(m) != 2 || m[0].Enabled {
		t.Errorf("login methods %+v", m)
	}
	post(204, `[{"type":"SAML","name":"no id"}]`)
	if got := ids(); len(got) != 3 || len(got[1]) != 36+len("true") {
		t.Errorf("login methods %s", got)
	}
}

func TestLoginMethodSecrets(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	post := func(hidden, url string) {
		t.Helper()
		w.must(204, "POST", "/api/v2/config", fmt.Sprintf(`{"login_methods":{"login_methods":[{"id":"corp","type":"OPEN_ID_CONNECT","enabled":true,
			"open_id_connect_attributes":{"client_id":"x","client_secret":%q,"discovery_url":%q}}]}}`, hidden, url))
	}
	now := func() string {
		return w.units(w.another(settings.Config{}, zap.NewNop())).LoginMethods.LoginMethods[1].OIDC.ClientSecret.Reveal()
	}
	post("canary-1", "https://a.example.com/")
	post("", "https://a.example.com/")
	if got := now(); got != "canary-1" {
		t.Errorf("after an empty secret it is %q, want canary-1", got)
	}
	t.Run("attack 253: a secret that is kept, and sent to another address", func(t *testing.T) {
		for _, oidc := range []string{
			`{"client_id":"x","client_secret":"","discovery_url":"https://evil.example.com/"}`,
			`{"client_id":"x","discovery_url":"https://a.example.com/tenant"}`,
			`{"client_id":"x","discovery_url":"https://a.example.com/","issuer":"https://evil.example.com"}`,
			`{"client_id":"x","manual_metadata_setup":true,"issuer":"https://a.example.com","authorization_url":"https://a.example.com/a","jwks_url":"https://a.example.com/j",
				"id_token_url":"https://evil.example.com/t"}`,
		} {
			a := w.must(400, "POST", "/api/v2/config",
				`{"login_methods":{"login_methods":[{"id":"corp","type":"OPEN_ID_CONNECT","open_id_connect_attributes":`+oidc+`}]}}`)
			if !strings.Contains(a.body, "login_methods.login_methods[0].open_id_connect_attributes.client_secret: must be given again") {
				t.Errorf("POST of a method with %s: %s", oidc, a.body)
			}
		}
		w.must(204, "POST", "/api/v2/config",
			`{"login_methods":{"login_methods":[{"id":"dir","type":"LDAP","ladp_attributes":{"server_urls":"ldaps://a.example.com","password":"canary-3"}}]}}`)
		w.must(400, "POST", "/api/v2/config",
			`{"login_methods":{"login_methods":[{"id":"dir","type":"LDAP","ladp_attributes":{"server_urls":"ldaps://evil.example.com","password":""}}]}}`)
		post("canary-1", "https://a.example.com/")
	})
	post("canary-2", "https://b.example.com/")
	if got := now(); got != "canary-2" {
		t.Errorf("after another secret it is %q, want canary-2", got)
	}
	m := w.units(w.service).LoginMethods.LoginMethods[1]
	raw, err := json.Marshal(m)
	if text := fmt.Sprintf("%v %+v %#v %s", m.OIDC, m.OIDC, m.OIDC, raw); err != nil || strings.Contains(text, "canary") {
		t.Errorf("the secret is printed: %s", text)
	}
	w.must(204, "POST", "/api/v2/config", `{"login_methods":{"login_methods":[]}}`)
	w.must(204, "POST", "/api/v2/config",
		`{"login_methods":{"login_methods":[{"id":"corp","type":"OPEN_ID_CONNECT","open_id_connect_attributes":{"client_id":"x"}}]}}`)
	if got := now(); got != "" {
		t.Errorf("a removed method left its secret %q to its successor", got)
	}
}

func TestOrganisations(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.must(204, "POST", "/api/v2/config",
		`{"organisations":[{"id":"acme","name":"Acme","logo_square_base64":"`+pixel+
			`","service_providers":{"one":{"name":"One"}}},{"name":"No id"}]}`)
	o := w.units(w.service).Organisations
	if len(o) != 2 || o[0].ServiceProviders["one"].ID != "one" || len(o[1].ID) != 36 {
		t.Errorf("organisations %+v", o)
	}
	a := w.must(http.StatusOK, "POST", "/api/v2/config/organisations/acme/service-providers", `[{"id":"b","name":"B"},{"name":"A"}]`)
	var list []settings.ServiceProvider
	if err := json.Unmarshal([]byte(a.body), &list); err != nil || len(list) != 2 || list[0].ID == "" || list[1].ID == "" {
		t.Errorf("service providers %s: %v", a.body, err)
	}
	w.must(404, "GET", "/api/v2/config/organisations/acme/service-providers/one", "") // the array replaced it
	w.must(204, "POST", "/api/v2/config/organisations/acme/service-providers/b", `{"required_authentication_level":2}`)
	if sp := w.units(w.service).Organisations[0].ServiceProviders["b"]; sp.Name != "B" || sp.RequiredAuthenticationLevel != 2 {
		t.Errorf("service provider %+v", sp)
	}
	for _, body := range []string{
		`[{"id":"x"},{"id":"x"}]`, `[{"site_url":"javascript:alert(1)"}]`, `[{"support_email":"a@b,c@d"}]`,
		`[{"support_email":"a@example.com\r\nBcc: b@example.com"}]`,
		`[{"name":"a\u0000b"}]`, `[{"name":"` + strings.Repeat("x", 257) + `"}]`, `[{"logo_square_base64":"PHN2Zy8+"}]`,
		`[{"logo_square_base64":"!"}]`,
		`[{"preferred_language":"../x"}]`, `[{"preferred_language":"nl NL"}]`, `[{"preferred_language":"klingon"}]`,
		`[{"landing_page_url":"javascript:alert(1)"}]`, `[{"account_link_url":"http://acme.example/"}]`,
		`[{"landing_page_url":"https://a@acme.example/"}]`, `[{"service_providers":{"a":{"id":"b"}}}]`, `[{"service_providers":{"":{}}}]`,
		`[{"logo_landscape_base64":"` + bomb + `"}]`,
		`[{"service_providers":{"a":{"type":"portal"}}}]`,
		`[{"service_providers":{"a":{"type":"OIDC","saml_metadata":"https://a.example.com/metadata"}}}]`,
		`[{"service_providers":{"a":{"use_trusted_device":"yes"}}}]`,
	} {
		w.must(400, "POST", "/api/v2/config", `{"organisations":`+body+`}`)
	}
	// One that is SAML can be stored before its metadata is known. Until then its type has no effect.
	w.must(204, "POST", "/api/v2/config", `{"organisations":[{"name":"Acme","service_providers":{"a":{"type":"SAML"}}}]}`)
	if ids := w.units(w.service).WithoutMetadata(); len(ids) != 1 || ids[0] != "a" {
		t.Errorf("WithoutMetadata = %q, want a", ids)
	}
	if !w.units(w.service).SignsInBy("a", settings.ProtocolOpenID) {
		t.Error("SignsInBy(a, OIDC) = false without metadata, want true")
	}
	w.must(204, "POST", "/api/v2/config",
		`{"organisations":[{"name":"Acme","service_providers":{"a":{"type":"SAML","saml_metadata":"https://a.example.com/metadata"}}}]}`)
	if w.units(w.service).SignsInBy("a", settings.ProtocolOpenID) {
		t.Error("SignsInBy(a, OIDC) = true with metadata, want false: its type is SAML")
	}
}

// bomb is the head of a PNG of 50,000 times 50,000 pixels.
const bomb = "iVBORw0KGgoAAAANSUhEUgAAw1AAAMNQCAYAAAC1Yk3hAAAAAElFTkSuQmCC"

func TestWhitelistedURLs(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for path, status := range map[string]int{
		"/api/v2/config/redirects/whitelisted-urls":             200,
		"/api/v2/config/features/action-token/whitelisted-urls": 201,
	} {
		var one settings.WhitelistedURL
		a := w.must(status, "POST", path, `{"url":"https://www.example.com/a"}`)
		if err := json.Unmarshal([]byte(a.body), &one); err != nil || len(one.ID) != 36 || one.URL != "https://www.example.com/a" {
			t.Errorf("POST %s = %s: %v", path, a.body, err)
		}
		if got, want := w.read(path), "["+a.body+"]"; got != want {
			t.Errorf("GET %s = %s, want %s", path, got, want)
		}
		w.must(400, "POST", path, `{"url":"https://www.example.com/a"}`)
		w.must(204, "DELETE", path+"/"+one.ID, "")
		w.must(404, "DELETE", path+"/"+one.ID, "")
		if got := w.read(path); got != "[]" {
			t.Errorf("GET %s = %s, want []", path, got)
		}
	}
}

// TestSecretsAreSealedAnew: an encryption key can leave the configuration once a newer one has been there.
func TestSecretsAreSealedAnew(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.must(204, "POST", "/api/v2/config",
		`{"login_methods":{"login_methods":[{"id":"corp","type":"OPEN_ID_CONNECT","open_id_connect_attributes":{"client_id":"x","client_secret":"canary"}}]}}`)
	tag := w.must(200, "GET", "/api/v2/config/login-methods", "").header.Get("ETag")
	with := func(keys ...byte) *settings.Service {
		t.Helper()
		var raw [][]byte
		for _, k := range keys {
			raw = append(raw, bytes.Repeat([]byte{k}, secret.KeySize))
		}
		ring, err := secret.NewKeyring(raw...)
		if err != nil {
			t.Fatal(err)
		}
		s, err := settings.New(t.Context(), settings.Config{}, settings.Deps{Store: w.store, Keyring: ring})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	of := func(s *settings.Service) string {
		return w.units(s).LoginMethods.LoginMethods[1].OIDC.ClientSecret.Reveal()
	}
	if got := of(with(8)); got != "" {
		t.Errorf("another key opens the secret: %q", got)
	}
	if left, err := with(9).Reseal(t.Context()); err != nil || left == 0 {
		t.Errorf("Reseal with a key that opens nothing = %d left, %v, want that it counts them", left, err)
	}
	if left, err := with(8, 7).Reseal(t.Context()); err != nil || left != 0 {
		t.Fatalf("Reseal = %d left, %v", left, err)
	}
	if got := of(with(8)); got != "canary" {
		t.Errorf("by the newer key alone the secret is %q, want canary", got)
	}
	if now := w.must(200, "GET", "/api/v2/config/login-methods", "").header.Get("ETag"); now != tag {
		t.Error("sealing anew is a change")
	}
}

// TestCustomAttributeFields: what a field is stored and shown by is there, once, and not too often.
func TestCustomAttributeFields(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	set := func(fields string) string {
		return `{"login_methods":{"login_methods":[{"id":"identity","name":"Password","type":"USERNAME_AND_PASSWORD","enabled":true,"authentication_level":1,"custom_attribute_fields":[` + fields + `]}]}}`
	}
	const at = "login_methods.login_methods[0].custom_attribute_fields"
	for fields, want := range map[string]string{
		`{"id":"a","name":"A","type":"TEXT"},{"id":"a","name":"B","type":"NUMBER"}`:         at + "[1].id",
		`{"id":"a","name":"A","type":"DATE"}`:                                               at + "[0].type",
		`{"id":"a","name":"A"}`:                                                             at + "[0].type",
		`{"id":"a b","name":"A","type":"TEXT"}`:                                             at + "[0].id",
		`{"id":"a","type":"TEXT"}`:                                                          at + "[0].name",
		`{"id":"a","name":"A\u0007","type":"TEXT"}`:                                         at + "[0].name",
		strings.TrimSuffix(strings.Repeat(`{"id":"a","name":"A","type":"TEXT"},`, 21), ","): at,
	} {
		if a := w.must(400, "POST", "/api/v2/config", set(fields)); !strings.Contains(a.body, want) {
			t.Errorf("%s: %s, want %s", fields, a.body, want)
		}
	}
	w.must(204, "POST", "/api/v2/config", set(`{"id":"a","name":"A","type":"TEXT"},{"id":"b","name":"B","type":"CHECKBOX"}`))
	if got := w.read("/api/v2/config"); !strings.Contains(got,
		`"custom_attribute_fields":[{"id":"a","name":"A","type":"TEXT"},{"id":"b","name":"B","type":"CHECKBOX"}]`) {
		t.Errorf("read back: %s", got)
	}
}

// TestStoredMethodExpires: a login method that has become unusable since it was stored, such as by metadata that has
// expired, blocks no other change. It is judged again when it is changed.
func TestStoredMethodExpires(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	method := func(name string, more string) []byte {
		return []byte(`{"login_methods":{"login_methods":[{"id":"partner","name":"` + name + `","type":"OPEN_ID_CONNECT","enabled":true,` +
			`"open_id_connect_attributes":{"client_id":"x","issuer":"https://partner.example.com"` + more + `}}]}}`)
	}
	by := audit.Actor{ID: "command"}
	if _, err := w.service.Import(settings.WithRights(t.Context(), settings.Owner),
		method("Partner", `,"client_secret":"first"`), by); err != nil {
		t.Fatal(err)
	}
	later := w.another(settings.Config{
		Fixed:  []settings.LoginMethod{fixed},
		Verify: func(settings.LoginMethod) error { return errors.New("it has expired") },
	}, zap.NewNop())
	for _, other := range []string{`{"redirects":{"url_after_login":"https://www.example.com/"}}`, string(method("Partner", ""))} {
		if _, err := later.Import(settings.WithRights(t.Context(), settings.Owner), []byte(other), by); err != nil {
			t.Errorf("Import(%s) = %v, want it accepted", other, err)
		}
	}
	for _, changed := range [][]byte{
		method("Another name", ""), method("Partner", `,"client_secret":"second"`),
		method("Partner", `,"scopes":["email"]`),
	} {
		if _, err := later.Import(settings.WithRights(t.Context(), settings.Owner), changed, by); err == nil ||
			!strings.Contains(err.Error(), "it has expired") {
			t.Errorf("Import(%s) = %v, want a refusal", changed, err)
		}
	}
}

// A request that reads a change before the one that made it is told so, has the same settings: those who keep them,
// such as the login methods, would otherwise take them for older ones for as long as nothing changes.
func TestOneStateOfEachVersion(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	before := w.units(w.service)
	var early *settings.Units
	read := func() { early = w.units(w.service) }
	w.store.committed.Store(&read)
	if a := w.call("POST", "/api/v2/config/features", `{"login_enabled":false}`); a.status >= http.StatusBadRequest {
		t.Fatalf("POST = %d %s", a.status, a.body)
	}
	if early == nil || early == before || early.Features.LoginEnabled {
		t.Fatalf("read while the change is answered: %v, want the change", early)
	}
	if now := w.units(w.service); now != early || !w.service.IsCurrent(early) {
		t.Errorf("settings of one version are two: those of a request meanwhile count as current: %t", w.service.IsCurrent(early))
	}
	if w.service.IsCurrent(before) {
		t.Error("the settings before the change count as current")
	}
}
