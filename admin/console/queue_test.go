package console

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/admin"
	"github.com/gatehouse-id/gatehouse/admin/console/layout"
	"github.com/gatehouse-id/gatehouse/identity/notify"
	"github.com/gatehouse-id/gatehouse/internal/outbox"
	"github.com/gatehouse-id/gatehouse/internal/web"
	"github.com/gatehouse-id/gatehouse/storage"
)

const queuePath = layout.Root + "/messages/queue"

// mailServer takes messages, or does not. It implements notify.Transport and notify.SMSTransport.
type mailServer struct {
	mu     sync.Mutex // guards what follows
	err    error
	taken  []notify.Message
	called func()
}

func (s *mailServer) answer(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = err
}

func (s *mailServer) Deliver(_ context.Context, m notify.Message) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.called()
	if s.err == nil {
		s.taken = append(s.taken, m)
	}
	return s.err
}

func (s *mailServer) Check(context.Context) error { return nil }

// textServer takes no text messages.
type textServer struct{}

func (textServer) Deliver(context.Context, notify.Text) error { return errors.New("down") }

func (textServer) Check(context.Context) error { return nil }

// openQueues opens the queues that the console shows.
func (h *harness) openQueues(m *admin.Service, pages *web.Renderer) {
	h.t.Helper()
	var err error
	h.mail, err = notify.NewMail(notify.MailConfig{Issuer: issuer, Brand: "Albers"},
		notify.Deps[notify.Transport]{Store: h.store, Keyring: h.keyring, Transport: &h.server, Words: pages.Words, Now: h.clock.Now})
	h.must(err)
	texts, err := notify.NewTexts(notify.SMSConfig{Issuer: issuer, Brand: "Albers"},
		notify.Deps[notify.SMSTransport]{Store: h.store, Keyring: h.keyring, Transport: textServer{}, Words: pages.Words, Now: h.clock.Now})
	h.must(err)
	m.Outgoing = []notify.Outgoing{h.mail, texts}
}

// queue adds an e-mail.
func (h *harness) queue(n notify.Notice) {
	h.t.Helper()
	n.At = h.clock.Now()
	h.must(h.store.Update(h.t.Context(), func(tx storage.Tx) error { return h.mail.Send(tx, n) }))
}

// tries makes one try of what is due, of which there must be something.
func (h *harness) tries() {
	ctx, stop := context.WithCancel(h.t.Context())
	defer stop()
	h.server.mu.Lock()
	h.server.called = stop
	h.server.mu.Unlock()
	h.mail.Run(ctx)
}

// failing leaves one e-mail in the queue, to which the server has answered with a text, and returns its key.
func (h *harness) failing(text string) (key string) {
	h.t.Helper()
	list := func(tx storage.Tx) []notify.Item {
		found, _, err := h.mail.List(tx, false, "", 10, h.clock.Now())
		h.must(err)
		return found
	}
	h.must(h.store.Update(h.t.Context(), func(tx storage.Tx) error {
		for _, m := range list(tx) {
			if _, err := h.mail.Drop(tx, m.Key, h.clock.Now()); err != nil {
				return err
			}
		}
		return nil
	}))
	h.queue(notify.Notice{Kind: notify.Welcome, To: "nobody@example.com", PersonID: h.personID("nobody@example.com")})
	h.server.answer(errors.New(text))
	h.tries()
	h.must(h.store.View(h.t.Context(), func(tx storage.Tx) error {
		key = list(tx)[0].Key
		return nil
	}))
	return key
}

// waits returns the number of waiting e-mails.
func (h *harness) waits() int {
	h.t.Helper()
	n, err := h.mail.Waiting(h.t.Context(), 1000)
	h.must(err)
	return n
}

