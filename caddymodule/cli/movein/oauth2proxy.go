package movein

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/gatehouse-id/gatehouse/caddymodule/client"
	"github.com/gatehouse-id/gatehouse/caddymodule/internal/caddyfileutil"
)

// membersGroup stands for those who may pass where the old system named addresses.
const membersGroup = "members"

// OAuth2Proxy reads the configuration of oauth2-proxy (oauth2-proxy.cfg, version 7): its provider becomes an idp, its
// upstreams a site.
func OAuth2Proxy(r io.Reader) (*Clients, error) {
	cfg, err := readCfg(r)
	if err != nil {
		return nil, err
	}
	if len(cfg["client_id"]) == 0 && len(cfg["upstreams"]) == 0 {
		return nil, errors.New("the file is not a configuration of oauth2-proxy: it has neither client_id nor upstreams")
	}
	out := new(Clients)
	m := &proxyMove{Clients: out, cfg: cfg, read: map[string]bool{}}
	m.provider()
	m.site()
	rest := map[string]any{}
	for name, values := range cfg {
		if !m.read[name] && !slices.Equal(values, []string{"false"}) && !slices.Equal(values, []string{""}) {
			rest[name] = strings.Join(values, " ")
		}
	}
	out.lacksAbout("oauth2-proxy", unread(rest))
	return out, nil
}

type proxyMove struct {
	*Clients

	cfg  map[string][]string
	read map[string]bool
}

func (m *proxyMove) all(name string) []string {
	m.read[name] = true
	return m.cfg[name]
}

func (m *proxyMove) one(name string) string {
	if v := m.all(name); len(v) > 0 {
		return v[0]
	}
	return ""
}

// provider writes the idp.
func (m *proxyMove) provider() {
	kind, issuer, id := m.one("provider"), noBraces(m.one("oidc_issuer_url")), noBraces(m.one("client_id"))
	if kind == "" {
		kind = "google" // oauth2-proxy's default
	}
	m.one("client_secret")
	m.one("client_secret_file")
	name := strings.Trim(notOfIDs.ReplaceAllString(strings.ToLower(kind), "-"), "-")
	about := "provider " + kind
	secret := "{env." + client.SecretName(name) + "}"
	b := Block{Head: []string{"idp", name, "oidc"}}
	switch {
	case kind == "google" || kind == "github":
		b.Head[2] = kind
	case issuer != "":
		b.Lines = append(b.Lines, []string{"issuer", issuer})
	default:
		m.about(about, "does not come, since it has no oidc_issuer_url: write an idp for it (docs/openid-providers.md)")
		return
	}
	if issuer != "" && b.Head[2] != "oidc" {
		m.about(about, "oidc_issuer_url does not come: the issuer of "+kind+" is known")
	}
	if id == "" || !providerID(name) {
		m.about(about, "does not come: it has no client_id")
		return
	}
	b.Lines = append(b.Lines, []string{"client_id", id}, []string{"client_secret", secret})
	if shown := noBraces(m.one("provider_display_name")); shown != "" {
		b.Lines = append(b.Lines, []string{"name", shown})
	}
	if scopes := slices.DeleteFunc(strings.Fields(noBraces(m.one("scope"))), func(s string) bool { return s == "openid" }); len(scopes) > 0 {
		b.Lines = append(b.Lines, append([]string{"scopes"}, scopes...))
	} else if b.Head[2] == "oidc" {
		b.Lines = append(b.Lines, []string{"scopes", "profile", "email"})
	}
	if domains := m.domains(); len(domains) > 0 && kind == "google" {
		b.Lines = append(b.Lines, append([]string{"hosted_domain"}, domains...))
	}
	if b.Head[2] == "oidc" {
		email := cmp.Or(noBraces(m.one("oidc_email_claim")), "email")
		b.Lines = append(b.Lines, []string{"map", email, "email"}, []string{"map", "name", "name"})
	}
	if !m.addProvider(about, b) {
		return
	}
	m.about(about, "its secret is read from the environment variable "+client.SecretName(name)+", and its redirect URI is /oidc/"+name+
		"/callback at the issuer: register that there")
}

