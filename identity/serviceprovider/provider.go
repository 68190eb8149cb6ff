package serviceprovider

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/idp"
	"github.com/gatehouse-id/gatehouse/idp/saml/samlidp"
	"github.com/gatehouse-id/gatehouse/internal/authn"
	"github.com/gatehouse-id/gatehouse/internal/loopback"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

const maxText = 256 // characters of a name of the configuration

// Provider is a service provider as the operator configures it.
type Provider struct {
	// ID names it in addresses, Name on pages.
	ID, Name string
	// Metadata is XML, the path of a file, or an https address.
	Metadata string
	// Level is the authentication level that every sign-in needs. 0: any.
	Level int
	// SecondFactor says when a sign-in needs a second step. Empty: as the settings say.
	SecondFactor string
	// Assurance is the identity assurance level that every person needs. 0: any.
	Assurance int
	// Groups are the groups whose members can sign in. Empty: everyone can.
	Groups []string
	// Entity is its entity ID, where the metadata is that of a federation. Empty: the only service provider there.
	Entity string
	// Certificate is a PEM file: the metadata must be signed by its key. Empty: unsigned metadata is accepted.
	Certificate string
	// AcceptExpired trusts the keys of its metadata regardless of the validity of their certificates.
	AcceptExpired bool
	// Signed refuses requests without a signature, whatever the metadata says.
	Signed bool
	// Plain leaves assertions unencrypted, whatever the metadata says.
	Plain bool
	// Consent asks the person before attributes are released.
	Consent bool
	// Starts allows sign-ins that begin here (IdP-initiated). Relays are the RelayStates that their links can ask for.
	Starts bool
	Relays []string
	// Subject is the name of people at the service provider.
	Subject Subject
	// Attributes are the attributes of people that it gets.
	Attributes []Attribute
	// Unmapped also releases the custom attributes that have no row in Attributes.
	Unmapped bool
	// Rename gives custom attributes other names.
	Rename map[string]string
	// Organisation is the organisation that owns it. Empty: none.
	Organisation string
}

// Subject is the name by which a service provider knows a person. (identity service document,
// "saml_subject_name_attributes")
type Subject struct {
	// Format is the format of the NameID if the request asks for none: persistent, transient, email or unspecified. Empty:
	// the first of the metadata, otherwise persistent.
	Format string
	// Attribute is the attribute that becomes the NameID, in place of the one of the format. Empty: the one of the format.
	// Fallback is used for people who do not have it.
	Attribute, Fallback string
}

// Attribute is an attribute of people. (identity service document, "IdentityAttribute")
type Attribute struct {
	// Source is its source in the person: a claim, such as email, or a custom attribute.
	Source string
	// Label is shown to people. Empty: a word for the source.
	Label string
	// Names are the names under which it is released. Empty: Source.
	Names []Name
	// Required refuses people who do not have it. Optional lets people leave it out. Unverified releases an e-mail address
	// or telephone number even if it is not verified.
	Required, Optional, Unverified bool
	// Show shows the value to the person who is asked.
	Show bool
}

// Name is the name of an attribute in a message. Format is basic, uri, unspecified, or empty: none.
type Name struct{ Format, Name string }

// Validate returns everything that is wrong with a service provider. It reads no files, and accepts expired metadata,
// which concerns this service provider alone: see Warnings.
func (p *Provider) Validate() error {
	var wrong []error
	say := func(format string, args ...any) { wrong = append(wrong, fmt.Errorf(format, args...)) }
	if err := samlidp.CheckSource(p.Metadata, p.unsigned(), loopback.Is); err != nil {
		wrong = append(wrong, err)
	}
	if _, ok := formats[p.Subject.Format]; !ok && p.Subject.Format != "" {
		say("name_id %q is unknown: use persistent, transient, email or unspecified", p.Subject.Format)
	}
	if p.Subject.Attribute != "" && (p.Subject.Format == "transient" || p.Subject.Format == "email") {
		say("name_id %s takes no attribute", p.Subject.Format)
	}
	seen := map[string]bool{}
	for _, a := range p.Attributes {
		if a.Source == "" || !idp.IsText(a.Source, maxText) || !idp.IsText(a.Label, maxText) {
			say("an attribute without a name, with control characters, or longer than %d", maxText)
		}
		if seen[a.Source] {
			say("the attribute %s is there twice", a.Source)
		}
		seen[a.Source] = true
		if a.Required && a.Optional {
			say("the attribute %s is required and optional: keep one of them", a.Source)
		}
		if a.Unverified && !verifiable[canonical(a.Source)] {
			say("the attribute %s cannot have unverified: only email and phone_number are verified", a.Source)
		}
		for _, n := range a.Names {
			if _, ok := samlidp.NameFormats[n.Format]; n.Format != "" && !ok || n.Name == "" || !idp.IsText(n.Name, maxText) {
				say("the attribute %s: %q with the format %q is not the name of an attribute: the format is basic, uri or unspecified",
					a.Source, n.Name, n.Format)
			}
		}
	}
	return errors.Join(wrong...)
}

