package archtest

import (
	"regexp"
	"strings"
	"testing"
)

// dependencies are the modules that may stand in go.mod as direct ones, and what each is for. A program built with
// this one inherits them all, and a name that looks like another has been an attack: a new one is looked at first,
// its name letter by letter.
var dependencies = map[string]string{
	"github.com/beevik/etree":                      "XML trees of SAML",
	"github.com/caddyserver/caddy/v2":              "the server that we are a part of",
	"github.com/cespare/xxhash/v2":                 "checksums of records",
	"github.com/cloudflare/circl":                  "ML-DSA, until Go 1.27 has it",
	"github.com/coreos/go-oidc/v3":                 "discovery and ID tokens of OpenID providers",
	"github.com/crewjam/saml":                      "schema types of SAML messages and metadata, and encryption",
	"github.com/dgraph-io/badger/v4":               "the storage engine",
	"github.com/dgraph-io/ristretto/v2":            "what badger hands out",
	"github.com/dustin/go-humanize":                "sizes in the Caddyfile",
	"github.com/envoyproxy/go-control-plane/envoy": "messages of Envoy's external authorization",
	"google.golang.org/genproto/googleapis/rpc":    "the status in them",
	"google.golang.org/grpc":                       "Envoy's external authorization",
	"github.com/dunglas/httpsfv":                   "structured fields of signed requests",
	"github.com/emersion/go-smtp":                  "mail servers of tests",
	"github.com/fxamacker/cbor/v2":                 "encoding of records",
	"github.com/go-jose/go-jose/v4":                "JWS, JWE, JWK",
	"github.com/go-webauthn/webauthn":              "passkeys",
	"github.com/google/go-cmp":                     "differences in tests",
	"github.com/google/uuid":                       "identifiers",
	"github.com/jackc/pgx/v5":                      "the PostgreSQL protocol",
	"github.com/nyaruka/phonenumbers":              "phone numbers",
	"github.com/pquerna/otp":                       "one-time passwords",
	"github.com/prometheus/client_golang":          "metrics",
	"github.com/russellhaering/goxmldsig":          "XML signatures",
	"github.com/spf13/pflag":                       "flags of commands",
	"github.com/spf13/cobra":                       "commands",
	"github.com/wneessen/go-mail":                  "mail",
	"go.opentelemetry.io/otel":                     "attributes of spans, in Caddy's tracing",
	"go.opentelemetry.io/otel/trace":               "spans in Caddy's tracing",
	"go.uber.org/zap":                              "logs",
	"github.com/go-asn1-ber/asn1-ber":              "BER of LDAP, in tests",
	"github.com/go-crypt/x":                        "password hashes of crypt(3)",
	"github.com/go-ldap/ldap/v3":                   "LDAP",
	"github.com/jcmturner/gofork":                  "the ASN.1 of gokrb5, in tests",
	"github.com/jcmturner/gokrb5/v8":               "Kerberos",
	"go.yaml.in/yaml/v3":                           "what Authelia exports",
	"golang.org/x/crypto":                          "Argon2id, bcrypt",
	"golang.org/x/net":                             "HTML in tests, host names",
	"golang.org/x/oauth2":                          "a client library of others, in tests",
	"golang.org/x/sys":                             "free space, locks",
	"golang.org/x/term":                            "passwords at a terminal",
	"golang.org/x/text":                            "languages, Unicode",
	"golang.org/x/time":                            "rates",
	"google.golang.org/protobuf":                   "badger's backups",
	"pgregory.net/rapid":                           "properties in tests",
	"rsc.io/qr":                                    "QR codes",
	"github.com/descope/virtualwebauthn":           "passkeys in tests",
}

var requirement = regexp.MustCompile(`(?m)^\t(\S+) v\S+$`) // without // indirect

func TestDirectDependencies(t *testing.T) {
	t.Parallel()
	t.Run("attack 292: a direct dependency that nobody has looked at", func(t *testing.T) {
		t.Parallel()
		mod := text(t, "go.mod")
		if strings.Contains(mod, "\nreplace ") || strings.Contains(mod, "\nreplace(") {
			t.Error("go.mod replaces modules: whoever builds with us does not get that")
		}
		found := requirement.FindAllStringSubmatch(mod, -1)
		if len(found) < 15 {
			t.Fatalf("%d direct dependencies found in go.mod", len(found))
		}
		for _, m := range found {
			if dependencies[m[1]] == "" {
				t.Errorf("go.mod requires %s, which is not in the list: look at it, then say here what it is for", m[1])
			}
		}
	})
}
