package client

import (
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/gatehouse-id/gatehouse/caddymodule/internal/options"
)

var (
	checkGrant       = options.OneOf("authorization_code", "refresh_token", "client_credentials", "id_token", "implicit", "password", "validate_bearer", "device_code", "jwt_bearer", "token_exchange")
	checkAuthMethod  = options.OneOf("basic", "post", "private_key_jwt", "tls_client_auth", "self_signed_tls_client_auth", "workload")
	checkConsent     = options.OneOf("on", "off", "always")
	checkRequestAlg  = options.OneOf("RS256", "PS256", "ES256", "EdDSA")
	checkEncAlg      = options.OneOf("RSA-OAEP-256", "ECDH-ES", "ECDH-ES+A256KW")
	checkEnc         = options.OneOf("A256GCM", "A128CBC-HS256")
	checkAlg         = options.OneOf("RS256", "ES256", "EdDSA")
	checkTokenFormat = options.OneOf("opaque", "jwt")
	checkSubjectType = options.OneOf("public", "pairwise")
	checkAPI         = options.OneOf("introspection", "configuration", "credentials", "events", "persons", "policies", "access", "access_decisions", "statistics", "storage", "sessions", "assurance", "administrators")
	checkMaxSessions = options.Between(1, 1000)
)

// checkOrganisation accepts the id of an organisation, or *.
func checkOrganisation(s string) error {
	if s != "*" && (len(s) > 64 || strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.") != "") {
		return errors.New("want the id of an organisation, or *, as in: organisation acme")
	}
	return nil
}

func checkOrigin(s string) error {
	u, err := url.Parse(s)
	if err != nil || (u.Scheme != "https" && u.Scheme != "http") || u.Host == "" || u.User != nil || strings.TrimPrefix(s, u.Scheme+"://"+u.Host) != "" {
		return fmt.Errorf("%q is not an origin such as https://app.example.com", s)
	}
	return nil
}
