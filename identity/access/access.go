// Package access stores requests for access to a site and the temporary grants of operators, and serves both as a JSON
// API. (docs/decisions/gateway.md#requested-access)
package access

import (
	"context"
	"encoding/base64"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/authn"
	"github.com/gatehouse-id/gatehouse/internal/recheck"
	"github.com/gatehouse-id/gatehouse/storage"
)

// State is the state of a request.
type State string

// The states.
const (
	Open    State = "open"
	Granted State = "granted"
	Refused State = "refused"
	Revoked State = "revoked"
)

const (
	maxReason   = 300 // characters of a reason or note
	minReason   = 3
	askAgain    = time.Hour           // after which a person can ask again for a site
	tellAgain   = 24 * time.Hour      // after which operators are told again that the person asks for the site
	maxOpen     = 20                  // open requests of a person
	kept        = 30 * 24 * time.Hour // how long an open or decided request is kept
	defaultEnd  = 30 * 24 * time.Hour // of a grant that has a number of uses alone
	longest     = 365 * 24 * time.Hour
	mostUses    = 1000
	useDuration = 15 * time.Minute // what one use is
)

// Request is one person's request for one site.
type Request struct {
	ID       string    `json:"id"`
	Person   string    `json:"person_id"`
	Username string    `json:"username"`
	Site     string    `json:"site"` // origin
	State    State     `json:"state"`
	Reason   string    `json:"reason"`
	AskedAt  time.Time `json:"asked_at"`
	Decided  time.Time `json:"decided_at,omitzero"`
	By       string    `json:"decided_by,omitempty"`
	Note     string    `json:"note,omitempty"`
	Ends     time.Time `json:"ends_at,omitzero"` // of a grant
	Uses     int       `json:"uses,omitempty"`   // that the grant has. Absent: any number
	Used     int       `json:"used,omitempty"`
}

// Terms are those of a grant.
type Terms struct {
	For  time.Duration // 0: 30 days, if there is a number of uses
	Uses int           // 0: any number
}

// Deps are the dependencies of the requests. All but Tell are required.
type Deps struct {
	Store  storage.Store
	Events *audit.Recorder
	Now    func() time.Time
	// Tell tells operators of an open request, and the person of a decision, in the transaction of its cause. nil:
	// no one is told.
	Tell func(tx storage.Tx, r Request, now time.Time) error
}

// Service keeps the requests of a store. It is safe for concurrent use.
type Service struct{ deps Deps }

// New returns the requests of a store. Several can share one.
func New(deps Deps) *Service { return &Service{deps} }

func request(key string, rec *requestRecord, now time.Time) Request {
	parts := storage.Parts(key)
	out := Request{
		ID: idOf(key), Person: parts[0], Site: parts[1], Username: rec.Username, State: rec.State, Reason: rec.Reason, AskedAt: rec.AskedAt,
		Decided: rec.DecidedAt, By: rec.DecidedBy, Note: rec.Note, Ends: rec.Ends, Uses: rec.Uses, Used: rec.Used,
	}
	if rec.State == Granted && !rec.holds(now) {
		out.State = Revoked // it has ended by itself
	}
	return out
}

// idOf names a request in addresses.
func idOf(key string) string { return base64.RawURLEncoding.EncodeToString([]byte(key)) }

// parseID returns the person and site of an id.
func parseID(id string) (personID, site string, ok bool) {
	key, err := base64.RawURLEncoding.Strict().DecodeString(id)
	parts := storage.Parts(string(key))
	if err != nil || len(parts) != 2 || storage.Key(parts...) != string(key) {
		return "", "", false
	}
	return parts[0], parts[1], true
}

// holds reports whether a grant lets its person pass, now or once more.
func (r *requestRecord) holds(now time.Time) bool {
	return r.State == Granted && r.Ends.After(now) && (r.Uses == 0 || r.Used < r.Uses || r.UseLasts.After(now))
}

// clean returns a text of one line, or ErrReason.
func clean(text string, least int) (string, error) {
	text = strings.TrimSpace(text)
	if n := utf8.RuneCountInString(text); !utf8.ValidString(text) || n < least || n > maxReason || authn.Turns(text) ||
		strings.IndexFunc(text, unicode.IsControl) >= 0 {
		return "", ErrReason
	}
	return text, nil
}

