package notify_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/gatehouse-id/gatehouse/identity/notify"
	"github.com/gatehouse-id/gatehouse/internal/outbox"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/internal/web"
	"github.com/gatehouse-id/gatehouse/storage"
	"github.com/gatehouse-id/gatehouse/storage/badgerstore"
)

const smsToken = "Bearer the-token-of-the-gateway"

// textHarness is a Texts that posts to a URL, with its own store and clock.
type textHarness struct {
	*testing.T
	*notify.Texts
	store storage.Store
	time  time.Time
	log   *bytes.Buffer
}

func newTextHarness(t *testing.T, url string) *textHarness {
	t.Helper()
	return newTextHarnessWithin(t, url, notify.MaxHookTimeout)
}

// newTextHarnessWithin gives each try so long.
func newTextHarnessWithin(t *testing.T, url string, timeout time.Duration) *textHarness {
	t.Helper()
	x := &textHarness{T: t, time: time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC), log: new(bytes.Buffer)}
	store, err := badgerstore.OpenMemory(func(o *badgerstore.Options) { o.Now = func() time.Time { return x.time } })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() }) //nolint:errcheck // a memory store
	x.store = store
	pages, err := web.New(web.Config{
		Issuer: "https://auth.example.com", Key: make([]byte, 32), Locales: web.Languages(),
		Brand: web.Brand{Name: "Albers & Co"},
	})
	if err != nil {
		t.Fatal(err)
	}
	ring, err := secret.NewKeyring(make([]byte, secret.KeySize))
	if err != nil {
		t.Fatal(err)
	}
	hook, err := notify.NewHook(notify.HookConfig{URL: url, Header: http.Header{"authorization": {smsToken}}, Timeout: timeout})
	if err != nil {
		t.Fatal(err)
	}
	x.Texts, err = notify.NewTexts(notify.SMSConfig{Issuer: "https://auth.example.com:8443", Brand: pages.BrandName()},
		notify.Deps[notify.SMSTransport]{
			Store: store, Keyring: ring, Transport: &notify.SMSWebhook{Hook: hook, From: "Albers", Members: map[string]string{"profile": "shop"}},
			Words: pages.Words, Now: func() time.Time { return x.time },
			Log: zap.New(zapcore.NewCore(zapcore.NewJSONEncoder(zap.NewProductionEncoderConfig()), zapcore.AddSync(x.log), zapcore.DebugLevel)),
		})
	if err != nil {
		t.Fatal(err)
	}
	return x
}

func (x *textHarness) send(m notify.SMS) {
	x.Helper()
	m.At = x.time
	if err := x.store.Update(x.Context(), func(tx storage.Tx) error { return x.Send(tx, m) }); err != nil {
		x.Fatal(err)
	}
}

// round runs one round and checks its figures.
func (x *textHarness) round(sent, failed, waiting int) {
	x.Helper()
	s, f, err := x.Round(x.Context())
	n, errCount := x.Waiting(x.Context(), 100)
	if err := errors.Join(err, errCount); err != nil {
		x.Fatal(err)
	}
	if s != sent || f != failed || n != waiting {
		x.Errorf("Round = %d sent, %d failed, %d wait on, want %d, %d, %d", s, f, n, sent, failed, waiting)
	}
}

func code(to, code string) notify.SMS {
	return notify.SMS{Kind: notify.SMSStepUpCode, To: to, PersonID: "p1", Locales: []string{"nl"}, Data: map[string]string{"code": code}}
}

