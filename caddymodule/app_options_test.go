package caddymodule_test

import (
	"bytes"
	"encoding/pem"
	"errors"
	"fmt"
	"image"
	"image/png"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/google/go-cmp/cmp"

	"github.com/gatehouse-id/gatehouse/admin/diagnostic"
	"github.com/gatehouse-id/gatehouse/caddymodule"
	"github.com/gatehouse-id/gatehouse/caddymodule/client"
	"github.com/gatehouse-id/gatehouse/caddymodule/internal/caddyfileutil"
	"github.com/gatehouse-id/gatehouse/caddymodule/servertest"
	"github.com/gatehouse-id/gatehouse/idp/saml/samltest"
)

func TestReloadWithOtherOptions(t *testing.T) {
	s := servertest.NewServer(t)
	s.MustLoad()
	token := s.Token()
	storage := s.Storage

	s.Storage = storage + " {\n min_free 64MiB\n}"
	if err := s.Load(); err == nil || !strings.Contains(err.Error(), "other options") {
		t.Errorf("reload with another min_free = %v, want a refusal", err)
	}
	if got := s.Enters(token); got != http.StatusOK {
		t.Errorf("after a refused reload: status = %d, want 200", got)
	}
	// After a full stop it is another start.
	s.Stop()
	s.MustLoad()
	if got := s.Enters(token); got != http.StatusOK {
		t.Errorf("after a restart: status = %d, want 200", got)
	}
	// A client that is gone from the configuration has inactive tokens.
	s.Extra = ""
	raw := bytes.Replace(s.JSON(), []byte(`"id":"reports"`), []byte(`"id":"renamed"`), 1)
	if err := caddy.Load(raw, true); err != nil {
		t.Fatal(err)
	}
	if got := s.Enters(token); got != http.StatusUnauthorized {
		t.Errorf("token of a client that is gone: status = %d, want 401", got)
	}
}

func TestEncryptionKey(t *testing.T) {
	s := servertest.NewServer(t)
	s.Fresh = true
	s.MustLoad()
	file := filepath.Join(s.Dir, "store.key")
	info, err := os.Stat(file)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("key file: %v, %v", info, err)
	}
	first, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	_, jwks := s.Get("/oauth/jwks")
	token := s.Token()

	s.Key = "encryption_key " + servertest.TestKey + " " + strings.TrimSpace(string(first)) // rotation: a new one seals, both open
	s.MustLoad()
	if _, now := s.Get("/oauth/jwks"); now != jwks {
		t.Error("the signing keys changed with the encryption key")
	}
	if got := s.Enters(token); got != http.StatusOK {
		t.Errorf("after the rotation: status = %d, want 200", got)
	}
	s.Key = "encryption_key " + servertest.OtherKey // none that opens what is sealed
	if err := s.Load(); err == nil || !strings.Contains(err.Error(), "encryption_key") {
		t.Errorf("load with a wrong key = %v, want an error that names encryption_key", err)
	}
	if got := s.Enters(token); got != http.StatusOK {
		t.Errorf("after a refused key: status = %d, want 200", got)
	}
	s.Key = "encryption_key " + servertest.TestKey // the older one is gone: what it had sealed was resealed
	servertest.Eventually(t, "the new key has sealed everything", func() bool { return s.Load() == nil })
	if again, err := os.ReadFile(file); err != nil || string(again) != string(first) {
		t.Error("the key file changed")
	}
	// Counters go on in the registry of each new configuration.
	if _, body := s.Do(s.Request(http.MethodGet, "http://"+s.Admin+"/metrics", nil)); !strings.Contains(body,
		"gatehouse_token_responses_total 1\n") {
		t.Error("/metrics lost its counters at a reload")
	}
}