// Ask stores the request of a person, who is the actor, and the event that tells operators of it. A person has one
// request for a site, and can ask again an hour after the last time, unless it is still open.
func (s *Service) Ask(ctx context.Context, site, reason string, by audit.Actor) error {
	reason, err := clean(reason, minReason)
	if err != nil {
		return err
	}
	ev, err := s.deps.Events.New(eventRequested, by.Origin)
	if err != nil {
		return err
	}
	ev = by.Fill(ev, by.ID, site+": "+reason)
	now := s.deps.Now().UTC()
	return s.deps.Store.Update(ctx, func(tx storage.Tx) error {
		open, told := 0, time.Time{}
		for e, err := range requests.Scan(tx, storage.Range{Prefix: storage.Prefix(by.ID)}) {
			if err != nil {
				return err
			}
			live := e.Value.State == Open && e.Value.AskedAt.Add(kept).After(now)
			if live {
				open++
			}
			this := storage.Parts(e.Key)[1] == site
			if this {
				told = e.Value.ToldAt
			}
			switch {
			case this && (live || e.Value.holds(now)):
				return ErrOpen
			case this && e.Value.AskedAt.Add(askAgain).After(now):
				return ErrTooSoon
			}
		}
		if open >= maxOpen {
			return ErrTooSoon
		}
		rec, key := requestRecord{State: Open, Username: by.Name, Reason: reason, AskedAt: now, ToldAt: told}, storage.Key(by.ID, site)
		if s.deps.Tell != nil && !told.Add(tellAgain).After(now) {
			rec.ToldAt = now
			if err := s.deps.Tell(tx, request(key, &rec, now), now); err != nil {
				return err
			}
		}
		if err := requests.Put(tx, key, rec, now.Add(kept)); err != nil {
			return err
		}
		return s.deps.Events.Append(tx, ev)
	})
}

// Find returns the request of a person for a site, or ErrNone.
func (s *Service) Find(ctx context.Context, personID, site string) (out Request, err error) {
	now, key := s.deps.Now(), storage.Key(personID, site)
	err = s.deps.Store.View(ctx, func(tx storage.Tx) error {
		rec, found, err := requests.Find(tx, key)
		if err != nil {
			return err
		}
		if !found || rec.expires().Before(now) {
			return ErrNone
		}
		out = request(key, &rec, now)
		return nil
	})
	return out, err
}

// Get returns the request of an id, or ErrNone.
func (s *Service) Get(ctx context.Context, id string) (Request, error) {
	personID, site, ok := parseID(id)
	if !ok {
		return Request{}, ErrNone
	}
	return s.Find(ctx, personID, site)
}

// expires returns the time from which a record is of no more use.
func (r *requestRecord) expires() time.Time {
	out := r.AskedAt.Add(kept)
	for _, t := range []time.Time{r.DecidedAt.Add(kept), r.Ends.Add(kept)} {
		if t.After(out) {
			out = t
		}
	}
	return out
}

// Filter says which requests List returns. The zero value: all.
type Filter struct {
	Person, Site string // empty: any
	State        State  // empty: any
	After        string // the id of the last request of the list before
	Limit        int    // 0: any number
	// Sees reports whether the caller may know of a person. nil: of everybody.
	Sees func(tx storage.Tx, personID string) (bool, error)
}

// List returns requests, those of a person together.
func (s *Service) List(ctx context.Context, f Filter) (out []Request, err error) {
	now, in := s.deps.Now(), storage.Range{}
	if f.Person != "" {
		in.Prefix = storage.Prefix(f.Person)
	}
	if personID, site, ok := parseID(f.After); ok {
		in.After = []byte(storage.Key(personID, site))
	}
	err = s.deps.Store.View(ctx, func(tx storage.Tx) error {
		out = []Request{}
		for e, err := range requests.Scan(tx, in) {
			if err != nil {
				return err
			}
			r := request(e.Key, &e.Value, now)
			seen := e.Value.expires().After(now) && (f.Site == "" || r.Site == f.Site) && (f.State == "" || r.State == f.State)
			if seen && f.Sees != nil {
				if seen, err = f.Sees(tx, r.Person); err != nil {
					return err
				}
			}
			if seen {
				out = append(out, r)
			}
			if f.Limit > 0 && len(out) == f.Limit {
				break
			}
		}
		return nil
	})
	return out, err
}

// Grant lets a person pass who has asked, or changes what was decided.
func (s *Service) Grant(ctx context.Context, personID, site string, terms Terms, note string, by audit.Actor) (Request, error) {
	if terms.For < 0 || terms.For > longest || terms.Uses < 0 || terms.Uses > mostUses || terms == (Terms{}) {
		return Request{}, ErrTerms
	}
	if terms.For == 0 {
		terms.For = defaultEnd
	}
	return s.decide(ctx, personID, site, note, eventGranted, by, func(rec *requestRecord, now time.Time) error {
		rec.State, rec.Ends, rec.Uses, rec.Used, rec.UseLasts = Granted, now.Add(terms.For), terms.Uses, 0, time.Time{}
		return nil
	})
}

