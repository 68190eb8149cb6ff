package caddymodule_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"errors"
	"maps"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/go-jose/go-jose/v4"

	"github.com/gatehouse-id/gatehouse/caddymodule/internal/reference"
	"github.com/gatehouse-id/gatehouse/caddymodule/servertest"
	"github.com/gatehouse-id/gatehouse/caddymodule/shared"
	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage/badgerstore"
)

// parties is a configuration in which every party has a file of its own.
func parties(s *servertest.Server) map[string]string {
	files := map[string]string{}
	for _, name := range []string{
		"sp.xml", "idp.xml", "federation.pem", "http.keytab", "ca.pem", "logo.png", "icon.png",
		"jwks.json", "issuer.json",
	} {
		files[name] = filepath.Join(s.Dir, name)
	}
	files["de.json"] = filepath.Join(s.Dir, "ext", "de.json")
	s.InIdentity = "extension " + filepath.Join(s.Dir, "ext")
	s.Extra = `
		service_provider wiki {
			metadata ` + files["sp.xml"] + `
		}
		idp partner saml {
			metadata ` + files["idp.xml"] + `
			metadata_certificate ` + files["federation.pem"] + `
			icon ` + files["icon.png"] + `
		}
		idp desk kerberos {
			keytab ` + files["http.keytab"] + `
		}
		idp directory ldap {
			url ldaps://localhost:1
			ca ` + files["ca.pem"] + `
			template uid=%s,dc=example,dc=com
		}
		client shop {
			auth_method private_key_jwt
			grants client_credentials
			scopes orders.read
			logo ` + files["logo.png"] + `
			jwks ` + files["jwks.json"] + `
		}
		client build {
			auth_method workload
			grants client_credentials
			scopes orders.read
		}
		trust_issuer https://ci.example.com {
			match sub repo:example
			client build
			jwks ` + files["issuer.json"] + `
		}
	`
	return files
}

// spMetadata is metadata of a service provider that is valid until some time.
func spMetadata(until time.Time) string {
	return `<EntityDescriptor xmlns="urn:oasis:names:tc:SAML:2.0:metadata" entityID="https://wiki.example.com/saml" validUntil="` +
		until.UTC().Format(time.RFC3339) + `">` +
		`<SPSSODescriptor protocolSupportEnumeration="urn:oasis:names:tc:SAML:2.0:protocol"><AssertionConsumerService Binding="urn:oasis:names:tc:SAML:2.0:bindings:HTTP-POST" ` +
		`Location="https://wiki.example.com/acs" index="0"/></SPSSODescriptor></EntityDescriptor>`
}

// TestFaultOfOneParty: a file that is missing or broken is a fault of the one whose file it is. The server starts,
// it is reloaded, everybody else is served, and check names the one.
func TestFaultOfOneParty(t *testing.T) {
	for _, state := range []string{"missing", "broken"} {
		t.Run(state, func(t *testing.T) {
			s := servertest.NewServer(t)
			files := parties(s)
			if err := os.MkdirAll(filepath.Join(s.Dir, "ext"), 0o700); err != nil {
				t.Fatal(err)
			}
			if state == "broken" {
				for _, file := range files {
					if err := os.WriteFile(file, []byte("<html>not what it should be"), 0o600); err != nil {
						t.Fatal(err)
					}
				}
			}
			for _, when := range []string{"start", "reload"} {
				s.MustLoad()
				if res, body := s.Get("/healthz"); res.StatusCode != http.StatusOK {
					t.Errorf("after the %s: /healthz = %d %s", when, res.StatusCode, body)
				}
				if got := s.Enters(s.Token()); got != http.StatusOK {
					t.Errorf("after the %s: the API answers %d to another client", when, got)
				}
				for _, about := range []string{
					"service_provider wiki", "idp partner", "idp desk", "idp directory", "client shop: logo",
					"client shop: jwks", "trust_issuer https://ci.example.com: jwks",
				} {
					s.WantFinding("warning", "Caddyfile:", about)
				}
				if state == "broken" {
					s.WantFinding("warning", "Caddyfile:", "identity: extension", "de.json")
				}
			}
			if _, metrics := s.Do(s.Request(http.MethodGet, "http://"+s.Admin+"/metrics", nil)); !strings.Contains(metrics,
				`gatehouse_party_warnings{id="wiki",kind="service_provider"} 1`) {
				t.Error("the metrics do not have a warning about the service provider wiki")
			}
		})
	}
}

