package keystore

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"math/big"
	"strings"

	"github.com/gatehouse-id/gatehouse/internal/coded"
	"github.com/gatehouse-id/gatehouse/internal/keytab"
	"github.com/gatehouse-id/gatehouse/internal/mldsa"
)

// The types of key pairs. (identity service document, KeyPair)
const (
	RSA         = "RSA"
	EC          = "EC"
	MLDSA       = "ML-DSA"      // of each parameter set (RFC 9881). It signs JSON Web Tokens, and nothing else
	Certificate = "CERTIFICATE" // a certificate without its private key
	Keytab      = "KEYTAB"      // the keys of a Kerberos service. It has no public part
)

const (
	maxPEM     = 12 << 10 // bytes of one PEM, or of a keytab; that of a private RSA key of 8192 bits has half
	minRSABits = 2048
	maxRSABits = 8192
	maxKeyName = 100 // characters
)

// rsaEncryption is the object identifier of RSA keys. (RFC 8017 A.1)
var rsaEncryption = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 1, 1}

// parsedPair is a valid key pair. Its fields are what is stored: a private key in PKCS#8, a keytab as it is, everything
// else as DER.
type parsedPair struct {
	kind        string
	private     []byte // PKCS#8, or a keytab. nil: not given
	public      []byte // DER of the certificate, or of the SubjectPublicKeyInfo
	certificate *x509.Certificate
	publicKey   crypto.PublicKey
	signer      crypto.Signer
}

// publicKeyer is every public key of the standard library.
type publicKeyer interface{ Equal(x crypto.PublicKey) bool }

// parsePair checks a key pair: each part is exactly one key of one kind, and a private key belongs to the public one.
// private may be empty. Whether a certificate has expired is not checked. The errors repeat nothing of what was given.
func parsePair(kind, private, public string) (*parsedPair, *pairError) {
	p := &parsedPair{kind: kind}
	switch kind {
	case RSA, EC, MLDSA:
	case Keytab:
		return p, p.readKeytab(private, public)
	case Certificate:
		if private != "" {
			return nil, wrongPair("private_key", coded.New("certificate_private", "must be empty: the key_type is CERTIFICATE"))
		}
	default:
		return nil, wrongPair("key_type", coded.Errorf("one_of", "list", "must be one of %s", "RSA, EC, ML-DSA, CERTIFICATE, KEYTAB"))
	}
	if public == "" {
		return nil, wrongPair("public_key", coded.New("public_key_missing", "is missing: want the PEM of a certificate or public key in Base64"))
	}
	if err := p.readPublic(public); err != nil {
		return nil, wrongPair("public_key", err)
	}
	if err := p.checkPublic(); err != nil {
		return nil, wrongPair("public_key", err)
	}
	if private == "" {
		return p, nil
	}
	if err := p.readPrivate(private); err != nil {
		return nil, wrongPair("private_key", err)
	}
	if !p.matches(p.signer) {
		return nil, wrongPair("private_key", coded.New("key_mismatch", "does not belong to the public_key"))
	}
	return p, nil
}

// readKeytab takes the file in Base64.
func (p *parsedPair) readKeytab(private, public string) *pairError {
	switch {
	case public != "":
		return wrongPair("public_key", coded.New("keytab_public", "must be empty: the key_type is KEYTAB"))
	case private == "":
		return nil
	case len(private) > base64.StdEncoding.EncodedLen(maxPEM):
		return wrongPair("private_key", coded.Errorf("keytab_size", "max", "is too large: at most %d bytes of keytab", maxPEM))
	}
	raw, err := base64.StdEncoding.Strict().DecodeString(private)
	if err != nil {
		return wrongPair("private_key", coded.New("not_base64", "is not Base64"))
	}
	if _, err := keytab.Principals(raw); err != nil {
		return wrongPair("private_key", err)
	}
	p.private = raw
	return nil
}

// pairError names the member of a KeyPair that is wrong.
type pairError struct {
	Member  string
	Problem error
}

func (e *pairError) Error() string { return e.Member + ": " + e.Problem.Error() }

func wrongPair(member string, problem error) *pairError { return &pairError{member, problem} }

