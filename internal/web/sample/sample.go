package sample

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/gatehouse-id/gatehouse/internal/web"
)

// Sample is a page with made-up data.
type Sample struct {
	// ID is unique among all samples, and stays: it is in addresses.
	ID string
	// Group is the stage at which people see the page: sign_in, enrol, step_up, consent, account or error.
	Group string
	View  web.View
	// Failure makes it the page of an error, in place of the view. nil: it is an ordinary page
	Failure *web.Failure
}

// aside are views that no one reads: those of the console, and pages that lead on by themselves.
var aside = []string{"console", "form_post", "signed_out_on", "sign_out_blank", "sign_in_alone", "form_read", "form_good", "form_wait"}

// groups are the stages at which people see pages, by the beginnings of their ids. The longest counts.
var groups = map[string]string{
	"":     "sign_in",
	"form": "enrol", "invitation": "enrol", "activat": "enrol", "forgot": "enrol", "reset": "enrol", "sign_up": "enrol", "register": "enrol",
	"verif": "enrol", "complete": "enrol", "connect": "enrol",
	"step_up": "step_up", "push": "step_up", "sms": "step_up", "pin": "step_up", "passkey": "step_up", "authenticator": "step_up",
	"recovery": "step_up", "remove": "step_up", "confirm": "step_up", "trust_browser": "step_up",
	"consent": "consent", "release": "consent", "device": "consent", "access": "consent", "kept": "consent",
	"account": "account", "security": "account", "preferred": "account", "deleted": "account", "seeing": "account", "confirm.": "account",
	"error": "error",
}

// groupOf returns the stage at which people see a page.
func groupOf(id string) string {
	best := ""
	for begin := range groups {
		if strings.HasPrefix(id, begin) && len(begin) > len(best) {
			best = begin
		}
	}
	return groups[best]
}

// Groups are all groups, in the order of their listing.
func Groups() []string {
	return []string{"sign_in", "enrol", "step_up", "consent", "account", "error"}
}

// All returns every page that people see, by groups and ids.
func All() []Sample {
	views := Views()
	maps.DeleteFunc(views, func(id string, _ web.View) bool {
		return slices.ContainsFunc(aside, func(begin string) bool { return strings.HasPrefix(id, begin) })
	})
	maps.Copy(views, forms())
	maps.Copy(views, prompts())
	maps.Copy(views, accounts())
	var out []Sample
	for id, v := range views {
		out = append(out, Sample{ID: id, Group: groupOf(id), View: v})
	}
	for _, key := range web.FailureKeys() {
		out = append(out, Sample{ID: key, Group: "error", Failure: &web.Failure{Key: key, Again: "/account", Ref: "A2B4-C6D8"}})
	}
	order := Groups()
	slices.SortFunc(out, func(a, b Sample) int {
		if a.Group != b.Group {
			return slices.Index(order, a.Group) - slices.Index(order, b.Group)
		}
		return strings.Compare(a.ID, b.ID)
	})
	return out
}

var (
	newPassword = web.Field{
		Name: "password", Type: "password", Label: "sign_in.password", Autocomplete: "new-password", Required: true,
		Lines: []web.Text{web.Say("password.rule.length", "min", 8, "max", 256)},
	}
	username = web.Field{Name: "username", Label: "sign_in.username", Autocomplete: "username", Required: true}
	phone    = web.Field{
		Name: "phone", Type: "tel", Label: "sms_number.label", Hint: "sms_number.hint",
		Autocomplete: "tel", Required: true,
	}
)

func code(label string) web.Field {
	return web.Field{Name: "code", Type: "code", Label: label, MaxLength: 6, Required: true}
}

const (
	address = "demo@example.com"
	masked  = "d•••@example.com"
)

