package console

import (
	"encoding/json"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/gatehouse-id/gatehouse/identity/settings"
)

var columnName = regexp.MustCompile(`<th[^>]*>([^<]+)<`)

// unitOf returns a unit as it is stored now.
func (h *harness) unitOf(name string) settings.UnitState {
	h.t.Helper()
	list, _, err := h.settings.UnitStates(h.t.Context())
	h.must(err)
	i := slices.IndexFunc(list, func(u settings.UnitState) bool { return u.Name == name })
	return list[i]
}

// values returns the members of a unit with their values, as JSON.
func values(u settings.UnitState) map[string]string {
	out := map[string]string{}
	for _, m := range u.Members {
		out[m.Path] = m.Value
	}
	return out
}

// has reports whether a form has a field of this name.
func (a *answer) has(name string) bool { return strings.Contains(a.form(), ` name="`+name+`"`) }

// without returns the fields of a form but one, as a browser leaves out a box that is not checked.
func without(fields []string, name string) (out []string) {
	for i := 0; i+1 < len(fields); i += 2 {
		if fields[i] != name {
			out = append(out, fields[i], fields[i+1])
		}
	}
	return out
}

// another is a valid value of a field, as it is typed, which differs from the one that it has.
func another(m settings.Member) string {
	kind, args, _ := strings.Cut(m.Check, ",")
	switch kind {
	case "int":
		least, _, _ := strings.Cut(args, ",")
		n, _ := strconv.Atoi(m.Value)
		if low, _ := strconv.Atoi(least); n > low {
			return strconv.Itoa(n - 1)
		}
		return strconv.Itoa(n + 1)
	case "enum":
		for _, word := range strings.Split(args, "|") {
			if word != "" && m.Value != `"`+word+`"` {
				return word
			}
		}
	}
	return map[string]string{
		"origin": "https://other.example", "target": "https://other.example/next", "url": "https://ui.example/app",
		"path": "/enter", "regex": "[a-z.]+",
	}[kind]
}

// TestAddressesAreLines: a list of addresses is a field with a line for each. What stays keeps its id, and a line that
// is no address is refused at the field, with all that was typed.
func TestAddressesAreLines(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	b := h.as("owner@example.com")
	const at, path = "/admin/settings/redirects", "redirects.url_whitelist"
	save := func(text string) (*answer, string) {
		asked := b.get(at + "/edit-unit")
		return b.submit(asked, append(asked.checked(t), path, text)...), values(h.unitOf("redirects"))[path]
	}
	_, two := save("https://one.example/in\r\nhttps://two.example\r\n")
	_, one := save("https://two.example")
	if entry := strings.Trim(one, "[]"); !strings.Contains(entry, "https://two.example") || !strings.HasSuffix(two, ","+entry+"]") {
		t.Errorf("without the first of %s the list is %s", two, one)
	}
	a, left := save("https://two.example\nno address")
	refused := a.Code == http.StatusUnprocessableEntity && strings.Contains(a.form(), `aria-invalid="true"`)
	if !refused || left != one || !strings.Contains(a.form(), "no address</textarea>") {
		t.Errorf("a line that is no address: status %d, the list is %s\n%s", a.Code, left, a.form())
	}
	if _, none := save(""); none != "[]" {
		t.Errorf("an empty field leaves %s", none)
	}
}

// TestEveryUnitIsSaved: the form of each unit is saved as its page shows it, as fields and as JSON. Nothing changes.
func TestEveryUnitIsSaved(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	b := h.as("owner@example.com")
	h.edit(func(u *settings.Units) {
		u.CustomMessages.Default = settings.Translations{"another.title": "Two\nlines"}
	})
	list, _, err := h.settings.UnitStates(t.Context())
	h.must(err)
	events := len(h.allEvents(t.Context()))
	for _, u := range list {
		at := "/admin/settings/" + u.Name
		if asked := b.get(at); strings.Contains(asked.form(), at+"/edit-unit") {
			asked = b.get(at + "/edit-unit")
			if a := b.submit(asked, asked.checked(t)...); a.Code != http.StatusSeeOther {
				t.Errorf("the form of %s, unchanged = %d, want 303\n%s", u.Name, a.Code, a.form())
			}
		}
		asked := b.get(at + "/edit-json")
		if a := b.submit(asked, asked.checked(t)...); a.Code != http.StatusSeeOther {
			t.Errorf("the JSON of %s, unchanged = %d, want 303\n%s", u.Name, a.Code, a.form())
		}
		if now := h.unitOf(u.Name); string(now.JSON) != string(u.JSON) {
			t.Errorf("%s, saved unchanged, is\n%s, want\n%s", u.Name, now.JSON, u.JSON)
		}
	}
	if n := len(h.allEvents(t.Context())); n != events {
		t.Errorf("saving without a change appends %d events, want none", n-events)
	}
}

