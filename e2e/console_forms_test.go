package e2e

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// TestConsoleForms: in a browser, the forms of every unit of the settings, of an application and of a provider are
// saved as they are, and change what is changed.
func TestConsoleForms(t *testing.T) {
	t.Parallel()
	s := startEdited(t, "", func(caddyfile string) string {
		return strings.Replace(caddyfile, "\n\t\tidentity {", "\n\t\tidentity {\n\t\t\tadmin "+person+" {\n\t\t\t\tlevel 1\n\t\t\t}\n", 1)
	})
	providers := filepath.Join(t.TempDir(), "providers.json")
	if err := os.WriteFile(providers,
		[]byte(`{"login_methods":{"login_methods":[{"id":"corp","name":"Corp","type":"OPEN_ID_CONNECT","attribute_mappings":[{"map_from":"mail","map_to":"email"}],"open_id_connect_attributes":{"issuer":"https://login.corp.example","client_id":"gatehouse","client_secret":"secret-of-corp"}}]}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	s.must("", "config", "import", providers)
	s.must("", "client", "add", "blog", "--redirect-uris", "https://blog.example/cb", "--grants", "authorization_code", "--scopes", "openid")
	clients := s.must("", "client", "list", "--json")
	before := s.must("", "config", "export")
	b := s.browse(t)
	b.open(s.Issuer + "/admin/settings")
	b.signIn(person, s.Password)
	save := func(path, act string) {
		t.Helper()
		b.open(s.Issuer + path + "/" + act)
		b.click("main form button:not([type])")
		if at := b.location(); at != s.Issuer+path+"?done="+act {
			t.Errorf("%s/%s, saved as it is, leads to %s: %s", path, act, at, b.text("main"))
		}
	}
	units := eval[[]string](b, `[...document.querySelectorAll('main a[href^="/admin/settings/"]')].map(a => a.getAttribute('href').split('/')[3])`)
	saved := map[string]bool{}
	for _, unit := range units {
		path := "/admin/settings/" + unit
		if saved[unit] || strings.HasSuffix(unit, "-settings") {
			continue
		}
		saved[unit] = true
		b.open(s.Issuer + path)
		for _, act := range []string{"edit-unit", "edit-json"} {
			if b.has(`main a[href="` + path + "/" + act + `"]`) {
				save(path, act)
				b.open(s.Issuer + path)
			}
		}
	}
	save("/admin/providers/corp", "edit-provider")
	if len(saved) != 13 {
		t.Errorf("%d units are saved, want 13: %v", len(saved), units)
	}
	if after := s.must("", "config", "export"); after != before {
		t.Errorf("forms that nobody has changed change the settings:\n%s\nwant\n%s", after, before)
	}

	save("/admin/applications/blog", "edit-client")
	if after := s.must("", "client", "list", "--json"); after != clients {
		t.Errorf("a form that nobody has changed changes an application:\n%s\nwant\n%s", after, clients)
	}
	for _, width := range []int64{1280, 390} {
		b.screen(width, 800, "light")
		for name, path := range map[string]string{
			"application": "/admin/applications/blog/edit-client",
			"provider":    "/admin/providers/corp/edit-provider", "policy": "/admin/settings/password_policy/edit-unit",
			"import": "/admin/persons/import", "overview": "/admin",
		} {
			b.open(s.Issuer + path)
			b.shot("forms-" + name + "-" + strconv.FormatInt(width, 10))
			if wide := eval[int64](b, "document.documentElement.scrollWidth"); wide > width {
				t.Errorf("%s is %d pixels wide on a screen of %d", path, wide, width)
			}
		}
	}
	b.open(s.Issuer + "/admin/applications/blog/edit-client")
	b.fill("#redirect_uris", "https://blog.example/cb\nhttps://blog.example/new")
	b.fill("#access_token", "1h")
	b.click("main form button:not([type])")
	if after := s.must("", "client", "list", "--json"); !strings.Contains(after, "https://blog.example/new") {
		t.Errorf("the browser is at %s, and the application is not changed: %s", b.location(), b.text("main"))
	}
	b.open(s.Issuer + "/admin/providers/corp/edit-provider")
	b.fill("#name", "Corp of the house")
	b.click("main form button:not([type])")
	if after := s.must("", "config", "export"); !strings.Contains(after, `"Corp of the house"`) ||
		!strings.Contains(after, `"map_from": "mail"`) {
		t.Errorf("the browser is at %s, and the provider is not changed: %s", b.location(), b.text("main"))
	}
	b.open(s.Issuer + "/admin/settings/password_policy/edit-unit")
	b.fill(`[name="password_policy.min_length"]`, "20")
	b.click("main form button:not([type])")
	if after := s.must("", "config", "export"); !strings.Contains(after, `"min_length": 20`) || !strings.Contains(after, `"max_length": 256`) {
		t.Errorf("the browser is at %s, and the policy is not changed: %s", b.location(), b.text("main"))
	}
	// An alert keeps the filter of the list of events. Without mail it goes to a webhook, whose address is asked for.
	b.open(s.Issuer + "/admin/events?kind=Person")
	b.open(eval[string](b, `document.querySelector('main a[href*="save-alert"]').href`))
	b.fill("#name", "Who comes and goes")
	b.click("main form button:not([type])")
	if text := b.text("main"); !strings.Contains(text, "Enter the https address of the webhook") {
		t.Errorf("an alert without an address: the browser is at %s: %s", b.location(), text)
	}
	// Forms about one thing, each found from its list.
	s.must(random(24)+"\n", "person", "add", "second@example.com")
	for name, tt := range map[string]struct {
		list, act string
		fields    map[string]string
		want      string // on the page that the form leads to
	}{
		"person": {"/admin/persons?q=second", "edit", map[string]string{"#given_name": "Demeter"}, "Demeter"},
		"text": {
			"/admin/messages?q=access.ask", "edit-message?locale=en",
			map[string]string{"main form textarea, main form input[type=text]": "May I come in?"},
			"May I come in?",
		},
	} {
		b.open(s.Issuer + tt.list)
		b.open(eval[string](b, "document.querySelector("+quote("main tbody a.row")+").href.split('?')[0]") + "/" + tt.act)
		for field, value := range tt.fields {
			b.fill(field, value)
		}
		b.click("main form button:not([type])")
		if text := b.text("main"); !strings.Contains(text, tt.want) || !strings.Contains(b.location(), "done=") {
			t.Errorf("%s: the browser is at %s, want %q there: %s", name, b.location(), tt.want, text)
		}
	}
}
