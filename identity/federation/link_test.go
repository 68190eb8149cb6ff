package federation_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/gatehouse-id/gatehouse/identity/federation"
	"github.com/gatehouse-id/gatehouse/identity/identitytest"
	"github.com/gatehouse-id/gatehouse/identity/notify"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/session"
	"github.com/gatehouse-id/gatehouse/idp"
	"github.com/gatehouse-id/gatehouse/internal/authn"
	"github.com/gatehouse-id/gatehouse/storage"
)

// told returns how many mails of a kind were sent since the last call.
func told(h *identitytest.Harness, kind notify.Kind) (n int) {
	for _, m := range h.Notices.Take() {
		if m.Kind == kind {
			n++
		}
	}
	return n
}

// TestLinkingAsksForTheSecondFactor: the password of a person who has a PIN is not enough to add another way in.
func TestLinkingAsksForTheSecondFactor(t *testing.T) {
	t.Parallel()
	e := identitytest.NewLinking(t, true)
	e.Asking(func(d *authn.Demand) { d.Providers = []string{"partner"} })
	b := e.Browser()
	page := e.WantAsked("the username of carla", b, identitytest.Mallory())
	if !strings.Contains(page.Body.String(), "mallory@evil.example") {
		t.Errorf("the page does not say whose account is linked:\n%s", page.Body)
	}
	a := b.Post(page, "username", "carla", "password", identitytest.DemoPassword)
	if a.Code != http.StatusSeeOther || !strings.HasPrefix(a.Header().Get("Location"), "/sign-in/connect") {
		t.Fatalf("the right password = %d to %q, want the page again", a.Code, a.Header().Get("Location"))
	}
	e.WantLevel(b, 1)
	if n := e.Events()["person.ExternalIdentityCoupledEvent"]; n != 0 {
		t.Fatalf("the identity is linked by the password alone")
	}
	// Neither the page before nor the form of the step-up links it.
	if again := b.Post(page, "username", "carla", "password", identitytest.DemoPassword); again.Code == http.StatusOK ||
		e.Events()["person.ExternalIdentityCoupledEvent"] != 0 {
		t.Errorf("the first form again = %d", again.Code)
	}
	e.WantAsked("the identity in another browser", e.Browser(), identitytest.Mallory())
	ask := b.Get(a.Header().Get("Location"))
	if !strings.HasPrefix(ask.URL, "/step-up") {
		t.Fatalf("after the password the page is %s, want the step-up:\n%s", ask.URL, ask.Body)
	}
	a = b.Post(ask, "code", "827164")
	agree := b.Get(a.Header().Get("Location"))
	if text := agree.Body.String(); !strings.HasPrefix(agree.URL, "/sign-in/connect") || !strings.Contains(text, "mallory@evil.example") ||
		!strings.Contains(text, "carla") || strings.Contains(text, `name="password"`) {
		t.Fatalf("after the PIN the page is %s:\n%s", agree.URL, agree.Body)
	}
	if n := e.Events()["person.ExternalIdentityCoupledEvent"]; n != 0 {
		t.Fatal("the identity is linked before the person has agreed")
	}
	if a = b.Post(agree); a.Code != http.StatusSeeOther || a.Header().Get("Location") != "/next" {
		t.Fatalf("agreed = %d to %q\n%s", a.Code, a.Header().Get("Location"), a.Body)
	}
	e.WantLevel(b, 2)
	if n := told(e.Harness, notify.IdentityCoupled); e.Events()["person.ExternalIdentityCoupledEvent"] != 1 || n != 1 {
		t.Errorf("%d events and %d mails of the link, want one each", e.Events()["person.ExternalIdentityCoupledEvent"], n)
	}
	if again := b.Post(agree); again.Code != http.StatusBadRequest {
		t.Errorf("the form again = %d, want 400", again.Code)
	}
}

