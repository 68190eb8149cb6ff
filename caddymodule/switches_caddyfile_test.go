package caddymodule_test

import (
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gatehouse-id/gatehouse/caddymodule/servertest"
)

// TestSwitchesInTheCaddyfile: sign-up and password reset need no wire names and no file, and a reload is enough.
func TestSwitchesInTheCaddyfile(t *testing.T) {
	s := servertest.Configured(t, "")
	address, _ := servertest.Mailbox(t)
	plain := s.Extra
	const signUp, forgot = `href="/sign-up`, `href="/forgot`
	offers := func(link string, want bool) {
		t.Helper()
		if page := s.SignInPage(); strings.Contains(page, link) != want {
			t.Errorf("the sign-in page has %s: %t, want %t\n%s", link, !want, want, page)
		}
	}
	s.MustLoad()
	offers(signUp, false)
	offers(forgot, false)
	s.Extra += "mail smtp " + address + " {\n\tfrom Gatehouse <no-reply@example.com>\n}\n"
	s.MustLoad()
	offers(signUp, false)
	offers(forgot, true)
	t.Setenv("GATEHOUSE_SIGN_UP", "on")
	s.InIdentity = "sign_up {env.GATEHOUSE_SIGN_UP}\n\tpassword_reset off\n"
	s.MustLoad()
	offers(signUp, true)
	offers(forgot, false)
	if body := s.MustCall("GET", "/api/v2/config/features", nil, http.StatusOK); !strings.Contains(body, `"sign_up_enabled":true`) ||
		!strings.Contains(body, `"password_reset_enabled":false`) {
		t.Errorf("features = %s", body)
	}
	s.Extra = plain
	s.MustLoad()
	s.WantFinding("warning Caddyfile:", "features.sign_up_enabled")

	t.Setenv("GATEHOUSE_SIGN_UP", "yes")
	if err := s.Load(); err == nil ||
		!strings.Contains(err.Error(), `identity: sign_up: "yes" is not known, want one of: on, off, at Caddyfile:`) {
		t.Errorf("load = %v", err)
	}
}

// TestCheckReportsLockedOutPersons: where everyone needs a second factor, and no one can set one up, a warning says it.
func TestCheckReportsLockedOutPersons(t *testing.T) {
	s := servertest.NewServer(t)
	s.InIdentity = "second_factor always"
	s.MustLoad()
	s.WantFinding("warning Caddyfile:", "people without a second factor cannot sign in", "set_up_on_demand on")
	s.InIdentity += "\n\tset_up_on_demand on"
	s.MustLoad()
	if all, _ := s.Findings(); strings.Contains(all, "cannot sign in") {
		t.Errorf("with set_up_on_demand on, check says: %s", all)
	}
}

// TestCheckReportsOverruledSwitch: an operator who writes sign_up on and sees no sign-up is told why.
func TestCheckReportsOverruledSwitch(t *testing.T) {
	s := servertest.NewServer(t)
	s.MustLoad()
	off := filepath.Join(s.Dir, "off.json")
	servertest.WriteFile(t, off, `{"features":{"sign_up_enabled":false}}`, 0o600)
	s.Run("", "config", "import", off)
	s.InIdentity = "sign_up on\n\tsms on"
	s.MustLoad()
	s.WantFinding("warning Caddyfile:", "identity: sign_up: the settings have features.sign_up_enabled off, which takes precedence", "config import")
	s.WantFinding("warning Caddyfile:", "features.sms_enabled is on, and there is nothing to send text messages by")
	s.InIdentity = "sign_up off"
	s.MustLoad()
	if all, _ := s.Findings(); all != "" {
		t.Errorf("the same in both, and still found:\n%s", all)
	}
}

// TestSwitchesInJSON: a misspelled switch of a configuration in JSON is refused with the one that was meant.
func TestSwitchesInJSON(t *testing.T) {
	for switches, want := range map[string]string{
		`{"signup":"on"}`:         `unknown switch "signup", did you mean "sign_up"?`,
		`{"recovery_codes":"on"}`: "recovery codes come with authenticator",
		`{"pin":""}`:              "pin: want on or off",
		`{"pin":"true"}`:          `"true" is not known`,
	} {
		raw := `{"apps":{"gatehouse":{"issuer":"http://localhost:1","identity":{"switches":` + switches + `}},` + anySite + `}}`
		if err := servertest.Validate(t, []byte(raw)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("validate %s = %v, want %q", switches, err, want)
		}
	}
}
