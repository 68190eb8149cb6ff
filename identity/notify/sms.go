package notify

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"strings"
	"time"
	"unicode"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/internal/outbox"
	"github.com/gatehouse-id/gatehouse/internal/web"
	"github.com/gatehouse-id/gatehouse/storage"
)

// The kinds of text messages. The words of one are the message sms.<kind>.
const (
	SMSStepUpCode Kind = "step_up_code"
	SMSPhoneCode  Kind = "phone_code"
	SMSResetCode  Kind = "reset_code"
	SMSUsernames  Kind = "usernames"
)

// SMS is one text message to one number.
type SMS struct {
	Kind Kind   `cbor:"1,keyasint"`
	To   string `cbor:"2,keyasint"` // E.164: + and digits
	// PersonID is for the log. It is empty before the person exists.
	PersonID string `cbor:"3,keyasint,omitempty"`
	// Locales are the languages that the person prefers. Empty: the default of the pages.
	Locales []string `cbor:"4,keyasint,omitempty"`
	// At is the time of the cause, taken before the transaction.
	At time.Time `cbor:"5,keyasint"`
	// Until is the expiry of the message: it is not sent later. Default: an hour after At.
	Until time.Time `cbor:"6,keyasint"`
	// Data replaces {name} in the message. The member code is also put on a line of its own, for phones that fill it
	// in.
	Data map[string]string `cbor:"7,keyasint,omitempty"`
}

// SMSSender sends text messages. It is safe for concurrent use.
type SMSSender interface {
	// Send queues a message in the transaction of its cause, and returns at once. An error is a failure of storage.
	Send(tx storage.Tx, m SMS) error
}

// Text is a text message, ready to be handed over.
type Text struct {
	ID   string // the same at each try
	To   string // E.164
	Text string
}

// SMSTransport hands text messages over to a service. It is safe for concurrent use.
type SMSTransport interface {
	// Deliver returns nil when the service has accepted the message. An error that wraps outbox.ErrRefused means that
	// the message is lost. It ends within MaxHookTimeout.
	Deliver(ctx context.Context, t Text) error
	// Check returns nil when the service answers. It sends nothing.
	Check(ctx context.Context) error
}

// SMSConfig says how text messages look.
type SMSConfig struct {
	Issuer string // origin that codes are for
	Brand  string
	// Tried is called after each try. It may be nil.
	Tried func(err error)
}

// Texts sends text messages from an outbox. A message is tried until the service accepts it or it is too late. It may
// arrive twice, with the same id, when the answer of the service was lost.
type Texts struct {
	Deps[SMSTransport]
	*sealedQueue[SMS]

	cfg SMSConfig
}

const (
	smsFirstWait = 10 * time.Second // a try is always shorter
	smsMostWait  = 2 * time.Minute  // a code is valid for some minutes
	smsLife      = time.Hour
)

// NewTexts returns a Texts.
func NewTexts(c SMSConfig, d Deps[SMSTransport]) (*Texts, error) {
	u, err := url.Parse(c.Issuer)
	if err != nil || u.Host == "" {
		return nil, errors.New("sms: want the issuer")
	}
	d.defaults(time.Now, rand.Reader)
	t := &Texts{Deps: d, cfg: c}
	t.sealedQueue = newSealedQueue(d, texts, "gatehouse sms v1", t.deliver, outbox.Config{
		Lane: "sms", First: smsFirstWait, Most: smsMostWait, Tries: 60, MaxAge: smsLife, AtOnce: 4, Keep: shortKept, Tried: c.Tried,
	})
	return t, nil
}

// Send implements SMSSender. A message with an invalid number is logged and dropped, so it does not undo its cause.
func (t *Texts) Send(tx storage.Tx, m SMS) error {
	if !IsNumber(m.To) {
		t.Log.Error("text message without a number", zap.String("kind", string(m.Kind)), zap.String("person_id", m.PersonID))
		return nil
	}
	if m.Until.IsZero() {
		m.Until = m.At.Add(smsLife)
	}
	return t.add(tx, m.At, m)
}

// IsNumber reports whether a text is a telephone number in its international form. (ITU-T E.164)
func IsNumber(s string) bool {
	digits, ok := strings.CutPrefix(s, "+")
	return ok && len(digits) >= 7 && len(digits) <= 15 && digits[0] != '0' &&
		!strings.ContainsFunc(digits, func(c rune) bool { return c < '0' || c > '9' })
}

// Check reports whether the service answers.
func (t *Texts) Check(ctx context.Context) error { return t.Transport.Check(ctx) }

// errLate says that a message has expired.
var errLate = fmt.Errorf("it is too late for it: %w", outbox.ErrRefused)

// deliver makes one try.
func (t *Texts) deliver(ctx context.Context, id string, m SMS) error {
	if m.Kind == Nothing {
		return nil
	}
	if !t.Now().Before(m.Until) {
		return fmt.Errorf("%s: %w", m.Kind, errLate)
	}
	if err := t.Transport.Deliver(ctx, Text{ID: id, To: m.To, Text: t.compose(ctx, m)}); err != nil {
		return fmt.Errorf("%s: %w", m.Kind, err)
	}
	t.Log.Info("text message handed over", zap.String("kind", string(m.Kind)), zap.String("id", id), zap.String("person_id", m.PersonID))
	return nil
}

const maxText = 1000 // characters of a text message

// compose writes a text message in the words of the moment.
func (t *Texts) compose(ctx context.Context, m SMS) string {
	return t.cfg.Compose(t.Words(ctx, m.Locales), m)
}

// Compose writes a text message.
func (c SMSConfig) Compose(words web.Words, m SMS) string {
	pairs := []any{"brand", c.Brand}
	for name, v := range m.Data {
		pairs = append(pairs, name, v)
	}
	text := strings.Map(func(c rune) rune {
		if c != '\n' && unicode.IsControl(c) {
			return ' '
		}
		return c
	}, words.T("sms."+string(m.Kind), pairs...))
	if r := []rune(text); len(r) > maxText {
		text = string(r[:maxText-1]) + "…"
	}
	if code := m.Data["code"]; code != "" {
		// Phones offer the code on pages of this host only. (Origin-bound one-time codes delivered via SMS, 3)
		text += "\n\n@" + hostOf(c.Issuer) + " #" + code
	}
	return text
}

// SMSWebhook hands text messages over by a POST of JSON: to, text, from, id and Members.
type SMSWebhook struct {
	Hook *Hook
	From string // the sender that is shown. Empty: the service's own
	// Members are further members for the service, such as the id of a profile.
	Members map[string]string
}

// Deliver implements SMSTransport.
func (w *SMSWebhook) Deliver(ctx context.Context, t Text) error {
	body := maps.Clone(w.Members)
	if body == nil {
		body = map[string]string{}
	}
	body["to"], body["text"], body["id"] = t.To, t.Text, t.ID
	if w.From != "" {
		body["from"] = w.From
	}
	return w.Hook.Post(ctx, t.ID, body)
}

// Check implements SMSTransport.
func (w *SMSWebhook) Check(ctx context.Context) error { return w.Hook.Check(ctx) }
