// Package integrations has the settings of applications from the guides in this directory, for the client of another
// installation.
package integrations

import (
	"embed"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
)

//go:embed *.md
var files embed.FS

const (
	issuer = "https://auth.example.com" // in the guides
	hidden = "…"                        // stands for the secret there
)

// Guide is an application and what is set there.
type Guide struct {
	ID, Name string // of the page, and of the application

	client    string   // id of the client of the page
	redirects []string // its redirect URIs
	steps     []Step
}

// Step is a part of the settings: a sentence in English, lines for a file, or fields of a form.
type Step struct {
	Text string // with code between backquotes
	Code string
	Rows [][2]string // names of fields and values, with code between backquotes
}

// Client is the client that the settings are for.
type Client struct {
	Issuer, ID, Secret string // Secret can be empty: it is not known
	RedirectURIs       []string
}

// All returns the guides in the order of their names. Guides to applications that are no client are left out.
var All = sync.OnceValue(func() (out []Guide) {
	list, err := files.ReadDir(".")
	if err != nil {
		panic(err)
	}
	for _, f := range list {
		raw, err := files.ReadFile(f.Name())
		if err != nil {
			panic(err)
		}
		if g := parse(string(raw)); g.client != "" {
			g.ID = strings.TrimSuffix(f.Name(), ".md")
			out = append(out, g)
		}
	}
	slices.SortFunc(out, func(a, b Guide) int { return strings.Compare(strings.ToLower(a.Name), strings.ToLower(b.Name)) })
	return out
})

// Find returns the guide of an id, or nil.
func Find(id string) *Guide {
	i := slices.IndexFunc(All(), func(g Guide) bool { return g.ID == id })
	if i < 0 {
		return nil
	}
	return &All()[i]
}

// usual is a path of redirect URIs that says nothing about the application.
const usual = "/callback"

// Fitting returns the first guide to an application that has the path of a redirect URI, or nil.
func Fitting(redirects []string) *Guide {
	for i := range All() {
		for _, of := range All()[i].redirects {
			path := pathOf(of)
			if len(path) > 1 && path != usual && slices.ContainsFunc(redirects, func(at string) bool { return pathOf(at) == path }) {
				return &All()[i]
			}
		}
	}
	return nil
}

func pathOf(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return u.Path
}

var (
	clientID  = regexp.MustCompile(`(?m)^client (\S+) \{$`)
	redirects = regexp.MustCompile(`(?m)^\tredirect_uris (.*)$`)
	link      = regexp.MustCompile(`\[([^\]]+)\]\([^)]+\)`)
	// command is a sentence about the command that makes the client, which is there already.
	command = regexp.MustCompile("(?s)`caddy gatehouse client add[^`]*`[^.]*\\.( |\n|$)")
)

// parse reads a guide.
func parse(text string) (g Guide) {
	if m := clientID.FindStringSubmatch(text); m != nil {
		g.client = m[1]
	}
	if m := redirects.FindStringSubmatch(text); m != nil {
		g.redirects = strings.Fields(strings.ReplaceAll(m[1], `"`, ""))
	}
	_, text, _ = strings.Cut(text, "\n## Settings of ")
	g.Name, text, _ = strings.Cut(text, "\n")
	text, _, _ = strings.Cut(text, "\n## ")
	for i, part := range strings.Split("\n"+text, "\n```") {
		if i%2 == 1 { // from its fence, with the language, to the next one
			_, code, _ := strings.Cut(part, "\n")
			g.steps = append(g.steps, Step{Code: code})
			continue
		}
		for paragraph := range strings.SplitSeq(part, "\n\n") {
			if s := prose(strings.TrimSpace(paragraph)); s.Text != "" || len(s.Rows) > 0 {
				g.steps = append(g.steps, s)
			}
		}
	}
	return g
}

// prose reads a paragraph or a table.
func prose(text string) (s Step) {
	plain := strings.NewReplacer("*", "", "\n", " ")
	if !strings.HasPrefix(text, "|") {
		s.Text = strings.TrimSpace(plain.Replace(link.ReplaceAllString(command.ReplaceAllString(text, ""), "$1")))
		return s
	}
	for line := range strings.SplitSeq(text, "\n") {
		cells := strings.Split(strings.Trim(line, "| "), " | ")
		if len(cells) == 2 && cells[0] != "setting" {
			s.Rows = append(s.Rows, [2]string{cells[0], cells[1]})
		}
	}
	return s
}

// For returns the settings for a client.
func (g *Guide) For(c Client) []Step {
	// after a word such as client_id, and what is between a name and a value
	id := regexp.MustCompile(`(?i)((?:client[-_]?id|identifier|secret|--key)\W{1,8}?)` + regexp.QuoteMeta(g.client) + `([^-.\w]|$)`)
	pairs := []string{issuer, c.Issuer}
	for i, of := range g.redirects {
		if i < len(c.RedirectURIs) {
			pairs = append(pairs, of, c.RedirectURIs[i])
		}
	}
	if len(g.redirects) > 0 && len(c.RedirectURIs) > 0 {
		if from, to := originOf(g.redirects[0]), originOf(c.RedirectURIs[0]); from != "" && to != "" {
			pairs = append(pairs, from, to)
		}
	}
	if c.Secret != "" {
		pairs = append(pairs, hidden, c.Secret)
	}
	others := strings.NewReplacer(pairs...)
	fill := func(s string) string {
		return others.Replace(id.ReplaceAllString(s, "${1}"+strings.ReplaceAll(c.ID, "$", "$$")+"${2}"))
	}
	out := make([]Step, len(g.steps))
	for i, s := range g.steps {
		out[i] = Step{Text: fill(s.Text), Code: fill(s.Code)}
		for _, r := range s.Rows {
			name, value, _ := strings.Cut(fill(r[0]+" | "+r[1]), " | ")
			out[i].Rows = append(out[i].Rows, [2]string{name, value})
		}
	}
	return out
}

// originOf returns the scheme and host of an address, or "".
func originOf(address string) string {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" {
		return ""
	}
	return u.Scheme + "://" + u.Host
}
