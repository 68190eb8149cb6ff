package console

import (
	"encoding/json"
	"html"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/gatehouse-id/gatehouse/admin"
	"github.com/gatehouse-id/gatehouse/admin/console/layout"
	"github.com/gatehouse-id/gatehouse/admin/console/settingspages"
	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/jsonapi"
)

// The rows of the table of rights about the screens of package settings.
func init() {
	everybody := [4]string{"+", "+", "+", "+"}
	maps.Copy(rights, map[string][4]string{
		"/settings":                    everybody,
		"/settings/export-settings":    everybody,
		"/settings/compare-settings":   everybody,
		"/settings/import-settings":    {"-", "-", "+", "+"},
		"/settings/undo-settings":      {"-", "-", "+", "+"},
		"/settings/{id}":               everybody,
		"/settings/{id}/edit-unit":     {"-", "-", "+", "+"},
		"/settings/{id}/edit-json":     {"-", "-", "+", "+"},
		"/settings/{id}/reset-member":  {"-", "-", "+", "+"},
		"/settings/{id}/undo-settings": {"-", "-", "+", "+"},
	})
}

// settingsDeps returns the dependencies of the screens of package settings in this test.
func (h *harness) settingsDeps(m *admin.Service) settingspages.Deps {
	return settingspages.Deps{Config: h.settings, Store: h.store, Names: m.Names, PlaceOf: func(option string) string {
		return map[string]string{"idp declared": "Caddyfile:20", "identity: invitations": "Caddyfile:7"}[option]
	}}
}

// settingsPaths writes a payload into settings, and returns the paths of the screens that show it.
func (h *harness) settingsPaths(payload, q string) (out []string) {
	h.t.Helper()
	text := strings.TrimSpace(payload)
	h.edit(func(u *settings.Units) {
		u.CustomMessages.Default = settings.Translations{"xss": text}
		u.Organisations = []settings.Organisation{{ID: "acme", Name: text}}
	})
	for _, path := range []string{
		"/settings", "/settings?" + q, "/settings/custom_messages", "/settings/custom_messages/edit-json",
		"/settings/organisations", "/settings/organisations/edit-json", "/settings/undo-settings",
	} {
		out = append(out, layout.Root+path)
	}
	return out
}

// edit changes the settings.
func (h *harness) edit(fn func(u *settings.Units)) {
	h.t.Helper()
	_, err := h.settings.Edit(settings.WithRights(h.t.Context(), settings.Owner), audit.Actor{ID: h.personID("two.owner@example.com")},
		func(u *settings.Units) error { fn(u); return nil })
	h.must(err)
}

func (h *harness) units() *settings.Units {
	h.t.Helper()
	u, err := h.settings.Current(h.t.Context())
	h.must(err)
	return u
}

// checked are the fields of a form as its page shows them, so a test changes one.
func (a *answer) checked(t *testing.T) (fields []string) {
	t.Helper()
	inSelect, first := false, false
	for _, part := range strings.Split(a.form(), "<")[1:] {
		tag, text, _ := strings.Cut(part, ">")
		attr := func(name string) string {
			_, after, _ := strings.Cut(tag, " "+name+`="`)
			value, _, _ := strings.Cut(after, `"`)
			return html.UnescapeString(value)
		}
		kind, _, _ := strings.Cut(tag, " ")
		switch named := attr("name") != ""; {
		case kind == "select":
			fields, inSelect, first = append(fields, attr("name"), ""), true, true
		case kind == "option" && inSelect: // the first one, unless another one is selected
			if first || strings.Contains(tag, " selected") {
				fields[len(fields)-1], first = attr("value"), false
			}
		case kind == "/select":
			inSelect = false
		case kind == "textarea":
			fields = append(fields, attr("name"), strings.ReplaceAll(html.UnescapeString(strings.TrimPrefix(text, "\n")), "\n", "\r\n"))
		case kind != "input" || !named || attr("type") == "hidden" || attr("type") == "file":
		case attr("type") != "checkbox" || strings.Contains(tag, " checked"):
			fields = append(fields, attr("name"), attr("value"))
		}
	}
	if !strings.Contains(a.form(), ` name="`) {
		t.Fatalf("%s has no fields:\n%s", a.url, a.form())
	}
	return fields
}

