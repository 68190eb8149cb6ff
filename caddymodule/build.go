package caddymodule

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/gatehouse-id/gatehouse/authz"
	"github.com/gatehouse-id/gatehouse/authz/client"
	"github.com/gatehouse-id/gatehouse/authz/ssf"
	"github.com/gatehouse-id/gatehouse/caddymodule/internal/caddyfileutil"
	"github.com/gatehouse-id/gatehouse/identity"
	"github.com/gatehouse-id/gatehouse/identity/access/notice"
	"github.com/gatehouse-id/gatehouse/identity/challenge"
	"github.com/gatehouse-id/gatehouse/identity/passkey"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/session"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/internal/web"
)

// signalsAll is the argument of shared_signals that tells receivers about everyone.
const signalsAll = "all"

var checkSignals = caddyfileutil.OneOf("named", signalsAll)

// The build methods turn the texts of the configuration into the configurations of the packages.

func (a *App) buildAuthz(r *caddyfileutil.Resolver) authz.Config {
	cfg := authz.Config{Issuer: a.issuer.String()}
	for _, s := range a.Scopes {
		name := r.Plain("scope", s.Name, caddyfileutil.CheckScope)
		of := "scope " + s.Name + ": "
		cfg.Scopes = append(cfg.Scopes, client.Scope{
			Name: name, Description: r.Plain(of+"description", s.Description, nil),
			Level: r.Count(of+"level", s.Level, caddyfileutil.CheckLevel), Assurance: r.Count(of+"assurance", s.Assurance, caddyfileutil.CheckLevel),
			UsageLimit: r.Count(of+"usage_limit", s.UsageLimit, checkUsageLimit),
		})
	}
	for i := range a.AuthorizationDetails {
		cfg.Details = append(cfg.Details, a.AuthorizationDetails[i].Build(r))
	}
	cfg.Plans, cfg.PARRequired = slices.Sorted(maps.Keys(a.Plans)), a.PARRequired
	of := r.Plain("shared_signals", a.SharedSignals, checkSignals)
	cfg.Signals = ssf.Config{On: of != "", All: of == signalsAll}
	seen := map[string]bool{}
	for i := range a.Clients {
		c := a.Clients[i].Build(r)
		if c.ID != "" && seen[c.ID] {
			r.Fail("client %s is defined twice: keep one of them", c.ID)
		}
		seen[c.ID] = true
		cfg.Clients = append(cfg.Clients, c)
	}
	if a.ClientDocuments != nil {
		cfg.Documents = a.ClientDocuments.Build(r)
	}
	for i := range a.TrustedIssuers {
		rule := a.TrustedIssuers[i].Build(r)
		if rule.Client != "" && !seen[rule.Client] {
			with := "`auth_method workload`"
			if rule.Provider != "" {
				with = "`grants jwt_bearer` and `idps " + rule.Provider + "`"
			}
			r.Fail("trust_issuer %s: client %s is not in the configuration: add it, with %s", rule.Issuer, rule.Client, with)
		}
		cfg.Trusted = append(cfg.Trusted, rule)
	}
	if a.Registration != nil {
		cfg.Registration = a.Registration.Build(r)
	}
	clear(seen)
	for i := range a.APIClients {
		c := a.APIClients[i].Build(r)
		if c.ID != "" && seen[c.ID] {
			r.Fail("api_client %s is defined twice: keep one of them", c.ID)
		}
		seen[c.ID] = true
		cfg.APIClients = append(cfg.APIClients, c)
	}
	return cfg
}

// checkPartitions refuses API clients that are limited to partitions that do not exist.
func (a *App) checkPartitions(r *caddyfileutil.Resolver) {
	known := a.persons.Partitions
	a.authz.Partitioned = known.On
	for _, c := range a.authz.APIClients {
		for _, name := range c.Partitions {
			switch {
			case !known.On:
				r.Fail("api_client %s: partitions is set, but identity has no partitions: add them", c.ID)
				return
			case name != audit.DefaultPartition && len(known.Names) > 0 && !slices.Contains(known.Names, name):
				r.Fail("api_client %s: identity has no partition %q", c.ID, name)
			}
		}
	}
}

