package caddymodule_test

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/google/go-cmp/cmp"

	"github.com/gatehouse-id/gatehouse/authz/client"
	"github.com/gatehouse-id/gatehouse/caddymodule/internal/reference"
	"github.com/gatehouse-id/gatehouse/caddymodule/internal/reference/referencetest"
	"github.com/gatehouse-id/gatehouse/caddymodule/servertest"
	"github.com/gatehouse-id/gatehouse/idp/kerberos/kerberostest"
	"github.com/gatehouse-id/gatehouse/storage/badgerstore"
)

// whole is a Caddyfile with lines in the block.
func whole(p referencetest.Place, lines, needs, beside string) string {
	for i, b := range slices.Backward(p) {
		lines = referencetest.Wrap(b, lines, needs)
		if i > 0 {
			needs = p[i-1].Needs
			lines, beside = referencetest.Join(beside, lines), ""
		}
	}
	const serve = "auth.example.com {\n\tgatehouse\n}\n"
	const office = "policy office {\n\t\t\tallow {\n\t\t\t\tneed groups staff\n\t\t\t}\n\t\t}"
	const gold = "\n\t\tplan gold {\n\t\t\tlimit 1000/min\n\t\t}"
	if p[0] == &reference.Gatehouse {
		if strings.Contains(lines, "\tpolicy office") && !strings.Contains(lines, "policy office {") {
			lines = strings.Replace(lines, "\tissuer https://auth.example.com\n", "\tissuer https://auth.example.com\n\t"+office+"\n", 1)
		}
		if strings.Contains(lines, "\t\texchange {") {
			lines = strings.Replace(lines, "\t\tgrants authorization_code refresh_token\n", "\t\tgrants authorization_code token_exchange\n", 1)
		}
		if strings.Contains(lines, "client deploy\n") {
			const deploy = "client deploy {\n\t\t\tauth_method workload\n\t\t\tgrants jwt_bearer\n\t\t\tscopes deploy.write\n\t\t}"
			lines = strings.Replace(lines, "\tissuer https://auth.example.com\n", "\tissuer https://auth.example.com\n\t"+deploy+"\n", 1)
		}
		return "{\n" + referencetest.Indent(lines) + "\n}\n\n" + serve
	}
	return "{\n\tgatehouse {\n\t\tissuer https://auth.example.com\n\t\t" + office + gold + "\n\t}\n}\n\n" + serve + "\nwiki.example.com {\n" +
		referencetest.Indent(lines) + "\n\treverse_proxy localhost:9001\n}\n"
}

// needs are the lines that the example of an option needs in its block.
func needs(b *reference.Block, o *reference.Option) string {
	if o.Instead != "" {
		return o.Instead
	}
	return b.Needs
}

// values are the values of the placeholders in the examples.
var values = map[string]string{
	"GATEHOUSE_KEY": "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=", "CREDENTIALS_KEY": "000102030405060708090a0b0c0d0e0f",
	"ADA_PASSWORD": "a-password-of-ada", "DATABASE_URL": "postgres://gatehouse:secret@localhost:5432/gatehouse",
	"DATABASE_DIRECT_URL": "postgres://gatehouse:secret@localhost:5433/gatehouse",
}

var environment = regexp.MustCompile(`\{env\.([A-Z0-9_]+)\}`)

// withEnvironment replaces the environment variables in a Caddyfile.
func withEnvironment(text string) string {
	return environment.ReplaceAllStringFunc(text, func(s string) string {
		if v, ok := values[environment.FindStringSubmatch(s)[1]]; ok {
			return v
		}
		return "a-secret-that-is-long-enough-for-everybody"
	})
}

