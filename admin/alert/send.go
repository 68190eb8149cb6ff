package alert

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/identity/notify"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/outbox"
	"github.com/gatehouse-id/gatehouse/internal/periodic"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

const (
	every     = 2 * time.Second // how soon an alert sees an event
	step      = 500             // events that are read at once
	parts     = 20              // of them in one round
	first     = 10              // events that a message names
	pause     = time.Minute     // between two messages of an alert
	perHour   = 20              // messages of an alert
	keepEvery = time.Minute     // how often the place in the events is stored while nothing is selected
	mostPause = time.Hour       // between two tries of a webhook
	mostTries = 16
	atOnce    = 20 // webhooks that are sent to at the same time

	// AlertType and testType are the types of what a webhook gets.
	alertType = "gatehouse.alert"
	testType  = "gatehouse.alert.test"

	noAddress = "the owner has no verified e-mail address"
)

// progress is the progress of a search since its place was stored, so a quiet alert writes nothing.
type progress struct {
	from, to string
	stored   time.Time
}

// Run sends alerts until ctx ends. One node at a time does it. Messages to a webhook can arrive twice, with the same
// id, if a server ends between sending one and noting that; e-mails are queued once.
func (s *Service) Run(ctx context.Context) {
	periodic.Every(ctx, every, s.Log, "alerts not sent; retrying", func() error { return s.Round(ctx) })
}

// Round looks for events once, and sends what is due. An error is a failure of storage.
func (s *Service) Round(ctx context.Context) error {
	var ids []string
	err := s.Store.View(ctx, func(tx storage.Tx) error {
		ids = nil
		for e, err := range alerts.Scan(tx, storage.Range{}) {
			if err != nil {
				return err
			}
			ids = append(ids, e.Key)
		}
		return nil
	})
	if err != nil {
		return err
	}
	s.forgetOthers(ids)
	var failed []error
	var webhooks []string
	for _, id := range ids {
		webhook, err := s.visit(ctx, id)
		if webhook {
			webhooks = append(webhooks, id)
		}
		failed = append(failed, about(id, err))
	}
	failed = append(failed, s.sendAll(ctx, webhooks)...)
	if ctx.Err() != nil {
		return nil
	}
	return errors.Join(failed...)
}

// about names the alert that an error is about.
func about(id string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("alert %s: %w", id, err)
}

// forgetOthers forgets how far the searches of alerts have come that are gone.
func (s *Service) forgetOthers(ids []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.seen, func(id string, _ progress) bool { return !slices.Contains(ids, id) })
}

// visit looks for events of one alert, and mails what is due. It reports whether a webhook is due.
func (s *Service) visit(ctx context.Context, id string) (webhook bool, err error) {
	var due bool
	var to Kind
	for range parts {
		more, rec, is, err := s.collect(ctx, id)
		if err != nil {
			return false, err
		}
		to = rec.To
		if due = (is.Waiting > 0 || is.Sending != nil) && !is.Due.After(s.now()); !more {
			break
		}
	}
	if !due || to == Webhook {
		return due, nil
	}
	return false, s.send(ctx, id)
}

// sendAll sends what is due to webhooks. They can take their time: no e-mail waits for them, and they hardly wait for
// each other.
func (s *Service) sendAll(ctx context.Context, ids []string) []error {
	failed := make([]error, len(ids))
	var all sync.WaitGroup
	room := make(chan struct{}, atOnce)
	for i, id := range ids {
		room <- struct{}{}
		all.Go(func() {
			defer func() { <-room }()
			failed[i] = about(id, s.send(ctx, id))
		})
	}
	all.Wait()
	return failed
}

