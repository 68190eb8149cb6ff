package csvfile

import (
	"io"
	"net/http"
)

// Answer answers with a file that is written while it is sent. An error in the middle breaks the connection off, so
// no one takes a part for the whole; one before that is returned.
func Answer(w http.ResponseWriter, name string, write func(io.Writer) error) error {
	out := &begun{Writer: w}
	h := w.Header()
	h.Set("Content-Type", Type)
	h.Set("Content-Disposition", `attachment; filename="`+name+`"`)
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	err := write(out)
	if err != nil && out.yes {
		panic(http.ErrAbortHandler)
	}
	if err != nil {
		h.Del("Content-Disposition")
	}
	return err
}

// begun knows whether anything was written.
type begun struct {
	io.Writer

	yes bool
}

// Write implements io.Writer.
func (b *begun) Write(p []byte) (int, error) {
	b.yes = true
	return b.Writer.Write(p)
}
