// Package sample has every page with made-up data, in all relevant shapes, for the previews of administrators and the
// tests of pages. It contains no real data, and no address in it leads to a secret.
package sample

import (
	"time"

	"github.com/gatehouse-id/gatehouse/internal/authn"
	"github.com/gatehouse-id/gatehouse/internal/web"
)

// Shop is an application.
var Shop = authn.Client{ID: "shop", Name: "The shop", Targets: []string{"https://shop.example.com", "com.example.app:"}}

var twoWays = []web.InvitationChoice{
	{Way: "birthdate", URL: "/invitation/check?way=birthdate"},
	{Way: "sms", URL: "/invitation/check?way=sms"},
}

var twoProviders = []web.Provider{
	{Name: "Partner account", URL: "/sign-in/provider?flow=f&idp=partner", Last: true},
	{Name: "Corp", URL: "/sign-in/provider?flow=f&idp=corp"},
}

// Nav is the navigation of an account.
var Nav = &web.Nav{
	Name: "Demo van Person", SignOut: "t",
	Entries: []web.NavEntry{
		{Label: "account.overview", URL: "/account", Icon: "person", Current: true},
		{Label: "account.profile", URL: "/account/profile", Icon: "pencil"},
	},
	Back: "https://shop.example.com/", BackName: "shop.example.com",
}

var consoleNav = &web.Nav{
	Name: "Demo van Person", SignOut: "t", Label: "console.menu", Search: "/admin/search",
	Groups: []web.NavGroup{
		{Label: "console.group.people", Entries: []web.NavEntry{
			{Label: "console.persons.title", URL: "/admin/persons", Icon: "person", Current: true},
			{
				Label: "console.requests.title", URL: "/admin/requests", Icon: "door", Badge: "2",
				Waiting: web.Say("console.waits.requests", "n", 2),
			},
		}},
		{Label: "console.group.activity", Entries: []web.NavEntry{{Label: "console.overview.title", URL: "/admin", Icon: "chart"}}},
	},
}

