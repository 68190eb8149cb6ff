package provider

import (
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"slices"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/gatehouse-id/gatehouse/authz/clientstore"
	"github.com/gatehouse-id/gatehouse/caddymodule/internal/caddyfileutil"
	"github.com/gatehouse-id/gatehouse/caddymodule/internal/reference"
	"github.com/gatehouse-id/gatehouse/caddymodule/provider/attribute"
	"github.com/gatehouse-id/gatehouse/idp"
	"github.com/gatehouse-id/gatehouse/idp/header"
)

func init() {
	caddy.RegisterModule(HeaderIDP{})
}

// HeaderIDP takes the identity that a proxy in front has established from the headers of the request. Only the address
// of the direct peer counts, not what it says about earlier ones. From every other peer these headers are deleted.
type HeaderIDP struct {
	IDPOptions

	// The addresses or networks of the proxies, such as 10.0.0.0/8. Required.
	Trust []string `json:"trust,omitempty"`
	// The header with the username. Required.
	User string `json:"user,omitempty"`
	// The header with the authentication level: a number, held between 1 and 4. Default: none.
	LevelHeader string `json:"level_header,omitempty"`
	// The authentication level where no header says it, 1 to 4. Default: 1.
	Level caddyfileutil.Count `json:"level,omitempty"`
	// Headers that become user details. Default: none.
	Attributes []HeaderAttribute `json:"attributes,omitempty"`
	// Parameters of the authorization request that become user details. Default: none.
	Parameters []string `json:"parameters,omitempty"`

	cfg      header.Config
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
	return caddy.ModuleInfo{ID: Namespace + ".header", New: func() caddy.Module { return new(HeaderIDP) }}
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
	err := caddyfileutil.ReadOptions(d, "idp header", &reference.HeaderIDP, h.with(caddyfileutil.Subdirectives{
		"trust":      caddyfileutil.Values(&h.Trust, caddyfileutil.CheckTrusted),
		"user":       caddyfileutil.Value(&h.User, checkHeaderName),
		"level":      h.readLevel,
		"attributes": h.readAttribute,
		"parameters": caddyfileutil.Values(&h.Parameters, nil),
	}))
	if err != nil {
		return err
	}
	if h.unknown() {
		return nil
	}
	r := caddyfileutil.NewResolver(nil)
	if h.build(r); r.Err() != nil {
		return caddyfileutil.At(start, fmt.Errorf("idp header: %w", r.Err()))
	}
	return nil
}

// unknown reports whether a value is only known when the configuration is loaded.
func (h *HeaderIDP) unknown() bool {
	all := append(slices.Concat(h.Trust, h.Parameters), h.User, h.LevelHeader)
	for _, a := range h.Attributes {
		all = append(all, a.Header, a.Detail)
	}
	return slices.ContainsFunc(all, caddyfileutil.HasPlaceholder)
}

func (h *HeaderIDP) readLevel(d *caddyfile.Dispenser) error {
	var v string
	if err := caddyfileutil.ReadValue(d, &v, nil); err != nil {
		return err
	}
	if _, err := caddyfileutil.ParseCount(v); err == nil {
		if h.Level != "" {
			return d.Errf("level: the number is already set: keep one of them")
		}
		if err := caddyfileutil.Check(d, "level", v, caddyfileutil.CheckLevel); err != nil {
			return err
		}
		h.Level = caddyfileutil.Count(v)
		return nil
	}
	if h.LevelHeader != "" {
		return d.Errf("level: the header is already set: keep one of them")
	}
	h.LevelHeader = v
	return caddyfileutil.Check(d, "level", v, checkHeaderName)
}

func (h *HeaderIDP) readAttribute(d *caddyfile.Dispenser) error {
	args := d.RemainingArgs()
	if len(args) != 2 {
		return d.Err("attributes: want a header and the user detail that it becomes, such as X-Remote-Email email")
	}
	if err := caddyfileutil.Check(d, "attributes", args[0], checkHeaderName); err != nil {
		return err
	}
	if err := caddyfileutil.Check(d, "attributes", args[1], nil); err != nil {
		return err
	}
	h.Attributes = append(h.Attributes, HeaderAttribute{args[0], args[1]})
	return nil
}

// Provision resolves the options.
func (h *HeaderIDP) Provision(caddy.Context) error {
	r := caddyfileutil.NewResolver(caddy.NewReplacer())
	h.Name = r.Plain("name", h.Name, nil)
	h.build(r)
	h.faults = r.Faults()
	return r.Err()
}

func (h *HeaderIDP) build(r *caddyfileutil.Resolver) {
	before := r.ProblemCount()
	h.assures(r)
	cfg := header.Config{
		User: r.Plain("user", h.User, checkHeaderName), LevelHeader: r.Plain("level_header", h.LevelHeader, checkHeaderName),
		Level: r.Count("level", h.Level, caddyfileutil.CheckLevel), Parameters: r.List("parameters", h.Parameters, nil),
	}
	cfg.Trust = networks(r, "trust", h.Trust, caddyfileutil.CheckTrusted)
	for _, a := range h.Attributes {
		doubt(r, "attributes", a.Header, a.Detail, attribute.InHeader)
		cfg.Attributes = append(cfg.Attributes, header.Attribute{
			Header: r.Plain("attributes", a.Header, checkHeaderName), Detail: r.Plain("attributes", a.Detail, nil),
		})
	}
	if r.ProblemCount() > before {
		return
	}
	h.cfg = cfg
	var err error
	h.provider, err = header.New(cfg)
	r.AddError(err)
	if err := (clientstore.Provider{ID: "header", Parameters: cfg.Parameters}).Validate(); err != nil {
		r.AddError(errors.Unwrap(err)) // the provider is named elsewhere in the message
	}
}

// Source implements IDP.
func (h *HeaderIDP) Source() idp.Provider { return h.provider }

// networks resolves an option that lists networks.
func networks(r *caddyfileutil.Resolver, option string, values []string, check func(string) error) (out []netip.Prefix) {
	for _, s := range r.List(option, values, check) {
		n, _ := caddyfileutil.ParseNetwork(s)
		out = append(out, n)
	}
	return out
}

func checkNetwork(s string) error {
	_, err := caddyfileutil.ParseNetwork(s)
	return err
}

// headerName is a field name without the characters that some software folds. (RFC 9110 5.1)
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
