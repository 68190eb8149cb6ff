package saml

import (
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/beevik/etree"
	dsig "github.com/russellhaering/goxmldsig"

	"github.com/gatehouse-id/gatehouse/idp"
)

const (
	nsCustom = "urn:com:service:saml:CustomParameters"

	bindingRedirect = "urn:oasis:names:tc:SAML:2.0:bindings:HTTP-Redirect"
	bindingPost     = "urn:oasis:names:tc:SAML:2.0:bindings:HTTP-POST"
	bindingArtifact = "urn:oasis:names:tc:SAML:2.0:bindings:HTTP-Artifact"

	instant = "2006-01-02T15:04:05Z" // SAML core 1.3.3: UTC, no zone
)

// authnRequest is what a samlp:AuthnRequest says. (SAML core 3.4.1)
type authnRequest struct {
	ID, Issuer, Destination, ACS, Binding, ProviderName, NameID string

	Now            time.Time
	Force, Passive bool
	Context        *AuthnContext
	Custom         map[string][]string
}

// newID names a message: 160 random bits, and a letter in front as an XML name needs.
func newID(random io.Reader) (string, error) {
	b := make([]byte, 20)
	if _, err := io.ReadFull(random, b); err != nil {
		return "", err
	}
	return "_" + hex.EncodeToString(b), nil
}

// message begins a request or response of the protocol.
func message(kind, id, issuer, destination string, now time.Time) *etree.Element {
	e := etree.NewElement("samlp:" + kind)
	e.CreateAttr("xmlns:samlp", nsProtocol)
	e.CreateAttr("xmlns:saml", nsAssertion)
	e.CreateAttr("ID", id)
	e.CreateAttr("Version", "2.0")
	e.CreateAttr("IssueInstant", now.UTC().Format(instant))
	if destination != "" {
		e.CreateAttr("Destination", destination)
	}
	e.CreateElement("saml:Issuer").SetText(plain(issuer))
	return e
}

func (q authnRequest) element() *etree.Element {
	e := message("AuthnRequest", q.ID, q.Issuer, q.Destination, q.Now)
	if q.Force {
		e.CreateAttr("ForceAuthn", "true")
	}
	if q.Passive {
		e.CreateAttr("IsPassive", "true")
	}
	e.CreateAttr("ProtocolBinding", q.Binding)
	e.CreateAttr("AssertionConsumerServiceURL", q.ACS)
	if q.ProviderName != "" {
		e.CreateAttr("ProviderName", plain(q.ProviderName))
	}
	if len(q.Custom) > 0 {
		q.extensions(e.CreateElement("samlp:Extensions"))
	}
	policy := e.CreateElement("samlp:NameIDPolicy")
	if q.NameID != "" {
		policy.CreateAttr("Format", q.NameID)
	}
	if q.NameID != formatTransient { // SAML core 3.4.1.1: it must not be used with transient
		policy.CreateAttr("AllowCreate", "true")
	}
	if q.Context != nil {
		c := e.CreateElement("samlp:RequestedAuthnContext")
		c.CreateAttr("Comparison", q.Context.Comparison)
		for _, class := range q.Context.Classes {
			c.CreateElement("saml:AuthnContextClassRef").SetText(class)
		}
	}
	return e
}

// extensions carries the external_idp_custom_param.* of the authorization request. They are sorted, so that the same request reads the same.
func (q authnRequest) extensions(e *etree.Element) {
	list := e.CreateElement("CustomParameters")
	list.CreateAttr("xmlns", nsCustom)
	for _, key := range slices.Sorted(maps.Keys(q.Custom)) {
		p := list.CreateElement("CustomParameter")
		p.CreateAttr("Key", plain(key))
		for _, value := range q.Custom[key] {
			p.CreateElement("Value").SetText(plain(value))
		}
	}
}

// plain makes text of what strangers wrote: characters that XML does not have, and controls that normalization would change under the
// signature, become spaces.
func plain(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == utf8.RuneError || r == 0xFFFE || r == 0xFFFF {
			return ' '
		}
		return r
	}, s)
}

// sign puts an enveloped signature by the key behind the Issuer, where the schema has its place: in front of Extensions. (SAML core 5.4)
func sign(e *etree.Element, key *idp.Key) error {
	ctx, err := dsig.NewSigningContext(key.Signer, [][]byte{key.Certificate.Raw})
	if err != nil {
		return err
	}
	ctx.Canonicalizer = dsig.MakeC14N10ExclusiveCanonicalizerWithPrefixList("")
	if err := ctx.SetSignatureMethod(dsig.RSASHA256SignatureMethod); err != nil {
		return err
	}
	sig, err := ctx.ConstructSignature(e, true)
	if err != nil {
		return fmt.Errorf("sign: %w", err)
	}
	issuer := e.SelectElement("Issuer")
	if issuer == nil {
		return fmt.Errorf("sign: %s has no Issuer", e.Tag)
	}
	e.InsertChildAt(issuer.Index()+1, sig)
	return nil
}

// write returns the element as a document.
func write(e *etree.Element) ([]byte, error) {
	doc := etree.NewDocument()
	doc.SetRoot(e)
	return doc.WriteToBytes()
}
