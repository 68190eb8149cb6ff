package identity

import (
	"errors"
	"net/http"
	"net/url"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/internal/cookie"
	"github.com/gatehouse-id/gatehouse/internal/login"
	"github.com/gatehouse-id/gatehouse/internal/page"
	"github.com/gatehouse-id/gatehouse/storage"
)

const removePath = securityPath + "/remove"

// securitySection is a part of the page about how a person signs in. It returns nil where there is nothing to show.
type securitySection func(tx storage.Tx, si *signedIn, st *standing) (*page.SecuritySection, error)

// methodSections are the parts about the methods, in their order.
func (s *Service) methodSections() []securitySection {
	return []securitySection{passkeySection, authenticatorSection, recoverySection, s.pinSection, s.pushSection, s.smsSection, emailSection, preferredSection}
}

// addSections adds parts of the page. New calls it before the service is used.
func (s *Service) addSections(parts ...securitySection) { s.sections = append(s.sections, parts...) }

// showSecurity serves GET /account/security: how the person shows who they are, and where that is changed.
func (s *Service) showSecurity(w http.ResponseWriter, r *http.Request) {
	u, err := s.configured(r.Context())
	if err != nil {
		s.fail(w, r, err, securityPath)
		return
	}
	si, ok := s.requireLevel(w, r, u.StepUp.Actions.DashboardStepUpAuthenticationLevel, securityPath)
	if !ok {
		return
	}
	data := page.Security{Back: defaultReturn}
	err = s.Store.View(r.Context(), func(tx storage.Tx) error {
		data.Sections = nil
		st, err := s.readStanding(tx, si)
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
		s.fail(w, r, err, securityPath)
		return
	}
	s.Pages.Render(w, r, page.View{Template: "security", Locales: si.locales(), Nav: s.nav(r, u), Data: data})
}

// setUpOnce is requireSetUp for a method that a person has once, while it is switched on and not there yet. self is the page with what led to it, next where
// one goes afterwards. Where it is not ok the answer is written.
func (s *Service) setUpOnce(w http.ResponseWriter, r *http.Request, m *stepUpMethod, there func(own *stepUpRecord) bool) (si *signedIn, self, next string, ok bool) {
	self, next = withFlow(m.setUp, r)
	si, st, ok := s.requireSetUp(w, r, self)
	switch {
	case !ok:
	case m.level(st.units) == 0:
		s.Pages.Error(w, r, http.StatusNotFound, "error.not_found", "")
		ok = false
	case there(&st.own):
		s.redirect(w, r, next)
		ok = false
	}
	return si, self, next, ok
}

// requireSetUp is requireLevel for a page that sets up or removes a method.
func (s *Service) requireSetUp(w http.ResponseWriter, r *http.Request, ret string) (*signedIn, *standing, bool) {
	si, ok := s.requireLevel(w, r, passwordLevel, ret)
	if !ok {
		return nil, nil, false
	}
	st, err := s.standingOf(r.Context(), si)
	if err != nil {
		s.fail(w, r, err, ret)
		return nil, nil, false
	}
	si, ok = s.requireLevel(w, r, st.setUpLevel(), ret)
	return si, st, ok
}

// maySetUp returns errMismatch when, by now, the session may not set up a method.
func (s *Service) maySetUp(tx storage.Tx, si *signedIn) (*standing, error) {
	rec, err := s.live(tx, si.id, s.Now())
	if errors.Is(err, storage.ErrNotFound) {
		return nil, errMismatch
	}
	if err != nil {
		return nil, err
	}
	p, err := persons.Get(tx, si.session.PersonID)
	if err != nil {
		return nil, err
	}
	st, err := s.readStanding(tx, si)
	if err == nil && (rec.PersonID != si.session.PersonID || rec.Level < st.setUpLevel() || p.State != Active || p.Epoch != rec.Epoch) {
		err = errMismatch
	}
	return st, err
}

// securityForm returns the token of a form of this session.
func (s *Service) securityForm(w http.ResponseWriter, r *http.Request, si *signedIn, form string) (string, error) {
	browser, err := s.jar.Browser(w, r, s.newID)
	return s.Pages.CSRF(browser, form+":"+si.id), err
}

// checkSecurityForm tells whether a POST is of that form. Otherwise it has written the answer.
func (s *Service) checkSecurityForm(w http.ResponseWriter, r *http.Request, si *signedIn, form, again string) bool {
	err := s.Pages.CheckPost(r, s.jar.Get(r, cookie.KindBrowser), form+":"+si.id)
	if err != nil {
		s.Log.Info("form refused", zap.String("path", r.URL.Path), zap.Error(err))
		s.Pages.Refuse(w, r, err, again)
	}
	return err == nil
}

// withFlow returns a path of ours that goes on with the step-up that the request belongs to, if any, and where that goes on.
func withFlow(path string, r *http.Request) (self, next string) {
	if id := r.URL.Query().Get("flow"); id != "" && len(id) <= 64 {
		return path + "?flow=" + url.QueryEscape(id), stepUpURL(id)
	}
	return path, securityPath
}

// leadsTo names where the forms of a page may lead to in the end that belongs to a sign-in: browsers apply form-action to every redirect that follows.
func (s *Service) leadsTo(r *http.Request, flow string) login.Client {
	_, rec, err := s.signInOf(r, flow)
	if err != nil { // the page is there all the same, and the redirect after it tells what is wrong
		return login.Client{}
	}
	return login.Client{Targets: rec.Demand.Client.Targets}
}

// removable are the methods that a person can remove, by name.
func (s *Service) removable(name string) *stepUpMethod {
	for _, m := range s.stepUpMethods() {
		if m.name == name && m.remove != nil {
			return m
		}
	}
	return nil
}

func removeURL(m *stepUpMethod) string { return removePath + "?method=" + m.name }

// toRemove reads which method a request is about to remove. Otherwise it has written the answer and is not ok.
func (s *Service) toRemove(w http.ResponseWriter, r *http.Request) (m *stepUpMethod, si *signedIn, ok bool) {
	if m = s.removable(r.URL.Query().Get("method")); m == nil {
		s.Pages.Error(w, r, http.StatusNotFound, "error.not_found", "")
		return nil, nil, false
	}
	si, st, ok := s.requireSetUp(w, r, removeURL(m))
	if ok && pick(st.has, m.name) == nil {
		s.redirect(w, r, securityPath)
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
	csrf, err := s.securityForm(w, r, si, "remove "+m.name)
	if err != nil {
		s.fail(w, r, err, securityPath)
		return
	}
	s.Pages.Render(w, r, page.View{Template: "confirm", Data: page.Confirm{
		Key: "remove." + m.name, Action: removeURL(m), CSRF: csrf, Cancel: securityPath,
	}})
}

// handleRemove serves POST /account/security/remove?method=….
func (s *Service) handleRemove(w http.ResponseWriter, r *http.Request) {
	m, si, ok := s.toRemove(w, r)
	if !ok || !s.checkSecurityForm(w, r, si, "remove "+m.name, removeURL(m)) {
		return
	}
	ev, err := s.newEvents(s.Origin(r), stepUpRemoved)
	if err == nil {
		err = s.Store.Update(r.Context(), func(tx storage.Tx) error {
			st, err := s.maySetUp(tx, si)
			if err != nil || pick(st.has, m.name) == nil {
				return err
			}
			own := st.own
			m.remove(&own)
			if err := putStepUp(tx, si.session.PersonID, own); err != nil {
				return err
			}
			if err := s.lowerSessions(tx, si.session.PersonID, m.name, ""); err != nil {
				return err
			}
			return s.Events.Append(tx, si.own(ev[0], m.name))
		})
	}
	if err != nil && !errors.Is(err, errMismatch) {
		s.fail(w, r, err, securityPath)
		return
	}
	s.redirect(w, r, securityPath)
}
