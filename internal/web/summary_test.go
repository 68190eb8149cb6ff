package web_test

import (
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/gatehouse-id/gatehouse/internal/web"
)

var focused = regexp.MustCompile(`<(?:input|select|div|button)[^>]*?(?:name="([^"]*)"|id="(problem)")[^>]*? autofocus>`)

// TestWrongFieldIsInSight: on a page with several fields, a field with a problem has the focus, and a summary on top of
// the page links to each of them.
func TestWrongFieldIsInSight(t *testing.T) {
	t.Parallel()
	p := newRenderer(t, web.Brand{})
	wrong := []web.Field{
		{Name: "street", Label: "profile.street", Value: "Main Street"},
		{Name: "number", ID: "house", Label: "profile.house_number", Value: "12a", Problem: "problem.house_number"},
		{Name: "country", Type: "select", Label: "profile.country", Problem: "problem.country"},
	}
	links := []string{
		`<div class="notice bad" role="alert">`, "Check what you entered:", `<li><a href="#house">House number</a>: Use digits only.`,
		`<li><a href="#country">Country</a>: `,
	}
	for name, tt := range map[string]struct {
		view  web.View
		want  []string
		focus string
	}{
		"account": {
			web.View{Template: "dashboard", Nav: nav, Data: web.Dashboard{Key: "profile", Parts: []web.Part{
				{Form: &web.PartForm{Fields: []web.Field{{Name: "email", Label: "profile.emails.new"}}}},
				{Form: &web.PartForm{Fields: web.Fields(false, wrong...)}},
			}}},
			links, "number",
		},
		"form": {
			web.View{Template: "form", Data: web.Form{Key: "sign_up", Action: "/sign-up", Fields: web.Fields(false, wrong...)}},
			links, "number",
		},
		"invitation": {web.View{Template: "invitation", Data: web.Invitation{Fields: web.Fields(false, wrong...)}}, links, "number"},
		"invitation check": {
			web.View{Template: "invitation_check", Data: web.InvitationCheck{Way: "code", Fields: web.Fields(false, wrong...)}},
			links, "number",
		},
		"phone": {web.View{
			Template: "push",
			Data:     web.Push{Key: "approve", Action: "/push/approve", Fields: web.Fields(false, wrong...)},
		}, links, "number"},
		"password": {web.View{
			Template: "sign_in", Status: http.StatusUnprocessableEntity,
			Data: web.SignIn{Username: "ada", Problem: "problem.mismatch"},
		}, []string{`id="problem" role="alert" tabindex="-1">`}, "password"},
		"username": {web.View{Template: "sign_in", Data: web.SignIn{Problem: "problem.username"}}, []string{`id="problem"`}, "username"},
		"PIN":      {web.View{Template: "pin", Data: web.PIN{Problem: "problem.pin_easy"}}, []string{`id="problem"`}, "pin"},
		"app": {
			web.View{Template: "authenticator", Data: web.Authenticator{Problem: "problem.code_app"}},
			[]string{`id="problem"`},
			"code",
		},
		"step-up": {
			web.View{Template: "step_up", Data: web.StepUp{Method: "recovery", Problem: "problem.code"}},
			[]string{`id="problem"`},
			"code",
		},
		"throttled": {
			web.View{Template: "sign_in", Data: web.SignIn{Username: "ada", Problem: "problem.wait", Wait: 4}},
			[]string{`id="problem"`},
			"problem",
		},
	} {
		body := render(p, tt.view).Body.String()
		for _, want := range tt.want {
			if !strings.Contains(body, want) {
				t.Errorf("%s: the page has no %s: %s", name, want, body)
			}
		}
		if m := focused.FindStringSubmatch(body); m == nil || m[1]+m[2] != tt.focus {
			t.Errorf("%s: the focus is on %q, want %q", name, m, tt.focus)
		}
	}
}

// TestOneFieldNeedsNoSummary: a page with one field shows its problem once, below it.
func TestOneFieldNeedsNoSummary(t *testing.T) {
	t.Parallel()
	one := web.Fields(false, web.Field{Name: "code", Label: "confirm.code", Problem: "problem.code"})
	body := render(newRenderer(t, web.Brand{}),
		web.View{Template: "form", Data: web.Form{Key: "reset", Action: "/reset", Fields: one}}).Body.String()
	if strings.Count(body, `role="alert"`) != 0 || !strings.Contains(body, "autofocus") {
		t.Errorf("the page has a summary, or no focus: %s", body)
	}
}
