package stepup

import (
	"errors"
	"net/http"
	"slices"

	"github.com/gatehouse-id/gatehouse/identity/front"
	"github.com/gatehouse-id/gatehouse/identity/session"
	"github.com/gatehouse-id/gatehouse/internal/page"
	"github.com/gatehouse-id/gatehouse/storage"
)

const (
	preferredPath = front.SecurityPath + "/preferred"
	lastUsed      = "last" // the method that was used last comes first
)

// preferable are the methods that a person may want first: those that they have, but for what stands in for another.
func (st *Standing) preferable() []*Method {
	return slices.DeleteFunc(slices.Clone(st.Has), func(m *Method) bool { return m == &recoveryMethod })
}

// preferredSection is there where a person has a choice.
func preferredSection(_ storage.Tx, _ *session.Current, st *Standing) (*page.SecuritySection, error) {
	list := st.preferable()
	if len(list) < 2 {
		return nil, nil //nolint:nilnil // nothing to choose
	}
	out := &page.SecuritySection{Key: "preferred", State: lastUsed, Actions: []page.SecurityAction{{Label: "security.preferred.change", URL: preferredPath}}}
	if st.Own.Fixed && Pick(list, st.Own.Preferred) != nil {
		out.State, out.Items = "first", []page.Row{{Icon: "key", Title: page.Say("step_up." + st.Own.Preferred + ".choice")}}
	}
	return out, nil
}

// choosing reads a request of the page. Otherwise it has written the answer and is not ok.
func (s *Service) choosing(w http.ResponseWriter, r *http.Request) (si *session.Current, list []*Method, now string, ok bool) {
	a, ok := s.front.Guard(w, r, preferredPath)
	if !ok {
		return nil, nil, "", false
	}
	si = a.SignIn
	st, err := s.StandingOf(r.Context(), si)
	if err != nil {
		s.front.Fail(w, r, err, preferredPath)
		return nil, nil, "", false
	}
	if list = st.preferable(); len(list) < 2 {
		s.front.Redirect(w, r, front.SecurityPath)
		return nil, nil, "", false
	}
	now = lastUsed
	if st.Own.Fixed && Pick(list, st.Own.Preferred) != nil {
		now = st.Own.Preferred
	}
	return si, list, now, true
}

// showPreferred serves GET /account/security/preferred.
func (s *Service) showPreferred(w http.ResponseWriter, r *http.Request) {
	si, list, now, ok := s.choosing(w, r)
	if !ok {
		return
	}
	csrf, err := s.front.SecurityForm(w, r, si, "preferred")
	if err != nil {
		s.front.Fail(w, r, err, preferredPath)
		return
	}
	f := page.Field{Name: "method", Type: "select", Label: "preferred.label", Value: now, Options: []page.Option{{Value: lastUsed, Label: "preferred.last"}}}
	for _, m := range list {
		f.Options = append(f.Options, page.Option{Value: m.Name, Label: "step_up." + m.Name + ".choice"})
	}
	s.pages.Render(w, r, page.View{Template: "form", Locales: si.Locales(), Data: page.Form{
		Key: "preferred", Action: preferredPath, CSRF: csrf, Cancel: front.SecurityPath, Fields: []page.Field{f},
	}})
}

// handlePreferred serves POST /account/security/preferred.
func (s *Service) handlePreferred(w http.ResponseWriter, r *http.Request) {
	si, list, _, ok := s.choosing(w, r)
	if !ok || !s.front.CheckSecurityForm(w, r, si, "preferred", preferredPath) {
		return
	}
	name := r.PostForm.Get("method")
	if name != lastUsed && Pick(list, name) == nil {
		s.front.Redirect(w, r, preferredPath)
		return
	}
	ev, err := s.person.NewEvents(s.origin(r), stepUpPreferred)
	if err == nil {
		now := s.now()
		err = s.store.Update(r.Context(), func(tx storage.Tx) error {
			if _, err := s.session.Live(tx, si.ID, now); err != nil {
				return err
			}
			own, err := readStepUp(tx, si.Session.PersonID)
			if err != nil {
				return err
			}
			if own.Fixed = name != lastUsed; own.Fixed {
				own.Preferred = name
			}
			if err := putStepUp(tx, si.Session.PersonID, own); err != nil {
				return err
			}
			return s.events.Append(tx, si.OwnEvent(ev[0], name))
		})
	}
	if err != nil && !errors.Is(err, storage.ErrNotFound) {
		s.front.Fail(w, r, err, preferredPath)
		return
	}
	s.front.Redirect(w, r, front.SecurityPath)
}
