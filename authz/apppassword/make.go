package apppassword

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/gatehouse-id/gatehouse/authz/client"
	"github.com/gatehouse-id/gatehouse/authz/token"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/authn"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

const (
	maxPerPerson = 50 // live ones
	maxLife      = 366 * 24 * time.Hour
	maxLimit     = 1_000_000_000
)

var errRequest = errors.New("name, lifetime or number of uses out of range")

// offered returns the sites for which a person can make an app password, sorted, with the scopes that the level of the
// person's sign-in allows.
func (p *Passwords) offered(who authn.Subject, level int) (out []authn.AppPasswordSite) {
	for i := range p.deps.Sites {
		s := &p.deps.Sites[i]
		if !s.admits(who) {
			continue
		}
		at := slices.IndexFunc(out, func(o authn.AppPasswordSite) bool { return o.Origin == s.Origin })
		if at < 0 {
			at = len(out)
			out = append(out, authn.AppPasswordSite{Origin: s.Origin})
		}
		for _, name := range s.Scopes {
			known := slices.ContainsFunc(out[at].Scopes, func(sc authn.Scope) bool { return sc.Name == name })
			if !known && p.deps.Clients.ScopeLevel([]string{name}) <= level && len(p.deps.Clients.Assured([]string{name}, &who, p.now())) > 0 {
				out[at].Scopes = append(out[at].Scopes, authn.Scope{Name: name, Description: p.deps.Clients.Scope(name).Description})
			}
		}
	}
	slices.SortFunc(out, func(a, b authn.AppPasswordSite) int { return strings.Compare(a.Origin, b.Origin) })
	return out
}

// OfferedTo returns what is offered to a person as tx sees them. It is empty while the settings do not allow app
// passwords.
func (p *Passwords) OfferedTo(tx storage.Tx, person string, level int) ([]authn.AppPasswordSite, error) {
	if len(p.deps.Sites) == 0 {
		return nil, nil
	}
	if allowed, err := p.deps.Allowed(tx); err != nil || !allowed {
		return nil, err
	}
	st, good, err := p.deps.Tokens.CheckStanding(tx, "", person)
	if err != nil || !good {
		return nil, err
	}
	return p.offered(st.Subject, level), nil
}

// isOffered reports whether a person can choose these sites and scopes. A scope must be one that one of the sites asks
// for.
func isOffered(offered []authn.AppPasswordSite, sites, scopes []string) bool {
	var possible []string
	for _, site := range sites {
		at := slices.IndexFunc(offered, func(o authn.AppPasswordSite) bool { return o.Origin == site })
		if at < 0 {
			return false
		}
		for _, sc := range offered[at].Scopes {
			possible = append(possible, sc.Name)
		}
	}
	return len(sites) > 0 && client.IsSubset(scopes, possible)
}

// Make makes an app password and returns it. first is called in the transaction before anything is written, and last
// after that; their errors undo it.
func (p *Passwords) Make(ctx context.Context, q authn.AppPasswordRequest, by audit.Actor, first,
	last func(tx storage.Tx) error,
) (secret.String, error) {
	if q.Name == "" || q.Life <= 0 || q.Life > maxLife || q.Limit < 0 || q.Limit > maxLimit {
		return secret.String{}, errRequest
	}
	text, err := secret.NewToken(p.deps.Random, secret.AppPassword)
	if err != nil {
		return secret.String{}, err
	}
	id, err := secret.ID(p.deps.Random, idBytes)
	if err != nil {
		return secret.String{}, err
	}
	e, err := p.deps.Events.New(eventMade, by.Origin)
	if err != nil {
		return secret.String{}, err
	}
	e = by.Fill(e, q.Person, q.Name+" (app password "+id+") for "+strings.Join(q.Sites, " "))
	now, hash := p.now(), secret.Hash(text)
	rec := passwordRecord{
		ID: id, Person: q.Person, Name: q.Name, Sites: q.Sites, Scope: q.Scopes, CreatedAt: now, ExpiresAt: now.Add(q.Life),
		AuthTime: q.AuthTime, Level: q.Level, AMR: q.AMR, Provider: q.Provider, Vouched: q.Vouched, UsageLimit: q.Limit,
	}
	if least := p.deps.Clients.UsageLimit(q.Scopes); least > 0 && (q.Limit == 0 || least < q.Limit) {
		rec.UsageLimit = least
	}
	err = p.deps.Store.Update(ctx, func(tx storage.Tx) error {
		if err := first(tx); err != nil {
			return err
		}
		offered, err := p.OfferedTo(tx, q.Person, q.Level)
		if err != nil {
			return err
		}
		if !isOffered(offered, q.Sites, q.Scopes) {
			return authn.ErrNotOffered
		}
		have, err := p.List(tx, q.Person, now)
		if err != nil {
			return err
		}
		if len(have) >= maxPerPerson {
			return authn.ErrTooManyAppPasswords
		}
		if err := p.put(tx, hash, rec); err != nil {
			return err
		}
		if err := p.deps.Events.Append(tx, e); err != nil {
			return err
		}
		return last(tx)
	})
	if err != nil {
		return secret.String{}, err
	}
	return secret.New(text), nil
}

// idBytes is the number of bytes of an id.
const idBytes = 16

