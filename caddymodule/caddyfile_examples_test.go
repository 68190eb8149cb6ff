package caddymodule_test

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
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

	"github.com/caddyserver/caddy/v2"

	"github.com/gatehouse-id/gatehouse/authz/client"
	"github.com/gatehouse-id/gatehouse/caddymodule/internal/reference"
	"github.com/gatehouse-id/gatehouse/idp/kerberos/kerberostest"
	"github.com/gatehouse-id/gatehouse/storage/badgerstore"
)

const caddyfileDocument = "../docs/caddyfile.md"

// place is a block with those around it, the outermost first.
type place []*reference.Block

// places are all blocks, in the order of the document.
func places() []place {
	var out []place
	var walk func(at place)
	walk = func(at place) {
		out = append(out, at)
		for _, o := range at.block().Options {
			for _, b := range o.Blocks {
				walk(append(slices.Clone(at), b))
			}
		}
	}
	walk(place{&reference.Gatehouse})
	walk(place{&reference.Protect})
	return out
}

func (p place) block() *reference.Block { return p[len(p)-1] }

var arguments = regexp.MustCompile(` *(\[?<[^>]*>…?\]?|…)`)

// name is the heading of the block: its words without arguments, and those of the blocks around it.
func (p place) name() string {
	var words []string
	for _, b := range p {
		if b != &reference.Gatehouse || len(p) == 1 {
			words = append(words, arguments.ReplaceAllString(b.Head, ""))
		}
	}
	return strings.Join(words, " ")
}

func (p place) anchor() string { return strings.ReplaceAll(p.name(), " ", "-") }

// whole is a Caddyfile with lines in the block.
func (p place) whole(lines, needs, beside string) string {
	for i, b := range slices.Backward(p) {
		lines = wrap(b, lines, needs)
		if i > 0 {
			needs = p[i-1].Needs
			lines, beside = join(beside, lines), ""
		}
	}
	const serve = "auth.example.com {\n\tgatehouse\n}\n"
	const office = "policy office {\n\t\t\tallow {\n\t\t\t\tneed groups staff\n\t\t\t}\n\t\t}"
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
		return "{\n" + indent(lines) + "\n}\n\n" + serve
	}
	return "{\n\tgatehouse {\n\t\tissuer https://auth.example.com\n\t\t" + office + "\n\t}\n}\n\n" + serve + "\nwiki.example.com {\n" + indent(lines) + "\n\treverse_proxy localhost:9001\n}\n"
}

// wrap puts lines into a block, after those that it needs and that they do not replace.
func wrap(b *reference.Block, lines, needs string) string {
	has := map[string]bool{}
	for l := range strings.Lines(lines) {
		if word, _, _ := strings.Cut(strings.TrimSuffix(l, "\n"), " "); !strings.HasPrefix(l, "\t") {
			has[word] = true
		}
	}
	var kept []string
	for l := range strings.Lines(needs) {
		if word, _, _ := strings.Cut(l, " "); !has[word] && word != "-" {
			kept = append(kept, strings.TrimSpace(l))
		}
	}
	open := b.Open
	if open == "" {
		open = b.Head
	}
	if lines = join(strings.Join(kept, "\n"), lines); lines == "" {
		return open
	}
	return open + " {\n" + indent(lines) + "\n}"
}

func join(a, b string) string { return strings.Trim(a+"\n"+b, "\n") }

func indent(lines string) string {
	return "\t" + strings.ReplaceAll(lines, "\n", "\n\t")
}

// sample is the example of the block itself.
func sample(b *reference.Block) string {
	lines := b.Sample
	if lines == "" && b.Needs == "" {
		for _, o := range b.Options {
			lines = join(lines, o.Example)
		}
	}
	return wrap(b, lines, b.Needs)
}

// needs are the lines that the example of an option needs in its block.
func needs(b *reference.Block, o *reference.Option) string {
	if o.Instead != "" {
		return o.Instead
	}
	return b.Needs
}

