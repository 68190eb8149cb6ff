package recovery_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/identity"
	"github.com/gatehouse-id/gatehouse/identity/identitytest"
	"github.com/gatehouse-id/gatehouse/identity/notify"
	"github.com/gatehouse-id/gatehouse/identity/notify/notifytest"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

const (
	tess       = "tess@example.com"
	tessNumber = "+31612345678"
)

// texted is a harness with text messages, where forgotten passwords and usernames can be recovered. The person tess has
// a verified number.
type texted struct {
	*identitytest.Harness
	u    *settings.Units
	tess person.Person
}

func newTexted(t *testing.T, change ...func(*identity.Config)) *texted {
	t.Helper()
	h, u := identitytest.NewConfigured(t, change...)
	h.Texts = new(notifytest.Texts)
	h.Start()
	u.Features.SMSEnabled, u.Features.PasswordResetEnabled, u.Features.UsernameReminderViaSMSEnabled = true, true, true
	x := &texted{Harness: h, u: u}
	x.tess = x.withNumber(tess, "+31 6 1234 5678", true)
	t.Cleanup(h.CheckInvariants)
	return x
}

// withNumber adds a person with a telephone number.
func (x *texted) withNumber(username, number string, verified bool) person.Person {
	x.T.Helper()
	return x.Add(person.NewPerson{Username: username, Password: secret.New("what tess forgot 1"), Profile: &person.Profile{
		PhoneNumbers: []person.PhoneNumber{{Value: number, Primary: true, Verified: verified}},
	}})
}

// ask asks for a code. It returns the page where the code is typed, and the code, or "" if none was sent.
func (x *texted) ask(b *identitytest.Browser, username string) (page *identitytest.Answer, code string) {
	x.T.Helper()
	a := b.Post(b.Get("/forgot/text"), "username", username)
	if a.Code != http.StatusSeeOther {
		x.T.Fatalf("asking for %q = %d\n%s", username, a.Code, a.Body)
	}
	list := x.Texts.Take()
	if len(list) > 1 {
		x.T.Fatalf("%d text messages, want one at most", len(list))
	}
	if len(list) == 1 {
		code = list[0].Data["code"]
	}
	return b.Get(a.Header().Get("Location")), code
}

func TestResetByText(t *testing.T) {
	t.Parallel()
	x := newTexted(t)
	other := x.Browser()
	other.SignIn(tess, "what tess forgot 1")
	b := x.Browser()
	sign := b.Get("/next")
	if !strings.Contains(sign.Body.String(), `href="/forgot/text?flow=`) {
		t.Errorf("the sign-in page does not lead there:\n%s", sign.Body)
	}
	a := b.Post(b.Get("/forgot/text?"+strings.TrimPrefix(sign.URL, "/sign-in?")), "username", tess)
	list := x.Texts.Take()
	if len(list) != 1 || list[0].To != tessNumber || list[0].Kind != notify.SMSResetCode || list[0].PersonID != x.tess.ID {
		t.Fatalf("text messages = %+v, want a code to %s", list, tessNumber)
	}
	page := b.Get(a.Header().Get("Location"))
	code := list[0].Data["code"]
	wrong := identitytest.WrongFor(code)
	if a := b.Post(page, "code", wrong); a.Code != http.StatusUnprocessableEntity {
		t.Errorf("a wrong code = %d, want 422", a.Code)
	}
	if a := b.Post(page, "code", code); a.Header().Get("Location") != "/reset" {
		t.Fatalf("the code = %d to %q\n%s", a.Code, a.Header().Get("Location"), a.Body)
	}
	if a := b.Post(page, "code", code); a.Header().Get("Location") == "/reset" {
		t.Error("the code is good twice")
	}
	a = b.Post(b.Get("/reset"), "password", "what tess knows 2")
	done := b.Get(a.Header().Get("Location"))
	if !strings.Contains(done.Body.String(), `href="/sign-in?flow=`) || other.IsSignedIn() {
		t.Errorf("after the new password: %s, others signed in: %t\n%s", done.URL, other.IsSignedIn(), done.Body)
	}
	if a := x.Browser().Try(tess, "what tess forgot 1"); a.Code != http.StatusUnprocessableEntity {
		t.Errorf("the old password = %d", a.Code)
	}
	b.SignIn(tess, "what tess knows 2")
	if ev := x.Events(); ev["person.PasswordResetRequestedEvent"] != 1 || ev["person.PasswordResetEvent"] != 1 {
		t.Errorf("events = %v", ev)
	}
}

