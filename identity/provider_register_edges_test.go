package identity_test

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/gatehouse-id/gatehouse/identity/config"
	"github.com/gatehouse-id/gatehouse/identity/notify"
	"github.com/gatehouse-id/gatehouse/identity/notify/notifytest"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/internal/login"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

// atOnce sends a form concurrently from n copies of the browser and returns how often each status was answered.
func (b *browser) atOnce(n int, form *answer, fields func(i int) []string) map[int]int {
	var mu sync.Mutex
	var wg sync.WaitGroup
	got := map[int]int{}
	for i := range n {
		wg.Go(func() {
			c := &browser{h: b.h, cookies: maps.Clone(b.cookies), address: b.address}
			a := c.post(form, fields(i)...)
			mu.Lock()
			defer mu.Unlock()
			got[a.Code]++
		})
	}
	wg.Wait()
	return got
}

// partnerMethod returns the login method of partner, which makes new persons register.
func (x *registering) partnerMethod() *config.LoginMethod {
	list := x.u.LoginMethods.LoginMethods
	return &list[slices.IndexFunc(list, func(m config.LoginMethod) bool { return m.ID == "partner" })]
}

func TestForcedRegistrationUsernames(t *testing.T) {
	t.Parallel()
	t.Run("attack 219: names that are folded to the address, the id or the partition of somebody else", func(t *testing.T) {
		t.Parallel()
		x := newRegistering(t)
		b := x.browser()
		form := x.arrive(b, ann())
		for _, name := range []string{
			"victim＠example.com", "ｖｉｃｔｉｍ＠ｅｘａｍｐｌｅ.ｃｏｍ", "partner＼ann", "０１８９ｆ７ｅａ-ａｅ２ｃ-７８０９-８ａｅｂ-ｂ８１９ｃｆ５ｅ９ｅ７ｆ", "@", "x@y@example.com",
		} {
			a := b.post(form, "username", name, "password", freshPassword)
			if a.Code != http.StatusUnprocessableEntity || !strings.Contains(a.Body.String(), `aria-invalid="true"`) || x.persons() != 0 {
				t.Errorf("%q = %d, %d persons", name, a.Code, x.persons())
			}
		}
		x.u.Features.SignUpEnabled = true
		x.at("identity", "partner")
		c := x.browser()
		a := c.post(c.get("/sign-up"), "email", "victim@example.com", "password", freshPassword)
		a = c.post(c.get(a.Header().Get("Location")), "code", x.mailed(notify.SignUpCode, "victim@example.com"))
		if a.Code != http.StatusSeeOther || !x.exists("victim@example.com") {
			t.Errorf("the owner of the address = %d\n%s", a.Code, a.Body)
		}
	})
}

// TestForcedRegistrationKnown: prompt=none also shows no page to a person who may have an account, or whose account is
// blocked.
func TestForcedRegistrationKnown(t *testing.T) {
	t.Parallel()
	x := newRegistering(t)
	b, id := x.browser(), ann()
	if a := b.post(x.arrive(b, id), "username", "ann", "password", freshPassword); a.Code != http.StatusSeeOther {
		t.Fatalf("POST = %d", a.Code)
	}
	if err := x.Person.SetState(t.Context(), x.details("ann").ID, person.Blocked, ops); err != nil {
		t.Fatal(err)
	}
	x.asking(func(d *login.Demand) { d.Providers, d.Passive = []string{"partner"}, true })
	other := known()
	other.Subject = "4713"
	if a := x.through(x.browser(), other); a.Code != http.StatusForbidden || !strings.Contains(a.Body.String(), "interaction_required") {
		t.Errorf("prompt=none, with the address of a person = %d at %s\n%s", a.Code, a.url, a.Body)
	}
	if a := x.through(x.browser(), id); a.Code != http.StatusForbidden || !strings.Contains(a.Body.String(), "login_required") {
		t.Errorf("prompt=none, blocked = %d at %s\n%s", a.Code, a.url, a.Body)
	}
}

// TestCustomFieldsOfProviderKeepsAddress: the rules for addresses that people choose do not apply to the address from
// the provider.
func TestCustomFieldsOfProviderKeepsAddress(t *testing.T) {
	t.Parallel()
	x := newRegistering(t)
	withFields(x.u, "partner", asked)
	x.partnerMethod().ForceCreatingUsernameAndPasswordDuringSignUp = false
	x.u.Features.CustomEmailValidation = unitsOf(t, `{"features":{"custom_email_validation":{"enabled":true,"after_at_regex":"ours\\.example"}}}`).Features.CustomEmailValidation
	b := x.browser()
	a := b.post(x.arrive(b, ann()), "custom.team", "red", "custom.shoe_size", "43")
	if a.Code != http.StatusSeeOther || a.Header().Get("Location") != "/next" {
		t.Fatalf("POST = %d\n%s", a.Code, a.Body)
	}
	si, err := x.session(b)
	if err != nil {
		t.Fatal(err)
	}
	if p := x.details(si.Subject).Profile; p.EmailAddresses[0].Value != "ann@partner.example" || !p.EmailAddresses[0].Verified {
		t.Errorf("profile = %+v", p)
	}
}

