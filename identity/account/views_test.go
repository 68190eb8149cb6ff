package account_test

import (
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/gatehouse-id/gatehouse/identity/identitytest"
	"github.com/gatehouse-id/gatehouse/identity/notify/notifytest"
	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/internal/authn"
	"github.com/gatehouse-id/gatehouse/storage"
)

// of returns the answer to one request and the number of its transactions.
func of(c *identitytest.CountingStore, send func() *identitytest.Answer) (a *identitytest.Answer, views, updates int64) {
	c.Views.Store(0)
	c.Updates.Store(0)
	a = send()
	return a, c.Views.Load(), c.Updates.Load()
}

// accounting returns a signed-in browser, with settings under which the account pages show everything.
func accounting(t *testing.T) (*identitytest.Harness, *identitytest.Browser, *settings.Units, *notifytest.Notices) {
	t.Helper()
	e, u, box := identitytest.NewFederated(t), settings.Defaults(), new(notifytest.Notices)
	h := e.Harness
	h.Units, h.Notices = func(storage.Tx) (*settings.Units, error) { return &u, nil }, box
	h.Start()
	h.Account.Tie(&given{person: h.Details(identitytest.Demo).ID, list: []authn.Application{{ID: "shop", Name: "The shop"}}})
	b := h.Browser()
	b.SignIn(identitytest.Demo, identitytest.DemoPassword)
	u.Attributes.Verification.EmailEnabled = true
	u.Features.ActionToken.Login = settings.ActionTokenLogin{Enabled: true, TTL: 600, AuthenticationLevel: 1, UIGenerationEnabled: true}
	wantDone(t, "an address", sendTo(b, "/account/profile", "form", "address", "street", "Main Street"), "/account/profile?done=saved")
	return h, b, &u, box
}

