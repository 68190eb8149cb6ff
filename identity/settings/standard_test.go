package settings_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/internal/alias"
	"github.com/gatehouse-id/gatehouse/internal/audit"
)

const (
	reset  = "/api/v2/config/features"
	emails = "/api/v2/config/notifications/email"
)

// serving lets the world serve another configuration over the same storage, as after a change of the Caddyfile.
func (w *world) serving(cfg settings.Config) {
	w.Helper()
	cfg.Verify = verify
	w.service = w.another(cfg, nil)
	w.handler = api(w.service)
}

func (w *world) imports(raw string) {
	w.Helper()
	if _, err := w.service.Import(settings.WithRights(w.Context(), settings.Owner), []byte(raw), audit.Actor{ID: "command"}); err != nil {
		w.Fatal(err)
	}
}

func (w *world) shows(path string, members ...string) {
	w.Helper()
	body := w.read(path)
	for _, m := range members {
		if !strings.Contains(body, m) {
			w.Errorf("GET %s has no %s: %s", path, m, body)
		}
	}
}

// TestMailSwitchesOn: where e-mails can be sent, people are told of changes and can reset their password. GET says so.
func TestMailSwitchesOn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.shows(reset, `"password_reset_enabled":false`, `"google_authenticator_step_up_authentication_enabled":true`)
	w.shows(emails, `"account_removed":false`)
	w.serving(settings.Config{Mail: true})
	w.shows(reset, `"password_reset_enabled":true`, `"pin_enabled":false`)
	w.shows(emails, `"identity_coupled_to_account":true`, `"password_reset":true`, `"account_removed":true`, `"on_email_updated":true`,
		`"on_password_updated":true`, `"on_phone_number_updated":true`, `"on_all_updated":false`, `"account_invitation":false`,
		`"on_web_enabled":false`)
	if n := len(w.events()); n != 0 {
		t.Errorf("%d events of changes that nobody made", n)
	}
	// A change of another member leaves the switch with the Caddyfile.
	w.must(204, http.MethodPost, reset, `{"pin_enabled":true}`)
	w.serving(settings.Config{})
	w.shows(reset, `"password_reset_enabled":false`, `"pin_enabled":true`)
}

// TestSetSwitchStaysSet: what was set by API, import or bootstrap file holds, whatever the Caddyfile says later, also
// where it was set to the value that it had.
func TestSetSwitchStaysSet(t *testing.T) {
	t.Parallel()
	off := `{"features":{"password_reset_enabled":false,"sign_up_enabled":false}}`
	for name, set := range map[string]func(w *world){
		"unit":     func(w *world) { w.must(204, http.MethodPost, reset, off[len(`{"features":`):len(off)-1]) },
		"units":    func(w *world) { w.must(204, http.MethodPost, "/api/v2/config", off) },
		"import":   func(w *world) { w.imports(off) },
		"read":     func(w *world) { w.must(204, http.MethodPost, reset, w.read(reset)) },
		"file":     func(w *world) { w.serving(settings.Config{Bootstrap: []byte(off)}) },
		"off, on":  func(w *world) { w.imports(strings.ReplaceAll(off, "false", "true")); w.imports(off) },
		"by other": func(w *world) { _ = w.units(w.service); w.another(settings.Config{Bootstrap: []byte(off)}, nil) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			set(w)
			for range 2 { // the second start reads what a later change of another member has stored
				w.serving(settings.Config{Mail: true, Switches: map[string]bool{"features.sign_up_enabled": true, "features.pin_enabled": true}})
				w.shows(reset, `"password_reset_enabled":false`, `"sign_up_enabled":false`)
				if got := w.service.Overruled(w.units(w.service)); name != "read" && (len(got) != 1 || got[0] != "features.sign_up_enabled") {
					t.Errorf("overruled = %q", got)
				}
				w.must(204, http.MethodPost, reset, `{"custom_email_validation":{"enabled":true}}`)
			}
		})
	}
}

