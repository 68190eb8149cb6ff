package console

import (
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/gatehouse-id/gatehouse/identity/settings"
)

const (
	rulesAt  = "/admin/settings/profile/edit-unit"
	rules    = "profile.required_attributes_validation_rules"
	ownersAt = "/admin/settings/organisations/edit-unit"
)

// refusedAt reports whether a form is shown again with a problem at a field.
func (a *answer) refusedAt(field, problem string) bool {
	_, at, found := strings.Cut(a.form(), `id="`+field+`-problem"`)
	at, _, _ = strings.Cut(at, "</p>")
	return a.Code == http.StatusUnprocessableEntity && found && strings.Contains(at, problem)
}

// TestRulesAreRows: the rules of required attributes are rows with a box for each attribute, which buttons add, move
// and remove without a script. What is wrong with one is said there, and what was typed stays.
func TestRulesAreRows(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	b := h.as("owner@example.com")
	stored := func() string { return values(h.unitOf("profile"))[rules] }
	// Each page is sent with what it has, a button or further fields.
	page := b.get(rulesAt)
	send := func(fields ...string) *answer {
		page = b.submit(page, append(page.checked(t), fields...)...)
		return page
	}
	open := func() { page = b.get(rulesAt) }
	if a := send("row", "add "+rules); a.Code != http.StatusOK || !strings.Contains(a.form(), `id="`+rules+`[0]" tabindex="-1" autofocus`) {
		t.Fatalf("another rule = %d\n%s", a.Code, a.form())
	}
	if send("row", "add "+rules); stored() != "[]" {
		t.Errorf("a button of a row has saved %s", stored())
	}
	send(rules+"[0].any_of.EMAIL", "yes", rules+"[1].any_of.PHONE", "yes", "row", "up "+rules+"[1]")
	if a := send(); a.Code != http.StatusSeeOther || stored() != `[{"any_of":["PHONE"]},{"any_of":["EMAIL"]}]` {
		t.Errorf("two rules, moved = %d: %s\n%s", a.Code, stored(), a.form())
	}
	open()
	send("row", "add "+rules)
	if a := send(rules+"[2].any_of.PHONE", "yes"); !a.refusedAt(rules+"[2].any_of", "there twice") ||
		!strings.Contains(a.form(), `name="`+rules+`[2].any_of.PHONE" value="yes" checked`) {
		t.Errorf("a rule that is there = %d\n%s", a.Code, a.form())
	}
	open()
	page = b.submit(page, without(page.checked(t), rules+"[1].any_of.EMAIL")...)
	if !page.refusedAt(rules+"[1].any_of", "") {
		t.Errorf("a rule without attributes = %d\n%s", page.Code, page.form())
	}
	open()
	if send(rules+"[1].any_of.<b>", "yes"); strings.Contains(stored(), "<") {
		t.Errorf("attack: a rule of no attribute: %s", stored())
	}
	open()
	send(rules+"[1].any_of.NAME", "yes")
	open()
	if a := send(); a.Code != http.StatusSeeOther || stored() != `[{"any_of":["PHONE"]},{"any_of":["NAME","EMAIL"]}]` {
		t.Errorf("a rule of two attributes = %d: %s", a.Code, stored())
	}
	open()
	page = b.submit(page, without(page.checked(t), rules+"[1].any_of.NAME")...)
	open()
	send("row", "remove "+rules+"[0]")
	send("row", "add "+rules) // and left empty
	if a := send(); a.Code != http.StatusSeeOther || stored() != `[{"any_of":["EMAIL"]}]` {
		t.Errorf("without the first rule = %d: %s", a.Code, stored())
	}
	t.Run("attack: more rows than there can be", func(t *testing.T) {
		open()
		var many []string
		for i := 1; i < 30; i++ {
			row := rules + "[" + strconv.Itoa(i) + "]"
			many = append(many, row, "", row+".any_of."+[]string{"NAME", "PHONE", "BIRTH_DATE"}[i%3], "yes")
		}
		if a := send(many...); a.Code != http.StatusUnprocessableEntity || stored() != `[{"any_of":["EMAIL"]}]` {
			t.Errorf("30 rules = %d: %s", a.Code, stored())
		}
	})
	t.Run("attack: rows of an older state", func(t *testing.T) {
		open()
		h.edit(func(u *settings.Units) { u.Profile.Rules = []settings.AttributeRule{{AnyOf: []string{"NAME"}}} })
		for _, press := range []string{"", "remove " + rules + "[0]"} {
			a := b.submit(page, append(page.checked(t), "row", press)...)
			if a.Code != http.StatusUnprocessableEntity || stored() != `[{"any_of":["NAME"]}]` ||
				!strings.Contains(a.form(), `any_of.NAME" value="yes" checked`) || !strings.Contains(a.form(), "EMAIL") {
				t.Errorf("rows of an older state = %d: %s\n%s", a.Code, stored(), a.form())
			}
		}
	})
}

