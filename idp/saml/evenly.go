package saml

import (
	"context"
	"errors"
	"time"

	"github.com/gatehouse-id/gatehouse/idp"
)

// evenStep is the step of time in which failures are answered. Decrypting and verifying an answer takes far less.
const evenStep = 500 * time.Millisecond

// readUniformly reads an answer that is encrypted with CBC and not covered by a signature, as AD FS and Entra send by
// default: the assertion is signed, then encrypted. An attacker who has recorded such an answer can change the
// ciphertext and learn the plaintext, bit by bit, from how we fail. So all failures are one: the reason is the same
// until the signature inside is verified, the page is the same anyway, and the time is a multiple of evenStep. All are
// stale: otherwise a new read of the metadata would show which failures are those of the signature inside. A success
// tells nothing, since the signature covers the whole plaintext, names the request, and counts once.
func (v *verifier) readUniformly(ctx context.Context, read func() (*verified, error)) (*verified, error) {
	began := v.now()
	out, err := read()
	if err != nil {
		v.pause(ctx, untilStep(v.now().Sub(began)))
	}
	if errors.As(err, new(*idp.Invalid)) {
		err = Stale(err)
	}
	return out, err
}

// pause waits, unless the caller leaves.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// untilStep is the time that remains of a step. The clock can have been set back.
func untilStep(spent time.Duration) time.Duration { return evenStep - max(spent, 0)%evenStep }

// isMalleable reports whether the response holds an assertion that is encrypted without authentication. A malformed one
// does not count: it is refused before anything is decrypted.
func isMalleable(n *node) bool {
	sealed, err := n.Child(nsAssertion, "EncryptedAssertion")
	if sealed == nil || err != nil {
		return false
	}
	data, _, err := encryptedParts(sealed)
	if err != nil {
		return false
	}
	_, isAuthenticated, err := contentAlgorithm(data)
	return err == nil && !isAuthenticated
}

// alike returns one error for all failures of an encrypted assertion before its signature is verified, except those on
// our side, which say nothing about the plaintext.
func alike(err error) error {
	if unknown := new(unknownError); errors.As(err, &unknown) {
		return unknown.cause
	}
	return invalidBy("the encrypted assertion", errDecrypt)
}
