package federation_test

import (
	"maps"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/gatehouse-id/gatehouse/identity"
	"github.com/gatehouse-id/gatehouse/identity/federation"
	"github.com/gatehouse-id/gatehouse/identity/identitytest"
	"github.com/gatehouse-id/gatehouse/idp/idptest"
	"github.com/gatehouse-id/gatehouse/internal/authn"
)

func TestProviderChoice(t *testing.T) {
	t.Parallel()
	ways := []struct{ name, shown string }{
		{"password", `name="password"`},
		{"partner", "Continue with Partner account"},
		{"corp", "Continue with corp"},
		{"off", "Continue with off"},
	}
	for _, tc := range []struct {
		name   string
		demand func(*authn.Demand)
		want   string // the ways on the page. Empty: straight to the provider
	}{
		{"nobody named", func(*authn.Demand) {}, "password partner corp"},
		{"identity is the default", func(d *authn.Demand) { d.Providers = []string{"identity", "partner"} }, "password partner"},
		{"another is the default", func(d *authn.Demand) { d.Providers = []string{"partner", "identity"} }, ""},
		{"one alone", func(d *authn.Demand) { d.Providers = []string{"partner"} }, ""},
		{"one alone, account to be selected", func(d *authn.Demand) { d.Providers, d.SelectAccount = []string{"partner"}, true }, ""},
		{
			"two, account to be selected",
			func(d *authn.Demand) { d.Providers, d.SelectAccount = []string{"partner", "corp"}, true }, "partner corp",
		},
		{"asked for", func(d *authn.Demand) { d.Providers, d.Provider = []string{"identity", "partner"}, "partner" }, ""},
		{"identity asked for", func(d *authn.Demand) { d.Provider = "identity" }, "password"},
		{
			"level above a password's",
			func(d *authn.Demand) { d.Providers, d.Level = []string{"identity", "partner", "corp"}, 2 }, "partner corp",
		},
		{"level above a password's, one left", func(d *authn.Demand) { d.Providers, d.Level = []string{"identity", "partner"}, 2 }, ""},
		{"one is disabled", func(d *authn.Demand) { d.Providers = []string{"identity", "off"} }, "password"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			e := identitytest.NewFederated(t, func(c *identity.Config) {
				c.Providers = append(c.Providers, federation.Provider{ID: "off", Source: idptest.New(), Disabled: true})
			})
			e.WithoutStepUp()
			e.Asking(tc.demand)
			b := e.Browser()
			if tc.want == "" {
				if away := b.Leave("/next"); !strings.HasPrefix(away, idptest.Place) {
					t.Errorf("sent to %q, want the provider", away)
				}
				return
			}
			body := b.Get("/next").Body.String()
			var got []string
			for _, w := range ways {
				if strings.Contains(body, w.shown) {
					got = append(got, w.name)
				}
			}
			if strings.Join(got, " ") != tc.want {
				t.Errorf("the page offers %q, want %s:\n%s", got, tc.want, body)
			}
		})
	}
}

// TestLastProvider: the provider used last is listed first, and a forged cookie cannot change the order.
func TestLastProvider(t *testing.T) {
	t.Parallel()
	e := identitytest.NewFederated(t, identitytest.WithProvider("corp", func(p *federation.Provider) { p.Name = "Workplace" }))
	e.Asking(func(d *authn.Demand) {
		if d.Return == "/next?corp" {
			d.Provider = "corp"
		}
	})
	b := e.Browser()
	order := func() (corpFirst, marked bool) {
		body := b.Get("/next?" + e.Clock.Now().Format("150405")).Body.String()
		return strings.Index(body, "Continue with Workplace") < strings.Index(body, "Continue with Partner account"),
			strings.Contains(body, "Last used")
	}
	if first, marked := order(); first || marked {
		t.Error("a new browser has used a provider")
	}
	away := b.Leave("/next?corp")
	b.Get(callback("/saml/corp/acs", identitytest.State(t, away), e.Corp.Answer(identitytest.Ann(), nil)))
	last := b.Cookie("last")
	maps.DeleteFunc(b.Cookies, func(name, _ string) bool { return strings.HasSuffix(name, "-session") })
	if first, marked := order(); !first || !marked {
		t.Errorf("after a sign-in at corp: first %t, marked %t", first, marked)
	}
	for name := range b.Cookies {
		if strings.HasSuffix(name, "-last") {
			b.Cookies[name] = "corp." + strings.Repeat("A", len(last)-len("corp."))
		}
	}
	if first, marked := order(); first || marked {
		t.Error("a forged cookie was believed")
	}
}

