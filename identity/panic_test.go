package identity_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/gatehouse-id/gatehouse/identity/identitytest"
)

// breaking is a writer that panics in the middle of an answer.
type breaking struct {
	*httptest.ResponseRecorder
	broken bool
}

func (b *breaking) Write(p []byte) (int, error) {
	if !b.broken {
		b.broken = true
		b.ResponseRecorder.Write(p[:1]) //nolint:errcheck // a recorder
		panic("in the middle of an answer")
	}
	return b.ResponseRecorder.Write(p)
}

// TestPanicInTheMiddleOfAPage: no error page is written into a page that has begun.
func TestPanicInTheMiddleOfAPage(t *testing.T) {
	t.Parallel()
	h := identitytest.New(t)
	w := &breaking{ResponseRecorder: httptest.NewRecorder()}
	defer func() {
		if v := recover(); v != http.ErrAbortHandler { //nolint:errorlint // as net/http compares it
			t.Errorf("the handler ends with %v, want ErrAbortHandler", v)
		}
		if w.Code != http.StatusOK || w.Body.Len() != 1 || h.Panics() != 1 || h.Logs.FilterMessage("panic in a handler").Len() != 1 {
			t.Errorf("%d bytes are written, %d panics, want 1 and 1, and a line in the log", w.Body.Len(), h.Panics())
		}
	}()
	h.ServeHTTP(w, identitytest.NewRequest(h.Browser(), "/sign-out"))
}