// fault is an input from outside of the configuration that is wrong.
type fault struct {
	name string
	file string // which is missing, and then broken, below the directory of the server. Empty: neither
	// extra and identity are options of gatehouse and of identity that name it: $DIR is the directory.
	extra, identity string
	want            string // of the finding. Empty: nothing is known before someone asks for it
	about           string // the options that the fault is about, as block: option, several with a comma
}

var faults = []fault{
	{
		"metadata of a service provider", "sp.xml", "service_provider wiki {\n metadata $DIR/sp.xml\n}", "", "service_provider wiki",
		"service_provider <id>: metadata",
	},
	{
		"address of metadata of a service provider", "", "service_provider wiki {\n metadata http://localhost:1/metadata\n}", "",
		"service_provider wiki",
		"service_provider <id>: metadata",
	},
	{
		"addresses in metadata of a service provider", "", "service_provider wiki {\n metadata $DIR/addresses.xml\n}", "",
		"service_provider wiki", "service_provider <id>: metadata",
	},
	{
		"address for sign-outs in metadata of a service provider", "", "service_provider wiki {\n metadata $DIR/logout.xml\n}", "",
		"service_provider wiki", "service_provider <id>: metadata",
	},
	{
		"certificate for metadata of a service provider", "by.pem",
		"service_provider wiki {\n metadata $DIR/good.xml\n metadata_certificate $DIR/by.pem\n}", "", "service_provider wiki",
		"service_provider <id>: metadata_certificate",
	},
	{
		"key pair for service providers", "", "saml_sign nowhere\nservice_provider wiki {\n metadata $DIR/good.xml\n}", "",
		"no one can sign in at any service provider", "gatehouse: saml_sign",
	},
	{
		"metadata of an identity provider", "idp.xml", "idp partner saml {\n metadata $DIR/idp.xml\n}", "", "idp partner",
		"idp <id> saml: metadata",
	},
	{"address of metadata", "", "idp partner saml {\n metadata http://localhost:1/metadata\n}", "", "idp partner", "idp <id> saml: metadata"},
	{
		"certificate for metadata of an identity provider", "by.pem",
		"idp partner saml {\n metadata http://localhost:1/metadata\n metadata_certificate $DIR/by.pem\n}", "", "idp partner",
		"idp <id> saml: metadata_certificate",
	},
	{
		"key pair of an identity provider", "", "idp partner saml {\n metadata http://localhost:1/metadata\n sign nowhere\n}", "",
		"idp partner: a key pair cannot be used", "idp <id> saml: sign",
	},
	{
		"key pair that decrypts for SAML", "", "idp partner saml {\n metadata http://localhost:1/metadata\n decrypt nowhere\n}", "",
		"idp partner: a key pair cannot be used", "idp <id> saml: decrypt",
	},
	{
		"key pair of the back channel", "", "idp partner saml {\n metadata http://localhost:1/metadata\n artifact\n client_key nowhere\n}", "",
		"idp partner: a key pair cannot be used", "idp <id> saml: client_key",
	},
	{
		"certificate of the back channel", "",
		"idp partner saml {\n metadata http://localhost:1/metadata\n artifact\n server_certificate nowhere\n}", "",
		"idp partner: a key pair cannot be used", "idp <id> saml: server_certificate",
	},
	{
		"icon of an identity provider", "icon.png", "idp partner saml {\n metadata http://localhost:1/metadata\n icon $DIR/icon.png\n}", "",
		"idp partner", "idp <id> *: icon",
	},
	{"address of an issuer", "", "idp corp oidc {\n issuer http://localhost:1\n client_id x\n client_secret the-secret-of-gatehouse-at-that-issuer\n}", "", "corp", "idp <id> oidc: issuer"},
	{
		"key pair that signs for OpenID", "",
		"idp corp oidc {\n issuer http://localhost:1\n client_id x\n auth_method private_key_jwt\n key nowhere\n}", "",
		"idp corp: a key pair cannot be used", "idp <id> oidc: key",
	},
	{
		"key pair that decrypts for OpenID", "",
		"idp corp oidc {\n issuer http://localhost:1\n client_id x\n client_secret the-secret-of-gatehouse-at-that-issuer\n decrypt nowhere\n}",
		"", "idp corp: a key pair cannot be used", "idp <id> oidc: decrypt",
	},
	{
		"addresses of an OpenID provider", "",
		"idp corp oidc {\n issuer http://localhost:1\n client_id x\n client_secret the-secret-of-gatehouse-at-that-issuer\n metadata {\n  authorization_url http://localhost:1/a\n  token_url http://localhost:1/t\n" +
			"  jwks_url http://localhost:1/k\n  user_info_url http://localhost:1/u\n  end_session_url http://localhost:1/e\n }\n}", "", "",
		"metadata: authorization_url, metadata: token_url, metadata: jwks_url, metadata: user_info_url, metadata: end_session_url",
	},
	{
		"key pair of Apple", "", "idp apple apple {\n client_id com.example.auth\n team_id ABCDE12345\n key_id FGHIJ67890\n key nowhere\n issuer http://localhost:1\n jwks_uri http://localhost:1/keys\n}", "", "idp apple: a key pair cannot be used",
		"idp <id> apple: key, idp <id> apple: issuer, idp <id> apple: jwks_uri",
	},
	{
		"file for Apple", "domain.txt",
		"idp apple apple {\n client_id com.example.auth\n team_id ABCDE12345\n key_id FGHIJ67890\n key nowhere\n issuer http://localhost:1\n domain_verification_file $DIR/domain.txt\n}", "", "idp apple",
		"idp <id> apple: domain_verification_file",
	},
	{
		"key pair and addresses of itsme", "",
		"idp itsme itsme {\n client_id gatehouse\n service_code MY_LOGIN\n key nowhere\n issuer http://localhost:1\n discovery_url http://localhost:1/metadata\n}", "", "idp itsme",
		"idp <id> itsme: key, idp <id> itsme: issuer, idp <id> itsme: discovery_url",
	},
	{
		"address of Azure AD B2C", "",
		"idp customers azure_ad_b2c {\n tenant contoso\n policy B2C_1_sign_in\n client_id gatehouse\n issuer http://localhost:1\n}", "",
		"customers", "idp <id> azure_ad_b2c: issuer",
	},
	{"address of Google", "", "idp google google {\n client_id x\n client_secret the-secret-of-gatehouse-at-that-issuer\n issuer http://localhost:1\n}", "", "google", "idp <id> google: issuer"},
	{"address of Microsoft", "", "idp work microsoft {\n client_id x\n client_secret the-secret-of-gatehouse-at-that-issuer\n tenants 72f988bf-86f1-41af-91ab-2d7cd011db47\n issuer http://localhost:1\n}", "", "work", "idp <id> microsoft: issuer"},
	{
		"addresses of a provider of OAuth 2.0", "",
		"idp forge oauth2 {\n client_id x\n client_secret the-secret-of-gatehouse-at-that-issuer\n subject id\n authorization_url http://localhost:1/a\n token_url http://localhost:1/t\n profile_url http://localhost:1/p\n}", "", "",
		"idp <id> oauth2: authorization_url, idp <id> oauth2: token_url, idp <id> oauth2: profile_url",
	},
	{
		"addresses of a forge", "", "idp code github {\n client_id x\n client_secret the-secret-of-gatehouse-at-that-issuer\n authorization_url http://localhost:1/a\n token_url http://localhost:1/t\n profile_url http://localhost:1/p\n emails_url http://localhost:1/e\n}", "", "",
		"idp <id> github: authorization_url, idp <id> github: token_url, idp <id> github: profile_url, idp <id> github: emails_url",
	},
	{"keytab", "http.keytab", "idp desk kerberos {\n keytab $DIR/http.keytab\n}", "", "idp desk", "idp <id> kerberos: keytab"},
	{
		"authorities of a directory", "ca.pem",
		"idp directory ldap {\n url ldaps://localhost:1\n ca $DIR/ca.pem\n template uid=%s,dc=example,dc=com\n}", "",
		"idp directory", "idp <id> ldap: ca",
	},
	{
		"address of a directory", "", "idp directory ldap {\n url ldaps://localhost:1\n template uid=%s,dc=example,dc=com\n}", "",
		"", "idp <id> ldap: url",
	},
	{
		"logo of a client", "logo.png",
		"client shop {\n public\n redirect_uris https://shop.example.com/\n grants authorization_code\n scopes openid\n logo $DIR/logo.png\n}",
		"", "client shop: logo", "client <id>: logo",
	},
	{"keys of a client", "jwks.json", keyed, "", "client shop: jwks", "client <id>: jwks"},
	{"address of the keys of a client", "", strings.ReplaceAll(keyed, "$DIR", "http://localhost:1"), "", "", "client <id>: jwks"},
	{
		"keys of a trusted issuer", "issuer.json", trusting + " jwks $DIR/issuer.json\n}", "", "trust_issuer https://ci.example.com: jwks",
		"trust_issuer <url>: jwks",
	},
	{"address of the keys of a trusted issuer", "", trusting + " jwks https://localhost:1/jwks\n}", "", "", "trust_issuer <url>: jwks"},
	{"trusted issuer without keys", "", trusting + "}", "", "", "gatehouse: trust_issuer"},
	{"authorities of clients", "clients.pem", "client_ca $DIR/clients.pem", "", "client_ca", "gatehouse: client_ca"},
	{
		"authorities of Envoy", "envoy.pem", "ext_authz 127.0.0.1:0 {\n tls $DIR/none.crt $DIR/none.key\n client_ca $DIR/envoy.pem\n}", "",
		"ext_authz: client_ca", "ext_authz <address>: client_ca",
	},
	{
		"certificate of Envoy's listener", "envoy.crt", "ext_authz 127.0.0.1:0 {\n tls $DIR/envoy.crt $DIR/envoy.key\n}", "",
		"ext_authz: tls", "ext_authz <address>: tls",
	},
	{"logo of the brand", "brand.png", "", "brand {\n logo $DIR/brand.png\n}", "identity: brand logo", "brand: logo"},
	{"message of the extension", "ext/de.json", "", "extension $DIR/ext", "identity: extension", "identity: extension"},
	{
		"deep directory of the extension", "deep/a/b/c/d/e/f/g/h/i/j/k.txt", "", "extension $DIR/deep",
		"identity: extension", "identity: extension",
	},
	{"passwords from breaches", "breach/none/none.txt", "", "breach {\n file $DIR/breach\n}", "identity: breach file", "breach: file"},
	{"address of passwords from breaches", "", "", "breach {\n url http://localhost:1/range/\n}", "", "breach: url"},
	{"mail server", "", "mail smtp localhost:1 {\n from no-reply@example.com\n}", "", "", "gatehouse: mail"},
	{
		"webhooks", "", "sms webhook http://localhost:1/sms\npush webhook http://localhost:1/push {\n secret the-secret-of-the-webhook-of-this-server\n}\nevents {\n webhook http://localhost:1/events {\n  secret the-secret-of-the-webhook-of-this-server\n }\n}", "", "",
		"gatehouse: sms, gatehouse: push, events: webhook",
	},
}

