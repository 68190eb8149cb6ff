package samltest

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/hmac"
	"crypto/rand"
	_ "crypto/sha1" //nolint:gosec // tests check that it is refused
	"crypto/sha256"
	_ "crypto/sha512" // for crypto.Hash
	"encoding/asn1"
	"encoding/base64"
	"fmt"
	"math/big"
	"strings"

	"github.com/beevik/etree"
	dsig "github.com/russellhaering/goxmldsig"
)

// Algorithms for a Signature besides the defaults.
const (
	RSASHA1     = "http://www.w3.org/2000/09/xmldsig#rsa-sha1"
	RSASHA256   = "http://www.w3.org/2001/04/xmldsig-more#rsa-sha256"
	RSASHA384   = "http://www.w3.org/2001/04/xmldsig-more#rsa-sha384"
	RSASHA512   = "http://www.w3.org/2001/04/xmldsig-more#rsa-sha512"
	ECDSASHA256 = "http://www.w3.org/2001/04/xmldsig-more#ecdsa-sha256"
	ECDSASHA512 = "http://www.w3.org/2001/04/xmldsig-more#ecdsa-sha512"
	HMACSHA256  = "http://www.w3.org/2001/04/xmldsig-more#hmac-sha256"

	SHA1   = "http://www.w3.org/2000/09/xmldsig#sha1"
	SHA256 = "http://www.w3.org/2001/04/xmlenc#sha256"
	SHA384 = "http://www.w3.org/2001/04/xmldsig-more#sha384"
	SHA512 = "http://www.w3.org/2001/04/xmlenc#sha512"

	Enveloped     = "http://www.w3.org/2000/09/xmldsig#enveloped-signature"
	Exclusive     = "http://www.w3.org/2001/10/xml-exc-c14n#"
	Inclusive     = "http://www.w3.org/TR/2001/REC-xml-c14n-20010315"
	Inclusive11   = "http://www.w3.org/2006/12/xml-c14n11"
	WithComments  = "http://www.w3.org/2001/10/xml-exc-c14n#WithComments"
	xmldsig       = "http://www.w3.org/2000/09/xmldsig#"
	signatureName = "Signature"
)

// Signature describes how an element is signed. Zero values are those of an honest provider.
type Signature struct {
	Key        *Key
	Method     string   // default: RSASHA256, or ECDSASHA256 for a key on a curve
	Digest     string   // default: SHA256
	Canonical  string   // of the element and of SignedInfo. Default: Exclusive
	Transforms []string // default: Enveloped, Canonical
	Prefixes   string   // InclusiveNamespaces PrefixList
	URI        string   // default: # and the ID of the element
	NoKeyInfo  bool
	KeyInfo    string // XML instead of the certificate
	// Before and After are XML around the reference to the element.
	Before, After string
}

var hashes = map[string]crypto.Hash{
	RSASHA1: crypto.SHA1, RSASHA256: crypto.SHA256, RSASHA384: crypto.SHA384, RSASHA512: crypto.SHA512, ECDSASHA256: crypto.SHA256,
	ECDSASHA512: crypto.SHA512,
	SHA1:        crypto.SHA1, SHA256: crypto.SHA256, SHA384: crypto.SHA384, SHA512: crypto.SHA512,
}

// Sign inserts a signature into el, after its Issuer if there is one. el must be in its final place, because inclusive
// canonicalization depends on its ancestors.
func Sign(el *etree.Element, how Signature) {
	sig := Parse([]byte(how.xml(el))).Root().Copy()
	at := 0
	if issuer := el.SelectElement("saml:Issuer"); issuer != nil {
		at = issuer.Index() + 1
	}
	el.InsertChildAt(at, sig)
	info := sig.SelectElement("ds:SignedInfo")
	octets := canonical(info, how.canonical(), "")
	sig.SelectElement("ds:SignatureValue").SetText(base64.StdEncoding.EncodeToString(how.sign(octets)))
}

// Octets signs octets as in the redirect binding.
func (how Signature) Octets(octets []byte) []byte { return how.sign(octets) }

func (how Signature) canonical() string { return or(how.Canonical, Exclusive) }

