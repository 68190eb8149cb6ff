// Package dpop verifies DPoP proofs (RFC 9449): that the sender of a request has the key of its token, and has signed
// this request alone. (docs/decisions/token-endpoint.md#dpop)
package dpop

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/gatehouse-id/gatehouse/authz/oauth"
	"github.com/gatehouse-id/gatehouse/internal/denial"
	"github.com/gatehouse-id/gatehouse/internal/jwa"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

// The headers of requests and answers, and the scheme of Authorization. (RFC 9449 4.1, 7.1, 8)
const (
	Header      = "Dpop"
	NonceHeader = "Dpop-Nonce"
	Scheme      = "DPoP"
)

const (
	window = time.Minute // how far iat can lie from our clock, either way
	margin = time.Minute // how much longer a used proof is remembered, since storage collects by another clock

	maxProof = 8 << 10 // bytes
	maxID    = 256     // bytes of jti
)

// algorithms are those of proofs, the preferred one first.
var algorithms = []jose.SignatureAlgorithm{jose.ES256, jose.EdDSA, jwa.Ed25519, jose.PS256, jose.RS256}

// Algorithms are those of proofs, for metadata.
func Algorithms() []string {
	out := make([]string, len(algorithms))
	for i, alg := range algorithms {
		out[i] = string(alg)
	}
	return out
}

// Challenge returns the challenge of a resource for a token with a proof; params are those of RFC 6750 3, each after a
// comma. (RFC 9449 7.1)
func Challenge(params string) string {
	return Scheme + ` algs="` + strings.Join(Algorithms(), " ") + `"` + params
}

// Deps are the dependencies of checking proofs. All but Memory are required.
type Deps struct {
	Store   storage.Store
	Keyring *secret.Keyring
	// Memory knows what was used at resources. nil: each use is written before the answer.
	Memory *Memory
	Now    func() time.Time
}

// Proofs checks proofs. It is safe for concurrent use.
type Proofs struct {
	deps    Deps
	nonces  []*secret.MACKey // that make them, the newest first
	signers signers
}

// New returns the checks of a store. Those of another process with the same store and encryption key accept the same
// nonces, and no proof that was used here.
func New(deps Deps) *Proofs {
	p := &Proofs{deps: deps}
	for _, key := range deps.Keyring.DeriveAll("dpop nonce") {
		p.nonces = append(p.nonces, secret.NewMACKey(key))
	}
	return p
}

// Request is the request that a proof must be about.
type Request struct {
	Method string
	URL    string // as the client knows it; query and fragment do not count
	// Token is the access token that the request carries. Empty: none.
	Token string
}

// Proof is a proof that was checked, and not spent yet.
type Proof struct {
	// JKT is the thumbprint of its key. (RFC 7638)
	JKT string
	// Algorithm has signed it.
	Algorithm jose.SignatureAlgorithm

	key   string    // in the table of used proofs
	since time.Time // it cannot have been used before
	until time.Time // it is of no use from then on
	renew bool      // its nonce will expire soon
}

// Check checks the proof of a request, which is in its headers. The refusal of a request without a good one has the
// codes and status of the token endpoint.
func (p *Proofs) Check(h http.Header, about Request) (*Proof, error) {
	sent := h[Header]
	switch {
	case len(sent) == 0:
		return nil, Invalid(nil, "a DPoP proof is required")
	case len(sent) > 1: // RFC 9449 4.3, 1
		return nil, Invalid(nil, "more than one DPoP proof was sent")
	case len(sent[0]) > maxProof:
		return nil, Invalid(nil, "the DPoP proof is too long")
	}
	now := p.deps.Now().UTC()
	claims, by, err := p.verify(sent[0])
	if err != nil {
		return nil, err
	}
	if err := claims.check(about); err != nil {
		return nil, err
	}
	out := &Proof{JKT: by.jkt, Algorithm: by.alg, key: secret.Hash(by.jkt + " " + claims.ID)}
	made := time.Unix(int64(*claims.IssuedAt), 0)
	// RFC 9449 4.3, 10 and 11: the moment is that of iat, or that of our nonce: then the client's clock does not matter.
	switch {
	case claims.Nonce != "":
		ends, ok := p.nonceEnds(claims.Nonce, now)
		if !ok {
			return nil, oauth.UseNonce(errNonce)
		}
		out.since, out.until, out.renew = ends.Add(-nonceLife), ends, ends.Sub(now) < nonceLife/2
	case made.Before(now.Add(-window)) || made.After(now.Add(window)):
		return nil, oauth.UseNonce(errClock) // so that a client whose clock is wrong can go on
	default:
		out.since, out.until = made.Add(-window), made.Add(window)
	}
	return out, nil
}

