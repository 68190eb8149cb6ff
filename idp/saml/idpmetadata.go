package saml

import (
	"bytes"
	"cmp"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	schema "github.com/crewjam/saml"

	"github.com/gatehouse-id/gatehouse/idp"
)

const maxCertificates = 10 // of one provider

// idpMetadata is the metadata of a provider. It is immutable.
type idpMetadata struct {
	EntityID string
	// SSO and SLO are the endpoints by binding, ARS are the artifact resolution services by index.
	SSO map[string]string
	SLO map[string]sloEndpoint
	ARS map[int]string
	// Signing are the certificates whose signatures are accepted: RSA from 2048 bits, P-256, P-384 or P-521.
	Signing []*x509.Certificate
	// Published are the same certificates, as the provider publishes them.
	Published               []*x509.Certificate
	NameIDFormats           []string
	WantAuthnRequestsSigned bool
	ValidUntil              time.Time     // zero: not given
	CacheDuration           time.Duration // zero: not given
}

// sloEndpoint receives requests at Location and responses at ResponseLocation.
type sloEndpoint struct{ Location, ResponseLocation string }

// parseMetadata reads the metadata of a provider. With trust, that certificate must have signed it, and only the signed
// element is read. Expired metadata is an error. Of several entities exactly one must be an identity provider.
func parseMetadata(raw []byte, trust *x509.Certificate, now time.Time) (*idpMetadata, error) {
	return readMetadata(bytes.NewReader(raw), "", trust, now, decode)
}

// readMetadata is parseMetadata for a stream. entity names the provider that is meant in the metadata of a federation.
func readMetadata(r io.Reader, entity string, trust *x509.Certificate, now time.Time, decode decoder) (*idpMetadata, error) {
	root, around, err := readDocument(r, entity, trust, now)
	if err != nil {
		return nil, fmt.Errorf("the metadata: %w", err)
	}
	m := &idpMetadata{}
	for _, n := range around {
		if err := m.validity(n, now); err != nil {
			return nil, fmt.Errorf("the metadata: %w", err)
		}
	}
	found, err := m.provider(root, now)
	if err != nil {
		return nil, fmt.Errorf("the metadata: %w", err)
	}
	if found == nil {
		return nil, errors.New("the metadata is not that of an identity provider: it has no IDPSSODescriptor for SAML 2.0")
	}
	if err := m.read(found, now, decode); err != nil {
		return nil, fmt.Errorf("the metadata: %w", err)
	}
	return m, nil
}

func invalidMetadata(cause error) error { return fmt.Errorf("it is not well formed: %w", cause) }

// usable tells why no one can sign in at the provider now, although its metadata can be read.
func (m *idpMetadata) usable(now time.Time) error {
	if m.SSO[bindingRedirect] == "" && m.SSO[bindingPost] == "" {
		return errNoEndpoint
	}
	if !slices.ContainsFunc(m.Signing, func(c *x509.Certificate) bool { return isCurrent(c, now) }) {
		return errNoCurrent
	}
	return nil
}

var (
	errNoEndpoint = errors.New("the provider's metadata has no address for sign-in by redirect or POST")
	errNoCurrent  = errors.New("each certificate in the provider's metadata has expired or is not valid yet")
)

// provider finds the only entity that is an identity provider, or nil. It applies the lifetimes of the elements around
// it.
func (m *idpMetadata) provider(n *node, now time.Time) (*node, error) {
	switch {
	case n.Is(nsMetadata, "EntityDescriptor"):
		role, err := descriptor(n)
		if role == nil || err != nil {
			return nil, err
		}
		return n, m.validity(n, now)
	case !n.Is(nsMetadata, "EntitiesDescriptor"):
		return nil, errors.New("it is neither an EntityDescriptor nor an EntitiesDescriptor")
	}
	if err := m.validity(n, now); err != nil {
		return nil, err
	}
	var found *node
	for _, c := range n.Elements {
		if !c.Is(nsMetadata, "EntityDescriptor") && !c.Is(nsMetadata, "EntitiesDescriptor") {
			continue
		}
		inner, err := m.provider(c, now)
		if err != nil {
			return nil, err
		}
		if inner != nil && found != nil {
			return nil, errors.New("it holds several identity providers: name the one that is meant by entity, or give its metadata alone")
		}
		if inner != nil {
			found = inner
		}
	}
	return found, nil
}

