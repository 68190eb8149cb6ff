package console

import (
	"encoding/json"
	"net/http"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/gatehouse-id/gatehouse/admin/console/layout"
	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/identity/settings/effect"
	settingswire "github.com/gatehouse-id/gatehouse/identity/settings/wire"
)

// labels checks that a member has a label and a sentence, and that each of its words has a label.
func labels(t *testing.T, known map[string]string, path, check string) {
	t.Helper()
	for _, key := range []string{layout.MemberLabel(path), layout.MemberHint(path)} {
		if known[key] == "" {
			t.Errorf("%s is not explained: there is no message %s", path, key)
		}
	}
	_, words, found := strings.Cut(","+check, ",enum,")
	if !found {
		return
	}
	for word := range strings.SplitSeq(words, "|") {
		if key := layout.WordLabel(word); known[key] == "" {
			t.Errorf("the word %q of %s has no label: there is no message %s", word, path, key)
		}
	}
}

// messagesOf returns the messages of a language about the members of the settings.
func messagesOf(t *testing.T, language string) map[string]string {
	t.Helper()
	known := map[string]string{}
	for _, topic := range []string{"members", "hints"} {
		raw, err := os.ReadFile("../../internal/web/messages/" + language + "/console-" + topic + ".json")
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(raw, &known); err != nil { // it adds to those that are there
			t.Fatal(err)
		}
	}
	return known
}

// TestMembersHaveLabels: every member of every unit, and every member of a login method that a form has, is called by
// words for people and explained in a sentence, in each language.
func TestMembersHaveLabels(t *testing.T) {
	t.Parallel()
	for _, language := range []string{"en", "nl", "de", "fr"} {
		t.Run(language, func(t *testing.T) {
			t.Parallel()
			checkLabels(t, messagesOf(t, language))
		})
	}
}

func checkLabels(t *testing.T, known map[string]string) {
	t.Helper()
	h := newHarness(t)
	units, _, err := h.settings.UnitStates(t.Context())
	h.must(err)
	members := 0
	for _, u := range units {
		for _, m := range u.Members {
			labels(t, known, m.Path, m.Check)
			members++
		}
	}
	var walk func(rt reflect.Type, path string)
	walk = func(rt reflect.Type, path string) {
		for f := range settingswire.Fields(rt) {
			at, ft := path+f.Name, f.Type
			if ft.Kind() == reflect.Pointer {
				ft = ft.Elem()
			}
			inside := map[reflect.Kind]string{reflect.Slice: "[]", reflect.Map: "{}"}[ft.Kind()]
			e, _ := effect.Of(at)
			if ft.Kind() != reflect.Struct && (e.Does != "" || inside != "") &&
				!slices.Contains([]string{"id", "enabled", "removable"}, f.Name) && at != "login_methods.login_methods[].type" {
				labels(t, known, at, f.Check)
				members++
			}
			switch {
			case ft.Kind() == reflect.Struct:
				walk(ft, at+".")
			case inside != "" && ft.Elem().Kind() == reflect.Struct:
				if inside == "{}" {
					labels(t, known, at+"{}.key", "")
				}
				walk(ft.Elem(), at+inside+".")
			}
		}
	}
	walk(reflect.TypeFor[settings.LoginMethod](), "login_methods.login_methods[].")
	walk(reflect.TypeFor[settings.Organisation](), "organisations[].")
	walk(reflect.TypeFor[settings.Profile](), "profile.")
	if members < 240 {
		t.Errorf("%d members were looked at, want at least 240", members)
	}
}

// TestSettingsExplainThemselvesInDutch: the form and the table of a unit, and the form of a provider, explain each
// member in the language of the reader, next to its name in the API. No sentence of the English reference is there.
func TestSettingsExplainThemselvesInDutch(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.edit(func(u *settings.Units) {
		u.LoginMethods.LoginMethods = append(u.LoginMethods.LoginMethods, settings.LoginMethod{
			ID: "office", Name: "Office", Type: settings.TypeOIDC, Removable: true,
			OIDC: &settings.OIDCAttributes{Issuer: "https://office.example", ClientID: "gatehouse"},
		})
	})
	b := h.as("owner@example.com")
	if a := b.get("/language?to=nl&back=/account"); a.Code != http.StatusOK {
		t.Fatalf("GET %s = %d", a.url, a.Code)
	}
	for path, want := range map[string]string{
		"/admin/settings/step_up": "<code>authentication_methods.pin_authentication_level</code> Het niveau van een aanmelding met een pincode.",
		"/admin/settings/step_up/edit-unit": "<code>authentication_methods.push_authentication_level</code> " +
			"Het niveau van een aanmelding met goedkeuring op een telefoon. Vereist <code>push</code> in de Caddyfile.",
		"/admin/providers/office/edit-provider": "<code>synchronise_attributes</code> " +
			"Wat de provider over iemand meldt, vervangt wat hier is opgeslagen.",
	} {
		page := b.get(path).form()
		if !strings.Contains(page, want) {
			t.Errorf("%s has no %q:\n%s", path, want, page)
		}
		for _, e := range effect.All {
			if len(e.Does) > 30 && strings.Contains(page, e.Does) {
				t.Errorf("%s has the English sentence %q", path, e.Does)
			}
		}
	}
}

