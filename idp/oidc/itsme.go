package oidc

import (
	"context"
	"crypto/rsa"
	"errors"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/gatehouse-id/gatehouse/idp"
	"github.com/gatehouse-id/gatehouse/internal/coded"
)

// The security levels of itsme.
const (
	ItsmeBasic    = "BASIC"    // a fingerprint, a face or the itsme code
	ItsmeAdvanced = "ADVANCED" // the itsme code
)

const (
	itsmeIssuer = "https://idp.prd.itsme.services/v2"

	acrBasic    = "http://itsme.services/v2/claim/acr_basic"
	acrAdvanced = "http://itsme.services/v2/claim/acr_advanced"

	levelBasic, levelAdvanced = 2, 3
)

var (
	isServiceCode = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,128}$`).MatchString

	// itsmeScopes are the scopes that give a profile. Others, such as eid for the national number, need a right to what
	// they give.
	itsmeScopes = []string{"profile", claimEmail}
)

// itsmeDefaults fills in what is known of itsme. The scope of the service is asked for always, and answers are
// encrypted.
func (c Config) itsmeDefaults() Config {
	if c.Issuer == "" && c.DiscoveryURL == "" {
		c.Issuer = itsmeIssuer
	}
	if c.SecurityLevel == "" {
		c.SecurityLevel = ItsmeBasic
	}
	if c.Scopes == nil {
		c.Scopes = itsmeScopes
	}
	c.Scopes = slices.DeleteFunc(slices.Clone(c.Scopes), func(s string) bool { return strings.HasPrefix(s, "service:") })
	c.Scopes = append(c.Scopes, "service:"+c.ServiceCode)
	c.AuthMethod = AuthPrivateKey
	c.IDTokenEncryptionRequired, c.UserInfoEncryptionRequired = true, true
	if len(c.Levels) == 0 {
		c.Levels = map[string]int{acrBasic: levelBasic, acrAdvanced: levelAdvanced}
		if c.Level > 0 { // the operator has said what a sign-in there is worth
			c.Levels = map[string]int{acrBasic: c.Level, acrAdvanced: c.Level}
		}
	}
	return c
}

func (c Config) validateItsme() (wrong []error) {
	add := func(err error) { wrong = append(wrong, err) }
	if !isServiceCode(c.ServiceCode) {
		add(coded.Errorf("service_code", "value", "service_code %q: want the code of the login service, as itsme has given it", c.ServiceCode))
	}
	if c.SecurityLevel != ItsmeBasic && c.SecurityLevel != ItsmeAdvanced {
		add(coded.Errorf("itsme_level", "- basic advanced", "security_level %q: want %s or %s", c.SecurityLevel, ItsmeBasic, ItsmeAdvanced))
	}
	for acr := range c.Levels {
		if acr != acrBasic && acr != acrAdvanced {
			add(coded.Errorf("itsme_level", "- basic advanced", "map_level %q: itsme has %s and %s", acr, acrBasic, acrAdvanced))
		}
	}
	return wrong
}

// askAcr demands a level of itsme: that of the configuration, or the higher one where only that is enough for what
// asks. If both are named, itsme takes the higher one.
func (c Config) askAcr(v url.Values) {
	enough := strings.Fields(v.Get("acr_values"))
	acr := acrBasic
	if c.SecurityLevel == ItsmeAdvanced || len(enough) > 0 && !slices.Contains(enough, acrBasic) {
		acr = acrAdvanced
	}
	v.Set("acr_values", acr)
}

// judgeAcr refuses a sign-in below the level of the configuration: a person can change acr_values in the address.
func (c Config) judgeAcr(claims object) error {
	acr, err := claims.Text("acr")
	if err == nil && (acr == acrAdvanced || c.SecurityLevel == ItsmeBasic && (acr == acrBasic || acr == "")) {
		return nil
	}
	return &idp.Rejection{Reason: "the person signed in there at a lower level than is demanded (acr)"}
}

// itsmeKey checks that a key pair is of the only kind that itsme knows.
func (p *Provider) itsmeKey(ctx context.Context, name string) error {
	pair, err := p.env.KeyPair(ctx, name)
	if err != nil {
		return err
	}
	if _, ok := pair.Signer.(*rsa.PrivateKey); !ok {
		return &idp.UnfitKey{Name: name, Problem: "is not an RSA key, and itsme takes no other"}
	}
	return nil
}

// audience returns the audience of an assertion: the issuer, which the operator has written. itsme demands its token
// endpoint, which must then be of the issuer's host, so an assertion is good for no one else.
func (p *Provider) audience(m *metadata) (string, error) {
	if p.cfg.Preset != Itsme {
		return p.cfg.Issuer, nil
	}
	if origin(m.TokenURL) != origin(p.cfg.Issuer) {
		return "", errors.New("the token endpoint of the metadata is on another host than the issuer")
	}
	return m.TokenURL, nil
}