// trusting is a client of jobs at a build server, as far as what says where the keys of that are.
const trusting = "client build {\n auth_method workload\n grants client_credentials\n scopes orders.read\n}\ntrust_issuer https://ci.example.com {\n match sub build\n client build\n"

// harmless are the options with an address, a file or the name of a stored thing that cannot be faulty outside of the
// Caddyfile, or whose faults have tests of their own.
var harmless = map[string]string{
	"identity: bootstrap":                            "TestBootstrapThatIsGone",
	"gatehouse: idp":                                 "its options have rows",
	"forward_auth <name>: audience":                  "is compared",
	"forward_auth <name>: introspect":                "TestKeyOfIntrospect, and package introspect: only questions about the origins ask",
	"groups: map":                                    "is compared with what the directory says at a sign-in",
	"attribute <attribute>: as":                      "a name",
	"protect [<matcher>] [<scope>…]: mcp":            "is published, and never asked",
	"gatehouse: issuer":                              "the server's own",
	"gatehouse: storage":                             "the server's own: without it nobody is served",
	"gatehouse: encryption_key":                      "the server's own: without it nobody is served",
	"gatehouse: mtls_endpoint_aliases":               "is published, and never asked",
	"gatehouse: policy":                              "stands in the Caddyfile; those of the storage are in TestStoredPolicyThatCannotBeUsed",
	"gatehouse: client_cert_header":                  "a name",
	"gatehouse: ext_authz":                           "the server's own socket: without it the questions of Envoy find no server",
	"storage postgres <url>: direct_url":             "the server's own",
	"api_client <id>: audiences":                     "is compared",
	"authorization_details <type>: locations":        "is compared",
	"client <id>: audiences":                         "is compared",
	"client <id>: contact":                           "e-mails are sent there, each by itself",
	"identity: passkey_rp_id":                        "is compared; browsers ask that host, and not the server",
	"identity: passkey_origins":                      "is published, and never asked",
	"client <id>: backchannel_logout_uri":            "is asked when a session ends, and again later",
	"client <id>: frontchannel_logout_uri":           "browsers are sent there",
	"client <id>: initiate_login_uri":                "browsers are sent there",
	"client <id>: origins":                           "is compared",
	"client <id>: post_logout_redirect_uris":         "browsers are sent there",
	"client <id>: redirect_uris":                     "browsers are sent there",
	"client_metadata_documents: trust":               "is compared",
	"registration: redirect_hosts":                   "is compared",
	"forward_auth <name>: origins":                   "is compared",
	"forward_auth <name>: client_certificate_header": "a name",
	"idp <id> saml: entity_id":                       "is a name",
	"idp <id> saml: expired_certificates":            "a switch",
	"service_provider <id>: expired_certificates":    "a switch",
	"idp <id> azure_ad_b2c: policy":                  "part of an address at the provider, which has a row",
	"identity: access_mail":                          "an address of people",
	"person <username>: email":                       "an address of people",
	"brand: help":                                    "browsers are sent there",
	"mail smtp <host:port>: from":                    "an address of people",
	"mail smtp <host:port>: reply_to":                "an address of people",
	"protect [<matcher>] [<scope>…]: login":          "is compared",
	"protect [<matcher>] [<scope>…]: audience":       "is compared",
	"protect [<matcher>] [<scope>…]: introspect":     "TestKeyOfIntrospect, and package introspect: only requests to the site ask",
	"introspect <url>: issuer":                       "is compared",
	"introspect <url>: jwks":                         "package introspect: is asked with the first answer",
	"introspect <url>: key":                          "TestKeyOfIntrospect",
	"mcp [<resource>]: documentation":                "is published, and never asked",
	"protect [<matcher>] [<scope>…]: policy":         "TestStoredPolicyThatCannotBeUsed",
	"forward_auth <name>: policy":                    "TestStoredPolicyThatCannotBeUsed",
	"shadow: policy":                                 "TestStoredPolicyThatCannotBeUsed",
	"policy <name>: public":                          "paths",
	"identity: scim_verifies_emails":                 "is compared",
}

