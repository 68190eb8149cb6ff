package console

import (
	"encoding/base64"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/admin/console/layout"
	"github.com/gatehouse-id/gatehouse/admin/console/messages"
	"github.com/gatehouse-id/gatehouse/admin/console/settingspages"
	"github.com/gatehouse-id/gatehouse/identity/notify"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/web"
	"github.com/gatehouse-id/gatehouse/internal/web/sample"
	"github.com/gatehouse-id/gatehouse/storage"
)

// The rows of the table of rights about the screens of package messages.
func init() {
	everybody := [4]string{"+", "+", "+", "+"}
	maps.Copy(rights, map[string][4]string{
		"/messages":                          everybody,
		"/messages/undo-messages":            {"-", "-", "+", "+"},
		"/messages/texts/{id}":               everybody,
		"/messages/texts/{id}/edit-message":  {"-", "-", "+", "+"},
		"/messages/texts/{id}/reset-message": {"-", "-", "+", "+"},
		"/messages/previews":                 everybody,
		"/messages/previews/{id}":            everybody,
		"/messages/previews/{id}/document":   everybody,
		"/messages/previews/{id}/send-test":  {"-", "-", "+", "+"},
		"/messages/brand":                    everybody,
		"/messages/queue":                    everybody,
		"/messages/queue/send-now":           looksAfter,
		"/messages/queue/drop-message":       operator,
	})
}

// messagesDeps returns the dependencies of the screens of package messages in this test.
func (h *harness) messagesDeps(s settingspages.Deps) messages.Deps {
	s.PlaceOf = func(option string) string {
		return map[string]string{"identity: brand name": "Caddyfile:9"}[option]
	}
	return messages.Deps{
		Deps: s, Mail: notify.MailConfig{Issuer: issuer, Brand: "Albers"},
		SMS: notify.SMSConfig{Issuer: issuer, Brand: "Albers"}, Sender: h.notices, Recorder: h.recorder,
	}
}

// messagesPaths writes a payload into texts of a page, a mail and a text message, and returns the screens that show it.
func (h *harness) messagesPaths(payload, q string) (out []string) {
	h.t.Helper()
	text := strings.TrimSpace(payload)
	item := "?item=mail." + base64.RawURLEncoding.EncodeToString([]byte(h.failing(payload)))
	out = append(out, queuePath+"/send-now"+item, queuePath+"/drop-message"+item)
	h.edit(func(u *settings.Units) {
		u.CustomMessages.Default = settings.Translations{
			"xss": text, "sign_in.title": text, "mail.welcome.text": text,
			"mail.welcome.subject": text, "mail.welcome.action": text, "sms.usernames": text,
		}
		u.CustomMessages.Locales["nl"] = settings.Translations{"mail.greeting": text, "sign_in.submit": text}
		u.Messages = settings.Messages{"de": {"sign_in.title": text}}
	})
	for _, path := range []string{
		"", "?" + q, "?state=changed&locale=nl", "/texts/xss", "/texts/sign_in.title", "/texts/sign_in.title?" + q,
		"/texts/sign_in.title/edit-message?locale=default", "/texts/sign_in.title/edit-message?" + q,
		"/texts/mail.greeting/reset-message?locale=nl", "/undo-messages",
		"/previews", "/previews?" + q, "/previews?group=mail", "/previews?group=sms", "/previews/sign_in", "/previews/sign_in?locale=nl",
		"/previews/mail.welcome", "/previews/mail.welcome?" + q, "/previews/mail.welcome?locale=nl", "/previews/sms.usernames",
		"/previews/sign_in/document", "/previews/sign_in/document?locale=nl&scheme=dark", "/previews/sign_in/document?" + q,
		"/previews/mail.welcome/document", "/previews/mail.welcome/document?locale=nl", "/previews/mail.welcome/send-test", "/brand", "/queue",
		"/queue?" + q, "/queue?state=failed&channel=" + url.QueryEscape(payload),
	} {
		out = append(out, layout.Root+"/messages"+path)
	}
	return out
}

