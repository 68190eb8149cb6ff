package web_test

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/gatehouse-id/gatehouse/internal/web"
)

// messageTopics reads our own files of a language by topic.
func messageTopics(t *testing.T, language string) map[string]map[string]string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("messages", language, "*.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	out := map[string]map[string]string{}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var texts map[string]string
		if err := json.Unmarshal(raw, &texts); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		out[strings.TrimSuffix(filepath.Base(file), ".json")] = texts
	}
	return out
}

// messagesOf reads our own messages of a language.
func messagesOf(t *testing.T, language string) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, texts := range messageTopics(t, language) {
		maps.Copy(out, texts)
	}
	return out
}

var placeholder = regexp.MustCompile(`\{[a-z_]+\}`)

func placeholders(text string) []string {
	found := placeholder.FindAllString(text, -1)
	slices.Sort(found)
	return slices.Compact(found)
}

// TestLanguagesAreWhole: every language has every English message in the file of the same topic, with the same
// placeholders.
func TestLanguagesAreWhole(t *testing.T) {
	t.Parallel()
	if got, want := web.Languages(), []string{"de", "en", "fr", "nl"}; !slices.Equal(got, want) {
		t.Errorf("Languages() = %q, want %q", got, want)
	}
	en := messageTopics(t, "en")
	for _, l := range web.Languages() {
		topics := messageTopics(t, l)
		for topic, english := range en {
			file, texts := "messages/"+l+"/"+topic+".json", topics[topic]
			for key, want := range english {
				text, ok := texts[key]
				if !ok || strings.TrimSpace(text) == "" {
					t.Errorf("%s has no %s: %q", file, key, want)
					continue
				}
				if got, want := placeholders(text), placeholders(want); !slices.Equal(got, want) {
					t.Errorf("%s: %s fills in %q, want %q", file, key, got, want)
				}
				if err := web.CheckMessage(key, text); err != nil {
					t.Errorf("%s: %s %v", file, key, err)
				}
			}
		}
		for topic, texts := range topics {
			for key := range texts {
				if _, ok := en[topic][key]; !ok {
					t.Errorf("messages/%s/%s.json has %s, which messages/en/%s.json does not have", l, topic, key, topic)
				}
			}
		}
	}
}

// TestMessagesAreSorted: messages are in the order of their keys, so two changes seldom add theirs at the same place.
// `make golden` sorts them.
func TestMessagesAreSorted(t *testing.T) {
	t.Parallel()
	for _, l := range web.Languages() {
		for topic, texts := range messageTopics(t, l) {
			var want bytes.Buffer
			enc := json.NewEncoder(&want)
			enc.SetEscapeHTML(false)
			enc.SetIndent("", "  ")
			if err := enc.Encode(texts); err != nil {
				t.Fatal(err)
			}
			file := filepath.Join("messages", l, topic+".json")
			got, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if bytes.Equal(got, want.Bytes()) {
				continue
			}
			if os.Getenv("GATEHOUSE_GOLDEN") != "write" {
				t.Errorf("%s is not sorted by keys: run `make golden`", file)
			} else if err := os.WriteFile(file, want.Bytes(), 0o644); err != nil { //nolint:gosec // a source file
				t.Fatal(err)
			}
		}
	}
}

// TestNumbers: what is counted is said in the singular and the plural, also where the words are not ours.
func TestNumbers(t *testing.T) {
	t.Parallel()
	p, err := web.New(web.Config{Issuer: "https://auth.example.com", Key: make([]byte, 32), Locales: []string{"en", "nl", "de", "fr"}})
	if err != nil {
		t.Fatal(err)
	}
	say := func(locale, key string, fill ...any) {
		t.Helper()
		want := fill[len(fill)-1]
		if got := p.WordsOf(t.Context(), locale).T(key, fill[:len(fill)-1]...); got != want {
			t.Errorf("T(%q, %v) in %s = %q, want %q", key, fill[:len(fill)-1], locale, got, want)
		}
	}
	say("en", "card.devices", "n", 1, "1 device")
	say("en", "card.devices", "n", 0, "0 devices")
	say("en", "card.devices", "n", 12, "12 devices")
	say("en", "card.applications", "n", "0", "No apps")
	say("en", "card.applications", "n", int64(1), "1 app")
	say("nl", "card.devices", "n", 1, "1 apparaat")
	say("de", "card.devices", "n", 0, "0 Geräte")
	say("fr", "card.devices", "n", 0, "0 appareil connecté")
	say("fr", "card.devices", "n", 2, "2 appareils connectés")
	say("en", "console.level", "n", 1, "Level 1")
	ended := []any{"sessions", web.Say("console.number.sessions", "n", 1), "tokens", web.Say("console.number.tokens", "n", 0), "name", "Ann"}
	say("en", "console.act.end.text",
		append(ended, "Ann is signed out everywhere. This ends 1 session and revokes no tokens or app passwords.")...)
	say("fr", "console.act.end.text",
		append(ended, "Ann est déconnecté partout. Cela ferme 1 session et révoque 0 jeton ou mot de passe d’application.")...)
	p.SetOverrides(func(context.Context) []*web.Overrides {
		return []*web.Overrides{{Default: map[string]string{"card.devices": "Devices: {n}", "card.applications.one": "A single app"}}}
	})
	say("en", "card.devices", "n", 1, "Devices: 1")
	say("en", "card.applications", "n", 1, "A single app")
	say("en", "card.applications", "n", 2, "2 apps")
}

