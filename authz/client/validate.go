package client

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/mail"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/gatehouse-id/gatehouse/internal/authn"
	"github.com/gatehouse-id/gatehouse/internal/secret"
)

// The grants, as grant_type and the configuration name them.
const (
	GrantCode              = "authorization_code"
	GrantRefreshToken      = "refresh_token"
	GrantClientCredentials = "client_credentials"
	GrantImplicit          = "implicit"
	GrantIDToken           = "id_token" // response_type=id_token; implicit includes it
	GrantPassword          = "password"
	GrantValidateBearer    = "validate_bearer" // token server document: "Validate access token"
	GrantDevice            = "device_code"     // RFC 8628
	GrantJWTBearer         = "jwt_bearer"      // RFC 7523 2.1
	GrantTokenExchange     = "token_exchange"  // RFC 8693
)

// Bounds of the configuration.
const (
	minSecret = 32   // characters of a client secret
	MaxSecret = 1024 // bytes of one
	maxID     = 128  // bytes of a client id
	maxGroup  = 512  // bytes of the name of a group, with its partition

	maxUsageLimit = 1_000_000_000

	// KeyedHashPrefix marks the keyed hash of a secret that was added by command.
	KeyedHashPrefix = "hmac:"
	KeyedHashSize   = 32
)

// DefaultProvider is the provider that is always there: the identity service.
const DefaultProvider = "identity"

const day = 24 * time.Hour

// WithDefaults returns a copy with the defaults filled in.
func (c *Client) WithDefaults() *Client {
	out := *c
	setDefault(&out.Name, c.ID)
	setDefault(&out.Lifetimes.RefreshChain, 90*day)
	if c.FAPI2 {
		out.asFAPI2()
	}
	setDefault(&out.AuthMethod, "post")
	setDefault(&out.Consent, "on")
	setDefault(&out.IDTokenAlg, "RS256")
	setDefault(&out.TokenFormat, formatOpaque)
	setDefault(&out.MaxSessions, 25)
	if len(out.DefaultScopes) == 0 && len(out.Scopes) == 1 {
		out.DefaultScopes = out.Scopes
	}
	if len(out.IDPs) == 0 {
		out.IDPs = []string{DefaultProvider}
	}
	l := &out.Lifetimes
	setDefault(&l.Code, 30*time.Second)
	setDefault(&l.AccessToken, 15*time.Minute)
	setDefault(&l.RefreshToken, 30*day)
	setDefault(&l.RefreshGrace, 10*time.Second)
	out.PKCERequired = out.PKCERequired || out.Public
	return &out
}

func setDefault[T comparable](v *T, def T) {
	var zero T
	if *v == zero {
		*v = def
	}
}

// CheckContact accepts a bare e-mail address.
func CheckContact(text string) error {
	if a, err := mail.ParseAddress(text); err != nil || a.Address != text {
		return fmt.Errorf("contact: %q is not an e-mail address, such as ann@example.com", text)
	}
	return nil
}

