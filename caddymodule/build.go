package caddymodule

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"

	"github.com/go-jose/go-jose/v4"

	"github.com/gatehouse-id/gatehouse/authz"
	"github.com/gatehouse-id/gatehouse/authz/client"
	"github.com/gatehouse-id/gatehouse/identity"
	"github.com/gatehouse-id/gatehouse/internal/page"
	"github.com/gatehouse-id/gatehouse/internal/secret"
)

// The build methods turn the configuration's texts into what the packages work with. While a Caddyfile is adapted the
// resolver knows no placeholders; then stand-ins keep a value that is not known yet from being missed.

const (
	standInSecret = "a-secret-that-is-known-when-the-configuration-is-loaded"
	standInURI    = "https://placeholder.invalid/"
)

func (a *App) buildAuthz(r *resolver) authz.Config {
	cfg := authz.Config{Issuer: a.issuer.String()}
	for _, s := range a.Scopes {
		name := r.plain("scope", s.Name, checkScope)
		of := "scope " + s.Name + ": "
		cfg.Scopes = append(cfg.Scopes, client.Scope{
			Name: name, Description: r.plain(of+"description", s.Description, nil),
			Level: r.count(of+"level", s.Level, checkLevel), UsageLimit: r.count(of+"usage_limit", s.UsageLimit, checkUsageLimit),
		})
	}
	seen := map[string]bool{}
	for i := range a.Clients {
		c := a.Clients[i].build(r)
		if c.ID != "" && seen[c.ID] {
			r.fail("client %s is defined twice: keep one of them", c.ID)
		}
		seen[c.ID] = true
		cfg.Clients = append(cfg.Clients, c)
	}
	clear(seen)
	for i := range a.APIClients {
		c := a.APIClients[i].build(r)
		if c.ID != "" && seen[c.ID] {
			r.fail("api_client %s is defined twice: keep one of them", c.ID)
		}
		seen[c.ID] = true
		cfg.APIClients = append(cfg.APIClients, c)
	}
	return cfg
}

// build returns the client, judged as a whole unless parts of it are wrong or not known yet.
func (c *Client) build(r *resolver) *client.Client {
	before := len(r.problems)
	out := c.resolve(r)
	if r.adapting() { // what is only known later must not look missing or wrong now
		if hasPlaceholder(c.ID) {
			out.ID = "placeholder"
		}
		if hasPlaceholder(strings.Join(c.Grants, "")) || hasPlaceholder(strings.Join(c.Scopes, "")+strings.Join(c.DefaultScopes, "")) {
			return out
		}
	}
	if len(r.problems) == before {
		r.failed(out.Validate())
	}
	return out
}

