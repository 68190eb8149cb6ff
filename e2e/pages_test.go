package e2e

import (
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

const (
	maxPage  = 20_000 // bytes of HTML
	maxStyle = 15_000 // bytes of CSS
)

// TestPages looks at every page in every size and colour scheme: nothing scrolls sideways at 320 pixels, axe finds no
// problem, there are no scripts, nothing comes from elsewhere, and the page is small. With -shots it leaves pictures
// for people to look at.
func TestPages(t *testing.T) {
	t.Parallel()
	p, s := openShop(t)
	axe, err := os.ReadFile("node/node_modules/axe-core/axe.min.js")
	if err != nil {
		t.Fatalf("%v: make install", err)
	}
	b := s.browse(t)
	look := func(name string) {
		t.Helper()
		inspect(b, name, string(axe))
	}

	b.open(s.Issuer + "/nowhere")
	look("not-found")
	b.open(s.Issuer + "/oauth/authorize?client_id=nobody")
	look("error")
	b.open(p.address + "/")
	look("sign-in")
	b.signIn(person, "not the password")
	look("sign-in-wrong")
	b.signIn(person, s.Password)
	look("consent")
	b.click("button[value=allow]")
	b.open(s.Issuer + "/account")
	look("account")
	b.open(p.address + "/?prompt=select_account")
	look("select-account")
	b.open(s.Issuer + "/sign-out")
	look("sign-out")
	b.click("main form button:not([type])")
	look("signed-out")
	b.open(s.Issuer + "/oauth/authorize?flow=gone")
	look("expired")
}

// inspect looks at the page that the tab shows. It does not load the page again, so a form keeps its content.
func inspect(b *tab, name, axe string) {
	t := b.t
	t.Helper()
	facts := eval[struct {
		HTML, Styles, Scripts, Inline int
		Foreign                       []string
		Title, Lang                   string
		Style                         string
	}](b, `({
		HTML: document.documentElement.outerHTML.length,
		Styles: document.querySelectorAll('link[rel=stylesheet]').length,
		Scripts: [...document.scripts].filter(s => !['/assets/', '/.gatehouse/assets/'].some(p => s.src.startsWith(location.origin + p)) || s.text).length,
		Inline: document.querySelectorAll('[style],style').length,
		Foreign: [...document.querySelectorAll('[src],link[href]')].map(e => new URL(e.src || e.href, location)).filter(u => u.origin !== location.origin).map(u => u.href),
		Title: document.title,
		Lang: document.documentElement.lang,
		Style: document.querySelector('link[rel=stylesheet]')?.href ?? '',
	})`)
	if facts.HTML > maxPage || facts.Styles != 1 || facts.Scripts != 0 || facts.Inline != 0 || len(facts.Foreign) != 0 ||
		facts.Title == "" || facts.Lang == "" {
		t.Errorf("page %s: %+v; want at most %d bytes, one style sheet, no scripts but ours, nothing inline or foreign, a title and a language",
			name, facts, maxPage)
	}
	if size := eval[int](b, chromeFetch(facts.Style)); size > maxStyle || size == 0 {
		t.Errorf("page %s: the style sheet has %d bytes, want at most %d", name, size, maxStyle)
	}
	for _, scheme := range []string{"light", "dark"} {
		for _, screen := range []struct {
			name          string
			width, height int64
		}{{"desktop", 1280, 800}, {"phone", 390, 844}, {"narrow", 320, 640}} {
			b.screen(screen.width, screen.height, scheme)
			wide := eval[int64](b, `document.documentElement.scrollWidth`)
			if wide > screen.width {
				t.Errorf("page %s is %d pixels wide on a %s screen of %d", name, wide, screen.name, screen.width)
			}
			b.shot(fmt.Sprintf("page-%s-%s-%s", name, screen.name, scheme))
		}
		b.screen(1280, 800, scheme)
		for _, v := range violations(b, axe, scheme) {
			t.Errorf("page %s, %s: %s", name, scheme, v)
		}
	}
}

// chromeFetch is a script that returns the size of an address in bytes, from the browser's cache.
func chromeFetch(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return "0"
	}
	return `performance.getEntriesByName(` + quote(u.String()) + `)[0]?.decodedBodySize ?? 0`
}

// colourRules are the rules of axe that can differ between the colour schemes of a page.
const colourRules = `runOnly: ['color-contrast', 'link-in-text-block'], `

// violations runs axe in the page: all rules in the light scheme, those about colours in the dark one.
func violations(b *tab, axe, scheme string) []string {
	b.t.Helper()
	if !eval[bool](b, `"axe" in window`) { // once for a page, in all sizes and schemes
		get(b, chromedp.Evaluate[chromedp.Void](axe+";undefined"))
	}
	options, least := ``, 10
	if scheme == "dark" {
		options, least = colourRules, 1
	}
	raw := get(b, chromedp.Evaluate[string](
		`axe.run({`+options+`resultTypes: ['violations'], preload: false}).then(r => JSON.stringify({
			Passed: r.passes.length + r.incomplete.length,
			Found: r.violations.map(v => v.id + ': ' + v.help + ': ' + v.nodes.map(n => n.html + ' ' + n.failureSummary).join(' | ')),
		}))`,
		chromedp.EvalAwaitPromise,
	))
	var result struct {
		Passed int
		Found  []string
	}
	if err := json.Unmarshal([]byte(raw), &result); err != nil || result.Passed+len(result.Found) < least {
		b.t.Fatalf("axe looked at little: %d rules passed, %v", result.Passed, err)
	}
	return result.Found
}

// TestPagesInEveryLanguage looks at the pages with the longest words in each of our languages, as TestPages does:
// nothing scrolls sideways, and axe finds no problem, including the language of the document.
func TestPagesInEveryLanguage(t *testing.T) {
	t.Parallel()
	p, s := openShopEdited(t, func(caddyfile string) string {
		return strings.Replace(caddyfile, "identity {", "identity {\n\t\t\tlocales en nl de fr", 1)
	})
	axe, err := os.ReadFile("node/node_modules/axe-core/axe.min.js")
	if err != nil {
		t.Fatalf("%v: make install", err)
	}
	for language, submit := range map[string]string{"nl": "Inloggen", "de": "Anmelden", "fr": "Se connecter"} {
		t.Run(language, func(t *testing.T) {
			b := s.browse(t)
			look := func(name string) {
				t.Helper()
				if got := eval[string](b, `document.documentElement.lang`); got != language {
					t.Errorf("page %s is in %q, want %q", name, got, language)
				}
				inspect(b, language+"-"+name, string(axe))
			}
			b.open(p.address + "/?language=" + language)
			look("sign-in")
			if got := eval[string](b, `document.querySelector('main form button:not([type])').textContent`); got != submit {
				t.Errorf("the button says %q, want %q", got, submit)
			}
			b.signIn(person, "not the password")
			look("sign-in-wrong")
			b.signIn(person, s.Password)
			look("consent")
		})
	}
}
