package mcp

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"unicode"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/gatehouse-id/gatehouse/caddymodule/internal/caddyfileutil"
	"github.com/gatehouse-id/gatehouse/internal/strictjson"
)

// Scopes for tools. What a request calls is in its body. Headers that say so too (Mcp-Method, Mcp-Name) must agree with
// it, so whatever reads them, at this site or behind it, is not told something else.
// (docs/decisions/gateway.md#mcp-tools)

const (
	maxBody  = 1 << 20 // bytes of a body that is read
	maxDepth = 64
	callTool = "tools/call"

	headerMethod = "Mcp-Method"
	headerName   = "Mcp-Name"
)

// Tool says which scopes calls of a tool need.
type Tool struct {
	// The name of the tool. * stands for any characters.
	Name string `json:"name"`
	// The scopes that a token must have.
	Scopes []string `json:"scopes"`
}

// BodyError says why the body of a request cannot be judged.
type BodyError struct {
	Status int
	text   string
}

func (e *BodyError) Error() string { return e.text }

func malformed(format string, args ...any) error {
	return &BodyError{http.StatusBadRequest, fmt.Sprintf(format, args...)}
}

func (o *Options) readTool(d *caddyfile.Dispenser) error {
	args := d.RemainingArgs()
	if len(args) < 2 {
		return d.Err("tool: want the name of a tool and the scopes that its calls need, such as tool delete_* tools.write")
	}
	for _, scope := range args[1:] {
		if err := caddyfileutil.Check(d, "tool", scope, caddyfileutil.CheckScope); err != nil {
			return err
		}
	}
	o.Tools = append(o.Tools, Tool{Name: args[0], Scopes: args[1:]})
	return nil
}

var checkSwitch = caddyfileutil.OneOf("on", "off")

// setUpTools resolves the tools.
func (o *Options) setUpTools(r *caddyfileutil.Resolver) {
	for i := range o.Tools {
		t := &o.Tools[i]
		t.Name, t.Scopes = r.Plain("mcp tool", t.Name, nil), r.List("mcp tool", t.Scopes, caddyfileutil.CheckScope)
		if t.Name == "" || len(t.Scopes) == 0 {
			r.Fail("mcp tool: want the name of a tool and the scopes that its calls need")
		}
	}
	o.ChallengeTools = r.Plain("mcp challenge_tools", o.ChallengeTools, checkSwitch)
}

// FirstScopes are the scopes of tools that the challenge to a client without a valid token names.
func (o *Options) FirstScopes() []string {
	if !o.asksForTools() {
		return nil
	}
	return o.toolScopes()
}

func (o *Options) asksForTools() bool { return o.ChallengeTools != "off" }

// toolScopes are all scopes that calls of tools can need.
func (o *Options) toolScopes() (out []string) {
	for _, t := range o.Tools {
		out = append(out, t.Scopes...)
	}
	return out
}

