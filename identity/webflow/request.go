package webflow

import (
	"cmp"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/challenge"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/session"
	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/internal/authn"
	"github.com/gatehouse-id/gatehouse/internal/cookie"
	"github.com/gatehouse-id/gatehouse/internal/denial"
	"github.com/gatehouse-id/gatehouse/internal/ratelimit"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/internal/web"
	"github.com/gatehouse-id/gatehouse/storage"
)

// Request is a request of a page with the settings and the browser's sign-in of one snapshot. Handlers take them from
// here, so no request sees two configurations.
type Request struct {
	*http.Request

	W        http.ResponseWriter
	Settings *settings.Units
	SignIn   *session.Current // nil: the browser is not signed in
	// Protected says that the person has set up a second step, which the sign-in has not taken.
	Protected bool
	seeing    *Seeing     // the account that an administrator looks at. nil: none
	flow      *FlowRecord // that the parameter flow names, perhaps of another browser. nil: it names none
	// Again is the path that the page of an error leads to. Empty: to none.
	Again string
	// Foreign says that another party wrote the address, such as a provider: what is after # in it is not passed on.
	Foreign bool
}

// Redirect redirects to one of our paths; anything else leads to the account page.
func (q *Request) Redirect(to string) error {
	return q.LeaveTo(cmp.Or(web.LocalPath(to), person.DefaultReturn))
}

// LeaveTo is Redirect to a trusted URL, ours or elsewhere.
func (q *Request) LeaveTo(to string) error {
	if q.Foreign {
		to = web.WithoutFragment(to)
	}
	web.Redirect(q.W, to)
	return nil
}

// Handler serves a page. An answer in place of the page is returned as an error, which Render writes (see Answer).
type Handler func(q *Request) error

// Pages serves GET and HEAD by show, POST by handle, and answers 405 for others. Either may be nil.
func (s *Service) Pages(show, handle Handler) http.Handler {
	var get, post http.HandlerFunc
	if show != nil {
		get = s.Page(show)
	}
	if handle != nil {
		post = s.outlasting(s.Page(handle))
	}
	return s.methods(get, post)
}

// outlasting serves a form to its end even if the browser leaves: a double click or an impatient reload must not leave
// an attempt counted whose answer was right. A password that has not had its turn yet is not checked for no one.
func (s *Service) outlasting(h http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := ratelimit.Outlast(r.Context())
		defer cancel()
		h(w, r.WithContext(secret.AskedBy(ctx, secret.LineOf(s.deps.Origin(r).ClientIP), r.Context().Done())))
	}
}

// Page serves every method by h.
func (s *Service) Page(h Handler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		q, err := s.Load(w, r)
		if err == nil {
			err = s.bound(q)
		}
		if err == nil {
			err = h(q)
		}
		s.Render(q, err)
	}
}

// Reload returns the request of an answer that lasts as it would be if it came now.
func (s *Service) Reload(q *Request) (*Request, error) {
	now, err := s.Load(q.W, q.Request)
	if err == nil {
		err = s.bound(now)
	}
	return now, err
}

// Load reads what a request needs, in one View at most. The request is never nil.
func (s *Service) Load(w http.ResponseWriter, r *http.Request) (*Request, error) {
	r = s.deps.Refusals.Begin(w, r, s.deps.Origin(r).ClientIP, denial.Refusal{Where: denial.Page})
	q, now := &Request{Request: r, W: w}, s.deps.Now()
	flow := r.URL.Query().Get("flow")
	first := [][]byte{settings.VersionKey()}
	if key := s.deps.Session.Key(r); key != nil {
		first = append(first, key)
	}
	if isFlowID(flow) {
		first = append(first, FlowRecords.Key(flow))
	}
	var err error
	if len(first) == 1 { // a browser that nothing is known of
		q.Settings, err = s.deps.Person.Settings(r.Context())
	} else {
		err = s.deps.Store.View(r.Context(), func(tx storage.Tx) (err error) {
			if _, err := tx.GetMany(first...); err != nil { // in one round trip
				return err
			}
			if q.Settings, err = s.deps.Units(tx); err != nil {
				return err
			}
			if q.SignIn, err = s.deps.Session.ReadIn(tx, r, now); err != nil {
				return err
			}
			if err := s.readSeeing(tx, q, now); err != nil {
				return err
			}
			if q.SignIn != nil && q.SignIn.Session.Level <= session.PasswordLevel && s.protects != nil {
				if q.Protected, err = s.protects(tx, q.SignIn, q.Settings); err != nil {
					return err
				}
			}
			q.flow, err = findFlow(tx, flow)
			return err
		})
	}
	if q.Settings != nil {
		q.Request = r.WithContext(settings.Seen(r.Context(), q.Settings))
	}
	if q.SignIn == nil {
		s.deps.Session.ForgetSecond(w, r)
	}
	q.noteRequester()
	return q, err
}

