package movein

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	yaml "go.yaml.in/yaml/v3"

	"github.com/gatehouse-id/gatehouse/caddymodule/client"
	"github.com/gatehouse-id/gatehouse/caddymodule/internal/caddyfileutil"
)

// authentikEntry is an object of a blueprint. An export has its primary key as the identifier. (authentik 2025.10)
type authentikEntry struct {
	Model       string         `yaml:"model"`
	State       string         `yaml:"state"`
	Identifiers map[string]any `yaml:"identifiers"`
	Attrs       map[string]any `yaml:"attrs"`
}

func (e *authentikEntry) key() string { return fmt.Sprint(e.Identifiers["pk"]) }

func (e *authentikEntry) text(name string) string {
	s, _ := e.Attrs[name].(string)
	return s
}

// authentikFile are the entries of a blueprint, and what others refer to by its primary key.
type authentikFile struct {
	entries      []authentikEntry
	scopes       map[string]string             // names
	flows        map[string]string             // slugs
	groups       map[string]string             // names
	applications map[string]*authentikEntry    // by the key of their provider
	bindings     map[string][]authentikBinding // by the key of their target
}

// Authentik reads the OAuth2 providers with their applications and the OpenID sources of a blueprint that
// `ak export_blueprint` has printed.
func Authentik(r io.Reader) (*Clients, error) {
	var raw struct {
		Entries []authentikEntry `yaml:"entries"`
	}
	if err := yaml.NewDecoder(io.LimitReader(r, 16<<20)).Decode(&raw); err != nil {
		return nil, fmt.Errorf("the file is not a blueprint of authentik: %w", err)
	}
	if len(raw.Entries) == 0 {
		return nil, errors.New("the file is not a blueprint of authentik (ak export_blueprint): it has no entries")
	}
	f := authentikFile{
		slices.DeleteFunc(raw.Entries, func(e authentikEntry) bool { return e.State == "absent" }),
		map[string]string{},
		map[string]string{},
		map[string]string{},
		map[string]*authentikEntry{},
		map[string][]authentikBinding{},
	}
	out := new(Clients)
	for i := range f.entries {
		if f.entries[i].Model == "" {
			return nil, errors.New("an entry of the file has no model")
		}
		f.index(&f.entries[i])
	}
	others := map[string]int{}
	for i := range f.entries {
		e := &f.entries[i]
		switch e.Model {
		case "authentik_providers_oauth2.oauth2provider":
			out.authentikProvider(&f, e)
		case "authentik_sources_oauth.oauthsource":
			out.authentikSource(e)
		case "authentik_core.group":
			out.lacksAbout("group "+noBraces(e.text("name")), unread(e.Attrs, "name", "users"))
		case "authentik_core.application":
			if f.applications[fmt.Sprint(e.Attrs["provider"])] != e || !f.isOAuth(e) {
				out.about("application "+noBraces(e.text("slug")), "does not come: it has no OAuth2 provider")
			}
		case "authentik_core.user", "authentik_policies.policybinding":
			// users are read with the persons, bindings are named at their applications
		case "authentik_providers_oauth2.scopemapping":
			if !authentikDefault(e.text("name")) {
				out.about("scope "+noBraces(e.text("scope_name")), "its expression does not come: say what it means by a block scope")
			}
		default:
			others[e.Model]++
		}
	}
	for _, model := range slices.Sorted(maps.Keys(others)) {
		text := "do not come: there are " + strconv.Itoa(others[model])
		if hint := authentikHints[model]; hint != "" {
			text += ". " + hint
		}
		out.about(noBraces(model), text)
	}
	return out, nil
}

// authentikHints say what takes the place of a model.
var authentikHints = map[string]string{
	"authentik_providers_saml.samlprovider":   "Write a service_provider for each (docs/saml-service-providers.md)",
	"authentik_providers_proxy.proxyprovider": "Write a site with protect for each (docs/guide.md), or a gate (docs/gateways.md)",
	"authentik_providers_ldap.ldapprovider":   "Nothing here answers LDAP clients",
	"authentik_sources_ldap.ldapsource":       "Write an idp for each (docs/ldap.md)",
	"authentik_sources_saml.samlsource":       "Write an idp for each (docs/saml.md)",
}

func authentikDefault(mapping string) bool {
	return strings.HasPrefix(mapping, "authentik default OAuth Mapping")
}

