package caddymodule_test

import (
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/keypair"
	"github.com/gatehouse-id/gatehouse/internal/event"
)

var metadataCertificate = regexp.MustCompile(`(?s)<(?:\w+:)?X509Certificate>(.*?)</`)

// published returns the certificates in Gatehouse's SAML metadata as PublicPart has them, the one that signs first.
func (s *server) published() (out []string) {
	s.t.Helper()
	resp, body := s.get("/sso/metadata")
	if resp.StatusCode != http.StatusOK {
		s.t.Fatalf("the metadata = %d %s", resp.StatusCode, body)
	}
	for _, m := range metadataCertificate.FindAllStringSubmatch(body, -1) {
		if one := strings.Join(strings.Fields(m[1]), ""); !slices.Contains(out, one) {
			out = append(out, one)
		}
	}
	return out
}

// of returns certificates as published has them.
func certificatesOf(t *testing.T, parts ...*keypair.PublicPart) (out []string) {
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
func (s *server) wantPublished(what string, parts ...*keypair.PublicPart) {
	s.t.Helper()
	want := certificatesOf(s.t, parts...)
	if got := s.published(); !slices.Equal(got, want) {
		s.t.Errorf("%s: the metadata have %d certificates, want these %d:\n%s\n%s", what, len(got), len(want), got, want)
	}
}

// TestRotateKeyPairByAPI: the metadata have the next keys from the moment that they are announced, and the former ones
// until they are retired. Each step is an event of the API client; one without the right takes none.
func TestRotateKeyPairByAPI(t *testing.T) {
	s := configured(t, `api_client reader {
		secret `+opsSecret+`
		apis events persons
	}`)
	s.mustLoad()
	const own = "/v2/config/certificates/own"
	step := func(path string) keypair.Rotation {
		t.Helper()
		return decode[keypair.Rotation](t, s.mustCall(http.MethodPost, own+path, nil, http.StatusOK))
	}
	start := decode[keypair.Rotation](t, s.mustCall(http.MethodGet, own+"/rotation", nil, http.StatusOK))
	s.wantPublished("before", start.Current)
	announced := step("/rotation/announce")
	s.wantPublished("announced", start.Current, announced.Next)
	s.mustCall(http.MethodPost, own+"/rotation/announce", nil, http.StatusConflict)
	s.mustCall(http.MethodPost, own+"/rotation/retire", nil, http.StatusConflict)
	switched := step("/rotation/switch")
	s.wantPublished("switched", announced.Next, start.Current)
	retired := step("/rotation/retire")
	s.wantPublished("retired", announced.Next)
	if switched.Current.SHA256 != announced.Next.SHA256 || retired.Former != nil || retired.Stage != keypair.Idle {
		t.Errorf("switched: %+v, retired: %+v", switched, retired)
	}
	renewed := step("/renew")
	s.wantPublished("renewed", renewed.Current)
	r := s.request(http.MethodPost, s.issuer()+own+"/rotation/announce", nil)
	r.SetBasicAuth("reader", opsSecret)
	if resp, body := s.do(r); resp.StatusCode != http.StatusForbidden || !strings.Contains(body, "may not use this API") {
		t.Errorf("without the right = %d %s", resp.StatusCode, body)
	}
	s.wantPublished("after a refusal", renewed.Current)
	events := decode[struct {
		Events []event.Info `json:"resultSet"`
	}](t, s.mustCall(http.MethodGet, "/api/events?limit=100&offset=0&actor=admin", nil, http.StatusOK))
	var said []string
	for _, e := range events.Events {
		if e.EventType == "configuration.CertificateUpdatedEvent" && e.EventAgentUser == "admin" {
			what, _, _ := strings.Cut(e.Reason, " Gatehouse")
			said = append(said, what)
		}
	}
	if want := []string{"new keys of", "the former keys are retired of", "the next keys are used for", "the next keys are published for"}; !slices.Equal(said, want) {
		t.Errorf("the events say %q, want %q", said, want)
	}
}

// TestRotateKeyPairByCommand: the whole rotation of a named pair and of Gatehouse's own, what is printed, and what is
// refused.
func TestRotateKeyPairByCommand(t *testing.T) {
	s := configured(t, "saml_sign saml")
	s.mustLoad()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	partner := keyPair(t, "partner", 400*24*time.Hour)
	partner["key_type"], partner["private_key"] = "CERTIFICATE", ""
	for _, pair := range []map[string]string{keyPairOf(t, "saml", "RSA", key, 400*24*time.Hour), partner} {
		s.mustCall(http.MethodPost, "/v2/config/certificates", map[string]any{"key_pair": pair}, http.StatusOK)
	}
	list := func() map[string]keypair.Rotation {
		t.Helper()
		out := map[string]keypair.Rotation{}
		for _, p := range decode[[]keypair.Rotation](t, s.run("", "key-pair", "list", "--json")) {
			out[p.Name] = p
		}
		return out
	}
	start := list()["saml"].Current
	if out := s.run("", "key-pair", "list"); !strings.HasPrefix(out, "NAME") || !strings.HasSuffix(out, "2 key pairs\n") || !strings.Contains(out, start.SHA256[:16]) || !strings.Contains(out, "saml_sign") {
		t.Errorf("key-pair list = %s", out)
	}
	if out := s.mustCall(http.MethodDelete, "/v2/config/certificates/"+list()["saml"].ID, nil, http.StatusConflict); !strings.Contains(out, "saml_sign") {
		t.Errorf("the pair that signs was to be removed: %s", out)
	}
	s.wantPublished("before", start)
	s.refused("the rotation is at the stage idle: the next step is announce, not switch", "", "key-pair", "switch", "saml")
	out := s.run("", "key-pair", "announce", "saml")
	announced := list()["saml"]
	if !strings.Contains(out, "caddy gatehouse key-pair switch saml\nSHA-256 "+announced.Next.SHA256+"\n-----BEGIN CERTIFICATE-----") || announced.Stage != keypair.Announced {
		t.Errorf("key-pair announce = %s, then %+v", out, announced)
	}
	s.wantPublished("announced", start, announced.Next)
	s.refused("the next step is switch, not announce", "", "key-pair", "announce", announced.ID)
	switched := decode[keypair.Rotation](t, s.run("", "key-pair", "switch", "saml", "--json"))
	if switched.Stage != keypair.Switched || switched.Current.SHA256 != announced.Next.SHA256 || switched.Former.SHA256 != start.SHA256 {
		t.Errorf("key-pair switch = %+v", switched)
	}
	s.wantPublished("switched", switched.Current, start)
	if out := s.run("", "key-pair", "retire", announced.ID); out != "The former keys of saml are removed.\n" {
		t.Errorf("key-pair retire = %q", out)
	}
	s.wantPublished("retired", switched.Current)
	s.refused("no key pair saml1; did you mean saml?", "", "key-pair", "announce", "saml1")
	s.refused("it cannot be rotated", "", "key-pair", "announce", "partner")
	s.refused("at most 1 arg", "", "key-pair", "announce", "saml", "partner")
	if out, err := run(t, "", "__complete", "key-pair", "announce", "--address", s.admin, ""); err != nil || !strings.HasPrefix(out, "saml\t") || strings.Contains(out, "partner") {
		t.Errorf("the shell completes %q, %v", out, err)
	}
	// Without a name it is Gatehouse's own, which is made now.
	if out := s.run("", "key-pair", "announce"); !strings.Contains(out, "Gatehouse's own key pair are published") || !strings.Contains(out, "key-pair switch\nSHA-256 ") {
		t.Errorf("key-pair announce without a name = %s", out)
	}
	before := list()[""]
	out = s.run("", "key-pair", "renew", "own")
	if now := list()[""]; now.Stage != keypair.Idle || now.Current.SHA256 == before.Current.SHA256 || now.Current.SHA256 == before.Next.SHA256 || !strings.Contains(out, now.Current.SHA256) {
		t.Errorf("key-pair renew = %s, then %+v", out, now)
	}
	if out := s.run("", "key-pair", "list"); !strings.Contains(out, "\n(own) ") {
		t.Errorf("key-pair list = %s", out)
	}
	events := decode[struct {
		Events []event.Info `json:"resultSet"`
	}](t, s.mustCall(http.MethodGet, "/api/events?limit=100&offset=0&actor=admin", nil, http.StatusOK))
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
		for _, args := range [][]string{{"list"}, {"list", "--json"}, {"announce", "saml", "--json"}, {"switch", "saml", "--json"}, {"retire", "saml"}, {"renew", "saml"}} {
			if out := strings.ToLower(s.run("", append([]string{"key-pair"}, args...)...)); strings.Contains(out, "private") || strings.Contains(out, strings.ToLower(base64.StdEncoding.EncodeToString([]byte("-----BEGIN PRIV")))) {
				t.Errorf("key-pair %q prints a private key: %s", args, out)
			}
		}
	})
}

