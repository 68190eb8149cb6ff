package account

import (
	"errors"
	"net/http"
	"strings"

	"github.com/gatehouse-id/gatehouse/identity/front"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/internal/cookie"
	"github.com/gatehouse-id/gatehouse/storage"
)

// keepContact keeps a contact that somebody adds whose session needs a higher level first, so that it stands in its field when they are back. It is bound to the
// session, and in no address. A form that is not of the page is left to who refuses it.
func (s *Service) keepContact(r *http.Request) error {
	si, err := s.session.Read(r)
	if err != nil || si == nil {
		return err
	}
	st, err := s.stepup.StandingOf(r.Context(), si)
	if err != nil || si.Session.Level >= s.contactLevel(st) {
		return err
	}
	if s.pages.CheckPost(r, s.jar.Get(r, cookie.KindBrowser), front.ProfilePath+":"+si.ID) != nil || r.PostForm.Get("do") != "add" {
		return nil
	}
	rec := newContactRecord{Kind: r.PostForm.Get("kind"), Value: strings.TrimSpace(r.PostForm.Get("value")), ExpiresAt: s.now().Add(front.FlowLife)}
	if kind := person.ContactKind(rec.Kind); kind != person.ContactEmail && kind != person.ContactPhone || rec.Value == "" || !person.IsText(rec.Value, person.MaxLine) {
		return nil
	}
	return s.store.Update(r.Context(), func(tx storage.Tx) error {
		return typedContacts.Put(tx, si.ID, rec, rec.ExpiresAt)
	})
}

// showKept puts what was kept for the session into its field.
func (s *Service) showKept(r *http.Request, a *front.Visit, v *profilePage) error {
	now := s.now()
	return s.store.View(r.Context(), func(tx storage.Tx) error {
		rec, err := typedContacts.Get(tx, a.Si.ID)
		if errors.Is(err, storage.ErrNotFound) || err == nil && !rec.ExpiresAt.After(now) {
			return nil
		}
		v.focus = person.Contact{Kind: person.ContactKind(rec.Kind)}.Field()
		v.values[v.focus] = rec.Value
		return err
	})
}

// forgetContact forgets it once a form of the page is taken.
func (s *Service) forgetContact(r *http.Request, a *front.Visit) error {
	var there bool
	err := s.store.View(r.Context(), func(tx storage.Tx) (err error) {
		there, err = typedContacts.Has(tx, a.Si.ID)
		return err
	})
	if err != nil || !there {
		return err
	}
	return s.store.Update(r.Context(), func(tx storage.Tx) error { return typedContacts.Delete(tx, a.Si.ID) })
}
