package caddymodule

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
)

// Every text of the configuration may hold Caddy's global placeholders, such as {env.X} and {file./path}. They are
// resolved when the configuration is loaded, not when it is adapted.

// Sensitive is a text that is written to configuration as it is and printed as "[redacted]".
type Sensitive string

// String returns "[redacted]".
func (Sensitive) String() string { return "[redacted]" }

// GoString returns "[redacted]".
func (Sensitive) GoString() string { return "[redacted]" }

// Duration is a text such as 30s, 15m, 12h or 30d, or a placeholder. A JSON number is nanoseconds, as everywhere in Caddy.
type Duration string

// UnmarshalJSON takes a string or a number of nanoseconds.
func (d *Duration) UnmarshalJSON(b []byte) error {
	var s string
	if json.Unmarshal(b, &s) == nil {
		*d = Duration(s)
		return nil
	}
	var n int64
	if err := json.Unmarshal(b, &n); err != nil {
		return fmt.Errorf("a duration is a text such as 30s or a number of nanoseconds: %w", err)
	}
	*d = Duration(time.Duration(n).String())
	return nil
}

// Count is a whole number as text, or a placeholder. JSON numbers are understood.
type Count string

// UnmarshalJSON takes a string or a number.
func (c *Count) UnmarshalJSON(b []byte) error {
	var s string
	if json.Unmarshal(b, &s) == nil {
		*c = Count(s)
		return nil
	}
	var n json.Number
	if err := json.Unmarshal(b, &n); err != nil {
		return fmt.Errorf("want a whole number: %w", err)
	}
	*c = Count(n.String())
	return nil
}

// Scope is a scope that has more to say than its name. A scope that clients only name needs none.
type Scope struct {
	// The scope as clients ask for it. Required.
	Name string `json:"name"`
	// What the consent page says of it. Default: the name.
	Description string `json:"description,omitempty"`
	// The authentication level that the person must have reached, 1 to 4. Default: any.
	Level Count `json:"level,omitempty"`
	// How often an access token with this scope may be used; the lowest of its scopes counts. Default: 0, unlimited.
	UsageLimit Count `json:"usage_limit,omitempty"`
}

// Client is an OAuth client.
type Client struct {
	// The client_id. Required.
	ID string `json:"id"`
	// The name that people see. Default: the id.
	Name string `json:"name,omitempty"`
	// Whether the client cannot keep a secret: a single-page or mobile application. It must use PKCE. Default: false.
	Public bool `json:"public,omitempty"`
	// Secrets of at least 32 characters, all valid at once, so that they can be rotated. Default: none.
	Secrets []Sensitive `json:"secrets,omitempty"`
	// Secrets as Argon2id or bcrypt PHC strings. Default: none.
	SecretHashes []Sensitive `json:"secret_hashes,omitempty"`
	// How the client authenticates: basic, post (which allows basic too), or private_key_jwt, which needs jwks and no secret. Default: basic.
	AuthMethod string `json:"auth_method,omitempty"`
	// A file or a URL with the public keys (JSON Web Key Set) of private_key_jwt. A file is read when the configuration is loaded, a URL when
	// it is needed. Default: none.
	JWKS string `json:"jwks,omitempty"`
	// Where the browser may be sent after authorization; compared exactly. Default: none.
	RedirectURIs []string `json:"redirect_uris,omitempty"`
	// Where the browser may be sent after sign-out; compared exactly. Default: none.
	PostLogoutRedirectURIs []string `json:"post_logout_redirect_uris,omitempty"`
	// Where a logout token is sent when a session that the client knows has ended. Default: none.
	BackchannelLogoutURI string `json:"backchannel_logout_uri,omitempty"`
	// What the page after a sign-out loads in a frame; its scheme, host and port are those of a redirect URI. Default: none.
	FrontchannelLogoutURI string `json:"frontchannel_logout_uri,omitempty"`
	// What the client may do: authorization_code, refresh_token, client_credentials, and the deprecated implicit, password and
	// validate_bearer. Default: none.
	Grants []string `json:"grants,omitempty"`
	// The scopes it may ask for. Default: none.
	Scopes []string `json:"scopes,omitempty"`
	// The scopes it gets when it asks for none; each must be among scopes. Default: none.
	DefaultScopes []string `json:"default_scopes,omitempty"`
	// The identity providers it may use, the first is the default: identity, and those of idps. Default: identity.
	IDPs []string `json:"idps,omitempty"`
	// Whether people are asked: on (asked once and remembered), off, or always. Default: on.
	Consent string `json:"consent,omitempty"`
	// Whether this confidential client must use PKCE; public ones always must. Default: false.
	PKCERequired bool `json:"pkce_required,omitempty"`
	// The signature of its ID tokens: RS256, ES256 or EdDSA. Default: RS256.
	IDTokenAlg string `json:"id_token_alg,omitempty"`
	// The form of its access tokens: opaque, or jwt (RFC 9068), signed like its ID tokens. Default: opaque.
	TokenFormat string `json:"token_format,omitempty"`
	// The identifier by which the client knows a person: public, the same for all, or pairwise, one for each host of redirect URIs.
	// Default: public.
	SubjectType string `json:"subject_type,omitempty"`
	// The mobile app that it is an instance of. Default: none.
	App *ClientApp `json:"app,omitempty"`
	// The resources (RFC 8707) that it may ask tokens for. Default: none.
	Audiences []string `json:"audiences,omitempty"`
	// Origins of web pages that may call the token endpoint, beside those of its redirect URIs. Default: none.
	Origins []string `json:"origins,omitempty"`
	// How many sign-ins of one person the client may hold at once; the oldest is dropped. Default: 25.
	MaxSessions Count `json:"max_sessions,omitempty"`
	// Whether the client is switched off: nothing of it is valid. Default: false.
	Disabled bool `json:"disabled,omitempty"`
	// How long what it gets is valid.
	Lifetimes Lifetimes `json:"lifetimes,omitzero"`

	// A file with a PNG, JPEG or GIF picture of at most 64 KiB, which stands beside the name where people sign in and consent. Default: none.
	Logo string `json:"logo,omitempty"`

	token caddyfile.Token // where it stands in a Caddyfile
	logo  []byte          // of Logo
}

