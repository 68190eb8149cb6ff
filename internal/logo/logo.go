// Package logo stores the pictures of applications and identity providers that are not in the configuration, and gives
// them to the pages.
package logo

import (
	"context"
	"time"

	"github.com/gatehouse-id/gatehouse/internal/web"
	"github.com/gatehouse-id/gatehouse/storage"
)

// Put stores a picture in place of the one that was there. raw is the file that web.NewLogo has described.
func Put(tx storage.Tx, kind web.LogoKind, id string, l web.Logo, raw []byte) error {
	rec, key := logoRecord{ID: id, Name: l.Name, Type: l.Type, Width: l.Width, Height: l.Height}, web.LogoKey(kind, id)
	if err := logos.Put(tx, key, rec, time.Time{}); err != nil {
		return err
	}
	return files.Put(tx, key, fileRecord{Name: l.Name, Type: l.Type, Content: raw}, time.Time{})
}

// Delete deletes a picture, if there is one.
func Delete(tx storage.Tx, kind web.LogoKind, id string) error {
	key := web.LogoKey(kind, id)
	if err := logos.Delete(tx, key); err != nil {
		return err
	}
	return files.Delete(tx, key)
}

// Find returns the picture of one owner, or nil.
func Find(tx storage.Tx, kind web.LogoKind, id string) (*web.Logo, error) {
	rec, found, err := logos.Find(tx, web.LogoKey(kind, id))
	if err != nil || !found {
		return nil, err
	}
	return rec.logo(), nil
}

// All returns the pictures of one kind by the ids of their owners.
func All(tx storage.Tx, kind web.LogoKind) (map[string]*web.Logo, error) {
	out := map[string]*web.Logo{}
	for e, err := range logos.Scan(tx, storage.Range{Prefix: []byte(kind)}) {
		if err != nil {
			return nil, err
		}
		out[e.Value.ID] = e.Value.logo()
	}
	return out, nil
}

// Shown implements web.Logos. The configuration says everything about the owners that it declares, so a stored picture
// of the same id is not theirs.
type Shown struct {
	Store    storage.Store
	Declares func(client string) bool
	// Providers returns the pictures of the identity providers that the configuration does not declare, by their ids.
	Providers func(ctx context.Context) (map[string]*web.Logo, error)
}

// ClientLogo implements web.Logos.
func (s Shown) ClientLogo(ctx context.Context, id string) (l *web.Logo, err error) {
	if s.Declares(id) {
		return nil, nil //nolint:nilnil // nil: none
	}
	err = s.Store.View(ctx, func(tx storage.Tx) error {
		l, err = Find(tx, web.ClientLogo, id)
		return err
	})
	return l, err
}

// ProviderLogos implements web.Logos.
func (s Shown) ProviderLogos(ctx context.Context) (map[string]*web.Logo, error) {
	return s.Providers(ctx)
}

// LogoFile implements web.Logos.
func (s Shown) LogoFile(ctx context.Context, key string) (f web.LogoFile, found bool, err error) {
	err = s.Store.View(ctx, func(tx storage.Tx) error {
		rec, ok, err := files.Find(tx, key)
		f, found = web.LogoFile(rec), ok
		return err
	})
	return f, found, err
}
