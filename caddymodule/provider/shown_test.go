package provider_test

import (
	"encoding/json"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/gatehouse-id/gatehouse/caddymodule/provider"
	"github.com/gatehouse-id/gatehouse/caddymodule/provider/loginmethod"
	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/idp"
	"github.com/gatehouse-id/gatehouse/idp/ldap"
	"github.com/gatehouse-id/gatehouse/idp/oauth2"
	"github.com/gatehouse-id/gatehouse/idp/oidc"
	"github.com/gatehouse-id/gatehouse/idp/saml"
	"github.com/gatehouse-id/gatehouse/internal/secret"
)

// TestShownMeansTheSame: the configuration API shows a provider of the Caddyfile as a login method, of which the same
// provider would be made.
func TestShownMeansTheSame(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "metadata.xml")
	const inFile = `<EntityDescriptor xmlns="urn:oasis:names:tc:SAML:2.0:metadata" entityID="urn:x:partner"/>`
	if err := os.WriteFile(file, []byte(inFile), 0o600); err != nil {
		t.Fatal(err)
	}
	const metadata = "https://partner.example.com/metadata"
	mapping := func(pairs ...string) (m idp.Mapping) {
		for pair := range slices.Chunk(pairs, 2) {
			m.Attributes = append(m.Attributes, idp.Attribute{From: pair[0], To: pair[1]})
		}
		return m
	}
	for name, tt := range map[string]struct {
		block, kind string
		of          string // the type that is shown
		means       any    // the configuration that a method of this type makes, without secrets
	}{
		"saml": {`level 2
			map mail email
			map sn family_name
			metadata https://partner.example.com/metadata
			client_key backchannel
			authn_context minimum urn:x:strong urn:x:weak
			map_level urn:x:strong 3
			map_level urn:x:weak 2`, "saml", settings.TypeSAML, saml.Config{
			Level: 2, Mapping: mapping("mail", "email", "sn", "family_name"), Metadata: metadata, ClientKey: "backchannel",
			AuthnContext: &saml.AuthnContext{Comparison: "minimum", Classes: []string{"urn:x:strong", "urn:x:weak"}},
			Levels:       map[string]int{"urn:x:strong": 3, "urn:x:weak": 2},
		}},
		"saml by a file": {"metadata " + file, "saml", settings.TypeSAML, saml.Config{Metadata: inFile}},
		"saml with levels": {
			"metadata " + metadata + "\nlevel 3\nmap_level urn:x:weak 1", "saml", settings.TypeSAML,
			saml.Config{Metadata: metadata, Level: 3, Levels: map[string]int{"urn:x:weak": 1}},
		},
		"saml without a level": { // a method has a level for each class
			"metadata " + metadata + "\nauthn_context exact urn:x:any", "saml", settings.TypeSAML,
			saml.Config{
				Metadata: metadata, AuthnContext: &saml.AuthnContext{Comparison: "exact", Classes: []string{"urn:x:any"}},
				Levels: map[string]int{"urn:x:any": 1},
			},
		},
		"digid": {
			"metadata https://digid.example.com/metadata\nscheme digid substantial\nclient_key digid\nmap bsn bsn",
			"saml", settings.TypeDigiD,
			saml.Config{
				Metadata: "https://digid.example.com/metadata", Scheme: saml.DigiD, Assurance: "substantial", ClientKey: "digid",
				Mapping: mapping("bsn", "bsn"),
			},
		},
		"etoegang": {
			"metadata https://broker.example.com/metadata\nscheme etoegang low_plus " + loginmethod.EIDASProduction +
				"\nentity_id urn:x:us\nsign ours\ndecrypt theirs", "saml", settings.TypeEIDAS,
			saml.Config{
				Metadata: "https://broker.example.com/metadata", Scheme: saml.EToegang, Assurance: "low_plus", Via: loginmethod.EIDASProduction,
				EntityID: "urn:x:us", Sign: []string{"ours"}, Decrypt: []string{"theirs"},
			},
		},
		"oidc": {`level 2
			map mail email
			issuer https://corp.example.com
			client_id gatehouse
			auth_method private_key_jwt
			key ours
			scopes openid email
			claims "{\"id_token\":{\"acr\":null,\"mail\":null},\"userinfo\":{\"acr\":null,\"mail\":null}}"
			metadata_expiration 2h
			id_token_encryption_required
			user_info_encryption_required
			front_channel_logout`, "oidc", settings.TypeOIDC, oidc.Config{
			Level: 2, Mapping: mapping("mail", "email"), Issuer: "https://corp.example.com", ClientID: "gatehouse",
			AuthMethod: oidc.AuthPrivateKey, Key: "ours", Scopes: []string{"openid", "email"},
			Claims:             json.RawMessage(`{"id_token":{"acr":null,"mail":null},"userinfo":{"acr":null,"mail":null}}`),
			MetadataExpiration: 2 * time.Hour, IDTokenEncryptionRequired: true, UserInfoEncryptionRequired: true, FrontChannelLogout: true,
		}},
		"oidc with addresses": {`issuer https://corp.example.com
			client_id gatehouse
			client_secret secret-of-corp
			auth_method basic
			metadata {
				authorization_url https://corp.example.com/authorize
				token_url https://corp.example.com/token
				user_info_url https://corp.example.com/userinfo
				jwks_url https://corp.example.com/jwks
				end_session_url https://corp.example.com/end
			}`, "oidc", settings.TypeOIDC, oidc.Config{
			Issuer: "https://corp.example.com", ClientID: "gatehouse", AuthMethod: oidc.AuthBasic, Metadata: oidc.Metadata{
				AuthorizationURL: "https://corp.example.com/authorize", TokenURL: "https://corp.example.com/token",
				UserInfoURL: "https://corp.example.com/userinfo", JWKSURL: "https://corp.example.com/jwks",
				EndSessionURL: "https://corp.example.com/end",
			},
		}},
		"ldap": {`level 3
			map mail email
			url ldaps://one.example.com ldaps://two.example.com
			bind cn=reader,dc=example,dc=com secret-of-reader
			base dc=example,dc=com
			match (uid=%s)
			networks 10.0.0.0/8 192.0.2.7
			attributes mail cn`, "ldap", settings.TypeLDAP, ldap.Config{
			Level: 3, Mapping: mapping("mail", "email"), URLs: []string{"ldaps://one.example.com", "ldaps://two.example.com"},
			BindDN: "cn=reader,dc=example,dc=com", Base: "dc=example,dc=com", Match: "(uid=%s)",
			Networks:   []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("192.0.2.7/32")},
			Attributes: []string{"mail", "cn"},
		}},
		"google": {
			"client_id gatehouse\nclient_secret secret-of-google\nmap name name\nlevel 2", "google", settings.TypeGoogle,
			oidc.Config{Preset: oidc.Google, ClientID: "gatehouse", Mapping: mapping("name", "name"), Level: 2},
		},
		"microsoft": {
			"client_id gatehouse\nclient_secret secret-of-microsoft", "microsoft", settings.TypeMicrosoft,
			oidc.Config{Preset: oidc.Microsoft, ClientID: "gatehouse"},
		},
		"azure_ad_b2c": {
			"tenant contoso\npolicy B2C_1_signin\nclient_id gatehouse\nclient_secret secret-of-azure\nfront_channel_logout",
			"azure_ad_b2c", settings.TypeAzureADB2C,
			oidc.Config{Preset: oidc.AzureADB2C, Tenant: "contoso", Policy: "B2C_1_signin", ClientID: "gatehouse", FrontChannelLogout: true},
		},
		"apple": {
			"client_id com.example.gatehouse\nteam_id ABCDE12345\nkey_id KEY1234567\nkey apple\nscopes name email",
			"apple", settings.TypeApple,
			oidc.Config{
				Preset: oidc.Apple, ClientID: "com.example.gatehouse", TeamID: "ABCDE12345", KeyID: "KEY1234567", Key: "apple",
				Scopes: []string{"name", "email"},
			},
		},
		"itsme": {
			"client_id gatehouse\nservice_code LOGIN\nsecurity_level advanced\nclaims eid birthdate\nmetadata_expiration 1h\nlevel 2",
			"itsme", settings.TypeItsme,
			oidc.Config{
				Preset: oidc.Itsme, ClientID: "gatehouse", ServiceCode: "LOGIN", SecurityLevel: oidc.ItsmeAdvanced,
				Claims: oidc.ClaimsParameter([]string{"birthdate", "eid"}), MetadataExpiration: time.Hour, Level: 2,
			},
		},
		"facebook": {
			"client_id gatehouse\nclient_secret secret-of-facebook\nlevel 2", "facebook", settings.TypeFacebook,
			oauth2.Config{Preset: oauth2.Facebook, ClientID: "gatehouse", Level: 2},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := provider.NewSet(caddy.ModuleMap{"partner": json.RawMessage(`{"module":"` + tt.kind + `"}`)})
			s.Add("partner", parsed(t, tt.kind, tt.block))
			m := settings.LoginMethod{ID: "partner", Type: s.MethodType("partner")}
			s.Shown("partner", &m)
			if m.Type != tt.of {
				t.Errorf("type = %q, want %q", m.Type, tt.of)
			}
			if diff := cmp.Diff(tt.means, made(&m), cmp.AllowUnexported(secret.String{}),
				cmp.Comparer(func(a, b netip.Prefix) bool { return a == b }), cmpopts.IgnoreUnexported(oauth2.Config{})); diff != "" {
				t.Errorf("a provider of the method as it is shown differs (-Caddyfile +method):\n%s", diff)
			}
			if text, err := json.Marshal(m); err != nil || strings.Contains(string(text), "secret-of") {
				t.Errorf("a secret is shown: %s, %v", text, err)
			}
		})
	}
}

// parsed returns a provider as the Caddyfile declares it.
func parsed(t *testing.T, kind, block string) provider.IDP {
	t.Helper()
	info, err := caddy.GetModule(provider.Namespace + "." + kind)
	if err != nil {
		t.Fatal(err)
	}
	p := info.New().(provider.IDP)
	if err := p.(caddyfile.Unmarshaler).UnmarshalCaddyfile(caddyfile.NewTestDispenser(kind + " {\n" + block + "\n}")); err != nil {
		t.Fatal(err)
	}
	return p
}

// made returns the configuration of the provider that a login method makes.
func made(m *settings.LoginMethod) any {
	if c, ok := loginmethod.SAML(m); ok {
		c.NoFiles = false
		return c
	}
	if c, ok := loginmethod.OpenID(m); ok {
		return c
	}
	if m.Type == settings.TypeLDAP {
		return loginmethod.LDAP(m)
	}
	c, _ := loginmethod.OAuth2(m)
	return c
}