// TestResetByTextNeeds: a code needs the switches, text messages and a verified number.
func TestResetByTextNeeds(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*texted){
		"sms switched off":     func(x *texted) { x.u.Features.SMSEnabled = false },
		"reset switched off":   func(x *texted) { x.u.Features.PasswordResetEnabled = false },
		"nothing to send with": func(x *texted) { x.Texts = nil; x.Start() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := newTexted(t)
			change(x)
			if a := x.Browser().Get("/forgot/text"); a.Code != http.StatusNotFound {
				t.Errorf("the page = %d, want 404", a.Code)
			}
			if a := x.Browser().Get("/next"); strings.Contains(a.Body.String(), "/forgot/text") {
				t.Error("the sign-in page leads there")
			}
		})
	}
	t.Run("a number that no one has verified", func(t *testing.T) {
		t.Parallel()
		x := newTexted(t)
		x.withNumber("uma@example.com", "+31687654321", false)
		if _, code := x.ask(x.Browser(), "uma@example.com"); code != "" {
			t.Error("a code was sent")
		}
	})
	t.Run("who is blocked", func(t *testing.T) {
		t.Parallel()
		x := newTexted(t)
		if err := x.Person.SetState(t.Context(), tess, person.Blocked, identitytest.Ops); err != nil {
			t.Fatal(err)
		}
		if _, code := x.ask(x.Browser(), tess); code != "" {
			t.Error("a code was sent")
		}
	})
	t.Run("an e-mail address of two", func(t *testing.T) {
		t.Parallel()
		x := newTexted(t)
		for i, name := range []string{"one", "two"} {
			yes := true
			x.Add(person.NewPerson{
				Username: name, Password: secret.New("what tess forgot 1"), Email: "both@example.com",
				EmailVerified: &yes, Profile: &person.Profile{
					PhoneNumbers: []person.PhoneNumber{{Value: fmt.Sprintf("+3161111111%d", i), Primary: true, Verified: true}},
				},
			})
		}
		if _, code := x.ask(x.Browser(), "both@example.com"); code != "" {
			t.Error("a code was sent to one of the two")
		}
		if _, code := x.ask(x.Browser(), "two"); code == "" {
			t.Error("no code by the username")
		}
	})
}

