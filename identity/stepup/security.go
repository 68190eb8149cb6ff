package stepup

import (
	"errors"
	"net/http"
	"net/url"

	"github.com/gatehouse-id/gatehouse/identity/front"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/session"
	"github.com/gatehouse-id/gatehouse/internal/login"
	"github.com/gatehouse-id/gatehouse/internal/page"
	"github.com/gatehouse-id/gatehouse/storage"
)

const removePath = front.SecurityPath + "/remove"

// Section is a part of the page about how a person signs in. It returns nil where there is nothing to show.
type Section func(tx storage.Tx, si *session.Current, st *Standing) (*page.SecuritySection, error)

// MethodSections are the parts about the methods, in their order.
func (s *Service) MethodSections() []Section {
	return []Section{passkeySection, authenticatorSection, recoverySection, s.pinSection, s.pushSection, s.smsSection, emailSection, preferredSection}
}

// AddSections adds parts of the page. New calls it before the service is used.
func (s *Service) AddSections(parts ...Section) { s.sections = append(s.sections, parts...) }

// showSecurity serves GET /account/security: how the person shows who they are, and where that is changed.
func (s *Service) showSecurity(w http.ResponseWriter, r *http.Request) {
	u, err := s.person.Settings(r.Context())
	if err != nil {
		s.front.Fail(w, r, err, front.SecurityPath)
		return
	}
	si, ok := s.front.RequireLevel(w, r, u.StepUp.Actions.DashboardStepUpAuthenticationLevel, front.SecurityPath)
	if !ok {
		return
	}
	data := page.Security{Back: person.DefaultReturn}
	err = s.store.View(r.Context(), func(tx storage.Tx) error {
		data.Sections = nil
		st, err := s.ReadStanding(tx, si)
		if err != nil {
			return err
		}
		for _, section := range s.sections {
			part, err := section(tx, si, st)
			if err != nil {
				return err
			}
			if part != nil {
				data.Sections = append(data.Sections, *part)
			}
		}
		return nil
	})
	if err != nil {
		s.front.Fail(w, r, err, front.SecurityPath)
		return
	}
	s.pages.Render(w, r, page.View{Template: "security", Locales: si.Locales(), Nav: s.front.Nav(r, u), Data: data})
}

// setUpOnce is RequireSetUp for a method that a person has once, while it is switched on and not there yet. self is the page with what led to it, next where
// one goes afterwards. Where it is not ok the answer is written.
func (s *Service) setUpOnce(w http.ResponseWriter, r *http.Request, m *Method, there func(own *Record) bool) (si *session.Current, self, next string, ok bool) {
	self, next = withFlow(m.setUp, r)
	si, st, ok := s.RequireSetUp(w, r, self)
	switch {
	case !ok:
	case m.Level(st.Units) == 0:
		s.pages.Error(w, r, http.StatusNotFound, "error.not_found", "")
		ok = false
	case there(&st.Own):
		s.front.Redirect(w, r, next)
		ok = false
	}
	return si, self, next, ok
}

// RequireSetUp is front.RequireLevel for a page that sets up or removes a method.
func (s *Service) RequireSetUp(w http.ResponseWriter, r *http.Request, ret string) (*session.Current, *Standing, bool) {
	si, ok := s.front.RequireLevel(w, r, session.PasswordLevel, ret)
	if !ok {
		return nil, nil, false
	}
	st, err := s.StandingOf(r.Context(), si)
	if err != nil {
		s.front.Fail(w, r, err, ret)
		return nil, nil, false
	}
	si, ok = s.front.RequireLevel(w, r, st.SetUpLevel(), ret)
	return si, st, ok
}