// TestOlderEncryptionKeyCanGo: after the encryption key was replaced, the server says when the older one is needed no
// more, and which clients still need it, and then starts, signs and knows its clients without it.
func TestOlderEncryptionKeyCanGo(t *testing.T) {
	s := servertest.NewServer(t)
	s.Key = "encryption_key " + servertest.OtherKey
	s.MustLoad()
	_, jwks := s.Get("/oauth/jwks")
	secrets := map[string]string{}
	for _, id := range []string{"batch", "idle"} {
		secrets[id] = servertest.Decode[map[string]string](t,
			s.Run("", "client", "add", id, "--grants", "client_credentials", "--scopes", "orders.read", "--json"))["secret"]
	}
	token := func(id string) int {
		t.Helper()
		r := s.Request(http.MethodPost, s.Issuer()+"/oauth/token", strings.NewReader("grant_type=client_credentials&scope=orders.read"))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.SetBasicAuth(id, secrets[id])
		resp, _ := s.Do(r)
		return resp.StatusCode
	}
	s.Key = "encryption_key " + servertest.TestKey + " " + servertest.OtherKey
	s.MustLoad()
	if out := s.Run("", "keys", "reseal"); !strings.Contains(out, "older encryption keys can be removed") ||
		!strings.Contains(out, "those of batch, idle.") {
		t.Errorf("keys reseal = %s, want that the older key can go after its clients", out)
	}
	if got := token("batch"); got != http.StatusOK {
		t.Errorf("token with both keys = %d, want 200", got)
	}
	if out := s.Run("", "keys", "reseal"); !strings.Contains(out, "those of idle.") {
		t.Errorf("keys reseal = %s, want that one client is left", out)
	}
	secrets["idle"] = servertest.Decode[map[string]string](t, s.Run("", "client", "rotate-secret", "idle", "--json"))["secret"]
	if out := s.Run("", "keys", "reseal"); !strings.Contains(out, "can be removed once sessions of before have ended.") {
		t.Errorf("keys reseal = %s, want that no client is left", out)
	}
	s.Stop()
	s.Key = "encryption_key " + servertest.TestKey
	s.MustLoad()
	if _, now := s.Get("/oauth/jwks"); now != jwks {
		t.Error("the signing keys changed when the older encryption key was removed")
	}
	for id := range secrets {
		if got := token(id); got != http.StatusOK {
			t.Errorf("token of %s without the older key = %d, want 200", id, got)
		}
	}
	if out := s.Run("", "keys", "reseal"); !strings.Contains(out, "has one encryption key") ||
		!strings.Contains(out, "0 signing keys, 0 secrets") {
		t.Errorf("keys reseal with one key = %s", out)
	}
}

