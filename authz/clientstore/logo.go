package clientstore

import (
	"context"

	"github.com/gatehouse-id/gatehouse/authz/client"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/logo"
	"github.com/gatehouse-id/gatehouse/internal/web"
	"github.com/gatehouse-id/gatehouse/storage"
)

// SetLogo gives a client that was added by command a picture in place of the one that it has. Errors: those of
// web.CheckPicture, ErrUnknown, ErrDeclared, a failure of storage.
func (r *Registry) SetLogo(ctx context.Context, id string, raw []byte, by audit.Actor) error {
	l, err := web.NewLogo(web.ClientLogo, id, raw)
	if err != nil {
		return err
	}
	return r.changeLogo(ctx, id, by, func(tx storage.Tx) error {
		// As after each change of an operator: it can no longer give another name to the picture.
		if err := registrations.Delete(tx, id); err != nil {
			return err
		}
		return logo.Put(tx, web.ClientLogo, id, l, raw)
	})
}

// RemoveLogo takes the picture of a client away, if it has one. Errors: ErrUnknown, ErrDeclared, a failure of storage.
func (r *Registry) RemoveLogo(ctx context.Context, id string, by audit.Actor) error {
	return r.changeLogo(ctx, id, by, func(tx storage.Tx) error { return logo.Delete(tx, web.ClientLogo, id) })
}

func (r *Registry) changeLogo(ctx context.Context, id string, by audit.Actor, change func(storage.Tx) error) error {
	if r.Declares(id) {
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