// outside matches the arguments of options that name something outside of the Caddyfile.
var outside = regexp.MustCompile(`file|url|uri|address|directory|certificate|key pair|<key|origin|host|<resource>|<module>`)

// TestEveryFaultHasARow: each option that names a file, an address, a certificate, a directory or something stored is
// broken in TestFaultsInTurn, or there is a reason why nothing outside of the Caddyfile can break it.
func TestEveryFaultHasARow(t *testing.T) {
	t.Parallel()
	rows, used := map[string]bool{}, map[string]bool{}
	for _, tt := range faults {
		for option := range strings.SplitSeq(tt.about, ", ") {
			rows[option] = true
		}
	}
	seen := map[*reference.Block]bool{}
	var walk func(b *reference.Block)
	walk = func(b *reference.Block) {
		if seen[b] {
			return
		}
		seen[b] = true
		for _, o := range b.Options {
			for _, inner := range o.Blocks {
				walk(inner)
			}
			option := b.Head + ": " + o.Word
			if strings.HasPrefix(b.Head, "idp ") && rows["idp <id> *: "+o.Word] {
				option = "idp <id> *: " + o.Word
			}
			used[option] = true
			if named := outside.MatchString(o.Arguments) || o.Word == "policy" || o.Word == "trust_issuer"; named &&
				!rows[option] && harmless[option] == "" {
				t.Errorf("%s %s: no fault has a row, and harmless has no reason", option, o.Arguments)
			}
		}
	}
	walk(&reference.Gatehouse)
	walk(&reference.Protect)
	for _, option := range slices.Concat(slices.Sorted(maps.Keys(rows)), slices.Sorted(maps.Keys(harmless))) {
		if !used[option] {
			t.Errorf("%s: no block has the option", option)
		}
		if rows[option] && harmless[option] != "" {
			t.Errorf("%s: has a row, and a reason why it cannot be faulty", option)
		}
	}
}