// TestLinkingWhileTheSessionFalls: the session that stepped up loses its level, since its PIN was removed as lost,
// while the agreement to the link is on its way. The link is not made.
func TestLinkingWhileTheSessionFalls(t *testing.T) {
	t.Parallel()
	e := identitytest.NewLinking(t, true)
	e.Asking(func(d *authn.Demand) { d.Providers = []string{"partner"} })
	b := e.Browser()
	a := b.Post(e.WantAsked("the username of carla", b, identitytest.Mallory()), "username", "carla", "password", identitytest.DemoPassword)
	ask := b.Get(a.Header().Get("Location"))
	agree := b.Get(b.Post(ask, "code", "827164").Header().Get("Location"))
	if !strings.HasPrefix(agree.URL, "/sign-in/connect") {
		t.Fatalf("after the PIN the page is %s:\n%s", agree.URL, agree.Body)
	}
	store, id := e.Store.Store, e.Details("carla").ID
	restore := e.HangUpBefore(1, func() {
		if err := store.Update(t.Context(),
			func(tx storage.Tx) error { return e.Session.LowerSessions(tx, id, session.MethodPIN, "") }); err != nil {
			t.Error(err)
		}
	})
	a = b.Post(agree)
	restore()
	if n := e.Events()["person.ExternalIdentityCoupledEvent"]; a.Code == http.StatusSeeOther || n != 0 {
		t.Errorf("agreed by a session that has fallen = %d, and %d links", a.Code, n)
	}
	e.WantLevel(b, 1)
}

// TestLinkingGivesNoLevelThatWasNotShown: the session after a link by password has the level of a password, whatever
// the provider says; a demand for more leads back to the provider.
func TestLinkingGivesNoLevelThatWasNotShown(t *testing.T) {
	t.Parallel()
	e := identitytest.NewLinking(t, false)
	e.Asking(func(d *authn.Demand) { d.Providers, d.Level = []string{"partner"}, 3 })
	b := e.Browser()
	a := b.Post(e.WantAsked("the username of carla", b, identitytest.Mallory()), "username", "carla", "password", identitytest.DemoPassword)
	if a.Code != http.StatusSeeOther {
		t.Fatalf("linked = %d\n%s", a.Code, a.Body)
	}
	e.WantLevel(b, 1)
	if away := b.Leave(a.Header().Get("Location")); !strings.Contains(away, "state=") {
		t.Errorf("a demand of level 3 leads to %q, want to the provider", away)
	}
	if list := e.Notices.Take(); len(list) != 1 || list[0].Kind != notify.IdentityCoupled ||
		list[0].Data["account"] != "mallory@evil.example" {
		t.Errorf("%d mails tell of the link, want one that names the account of mallory", len(list))
	}
}

// TestLinkingIsForVerifiedAddresses: an identity without a verified address gets an account of its own.
func TestLinkingIsForVerifiedAddresses(t *testing.T) {
	t.Parallel()
	e := identitytest.NewLinking(t, false)
	e.At("partner")
	id := identitytest.Mallory()
	id.EmailVerified = false
	si := e.MustEnter(e.Browser(), id)
	if p, err := e.Person.Person(t.Context(), si.Subject); err != nil || !strings.HasPrefix(p.Username, "partner-") {
		t.Errorf("Person = %+v, %v, want one with a made-up username", p, err)
	}
}

// TestUsernamesFromProviders: a provider names a newcomer only as far as the operator lets it.
func TestUsernamesFromProviders(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change  func(*idp.Identity)
		domains []string
		want    string // empty: a made-up one
	}{
		"a name that the operator maps":               {func(id *idp.Identity) { id.Username = "ann.partner" }, nil, "ann.partner"},
		"a verified address":                          {func(*idp.Identity) {}, nil, ""},
		"a verified address of the provider's domain": {func(*idp.Identity) {}, []string{"partner.example"}, "ann@partner.example"},
		"a verified address of another domain":        {func(*idp.Identity) {}, []string{"corp.example"}, ""},
		"an address that is not verified":             {func(id *idp.Identity) { id.EmailVerified = false }, []string{"partner.example"}, ""},
		"an address as the name":                      {func(id *idp.Identity) { id.Username = "boss@example.com" }, nil, ""},
		"its own verified address as the name": {
			func(id *idp.Identity) { id.Username = "Ann@partner.example" },
			nil, "Ann@partner.example",
		},
		"an address as the name, in full-width signs": {func(id *idp.Identity) { id.Username = "boss＠example.com" }, nil, ""},
		"root":                              {func(id *idp.Identity) { id.Username = "root" }, nil, ""},
		"Admin":                             {func(id *idp.Identity) { id.Username = "Admin" }, nil, ""},
		"postmaster, in full-width letters": {func(id *idp.Identity) { id.Username = "ｐｏｓｔｍａｓｔｅｒ" }, nil, ""},
		"a subject that is a name":          {func(id *idp.Identity) { id.Subject, id.EmailVerified = "admin", false }, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := identitytest.NewFederated(t, identitytest.WithProvider("partner", func(p *federation.Provider) { p.Domains = c.domains }))
			e.At("partner")
			id := identitytest.Ann()
			c.change(id)
			p, err := e.Person.Person(t.Context(), e.MustEnter(e.Browser(), id).Subject)
			if made := strings.HasPrefix(p.Username, "partner-"); err != nil || p.Username != c.want && !(c.want == "" && made) {
				t.Errorf("username = %q, %v, want %q, or a made-up one if that is empty", p.Username, err, c.want)
			}
		})
	}
}

