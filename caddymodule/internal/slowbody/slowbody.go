// Package slowbody limits the time in which the body of a request must arrive.
package slowbody

import (
	"io"
	"net/http"
	"os"
	"time"
)

// FormTime is the maximum time for a form to arrive. Caddy lets a body go on while a byte comes each minute.
const FormTime = 30 * time.Second

// Limit bounds the time in which the body of a request arrives. The caller calls Stop once it is done with the request.
// nil: there is no body.
func Limit(w http.ResponseWriter, r *http.Request, most time.Duration) *Body {
	// Caddy wraps NoBody, and a deadline that passes while nothing is to be read ends the connection of an open stream.
	if r.Body == nil || r.Body == http.NoBody || r.ContentLength == 0 {
		return nil
	}
	b := &Body{ReadCloser: r.Body, until: time.Now().Add(most)}
	// Caddy sets a new deadline with each read. This one ends a read that waits; later reads are refused by the body
	// itself.
	b.timer = time.AfterFunc(most, //nolint:errcheck // then Caddy's own deadline ends it
		func() { http.NewResponseController(w).SetReadDeadline(time.Unix(1, 0)) })
	r.Body = b
	return b
}

// Body is the body of a request that has an end in time.
type Body struct {
	io.ReadCloser
	until time.Time
	timer *time.Timer
	begun bool
}

// Stop ends the bound.
func (b *Body) Stop() {
	if b != nil {
		b.timer.Stop()
	}
}

// Begun reports whether someone has asked for the body.
func (b *Body) Begun() bool { return b.begun }

func (b *Body) Read(p []byte) (int, error) {
	b.begun = true
	if !time.Now().Before(b.until) {
		return 0, os.ErrDeadlineExceeded
	}
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		b.timer.Stop() // there is nothing left to wait for
	}
	return n, err
}