// keyed is a client that signs.
const keyed = "client shop {\n auth_method private_key_jwt\n grants client_credentials\n scopes orders.read\n default_scopes orders.read\n jwks $DIR/jwks.json\n}"

// TestFaultsInTurn: each external input is broken before a reload and before a start. Everything else goes on, and a
// finding names the one. All are at one server, each with a directory of its own.
func TestFaultsInTurn(t *testing.T) {
	s := servertest.NewServer(t)
	s.MustLoad()
	for _, tt := range faults {
		t.Run(tt.name, func(t *testing.T) {
			whole := s.T
			s.T = t
			defer func() { s.T = whole }()
			dir := t.TempDir()
			good := spMetadata(time.Now().AddDate(1, 0, 0))
			servertest.WriteFile(t, filepath.Join(dir, "good.xml"), good, 0o600)
			servertest.WriteFile(t, filepath.Join(dir, "addresses.xml"),
				strings.Replace(good, "https://wiki.example.com/acs", "javascript:alert(1)", 1), 0o600)
			servertest.WriteFile(t, filepath.Join(dir, "logout.xml"), strings.Replace(good, "<AssertionConsumerService",
				`<SingleLogoutService Binding="urn:oasis:names:tc:SAML:2.0:bindings:HTTP-POST" Location="javascript:alert(1)"/><AssertionConsumerService`,
				1), 0o600)
			in := func(text string) string { return strings.ReplaceAll(text, "$DIR", dir) }
			s.Extra, s.InIdentity = in(tt.extra), in(tt.identity)
			goesOn := func(when string) {
				t.Helper()
				s.MustLoad()
				if res, body := s.Get("/healthz"); res.StatusCode != http.StatusOK {
					t.Errorf("%s: /healthz = %d %s", when, res.StatusCode, body)
				}
				if got := s.Enters(s.Token()); got != http.StatusOK {
					t.Errorf("%s: the API answers %d to another client", when, got)
				}
				if tt.want != "" {
					s.WantFinding("Caddyfile:", tt.want)
				}
			}
			if !strings.HasPrefix(tt.file, "deep/") { // without it nothing is wrong
				goesOn("missing, at a reload")
			}
			if tt.file != "" {
				file := filepath.Join(dir, tt.file)
				if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
					t.Fatal(err)
				}
				servertest.WriteFile(t, file, "<html>not what it should be", 0o600)
				goesOn("broken, at a reload")
			}
			s.Stop()
			goesOn("at a start")
		})
	}
}

