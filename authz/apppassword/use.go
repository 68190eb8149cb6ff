package apppassword

import (
	"context"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/authz/oauth"
	"github.com/gatehouse-id/gatehouse/authz/token"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

// A calendar asks thousands of times a day. The first use from an address at a site has an event of its own, which is
// durable before the request goes on. Further uses from there within a minute are counted in memory and get one event
// together. An app password with a usage limit has an event for each use.
// (docs/decisions/introspection.md#uses-of-app-passwords)

const (
	together = time.Minute
	maxSeen  = 10_000 // places that are counted at a time; further uses have an event each
	// writeEvery is the interval of writing the counts that are due, and lastWrite bounds the last write.
	writeEvery = 15 * time.Second
	lastWrite  = 5 * time.Second
)

// place is a place at which an app password is used.
type place struct{ hash, site, address string }

// recent is the uses of an app password at a place within a minute, after the first one.
type recent struct {
	place

	person, id  string
	agent       string
	since, last time.Time
	count       int
	expires     time.Time // of the app password
}

// Use counts one use of an app password at a site and returns its state, this use included. What an operator must be
// able to see later is durable when Use returns.
func (p *Passwords) Use(ctx context.Context, text, site string, from audit.Origin) (*token.Introspection, error) {
	in, err := p.Introspect(ctx, text)
	if err != nil || !in.Active {
		return in, err
	}
	u := recent{
		place: place{secret.Hash(text), site, from.ClientIP}, person: in.Subject, id: in.AppPassword, agent: from.UserAgent,
		since: p.now(), expires: in.ExpiresAt,
	}
	u.last = u.since
	if in.UsageLimit > 0 {
		return p.count(ctx, u)
	}
	kept, first := p.isFirst(u)
	if !first {
		return in, nil
	}
	if err := p.write(ctx, u, 1, "at "+siteName(site)); err != nil {
		p.drop(kept)
		return nil, oauth.StorageError(err)
	}
	return in, nil
}

// isFirst reports whether a use is the first one of its minute and place, and otherwise counts it. kept is what further
// uses are counted in; others change it.
func (p *Passwords) isFirst(u recent) (kept *recent, first bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	have := p.seen[u.place]
	if have != nil && u.since.Sub(have.since) < together {
		have.count++
		have.last = u.since
		return have, false
	}
	if have != nil && have.count > 0 {
		p.due = append(p.due, *have)
	}
	if have != nil || len(p.seen) < maxSeen {
		p.seen[u.place] = &u
	}
	return &u, true
}

// drop forgets a use that could not be written, so the next one is the first of its minute.
func (p *Passwords) drop(kept *recent) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.seen[kept.place] != kept {
		return
	}
	delete(p.seen, kept.place)
	if kept.count > 0 { // others that came meanwhile
		p.due = append(p.due, *kept)
	}
}

// count is Use for an app password with a usage limit.
func (p *Passwords) count(ctx context.Context, u recent) (*token.Introspection, error) {
	made, err := p.deps.Events.New(eventUsed, u.origin())
	if err != nil {
		return nil, oauth.ServerError(err)
	}
	in := new(token.Introspection)
	err = p.deps.Store.Update(ctx, func(tx storage.Tx) error {
		in = new(token.Introspection)
		if _, err := p.inspect(tx, u.hash, u.since, in); err != nil || !in.Active {
			return err
		}
		if in.UsedUp() {
			in = new(token.Introspection)
			return nil
		}
		in.UsageCount++
		return p.record(tx, u, made, fmt.Sprintf("use %d of %d at %s", in.UsageCount, in.UsageLimit, siteName(u.site)), 1)
	})
	if err != nil {
		return nil, oauth.StorageError(err)
	}
	return in, nil
}

// write writes the event of n uses.
func (p *Passwords) write(ctx context.Context, u recent, n int, reason string) error {
	made, err := p.deps.Events.New(eventUsed, u.origin())
	if err != nil {
		return err
	}
	return p.deps.Store.Update(ctx, func(tx storage.Tx) error { return p.record(tx, u, made, reason, n) })
}

// record appends the event of n uses, and says when and where the last one was.
func (p *Passwords) record(tx storage.Tx, u recent, e audit.Event, reason string, n int) error {
	rec, found, err := uses.Find(tx, u.hash)
	if err != nil {
		return err
	}
	if found { // else it was revoked meanwhile
		rec.Count += n
		if !u.last.Before(rec.At) {
			rec.At, rec.Address, rec.Site = u.last, u.address, u.site
		}
		if err := uses.Put(tx, u.hash, rec, u.expires.Add(token.CollectMargin)); err != nil {
			return err
		}
	}
	e.PersonID, e.Actor, e.Reason = u.person, u.person, reason+" (app password "+u.id+")"
	return p.deps.Events.Append(tx, e)
}

func (u recent) origin() audit.Origin { return audit.Origin{ClientIP: u.address, UserAgent: u.agent} }

// siteName names a site in an event.
func siteName(site string) string {
	if site == "" {
		return "a resource server"
	}
	return site
}

// writeDue writes the counts of minutes that are over, or all of them. What cannot be written is tried again.
func (p *Passwords) writeDue(ctx context.Context, all bool) error {
	now := p.now()
	p.mu.Lock()
	list := p.due
	p.due = nil
	for at, u := range p.seen {
		if all || now.Sub(u.since) >= together {
			delete(p.seen, at)
			if u.count > 0 {
				list = append(list, *u)
			}
		}
	}
	p.mu.Unlock()
	for i, u := range list {
		reason := fmt.Sprintf("%d more times from %s to %s at %s", u.count, u.since.Format(time.RFC3339),
			u.last.Format(time.RFC3339), siteName(u.site))
		if err := p.write(ctx, u, u.count, reason); err != nil {
			p.mu.Lock()
			p.due = append(p.due, list[i:]...)
			p.mu.Unlock()
			return err
		}
	}
	return nil
}

// Run writes counts until ctx ends, and then those that are left.
func (p *Passwords) Run(ctx context.Context) {
	tick := time.NewTicker(writeEvery)
	defer tick.Stop()
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-tick.C:
			if err := p.writeDue(ctx, false); err != nil && ctx.Err() == nil {
				p.deps.Log.Error("uses of app passwords not written; trying again", zap.Error(err))
			}
		}
	}
	last, stop := context.WithTimeout(context.WithoutCancel(ctx), lastWrite)
	defer stop()
	if err := p.writeDue(last, true); err != nil {
		p.deps.Log.Error("uses of app passwords in the last minute not written", zap.Error(err))
	}
}
