package dcr

import (
	"encoding/json"
	"io"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/go-jose/go-jose/v4"

	"github.com/gatehouse-id/gatehouse/authz/cimd"
	"github.com/gatehouse-id/gatehouse/authz/client"
	"github.com/gatehouse-id/gatehouse/authz/oauth"
	"github.com/gatehouse-id/gatehouse/internal/authn"
	"github.com/gatehouse-id/gatehouse/internal/denial"
	"github.com/gatehouse-id/gatehouse/internal/jwa"
	"github.com/gatehouse-id/gatehouse/internal/strictjson"
)

const (
	maxRedirects = 20
	responseCode = "code"
	methodNone   = "none"
	methodBasic  = "client_secret_basic"
	methodPost   = "client_secret_post"
)

// metadata are the understood members of a client's registration. Everything else is ignored, and is not in the answer.
// (RFC 7591 2; OpenID Connect Dynamic Client Registration 2; RFC 9126 6)
type metadata struct {
	ID                 string          `json:"client_id,omitempty"` // of a change
	Name               string          `json:"client_name,omitempty"`
	Application        string          `json:"application_type,omitempty"`
	Redirects          []string        `json:"redirect_uris"`
	Method             string          `json:"token_endpoint_auth_method"`
	Grants             []string        `json:"grant_types"`
	Responses          []string        `json:"response_types"`
	Scope              string          `json:"scope"`
	Keys               json.RawMessage `json:"jwks,omitempty"`
	KeysURI            string          `json:"jwks_uri,omitempty"`
	PostLogout         []string        `json:"post_logout_redirect_uris,omitempty"`
	BackchannelLogout  string          `json:"backchannel_logout_uri,omitempty"`
	FrontchannelLogout string          `json:"frontchannel_logout_uri,omitempty"`
	InitiateLogin      string          `json:"initiate_login_uri,omitempty"`
	SubjectType        string          `json:"subject_type,omitempty"`
	IDTokenAlg         string          `json:"id_token_signed_response_alg,omitempty"`
	UserinfoAlg        string          `json:"userinfo_signed_response_alg,omitempty"`
	Pushed             bool            `json:"require_pushed_authorization_requests,omitempty"`
	Bound              bool            `json:"dpop_bound_access_tokens,omitempty"`    // RFC 9449 5.2
	Details            []string        `json:"authorization_details_types,omitempty"` // RFC 9396 10
}

// readMetadata reads the body of a request. What can be read in two ways is refused: a member twice, another type.
func readMetadata(r *http.Request) (m metadata, err error) {
	if media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || media != "application/json" {
		return m, oauth.InvalidRequest(err, "content type must be application/json")
	}
	raw, err := io.ReadAll(io.LimitReader(r.Body, maxBody+1))
	if err != nil {
		return m, oauth.InvalidRequest(err, "the body cannot be read")
	}
	if len(raw) > maxBody {
		return m, oauth.InvalidRequest(nil, "the body is too large")
	}
	if err := strictjson.Check(raw, maxDepth); err != nil {
		return m, invalidMetadata("the body is not a JSON object")
	}
	v, err := strictjson.Value(raw)
	if err != nil {
		return m, invalidMetadata("the body has a member twice")
	}
	members, ok := v.(map[string]any)
	if !ok {
		return m, invalidMetadata("the body is not a JSON object")
	}
	in := reader{members: members}
	m = metadata{
		ID: in.text("client_id"), Name: cimd.NameOf(in.text("client_name"), ""), Application: in.text("application_type"),
		Redirects: in.list("redirect_uris"),
		Method:    in.text("token_endpoint_auth_method"), Grants: in.list("grant_types"),
		Responses: in.list("response_types"), Scope: in.text("scope"),
		KeysURI: in.text("jwks_uri"), PostLogout: in.list("post_logout_redirect_uris"), BackchannelLogout: in.text("backchannel_logout_uri"),
		FrontchannelLogout: in.text("frontchannel_logout_uri"), InitiateLogin: in.text("initiate_login_uri"),
		SubjectType: in.text("subject_type"), IDTokenAlg: in.text("id_token_signed_response_alg"),
		UserinfoAlg: in.text("userinfo_signed_response_alg"),
		Pushed:      in.flag("require_pushed_authorization_requests"), Bound: in.flag("dpop_bound_access_tokens"),
		Details: in.list("authorization_details_types"),
	}
	if authn.Turns(in.text("client_name")) {
		return m, invalidMetadata("client_name has a character that turns the direction of writing")
	}
	if keys := members["jwks"]; keys != nil {
		if m.Keys, err = json.Marshal(keys); err != nil {
			return m, oauth.ServerError(err)
		}
	}
	if in.wrong != "" {
		return m, invalidMetadata(in.wrong + " is not of the type that it must have")
	}
	return m, nil
}