// descriptor returns the role of an identity provider for SAML 2.0, or nil if the entity has none.
func descriptor(n *node) (*node, error) {
	var found *node
	for _, c := range n.Children(nsMetadata, "IDPSSODescriptor") {
		for protocol := range strings.FieldsSeq(c.Attrs["protocolSupportEnumeration"]) {
			if protocol != nsProtocol {
				continue
			}
			if found != nil {
				return nil, errors.New("an entity with two roles of an identity provider")
			}
			found = c
		}
	}
	return found, nil
}

// validity applies validUntil and cacheDuration. The shortest of all elements count.
func (m *idpMetadata) validity(n *node, now time.Time) error {
	if s, ok := n.Attrs["validUntil"]; ok {
		until, err := parseTime(s)
		if err != nil {
			return fmt.Errorf("validUntil: %w", err)
		}
		if !now.Before(until) {
			return fmt.Errorf("it was valid until %s and has expired", until.Format(time.RFC3339))
		}
		if m.ValidUntil.IsZero() || until.Before(m.ValidUntil) {
			m.ValidUntil = until
		}
	}
	if s, ok := n.Attrs["cacheDuration"]; ok {
		d, err := parseDuration(s)
		if err != nil {
			return fmt.Errorf("cacheDuration: %w", err)
		}
		if m.CacheDuration == 0 || d < m.CacheDuration {
			m.CacheDuration = d
		}
	}
	return nil
}

// read takes over the part of the entity that describes an identity provider for SAML 2.0.
func (m *idpMetadata) read(entity *node, now time.Time, decode decoder) error {
	role, err := descriptor(entity)
	if err != nil {
		return err
	}
	if err := m.validity(role, now); err != nil {
		return err
	}
	if err := checkRole(role); err != nil {
		return err
	}
	alone := &node{Space: entity.Space, Local: entity.Local, Attrs: entity.Attrs, Elements: []*node{role}}
	var e schema.EntityDescriptor
	if err := decode(alone, &e); err != nil {
		return err
	}
	if m.EntityID = e.EntityID; m.EntityID == "" || !idp.IsText(m.EntityID, maxText) {
		return errors.New("entityID is missing, or too long")
	}
	descriptor := &e.IDPSSODescriptors[0]
	m.WantAuthnRequestsSigned = descriptor.WantAuthnRequestsSigned != nil && *descriptor.WantAuthnRequestsSigned
	if err := m.certificates(descriptor.KeyDescriptors); err != nil {
		return err
	}
	if err := m.endpoints(descriptor); err != nil {
		return err
	}
	for _, format := range descriptor.NameIDFormats {
		m.NameIDFormats = append(m.NameIDFormats, collapse(string(format)))
	}
	return nil
}

// checkRole refuses what the library would accept or repair silently: a key with no KeyInfo or several, an artifact
// resolution service without an index, and an endpoint whose address is not http.
func checkRole(role *node) error {
	for _, n := range role.Elements {
		if n.Space != nsMetadata {
			continue
		}
		switch n.Local {
		case "KeyDescriptor":
			if !signs(n.Attrs["use"]) {
				continue
			}
			if _, err := n.One(nsDsig, "KeyInfo"); err != nil {
				return err
			}
		case "SingleSignOnService", "SingleLogoutService", "ArtifactResolutionService":
			if err := checkEndpoint(n); err != nil {
				return err
			}
		}
	}
	return nil
}

// signs reports whether a key with that use signs. A key without use is for every purpose.
func signs(use string) bool { return use == "" || use == "signing" }