// matches reports whether the key is the private one of the public key.
func (p *parsedPair) matches(key crypto.Signer) bool {
	k, ok := key.Public().(publicKeyer)
	return ok && k.Equal(p.publicKey)
}

// readPEM returns the one block of a PEM in Base64. Text before, between or after blocks is refused, so nothing is
// silently passed over.
func readPEM(encoded string, skip ...string) (*pem.Block, error) {
	if len(encoded) > base64.StdEncoding.EncodedLen(maxPEM) {
		return nil, coded.Errorf("pem_size", "max", "is too large: at most %d bytes of PEM", maxPEM)
	}
	text, err := base64.StdEncoding.Strict().DecodeString(encoded)
	if err != nil {
		return nil, coded.New("not_base64", "is not Base64")
	}
	for {
		text = bytes.TrimLeft(text, " \t\r\n")
		if !bytes.HasPrefix(text, []byte("-----BEGIN ")) {
			return nil, coded.New("not_pem", "is not PEM")
		}
		block, rest := pem.Decode(text)
		if block == nil {
			return nil, coded.New("not_pem", "is not PEM")
		}
		if isSkipped(block, skip) {
			text = rest
			continue
		}
		if len(block.Headers) > 0 || strings.Contains(block.Type, "ENCRYPTED") {
			return nil, coded.New("key_encrypted", "is encrypted: give it without a passphrase")
		}
		if len(bytes.TrimSpace(rest)) > 0 {
			return nil, coded.New("pem_blocks", "holds more than one PEM block")
		}
		return block, nil
	}
}

func isSkipped(b *pem.Block, skip []string) bool {
	for _, s := range skip {
		if b.Type == s {
			return true
		}
	}
	return false
}

func (p *parsedPair) readPublic(encoded string) error {
	block, err := readPEM(encoded)
	if err != nil {
		return err
	}
	switch block.Type {
	case "CERTIFICATE":
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil || cert.PublicKey == nil {
			return coded.New("not_certificate", "is not a certificate with an RSA or EC key")
		}
		p.certificate, p.public, p.publicKey = cert, block.Bytes, cert.PublicKey
	case "PUBLIC KEY":
		if p.publicKey, err = mldsa.ParsePKIXPublicKey(block.Bytes); err != nil {
			return coded.New("not_public_key", "is not a public key in PKIX form")
		}
		p.public = block.Bytes
	case "RSA PUBLIC KEY":
		key, err := x509.ParsePKCS1PublicKey(block.Bytes)
		if err != nil {
			return coded.New("not_public_key", "is not an RSA public key")
		}
		if p.public, err = x509.MarshalPKIXPublicKey(key); err != nil {
			return coded.New("not_public_key", "is not an RSA public key")
		}
		p.publicKey = key
	default:
		return coded.New("pem_public", "want a PEM block CERTIFICATE or PUBLIC KEY")
	}
	return nil
}

// checkPublic refuses a public key of the wrong type or an unsafe size.
func (p *parsedPair) checkPublic() error {
	kind := ""
	switch key := p.publicKey.(type) {
	case *rsa.PublicKey:
		kind = RSA
		if err := checkRSA(key.N, key.E); err != nil {
			return err
		}
	case *ecdsa.PublicKey:
		kind = EC
		if key.Curve != elliptic.P256() && key.Curve != elliptic.P384() && key.Curve != elliptic.P521() {
			return coded.New("key_curve", "want one of the curves P-256, P-384 and P-521")
		}
	case *mldsa.PublicKey:
		kind = MLDSA
	default:
		return coded.New("key_kind", "want an RSA, EC or ML-DSA key")
	}
	if p.kind != Certificate && p.kind != kind {
		return coded.Errorf("key_type", "type", "holds a key of the type %s", kind)
	}
	if p.certificate == nil {
		if p.kind == Certificate {
			return coded.New("certificate_missing", "want a certificate: the key_type is CERTIFICATE")
		}
		return nil
	}
	if !p.certificate.NotAfter.After(p.certificate.NotBefore) {
		return coded.New("certificate_reversed", "the certificate ends before it begins")
	}
	return nil
}

