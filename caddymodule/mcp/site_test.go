package mcp_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/gatehouse-id/gatehouse/caddymodule/servertest"
)

// tokenFor gets a token of the client reports for a resource, or the error.
func tokenFor(s *servertest.Server, resource string) (token, failure string) {
	s.T.Helper()
	form := url.Values{"grant_type": {"client_credentials"}, "resource": {resource}}
	r := s.Request(http.MethodPost, s.Issuer()+"/oauth/token", strings.NewReader(form.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.SetBasicAuth("reports", servertest.TestSecret)
	_, body := s.Do(r)
	var answer struct {
		Token string `json:"access_token"`
		Error string `json:"error"`
	}
	if err := json.Unmarshal([]byte(body), &answer); err != nil {
		s.T.Fatalf("token: %v: %s", err, body)
	}
	return answer.Token, answer.Error
}

// A client that knows nothing but the address of an MCP server finds the authorization server, asks it for a token for
// that address as its URL class writes it, and passes. A token for nothing in particular does not.
func TestMCPSiteIsFound(t *testing.T) {
	s := servertest.NewServer(t)
	s.Site = "protect /tools* orders.read {\n\t\tmcp {\n\t\t\tname Tools of the office\n\t\t\tdocumentation https://docs.example.com/tools\n\t\t}\n\t}\n\tprotect /whole {\n\t\tmcp\n\t\tneed scopes orders.read offline_access\n\t}"
	s.Extra += "client other {\n\t\t\tsecret " + servertest.TestSecret +
		"\n\t\t\tgrants client_credentials\n\t\t\tscopes orders.read\n\t\t\tdefault_scopes orders.read\n\t\t\taudiences https://elsewhere.example.com\n\t\t}"
	s.MustLoad()
	site := "http://" + s.API
	refused, _ := s.Do(s.Request(http.MethodPost, site+"/tools", strings.NewReader("{}")))
	challenge := refused.Header.Get("WWW-Authenticate")
	if want := `Bearer realm="gatehouse", scope="orders.read", resource_metadata="` + site +
		`/.well-known/oauth-protected-resource/tools"`; refused.StatusCode != http.StatusUnauthorized || challenge != want {
		t.Errorf("a request without a token = %d, WWW-Authenticate: %s, want 401 and %s", refused.StatusCode, challenge, want)
	}
	if h := refused.Header; h.Get("Access-Control-Allow-Origin") != "*" ||
		h.Get("Access-Control-Expose-Headers") != "WWW-Authenticate, DPoP-Nonce" {
		t.Errorf("a script of another origin cannot read the challenge: %v", h)
	}

	type document struct {
		Resource      string   `json:"resource"`
		Servers       []string `json:"authorization_servers"`
		Scopes        []string `json:"scopes_supported"`
		Methods       []string `json:"bearer_methods_supported"`
		Name          string   `json:"resource_name"`
		Documentation string   `json:"resource_documentation"`
	}
	found, body := s.Do(s.Request(http.MethodGet, site+"/.well-known/oauth-protected-resource/tools", nil))
	got := servertest.Decode[document](t, body)
	if found.StatusCode != http.StatusOK || found.Header.Get("Content-Type") != "application/json" ||
		found.Header.Get("Access-Control-Allow-Origin") != "*" ||
		got.Resource != site+"/tools" || !slices.Equal(got.Servers, []string{s.Issuer()}) || !slices.Equal(got.Scopes, []string{"orders.read"}) ||
		!slices.Equal(got.Methods, []string{"header"}) || got.Name != "Tools of the office" ||
		got.Documentation != "https://docs.example.com/tools" {
		t.Errorf("metadata = %d %v %s", found.StatusCode, found.Header, body)
	}
	if _, body := s.Do(s.Request(http.MethodGet, site+"/.well-known/oauth-protected-resource/whole",
		nil)); !slices.Equal(servertest.Decode[document](t, body).Scopes, []string{"orders.read"}) {
		t.Errorf("metadata name offline_access, which only clients ask for: %s", body)
	}
	for target, want := range map[string]int{"": 200, "/none": 200, "/tools/": 200} { // the first two reach the site, which answers "in"
		if res, body := s.Do(s.Request(http.MethodGet, site+"/.well-known/oauth-protected-resource"+target, nil)); res.StatusCode != want ||
			(target == "/tools/") != strings.HasPrefix(body, "{") {
			t.Errorf("metadata at %q = %d %s", target, res.StatusCode, body)
		}
	}
	r := s.Request(http.MethodOptions, site+"/.well-known/oauth-protected-resource/tools", nil)
	if res, _ := s.Do(r); res.StatusCode != http.StatusNoContent || res.Header.Get("Access-Control-Allow-Headers") != "MCP-Protocol-Version" {
		t.Errorf("preflight of metadata = %d %v", res.StatusCode, res.Header)
	}
	if res, _ := s.Do(s.Request(http.MethodPost, site+"/.well-known/oauth-protected-resource/tools",
		nil)); res.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("POST of metadata = %d, want 405", res.StatusCode)
	}
	for method, want := range map[string]string{http.MethodGet: "public: ", http.MethodPost: "invalid: "} {
		out := s.Run("", "explain", "--method", method, "--url", site+"/.well-known/oauth-protected-resource/tools")
		if !strings.Contains(out, want) {
			t.Errorf("explain of %s of metadata = %s, want %s", method, out, want)
		}
	}

	use := func(token string) int {
		r := s.Request(http.MethodPost, site+"/tools", strings.NewReader("{}"))
		r.Header.Set("Authorization", "Bearer "+token)
		res, _ := s.Do(r)
		return res.StatusCode
	}
	if got := use(s.Token()); got != http.StatusUnauthorized {
		t.Errorf("a token for no resource = %d, want 401", got)
	}
	token, failure := tokenFor(s, "HTTP://"+strings.ToUpper(s.API)+"/tools")
	if got := use(token); failure != "" || got != http.StatusOK {
		t.Errorf("a token for the resource, its host in capitals: %q, then %d, want 200", failure, got)
	}
	if token, failure = tokenFor(s, site+"/whole"); failure != "" || use(token) != http.StatusUnauthorized {
		t.Errorf("a token for the other resource of the site passes, or there is none: %q", failure)
	}
	for _, resource := range []string{site + "/tools/", site + "/tools/list", site + "/tools/a/b%20c"} {
		if token, failure = tokenFor(s, resource); failure != "" || use(token) != http.StatusOK {
			t.Errorf("a token for %s, which is below the site: %q, or it does not pass", resource, failure)
		}
	}
	for _, resource := range []string{
		site + "/tools#x", site + "/tools?x", site + "/tools/x?y", site + "/toolsx", site + "/tools/../whole",
		site + "/tools/%2e%2E/whole", site + "/tools/a%2Fb", site + "/", "https://elsewhere.example.com", site,
	} {
		if token, failure = tokenFor(s, resource); failure != "invalid_target" {
			t.Errorf("a token for %s = %q, %q, want invalid_target", resource, token, failure)
		}
	}
}

// The metadata of a site at the root of its host are those of the host, with and without the slash that URL classes
// add, also behind a protect that guards every path. The upstream gets no token.
func TestMCPSiteAtTheRoot(t *testing.T) {
	s := servertest.NewServer(t)
	s.Site = "protect orders.read {\n\t\tpublic /health\n\t}\n\tprotect orders.read {\n\t\tmcp\n\t}\n\trespond /seen \"token: {header.Authorization}\""
	s.MustLoad()
	site := "http://" + s.API
	for _, path := range []string{"", "/"} {
		if _, body := s.Do(s.Request(http.MethodGet, site+"/.well-known/oauth-protected-resource"+path, nil)); !strings.Contains(body,
			`"resource":"`+site+`"`) {
			t.Errorf("metadata at %q = %s", path, body)
		}
	}
	for _, resource := range []string{site, site + "/"} {
		token, failure := tokenFor(s, resource)
		r := s.Request(http.MethodGet, site+"/seen", nil)
		r.Header.Set("Authorization", "Bearer "+token)
		if res, body := s.Do(r); failure != "" || res.StatusCode != http.StatusOK || body != "token: " {
			t.Errorf("a token for %s: %q, then %d %q, want 200 and no token upstream", resource, failure, res.StatusCode, body)
		}
	}
}

// Clients that no one has registered are known by their documents as soon as a site is a resource, unless they are
// switched off. A document inside the network is not fetched.
func TestMCPSiteKnowsClientsByTheirDocuments(t *testing.T) {
	s := servertest.NewServer(t)
	supported := func() bool {
		_, body := s.Do(s.Request(http.MethodGet, s.Issuer()+"/.well-known/oauth-authorization-server", nil))
		return strings.Contains(body, `"client_id_metadata_document_supported":true`)
	}
	s.MustLoad()
	if supported() {
		t.Error("without a site that has mcp, documents are supported")
	}
	s.Site = "protect orders.read {\n\t\tmcp\n\t}"
	s.MustLoad()
	if !supported() {
		t.Error("with a site that has mcp, documents are not supported")
	}
	res, _ := s.Do(s.Request(http.MethodGet,
		s.Issuer()+"/oauth/authorize?"+
			url.Values{"client_id": {"https://" + s.API + "/client.json"}, "redirect_uri": {"http://localhost/"}}.Encode(), nil))
	if res.StatusCode != http.StatusBadRequest {
		t.Errorf("a document inside the network = %d, want 400", res.StatusCode)
	}
	s.Extra = "client_metadata_documents off"
	s.MustLoad()
	if supported() {
		t.Error("documents are supported although they are off")
	}
	s.Extra, s.Site = "client_metadata_documents on", ""
	s.MustLoad()
	if !supported() {
		t.Error("documents are not supported although they are on")
	}
}

// callTool is a JSON-RPC message that calls a tool.
func callTool(name string) string {
	return `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"` + name + `","arguments":{"method":"x","Name":"y"}}}`
}

// A tool asks for scopes of its own. Whatever the headers say, the body counts, and a body that can be read in two ways
// does not reach the server.
func TestMCPToolsNeedScopes(t *testing.T) {
	s := servertest.NewServer(t)
	s.Site = "protect tools.read {\n\t\tmcp {\n\t\t\ttool delete_* tools.write\n\t\t\ttool *_user tools.admin tools.write\n\t\t\ttool exact tools.exact\n\t\t}\n\t}\n\trespond \"got: {http.request.body}\""
	s.Extra = "client agent {\n\t\t\tsecret " + servertest.TestSecret +
		"\n\t\t\tgrants client_credentials\n\t\t\tscopes tools.read tools.write tools.admin\n\t\t}"
	s.MustLoad()
	site := "http://" + s.API
	tokenFor := func(scope string) string {
		form := url.Values{"grant_type": {"client_credentials"}, "resource": {site}, "scope": {scope}}
		r := s.Request(http.MethodPost, s.Issuer()+"/oauth/token", strings.NewReader(form.Encode()))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.SetBasicAuth("agent", servertest.TestSecret)
		_, body := s.Do(r)
		return servertest.Decode[struct {
			Token string `json:"access_token"`
		}](t, body).Token
	}
	reader, writer := tokenFor("tools.read"), tokenFor("tools.read tools.write")
	if _, body := s.Do(s.Request(http.MethodGet, site+"/.well-known/oauth-protected-resource", nil)); !strings.Contains(body,
		`"scopes_supported":["tools.admin","tools.exact","tools.read","tools.write"]`) {
		t.Errorf("metadata = %s", body)
	}
	const insufficient = `Bearer realm="gatehouse", error="insufficient_scope", error_description="the token lacks a scope that is required here", scope="`
	batch := func(all ...string) string { return "[" + strings.Join(all, ",") + "]" }
	initialize := `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}`
	t.Run("attack 465: tools under other names", func(t *testing.T) {
		for name, tt := range map[string]struct {
			token, body string
			headers     []string
			status      int
			want        string // in the challenge
		}{
			"a tool without a rule":     {reader, callTool("list"), nil, 200, ""},
			"a tool with one":           {reader, callTool("delete_file"), nil, 403, insufficient + `tools.read tools.write"`},
			"with the scope":            {writer, callTool("delete_file"), nil, 200, ""},
			"with two rules":            {writer, callTool("delete_user"), nil, 403, insufficient + `tools.read tools.admin tools.write"`},
			"a name in capitals":        {reader, callTool("DELETE_FILE"), nil, 403, insufficient + `tools.read tools.write"`},
			"a name after a space":      {reader, callTool(" delete_file"), nil, 400, ""},
			"a name before a tab":       {reader, callTool(`delete_file\t`), nil, 400, ""},
			"a name with a hidden sign": {reader, callTool(`\u200bdelete_file`), nil, 400, ""},
			"a name after a wide space": {reader, callTool(`\u3000delete_file`), nil, 400, ""},
			"a name that no line has":   {reader, callTool("remove_file"), nil, 200, ""},
			"nearly a name":             {writer, callTool("exactly"), nil, 200, ""},
			"a name":                    {writer, callTool("exact"), nil, 403, insufficient + `tools.read tools.exact"`},
			"another method":            {reader, initialize, nil, 200, ""},
			"an answer":                 {reader, `{"jsonrpc":"2.0","id":1,"result":{"method":"tools/call"}}`, nil, 200, ""},
			"headers that agree": {
				writer, callTool("delete_file"),
				[]string{"Mcp-Method", "tools/call", "Mcp-Name", "delete_file"},
				200, "",
			},
			"an encoded header": {
				writer, callTool("délete"),
				[]string{"Mcp-Method", "tools/call", "Mcp-Name", "=?base64?ZMOpbGV0ZQ==?="},
				200, "",
			},
			"another name in the header":   {reader, callTool("delete_file"), []string{"Mcp-Method", "tools/call", "Mcp-Name", "list"}, 400, ""},
			"another method in the header": {writer, callTool("delete_file"), []string{"Mcp-Method", "initialize"}, 400, ""},
			"two headers":                  {writer, callTool("list"), []string{"Mcp-Name", "list", "Mcp-Name", "list"}, 400, ""},
			"headers without a body":       {writer, "", []string{"Mcp-Method", "tools/call"}, 400, ""},
			"a batch":                      {reader, batch(initialize, callTool("list")), nil, 200, ""},
			"a batch with a tool": {
				reader, batch(initialize, callTool("list"), callTool("delete_file")), nil, 403,
				insufficient + `tools.read tools.write"`,
			},
			"a batch with headers":      {writer, batch(callTool("list")), []string{"Mcp-Method", "tools/call"}, 400, ""},
			"a method twice":            {reader, `{"method":"initialize","method":"tools/call","params":{"name":"delete_file"}}`, nil, 400, ""},
			"a method in other letters": {reader, `{"method":"initialize","Method":"tools/call","params":{"name":"delete_file"}}`, nil, 400, ""},
			"a name in other letters":   {reader, `{"method":"tools/call","params":{"name":"list","NAME":"delete_file"}}`, nil, 400, ""},
			"an escaped name": {
				reader, `{"method":"tools/call","params":{"name":"delete\u005ffile"}}`, nil, 403,
				insufficient + `tools.read tools.write"`,
			},
			"a call of nothing":             {reader, `{"method":"tools/call"}`, nil, 400, ""},
			"two messages after each other": {reader, initialize + callTool("delete_file"), nil, 400, ""},
			"no JSON":                       {reader, "name=delete_file", nil, 400, ""},
			"a body that is compressed":     {reader, initialize, []string{"Content-Encoding", "gzip"}, 415, ""},
			"a body of 1 MiB and more":      {reader, `{"method":"x","params":"` + strings.Repeat("x", 1<<20) + `"}`, nil, 413, ""},
			"an upgrade": {
				reader, "",
				[]string{
					"Upgrade", "websocket", "Connection", "Upgrade", "Sec-WebSocket-Version", "13", "Sec-WebSocket-Key",
					"dGhlIHNhbXBsZSBub25jZQ==",
				},
				400, "",
			},
			"no token":                  {"", "no JSON", nil, 401, ""},
			"a stream of notifications": {reader, "", nil, 200, ""},
		} {
			method := http.MethodPost
			if tt.body == "" {
				method = http.MethodGet
			}
			r := s.Request(method, site+"/", strings.NewReader(tt.body))
			if tt.token != "" {
				r.Header.Set("Authorization", "Bearer "+tt.token)
			}
			for i := 0; i < len(tt.headers); i += 2 {
				r.Header.Add(tt.headers[i], tt.headers[i+1])
			}
			res, body := s.Do(r)
			challenge := res.Header.Get("WWW-Authenticate")
			if res.StatusCode != tt.status || !strings.HasPrefix(challenge, tt.want) || (tt.status == http.StatusOK && body != "got: "+tt.body) {
				t.Errorf("%s = %d %s, %.200s, want %d %s", name, res.StatusCode, challenge, body, tt.status, tt.want)
			}
		}
	})
}

// A client that follows the first challenge, or that names no scope at all, gets what all tools need, as far as it is
// allowed it, and a script of another origin can send a preflight. With challenge_tools off it gets the scopes of the
// site.
func TestMCPFirstScopes(t *testing.T) {
	s := servertest.NewServer(t)
	site := "http://" + s.API
	const tools = "\t\t\ttool delete_* tools.write\n\t\t\ttool never tools.secret\n"
	s.Extra = "client agent {\n\t\t\tsecret " + servertest.TestSecret +
		"\n\t\t\tgrants client_credentials\n\t\t\tscopes other tools.read tools.write tools.admin\n\t\t}"
	for name, tt := range map[string]struct {
		site, challenge string
		allowed         string // scopes of a token that was asked for without scope
	}{
		"as it is": {
			"protect tools.read {\n\t\tmcp {\n" + tools +
				"\t\t}\n\t\tallow {\n\t\t\tmatch path /admin\n\t\t\tneed scopes tools.admin\n\t\t}\n\t\tallow {\n\t\t\tmatch not path /admin\n\t\t}\n\t}",
			"tools.read tools.write tools.secret", "tools.admin tools.read tools.write",
		},
		"challenge_tools off": {
			"protect tools.read {\n\t\tmcp {\n\t\t\tchallenge_tools off\n" + tools + "\t\t}\n\t}",
			"tools.read", "tools.read",
		},
	} {
		s.Site = tt.site
		s.MustLoad()
		for _, token := range []string{"", "ghat_unknown"} {
			r := s.Request(http.MethodPost, site+"/", strings.NewReader(callTool("list")))
			if token != "" {
				r.Header.Set("Authorization", "Bearer "+token)
			}
			if res, _ := s.Do(r); res.StatusCode != http.StatusUnauthorized ||
				!strings.Contains(res.Header.Get("WWW-Authenticate"), `scope="`+tt.challenge+`"`) {
				t.Errorf("%s: token %q = %d %s, want 401 and the scopes %s", name, token, res.StatusCode,
					res.Header.Get("WWW-Authenticate"), tt.challenge)
			}
		}
		ask := func(scope string) (status int, given string) {
			form := url.Values{"grant_type": {"client_credentials"}, "resource": {site + "/mcp"}, "scope": {scope}}
			r := s.Request(http.MethodPost, s.Issuer()+"/oauth/token", strings.NewReader(form.Encode()))
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			r.SetBasicAuth("agent", servertest.TestSecret)
			res, body := s.Do(r)
			got := strings.Fields(servertest.Decode[struct {
				Scope string `json:"scope"`
			}](t, body).Scope)
			slices.Sort(got)
			return res.StatusCode, strings.Join(got, " ")
		}
		if status, got := ask(""); status != http.StatusOK || got != tt.allowed {
			t.Errorf("%s: a token without scope = %d %q, want 200 and %q", name, status, got, tt.allowed)
		}
		if status, got := ask("tools.read tools.write tools.secret"); status != http.StatusOK || got != "tools.read tools.write" {
			t.Errorf("%s: a token with the scopes of the challenge = %d %q, want those that the client is allowed", name, status, got)
		}
		for _, scope := range []string{"tools.secret", "tools.read unknown"} {
			if status, got := ask(scope); status != http.StatusBadRequest {
				t.Errorf("%s: a token with the scope %s = %d %q, want 400", name, scope, status, got)
			}
		}
		r := s.Request(http.MethodOptions, site+"/", nil)
		r.Header.Set("Origin", "https://inspector.example")
		r.Header.Set("Access-Control-Request-Method", http.MethodPost)
		if res, _ := s.Do(r); res.StatusCode != http.StatusOK {
			t.Errorf("%s: a preflight = %d, want that it reaches the server", name, res.StatusCode)
		}
		if res, _ := s.Do(s.Request(http.MethodOptions, site+"/", nil)); res.StatusCode != http.StatusUnauthorized {
			t.Errorf("%s: OPTIONS that is no preflight = %d, want 401", name, res.StatusCode)
		}
	}
}

// A client registers itself as the Caddyfile lets it, and operators see where each client comes from.
func TestMCPClientRegistersItself(t *testing.T) {
	s := servertest.NewServer(t)
	s.Site = "protect orders.read {\n\t\tmcp\n\t}"
	register := func() (int, string) {
		r := s.Request(http.MethodPost, s.Issuer()+"/oauth/register",
			strings.NewReader(`{"redirect_uris":["http://localhost/cb"],"token_endpoint_auth_method":"none","client_name":"Editor"}`))
		r.Header.Set("Content-Type", "application/json")
		res, body := s.Do(r)
		return res.StatusCode, body
	}
	s.MustLoad()
	if status, body := register(); status != http.StatusNotFound {
		t.Errorf("without the option = %d %s, want 404", status, body)
	}
	s.Extra = "registration open {\n\t\t\tlimit 2/d\n\t\t\tmanagement\n\t\t}"
	s.MustLoad()
	status, body := register()
	if status != http.StatusCreated || !strings.Contains(body, `"registration_access_token":"ghrg_`) {
		t.Errorf("register = %d %s", status, body)
	}
	id := servertest.Decode[struct {
		ID string `json:"client_id"`
	}](t, body).ID
	if status, body = register(); status != http.StatusCreated {
		t.Errorf("register again = %d %s", status, body)
	}
	if status, body = register(); status != http.StatusTooManyRequests {
		t.Errorf("register beyond the limit = %d %s, want 429", status, body)
	}
	if out := s.Run("", "client", "list"); !strings.Contains(out, "registration") || !strings.Contains(out, "Caddyfile:") ||
		!strings.Contains(out, "Editor") {
		t.Errorf("client list:\n%s", out)
	}
	if out := s.Run("", "client", "show", id); !strings.Contains(out, "registration") {
		t.Errorf("client show:\n%s", out)
	}
	s.Run("", "client", "set", id, "--name", "The editor")
	s.Run("", "client", "disable", id)
	s.Run("", "client", "remove", id, "--yes")
}

// A site whose metadata no request can reach is reported.
func TestMCPMetadataOutOfReach(t *testing.T) {
	s := servertest.NewServer(t)
	s.Site = "handle /mcp* {\n\t\tprotect orders.read {\n\t\t\tmcp http://" + s.API + "/mcp\n\t\t}\n\t}"
	s.MustLoad()
	s.WantFinding("warning", "Caddyfile:", "clients do not find the metadata", "protect /mcp* { mcp }")
}

// mcp check prints the way of a client, and says where it ends.
func TestMCPCheck(t *testing.T) {
	s := servertest.NewServer(t)
	s.Site = "protect /mcp* orders.read {\n\t\tmcp\n\t}"
	s.MustLoad()
	out, err := servertest.Run(t, "", "mcp", "check", "http://"+s.API+"/mcp/")
	if err != nil || strings.Contains(out, "warning") || strings.Count(out, "ok ") != 10 || !strings.Contains(out, "orders.read") {
		t.Errorf("check = %v\n%s", err, out)
	}
	out, err = servertest.Run(t, "", "mcp", "check", "http://"+s.API+"/open")
	if err == nil || !strings.Contains(out, "failed   request without a token: the answer is 200 in place of 401") {
		t.Errorf("check of an open server = %v\n%s", err, out)
	}
	s.Site = "protect orders.read {\n\t\tmcp http://" + s.API + "/other\n\t}"
	s.MustLoad()
	// The server that goes with a reload closes connections without an answer.
	for range 50 {
		if out, err = servertest.Run(t, "", "mcp", "check", "http://"+s.API+"/mcp"); !strings.Contains(out, "EOF") &&
			!strings.Contains(out, "reset by peer") {
			break
		}
	}
	if err == nil || !strings.Contains(out, "clients refuse it") {
		t.Errorf("check of a server with another resource = %v\n%s", err, out)
	}
	if _, err = servertest.Run(t, "", "mcp", "check", "mcp.example.com"); err == nil || !strings.Contains(err.Error(), "want the address") {
		t.Errorf("check of what is no address = %v", err)
	}
}
