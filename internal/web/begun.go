package web

import "net/http"

// Begun is a writer that knows whether the answer has begun. After a panic nothing is added to an answer that has: the
// connection is aborted instead, so the client sees that the answer is not whole.
type Begun struct {
	http.ResponseWriter

	begun bool
}

// WriteHeader implements http.ResponseWriter.
func (b *Begun) WriteHeader(status int) {
	b.begun = b.begun || status >= http.StatusOK
	b.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (b *Begun) Write(p []byte) (int, error) {
	b.begun = true
	return b.ResponseWriter.Write(p)
}

// Unwrap returns the underlying writer for http.ResponseController.
func (b *Begun) Unwrap() http.ResponseWriter { return b.ResponseWriter }

// AbortBegun ends the handler with http.ErrAbortHandler if the answer has begun. A recovered panic calls it before it
// answers.
func (b *Begun) AbortBegun() {
	if b.begun {
		panic(http.ErrAbortHandler)
	}
}
