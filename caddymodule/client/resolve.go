package client

import (
	"cmp"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/gatehouse-id/gatehouse/authz/client"
	"github.com/gatehouse-id/gatehouse/authz/rar"
	"github.com/gatehouse-id/gatehouse/caddymodule/internal/caddyfileutil"
	"github.com/gatehouse-id/gatehouse/internal/authn"
	"github.com/gatehouse-id/gatehouse/internal/jwa"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/internal/strictjson"
)

// Build returns the client. It is validated as a whole, unless a value is wrong or not known yet.
func (c *Client) Build(r *caddyfileutil.Resolver) *client.Client {
	before := r.ProblemCount()
	out := c.Resolve(r)
	if r.Adapting() { // the value of a placeholder must not look missing or wrong
		if caddyfileutil.HasPlaceholder(c.ID) {
			out.ID = "placeholder"
		}
		if caddyfileutil.HasPlaceholder(strings.Join(c.Grants, "")) ||
			caddyfileutil.HasPlaceholder(strings.Join(c.Scopes, "")+strings.Join(c.DefaultScopes, "")) {
			return out
		}
	}
	if r.ProblemCount() == before {
		r.AddError(out.Validate())
	}
	return out
}

// Resolve returns the client. Each value is checked on its own.
func (c *Client) Resolve(r *caddyfileutil.Resolver) *client.Client {
	of := "client " + c.ID + ": "
	c.logo = caddyfileutil.ReadPicture(r, of+"logo", c.Logo)
	jwks, jwksURI := readKeys(r, of+"jwks", c.JWKS)
	return &client.Client{
		ID: r.Plain("client", c.ID, nil), Name: r.Plain(of+"name", c.Name, nil), Public: c.Public, Native: c.Native,
		Secrets: secrets(r, of+"secret", c.Secrets), SecretHashes: hashes(r, of+"secret_hash", c.SecretHashes),
		AuthMethod: r.Plain(of+"auth_method", c.AuthMethod, checkAuthMethod),
		JWKS:       jwks, JWKSURI: jwksURI, CertificateSubject: c.CertificateSubject.build(r, of+"auth_method"),
		RedirectURIs:           uris(r, of+"redirect_uris", c.RedirectURIs),
		PostLogoutRedirectURIs: uris(r, of+"post_logout_redirect_uris", c.PostLogoutRedirectURIs),
		BackchannelLogoutURI:   r.Plain(of+"backchannel_logout_uri", c.BackchannelLogoutURI, caddyfileutil.CheckURI),
		FrontchannelLogoutURI:  r.Plain(of+"frontchannel_logout_uri", c.FrontchannelLogoutURI, caddyfileutil.CheckURI),
		InitiateLoginURI:       r.Plain(of+"initiate_login_uri", c.InitiateLoginURI, caddyfileutil.CheckURI),
		Grants:                 r.List(of+"grants", c.Grants, checkGrant),
		Scopes:                 r.List(of+"scopes", c.Scopes, caddyfileutil.CheckScope),
		DefaultScopes:          r.List(of+"default_scopes", c.DefaultScopes, caddyfileutil.CheckScope),
		IDPs:                   r.List(of+"idps", c.IDPs, caddyfileutil.CheckProviderID),
		Groups:                 r.List(of+"groups", c.Groups, nil),
		Consent:                r.Plain(of+"consent", c.Consent, checkConsent), PKCERequired: c.PKCERequired, PARRequired: c.PARRequired,
		DPoPRequired: c.DPoPRequired, MTLSRequired: c.MTLSRequired, FAPI2: c.FAPI2, SignedRequestRequired: c.SignedRequestRequired,
		RequestAlg: r.Plain(of+"request_object_alg", c.RequestAlg, checkRequestAlg), PasswordOnly: c.PasswordOnly,
		SecondFactor: r.Plain(of+"second_factor", c.SecondFactor, caddyfileutil.CheckSecondFactor),
		SubjectType:  r.Plain(of+"subject_type", c.SubjectType, checkSubjectType),
		TokenFormat:  r.Plain(of+"token_format", c.TokenFormat, checkTokenFormat), App: c.App.build(r, of),
		IDTokenAlg: r.Plain(of+"id_token_alg", c.IDTokenAlg, checkAlg),
		TokenAlg:   r.Plain(of+"token_alg", c.TokenAlg, checkAlg), IDTokenClaims: c.IDTokenClaims,
		IDTokenEncAlg:  r.Plain(of+"id_token_encryption", c.IDTokenEncAlg, checkEncAlg),
		IDTokenEnc:     r.Plain(of+"id_token_encryption", c.IDTokenEnc, checkEnc),
		UserinfoAlg:    r.Plain(of+"userinfo_alg", c.UserinfoAlg, checkAlg),
		UserinfoEncAlg: r.Plain(of+"userinfo_encryption", c.UserinfoEncAlg, checkEncAlg),
		UserinfoEnc:    r.Plain(of+"userinfo_encryption", c.UserinfoEnc, checkEnc),
		ResponseAlg:    r.Plain(of+"authorization_response_alg", c.ResponseAlg, checkResponseAlg),
		Audiences:      r.List(of+"audiences", c.Audiences, caddyfileutil.CheckURI),
		DetailTypes:    r.List(of+"authorization_details_types", c.DetailTypes, rar.CheckName),
		Exchange:       c.Exchange.build(r, of),
		Origins:        r.List(of+"origins", c.Origins, checkOrigin),
		Plan:           r.Plain(of+"plan", c.Plan, nil),
		Contact:        r.Plain(of+"contact", c.Contact, client.CheckContact),
		MaxSessions:    r.Count(of+"max_sessions", c.MaxSessions, checkMaxSessions), Disabled: c.Disabled,
		Lifetimes: client.Lifetimes{
			Code:         r.Duration(of+"lifetimes code", c.Lifetimes.Code),
			AccessToken:  r.Duration(of+"lifetimes access_token", c.Lifetimes.AccessToken),
			RefreshToken: r.Duration(of+"lifetimes refresh_token", c.Lifetimes.RefreshToken),
			RefreshChain: r.Duration(of+"lifetimes refresh_chain", c.Lifetimes.RefreshChain),
			RefreshGrace: r.Duration(of+"lifetimes refresh_grace", c.Lifetimes.RefreshGrace),
			Session:      r.Duration(of+"lifetimes session", c.Lifetimes.Session),
		},
	}
}