// unverify gives someone an address that is not verified.
func (h *harness) unverify(username string) {
	h.t.Helper()
	_, err := h.id.Person.UpdatePerson(h.t.Context(), h.personID(username), person.Edit{By: audit.Actor{ID: "test"}},
		func(_ storage.Tx, d *person.Details) error {
			d.Profile.EmailAddresses = []person.EmailAddress{{Value: "victim@example.com", Primary: true}}
			return nil
		})
	h.must(err)
}

// TestTextsAreListed: every built-in text is found by its key and by its words, in each language, page by page.
func TestTextsAreListed(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	b := h.as("viewer@example.com")
	seen := map[string]bool{}
	pages := 0
	for next := "/admin/messages?locale=nl"; next != ""; pages++ {
		a := b.get(next)
		if a.Code != http.StatusOK {
			t.Fatalf("GET %s = %d", next, a.Code)
		}
		rows := strings.Split(a.form(), `<a class="row" href="/admin/messages/texts/`)[1:]
		if len(rows) > layout.Rows {
			t.Fatalf("%s has %d rows", next, len(rows))
		}
		for _, row := range rows {
			key, _, _ := strings.Cut(row, "?")
			seen[key] = true
		}
		next = ""
		if _, after, ok := strings.Cut(a.form(), `" rel="next"`); ok && after != "" {
			before, _, _ := strings.Cut(a.form(), `" rel="next"`)
			next = strings.ReplaceAll(before[strings.LastIndex(before, `"`)+1:], "&amp;", "&")
		}
	}
	for _, key := range []string{
		"sign_in.title", "mail.welcome.text", "sms.usernames", "error.expired.title",
		"console.messages.title", "problem.code",
	} {
		if !seen[key] {
			t.Errorf("%s is not listed", key)
		}
	}
	if len(seen) < 1900 || seen["addressed.sign_in.username"] {
		t.Errorf("%d texts are listed on %d pages", len(seen), pages)
	}
	for q, want := range map[string]string{
		"q=sign_in.title": "sign_in.title", "q=Uitloggen&locale=nl": "sign_out",
		"area=sms": "sms.usernames",
	} {
		if a := b.get("/admin/messages?" + q); !strings.Contains(a.form(), "/admin/messages/texts/"+want) ||
			strings.Contains(a.form(), "texts/consent.title") {
			t.Errorf("?%s does not find %s alone:\n%s", q, want, a.form())
		}
	}
	if a := b.get("/admin/messages?q=nothing-has-this"); !strings.Contains(a.form(), `class="empty"`) {
		t.Errorf("an empty list has no next step:\n%s", a.form())
	}
	if a := b.get("/admin/messages/texts/no.such.key"); a.Code != http.StatusNotFound {
		t.Errorf("an unknown text = %d", a.Code)
	}
}

