package clientstore

import (
	"context"

	"github.com/gatehouse-id/gatehouse/authz/client"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/web"
	"github.com/gatehouse-id/gatehouse/storage"
)

// SetLogo gives a client that was added by command a picture in place of the one that it has. Errors: those of
// web.CheckPicture, ErrUnknown, ErrDeclared, a failure of storage.
func (r *Registry) SetLogo(ctx context.Context, id string, raw []byte, by audit.Actor) error {
	l, err := web.NewLogo(id, raw)
	if err != nil {
		return err
	}
	return r.changeLogo(ctx, id, by, func(tx storage.Tx) error {
		// As after each change of an operator: it can no longer give another name to the picture.
		if err := registrations.Delete(tx, id); err != nil {
			return err
		}
		rec := logoRecord{Name: l.Name, Type: l.Type, Width: l.Width, Height: l.Height}
		if err := logos.Put(tx, id, rec, never); err != nil {
			return err
		}
		return pictures.Put(tx, web.LogoKey(id), pictureRecord{Logo: rec, Content: raw}, never)
	})
}

// RemoveLogo takes the picture of a client away, if it has one. Errors: ErrUnknown, ErrDeclared, a failure of storage.
func (r *Registry) RemoveLogo(ctx context.Context, id string, by audit.Actor) error {
	return r.changeLogo(ctx, id, by, func(tx storage.Tx) error { return deleteLogo(tx, id) })
}

func (r *Registry) changeLogo(ctx context.Context, id string, by audit.Actor, change func(storage.Tx) error) error {
	if r.declares(id) {
		return ErrDeclared
	}
	if client.CheckID(id) != nil {
		return ErrUnknown
	}
	e, err := r.deps.Events.New(eventClientUpdated, by.Origin)
	if err != nil {
		return err
	}
	e = by.Fill(e, "", "logo")
	e.ClientID = id
	return r.deps.Store.Update(ctx, func(tx storage.Tx) error {
		found, err := clients.Has(tx, id)
		if err != nil {
			return err
		}
		if !found {
			return ErrUnknown
		}
		if err := change(tx); err != nil {
			return err
		}
		return r.deps.Events.Append(tx, e)
	})
}

// deleteLogo deletes the picture of a client, if it has one.
func deleteLogo(tx storage.Tx, id string) error {
	if err := logos.Delete(tx, id); err != nil {
		return err
	}
	return pictures.Delete(tx, web.LogoKey(id))
}

// Logo implements web.Logos.
func (r *Registry) Logo(ctx context.Context, id string) (l web.Logo, found bool, err error) {
	if r.declares(id) || client.CheckID(id) != nil {
		return web.Logo{}, false, nil
	}
	err = r.deps.Store.View(ctx, func(tx storage.Tx) error {
		rec, ok, err := logos.Find(tx, id)
		l, found = web.Logo(rec), ok
		return err
	})
	return l, found, err
}

// LogoFile implements web.Logos.
func (r *Registry) LogoFile(ctx context.Context, key string) (l web.Logo, content []byte, found bool, err error) {
	err = r.deps.Store.View(ctx, func(tx storage.Tx) error {
		rec, ok, err := pictures.Find(tx, key)
		l, content, found = web.Logo(rec.Logo), rec.Content, ok
		return err
	})
	return l, content, found, err
}

// storedLogos returns the pictures of all clients that have one.
func storedLogos(tx storage.Tx) (map[string]*web.Logo, error) {
	out := map[string]*web.Logo{}
	for e, err := range logos.Scan(tx, storage.Range{}) {
		if err != nil {
			return nil, err
		}
		l := web.Logo(e.Value)
		out[e.Key] = &l
	}
	return out, nil
}
