package api

import (
	"net/http"
	"time"

	"github.com/gatehouse-id/gatehouse/internal/ratelimit"
)

// What one API client may ask of the credentials API: far more than people sign in, and less than what would fill a
// disk with initialization vectors or try the passwords of everybody. API clients have been authenticated, so their ids
// are few and all of them are remembered.
var askLimits = ratelimit.Limits{PerSecond: 200, Burst: 400}

// slow refuses an API client that sends too many requests.
func (a *API) slow(w http.ResponseWriter, client string) error {
	if a.asks.Allow(client, a.deps.Now()) {
		return nil
	}
	ratelimit.RetryAfter(w, time.Second)
	return tooManyRequests()
}
