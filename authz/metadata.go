package authz

import (
	"encoding/json"
	"net/http"
	"slices"
	"strconv"

	"github.com/go-jose/go-jose/v4"

	"github.com/gatehouse-id/gatehouse/authz/client"
	"github.com/gatehouse-id/gatehouse/authz/dcr"
	"github.com/gatehouse-id/gatehouse/authz/dpop"
	"github.com/gatehouse-id/gatehouse/authz/exchange"
	"github.com/gatehouse-id/gatehouse/authz/ida"
	"github.com/gatehouse-id/gatehouse/authz/idjag"
	"github.com/gatehouse-id/gatehouse/authz/keys"
	"github.com/gatehouse-id/gatehouse/authz/token"
)

// metadata is the answer of both discovery documents. It names only what is served. (OpenID Connect Discovery 3; RFC
// 8414 2; OpenID Connect RP-Initiated Logout 2.1)
type metadata struct {
	Issuer                string   `json:"issuer"`
	Authorization         string   `json:"authorization_endpoint"`
	Token                 string   `json:"token_endpoint"`
	Userinfo              string   `json:"userinfo_endpoint"`
	JWKS                  string   `json:"jwks_uri"`
	Revocation            string   `json:"revocation_endpoint"`
	Introspection         string   `json:"introspection_endpoint"`
	EndSession            string   `json:"end_session_endpoint"`
	PushedRequest         string   `json:"pushed_authorization_request_endpoint"` // RFC 9126 5
	PushedRequired        bool     `json:"require_pushed_authorization_requests"`
	DPoPAlgs              []string `json:"dpop_signing_alg_values_supported"` // RFC 9449 5.1
	DeviceAuthorization   string   `json:"device_authorization_endpoint"`     // RFC 8628 4
	Registration          string   `json:"registration_endpoint,omitempty"`   // RFC 7591 3
	Scopes                []string `json:"scopes_supported"`
	ResponseTypes         []string `json:"response_types_supported"`
	ResponseModes         []string `json:"response_modes_supported"`
	Grants                []string `json:"grant_types_supported"`
	ACRValues             []string `json:"acr_values_supported"`
	SubjectTypes          []string `json:"subject_types_supported"`
	IDTokenAlgs           []string `json:"id_token_signing_alg_values_supported"`
	IDTokenEncAlgs        []string `json:"id_token_encryption_alg_values_supported"`
	IDTokenEncs           []string `json:"id_token_encryption_enc_values_supported"`
	UserinfoAlgs          []string `json:"userinfo_signing_alg_values_supported"`
	UserinfoEncAlgs       []string `json:"userinfo_encryption_alg_values_supported"`
	UserinfoEncs          []string `json:"userinfo_encryption_enc_values_supported"`
	ResponseAlgs          []string `json:"authorization_signing_alg_values_supported"` // JARM 4
	IntrospectionAlgs     []string `json:"introspection_signing_alg_values_supported"` // RFC 9701 7
	TokenAuthMethods      []string `json:"token_endpoint_auth_methods_supported"`
	TokenAuthAlgs         []string `json:"token_endpoint_auth_signing_alg_values_supported"`
	RevocationAuthAlgs    []string `json:"revocation_endpoint_auth_signing_alg_values_supported"`
	RevocationAuthMethods []string `json:"revocation_endpoint_auth_methods_supported"`
	IntrospectionMethods  []string `json:"introspection_endpoint_auth_methods_supported"`
	Claims                []string `json:"claims_supported"`
	ChallengeMethods      []string `json:"code_challenge_methods_supported"`
	Prompts               []string `json:"prompt_values_supported"`
	ClaimsParameter       bool     `json:"claims_parameter_supported"`
	RequestParameter      bool     `json:"request_parameter_supported"`
	RequestAlgs           []string `json:"request_object_signing_alg_values_supported"` // RFC 9101 9
	RequestURIParameter   bool     `json:"request_uri_parameter_supported"`
	BackchannelLogout     bool     `json:"backchannel_logout_supported"`
	BackchannelSession    bool     `json:"backchannel_logout_session_supported"`
	FrontchannelLogout    bool     `json:"frontchannel_logout_supported"`
	FrontchannelSession   bool     `json:"frontchannel_logout_session_supported"`
	MutualEndpoints       *mutual  `json:"mtls_endpoint_aliases,omitempty"`            // RFC 8705 5
	BoundTokens           bool     `json:"tls_client_certificate_bound_access_tokens"` // RFC 8705 3.3
	ClientDocuments       bool     `json:"client_id_metadata_document_supported,omitempty"`
	IssParameter          bool     `json:"authorization_response_iss_parameter_supported"` // RFC 9207 3
	ChainedTypes          []string `json:"identity_chaining_requested_token_types_supported,omitempty"`
	GrantProfiles         []string `json:"authorization_grant_profiles_supported,omitempty"`
	DetailTypes           []string `json:"authorization_details_types_supported,omitempty"` // RFC 9396 10

	// OpenID Connect for Identity Assurance 1.0, "OpenID Provider Metadata"
	VerifiedClaims     bool     `json:"verified_claims_supported,omitempty"`
	TrustFrameworks    []string `json:"trust_frameworks_supported,omitempty"`
	ClaimsInVerified   []string `json:"claims_in_verified_claims_supported,omitempty"`
	Evidence           []string `json:"evidence_supported,omitempty"`
	EvidenceDocuments  []string `json:"documents_supported,omitempty"`
	EvidenceElectronic []string `json:"electronic_records_supported,omitempty"`
}

