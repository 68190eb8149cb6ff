package caddymodule

import (
	"errors"
	"fmt"
	"slices"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"

	"github.com/gatehouse-id/gatehouse/identity/api"
)

func init() {
	httpcaddyfile.RegisterGlobalOption("gatehouse", parseGlobal)
}

// parseGlobal reads the global option gatehouse into the configuration of the app.
func parseGlobal(d *caddyfile.Dispenser, existing any) (any, error) {
	if !d.Next() {
		return nil, d.ArgErr()
	}
	if existing != nil {
		return nil, d.Err("gatehouse is already set: one block holds all of it")
	}
	var a App
	if err := a.readGlobal(d); err != nil {
		return nil, err
	}
	return httpcaddyfile.App{Name: appName, Value: caddyconfig.JSON(&a, nil)}, nil
}

// UnmarshalCaddyfile reads the global block:
//
//	gatehouse {
//		issuer         <url>
//		storage        <module> ...
//		encryption_key <key> [<older key>...]
//		scope <name> { ... }
//		client <id> { ... }
//		api_client <id> { ... }
//		idp <id> <module> { ... }
//		identity { ... }
//		events { ... }
//		outbound { allow <network>... }
//		mail <module> ...
//		sms  <module> ...
//		push <module> ...
//	}
func (a *App) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next()
	return a.readGlobal(d)
}

func (a *App) readGlobal(d *caddyfile.Dispenser) error {
	start := d.Token()
	if d.NextArg() {
		return d.Errf("gatehouse: unexpected argument %q, its options stand in a block", d.Val())
	}
	err := readBlock(d, "gatehouse", subdirectives{
		"issuer":         value(&a.Issuer, checkIssuer),
		"storage":        {parse: a.readStorage},
		"encryption_key": values(&a.EncryptionKeys, checkKey),
		"scope":          {parse: a.readScope, repeats: true},
		"client":         {parse: a.readClient, repeats: true},
		"api_client":     {parse: a.readAPIClient, repeats: true},
		"idp":            {parse: a.readIDP, repeats: true},
		"identity":       {parse: a.Identity.readBlock},
		"events":         {parse: a.Events.readBlock},
		"outbound":       {parse: a.Outbound.readBlock},
		"mail":           {parse: a.readMail},
		"sms":            {parse: a.readSMS},
		"push":           {parse: a.readPush},
	})
	if err != nil {
		return err
	}
	if err := a.checkIDPs(); err != nil {
		return err
	}
	if a.Issuer == "" {
		return at(start, errors.New("gatehouse: issuer is missing: add for example `issuer https://auth.example.com`"))
	}
	return nil
}

// at adds the place of an earlier token to an error.
func at(t caddyfile.Token, err error) error {
	return fmt.Errorf("%w, at %s:%d", err, t.File, t.Line)
}

// readStorage reads
//
//	storage <module> [<arguments of the module>...] [{ ... }]
func (a *App) readStorage(d *caddyfile.Dispenser) error {
	if !d.NextArg() {
		return d.Err("storage: the module is missing: add for example `storage badger /var/lib/gatehouse`")
	}
	name := d.Val()
	id := storageNamespace + "." + name
	if _, err := caddy.GetModule(id); err != nil {
		if name == "postgres" {
			return d.Errf("storage %s %w: use badger", name, errNotSupported)
		}
		return d.Errf("storage: module %s is not built in: use badger", id)
	}
	mod, err := caddyfile.UnmarshalModule(d, id)
	if err != nil {
		return err
	}
	a.StorageRaw = caddyconfig.JSONModuleObject(mod, "module", name, nil)
	return nil
}