// TestProvision: JSON is judged as the Caddyfile is, all of it in one message, without any secret in it.
func TestProvision(t *testing.T) {
	t.Setenv("GATEHOUSE_TEST_ISSUER", "http://localhost:8080")
	t.Setenv("GATEHOUSE_TEST_SHORT", "hunter2")
	good := `"issuer":"{env.GATEHOUSE_TEST_ISSUER}"`
	keys := filepath.Join(t.TempDir(), "keys.json")
	servertest.WriteFile(t, keys, `{"keys":[{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}`,
		0o600) // RFC 8037 appendix A
	for name, tt := range map[string]struct {
		app  string
		want []string // parts of the error; none: it is good
	}{
		"issuer by placeholder": {good, nil},
		"everything missing":    {``, []string{"issuer is missing"}},
		"unknown member":        {good + `,"issuers":"x"`, []string{"issuers"}},
		"placeholder that is not set": {
			`"issuer":"{env.GATEHOUSE_TEST_NOTHING}"`,
			[]string{"issuer", "{env.GATEHOUSE_TEST_NOTHING}", "set it"},
		},
		"placeholder that is not known": {`"issuer":"{http.request.host}"`, []string{"issuer", "unrecognized placeholder"}},
		"issuer with a path":            {`"issuer":"https://a.example.com/auth"`, []string{"a path (/auth)"}},
		"idps":                          {good + `,"idps":{"edge":{"module":"header","trust":["10.0.0.0/8"],"user":"X-Remote-User"}}`, nil},
		"idp without trust": {
			good + `,"idps":{"edge":{"module":"header","user":"X-Remote-User"}}`,
			[]string{"idp", "trust is missing"},
		},
		"idp of another kind": {good + `,"idps":{"corp":{"module":"oidc"}}`, []string{"gatehouse.idp.oidc"}},
		"idp called identity": {
			good + `,"idps":{"identity":{"module":"header","trust":["10.0.0.0/8"],"user":"X-Remote-User"}}`,
			[]string{"choose another id"},
		},
		"idp with a parameter of ours": {
			good +
				`,"idps":{"edge":{"module":"header","trust":["10.0.0.0/8"],"user":"X-Remote-User","parameters":["state"]}}`,
			[]string{`parameters: "state"`},
		},
		"idps of a client": {
			good + `,"clients":[{"id":"a","public":true,"grants":["authorization_code"],"redirect_uris":["https://a.example.com/"],"scopes":["x"],"idps":["identity","edge"]}]`,
			[]string{"client a: idps: there is no provider edge"},
		},
		"sms": {good +
			`,"sms":{"module":"webhook","url":"https://sms.example.com/send","headers":{"Authorization":"x"},"timeout":"3s"}`, nil},
		"sms without its parts": {good + `,"sms":{"module":"webhook"}`, []string{"sms webhook: url is missing"}},
		"sms that takes too long": {
			good + `,"sms":{"module":"webhook","url":"https://sms.example.com/send","timeout":"1m"}`,
			[]string{"timeout is not between"},
		},
		"sms over http": {
			good + `,"sms":{"module":"webhook","url":"http://sms.example.com/send","headers":{"Host":"x"}}`,
			[]string{"use https", "header Host is ours"},
		},
		"sms by nobody": {good + `,"sms":{"module":"pigeon"}`, []string{"gatehouse.sms.pigeon"}},
		"push": {good + `,"push":{"module":"webhook","url":"https://push.example.com/send","secret":"` +
			strings.Repeat("s", 32) + `"}`, nil},
		"push without its parts": {
			good + `,"push":{"module":"webhook","url":"https://push.example.com/send"}`,
			[]string{"push webhook: secret is missing"},
		},
		"mail": {good + `,"mail":{"module":"smtp","server":"smtp.example.com:587","from":"a@example.com"}`, nil},
		"mail without its parts": {
			good + `,"mail":{"module":"smtp","server":"smtp.example.com","timeout":"1m"}`,
			[]string{"want host and port", "from is missing"},
		},
		"mail that takes too long": {
			good + `,"mail":{"module":"smtp","server":"smtp.example.com:25","from":"a@example.com","timeout":"1m"}`,
			[]string{"at most 25s"},
		},
		"mail by nobody": {good + `,"mail":{"module":"pigeon"}`, []string{"gatehouse.mail.pigeon"}},
		"breaches": {
			good + `,"identity":{"breach":{"url":"breach.example.com","on_failure":"shrug"}}`,
			[]string{"breach url: want a URL", `"shrug" is not known`},
		},
		"networks that are opened": {good + `,"outbound":{"allow":["10.0.0.0/8","192.168.1.5","fd00::/8"]}`, nil},
		"networks that are none": {
			good + `,"outbound":{"allow":["10.0.0.1/8","intranet",""]}`,
			[]string{"write 10.0.0.0/8", `"intranet" is not an address or network`, "a value is empty"},
		},
		"webhook of events": {good +
			`,"events":{"webhooks":[{"url":"https://siem.example.com/","secret":"a-secret-of-at-least-32-characters"}]}`, nil},
		"webhook without its parts": {
			good + `,"events":{"webhooks":[{},{"url":"ftp://x","secret":"hunter2"}]}`,
			[]string{"url is missing", "secret is missing", "events: webhook: want a URL", "webhook secret"},
		},
		"parts of identity": {
			good + `,"identity":{"partitions":{"names":["Not One"]}}`,
			[]string{"partitions: is not a name of 1 to 64"},
		},
		"mail about access": {good +
			`,"identity":{"access_mail":["ops@example.com"],"access_mail_groups":["admins"]},"mail":{"module":"smtp","server":"smtp.example.com:587","from":"a@example.com"}`, nil},
		"access without mail": {
			good + `,"identity":{"access_mail":["ops"],"access_mail_groups":["admins"]}`,
			[]string{"identity: access_mail: nothing delivers e-mails: add mail", "want an e-mail address"},
		},
		"other languages": {good + `,"identity":{"locales":["nl","de-AT"]}`, nil},
		"languages that are none": {
			good + `,"identity":{"locales":["xh","../en"]}`,
			[]string{"there are no messages for xh", "../en is not a locale"},
		},
		"keys in a file": {good + clientWithKeys(keys), nil},
		"keys at a URL":  {good + clientWithKeys("https://a.example.com/jwks"), nil},
		"keys beside a secret": {good + strings.Replace(clientWithKeys(keys), `"grants"`, `"secrets":["`+servertest.TestSecret+`"],"grants"`,
			1), []string{"remove either"}},
		"logout pages of others": {
			good + strings.Replace(clientWithKeys(keys), `"grants"`,
				`"redirect_uris":["https://a.example.com/"],"frontchannel_logout_uri":"https://b.example.com/","grants"`, 1),
			[]string{"frontchannel_logout_uri"},
		},
		"jwt access tokens": {good + `,"clients":[{"id":"a","secrets":["` + servertest.TestSecret +
			`"],"grants":["client_credentials"],"scopes":["x"],"token_format":"jwt"}]`, nil},
		"app without a version": {
			good + `,"clients":[{"id":"a","public":true,"grants":["authorization_code"],"redirect_uris":["https://a.example.com/"],"scopes":["x"],"app":{"identifier":"x","platform":"y"}}]`,
			[]string{"app: the version"},
		},
		"short secret out of a placeholder": {
			good + `,"clients":[{"id":"a","secrets":["{env.GATEHOUSE_TEST_SHORT}"],"grants":["client_credentials"],"scopes":["x"]}]`,
			[]string{"client a: secret: has 7 characters"},
		},
		"usage limit": {good + `,"scopes":[{"name":"x","usage_limit":-5}]`, []string{"is not between 0 and"}},
		"numbers as numbers": {good +
			`,"scopes":[{"name":"x","usage_limit":5,"level":2}],"identity":{"session":{"idle":3600000000000}},"clients":[{"id":"a","public":true,` +
			`"grants":["authorization_code"],"redirect_uris":["https://a.example.com/"],"scopes":["x"],"lifetimes":{"code":30000000000}}]`, nil},
		"client twice": {good +
			`,"clients":[{"id":"a","public":true,"grants":["authorization_code"],"redirect_uris":["https://a.example.com/"],"scopes":["x"]},{"id":"a","public":true,"grants":["authorization_code"],"redirect_uris":["https://a.example.com/"],"scopes":["x"]}]`, []string{"client a is defined twice"}},
		"person twice": {
			good +
				`,"identity":{"persons":[{"username":"a","password":"long enough"},{"username":"A","password":"long enough"}]}`,
			[]string{"person A is defined twice"},
		},
		"partitions that are off": {good + `,"api_clients":[{"id":"a","secrets":["` + servertest.TestSecret +
			`"],"apis":["persons"],"partitions":["acme"]}]`, []string{"api_client a: partitions is set, but identity has no partitions"}},
		"a partition that there is not": {
			good + `,"identity":{"partitions":{"names":["acme"]}},"api_clients":[{"id":"a","secrets":["` + servertest.TestSecret +
				`"],"apis":["persons"],"partitions":["acme","default","globex"]}]`,
			[]string{`api_client a: identity has no partition "globex"`},
		},
		"storage":               {good + `,"storage":{"module":"nothing"}`, []string{"gatehouse.storage.nothing"}},
		"storage without a URL": {good + `,"storage":{"module":"postgres"}`, []string{"storage postgres", "url"}},
		"storage size":          {good + `,"storage":{"module":"badger","min_free":"much"}`, []string{"min_free"}},
		"key":                   {good + `,"encryption_keys":["c2hvcnQ="]`, []string{"encryption_key 1: has 5 bytes"}},
		"passkeys":              {good + `,"identity":{"passkeys":"on"}`, nil},
		"usernames": {good +
			`,"identity":{"usernames":"email","persons":[{"username":"ada@example.com"},{"username":"default\\bob@example.com"}],"partitions":{}}`, nil},
		"usernames phone": {good + `,"identity":{"usernames":"phone"}`, []string{`usernames: "phone" is not known`}},
		"usernames and ada": {
			good + `,"identity":{"usernames":"email","persons":[{"username":"ada"}]}`,
			[]string{"person ada", "`usernames email`", "remove"},
		},
		"passkeys nowhere": {`"issuer":"http://127.0.0.1:8080","identity":{"passkeys":"on"}`, []string{"passkeys: browsers allow them"}},
		"passkeys perhaps": {good + `,"identity":{"passkeys":"perhaps"}`, []string{`passkeys: "perhaps" is not known`}},
		"help that is none": {
			good + `,"identity":{"brand":{"help":"javascript:alert(1)"}}`,
			[]string{"brand help", "is not an http, https or mailto URL"},
		},
		"several at once": {
			`"issuer":"ftp://x","encryption_keys":["x"],"identity":{"lockout":{"failures":0}}`,
			[]string{"issuer: ", "encryption_key 1: ", "lockout failures: "},
		},
	} {
		t.Run(name, func(t *testing.T) {
			err := servertest.Validate(t, []byte(`{"admin":{"disabled":true},"apps":{"gatehouse":{`+tt.app+`},`+anySite+`}}`))
			if tt.want == nil && err != nil {
				t.Fatalf("Validate: %v", err)
			}
			for _, want := range tt.want {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("Validate = %v, want an error with %q", err, want)
				}
			}
			if err != nil && (strings.Contains(err.Error(), "hunter2") || strings.Contains(err.Error(), servertest.TestSecret)) {
				t.Errorf("the error repeats a secret: %v", err)
			}
		})
	}
}

