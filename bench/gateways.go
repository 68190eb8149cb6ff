package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/gatehouse-id/gatehouse/faults/lab"
)

// elsewhere is the response of the upstream about any token, as the introspection endpoint of another server: it is a
// person's.
const elsewhere = `{"active":true,"sub":"7d1c","username":"demo@example.com","name":"Demo Person","groups":["staff"],"client_id":"bench","scope":"` + lab.Scope + `"}`

// The rows of other proxies, which ask about each request, and of protect with the tokens of another server.
const (
	rowNginx        = "nginx auth_request to Gatehouse, session cookie"
	rowNginxRespond = "nginx auth_request to plain Caddy, respond"
	rowForwardAuth  = "forward-auth, session cookie"
	rowCheck        = "Envoy's check over gRPC, session cookie"
	rowCheckNothing = "a handler that does nothing, over gRPC"
	rowElsewhere    = "protect with introspect, token in the cache"
)

// gateSettings are the gates of the rows.
func gateSettings(s *lab.Server, grpc, elsewhere int) (gatehouse, sites string) {
	gatehouse = fmt.Sprintf("\tforward_auth wiki {\n\t\torigins %s\n\t\tlogin\n\t}\n\tforward_auth_from 127.0.0.1\n\text_authz 127.0.0.1:%d\n",
		s.Wiki(), grpc)
	sites = fmt.Sprintf("http://localhost:%d {\n\tprotect %s {\n\t\tintrospect http://{echo}/introspect {\n\t\t\tclient bench %s\n\t\t\tcache 1h\n\t\t}\n\t}\n\treverse_proxy {echo}\n}\n",
		elsewhere, lab.Scope, s.Machine)
	return gatehouse, sites
}

// gates measures what another proxy waits for.
func (b *bench) gates() error {
	targets := []namedTarget{
		{rowRespond, b.plain(2)},
		{rowForwardAuth, b.forwardAuth()},
		{rowPerson, b.api("person")},
		{rowElsewhere, b.site(b.elsewhere, 16, "GET", "/orders", "", b.bearer("client")...)},
	}
	asks, err := b.nginx()
	if err != nil {
		return err
	}
	if asks == nil {
		b.note(rowNginx, "not run: there is no nginx: make install")
	} else {
		defer asks.kill()
		targets = append(targets, namedTarget{rowNginxRespond, b.behind(asks, 0, b.stock.pid())},
			namedTarget{rowNginx, b.behind(asks, 1, b.server.PID())})
	}
	f, err := b.medians(targets...)
	if err != nil {
		return err
	}
	g, err := b.checks()
	if err != nil {
		return err
	}
	if asks != nil {
		b.atLeast("nginx auth_request to Gatehouse / to plain Caddy's respond", f[rowNginx].rate/f[rowNginxRespond].rate, 0.8)
	}
	b.atMost("forward-auth, µs of processor above plain Caddy's respond", f[rowForwardAuth].cpu-f[rowRespond].cpu, 25)
	b.atMost("Envoy's check over gRPC, µs of processor above a handler that does nothing", g[rowCheck].cpu-g[rowCheckNothing].cpu, 40)
	b.atLeast("protect with introspect, token in the cache / protect, person's token", f[rowElsewhere].rate/f[rowPerson].rate, 0.95)
	return nil
}

// forwardAuth asks as Traefik does about a request to the site that signs browsers in.
func (b *bench) forwardAuth() target {
	return b.site(b.server.Ports.Issuer, 16, "GET", "/oauth/forward-auth?profile=traefik&policy=wiki", "", "Cookie", b.tokens["session"],
		"X-Forwarded-Method", "GET", "X-Forwarded-Proto", "http", "X-Forwarded-Host", strings.TrimPrefix(b.server.Wiki(), "http://"),
		"X-Forwarded-Uri", "/orders", "X-Forwarded-For", "192.0.2.7")
}

// behind is a site of nginx, whose CPU is not counted but that of the server that it asks.
func (b *bench) behind(p *process, site, pid int) target {
	t := b.site(p.ports[site], 16, "GET", "/orders", "", "Cookie", b.tokens["session"])
	t.pid = pid
	return t
}

// nginx returns a running nginx with two sites, whose requests plain Caddy's respond and our server let pass. nil:
// there is no nginx here.
func (b *bench) nginx() (*process, error) {
	path, err := exec.LookPath("nginx")
	if err != nil {
		path = "/usr/sbin/nginx"
		if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
			return nil, nil //nolint:nilnil // it is not there
		}
	}
	ports, err := lab.FreePorts(2)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(b.dir, "nginx-")
	if err != nil {
		return nil, err
	}
	file := filepath.Join(dir, "nginx.conf")
	if err := os.WriteFile(file, []byte(b.nginxConf(dir, ports)), 0o600); err != nil {
		return nil, err
	}
	// In one process, so it ends with this one.
	return b.launch("nginx", ports, nil, path, "-p", dir, "-e", filepath.Join(dir, "error.log"), "-c", file)
}

// nginxConf is that of docs/gateways.md as far as the rows need it, with connections that are kept. nginx keeps those
// alone whose answers have no body.
func (b *bench) nginxConf(dir string, ports []int) string {
	var s strings.Builder
	fmt.Fprintf(&s, "daemon off;\nmaster_process off;\npid %s/pid;\nworker_rlimit_nofile 1024;\nevents {}\nhttp {\n\taccess_log off;\n\tkeepalive_requests 1000000000;\n", dir)
	for _, kind := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
		fmt.Fprintf(&s, "\t%s_temp_path %s/%s;\n", kind, dir, kind)
	}
	s.WriteString("\tproxy_http_version 1.1;\n")
	for name, at := range map[string]string{
		"upstream": b.echo, "caddy": fmt.Sprintf("127.0.0.1:%d", b.stock.ports[2]),
		"gatehouse": fmt.Sprintf("127.0.0.1:%d", b.server.Ports.Issuer),
	} {
		fmt.Fprintf(&s, "\tupstream %s {\n\t\tserver %s;\n\t\tkeepalive 32;\n\t\tkeepalive_requests 1000000000;\n\t}\n", name, at)
	}
	for i, asked := range []struct{ name, host string }{
		{"caddy", fmt.Sprintf("localhost:%d", b.stock.ports[2])}, {"gatehouse", strings.TrimPrefix(b.server.Issuer(), "http://")},
	} {
		fmt.Fprintf(&s, `	server {
		listen 127.0.0.1:%[1]d;
		location / {
			auth_request /gatehouse;
			auth_request_set $user $upstream_http_remote_user;
			proxy_pass http://upstream;
			proxy_set_header Connection "";
			proxy_set_header Remote-User $user;
		}
		location = /gatehouse {
			internal;
			proxy_pass http://%[2]s/oauth/forward-auth?profile=nginx&policy=wiki;
			proxy_pass_request_body off;
			proxy_set_header Content-Length "";
			proxy_set_header Connection "";
			proxy_set_header Host %[3]s;
			proxy_set_header X-Original-Method $request_method;
			proxy_set_header X-Original-URL %[4]s$request_uri;
			proxy_set_header X-Forwarded-For $remote_addr;
		}
	}
`, ports[i], asked.name, asked.host, b.server.Wiki())
	}
	s.WriteString("}\n")
	return s.String()
}