// Validate returns everything that is wrong with a client, or nil. It does not look at other parts of the
// configuration.
func (c *Client) Validate() error {
	var p Problems
	p.AddErr(CheckID(c.ID))
	if !IsText(c.Name) {
		p.Addf("name: has a control character, or one that turns the direction of writing")
	}
	c.checkAuth(&p)
	c.checkFAPI2(&p)
	c.checkGrants(&p)
	for _, list := range [...]struct {
		option string
		uris   []string
	}{{"redirect_uris", c.RedirectURIs}, {"post_logout_redirect_uris", c.PostLogoutRedirectURIs}} {
		for _, uri := range list.uris {
			if err := c.ValidateRedirect(uri); err != nil {
				p.Addf("%s: %q: %w", list.option, uri, err)
			}
		}
	}
	for _, scope := range slices.Concat(c.Scopes, c.DefaultScopes) {
		if !isScopeToken(scope) {
			p.Addf("scopes: %q has a character that scopes must not have", scope)
		}
	}
	for _, scope := range c.DefaultScopes {
		if !c.HasScope(scope) && (len(c.Scopes) > 0 || c.Document == nil) { // a self-registered client has the scopes of all such clients
			p.Addf("default_scopes: %q is not one of the client's scopes", scope)
		}
	}
	for i, idp := range c.IDPs {
		if slices.Contains(c.IDPs[:i], idp) {
			p.Addf("idps: %q is named twice", idp)
		}
	}
	for i, group := range c.Groups {
		switch {
		case group == "" || len(group) > maxGroup || !IsText(group):
			p.Addf("groups: %q is not the name of a group", group)
		case slices.Contains(c.Groups[:i], group):
			p.Addf("groups: %q is named twice", group)
		}
	}
	if c.DPoPRequired && c.HasGrant(GrantImplicit) {
		p.Addf("dpop: tokens of the grant implicit are given to the browser and cannot be bound to a key: use authorization_code")
	}
	p.oneOf("second_factor", c.SecondFactor, authn.SecondFactorWhenSetUp, authn.SecondFactorAlways, authn.SecondFactorOnDemand)
	p.oneOf("consent", c.Consent, "on", "off", "always")
	c.checkSubjectType(&p)
	c.checkOtherURIs(&p)
	p.oneOf("token_format", c.TokenFormat, formatOpaque, FormatJWT)
	if c.TokenFormat == FormatJWT && c.Lifetimes.AccessToken > MaxJWTLifetime {
		p.Addf("lifetimes: access_token is %s, and more than %s is too long for a JWT, whose key must stay published",
			c.Lifetimes.AccessToken, MaxJWTLifetime)
	}
	if c.App != nil {
		c.App.check(&p)
	}
	c.checkAlgorithms(&p)
	c.checkEncryption(&p)
	for _, a := range c.Audiences {
		p.AddErr(checkAudience(a))
	}
	for _, o := range c.Origins {
		p.AddErr(checkOrigin(o))
	}
	if c.Contact != "" {
		p.AddErr(CheckContact(c.Contact))
	}
	c.checkLimits(&p)
	if err := p.Join(); err != nil {
		return fmt.Errorf("client %q: %w", c.ID, err)
	}
	return nil
}

// maxApp is the longest member of an App in bytes.
const maxApp = 256

func (a *App) check(p *Problems) {
	for _, m := range [...]struct{ name, value string }{{"identifier", a.Identifier}, {"platform", a.Platform}, {"version", a.Version}} {
		if m.value == "" || len(m.value) > maxApp || !IsText(m.value) {
			p.Addf("app: the %s must have 1 to %d bytes without control characters", m.name, maxApp)
		}
	}
}

func (c *Client) checkAuth(p *Problems) {
	switch c.AuthMethod {
	case "", "basic", "post", MethodPrivateKey, MethodTLS, MethodSelfSigned, MethodWorkload:
	default:
		p.Addf("auth_method: %q is not one of basic, post, private_key_jwt, tls_client_auth, self_signed_tls_client_auth, workload", c.AuthMethod)
	}
	c.checkSubject(p)
	c.checkKeys(p)
	if c.Public {
		if len(c.Secrets)+len(c.SecretHashes) > 0 {
			p.Addf("a public client has no secret: remove either")
		}
		if c.AuthMethod != "" {
			p.Addf("a public client does not authenticate: remove public or auth_method")
		}
		return
	}
	switch {
	case c.AuthMethod == MethodWorkload && len(c.Secrets)+len(c.SecretHashes) > 0:
		p.Addf("secret: a client with auth_method workload shows tokens of a trust_issuer instead: remove either")
	case !c.IsWithoutSecret():
		checkSecrets(p, c.Secrets, c.SecretHashes)
	}
}

func checkSecrets(p *Problems, secrets []secret.String, hashes []string) {
	if len(secrets)+len(hashes) == 0 {
		p.Addf("secret is missing; `caddy gatehouse secret` prints a good one")
	}
	for _, s := range secrets {
		text := s.Reveal()
		switch {
		case utf8.RuneCountInString(text) < minSecret:
			p.Addf("secret: it has fewer than %d characters; `caddy gatehouse secret` prints a good one", minSecret)
		case len(text) > MaxSecret:
			p.Addf("secret: it has more than %d bytes", MaxSecret)
		case !IsText(text):
			p.Addf("secret: it has control characters or is not UTF-8")
		}
	}
	for _, h := range hashes {
		if text, ok := strings.CutPrefix(h, KeyedHashPrefix); ok {
			if _, err := DecodeKeyedHash(text); err != nil {
				p.Addf("secret_hash: %w", err)
			}
		} else if err := secret.CheckPHC(h); err != nil {
			p.Addf("secret_hash: %w", err)
		}
	}
}

