package api

import (
	"math"
	"net/http"
	"strconv"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// The limits of one API client at the credentials API: far above what sign-ins of people need, and below what would
// fill a disk with initialization vectors or try passwords of all people.
const (
	asksPerSecond = 200
	asksBurst     = 400
)

// pace limits the requests of each API client. The clients are authenticated, so they are few.
type pace struct {
	mu sync.Mutex // guards of
	of map[string]*rate.Limiter
}

// take counts a request of a client and returns how long the client has to wait; 0 means not at all.
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

// slow refuses an API client that sends too many requests.
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
