package saml

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/gatehouse-id/gatehouse/idp"
	"github.com/gatehouse-id/gatehouse/internal/coded"
	"github.com/gatehouse-id/gatehouse/internal/loopback"
)

// Config is the configuration of a provider.
type Config struct {
	// Metadata is the metadata of the provider: an https URL, the path of a file, or the XML itself. Plain http is for
	// loopback hosts only. Required.
	Metadata string `json:"metadata"`
	// Entity is the entity ID of the provider, where the metadata is that of a federation with many. Default: the only
	// identity provider in it.
	Entity string `json:"entity,omitempty"`
	// MetadataCertificate is the certificate that must have signed the metadata, as PEM or as the path of a PEM file.
	// Default: unsigned metadata is accepted.
	MetadataCertificate string `json:"metadata_certificate,omitempty"`
	// AcceptExpired trusts the keys in the metadata whatever the validity of their certificates says. (SAML metadata
	// interoperability profile 2.6.1) Default: an expired certificate, or one that is not valid yet, signs no one in.
	AcceptExpired bool `json:"accept_expired,omitempty"`
	// Refresh is the age at which metadata is fetched again. Default: the provider's cacheDuration, between 5 minutes
	// and a day, or an hour.
	Refresh time.Duration `json:"refresh,omitempty"`
	// AllowUnsolicited accepts answers without a request (IdP-initiated sign-in). Default: refused.
	AllowUnsolicited bool `json:"allow_unsolicited,omitempty"`
	// Sign are names of key pairs: the first one signs, all are published in our metadata. Default: Gatehouse's own.
	Sign []string `json:"sign,omitempty"`
	// Decrypt are names of key pairs: all of them decrypt and are published in our metadata. Default: Gatehouse's own.
	Decrypt []string `json:"decrypt,omitempty"`
	// NameID is the NameID format that we request: persistent, transient, email, unspecified or a URN. Default: the
	// provider chooses.
	NameID string `json:"name_id,omitempty"`
	// Subject is the attribute that identifies a person permanently, for providers whose NameID changes each time.
	// Default: the NameID, or the verified e-mail address if the NameID is transient.
	Subject string `json:"subject,omitempty"`
	// IdentifyBy is an attribute that identifies a person in addition to the NameID, so the provider can change the
	// NameID. Default: none.
	IdentifyBy string `json:"identify_by,omitempty"`
	// AuthnContext is the class of sign-in that we request. Default: if the required level is above the lowest, the
	// classes of Levels that reach it; otherwise the provider chooses.
	AuthnContext *AuthnContext `json:"authn_context,omitempty"`
	// Levels maps the classes that the provider reports to authentication levels, 1 to 4.
	Levels map[string]int `json:"levels,omitempty"`
	// Level is the authentication level for classes that are not in Levels, 1 to 4. Default: 1.
	Level int `json:"level,omitempty"`
	// ProviderName is the name of the requester that the provider shows to people. Default: the name of the
	// application.
	ProviderName string `json:"provider_name,omitempty"`
	// Artifact requests answers by artifact, which we resolve at the provider's artifact resolution service. Default:
	// answers by POST.
	Artifact bool `json:"artifact,omitempty"`
	// EntityID is our own entity ID at the provider, for those that assign one. Default: the address of our metadata.
	EntityID string `json:"entity_id,omitempty"`
	// ClientKey is the name of the key pair whose certificate we show on the back channel. Default: none.
	ClientKey string `json:"client_key,omitempty"`
	// ServerCertificate is the name of a key pair with the certificate that the provider's server must show on the back
	// channel, or that of the authority that must have issued it. Default: any that the system trusts.
	ServerCertificate string `json:"server_certificate,omitempty"`
	// Scheme is the national sign-in service that the provider belongs to: DigiD or EToegang. It decides what is asked
	// for and how people are named. Default: none.
	Scheme string `json:"scheme,omitempty"`
	// Assurance is the lowest level of the scheme that is accepted. Required with a scheme.
	Assurance string `json:"assurance,omitempty"`
	// Via is the entity ID of the authentication service that the broker of a scheme sends people to. Default: they
	// choose.
	Via string `json:"via,omitempty"`
	// Mapping maps attributes to user details. An attribute is named by its name or its friendly name.
	Mapping idp.Mapping `json:"mapping"`
	// NoFiles refuses metadata and certificates in files. It is for remote configuration, which must not choose files
	// that are read on this machine.
	NoFiles bool `json:"-"`
}

