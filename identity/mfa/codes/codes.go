// Package codes makes and checks what people type as a second factor: codes of an authenticator app, recovery codes,
// and PINs. It stores nothing.
package codes

import (
	"crypto/subtle"
	"encoding/base32"
	"io"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/pquerna/otp"
	"github.com/pquerna/otp/hotp"

	"github.com/gatehouse-id/gatehouse/internal/secret"
)

const (
	period      = 30 * time.Second
	skew        = 1  // time steps that a phone's clock may be off (RFC 6238 5.2)
	secretBytes = 20 // RFC 4226 4, R6
	digits      = 6

	pinMin = 6
	pinMax = 12

	recoveryCodes = 10
	recoveryBytes = 10 // 80 bits, so a fast hash is enough to protect them
)

// Step returns the time step that a code of an app belongs to, if it is near now and later than last. (RFC 6238)
func Step(key []byte, code string, last int64, now time.Time) (step int64, ok bool) {
	code = strings.ReplaceAll(strings.TrimSpace(code), " ", "")
	if len(code) != digits {
		return 0, false
	}
	text := Encode(key)
	at := now.Unix() / int64(period/time.Second)
	for step := at - skew; step <= at+skew; step++ {
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

// TimeOf returns when a time step begins.
func TimeOf(step int64) time.Time { return time.Unix(step*int64(period/time.Second), 0) }

// NewSecret returns a secret for an app.
func NewSecret(random io.Reader) ([]byte, error) {
	key := make([]byte, secretBytes)
	_, err := io.ReadFull(random, key)
	return key, err
}

// Encode returns a secret as people type it into an app.
func Encode(key []byte) string {
	return base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(key)
}

// URI hands a secret to an app: it is what the QR code says. (Key Uri Format of Google Authenticator)
func URI(key []byte, issuer, username string) string {
	issuer = strings.ReplaceAll(issuer, ":", " ") // a colon would end it in the label
	q := url.Values{"secret": {Encode(key)}, "issuer": {issuer}, "algorithm": {"SHA1"}, "digits": {"6"}, "period": {"30"}}
	return "otpauth://totp/" + url.PathEscape(issuer) + ":" + url.PathEscape(username) + "?" + strings.ReplaceAll(q.Encode(), "+", "%20")
}

// NewRecovery returns recovery codes of a person, to be shown once, and what is stored of them.
func NewRecovery(random io.Reader, personID string) (codes, hashes []string, err error) {
	for range recoveryCodes {
		b := make([]byte, recoveryBytes)
		if _, err := io.ReadFull(random, b); err != nil {
			return nil, nil, err
		}
		c := strings.ToLower(base32.StdEncoding.EncodeToString(b))
		code := c[:4] + "-" + c[4:8] + "-" + c[8:12] + "-" + c[12:]
		codes, hashes = append(codes, code), append(hashes, Hash(personID, code))
	}
	return codes, hashes, nil
}

// Hash returns the stored form of a recovery code. It accepts a code as people write it: in upper or lower case, with
// or without the hyphens.
func Hash(personID, code string) string {
	code = strings.Map(func(c rune) rune {
		if c == '-' || c == ' ' {
			return -1
		}
		return c
	}, strings.ToLower(code))
	return secret.Hash("recovery code\x00" + personID + "\x00" + code)
}

// PINProblem returns the message for what is wrong with a new PIN, or "".
func PINProblem(pin, again string) string {
	digits := []byte(pin)
	if len(digits) < pinMin || len(digits) > pinMax || slices.ContainsFunc(digits, func(c byte) bool { return c < '0' || c > '9' }) {
		return "problem.pin_digits"
	}
	runs := [3]bool{true, true, true} // one digit, upwards, downwards
	for i := 1; i < len(digits); i++ {
		step := int(digits[i]) - int(digits[i-1])
		runs[0], runs[1], runs[2] = runs[0] && step == 0, runs[1] && step == 1, runs[2] && step == -1
	}
	switch {
	case runs[0] || runs[1] || runs[2]:
		return "problem.pin_easy"
	case pin != again:
		return "problem.pin_again"
	}
	return ""
}
