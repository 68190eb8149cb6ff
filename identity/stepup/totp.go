package stepup

import (
	"context"
	"crypto/subtle"
	"encoding/base32"
	"io"
	"net/url"
	"strings"
	"time"

	"github.com/pquerna/otp"
	"github.com/pquerna/otp/hotp"

	"github.com/gatehouse-id/gatehouse/identity/config"
	"github.com/gatehouse-id/gatehouse/identity/front"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/session"
	"github.com/gatehouse-id/gatehouse/storage"
)

const (
	totpPeriod = 30 * time.Second
	totpSkew   = 1  // time steps that a phone's clock may be off (RFC 6238 5.2)
	totpSecret = 20 // bytes (RFC 4226 4, R6)
	totpDigits = 6
)

// TOTPMethod is the authenticator app: codes that a phone makes of a secret and the time. (RFC 6238)
var TOTPMethod = Method{
	Name: session.MethodTOTP, setUp: front.SecurityPath + "/authenticator",
	remove: func(own *Record) { own.TOTP, own.Recovery = nil, nil },
	Level: func(u *config.Units) int {
		if !u.Features.GoogleAuthenticatorStepUpAuthenticationEnabled {
			return 0
		}
		return u.StepUp.AuthenticationMethods.GoogleAuthenticatorAuthenticationLevel
	},
	has: func(_ storage.Tx, _ *session.Current, own *Record) (bool, error) { return own.TOTP != nil, nil },
	check: func(_ context.Context, s *Service, t *answer) (func(storage.Tx, *Record) (bool, error), error) {
		if t.own.TOTP == nil {
			return nil, person.ErrMismatch
		}
		personID := t.si.Session.PersonID
		key, err := s.keyring.Open(totpPurpose(personID), t.own.TOTP.Sealed)
		if err != nil {
			return nil, err
		}
		step, ok := totpStep(key, t.code, t.own.TOTP.LastStep, s.now())
		if !ok {
			return nil, person.ErrMismatch
		}
		return func(_ storage.Tx, own *Record) (bool, error) {
			// RFC 6238 5.2: the code must not be taken a second time. Another secret since is another app.
			if own.TOTP == nil || string(own.TOTP.Sealed) != string(t.own.TOTP.Sealed) || own.TOTP.LastStep >= step {
				return false, nil
			}
			next := *own.TOTP
			next.LastStep = step
			own.TOTP = &next
			if s.keyring.IsCurrent(next.Sealed) {
				return true, nil
			}
			next.Sealed, err = s.keyring.Seal(totpPurpose(personID), key)
			own.TOTP = &next
			return true, err
		}, nil
	},
}

func totpPurpose(person string) string { return "step-up authenticator " + person }

// totpStep returns the time step that a code belongs to, when it is one of about now and later than last.
func totpStep(key []byte, code string, last int64, now time.Time) (step int64, ok bool) {
	code = strings.ReplaceAll(strings.TrimSpace(code), " ", "")
	if len(code) != totpDigits {
		return 0, false
	}
	text := encodeSecret(key)
	at := now.Unix() / int64(totpPeriod/time.Second)
	for step := at - totpSkew; step <= at+totpSkew; step++ {
		if step <= last || step < 0 {
			continue
		}
		want, err := hotp.GenerateCodeCustom(text, uint64(step), hotp.ValidateOpts{Digits: otp.DigitsSix, Algorithm: otp.AlgorithmSHA1})
		if err == nil && subtle.ConstantTimeCompare([]byte(want), []byte(code)) == 1 {
			return step, true
		}
	}
	return 0, false
}

func newTOTPSecret(random io.Reader) ([]byte, error) {
	key := make([]byte, totpSecret)
	_, err := io.ReadFull(random, key)
	return key, err
}

func encodeSecret(key []byte) string {
	return base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(key)
}

// totpURI is what the QR code says. (Key Uri Format of Google Authenticator)
func totpURI(key []byte, issuer, username string) string {
	issuer = strings.ReplaceAll(issuer, ":", " ") // which ends it in the label
	q := url.Values{"secret": {encodeSecret(key)}, "issuer": {issuer}, "algorithm": {"SHA1"}, "digits": {"6"}, "period": {"30"}}
	return "otpauth://totp/" + url.PathEscape(issuer) + ":" + url.PathEscape(username) + "?" + strings.ReplaceAll(q.Encode(), "+", "%20")
}