// queued are the addresses of an act on the messages of the list, in its order.
func (h *harness) queued(b *browser, act string, filter ...string) (out []string) {
	h.t.Helper()
	a := b.get(queuePath + strings.Join(filter, ""))
	for _, m := range regexp.MustCompile(`href="(/admin/messages/queue/`+act+`\?item=[^"]+)"`).FindAllStringSubmatch(a.form(), -1) {
		out = append(out, m[1])
	}
	return out
}

// TestQueueOfMessages: what waits and what was given up is listed with its last error and without a word of what it
// says, is sent at once or dropped by those who may, and each leaves an event.
func TestQueueOfMessages(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	nobody, viewer := h.personID("nobody@example.com"), h.as("viewer@example.com")
	operator, by := h.as("operator@example.com"), h.personID("operator@example.com")
	if a := viewer.get(queuePath); a.Code != http.StatusOK || !strings.Contains(a.form(), "Nothing is waiting") {
		t.Errorf("an empty queue = %d\n%s", a.Code, a.form())
	}
	t.Run("attack 889: the queue tells nothing of what messages say", func(t *testing.T) {
		h.queue(notify.Notice{
			Kind: notify.ResetLink, To: "nobody@example.com", PersonID: nobody, Link: "/reset?ticket=planted-ticket-88",
			Data: map[string]string{"code": "planted-code-77", "username": "nobody@example.com"},
		})
		h.server.answer(errors.New("451 spam: planted-code-77 and https://auth.example.com/reset?ticket=3Dplanted-ticket-88 (" +
			strings.Repeat("x", 600) + ")"))
		h.tries()
		for _, path := range append(h.queued(operator, "send-now"), queuePath, h.queued(operator, "drop-message")[0]) {
			a := operator.get(path)
			for _, want := range []string{"nobody@example.com", "451 spam", "Reset your password for Albers"} {
				if !strings.Contains(a.form(), want) {
					t.Errorf("%s does not say %q:\n%s", path, want, a.form())
				}
			}
			for _, secret := range []string{"planted-code-77", "planted-ticket-88"} {
				if strings.Contains(a.Body.String(), secret) {
					t.Errorf("%s tells %s:\n%s", path, secret, a.form())
				}
			}
		}
	})
	if a := viewer.get(queuePath); strings.Contains(a.form(), "/send-now") || strings.Contains(a.form(), "/drop-message") ||
		!strings.Contains(a.form(), personPath(nobody)) {
		t.Errorf("a viewer sees:\n%s", a.form())
	}
	if list := h.queued(h.as("helpdesk@example.com"), "drop-message"); len(list) > 0 {
		t.Errorf("the helpdesk is shown the way to %v", list)
	}
	h.server.answer(nil)
	stale := h.queued(operator, "drop-message")[0]
	opened := operator.get(stale)
	h.actHasEvent(operator, by, h.queued(operator, "send-now")[0], "console.QueuedMessageSentNowEvent")
	if a := operator.submit(opened); a.Code != http.StatusUnprocessableEntity || h.waits() != 1 {
		t.Errorf("a message that is elsewhere now is dropped: %d\n%s", a.Code, a.form())
	}
	gone := func(path, want string) {
		t.Helper()
		if a := operator.get(path); !strings.Contains(a.form(), want) || strings.Contains(a.form(), "<button") {
			t.Errorf("%s of a message that is not there any more does not say %q alone:\n%s", path, want, a.form())
		}
	}
	gone(stale, "a new time for its next try")
	if h.tries(); len(h.server.taken) != 1 || h.waits() != 0 {
		t.Errorf("sent now are %v, %d wait", h.server.taken, h.waits())
	}
	gone(stale, "sent or dropped in the meantime")

	h.queue(notify.Notice{Kind: notify.Welcome, To: "nobody@example.com", PersonID: nobody})
	h.server.answer(fmt.Errorf("550 no such user: %w", outbox.ErrRefused))
	refused := h.queued(operator, "drop-message")[0]
	h.tries()
	gone(refused, "failed in the meantime")
	if a := operator.get(queuePath + "?state=failed&channel=mail"); h.waits() != 0 || !strings.Contains(a.form(), "550 no such user") ||
		!strings.Contains(a.form(), "state=failed") {
		t.Errorf("what was given up is shown so:\n%s", a.form())
	}
	if a := operator.get(layout.Root); !strings.Contains(a.form(), "Failed messages") ||
		!strings.Contains(a.form(), `href="/admin/messages/queue?state=failed"`) {
		t.Errorf("the overview does not say that a message was given up:\n%s", a.form())
	}
	if list := h.queued(operator, "send-now", "?state=failed&channel=sms"); len(list) > 0 {
		t.Errorf("among the text messages are %v", list)
	}
	h.actHasEvent(operator, by, h.queued(operator, "send-now", "?state=failed")[0], "console.QueuedMessageSentNowEvent")
	if h.waits() != 1 {
		t.Errorf("%d messages wait, want the one that was given up", h.waits())
	}
	h.actHasEvent(operator, by, h.queued(operator, "drop-message")[0], "console.QueuedMessageDroppedEvent")
	if h.waits() != 0 {
		t.Errorf("%d messages wait after one was dropped", h.waits())
	}

	h.queue(notify.Notice{Kind: notify.StepUpCode, To: "nobody@example.com", PersonID: nobody, Until: h.clock.Now().Add(time.Minute)})
	late := h.queued(operator, "send-now")[0]
	h.clock.Advance(2 * time.Minute)
	if a := operator.acts(late); a.Code != http.StatusUnprocessableEntity || len(h.queued(operator, "send-now")) > 0 {
		t.Errorf("a code that has ended is sent: %d\n%s", a.Code, a.form())
	}
	h.actHasEvent(operator, by, h.queued(operator, "drop-message")[0], "console.QueuedMessageDroppedEvent")

	t.Run("attack 889: what tells an owner of their account is not dropped by an operator", func(t *testing.T) {
		h.queue(notify.Notice{Kind: notify.PasswordUpdated, To: "two.owner@example.com", PersonID: h.personID("two.owner@example.com")})
		if list := h.queued(operator, "drop-message"); len(list) > 0 {
			t.Errorf("an operator is shown the way to %v", list)
		}
		for _, path := range h.queued(h.as("owner@example.com"), "(?:drop-message|send-now)") {
			if a := operator.submit(operator.get(path)); a.Code != http.StatusForbidden {
				t.Errorf("%s by an operator = %d, want 403", path, a.Code)
			}
		}
		if h.waits() != 1 {
			t.Errorf("%d messages wait, want that to the owner", h.waits())
		}
	})
}

// TestLongQueue: a queue of more messages than a page has is read page by page, each message once.
func TestLongQueue(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	for i := range 2*layout.Rows + 20 {
		h.queue(notify.Notice{Kind: notify.Welcome, To: fmt.Sprintf("p%03d@example.com", i)})
		h.clock.Advance(time.Second)
	}
	b, seen, pages := h.as("operator@example.com"), map[string]bool{}, 0
	for next := queuePath + "?channel=mail"; next != ""; pages++ {
		a := b.get(next)
		rows := regexp.MustCompile(`p\d{3}@example\.com`).FindAllString(a.form(), -1)
		if len(rows) > layout.Rows {
			t.Fatalf("%s has %d rows", next, len(rows))
		}
		for _, row := range rows {
			if seen[row] {
				t.Errorf("%s is on two pages", row)
			}
			seen[row] = true
		}
		next = ""
		if m := regexp.MustCompile(`href="([^"]+)" rel="next"`).FindStringSubmatch(a.form()); m != nil {
			next = strings.ReplaceAll(m[1], "&amp;", "&")
		}
	}
	if len(seen) != 2*layout.Rows+20 || pages != 3 {
		t.Errorf("%d messages on %d pages", len(seen), pages)
	}
}
