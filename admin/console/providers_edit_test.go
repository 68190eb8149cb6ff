package console

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/jsonapi"
)

// fieldsOf are the fields of a form by their names. Boxes that are not checked are not among them.
func (a *answer) fieldsOf(t *testing.T) map[string]string {
	t.Helper()
	out, list := map[string]string{}, a.checked(t)
	for i := 0; i+1 < len(list); i += 2 {
		out[list[i]] = strings.ReplaceAll(list[i+1], "\r\n", "\n")
	}
	return out
}

// namesOf are the names of the fields of a form, boxes included, and which of them are boxes.
func (a *answer) namesOf() (names []string, boxes map[string]bool) {
	boxes = map[string]bool{}
	for _, part := range strings.Split(a.form(), "<")[1:] {
		kind, _, _ := strings.Cut(part, " ")
		_, name, found := strings.Cut(part, ` name="`)
		name, _, _ = strings.Cut(name, `"`)
		if !found || strings.Contains(part, `type="hidden"`) || !slices.Contains([]string{"input", "select", "textarea"}, kind) {
			continue
		}
		names, boxes[name] = append(names, name), strings.Contains(part, `type="checkbox"`)
	}
	return names, boxes
}

// method returns a login method of the settings.
func (h *harness) method(id string) settings.LoginMethod {
	h.t.Helper()
	list := h.units().LoginMethods.LoginMethods
	return list[slices.IndexFunc(list, func(m settings.LoginMethod) bool { return m.ID == id })]
}

// TestProvidersAreEdited changes each field of a provider of each type alone, as its form is sent, and reads it back. A
// form that is saved as it is changes nothing.
func TestProvidersAreEdited(t *testing.T) {
	t.Parallel()
	// The values by the last part of a field's name. Others are texts.
	typed := map[string]string{
		"authentication_level": "2", "identity_assurance_level": "1", "excluded_unmapped_attributes": "groups\nphoto",
		"type": "CHECKBOX", "idp_metadata": "https://other.example/metadata", "comparison": "MINIMUM",
		"client_authentication_method": "PRIVATE_KEY_JWT",
		"scopes":                       "openid\nemail", "claims": "email", "ip_ranges": "10.0.0.0/8",
		"attributes_to_be_fetched": "mail\ncn", "mobile_authentication_type": "BROWSER", "deep_linking_redirect_url": "https://other.example/app",
		"security_level":                "ADVANCED",
		"required_authentication_level": "HIGH", "required_level_of_assurance": "HIGH", "authentication_service": "PRODUCTION",
		"metadata_expiration_time_in_seconds": "600", "server_urls": "ldaps://other.example",
	}
	for _, c := range []struct {
		method settings.LoginMethod
		fields int // at least
	}{
		{settings.LoginMethod{Type: settings.TypeSAML, SAML: &settings.SAMLAttributes{IDPMetadata: "https://idp.example/metadata"}}, 14},
		{settings.LoginMethod{Type: settings.TypeSAML}, 14},
		{settings.LoginMethod{
			Type: settings.TypeOIDC,
			OIDC: &settings.OIDCAttributes{Issuer: "https://login.corp.example", ClientID: "gatehouse", ClientSecret: "planted-secret"},
		}, 25},
		{settings.LoginMethod{
			Type: settings.TypeLDAP,
			LDAP: &settings.LDAPAttributes{ServerURLs: "ldaps://ldap.example", Password: "planted-secret"},
		}, 18},
		{settings.LoginMethod{Type: settings.TypeKerberos}, 11},
		{settings.LoginMethod{Type: settings.TypeQRCode}, 14},
		{settings.LoginMethod{Type: settings.TypeGoogle, Google: &settings.SocialAttributes{ClientID: "x", ClientSecret: "planted-secret"}}, 13},
		{settings.LoginMethod{Type: settings.TypeApple}, 17},
		{settings.LoginMethod{Type: settings.TypeItsme}, 17},
		{settings.LoginMethod{Type: settings.TypeDigiD}, 13},
		{settings.LoginMethod{Type: settings.TypeEIDAS}, 13},
		{settings.LoginMethod{
			Type:       settings.TypeAzureADB2C,
			AzureADB2C: &settings.AzureADB2CAttributes{TenantID: "t", ClientSecret: "planted-secret"},
		}, 14},
		{settings.LoginMethod{Type: settings.TypePassword, ID: settings.OwnMethod}, 2},
	} {
		t.Run(c.method.Type, func(t *testing.T) {
			t.Parallel()
			h := newHarness(t)
			h.t = t
			m := c.method
			if m.ID == "" {
				m.ID, m.Name = "corp", "Corp"
				m.AttributeMappings = []settings.AttributeMapping{{MapFrom: "mail", MapTo: "email"}}
				m.CustomAttributeMappings = []settings.CustomAttributesMapping{{AttributeToMapFrom: "dept", AttributeToMapTo: "department"}}
				m.CustomAttributeFields = []settings.CustomAttributeField{{ID: "size", Name: "Shoe size", Type: settings.FieldNumber}}
				if m.SAML != nil {
					m.SAML.AuthenticationLevelMappings = []settings.AuthenticationLevelMapping{{AuthnContextClassRefName: "X509", AuthenticationLevel: 3}}
				}
				h.edit(func(u *settings.Units) { u.LoginMethods.LoginMethods = append(u.LoginMethods.LoginMethods, m) })
			}
			b, path := h.as("owner@example.com"), "/admin/providers/"+m.ID+"/edit-provider"
			asked := b.get(path)
			events := len(h.allEvents(t.Context()))
			if a := b.submit(asked, asked.checked(t)...); a.Code != http.StatusSeeOther || len(h.allEvents(t.Context())) != events {
				t.Fatalf("the form, unchanged = %d with %d events, want 303 and none\n%s", a.Code, len(h.allEvents(t.Context()))-events, a.form())
			}
			names, boxes := asked.namesOf()
			if len(names) < c.fields {
				t.Errorf("the form has %d fields, want at least %d: %v", len(names), c.fields, names)
			}
			for _, name := range names {
				last := name[strings.LastIndexByte(name, '.')+1:]
				if strings.HasSuffix(last, "_id") && last != "client_id" && last != "tenant_id" && last != "team_id" && last != "key_id" &&
					last != "application_id" && last != "entity_id" || last == "client_secret" || last == "password" {
					continue // key pairs that there are not; secrets are below
				}
				if m.Type == settings.TypeQRCode && last == "identity_assurance_level" {
					continue // is 0 for phones
				}
				asked := b.get(path)
				before := asked.fieldsOf(t)
				fields, want := asked.checked(t), "yes"
				switch {
				case boxes[name] && before[name] != "":
					fields, want = without(fields, name), ""
				case !boxes[name]:
					if want = typed[last]; want == "" {
						want = "other"
						if strings.Contains(last, "url") || strings.Contains(last, "link") || last == "issuer" || last == "jwks_uri" {
							want = "https://other.example/" + last
						}
					}
				}
				if want != "" {
					fields = append(fields, name, strings.ReplaceAll(want, "\n", "\r\n"))
				}
				if strings.Contains(asked.Body.String(), "planted-secret") {
					t.Errorf("the form shows a secret")
				}
				for _, secret := range []string{"open_id_connect_attributes.client_secret", "ladp_attributes.password"} {
					if slices.Contains(names, secret) { // it is given again, since an address may be another one
						fields = append(fields, secret, "planted-secret")
					}
				}
				if a := b.submit(asked, fields...); a.Code != http.StatusSeeOther {
					t.Errorf("%s = %q: status %d, want 303\n%s", name, want, a.Code, a.form())
					continue
				}
				after := b.get(path).fieldsOf(t)
				if after[name] != want {
					t.Errorf("%s = %q after saving, want %q", name, after[name], want)
				}
				delete(before, name)
				delete(after, name)
				if !maps.Equal(before, after) {
					t.Errorf("saving %s has changed others:\n%v\nwant\n%v", name, after, before)
				}
			}
		})
	}
}

