package idp

import (
	"context"
	"crypto"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"go.uber.org/zap"
)

// Env is the environment of a provider, in addition to its configuration. None of its fields is nil.
type Env struct {
	// ID is the name of the provider for clients and in the parameter idp. It is part of the provider's URLs.
	ID string
	// Issuer is our origin, without a trailing slash. The endpoints are Issuer + "/saml/" or "/oidc/" + ID + "/" + op.
	Issuer string
	Now    func() time.Time
	Random io.Reader
	Log    *zap.Logger // carries the provider's name already
	// Client makes the requests to the provider. It follows no redirects, accepts no compression and gives up after 5
	// seconds.
	Client *http.Client
	// Checked is like Client, for addresses that the operator did not write, such as those in a provider's metadata. It
	// connects only to public hosts and to hosts that the operator has allowed.
	Checked *http.Client
	// Dial makes a connection to the provider where it speaks no HTTP. It connects to the same hosts as Client.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Once marks key as used until the given time. It returns ErrReplayed if any node has marked the key before. Any
	// other error means "we cannot tell", and the answer must be refused. Keys of different providers are separate. A
	// key has up to 1 KiB.
	Once func(ctx context.Context, key string, until time.Time) error
	// KeyPair returns a key pair of the configuration by its name; "" is Gatehouse's own for SAML, which is made on
	// first use. The error for a key pair without a private key is an *UnfitKey.
	KeyPair func(ctx context.Context, name string) (*Key, error)
	// Certificate returns the certificate of a key pair of the configuration by its name, with a private key or without.
	// The error for a key pair without a certificate is an *UnfitKey.
	Certificate func(ctx context.Context, name string) (*x509.Certificate, error)
}

// Key is a key pair that signs or decrypts.
type Key struct {
	Name        string
	Certificate *x509.Certificate // nil if the key pair has no certificate
	Signer      crypto.Signer     // never nil; the keys that decrypt are *rsa.PrivateKey
	// Others are the keys that are published next to this one, and decrypt: those that take its place soon, and the
	// former ones.
	Others []*Key
}

// All are the key itself and those next to it, in this order.
func (k *Key) All() []*Key { return append([]*Key{k}, k.Others...) }

// UnfitKey says that a key pair exists, but cannot be used as the configuration wants.
type UnfitKey struct{ Name, Problem string }

func (u *UnfitKey) Error() string { return fmt.Sprintf("the key pair %q %s", u.Name, u.Problem) }

// Certified is a Provider whose signatures are checked with certificates.
type Certified interface {
	// Certificates returns those that are known now, without a connection.
	Certificates() []*x509.Certificate
}

// KeyUse says what a Provider uses a key pair of the configuration for.
type KeyUse struct {
	Name string // "": Gatehouse's own
	Use  string // UseSign, UseDecrypt or UseConnect
}

// What key pairs are used for.
const (
	UseSign    = "sign"
	UseDecrypt = "decrypt"
	UseConnect = "connect"
)

// KeyUser is a Provider that uses key pairs of the configuration.
type KeyUser interface{ KeyUses() []KeyUse }

// KeyChecker is a Provider that uses key pairs of the configuration. CheckKeys looks at those that its configuration
// names, without a connection. The error is an *UnfitKey where one of them cannot be used.
type KeyChecker interface {
	CheckKeys(ctx context.Context) error
}
