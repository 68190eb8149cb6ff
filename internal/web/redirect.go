package web

import (
	"net/http"
	"strings"
)

// Redirect sends the browser on with 303, so a form is not posted again at the new address. (RFC 9110 15.4.4)
func Redirect(w http.ResponseWriter, to string) { RedirectStatus(w, to, http.StatusSeeOther) }

// RedirectStatus is Redirect with another status, where a document or a browser needs it. It is the only writer of
// redirects. The answer is not stored, and the next page does not learn the address that led to it, which can hold a
// code. Location is exactly to, which http.Redirect would clean and complete: the caller vouches for it.
func RedirectStatus(w http.ResponseWriter, to string, status int) {
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Location", to)
	w.WriteHeader(status)
}

// WithoutFragment returns to so that the next page does not get what is after # in the address of this one: browsers
// pass that on with a redirect unless the new address has a fragment, which can be empty. (RFC 9110 10.2.2)
func WithoutFragment(to string) string {
	if strings.Contains(to, "#") {
		return to
	}
	return to + "#"
}