func (how Signature) method() string {
	if _, ok := how.Key.Signer.(*ecdsa.PrivateKey); ok {
		return or(how.Method, ECDSASHA256)
	}
	return or(how.Method, RSASHA256)
}

func (how Signature) xml(el *etree.Element) string {
	transforms := how.Transforms
	if transforms == nil {
		transforms = []string{Enveloped, how.canonical()}
	}
	var t strings.Builder
	for _, algorithm := range transforms {
		inner := ""
		if how.Prefixes != "" && algorithm == Exclusive {
			inner = fmt.Sprintf(`<ec:InclusiveNamespaces xmlns:ec=%q PrefixList=%q/>`, Exclusive, how.Prefixes)
		}
		fmt.Fprintf(&t, `<ds:Transform Algorithm=%q>%s</ds:Transform>`, algorithm, inner)
	}
	hash := hashes[or(how.Digest, SHA256)].New()
	hash.Write(canonical(el, how.canonical(), how.Prefixes))
	keyInfo := ""
	if !how.NoKeyInfo {
		inner := how.KeyInfo
		if inner == "" {
			inner = `<ds:X509Data><ds:X509Certificate>` + base64.StdEncoding.EncodeToString(how.Key.Certificate.Raw) +
				`</ds:X509Certificate></ds:X509Data>`
		}
		keyInfo = `<ds:KeyInfo>` + inner + `</ds:KeyInfo>`
	}
	return fmt.Sprintf(`<ds:Signature xmlns:ds=%q><ds:SignedInfo><ds:CanonicalizationMethod Algorithm=%q/><ds:SignatureMethod Algorithm=%q/>%s`+
		`<ds:Reference URI=%q><ds:Transforms>%s</ds:Transforms><ds:DigestMethod Algorithm=%q/><ds:DigestValue>%s</ds:DigestValue></ds:Reference>%s`+
		`</ds:SignedInfo><ds:SignatureValue/>%s</ds:Signature>`,
		xmldsig, how.canonical(), how.method(), how.Before, or(how.URI, "#"+el.SelectAttrValue("ID", "")), t.String(), or(how.Digest, SHA256),
		base64.StdEncoding.EncodeToString(hash.Sum(nil)), how.After, keyInfo)
}

func (how Signature) sign(octets []byte) []byte {
	if how.method() == HMACSHA256 { // keyed with a public value
		mac := hmac.New(sha256.New, how.Key.Certificate.Raw)
		mac.Write(octets)
		return mac.Sum(nil)
	}
	hash := hashes[how.method()]
	h := hash.New()
	h.Write(octets)
	sig, err := how.Key.Signer.Sign(rand.Reader, h.Sum(nil), hash)
	check(err)
	if k, ok := how.Key.Signer.(*ecdsa.PrivateKey); ok {
		var v struct{ R, S *big.Int }
		_, err := asn1.Unmarshal(sig, &v)
		check(err)
		size := (k.Curve.Params().BitSize + 7) / 8
		return append(v.R.FillBytes(make([]byte, size)), v.S.FillBytes(make([]byte, size))...)
	}
	return sig
}

// canonical returns the canonical octets of el, in the scope of the namespaces around it.
func canonical(el *etree.Element, algorithm, prefixes string) []byte {
	c := el.Copy()
	for up := el.Parent(); up != nil; up = up.Parent() {
		for _, a := range up.Attr {
			if key := a.FullKey(); (a.Space == "xmlns" || key == "xmlns") && c.SelectAttr(key) == nil {
				c.CreateAttr(key, a.Value)
			}
		}
	}
	var by dsig.Canonicalizer
	switch algorithm {
	case Inclusive:
		by = dsig.MakeC14N10RecCanonicalizer()
	case Inclusive11:
		by = dsig.MakeC14N11Canonicalizer()
	case WithComments:
		by = dsig.MakeC14N10ExclusiveWithCommentsCanonicalizerWithPrefixList(prefixes)
	default:
		by = dsig.MakeC14N10ExclusiveCanonicalizerWithPrefixList(prefixes)
	}
	raw, err := by.Canonicalize(c)
	check(err)
	return raw
}
