// Package mcpcheck discovers the authorization server of an MCP server as clients of the Model Context Protocol do, and
// reports each step. It sends no token and changes nothing.
package mcpcheck

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Step is one thing that a client does or compares.
type Step struct {
	Name   string `json:"name"`
	Result string `json:"result"` // ok, warning or failed
	What   string `json:"what"`
}

// The results of steps.
const (
	OK      = "ok"
	Warning = "warning"
	Failed  = "failed"
)

const (
	wellKnown = "/.well-known/oauth-protected-resource"
	version   = "2025-11-25" // of the protocol, as clients send it in each request
	maxBody   = 1 << 20
)

type check struct {
	http  *http.Client
	steps []Step
}

// Run goes the way of a client to the address of an MCP server, until a step fails.
func Run(ctx context.Context, client *http.Client, address string) ([]Step, error) {
	server, err := url.Parse(address)
	if err != nil || server.Host == "" || (server.Scheme != "https" && server.Scheme != "http") {
		return nil, errors.New("want the address of an MCP server, such as https://mcp.example.com/mcp")
	}
	plain := *client
	plain.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	c := &check{http: &plain}
	c.run(ctx, server)
	return c.steps, nil
}

func (c *check) say(name, result, format string, args ...any) {
	c.steps = append(c.steps, Step{name, result, fmt.Sprintf(format, args...)})
}

func (c *check) run(ctx context.Context, server *url.URL) {
	named, ok := c.challenge(ctx, server)
	if !ok {
		return
	}
	issuer, ok := c.resource(ctx, server, named)
	if ok {
		c.issuer(ctx, issuer)
	}
}

var metadataParam = regexp.MustCompile(`resource_metadata="([^"]+)"`)

// challenge sends a request without a token. It returns where the refusal says that the metadata are, or "".
func (c *check) challenge(ctx context.Context, server *url.URL) (named string, ok bool) {
	body := `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"` + version +
		`","capabilities":{},"clientInfo":{"name":"gatehouse","version":"1"}}}`
	res, err := c.send(ctx, http.MethodPost, server.String(), body)
	if err != nil {
		c.say("request without a token", Failed, "%v", err)
		return "", false
	}
	h := res.header.Get("WWW-Authenticate")
	switch {
	case res.status != http.StatusUnauthorized:
		c.say("request without a token", Failed, "the answer is %d in place of 401, so clients do not look for an authorization server",
			res.status)
		return "", false
	case len(h) < 7 || !strings.EqualFold(h[:7], "Bearer "):
		c.say("request without a token", Warning, "401, and WWW-Authenticate does not begin with Bearer: clients do not read it")
		return "", true
	}
	m := metadataParam.FindStringSubmatch(h)
	if m == nil {
		c.say("request without a token", Warning, "401 without resource_metadata: clients try the well-known addresses")
		return "", true
	}
	c.say("request without a token", OK, "401, the metadata are at %s", m[1])
	return m[1], true
}

// resource reads the metadata of the resource and returns its authorization server.
func (c *check) resource(ctx context.Context, server *url.URL, named string) (issuer string, ok bool) {
	origin := server.Scheme + "://" + server.Host
	places := []string{named}
	if named == "" {
		places = []string{origin + wellKnown + strings.TrimSuffix(server.Path, "/"), origin + wellKnown}
	}
	var doc struct {
		Resource string   `json:"resource"`
		Servers  []string `json:"authorization_servers"`
		Scopes   []string `json:"scopes_supported"`
	}
	if !c.first(ctx, "metadata of the resource", slices.Compact(places), &doc) {
		return "", false
	}
	if !belongs(doc.Resource, server) {
		c.say("resource", Failed, "%q is not the address or the start of it: clients refuse it", doc.Resource)
		return "", false
	}
	c.say("resource", OK, "%s", doc.Resource)
	switch {
	case len(doc.Servers) == 0:
		c.say("authorization server", Failed, "the metadata name none")
		return "", false
	case slices.Contains(doc.Scopes, "offline_access"):
		c.say("scopes", Warning, "offline_access is for clients to ask for, not for a resource")
	default:
		c.say("scopes", OK, "%s", strings.Join(doc.Scopes, " "))
	}
	return doc.Servers[0], true
}

