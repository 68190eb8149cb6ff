package token

import (
	"errors"
	"time"

	"github.com/gatehouse-id/gatehouse/authz/client"
	"github.com/gatehouse-id/gatehouse/storage"
)

// FindActive returns an access token that is valid, by the key of AccessKey.
func (l *Ledger) FindActive(tx storage.Tx, key string, now time.Time) (rec Access, in Introspection, active bool, err error) {
	if _, err = l.inspect(tx, key, now, &in); err != nil || !in.Active || in.UsedUp() {
		return rec, in, false, err
	}
	rec, active, err = accessTokens.Find(tx, key)
	return rec, in, active, err
}

// sourceKeys are those of the records that a token rests on because it came from others, for one GetMany.
func (l *Ledger) sourceKeys(keys [][]byte, sources []Source) [][]byte {
	for _, s := range sources {
		keys = append(keys, l.deps.Clients.EpochKeys(s.ClientID)...)
		if s.Key != "" {
			keys = append(keys, accessTokens.Key(s.Key))
		}
		if s.GrantID != "" {
			keys = append(keys, grants.Key(s.GrantID))
		}
	}
	return keys
}

// sourcesStand reports whether every source is still there, by the values of sourceKeys, and returns their clients. A
// token ends no later than its sources, so their own ends are not looked at.
func (l *Ledger) sourcesStand(tx storage.Tx, sources []Source, values [][]byte) (of []*client.Client, ok bool, err error) {
	next := func() []byte {
		v := values[0]
		values = values[1:]
		return v
	}
	for _, s := range sources {
		n := len(l.deps.Clients.EpochKeys(s.ClientID))
		c, epoch, err := l.deps.Clients.DecodeWithEpoch(s.ClientID, values[:n])
		if err != nil || c == nil || c.Disabled || epoch != s.Epoch {
			return nil, false, err
		}
		of, values = append(of, c), values[n:]
		if (s.Key != "" && next() == nil) || (s.GrantID != "" && next() == nil) {
			return nil, false, nil
		}
		if s.Person == "" {
			continue
		}
		person, err := l.deps.Subjects.Get(tx, s.Person)
		if errors.Is(err, storage.ErrNotFound) {
			return nil, false, nil
		}
		if err != nil || !person.Active || person.Epoch != s.PersonEpoch {
			return nil, false, err
		}
	}
	return of, true, nil
}

// actor is the claim act: who acts, and for whom that one acted before. (RFC 8693 4.1)
type actor struct {
	Subject  string `json:"sub"`
	ClientID string `json:"client_id,omitempty"`
	Actor    *actor `json:"act,omitempty"`
}

// actorClaim nests actors, the present one outside.
func (l *Ledger) actorClaim(sector string, actors []Actor) (out *actor) {
	for i := len(actors) - 1; i >= 0; i-- {
		out = &actor{l.ActorSubject(sector, actors[i]), actors[i].ClientID, out}
	}
	return out
}

// ActorSubject is the identifier of an actor for a client of a sector.
func (l *Ledger) ActorSubject(sector string, a Actor) string {
	if a.ClientID == "" || a.Subject == a.ClientID { // a site, or a client itself
		return a.Subject
	}
	return l.SubjectIn(sector, a.Subject)
}
