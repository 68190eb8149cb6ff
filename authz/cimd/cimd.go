// Package cimd resolves clients whose id is the address of their metadata document
// (draft-ietf-oauth-client-id-metadata-document): it fetches, checks and caches the document.
package cimd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gatehouse-id/gatehouse/authz/oauth"
	"github.com/gatehouse-id/gatehouse/internal/denial"
)

// Defaults of Config.
const (
	defaultMaxSize  = 64 << 10
	defaultTimeout  = 5 * time.Second
	defaultShortest = time.Hour
	defaultLongest  = 24 * time.Hour
	defaultClients  = 1000
)

const (
	failureKept = 30 * time.Second
	lastGood    = 24 * time.Hour // how long a document past its time is good enough to refresh tokens
	perMinute   = 10             // fetches that one address can cause
	maxCallers  = 1 << 14        // addresses that are counted
	atOnce      = 16             // fetches at a time
)

// Config says which documents are fetched. The zero value of a member is its default.
type Config struct {
	On bool
	// Trust are hosts, and *.example.com for those below, of which people are not told that no one has verified them.
	Trust    []string
	MaxSize  int64
	Timeout  time.Duration
	Shortest time.Duration // the shortest and the longest time for which a document is not fetched again
	Longest  time.Duration
	Clients  int // that are remembered
	// Schemes are private schemes of redirect URIs besides those that are a domain name turned round. Default: cursor.
	Schemes []string
}

// Documents are the clients that have a metadata document. They are safe for concurrent use.
type Documents struct {
	cfg  Config
	http *http.Client
	now  func() time.Time

	mu      sync.Mutex // guards all below; it is not held while a document is fetched
	known   map[string]*cachedDocument
	failed  map[string]failure
	running map[string]chan struct{} // closed when the fetch is done
	minute  time.Time
	callers map[string]int // fetches of this minute
}

type cachedDocument struct {
	*Document

	used time.Time
}

type failure struct {
	err   error
	until time.Time
}

// New returns the clients of one configuration. client makes the requests, and must refuse addresses that are not
// public.
func New(cfg Config, client *http.Client, now func() time.Time) *Documents {
	cfg.MaxSize, cfg.Timeout = cmp.Or(cfg.MaxSize, defaultMaxSize), cmp.Or(cfg.Timeout, defaultTimeout)
	cfg.Shortest, cfg.Longest = cmp.Or(cfg.Shortest, defaultShortest), cmp.Or(cfg.Longest, defaultLongest)
	cfg.Longest, cfg.Clients = max(cfg.Longest, cfg.Shortest), cmp.Or(cfg.Clients, defaultClients)
	if cfg.Schemes == nil {
		cfg.Schemes = []string{"cursor"}
	}
	return &Documents{
		cfg: cfg, http: client, now: now, known: map[string]*cachedDocument{}, failed: map[string]failure{},
		running: map[string]chan struct{}{}, callers: map[string]int{},
	}
}

// On reports whether documents are looked at.
func (d *Documents) On() bool { return d.cfg.On }

// Schemes are the private schemes of Config.
func (d *Documents) Schemes() []string { return d.cfg.Schemes }

// Takes reports whether a client id is the address of a document, and documents are looked at.
func (d *Documents) Takes(id string) bool {
	return d.cfg.On && strings.HasPrefix(id, "https://") && isID(id)
}

// Trusts reports whether the operator knows the host of a client.
func (d *Documents) Trusts(id string) bool {
	host := HostOf(id)
	return slices.ContainsFunc(d.cfg.Trust, func(t string) bool {
		below, wild := strings.CutPrefix(t, "*")
		return t == host || (wild && strings.HasSuffix(host, below))
	})
}

// asking is the cause of a request, and its purpose.
type asking struct {
	address   string
	refreshes bool
}

type askingKey struct{}

// Asking says for which address documents are fetched. Without it, none are: what is remembered counts. refreshes says
// that it is to refresh tokens, for which the last good document will do.
func Asking(ctx context.Context, address string, refreshes bool) context.Context {
	return context.WithValue(ctx, askingKey{}, asking{address, refreshes})
}

// ErrUnknown says that nothing is remembered of a client, and no one asks for it.
var ErrUnknown = errors.New("the metadata document of the client is not known here")