// TestSettingsAreShown: each unit, what is set, and where; what the Caddyfile fixes has its place and no way to change
// it.
func TestSettingsAreShown(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	b := h.as("viewer@example.com")
	list := b.get("/admin/settings").form()
	for _, unit := range []string{
		"attributes", "custom_messages", "features", "login_methods", "organisations", "redirects", "step_up",
		"ui_extension", "email_notifications", "password_policy", "profile", "messages", "policies",
	} {
		if !strings.Contains(list, `href="/admin/settings/`+unit+`"`) {
			t.Errorf("the list has no way to %s:\n%s", unit, list)
		}
		if a := b.get("/admin/settings/" + unit); a.Code != http.StatusOK || !strings.Contains(a.form(), "&#34;"+unit+"&#34;: ") {
			t.Errorf("GET %s = %d, want the unit as JSON\n%s", unit, a.Code, a.form())
		}
	}
	if a := b.get("/admin/settings/nothing"); a.Code != http.StatusNotFound {
		t.Errorf("an unknown unit = %d, want 404", a.Code)
	}
	if a := b.get("/admin/settings/login_methods"); !strings.Contains(a.form(), "Caddyfile:20") {
		t.Errorf("a provider of the Caddyfile has no place:\n%s", a.form())
	}
	if a := b.get("/admin/settings/features"); !strings.Contains(a.form(), "Caddyfile:7") ||
		strings.Contains(a.form(), "Overrides the Caddyfile") {
		t.Errorf("a switch of the Caddyfile has no place:\n%s", a.form())
	}
	h.edit(func(u *settings.Units) { u.Features.AcceptingInvitationEnabled = false })
	if a := b.get("/admin/settings/features"); !strings.Contains(a.form(), "Overrides the Caddyfile") ||
		!strings.Contains(a.form(), "\tinvitations off\n") {
		t.Errorf("a stored switch that the Caddyfile sets otherwise:\n%s", a.form())
	}
}

// TestSwitchesAreFields: a switch, a number and a word are changed in fields of their own, and nothing else is.
func TestSwitchesAreFields(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	b := h.as("owner@example.com") // the lifetime of action tokens is a setting of sign-in
	before := h.units()
	asked := b.get("/admin/settings/features/edit-unit")
	a := b.submit(asked, append(asked.checked(t), "features.sign_up_enabled", "yes", "features.action_token.login.ttl", "120",
		"features.person_activation.type", "EXTERNALLY_DELIVERED_CODE")...)
	if a.Code != http.StatusSeeOther {
		t.Fatalf("POST edit-unit = %d\n%s", a.Code, a.form())
	}
	after := h.units()
	want := before.Features
	want.SignUpEnabled, want.ActionToken.Login.TTL, want.PersonActivation.Type = true, 120, "EXTERNALLY_DELIVERED_CODE"
	got, err := json.Marshal(after.Features)
	h.must(err)
	wanted, err := json.Marshal(want)
	h.must(err)
	if string(got) != string(wanted) {
		t.Errorf("features = %s\nwant %s", got, wanted)
	}
	if a := b.get("/admin/settings/features"); !strings.Contains(a.form(), "sign_up on") {
		t.Errorf("the stored switch is not there as Caddyfile:\n%s", a.form())
	}
	for what, c := range map[string]struct{ name, value, want string }{
		"a word":       {"features.action_token.login.ttl", "soon", "Enter a whole number from 1 to 31536000."},
		"out of range": {"features.action_token.login.authentication_level", "9", "Enter a whole number from 1 to 4."},
		"not one of":   {"features.person_activation.type", "PIGEON", "person_activation.type"},
	} {
		asked := b.get("/admin/settings/features/edit-unit")
		a := b.submit(asked, append(asked.checked(t), "features.person_activation.type", "EMAIL", c.name, c.value)...)
		if a.Code != http.StatusUnprocessableEntity || !strings.Contains(a.form(), c.want) || !strings.Contains(a.form(), c.name+"-problem") {
			t.Errorf("%s = %d, want a problem with %q at its field\n%s", what, a.Code, c.want, a.form())
		}
	}
	if a := b.acts("/admin/settings/step_up/edit-json", "json",
		`{"stategy": "STRONGEST_AVAILABLE", "nothing": 1}`); a.Code != http.StatusUnprocessableEntity || !strings.Contains(a.form(), "nothing") ||
		!strings.Contains(a.form(), "STRONGEST_AVAILABLE") {
		t.Errorf("JSON with an unknown member = %d, want its name, and what was typed\n%s", a.Code, a.form())
	}
	if a := b.acts("/admin/settings/step_up/edit-json", "json", `{"stategy": "STRONGEST_AVAILABLE"}`); a.Code != http.StatusOK ||
		h.units().StepUp.Strategy != "STRONGEST_AVAILABLE" || h.units().StepUp.Actions.DefaultStepUpAuthenticationLevel != 2 {
		t.Errorf("JSON of a unit = %d, %+v", a.Code, h.units().StepUp)
	}
}

