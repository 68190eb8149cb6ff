// Package serviceprovider reads SAML service providers as operators write them, in JSON and in the Caddyfile.
package serviceprovider

import (
	"fmt"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/gatehouse-id/gatehouse/caddymodule/internal/caddyfileutil"
	"github.com/gatehouse-id/gatehouse/caddymodule/internal/reference"
	"github.com/gatehouse-id/gatehouse/identity/serviceprovider"
	"github.com/gatehouse-id/gatehouse/identity/settings"
)

// ServiceProvider is an application that signs people in by SAML 2.0. Gatehouse's metadata for it are at /sso/metadata.
type ServiceProvider struct {
	// The name in addresses. Required.
	ID string `json:"id"`
	// The name that people see. Default: the id.
	Name string `json:"name,omitempty"`
	// A file with its metadata, or their https address, which is looked at again and again. Required.
	Metadata string `json:"metadata"`
	// How people are named: persistent, transient, email or unspecified. Default: what its metadata name first,
	// otherwise persistent.
	NameID string `json:"name_id,omitempty"`
	// The attribute that names people. Default: what name_id says.
	NameAttribute string `json:"name_attribute,omitempty"`
	// What it is told of people. Default: the name alone.
	Attributes []Attribute `json:"attributes,omitempty"`
	// The groups of which a person has to be in one. Default: everybody can sign in.
	Groups []string `json:"groups,omitempty"`
	// The authentication level that every sign-in needs, 1 to 4. Default: any.
	Level caddyfileutil.Count `json:"level,omitempty"`
	// When sign-ins need a second step: when_set_up, always or on_demand. Default: as the settings say.
	SecondFactor string `json:"second_factor,omitempty"`
	// Whether people are asked before attributes are told. Default: false.
	Consent bool `json:"consent,omitempty"`
	// Whether sign-ins can begin at Gatehouse, by a link to /sso/start/<id>. Default: false.
	IDPInitiated bool `json:"idp_initiated,omitempty"`
	// The RelayStates that such links can have. Default: none.
	RelayStates []string `json:"relay_states,omitempty"`
	// required: requests without a signature are refused. Default: as its metadata say.
	SignedRequests string `json:"signed_requests,omitempty"`
	// Its entity ID, where the metadata is that of a federation with many. Default: the only service provider there.
	Entity string `json:"entity,omitempty"`
	// A PEM file with the certificate that must have signed the metadata. Default: unsigned metadata is accepted.
	MetadataCertificate string `json:"metadata_certificate,omitempty"`
	// accept: the keys of its metadata are trusted although their certificates have expired. Default: they are refused.
	ExpiredCertificates string `json:"expired_certificates,omitempty"`
	// off: assertions are not encrypted, although its metadata have a key for that. Default: on.
	Encryption string `json:"encryption,omitempty"`
}

// Attribute is an attribute of people.
type Attribute struct {
	// A claim, such as email, or a custom attribute. Required.
	Source string `json:"source"`
	// The names under which it is told. Default: the source.
	Names []Name `json:"names,omitempty"`
	// What people read of it. Default: a word for the claim, or the source.
	Label string `json:"label,omitempty"`
	// Whether people without it are refused. Default: false.
	Required bool `json:"required,omitempty"`
	// Whether people can leave it out. Default: false.
	Optional bool `json:"optional,omitempty"`
	// Whether an e-mail address or a telephone number is told that is not known to be the person's. Default: false.
	Unverified bool `json:"unverified,omitempty"`
}

// Name is a name of an attribute in messages.
type Name struct {
	// Required.
	Name string `json:"name"`
	// basic, uri or unspecified. Default: basic.
	Format string `json:"format,omitempty"`
}

var (
	checkFormat     = caddyfileutil.OneOf("persistent", "transient", "email", "unspecified")
	checkNameFormat = caddyfileutil.OneOf("basic", "uri", "unspecified")
	checkRequired   = caddyfileutil.OneOf("required")
	checkSwitch     = caddyfileutil.OneOf("on", "off")
	checkAccept     = caddyfileutil.OneOf("accept")
)

