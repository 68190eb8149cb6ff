package federation_test

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
	"github.com/gatehouse-id/gatehouse/identity/identitytest"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/idp"
	"github.com/gatehouse-id/gatehouse/idp/idptest"
	"github.com/gatehouse-id/gatehouse/internal/authn"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

// withDirectory is a harness with the directory staff, where Eve is.
type withDirectory struct {
	*identitytest.Harness
	staff *idptest.Directory
}

func newWithDirectory(t testing.TB, change ...func(*identity.Config)) *withDirectory {
	t.Helper()
	d := &withDirectory{staff: &idptest.Directory{Groups: []string{"admins", "staff"}}}
	d.staff.Put("eve", "eve password", identitytest.Eve())
	d.Harness = identitytest.New(t, append([]func(*identity.Config){func(c *identity.Config) {
		c.Providers = []federation.Provider{{ID: "staff", Name: "Staff directory", Source: d.staff}}
	}}, change...)...)
	t.Cleanup(d.CheckInvariants)
	return d
}

// form opens the page of the directory.
func (d *withDirectory) form(b *identitytest.Browser) *identitytest.Answer {
	d.T.Helper()
	page := b.Get("/next")
	_, link, ok := strings.Cut(page.Body.String(), `href="/sign-in/provider?`)
	if !ok {
		d.T.Fatalf("no link to the directory: %d\n%s", page.Code, page.Body)
	}
	link, _, _ = strings.Cut(link, `"`)
	return b.Get("/sign-in/provider?" + strings.ReplaceAll(link, "&amp;", "&"))
}

// enter sends the form of the directory.
func (d *withDirectory) enter(b *identitytest.Browser, username, password string) *identitytest.Answer {
	d.T.Helper()
	return b.Post(d.form(b), "username", username, "password", password)
}

func (d *withDirectory) mustEnter(b *identitytest.Browser, username, password string) authn.Session {
	d.T.Helper()
	a := d.enter(b, username, password)
	if a.Code == http.StatusSeeOther {
		a = b.Get(a.Header().Get("Location"))
	}
	if !strings.HasPrefix(a.Body.String(), "signed in as ") {
		d.T.Fatalf("%s: %d\n%s", username, a.Code, a.Body)
	}
	si, err := d.SessionOf(b)
	if err != nil {
		d.T.Fatal(err)
	}
	return si
}

func (d *withDirectory) want(a *identitytest.Answer, status int, words string) {
	d.T.Helper()
	if a.Code != status || !strings.Contains(a.Body.String(), words) {
		d.T.Errorf("%d, want %d with %q:\n%s", a.Code, status, words, a.Body)
	}
}