// TestTextsAreEdited: a text is changed in one language, shown at once, taken back, and the change undone.
func TestTextsAreEdited(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	b, by := h.as("operator@example.com"), h.personID("operator@example.com")
	const path = "/admin/messages/texts/sign_in.title"
	h.actHasEvent(b, by, path+"/edit-message?locale=nl", "configuration.ConfigurationUpdatedEvent", "text", "Kom binnen")
	if got := h.units().CustomMessages.Locales["nl"]["sign_in.title"]; got != "Kom binnen" {
		t.Fatalf("stored is %q", got)
	}
	for _, where := range []string{
		path, "/admin/messages?locale=nl&state=changed", "/admin/messages/previews/sign_in?locale=nl",
		"/admin/messages/previews/sign_in/document?locale=nl", "/language?to=nl&back=/sign-in",
	} {
		if a := b.get(where); !strings.Contains(a.Body.String(), "Kom binnen") && !strings.HasPrefix(where, "/language") {
			t.Errorf("%s does not show the text:\n%s", where, a.Body)
		}
	}
	if a := b.get("/admin/messages/previews/sign_in/document?locale=de"); strings.Contains(a.Body.String(), "Kom binnen") {
		t.Errorf("another language shows it, too")
	}
	if a := b.acts("/admin/messages/undo-messages"); a.Code != http.StatusOK || h.units().CustomMessages.Locales["nl"]["sign_in.title"] != "" {
		t.Errorf("undone = %d\n%s", a.Code, a.form())
	}
	h.edit(func(u *settings.Units) {
		u.CustomMessages.Locales["NL"] = settings.Translations{"sign_in.title": "Ooit"}
	})
	h.actHasEvent(b, by, path+"/edit-message?locale=nl", "configuration.ConfigurationUpdatedEvent", "text", "Nu")
	if l := h.units().CustomMessages.Locales; l["NL"]["sign_in.title"] != "Nu" || len(l) != 1 {
		t.Errorf("the spelling of the unit is not kept: %v", l)
	}
	h.actHasEvent(b, by, path+"/reset-message?locale=nl", "configuration.ConfigurationUpdatedEvent")
	if l := h.units().CustomMessages.Locales; len(l) != 0 {
		t.Errorf("after the reset there is %v", l)
	}
	h.edit(func(u *settings.Units) { u.Redirects.URLAfterLogin = "https://new.example/" })
	if a := b.get("/admin/messages"); strings.Contains(a.form(), "undo-messages") {
		t.Errorf("a change of something else can be undone here")
	}
	t.Run("attack 791: a form of an older version overwrites nothing", func(t *testing.T) {
		asked := b.get(path + "/edit-message?locale=nl")
		h.edit(func(u *settings.Units) {
			u.CustomMessages.Locales["nl"] = settings.Translations{"sign_in.title": "Van een ander"}
		})
		a := b.submit(asked, "text", "Van mij")
		if a.Code != http.StatusUnprocessableEntity || !strings.Contains(a.form(), "Van mij") || !strings.Contains(a.form(), "Van een ander") ||
			h.units().CustomMessages.Locales["nl"]["sign_in.title"] != "Van een ander" {
			t.Errorf("an older form = %d\n%s", a.Code, a.form())
		}
	})
}

// TestTextsAreChecked: names in braces that are missing or unknown, and markup, are said at the field and not stored.
func TestTextsAreChecked(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	b := h.as("operator@example.com")
	before := h.units()
	for what, c := range map[string]struct{ key, text, want string }{
		"a missing name":         {"mail.step_up_code.text", "Your code is here.", "{code}"},
		"an unknown name":        {"mail.step_up_code.text", "Your code is {code}, {visitor}.", "{visitor}"},
		"a name where none is":   {"sign_in.title", "Hello {name}", "{name}"},
		"a brace that is open":   {"mail.step_up_code.text", "{code} and {", "{name}"},
		"an element":             {"sign_in.title", "Sign <b>in</b>", "markup"},
		"a comment":              {"sign_in.title", "Sign in<!-- x", "markup"},
		"an entity":              {"sign_in.title", "Sign&nbsp;in", "markup"},
		"a script":               {"mail.welcome.text", `<script src=//evil.example></script> {username}`, "markup"},
		"nothing":                {"sign_in.title", "  ", "Enter a text"},
		"what is there already":  {"sign_in.title", "Sign in", "already"},
		"a control character":    {"sign_in.title", "Sign\x07in", "control characters"},
		"more than a text holds": {"sign_in.title", strings.Repeat("x", 4001), "at most 4000"},
	} {
		a := b.submit(b.get("/admin/messages/texts/"+c.key+"/edit-message?locale=en"), "text", c.text)
		if a.Code != http.StatusUnprocessableEntity || !strings.Contains(a.form(), `id="text-problem"`) || !strings.Contains(a.form(), c.want) {
			t.Errorf("%s = %d, want a problem with %q at the field\n%s", what, a.Code, c.want, a.form())
		}
	}
	if after := h.units(); len(after.CustomMessages.Default) != len(before.CustomMessages.Default) || len(after.CustomMessages.Locales) != 0 {
		t.Errorf("stored is %+v", after.CustomMessages)
	}
	if a := b.acts("/admin/messages/texts/mail.step_up_code.text/edit-message?locale=en", "text",
		"It is\r\n\r\n{code}\r\n\r\nfor {name}"); a.Code != http.StatusOK ||
		h.units().CustomMessages.Locales["en"]["mail.step_up_code.text"] != "It is\n\n{code}\n\nfor {name}" {
		t.Errorf("a good text = %d, %q", a.Code, h.units().CustomMessages.Locales)
	}
}

