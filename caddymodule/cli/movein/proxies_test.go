package movein

import (
	"fmt"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
)

// parses checks that a text is a Caddyfile, whatever its directives mean.
func parses(t *testing.T, c *Clients) {
	t.Helper()
	if _, err := caddyfile.Parse("Caddyfile", []byte("{\n\tgatehouse {\n"+c.Caddyfile()+"}\n}\n"+c.Sites)); err != nil {
		t.Errorf("%v:\n%s%s", err, c.Caddyfile(), c.Sites)
	}
}

func TestOAuth2Proxy(t *testing.T) {
	t.Parallel()
	c, err := OAuth2Proxy(strings.NewReader(`# a comment
provider = "oidc"
oidc_issuer_url = "https://login.corp.example"
client_id = "wiki" # there
client_secret = "planted-secret"
cookie_secret = 'planted-cookie'
scope = "openid profile email groups"
redirect_url = "https://wiki.example.com/oauth2/callback"
email_domains = [ "example.com" ]
upstreams = [
  "http://127.0.0.1:8080/",
  "http://127.0.0.1:9090/api/",
  "file:///srv/www#/static/",
]
skip_auth_routes = [ "GET=^/healthz$", "^/assets/", "^/(a|b)" ]
pass_access_token = true
set_xauthrequest = false
`))
	if err != nil {
		t.Fatal(err)
	}
	parses(t, c)
	text := c.Caddyfile() + c.Sites
	for _, want := range []string{
		"idp oidc oidc {", "issuer https://login.corp.example", "client_id wiki", "{env.OIDC_SECRET}", "scopes profile email groups",
		"wiki.example.com {", "login", "groups members", "public /assets/*", "reverse_proxy http://127.0.0.1:8080",
		"reverse_proxy /api/* http://127.0.0.1:9090",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("what is printed does not have %q:\n%s", want, text)
		}
	}
	var notes string
	for _, n := range c.Notes {
		notes += n.Client + n.About + ": " + n.Text + "\n"
	}
	for _, want := range []string{"members", "(a|b)", `"GET=^/healthz$" does not come: public holds for every method`, "file:///srv/www", "pass_access_token", "cookie_secret", "/oidc/oidc/callback"} {
		if !strings.Contains(notes, want) {
			t.Errorf("the notes do not mention %q:\n%s", want, notes)
		}
	}
	if strings.Contains(text+notes, "planted") || strings.Contains(notes, "set_xauthrequest") {
		t.Errorf("too much is told:\n%s%s", text, notes)
	}
	for name, file := range map[string]string{"another file": "x = 1", "JSON": "{}", "nothing": ""} {
		if _, err := OAuth2Proxy(strings.NewReader(file)); err == nil {
			t.Errorf("%s is taken for a configuration", name)
		}
	}
	both, err := OAuth2Proxy(strings.NewReader("client_id = \"x\"\nemail_domains = [\"example.com\"]\nallowed_groups = [\"ops\"]\n" +
		"provider = \"oidc\"\noidc_issuer_url = \"https://a.example\"\noidc_email_claim = \"mail\"\nupstreams = [\"http://127.0.0.1:1\"]"))
	if err != nil || !strings.Contains(both.Sites, "groups ops") || !strings.Contains(both.Caddyfile(), "map mail email") ||
		!strings.Contains(fmt.Sprint(both.Notes), "addresses do not decide") || !strings.Contains(fmt.Sprint(both.Notes), "no provider fills") {
		t.Errorf("groups and domains: %v\n%s%s%v", err, both.Caddyfile(), both.Sites, both.Notes)
	}
	open, err := OAuth2Proxy(strings.NewReader("client_id = \"x\"\nemail_domains = [\"*\"]\nupstreams = [\"http://127.0.0.1:1\"]\nprovider = \"github\""))
	if err != nil || strings.Contains(open.Sites, "groups") || !strings.Contains(open.Caddyfile(), "idp github github {") {
		t.Errorf("anyone could pass, and the site is %v\n%s%s", err, open.Caddyfile(), open.Sites)
	}
}

func TestCaddySecurity(t *testing.T) {
	t.Parallel()
	c, err := CaddySecurity(strings.NewReader(`{
	order authenticate before respond
	security {
		oauth identity provider corp {
			realm corp
			driver generic
			client_id {env.CORP_ID}.apps.{env.CORP_ENV}
			client_secret planted-secret
			scopes openid email
			metadata_url https://login.corp.example/.well-known/openid-configuration
			delay_start 3
		}
		oauth identity provider google {
			realm google
			driver google
			client_id x.apps.googleusercontent.com
			client_secret {$PLANTED}
		}
		local identity store localdb {
			realm local
			path users.json
		}
		authentication portal myportal {
			crypto default token lifetime 3600
			cookie lifetime 86400
			enable source ip tracking
			enable identity provider corp
			transform user {
				match realm corp
				action add role authp/user
			}
		}
		authorization policy staff {
			set auth url https://auth.example.com/
			allow roles authp/admin authp/user
		}
		authorization policy strict {
			acl rule {
				match role x
				allow stop
			}
		}
	}
}
auth.example.com {
	authenticate with myportal
}
wiki.example.com {
	authorize with staff
	reverse_proxy 127.0.0.1:8080 {
		header_up X-Token {$PLANTED}
	}
}
hr.example.com {
	route /private* {
		authorize with strict
		respond "hr"
	}
}
api.example.com {
	route /admin* {
		authorize with strict
		reverse_proxy 127.0.0.1:9001
	}
	@reports path /reports
	handle @reports {
		authorize with staff
		reverse_proxy 127.0.0.1:9002
	}
}
open.example.com {
	respond "hello"
}
`))
	if err != nil {
		t.Fatal(err)
	}
	parses(t, c)
	text := c.Caddyfile() + c.Sites
	for _, want := range []string{
		"idp corp oidc {", "issuer https://login.corp.example\n", "client_id {env.CORP_ID}.apps.{env.CORP_ENV}", "client_secret {env.CORP_SECRET}",
		"scopes email", "idp google google {",
		"wiki.example.com {", "groups authp/admin authp/user", "reverse_proxy 127.0.0.1:8080 {", "header_up X-Token {env.PLANTED}",
		"hr.example.com {", "groups members", "route /private* {\n\t\trespond hr\n\t}",
		"api.example.com {\n\tprotect {\n\t\tlogin\n\t\tgroups members\n\t}\n\troute /admin* {\n\t\treverse_proxy 127.0.0.1:9001",
		"handle @reports {\n\t\treverse_proxy 127.0.0.1:9002",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("what is printed does not have %q:\n%s", want, text)
		}
	}
	var notes string
	for _, n := range c.Notes {
		notes += n.Client + n.About + ": " + n.Text + "\n"
	}
	for _, want := range []string{
		"cookie lifetime 86400", "enable source ip tracking", "crypto default", "has several policies, strict, staff",
		"delay_start", "localdb", "transform", "set auth url", "acl rule", "/private*",
		"is the portal", "CORP_SECRET",
	} {
		if !strings.Contains(notes, want) {
			t.Errorf("the notes do not mention %q:\n%s", want, notes)
		}
	}
	if strings.Contains(text+notes, "planted-") || strings.Contains(text, "open.example.com") {
		t.Errorf("too much is told:\n%s%s", text, notes)
	}
	if _, err := CaddySecurity(strings.NewReader("example.com {\n\trespond x\n}\n")); err == nil {
		t.Error("a Caddyfile without security is taken")
	}
}
