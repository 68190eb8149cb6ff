package provider_test

import (
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/caddymodule/servertest"
	"github.com/gatehouse-id/gatehouse/identity/keystore"
	"github.com/gatehouse-id/gatehouse/idp/oidc/oidctest"
	"github.com/gatehouse-id/gatehouse/internal/audit"
)

var metadataCertificate = regexp.MustCompile(`(?s)<(?:\w+:)?X509Certificate>(.*?)</`)

// published returns the certificates in Gatehouse's SAML metadata as PublicPart has them, the one that signs first.
func published(s *servertest.Server) (out []string) {
	s.T.Helper()
	resp, body := s.Get("/sso/metadata")
	if resp.StatusCode != http.StatusOK {
		s.T.Fatalf("the metadata = %d %s", resp.StatusCode, body)
	}
	for _, m := range metadataCertificate.FindAllStringSubmatch(body, -1) {
		if one := strings.Join(strings.Fields(m[1]), ""); !slices.Contains(out, one) {
			out = append(out, one)
		}
	}
	return out
}

// of returns certificates as published has them.
func certificatesOf(t *testing.T, parts ...*keystore.PublicPart) (out []string) {
	t.Helper()
	for _, p := range parts {
		raw, err := base64.StdEncoding.DecodeString(p.PublicKey)
		if err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(strings.TrimSpace(string(raw)), "\n")
		out = append(out, strings.Join(lines[1:len(lines)-1], ""))
	}
	return out
}

// wantPublished demands these certificates in the metadata.
func wantPublished(s *servertest.Server, what string, parts ...*keystore.PublicPart) {
	s.T.Helper()
	want := certificatesOf(s.T, parts...)
	if got := published(s); !slices.Equal(got, want) {
		s.T.Errorf("%s: the metadata have %d certificates, want these %d:\n%s\n%s", what, len(got), len(want), got, want)
	}
}

// TestRotateKeyPairByAPI: the metadata have the next keys from the moment that they are announced, and the former ones
// until they are retired. Each step is an event of the API client; one without the right takes none.
func TestRotateKeyPairByAPI(t *testing.T) {
	s := servertest.Configured(t, `api_client reader {
		secret `+servertest.OpsSecret+`
		apis events persons
	}`)
	s.MustLoad()
	const own = "/v2/config/certificates/own"
	step := func(path string) keystore.Rotation {
		t.Helper()
		return servertest.Decode[keystore.Rotation](t, s.MustCall(http.MethodPost, own+path, nil, http.StatusOK))
	}
	start := servertest.Decode[keystore.Rotation](t, s.MustCall(http.MethodGet, own+"/rotation", nil, http.StatusOK))
	wantPublished(s, "before", start.Current)
	announced := step("/rotation/announce")
	wantPublished(s, "announced", start.Current, announced.Next)
	s.MustCall(http.MethodPost, own+"/rotation/announce", nil, http.StatusConflict)
	s.MustCall(http.MethodPost, own+"/rotation/retire", nil, http.StatusConflict)
	switched := step("/rotation/switch")
	wantPublished(s, "switched", announced.Next, start.Current)
	retired := step("/rotation/retire")
	wantPublished(s, "retired", announced.Next)
	if switched.Current.SHA256 != announced.Next.SHA256 || retired.Former != nil || retired.Stage != keystore.Idle {
		t.Errorf("switched: %+v, retired: %+v", switched, retired)
	}
	renewed := step("/renew")
	wantPublished(s, "renewed", renewed.Current)
	r := s.Request(http.MethodPost, s.Issuer()+own+"/rotation/announce", nil)
	r.SetBasicAuth("reader", servertest.OpsSecret)
	if resp, body := s.Do(r); resp.StatusCode != http.StatusForbidden || !strings.Contains(body, "may not use this API") {
		t.Errorf("without the right = %d %s", resp.StatusCode, body)
	}
	wantPublished(s, "after a refusal", renewed.Current)
	events := servertest.Decode[struct {
		Events []audit.Info `json:"resultSet"`
	}](t, s.MustCall(http.MethodGet, "/api/events?limit=100&offset=0&actor=admin", nil, http.StatusOK))
	var said []string
	for _, e := range events.Events {
		if e.EventType == "configuration.CertificateUpdatedEvent" && e.EventAgentUser == "admin" {
			what, _, _ := strings.Cut(e.Reason, " Gatehouse")
			said = append(said, what)
		}
	}
	if want := []string{
		"new keys of", "the former keys are retired of", "the next keys are used for",
		"the next keys are published for",
	}; !slices.Equal(said, want) {
		t.Errorf("the events say %q, want %q", said, want)
	}
}

