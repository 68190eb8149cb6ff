package caddymodule

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"

	"github.com/gatehouse-id/gatehouse/caddymodule/admins"
	"github.com/gatehouse-id/gatehouse/caddymodule/client"
	"github.com/gatehouse-id/gatehouse/caddymodule/clientcert"
	"github.com/gatehouse-id/gatehouse/caddymodule/extauthz"
	"github.com/gatehouse-id/gatehouse/caddymodule/forwardauth"
	"github.com/gatehouse-id/gatehouse/caddymodule/internal/options"
	"github.com/gatehouse-id/gatehouse/caddymodule/internal/reference"
	"github.com/gatehouse-id/gatehouse/caddymodule/policy"
	"github.com/gatehouse-id/gatehouse/caddymodule/protect"
	"github.com/gatehouse-id/gatehouse/caddymodule/serviceprovider"
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
	return httpcaddyfile.App{Name: options.AppName, Value: caddyconfig.JSON(&a, nil)}, nil
}

// UnmarshalCaddyfile reads the global block:
//
//	gatehouse {
//		issuer         <url>
//		storage        <module> ...
//		encryption_key <key> [<older key>...]
//		scope <name> { ... }
//		authorization_details <type> { ... }
//		client <id> { ... }
//		api_client <id> { ... }
//		policy <name> { ... }
//		forward_auth <name> { ... }
//		forward_auth_from <network>...
//		forward_auth_secret <secret>
//		ext_authz <address> { ... }
//		idp <id> <module> { ... }
//		service_provider <id> { ... }
//		saml_sign <key pair>...
//		identity { ... }
//		events { ... }
//		client_metadata_documents [on|off] { ... }
//		trust_issuer <url> { ... }
//		registration open|token { ... }
//		par required
//		client_cert_header <name>
//		client_ca <file>...
//		mtls_endpoint_aliases <origin>
//		shared_signals named|all
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
	a.Places = options.ReadPlaces(d, "")
	if d.NextArg() {
		return d.Errf("gatehouse: unexpected argument %q, its options stand in a block", d.Val())
	}
	words := forwardauth.Subdirectives(&a.ForwardAuth)
	maps.Copy(words, clientcert.Subdirectives(&a.Certificates))
	maps.Copy(words, options.Subdirectives{
		"issuer":                    options.Value(&a.Issuer, options.CheckIssuer),
		"storage":                   a.readStorage,
		"encryption_key":            options.Values(&a.EncryptionKeys, checkKey),
		"scope":                     a.readScope,
		"authorization_details":     a.readDetailType,
		"client":                    a.readClient,
		"api_client":                a.readAPIClient,
		"policy":                    a.readPolicy,
		"ext_authz":                 func(d *caddyfile.Dispenser) (err error) { a.ExtAuthz, err = extauthz.Read(d); return err },
		"idp":                       a.readIDP,
		"service_provider":          a.readServiceProvider,
		"saml_sign":                 options.Values(&a.SAMLSign, nil),
		"identity":                  func(d *caddyfile.Dispenser) error { return a.Identity.readBlock(d, a.Places) },
		"events":                    a.Events.readBlock,
		"par":                       client.ReadRequired("par", &a.PARRequired),
		"shared_signals":            options.Value(&a.SharedSignals, checkSignals),
		"outbound":                  a.Outbound.readBlock,
		"registration":              func(d *caddyfile.Dispenser) (err error) { a.Registration, err = client.ReadRegistration(d); return err },
		"client_metadata_documents": func(d *caddyfile.Dispenser) (err error) { a.ClientDocuments, err = client.ReadDocuments(d); return err },
		"trust_issuer":              a.readTrustedIssuer,
		"mail":                      a.readMail,
		"sms":                       a.readSMS,
		"push":                      a.readPush,
	})
	if err := options.ReadBlock(d, "gatehouse", &reference.Gatehouse, words); err != nil {
		return err
	}
	if err := a.checkIDPs(); err != nil {
		return err
	}
	if a.Issuer == "" {
		return options.At(start, errors.New("gatehouse: issuer is missing: add for example `issuer https://auth.example.com`"))
	}
	return nil
}