// resolve returns the client with each of its values checked for itself.
func (c *Client) resolve(r *resolver) *client.Client {
	of := "client " + c.ID + ": "
	c.logo = readPicture(r, of+"logo", c.Logo)
	jwks, jwksURI := c.keys(r, of+"jwks")
	return &client.Client{
		ID: r.plain("client", c.ID, nil), Name: r.plain(of+"name", c.Name, nil), Public: c.Public,
		Secrets: secrets(r, of+"secret", c.Secrets), SecretHashes: hashes(r, of+"secret_hash", c.SecretHashes),
		AuthMethod: r.plain(of+"auth_method", c.AuthMethod, checkAuthMethod),
		JWKS:       jwks, JWKSURI: jwksURI,
		RedirectURIs:           uris(r, of+"redirect_uris", c.RedirectURIs),
		PostLogoutRedirectURIs: uris(r, of+"post_logout_redirect_uris", c.PostLogoutRedirectURIs),
		BackchannelLogoutURI:   r.plain(of+"backchannel_logout_uri", c.BackchannelLogoutURI, checkURI),
		FrontchannelLogoutURI:  r.plain(of+"frontchannel_logout_uri", c.FrontchannelLogoutURI, checkURI),
		Grants:                 r.list(of+"grants", c.Grants, checkGrant),
		Scopes:                 r.list(of+"scopes", c.Scopes, checkScope),
		DefaultScopes:          r.list(of+"default_scopes", c.DefaultScopes, checkScope),
		IDPs:                   r.list(of+"idps", c.IDPs, checkIDP),
		Consent:                r.plain(of+"consent", c.Consent, checkConsent), PKCERequired: c.PKCERequired,
		SubjectType: r.plain(of+"subject_type", c.SubjectType, checkSubjectType),
		TokenFormat: r.plain(of+"token_format", c.TokenFormat, checkTokenFormat), App: c.App.build(r, of),
		IDTokenAlg:  r.plain(of+"id_token_alg", c.IDTokenAlg, checkAlg),
		Audiences:   r.list(of+"audiences", c.Audiences, checkURI),
		Origins:     r.list(of+"origins", c.Origins, checkOrigin),
		MaxSessions: r.count(of+"max_sessions", c.MaxSessions, checkMaxSessions), Disabled: c.Disabled,
		Lifetimes: client.Lifetimes{
			Code:         r.duration(of+"lifetimes code", c.Lifetimes.Code),
			AccessToken:  r.duration(of+"lifetimes access_token", c.Lifetimes.AccessToken),
			RefreshToken: r.duration(of+"lifetimes refresh_token", c.Lifetimes.RefreshToken),
			RefreshChain: r.duration(of+"lifetimes refresh_chain", c.Lifetimes.RefreshChain),
			RefreshGrace: r.duration(of+"lifetimes refresh_grace", c.Lifetimes.RefreshGrace),
			Session:      r.duration(of+"lifetimes session", c.Lifetimes.Session),
		},
	}
}

// build returns the app of a client, or nil.
func (a *ClientApp) build(r *resolver, of string) *client.App {
	if a == nil {
		return nil
	}
	member := func(name, v string) string {
		if r.adapting() && hasPlaceholder(v) {
			return "placeholder"
		}
		return r.plain(of+"app "+name, v, nil)
	}
	return &client.App{Identifier: member("identifier", a.Identifier), Platform: member("platform", a.Platform), Version: member("version", a.Version)}
}

// maxJWKS is the size in bytes of a file with keys.
const maxJWKS = 256 << 10

// keys returns the client's public keys, or where they are.
func (c *Client) keys(r *resolver, option string) (*jose.JSONWebKeySet, string) {
	at, ok := r.text(option, c.JWKS, nil)
	switch {
	case !ok && c.JWKS != "" && r.adapting():
		return nil, standInURI
	case !ok:
		return nil, ""
	case strings.Contains(at, "://"):
		return nil, r.plain(option, at, checkURI)
	case r.verbatim: // the request of somebody, who must not read our files
		r.fail("%s: want the URL of a JSON Web Key Set", option)
		return nil, ""
	case r.adapting(): // the file may lie on another machine
		return nil, standInURI
	}
	info, err := os.Stat(at)
	if err == nil && info.Size() > maxJWKS {
		err = errors.New("is too large")
	}
	var raw []byte
	if err == nil {
		raw, err = os.ReadFile(at) //nolint:gosec // the operator's own path
	}
	var keys *jose.JSONWebKeySet
	if err == nil {
		keys, err = client.ParseJWKS(raw)
	}
	if err != nil {
		r.fail("%s: %s: %v", option, at, err)
	}
	return keys, ""
}

func (c *APIClient) build(r *resolver) *client.APIClient {
	of := "api_client " + c.ID + ": "
	before := len(r.problems)
	out := &client.APIClient{
		ID: r.plain("api_client", c.ID, nil), Secrets: secrets(r, of+"secret", c.Secrets), SecretHashes: hashes(r, of+"secret_hash", c.SecretHashes),
		APIs: r.list(of+"apis", c.APIs, checkAPI), Audiences: r.list(of+"audiences", c.Audiences, checkURI), Disabled: c.Disabled,
	}
	if r.adapting() {
		if hasPlaceholder(c.ID) {
			out.ID = "placeholder"
		}
		if hasPlaceholder(strings.Join(c.APIs, "")) {
			return out
		}
	}
	if len(r.problems) == before {
		r.failed(out.Validate())
	}
	return out
}

