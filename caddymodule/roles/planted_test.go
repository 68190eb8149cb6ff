package roles_test

import (
	"cmp"
	"encoding/json"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gatehouse-id/gatehouse/caddymodule/servertest"
)

// plantMail adds anna@example.com, who has forgotten the password. The mail server refuses the e-mail, and quotes the
// link in it. plantMail returns the secret of the link, and the page of what waits.
func plantMail(s *servertest.Server, configured, password string) (token, queue string) {
	s.T.Helper()
	link := regexp.MustCompile(`/reset\?\w+=([\w.~-]{20,})`)
	plain := func(mail string) string { return strings.NewReplacer("=\n", "", "=3D", "=").Replace(mail) }
	address, mails := servertest.MailboxSaying(s.T, func(mail string) string { return "451 4.7.1 spam: " + link.FindString(plain(mail)) })
	s.Extra = configured + "\nmail smtp " + address + " {\n\tfrom no-reply@example.com\n}"
	s.MustLoad()
	s.Run(password+"\n", "person", "add", "anna@example.com")
	b := servertest.NewBrowser(s.T)
	page, body := b.Open(s.Issuer() + "/forgot")
	b.Submit(page, body, url.Values{"username": {"anna@example.com"}})
	mail := <-mails
	m := link.FindStringSubmatch(plain(mail))
	if m == nil {
		s.T.Fatalf("the e-mail has no link:\n%s", mail)
	}
	owner := servertest.NewBrowser(s.T)
	servertest.Eventually(s.T, "the refusal is in the queue", func() bool {
		_, queue = openConsole(owner, s, "/admin/messages/queue")
		return strings.Contains(queue, "status 451")
	})
	return m[1], queue
}