// clientWithKeys is a client in JSON that authenticates with the keys at a place.
func clientWithKeys(jwks string) string {
	return `,"clients":[{"id":"a","auth_method":"private_key_jwt","jwks":"` + jwks + `","grants":["client_credentials"],"scopes":["x"]}]`
}

// TestProvisionFaults: a file that cannot be used is a finding about the one that it is of, and no error.
func TestProvisionFaults(t *testing.T) {
	dir := t.TempDir()
	private := filepath.Join(dir, "private.json")
	servertest.WriteFile(t, private,
		`{"keys":[{"kty":"OKP","crv":"Ed25519","d":"nWGxne_9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}`, 0o600)
	for name, tt := range map[string]struct {
		app  string
		want []string // parts of the finding
	}{
		"no extension there": {
			`,"identity":{"extension":"` + filepath.Join(dir, "gone") + `"}`,
			[]string{"identity: extension: ", "no such file"},
		},
		"logo not there": {`,"identity":{"brand":{"logo":"/nowhere/logo.png"}}`, []string{"brand logo", "/nowhere/logo.png"}},
		"logo of a client": {
			`,"clients":[{"id":"a","secrets":["` + servertest.TestSecret + `"],"grants":["client_credentials"],"scopes":["x"],"logo":"x"}]`,
			[]string{"client a: logo: ", "x is not a .png, .jpg or .gif file"},
		},
		"keys in no file": {
			clientWithKeys(filepath.Join(dir, "keys.json")),
			[]string{"client a: jwks: ", "no such file", "anything signed by these keys is refused"},
		},
		"a private key": {
			clientWithKeys(private),
			[]string{"client a: jwks: ", "publish the public part alone", "anything signed by these keys is refused"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			found, err := diagnostic.Collect(func() error {
				return servertest.Validate(t,
					[]byte(`{"admin":{"disabled":true},"apps":{"gatehouse":{"issuer":"http://localhost:8080"`+tt.app+`},`+anySite+`}}`))
			})
			if err != nil {
				t.Errorf("Validate = %v, want a finding alone", err)
			}
			if len(found) != 1 || found[0].Severity != diagnostic.Warning {
				t.Fatalf("findings = %v, want one warning", found)
			}
			for _, want := range tt.want {
				if text := found[0].String(); !strings.Contains(text, want) {
					t.Errorf("finding = %q, want %q in it", text, want)
				}
			}
		})
	}
}

