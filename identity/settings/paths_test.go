package settings_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/gatehouse-id/gatehouse/identity/settings"
)

// TestErrorsSayWhereInTheBody: the path of an error is a path in the body that was sent, whatever is wrong.
func TestErrorsSayWhereInTheBody(t *testing.T) {
	t.Parallel()
	const own = `{"id":"identity","name":"Password","type":"USERNAME_AND_PASSWORD","enabled":true,"authentication_level":1}`
	const bad = `{"name":"SAML","type":"SAML","enabled":true,"saml_attributes":{"idp_metadata":"nonsense"}}`
	const good = `{"name":"A","type":"SAML","enabled":false}`
	for _, tt := range []struct{ name, method, path, body, want string }{
		{"a value of a unit", "POST", "/api/v2/config/features", `{"action_token":{"login":{"ttl":-5}}}`, "action_token.login.ttl"},
		{"a type of a unit", "POST", "/api/v2/config/features", `{"action_token":{"login":{"ttl":"x"}}}`, "action_token.login.ttl"},
		{
			"a value of several units", "POST", "/api/v2/config", `{"features":{"action_token":{"login":{"ttl":-5}}}}`,
			"features.action_token.login.ttl",
		},
		{
			"a type of several units", "POST", "/api/v2/config", `{"features":{"action_token":{"login":{"ttl":"x"}}}}`,
			"features.action_token.login.ttl",
		},
		{
			"a relation in a unit", "POST", "/api/v2/config/password-policy",
			`{"min_length":20,"max_length":10,"lower_case_char_required":false,"upper_case_char_required":false,"special_char_required":false,"breached_password_blocked":false}`, "min_length",
		},
		{
			"the first method without the own one", "POST", "/api/v2/config", `{"login_methods":{"login_methods":[` + bad + `]}}`,
			"login_methods.login_methods[0].saml_attributes.idp_metadata",
		},
		{
			"the second without the own one", "POST", "/api/v2/config", `{"login_methods":{"login_methods":[` + good + `,` + bad + `]}}`,
			"login_methods.login_methods[1].saml_attributes.idp_metadata",
		},
		{
			"behind the own one", "POST", "/api/v2/config", `{"login_methods":{"login_methods":[` + own + `,` + bad + `]}}`,
			"login_methods.login_methods[1].saml_attributes.idp_metadata",
		},
		{
			"before the own one", "POST", "/api/v2/config", `{"login_methods":{"login_methods":[` + bad + `,` + own + `]}}`,
			"login_methods.login_methods[0].saml_attributes.idp_metadata",
		},
		{
			"a type in a method", "POST", "/api/v2/config", `{"login_methods":{"login_methods":[{"name":5,"type":"SAML"}]}}`,
			"login_methods.login_methods[0].name",
		},
		{
			"an unknown key pair", "POST", "/api/v2/config",
			`{"login_methods":{"login_methods":[{"name":"A","type":"SAML","saml_attributes":{"signing_key_id":"none"}}]}}`,
			"login_methods.login_methods[0].saml_attributes.signing_key_id",
		},
		{"a message", "PUT", "/api/v2/config/custom-messages", `{"default":{"a":"x` + "\\u0000" + `"}}`, "default.a"},
		{"a message of a batch", "PUT", "/api/v2/config/custom-messages/nl/batch", `{"a":"x` + "\\u0000" + `"}`, "a"},
		{"a default message of a batch", "PUT", "/api/v2/config/custom-messages/default/batch", `{"a":"x` + "\\u0000" + `"}`, "a"},
		{"a URL", "POST", "/api/v2/config/redirects", `{"url_after_login":"javascript:alert(1)"}`, "url_after_login"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			a := w.call(tt.method, tt.path, tt.body)
			var body struct {
				Message string                           `json:"error_message"`
				Details []struct{ Path, Problem string } `json:"details"`
			}
			if err := json.Unmarshal([]byte(a.body), &body); err != nil || a.status != http.StatusBadRequest && a.status != http.StatusConflict {
				t.Fatalf("status %d %s", a.status, a.body)
			}
			if len(body.Details) == 0 || body.Details[0].Path != tt.want || !strings.HasPrefix(body.Message, tt.want+": ") {
				t.Errorf("%d %s, want the path %s", a.status, a.body, tt.want)
			}
		})
	}
}