// TestOneOfTheKeyPairsIsMissing: of several key pairs for service providers the present ones sign and are published;
// a finding names the missing one.
func TestOneOfTheKeyPairsIsMissing(t *testing.T) {
	s := servertest.Configured(t, "saml_sign saml-2027 saml-2026")
	s.MustLoad()
	s.WantFinding("Caddyfile:", "no one can sign in at any service provider", "saml-2027", "saml-2026")
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	pair := servertest.KeyPairOf(t, "saml-2026", "RSA", key, 400*24*time.Hour)
	s.MustCall(http.MethodPost, "/v2/config/certificates", map[string]any{"key_pair": pair}, http.StatusOK)
	s.WantFinding("Caddyfile:", "saml_sign: service providers that know only this key pair refuse sign-ins", "saml-2027")
	list := servertest.Decode[[]keystore.Rotation](t, s.Run("", "key-pair", "list", "--json"))
	i := slices.IndexFunc(list, func(r keystore.Rotation) bool { return r.Name == "saml-2026" })
	wantPublished(s, "with one of two", list[i].Current)
}

// TestRotateKeyPairByCommand: the whole rotation of a named pair and of Gatehouse's own, what is printed, and what is
// refused.
func TestRotateKeyPairByCommand(t *testing.T) {
	s := servertest.Configured(t, "saml_sign saml")
	s.MustLoad()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	partner := servertest.KeyPair(t, "partner", 400*24*time.Hour)
	partner["key_type"], partner["private_key"] = "CERTIFICATE", ""
	for _, pair := range []map[string]string{servertest.KeyPairOf(t, "saml", "RSA", key, 400*24*time.Hour), partner} {
		s.MustCall(http.MethodPost, "/v2/config/certificates", map[string]any{"key_pair": pair}, http.StatusOK)
	}
	list := func() map[string]keystore.Rotation {
		t.Helper()
		out := map[string]keystore.Rotation{}
		for _, p := range servertest.Decode[[]keystore.Rotation](t, s.Run("", "key-pair", "list", "--json")) {
			out[p.Name] = p
		}
		return out
	}
	start := list()["saml"].Current
	if out := s.Run("", "key-pair", "list"); !strings.HasPrefix(out, "NAME") || !strings.HasSuffix(out, "2 key pairs\n") ||
		!strings.Contains(out, start.SHA256[:16]) || !strings.Contains(out, "saml_sign") {
		t.Errorf("key-pair list = %s", out)
	}
	if out := s.MustCall(http.MethodDelete, "/v2/config/certificates/"+list()["saml"].ID, nil,
		http.StatusConflict); !strings.Contains(out, "saml_sign") {
		t.Errorf("the pair that signs was to be removed: %s", out)
	}
	wantPublished(s, "before", start)
	s.Refused("the rotation is at the stage idle: the next step is announce, not switch", "", "key-pair", "switch", "saml")
	out := s.Run("", "key-pair", "announce", "saml")
	announced := list()["saml"]
	if !strings.Contains(out, "caddy gatehouse key-pair switch saml\nSHA-256 "+announced.Next.SHA256+"\n-----BEGIN CERTIFICATE-----") ||
		announced.Stage != keystore.Announced {
		t.Errorf("key-pair announce = %s, then %+v", out, announced)
	}
	wantPublished(s, "announced", start, announced.Next)
	s.Refused("the next step is switch, not announce", "", "key-pair", "announce", announced.ID)
	switched := servertest.Decode[keystore.Rotation](t, s.Run("", "key-pair", "switch", "saml", "--json"))
	if switched.Stage != keystore.Switched || switched.Current.SHA256 != announced.Next.SHA256 || switched.Former.SHA256 != start.SHA256 {
		t.Errorf("key-pair switch = %+v", switched)
	}
	wantPublished(s, "switched", switched.Current, start)
	if out := s.Run("", "key-pair", "retire", announced.ID); out != "The former keys of saml are removed.\n" {
		t.Errorf("key-pair retire = %q", out)
	}
	wantPublished(s, "retired", switched.Current)
	s.Refused("no key pair saml1; did you mean saml?", "", "key-pair", "announce", "saml1")
	s.Refused("it cannot be rotated", "", "key-pair", "announce", "partner")
	s.Refused("at most 1 arg", "", "key-pair", "announce", "saml", "partner")
	if out, err := servertest.Run(t, "", "__complete", "key-pair", "announce", "--address", s.Admin, ""); err != nil ||
		!strings.HasPrefix(out, "saml\t") || strings.Contains(out, "partner") {
		t.Errorf("the shell completes %q, %v", out, err)
	}
	// Without a name it is Gatehouse's own, which is made now.
	if out := s.Run("", "key-pair", "announce"); !strings.Contains(out, "Gatehouse's own key pair are published") ||
		!strings.Contains(out, "key-pair switch\nSHA-256 ") {
		t.Errorf("key-pair announce without a name = %s", out)
	}
	before := list()[""]
	out = s.Run("", "key-pair", "renew", "own")
	if now := list()[""]; now.Stage != keystore.Idle || now.Current.SHA256 == before.Current.SHA256 ||
		now.Current.SHA256 == before.Next.SHA256 || !strings.Contains(out, now.Current.SHA256) {
		t.Errorf("key-pair renew = %s, then %+v", out, now)
	}
	if out := s.Run("", "key-pair", "list"); !strings.Contains(out, "\n(own) ") {
		t.Errorf("key-pair list = %s", out)
	}
	events := servertest.Decode[struct {
		Events []audit.Info `json:"resultSet"`
	}](t, s.MustCall(http.MethodGet, "/api/events?limit=100&offset=0&actor=admin", nil, http.StatusOK))
	var said []string
	for _, e := range events.Events {
		if e.EventType == "configuration.CertificateUpdatedEvent" {
			said = append(said, e.Reason)
		}
	}
	if len(said) != 5 || said[4] != "the next keys are published for saml" || said[0] != "new keys of Gatehouse's own key pair" {
		t.Errorf("the events say %q", said)
	}
	t.Run("attack 883: by the command", func(t *testing.T) {
		for _, args := range [][]string{
			{"list"},
			{"list", "--json"},
			{"announce", "saml", "--json"},
			{"switch", "saml", "--json"},
			{"retire", "saml"},
			{"renew", "saml"},
		} {
			if out := strings.ToLower(s.Run("", append([]string{"key-pair"}, args...)...)); strings.Contains(out, "private") ||
				strings.Contains(out, strings.ToLower(base64.StdEncoding.EncodeToString([]byte("-----BEGIN PRIV")))) {
				t.Errorf("key-pair %q prints a private key: %s", args, out)
			}
		}
	})
}