// readScope reads
//
//	scope <name> {
//		description <text>
//		level       <1 to 4>
//		usage_limit <number>
//	}
func (a *App) readScope(d *caddyfile.Dispenser) error {
	var s Scope
	if err := readName(d, &s.Name, checkScope); err != nil {
		return err
	}
	for _, other := range a.Scopes {
		if other.Name == s.Name {
			return d.Errf("scope %s is already defined: keep one of them", s.Name)
		}
	}
	err := readBlock(d, "scope "+s.Name, subdirectives{
		"description": text(&s.Description),
		"level":       value(&s.Level, checkLevel),
		"usage_limit": value(&s.UsageLimit, checkUsageLimit),
	})
	a.Scopes = append(a.Scopes, s)
	return err
}

// readName reads the one argument that names a block.
func readName(d *caddyfile.Dispenser, dst *string, fn func(string) error) error {
	word := d.Val()
	if !d.NextArg() {
		return d.Errf("%s: a name is missing", word)
	}
	*dst = d.Val()
	if err := check(d, word, *dst, fn); err != nil {
		return err
	}
	if d.NextArg() {
		return d.Errf("%s %s: unexpected argument %q", word, *dst, d.Val())
	}
	return nil
}

// readClient reads
//
//	client <id> {
//		name                      <text>
//		public
//		secret                    <secret>     # twice while it is rotated
//		secret_hash               <PHC string>
//		auth_method               basic|post|private_key_jwt
//		jwks                      <file or URL>
//		redirect_uris             <uri>...
//		post_logout_redirect_uris <uri>...
//		backchannel_logout_uri    <uri>
//		frontchannel_logout_uri   <uri>
//		grants                    authorization_code|refresh_token|client_credentials|implicit|password|validate_bearer...
//		scopes                    <scope>...
//		default_scopes            <scope>...
//		idps                      identity|<id of an idp>...
//		consent                   on|off|always
//		pkce                      required
//		id_token_alg              RS256|ES256|EdDSA
//		token_format              opaque|jwt
//		app                       <identifier> <platform> <version>
//		subject_type              public|pairwise
//		audiences                 <uri>...
//		origins                   <origin>...
//		max_sessions              <number>
//		disabled
//		lifetimes { code|access_token|refresh_token|refresh_chain|refresh_grace|session <duration> }
//	}
func (a *App) readClient(d *caddyfile.Dispenser) error {
	start := d.Token()
	var c Client
	if err := readName(d, &c.ID, nil); err != nil {
		return err
	}
	for _, other := range a.Clients {
		if other.ID == c.ID {
			return d.Errf("client %s is already defined: keep one of them", c.ID)
		}
	}
	if err := readBlock(d, "client "+c.ID, c.subdirectives()); err != nil {
		return err
	}
	// What is wrong with the client as a whole is said here, where the line is known.
	r := &resolver{}
	if c.build(r); r.err() != nil {
		return at(start, r.err())
	}
	c.token = start
	a.Clients = append(a.Clients, c)
	return nil
}

func (c *Client) subdirectives() subdirectives {
	return subdirectives{
		"name":                      text(&c.Name),
		"public":                    flag(&c.Public),
		"secret":                    another(&c.Secrets, checkSecret),
		"secret_hash":               another(&c.SecretHashes, checkPHC),
		"auth_method":               value(&c.AuthMethod, checkAuthMethod),
		"jwks":                      value(&c.JWKS, nil),
		"redirect_uris":             values(&c.RedirectURIs, checkURI),
		"backchannel_logout_uri":    value(&c.BackchannelLogoutURI, checkURI),
		"frontchannel_logout_uri":   value(&c.FrontchannelLogoutURI, checkURI),
		"post_logout_redirect_uris": values(&c.PostLogoutRedirectURIs, checkURI),
		"grants":                    values(&c.Grants, checkGrant),
		"scopes":                    values(&c.Scopes, checkScope),
		"default_scopes":            values(&c.DefaultScopes, checkScope),
		"idps":                      values(&c.IDPs, checkIDP),
		"consent":                   value(&c.Consent, checkConsent),
		"pkce":                      {parse: c.readPKCE},
		"id_token_alg":              value(&c.IDTokenAlg, checkAlg),
		"token_format":              value(&c.TokenFormat, checkTokenFormat),
		"subject_type":              value(&c.SubjectType, checkSubjectType),
		"app":                       {parse: c.readApp},
		"audiences":                 values(&c.Audiences, checkURI),
		"origins":                   values(&c.Origins, checkOrigin),
		"max_sessions":              value(&c.MaxSessions, checkMaxSessions),
		"disabled":                  flag(&c.Disabled),
		"logo":                      value(&c.Logo, nil),
		"lifetimes": block(subdirectives{
			"code":          value(&c.Lifetimes.Code, checkDuration),
			"access_token":  value(&c.Lifetimes.AccessToken, checkDuration),
			"refresh_token": value(&c.Lifetimes.RefreshToken, checkDuration),
			"refresh_chain": value(&c.Lifetimes.RefreshChain, checkDuration),
			"refresh_grace": value(&c.Lifetimes.RefreshGrace, checkDuration),
			"session":       value(&c.Lifetimes.Session, checkDuration),
		}),
	}
}