// TestPreviewsDoNothing opens every preview in every language: no script, no form or link that leads anywhere, no
// token, and a policy under which none could.
func TestPreviewsDoNothing(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	b := h.as("viewer@example.com")
	token := ""
	for _, c := range b.cookies {
		token += c + " "
	}
	ids := []string{}
	for _, s := range sample.All() {
		ids = append(ids, s.ID)
	}
	for _, k := range notify.Kinds() {
		ids = append(ids, "mail."+string(k))
	}
	before := h.events()
	t.Run("attack 831: previews are inert", func(t *testing.T) {
		for i, id := range ids {
			locale, scheme := web.Languages()[i%4], []string{"light", "dark"}[i%2]
			a := b.do(http.MethodGet, "/admin/messages/previews/"+url.PathEscape(id)+"/document?"+
				url.Values{"locale": {locale}, "scheme": {scheme}}.Encode(), "")
			body, csp := a.Body.String(), a.Header().Get("Content-Security-Policy")
			if a.Code != http.StatusOK || !strings.Contains(body, `lang="`+locale+`"`) {
				t.Fatalf("%s in %s = %d\n%s", id, locale, a.Code, body)
			}
			for _, never := range []string{
				"<script", "<iframe", " action=", " formaction=", " autofocus", `type="hidden"`, "http-equiv",
				`<a href`, " onclick", "<base",
			} {
				if strings.Contains(body, never) {
					t.Errorf("%s has %q:\n%s", id, never, body)
				}
			}
			for _, value := range strings.Fields(token) {
				if len(value) > 8 && strings.Contains(body, value) {
					t.Errorf("%s has the value of a cookie", id)
				}
			}
			for _, want := range []string{
				"sandbox allow-same-origin;", "default-src 'none'", "form-action 'none'",
				"frame-ancestors 'self'", "base-uri 'none'",
			} {
				if !strings.Contains(csp, want) {
					t.Errorf("%s has the policy %q, want %s", id, csp, want)
				}
			}
			if strings.Contains(csp, "script-src") || a.Header().Get("X-Frame-Options") != "SAMEORIGIN" ||
				a.Header().Get("Cache-Control") != "no-store" || a.Header().Get("Refresh") != "" || len(a.Result().Cookies()) > 0 {
				t.Errorf("%s has the headers %v", id, a.Header())
			}
			if !strings.Contains(body, `<meta name="color-scheme" content="`+scheme+`"/>`) || !strings.HasPrefix(id, "mail.") &&
				!strings.Contains(body, "/assets/"+scheme+"-") {
				t.Errorf("%s is not %s:\n%.600s", id, scheme, body)
			}
		}
	})
	if after := h.events(); after != before {
		t.Errorf("previews have caused events: %s", after[len(before):])
	}
	for _, group := range append(sample.Groups(), "mail", "sms") {
		if a := b.get("/admin/messages/previews?group=" + group); a.Code != http.StatusOK || !strings.Contains(a.form(), `class="row"`) {
			t.Errorf("the group %s = %d\n%s", group, a.Code, a.form())
		}
	}
	shown := b.get("/admin/messages/previews/sign_in")
	if csp := shown.Header().Get("Content-Security-Policy"); !strings.Contains(csp, "frame-src 'self';") ||
		strings.Count(shown.form(), `sandbox="allow-same-origin"`) != 2 {
		t.Errorf("the page of a preview has the policy %q\n%s", csp, shown.form())
	}
	if csp := b.get("/admin/messages").Header().Get("Content-Security-Policy"); strings.Contains(csp, "frame-src") {
		t.Errorf("a page without frames has the policy %q", csp)
	}
	if a := b.get("/admin/messages/previews/no-such-page"); a.Code != http.StatusNotFound {
		t.Errorf("an unknown preview = %d", a.Code)
	}
}