func TestSMSWebhook(t *testing.T) {
	t.Parallel()
	srv, got := receiver(t)
	x := newTextHarness(t, srv.URL+"/send")
	x.send(code("+31612345678", "123456"))
	x.send(code("0612345678", "654321")) // no number: dropped with a line in the log
	x.round(1, 0, 0)
	p := <-got
	var body map[string]string
	if err := json.Unmarshal(p.body, &body); err != nil {
		t.Fatal(err)
	}
	if body["to"] != "+31612345678" || body["from"] != "Albers" || body["id"] == "" || body["id"] != p.header.Get("Idempotency-Key") ||
		body["profile"] != "shop" || len(body) != 5 {
		t.Errorf("posted %v with Idempotency-Key %q", body, p.header.Get("Idempotency-Key"))
	}
	if want := "123456 is je code voor Albers & Co."; !strings.HasPrefix(body["text"], want) ||
		!strings.HasSuffix(body["text"], "\n\n@auth.example.com #123456") {
		t.Errorf("text = %q, want it to begin with %q and to end with the code for phones", body["text"], want)
	}
	if p.header.Get("Authorization") != smsToken || p.header.Get("Content-Type") != "application/json" {
		t.Errorf("headers = %v", p.header)
	}
	for _, secret := range []string{"123456", "654321", "31612345678", "the-token"} {
		if strings.Contains(x.log.String(), secret) {
			t.Errorf("the log tells %s: %s", secret, x.log)
		}
	}
	if !strings.Contains(x.log.String(), "text message without a number") {
		t.Errorf("log = %s, want a line about the invalid number", x.log)
	}
}

func TestSMSKindsHaveWords(t *testing.T) {
	t.Parallel()
	srv, got := receiver(t)
	x := newTextHarness(t, srv.URL)
	for _, kind := range notify.TextKinds() {
		seen := map[string]bool{}
		for _, locale := range web.Languages() {
			x.send(notify.SMS{
				Kind: kind, To: "+31612345678", Locales: []string{locale},
				Data: map[string]string{"code": "123456", "usernames": "ann"},
			})
			x.round(1, 0, 0)
			var body map[string]string
			if err := json.Unmarshal((<-got).body, &body); err != nil {
				t.Fatal(err)
			}
			if strings.Contains(body["text"], "sms.") || strings.ContainsAny(body["text"], "{}") || seen[body["text"]] ||
				!strings.Contains(body["text"], "Albers & Co") {
				t.Errorf("%s in %s = %q", kind, locale, body["text"])
			}
			seen[body["text"]] = true
		}
	}
}

// TestSMSFaults: while the service refuses messages none is lost, each keeps its id, and none arrives too late.
func TestSMSFaults(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		answers []int
		dropped bool
	}{
		{"500", []int{500}, false},
		{"503", []int{503}, false},
		{"429", []int{429}, false},
		{"401, which may be mended", []int{401}, false},
		{"a redirect", []int{302}, false},
		{"400: it is about this message", []int{400}, true},
		{"422", []int{422}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			srv, got := receiver(t, c.answers...)
			x := newTextHarness(t, srv.URL)
			x.send(code("+31612345678", "123456"))
			if c.dropped {
				x.round(0, 1, 0)
				return
			}
			x.round(0, 1, 1)
			x.round(0, 0, 1)
			x.time = x.time.Add(10 * time.Second)
			x.round(1, 0, 0)
			if a, b := <-got, <-got; a.header.Get("Idempotency-Key") != b.header.Get("Idempotency-Key") || !bytes.Equal(a.body, b.body) {
				t.Errorf("the second try is another message: %s %s", a.body, b.body)
			}
		})
	}
	t.Run("down, and then it is too late", func(t *testing.T) {
		t.Parallel()
		srv, got := receiver(t)
		url := srv.URL
		srv.Close()
		x := newTextHarness(t, url)
		m := code("+31612345678", "123456")
		m.Until = x.time.Add(10 * time.Minute)
		x.send(m)
		x.round(0, 1, 1)
		x.time = x.time.Add(10 * time.Minute)
		x.round(0, 1, 0)
		if len(got) != 0 || !strings.Contains(x.log.String(), "too late") || strings.Contains(x.log.String(), url) {
			t.Errorf("log = %s", x.log)
		}
	})
	t.Run("slow: a try ends in time", func(t *testing.T) {
		t.Parallel()
		done := make(chan struct{})
		srv := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			select {
			case <-done:
			case <-r.Context().Done():
			}
		}))
		t.Cleanup(srv.Close)
		t.Cleanup(func() { close(done) })
		x := newTextHarnessWithin(t, srv.URL, 50*time.Millisecond)
		x.send(code("+31612345678", "123456"))
		x.round(0, 1, 1)
	})
}

