package signup

import (
	"slices"
	"strings"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/notify"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/identity/webflow"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/web"
)

// signUpInput is the input of a sign-up form.
type signUpInput struct {
	Email       string `cbor:"1,keyasint"`
	GivenName   string `cbor:"2,keyasint,omitempty"`
	FamilyName  string `cbor:"3,keyasint,omitempty"`
	Phone       string `cbor:"4,keyasint,omitempty"`
	PHC         string `cbor:"5,keyasint"` // hash of the password
	Locale      string `cbor:"6,keyasint,omitempty"`
	Verified    bool   `cbor:"7,keyasint,omitempty"` // the address was confirmed
	PhoneProven bool   `cbor:"8,keyasint,omitempty"`
	// Username is chosen in a registration after a provider. Empty: the address is the username.
	Username string                   `cbor:"9,keyasint,omitempty"`
	Custom   []person.CustomAttribute `cbor:"10,keyasint,omitempty"`
	Birth    string                   `cbor:"11,keyasint,omitempty"`

	emailAgain, phoneAgain string
	problems               map[string]string // by field
}

// problem notes what is wrong with a field, unless the field has a problem already.
func (t *signUpInput) problem(field, key string) {
	if t.problems == nil {
		t.problems = map[string]string{}
	}
	if t.problems[field] == "" {
		t.problems[field] = key
	}
}

// accept says that a field, whose value does not come from the form, is right.
func (t *signUpInput) accept(field string) { delete(t.problems, field) }

// readSignUp reads the fields of a form. The password is read later, because hashing takes time.
func readSignUp(q *webflow.Request) *signUpInput {
	t := &signUpInput{problems: map[string]string{}}
	for field, v := range map[string]*string{
		"email": &t.Email, "given_name": &t.GivenName, "family_name": &t.FamilyName, "phone": &t.Phone, "date_of_birth": &t.Birth,
		"email_again": &t.emailAgain, "phone_again": &t.phoneAgain,
	} {
		if *v = strings.TrimSpace(q.PostForm.Get(field)); !person.IsText(*v, person.MaxLine) {
			*v = "" // not shown again
			t.problem(field, "problem.text")
		}
	}
	return t
}

// checkEmail notes what is wrong with the address.
func (t *signUpInput) checkEmail(u *settings.Units) {
	repeats := u.Attributes.SignUpFormFields.EmailConfirmationEnabled
	switch {
	case t.Email == "":
		t.problem("email", "problem.email_missing")
	case !isSignUpAddress(t.Email) || !person.IsPublicEmail(t.Email) || !u.Features.CustomEmailValidation.Check(t.Email):
		t.problem("email", "problem.email")
	case repeats && person.FoldEmail(t.emailAgain) != person.FoldEmail(t.Email):
		t.problem("email_again", "problem.not_same")
	}
}

