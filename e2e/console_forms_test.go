package e2e

import (
	"strings"
	"testing"
)

// TestConsoleForms: in a browser, the forms of every unit of the settings are saved as they are, and a number of the
// password policy is changed.
func TestConsoleForms(t *testing.T) {
	t.Parallel()
	s := startEdited(t, "", func(caddyfile string) string {
		return strings.Replace(caddyfile, "\n\t\tidentity {", "\n\t\tidentity {\n\t\t\tadmin "+person+" {\n\t\t\t\tlevel 1\n\t\t\t}\n", 1)
	})
	before := s.must("", "config", "export")
	b := s.browse(t)
	b.open(s.Issuer + "/admin/settings")
	b.signIn(person, s.Password)
	save := func(path, act string) {
		t.Helper()
		b.open(s.Issuer + path + "/" + act)
		b.click("main form button:not([type])")
		if at := b.location(); at != s.Issuer+path+"?done="+act {
			t.Errorf("%s/%s, saved as it is, leads to %s: %s", path, act, at, b.text("main"))
		}
	}
	units := eval[[]string](b, `[...document.querySelectorAll('main a[href^="/admin/settings/"]')].map(a => a.getAttribute('href').split('/')[3])`)
	saved := map[string]bool{}
	for _, unit := range units {
		path := "/admin/settings/" + unit
		if saved[unit] || strings.HasSuffix(unit, "-settings") {
			continue
		}
		saved[unit] = true
		b.open(s.Issuer + path)
		for _, act := range []string{"edit-unit", "edit-json"} {
			if b.has(`main a[href="` + path + "/" + act + `"]`) {
				save(path, act)
				b.open(s.Issuer + path)
			}
		}
	}
	if len(saved) != 13 {
		t.Errorf("%d units are saved, want 13: %v", len(saved), units)
	}
	if after := s.must("", "config", "export"); after != before {
		t.Errorf("forms that nobody has changed change the settings:\n%s\nwant\n%s", after, before)
	}

	b.open(s.Issuer + "/admin/settings/password_policy/edit-unit")
	b.fill(`[name="password_policy.min_length"]`, "20")
	b.click("main form button:not([type])")
	if after := s.must("", "config", "export"); !strings.Contains(after, `"min_length": 20`) || !strings.Contains(after, `"max_length": 256`) {
		t.Errorf("the browser is at %s, and the policy is not changed: %s", b.location(), b.text("main"))
	}
}
