package ratelimit

import (
	"net/http"
	"strconv"
	"time"
)

// Soon is the wait of a client after a 503 of unknown duration.
const Soon = 5 * time.Second

// RetryAfter sets Retry-After to the seconds of wait, rounded up and at least one, and returns them. It is the only
// writer of that header. (RFC 9110 10.2.3, RFC 6585 4)
func RetryAfter(w http.ResponseWriter, wait time.Duration) int {
	seconds := max(1, int((wait+time.Second-1)/time.Second))
	w.Header().Set("Retry-After", strconv.Itoa(seconds))
	return seconds
}
