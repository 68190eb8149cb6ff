package device

import (
	"errors"
	"net/http"
	"net/netip"
	"net/url"
	"time"

	"github.com/gatehouse-id/gatehouse/authz/oauth"
	"github.com/gatehouse-id/gatehouse/authz/token"
	"github.com/gatehouse-id/gatehouse/internal/authn"
	"github.com/gatehouse-id/gatehouse/internal/cookie"
	"github.com/gatehouse-id/gatehouse/internal/ratelimit"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/internal/web"
	"github.com/gatehouse-id/gatehouse/storage"
)

// UserCodeParam carries the code that a device shows.
const UserCodeParam = "user_code"

const flowParam = "flow"

// HandleEnter serves GET and POST /device, where a person enters the code of a device. (RFC 8628 3.3) A code in the
// address (verification_uri_complete) fills in the form and is not looked at before the person sends it.
func (s *Service) HandleEnter(w http.ResponseWriter, r *http.Request) error {
	if r.Method == http.MethodPost {
		return s.enter(w, r)
	}
	query, err := oauth.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return err
	}
	code, back := showUserCode(readUserCode(query.Get(UserCodeParam))), EnterPath
	if code != "" {
		back += "?" + url.Values{UserCodeParam: {code}}.Encode()
	}
	result, err := s.deps.Auth.Authenticate(w, r, authn.Demand{MaxAge: freshness, Return: back})
	if err != nil {
		return s.notSignedIn(w, r, err)
	}
	return s.showForm(w, r, result, web.Form{}, code)
}

// notSignedIn answers for what Authenticate has returned.
func (s *Service) notSignedIn(w http.ResponseWriter, r *http.Request, err error) error {
	refused := new(authn.Refusal)
	switch {
	case errors.Is(err, authn.ErrResponded):
		return nil
	case errors.As(err, &refused):
		s.deps.FailPage(w, r, &oauth.Error{Status: http.StatusForbidden, Code: refused.Code, Description: refused.Reason, Cause: refused},
			"error.denied", EnterPath)
		return nil
	}
	return oauth.StorageError(err)
}

// enterForm binds the form to the person.
func enterForm(subject string) string { return "device of " + subject }

func (s *Service) showForm(w http.ResponseWriter, r *http.Request, result *authn.Result, form web.Form, value string) error {
	browser, err := s.jar.Browser(w, r, s.newID)
	if err != nil {
		return err
	}
	field := web.Field{Name: UserCodeParam, Type: "code", InputMode: "text", Label: "device_code.label", Value: value, Required: true}
	view := web.View{Template: "form", Status: http.StatusOK}
	switch {
	case form.Wait > 0:
		view.Status = http.StatusTooManyRequests
	case form.Problem != "":
		view.Status = http.StatusUnprocessableEntity
		field.Problem, form.Problem = form.Problem, ""
	}
	form.Key, form.Action, form.CSRF = "device_code", EnterPath, s.deps.Pages.CSRF(browser, enterForm(result.Subject))
	form.Fields = web.Fields(form.Problem != "", field)
	view.Data = form
	s.deps.Pages.Render(w, r, view)
	return nil
}

func (s *Service) newID() (string, error) { return secret.ID(s.deps.Random, 32) }

// enter looks up the code that a person has sent. Entries are counted, right ones too.
func (s *Service) enter(w http.ResponseWriter, r *http.Request) error {
	current, err := s.deps.Auth.Current(r)
	if err != nil {
		return oauth.StorageError(err)
	}
	if current == nil {
		web.Redirect(w, EnterPath)
		return nil
	}
	browser := s.jar.Get(r, cookie.KindBrowser)
	if err := s.deps.Pages.CheckPost(r, browser, enterForm(current.Subject)); err != nil {
		return s.refuseForm(w, r, err)
	}
	typed := r.PostForm.Get(UserCodeParam)
	if typed == "" {
		return s.showForm(w, r, current, web.Form{Problem: "problem.code_missing"}, "")
	}
	id, err := s.newID()
	if err != nil {
		return err
	}
	now := s.now()
	visit := visitRecord{Browser: secret.Hash(browser), CreatedAt: now, ExpiresAt: now.Add(visitLifetime)}
	hash, tried := hashOf(readUserCode(typed)), s.entry(r, current.SessionID)
	var wait time.Duration
	known := false
	err = s.update(r.Context(), func(tx storage.Tx) (err error) {
		known = false
		if wait, err = tried.count(tx, now); err != nil || wait > 0 {
			return err
		}
		visit := visit
		visit.Request, _, err = undecided(tx, hash, now)
		if errors.Is(err, errUnknown) {
			return nil // counted
		}
		if err != nil {
			return err
		}
		known = true
		return visits.Create(tx, id, visit, visit.ExpiresAt.Add(token.CollectMargin))
	})
	switch {
	case err != nil:
		return err
	case wait > 0:
		s.deps.Record(r, oauth.TooManyTries(nil, wait))
		return s.showForm(w, r, current, web.Form{Problem: "problem.wait", Wait: ratelimit.RetryAfter(w, wait)}, "")
	case !known:
		s.deps.Record(r, &oauth.Error{
			Status: http.StatusUnprocessableEntity, Code: "access_denied",
			Description: "no device waits with this code", Cause: errWrongCode,
		})
		return s.showForm(w, r, current, web.Form{Problem: "problem.device_code"}, typed)
	}
	web.Redirect(w, AllowPath+"?"+url.Values{flowParam: {id}}.Encode())
	return nil
}

// refuseForm answers a form that is not that of our page.
func (s *Service) refuseForm(w http.ResponseWriter, r *http.Request, err error) error {
	s.deps.Record(r, &oauth.Error{
		Status: http.StatusForbidden, Code: "access_denied", Description: "the form of the device page is refused",
		Cause: errors.Join(oauth.ErrForm, err),
	})
	s.deps.Pages.Refuse(w, r, err, EnterPath)
	return nil
}

// entry is the sender of a code, for the counters. An empty network is not counted: loopback addresses belong to a
// proxy that trusted_proxies does not name, so everybody would share one count.
type entry struct{ session, network string }

func (s *Service) entry(r *http.Request, session string) entry {
	network := s.deps.Origin(r).ClientIP
	if a, err := netip.ParseAddr(network); err == nil {
		if a = a.Unmap().WithZone(""); a.IsLoopback() {
			network = ""
		} else if a.Is6() {
			if p, err := a.Prefix(64); err == nil {
				network = p.String()
			}
		}
	}
	return entry{session, network}
}

// count counts an entry, or returns how long to wait.
func (e entry) count(tx storage.Tx, now time.Time) (wait time.Duration, err error) {
	if wait, err = count(tx, tries, storage.Key("session", e.session), sessionWindow, sessionEntries, now); err != nil ||
		wait > 0 || e.network == "" {
		return wait, err
	}
	return count(tx, tries, storage.Key("network", e.network), networkWindow, networkEntries, now)
}