// CheckMetadata returns what is wrong with metadata that an API client sends: XML, or an https address.
func CheckMetadata(metadata string, now time.Time) error {
	if err := samlidp.CheckSource(metadata, samlidp.Options{}, loopback.Is); err != nil || strings.HasPrefix(metadata, "http") {
		return err
	}
	if samlidp.IsXML(metadata) {
		return samlidp.CheckCurrent(metadata, now)
	}
	return errors.New("want the metadata or its https address, not a file")
}

// member is a service provider with its metadata.
type member struct {
	Provider

	source *samlidp.Source
}

// client returns the service provider as pages show it.
func (m *member) client() authn.Client { return authn.Client{ID: m.ID, Name: m.Name, SAML: true} }

func (s *Service) member(p Provider, trusted bool) (*member, error) {
	client := s.deps.Checked
	if trusted {
		client = s.deps.Trusted
	}
	source, err := samlidp.NewSource(p.Metadata, p.source(trusted), client, s.now, s.deps.Log.With(zap.String("service_provider", p.ID)))
	return &member{p, source}, err
}

func (p *Provider) source(trusted bool) samlidp.Options {
	return samlidp.Options{Files: trusted, Entity: p.Entity, Certificate: p.Certificate, AcceptExpired: p.AcceptExpired}
}

// unsigned is source without the certificate file, which is not read while a configuration is checked.
func (p *Provider) unsigned() samlidp.Options {
	o := p.source(true)
	o.Certificate = ""
	return o
}

// Warnings says what keeps people from signing in at this service provider, now or within 30 days, as far as it is
// known without asking another server.
func (p *Provider) Warnings(now time.Time) []idp.Warning {
	if strings.HasPrefix(p.Metadata, "http") {
		return nil
	}
	source, err := samlidp.NewSource(p.Metadata, p.source(true), nil, func() time.Time { return now }, zap.NewNop())
	if err != nil {
		return []idp.Warning{idp.NoOne(err)}
	}
	return source.Warnings(context.Background())
}

// maxWait bounds the time that Warnings waits for metadata that is read for the first time.
const maxWait = time.Second

// Warnings returns the problems of each service provider by its id; the list of one without problems is empty. Outdated
// metadata is read again in the background.
func (s *Service) Warnings(ctx context.Context, u *settings.Units) map[string][]idp.Warning {
	out := map[string][]idp.Warning{}
	all := s.refresh(u)
	ctx, cancel := context.WithTimeout(ctx, maxWait)
	defer cancel()
	for _, m := range all {
		out[m.ID] = m.source.Warnings(ctx)
	}
	for _, id := range u.WithoutMetadata() {
		if _, has := out[id]; !has {
			out[id] = []idp.Warning{{
				Reason: "no one can sign in by SAML: it has that type, and no saml_metadata yet",
				Advice: "set saml_metadata to its metadata or the https address of it, or leave out the type",
			}}
		}
	}
	return out
}

// refresh begins to read the metadata that is due, and returns the service providers.
func (s *Service) refresh(u *settings.Units) []*member {
	all := s.members(u)
	for _, m := range all {
		m.source.Refresh()
	}
	return all
}

// members returns the service providers of the configuration file and of the settings. Of several with the same id or
// entity ID the first one counts, and those of the file come first.
func (s *Service) members(u *settings.Units) []*member {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.seen == u {
		return s.all
	}
	before := s.all
	s.seen = u
	s.all = slices.DeleteFunc(slices.Clone(s.fixed), func(m *member) bool { return !u.SignsInBy(m.ID, settings.ProtocolSAML) })
	for _, p := range providersOf(u) {
		if slices.ContainsFunc(s.all, func(m *member) bool { return m.ID == p.ID }) {
			continue
		}
		i := slices.IndexFunc(before, func(m *member) bool { return m.ID == p.ID && m.Metadata == p.Metadata && !slices.Contains(s.fixed, m) })
		if i >= 0 {
			s.all = append(s.all, &member{p, before[i].source})
			continue
		}
		m, err := s.member(p, false)
		if err != nil {
			s.deps.Log.Error("service provider cannot be used", zap.String("service_provider", p.ID), zap.Error(err))
			continue
		}
		s.all = append(s.all, m)
	}
	return s.all
}

// byID returns a service provider by its id, or nil.
func (s *Service) byID(u *settings.Units, id string) *member {
	for _, m := range s.members(u) {
		if m.ID == id {
			return m
		}
	}
	return nil
}