func TestDomains(t *testing.T) {
	t.Parallel()
	e := identitytest.NewFederated(t,
		identitytest.WithProvider("partner", func(p *federation.Provider) { p.Domains = []string{"partner.example"} }))
	e.Asking(func(d *authn.Demand) {
		if d.Return == "/next?hint" {
			d.Hint = "ann@partner.example"
		}
		if d.Return == "/next?alone" {
			d.Providers = []string{"corp", "partner"}
			d.SelectAccount = true
		}
	})
	b := e.Browser()
	page := b.Get("/next")
	if strings.Contains(page.Body.String(), `type="password"`) || !strings.Contains(page.Body.String(), "Next") {
		t.Fatalf("first step:\n%s", page.Body)
	}
	a := b.Post(page, "username", "Ann@Partner.Example")
	if a.Code != http.StatusSeeOther || strings.Contains(a.Header().Get("Location"), "@") {
		t.Fatalf("username of a domain = %d to %q, want a redirect without the username", a.Code, a.Header().Get("Location"))
	}
	if away := b.Leave(a.Header().Get("Location")); !strings.HasPrefix(away, idptest.Place) ||
		e.Partner.Requests()[0].Hint != "Ann@Partner.Example" {
		t.Errorf("sent to %q, asked %+v", away, e.Partner.Requests())
	}
	// The redirects after a form end at one of our pages, because form-action applies to the whole chain.
	if hop := b.Do(http.MethodGet, a.Header().Get("Location"), ""); hop.Code != http.StatusOK || hop.Header().Get("Refresh") == "" {
		t.Errorf("after the form: %d %v", hop.Code, hop.Header())
	}
	// Other usernames lead to the password.
	b = e.Browser()
	second := b.Get(b.Post(b.Get("/next"), "username", identitytest.Demo).Header().Get("Location"))
	if !strings.Contains(second.Body.String(), `type="password"`) || !strings.Contains(second.Body.String(), `value="`+identitytest.Demo+`"`) {
		t.Fatalf("second step:\n%s", second.Body)
	}
	if a := b.Post(second, "username", identitytest.Demo, "password", identitytest.DemoPassword); a.Header().Get("Location") != "/next" {
		t.Errorf("password = %d to %q", a.Code, a.Header().Get("Location"))
	}
	// A login hint from the client leads to the provider at once.
	if away := e.Browser().Leave("/next?hint"); !strings.HasPrefix(away, idptest.Place) {
		t.Errorf("with a hint sent to %q", away)
	}
	// Without password sign-in, other usernames get a message.
	b = e.Browser()
	if a := b.Post(b.Get("/next?alone"), "username", "x@elsewhere.example"); a.Code != http.StatusUnprocessableEntity ||
		!strings.Contains(a.Body.String(), "find a sign-in method") {
		t.Errorf("unknown domain = %d\n%s", a.Code, a.Body)
	}
}

// The buttons of providers stand in the order of their names, as people read them; where an application or the
// configuration API gives an order, that order wins.
func TestProvidersStandByTheirNames(t *testing.T) {
	t.Parallel()
	e := identitytest.NewFederated(t, func(c *identity.Config) {
		for _, p := range []string{"a Zebra", "b école", "c Office 10", "d apple", "e Office 2", "g Zebra", "h Banana"} {
			c.Providers = append(c.Providers, federation.Provider{ID: p[:1], Name: p[2:], Source: idptest.New(), Path: "oidc"})
		}
	})
	m := &managerStub{version: 1}
	e.Manager = m
	m.list = []federation.Provider{
		{ID: "y", Name: "Second", Source: idptest.New(), Path: "oidc"},
		{ID: "x", Name: "First", Source: idptest.New(), Path: "oidc"},
	}
	e.Start()
	order := func() (ids string) {
		for _, found := range regexp.MustCompile(`[?&;]idp=([a-z]+)`).FindAllStringSubmatch(e.Browser().Get("/next").Body.String(), -1) {
			if id := found[1]; len(id) == 1 {
				ids += id
			}
		}
		return ids
	}
	if got := order(); got != "dhbecagyx" {
		t.Errorf("the page has the providers in the order %s, want dhbecagyx", got)
	}
	e.Asking(func(d *authn.Demand) { d.Providers = []string{"identity", "g", "x", "d", "y"} })
	if got := order(); got != "gxdy" {
		t.Errorf("the page has the providers of an application in the order %s, want its own, gxdy", got)
	}
}
