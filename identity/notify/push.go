package notify

import (
	"context"
	"crypto/rand"
	"fmt"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/internal/outbox"
	"github.com/gatehouse-id/gatehouse/storage"
)

// Push is one prompt on one device of a person. Its words are the messages push.title and push.text.
type Push struct {
	PersonID string `cbor:"1,keyasint"`
	Device   string `cbor:"2,keyasint"` // its id here
	// Link is the path of the page on which the person answers.
	Link    string   `cbor:"3,keyasint"`
	Locales []string `cbor:"4,keyasint,omitempty"`
	// At is the time of the cause, taken before the transaction. After Until the prompt is not sent.
	At    time.Time         `cbor:"5,keyasint"`
	Until time.Time         `cbor:"6,keyasint"`
	Data  map[string]string `cbor:"7,keyasint,omitempty"` // replaces {name} in the messages
}

// PushSender sends prompts. It is safe for concurrent use.
type PushSender interface {
	// Send queues a prompt in the transaction of its cause, and returns at once. An error is a failure of storage.
	Send(tx storage.Tx, p Push) error
}

// Prompt is a push message, ready to be handed over.
type Prompt struct {
	ID     string `json:"id"` // the same at each try
	Person string `json:"person"`
	Device string `json:"device"`
	Title  string `json:"title"`
	Text   string `json:"text"`
	URL    string `json:"approve_url"`
}

// PushTransport hands prompts over to a service. It is safe for concurrent use.
type PushTransport interface {
	// Deliver has the contract of SMSTransport.
	Deliver(ctx context.Context, p Prompt) error
	// Check returns nil when the service answers. It sends nothing.
	Check(ctx context.Context) error
}

// PushConfig says how prompts look.
type PushConfig struct {
	Issuer string // origin of links, no trailing slash
	Brand  string
	// Tried is called after each try. It may be nil.
	Tried func(err error)
}

// Pushes sends prompts from an outbox. A prompt is tried until the service accepts it or it is too late, so it may
// arrive twice.
type Pushes struct {
	Deps[PushTransport]
	*sealedQueue[Push]

	cfg PushConfig
}

const (
	pushMostWait = 20 * time.Second
	pushLife     = 10 * time.Minute
)

// NewPushes returns a Pushes.
func NewPushes(c PushConfig, d Deps[PushTransport]) *Pushes {
	d.defaults(time.Now, rand.Reader)
	p := &Pushes{Deps: d, cfg: c}
	p.sealedQueue = newSealedQueue(d, pushes, "gatehouse push v1", p.deliver, outbox.Config{
		Lane: "push", First: smsFirstWait, Most: pushMostWait, Tries: 60, MaxAge: pushLife, AtOnce: 4, Keep: shortKept, Tried: c.Tried,
	})
	return p
}

// Send implements PushSender.
func (p *Pushes) Send(tx storage.Tx, v Push) error { return p.add(tx, v.At, v) }

// Check reports whether the service answers.
func (p *Pushes) Check(ctx context.Context) error { return p.Transport.Check(ctx) }

// deliver makes one try.
func (p *Pushes) deliver(ctx context.Context, id string, v Push) error {
	if !p.Now().Before(v.Until) {
		return fmt.Errorf("push: %w", errLate)
	}
	words := p.Words(ctx, v.Locales)
	pairs := []any{"brand", p.cfg.Brand}
	for name, text := range v.Data {
		pairs = append(pairs, name, text)
	}
	out := Prompt{
		ID: id, Person: v.PersonID, Device: v.Device, Title: oneLine(words.T("push.title", pairs...)),
		Text: oneLine(words.T("push.text", pairs...)),
	}
	if strings.HasPrefix(v.Link, "/") {
		out.URL = p.cfg.Issuer + v.Link
	}
	if err := p.Transport.Deliver(ctx, out); err != nil {
		return fmt.Errorf("push: %w", err)
	}
	p.Log.Info("prompt handed over", zap.String("id", id), zap.String("person_id", v.PersonID))
	return nil
}

// PushWebhook hands prompts over by a POST of JSON.
type PushWebhook struct{ Hook *Hook }

// Deliver implements PushTransport.
func (w *PushWebhook) Deliver(ctx context.Context, p Prompt) error { return w.Hook.Post(ctx, p.ID, p) }

// Check implements PushTransport.
func (w *PushWebhook) Check(ctx context.Context) error { return w.Hook.Check(ctx) }
