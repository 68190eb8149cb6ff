package identity_test

import (
	"context"
	"errors"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/identity"
	"github.com/gatehouse-id/gatehouse/identity/federation"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/idp"
	"github.com/gatehouse-id/gatehouse/idp/idptest"
	"github.com/gatehouse-id/gatehouse/internal/login"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

// withDirectory is a harness with the directory staff, where Eve is.
type withDirectory struct {
	*harness
	staff *idptest.Directory
}

func newWithDirectory(t testing.TB, change ...func(*identity.Config)) *withDirectory {
	t.Helper()
	d := &withDirectory{staff: &idptest.Directory{Groups: []string{"admins", "staff"}}}
	d.staff.Put("eve", "eve password", eve())
	d.harness = newHarness(t, append([]func(*identity.Config){func(c *identity.Config) {
		c.Providers = []federation.Provider{{ID: "staff", Name: "Staff directory", Source: d.staff}}
	}}, change...)...)
	t.Cleanup(d.checkInvariants)
	return d
}

func eve() idp.Identity {
	return idp.Identity{
		Subject: "uuid-of-eve", Username: "eve", Email: "eve@example.com", Level: 1, Groups: []string{"staff"},
		Details: map[string][]string{"email": {"eve@example.com"}, "name": {"Eve Example"}, "username": {"eve"}},
	}
}

// form opens the page of the directory.
func (d *withDirectory) form(b *browser) *answer {
	d.t.Helper()
	page := b.get("/next")
	_, link, ok := strings.Cut(page.Body.String(), `href="/sign-in/provider?`)
	if !ok {
		d.t.Fatalf("no link to the directory: %d\n%s", page.Code, page.Body)
	}
	link, _, _ = strings.Cut(link, `"`)
	return b.get("/sign-in/provider?" + strings.ReplaceAll(link, "&amp;", "&"))
}

// enter sends the form of the directory.
func (d *withDirectory) enter(b *browser, username, password string) *answer {
	d.t.Helper()
	return b.post(d.form(b), "username", username, "password", password)
}

func (d *withDirectory) mustEnter(b *browser, username, password string) login.Session {
	d.t.Helper()
	a := d.enter(b, username, password)
	if a.Code == http.StatusSeeOther {
		a = b.get(a.Header().Get("Location"))
	}
	if !strings.HasPrefix(a.Body.String(), "signed in as ") {
		d.t.Fatalf("%s: %d\n%s", username, a.Code, a.Body)
	}
	si, err := d.session(b)
	if err != nil {
		d.t.Fatal(err)
	}
	return si
}

func (d *withDirectory) want(a *answer, status int, words string) {
	d.t.Helper()
	if a.Code != status || !strings.Contains(a.Body.String(), words) {
		d.t.Errorf("%d, want %d with %q:\n%s", a.Code, status, words, a.Body)
	}
}

// TestPasswordOfADirectory signs a person in with the password that a directory knows, and keeps their groups as the
// directory says.
func TestPasswordOfADirectory(t *testing.T) {
	t.Parallel()
	d := newWithDirectory(t)
	b := d.browser()
	page := d.form(b)
	d.want(page, http.StatusOK, "Sign in with Staff directory")
	d.want(page, http.StatusOK, "Sign in another way")
	d.want(b.post(page, "username", "", "password", "x"), http.StatusUnprocessableEntity, "username")
	d.want(b.post(page, "username", "eve"), http.StatusUnprocessableEntity, "password")
	d.want(d.enter(d.browser(), "eve", "wrong"), http.StatusUnprocessableEntity, "don’t match")
	d.want(d.enter(d.browser(), "nobody", "wrong"), http.StatusUnprocessableEntity, "don’t match")
	if n := d.events(); n["login.LoginFailedEvent"] != 2 || n["person.PersonCreatedEvent"] != 1 {
		t.Errorf("events %v, want two failures and nobody new", n)
	}

	si := d.mustEnter(b, "eve", "eve password")
	if si.Provider != "staff" || si.Level != 1 || !si.AuthTime.Equal(d.clock.Now()) {
		t.Errorf("session %+v", si)
	}
	groups := func() []string {
		t.Helper()
		p, err := d.Person.Person(t.Context(), si.Subject)
		if err != nil {
			t.Fatal(err)
		}
		return p.Groups
	}
	if p, err := d.Person.Person(t.Context(), si.Subject); err != nil || p.Username != "eve" || p.Name != "Eve Example" || p.EmailVerified {
		t.Errorf("person %+v, %v", p, err)
	}
	if g := groups(); !slices.Equal(g, []string{"staff"}) {
		t.Errorf("groups %v", g)
	}
	_, err := d.Person.UpdatePerson(t.Context(), si.Subject, person.Edit{}, func(_ storage.Tx, p *person.Details) error {
		p.Groups = append(p.Groups, "choir")
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	// Renamed there, and of other groups.
	now := eve()
	now.Username, now.Groups = "eva", []string{"admins", "not ours"}
	d.staff.Put("eva", "eve password", now)
	if again := d.mustEnter(d.browser(), "eva", "eve password"); again.Subject != si.Subject {
		t.Errorf("signed in as %s, want the same person", again.Subject)
	}
	if g := groups(); !slices.Contains(g, "choir") || !slices.Contains(g, "admins") || len(g) != 2 {
		t.Errorf("groups %v, want those of the directory as it says, and the others as they were", g)
	}
}

// TestPasswordsOfADirectoryAreThrottled: however the name is spelled and wherever the password is tried, an account has
// one number of tries.
func TestPasswordsOfADirectoryAreThrottled(t *testing.T) {
	t.Parallel()
	t.Run("attack 222: other spellings at a directory", func(t *testing.T) {
		t.Parallel()
		d := newWithDirectory(t)
		for _, name := range []string{"EVE", "eve@example.com", "Eve "} {
			d.staff.Put(strings.TrimSpace(name), "eve password", eve())
		}
		b := d.browser()
		d.mustEnter(b, "eve", "eve password") // from now on this browser is known
		stranger := d.browser()
		for _, name := range []string{"eve", "EVE", "eve@example.com", "Eve", "eve"} {
			d.want(d.enter(stranger, name, "wrong"), http.StatusUnprocessableEntity, "don’t match")
		}
		tried := d.staff.Tried()
		for _, name := range []string{"eve", "EVE", "eve@example.com"} {
			a := d.enter(stranger, name, "eve password")
			d.want(a, http.StatusTooManyRequests, "Too many tries")
			if a.Header().Get("Retry-After") == "" {
				t.Error("no Retry-After")
			}
		}
		if n := d.staff.Tried(); n != tried {
			t.Errorf("%d passwords were tried while nobody may", n-tried)
		}
		b.cookies = onlyDevice(b.cookies)
		d.mustEnter(b, "eve", "eve password")
		d.clock.Advance(time.Hour)
		d.mustEnter(stranger, "eve", "eve password")
	})
	t.Run("a name that nobody has waits too", func(t *testing.T) {
		t.Parallel()
		d := newWithDirectory(t)
		b := d.browser()
		for range 5 {
			d.want(d.enter(b, "nobody", "wrong"), http.StatusUnprocessableEntity, "don’t match")
		}
		d.want(d.enter(b, "nobody", "wrong"), http.StatusTooManyRequests, "Too many tries")
	})
	t.Run("the account's own password is counted with it", func(t *testing.T) {
		t.Parallel()
		d := newWithDirectory(t)
		si := d.mustEnter(d.browser(), "eve", "eve password")
		_, err := d.Person.UpdatePerson(t.Context(), si.Subject, person.Edit{Password: secret.New("a password of her own 7")}, func(storage.Tx, *person.Details) error { return nil })
		if err != nil {
			t.Fatal(err)
		}
		b := d.browser()
		for range 5 {
			d.want(b.try("eve", "wrong"), http.StatusUnprocessableEntity, "don’t match")
		}
		d.want(d.enter(b, "eve", "eve password"), http.StatusTooManyRequests, "Too many tries")
	})
}

// onlyDevice keeps the cookie by which a browser is known.
func onlyDevice(all map[string]string) map[string]string {
	out := map[string]string{}
	for name, v := range all {
		if strings.HasSuffix(name, "-device") {
			out[name] = v
		}
	}
	return out
}

// TestDirectoriesInTrouble: people see what to do, and what was no guess is not counted.
func TestDirectoriesInTrouble(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		answer func(context.Context) error
		status int
		words  string
	}{
		"down": {func(context.Context) error { return errors.New("no connection") }, http.StatusBadGateway, "Staff directory isn’t responding"},
		"slow": {func(ctx context.Context) error {
			if at, ok := ctx.Deadline(); !ok || at.IsZero() {
				return errors.New("it could wait for ever")
			}
			return context.DeadlineExceeded
		}, http.StatusGatewayTimeout, "Staff directory isn’t responding"},
		"disabled": {func(context.Context) error { return &idp.Rejection{Reason: "the account is disabled"} }, http.StatusForbidden, "your account can’t be used right now"},
		"expired":  {func(context.Context) error { return &idp.Rejection{Reason: "expired", Password: true} }, http.StatusForbidden, "Your password has to be changed"},
		"garbage":  {func(context.Context) error { return &idp.Invalid{Reason: "garbage"} }, http.StatusBadGateway, "Staff directory isn’t responding"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newWithDirectory(t)
			d.staff.Answer(c.answer)
			b := d.browser()
			for range 6 {
				d.want(d.enter(b, "eve", "eve password"), c.status, c.words)
			}
			d.staff.Answer(nil)
			d.mustEnter(b, "eve", "eve password")
			if n := d.events(); n["login.LoginFailedEvent"] != 6 {
				t.Errorf("events %v, want six failures", n)
			}
		})
	}
}

// TestFormsOfADirectory cannot be sent by another site, for another sign-in, or where it is not offered.
func TestFormsOfADirectory(t *testing.T) {
	t.Parallel()
	d := newWithDirectory(t)
	d.staff.Network = netip.MustParsePrefix("10.0.0.0/8")
	out, in := d.browser(), d.browser()
	in.address = "10.1.2.3:4711"
	if page := out.get("/next"); strings.Contains(page.Body.String(), "Staff directory") {
		t.Error("the directory is offered to somebody elsewhere")
	}
	page := d.form(in)
	in.address = "203.0.113.7:4711"
	d.want(in.get(page.url), http.StatusForbidden, "sign in this way from here")
	d.want(in.post(page, "username", "eve", "password", "eve password"), http.StatusForbidden, "sign in this way from here")
	in.address = "[::ffff:10.9.9.9]:4711"
	other := d.browser()
	other.address = in.address
	d.want(other.post(page, "username", "eve", "password", "eve password"), http.StatusForbidden, "accept this form")
	a := in.do(http.MethodPost, page.url, "username=eve&password=eve+password")
	if a.Code != http.StatusForbidden && a.Code != http.StatusBadRequest {
		t.Errorf("without its token: %d", a.Code)
	}
	if n := d.staff.Tried(); n != 0 {
		t.Errorf("%d passwords were tried", n)
	}
	d.mustEnter(in, "eve", "eve password")
	for _, path := range []string{"/saml/staff/acs", "/oidc/staff/callback", "/oidc/staff/metadata"} {
		if a := in.do(http.MethodPost, path, "state=x"); a.Code != http.StatusForbidden && a.Code != http.StatusNotFound {
			t.Errorf("POST %s = %d, want that a directory has no endpoints", path, a.Code)
		}
	}
}

// TestDirectoryAlone: where a directory is the only way to sign in, its form is the sign-in page, and prompt=none is
// answered without a page.
func TestDirectoryAlone(t *testing.T) {
	t.Parallel()
	d := newWithDirectory(t)
	passive := false
	plain := d.demand
	d.demand = func(r *http.Request) login.Demand {
		q := plain(r)
		q.Providers, q.Passive, q.Hint = []string{"staff"}, passive, "eve"
		return q
	}
	b := d.browser()
	page := b.get("/next")
	d.want(page, http.StatusOK, `value="eve"`)
	if strings.Contains(page.Body.String(), "another way") {
		t.Error("there is no other way")
	}
	passive = true
	if a := d.browser().get("/next"); a.Code != http.StatusForbidden || !strings.Contains(a.Body.String(), "login_required") {
		t.Errorf("prompt=none: %d %s", a.Code, a.Body)
	}
	passive = false
	a := b.post(page, "username", "eve", "password", "eve password")
	if a = b.get(a.Header().Get("Location")); !strings.HasPrefix(a.Body.String(), "signed in as ") {
		t.Errorf("%d %s", a.Code, a.Body)
	}
}
