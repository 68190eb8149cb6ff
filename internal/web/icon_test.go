package web_test

import (
	"bytes"
	"image"
	"image/png"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/internal/web"
)

// TestIcons: browsers and phones that do not read SVG get the icon in the brand's colour, at the address where they
// look for it and on the home screen.
func TestIcons(t *testing.T) {
	t.Parallel()
	p := newRenderer(t, web.Brand{Color: "#b3261e"})
	w := httptest.NewRecorder()
	p.ShowFavicon(w, httptest.NewRequest(http.MethodGet, "https://auth.example.com/favicon.ico", nil))
	ico := w.Body.Bytes()
	if w.Code != http.StatusOK || w.Header().Get("Content-Type") != "image/x-icon" || len(ico) < 22 ||
		!bytes.HasPrefix(ico, []byte{0, 0, 1, 0, 1, 0, 32, 32}) {
		t.Fatalf("GET /favicon.ico = %d %s, %d bytes", w.Code, w.Header().Get("Content-Type"), len(ico))
	}
	body := render(p, views()["sign_in"]).Body.String()
	touch := regexp.MustCompile(`<link rel="apple-touch-icon" href="([^"]+)">`).FindStringSubmatch(body)
	if touch == nil || strings.Count(body, `<meta name="theme-color"`) != 2 {
		t.Fatalf("the page has no icon for phones, or no colours for the browser: %s", body)
	}
	for name, tt := range map[string]struct {
		raw    []byte
		size   int
		corner uint32 // alpha
	}{
		"favicon": {ico[22:], 32, 0},
		"touch":   {get(p, touch[1]).Body.Bytes(), 180, 0xffff},
	} {
		var pic image.Image
		pic, err := png.Decode(bytes.NewReader(tt.raw))
		if err != nil || pic.Bounds().Dx() != tt.size || pic.Bounds().Dy() != tt.size {
			t.Fatalf("%s: %v, want %d pixels: %v", name, pic, tt.size, err)
		}
		at := func(x, y int) (r, g, b, a uint32) { return pic.At(x*tt.size/32, y*tt.size/32).RGBA() }
		if _, _, _, a := at(0, 0); a != tt.corner {
			t.Errorf("%s: the corner has alpha %x, want %x", name, a, tt.corner)
		}
		if r, g, b, _ := at(16, 20); r>>8 != 0xb3 || g>>8 != 0x26 || b>>8 != 0x1e {
			t.Errorf("%s: within the arch it is %x %x %x, want the brand's colour", name, r>>8, g>>8, b>>8)
		}
		if r, g, b, _ := at(16, 9); r&g&b != 0xffff {
			t.Errorf("%s: the arch is %x %x %x, want white", name, r, g, b)
		}
	}
}

// TestMomentsAreOfTheReader: a moment on a page says in UTC when it was, and carries it for the script that shows it in
// the reader's zone. What else stands in the text stays text.
func TestMomentsAreOfTheReader(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 3, 1, 10, 5, 0, 0, time.FixedZone("", 3600))
	d := web.Dashboard{
		Key:   "activity",
		Parts: []web.Part{{Rows: []web.Row{{Name: "x", Details: []web.Text{web.Say("activity.from", "time", at, "address", "<b>")}}}}},
	}
	body := render(newRenderer(t, web.Brand{}), web.View{Template: "dashboard", Nav: nav, Data: d}).Body.String()
	for _, want := range []string{
		`<time datetime="2026-03-01T09:05:00Z">1 March 2026, 09:05 UTC</time>, from &lt;b&gt;`,
		`<script src="/assets/time-`,
	} {
		if !strings.Contains(body, want) {
			t.Errorf("the page has no %s: %s", want, body)
		}
	}
	if body := render(newRenderer(t, web.Brand{}), views()["security_none"]).Body.String(); strings.Contains(body, "time-") {
		t.Error("a page without moments has the script for them")
	}
}