// Needs returns the scopes that a request needs for the tools that it calls. It reads the body, and leaves it to be
// read again. An error is a *BodyError.
func (o *Options) Needs(r *http.Request) ([]string, error) {
	if len(o.Tools) == 0 {
		return nil, nil
	}
	messages, err := readMessages(r)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, m := range messages {
		if m.method != callTool {
			continue
		}
		if strings.TrimSpace(m.name) != m.name || strings.ContainsFunc(m.name, hidden) {
			return nil, malformed("the name of the tool has white space around it, or characters that no one sees")
		}
		for _, t := range o.Tools {
			if matches(strings.ToLower(t.Name), strings.ToLower(m.name)) { // servers can be lax about case
				out = append(out, t.Scopes...)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

// hidden reports whether a character is one that some programs drop.
func hidden(c rune) bool { return unicode.IsControl(c) || unicode.Is(unicode.Cf, c) }

// matches compares a name with a pattern, in which * stands for any characters.
func matches(pattern, name string) bool {
	first, rest, star := strings.Cut(pattern, "*")
	if !star {
		return pattern == name
	}
	name, ok := strings.CutPrefix(name, first)
	if !ok {
		return false
	}
	parts := strings.Split(rest, "*")
	for _, part := range parts[:len(parts)-1] {
		_, after, found := strings.Cut(name, part)
		if !found {
			return false
		}
		name = after
	}
	return strings.HasSuffix(name, parts[len(parts)-1])
}

// message is one JSON-RPC message.
type message struct {
	method string // empty: it is an answer
	name   string // of the tool or prompt, or the address of the resource
}

// readMessages reads the messages of a request, and holds that its headers say the same.
func readMessages(r *http.Request) ([]message, error) {
	if len(r.Header["Upgrade"]) > 0 {
		return nil, malformed("a connection that is upgraded cannot be judged by its tools")
	}
	for _, coding := range r.Header.Values("Content-Encoding") {
		if !strings.EqualFold(coding, "identity") {
			return nil, &BodyError{http.StatusUnsupportedMediaType, "the body must not be compressed"}
		}
	}
	body, err := readBody(r)
	if err != nil {
		return nil, err
	}
	var messages []message
	batch := false
	if len(body) > 0 {
		if messages, batch, err = parse(body); err != nil {
			return nil, err
		}
	}
	return messages, agree(r.Header, messages, batch)
}

func readBody(r *http.Request) ([]byte, error) {
	if r.Body == nil || r.Body == http.NoBody {
		return nil, nil
	}
	tooLarge := &BodyError{http.StatusRequestEntityTooLarge, "the body is larger than 1 MiB"}
	if r.ContentLength > maxBody {
		return nil, tooLarge
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, maxBody+1))
	if err != nil {
		return nil, malformed("the body cannot be read")
	}
	if len(body) > maxBody {
		return nil, tooLarge
	}
	r.Body, r.ContentLength, r.TransferEncoding = rewound{bytes.NewReader(body), r.Body}, int64(len(body)), nil
	r.Header.Del("Transfer-Encoding")
	return body, nil
}

// rewound is a body that was read, and closes what it was read from.
type rewound struct {
	io.Reader
	io.Closer
}

// parse reads one message, or a batch of them (which versions before 2025-06-18 allow).
func parse(body []byte) (out []message, batch bool, err error) {
	if err := strictjson.Check(body, maxDepth); err != nil {
		return nil, false, malformed("the body is not a JSON-RPC message")
	}
	v, err := strictjson.Value(body)
	if err != nil {
		return nil, false, malformed("the body has a member twice")
	}
	all, batch := v.([]any)
	if !batch {
		all = []any{v}
	}
	for _, one := range all {
		m, err := messageOf(one)
		if err != nil {
			return nil, batch, err
		}
		out = append(out, m)
	}
	return out, batch, nil
}

func messageOf(v any) (m message, err error) {
	members, ok := v.(map[string]any)
	if !ok {
		return m, malformed("the body is not a JSON-RPC message")
	}
	if err := spelled(members, "method", "params"); err != nil {
		return m, err
	}
	method, there := members["method"]
	if !there {
		return m, nil
	}
	if m.method, ok = method.(string); !ok || m.method == "" {
		return m, malformed("the method of a message is not a text")
	}
	key := map[string]string{callTool: "name", "prompts/get": "name", "resources/read": "uri"}[m.method]
	if key == "" {
		return m, nil
	}
	params, ok := members["params"].(map[string]any)
	if !ok {
		return m, malformed("%s lacks its params", m.method)
	}
	if err := spelled(params, key); err != nil {
		return m, err
	}
	if m.name, ok = params[key].(string); !ok || m.name == "" {
		return m, malformed("%s does not say of what", m.method)
	}
	return m, nil
}

// spelled refuses members whose names differ in case alone from one that counts: some readers take them for it.
func spelled(members map[string]any, names ...string) error {
	for member := range members {
		for _, name := range names {
			if member != name && strings.EqualFold(member, name) {
				return malformed("the body has a member in other letters: %s", name)
			}
		}
	}
	return nil
}

// agree holds that the headers that mirror a message say what it says. They can be absent: versions before 2026-07-28
// have none. A batch has no headers.
func agree(h http.Header, messages []message, batch bool) error {
	method, name := h.Values(headerMethod), h.Values(headerName)
	if len(method) == 0 && len(name) == 0 {
		return nil
	}
	if len(method) > 1 || len(name) > 1 || batch || len(messages) != 1 {
		return disagree()
	}
	m := messages[0]
	if len(method) == 1 && method[0] != m.method {
		return disagree()
	}
	if len(name) == 1 {
		text, err := plain(name[0])
		if err != nil || text != m.name {
			return disagree()
		}
	}
	return nil
}

func disagree() error {
	return malformed("the headers Mcp-Method and Mcp-Name do not say what the body says")
}

// plain decodes a header value that cannot be written as it is. (MCP 2026-07-28, "Standard Request Headers")
func plain(value string) (string, error) {
	inner, ok := strings.CutPrefix(value, "=?base64?")
	if !ok {
		return value, nil
	}
	if inner, ok = strings.CutSuffix(inner, "?="); !ok {
		return "", errors.New("unfinished encoding")
	}
	raw, err := base64.StdEncoding.DecodeString(inner)
	return string(raw), err
}
