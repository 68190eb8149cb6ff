package ldap

import (
	"crypto/x509"
	"errors"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	ldapv3 "github.com/go-ldap/ldap/v3"

	"github.com/gatehouse-id/gatehouse/idp"
	"github.com/gatehouse-id/gatehouse/internal/coded"
	"github.com/gatehouse-id/gatehouse/internal/loopback"
	"github.com/gatehouse-id/gatehouse/internal/secret"
)

const (
	maxServers  = 10
	maxPool     = 200
	defaultPool = 8

	defaultTimeout = 5 * time.Second
)

// Config is the configuration of a directory.
type Config struct {
	// URLs are the servers in the order in which they are tried: ldaps://host, or ldap://host, where the connection is
	// encrypted by StartTLS unless the host is this machine.
	URLs []string
	// StartTLS demands StartTLS on this machine too.
	StartTLS bool
	// CA are the authorities that the servers' certificates must come from. nil: those of the system.
	CA *x509.CertPool

	// BindDN and BindPassword are the account that searches for people. Empty: Template.
	BindDN       string
	BindPassword secret.String
	// Template is the name that a person binds by, with %s for what they typed: a DN, or %s@domain at Active
	// Directory. Empty: the person is searched for.
	Template string
	// Base is the base of the search for people, Match the filter with %s for their input. Default: (uid=%s). A
	// Template that is a DN needs neither.
	Base, Match string

	// Networks are the networks from which people sign in. Empty: anywhere.
	Networks []netip.Prefix
	// Attributes are fetched in addition to those of Mapping, and become details of the same name.
	Attributes []string
	Mapping    idp.Mapping
	// Level is the authentication level of a sign-in. Default: 1
	Level int
	// IdentifyBy is the attribute that identifies a person for good. Default: the directory's own, such as entryUUID or
	// objectGUID
	IdentifyBy string
	// EmailVerified says that people cannot change their addresses in the directory.
	EmailVerified bool
	Groups        Groups

	// Pool is the largest number of connections to all servers. Default: 8
	Pool int
	// Timeout is the maximum duration of a sign-in. Default: 5 seconds
	Timeout time.Duration
}

// Groups says which groups of the directory are groups here.
type Groups struct {
	// Base and Match search for the groups of a person: %d is the person's DN, %u their mapped username. Empty: they are
	// in the attribute memberOf.
	Base, Match string
	// Map are pairs of a group of the directory, by its DN or its name, and ours.
	Map []GroupMap
}

// GroupMap is one pair of groups.
type GroupMap struct{ From, To string }

// server is one of the URLs.
type server struct {
	url, host, address string
	tls, startTLS      bool
}

// Validate returns an error that says what to write instead.
func (c Config) Validate() error {
	_, err := c.servers()
	return errors.Join(err, c.checkPeople(), c.checkGroups(), c.Mapping.Validate(), c.checkBounds())
}

func (c Config) checkBounds() error {
	var errs []error
	if c.Pool < 0 || c.Pool > maxPool {
		errs = append(errs, coded.Errorf("pool", "- max", "pool: %d is not a number of connections of 1 to %d", c.Pool, maxPool))
	}
	if c.Level < 0 || c.Level > 4 {
		errs = append(errs, coded.Errorf("level", "", "level: %d is not a level of 1 to 4", c.Level))
	}
	if c.Timeout < 0 || c.Timeout > defaultTimeout {
		errs = append(errs, coded.Errorf("at_most", "- max", "timeout: %s is longer than %s", c.Timeout, defaultTimeout))
	}
	names := slices.Clone(c.Attributes)
	for _, a := range c.Mapping.Attributes {
		names = append(names, a.From)
	}
	if c.IdentifyBy != "" {
		names = append(names, c.IdentifyBy)
	}
	for _, name := range names {
		if !isAttribute(name) {
			errs = append(errs, coded.Errorf("not_attribute", "value", "%q is not the name of an attribute: letters, digits and -", name))
		}
	}
	return errors.Join(errs...)
}

// checkPeople checks how a person is found and bound.
func (c Config) checkPeople() error {
	switch {
	case c.BindDN == "" && c.Template == "":
		return coded.New("bind_missing", "bind: name an account that searches for people, or a template of the DNs that people have")
	case c.BindDN != "" && c.BindPassword.Reveal() == "":
		return coded.New("bind_password", "bind: the account needs a password: without one a server accepts anyone, as anonymous")
	case c.BindDN != "" && c.Template != "":
		return coded.New("bind_or_template", "bind and template: people are searched for, or bind by a template: keep one of them")
	case c.Template != "":
		if err := c.checkTemplate(); err != nil {
			return err
		}
	}
	if c.Base != "" {
		if err := isDN("base", c.Base); err != nil {
			return err
		}
	} else if c.Template == "" || !c.templateIsDN() {
		return coded.New("base_missing", "base: name the DN below which people are, such as ou=people,dc=example,dc=com")
	}
	if c.Match != "" {
		return checkFilter("match", c.Match, "%s")
	}
	return nil
}