// forms are the pages that are one form, and those that say what became of one.
func forms() map[string]web.View {
	out := map[string]web.View{}
	form := func(f web.Form, fields ...web.Field) {
		f.Fields, f.CSRF = web.Fields(false, fields...), "t"
		if f.Next == "" {
			f.Action = "/form"
		}
		out[f.Key] = web.View{Template: "form", Client: Shop, Data: f}
	}
	said := func(key string, fill ...any) { form(web.Form{Key: key, Fill: fill, Next: "/account"}) }
	form(web.Form{Key: "directory", Fill: []any{"provider", "Corp"}, Cancel: "/sign-in"}, username,
		web.Field{Name: "password", Type: "password", Label: "sign_in.password", Autocomplete: "current-password", Required: true})
	form(web.Form{
		Key: "register", Fill: []any{"provider", "Partner account"},
		Links: []web.FormLink{{Label: "register.known", URL: "/sign-in"}},
	},
		web.Field{Name: "username", Label: "register.username", Hint: "register.username.hint", Required: true}, newPassword)
	form(web.Form{Key: "register_more", Fill: []any{"provider", "Partner account"}},
		web.Field{Name: "given_name", Label: "sign_up.given_name", Required: true},
		web.Field{Name: "family_name", Label: "sign_up.family_name", Required: true})
	form(web.Form{Key: "complete", Other: &web.OtherButton{Name: "later", Label: "complete.later"}},
		web.Field{Name: "given_name", Label: "sign_up.given_name", Required: true}, phone)
	form(web.Form{Key: "sign_up", Cancel: "/sign-in"},
		web.Field{Name: "email", Type: "email", Label: "sign_up.email", Autocomplete: "email", Required: true},
		web.Field{Name: "given_name", Label: "sign_up.given_name"}, web.Field{Name: "family_name", Label: "sign_up.family_name"},
		web.Field{Name: "phone", Type: "tel", Label: "sign_up.phone.optional", Hint: "sign_up.phone.hint"}, newPassword)
	form(web.Form{
		Key: "sign_up_code", Fill: []any{"to", address}, Other: &web.OtherButton{Name: "send", Label: "step_up.send_again"},
		Cancel: "/sign-up",
	}, code("step_up.email.label"))
	form(web.Form{Key: "sign_up_phone", Fill: []any{"to", "•••\u00a0678"}, Other: &web.OtherButton{Name: "send", Label: "step_up.send_again"}},
		code("step_up.sms.label"))
	said("sign_up_sent")
	said("sign_up_later")
	form(web.Form{Key: "activate", Fill: []any{"account", address}},
		web.Field{Name: "code", Type: "code", InputMode: "text", Label: "activate.code", Required: true})
	form(web.Form{Key: "activate_link", Fill: []any{"to", address}})
	form(web.Form{Key: "activate_wait", Fill: []any{"to", masked}, Send: true, Cancel: "/sign-in"})
	form(web.Form{Key: "activate_send", Fill: []any{"to", masked}, Send: true})
	form(web.Form{Key: "activate_code", Fill: []any{"to", masked}, Other: &web.OtherButton{Name: "send", Label: "step_up.send_again"}},
		code("step_up.email.label"))
	said("activate_done")
	said("activate_none")
	form(web.Form{Key: "verify", Fill: []any{"to", address, "account", "demo"}})
	said("verified")
	form(web.Form{
		Key: "forgot", Cancel: "/sign-in",
		Links: []web.FormLink{{Label: "forgot.text_message", URL: "/forgot"}, {Label: "forgot_username.link", URL: "/forgot"}},
	},
		web.Field{Name: "username", Label: "forgot.label", Autocomplete: "username", Required: true})
	form(web.Form{Key: "forgot_sent", Next: "/sign-in", Links: []web.FormLink{{Label: "forgot_sent.again", URL: "/forgot"}}})
	form(web.Form{Key: "forgot_text", Links: []web.FormLink{{Label: "forgot_text.mail", URL: "/forgot"}}},
		web.Field{Name: "username", Label: "forgot.label", Autocomplete: "username", Required: true})
	form(web.Form{Key: "forgot_code", Links: []web.FormLink{{Label: "forgot_code.again", URL: "/forgot"}}}, code("forgot_code.label"))
	form(web.Form{Key: "forgot_username"},
		web.Field{Name: "phone", Type: "tel", Label: "forgot_username.label", Hint: "forgot_username.hint", Required: true})
	form(web.Form{Key: "forgot_username_sent", Next: "/sign-in", Links: []web.FormLink{{Label: "forgot_username_sent.again", URL: "/forgot"}}})
	form(web.Form{Key: "reset"}, username, newPassword)
	said("reset_done")
	form(web.Form{Key: "pin_forgot", Fill: []any{"to", masked}, Send: true, Cancel: "/step-up"})
	out["pin_forgot_sent"] = web.View{Template: "form", Data: web.Form{Key: "pin_forgot_sent", Fill: []any{"to", masked}, Cancel: "/step-up"}}
	form(web.Form{Key: "sms_number", Cancel: "/account/security"}, phone)
	form(web.Form{
		Key: "sms_code", Fill: []any{"to", "•••\u00a0678"},
		Links: []web.FormLink{{Label: "sms_code.other", URL: "/account/security"}},
	}, code("step_up.sms.label"))
	form(web.Form{Key: "trust_browser"},
		web.Field{Name: "trust", Type: "checkbox", Label: "trust_browser.label", Hint: "sign_in.remember.hint"})
	form(web.Form{Key: "preferred", Cancel: "/account/security"},
		web.Field{
			Name: "method", Type: "select", Label: "preferred.label",
			Options: []web.Option{
				{Value: "", Label: "preferred.last"},
				{Value: "passkey", Label: "step_up.passkey.choice"},
				{Value: "authenticator", Label: "step_up.authenticator.choice"},
			},
		})
	form(web.Form{Key: "confirm.email", Fill: []any{"to", address}, Cancel: "/account/profile"}, code("confirm.code"))
	form(web.Form{Key: "confirm.phone", Fill: []any{"to", "+31 6 12345678"}, Cancel: "/account/profile"}, code("confirm.code"))
	form(web.Form{Key: "kept", Fill: []any{"page", "/wiki/edit"}, Other: &web.OtherButton{Name: "discard", Label: "kept.discard"}})
	form(web.Form{Key: "access", Fill: []any{"site", "wiki.example.com"}, Cancel: "/account"},
		web.Field{Name: "reason", Label: "access.reason", Required: true, MinLength: 3, MaxLength: 300})
	out["access.asked"] = web.View{Template: "form", Data: web.Form{Key: "access.asked", Fill: []any{"site", "wiki.example.com"}}}
	form(web.Form{Key: "access.granted", Fill: []any{"site", "wiki.example.com"}, Next: "/account"})
	for _, key := range []string{"activated", "invitation_inactive", "passkey_last", "deleted"} {
		out[key] = web.View{Template: "message", Data: web.Message{Key: key, Next: "/account"}}
	}
	for _, key := range []string{"remove.push", "remove.passkey", "remove.pin", "remove.sms", "remove.authenticator", "recovery.renew"} {
		out[key] = web.View{
			Template: "confirm",
			Data:     web.Confirm{Key: key, Name: "Phone", Action: "/account/security/remove", CSRF: "t", Cancel: "/account/security"},
		}
	}
	for _, key := range []string{"trouble.cancelled", "trouble.setup", "trouble.ticket"} {
		out[key] = web.View{
			Template: "trouble", Client: Shop,
			Data: web.Trouble{Key: key, Name: "Partner account", Again: "/sign-in", Other: "/sign-in?choose=1", Cancel: "/account"},
		}
	}
	return out
}

