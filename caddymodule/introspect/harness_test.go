package introspect_test

import (
	"crypto/rand"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/gatehouse-id/gatehouse/authz/token"
	"github.com/gatehouse-id/gatehouse/caddymodule/internal/caddyfileutil"
	"github.com/gatehouse-id/gatehouse/caddymodule/introspect"
	"github.com/gatehouse-id/gatehouse/internal/denial"
)

const clientSecret = "s3cret/with+signs&=%"

// start is the time when the fixtures were issued.
var start = time.Unix(1790000010, 0)

// lab is an authorization server elsewhere whose answers a test decides, and the gateway that asks it.
type lab struct {
	*introspect.Server

	t    *testing.T
	web  *httptest.Server
	logs *observer.ObservedLogs

	mu     sync.Mutex // guards all below
	now    time.Time
	tokens map[string]map[string]any // what the server says, by token
	answer http.HandlerFunc          // nil: by tokens
	asked  []url.Values
	header http.Header // of the last question
}

func open(t *testing.T, change ...func(l *lab, o *introspect.Options)) *lab {
	t.Helper()
	l := &lab{t: t, now: start, tokens: map[string]map[string]any{}}
	l.web = httptest.NewServer(l)
	t.Cleanup(l.web.Close)
	o := &introspect.Options{URL: l.web.URL + "/introspect", Client: "ops", Secret: clientSecret, Timeout: "5s"}
	for _, c := range change {
		c(l, o)
	}
	r := caddyfileutil.NewResolver(caddy.NewReplacer())
	if o.SetUp(r); r.Err() != nil {
		t.Fatal(r.Err())
	}
	observed, logs := observer.New(zap.DebugLevel)
	l.logs = logs
	var err error
	if l.Server, err = o.Open(zap.New(observed), l.time, rand.Reader); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Close)
	return l
}

func with(change func(o *introspect.Options)) func(*lab, *introspect.Options) {
	return func(_ *lab, o *introspect.Options) { change(o) }
}

func (l *lab) time() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.now
}

func (l *lab) turn(d time.Duration) { l.change(func() { l.now = l.now.Add(d) }) }

func (l *lab) change(f func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f()
}

// says decides what the server says about a token.
func (l *lab) says(text string, doc map[string]any) { l.change(func() { l.tokens[text] = doc }) }

// count returns how often the server was asked.
func (l *lab) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.asked)
}

func (l *lab) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if err := r.ParseForm(); err != nil {
		l.t.Error(err)
	}
	l.mu.Lock()
	if r.Method == http.MethodPost {
		l.asked, l.header = append(l.asked, r.PostForm), r.Header
	}
	answer, doc := l.answer, l.tokens[r.PostForm.Get("token")]
	l.mu.Unlock()
	switch {
	case answer != nil:
		answer(w, r)
	case doc != nil:
		write(w, doc)
	default:
		write(w, map[string]any{"active": false})
	}
}

func write(w http.ResponseWriter, doc any) {
	w.Header().Set("Content-Type", "application/json;charset=UTF-8")
	_ = json.NewEncoder(w).Encode(doc) // the asker may have left
}

// active returns the response of a server about a good token.
func active(change ...map[string]any) map[string]any {
	doc := map[string]any{"active": true, "sub": "alice", "username": "alice", "client_id": "shop", "scope": "a", "exp": start.Unix() + 300}
	for _, c := range change {
		for name, v := range c {
			if doc[name] = v; v == nil {
				delete(doc, name)
			}
		}
	}
	return doc
}

func (l *lab) look(text string) *token.Introspection {
	l.t.Helper()
	in, err := l.Introspect(l.t.Context(), text)
	if err != nil {
		l.t.Fatalf("Introspect(%q) = %v", text, err)
	}
	return in
}

// accepted and refused look a token up.
func (l *lab) accepted(what, text string) {
	l.t.Helper()
	if in, err := l.Introspect(l.t.Context(), text); err != nil || !in.Active {
		l.t.Errorf("%s: %+v, %v, want it active", what, in, err)
	}
}

func (l *lab) refused(what, text string) {
	l.t.Helper()
	if in, err := l.Introspect(l.t.Context(), text); err != nil || in.Active || in.Subject != "" || in.Person != nil {
		l.t.Errorf("%s: %+v, %v, want it inactive and nothing else", what, in, err)
	}
}

// failed wants no verdict.
func (l *lab) failed(what, text string) {
	l.t.Helper()
	in, err := l.Introspect(l.t.Context(), text)
	if err == nil {
		l.t.Errorf("%s: %+v, want an error", what, in)
		return
	}
	if got := denial.ReasonOf(err, denial.Internal); got != denial.AuthorityUnavailable {
		l.t.Errorf("%s: %v has the reason %s", what, err, got)
	}
}