// findFlow returns the sign-in under way with this id, or nil.
func findFlow(tx storage.Tx, id string) (*FlowRecord, error) {
	if !isFlowID(id) {
		return nil, nil //nolint:nilnil // no sign-in has such an id
	}
	rec, ok, err := FlowRecords.Find(tx, id)
	if !ok {
		return nil, err
	}
	return &rec, nil
}

func isFlowID(id string) bool { return id != "" && len(id) <= maxFlowID }

// ErrAnswered says that the answer is written.
var ErrAnswered = errors.New("the answer is written")

// RedirectAway redirects the browser, for a function that has no other result then.
func (q *Request) RedirectAway(to string) error {
	if err := q.Redirect(to); err != nil {
		return err
	}
	return ErrAnswered
}

// TooLate is the answer to a request that comes too late: another one was faster, or the settings have changed.
func TooLate(again string) error {
	return &Answer{Status: http.StatusBadRequest, Key: "error.expired", Again: again}
}

// Answer is an error that a page of its own tells the person.
type Answer struct {
	Status int    // HTTP status
	Key    string // of the message
	Again  string // path that the page leads to. Empty: to none
	Label  string // message on the link there. Empty: "error.again"
	Cause  error  // for the log. nil: not worth a line
}

func (a *Answer) Error() string {
	if a.Cause != nil {
		return a.Cause.Error()
	}
	return "identity: answered with " + a.Key
}

func (a *Answer) Unwrap() error { return a.Cause }

// NotFound answers that there is no such page.
func NotFound() error { return &Answer{Status: http.StatusNotFound, Key: "error.not_found"} }

// formError is a POST that does not come from the form it claims to.
type formError struct {
	cause error
	again string
}

func (e *formError) Error() string { return e.cause.Error() }

func (e *formError) Unwrap() error { return e.cause }

// CheckForm refuses a request that is not a POST of that form of this browser. again is a path where the person finds
// the form again.
func (s *Service) CheckForm(q *Request, form, again string) error {
	if err := s.deps.Pages.CheckPost(q.Request, s.deps.Jar.Get(q.Request, cookie.KindBrowser), form); err != nil {
		return &formError{err, again}
	}
	return nil
}

// CheckUpload is CheckForm for a form with files of so many bytes together.
func (s *Service) CheckUpload(q *Request, form, again string, most int64) (*web.Upload, error) {
	up, err := s.deps.Pages.CheckUpload(q.Request, s.deps.Jar.Get(q.Request, cookie.KindBrowser), form, most)
	if err != nil {
		return nil, &formError{err, again}
	}
	return up, nil
}

// FormToken returns the token of a form of this browser.
func (s *Service) FormToken(q *Request, form string) (string, error) {
	browser, err := s.deps.Jar.Browser(q.W, q.Request, s.NewID)
	return s.deps.Pages.CSRF(browser, form), err
}

// SessionForm names a form that belongs to one session.
func SessionForm(form string, si *session.Current) string { return form + ":" + si.ID }

// Render writes the answer to a request that ended with an error, and its line in the log. Nothing else does.
func (s *Service) Render(q *Request, err error) {
	answer, form := new(Answer), new(formError)
	switch {
	case err == nil, errors.Is(err, ErrAnswered), errors.Is(err, authn.ErrResponded):
	case errors.As(err, &form):
		s.Refuse(q, denial.Refusal{Reason: denial.FormRefused, Status: http.StatusForbidden}, form.cause)
		s.deps.Pages.Refuse(q.W, q.Request, form.cause, form.again)
	case errors.As(err, &answer):
		if reason := reasons[answer.Key]; reason != "" {
			s.Refuse(q, denial.Refusal{Reason: reason, Status: answer.Status}, answer.Cause)
		}
		s.deps.Pages.ErrorTo(q.W, q.Request, answer.Status, answer.Key, answer.Again, answer.Label)
	default:
		s.fail(q, err)
	}
}

