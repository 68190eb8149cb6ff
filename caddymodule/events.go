package caddymodule

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyevents"
	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/caddymodule/internal/caddyfileutil"
	"github.com/gatehouse-id/gatehouse/caddymodule/internal/reference"
	"github.com/gatehouse-id/gatehouse/caddymodule/sender"
	"github.com/gatehouse-id/gatehouse/caddymodule/shared"
	"github.com/gatehouse-id/gatehouse/identity/notify"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/personindex"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/internal/stats"
	"github.com/gatehouse-id/gatehouse/storage"
)

// readBlock reads
//
//	events {
//		retention       <duration>
//		token_retention <duration>|forever
//		call_retention  <duration>|forever
//		webhook         <url> { secret <secret> }
//	}
func (e *Events) readBlock(d *caddyfile.Dispenser) error {
	return caddyfileutil.Block(&reference.Events, caddyfileutil.Subdirectives{
		"retention":       caddyfileutil.Value(&e.Retention, caddyfileutil.CheckDuration),
		"token_retention": caddyfileutil.Value(&e.TokenRetention, checkRetention),
		"call_retention":  caddyfileutil.Value(&e.CallRetention, checkRetention),
		"webhook":         e.readWebhook,
	})(d)
}

const (
	defaultRetention = 90 * 24 * time.Hour // of what comes in masses
	keepForever      = "forever"
)

// checkRetention accepts a duration, or the word that keeps for ever what comes in masses.
func checkRetention(s string) error {
	if s == keepForever {
		return nil
	}
	if err := caddyfileutil.CheckDuration(s); err != nil {
		return fmt.Errorf("%w, or %s", err, keepForever)
	}
	return nil
}

// retention says how long events are kept. Events of tokens that clients get for themselves come with every job that
// runs somewhere, so they do not stay for ever unless someone says so. (docs/decisions/events.md#event-retention)
func (e *Events) retention(r *caddyfileutil.Resolver) audit.Retention {
	kept := r.Duration("events: retention", e.Retention)
	return audit.Retention{Kept: kept, Brief: briefer(r, "events: token_retention", e.TokenRetention, kept)}
}

// callRetention says how long the log of calls is kept.
func (e *Events) callRetention(r *caddyfileutil.Resolver, kept time.Duration) time.Duration {
	if d := briefer(r, "events: call_retention", e.CallRetention, kept); d != 0 {
		return d
	}
	return kept
}

// briefer returns the retention of what comes in masses. 0: that of all others, which is kept.
func briefer(r *caddyfileutil.Resolver, option string, said caddyfileutil.Duration, kept time.Duration) time.Duration {
	switch text, ok := r.Text(option, string(said), checkRetention); {
	case ok && text == keepForever:
		return audit.Forever
	case ok:
		return r.Duration(option, said)
	case kept == 0 || kept > defaultRetention:
		return defaultRetention
	}
	return 0
}

func (e *Events) readWebhook(d *caddyfile.Dispenser) error {
	var w Webhook
	if err := caddyfileutil.ReadName(d, &w.URL, checkWebhookURL); err != nil {
		return err
	}
	for _, other := range e.Webhooks {
		if other.URL == w.URL {
			return d.Err("webhook: this URL is already set: keep one of them")
		}
	}
	start := d.Token()
	if err := caddyfileutil.ReadBlock(d, "webhook", &reference.EventWebhook,
		caddyfileutil.Subdirectives{"secret": caddyfileutil.Value(&w.Secret, sender.CheckSecret)}); err != nil {
		return err
	}
	if w.Secret == "" {
		return caddyfileutil.At(start, fmt.Errorf("webhook: secret is missing: it signs the messages"))
	}
	e.Webhooks = append(e.Webhooks, w)
	return nil
}

// checkWebhookURL does not repeat the URL in its error: it may hold a secret.
func checkWebhookURL(s string) error {
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.Fragment != "" || u.User != nil {
		return fmt.Errorf("want a URL such as https://siem.example.com/gatehouse, without user and fragment")
	}
	return nil
}

// buildWebhooks resolves where events are posted to.
func (e *Events) buildWebhooks(r *caddyfileutil.Resolver) []notify.WebhookConfig {
	var out []notify.WebhookConfig
	seen := map[string]bool{}
	for _, w := range e.Webhooks {
		u := r.Plain("events: webhook", w.URL, checkWebhookURL)
		key := r.Plain("events: webhook secret", string(w.Secret), sender.CheckSecret)
		if w.URL == "" {
			r.Fail("events: webhook: url is missing")
		}
		if w.Secret == "" {
			r.Fail("events: webhook: secret is missing: it signs the messages")
		}
		if u == "" || key == "" {
			continue
		}
		if seen[u] {
			r.Fail("events: webhook: a URL is there twice: keep one of them")
		}
		seen[u] = true
		out = append(out, notify.WebhookConfig{URL: u, Secret: secret.New(key)})
	}
	return out
}

