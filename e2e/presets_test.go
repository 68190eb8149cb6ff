package e2e

import (
	"bytes"
	"encoding/json"
	"image"
	"image/color"
	"image/png"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"text/template"

	"github.com/chromedp/chromedp"
)

// standIns are the running stand-ins of the providers that presets know.
type standIns struct {
	t   *testing.T
	in  io.WriteCloser
	out *json.Decoder

	Providers map[string]map[string]string `json:"providers"` // what an operator is told at each
	Keys      []json.RawMessage            `json:"keys"`      // key pairs for the configuration API
}

// startStandIns runs them until the end of the test.
func startStandIns(t *testing.T) *standIns {
	t.Helper()
	cmd := exec.Command("../bin/testidp")
	cmd.Env, cmd.Stderr = environ(t.TempDir()), t.Output()
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatalf("%v: build them at the root of the tree, as make test does: go build -o bin/testidp ./internal/testidp", err)
	}
	w := &standIns{t: t, in: in, out: json.NewDecoder(out)}
	t.Cleanup(func() {
		in.Close()
		if err := cmd.Wait(); err != nil {
			t.Errorf("the test providers ended: %v", err)
		}
	})
	if err := w.out.Decode(w); err != nil {
		t.Fatalf("the stand-ins say nothing: %v", err)
	}
	return w
}

// with adds the providers to the configuration.
func (w *standIns) with(caddyfile string) string {
	w.t.Helper()
	blocks, err := template.New("").Parse(presetBlocks)
	if err != nil {
		w.t.Fatal(err)
	}
	w.Providers["github"]["icon"] = darkLogo(w.t)
	var b bytes.Buffer
	if err := blocks.Execute(&b, w.Providers); err != nil {
		w.t.Fatal(err)
	}
	// The back channels of the national services are elsewhere than their metadata.
	b.WriteString("\t\toutbound {\n\t\t\tallow 127.0.0.1/32\n\t\t}\n")
	caddyfile = strings.Replace(caddyfile, "apis introspection", "apis introspection configuration", 1)
	return strings.Replace(caddyfile, "\t\tapi_client ops {", b.String()+"\t\tapi_client ops {", 1)
}

