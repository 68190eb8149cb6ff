package page_test

import (
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/gatehouse-id/gatehouse/internal/page"
)

var focused = regexp.MustCompile(`<(?:input|select|div|button)[^>]*?(?:name="([^"]*)"|id="(problem)")[^>]*? autofocus>`)

// TestWrongFieldIsInSight: on a page with several fields, a field with a problem has the focus, and a summary on top of
// the page links to each of them.
func TestWrongFieldIsInSight(t *testing.T) {
	t.Parallel()
	p := newRenderer(t, page.Brand{})
	wrong := []page.Field{
		{Name: "street", Label: "profile.street", Value: "Main Street"},
		{Name: "number", ID: "house", Label: "profile.house_number", Value: "12a", Problem: "problem.house_number"},
		{Name: "country", Type: "select", Label: "profile.country", Problem: "problem.country"},
	}
	links := []string{
		`<div class="notice bad" role="alert">`, "Check what you entered:", `<li><a href="#house">House number</a>: Use digits only.`, `<li><a href="#country">Country</a>: `,
	}
	for name, tt := range map[string]struct {
		view  page.View
		want  []string
		focus string
	}{
		"account": {
			page.View{Template: "dashboard", Nav: nav, Data: page.Dashboard{Key: "profile", Parts: []page.Part{
				{Form: &page.PartForm{Fields: []page.Field{{Name: "email", Label: "profile.emails.new"}}}}, {Form: &page.PartForm{Fields: page.Fields(false, wrong...)}},
			}}},
			links, "number",
		},
		"form":             {page.View{Template: "form", Data: page.Form{Key: "sign_up", Action: "/sign-up", Fields: page.Fields(false, wrong...)}}, links, "number"},
		"invitation":       {page.View{Template: "invitation", Data: page.Invitation{Fields: page.Fields(false, wrong...)}}, links, "number"},
		"invitation check": {page.View{Template: "invitation_check", Data: page.InvitationCheck{Way: "code", Fields: page.Fields(false, wrong...)}}, links, "number"},
		"phone":            {page.View{Template: "push", Data: page.Push{Key: "approve", Action: "/push/approve", Fields: page.Fields(false, wrong...)}}, links, "number"},
		"password":         {page.View{Template: "sign_in", Status: http.StatusUnprocessableEntity, Data: page.SignIn{Username: "ada", Problem: "problem.mismatch"}}, []string{`id="problem" role="alert" tabindex="-1">`}, "password"},
		"username":         {page.View{Template: "sign_in", Data: page.SignIn{Problem: "problem.username"}}, []string{`id="problem"`}, "username"},
		"PIN":              {page.View{Template: "pin", Data: page.PIN{Problem: "problem.pin_easy"}}, []string{`id="problem"`}, "pin"},
		"app":              {page.View{Template: "authenticator", Data: page.Authenticator{Problem: "problem.code_app"}}, []string{`id="problem"`}, "code"},
		"step-up":          {page.View{Template: "step_up", Data: page.StepUp{Method: "recovery", Problem: "problem.code"}}, []string{`id="problem"`}, "code"},
		"throttled":        {page.View{Template: "sign_in", Data: page.SignIn{Username: "ada", Problem: "problem.wait", Wait: 4}}, []string{`id="problem"`}, "problem"},
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
	one := page.Fields(false, page.Field{Name: "code", Label: "confirm.code", Problem: "problem.code"})
	body := render(newRenderer(t, page.Brand{}), page.View{Template: "form", Data: page.Form{Key: "reset", Action: "/reset", Fields: one}}).Body.String()
	if strings.Count(body, `role="alert"`) != 0 || !strings.Contains(body, "autofocus") {
		t.Errorf("the page has a summary, or no focus: %s", body)
	}
}