// Read reads
//
//	service_provider <id> {
//		name            <text>
//		metadata        <file or https address>
//		name_id         persistent|transient|email|unspecified [<attribute>]
//		attributes      <attribute>...
//		attribute       <attribute> { ... }
//		groups          <group>...
//		level           <1 to 4>
//		consent
//		idp_initiated   [<RelayState>...]
//		signed_requests required
//		encryption      on|off
//		entity          <entity ID>
//		metadata_certificate <file>
//		expired_certificates accept
//	}
func Read(d *caddyfile.Dispenser, others []ServiceProvider) (p ServiceProvider, err error) {
	start := d.Token()
	if err := caddyfileutil.ReadName(d, &p.ID, checkID); err != nil {
		return p, err
	}
	for _, o := range others {
		if o.ID == p.ID {
			return p, d.Errf("service_provider %s is already defined: keep one of them", p.ID)
		}
	}
	err = caddyfileutil.ReadBlock(d, "service_provider "+p.ID, &reference.ServiceProvider, caddyfileutil.Subdirectives{
		"name":            caddyfileutil.Text(&p.Name),
		"metadata":        caddyfileutil.Value(&p.Metadata, nil),
		"name_id":         p.readNameID,
		"attributes":      p.readAttributes,
		"attribute":       p.readAttribute,
		"groups":          caddyfileutil.Values(&p.Groups, nil),
		"level":           caddyfileutil.Value(&p.Level, caddyfileutil.CheckLevel),
		"second_factor":   caddyfileutil.Value(&p.SecondFactor, caddyfileutil.CheckSecondFactor),
		"consent":         caddyfileutil.Flag(&p.Consent),
		"idp_initiated":   p.readInitiated,
		"signed_requests": caddyfileutil.Value(&p.SignedRequests, checkRequired),
		"encryption":      caddyfileutil.Value(&p.Encryption, checkSwitch),

		"entity":               caddyfileutil.Value(&p.Entity, nil),
		"metadata_certificate": caddyfileutil.Value(&p.MetadataCertificate, nil),
		"expired_certificates": caddyfileutil.Value(&p.ExpiredCertificates, checkAccept),
	})
	if err != nil {
		return p, err
	}
	return p, caddyfileutil.Adapt(start, func(r *caddyfileutil.Resolver) { p.Build(r) })
}

// checkID accepts ids that can stand in addresses as they are.
func checkID(id string) error {
	for _, c := range id {
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '.' && c != '_' && c != '-' {
			return fmt.Errorf("%q: an id has letters, digits, dots, - and _", id)
		}
	}
	if id == "" || len(id) > 64 || id == "." || id == ".." {
		return fmt.Errorf("%q: an id has 1 to 64 characters", id)
	}
	return nil
}

func (p *ServiceProvider) readNameID(d *caddyfile.Dispenser) error {
	args := d.RemainingArgs()
	if len(args) == 0 || len(args) > 2 {
		return d.Err("name_id: want persistent, transient, email or unspecified, and perhaps the attribute that names people, as in: name_id unspecified username")
	}
	if err := caddyfileutil.Check(d, "name_id", args[0], checkFormat); err != nil {
		return err
	}
	p.NameID = args[0]
	if len(args) == 2 {
		p.NameAttribute = args[1]
	}
	return nil
}

func (p *ServiceProvider) readAttributes(d *caddyfile.Dispenser) error {
	args := d.RemainingArgs()
	if len(args) == 0 {
		return d.Err("attributes: want one or more, as in: attributes email name groups")
	}
	for _, a := range args {
		p.Attributes = append(p.Attributes, Attribute{Source: a})
	}
	return nil
}

// readAttribute reads
//
//	attribute <attribute> {
//		as       <name> [basic|uri|unspecified]
//		label    <text>
//		required
//		optional
//		unverified
//	}
func (p *ServiceProvider) readAttribute(d *caddyfile.Dispenser) error {
	var a Attribute
	if err := caddyfileutil.ReadName(d, &a.Source, nil); err != nil {
		return err
	}
	err := caddyfileutil.ReadBlock(d, "attribute "+a.Source, &reference.ServiceProviderAttribute, caddyfileutil.Subdirectives{
		"as":         a.readName,
		"label":      caddyfileutil.Text(&a.Label),
		"required":   caddyfileutil.Flag(&a.Required),
		"optional":   caddyfileutil.Flag(&a.Optional),
		"unverified": caddyfileutil.Flag(&a.Unverified),
	})
	p.Attributes = append(p.Attributes, a)
	return err
}