func TestReadMessages(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		files map[string]string
		want  map[string]map[string]string
		bad   string // what the error says
	}{
		"by topic": {
			map[string]string{"messages/en/a.json": `{"a.x":"1"}`, "messages/en/b.json": `{"b.x":"2"}`, "messages/nl/a.json": `{"a.x":"3"}`},
			map[string]map[string]string{"en": {"a.x": "1", "b.x": "2"}, "nl": {"a.x": "3"}},
			"",
		},
		"a key in two files": {
			map[string]string{"messages/en/a.json": `{"a.x":"1"}`, "messages/en/b.json": `{"a.x":"1"}`},
			nil,
			"messages/en/b.json: a.x is in messages/en/a.json too",
		},
		"a key twice in one file": {
			map[string]string{"messages/en/a.json": `{"a.x":"1","a.x":"2"}`},
			nil,
			"messages/en/a.json: a.x: is there twice",
		},
		"not a text":    {map[string]string{"messages/en/a.json": `{"a.x":{"y":"1"}}`}, nil, "messages/en/a.json: nests deeper than 1"},
		"not an object": {map[string]string{"messages/en/a.json": `["a.x"]`}, nil, "messages/en/a.json: "},
		"cut off":       {map[string]string{"messages/en/a.json": `{"a.x":"1"`}, nil, "messages/en/a.json: "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			files := fstest.MapFS{}
			for file, text := range tt.files {
				files[file] = &fstest.MapFile{Data: []byte(text)}
			}
			got, err := web.ReadMessages(files)
			if tt.bad == "" && (err != nil || !maps.EqualFunc(got, tt.want, maps.Equal)) {
				t.Errorf("ReadMessages = %v, %v, want %v", got, err, tt.want)
			}
			if tt.bad != "" && (err == nil || !strings.HasPrefix(err.Error(), tt.bad)) {
				t.Errorf("ReadMessages = %v, want the error %q", err, tt.bad)
			}
		})
	}
}

// shown is the part of a page that reveals which messages it used.
type shown struct{ lang, title string }

var (
	langOf  = regexp.MustCompile(`<html lang="([^"]*)">`)
	titleOf = regexp.MustCompile(`<h1>([^<]*)</h1>`)
)

// signIn returns the language and title of the sign-in page for requested locales and a browser's header.
func signIn(t *testing.T, p *web.Renderer, header string, locales ...string) shown {
	t.Helper()
	r := httptest.NewRequest(http.MethodGet, "https://auth.example.com/sign-in", nil)
	if header != "" {
		r.Header.Set("Accept-Language", header)
	}
	w := httptest.NewRecorder()
	p.Render(w, r, web.View{Template: "sign_in", Locales: locales, Data: web.SignIn{Action: "/sign-in", CSRF: "t"}})
	body := w.Body.String()
	lang, title := langOf.FindStringSubmatch(body), titleOf.FindStringSubmatch(body)
	if w.Code != http.StatusOK || lang == nil || title == nil {
		t.Fatalf("sign-in page = %d %s", w.Code, body)
	}
	return shown{lang[1], title[1]}
}

// withMessages returns a renderer for these locales and messages.
func withMessages(t *testing.T, locales []string, layers ...*web.Overrides) *web.Renderer {
	t.Helper()
	p, err := web.New(web.Config{Issuer: "https://auth.example.com", Key: make([]byte, 32), Random: zeros{}, Locales: locales})
	if err != nil {
		t.Fatal(err)
	}
	p.SetOverrides(func(context.Context) []*web.Overrides { return layers })
	return p
}