// Views has every page in the shapes that matter, by descriptive names.
func Views() map[string]web.View {
	drawn := web.NewQR(21, func(x, y int) bool { return (x*y+x/3)%3 == 0 })
	return map[string]web.View{
		"sign_in": {
			Template: "sign_in", Client: Shop,
			Data: web.SignIn{Action: "/sign-in?flow=f", CSRF: "t", CanRemember: true, Cancel: "/oauth/authorize?request=r&cancel=1"},
		},
		"sign_in_alone": {
			Template: "sign_in", Mobile: true,
			Data: web.SignIn{Action: "/sign-in?flow=f", CSRF: "t", Username: "demo@example.com"},
		},
		"sign_in_wrong": {
			Template: "sign_in", Status: 422, Client: Shop,
			Data: web.SignIn{
				Action: "/sign-in?flow=f", CSRF: "t", CanRemember: true, Remember: true, Username: "demo@example.com",
				Problem: "problem.mismatch",
			},
		},
		"sign_in_wait": {
			Template: "sign_in", Status: 429, Client: Shop,
			Data: web.SignIn{Action: "/sign-in?flow=f", CSRF: "t", Username: "demo@example.com", Problem: "problem.wait", Wait: 40},
		},
		"choose": {
			Template: "choose", Client: Shop,
			Data: web.Choose{Action: "/sign-in/account?flow=f", CSRF: "t", Account: "demo@example.com", Detail: "Demo Person", Cancel: "/c"},
		},
		"consent": {
			Template: "consent", Client: Shop,
			Data: web.Consent{
				Action: "/oauth/consent", CSRF: "t", RequestID: "r", Account: "demo@example.com", Another: "/sign-in?other=1",
				Owner:  "shop.example.com",
				Scopes: []web.ScopeLine{{Name: "openid"}, {Name: "email"}, {Name: "orders.read", Description: "Read your orders"}, {Name: "x.y"}},
				Sites:  []string{"https://orders.example.com", "https://wiki.example.com"},
			},
		},
		"consent_details": {
			Template: "consent", Client: Shop,
			Data: web.Consent{
				Action: "/oauth/consent", CSRF: "t", RequestID: "r", Account: "demo@example.com",
				Details: []web.Detail{{
					Type: "payment", Title: web.Texts{"": "Start a payment", "nl": "Een betaling starten"},
					Rows: []web.DetailRow{
						{Name: "actions", Values: []string{"initiate", "status"}},
						{Name: "amount.value", Label: web.Texts{"nl": "Bedrag"}, Values: []string{"12.50"}},
					},
				}, {Type: "account"}},
			},
		},
		"consent_unregistered": {
			Template: "consent", Client: authn.Client{ID: "https://app.example/client.json", Name: "app.example"},
			Data: web.Consent{
				Action: "/oauth/consent", CSRF: "t", RequestID: "r", Account: "demo@example.com",
				Scopes: []web.ScopeLine{{Name: "tools.read", Description: "Read your calendar"}},
				Unregistered: &web.Unregistered{
					Name: "Assistant", Program: true,
					Resources: []web.Resource{{Name: "Calendar", Address: "https://mcp.example.com"}},
				},
			},
		},
		"consent_none": {
			Template: "consent", Client: Shop,
			Data: web.Consent{Action: "/oauth/consent", CSRF: "t", RequestID: "r", Account: "demo@example.com"},
		},
		"release": {
			Template: "release", Client: Shop,
			Data: web.Release{
				Action: "/sso/continue?flow=f", CSRF: "t", Account: "demo@example.com", Another: "/sign-in?other=1",
				Rows: []web.ReleaseRow{
					{Name: "email", Key: "attribute.email", Values: []string{"demo@example.com"}},
					{Name: "groups", Key: "attribute.groups", Optional: true},
					{Name: "office", Label: "Your office"},
					{Name: "x"},
				},
			},
		},
		"device": {
			Template: "device", Client: Shop,
			Data: web.Device{
				Action: "/device/allow?flow=f", CSRF: "t", Account: "demo@example.com", Another: "/sign-in?other=1", Code: "BCDF-GHJK",
				Address: "203.0.113.7", Time: time.Date(2026, 3, 1, 9, 5, 0, 0, time.UTC),
				Scopes: []web.ScopeLine{{Name: "openid"}, {Name: "orders.read", Description: "Read your orders"}},
				Sites:  []string{"https://orders.example.com"},
			},
		},
		"device_code": {
			Template: "form", Status: 422,
			Data: web.Form{
				Key: "device_code", Action: "/device", CSRF: "t",
				Fields: web.Fields(false, web.Field{
					Name: "user_code", Type: "code", InputMode: "text", Label: "device_code.label", Value: "BBBB-BBBB",
					Required: true, Problem: "problem.device_code",
				}),
			},
		},
		"device_allowed": {Template: "message", Data: web.Message{Key: "device_allowed"}},
		"device_denied":  {Template: "form", Data: web.Form{Key: "device_denied"}},
		"sign_out": {
			Template: "sign_out",
			Data: web.SignOut{
				Action: "/sign-out", CSRF: "t", Account: "demo@example.com", Cancel: "/account",
				Hidden: map[string]string{"state": "s"},
			},
		},
		"sign_out_blank": {Template: "sign_out", Data: web.SignOut{Action: "/sign-out", CSRF: "t"}},
		"signed_out":     {Template: "signed_out", Data: web.SignedOut{}},
		"signed_out_to":  {Template: "signed_out", Data: web.SignedOut{Continue: "https://shop.example.com/"}},
		"signed_out_on": {
			Template: "signed_out",
			Data: web.SignedOut{
				Continue: "https://shop.example.com/", GoOn: true,
				Frames: []string{"https://shop.example.com/out?iss=x&sid=s", "https://shop.example.com/other"},
			},
		},
		"signed_out_apps": {Template: "signed_out", Data: web.SignedOut{Continue: "https://shop.example.com/", Apps: signingOut}},
		"signing_out":     {Template: "signing_out", Data: web.SigningOut{Apps: signingOut, End: "/sso/leave?end=1&flow=f"}},
		"account": {
			Template: "dashboard", Nav: Nav,
			Data: web.Dashboard{
				Key: "overview", Names: []string{"demo@example.com", "staff, editors"},
				Cards: []web.Card{
					{Icon: "lock", Title: "account.security", URL: "/account/security", Text: web.Say("card.security.on"), Kind: "good"},
					{Icon: "device", Title: "account.devices", URL: "/account/devices", Text: web.Say("card.devices", "n", 2)},
				},
				Parts: []web.Part{
					{Facts: []web.Fact{
						{Label: "account.username", Value: "demo@example.com"},
						{Label: "profile.gender", Text: web.Say("profile.gender.U")},
					}},
					{
						ID: "attention", Title: web.Say("account.attention"),
						Rows: []web.Row{{
							Icon: "mail", Title: web.Say("attention.email_unverified"),
							Actions: []web.Action{{Label: "attention.verify", URL: "/account/profile"}},
						}},
					},
				},
			},
		},
		"account_parts": {
			Template: "dashboard", Status: 422, Nav: Nav,
			Data: web.Dashboard{
				Key: "applications", Done: "done.withdrawn", Problem: "problem.wait", Wait: 40, Cancel: "/account/security",
				Parts: []web.Part{
					{
						Rows: []web.Row{{
							Icon: "app", Name: "The shop", Mark: web.Say("device.this"),
							Details: []web.Text{web.Say("application.since", "time", time.Date(2026, 3, 1, 9, 5, 0, 0, time.UTC))},
							Scopes:  []web.ScopeLine{{Name: "openid"}},
							Actions: []web.Action{{
								Label: "application.withdraw", URL: "/account/applications", CSRF: "t",
								Fields: []web.Hidden{{Name: "application", Value: "shop"}},
							}},
						}},
						Links: []web.Action{{Label: "activity.older", URL: "/account/activity?from=20"}},
					},
					{
						ID: "none", Title: web.Say("profile.phones"), Text: web.Say("profile.custom.text"), Empty: "profile.phones.none",
						Form: &web.PartForm{
							Action: "/account/profile/contact", CSRF: "t", Submit: "profile.phones.add",
							Hidden: []web.Hidden{{Name: "do", Value: "add"}},
							Fields: []web.Field{{
								Name: "value", ID: "phone", Type: "tel", Label: "profile.phones.new", Autocomplete: "tel", Problem: "problem.phone",
							}},
						},
					},
				},
			},
		},
		"account_code": {
			Template: "dashboard", Nav: Nav,
			Data: web.Dashboard{Key: "another_device", Cancel: "/account/devices", Parts: []web.Part{
				{
					Text: web.Say("device.another.scan", "time", time.Hour),
					Code: &web.Code{
						QR: web.NewQR(21, func(x, y int) bool { return (x*y+x/3)%3 == 0 }), Text: web.Say("device.another.link"),
						Value: "https://auth.example.com/sign-in/token?token=t",
					},
				},
				{
					Text: web.Say("device.another.again.text"),
					Form: &web.PartForm{Action: "/account/devices/sign-in", CSRF: "t", Submit: "device.another.again", Quiet: true},
				},
			}},
		},
		"console": {Template: "console", Nav: consoleNav, Data: web.Console{
			Title: web.Say("console.persons.title"), Done: web.Say("console.done.remove"),
			Actions: []web.Action{{Label: "console.act.create", URL: "/admin/persons/create"}},
			Filter: &web.Filter{
				Action: "/admin/persons", Clear: "/admin/persons", Hidden: []web.Hidden{{Name: "sort", Value: "name"}},
				Fields: []web.Field{
					{Name: "q", Type: "search", Label: "console.field.search", Hint: "console.persons.search", Value: "an"},
					{
						Name: "state", Type: "select", Label: "console.field.state",
						Options: []web.Option{{Value: "", Label: "console.any"}, {Value: "ACTIVE", Label: "console.state.active"}},
					},
				},
			},
			Parts: []web.ConsolePart{{Table: &web.Table{
				Label:   web.Say("console.persons.title"),
				Columns: []string{"console.column.person", "console.column.state", "console.column.action"}, First: "/admin/persons",
				Next: "/admin/persons?after=b",
				Rows: []web.TableRow{{
					URL: "/admin/persons/1",
					Cells: []web.Cell{
						{Name: "ann@example.com", Note: "Ann Example"},
						{Text: web.Say("console.state.active"), Kind: "good"},
						{Text: web.Say("console.act.leave"), URL: "/admin/persons/1/leave?group=staff"},
					},
				}},
			}}},
		}},
		"console_one": {Template: "console", Nav: consoleNav, Data: web.Console{
			Name: "ann@example.com", Sub: "ann@example.com", Up: &web.Up{Label: web.Say("console.persons.title"), URL: "/admin/persons"},
			Lead: web.Say("console.person.self"), Done: web.Say("console.done.block"),
			Undo: &web.ConsoleForm{Action: "/admin/persons/1/unblock", CSRF: "t", Hidden: []web.Hidden{{Name: "undo", Value: "block"}}},
			Tags: []web.Cell{{Text: web.Say("console.state.blocked"), Kind: "bad"}, {Text: web.Say("console.role.owner"), Kind: "plain"}},
			Cards: []web.Card{{
				Icon: "device", Title: "console.sessions.title", URL: "/admin/sessions",
				Text: web.Say("console.count", "n", 3), Kind: "warn",
			}},
			Parts: []web.ConsolePart{
				{
					Facts: []web.ConsoleFact{
						{Label: "console.field.id", Cells: []web.Cell{{Name: "0c4e", Code: true}}},
						{
							Label: "console.column.created",
							Cells: []web.Cell{{
								Text: web.Say("console.time", "time", time.Date(2026, 3, 1, 9, 5, 0, 0, time.UTC)),
								Hint: web.Say("console.session.this"),
							}},
						},
					},
					Actions: []web.Action{
						{Label: "console.act.edit", URL: "/admin/persons/1/edit"},
						{Label: "console.act.block", URL: "/admin/persons/1/block", Danger: true},
					},
				},
				{
					ID: "groups", Half: true, Title: web.Say("console.groups.title"), Text: web.Say("console.client.source.text"),
					Empty: &web.Empty{
						Text: web.Say("console.person.groups.none"),
						Next: &web.Action{Label: "console.act.join", URL: "/admin/persons/1/join"},
					},
				},
				{ID: "caddyfile", Half: true, Title: web.Say("console.client.source"), Source: "client wiki"},
				{
					ID: "numbers", Title: web.Say("console.numbers.title"),
					Charts: []web.Chart{
						{Label: web.Say("console.chart.sign_ins"), Total: "7", Counts: []int64{0, 2, 5}},
						{Label: web.Say("console.chart.failures"), Total: "0", Counts: []int64{0, 0, 0}, Bad: true},
					},
					Choices: []web.Choice{
						{Label: "console.period.hour", URL: "/admin?period=hour"},
						{Label: "console.period.day", URL: "/admin?period=day", Current: true},
					}, Fold: web.Say("console.chart.table"),
					Table: &web.Table{
						Label: web.Say("console.numbers.title"), Columns: []string{"console.column.time"},
						Rows: []web.TableRow{{Cells: []web.Cell{{Text: web.Say("console.time", "time", time.Date(2026, 3, 1, 9, 0, 0, 0, time.UTC))}}}},
					},
				},
			},
		}},
		"console_asks": {Template: "console", Status: 422, Nav: consoleNav, Data: web.Console{
			Title: web.Say("console.act.invite.title"), Up: &web.Up{Name: "ann@example.com", URL: "/admin/persons"},
			Lead: web.Say("console.act.invite.text", "n", 50), Problem: web.Say("console.problem.gone"),
			Parts: []web.ConsolePart{{Form: &web.ConsoleForm{
				Action: "/admin/persons/invite", CSRF: "t", Submit: "console.act.invite",
				Cancel: "/admin/persons", Danger: true, Hidden: []web.Hidden{{Name: "group", Value: "staff"}},
				Fields: []web.Field{
					{
						Name: "addresses", Type: "textarea", Label: "console.field.addresses", Hint: "console.field.addresses.hint",
						Value: "a@example.com", Required: true, Problem: "console.problem.addresses",
					},
					{Name: "keep", Type: "checkbox", Label: "console.field.keep", Checked: true},
				},
			}}},
		}},
		"console_secret": {Template: "console", Nav: consoleNav, Data: web.Console{
			Title: web.Say("console.secret.title"), Refresh: 5,
			Parts: []web.ConsolePart{{
				Secret:  &web.Secret{Text: web.Say("console.secret.once"), Value: "s3cr3t"},
				Actions: []web.Action{{Label: "console.secret.kept", URL: "/admin/applications/wiki"}},
			}},
		}},
		"form_post": {
			Template: "form_post", Client: Shop,
			Data: web.FormPost{
				Action: "https://shop.example.com/callback?x=1",
				Fields: []web.Hidden{{Name: "code", Value: "c"}, {Name: "state", Value: "a \"state\""}},
			},
		},
		"form_post_away": {
			Template: "form_post",
			Data:     web.FormPost{Action: "https://idp.example.com/sso", Away: true, Fields: []web.Hidden{{Name: "SAMLRequest", Value: "PHg+"}}},
		},
		"sign_in_first": {
			Template: "sign_in", Client: Shop,
			Data: web.SignIn{Action: "/sign-in?flow=f", CSRF: "t", CanRemember: true, Cancel: "/c", Providers: twoProviders, NoPassword: true},
		},
		"sign_in_both": {
			Template: "sign_in", Client: Shop,
			Data: web.SignIn{
				Action: "/sign-in?flow=f", CSRF: "t", CanRemember: true, Cancel: "/c", Providers: twoProviders,
				ForgotURL: "/forgot?flow=f", SignUpURL: "/sign-up?flow=f",
			},
		},
		"sign_in_list": {
			Template: "sign_in", Client: Shop,
			Data: web.SignIn{Action: "/sign-in?flow=f", CSRF: "t", Cancel: "/c", Providers: twoProviders, NoForm: true, NoPassword: true},
		},
		"connect": {
			Template: "connect", Client: Shop,
			Data: web.Connect{
				Action: "/sign-in/connect?flow=f", CSRF: "t", Provider: "Partner account", Account: "demo@example.com",
				Username: "demo@example.com", Cancel: "/c",
			},
		},
		"connect_agree": {
			Template: "connect", Client: Shop,
			Data: web.Connect{
				Action: "/sign-in/connect?flow=f", CSRF: "t", Provider: "Partner account", Account: "d.person@partner.example",
				Known: "demo@example.com", Cancel: "/c",
			},
		},
		"connect_wrong": {
			Template: "connect", Status: 422, Client: Shop,
			Data: web.Connect{
				Action: "/sign-in/connect?flow=f", CSRF: "t", Provider: "Partner account", Account: "demo@example.com",
				Username: "demo@example.com", Problem: "problem.coupled",
			},
		},
		"forward": {
			Template: "forward", Client: Shop,
			Data: web.Forward{Name: "Partner account", To: "/sign-in/provider?flow=f&idp=partner"},
		},
		"trouble": {
			Template: "trouble", Status: 502, Client: Shop,
			Data: web.Trouble{
				Key: "trouble.down", Name: "Partner account", Again: "/sign-in/provider?flow=f&idp=partner",
				Other: "/sign-in?flow=f&choose=1", Cancel: "/c",
			},
		},
		"step_up": {
			Template: "step_up", Client: Shop,
			Data: web.StepUp{
				Account: "demo@example.com", Method: "authenticator", Action: "/step-up?flow=f&method=authenticator", CSRF: "t",
				Digits: true, Others: "/step-up?flow=f&choose=1", Cancel: "/c",
			},
		},
		"step_up_wrong": {
			Template: "step_up", Status: 422,
			Data: web.StepUp{
				Account: "demo@example.com", Method: "recovery", Action: "/step-up?flow=f&method=recovery", CSRF: "t",
				Problem: "problem.code",
			},
		},
		"step_up_wait": {
			Template: "step_up", Status: 429,
			Data: web.StepUp{
				Account: "demo@example.com", Method: "authenticator", Action: "/step-up?flow=f&method=authenticator", CSRF: "t",
				Digits: true, Problem: "problem.wait", Wait: 40,
			},
		},
		"step_up_send": {
			Template: "step_up", Client: Shop,
			Data: web.StepUp{
				Account: "demo@example.com", Method: "email", Action: "/step-up?flow=f&method=email", CSRF: "t", Digits: true,
				Send: true, To: "d•••@example.com", Others: "/step-up?flow=f&choose=1", Cancel: "/c",
			},
		},
		"step_up_sent": {
			Template: "step_up", Client: Shop,
			Data: web.StepUp{
				Account: "demo@example.com", Method: "email", Action: "/step-up?flow=f&method=email", CSRF: "t", Digits: true,
				Send: true, Sent: true, To: "d•••@example.com", Cancel: "/c",
			},
		},
		"step_up_pin": {
			Template: "step_up",
			Data: web.StepUp{
				Account: "demo@example.com", Method: "pin", Action: "/step-up?flow=f&method=pin", CSRF: "t",
				Digits: true, Hidden: true,
			},
		},
		"sign_in_passkey": {
			Template: "sign_in", Client: Shop,
			Data: web.SignIn{
				Action: "/sign-in?flow=f", CSRF: "t", CanRemember: true,
				Passkey: &web.Passkey{
					Action: "/sign-in/passkey?flow=f", CSRF: "t", Options: `{"challenge":"AAEC","rpId":"auth.example.com"}`,
					Offer: true, Quiet: true, Remember: true, Again: "/sign-in?flow=f", Label: "sign_in.passkey", Life: 300,
				},
			},
		},
		"sign_in_level": {
			Template: "sign_in", Client: Shop,
			Data: web.SignIn{
				Action: "/sign-in?flow=f", CSRF: "t", NoForm: true, Cancel: "/c",
				Passkey:   &web.Passkey{Action: "/sign-in/passkey?flow=f", CSRF: "t", Options: "{}", Label: "sign_in.passkey", Life: 140},
				Providers: []web.Provider{{Name: "Partner", URL: "/sign-in/provider?flow=f&idp=p"}},
			},
		},
		"step_up_passkey": {
			Template: "step_up_passkey", Client: Shop,
			Data: web.StepUpPasskey{
				Account: "demo@example.com", Others: "/step-up?flow=f&choose=1", Cancel: "/c",
				Passkey: &web.Passkey{
					Action: "/step-up/passkey?flow=f", CSRF: "t", Options: `{"challenge":"AAEC"}`,
					Label: "step_up.passkey.choice", Life: 300,
				},
			},
		},
		"passkey_add": {
			Template: "passkey_add",
			Data: web.PasskeyAdd{
				Cancel: "/account/security",
				Passkey: &web.Passkey{
					Action: "/account/security/passkeys/add", CSRF: "t",
					Options: `{"challenge":"AAEC","user":{"name":"\u003cb>\"'"}}`, Create: true, Label: "security.passkey.add", Life: 300,
				},
			},
		},
		"passkey_upgrade": {
			Template: "passkey_upgrade", Signals: `{"signalUnknownCredential":{"rpId":"localhost","credentialId":"AAEC"}}`,
			Data: web.PasskeyUpgrade{Action: "/sign-in/passkey/new?flow=f", CSRF: "t", Options: `{"challenge":"AAEC","user":{"id":"AA"}}`},
		},
		"passkey_add_full": {Template: "passkey_add", Data: web.PasskeyAdd{Full: 20, Cancel: "/account/security"}},
		"passkey_name": {
			Template: "passkey_name",
			Data:     web.PasskeyName{Action: "/account/security/passkeys/name?id=i", CSRF: "t", Name: "Phone", Cancel: "/account/security"},
		},
		"pin": {Template: "pin", Data: web.PIN{Action: "/account/security/pin", CSRF: "t", Cancel: "/account/security"}},
		"pin_wrong": {
			Template: "pin", Status: 422,
			Data: web.PIN{Action: "/account/security/pin", CSRF: "t", Problem: "problem.pin_easy"},
		},
		"invitation": {
			Template: "invitation",
			Data: web.Invitation{Action: "/invitation", CSRF: "t", Account: "guest@example.com", Fields: []web.Field{
				{Name: "password", Type: "password", Label: "invitation.password", Autocomplete: "new-password"},
			}, Providers: twoProviders},
		},
		"invitation_choice": {
			Template: "invitation_check",
			Data:     web.InvitationCheck{Action: "/invitation/check", CSRF: "t", Skip: true, Choices: twoWays},
		},
		"invitation_none": {Template: "invitation_check", Data: web.InvitationCheck{Action: "/invitation/check", CSRF: "t"}},
		"invitation_birthdate": {Template: "invitation_check", Status: 422, Data: web.InvitationCheck{
			Action: "/invitation/check?way=birthdate", CSRF: "t", Way: "birthdate", Problem: "problem.invitation", Choices: twoWays,
			Fields: []web.Field{{
				Name: "answer", Type: "date", Label: "invitation_check.birthdate.label", Autocomplete: "bday",
				Required: true, Invalid: true,
			}},
		}},
		"invitation_sms": {
			Template: "invitation_check",
			Data:     web.InvitationCheck{Action: "/invitation/check?way=sms", CSRF: "t", Way: "sms", To: "•••\u00a0678", Send: true},
		},
		"invitation_code": {Template: "invitation_check", Data: web.InvitationCheck{
			Action: "/invitation/check?way=code", CSRF: "t", Way: "code",
			Fields: []web.Field{{Name: "answer", Type: "code", Label: "invitation_check.code.label", InputMode: "text"}},
		}},
		"push_approve": {
			Template: "push",
			Data: web.Push{
				Key: "approve", Fill: []any{"account", "demo@example.com"}, Action: "/push/approve?id=p", CSRF: "t", Deny: true,
				Fields: web.Fields(false, web.Field{Name: "number", Type: "code", Label: "push.number", MaxLength: 2, Required: true}),
				Facts:  []web.PushFact{{Label: "push.address", Value: web.Say("push.value", "value", "203.0.113.7")}},
			},
		},
		"push_wait": {
			Template: "push", Client: Shop,
			Data: web.Push{Key: "wait", Number: "47", Refresh: true, Others: "/step-up?flow=f&choose=1", Cancel: "/c"},
		},
		"push_scan": {
			Template: "push", Client: Shop,
			Data: web.Push{
				Key: "scan", Number: "47", QR: &drawn, Link: "https://auth.example.com/phone?token=ghqc_x",
				Open: "https://shop.example.com/app?token=ghqc_x",
				Stores: []web.FormLink{
					{Label: "push_scan.app_store", URL: "https://shop.example.com/ios"},
					{Label: "push_scan.play_store", URL: "https://shop.example.com/android"},
				}, Refresh: true, ForClient: true,
				Others: "/sign-in?flow=f&choose=1", Cancel: "/c",
			},
		},
		"push_scan_again": {
			Template: "push", Client: Shop,
			Data: web.Push{
				Key: "scan_again", ForClient: true, Problem: "problem.scan_over", Action: "/sign-in/phone?flow=f", CSRF: "t",
				Others: "/sign-in?flow=f&choose=1",
			},
		},
		"push_scan_confirm": {
			Template: "push",
			Data: web.Push{
				Key: "scan_confirm", Fill: []any{"account", "demo@example.com"}, Message: "Your PIN, <please>.",
				Action: "/phone?id=p", CSRF: "t", Deny: true,
			},
		},
		"push_scan_approve": {
			Template: "push", Status: 422,
			Data: web.Push{
				Key: "scan_approve", Fill: []any{"account", "demo@example.com"}, Problem: "problem.scan_number", Action: "/phone?id=p",
				CSRF: "t", Deny: true, Fields: web.Fields(true,
					web.Field{Name: "number", Type: "code", Label: "push.number", MaxLength: 2, Required: true, Invalid: true}),
			},
		},
		"push_scan_app":    {Template: "push", Data: web.Push{Key: "scan_app", Open: "https://shop.example.com/app?token=ghqc_x"}},
		"push_scan_set_up": {Template: "push", Data: web.Push{Key: "scan_set_up", Set: "/account/security"}},
		"sign_in_phone": {
			Template: "sign_in", Client: Shop,
			Data: web.SignIn{
				Action: "/sign-in?flow=f", CSRF: "t", CanRemember: true, PhoneURL: "/sign-in/phone?flow=f", Cancel: "/c",
				Providers: twoProviders,
			},
		},
		"step_up_choose": {
			Template: "step_up", Client: Shop,
			Data: web.StepUp{
				Account: "demo@example.com",
				Choices: []web.StepUpChoice{
					{Method: "authenticator", URL: "/step-up?flow=f&method=authenticator"},
					{Method: "recovery", URL: "/step-up?flow=f&method=recovery"},
				}, Cancel: "/c",
			},
		},
		"step_up_set_up": {
			Template: "step_up", Client: Shop,
			Data: web.StepUp{
				Account: "demo@example.com", SetUp: true,
				Choices: []web.StepUpChoice{{Method: "authenticator", URL: "/account/security/authenticator?flow=f"}}, Cancel: "/c",
			},
		},
		"security": {
			Template: "security",
			Data: web.Security{
				Back: "/account",
				Sections: []web.SecuritySection{
					{
						Key: "authenticator", State: "on",
						Actions: []web.SecurityAction{{Label: "security.remove", URL: "/account/security/remove?method=authenticator"}},
					},
					{
						Key: "recovery", State: "on", Count: 7,
						Items: []web.Row{{
							Icon: "key", Name: "An item", Details: []web.Text{web.Say("security.passkey.added", "time", "yesterday")},
							Actions: []web.Action{{Label: "security.remove", URL: "/account/security/remove"}},
						}},
						Actions: []web.SecurityAction{{Label: "security.recovery.new", URL: "/account/security/recovery"}},
					},
				},
			},
		},
		"security_none": {Template: "security", Data: web.Security{Back: "/account"}},
		"authenticator": { //nolint:gosec // not a real secret
			Template: "authenticator",
			Data: web.Authenticator{
				Action: "/account/security/authenticator", CSRF: "t",
				QR:     web.NewQR(21, func(x, y int) bool { return (x*y+x/3)%3 == 0 }),
				URI:    "otpauth://totp/Gatehouse:demo%40example.com?secret=JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP&issuer=Gatehouse",
				Secret: "JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP", Cancel: "/account/security",
			},
		},
		"authenticator_wrong": { //nolint:gosec // not a real secret
			Template: "authenticator", Status: 422,
			Data: web.Authenticator{
				Action: "/account/security/authenticator", CSRF: "t", QR: web.NewQR(21, func(x, y int) bool { return x == y }),
				Secret: "JBSWY3DPEHPK3PXP", Problem: "problem.code_app",
			},
		},
		"recovery": {
			Template: "recovery",
			Data: web.Recovery{
				Codes: []string{"abcd-efgh-2345-6777", "bbcd-efgh-2345-6777", "cbcd-efgh-2345-6777"}, Added: "authenticator",
				Action: "/account/security/recovery/file", CSRF: "t", Next: "/account/security",
			},
		},
		"confirm": {
			Template: "confirm",
			Data: web.Confirm{
				Key: "remove.authenticator", Action: "/account/security/remove?method=authenticator", CSRF: "t",
				Cancel: "/account/security",
			},
		},
		"message": {Template: "message", Data: web.Message{Key: "signed_out", Next: "/account"}},
		"form": {
			Template: "form", Client: Shop,
			Data: web.Form{Key: "forgot", Action: "/forgot?flow=f", CSRF: "t", Cancel: "/sign-in?flow=f", Fields: web.Fields(false,
				web.Field{Name: "username", Label: "forgot.label", Autocomplete: "username", Required: true})},
		},
		"form_wrong": {Template: "form", Status: 422, Data: web.Form{Key: "reset", Action: "/reset", CSRF: "t", Fields: web.Fields(false,
			web.Field{
				Name: "password", Type: "password", Label: "sign_in.password", Autocomplete: "new-password", Required: true,
				Problem: "problem.password", Lines: []web.Text{web.Say("duration.minutes", "n", 12)},
			})}},
		"form_done": {
			Template: "form",
			Data: web.Form{
				Key: "forgot_sent", Good: "forgot_sent.again", Next: "/sign-in",
				Links: []web.FormLink{{Label: "forgot_sent.again", URL: "/forgot"}},
			},
		},
		"form_wait": {
			Template: "form", Status: 429,
			Data: web.Form{
				Key: "sign_up_code", Fill: []any{"to", "demo@example.com"}, Action: "/sign-up/confirm", CSRF: "t",
				Problem: "problem.sent", Wait: 40, Other: &web.OtherButton{Name: "send", Label: "step_up.send_again"},
				Fields: web.Fields(true, web.Field{Name: "code", Type: "code", Label: "step_up.email.label", Required: true, Invalid: true}),
			},
		},
		"form_read": {Template: "form", Data: web.Form{Key: "reset_done", Next: "/sign-in"}},
		"form_good": {
			Template: "form",
			Data: web.Form{
				Key: "activate_wait", Fill: []any{"to", "d•••@example.com"}, Action: "/sign-in/activate?flow=f", CSRF: "t", Send: true,
				Good: "activate_wait.sent", Cancel: "/sign-in?flow=f",
			},
		},
		"form_sign_up": {
			Template: "form", Status: 422, Client: Shop,
			Data: web.Form{
				Key: "sign_up", Action: "/sign-up?flow=f", CSRF: "t", Cancel: "/sign-in?flow=f",
				Fields: web.Fields(false, web.Field{
					Name: "email", Type: "email", Label: "sign_up.email", Value: "a@b", Autocomplete: "email",
					Required: true, Problem: "problem.email",
				},
					web.Field{
						Name: "password", Type: "password", Label: "sign_in.password", Autocomplete: "new-password", Required: true,
						Lines: []web.Text{web.Say("password.rule.length", "min", 8, "max", 256)},
					}),
			},
		},
		"token": {
			Template: "token",
			Data:     web.Token{Action: "/sign-in/token", CSRF: "t", Account: "demo@example.com", Detail: "Demo Person"},
		},
		"token_made": {
			Template: "token",
			Data: web.Token{
				Action: "/sign-in/token", CSRF: "t", Account: "demo@example.com", Made: true,
				Other: "other@example.com", Cancel: "/account",
			},
		},
	}
}

// signingOut are service providers of a session that has ended.
var signingOut = []web.SigningOutApp{{Name: "Wiki", URL: "/sso/leave?flow=f&to=0"}, {Name: "Desk", URL: "/sso/leave?flow=f&to=1"}}
