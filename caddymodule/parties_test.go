package caddymodule_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/gatehouse-id/gatehouse/caddymodule/servertest"
)

// parties is a configuration in which every party has a file of its own.
func parties(s *servertest.Server) map[string]string {
	files := map[string]string{}
	for _, name := range []string{"sp.xml", "idp.xml", "federation.pem", "http.keytab", "ca.pem", "logo.png", "icon.png", "jwks.json", "issuer.json"} {
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
	return `<EntityDescriptor xmlns="urn:oasis:names:tc:SAML:2.0:metadata" entityID="https://wiki.example.com/saml" validUntil="` + until.UTC().Format(time.RFC3339) + `">` +
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
				for _, about := range []string{"service_provider wiki", "idp partner", "idp desk", "idp directory", "client shop: logo", "client shop: jwks", "trust_issuer https://ci.example.com: jwks"} {
					s.WantFinding("warning", "Caddyfile:", about)
				}
				if state == "broken" {
					s.WantFinding("warning", "Caddyfile:", "identity: extension", "de.json")
				}
			}
			if _, metrics := s.Do(s.Request(http.MethodGet, "http://"+s.Admin+"/metrics", nil)); !strings.Contains(metrics, `gatehouse_party_warnings{id="wiki",kind="service_provider"} 1`) {
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
	want            string // of the finding
}

var faults = []fault{
	{"metadata of a service provider", "sp.xml", "service_provider wiki {\n metadata $DIR/sp.xml\n}", "", "service_provider wiki"},
	{"certificate for metadata of a service provider", "by.pem", "service_provider wiki {\n metadata $DIR/good.xml\n metadata_certificate $DIR/by.pem\n}", "", "service_provider wiki"},
	{"metadata of an identity provider", "idp.xml", "idp partner saml {\n metadata $DIR/idp.xml\n}", "", "idp partner"},
	{"address of metadata", "", "idp partner saml {\n metadata http://localhost:1/metadata\n}", "", "idp partner"},
	{"address of an issuer", "", "idp corp oidc {\n issuer http://localhost:1\n client_id x\n client_secret the-secret-of-gatehouse-at-that-issuer\n}", "", "corp"},
	{"certificate for metadata of an identity provider", "by.pem", "idp partner saml {\n metadata http://localhost:1/metadata\n metadata_certificate $DIR/by.pem\n}", "", "idp partner"},
	{"key pair of an identity provider", "", "idp partner saml {\n metadata http://localhost:1/metadata\n sign nowhere\n}", "", "idp partner: a key pair cannot be used"},
	{"icon of an identity provider", "icon.png", "idp partner saml {\n metadata http://localhost:1/metadata\n icon $DIR/icon.png\n}", "", "idp partner"},
	{"keytab", "http.keytab", "idp desk kerberos {\n keytab $DIR/http.keytab\n}", "", "idp desk"},
	{"authorities of a directory", "ca.pem", "idp directory ldap {\n url ldaps://localhost:1\n ca $DIR/ca.pem\n template uid=%s,dc=example,dc=com\n}", "", "idp directory"},
	{"logo of a client", "logo.png", "client shop {\n public\n redirect_uris https://shop.example.com/\n grants authorization_code\n scopes openid\n logo $DIR/logo.png\n}", "", "client shop: logo"},
	{"keys of a client", "jwks.json", keyed, "", "client shop: jwks"},
	{"keys of a trusted issuer", "issuer.json", "client build {\n auth_method workload\n grants client_credentials\n scopes orders.read\n}\n" +
		"trust_issuer https://ci.example.com {\n match sub build\n client build\n jwks $DIR/issuer.json\n}", "", "trust_issuer https://ci.example.com: jwks"},
	{"authorities of clients", "clients.pem", "client_ca $DIR/clients.pem", "", "client_ca"},
	{"authorities of Envoy", "envoy.pem", "ext_authz 127.0.0.1:0 {\n tls $DIR/none.crt $DIR/none.key\n client_ca $DIR/envoy.pem\n}", "", "ext_authz: client_ca"},
	{"certificate of Envoy's listener", "envoy.crt", "ext_authz 127.0.0.1:0 {\n tls $DIR/envoy.crt $DIR/envoy.key\n}", "", "ext_authz: tls"},
	{"logo of the brand", "brand.png", "", "brand {\n logo $DIR/brand.png\n}", "identity: brand logo"},
	{"message of the extension", "ext/de.json", "", "extension $DIR/ext", "identity: extension"},
	{"deep directory of the extension", "deep/a/b/c/d/e/f/g/h/i/j/k.txt", "", "extension $DIR/deep", "identity: extension"},
}

// keyed is a client that signs.
const keyed = "client shop {\n auth_method private_key_jwt\n grants client_credentials\n scopes orders.read\n default_scopes orders.read\n jwks $DIR/jwks.json\n}"

// TestFaultsInTurn: each external input is broken before a reload and before a start. Everything else goes on, and a
// finding names the one.
func TestFaultsInTurn(t *testing.T) {
	for _, tt := range faults {
		t.Run(tt.name, func(t *testing.T) {
			s := servertest.NewServer(t)
			servertest.WriteFile(t, filepath.Join(s.Dir, "good.xml"), spMetadata(time.Now().AddDate(1, 0, 0)), 0o600)
			s.MustLoad()
			in := func(text string) string { return strings.ReplaceAll(text, "$DIR", s.Dir) }
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
				s.WantFinding("Caddyfile:", tt.want)
			}
			if !strings.HasPrefix(tt.file, "deep/") { // without it nothing is wrong
				goesOn("missing, at a reload")
			}
			if tt.file != "" {
				file := filepath.Join(s.Dir, tt.file)
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
		claims, _ := json.Marshal(map[string]any{"iss": "shop", "sub": "shop", "aud": s.Issuer(), "jti": tt.name, "iat": time.Now().Unix(), "exp": time.Now().Add(time.Minute).Unix()}) //nolint:errcheck // of texts
		signed, err := signer.Sign(claims)
		if err != nil {
			t.Fatal(err)
		}
		assertion, err := signed.CompactSerialize()
		if err != nil {
			t.Fatal(err)
		}
		r := s.Request(http.MethodPost, s.Issuer()+"/oauth/token", strings.NewReader(url.Values{
			"grant_type": {"client_credentials"}, "client_assertion": {assertion}, "client_assertion_type": {"urn:ietf:params:oauth:client-assertion-type:jwt-bearer"},
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
		{-48 * time.Hour, "nobody can sign in: its metadata was valid until"},
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