func secrets(r *resolver, option string, vs []Sensitive) []secret.String {
	var out []secret.String
	for _, v := range vs {
		switch s, ok := r.text(option, string(v), checkSecret); {
		case ok:
			out = append(out, secret.New(s))
		case v == "":
			r.fail("%s: the value is empty", option)
		case r.adapting():
			out = append(out, secret.New(standInSecret))
		}
	}
	return out
}

func hashes(r *resolver, option string, vs []Sensitive) []string {
	var out []string
	for _, v := range vs {
		switch s, ok := r.text(option, string(v), checkPHC); {
		case ok:
			out = append(out, s)
		case v == "":
			r.fail("%s: the value is empty", option)
		case r.adapting(): // bcrypt of nothing in particular
			out = append(out, "$2a$10$N9qo8uLOickgx2ZMRZoMyeIjZAgcfl7p92ldGxad68LJZdL17lhWy")
		}
	}
	return out
}

func uris(r *resolver, option string, vs []string) []string {
	out := r.list(option, vs, checkURI)
	if r.adapting() && len(out) == 0 && len(vs) > 0 {
		return []string{standInURI}
	}
	return out
}

func (a *App) buildIdentity(r *resolver) identity.Config {
	i := &a.Identity
	cfg := identity.Config{
		Issuer:  a.issuer.String(),
		Locales: r.list("identity: locales", i.Locales, checkLocale),
		Session: identity.SessionConfig{
			Idle:     r.duration("identity: session idle", i.Session.Idle),
			Absolute: r.duration("identity: session absolute", i.Session.Absolute),
			Remember: r.duration("identity: session remember", i.Session.Remember),
		},
		Lockout: identity.LockoutConfig{
			Failures: r.count("identity: lockout failures", i.Lockout.Failures, checkFailures),
			Window:   r.duration("identity: lockout window", i.Lockout.Window),
		},
	}
	switch r.plain("identity: passkeys", i.Passkeys, checkOnOff) {
	case "off":
		cfg.NoPasskeys = true
	case "on":
		if cfg.Issuer != "" && !identity.PasskeysPossible(cfg.Issuer) {
			r.fail("identity: passkeys: browsers allow them for an https issuer with a host name of several parts and for localhost: change the issuer, or leave passkeys away")
		}
	}
	if p := i.Partitions; p != nil {
		cfg.Partitions = identity.PartitionConfig{On: true, Names: r.list("identity: partitions", p.Names, checkPartition)}
	}
	seen := map[string]bool{}
	for _, p := range i.Persons {
		person := p.build(r)
		if person.Partition != "" && i.Partitions == nil {
			r.fail("person %s: partition is set, but identity has no partitions: add them", person.Username)
		}
		if folded := strings.ToLower(person.Partition + `\` + person.Username); person.Username != "" && seen[folded] {
			r.fail("person %s is defined twice: keep one of them", person.Username)
		} else {
			seen[folded] = true
		}
		cfg.Persons = append(cfg.Persons, person)
	}
	return cfg
}

func (p *Person) build(r *resolver) identity.NewPerson {
	of := "person " + p.Username + ": "
	if p.Username == "" {
		r.fail("person: username is missing")
	}
	if p.Password != "" && p.PasswordHash != "" {
		r.fail("%spassword and password_hash are both set: keep one of them", of)
	}
	return identity.NewPerson{
		Username: r.plain("person", p.Username, nil), Password: secret.New(r.plain(of+"password", string(p.Password), checkPassword)),
		PasswordHash: r.plain(of+"password_hash", string(p.PasswordHash), checkPHC),
		Name:         r.plain(of+"name", p.Name, nil), GivenName: r.plain(of+"given_name", p.GivenName, nil), FamilyName: r.plain(of+"family_name", p.FamilyName, nil),
		Email: r.plain(of+"email", p.Email, checkEmail), EmailVerified: p.EmailVerified,
		Groups: r.list(of+"groups", p.Groups, nil), Locale: r.plain(of+"locale", p.Locale, nil),
		Partition: r.plain(of+"partition", p.Partition, checkPartition),
	}
}

func (a *App) buildHashCost(r *resolver) secret.HashCost {
	p := a.Identity.PasswordHash
	var cost secret.HashCost
	if s, ok := r.text("identity: password_hash memory", p.Memory, checkHashMemory); ok {
		n, _ := parseSize(s)
		cost.MemoryKiB = uint32(min(n>>10, 256<<10)) //nolint:gosec // bounded
	}
	cost.Iterations = uint32(r.count("identity: password_hash iterations", p.Iterations, checkIterations)) //nolint:gosec // checked: 1 to 20
	cost.Concurrency = r.count("identity: password_hash concurrency", p.Concurrency, checkConcurrency)
	return cost
}

func (a *App) buildBrand(r *resolver) page.Brand {
	b := a.Identity.Brand
	brand := page.Brand{Name: r.plain("identity: brand name", b.Name, nil), Help: r.plain("identity: brand help", b.Help, checkHelp)}
	if color := r.plain("identity: brand color", b.Color, checkColor); color != "" {
		brand.Color = "#" + strings.TrimPrefix(color, "#")
	}
	if file, ok := r.text("identity: brand logo", b.Logo, nil); ok {
		var err error
		if brand.Logo, brand.LogoType, err = readLogo(file); err != nil {
			r.fail("identity: brand logo: %v", err)
		}
	}
	return brand
}

// readPicture returns the picture of an option, or nil. Files are read only when the configuration is loaded: they may lie on another machine.
func readPicture(r *resolver, option, name string) []byte {
	file, ok := r.text(option, name, nil)
	switch {
	case !ok || r.adapting():
		return nil
	case r.verbatim: // the request of somebody, who must not read our files
		r.fail("%s: pictures are for what stands in the configuration", option)
		return nil
	}
	raw, _, err := readLogo(file)
	if err == nil {
		err = page.CheckPicture(raw)
	}
	if err != nil {
		r.fail("%s: %v", option, err)
	}
	return raw
}

// logos are the pictures of the clients by their ids.
func (a *App) logos() map[string][]byte {
	out := map[string][]byte{}
	for i := range a.Clients {
		if len(a.Clients[i].logo) > 0 {
			out[a.authz.Clients[i].ID] = a.Clients[i].logo
		}
	}
	return out
}

// readLogo returns a picture and its media type. The type is that of the file's name: it is the operator who vouches for it.
func readLogo(file string) ([]byte, string, error) {
	kinds := map[string]string{".png": "image/png", ".jpg": "image/jpeg", ".jpeg": "image/jpeg", ".gif": "image/gif"}
	kind, ok := kinds[strings.ToLower(filepath.Ext(file))]
	if !ok {
		return nil, "", fmt.Errorf("%s is not a .png, .jpg or .gif file", file)
	}
	info, err := os.Stat(file)
	if err != nil {
		return nil, "", err
	}
	if info.Size() == 0 || info.Size() > page.MaxPicture {
		return nil, "", fmt.Errorf("want a picture of 1 byte to %d KiB", page.MaxPicture>>10)
	}
	raw, err := os.ReadFile(file)
	if err != nil {
		return nil, "", err
	}
	return raw, kind, nil
}

// build returns the networks that are opened beside the public ones.
func (o *Outbound) build(r *resolver) []netip.Prefix {
	var out []netip.Prefix
	for _, s := range r.list("outbound: allow", o.Allow, checkOpened) {
		p, err := parseNetwork(s)
		r.failed(err)
		out = append(out, p)
	}
	return out
}