// TestDefaultIsOneClick: each stored setting has a button that gives it its default at once, or a page that shows first
// which entries of a list are lost. It can be undone, and who may not change the unit has no way to it.
func TestDefaultIsOneClick(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.edit(func(u *settings.Units) {
		u.Features.AcceptingInvitationEnabled, u.Features.ActionToken.Login.TTL = false, 120
		u.Redirects.URLAfterLogin, u.PasswordPolicy.MinLength = "https://new.example/", 20
		u.Organisations = []settings.Organisation{{ID: "acme", Name: "Acme"}}
	})
	b := h.as("owner@example.com")
	// press sends the button of a member as a browser does: the form that it names, to the address that it has.
	press := func(page *answer, member string) *answer {
		t.Helper()
		at, _, _ := strings.Cut(page.url, "?")
		to := at + "/reset-member?member=" + member
		_, form, _ := strings.Cut(page.form(), `id="buttons"`)
		form, _, _ = strings.Cut(form, "</form>")
		if !strings.Contains(page.form(), `form="buttons" formaction="`+to+`"`) {
			t.Fatalf("%s has no button for %s:\n%s", at, member, page.form())
		}
		sent := url.Values{}
		for _, m := range hidden.FindAllStringSubmatch(form, -1) {
			sent.Set(m[1], strings.ReplaceAll(m[2], "&#43;", "+"))
		}
		return b.do(http.MethodPost, to, sent.Encode())
	}
	least := func() int { return h.units().PasswordPolicy.MinLength }
	opened := b.get("/admin/settings/password_policy")
	done := b.get(press(opened, "password_policy.min_length").Header().Get("Location"))
	if least() != 8 || strings.Contains(done.form(), `id="set"`) || !strings.Contains(done.form(), "The default applies again") {
		t.Errorf("a number has the value %d afterwards, want its default\n%s", least(), done.form())
	}
	if b.undoes(done); least() != 20 {
		t.Errorf("undone, the number is %d", least())
	}
	h.edit(func(u *settings.Units) { u.PasswordPolicy.MaxLength = 200 })
	if a := press(opened, "password_policy.min_length"); a.Code != http.StatusUnprocessableEntity || least() != 20 {
		t.Errorf("a button of an older page = %d, and the number is %d", a.Code, least())
	}

	page := "/admin/settings/features"
	on := func() bool { return h.units().Features.AcceptingInvitationEnabled }
	done = b.get(press(b.get(page), "features.accepting_invitation_enabled").Header().Get("Location"))
	if !on() || strings.Contains(done.form(), "Overrides the Caddyfile") || !strings.Contains(done.form(), "Caddyfile:7") {
		t.Errorf("a switch is %t, and does not follow the Caddyfile again\n%s", on(), done.form())
	}
	if b.undoes(done); on() {
		t.Error("undone, the switch follows the Caddyfile")
	}
	h.edit(func(u *settings.Units) { u.Features.AcceptingInvitationEnabled = true })
	if a := b.get(page); !strings.Contains(a.form(), "member=features.accepting_invitation_enabled") {
		t.Errorf("a switch that is stored with its default has no button\n%s", a.form())
	}
	events := len(h.allEvents(t.Context()))
	done = b.get(press(b.get(page), "features.accepting_invitation_enabled").Header().Get("Location"))
	if strings.Contains(done.form(), "member=features.accepting_invitation_enabled") || strings.Contains(done.form(), undoButton) ||
		len(h.allEvents(t.Context())) != events {
		t.Errorf("a switch that had its default is still stored, or the change of nothing has an event or a way back\n%s", done.form())
	}

	asked := b.get("/admin/settings/organisations/reset-member?member=organisations")
	if !strings.Contains(b.get("/admin/settings/organisations").form(), `href="`+asked.url+`"`) || !strings.Contains(asked.form(), "Acme") {
		t.Errorf("a list is not shown first\n%s", asked.form())
	}
	if a := b.submit(asked); a.Code != http.StatusSeeOther || len(h.units().Organisations) != 0 {
		t.Errorf("a list = %d, has %d entries", a.Code, len(h.units().Organisations))
	}
	for _, member := range []string{"", "password_policy.max_length", "features.login_enabled", "nothing"} {
		if a := b.acts(page + "/reset-member?member=" + member); a.Code != http.StatusUnprocessableEntity {
			t.Errorf("what is not stored in the unit, %q = %d", member, a.Code)
		}
	}

	for _, who := range []string{"viewer", "helpdesk", "operator"} {
		other := h.as(who + "@example.com")
		if shown := strings.Contains(other.get("/admin/settings/redirects").form(), "reset-member"); shown != (who == "operator") {
			t.Errorf("%s is shown the button: %t", who, shown)
		}
	}
	if a := h.as("operator@example.com").get("/admin/settings/login_methods/reset-member"); a.Code != http.StatusForbidden {
		t.Errorf("an operator resets settings of sign-in: %d", a.Code)
	}
}