// AuthnContext is a samlp:RequestedAuthnContext. (SAML core 3.3.2.2.1)
type AuthnContext struct {
	// Comparison is exact, minimum, maximum or better.
	Comparison string `json:"comparison"`
	// Classes are class references, such as urn:oasis:names:tc:SAML:2.0:ac:classes:PasswordProtectedTransport.
	Classes []string `json:"classes"`
}

const (
	lowest, highest = 1, 4 // authentication levels

	minRefresh     = 5 * time.Minute
	maxRefresh     = 24 * time.Hour
	defaultRefresh = time.Hour
	maxText        = 1024 // characters of a URI or of a display name
	maxKeys        = 4    // for each use
	maxClasses     = 20
)

// comparisons are the values of Comparison. (SAML core 3.3.2.2.1)
var comparisons = []string{"exact", "minimum", "maximum", "better"}

const (
	formatUnspecified = "urn:oasis:names:tc:SAML:1.1:nameid-format:unspecified"
	formatEmail       = "urn:oasis:names:tc:SAML:1.1:nameid-format:emailAddress"
	formatPersistent  = "urn:oasis:names:tc:SAML:2.0:nameid-format:persistent"
	formatTransient   = "urn:oasis:names:tc:SAML:2.0:nameid-format:transient"
)

// formats maps short names to NameID formats. (SAML core 8.3)
var formats = map[string]string{
	"unspecified": formatUnspecified, "email": formatEmail, "persistent": formatPersistent, "transient": formatTransient,
}

// Validate returns all errors of the configuration. It reads no file and opens no connection.
func (c Config) Validate() error {
	var wrong []error
	say := func(err error) { wrong = append(wrong, err) }
	if err := validSource(c.Metadata); err != nil {
		wrong = append(wrong, err)
	}
	if c.NoFiles && (!isXML(c.Metadata) && !isRemote(c.Metadata) || c.MetadataCertificate != "" && !isPEM(c.MetadataCertificate)) {
		say(coded.New("metadata", "want the metadata itself or its https address, not a file"))
	}
	if c.Refresh != 0 && c.Refresh < minRefresh {
		say(coded.Errorf("at_least", "- min", "refresh %s is shorter than %s", c.Refresh, minRefresh))
	}
	for _, keys := range [][]string{c.Sign, c.Decrypt} {
		for i, name := range keys {
			if name == "" || slices.Contains(keys[:i], name) {
				say(coded.Errorf("key_pair_twice", "", "the key pair %q is named twice or has no name", name))
			}
		}
		if len(keys) > maxKeys {
			say(coded.Errorf("entries", "- max", "%d key pairs are more than %d", len(keys), maxKeys))
		}
	}
	if _, known := formats[c.NameID]; c.NameID != "" && !known && !isURI(c.NameID) {
		say(coded.Errorf("name_id", "", "name_id %q is neither one of persistent, transient, email, unspecified, nor a URN", c.NameID))
	}
	if !isAttribute(c.Subject) {
		say(coded.Errorf("not_attribute", "value", "subject %q is not the name of an attribute", c.Subject))
	}
	if !isAttribute(c.IdentifyBy) {
		say(coded.Errorf("not_attribute", "value", "identify_by %q is not the name of an attribute", c.IdentifyBy))
	}
	if c.EntityID != "" && !isURI(c.EntityID) {
		say(coded.Errorf("not_uri", "value", "entity_id %q is not a URI", c.EntityID))
	}
	wrong = append(wrong, c.AuthnContext.validate(), c.validateScheme())
	if c.Entity != "" && !isURI(c.Entity) {
		say(coded.Errorf("not_uri", "value", "entity %q is not an entity ID, which is a URI", c.Entity))
	}
	for class, level := range c.Levels {
		if !isURI(class) {
			say(coded.Errorf("class", "value", "map_level %q: a class reference is a URI, such as urn:oasis:names:tc:SAML:2.0:ac:classes:PasswordProtectedTransport", class))
		}
		if level < lowest || level > highest {
			say(coded.Errorf("range", "- - from to", "map_level %s: the level %d is not between %d and %d", class, level, lowest, highest))
		}
	}
	if c.Level != 0 && (c.Level < lowest || c.Level > highest) {
		say(coded.Errorf("range", "- from to", "level %d is not between %d and %d", c.Level, lowest, highest))
	}
	if !idp.IsText(c.ProviderName, 256) {
		say(coded.New("control", "provider_name has control characters or more than 256 of them"))
	}
	return errors.Join(append(wrong, c.Mapping.Validate())...)
}

// CheckMetadata reads metadata that is in the configuration itself, and returns why no one could sign in with it. It
// does not look at metadata in files and at addresses.
func (c Config) CheckMetadata(now time.Time) error {
	if !isXML(c.Metadata) {
		return nil
	}
	trust, err := c.trust()
	if err != nil {
		return err
	}
	m, err := readMetadata(strings.NewReader(c.Metadata), c.Entity, trust, now, decode)
	if err == nil {
		err = m.usable(now)
	}
	return err
}