// Refreshes reports whether a document that was good until then will do for what is asked.
func (d *Documents) Refreshes(ctx context.Context, until time.Time) bool {
	a, _ := ctx.Value(askingKey{}).(asking)
	return a.refreshes && d.now().Sub(until) < lastGood
}

// Find returns the document of a client id that Takes accepts. It is fetched when it is not remembered or is past its
// time. The error is one for the answer.
func (d *Documents) Find(ctx context.Context, id string) (*Document, error) {
	a, asked := ctx.Value(askingKey{}).(asking)
	for {
		d.mu.Lock()
		now := d.now()
		have := d.known[id]
		if have != nil && (have.Until.After(now) || !asked) {
			have.used = now
			d.mu.Unlock()
			return have.Document, nil
		}
		if !asked {
			d.mu.Unlock()
			return nil, ErrUnknown
		}
		if f, bad := d.failed[id]; bad && f.until.After(now) {
			d.mu.Unlock()
			return d.lastGood(ctx, have, f.err)
		}
		if busy := d.running[id]; busy != nil {
			d.mu.Unlock()
			select {
			case <-busy:
				continue
			case <-ctx.Done():
				return nil, oauth.TemporarilyUnavailable(ctx.Err())
			}
		}
		if err := d.admit(a.address, now); err != nil {
			d.mu.Unlock()
			return d.lastGood(ctx, have, err)
		}
		done := make(chan struct{})
		d.running[id] = done
		d.mu.Unlock()
		doc, err := d.fetch(context.WithoutCancel(ctx), id)
		d.mu.Lock()
		delete(d.running, id)
		d.keep(id, doc, err)
		d.mu.Unlock()
		close(done)
		if err != nil {
			return d.lastGood(ctx, have, err)
		}
		return doc, nil
	}
}

// Known returns what Find would return without a fetch, or nil.
func (d *Documents) Known(ctx context.Context, id string) *Document {
	_, asked := ctx.Value(askingKey{}).(asking)
	d.mu.Lock()
	defer d.mu.Unlock()
	have, now := d.known[id], d.now()
	if have == nil || asked && !have.Until.After(now) {
		return nil
	}
	have.used = now
	return have.Document
}

func (d *Documents) lastGood(ctx context.Context, have *cachedDocument, err error) (*Document, error) {
	if have != nil && d.Refreshes(ctx, have.Until) {
		return have.Document, nil
	}
	return nil, err
}

// admit counts one more fetch that an address causes. mu is held.
func (d *Documents) admit(address string, now time.Time) error {
	if minute := now.Truncate(time.Minute); !minute.Equal(d.minute) || len(d.callers) >= maxCallers {
		d.minute = minute
		clear(d.callers)
	}
	if d.callers[address] >= perMinute || len(d.running) >= atOnce {
		return oauth.TemporarilyUnavailable(denial.New(denial.ClientDocument, "too many metadata documents of clients are fetched"))
	}
	d.callers[address]++
	return nil
}

// keep remembers a document, or for a short time the failure. mu is held.
func (d *Documents) keep(id string, doc *Document, err error) {
	now := d.now()
	if err != nil {
		if len(d.failed) >= d.cfg.Clients {
			clear(d.failed)
		}
		d.failed[id] = failure{err, now.Add(failureKept)}
		return
	}
	delete(d.failed, id)
	if d.known[id] == nil && len(d.known) >= d.cfg.Clients {
		oldest := ""
		for other, k := range d.known {
			if oldest == "" || k.used.Before(d.known[oldest].used) {
				oldest = other
			}
		}
		delete(d.known, oldest)
	}
	d.known[id] = &cachedDocument{doc, now}
}

// AllowsOrigin reports whether scripts of an origin belong to a client that is remembered. every is the origin that
// stands for each port of a loopback host, or empty.
func (d *Documents) AllowsOrigin(origin, every string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, k := range d.known {
		if o := k.Client.ScriptOrigins(); slices.Contains(o, origin) || (every != "" && slices.Contains(o, every)) {
			return true
		}
	}
	return false
}

// unusable refuses a client whose document cannot be used.
func unusable(cause error) error {
	return oauth.InvalidClient(fmt.Errorf("%w: %w", errDocument, cause))
}

// away refuses a client whose document cannot be fetched at the moment.
func away(cause error) error {
	return oauth.TemporarilyUnavailable(fmt.Errorf("%w: %w", errDocument, cause))
}

var errDocument = denial.New(denial.ClientDocument, "the metadata document of the client cannot be used")
