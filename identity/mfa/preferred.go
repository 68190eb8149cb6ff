package mfa

import (
	"errors"
	"slices"

	"github.com/gatehouse-id/gatehouse/identity/webflow"
	"github.com/gatehouse-id/gatehouse/internal/web"
	"github.com/gatehouse-id/gatehouse/storage"
)

const (
	preferredPath = webflow.SecurityPath + "/preferred"
	preferredForm = "preferred"
	lastUsed      = "last" // the method that was used last comes first
)

// preferable returns the methods that a person may prefer: those that they have, without the one that replaces another.
func (st *Standing) preferable() []*Method {
	return slices.DeleteFunc(slices.Clone(st.Has), func(m *Method) bool { return m == &recoveryMethod })
}

// preference returns the method that the person prefers, or nil for the one that was used last.
func (st *Standing) preference() *Method {
	if !st.Own.Fixed {
		return nil
	}
	return Pick(st.preferable(), st.Own.Preferred)
}

// preferredSection is shown where a person has a choice.
func preferredSection(_ storage.Tx, _ *webflow.Request, st *Standing) (*web.SecuritySection, error) {
	if len(st.preferable()) < 2 {
		return nil, nil //nolint:nilnil // nothing to choose
	}
	out := &web.SecuritySection{
		Key: "preferred", State: lastUsed,
		Actions: []web.SecurityAction{{Label: "security.preferred.change", URL: preferredPath}},
	}
	if m := st.preference(); m != nil {
		out.State, out.Items = "first", []web.Row{{Icon: "key", Title: web.Say("step_up." + m.Name + ".choice")}}
	}
	return out, nil
}

// readPreferred reads what the two handlers of the page share.
func (s *Service) readPreferred(q *webflow.Request) (st *Standing, err error) {
	if _, err := s.deps.Front.VisitOf(q, preferredPath); err != nil {
		return nil, err
	}
	err = s.deps.Store.View(q.Context(), func(tx storage.Tx) (err error) {
		st, err = s.StandingIn(tx, q.SignIn, q.Settings)
		return err
	})
	if err == nil && len(st.preferable()) < 2 {
		err = redirectInstead(q, webflow.SecurityPath)
	}
	return st, err
}

// showPreferred serves GET /account/security/preferred.
func (s *Service) showPreferred(q *webflow.Request) error {
	st, err := s.readPreferred(q)
	if err != nil {
		return err
	}
	csrf, err := s.deps.Front.FormToken(q, webflow.SessionForm(preferredForm, q.SignIn))
	if err != nil {
		return err
	}
	f := web.Field{
		Name: "method", Type: "select", Label: "preferred.label", Value: lastUsed,
		Options: []web.Option{{Value: lastUsed, Label: "preferred.last"}},
	}
	if m := st.preference(); m != nil {
		f.Value = m.Name
	}
	for _, m := range st.preferable() {
		f.Options = append(f.Options, web.Option{Value: m.Name, Label: "step_up." + m.Name + ".choice"})
	}
	s.deps.Pages.Render(q.W, q.Request, web.View{Template: "form", Locales: q.SignIn.Locales(), Data: web.Form{
		Key: "preferred", Action: preferredPath, CSRF: csrf, Cancel: webflow.SecurityPath, Fields: []web.Field{f},
	}})
	return nil
}

// handlePreferred serves POST /account/security/preferred.
func (s *Service) handlePreferred(q *webflow.Request) error {
	st, err := s.readPreferred(q)
	if err == nil {
		err = s.deps.Front.CheckForm(q, webflow.SessionForm(preferredForm, q.SignIn), preferredPath)
	}
	if err != nil {
		return err
	}
	name := q.PostForm.Get("method")
	if name != lastUsed && Pick(st.preferable(), name) == nil {
		return q.Redirect(preferredPath)
	}
	ev, err := s.deps.Person.NewEvents(s.deps.Origin(q.Request), stepUpPreferred)
	if err != nil {
		return err
	}
	now := s.deps.Now()
	err = s.deps.Store.Update(q.Context(), func(tx storage.Tx) error {
		if _, err := s.deps.Session.Live(tx, q.SignIn.ID, now); err != nil {
			return err
		}
		own, err := readRecord(tx, q.SignIn.Session.PersonID)
		if err != nil {
			return err
		}
		if own.Fixed = name != lastUsed; own.Fixed {
			own.Preferred = name
		}
		if err := putRecord(tx, q.SignIn.Session.PersonID, own); err != nil {
			return err
		}
		return s.deps.Events.Append(tx, q.SignIn.OwnEvent(ev[0], name))
	})
	if err != nil && !errors.Is(err, storage.ErrNotFound) {
		return err
	}
	return q.Redirect(webflow.SecurityPath)
}
