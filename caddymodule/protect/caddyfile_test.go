package protect

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	_ "github.com/caddyserver/caddy/v2/modules/standard"

	"github.com/gatehouse-id/gatehouse/caddymodule/internal/caddyfileutil"
)

// globalBlock stands for the options of the app, which is not built into these tests.
const globalBlock = "{\n\tgatehouse\n}\n"

func init() {
	httpcaddyfile.RegisterGlobalOption(caddyfileutil.AppName, func(d *caddyfile.Dispenser, _ any) (any, error) { return d.Next(), nil })
}

func adaptSite(t *testing.T, text string) (string, error) {
	t.Helper()
	if own, ok := strings.CutPrefix(text, "{\n"); ok {
		text = "{\n\tgatehouse\n" + own
	} else {
		text = globalBlock + text
	}
	out, _, err := caddyconfig.GetAdapter("caddyfile").Adapt([]byte(text), map[string]any{"filename": "Caddyfile"})
	return string(out), err
}

// findProtect returns the first handler protect of an adapted configuration.
func findProtect(t *testing.T, config string) *Protect {
	t.Helper()
	var all any
	if err := json.Unmarshal([]byte(config), &all); err != nil {
		t.Fatal(err)
	}
	var find func(v any) *Protect
	find = func(v any) *Protect {
		switch v := v.(type) {
		case []any:
			for _, e := range v {
				if p := find(e); p != nil {
					return p
				}
			}
		case map[string]any:
			if v["handler"] == "protect" {
				raw, p := caddyconfig.JSON(v, nil), new(Protect)
				if err := json.Unmarshal(raw, p); err != nil {
					t.Fatalf("decode %s: %v", raw, err)
				}
				return p
			}
			for _, e := range v {
				if p := find(e); p != nil {
					return p
				}
			}
		}
		return nil
	}
	p := find(all)
	if p == nil {
		t.Fatalf("no handler protect in %s", config)
	}
	return p
}

