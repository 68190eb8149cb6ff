package page

import "net/http"

// Redirect sends the browser on: 303, so that what was posted is not posted again (RFC 9110 15.4.4). It is the one
// writer of redirects of pages: the answer is not stored, and the place it leads to does not learn the address it comes
// from, which can hold a code. The caller vouches for to.
func Redirect(w http.ResponseWriter, to string) {
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Location", to)
	w.WriteHeader(http.StatusSeeOther)
}