func TestLanguageOfAPage(t *testing.T) {
	t.Parallel()
	all := []string{"en", "nl", "de", "fr"}
	tests := map[string]struct {
		locales []string
		header  string
		asked   []string
		want    shown
	}{
		"the first is the default":             {[]string{"de", "en"}, "", nil, shown{"de", "Anmelden"}},
		"one alone":                            {[]string{"nl"}, "de", []string{"fr"}, shown{"nl", "Inloggen"}},
		"what the browser asks for":            {all, "fr-CA,fr;q=0.8", nil, shown{"fr", "Connexion"}},
		"what the flow asks for comes first":   {all, "fr", []string{"de"}, shown{"de", "Anmelden"}},
		"a country we do not have":             {all, "", []string{"nl-BE"}, shown{"nl", "Inloggen"}},
		"a variant we do not have":             {all, "", []string{"nl_NL_informal"}, shown{"nl", "Inloggen"}},
		"a language we do not have":            {all, "nl", []string{"es"}, shown{"nl", "Inloggen"}},
		"nothing that we have":                 {all, "es", []string{"xh"}, shown{"en", "Sign in"}},
		"a language that is not switched on":   {[]string{"en", "nl"}, "de", []string{"fr"}, shown{"en", "Sign in"}},
		"a country of ours":                    {[]string{"de-AT", "en"}, "de-AT", nil, shown{"de-AT", "Anmelden"}},
		"the second of those the flow accepts": {all, "", []string{"es", "fr-FR"}, shown{"fr", "Connexion"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := signIn(t, withMessages(t, tt.locales), tt.header, tt.asked...); got != tt.want {
				t.Errorf("sign-in page = %q, want %q", got, tt.want)
			}
		})
	}
	t.Run("attack 283: a language header that is no language", func(t *testing.T) {
		t.Parallel()
		for _, bad := range []string{`"><script>`, "../../etc/passwd", "{env.HOME}", strings.Repeat("nl,", 1000), "nl\x00", "*", "en;q=x"} {
			if got := signIn(t, withMessages(t, all), bad, bad); got.lang != "en" && got.lang != "nl" {
				t.Errorf("sign-in page for %q = %q, want one of ours", bad, got)
			}
		}
	})
}

func TestOverrides(t *testing.T) {
	t.Parallel()
	title := func(s string) map[string]string { return map[string]string{"sign_in.title": s} }
	custom := &web.Overrides{
		Default: title("Hello"),
		Locales: map[string]map[string]string{
			"nl": title("Hallo"), "nl_NL": {"sign_in.submit": "Ga"}, "nl_NL_informal": title("Hoi"), "es": title("Hola"),
			"pt_BR": {"sign_in.submit": "Entrar"},
		},
	}
	weaker := &web.Overrides{Locales: map[string]map[string]string{
		"nl_NL": title("Weaker, but nearer"),
		"nl":    title("Weaker"), "fr": title("Salut"),
	}}
	p := withMessages(t, []string{"en", "nl"}, custom, weaker)
	for name, tt := range map[string]struct {
		header string
		asked  string
		want   shown
	}{
		"default for every language":              {"", "", shown{"en", "Hello"}},
		"language":                                {"nl", "", shown{"nl", "Hallo"}},
		"variant by its name":                     {"", "nl_NL_informal", shown{"nl-NL", "Hoi"}},
		"variant as a tag, in other case":         {"", "NL-nl-Informal", shown{"nl-NL", "Hoi"}},
		"a nearer locale before a stronger layer": {"", "nl_NL", shown{"nl-NL", "Weaker, but nearer"}},
		"other variant: its country":              {"", "nl_NL_formal", shown{"nl-NL", "Weaker, but nearer"}},
		"a language that only the messages bring": {"es-MX", "", shown{"es", "Hola"}},
		"a country that only the messages bring":  {"", "pt_BR", shown{"pt-BR", "Hello"}},
		"a variant is not for the browser":        {"nl-NL-informal", "", shown{"en", "Hello"}},
		"brought by the weaker layer":             {"fr", "", shown{"fr", "Salut"}},
	} {
		if name == "a variant is not for the browser" { // it is not a tag that browsers know
			if got := signIn(t, p, tt.header); got.title == "Hoi" {
				t.Errorf("%s: sign-in page = %q", name, got)
			}
			continue
		}
		var asked []string
		if tt.asked != "" {
			asked = []string{tt.asked}
		}
		if got := signIn(t, p, tt.header, asked...); got != tt.want {
			t.Errorf("%s: sign-in page = %q, want %q", name, got, tt.want)
		}
	}
}

