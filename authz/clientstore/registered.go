package clientstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"time"

	"github.com/gatehouse-id/gatehouse/authz/cimd"
	"github.com/gatehouse-id/gatehouse/authz/client"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/logo"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/internal/web"
	"github.com/gatehouse-id/gatehouse/storage"
)

// Clients that have registered themselves (RFC 7591). They are stored like those that were added by command, and what
// they may is what clients with a metadata document may. (docs/decisions/client-authentication.md#dynamic-registration)

// ErrFull says that as many clients have registered themselves as there can be, and none of them can go.
var ErrFull = errors.New("too many clients have registered themselves")

// errUsed says that a client was used while it was about to be removed.
var errUsed = errors.New("the client was used meanwhile")

// firstUse is the time that a client has for its first sign-in before it can be the one that makes room for another.
const firstUse = time.Hour

// usedStep is the precision of the time of a client's last use.
const usedStep = 24 * time.Hour

// Registered is a client that registers itself, or has done so.
type Registered struct {
	Client client.Client
	// Metadata is the response about its registration, in JSON.
	Metadata []byte
	// Token is the hash of the token by which it manages its registration. Empty: it cannot.
	Token     string
	CreatedAt time.Time
}

// StrangerScopes are the scopes that clients can ask for which no operator has registered.
func (r *Registry) StrangerScopes() []string { return r.asked }

// limit makes a stored client one that has registered itself: it may ask for what a stranger may ask for, or for the
// scopes that an operator has given to it since.
func (r *Registry) limit(c *client.Client) {
	if len(c.Scopes) == 0 {
		c.Scopes = r.asked
	}
	if c.DefaultScopes = c.StillAllowed(c.DefaultScopes); len(c.DefaultScopes) == 0 {
		c.DefaultScopes = []string{client.ScopeOpenID}
	}
	c.DetailTypes = r.StrangerDetails(c.DetailTypes)
	c.Document = &client.Document{Registered: true, Schemes: schemesOf(c.RedirectURIs), Print: cimd.PrintOf(c, "")}
}

// Register stores a client that registers itself. If there are as many as most, the oldest one that no person has ever
// signed in to makes room, but none younger than firstUse. A confidential client without keys gets a secret, as Add
// gives one. Errors: ErrFull, those of Validate, a failure of storage.
func (r *Registry) Register(ctx context.Context, reg Registered, most int, from audit.Origin) (secretText string, err error) {
	c := reg.Client
	if !c.Public && c.AuthMethod != client.MethodPrivateKey {
		if secretText, err = newSecret(r.deps.Random); err != nil {
			return "", err
		}
		c.Secrets = []secret.String{secret.New(secretText)}
	}
	if err := c.Validate(); err != nil {
		return "", err
	}
	c.SecretHashes, c.Secrets = r.hashed(c.ID, c.Secrets, nil), nil
	raw, err := json.Marshal(c)
	if err != nil {
		return "", fmt.Errorf("encode client: %w", err)
	}
	e, err := r.deps.Events.New(eventClientRegistered, from)
	if err != nil {
		return "", err
	}
	e.Actor, e.ClientID = c.ID, c.ID
	gone, err := r.deps.Events.New(eventClientRemoved, audit.Self)
	if err != nil {
		return "", err
	}
	rec := registrationRecord{CreatedAt: reg.CreatedAt, Token: reg.Token, Metadata: reg.Metadata}
	return secretText, r.deps.Store.Update(ctx, func(tx storage.Tx) error {
		n, oldest, before := 0, "", reg.CreatedAt.Add(-firstUse)
		for e, err := range registrations.Scan(tx, storage.Range{Limit: most}) {
			if err != nil {
				return err
			}
			n++
			if e.Value.UsedAt.IsZero() && e.Value.CreatedAt.Before(before) {
				oldest, before = e.Key, e.Value.CreatedAt
			}
		}
		if n >= most {
			if oldest == "" {
				return ErrFull
			}
			if err := r.removeRegistered(tx, oldest, registrar.Fill(gone, "", "room for another")); err != nil {
				return err
			}
		}
		if err := clients.Create(tx, c.ID, clientRecord{Client: raw, CreatedAt: rec.CreatedAt, Registered: true}, never); err != nil {
			return err
		}
		if err := registrations.Create(tx, c.ID, rec, never); err != nil {
			return err
		}
		return r.deps.Events.Append(tx, e)
	})
}

// FindRegistered returns a client to those who have its registration token. Errors: ErrUnknown, a failure of storage.
func (r *Registry) FindRegistered(ctx context.Context, id, token string) (out Registered, err error) {
	var stored clientRecord
	err = r.deps.Store.View(ctx, func(tx storage.Tx) error {
		rec, err := registrationOf(tx, id, token)
		if err != nil {
			return err
		}
		out = Registered{Metadata: rec.Metadata, Token: rec.Token, CreatedAt: rec.CreatedAt}
		stored, err = clients.Get(tx, id)
		return err
	})
	if err == nil {
		err = json.Unmarshal(stored.Client, &out.Client)
	}
	return out, err
}

func registrationOf(tx storage.Tx, id, token string) (registrationRecord, error) {
	if client.CheckID(id) != nil || token == "" {
		return registrationRecord{}, ErrUnknown
	}
	rec, found, err := registrations.Find(tx, id)
	if err == nil && (!found || rec.Token == "" || compare([]byte(rec.Token), []byte(token)) != 1) {
		err = ErrUnknown
	}
	return rec, err
}

