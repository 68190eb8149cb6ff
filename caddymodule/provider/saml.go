package provider

import (
	"fmt"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/gatehouse-id/gatehouse/caddymodule/internal/caddyfileutil"
	"github.com/gatehouse-id/gatehouse/caddymodule/internal/reference"
	"github.com/gatehouse-id/gatehouse/caddymodule/provider/attribute"
	"github.com/gatehouse-id/gatehouse/idp"
	"github.com/gatehouse-id/gatehouse/idp/saml"
)

func init() {
	caddy.RegisterModule(SAMLIDP{})
}

// SAMLIDP signs people in at a SAML 2.0 identity provider. Gatehouse's metadata for it is at /saml/<id>/metadata.
type SAMLIDP struct {
	RemoteOptions

	// A file with the provider's metadata, or its https address, which is looked at again and again. Required.
	Metadata string `json:"metadata,omitempty"`
	// A PEM file with the certificate that must have signed the metadata. Default: unsigned metadata is taken.
	MetadataCertificate string `json:"metadata_certificate,omitempty"`
	// The entity ID of the provider, where the metadata is that of a federation with many. Default: the only identity
	// provider there.
	Entity string `json:"entity,omitempty"`
	// accept: the keys of the metadata are trusted although their certificates have expired. Default: they are refused.
	ExpiredCertificates string `json:"expired_certificates,omitempty"`
	// How old metadata behind an address becomes before it is fetched again, at least 5m. Default: what the metadata
	// says, or 1h.
	Refresh caddyfileutil.Duration `json:"refresh,omitempty"`
	// Whether sign-ins that begin at the provider are taken. Default: false.
	AllowUnsolicited bool `json:"allow_unsolicited,omitempty"`
	// Key pairs of the configuration by name: the first signs, all are in Gatehouse's metadata. Default: Gatehouse's
	// own.
	Sign []string `json:"sign,omitempty"`
	// Key pairs of the configuration by name: all decrypt and are in Gatehouse's metadata. Default: Gatehouse's own.
	Decrypt []string `json:"decrypt,omitempty"`
	// The format of the name that is asked for: persistent, transient, email, unspecified or a URN. Default: the
	// provider chooses.
	NameID string `json:"name_id,omitempty"`
	// The attribute that identifies a person permanently, where the NameID does not. Default: the NameID.
	Subject string `json:"subject,omitempty"`
	// The class of sign-in that is asked for. Default: the classes of levels that reach the level which is needed.
	AuthnContext *SAMLAuthnContext `json:"authn_context,omitempty"`
	// Authentication levels by the class that the provider names. Default: level for all.
	Levels map[string]caddyfileutil.Count `json:"levels,omitempty"`
	// What the provider shows as the one who asks. Default: the name of the application.
	ProviderName string `json:"provider_name,omitempty"`
	// Whether the answer is asked for by artifact. Default: by POST.
	Artifact bool `json:"artifact,omitempty"`
	// Gatehouse's own entity ID at the provider. Default: the address of its metadata.
	EntityID string `json:"entity_id,omitempty"`
	// The key pair of the configuration whose certificate authenticates Gatehouse on the back channel. Default: none.
	ClientKey string `json:"client_key,omitempty"`
	// A key pair of the configuration with the certificate of the provider's back channel, or of its authority. Default:
	// any certificate that the system trusts.
	ServerCertificate string `json:"server_certificate,omitempty"`
	// The national sign-in service that the provider belongs to: digid or etoegang. Default: none.
	Scheme string `json:"scheme,omitempty"`
	// The lowest level of the scheme that is accepted. Required with a scheme.
	Assurance string `json:"assurance,omitempty"`
	// The authentication service that the broker of a scheme sends people to. Default: they choose.
	Via string `json:"via,omitempty"`

	cfg saml.Config
}

// SAMLAuthnContext is a class of sign-in. (SAML core 3.3.2.2.1)
type SAMLAuthnContext struct {
	// exact, minimum, maximum or better. Required.
	Comparison string `json:"comparison"`
	// Class references. Required.
	Classes []string `json:"classes"`
}

// CaddyModule implements caddy.Module.
func (SAMLIDP) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: Namespace + ".saml", New: func() caddy.Module { return new(SAMLIDP) }}
}

// UnmarshalCaddyfile reads
//
//	idp <id> saml {
//		metadata             <file or https address>
//		metadata_certificate <file>
//		entity               <entity ID>
//		expired_certificates accept
//		refresh              <duration>
//		allow_unsolicited
//		sign                 <key pair>...
//		decrypt              <key pair>...
//		name_id              persistent|transient|email|unspecified|<urn>
//		subject              <attribute>
//		authn_context        exact|minimum|maximum|better <class>...
//		map_level            <class> <1 to 4>    # as often as needed
//		provider_name        <text>
//		artifact
//		entity_id            <uri>
//		client_key           <key pair>
//		server_certificate   <key pair>
//		scheme               digid|etoegang <lowest level> [<entity ID of an authentication service>]
//	}
//
// and what RemoteOptions read.
func (s *SAMLIDP) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next()
	start := d.Token()
	err := caddyfileutil.ReadOptions(d, "idp saml", &reference.SAML, s.with(caddyfileutil.Subdirectives{
		"metadata":             caddyfileutil.Value(&s.Metadata, nil),
		"metadata_certificate": caddyfileutil.Value(&s.MetadataCertificate, nil),
		"entity":               caddyfileutil.Value(&s.Entity, nil),
		"expired_certificates": caddyfileutil.Value(&s.ExpiredCertificates, caddyfileutil.OneOf("accept")),
		"refresh":              caddyfileutil.Value(&s.Refresh, caddyfileutil.CheckDuration),
		"allow_unsolicited":    caddyfileutil.Flag(&s.AllowUnsolicited),
		"sign":                 caddyfileutil.Values(&s.Sign, nil),
		"decrypt":              caddyfileutil.Values(&s.Decrypt, nil),
		"name_id":              caddyfileutil.Value(&s.NameID, nil),
		"subject":              caddyfileutil.Value(&s.Subject, nil),
		"authn_context":        s.readContext,
		"map_level":            readLevels(&s.Levels),
		"provider_name":        caddyfileutil.Text(&s.ProviderName),
		"artifact":             caddyfileutil.Flag(&s.Artifact),
		"entity_id":            caddyfileutil.Value(&s.EntityID, nil),
		"client_key":           caddyfileutil.Value(&s.ClientKey, nil),
		"server_certificate":   caddyfileutil.Value(&s.ServerCertificate, nil),
		"scheme":               s.readScheme,
	}))
	if err != nil {
		return err
	}
	r := caddyfileutil.NewResolver(nil)
	if s.build(r); r.Err() != nil {
		return caddyfileutil.At(start, fmt.Errorf("idp saml: %w", r.Err()))
	}
	return nil
}

