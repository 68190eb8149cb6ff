package e2e

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"
	"testing"

	yaml "go.yaml.in/yaml/v3"
)

// ingress is an Ingress with the fields that the guide uses.
type ingress struct {
	APIVersion string `yaml:"apiVersion"`
	Kind       string `yaml:"kind"`
	Metadata   struct {
		Name        string            `yaml:"name"`
		Annotations map[string]string `yaml:"annotations"`
	} `yaml:"metadata"`
	Spec struct {
		IngressClassName string `yaml:"ingressClassName"`
		Rules            []struct {
			Host string `yaml:"host"`
			HTTP struct {
				Paths []struct {
					Path     string `yaml:"path"`
					PathType string `yaml:"pathType"`
					Backend  struct {
						Service struct {
							Name string         `yaml:"name"`
							Port map[string]int `yaml:"port"`
						} `yaml:"service"`
					} `yaml:"backend"`
				} `yaml:"paths"`
			} `yaml:"http"`
		} `yaml:"rules"`
	} `yaml:"spec"`
}

// annotated are the annotations that the rendering below knows.
var annotated = []string{
	"auth-url", "auth-signin", "auth-signin-redirect-param", "auth-response-headers", "use-regex", "rewrite-target",
	"upstream-vhost", "proxy-body-size", "backend-protocol", "proxy-ssl-secret", "proxy-ssl-verify", "proxy-ssl-verify-depth",
	"proxy-ssl-server-name", "proxy-ssl-name",
}

// ingress runs nginx with the locations that the template of ingress-nginx makes of the guide.
func (g *gateways) ingress(t *testing.T, at string, port int) {
	t.Helper()
	d := yaml.NewDecoder(strings.NewReader(g.local(example(t, g.document, "ingress-nginx", "yaml"), "ingress-nginx", at, port)))
	d.KnownFields(true)
	var all []ingress
	for {
		var one ingress
		if err := d.Decode(&one); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, one)
	}
	// The longest path goes first: where one needs it, all are regular expressions.
	slices.SortFunc(all, func(a, b ingress) int {
		return len(b.Spec.Rules[0].HTTP.Paths[0].Path) - len(a.Spec.Rules[0].HTTP.Paths[0].Path)
	})
	var locations strings.Builder
	for _, one := range all {
		locations.WriteString(g.locations(t, one))
	}
	const modules = "load_module /usr/lib/nginx/modules/ndk_http_module.so;\nload_module /usr/lib/nginx/modules/ngx_http_set_misc_module.so;\n"
	runNginx(t, port, modules, fmt.Sprintf(`underscores_in_headers off;
map $http_upgrade $connection_upgrade { default upgrade; '' ''; }
upstream wiki { server %s; }
upstream gatehouse { server %s; }
upstream auth.example.com { server %[2]s; }
server {
listen 127.0.0.1:%d ssl;
ssl_certificate %[5]s/cert.pem;
ssl_certificate_key %[5]s/key.pem;
server_name ingress-nginx.example.com;
%[4]s}
`, g.Echo, at, port, locations.String(), g.dir))
}

