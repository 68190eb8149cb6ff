package saml

import (
	"crypto/x509"
	"encoding/base64"
	"errors"
	"strings"
	"time"

	"github.com/beevik/etree"
	dsig "github.com/russellhaering/goxmldsig"

	"github.com/gatehouse-id/gatehouse/idp/saml/safexml"
)

// verifyElement verifies the signature in n. It returns the element again, built only from the signed octets. It
// returns nil without an error if there is no signature.
func verifyElement(n *node, certificates []*x509.Certificate, now time.Time) (*node, error) {
	sig, err := n.Child(nsDsig, "Signature")
	if sig == nil || err != nil {
		return nil, err
	}
	id := n.Attrs["ID"]
	if id == "" {
		return nil, errors.New("a signature in an element without ID")
	}
	// The schemas place the signature first or after the Issuer. This is checked because the library takes the first
	// signature that it finds, even inside other elements.
	issuer := n.Elements[0]
	if first := issuer == sig; !first && (n.Elements[1] != sig || !issuer.Is(nsAssertion, "Issuer") || len(issuer.Elements) > 0) {
		return nil, errors.New("a signature in the wrong place")
	}
	if err := checkShape(sig, id); err != nil {
		return nil, err
	}
	candidates, err := candidates(sig, certificates, now)
	if err != nil {
		return nil, err
	}
	for _, c := range candidates {
		el := n.Detached()
		if err := prepare(el, sig, c); err != nil {
			continue // a key of another type
		}
		ctx := dsig.NewDefaultValidationContext(&dsig.MemoryX509CertificateStore{Roots: []*x509.Certificate{c}})
		ctx.Clock = dsig.NewFakeClockAt(now)
		signed, err := ctx.Validate(el)
		if err != nil {
			continue
		}
		out, err := safexml.FromTree(signed)
		if err != nil {
			return nil, err
		}
		if out.Space != n.Space || out.Local != n.Local || out.Attrs["ID"] != id {
			return nil, errors.New("the signature covers another element")
		}
		return out, nil
	}
	return nil, Stale(errors.New("the signature is not the provider's"))
}

// checkShape refuses all signatures except the simple kind of SAML core 5.4: enveloped, with one reference, to the
// element around it.
func checkShape(sig *node, id string) error {
	if err := sig.Closed("SignedInfo", "SignatureValue", "KeyInfo"); err != nil {
		return err
	}
	info, err := sig.One(nsDsig, "SignedInfo")
	if err != nil {
		return err
	}
	if _, err := sig.One(nsDsig, "SignatureValue"); err != nil {
		return err
	}
	if _, err := sig.Child(nsDsig, "KeyInfo"); err != nil {
		return err
	}
	if err := info.Closed("CanonicalizationMethod", "SignatureMethod", "Reference"); err != nil {
		return err
	}
	c14n, err := info.One(nsDsig, "CanonicalizationMethod")
	if err != nil {
		return err
	}
	if err := checkCanonicalization(c14n); err != nil {
		return err
	}
	method, err := info.One(nsDsig, "SignatureMethod")
	if err != nil {
		return err
	}
	if _, ok := signatureAlgorithms[method.Attrs["Algorithm"]]; !ok || len(method.Elements) > 0 {
		return errors.New("a signature algorithm that is not accepted")
	}
	ref, err := info.One(nsDsig, "Reference")
	if err != nil {
		return err
	}
	return checkReference(ref, id)
}

