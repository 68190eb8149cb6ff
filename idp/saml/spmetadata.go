package saml

import (
	"context"
	"encoding/base64"
	"fmt"
	"net/http"
	"strconv"

	"github.com/beevik/etree"

	"github.com/gatehouse-id/gatehouse/idp"
)

// encryptions are the algorithms that a provider may encrypt with, the best first. CBC is taken inside of a signed response only.
var encryptions = []string{
	"http://www.w3.org/2009/xmlenc11#aes256-gcm",
	"http://www.w3.org/2009/xmlenc11#aes128-gcm",
	"http://www.w3.org/2001/04/xmlenc#aes256-cbc",
	"http://www.w3.org/2001/04/xmlenc#aes128-cbc",
	"http://www.w3.org/2001/04/xmlenc#rsa-oaep-mgf1p",
}

// serveMetadata serves GET /saml/<id>/metadata: what a provider needs to know of us. (SAML metadata 2.4.4)
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

// ownMetadata names every key that signs or decrypts, so that a provider which reads it knows the next key before it is used.
func (p *Provider) ownMetadata(ctx context.Context) ([]byte, error) {
	e := etree.NewElement("md:EntityDescriptor")
	e.CreateAttr("xmlns:md", nsMetadata)
	e.CreateAttr("xmlns:ds", nsDsig)
	e.CreateAttr("entityID", p.entityID)
	e.CreateAttr("cacheDuration", "PT1H")
	sp := e.CreateElement("md:SPSSODescriptor")
	sp.CreateAttr("AuthnRequestsSigned", "true")
	sp.CreateAttr("WantAssertionsSigned", "true")
	sp.CreateAttr("protocolSupportEnumeration", nsProtocol)
	for _, name := range names(p.cfg.Sign) {
		key, err := p.env.KeyPair(ctx, name)
		if err != nil {
			return nil, err
		}
		if err := checkSigner(key); err != nil {
			return nil, err
		}
		describeKey(sp, "signing", key)
	}
	for _, name := range names(p.cfg.Decrypt) {
		key, err := p.env.KeyPair(ctx, name)
		if err != nil {
			return nil, err
		}
		if err := checkSigner(key); err != nil {
			return nil, err
		}
		k := describeKey(sp, "encryption", key)
		for _, algorithm := range encryptions {
			k.CreateElement("md:EncryptionMethod").CreateAttr("Algorithm", algorithm)
		}
	}
	for _, binding := range []string{bindingRedirect, bindingPost} {
		slo := sp.CreateElement("md:SingleLogoutService")
		slo.CreateAttr("Binding", binding)
		slo.CreateAttr("Location", p.at("slo"))
	}
	if f := p.cfg.format(); f != "" {
		sp.CreateElement("md:NameIDFormat").SetText(f)
	}
	for i, binding := range []string{bindingPost, bindingArtifact} {
		acs := sp.CreateElement("md:AssertionConsumerService")
		acs.CreateAttr("Binding", binding)
		acs.CreateAttr("Location", p.at("acs"))
		acs.CreateAttr("index", strconv.Itoa(i))
		if i == 0 {
			acs.CreateAttr("isDefault", "true")
		}
	}
	return write(e)
}

func describeKey(sp *etree.Element, use string, key *idp.Key) *etree.Element {
	k := sp.CreateElement("md:KeyDescriptor")
	k.CreateAttr("use", use)
	k.CreateElement("ds:KeyInfo").CreateElement("ds:X509Data").CreateElement("ds:X509Certificate").
		SetText(base64.StdEncoding.EncodeToString(key.Certificate.Raw))
	return k
}

// names are those of key pairs; "" is Gatehouse's own.
func names(configured []string) []string {
	if len(configured) == 0 {
		return []string{""}
	}
	return configured
}
