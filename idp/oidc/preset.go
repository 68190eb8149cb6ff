package oidc

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/gatehouse-id/gatehouse/idp"
)

// The presets: providers whose rules go beyond OpenID Connect, or fall short of it.
const (
	Google     = "google"
	Microsoft  = "microsoft"
	AzureADB2C = "azure_ad_b2c"
	Apple      = "apple"
	Itsme      = "itsme"
)

const (
	googleIssuer     = "https://accounts.google.com"
	microsoftIssuer  = "https://login.microsoftonline.com"
	tenantOfMSA      = "9188040d-6c67-4c5b-b112-36a304b66dad" // of all personal accounts
	anyTenant        = "{tenantid}"                           // stands for the tenant in metadata and keys
	tenantOfAll      = "common"
	tenantOfOrgs     = "organizations"
	tenantOfPersonal = "consumers"

	maxNamed = 100 // tenants or domains

	claimHostedDomain = "hd"
	claimTenant       = "tid"
	claimEmail        = "email"
)

var (
	errIssuer = errors.New("iss is not the provider")
	errTenant = errors.New("tid is not a tenant whose people can sign in")

	isTenantID = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`).MatchString
	isDomain   = regexp.MustCompile(`^([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z]{2,63}$`).MatchString
)

// presetDefaults fills in what is known of a provider.
func (c Config) presetDefaults() Config {
	switch c.Preset {
	case Google:
		c.Issuer = cmp.Or(c.Issuer, googleIssuer)
	case Microsoft:
		c.Tenant = cmp.Or(c.Tenant, tenantOfAll)
		if isTenantID(strings.ToLower(c.Tenant)) {
			c.Tenant = strings.ToLower(c.Tenant)
		}
		c.Tenants = lower(c.Tenants)
		c.Issuer = strings.TrimSuffix(cmp.Or(c.Issuer, microsoftIssuer), "/") + "/" + c.Tenant + "/v2.0"
		c.IdentifyBy = cmp.Or(c.IdentifyBy, "oid") // the same in all applications of a tenant
	case AzureADB2C:
		return c.b2cDefaults()
	case Apple:
		return c.appleDefaults()
	case Itsme:
		return c.itsmeDefaults()
	default:
		return c
	}
	c.HostedDomains = lower(c.HostedDomains)
	if len(c.Scopes) == 0 {
		c.Scopes = []string{"openid", "profile", claimEmail}
	}
	return c
}

func lower(list []string) (out []string) {
	for _, s := range list {
		out = append(out, strings.ToLower(s))
	}
	return out
}

// validatePreset returns what is wrong with the options of presets.
func (c Config) validatePreset() (wrong []error) {
	add := func(format string, args ...any) { wrong = append(wrong, fmt.Errorf(format, args...)) }
	if !slices.Contains([]string{"", Google, Microsoft, AzureADB2C, Apple, Itsme}, c.Preset) {
		add("there is no preset %q", c.Preset)
	}
	if len(c.HostedDomains) > 0 && c.Preset != Google {
		add("hosted_domain is for Google")
	}
	if len(c.HostedDomains) > maxNamed || len(c.Tenants) > maxNamed {
		add("hosted_domain, tenants: at most %d", maxNamed)
	}
	for _, d := range c.HostedDomains {
		if !isDomain(d) {
			add("hosted_domain %q: want a domain of Google Workspace, such as example.com", d)
		}
	}
	if c.Preset != Apple && (c.TeamID != "" || c.JWKSURL != "") {
		add("team_id, jwks_uri: they are for Apple")
	}
	if c.Preset != Itsme && (c.ServiceCode != "" || c.SecurityLevel != "") {
		add("service_code, security_level: they are for itsme")
	}
	switch c.Preset {
	case AzureADB2C:
		return append(wrong, c.validateB2C()...)
	case Apple:
		wrong = append(wrong, c.validateApple()...)
	case Itsme:
		wrong = append(wrong, c.validateItsme()...)
	}
	if c.Policy != "" || c.PolicyInQuery {
		add("policy: it is for Azure AD B2C")
	}
	if c.Preset != Microsoft {
		if c.Tenant != "" || len(c.Tenants) > 0 {
			add("tenant, tenants: they are for Microsoft")
		}
		return wrong
	}
	several := c.Tenant == tenantOfAll || c.Tenant == tenantOfOrgs
	if !several && c.Tenant != tenantOfPersonal && !isTenantID(c.Tenant) {
		add("tenant %q: want common, organizations, consumers or the id of a tenant, such as 72f988bf-86f1-41af-91ab-2d7cd011db47", c.Tenant)
	}
	if len(c.Tenants) > 0 && !several {
		add("tenants: they choose among those of the tenant common or organizations")
	}
	for _, t := range c.Tenants {
		if !isTenantID(t) {
			add("tenants %q: want ids of tenants, such as 72f988bf-86f1-41af-91ab-2d7cd011db47", t)
		}
	}
	return wrong
}

// fitsMetadata reports whether metadata of this issuer are those of the provider. (OpenID Connect Discovery 4.3:
// exactly the one that was asked. At Microsoft it names another place than the address: the tenant's id, or a stand-in
// for it.)
func (c Config) fitsMetadata(issuer string) bool {
	if c.Preset == AzureADB2C {
		return c.isIssuer(issuer)
	}
	if c.Preset != Microsoft {
		return issuer == c.Issuer
	}
	want := c.Tenant
	switch c.Tenant {
	case tenantOfAll, tenantOfOrgs:
		want = anyTenant
	case tenantOfPersonal:
		want = tenantOfMSA
	}
	return issuer == c.ofTenant(want)
}

// ofTenant is the issuer of a tenant.
func (c Config) ofTenant(id string) string {
	return strings.TrimSuffix(c.Issuer, "/"+c.Tenant+"/v2.0") + "/" + id + "/v2.0"
}

// isIssuer reports whether the provider can name itself so.
func (c Config) isIssuer(iss string) bool {
	switch c.Preset {
	case Google: // "Verifying the Google ID token": with the scheme or without
		_, bare, _ := strings.Cut(c.Issuer, "://")
		return iss == c.Issuer || iss == bare
	case Microsoft:
		before, after, found := strings.Cut(c.ofTenant(anyTenant), anyTenant)
		id, ok := strings.CutPrefix(iss, before)
		id, rest := strings.CutSuffix(id, after)
		return found && ok && rest && isTenantID(id)
	case AzureADB2C:
		return c.isB2C(iss)
	}
	return iss == c.Issuer
}

// issuerOf returns the issuer in the sense of an identity: the same text for the same provider, and another one for
// each tenant.
func (c Config) issuerOf(claims object) (string, error) {
	iss, err := claims.Text("iss")
	if err != nil || !c.isIssuer(iss) {
		return "", errIssuer
	}
	switch c.Preset {
	case Google:
		return c.Issuer, nil
	case Microsoft:
		// learn.microsoft.com, "Secure applications and APIs by validating claims": tid and iss must agree
		tid, err := claims.Text(claimTenant)
		if err != nil || !isTenantID(tid) || iss != c.ofTenant(tid) {
			return "", errors.New("tid and iss do not agree")
		}
		if !c.admitsTenant(tid) {
			return "", errTenant
		}
	case AzureADB2C:
		return c.b2cIssuer(claims)
	}
	return iss, nil
}

func (c Config) admitsTenant(tid string) bool {
	switch {
	case len(c.Tenants) > 0:
		return slices.Contains(c.Tenants, tid)
	case c.Tenant == tenantOfAll:
		return true
	case c.Tenant == tenantOfOrgs:
		return tid != tenantOfMSA
	case c.Tenant == tenantOfPersonal:
		return tid == tenantOfMSA
	}
	return tid == c.Tenant
}

// keyFits reports whether a key may sign for the issuer in claims. Microsoft publishes the keys of all tenants
// together, and says for each whose it is. (learn.microsoft.com, "Validate the signing key issuer")
func (c Config) keyFits(of string, claims object) bool {
	if c.Preset != Microsoft || of == "" {
		return true
	}
	iss, err := claims.Text("iss")
	tid, _ := claims.Text(claimTenant)
	return err == nil && strings.ReplaceAll(of, anyTenant, tid) == iss
}

// judgePerson checks the claims by which the operator chooses whose people can sign in.
func (c Config) judgePerson(claims object) error {
	if c.Preset == Itsme {
		return c.judgeAcr(claims)
	}
	if len(c.HostedDomains) == 0 {
		return nil
	}
	// hd in the request only preselects accounts: anyone can take it out of the address.
	hd, err := claims.Text(claimHostedDomain)
	if err != nil || !slices.Contains(c.HostedDomains, strings.ToLower(hd)) {
		return &idp.Rejection{Reason: "the account does not belong to a domain of hosted_domain (hd)"}
	}
	return nil
}

// refuses tells what a provider would not understand, before the browser is sent there. The provider would show a page
// of its own, from which no one comes back.
func (c Config) refuses(q idp.Request) error {
	if c.Preset == Google && !q.Passive && (q.Force || q.MaxAge >= 0) {
		return &idp.Rejection{Reason: "Google does not say when a person signed in"}
	}
	if q.Passive && (c.Preset == Apple || c.Preset == Itsme) {
		return &idp.Rejection{Reason: "the provider signs no one in without asking", Passive: true}
	}
	return nil
}

// presetParameters adds what a provider has beyond OpenID Connect.
func (c Config) presetParameters(v url.Values) {
	if c.SelectAccount && !v.Has("prompt") {
		v.Set("prompt", "select_account")
	}
	switch c.Preset {
	case Apple: // which has none of them; auth_time is checked all the same
		v.Del("prompt")
		v.Del("max_age")
	case Itsme:
		c.askAcr(v)
	}
	switch len(c.HostedDomains) {
	case 0:
	case 1:
		v.Set(claimHostedDomain, c.HostedDomains[0])
	default:
		v.Set(claimHostedDomain, "*")
	}
}

// settleEmail decides what an address in the claims is worth. fromToken are the claims of the ID token. claimed: no one
// has checked the address, and not even the operator can vouch for it. private: it is an address that only this
// provider gives the person.
func (c Config) settleEmail(claims, fromToken object) (verified, claimed, private bool) {
	verified = claims.Truth(claimVerified, c.EmailVerifiedStrings)
	switch c.Preset {
	case Google:
		// "Verifying the Google ID token": an address of another provider was checked when the account was made, and may
		// be another person's by now.
		mail, _ := claims.Text(claimEmail)
		hd, _ := fromToken.Text(claimHostedDomain)
		_, domain, _ := strings.Cut(strings.ToLower(mail), "@")
		verified = verified && (hd != "" || domain == "gmail.com" || domain == "googlemail.com")
	case Microsoft:
		// The administrators of a tenant write what they like into email and preferred_username. Only xms_edov says that
		// the domain is the tenant's.
		mail, err := fromToken.Text(claimEmail)
		verified = err == nil && mail != "" && mail == claims[claimEmail] && isYes(fromToken["xms_edov"])
		claimed = !verified && !isTenantID(c.Tenant)
	case Apple: // a boolean or its text, in the ID token
		verified, private = fromToken.Truth(claimVerified, true), isRelay(fromToken)
	}
	return verified, claimed, private
}

// isYes reads xms_edov, which is written in several ways.
func isYes(v any) bool {
	s := fmt.Sprint(v)
	return v == true || s == "1" || s == "true"
}