// byEntity returns a service provider by its entity ID, with its metadata. nil: it is unknown. Of several with this
// entity ID, one of the file comes first, even if an organisation has excluded it from SAML. Next comes the one that
// has signed people in before, so no other one takes its place by being listed first, or while its metadata cannot be
// read. (docs/decisions/saml.md#saml-service-providers)
func (s *Service) byEntity(ctx context.Context, u *settings.Units, entity string) (*member, *samlidp.Metadata, error) {
	all := s.members(u)
	if m, meta, err := firstOf(ctx, s.fixed, entity); m != nil {
		if !slices.Contains(all, m) {
			return nil, nil, nil
		}
		return m, meta, err
	}
	var held holderRecord
	err := s.deps.Store.View(ctx, func(tx storage.Tx) (err error) {
		held, _, err = holders.Find(tx, secret.Hash(entity))
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	if i := slices.IndexFunc(all, func(m *member) bool { return m.ID == held.Provider }); i >= 0 {
		m := all[i]
		if meta, err := m.source.Get(ctx); err != nil || meta.EntityID == entity {
			return m, meta, err
		}
	}
	return firstOf(ctx, all, entity)
}

// firstOf returns the first service provider of a list that has an entity ID, with its metadata, or nil.
func firstOf(ctx context.Context, list []*member, entity string) (*member, *samlidp.Metadata, error) {
	var waiting []*member // whose metadata has not arrived yet
	for _, m := range list {
		switch known := m.source.Known(); {
		case known == nil:
			waiting = append(waiting, m)
		case known.EntityID == entity:
			if first, got := arriving(ctx, waiting, entity); first != nil {
				return first, got, nil
			}
			now, err := m.source.Get(ctx)
			return m, now, err
		}
	}
	m, got := arriving(ctx, waiting, entity)
	return m, got, nil
}

// arriving reads metadata that has not arrived yet, and returns the first service provider that has the entity ID.
func arriving(ctx context.Context, waiting []*member, entity string) (*member, *samlidp.Metadata) {
	got := make([]*samlidp.Metadata, len(waiting))
	var all sync.WaitGroup
	for i, m := range waiting {
		all.Go(func() { got[i], _ = m.source.Get(ctx) })
	}
	all.Wait()
	for i, m := range waiting {
		if got[i] != nil && got[i].EntityID == entity {
			return m, got[i]
		}
	}
	return nil, nil
}

// providersOf returns the service providers of the organisations that have SAML metadata, sorted by organisation and
// id.
func providersOf(u *settings.Units) (out []Provider) {
	for i := range u.Organisations {
		o := &u.Organisations[i]
		for _, id := range slices.Sorted(maps.Keys(o.ServiceProviders)) {
			sp := o.ServiceProviders[id]
			if sp.SAMLMetadata == "" || !u.SignsInBy(id, settings.ProtocolSAML) {
				continue
			}
			own := &o.UserProfileAttributes
			p := Provider{
				ID: id, Name: sp.Name, Metadata: sp.SAMLMetadata, Level: sp.RequiredAuthenticationLevel, Assurance: sp.RequiredIdentityAssuranceLevel,
				Consent: true, Starts: true, Unmapped: strings.EqualFold(sp.IncludeUnmappedCustomAttributes, "true"), Organisation: o.Name,
				Rename:  map[string]string{},
				Subject: subjectOf(own.SAMLSubjectName),
			}
			if p.Name == "" {
				p.Name = id
			}
			for _, mapping := range []settings.CustomAttributesMapping{own.CustomAttributeMappings, sp.CustomAttributeMappings} {
				if mapping.AttributeToMapFrom != "" && mapping.AttributeToMapTo != "" {
					p.Rename[mapping.AttributeToMapFrom] = mapping.AttributeToMapTo
				}
			}
			attributes := maps.Clone(own.IdentityAttributes)
			if attributes == nil {
				attributes = map[string]settings.IdentityAttribute{}
			}
			maps.Copy(attributes, sp.IdentityAttributes)
			for _, key := range slices.Sorted(maps.Keys(attributes)) {
				p.Attributes = append(p.Attributes, attributeOf(key, attributes[key]))
			}
			out = append(out, p)
		}
	}
	return out
}

func attributeOf(key string, a settings.IdentityAttribute) Attribute {
	out := Attribute{
		Source: a.AttributeName, Label: a.Label, Required: a.Required,
		Optional: a.Optional && !a.Required, Show: a.ShowExtendedFields,
	}
	if out.Source == "" {
		out.Source = key
	}
	out.Unverified = a.Unverified && !a.Verification && verifiable[canonical(out.Source)]
	for _, format := range slices.Sorted(maps.Keys(a.SAMLAttributeNames)) {
		n := Name{Name: a.SAMLAttributeNames[format]}
		if _, ok := samlidp.NameFormats[strings.ToLower(format)]; ok {
			n.Format = strings.ToLower(format)
		}
		out.Names = append(out.Names, n)
	}
	return out
}

// subjectOf reads the free texts of the document. (docs/decisions/saml.md#saml-subject-names)
func subjectOf(c settings.SAMLSubjectName) Subject {
	out := Subject{Fallback: canonical(c.Default)}
	for short, uri := range formats {
		if strings.EqualFold(c.Format, short) || c.Format == uri {
			out.Format = short
		}
	}
	switch kind := strings.ToLower(c.Type); kind {
	case "persistent", "transient", "unspecified":
		if out.Format == "" {
			out.Format = kind
		}
	case "custom", "custom_attribute":
		out.Attribute = c.CustomAttributeKey
	default:
		out.Attribute = canonical(kind)
	}
	if out.Format == "transient" || out.Format == "email" {
		out.Attribute = ""
	}
	return out
}

// origin returns the origin of an address, for the content security policy of pages.
func origin(address string) []string {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" {
		return nil
	}
	return []string{u.Scheme + "://" + u.Host}
}
