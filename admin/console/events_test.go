package console

import (
	"errors"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/gatehouse-id/gatehouse/admin/alert"
	"github.com/gatehouse-id/gatehouse/admin/console/layout"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/web"
)

// TestEventsInTheLanguageOfTheReader: wherever events are listed, they are named in the language of the page. Their
// types stay where they are typed or copied, and one without words is shown by its name.
func TestEventsInTheLanguageOfTheReader(t *testing.T) {
	t.Parallel()
	for language, want := range map[string]struct{ blocked, failed string }{
		"en": {"Person blocked", "Sign-in failed"},
		"nl": {"Persoon geblokkeerd", "Inloggen mislukt"},
		"de": {"Person gesperrt", "Anmeldung fehlgeschlagen"},
		"fr": {"Personne bloquée", "Échec de connexion"},
	} {
		t.Run(language, func(t *testing.T) {
			t.Parallel()
			h := newHarness(t)
			b := h.as("operator@example.com")
			h.setEmail("operator@example.com")
			id, _, err := h.alerts.Add(t.Context(),
				alert.Draft{Name: "Odd things", To: alert.Mail, Filter: alert.Filter{Types: []string{"login.LoginFailedEvent", "group"}}},
				audit.Actor{ID: h.personID("operator@example.com")})
			h.must(err)
			b.acts("/admin/persons/"+h.personID("nobody@example.com")+"/block", "reason", "x")
			if a := b.get("/language?to=" + language + "&back=" + url.QueryEscape("/account")); a.Code != http.StatusOK {
				t.Fatalf("GET %s = %d", a.url, a.Code)
			}
			see := func(at string, words ...string) {
				t.Helper()
				a := b.get(at)
				for _, w := range words {
					if a.Code != http.StatusOK || !strings.Contains(a.Body.String(), w) {
						t.Errorf("GET %s = %d and lacks %q\n%s", at, a.Code, w, a.form())
					}
				}
			}
			see("/admin", want.blocked)
			see("/admin/events?kind=person.PersonBlockedEvent", ">"+want.blocked, `value="person.PersonBlockedEvent"`)
			see("/admin/persons/"+h.personID("nobody@example.com"), want.blocked)
			see("/admin/events/alerts/"+id, want.failed, "login.LoginFailedEvent", ">group<")
			see(newestEvent(b), "<h1>"+want.blocked+"</h1>", ">person.PersonBlockedEvent</code>")
			see("/admin/events.csv?kind=person.PersonBlockedEvent", "person.PersonBlockedEvent,Person Blocked")
			w := b.live("/admin/events?kind=person&live=1")
			w.step()
			b.acts("/admin/persons/"+h.personID("two.nobody@example.com")+"/block", "reason", "x")
			if text, _ := w.step(); !strings.Contains(text, want.blocked) {
				t.Errorf("the stream has sent %q, want %q", text, want.blocked)
			}
			h.happens("x.OddEvent", "192.0.2.1", "")
			see("/admin/events?kind=x", ">Something")
			see(newestEvent(b), "<h1>Something</h1>", ">x.OddEvent</code>")
		})
	}
}

// TestWebhookOfAnUnknownHost: the form of an alert says that there is no such host, and not which name server says so.
func TestWebhookOfAnUnknownHost(t *testing.T) {
	t.Parallel()
	name := &net.DNSError{Err: "no such host", Name: "hooks.example.com", Server: "10.0.0.53:53", IsNotFound: true}
	for what, err := range map[string]error{
		"refused": &alert.PostError{Cause: &net.OpError{Op: "dial", Net: "tcp", Err: name}},
		"invalid": &alert.InvalidError{Field: "url", Cause: name},
	} {
		p := new(layout.Problem)
		if !errors.As(alertProblem(err), &p) || p.Key != "console.problem.webhook" || len(p.Fill) != 2 ||
			p.Fill[1] != web.Foreign("hooks.example.com: no such host") {
			t.Errorf("%s: the problem is %q %v", what, p.Key, p.Fill)
		}
	}
}
