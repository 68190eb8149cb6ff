package client

import (
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/gatehouse-id/gatehouse/authz/client"
	"github.com/gatehouse-id/gatehouse/authz/rar"
	"github.com/gatehouse-id/gatehouse/caddymodule/internal/caddyfileutil"
	"github.com/gatehouse-id/gatehouse/caddymodule/internal/reference"
	"github.com/gatehouse-id/gatehouse/internal/authn"
)

// Read reads one more client than the others:
//
//	client <id> {
//		name                      <text>
//		public
//		native
//		secret                    <secret>     # twice while it is rotated
//		secret_hash               <PHC string>
//		auth_method               basic|post|private_key_jwt|self_signed_tls_client_auth|workload
//		auth_method               tls_client_auth subject_dn|san_dns|san_uri|san_ip|san_email <name>
//		jwks                      <file or URL>
//		redirect_uris             <uri>...
//		post_logout_redirect_uris <uri>...
//		backchannel_logout_uri    <uri>
//		frontchannel_logout_uri   <uri>
//		initiate_login_uri        <uri>
//		grants                    authorization_code|refresh_token|client_credentials|id_token|implicit|password|
//		                          validate_bearer|device_code|jwt_bearer|token_exchange...
//		scopes                    <scope>...
//		default_scopes            <scope>...
//		idps                      identity|<id of an idp>...
//		groups                    <group>...
//		consent                   on|off|always
//		pkce                      required
//		par                       required
//		request_object            required
//		request_object_alg        RS256|PS256|ES256|EdDSA
//		fapi2
//		dpop                      required
//		mtls                      required
//		password_only
//		second_factor when_set_up|always|on_demand
//		id_token_alg              RS256|ES256|EdDSA|ML-DSA-44|ML-DSA-65|ML-DSA-87
//		token_alg                 RS256|ES256|EdDSA|ML-DSA-44|ML-DSA-65|ML-DSA-87
//		authorization_response_alg RS256|ES256|EdDSA
//		id_token_encryption       RSA-OAEP-256|ECDH-ES|ECDH-ES+A256KW [A256GCM|A128CBC-HS256]
//		userinfo_alg              RS256|ES256|EdDSA|ML-DSA-44|ML-DSA-65|ML-DSA-87
//		userinfo_encryption       RSA-OAEP-256|ECDH-ES|ECDH-ES+A256KW [A256GCM|A128CBC-HS256]
//		id_token_claims           on|off
//		token_format              opaque|jwt
//		app                       <identifier> <platform> <version>
//		subject_type              public|pairwise
//		audiences                 <uri>...
//		authorization_details_types <type>...
//		exchange { from <client>...; to <audience>...; id_jag <issuer> <client> [<scope>...]; txn_token <domain>... }
//		origins                   <origin>...
//		plan                      <name>
//		max_sessions              <number>
//		disabled
//		logo                      <file>
//		lifetimes { code|access_token|refresh_token|refresh_chain|refresh_grace|session <duration> }
//	}
func Read(d *caddyfile.Dispenser, others []Client) (c Client, err error) {
	start := d.Token()
	if err := caddyfileutil.ReadName(d, &c.ID, nil); err != nil {
		return c, err
	}
	for _, other := range others {
		if other.ID == c.ID {
			return c, d.Errf("client %s is already defined at %s:%d: keep one of them", c.ID, other.token.File, other.token.Line)
		}
	}
	if err := caddyfileutil.ReadBlock(d, "client "+c.ID, &reference.Client, c.subdirectives()); err != nil {
		return c, err
	}
	// What is wrong with the client as a whole is said here, where the line is known.
	r := caddyfileutil.NewResolver(nil)
	if c.Build(r); r.Err() != nil {
		return c, caddyfileutil.At(start, r.Err())
	}
	c.token = start
	return c, nil
}