// MaySetUp returns person.ErrMismatch when, by now, the session may not set up a method.
func (s *Service) MaySetUp(tx storage.Tx, si *session.Current) (*Standing, error) {
	rec, err := s.session.Live(tx, si.ID, s.now())
	if errors.Is(err, storage.ErrNotFound) {
		return nil, person.ErrMismatch
	}
	if err != nil {
		return nil, err
	}
	p, err := person.Records.Get(tx, si.Session.PersonID)
	if err != nil {
		return nil, err
	}
	st, err := s.ReadStanding(tx, si)
	if err == nil && (rec.PersonID != si.Session.PersonID || rec.Level < st.SetUpLevel() || p.State != person.Active || p.Epoch != rec.Epoch) {
		err = person.ErrMismatch
	}
	return st, err
}

// withFlow returns a path of ours that goes on with the step-up that the request belongs to, if any, and where that goes on.
func withFlow(path string, r *http.Request) (self, next string) {
	if id := r.URL.Query().Get("flow"); id != "" && len(id) <= 64 {
		return path + "?flow=" + url.QueryEscape(id), URL(id)
	}
	return path, front.SecurityPath
}

// leadsTo names where the forms of a page may lead to in the end that belongs to a sign-in: browsers apply form-action to every redirect that follows.
func (s *Service) leadsTo(r *http.Request, flow string) login.Client {
	_, rec, err := s.front.SignInOf(r, flow)
	if err != nil { // the page is there all the same, and the redirect after it tells what is wrong
		return login.Client{}
	}
	return login.Client{Targets: rec.Demand.Client.Targets}
}

// removable are the methods that a person can remove, by name.
func (s *Service) removable(name string) *Method {
	for _, m := range s.stepUpMethods() {
		if m.Name == name && m.remove != nil {
			return m
		}
	}
	return nil
}

func removeURL(m *Method) string { return removePath + "?method=" + m.Name }

// toRemove reads which method a request is about to remove. Otherwise it has written the answer and is not ok.
func (s *Service) toRemove(w http.ResponseWriter, r *http.Request) (m *Method, si *session.Current, ok bool) {
	if m = s.removable(r.URL.Query().Get("method")); m == nil {
		s.pages.Error(w, r, http.StatusNotFound, "error.not_found", "")
		return nil, nil, false
	}
	si, st, ok := s.RequireSetUp(w, r, removeURL(m))
	if ok && Pick(st.Has, m.Name) == nil {
		s.front.Redirect(w, r, front.SecurityPath)
		ok = false
	}
	return m, si, ok
}

// showRemove serves GET /account/security/remove?method=…: it asks, and changes nothing.
func (s *Service) showRemove(w http.ResponseWriter, r *http.Request) {
	m, si, ok := s.toRemove(w, r)
	if !ok {
		return
	}
	csrf, err := s.front.SecurityForm(w, r, si, "remove "+m.Name)
	if err != nil {
		s.front.Fail(w, r, err, front.SecurityPath)
		return
	}
	s.pages.Render(w, r, page.View{Template: "confirm", Data: page.Confirm{
		Key: "remove." + m.Name, Action: removeURL(m), CSRF: csrf, Cancel: front.SecurityPath,
	}})
}

// handleRemove serves POST /account/security/remove?method=….
func (s *Service) handleRemove(w http.ResponseWriter, r *http.Request) {
	m, si, ok := s.toRemove(w, r)
	if !ok || !s.front.CheckSecurityForm(w, r, si, "remove "+m.Name, removeURL(m)) {
		return
	}
	ev, err := s.person.NewEvents(s.origin(r), stepUpRemoved)
	if err == nil {
		err = s.store.Update(r.Context(), func(tx storage.Tx) error {
			st, err := s.MaySetUp(tx, si)
			if err != nil || Pick(st.Has, m.Name) == nil {
				return err
			}
			own := st.Own
			m.remove(&own)
			if err := putStepUp(tx, si.Session.PersonID, own); err != nil {
				return err
			}
			if err := s.session.LowerSessions(tx, si.Session.PersonID, m.Name, ""); err != nil {
				return err
			}
			return s.events.Append(tx, si.OwnEvent(ev[0], m.Name))
		})
	}
	if err != nil && !errors.Is(err, person.ErrMismatch) {
		s.front.Fail(w, r, err, front.SecurityPath)
		return
	}
	s.front.Redirect(w, r, front.SecurityPath)
}