// TestOverridesAtOnce: a change appears on the very next page, also on other origins.
func TestOverridesAtOnce(t *testing.T) {
	t.Parallel()
	p := newRenderer(t, web.Brand{})
	now := &web.Overrides{}
	p.SetOverrides(func(context.Context) []*web.Overrides { return []*web.Overrides{nil, now} })
	site := p.On("https://wiki.example.com", "/.gatehouse")
	for _, want := range []string{"Sign in", "One", "Two", "Sign in"} {
		if want != "Sign in" {
			now = &web.Overrides{Default: map[string]string{"sign_in.title": want}}
		} else {
			now = nil
		}
		for _, r := range []*web.Renderer{p, site} {
			if got := signIn(t, r, ""); got.title != want {
				t.Errorf("title = %q, want %q", got.title, want)
			}
		}
	}
}

// TestOverridesThatPanic: the error page after a panic needs messages too.
func TestOverridesThatPanic(t *testing.T) {
	t.Parallel()
	p := newRenderer(t, web.Brand{})
	p.SetOverrides(func(context.Context) []*web.Overrides { panic("the store is broken") })
	if got := signIn(t, p, ""); got.title != "Sign in" {
		t.Errorf("title = %q, want ours", got.title)
	}
}

// TestScopeOfOverrides: a custom message is translated, so it takes precedence over the operator's single description.
func TestScopeOfOverrides(t *testing.T) {
	t.Parallel()
	p := withMessages(t, []string{"en", "nl"},
		&web.Overrides{Locales: map[string]map[string]string{"nl": {"scope.orders.read": "Je bestellingen lezen"}}})
	for lang, want := range map[string]string{"nl": "Je bestellingen lezen", "en": "Read your orders"} {
		w := httptest.NewRecorder()
		p.Render(w, httptest.NewRequest(http.MethodGet, "https://auth.example.com/x", nil), web.View{
			Template: "consent", Locales: []string{lang}, Client: shop,
			Data: web.Consent{
				Action: "/oauth/consent", CSRF: "t",
				Scopes: []web.ScopeLine{{Name: "orders.read", Description: "Read your orders"}, {Name: "x.y"}},
			},
		})
		if body := w.Body.String(); !strings.Contains(body, want) || !strings.Contains(body, "x.y") {
			t.Errorf("consent in %s does not say %q:\n%s", lang, want, body)
		}
	}
}

func TestMessagesFromOutside(t *testing.T) {
	t.Parallel()
	// every returns overrides with the same text for every message.
	every := func(text string) *web.Overrides {
		o := &web.Overrides{Default: map[string]string{}}
		for key := range messagesOf(t, "en") {
			o.Default[key] = text
		}
		return o
	}
	t.Run("attack 276: markup in custom messages", func(t *testing.T) {
		t.Parallel()
		for _, bad := range []string{
			`<script>alert(1)</script>`, `"><img src=x onerror=alert(1)>`, `<svg><style><img src=x onerror=alert(1)></style></svg>`,
			`javascript:alert(1)`,
			`<math><mtext></form><form action=https://evil.example>`, `</title><script>`,
			"<noscript><p title=\"</noscript><img src=x onerror=alert(1)>\">",
		} {
			p := withMessages(t, nil, every(bad))
			for name, v := range views() {
				body := render(p, v).Body.String()
				if strings.Contains(bad, "<") && strings.Contains(body, bad) {
					t.Errorf("page %q holds %q as it is", name, bad)
				}
				if strings.Contains(body, "<img src=x") ||
					strings.Count(body, "<script>") > strings.Count(render(newRenderer(t, web.Brand{}), v).Body.String(), "<script>") {
					t.Errorf("page %q took markup from %q", name, bad)
				}
				if strings.Contains(body, `href="javascript:`) {
					t.Errorf("page %q has a link made of a message", name)
				}
			}
		}
	})
	t.Run("attack 278: placeholders and templates in custom messages", func(t *testing.T) {
		t.Parallel()
		for _, odd := range []string{
			"{{.}}", `{{ env "HOME" }}`, "{env.HOME}", "${7*7}", "%s %d %!s(MISSING)", "{csrf} {unknown} {",
			"{{template \"frame\" .}}",
		} {
			p := withMessages(t, nil, every(odd))
			for name, v := range views() {
				w := render(p, v)
				text := strings.NewReplacer("&#34;", `"`, "&#39;", "'").Replace(w.Body.String())
				if (w.Code >= 500 && v.Status < 500) || !strings.Contains(text, odd) {
					t.Errorf("page %q with messages %q = %d without the text as it is", name, odd, w.Code)
				}
			}
		}
	})
	t.Run("attack 276, 278: values that look like placeholders stay values", func(t *testing.T) {
		t.Parallel()
		p := withMessages(t, nil, &web.Overrides{Default: map[string]string{"sign_in.client": "{client} {client} {brand}"}})
		v := views()["sign_in"]
		v.Client.Name = "{client}{brand}<b>"
		if body := render(p, v).Body.String(); !strings.Contains(body, "{client}{brand}&lt;b&gt; {client}{brand}&lt;b&gt; {brand}") {
			t.Errorf("sign-in page = %s", body)
		}
	})
}

