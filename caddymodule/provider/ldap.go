package provider

import (
	"crypto/x509"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/gatehouse-id/gatehouse/caddymodule/internal/caddyfileutil"
	"github.com/gatehouse-id/gatehouse/caddymodule/internal/reference"
	"github.com/gatehouse-id/gatehouse/caddymodule/provider/attribute"
	"github.com/gatehouse-id/gatehouse/idp"
	"github.com/gatehouse-id/gatehouse/idp/ldap"
)

func init() {
	caddy.RegisterModule(LDAPIDP{})
}

// LDAPIDP signs people in by a directory: the password that they type on the sign-in page is checked there.
type LDAPIDP struct {
	RemoteOptions

	// The servers in the order in which they are tried: ldaps://host, or ldap://host, where the connection is encrypted
	// by StartTLS unless the host is this machine. Required.
	URLs []string `json:"urls,omitempty"`
	// Whether StartTLS is used on this machine too. Default: false.
	StartTLS bool `json:"starttls,omitempty"`
	// A PEM file with the authorities that issue the servers' certificates. Default: those of the system.
	CA string `json:"ca,omitempty"`
	// The account that searches for people. Default: none, people bind by the template.
	BindDN string `json:"bind_dn,omitempty"`
	// The password of that account.
	BindPassword caddyfileutil.Sensitive `json:"bind_password,omitempty"`
	// The name that a person binds by, with %s for what they type: a DN, or %s@domain at Active Directory. Default: none,
	// people are searched for.
	Template string `json:"template,omitempty"`
	// The DN below which people are searched for.
	Base string `json:"base,omitempty"`
	// The filter that finds a person, with %s for what they type. Default: (uid=%s); with a template that is a DN, any
	// entry.
	Match string `json:"match,omitempty"`
	// The networks that people sign in from. Default: any.
	Networks []string `json:"networks,omitempty"`
	// Attributes that become user details of the same name. Default: none.
	Attributes []string `json:"attributes,omitempty"`
	// Whether people cannot change their addresses in the directory, so an address counts as verified. Default: false.
	EmailVerified bool `json:"email_verified,omitempty"`
	// Groups of the directory that are groups here. Default: none.
	Groups *LDAPGroups `json:"groups,omitempty"`
	// The maximum number of connections to all servers, 1 to 200. Default: 8.
	Pool caddyfileutil.Count `json:"pool,omitempty"`
	// What moves here from the directory: password, at the first sign-in. People then have accounts here, and the
	// directory has no sign-in page of its own. Default: nothing.
	Migrate string `json:"migrate,omitempty"`

	cfg ldap.Config
}

// LDAPGroups says which groups of the directory are groups here.
type LDAPGroups struct {
	// The DN below which groups are searched for. Default: none, groups are in the attribute memberOf of the person.
	Base string `json:"base,omitempty"`
	// The filter that finds the groups of a person: %d is the person's DN, %u the mapped username.
	Match string `json:"match,omitempty"`
	// Groups of the directory, by DN or name, and groups here. Required.
	Map []MappedGroup `json:"map,omitempty"`
}

// MappedGroup says which group of the directory is which group here.
type MappedGroup struct {
	// The DN or the name of a group of the directory. Required.
	From string `json:"from"`
	// The group here. Required.
	To string `json:"to"`
}

// CaddyModule implements caddy.Module.
func (LDAPIDP) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: Namespace + ".ldap", New: func() caddy.Module { return new(LDAPIDP) }}
}