// TestCaddyfileSwitch: a switch that no one has set follows the Caddyfile, and the API has the last word.
func TestCaddyfileSwitch(t *testing.T) {
	t.Parallel()
	for _, a := range alias.Words {
		t.Run(a.Name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			export := func(c settings.Config) string {
				w.serving(c)
				return w.read("/api/v2/config") + w.read(emails) + w.read("/api/config?fields=password_policy")
			}
			values := map[bool]map[string]bool{}
			for _, on := range []bool{true, false} {
				values[on] = map[string]bool{}
				for _, path := range a.Paths {
					values[on][path] = on
				}
			}
			delete(values[false], "features.configuration_api_enabled") // it closes the API that is asked here
			on, off, plain := export(settings.Config{Switches: values[true]}), export(settings.Config{Switches: values[false]}),
				export(settings.Config{})
			if a.Name != "configuration_api" && (on == off || plain != on && plain != off) {
				t.Errorf("the switches of %s change nothing", a.Name)
			}
		})
	}
}

// TestSignUpVerifiesAddresses: sign_up in the Caddyfile lets no one take another person's address.
func TestSignUpVerifiesAddresses(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	on := map[string]bool{"features.sign_up_enabled": true}
	w.serving(settings.Config{Mail: true, Switches: on})
	w.shows("/api/v2/attributes", `"email_enabled":true`)
	w.serving(settings.Config{Switches: on})
	w.shows("/api/v2/attributes", `"email_enabled":true`)
	w.serving(settings.Config{Mail: true, Switches: map[string]bool{"features.sign_up_enabled": false}})
	w.shows("/api/v2/attributes", `"email_enabled":false`)
	w.serving(settings.Config{
		Mail:     true,
		Switches: map[string]bool{"features.sign_up_enabled": true, "attributes.verification.email_enabled": false},
	})
	w.shows("/api/v2/attributes", `"email_enabled":false`)
}

// TestTagOfCaddyfileSwitch: after a change of the Caddyfile no one is told that nothing has changed, and no change is
// made on the ground of what held before.
func TestTagOfCaddyfileSwitch(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, path := range []string{reset, "/api/v2/config"} {
		w.serving(settings.Config{})
		before := w.must(200, http.MethodGet, path, "").header.Get("ETag")
		w.serving(settings.Config{Mail: true})
		w.must(200, http.MethodGet, path, "", "If-None-Match", before)
		body := `{"pin_enabled":true}`
		if path != reset {
			body = `{"features":` + body + `}`
		}
		w.must(412, http.MethodPost, path, body, "If-Match", before)
	}
}

// TestResetSwitchFollows: a switch that is given its default follows the Caddyfile again, also where it had that value,
// and under either of its names. Other switches stay set.
func TestResetSwitchFollows(t *testing.T) {
	t.Parallel()
	const sent = `{"features":{"sign_up_enabled":false,"pin_enabled":false,"externally_delivered_code_step_up":{"enabled":true}}}`
	const code = "step_up_authentication_method_externally_delivered_code_enabled"
	for path, want := range map[string]string{
		"features.sign_up_enabled": `"sign_up_enabled":true`,
		"features." + code:         `"externally_delivered_code_step_up":{"enabled":false`,

		"features.externally_delivered_code_step_up.enabled": `"` + code + `":false`,
	} {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.imports(sent)
			tag := ""
			list, _, err := w.service.UnitStates(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for _, u := range list {
				if u.Name == "features" {
					tag = u.Tag
				}
			}
			owner, by := settings.WithRights(t.Context(), settings.Owner), audit.Actor{ID: "command"}
			if _, err := w.service.ResetMember(owner, "features", "older", path, by); err == nil {
				t.Error("a reset of an older unit is not refused")
			}
			if _, err := w.service.ResetMember(owner, "features", tag, path, by); err != nil {
				t.Fatal(err)
			}
			w.serving(settings.Config{Switches: map[string]bool{"features.sign_up_enabled": true, "features.pin_enabled": true}})
			w.shows(reset, `"pin_enabled":false`, want)
		})
	}
}