// ClientApp is a mobile app. Introspection and validation tell of it.
type ClientApp struct {
	// What the app calls itself, such as com.example.app. Required.
	Identifier string `json:"identifier"`
	// What it runs on, such as android. Required.
	Platform string `json:"platform"`
	// Its version. Required.
	Version string `json:"version"`
}

// Lifetimes of what a client gets.
type Lifetimes struct {
	// Of an authorization code. Default: 30s.
	Code Duration `json:"code,omitempty"`
	// Of an access token. Default: 15m.
	AccessToken Duration `json:"access_token,omitempty"`
	// Of one refresh token. Default: 30d.
	RefreshToken Duration `json:"refresh_token,omitempty"`
	// Of the whole rotation chain of refresh tokens. Default: 90d.
	RefreshChain Duration `json:"refresh_chain,omitempty"`
	// How long a spent refresh token is answered with the same successor. Default: 10s.
	RefreshGrace Duration `json:"refresh_grace,omitempty"`
	// The oldest sign-in that the client accepts. Default: any.
	Session Duration `json:"session,omitempty"`
}

// APIClient holds Basic credentials of the APIs. It is not an OAuth client.
type APIClient struct {
	// The username. Required.
	ID string `json:"id"`
	// Secrets of at least 32 characters, all valid at once. Default: none.
	Secrets []Sensitive `json:"secrets,omitempty"`
	// Secrets as Argon2id or bcrypt PHC strings. Default: none.
	SecretHashes []Sensitive `json:"secret_hashes,omitempty"`
	// The APIs it may use: introspection, configuration, credentials, events, persons. Of persons
	// only what they hold (tokens, sessions, consents) is served yet, of credentials nothing. Default: none.
	APIs []string `json:"apis,omitempty"`
	// It introspects only tokens for these resources (RFC 8707). Default: all.
	Audiences []string `json:"audiences,omitempty"`
	// Whether the credentials are switched off. Default: false.
	Disabled bool `json:"disabled,omitempty"`
}