// index keeps an entry that others refer to.
func (f *authentikFile) index(e *authentikEntry) {
	switch e.Model {
	case "authentik_providers_oauth2.scopemapping":
		f.scopes[e.key()] = e.text("scope_name")
	case "authentik_flows.flow":
		f.flows[e.key()] = e.text("slug")
	case "authentik_core.group":
		f.groups[e.key()] = e.text("name")
	case "authentik_core.application":
		if p := fmt.Sprint(e.Attrs["provider"]); f.applications[p] == nil {
			f.applications[p] = e
		}
	case "authentik_policies.policybinding":
		target := fmt.Sprint(e.Attrs["target"])
		b := authentikBinding{what: "a policy"}
		for _, name := range []string{"group", "user"} {
			if e.Attrs[name] != nil {
				b.what = "the " + name + " " + strconv.Quote(fmt.Sprint(e.Attrs[name]))
			}
		}
		if e.Attrs["group"] != nil && isNothing(e.Attrs["negate"]) && isNothing(e.Attrs["user"]) && isNothing(e.Attrs["policy"]) {
			b.group = fmt.Sprint(e.Attrs["group"])
		}
		if e.Attrs["enabled"] != false {
			f.bindings[target] = append(f.bindings[target], b)
		}
	}
}

// authentikBinding says who can use an application.
type authentikBinding struct {
	what  string // for a note
	group string // the key of the group whose members can. Empty: it is not as simple as that
}

func (f *authentikFile) isOAuth(application *authentikEntry) bool {
	return slices.ContainsFunc(f.entries, func(e authentikEntry) bool {
		return e.Model == "authentik_providers_oauth2.oauth2provider" && e.key() == fmt.Sprint(application.Attrs["provider"])
	})
}

// authentikGrants are the grants of a provider by their names here.
var authentikGrants = map[string]string{
	"authorization_code": "authorization_code", "refresh_token": "refresh_token", "client_credentials": "client_credentials",
	"urn:ietf:params:oauth:grant-type:device_code": "device_code",
}

func (c *Clients) authentikProvider(f *authentikFile, e *authentikEntry) {
	id := e.text("client_id")
	if id == "" {
		c.about("provider "+noBraces(e.text("name")), "does not come: it has no client_id")
		return
	}
	one := client.Client{
		ID: id, Name: e.text("name"), Public: e.text("client_type") == "public", Consent: "on",
		IDTokenClaims: e.Attrs["include_claims_in_id_token"] != false,
		RedirectURIs:  c.redirects(id, "", c.authentikRedirects(id, e.Attrs["redirect_uris"])),
		Grants:        c.authentikGrants(id, e.Attrs["grant_types"]), Scopes: c.authentikScopes(f, id, e.Attrs["property_mappings"]),
	}
	c.authentikApplication(f, e, &one)
	if flow := fmt.Sprint(e.Attrs["authorization_flow"]); strings.Contains(f.flows[flow], "implicit-consent") {
		one.Consent = "off"
	} else if !strings.Contains(f.flows[flow], "explicit-consent") {
		c.note(id, "its authorization_flow does not come: people are asked for their consent")
	}
	for name, to := range map[string]*caddyfileutil.Duration{
		"access_code_validity": &one.Lifetimes.Code, "access_token_validity": &one.Lifetimes.AccessToken,
		"refresh_token_validity": &one.Lifetimes.RefreshToken,
	} {
		v := e.text(name)
		switch d, ok := authentikDuration(v); {
		case v == "":
		case !ok || name == "refresh_token_validity" && !slices.Contains(one.Grants, "refresh_token"):
			c.note(id, name+" "+strconv.Quote(v)+" does not come")
		default:
			*to = caddyfileutil.Duration(d)
		}
	}
	switch uri := noBraces(e.text("logout_uri")); {
	case uri == "":
	case e.text("logout_method") == "frontchannel":
		one.FrontchannelLogoutURI = uri
	default:
		one.BackchannelLogoutURI = uri
	}
	if mode := e.text("sub_mode"); mode != "" {
		c.note(id, "sub_mode "+mode+" does not come: sub is another one here, so the application sees new users")
	}
	c.lacks(id, unread(e.Attrs, "name", "client_id", "client_type", "client_secret", "redirect_uris", "grant_types", "property_mappings",
		"authorization_flow", "access_code_validity", "access_token_validity", "refresh_token_validity", "sub_mode", "signing_key",
		"include_claims_in_id_token", "logout_uri", "logout_method"))
	c.add(&one)
}

// authentikApplication takes the name of the application of a provider, and names the rest of it.
func (c *Clients) authentikApplication(f *authentikFile, e *authentikEntry, one *client.Client) {
	app := f.applications[e.key()]
	if app == nil {
		c.note(one.ID, "no application uses it")
		return
	}
	if name := app.text("name"); name != "" {
		one.Name = name
	}
	c.lacks(one.ID, unread(app.Attrs, "name", "slug", "provider", "policy_engine_mode"))
	c.authentikBindings(f, app, one)
	c.note(one.ID, "its issuer was its own, /application/o/"+noBraces(app.text("slug"))+"/: the application must know that of Gatehouse now")
}

