package e2e

import (
	"bufio"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestMCPSuites runs suites that others have written for what a client of an MCP server finds: the authorization server
// of @modelcontextprotocol/conformance, and the flows of @mcpjam/sdk. A person signs in and decides in a browser.
func TestMCPSuites(t *testing.T) {
	t.Parallel()
	upstream := httptest.NewServer(http.HandlerFunc(mcpServer))
	t.Cleanup(upstream.Close)
	ports := freePorts(t, 3)
	redirect := fmt.Sprintf("http://127.0.0.1:%d/callback", ports[1])
	doc := &metadataDocument{redirect: redirect}
	doc.Server = httptest.NewTLSServer(doc)
	t.Cleanup(doc.Close)
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: doc.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	resource := fmt.Sprintf("http://localhost:%d/mcp", ports[0])
	_, s := openShopEdited(t, func(caddyfile string) string {
		// The revision of 2025-03-26 looks for the authorization server at the origin of the MCP server alone.
		site := "\tgatehouse\n}"
		_, before, _ := strings.Cut(caddyfile, "issuer ")
		issuer, _, _ := strings.Cut(before, "\n")
		caddyfile = strings.Replace(caddyfile, site,
			"\thandle /mcp {\n\t\tprotect tools.read {\n\t\t\tmcp "+issuer+"/mcp\n\t\t}\n\t\treverse_proxy "+upstream.Listener.Addr().String()+
				"\n\t}\n\thandle {\n\t\tgatehouse\n\t}\n}", 1)
		caddyfile = strings.Replace(caddyfile, "\t\tclient passport {", `		client agent {
			public
			redirect_uris http://127.0.0.1/callback
			grants authorization_code refresh_token
			scopes openid tools.read
			default_scopes tools.read
		}
		client passport {`, 1)
		return strings.Replace(caddyfile, "\t\tidentity {", "\t\tregistration open\n\t\toutbound {\n\t\t\tallow 127.0.0.0/8\n\t\t}\n\t\tidentity {", 1) + `
` + strings.TrimSuffix(resource, "/mcp") + ` {
	log
	protect /mcp tools.read {
		mcp
	}
	reverse_proxy ` + upstream.Listener.Addr().String() + `
}
`
	}, "SSL_CERT_FILE="+ca)

	t.Run("mcpjam", func(t *testing.T) {
		t.Parallel()
		for at, flows := range map[string]string{
			s.Issuer + "/mcp": "2025-03-26 preregistered attacks,2025-03-26 dcr attacks,2025-03-26 dcr tools",
			resource: "2025-06-18 preregistered attacks,2025-06-18 dcr attacks,2025-06-18 dcr tools,2025-11-25 preregistered attacks," +
				"2025-11-25 preregistered tools,2025-11-25 dcr attacks,2025-11-25 cimd attacks,2025-11-25 cimd tools",
		} {
			cmd := exec.CommandContext(t.Context(), "node", "mcp/mcpjam.mjs")
			cmd.Env = environ(s.dir, "RESOURCE="+at, "CLIENT_ID=agent", "DOCUMENT="+doc.URL+"/client.json", "REDIRECT_URI="+redirect, "FLOWS="+flows,
				"DO_NOT_TRACK=1", "NODE_EXTRA_CA_CERTS="+ca)
			if got := strings.Join(s.suite(t, cmd), ","); got != flows {
				t.Errorf("%s: passed %q, want %q", at, got, flows)
			}
		}
	})

	t.Run("modelcontextprotocol", func(t *testing.T) {
		t.Parallel()
		nodes, err := filepath.Glob("mcp/node_modules/node-linux-*/bin/node") // newer than that of Debian
		if err != nil || len(nodes) == 0 {
			t.Fatalf("no Node.js 22 in e2e/mcp: %v: make install", err)
		}
		cmd := exec.CommandContext(t.Context(), nodes[0], "mcp/node_modules/@modelcontextprotocol/conformance/dist/index.js", //nolint:gosec // of our lock file
			"authorization",
			"--url", s.Issuer, "--client-id", "agent", "--resource", resource, "--port", fmt.Sprint(ports[2]))
		cmd.Env = environ(s.dir, "NO_COLOR=1")
		if got := s.suite(t, cmd); !slices.Equal(got,
			[]string{"authorization-server-metadata-endpoint: 2 passed, 0 failed", "authorization-code-grant: 1 passed, 0 failed"}) {
			t.Errorf("passed %q", got)
		}
	})
}

// suite runs a suite that prints what a browser must open, and returns what it says has passed.
func (s *server) suite(t *testing.T, cmd *exec.Cmd) (passed []string) {
	t.Helper()
	cmd.WaitDelay = 5 * time.Second
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var said, errs strings.Builder
	cmd.Stderr = &errs
	if err := cmd.Start(); err != nil {
		t.Fatalf("%v: %v: make install", cmd.Args, err)
	}
	b := s.browse(t)
	signedIn := false
	for lines := bufio.NewScanner(out); lines.Scan(); {
		said.WriteString(lines.Text() + "\n")
		word, rest, _ := strings.Cut(lines.Text(), " ")
		if strings.HasPrefix(word, s.Issuer+"/oauth/authorize?") {
			word, rest = "open", word
		}
		switch word {
		case "open":
			if b.open(rest); !signedIn {
				b.signIn(person, s.Password)
				signedIn = true
			}
			if b.has("button[value=allow]") {
				b.click("button[value=allow]")
			}
		case "secret":
			s.secret("token of a suite", rest)
		case "ok", "✓":
			passed = append(passed, rest)
		case "fail", "✗":
			t.Error(lines.Text())
		}
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("%v: %v\n%s%s", cmd.Args, err, &said, &errs)
	}
	return passed
}