// chosenID matches the id of an entry of a list, which Gatehouse chooses.
var chosenID = regexp.MustCompile(`"id":"[0-9a-f-]+",`)

// TestEveryMemberIsSaved changes each field of the settings alone, as its form is sent, and reads it back.
func TestEveryMemberIsSaved(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	b := h.as("owner@example.com")
	// What a member needs besides, and the other name of a setting that has two.
	also := map[string][]string{"ui_extension.enable_login_redirect": {"ui_extension.base_url", "https://ui.example"}}
	twins := []string{
		"features.externally_delivered_code_step_up.enabled",
		"features.step_up_authentication_method_externally_delivered_code_enabled",
	}
	list, _, err := h.settings.UnitStates(t.Context())
	h.must(err)
	changed := 0
	for _, u := range list {
		at := "/admin/settings/" + u.Name
		if !strings.Contains(b.get(at).form(), at+"/edit-unit") {
			continue
		}
		for _, m := range h.unitOf(u.Name).Members {
			asked := b.get(at + "/edit-unit")
			if !asked.has(m.Path) || strings.Contains(asked.form(), ` name="`+m.Path+`" value="rows"`) { // rows_test.go
				continue
			}
			changed++
			before := values(h.unitOf(u.Name))
			fields, want := append(asked.checked(t), also[m.Path]...), ""
			switch {
			case m.Switch && before[m.Path] == "true":
				fields, want = without(fields, m.Path), "false"
			case m.Switch:
				fields, want = append(fields, m.Path, "yes"), "true"
			case strings.HasPrefix(before[m.Path], "["):
				fields = append(fields, m.Path, "https://one.example/in\nhttps://two.example")
				want = `[{"url":"https://one.example/in"},{"url":"https://two.example"}]`
			default:
				m.Value = before[m.Path]
				typed := another(m)
				if fields, want = append(fields, m.Path, typed), typed; strings.HasPrefix(m.Value, `"`) {
					raw, err := json.Marshal(typed)
					h.must(err)
					want = string(raw)
				}
			}
			if a := b.submit(asked, fields...); a.Code != http.StatusSeeOther {
				t.Errorf("%s = %s: status %d, want 303\n%s", m.Path, want, a.Code, a.form())
				continue
			}
			for path, value := range values(h.unitOf(u.Name)) {
				switch {
				case path == m.Path && chosenID.ReplaceAllString(value, "") != want:
					t.Errorf("%s = %s after saving, want %s", path, value, want)
				case path != m.Path && value != before[path] && !slices.Contains(also[m.Path], path) &&
					!(slices.Contains(twins, path) && slices.Contains(twins, m.Path)):
					t.Errorf("saving %s has changed %s from %s to %s", m.Path, path, before[path], value)
				}
			}
		}
	}
	if changed < 80 {
		t.Errorf("%d members have a field, want all switches, numbers and words", changed)
	}
}

// TestPartOfAUnit: what is absent from JSON of settings stays, or gets its default where the JSON is the whole unit,
// also in a unit of which the configuration API demands every member.
func TestPartOfAUnit(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	b := h.as("operator@example.com")
	h.edit(func(u *settings.Units) { u.PasswordPolicy.MinLength, u.PasswordPolicy.LowerCaseCharRequired = 20, true })
	const file = `{"password_policy":{"max_length":200}}`
	seen := b.submit(b.get("/admin/settings/import-settings"), "json", file)
	if a := b.submit(seen, "json", file, "confirm", "yes"); a.Code != http.StatusSeeOther {
		t.Errorf("an import of a part = %d\n%s", a.Code, a.form())
	}
	if got, want := h.units().PasswordPolicy,
		(settings.PasswordPolicy{MinLength: 20, MaxLength: 200, LowerCaseCharRequired: true}); got != want {
		t.Errorf("after an import of %s the policy is %+v, want %+v", file, got, want)
	}
	if a := b.acts("/admin/settings/password_policy/edit-json", "json", `{"min_length":12}`); a.Code != http.StatusOK {
		t.Errorf("a unit with one member as JSON = %d\n%s", a.Code, a.form())
	}
	if got, want := h.units().PasswordPolicy, (settings.PasswordPolicy{MinLength: 12, MaxLength: 256}); got != want {
		t.Errorf("after JSON with min_length alone the policy is %+v, want %+v", got, want)
	}
}

