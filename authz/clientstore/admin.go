package clientstore

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/gatehouse-id/gatehouse/authz/client"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/logo"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/internal/web"
	"github.com/gatehouse-id/gatehouse/storage"
)

var (
	// ErrExists says that the id is taken, in the configuration or by a stored client.
	ErrExists = errors.New("a client with this id already exists")
	// ErrUnknown says that the client does not exist.
	ErrUnknown = errors.New("no such client")
	// ErrDeclared says that a client is in the configuration, where it is changed and removed.
	ErrDeclared = errors.New("the client is in the configuration; change it there")
)

// secretBytes is the number of random bytes in a generated client secret.
const secretBytes = 32

// Add stores a client. A confidential client without a secret or keys gets a secret, which is returned, and stored only
// as a keyed hash; otherwise secretText is empty. Errors: ErrExists, those of Validate, a failure of storage.
func (r *Registry) Add(ctx context.Context, c client.Client, by audit.Actor) (secretText string, err error) {
	if !c.Public && !c.IsWithoutSecret() && len(c.Secrets)+len(c.SecretHashes) == 0 {
		if secretText, err = newSecret(r.deps.Random); err != nil {
			return "", err
		}
		c.Secrets = []secret.String{secret.New(secretText)}
	}
	if err := r.RefreshProviders(ctx); err != nil {
		return "", err
	}
	if err := cmp.Or(c.Validate(), r.checkProviders(&c), r.checkDetails(&c), r.checkPlan(&c), r.checkBearer(&c)); err != nil {
		return "", err
	}
	if err := r.checkGroups(ctx, &c); err != nil {
		return "", err
	}
	if r.fixed[c.ID] != nil {
		return "", ErrExists
	}
	if err := r.ask(ctx, &c); err != nil {
		return "", err
	}
	c.SecretHashes, c.Secrets = r.hashed(c.ID, c.Secrets, c.SecretHashes), nil
	raw, err := json.Marshal(c)
	if err != nil {
		return "", fmt.Errorf("encode client: %w", err)
	}
	e, err := r.deps.Events.New(eventClientAdded, by.Origin)
	if err != nil {
		return "", err
	}
	e = by.Fill(e, "", "")
	e.ClientID = c.ID
	now := r.now()
	err = r.deps.Store.Update(ctx, func(tx storage.Tx) error {
		if err := clients.Create(tx, c.ID, clientRecord{Client: raw, CreatedAt: now, By: by.ID}, never); err != nil {
			return err
		}
		return r.deps.Events.Append(tx, e)
	})
	if errors.Is(err, storage.ErrExists) {
		err = ErrExists
	}
	return secretText, err
}

// newSecret returns a client secret of 256 bits in characters that need no encoding anywhere.
func newSecret(random io.Reader) (string, error) {
	b := make([]byte, secretBytes)
	if _, err := io.ReadFull(random, b); err != nil {
		return "", err
	}
	return base64.RawURLEncoding.EncodeToString(b), nil
}

// hashed returns the hashes that are stored instead of a client's secrets.
func (r *Registry) hashed(id string, secrets []secret.String, hashes []string) []string {
	out := slices.Clone(hashes)
	for _, text := range secrets {
		out = append(out, r.checks.hash(id, text.Reveal()))
	}
	return out
}

// Where clients come from.
const (
	OriginConfiguration = "configuration"
	OriginCommand       = "command"
	OriginDocument      = "document"
	OriginRegistration  = "registration"
)

// Info is a client as List shows it: without secrets and their hashes.
type Info struct {
	client.Client

	// Stored clients were added by command or have registered themselves; the others are in the configuration or are
	// described by a metadata document.
	Stored bool `json:"stored"`
	// Origin is its origin: one of the constants.
	Origin    string    `json:"origin"`
	CreatedAt time.Time `json:"created_at,omitzero"` // of stored ones
	// By is the id of the actor who added it. Empty: it was not added
	By string `json:"-"`
	// SecretsMark changes with each change of the secrets. Empty: none are stored.
	SecretsMark string `json:"-"`
	// OldSecrets counts the stored secrets but the newest.
	OldSecrets int `json:"-"`
	// Mark changes with each change of a stored client.
	Mark string `json:"-"`
	// Logo is the stored picture. nil: none
	Logo *web.Logo `json:"-"`
}

// List returns all clients in the order of their ids, with defaults filled in. It includes those with a metadata
// document to which someone has consented.
func (r *Registry) List(ctx context.Context) ([]Info, error) {
	var out []Info
	err := r.deps.Store.View(ctx, func(tx storage.Tx) error {
		out = nil
		shown, err := logo.All(tx, web.ClientLogo)
		if err != nil {
			return err
		}
		for e, err := range clients.Scan(tx, storage.Range{}) {
			if err != nil {
				return err
			}
			reg, err := r.parse(e.Key, e.Value)
			if err != nil {
				return err
			}
			info := Info{
				Client: *reg.client, Stored: true, Origin: OriginCommand, CreatedAt: e.Value.CreatedAt, By: e.Value.By,
				SecretsMark: secretsMark(reg.client), OldSecrets: max(len(reg.client.SecretHashes)-1, 0), Mark: markOf(e.Value), Logo: shown[e.Key],
			}
			if e.Value.Registered {
				info.Origin = OriginRegistration
			}
			out = append(out, info)
		}
		for e, err := range documents.Scan(tx, storage.Range{}) {
			if err != nil {
				return err
			}
			reg, err := r.parseDocument(e.Key, e.Value)
			if err != nil {
				return err
			}
			out = append(out, Info{Client: *reg.client, Origin: OriginDocument})
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list clients: %w", err)
	}
	for _, reg := range r.fixed {
		out = append(out, Info{Client: *reg.client, Origin: OriginConfiguration})
	}
	for i := range out {
		out[i].Secrets, out[i].SecretHashes = nil, nil
	}
	slices.SortFunc(out, func(a, b Info) int { return cmp.Compare(a.ID, b.ID) })
	return out, nil
}

// Remove removes a stored client and ends its tokens, codes and grants, so a later client with that id inherits
// nothing. Errors: ErrUnknown, ErrDeclared, a failure of storage.
func (r *Registry) Remove(ctx context.Context, id string, by audit.Actor) error {
	if r.fixed[id] != nil {
		return ErrDeclared
	}
	return r.endClient(ctx, id, eventClientRemoved, by, func(tx storage.Tx) error { return deleteClient(tx, id) })
}

// Revoke ends every token, code and grant of a client. It can get new ones at once. Errors: ErrUnknown, a failure of
// storage.
func (r *Registry) Revoke(ctx context.Context, id string, by audit.Actor) error {
	return r.endClient(ctx, id, eventClientRevoked, by, func(storage.Tx) error { return nil })
}

func (r *Registry) endClient(ctx context.Context, id string, kind audit.Type, by audit.Actor, also func(storage.Tx) error) error {
	e, err := r.deps.Events.New(kind, by.Origin)
	if err != nil {
		return err
	}
	e = by.Fill(e, "", "")
	e.ClientID = id
	return r.deps.Store.Update(ctx, func(tx storage.Tx) error {
		c, epoch, err := r.findWithEpoch(tx, id)
		if err != nil {
			return err
		}
		if c == nil {
			return ErrUnknown
		}
		// Kept forever, so an epoch never comes back.
		if err := clientStates.Put(tx, id, clientState{Epoch: epoch + 1}, never); err != nil {
			return err
		}
		if err := also(tx); err != nil {
			return err
		}
		return r.deps.Events.Append(tx, e)
	})
}