// collect takes the next events that an alert selects. more: there may be further ones.
func (s *Service) collect(ctx context.Context, id string) (more bool, rec record, is stateRecord, err error) {
	var works bool
	var found []audit.Numbered
	var next audit.Cursor
	from := ""
	err = s.Store.View(ctx, func(tx storage.Tx) (err error) {
		if rec, is, works, err = s.read(tx, id); err != nil || !works {
			return err
		}
		filter := rec.Filter.filter()
		if is.Behind == "" {
			next, err = filter.search(nil).Last(tx)
			return err
		}
		if from = s.place(id, is.Behind); from == "" {
			from = is.Behind
		}
		behind, err := audit.ParseCursor(from)
		if err != nil {
			return err
		}
		found, next, err = filter.search(behind).Find(tx)
		return err
	})
	if err != nil {
		return false, rec, is, err
	}
	switch now := s.now(); {
	case !works:
		if is.Behind == "" && is.Waiting == 0 && is.Sending == nil {
			return false, rec, stateRecord{}, nil
		}
		return false, rec, stateRecord{}, s.note(ctx, id, is.Behind, (*stateRecord).forget)
	case len(found) == 0 && is.Behind != "" && !s.advance(id, is.Behind, next.String(), now):
		return next.String() != from, rec, is, nil
	}
	begun := is.Behind
	err = s.note(ctx, id, begun, func(now *stateRecord) {
		for i := range found {
			if len(now.First) < first {
				now.First = append(now.First, found[i].Place())
			}
		}
		now.Waiting += int64(len(found))
		now.Behind = next.String()
		is = *now
	})
	return len(found) == step, rec, is, err
}

// read returns an alert, and whether it works: it is there, not paused, and its owner may have it.
func (s *Service) read(tx storage.Tx, id string) (rec record, is stateRecord, works bool, err error) {
	rec, found, err := alerts.Find(tx, id)
	if err != nil || !found {
		return rec, is, false, err
	}
	if is, _, err = states.Find(tx, id); err != nil {
		return rec, is, false, err
	}
	works, err = s.may(tx, rec.Owner)
	return rec, is, works && !rec.Paused, err
}

// place returns the progress of the search after a stored place. Empty: not beyond it
func (s *Service) place(id, stored string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.seen[id]; p.from == stored {
		return p.to
	}
	return ""
}

// advance remembers how far a search has come that has found nothing, and reports whether that is to be stored.
func (s *Service) advance(id, stored, to string, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.seen[id]
	if p.from != stored {
		p = progress{from: stored, stored: now}
	}
	p.to = to
	s.seen[id] = p
	return to != stored && now.Sub(p.stored) >= keepEvery
}

// note changes the state of an alert that is still at a place. Another worker can have been faster: then nothing is
// changed.
func (s *Service) note(ctx context.Context, id, at string, how func(is *stateRecord)) error {
	return s.Store.Update(ctx, func(tx storage.Tx) error {
		if _, found, err := alerts.Find(tx, id); err != nil || !found {
			return err
		}
		is, _, err := states.Find(tx, id)
		if err != nil || is.Behind != at {
			return err
		}
		how(&is)
		return states.Put(tx, id, is, time.Time{})
	})
}

// forget passes over what has happened: the alert starts over.
func (is *stateRecord) forget() {
	is.Behind, is.Waiting, is.First, is.Sending, is.Tries = "", 0, nil, nil, 0
}

// count counts a message, and says when the next one may be sent.
func (is *stateRecord) count(now time.Time, events int64) {
	if now.Sub(is.Hour) >= time.Hour {
		is.Hour, is.InHour = now, 0
	}
	is.InHour++
	is.Due = now.Add(pause)
	if is.InHour >= perHour {
		is.Due = is.Hour.Add(time.Hour)
	}
	is.Fired, is.Told, is.Tries, is.Problem = now, is.Told+events, 0, ""
}