// FlowIn returns the sign-in under way that the parameter flow names, if it belongs to this browser and has not
// expired.
func (s *Service) FlowIn(q *Request) (id string, rec FlowRecord, err error) {
	if err = s.checkFlow(q, q.flow, s.deps.Now()); err == nil {
		rec = *q.flow
	}
	return q.URL.Query().Get("flow"), rec, err
}

// ReadFlowIn returns, within a transaction, the sign-in under way with this id, if it belongs to this browser and has
// not expired.
func (s *Service) ReadFlowIn(tx storage.Tx, q *Request, id string, now time.Time) (rec FlowRecord, err error) {
	found, err := findFlow(tx, id)
	if err == nil {
		err = s.checkFlow(q, found, now)
	}
	if err == nil {
		rec = *found
	}
	return rec, err
}

// checkFlow returns nil if a flow belongs to this browser and has not expired. nil is no flow.
func (s *Service) checkFlow(q *Request, rec *FlowRecord, now time.Time) error {
	switch {
	case rec == nil:
		return &Answer{Status: http.StatusBadRequest, Key: "error.expired", Again: person.DefaultReturn}
	case !s.deps.Jar.SameBrowser(q.Request, rec.Browser):
		// The id alone opens nothing: a stranger may have sent it in a link. Nor does the answer lead into that flow.
		return &Answer{Status: http.StatusForbidden, Key: "error.forbidden"}
	case !rec.ExpiresAt.After(now):
		return &Answer{Status: http.StatusBadRequest, Key: "error.expired", Again: rec.Demand.Return}
	}
	return nil
}

// NeedLevel returns nil if the browser's sign-in has a level, for our page at ret. Otherwise it has redirected to the
// page that raises the sign-in, or returns why it cannot be raised. Every page that shows or changes a person's own
// data calls it.
func (s *Service) NeedLevel(q *Request, level int, ret string) error {
	return s.needLevel(q, level, "", ret)
}

// NeedLevelAlone is NeedLevel without a second step that the settings or the person require, for the pages on the way
// to one: where a method is set up, and where a lost one is replaced. They have checks of their own for people who have
// a method.
func (s *Service) NeedLevelAlone(q *Request, level int, ret string) error {
	return s.needLevel(q, level, authn.SecondFactorOnDemand, ret)
}

func (s *Service) needLevel(q *Request, level int, secondFactor, ret string) error {
	result, err := s.authenticator.AuthenticateRequest(q, authn.Demand{
		MaxAge: -1, Level: level, SecondFactor: secondFactor, Return: ret, Cancel: q.above(ret),
	})
	refusal := new(authn.Refusal)
	switch {
	case errors.As(err, &refusal) && refusal.Code == UnmetLevel:
		return &Answer{Status: http.StatusForbidden, Key: "error.level", Cause: err}
	case err != nil:
		q.Again = ret
		return SignInError(err, ret)
	}
	if q.SignIn == nil || q.SignIn.ID != result.SessionID || q.SignIn.Session.Level < level { // ended or replaced this very moment
		if err := q.Redirect("/sign-in"); err != nil {
			return err
		}
		return ErrAnswered
	}
	return nil
}

// Opens reports whether the browser's sign-in opens our pages of a level as it is. NeedLevel raises one that does not.
func (s *Service) Opens(q *Request, level int) (bool, error) {
	_, err := s.authenticator.AuthenticateRequest(q, authn.Demand{MaxAge: -1, Level: level, Passive: true, Unused: true})
	if errors.As(err, new(*authn.Refusal)) {
		return false, nil
	}
	return err == nil && q.SignIn != nil && q.SignIn.Session.Level >= level, err
}

// above returns the page above the one at ret that the browser's sign-in opens as it is, to go back to instead of
// signing in with more. It is "" if that needs more too.
func (q *Request) above(ret string) string {
	if q.SignIn == nil || q.SignIn.Session.Level < DashboardLevel(q.Settings) {
		return ""
	}
	if strings.HasPrefix(ret, SecurityPath+"/") {
		return SecurityPath
	}
	return person.DefaultReturn
}

// Authenticate returns the browser's sign-in if it satisfies a demand of one of our pages. Otherwise the error is
// authn.ErrResponded, an *Answer, a *authn.Refusal, or says that the sign-in is unknown.
func (s *Service) Authenticate(q *Request, d authn.Demand) (*authn.Result, error) {
	return s.authenticator.AuthenticateRequest(q, d)
}

