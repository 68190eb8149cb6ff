package identity_test

import (
	"maps"
	"net/http"
	"regexp"
	"strings"
	"sync"
)

var moment = regexp.MustCompile(`</?time[^>]*>`)

// words is the HTML of a page with moments as plain text.
func words(a *answer) string { return moment.ReplaceAllString(a.Body.String(), "") }

// plain returns a browser in which the person is signed in with a password only.
func (h *harness) plain() *browser {
	h.t.Helper()
	b := h.browser()
	b.plain()
	return b
}

// plain signs the person in with a password only.
func (b *browser) plain() {
	b.h.t.Helper()
	a := b.post(b.get("/next?plain=1"), "username", demo, "password", demoPassword)
	if a = b.get(a.Header().Get("Location")); !strings.HasPrefix(a.Body.String(), "signed in as ") {
		b.h.t.Fatalf("after the sign-in: status %d:\n%s", a.Code, a.Body)
	}
}

// clone returns another window of the browser, for requests at the same time.
func (b *browser) clone() *browser {
	return &browser{h: b.h, cookies: maps.Clone(b.cookies), address: b.address, header: b.header}
}

// hundred sends a wrong code to a page a hundred times at once. Only five of them must be checked.
func (b *browser) hundred(page *answer, wrong string) {
	b.h.t.Helper()
	var wg sync.WaitGroup
	var mu sync.Mutex
	got := map[int]int{}
	for range 100 {
		wg.Go(func() {
			a := b.clone().post(page, "code", wrong)
			mu.Lock()
			defer mu.Unlock()
			got[a.Code]++
		})
	}
	wg.Wait()
	if got[http.StatusUnprocessableEntity] != 5 || got[http.StatusTooManyRequests] != 95 {
		b.h.t.Errorf("of a hundred wrong codes the answers are %v, want 5 times 422 and 95 times 429", got)
	}
}

// wrongFor returns a code of digits that differs from the right one.
func wrongFor(code string) string {
	front, last := code[:len(code)-1], code[len(code)-1:]
	if last == "0" {
		return front + "1"
	}
	return front + "0"
}

// wantLevel checks the level of a browser's session.
func (h *harness) wantLevel(b *browser, level int) {
	h.t.Helper()
	if s, err := h.session(b); err != nil || s.Level != level {
		h.t.Errorf("the session has level %d (%v), want %d", s.Level, err, level)
	}
}
