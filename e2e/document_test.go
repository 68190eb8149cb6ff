package e2e

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// block is a fenced block of a document.
type block struct {
	lang, text string
	line       int    // of its first line of text
	file       string // what the paragraph above says that it is saved as; "" for most
}

var (
	fenced = regexp.MustCompile("(?ms)^```(\\w+)\n(.*?)^```$")
	// savedAs ends the paragraph above a block, such as: Save this as `app.mjs`:
	savedAs = regexp.MustCompile("(?s)[Ss]ave [^`]*`([^`]+)`[^`]*:\\s*$")
)

// blocksOf returns the fenced blocks of a document.
func blocksOf(document string) []block {
	var out []block
	for _, m := range fenced.FindAllStringSubmatchIndex(document, -1) {
		above := strings.TrimRight(document[:m[0]], "\n")
		above = above[strings.LastIndex(above, "\n\n")+1:]
		b := block{lang: document[m[2]:m[3]], text: document[m[4]:m[5]], line: 1 + strings.Count(document[:m[4]], "\n")}
		if as := savedAs.FindStringSubmatch(above); as != nil {
			b.file = as[1]
		}
		out = append(out, b)
	}
	return out
}

// guide is a document whose Caddyfile runs: its sites are on ports of this machine.
type guide struct {
	*server
	blocks []block
	local  *strings.Replacer // from the document's addresses to those of this machine
	vars   []string          // the variables that the Caddyfile names, with their values
}

var (
	siteLine = regexp.MustCompile(`(?m)^([a-z.]+\.example\.com) \{$`)
	variable = regexp.MustCompile(`\{env\.(\w+)\}`)
)

// follow reads a document and serves the Caddyfile in it: sites on free ports, each variable with a random value unless
// given has one, and upstreams, by the address in the document, at other ones.
func follow(t *testing.T, document string, given, upstreams map[string]string) *guide {
	t.Helper()
	g := &guide{server: &server{t: t, dir: t.TempDir(), secrets: map[string]string{}}, blocks: blocksOf(read(t, document))}
	caddyfile := g.first("caddyfile")
	var pairs []string
	hosts := siteLine.FindAllStringSubmatch(caddyfile, -1)
	if len(hosts) == 0 {
		t.Fatalf("%s shows no Caddyfile with a site below example.com", document)
	}
	ports := freePorts(t, len(hosts)+1)
	for i, m := range hosts {
		to := fmt.Sprintf("http://localhost:%d", ports[i])
		pairs = append(pairs, "https://"+m[1], to, m[1], to)
	}
	for from, to := range upstreams {
		pairs = append(pairs, from, to)
	}
	g.local = strings.NewReplacer(pairs...)
	g.Admin = fmt.Sprintf("localhost:%d", ports[len(hosts)])
	for _, m := range variable.FindAllStringSubmatch(caddyfile, -1) {
		value := given[m[1]]
		if value == "" {
			value = random(32)
		}
		g.secret("variable "+m[1], value)
		g.vars = append(g.vars, m[1]+"="+value)
	}
	g.more = g.vars
	caddyfile = g.local.Replace(caddyfile)
	options := fmt.Sprintf("{\n\tadmin %s\n\tauto_https off\n\tpersist_config off\n\tgrace_period 100ms\n\tdefault_bind 127.0.0.1\n", g.Admin)
	g.write(strings.Replace(caddyfile, "{\n", options, 1))
	g.Issuer = regexp.MustCompile(`issuer (\S+)`).FindStringSubmatch(caddyfile)[1]
	g.run(filepath.Join(g.dir, "Caddyfile"), g.dir, g.vars...)
	g.await(g.Issuer + "/healthz")
	return g
}

// first returns the text of the first block in a language.
func (g *guide) first(lang string) string {
	g.t.Helper()
	for _, b := range g.blocks {
		if b.lang == lang {
			return b.text
		}
	}
	g.t.Fatalf("the document has no block in %s", lang)
	return ""
}

// value returns the value of a variable of the Caddyfile.
func (g *guide) value(name string) string {
	g.t.Helper()
	for _, v := range g.vars {
		if value, is := strings.CutPrefix(v, name+"="); is {
			return value
		}
	}
	g.t.Fatalf("the Caddyfile does not name {env.%s}", name)
	return ""
}
