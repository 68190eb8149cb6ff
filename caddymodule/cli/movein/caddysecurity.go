package movein

import (
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/gatehouse-id/gatehouse/caddymodule/client"
)

// CaddySecurity reads the Caddyfile of the plugin caddy-security (version 1.1): identity providers of OAuth become
// blocks idp, sites with authorize become sites with protect. The rest is named.
func CaddySecurity(r io.Reader) (*Clients, error) {
	raw, err := io.ReadAll(io.LimitReader(r, 4<<20))
	if err != nil {
		return nil, err
	}
	raw = environment.ReplaceAll(raw, []byte("{env.$1}")) // the values of the environment are not printed
	servers, err := caddyfile.Parse("Caddyfile", raw)
	if err != nil {
		return nil, fmt.Errorf("the file is not a Caddyfile: %w", err)
	}
	m := &securityMove{Clients: new(Clients), roles: map[string][]string{}}
	found := false
	for _, s := range servers {
		if len(s.Keys) > 0 {
			continue
		}
		for _, segment := range s.Segments {
			if segment.Directive() == "security" {
				found = true
				m.security(tree(segment))
			}
		}
	}
	if !found {
		return nil, errors.New("the file has no block security in its global options")
	}
	for _, s := range servers {
		if len(s.Keys) > 0 {
			m.site(s)
		}
	}
	return m.Clients, nil
}

var environment = regexp.MustCompile(`\{\$([A-Za-z0-9_]+)(?::[^}]*)?\}`)

type securityMove struct {
	*Clients

	roles map[string][]string // that a policy lets in. nil: nothing is known of the policy
}

// node is a line of a Caddyfile with its block.
type node struct {
	words []string
	sub   []node
}

func (n *node) word(i int) string {
	if i < len(n.words) {
		return n.words[i]
	}
	return ""
}

// tree returns the lines of a segment.
func tree(s caddyfile.Segment) []node {
	d := caddyfile.NewDispenser(s)
	d.Next()
	return lines(d, d.Nesting())
}

func lines(d *caddyfile.Dispenser, nesting int) (out []node) {
	for d.NextBlock(nesting) {
		n := node{words: append([]string{d.Val()}, d.RemainingArgs()...)}
		n.sub = lines(d, d.Nesting())
		out = append(out, n)
	}
	return out
}

func (m *securityMove) security(list []node) {
	for _, n := range list {
		switch about := strings.Join(n.words, " "); {
		case strings.HasPrefix(about, "oauth identity provider ") || n.word(0) == "oauth" && len(n.words) > 3:
			m.provider(n.words[3], n.sub)
		case strings.HasPrefix(about, "saml identity provider "):
			m.about(about, "does not come: write an idp of the kind saml with its metadata (docs/saml.md)")
		case strings.HasPrefix(about, "ldap identity store "):
			m.about(about, "does not come: write an idp of the kind ldap (docs/ldap.md)")
		case strings.HasPrefix(about, "local identity store "):
			m.about(about, "its people do not come by this file: add them by `caddy gatehouse import`; bcrypt hashes of its users database are taken as password_hash")
		case strings.HasPrefix(about, "authorization policy "):
			m.policy(n.word(2), n.sub)
		case strings.HasPrefix(about, "authentication portal "):
			m.portal(about, n.sub)
		default:
			m.about(about, "does not come")
		}
	}
}

// provider writes an idp.
func (m *securityMove) provider(name string, list []node) {
	about := "oauth identity provider " + name
	has := map[string]string{}
	var rest []string
	for _, n := range list {
		switch n.word(0) {
		case "driver", "client_id", "base_auth_url", "metadata_url", "tenant_id":
			has[n.word(0)] = n.word(1)
		case "scopes":
			has["scopes"] = strings.Join(n.words[1:], " ")
		case "client_secret", "realm":
		default:
			rest = append(rest, noBraces(strings.Join(n.words, " ")))
		}
	}
	id := placeholder(has["client_id"])
	b := Block{Head: []string{"idp", name, "oidc"}}
	switch driver := has["driver"]; {
	case !providerID(name) || id == "":
		m.about(about, "does not come: its name cannot be the id of an idp, or it has no client_id")
		return
	case slices.Contains([]string{"google", "github", "discord", "facebook", "linkedin"}, driver):
		b.Head[2] = driver
	case driver == "azure" && has["tenant_id"] != "":
		b.Lines = append(b.Lines, []string{"issuer", "https://login.microsoftonline.com/" + noBraces(has["tenant_id"]) + "/v2.0"})
	case has["metadata_url"] != "" && strings.HasSuffix(has["metadata_url"], "/.well-known/openid-configuration"):
		b.Lines = append(b.Lines, []string{"issuer", noBraces(strings.TrimSuffix(has["metadata_url"], "/.well-known/openid-configuration"))})
	case has["base_auth_url"] != "" && driver != "generic":
		b.Lines = append(b.Lines, []string{"issuer", noBraces(has["base_auth_url"])})
	default:
		m.about(about, "does not come, since its issuer is not in the file: write an idp for it (docs/openid-providers.md)")
		return
	}
	b.Lines = append(b.Lines, []string{"client_id", id}, []string{"client_secret", "{env." + client.SecretName(name) + "}"})
	if scopes := slices.DeleteFunc(strings.Fields(noBraces(has["scopes"])), func(s string) bool { return s == "openid" }); len(scopes) > 0 {
		b.Lines = append(b.Lines, append([]string{"scopes"}, scopes...))
	}
	if b.Head[2] == "oidc" {
		b.Lines = append(b.Lines, []string{"map", "email", "email"}, []string{"map", "name", "name"})
	}
	if !m.addProvider(about, b) {
		return
	}
	m.about(about, "its secret is read from the environment variable "+client.SecretName(name)+
		"; register the redirect URI of this idp there (docs/openid-providers.md)")
	m.lacksAbout(about, rest)
}

