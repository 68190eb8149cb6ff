package e2e

import (
	"bufio"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"
)

// mcpServer answers JSON-RPC as an MCP server with two tools does, without a word about tokens.
func mcpServer(w http.ResponseWriter, r *http.Request) {
	var in struct {
		ID     json.RawMessage `json:"id"`
		Method string          `json:"method"`
		Params struct {
			Version string `json:"protocolVersion"`
		} `json:"params"`
	}
	if r.Method != http.MethodPost {
		w.WriteHeader(http.StatusMethodNotAllowed) // it has no stream of notifications
		return
	}
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil || r.Header.Get("Authorization") != "" {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	result := map[string]any{}
	switch in.Method {
	case "initialize":
		result = map[string]any{
			"protocolVersion": in.Params.Version, "capabilities": map[string]any{"tools": map[string]any{}},
			"serverInfo": map[string]any{"name": "e2e", "version": "1"},
		}
	case "tools/list":
		schema := map[string]any{"type": "object"}
		result = map[string]any{"tools": []any{
			map[string]any{"name": "read", "inputSchema": schema},
			map[string]any{"name": "delete_file", "inputSchema": schema},
		}}
	case "tools/call":
		result = map[string]any{"content": []any{map[string]any{"type": "text", "text": "done"}}}
	}
	if in.ID == nil {
		w.WriteHeader(http.StatusAccepted)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": in.ID, "result": result})
	if err != nil {
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	fmt.Fprintf(w, "event: message\ndata: %s\n\n", body)
}

// metadataDocument is the document of a client, of 20 KB, which names other redirect URIs once it has changed.
type metadataDocument struct {
	*httptest.Server

	mu       sync.Mutex // guards redirect
	redirect string
}

func (d *metadataDocument) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	d.mu.Lock()
	defer d.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"client_id":%q,"client_name":"SDK","redirect_uris":[%q],"token_endpoint_auth_method":"none","client_uri":"https://example.com/%s"}`,
		d.URL+r.URL.Path, d.redirect, strings.Repeat("x", 20<<10))
}

// TestMCPClients connects real clients of MCP servers to one behind `protect { mcp }`: that of the TypeScript SDK, as
// most of them have inside, and mcp-remote. A person signs in and decides in a browser.
func TestMCPClients(t *testing.T) {
	t.Parallel()
	upstream := httptest.NewServer(http.HandlerFunc(mcpServer))
	t.Cleanup(upstream.Close)
	doc := &metadataDocument{}
	doc.Server = httptest.NewTLSServer(doc)
	t.Cleanup(doc.Close)
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: doc.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	port := freePorts(t, 1)[0]
	resource := fmt.Sprintf("http://localhost:%d", port)
	shop, s := openShopEdited(t, func(caddyfile string) string {
		return strings.Replace(caddyfile, "\t\tidentity {", "\t\tregistration open\n\t\toutbound {\n\t\t\tallow 127.0.0.0/8\n\t\t}\n\t\tidentity {", 1) + `
` + resource + ` {
	log
	protect tools.read {
		mcp {
			challenge_tools off
			tool delete_* tools.write
		}
	}
	reverse_proxy ` + upstream.Listener.Addr().String() + `
}
`
	}, "SSL_CERT_FILE="+ca)
	doc.redirect = shop.address + "/callback"

	t.Run("TypeScript SDK", func(t *testing.T) {
		t.Parallel()
		cmd := exec.CommandContext(t.Context(), "node", "node/mcp-sdk.mjs")
		cmd.Env = environ(s.dir, "RESOURCE="+resource, "REDIRECT_URI="+shop.address+"/callback", "DOCUMENT="+doc.URL+"/client.json")
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		var errs strings.Builder
		cmd.Stderr = &errs
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatalf("node: %v: make install", err)
		}
		b := s.browse(t)
		var steps []string
		for lines := bufio.NewScanner(out); lines.Scan(); {
			word, rest, _ := strings.Cut(lines.Text(), " ")
			answer := "\n"
			switch word {
			case "open", "consent":
				if b.open(rest); word == "open" {
					b.signIn(person, s.Password)
				}
				b.click("button[value=allow]")
				answer = b.location() + "\n"
			case "change":
				doc.mu.Lock()
				doc.redirect = "https://evil.example/callback"
				doc.mu.Unlock()
			case "secret":
				s.secret("token of the SDK", rest)
				continue
			case "ok":
				steps = append(steps, rest)
				continue
			default:
				t.Errorf("mcp-sdk.mjs: %s", lines.Text())
				continue
			}
			if _, err := in.Write([]byte(answer)); err != nil {
				t.Fatal(err)
			}
		}
		if err := cmd.Wait(); err != nil {
			t.Errorf("mcp-sdk.mjs: %v\n%s", err, errs.String())
		}
		if got, want := strings.Join(steps, " "), "registration refresh step_up document"; got != want {
			t.Errorf("the SDK did %q, want %q", got, want)
		}
	})

	t.Run("mcp-remote", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		cmd := exec.CommandContext(t.Context(), "node", "node/node_modules/mcp-remote/dist/proxy.js", resource, fmt.Sprint(freePorts(t, 1)[0]))
		cmd.Env = append(environ(s.dir), "MCP_REMOTE_CONFIG_DIR="+dir)
		cmd.WaitDelay = 5 * time.Second
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		errs, err := cmd.StderrPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatalf("node: %v: make install", err)
		}
		b := s.browse(t)
		var said strings.Builder
		address := regexp.MustCompile(`^` + regexp.QuoteMeta(s.Issuer) + `/oauth/authorize\?\S+$`)
		lines := bufio.NewScanner(errs)
		opened := false
		for !opened && lines.Scan() {
			said.WriteString(lines.Text() + "\n")
			if text := strings.TrimSpace(lines.Text()); address.MatchString(text) {
				opened = true
				b.open(text)
				b.signIn(person, s.Password)
				b.click("button[value=allow]")
			}
		}
		if !opened {
			t.Fatalf("mcp-remote asked for no sign-in:\n%s", said.String())
		}
		go func() {
			for lines.Scan() { // or it waits for its reader
			}
		}()
		if at, err := url.Parse(b.location()); err != nil || at.Query().Get("code") == "" {
			t.Errorf("the browser ended at %s", b.location())
		}
		fmt.Fprintln(in, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"e2e","version":"1"}}}`)
		answers := bufio.NewScanner(out)
		if !answers.Scan() || !strings.Contains(answers.Text(), `"serverInfo":{"name":"e2e"`) {
			t.Errorf("initialize through mcp-remote = %s\n%s", answers.Text(), said.String())
		}
		in.Close()
		_ = cmd.Process.Kill() // the bridge has no other end
		_ = cmd.Wait()
	})
}
