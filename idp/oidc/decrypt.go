package oidc

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"

	"github.com/go-jose/go-jose/v4"

	"github.com/gatehouse-id/gatehouse/idp"
	"github.com/gatehouse-id/gatehouse/idp/providerhttp"
)

// The encryption that we accept. Not accepted: RSA1_5 (padding oracles), PBES2 (the sender chooses how much work we
// do), dir and AES key wrapping (they need a shared secret). (RFC 8725 3.1, 3.2)
var (
	keyWraps = []jose.KeyAlgorithm{
		jose.RSA_OAEP, jose.RSA_OAEP_256, jose.ECDH_ES, jose.ECDH_ES_A128KW,
		jose.ECDH_ES_A192KW, jose.ECDH_ES_A256KW,
	}
	ciphers = []jose.ContentEncryption{
		jose.A128GCM, jose.A192GCM, jose.A256GCM, jose.A128CBC_HS256, jose.A192CBC_HS384, jose.A256CBC_HS512,
	}
)

const maxHeader = 4 << 10 // bytes of a JWE header

// errOpen is the single error for every message that we cannot decrypt: different errors would help an attacker to
// guess.
var errOpen = errors.New("it cannot be decrypted")

// localError marks an error on our side, which says nothing about the message.
type localError struct{ error }

func (o localError) Unwrap() error { return o.error }

// invalidUnlessLocal returns an *idp.Invalid for a message, unless the error is on our side.
func invalidUnlessLocal(what string, err error) error {
	if o := (localError{}); errors.As(err, &o) {
		return fmt.Errorf("%s: %w", what, o.error)
	}
	return &idp.Invalid{Reason: "the " + what + " cannot be read", Cause: err}
}

// open returns the signed token inside an encrypted one. An unencrypted token is returned as it is, unless encryption
// is required.
func (p *Provider) open(ctx context.Context, raw string, required bool) (string, error) {
	if len(raw) > maxToken {
		return "", errors.New("it is too long")
	}
	switch strings.Count(raw, ".") {
	case 2:
		if required {
			return "", errors.New("it is not encrypted")
		}
		return raw, nil
	case 4:
	default:
		return "", errUnsigned
	}
	plain, err := p.decrypt(ctx, raw)
	if err != nil {
		return "", err
	}
	if strings.Count(string(plain), ".") != 2 { // signed, then encrypted, once (RFC 7519 11.2)
		return "", errUnsigned
	}
	return string(plain), nil
}

// decrypt opens a compact JWE with one of our keys. The header is checked before a key is used.
func (p *Provider) decrypt(ctx context.Context, raw string) ([]byte, error) {
	if !p.encrypts { // encryption is not configured, so strangers cannot cost us this work
		return nil, errOpen
	}
	head, _, _ := strings.Cut(raw, ".")
	if len(head) > maxHeader {
		return nil, errOpen
	}
	header, err := base64.RawURLEncoding.DecodeString(head)
	if err != nil {
		return nil, errOpen
	}
	fields, err := providerhttp.ReadObject(header)
	if err != nil {
		return nil, errOpen
	}
	if _, zipped := fields["zip"]; zipped { // inflated data could have any size
		return nil, errors.New("it is compressed")
	}
	sealed, err := jose.ParseEncryptedCompact(raw, keyWraps, ciphers)
	if err != nil {
		return nil, errOpen
	}
	for _, name := range p.cfg.Decrypt {
		pair, err := p.env.KeyPair(ctx, name)
		if err != nil {
			return nil, localError{fmt.Errorf("key pair %q: %w", name, err)}
		}
		for _, key := range pair.All() {
			if plain, err := sealed.Decrypt(key.Signer); err == nil {
				return plain, nil
			}
		}
	}
	return nil, errOpen
}
