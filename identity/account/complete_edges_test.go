package account_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/identitytest"
	"github.com/gatehouse-id/gatehouse/identity/notify"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/internal/authn"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

// TestExtraRegistrationLevel: a person who must step up to see their profile is not asked for details before that, and
// cannot add any.
func TestExtraRegistrationLevel(t *testing.T) {
	t.Parallel()
	t.Run("attack 241: a detail without the level of the account pages", func(t *testing.T) {
		t.Parallel()
		e, u := extra(t)
		u.Attributes.PersonCreationMandatoryFields.LastNameRequired = true
		e.Browser().SignIn(identitytest.Demo, identitytest.DemoPassword)
		b := e.Browser()
		form := completes(b, identitytest.Demo, identitytest.DemoPassword)
		u.StepUp.Actions.DashboardStepUpAuthenticationLevel = 2
		if a := b.Post(form, "family_name", "Evil"); a.Code != http.StatusSeeOther || a.Header().Get("Location") != "/next" ||
			e.Details(identitytest.Demo).Profile.Name.LastName != "" {
			t.Errorf("POST = %d to %s, the name is %q", a.Code, a.Header().Get("Location"), e.Details(identitytest.Demo).Profile.Name.LastName)
		}
		c := e.Browser()
		if a := c.Try(identitytest.Demo, identitytest.DemoPassword); c.Get(a.Header().Get("Location")).URL != "/next" {
			t.Error("who may not see their profile is asked for what it lacks")
		}
	})
}

// TestExtraRegistrationMeanwhile: a change while the page is open counts when the form is sent. The feature is switched
// off, the field is not required any more or has a value, or the person is blocked.
func TestExtraRegistrationMeanwhile(t *testing.T) {
	t.Parallel()
	for what, change := range map[string]func(e *identitytest.Federated, u *settings.Units){
		"switched off": func(_ *identitytest.Federated, u *settings.Units) {
			u.Features.PostLoginExtraRegistrationAfterSecondLogin = false
		},
		"not demanded": func(_ *identitytest.Federated, u *settings.Units) {
			u.Attributes.PersonCreationMandatoryFields.LastNameRequired = false
		},
		"blocked": func(e *identitytest.Federated, _ *settings.Units) {
			if err := e.Person.SetState(e.T.Context(), identitytest.Demo, person.Blocked, identitytest.Ops); err != nil {
				e.T.Fatal(err)
			}
		},
		"filled in": func(e *identitytest.Federated, _ *settings.Units) {
			e.SetProfile(identitytest.Demo, func(p *person.Profile) { p.Name.LastName = "Hers" })
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			e, u := extra(t)
			u.Attributes.PersonCreationMandatoryFields.LastNameRequired = true
			e.Browser().SignIn(identitytest.Demo, identitytest.DemoPassword)
			b := e.Browser()
			form := completes(b, identitytest.Demo, identitytest.DemoPassword)
			change(e, u)
			if a := b.Post(form, "family_name", "Late"); a.Code != http.StatusSeeOther || a.Header().Get("Location") != "/next" {
				t.Errorf("POST = %d to %s", a.Code, a.Header().Get("Location"))
			}
			if got := e.Details(identitytest.Demo).Profile.Name.LastName; got == "Late" {
				t.Error("the name was written")
			}
		})
	}
}

func TestExtraRegistrationRaces(t *testing.T) {
	t.Parallel()
	t.Run("attack 282: 64 forms at once fill in once", func(t *testing.T) {
		t.Parallel()
		e, u := extra(t)
		u.Attributes.PersonCreationMandatoryFields.LastNameRequired = true
		u.Attributes.PersonCreationMandatoryFields.MobileNumberRequired = true
		identitytest.AskFor(u, settings.OwnMethod, identitytest.CustomFields)
		e.Browser().SignIn(identitytest.Demo, identitytest.DemoPassword)
		b := e.Browser()
		form := completes(b, identitytest.Demo, identitytest.DemoPassword)
		got := b.AtOnce(64, form, func(i int) []string {
			return []string{
				"family_name", fmt.Sprint("Name", i), "phone", fmt.Sprintf("+31 6 123456%02d", i), "custom.team",
				fmt.Sprint("t", i), "custom.shoe_size", "1",
			}
		})
		p := e.Details(identitytest.Demo).Profile
		if got[http.StatusSeeOther] != 64 || len(p.PhoneNumbers) != 1 || len(p.CustomAttributes) != 3 {
			t.Errorf("answers %v, numbers %v, custom %v", got, p.PhoneNumbers, p.CustomAttributes)
		}
		if i := strings.TrimPrefix(p.Name.LastName, "Name"); p.CustomAttributes[0].Value != "t"+i {
			t.Errorf("the name is of %s, the team %s", p.Name.LastName, p.CustomAttributes[0].Value)
		}
		e.CheckInvariants()
	})
	t.Run("attack 282: 64 addresses at once get one code each at most, and no more than a person may have", func(t *testing.T) {
		t.Parallel()
		e, u := extra(t)
		u.Attributes.Verification = settings.Verification{EmailEnabled: true, EmailRequired: true}
		mustAdd(e, "bob")
		e.Browser().SignIn("bob", identitytest.DemoPassword)
		b := e.Browser()
		form := completes(b, "bob", identitytest.DemoPassword)
		b.AtOnce(64, form, func(i int) []string { return []string{"email", fmt.Sprintf("bob%d@example.com", i)} })
		sent := slices.DeleteFunc(e.Notices.Take(), func(n notify.Notice) bool { return n.Kind != notify.AddressCode })
		if len(sent) == 0 || len(sent) > 5 || len(e.Details("bob").Profile.EmailAddresses) != 0 {
			t.Errorf("%d codes, %d addresses", len(sent), len(e.Details("bob").Profile.EmailAddresses))
		}
	})
}

