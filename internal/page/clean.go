package page

import (
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// plainElements are those that a text from outside may have. None of them has an attribute but a link its address.
var plainElements = map[atom.Atom]bool{
	atom.A: true, atom.B: true, atom.Br: true, atom.Em: true, atom.I: true, atom.Li: true, atom.Ol: true, atom.P: true, atom.Strong: true, atom.Ul: true,
}

// goneElements are taken out with all that is in them; of others that are not plain the text stays.
var goneElements = map[atom.Atom]bool{
	atom.Applet: true, atom.Audio: true, atom.Button: true, atom.Canvas: true, atom.Embed: true, atom.Form: true, atom.Frameset: true, atom.Iframe: true, atom.Input: true,
	atom.Math: true, atom.Noembed: true, atom.Noframes: true, atom.Noscript: true, atom.Object: true, atom.Plaintext: true, atom.Script: true, atom.Select: true,
	atom.Style: true, atom.Svg: true, atom.Template: true, atom.Textarea: true, atom.Title: true, atom.Video: true, atom.Xmp: true,
}

const maxNesting = 16

// CleanHTML returns what is harmless of a piece of HTML: paragraphs, lists, emphasis, and links to http, https and mailto addresses. It is not cut
// out of the text but written anew from what a browser would make of it, so that nothing depends on how that is spelled.
func CleanHTML(s string) string {
	for range 3 { // what was written reads back as itself after at most two turns
		clean := cleanOnce(s)
		if clean == s {
			break
		}
		s = clean
	}
	return s
}

func cleanOnce(s string) string {
	nodes, err := html.ParseFragment(strings.NewReader(s), &html.Node{Type: html.ElementNode, Data: "div", DataAtom: atom.Div})
	if err != nil {
		return ""
	}
	var b strings.Builder
	for _, n := range nodes {
		writeClean(&b, n, 0)
	}
	return b.String()
}

func writeClean(b *strings.Builder, n *html.Node, depth int) {
	switch {
	case depth > maxNesting:
		return
	case n.Type == html.TextNode:
		b.WriteString(html.EscapeString(n.Data))
		return
	case n.Type != html.ElementNode || n.Namespace != "" || goneElements[n.DataAtom]:
		return
	}
	if !plainElements[n.DataAtom] {
		for c := n.FirstChild; c != nil; c = c.NextSibling {
			writeClean(b, c, depth+1)
		}
		return
	}
	b.WriteString("<" + n.Data)
	for _, a := range n.Attr {
		if n.DataAtom == atom.A && a.Namespace == "" && a.Key == "href" && IsLink(a.Val) {
			b.WriteString(` href="` + html.EscapeString(a.Val) + `" rel="noopener noreferrer"`)
		}
	}
	b.WriteString(">")
	if n.DataAtom == atom.Br {
		return
	}
	for c := n.FirstChild; c != nil; c = c.NextSibling {
		writeClean(b, c, depth+1)
	}
	b.WriteString("</" + n.Data + ">")
}