// prompts are the pages about phones that confirm a sign-in.
func prompts() map[string]web.View {
	drawn := web.NewQR(21, func(x, y int) bool { return (x*y+x/3)%3 == 0 })
	number := web.Fields(false, web.Field{Name: "number", Type: "code", Label: "push.number_phone", MaxLength: 2, Required: true})
	out := map[string]web.View{}
	for _, p := range []web.Push{
		{Key: "add", QR: &drawn, Link: "https://auth.example.com/push/enrol", Cancel: "/account/security"},
		{Key: "found", Action: "/push", Fields: number, Cancel: "/account/security"},
		{Key: "enrol", Action: "/push", Fill: []any{"account", address}},
		{Key: "enrolled", Number: "47"},
		{Key: "send", Action: "/push", Fill: []any{"account", address}, Others: "/step-up?choose=1"},
		{Key: "approved"},
		{Key: "denied", Change: "/account/password"},
		{Key: "wrong"},
		{Key: "over"},
		{Key: "scan_other", Fill: []any{"account", address}},
		{Key: "scan_approved"},
		{Key: "scan_denied", Change: "/account/password"},
		{Key: "scan_wrong"},
		{Key: "scan_over"},
	} {
		p.CSRF = "t"
		out["push_"+p.Key] = web.View{Template: "push", Data: p}
	}
	return out
}

