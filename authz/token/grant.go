package token

import (
	"fmt"
	"slices"
	"time"

	"github.com/gatehouse-id/gatehouse/authz/client"
	"github.com/gatehouse-id/gatehouse/authz/oauth"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/internal/sessionindex"
	"github.com/gatehouse-id/gatehouse/storage"
)

// NewGrantID returns an id that sorts by time, so the oldest grant of a person and client is the first.
func (l *Ledger) NewGrantID(now time.Time) (string, error) {
	id, err := secret.ID(l.deps.Random, 16)
	if err != nil {
		return "", oauth.ServerError(err)
	}
	return fmt.Sprintf("%012x-%s", max(now.UnixMilli(), 0), id), nil
}

// StoreGrant writes a grant and lists it with those of its person and client. Beyond the limit another one goes: an
// application that renews its tokens again and again in one browser must not sign out the person's other devices.
// (docs/decisions/tokens.md#grants)
func (l *Ledger) StoreGrant(tx storage.Tx, id string, g Grant, limit int) error {
	list, _, err := heldGrants.Find(tx, storage.Key(g.Subject, g.ClientID))
	if err != nil {
		return err
	}
	have := slices.DeleteFunc(list.Held, func(h heldGrant) bool { return !h.ExpiresAt.After(g.CreatedAt) })
	for len(have) >= limit {
		i := dispensable(have, g.SessionID, limit)
		if err := grants.Delete(tx, have[i].ID); err != nil {
			return err
		}
		have = slices.Delete(have, i, i+1)
	}
	if err := grants.Create(tx, id, g, g.ExpiresAt.Add(CollectMargin)); err != nil {
		return fmt.Errorf("store grant: %w", err)
	}
	if err := sessionindex.Note(tx, sessionindex.Application, g.ClientID, g.SessionID, g.ExpiresAt); err != nil {
		return err
	}
	return putHeld(tx, g.Subject, g.ClientID, append(have, heldGrant{ID: id, Session: g.SessionID, ExpiresAt: g.ExpiresAt, From: g.From}))
}

// dispensable returns the index of the grant that makes room for one of a session. The list is in the order of time. A
// session with more than a fifth of all gives way first, otherwise the oldest grant: people come back every morning
// with a new session, and two tabs of one must not take each other's tokens.
func dispensable(have []heldGrant, session string, limit int) int {
	count := map[string]int{session: 1}
	for _, h := range have {
		count[h.Session]++
	}
	count[""] = 1 // each is a session of its own
	most := 0
	for _, n := range count {
		most = max(most, n)
	}
	switch {
	case most <= max(1, limit/5):
		return 0
	case count[session] < most:
		return slices.IndexFunc(have, func(h heldGrant) bool { return count[h.Session] == most })
	}
	return slices.IndexFunc(have, func(h heldGrant) bool { return h.Session == session })
}

// DropGrant ends a grant and with it all its tokens.
func DropGrant(tx storage.Tx, subject, clientID, id string) error {
	if err := grants.Delete(tx, id); err != nil {
		return err
	}
	return unlist(tx, subject, clientID, id)
}

// DropGrants ends every grant of a person to a client, and those that others got for its ID tokens. It returns how many
// had not expired.
func (l *Ledger) DropGrants(tx storage.Tx, subject, clientID string, now time.Time) (n int, err error) {
	all, err := heldBy(tx, subject)
	if err != nil {
		return 0, err
	}
	for _, c := range all {
		for _, h := range c.held {
			if c.client != clientID && h.From != clientID {
				continue
			}
			if err := DropGrant(tx, subject, c.client, h.ID); err != nil {
				return 0, err
			}
			if h.ExpiresAt.After(now) {
				n++
			}
		}
	}
	return n, nil
}

// DraftGrantAccess makes an access token of a grant, for a sender who has proved this. It ends with the grant at the
// latest.
func (l *Ledger) DraftGrantAccess(c *client.Client, id string, g *Grant, scope, resources []string, details string, proved Confirmation,
	kind audit.Type, from audit.Origin, now time.Time,
) (*Draft, error) {
	return l.DraftAccess(c, Access{
		GrantID: id, ClientID: g.ClientID, Subject: g.Subject, Scope: scope, Audience: resources, Epochs: g.Epochs, CreatedAt: now,
		ExpiresAt: g.Until(now.Add(c.Lifetimes.AccessToken)), Level: g.Level, AMR: g.AMR, AuthTime: g.AuthTime, References: g.References,
		SessionID: g.SessionID, Provider: g.Provider, Claims: g.Claims.Userinfo, Verified: g.Claims.VerifiedUserinfo, Confirmation: proved,
		AuthorizationDetails: details,
	}, kind, from)
}

// DropSession ends every grant that was given in a session of a person.
func (l *Ledger) DropSession(tx storage.Tx, person, session string) error {
	all, err := heldBy(tx, person)
	if err != nil {
		return err
	}
	for _, c := range all {
		for _, h := range c.held {
			if h.Session != session {
				continue
			}
			if err := DropGrant(tx, person, c.client, h.ID); err != nil {
				return err
			}
		}
	}
	return nil
}

// FindGrant returns a stored grant, valid or not.
func (l *Ledger) FindGrant(tx storage.Tx, id string) (g Grant, found bool, err error) {
	return grants.Find(tx, id)
}

// LiveGrant is a grant that is valid.
type LiveGrant struct {
	ID string
	Grant
}

// LiveGrants returns the valid grants of a person, the oldest of each client first.
func (l *Ledger) LiveGrants(tx storage.Tx, person string, now time.Time) (list []LiveGrant, err error) {
	all, err := heldBy(tx, person)
	if err != nil {
		return nil, err
	}
	for _, c := range all {
		st, ok, err := l.CheckStanding(tx, c.client, person)
		if err != nil {
			return nil, err
		}
		if !ok {
			continue
		}
		for _, h := range c.held {
			g, found, err := grants.Find(tx, h.ID)
			if err != nil {
				return nil, err
			}
			if found && st.Epochs == g.Epochs && g.Counts(&st.Subject) && g.ExpiresAt.After(now) {
				list = append(list, LiveGrant{h.ID, g})
			}
		}
	}
	return list, nil
}

// StoredGrant names a grant of a person.
type StoredGrant struct{ ClientID, ID string }

// StoredGrants returns the grants of a person that have not expired, those included that do not count now: of a client
// that is disabled, or whose groups the person has left.
func (l *Ledger) StoredGrants(tx storage.Tx, person string, now time.Time) (list []StoredGrant, err error) {
	all, err := heldBy(tx, person)
	for _, c := range all {
		for _, h := range c.held {
			if h.ExpiresAt.After(now) {
				list = append(list, StoredGrant{c.client, h.ID})
			}
		}
	}
	return list, err
}

// ChangeDetails replaces the user details of a grant, if it still exists.
func (l *Ledger) ChangeDetails(tx storage.Tx, id string, details map[string][]string) error {
	g, found, err := grants.Find(tx, id)
	if err != nil || !found {
		return err
	}
	g.Details = details
	return grants.Put(tx, id, g, g.ExpiresAt.Add(CollectMargin))
}

// Until returns t, or the end of the grant if that is earlier.
func (g *Grant) Until(t time.Time) time.Time {
	if g.ExpiresAt.Before(t) {
		return g.ExpiresAt
	}
	return t
}
