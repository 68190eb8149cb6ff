// Package cookie names and sets the cookies of an origin. Browsers keep cookies by host and ignore the port, so the
// name carries a hash of the origin: two sites on one host never overwrite each other's cookies.
package cookie

import (
	"crypto/sha256"
	"encoding/base32"
	"net/http"
	"strings"
	"time"

	"github.com/gatehouse-id/gatehouse/internal/secret"
)

// Jar sets and reads the cookies of one origin.
type Jar struct {
	secure bool
	stem   string
}

const hashLen = 8 // base32 characters of the origin's hash

// namespace is part of the name of every Gatehouse cookie, so protect can keep them all from upstreams.
const namespace = "gh-"

// For returns the jar of an origin such as https://auth.example.com or http://localhost:9080. Only cookies of an https
// origin have the __Host- prefix and Secure.
func For(origin string) Jar {
	origin = strings.ToLower(origin)
	h := sha256.Sum256([]byte(origin))
	j := Jar{secure: strings.HasPrefix(origin, "https://")}
	j.stem = namespace + strings.ToLower(base32.StdEncoding.EncodeToString(h[:5])) + "-"
	if j.secure {
		j.stem = "__Host-" + j.stem
	}
	return j
}

// Name returns the full name of the cookie of this kind, a short lower-case word.
func (j Jar) Name(kind string) string { return j.stem + kind }

// Set sets a host-only, HttpOnly, SameSite=Lax cookie for the whole origin. maxAge 0: until the browser closes.
func (j Jar) Set(w http.ResponseWriter, kind, value string, maxAge time.Duration) {
	http.SetCookie(w, &http.Cookie{
		Name: j.Name(kind), Value: value, Path: "/", MaxAge: int(maxAge / time.Second),
		Secure: j.secure, HttpOnly: true, SameSite: http.SameSiteLaxMode,
	})
}

// SetCrossSite is Set for a cookie that the browser must send when another site posts to us, such as a provider's
// answer. The cookie gives no access by itself. Browsers accept SameSite=None with Secure only, so without https the
// cookie is Lax.
func (j Jar) SetCrossSite(w http.ResponseWriter, kind, value string, maxAge time.Duration) {
	c := &http.Cookie{
		Name: j.Name(kind), Value: value, Path: "/", MaxAge: int(maxAge / time.Second),
		Secure: j.secure, HttpOnly: true, SameSite: http.SameSiteLaxMode,
	}
	if j.secure {
		c.SameSite = http.SameSiteNoneMode
	}
	http.SetCookie(w, c)
}

// CrossesSites reports whether browsers send the cookies of SetCrossSite when another site posts to us.
func (j Jar) CrossesSites() bool { return j.secure }

// Clear removes a cookie.
func (j Jar) Clear(w http.ResponseWriter, kind string) {
	http.SetCookie(w, &http.Cookie{
		Name: j.Name(kind), Path: "/", MaxAge: -1, Secure: j.secure, HttpOnly: true, SameSite: http.SameSiteLaxMode,
	})
}

// Get returns the value of a cookie. It returns "" when the cookie is absent, sent more than once, or longer than
// Gatehouse makes them.
func (j Jar) Get(r *http.Request, kind string) string {
	found := r.CookiesNamed(j.Name(kind))
	if len(found) != 1 || len(found[0].Value) > 256 {
		return ""
	}
	return found[0].Value
}

// IsOurs reports whether a cookie name belongs to Gatehouse, at any origin.
func IsOurs(name string) bool {
	rest, ok := strings.CutPrefix(strings.TrimPrefix(strings.ToLower(name), "__host-"), namespace)
	return ok && len(rest) > hashLen && rest[hashLen] == '-' && strings.Trim(rest[:hashLen], "abcdefghijklmnopqrstuvwxyz234567") == ""
}

// KindBrowser is the cookie that binds flows to the browser that started them. It gives no access by itself.
const KindBrowser = "browser"

// Browser returns the value that binds flows to this browser, and sets the cookie if the browser has none yet. Store
// only its secret.Hash.
func (j Jar) Browser(w http.ResponseWriter, r *http.Request, newID func() (string, error)) (string, error) {
	if v := j.Get(r, KindBrowser); len(v) >= 43 {
		return v, nil
	}
	// Two flows can begin in one answer, such as an authorization request and its sign-in: they share the cookie.
	for _, c := range (&http.Response{Header: w.Header()}).Cookies() {
		if c.Name == j.Name(KindBrowser) && c.Value != "" {
			return c.Value, nil
		}
	}
	v, err := newID()
	if err != nil {
		return "", err
	}
	j.Set(w, KindBrowser, v, 0)
	return v, nil
}

// SameBrowser reports whether the request carries the browser cookie whose secret.Hash is bound.
func (j Jar) SameBrowser(r *http.Request, bound string) bool {
	v := j.Get(r, KindBrowser)
	return v != "" && bound != "" && secret.New(bound).Equal(secret.Hash(v))
}
