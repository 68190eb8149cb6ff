package signup

import (
	"strings"

	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/webflow"
	"github.com/gatehouse-id/gatehouse/internal/username"
	"github.com/gatehouse-id/gatehouse/internal/web"
)

// inputs returns the fields of the page.
func (x *registration) inputs() (list []web.Field) {
	t := &x.typed
	details := t.personFields(x.u)
	for i := range details {
		f := &details[i]
		f.ReadOnly = f.Name == "given_name" && x.isFixed(f.Name, x.says.GivenName) ||
			f.Name == "family_name" && x.isFixed(f.Name, x.says.FamilyName)
	}
	if !x.named {
		return append(details, webflow.CustomInputs(x.fields, t.Custom, t.problems)...)
	}
	if x.chooses {
		name := t.field("username", "text", t.Username, "username")
		if name.Label = "register.username"; name.Problem == "" {
			name.Hint = "register.username.hint"
		}
		list = append(list, name)
	}
	if x.keepsEmail() {
		email := t.field("email", "email", x.says.Email, "email")
		email.ReadOnly = true
		list = append(list, email)
	} else {
		list = append(list, t.emailFields(x.u)...)
	}
	list = append(append(list, details...), webflow.CustomInputs(x.fields, t.Custom, t.problems)...)
	return append(list, t.passwordField(x.u))
}

// readForm reads the form and notes what is wrong with each field. Values that are not asked for, or that cannot be
// changed, are those of the provider.
func (x *registration) readForm(q *webflow.Request) {
	t := readSignUp(q)
	if x.named && !x.keepsEmail() {
		t.checkEmail(x.u)
	} else {
		t.Email, t.Verified = x.says.Email, *x.says.EmailVerified
		t.accept("email")
		t.accept("email_again")
	}
	t.checkPerson(x.u)
	if there, _ := asks(x.u, "given_name"); !there || x.isFixed("given_name", x.says.GivenName) {
		t.GivenName = x.says.GivenName
		t.accept("given_name")
	}
	if there, _ := asks(x.u, "family_name"); !there || x.isFixed("family_name", x.says.FamilyName) {
		t.FamilyName = x.says.FamilyName
		t.accept("family_name")
	}
	t.Custom = webflow.ReadCustom(x.fields, q.PostForm, t.problems)
	if x.named {
		t.checkPassword(q)
		if t.Username = t.Email; x.chooses {
			t.readUsername(q)
		}
	}
	x.typed = *t
}

// readUsername reads the username and notes what is wrong with it.
func (t *signUpInput) readUsername(q *webflow.Request) {
	if t.Username = strings.TrimSpace(q.PostForm.Get("username")); !person.IsText(t.Username, person.MaxUsername) {
		t.Username = "" // not shown again
		t.problem("username", "problem.username_form")
	}
	if problem := usernameProblem(t.Username, t.Email); problem != "" {
		t.problem("username", problem)
	}
}

// usernameProblem says what is wrong with a chosen username, or "". An address of another person would keep that person
// out.
func usernameProblem(name, email string) string {
	folded, err := person.Fold(name) // also turns full-width letters into usual ones
	switch {
	case name == "":
		return "problem.required"
	case err != nil, person.IsID(folded), strings.Contains(folded, `\`):
		return "problem.username_form"
	case strings.Contains(folded, "@") && person.FoldEmail(name) != person.FoldEmail(email):
		return "problem.username_email"
	case username.Reserved(folded):
		return "problem.username_reserved"
	}
	return ""
}