// TestSettingsMeanwhile: what someone else has changed since the page was opened is not overwritten unseen, and what
// was typed stays.
func TestSettingsMeanwhile(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	b := h.as("operator@example.com")
	t.Run("attack 791: a form of an older version overwrites nothing", func(t *testing.T) {
		fields, text := b.get("/admin/settings/redirects/edit-unit"), b.get("/admin/settings/redirects/edit-json")
		h.edit(func(u *settings.Units) { u.Redirects.URLAfterLogin = "https://theirs.example/" })
		a := b.submit(fields, append(fields.checked(t), "redirects.url_after_login", "https://mine.example/")...)
		for name, a := range map[string]*answer{"fields": a, "JSON": b.submit(text, "json", `{"url_after_login": "https://mine.example/"}`)} {
			if a.Code != http.StatusUnprocessableEntity || !strings.Contains(a.form(), "have changed since") ||
				!strings.Contains(a.form(), "https://mine.example/") || !strings.Contains(a.form(), "https://theirs.example/") {
				t.Errorf("%s of an older version = %d, want both values\n%s", name, a.Code, a.form())
			}
		}
		if got := h.units().Redirects.URLAfterLogin; got != "https://theirs.example/" {
			t.Errorf("the form has written %s", got)
		}
		if a := b.submit(a, append(a.checked(t), "redirects.url_after_login", "https://mine.example/")...); a.Code != http.StatusSeeOther ||
			h.units().Redirects.URLAfterLogin != "https://mine.example/" {
			t.Errorf("saved after a look = %d\n%s", a.Code, a.form())
		}
		seen := b.submit(b.get("/admin/settings/import-settings"), "json", `{"redirects":{"url_after_login":"https://file.example/"}}`)
		h.edit(func(u *settings.Units) { u.Redirects.URLAfterLogout = "https://theirs.example/" })
		if a := b.submit(seen, "json", `{"redirects":{"url_after_login":"https://file.example/"}}`, "confirm",
			"yes"); a.Code != http.StatusUnprocessableEntity || h.units().Redirects.URLAfterLogin != "https://mine.example/" {
			t.Errorf("an import that was compared with older settings = %d\n%s", a.Code, a.form())
		}
		undo := b.get("/admin/settings/undo-settings")
		h.edit(func(u *settings.Units) { u.Redirects.URLAfterSignUp = "https://newer.example/" })
		if a := b.submit(undo); a.Code != http.StatusUnprocessableEntity || h.units().Redirects.URLAfterSignUp == "" {
			t.Errorf("a change that nobody was shown is undone: %d\n%s", a.Code, a.form())
		}
	})
}

