package idp

import (
	"context"
	"crypto"
	"crypto/x509"
	"io"
	"net/http"
	"time"

	"go.uber.org/zap"
)

// Env is what a provider is given besides its configuration. Nothing in it is nil.
type Env struct {
	// ID is what clients and the parameter idp call the provider: part of its URLs.
	ID string
	// Issuer is our origin, without a slash at the end: the endpoints are Issuer + "/saml/" or "/oidc/" + ID + "/" + op.
	Issuer string
	Now    func() time.Time
	Random io.Reader
	Log    *zap.Logger // names the provider already
	// Client makes every request to the provider. It follows no redirects, knows no compression and ends after 5 seconds.
	Client *http.Client
	// Checked is like Client, for addresses that nobody here has written, such as those in a provider's metadata: it connects to public hosts alone,
	// and to those that the operator has opened.
	Checked *http.Client
	// Once marks key as used until the given time: ErrReplayed when it was marked before, by whichever node. Any other error: we cannot
	// tell, and the answer must not be taken. Keys of different providers never meet. A key has up to 1 KiB.
	Once func(ctx context.Context, key string, until time.Time) error
	// KeyPair returns a key pair of the configuration by its name; "" is Gatehouse's own for SAML, made when it is asked for the first time.
	KeyPair func(ctx context.Context, name string) (*Key, error)
}

// Key is a key pair that signs or decrypts.
type Key struct {
	Name        string
	Certificate *x509.Certificate // nil where the key pair has none
	Signer      crypto.Signer     // RSA ones are crypto.Decrypter as well
}
