// Package samlidp implements the protocol of a SAML 2.0 identity provider: the metadata of service providers, their
// requests, and the messages for them. Documents are read and signed by package saml.
package samlidp

import (
	"crypto/rsa"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	schema "github.com/crewjam/saml"

	"github.com/gatehouse-id/gatehouse/idp"
	"github.com/gatehouse-id/gatehouse/idp/saml"
)

const (
	maxServices     = 100 // AssertionConsumerServices of one service provider
	maxCertificates = 10
	maxEntityID     = 1024 // characters (SAML core 8.3.6)
)

// Metadata describe a service provider. They are immutable.
type Metadata struct {
	EntityID string
	// Services take responses by POST. There is at least one.
	Services []Service
	// Logout are the single logout services by binding.
	Logout map[string]LogoutService
	// Signing are the certificates of its requests, Encryption those of RSA keys that assertions are encrypted for.
	Signing, Encryption []*x509.Certificate
	// Published are the certificates of its requests as its metadata say.
	Published []*x509.Certificate
	// Methods are the algorithms of encryption that it names. Empty: it names none.
	Methods       []string
	NameIDFormats []string
	// SignsRequests says that a request without a signature is not its own.
	SignsRequests bool
	ValidUntil    time.Time // zero: not given
}

// Service is an AssertionConsumerService.
type Service struct {
	Location string
	Index    int
	Default  bool
}

// LogoutService receives requests at Location and responses at Response.
type LogoutService struct{ Location, Response string }

// Bindings of logout services.
const (
	Redirect = schema.HTTPRedirectBinding
	Post     = schema.HTTPPostBinding
	SOAP     = schema.SOAPBinding
)

// parseMetadata reads the metadata of a service provider, which can have expired. Of several entities exactly one must
// be a service provider, unless the options name one.
func parseMetadata(r io.Reader, o Options, now time.Time) (*Metadata, error) {
	trust, err := saml.ReadCertificate(o.Certificate)
	if err != nil {
		return nil, err
	}
	if trust != nil && o.AcceptExpired {
		trust = saml.Ageless([]*x509.Certificate{trust})[0]
	}
	root, around, err := saml.OpenMetadata(r, o.Entity, trust, now)
	if err != nil {
		return nil, fmt.Errorf("the metadata: %w", err)
	}
	path, err := find(root)
	if err != nil {
		return nil, fmt.Errorf("the metadata: %w", err)
	}
	if path == nil {
		return nil, errors.New("the metadata is not that of a service provider: it has no SPSSODescriptor for SAML 2.0")
	}
	m := &Metadata{Logout: map[string]LogoutService{}}
	if m.ValidUntil, err = saml.Lifetime(append(around, path...)...); err == nil {
		err = m.read(path[len(path)-2], path[len(path)-1])
	}
	if err != nil {
		return nil, fmt.Errorf("the metadata: %w", err)
	}
	m.Published = m.Signing
	if o.AcceptExpired {
		m.Signing = saml.Ageless(m.Signing)
	}
	return m, nil
}

// find returns the elements from n to the only role of a service provider, or nil.
func find(n *saml.Node) (path []*saml.Node, err error) {
	roles := n.Children(saml.NSMetadata, "SPSSODescriptor")
	for _, role := range roles {
		protocols, _ := role.Attr("protocolSupportEnumeration")
		if !slices.Contains(strings.Fields(protocols), saml.NSProtocol) {
			continue
		}
		if path != nil {
			return nil, errors.New("an entity with two roles of a service provider")
		}
		path = []*saml.Node{n, role}
	}
	for _, name := range []string{"EntityDescriptor", "EntitiesDescriptor"} {
		for _, c := range n.Children(saml.NSMetadata, name) {
			inner, err := find(c)
			if err != nil {
				return nil, err
			}
			if inner != nil && path != nil {
				return nil, errors.New("it holds several service providers: name the one that is meant by entity, or give its metadata alone")
			}
			if inner != nil {
				path = append([]*saml.Node{n}, inner...)
			}
		}
	}
	return path, nil
}

func (m *Metadata) read(entity, role *saml.Node) error {
	if m.EntityID, _ = entity.Attr("entityID"); m.EntityID == "" || strings.TrimSpace(m.EntityID) != m.EntityID ||
		!idp.IsText(m.EntityID, maxEntityID) {
		return errors.New("entityID is missing, or too long")
	}
	m.SignsRequests = isTrue(role, "AuthnRequestsSigned")
	if err := m.keys(role); err != nil {
		return err
	}
	for _, n := range role.Children(saml.NSMetadata, "NameIDFormat") {
		format, err := n.Text()
		if err != nil {
			return err
		}
		m.NameIDFormats = append(m.NameIDFormats, strings.TrimSpace(format))
	}
	if err := m.services(role); err != nil {
		return err
	}
	for _, n := range role.Children(saml.NSMetadata, "SingleLogoutService") {
		binding, _ := n.Attr("Binding")
		if _, taken := m.Logout[binding]; taken || binding != Redirect && binding != Post && binding != SOAP {
			continue
		}
		if err := saml.CheckEndpoint(n); err != nil {
			return err
		}
		location, response := attr(n, "Location"), attr(n, "ResponseLocation")
		if response == "" {
			response = location
		}
		m.Logout[binding] = LogoutService{location, response}
	}
	return nil
}

