package console

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/gatehouse-id/gatehouse/identity/notify"
	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/internal/audit"
)

// TestOwnersAreToldOnce: each owner gets one message about a change of what decides who a person is, however much it
// changes, and none about anything else, or about a change that was refused.
func TestOwnersAreToldOnce(t *testing.T) {
	t.Parallel()
	const method = `{"login_methods":{"login_methods":[{"id":"mine","name":"Mine","type":"SAML","enabled":true,"removable":true,"saml_attributes":{"idp_metadata":"https://mine.example/metadata"}}]}`
	for name, tt := range map[string]struct {
		body   string
		rights settings.Rights
		told   bool
	}{
		"a login method":     {method + `}`, settings.Owner, true},
		"the second step":    {`{"step_up":{"second_factor":"ALWAYS"}}`, settings.Owner, true},
		"a level of step-up": {`{"step_up":{"authentication_methods":{"pin_authentication_level":4}}}`, settings.SignIn, true},
		"linking by address": {`{"features":{"automated_external_identity_coupling_enabled":true}}`, settings.SignIn, true},
		"all of these": {method +
			`,"step_up":{"second_factor":"ALWAYS"},"features":{"automated_external_identity_coupling_enabled":true}}`, settings.Owner, true},
		"the second step of one":   {`{"organisations":[{"id":"acme","name":"Acme","service_providers":{"one":{"name":"One","second_factor":"ON_DEMAND"}}}]}`, settings.SignIn, true},
		"something else":           {`{"features":{"sign_up_enabled":true}}`, settings.Owner, false},
		"a change that is refused": {`{"step_up":{"second_factor":"ALWAYS"}}`, settings.Ordinary, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHarness(t)
			h.console.Mail = h.notices
			h.settings.OnSignInChange(h.console.TellOwners)
			told := func(rights settings.Rights) string {
				h.notices.Take()
				_, err := h.settings.Import(settings.WithRights(context.WithoutCancel(t.Context()), rights), []byte(tt.body),
					audit.Actor{ID: "someone"})
				if (err == nil) != (rights != settings.Ordinary) {
					t.Fatalf("Import = %v", err)
				}
				var to []string
				for _, n := range h.notices.Take() {
					if n.Kind == notify.SignInSettings {
						to = append(to, n.To)
					}
				}
				slices.Sort(to)
				return strings.Join(to, " ")
			}
			want := ""
			if tt.told {
				want = "owner@example.com two.owner@example.com"
			}
			if got := told(tt.rights); got != want {
				t.Errorf("messages went to %q, want %q", got, want)
			}
			if got := told(tt.rights); got != "" {
				t.Errorf("messages about what is so already went to %q, want none", got)
			}
		})
	}
}
