package identity

import (
	"cmp"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/internal/cookie"
	"github.com/gatehouse-id/gatehouse/internal/event"
	"github.com/gatehouse-id/gatehouse/internal/login"
	"github.com/gatehouse-id/gatehouse/internal/page"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

// showSignIn serves GET /sign-in?flow=…: the sign-in page, or the choice of an account. Who has signed in meanwhile (in another tab, or
// came back by the back button) goes on. Without a flow it starts one.
func (s *Service) showSignIn(w http.ResponseWriter, r *http.Request) {
	if r.URL.Query().Get("flow") == "" {
		s.startSignIn(w, r)
		return
	}
	id, f, ok := s.flow(w, r)
	if !ok {
		return
	}
	si, err := s.current(r)
	if err != nil {
		s.fail(w, r, err, flowURL(id))
		return
	}
	if si != nil && s.satisfies(si, f.Demand) {
		s.redirect(w, r, f.Demand.Return)
		return
	}
	other := r.URL.Query().Get("other") != "" // the person asked for another account
	if si != nil && !other && s.meets(si, f.Demand) {
		st, err := s.standingOf(r.Context(), si)
		if err != nil {
			s.fail(w, r, err, flowURL(id))
			return
		}
		if st.can(f.Demand.Level) {
			s.redirect(w, r, stepUpURL(id))
			return
		}
	}
	if si != nil && f.Demand.SelectAccount && !s.chosen(si, f.Demand) && !other {
		s.showChoice(w, r, id, f, si)
		return
	}
	u, err := s.configured(r.Context())
	if err == nil && !u.Features.LoginEnabled {
		err = errClosed
	}
	if err != nil {
		s.fail(w, r, err, flowURL(id))
		return
	}
	known, err := s.providers(r.Context())
	if err != nil {
		s.fail(w, r, err, flowURL(id))
		return
	}
	in, ways := page.SignIn{Username: f.username()}, known.ways(f.Demand)
	if other {
		in.Username = ""
	}
	if p := cmp.Or(ways.straight, ways.byUsername(in.Username)); p != nil && r.URL.Query().Get("choose") == "" && (!other || ways.alone()) {
		s.redirect(w, r, providerURL(id, p.ID))
		return
	}
	if to := s.loginElsewhere(u, r, id, f); to != "" {
		s.sendOn(w, r, to)
		return
	}
	if in.Username == "" && si != nil && !other && si.session.Provider == provider {
		in.Username = si.person.Username // asked to sign in again
	}
	s.signInPage(w, r, id, f, ways, http.StatusOK, in)
}

// startSignIn begins a sign-in that nobody but the person has asked for. The parameter redirect may name a path of ours or a whitelisted URL to
// go to afterwards.
func (s *Service) startSignIn(w http.ResponseWriter, r *http.Request) {
	u, err := s.configured(r.Context())
	if err != nil {
		s.fail(w, r, err, "/sign-in")
		return
	}
	wanted := allowed(u, r.URL.Query().Get("redirect"))
	to := landing(u, wanted)
	d := login.Demand{MaxAge: -1, Return: page.LocalPath(to)}
	if d.Return == "" { // elsewhere, by way of here
		d.Return, d.Client.Targets = "/sign-in", targetsOf(to)
		if wanted != "" {
			d.Return += "?" + url.Values{"redirect": {wanted}}.Encode()
		}
	}
	switch _, err := s.Authenticate(w, r, d); {
	case err == nil:
		s.sendOn(w, r, to)
	case !errors.Is(err, login.ErrResponded):
		s.failSignIn(w, r, err, "/sign-in")
	}
}

// signInPage writes the form, with the providers that can be used instead. Where a username may lead to a provider it is asked for first.
func (s *Service) signInPage(w http.ResponseWriter, r *http.Request, id string, f flowRecord, ways *ways, status int, in page.SignIn) {
	in.Action = flowURL(id)
	in.CSRF = s.Pages.CSRF(s.jar.Get(r, cookie.KindBrowser), "sign_in:"+id)
	in.CanRemember = s.offersRemember()
	in.Cancel = page.LocalPath(f.Demand.Cancel)
	in.NoForm = !ways.password && !ways.hasDomains()
	in.NoPassword = !ways.password || (ways.hasDomains() && (in.Username == "" || in.Problem == "problem.username"))
	last := s.lastUsed(r)
	for _, p := range ways.providers {
		b := page.Provider{Name: p.Name, URL: providerURL(id, p.ID), Icon: s.Pages.Icon(p.ID), Last: p.ID == last}
		if b.Last {
			in.Providers = append([]page.Provider{b}, in.Providers...)
		} else {
			in.Providers = append(in.Providers, b)
		}
	}
	var err error
	if in.Passkey, err = s.offerPasskey(r, id, ways); err == nil {
		err = s.offerBeside(r.Context(), id, &in)
	}
	if err != nil {
		s.fail(w, r, err, in.Action)
		return
	}
	s.Pages.Render(w, r, s.view(f.Demand, "sign_in", status, in))
}

func (s *Service) view(d login.Demand, template string, status int, data any) page.View {
	return page.View{Template: template, Status: status, Locales: d.Locales, Mobile: d.View == "mobile", Client: d.Client, Data: data}
}

// handleSignIn serves POST /sign-in?flow=….
func (s *Service) handleSignIn(w http.ResponseWriter, r *http.Request) {
	id, f, ok := s.flow(w, r)
	if !ok {
		return
	}
	if err := s.Pages.CheckPost(r, s.jar.Get(r, cookie.KindBrowser), "sign_in:"+id); err != nil {
		s.Log.Info("form refused", zap.String("path", r.URL.Path), zap.Error(err))
		s.Pages.Refuse(w, r, err, flowURL(id))
		return
	}
	if err := s.isOpen(r.Context()); err != nil {
		s.fail(w, r, err, flowURL(id))
		return
	}
	username, password := strings.TrimSpace(r.PostForm.Get("username")), r.PostForm.Get("password")
	in := page.SignIn{Username: username, Remember: r.PostForm.Get("remember") != ""}
	if !isText(username, maxUsername) {
		in.Username = "" // not shown again, but refused like any other
	}
	known, err := s.providers(r.Context())
	if err != nil {
		s.fail(w, r, err, flowURL(id))
		return
	}
	ways := known.ways(f.Demand)
	_, full := r.PostForm["password"]
	switch {
	case username == "":
		in.Problem = "problem.username"
	case !full:
		s.handleUsername(w, r, id, f, ways, in)
		return
	case !ways.password:
		in.Problem = "problem.domain"
	case password == "":
		in.Problem = "problem.password"
	}
	if in.Problem != "" {
		s.signInPage(w, r, id, f, ways, http.StatusUnprocessableEntity, in)
		return
	}
	p, wait, err := s.provePassword(r, typedPassword{username: username, password: password, client: f.Demand.Client.ID, activates: true})
	if err == nil && wait == 0 {
		err = s.succeed(w, r, f, in.Remember, p)
	}
	inactive := new(inactiveError)
	switch {
	case errors.As(err, &inactive):
		s.leadToActivation(w, r, id, f, inactive)
	case err == nil && wait > 0:
		in.Problem, in.Wait = "problem.wait", retryAfter(w, wait)
		s.signInPage(w, r, id, f, ways, http.StatusTooManyRequests, in)
	case err == nil:
		s.goIn(w, r, id, f)
	case errors.Is(err, errMismatch):
		in.Problem = "problem.mismatch"
		s.signInPage(w, r, id, f, ways, http.StatusUnprocessableEntity, in)
	default:
		s.fail(w, r, err, flowURL(id))
	}
}

// handleUsername takes the first of two steps: the domain of an e-mail address may lead to a provider, otherwise the password is asked for. The
// username is kept in the flow, since addresses are logged.
func (s *Service) handleUsername(w http.ResponseWriter, r *http.Request, id string, f flowRecord, ways *ways, in page.SignIn) {
	p := ways.byUsername(in.Username)
	if in.Username == "" || (p == nil && !ways.password) {
		in.Problem = "problem.domain"
		s.signInPage(w, r, id, f, ways, http.StatusUnprocessableEntity, in)
		return
	}
	f.Typed = in.Username
	err := s.Store.Update(r.Context(), func(tx storage.Tx) error { return flows.Put(tx, id, f, f.ExpiresAt.Add(flowMemory)) })
	switch {
	case err != nil:
		s.fail(w, r, err, flowURL(id))
	case p != nil:
		s.redirect(w, r, providerURL(id, p.ID)+"&hop=1")
	default:
		s.redirect(w, r, flowURL(id)+"&choose=1")
	}
}

// username is what the form begins with: what was typed, or else what the client knows.
func (f *flowRecord) username() string { return cmp.Or(f.Typed, strings.TrimSpace(f.Demand.Hint)) }

// succeed opens the session of a person whose password was right, when what was verified still holds.
func (s *Service) succeed(w http.ResponseWriter, r *http.Request, f flowRecord, remember bool, p proof) error {
	if p.device == "" {
		var err error
		if p.device, err = s.newID(); err != nil {
			return err
		}
	}
	return s.admit(w, r, f, shown{
		person: p.account.id, level: passwordLevel, amr: "DEFAULT", remember: remember, device: p.device, from: p.from,
		prove: func(tx storage.Tx, now time.Time) (personRecord, error) { return s.proven(tx, p, now) },
	})
}

// shown is who a person has shown to be, and how.
type shown struct {
	person   string
	level    int
	amr      string
	passkey  string // id of the passkey that it is by. Empty: by none
	reason   string // of the event
	remember bool
	device   string
	from     event.Origin
	// prove writes what the proof leaves behind and returns the person, or errMismatch when it holds no more.
	prove func(tx storage.Tx, now time.Time) (personRecord, error)
}

// admit opens the session and sets its cookies.
func (s *Service) admit(w http.ResponseWriter, r *http.Request, f flowRecord, who shown) error {
	token, err := secret.NewToken(s.Random, secret.Session)
	if err != nil {
		return err
	}
	id, err := secret.ID(s.Random, 16)
	if err != nil {
		return err
	}
	ev, err := s.newEvents(who.from, loginSucceeded, signedOut)
	if err != nil {
		return err
	}
	now, old := s.Now(), hashed(s.jar.Get(r, kindSession))
	rec := sessionRecord{
		PersonID: who.person, AuthTime: now, Seen: now, Level: who.level, AMR: []string{who.amr}, Passkey: who.passkey, Provider: provider,
		Remembered: who.remember && s.offersRemember(), SignedInFor: secret.Hash(f.Demand.Return),
	}
	rec.from(who.from)
	var locale string
	err = s.Store.Update(r.Context(), func(tx storage.Tx) error {
		person, err := who.prove(tx, now)
		if err != nil {
			return err
		}
		rec.Epoch, locale = person.Epoch, person.Locale
		if rec.Again, err = signsIn(tx, who.person, now); err != nil {
			return err
		}
		sessionID, ended, err := s.begin(tx, id, token, old, rec)
		if err != nil {
			return err
		}
		if ended != nil {
			if err := s.Events.Append(tx, ended.own(ev[1], "another person signed in")); err != nil {
				return err
			}
		}
		e := (&signedIn{id: sessionID, session: rec, person: person}).own(ev[0], who.reason)
		e.ClientID = f.Demand.Client.ID
		return s.Events.Append(tx, e)
	})
	if err != nil {
		return err
	}
	s.setCookies(w, rec, token, who.device)
	s.Pages.Choose(w, r, locale)
	return nil
}

func (s *Service) setCookies(w http.ResponseWriter, rec sessionRecord, token, device string) {
	var life time.Duration
	if rec.Remembered {
		life = s.cfg.Session.Remember
	}
	s.jar.Set(w, kindSession, token, life)
	s.jar.Set(w, kindDevice, device, deviceLife)
}

// unchanged returns what is stored of an account, or errMismatch when it is not what was verified.
func (a account) unchanged(tx storage.Tx) (p personRecord, pw passwordRecord, err error) {
	if p, err = persons.Get(tx, a.id); err == nil {
		pw, err = passwords.Get(tx, a.id)
	}
	if errors.Is(err, storage.ErrNotFound) || (err == nil && (pw.PHC != a.phc || p.State != Active || p.Epoch != a.person.Epoch)) {
		return p, pw, errMismatch
	}
	return p, pw, err
}

// device returns the value of the cookie that recognises this browser, or "".
func (s *Service) device(r *http.Request) string {
	if v := s.jar.Get(r, kindDevice); len(v) == 43 && utf8.ValidString(v) {
		return v
	}
	return ""
}

// hashed is secret.Hash, and "" for nothing.
func hashed(v string) string {
	if v == "" {
		return ""
	}
	return secret.Hash(v)
}

// redirect sends the browser on after a form: 303, so that what was posted is not posted again. (RFC 9110 15.4.4)
func (s *Service) redirect(w http.ResponseWriter, r *http.Request, to string) {
	if to = page.LocalPath(to); to == "" {
		to = defaultReturn
	}
	s.sendOn(w, r, to)
}

// retryAfter says in the answer how long no try is taken, and returns the seconds. (RFC 6585 4)
func retryAfter(w http.ResponseWriter, wait time.Duration) int {
	seconds := int((wait + time.Second - 1) / time.Second)
	w.Header().Set("Retry-After", strconv.Itoa(seconds))
	return seconds
}

// sendOn is redirect to a place that is known to be good, of ours or elsewhere.
func (s *Service) sendOn(w http.ResponseWriter, r *http.Request, to string) {
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Referrer-Policy", "same-origin")
	http.Redirect(w, r, to, http.StatusSeeOther)
}