// TestViewsOfAccountPages limits the transactions per request of an account page. The first View reads the settings,
// the sign-in and the flow. The second one reads what the page shows and the level that it demands.
func TestViewsOfAccountPages(t *testing.T) {
	t.Parallel()
	const (
		contact = "/account/profile/contact"
		confirm = "/account/profile/confirm"
		address = "/account/profile/address"
		another = "/account/devices/sign-in"
		deletes = "/account/data/delete"
		second  = "another correct horse 2"
	)
	h, b, _, box := accounting(t)
	h.Browser().SignIn(identitytest.Demo, identitytest.DemoPassword)
	code := func() string {
		for _, n := range box.Take() {
			if n.Data["code"] != "" {
				return n.Data["code"]
			}
		}
		t.Fatal("no code was sent")
		return ""
	}
	var right string
	c := h.Count()
	for _, step := range []struct {
		name          string
		from, to      string // the page with the form and the target of the POST; without from, a GET
		fields        []string
		prepare       func()
		status        int
		views         int64
		updates       int64
		whatIsUpdated string
	}{
		{name: "overview", to: "/account", status: 200, views: 2},
		{name: "profile", to: "/account/profile", status: 200, views: 2},
		{name: "address", to: address, status: 200, views: 2},
		{name: "activity", to: "/account/activity", status: 200, views: 2},
		{name: "applications", to: "/account/applications", status: 200, views: 2},
		{name: "devices", to: "/account/devices", status: 200, views: 2},
		{name: "another device", to: another, status: 200, views: 2},
		{name: "accounts elsewhere", to: "/account/security/accounts", status: 200, views: 2},
		{name: "password", to: "/account/security/password", status: 200, views: 2},
		{name: "data", to: "/account/data", status: 200, views: 1},
		{name: "download", to: "/account/data/download", status: 200, views: 2, updates: 1, whatIsUpdated: "the event"},
		{name: "deletion", to: deletes, status: 200, views: 2},
		{name: "no code to confirm", to: confirm, status: 303, views: 2},

		{
			name: "profile saved", from: "/account/profile?edit=details", to: "/account/profile",
			fields: []string{"form", "details", "given_name", "Ann"},
			status: 303, views: 2, updates: 1, whatIsUpdated: "the person",
		},
		{
			name: "profile refused", from: "/account/profile?edit=details", to: "/account/profile",
			fields: []string{"form", "details", "date_of_birth", "x"}, status: 422, views: 2,
		},
		{
			name: "a number", from: "/account/profile?edit=details", to: contact,
			fields: []string{"kind", "phone", "do", "add", "value", "+31 6 12345678"},
			status: 303, views: 2, updates: 1, whatIsUpdated: "the person",
		},
		{
			name: "no number", from: "/account/profile?edit=details", to: contact,
			fields: []string{"kind", "phone", "do", "add", "value", "12"}, status: 422, views: 2,
		},
		{
			name: "an address to confirm", from: "/account/profile?edit=details", to: contact,
			fields: []string{"kind", "email", "do", "add", "value", "new@example.org"},
			status: 303, views: 2, updates: 1, whatIsUpdated: "the code with its counters",
		},
		{
			name: "another one too soon", from: "/account/profile?edit=details", to: contact,
			fields: []string{"kind", "email", "do", "add", "value", "newer@example.org"},
			status: 429, views: 2, updates: 1, whatIsUpdated: "nothing: the counters are judged where they are counted",
		},
		{name: "the code", to: confirm, status: 200, views: 2},
		{
			name: "a wrong code", from: confirm, to: confirm, fields: []string{"code", "-"},
			status: 422, views: 2, updates: 1, whatIsUpdated: "the counter of attempts",
		},
		{
			name: "the right code", from: confirm, to: confirm, prepare: func() { right = code() },
			status: 303, views: 2, updates: 2, whatIsUpdated: "the counter of attempts; the code and the person",
		},
		{
			name: "a postal address", from: address, to: address, fields: []string{"do", "save", "was", "", "street", "Side Street"},
			status: 303, views: 2, updates: 1, whatIsUpdated: "the person",
		},
		{
			name: "a postal address removed", from: "/account/profile?edit=details", to: address, fields: []string{"do", "remove", "was", "-"},
			status: 303, views: 1, updates: 1, whatIsUpdated: "the person",
		},
		{
			name: "an application that is gone", from: "/account/applications", to: "/account/applications",
			fields: []string{"application", "x"}, status: 303, views: 2,
		},
		{
			name: "a link", from: another, to: another, status: 200, views: 2, updates: 1, whatIsUpdated: "the link, its counter and the event",
		},
		{
			name: "all other devices", from: "/account/devices", to: "/account/devices", fields: []string{"session", "others"},
			status: 303, views: 1, updates: 1, whatIsUpdated: "the sessions and the event",
		},
		{
			name: "an application", from: "/account/applications", to: "/account/applications", fields: []string{"application", "shop"},
			status: 303, views: 2,
		},
		{
			name: "a provider", from: "/account/security/accounts", to: "/account/security/accounts",
			fields: []string{"do", "connect", "provider", "partner"},
			status: 303, views: 2, updates: 2, whatIsUpdated: "the flow; for whom it is",
		},
		{
			name: "no account to disconnect", from: "/account/security/accounts", to: "/account/security/accounts",
			fields: []string{"do", "disconnect", "provider", "partner"},
			status: 303, views: 2, updates: 1, whatIsUpdated: "nothing: what is left is judged where it is removed",
		},
		{
			name: "a wrong password", from: "/account/security/password", to: "/account/security/password",
			fields: []string{"current", "x", "password", second},
			status: 422, views: 2, updates: 2, whatIsUpdated: "the counter of attempts; the event of the failure",
		},
		{
			name: "a new password", from: "/account/security/password", to: "/account/security/password",
			fields: []string{"current", identitytest.DemoPassword, "password", second},
			status: 303, views: 3, updates: 3, whatIsUpdated: "the counter of attempts; its end; the password. The third View reads the policy",
		},
		{
			name: "deletion with a wrong password", from: deletes, to: deletes, fields: []string{"password", "x"},
			status: 422, views: 2, updates: 2, whatIsUpdated: "the counter of attempts; the event of the failure",
		},
		{
			name: "deletion", from: deletes, to: deletes, fields: []string{"password", second},
			status: 200, views: 2, updates: 3, whatIsUpdated: "the counter of attempts; its end; the person",
		},
	} {
		t.Run(step.name, func(t *testing.T) {
			if step.prepare != nil {
				step.prepare()
				step.fields = []string{"code", right}
			}
			send := func() *identitytest.Answer { return b.Do(http.MethodGet, step.to, "") }
			if step.from != "" {
				form := b.Get(step.from)
				send = func() *identitytest.Answer { return b.Fill(form, step.to, step.fields...) }
			}
			a, views, updates := of(c, send)
			if a.Code != step.status {
				t.Fatalf("status %d, want %d\n%s", a.Code, step.status, a.Body)
			}
			if views > step.views || updates > step.updates {
				t.Errorf("%d Views and %d Updates, want at most %d and %d (%s)", views, updates, step.views, step.updates, step.whatIsUpdated)
			}
		})
	}
	h.CheckInvariants()
}

