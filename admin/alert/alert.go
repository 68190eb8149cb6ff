// Package alert tells administrators of events. A filter is stored under a name, and the events that it selects from
// then on go to an e-mail address or a webhook, in bounded batches. (docs/decisions/console.md#alerts)
package alert

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/fxamacker/cbor/v2"
	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/identity/notify"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

const (
	// Most is the maximum number of alerts.
	Most = 100
	// MaxName is the length of a name in characters.
	MaxName = 80

	maxURL   = 2000 // bytes
	maxTypes = 20
	idBytes  = 16
	keyBytes = 32 // of a secret. Standard Webhooks, "Signature scheme": 24 to 64
)

// Kind is the kind of destination of an alert.
type Kind string

// The kinds.
const (
	Mail    Kind = "mail"    // the verified e-mail address of its owner
	Webhook Kind = "webhook" // an address that gets a signed message
)

var (
	// ErrGone says that there is no such alert.
	ErrGone = errors.New("there is no such alert")
	// ErrMany says that there are as many as there can be.
	ErrMany = errors.New("there are as many as there can be")
	// ErrEverything says that the filter selects every event.
	ErrEverything = errors.New("the filter selects every event")
	// ErrNoMail says that no e-mail is sent, or that the owner has no verified address.
	ErrNoMail = errors.New("there is no verified address, or no e-mail is sent")
	// ErrURL says that the address of a webhook is missing or is not an https URL.
	ErrURL = errors.New("want a URL such as https://hooks.example.com/gatehouse, without user and fragment")
)

// InvalidError says that a part of a Draft cannot be used: name, filter, to or url.
type InvalidError struct {
	Field string
	Cause error
}

func (e *InvalidError) Error() string { return fmt.Sprintf("%s: %v", e.Field, e.Cause) }

func (e *InvalidError) Unwrap() error { return e.Cause }

// PostError says why a webhook has not taken a message.
type PostError struct{ Cause error }

func (e *PostError) Error() string { return e.Cause.Error() }

func (e *PostError) Unwrap() error { return e.Cause }

// Filter selects events, as audit.Search does. An empty member selects everything.
type Filter struct {
	Person, Client, Address string
	Types                   []string
}

// search is the search for what came after a place.
func (f *Filter) search(behind audit.Cursor) audit.Search {
	return audit.Search{
		Partition: audit.DefaultPartition, Person: f.Person, Client: f.Client, Address: f.Address, Types: f.Types,
		Following: true, Behind: behind, Limit: step,
	}
}

// Draft is an alert as someone has written it.
type Draft struct {
	Name   string
	Filter Filter
	To     Kind
	URL    string // of a webhook. Empty: it stays
}

// Alert is one that is kept, and how it is.
type Alert struct {
	ID, Name string
	Owner    string // id of the person who has saved it last
	Filter   Filter
	To       Kind
	Host     string // of the webhook. The address is not told: it may hold a secret
	Paused   bool
	Made     time.Time

	Stopped bool      // the owner has lost the right to it
	Fired   time.Time // when it was last sent. Zero: never
	Told    int64     // events that it has told of
	Waiting int64     // events that it has still to tell of
	Tries   int       // since the last success
	Problem string    // of the last try. Empty: none
}

// Deps are the dependencies of a Service.
type Deps struct {
	Store    storage.Store
	Persons  *person.Service
	Recorder *audit.Recorder
	Keyring  *secret.Keyring
	Random   io.Reader
	// Mail sends e-mails. nil: none are sent
	Mail notify.Sender
	// Client reaches public hosts, and those that the operator has opened.
	Client *http.Client
	// Allow reports whether a person may have alerts.
	Allow func(tx storage.Tx, id string, p *person.Record) (bool, error)
	// Link is the page with the events that a filter selects.
	Link func(f Filter) string
	Log  *zap.Logger
}

// Service keeps alerts and sends them. It is safe for concurrent use.
type Service struct {
	Deps

	mu   sync.Mutex // guards seen
	seen map[string]progress
}

// New returns a service.
func New(d Deps) *Service { return &Service{Deps: d, seen: map[string]progress{}} }

// target is the address of a webhook with the secret that signs its messages. It is kept sealed.
type target struct {
	URL string `cbor:"1,keyasint"`
	Key []byte `cbor:"2,keyasint"`
}

// purpose binds what is sealed to its record.
func purpose(id string) string { return "gatehouse alert v1 " + id }