// SignInError is the answer to a refused sign-in that no application asked for; any other error is returned as it is.
func SignInError(err error, again string) error {
	if errors.As(err, new(*authn.Refusal)) {
		return &Answer{Status: http.StatusForbidden, Key: "error.refused", Again: again, Cause: err}
	}
	return err
}

// VisitOf returns the visit of the account page at path, which needs the level of the account pages and further ones.
func (s *Service) VisitOf(q *Request, path string, further ...func(*settings.Units) int) (*Visit, error) {
	q.Again = path
	a := &Visit{Request: q, Level: DashboardLevel(q.Settings), Path: path}
	for _, f := range further {
		a.Level = max(a.Level, f(q.Settings))
	}
	err := s.NeedLevel(q, a.Level, path)
	if err != nil {
		return nil, err
	}
	a.CSRF, err = s.FormToken(q, SessionForm(path, q.SignIn))
	return a, err
}

// VisitPost is VisitOf for a POST of a form of the page.
func (s *Service) VisitPost(q *Request, path string, further ...func(*settings.Units) int) (*Visit, error) {
	a, err := s.VisitOf(q, path, further...)
	if err == nil {
		err = s.CheckForm(q, SessionForm(path, q.SignIn), path)
	}
	return a, err
}

// DetourOf reads what the pages that the sign-in page links to share, and leads its errors back to that page.
// NotFound: the page is switched off.
func (s *Service) DetourOf(q *Request, path string, there func(*settings.Units) bool) (a Detour, err error) {
	q.Again, a.U = path, q.Settings
	if !there(a.U) {
		return a, NotFound()
	}
	if a.ID, a.Flow, err = s.FlowIn(q); errors.As(err, new(*Answer)) {
		a, err = Detour{U: a.U}, nil
	}
	q.Again = WithSignIn(path, a.ID)
	return a, err
}

// RenderForm writes a page that is one form.
func (s *Service) RenderForm(q *Request, a Detour, form string, status int, in web.Form) (err error) {
	if in.Action != "" {
		q.Again = in.Action
		if in.CSRF, err = s.FormToken(q, form); err != nil {
			return err
		}
	}
	s.deps.Pages.Render(q.W, q.Request, s.View(a.Flow.Demand, "form", status, in))
	return nil
}

// LinkIn returns the link of a request for its page. A link that comes from the mail is put into a cookie, and the
// browser is redirected without it, so neither history nor Referer keeps it; reading a link does not use it up. again
// is one of our paths where the person gets a new link, or "". further reads, in the same View, more about a valid
// link.
func (s *Service) LinkIn(q *Request, kind challenge.LinkKind, again string,
	further ...func(storage.Tx, *challenge.OpenLink) error,
) (*challenge.OpenLink, error) {
	if token := q.URL.Query().Get(challenge.LinkParam); token != "" && q.Method != http.MethodPost {
		if !secret.IsToken(secret.MailLink, token) {
			return nil, s.LinkError(q, kind, again, challenge.ErrNoLink)
		}
		s.deps.Jar.Set(q.W, challenge.LinkCookieOf(kind), token, challenge.LinkCookie)
		web.Redirect(q.W, s.deps.Proof.LinkPath(kind))
		return nil, ErrAnswered
	}
	o, now := &challenge.OpenLink{Kind: kind, Token: s.deps.Jar.Get(q.Request, challenge.LinkCookieOf(kind))}, s.deps.Now()
	err := s.deps.Store.View(q.Context(), func(tx storage.Tx) (err error) {
		if o.Record, err = s.deps.Proof.ReadLink(tx, kind, o.Token, now); err != nil {
			return err
		}
		for _, read := range further {
			if err := read(tx, o); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, s.LinkError(q, kind, again, err)
	}
	return o, nil
}

// CheckLink refuses a request that is not a POST of the page of that link.
func (s *Service) CheckLink(q *Request, o *challenge.OpenLink) error {
	return s.CheckForm(q, o.Form(), s.deps.Proof.LinkPath(o.Kind))
}

// LinkError is the answer for a link that is invalid or expired; any other error is returned as it is.
func (s *Service) LinkError(q *Request, kind challenge.LinkKind, again string, err error) error {
	if errors.Is(err, challenge.ErrNoLink) {
		s.deps.Jar.Clear(q.W, challenge.LinkCookieOf(kind))
		return &Answer{Status: http.StatusBadRequest, Key: "error.link", Again: again}
	}
	q.Again = s.deps.Proof.LinkPath(kind)
	return err
}
