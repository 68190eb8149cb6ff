package console

import (
	"net/http"
	"strings"
	"testing"
	"time"
)

// TestPagesThatLoadThemselves: a page that loads itself again does not keep the session of someone who has left from
// ending. One that is opened does.
func TestPagesThatLoadThemselves(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]bool{"/admin/events": true, "/admin/events?live=1": false} {
		h := newHarness(t)
		b := h.as("viewer@example.com")
		b.get("/admin")
		alive := true
		for range 9 { // 90 minutes; a session that is not used ends after 60
			h.clock.Advance(10 * time.Minute)
			a := b.do(http.MethodGet, path, "")
			if alive = !strings.HasPrefix(a.Header().Get("Location"), "/sign-in"); !alive {
				break
			}
			if live := strings.Contains(a.Body.String(), `http-equiv="refresh"`); live == want {
				t.Fatalf("%s: the page loads itself again: %t", path, live)
			}
		}
		if alive != want {
			t.Errorf("%s for 90 minutes: signed in = %t, want %t", path, alive, want)
		}
	}
}
