package web

import (
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// plainElements are the elements allowed in text from outside. They have no attributes, except for a link's address.
var plainElements = map[atom.Atom]bool{
	atom.A: true, atom.B: true, atom.Br: true, atom.Em: true, atom.I: true, atom.Li: true, atom.Ol: true, atom.P: true,
	atom.Strong: true, atom.Ul: true,
}

// goneElements are removed with all their content; other elements that are not plain leave their text.
var goneElements = map[atom.Atom]bool{
	atom.Applet: true, atom.Audio: true, atom.Button: true, atom.Canvas: true, atom.Embed: true, atom.Form: true, atom.Frameset: true,
	atom.Iframe: true, atom.Input: true,
	atom.Math: true, atom.Noembed: true, atom.Noframes: true, atom.Noscript: true, atom.Object: true, atom.Plaintext: true,
	atom.Script: true, atom.Select: true,
	atom.Style: true, atom.Svg: true, atom.Template: true, atom.Textarea: true, atom.Title: true, atom.Video: true, atom.Xmp: true,
}

const maxNesting = 16

// CleanHTML returns the harmless parts of a piece of HTML: paragraphs, lists, emphasis, and links to http, https and
// mailto addresses. It does not cut the text but writes it again from the tree that a browser would build, so unusual
// spellings have no effect.
func CleanHTML(s string) string {
	for range 3 { // the output parses to itself after two rounds at most
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
