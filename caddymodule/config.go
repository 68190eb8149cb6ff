package caddymodule

import (
	"github.com/gatehouse-id/gatehouse/caddymodule/internal/caddyfileutil"
	"github.com/gatehouse-id/gatehouse/caddymodule/internal/switches"
	"github.com/gatehouse-id/gatehouse/caddymodule/roles"
)

// Every text of the configuration may hold Caddy's global placeholders, such as {env.X} and {file./path}. They are
// resolved when the configuration is loaded, not when it is adapted.

// Scope describes a scope. A scope without description, levels or limit only needs to be named by clients.
type Scope struct {
	// The scope as clients ask for it. Required.
	Name string `json:"name"`
	// The description on the consent page. Default: the name.
	Description string `json:"description,omitempty"`
	// The authentication level that the person must have reached, 1 to 4. Default: any.
	Level caddyfileutil.Count `json:"level,omitempty"`
	// The identity assurance level that the person must have, 1 to 4. Default: any.
	Assurance caddyfileutil.Count `json:"assurance,omitempty"`
	// How often an access token with this scope may be used; the lowest of its scopes counts. Default: 0, unlimited.
	UsageLimit caddyfileutil.Count `json:"usage_limit,omitempty"`
}

// Identity is the identity service: the persons and how they sign in.
type Identity struct {
	// Persons that are created when they do not exist. The groups of an existing person follow; whatever else differs is
	// reported and stays as it is stored. Default: none.
	Persons []Person `json:"persons,omitempty"`
	// Keeps persons apart: a username is then unique within its partition. Default: off, all are in the partition
	// default.
	Partitions *Partitions `json:"partitions,omitempty"`
	// Who has a role in the admin console. Default: the members of its groups.
	Admin *roles.Admin `json:"admin,omitempty"`
	// How long sign-ins last.
	Session Session `json:"session,omitzero"`
	// When failed sign-ins are slowed down.
	Lockout Lockout `json:"lockout,omitzero"`
	// What a password hash costs.
	PasswordHash PasswordHash `json:"password_hash,omitzero"`
	// The languages of the pages, the default first: en, nl, de, fr, also with a country such as de-AT. Languages of
	// custom messages need not be listed. Default: en.
	Locales []string `json:"locales,omitempty"`
	// How the pages look.
	Brand Brand `json:"brand,omitzero"`
	// A JSON file of configuration units, which is applied when the storage holds none yet. Default: none.
	Bootstrap string `json:"bootstrap,omitempty"`
	// A directory of messages (<locale>.json and default.json, keys and texts) and of static files, which are served
	// under /assets/ext/. Default: none.
	Extension string `json:"extension,omitempty"`
	// The AES-GCM key of the credentials API: 32, 48 or 64 hexadecimal digits. Default: none, and the API takes no
	// passwords.
	CredentialsKey caddyfileutil.Sensitive `json:"credentials_key,omitempty"`
	// Whether people can sign in with passkeys: on or off. Default: on where browsers allow them, which is for an https
	// issuer with a host name of several parts, and for localhost.
	Passkeys string `json:"passkeys,omitempty"`
	// The host name that the passkeys of people belong to, such as that of an issuer that has moved. Default: the host of
	// the issuer.
	PasskeyRPID string `json:"passkey_rp_id,omitempty"`
	// The other origins whose pages browsers let use the passkeys of this host. Default: none.
	PasskeyOrigins []string `json:"passkey_origins,omitempty"`
	// Whether people get a passkey after a sign-in with a password, where their browser makes one without a question: on
	// or off. Default: on.
	PasskeyUpgrade string `json:"passkey_upgrade,omitempty"`
	// When a sign-in needs a second step: when_set_up, always or on_demand. The setting step_up.second_factor and
	// applications can say otherwise. Default: when_set_up.
	SecondFactor string `json:"second_factor,omitempty"`
	// Whether new passwords are refused that are common, or repeat the username, the e-mail address or the name of the
	// site: on or off. Default: on.
	CommonPasswords string `json:"common_passwords,omitempty"`
	// Whether new sessions are bound to the device of the browser where it can, by Device Bound Session Credentials: on or
	// off. Default: off.
	DeviceBound string `json:"device_bound,omitempty"`
	// What usernames are: email. New ones are then e-mail addresses, and the pages ask for them as such. Default: any
	// names.
	Usernames string `json:"usernames,omitempty"`
	// The clients and API clients whose word counts, in SCIM, that the primary address is the person's. Default: none.
	SCIMVerifiesEmails []string `json:"scim_verifies_emails,omitempty"`
	// Who is told by e-mail that someone asks for access to a site with request_access. It needs mail. Default: no one.
	AccessMail []string `json:"access_mail,omitempty"`
	// The groups whose members are told so too, at verified addresses. It needs mail. Default: none.
	AccessMailGroups []string `json:"access_mail_groups,omitempty"`
	// Switches of the settings that no one has set otherwise, by the words of the Caddyfile, such as sign_up: on or
	// off. docs/configuration.md has the list. Default: as that says.
	Switches switches.Switches `json:"switches,omitempty"`
	// Where passwords are looked up that are known from breaches, if the policy wants that. Default: the service of
	// haveibeenpwned.com.
	Breach Breach `json:"breach,omitzero"`
}