// DecodeKeyedHash reads the text of a keyed hash after KeyedHashPrefix: the hash behind the name of its key. Those of
// version 0.1 have no name.
func DecodeKeyedHash(text string) ([]byte, error) {
	if _, behind, named := strings.Cut(text, ":"); named {
		text = behind
	}
	sum, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || len(sum) != KeyedHashSize {
		return nil, errors.New("not a keyed hash")
	}
	return sum, nil
}

// grantNames are the grants in the order in which messages name them.
var grantNames = []string{
	GrantCode, GrantRefreshToken, GrantClientCredentials, GrantIDToken, GrantImplicit, GrantPassword,
	GrantValidateBearer, GrantDevice, GrantJWTBearer, GrantTokenExchange,
}

func (c *Client) checkGrants(p *Problems) {
	if len(c.Grants) == 0 {
		p.Addf("grants is missing: one or more of %s", strings.Join(grantNames, ", "))
	}
	for _, g := range c.Grants {
		switch g {
		case GrantCode, GrantRefreshToken, GrantClientCredentials, GrantIDToken, GrantImplicit, GrantPassword, GrantValidateBearer, GrantDevice,
			GrantJWTBearer, GrantTokenExchange:
		default:
			p.Addf("grants: %q is not one of %s", g, strings.Join(grantNames, ", "))
		}
	}
	if c.Public && c.HasGrant(GrantClientCredentials) {
		p.Addf("grants: a public client cannot use client_credentials, since it has none") // RFC 6749 4.4
	}
	if c.Public && c.HasGrant(GrantValidateBearer) {
		p.Addf("grants: a public client cannot use validate_bearer, since it has no credentials")
	}
	c.checkExchange(p)
	if c.HasGrant(GrantJWTBearer) && c.Public {
		p.Addf("grants: a public client cannot use jwt_bearer: anyone who knows its name could present the same assertion")
	}
	if c.HasGrant(GrantPassword) && c.Public { // docs/decisions/token-endpoint.md#password-grant
		p.Addf("grants: a public client cannot use password: anyone who knows its name could try passwords")
	}
	if c.PasswordOnly && c.SecondFactor == authn.SecondFactorAlways {
		p.Addf("password_only: second_factor always demands a second step of everyone: keep one of them")
	}
	if c.PasswordOnly && !c.HasGrant(GrantPassword) {
		p.Addf("password_only: the client does not have the grant password")
	}
	if c.HasGrant(GrantPassword) && c.HasGrant(GrantCode) { // docs/decisions/token-endpoint.md#password-grant
		p.Addf("grants: password cannot be combined with authorization_code, which does without the password: keep one of them")
	}
	if c.HasGrant(GrantRefreshToken) && !c.HasGrant(GrantCode) && !c.HasGrant(GrantPassword) && !c.HasGrant(GrantDevice) {
		p.Addf("grants: refresh_token needs a grant that gives one: add authorization_code")
	}
	if c.HasGrant(GrantCode) && len(c.RedirectURIs) == 0 {
		p.Addf("redirect_uris is missing: authorization_code needs one")
	}
	if c.HasGrant(GrantIDToken) && len(c.RedirectURIs) == 0 { // RFC 6749 3.1.2.2
		p.Addf("redirect_uris is missing: implicit and id_token need one")
	}
	if slices.Contains(c.Grants, GrantIDToken) && !c.HasScope(ScopeOpenID) {
		p.Addf("scopes: id_token needs the scope openid")
	}
}

