// Package movein converts the clients of other systems to Caddyfile blocks, and reports what cannot be converted.
// People are imported by identity/importer.
package movein

import (
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/gatehouse-id/gatehouse/caddymodule/client"
	"github.com/gatehouse-id/gatehouse/caddymodule/internal/caddyfileutil"
)

// Note says what of a client, or of another part of an export, does not come, or means something else here. It repeats
// no secret.
type Note struct {
	Client string `json:"client,omitempty"` // its id
	About  string `json:"about,omitempty"`  // the other part
	Text   string `json:"text"`
}

func (n Note) String() string {
	if n.Client != "" {
		return "client " + strconv.Quote(n.Client) + ": " + n.Text
	}
	return n.About + ": " + n.Text
}

// Clients are those of one export.
type Clients struct {
	List   []client.Client
	Blocks []Block // other than clients
	Sites  string  // blocks outside of the global options
	Notes  []Note
}

// Block is a block of the Caddyfile.
type Block struct {
	Head  []string
	Lines [][]string
}

func (b *Block) write(to *strings.Builder) {
	line := func(indent string, words []string) {
		to.WriteString(indent)
		for i, w := range words {
			if i > 0 {
				to.WriteByte(' ')
			}
			to.WriteString(caddyfileutil.Quote(w))
		}
	}
	line("", b.Head)
	to.WriteString(" {\n")
	for _, words := range b.Lines {
		line("\t", words)
		to.WriteByte('\n')
	}
	to.WriteString("}\n")
}

// providerID reports whether a name can be the id of a provider.
func providerID(s string) bool { return caddyfileutil.CheckProviderID(s) == nil }

// addProvider keeps the block of an identity provider, if it is one that a Caddyfile can have.
func (c *Clients) addProvider(about string, b Block) bool {
	if err := providerProblem(b); err != nil {
		text, _, _ := strings.Cut(err.Error(), ", at "+exported)
		c.about(about, "does not come, since a Caddyfile could not have it: "+strings.ReplaceAll(text, "\n", "; "))
		return false
	}
	c.Blocks = append(c.Blocks, b)
	return true
}

const (
	exported  = "export"        // the file that errors name
	providers = "gatehouse.idp" // the namespace of identity providers
)

// providerProblem says why a Caddyfile could not have an identity provider, whatever its secret is.
func providerProblem(b Block) error {
	var text strings.Builder
	(&Block{Head: b.Head[2:], Lines: b.Lines}).write(&text)
	tokens, err := caddyfile.Tokenize([]byte(text.String()), exported)
	if err != nil {
		return err
	}
	d := caddyfile.NewDispenser(tokens)
	d.Next()
	_, err = caddyfile.UnmarshalModule(d, providers+"."+b.Head[2])
	return err
}

func (c *Clients) note(id, text string) { c.Notes = append(c.Notes, Note{Client: id, Text: text}) }

func (c *Clients) about(part, text string) { c.Notes = append(c.Notes, Note{About: part, Text: text}) }

// Caddyfile returns the blocks, for the block gatehouse.
func (c *Clients) Caddyfile() string {
	var b strings.Builder
	for i := range c.List {
		b.WriteString(c.List[i].Caddyfile())
	}
	for i := range c.Blocks {
		c.Blocks[i].write(&b)
	}
	return b.String()
}

// add keeps a client, if it is one that can be.
func (c *Clients) add(one *client.Client) {
	one.ID, one.Name = noBraces(one.ID), noBraces(one.Name)
	one.RedirectURIs, one.PostLogoutRedirectURIs = c.taken(one, one.RedirectURIs), c.taken(one, one.PostLogoutRedirectURIs)
	if len(one.RedirectURIs) == 0 && needsRedirect(one.Grants) {
		c.note(one.ID, "does not come: none of its redirect URIs can be used")
		return
	}
	if !one.Public && one.AuthMethod != "private_key_jwt" {
		one.Secrets = []caddyfileutil.Sensitive{caddyfileutil.Sensitive("{env." + client.SecretName(one.ID) + "}")}
		c.note(one.ID, "its secret is read from the environment variable "+client.SecretName(one.ID)+
			": put the old one there, or a new one of `caddy gatehouse secret`")
	}
	if err := problem(*one); err != nil {
		c.note(one.ID, "does not come, since a Caddyfile could not have it: "+strings.ReplaceAll(err.Error(), "\n", "; "))
		return
	}
	c.List = append(c.List, *one)
}

// problem says why a Caddyfile could not have a client, whatever its secret is.
func problem(one client.Client) error {
	if len(one.Secrets) > 0 {
		one.Secrets = []caddyfileutil.Sensitive{caddyfileutil.Sensitive(strings.Repeat("x", 32))}
	}
	r := caddyfileutil.NewVerbatimResolver()
	one.Build(r)
	return r.Err()
}

// closeTo lets only membersGroup use a client, since the old system let in fewer people than all. why names what does
// not come.
func (c *Clients) closeTo(one *client.Client, why string) {
	one.Groups = []string{membersGroup}
	c.note(one.ID, why+": until you have said it by groups or a policy (docs/guide.md), only the group "+membersGroup+" can sign in")
}

// taken returns the URIs that a Caddyfile takes, and says which not.
func (c *Clients) taken(of *client.Client, list []string) (out []string) {
	for _, uri := range list {
		one := client.Client{ID: "x", Public: true, Native: of.Native, Grants: []string{"authorization_code"}, RedirectURIs: []string{uri}}
		if err := problem(one); err != nil {
			text := strings.ReplaceAll(err.Error(), "\n", "; ")
			if _, reason, ok := strings.Cut(text, strconv.Quote(uri)+": "); ok {
				text = "it " + reason // without the option of the client that stands for all
			}
			c.note(of.ID, "the URI "+strconv.Quote(uri)+" does not come: "+text)
		} else if !slices.Contains(out, uri) {
			out = append(out, uri)
		}
	}
	return out
}

func needsRedirect(grants []string) bool {
	for _, g := range grants {
		if g == "authorization_code" || g == "implicit" || g == "id_token" {
			return true
		}
	}
	return false
}

// redirects returns the redirect URIs that can be used here, and says which cannot.
func (c *Clients) redirects(id, root string, list []string) (out []string) {
	for _, uri := range list {
		if strings.HasPrefix(uri, "/") && root != "" {
			uri = strings.TrimSuffix(root, "/") + uri
		}
		u, err := url.Parse(uri)
		switch {
		case strings.Contains(uri, "*"):
			c.note(id, "the redirect URI "+strconv.Quote(uri)+" does not come, since wildcards let others take codes: name each address in full")
		case err != nil || u.Scheme == "" || u.Fragment != "" || strings.ContainsAny(uri, "{}$"):
			c.note(id, "the redirect URI "+strconv.Quote(uri)+" does not come: it is no address in full")
		default:
			out = append(out, uri)
		}
	}
	return out
}

// noBraces takes placeholders out of a text that others have written.
func noBraces(s string) string { return strings.NewReplacer("{", "", "}", "").Replace(s) }
