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

	"github.com/gatehouse-id/gatehouse/caddymodule/client"
	"github.com/gatehouse-id/gatehouse/caddymodule/clientcert"
	"github.com/gatehouse-id/gatehouse/caddymodule/envoyauthz"
	"github.com/gatehouse-id/gatehouse/caddymodule/forwardauth"
	"github.com/gatehouse-id/gatehouse/caddymodule/internal/caddyfileutil"
	"github.com/gatehouse-id/gatehouse/caddymodule/internal/reference"
	"github.com/gatehouse-id/gatehouse/caddymodule/policy"
	"github.com/gatehouse-id/gatehouse/caddymodule/protect/ratelimits"
	"github.com/gatehouse-id/gatehouse/caddymodule/protect/sitepath"
	"github.com/gatehouse-id/gatehouse/caddymodule/roles"
	"github.com/gatehouse-id/gatehouse/caddymodule/serviceprovider"
	"github.com/gatehouse-id/gatehouse/identity/api"
	"github.com/gatehouse-id/gatehouse/identity/passkey"
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
	start := d.Token()
	if err := a.readGlobal(d); err != nil {
		return nil, err
	}
	if err := caddyfileutil.CheckAround(start); err != nil {
		return nil, err
	}
	return httpcaddyfile.App{Name: caddyfileutil.AppName, Value: caddyconfig.JSON(&a, nil)}, nil
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
//		plan <name> { ... }
//		group <name> { ... }
//		forward_auth <name> { ... }
//		forward_auth_any on|off
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
	a.Places = caddyfileutil.ReadPlaces(d, "")
	words := forwardauth.Subdirectives(&a.ForwardAuth)
	maps.Copy(words, clientcert.Subdirectives(&a.Certificates))
	maps.Copy(words, caddyfileutil.Subdirectives{
		"issuer":                    caddyfileutil.Value(&a.Issuer, caddyfileutil.CheckIssuer),
		"storage":                   a.readStorage,
		"encryption_key":            caddyfileutil.Values(&a.EncryptionKeys, checkKey),
		"scope":                     a.readScope,
		"authorization_details":     appended(&a.AuthorizationDetails, client.ReadDetailType),
		"client":                    appended(&a.Clients, client.Read),
		"api_client":                appended(&a.APIClients, client.ReadAPIClient),
		"policy":                    a.readPolicy,
		"plan":                      a.readPlan,
		"group":                     func(d *caddyfile.Dispenser) error { return ratelimits.ReadGroup(d, &a.GroupPlans) },
		"ext_authz":                 func(d *caddyfile.Dispenser) (err error) { a.ExtAuthz, err = envoyauthz.Read(d); return err },
		"idp":                       a.readIDP,
		"service_provider":          appended(&a.ServiceProviders, serviceprovider.Read),
		"saml_sign":                 caddyfileutil.Values(&a.SAMLSign, nil),
		"identity":                  func(d *caddyfile.Dispenser) error { return a.Identity.readBlock(d, a.Places) },
		"events":                    a.Events.readBlock,
		"par":                       client.ReadRequired("par", &a.PARRequired),
		"shared_signals":            caddyfileutil.Value(&a.SharedSignals, checkSignals),
		"outbound":                  a.Outbound.readBlock,
		"registration":              func(d *caddyfile.Dispenser) (err error) { a.Registration, err = client.ReadRegistration(d); return err },
		"client_metadata_documents": func(d *caddyfile.Dispenser) (err error) { a.ClientDocuments, err = client.ReadDocuments(d); return err },
		"trust_issuer":              a.readTrustedIssuer,
		"mail":                      a.readMail,
		"sms":                       a.readSMS,
		"push":                      a.readPush,
	})
	if err := caddyfileutil.ReadOptions(d, "gatehouse", &reference.Gatehouse, words); err != nil {
		return err
	}
	if err := a.checkIDPs(); err != nil {
		return err
	}
	if a.Issuer == "" {
		return caddyfileutil.At(start, errors.New("gatehouse: issuer is missing: add for example `issuer https://auth.example.com`"))
	}
	return nil
}

// appended returns a reader that appends a block to a list. read also gets the earlier entries.
func appended[T any](list *[]T, read func(*caddyfile.Dispenser, []T) (T, error)) func(*caddyfile.Dispenser) error {
	return func(d *caddyfile.Dispenser) error {
		one, err := read(d, *list)
		*list = append(*list, one)
		return err
	}
}