func (c *Client) readApp(d *caddyfile.Dispenser) error {
	args := d.RemainingArgs()
	if len(args) != 3 {
		return d.Err("app: want identifier, platform and version, such as app com.example.app android 4.2.0")
	}
	c.App = &ClientApp{Identifier: args[0], Platform: args[1], Version: args[2]}
	return nil
}

func (c *Client) readPKCE(d *caddyfile.Dispenser) error {
	var word string
	if err := readValue(d, &word, oneOf([]string{"required"})); err != nil {
		return err
	}
	if hasPlaceholder(word) {
		return d.Errf("pkce: want the word required")
	}
	c.PKCERequired = true
	return nil
}

// readAPIClient reads
//
//	api_client <id> {
//		secret      <secret>     # twice while it is rotated
//		secret_hash <PHC string>
//		apis        introspection|configuration|credentials|events|persons...
//		audiences   <uri>...
//		disabled
//	}
func (a *App) readAPIClient(d *caddyfile.Dispenser) error {
	start := d.Token()
	var c APIClient
	if err := readName(d, &c.ID, nil); err != nil {
		return err
	}
	for _, other := range a.APIClients {
		if other.ID == c.ID {
			return d.Errf("api_client %s is already defined: keep one of them", c.ID)
		}
	}
	err := readBlock(d, "api_client "+c.ID, subdirectives{
		"secret":      another(&c.Secrets, checkSecret),
		"secret_hash": another(&c.SecretHashes, checkPHC),
		"apis":        values(&c.APIs, checkAPI),
		"audiences":   values(&c.Audiences, checkURI),
		"disabled":    flag(&c.Disabled),
	})
	if err != nil {
		return err
	}
	r := &resolver{}
	if c.build(r); r.err() != nil {
		return at(start, r.err())
	}
	a.APIClients = append(a.APIClients, c)
	return nil
}

// readBlock reads
//
//	outbound {
//		allow <network>...
//	}
func (o *Outbound) readBlock(d *caddyfile.Dispenser) error {
	return block(subdirectives{"allow": values(&o.Allow, checkOpened)}).parse(d)
}