func (e *Exchange) build(r *caddyfileutil.Resolver, of string) *client.Exchange {
	if e == nil {
		return nil
	}
	out := &client.Exchange{
		From: r.List(of+"exchange from", e.From, nil), To: r.List(of+"exchange to", e.To, nil),
		Domains: r.List(of+"exchange txn_token", e.Domains, client.CheckDomain),
	}
	if r.Adapting() && len(out.To) < len(e.To) {
		out.To = append(out.To, caddyfileutil.StandInURI)
	}
	if r.Adapting() && len(out.Domains) < len(e.Domains) {
		out.Domains = append(out.Domains, "placeholder.example.com")
	}
	for _, server := range e.IDJAG {
		j := client.IDJAG{
			Issuer: r.Plain(of+"exchange id_jag", server.Issuer, client.CheckIssuer), ClientID: r.Plain(of+"exchange id_jag", server.ClientID, nil),
			Scopes: r.List(of+"exchange id_jag", server.Scopes, caddyfileutil.CheckScope),
		}
		if r.Adapting() && caddyfileutil.HasPlaceholder(server.Issuer+server.ClientID) {
			j.Issuer, j.ClientID = caddyfileutil.StandInURI, "placeholder"
		}
		out.IDJAG = append(out.IDJAG, j)
	}
	return out
}

// build returns the app of a client, or nil.
func (a *MobileApp) build(r *caddyfileutil.Resolver, of string) *client.App {
	if a == nil {
		return nil
	}
	member := func(name, v string) string {
		if r.Adapting() && caddyfileutil.HasPlaceholder(v) {
			return "placeholder"
		}
		return r.Plain(of+"app "+name, v, nil)
	}
	return &client.App{
		Identifier: member("identifier", a.Identifier), Platform: member("platform", a.Platform),
		Version: member("version", a.Version),
	}
}