// addVerified says that verified claims are offered.
func (m *metadata) addVerified() {
	m.VerifiedClaims, m.TrustFrameworks, m.ClaimsInVerified = true, ida.Frameworks, ida.Claims
	m.Evidence, m.EvidenceDocuments, m.EvidenceElectronic = ida.Evidence, ida.Documents, ida.Records
	m.Claims = append(m.Claims, ida.Claim)
}

func (s *Server) metadata() metadata {
	at := func(path string) string { return s.cfg.Issuer + path }
	signs, classic := names(s.deps.Keys.Signs()), names(keys.Algorithms)
	scopes := slices.Clone(client.StandardScopes)
	for _, scope := range s.cfg.Scopes {
		if !slices.Contains(scopes, scope.Name) {
			scopes = append(scopes, scope.Name)
		}
	}
	methods := []string{
		"client_secret_basic", "client_secret_post", client.MethodPrivateKey, client.MethodTLS,
		client.MethodSelfSigned, "none",
	}
	assertions := names(client.AssertionAlgorithms)
	var chained, profiles []string
	if s.clients.IssuesIdentities() {
		chained = []string{exchange.TypeIDJAG}
	}
	if s.clients.TakesIdentities() {
		profiles = []string{idjag.Profile}
	}
	registers := ""
	if s.registered.On() {
		registers = at(dcr.Path)
	}
	return metadata{
		ChainedTypes: chained, GrantProfiles: profiles,
		Registration: registers, DetailTypes: s.clients.DetailTypes(), MutualEndpoints: s.mutualEndpoints(), BoundTokens: true,
		Issuer: s.cfg.Issuer, Authorization: at("/oauth/authorize"), Token: at("/oauth/token"), Userinfo: at("/oauth/userinfo"),
		JWKS: at("/oauth/jwks"), Revocation: at("/oauth/revoke"), Introspection: at("/oauth/api/v2/token/introspect"), EndSession: at(logoutPath),
		PushedRequest: at("/oauth/par"), PushedRequired: s.cfg.PARRequired, DPoPAlgs: dpop.Algorithms(),
		DeviceAuthorization: at("/oauth/device_authorization"),
		Scopes:              scopes, ResponseTypes: []string{responseCode, responseToken, responseIDToken}, ResponseModes: responseModes,
		Grants:    slices.Sorted(slices.Values(append(s.grants.Types(), client.GrantImplicit))),
		ACRValues: []string{token.ACR(1)}, SubjectTypes: []string{client.SubjectPublic, client.SubjectPairwise},
		IDTokenAlgs: signs, ResponseAlgs: classic,
		IDTokenEncAlgs: client.EncryptionAlgorithms, IDTokenEncs: client.ContentEncryptions,
		UserinfoAlgs: signs, UserinfoEncAlgs: client.EncryptionAlgorithms, UserinfoEncs: client.ContentEncryptions,
		IntrospectionAlgs: signs,
		RequestParameter:  true, RequestAlgs: names(new(client.Client).RequestAlgorithms()), TokenAuthMethods: methods, TokenAuthAlgs: assertions,
		RevocationAuthAlgs: assertions, RevocationAuthMethods: methods,
		IntrospectionMethods: []string{"client_secret_basic", client.MethodTLS},
		Claims:               claimsSupported(), ChallengeMethods: []string{"S256"},
		Prompts:         []string{"none", "login", "consent", "select_account", "create"},
		ClientDocuments: s.clients.Documents(), IssParameter: true, ClaimsParameter: true, BackchannelLogout: true, BackchannelSession: true,
		FrontchannelLogout: true, FrontchannelSession: true,
	}
}