// TestDomainsBoundWhatAProviderVouchesFor: a provider links with no one by an address outside of its domains.
func TestDomainsBoundWhatAProviderVouchesFor(t *testing.T) {
	t.Parallel()
	e := identitytest.NewFederated(t, identitytest.CoupleByEmail,
		identitytest.WithProvider("partner", func(p *federation.Provider) { p.Domains, p.VerifiesEmail = []string{"partner.example"}, true }))
	e.At("partner")
	id := identitytest.Known()
	id.Details["email_verified"] = []string{"true"}
	si := e.MustEnter(e.Browser(), id)
	if si.Subject == e.DemoID() {
		t.Error("signed in as the person of an address that the provider cannot vouch for")
	}
	if v := si.Details["email_verified"]; len(v) != 1 || v[0] != "false" {
		t.Errorf("details say that the address is verified: %q", v)
	}
	if p, err := e.Person.Person(t.Context(), si.Subject); err != nil || p.EmailVerified {
		t.Errorf("Person = %+v, %v, want an address that is not verified", p, err)
	}
}

// TestUnverifiedAddressesAreMarked: an application sees of an address in the details that no one has verified it.
func TestUnverifiedAddressesAreMarked(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*idp.Identity)
		want   string
	}{
		"verified":              {func(*idp.Identity) {}, ""},
		"not verified":          {func(id *idp.Identity) { id.EmailVerified = false }, "false"},
		"a detail alone":        {func(id *idp.Identity) { id.Email, id.EmailVerified = "", false }, "false"},
		"a detail that says so": {func(id *idp.Identity) { id.Email, id.Details["email_verified"] = "", []string{"true"} }, "true"},
		"another address":       {func(id *idp.Identity) { id.Details["email"] = []string{"boss@partner.example"} }, "false"},
		"no address in details": {func(id *idp.Identity) { delete(id.Details, "email"); id.EmailVerified = false }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := identitytest.NewFederated(t)
			e.At("partner")
			id := identitytest.Ann()
			c.change(id)
			if got := strings.Join(e.MustEnter(e.Browser(), id).Details["email_verified"], " "); got != c.want {
				t.Errorf("email_verified among the details = %q, want %q", got, c.want)
			}
		})
	}
}

// TestNamesThatTurnAround: a name cannot change the direction of the text around it.
func TestNamesThatTurnAround(t *testing.T) {
	t.Parallel()
	e := identitytest.NewFederated(t)
	e.At("partner")
	id := identitytest.Ann()
	id.Details["lastName"] = []string{"gpj.\u202enimda"}
	p, err := e.Person.Person(t.Context(), e.MustEnter(e.Browser(), id).Subject)
	if err != nil || strings.ContainsRune(p.Name+p.FamilyName, '\u202e') {
		t.Errorf("Person = %+q, %v, want no direction mark", p.Name, err)
	}
	for _, c := range "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069" {
		if person.IsText("Ann"+string(c), person.MaxName) {
			t.Errorf("IsText with %U = true, want false", c)
		}
	}
	if !person.IsText("\u05d0\u05e0\u200f", person.MaxName) {
		t.Error("a Hebrew name with a mark of its own direction is refused")
	}
}

// TestReservedUsernames: no one chooses a username that stands for the system or those who run it.
func TestReservedUsernames(t *testing.T) {
	t.Parallel()
	x := identitytest.NewRegistering(t)
	b := x.Browser()
	form := x.Arrive(b, identitytest.Ann())
	for _, name := range []string{"admin", "Root", "ｐｏｓｔｍａｓｔｅｒ", "no-reply"} {
		a := b.Post(form, "username", name, "password", "correct horse battery", "password_again", "correct horse battery")
		if a.Code != http.StatusUnprocessableEntity || !strings.Contains(a.Body.String(), "That username is reserved") {
			t.Errorf("username %q = %d, want 422 and that it is reserved", name, a.Code)
		}
	}
	if x.Persons() != 0 {
		t.Error("a person was created")
	}
}