func checkReference(ref *node, id string) error {
	if err := ref.Closed("Transforms", "DigestMethod", "DigestValue"); err != nil {
		return err
	}
	if ref.Attrs["URI"] != "#"+id {
		return errors.New("a reference to another element")
	}
	transforms, err := ref.One(nsDsig, "Transforms")
	if err != nil {
		return err
	}
	if err := transforms.Closed("Transform"); err != nil {
		return err
	}
	// SAML core 5.4.4 allows no others. The second one is required, because otherwise comments would be part of the
	// signed text.
	if t := transforms.Elements; len(t) != 2 || t[0].Attrs["Algorithm"] != transformEnveloped || len(t[0].Elements) > 0 {
		return errors.New("transforms other than those of SAML")
	}
	if err := checkCanonicalization(transforms.Elements[1]); err != nil {
		return err
	}
	method, err := ref.One(nsDsig, "DigestMethod")
	if err != nil {
		return err
	}
	hash, ok := digestAlgorithms[method.Attrs["Algorithm"]]
	if !ok || len(method.Elements) > 0 {
		return errors.New("a digest algorithm that is not accepted")
	}
	value, err := ref.One(nsDsig, "DigestValue")
	if err != nil {
		return err
	}
	if digest, err := decodeBase64(value.Content); err != nil || len(digest) != hash.Size() || len(value.Elements) > 0 {
		return errors.New("a malformed digest")
	}
	return nil
}

func checkCanonicalization(n *node) error {
	algorithm := n.Attrs["Algorithm"]
	if !canonicalizations[algorithm] {
		return errors.New("a canonicalization that is not accepted")
	}
	if err := n.Closed("{" + nsExcC14N + "}InclusiveNamespaces"); err != nil {
		return err
	}
	inclusive, err := n.Child(nsExcC14N, "InclusiveNamespaces")
	if inclusive == nil || err != nil {
		return err
	}
	for prefix := range strings.FieldsSeq(inclusive.Attrs["PrefixList"]) {
		if algorithm != nsExcC14N || prefix == "xml" || prefix == "xmlns" || !safexml.IsNCName(strings.TrimPrefix(prefix, "#")) {
			return errors.New("a malformed list of prefixes")
		}
	}
	return nil
}

// candidates returns the provider's currently valid certificates. Keys in KeyInfo are never trusted. But if KeyInfo
// names only keys that are not the provider's, another party has signed.
func candidates(sig *node, certificates []*x509.Certificate, now time.Time) ([]*x509.Certificate, error) {
	named, err := keysNamed(sig)
	if err != nil {
		return nil, err
	}
	var out []*x509.Certificate
	for _, c := range certificates {
		if isCurrent(c, now) && isStrong(c.PublicKey) && (len(named) == 0 || named[string(c.RawSubjectPublicKeyInfo)]) {
			out = append(out, c)
		}
	}
	if len(out) == 0 {
		return nil, Stale(errors.New("no certificate of the provider matches, or the matching ones have expired"))
	}
	return out, nil
}

// keysNamed returns the public keys of the certificates in KeyInfo.
func keysNamed(sig *node) (map[string]bool, error) {
	info, err := sig.Child(nsDsig, "KeyInfo")
	if info == nil || err != nil {
		return nil, err
	}
	named := map[string]bool{}
	for _, data := range info.Children(nsDsig, "X509Data") {
		for _, n := range data.Children(nsDsig, "X509Certificate") {
			raw, err := decodeBase64(n.Content)
			if err != nil || len(named) >= 5 {
				return nil, errors.New("a malformed certificate in KeyInfo")
			}
			c, err := parseCertificate(raw)
			if err != nil {
				return nil, errors.New("a malformed certificate in KeyInfo")
			}
			named[string(c.RawSubjectPublicKeyInfo)] = true
		}
	}
	return named, nil
}

// prepare changes el, which is a copy, so the library verifies it with c alone. KeyInfo and SignatureValue are not
// signed.
func prepare(el *etree.Element, sig *node, c *x509.Certificate) error {
	value, err := sig.One(nsDsig, "SignatureValue")
	if err != nil {
		return err
	}
	raw, err := decodeBase64(value.Content)
	if err != nil || len(value.Elements) > 0 {
		return errors.New("a malformed signature")
	}
	raw, err = derSignature(c, raw)
	if err != nil {
		return err
	}
	copied, ok := el.Child[sig.Place()].(*etree.Element)
	if !ok {
		return errors.New("a signature in the wrong place")
	}
	for _, child := range copied.ChildElements() {
		switch child.Tag {
		case "KeyInfo":
			copied.RemoveChild(child)
		case "SignatureValue":
			child.SetText(base64.StdEncoding.EncodeToString(raw))
		}
	}
	return nil
}