func (c *Client) subdirectives() caddyfileutil.Subdirectives {
	return caddyfileutil.Subdirectives{
		"name":                      caddyfileutil.Text(&c.Name),
		"public":                    caddyfileutil.Flag(&c.Public),
		"native":                    caddyfileutil.Flag(&c.Native),
		"secret":                    caddyfileutil.Another(&c.Secrets, caddyfileutil.CheckSecret),
		"secret_hash":               caddyfileutil.Another(&c.SecretHashes, caddyfileutil.CheckPHC),
		"auth_method":               c.readAuthMethod,
		"jwks":                      caddyfileutil.Value(&c.JWKS, nil),
		"redirect_uris":             caddyfileutil.Values(&c.RedirectURIs, caddyfileutil.CheckURI),
		"backchannel_logout_uri":    caddyfileutil.Value(&c.BackchannelLogoutURI, caddyfileutil.CheckURI),
		"frontchannel_logout_uri":   caddyfileutil.Value(&c.FrontchannelLogoutURI, caddyfileutil.CheckURI),
		"initiate_login_uri":        caddyfileutil.Value(&c.InitiateLoginURI, caddyfileutil.CheckURI),
		"post_logout_redirect_uris": caddyfileutil.Values(&c.PostLogoutRedirectURIs, caddyfileutil.CheckURI),
		"grants":                    caddyfileutil.Values(&c.Grants, checkGrant),
		"scopes":                    caddyfileutil.Values(&c.Scopes, caddyfileutil.CheckScope),

		"authorization_details_types": caddyfileutil.Values(&c.DetailTypes, rar.CheckName),

		"default_scopes":     caddyfileutil.Values(&c.DefaultScopes, caddyfileutil.CheckScope),
		"idps":               caddyfileutil.Values(&c.IDPs, caddyfileutil.CheckProviderID),
		"groups":             caddyfileutil.Values(&c.Groups, nil),
		"consent":            caddyfileutil.Value(&c.Consent, checkConsent),
		"pkce":               ReadRequired("pkce", &c.PKCERequired),
		"par":                ReadRequired("par", &c.PARRequired),
		"request_object":     ReadRequired("request_object", &c.SignedRequestRequired),
		"request_object_alg": caddyfileutil.Value(&c.RequestAlg, checkRequestAlg),
		"dpop":               ReadRequired("dpop", &c.DPoPRequired),
		"mtls":               ReadRequired("mtls", &c.MTLSRequired),
		"fapi2":              caddyfileutil.Flag(&c.FAPI2),
		"password_only":      caddyfileutil.Flag(&c.PasswordOnly),
		"second_factor":      caddyfileutil.Value(&c.SecondFactor, caddyfileutil.CheckSecondFactor),
		"id_token_alg":       caddyfileutil.Value(&c.IDTokenAlg, checkAlg),
		"token_alg":          caddyfileutil.Value(&c.TokenAlg, checkAlg),
		"id_token_claims":    c.readIDTokenClaims,

		"authorization_response_alg": caddyfileutil.Value(&c.ResponseAlg, checkResponseAlg),
		"id_token_encryption":        readEncryption("id_token_encryption", &c.IDTokenEncAlg, &c.IDTokenEnc),
		"userinfo_alg":               caddyfileutil.Value(&c.UserinfoAlg, checkAlg),
		"userinfo_encryption":        readEncryption("userinfo_encryption", &c.UserinfoEncAlg, &c.UserinfoEnc),

		"token_format": caddyfileutil.Value(&c.TokenFormat, checkTokenFormat),
		"subject_type": caddyfileutil.Value(&c.SubjectType, checkSubjectType),
		"app":          c.readApp,
		"audiences":    caddyfileutil.Values(&c.Audiences, caddyfileutil.CheckURI),
		"exchange":     c.readExchange,
		"origins":      caddyfileutil.Values(&c.Origins, checkOrigin),
		"plan":         caddyfileutil.Value(&c.Plan, nil),
		"contact":      caddyfileutil.Value(&c.Contact, client.CheckContact),
		"max_sessions": caddyfileutil.Value(&c.MaxSessions, checkMaxSessions),
		"disabled":     caddyfileutil.Flag(&c.Disabled),
		"logo":         caddyfileutil.Value(&c.Logo, nil),
		"lifetimes": caddyfileutil.Block(&reference.Lifetimes, caddyfileutil.Subdirectives{
			"code":          caddyfileutil.Value(&c.Lifetimes.Code, caddyfileutil.CheckDuration),
			"access_token":  caddyfileutil.Value(&c.Lifetimes.AccessToken, caddyfileutil.CheckDuration),
			"refresh_token": caddyfileutil.Value(&c.Lifetimes.RefreshToken, caddyfileutil.CheckDuration),
			"refresh_chain": caddyfileutil.Value(&c.Lifetimes.RefreshChain, caddyfileutil.CheckDuration),
			"refresh_grace": caddyfileutil.Value(&c.Lifetimes.RefreshGrace, caddyfileutil.CheckDuration),
			"session":       caddyfileutil.Value(&c.Lifetimes.Session, caddyfileutil.CheckDuration),
		}),
	}
}

func (c *Client) readExchange(d *caddyfile.Dispenser) error {
	c.Exchange = new(Exchange)
	return caddyfileutil.Block(&reference.Exchange, caddyfileutil.Subdirectives{
		"from": caddyfileutil.Values(&c.Exchange.From, nil),
		"to":   caddyfileutil.Values(&c.Exchange.To, nil),

		"id_jag":    c.Exchange.readIDJAG,
		"txn_token": caddyfileutil.Values(&c.Exchange.Domains, client.CheckDomain),
	})(d)
}