// TestEditingProviders: secrets stay unless they are given again, what is wrong is said at its field, and providers of
// the Caddyfile show where they are.
func TestEditingProviders(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	b := h.as("owner@example.com")
	const path, secret = "/admin/providers/corp/edit-provider", "open_id_connect_attributes.client_secret"
	h.edit(func(u *settings.Units) {
		u.LoginMethods.LoginMethods = append(u.LoginMethods.LoginMethods, settings.LoginMethod{
			ID: "corp", Name: "Corp", Type: settings.TypeOIDC, Enabled: true,
			AttributeMappings: []settings.AttributeMapping{{MapFrom: "mail", MapTo: "email", Editable: true}},
			OIDC: &settings.OIDCAttributes{
				Issuer: "https://login.corp.example", ClientID: "gatehouse", ClientSecret: "planted-old",
				ClientAuthenticationMethod: "CLIENT_SECRET_BASIC",
			},
		})
	})
	save := func(fields ...string) *answer {
		t.Helper()
		asked := b.get(path)
		return b.submit(asked, append(asked.checked(t), fields...)...)
	}
	secretOf := func() string { return h.method("corp").OIDC.ClientSecret.Reveal() }
	if a := save("name", "Corp 2"); a.Code != http.StatusSeeOther || h.method("corp").Name != "Corp 2" || secretOf() != "planted-old" {
		t.Errorf("another name = %d; the provider is %+v with the secret of before: %t", a.Code, h.method("corp"), secretOf() == "planted-old")
	}
	t.Run("attack 2920: a secret is sent to another address", func(t *testing.T) {
		a := save("open_id_connect_attributes.issuer", "https://evil.example")
		if a.Code != http.StatusUnprocessableEntity || !strings.Contains(a.form(), `id="`+secret+`-problem"`) ||
			!strings.Contains(a.form(), "Enter this again") || h.method("corp").OIDC.Issuer != "https://login.corp.example" {
			t.Errorf("attack: another issuer with the stored secret = %d\n%s", a.Code, a.form())
		}
	})
	a := save("open_id_connect_attributes.issuer", "https://new.corp.example", secret, "planted-new")
	if a.Code != http.StatusSeeOther || secretOf() != "planted-new" || h.method("corp").OIDC.Issuer != "https://new.corp.example" {
		t.Errorf("another issuer and secret = %d\n%s", a.Code, a.form())
	}
	t.Run("attack 792: a form with a secret that is shown again", func(t *testing.T) {
		if a := save(secret, "planted-again", "open_id_connect_attributes.discovery_url", "nowhere"); strings.Contains(a.Body.String(),
			"planted") || a.Code != http.StatusUnprocessableEntity {
			t.Errorf("the form that is shown again = %d, or has the secret\n%s", a.Code, a.form())
		}
	})
	for _, c := range []struct{ name, value, want string }{
		{"authentication_level", "9", "Enter a whole number from 0 to 4."},
		{"open_id_connect_attributes.discovery_url", "nowhere", "discovery_url"},
		{"open_id_connect_attributes.client_id", "", "Fill this in, or switch the provider off first."},
		{"open_id_connect_attributes.scopes", `a"b`, "A scope has no spaces"},
		{"open_id_connect_attributes.client_authentication_method", "PIGEON", "client_authentication_method"},
	} {
		if a := save(c.name, c.value, secret, "planted-too"); a.Code != http.StatusUnprocessableEntity ||
			!strings.Contains(a.form(), `id="`+c.name+`-problem"`) || !strings.Contains(a.form(), c.want) {
			t.Errorf("%s = %q: status %d, want 422 with %q at the field\n%s", c.name, c.value, a.Code, c.want, a.form())
		}
	}
	t.Run("attack 791: a form of an older state", func(t *testing.T) {
		asked := b.get(path)
		h.edit(func(u *settings.Units) {
			for i := range u.LoginMethods.LoginMethods {
				if m := &u.LoginMethods.LoginMethods[i]; m.ID == "corp" {
					m.Name, m.OIDC.ClientSecret = "Theirs", jsonapi.Secret("")
				}
			}
		})
		if a := b.submit(asked, append(asked.checked(t), "name", "Mine")...); a.Code != http.StatusUnprocessableEntity ||
			!strings.Contains(a.form(), "Theirs") || h.method("corp").Name != "Theirs" {
			t.Errorf("a form of an older state = %d, want both names and no change\n%s", a.Code, a.form())
		}
	})
	if a := b.get("/admin/providers/declared"); strings.Contains(a.form(), "edit-provider") || !strings.Contains(a.form(), "Caddyfile:20") {
		t.Errorf("a provider of the Caddyfile can be edited, or has no place:\n%s", a.form())
	}
}

