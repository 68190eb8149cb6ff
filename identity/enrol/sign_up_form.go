package enrol

import (
	"net/http"
	"strings"

	"github.com/gatehouse-id/gatehouse/identity/config"
	"github.com/gatehouse-id/gatehouse/identity/front"
	"github.com/gatehouse-id/gatehouse/identity/notify"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/internal/event"
	"github.com/gatehouse-id/gatehouse/internal/page"
)

// typedSignUp is what somebody has typed who signs up.
type typedSignUp struct {
	Email       string `cbor:"1,keyasint"`
	GivenName   string `cbor:"2,keyasint,omitempty"`
	FamilyName  string `cbor:"3,keyasint,omitempty"`
	Phone       string `cbor:"4,keyasint,omitempty"`
	PHC         string `cbor:"5,keyasint"`
	Locale      string `cbor:"6,keyasint,omitempty"`
	Verified    bool   `cbor:"7,keyasint,omitempty"` // the address was confirmed
	PhoneProven bool   `cbor:"8,keyasint,omitempty"`
	// Username is what somebody has chosen whom a provider has named. Empty: the address is the username
	Username string                   `cbor:"9,keyasint,omitempty"`
	Custom   []person.CustomAttribute `cbor:"10,keyasint,omitempty"`

	emailAgain, phoneAgain string
	problems               map[string]string // by field
}

func (t *typedSignUp) problem(field, key string) {
	if t.problems[field] == "" {
		t.problems[field] = key
	}
}

// readSignUp reads the form and says what is wrong with each field. The password is looked at later, since that takes time.
func (s *Service) readSignUp(r *http.Request, u *config.Units) *typedSignUp {
	get := func(name string) string { return strings.TrimSpace(r.PostForm.Get(name)) }
	form := u.Attributes.SignUpFormFields
	t := &typedSignUp{
		Email: get("email"), GivenName: get("given_name"), FamilyName: get("family_name"), Phone: get("phone"),
		emailAgain: get("email_again"), phoneAgain: get("phone_again"), problems: map[string]string{},
	}
	for field, v := range map[string]*string{"given_name": &t.GivenName, "family_name": &t.FamilyName, "email": &t.Email, "phone": &t.Phone, "email_again": &t.emailAgain, "phone_again": &t.phoneAgain} {
		if !person.IsText(*v, person.MaxLine) {
			*v = "" // not shown again
			t.problem(field, "problem.text")
		}
	}
	switch {
	case t.Email == "":
		t.problem("email", "problem.email_missing")
	case !isSignUpAddress(t.Email) || !u.Features.CustomEmailValidation.Check(t.Email):
		t.problem("email", "problem.email")
	case form.EmailConfirmationEnabled && person.FoldEmail(t.emailAgain) != person.FoldEmail(t.Email):
		t.problem("email_again", "problem.not_same")
	}
	s.readSignUpPerson(t, u)
	if r.PostForm.Get("password") == "" {
		t.problem("password", "problem.password")
	}
	return t
}

// readSignUpPerson says what is wrong with the names and the number.
func (s *Service) readSignUpPerson(t *typedSignUp, u *config.Units) {
	must := u.Attributes.PersonCreationMandatoryFields
	if must.FirstNameRequired && t.GivenName == "" {
		t.problem("given_name", "problem.required")
	}
	if must.LastNameRequired && t.FamilyName == "" {
		t.problem("family_name", "problem.required")
	}
	s.readSignUpPhone(t, u)
}

// isSignUpAddress tells whether an address can be a username too, and no header can be made of it.
func isSignUpAddress(address string) bool {
	_, err := person.Fold(address)
	return err == nil && notify.IsAddress(address) && person.IsEmail(address) && !person.IsID(address) && !strings.Contains(address, `\`)
}

// asksPhone tells whether the form has a telephone number, and whether it must be filled in.
func asksPhone(u *config.Units) (asked, required bool) {
	required = u.Attributes.PersonCreationMandatoryFields.MobileNumberRequired
	return required || u.Attributes.SignUpFormFields.MobileNumberEnabled, required
}

func (s *Service) readSignUpPhone(t *typedSignUp, u *config.Units) {
	asked, required := asksPhone(u)
	if !asked {
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
	if again, _ := person.ParsePhone(t.phoneAgain); u.Attributes.SignUpFormFields.MobileNumberConfirmationEnabled && again != number {
		t.problem("phone_again", "problem.not_same")
	}
}

func (t *typedSignUp) field(name, kind, value, autocomplete string) page.Field {
	return page.Field{
		Name: name, Type: kind, Label: "sign_up." + name, Value: value, Autocomplete: autocomplete, Required: true, MaxLength: person.MaxLine, Problem: t.problems[name],
	}
}

// signUpFields are the fields of the form, with what was typed.
func signUpFields(u *config.Units, t *typedSignUp) []page.Field {
	list := append(signUpEmail(u, t), signUpPerson(u, t)...)
	list = append(list, front.CustomInputs(person.CustomFieldsOf(u, config.OwnMethod), t.Custom, t.problems)...)
	password := front.NewPasswordField(&u.PasswordPolicy, t.problems["password"])
	password.Label = "sign_in.password"
	return append(list, password)
}

// signUpEmail are the fields for the address.
func signUpEmail(u *config.Units, t *typedSignUp) []page.Field {
	list := []page.Field{t.field("email", "email", t.Email, "email")}
	if u.Attributes.SignUpFormFields.EmailConfirmationEnabled {
		list = append(list, t.field("email_again", "email", t.emailAgain, "off"))
	}
	return list
}

// signUpPerson are the fields for names and number.
func signUpPerson(u *config.Units, t *typedSignUp) (list []page.Field) {
	if u.Attributes.PersonCreationMandatoryFields.FirstNameRequired {
		list = append(list, t.field("given_name", "text", t.GivenName, "given-name"))
	}
	if u.Attributes.PersonCreationMandatoryFields.LastNameRequired {
		list = append(list, t.field("family_name", "text", t.FamilyName, "family-name"))
	}
	if asked, required := asksPhone(u); asked {
		phone := t.field("phone", "tel", t.Phone, "tel")
		phone.Required = required
		if phone.Problem != "problem.phone" { // which says the same
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
	}
	return list
}

// newcomer returns the person that somebody who signs up becomes. The address is the username.
func (t *typedSignUp) newcomer() person.NewPerson {
	n := person.NewPerson{
		Username: t.Email, Email: t.Email, EmailVerified: &t.Verified, GivenName: t.GivenName, FamilyName: t.FamilyName, Locale: t.Locale,
		Partition: event.DefaultPartition, Profile: &person.Profile{CustomAttributes: t.Custom},
	}
	if t.Phone != "" {
		n.Profile.PhoneNumbers = []person.PhoneNumber{{Value: t.Phone, Primary: true, Verified: t.PhoneProven}}
	}
	return n
}
