package console

import (
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gatehouse-id/gatehouse/identity/settings"
)

// TestProviderPresets: an owner adds a provider of each kind that is known without metadata: the form asks for what it
// needs, and has the address to register there. What is missing is said at its field.
func TestProviderPresets(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	b := h.as("owner@example.com")
	first := b.get("/admin/providers/add-provider")
	entered := map[string][]string{
		"apple": {
			"apple_attributes.client_id", "com.example.auth", "apple_attributes.team_id", "ABCDE12345",
			"apple_attributes.key_id", "FGHIJ67890", "apple_attributes.signing_key_id", "signing",
		},
		"azure_ad_b2c": {
			"azure_ad_b2c_attributes.tenant_id", "contoso", "azure_ad_b2c_attributes.application_id", "gatehouse",
			"azure_ad_b2c_attributes.policy", "B2C_1_sign_in",
		},
		"itsme":    {"itsme_attributes.client_id", "gatehouse", "itsme_attributes.login_service_code", "MY_LOGIN"},
		"kerberos": {},
		"ldap":     {"ladp_attributes.server_urls", "ldaps://ldap.example.com", "ladp_attributes.base_suffix", "dc=example,dc=com"},
	}
	for _, social := range []string{"discord", "facebook", "github", "google", "linkedin", "microsoft", "twitter"} {
		entered[social] = []string{social + "_attributes.clientId", "gatehouse", social + "_attributes.client_secret", "secret-of-" + social}
	}
	var kinds []string
	for _, m := range regexp.MustCompile(`<option value="([a-z0-9_]+)"`).FindAllStringSubmatch(first.form(), -1) {
		if m[1] != "oidc" && m[1] != "saml" {
			kinds = append(kinds, m[1])
		}
	}
	if len(kinds) != len(entered) {
		t.Fatalf("the form offers %q", kinds)
	}
	for _, kind := range kinds {
		fields, ok := entered[kind]
		if !ok {
			t.Errorf("%s is offered, and not tested", kind)
			continue
		}
		id := strings.ReplaceAll(kind, "_", "-")
		asked := b.submit(first, "kind", kind)
		if asked.Code != http.StatusOK ||
			kind != "ldap" && kind != "kerberos" && !strings.Contains(asked.form(), issuer+"/oidc/"+id+"/callback") {
			t.Fatalf("%s asks with %d:\n%s", kind, asked.Code, asked.form())
		}
		if kind != "kerberos" {
			wrong := b.submit(asked, "provider_id", id, "enabled", "yes")
			if wrong.Code != http.StatusUnprocessableEntity || !strings.Contains(wrong.form(), `id="`+fields[0]+`-problem"`) {
				t.Errorf("%s without anything = %d:\n%s", kind, wrong.Code, wrong.form())
			}
		}
		added := b.submit(asked, append(fields, "provider_id", id, "provider_name", "By "+kind)...)
		if kind == "apple" { // there is no such key pair
			if added.Code != http.StatusUnprocessableEntity || !strings.Contains(added.form(), `id="apple_attributes.signing_key_id-problem"`) {
				t.Errorf("apple without its key = %d:\n%s", added.Code, added.form())
			}
			continue
		}
		if added.Code != http.StatusSeeOther ||
			added.Header().Get("Location") != "/admin/providers/"+id+"?done=add-provider" {
			t.Errorf("%s is added with %d %s:\n%s", kind, added.Code, added.Header().Get("Location"), added.form())
			continue
		}
		u, err := h.settings.Current(t.Context())
		h.must(err)
		i := slices.IndexFunc(u.LoginMethods.LoginMethods, func(m settings.LoginMethod) bool { return m.ID == id })
		if i < 0 || u.LoginMethods.LoginMethods[i].Enabled || kind != "kerberos" && len(u.LoginMethods.LoginMethods[i].AttributeMappings) == 0 {
			t.Errorf("%s is stored as %+v", kind, u.LoginMethods.LoginMethods)
		}
		if page := b.get("/admin/providers/" + id); page.Code != http.StatusOK || strings.Contains(page.form(), "secret-of-") {
			t.Errorf("the page of %s = %d:\n%s", kind, page.Code, page.form())
		}
	}
	again := b.submit(b.submit(first, "kind", "google"), append(entered["google"], "provider_id", "github")...)
	if again.Code != http.StatusUnprocessableEntity ||
		!strings.Contains(again.form(), `id="provider_id-problem"`) {
		t.Errorf("a second provider of the same id = %d:\n%s", again.Code, again.form())
	}
}