// Spend notes that a proof was used, in the transaction that relies on it. A second time is refused.
func (f *Proof) Spend(tx storage.Tx) error {
	err := used.Create(tx, f.key, struct{}{}, f.until.Add(margin))
	if errors.Is(err, storage.ErrExists) {
		return replayed()
	}
	return err
}

func replayed() error { return Invalid(errReplayed, "the DPoP proof was used before") }

// use is Spend at a resource, where each request has a proof.
func (p *Proofs) use(ctx context.Context, f *Proof) error {
	if p.deps.Memory != nil {
		return oauth.StorageError(p.deps.Memory.use(ctx, f))
	}
	return oauth.StorageError(p.deps.Store.Update(ctx, f.Spend))
}

// Offer gives the client a nonce where it needs one: it was refused for want of one, or uses one that will expire soon.
// (RFC 9449 8, 8.2)
func (p *Proofs) Offer(h http.Header, f *Proof, err error) {
	if (f != nil && f.renew) || (err != nil && needsNonce(err)) {
		h.Set(NonceHeader, p.nonce(p.deps.Now().UTC()))
	}
}

var (
	errReplayed = denial.New(denial.ProofReplayed, "the proof was used before")
	errNonce    = denial.New(denial.ProofInvalid, "the nonce of the proof has expired or is not ours")
	errClock    = denial.New(denial.ProofInvalid, "the proof was made more than a minute ago or ahead, and has no nonce")
)

// Invalid refuses a proof. (RFC 9449 5)
func Invalid(cause error, text string) error {
	if cause == nil {
		cause = denial.New(denial.ProofInvalid, text)
	}
	return oauth.InvalidProof(cause, text)
}

// needsNonce reports whether a proof was refused for want of a nonce.
func needsNonce(err error) bool {
	e := new(oauth.Error)
	return errors.As(err, &e) && e.Code == oauth.CodeUseNonce
}

// Admit decides whether a resource takes an access token from the sender of a request: one that is bound to the key jkt
// by the scheme DPoP and with a proof of that key, which is spent, and one that is bound to none ("") by the scheme
// Bearer. byProof says that it was sent by the scheme DPoP. A refusal has the status of resources. (RFC 9449 7.1, 7.2)
func (p *Proofs) Admit(ctx context.Context, h http.Header, about Request, byProof bool, jkt string) (*Proof, error) {
	switch {
	case !byProof && jkt == "":
		return nil, nil //nolint:nilnil // nothing has to be proved
	case !byProof:
		return nil, notBearer(denial.New(denial.KeyUnproved, "the token is bound to a key and was sent as a bearer token"),
			"the access token is bound to a key: send it by the scheme DPoP, with a proof")
	case jkt == "":
		return nil, notBearer(denial.New(denial.KeyUnproved, "the token is bound to no key and was sent by the scheme DPoP"),
			"the access token is bound to no key: send it by the scheme Bearer")
	}
	f, err := p.Check(h, about)
	if err == nil && f.JKT != jkt {
		err = notBearer(denial.New(denial.KeyUnproved, "the proof is signed with another key than that of the token"),
			"the access token is bound to another key")
	}
	if err == nil {
		err = p.use(ctx, f)
	}
	if e := new(oauth.Error); errors.As(err, &e) && e.Status == http.StatusBadRequest {
		e.Status = http.StatusUnauthorized
	}
	return f, err
}

// notBearer refuses a token that its sender cannot use. (RFC 6750 3.1)
func notBearer(cause error, text string) error {
	return &oauth.Error{Status: http.StatusUnauthorized, Code: "invalid_token", Description: text, Cause: cause}
}
