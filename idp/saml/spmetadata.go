package saml

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/xml"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/beevik/etree"
	schema "github.com/crewjam/saml"

	"github.com/gatehouse-id/gatehouse/idp"
)

// encryptions are the algorithms that a provider can use, the best first. CBC needs a signature, on the response or on
// the assertion inside.
var encryptions = []string{
	"http://www.w3.org/2009/xmlenc11#aes256-gcm",
	"http://www.w3.org/2009/xmlenc11#aes128-gcm",
	"http://www.w3.org/2001/04/xmlenc#aes256-cbc",
	"http://www.w3.org/2001/04/xmlenc#aes128-cbc",
	"http://www.w3.org/2001/04/xmlenc#rsa-oaep-mgf1p",
}

// serveMetadata serves GET /saml/<id>/metadata, our metadata for the provider. (SAML metadata 2.4.4)
func (p *Provider) serveMetadata(w http.ResponseWriter, r *http.Request, h idp.Host) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "method not allowed", http.StatusMethodNotAllowed)
		return
	}
	doc, err := p.ownMetadata(r.Context())
	if err != nil {
		h.Fail(w, r, fmt.Errorf("metadata of the service provider: %w", err))
		return
	}
	w.Header().Set("Content-Type", "application/samlmetadata+xml; charset=utf-8") // SAML metadata 4.1.1
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Cache-Control", "no-cache")
	w.Header().Set("Content-Length", strconv.Itoa(len(doc)))
	if r.Method == http.MethodGet {
		w.Write(doc)
	}
}

// ownMetadata contains all keys that sign or decrypt, so a provider knows the next key before we use it.
func (p *Provider) ownMetadata(ctx context.Context) ([]byte, error) {
	sp := schema.SPSSODescriptor{AuthnRequestsSigned: new(true), WantAssertionsSigned: new(true)}
	sp.ProtocolSupportEnumeration = nsProtocol
	for _, name := range names(p.cfg.Sign) {
		keys, err := p.described(ctx, name, "signing")
		if err != nil {
			return nil, err
		}
		sp.KeyDescriptors = append(sp.KeyDescriptors, keys...)
	}
	for _, name := range names(p.cfg.Decrypt) {
		keys, err := p.described(ctx, name, "encryption")
		if err != nil {
			return nil, err
		}
		for _, key := range keys {
			for _, algorithm := range encryptions {
				key.EncryptionMethods = append(key.EncryptionMethods, schema.EncryptionMethod{Algorithm: algorithm})
			}
			sp.KeyDescriptors = append(sp.KeyDescriptors, key)
		}
	}
	for _, binding := range []string{bindingRedirect, bindingPost} {
		sp.SingleLogoutServices = append(sp.SingleLogoutServices, schema.Endpoint{Binding: binding, Location: p.at("slo")})
	}
	if f := p.cfg.format(); f != "" {
		sp.NameIDFormats = []schema.NameIDFormat{schema.NameIDFormat(f)}
	}
	sp.AssertionConsumerServices = []schema.IndexedEndpoint{
		{Binding: bindingPost, Location: p.at("acs"), Index: serviceIndex[bindingPost], IsDefault: new(true)},
		{Binding: bindingArtifact, Location: p.at("acs"), Index: serviceIndex[bindingArtifact]},
	}
	p.describeScheme(&sp)
	return writeMetadata(schema.EntityDescriptor{
		EntityID: p.entityID, CacheDuration: time.Hour,
		SPSSODescriptors: []schema.SPSSODescriptor{sp},
	})
}

// serviceIndex are the indexes of our endpoint for answers, by binding.
var serviceIndex = map[string]int{bindingPost: 0, bindingArtifact: 1}

// describeScheme adds what the scheme wants to know: where it signs people out, and which attributes we use.
func (p *Provider) describeScheme(sp *schema.SPSSODescriptor) {
	if p.scheme == nil {
		return
	}
	if p.scheme.artifact { // and nothing else
		artifact := &sp.AssertionConsumerServices[1]
		artifact.IsDefault = new(true)
		sp.AssertionConsumerServices = []schema.IndexedEndpoint{*artifact}
	}
	if p.scheme.soapLogout {
		sp.SingleLogoutServices = append(sp.SingleLogoutServices, schema.Endpoint{Binding: schema.SOAPBinding, Location: p.at("slo")})
	}
	if !p.scheme.byIndex || len(p.cfg.Mapping.Attributes) == 0 {
		return
	}
	service := schema.AttributeConsumingService{
		Index: 0, IsDefault: new(true), ServiceNames: []schema.LocalizedName{{Lang: "en", Value: cmp.Or(p.cfg.ProviderName, "Gatehouse")}},
	}
	for _, a := range p.cfg.Mapping.Attributes {
		service.RequestedAttributes = append(service.RequestedAttributes, schema.RequestedAttribute{Attribute: schema.Attribute{
			Name: a.From, NameFormat: "urn:oasis:names:tc:SAML:2.0:attrname-format:uri",
		}})
	}
	sp.AttributeConsumingServices = append(sp.AttributeConsumingServices, service)
}

// writeMetadata returns the entity as a document. The library declares a default namespace in each element, which
// becomes the usual prefixes: scripts at providers search for these.
func writeMetadata(entity schema.EntityDescriptor) ([]byte, error) {
	raw, err := xml.Marshal(entity)
	if err != nil {
		return nil, err
	}
	doc := etree.NewDocument()
	if err := doc.ReadFromBytes(raw); err != nil {
		return nil, err
	}
	root := doc.Root()
	usePrefixes(root, "")
	root.CreateAttr("xmlns:md", nsMetadata)
	root.CreateAttr("xmlns:ds", nsDsig)
	return doc.WriteToBytes()
}

// usePrefixes replaces default namespaces by prefixes. around is the default namespace of the parent.
func usePrefixes(e *etree.Element, around string) {
	if own := e.RemoveAttr("xmlns"); own != nil {
		around = own.Value
	}
	switch around {
	case nsMetadata:
		e.Space = "md"
	case nsDsig:
		e.Space = "ds"
	}
	for _, c := range e.ChildElements() {
		usePrefixes(c, around)
	}
}

// described returns the certificate of a key pair for the metadata, and those that are published next to it.
func (p *Provider) described(ctx context.Context, name, use string) (out []schema.KeyDescriptor, err error) {
	pair, err := p.env.KeyPair(ctx, name)
	if err != nil {
		return nil, err
	}
	for i, key := range pair.All() {
		if err := checkSigner(key); err != nil && i == 0 {
			return nil, err
		} else if err != nil { // published next to it, if it can be
			continue
		}
		certificate := schema.X509Certificate{Data: base64.StdEncoding.EncodeToString(key.Certificate.Raw)}
		out = append(out, schema.KeyDescriptor{
			Use:     use,
			KeyInfo: schema.KeyInfo{X509Data: schema.X509Data{X509Certificates: []schema.X509Certificate{certificate}}},
		})
	}
	return out, nil
}

// names returns the names of key pairs. "" is Gatehouse's own.
func names(configured []string) []string {
	if len(configured) == 0 {
		return []string{""}
	}
	return configured
}
