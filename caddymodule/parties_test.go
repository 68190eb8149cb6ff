package caddymodule_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/caddymodule/internal/servertest"
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