// put stores a new app password, which depends on its person as they are now.
func (p *Passwords) put(tx storage.Tx, hash string, rec passwordRecord) error {
	st, good, err := p.deps.Tokens.CheckStanding(tx, "", rec.Person)
	if err != nil {
		return err
	}
	if !good {
		return authn.ErrNotOffered
	}
	rec.Epochs = st.Epochs
	ends := rec.ExpiresAt.Add(token.CollectMargin)
	if err := passwords.Create(tx, hash, rec, ends); err != nil {
		return err
	}
	if err := ofPerson.Create(tx, storage.Key(rec.Person, rec.ID), hash, ends); err != nil {
		return err
	}
	return uses.Create(tx, hash, useRecord{}, ends)
}

// List returns the app passwords of a person that work now, the newest first.
func (p *Passwords) List(tx storage.Tx, person string, now time.Time) (out []authn.AppPassword, err error) {
	st, good, err := p.deps.Tokens.CheckStanding(tx, "", person)
	if err != nil || !good {
		return nil, err
	}
	for e, err := range ofPerson.Scan(tx, storage.Range{Prefix: storage.Prefix(person)}) {
		if err != nil {
			return nil, err
		}
		rec, found, err := passwords.Find(tx, e.Value)
		if err != nil {
			return nil, err
		}
		if !found || rec.Epochs != st.Epochs || !rec.signIn().Counts(&st.Subject) || !rec.ExpiresAt.After(now) {
			continue
		}
		used, found, err := uses.Find(tx, e.Value)
		if err != nil {
			return nil, err
		}
		if rec.UsageLimit > 0 && (!found || used.Count >= rec.UsageLimit) {
			continue
		}
		out = append(out, authn.AppPassword{
			ID: rec.ID, Name: rec.Name, Sites: rec.Sites, Scopes: rec.Scope, Since: rec.CreatedAt, Until: rec.ExpiresAt, Limit: rec.UsageLimit,
			Count: used.Count, Last: used.At, LastAddress: used.Address, LastSite: used.Site,
		})
	}
	slices.SortStableFunc(out, func(a, b authn.AppPassword) int { return b.Since.Compare(a.Since) })
	return out, nil
}

// Revoke ends an app password of a person and returns storage.ErrNotFound for an unknown id. first is
// called in the transaction before anything is written; its error undoes it.
func (p *Passwords) Revoke(ctx context.Context, person, id string, by audit.Actor, first func(tx storage.Tx) error) error {
	e, err := p.deps.Events.New(EventRevoked, by.Origin)
	if err != nil {
		return err
	}
	return p.deps.Store.Update(ctx, func(tx storage.Tx) error {
		if err := first(tx); err != nil {
			return err
		}
		return p.revoke(tx, person, id, by.Fill(e, person, ""))
	})
}

func (p *Passwords) revoke(tx storage.Tx, person, id string, e audit.Event) error {
	hash, found, err := ofPerson.Find(tx, storage.Key(person, id))
	if err != nil {
		return err
	}
	if !found {
		return storage.ErrNotFound
	}
	rec, _, err := passwords.Find(tx, hash)
	if err != nil {
		return err
	}
	if err := drop(tx, person, id, hash); err != nil {
		return err
	}
	e.Reason = rec.Name + " (app password " + id + ")"
	return p.deps.Events.Append(tx, e)
}

// RevokeText ends an app password that was found somewhere. Other text changes nothing.
func (p *Passwords) RevokeText(ctx context.Context, text string, by audit.Actor) error {
	if !secret.IsToken(secret.AppPassword, text) {
		return nil
	}
	e, err := p.deps.Events.New(EventRevoked, by.Origin)
	if err != nil {
		return err
	}
	hash := secret.Hash(text)
	return p.deps.Store.Update(ctx, func(tx storage.Tx) error {
		rec, found, err := passwords.Find(tx, hash)
		if err != nil || !found {
			return err
		}
		return p.revoke(tx, rec.Person, rec.ID, by.Fill(e, rec.Person, ""))
	})
}

// Drop ends an app password of a person without an event.
func (p *Passwords) Drop(tx storage.Tx, person, id string) error {
	hash, found, err := ofPerson.Find(tx, storage.Key(person, id))
	if err != nil || !found {
		return err
	}
	return drop(tx, person, id, hash)
}

func drop(tx storage.Tx, person, id, hash string) error {
	return errors.Join(passwords.Delete(tx, hash), uses.Delete(tx, hash), ofPerson.Delete(tx, storage.Key(person, id)))
}

// Forget removes the app passwords of a person who is removed.
func (p *Passwords) Forget(tx storage.Tx, person string) error {
	ids, err := Stored(tx, person)
	for _, id := range ids {
		if err := p.Drop(tx, person, id); err != nil {
			return err
		}
	}
	return err
}

// Stored returns the ids of the app passwords of a person, those included that do not work now.
func Stored(tx storage.Tx, person string) (ids []string, err error) {
	for e, err := range ofPerson.Scan(tx, storage.Range{Prefix: storage.Prefix(person)}) {
		if err != nil {
			return nil, err
		}
		ids = append(ids, storage.Parts(e.Key)[1])
	}
	return ids, nil
}