// Warnings says what keeps people from signing in, now or within 30 days, as far as it is known without asking another
// server.
func (c Config) Warnings(now time.Time) []idp.Warning {
	if isRemote(c.Metadata) {
		if _, err := c.trust(); err != nil {
			return []idp.Warning{idp.NoOne(err)}
		}
		return nil
	}
	s := &source{cfg: c, now: func() time.Time { return now }}
	s.current, s.err = s.fetch(context.Background())
	return (&Provider{cfg: c, metadata: s}).Warnings()
}

func (a *AuthnContext) validate() error {
	switch {
	case a == nil:
		return nil
	case !slices.Contains(comparisons, a.Comparison):
		return coded.Errorf("one_of", "- list", "authn_context %q: the comparison is one of %s", a.Comparison, strings.Join(comparisons, ", "))
	case len(a.Classes) == 0 || len(a.Classes) > maxClasses:
		return coded.Errorf("class_count", "- max", "authn_context %s needs 1 to %d class references", a.Comparison, maxClasses)
	}
	for i, class := range a.Classes {
		if !isURI(class) || slices.Contains(a.Classes[:i], class) {
			return coded.Errorf("class_twice", "value", "authn_context: %q is not a URI, or there twice", class)
		}
	}
	return nil
}

// isAttribute reports whether s can be the name of an attribute. It can be empty.
func isAttribute(s string) bool { return idp.IsText(s, maxText) && strings.TrimSpace(s) == s }

// isURI reports whether s is an absolute URI that consists of printable ASCII characters.
func isURI(s string) bool {
	u, err := url.Parse(s)
	return err == nil && u.Scheme != "" && len(s) <= maxText && !strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' })
}

// isXML reports whether the metadata is in the configuration itself.
func isXML(source string) bool {
	return strings.HasPrefix(strings.TrimSpace(strings.TrimPrefix(source, "\ufeff")), "<")
}

func isPEM(source string) bool { return strings.Contains(source, "-----BEGIN") }

// isRemote reports whether the metadata is fetched.
func isRemote(source string) bool {
	return strings.HasPrefix(source, "https://") || strings.HasPrefix(source, "http://")
}

func validSource(source string) error {
	switch {
	case strings.TrimSpace(source) == "":
		return coded.New("metadata", "metadata is missing: the path of a file with the provider's metadata, or its https address")
	case isXML(source):
		return nil
	case !isRemote(source):
		if strings.Contains(source, "://") {
			return coded.Errorf("https", "", "metadata %q: only https addresses and files can be read", source)
		}
		return nil
	}
	u, err := url.Parse(source)
	if err != nil || u.Host == "" || u.User != nil {
		return coded.New("address", "metadata is not a valid address: it has no host, or a user name in it")
	}
	if u.Scheme == "http" && !loopback.Is(u.Hostname()) {
		return coded.Errorf("https", "", "metadata %q: use https, since anyone who can change it can sign in as anybody", u.Redacted())
	}
	return nil
}

// trust reads the certificate that must have signed the metadata. It returns nil if none is configured.
func (c Config) trust() (*x509.Certificate, error) {
	cert, err := readCertificate(c.MetadataCertificate)
	if err == nil && cert != nil && c.AcceptExpired {
		cert = ageless([]*x509.Certificate{cert})[0]
	}
	return cert, err
}

func readCertificate(source string) (*x509.Certificate, error) {
	raw := []byte(source)
	if len(raw) == 0 {
		return nil, nil //nolint:nilnil // a certificate is optional
	}
	if !isPEM(source) {
		var err error
		if raw, err = os.ReadFile(source); err != nil {
			return nil, fmt.Errorf("read metadata_certificate: %w", err)
		}
	}
	block, _ := pem.Decode(raw)
	if block == nil || block.Type != "CERTIFICATE" {
		return nil, errors.New("metadata_certificate holds no certificate in PEM form")
	}
	cert, err := parseCertificate(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("metadata_certificate: %w", err)
	}
	return cert, nil
}

// format returns the URI of the requested NameID format, or "" if the provider chooses.
func (c Config) format() string {
	if f, ok := formats[c.NameID]; ok {
		return f
	}
	return c.NameID
}

// level returns the authentication level of a class.
func (c Config) level(class string) int {
	if s := schemes[c.Scheme]; s != nil {
		return s.level(class)
	}
	if n, ok := c.Levels[class]; ok {
		return n
	}
	return max(c.Level, lowest)
}
