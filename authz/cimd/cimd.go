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
	"time"

	"github.com/gatehouse-id/gatehouse/authz/oauth"
	"github.com/gatehouse-id/gatehouse/internal/denial"
	"github.com/gatehouse-id/gatehouse/internal/doccache"
)

// Defaults of Config.
const (
	defaultMaxSize  = 64 << 10
	defaultTimeout  = 5 * time.Second
	defaultShortest = time.Hour
	defaultLongest  = 24 * time.Hour
	defaultClients  = 1000
)

// A document past its time is good enough to refresh tokens for lastGood.
const lastGood = 24 * time.Hour

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
	kept *doccache.Cache[*Document]
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
	return &Documents{cfg: cfg, http: client, now: now, kept: doccache.New[*Document](cfg.Clients, now)}
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
	if !asked {
		if doc := d.Known(ctx, id); doc != nil {
			return doc, nil
		}
		return nil, ErrUnknown
	}
	doc, err := d.kept.Find(ctx, id, a.address, func(ctx context.Context) (*Document, time.Time, error) {
		doc, err := d.fetch(ctx, id)
		if err != nil {
			return nil, time.Time{}, err
		}
		return doc, doc.Until, nil
	})
	switch {
	case err == nil || doc != nil && d.Refreshes(ctx, doc.Until):
		return doc, nil
	case errors.Is(err, doccache.ErrBusy):
		err = oauth.TemporarilyUnavailable(denial.New(denial.ClientDocument, "too many metadata documents of clients are fetched"))
	case !errors.As(err, new(*oauth.Error)): // the caller has left
		err = oauth.TemporarilyUnavailable(err)
	}
	return nil, err
}

// Known returns what Find would return without a fetch, or nil.
func (d *Documents) Known(ctx context.Context, id string) *Document {
	doc, ok := d.kept.Known(id)
	if _, asked := ctx.Value(askingKey{}).(asking); !ok || asked && !doc.Until.After(d.now()) {
		return nil
	}
	return doc
}

// AllowsOrigin reports whether scripts of an origin belong to a client that is remembered. every is the origin that
// stands for each port of a loopback host, or empty.
func (d *Documents) AllowsOrigin(origin, every string) bool {
	for doc := range d.kept.All() {
		if o := doc.Client.ScriptOrigins(); slices.Contains(o, origin) || (every != "" && slices.Contains(o, every)) {
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