func TestHookConfig(t *testing.T) {
	t.Parallel()
	for url, ok := range map[string]bool{
		"https://sms.example.com/send?key=1": true, "http://127.0.0.1:8080/": true, "http://localhost/": true, "http://[::1]/": true,
		"http://sms.example.com/": false, "https://u:p@sms.example.com/": false, "https://sms.example.com/#f": false, "ftp://localhost/": false,
		"/send": false, "": false, "https:///": false,
	} {
		if err := notify.CheckHookURL(url); (err == nil) != ok {
			t.Errorf("CheckHookURL(%q) = %v, want ok %v", url, err, ok)
		}
	}
	for _, c := range []struct {
		name, value string
		ok          bool
	}{
		{"Authorization", "Bearer x", true},
		{"x-api-key", "ü", true},
		{"Content-Type", "text/plain", false},
		{"host", "evil", false},
		{"Idempotency-Key", "1", false},
		{"webhook-signature", "v1,", false},
		{"X Key", "x", false},
		{"X-Key:", "x", false},
		{"X-Key", "a\r\nX-Other: b", false},
		{"X-Key", "", false},
		{"", "x", false},
	} {
		if err := notify.CheckHookHeader(c.name, c.value); (err == nil) != c.ok || err != nil && c.value != "" && len(c.value) > 3 &&
			strings.Contains(err.Error(), c.value) {
			t.Errorf("CheckHookHeader(%q, …) = %v, want ok %v and nothing of the value", c.name, err, c.ok)
		}
	}
	for timeout, ok := range map[time.Duration]bool{
		0: true, time.Second: true, notify.MaxHookTimeout: true,
		notify.MaxHookTimeout + 1: false, -1: false,
	} {
		if _, err := notify.NewHook(notify.HookConfig{URL: "https://sms.example.com/", Timeout: timeout}); (err == nil) != ok {
			t.Errorf("NewHook with timeout %s = %v, want ok %v", timeout, err, ok)
		}
	}
}

// TestHookCheck: any answer will do, and no secret is sent.
func TestHookCheck(t *testing.T) {
	t.Parallel()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodHead || r.Header.Get("Authorization") != "" || r.URL.Path != "/" || r.URL.RawQuery != "" {
			t.Errorf("%s %s with %v", r.Method, r.URL, r.Header)
		}
		w.WriteHeader(http.StatusNotFound)
	}))
	hook, err := notify.NewHook(notify.HookConfig{URL: srv.URL + "/send?key=secret", Header: http.Header{"Authorization": {smsToken}}})
	if err != nil {
		t.Fatal(err)
	}
	if err := hook.Check(t.Context()); err != nil {
		t.Errorf("Check = %v", err)
	}
	srv.Close()
	if err := hook.Check(t.Context()); err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("Check of a service that is down = %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := hook.Post(ctx, "1", "x"); err == nil || errors.Is(err, outbox.ErrRefused) || strings.Contains(err.Error(), "secret") {
		t.Errorf("Post = %v", err)
	}
}

func TestIsNumber(t *testing.T) {
	t.Parallel()
	for s, want := range map[string]bool{
		"+31612345678": true, "+1234567": true, "+123456789012345": true,
		"+123456": false, "+1234567890123456": false, "31612345678": false, "+0612345678": false, "+31 612345678": false, "+3161234567x": false,
		"": false, "+": false, "+٣١٦١٢٣٤٥٦٧٨": false,
	} {
		if got := notify.IsNumber(s); got != want {
			t.Errorf("IsNumber(%q) = %v, want %v", s, got, want)
		}
	}
}