// TestCaddyfileOptionsAreExplained: each option says what it does, since when, and how it is written.
func TestCaddyfileOptionsAreExplained(t *testing.T) {
	t.Parallel()
	names, version := map[string]bool{}, regexp.MustCompile(`^(0|[1-9][0-9]*)\.[0-9]+$`)
	for _, p := range places() {
		b := p.block()
		if names[p.name()] {
			t.Errorf("two blocks are named %q: a link leads to the first only", p.name())
		}
		names[p.name()] = true
		if !strings.HasSuffix(b.Text, ".") {
			t.Errorf("%s: the text is missing, or no sentence", p.name())
		}
		seen := map[string]bool{}
		for _, o := range b.Options {
			at := p.name() + ": " + o.Word
			if seen[o.Word] {
				t.Errorf("%s stands there twice", at)
			}
			seen[o.Word] = true
			if !strings.HasSuffix(o.Text, ".") {
				t.Errorf("%s: the text is missing, or no sentence", at)
			}
			if o.Since != "" && !version.MatchString(o.Since) {
				t.Errorf("%s: since %q is no version", at, o.Since)
			}
			if !o.Later && o.Example == "" && len(o.Blocks) == 0 {
				t.Errorf("%s: the example is missing", at)
			}
			if o.Example != "" && !regexp.MustCompile(`(?m)^`+o.Word+`( |$)`).MatchString(o.Example) {
				t.Errorf("%s: the example does not show it: %s", at, o.Example)
			}
			if !o.Later && o.Arguments == "" && o.Example != "" && !regexp.MustCompile(`(?m)^`+o.Word+`$`).MatchString(o.Example) {
				t.Errorf("%s: the example has arguments, the table has none: %s", at, o.Example)
			}
		}
	}
}

// values are what the placeholders of the examples stand for.
var values = map[string]string{
	"GATEHOUSE_KEY": "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=", "CREDENTIALS_KEY": "000102030405060708090a0b0c0d0e0f",
	"ADA_PASSWORD": "a-password-of-ada", "DATABASE_URL": "postgres://gatehouse:secret@localhost:5432/gatehouse",
	"DATABASE_DIRECT_URL": "postgres://gatehouse:secret@localhost:5433/gatehouse",
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
		"logo.png": picture, "settings.json": "{}", "pwned.txt": "", "apple-developer-domain-association.txt": "of Apple", "federation.pem": "", "directory-ca.pem": certPEM, "http.keytab": string(kerberostest.Keytab(t, "HTTP/auth.example.com")), "extension/en.json": "{}",
	} {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	placeholder := regexp.MustCompile(`\{env\.([A-Z_]+)\}`)
	load := func(what, text string) {
		t.Helper()
		if _, err := adapt(t, text); err != nil {
			t.Errorf("%s: %v\n%s", what, err, text)
			return
		}
		text = strings.ReplaceAll(text, "/etc/gatehouse/", dir+"/")
		text = strings.ReplaceAll(text, "/var/lib/gatehouse", dir+"/store")
		text = placeholder.ReplaceAllStringFunc(text, func(s string) string {
			if v, ok := values[placeholder.FindStringSubmatch(s)[1]]; ok {
				return v
			}
			return "a-secret-that-is-long-enough-for-everybody"
		})
		raw, err := adapt(t, text)
		var config caddy.Config
		if err == nil {
			err = json.Unmarshal([]byte(raw), &config)
		}
		if err == nil {
			config.Logging = &caddy.Logging{Logs: map[string]*caddy.CustomLog{"default": {BaseLog: caddy.BaseLog{Level: "ERROR"}}}}
			err = caddy.Validate(&config)
		}
		if err != nil {
			t.Errorf("%s: %v\n%s", what, err, text)
		}
	}
	n := 0
	for _, p := range places() {
		b, around := p.block(), p[:len(p)-1]
		if len(around) == 0 {
			load(p.name(), p.whole(b.Sample, b.Needs, ""))
		} else {
			load(p.name(), around.whole(sample(b), around.block().Needs, ""))
		}
		for _, o := range b.Options {
			if o.Example != "" && !o.Later {
				n++
				load(p.name()+": "+o.Word, p.whole(o.Example, needs(b, &o), o.Beside))
			}
		}
	}
	if n < 100 {
		t.Errorf("%d examples, want more than 100", n)
	}
	load("the first example", example)
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
