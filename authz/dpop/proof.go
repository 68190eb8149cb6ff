package dpop

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"math"
	"net/url"
	"strings"

	"github.com/go-jose/go-jose/v4"

	"github.com/gatehouse-id/gatehouse/internal/jwa"
)

// proofType is the typ of a proof, which no other token has. (RFC 9449 4.2)
const proofType = "dpop+jwt"

// The sizes of RSA keys. Smaller ones are weak, greater ones cost more than a stranger is worth.
const minRSA, maxRSA = 2048, 4096

// proofClaims are the claims of a proof. (RFC 9449 4.2) Times can have fractions (RFC 7519 2).
type proofClaims struct {
	ID       string   `json:"jti"`
	Method   string   `json:"htm"`
	URL      string   `json:"htu"`
	IssuedAt *float64 `json:"iat"`
	Token    string   `json:"ath"`
	Nonce    string   `json:"nonce"`
}

// verify returns what a proof says, and the key in it that has signed it. (RFC 9449 4.3, 2 to 7) Clients write the same
// header each time, so the key of one that was good before is not read again.
func (p *Proofs) verify(raw string) (claims proofClaims, by *signer, err error) {
	head, _, _ := strings.Cut(raw, ".")
	by = p.signers.find(head)
	payload, split := by.open(raw, len(head))
	switch {
	case split && payload == nil:
		return claims, nil, badSignature()
	case !split:
		if payload, by, err = parse(raw); err != nil {
			return claims, nil, err
		}
		p.signers.keep(head, by)
	}
	if json.Unmarshal(payload, &claims) != nil {
		return claims, nil, Invalid(nil, "the claims of the DPoP proof cannot be read")
	}
	return claims, by, nil
}

func badSignature() error { return Invalid(nil, "the signature of the DPoP proof is wrong") }

// parse reads a proof and checks its signature.
func parse(raw string) (payload []byte, by *signer, err error) {
	parsed, err := jose.ParseSignedCompact(raw, algorithms)
	if err != nil {
		return nil, nil, Invalid(nil, "the DPoP proof is no JWT with a public key and one of the algorithms "+strings.Join(Algorithms(), ", "))
	}
	header := parsed.Signatures[0].Protected
	alg := jose.SignatureAlgorithm(header.Algorithm)
	switch typ, _ := header.ExtraHeaders[jose.HeaderType].(string); {
	case typ != proofType:
		return nil, nil, Invalid(nil, "the typ of the DPoP proof is not "+proofType)
	case header.JSONWebKey == nil || !header.JSONWebKey.IsPublic():
		return nil, nil, Invalid(nil, "the DPoP proof has no public key (jwk)")
	case !fits(header.JSONWebKey.Key, alg):
		return nil, nil, Invalid(nil, "the key of the DPoP proof is not one for its algorithm, or is too small or too large")
	}
	if payload, err = parsed.Verify(jwa.Verifier(header.JSONWebKey.Key)); err != nil {
		return nil, nil, badSignature()
	}
	sum, err := header.JSONWebKey.Thumbprint(crypto.SHA256)
	if err != nil {
		return nil, nil, Invalid(nil, "the DPoP proof has no public key (jwk)")
	}
	return payload, &signer{header.JSONWebKey.Key, alg, base64.RawURLEncoding.EncodeToString(sum)}, nil
}

// fits reports whether a key is one for an algorithm, and neither weak nor costly.
func fits(key any, alg jose.SignatureAlgorithm) bool {
	switch k := key.(type) {
	case *ecdsa.PublicKey:
		return alg == jose.ES256 && k.Curve == elliptic.P256()
	case ed25519.PublicKey:
		return jwa.Suits(k, string(alg))
	case *rsa.PublicKey:
		return (alg == jose.PS256 || alg == jose.RS256) && k.N.BitLen() >= minRSA && k.N.BitLen() <= maxRSA
	}
	return false
}

// check compares the claims with the request. (RFC 9449 4.3, 3, 8, 9, 12)
func (c *proofClaims) check(about Request) error {
	switch {
	case c.ID == "" || len(c.ID) > maxID:
		return Invalid(nil, "the jti of the DPoP proof is missing or too long")
	case c.IssuedAt == nil || math.IsNaN(*c.IssuedAt) || math.Abs(*c.IssuedAt) > 1<<40:
		return Invalid(nil, "the iat of the DPoP proof is missing or no time")
	case c.Method != about.Method:
		return Invalid(nil, "the DPoP proof is for another method (htm)")
	case !sameURL(c.URL, about.URL):
		return Invalid(nil, "the DPoP proof is for another address (htu)")
	case about.Token != "" && c.Token != hashOf(about.Token):
		return Invalid(nil, "the DPoP proof is for another access token (ath)")
	}
	return nil
}

// hashOf returns the value of ath for an access token. (RFC 9449 4.2)
func hashOf(token string) string {
	sum := sha256.Sum256([]byte(token))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// sameURL compares addresses without their queries and fragments. (RFC 9449 4.3, 9; RFC 3986 6.2.2, 6.2.3)
func sameURL(a, b string) bool {
	if a == b && a != "" {
		return true
	}
	a, okA := plainURL(a)
	b, okB := plainURL(b)
	return okA && okB && a == b
}

// plainURL writes an address in one way. Segments of dots stay, since no client sends them.
func plainURL(s string) (string, bool) {
	u, err := url.Parse(s)
	if err != nil || u.Host == "" || u.User != nil || u.Opaque != "" {
		return "", false
	}
	host := strings.ToLower(u.Host)
	switch u.Scheme {
	case "https":
		host = strings.TrimSuffix(host, ":443")
	case "http":
		host = strings.TrimSuffix(host, ":80")
	default:
		return "", false
	}
	path := plainPath(u.EscapedPath())
	if path == "" {
		path = "/"
	}
	return u.Scheme + "://" + host + path, true
}

// plainPath writes each escape of a path in one way: characters that need none without, others with capitals.
func plainPath(escaped string) string {
	if strings.IndexByte(escaped, '%') < 0 {
		return escaped
	}
	const hex = "0123456789ABCDEF"
	out := make([]byte, 0, len(escaped))
	for i := 0; i < len(escaped); i++ {
		c := escaped[i]
		if c != '%' || i+2 >= len(escaped) {
			out = append(out, c)
			continue
		}
		c = unhex(escaped[i+1])<<4 | unhex(escaped[i+2])
		if i += 2; unreserved(c) {
			out = append(out, c)
		} else {
			out = append(out, '%', hex[c>>4], hex[c&15])
		}
	}
	return string(out)
}

// unhex reads a digit that url.Parse has accepted.
func unhex(c byte) byte {
	switch {
	case c >= 'a':
		return c - 'a' + 10
	case c >= 'A':
		return c - 'A' + 10
	}
	return c - '0'
}

// unreserved: RFC 3986 2.3
func unreserved(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("-._~", c) >= 0
}
