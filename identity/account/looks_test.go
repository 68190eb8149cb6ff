package account_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/gatehouse-id/gatehouse/identity/identitytest"
)

// TestOverviewSaysHowTheAccountIs: the overview shows whose account it is, and how it is protected; every page of the
// account can sign out.
func TestOverviewSaysHowTheAccountIs(t *testing.T) {
	t.Parallel()
	h, u := identitytest.NewConfigured(t)
	u.Attributes.NameVisibleOnDashboard = true
	b := h.Browser()
	b.SignIn(identitytest.Demo, identitytest.DemoPassword)
	body := b.Get("/account").Body.String()
	for _, want := range []string{
		`<span class="initials" aria-hidden="true">DP</span><p><b>Demo Person</b><span class="hint">` + identitytest.Demo +
			`</span><span class="hint">staff, editors</span>`,
		"Only a password protects your account.", "1 device", "No apps",
	} {
		if !strings.Contains(body, want) {
			t.Errorf("the overview has no %s:\n%s", want, body)
		}
	}
	for _, path := range []string{
		"/account", "/account/profile", "/account/security", "/account/devices", "/account/applications",
		"/account/activity", "/account/data", "/account/data/delete",
	} {
		if body := b.Get(path).Body.String(); !strings.Contains(body, `<form method="post" action="/sign-out">`) {
			t.Errorf("%s cannot sign out:\n%s", path, body)
		}
	}
}

// TestActivityNamesTheWayIn: a sign-in by a passkey or at a provider says so.
func TestActivityNamesTheWayIn(t *testing.T) {
	t.Parallel()
	h, k := identitytest.WithPasskey(t)
	b := h.Browser()
	b.TryPasskey(k)
	if body := b.Get("/account/activity").Body.String(); !strings.Contains(body, "With a passkey") ||
		strings.Contains(body, "You confirmed it’s you") {
		t.Errorf("a sign-in by passkey:\n%s", body)
	}
	e := identitytest.NewFederated(t)
	e.At("partner")
	c := e.Browser()
	e.MustEnter(c, identitytest.Ann())
	if body := c.Get("/account/activity").Body.String(); !strings.Contains(body, "With Partner account") {
		t.Errorf("a sign-in at a provider:\n%s", body)
	}
}

// TestProfileAsksForLittle: the profile is read first. Date of birth, gender and address are asked for only when the
// person wants to give them, or has; the country is chosen from a list.
func TestProfileAsksForLittle(t *testing.T) {
	t.Parallel()
	h, b, _, _ := dashboard(t)
	wants := func(path string, shown ...string) string {
		t.Helper()
		body := b.Get(path).Body.String()
		for _, field := range []string{"given_name", "date_of_birth", "gender", "street", "value"} {
			if got, want := strings.Contains(body, ` id="`+field+`" name="`), slices.Contains(shown, field); got != want {
				t.Errorf("%s has the field %s: %t, want %t", path, field, got, want)
			}
		}
		return body
	}
	body := wants("/account/profile")
	for _, link := range []string{"?edit=details", "?edit=more", "?edit=address", "?edit=email", "?edit=phone"} {
		if !strings.Contains(body, `href="/account/profile`+link+`"`) {
			t.Errorf("the profile does not lead to %s:\n%s", link, body)
		}
	}
	wants("/account/profile?edit=details", "given_name")
	wants("/account/profile?edit=more", "given_name", "date_of_birth", "gender")
	body = wants("/account/profile?edit=address", "street")
	if !strings.Contains(body, `<option value="NL">Netherlands</option>`) || strings.Count(body, "<option") < 200 ||
		strings.Index(body, "Åland") > strings.Index(body, "Belgium") {
		t.Errorf("the countries are:\n%s", body)
	}
	wantDone(t, "a date", sendTo(b, "/account/profile", "form", "details", "given_name", "Ann", "date_of_birth", "1990-12-31", "gender", "F"),
		"/account/profile?done=saved")
	wantDone(t, "names alone", sendTo(b, "/account/profile", "form", "details", "given_name", "Anna"), "/account/profile?done=saved")
	if p := h.Details(identitytest.Demo).Profile; p.DateOfBirth != "1990-12-31" || p.Gender != "F" || p.Name.FirstName != "Anna" {
		t.Errorf("a form that does not show the date of birth has changed it: %+v", p)
	}
	body = wants("/account/profile")
	if !strings.Contains(body, "<dt>Gender</dt><dd>Female</dd>") || !strings.Contains(body, "<dt>Date of birth</dt><dd>1990-12-31</dd>") {
		t.Errorf("the profile does not show what it has:\n%s", body)
	}
	wants("/account/profile?edit=details", "given_name", "date_of_birth", "gender")
	a := sendTo(b, "/account/profile", "form", "details", "given_name", "Ann", "date_of_birth", "x")
	if body := a.Body.String(); a.Code != http.StatusUnprocessableEntity ||
		!strings.Contains(body, `<a href="#date_of_birth">Date of birth</a>`) || strings.Count(body, " autofocus") != 1 {
		t.Errorf("a wrong date = %d:\n%s", a.Code, body)
	}
}
