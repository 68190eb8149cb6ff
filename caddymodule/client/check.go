package client

import (
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/gatehouse-id/gatehouse/authz/client"
	"github.com/gatehouse-id/gatehouse/caddymodule/internal/caddyfileutil"
)

var (
	checkGrant = caddyfileutil.OneOf("authorization_code", "refresh_token", "client_credentials", "id_token", "implicit", "password",
		"validate_bearer", "device_code", "jwt_bearer", "token_exchange")
	checkAuthMethod  = caddyfileutil.OneOf("basic", "post", "private_key_jwt", "tls_client_auth", "self_signed_tls_client_auth", "workload")
	checkConsent     = caddyfileutil.OneOf("on", "off", "always")
	checkRequestAlg  = caddyfileutil.OneOf("RS256", "PS256", "ES256", "EdDSA")
	checkEncAlg      = caddyfileutil.OneOf("RSA-OAEP-256", "ECDH-ES", "ECDH-ES+A256KW")
	checkEnc         = caddyfileutil.OneOf("A256GCM", "A128CBC-HS256")
	checkAlg         = caddyfileutil.OneOf(client.SignatureAlgorithms...)
	checkResponseAlg = caddyfileutil.OneOf("RS256", "ES256", "EdDSA")
	checkTokenFormat = caddyfileutil.OneOf("opaque", "jwt")
	checkSubjectType = caddyfileutil.OneOf("public", "pairwise")
	checkAPI         = caddyfileutil.OneOf("introspection", "configuration", "credentials", "events", "persons", "policies", "access",
		"access_decisions", "statistics", "storage", "sessions", "assurance", "administrators")
	checkMaxSessions = caddyfileutil.Between(1, 1000)
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
	if err != nil || (u.Scheme != "https" && u.Scheme != "http") || u.Host == "" || u.User != nil ||
		strings.TrimPrefix(s, u.Scheme+"://"+u.Host) != "" {
		return fmt.Errorf("%q is not an origin such as https://app.example.com", s)
	}
	return nil
}