func (c *Client) checkLimits(p *Problems) {
	if c.MaxSessions < 0 || c.MaxSessions > 1000 {
		p.Addf("max_sessions: %d is not between 1 and 1000", c.MaxSessions)
	}
	l := c.Lifetimes
	for _, t := range [...]struct {
		option    string
		is        time.Duration
		low, high time.Duration
	}{
		{"code", l.Code, time.Second, 10 * time.Minute}, // RFC 6749 4.1.2: at most 10 minutes
		{"access_token", l.AccessToken, time.Second, 366 * day},
		{"refresh_token", l.RefreshToken, time.Second, 10 * 366 * day},
		{"refresh_chain", l.RefreshChain, time.Second, 10 * 366 * day},
		{"refresh_grace", l.RefreshGrace, time.Millisecond, 5 * time.Minute},
		{"session", l.Session, time.Second, 10 * 366 * day},
	} {
		if t.is != 0 && (t.is < t.low || t.is > t.high) {
			p.Addf("lifetimes: %s is %s, not between %s and %s", t.option, t.is, t.low, t.high)
		}
	}
}

// apis are the APIs that an API client can be given.
var apis = []string{
	"introspection", "configuration", "credentials", "events", "persons", "policies", "access", "access_decisions",
	"statistics", "storage", "sessions", "assurance", "administrators",
}

// Validate returns all that is wrong with an API client, or nil.
func (c *APIClient) Validate() error {
	var p Problems
	p.AddErr(CheckID(c.ID))
	if strings.Contains(c.ID, ":") {
		p.Addf("id: a colon ends the user-id of Basic credentials (RFC 7617 2)")
	}
	if len(c.Secrets)+len(c.SecretHashes) > 0 || c.CertificateSubject == nil {
		checkSecrets(&p, c.Secrets, c.SecretHashes)
	}
	c.checkSubject(&p)
	if len(c.APIs) == 0 {
		p.Addf("apis is missing: one or more of %s", strings.Join(apis, ", "))
	}
	for _, api := range c.APIs {
		if !slices.Contains(apis, api) {
			p.Addf("apis: %q is not one of %s", api, strings.Join(apis, ", "))
		}
	}
	for _, a := range c.Audiences {
		p.AddErr(checkAudience(a))
	}
	p.oneOf("introspection_alg", c.IntrospectionAlg, SignatureAlgorithms...)
	if c.IntrospectionAlg != "" && !slices.Contains(c.APIs, "introspection") {
		p.Addf("introspection_alg: the API client does not introspect: add introspection to apis, or leave it out")
	}
	for _, name := range c.Partitions {
		if err := authn.CheckPartition(name); err != nil {
			p.Addf("partitions: %q %w", name, err)
		}
	}
	if c.MaxLevel < 0 || c.MaxLevel > 4 {
		p.Addf("max_level: %d is not between 1 and 4", c.MaxLevel)
	}
	if c.MaxLevel > 0 && !slices.Contains(c.APIs, "persons") {
		p.Addf("max_level: the API client makes no tokens: add persons to apis, or leave it out")
	}
	if len(c.Partitions) > 0 && slices.Contains(c.APIs, "configuration") {
		p.Addf("partitions: the configuration is that of all partitions: leave out partitions, or configuration in apis")
	}
	if slices.Contains(c.APIs, "administrators") && !slices.Contains(c.APIs, "configuration") {
		p.Addf("apis: administrators is a right within the configuration API: add configuration to apis, or leave it out")
	}
	if len(c.Partitions) > 0 && slices.Contains(c.APIs, "policies") {
		p.Addf("partitions: the policies are those of all partitions: leave out partitions, or policies in apis")
	}
	if err := p.Join(); err != nil {
		return fmt.Errorf("api_client %q: %w", c.ID, err)
	}
	return nil
}

// Validate returns all that is wrong with a scope, or nil.
func (sc Scope) Validate() error {
	var p Problems
	if !isScopeToken(sc.Name) {
		p.Addf("the name is empty or has a character that scopes must not have")
	}
	if sc.Level < 0 || sc.Level > 4 {
		p.Addf("level: %d is not between 1 and 4", sc.Level)
	}
	if sc.Assurance < 0 || sc.Assurance > 4 {
		p.Addf("assurance: %d is not between 1 and 4", sc.Assurance)
	}
	if sc.UsageLimit < 0 || sc.UsageLimit > maxUsageLimit {
		p.Addf("usage_limit: %d is not between 0 and %d", sc.UsageLimit, maxUsageLimit)
	}
	if err := p.Join(); err != nil {
		return fmt.Errorf("scope %q: %w", sc.Name, err)
	}
	return nil
}