// Reregister replaces what a client has said of itself. Its credentials stay. Tokens that it got before stay valid
// within what it may do afterwards. Errors: ErrUnknown, those of Validate, a failure of storage.
func (r *Registry) Reregister(ctx context.Context, reg Registered, from audit.Origin) error {
	c := reg.Client
	if err := c.Validate(); err != nil {
		return err
	}
	raw, err := json.Marshal(c)
	if err != nil {
		return fmt.Errorf("encode client: %w", err)
	}
	e, err := r.deps.Events.New(eventClientUpdated, from)
	if err != nil {
		return err
	}
	e.Actor, e.ClientID, e.Reason = c.ID, c.ID, "registration"
	return r.deps.Store.Update(ctx, func(tx storage.Tx) error {
		rec, err := registrationOf(tx, c.ID, reg.Token)
		if err != nil {
			return err
		}
		stored, err := clients.Get(tx, c.ID)
		if err != nil {
			return err
		}
		rec.Metadata, stored.Client = reg.Metadata, raw
		if err := clients.Put(tx, c.ID, stored, never); err != nil {
			return err
		}
		if err := registrations.Put(tx, c.ID, rec, never); err != nil {
			return err
		}
		return r.deps.Events.Append(tx, e)
	})
}

// Unregister removes a client that no longer wants to be one. Errors: ErrUnknown, a failure of storage.
func (r *Registry) Unregister(ctx context.Context, id, token string, from audit.Origin) error {
	return r.endRegistered(ctx, id, audit.Actor{ID: id, Origin: from}, "", func(tx storage.Tx) error {
		_, err := registrationOf(tx, id, token)
		return err
	})
}

// endRegistered removes a client unless check refuses. Its id is random and never comes back, so nothing is kept of it;
// tokens of a client that there is not are inactive.
func (r *Registry) endRegistered(ctx context.Context, id string, by audit.Actor, reason string, check func(storage.Tx) error) error {
	e, err := r.deps.Events.New(eventClientRemoved, by.Origin)
	if err != nil {
		return err
	}
	e = by.Fill(e, "", reason)
	return r.deps.Store.Update(ctx, func(tx storage.Tx) error {
		if err := check(tx); err != nil {
			return err
		}
		return r.removeRegistered(tx, id, e)
	})
}

func (r *Registry) removeRegistered(tx storage.Tx, id string, e audit.Event) error {
	if err := deleteClient(tx, id); err != nil {
		return err
	}
	if err := clientStates.Delete(tx, id); err != nil {
		return err
	}
	e.ClientID = id
	return r.deps.Events.Append(tx, e)
}

// deleteClient deletes what is stored of a client but its epoch.
func deleteClient(tx storage.Tx, id string) error {
	if err := clients.Delete(tx, id); err != nil {
		return err
	}
	if err := logo.Delete(tx, web.ClientLogo, id); err != nil {
		return err
	}
	return registrations.Delete(tx, id)
}

// markUsed notes that a person signs in to a client that has registered itself.
func markUsed(tx storage.Tx, id string, now time.Time) error {
	rec, found, err := registrations.Find(tx, id)
	if err != nil || !found || now.Sub(rec.UsedAt) < usedStep {
		return err
	}
	rec.UsedAt = now
	return registrations.Put(tx, id, rec, never)
}

// registrar is the actor of the events about clients that were removed because no one uses them.
var registrar = audit.Actor{ID: "registration", Origin: audit.Self}

// RemoveUnused removes the clients that have registered themselves and that no one has used for so long, counted from
// the registration, or from when the last tokens of a sign-in can have ended. Several servers can run it at a time.
func (r *Registry) RemoveUnused(ctx context.Context, unused time.Duration) error {
	now := r.now()
	old := map[string]time.Time{} // when they were used
	err := r.deps.Store.View(ctx, func(tx storage.Tx) error {
		clear(old)
		for e, err := range registrations.Scan(tx, storage.Range{}) {
			if err != nil {
				return err
			}
			last := e.Value.CreatedAt
			if !e.Value.UsedAt.IsZero() {
				c, found, err := r.Find(tx, e.Key)
				if err != nil {
					return err
				}
				if last = e.Value.UsedAt.Add(usedStep); found {
					last = last.Add(max(c.Lifetimes.RefreshChain, c.Lifetimes.RefreshToken, c.Lifetimes.AccessToken))
				}
			}
			if !last.Add(unused).After(now) {
				old[e.Key] = e.Value.UsedAt
			}
		}
		return nil
	})
	for id, usedAt := range old {
		if err != nil {
			break
		}
		err = r.endRegistered(ctx, id, registrar, "unused", func(tx storage.Tx) error {
			rec, found, err := registrations.Find(tx, id)
			if err == nil && (!found || !rec.UsedAt.Equal(usedAt)) {
				err = errUsed
			}
			return err
		})
		if errors.Is(err, errUsed) {
			err = nil
		}
	}
	return err
}

// schemesOf are the private schemes of redirect URIs that were accepted.
func schemesOf(uris []string) (out []string) {
	for _, uri := range uris {
		if u, err := url.Parse(uri); err == nil && u.Scheme != "http" && u.Scheme != "https" && !slices.Contains(out, u.Scheme) {
			out = append(out, u.Scheme)
		}
	}
	return out
}