// TestPlantedSecrets: everything that can be read, by anybody or with the rights to every API, holds none of the
// secrets that an operator has written or that were there before them.
func TestPlantedSecrets(t *testing.T) {
	secrets := map[string]string{
		"a client's secret": "planted-client-secret-0123456789abcdef", "the one before it": "planted-older-secret-0123456789abcdef",
		"an API client's secret":     "planted-api-secret-0123456789abcdef",
		"a provider's client secret": "planted-idp-secret-0123456789abcdef", "the mail server's password": "planted-mail-password",
		"the token of text messages": "planted-sms-token",
		"the secret of a webhook":    "planted-webhook-secret-0123456789abcdef", "the key of credentials": "00112233445566778899aabbccddeeff",
		"the encryption key":         servertest.OtherKey,
		"a stored provider's secret": "planted-stored-secret", "the one that it replaced": "planted-replaced-secret",
		"a person's password": "planted password of anna",
	}
	s := servertest.NewServer(t)
	s.Key = "encryption_key " + secrets["the encryption key"]
	s.InIdentity = "credentials_key " + secrets["the key of credentials"] + "\n\tadmin demo@example.com {\n\t\tlevel 1\n\t}"
	configured := `client planted {
		secret ` + secrets["a client's secret"] + `
		secret ` + secrets["the one before it"] + `
		grants client_credentials
		scopes scim orders.read
	}
	api_client all {
		secret ` + secrets["an API client's secret"] + `
		apis introspection configuration credentials events persons access access_decisions statistics storage sessions assurance
	}
	idp corp oidc {
		issuer https://login.corp.example
		client_id gatehouse
		client_secret ` + secrets["a provider's client secret"] + `
	}
	sms webhook https://sms.example.com/send {
		header Authorization ` + secrets["the token of text messages"] + `
	}
	events {
		webhook https://hook.example.com/ {
			secret ` + secrets["the secret of a webhook"] + `
		}
	}`
	var refused string
	secrets["a link that waits to be sent"], refused = plantMail(s, configured, secrets["a person's password"])
	s.Extra = configured + `
	mail smtp smtp.example.com:587 {
		from "Gatehouse <no-reply@example.com>"
		username u
		password ` + secrets["the mail server's password"] + `
	}`
	s.MustLoad()
	send := func(method, path, body string) (int, string) {
		t.Helper()
		r := s.Request(method, s.Issuer()+path, strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		r.SetBasicAuth("all", secrets["an API client's secret"])
		resp, text := s.Do(r)
		return resp.StatusCode, text
	}
	for _, secret := range []string{secrets["the one that it replaced"], secrets["a stored provider's secret"]} {
		status, body := send(http.MethodPost, "/api/v2/config", `{"login_methods":{"login_methods":[{"id":"stored","name":"S","type":"OPEN_ID_CONNECT","enabled":false,
			"open_id_connect_attributes":{"client_id":"x","issuer":"https://stored.example","client_secret":"`+secret+`"}}]}}`)
		if status != http.StatusNoContent {
			t.Fatalf("POST of a login method = %d %s", status, body)
		}
	}
	_, users := send(http.MethodGet, "/scim/v2/Users?filter="+url.QueryEscape(`userName eq "anna@example.com"`), "")
	found := servertest.Decode[struct {
		Resources []struct{ ID string }
	}](t, users)
	if len(found.Resources) != 1 {
		t.Fatalf("Users = %s", users)
	}
	id := found.Resources[0].ID
	paths := []string{
		"/", "/sign-in", "/account", "/sign-out", "/reset", "/sign-up", "/nothing", "/healthz", "/metrics", "/.well-known/openid-configuration",
		"/.well-known/oauth-authorization-server", "/oauth/jwks", "/oauth/userinfo",
		"/oauth/authorize", "/oauth/authorize?client_id=planted", "/oidc/corp/jwks", "/oidc/stored/jwks", "/scim/v2/Users", "/scim/v2/Groups",
		"/scim/v2/Schemas", "/scim/v2/ResourceTypes", "/scim/v2/ServiceProviderConfig",
		"/scim/v2/Users/" + id, "/scim/v2/Users/" + id + "?attributes=password", "/oauth/api/v1/users/" + id + "/tokens",
		"/oauth/api/v1/users/" + id + "/sessions", "/oauth/api/v1/users/" + id + "/consents", "/api/persons/" + id + "/sessions",
		"/api/sessions/" + id, "/api/persons/" + id + "/assurance",
		"/api/events?limit=1000&offset=0&userId=" + id, "/api/events?limit=1000&offset=0&actor=all",
		"/api/events?limit=1000&offset=0&actor=admin", "/v2/config/certificates", "/v2/config/certificates/own/rotation",
	}
	for _, doc := range []string{"/api/openapi.json", "/openapi.json", "/api/v2/openapi.json"} {
		paths = append(paths, doc)
		status, text := send(http.MethodGet, doc, "")
		var described struct {
			Paths map[string]map[string]any `json:"paths"`
		}
		if status != http.StatusOK || json.Unmarshal([]byte(text), &described) != nil {
			continue
		}
		for path, operations := range described.Paths {
			if operations["get"] != nil && !strings.Contains(path, "{") {
				paths = append(paths, path)
			}
		}
	}
	read := 0
	look := func(t *testing.T, what, text string) {
		t.Helper()
		for name, secret := range secrets {
			if strings.Contains(text, secret) {
				t.Errorf("%s tells %s", what, name)
			}
		}
	}
	t.Run("peer 43: planted secrets in the answers of APIs", func(t *testing.T) {
		look(t, "the queue with the answer of the mail server", refused)
		slices.Sort(paths)
		for _, path := range slices.Compact(paths) {
			status, text := send(http.MethodGet, path, "")
			if status == http.StatusOK {
				read++
			}
			look(t, "GET "+path, text)
			_, text = s.Do(s.Request(http.MethodGet, s.Issuer()+path, nil))
			look(t, "GET "+path+" by a stranger", text)
		}
		if read < 25 {
			t.Errorf("only %d paths could be read", read)
		}
	})
	owner := servertest.NewBrowser(t)
	theFirst := func(path, pattern string) string {
		_, text := openConsole(owner, s, path)
		if m := regexp.MustCompile(pattern).FindStringSubmatch(text); m != nil {
			return m[1]
		}
		t.Fatalf("%s has no %s:\n%s", path, pattern, text)
		return ""
	}
	// A missing record is searched too, in the answer that says so.
	about := map[string]string{
		"persons": id, "applications": "planted", "providers": "stored", "events": "1",
		"groups": theFirst("/admin/groups", `href="/admin/groups/([0-9a-f-]{30,})"`),
		"sites":  theFirst("/admin/sites", `class="row" href="/admin/sites/([^"]+)"`),
	}
	routes, err := os.ReadFile("../../admin/console/testdata/routes.txt")
	if err != nil {
		t.Fatal(err)
	}
	shown := 0
	for route := range strings.Lines(string(routes)) {
		route = strings.TrimSpace(route)
		object, known := about[strings.Split(route+"///", "/")[2]]
		path := strings.ReplaceAll(route, "{id}", cmp.Or(object, "nothing"))
		resp, text := openConsole(owner, s, path)
		look(t, "GET "+path, text)
		if resp.StatusCode == http.StatusOK {
			shown++
		} else if known || !strings.Contains(route, "{id}") {
			t.Logf("GET %s = %d at %s", path, resp.StatusCode, resp.Request.URL)
		}
	}
	if shown < 60 {
		t.Errorf("only %d pages of the console could be read", shown)
	}
	_, queue := openConsole(owner, s, "/admin/messages/queue")
	waiting := regexp.MustCompile(`href="(/admin/messages/queue/[a-z-]+\?item=[^"]+)"`).FindAllStringSubmatch(queue, -1)
	if len(waiting) == 0 || !strings.Contains(queue, "anna@example.com") {
		t.Errorf("no message waits:\n%s", queue)
	}
	for _, m := range waiting {
		_, text := openConsole(owner, s, m[1])
		look(t, "GET "+m[1], text)
	}
	for _, path := range []string{
		"/providers/corp", "/applications/reports", "/persons/block-many?all=yes",
		"/messages/queue?channel=mail", "/events.csv",
	} {
		_, text := openConsole(owner, s, "/admin"+path)
		look(t, "GET /admin"+path, text)
	}
	// What people would get: every page, e-mail and text message, in each language.
	previews := map[string]bool{}
	_, text := openConsole(owner, s, "/admin/messages/previews")
	for _, group := range regexp.MustCompile(`href="/admin/messages/previews\?group=([^"&]+)`).FindAllStringSubmatch(text, -1) {
		_, text := openConsole(owner, s, "/admin/messages/previews?group="+group[1])
		for _, m := range regexp.MustCompile(`href="(/admin/messages/previews/[a-z][^"?#]*)`).FindAllStringSubmatch(text, -1) {
			previews[m[1]] = true
		}
	}
	messages := 0
	for path := range previews {
		for _, locale := range []string{"en", "nl", "de", "fr"} {
			_, text := owner.Open(s.Issuer() + path + "/document?locale=" + locale)
			look(t, "GET "+path+"/document in "+locale, text)
		}
		_, text := openConsole(owner, s, path)
		look(t, "GET "+path, text)
		if strings.Contains(path, "/mail.") || strings.Contains(path, "/sms.") {
			messages++
		}
	}
	if len(previews) < 40 || messages < 20 {
		t.Errorf("only %d previews, %d of messages", len(previews), messages)
	}
	for _, path := range []string{"/admin/persons/export", "/admin/persons/" + id + "/data"} { // files
		resp, text := openConsole(owner, s, path)
		_, form, _ := strings.Cut(text, "<main")
		resp, text = owner.Submit(resp, form, url.Values{})
		if !strings.HasPrefix(resp.Header.Get("Content-Disposition"), "attachment") {
			t.Errorf("POST %s = %d, want a file", path, resp.StatusCode)
		}
		look(t, "POST "+path, text)
	}
	for _, command := range [][]string{
		{"config", "export"},
		{"client", "list"},
		{"client", "list", "--json"},
		{"person", "list", "--json"},
		{"group", "list", "--json"},
		{"events", "verify"},
		{"events", "list", "--json"},
		{"person", "show", "anna@example.com", "--json"},
	} {
		look(t, "gatehouse "+strings.Join(command, " "), s.Run("", command...))
	}
}