// locations are those of an Ingress: that of its path, and if it has auth-url, those of the question and of the
// sign-in.
func (g *gateways) locations(t *testing.T, one ingress) string {
	t.Helper()
	a := map[string]string{}
	for name, value := range one.Metadata.Annotations {
		short := strings.TrimPrefix(name, "nginx.ingress.kubernetes.io/")
		if !slices.Contains(annotated, short) {
			t.Fatalf("the annotation %s is unknown", name)
		}
		a[short] = value
	}
	path := one.Spec.Rules[0].HTTP.Paths[0]
	var s strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&s, format+"\n", args...) }
	asked, err := url.Parse(a["auth-url"])
	if err != nil {
		t.Fatal(err)
	}
	ask := fmt.Sprintf("/_external-auth-%x", sha256.Sum256([]byte(path.Path)))
	signIn := fmt.Sprintf("@%x", sha256.Sum256([]byte(path.Path+a["auth-signin"])))
	size := cmp.Or(a["proxy-body-size"], "1m")
	if a["auth-url"] != "" {
		line("location = %s {\ninternal;\nproxy_intercept_errors off;\nproxy_pass_request_body off;", ask)
		line("proxy_set_header Content-Length \"\";\nproxy_set_header X-Forwarded-Proto \"\";")
		line("proxy_set_header Host %s;", asked.Hostname())
		line("proxy_set_header X-Original-URL $scheme://$http_host$request_uri;\nproxy_set_header X-Original-Method $request_method;")
		line("proxy_set_header X-Sent-From \"nginx-ingress-controller\";\nproxy_set_header X-Real-IP $remote_addr;")
		line("proxy_set_header X-Forwarded-For $remote_addr;\nproxy_set_header X-Auth-Request-Redirect $request_uri;")
		line("proxy_ssl_server_name on;\nclient_max_body_size %s;", size)
		line("proxy_pass_request_headers on;\nproxy_http_version 1.1;\nset $target %q;\nproxy_pass $target;\n}", asked)
	}
	if a["auth-signin"] != "" {
		to := a["auth-signin"]
		if at, err := url.Parse(to); err != nil || at.Query().Get(a["auth-signin-redirect-param"]) == "" {
			t.Fatalf("auth-signin has no %s (%v), and the template would add a whole URL", a["auth-signin-redirect-param"], err)
		}
		line("location %s {\ninternal;\nadd_header Set-Cookie $auth_cookie;\nreturn 302 %s;\n}", signIn, to)
	}
	line("location ~* \"^%s\" {\nset $pass_access_scheme $scheme;\nset $best_http_host $http_host;", path.Path)
	if a["auth-url"] != "" {
		line("auth_request %s;\nauth_request_set $auth_cookie $upstream_http_set_cookie;\nadd_header Set-Cookie $auth_cookie;", ask)
		for i, name := range strings.Split(a["auth-response-headers"], ",") {
			name = strings.TrimSpace(name)
			line("auth_request_set $authHeader%d $upstream_http_%s;", i, strings.ReplaceAll(strings.ToLower(name), "-", "_"))
			line("proxy_set_header '%s' $authHeader%d;", name, i)
		}
	}
	if a["auth-signin"] != "" {
		line("set_escape_uri $escaped_request_uri $request_uri;\nerror_page 401 = %s;", signIn)
	}
	host := "$best_http_host"
	if a["upstream-vhost"] != "" {
		host = fmt.Sprintf("%q", a["upstream-vhost"])
	}
	line("proxy_set_header Host %s;\nproxy_set_header Upgrade $http_upgrade;\nproxy_set_header Connection $connection_upgrade;", host)
	line("proxy_set_header X-Real-IP $remote_addr;\nproxy_set_header X-Forwarded-For $remote_addr;\nproxy_set_header X-Forwarded-Host $best_http_host;")
	line("proxy_set_header X-Forwarded-Port $server_port;\nproxy_set_header X-Forwarded-Proto $pass_access_scheme;\nproxy_set_header X-Forwarded-Scheme $pass_access_scheme;")
	line("proxy_set_header X-Scheme $pass_access_scheme;\nproxy_set_header X-Original-Forwarded-For $http_x_forwarded_for;\nproxy_set_header Proxy \"\";\nproxy_http_version 1.1;")
	line("client_max_body_size %s;", size)
	if a["proxy-ssl-secret"] != "" { // without it ingress-nginx ignores the other ones
		line("proxy_ssl_trusted_certificate %s/cert.pem;\nproxy_ssl_verify %s;\nproxy_ssl_verify_depth %s;", g.dir,
			cmp.Or(a["proxy-ssl-verify"], "off"), cmp.Or(a["proxy-ssl-verify-depth"], "1"))
		line("proxy_ssl_name %s;\nproxy_ssl_server_name %s;", a["proxy-ssl-name"], cmp.Or(a["proxy-ssl-server-name"], "off"))
	}
	if a["rewrite-target"] != "" {
		line("rewrite \"(?i)%s\" %s break;", path.Path, a["rewrite-target"])
	}
	line("proxy_pass %s://%s;\n}", strings.ToLower(cmp.Or(a["backend-protocol"], "http")), path.Backend.Service.Name)
	return s.String()
}