// TestViewsOfCompletion limits the transactions of the page that asks for missing profile fields.
func TestViewsOfCompletion(t *testing.T) {
	t.Parallel()
	h, _, u, _ := accounting(t)
	u.Features.PostLoginExtraRegistrationAfterSecondLogin = true
	u.Attributes.PersonCreationMandatoryFields.FirstNameRequired = true
	b := h.Browser()
	form := completes(b, identitytest.Demo, identitytest.DemoPassword)
	c := h.Count()
	if a, views, updates := of(c, func() *identitytest.Answer { return b.Get(form.URL) }); a.Code != http.StatusOK ||
		views > 2 || updates > 0 {
		t.Errorf("GET = %d with %d Views and %d Updates, want 200 with at most 2 and none", a.Code, views, updates)
	}
	send := func() *identitytest.Answer { return b.Post(form, "given_name", "Ann") }
	if a, views, updates := of(c, send); a.Code != http.StatusSeeOther || views > 2 || updates > 1 {
		t.Errorf("POST = %d with %d Views and %d Updates, want 303 with at most 2 and 1 (the person)", a.Code, views, updates)
	}
}

// everChanging matches the parts of a page that differ each time.
var everChanging = regexp.MustCompile(`name="csrf" value="[^"]*"`)

// TestOneConfigurationPerRequest: settings that change after the first View of a request do not affect its answer.
func TestOneConfigurationPerRequest(t *testing.T) {
	t.Parallel()
	h, b, before, _ := accounting(t)
	after := *before
	after.Attributes.Verification.EmailEnabled = false
	after.Attributes.NameVisibleOnDashboard = !before.Attributes.NameVisibleOnDashboard
	after.Attributes.PersonCreationMandatoryFields.FirstNameRequired = true
	after.Features.ActionToken.Login.Enabled = false
	after.Features.GoogleAuthenticatorStepUpAuthenticationEnabled = !before.Features.GoogleAuthenticatorStepUpAuthenticationEnabled
	after.Features.LoginEnabled = false
	after.StepUp.Actions.DashboardStepUpAuthenticationLevel = 4
	after.StepUp.Actions.ChangeEmailAuthenticationLevel = 4
	after.StepUp.Actions.ChangePasswordAuthenticationLevel = 4
	after.PasswordPolicy.MinLength = before.PasswordPolicy.MinLength + 1
	present := before
	h.Units = func(storage.Tx) (*settings.Units, error) { return present, nil }
	h.Start()
	c := h.Count()
	forms := b.Get("/account/profile?edit=details")
	for _, request := range []struct {
		name string
		send func() *identitytest.Answer
	}{
		{"overview", func() *identitytest.Answer { return b.Do(http.MethodGet, "/account", "") }},
		{"profile", func() *identitytest.Answer { return b.Do(http.MethodGet, "/account/profile", "") }},
		{"address", func() *identitytest.Answer { return b.Do(http.MethodGet, "/account/profile/address", "") }},
		{"devices", func() *identitytest.Answer { return b.Do(http.MethodGet, "/account/devices", "") }},
		{"another device", func() *identitytest.Answer { return b.Do(http.MethodGet, "/account/devices/sign-in", "") }},
		{"accounts elsewhere", func() *identitytest.Answer { return b.Do(http.MethodGet, "/account/security/accounts", "") }},
		{"password", func() *identitytest.Answer { return b.Do(http.MethodGet, "/account/security/password", "") }},
		{"deletion", func() *identitytest.Answer { return b.Do(http.MethodGet, "/account/data/delete", "") }},
		{"a contact that is refused", func() *identitytest.Answer {
			return b.Fill(forms, "/account/profile/contact", "kind", "email", "do", "add", "value", "x")
		}},
		{"a profile that is refused", func() *identitytest.Answer {
			return b.Fill(forms, "/account/profile", "form", "details", "date_of_birth", "x")
		}},
	} {
		t.Run(request.name, func(t *testing.T) {
			page := func(first, later *settings.Units) string {
				present = first
				c.Viewed = func() { present = later }
				a := request.send()
				return strings.Join([]string{
					http.StatusText(a.Code), a.Header().Get("Location"),
					everChanging.ReplaceAllString(a.Body.String(), ""),
				}, "\n")
			}
			want := page(before, before)
			if got := page(before, &after); got != want {
				t.Errorf("the answer depends on settings that came later:\n%s\nwant\n%s", got, want)
			}
			if page(&after, &after) == want {
				t.Error("the answer is the same under the later settings, so this shows nothing")
			}
		})
	}
	h.CheckInvariants()
}