// Refuse turns an open request down.
func (s *Service) Refuse(ctx context.Context, personID, site, note string, by audit.Actor) (Request, error) {
	return s.decide(ctx, personID, site, note, eventRefused, by, func(rec *requestRecord, _ time.Time) error {
		if rec.State != Open {
			return ErrState
		}
		rec.State = Refused
		return nil
	})
}

// Revoke ends a grant at once.
func (s *Service) Revoke(ctx context.Context, personID, site, note string, by audit.Actor) (Request, error) {
	return s.decide(ctx, personID, site, note, eventRevoked, by, func(rec *requestRecord, now time.Time) error {
		if !rec.holds(now) {
			return ErrState
		}
		rec.State, rec.Ends = Revoked, now
		return nil
	})
}

// Decision is Refuse or Revoke.
type Decision = func(ctx context.Context, personID, site, note string, by audit.Actor) (Request, error)

// decide changes the request of a person, with its event.
func (s *Service) decide(ctx context.Context, personID, site, note string, kind audit.Type, by audit.Actor,
	change func(*requestRecord, time.Time) error,
) (out Request, err error) {
	if note, err = clean(note, 0); err != nil {
		return out, err
	}
	ev, err := s.deps.Events.New(kind, by.Origin)
	if err != nil {
		return out, err
	}
	told := site
	if note != "" {
		told += ": " + note
	}
	ev = by.Fill(ev, personID, told)
	now, key := s.deps.Now().UTC(), storage.Key(personID, site)
	err = s.deps.Store.Update(ctx, func(tx storage.Tx) error {
		rec, found, err := requests.Find(tx, key)
		if err != nil {
			return err
		}
		if !found || rec.expires().Before(now) {
			return ErrNone
		}
		if err := change(&rec, now); err != nil {
			return err
		}
		rec.DecidedAt, rec.DecidedBy, rec.Note = now, by.Name, note
		if err := requests.Put(tx, key, rec, rec.expires()); err != nil {
			return err
		}
		out = request(key, &rec, now)
		if s.deps.Tell != nil {
			if err := s.deps.Tell(tx, out, now); err != nil {
				return err
			}
		}
		return s.deps.Events.Append(tx, ev)
	})
	return out, err
}

// Holds reports whether a person has a grant for a site that lets pass now, and what that rests on. It counts no use:
// one that has begun counts for what it has opened, too.
func (s *Service) Holds(ctx context.Context, personID, site string) (ok bool, on recheck.Basis, err error) {
	now, key := s.deps.Now().UTC(), storage.Key(personID, site)
	find := func(tx storage.Tx) error {
		rec, _, err := requests.Find(tx, key)
		if ok = err == nil && rec.holds(now); ok {
			on.Until = rec.until()
		}
		return err
	}
	if tracker, can := s.deps.Store.(storage.Tracker); can {
		on.Reading, err = tracker.Track(ctx, find)
	} else {
		err = s.deps.Store.View(ctx, find)
	}
	return ok && err == nil, on, err
}

// until returns the end of a valid grant if no one passes by it any more: by its time, or after its last use.
func (r *requestRecord) until() time.Time {
	if r.Uses > 0 && r.Used >= r.Uses && r.UseLasts.Before(r.Ends) {
		return r.UseLasts
	}
	return r.Ends
}

// Use reports whether a person has a grant for a site, and counts a use of it unless one is under way.
func (s *Service) Use(ctx context.Context, personID, site string) (ok bool, err error) {
	now, key, count := s.deps.Now().UTC(), storage.Key(personID, site), false
	err = s.deps.Store.View(ctx, func(tx storage.Tx) error {
		rec, _, err := requests.Find(tx, key)
		ok = err == nil && rec.holds(now)
		count = ok && rec.Uses > 0 && !rec.UseLasts.After(now)
		return err
	})
	if err != nil || !count {
		return ok && err == nil, err
	}
	err = s.deps.Store.Update(ctx, func(tx storage.Tx) error {
		rec, _, err := requests.Find(tx, key)
		if ok = err == nil && rec.holds(now); !ok || rec.Uses == 0 || rec.UseLasts.After(now) {
			return err
		}
		rec.Used++
		rec.UseLasts = now.Add(useDuration)
		return requests.Put(tx, key, rec, rec.expires())
	})
	return ok && err == nil, err
}