// TestCaddyfileExamples: each example is a part of a Caddyfile that Caddy adapts and provisions.
func TestCaddyfileExamples(t *testing.T) {
	dir := t.TempDir()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	own := &x509.Certificate{SerialNumber: big.NewInt(1), IsCA: true, BasicConstraintsValid: true}
	cert, err := x509.CreateCertificate(rand.Reader, own, own, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	keyPEM := string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
	certPEM := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert}))
	for name, content := range map[string]string{
		"ops.pem": keyPEM, "envoy.key": keyPEM, "envoy.crt": certPEM, "clients.crt": certPEM, "clients.pem": certPEM,
		"logo.png": picture, "settings.json": "{}", "pwned.txt": "5BAA61E4C9B93F3F0682250B6CF8331B7EE68FD8:9\n",
		"apple-developer-domain-association.txt": "of Apple", "federation.pem": "", "directory-ca.pem": certPEM,
		"http.keytab": string(kerberostest.Keytab(t, "HTTP/auth.example.com")), "extension/en.json": "{}",
	} {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	load := func(what, text string) {
		t.Helper()
		if _, err := servertest.Adapt(t, text); err != nil {
			t.Errorf("%s: %v\n%s", what, err, text)
			return
		}
		text = strings.ReplaceAll(text, "/etc/gatehouse/", dir+"/")
		text = strings.ReplaceAll(text, "/var/lib/gatehouse", dir+"/store")
		text = withEnvironment(text)
		if err := servertest.ValidateCaddyfile(t, text); err != nil {
			t.Errorf("%s: %v\n%s", what, err, text)
		}
	}
	n := 0
	for _, p := range referencetest.Places() {
		b, around := p.Block(), p[:len(p)-1]
		if len(around) == 0 {
			load(p.Name(), whole(p, b.Sample, b.Needs, ""))
		} else {
			load(p.Name(), whole(around, referencetest.Sample(b), around.Block().Needs, ""))
		}
		for _, o := range b.Options {
			if o.Example != "" && !o.Later {
				n++
				load(p.Name()+": "+o.Word, whole(p, o.Example, needs(b, &o), referencetest.Join(b.Around, o.Around)))
			}
		}
	}
	if n < 100 {
		t.Errorf("%d examples, want more than 100", n)
	}
	raw, err := os.ReadFile("../docs/caddyfile.md")
	if err != nil {
		t.Fatal(err)
	}
	_, first, _ := strings.Cut(string(raw), "```caddyfile\n")
	first, _, there := strings.Cut(first, "```\n")
	if !there {
		t.Fatal("docs/caddyfile.md has no example")
	}
	load("the first example", first)
}

// TestGuidesAreFormatted: a Caddyfile of a guide is as `caddy fmt` writes it, so Caddy does not warn those who copy it.
func TestGuidesAreFormatted(t *testing.T) {
	t.Parallel()
	fence, n := regexp.MustCompile("(?s)```caddyfile\n(.*?)```"), 0
	files := []string{"../README.md"}
	for _, pattern := range []string{"../docs/*.md", "../docs/*/*.md"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, found...)
	}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range fence.FindAllSubmatch(raw, -1) {
			n++
			if diff := cmp.Diff(string(caddyfile.Format(m[1])), string(m[1])); diff != "" {
				t.Errorf("%s has a Caddyfile that `caddy fmt` changes (-formatted +there):\n%s", file, diff)
			}
		}
	}
	if n < 50 {
		t.Errorf("%d Caddyfiles in the guides, want more than 50", n)
	}
}

// TestCaddyfileDefaults: what the tables call a default is one.
func TestCaddyfileDefaults(t *testing.T) {
	t.Parallel()
	c := (&client.Client{ID: "shop"}).WithDefaults()
	for _, d := range []struct {
		block *reference.Block
		word  string
		is    string
	}{
		{&reference.Lifetimes, "code", span(c.Lifetimes.Code)},
		{&reference.Lifetimes, "access_token", span(c.Lifetimes.AccessToken)},
		{&reference.Lifetimes, "refresh_token", span(c.Lifetimes.RefreshToken)},
		{&reference.Lifetimes, "refresh_chain", span(c.Lifetimes.RefreshChain)},
		{&reference.Lifetimes, "refresh_grace", span(c.Lifetimes.RefreshGrace)},
		{&reference.Client, "max_sessions", fmt.Sprint(c.MaxSessions)},
		{&reference.Client, "consent", c.Consent},
		{&reference.Client, "auth_method", c.AuthMethod},
		{&reference.Client, "id_token_alg", c.IDTokenAlg},
		{&reference.Client, "token_format", c.TokenFormat},
		{&reference.Client, "idps", strings.Join(c.IDPs, " ")},
		{&reference.Badger, "min_free", fmt.Sprintf("%dMiB", badgerstore.Options{}.Watermark()>>20)},
	} {
		if got := d.block.Option(d.word).Default; got != "`"+d.is+"`" {
			t.Errorf("%s: the default is said to be %s, and is %s", d.word, got, d.is)
		}
	}
}

// span writes a duration as a Caddyfile does.
func span(d time.Duration) string {
	if day := 24 * time.Hour; d%day == 0 {
		return fmt.Sprintf("%dd", d/day)
	}
	return regexp.MustCompile(`([hm])0[ms](0s)?$`).ReplaceAllString(d.String(), "$1")
}

// picture is a PNG of one pixel.
const picture = "\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x00\x01\x00\x00\x00\x01\x08\x06\x00\x00\x00\x1f\x15\xc4\x89\x00\x00\x00\rIDATx\x9cc\xf8\xcf\xc0\xf0\x1f\x00\x05\x00\x01\xff\x89\x99=\x1d\x00\x00\x00\x00IEND\xaeB`\x82"