func (m *Metadata) services(role *saml.Node) error {
	indices := map[int]bool{}
	for _, n := range role.Children(saml.NSMetadata, "AssertionConsumerService") {
		if binding, _ := n.Attr("Binding"); binding != Post {
			continue
		}
		if err := saml.CheckEndpoint(n); err != nil {
			return err
		}
		s := Service{Location: attr(n, "Location"), Default: isTrue(n, "isDefault")}
		index, err := strconv.ParseUint(attr(n, "index"), 10, 16)
		if err != nil {
			return errors.New("an AssertionConsumerService without an index")
		}
		if s.Index = int(index); indices[s.Index] {
			return errors.New("an index of AssertionConsumerService twice")
		}
		indices[s.Index] = true
		m.Services = append(m.Services, s)
	}
	if len(m.Services) == 0 {
		return errors.New("it has no AssertionConsumerService that takes responses by POST")
	}
	if len(m.Services) > maxServices {
		return fmt.Errorf("it has more than %d AssertionConsumerServices", maxServices)
	}
	return nil
}

func (m *Metadata) keys(role *saml.Node) error {
	weakest := 0
	for _, n := range role.Children(saml.NSMetadata, "KeyDescriptor") {
		use, _ := n.Attr("use")
		info, err := n.Child(saml.NSDsig, "KeyInfo")
		if err != nil || info == nil {
			return errors.New("a KeyDescriptor without one KeyInfo")
		}
		certificates, weak, err := saml.Certificates(info)
		if err != nil {
			return err
		}
		weakest += weak
		if use == "" || use == "signing" {
			m.Signing = append(m.Signing, certificates...)
		}
		if use != "" && use != "encryption" {
			continue
		}
		var methods []string
		for _, method := range n.Children(saml.NSMetadata, "EncryptionMethod") {
			methods = append(methods, attr(method, "Algorithm"))
		}
		if use == "" && len(methods) == 0 {
			continue // a key for everything says nothing of encryption
		}
		for _, c := range certificates {
			if _, ok := c.PublicKey.(*rsa.PublicKey); ok {
				m.Encryption, m.Methods = append(m.Encryption, c), append(m.Methods, methods...)
			}
		}
	}
	switch {
	case len(m.Signing)+len(m.Encryption) > 2*maxCertificates:
		return fmt.Errorf("it has more than %d certificates", maxCertificates)
	case len(m.Signing) == 0 && weakest > 0:
		return errors.New("its keys are too weak: RSA keys have 2048 bits or more, EC keys are on P-256, P-384 or P-521")
	case len(m.Signing) == 0 && m.SignsRequests:
		return errors.New("it says that it signs requests, and has no certificate for signatures")
	}
	return nil
}

// Service returns where a request wants its response: by address, by index, or the default. It is always one of the
// metadata.
func (m *Metadata) service(q *Request) (Service, error) {
	if q.serviceURL != "" {
		for _, s := range m.Services {
			if s.Location == q.serviceURL {
				return s, nil
			}
		}
		return Service{}, saml.Stale(errors.New("AssertionConsumerServiceURL is not in the metadata"))
	}
	if q.serviceIndex >= 0 {
		for _, s := range m.Services {
			if s.Index == q.serviceIndex {
				return s, nil
			}
		}
		return Service{}, saml.Stale(errors.New("AssertionConsumerServiceIndex is not in the metadata, or takes no response by POST"))
	}
	return m.DefaultService(), nil
}

// DefaultService returns the destination of a response that names no other place. (SAML metadata 2.2.3)
func (m *Metadata) DefaultService() Service {
	for _, s := range m.Services {
		if s.Default {
			return s
		}
	}
	return m.Services[0]
}

// peer is the service provider as the sender of messages.
func (m *Metadata) peer() saml.Peer {
	return saml.Peer{EntityID: m.EntityID, Signing: m.Signing, ValidUntil: m.ValidUntil}
}

// attr returns an attribute without the white space around it.
func attr(n *saml.Node, name string) string {
	v, _ := n.Attr(name)
	return strings.Trim(v, " \t\r\n")
}

func isTrue(n *saml.Node, name string) bool { v := attr(n, name); return v == "true" || v == "1" }