// readBlock reads
//
//	identity {
//		person <username> { ... }
//		partitions    [<name>...]
//		session       { idle|absolute|remember <duration> }
//		lockout       { failures <number>; window <duration> }
//		password_hash { memory <size>; iterations <number>; concurrency <number> }
//		locales       <locale>...
//		extension     <directory>
//		brand         { name <text>; logo <file>; color <color>; help <url> }
//		bootstrap     <file>
//		credentials_key <hexadecimal digits>
//		passkeys      on|off
//		breach        { url <url>; file <file>; timeout <duration>; on_failure open|closed }
//	}
func (i *Identity) readBlock(d *caddyfile.Dispenser) error {
	start := d.Token()
	err := block(subdirectives{
		"person":     {parse: i.readPerson, repeats: true},
		"partitions": {parse: i.readPartitions},
		"session": block(subdirectives{
			"idle":     value(&i.Session.Idle, checkDuration),
			"absolute": value(&i.Session.Absolute, checkDuration),
			"remember": value(&i.Session.Remember, checkDuration),
		}),
		"lockout": block(subdirectives{
			"failures": value(&i.Lockout.Failures, checkFailures),
			"window":   value(&i.Lockout.Window, checkDuration),
		}),
		"password_hash": block(subdirectives{
			"memory":      value(&i.PasswordHash.Memory, checkHashMemory),
			"iterations":  value(&i.PasswordHash.Iterations, checkIterations),
			"concurrency": value(&i.PasswordHash.Concurrency, checkConcurrency),
		}),
		"locales":   values(&i.Locales, checkLocale),
		"extension": value(&i.Extension, nil),
		"bootstrap": value(&i.Bootstrap, nil),

		"credentials_key": value(&i.CredentialsKey, api.CheckCredentialsKey),
		"passkeys":        value(&i.Passkeys, checkOnOff),
		"brand": block(subdirectives{
			"name":  text(&i.Brand.Name),
			"logo":  value(&i.Brand.Logo, nil),
			"color": {parse: i.Brand.readColor},
			"help":  value(&i.Brand.Help, checkHelp),
		}),
		"breach": {parse: i.Breach.readBlock},
	}).parse(d)
	if err == nil && i.Partitions == nil && slices.ContainsFunc(i.Persons, func(p Person) bool { return p.Partition != "" }) {
		err = at(start, errors.New("a person has a partition, but identity has no partitions: add them"))
	}
	return err
}

// readColor reads a colour with or without the #, which starts a comment where it is not quoted.
func (b *Brand) readColor(d *caddyfile.Dispenser) error {
	if d.CountRemainingArgs() == 0 {
		return d.Err("color: a value is missing: # starts a comment, so write 2457d6 or \"#2457d6\"")
	}
	return readValue(d, &b.Color, checkColor)
}

// readPartitions reads the names of the partitions, if there are any.
func (i *Identity) readPartitions(d *caddyfile.Dispenser) error {
	i.Partitions = new(Partitions)
	if d.CountRemainingArgs() == 0 {
		return noMore(d, "partitions")
	}
	return values(&i.Partitions.Names, checkPartition).parse(d)
}

// readPerson reads
//
//	person <username> {
//		password       <password>
//		password_hash  <PHC string>
//		name           <text>
//		given_name     <text>
//		family_name    <text>
//		email          <address>
//		email_verified
//		groups         <group>...
//		locale         <tag>
//		partition      <name>
//	}
func (i *Identity) readPerson(d *caddyfile.Dispenser) error {
	start := d.Token()
	var p Person
	if err := readName(d, &p.Username, nil); err != nil {
		return err
	}
	var verified bool
	err := readBlock(d, "person "+p.Username, subdirectives{
		"password":       value(&p.Password, checkPassword),
		"password_hash":  value(&p.PasswordHash, checkPHC),
		"name":           text(&p.Name),
		"given_name":     text(&p.GivenName),
		"family_name":    text(&p.FamilyName),
		"email":          value(&p.Email, checkEmail),
		"email_verified": flag(&verified),
		"groups":         values(&p.Groups, nil),
		"locale":         value(&p.Locale, nil),
		"partition":      value(&p.Partition, checkPartition),
	})
	if err != nil {
		return err
	}
	for _, other := range i.Persons {
		if other.Username == p.Username && other.Partition == p.Partition {
			return at(start, fmt.Errorf("person %s is already defined: keep one of them", p.Username))
		}
	}
	if verified {
		p.EmailVerified = &verified
	}
	r := &resolver{}
	if p.build(r); r.err() != nil {
		return at(start, r.err())
	}
	i.Persons = append(i.Persons, p)
	return nil
}
