// Package ldap signs people in with the password of a directory: it binds at an LDAP server and reads the entry.
// Package challenge throttles the attempts.
package ldap

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	ldapv3 "github.com/go-ldap/ldap/v3"

	"github.com/gatehouse-id/gatehouse/idp"
)

const (
	pageSize  = 200
	maxGroups = 1000
)

// Provider signs people in by a directory.
type Provider struct {
	cfg     Config
	env     idp.Env
	mapping *idp.WatchedMapping
	pool    *pool
}

// New returns a provider. It opens no connection.
func New(cfg Config, env idp.Env) (*Provider, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if cfg.Match == "" && cfg.Template == "" {
		cfg.Match = "(uid=%s)"
	}
	if cfg.Timeout == 0 {
		cfg.Timeout = defaultTimeout
	}
	if cfg.Pool == 0 {
		cfg.Pool = defaultPool
	}
	attributes := slices.Clone(cfg.Mapping.Attributes)
	for _, name := range cfg.Attributes {
		if !slices.ContainsFunc(attributes, func(a idp.Attribute) bool { return strings.EqualFold(a.From, name) }) {
			attributes = append(attributes, idp.Attribute{From: name, To: name})
		}
	}
	cfg.Mapping.Attributes = attributes
	servers, err := cfg.servers()
	if err != nil {
		return nil, err
	}
	return &Provider{cfg: cfg, env: env, mapping: idp.Watch(cfg.Mapping), pool: &pool{
		servers: servers, dialer: env.Dial, ca: cfg.CA, now: env.Now, log: env.Log, slots: make(chan struct{}, cfg.Pool), timeout: cfg.Timeout,
		failed: map[*server]time.Time{},
	}}, nil
}

// Unseen implements idp.Watcher.
func (p *Provider) Unseen() []idp.Warning { return p.mapping.Unseen() }

// Parameters implements idp.Provider.
func (*Provider) Parameters() []string { return nil }

// Serves implements idp.PasswordTaker.
func (p *Provider) Serves(addr netip.Addr) bool {
	return len(p.cfg.Networks) == 0 || idp.Within(p.cfg.Networks, addr)
}

// OwnGroups implements idp.PasswordTaker.
func (p *Provider) OwnGroups() (out []string) {
	for _, m := range p.cfg.Groups.Map {
		if !slices.Contains(out, m.To) {
			out = append(out, m.To)
		}
	}
	return out
}

// Close implements idp.Closer.
func (p *Provider) Close() error {
	p.pool.close()
	return nil
}

// attempt is one sign-in under way.
type attempt struct {
	*Provider
	idp.Credentials

	asked bool // Found was called
	tried bool // the password was sent
	id    *idp.Identity
}

// SignIn implements idp.PasswordTaker.
func (p *Provider) SignIn(ctx context.Context, c idp.Credentials) (*idp.Identity, error) {
	if !typeable(c.Username) || !tryable(c.Password) {
		return nil, idp.ErrCredentials
	}
	ctx, cancel := context.WithTimeout(ctx, p.cfg.Timeout)
	defer cancel()
	a := &attempt{Provider: p, Credentials: c}
	try := a.bySearch
	if p.cfg.Template != "" {
		try = a.byTemplate
	}
	// A wrong password that is sent twice counts twice in the directory.
	if err := p.pool.do(ctx, func() bool { return !a.tried }, try); err != nil {
		return nil, err
	}
	return a.id, nil
}

// found calls Found once.
func (a *attempt) found(account string) error {
	if a.asked {
		return nil
	}
	a.asked = true
	return a.Found(account)
}

