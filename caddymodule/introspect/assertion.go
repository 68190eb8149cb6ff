package introspect

import (
	"cmp"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/gatehouse-id/gatehouse/internal/jwa"
	"github.com/gatehouse-id/gatehouse/internal/mldsa"
	"github.com/gatehouse-id/gatehouse/internal/secret"
)

const (
	assertionLife = time.Minute
	maxKeyFile    = 64 << 10 // bytes
)

// signer signs for private_key_jwt.
type signer struct{ jose.Signer }

// assertion is a JWT by which our key authenticates us. (RFC 7523 3) Its audience is the server's issuer, or the
// address that the operator has written.
func (s *Server) assertion() (string, error) {
	if s.cfg.signer == nil {
		return "", errors.New("introspect key: the file could not be read when the configuration was loaded")
	}
	id, err := secret.ID(s.random, 24)
	if err != nil {
		return "", err
	}
	now := s.now()
	claims, err := json.Marshal(map[string]any{
		"iss": s.cfg.client, "sub": s.cfg.client, "aud": cmp.Or(s.cfg.issuer, s.cfg.endpoint), "jti": id, "iat": now.Unix(),
		"exp": now.Add(assertionLife).Unix(),
	})
	if err != nil {
		return "", err
	}
	signed, err := s.cfg.signer.Sign(claims)
	if err != nil {
		return "", fmt.Errorf("introspect key: %w", err)
	}
	return signed.CompactSerialize()
}

// readSigner reads a private key from a file (PEM). The kid is its thumbprint (RFC 7638) unless it is named.
func readSigner(path, kid string) (*signer, error) {
	info, err := os.Stat(path)
	if err != nil || info.IsDir() || info.Size() > maxKeyFile {
		return nil, fmt.Errorf("the file %s cannot be read: write the path of a private key (PEM)", path)
	}
	raw, err := os.ReadFile(path) //nolint:gosec // the operator has written the path
	if err != nil {
		return nil, fmt.Errorf("the file %s cannot be read: Gatehouse needs the right to read it", path)
	}
	key, alg, err := parseKey(raw)
	if err != nil {
		return nil, fmt.Errorf("the file %s: %w", path, err)
	}
	if kid == "" {
		sum, err := jwa.Thumbprint(key.Public())
		if err != nil {
			return nil, fmt.Errorf("the file %s: %w", path, err)
		}
		kid = base64.RawURLEncoding.EncodeToString(sum)
	}
	signs, err := jose.NewSigner(jose.SigningKey{Algorithm: alg, Key: jwa.Signer(key)},
		(&jose.SignerOptions{}).WithType("JWT").WithHeader("kid", kid))
	if err != nil {
		return nil, fmt.Errorf("the file %s: %w", path, err)
	}
	return &signer{signs}, nil
}

// parseKey reads the first private key of a PEM file, and the algorithm that it signs by.
func parseKey(raw []byte) (crypto.Signer, jose.SignatureAlgorithm, error) {
	for block, rest := pem.Decode(raw); block != nil; block, rest = pem.Decode(rest) {
		var key any
		var err error
		switch block.Type {
		case "PRIVATE KEY":
			key, err = mldsa.ParsePKCS8PrivateKey(block.Bytes)
		case "RSA PRIVATE KEY":
			key, err = x509.ParsePKCS1PrivateKey(block.Bytes)
		case "EC PRIVATE KEY":
			key, err = x509.ParseECPrivateKey(block.Bytes)
		default:
			continue
		}
		if err != nil {
			return nil, "", errors.New("the private key cannot be read")
		}
		switch k := key.(type) {
		case *rsa.PrivateKey:
			if k.N.BitLen() >= rsaBits {
				return k, jose.RS256, nil
			}
		case ed25519.PrivateKey:
			return k, jose.EdDSA, nil
		case *mldsa.PrivateKey:
			return k, jose.SignatureAlgorithm(k.PublicKey().Parameters().String()), nil
		case *ecdsa.PrivateKey:
			switch k.Curve {
			case elliptic.P256():
				return k, jose.ES256, nil
			case elliptic.P384():
				return k, jose.ES384, nil
			case elliptic.P521():
				return k, jose.ES512, nil
			}
		}
		return nil, "", errors.New("want an RSA key of at least 2048 bits, an EC key (P-256, P-384, P-521), an Ed25519 or an ML-DSA key")
	}
	return nil, "", errors.New("it holds no private key in PEM, such as one that begins with -----BEGIN PRIVATE KEY-----")
}
