package identitytest

import (
	"maps"
	"net/http"
	"regexp"
	"strings"
	"sync"
)

var moment = regexp.MustCompile(`</?time[^>]*>`)

// Words is the HTML of a page with moments as plain text.
func Words(a *Answer) string { return moment.ReplaceAllString(a.Body.String(), "") }

// Plain returns a browser in which the person is signed in with a password only.
func (h *Harness) Plain() *Browser {
	h.T.Helper()
	b := h.Browser()
	b.Plain()
	return b
}

// Plain signs the person in with a password only.
func (b *Browser) Plain() {
	b.H.T.Helper()
	a := b.Post(b.Get("/next?plain=1"), "username", Demo, "password", DemoPassword)
	if a = b.Get(a.Header().Get("Location")); !strings.HasPrefix(a.Body.String(), "signed in as ") {
		b.H.T.Fatalf("after the sign-in: status %d:\n%s", a.Code, a.Body)
	}
}

// Clone returns another window of the browser, for requests at the same time.
func (b *Browser) Clone() *Browser {
	return &Browser{H: b.H, Cookies: maps.Clone(b.Cookies), Address: b.Address, Header: b.Header}
}

// Hundred sends a wrong code to a page a hundred times at once. Only five of them must be checked.
func (b *Browser) Hundred(page *Answer, wrong string) {
	b.H.T.Helper()
	var wg sync.WaitGroup
	var mu sync.Mutex
	got := map[int]int{}
	for range 100 {
		wg.Go(func() {
			a := b.Clone().Post(page, "code", wrong)
			mu.Lock()
			defer mu.Unlock()
			got[a.Code]++
		})
	}
	wg.Wait()
	if got[http.StatusUnprocessableEntity] != 5 || got[http.StatusTooManyRequests] != 95 {
		b.H.T.Errorf("of a hundred wrong codes the answers are %v, want 5 times 422 and 95 times 429", got)
	}
}

// WrongFor returns a code of digits that differs from the right one.
func WrongFor(code string) string {
	front, last := code[:len(code)-1], code[len(code)-1:]
	if last == "0" {
		return front + "1"
	}
	return front + "0"
}

// WantLevel checks the level of a browser's session.
func (h *Harness) WantLevel(b *Browser, level int) {
	h.T.Helper()
	if s, err := h.SessionOf(b); err != nil || s.Level != level {
		h.T.Errorf("the session has level %d (%v), want %d", s.Level, err, level)
	}
}