// bySearch finds the person's entry as the account that searches, and binds as it.
func (a *attempt) bySearch(ctx context.Context, c *conn) error {
	entry, err := a.find(ctx, c, a.cfg.Base, filterFor(a.cfg.Match, "%s", a.Username))
	if err != nil {
		return err
	}
	if entry == nil {
		if err := a.found(""); err != nil {
			return err
		}
		// It takes as long as for someone who exists. No entry has this name.
		a.tried = true
		_, err := c.bind(ctx, "cn=gatehouse:nobody,"+a.cfg.Base, a.Password)
		if failed := new(failure); errors.As(err, &failed) {
			return err
		}
		return idp.ErrCredentials
	}
	subject, _, err := a.cfg.subjectOf(entry)
	if err == nil {
		err = a.found(subject)
	}
	if err != nil {
		return err
	}
	if entry.DN == "" { // who binds without a name is let in as no one
		return idp.ErrCredentials
	}
	a.tried = true
	if err := refused(c.bind(ctx, entry.DN, a.Password)); err != nil {
		return err
	}
	if err := blocked(entry, a.env.Now()); err != nil {
		return err
	}
	if a.id, err = a.identity(entry); err != nil {
		return err
	}
	return a.setGroups(ctx, c, entry, a.id)
}

// byTemplate binds as the person, who then reads their own entry.
func (a *attempt) byTemplate(ctx context.Context, c *conn) error {
	name := a.cfg.bindName(a.Username)
	if name == "" {
		return idp.ErrCredentials
	}
	if err := a.found(a.env.ID + "\x00" + spelling(a.Username)); err != nil {
		return err
	}
	a.tried = true
	if err := refused(c.bind(ctx, name, a.Password)); err != nil {
		return err
	}
	q := question{base: name, entry: true, filter: "(objectClass=*)", attributes: a.cfg.wanted(), most: 1}
	if a.cfg.Match != "" {
		q.filter = filterFor(a.cfg.Match, "%s", a.Username)
	}
	if !a.cfg.templateIsDN() { // the entry must be that of the name which was bound
		q.base, q.entry, q.filter = a.cfg.Base, false, "(&"+filterFor("("+attrUPN+"=%s)", "%s", name)+q.filter+")"
	}
	found, _, err := c.search(ctx, q)
	switch {
	case err != nil && !ldapv3.IsErrorWithCode(err, ldapv3.LDAPResultNoSuchObject):
		return explained(err)
	case len(found) == 0:
		return errors.New("the person who has bound finds no entry of their own: let people read theirs, and look at base and match")
	case q.entry && !sameDN(found[0].DN, name):
		return errors.New("the directory answers with another entry than the one that was asked for")
	}
	if err := blocked(found[0], a.env.Now()); err != nil {
		return err
	}
	if a.id, err = a.identity(found[0]); err != nil {
		return err
	}
	return a.setGroups(ctx, c, found[0], a.id)
}

// asService binds as the account that searches, unless the connection is.
func (p *Provider) asService(ctx context.Context, c *conn) error {
	if p.cfg.BindDN == "" || c.as == p.cfg.BindDN {
		return nil
	}
	if _, err := c.bind(ctx, p.cfg.BindDN, p.cfg.BindPassword.Reveal()); err != nil {
		if !errors.As(err, new(*failure)) {
			err = fmt.Errorf("the account of bind cannot sign in: %w", words(err))
		}
		return err
	}
	return nil
}

// find returns the only entry that fits, or nil.
func (p *Provider) find(ctx context.Context, c *conn, base, filter string) (*ldapv3.Entry, error) {
	if err := p.asService(ctx, c); err != nil {
		return nil, err
	}
	found, _, err := c.search(ctx, question{base: base, filter: filter, attributes: p.cfg.wanted(), most: 1})
	if err != nil || len(found) == 0 {
		return nil, explained(err)
	}
	return found[0], nil
}

// explained says in words what a server has answered to a search.
func explained(err error) error {
	if err == nil || errors.As(err, new(*failure)) || errors.Is(err, errSeveral) {
		return err
	}
	return words(err)
}

