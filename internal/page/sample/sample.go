package sample

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/gatehouse-id/gatehouse/internal/page"
)

// Sample is a page with made-up data.
type Sample struct {
	// ID is unique among all samples, and stays: it is in addresses.
	ID string
	// Group is when people see the page: sign_in, enrol, step_up, consent, account or error.
	Group string
	View  page.View
	// Failure makes it the page of an error, in place of the view. nil: it is an ordinary page
	Failure *page.Failure
}

// aside are views that nobody reads: those of the console, and pages that lead on by themselves.
var aside = []string{"console", "form_post", "signed_out_on", "sign_out_blank", "sign_in_alone", "form_read", "form_good", "form_wait"}

// groups are when people see pages, by the beginnings of their ids. The longest counts.
var groups = map[string]string{
	"":     "sign_in",
	"form": "enrol", "invitation": "enrol", "activat": "enrol", "forgot": "enrol", "reset": "enrol", "sign_up": "enrol", "register": "enrol", "verif": "enrol", "complete": "enrol", "connect": "enrol",
	"step_up": "step_up", "push": "step_up", "sms": "step_up", "pin": "step_up", "passkey": "step_up", "authenticator": "step_up", "recovery": "step_up", "remove": "step_up", "confirm": "step_up", "trust_browser": "step_up",
	"consent": "consent", "release": "consent", "device": "consent", "access": "consent", "kept": "consent",
	"account": "account", "security": "account", "preferred": "account", "deleted": "account", "seeing": "account", "confirm.": "account",
	"error": "error",
}

// groupOf is when people see a page.
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
	maps.DeleteFunc(views, func(id string, _ page.View) bool {
		return slices.ContainsFunc(aside, func(begin string) bool { return strings.HasPrefix(id, begin) })
	})
	maps.Copy(views, forms())
	maps.Copy(views, prompts())
	maps.Copy(views, accounts())
	var out []Sample
	for id, v := range views {
		out = append(out, Sample{ID: id, Group: groupOf(id), View: v})
	}
	for _, key := range page.FailureKeys() {
		out = append(out, Sample{ID: key, Group: "error", Failure: &page.Failure{Key: key, Again: "/account", Ref: "A2B4-C6D8"}})
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
	newPassword = page.Field{Name: "password", Type: "password", Label: "sign_in.password", Autocomplete: "new-password", Required: true, Lines: []page.Text{page.Say("password.rule.length", "min", 8, "max", 256)}}
	username    = page.Field{Name: "username", Label: "sign_in.username", Autocomplete: "username", Required: true}
	phone       = page.Field{Name: "phone", Type: "tel", Label: "sms_number.label", Hint: "sms_number.hint", Autocomplete: "tel", Required: true}
)

func code(label string) page.Field {
	return page.Field{Name: "code", Type: "code", Label: label, MaxLength: 6, Required: true}
}

const (
	address = "demo@example.com"
	masked  = "d•••@example.com"
)

