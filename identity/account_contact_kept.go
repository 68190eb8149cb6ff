package identity

import (
	"errors"
	"net/http"
	"strings"

	"github.com/gatehouse-id/gatehouse/internal/cookie"
	"github.com/gatehouse-id/gatehouse/storage"
)

// field is what the field for a new contact of this kind is called on the page.
func (c contact) field() string { return "contact_" + string(c.Kind) }

// keepContact keeps a contact that somebody adds whose session needs a higher level first, so that it stands in its field when they are back. It is bound to the
// session, and in no address. A form that is not of the page is left to who refuses it.
func (s *Service) keepContact(r *http.Request) error {
	si, err := s.current(r)
	if err != nil || si == nil {
		return err
	}
	st, err := s.standingOf(r.Context(), si)
	if err != nil || si.session.Level >= s.contactLevel(st) {
		return err
	}
	if s.Pages.CheckPost(r, s.jar.Get(r, cookie.KindBrowser), profilePath+":"+si.id) != nil || r.PostForm.Get("do") != "add" {
		return nil
	}
	rec := newContactRecord{Kind: r.PostForm.Get("kind"), Value: strings.TrimSpace(r.PostForm.Get("value")), ExpiresAt: s.Now().Add(flowLife)}
	if kind := contactKind(rec.Kind); kind != contactEmail && kind != contactPhone || rec.Value == "" || !isText(rec.Value, maxLine) {
		return nil
	}
	return s.Store.Update(r.Context(), func(tx storage.Tx) error {
		return typedContacts.Put(tx, si.id, rec, rec.ExpiresAt)
	})
}

// showKept puts what was kept for the session into its field.
func (s *Service) showKept(r *http.Request, a *onAccount, v *profilePage) error {
	now := s.Now()
	return s.Store.View(r.Context(), func(tx storage.Tx) error {
		rec, err := typedContacts.Get(tx, a.si.id)
		if errors.Is(err, storage.ErrNotFound) || err == nil && !rec.ExpiresAt.After(now) {
			return nil
		}
		v.focus = contact{Kind: contactKind(rec.Kind)}.field()
		v.values[v.focus] = rec.Value
		return err
	})
}

// forgetContact forgets it once a form of the page is taken.
func (s *Service) forgetContact(r *http.Request, a *onAccount) error {
	var there bool
	err := s.Store.View(r.Context(), func(tx storage.Tx) (err error) {
		there, err = typedContacts.Has(tx, a.si.id)
		return err
	})
	if err != nil || !there {
		return err
	}
	return s.Store.Update(r.Context(), func(tx storage.Tx) error { return typedContacts.Delete(tx, a.si.id) })
}
