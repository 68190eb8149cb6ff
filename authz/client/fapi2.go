package client

import (
	"strings"
	"time"

	"github.com/gatehouse-id/gatehouse/internal/jwa"
)

// The FAPI 2.0 Security Profile for one client. (docs/decisions/client-authentication.md#fapi-20)

// fapi2Code is the longest life of an authorization code. (FAPI 2.0 Security Profile 5.3.2.1)
const fapi2Code = time.Minute

// asFAPI2 sets what the profile demands, and its defaults.
func (c *Client) asFAPI2() {
	c.PARRequired, c.PKCERequired = true, true
	setDefault(&c.IDTokenAlg, "ES256")
	setDefault(&c.ResponseAlg, "ES256")
	if c.UsesCertificate() && !c.DPoPRequired {
		c.MTLSRequired = true
	}
	if !c.MTLSRequired {
		c.DPoPRequired = true
	}
	// A refresh token is not replaced, so it lives as long as what follows from the sign-in. (5.3.2.1)
	setDefault(&c.Lifetimes.RefreshToken, c.Lifetimes.RefreshChain)
}

// fapi2Allows reports whether an algorithm is one of PS256, ES256 and EdDSA. (5.4.1)
func fapi2Allows(alg string) bool { return alg != "RS256" && !jwa.IsPostQuantum(alg) }

// Allows reports whether the profile of the client, if it has one, lets it sign with an algorithm.
func (c *Client) Allows(alg string) bool { return !c.FAPI2 || fapi2Allows(alg) }

// checkFAPI2 finds what keeps the client from the profile.
func (c *Client) checkFAPI2(p *Problems) {
	if !c.FAPI2 {
		return
	}
	if c.Public || c.AuthMethod != MethodPrivateKey && !c.UsesCertificate() {
		p.Addf("fapi2: the client must authenticate by auth_method private_key_jwt, tls_client_auth or self_signed_tls_client_auth")
	}
	for _, g := range c.Grants {
		if g != GrantCode && g != GrantRefreshToken && g != GrantClientCredentials {
			p.Addf("fapi2: grants: the profile has authorization_code, refresh_token and client_credentials: remove %s", g)
		}
	}
	for _, o := range [...]struct{ option, alg string }{
		{"id_token_alg", c.IDTokenAlg},
		{"token_alg", c.TokenAlg},
		{"request_object_alg", c.RequestAlg},
		{"authorization_response_alg", c.ResponseAlg},
	} {
		if !fapi2Allows(o.alg) {
			p.Addf("fapi2: %s: the profile refuses %s: choose ES256 or EdDSA", o.option, o.alg)
		}
	}
	for _, uri := range c.RedirectURIs {
		if !strings.HasPrefix(uri, "https://") {
			p.Addf("fapi2: redirect_uris: %q: the profile wants https", uri)
		}
	}
	if c.Lifetimes.Code > fapi2Code {
		p.Addf("fapi2: lifetimes: code is %s, and the profile allows %s", c.Lifetimes.Code, fapi2Code)
	}
}