func TestResetByTextAttacks(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(d *person.Details){
		"removed": func(d *person.Details) { d.Profile.PhoneNumbers = nil },
		"changed": func(d *person.Details) {
			d.Profile.PhoneNumbers = []person.PhoneNumber{{Value: "+31687654329", Verified: true, Primary: true}}
		},
		"unverified": func(d *person.Details) { d.Profile.PhoneNumbers[0].Verified = false },
	} {
		t.Run("attack 238: the page is open while the number is "+name, func(t *testing.T) {
			t.Parallel()
			x := newTexted(t)
			b := x.Browser()
			page, code := x.ask(b, tess)
			if a := b.Post(page, "code", code); a.Header().Get("Location") != "/reset" {
				t.Fatalf("the code = %d to %q", a.Code, a.Header().Get("Location"))
			}
			form := b.Get("/reset")
			if _, err := x.Person.UpdatePerson(t.Context(), x.tess.ID, person.Edit{By: identitytest.Ops, Verified: true},
				func(_ storage.Tx, d *person.Details) error {
					change(d)
					return nil
				}); err != nil {
				t.Fatal(err)
			}
			if a := b.Post(form, "password", "what a thief knows 2"); a.Code != http.StatusBadRequest {
				t.Errorf("the new password = %d to %q, want 400", a.Code, a.Header().Get("Location"))
			}
			if a := b.Get("/reset"); a.Code != http.StatusBadRequest {
				t.Errorf("the page = %d, want 400", a.Code)
			}
			x.Browser().SignIn(tess, "what tess forgot 1")
		})
	}
	t.Run("attack 219: who exists, by the answers", func(t *testing.T) {
		t.Parallel()
		x := newTexted(t)
		x.withNumber("uma@example.com", "+31687654321", false)
		var first string
		for _, name := range []string{tess, "none@example.com", "uma@example.com", identitytest.Demo} {
			b := x.Browser()
			var seen []string
			for range 3 {
				a := b.Post(b.Get("/forgot/text"), "username", name)
				seen = append(seen, fmt.Sprint(a.Code, a.Header().Get("Location"), a.Header().Get("Retry-After")))
			}
			a := b.Post(b.Get("/forgot/text/code"), "code", "12345x")
			seen = append(seen, fmt.Sprint(a.Code, a.Body.Len()))
			if got := strings.Join(seen, " | "); first == "" {
				first = got
			} else if got != first {
				t.Errorf("answers for %s = %s, want %s as for somebody", name, got, first)
			}
		}
	})
	t.Run("attack 219: one name in many spellings", func(t *testing.T) {
		t.Parallel()
		x := newTexted(t, func(c *identity.Config) { c.Partitions.On = true })
		waits := func(of []string) (n int) {
			for i := range 16 {
				b := x.Browser()
				b.Address = fmt.Sprintf("203.0.%d.%d:1", len(of), i)
				if a := b.Post(b.Get("/forgot/text"), "username", of[i%len(of)]); a.Code == http.StatusTooManyRequests {
					n++
				}
			}
			return n
		}
		want := waits([]string{"nobody@example.com"})
		got := waits([]string{
			"none@example.com", " none@example.com", `default\none@example.com`, `Default\ NONE@example.com`, "none@example.com\t",
		})
		if got != want || want == 0 {
			t.Errorf("%d of 16 requests for one name wait, want %d as with one spelling", got, want)
		}
	})
	t.Run("attack 219: who exists, by the waits of others", func(t *testing.T) {
		t.Parallel()
		x := newTexted(t)
		person, err := x.Person.UpdatePerson(t.Context(), x.tess.ID, person.Edit{By: identitytest.Ops, Verified: true},
			func(_ storage.Tx, d *person.Details) error {
				for _, v := range []string{"t1@example.com", "t2@example.com", "t3@example.com", "t4@example.com", "t5@example.com", "t6@example.com"} {
					d.Profile.EmailAddresses = append(d.Profile.EmailAddresses, person.EmailAddress{Value: v, Verified: true})
				}
				return nil
			})
		if err != nil || person.ID != x.tess.ID {
			t.Fatal(err)
		}
		ask := func(i int, name string) string {
			b := x.Browser()
			b.Address = fmt.Sprintf("203.0.113.%d:1", i)
			a := b.Post(b.Get("/forgot/text"), "username", name)
			return fmt.Sprint(a.Code, a.Header().Get("Location"), a.Header().Get("Retry-After"))
		}
		for i := range 8 { // unknown names, each used once
			ask(i+1, fmt.Sprintf("none%d@example.com", i))
		}
		want := ask(20, tess)
		if got := ask(21, "none@example.com"); got != want {
			t.Errorf("after others asked for nobody: %s for nobody, %s for somebody", got, want)
		}
		for i := range 5 { // the many names of the person with one number
			if got := ask(30+i, fmt.Sprintf("t%d@example.com", i+1)); got != want {
				t.Errorf("another name of the same person = %s, want %s", got, want)
			}
		}
		if got := ask(40, "t6@example.com"); got != want {
			t.Errorf("the sixth name = %s, want %s", got, want)
		}
	})
	t.Run("attack 238: a code that was not sent", func(t *testing.T) {
		t.Parallel()
		x := newTexted(t)
		x.ask(x.Browser(), tess)
		b := x.Browser()
		page, _ := x.ask(b, tess) // within the minute: nothing is sent, so no guess can be right
		before := x.Dump()
		if a := b.Post(page, "code", "123456"); a.Code != http.StatusUnprocessableEntity {
			t.Errorf("a guess = %d, want 422", a.Code)
		}
		for key, value := range x.Dump() {
			if strings.Contains(key, "identity_sent_code") && before[key] != value {
				t.Errorf("the guess was looked at: %q", key)
			}
		}
	})
	t.Run("attack 238: guessing in parallel", func(t *testing.T) {
		t.Parallel()
		x := newTexted(t)
		b := x.Browser()
		page, code := x.ask(b, tess)
		var wg sync.WaitGroup
		for range 64 {
			guess := &identitytest.Browser{H: b.H, Cookies: map[string]string{}, Address: b.Address}
			for k, v := range b.Cookies {
				guess.Cookies[k] = v
			}
			wg.Go(func() { guess.Post(page, "code", "12345x") })
		}
		wg.Wait()
		if a := b.Post(page, "code", code); a.Code != http.StatusUnprocessableEntity {
			t.Errorf("the right code after 64 wrong ones = %d, want it to be dead", a.Code)
		}
	})
	t.Run("attack 238: a code in another browser", func(t *testing.T) {
		t.Parallel()
		x := newTexted(t)
		_, code := x.ask(x.Browser(), tess)
		b := x.Browser()
		page, _ := x.ask(b, tess) // within the minute: nothing is sent
		if a := b.Post(page, "code", code); a.Code != http.StatusUnprocessableEntity {
			t.Errorf("the code of another browser = %d, want 422", a.Code)
		}
	})
	t.Run("attack 238: a code after the number has changed", func(t *testing.T) {
		t.Parallel()
		x := newTexted(t)
		b := x.Browser()
		page, code := x.ask(b, tess)
		_, err := x.Person.UpdatePerson(t.Context(), x.tess.ID, person.Edit{By: identitytest.Ops, Verified: true},
			func(_ storage.Tx, d *person.Details) error {
				d.Profile.PhoneNumbers = []person.PhoneNumber{{Value: "+31600000000", Primary: true, Verified: true}}
				return nil
			})
		if err != nil {
			t.Fatal(err)
		}
		if a := b.Post(page, "code", code); a.Code != http.StatusUnprocessableEntity {
			t.Errorf("the code = %d, want 422", a.Code)
		}
	})
	t.Run("attack 238: a code that is a second too old", func(t *testing.T) {
		t.Parallel()
		x := newTexted(t)
		b := x.Browser()
		page, code := x.ask(b, tess)
		x.Clock.Advance(10 * time.Minute)
		if a := b.Post(page, "code", code); a.Header().Get("Location") == "/reset" {
			t.Error("the code is still good")
		}
	})
	t.Run("attack 219: a stranger who asks all the time keeps no code from the person", func(t *testing.T) {
		t.Parallel()
		x := newTexted(t)
		own, elsewhere := x.Browser(), x.Browser()
		own.SignIn(tess, "what tess forgot 1")
		ask := func(b *identitytest.Browser) int { return b.Post(b.Get("/forgot/text"), "username", tess).Code }
		for i := range 8 {
			b := x.Browser()
			b.Address = fmt.Sprintf("203.0.113.%d:1", i+1)
			ask(b)
			x.Clock.Advance(time.Second)
		}
		x.Texts.Take()
		if got := ask(elsewhere); got != http.StatusTooManyRequests {
			t.Errorf("in a browser that nobody knows = %d, want 429", got)
		}
		page, code := x.ask(own, tess)
		if a := own.Post(page, "code", code); code == "" || a.Header().Get("Location") != "/reset" {
			t.Errorf("the code %q in the person's own browser = %d", code, a.Code)
		}
		for range 12 {
			x.Clock.Advance(time.Minute)
			ask(own)
		}
		if n := len(x.Texts.Take()); n > 8 {
			t.Errorf("%d codes for 12 asks in the person's own browser, want waits there too", n)
		}
	})
	t.Run("attack 219: filling a telephone", func(t *testing.T) {
		t.Parallel()
		x := newTexted(t)
		sent := 0
		for i := range 20 {
			b := x.Browser()
			b.Address = fmt.Sprintf("203.0.113.%d:1", i+1)
			b.Post(b.Get("/forgot/text"), "username", tess)
			b.Post(b.Get("/forgot/username"), "number", tessNumber)
			sent += len(x.Texts.Take())
		}
		if sent != 2 {
			t.Errorf("%d messages within a minute, want one of each kind", sent)
		}
	})
}