// TestOrganisationsAreRows: organisations are rows with their ids and names, each with a page of all of it, and so are
// their applications. What no form shows stays.
func TestOrganisationsAreRows(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	b := h.as("owner@example.com")
	const logo = "R0lGODdhAQABAIAAAAAAAP///ywAAAAAAQABAAACAkQBADs="
	h.edit(func(u *settings.Units) {
		u.Organisations = []settings.Organisation{{ID: "old", Name: "Old", LogoSquareBase64: logo}}
	})
	page := b.get(ownersAt)
	send := func(fields ...string) *answer {
		page = b.submit(page, append(page.checked(t), fields...)...)
		return page
	}
	const evil = `"><script>alert(1)</script>`
	send("row", "add organisations")
	if a := send("organisations[1].id", "a b", "organisations[1].name", evil); !a.refusedAt("organisations[1].id", "") ||
		!strings.Contains(a.form(), `value="a b"`) || strings.Contains(a.form(), "<script>alert") {
		t.Errorf("attack: a name that is markup, and a wrong id = %d\n%s", a.Code, a.form())
	}
	if a := send("organisations[1].id", "old"); !a.refusedAt("organisations[1].id", "there twice") {
		t.Errorf("two of one id = %d\n%s", a.Code, a.form())
	}
	send("organisations[1].id", "acme", "row", "up organisations[1]")
	if a := send(); a.Code != http.StatusSeeOther {
		t.Fatalf("another organisation = %d\n%s", a.Code, a.form())
	}
	list := h.units().Organisations
	if len(list) != 2 || list[0].ID != "acme" || list[0].Name != evil || list[1].LogoSquareBase64 != logo {
		t.Fatalf("the organisations are %+v", list)
	}
	const entry = ownersAt + "?at=%5B0%5D"
	if a := b.get(ownersAt); !strings.Contains(a.form(), `href="`+entry+`"`) {
		t.Fatalf("no way leads to all of an organisation\n%s", a.form())
	}
	// Its members are changed one by one, and are read as they were typed.
	typed := map[string]string{
		"preferred_language": "nl", "support_email": "help@acme.example", "username_for_basic_auth": "acme-client", "id": "acme2",
		"message_to_assist_user_during_migration_period_html":                     "<p>Welcome</p>",
		"user_profile_attributes.saml_subject_name_attributes.type":               "username",
		"user_profile_attributes.saml_subject_name_attributes.format":             "persistent",
		"user_profile_attributes.saml_subject_name_attributes.default":            "email",
		"user_profile_attributes.custom_attribute_mappings.attribute_to_map_from": "", // needs the other one
		"user_profile_attributes.custom_attribute_mappings.attribute_to_map_to":   "",
	}
	names, boxes := b.get(entry).namesOf()
	if len(names) < 18 {
		t.Errorf("an organisation has %d fields: %v", len(names), names)
	}
	for _, name := range names {
		want, known := typed[strings.TrimPrefix(name, "entry.")]
		switch {
		case known && want == "":
			continue
		case boxes[name]:
			want = "yes"
		case !known && strings.HasSuffix(name, "_url"):
			want = "https://acme.example/" + name
		case !known:
			want = "other"
		}
		page = b.get(entry)
		before := page.fieldsOf(t)
		if a := send(name, want); a.Code != http.StatusSeeOther {
			t.Errorf("%s = %q: status %d\n%s", name, want, a.Code, a.form())
			continue
		}
		before[name] = want
		if after := b.get(entry).fieldsOf(t); !maps.Equal(before, after) {
			t.Errorf("%s = %q leaves %v, want %v", name, want, after, before)
		}
	}
	page = b.get(entry)
	const apps, told = "entry.service_providers", "entry.user_profile_attributes.identity_attributes"
	send("row", "add "+apps)
	send("row", "add "+told)
	if a := send(apps+"[0].key", "wiki", told+"[0].key", "mail", told+"[0].attribute_name", "email",
		told+"[0].saml_attribute_names", "basic"); !a.refusedAt(told+"[0].saml_attribute_names", "equals sign") ||
		!strings.Contains(a.form(), `value="wiki"`) {
		t.Errorf("a name without its format = %d\n%s", a.Code, a.form())
	}
	if a := send(told+"[0].saml_attribute_names", "basic = mail"); a.Code != http.StatusSeeOther {
		t.Fatalf("an application and an attribute = %d\n%s", a.Code, a.form())
	}
	o := h.units().Organisations[0]
	if o.ServiceProviders["wiki"].ID != "wiki" || o.UserProfileAttributes.IdentityAttributes["mail"].SAMLAttributeNames["basic"] != "mail" {
		t.Errorf("the organisation is %+v", o)
	}
	const app = ownersAt + "?at=%5B0%5D.service_providers%7Bwiki%7D"
	page = b.get(app)
	if a := send("entry.saml_metadata", "nowhere"); !a.refusedAt("entry.saml_metadata", "") {
		t.Errorf("metadata that are none = %d\n%s", a.Code, a.form())
	}
	if a := send("entry.saml_metadata", "https://wiki.example/metadata", "entry.type", "SAML", "entry.second_factor", "ALWAYS",
		"entry.use_trusted_device", "true", "entry.required_authentication_level", "2"); a.Code != http.StatusSeeOther {
		t.Errorf("an application = %d\n%s", a.Code, a.form())
	}
	sp := h.units().Organisations[0].ServiceProviders["wiki"]
	if sp.Type != "SAML" || sp.SecondFactor != "ALWAYS" || sp.UseTrustedDevice != "true" || sp.RequiredAuthenticationLevel != 2 {
		t.Errorf("the application is %+v", sp)
	}
	for _, nowhere := range []string{"%5B7%5D", "%5B0%5D.service_providers%7Bnone%7D", "x"} {
		if a := b.get(ownersAt + "?at=" + nowhere); a.Code != http.StatusNotFound {
			t.Errorf("an entry at %s = %d, want 404", nowhere, a.Code)
		}
	}
}