// anySite is a site that serves the issuer of any configuration.
const anySite = `"http":{"servers":{"any":{"listen":[":0"],"routes":[{"handle":[{"handler":"gatehouse"}]}]}}}`

// atHome makes a directory with every file that the golden configurations name, sets their placeholders, and goes
// there.
func atHome(t *testing.T) {
	t.Helper()
	dir := t.TempDir()
	var picture bytes.Buffer
	if err := png.Encode(&picture, image.NewGray(image.Rect(0, 0, 4, 4))); err != nil {
		t.Fatal(err)
	}
	partner := samltest.New("https://idp.example.com/metadata", time.Now)
	for name, text := range map[string]string{
		"logo.png": picture.String(), "partner.png": picture.String(), "identity.json": `{"redirects":{"url_after_login":"/welcome"}}`,
		"partner-metadata.xml": string(partner.SignedMetadata(partner.Key)),
		"partner.pem":          string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: partner.Key.Certificate.Raw})),
		"breached.txt":         strings.Repeat("0", 40) + ":1\n",
	} {
		servertest.WriteFile(t, filepath.Join(dir, name), text, 0o600)
	}
	for name, value := range map[string]string{
		"UNITS": filepath.Join(dir, "identity.json"), "GATEHOUSE_KEY": servertest.TestKey, "GATEHOUSE_OLD_KEY": servertest.OtherKey,
		"SHOP_SECRET": servertest.TestSecret, "WIKI_SECRET": servertest.TestSecret, "CODE_SECRET": servertest.TestSecret,
		"FORGE_SECRET": servertest.TestSecret, "API_SECRET": servertest.TestSecret,
		"SHOP_OLD_SECRET": servertest.TestSecret + "-old", "OPS_SECRET": servertest.TestSecret, "S": servertest.TestSecret,
		"RS_SECRET": servertest.TestSecret, "CORP_SECRET": servertest.TestSecret, "LDAP_PASSWORD": servertest.TestSecret,
		"DEMO_PASSWORD": servertest.TestPassword, "LOGO": filepath.Join(dir, "logo.png"), "OFFICE": "192.0.2.0/24", "EXT": t.TempDir(),
		"NET":  "198.51.100.0/24",
		"HOOK": "https://hook.example.com/", "K": strings.Repeat("0123456789abcdef", 4), "SECOND": "second",
		"SMTP_SERVER": "smtp.example.com:587", "SMTP_FROM": "Gatehouse <no-reply@example.com>", "SMTP_USER": "u",
		"SMTP_PASSWORD": servertest.TestSecret, "SMTP_TLS": "starttls",
		"SMS_URL": "https://sms.example.com/", "SMS_TOKEN": servertest.TestSecret, "SMS_KEY": servertest.TestSecret, "SMS_FROM": "The shop",
		"PUSH_SECRET": servertest.TestSecret, "PUSH_TOKEN": "t",
	} {
		t.Setenv(name, value)
	}
	t.Chdir(dir)
}

