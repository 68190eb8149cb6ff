// Package header trusts a proxy in front that has authenticated the person and names them in request headers. (token
// server document, "header authenticator")
package header

import (
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/gatehouse-id/gatehouse/idp"
	"github.com/gatehouse-id/gatehouse/internal/authn"
	"github.com/gatehouse-id/gatehouse/internal/fieldname"
)

const (
	maxSubject = 256  // characters of a username
	maxValue   = 1024 // characters of an attribute
	maxValues  = 20   // of one attribute

	lowest, highest = 1, 4 // authentication levels
)

// Attribute maps a header to a detail of the person.
type Attribute struct{ Header, Detail string }

// Config is the operator's configuration.
type Config struct {
	// Trust lists the networks of the proxies. Required: headers from other peers are ignored.
	Trust []netip.Prefix
	// User is the header with the username. Required.
	User string
	// LevelHeader is the header with the authentication level, a number that is clamped to 1 to 4. Empty: none.
	LevelHeader string
	// Level is the level without LevelHeader. Default: 1.
	Level int
	// Attributes are the headers that become details.
	Attributes []Attribute
	// Parameters are the parameters of authorization requests that become details.
	Parameters []string
}

// Provider reads identities. It implements idp.RequestReader.
type Provider struct {
	cfg   Config
	names []string // every header that it reads
}

var _ idp.RequestReader = (*Provider)(nil)

// New returns a provider, or an error that says what is wrong with the configuration.
func New(cfg Config) (*Provider, error) {
	switch {
	case len(cfg.Trust) == 0:
		return nil, errors.New("trust is missing: name the networks of the proxies, such as 10.0.0.0/8")
	case cfg.User == "":
		return nil, errors.New("user is missing: name the header with the username, such as X-Remote-User")
	case cfg.Level < 0 || cfg.Level > highest:
		return nil, fmt.Errorf("level %d is not between %d and %d", cfg.Level, lowest, highest)
	}
	cfg.Level = max(cfg.Level, lowest)
	cfg.Trust = slices.Clone(cfg.Trust)
	for i, n := range cfg.Trust {
		if a := n.Addr(); a.Is4In6() && n.Bits() >= 96 { // peers are compared in the short form
			n = netip.PrefixFrom(a.Unmap(), n.Bits()-96)
		}
		cfg.Trust[i] = n.Masked()
	}
	p := &Provider{cfg: cfg, names: []string{cfg.User}}
	if cfg.LevelHeader != "" {
		p.names = append(p.names, cfg.LevelHeader)
	}
	details := map[string]bool{}
	for _, a := range cfg.Attributes {
		if details[a.Detail] {
			return nil, fmt.Errorf("the detail %s is set twice", a.Detail)
		}
		details[a.Detail] = true
		p.names = append(p.names, a.Header)
	}
	for _, name := range cfg.Parameters {
		if details[name] {
			return nil, fmt.Errorf("the detail %s is set twice", name)
		}
		details[name] = true
	}
	for _, name := range p.names {
		if !isToken(name) {
			return nil, fmt.Errorf("%q is not the name of a header", name)
		}
	}
	if cfg.LevelHeader != "" && fieldname.Same(cfg.LevelHeader, cfg.User) {
		return nil, fmt.Errorf("the header %s is both user and level", cfg.User)
	}
	return p, nil
}

// Parameters implements idp.Provider.
func (p *Provider) Parameters() []string { return slices.Clone(p.cfg.Parameters) }

// Read implements idp.RequestReader. Only the peer of the connection decides whether the headers are trusted; what the
// peer says about its clients (X-Forwarded-For) does not count.
func (p *Provider) Read(r *http.Request) (*idp.Identity, error) {
	if !p.Trusts(r) {
		return nil, idp.ErrNoIdentity
	}
	users := r.Header.Values(p.cfg.User)
	switch {
	case len(users) == 0 || (len(users) == 1 && strings.TrimSpace(users[0]) == ""):
		return nil, idp.ErrNoIdentity
	case len(users) > 1: // one from the client, perhaps, next to the proxy's
		return nil, &idp.Rejection{Reason: "the header with the username is there more than once"}
	}
	subject := strings.TrimSpace(users[0])
	if !isText(subject, maxSubject) {
		return nil, &idp.Rejection{Reason: "the username is too long or has characters that no username has"}
	}
	level, err := p.level(r.Header)
	if err != nil {
		return nil, err
	}
	return &idp.Identity{Subject: subject, Level: level, Details: p.details(r.Header)}, nil
}

// level returns the level that the proxy states, clamped to the existing levels.
func (p *Provider) level(h http.Header) (int, error) {
	if p.cfg.LevelHeader == "" {
		return p.cfg.Level, nil
	}
	values := h.Values(p.cfg.LevelHeader)
	if len(values) == 0 || (len(values) == 1 && strings.TrimSpace(values[0]) == "") {
		return p.cfg.Level, nil
	}
	if len(values) > 1 {
		return 0, &idp.Rejection{Reason: "the header with the level is there more than once"}
	}
	n, err := strconv.Atoi(strings.TrimSpace(values[0]))
	if err != nil {
		return 0, &idp.Rejection{Reason: "the level is not a number"}
	}
	return min(max(n, lowest), highest), nil
}

// details returns the mapped attributes, without values that are not text or too long.
func (p *Provider) details(h http.Header) map[string][]string {
	out := map[string][]string{}
	for _, a := range p.cfg.Attributes {
		for _, v := range h.Values(a.Header) {
			if v = strings.TrimSpace(v); v != "" && isText(v, maxValue) && len(out[a.Detail]) < maxValues {
				out[a.Detail] = append(out[a.Detail], v)
			}
		}
	}
	return out
}

// Cleanse implements idp.RequestReader. It deletes every spelling that a server behind could take for the same name.
func (p *Provider) Cleanse(r *http.Request) {
	trusted := p.Trusts(r)
	for name := range r.Header {
		for _, own := range p.names {
			if fieldname.Same(own, name) && !(trusted && strings.EqualFold(own, name)) {
				delete(r.Header, name)
			}
		}
	}
}

// Trusts implements idp.RequestReader: the peer of the connection is one of the proxies.
func (p *Provider) Trusts(r *http.Request) bool {
	at, err := netip.ParseAddrPort(r.RemoteAddr)
	return err == nil && idp.Within(p.cfg.Trust, at.Addr())
}

// isToken: RFC 9110 5.6.2.
func isToken(s string) bool {
	for _, c := range s {
		if c >= utf8.RuneSelf || (!unicode.IsLetter(c) && !unicode.IsDigit(c) && !strings.ContainsRune("!#$%&'*+-.^_`|~", c)) {
			return false
		}
	}
	return s != ""
}

func isText(s string, limit int) bool {
	return utf8.ValidString(s) && utf8.RuneCountInString(s) <= limit && !authn.Turns(s) && !strings.ContainsFunc(s, unicode.IsControl)
}
