package console

import (
	"bytes"
	"context"
	"html"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/admin/console/layout"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/storage"
)

// wire is an answer that a test reads while it is written.
type wire struct {
	h      *harness
	header http.Header

	mu   sync.Mutex // guards code and text
	code int
	text bytes.Buffer

	leave context.CancelFunc
	over  chan struct{} // closed when the handler has returned
}

func (w *wire) Header() http.Header { return w.header }

func (w *wire) WriteHeader(code int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.code = code
}

func (w *wire) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.Write(p)
}

func (w *wire) Flush() {}

// step lets the stream look once more, and returns what it has sent since the last step. over: it has ended.
func (w *wire) step() (text string, over bool) {
	select {
	case <-w.h.pauses: // it waits
		select {
		case w.h.ticks <- time.Time{}:
		case <-w.over:
		}
		select {
		case <-w.h.pauses: // again
			w.h.pauses <- struct{}{}
		case <-w.over:
		}
	case <-w.over:
	}
	select {
	case <-w.over:
		over = true
	default:
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	text = w.text.String()
	w.text.Reset()
	return text, over
}

// stream asks for a stream, with further headers.
func (b *browser) stream(target string, headers ...string) *wire {
	b.h.t.Helper()
	for len(b.h.pauses) > 0 { // of streams that have ended
		<-b.h.pauses
	}
	ctx, leave := context.WithCancel(b.h.t.Context())
	r := httptest.NewRequestWithContext(ctx, http.MethodGet, issuer+target, nil)
	r.RemoteAddr = "203.0.113.7:4711"
	r.Header.Set("Accept", "text/event-stream")
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	for name, value := range b.cookies {
		r.AddCookie(&http.Cookie{Name: name, Value: value})
	}
	w := &wire{h: b.h, header: http.Header{}, leave: leave, over: make(chan struct{})}
	go func() {
		defer close(w.over)
		b.console.ServeHTTP(w, r)
	}()
	b.h.t.Cleanup(func() { leave(); <-w.over })
	return w
}

var livePlace = regexp.MustCompile(`data-live="([^"]*)"`)

// live opens the live page and its stream.
func (b *browser) live(page string) *wire {
	b.h.t.Helper()
	a := b.get(page)
	m := livePlace.FindStringSubmatch(a.Body.String())
	if m == nil {
		b.h.t.Fatalf("GET %s: status %d, no stream\n%s", page, a.Code, a.Body)
	}
	return b.stream(html.UnescapeString(m[1]))
}

// happens stores an event.
func (h *harness) happens(kind, address, reason string) {
	h.t.Helper()
	e, err := h.recorder.New(audit.Type{Type: kind, Name: "Something"}, audit.Origin{ClientIP: address})
	h.must(err)
	e.Reason = reason
	h.must(h.store.Update(h.t.Context(), func(tx storage.Tx) error { return h.recorder.Append(tx, e) }))
}

// TestLiveEvents: the live page names a stream, which sends the rows of new events that the filter selects.
func TestLiveEvents(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	b := h.as("viewer@example.com")
	h.happens("x.AEvent", "192.0.2.1", "from before")
	a := b.get("/admin/events?kind=x&live=1")
	if got := a.Header().Get("Refresh"); got != "" ||
		!strings.Contains(a.Body.String(), `<noscript><meta http-equiv="refresh" content="5"></noscript>`) {
		t.Errorf("the live page has Refresh %q, want it without scripts alone", got)
	}
	if csp := a.Header().Get("Content-Security-Policy"); !strings.Contains(csp, "connect-src 'self'") ||
		!strings.Contains(csp, "script-src 'self'") {
		t.Errorf("policy of the live page = %s", csp)
	}
	if csp := b.get("/admin/events").Header().Get("Content-Security-Policy"); strings.Contains(csp, "connect-src") {
		t.Errorf("policy of the page that is not live = %s", csp)
	}
	w := b.live("/admin/events?kind=x&live=1")
	text, _ := w.step()
	if w.code != http.StatusOK || w.header.Get("Content-Type") != "text/event-stream" ||
		!strings.Contains(w.header.Get("Cache-Control"), "no-transform") || text != "retry: 1000\n\n" {
		t.Fatalf("the stream begins with status %d, %v: %q", w.code, w.header, text)
	}
	h.happens("x.BEvent", "192.0.2.2", "<b>one</b>")
	h.happens("y.CEvent", "192.0.2.3", "another")
	h.happens("x.DEvent", "192.0.2.4", "two")
	text, _ = w.step()
	id, rows, _ := strings.Cut(text, "\nevent: rows\ndata: <tr")
	if strings.Count(text, "<tr") != 2 || !strings.Contains(rows, "&lt;b&gt;one&lt;/b&gt;") || strings.Contains(text, "another") ||
		strings.Index(text, "two") > strings.Index(text, "one") {
		t.Errorf("the stream has sent %q, want two rows, the newest first", text)
	}
	for line := range strings.SplitSeq(strings.TrimSuffix(text, "\n\n"), "\n") {
		if !strings.HasPrefix(line, "id: ") && !strings.HasPrefix(line, "event: ") && !strings.HasPrefix(line, "data: ") {
			t.Errorf("the stream has sent the line %q", line)
		}
	}
	if text, over := w.step(); text != "" || over {
		t.Errorf("with nothing new, it has sent %q, over: %t", text, over)
	}
	h.clock.Advance(15 * time.Second)
	if text, _ := w.step(); text != ": \n\n" {
		t.Errorf("after 15 silent seconds it has sent %q, want a sign of life", text)
	}
	w.leave()
	<-w.over
	h.happens("x.EEvent", "192.0.2.5", "three")
	w = b.stream("/admin/events/live?kind=x", "Last-Event-ID", strings.TrimPrefix(id, "id: "))
	if text, _ := w.step(); strings.Count(text, "<tr") != 1 || !strings.Contains(text, "three") {
		t.Errorf("the next stream has sent %q, want what came in between", text)
	}
	w.leave()
	<-w.over
	if a := b.do(http.MethodGet, "/admin/events/live?kind=x", ""); a.Header().Get("Location") != "/admin/events?kind=x&live=1" {
		t.Errorf("a person who opens the address: status %d to %q", a.Code, a.Header().Get("Location"))
	}
}

// TestLiveEventsAttacks: who may not read events gets no stream, and an open one ends with the right.
func TestLiveEventsAttacks(t *testing.T) {
	t.Parallel()
	const live = "/admin/events/live"
	t.Run("attack 541: who may not read events", func(t *testing.T) {
		h := newHarness(t)
		viewer, strict := h.as("viewer@example.com"), h.as("viewer@example.com")
		strict.console = h.strict
		off := h.as("viewer@example.com")
		for name, c := range map[string]struct {
			b      *browser
			header string
			want   int
		}{
			"a stranger":              {h.browser(), "same-origin", http.StatusForbidden},
			"somebody without a role": {h.as("nobody@example.com"), "same-origin", http.StatusForbidden},
			"below the level":         {strict, "same-origin", http.StatusForbidden},
			"another site":            {viewer, "cross-site", http.StatusForbidden},
			"another origin":          {viewer, "same-site", http.StatusForbidden},
			"a wrong filter":          {viewer, "same-origin", http.StatusNotFound},
		} {
			target := live
			if name == "a wrong filter" {
				target += "?from=yesterday"
			}
			w := c.b.stream(target, "Sec-Fetch-Site", c.header)
			if <-w.over; w.code != c.want || strings.Contains(w.header.Get("Content-Type"), "event-stream") {
				t.Errorf("%s: status %d, %s, want %d", name, w.code, w.header.Get("Content-Type"), c.want)
			}
		}
		h.on = false
		w := off.stream(live)
		if <-w.over; w.code != http.StatusNotFound {
			t.Errorf("the console is off: status %d, want 404", w.code)
		}
	})
	t.Run("attack 541: more streams than a session has", func(t *testing.T) {
		h := newHarness(t)
		b, other := h.as("viewer@example.com"), h.as("viewer@example.com")
		var open []*wire
		for range layout.MostStreams {
			w := b.stream(live)
			w.step()
			open = append(open, w)
		}
		w := b.stream(live)
		if <-w.over; w.code != http.StatusTooManyRequests {
			t.Errorf("one stream too many: status %d, want 429", w.code)
		}
		open[0].leave()
		<-open[0].over
		for name, b := range map[string]*browser{"another session": other, "one in its place": b} {
			w := b.stream(live)
			if w.step(); w.code != http.StatusOK {
				t.Errorf("%s: status %d, want 200", name, w.code)
			}
		}
	})
	by := audit.Actor{ID: "test"}
	for name, lose := range map[string]func(h *harness){
		"the session is ended":   func(h *harness) { h.must(h.id.Person.EndSessions(t.Context(), "viewer@example.com", by)) },
		"the role is taken away": func(h *harness) { h.moves("viewer@example.com", "gatehouse-viewer", false) },
		"the person is blocked": func(h *harness) {
			h.must(h.id.Person.SetState(t.Context(), h.personID("viewer@example.com"), person.Blocked, by))
		},
		"the console is switched off": func(h *harness) { h.on = false },
		"nobody is there for an hour": func(h *harness) { h.clock.Advance(61 * time.Minute) },
		"the configuration ends":      func(h *harness) { h.console.EndStreams() },
		"it has lasted long enough":   func(h *harness) { h.clock.Advance(10 * time.Minute) },
	} {
		t.Run("attack 541: "+name, func(t *testing.T) {
			h := newHarness(t)
			w := h.as("viewer@example.com").live("/admin/events?live=1")
			if _, over := w.step(); over {
				t.Fatal("the stream has ended before")
			}
			lose(h)
			h.happens("x.SecretEvent", "192.0.2.9", "what nobody may see")
			if text, over := w.step(); !over || strings.Contains(text, "nobody may see") {
				t.Errorf("over: %t, after %q", over, text)
			}
		})
	}
	t.Run("attack 541: a stream keeps no session alive", func(t *testing.T) {
		h := newHarness(t)
		b := h.as("viewer@example.com")
		b.get("/admin")
		for range 9 {
			h.clock.Advance(10 * time.Minute)
			w := b.stream(live)
			w.step()
			w.leave()
			<-w.over
		}
		if a := b.do(http.MethodGet, "/admin", ""); !strings.HasPrefix(a.Header().Get("Location"), "/sign-in") {
			t.Errorf("after 90 minutes of streams: status %d, want the sign-in page", a.Code)
		}
	})
}