// forms are the pages that are one form, and those that say what became of one.
func forms() map[string]page.View {
	out := map[string]page.View{}
	form := func(f page.Form, fields ...page.Field) {
		f.Fields, f.CSRF = page.Fields(false, fields...), "t"
		if f.Next == "" {
			f.Action = "/form"
		}
		out[f.Key] = page.View{Template: "form", Client: Shop, Data: f}
	}
	said := func(key string, fill ...any) { form(page.Form{Key: key, Fill: fill, Next: "/account"}) }
	form(page.Form{Key: "directory", Fill: []any{"provider", "Corp"}, Cancel: "/sign-in"}, username, page.Field{Name: "password", Type: "password", Label: "sign_in.password", Autocomplete: "current-password", Required: true})
	form(page.Form{Key: "register", Fill: []any{"provider", "Partner account"}, Links: []page.FormLink{{Label: "register.known", URL: "/sign-in"}}}, page.Field{Name: "username", Label: "register.username", Hint: "register.username.hint", Required: true}, newPassword)
	form(page.Form{Key: "register_more", Fill: []any{"provider", "Partner account"}}, page.Field{Name: "given_name", Label: "sign_up.given_name", Required: true}, page.Field{Name: "family_name", Label: "sign_up.family_name", Required: true})
	form(page.Form{Key: "complete", Other: &page.OtherButton{Name: "later", Label: "complete.later"}}, page.Field{Name: "given_name", Label: "sign_up.given_name", Required: true}, phone)
	form(page.Form{Key: "sign_up", Cancel: "/sign-in"},
		page.Field{Name: "email", Type: "email", Label: "sign_up.email", Autocomplete: "email", Required: true}, page.Field{Name: "given_name", Label: "sign_up.given_name"}, page.Field{Name: "family_name", Label: "sign_up.family_name"},
		page.Field{Name: "phone", Type: "tel", Label: "sign_up.phone.optional", Hint: "sign_up.phone.hint"}, newPassword)
	form(page.Form{Key: "sign_up_code", Fill: []any{"to", address}, Other: &page.OtherButton{Name: "send", Label: "step_up.send_again"}, Cancel: "/sign-up"}, code("step_up.email.label"))
	form(page.Form{Key: "sign_up_phone", Fill: []any{"to", "•••\u00a0678"}, Other: &page.OtherButton{Name: "send", Label: "step_up.send_again"}}, code("step_up.sms.label"))
	said("sign_up_sent")
	said("sign_up_later")
	form(page.Form{Key: "activate", Fill: []any{"account", address}}, page.Field{Name: "code", Type: "code", InputMode: "text", Label: "activate.code", Required: true})
	form(page.Form{Key: "activate_link", Fill: []any{"to", address}})
	form(page.Form{Key: "activate_wait", Fill: []any{"to", masked}, Send: true, Cancel: "/sign-in"})
	form(page.Form{Key: "activate_send", Fill: []any{"to", masked}, Send: true})
	form(page.Form{Key: "activate_code", Fill: []any{"to", masked}, Other: &page.OtherButton{Name: "send", Label: "step_up.send_again"}}, code("step_up.email.label"))
	said("activate_done")
	said("activate_none")
	form(page.Form{Key: "verify", Fill: []any{"to", address, "account", "demo"}})
	said("verified")
	form(page.Form{Key: "forgot", Cancel: "/sign-in", Links: []page.FormLink{{Label: "forgot.text_message", URL: "/forgot"}, {Label: "forgot_username.link", URL: "/forgot"}}}, page.Field{Name: "username", Label: "forgot.label", Autocomplete: "username", Required: true})
	form(page.Form{Key: "forgot_sent", Next: "/sign-in", Links: []page.FormLink{{Label: "forgot_sent.again", URL: "/forgot"}}})
	form(page.Form{Key: "forgot_text", Links: []page.FormLink{{Label: "forgot_text.mail", URL: "/forgot"}}}, page.Field{Name: "username", Label: "forgot.label", Autocomplete: "username", Required: true})
	form(page.Form{Key: "forgot_code", Links: []page.FormLink{{Label: "forgot_code.again", URL: "/forgot"}}}, code("forgot_code.label"))
	form(page.Form{Key: "forgot_username"}, page.Field{Name: "phone", Type: "tel", Label: "forgot_username.label", Hint: "forgot_username.hint", Required: true})
	form(page.Form{Key: "forgot_username_sent", Next: "/sign-in", Links: []page.FormLink{{Label: "forgot_username_sent.again", URL: "/forgot"}}})
	form(page.Form{Key: "reset"}, username, newPassword)
	said("reset_done")
	form(page.Form{Key: "pin_forgot", Fill: []any{"to", masked}, Send: true, Cancel: "/step-up"})
	out["pin_forgot_sent"] = page.View{Template: "form", Data: page.Form{Key: "pin_forgot_sent", Fill: []any{"to", masked}, Cancel: "/step-up"}}
	form(page.Form{Key: "sms_number", Cancel: "/account/security"}, phone)
	form(page.Form{Key: "sms_code", Fill: []any{"to", "•••\u00a0678"}, Links: []page.FormLink{{Label: "sms_code.other", URL: "/account/security"}}}, code("step_up.sms.label"))
	form(page.Form{Key: "trust_browser"}, page.Field{Name: "trust", Type: "checkbox", Label: "trust_browser.label", Hint: "sign_in.remember.hint"})
	form(page.Form{Key: "preferred", Cancel: "/account/security"}, page.Field{Name: "method", Type: "select", Label: "preferred.label", Options: []page.Option{{Value: "", Label: "preferred.last"}, {Value: "passkey", Label: "step_up.passkey.choice"}, {Value: "authenticator", Label: "step_up.authenticator.choice"}}})
	form(page.Form{Key: "confirm.email", Fill: []any{"to", address}, Cancel: "/account/profile"}, code("confirm.code"))
	form(page.Form{Key: "confirm.phone", Fill: []any{"to", "+31 6 12345678"}, Cancel: "/account/profile"}, code("confirm.code"))
	form(page.Form{Key: "kept", Fill: []any{"page", "/wiki/edit"}, Other: &page.OtherButton{Name: "discard", Label: "kept.discard"}})
	form(page.Form{Key: "access", Fill: []any{"site", "wiki.example.com"}, Cancel: "/account"}, page.Field{Name: "reason", Label: "access.reason", Required: true, MinLength: 3, MaxLength: 300})
	out["access.asked"] = page.View{Template: "form", Data: page.Form{Key: "access.asked", Fill: []any{"site", "wiki.example.com"}}}
	form(page.Form{Key: "access.granted", Fill: []any{"site", "wiki.example.com"}, Next: "/account"})
	for _, key := range []string{"activated", "invitation_inactive", "passkey_last", "deleted"} {
		out[key] = page.View{Template: "message", Data: page.Message{Key: key, Next: "/account"}}
	}
	for _, key := range []string{"remove.push", "remove.passkey", "remove.pin", "remove.sms", "remove.authenticator", "recovery.renew"} {
		out[key] = page.View{Template: "confirm", Data: page.Confirm{Key: key, Name: "Phone", Action: "/account/security/remove", CSRF: "t", Cancel: "/account/security"}}
	}
	for _, key := range []string{"trouble.cancelled", "trouble.setup", "trouble.ticket"} {
		out[key] = page.View{Template: "trouble", Client: Shop, Data: page.Trouble{Key: key, Name: "Partner account", Again: "/sign-in", Other: "/sign-in?choose=1", Cancel: "/account"}}
	}
	return out
}