var environmentPlaceholder = regexp.MustCompile(`\{env\.[A-Za-z0-9_]+\}`)

// placeholder keeps the placeholders of the environment in a text, and takes others out.
func placeholder(s string) string {
	var b strings.Builder
	from := 0
	for _, at := range environmentPlaceholder.FindAllStringIndex(s, -1) {
		b.WriteString(noBraces(s[from:at[0]]) + s[at[0]:at[1]])
		from = at[1]
	}
	return b.String() + noBraces(s[from:])
}

// portal names what of a portal does not come.
func (m *securityMove) portal(about string, list []node) {
	for _, n := range list {
		switch text := noBraces(strings.Join(n.words, " ")); n.word(0) {
		case "crypto":
			m.about(about, text+" does not come: keys are made again")
		case "cookie":
			m.about(about, text+" does not come: cookies are of one host each; say how long people stay signed in by identity { session }")
		case "enable":
			if n.word(1) != "identity" { // every idp signs people in
				m.about(about, text+" does not come")
			}
		case "transform":
			m.about(about, "transform does not come: give people groups in place of roles, by caddy gatehouse group or SCIM")
		default:
			m.about(about, text+" does not come")
		}
	}
}

// policy reads the roles that a policy lets in.
func (m *securityMove) policy(name string, list []node) {
	about, allowed, closed := "authorization policy "+name, []string{}, false
	for _, n := range list {
		switch text := strings.Join(n.words, " "); {
		case strings.HasPrefix(text, "allow roles ") && len(n.sub) == 0 && !slices.Contains(n.words, "with") && !slices.Contains(n.words, "to"):
			for _, role := range n.words[2:] {
				if role = noBraces(role); !slices.Contains(allowed, role) {
					allowed = append(allowed, role)
				}
			}
		case n.word(0) == "set", n.word(0) == "crypto", strings.HasPrefix(text, "inject headers"), strings.HasPrefix(text, "enable "),
			strings.HasPrefix(text, "disable auth"):
			m.about(about, strconv.Quote(noBraces(text))+" does not come: see the headers of protect (docs/guide.md)")
		default:
			m.about(about, strconv.Quote(noBraces(text))+" does not come: say it by a policy or a rule of the site (docs/guide.md)")
			// These let in more, and what is not known may let in less.
			closed = closed || !slices.Contains([]string{"bypass", "with", "user"}, n.word(0)) && !strings.HasPrefix(text, "validate bearer")
		}
	}
	if closed {
		m.about(about, "until then its sites let in the group "+membersGroup+" alone")
	}
	if closed || len(allowed) == 0 {
		allowed = []string{membersGroup}
	}
	m.roles[name] = allowed
	m.about(about, "its roles are groups here: "+strings.Join(allowed, ", "))
}

// site writes a site whose requests were authorized.
func (m *securityMove) site(s caddyfile.ServerBlock) {
	var names []string
	for _, k := range s.Keys {
		names = append(names, strings.ReplaceAll(k.Text, "{env.", "{$")) // addresses have no other placeholders
	}
	about := "site " + strings.Join(names, " ")
	var policies, others []string
	portal := false
	var visit func(within string, list []node) (left []node)
	visit = func(within string, list []node) (left []node) {
		for _, n := range list {
			switch n.word(0) {
			case "authorize":
				if policy := n.words[len(n.words)-1]; !slices.Contains(policies, policy) {
					policies = append(policies, policy)
				}
				if within != "" {
					m.about(about, "what is in "+within+" was guarded there alone: the whole site is guarded here")
				}
			case "authenticate":
				portal = true
			case "route", "handle", "handle_path":
				in := within
				if len(n.words) > 1 {
					in = noBraces(strings.Join(n.words, " "))
				}
				if n.sub = visit(in, n.sub); len(n.sub) > 0 {
					left = append(left, n)
				}
			default:
				left = append(left, n)
			}
		}
		return left
	}
	for _, segment := range s.Segments {
		d := caddyfile.NewDispenser(segment)
		d.Next()
		n := node{words: append([]string{d.Val()}, d.RemainingArgs()...)}
		n.sub = lines(d, d.Nesting())
		for _, n := range visit("", []node{n}) {
			others = append(others, written(n, "\t"))
		}
	}
	if portal {
		m.about(about, "is the portal: write the directive gatehouse there, and the address as the issuer")
	}
	if len(policies) == 0 {
		return
	}
	groups := m.roles[policies[0]]
	switch {
	case len(policies) > 1: // one of them for all would let in more people than the others do
		groups = []string{membersGroup}
		m.about(about, "has several policies, "+strings.Join(policies, ", ")+": only the group "+membersGroup+
			" may pass, until a policy says it by path (docs/guide.md)")
	case groups == nil:
		groups = []string{membersGroup}
		m.about(about, "its policy "+policies[0]+" is not in the file: only the group "+membersGroup+" may pass")
	}
	m.Sites += strings.Join(names, ", ") + " {\n\tprotect {\n\t\tlogin\n\t\t" + quoted(append([]string{"groups"}, groups...)) + "\n\t}\n" +
		strings.Join(others, "") + "}\n"
}

// written returns a line with its block.
func written(n node, indent string) string {
	out := indent + quoted(n.words)
	if len(n.sub) == 0 {
		return out + "\n"
	}
	out += " {\n"
	for _, one := range n.sub {
		out += written(one, indent+"\t")
	}
	return out + indent + "}\n"
}
