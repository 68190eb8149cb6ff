package account

import (
	"strings"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/webflow"
	"github.com/gatehouse-id/gatehouse/internal/cookie"
	"github.com/gatehouse-id/gatehouse/storage"
)

// keepTypedContact keeps a contact that was typed in a session that has to step up first, so its field is filled in
// afterwards. It is bound to the session and never part of a URL. A forged form keeps nothing; the guard refuses it
// later.
func (s *Service) keepTypedContact(q *webflow.Request) error {
	form := webflow.SessionForm(webflow.ProfilePath, q.SignIn)
	if s.deps.Pages.CheckPost(q.Request, s.deps.Jar.Get(q.Request, cookie.KindBrowser), form) != nil || q.PostForm.Get("do") != "add" {
		return nil
	}
	rec := newContactRecord{
		Kind: q.PostForm.Get("kind"), Value: strings.TrimSpace(q.PostForm.Get("value")),
		ExpiresAt: s.deps.Now().Add(webflow.FlowLife),
	}
	switch kind := person.ContactKind(rec.Kind); {
	case kind != person.ContactEmail && kind != person.ContactPhone, rec.Value == "", !person.IsText(rec.Value, person.MaxLine):
		return nil
	}
	return s.deps.Store.Update(q.Context(), func(tx storage.Tx) error {
		return typedContacts.Put(tx, q.SignIn.ID, rec, rec.ExpiresAt)
	})
}

// fillIn puts the contact that was kept for the session into its field.
func (v *profilePage) fillIn(now time.Time) {
	if !v.kept.ExpiresAt.After(now) {
		return
	}
	v.focus = v.kept.contact().Field()
	v.values[v.focus] = v.kept.Value
	v.edit = string(v.kept.contact().Kind)
}

// forgetTypedContact forgets the contact that was kept, once a form of the page is accepted.
func (s *Service) forgetTypedContact(a *webflow.Visit, v *profilePage) error {
	if v.kept == (newContactRecord{}) {
		return nil
	}
	return s.deps.Store.Update(a.Context(), func(tx storage.Tx) error { return typedContacts.Delete(tx, a.SignIn.ID) })
}
