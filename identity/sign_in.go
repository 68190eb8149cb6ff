package identity

import (
	"context"
	"errors"
	"net/http"
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

// defaultReturn is where a person goes who came to sign in for nothing in particular.
const defaultReturn = "/account"

// showSignIn serves GET /sign-in?flow=…: the sign-in page, or the choice of an account. Who has signed in meanwhile (in another tab, or
// came back by the back button) goes on. Without a flow it starts one.
func (s *Service) showSignIn(w http.ResponseWriter, r *http.Request) {
	if r.URL.Query().Get("flow") == "" {
		_, err := s.Authenticate(w, r, login.Demand{MaxAge: -1, Return: defaultReturn})
		if err == nil {
			http.Redirect(w, r, defaultReturn, http.StatusSeeOther)
		} else if !errors.Is(err, login.ErrResponded) {
			s.fail(w, r, err, "/sign-in")
		}
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
	if si != nil && f.Demand.SelectAccount && !s.chosen(si, f.Demand) && !other {
		s.showChoice(w, r, id, f, si)
		return
	}
	in := page.SignIn{Username: strings.TrimSpace(f.Demand.Hint)}
	if other {
		in.Username = ""
	}
	if in.Username == "" && si != nil && !other {
		in.Username = si.person.Username // asked to sign in again
	}
	s.signInPage(w, r, id, f, http.StatusOK, in)
}

// signInPage writes the form.
func (s *Service) signInPage(w http.ResponseWriter, r *http.Request, id string, f flowRecord, status int, in page.SignIn) {
	in.Action = flowURL(id)
	in.CSRF = s.Pages.CSRF(s.jar.Get(r, cookie.KindBrowser), "sign_in:"+id)
	in.CanRemember = s.cfg.Session.Remember > 0
	in.Cancel = page.LocalPath(f.Demand.Cancel)
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
	username, password := strings.TrimSpace(r.PostForm.Get("username")), r.PostForm.Get("password")
	in := page.SignIn{Username: username, Remember: r.PostForm.Get("remember") != ""}
	if !isText(username, maxUsername) {
		in.Username = "" // not shown again, but refused like any other
	}
	switch {
	case username == "":
		in.Problem = "problem.username"
	case password == "":
		in.Problem = "problem.password"
	}
	if in.Problem != "" {
		s.signInPage(w, r, id, f, http.StatusUnprocessableEntity, in)
		return
	}
	wait, err := s.signIn(w, r, f, credentials{username, password, in.Remember})
	switch {
	case err == nil && wait > 0:
		in.Problem, in.Wait = "problem.wait", int((wait+time.Second-1)/time.Second)
		w.Header().Set("Retry-After", strconv.Itoa(in.Wait)) // RFC 6585 4
		s.signInPage(w, r, id, f, http.StatusTooManyRequests, in)
	case err == nil:
		s.redirect(w, r, f.Demand.Return)
	case errors.Is(err, errMismatch):
		in.Problem = "problem.mismatch"
		s.signInPage(w, r, id, f, http.StatusUnprocessableEntity, in)
	default:
		s.fail(w, r, err, flowURL(id))
	}
}

type credentials struct {
	username, password string
	remember           bool
}

// signIn counts the try, checks the password and opens the session. wait is how long no try is taken, errMismatch every reason
// that is the person's; both have been logged.
func (s *Service) signIn(w http.ResponseWriter, r *http.Request, f flowRecord, c credentials) (wait time.Duration, err error) {
	ctx, from := r.Context(), s.Origin(r)
	a, err := s.lookUp(ctx, c.username)
	if err != nil {
		return 0, err
	}
	device := s.device(r)
	at, err := s.attempt(ctx, a, c.username, from.ClientIP, hashed(device))
	if err != nil {
		return 0, err
	}
	if at.wait > 0 {
		s.Log.Info("sign-in not taken: too many tries", zap.String("person_id", a.id), zap.String("client_ip", from.ClientIP))
		return at.wait, nil
	}
	fresh, err := s.verify(ctx, a, c.password)
	switch {
	case errors.Is(err, errMismatch):
		s.Log.Info("sign-in refused", zap.String("person_id", a.id), zap.String("client_ip", from.ClientIP))
		if err := s.failed(ctx, f.Demand.Client.ID, a, at, from); err != nil {
			return 0, err
		}
		return 0, errMismatch
	case err != nil:
		s.notEvaluated(ctx, at)
		return 0, err
	}
	return 0, s.succeed(w, r, f, a, at, c, fresh, device, from)
}

// notEvaluated takes back a try whose password nobody could look at.
func (s *Service) notEvaluated(ctx context.Context, at attempt) {
	now := s.Now()
	if err := s.Store.Update(ctx, func(tx storage.Tx) error { return s.giveBack(tx, at, false, now) }); err != nil {
		s.Log.Error("try not given back", zap.Error(err))
	}
}

// failed writes the events of a refused sign-in.
func (s *Service) failed(ctx context.Context, clientID string, a account, at attempt, from event.Origin) error {
	ev, err := s.newEvents(from, loginFailed, loginThrottled)
	if err != nil {
		return err
	}
	if !at.exhausted {
		ev = ev[:1]
	}
	return s.Store.Update(ctx, func(tx storage.Tx) error {
		for _, e := range ev {
			e.PersonID, e.ClientID = a.id, clientID
			if err := s.Events.Append(tx, e); err != nil {
				return err
			}
		}
		return nil
	})
}

// succeed opens the session and sets its cookies, when what was verified still holds.
func (s *Service) succeed(w http.ResponseWriter, r *http.Request, f flowRecord, a account, at attempt, c credentials, fresh, device string, from event.Origin) error {
	token, err := secret.NewToken(s.Random, secret.Session)
	if err != nil {
		return err
	}
	id, err := secret.ID(s.Random, 16)
	if err != nil {
		return err
	}
	if device == "" {
		if device, err = s.newID(); err != nil {
			return err
		}
	}
	ev, err := s.newEvents(from, loginSucceeded, signedOut)
	if err != nil {
		return err
	}
	now, old := s.Now(), hashed(s.jar.Get(r, kindSession))
	rec := sessionRecord{
		PersonID: a.id, AuthTime: now, Seen: now, Level: passwordLevel, AMR: []string{"DEFAULT"}, Provider: provider,
		Remembered: c.remember && s.cfg.Session.Remember > 0, SignedInFor: secret.Hash(f.Demand.Return),
	}
	err = s.Store.Update(r.Context(), func(tx storage.Tx) error {
		p, pw, err := a.unchanged(tx)
		if err != nil {
			return err
		}
		rec.Epoch = p.Epoch
		sessionID, ended, err := s.begin(tx, id, token, old, rec)
		if err != nil {
			return err
		}
		if fresh != "" {
			if err := passwords.Put(tx, a.id, passwordRecord{PHC: fresh, ChangedAt: pw.ChangedAt}, time.Time{}); err != nil {
				return err
			}
		}
		if err := s.giveBack(tx, at, true, now); err != nil {
			return err
		}
		if err := devices.Put(tx, storage.Key(a.id, hashed(device)), deviceRecord{Epoch: p.Epoch, Seen: now}, now.Add(deviceLife)); err != nil {
			return err
		}
		if ended != nil {
			if err := s.Events.Append(tx, ended.own(ev[1], "another person signed in")); err != nil {
				return err
			}
		}
		e := (&signedIn{id: sessionID, session: rec, person: p}).own(ev[0], "")
		e.ClientID = f.Demand.Client.ID
		return s.Events.Append(tx, e)
	})
	if err != nil {
		return err
	}
	s.setCookies(w, rec, token, device)
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
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Referrer-Policy", "same-origin")
	http.Redirect(w, r, to, http.StatusSeeOther)
}