func (a *App) buildIdentity(r *caddyfileutil.Resolver) identity.Config {
	i := &a.Identity
	cfg := identity.Config{
		Issuer:  a.issuer.String(),
		Locales: r.List("identity: locales", i.Locales, checkLocale),
		Session: session.Config{
			Idle:     r.Duration("identity: session idle", i.Session.Idle),
			Absolute: r.Duration("identity: session absolute", i.Session.Absolute),
			Remember: r.Duration("identity: session remember", i.Session.Remember),

			PerPerson: r.Count("identity: session per_person", i.Session.PerPerson, checkPerPerson),
		},
		Lockout: challenge.Config{
			Failures: r.Count("identity: lockout failures", i.Lockout.Failures, checkFailures),
			Window:   r.Duration("identity: lockout window", i.Lockout.Window),
		},
	}
	for _, s := range []struct {
		option string
		lasts  time.Duration
	}{{"idle", cfg.Session.Idle}, {"absolute", cfg.Session.Absolute}, {"remember", cfg.Session.Remember}} {
		if s.lasts > 0 && s.lasts < time.Minute {
			r.Fail("identity: session %s: %s is too short: sign-ins last at least a minute", s.option, s.lasts)
		}
	}
	cfg.Passkeys = passkey.Config{
		RPID:      r.Plain("identity: passkey_rp_id", i.PasskeyRPID, passkey.CheckRPID),
		Related:   r.List("identity: passkey_origins", i.PasskeyOrigins, passkey.CheckOrigin),
		NoUpgrade: r.Plain("identity: passkey_upgrade", i.PasskeyUpgrade, checkOnOff) == "off",
	}
	switch r.Plain("identity: passkeys", i.Passkeys, checkOnOff) {
	case "off":
		cfg.Passkeys.Off = true
	case "on":
		if cfg.Issuer != "" && !passkey.Possible(cfg.Issuer) {
			r.Fail("identity: passkeys: browsers allow them for an https issuer with a host name of several parts and for localhost: change the issuer, or leave passkeys out")
		}
	}
	cfg.Session.DeviceBound = r.Plain("identity: device_bound", i.DeviceBound, checkOnOff) == "on"
	if cfg.Session.DeviceBound && a.issuer != nil && a.issuer.Scheme != "https" {
		r.Fail("identity: device_bound: browsers bind only the sessions of https origins: give the issuer an https address, or leave device_bound out")
	}
	cfg.CommonPasswords = r.Plain("identity: common_passwords", i.CommonPasswords, checkOnOff) == "off"
	cfg.SecondFactor = r.Plain("identity: second_factor", i.SecondFactor, caddyfileutil.CheckSecondFactor)
	if p := i.Partitions; p != nil {
		cfg.Partitions = person.PartitionConfig{On: true, Names: r.List("identity: partitions", p.Names, checkPartition)}
	}
	cfg.EmailUsernames = r.Plain("identity: usernames", i.Usernames, checkUsernames) == "email"
	a.vouching = r.List("identity: scim_verifies_emails", i.SCIMVerifiesEmails, nil)
	a.accessMail = notice.Config{
		Addresses: r.List("identity: access_mail", i.AccessMail, checkEmail),
		Groups:    r.List("identity: access_mail_groups", i.AccessMailGroups, nil),
	}
	if a.MailRaw == nil && len(i.AccessMail)+len(i.AccessMailGroups) > 0 {
		r.Fail("identity: access_mail: nothing delivers e-mails: add mail, or remove access_mail and access_mail_groups")
	}
	a.buildServiceProviders(r, &cfg)
	seen := map[string]bool{}
	for _, p := range i.Persons {
		person := p.build(r)
		if cfg.EmailUsernames && person.Username != "" && checkEmail(person.Username[strings.IndexByte(person.Username, '\\')+1:]) != nil {
			r.Fail("person %s: identity has `usernames email`, but this is not an e-mail address: give the person an address as username, or remove `usernames email`", person.Username)
		}
		if person.Partition != "" && i.Partitions == nil {
			r.Fail("person %s: partition is set, but identity has no partitions: add them", person.Username)
		}
		if folded := strings.ToLower(person.Partition + `\` + person.Username); person.Username != "" && seen[folded] {
			r.Fail("person %s is defined twice: keep one of them", person.Username)
		} else {
			seen[folded] = true
		}
		cfg.Persons = append(cfg.Persons, person)
	}
	return cfg
}

func (a *App) buildServiceProviders(r *caddyfileutil.Resolver, cfg *identity.Config) {
	cfg.ServiceProviders.Sign = r.List("saml_sign", a.SAMLSign, nil)
	seen := map[string]bool{}
	for i := range a.ServiceProviders {
		p := a.ServiceProviders[i].Build(r)
		if seen[p.ID] {
			r.Fail("service_provider %s is defined twice: keep one of them", p.ID)
		}
		seen[p.ID] = true
		cfg.ServiceProviders.Providers = append(cfg.ServiceProviders.Providers, p)
	}
}

func (p *Person) build(r *caddyfileutil.Resolver) person.NewPerson {
	of := "person " + p.Username + ": "
	if p.Username == "" {
		r.Fail("person: username is missing")
	}
	if p.Password != "" && p.PasswordHash != "" {
		r.Fail("%spassword and password_hash are both set: keep one of them", of)
	}
	return person.NewPerson{
		Username: r.Plain("person", p.Username, nil), Password: secret.New(r.Plain(of+"password", string(p.Password), checkPassword)),
		PasswordHash: r.Plain(of+"password_hash", string(p.PasswordHash), caddyfileutil.CheckPHC),
		Name:         r.Plain(of+"name", p.Name, nil), GivenName: r.Plain(of+"given_name", p.GivenName, nil),
		FamilyName: r.Plain(of+"family_name", p.FamilyName, nil),
		Email:      r.Plain(of+"email", p.Email, checkEmail), EmailVerified: p.EmailVerified,
		Groups: r.List(of+"groups", p.Groups, nil), Locale: r.Plain(of+"locale", p.Locale, nil),
		Partition: r.Plain(of+"partition", p.Partition, checkPartition),
	}
}

func (a *App) buildHashCost(r *caddyfileutil.Resolver) secret.HashCost {
	p := a.Identity.PasswordHash
	var cost secret.HashCost
	if s, ok := r.Text("identity: password_hash memory", p.Memory, checkHashMemory); ok {
		n, _ := parseSize(s)
		cost.MemoryKiB = uint32(min(n>>10, 256<<10)) //nolint:gosec // bounded
	}
	cost.Iterations = uint32(r.Count("identity: password_hash iterations", p.Iterations, checkIterations)) //nolint:gosec // checked: 1 to 20
	cost.Concurrency = r.Count("identity: password_hash concurrency", p.Concurrency, checkConcurrency)
	return cost
}

func (a *App) buildBrand(r *caddyfileutil.Resolver) web.Brand {
	b := a.Identity.Brand
	brand := web.Brand{Name: r.Plain("identity: brand name", b.Name, nil), Help: r.Plain("identity: brand help", b.Help, checkHelp)}
	if color := r.Plain("identity: brand color", b.Color, checkColor); color != "" {
		brand.Color = "#" + strings.TrimPrefix(color, "#")
	}
	if file, ok := r.Text("identity: brand logo", b.Logo, nil); ok {
		var err error
		if brand.Logo, brand.LogoType, err = caddyfileutil.ReadLogo(file); err == nil {
			err = web.CheckPicture(brand.Logo)
		}
		if err != nil {
			brand.Logo, brand.LogoType = nil, ""
			const fix = "write the path of a picture, from the directory that Caddy runs in, and run `caddy reload --force`"
			r.Lack(caddyfileutil.Fault{
				Option: "identity: brand logo", Reason: fmt.Sprintf("identity: brand logo: pages have no logo: %v", err),
				Fix: fix,
			})
		}
	}
	return brand
}

// logos returns the pictures of the clients by their ids.
func (a *App) logos() map[string][]byte {
	out := map[string][]byte{}
	for i := range a.Clients {
		if logo := a.Clients[i].Picture(); len(logo) > 0 {
			out[a.authz.Clients[i].ID] = logo
		}
	}
	return out
}

// build returns the networks that may be reached besides public addresses.
func (o *Outbound) build(r *caddyfileutil.Resolver) []netip.Prefix {
	var out []netip.Prefix
	for _, s := range r.List("outbound: allow", o.Allow, checkOpened) {
		p, err := caddyfileutil.ParseNetwork(s)
		r.AddError(err)
		out = append(out, p)
	}
	return out
}
