package stepup

import (
	"context"
	"encoding/base32"
	"io"
	"slices"
	"strings"

	"github.com/gatehouse-id/gatehouse/identity/config"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/session"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

const (
	recoveryCodes = 10
	// recoveryBytes: 80 bits, so that the hash alone keeps them.
	recoveryBytes = 10
)

// recoveryMethod is a code that the person has written down, in place of the authenticator app that is lost.
var recoveryMethod = Method{
	Name:  session.MethodRecovery,
	Level: func(u *config.Units) int { return TOTPMethod.Level(u) },
	has:   func(_ storage.Tx, _ *session.Current, own *Record) (bool, error) { return len(own.Recovery) > 0, nil },
	check: func(_ context.Context, _ *Service, t *answer) (func(storage.Tx, *Record) (bool, error), error) {
		hash := recoveryHash(t.si.Session.PersonID, t.code)
		if !slices.Contains(t.own.Recovery, hash) {
			return nil, person.ErrMismatch
		}
		return func(_ storage.Tx, own *Record) (bool, error) {
			i := slices.Index(own.Recovery, hash)
			if i < 0 {
				return false, nil
			}
			own.Recovery = slices.Delete(slices.Clone(own.Recovery), i, i+1)
			return true, nil
		}, nil
	},
}

// newRecoveryCodes returns codes to be shown once, and what is stored of them.
func newRecoveryCodes(random io.Reader, person string) (codes, hashes []string, err error) {
	for range recoveryCodes {
		b := make([]byte, recoveryBytes)
		if _, err := io.ReadFull(random, b); err != nil {
			return nil, nil, err
		}
		c := strings.ToLower(base32.StdEncoding.EncodeToString(b))
		code := c[:4] + "-" + c[4:8] + "-" + c[8:12] + "-" + c[12:]
		codes, hashes = append(codes, code), append(hashes, recoveryHash(person, code))
	}
	return codes, hashes, nil
}

// recoveryHash reads a code as people write it: in any case, with or without the hyphens.
func recoveryHash(person, code string) string {
	code = strings.Map(func(c rune) rune {
		if c == '-' || c == ' ' {
			return -1
		}
		return c
	}, strings.ToLower(code))
	return secret.Hash("recovery code\x00" + person + "\x00" + code)
}
