package cimd

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/gatehouse-id/gatehouse/authz/client"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/authn"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/internal/webpage"
)

const (
	maxName      = 80 // characters of a name that are shown
	maxRedirects = 50
	methodNone   = "none"
)

// Document is a client as its metadata document describes it.
type Document struct {
	// Client has what the document says: no scopes, and none of the defaults.
	Client client.Client
	// Print changes with what people see of the client when they are asked.
	Print string
	// Until is the time when the document is fetched again.
	Until time.Time
}

// isID reports whether a client id is the address of a metadata document: https, with a path, and such that no one
// reads it in two ways. (draft-ietf-oauth-client-id-metadata-document 3)
func isID(id string) bool {
	rest, ok := strings.CutPrefix(id, "https://")
	if !ok || client.CheckID(id) != nil || strings.ContainsAny(id, "#\\@ \"<>^`{|}") {
		return false
	}
	u, err := url.Parse(id)
	if err != nil || u.User != nil || u.Opaque != "" || u.Hostname() == "" || u.String() != id {
		return false
	}
	if strings.ToLower(u.Host) != u.Host || strings.Contains(u.Host, "%") || strings.HasSuffix(u.Host, ":") ||
		strings.HasSuffix(u.Hostname(), ".") {
		return false
	}
	for i := range len(id) {
		if id[i] >= utf8.RuneSelf {
			return false
		}
	}
	_, path, slash := strings.Cut(rest, "/")
	path, _, _ = strings.Cut(path, "?")
	if !slash || path == "" {
		return false
	}
	for seg := range strings.SplitSeq(path, "/") {
		switch strings.ToLower(seg) {
		case ".", "..", "%2e", "%2e%2e", ".%2e", "%2e.":
			return false
		}
	}
	return true
}

// HostOf returns the host of an id, which people are shown.
func HostOf(id string) string {
	u, err := url.Parse(id)
	if err != nil {
		return id
	}
	return u.Host
}

// content are the members that are read. (RFC 7591 2)
type content struct {
	ID        string          `json:"client_id"`
	Name      string          `json:"client_name"`
	Logo      string          `json:"logo_uri"`
	Redirects []string        `json:"redirect_uris"`
	Grants    []string        `json:"grant_types"`
	Responses []string        `json:"response_types"`
	Method    string          `json:"token_endpoint_auth_method"`
	Keys      json.RawMessage `json:"jwks"`
	KeysURI   string          `json:"jwks_uri"`
	Secret    json.RawMessage `json:"client_secret"`
	SecretEnd json.RawMessage `json:"client_secret_expires_at"`
	Bound     bool            `json:"dpop_bound_access_tokens"`    // RFC 9449 5.2
	Details   []string        `json:"authorization_details_types"` // RFC 9396 10
}

var errPage = errors.New("it is an HTML page, not a client metadata document")

// read checks a document and returns its client.
func (d *Documents) read(id string, body []byte) (*Document, error) {
	if webpage.Is(body) {
		return nil, errPage
	}
	var in content
	if err := json.Unmarshal(body, &in); err != nil || !bytes.HasPrefix(bytes.TrimSpace(body), []byte("{")) {
		return nil, errors.New("it is not a JSON object with the members of RFC 7591")
	}
	switch {
	case in.ID != id: // byte for byte
		return nil, errors.New("its client_id is not its address")
	case in.Secret != nil || in.SecretEnd != nil:
		return nil, errors.New("it has a secret, which everybody can read")
	case authn.Turns(in.Name):
		return nil, errors.New("its client_name has a character that turns the direction of writing")
	case len(in.Grants) > 0 && !slices.Contains(in.Grants, client.GrantCode):
		return nil, errors.New("its grant_types lack authorization_code")
	case len(in.Responses) > 0 && !slices.Contains(in.Responses, "code"):
		return nil, errors.New("its response_types lack code")
	}
	c := client.Client{ID: id, Name: NameOf(in.Name, HostOf(id)), Grants: []string{client.GrantCode}, DPoPRequired: in.Bound}
	if len(in.Grants) == 0 || slices.Contains(in.Grants, client.GrantRefreshToken) {
		c.Grants = append(c.Grants, client.GrantRefreshToken)
	}
	c.DetailTypes = in.Details[:min(len(in.Details), maxRedirects)]
	if err := readKeys(&c, &in); err != nil {
		return nil, err
	}
	if c.RedirectURIs = d.redirects(in.Redirects); len(c.RedirectURIs) == 0 {
		return nil, errors.New("it has no redirect URI that can be used")
	}
	return &Document{Client: c, Print: PrintOf(&c, in.Logo)}, nil
}

// readKeys reads how the client authenticates: not at all, or by keys. A secret in common would be in the document.
func readKeys(c *client.Client, in *content) error {
	switch in.Method {
	case "", methodNone: // (docs/decisions/client-authentication.md#client-metadata-documents)
		c.Public = true
		return nil
	case client.MethodPrivateKey:
	default:
		return fmt.Errorf("its token_endpoint_auth_method is not none or %s", client.MethodPrivateKey)
	}
	c.AuthMethod = client.MethodPrivateKey
	switch {
	case (in.Keys != nil) == (in.KeysURI != ""):
		return errors.New("it has not one of jwks and jwks_uri")
	case in.Keys != nil:
		keys, err := client.ParseJWKS(in.Keys)
		if err != nil {
			return fmt.Errorf("its jwks: %w", err)
		}
		c.JWKS = keys
	case !isID(in.KeysURI) || HostOf(in.KeysURI) != HostOf(c.ID):
		return errors.New("its jwks_uri is not at the same host")
	default:
		c.JWKSURI = in.KeysURI
	}
	return nil
}

// redirects returns the redirect URIs that can be used here. One that cannot be used takes no other with it: clients
// name those of all their editions.
func (d *Documents) redirects(all []string) (out []string) {
	c := client.Client{Document: &client.Document{Schemes: d.cfg.Schemes}}
	for _, uri := range all[:min(len(all), maxRedirects)] {
		if c.ValidateRedirect(uri) == nil && !slices.Contains(out, uri) {
			out = append(out, uri)
		}
	}
	return out
}

// NameOf returns the name of a client as it is shown: on one line, without what shows nothing, and short enough that
// nothing else is pushed away. otherwise is for a client that says none.
func NameOf(name, otherwise string) string {
	name = strings.Join(strings.Fields(authn.Visible(audit.Clean(name))), " ")
	if name == "" {
		return otherwise
	}
	if r := []rune(name); len(r) > maxName {
		name = string(r[:maxName])
	}
	return name
}

// PrintOf is the hash of what people decide by: name, logo, and where they are sent.
func PrintOf(c *client.Client, logo string) string {
	hosts := make([]string, 0, len(c.RedirectURIs))
	for _, uri := range c.RedirectURIs {
		hosts = append(hosts, client.RedirectOwner(uri))
	}
	slices.Sort(hosts)
	return secret.Hash(strings.Join(append([]string{c.Name, logo}, slices.Compact(hosts)...), "\n"))
}
