package caddymodule

import (
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"slices"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/gatehouse-id/gatehouse/authz/registry"
	"github.com/gatehouse-id/gatehouse/idp"
	"github.com/gatehouse-id/gatehouse/idp/header"
)

func init() {
	caddy.RegisterModule(HeaderIDP{})
}

// HeaderIDP takes the identity that a proxy in front has established from the headers of the request. Only the direct peer counts, not
// what it says of those behind it; from every other peer these headers are deleted.
type HeaderIDP struct {
	IDPOptions

	// The addresses or networks of the proxies, such as 10.0.0.0/8. Required.
	Trust []string `json:"trust,omitempty"`
	// The header with the username. Required.
	User string `json:"user,omitempty"`
	// The header with the authentication level: a number, held between 1 and 4. Default: none.
	LevelHeader string `json:"level_header,omitempty"`
	// The authentication level where no header says it, 1 to 4. Default: 1.
	Level Count `json:"level,omitempty"`
	// Headers that become user details. Default: none.
	Attributes []HeaderAttribute `json:"attributes,omitempty"`
	// Parameters of the authorization request that become user details. Default: none.
	Parameters []string `json:"parameters,omitempty"`

	provider *header.Provider
}

// HeaderAttribute says which header becomes which user detail.
type HeaderAttribute struct {
	// The header. Required.
	Header string `json:"header"`
	// The user detail. Required.
	Detail string `json:"detail"`
}

// CaddyModule implements caddy.Module.
func (HeaderIDP) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: idpNamespace + ".header", New: func() caddy.Module { return new(HeaderIDP) }}
}

// UnmarshalCaddyfile reads
//
//	idp <id> header {
//		trust      <address or network>...
//		user       <header>
//		level      <header>|<1 to 4>     # twice: the header, and the level where it is absent
//		attributes <header> <detail>     # as often as needed
//		parameters <name>...
//		name       <text>
//		disabled
//	}
func (h *HeaderIDP) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next()
	start := d.Token()
	if d.NextArg() {
		return d.Errf("idp header: unexpected argument %q, its options stand in a block", d.Val())
	}
	err := readBlock(d, "idp header", h.with(subdirectives{
		"trust":      values(&h.Trust, checkNetwork),
		"user":       value(&h.User, checkHeaderName),
		"level":      {parse: h.readLevel, repeats: true},
		"attributes": {parse: h.readAttribute, repeats: true},
		"parameters": values(&h.Parameters, nil),
	}))
	if err != nil {
		return err
	}
	if h.unknown() {
		return nil
	}
	r := &resolver{}
	if h.build(r); r.err() != nil {
		return at(start, fmt.Errorf("idp header: %w", r.err()))
	}
	return nil
}

// unknown tells whether a value is only known when the configuration is loaded.
func (h *HeaderIDP) unknown() bool {
	all := append(slices.Concat(h.Trust, h.Parameters), h.User, h.LevelHeader)
	for _, a := range h.Attributes {
		all = append(all, a.Header, a.Detail)
	}
	return slices.ContainsFunc(all, hasPlaceholder)
}

func (h *HeaderIDP) readLevel(d *caddyfile.Dispenser) error {
	var v string
	if err := readValue(d, &v, nil); err != nil {
		return err
	}
	if _, err := parseCount(v); err == nil {
		if h.Level != "" {
			return d.Errf("level: the number is already set: keep one of them")
		}
		if err := check(d, "level", v, checkLevel); err != nil {
			return err
		}
		h.Level = Count(v)
		return nil
	}
	if h.LevelHeader != "" {
		return d.Errf("level: the header is already set: keep one of them")
	}
	h.LevelHeader = v
	return check(d, "level", v, checkHeaderName)
}

func (h *HeaderIDP) readAttribute(d *caddyfile.Dispenser) error {
	args := d.RemainingArgs()
	if len(args) != 2 {
		return d.Err("attributes: want a header and the user detail that it becomes, such as X-Remote-Email email")
	}
	if err := check(d, "attributes", args[0], checkHeaderName); err != nil {
		return err
	}
	if err := check(d, "attributes", args[1], nil); err != nil {
		return err
	}
	h.Attributes = append(h.Attributes, HeaderAttribute{args[0], args[1]})
	return nil
}

// Provision resolves the options.
func (h *HeaderIDP) Provision(caddy.Context) error {
	r := &resolver{repl: caddy.NewReplacer()}
	h.Name = r.plain("name", h.Name, nil)
	h.build(r)
	return r.err()
}

func (h *HeaderIDP) build(r *resolver) {
	before := len(r.problems)
	cfg := header.Config{
		User: r.plain("user", h.User, checkHeaderName), LevelHeader: r.plain("level_header", h.LevelHeader, checkHeaderName),
		Level: r.count("level", h.Level, checkLevel), Parameters: r.list("parameters", h.Parameters, nil),
	}
	for _, s := range r.list("trust", h.Trust, checkNetwork) {
		n, _ := parseNetwork(s)
		cfg.Trust = append(cfg.Trust, n)
	}
	for _, a := range h.Attributes {
		cfg.Attributes = append(cfg.Attributes, header.Attribute{
			Header: r.plain("attributes", a.Header, checkHeaderName), Detail: r.plain("attributes", a.Detail, nil),
		})
	}
	if len(r.problems) > before {
		return
	}
	var err error
	h.provider, err = header.New(cfg)
	r.failed(err)
	if err := (registry.Provider{ID: "header", Parameters: cfg.Parameters}).Validate(); err != nil {
		r.failed(errors.Unwrap(err)) // what the provider is called is said elsewhere
	}
}

// Source implements IDP.
func (h *HeaderIDP) Source() idp.Provider { return h.provider }

// parseNetwork reads an address or a network.
func parseNetwork(s string) (netip.Prefix, error) {
	if n, err := netip.ParsePrefix(s); err == nil {
		return n, nil
	}
	a, err := netip.ParseAddr(s)
	if err != nil || a.Zone() != "" {
		return netip.Prefix{}, fmt.Errorf("%q is not an address or network such as 10.0.0.0/8", s)
	}
	return netip.PrefixFrom(a, a.BitLen()), nil
}

func checkNetwork(s string) error {
	_, err := parseNetwork(s)
	return err
}

// headerName is a field name without the signs that some software folds. (RFC 9110 5.1)
var headerName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9-]{0,62}$`)

func checkHeaderName(s string) error {
	if !headerName.MatchString(s) {
		return fmt.Errorf("%q is not the name of a header: letters, digits and -", s)
	}
	return nil
}

var (
	_ caddy.Provisioner     = (*HeaderIDP)(nil)
	_ caddyfile.Unmarshaler = (*HeaderIDP)(nil)
	_ IDP                   = (*HeaderIDP)(nil)
)