// isSignUpAddress reports whether an address can be a username as well, and is safe in a header.
func isSignUpAddress(address string) bool {
	_, err := person.Fold(address)
	return err == nil && notify.IsAddress(address) && person.IsEmail(address) && !person.IsID(address) &&
		!strings.Contains(address, `\`)
}

// checkPassword notes that the password is missing.
func (t *signUpInput) checkPassword(q *webflow.Request) {
	if q.PostForm.Get("password") == "" {
		t.problem("password", "problem.password")
	}
}

// demanded are the rules of the settings that the form must meet: of each one field is enough. Rules with the address
// are met, since the form has one.
func demanded(u *settings.Units) (groups [][]string) {
	for _, rule := range u.Profile.Rules {
		var fields []string
		for _, attribute := range rule.AnyOf {
			fields = append(fields, webflow.AttributeFields[attribute]...)
		}
		if len(fields) > 0 && !slices.Contains(fields, "email") {
			groups = append(groups, fields)
		}
	}
	return groups
}

// asks reports whether the form has a field, and whether it is required.
func asks(u *settings.Units, field string) (there, required bool) {
	must := u.Attributes.PersonCreationMandatoryFields
	switch field {
	case "given_name":
		required = must.FirstNameRequired
	case "family_name":
		required = must.LastNameRequired
	case "phone":
		required = must.MobileNumberRequired
		there = u.Attributes.SignUpFormFields.MobileNumberEnabled
	}
	for _, group := range demanded(u) {
		if slices.Contains(group, field) {
			there, required = true, required || len(group) == 1
		}
	}
	return there || required, required
}

// checkPerson notes what is wrong with the names, the date and the number.
func (t *signUpInput) checkPerson(u *settings.Units) {
	typed := map[string]string{"given_name": t.GivenName, "family_name": t.FamilyName, "date_of_birth": t.Birth, "phone": t.Phone}
	for _, field := range []string{"given_name", "family_name", "date_of_birth"} {
		if _, required := asks(u, field); required && typed[field] == "" {
			t.problem(field, "problem.required")
		}
	}
	if there, _ := asks(u, "date_of_birth"); !there {
		t.Birth = ""
	}
	if born, err := time.Parse(time.DateOnly, t.Birth); t.Birth != "" && (err != nil || born.Year() < firstYear) {
		t.problem("date_of_birth", "problem.date")
	}
	t.checkPhone(u)
	for _, group := range demanded(u) {
		if len(group) > 1 && !slices.ContainsFunc(group, func(field string) bool { return typed[field] != "" }) {
			t.problem(group[0], "problem.one_of")
		}
	}
}

const firstYear = 1880 // of a date of birth

func (t *signUpInput) checkPhone(u *settings.Units) {
	there, required := asks(u, "phone")
	if !there {
		t.Phone = ""
		return
	}
	if t.Phone == "" {
		if required {
			t.problem("phone", "problem.required")
		}
		return
	}
	number, ok := person.ParsePhone(t.Phone)
	if !ok {
		t.problem("phone", "problem.phone")
		return
	}
	again, _ := person.ParsePhone(t.phoneAgain)
	if u.Attributes.SignUpFormFields.MobileNumberConfirmationEnabled && again != number {
		t.problem("phone_again", "problem.not_same")
	}
}

// field returns a field of the form.
func (t *signUpInput) field(name, kind, value, autocomplete string) web.Field {
	return web.Field{
		Name: name, Type: kind, Label: "sign_up." + name, Value: value, Autocomplete: autocomplete, Required: true,
		MaxLength: person.MaxLine, Problem: t.problems[name],
	}
}

// fields returns the fields of the form, with the input.
func (t *signUpInput) fields(u *settings.Units) []web.Field {
	list := append(t.emailFields(u), t.personFields(u)...)
	list = append(list, webflow.CustomInputs(person.CustomFieldsOf(u, settings.OwnMethod), t.Custom, t.problems)...)
	return append(list, t.passwordField(u))
}

func (t *signUpInput) passwordField(u *settings.Units) web.Field {
	f := webflow.NewPasswordField(&u.PasswordPolicy, t.problems["password"])
	f.Label = "sign_in.password"
	return f
}

// emailFields returns the fields for the address.
func (t *signUpInput) emailFields(u *settings.Units) []web.Field {
	list := []web.Field{t.field("email", "email", t.Email, "email")}
	if u.Attributes.SignUpFormFields.EmailConfirmationEnabled {
		list = append(list, t.field("email_again", "email", t.emailAgain, "off"))
	}
	return list
}

// personFields returns the fields for the names and the number.
func (t *signUpInput) personFields(u *settings.Units) (list []web.Field) {
	for _, f := range []web.Field{
		t.field("given_name", "text", t.GivenName, "given-name"), t.field("family_name", "text", t.FamilyName, "family-name"),
		t.field("date_of_birth", "date", t.Birth, "bday"),
	} {
		there, required := asks(u, f.Name)
		if !there {
			continue
		}
		if f.Required = required; !required && f.Problem == "" { // a problem says the same
			f.Hint = "complete.one_of"
		}
		if f.Name == "date_of_birth" {
			f.Label, f.MaxLength = "profile.date_of_birth", 0
		}
		list = append(list, f)
	}
	there, required := asks(u, "phone")
	if !there {
		return list
	}
	phone := t.field("phone", "tel", t.Phone, "tel")
	phone.Required = required
	if phone.Problem != "problem.phone" { // the problem has the same text
		phone.Hint = "sign_up.phone.hint"
	}
	if !required {
		phone.Label = "sign_up.phone.optional"
	}
	list = append(list, phone)
	if u.Attributes.SignUpFormFields.MobileNumberConfirmationEnabled {
		again := t.field("phone_again", "tel", t.phoneAgain, "off")
		again.Required = required
		list = append(list, again)
	}
	return list
}

// newPerson returns the person that the form creates. The address is the username.
func (t *signUpInput) newPerson() person.NewPerson {
	return person.NewPerson{
		Username: t.Email, Email: t.Email, EmailVerified: &t.Verified, GivenName: t.GivenName, FamilyName: t.FamilyName,
		Locale: t.Locale, Partition: audit.DefaultPartition, Profile: t.profile(),
	}
}

// names returns the names in the form that the password must not repeat.
func (t *signUpInput) names() []string {
	n := t.newPerson()
	return n.Names()
}

// profile returns the custom attributes and the phone number of the form.
func (t *signUpInput) profile() *person.Profile {
	p := &person.Profile{CustomAttributes: t.Custom, DateOfBirth: t.Birth}
	if t.Phone != "" {
		p.PhoneNumbers = []person.PhoneNumber{{Value: t.Phone, Primary: true, Verified: t.PhoneProven}}
	}
	return p
}
