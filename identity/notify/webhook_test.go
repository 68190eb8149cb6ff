package notify_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/gatehouse-id/gatehouse/identity/notify"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
	"github.com/gatehouse-id/gatehouse/storage/badgerstore"
)

const hookSecret = "the-secret-of-a-webhook-in-these-tests"

var created = audit.Type{Type: "person.PersonCreatedEvent", Name: "Person Created"}

// delivery is a request that the receiver got.
type delivery struct {
	header http.Header
	body   []byte
}

// receiver answers with the statuses in turn, then with 204.
func receiver(t *testing.T, statuses ...int) (*httptest.Server, chan delivery) {
	t.Helper()
	got := make(chan delivery, 100)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || r.Method != http.MethodPost {
			t.Errorf("%s, %v, want a POST", r.Method, err)
		}
		got <- delivery{r.Header, body}
		status := http.StatusNoContent
		if len(statuses) > 0 {
			status, statuses = statuses[0], statuses[1:]
		}
		if status == http.StatusFound {
			w.Header().Set("Location", "/elsewhere")
		}
		w.WriteHeader(status)
	}))
	t.Cleanup(srv.Close)
	return srv, got
}

type harness struct {
	*testing.T
	*notify.Webhook
	store storage.Store
	rec   *audit.Recorder
	time  time.Time
	log   *bytes.Buffer
}

func newHarness(t *testing.T, url, key string) *harness {
	t.Helper()
	store, err := badgerstore.OpenMemory()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() }) //nolint:errcheck // a memory store
	h := &harness{T: t, store: store, time: time.Now().Truncate(time.Second), log: new(bytes.Buffer)}
	log := zap.New(zapcore.NewCore(zapcore.NewJSONEncoder(zap.NewProductionEncoderConfig()), zapcore.AddSync(h.log), zapcore.DebugLevel))
	h.Webhook, err = notify.NewWebhook(notify.WebhookConfig{URL: url, Secret: secret.New(key)}, store, nil,
		func() time.Time { return h.time }, log)
	if err != nil {
		t.Fatal(err)
	}
	h.rec = &audit.Recorder{Random: rand.Reader, Now: func() time.Time { return h.time }, Also: h.Add}
	return h
}

// happen appends an event of Ann.
func (h *harness) happen(kind audit.Type, person string) audit.Event {
	h.Helper()
	e, err := h.rec.New(kind, audit.Origin{ClientIP: "192.0.2.1", UserAgent: "curl"})
	if err != nil {
		h.Fatal(err)
	}
	e.PersonID, e.Actor, e.ClientID = person, "ops", "shop"
	if err := h.store.Update(h.Context(), func(tx storage.Tx) error { return h.rec.Append(tx, e) }); err != nil {
		h.Fatal(err)
	}
	return e
}

func TestWebhookPostsSignedEvents(t *testing.T) {
	t.Parallel()
	raw := []byte("0123456789abcdef0123456789abcdef")
	for name, tt := range map[string]struct {
		secret string
		key    []byte
	}{
		"plain secret":    {hookSecret, []byte(hookSecret)},
		"Standard secret": {"whsec_" + base64.StdEncoding.EncodeToString(raw), raw},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv, got := receiver(t)
			h := newHarness(t, srv.URL+"/hook?token=abc", tt.secret)
			e := h.happen(created, "ann")
			h.happen(audit.Type{Type: "token.AccessTokenIssuedEvent", Name: "Access Token Issued", Brief: true},
				"") // concerns no person: not posted
			if sent, failed, err := h.Round(t.Context()); sent != 1 || failed != 0 || err != nil {
				t.Fatalf("Round = %d, %d, %v, want one post", sent, failed, err)
			}
			p := <-got
			id, stamp := p.header.Get("webhook-id"), p.header.Get("webhook-timestamp")
			if id != e.ID || stamp != strconv.FormatInt(h.time.Unix(), 10) || p.header.Get("Content-Type") != "application/json" {
				t.Errorf("headers = %v, want id %s and time %d", p.header, e.ID, h.time.Unix())
			}
			if want := "v1," + notify.Sign(tt.key, id, stamp, p.body); p.header.Get("webhook-signature") != want {
				t.Errorf("webhook-signature = %q, want %q", p.header.Get("webhook-signature"), want)
			}
			var body struct {
				Type      string
				Timestamp time.Time
				Data      map[string]any
			}
			if err := json.Unmarshal(p.body, &body); err != nil {
				t.Fatal(err)
			}
			if body.Type != created.Type || !body.Timestamp.Equal(e.Occurred) || body.Data["event_identifier"] != e.ID ||
				body.Data["person_id"] != "ann" ||
				body.Data["client_ip"] != "192.0.2.1" || body.Data["actor"] != "ops" || body.Data["client_id"] != "shop" {
				t.Errorf("body = %s", p.body)
			}
			if sent, _, err := h.Round(t.Context()); sent != 0 || err != nil {
				t.Errorf("it was posted again: %d, %v", sent, err)
			}
		})
	}
}

