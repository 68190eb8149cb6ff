package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
)

// everything is a server with every feature that has a page switched on.
type everything struct {
	*server
	shop *shop
	mail *mailServer
	on   []string // the switches that can be switched on
}

// stays are switches that add no pages but remove others.
var stays = []string{
	"cookie_based_saml_authentication", "experimental_features_enabled", "statistics_api_enabled",
	"session_api_enabled", "storage_api_enabled",
}

// openEverything starts it. Switches of missing features are skipped: the API refuses them. before runs before the
// others are switched on.
func openEverything(t *testing.T, edit func(caddyfile string) string, before func(e *everything)) *everything {
	t.Helper()
	e := &everything{mail: newMailServer(t)}
	// accepts text messages and calls of devices
	sink := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(sink.Close)
	e.shop, e.server = openShopEdited(t, func(caddyfile string) string {
		caddyfile = strings.Replace(caddyfile, "apis introspection", "apis introspection configuration events persons credentials", 1)
		caddyfile = strings.Replace(caddyfile, "\n\t\tidentity {",
			fmt.Sprintf("\n\t\tsms webhook %s/sms\n\t\tpush webhook %s/push {\n\t\t\tsecret %s\n\t\t}\n\t\tidentity {", sink.URL,
				sink.URL, random(32)), 1)
		lines := fmt.Sprintf("\n\t\tmail smtp %s {\n\t\t\tfrom \"The gate <no-reply@example.com>\"\n\t\t\tusername %s\n\t\t\tpassword %s\n\t\t}\n\t\tidentity {\n\t\t\tlocales en nl de fr",
			e.mail.address, e.mail.user, e.mail.password)
		caddyfile = strings.Replace(caddyfile, "\n\t\tidentity {", lines, 1)
		if edit != nil {
			caddyfile = edit(caddyfile)
		}
		return caddyfile
	}, "SSL_CERT_FILE="+e.mail.certificate)
	e.secret("password of the mail server", e.mail.password)
	if before != nil {
		before(e)
	}
	e.switchOn()
	return e
}

// switchOn sets every switch of the features unit and of the notices, one by one.
func (e *everything) switchOn() {
	e.t.Helper()
	resp, err := http.Get("http://" + e.Admin + "/gatehouse/config")
	if err != nil {
		e.t.Fatal(err)
	}
	units := body[map[string]json.RawMessage](e.t, resp)
	var switches [][]string
	for _, unit := range []string{"features", "attributes", "email_notifications"} {
		var v any
		if err := json.Unmarshal(units[unit], &v); err != nil {
			e.t.Fatalf("unit %s: %v", unit, err)
		}
		switches = append(switches, offSwitches(v, unit)...)
	}
	for _, path := range switches {
		if slices.Contains(stays, path[len(path)-1]) || slices.Contains(path, "person_creation_mandatory_fields") ||
			slices.Contains(path, "custom_email_validation") {
			continue
		}
		body := "true"
		for _, name := range slices.Backward(path) {
			body = fmt.Sprintf("{%s:%s}", quote(name), body)
		}
		if status, _ := e.configure(http.MethodPost, "/api/v2/config", body); status == http.StatusNoContent {
			e.on = append(e.on, strings.Join(path, "."))
		}
	}
	if status, answer := e.configure(http.MethodPost, "/api/v2/config",
		`{"step_up":{"actions":{"allow_set_initial_step_up_method_enabled":true}}}`); status != http.StatusNoContent {
		e.t.Fatalf("the first method with any sign-in: %d %s", status, answer)
	}
	// A provider that cannot be reached: its button and its pages exist.
	if status, answer := e.configure(http.MethodPost, "/api/v2/config",
		`{"login_methods":{"login_methods":[{"id":"partner","name":"Partner account","type":"OPEN_ID_CONNECT","enabled":true,`+
			`"open_id_connect_attributes":{"client_id":"x","client_secret":"`+random(32)+
			`","manual_metadata_setup":true,"issuer":"https://partner.invalid","authorization_url":"https://partner.invalid/a",`+
			`"id_token_url":"https://partner.invalid/t","jwks_url":"https://partner.invalid/k"}}]}}`); status != http.StatusNoContent {
		e.t.Fatalf("a provider: %d %s", status, answer)
	}
}

// offSwitches returns the paths of the members that are false.
func offSwitches(v any, path ...string) (out [][]string) {
	switch v := v.(type) {
	case bool:
		if !v {
			out = append(out, slices.Clone(path))
		}
	case map[string]any:
		for name, inner := range v {
			out = append(out, offSwitches(inner, append(slices.Clone(path), name)...)...)
		}
	}
	slices.SortFunc(out, func(a, b []string) int { return strings.Compare(strings.Join(a, "."), strings.Join(b, ".")) })
	return out
}
