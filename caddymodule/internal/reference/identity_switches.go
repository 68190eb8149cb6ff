package reference

import (
	"fmt"
	"strings"

	"github.com/gatehouse-id/gatehouse/internal/alias"
)

func init() {
	for _, w := range alias.Words {
		Identity.Options = append(Identity.Options, Option{
			Word: w.Name, Arguments: "on|off", Default: w.Default, Example: w.Name + " " + w.Example(),
			Text: w.Text + " In the [settings](configuration/in-the-caddyfile.md): `" + strings.Join(w.Paths, "`, `") + "`.",
		})
		if len(w.Paths) > 1 {
			continue
		}
		unit, member, _ := strings.Cut(w.Paths[0], ".")
		for _, wire := range []string{w.Paths[0], member} {
			if Identity.Instead[wire] == "" {
				Identity.Instead[wire] = fmt.Sprintf("is called %s here: it is the switch %s of the unit %s", w.Name, member, unit)
			}
		}
	}
}

// noSwitch says what to write, or why there is nothing to write, for words that no switch resembles.
var noSwitch = map[string]string{ //nolint:gosec // no credentials
	"recovery_codes":       "has no switch: recovery codes come with authenticator and with passkeys",
	"totp":                 "is called authenticator",
	"otp":                  "is called authenticator",
	"google_authenticator": "is called authenticator",
	"mfa":                  "is several switches: authenticator, passkeys, email_code, sms and pin, and `level` of a site or scope demands one of them",
	"webauthn":             "is called passkeys",
	"registration":         "is called sign_up",
	"register":             "is called sign_up",
	"self_registration":    "is called sign_up",
	"forgot_password":      "is called password_reset",
	"email_otp":            "is called email_code",
	"sms_code":             "is called sms",
	"profile":              "has no switch: people can always change their profile. Attributes of a provider are read-only (synchronise_attributes)",
	"change_username":      "has no switch",
	"change_email":         "has no switch: `step_up.actions.change_email_authentication_level` of the settings says how strong a sign-in it needs",
	"change_password":      "has no switch: `step_up.actions.change_password_authentication_level` of the settings says how strong a sign-in it needs",
	"account_removal":      "has no switch: people can always delete their account",
	"delete_account":       "has no switch: people can always delete their account",
	"remember_me":          "has no switch: `session { remember <duration> }` says for how long a browser is remembered",
	"remember_device":      "has no switch: `session { remember <duration> }` says for how long a browser is remembered",
	"remember":             "stands in a block: session { remember <duration> }",
	"consent":              "is an option of each client",
	"push":                 "has no switch: prompts on phones are on where gatehouse has `push`",
}