func TestForcedRegistrationRaces(t *testing.T) {
	t.Parallel()
	t.Run("attack 117: 64 forms and 64 codes of one answer", func(t *testing.T) {
		t.Parallel()
		x := newRegistering(t)
		id := ann()
		id.EmailVerified = false
		id.Details["email_verified"] = nil
		b := x.browser()
		form := x.arrive(b, id)
		a := b.post(form, "username", "ann", "email", "ann@elsewhere.example", "password", freshPassword)
		confirm := b.get(a.Header().Get("Location"))
		code := x.mailed(notify.SignUpCode, "ann@elsewhere.example")
		got := b.atOnce(64, confirm, func(int) []string { return []string{"code", code} })
		if x.persons() != 1 || got[http.StatusSeeOther] == 0 || got[http.StatusInternalServerError] > 0 {
			t.Errorf("%d persons, answers %v", x.persons(), got)
		}
		x.checkInvariants()
	})
	t.Run("attack 117: two who choose the same username at once", func(t *testing.T) {
		t.Parallel()
		x := newRegistering(t)
		b, c := x.browser(), x.browser()
		other := ann()
		other.Subject, other.Email, other.Details = "other", "other@partner.example", nil
		forms := []*answer{x.arrive(b, ann()), x.arrive(c, other)}
		var wg sync.WaitGroup
		for i, who := range []*browser{b, c} {
			wg.Go(func() { who.post(forms[i], "username", []string{"same", "SAME"}[i], "password", freshPassword) })
		}
		wg.Wait()
		if x.persons() != 1 {
			t.Errorf("%d persons with one username", x.persons())
		}
		x.checkInvariants()
	})
}

// TestForcedRegistrationMeanwhile: settings and states that change while the page is open take effect when the form is
// sent.
func TestForcedRegistrationMeanwhile(t *testing.T) {
	t.Parallel()
	x := newRegistering(t)
	withFields(x.u, "partner", asked)
	send := func(what string, change func(), want int, to string) {
		t.Helper()
		b, id := x.browser(), ann()
		id.Subject, id.Email, id.Details = what, "", nil
		form := x.arrive(b, id)
		before := x.persons()
		change()
		a := b.post(form, "username", "ann", "email", "ann@elsewhere.example", "password", freshPassword, "custom.team", "red", "custom.shoe_size", "1")
		if a.Code != want || !strings.HasPrefix(a.Header().Get("Location"), to) || x.persons() != before {
			t.Errorf("%s = %d to %s, %d persons", what, a.Code, a.Header().Get("Location"), x.persons())
		}
	}
	send("nobody signs in", func() { x.u.Features.LoginEnabled = false }, http.StatusForbidden, "")
	x.u.Features.LoginEnabled = true
	send("nothing is asked any more", func() {
		withFields(x.u, "partner", nil)
		x.partnerMethod().ForceCreatingUsernameAndPasswordDuringSignUp = false
	}, http.StatusSeeOther, "/sign-in/provider/done?")
	x.partnerMethod().ForceCreatingUsernameAndPasswordDuringSignUp = true

	// The identity has meanwhile been coupled to a person who was then blocked.
	b, id := x.browser(), ann()
	form := x.arrive(b, id)
	x.add(person.NewPerson{Username: "theirs", Password: secret.New(demoPassword)})
	theirs := x.details("theirs").ID
	err := x.store.Update(t.Context(), func(tx storage.Tx) error {
		return x.Federation.Couple(tx, theirs, "partner", id.Issuer, id.Subject, x.clock.Now())
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := x.Person.SetState(t.Context(), theirs, person.Blocked, ops); err != nil {
		t.Fatal(err)
	}
	before := x.persons()
	if a := b.post(form, "username", "ann", "password", freshPassword); a.Code != http.StatusForbidden || b.isSignedIn() || x.persons() != before {
		t.Errorf("of a blocked person = %d, %d persons", a.Code, x.persons())
	}
}

// TestCustomFieldsOfProviderOddAddress: a person can confirm a number even if the address cannot be a username.
func TestCustomFieldsOfProviderOddAddress(t *testing.T) {
	t.Parallel()
	x := newRegistering(t)
	withFields(x.u, "partner", asked)
	x.partnerMethod().ForceCreatingUsernameAndPasswordDuringSignUp = false
	x.u.Attributes.Verification.MobileNumberEnabled, x.u.Attributes.PersonCreationMandatoryFields.MobileNumberRequired = true, true
	x.u.Features.SMSEnabled = true
	x.texts = new(notifytest.Texts)
	x.start()
	id := ann()
	id.Email, id.Details = "☎@partner.example", nil
	b := x.browser()
	a := b.post(x.arrive(b, id), "custom.team", "red", "custom.shoe_size", "43", "phone", "+31 6 1234 5678")
	if a.Code != http.StatusSeeOther {
		t.Fatalf("POST = %d\n%s", a.Code, a.Body)
	}
	confirm, sent := b.get(a.Header().Get("Location")), x.texts.Take()
	if len(sent) != 1 || sent[0].To != "+31612345678" {
		t.Fatalf("texts = %+v", sent)
	}
	if a := b.post(confirm, "code", sent[0].Data["code"]); a.Code != http.StatusSeeOther || a.Header().Get("Location") != "/next" || x.persons() != 1 {
		t.Errorf("the code = %d\n%s", a.Code, a.Body)
	}
}