// authentikBindings limits a client to the groups that its application is bound to, one of which is enough there unless
// it asks for all. Any other binding closes it.
func (c *Clients) authentikBindings(f *authentikFile, app *authentikEntry, one *client.Client) {
	bindings := f.bindings[app.key()]
	var groups, others []string
	for _, b := range bindings {
		if name := noBraces(f.groups[b.group]); name != "" && (len(bindings) == 1 || app.text("policy_engine_mode") != "all") {
			if !slices.Contains(groups, name) {
				groups = append(groups, name)
			}
			continue
		}
		others = append(others, noBraces(b.what))
	}
	switch {
	case len(others) > 0:
		c.closeTo(one, "the binding to "+strings.Join(others, " and ")+" does not come")
	case len(groups) > 0:
		one.Groups = groups
	}
}

// authentikRedirects are redirect URIs in either form: lines of text up to 2024.10, and objects since.
func (c *Clients) authentikRedirects(id string, v any) (out []string) {
	switch v := v.(type) {
	case string:
		return strings.Fields(v)
	case []any:
		for _, one := range v {
			o, _ := one.(map[string]any)
			uri, _ := o["url"].(string)
			if mode := fmt.Sprint(o["matching_mode"]); mode != "strict" {
				c.note(id, "the redirect URI "+strconv.Quote(uri)+" does not come: its mode is "+mode+", and addresses are compared as they are")
				continue
			}
			if kind, _ := o["redirect_uri_type"].(string); kind != "" && kind != "authorization" {
				c.note(id, "the "+kind+" URI "+strconv.Quote(uri)+" does not come: name it by post_logout_redirect_uris")
				continue
			}
			out = append(out, uri)
		}
	}
	return out
}

func (c *Clients) authentikGrants(id string, v any) (out []string) {
	list, ok := v.([]any)
	if !ok {
		return []string{"authorization_code", "refresh_token"} // providers without a list have all
	}
	for _, g := range list {
		if name := authentikGrants[fmt.Sprint(g)]; name != "" {
			out = append(out, name)
			continue
		}
		c.note(id, "the grant "+strconv.Quote(fmt.Sprint(g))+" does not come")
	}
	return out
}

// authentikScopes are those of the mappings of a provider. Groups are a part of profile there.
func (c *Clients) authentikScopes(f *authentikFile, id string, v any) []string {
	out := []string{"openid"}
	list, _ := v.([]any)
	for _, key := range list {
		switch scope := f.scopes[fmt.Sprint(key)]; {
		case scope == "":
			c.note(id, "a mapping of claims does not come, since the file does not have it")
		case scope == "profile":
			out = append(out, "profile", "groups")
			c.note(id, "groups were in the scope profile: the application must ask for the scope groups now")
		case scope == "offline_access" || slices.Contains(out, scope): // a refresh token comes with the grant
		case scope == "email":
			out = append(out, scope)
		default:
			out = append(out, noBraces(scope))
			c.note(id, "the scope "+strconv.Quote(scope)+" comes as a name: say what it means by a block scope")
		}
	}
	return out
}

// authentikDuration converts minutes=5;seconds=30.
func authentikDuration(s string) (string, bool) {
	units := map[string]int{"weeks": 7 * 24 * 3600, "days": 24 * 3600, "hours": 3600, "minutes": 60, "seconds": 1}
	var all int
	for part := range strings.SplitSeq(s, ";") {
		name, text, _ := strings.Cut(part, "=")
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 || n > 1e6 || units[name] == 0 {
			return "", false
		}
		all += n * units[name]
	}
	return strconv.Itoa(all) + "s", all > 0
}

// authentikSource writes an idp for a source of OpenID Connect.
func (c *Clients) authentikSource(e *authentikEntry) {
	id, about := e.text("slug"), "source "+noBraces(e.text("slug"))
	issuer, discovered := strings.CutSuffix(e.text("oidc_well_known_url"), "/.well-known/openid-configuration")
	if kind := e.text("provider_type"); kind != "openidconnect" || !discovered {
		c.about(about, "does not come: it is of the type "+kind+" or has no oidc_well_known_url: write an idp for it (docs/caddyfile.md)")
		return
	}
	scopes := strings.Fields(strings.TrimPrefix(e.text("additional_scopes"), "*"))
	var more [][]string
	switch off := []string{"disabled"}; {
	case e.Attrs["enabled"] == false:
		more = append(more, off)
	case isNothing(e.Attrs["enrollment_flow"]):
		more = append(more, off)
		c.about(about, "comes switched off: it has no enrollment_flow, and here everybody who signs in there can get an account. "+
			"Remove the line disabled if they may")
	}
	c.oidcProvider(about, id, e.text("name"), issuer, noBraces(e.text("consumer_key")), scopes, more...)
	c.lacksAbout(about, unread(e.Attrs, "name", "slug", "provider_type", "consumer_key", "consumer_secret", "oidc_well_known_url",
		"additional_scopes", "oidc_jwks_url", "oidc_jwks", "authorization_url", "access_token_url", "profile_url", "enabled",
		"enrollment_flow"))
}