// TestSettingsSpeakToPeople: forms and tables call units, members and values by words, not by their names on the wire.
func TestSettingsSpeakToPeople(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	b := h.as("owner@example.com")
	h.edit(func(u *settings.Units) { u.StepUp.SecondFactor = "WHEN_SET_UP" })
	for name, c := range map[string]struct {
		path       string
		want, miss []string
	}{
		"list": {"/admin/settings", []string{">Sign-in methods<"}, []string{`class="row" href="/admin/settings/login_methods">login_methods`}},
		"unit": {
			"/admin/settings/step_up",
			[]string{"<h1>Step-up</h1>", "When a second factor is needed", "For people who have set one up"},
			[]string{"<h1>step_up</h1>", "<code>WHEN_SET_UP</code>"},
		},
		"form": {
			"/admin/settings/step_up/edit-unit",
			[]string{">Level of a PIN</label>", ">For people who have set one up</option>"},
			[]string{">WHEN_SET_UP</option>", ">authentication_methods.pin_authentication_level</label>"},
		},
		"phone": {"/admin/settings/login_methods/edit-unit", []string{`value="" selected>Not set</option>`}, []string{">BROWSER</option>"}},
	} {
		a := b.get(c.path)
		for _, want := range c.want {
			if !strings.Contains(a.form(), want) {
				t.Errorf("%s (%s) has no %q\n%s", name, c.path, want, a.form())
			}
		}
		for _, miss := range c.miss {
			if strings.Contains(a.form(), miss) {
				t.Errorf("%s (%s) has %q\n%s", name, c.path, miss, a.form())
			}
		}
	}
}

// TestChangesAreSingleMembers: the last change of a list is shown as the members that differ, with both values, however
// long the list is.
func TestChangesAreSingleMembers(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	method := func(id, name string) settings.LoginMethod {
		return settings.LoginMethod{
			ID: id, Name: name, Type: settings.TypeOIDC, Removable: true, ExcludedUnmappedAttributes: []string{"groups"},
			OIDC: &settings.OIDCAttributes{Issuer: "https://" + id + ".example", ClientID: "gatehouse"},
		}
	}
	h.edit(func(u *settings.Units) {
		u.LoginMethods.LoginMethods = append(u.LoginMethods.LoginMethods, method("one", "First"), method("two", "Second"))
	})
	h.edit(func(u *settings.Units) {
		for i := range u.LoginMethods.LoginMethods {
			if m := &u.LoginMethods.LoginMethods[i]; m.ID == "two" {
				m.Name, m.SynchroniseAttributes, m.ExcludedUnmappedAttributes = "Renamed", true, []string{"groups", "photo"}
			}
		}
	})
	b := h.as("owner@example.com")
	_, last, _ := strings.Cut(b.get("/admin/settings").form(), `id="last"`)
	last, _, _ = strings.Cut(last, "</table>")
	for _, want := range []string{
		"Display name", "[two].name", "<code>Second</code>", "<code>Renamed</code>",
		"Update attributes at each sign-in", "Off", "On", "photo",
	} {
		if !strings.Contains(last, want) {
			t.Errorf("the last change has no %q:\n%s", want, last)
		}
	}
	for _, miss := range []string{"[one]", "https://two.example", "&#34;", "…"} {
		if strings.Contains(last, miss) {
			t.Errorf("the last change has %q:\n%s", miss, last)
		}
	}
	h.edit(func(u *settings.Units) {
		list := &u.LoginMethods.LoginMethods
		*list = slices.DeleteFunc(*list, func(m settings.LoginMethod) bool { return m.ID == "one" })
	})
	undo := b.get("/admin/settings/undo-settings").form()
	for _, want := range []string{"[one].name", "<code>First</code>", "https://one.example"} {
		if !strings.Contains(undo, want) {
			t.Errorf("what an undo brings back has no %q:\n%s", want, undo)
		}
	}
	if strings.Contains(undo, "[one].enabled") || strings.Contains(undo, "[two]") {
		t.Errorf("an undo shows what it does not change:\n%s", undo)
	}
}

// TestWrongSettingsAreExplainedInDutch: what is wrong with a value is said at its field, in the language of the reader.
func TestWrongSettingsAreExplainedInDutch(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	b := h.as("owner@example.com")
	if a := b.get("/language?to=nl&back=/account"); a.Code != http.StatusOK {
		t.Fatalf("GET %s = %d", a.url, a.Code)
	}
	h.edit(func(u *settings.Units) { u.PasswordPolicy.MaxLength = 100 })
	for name, c := range map[string]struct{ unit, field, value, want string }{
		"kind":      {"redirects", "default_origin_url", "nowhere", "Voer een https-adres in zoals de adresbalk"},
		"length":    {"features", "custom_email_validation.after_at_regex", strings.Repeat("a", 600), "Gebruik hooguit 512 tekens."},
		"two":       {"password_policy", "min_length", "200", "De minimale lengte is groter dan de maximale."},
		"condition": {"ui_extension", "base_url", "https://a.example/?b", "Laat alles vanaf ? of # weg."},
	} {
		asked := b.get("/admin/settings/" + c.unit + "/edit-unit")
		field := c.unit + "." + c.field
		a := b.submit(asked, append(asked.checked(t), field, c.value)...)
		_, at, found := strings.Cut(a.form(), `id="`+field+`-problem"`)
		at, _, _ = strings.Cut(at, "\n")
		if a.Code != http.StatusUnprocessableEntity || !found || !strings.Contains(at, c.want) {
			t.Errorf("%s: status = %d, %s says %q, want %q\n%s", name, a.Code, field, at, c.want, a.form())
		}
	}
}