// Partitions keep persons apart.
type Partitions struct {
	// The partitions besides the default one that persons can be added to. Default: any.
	Names []string `json:"names,omitempty"`
}

// Person is an account that can sign in.
type Person struct {
	// The username; an e-mail address counts as the person's verified e-mail. Required.
	Username string `json:"username"`
	// The password, 8 to 256 characters. Default: none, and the person cannot sign in by password.
	Password caddyfileutil.Sensitive `json:"password,omitempty"`
	// The password as an Argon2id or bcrypt PHC string, instead of password. Default: none.
	PasswordHash caddyfileutil.Sensitive `json:"password_hash,omitempty"`
	// The full name. Default: none.
	Name string `json:"name,omitempty"`
	// The given name. Default: none.
	GivenName string `json:"given_name,omitempty"`
	// The family name. Default: none.
	FamilyName string `json:"family_name,omitempty"`
	// The e-mail address. Default: the username, when that is one.
	Email string `json:"email,omitempty"`
	// Whether the address is known to be the person's. Default: true when the username is that address, otherwise
	// false.
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
	Idle caddyfileutil.Duration `json:"idle,omitempty"`
	// At most. Default: 12h.
	Absolute caddyfileutil.Duration `json:"absolute,omitempty"`
	// At most, when the person asked to stay signed in. Default: 30d.
	Remember caddyfileutil.Duration `json:"remember,omitempty"`
	// How many a person has at once, 1 to 1000, and how many of their browsers are recognised. The one that was used
	// longest ago makes room. Default: 50.
	PerPerson caddyfileutil.Count `json:"per_person,omitempty"`
}

// Lockout says when failed sign-ins are slowed down. No lockout is permanent.
type Lockout struct {
	// How many failures of one person from one address cause no wait. Default: 5.
	Failures caddyfileutil.Count `json:"failures,omitempty"`
	// The time in which they are counted. Default: 15m.
	Window caddyfileutil.Duration `json:"window,omitempty"`
}

// PasswordHash is the cost of Argon2id.
type PasswordHash struct {
	// Memory of one hash, 8MiB to 256MiB. Default: 19MiB.
	Memory string `json:"memory,omitempty"`
	// Passes over the memory. Default: 2.
	Iterations caddyfileutil.Count `json:"iterations,omitempty"`
	// How many are computed at once. Default: one less than the processors, at least one.
	Concurrency caddyfileutil.Count `json:"concurrency,omitempty"`
}

// Brand is the look of the pages.
type Brand struct {
	// The name above each page. Default: Gatehouse.
	Name string `json:"name,omitempty"`
	// A file with a PNG, JPEG or GIF picture of at most 64 KiB. Default: the name as text.
	Logo string `json:"logo,omitempty"`
	// The accent colour as rrggbb, with or without a # in front. It is darkened or lightened until it can be read.
	// Default: Gatehouse's own.
	Color string `json:"color,omitempty"`
	// Where the help link in the footer of the pages leads: an http, https or mailto URL. Default: no link.
	Help string `json:"help,omitempty"`
}

// Outbound is about requests to addresses that are not in this configuration: those of the configuration API, of
// metadata and of clients.
type Outbound struct {
	// Networks such as 10.0.0.0/8 that may be reached besides public addresses. Default: none.
	Allow []string `json:"allow,omitempty"`
}

// Events says how long events are kept, and where they are posted.
type Events struct {
	// Of all events except those of token_retention. Default: for ever.
	Retention caddyfileutil.Duration `json:"retention,omitempty"`
	// Of the tokens that clients got for themselves and of their failed authentications, which concern no person. The
	// word forever keeps them. Default: 90d, or retention if that is shorter.
	TokenRetention caddyfileutil.Duration `json:"token_retention,omitempty"`
	// Of the log of calls that sites with audit let pass, not of calls that are events. The word forever keeps them.
	// Default: 90d, or retention if that is shorter.
	CallRetention caddyfileutil.Duration `json:"call_retention,omitempty"`
	// Receivers of each event that concerns a person or the configuration. Default: none.
	Webhooks []Webhook `json:"webhooks,omitempty"`
}

// Webhook posts events to a receiver, as Standard Webhooks says, until it accepts them.
type Webhook struct {
	// Where they are posted to. Required.
	URL string `json:"url"`
	// What signs them, at least 32 characters: the key itself, or whsec_ and the key in Base64. Required.
	Secret caddyfileutil.Sensitive `json:"secret"`
}