func (a *Attribute) readName(d *caddyfile.Dispenser) error {
	args := d.RemainingArgs()
	if len(args) == 0 || len(args) > 2 {
		return d.Err("as: want a name and perhaps its format, as in: as urn:oid:0.9.2342.19200300.100.1.3 uri")
	}
	n := Name{Name: args[0]}
	if len(args) == 2 {
		if err := caddyfileutil.Check(d, "as", args[1], checkNameFormat); err != nil {
			return err
		}
		n.Format = args[1]
	}
	a.Names = append(a.Names, n)
	return nil
}

func (p *ServiceProvider) readInitiated(d *caddyfile.Dispenser) error {
	p.IDPInitiated, p.RelayStates = true, d.RemainingArgs()
	return nil
}

// doubt finds attributes that are probably misspelled.
func (p *ServiceProvider) doubt(r *caddyfileutil.Resolver) {
	say := func(option, word, without string) {
		if meant := settings.MeantClaim(word); meant != "" && !caddyfileutil.HasPlaceholder(word) {
			option = "service_provider " + p.ID + ": " + option
			r.Lack(caddyfileutil.Fault{
				Option: option, Reason: fmt.Sprintf("%s: no person has the attribute %q, so %s", option, word, without),
				Fix: fmt.Sprintf("did you mean %q?", meant),
			})
		}
	}
	say("name_id", p.NameAttribute, "probably no one has a name there")
	for _, a := range p.Attributes {
		say("attributes", a.Source, "it is probably never told")
	}
}

// Build returns the service provider. It is validated as a whole, unless a value is not known yet.
func (p *ServiceProvider) Build(r *caddyfileutil.Resolver) serviceprovider.Provider {
	of, before := "service_provider "+p.ID+": ", r.ProblemCount()
	if err := checkID(p.ID); err != nil {
		r.Fail("service_provider %v", err)
	}
	metadata, resolved := r.Text(of+"metadata", p.Metadata, nil)
	out := serviceprovider.Provider{
		ID: p.ID, Name: r.Plain(of+"name", p.Name, nil), Metadata: metadata, Groups: r.List(of+"groups", p.Groups, nil),
		Level:        r.Count(of+"level", p.Level, caddyfileutil.CheckLevel),
		SecondFactor: r.Plain(of+"second_factor", p.SecondFactor, caddyfileutil.CheckSecondFactor),
		Consent:      p.Consent, Starts: p.IDPInitiated, Relays: r.List(of+"idp_initiated", p.RelayStates, nil),
		Plain:  r.Plain(of+"encryption", p.Encryption, checkSwitch) == "off",
		Entity: r.Plain(of+"entity", p.Entity, nil), Certificate: r.Plain(of+"metadata_certificate", p.MetadataCertificate, nil),
		AcceptExpired: r.Plain(of+"expired_certificates", p.ExpiredCertificates, checkAccept) != "",
		Signed:        r.Plain(of+"signed_requests", p.SignedRequests, checkRequired) != "",
		Subject: serviceprovider.Subject{
			Format:    r.Plain(of+"name_id", p.NameID, checkFormat),
			Attribute: r.Plain(of+"name_id", p.NameAttribute, nil),
		},
	}
	if out.Name == "" {
		out.Name = p.ID
	}
	p.doubt(r)
	for _, a := range p.Attributes {
		made := serviceprovider.Attribute{
			Source: r.Plain(of+"attribute", a.Source, nil), Label: r.Plain(of+"label", a.Label, nil), Required: a.Required, Optional: a.Optional,
			Unverified: a.Unverified, Show: true,
		}
		for _, n := range a.Names {
			format := r.Plain(of+"as", n.Format, checkNameFormat)
			if format == "" {
				format = "basic"
			}
			made.Names = append(made.Names, serviceprovider.Name{Name: r.Plain(of+"as", n.Name, nil), Format: format})
		}
		out.Attributes = append(out.Attributes, made)
	}
	if r.ProblemCount() == before && (resolved || p.Metadata == "") {
		if err := out.Validate(); err != nil {
			r.Fail("service_provider %s: %v", p.ID, err)
		}
	}
	return out
}