func (e *Exchange) readIDJAG(d *caddyfile.Dispenser) error {
	args := d.RemainingArgs()
	if len(args) < 2 {
		return d.Err("id_jag: want the issuer of the server elsewhere, the id of the client there, and scopes, as in: id_jag https://auth.chat.example wiki-at-chat chat.read")
	}
	if err := caddyfileutil.Check(d, "id_jag", args[0], client.CheckIssuer); err != nil {
		return err
	}
	for _, scope := range args[2:] {
		if err := caddyfileutil.Check(d, "id_jag", scope, caddyfileutil.CheckScope); err != nil {
			return err
		}
	}
	e.IDJAG = append(e.IDJAG, IDJAG{Issuer: args[0], ClientID: args[1], Scopes: args[2:]})
	return caddyfileutil.NoMore(d, "id_jag")
}

func (c *Client) readApp(d *caddyfile.Dispenser) error {
	args := d.RemainingArgs()
	if len(args) != 3 {
		return d.Err("app: want identifier, platform and version, such as app com.example.app android 4.2.0")
	}
	c.App = &MobileApp{Identifier: args[0], Platform: args[1], Version: args[2]}
	return nil
}

// ReadRequired reads an option whose only argument is the word required.
func ReadRequired(option string, required *bool) func(*caddyfile.Dispenser) error {
	return func(d *caddyfile.Dispenser) error {
		var word string
		if err := caddyfileutil.ReadValue(d, &word, caddyfileutil.OneOf("required")); err != nil {
			return err
		}
		if caddyfileutil.HasPlaceholder(word) {
			return d.Errf("%s: want the word required", option)
		}
		*required = true
		return nil
	}
}

// readEncryption reads how something is encrypted: how the key is agreed on, and how the content is encrypted.
func readEncryption(option string, alg, enc *string) func(*caddyfile.Dispenser) error {
	return func(d *caddyfile.Dispenser) error {
		args := d.RemainingArgs()
		if len(args) < 1 || len(args) > 2 {
			return d.Errf("%s: want an algorithm and, if it is not A256GCM, the encryption of the content, as in: %s ECDH-ES A128CBC-HS256",
				option, option)
		}
		*alg = args[0]
		err := caddyfileutil.Check(d, option, args[0], checkEncAlg)
		if len(args) == 2 && err == nil {
			*enc = args[1]
			err = caddyfileutil.Check(d, option, args[1], checkEnc)
		}
		return err
	}
}

func (c *Client) readIDTokenClaims(d *caddyfile.Dispenser) error {
	var word string
	if err := caddyfileutil.ReadValue(d, &word, caddyfileutil.OneOf("on", "off")); err != nil {
		return err
	}
	if caddyfileutil.HasPlaceholder(word) {
		return d.Errf("id_token_claims: want on or off")
	}
	c.IDTokenClaims = word == "on"
	return nil
}

// ReadAPIClient reads one more API client than the others:
//
//	api_client <id> {
//		secret      <secret>     # twice while it is rotated
//		secret_hash <PHC string>
//		apis        introspection|configuration|credentials|events|persons|access|access_decisions|statistics|storage...
//		audiences   <uri>...
//		introspection_alg RS256|ES256|EdDSA|ML-DSA-44|ML-DSA-65|ML-DSA-87
//		partitions  <name>...
//		max_level   1|2|3|4      # of the LOGIN tokens that it makes
//		tls_client_auth subject_dn|san_dns|san_uri|san_ip|san_email <name>
//		disabled
//	}
func ReadAPIClient(d *caddyfile.Dispenser, others []APIClient) (c APIClient, err error) {
	start := d.Token()
	if err := caddyfileutil.ReadName(d, &c.ID, nil); err != nil {
		return c, err
	}
	for _, other := range others {
		if other.ID == c.ID {
			return c, d.Errf("api_client %s is already defined at %s:%d: keep one of them", c.ID, other.token.File, other.token.Line)
		}
	}
	err = caddyfileutil.ReadBlock(d, "api_client "+c.ID, &reference.APIClient, caddyfileutil.Subdirectives{
		"secret":       caddyfileutil.Another(&c.Secrets, caddyfileutil.CheckSecret),
		"secret_hash":  caddyfileutil.Another(&c.SecretHashes, caddyfileutil.CheckPHC),
		"organisation": caddyfileutil.Value(&c.Organisation, checkOrganisation),
		"apis":         caddyfileutil.Values(&c.APIs, checkAPI),
		"audiences":    caddyfileutil.Values(&c.Audiences, caddyfileutil.CheckURI),

		"introspection_alg": caddyfileutil.Value(&c.IntrospectionAlg, checkAlg),

		"partitions": caddyfileutil.Values(&c.Partitions, authn.CheckPartition),
		"max_level":  caddyfileutil.Value(&c.MaxLevel, caddyfileutil.CheckLevel),
		"disabled":   caddyfileutil.Flag(&c.Disabled),

		"tls_client_auth": func(d *caddyfile.Dispenser) (err error) { c.CertificateSubject, err = readSubject(d); return err },
	})
	if err != nil {
		return c, err
	}
	r := caddyfileutil.NewResolver(nil)
	if c.Build(r); r.Err() != nil {
		return c, caddyfileutil.At(start, r.Err())
	}
	c.token = start
	return c, nil
}