func TestUsernameReminder(t *testing.T) {
	t.Parallel()
	x := newTexted(t)
	x.withNumber("shared", "0031612345678", true)
	x.withNumber("claimed", tessNumber, false)
	b := x.Browser()
	if a := b.Get("/next"); !strings.Contains(a.Body.String(), `href="/forgot/username?flow=`) {
		t.Errorf("the sign-in page does not lead there:\n%s", a.Body)
	}
	page := b.Get("/forgot/username")
	for _, bad := range []string{"", "06 12345678", "call me", strings.Repeat("1", 5000)} {
		if a := b.Post(page, "number", bad); a.Code != http.StatusUnprocessableEntity {
			t.Errorf("the number %.20q = %d, want 422", bad, a.Code)
		}
	}
	a := b.Post(page, "number", "+31 (0)6 12 34 56 78")
	list := x.Texts.Take()
	if a.Header().Get("Location") != "/forgot/username/sent" || len(list) != 1 {
		t.Fatalf("a reminder = %d to %q, %d messages", a.Code, a.Header().Get("Location"), len(list))
	}
	if names := strings.Split(list[0].Data["usernames"], ", "); list[0].To != tessNumber || len(names) != 2 ||
		!strings.Contains(list[0].Data["usernames"], tess) {
		t.Errorf("the message to %s names %q, want tess and shared, who have shown that the number is theirs", list[0].To, names)
	}
	x.Clock.Advance(time.Minute)
	if a := b.Post(page, "number", "+31699999999"); a.Header().Get("Location") != "/forgot/username/sent" || len(x.Texts.Take()) != 0 {
		t.Errorf("a number of nobody = %d, want the same answer and no message", a.Code)
	}
	if n := x.Events()["person.UsernameReminderSentEvent"]; n != 2 {
		t.Errorf("%d events, want one for each person", n)
	}
	for name, change := range map[string]func(*person.Details){
		"removed number":    func(d *person.Details) { d.Profile.PhoneNumbers = nil },
		"number in a draft": func(d *person.Details) { d.Profile.PhoneNumbers = []person.PhoneNumber{{Value: tessNumber}} },
	} {
		_, err := x.Person.UpdatePerson(t.Context(), x.tess.ID, person.Edit{By: identitytest.Ops, Verified: true},
			func(_ storage.Tx, d *person.Details) error { change(d); return nil })
		if err != nil {
			t.Fatal(err)
		}
		x.Clock.Advance(20 * time.Minute)
		b.Post(page, "number", tessNumber)
		if list := x.Texts.Take(); len(list) != 1 || list[0].Data["usernames"] != "shared" {
			t.Errorf("%s: messages = %+v, want shared alone", name, list)
		}
	}
	x.u.Features.UsernameReminderViaSMSEnabled = false
	if a := x.Browser().Get("/forgot/username"); a.Code != http.StatusNotFound {
		t.Errorf("switched off = %d, want 404", a.Code)
	}
}

