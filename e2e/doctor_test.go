package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// nginxConf is a site behind auth_request, as it should be.
const nginxConf = `
daemon off;
master_process off;
pid nginx.pid;
error_log stderr;
events {}
http {
	access_log off;
	client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path fastcgi; uwsgi_temp_path uwsgi; scgi_temp_path scgi;
	server {
		listen 127.0.0.1:PORT;
		location / {
			auth_request /gatehouse;
			auth_request_set $user $upstream_http_remote_user;
			auth_request_set $name $upstream_http_remote_name;
			auth_request_set $email $upstream_http_remote_email;
			auth_request_set $groups $upstream_http_remote_groups;
			proxy_set_header Remote-User $user;
			proxy_set_header Remote-Name $name;
			proxy_set_header Remote-Email $email;
			proxy_set_header Remote-Groups $groups;
			proxy_set_header Remote-Assertion "";
			proxy_set_header Client-Cert "";
			proxy_set_header Client-Cert-Chain "";
			proxy_set_header X-Client-Cert "";
			proxy_set_header X-Forwarded-Client-Cert "";
			proxy_set_header X-SSL-Client-Cert "";
			proxy_set_header X-Original-URL "";
			proxy_set_header X-Original-URI "";
			proxy_set_header X-Original-Method "";
			proxy_set_header X-Rewrite-URL "";
			proxy_set_header Host $http_host;
			proxy_pass http://127.0.0.1:UPSTREAM;
		}
		location = /gatehouse {
			internal;
			proxy_pass http://AUTH/oauth/forward-auth?profile=nginx&policy=doctor;
			proxy_pass_request_body off;
			proxy_set_header Content-Length "";
			proxy_set_header Host HOST;
			proxy_set_header X-Forwarded-For $remote_addr;
			proxy_set_header X-Original-Method $request_method;
			proxy_set_header X-Original-URL $scheme://$http_host$request_uri;
		}
	}
}
`

