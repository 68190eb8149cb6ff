package web

import (
	"bytes"
	"context"
	stdhtml "html"
	"maps"
	"net/http"
	"slices"
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// schemes are the names of the color schemes of a browser.
var schemes = [2]string{"light", "dark"}

// Look is the look of a preview.
type Look struct {
	Locale string // one of Wordings. Empty: the default
	Dark   bool
}

// scheme is the index in schemes.
func (l Look) scheme() int {
	if l.Dark {
		return 1
	}
	return 0
}

// Preview writes a page that only shows what another one looks like: no script runs in it, no form and no link of it
// leads anywhere, and only pages of the same origin can frame it.
func (p *Renderer) Preview(w http.ResponseWriter, r *http.Request, v View, failed *Failure, look Look) error {
	lang := p.spoken(r.Context(), look.Locale)
	v = p.sampled(v, failed, lang)
	f := p.frame(v, lang, new(scriptSet))
	f.CSS = p.assets.schemes[look.scheme()]
	body, err := p.execute(v, "frame", f)
	if err != nil {
		return err
	}
	return p.still(w, body, look, " style-src 'self'; font-src 'self';")
}

// PreviewMail is Preview for the HTML of an e-mail, whose styles are attributes.
func (p *Renderer) PreviewMail(w http.ResponseWriter, doc string, look Look) error {
	return p.still(w, []byte(doc), look, " style-src-attr 'unsafe-inline';")
}

// sampled is a view, or the page of an error.
func (p *Renderer) sampled(v View, failed *Failure, lang *language) View {
	if failed != nil {
		return View{Template: "error", Data: p.failureFor(lang, *failed)}
	}
	return v
}

// TitleOf returns the title of a page in the language of an administrator.
func (p *Renderer) TitleOf(ctx context.Context, v View, failed *Failure, locale string) (string, error) {
	lang := p.spoken(ctx, locale)
	v = p.sampled(v, failed, lang)
	body, err := p.execute(v, "title", p.frame(v, lang, new(scriptSet)))
	return stdhtml.UnescapeString(string(body)), err
}

// KeysOf returns the messages that a page shows, sorted.
func (p *Renderer) KeysOf(v View, failed *Failure) ([]string, error) {
	lang := newLanguage(finalLanguage, finalLanguage, nil, p.cfg.EmailUsernames)
	lang.seen = map[string]bool{}
	v = p.sampled(v, failed, lang)
	_, err := p.execute(v, "frame", p.frame(v, lang, new(scriptSet)))
	return slices.Sorted(maps.Keys(lang.seen)), err
}

// FailureKeys are the stems of all messages of error pages, sorted.
func FailureKeys() (out []string) {
	for key := range builtIn()[finalLanguage] {
		if stem, ok := strings.CutSuffix(key, ".title"); ok && strings.HasPrefix(key, "error.") {
			out = append(out, stem)
		}
	}
	slices.Sort(out)
	return out
}

// still writes a page without anything that acts. styles are those that its policy allows.
func (p *Renderer) still(w http.ResponseWriter, body []byte, look Look, styles string) error {
	doc, err := html.Parse(bytes.NewReader(body))
	if err != nil {
		return err
	}
	var gone []*html.Node
	for n := range doc.Descendants() {
		if n.Type != html.ElementNode {
			continue
		}
		if acts(n) {
			gone = append(gone, n)
		}
		n.Attr = slices.DeleteFunc(n.Attr, func(a html.Attribute) bool { return leads(n, a.Key) })
		if isMeta(n, "color-scheme") {
			n.Attr = []html.Attribute{{Key: "name", Val: "color-scheme"}, {Key: "content", Val: schemes[look.scheme()]}}
		}
	}
	for _, n := range gone {
		n.Parent.RemoveChild(n)
	}
	var out bytes.Buffer
	if err := html.Render(&out, doc); err != nil {
		return err
	}
	h := w.Header()
	p.headers(h, View{}, new(scriptSet))
	h.Set("Content-Security-Policy",
		"sandbox allow-same-origin; default-src 'none';"+styles+
			" img-src 'self'; object-src 'none'; base-uri 'none'; frame-ancestors 'self'; form-action 'none'")
	h.Set("X-Frame-Options", "SAMEORIGIN")
	h.Set("Referrer-Policy", "no-referrer")
	_, err = w.Write(out.Bytes())
	return err
}

// acts reports whether an element does something by being there.
func acts(n *html.Node) bool {
	switch n.DataAtom {
	case atom.Script, atom.Iframe, atom.Object, atom.Embed, atom.Base:
		return true
	case atom.Meta:
		return isMeta(n, "theme-color") || slices.ContainsFunc(n.Attr, func(a html.Attribute) bool { return a.Key == "http-equiv" })
	case atom.Input: // tokens of samples are none, and a preview needs none
		return slices.ContainsFunc(n.Attr, func(a html.Attribute) bool { return a.Key == "type" && a.Val == "hidden" })
	}
	return false
}

// leads reports whether an attribute leads away from the page, or takes the focus.
func leads(n *html.Node, key string) bool {
	switch key {
	case "href":
		return n.DataAtom != atom.Link
	case "action", "formaction", "target", "ping", "autofocus":
		return true
	}
	return strings.HasPrefix(key, "on")
}

func isMeta(n *html.Node, name string) bool {
	return n.DataAtom == atom.Meta && slices.ContainsFunc(n.Attr, func(a html.Attribute) bool { return a.Key == "name" && a.Val == name })
}