func TestCheckMessage(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		key, text string
		good      bool
	}{
		{"sign_in.title", "Hello {client}\n\twith two lines", true},
		{"scope.orders:read-1", "", true},
		{"", "x", false},
		{".x", "x", false},
		{"a b", "x", false},
		{"a/../b", "x", false},
		{"a\x00", "x", false},
		{strings.Repeat("k", 129), "x", false},
		{"a", strings.Repeat("é", 4000), true},
		{"a", strings.Repeat("é", 4001), false},
		{"a", "x\x00", false},
		{"a", "x\x1b[31m", false},
		{"a", "x\u0085", false},
		{"a", "x\xff", false},
	} {
		if err := web.CheckMessage(tt.key, tt.text); (err == nil) != tt.good {
			t.Errorf("CheckMessage(%q, %.20q) = %v, want good %v", tt.key, tt.text, err, tt.good)
		}
	}
	for name, good := range map[string]bool{
		"nl": true, "nl_NL": true, "nl-nl": true, "nl_NL_informal": true, "es_419": true, "": false, "n": false, "nl_": false,
		"nl_NLD": false, "../nl": false,
		"nl_NL_informal_x": false, "nl_NL_toolongname": false, "default": false, "nl\n": false, "{env.X}": false, "nl%00": false,
	} {
		if err := web.CheckLocale(name); (err == nil) != good {
			t.Errorf("CheckLocale(%q) = %v, want good %v", name, err, good)
		}
	}
}

func FuzzOverrides(f *testing.F) {
	f.Add("nl_NL", "sign_in.title", "{{.}} {client} <b>", "nl-NL")
	f.Fuzz(func(t *testing.T, locale, key, text, asked string) {
		p := withMessages(t, nil, &web.Overrides{
			Default: map[string]string{key: text},
			Locales: map[string]map[string]string{locale: {key: text}},
		})
		w := httptest.NewRecorder()
		p.Render(w, httptest.NewRequest(http.MethodGet, "https://auth.example.com/x", nil), web.View{
			Template: "sign_in", Locales: []string{asked}, Client: shop, Data: web.SignIn{Action: "/sign-in", CSRF: "t", Problem: key},
		})
		if w.Code != http.StatusOK {
			t.Errorf("page with message %q = %q in %q: %d", key, text, locale, w.Code)
		}
	})
}

// TestDuration: durations are given in the largest unit that divides them, and are never rounded down.
func TestDuration(t *testing.T) {
	t.Parallel()
	p := withMessages(t, []string{"en", "nl", "de", "fr"})
	for _, tt := range []struct {
		d              time.Duration
		en, nl, de, fr string
	}{
		{0, "1 second", "1 seconde", "1 Sekunde", "1 seconde"},
		{time.Millisecond, "1 second", "1 seconde", "1 Sekunde", "1 seconde"},
		{90 * time.Second, "90 seconds", "90 seconden", "90 Sekunden", "90 secondes"},
		{91 * time.Second, "2 minutes", "2 minuten", "2 Minuten", "2 minutes"},
		{59 * time.Minute, "59 minutes", "59 minuten", "59 Minuten", "59 minutes"},
		{time.Hour - time.Second, "1 hour", "1 uur", "1 Stunde", "1 heure"},
		{time.Hour, "1 hour", "1 uur", "1 Stunde", "1 heure"},
		{90 * time.Minute, "90 minutes", "90 minuten", "90 Minuten", "90 minutes"},
		{12 * time.Hour, "12 hours", "12 uur", "12 Stunden", "12 heures"},
		{24 * time.Hour, "1 day", "1 dag", "1 Tag", "1 jour"},
		{25 * time.Hour, "25 hours", "25 uur", "25 Stunden", "25 heures"},
		{365 * 24 * time.Hour, "365 days", "365 dagen", "365 Tagen", "365 jours"},
	} {
		for lang, want := range map[string]string{"en": tt.en, "nl": tt.nl, "de": tt.de, "fr": tt.fr} {
			if got := p.Words(t.Context(), []string{lang}).T("problem.wait", "time", tt.d); !strings.Contains(got, " "+want+".") &&
				!strings.Contains(got, " "+want+" ") {
				t.Errorf("%s in %s = %q, want %q", tt.d, lang, got, want)
			}
		}
	}
}
