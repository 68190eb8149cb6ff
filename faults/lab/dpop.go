package lab

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/url"
	"sync"
	"time"
)

// proofKey is the key of the lab's sender of DPoP proofs.
var proofKey = sync.OnceValues(func() (*ecdsa.PrivateKey, error) { return ecdsa.GenerateKey(elliptic.P256(), rand.Reader) })

// Proof returns a new DPoP proof for a request to the token endpoint (RFC 9449 4.2).
func (s *Server) Proof() (string, error) {
	key, err := proofKey()
	if err != nil {
		return "", err
	}
	public, err := key.PublicKey.Bytes() // 4, x, y
	if err != nil {
		return "", err
	}
	b64 := base64.RawURLEncoding.EncodeToString
	head, err := json.Marshal(map[string]any{"typ": "dpop+jwt", "alg": "ES256", "jwk": map[string]string{
		"kty": "EC", "crv": "P-256", "x": b64(public[1:33]), "y": b64(public[33:]),
	}})
	if err != nil {
		return "", err
	}
	body, err := json.Marshal(map[string]any{
		"jti": text(16), "htm": http.MethodPost, "htu": s.Issuer() + "/oauth/token",
		"iat": time.Now().Unix(),
	})
	if err != nil {
		return "", err
	}
	signed := b64(head) + "." + b64(body)
	sum := sha256.Sum256([]byte(signed))
	x, y, err := ecdsa.Sign(rand.Reader, key, sum[:])
	if err != nil {
		return "", err
	}
	signature := make([]byte, 64)
	x.FillBytes(signature[:32])
	y.FillBytes(signature[32:])
	return signed + "." + b64(signature), nil
}

// IssueBound requests a client-credentials token that is bound to the key of a proof.
func (s *Server) IssueBound(ctx context.Context, proof string) Answer {
	return s.post(ctx, "/oauth/token", MachineID, s.Machine, url.Values{"grant_type": {"client_credentials"}, "scope": {Scope}}, proof)
}