// Identity is the identity service: the persons and how they sign in.
type Identity struct {
	// Persons that are created when they do not exist. An existing person is left alone. Default: none.
	Persons []Person `json:"persons,omitempty"`
	// Keeps persons apart, so that a username is unique within its partition. Default: off, everybody is in the partition default.
	Partitions *Partitions `json:"partitions,omitempty"`
	// How long sign-ins last.
	Session Session `json:"session,omitzero"`
	// When failed sign-ins are slowed down.
	Lockout Lockout `json:"lockout,omitzero"`
	// What a password hash costs.
	PasswordHash PasswordHash `json:"password_hash,omitzero"`
	// The languages of the pages, the default first: en, nl, de, fr, also with a country such as de-AT. Those of custom messages need no mention. Default: en.
	Locales []string `json:"locales,omitempty"`
	// How the pages look.
	Brand Brand `json:"brand,omitzero"`
	// A JSON file of configuration units, which is applied when the storage holds none yet. Default: none.
	Bootstrap string `json:"bootstrap,omitempty"`
	// A directory of messages (<locale>.json and default.json, keys and texts) and of static files, which are served under /assets/ext/. Default: none.
	Extension string `json:"extension,omitempty"`
	// The AES-GCM key of the credentials API: 32, 48 or 64 hexadecimal digits. Default: none, so that the API takes no passwords.
	CredentialsKey Sensitive `json:"credentials_key,omitempty"`
	// Whether people can sign in with passkeys: on or off. Default: on where browsers allow them, which is for an https issuer with a host name
	// of several parts, and for localhost.
	Passkeys string `json:"passkeys,omitempty"`
	// Who is asked whether a password is known from a breach, where the policy wants to know. Default: the service of haveibeenpwned.com.
	Breach Breach `json:"breach,omitzero"`
}

// Partitions keep persons apart.
type Partitions struct {
	// The partitions beside the default one that persons can be added to. Default: any.
	Names []string `json:"names,omitempty"`
}

// Person is somebody who can sign in.
type Person struct {
	// The username; an e-mail address counts as the person's verified e-mail. Required.
	Username string `json:"username"`
	// The password, 8 to 256 characters. Default: none, so that the person cannot sign in by password.
	Password Sensitive `json:"password,omitempty"`
	// The password as an Argon2id or bcrypt PHC string, instead of password. Default: none.
	PasswordHash Sensitive `json:"password_hash,omitempty"`
	// The full name. Default: none.
	Name string `json:"name,omitempty"`
	// The given name. Default: none.
	GivenName string `json:"given_name,omitempty"`
	// The family name. Default: none.
	FamilyName string `json:"family_name,omitempty"`
	// The e-mail address. Default: the username, when that is one.
	Email string `json:"email,omitempty"`
	// Whether the address is known to be the person's. Default: true when the username is that address, otherwise false.
	EmailVerified *bool `json:"email_verified,omitempty"`
	// The groups that the person is in. Default: none.
	Groups []string `json:"groups,omitempty"`
	// The language the person prefers, as a BCP 47 tag. Default: what the browser asks for.
	Locale string `json:"locale,omitempty"`
	// The partition of the person, where there are partitions. Default: default.
	Partition string `json:"partition,omitempty"`
}

// Session says how long sign-ins last.
type Session struct {
	// Without any use. Default: 1h.
	Idle Duration `json:"idle,omitempty"`
	// At most. Default: 12h.
	Absolute Duration `json:"absolute,omitempty"`
	// At most, when the person asked to stay signed in. Default: 30d.
	Remember Duration `json:"remember,omitempty"`
}

// Lockout says when failed sign-ins are slowed down. Nobody is ever locked out for good.
type Lockout struct {
	// How many failures of one person from one address are free of waiting. Default: 5.
	Failures Count `json:"failures,omitempty"`
	// The time in which they are counted. Default: 15m.
	Window Duration `json:"window,omitempty"`
}

// PasswordHash is the cost of Argon2id.
type PasswordHash struct {
	// Memory of one hash, 8MiB to 256MiB. Default: 19MiB.
	Memory string `json:"memory,omitempty"`
	// Passes over the memory. Default: 2.
	Iterations Count `json:"iterations,omitempty"`
	// How many are computed at once. Default: one less than the processors, at least one.
	Concurrency Count `json:"concurrency,omitempty"`
}