func (a *App) readClient(d *caddyfile.Dispenser) error {
	c, err := client.Read(d, a.Clients)
	a.Clients = append(a.Clients, c)
	return err
}

func (a *App) readDetailType(d *caddyfile.Dispenser) error {
	t, err := client.ReadDetailType(d, a.AuthorizationDetails)
	a.AuthorizationDetails = append(a.AuthorizationDetails, t)
	return err
}

func (a *App) readTrustedIssuer(d *caddyfile.Dispenser) error {
	t, err := client.ReadTrusted(d)
	a.TrustedIssuers = append(a.TrustedIssuers, t)
	return err
}

func (a *App) readServiceProvider(d *caddyfile.Dispenser) error {
	p, err := serviceprovider.Read(d, a.ServiceProviders)
	a.ServiceProviders = append(a.ServiceProviders, p)
	return err
}

func (a *App) readAPIClient(d *caddyfile.Dispenser) error {
	c, err := client.ReadAPIClient(d, a.APIClients)
	a.APIClients = append(a.APIClients, c)
	return err
}

func (a *App) readPolicy(d *caddyfile.Dispenser) error {
	if a.Policies == nil {
		a.Policies = map[string]*policy.Policy{}
	}
	return policy.ReadNamed(d, a.Policies, protect.CheckPublic)
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
		return d.Errf("storage: module %s is not built in: use badger or postgres", id)
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
//		assurance   <1 to 4>
//		usage_limit <number>
//	}
func (a *App) readScope(d *caddyfile.Dispenser) error {
	var s Scope
	if err := options.ReadName(d, &s.Name, options.CheckScope); err != nil {
		return err
	}
	for _, other := range a.Scopes {
		if other.Name == s.Name {
			return d.Errf("scope %s is already defined at %s: keep one of them", s.Name, a.Places.Of("scope "+s.Name))
		}
	}
	err := options.ReadBlock(d, "scope "+s.Name, &reference.Scope, options.Subdirectives{
		"description": options.Text(&s.Description),
		"level":       options.Value(&s.Level, options.CheckLevel),
		"assurance":   options.Value(&s.Assurance, options.CheckLevel),
		"usage_limit": options.Value(&s.UsageLimit, checkUsageLimit),
	})
	a.Scopes = append(a.Scopes, s)
	return err
}

// readBlock reads
//
//	outbound {
//		allow <network>...
//	}
func (o *Outbound) readBlock(d *caddyfile.Dispenser) error {
	return options.Block(&reference.Outbound, options.Subdirectives{"allow": options.Values(&o.Allow, checkOpened)})(d)
}

// readBlock reads
//
//	identity {
//		person <username> { ... }
//		partitions    [<name>...]
//		session       { idle|absolute|remember <duration>; per_person <number> }
//		lockout       { failures <number>; window <duration> }
//		password_hash { memory <size>; iterations <number>; concurrency <number> }
//		locales       <locale>...
//		extension     <directory>
//		brand         { name <text>; logo <file>; color <color>; help <url> }
//		bootstrap     <file>
//		credentials_key <hexadecimal digits>
//		passkeys      on|off
//		breach        { url <url>; file <file>; timeout <duration>; on_failure open|closed }
//		<switch>      on|off
//	}
func (i *Identity) readBlock(d *caddyfile.Dispenser, places options.Places) error {
	start := d.Token()
	words := options.Subdirectives{
		"person":     func(d *caddyfile.Dispenser) error { return i.readPerson(d, places) },
		"partitions": i.readPartitions,
		"session": options.Block(&reference.Session, options.Subdirectives{
			"idle":     options.Value(&i.Session.Idle, options.CheckDuration),
			"absolute": options.Value(&i.Session.Absolute, options.CheckDuration),
			"remember": options.Value(&i.Session.Remember, options.CheckDuration),

			"per_person": options.Value(&i.Session.PerPerson, checkPerPerson),
		}),
		"lockout": options.Block(&reference.Lockout, options.Subdirectives{
			"failures": options.Value(&i.Lockout.Failures, checkFailures),
			"window":   options.Value(&i.Lockout.Window, options.CheckDuration),
		}),
		"password_hash": options.Block(&reference.PasswordHash, options.Subdirectives{
			"memory":      options.Value(&i.PasswordHash.Memory, checkHashMemory),
			"iterations":  options.Value(&i.PasswordHash.Iterations, checkIterations),
			"concurrency": options.Value(&i.PasswordHash.Concurrency, checkConcurrency),
		}),
		"locales":   options.Values(&i.Locales, checkLocale),
		"extension": options.Value(&i.Extension, nil),
		"bootstrap": options.Value(&i.Bootstrap, nil),

		"credentials_key":  options.Value(&i.CredentialsKey, api.CheckCredentialsKey),
		"passkeys":         options.Value(&i.Passkeys, checkOnOff),
		"common_passwords": options.Value(&i.CommonPasswords, checkOnOff),
		"second_factor":    options.Value(&i.SecondFactor, options.CheckSecondFactor),
		"usernames":        options.Value(&i.Usernames, checkUsernames),

		"scim_verifies_emails": options.Values(&i.SCIMVerifiesEmails, nil),

		"admin":              func(d *caddyfile.Dispenser) (err error) { i.Admin, err = admins.Read(d); return err },
		"access_mail":        options.Values(&i.AccessMail, checkEmail),
		"access_mail_groups": options.Values(&i.AccessMailGroups, nil),
		"brand": options.Block(&reference.Brand, options.Subdirectives{
			"name":  options.Text(&i.Brand.Name),
			"logo":  options.Value(&i.Brand.Logo, nil),
			"color": i.Brand.readColor,
			"help":  options.Value(&i.Brand.Help, checkHelp),
		}),
		"breach": i.Breach.readBlock,
	}
	maps.Copy(words, i.Switches.Subdirectives())
	err := options.Block(&reference.Identity, words)(d)
	if err == nil && i.Partitions == nil && slices.ContainsFunc(i.Persons, func(p Person) bool { return p.Partition != "" }) {
		err = options.At(start, errors.New("a person has a partition, but identity has no partitions: add them"))
	}
	return err
}

// readColor reads a colour with or without the #. Without quotes the # starts a comment.
func (b *Brand) readColor(d *caddyfile.Dispenser) error {
	if d.CountRemainingArgs() == 0 {
		return d.Err("color: a value is missing: # starts a comment, so write 2457d6 or \"#2457d6\"")
	}
	return options.ReadValue(d, &b.Color, checkColor)
}

// readPartitions reads the names of the partitions, if there are any.
func (i *Identity) readPartitions(d *caddyfile.Dispenser) error {
	i.Partitions = new(Partitions)
	if d.CountRemainingArgs() == 0 {
		return options.NoMore(d, "partitions")
	}
	return options.Values(&i.Partitions.Names, checkPartition)(d)
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
func (i *Identity) readPerson(d *caddyfile.Dispenser, places options.Places) error {
	start := d.Token()
	var p Person
	if err := options.ReadName(d, &p.Username, nil); err != nil {
		return err
	}
	var verified bool
	err := options.ReadBlock(d, "person "+p.Username, &reference.Person, options.Subdirectives{
		"password":       options.Value(&p.Password, checkPassword),
		"password_hash":  options.Value(&p.PasswordHash, options.CheckPHC),
		"name":           options.Text(&p.Name),
		"given_name":     options.Text(&p.GivenName),
		"family_name":    options.Text(&p.FamilyName),
		"email":          options.Value(&p.Email, checkEmail),
		"email_verified": options.Flag(&verified),
		"groups":         options.Values(&p.Groups, nil),
		"locale":         options.Value(&p.Locale, nil),
		"partition":      options.Value(&p.Partition, checkPartition),
	})
	if err != nil {
		return err
	}
	for _, other := range i.Persons {
		if other.Username == p.Username && other.Partition == p.Partition {
			return options.At(start, fmt.Errorf("person %s is already defined at %s: keep one of them", p.Username, places.Of("person "+p.Username)))
		}
	}
	if verified {
		p.EmailVerified = &verified
	}
	r := options.NewResolver(nil)
	if p.build(r); r.Err() != nil {
		return options.At(start, r.Err())
	}
	i.Persons = append(i.Persons, p)
	return nil
}