func checkRSA(n *big.Int, e int) error {
	switch bits := n.BitLen(); {
	case bits < minRSABits || bits > maxRSABits:
		return coded.Errorf("rsa_bits", "bits from to", "the RSA key has %d bits, want %d to %d", bits, minRSABits, maxRSABits)
	case n.Bit(0) == 0:
		return coded.New("rsa_unsafe", "the RSA modulus is even")
	case e < 3 || e&1 == 0:
		return coded.New("rsa_unsafe", "the RSA exponent must be odd and at least 3")
	}
	return nil
}

func (p *parsedPair) readPrivate(encoded string) error {
	block, err := readPEM(encoded, "EC PARAMETERS") // openssl ecparam -genkey writes them ahead of the key
	if err != nil {
		return err
	}
	var key any
	switch block.Type {
	case "RSA PRIVATE KEY": // RFC 8017 A.1.2
		if err := peekRSA(block.Bytes); err != nil {
			return err
		}
		key, err = x509.ParsePKCS1PrivateKey(block.Bytes)
	case "EC PRIVATE KEY": // RFC 5915
		key, err = x509.ParseECPrivateKey(block.Bytes)
	case "PRIVATE KEY": // RFC 5208
		var outer struct {
			Version    int
			Algorithm  pkix.AlgorithmIdentifier
			Key        []byte
			Attributes asn1.RawValue `asn1:"optional"`
		}
		if _, err := asn1.Unmarshal(block.Bytes, &outer); err != nil {
			return coded.New("not_private_key", "is not a private key in PKCS#8")
		}
		if outer.Algorithm.Algorithm.Equal(rsaEncryption) {
			if err := peekRSA(outer.Key); err != nil {
				return err
			}
		}
		key, err = mldsa.ParsePKCS8PrivateKey(block.Bytes)
	default:
		return coded.New("pem_private", "want a PEM block PRIVATE KEY, RSA PRIVATE KEY or EC PRIVATE KEY")
	}
	if errors.Is(err, mldsa.ErrNoSeed) {
		return coded.New("key_seed", "has no seed: want one, which openssl writes unless it is told not to")
	}
	if err != nil {
		return coded.New("not_private_key", "is not a sound private key")
	}
	switch k := key.(type) {
	case *rsa.PrivateKey:
		if err := k.Validate(); err != nil {
			return coded.New("not_private_key", "is not a sound private key")
		}
		p.signer = k
	case *ecdsa.PrivateKey:
		p.signer = k
	case *mldsa.PrivateKey:
		p.signer = k
	default:
		return coded.New("key_kind", "want an RSA, EC or ML-DSA key")
	}
	if p.private, err = mldsa.MarshalPKCS8PrivateKey(p.signer); err != nil {
		return coded.New("not_private_key", "is not a sound private key")
	}
	return nil
}

// peekRSA checks the size of the numbers of an RSA key before the library computes with them, which takes long when
// they are huge.
func peekRSA(der []byte) error {
	var key struct {
		Version       int
		N             *big.Int
		E             int
		D, P, Q       *big.Int
		Dp, Dq, Qinv  *big.Int      `asn1:"optional"`
		AdditionalRaw asn1.RawValue `asn1:"optional"`
	}
	if _, err := asn1.Unmarshal(der, &key); err != nil {
		return coded.New("not_private_key", "is not an RSA private key")
	}
	if err := checkRSA(key.N, key.E); err != nil {
		return err
	}
	bits := key.N.BitLen()
	if key.D.BitLen() > bits || key.P.BitLen() > bits || key.Q.BitLen() > bits {
		return coded.New("not_private_key", "is not a sound private key")
	}
	return nil
}

// encodePublic returns the public part as it is answered: PEM in Base64. A keytab has none.
func encodePublic(der []byte, certificate bool) string {
	if len(der) == 0 {
		return ""
	}
	return base64.StdEncoding.EncodeToString(encodePEM(der, certificate))
}

func encodePEM(der []byte, certificate bool) []byte {
	block := &pem.Block{Type: "PUBLIC KEY", Bytes: der}
	if certificate {
		block.Type = "CERTIFICATE"
	}
	return pem.EncodeToMemory(block)
}