// reader reads members. One that is null is as good as absent.
type reader struct {
	members map[string]any
	wrong   string // the first that has another type
}

func (in *reader) text(name string) string {
	v := in.members[name]
	s, ok := v.(string)
	if !ok && v != nil {
		in.fail(name)
	}
	return s
}

func (in *reader) flag(name string) bool {
	v := in.members[name]
	b, ok := v.(bool)
	if !ok && v != nil {
		in.fail(name)
	}
	return b
}

func (in *reader) list(name string) (out []string) {
	v := in.members[name]
	if v == nil {
		return nil
	}
	all, ok := v.([]any)
	if !ok {
		in.fail(name)
	}
	for _, one := range all {
		s, ok := one.(string)
		if !ok {
			in.fail(name)
		}
		out = append(out, s)
	}
	return out
}

func (in *reader) fail(name string) {
	if in.wrong == "" {
		in.wrong = name
	}
}

// invalidMetadata refuses what a client says of itself. why holds nothing that it has sent.
func invalidMetadata(why string) error {
	return oauth.InvalidClientMetadata(denial.New(denial.ClientMetadata, why), why)
}

// apply makes c what the metadata say, and the metadata what they mean: defaults are filled in, and what is not given
// here is gone, as the client must be told.
func (s *Service) apply(c *client.Client, m *metadata) error {
	c.Name, c.Document = m.Name, &client.Document{Registered: true, Schemes: s.cfg.Schemes}
	if err := s.applyRedirects(c, m); err != nil {
		return err
	}
	if err := applyMethod(c, m); err != nil {
		return err
	}
	switch {
	case len(m.Responses) > 0 && !slices.Contains(m.Responses, responseCode):
		return invalidMetadata("response_types lacks code")
	case len(m.Grants) > 0 && !slices.Contains(m.Grants, client.GrantCode):
		return invalidMetadata("grant_types lacks authorization_code")
	case m.Application != "" && m.Application != "web" && m.Application != "native":
		return invalidMetadata("application_type is neither web nor native")
	case m.BackchannelLogout != "" && !strings.HasPrefix(m.BackchannelLogout, "https://"):
		return invalidMetadata("backchannel_logout_uri is not an https address")
	case m.InitiateLogin != "" && !strings.HasPrefix(m.InitiateLogin, "https://"): // OpenID Connect Registration 2
		return invalidMetadata("initiate_login_uri is not an https address")
	}
	m.Responses = []string{responseCode}
	c.Grants = []string{client.GrantCode}
	if slices.Contains(m.Grants, client.GrantRefreshToken) {
		c.Grants = append(c.Grants, client.GrantRefreshToken)
	}
	m.Grants = c.Grants
	asked, err := client.ParseScope(m.Scope)
	if err != nil {
		return invalidMetadata("scope is malformed")
	}
	allowed := s.deps.Clients.StrangerScopes()
	if c.DefaultScopes = slices.DeleteFunc(asked,
		func(name string) bool { return !slices.Contains(allowed, name) }); len(c.DefaultScopes) == 0 {
		c.DefaultScopes = []string{client.ScopeOpenID}
	}
	m.Scope = strings.Join(c.DefaultScopes, " ")
	c.PostLogoutRedirectURIs, c.BackchannelLogoutURI, c.FrontchannelLogoutURI = m.PostLogout, m.BackchannelLogout, m.FrontchannelLogout
	c.InitiateLoginURI = m.InitiateLogin
	for name, alg := range map[string]string{"id_token_signed_response_alg": m.IDTokenAlg, "userinfo_signed_response_alg": m.UserinfoAlg} {
		if jwa.IsPostQuantum(alg) && !slices.Contains(s.deps.Signs(), jose.SignatureAlgorithm(alg)) {
			return invalidMetadata(name + " is not one of those in the metadata of the server")
		}
	}
	c.SubjectType, c.IDTokenAlg, c.UserinfoAlg, c.PARRequired, c.DPoPRequired = m.SubjectType, m.IDTokenAlg, m.UserinfoAlg, m.Pushed, m.Bound
	if m.Details = s.deps.Clients.StrangerDetails(m.Details); len(m.Details) == 0 {
		m.Details = nil
	}
	c.DetailTypes = m.Details
	return nil
}

