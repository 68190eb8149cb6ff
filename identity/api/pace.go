package api

import (
	"math"
	"net/http"
	"strconv"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// What one API client may ask of the credentials API: far more than people sign in, and less than what would fill a disk with initialization
// vectors or try passwords of everybody.
const (
	asksPerSecond = 200
	asksBurst     = 400
)

// pace bounds how much API clients ask, each for itself. Their ids are few: they have been authenticated.
type pace struct {
	mu sync.Mutex // guards of
	of map[string]*rate.Limiter
}

// take counts one more request of a client and returns how long it has to wait. 0: it does not.
func (p *pace) take(client string, now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.of == nil {
		p.of = map[string]*rate.Limiter{}
	}
	l := p.of[client]
	if l == nil {
		l = rate.NewLimiter(asksPerSecond, asksBurst)
		p.of[client] = l
	}
	if l.AllowN(now, 1) {
		return 0
	}
	return time.Second
}

// slow refuses an API client that asks too much at once.
func (a *API) slow(w http.ResponseWriter, client string) error {
	wait := a.pace.take(client, a.Now())
	if wait == 0 {
		return nil
	}
	w.Header().Set("Retry-After", seconds(wait)) // RFC 6585 4
	return tooManyRequests()
}

// seconds is a duration for Retry-After, at least one second.
func seconds(d time.Duration) string {
	return strconv.Itoa(max(1, int(math.Ceil(d.Seconds()))))
}