// TestUsernameThenPassword: a person who has just been sent the username can get a code for a new password at once.
func TestUsernameThenPassword(t *testing.T) {
	t.Parallel()
	x := newTexted(t)
	b := x.Browser()
	b.Post(b.Get("/forgot/username"), "number", tessNumber)
	if list := x.Texts.Take(); len(list) != 1 || list[0].Kind != notify.SMSUsernames {
		t.Fatalf("text messages = %+v, want the username", list)
	}
	page, code := x.ask(b, tess)
	if a := b.Post(page, "code", code); code == "" || a.Header().Get("Location") != "/reset" {
		t.Errorf("the code %q = %d", code, a.Code)
	}
}

func TestUsernameReminderAttacks(t *testing.T) {
	t.Parallel()
	t.Run("attack 219: whose number it is, by the answers", func(t *testing.T) {
		t.Parallel()
		x := newTexted(t)
		var first string
		for _, number := range []string{tessNumber, "+31699999999"} {
			b := x.Browser()
			var seen []string
			for range 5 {
				a := b.Post(b.Get("/forgot/username"), "number", number)
				seen = append(seen, fmt.Sprint(a.Code, a.Header().Get("Location"), a.Header().Get("Retry-After")))
			}
			if got := strings.Join(seen, " | "); first == "" {
				first = got
			} else if got != first {
				t.Errorf("answers for nobody = %s, for somebody %s", got, first)
			}
		}
		if n := len(x.Texts.Take()); n != 1 {
			t.Errorf("%d messages, want 1", n)
		}
	})
	t.Run("attack 219: trying many numbers", func(t *testing.T) {
		t.Parallel()
		x := newTexted(t)
		b := x.Browser()
		page := b.Get("/forgot/username")
		refused := 0
		for i := range 40 {
			if a := b.Post(page, "number", fmt.Sprintf("+316555555%02d", i)); a.Code == http.StatusTooManyRequests {
				refused++
			}
		}
		if refused != 10 {
			t.Errorf("%d of 40 numbers refused, want 10", refused)
		}
	})
}
