package identity

import (
	"errors"
	"net/http"
	"slices"

	"github.com/gatehouse-id/gatehouse/internal/page"
	"github.com/gatehouse-id/gatehouse/storage"
)

const (
	preferredPath = securityPath + "/preferred"
	lastUsed      = "last" // the method that was used last comes first
)

// preferable are the methods that a person may want first: those that they have, but for what stands in for another.
func (st *standing) preferable() []*stepUpMethod {
	return slices.DeleteFunc(slices.Clone(st.has), func(m *stepUpMethod) bool { return m == &recoveryMethod })
}

// preferredSection is there where a person has a choice.
func preferredSection(_ storage.Tx, _ *signedIn, st *standing) (*page.SecuritySection, error) {
	list := st.preferable()
	if len(list) < 2 {
		return nil, nil //nolint:nilnil // nothing to choose
	}
	out := &page.SecuritySection{Key: "preferred", State: lastUsed, Actions: []page.SecurityAction{{Label: "security.preferred.change", URL: preferredPath}}}
	if st.own.Fixed && pick(list, st.own.Preferred) != nil {
		out.State, out.Items = "first", []page.Row{{Icon: "key", Title: page.Say("step_up." + st.own.Preferred + ".choice")}}
	}
	return out, nil
}

// choosing reads a request of the page. Otherwise it has written the answer and is not ok.
func (s *Service) choosing(w http.ResponseWriter, r *http.Request) (si *signedIn, list []*stepUpMethod, now string, ok bool) {
	a, ok := s.guard(w, r, preferredPath)
	if !ok {
		return nil, nil, "", false
	}
	si = a.si
	st, err := s.standingOf(r.Context(), si)
	if err != nil {
		s.fail(w, r, err, preferredPath)
		return nil, nil, "", false
	}
	if list = st.preferable(); len(list) < 2 {
		s.redirect(w, r, securityPath)
		return nil, nil, "", false
	}
	now = lastUsed
	if st.own.Fixed && pick(list, st.own.Preferred) != nil {
		now = st.own.Preferred
	}
	return si, list, now, true
}

// showPreferred serves GET /account/security/preferred.
func (s *Service) showPreferred(w http.ResponseWriter, r *http.Request) {
	si, list, now, ok := s.choosing(w, r)
	if !ok {
		return
	}
	csrf, err := s.securityForm(w, r, si, "preferred")
	if err != nil {
		s.fail(w, r, err, preferredPath)
		return
	}
	f := page.Field{Name: "method", Type: "select", Label: "preferred.label", Value: now, Options: []page.Option{{Value: lastUsed, Label: "preferred.last"}}}
	for _, m := range list {
		f.Options = append(f.Options, page.Option{Value: m.name, Label: "step_up." + m.name + ".choice"})
	}
	s.Pages.Render(w, r, page.View{Template: "form", Locales: si.locales(), Data: page.Form{
		Key: "preferred", Action: preferredPath, CSRF: csrf, Cancel: securityPath, Fields: []page.Field{f},
	}})
}

// handlePreferred serves POST /account/security/preferred.
func (s *Service) handlePreferred(w http.ResponseWriter, r *http.Request) {
	si, list, _, ok := s.choosing(w, r)
	if !ok || !s.checkSecurityForm(w, r, si, "preferred", preferredPath) {
		return
	}
	name := r.PostForm.Get("method")
	if name != lastUsed && pick(list, name) == nil {
		s.redirect(w, r, preferredPath)
		return
	}
	ev, err := s.newEvents(s.Origin(r), stepUpPreferred)
	if err == nil {
		now := s.Now()
		err = s.Store.Update(r.Context(), func(tx storage.Tx) error {
			if _, err := s.live(tx, si.id, now); err != nil {
				return err
			}
			own, err := readStepUp(tx, si.session.PersonID)
			if err != nil {
				return err
			}
			if own.Fixed = name != lastUsed; own.Fixed {
				own.Preferred = name
			}
			if err := putStepUp(tx, si.session.PersonID, own); err != nil {
				return err
			}
			return s.Events.Append(tx, si.own(ev[0], name))
		})
	}
	if err != nil && !errors.Is(err, storage.ErrNotFound) {
		s.fail(w, r, err, preferredPath)
		return
	}
	s.redirect(w, r, securityPath)
}
