package e2e

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
)

// rowsFile has lists of the settings that people edit as rows.
const rowsFile = `{"organisations":[{"id":"acme","name":"Acme","service_providers":{"wiki":{"id":"wiki"}},
	"user_profile_attributes":{"identity_attributes":{"mail":{"attribute_name":"email",
	"saml_attribute_names":{"basic":"mail"}},"given_name":{}}}},
	{"id":"umbrella","name":"Umbrella"}],
	"profile":{"required_attributes_validation_rules":[{"any_of":["EMAIL","PHONE"]}]},
	"login_methods":{"login_methods":[{"id":"corp","name":"Corp","type":"SAML",
	"attribute_mappings":[{"map_from":"mail","map_to":"email"},{"map_from":"sn","map_to":"family_name","editable":true}],
	"custom_attribute_fields":[{"id":"size","name":"Shoe size","type":"NUMBER"}]}]}}`

// TestConsoleRows: lists of objects are rows of a form, at a desk and on a phone, with and without scripts. Axe finds
// nothing on their pages, which are small and not too wide; buttons add, move and remove, and the rows are saved.
func TestConsoleRows(t *testing.T) {
	t.Parallel()
	s := startEdited(t, "", func(caddyfile string) string {
		return strings.Replace(caddyfile, "\n\t\tidentity {", "\n\t\tidentity {\n\t\t\tadmin "+person+" {\n\t\t\t\tlevel 1\n\t\t\t}\n", 1)
	})
	file := filepath.Join(t.TempDir(), "rows.json")
	if err := os.WriteFile(file, []byte(rowsFile), 0o600); err != nil {
		t.Fatal(err)
	}
	s.must("", "config", "import", file)
	axe := read(t, "node/node_modules/axe-core/axe.min.js")
	b := s.browse(t)
	b.open(s.Issuer + "/admin")
	b.signIn(person, s.Password)
	const organisations, rules = "/admin/settings/organisations/edit-unit", "profile.required_attributes_validation_rules"
	pages := map[string]string{
		"organisations": organisations, "organisation": organisations + "?at=[0]",
		"application": organisations + "?at=[0].service_providers{wiki}",
		"rules":       "/admin/settings/profile/edit-unit", "provider": "/admin/providers/corp/edit-provider",
		"unit": "/admin/settings/organisations", "features": "/admin/settings/features/edit-unit",
	}
	for _, width := range []int64{1280, 390} {
		for name, path := range pages {
			b.screen(width, 800, "light")
			b.open(s.Issuer + path)
			if wide := eval[int64](b, "document.documentElement.scrollWidth"); wide > width {
				t.Errorf("%s is %d pixels wide on a screen of %d", path, wide, width)
			}
			if size := eval[int](b, "new Blob([document.documentElement.outerHTML]).size"); size > maxWeight {
				t.Errorf("%s has %d bytes, want at most %d", path, size, maxWeight)
			}
			if high := eval[int64](b, "document.documentElement.scrollHeight"); (name == "features" || name == "organisation") && high > 4*800 {
				t.Errorf("%s is %d pixels high on a screen of %d, want at most four of 800", path, high, width)
			}
			for _, scheme := range []string{"dark", "light"} {
				b.screen(width, 800, scheme)
				b.shot("rows-" + name + "-" + strconv.FormatInt(width, 10) + "-" + scheme)
				if width == 1280 {
					for _, v := range violations(b, axe, scheme) {
						t.Errorf("%s, %s: %s", path, scheme, v)
					}
				}
			}
		}
	}
	press := func(button string) { b.click("button[value=" + quote(button) + "]") }
	field := func(name string) string { return "[name=" + quote(name) + "]" }
	for i, script := range []bool{true, false} {
		b.screen([]int64{1280, 390}[i], 800, "light")
		call(b, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: !script})
		id := "new" + strconv.Itoa(i)
		b.open(s.Issuer + organisations)
		press("add organisations")
		b.fill(field("organisations[2].id"), "not an id")
		b.fill(field("organisations[2].name"), "New")
		b.click("main form button:not([type])")
		if !b.has(field("organisations[2].id")+"[aria-invalid]") || !b.has(field("organisations[2].name")+`[value="New"]`) {
			t.Errorf("a wrong id is not said at its field: %s", b.text("main"))
		}
		b.shot("rows-problem-" + strconv.FormatBool(script))
		b.fill(field("organisations[2].id"), id)
		press("up organisations[2]")
		b.accepted("New")
		b.open(s.Issuer + organisations)
		b.click(`main a[href$="at=%5B1%5D"]`)
		press("add entry.service_providers")
		b.fill(field("entry.service_providers[0].key"), "blog")
		b.accepted("New")
		if after := s.must("", "config", "export"); !strings.Contains(after, `"id": "blog"`) ||
			strings.Index(after, `"id": "`+id+`"`) > strings.Index(after, `"id": "umbrella"`) {
			t.Errorf("the settings have no application blog, or the new organisation last: %s", after)
		}
		b.open(s.Issuer + organisations)
		press("remove organisations[1]")
		b.accepted("Umbrella")
		b.open(s.Issuer + "/admin/settings/profile/edit-unit")
		press("add " + rules)
		b.do(chromedp.Click(chromedp.CSS(field(rules + "[1].any_of.NAME"))))
		b.accepted("Required attributes")
		b.open(s.Issuer + "/admin/settings/profile/edit-unit")
		press("remove " + rules + "[1]")
		b.accepted("Required attributes")
		if after := s.must("", "config", "export"); strings.Contains(after, `"blog"`) || strings.Contains(after, `"NAME"`) {
			t.Errorf("what was removed is still in the settings: %s", after)
		}
	}
}