// TestExtraRegistrationTakesTime: the sign-in before the page satisfies max_age and prompt=login, however long the page
// stays open.
func TestExtraRegistrationTakesTime(t *testing.T) {
	t.Parallel()
	for what, demand := range map[string]func(*identitytest.Federated, *authn.Demand){
		"max_age":      func(_ *identitytest.Federated, d *authn.Demand) { d.MaxAge = time.Minute },
		"max_age=0":    func(e *identitytest.Federated, d *authn.Demand) { d.MaxAge, d.NotBefore = 0, e.Clock.Now() },
		"prompt=login": func(e *identitytest.Federated, d *authn.Demand) { d.NotBefore = e.Clock.Now() },
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			e, u := extra(t)
			u.Attributes.PersonCreationMandatoryFields.LastNameRequired = true
			e.Browser().SignIn(identitytest.Demo, identitytest.DemoPassword)
			e.Asking(func(d *authn.Demand) { demand(e, d) })
			b := e.Browser()
			form := completes(b, identitytest.Demo, identitytest.DemoPassword)
			e.Clock.Advance(20 * time.Minute)
			a := b.Post(form, "family_name", "Person")
			if a = b.Get(a.Header().Get("Location")); a.URL != "/next" || !strings.HasPrefix(a.Body.String(), "signed in as ") {
				t.Errorf("afterwards: %d at %s", a.Code, a.URL)
			}
			if a = b.Get(form.URL); a.URL != "/next" { // the back button
				t.Errorf("the page again: %d at %s", a.Code, a.URL)
			}
		})
	}
}

// TestExtraRegistrationOfMethods: the fields of a disabled method are not asked for, and their stored values are kept.
func TestExtraRegistrationOfMethods(t *testing.T) {
	t.Parallel()
	e, u := extra(t)
	identitytest.AskFor(u, settings.OwnMethod, identitytest.CustomFields)
	u.LoginMethods.LoginMethods = append(u.LoginMethods.LoginMethods, settings.LoginMethod{
		ID: "partner", Type: settings.TypeOIDC,
		CustomAttributeFields: []settings.CustomAttributeField{{ID: "badge", Name: "Badge", Type: settings.FieldText}},
	})
	p := e.Add(person.NewPerson{
		Username: "ann", Password: secret.New(identitytest.DemoPassword),
		Profile: &person.Profile{CustomAttributes: identitytest.Attributes("team", "red", "shoe_size", "43", "news", "true")},
	})
	if err := e.Store.Update(t.Context(), func(tx storage.Tx) error {
		return e.Federation.Couple(tx, p.ID, "partner", identitytest.PartnerIssuer, "ann", e.Clock.Now())
	}); err != nil {
		t.Fatal(err)
	}
	e.Browser().SignIn("ann", identitytest.DemoPassword)
	b := e.Browser()
	if a := b.Try("ann", identitytest.DemoPassword); b.Get(a.Header().Get("Location")).URL != "/next" {
		t.Error("a field of a method that is off is asked for")
	}
	u.LoginMethods.LoginMethods[0].Enabled = false
	if body := b.Get("/account/profile").Body.String(); strings.Contains(body, `name="custom.team"`) || !strings.Contains(body, "red") {
		t.Errorf("the profile page:\n%s", body)
	}
	u.LoginMethods.LoginMethods[0].Enabled, u.LoginMethods.LoginMethods[1].Enabled = true, true
	c := e.Browser()
	if body := completes(c, "ann", identitytest.DemoPassword).Body.String(); !strings.Contains(body, `name="custom.badge"`) ||
		strings.Contains(body, `name="custom.team"`) {
		t.Errorf("the page:\n%s", body)
	}
}

// TestBlankNameIsAskedFor: a name of spaces, from before names were mandatory, is no name, and none can be given now.
func TestBlankNameIsAskedFor(t *testing.T) {
	t.Parallel()
	e, u := extra(t)
	_, err := e.Person.UpdatePerson(t.Context(), e.Details(identitytest.Demo).ID, person.Edit{By: identitytest.Ops},
		func(_ storage.Tx, d *person.Details) error {
			d.Profile.Name.FirstName = " \u00a0"
			return nil
		})
	if err != nil {
		t.Fatal(err)
	}
	u.Attributes.PersonCreationMandatoryFields.FirstNameRequired = true
	e.Browser().SignIn(identitytest.Demo, identitytest.DemoPassword) // the first sign-in
	if body := completes(e.Browser(), identitytest.Demo, identitytest.DemoPassword).Body.String(); !strings.Contains(body,
		`name="given_name"`) {
		t.Errorf("a blank name is not asked for:\n%s", body)
	}
	for name, known := range map[string]bool{"\u00a0 ": false, "Ann": true} {
		if _, err := e.Person.AddPerson(t.Context(), person.NewPerson{Username: "ann", GivenName: name},
			identitytest.Ops); (err == nil) != known {
			t.Errorf("AddPerson with the first name %q = %v", name, err)
		}
	}
}
