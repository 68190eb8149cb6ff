package slowbody

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/caddymodule/servertest/caddytest"
)

func TestLimit(t *testing.T) {
	t.Parallel()
	const most = 100 * time.Millisecond
	for name, every := range map[string]time.Duration{
		"attack 214: a body that comes byte by byte":  5 * time.Millisecond,
		"attack 214: a body that stops on the way":    time.Hour,
		"attack 214: a body that has come in no time": 0,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			result := make(chan error, 1)
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				defer Limit(w, r, most).Stop()
				_, err := io.ReadAll(r.Body)
				result <- err
			}))
			t.Cleanup(srv.Close)
			conn := caddytest.Dial(t, srv.Listener.Addr().String())
			length := 1 << 20
			if every == 0 {
				length = 1
			}
			fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\nx", length)
			var next <-chan time.Time
			if every > 0 {
				tick := time.NewTicker(every)
				defer tick.Stop()
				next = tick.C
			}
			for end := time.After(2 * time.Minute); ; {
				select {
				case err := <-result:
					if every == 0 && err != nil {
						t.Errorf("reading a whole body: %v", err)
					}
					if every > 0 && !errors.Is(err, os.ErrDeadlineExceeded) {
						t.Errorf("reading a slow body = %v, want that its time is over", err)
					}
					return
				case <-next:
					io.WriteString(conn, "x") //nolint:errcheck // it may be over
				case <-end:
					t.Fatal("the body is still read")
				}
			}
		})
	}
}

// TestNoLimitWithoutBody: an answer that lasts, such as a stream of events, has no body to wait for, even if a handler
// above has wrapped the empty one.
func TestNoLimitWithoutBody(t *testing.T) {
	t.Parallel()
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.Body = io.NopCloser(http.NoBody)
	if b := Limit(httptest.NewRecorder(), r, time.Hour); b != nil {
		t.Error("Limit of a request without a body bounds it")
	}
}