// send sends what waits.
func (s *Service) send(ctx context.Context, id string) error {
	try, err := secret.ID(s.Random, idBytes)
	if err != nil {
		return err
	}
	now := s.now()
	var rec record
	var m message
	claimed := ""
	err = s.Store.Update(ctx, func(tx storage.Tx) error {
		claimed = ""
		var is stateRecord
		var works bool
		var err error
		if rec, is, works, err = s.read(tx, id); err != nil || !works || is.Due.After(now) || is.Waiting == 0 && is.Sending == nil {
			return err
		}
		if rec.To == Mail {
			return s.mail(tx, id, &rec, is, now)
		}
		if is.Sending == nil {
			is.Sending, is.Waiting, is.First = &bundleRecord{try, is.Waiting, is.First}, 0, nil
		}
		// It is put off before it is sent: no other worker sends it meanwhile, and that of one that dies is sent again.
		is.Tries++
		is.Due = now.Add(min(pause<<min(is.Tries-1, 10), mostPause))
		claimed = is.Sending.ID
		if m, err = s.message(tx, id, &rec, is.Sending, now); err != nil {
			return err
		}
		return states.Put(tx, id, is, time.Time{})
	})
	if err != nil || claimed == "" {
		return err
	}
	failed := s.post(ctx, id, &rec, claimed, m)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if failed != nil {
		s.Log.Warn("alert not taken", zap.String("alert", id), zap.String("host", rec.Host), zap.Error(failed))
	}
	return s.Store.Update(ctx, func(tx storage.Tx) error {
		is, found, err := states.Find(tx, id)
		if err != nil || !found || is.Sending == nil || is.Sending.ID != claimed {
			return err
		}
		switch {
		case failed == nil:
			is.count(now, is.Sending.Count)
			is.Sending = nil
		case errors.Is(failed, outbox.ErrRefused) || is.Tries >= mostTries:
			is.Sending, is.Tries, is.Problem = nil, 0, audit.Clean(failed.Error())
		default:
			is.Problem = audit.Clean(failed.Error())
		}
		return states.Put(tx, id, is, time.Time{})
	})
}

// mail queues an e-mail of what waits.
func (s *Service) mail(tx storage.Tx, id string, rec *record, is stateRecord, now time.Time) error {
	n, err := s.recipient(tx, rec.Owner, now)
	switch {
	case s.Mail == nil && err == nil, errors.Is(err, ErrNoMail):
		is.Problem, is.Due = noAddress, now.Add(pause)
		return states.Put(tx, id, is, time.Time{})
	case err != nil:
		return err
	}
	found, err := readEvents(tx, is.First)
	if err != nil {
		return err
	}
	for _, e := range found {
		// Nothing that someone else has written is in it: it would be an e-mail in the name of the operator.
		n.Events = append(n.Events, notify.Happened{Type: e.Type, Name: e.Name, At: e.Occurred, From: e.ClientIP})
	}
	filter := rec.Filter.filter()
	n.Link = s.Link(filter)
	n.Data["alert"], n.Data["count"] = rec.Name, strconv.FormatInt(is.Waiting, 10)
	if err := s.Mail.Send(tx, n); err != nil {
		return err
	}
	is.count(now, is.Waiting)
	is.Waiting, is.First = 0, nil
	return states.Put(tx, id, is, time.Time{})
}

// readEvents returns the events at places, without those that were collected meanwhile.
func readEvents(tx storage.Tx, places []string) (list []audit.Event, err error) {
	for _, p := range places {
		e, err := audit.EventAt(tx, audit.DefaultPartition, p)
		if errors.Is(err, storage.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		list = append(list, e)
	}
	return list, nil
}

// message is the message to a webhook. (Standard Webhooks, "Payload structure")
type message struct {
	Type      string      `json:"type"`
	Timestamp time.Time   `json:"timestamp"`
	Data      messageData `json:"data"`
}

type messageData struct {
	ID     string       `json:"alert_id"`
	Name   string       `json:"alert"`
	Count  int64        `json:"count"`
	Events []alertEvent `json:"events"` // the first ones
}

// alertEvent is an event, as other webhooks tell it.
type alertEvent struct {
	audit.Info
	Actor    string `json:"actor,omitempty"`
	ClientID string `json:"client_id,omitempty"`
}

// message tells of a bundle.
func (s *Service) message(tx storage.Tx, id string, rec *record, b *bundleRecord, now time.Time) (message, error) {
	found, err := readEvents(tx, b.First)
	m := message{
		Type: alertType, Timestamp: now.Truncate(time.Millisecond),
		Data: messageData{ID: id, Name: rec.Name, Count: b.Count, Events: []alertEvent{}},
	}
	for i := range found {
		m.Data.Events = append(m.Data.Events, alertEvent{found[i].Info(), found[i].Actor, found[i].ClientID})
	}
	return m, err
}

// post sends a message to the webhook of an alert.
func (s *Service) post(ctx context.Context, id string, rec *record, try string, m message) error {
	t, err := s.open(id, rec)
	if err != nil {
		return err
	}
	hook, err := s.hook(t)
	if err != nil {
		return err
	}
	return hook.Post(ctx, try, m)
}