// TestReplacedFilesNeedForce: Caddy skips a reload of a Caddyfile that is as before, even if a file that it names has
// changed. The former secret is valid until a reload with force, so guides and messages ask for that one.
func TestReplacedFilesNeedForce(t *testing.T) {
	s := servertest.NewServer(t)
	file := filepath.Join(s.Dir, "deploy.secret")
	s.Extra = "client deploy {\n secret {file." + file + "}\n grants client_credentials\n scopes orders.read\n default_scopes orders.read\n}"
	const former, next = "the-former-secret-of-deploy-in-a-file", "the-next-secret-of-deploy-in-the-file"
	signsInBy := func(secret string) bool {
		t.Helper()
		r := s.Request(http.MethodPost, s.Issuer()+"/oauth/token", strings.NewReader("grant_type=client_credentials"))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.SetBasicAuth("deploy", secret)
		resp, _ := s.Do(r) //nolint:bodyclose // it is read and closed
		return resp.StatusCode == http.StatusOK
	}
	servertest.WriteFile(t, file, former, 0o600)
	s.MustLoad()
	servertest.WriteFile(t, file, next, 0o600)
	for _, reload := range []struct {
		force     bool
		is, isNot string
	}{{false, former, next}, {true, next, former}} {
		if err := caddy.Load(s.JSON(), reload.force); err != nil {
			t.Fatal(err)
		}
		if !signsInBy(reload.is) || signsInBy(reload.isNot) {
			t.Errorf("after a reload with force %t the client does not sign in by %q alone", reload.force, reload.is)
		}
	}
}