// TestUndoOfSettings: the last change is undone, with the switches that it has set.
func TestUndoOfSettings(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	b := h.as("operator@example.com")
	if a := b.get("/admin/settings"); strings.Contains(a.form(), "undo-settings") {
		t.Errorf("there is something to undo before anything has changed:\n%s", a.form())
	}
	h.edit(func(u *settings.Units) {
		u.Features.AcceptingInvitationEnabled, u.Redirects.URLAfterLogin = false, "https://new.example/"
	})
	asked := b.get("/admin/settings/undo-settings")
	for _, want := range []string{
		"features.accepting_invitation_enabled", "redirects.url_after_login", "https://new.example/",
		"two.owner@example.com",
	} {
		if !strings.Contains(asked.form(), want) {
			t.Errorf("the page does not say %s:\n%s", want, asked.form())
		}
	}
	a := b.submit(asked)
	if u := h.units(); a.Code != http.StatusSeeOther || !u.Features.AcceptingInvitationEnabled || u.Redirects.URLAfterLogin != "" {
		t.Fatalf("undone = %d: %+v\n%s", a.Code, u.Redirects, a.form())
	}
	if a := b.get("/admin/settings/features"); strings.Contains(a.form(), "Overrides the Caddyfile") ||
		!strings.Contains(a.form(), "Caddyfile:7") {
		t.Errorf("the switch does not follow the Caddyfile again:\n%s", a.form())
	}
	if a := b.acts("/admin/settings/undo-settings"); a.Code != http.StatusOK || h.units().Redirects.URLAfterLogin != "https://new.example/" {
		t.Errorf("what was undone is not done again: %d\n%s", a.Code, a.form())
	}
}

// TestSettingsFile: an export has no secret; a file is compared by everybody, and imported after its changes were seen.
func TestSettingsFile(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	viewer, b := h.as("viewer@example.com"), h.as("operator@example.com")
	file := `{"redirects":{"url_after_login":"https://file.example/"}}`
	if a := viewer.submit(viewer.get("/admin/settings/compare-settings"), "json", file); a.Code != http.StatusOK ||
		!strings.Contains(a.form(), "redirects.url_after_login") {
		t.Errorf("compared = %d\n%s", a.Code, a.form())
	}
	asked := b.get("/admin/settings/import-settings")
	for what, text := range map[string]string{
		"no JSON": "{", "an unknown unit": `{"nothing":{}}`,
		"a wrong value": `{"password_policy":{"min_length":"x"}}`, "no change": `{}`,
	} {
		if a := b.submit(asked, "json", text); a.Code != http.StatusUnprocessableEntity || !strings.Contains(a.form(), `id="json-problem"`) {
			t.Errorf("%s = %d\n%s", what, a.Code, a.form())
		}
	}
	seen := b.submit(asked, "json", file)
	if seen.Code != http.StatusOK || !strings.Contains(seen.form(), "redirects.url_after_login") || h.units().Redirects.URLAfterLogin != "" {
		t.Fatalf("the changes are not shown first: %d\n%s", seen.Code, seen.form())
	}
	other := strings.Replace(file, "file", "unseen", 1)
	if a := b.submit(seen, "json", other, "confirm", "yes"); a.Code != http.StatusOK || h.units().Redirects.URLAfterLogin != "" {
		t.Errorf("what was not shown is imported: %d", a.Code)
	}
	if a := b.submit(seen, "json", file, "confirm", "yes"); a.Code != http.StatusSeeOther ||
		h.units().Redirects.URLAfterLogin != "https://file.example/" {
		t.Errorf("imported = %d\n%s", a.Code, a.form())
	}
	a := viewer.submit(viewer.get("/admin/settings/export-settings"))
	if a.Code != http.StatusOK || !strings.Contains(a.Header().Get("Content-Disposition"), "gatehouse-settings.json") {
		t.Errorf("exported = %d %s", a.Code, a.Header().Get("Content-Disposition"))
	}
	if list, err := h.settings.Diff(t.Context(), a.Body.Bytes()); err != nil || len(list) > 0 {
		t.Errorf("the export differs from the settings: %v %v", list, err)
	}
}