// TestRotationTellsNoPrivateKey: what is told about a rotation has none of the private keys.
func TestRotationTellsNoPrivateKey(t *testing.T) {
	s := configured(t, "")
	s.mustLoad()
	pair := keyPair(t, "saml", 400*24*time.Hour)
	added := decode[struct{ ID string }](t, s.mustCall(http.MethodPost, "/v2/config/certificates", map[string]any{"key_pair": pair}, http.StatusOK))
	pem, err := base64.StdEncoding.DecodeString(pair["private_key"])
	if err != nil {
		t.Fatal(err)
	}
	der := strings.Join(strings.Split(string(pem), "\n")[1:2], "")
	t.Run("attack 883: by the API", func(t *testing.T) {
		one := "/v2/config/certificates/" + added.ID
		for _, path := range []string{"POST " + one + "/rotation/announce", "POST " + one + "/rotation/switch", "GET " + one + "/rotation", "GET /v2/config/certificates/rotations", "GET " + one, "GET /api/events?limit=100&offset=0&actor=admin", "POST " + one + "/rotation/retire"} {
			method, path, _ := strings.Cut(path, " ")
			text := s.mustCall(method, path, nil, http.StatusOK)
			if strings.Contains(text, pair["private_key"]) || strings.Contains(text, der) || strings.Contains(text, base64.StdEncoding.EncodeToString([]byte("-----BEGIN PRIV"))) {
				t.Errorf("%s %s tells the private key: %s", method, path, text)
			}
		}
	})
}
