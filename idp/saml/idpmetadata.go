package saml

import (
	"bytes"
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/gatehouse-id/gatehouse/idp"
)

const (
	bindingSOAP = "urn:oasis:names:tc:SAML:2.0:bindings:SOAP"

	maxCertificates = 10 // of one provider
)

// idpMetadata is what we know of a provider. It is not changed.
type idpMetadata struct {
	EntityID string
	// SSO and SLO are the endpoints by binding, ARS those of the artifact resolution service by index.
	SSO map[string]string
	SLO map[string]sloEndpoint
	ARS map[int]string
	// Signing are the certificates that are good for signatures: RSA of 2048 bits and more, P-256, P-384 or P-521.
	Signing                 []*x509.Certificate
	NameIDFormats           []string
	WantAuthnRequestsSigned bool
	ValidUntil              time.Time     // zero: not said
	CacheDuration           time.Duration // zero: not said
}

// sloEndpoint takes requests at Location and answers at ResponseLocation.
type sloEndpoint struct{ Location, ResponseLocation string }

// parseMetadata reads the metadata of a provider. With trust it must be signed by that certificate, and only what is signed is read. Metadata
// whose time is over is an error. Where there are several entities, exactly one of them must be a provider.
func parseMetadata(raw []byte, trust *x509.Certificate, now time.Time) (*idpMetadata, error) {
	root, err := metadataDoor.parse(bytes.TrimPrefix(raw, []byte("\ufeff")), map[string]bool{})
	if err != nil {
		return nil, fmt.Errorf("the metadata is not well formed: %w", err)
	}
	if trust != nil {
		signed, err := verifyElement(root, []*x509.Certificate{trust}, now)
		if err != nil {
			return nil, fmt.Errorf("the metadata: %w", err)
		}
		if signed == nil {
			return nil, errors.New("the metadata is not signed, and metadata_certificate demands that it is")
		}
		root = signed
	}
	m := &idpMetadata{}
	entity, err := m.provider(root, now)
	if err != nil {
		return nil, fmt.Errorf("the metadata: %w", err)
	}
	if entity == nil {
		return nil, errors.New("the metadata is not that of an identity provider: no IDPSSODescriptor for SAML 2.0")
	}
	if err := m.read(entity, now); err != nil {
		return nil, fmt.Errorf("the metadata: %w", err)
	}
	return m, nil
}

// provider finds the entity that is a provider, at most one, and takes over how long each element around it is valid.
func (m *idpMetadata) provider(n *node, now time.Time) (*node, error) {
	switch {
	case n.is(nsMetadata, "EntityDescriptor"):
		role, err := n.descriptor()
		if role == nil || err != nil {
			return nil, err
		}
		return n, m.validity(n, now)
	case !n.is(nsMetadata, "EntitiesDescriptor"):
		return nil, errors.New("it is neither an EntityDescriptor nor an EntitiesDescriptor")
	}
	if err := m.validity(n, now); err != nil {
		return nil, err
	}
	var found *node
	for _, c := range n.children {
		if !c.is(nsMetadata, "EntityDescriptor") && !c.is(nsMetadata, "EntitiesDescriptor") {
			continue
		}
		inner, err := m.provider(c, now)
		if err != nil {
			return nil, err
		}
		if inner != nil && found != nil {
			return nil, errors.New("it holds several identity providers: give the metadata of one")
		}
		if inner != nil {
			found = inner
		}
	}
	return found, nil
}

