package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// deliveredCode is the printed form of a code that is delivered by hand.
var deliveredCode = regexp.MustCompile(`(?m)^[0-9A-Z]{4}-[0-9A-Z]{4}$`)

// startInviting is a server with a mail server and invitations whose recipients must be confirmed, and the browser's
// axe.
func startInviting(t *testing.T, units string) (s *server, m *mailServer, axe string) {
	t.Helper()
	raw, err := os.ReadFile("node/node_modules/axe-core/axe.min.js")
	if err != nil {
		t.Fatalf("%v: make install", err)
	}
	m = newMailServer(t)
	s = startEdited(t, "", func(caddyfile string) string {
		lines := fmt.Sprintf("\n\t\tmail smtp %s {\n\t\t\tfrom \"The gate <no-reply@example.com>\"\n\t\t\tusername %s\n\t\t\tpassword {env.TEST_SMTP_PASSWORD}\n\t\t}\n\t\tidentity {\n\t\t\tlocales en nl de fr", m.address, m.user)
		caddyfile = strings.Replace(caddyfile, "\n\t\tidentity {", lines, 1)
		return strings.Replace(caddyfile, "apis introspection", "apis introspection persons", 1)
	}, "TEST_SMTP_PASSWORD="+m.password, "SSL_CERT_FILE="+m.certificate)
	s.secret("password of the mail server", m.password)
	file := filepath.Join(s.dir, "units.json")
	if err := os.WriteFile(file, []byte(units), 0o600); err != nil {
		t.Fatal(err)
	}
	s.must("", "config", "import", file)
	return s, m, string(raw)
}

// invited returns the link in a mail to an invited person, and the HTML of the mail.
func (m *mailServer) invited(t *testing.T, s *server, to string) (link, html string) {
	t.Helper()
	header, parts := m.next(t)
	if header.Get("To") != "<"+to+">" || header.Get("Subject") != "You’re invited to Gatehouse" {
		t.Fatalf("mail to %s: %s, want the invitation of %s", header.Get("To"), header.Get("Subject"), to)
	}
	link = regexp.MustCompile(regexp.QuoteMeta(s.Issuer) + `/invitation\?token=[\w.~-]+`).FindString(parts["text/plain"])
	u, err := url.Parse(link)
	if err != nil || link == "" {
		t.Fatalf("no link of the issuer in\n%s", parts["text/plain"])
	}
	s.secret("link of the invitation", u.Query().Get("token"))
	return link, parts["text/html"]
}

// TestInvitation: a person is invited by command and e-mail, enters the date of birth, chooses a password, and is
// signed in. Another person is invited by the API and enters a code that is delivered by hand.
func TestInvitation(t *testing.T) {
	t.Parallel()
	s, m, axe := startInviting(t,
		`{"features":{"accepting_invitation_enabled":true,"invitation_verification_required":{"via_birthdate_enabled":true,"via_externally_delivered_code_enabled":true}},`+
			`"email_notifications":{"account_invitation":true},"password_policy":{"min_length":10,"max_length":256,"lower_case_char_required":true,"upper_case_char_required":true,`+
			`"special_char_required":false,"breached_password_blocked":false}}`)

	out := s.must("", "person", "invite", "gail@example.com", "--name", "Gail Guest", "--birth-date", "1990-12-31", "--groups", "guests")
	if !strings.Contains(out, "the link goes to gail@example.com") {
		t.Errorf("invite = %s", out)
	}
	link, html := m.invited(t, s, "gail@example.com")
	lookAtMail(t, s, "mail-invitation", html)

	b := s.browse(t)
	b.open(link)
	if at := b.location(); at != s.Issuer+"/invitation/check" {
		t.Errorf("the link leads to %s, want the page that checks, without the token", at)
	}
	inspect(b, "invitation-choose", axe)
	b.click("main ul.providers li:first-child a")
	inspect(b, "invitation-birthdate", axe)
	date := func(day string) int64 {
		eval[string](b, `document.querySelector("#answer").value = `+quote(day))
		return b.click("main form button:not([type])")
	}
	if status := date("1990-12-30"); status != http.StatusUnprocessableEntity {
		t.Errorf("another date = %d, want 422", status)
	}
	inspect(b, "invitation-wrong", axe)
	date("1990-12-31")
	inspect(b, "invitation", axe)
	b.fill("#password", "too short")
	b.click("main form button:not([type])")
	inspect(b, "invitation-password", axe)
	password := "Guest " + random(12)
	s.secret("password of gail", password)
	b.fill("#password", password)
	b.click("main form button:not([type])")
	b.reaches(s.Issuer + "/account")
	if !b.has("main") || !strings.Contains(b.text("body"), "Gail") && !strings.Contains(b.text("body"), "gail@example.com") {
		t.Errorf("the account page says %s", b.text("body"))
	}
	other := s.browse(t)
	if status := other.open(link); status != http.StatusBadRequest {
		t.Errorf("the link once more = %d, want 400", status)
	}
	inspect(other, "link-used", axe)
	other.open(s.Issuer + "/account")
	other.signIn("gail@example.com", password)
	other.reaches(s.Issuer + "/account")

	status, answer := s.configure(http.MethodPost, "/api/persons/invitations", `{"email":"carl@example.com","locale":"nl"}`)
	var made struct {
		ID   string `json:"person_id"`
		Sent bool   `json:"sent"`
		Link string `json:"link"`
	}
	if err := json.Unmarshal([]byte(answer), &made); err != nil || status != http.StatusCreated || !made.Sent || made.Link != "" {
		t.Fatalf("POST /api/persons/invitations = %d %s", status, answer)
	}
	header, parts := m.next(t)
	if header.Get("To") != "<carl@example.com>" || !strings.Contains(parts["text/plain"], "7 dagen") {
		t.Errorf("mail = %v\n%s", header, parts["text/plain"])
	}
	link = regexp.MustCompile(regexp.QuoteMeta(s.Issuer) + `/invitation\?token=[\w.~-]+`).FindString(parts["text/plain"])
	u, err := url.Parse(link)
	if err != nil {
		t.Fatal(err)
	}
	s.secret("link of carl", u.Query().Get("token"))
	code := deliveredCode.FindString(s.must("", "person", "code", "carl@example.com", "--for", "invitation"))
	s.secret("code of carl", code)
	carl := s.browse(t)
	carl.open(link)
	inspect(carl, "invitation-code-nl", axe)
	for range 5 {
		carl.fill("#answer", "AAAA-AAAA")
		carl.click("main form button:not([type])")
	}
	inspect(carl, "invitation-locked", axe)
}