func (c Config) checkTemplate() error {
	if strings.Count(c.Template, "%s") != 1 {
		return coded.Errorf("template_name", "value", "template: %q does not have %%s once, for the name that a person types", c.Template)
	}
	if !c.templateIsDN() {
		if domain, ok := strings.CutPrefix(c.Template, "%s@"); !ok || domain == "" || strings.ContainsAny(domain, " ,=\\\"%") {
			return coded.Errorf("template", "value", "template: %q is neither a DN such as uid=%%s,ou=people,dc=example,dc=com nor %%s@example.com", c.Template)
		}
		return nil
	}
	first, _, _ := strings.Cut(c.Template, "%s")
	if strings.ContainsAny(first, ",+") || !strings.HasSuffix(first, "=") {
		return coded.Errorf("template", "value", "template: %q must begin with an attribute, = and %%s", c.Template)
	}
	return isDN("template", strings.Replace(c.Template, "%s", "x", 1))
}

// templateIsDN reports whether people bind by a DN, and not by a name of Active Directory.
func (c Config) templateIsDN() bool { return strings.Contains(c.Template, "=") }

func (c Config) checkGroups() error {
	g := c.Groups
	if (g.Base == "") != (g.Match == "") {
		return coded.New("groups_search", "groups: a search needs both base and match")
	}
	if g.Base != "" {
		if err := isDN("groups base", g.Base); err != nil {
			return err
		}
		if err := checkFilter("groups match", g.Match, "%d", "%u"); err != nil {
			return err
		}
		if len(g.Map) == 0 {
			return coded.New("groups_map", "groups: say which group of the directory is which group here, such as `group cn=admins,ou=groups,dc=example,dc=com admins`")
		}
		if strings.Contains(g.Match, "%u") &&
			!slices.ContainsFunc(c.Mapping.Attributes, func(a idp.Attribute) bool { return a.To == detailUsername }) {
			return coded.New("groups_username", "groups match: %u is the mapped username: add a line such as `map uid username`")
		}
	}
	seen := map[GroupMap]bool{}
	for _, m := range g.Map {
		switch {
		case strings.TrimSpace(m.From) == "" || !idp.IsText(m.From, 1024):
			return coded.New("group_pair", "group: want a group of the directory and one of Gatehouse")
		case m.To == "" || strings.TrimSpace(m.To) != m.To || !idp.IsText(m.To, 128):
			return coded.Errorf("group_name", "value", "group: %q is not a name of 1 to 128 characters without spaces around it", m.To)
		case seen[m]:
			return coded.Errorf("twice", "", "group: %s %s is there twice", m.From, m.To)
		case strings.Contains(m.From, "="):
			if err := isDN("group", m.From); err != nil {
				return err
			}
		}
		seen[m] = true
	}
	return nil
}

// servers returns the servers that the configuration names.
func (c Config) servers() ([]*server, error) {
	if len(c.URLs) == 0 || len(c.URLs) > maxServers {
		return nil, coded.Errorf("servers", "max", "url: want 1 to %d servers, such as ldaps://ldap.example.com", maxServers)
	}
	var out []*server
	for _, raw := range c.URLs {
		u, err := url.Parse(raw)
		if err != nil || u.Hostname() == "" || (u.Scheme != "ldap" && u.Scheme != "ldaps") || u.User != nil || u.RawQuery != "" ||
			u.Fragment != "" || strings.Trim(u.Path, "/") != "" {
			return nil, coded.Errorf("server", "value", "url: %q is not the address of a server, such as ldaps://ldap.example.com: the rest of the search has options of its own", idp.Printable(raw))
		}
		s := &server{url: u.Scheme + "://" + u.Host, host: u.Hostname(), tls: u.Scheme == "ldaps"}
		port := u.Port()
		if port == "" {
			port = map[bool]string{false: "389", true: "636"}[s.tls]
		}
		s.address = net.JoinHostPort(s.host, port)
		s.startTLS = !s.tls && (c.StartTLS || !loopback.Is(s.host))
		if slices.ContainsFunc(out, func(o *server) bool { return o.address == s.address }) {
			return nil, coded.Errorf("twice", "", "url: %s is there twice", s.url)
		}
		out = append(out, s)
	}
	return out, nil
}

func isDN(option, s string) error {
	if dn, err := ldapv3.ParseDN(s); err != nil || len(dn.RDNs) == 0 {
		return coded.Errorf("not_dn", "- value", "%s: %q is not a DN such as ou=people,dc=example,dc=com", option, s)
	}
	return nil
}

// checkFilter accepts a filter with at least one of the names.
func checkFilter(option, s string, names ...string) error {
	if !slices.ContainsFunc(names, func(n string) bool { return strings.Contains(s, n) }) {
		return coded.Errorf("filter_name", "- value names", "%s: %q lacks %s: everybody would match", option, s, strings.Join(names, " or "))
	}
	plain := s
	for _, n := range names {
		plain = strings.ReplaceAll(plain, n, "x")
	}
	if _, err := ldapv3.CompileFilter(plain); err != nil || strings.Contains(plain, "%") {
		return coded.Errorf("filter", "- value", "%s: %q is not a filter such as (uid=%%s)", option, s)
	}
	return nil
}

// isAttribute reports whether s is the name of an attribute, without options. (RFC 4512 2.5)
func isAttribute(s string) bool {
	return s != "" && len(s) <= 128 && strings.Trim(strings.ToLower(s), "abcdefghijklmnopqrstuvwxyz0123456789-.") == ""
}