func (s *Service) seal(id string, t target) ([]byte, error) {
	raw, err := cbor.Marshal(t)
	if err != nil {
		return nil, err
	}
	return s.Keyring.Seal(purpose(id), raw)
}

func (s *Service) open(id string, rec *record) (t target, err error) {
	raw, err := s.Keyring.Open(purpose(id), rec.Target)
	if err == nil {
		err = cbor.Unmarshal(raw, &t)
	}
	return t, err
}

var typeForm = regexp.MustCompile(`^[A-Za-z][A-Za-z._-]{0,99}$`)

// check says what is wrong with a draft. The address of a webhook is asked whether it answers, and is sent nothing.
func (s *Service) check(ctx context.Context, d *Draft, need bool) error {
	d.Name = strings.TrimSpace(d.Name)
	f := &d.Filter
	switch {
	case d.Name == "" || !person.IsText(d.Name, MaxName):
		return &InvalidError{"name", errors.New("want a name")}
	case f.Person == "" && f.Client == "" && f.Address == "" && len(f.Types) == 0:
		return ErrEverything
	case len(f.Types) > maxTypes || slices.ContainsFunc(f.Types, func(t string) bool { return !typeForm.MatchString(t) }):
		return &InvalidError{"kind", errors.New("want types of events")}
	case f.Client != "" && !person.IsText(f.Client, 200):
		return &InvalidError{"client", errors.New("want the id of an application")}
	case f.Address != "" && !person.IsText(f.Address, 64):
		return &InvalidError{"address", errors.New("want an IP address")}
	case d.To == Mail && s.Mail == nil:
		return ErrNoMail
	case d.To != Mail && d.To != Webhook:
		return &InvalidError{"to", errors.New("want mail or webhook")}
	case d.To == Mail || d.URL == "" && !need:
		return nil
	}
	u, err := url.Parse(d.URL)
	if err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil || u.Fragment != "" || len(d.URL) > maxURL {
		return &InvalidError{"url", ErrURL}
	}
	hook, err := s.hook(target{URL: d.URL})
	if err == nil {
		err = hook.Check(ctx)
	}
	if err != nil {
		return &InvalidError{"url", err}
	}
	return nil
}

// hook returns the sender of messages to a target.
func (s *Service) hook(t target) (*notify.Hook, error) {
	return notify.NewHook(notify.HookConfig{URL: t.URL, Key: t.Key, Client: s.Client, Now: s.now})
}

// aim fills in where an alert goes, and returns the new secret of a webhook.
func (s *Service) aim(id string, rec *record, d *Draft) (secretText string, err error) {
	if rec.To = d.To; d.To == Mail {
		rec.Host, rec.Target = "", nil
		return "", nil
	}
	if d.URL == "" {
		return "", nil
	}
	u, err := url.Parse(d.URL)
	if err != nil {
		return "", err
	}
	key := make([]byte, keyBytes)
	if _, err := io.ReadFull(s.Random, key); err != nil {
		return "", err
	}
	rec.Host = u.Host
	rec.Target, err = s.seal(id, target{d.URL, key})
	return notify.KeyText(key), err
}

// Add keeps an alert of the actor, from now on. secretText signs what its webhook gets, and is told this once. Errors:
// *InvalidError, ErrEverything, ErrMany, ErrNoMail, a failure of storage.
func (s *Service) Add(ctx context.Context, d Draft, by audit.Actor) (id, secretText string, err error) {
	if err := s.check(ctx, &d, true); err != nil {
		return "", "", err
	}
	if id, err = secret.ID(s.Random, idBytes); err != nil {
		return "", "", err
	}
	rec := record{Name: d.Name, Owner: by.ID, Filter: d.Filter.record(), Made: s.now()}
	if secretText, err = s.aim(id, &rec, &d); err != nil {
		return "", "", err
	}
	e, err := s.Recorder.New(created, by.Origin)
	if err != nil {
		return "", "", err
	}
	return id, secretText, s.Store.Update(ctx, func(tx storage.Tx) error {
		n := 0
		for _, err := range alerts.Scan(tx, storage.Range{Limit: Most}) {
			if err != nil {
				return err
			}
			n++
		}
		if n >= Most {
			return ErrMany
		}
		if err := s.checkAddress(tx, &rec, rec.Made); err != nil {
			return err
		}
		begin, err := d.Filter.search(nil).Last(tx)
		if err != nil {
			return err
		}
		if err := alerts.Put(tx, id, rec, time.Time{}); err != nil {
			return err
		}
		if err := states.Put(tx, id, stateRecord{Behind: begin.String()}, time.Time{}); err != nil {
			return err
		}
		return s.Recorder.Append(tx, by.Fill(e, "", d.Name))
	})
}