// darkLogo writes a picture that is black where it is not transparent, as many logos are.
func darkLogo(t *testing.T) (file string) {
	t.Helper()
	const size = 48
	logo := image.NewNRGBA(image.Rect(0, 0, size, size))
	for x := range size {
		for y := range size {
			if dx, dy := x-size/2, y-size/2; dx*dx+dy*dy < size*size/4 {
				logo.Set(x, y, color.Black)
			}
		}
	}
	var b bytes.Buffer
	if err := png.Encode(&b, logo); err != nil {
		t.Fatal(err)
	}
	file = filepath.Join(t.TempDir(), "logo.png")
	if err := os.WriteFile(file, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// meet gives the server the keys that it needs at the providers, and makes it known to them.
func (w *standIns) meet(s *server) {
	w.t.Helper()
	for _, pair := range w.Keys {
		if status, answer := s.configure(http.MethodPost, "/v2/config/certificates", `{"key_pair":`+string(pair)+`}`); status != http.StatusOK {
			w.t.Fatalf("add a key pair: %d %s", status, answer)
		}
	}
	for id, told := range w.Providers {
		if told["client_secret"] != "" {
			s.secret("secret at "+id, told["client_secret"])
		}
	}
	if err := json.NewEncoder(w.in).Encode(map[string]string{"issuer": s.Issuer}); err != nil {
		w.t.Fatal(err)
	}
	var answer map[string]string
	if err := w.out.Decode(&answer); err != nil || answer["issuer"] != s.Issuer {
		w.t.Fatalf("the stand-ins answer %q, %v", answer, err)
	}
}

// presetBlocks are the providers of TestPresets.
const presetBlocks = `
		idp google google {
			issuer {{.google.url}}
			client_id {{.google.client_id}}
			client_secret "{{.google.client_secret}}"
			hosted_domain {{.google.domain}}
			name Google
			map name name
			map email email
		}
		idp entra microsoft {
			issuer {{.entra.url}}
			client_id {{.entra.client_id}}
			client_secret "{{.entra.client_secret}}"
			tenant organizations
			tenants {{.entra.tenant}}
			name Microsoft
			map name name
			map preferred_username upn
		}
		idp customers azure_ad_b2c {
			issuer {{.customers.url}}
			tenant {{.customers.tenant}}
			policy {{.customers.policy}}
			client_id {{.customers.client_id}}
			client_secret "{{.customers.client_secret}}"
			name "Contoso account"
			map name name
		}
		idp apple apple {
			issuer {{.apple.url}}
			client_id {{.apple.client_id}}
			team_id {{.apple.team}}
			key_id {{.apple.key}}
			key apple
			name Apple
			map name name
			map email email
		}
		idp itsme itsme {
			issuer {{.itsme.url}}/v2
			client_id {{.itsme.client_id}}
			service_code {{.itsme.service}}
			security_level advanced
			name itsme
			map name name
		}
		idp github github {
			client_id {{.github.client_id}}
			client_secret "{{.github.client_secret}}"
			authorization_url {{.github.url}}/authorize
			token_url {{.github.url}}/token
			profile_url {{.github.url}}/profile
			emails_url {{.github.url}}/emails
			name GitHub
			icon {{.github.icon}}
			map login username
			map name name
			map email email
		}
		idp discord discord {
			client_id {{.discord.client_id}}
			client_secret "{{.discord.client_secret}}"
			authorization_url {{.discord.url}}/authorize
			token_url {{.discord.url}}/token
			profile_url {{.discord.url}}/profile
			name Discord
			map username username
			map email email
		}
		idp facebook facebook {
			client_id {{.facebook.client_id}}
			client_secret "{{.facebook.client_secret}}"
			authorization_url {{.facebook.url}}/authorize
			token_url {{.facebook.url}}/token
			profile_url {{.facebook.url}}/profile?fields=id,name,email
			name Facebook
			map name name
		}
		idp linkedin linkedin {
			client_id {{.linkedin.client_id}}
			client_secret "{{.linkedin.client_secret}}"
			authorization_url {{.linkedin.url}}/authorize
			token_url {{.linkedin.url}}/token
			profile_url {{.linkedin.url}}/profile
			name LinkedIn
			map name name
			map email email
		}
		idp twitter twitter {
			client_id {{.twitter.client_id}}
			client_secret "{{.twitter.client_secret}}"
			authorization_url {{.twitter.url}}/authorize
			token_url {{.twitter.url}}/token
			profile_url {{.twitter.url}}/profile
			name X
			map data.username username
			map data.name name
			map data.confirmed_email email
		}
		idp forge oauth2 {
			client_id {{.forge.client_id}}
			client_secret "{{.forge.client_secret}}"
			authorization_url {{.forge.url}}/authorize
			token_url {{.forge.url}}/token
			profile_url {{.forge.url}}/profile
			subject user.id
			email mail
			email_verified mail_checked
			name "The forge"
			map user.login username
			map full_name name
			map mail email
		}
		idp digid saml {
			metadata {{.digid.metadata}}
			scheme digid middle
			client_key back-channel
			server_certificate digid-tls
			name DigiD
			map bsn username
		}
		idp eidas saml {
			metadata {{.eidas.metadata}}
			scheme etoegang substantial
			client_key back-channel
			server_certificate eidas-tls
			name "eIDAS"
			map urn:etoegang:1.9:attribute:FirstName name
		}
`

// presetPerson is someone at a provider: one of those that the page there offers, or the name that is typed there.
type presetPerson struct{ choice, name, class string }

// presetVisits are the people who sign in at each provider, with the view of the upstream, and those who are refused.
var presetVisits = []struct {
	id      string
	person  presetPerson
	want    seen // whose User is the beginning of the username
	refused []presetPerson
}{
	{
		"google",
		presetPerson{},
		seen{User: "google-", Name: "Ann Example", Email: "ann@example.com"},
		[]presetPerson{{choice: "elsewhere"}, {choice: "private"}},
	},
	{"entra", presetPerson{}, seen{User: "entra-", Name: "Ann Example"}, []presetPerson{{choice: "elsewhere"}}},
	{"customers", presetPerson{}, seen{User: "customers-", Name: "Ann Example"}, []presetPerson{{choice: "elsewhere"}}},
	{"apple", presetPerson{}, seen{User: "apple-", Name: "Ann Example", Email: "dpdcnf87nu@privaterelay.appleid.com"}, nil},
	{"itsme", presetPerson{}, seen{User: "itsme-", Name: "Ann Example"}, []presetPerson{{choice: "basic"}}},
	{"github", presetPerson{}, seen{User: "octocat", Name: "monalisa octocat", Email: "octocat@github.com"}, nil},
	{"discord", presetPerson{}, seen{User: "nelly", Name: "nelly", Email: "nelly@discord.com"}, nil},
	{"facebook", presetPerson{}, seen{User: "facebook-", Name: "Ada L"}, nil},
	{"linkedin", presetPerson{}, seen{User: "linkedin-", Name: "John Doe", Email: "doe@email.com"}, nil},
	{"twitter", presetPerson{}, seen{User: "TwitterDev", Name: "X Dev", Email: "dev@x.com"}, nil},
	{"forge", presetPerson{}, seen{User: "forge", Name: "Fay Forge", Email: "fay@forge.example"}, nil},
	{
		"digid",
		presetPerson{name: "s00000000:111222333"},
		seen{User: "111222333", Name: "111222333"},
		[]presetPerson{
			{name: "s00000000:111222333", class: "urn:oasis:names:tc:SAML:2.0:ac:classes:PasswordProtectedTransport"},
			{name: "s00000000:111222334"}, // not by the rule of eleven
		},
	},
	{
		"eidas",
		presetPerson{name: "p-17"},
		seen{User: "eidas-", Name: "Anna"},
		[]presetPerson{{name: "p-17", class: "urn:etoegang:core:assurance-class:loa2"}},
	},
}

// TestPresets signs in at the stand-in of each provider that a preset knows, twice, up to an upstream behind protect.
// Who has gone back there, or is not wanted here, reads so and can go on.
func TestPresets(t *testing.T) {
	t.Parallel()
	axe, err := os.ReadFile("node/node_modules/axe-core/axe.min.js")
	if err != nil {
		t.Fatalf("%v: make install", err)
	}
	w := startStandIns(t)
	_, s := openShopEdited(t, w.with)
	w.meet(s)
	b := s.browse(t)
	b.open(s.Wiki + "/")
	inspect(b, "sign-in-presets", string(axe))
	for _, v := range presetVisits {
		t.Run(v.id, func(t *testing.T) {
			t.Parallel()
			at := w.Providers[v.id]["url"]
			var user string
			for _, time := range []string{"first", "second"} {
				b := b.newcomer(t, v.id)
				b.identify(at, v.person)
				b.reaches(s.Wiki)
				got := b.seen()
				if got.URI != "/deep?x=1" || got.Name != v.want.Name || got.Email != v.want.Email || !strings.HasPrefix(got.User, v.want.User) ||
					user != "" && got.User != user {
					t.Errorf("at the %s sign-in the upstream saw %+v, want %+v", time, got, v.want)
				}
				user = got.User
			}
			b.newcomer(t, v.id).goesBack(v.id, at)
			for _, p := range v.refused {
				b := b.newcomer(t, v.id)
				b.identify(at, p)
				b.reaches(s.Issuer)
				b.refused(s)
				b.click("main a.button")
				if !b.has(`a.provider[href*="idp=` + v.id + `"]`) {
					t.Errorf("%+v: the way on leads to %s: %s", p, b.location(), b.text("body"))
				}
			}
		})
	}
}

// newcomer opens a site in a browser that has no cookies, and chooses a provider.
func (b *tab) newcomer(t *testing.T, id string) *tab {
	t.Helper()
	own := b.in(t).tab(chromedp.WithNewBrowserContext())
	own.open(b.s.Wiki + "/deep?x=1")
	own.choose(id)
	return own
}

// identify says at the page of a stand-in who the person is, and goes on to the end.
func (b *tab) identify(at string, p presetPerson) {
	b.t.Helper()
	if got := b.location(); !strings.HasPrefix(got, at) || !b.has("#allow") {
		b.t.Fatalf("the browser is at %s, want the page at %s: %s", got, at, b.text("body"))
	}
	for field, text := range map[string]string{"#person": p.choice, "#name": p.name, "#class": p.class} {
		if text != "" {
			eval[string](b, "document.querySelector("+quote(field)+").value = "+quote(text))
		}
	}
	b.click("#allow")
	if strings.HasPrefix(b.location(), at) && b.has("form button[type=submit]") { // Apple's answer is a form
		b.click("form button[type=submit]")
	}
}

// goesBack leaves the page of a provider by its way back: the person reads so, can try again, and choose another way.
func (b *tab) goesBack(id, at string) {
	t := b.t
	t.Helper()
	for _, next := range []string{"main .buttons a.button:not(.quiet)", "main .buttons a.button.quiet"} {
		b.do(chromedp.Click(chromedp.CSS("#cancel")))
		b.reaches(b.s.Issuer)
		if got := b.text("main"); !strings.Contains(got, "was stopped there") {
			t.Fatalf("gone back, and at %s: %s", b.location(), got)
		}
		b.click(next)
		if next == "main .buttons a.button:not(.quiet)" && !strings.HasPrefix(b.location(), at) {
			t.Fatalf("trying again leads to %s", b.location())
		}
	}
	if !b.has(`a.provider[href*="idp=`+id+`"]`) || !b.has("#password") {
		t.Errorf("another way leads to %s: %s", b.location(), b.text("main"))
	}
}
