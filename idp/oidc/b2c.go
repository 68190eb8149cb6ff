package oidc

import (
	"errors"
	"net/url"
	"regexp"
	"strings"

	"github.com/gatehouse-id/gatehouse/internal/coded"
)

var (
	isDirectory = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,61}[a-z0-9]$`).MatchString
	isPolicy    = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,128}$`).MatchString

	errPolicy = errors.New("tfp or acr is not the policy of the configuration")
)

// b2cDefaults fills in the addresses of a directory of Azure AD B2C. The issuer of its metadata has the directory's id,
// which only the metadata tell; Issuer stands for the host and the directory.
func (c Config) b2cDefaults() Config {
	c.Tenant = strings.TrimSuffix(strings.ToLower(c.Tenant), ".onmicrosoft.com")
	if c.Issuer == "" {
		c.Issuer = "https://" + c.Tenant + ".b2clogin.com"
	}
	c.Issuer = strings.TrimSuffix(c.Issuer, "/")
	at := c.Issuer + "/" + c.Tenant + ".onmicrosoft.com/"
	switch {
	case c.DiscoveryURL != "":
	case c.PolicyInQuery:
		c.DiscoveryURL = at + "v2.0" + discoveryPath + "?p=" + url.QueryEscape(c.Policy)
	default:
		c.DiscoveryURL = at + c.Policy + "/v2.0" + discoveryPath
	}
	return c
}

func (c Config) validateB2C() (wrong []error) {
	if !isDirectory(c.Tenant) {
		wrong = append(wrong, coded.Errorf("tenant", "value", "tenant %q: want the name of the directory before .onmicrosoft.com, such as contoso", c.Tenant))
	}
	if !isPolicy(c.Policy) {
		wrong = append(wrong, coded.Errorf("user_flow", "value", "policy %q: want the name of a user flow or custom policy, such as B2C_1_sign_in", c.Policy))
	}
	return wrong
}

// isB2C reports whether an issuer is of the host of the directory: /<id>/v2.0/, or with the policy behind /tfp/<id>/.
// The metadata say which id it is. They come from an address with the name of the directory.
func (c Config) isB2C(iss string) bool {
	rest, ok := strings.CutPrefix(iss, c.Issuer+"/")
	if !ok {
		return false
	}
	if inner, tfp := strings.CutPrefix(rest, "tfp/"); tfp {
		id, policy, found := strings.Cut(strings.TrimSuffix(inner, "/v2.0/"), "/")
		return found && strings.HasSuffix(inner, "/v2.0/") && isTenantID(id) && strings.EqualFold(policy, c.Policy)
	}
	id, v2 := strings.CutSuffix(rest, "/v2.0/")
	return v2 && isTenantID(id)
}

// b2cIssuer compares the policy: all policies of a directory share the issuer, the keys and the client id, and one of
// them may let people in by less than another.
func (c Config) b2cIssuer(claims object) (string, error) {
	iss, err := claims.Text("iss")
	if err != nil {
		return "", errIssuer
	}
	said := 0
	for _, name := range []string{"tfp", "acr"} { // acr in the tokens of older policies
		policy, err := claims.Text(name)
		if err != nil || policy != "" && !strings.EqualFold(policy, c.Policy) {
			return "", errPolicy
		}
		if policy != "" {
			said++
		}
	}
	if said == 0 {
		return "", errPolicy
	}
	return iss, nil
}