// TestDoctorAtNginx runs caddy gatehouse doctor at a real nginx that asks Gatehouse: it has nothing to say about a
// right configuration, such as that of docs/gateways.md, and finds each mistake of a wrong one.
func TestDoctorAtNginx(t *testing.T) {
	t.Parallel()
	document, err := os.ReadFile("../docs/gateways.md")
	if err != nil {
		t.Fatal(err)
	}
	s := startEdited(t, "", func(text string) string {
		gate := fmt.Sprintf("\t\tforward_auth doctor {\n\t\t\tscopes %s\n\t\t\tpublic %s\n\t\t}\n\t\tforward_auth_from 127.0.0.1\n\t\tidentity {",
			apiScope, open)
		return strings.Replace(text, "\t\tidentity {", gate, 1)
	})
	at := strings.Replace(s.Issuer, "http://localhost", "127.0.0.1", 1)
	certify(t, s.dir)
	guide := func(port, upstream int) string { // as TestGateways runs it, but without TLS, since the doctor must find the names
		site := strings.NewReplacer(
			"listen 443 ssl", fmt.Sprintf("listen 127.0.0.1:%d", port), "https://gatehouse", "http://gatehouse", "auth.example.com:443", at,
			"auth.example.com", strings.TrimPrefix(s.Issuer, "http://"), "wiki.example.com", "localhost", "policy=wiki", "policy=doctor",
			"127.0.0.1:9001", fmt.Sprintf("127.0.0.1:%d", upstream),
			"/etc/nginx/wiki.pem", s.dir+"/cert.pem", "/etc/nginx/wiki.key", s.dir+"/key.pem",
			"/etc/ssl/certs/ca-certificates.crt", s.dir+"/cert.pem",
		).Replace(example(t, string(document), "nginx", "nginx"))
		head, _, _ := strings.Cut(nginxConf, "\tserver {\n")
		return head + site + "}\n"
	}

	for _, tt := range []struct {
		name    string
		guide   bool     // the configuration is that of the guide
		replace []string // old and new texts of the configuration
		down    bool
		failed  []string // probes of which each must fail; none: there is nothing to say
	}{
		{name: "right"},
		{name: "right, while Gatehouse is down", replace: []string{"AUTH", "127.0.0.1:1"}, down: true},
		{name: "the guide", guide: true},
		{name: "the guide, while Gatehouse is down", guide: true, down: true},
		{
			name: "a header is forgotten", replace: []string{"proxy_set_header Remote-Groups $groups;", ""},
			failed: []string{"made-up identity headers", "made-up identity headers in lower case", "made-up identity headers, twice"},
		},
		{
			name: "underscores are let through", replace: []string{"access_log off;", "access_log off; underscores_in_headers on;"},
			failed: []string{"made-up identity headers with _", "made-up identity headers as in CGI"},
		},
		{
			name: "the client chooses the address", replace: []string{"proxy_set_header X-Original-URL $scheme://$http_host$request_uri;", ""},
			failed: []string{"X-Original-URL of a public page"},
		},
		{
			name: "a prefix is open", replace: []string{
				"location / {",
				"location /healthz { proxy_pass http://127.0.0.1:UPSTREAM; }\n\t\tlocation / {",
			},
			failed: []string{`\ in the path`},
		},
		{
			name: "methods are let through",
			replace: []string{
				"auth_request /gatehouse;", "auth_request /gatehouse; error_page 401 = @open;", "location = /gatehouse",
				"location @open { proxy_pass http://127.0.0.1:UPSTREAM; }\n\t\tlocation = /gatehouse",
			},
			failed: []string{"no one is signed in", "the method DELETE"},
		},
		{
			name: "errors let in", down: true,
			replace: []string{
				"AUTH", "127.0.0.1:1", "auth_request /gatehouse;", "auth_request /gatehouse; error_page 500 = @open;",
				"location = /gatehouse", "location @open { proxy_pass http://127.0.0.1:UPSTREAM; }\n\t\tlocation = /gatehouse",
			},
			failed: []string{"Gatehouse is down: no one is signed in", "Gatehouse is down: a valid token"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			ports := freePorts(t, 2)
			conf := strings.NewReplacer(tt.replace...).Replace(nginxConf)
			conf = strings.NewReplacer(
				"PORT", fmt.Sprint(ports[0]), "UPSTREAM", fmt.Sprint(ports[1]), "AUTH", at, "HOST", strings.TrimPrefix(s.Issuer, "http://"),
			).Replace(conf)
			if tt.guide {
				conf = guide(ports[0], ports[1])
			}
			if tt.guide && tt.down {
				conf = strings.ReplaceAll(conf, at, "127.0.0.1:1")
			}
			startNginx(t, conf, fmt.Sprintf("http://127.0.0.1:%d/", ports[0]))

			args := []string{
				"gatehouse", "doctor", "--proxy", "nginx", "--json", "--timeout", "30s", "--listen",
				fmt.Sprintf("127.0.0.1:%d", ports[1]), fmt.Sprintf("http://127.0.0.1:%d/page", ports[0]),
			}
			if tt.down {
				args = append(args, "--down")
			}
			cmd := exec.CommandContext(t.Context(), binary, args...) //nolint:gosec // of the tests
			token := s.clientCredentials("reports", s.ReportsSecret) // of its own: it may wait for long until it runs
			cmd.Env = append(os.Environ(), "GATEHOUSE_DOCTOR_TOKEN="+token)
			out, err := cmd.Output()
			var report struct {
				Probes []struct{ Name, Verdict, What string } `json:"probes"`
				Failed int                                    `json:"failed"`
			}
			if jsonErr := json.Unmarshal(out, &report); jsonErr != nil {
				t.Fatalf("%v: %s", err, out)
			}
			if (err == nil) != (len(tt.failed) == 0) || (report.Failed == 0) != (len(tt.failed) == 0) {
				t.Errorf("doctor: %v, %d failed: %s", err, report.Failed, out)
			}
			for _, p := range report.Probes {
				if want := slices.Contains(tt.failed, p.Name); want && p.Verdict != "failed" || len(tt.failed) == 0 && p.Verdict != "ok" {
					t.Errorf("%s: %s (%s)", p.Name, p.Verdict, p.What)
				}
			}
		})
	}
}

// startNginx runs nginx until the test ends, and waits until it answers.
func startNginx(t *testing.T, conf, address string) {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "nginx.conf")
	if err := os.WriteFile(file, []byte(conf), 0o600); err != nil {
		t.Fatal(err)
	}
	program, err := exec.LookPath("nginx")
	if err != nil {
		program = "/usr/sbin/nginx"
	}
	out := new(lockedBuffer)
	cmd := exec.Command(program, "-p", dir, "-c", file) //nolint:gosec // of the tests
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		t.Fatalf("nginx: %v: make install", err)
	}
	gone := make(chan error, 1)
	go func() { gone <- cmd.Wait() }()
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may be gone
		<-gone
		if t.Failed() {
			t.Logf("nginx said:\n%s", tail([]byte(out.String()), 3000))
		}
	})
	deadline := time.After(2 * time.Minute)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodHead, address, nil)
		if err != nil {
			t.Fatal(err)
		}
		if res, err := http.DefaultClient.Do(req); err == nil {
			res.Body.Close()
			return
		}
		select {
		case err := <-gone:
			gone <- err
			t.Fatalf("nginx: %v\n%s", err, out.String())
		case <-deadline:
			t.Fatalf("nginx does not answer\n%s", out.String())
		case <-tick.C:
		}
	}
}