// maxJWKS is the size in bytes of a file with keys.
const maxJWKS = 256 << 10

// readKeys returns the public keys of a file, or their address.
func readKeys(r *caddyfileutil.Resolver, option, file string) (*jwa.KeySet, string) {
	at, ok := r.Text(option, file, nil)
	switch {
	case !ok && file != "" && r.Adapting():
		return nil, caddyfileutil.StandInURI
	case !ok:
		return nil, ""
	case strings.Contains(at, "://"):
		return nil, r.Plain(option, at, caddyfileutil.CheckURI)
	case r.Verbatim(): // a request must not read the server's files
		r.Fail("%s: want the URL of a JSON Web Key Set", option)
		return nil, ""
	case r.Adapting(): // the file may be on another machine
		return nil, caddyfileutil.StandInURI
	}
	info, err := os.Stat(at)
	if err == nil && info.Size() > maxJWKS {
		err = errors.New("is too large")
	}
	var raw []byte
	if err == nil {
		raw, err = os.ReadFile(at) //nolint:gosec // the operator's own path
	}
	var keys *jwa.KeySet
	if err == nil {
		keys, err = client.ParseJWKS(raw)
		if line, fault := strictjson.Fault(raw); fault != nil {
			err = fmt.Errorf("line %d: not JSON: %w", line, fault)
		}
	}
	if err != nil {
		r.Lack(caddyfileutil.Fault{
			Option: option, Reason: fmt.Sprintf("%s: %s: %v: anything signed by these keys is refused", option, at, err),
			Fix: "put a JSON Web Key Set with public keys there, and run `caddy reload --force`",
		})
		return noKeys()
	}
	return keys, ""
}

// noKeys returns a key that no one can sign with. An empty set would look like a missing option.
func noKeys() (*jwa.KeySet, string) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err) // crypto/rand does not fail
	}
	return &jwa.KeySet{Keys: []jose.JSONWebKey{{Key: private.Public(), KeyID: "unreadable"}}}, ""
}

// Build returns the API client. It is validated as a whole, unless a value is wrong or not known yet.
func (c *APIClient) Build(r *caddyfileutil.Resolver) *client.APIClient {
	of := "api_client " + c.ID + ": "
	before := r.ProblemCount()
	out := &client.APIClient{
		ID: r.Plain("api_client", c.ID, nil), Secrets: secrets(r, of+"secret", c.Secrets),
		SecretHashes: hashes(r, of+"secret_hash", c.SecretHashes),
		APIs:         r.List(of+"apis", c.APIs, checkAPI), Audiences: r.List(of+"audiences", c.Audiences, caddyfileutil.CheckURI),
		Partitions: r.List(of+"partitions", c.Partitions, authn.CheckPartition), Disabled: c.Disabled,
		IntrospectionAlg:   r.Plain(of+"introspection_alg", c.IntrospectionAlg, checkAlg),
		Organisation:       r.Plain(of+"organisation", c.Organisation, checkOrganisation),
		MaxLevel:           r.Count(of+"max_level", c.MaxLevel, caddyfileutil.CheckLevel),
		CertificateSubject: c.CertificateSubject.build(r, of+"tls_client_auth"),
	}
	if r.Adapting() {
		if caddyfileutil.HasPlaceholder(c.ID) {
			out.ID = "placeholder"
		}
		if caddyfileutil.HasPlaceholder(strings.Join(c.APIs, "")) {
			return out
		}
	}
	if r.ProblemCount() == before {
		r.AddError(out.Validate())
	}
	return out
}

func secrets(r *caddyfileutil.Resolver, option string, vs []caddyfileutil.Sensitive) []secret.String {
	var out []secret.String
	for _, v := range vs {
		switch s, ok := r.Text(option, string(v), caddyfileutil.CheckSecret); {
		case ok:
			out = append(out, secret.New(s))
		case v == "":
			r.Fail("%s: the value is empty", option)
		case r.Adapting():
			out = append(out, secret.New(caddyfileutil.StandInSecret))
		}
	}
	return out
}