// TestTestMails: a test goes to the verified address of who sends it and to no other, says that it is one, leaves an
// event, and there are ten in an hour.
func TestTestMails(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	const path = "/admin/messages/previews/mail.reset_link"
	h.unverify("two.operator@example.com")
	unverified := h.as("two.operator@example.com")
	if a := unverified.get(path); strings.Contains(a.form(), "send-test") || !strings.Contains(a.form(), "your account has none") {
		t.Errorf("somebody without a verified address is offered a test:\n%s", a.form())
	}
	if a := unverified.submit(unverified.get(path + "/send-test")); a.Code != http.StatusUnprocessableEntity || len(h.notices.Take()) > 0 {
		t.Errorf("a test to an address that is not verified = %d\n%s", a.Code, a.form())
	}
	b, by := h.as("operator@example.com"), h.personID("operator@example.com")
	t.Run("attack 832: a test goes to nobody else", func(t *testing.T) {
		h.actHasEvent(b, by, path+"/send-test", "console.TestMessageSentEvent", "locale", "nl", "to", "victim@example.com", "address",
			"victim@example.com", "person", h.personID("nobody@example.com"))
		sent := h.notices.Take()
		if len(sent) != 1 || sent[0].To != "operator@example.com" || !sent[0].Sample || sent[0].PersonID != by ||
			!slices.Equal(sent[0].Locales, []string{"nl"}) || sent[0].Link != "/account" || sent[0].Kind != notify.ResetLink {
			t.Fatalf("sent is %+v", sent)
		}
	})
	for range 9 {
		if a := b.acts(path + "/send-test"); a.Code != http.StatusOK {
			t.Fatalf("a test = %d\n%s", a.Code, a.form())
		}
	}
	h.notices.Take()
	if a := b.submit(b.get(path + "/send-test")); a.Code != http.StatusUnprocessableEntity || len(h.notices.Take()) > 0 ||
		!strings.Contains(a.form(), "10 tests") {
		t.Errorf("the eleventh test in an hour = %d\n%s", a.Code, a.form())
	}
	h.clock.Advance(61 * time.Minute)
	b = h.as("operator@example.com")
	if a := b.acts(path + "/send-test"); a.Code != http.StatusOK || len(h.notices.Take()) != 1 {
		t.Errorf("a test an hour later = %d\n%s", a.Code, a.form())
	}
	if a := b.do(http.MethodGet, "/admin/messages/previews/sign_in/send-test", ""); a.Code == http.StatusOK {
		if a := b.submit(b.get("/admin/messages/previews/sign_in/send-test")); a.Code != http.StatusUnprocessableEntity {
			t.Errorf("a page is sent: %d", a.Code)
		}
	}
}

// TestBrandIsShown: what the Caddyfile says of the brand has its place, and colors their contrast.
func TestBrandIsShown(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.edit(func(u *settings.Units) {
		u.Organisations = []settings.Organisation{{ID: "acme", Name: "Acme Limited", SupportEmail: "help@acme.example"}}
	})
	a := h.as("viewer@example.com").get("/admin/messages/brand")
	for _, want := range []string{
		"Gatehouse", "Caddyfile:9", " : 1", "Acme Limited", "name Gatehouse",
		`/admin/messages/previews/sign_in/document`, "Legible",
	} {
		if !strings.Contains(a.form(), want) {
			t.Errorf("the brand does not say %q:\n%s", want, a.form())
		}
	}
}