// CheckID returns what is wrong with an id, or nil. Ids are part of keys, logs and Basic credentials.
func CheckID(id string) error {
	switch {
	case id == "":
		return errors.New("the id is missing")
	case len(id) > maxID:
		return fmt.Errorf("the id has more than %d bytes", maxID)
	case !IsText(id) || strings.TrimSpace(id) != id:
		return errors.New("the id has control characters, outer spaces or is not UTF-8")
	}
	return nil
}

// checkAudience: RFC 8707 2: an absolute URI without a fragment.
func checkAudience(a string) error {
	u, err := url.Parse(a)
	if err != nil || !u.IsAbs() || strings.Contains(a, "#") || !IsText(a) || strings.Contains(a, " ") {
		return fmt.Errorf("audiences: %q is not an absolute URI without fragment", a)
	}
	return nil
}

// CheckResource returns the problem with a resource that a client names, or nil. (RFC 8707 2)
func CheckResource(s string) error {
	if len(s) > maxTarget {
		return errors.New("it is too long")
	}
	return checkAudience(s)
}

func checkOrigin(o string) error {
	u, err := url.Parse(o)
	if err != nil || (u.Scheme != "https" && u.Scheme != "http") || u.Host == "" || u.User != nil ||
		strings.Trim(u.Path, "/") != "" || strings.ContainsAny(o, "?#*") {
		return fmt.Errorf("origins: %q is not an origin such as https://app.example.com", o)
	}
	return nil
}

// IsText reports whether s is UTF-8 without control characters.
func IsText(s string) bool {
	return utf8.ValidString(s) && !authn.Turns(s) && !strings.ContainsFunc(s, unicode.IsControl)
}

// Problems collects errors, so the operator sees all of them at once.
type Problems []error

// Addf adds a formatted error.
func (p *Problems) Addf(format string, args ...any) { *p = append(*p, fmt.Errorf(format, args...)) }

// AddErr adds err, unless it is nil.
func (p *Problems) AddErr(err error) {
	if err != nil {
		*p = append(*p, err)
	}
}

func (p *Problems) oneOf(option, value string, allowed ...string) {
	if value != "" && !slices.Contains(allowed, value) {
		p.Addf("%s: %q is not one of %s", option, value, strings.Join(allowed, ", "))
	}
}

// Join writes the problems in one line.
func (p *Problems) Join() error {
	if len(*p) == 0 {
		return nil
	}
	text := make([]string, len(*p))
	for i, err := range *p {
		text[i] = err.Error()
	}
	return &InvalidError{strings.Join(text, "; ")}
}

// InvalidError lists everything that is wrong with a client, for the administrator who wrote it.
type InvalidError struct{ text string }

func (e *InvalidError) Error() string { return e.text }

// Invalidf returns an InvalidError.
func Invalidf(format string, args ...any) error { return &InvalidError{fmt.Sprintf(format, args...)} }

// checkOtherURIs checks that an address we call is as safe as one that a browser is sent to, and that a page in a
// frame, or one that our pages link to, is the client's own (Front-Channel Logout 2: scheme, host and port of a
// redirect URI).
func (c *Client) checkOtherURIs(p *Problems) {
	for _, o := range [...]struct {
		option, uri string
		own         bool
	}{
		{"backchannel_logout_uri", c.BackchannelLogoutURI, false},
		{"frontchannel_logout_uri", c.FrontchannelLogoutURI, true},
		{"initiate_login_uri", c.InitiateLoginURI, true},
	} {
		if o.uri == "" {
			continue
		}
		if err := validateRedirectURI(o.uri); err != nil {
			p.Addf("%s: %q: %w", o.option, o.uri, err)
		} else if !strings.HasPrefix(o.uri, "https://") && !strings.HasPrefix(o.uri, "http://") {
			p.Addf("%s: %q: must be https", o.option, o.uri)
		}
		if o.own && !slices.ContainsFunc(c.RedirectURIs, func(r string) bool { return RedirectTarget(r) == RedirectTarget(o.uri) }) {
			p.Addf("%s: %q does not have the scheme, host and port of one of the redirect_uris", o.option, o.uri)
		}
	}
}