// UnmarshalCaddyfile reads
//
//	idp <id> ldap {
//		url            <address>...
//		starttls
//		ca             <file>
//		bind           <DN> <password>
//		template       <DN with %s>
//		base           <DN>
//		match          <filter with %s>
//		networks       <address or network>...
//		attributes     <attribute>...
//		email_verified
//		groups {
//			base  <DN>
//			match <filter with %d or %u>
//			map   <group of the directory> <group>    # as often as needed
//		}
//		pool           <number>
//		migrate        password
//	}
//
// and what RemoteOptions read.
func (l *LDAPIDP) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next()
	start := d.Token()
	g := &LDAPGroups{}
	readGroups := caddyfileutil.Block(&reference.LDAPGroups, caddyfileutil.Subdirectives{
		"base":  caddyfileutil.Value(&g.Base, nil),
		"match": caddyfileutil.Value(&g.Match, nil),
		"map":   g.readMap,
	})
	err := caddyfileutil.ReadOptions(d, "idp ldap", &reference.LDAP, l.with(caddyfileutil.Subdirectives{
		"url":            caddyfileutil.Values(&l.URLs, nil),
		"starttls":       caddyfileutil.Flag(&l.StartTLS),
		"ca":             caddyfileutil.Value(&l.CA, nil),
		"bind":           l.readBind,
		"template":       caddyfileutil.Value(&l.Template, nil),
		"base":           caddyfileutil.Value(&l.Base, nil),
		"match":          caddyfileutil.Value(&l.Match, nil),
		"networks":       caddyfileutil.Values(&l.Networks, checkNetwork),
		"attributes":     caddyfileutil.Values(&l.Attributes, nil),
		"email_verified": caddyfileutil.Flag(&l.EmailVerified),
		"groups": func(d *caddyfile.Dispenser) error {
			l.Groups = g
			return readGroups(d)
		},
		"pool":    caddyfileutil.Value(&l.Pool, checkPool),
		"migrate": caddyfileutil.Value(&l.Migrate, checkMigrate),
	}))
	if err != nil {
		return err
	}
	r := caddyfileutil.NewResolver(nil)
	if l.build(r); r.Err() != nil {
		return caddyfileutil.At(start, fmt.Errorf("idp ldap: %w", r.Err()))
	}
	return nil
}

func (l *LDAPIDP) readBind(d *caddyfile.Dispenser) error {
	args, err := caddyfileutil.ReadPair(d,
		"want the DN of an account that searches for people and its password, such as `bind cn=reader,dc=example,dc=com {env.LDAP_PASSWORD}`")
	if err == nil {
		l.BindDN, l.BindPassword = args[0], caddyfileutil.Sensitive(args[1])
	}
	return err
}

func (g *LDAPGroups) readMap(d *caddyfile.Dispenser) error {
	args, err := caddyfileutil.ReadPair(d,
		"want a group of the directory and the group that it is here, such as `map cn=admins,ou=groups,dc=example,dc=com admins`")
	if err == nil {
		g.Map = append(g.Map, MappedGroup{args[0], args[1]})
	}
	return err
}

func checkPool(s string) error {
	if n, err := strconv.Atoi(s); err != nil || n < 1 || n > 200 {
		return fmt.Errorf("%q is not a number of connections of 1 to 200", s)
	}
	return nil
}

// Provision resolves the options.
func (l *LDAPIDP) Provision(caddy.Context) error {
	return l.provision(l.build)
}