// descriptor returns the role of an identity provider for SAML 2.0, nil where the entity has none.
func (n *node) descriptor() (*node, error) {
	var found *node
	for _, c := range n.all(nsMetadata, "IDPSSODescriptor") {
		for protocol := range strings.FieldsSeq(c.attrs["protocolSupportEnumeration"]) {
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

// validity takes over validUntil and cacheDuration, the shortest of all.
func (m *idpMetadata) validity(n *node, now time.Time) error {
	if s, ok := n.attrs["validUntil"]; ok {
		until, err := parseTime(s)
		if err != nil {
			return fmt.Errorf("validUntil: %w", err)
		}
		if !now.Before(until) {
			return fmt.Errorf("it was valid until %s and is not any more", until.Format(time.RFC3339))
		}
		if m.ValidUntil.IsZero() || until.Before(m.ValidUntil) {
			m.ValidUntil = until
		}
	}
	if s, ok := n.attrs["cacheDuration"]; ok {
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

func (m *idpMetadata) read(entity *node, now time.Time) error {
	m.EntityID = entity.attrs["entityID"]
	if m.EntityID == "" || !idp.IsText(m.EntityID, maxText) {
		return errors.New("entityID is missing, or too long")
	}
	role, err := entity.descriptor()
	if err != nil {
		return err
	}
	if err := m.validity(role, now); err != nil {
		return err
	}
	m.WantAuthnRequestsSigned = isTrue(role.attrs["WantAuthnRequestsSigned"])
	if err := m.certificates(role); err != nil {
		return err
	}
	if err := m.endpoints(role); err != nil {
		return err
	}
	for _, c := range role.all(nsMetadata, "NameIDFormat") {
		m.NameIDFormats = append(m.NameIDFormats, collapse(c.text))
	}
	return nil
}

// certificates takes the keys that sign. A key that is too weak is as good as none.
func (m *idpMetadata) certificates(role *node) error {
	weak := 0
	for _, k := range role.all(nsMetadata, "KeyDescriptor") {
		if use := k.attrs["use"]; use != "" && use != "signing" {
			continue
		}
		info, err := k.one(nsDsig, "KeyInfo")
		if err != nil {
			return err
		}
		for _, data := range info.all(nsDsig, "X509Data") {
			for _, n := range data.all(nsDsig, "X509Certificate") {
				raw, err := decodeBase64(n.text)
				if err != nil {
					return errors.New("a certificate that is not base64")
				}
				c, err := x509.ParseCertificate(raw)
				if err != nil {
					return fmt.Errorf("a certificate: %w", err)
				}
				if !isStrong(c.PublicKey) {
					weak++
					continue
				}
				m.Signing = append(m.Signing, c)
			}
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
	return nil
}

func (m *idpMetadata) endpoints(role *node) error {
	m.SSO, m.SLO, m.ARS = map[string]string{}, map[string]sloEndpoint{}, map[int]string{}
	for _, n := range role.children {
		if n.space != nsMetadata || n.name != "SingleSignOnService" && n.name != "SingleLogoutService" && n.name != "ArtifactResolutionService" {
			continue
		}
		location, err := endpoint(n, "Location")
		if err != nil {
			return err
		}
		binding := n.attrs["Binding"]
		switch n.name {
		case "SingleSignOnService":
			if _, taken := m.SSO[binding]; !taken {
				m.SSO[binding] = location
			}
		case "SingleLogoutService":
			e := sloEndpoint{location, location}
			if n.attrs["ResponseLocation"] != "" {
				if e.ResponseLocation, err = endpoint(n, "ResponseLocation"); err != nil {
					return err
				}
			}
			if _, taken := m.SLO[binding]; !taken {
				m.SLO[binding] = e
			}
		case "ArtifactResolutionService":
			index, err := strconv.ParseUint(n.attrs["index"], 10, 16)
			if err != nil {
				return errors.New("an artifact resolution service without an index")
			}
			if binding == bindingSOAP {
				m.ARS[int(index)] = location
			}
		}
	}
	if len(m.SSO) == 0 {
		return errors.New("it has no SingleSignOnService")
	}
	return nil
}

// endpoint returns an address that a browser or we may be sent to: nothing that runs in a page of ours.
func endpoint(n *node, name string) (string, error) {
	raw := collapse(n.attrs[name])
	u, err := url.Parse(raw)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.User != nil || u.Fragment != "" || !isURI(raw) {
		return "", fmt.Errorf("%s of %s is not an http address", name, n.name)
	}
	return raw, nil
}

func isTrue(s string) bool { return s == "true" || s == "1" }

var duration = regexp.MustCompile(`^P(?:(\d{1,4})Y)?(?:(\d{1,5})M)?(?:(\d{1,6})D)?(?:T(?:(\d{1,7})H)?(?:(\d{1,8})M)?(?:(\d{1,10})(?:\.\d+)?S)?)?$`)

// parseDuration reads an xs:duration. Years have 365 days and months 30: it says how long to wait, roughly.
func parseDuration(s string) (time.Duration, error) {
	parts := duration.FindStringSubmatch(s)
	if parts == nil {
		return 0, errors.New("not a duration")
	}
	const day = 24 * time.Hour
	const most = 10 * 365 * day
	var d time.Duration
	for i, unit := range []time.Duration{365 * day, 30 * day, day, time.Hour, time.Minute, time.Second} {
		n, _ := strconv.ParseInt("0"+parts[i+1], 10, 64) // digits, of which there are few
		d += time.Duration(min(n, int64(most/unit))) * unit
	}
	return min(d, most), nil
}
