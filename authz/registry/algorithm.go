package registry

import (
	"context"
	"fmt"

	"github.com/gatehouse-id/gatehouse/authz/client"
	"github.com/gatehouse-id/gatehouse/storage"
)

// accessAlg signs the JWT access tokens of clients that name no algorithm. It costs a fiftieth of accessAlgBefore,
// which signed those of earlier versions. Resource servers can rely on that, so clients of then keep it.
// (docs/decisions/tokens.md#jwt-signatures)
const (
	accessAlg       = "ES256"
	accessAlgBefore = "RS256"
)

// withAlgorithm sets the algorithm of JWT access tokens of a client. said is the client without defaults.
func withAlgorithm(c, said *client.Client, kept string) *client.Client {
	switch {
	case said.FAPI2 && said.IDTokenAlg == "":
		c.AccessTokenAlg = accessAlg
	case said.IDTokenAlg != "": // both kinds of JWT are signed alike, as the client asks
	case kept == "":
		c.AccessTokenAlg = accessAlgBefore
	default:
		c.AccessTokenAlg = kept
	}
	return c
}

// settleAlgorithms finds out, and keeps, which clients of the configuration are new. used says that there can be
// clients of an earlier version.
func (r *Registry) settleAlgorithms(ctx context.Context, clients []*client.Client, used bool) error {
	var kept map[string]string
	settle := func(tx storage.Tx, write bool) (missing bool, err error) {
		kept = map[string]string{}
		began, err := algorithms.Has(tx, algorithmsKept)
		if err != nil {
			return false, err
		}
		for id := range r.fixed {
			rec, found, err := algorithms.Find(tx, id)
			if err != nil {
				return false, err
			}
			if !found {
				missing = true
				if rec.AccessAlg = accessAlg; used && !began {
					rec.AccessAlg = accessAlgBefore
				}
				if write {
					if err := algorithms.Put(tx, id, rec, never); err != nil {
						return false, err
					}
				}
			}
			kept[id] = rec.AccessAlg
		}
		if !began && write {
			err = algorithms.Put(tx, algorithmsKept, algorithmRecord{}, never)
		}
		return missing || !began, err
	}
	missing := false
	err := r.deps.Store.View(ctx, func(tx storage.Tx) (err error) {
		missing, err = settle(tx, false)
		return err
	})
	if err == nil && missing {
		err = r.deps.Store.Update(ctx, func(tx storage.Tx) error {
			_, err := settle(tx, true)
			return err
		})
	}
	if err != nil {
		return fmt.Errorf("algorithms of clients: %w", err)
	}
	for _, said := range clients {
		withAlgorithm(r.fixed[said.ID].client, said, kept[said.ID])
	}
	return nil
}