// Brand is how the pages look.
type Brand struct {
	// The name above each page. Default: Gatehouse.
	Name string `json:"name,omitempty"`
	// A file with a PNG, JPEG or GIF picture of at most 64 KiB. Default: the name as text.
	Logo string `json:"logo,omitempty"`
	// The accent colour as rrggbb, with or without a # in front. It is darkened or lightened until it can be read. Default: Gatehouse's own.
	Color string `json:"color,omitempty"`
	// Where the footer of the pages leads who needs help: an http, https or mailto URL. Default: nowhere.
	Help string `json:"help,omitempty"`
}

// Outbound is about requests to addresses that nobody has written into this configuration: those of the configuration API, of metadata and of clients.
type Outbound struct {
	// Networks such as 10.0.0.0/8 that may be reached beside public addresses. Default: none.
	Allow []string `json:"allow,omitempty"`
}

// Events says how long the records of what happened are kept, and who is told.
type Events struct {
	// Of all events but those of token_retention. Default: for ever.
	Retention Duration `json:"retention,omitempty"`
	// Of the tokens that clients got for themselves, which concern no person. Default: as retention.
	TokenRetention Duration `json:"token_retention,omitempty"`
	// Who is told of each event that concerns a person or the configuration. Default: nobody.
	Webhooks []Webhook `json:"webhooks,omitempty"`
}

// Webhook posts events to a receiver as Standard Webhooks says, until they are taken.
type Webhook struct {
	// Where they are posted to. Required.
	URL string `json:"url"`
	// What signs them, at least 32 characters: the key itself, or whsec_ and the key in Base64. Required.
	Secret Sensitive `json:"secret"`
}

// hasPlaceholder tells whether a value is only known when the configuration is loaded.
func hasPlaceholder(s string) bool { return strings.Contains(s, "{") }

// resolver turns the texts of a configuration into values and gathers what is wrong with them, so that one message names all of it.
type resolver struct {
	// repl resolves placeholders. nil while adapting: then a value with a placeholder is not looked at.
	repl *caddy.Replacer
	// verbatim takes every value as it is, braces and all.
	verbatim bool
	problems []string
}

// adapting tells whether values with placeholders are unknown yet.
func (r *resolver) adapting() bool { return r.repl == nil && !r.verbatim }

func (r *resolver) fail(format string, args ...any) {
	r.problems = append(r.problems, fmt.Sprintf(format, args...))
}

// failed adds an error that says itself what it is about.
func (r *resolver) failed(err error) {
	if err != nil {
		r.problems = append(r.problems, err.Error())
	}
}

// text resolves a value and checks it. ok is false when there is nothing to use: empty, unknown yet, or wrong.
func (r *resolver) text(option, v string, check func(string) error) (out string, ok bool) {
	if v == "" {
		return "", false
	}
	if hasPlaceholder(v) && !r.verbatim {
		if r.adapting() {
			return "", false
		}
		resolved, err := r.repl.ReplaceOrErr(v, true, true)
		if err != nil {
			r.fail("%s: %v: set it, or write the value itself", option, err)
			return "", false
		}
		v = resolved
	}
	if check != nil {
		if err := check(v); err != nil {
			r.fail("%s: %v", option, err)
			return "", false
		}
	}
	return v, true
}

func (r *resolver) plain(option, v string, check func(string) error) string {
	out, _ := r.text(option, v, check)
	return out
}

func (r *resolver) list(option string, vs []string, check func(string) error) []string {
	var out []string
	for _, v := range vs {
		s, ok := r.text(option, v, check)
		if ok {
			out = append(out, s)
		} else if v == "" {
			r.fail("%s: a value is empty", option)
		}
	}
	return out
}

func (r *resolver) duration(option string, v Duration) time.Duration {
	s, ok := r.text(option, string(v), checkDuration)
	if !ok {
		return 0
	}
	d, _ := caddy.ParseDuration(s)
	return d
}

func (r *resolver) count(option string, v Count, check func(string) error) int {
	s, ok := r.text(option, string(v), check)
	if !ok {
		return 0
	}
	n, _ := parseCount(s)
	return n
}

// err is everything that is wrong, in one message.
func (r *resolver) err() error {
	if len(r.problems) == 0 {
		return nil
	}
	return fmt.Errorf("%s", strings.Join(r.problems, "; "))
}
