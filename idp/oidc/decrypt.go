package oidc

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"

	"github.com/go-jose/go-jose/v4"

	"github.com/gatehouse-id/gatehouse/idp"
)

// How an answer may be encrypted for us. Not among them: RSA1_5 (padding oracles), PBES2 (a stranger chooses the work), dir and AES key
// wrapping (they need a shared secret). (RFC 8725 3.1, 3.2)
var (
	keyWraps = []jose.KeyAlgorithm{jose.RSA_OAEP, jose.RSA_OAEP_256, jose.ECDH_ES, jose.ECDH_ES_A128KW, jose.ECDH_ES_A192KW, jose.ECDH_ES_A256KW}
	ciphers  = []jose.ContentEncryption{
		jose.A128GCM, jose.A192GCM, jose.A256GCM, jose.A128CBC_HS256, jose.A192CBC_HS384, jose.A256CBC_HS512,
	}
)

const maxHeader = 4 << 10 // bytes of a JWE header

// errOpen is one error for every way in which a message is not for us: telling them apart would help to guess.
var errOpen = errors.New("it cannot be decrypted")

// ours marks an error that says nothing about what was judged.
type ours struct{ error }

func (o ours) Unwrap() error { return o.error }

// invalidUnlessOurs says that what was named is not to be believed, unless the failure is ours.
func invalidUnlessOurs(what string, err error) error {
	if o := (ours{}); errors.As(err, &o) {
		return fmt.Errorf("%s: %w", what, o.error)
	}
	return &idp.Invalid{Reason: "the " + what + " cannot be read", Cause: err}
}

// open returns the signed token inside of an encrypted one; one that is not encrypted as it is, where it may be.
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

// decrypt opens a compact JWE with one of our keys. The header is judged before a key is touched.
func (p *Provider) decrypt(ctx context.Context, raw string) ([]byte, error) {
	if !p.encrypts { // nobody has arranged it, so strangers do not make us work
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
	fields, err := readObject(header)
	if err != nil {
		return nil, errOpen
	}
	if _, zipped := fields["zip"]; zipped { // what is inflated may be any size
		return nil, errors.New("it is compressed")
	}
	sealed, err := jose.ParseEncryptedCompact(raw, keyWraps, ciphers)
	if err != nil {
		return nil, errOpen
	}
	for _, name := range p.cfg.Decrypt {
		pair, err := p.env.KeyPair(ctx, name)
		if err != nil {
			return nil, ours{fmt.Errorf("key pair %q: %w", name, err)}
		}
		if plain, err := sealed.Decrypt(pair.Signer); err == nil {
			return plain, nil
		}
	}
	return nil, errOpen
}
