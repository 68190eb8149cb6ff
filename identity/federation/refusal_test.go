package federation_test

import (
	"context"
	"errors"
	"fmt"
	"html"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gatehouse-id/gatehouse/identity/federation"
	"github.com/gatehouse-id/gatehouse/identity/identitytest"
	"github.com/gatehouse-id/gatehouse/idp"
	"github.com/gatehouse-id/gatehouse/internal/authn"
)

// toProvider is the first link of a page that leads to a provider.
func toProvider(page *identitytest.Answer) string {
	return html.UnescapeString(regexp.MustCompile(`/sign-in/provider\?[^"]*`).FindString(page.Body.String()))
}

func TestProviderDown(t *testing.T) {
	t.Parallel()
	e := identitytest.NewFederated(t,
		identitytest.WithProvider("partner", func(p *federation.Provider) { p.Timeout = 500 * time.Millisecond }))
	e.Asking(func(d *authn.Demand) { d.Providers, d.Cancel = []string{"identity", "partner"}, "/cancel" })
	b := e.Browser()
	start := func() *identitytest.Answer {
		return b.Do(http.MethodGet, toProvider(b.Get("/next")), "")
	}
	wantWay := func(what string, a *identitytest.Answer, status int) {
		t.Helper()
		body := a.Body.String()
		if a.Code != status || !strings.Contains(body, "/sign-in/provider?") || !strings.Contains(body, "choose=1") ||
			!strings.Contains(body, `href="/cancel"`) || !strings.Contains(body, "Partner account") {
			t.Errorf("%s: %d, want %d with ways back\n%s", what, a.Code, status, body)
		}
	}
	e.Partner.OnBegin(func(context.Context, idp.Request) (*idp.Next, error) {
		return nil, errors.New("connection refused by 10.1.2.3")
	})
	down := start()
	wantWay("down", down, http.StatusBadGateway)
	if strings.Contains(down.Body.String(), "10.1.2.3") {
		t.Error("the page tells what is inside")
	}
	e.Partner.OnBegin(func(ctx context.Context, _ idp.Request) (*idp.Next, error) { <-ctx.Done(); return nil, ctx.Err() })
	wantWay("slow", start(), http.StatusGatewayTimeout)
	e.Partner.OnBegin(nil)
	away := b.Leave(toProvider(down))
	wantWay("down at the answer", b.Come(away, e.Partner.Answer(nil, errors.New("token endpoint"))), http.StatusBadGateway)
	// Signing in with the password still works.
	if a := b.Post(b.Get("/next"), "username", identitytest.Demo, "password",
		identitytest.DemoPassword); a.Header().Get("Location") != "/next" {
		t.Errorf("password meanwhile: %d\n%s", a.Code, a.Body)
	}
	if n := e.Events()["login.LoginFailedEvent"]; n != 3 {
		t.Errorf("%d events of failures, want 3", n)
	}
}

func TestProviderRejection(t *testing.T) {
	t.Parallel()
	e := identitytest.NewFederated(t)
	e.At("partner")
	var refusals []*authn.Refusal
	ask := func(b *identitytest.Browser, target string) (refusal *authn.Refusal) {
		t.Helper()
		r := identitytest.NewRequest(b, target)
		w := identitytest.NewRecorder()
		_, err := e.Authenticate(w, r, e.Demand(r))
		b.Keep(w)
		errors.As(err, &refusal)
		return refusal
	}
	b := e.Browser()
	no := &idp.Rejection{
		Reason: "the provider refuses", SAMLStatus: "urn:oasis:names:tc:SAML:2.0:status:AuthnFailed",
		Cause: "no_existing_customer\r\n\"&code=evil" + strings.Repeat("x", 300),
	}
	a := b.Do(http.MethodGet, identitytest.Callback(identitytest.State(t, b.Leave("/next")), e.Partner.Answer(nil, no)), "")
	if a.Code != http.StatusSeeOther || a.Header().Get("Location") != "/next#" {
		t.Fatalf("refused = %d to %q, want a redirect to /next#", a.Code, a.Header().Get("Location"))
	}
	refusals = append(refusals, ask(b, "/next"))
	want := &authn.Refusal{
		Code: "access_denied", Reason: "the identity provider has not signed anyone in", SAMLStatus: no.SAMLStatus,
		Cause: ("no_existing_customer???&code=evil" + strings.Repeat("x", 300))[:256],
	}
	if diff := cmp.Diff(want, refusals[0]); diff != "" {
		t.Errorf("refusal (-want +got):\n%s", diff)
	}
	if again := ask(b, "/next"); again != nil {
		t.Errorf("the refusal is told twice: %v", again)
	}
	if other := ask(e.Browser(), "/next"); other != nil {
		t.Errorf("the refusal is told to another browser: %v", other)
	}
	// A sign-in that no application asked for ends at a page.
	e.Asking(func(d *authn.Demand) { d.Client = authn.Client{} })
	if a := b.Do(http.MethodGet, identitytest.Callback(identitytest.State(t, b.Leave("/next")), e.Partner.Answer(nil, no)),
		""); a.Code != http.StatusForbidden || !strings.Contains(a.Body.String(), "You’re not signed in") {
		t.Errorf("without a client: %d\n%s", a.Code, a.Body)
	}
	if b.IsSignedIn() {
		t.Error("somebody is signed in")
	}
}