// TestSignature is the example of the Standard Webhooks specification's libraries.
func TestSignature(t *testing.T) {
	t.Parallel()
	key, err := base64.StdEncoding.DecodeString("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
	if err != nil {
		t.Fatal(err)
	}
	got := notify.Sign(key, "msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330", []byte(`{"test": 2432232314}`))
	if want := "g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="; got != want {
		t.Errorf("Sign = %s, want %s", got, want)
	}
}

func TestWebhookTriesAgain(t *testing.T) {
	t.Parallel()
	srv, got := receiver(t, http.StatusInternalServerError, http.StatusFound, http.StatusTooManyRequests)
	h := newHarness(t, srv.URL+"/hook?token=abc", hookSecret)
	e := h.happen(created, "ann")
	for try := range 4 {
		wantSent := 0
		if try == 3 {
			wantSent = 1
		}
		if sent, _, err := h.Round(t.Context()); sent != wantSent || err != nil {
			t.Fatalf("try %d: %d taken, %v, want %d", try+1, sent, err, wantSent)
		}
		p := <-got
		if p.header.Get("webhook-id") != e.ID || p.header.Get("webhook-timestamp") != strconv.FormatInt(h.time.Unix(), 10) {
			t.Errorf("try %d: headers %v, want the same id and the time of the try", try+1, p.header)
		}
		h.time = h.time.Add(time.Hour)
	}
	if len(got) != 0 {
		t.Error("a redirect was followed")
	}
	if log := h.log.String(); strings.Contains(log, "token=abc") || strings.Contains(log, hookSecret) || !strings.Contains(log, "status 500") {
		t.Errorf("log = %s, want the status and neither address nor secret", log)
	}
}

func TestWebhookUnreachable(t *testing.T) {
	t.Parallel()
	srv, _ := receiver(t)
	srv.Close()
	h := newHarness(t, srv.URL+"/hook?token=abc", hookSecret)
	h.happen(created, "ann")
	if sent, failed, err := h.Round(t.Context()); sent != 0 || failed != 1 || err != nil {
		t.Errorf("Round = %d, %d, %v, want a failure", sent, failed, err)
	}
	if log := h.log.String(); strings.Contains(log, "token=abc") {
		t.Errorf("log = %s, want no address", log)
	}
}

func TestWebhookGivesUpForGood(t *testing.T) {
	t.Parallel()
	srv, _ := receiver(t, http.StatusGone)
	h := newHarness(t, srv.URL, hookSecret)
	h.happen(created, "ann")
	for _, wantFailed := range []int{1, 0} {
		if sent, failed, err := h.Round(t.Context()); sent != 0 || failed != wantFailed || err != nil {
			t.Errorf("Round = %d, %d, %v, want %d failures", sent, failed, err, wantFailed)
		}
		h.time = h.time.Add(time.Hour)
	}
}

func TestWebhookOfACollectedEvent(t *testing.T) {
	t.Parallel()
	srv, got := receiver(t)
	h := newHarness(t, srv.URL, hookSecret)
	h.happen(created, "ann")
	k := audit.NewKeeper(h.store, func() time.Time { return h.time }, zap.NewNop())
	if err := k.Seal(t.Context()); err != nil {
		t.Fatal(err)
	}
	h.time = h.time.Add(time.Hour)
	k.Use(audit.Settings{Retention: audit.Retention{Kept: time.Minute}})
	if n, err := k.Collect(t.Context()); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	if sent, failed, err := h.Round(t.Context()); sent != 0 || failed != 1 || err != nil || len(got) != 0 {
		t.Errorf("Round = %d, %d, %v and %d posts, want it dropped", sent, failed, err, len(got))
	}
}

func TestWebhookRuns(t *testing.T) {
	t.Parallel()
	srv, got := receiver(t)
	h := newHarness(t, srv.URL, hookSecret)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		h.Webhook.Run(ctx)
	}()
	e := h.happen(created, "ann")
	if p := <-got; p.header.Get("webhook-id") != e.ID {
		t.Errorf("posted %v, want %s", p.header, e.ID)
	}
	cancel()
	<-done
}

func TestWebhookSecrets(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"not Base64": "whsec_###",
		"short":      "whsec_" + base64.StdEncoding.EncodeToString([]byte("short")),
	} {
		if _, err := (notify.WebhookConfig{Secret: secret.New(text)}).Key(); err == nil || strings.Contains(err.Error(), text) {
			t.Errorf("Key of a secret that is %s = %v, want an error that does not tell it", name, err)
		}
	}
}