// TestRotationTellsNoPrivateKey: what is told about a rotation has none of the private keys.
func TestRotationTellsNoPrivateKey(t *testing.T) {
	s := servertest.Configured(t, "")
	s.MustLoad()
	pair := servertest.KeyPair(t, "saml", 400*24*time.Hour)
	added := servertest.Decode[struct{ ID string }](t,
		s.MustCall(http.MethodPost, "/v2/config/certificates", map[string]any{"key_pair": pair}, http.StatusOK))
	pem, err := base64.StdEncoding.DecodeString(pair["private_key"])
	if err != nil {
		t.Fatal(err)
	}
	der := strings.Join(strings.Split(string(pem), "\n")[1:2], "")
	t.Run("attack 883: by the API", func(t *testing.T) {
		one := "/v2/config/certificates/" + added.ID
		for _, path := range []string{
			"POST " + one + "/rotation/announce", "POST " + one + "/rotation/switch", "GET " + one + "/rotation",
			"GET /v2/config/certificates/rotations", "GET " + one, "GET /api/events?limit=100&offset=0&actor=admin",
			"POST " + one + "/rotation/retire",
		} {
			method, path, _ := strings.Cut(path, " ")
			text := s.MustCall(method, path, nil, http.StatusOK)
			if strings.Contains(text, pair["private_key"]) || strings.Contains(text, der) ||
				strings.Contains(text, base64.StdEncoding.EncodeToString([]byte("-----BEGIN PRIV"))) {
				t.Errorf("%s %s tells the private key: %s", method, path, text)
			}
		}
	})
}

// TestDoubtfulPort: a stored directory whose scheme and port contradict each other is found as one of the Caddyfile is.
func TestDoubtfulPort(t *testing.T) {
	s := servertest.Configured(t, "")
	s.MustLoad()
	s.MustCall(http.MethodPost, "/api/v2/config", json.RawMessage(`{"login_methods":{"login_methods":[{"id":"office","name":"Office","type":"LDAP",
		"enabled":true,"ladp_attributes":{"server_urls":"ldaps://localhost:636, ldaps://localhost:389 ldap://localhost:3269","user_distinguished_name":"cn=reader,dc=example,dc=com",
		"password":"p","base_suffix":"dc=example,dc=com","match_pattern":"(uid=%s)"}}]}}`), http.StatusNoContent)
	s.WantFinding("idp office: url ldaps://localhost:389: directories usually speak the other scheme at port 389", "write `ldaps://localhost`")
	s.WantFinding("idp office: url ldap://localhost:3269: directories usually speak the other scheme", "write `ldaps://localhost:3269`")
}

// TestServiceProviderWithoutMetadata: the advice of a finding is about what is missing.
func TestServiceProviderWithoutMetadata(t *testing.T) {
	s := servertest.Configured(t, "")
	s.MustLoad()
	s.MustCall(http.MethodPost, "/api/v2/config", json.RawMessage(
		`{"organisations":[{"id":"acme","name":"Acme","service_providers":{"wiki":{"id":"wiki","name":"Wiki","type":"SAML"}}}]}`), http.StatusNoContent)
	s.WantFinding("warning", "service_provider wiki: no one can sign in by SAML: it has that type, and no saml_metadata yet", "set saml_metadata to its metadata")
}

// TestKeyPairIsNamedOnce: check names a key pair that is not there once, with what helps, and ends with it.
func TestKeyPairIsNamedOnce(t *testing.T) {
	s := servertest.NewServer(t)
	s.Extra = `
		idp office oidc {
			issuer ` + oidctest.New(t).URL + `
			client_id gatehouse
			auth_method private_key_jwt
			key nowhere
		}`
	s.MustLoad()
	out, err := s.Findings()
	if err == nil || !strings.Contains(err.Error(), "a key pair cannot be used") || strings.Contains(out, "whether its address is right") {
		t.Errorf("check = %v, want the key pair alone:\n%s", err, out)
	}
}