// accounts are the pages of an account.
func accounts() map[string]web.View {
	at := time.Date(2026, 3, 1, 9, 5, 0, 0, time.UTC)
	out := map[string]web.View{}
	board := func(key string, parts ...web.Part) {
		out["account_"+key] = web.View{Template: "dashboard", Nav: Nav, Data: web.Dashboard{Key: key, Parts: parts}}
	}
	form := func(submit string, fields ...web.Field) web.Part {
		return web.Part{Form: &web.PartForm{Action: "/account", CSRF: "t", Submit: submit, Fields: web.Fields(false, fields...)}}
	}
	row := func(icon, name string, detail web.Text, act string) web.Part {
		return web.Part{Rows: []web.Row{{
			Icon: icon, Name: name, Details: []web.Text{detail},
			Actions: []web.Action{{Label: act, URL: "/account"}},
		}}}
	}
	board("profile", web.Part{Facts: []web.Fact{
		{Label: "account.username", Value: address},
		{Label: "profile.gender", Text: web.Say("profile.gender.U")},
	}},
		form("profile.save", web.Field{Name: "given_name", Label: "sign_up.given_name", Value: "Demo"},
			web.Field{Name: "family_name", Label: "sign_up.family_name", Value: "van Person"}))
	board("address", form("profile.save", web.Field{Name: "street", Label: "profile.street"}))
	board("password", form("account.password.submit", newPassword))
	board("password_first", form("account.password.submit", newPassword))
	board("devices", row("device", "Firefox, Linux", web.Say("device.this"), "device.end"))
	board("another_device", web.Part{Text: web.Say("device.another.scan", "time", time.Hour)})
	board("applications", row("app", "The shop", web.Say("application.since", "time", at), "application.withdraw"))
	board("app_passwords", web.Part{Empty: "app_password.none"})
	board("accounts", row("app", "Partner account", web.Say("application.since", "time", at), "security.remove"))
	board("activity", web.Part{Rows: []web.Row{{
		Icon: "clock", Title: web.Say("activity.login.LoginSucceededEvent"),
		Details: []web.Text{web.Say("activity.at", "time", at)},
	}}})
	board("data", web.Part{
		ID: "download", Title: web.Say("data.download"), Text: web.Say("data.download.text"),
		Form: &web.PartForm{Action: "/account/data", CSRF: "t", Submit: "data.download.submit"},
	},
		web.Part{ID: "delete", Title: web.Say("data.delete"), Text: web.Say("data.delete.text")})
	board("delete", form("data.delete.submit",
		web.Field{Name: "username", Label: "data.delete.type", LabelFill: []any{"account", address}, Required: true}))
	sections := []web.SecuritySection{}
	for _, key := range []string{
		"passkey", "authenticator", "sms", "push", "pin", "recovery", "password",
		"app_passwords", "accounts", "email",
	} {
		sections = append(sections, web.SecuritySection{
			Key: key, State: "on", Count: 2,
			Actions: []web.SecurityAction{{Label: "security.set_up", URL: "/account/security"}},
		})
	}
	sections = append(sections, web.SecuritySection{
		Key: "preferred", State: "last",
		Actions: []web.SecurityAction{{Label: "security.preferred.change", URL: "/account/security"}},
	})
	out["security_all"] = web.View{Template: "security", Nav: Nav, Data: web.Security{Back: "/account", Sections: sections}}
	seen := *Nav
	seen.Seeing = &web.Seeing{Name: address, By: "admin@example.com", Until: at, Action: "/account", CSRF: "t"}
	out["seeing"] = web.View{
		Template: "dashboard", Nav: &seen,
		Data: web.Dashboard{
			Key: "overview", Names: []string{address},
			Cards: []web.Card{{Icon: "lock", Title: "account.security", URL: "/account/security", Text: web.Say("card.security.on"), Kind: "good"}},
		},
	}
	return out
}