// TestProvidersAreOrdered: the buttons on the sign-in page are in the order of the list, in which a stored provider
// moves up, and not above those of the Caddyfile.
func TestProvidersAreOrdered(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	for _, id := range []string{"first", "second", "third"} {
		h.addProvider(id, id)
	}
	order := func() (ids []string) {
		for _, m := range h.units().LoginMethods.LoginMethods {
			if slices.Contains([]string{"first", "second", "third"}, m.ID) {
				ids = append(ids, m.ID)
			}
		}
		return ids
	}
	b := h.as("owner@example.com")
	const up = "/raise-provider"
	for _, c := range []struct{ id, want string }{
		{"third", "first third second"}, {"third", "third first second"}, {"second", "third second first"},
	} {
		before := len(h.allEvents(t.Context()))
		if a := b.acts("/admin/providers/" + c.id + up); a.Code != http.StatusOK || strings.Join(order(), " ") != c.want {
			t.Errorf("%s moved up: status %d, the order is %v, want %s\n%s", c.id, a.Code, order(), c.want, a.form())
		}
		if !slices.ContainsFunc(h.allEvents(t.Context())[before:], func(e audit.Event) bool {
			return e.Type == "configuration.ConfigurationUpdatedEvent" && e.Actor == h.personID("owner@example.com")
		}) {
			t.Errorf("%s moved up: the events are %+v, want one about the configuration", c.id, h.allEvents(t.Context())[before:])
		}
	}
	for _, id := range []string{"third", "declared"} {
		if a := b.get("/admin/providers/" + id); a.Code != http.StatusOK || strings.Contains(a.form(), up) {
			t.Errorf("%s can move up:\n%s", id, a.form())
		}
	}
	if a := b.acts("/admin/providers/third" + up); strings.Join(order(), " ") != "third second first" {
		t.Errorf("the first one moved up: status %d, the order is %v", a.Code, order())
	}
}