// TestKeysThatAreRefused: without its keys, a client cannot sign in by a key, neither its own nor any other.
func TestKeysThatAreRefused(t *testing.T) {
	s := servertest.NewServer(t)
	file := filepath.Join(s.Dir, "jwks.json")
	s.Extra = strings.ReplaceAll(keyed, "$DIR", s.Dir)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	good, err := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: key.Public(), KeyID: "shop-1"}}})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name, keys, kid string
		want            int
	}{
		{"the keys of the client", string(good), "shop-1", http.StatusOK},
		{"a file that was cut", string(good[:len(good)-2]), "shop-1", http.StatusUnauthorized},
		{"attack: the name of the key that takes their place", string(good[:len(good)-2]), "unreadable", http.StatusUnauthorized},
		{"attack: no name", "", "", http.StatusUnauthorized},
	} {
		servertest.WriteFile(t, file, tt.keys, 0o600)
		s.MustLoad()
		signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: jose.JSONWebKey{Key: key, KeyID: tt.kid}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		claims, _ := json.Marshal(map[string]any{ //nolint:errcheck // of texts
			"iss": "shop", "sub": "shop", "aud": s.Issuer(), "jti": tt.name, "iat": time.Now().Unix(),
			"exp": time.Now().Add(time.Minute).Unix(),
		})
		signed, err := signer.Sign(claims)
		if err != nil {
			t.Fatal(err)
		}
		assertion, err := signed.CompactSerialize()
		if err != nil {
			t.Fatal(err)
		}
		r := s.Request(http.MethodPost, s.Issuer()+"/oauth/token", strings.NewReader(url.Values{
			"grant_type": {"client_credentials"}, "client_assertion": {assertion},
			"client_assertion_type": {"urn:ietf:params:oauth:client-assertion-type:jwt-bearer"},
		}.Encode()))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		if res, body := s.Do(r); res.StatusCode != tt.want {
			t.Errorf("%s: POST /oauth/token = %d %s, want %d", tt.name, res.StatusCode, body, tt.want)
		}
	}
}

// TestKeyOfIntrospect: a site whose key cannot be read answers 503 to tokens, and the others go on.
func TestKeyOfIntrospect(t *testing.T) {
	s := servertest.NewServer(t)
	_, port, err := net.SplitHostPort(s.API)
	if err != nil {
		t.Fatal(err)
	}
	s.Site = `protect orders.read
	respond "in"
}
http://elsewhere.localhost:` + port + ` {
	protect {
		scopes orders.read
		introspect http://localhost:1/introspect {
			client gateway
			key ` + filepath.Join(s.Dir, "none.pem") + `
		}
	}`
	for _, when := range []string{"start", "reload"} {
		s.MustLoad()
		token := s.Token()
		if got := s.Enters(token); got != http.StatusOK {
			t.Errorf("after the %s: the other site answers %d", when, got)
		}
		r := s.Request(http.MethodGet, "http://"+s.API+"/", nil)
		r.Host = "elsewhere.localhost:" + port
		r.Header.Set("Authorization", "Bearer "+token)
		if res, body := s.Do(r); res.StatusCode != http.StatusServiceUnavailable {
			t.Errorf("after the %s: the site without its key = %d %s, want 503", when, res.StatusCode, body)
		}
		s.WantFinding("warning", "Caddyfile:", "introspect key", "none.pem")
	}
}

