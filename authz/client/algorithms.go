package client

import (
	"cmp"
	"encoding/base64"
	"slices"

	"github.com/gatehouse-id/gatehouse/internal/jwa"
)

// SignatureAlgorithms are the algorithms that the issuer can sign with for a client.
var SignatureAlgorithms = []string{"RS256", "ES256", "EdDSA", "ML-DSA-44", "ML-DSA-65", "ML-DSA-87"}

// defaultTokenAlg signs the JWT access tokens of clients that name no algorithm. It costs a fiftieth of RS256.
// (docs/decisions/tokens.md#jwt-signatures)
const defaultTokenAlg = "ES256"

// SignsTokensWith is the algorithm of its access tokens that are JWTs. ID tokens that are signed by ML-DSA say nothing
// about them, since an access token has to fit into a header.
func (c *Client) SignsTokensWith() string {
	if jwa.IsPostQuantum(c.IDTokenAlg) {
		return cmp.Or(c.TokenAlg, defaultTokenAlg)
	}
	return cmp.Or(c.TokenAlg, c.IDTokenAlg, defaultTokenAlg)
}

// LongestToken is about the number of bytes of a header with an access token that is a JWT for all its scopes and
// audiences.
func (c *Client) LongestToken() int {
	claims := len(`{"exp":1767225600,"auth_time":1767225600,"iat":1767225600,"acr":"urn:gatehouse:level:2","amr":["pop","user","mfa"]}`) +
		len(`"iss":"","aud":[],"sub":"f81d4fae-7dec-11d0-a765-00a0c91e6bf6","client_id":"","cid":"","scope":"","jti":"",,`) +
		len("https://auth.example.com") + 2*len(c.ID) + 43
	if c.DPoPRequired || c.MTLSRequired {
		claims += len(`"cnf":{"x5t#S256":""},`) + 43
	}
	for _, one := range slices.Concat(c.Scopes, c.Audiences) {
		claims += len(one) + len(`"",`)
	}
	const header = len(`{"alg":"ML-DSA-44","kid":"AAAAAAAAAAAAAAAAAAAAAA","typ":"at+jwt"}`)
	return len("Authorization: Bearer ..") + base64.RawURLEncoding.EncodedLen(header) + base64.RawURLEncoding.EncodedLen(claims) +
		jwa.SignatureSize(c.SignsTokensWith())
}

// AskedAlgorithms are those that the issuer must have keys for. Some can be empty.
func (c *Client) AskedAlgorithms() []string { return []string{c.IDTokenAlg, c.TokenAlg, c.UserinfoAlg} }

// checkAlgorithms keeps signatures of ML-DSA, which have 3 to 6 KiB, out of addresses.
func (c *Client) checkAlgorithms(p *Problems) {
	p.oneOf("id_token_alg", c.IDTokenAlg, SignatureAlgorithms...)
	p.oneOf("token_alg", c.TokenAlg, SignatureAlgorithms...)
	p.oneOf("authorization_response_alg", c.ResponseAlg, "RS256", "ES256", "EdDSA") // in the address of a redirect
	if c.TokenAlg != "" && c.TokenFormat != FormatJWT {
		p.Addf("token_alg: access tokens that are opaque have no signature: add token_format jwt, or remove token_alg")
	}
	for _, o := range [...]struct{ option, alg, grant string }{
		{"id_token_alg", c.IDTokenAlg, GrantIDToken}, {"token_alg", c.TokenAlg, GrantImplicit},
	} {
		if jwa.IsPostQuantum(o.alg) && c.HasGrant(o.grant) {
			p.Addf("%s: %s is too long for the address in which the grants implicit and id_token hand tokens over: use authorization_code",
				o.option, o.alg)
		}
	}
}
