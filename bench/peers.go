package main

import (
	"bytes"
	_ "embed"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/gatehouse-id/gatehouse/faults/lab"
)

// process is a server next to ours.
type process struct {
	cmd    *exec.Cmd
	exited chan struct{}
	ports  []int
	port   int // the first of ports
	log    string
	target target // what is measured, if it is one request
	party  party  // or a code flow
}

func (p *process) pid() int { return p.cmd.Process.Pid }

func (p *process) kill() {
	if p != nil {
		_ = p.cmd.Process.Kill()
		<-p.exited
	}
}

// launch starts a server and waits until its first port accepts connections.
func (b *bench) launch(name string, ports []int, env []string, path string, args ...string) (*process, error) {
	p := &process{
		cmd: exec.Command(path, args...), exited: make(chan struct{}), ports: ports, port: ports[0],
		log: filepath.Join(b.dir, name+".log"),
	}
	log, err := os.Create(p.log)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	p.cmd.Dir, p.cmd.Stdout, p.cmd.Stderr = b.dir, log, log
	p.cmd.Env = append(append(os.Environ(), "HOME="+b.dir), env...)
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	go func() {
		_ = p.cmd.Wait()
		close(p.exited)
	}()
	for waiting := 0; waiting < 1000; waiting++ {
		c, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", p.port))
		if err == nil {
			_ = c.Close()
			return p, nil
		}
		select {
		case <-p.exited:
			waiting = 1000
		case <-time.After(10 * time.Millisecond):
		}
	}
	p.kill()
	text, _ := os.ReadFile(p.log)
	return nil, fmt.Errorf("%s does not listen: %s", name, text[max(0, len(text)-1000):])
}

// peer returns the path of something in $PEERS, or "" if it is not there. Peers are neither built nor fetched by us.
func peer(name string) string {
	dir := os.Getenv("PEERS")
	if dir == "" {
		return ""
	}
	path, err := filepath.Abs(filepath.Join(dir, name))
	if err != nil {
		return ""
	}
	if _, err := os.Stat(path); err != nil {
		return ""
	}
	return path
}

// plainCaddy starts Caddy without Gatehouse: that of $PEERS, or our binary with a Caddyfile that does not use it.
func (b *bench) plainCaddy(bin string) (err error) {
	if path := peer("caddy"); path != "" {
		bin = path
	}
	ports, err := lab.FreePorts(6)
	if err != nil {
		return err
	}
	file := filepath.Join(b.dir, "Caddyfile.plain")
	text := fmt.Sprintf(`{
	admin 127.0.0.1:%[4]d
	persist_config off
	auto_https off
	default_bind 127.0.0.1
}
http://localhost:%[1]d {
	reverse_proxy %[5]s
}
http://localhost:%[2]d {
	forward_auth %[5]s {
		uri /auth
		copy_headers Remote-User
	}
	reverse_proxy %[5]s
}
http://localhost:%[3]d {
	respond /oauth/forward-auth 200
	respond "a short answer of about the size of an introspection, to be fair to both of them: 0123456789 0123456789 0123456789"
}
http://localhost:%[6]d {
	request_header Remote-User demo@example.com
	request_header Remote-Name "Demo Person"
	request_header Remote-Email demo@example.com
	request_header Remote-Groups staff
	reverse_proxy %[5]s
}
http://localhost:%[7]d {
	@credential header Authorization Bearer*
	request_header -Remote-User
	request_header -Remote-Name
	request_header -Remote-Email
	request_header -Remote-Groups
	reverse_proxy @credential %[5]s
}
`, ports[0], ports[1], ports[2], ports[5], b.echo, ports[3], ports[4])
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return err
	}
	b.stock, err = b.launch("caddy", ports, nil, bin, "run", "--config", file, "--adapter", "caddyfile")
	return err
}

const peerSecret = "a-secret-of-the-peers-that-is-long-enough" //nolint:gosec // for a server that lives for minutes

// dex returns a running dex whose provider signs in every browser, or nil.
func (b *bench) dex() (*process, error) {
	path := peer("dex")
	if path == "" {
		return nil, nil //nolint:nilnil // it is not there
	}
	ports, err := lab.FreePorts(1)
	if err != nil {
		return nil, err
	}
	base := fmt.Sprintf("http://127.0.0.1:%d/dex", ports[0])
	file := filepath.Join(b.dir, "dex.yaml")
	if err := os.WriteFile(file, []byte(dexConfig(base, ports[0])), 0o600); err != nil {
		return nil, err
	}
	p, err := b.launch("dex", ports, nil, path, "serve", file)
	if err != nil {
		return nil, err
	}
	p.party = dexParty(base)
	return p, nil
}