// TestMappingsAreRows: what a provider tells is mapped in rows.
func TestMappingsAreRows(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	b := h.as("owner@example.com")
	h.edit(func(u *settings.Units) {
		u.LoginMethods.LoginMethods = append(u.LoginMethods.LoginMethods, settings.LoginMethod{
			ID: "corp", Name: "Corp", Type: settings.TypeSAML,
			AttributeMappings: []settings.AttributeMapping{{MapFrom: "mail", MapTo: "email", Editable: true}},
		})
	})
	const list, fields, levels = "attribute_mappings", "custom_attribute_fields", "saml_attributes.authentication_level_mappings"
	id := h.method("corp").AttributeMappings[0].ID
	page := b.get("/admin/providers/corp/edit-provider")
	send := func(fields ...string) *answer {
		page = b.submit(page, append(page.checked(t), fields...)...)
		return page
	}
	for _, one := range []string{list, fields, levels} {
		if a := send("row", "add "+one); a.Code != http.StatusOK {
			t.Fatalf("another row of %s = %d\n%s", one, a.Code, a.form())
		}
	}
	a := send(list+"[1].map_from", "mail", list+"[1].map_to", "email", list+"[1].editable", "yes")
	if !a.refusedAt(list+"[1].map_from", "there twice") {
		t.Errorf("a mapping that is there = %d\n%s", a.Code, a.form())
	}
	const level = levels + "[0].authentication_level"
	a = send(list+"[1].map_from", "tel", level, "9", levels+"[0].authn_context_class_ref_name", "X509")
	if !a.refusedAt(level, "from 1 to 4") {
		t.Errorf("a level out of range = %d\n%s", a.Code, a.form())
	}
	if a := send(level, "3"); a.Code != http.StatusSeeOther {
		t.Fatalf("a mapping and a level = %d\n%s", a.Code, a.form())
	}
	m := h.method("corp")
	if maps := m.AttributeMappings; len(maps) != 2 || maps[0].ID != id || maps[1].MapFrom != "tel" || !maps[1].Editable ||
		len(m.CustomAttributeFields) != 0 || !slices.Equal(m.SAML.AuthenticationLevelMappings,
		[]settings.AuthenticationLevelMapping{{AuthnContextClassRefName: "X509", AuthenticationLevel: 3}}) {
		t.Errorf("the provider is %+v", m)
	}
}