// TestColumnsHaveTheirNames: no table of the console has two columns of one name.
func TestColumnsHaveTheirNames(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.failing("451 try again later")
	b := h.as("owner@example.com")
	looked := 0
	for _, s := range h.console.screens {
		for _, object := range h.objects(s.Path, "owner") {
			for i, table := range strings.Split(b.get(at(s.Path, object)).form(), "<table")[1:] {
				table, _, _ = strings.Cut(table, "</thead>")
				names := map[string]bool{}
				for _, m := range columnName.FindAllStringSubmatch(table, -1) {
					if looked++; names[m[1]] {
						t.Errorf("table %d of %s has two columns named %s", i+1, at(s.Path, object), m[1])
					}
					names[m[1]] = true
				}
			}
		}
	}
	if looked < 100 {
		t.Errorf("the console has %d columns, want those of all tables", looked)
	}
}

// TestProblemsAreAtTheirFields: what is wrong with an entry is said next to it, and everything typed is still there.
func TestProblemsAreAtTheirFields(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	b := h.as("owner@example.com")
	client := []string{
		"template", "web", "client_id", "blog", "name", "The blog", "redirect_uris",
		"https://blog.example/cb", "scopes", "openid",
	}
	policy := []string{"policy", "office", "rules", `{"allow":[{"need":{"groups":["staff"]}}]}`}
	for name, c := range map[string]struct {
		path    string
		fields  []string
		field   string
		typed   string
		problem string
	}{
		"redirect URI": {
			"/admin/applications/add", append(client, "redirect_uris", "nonsense"), "redirect_uris",
			"nonsense", "must be absolute",
		},
		"name of a policy": {"/admin/policies/add-policy", append(policy, "policy", "bad name"), "policy", "bad name", "Use only letters"},
		"rules": {
			"/admin/policies/add-policy", append(policy, "policy", "bad name", "rules", `{"allow":[{"nothing":1}]}`),
			"rules", "nothing", "nothing",
		},
		"hour": {
			"/admin/storage/backup-schedule",
			[]string{"every", "daily", "weekday", "0", "hour", "25", "keep", "7"},
			"hour", "25", "from 0 to 23",
		},
	} {
		a := b.submit(b.get(c.path), c.fields...)
		if a.Code != http.StatusUnprocessableEntity || !strings.Contains(a.form(), `id="`+c.field+`-problem"`) ||
			!strings.Contains(a.form(), c.problem) || !strings.Contains(a.form(), c.typed) {
			t.Errorf("%s: POST %s = %d, want a problem at %s that says %q, and %q again\n%s", name, c.path, a.Code, c.field,
				c.problem, c.typed, a.form())
		}
	}
	for name, c := range map[string]struct{ query, field string }{
		"IP address": {"url=https%3A%2F%2Fwiki.example.com%2F&address=999.1", "address"},
		"time":       {"url=https%3A%2F%2Fwiki.example.com%2F&at=sometime", "at"},
	} {
		if a := b.get("/admin/sites/explain?" + c.query); !strings.Contains(a.form(), `id="`+c.field+`-problem"`) {
			t.Errorf("%s: GET explain?%s has no problem at %s\n%s", name, c.query, c.field, a.form())
		}
	}
}

// TestPreviewsSpeakTheLanguageOfTheConsole: until another one is chosen, texts and previews are in the language that
// the administrator reads.
func TestPreviewsSpeakTheLanguageOfTheConsole(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	b := h.as("owner@example.com")
	b.get("/language?to=de&back=%2Fadmin")
	if a := b.get("/admin/messages/previews"); !strings.Contains(a.form(), `value="de" selected`) {
		t.Errorf("previews are not in German:\n%s", a.form())
	}
	if a := b.get("/admin/messages/previews?locale=fr"); !strings.Contains(a.form(), `value="fr" selected`) {
		t.Errorf("previews are not in the language that was chosen:\n%s", a.form())
	}
}
