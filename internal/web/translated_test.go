package web_test

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"unicode"

	"golang.org/x/net/html"

	"github.com/gatehouse-id/gatehouse/internal/authn"
	"github.com/gatehouse-id/gatehouse/internal/web"
)

// texts returns the words of a page: its texts, and the attributes that screen readers read out.
func texts(t *testing.T, body []byte) (out []string) {
	t.Helper()
	doc, err := html.ParseWithOptions(bytes.NewReader(body), html.ParseOptionEnableScripting(false))
	if err != nil {
		t.Fatal(err)
	}
	for n := range doc.Descendants() {
		if n.Type == html.TextNode && n.Parent.Data != "script" {
			out = append(out, n.Data)
		}
		for _, a := range n.Attr {
			switch a.Key {
			case "title", "alt", "aria-label", "placeholder":
				out = append(out, a.Val)
			}
		}
	}
	return out
}

// TestEverythingCanBeTranslated renders each page in a language that only custom messages bring. All other words on the
// page must come from its data: a text that is written in a template and not in a message could never be translated.
func TestEverythingCanBeTranslated(t *testing.T) {
	t.Parallel()
	words := map[string]string{}
	for key, text := range messagesOf(t, "en") {
		words[key] = "⟦" + key + " " + strings.Join(placeholders(text), " ") + "⟧"
	}
	p := withMessages(t, []string{"en", "nl"}, &web.Overrides{Locales: map[string]map[string]string{"xx": words}})
	org := web.NewOrganisations(map[string]*web.Organisation{"shop": {
		Name: "Acme", SiteURL: "https://acme.example/",
		Message: "<p>acme says</p>",
	}})
	p.SetOrganisations(func(context.Context) *web.Organisations { return org })
	pages := map[string][]byte{}
	given := map[string]string{}
	show := func(name string, v web.View) {
		v.Locales = []string{"xx"}
		v.Client.Targets = nil
		var b bytes.Buffer
		enc := json.NewEncoder(&b)
		enc.SetEscapeHTML(false)
		if err := enc.Encode(v); err != nil {
			t.Fatal(err)
		}
		w := render(p, v)
		if got := w.Header().Get("Content-Language"); got != "xx" {
			t.Fatalf("page %q is in %q", name, got)
		}
		pages[name], given[name] = w.Body.Bytes(), b.String()
	}
	for name, v := range views() {
		show(name, v)
	}
	resp := choose(p, "/language?to=xx")
	for _, key := range []string{"error.expired", "error.internal", "error.unavailable", "error.not_found"} {
		r := httptest.NewRequest(http.MethodGet, "https://auth.example.com/x", nil)
		r.AddCookie(resp.Cookies()[0])
		w := httptest.NewRecorder()
		given[key] = p.Error(w, r, http.StatusServiceUnavailable, key, "/account")
		pages[key] = w.Body.Bytes()
	}
	show("a client without a name", web.View{Template: "sign_in", Client: authn.Client{}, Data: web.SignIn{Action: "/sign-in", Cancel: "/c"}})
	always := "ann@example.com · Gatehouse English Nederlands xx auth.example.com Acme acme.example acme says DP TS"
	for name, body := range pages {
		for _, text := range texts(t, body) {
			left := text // the rest, without the messages
			for {
				from := strings.Index(left, "⟦")
				if from < 0 {
					break
				}
				to := strings.Index(left[from:], "⟧")
				if to < 0 {
					break
				}
				left = left[:from] + left[from+to+len("⟧"):]
			}
			left = strings.TrimFunc(left, func(c rune) bool { return !unicode.IsLetter(c) && !unicode.IsDigit(c) })
			if left == "" || strings.Contains(given[name], left) || strings.Contains(always, left) ||
				strings.Contains(given[name], strings.ReplaceAll(left, " ", "")) {
				continue
			}
			t.Errorf("page %q says %q, of which %q is in no message and was not given to show", name, text, left)
		}
	}
}