// TestMessagesOfSeveralLines: a text with line ends and tabs is a text; a key that could not be deleted is refused.
func TestMessagesOfSeveralLines(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.must(204, "PUT", "/api/v2/config/custom-messages/nl/batch", `{"sign_in.help":"one\n\ttwo\r\n"}`)
	if got := w.units(w.service).CustomMessages.Locales["nl"]["sign_in.help"]; got != "one\n\ttwo\r\n" {
		t.Errorf("message = %q", got)
	}
	for _, key := range []string{"a/b", `a\\b`, ".", "..", "batch", "../x", "a b"} {
		w.must(400, "PUT", "/api/v2/config/custom-messages/nl/batch", `{"`+key+`":"x"}`)
		w.must(400, "PUT", "/api/v2/config/custom-messages", `{"default":{"`+key+`":"x"}}`)
	}
	for _, locale := range []string{"nl_BE_", "_nl", "nl__BE", "nl-", "-", "nl_BE_a_b_c"} {
		w.must(400, "PUT", "/api/v2/config/custom-messages/"+locale+"/batch", `{"a":"x"}`)
		w.must(400, "PUT", "/api/v2/config/custom-messages", `{"locales":{"`+locale+`":{"a":"x"}}}`)
	}
	for _, locale := range []string{"nl", "nl_BE", "nl-BE", "nl_NL_informal"} {
		w.must(204, "PUT", "/api/v2/config/custom-messages/"+locale+"/batch", `{"a":"x"}`)
		w.must(204, "DELETE", "/api/v2/config/custom-messages/"+locale+"/a", "")
	}
}

// TestPortsThatThereAreNot: no URL with such a port can be reached.
func TestPortsThatThereAreNot(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, port := range []string{"65536", "99999", "4294967739", "01234"} {
		w.must(400, "POST", "/api/v2/config/redirects", `{"url_after_login":"https://www.example.com:`+port+`/"}`)
		w.must(400, "POST", "/api/v2/config/redirects/whitelisted-urls", `{"url":"https://www.example.com:`+port+`/"}`)
		list := []settings.WhitelistedURL{{URL: "https://www.example.com:" + port + "/"}}
		if settings.Whitelisted(list, "https://www.example.com:"+port+"/x") {
			t.Errorf("port %s is whitelisted", port)
		}
	}
	w.must(204, "POST", "/api/v2/config/redirects", `{"url_after_login":"https://www.example.com:65535/"}`)
}

// TestMisspelledMessages: a text whose key is nearly that of another is refused by every door, and one that operators
// name, or that nothing here is like, is kept.
func TestMisspelledMessages(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const misspelled = "sign_in.tilte"
	for _, door := range []struct{ method, path, body, at string }{
		{"PUT", "/api/v2/config/custom-messages/nl/batch", `{"` + misspelled + `":"x"}`, misspelled},
		{"PUT", "/api/v2/config/custom-messages/default/batch", `{"` + misspelled + `":"x"}`, misspelled},
		{"PUT", "/api/v2/config/custom-messages", `{"locales":{"nl":{"` + misspelled + `":"x"}}}`, "locales.nl." + misspelled},
		{"POST", "/api/v2/config", `{"custom_messages":{"default":{"` + misspelled + `":"x"}}}`, "custom_messages.default." + misspelled},
	} {
		a := w.must(http.StatusBadRequest, door.method, door.path, door.body)
		if !strings.Contains(a.body, "did you mean sign_in.title?") || !strings.Contains(a.body, `"path":"`+door.at+`"`) {
			t.Errorf("%s %s = %s, want the key that was meant at %s", door.method, door.path, a.body, door.at)
		}
	}
	w.must(http.StatusNoContent, "PUT", "/api/v2/config/custom-messages/nl/batch",
		`{"sign_in.title":"Kom binnen","scope.orders.read":"Bestellingen","custom_attribute.team":"Team","another.system.greeting":"hoi"}`)
	if n := len(w.units(w.service).CustomMessages.Locales["nl"]); n != 4 {
		t.Errorf("%d texts are kept, want 4", n)
	}
}