// checkAddress refuses an e-mail to someone without a verified address.
func (s *Service) checkAddress(tx storage.Tx, rec *record, now time.Time) error {
	if rec.To != Mail {
		return nil
	}
	_, err := s.recipient(tx, rec.Owner, now)
	return err
}

// change changes an alert, with an event.
func (s *Service) change(ctx context.Context, id string, kind audit.Type, by audit.Actor, fn func(tx storage.Tx, rec *record) error) error {
	e, err := s.Recorder.New(kind, by.Origin)
	if err != nil {
		return err
	}
	return s.Store.Update(ctx, func(tx storage.Tx) error {
		rec, err := alerts.Get(tx, id)
		if errors.Is(err, storage.ErrNotFound) {
			return ErrGone
		}
		if err != nil {
			return err
		}
		if err := fn(tx, &rec); err != nil {
			return err
		}
		return s.Recorder.Append(tx, by.Fill(e, "", rec.Name))
	})
}

// Change puts a draft in the place of an alert, which is the actor's from now on. A new address has a new secret.
// Errors: as of Add, and ErrGone.
func (s *Service) Change(ctx context.Context, id string, d Draft, by audit.Actor) (secretText string, err error) {
	old, err := s.get(ctx, id)
	if err != nil {
		return "", err
	}
	if err := s.check(ctx, &d, old.To != Webhook); err != nil {
		return "", err
	}
	var aimed record
	at := s.now()
	if secretText, err = s.aim(id, &aimed, &d); err != nil {
		return "", err
	}
	return secretText, s.change(ctx, id, changed, by, func(tx storage.Tx, rec *record) error {
		if d.To == Webhook && d.URL == "" {
			if rec.To != Webhook {
				return &InvalidError{"url", ErrURL}
			}
			aimed.Host, aimed.Target = rec.Host, rec.Target
		}
		rec.Name, rec.Owner, rec.Filter, rec.To, rec.Host, rec.Target = d.Name, by.ID, d.Filter.record(), d.To, aimed.Host, aimed.Target
		if err := s.checkAddress(tx, rec, at); err != nil {
			return err
		}
		is, _, err := states.Find(tx, id)
		if err != nil {
			return err
		}
		is.forget()
		is.Problem = ""
		if err := states.Put(tx, id, is, time.Time{}); err != nil { // it begins now
			return err
		}
		return alerts.Put(tx, id, *rec, time.Time{})
	})
}

// Pause lets an alert pass over what happens, or begin again. Errors: ErrGone, a failure of storage.
func (s *Service) Pause(ctx context.Context, id string, on bool, by audit.Actor) error {
	kind := resumed
	if on {
		kind = paused
	}
	return s.change(ctx, id, kind, by, func(tx storage.Tx, rec *record) error {
		rec.Paused = on
		return alerts.Put(tx, id, *rec, time.Time{})
	})
}

// Remove forgets an alert. Errors: ErrGone, a failure of storage.
func (s *Service) Remove(ctx context.Context, id string, by audit.Actor) error {
	return s.change(ctx, id, removed, by, func(tx storage.Tx, _ *record) error {
		if err := states.Delete(tx, id); err != nil {
			return err
		}
		return alerts.Delete(tx, id)
	})
}

// Test sends a message without events to where the alert goes. Errors: ErrGone, ErrNoMail, *PostError, a failure of
// storage.
func (s *Service) Test(ctx context.Context, id string, by audit.Actor) error {
	var rec record
	at := s.now()
	err := s.change(ctx, id, tested, by, func(tx storage.Tx, now *record) error {
		if rec = *now; rec.To != Mail {
			return nil
		}
		n, err := s.recipient(tx, rec.Owner, at)
		if err != nil {
			return err
		}
		n.Kind = notify.Test
		return s.Mail.Send(tx, n)
	})
	if err != nil || rec.To == Mail {
		return err
	}
	try, err := secret.ID(s.Random, idBytes)
	if err != nil {
		return err
	}
	if err := s.post(ctx, id, &rec, try,
		message{Type: testType, Timestamp: s.now(), Data: messageData{ID: id, Name: rec.Name, Events: []alertEvent{}}}); err != nil {
		return &PostError{err}
	}
	return nil
}

