package saml

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/x509"
	"encoding/asn1"
	"encoding/base64"
	"errors"
	"math/big"
	"strings"
	"time"

	"github.com/gatehouse-id/gatehouse/idp/saml/safexml"
)

// Namespaces of the documents.
const (
	nsProtocol  = safexml.NSProtocol
	nsAssertion = safexml.NSAssertion
	nsMetadata  = safexml.NSMetadata
	nsDsig      = safexml.NSDsig
	nsXenc      = safexml.NSXenc
	nsXenc11    = safexml.NSXenc11
	nsExcC14N   = "http://www.w3.org/2001/10/xml-exc-c14n#"
	nsSOAP      = "http://schemas.xmlsoap.org/soap/envelope/"
	nsXSI       = "http://www.w3.org/2001/XMLSchema-instance"
)

// signatureAlgorithms are the accepted ones. SHA-1, HMAC and all others are refused.
var signatureAlgorithms = map[string]x509.SignatureAlgorithm{
	"http://www.w3.org/2001/04/xmldsig-more#rsa-sha256":   x509.SHA256WithRSA,
	"http://www.w3.org/2001/04/xmldsig-more#rsa-sha384":   x509.SHA384WithRSA,
	"http://www.w3.org/2001/04/xmldsig-more#rsa-sha512":   x509.SHA512WithRSA,
	"http://www.w3.org/2001/04/xmldsig-more#ecdsa-sha256": x509.ECDSAWithSHA256,
	"http://www.w3.org/2001/04/xmldsig-more#ecdsa-sha384": x509.ECDSAWithSHA384,
	"http://www.w3.org/2001/04/xmldsig-more#ecdsa-sha512": x509.ECDSAWithSHA512,
}

var digestAlgorithms = map[string]crypto.Hash{
	"http://www.w3.org/2001/04/xmlenc#sha256":       crypto.SHA256,
	"http://www.w3.org/2001/04/xmldsig-more#sha384": crypto.SHA384,
	"http://www.w3.org/2001/04/xmlenc#sha512":       crypto.SHA512,
}

const transformEnveloped = "http://www.w3.org/2000/09/xmldsig#enveloped-signature"

// canonicalizations are the accepted ones, all without comments: with them, comments would be part of the signed text.
var canonicalizations = map[string]bool{
	nsExcC14N:                              true,
	"http://www.w3.org/2006/12/xml-c14n11": true,
	"http://www.w3.org/TR/2001/REC-xml-c14n-20010315": true,
}

// isStrong reports whether signatures made for a public key are accepted.
func isStrong(public any) bool {
	switch k := public.(type) {
	case *rsa.PublicKey:
		return k.N.BitLen() >= 2048 && k.N.BitLen() <= 8192 && k.E >= 3
	case *ecdsa.PublicKey:
		return k.Curve == elliptic.P256() || k.Curve == elliptic.P384() || k.Curve == elliptic.P521()
	}
	return false
}

// isCurrent reports whether a certificate is valid now.
func isCurrent(c *x509.Certificate, now time.Time) bool {
	return !now.Before(c.NotBefore) && now.Before(c.NotAfter)
}

// derSignature converts a signature to the form that crypto/x509 expects. In XML, a signature of an elliptic curve is r
// followed by s (XML Signature 1.1, 6.4.3).
func derSignature(c *x509.Certificate, sig []byte) ([]byte, error) {
	k, ok := c.PublicKey.(*ecdsa.PublicKey)
	if !ok {
		return sig, nil
	}
	size := (k.Curve.Params().BitSize + 7) / 8
	if len(sig) != 2*size {
		return nil, errors.New("a signature of another curve")
	}
	return asn1.Marshal(struct{ R, S *big.Int }{new(big.Int).SetBytes(sig[:size]), new(big.Int).SetBytes(sig[size:])})
}

// verifyQuery checks a signature of the redirect binding over the octets of the query. alg is the value of SigAlg, sig
// the decoded value of Signature.
func (m *idpMetadata) verifyQuery(now time.Time, alg string, octets, sig []byte) error {
	algorithm, ok := signatureAlgorithms[alg]
	if !ok {
		return invalid("the query is signed with an algorithm that is not accepted")
	}
	for _, c := range m.Signing {
		der, err := derSignature(c, sig)
		if err == nil && isCurrent(c, now) && c.CheckSignature(algorithm, octets, der) == nil {
			return nil
		}
	}
	return Stale(invalid("the signature of the query is not the provider's"))
}

// decodeBase64 decodes base64 that may contain white space, as XML allows.
func decodeBase64(s string) ([]byte, error) {
	s = strings.Map(func(c rune) rune {
		if safexml.IsSpace(c) {
			return -1
		}
		return c
	}, s)
	return base64.StdEncoding.Strict().DecodeString(s)
}