// TestForeignWordsAreQuoted: words that are in English in every language are a quotation on the pages of the others,
// however deep in a text, and never markup.
func TestForeignWordsAreQuoted(t *testing.T) {
	t.Parallel()
	reason := web.Say("console.settings_problem.metadata_unusable", "reason", web.Foreign("no <b>EntityID</b>"))
	d := web.Console{
		Title:   web.Say("console.providers.title"),
		Problem: web.Say("console.problem.setting_at", "member", "<i>", "reason", reason),
		Parts: []web.ConsolePart{{
			Facts: []web.ConsoleFact{{Label: "console.column.failed", Cells: []web.Cell{{Text: web.Said("down & out")}}}},
			Form: &web.ConsoleForm{Submit: "console.save", Fields: []web.Field{
				{Name: "a", Label: "console.column.name"},
				{Name: "b", Label: "console.column.to", Problem: "console.problem.metadata", ProblemFill: []any{"reason", web.Foreign("bad <XML>")}},
			}},
		}},
	}
	p := withMessages(t, []string{"en", "de"})
	for locale, wants := range map[string]map[string]int{
		"en": {
			"&lt;i&gt;: The metadata can’t be used: no &lt;b&gt;EntityID&lt;/b&gt;": 1,
			"<span>down &amp; out</span>":         1,
			"This can’t be used: bad &lt;XML&gt;": 2,
			"<q":                                  0,
		},
		"de": {
			`&lt;i&gt;: Die Metadaten sind unbrauchbar: <q lang="en">no &lt;b&gt;EntityID&lt;/b&gt;</q>`: 1,
			`<span><q lang="en">down &amp; out</q></span>`:                                               1,
			`Das kann nicht verwendet werden: <q lang="en">bad &lt;XML&gt;</q>`:                          2,
		},
	} {
		page := render(p, web.View{Template: "console", Locales: []string{locale}, Data: d}).Body.String()
		for want, n := range wants {
			if got := strings.Count(page, want); got != n {
				t.Errorf("%s: the page has %q %d times, want %d:\n%s", locale, want, got, n, page)
			}
		}
	}
}

// TestWhatIsTakenAwayLooksSo: the buttons that delete or remove something do not have the colour of Save, and what is
// on has another badge than what is off.
func TestWhatIsTakenAwayLooksSo(t *testing.T) {
	t.Parallel()
	p := newRenderer(t, web.Brand{})
	body := render(p, web.View{Template: "dashboard", Nav: nav, Data: web.Dashboard{Key: "delete", Parts: []web.Part{
		{Links: []web.Action{{Label: "data.delete.next", URL: "/account/data/delete", Danger: true}}},
		{Rows: []web.Row{{
			Name: "x",
			Actions: []web.Action{
				{Label: "security.remove", URL: "/a", CSRF: "t", Danger: true},
				{Label: "security.remove", URL: "/b", Danger: true},
				{Label: "profile.make_primary", URL: "/c"},
			},
		}}},
		{Form: &web.PartForm{Action: "/account/data/delete", Submit: "data.delete.submit", Danger: true}},
	}}}).Body.String()
	for _, want := range []string{
		`<a class="button quiet danger" href="/account/data/delete">`, `<button class="button danger">`,
		`<button class="link danger" aria-label="Remove: x">`, `<a href="/b" class="danger"`,
		`<a href="/c" aria-label`,
	} {
		if !strings.Contains(body, want) {
			t.Errorf("the page has no %s: %s", want, body)
		}
	}
	if body := render(p, views()["confirm"]).Body.String(); !strings.Contains(body, `<button class="button danger">Remove</button>`) {
		t.Errorf("the question before a removal: %s", body)
	}
	used := time.Date(2026, 3, 1, 9, 5, 0, 0, time.UTC)
	body = render(p, web.View{Template: "security", Nav: nav, Data: web.Security{Sections: []web.SecuritySection{
		{Key: "authenticator", State: "on", Used: used, Actions: []web.SecurityAction{{"security.remove", "/r"}, {"security.set_up", "/s"}}},
		{Key: "pin", State: "off"},
		{Key: "passkey", State: "off"},
		{Key: "preferred", State: "last"},
	}}}).Body.String()
	for _, want := range []string{
		`Authenticator app</h2> <span class="mark good">On</span>`, `<p class="hint">Last used on <time`,
		`PIN</h2> <span class="mark ">Off</span>`,
		`Passkeys</h2> <span class="mark info">Recommended</span>`, "Default method</h2>\n", `class="button quiet danger" href="/r"`,
		`class="button quiet" href="/s"`,
	} {
		if !strings.Contains(body, want) {
			t.Errorf("the page has no %s: %s", want, body)
		}
	}
}
