package e2e

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"image/color"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// TestConsoleForms: in a browser, the forms of every unit of the settings, of an application and of a provider are
// saved as they are, and change what is changed. Others refuse at the field what is wrong, and do what they say.
func TestConsoleForms(t *testing.T) {
	t.Parallel()
	m := newMailServer(t)
	s := startEdited(t, "", func(caddyfile string) string {
		caddyfile = strings.Replace(caddyfile, "\n\t\tidentity {", "\n\t\tidentity {\n\t\t\tadmin "+person+" {\n\t\t\t\tlevel 1\n\t\t\t}\n", 1)
		return mailed(m, caddyfile)
	}, "TEST_SMTP_PASSWORD="+m.password, "SSL_CERT_FILE="+m.certificate)
	s.secret("password of the mail server", m.password)
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
		filters(b, width)
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
	b.open(s.Issuer + "/admin/settings/password_policy")
	b.shot("forms-default-1280")
	b.screen(390, 800, "light")
	b.shot("forms-default-390")
	for _, length := range []string{"8", "20"} { // the default, and undone
		b.click("main :is(.list, .notice) button")
		if after := s.must("", "config", "export"); !strings.Contains(after, `"min_length": `+length) {
			t.Errorf("the browser is at %s, and the least length is not %s: %s", b.location(), length, b.text("main"))
		}
	}
	alertForm(b)
	pictureForm(b)
	serviceProviderForm(b)
	keyPairForms(b)
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

// filters of a list are all seen in a wide window. A narrow one folds those below the search field, which is as wide as
// it can be, until one is set.
func filters(b *tab, width int64) {
	b.t.Helper()
	const look = `({
		Seen: [...document.querySelectorAll('.filter .field')].filter(e => e.checkVisibility()).length,
		Fold: document.querySelector('.fold summary').checkVisibility() ? document.querySelector('.fold summary').innerText : "",
		Free: document.querySelector('.filter').clientWidth - document.querySelector('.filter .field').offsetWidth,
	})`
	type looks struct {
		Seen int
		Fold string
		Free int
	}
	want := func(what string, seen int, fold string) {
		b.t.Helper()
		if got := eval[looks](b, look); got.Seen != seen || got.Fold != fold || fold != "" && got.Free != 0 {
			b.t.Errorf("%s, %d pixels wide: %+v, want %d fields and the line %q", what, width, got, seen, fold)
		}
	}
	const all = 7
	b.open(b.s.Issuer + "/admin/events")
	b.shot("filters-" + strconv.FormatInt(width, 10))
	if width > 640 {
		want("a list", all, "")
		return
	}
	want("a list", 1, "Filters")
	eval[bool](b, `(document.querySelector('.fold summary').click(), true)`)
	want("a list whose filters are opened", all, "Filters")
	b.open(b.s.Issuer + "/admin/events?kind=Person")
	b.shot("filters-set-" + strconv.FormatInt(width, 10))
	want("a list with a filter", all, "Filters (1)")
}

// alertForm keeps the filter of the list of events. A webhook needs an address; an e-mail goes to the person.
func alertForm(b *tab) {
	b.t.Helper()
	b.open(b.s.Issuer + "/admin/events?kind=Person")
	b.open(eval[string](b, `document.querySelector('main a[href*="save-alert"]').href`))
	b.fill("#name", "Who comes and goes")
	b.pick("#to", "webhook")
	b.rejected("url", "Enter the https address of the webhook")
	b.pick("#to", "mail")
	b.accepted("Who comes and goes")
	b.open(b.s.Issuer + "/admin/events/alerts")
	if text := b.text("main"); !strings.Contains(text, "Who comes and goes") || !strings.Contains(text, person) {
		b.t.Errorf("the list of alerts does not have the new one: %s", text)
	}
}

// pictureForm gives an application a picture.
func pictureForm(b *tab) {
	b.t.Helper()
	choose := func(content []byte) {
		b.t.Helper()
		eval[bool](b, `(() => {
			const picked = new DataTransfer()
			picked.items.add(new File([Uint8Array.from(atob(`+quote(base64.StdEncoding.EncodeToString(content))+`), c => c.charCodeAt(0))],
				"logo.png", {type: "image/png"}))
			document.querySelector("#logo").files = picked.files
			return true
		})()`)
	}
	b.open(b.s.Issuer + "/admin/applications/blog/set-logo")
	choose([]byte("no picture"))
	b.rejected("logo", "Choose a PNG, JPEG or GIF picture.")
	choose(mark(b.t, 64, color.NRGBA{0xc2, 0x41, 0x0c, 255}))
	b.accepted("blog")
	if width := eval[int](b, `document.querySelector('main .top img')?.naturalWidth ?? 0`); width != 64 {
		b.t.Errorf("the picture of the application is %d pixels wide, want 64", width)
	}
}

// serviceProviderForm gives an organisation a service provider with the address of its metadata.
func serviceProviderForm(b *tab) {
	b.t.Helper()
	acme := func(metadata string) string {
		return `[{"id":"acme","name":"Acme","service_providers":{"intranet":{"id":"intranet","name":"Intranet","type":"SAML","saml_metadata":` +
			quote(metadata) + `}}}]`
	}
	b.open(b.s.Issuer + "/admin/settings/organisations/edit-json")
	b.fill("#json", acme("<EntityDescriptor/>"))
	b.rejected("json", "https address")
	b.fill("#json", acme("https://intranet.example/metadata"))
	b.accepted("intranet.example")
	if after := b.s.must("", "config", "export"); !strings.Contains(after, `"saml_metadata": "https://intranet.example/metadata"`) {
		b.t.Errorf("the settings have no service provider with that metadata: %s", after)
	}
}

// keyPairForms refuses a file with a key pair that is not PEM, and takes another one through the steps of its rotation.
func keyPairForms(b *tab) {
	b.t.Helper()
	b.open(b.s.Issuer + "/admin/settings/import-settings")
	b.types("#json", `{"key_pairs":[{"name":"partner","key_type":"CERTIFICATE","private_key":"","public_key":"bm8="}]}`)
	b.rejected("json", "This is not PEM.")
	file := filepath.Join(b.t.TempDir(), "pairs.json")
	if err := os.WriteFile(file, []byte(`{"key_pairs":[{"name":"partner","key_type":"EC",`+keyPair(b.t)+`}]}`), 0o600); err != nil {
		b.t.Fatal(err)
	}
	b.s.must("", "config", "import", file)
	before := publicKey(b, "partner")
	b.open(b.s.Issuer + "/admin/keys")
	first := ""
	for _, act := range []string{"announce-pair", "switch-pair", "retire-pair"} {
		step := eval[string](b, "document.querySelector("+quote(`main a[href*="`+act+`"]`)+").href")
		b.open(step)
		b.accepted("partner")
		first = cmp.Or(first, step)
	}
	if after := publicKey(b, "partner"); after == before || after == "" {
		b.t.Errorf("after its rotation the key pair has the public key %q, want another one than %q", after, before)
	}
	b.open(strings.Replace(first, "announce-pair", "retire-pair", 1))
	b.click("main form button:not([type])")
	if text := b.text("main"); !strings.Contains(text, "at another step by now") {
		b.t.Errorf("keys that are retired twice: the browser is at %s: %s", b.location(), text)
	}
}

// publicKey returns that of a key pair in an export of the settings, or "".
func publicKey(b *tab, name string) string {
	b.t.Helper()
	var units struct {
		KeyPairs []struct {
			Name      string
			PublicKey string `json:"public_key"`
		} `json:"key_pairs"`
	}
	if err := json.Unmarshal([]byte(b.s.must("", "config", "export")), &units); err != nil {
		b.t.Fatal(err)
	}
	for _, k := range units.KeyPairs {
		if k.Name == name {
			return k.PublicKey
		}
	}
	return ""
}

// rejected sends the form of the page, which comes back with these words at a field.
func (b *tab) rejected(field, words string) {
	b.t.Helper()
	b.click("main form button:not([type])")
	if problem := "#" + field + "-problem"; !b.has(problem) || !strings.Contains(b.text(problem), words) {
		b.t.Errorf("the field %s has not the problem %q: the browser is at %s: %s", field, words, b.location(), b.text("main"))
	}
}

// accepted sends the form of the page, which leads to a page with these words.
func (b *tab) accepted(words string) {
	b.t.Helper()
	b.click("main form button:not([type])")
	if text := b.text("main"); !strings.Contains(text, words) || !strings.Contains(b.location(), "done=") {
		b.t.Errorf("the browser is at %s, want %q there: %s", b.location(), words, text)
	}
}