// certificates takes over the signing keys. Weak keys are left out.
func (m *idpMetadata) certificates(keys []schema.KeyDescriptor) error {
	weak := 0
	for _, k := range keys {
		if !signs(k.Use) {
			continue
		}
		for _, data := range k.KeyInfo.X509Data.X509Certificates {
			c, err := decodeCertificate(data.Data)
			if err != nil {
				return err
			}
			if !isStrong(c.PublicKey) {
				weak++
				continue
			}
			m.Signing = append(m.Signing, c)
		}
	}
	switch {
	case len(m.Signing) == 0 && weak > 0:
		return errors.New("its keys are too weak: RSA keys have 2048 bits or more, EC keys are on P-256, P-384 or P-521")
	case len(m.Signing) == 0:
		return errors.New("it has no certificate for signatures")
	case len(m.Signing) > maxCertificates:
		return fmt.Errorf("it has more than %d certificates", maxCertificates)
	}
	m.Published = m.Signing
	return nil
}

// endpoints takes over the first endpoint of each binding. The library clears the Location of bindings that it does not
// know. We do not use those either.
func (m *idpMetadata) endpoints(role *schema.IDPSSODescriptor) error {
	m.SSO, m.SLO, m.ARS = map[string]string{}, map[string]sloEndpoint{}, map[int]string{}
	for _, e := range role.SingleSignOnServices {
		if _, taken := m.SSO[e.Binding]; !taken && e.Location != "" {
			m.SSO[e.Binding] = e.Location
		}
	}
	for _, e := range role.SingleLogoutServices {
		if _, taken := m.SLO[e.Binding]; !taken && e.Location != "" {
			m.SLO[e.Binding] = sloEndpoint{e.Location, cmp.Or(e.ResponseLocation, e.Location)}
		}
	}
	for _, e := range role.SSODescriptor.ArtifactResolutionServices {
		if e.Binding == schema.SOAPBinding {
			m.ARS[e.Index] = e.Location
		}
	}
	if len(m.SSO) == 0 {
		return errors.New("it has no SingleSignOnService")
	}
	return nil
}

// checkEndpoint refuses addresses that neither a browser nor we must be sent to, such as javascript:.
func checkEndpoint(n *node) error {
	for _, name := range []string{"Location", "ResponseLocation"} {
		if name == "ResponseLocation" && (n.Local != "SingleLogoutService" || n.Attrs[name] == "") {
			continue
		}
		raw := collapse(n.Attrs[name])
		u, err := url.Parse(raw)
		if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.User != nil || u.Fragment != "" || !isURI(raw) {
			return fmt.Errorf("%s of %s is not an http address", name, n.Local)
		}
		if hasProtocolParameters(u) {
			return fmt.Errorf("%s of %s has a parameter of the SAML protocol in its query", name, n.Local)
		}
	}
	if n.Local != "ArtifactResolutionService" {
		return nil
	}
	if _, err := strconv.ParseUint(n.Attrs["index"], 10, 16); err != nil {
		return errors.New("an artifact resolution service without an index")
	}
	return nil
}

func isTrue(s string) bool { return s == "true" || s == "1" }

var duration = regexp.MustCompile(`^P(?:(\d{1,4})Y)?(?:(\d{1,5})M)?(?:(\d{1,6})D)?(?:T(?:(\d{1,7})H)?(?:(\d{1,8})M)?(?:(\d{1,10})(?:\.\d+)?S)?)?$`)

// parseDuration reads an xs:duration. A year counts as 365 days and a month as 30, which is precise enough for caching.
func parseDuration(s string) (time.Duration, error) {
	parts := duration.FindStringSubmatch(s)
	if parts == nil {
		return 0, errors.New("not a duration")
	}
	const day = 24 * time.Hour
	const most = 10 * 365 * day
	var d time.Duration
	for i, unit := range []time.Duration{365 * day, 30 * day, day, time.Hour, time.Minute, time.Second} {
		n, _ := strconv.ParseInt("0"+parts[i+1], 10, 64) // the pattern limits the number of digits
		d += time.Duration(min(n, int64(most/unit))) * unit
	}
	return min(d, most), nil
}