// prompts are the pages about phones that confirm a sign-in.
func prompts() map[string]page.View {
	drawn := page.NewQR(21, func(x, y int) bool { return (x*y+x/3)%3 == 0 })
	number := page.Fields(false, page.Field{Name: "number", Type: "code", Label: "push.number_phone", MaxLength: 2, Required: true})
	out := map[string]page.View{}
	for _, p := range []page.Push{
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
		out["push_"+p.Key] = page.View{Template: "push", Data: p}
	}
	return out
}

// accounts are the pages of an account.
func accounts() map[string]page.View {
	at := time.Date(2026, 3, 1, 9, 5, 0, 0, time.UTC)
	out := map[string]page.View{}
	board := func(key string, parts ...page.Part) {
		out["account_"+key] = page.View{Template: "dashboard", Nav: Nav, Data: page.Dashboard{Key: key, Parts: parts}}
	}
	form := func(submit string, fields ...page.Field) page.Part {
		return page.Part{Form: &page.PartForm{Action: "/account", CSRF: "t", Submit: submit, Fields: page.Fields(false, fields...)}}
	}
	row := func(icon, name string, detail page.Text, act string) page.Part {
		return page.Part{Rows: []page.Row{{Icon: icon, Name: name, Details: []page.Text{detail}, Actions: []page.Action{{Label: act, URL: "/account"}}}}}
	}
	board("profile", page.Part{Facts: []page.Fact{{Label: "account.username", Value: address}, {Label: "profile.gender", Text: page.Say("profile.gender.U")}}}, form("profile.save", page.Field{Name: "given_name", Label: "sign_up.given_name", Value: "Demo"}, page.Field{Name: "family_name", Label: "sign_up.family_name", Value: "van Person"}))
	board("address", form("profile.save", page.Field{Name: "street", Label: "profile.street"}))
	board("password", form("account.password.submit", newPassword))
	board("password_first", form("account.password.submit", newPassword))
	board("devices", row("device", "Firefox, Linux", page.Say("device.this"), "device.end"))
	board("another_device", page.Part{Text: page.Say("device.another.scan", "time", time.Hour)})
	board("applications", row("app", "The shop", page.Say("application.since", "time", at), "application.withdraw"))
	board("app_passwords", page.Part{Empty: "app_password.none"})
	board("accounts", row("app", "Partner account", page.Say("application.since", "time", at), "security.remove"))
	board("activity", page.Part{Rows: []page.Row{{Icon: "clock", Title: page.Say("activity.login.LoginSucceededEvent"), Details: []page.Text{page.Say("activity.at", "time", at)}}}})
	board("data", page.Part{ID: "download", Title: page.Say("data.download"), Text: page.Say("data.download.text"), Form: &page.PartForm{Action: "/account/data", CSRF: "t", Submit: "data.download.submit"}}, page.Part{ID: "delete", Title: page.Say("data.delete"), Text: page.Say("data.delete.text")})
	board("delete", form("data.delete.submit", page.Field{Name: "username", Label: "data.delete.type", LabelFill: []any{"account", address}, Required: true}))
	sections := []page.SecuritySection{}
	for _, key := range []string{"passkey", "authenticator", "sms", "push", "pin", "recovery", "password", "app_passwords", "accounts", "email"} {
		sections = append(sections, page.SecuritySection{Key: key, State: "on", Count: 2, Actions: []page.SecurityAction{{Label: "security.set_up", URL: "/account/security"}}})
	}
	sections = append(sections, page.SecuritySection{Key: "preferred", State: "last", Actions: []page.SecurityAction{{Label: "security.preferred.change", URL: "/account/security"}}})
	out["security_all"] = page.View{Template: "security", Nav: Nav, Data: page.Security{Back: "/account", Sections: sections}}
	seen := *Nav
	seen.Seeing = &page.Seeing{Name: address, By: "admin@example.com", Until: at, Action: "/account", CSRF: "t"}
	out["seeing"] = page.View{Template: "dashboard", Nav: &seen, Data: page.Dashboard{Key: "overview", Names: []string{address}, Cards: []page.Card{{Icon: "lock", Title: "account.security", URL: "/account/security", Text: page.Say("card.security.on"), Kind: "good"}}}}
	return out
}