func (s *SAMLIDP) readContext(d *caddyfile.Dispenser) error {
	args := d.RemainingArgs()
	if len(args) < 2 {
		return d.Err("authn_context: want a comparison and one class reference or more, such as `authn_context minimum urn:oasis:names:tc:SAML:2.0:ac:classes:PasswordProtectedTransport`")
	}
	s.AuthnContext = &SAMLAuthnContext{strings.ToLower(args[0]), args[1:]}
	return caddyfileutil.NoMore(d, "authn_context")
}

func (s *SAMLIDP) readScheme(d *caddyfile.Dispenser) error {
	args := d.RemainingArgs()
	if len(args) < 2 || len(args) > 3 {
		return d.Err("scheme: want a scheme and the lowest level that is accepted, such as `scheme etoegang substantial`")
	}
	s.Scheme, s.Assurance = strings.ToLower(args[0]), strings.ToLower(args[1])
	if len(args) == 3 {
		s.Via = args[2]
	}
	return caddyfileutil.NoMore(d, "scheme")
}

// Provision resolves the options.
func (s *SAMLIDP) Provision(caddy.Context) error {
	return s.provision(s.build)
}

// build resolves and checks the configuration, unless parts of it are not known yet.
func (s *SAMLIDP) build(r *caddyfileutil.Resolver) {
	before := r.ProblemCount()
	s.remote = s.resolve(r, attribute.Nowhere)
	s.cfg = saml.Config{
		Metadata: r.Plain("metadata", s.Metadata, nil), MetadataCertificate: r.Plain("metadata_certificate", s.MetadataCertificate, nil),
		Entity:        r.Plain("entity", s.Entity, nil),
		AcceptExpired: r.Plain("expired_certificates", s.ExpiredCertificates, caddyfileutil.OneOf("accept")) != "",
		Refresh:       r.Duration("refresh", s.Refresh), AllowUnsolicited: s.AllowUnsolicited, Sign: r.List("sign", s.Sign, nil),
		Decrypt: r.List("decrypt", s.Decrypt, nil),
		NameID:  r.Plain("name_id", s.NameID, nil), Subject: r.Plain("subject", s.Subject, nil),
		Levels: levels(r, s.Levels), Level: s.remote.level,
		ProviderName: r.Plain("provider_name", s.ProviderName, nil), Artifact: s.Artifact, Mapping: s.remote.mapping,
		IdentifyBy: s.remote.identifyBy, EntityID: r.Plain("entity_id", s.EntityID, nil), ClientKey: r.Plain("client_key", s.ClientKey, nil),
		ServerCertificate: r.Plain("server_certificate", s.ServerCertificate, nil), Scheme: r.Plain("scheme", s.Scheme, nil),
		Assurance: r.Plain("scheme", s.Assurance, nil), Via: r.Plain("scheme", s.Via, nil),
	}
	if c := s.AuthnContext; c != nil {
		s.cfg.AuthnContext = &saml.AuthnContext{
			Comparison: r.Plain("authn_context", strings.ToLower(c.Comparison), nil), Classes: r.List("authn_context", c.Classes, nil),
		}
	}
	if r.ProblemCount() == before && !(r.Adapting() && s.unknown()) {
		r.AddError(oneLine(s.cfg.Validate()))
	}
}

// unknown reports whether a value is only known when the configuration is loaded.
func (s *SAMLIDP) unknown() bool {
	all := append(slices.Concat(s.Sign, s.Decrypt), s.Metadata, s.MetadataCertificate, s.Entity, s.ExpiredCertificates, string(s.Refresh),
		s.NameID, s.Subject, s.ProviderName, s.EntityID, s.ClientKey, s.ServerCertificate,
		s.Scheme, s.Assurance, s.Via)
	if s.AuthnContext != nil {
		all = append(append(all, s.AuthnContext.Classes...), s.AuthnContext.Comparison)
	}
	for class, level := range s.Levels {
		all = append(all, class, string(level))
	}
	return s.RemoteOptions.unknown() || slices.ContainsFunc(all, caddyfileutil.HasPlaceholder)
}

func (s *SAMLIDP) open(env idp.Env) (idp.Provider, error) { return saml.New(s.cfg, env) }

func (*SAMLIDP) path() string { return "saml" }

var (
	_ caddy.Provisioner     = (*SAMLIDP)(nil)
	_ caddyfile.Unmarshaler = (*SAMLIDP)(nil)
	_ remoteIDP             = (*SAMLIDP)(nil)
)
