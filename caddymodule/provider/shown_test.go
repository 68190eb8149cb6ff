package provider

import (
	"encoding/json"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/idp/oauth2"
	"github.com/gatehouse-id/gatehouse/idp/oidc"
	"github.com/gatehouse-id/gatehouse/internal/secret"
)

// TestShownMeansTheSame: the configuration API shows a provider of the Caddyfile as a login method, of which the same
// provider would be made.
func TestShownMeansTheSame(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "metadata.xml")
	if err := os.WriteFile(file, []byte(`<EntityDescriptor xmlns="urn:oasis:names:tc:SAML:2.0:metadata" entityID="urn:x:partner"/>`),
		0o600); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		block, kind string
		of          string // the type that is shown
	}{
		"saml": {`level 2
			map mail email
			map sn family_name
			metadata https://partner.example.com/metadata
			client_key backchannel
			authn_context minimum urn:x:strong urn:x:weak
			map_level urn:x:strong 3
			map_level urn:x:weak 2`, "saml", settings.TypeSAML},
		"saml by a file":       {"metadata " + file, "saml", settings.TypeSAML},
		"saml with levels":     {"metadata https://partner.example.com/metadata\nlevel 3\nmap_level urn:x:weak 1", "saml", settings.TypeSAML},
		"saml without a level": {"metadata https://partner.example.com/metadata\nauthn_context exact urn:x:any", "saml", settings.TypeSAML},
		"digid": {
			"metadata https://digid.example.com/metadata\nscheme digid substantial\nclient_key digid\nmap bsn bsn",
			"saml", settings.TypeDigiD,
		},
		"etoegang": {"metadata https://broker.example.com/metadata\nscheme etoegang low_plus " + eidasProduction +
			"\nentity_id urn:x:us\nsign ours\ndecrypt theirs", "saml", settings.TypeEIDAS},
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
			front_channel_logout`, "oidc", settings.TypeOIDC},
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
			}`, "oidc", settings.TypeOIDC},
		"ldap": {`level 3
			map mail email
			url ldaps://one.example.com ldaps://two.example.com
			bind cn=reader,dc=example,dc=com secret-of-reader
			base dc=example,dc=com
			match (uid=%s)
			networks 10.0.0.0/8 192.0.2.7
			attributes mail cn`, "ldap", settings.TypeLDAP},
		"google":    {"client_id gatehouse\nclient_secret secret-of-google\nmap name name\nlevel 2", "google", settings.TypeGoogle},
		"microsoft": {"client_id gatehouse\nclient_secret secret-of-microsoft", "microsoft", settings.TypeMicrosoft},
		"azure_ad_b2c": {
			"tenant contoso\npolicy B2C_1_signin\nclient_id gatehouse\nclient_secret secret-of-azure\nfront_channel_logout",
			"azure_ad_b2c", settings.TypeAzureADB2C,
		},
		"apple": {
			"client_id com.example.gatehouse\nteam_id ABCDE12345\nkey_id KEY1234567\nkey apple\nscopes name email",
			"apple", settings.TypeApple,
		},
		"itsme": {
			"client_id gatehouse\nservice_code LOGIN\nsecurity_level advanced\nclaims eid birthdate\nmetadata_expiration 1h\nlevel 2",
			"itsme", settings.TypeItsme,
		},
		"facebook": {"client_id gatehouse\nclient_secret secret-of-facebook\nlevel 2", "facebook", settings.TypeFacebook},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := parsed(t, tt.kind, tt.block)
			s := NewSet(nil)
			s.Add("partner", p)
			m := settings.LoginMethod{ID: "partner", Type: methodTypes[tt.kind]}
			s.Shown("partner", &m)
			if m.Type != tt.of {
				t.Errorf("type = %q, want %q", m.Type, tt.of)
			}
			want, got := meant(t, p), made(t, &m)
			if diff := cmp.Diff(want, got, cmp.AllowUnexported(secret.String{}), cmp.Comparer(func(a, b netip.Prefix) bool { return a == b }),
				cmpopts.IgnoreUnexported(oauth2.Config{})); diff != "" {
				t.Errorf("a provider of the method as it is shown differs (-Caddyfile +method):\n%s", diff)
			}
			if text, err := json.Marshal(m); err != nil || strings.Contains(string(text), "secret-of") {
				t.Errorf("a secret is shown: %s, %v", text, err)
			}
		})
	}
}

// parsed returns a provider as the Caddyfile declares it.
func parsed(t *testing.T, kind, block string) IDP {
	t.Helper()
	info, err := caddy.GetModule(Namespace + "." + kind)
	if err != nil {
		t.Fatal(err)
	}
	p := info.New().(IDP)
	if err := p.(caddyfile.Unmarshaler).UnmarshalCaddyfile(caddyfile.NewTestDispenser(kind + " {\n" + block + "\n}")); err != nil {
		t.Fatal(err)
	}
	return p
}

// meant is the configuration of a provider without what a login method never shows.
func meant(t *testing.T, p IDP) any {
	t.Helper()
	switch p := p.(type) {
	case *SAMLIDP:
		c := p.cfg
		if raw, err := os.ReadFile(c.Metadata); err == nil {
			c.Metadata = string(raw)
		}
		if c.AuthnContext != nil && c.Levels == nil { // a method has a level for each class
			c.Levels = map[string]int{}
			for _, class := range c.AuthnContext.Classes {
				c.Levels[class] = max(1, c.Level)
			}
		}
		return c
	case *OIDCIDP:
		return withoutSecret(p.cfg)
	case *GoogleIDP:
		return withoutSecret(p.cfg)
	case *MicrosoftIDP:
		return withoutSecret(p.cfg)
	case *AzureADB2CIDP:
		return withoutSecret(p.cfg)
	case *AppleIDP:
		return withoutSecret(p.cfg)
	case *ItsmeIDP:
		return withoutSecret(p.cfg)
	case *FacebookIDP:
		c := p.cfg
		c.ClientSecret = secret.String{}
		return c
	case *LDAPIDP:
		c := p.cfg
		c.BindPassword = secret.String{}
		return c
	}
	t.Fatalf("%T", p)
	return nil
}

func withoutSecret(c oidc.Config) oidc.Config {
	c.ClientSecret = secret.String{}
	return c
}

// made is the configuration of the provider that a login method makes.
func made(t *testing.T, m *settings.LoginMethod) any {
	t.Helper()
	if c, ok := samlMethod(m); ok {
		c.NoFiles = false
		return c
	}
	if c, ok := openID(m); ok {
		return c
	}
	if m.Type == settings.TypeLDAP {
		return ldapMethod(m)
	}
	return socialMethod(m)
}