// TestJSONEqualsCaddyfile: what every good golden file adapts to can be provisioned.
func TestJSONEqualsCaddyfile(t *testing.T) {
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	atHome(t)
	t.Setenv("DATABASE_URL", "postgres://gatehouse@127.0.0.1:1/gatehouse") // which is asked for at the start alone
	files, err := filepath.Glob(filepath.Join(here, "testdata/adapt/*.caddyfiletest"))
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, file := range append(files, filepath.Join(here, "../Caddyfile.example")) {
		if base := filepath.Base(file); strings.HasPrefix(base, "bad_") || strings.HasPrefix(base, "later_") {
			continue
		}
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		input, _, _ := strings.Cut(string(raw), separator)
		input = strings.NewReplacer("/var/lib/gatehouse/breached.txt", "breached.txt", "/etc/gatehouse/clients.pem", "partner.pem").Replace(input)
		adapted, _, err := caddyconfig.GetAdapter("caddyfile").Adapt([]byte(input), map[string]any{"filename": "Caddyfile"})
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		if !bytes.Contains(adapted, []byte(`"http":`)) {
			adapted = bytes.Replace(adapted, []byte(`"apps":{`), []byte(`"apps":{`+anySite+`,`), 1)
		}
		if err := servertest.Validate(t, adapted); err != nil {
			t.Errorf("%s: %v", file, err)
		}
		n++
	}
	if n < 3 {
		t.Errorf("only %d configurations", n)
	}
}

// TestExampleIsFormatted: a start warns of a Caddyfile that is not as caddy fmt writes it.
func TestExampleIsFormatted(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("../Caddyfile.example")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(caddyfile.Format(raw)), string(raw)); diff != "" {
		t.Errorf("Caddyfile.example is not formatted (-want +got):\n%s", diff)
	}
}

// TestSecretsAreNotPrinted: a configuration can be printed by accident.
func TestSecretsAreNotPrinted(t *testing.T) {
	t.Parallel()
	a := &caddymodule.App{
		EncryptionKeys: []caddyfileutil.Sensitive{servertest.TestKey},
		Clients: []client.Client{{
			ID: "a", Secrets: []caddyfileutil.Sensitive{servertest.TestSecret},
			SecretHashes: []caddyfileutil.Sensitive{"$2a$hash"},
		}},
		Identity: caddymodule.Identity{Persons: []caddymodule.Person{{Username: "demo", Password: servertest.TestPassword}}},
	}
	for _, text := range []string{
		fmt.Sprintf("%v", a.Clients), fmt.Sprintf("%+v", a.Identity), fmt.Sprintf("%#v", a.EncryptionKeys),
		fmt.Sprint(errors.New(fmt.Sprint(a.Clients[0]))),
	} {
		for _, s := range []string{servertest.TestKey, servertest.TestSecret, servertest.TestPassword, "$2a$hash"} {
			if strings.Contains(text, s) {
				t.Errorf("printed: %s", text)
			}
		}
	}
}
