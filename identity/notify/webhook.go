// Package notify sends events to webhooks, and e-mails, text messages and prompts to people. All of it goes through
// outboxes, so nothing is lost and no caller waits.
package notify

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/outbound"
	"github.com/gatehouse-id/gatehouse/internal/outbox"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

// secretPrefix marks a secret that is given as Base64 of the key. (Standard Webhooks, "Signature scheme")
const secretPrefix = "whsec_"

// WebhookConfig names the receiver of events.
type WebhookConfig struct {
	URL    string
	Secret secret.String
	// Tried is called after each try. It may be nil.
	Tried func(err error)
}

// Key returns the bytes that sign: the secret itself, or what stands in Base64 after whsec_.
func (c WebhookConfig) Key() ([]byte, error) {
	text, encoded := strings.CutPrefix(c.Secret.Reveal(), secretPrefix)
	if !encoded {
		return []byte(text), nil
	}
	key, err := base64.StdEncoding.Strict().DecodeString(text)
	if err != nil {
		return nil, errors.New("the part after whsec_ is not Base64")
	}
	if len(key) < 24 { // Standard Webhooks, "Signature scheme": 24 to 64 bytes
		return nil, errors.New("the part after whsec_ has fewer than 24 bytes")
	}
	return key, nil
}

// KeyText returns the secret that Key reads as a key.
func KeyText(key []byte) string { return secretPrefix + base64.StdEncoding.EncodeToString(key) }

// Webhook posts public events to one receiver. It posts an event until the receiver accepts it, so perhaps more than
// once and not always in order; the id stays the same.
type Webhook struct {
	url    string
	key    []byte
	queue  *outbox.Queue[audit.Ref]
	store  storage.Store
	client *http.Client
	now    func() time.Time
}

// NewWebhook returns a webhook over a store. now and client may be nil. By default the receiver can be in any network,
// since the operator has written its address.
func NewWebhook(c WebhookConfig, store storage.Store, client *http.Client, now func() time.Time, log *zap.Logger) (*Webhook, error) {
	key, err := c.Key()
	if err != nil {
		return nil, fmt.Errorf("webhook: secret: %w", err)
	}
	u, err := url.Parse(c.URL)
	if err != nil || u.Host == "" {
		return nil, errors.New("webhook: want an absolute URL")
	}
	if now == nil {
		now = time.Now
	}
	if client == nil {
		client = outbound.New(true)
	}
	sum := sha256.Sum256([]byte(c.URL))
	lane := hex.EncodeToString(sum[:8])
	return &Webhook{
		url: c.URL, key: key, store: store, client: client, now: now,
		queue: outbox.New(webhooks, store, now, outbox.Config{Lane: lane, Tried: c.Tried, Log: log.With(zap.String("host", u.Host))}),
	}, nil
}

// Add queues an event in the transaction that appends it.
func (w *Webhook) Add(tx storage.Tx, at audit.Ref, e audit.Event) error {
	return w.queue.Add(tx, e.ID, e.Occurred, at)
}

// Run posts queued events until ctx ends.
func (w *Webhook) Run(ctx context.Context) { w.queue.Run(ctx, w.send) }

// Round posts once what is due now.
func (w *Webhook) Round(ctx context.Context) (sent, failed int, err error) {
	return w.queue.Round(ctx, w.queue.AtOnce, w.send)
}

// webhookBody is the body of the request. (Standard Webhooks, "Payload structure")
type webhookBody struct {
	Type      string      `json:"type"`
	Timestamp time.Time   `json:"timestamp"`
	Data      webhookData `json:"data"`
}

type webhookData struct {
	audit.Info
	Actor    string `json:"actor,omitempty"`
	ClientID string `json:"client_id,omitempty"`
}

// send makes one try.
func (w *Webhook) send(ctx context.Context, id string, at audit.Ref) error {
	var e audit.Event
	err := w.store.View(ctx, func(tx storage.Tx) (err error) {
		e, err = audit.Get(tx, at)
		return err
	})
	if errors.Is(err, storage.ErrNotFound) {
		return fmt.Errorf("the event was collected: %w", outbox.ErrRefused)
	}
	if err != nil {
		return err
	}
	body, err := json.Marshal(webhookBody{e.Type, e.Occurred.UTC().Truncate(time.Millisecond), webhookData{e.Info(), e.Actor, e.ClientID}})
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	signAs(req, w.key, id, w.now(), body)
	status, err := exchange(w.client, req)
	switch {
	case err != nil:
		return fmt.Errorf("post event: %w", err)
	case status >= 200 && status <= 299:
		return nil
	case status == http.StatusGone: // Standard Webhooks, "Deliverability": the receiver has gone for good
		return fmt.Errorf("post event: status %d: %w", status, outbox.ErrRefused)
	default:
		return fmt.Errorf("post event: status %d", status)
	}
}

// Sign returns the signature of a posted event: HMAC-SHA256 over id, timestamp and body with dots between, in Base64.
// (Standard Webhooks, "Signature scheme")
func Sign(key []byte, id, timestamp string, body []byte) string {
	mac := hmac.New(sha256.New, key)
	_, _ = mac.Write([]byte(id + "." + timestamp + ".")) // a hash never fails
	_, _ = mac.Write(body)
	return base64.StdEncoding.EncodeToString(mac.Sum(nil))
}