// get returns the record of an alert.
func (s *Service) get(ctx context.Context, id string) (rec record, err error) {
	err = s.Store.View(ctx, func(tx storage.Tx) (err error) {
		rec, err = alerts.Get(tx, id)
		return err
	})
	if errors.Is(err, storage.ErrNotFound) {
		err = ErrGone
	}
	return rec, err
}

// Get returns an alert, or ErrGone.
func (s *Service) Get(tx storage.Tx, id string) (a Alert, err error) {
	rec, err := alerts.Get(tx, id)
	if errors.Is(err, storage.ErrNotFound) {
		return a, ErrGone
	}
	if err != nil {
		return a, err
	}
	return s.alert(tx, id, &rec)
}

// List returns all alerts.
func (s *Service) List(tx storage.Tx) (list []Alert, err error) {
	for e, err := range alerts.Scan(tx, storage.Range{}) {
		if err != nil {
			return nil, err
		}
		a, err := s.alert(tx, e.Key, &e.Value)
		if err != nil {
			return nil, err
		}
		list = append(list, a)
	}
	slices.SortFunc(list, func(a, b Alert) int { return strings.Compare(strings.ToLower(a.Name), strings.ToLower(b.Name)) })
	return list, nil
}

// alert returns an alert of its record.
func (s *Service) alert(tx storage.Tx, id string, rec *record) (a Alert, err error) {
	a = Alert{
		ID: id, Name: rec.Name, Owner: rec.Owner, Filter: rec.Filter.filter(), To: rec.To, Host: rec.Host,
		Paused: rec.Paused, Made: rec.Made,
	}
	may, err := s.may(tx, rec.Owner)
	if err != nil {
		return a, err
	}
	is, _, err := states.Find(tx, id)
	a.Stopped, a.Fired, a.Told, a.Waiting, a.Tries, a.Problem = !may, is.Fired, is.Told, is.Waiting, is.Tries, is.Problem
	if is.Sending != nil {
		a.Waiting += is.Sending.Count
	}
	return a, err
}

// may reports whether the owner of an alert may still have it.
func (s *Service) may(tx storage.Tx, owner string) (bool, error) {
	_, p, err := s.Persons.Find(tx, owner)
	if errors.Is(err, person.ErrNoPerson) || err == nil && p.State != person.Active {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return s.Allow(tx, owner, &p)
}

// recipient is a notice to the owner of an alert. ErrNoMail: no address of the owner is verified
func (s *Service) recipient(tx storage.Tx, owner string, now time.Time) (notify.Notice, error) {
	_, p, err := s.Persons.Find(tx, owner)
	if err != nil {
		return notify.Notice{}, err
	}
	prof, err := person.ReadProfile(tx, owner, &p)
	if err != nil {
		return notify.Notice{}, err
	}
	n := person.Recipient{ID: owner, Record: &p, Profile: &prof.Profile, VerifiedOnly: true}.Notice(notify.EventAlert, now)
	if n.To == "" {
		return n, ErrNoMail
	}
	return n, nil
}

// Reseal seals with the first encryption key what an older one has sealed. What no key opens stays as it is, and left
// counts it.
func (s *Service) Reseal(ctx context.Context) (left int, err error) {
	var all []storage.Entry[record]
	err = s.Store.View(ctx, func(tx storage.Tx) error {
		all = nil
		for e, err := range alerts.Scan(tx, storage.Range{}) {
			if err != nil {
				return err
			}
			all = append(all, e)
		}
		return nil
	})
	for i := range all {
		old := &all[i].Value
		if err != nil || old.Target == nil || s.Keyring.IsCurrent(old.Target) {
			continue
		}
		t, failed := s.open(all[i].Key, old)
		if failed != nil {
			left++
			continue
		}
		var anew []byte
		if anew, err = s.seal(all[i].Key, t); err != nil {
			break
		}
		err = s.Store.Update(ctx, func(tx storage.Tx) error {
			now, found, err := alerts.Find(tx, all[i].Key)
			if err != nil || !found || !bytes.Equal(now.Target, old.Target) { // changed meanwhile
				return err
			}
			now.Target = anew
			return alerts.Put(tx, all[i].Key, now, time.Time{})
		})
	}
	return left, err
}

func (s *Service) now() time.Time { return s.Recorder.Now().UTC() }
