package settings

import (
	"context"
	"errors"
	"maps"

	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/logo"
	"github.com/gatehouse-id/gatehouse/internal/web"
	"github.com/gatehouse-id/gatehouse/storage"
)

// ErrNoMethod refuses a change of a login method that is not stored.
var ErrNoMethod = errors.New("there is no such login method")

// PageLogos returns the pictures of the login methods that the Caddyfile does not have, by their ids. They are read
// once for each state of the units. The caller must not change them.
func (s *Service) PageLogos(ctx context.Context) (map[string]*web.Logo, error) {
	all, err := s.pictures.ofPage(ctx, s, func(*Units) (all map[string]*web.Logo, err error) {
		err = s.store.View(ctx, func(tx storage.Tx) error {
			all, err = logo.All(tx, web.ProviderLogo)
			return err
		})
		maps.DeleteFunc(all, func(id string, _ *web.Logo) bool { return s.fixed(id) != nil })
		return all, err
	})
	if err != nil { // no icon rather than one of before
		return nil, err
	}
	return all, nil
}

// SetLogo gives a stored login method a picture in place of the one that it has. Errors: those of web.CheckPicture,
// ErrNoMethod, a lack of rights, a failure of storage.
func (s *Service) SetLogo(ctx context.Context, id string, raw []byte, by audit.Actor) error {
	l, err := web.NewLogo(web.ProviderLogo, id, raw)
	if err != nil {
		return err
	}
	return s.changeLogo(ctx, id, by, func(tx storage.Tx) error { return logo.Put(tx, web.ProviderLogo, id, l, raw) })
}

// RemoveLogo takes the picture of a login method away, if it has one. Errors: ErrNoMethod, a lack of rights, a failure
// of storage.
func (s *Service) RemoveLogo(ctx context.Context, id string, by audit.Actor) error {
	return s.changeLogo(ctx, id, by, func(tx storage.Tx) error { return logo.Delete(tx, web.ProviderLogo, id) })
}

// changeLogo demands the rights of an owner, because a method with the look of another one could collect passwords. It
// makes a new version, so every node reads the pictures again.
func (s *Service) changeLogo(ctx context.Context, id string, by audit.Actor, change func(storage.Tx) error) error {
	if rights, _ := ctx.Value(rightsKey{}).(Rights); rights != Owner {
		return refuseOrdinary("logo")
	}
	e, err := s.events.New(configurationUpdated, by.Origin)
	if err != nil {
		return err
	}
	e = by.Fill(e, "", "login_methods.logo of "+id)
	nonce, err := s.nonce()
	if err != nil {
		return err
	}
	return s.store.Update(ctx, func(tx storage.Tx) error {
		st, err := s.state(tx)
		if err != nil {
			return err
		}
		if m := st.units.method(id); m == nil || !m.Removable {
			return ErrNoMethod
		}
		if err := change(tx); err != nil {
			return err
		}
		if _, err := writeVersion(tx, versionRecord{Nonce: nonce, Quiet: 1}); err != nil {
			return err
		}
		return s.events.Append(tx, e)
	})
}

// keepLogos deletes the pictures of login methods that are no longer stored, so another one of the same id has none.
func keepLogos(tx storage.Tx, u *Units) error {
	all, err := logo.All(tx, web.ProviderLogo)
	if err != nil {
		return err
	}
	for id := range all {
		if m := u.method(id); m != nil && m.Removable {
			continue
		}
		if err := logo.Delete(tx, web.ProviderLogo, id); err != nil {
			return err
		}
	}
	return nil
}