// belongs reports whether an address is the resource or below it, as clients compare them.
func belongs(resource string, server *url.URL) bool {
	u, err := url.Parse(resource)
	if err != nil || !strings.EqualFold(u.Scheme, server.Scheme) || !strings.EqualFold(u.Host, server.Host) {
		return false
	}
	return strings.HasPrefix(strings.TrimSuffix(server.Path, "/")+"/", strings.TrimSuffix(u.Path, "/")+"/")
}

// issuer reads the metadata of the authorization server. (RFC 8414 3; OpenID Connect Discovery 4)
func (c *check) issuer(ctx context.Context, issuer string) {
	u, err := url.Parse(issuer)
	if err != nil || u.Host == "" {
		c.say("authorization server", Failed, "%q is not an address", issuer)
		return
	}
	origin, path := u.Scheme+"://"+u.Host, strings.TrimSuffix(u.Path, "/")
	places := []string{origin + "/.well-known/oauth-authorization-server" + path, origin + "/.well-known/openid-configuration" + path}
	if path != "" {
		places = append(places, issuer+"/.well-known/openid-configuration")
	}
	var doc struct {
		Issuer     string   `json:"issuer"`
		Authorize  string   `json:"authorization_endpoint"`
		Token      string   `json:"token_endpoint"`
		Register   string   `json:"registration_endpoint"`
		Challenges []string `json:"code_challenge_methods_supported"`
		Documents  bool     `json:"client_id_metadata_document_supported"`
		Iss        bool     `json:"authorization_response_iss_parameter_supported"`
	}
	if !c.first(ctx, "metadata of the authorization server", places, &doc) {
		return
	}
	for _, step := range []struct {
		name   string
		good   bool
		result string // if it is not good
		what   string
	}{
		{
			"issuer", doc.Issuer == issuer, Failed,
			fmt.Sprintf("the resource says %q, the server %q: they must be the same text", issuer, doc.Issuer),
		},
		{"endpoints", doc.Authorize != "" && doc.Token != "", Failed, "the authorization or token endpoint is missing"},
		{"PKCE", slices.Contains(doc.Challenges, "S256"), Failed, "code_challenge_methods_supported lacks S256: clients stop"},
		{"clients by metadata document", doc.Documents, Warning, "not supported: clients need another way to be known"},
		{"iss in answers", doc.Iss, Warning, "not announced: clients cannot tell answers of several servers apart"},
	} {
		if step.good {
			c.say(step.name, OK, "as it should be")
		} else {
			c.say(step.name, step.result, "%s", step.what)
		}
	}
	if !doc.Documents && doc.Register == "" {
		c.say("registration", Warning, "not supported: people are asked for a client id that the operator has registered")
	}
}

// first reads the first of several documents that is there. A client goes on after 4xx and 502, and stops at any other
// failure.
func (c *check) first(ctx context.Context, name string, places []string, v any) bool {
	for i, place := range places {
		res, err := c.send(ctx, http.MethodGet, place, "")
		switch {
		case err != nil:
			c.say(name, Failed, "%s: %v", place, err)
			return false
		case res.status != http.StatusOK:
			if next := i+1 < len(places); next && (res.status/100 == 4 || res.status == http.StatusBadGateway) {
				c.say(name, Warning, "%s answers %d: clients look elsewhere", place, res.status)
				continue
			}
			c.say(name, Failed, "%s answers %d in place of 200", place, res.status)
			return false
		case json.Unmarshal(res.body, v) != nil:
			c.say(name, Failed, "%s is not JSON of the expected form", place)
			return false
		}
		c.say(name, OK, "%s", place)
		return true
	}
	return false
}

// response is a response, read to a bounded length.
type response struct {
	status int
	header http.Header
	body   []byte
}

// send makes a request as clients do.
func (c *check) send(ctx context.Context, method, address, body string) (response, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, address, strings.NewReader(body))
	if err != nil {
		return response{}, err
	}
	req.Header.Set("Accept", "application/json, text/event-stream")
	req.Header.Set("MCP-Protocol-Version", version)
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	res, err := c.http.Do(req)
	if err != nil {
		return response{}, err
	}
	defer res.Body.Close() //nolint:errcheck // only read
	read, err := io.ReadAll(io.LimitReader(res.Body, maxBody))
	return response{res.StatusCode, res.Header, read}, err
}