// build resolves and checks the configuration, unless parts of it are not known yet.
func (l *LDAPIDP) build(r *caddyfileutil.Resolver) {
	before := r.ProblemCount()
	l.remote = l.resolve(r, attribute.InDirectory)
	l.cfg = ldap.Config{
		URLs: r.List("url", l.URLs, nil), StartTLS: l.StartTLS, CA: l.readAuthorities(r, "ca", l.CA), BindDN: r.Plain("bind", l.BindDN, nil),
		Template: r.Plain("template", l.Template, nil), Base: r.Plain("base", l.Base, nil), Match: r.Plain("match", l.Match, nil),
		Attributes: r.List("attributes", l.Attributes, nil), Mapping: l.remote.mapping, Level: l.remote.level, IdentifyBy: l.remote.identifyBy,
		EmailVerified: l.EmailVerified, Pool: r.Count("pool", l.Pool, checkPool), Timeout: l.remote.timeout,
	}
	for _, address := range l.cfg.URLs {
		if reason, fix := doubtPort(address); reason != "" {
			r.Lack(caddyfileutil.Fault{Option: "url", Reason: reason, Fix: fix})
		}
	}
	l.cfg.Networks = networks(r, "networks", l.Networks, checkNetwork)
	l.cfg.BindPassword = secretOf(r, "bind", l.BindPassword)
	if g := l.Groups; g != nil {
		l.cfg.Groups = ldap.Groups{Base: r.Plain("groups base", g.Base, nil), Match: r.Plain("groups match", g.Match, nil)}
		for _, m := range g.Map {
			l.cfg.Groups.Map = append(l.cfg.Groups.Map,
				ldap.GroupMap{From: r.Plain("groups map", m.From, nil), To: r.Plain("groups map", m.To, nil)})
		}
		for _, m := range l.cfg.Groups.Map {
			if strings.Contains(m.To, "=") && !strings.Contains(m.From, "=") {
				r.Lack(caddyfileutil.Fault{
					Option: "groups map", Reason: fmt.Sprintf("groups map %s %s: the group of the directory comes first, and then the group here, so no one gets the group %s", m.From, m.To, m.From),
					Fix: fmt.Sprintf("write `map %s %s`", m.To, m.From),
				})
			}
		}
		if len(g.Map) == 0 {
			r.Fail("groups: say which group of the directory is which group here, such as `map cn=admins,ou=groups,dc=example,dc=com admins`")
		}
	}
	if r.Plain("migrate", l.Migrate, checkMigrate); l.Migrate != "" && l.Couple != "" {
		r.Fail("couple: with migrate no one signs in at the directory itself, so there is nothing to link: remove one of them")
	}
	if l.Couple != "" && !l.EmailVerified {
		r.Fail("couple: addresses of the directory count as verified only with email_verified")
	}
	if r.ProblemCount() == before && !(r.Adapting() && l.unknown()) {
		r.AddError(oneLine(l.cfg.Validate()))
	}
}

// readAuthorities returns the certificates of a PEM file, which is read only when the configuration is loaded.
func (o *RemoteOptions) readAuthorities(r *caddyfileutil.Resolver, option, v string) *x509.CertPool {
	file, ok := r.Text(option, v, nil)
	if !ok || r.Adapting() {
		return nil
	}
	pool := x509.NewCertPool()
	if raw, err := os.ReadFile(file); err != nil || !pool.AppendCertsFromPEM(raw) { //nolint:gosec // the operator names it
		o.without(r, option, "the file %s cannot be read as certificates in PEM", file)
	}
	return pool
}

// unknown reports whether a value is only known when the configuration is loaded. The password is not checked before.
func (l *LDAPIDP) unknown() bool {
	all := append(slices.Concat(l.URLs, l.Networks, l.Attributes), l.BindDN, l.Template, l.Base, l.Match, string(l.Pool), string(l.Timeout))
	if g := l.Groups; g != nil {
		all = append(all, g.Base, g.Match)
		for _, m := range g.Map {
			all = append(all, m.From, m.To)
		}
	}
	return l.RemoteOptions.unknown() || slices.ContainsFunc(all, caddyfileutil.HasPlaceholder)
}

func (l *LDAPIDP) open(env idp.Env) (idp.Provider, error) { return ldap.New(l.cfg, env) }

// path is empty: the browser stays here.
func (*LDAPIDP) path() string { return "" }

var (
	_ caddy.Provisioner     = (*LDAPIDP)(nil)
	_ caddyfile.Unmarshaler = (*LDAPIDP)(nil)
	_ remoteIDP             = (*LDAPIDP)(nil)
)

func (l *LDAPIDP) migrates() bool { return l.Migrate != "" }

// mappedGroups returns the groups here that the directory gives people.
func (l *LDAPIDP) mappedGroups() (names []string) {
	for _, m := range l.cfg.Groups.Map {
		names = append(names, m.To)
	}
	return names
}