var notOfIDs = regexp.MustCompile(`[^a-z0-9]+`)

// domains are those of email_domains that limit who can sign in. None: anyone can.
func (m *proxyMove) domains() (out []string) {
	for _, d := range m.all("email_domains") {
		if d == "*" {
			return nil
		}
		if d = strings.TrimPrefix(noBraces(d), "."); d != "" {
			out = append(out, d)
		}
	}
	return out
}

var (
	// restricting are the members by which oauth2-proxy lets in only some of those who can sign in at the provider. Any
	// other member of a provider counts as one.
	restricting = regexp.MustCompile(`^(allowed_roles?$|(adfs|azure|bitbucket|entra_id|github|gitlab|google|keycloak|login_gov)_)`)
	harmless    = []string{
		"azure_graph_group_field", "entra_id_federated_token_auth", "github_token", "google_admin_api_user_scope", "google_admin_email",
		"google_service_account_json", "google_target_principal", "google_use_application_default_credentials",
	}
)

// restrictions returns the members that limit who may pass, sorted. They stay unread, so they are named as well.
func (m *proxyMove) restrictions() (out []string) {
	for _, name := range slices.Sorted(maps.Keys(m.cfg)) {
		values := m.cfg[name]
		if restricting.MatchString(name) && !slices.Contains(harmless, name) && len(values) > 0 && !slices.Equal(values, []string{"false"}) &&
			!slices.Equal(values, []string{""}) {
			out = append(out, name)
		}
	}
	return out
}

// plainRoute is a route without a login that is no real expression: ^/healthz$, or ^/assets/ for all below.
var plainRoute = regexp.MustCompile(`^\^(/[A-Za-z0-9/_-]*)(\$|/?\.\*\$?)?$`)