// setGroups adds our groups that stand for groups of the directory.
func (p *Provider) setGroups(ctx context.Context, c *conn, e *ldapv3.Entry, id *idp.Identity) error {
	g := p.cfg.Groups
	if len(g.Map) == 0 {
		return nil
	}
	in := e.GetEqualFoldAttributeValues(attrMemberOf)
	if g.Base != "" {
		var err error
		if in, err = p.searchGroups(ctx, c, e, id); err != nil {
			return err
		}
	}
	for _, m := range g.Map {
		here := slices.ContainsFunc(in, func(dn string) bool {
			if strings.Contains(m.From, "=") {
				return sameDN(dn, m.From)
			}
			return strings.EqualFold(firstName(dn), m.From)
		})
		if here && !slices.Contains(id.Groups, m.To) {
			id.Groups = append(id.Groups, m.To)
		}
	}
	return nil
}

// searchGroups returns the DNs of the groups of a person, page by page.
func (p *Provider) searchGroups(ctx context.Context, c *conn, e *ldapv3.Entry, id *idp.Identity) (dns []string, err error) {
	if strings.Contains(p.cfg.Groups.Match, "%u") && id.Username == "" {
		return nil, errors.New("the entry has no username, by which its groups are found")
	}
	if err := p.asService(ctx, c); err != nil {
		return nil, err
	}
	q := question{
		base: p.cfg.Groups.Base, filter: filterFor(p.cfg.Groups.Match, "%d", e.DN, "%u", id.Username), attributes: []string{"1.1"},
		most: maxGroups, page: pageSize, // RFC 4511 4.5.1.8: none
	}
	for {
		found, cookie, err := c.search(ctx, q)
		switch {
		case errors.Is(err, errSeveral):
			return nil, errTooManyGroups
		case err != nil:
			return nil, fmt.Errorf("groups: %w", explained(err))
		}
		for _, g := range found {
			dns = append(dns, g.DN)
		}
		if len(dns) > maxGroups {
			return nil, errTooManyGroups
		}
		if len(cookie) == 0 {
			return dns, nil
		}
		q.cookie = cookie
	}
}

// errTooManyGroups ends a sign-in: a group that is left out could be one that denies something.
var errTooManyGroups = fmt.Errorf("the search finds more than %d groups of one person: make the match of groups narrower", maxGroups)

// Refresh implements idp.Refresher. Without an account that searches no one can be looked up.
func (p *Provider) Refresh(ctx context.Context, held []byte) (*idp.Identity, error) {
	if p.cfg.BindDN == "" {
		return nil, nil //nolint:nilnil // it cannot tell
	}
	ctx, cancel := context.WithTimeout(ctx, p.cfg.Timeout)
	defer cancel()
	var id *idp.Identity
	err := p.pool.do(ctx, func() bool { return true }, func(ctx context.Context, c *conn) error {
		entry, err := p.find(ctx, c, p.cfg.Base, p.filterOf(held))
		if err == nil && entry == nil {
			err = &idp.Rejection{Reason: "the directory has the account no longer"}
		}
		if err == nil {
			err = blocked(entry, p.env.Now())
		}
		if err == nil {
			id, err = p.identity(entry)
		}
		if err == nil {
			err = p.setGroups(ctx, c, entry, id)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return id, nil
}

// filterOf finds the entry with a value of its identifier.
func (p *Provider) filterOf(held []byte) string {
	names := identifiers
	if p.cfg.IdentifyBy != "" {
		names = []string{p.cfg.IdentifyBy}
	}
	var out strings.Builder
	for _, name := range names {
		out.WriteString("(" + name + "=" + escapeFilter(rawOf(name, held)) + ")")
	}
	return "(|" + out.String() + ")"
}

var (
	_ idp.PasswordTaker = (*Provider)(nil)
	_ idp.Refresher     = (*Provider)(nil)
	_ idp.Checker       = (*Provider)(nil)
	_ idp.Closer        = (*Provider)(nil)
)
