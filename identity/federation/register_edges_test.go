package federation_test

import (
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/gatehouse-id/gatehouse/identity/identitytest"
	"github.com/gatehouse-id/gatehouse/identity/notify"
	"github.com/gatehouse-id/gatehouse/identity/notify/notifytest"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/internal/authn"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

// partnerMethod returns the login method of partner, which makes new persons register.
func partnerMethod(x *identitytest.Registering) *settings.LoginMethod {
	list := x.U.LoginMethods.LoginMethods
	return &list[slices.IndexFunc(list, func(m settings.LoginMethod) bool { return m.ID == "partner" })]
}

func TestForcedRegistrationUsernames(t *testing.T) {
	t.Parallel()
	t.Run("attack 219: names that are folded to the address, the id or the partition of somebody else", func(t *testing.T) {
		t.Parallel()
		x := identitytest.NewRegistering(t)
		b := x.Browser()
		form := x.Arrive(b, identitytest.Ann())
		for _, name := range []string{
			"victim＠example.com", "ｖｉｃｔｉｍ＠ｅｘａｍｐｌｅ.ｃｏｍ", "partner＼ann", "０１８９ｆ７ｅａ-ａｅ２ｃ-７８０９-８ａｅｂ-ｂ８１９ｃｆ５ｅ９ｅ７ｆ", "@", "x@y@example.com",
		} {
			a := b.Post(form, "username", name, "password", identitytest.FreshPassword)
			if a.Code != http.StatusUnprocessableEntity || !strings.Contains(a.Body.String(), `aria-invalid="true"`) || x.Persons() != 0 {
				t.Errorf("%q = %d, %d persons", name, a.Code, x.Persons())
			}
		}
		x.U.Features.SignUpEnabled = true
		x.At("identity", "partner")
		c := x.Browser()
		a := c.Post(c.Get("/sign-up"), "email", "victim@example.com", "password", identitytest.FreshPassword)
		a = c.Post(c.Get(a.Header().Get("Location")), "code", x.Mailed(notify.SignUpCode, "victim@example.com"))
		if a.Code != http.StatusSeeOther || !x.Exists("victim@example.com") {
			t.Errorf("the owner of the address = %d\n%s", a.Code, a.Body)
		}
	})
}

// TestForcedRegistrationKnown: prompt=none also shows no page to a person who may have an account, or whose account is
// blocked.
func TestForcedRegistrationKnown(t *testing.T) {
	t.Parallel()
	x := identitytest.NewRegistering(t)
	b, id := x.Browser(), identitytest.Ann()
	if a := b.Post(x.Arrive(b, id), "username", "ann", "password", identitytest.FreshPassword); a.Code != http.StatusSeeOther {
		t.Fatalf("POST = %d", a.Code)
	}
	if err := x.Person.SetState(t.Context(), x.Details("ann").ID, person.Blocked, identitytest.Ops); err != nil {
		t.Fatal(err)
	}
	x.Asking(func(d *authn.Demand) { d.Providers, d.Passive = []string{"partner"}, true })
	other := identitytest.Known()
	other.Subject = "4713"
	if a := x.Through(x.Browser(), other); a.Code != http.StatusForbidden || !strings.Contains(a.Body.String(), "interaction_required") {
		t.Errorf("prompt=none, with the address of a person = %d at %s\n%s", a.Code, a.URL, a.Body)
	}
	if a := x.Through(x.Browser(), id); a.Code != http.StatusForbidden || !strings.Contains(a.Body.String(), "login_required") {
		t.Errorf("prompt=none, blocked = %d at %s\n%s", a.Code, a.URL, a.Body)
	}
}

// TestCustomFieldsOfProviderKeepsAddress: the rules for addresses that people choose do not apply to the address from
// the provider.
func TestCustomFieldsOfProviderKeepsAddress(t *testing.T) {
	t.Parallel()
	x := identitytest.NewRegistering(t)
	identitytest.AskFor(x.U, "partner", identitytest.CustomFields)
	partnerMethod(x).ForceCreatingUsernameAndPasswordDuringSignUp = false
	x.U.Features.CustomEmailValidation = identitytest.UnitsOf(t,
		`{"features":{"custom_email_validation":{"enabled":true,"after_at_regex":"ours\\.example"}}}`).Features.CustomEmailValidation
	b := x.Browser()
	a := b.Post(x.Arrive(b, identitytest.Ann()), "custom.team", "red", "custom.shoe_size", "43")
	if a.Code != http.StatusSeeOther || a.Header().Get("Location") != "/next" {
		t.Fatalf("POST = %d\n%s", a.Code, a.Body)
	}
	si, err := x.SessionOf(b)
	if err != nil {
		t.Fatal(err)
	}
	if p := x.Details(si.Subject).Profile; p.EmailAddresses[0].Value != "ann@partner.example" || !p.EmailAddresses[0].Verified {
		t.Errorf("profile = %+v", p)
	}
}

func TestForcedRegistrationRaces(t *testing.T) {
	t.Parallel()
	t.Run("attack 117: 64 forms and 64 codes of one answer", func(t *testing.T) {
		t.Parallel()
		x := identitytest.NewRegistering(t)
		id := identitytest.Ann()
		id.EmailVerified = false
		id.Details["email_verified"] = nil
		b := x.Browser()
		form := x.Arrive(b, id)
		a := b.Post(form, "username", "ann", "email", "ann@elsewhere.example", "password", identitytest.FreshPassword)
		confirm := b.Get(a.Header().Get("Location"))
		code := x.Mailed(notify.SignUpCode, "ann@elsewhere.example")
		got := b.AtOnce(64, confirm, func(int) []string { return []string{"code", code} })
		if x.Persons() != 1 || got[http.StatusSeeOther] == 0 || got[http.StatusInternalServerError] > 0 {
			t.Errorf("%d persons, answers %v", x.Persons(), got)
		}
		x.CheckInvariants()
	})
	t.Run("attack 117: two who choose the same username at once", func(t *testing.T) {
		t.Parallel()
		x := identitytest.NewRegistering(t)
		b, c := x.Browser(), x.Browser()
		other := identitytest.Ann()
		other.Subject, other.Email, other.Details = "other", "other@partner.example", nil
		forms := []*identitytest.Answer{x.Arrive(b, identitytest.Ann()), x.Arrive(c, other)}
		var wg sync.WaitGroup
		for i, who := range []*identitytest.Browser{b, c} {
			wg.Go(func() {
				who.Post(forms[i], "username", []string{"same", "SAME"}[i], "password", identitytest.FreshPassword)
			})
		}
		wg.Wait()
		if x.Persons() != 1 {
			t.Errorf("%d persons with one username", x.Persons())
		}
		x.CheckInvariants()
	})
}

// TestForcedRegistrationMeanwhile: settings and states that change while the page is open take effect when the form is
// sent.
func TestForcedRegistrationMeanwhile(t *testing.T) {
	t.Parallel()
	x := identitytest.NewRegistering(t)
	identitytest.AskFor(x.U, "partner", identitytest.CustomFields)
	send := func(what string, change func(), want int, to string) {
		t.Helper()
		b, id := x.Browser(), identitytest.Ann()
		id.Subject, id.Email, id.Details = what, "", nil
		form := x.Arrive(b, id)
		before := x.Persons()
		change()
		a := b.Post(form, "username", "ann", "email", "ann@elsewhere.example", "password", identitytest.FreshPassword, "custom.team",
			"red", "custom.shoe_size", "1")
		if a.Code != want || !strings.HasPrefix(a.Header().Get("Location"), to) || x.Persons() != before {
			t.Errorf("%s = %d to %s, %d persons", what, a.Code, a.Header().Get("Location"), x.Persons())
		}
	}
	send("nobody signs in", func() { x.U.Features.LoginEnabled = false }, http.StatusForbidden, "")
	x.U.Features.LoginEnabled = true
	send("nothing is asked any more", func() {
		identitytest.AskFor(x.U, "partner", nil)
		partnerMethod(x).ForceCreatingUsernameAndPasswordDuringSignUp = false
	}, http.StatusSeeOther, "/sign-in/provider/done?")
	partnerMethod(x).ForceCreatingUsernameAndPasswordDuringSignUp = true

	// The identity has meanwhile been coupled to a person who was then blocked.
	b, id := x.Browser(), identitytest.Ann()
	form := x.Arrive(b, id)
	x.Add(person.NewPerson{Username: "theirs", Password: secret.New(identitytest.DemoPassword)})
	theirs := x.Details("theirs").ID
	err := x.Store.Update(t.Context(), func(tx storage.Tx) error {
		return x.Federation.Couple(tx, theirs, "partner", id.Issuer, id.Subject, x.Clock.Now())
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := x.Person.SetState(t.Context(), theirs, person.Blocked, identitytest.Ops); err != nil {
		t.Fatal(err)
	}
	before := x.Persons()
	if a := b.Post(form, "username", "ann", "password", identitytest.FreshPassword); a.Code != http.StatusForbidden ||
		b.IsSignedIn() || x.Persons() != before {
		t.Errorf("of a blocked person = %d, %d persons", a.Code, x.Persons())
	}
}

// TestCustomFieldsOfProviderOddAddress: a person can confirm a number even if the address cannot be a username.
func TestCustomFieldsOfProviderOddAddress(t *testing.T) {
	t.Parallel()
	x := identitytest.NewRegistering(t)
	identitytest.AskFor(x.U, "partner", identitytest.CustomFields)
	partnerMethod(x).ForceCreatingUsernameAndPasswordDuringSignUp = false
	x.U.Attributes.Verification.MobileNumberEnabled, x.U.Attributes.PersonCreationMandatoryFields.MobileNumberRequired = true, true
	x.U.Features.SMSEnabled = true
	x.Texts = new(notifytest.Texts)
	x.Start()
	id := identitytest.Ann()
	id.Email, id.Details = "☎@partner.example", nil
	b := x.Browser()
	a := b.Post(x.Arrive(b, id), "custom.team", "red", "custom.shoe_size", "43", "phone", "+31 6 1234 5678")
	if a.Code != http.StatusSeeOther {
		t.Fatalf("POST = %d\n%s", a.Code, a.Body)
	}
	confirm, sent := b.Get(a.Header().Get("Location")), x.Texts.Take()
	if len(sent) != 1 || sent[0].To != "+31612345678" {
		t.Fatalf("texts = %+v", sent)
	}
	if a := b.Post(confirm, "code", sent[0].Data["code"]); a.Code != http.StatusSeeOther ||
		a.Header().Get("Location") != "/next" || x.Persons() != 1 {
		t.Errorf("the code = %d\n%s", a.Code, a.Body)
	}
}