func hashes(r *caddyfileutil.Resolver, option string, vs []caddyfileutil.Sensitive) []string {
	var out []string
	for _, v := range vs {
		switch s, ok := r.Text(option, string(v), caddyfileutil.CheckPHC); {
		case ok:
			out = append(out, s)
		case v == "":
			r.Fail("%s: the value is empty", option)
		case r.Adapting(): // bcrypt of some text
			out = append(out, "$2a$10$N9qo8uLOickgx2ZMRZoMyeIjZAgcfl7p92ldGxad68LJZdL17lhWy")
		}
	}
	return out
}

func uris(r *caddyfileutil.Resolver, option string, vs []string) []string {
	out := r.List(option, vs, caddyfileutil.CheckURI)
	if r.Adapting() && len(out) == 0 && len(vs) > 0 {
		return []string{caddyfileutil.StandInURI}
	}
	return out
}

func ofExchange(e *client.Exchange) *Exchange {
	if e == nil {
		return nil
	}
	out := &Exchange{From: e.From, To: e.To, Domains: e.Domains}
	for _, j := range e.IDJAG {
		out.IDJAG = append(out.IDJAG, IDJAG(j))
	}
	return out
}

// Of returns a client in the form of the configuration, without its secrets. written is the client in the
// configuration, with its files. nil: it was added by command.
func Of(c *client.Client, written *Client) Client {
	keys, logo := c.JWKSURI, ""
	if written != nil {
		keys, logo = cmp.Or(keys, written.JWKS), written.Logo
	}
	text := func(d time.Duration) caddyfileutil.Duration {
		if d == 0 {
			return ""
		}
		return caddyfileutil.Duration(d.String())
	}
	l := c.Lifetimes
	return Client{
		DPoPRequired: c.DPoPRequired, MTLSRequired: c.MTLSRequired, FAPI2: c.FAPI2,
		TokenFormat: c.TokenFormat, App: (*MobileApp)(c.App), Exchange: ofExchange(c.Exchange), DetailTypes: c.DetailTypes,
		SubjectType: c.SubjectType, JWKS: keys, Logo: logo,
		BackchannelLogoutURI: c.BackchannelLogoutURI, FrontchannelLogoutURI: c.FrontchannelLogoutURI, InitiateLoginURI: c.InitiateLoginURI,
		ID: c.ID, Name: c.Name, Public: c.Public, Native: c.Native, AuthMethod: c.AuthMethod,
		CertificateSubject: (*Subject)(c.CertificateSubject), RedirectURIs: c.RedirectURIs, PostLogoutRedirectURIs: c.PostLogoutRedirectURIs,
		Grants: c.Grants, Scopes: c.Scopes, DefaultScopes: c.DefaultScopes, IDPs: c.IDPs, Groups: c.Groups,
		Consent: c.Consent, PKCERequired: c.PKCERequired,
		PARRequired: c.PARRequired, PasswordOnly: c.PasswordOnly, SecondFactor: c.SecondFactor,
		SignedRequestRequired: c.SignedRequestRequired, RequestAlg: c.RequestAlg, ResponseAlg: c.ResponseAlg,
		IDTokenEncAlg: c.IDTokenEncAlg, IDTokenEnc: c.IDTokenEnc, UserinfoAlg: c.UserinfoAlg, UserinfoEncAlg: c.UserinfoEncAlg,
		UserinfoEnc: c.UserinfoEnc,
		IDTokenAlg:  c.IDTokenAlg, TokenAlg: c.TokenAlg, IDTokenClaims: c.IDTokenClaims, Audiences: c.Audiences, Origins: c.Origins,
		Plan: c.Plan, Contact: c.Contact,
		MaxSessions: caddyfileutil.Count(strconv.Itoa(c.MaxSessions)), Disabled: c.Disabled,
		Lifetimes: Lifetimes{
			Code: text(l.Code), AccessToken: text(l.AccessToken), RefreshToken: text(l.RefreshToken), RefreshChain: text(l.RefreshChain),
			RefreshGrace: text(l.RefreshGrace), Session: text(l.Session),
		},
	}
}