func dexConfig(base string, port int) string {
	return fmt.Sprintf(`issuer: %s
storage: {type: memory}
web: {http: "127.0.0.1:%d"}
logger: {level: error}
oauth2: {skipApprovalScreen: true}
staticClients: [{id: bench, name: bench, secret: %s, redirectURIs: ["%s"]}]
connectors: [{type: mockCallback, id: mock, name: mock}]
`, base, port, peerSecret, lab.Callback)
}

func dexParty(base string) party {
	return party{
		authorize: base + "/auth", token: base + "/token", client: "bench", secret: peerSecret, callback: lab.Callback, scope: "openid",
	}
}

//go:embed oidc-provider.mjs
var nodeScript []byte

// nodeProvider returns a running node-oidc-provider, or nil.
func (b *bench) nodeProvider() (*process, error) {
	modules := peer("node_modules")
	if modules == "" || peer("node_modules/oidc-provider") == "" {
		return nil, nil //nolint:nilnil // it is not there
	}
	node := peer("node")
	if node == "" {
		var err error
		if node, err = exec.LookPath("node"); err != nil {
			return nil, nil //nolint:nilnil,nilerr // it cannot run here
		}
	}
	dir, err := os.MkdirTemp(b.dir, "node-")
	if err != nil {
		return nil, err
	}
	script := filepath.Join(dir, "oidc-provider.mjs")
	if err := errors.Join(os.Symlink(modules, filepath.Join(dir, "node_modules")), os.WriteFile(script, nodeScript, 0o600)); err != nil {
		return nil, err
	}
	ports, err := lab.FreePorts(1)
	if err != nil {
		return nil, err
	}
	p, err := b.launch("oidc-provider", ports, []string{fmt.Sprintf("PORT=%d", ports[0]), "SECRET=" + peerSecret}, node, script)
	if err != nil {
		return nil, err
	}
	p.target = nodeTarget(ports[0])
	p.target.pid = p.pid()
	return p, nil
}

func nodeTarget(port int) target {
	return target{
		addr: fmt.Sprintf("127.0.0.1:%d", port), conns: 64, want: http.StatusOK,
		request: lab.Request("POST", fmt.Sprintf("localhost:%d", port), "/token", "grant_type=client_credentials",
			"Authorization", basic("bench", peerSecret), "Accept", "application/json"),
	}
}

// oauth2Proxy returns a running oauth2-proxy in front of the upstream, with the cookies of a browser that has signed in
// at our server, or nil.
func (b *bench) oauth2Proxy() (*process, error) {
	path := peer("oauth2-proxy")
	if path == "" {
		return nil, nil //nolint:nilnil // it is not there
	}
	base := fmt.Sprintf("http://localhost:%d", b.gateway)
	p, err := b.launch("oauth2-proxy", []int{b.gateway}, nil, path,
		"--provider=oidc", "--oidc-issuer-url="+b.server.Issuer(), "--client-id=gateway", "--client-secret="+b.server.Web,
		"--redirect-url="+base+"/oauth2/callback", "--upstream=http://"+b.echo, fmt.Sprintf("--http-address=127.0.0.1:%d", b.gateway),
		"--cookie-secret="+base64.RawURLEncoding.EncodeToString(lab.Random(32)), "--cookie-secure=false", "--email-domain=*",
		"--skip-provider-button", "--insecure-oidc-allow-unverified-email", "--oidc-email-claim=sub", "--scope=openid",
		"--code-challenge-method=S256", "--request-logging=false", "--auth-logging=false", "--standard-logging=false")
	if err != nil {
		return nil, err
	}
	if p.target, err = gatewayTarget(base); err != nil {
		p.kill()
		return nil, err
	}
	p.target.pid = p.pid()
	return p, nil
}

// gatewayTarget signs a browser in at a gateway and returns a request with its cookies.
func gatewayTarget(base string) (target, error) {
	at, err := url.Parse(base)
	if err != nil {
		return target{}, err
	}
	h := newHopper("X-Remote-User", "gateway@example.com")
	defer h.close()
	a, err := h.visit(base+"/orders", "")
	if err != nil {
		return target{}, err
	}
	if a.status != http.StatusOK || !bytes.Equal(a.body, []byte("ok\n")) {
		return target{}, fmt.Errorf("the gateway answered %d at %s: %.200s", a.status, a.at.Path, a.body)
	}
	return target{
		addr: strings.Replace(at.Host, "localhost", "127.0.0.1", 1), conns: 16, want: http.StatusOK,
		request: lab.Request("GET", at.Host, "/orders", "", "Cookie", h.cookie(at.Host)),
	}, nil
}