// TestPasswordOfADirectory signs a person in with the password that a directory knows, and keeps their groups as the
// directory says.
func TestPasswordOfADirectory(t *testing.T) {
	t.Parallel()
	d := newWithDirectory(t)
	b := d.Browser()
	page := d.form(b)
	d.want(page, http.StatusOK, "Sign in with Staff directory")
	d.want(page, http.StatusOK, "Sign in another way")
	d.want(b.Post(page, "username", "", "password", "x"), http.StatusUnprocessableEntity, "username")
	d.want(b.Post(page, "username", "eve"), http.StatusUnprocessableEntity, "password")
	d.want(d.enter(d.Browser(), "eve", "wrong"), http.StatusUnprocessableEntity, "Incorrect username or password")
	d.want(d.enter(d.Browser(), "nobody", "wrong"), http.StatusUnprocessableEntity, "Incorrect username or password")
	if n := d.Events(); n["login.LoginFailedEvent"] != 2 || n["person.PersonCreatedEvent"] != 1 {
		t.Errorf("events %v, want two failures and nobody new", n)
	}

	si := d.mustEnter(b, "eve", "eve password")
	if si.Provider != "staff" || si.Level != 1 || !si.AuthTime.Equal(d.Clock.Now()) {
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
	now := identitytest.Eve()
	now.Username, now.Groups = "eva", []string{"admins", "not ours"}
	d.staff.Put("eva", "eve password", now)
	if again := d.mustEnter(d.Browser(), "eva", "eve password"); again.Subject != si.Subject {
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
			d.staff.Put(strings.TrimSpace(name), "eve password", identitytest.Eve())
		}
		b := d.Browser()
		d.mustEnter(b, "eve", "eve password") // from now on this browser is known
		stranger := d.Browser()
		for _, name := range []string{"eve", "EVE", "eve@example.com", "Eve", "eve"} {
			d.want(d.enter(stranger, name, "wrong"), http.StatusUnprocessableEntity, "Incorrect username or password")
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
		b.Cookies = onlyDevice(b.Cookies)
		d.mustEnter(b, "eve", "eve password")
		d.Clock.Advance(time.Hour)
		d.mustEnter(stranger, "eve", "eve password")
	})
	t.Run("a name that nobody has waits too", func(t *testing.T) {
		t.Parallel()
		d := newWithDirectory(t)
		b := d.Browser()
		for range 5 {
			d.want(d.enter(b, "nobody", "wrong"), http.StatusUnprocessableEntity, "Incorrect username or password")
		}
		d.want(d.enter(b, "nobody", "wrong"), http.StatusTooManyRequests, "Too many tries")
	})
	t.Run("the account's own password is counted with it", func(t *testing.T) {
		t.Parallel()
		d := newWithDirectory(t)
		si := d.mustEnter(d.Browser(), "eve", "eve password")
		_, err := d.Person.UpdatePerson(t.Context(), si.Subject, person.Edit{Password: secret.New("a password of her own 7")},
			func(storage.Tx, *person.Details) error { return nil })
		if err != nil {
			t.Fatal(err)
		}
		b := d.Browser()
		for range 5 {
			d.want(b.Try("eve", "wrong"), http.StatusUnprocessableEntity, "Incorrect username or password")
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
		"disabled": {
			func(context.Context) error { return &idp.Rejection{Reason: "the account is disabled"} }, http.StatusForbidden,
			"your account can’t be used right now",
		},
		"expired": {
			func(context.Context) error { return &idp.Rejection{Reason: "expired", Password: true} }, http.StatusForbidden,
			"Your password has to be changed",
		},
		"garbage": {
			func(context.Context) error { return &idp.Invalid{Reason: "garbage"} }, http.StatusBadGateway,
			"Staff directory isn’t responding",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newWithDirectory(t)
			d.staff.Answer(c.answer)
			b := d.Browser()
			for range 6 {
				d.want(d.enter(b, "eve", "eve password"), c.status, c.words)
			}
			d.staff.Answer(nil)
			d.mustEnter(b, "eve", "eve password")
			if n := d.Events(); n["login.LoginFailedEvent"] != 6 {
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
	out, in := d.Browser(), d.Browser()
	in.Address = "10.1.2.3:4711"
	if page := out.Get("/next"); strings.Contains(page.Body.String(), "Staff directory") {
		t.Error("the directory is offered to somebody elsewhere")
	}
	page := d.form(in)
	in.Address = "203.0.113.7:4711"
	d.want(in.Get(page.URL), http.StatusForbidden, "sign in this way from here")
	d.want(in.Post(page, "username", "eve", "password", "eve password"), http.StatusForbidden, "sign in this way from here")
	in.Address = "[::ffff:10.9.9.9]:4711"
	other := d.Browser()
	other.Address = in.Address
	d.want(other.Post(page, "username", "eve", "password", "eve password"), http.StatusForbidden, "accept this form")
	a := in.Do(http.MethodPost, page.URL, "username=eve&password=eve+password")
	if a.Code != http.StatusForbidden && a.Code != http.StatusBadRequest {
		t.Errorf("without its token: %d", a.Code)
	}
	if n := d.staff.Tried(); n != 0 {
		t.Errorf("%d passwords were tried", n)
	}
	d.mustEnter(in, "eve", "eve password")
	for _, path := range []string{"/saml/staff/acs", "/oidc/staff/callback", "/oidc/staff/metadata"} {
		if a := in.Do(http.MethodPost, path, "state=x"); a.Code != http.StatusForbidden && a.Code != http.StatusNotFound {
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
	plain := d.Demand
	d.Demand = func(r *http.Request) authn.Demand {
		q := plain(r)
		q.Providers, q.Passive, q.Hint = []string{"staff"}, passive, "eve"
		return q
	}
	b := d.Browser()
	page := b.Get("/next")
	d.want(page, http.StatusOK, `value="eve"`)
	if strings.Contains(page.Body.String(), "another way") {
		t.Error("there is no other way")
	}
	passive = true
	if a := d.Browser().Get("/next"); a.Code != http.StatusForbidden || !strings.Contains(a.Body.String(), "login_required") {
		t.Errorf("prompt=none: %d %s", a.Code, a.Body)
	}
	passive = false
	a := b.Post(page, "username", "eve", "password", "eve password")
	if a = b.Get(a.Header().Get("Location")); !strings.HasPrefix(a.Body.String(), "signed in as ") {
		t.Errorf("%d %s", a.Code, a.Body)
	}
}