// findEmitter finds Caddy's events app, which exists even if it is not configured.
func (a *App) findEmitter() error {
	found, err := a.ctx.App("events")
	if err != nil {
		return fmt.Errorf("gatehouse: events: %w", err)
	}
	a.emitter = found.(*caddyevents.App) //nolint:forcetypeassert // registered under that name
	a.begun = &startSignal{given: make(chan struct{})}
	return a.emitter.On("started", a.begun)
}

// startSignal is given by Caddy's event "started", when all apps have started.
type startSignal struct {
	once  sync.Once
	given chan struct{}
}

// Handle implements caddyevents.Handler.
func (s *startSignal) Handle(context.Context, caddy.Event) error {
	s.once.Do(func() { close(s.given) })
	return nil
}

// maxUntold is the maximum number of events that wait for Caddy's events app. If its handlers are too slow, further
// events are dropped, and a log line says so.
const maxUntold = 4096

// teller passes events on: to webhooks, and to Caddy's events app.
type teller struct {
	webhooks []*notify.Webhook
	also     func(tx storage.Tx, e audit.Event) error // set before the first event; nil: no shared signals
	release  func()                                   // undoes Keeper.Use and Log.Keep
	untold   chan audit.Event
	missed   atomic.Int64
}

// newEvents returns what records events, and what passes them on.
func (a *App) newEvents(c *shared.Core) (*audit.Recorder, *teller, error) {
	t := &teller{untold: make(chan audit.Event, maxUntold)}
	for _, cfg := range a.webhooks {
		cfg.Tried = c.Metrics.Posted
		w, err := notify.NewWebhook(cfg, c.Store, nil, nil, a.log.Named("webhook"))
		if err != nil {
			return nil, nil, err
		}
		t.webhooks = append(t.webhooks, w)
	}
	rec := &audit.Recorder{Now: time.Now, Random: rand.Reader, Note: a.note, Lane: c.Node.Lane}
	if len(t.webhooks) > 0 || a.authz.Signals.On {
		rec.Also = t.post
	}
	if a.persons.Partitions.On {
		rec.PartitionOf = person.PartitionOfID
	}
	calls, events := c.Calls.Keep(a.calls), c.Keeper.Use(audit.Settings{Retention: a.events, Tell: t.tell})
	t.release = func() {
		calls()
		events()
	}
	return rec, t, nil
}

// note tells statistics and the lists of persons of an event. While persons are kept in partitions, each is counted on
// its own too.
func (a *App) note(tx storage.Tx, e audit.Event) error {
	partition := ""
	if a.persons.Partitions.On {
		partition = e.Partition
	}
	if err := stats.Event(tx, e, partition); err != nil {
		return err
	}
	return personindex.Note(tx, e)
}

// post stores what webhooks and receivers of shared signals are told, in the transaction of the event.
func (t *teller) post(tx storage.Tx, at audit.Ref, e audit.Event) error {
	for _, w := range t.webhooks {
		if err := w.Add(tx, at, e); err != nil {
			return err
		}
	}
	if t.also != nil {
		return t.also(tx, e)
	}
	return nil
}

// tell passes an event on to emit. It never waits.
func (t *teller) tell(e audit.Event) {
	select {
	case t.untold <- e:
	default:
		t.missed.Add(1)
	}
}

// emit hands events to Caddy's events app until the configuration ends, as gatehouse.<type>, after they were written.
// Nothing is handed over before begun: the events app writes its list of handlers without a lock while it starts.
func (t *teller) emit(ctx caddy.Context, app *caddyevents.App, begun <-chan struct{}, log *zap.Logger) {
	select {
	case <-ctx.Done():
		return
	case <-begun:
	}
	for {
		select {
		case <-ctx.Done():
			return
		case e := <-t.untold:
			if n := t.missed.Swap(0); n > 0 {
				log.Warn("events dropped: the handlers of Caddy's events app are too slow", zap.Int64("events", n))
			}
			if name := "gatehouse." + e.Type; app.ShouldEmit(name) {
				app.Emit(ctx, name, eventData(e))
			}
		}
	}
}

// eventData returns the data that handlers of Caddy's events app read as {event.data.<name>}.
func eventData(e audit.Event) map[string]any {
	info := e.Info()
	return map[string]any{
		"event_identifier": info.EventIdentifier, "person_id": info.PersonID, "occurred": info.Occurred, "event_type": info.EventType,
		"event_name": info.EventName,
		"client_ip":  info.ClientIP, "user_agent": info.UserAgent, "partition_id": info.PartitionID,
		"event_agent_user": info.EventAgentUser, "reason": info.Reason,
		"actor": e.Actor, "client_id": e.ClientID, "organisation_id": info.OrganisationID,
	}
}