// TestStoredPolicyThatCannotBeUsed: a policy of the storage that another version has written keeps the sites that name
// it closed. Everything else goes on, at a start and a reload.
func TestStoredPolicyThatCannotBeUsed(t *testing.T) {
	s := servertest.NewServer(t)
	s.MustLoad()
	s.Stop()
	key, err := shared.ParseKey(servertest.TestKey)
	if err != nil {
		t.Fatal(err)
	}
	ring, err := secret.NewKeyring(key)
	if err != nil {
		t.Fatal(err)
	}
	store, err := badgerstore.Open(t.Context(), badgerstore.Options{Dir: filepath.Join(s.Dir, "store")})
	if err != nil {
		t.Fatal(err)
	}
	unchecked := settings.Config{CheckPolicy: func(string, settings.Policy) (string, error) { return "", nil }}
	units, err := settings.New(t.Context(), unchecked, settings.Deps{Store: store, Keyring: ring})
	if err == nil {
		_, err = units.Import(t.Context(), []byte(`{"policies":{"office":{"allow":[{"match":[{"of_another_version":{}}]}]}}}`),
			audit.Actor{ID: "test"})
	}
	if err := errors.Join(err, store.Close()); err != nil {
		t.Fatal(err)
	}
	_, port, err := net.SplitHostPort(s.API)
	if err != nil {
		t.Fatal(err)
	}
	s.Site = "protect orders.read\nrespond `in`\n}\nhttp://office.localhost:" + port + " {\nprotect orders.read {\npolicy office\n}"
	for _, when := range []string{"start", "reload"} {
		s.MustLoad()
		token := s.Token()
		if got := s.Enters(token); got != http.StatusOK {
			t.Errorf("after the %s: the other site answers %d", when, got)
		}
		r := s.Request(http.MethodGet, "http://"+s.API+"/", nil)
		r.Host = "office.localhost:" + port
		r.Header.Set("Authorization", "Bearer "+token)
		if res, body := s.Do(r); res.StatusCode != http.StatusForbidden {
			t.Errorf("after the %s: the site of the policy = %d %s, want 403", when, res.StatusCode, body)
		}
		s.WantFinding("warning Caddyfile:", "the policy office of the configuration API cannot be used", "office.localhost")
	}
}

// TestBootstrapThatIsGone: a file of settings that is gone or broken stops only a storage that has none.
func TestBootstrapThatIsGone(t *testing.T) {
	s := servertest.NewServer(t)
	file := filepath.Join(s.Dir, "units.json")
	s.InIdentity = "bootstrap " + file
	servertest.WriteFile(t, file, `{"features":{"app_passwords_enabled":true}}`, 0o600)
	s.MustLoad()
	for _, state := range []string{"missing", "broken"} {
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
		if state == "broken" {
			servertest.WriteFile(t, file, "<html>not what it should be", 0o600)
		}
		for _, when := range []string{"reload", "start"} {
			if when == "start" {
				s.Stop()
			}
			s.MustLoad()
			if got := s.Enters(s.Token()); got != http.StatusOK {
				t.Errorf("%s, at a %s: the API answers %d", state, when, got)
			}
			s.WantFinding("warning Caddyfile:", "identity: bootstrap "+file, "an empty storage could not start with it")
		}
		servertest.WriteFile(t, file, "{}", 0o600)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	s.Stop()
	s.Storage = "storage badger " + filepath.Join(s.Dir, "another")
	if err := s.Load(); err == nil || !strings.Contains(err.Error(), "identity: bootstrap") {
		t.Errorf("an empty storage without its settings: %v, want an error", err)
	}
}

// TestMetadataEnds: metadata of a service provider that has ended, or will within weeks, is a finding, and the server
// goes on. It is over without a reload when newer metadata is there.
func TestMetadataEnds(t *testing.T) {
	s := servertest.NewServer(t)
	file := filepath.Join(s.Dir, "sp.xml")
	s.Extra = "service_provider wiki {\n\tmetadata " + file + "\n}\n"
	for _, tt := range []struct {
		until time.Duration
		want  string
	}{
		{-48 * time.Hour, "no one can sign in: its metadata was valid until"},
		{48 * time.Hour, "its metadata is valid until"},
	} {
		if err := os.WriteFile(file, []byte(spMetadata(time.Now().Add(tt.until))), 0o600); err != nil {
			t.Fatal(err)
		}
		s.MustLoad()
		s.WantFinding("warning", "Caddyfile:", "service_provider wiki", tt.want, "put newer metadata there")
		if got := s.Enters(s.Token()); got != http.StatusOK {
			t.Errorf("with metadata that ends in %s the API answers %d", tt.until, got)
		}
	}
	if err := os.WriteFile(file, []byte(spMetadata(time.Now().AddDate(1, 0, 0))), 0o600); err != nil {
		t.Fatal(err)
	}
	s.MustLoad()
	if all, err := s.Findings(); all != "" || err != nil {
		t.Errorf("check = %v with metadata for a year, findings:\n%s", err, all)
	}
}