func (a *App) readTrustedIssuer(d *caddyfile.Dispenser) error {
	t, err := client.ReadTrusted(d)
	a.TrustedIssuers = append(a.TrustedIssuers, t)
	return err
}

func (a *App) readPolicy(d *caddyfile.Dispenser) error {
	if a.Policies == nil {
		a.Policies = map[string]*policy.Policy{}
	}
	return policy.ReadNamed(d, a.Policies, sitepath.CheckPublic)
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
		if d.NextArg() && slices.Contains([]string{"badger", "postgres"}, d.Val()) {
			return d.Errf("storage: the module comes first: write `storage %s ...`", d.Val())
		}
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
	if err := caddyfileutil.ReadName(d, &s.Name, caddyfileutil.CheckScope); err != nil {
		return err
	}
	for _, other := range a.Scopes {
		if other.Name == s.Name {
			return d.Errf("scope %s is already defined at %s: keep one of them", s.Name, a.Places.Of("scope "+s.Name))
		}
	}
	err := caddyfileutil.ReadBlock(d, "scope "+s.Name, &reference.Scope, caddyfileutil.Subdirectives{
		"description": caddyfileutil.Text(&s.Description),
		"level":       caddyfileutil.Value(&s.Level, caddyfileutil.CheckLevel),
		"assurance":   caddyfileutil.Value(&s.Assurance, caddyfileutil.CheckLevel),
		"usage_limit": caddyfileutil.Value(&s.UsageLimit, checkUsageLimit),
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
	return caddyfileutil.Block(&reference.Outbound, caddyfileutil.Subdirectives{"allow": caddyfileutil.Values(&o.Allow, checkOpened)})(d)
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
//		passkey_rp_id    <host>
//		passkey_origins  <origin>...
//		passkey_upgrade  on|off
//		common_passwords on|off
//		second_factor    when_set_up|always|on_demand
//		device_bound     on|off
//		usernames        email
//		scim_verifies_emails <client>...
//		admin         { ... }
//		access_mail   <address>...
//		access_mail_groups <group>...
//		breach        { url <url>; file <file>; timeout <duration>; on_failure open|closed }
//		<switch>      on|off
//	}
func (i *Identity) readBlock(d *caddyfile.Dispenser, places caddyfileutil.Places) error {
	start := d.Token()
	words := caddyfileutil.Subdirectives{
		"person":     func(d *caddyfile.Dispenser) error { return i.readPerson(d, places) },
		"partitions": i.readPartitions,
		"session": caddyfileutil.Block(&reference.Session, caddyfileutil.Subdirectives{
			"idle":     caddyfileutil.Value(&i.Session.Idle, caddyfileutil.CheckDuration),
			"absolute": caddyfileutil.Value(&i.Session.Absolute, caddyfileutil.CheckDuration),
			"remember": caddyfileutil.Value(&i.Session.Remember, caddyfileutil.CheckDuration),

			"per_person": caddyfileutil.Value(&i.Session.PerPerson, checkPerPerson),
		}),
		"lockout": caddyfileutil.Block(&reference.Lockout, caddyfileutil.Subdirectives{
			"failures": caddyfileutil.Value(&i.Lockout.Failures, checkFailures),
			"window":   caddyfileutil.Value(&i.Lockout.Window, caddyfileutil.CheckDuration),
		}),
		"password_hash": caddyfileutil.Block(&reference.PasswordHash, caddyfileutil.Subdirectives{
			"memory":      caddyfileutil.Value(&i.PasswordHash.Memory, checkHashMemory),
			"iterations":  caddyfileutil.Value(&i.PasswordHash.Iterations, checkIterations),
			"concurrency": caddyfileutil.Value(&i.PasswordHash.Concurrency, checkConcurrency),
		}),
		"locales":   caddyfileutil.Values(&i.Locales, checkLocale),
		"extension": caddyfileutil.Value(&i.Extension, nil),
		"bootstrap": caddyfileutil.Value(&i.Bootstrap, nil),

		"credentials_key":  caddyfileutil.Value(&i.CredentialsKey, api.CheckCredentialsKey),
		"passkeys":         caddyfileutil.Value(&i.Passkeys, checkOnOff),
		"common_passwords": caddyfileutil.Value(&i.CommonPasswords, checkOnOff),
		"second_factor":    caddyfileutil.Value(&i.SecondFactor, caddyfileutil.CheckSecondFactor),
		"device_bound":     caddyfileutil.Value(&i.DeviceBound, checkOnOff),
		"passkey_rp_id":    caddyfileutil.Value(&i.PasskeyRPID, passkey.CheckRPID),
		"passkey_origins":  caddyfileutil.Values(&i.PasskeyOrigins, passkey.CheckOrigin),
		"passkey_upgrade":  caddyfileutil.Value(&i.PasskeyUpgrade, checkOnOff),
		"usernames":        caddyfileutil.Value(&i.Usernames, checkUsernames),

		"scim_verifies_emails": caddyfileutil.Values(&i.SCIMVerifiesEmails, nil),

		"admin":              func(d *caddyfile.Dispenser) (err error) { i.Admin, err = roles.Read(d); return err },
		"access_mail":        caddyfileutil.Values(&i.AccessMail, checkEmail),
		"access_mail_groups": caddyfileutil.Values(&i.AccessMailGroups, nil),
		"brand": caddyfileutil.Block(&reference.Brand, caddyfileutil.Subdirectives{
			"name":  caddyfileutil.Text(&i.Brand.Name),
			"logo":  caddyfileutil.Value(&i.Brand.Logo, nil),
			"color": i.Brand.readColor,
			"help":  caddyfileutil.Value(&i.Brand.Help, checkHelp),
		}),
		"breach": i.Breach.readBlock,
	}
	maps.Copy(words, i.Switches.Subdirectives())
	err := caddyfileutil.Block(&reference.Identity, words)(d)
	if err == nil && i.Partitions == nil && slices.ContainsFunc(i.Persons, func(p Person) bool { return p.Partition != "" }) {
		err = caddyfileutil.At(start, errors.New("a person has a partition, but identity has no partitions: add them"))
	}
	return err
}

// readColor reads a colour with or without the #. Without quotes the # starts a comment.
func (b *Brand) readColor(d *caddyfile.Dispenser) error {
	if d.CountRemainingArgs() == 0 {
		return d.Err("color: a value is missing: # starts a comment, so write 2457d6 or \"#2457d6\"")
	}
	return caddyfileutil.ReadValue(d, &b.Color, checkColor)
}

// readPartitions reads the names of the partitions, which can be left out.
func (i *Identity) readPartitions(d *caddyfile.Dispenser) error {
	i.Partitions = new(Partitions)
	if d.CountRemainingArgs() == 0 {
		return caddyfileutil.NoMore(d, "partitions")
	}
	return caddyfileutil.Values(&i.Partitions.Names, checkPartition)(d)
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
func (i *Identity) readPerson(d *caddyfile.Dispenser, places caddyfileutil.Places) error {
	start := d.Token()
	var p Person
	if err := caddyfileutil.ReadName(d, &p.Username, nil); err != nil {
		return err
	}
	var verified bool
	err := caddyfileutil.ReadBlock(d, "person "+p.Username, &reference.Person, caddyfileutil.Subdirectives{
		"password":       caddyfileutil.Value(&p.Password, checkPassword),
		"password_hash":  caddyfileutil.Value(&p.PasswordHash, caddyfileutil.CheckPHC),
		"name":           caddyfileutil.Text(&p.Name),
		"given_name":     caddyfileutil.Text(&p.GivenName),
		"family_name":    caddyfileutil.Text(&p.FamilyName),
		"email":          caddyfileutil.Value(&p.Email, checkEmail),
		"email_verified": caddyfileutil.Flag(&verified),
		"groups":         caddyfileutil.Values(&p.Groups, nil),
		"locale":         caddyfileutil.Value(&p.Locale, nil),
		"partition":      caddyfileutil.Value(&p.Partition, checkPartition),
	})
	if err != nil {
		return err
	}
	for _, other := range i.Persons {
		if other.Username == p.Username && other.Partition == p.Partition {
			return caddyfileutil.At(start,
				fmt.Errorf("person %s is already defined at %s: keep one of them", p.Username, places.Of("person "+p.Username)))
		}
	}
	if verified {
		p.EmailVerified = &verified
	}
	r := caddyfileutil.NewResolver(nil)
	if p.build(r); r.Err() != nil {
		return caddyfileutil.At(start, r.Err())
	}
	i.Persons = append(i.Persons, p)
	return nil
}