// site writes the site in front of the upstreams.
func (m *proxyMove) site() {
	host := "app.example.com"
	if u, err := url.Parse(m.one("redirect_url")); err == nil && u.Host != "" && !strings.ContainsAny(u.Host, "{}") {
		host = u.Host
	} else {
		m.about("upstreams", "redirect_url names no host: put the site's in place of "+host)
	}
	protect := [][]string{{"login"}}
	groups := m.all("allowed_groups")
	for i := range groups {
		groups[i] = noBraces(groups[i])
	}
	domains, file := m.domains(), m.one("authenticated_emails_file")
	if len(groups) > 0 {
		m.one("oidc_groups_claim")
		m.about("allowed_groups", "the groups are those of Gatehouse, which no provider fills: put people into them (caddy gatehouse group)")
	}
	if len(groups) > 0 && (len(domains) > 0 || file != "") {
		m.about("email_domains", "addresses do not decide who may pass here, but the groups of allowed_groups alone")
	}
	restrictions := m.restrictions()
	switch {
	case len(restrictions) == 0:
	case len(groups) > 0:
		m.about("provider", strings.Join(restrictions, ", ")+": not these decide who may pass here, but the groups of allowed_groups alone")
	default:
		groups = []string{membersGroup}
		m.about("provider", strings.Join(restrictions, ", ")+": these do not decide who may pass here: the site asks for the group "+
			membersGroup+"; put people into it (caddy gatehouse group), or name another one")
	}
	if len(groups) == 0 && (len(domains) > 0 && m.one("provider") != "google" && m.one("provider") != "" || file != "") {
		groups = []string{membersGroup}
		m.about("email_domains", "addresses do not decide who may pass here: the site asks for the group "+membersGroup+
			"; put people into it (caddy gatehouse group), or name another one")
	}
	if len(groups) == 0 && len(domains) == 0 && !slices.Contains(m.all("email_domains"), "*") {
		groups = []string{membersGroup}
		m.about("email_domains", "names no domain, and oauth2-proxy lets no one in without it: the site asks for the group "+membersGroup+
			"; put people into it (caddy gatehouse group), or name another one")
	}
	if len(groups) > 0 {
		protect = append(protect, append([]string{"groups"}, groups...))
	}
	var public []string
	for _, name := range []string{"skip_auth_routes", "skip_auth_regex"} {
		for _, route := range m.all(name) {
			_, path, hasMethod := strings.Cut(route, "=")
			if !hasMethod {
				path = route
			}
			found := plainRoute.FindStringSubmatch(path)
			switch {
			case hasMethod:
				m.about(name, strconv.Quote(route)+" does not come: public holds for every method; name the path there if that may be")
			case found == nil:
				m.about(name, strconv.Quote(route)+" does not come: name the paths by public")
			case found[2] == "$":
				public = append(public, found[1])
			default:
				public = append(public, strings.TrimSuffix(found[1], "/")+"/*")
			}
		}
	}
	if len(public) > 0 {
		protect = append(protect, append([]string{"public"}, public...))
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s {\n\tprotect {\n", caddyfileutil.Quote(host))
	for _, line := range protect {
		b.WriteString("\t\t" + quoted(line) + "\n")
	}
	b.WriteString("\t}\n")
	for _, up := range m.all("upstreams") {
		u, err := url.Parse(up)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || strings.ContainsAny(up, "{}") {
			m.about("upstreams", strconv.Quote(up)+" does not come: write a handler for it, such as file_server or respond")
			continue
		}
		words := []string{"reverse_proxy"}
		if path := strings.TrimSuffix(u.Path, "/"); path != "" {
			words = append(words, path+"/*")
		}
		b.WriteString("\t" + quoted(append(words, u.Scheme+"://"+u.Host)) + "\n")
	}
	b.WriteString("}\n")
	m.Sites = b.String()
}

func quoted(words []string) string {
	out := make([]string, len(words))
	for i, w := range words {
		out[i] = caddyfileutil.Quote(w)
	}
	return strings.Join(out, " ")
}

var cfgLine = regexp.MustCompile(`^([A-Za-z0-9_]+)\s*=\s*(.*)$`)

// readCfg reads the part of TOML that oauth2-proxy's files have: names with a text, a number, a boolean or a list of
// texts.
func readCfg(r io.Reader) (map[string][]string, error) {
	out, lines := map[string][]string{}, bufio.NewScanner(io.LimitReader(r, 1<<20))
	number := 0
	for lines.Scan() {
		number++
		line := strings.TrimSpace(lines.Text())
		if line == "" || line[0] == '#' {
			continue
		}
		found := cfgLine.FindStringSubmatch(line)
		if found == nil {
			return nil, fmt.Errorf("line %d is not one of oauth2-proxy.cfg: want name = value", number)
		}
		value := found[2]
		for strings.HasPrefix(value, "[") && !strings.Contains(bare(value), "]") && lines.Scan() {
			number++
			value += " " + strings.TrimSpace(lines.Text())
		}
		list, err := cfgValues(value)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", number, err)
		}
		out[found[1]] = list
	}
	return out, lines.Err()
}

var cfgText = regexp.MustCompile(`"(?:[^"\\]|\\.)*"|'[^']*'`)

// bare is a value without its texts.
func bare(value string) string { return cfgText.ReplaceAllString(value, "") }

func cfgValues(value string) (out []string, err error) {
	texts := cfgText.FindAllString(value, -1)
	if len(texts) == 0 {
		word, _, _ := strings.Cut(value, "#")
		if word = strings.TrimSpace(word); strings.HasPrefix(word, "[") {
			return nil, nil
		}
		return []string{word}, nil
	}
	for _, t := range texts {
		if t[0] == '\'' {
			out = append(out, t[1:len(t)-1])
			continue
		}
		text, err := strconv.Unquote(t)
		if err != nil {
			return nil, errors.New("a text cannot be read")
		}
		out = append(out, text)
	}
	if !strings.HasPrefix(value, "[") {
		out = out[:1] // what follows is a comment
	}
	return out, nil
}
