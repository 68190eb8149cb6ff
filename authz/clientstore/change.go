package clientstore

import (
	"bytes"
	"cmp"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/gatehouse-id/gatehouse/authz/client"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

// ErrChanged says that someone else changed the client in the meantime.
var ErrChanged = errors.New("the client was changed by another request; try again")

// Change lets fn change a client that was added by command, without its id and secrets. Tokens that were issued before
// stay valid within what the client may do afterwards; while a client is disabled none of them is. reason names what
// changes, for the event. Errors: ErrUnknown, ErrDeclared, ErrChanged, those of fn and Validate, a failure of storage.
func (r *Registry) Change(ctx context.Context, id, reason string, by audit.Actor, fn func(c *client.Client) error) error {
	return r.Edit(ctx, id, "", reason, by, fn)
}

// Edit is Change for a client that had this mark when it was read (Info.Mark). Empty: any. Errors: as Change
func (r *Registry) Edit(ctx context.Context, id, seen, reason string, by audit.Actor, fn func(c *client.Client) error) error {
	return r.change(ctx, id, eventClientUpdated, seen, reason, by, func(c *client.Client) error {
		hashes := c.SecretHashes
		if err := fn(c); err != nil {
			return err
		}
		c.ID, c.Secrets, c.SecretHashes = id, nil, hashes
		return nil
	})
}

// ReplaceSecret gives a client that was added by command a new secret and returns it. keep leaves the newest one of
// before valid too, so the application can change over. seen is the mark of the secrets that the caller knows of
// (Info.SecretsMark): a second click must not end the secret in use. Empty: any. Errors: as Change, and ErrChanged; a
// client without a secret has none to replace.
func (r *Registry) ReplaceSecret(ctx context.Context, id string, keep bool, seen string, by audit.Actor) (secretText string, err error) {
	if secretText, err = newSecret(r.deps.Random); err != nil {
		return "", err
	}
	err = r.change(ctx, id, eventSecretReplaced, "", "", by, func(c *client.Client) error {
		if len(c.SecretHashes) == 0 {
			return noSecret(id)
		}
		if seen != "" && seen != secretsMark(c) {
			return ErrChanged
		}
		old := []string(nil)
		if keep {
			old = c.SecretHashes[len(c.SecretHashes)-1:]
		}
		c.SecretHashes = r.hashed(id, []secret.String{secret.New(secretText)}, old)
		return nil
	})
	return secretText, err
}

// secretsMark tells states of the secrets of a client apart. No secret follows from it.
func secretsMark(c *client.Client) string {
	if len(c.SecretHashes) == 0 {
		return ""
	}
	return shortMark(strings.Join(c.SecretHashes, "\n"))
}

// markOf tells states of a stored client apart.
func markOf(rec clientRecord) string { return shortMark(string(rec.Client)) }

func shortMark(of string) string { return hex.EncodeToString([]byte(secret.Hash(of)))[:16] }

// EndOldSecrets ends every secret of a client but the newest. Errors: as ReplaceSecret.
func (r *Registry) EndOldSecrets(ctx context.Context, id string, by audit.Actor) error {
	return r.change(ctx, id, eventSecretReplaced, "", "", by, func(c *client.Client) error {
		if len(c.SecretHashes) == 0 {
			return noSecret(id)
		}
		c.SecretHashes = c.SecretHashes[len(c.SecretHashes)-1:]
		return nil
	})
}

func noSecret(id string) error {
	return client.Invalidf("client %s has no secret: it is public or authenticates with a key", id)
}

// change reads a stored client, lets fn change it and writes it with its event, unless it was changed in between.
func (r *Registry) change(ctx context.Context, id string, kind audit.Type, seen, reason string, by audit.Actor,
	fn func(c *client.Client) error,
) error {
	if r.Declares(id) {
		return ErrDeclared
	}
	if client.CheckID(id) != nil {
		return ErrUnknown
	}
	var before clientRecord
	err := r.deps.Store.View(ctx, func(tx storage.Tx) (err error) {
		before, err = clients.Get(tx, id)
		return err
	})
	if errors.Is(err, storage.ErrNotFound) {
		return ErrUnknown
	}
	if err != nil {
		return fmt.Errorf("read client: %w", err)
	}
	if seen != "" && seen != markOf(before) {
		return ErrChanged
	}
	var c client.Client
	if err := json.Unmarshal(before.Client, &c); err != nil {
		return fmt.Errorf("decode client: %w", err)
	}
	if before.Registered {
		c.Document = &client.Document{Registered: true, Schemes: schemesOf(c.RedirectURIs)}
	}
	if err := fn(&c); err != nil {
		return err
	}
	if err := r.RefreshProviders(ctx); err != nil {
		return err
	}
	if err := cmp.Or(c.Validate(), r.checkProviders(&c), r.checkDetails(&c), r.checkPlan(&c), r.checkBearer(&c)); err != nil {
		return err
	}
	if err := cmp.Or(r.checkGroups(ctx, &c), r.ask(ctx, &c)); err != nil {
		return err
	}
	raw, err := json.Marshal(c)
	if err != nil {
		return fmt.Errorf("encode client: %w", err)
	}
	e, err := r.deps.Events.New(kind, by.Origin)
	if err != nil {
		return err
	}
	e = by.Fill(e, "", reason)
	e.ClientID = id
	return r.deps.Store.Update(ctx, func(tx storage.Tx) error {
		rec, found, err := clients.Find(tx, id)
		switch {
		case err != nil:
			return err
		case !found:
			return ErrUnknown
		case !bytes.Equal(rec.Client, before.Client):
			return ErrChanged
		}
		rec.Client = raw
		if err := clients.Put(tx, id, rec, never); err != nil {
			return err
		}
		// From now on the operator answers for it: it can no longer change itself, and does not go when no one uses it.
		if err := registrations.Delete(tx, id); err != nil {
			return err
		}
		return r.deps.Events.Append(tx, e)
	})
}