// TestProviderThatIsNotSetUp: the page of a provider that answers, and that is configured wrongly, does not ask to try
// again in a moment.
func TestProviderThatIsNotSetUp(t *testing.T) {
	t.Parallel()
	e := identitytest.NewFederated(t)
	e.At("partner")
	e.Partner.OnBegin(func(context.Context, idp.Request) (*idp.Next, error) {
		return nil, &idp.Misconfigured{Cause: errors.New("the issuer is https://partner.example/")}
	})
	a := e.Browser().Get("/next")
	if body := a.Body.String(); !strings.Contains(body, "isn’t set up correctly") || strings.Contains(body, "isn’t responding") ||
		strings.Contains(body, "partner.example") {
		t.Errorf("page = %d, want that the provider is not set up, and not why\n%s", a.Code, body)
	}
}

// TestAnswerThatIsNotAccepted: the page says that the answer cannot be used, and not that the provider is down.
func TestAnswerThatIsNotAccepted(t *testing.T) {
	t.Parallel()
	e := identitytest.NewFederated(t)
	e.At("partner")
	for name, err := range map[string]error{
		"user info that is not encrypted": &idp.Invalid{Reason: "the user info is not encrypted"},
		"within another error":            fmt.Errorf("user info: %w", &idp.Invalid{Reason: "signature"}),
		"used before":                     idp.ErrReplayed,
	} {
		b := e.Browser()
		a := b.Come(b.Leave("/next"), e.Partner.Answer(nil, err))
		body := a.Body.String()
		if a.Code != http.StatusBadRequest || !strings.Contains(body, "from the service you sign in with can’t be used") ||
			strings.Contains(body, "isn’t responding") {
			t.Errorf("%s: %d, want 400 and that the answer cannot be used\n%s", name, a.Code, body)
		}
		if b.IsSignedIn() {
			t.Errorf("%s: somebody is signed in", name)
		}
	}
}

// TestCancelledAtProvider: a person who has gone back at a provider reads so, and can go on. An application that names
// the provider itself is told.
func TestCancelledAtProvider(t *testing.T) {
	t.Parallel()
	e := identitytest.NewFederated(t)
	e.At("identity", "partner")
	e.Asking(func(d *authn.Demand) { d.Cancel = "/cancel" })
	gone := &idp.Rejection{
		Reason:     "the provider has refused the sign-in",
		SAMLStatus: "urn:oasis:names:tc:SAML:2.0:status:AuthnFailed", Cancelled: true,
	}
	start := func() (*identitytest.Browser, *identitytest.Answer) {
		b := e.Browser()
		return b, b.Come(b.Leave(toProvider(b.Get("/next"))), e.Partner.Answer(nil, gone))
	}
	b, a := start()
	body := a.Body.String()
	for _, want := range []string{"The sign-in with Partner account was stopped there", "/sign-in/provider?", "choose=1", `href="/cancel"`} {
		if !strings.Contains(body, want) {
			t.Errorf("gone back: %d without %q\n%s", a.Code, want, body)
		}
	}
	if a.Code != http.StatusOK || b.IsSignedIn() {
		t.Errorf("gone back: %d, signed in %t", a.Code, b.IsSignedIn())
	}
	if a := b.Come(b.Leave(toProvider(a)), e.Partner.Answer(identitytest.Ann(), nil)); !strings.HasPrefix(a.Body.String(), "signed in as ") {
		t.Errorf("once more: %d\n%s", a.Code, a.Body)
	}
	e.Asking(func(d *authn.Demand) { d.Provider = "partner" })
	b = e.Browser()
	if a := b.Do(http.MethodGet, identitytest.Callback(identitytest.State(t, b.Leave("/next")), e.Partner.Answer(nil, gone)),
		""); a.Code != http.StatusSeeOther || a.Header().Get("Location") != "/next#" {
		t.Errorf("at the provider of the application: %d to %q, want back to it", a.Code, a.Header().Get("Location"))
	}
}