func TestProtectCaddyfile(t *testing.T) {
	t.Parallel()
	const all = `wiki.example.com, http://localhost:9081 {
	protect /private/* {
		login
		scopes openid profile
		groups staff
		partition default acme
		level 2
		audience https://wiki.example.com
		headers Remote-User sub
		headers X-Mail email
		public /healthz /assets/*
		preflight
		session 12h
		strip_token
	}
	reverse_proxy localhost:9001
}`
	out, err := adaptSite(t, all)
	if err != nil {
		t.Fatal(err)
	}
	p := findProtect(t, out)
	if p.Place() != "Caddyfile:5" || p.Places.Of("protect: groups") != "Caddyfile:8" {
		t.Errorf("places = %v", p.Places)
	}
	p.Places = nil
	got, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"scopes":["openid","profile"],"groups":["staff"],"partitions":["default","acme"],"level":"2","audience":["https://wiki.example.com"],"login":true,` +
		`"origins":["https://wiki.example.com","http://localhost:9081"],"headers":[{"name":"Remote-User","claim":"sub"},{"name":"X-Mail","claim":"email"}],` +
		`"public":["/healthz","/assets/*"],"match":[{"path":["/private/*"]}],"preflight":true,"strip_token":true,"session":"12h"}`
	if string(got) != want {
		t.Errorf("protect = %s, want %s", got, want)
	}
}

// A matcher on the directive leaves the rest of the site open. Adapting says so and names the better way.
func TestProtectWarnsOfMatcher(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, site string
		want       int // line of the warning; 0: none
	}{
		{"no matcher", "protect", 0},
		{"every path", "protect *", 0},
		{"path", "protect /admin/* a", 2},
		{"path in a route", "route {\n\t\tprotect /admin/*\n\t}", 3},
		{"named path", "@a path /admin/*\n\tprotect @a {\n\t\tlevel 2\n\t}", 3},
		{"not path", "@a not path /assets/*\n\tprotect @a", 3},
		{"expression", "@a `path('/a')`\n\tprotect @a", 3},
		{"method", "@a method POST\n\tprotect @a", 0},
		{"not method", "@a not method OPTIONS\n\tprotect @a", 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, warnings, err := caddyconfig.GetAdapter("caddyfile").Adapt([]byte(globalBlock+"wiki.example.com {\n\t"+tt.site+"\n}\n"),
				map[string]any{"filename": "Caddyfile"})
			if err != nil {
				t.Fatal(err)
			}
			line := 0
			for _, w := range warnings {
				if w.Directive == "protect" && strings.Contains(w.Message, "`public`") && strings.HasSuffix(w.File, "Caddyfile") {
					line = w.Line - strings.Count(globalBlock, "\n")
				}
			}
			if line != tt.want {
				t.Errorf("line of the warning = %d, want %d; warnings: %v", line, tt.want, warnings)
			}
		})
	}
}

func TestProtectOrigins(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, options, address string
		want                   string // origins, or the error
	}{
		{"host", "", "wiki.example.com", "https://wiki.example.com"},
		{"upper case", "", "Wiki.Example.COM", "https://wiki.example.com"},
		{"https port", "", "wiki.example.com:443", "https://wiki.example.com"},
		{"other port", "", "wiki.example.com:8443", "https://wiki.example.com:8443"},
		{"scheme", "", "https://wiki.example.com:8443", "https://wiki.example.com:8443"},
		{"loopback http", "", "http://localhost:9081", "http://localhost:9081"},
		{"loopback IPv6", "", "http://[::1]:9081", "http://[::1]:9081"},
		{"several", "", "a.example.com, b.example.com", "https://a.example.com https://b.example.com"},
		{"http_port", "http_port 8080", "localhost:8080", "http://localhost:8080"},
		{"no host", "", ":9081", "names no host"},
		{"wildcard", "", "*.example.com", "names no host"},
		{"placeholder", "", "{env.WIKI}", "names no host"},
		{"plain http", "", "http://wiki.example.com", "http is for loopback hosts only"},
		{"auto_https off", "auto_https off", "wiki.example.com", "auto_https off"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			out, err := adaptSite(t, "{\n\t"+tt.options+"\n}\n"+tt.address+" {\n\troute {\n\t\tprotect {\n\t\t\tlogin\n\t\t}\n\t}\n}")
			if err != nil {
				if !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), "name the site's origin, such as login https://") {
					t.Errorf("adapt = %v, want %q and the fix", err, tt.want)
				}
				return
			}
			if got := findProtect(t, out).Origins; !slices.Equal(got, strings.Fields(tt.want)) {
				t.Errorf("origins = %q, want %q", got, tt.want)
			}
		})
	}
}

func TestProtectCaddyfileRefuses(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, body, want string }{
		{"unknown word", "colour red", `Caddyfile:6`},
		{"introspect without a client", "introspect https://auth.example.com/x", "introspect client: name the client"},
		{"introspect without an address", "introspect {\n\t\tclient a b\n\t}", "introspect: a name is missing"},
		{"introspect by http", "introspect http://auth.example.com/x {\n\t\tclient a b\n\t}", "http is for loopback hosts only"},
		{"introspect by file", "introspect file:///etc/passwd {\n\t\tclient a b\n\t}", "introspect: want an address"},
		{"introspect with a password", "introspect https://a:b@auth.example.com/x {\n\t\tclient a b\n\t}", "holds a user or password"},
		{
			"introspect and login", "login https://a.example.com\n\t\tintrospect https://auth.example.com/x {\n\t\tclient a b\n\t}",
			"introspect and login exclude each other",
		},
		{"introspect without a secret", "introspect https://auth.example.com/x {\n\t\tclient a\n\t}", "the secret is missing"},
		{
			"introspect with secret and key", "introspect https://auth.example.com/x {\n\t\tclient a b\n\t\tkey a.pem\n\t}",
			"private_key_jwt has no secret",
		},
		{
			"introspect with a key that is not used", "introspect https://auth.example.com/x {\n\t\tclient a b\n\t\tauth post\n\t\tkey a.pem\n\t}",
			"auth post uses the secret",
		},
		{
			"introspect by a key that is missing", "introspect https://auth.example.com/x {\n\t\tclient a\n\t\tauth private_key_jwt\n\t}",
			"private_key_jwt needs a key",
		},
		{
			"introspect by another method", "introspect https://auth.example.com/x {\n\t\tclient a b\n\t\tauth none\n\t}",
			"want one of: basic, post, private_key_jwt",
		},
		{
			"introspect jwks alone", "introspect https://auth.example.com/x {\n\t\tclient a b\n\t\tjwks https://auth.example.com/jwks\n\t}",
			"signed answers name their issuer",
		},
		{
			"introspect jwks by http", "introspect https://auth.example.com/x {\n\t\tclient a b\n\t\tjwks http://auth.example.com/jwks\n\t}",
			"jwks: http is for loopback hosts only",
		},
		{"introspect key_id alone", "introspect https://auth.example.com/x {\n\t\tclient a b\n\t\tkey_id x\n\t}", "there is no key"},
		{"introspect timeout", "introspect https://auth.example.com/x {\n\t\tclient a b\n\t\ttimeout 10s\n\t}", "10s is longer than 5s"},
		{"introspect cache", "introspect https://auth.example.com/x {\n\t\tclient a b\n\t\tcache soon\n\t}", "is not a duration"},
		{
			"introspect level", "introspect https://auth.example.com/x {\n\t\tclient a b\n\t\tmap_level gold 5\n\t}",
			"map_level: 5 is not between 1 and 4",
		},
		{
			"introspect level twice", "introspect https://auth.example.com/x {\n\t\tclient a b\n\t\tmap_level gold 2\n\t\tmap_level gold 3\n\t}",
			"gold is there twice",
		},
		{"introspect unknown", "introspect https://auth.example.com/x {\n\t\tclient a b\n\t\tcaches 5s\n\t}", "did you mean cache?"},
		{"twice", "level 1\n\t\tlevel 2", "level is already set on line 6"},
		{"level", "level 5", "level"},
		{"level text", "level high", "not a whole number"},
		{"partition", "partition Acme", "is not the name of a partition"},
		{"partition without a name", "partition", "partition: a value is missing"},
		{"partition twice", "partition a a", "named twice"},
		{"preflight argument", "preflight on", "switched on by `preflight` alone: remove \"on\""},
		{"scope", "scopes a\"b", "is not a scope"},
		{"header", "headers Remote-User", "want a header and a claim"},
		{"header name", "headers Cookie sub", "already has a meaning in HTTP"},
		{"header twice", "headers Remote-User sub\n\t\theaders remote-user name", "is set twice"},
		{"public", "public /a//b", "is not a path"},
		{"public all", "public /*", "open the whole site"},
		{"session without login", "session 1h", "session is for sites with login"},
		{"origin", "login wiki.example.com", "https://auth.example.com"},
		{"origin http", "login http://wiki.example.com", "loopback hosts only"},
		{"strip_token argument", "strip_token yes", "switched on by `strip_token` alone: remove \"yes\""},
		{"audience", "audience wiki", "is not an absolute URI"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := adaptSite(t, "wiki.example.com {\n\tprotect {\n\t\t"+tt.body+"\n\t}\n}")
			if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), "Caddyfile:") {
				t.Errorf("adapt = %v, want an error with line and %q", err, tt.want)
			}
		})
	}
	if _, err := adaptSite(t, "wiki.example.com {\n\tprotect a {\n\t\tscopes b\n\t}\n}"); err == nil ||
		!strings.Contains(err.Error(), "scopes are already set: a") {
		t.Errorf("adapt of scopes in two places = %v, want an error", err)
	}
}

// Whatever answers must come after protect, wherever it stands in the site block.
func TestProtectOrder(t *testing.T) {
	t.Parallel()
	for _, responder := range []string{
		"respond hello", "reverse_proxy localhost:1", "file_server", "abort", "error 500", "handle {\n\t\trespond hello\n\t}",
		"handle_path /x/* {\n\t\trespond hello\n\t}",
		"route {\n\t\trespond hello\n\t}", "php_fastcgi localhost:1", "metrics", "templates",
		"request_header X-Id {http.auth.user.id}", "encode gzip",
	} {
		out, err := adaptSite(t, "wiki.example.com {\n\t"+responder+"\n\tprotect\n\trewrite * /x\n}")
		if err != nil {
			t.Errorf("adapt with %s: %v", responder, err)
			continue
		}
		protect, rewrite := strings.Index(out, `"handler":"protect"`), strings.Index(out, `"handler":"rewrite","uri":"/x"`)
		for _, handler := range []string{
			"static_response", "reverse_proxy", "file_server", "error", "subroute", "metrics",
			"templates", "headers", "encode",
		} {
			// the outermost subroute is the site's own
			if at := strings.LastIndex(out, `"handler":"`+handler+`"`); handler != "subroute" && at >= 0 && at < protect {
				t.Errorf("%s: %s comes before protect: %s", responder, handler, out)
			}
		}
		if rewrite < 0 || rewrite > protect {
			t.Errorf("%s: rewrite comes after protect: %s", responder, out)
		}
	}
}