// TestSettingsHaveNoSecrets looks for planted secrets in all pages about settings, in the export, in what is shown
// again after a mistake, and in what undoes a change.
func TestSettingsHaveNoSecrets(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	t.Run("attack 792: planted secrets are in no page and no export", func(t *testing.T) {
		method := func(id, secret string) settings.LoginMethod {
			return settings.LoginMethod{
				ID: id, Name: id, Type: settings.TypeOIDC, Removable: true,
				OIDC: &settings.OIDCAttributes{
					Issuer: "https://login.corp.example", ClientID: "gatehouse", ClientSecret: jsonapi.Secret(secret),
					ClientAuthenticationMethod: "CLIENT_SECRET_BASIC",
				},
			}
		}
		h.edit(func(u *settings.Units) {
			u.LoginMethods.LoginMethods = append(u.LoginMethods.LoginMethods, method("one", "planted-old"),
				settings.LoginMethod{
					ID: "ldap", Name: "ldap", Type: settings.TypeLDAP, Removable: true,
					LDAP: &settings.LDAPAttributes{ServerURLs: "ldaps://ldap.example", Password: "planted-ldap"},
				},
				settings.LoginMethod{
					ID: "google", Name: "google", Type: settings.TypeGoogle, Removable: true,
					Google: &settings.SocialAttributes{ClientID: "x", ClientSecret: "planted-google"},
				})
		})
		h.edit(func(u *settings.Units) { u.LoginMethods.LoginMethods[1].OIDC.ClientSecret = "planted-new" })
		_, err := h.settings.KeyPairs().Get(t.Context(), "")
		h.must(err)
		b := h.as("owner@example.com")
		var pages []*answer
		for _, s := range h.console.screens {
			if !strings.HasPrefix(s.Path, "/settings") {
				continue
			}
			for _, unit := range []string{"login_methods", "features"} {
				pages = append(pages, b.get(at(s.Path, unit)))
				for _, act := range s.Acts {
					pages = append(pages, b.get(at(s.Path+"/"+act.Name, unit)))
				}
			}
		}
		wrong := `{"login_methods": [{"id": "one", "type": "OPEN_ID_CONNECT", "open_id_connect_attributes": {"client_secret": "planted-typed", "nothing": 1}}`
		pages = append(pages,
			b.submit(b.get("/admin/settings/export-settings")),
			b.acts("/admin/settings/login_methods/edit-json", "json", wrong),
			b.acts("/admin/settings/login_methods/edit-json", "json", wrong+"]}"),
			b.acts("/admin/settings/compare-settings", "json", `{"login_methods":`+wrong+"]}}"),
			b.acts("/admin/settings/import-settings", "json", `{"key_pairs":[{"private_key":"planted-key"}]}`),
			b.acts("/admin/settings/import-settings", "json", `{"custom_messages":{"default":{"x":"-----BEGIN PRIVATE KEY-----planted"}}}`),
		)
		for _, a := range pages {
			if strings.Contains(a.Body.String(), "planted") || strings.Contains(a.Body.String(), "PRIVATE KEY") {
				t.Errorf("%s has a secret: %d\n%s", a.url, a.Code, a.Body)
			}
		}
		if a := b.acts("/admin/settings/undo-settings"); a.Code != http.StatusOK || strings.Contains(a.Body.String(), "planted") {
			t.Errorf("undone = %d\n%s", a.Code, a.form())
		}
		for _, m := range h.units().LoginMethods.LoginMethods {
			if m.ID == "one" && m.OIDC.ClientSecret.Reveal() != "planted-old" || m.ID == "ldap" && m.LDAP.Password.Reveal() != "planted-ldap" {
				t.Errorf("after the undo %s has another secret", m.ID)
			}
		}
	})
}

// TestEverySettingsActHasItsEvent: what is set in the console is recorded with who did it.
func TestEverySettingsActHasItsEvent(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	owner, ownerID := h.as("owner@example.com"), h.personID("owner@example.com")
	changed := "configuration.ConfigurationUpdatedEvent"
	h.actHasEvent(owner, ownerID, "/admin/settings/redirects/edit-unit", changed, "redirects.url_after_login", "https://one.example/")
	h.actHasEvent(owner, ownerID, "/admin/settings/redirects/edit-json", changed, "json", `{"url_after_login":"https://two.example/"}`)
	h.actHasEvent(owner, ownerID, "/admin/settings/undo-settings", changed)
	h.actHasEvent(owner, ownerID, "/admin/settings/redirects/reset-member?member=redirects.url_after_login", changed)
	h.actHasEvent(owner, ownerID, "/admin/settings/compare-settings", "-", "json", `{}`)
	file := url.Values{"json": {`{"redirects":{"url_after_login":"https://three.example/"}}`}}.Get("json")
	seen := owner.submit(owner.get("/admin/settings/import-settings"), "json", file)
	before := len(h.allEvents(t.Context()))
	if a := owner.submit(seen, "json", file, "confirm", "yes"); a.Code != http.StatusSeeOther {
		t.Fatalf("import = %d\n%s", a.Code, a.form())
	}
	if list := h.allEvents(t.Context())[before:]; len(list) != 1 || list[0].Type != changed || list[0].Actor != ownerID {
		t.Errorf("an import has the events %+v", list)
	}
}