// applyRedirects checks the redirect URIs. One that is refused refuses the registration: the client must learn of it.
func (s *Service) applyRedirects(c *client.Client, m *metadata) error {
	if len(m.Redirects) == 0 || len(m.Redirects) > maxRedirects {
		return oauth.InvalidRedirectURI(denial.New(denial.ClientMetadata, "too few or too many redirect URIs"),
			"redirect_uris must have 1 to 20 addresses")
	}
	for _, uri := range m.Redirects {
		if err := c.ValidateRedirect(uri); err != nil {
			return oauth.InvalidRedirectURI(denial.New(denial.ClientMetadata, err.Error()), "a redirect URI "+err.Error())
		}
	}
	for _, uri := range slices.Concat(m.Redirects, m.PostLogout) {
		if !s.allowsHost(uri) {
			return oauth.InvalidRedirectURI(denial.New(denial.ClientMetadata, "a redirect URI has a host that redirect_hosts lacks"),
				"a redirect URI has a host that is not allowed here")
		}
	}
	c.RedirectURIs = m.Redirects
	return nil
}

// allowsHost reports whether the operator allows the host of an address of the web.
func (s *Service) allowsHost(uri string) bool {
	u, err := url.Parse(uri)
	if err != nil {
		return false
	}
	return len(s.cfg.RedirectHosts) == 0 || u.Scheme != "https" || s.Names(uri)
}

// Names reports whether the operator has named the host of a redirect URI.
func (s *Service) Names(uri string) bool {
	u, err := url.Parse(uri)
	if err != nil {
		return false
	}
	host := strings.ToLower(u.Hostname())
	return slices.ContainsFunc(s.cfg.RedirectHosts, func(allowed string) bool {
		below, wild := strings.CutPrefix(allowed, "*")
		return allowed == host || (wild && strings.HasSuffix(host, below))
	})
}

// applyMethod says how the client authenticates. Without a word about it that is by a secret (RFC 7591 2), in the form
// or as Basic credentials, since such clients send either.
func applyMethod(c *client.Client, m *metadata) error {
	if m.Keys != nil && m.KeysURI != "" { // RFC 7591 2: both MUST NOT be present
		return invalidMetadata("jwks and jwks_uri are both there")
	}
	switch m.Method {
	case "":
		m.Method = methodBasic
	case methodBasic:
		c.AuthMethod = "basic"
	case methodPost:
	case methodNone:
		c.Public = true
	case client.MethodPrivateKey:
		c.AuthMethod = client.MethodPrivateKey
	default:
		return invalidMetadata("token_endpoint_auth_method is not one that a client can register")
	}
	switch {
	case c.AuthMethod != client.MethodPrivateKey: // there is nothing else that keys are for
		m.Keys, m.KeysURI = nil, ""
	case m.Keys != nil:
		keys, err := client.ParseJWKS(m.Keys)
		if err != nil {
			return oauth.InvalidClientMetadata(denial.New(denial.ClientMetadata, err.Error()), "jwks has no key that can be used")
		}
		c.JWKS = keys
	case strings.HasPrefix(m.KeysURI, "https://"):
		c.JWKSURI = m.KeysURI
	default:
		return invalidMetadata("private_key_jwt needs jwks, or a jwks_uri with https")
	}
	return nil
}