// Endpoints are the addresses that an application needs, for the pages of administrators.
type Endpoints struct {
	Issuer, Discovery, Authorization, Token, Userinfo, JWKS, EndSession, DeviceAuthorization string
}

// Endpoints returns the addresses that the metadata have.
func (s *Server) Endpoints() Endpoints {
	m := s.metadata()
	return Endpoints{
		Issuer: m.Issuer, Discovery: m.Issuer + oidcMetadataPath, Authorization: m.Authorization, Token: m.Token, Userinfo: m.Userinfo,
		JWKS: m.JWKS, EndSession: m.EndSession, DeviceAuthorization: m.DeviceAuthorization,
	}
}

func names(algorithms []jose.SignatureAlgorithm) []string {
	out := make([]string, len(algorithms))
	for i, alg := range algorithms {
		out[i] = string(alg)
	}
	return out
}

// mutual are the endpoints that clients with a certificate use at an origin of their own, so browsers at the issuer are
// not asked for one.
type mutual struct {
	Token               string `json:"token_endpoint"`
	Revocation          string `json:"revocation_endpoint"`
	Introspection       string `json:"introspection_endpoint"`
	PushedRequest       string `json:"pushed_authorization_request_endpoint"`
	DeviceAuthorization string `json:"device_authorization_endpoint"`
	Userinfo            string `json:"userinfo_endpoint"`
}

func (s *Server) mutualEndpoints() *mutual {
	at := s.cfg.CertificateEndpoints
	if at == "" {
		return nil
	}
	return &mutual{
		Token: at + "/oauth/token", Revocation: at + "/oauth/revoke", Introspection: at + "/oauth/api/v2/token/introspect",
		PushedRequest: at + "/oauth/par", DeviceAuthorization: at + "/oauth/device_authorization", Userinfo: at + "/oauth/userinfo",
	}
}

// TakesCertificates reports whether a path is one of the endpoints that clients with a certificate use.
func TakesCertificates(path string) bool {
	switch path {
	case "/oauth/token", "/oauth/revoke", "/oauth/api/v2/token/introspect", "/oauth/par", "/oauth/device_authorization", "/oauth/userinfo":
		return true
	}
	return false
}

// handleMetadata serves GET /.well-known/openid-configuration (OpenID Connect Discovery 4) and
// GET /.well-known/oauth-authorization-server (RFC 8414 3).
func (s *Server) handleMetadata(w http.ResponseWriter, r *http.Request) error {
	m := s.metadata()
	on, err := s.tokens.OffersVerified(r.Context())
	if err != nil {
		return err
	}
	if on {
		m.addVerified()
	}
	return writePublic(w, "application/json", m)
}

// handleSignalMetadata serves GET /.well-known/ssf-configuration (OpenID SSF 1.0, 7).
func (s *Server) handleSignalMetadata(w http.ResponseWriter, _ *http.Request) error {
	return writePublic(w, "application/json", s.signals.Metadata())
}

// handleJWKS serves GET /oauth/jwks (RFC 7517 5).
func (s *Server) handleJWKS(w http.ResponseWriter, _ *http.Request) error {
	return writePublic(w, "application/jwk-set+json", s.deps.Keys.JWKS())
}

// writePublic writes an answer that is the same for everyone and can be cached for an hour, which is shorter than the
// time that a key is published before it signs.
func writePublic(w http.ResponseWriter, contentType string, v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return err
	}
	h := w.Header()
	h.Set("Content-Type", contentType)
	h.Set("Cache-Control", "public, max-age=3600")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.Write(body) //nolint:errcheck // the client has gone
	return nil
}
