// Package dbsc binds browser sessions to a key that the browser keeps on its device, by Device Bound Session
// Credentials (W3C draft of 2026, headers Secure-Session-*). After a sign-in the answer offers the browser to register
// a key. From then on the session's cookie counts only together with a second one that lives for minutes, and that the
// browser gets for a proof by its key. A copied cookie is worthless once the second one has ended.
//
// Challenges and second cookies are computed, not stored: they are MACs over the session and a time. Only the key of a
// bound session is stored, with the session, and each challenge that was used, until it would have ended.
package dbsc

import (
	"crypto/hmac"
	"encoding/base64"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/gatehouse-id/gatehouse/internal/ratelimit"
	"github.com/gatehouse-id/gatehouse/internal/secret"
)

// The second cookie of a bound session, and the lifetimes.
const (
	// Cookie is the kind of the second cookie. (package cookie)
	Cookie = "bound"
	// CookieLife is the lifetime of the second cookie. The browser asks for another one before it ends.
	CookieLife = 10 * time.Minute
	// challengeLife bounds the time between a challenge and the proof that answers it.
	challengeLife = 5 * time.Minute
	// ahead bounds how far the clock of another node can run ahead.
	ahead = time.Minute
)

// Purposes of MACs.
const (
	forCookie       = "cookie"
	forRegistration = "registration"
	forRefresh      = "refresh"
)

// Device is the state of a session that is or can be bound.
type Device struct {
	// Subject names the session in what is computed for it: an id, or the hash of its cookie.
	Subject string
	// Key is the public key of the device (PKIX, DER). Empty: the session is not bound
	Key []byte
}

// isBound reports whether the session is bound to a device.
func (d Device) isBound() bool { return len(d.Key) > 0 }

// id names the session to the browser. It changes with the key, so a proof for a former registration is told apart.
func (d Device) id() string {
	return base64.RawURLEncoding.EncodeToString([]byte(secret.Hash(d.Subject + "\x00" + string(d.Key))[:16]))
}

// Guard makes and checks challenges and second cookies. It is safe for concurrent use.
type Guard struct {
	keys   []*secret.MACKey // the first one signs
	random io.Reader
	// refreshes bounds how often one session asks for a second cookie: each proof is checked, and its challenge stored.
	refreshes *ratelimit.Limiter[string]
}

// NewGuard returns a guard by keys of 32 bytes that all nodes share. The first one signs, the others are those before
// it.
func NewGuard(random io.Reader, keys ...[]byte) *Guard {
	g := &Guard{random: random, refreshes: ratelimit.New[string](ratelimit.Limits{PerSecond: 1, Burst: 30, Keys: 100_000})}
	for _, key := range keys {
		g.keys = append(g.keys, secret.NewMACKey(key))
	}
	return g
}

// fresh reports whether the second cookie of a session counts now.
func (g *Guard) fresh(d Device, text string, now time.Time) bool {
	return g.check(forCookie, d, text, now, CookieLife) != ""
}

// Admits reports whether a session counts in a request that carries this second cookie. A session that is not bound
// needs none.
func (g *Guard) Admits(d Device, text string, now time.Time) bool {
	return !d.isBound() || g.fresh(d, text, now)
}

// challenge returns a text that the browser must sign within challengeLife.
func (g *Guard) challenge(purpose string, d Device, now time.Time) (string, error) {
	nonce, err := secret.ID(g.random, 16)
	if err != nil {
		return "", err
	}
	return g.sign(purpose, d, nonce, now.Add(challengeLife)), nil
}

// cookie returns the second cookie of a bound session.
func (g *Guard) cookie(d Device, now time.Time) string {
	return g.sign(forCookie, d, "", now.Add(CookieLife))
}

// sign returns end, nonce and their MAC for a session.
func (g *Guard) sign(purpose string, d Device, nonce string, end time.Time) string {
	text := strconv.FormatInt(end.Unix(), 36) + "." + nonce
	return text + "." + macOf(g.keys[0], purpose, d, text)
}

// check returns the text that a MAC is over, or "" when it is not ours, of another session, or has ended.
func (g *Guard) check(purpose string, d Device, text string, now time.Time, life time.Duration) string {
	at := strings.LastIndexByte(text, '.')
	if at < 0 || len(text) > 128 {
		return ""
	}
	signed, mac := text[:at], text[at+1:]
	until, _, _ := strings.Cut(signed, ".")
	seconds, err := strconv.ParseInt(until, 36, 64)
	if err != nil {
		return ""
	}
	if left := time.Unix(seconds, 0).Sub(now); left <= 0 || left > life+ahead {
		return ""
	}
	for _, key := range g.keys {
		if hmac.Equal([]byte(macOf(key, purpose, d, signed)), []byte(mac)) {
			return signed
		}
	}
	return ""
}

func macOf(key *secret.MACKey, purpose string, d Device, text string) string {
	sum := key.MAC(purpose, d.Subject, string(d.Key), text)
	return base64.RawURLEncoding.EncodeToString(sum[:])
}
