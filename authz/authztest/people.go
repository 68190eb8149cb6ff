package authztest

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/authn"
	"github.com/gatehouse-id/gatehouse/storage"
)

const (
	buttonPath    = "/test/sign-in" // page with the sign-in button
	sessionCookie = "test-session"
	sessionEnds   = 12 * time.Hour
)

var never time.Time

// People are persons who sign in by a button. They implement authz.Authenticator and authz.Subjects and are safe for
// concurrent use.
type People struct {
	clock *Clock

	mu                  sync.Mutex // guards all below
	secondFactor        bool
	persons             map[string]authn.Subject
	sessions            map[string]*session
	closing             map[string]bool // sessions that a transaction has closed, if it was committed
	demands             []authn.Demand
	touched             map[string]int
	linked              map[string]string // provider, issuer, subject
	vouching            bool              // for all linked persons
	made                int
	failure             error
	farewell, elsewhere bool
	refresh             func(ctx context.Context) (map[string][]string, error)
	panics              bool
	panicGet            bool
	by                  string   // provider; empty: identity
	off                 []string // providers that are disabled
	after               func(*authn.Result)
	vouched             string                             // the person that a proxy in front vouches for
	store               storage.Store                      // set once
	ended               func(person, session string) error // notifies the server of a sign-out; set once
}

type session struct {
	authn.Session

	confirmed time.Time
}

// Admin is the actor of the administrative changes of a test.
var Admin = audit.Actor{ID: "admin", Name: "admin API", Origin: audit.Self}

// Demo and Guest are the persons of every harness.
const (
	Demo  = "11111111-1111-4111-8111-111111111111"
	Guest = "22222222-2222-4222-8222-222222222222"
)

func newPeople(clock *Clock) *People {
	p := &People{
		clock: clock, persons: map[string]authn.Subject{}, sessions: map[string]*session{}, closing: map[string]bool{},
		touched: map[string]int{},
	}
	for id, name := range map[string]string{Demo: "demo", Guest: "guest"} {
		p.persons[id] = authn.Subject{
			ID: id, Active: true, Epoch: 1, Groups: []string{"staff"}, Username: name + "@example.com",
			Profile: map[string]string{
				"name": name + " Person", "given_name": name, "family_name": "Person", "email": name + "@example.com", "email_verified": "true",
				"phone_number": "+31201234567", "phone_number_verified": "false", "address": "1 Main Street",
				"updated_at": "1700000000", "locale": "en",
			},
		}
	}
	return p
}

// changed makes everything that was read about people be read again: they are not in the store, so the store cannot
// notice a change.
func (p *People) changed() { touch(p.store) }

// Change changes a person, as an administrator would.
func (p *People) Change(id string, change func(*authn.Subject)) {
	defer p.changed()
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.persons[id]
	change(&s)
	p.persons[id] = s
}

// Fail makes every call fail with err, until it is called with nil.
func (p *People) Fail(err error) {
	defer p.changed()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.failure = err
}

// Panic makes the next question about a sign-in panic, as a defect would.
func (p *People) Panic() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.panics = true
}

// PanicOnGet makes the next question about a person panic, as a defect would.
func (p *People) PanicOnGet() {
	defer p.changed()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.panicGet = true
}

// After calls f with each sign-in that Authenticate is about to return, so tests can change something in between.
func (p *People) After(f func(*authn.Result)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.after = f
}

// Vouch signs a person in with each request of a browser that is not signed in, as a proxy in front does, and runs
// Demand.Along in a transaction.
func (p *People) Vouch(person string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.vouched = person
}

// vouch returns the sign-in of a person that a proxy vouches for, or nil.
func (p *People) vouch(w http.ResponseWriter, r *http.Request, d authn.Demand) (*authn.Result, error) {
	p.mu.Lock()
	person, known := p.vouched, p.current(r) != nil
	p.mu.Unlock()
	if person == "" || known {
		return nil, nil //nolint:nilnil // no one vouches
	}
	id := p.SignIn(person, max(1, d.Level))
	p.mu.Lock()
	result := p.sessions[id].Result
	p.mu.Unlock()
	if d.Along != nil {
		if err := p.store.Update(r.Context(), func(tx storage.Tx) error { return d.Along(tx, &result) }); err != nil {
			return nil, err
		}
	}
	http.SetCookie(w, &http.Cookie{Name: sessionCookie, Value: id, Path: "/"})
	return &result, nil
}

// Demands returns the demands on sign-ins so far, the passive ones included.
func (p *People) Demands() []authn.Demand {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]authn.Demand(nil), p.demands...)
}

// SignIn opens a session and returns its id, which is the cookie too.
func (p *People) SignIn(person string, level int) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.made++
	now := p.clock.Now()
	s := &session{confirmed: now}
	s.Session = authn.Session{
		Result: authn.Result{
			Subject: person, SessionID: "session-" + strconv.Itoa(p.made), AuthTime: now, Level: level,
			AMR: []string{"DEFAULT"}, Provider: "identity",
		},
		Epoch: p.persons[person].Epoch, Ends: now.Add(sessionEnds), Seen: now,
	}
	p.sessions[s.SessionID] = s
	return s.SessionID
}

// Password is the password of every person.
const Password = "the password of everybody"

// CheckPassword implements grant.Passwords. The username "throttled" is throttled for a little more than a
// minute.
func (p *People) CheckPassword(_ context.Context, _, username, password string, _ audit.Origin) (*authn.Session, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.failure != nil {
		return nil, p.failure
	}
	if username == "throttled" {
		return nil, &authn.ThrottledError{Wait: time.Minute + time.Millisecond}
	}
	for id, s := range p.persons {
		if s.Username != username || password != Password || !s.Active {
			continue
		}
		if p.secondFactor {
			return nil, authn.ErrSecondFactor
		}
		return &authn.Session{
			Result: authn.Result{Subject: id, AuthTime: p.clock.Now(), Level: 1, AMR: []string{"DEFAULT"}, Provider: p.provider()}, Epoch: s.Epoch,
		}, nil
	}
	return nil, authn.ErrBadCredentials
}

// CheckPasswordOnly implements grant.Passwords. It is CheckPassword without a second factor.
func (p *People) CheckPasswordOnly(ctx context.Context, clientID, username, password string, from audit.Origin) (*authn.Session, error) {
	p.mu.Lock()
	more := p.secondFactor
	p.secondFactor = false
	p.mu.Unlock()
	si, err := p.CheckPassword(ctx, clientID, username, password, from)
	p.SetUpSecondFactor(more)
	return si, err
}

// Needs implements authz.Subjects: a second step if the client always asks for one, or if everyone has set one up.
func (p *People) Needs(_ storage.Tx, _, asks, _ string, _ time.Time) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if asks == authn.SecondFactorAlways || p.secondFactor && asks != authn.SecondFactorOnDemand {
		return 2, p.failure
	}
	return 0, p.failure
}

// SetUpSecondFactor sets whether everyone has a second factor.
func (p *People) SetUpSecondFactor(has bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.secondFactor = has
}

// SignInBy makes another provider the one that checks passwords.
func (p *People) SignInBy(provider string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.by = provider
}

func (p *People) provider() string { return cmp.Or(p.by, "identity") }

// EndSession ends a session without notice, as if it had expired.
func (p *People) EndSession(id string) {
	defer p.changed()
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.sessions, id)
}

// Touched returns how often a session was marked as used.
func (p *People) Touched(id string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.touched[id]
}

// Get implements authz.Subjects.
func (p *People) Get(_ storage.Tx, subject string) (authn.Subject, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.panicGet {
		p.panicGet = false
		panic("a defect that the test asked for")
	}
	s, ok := p.persons[subject]
	switch {
	case p.failure != nil:
		return s, p.failure
	case !ok:
		return s, storage.ErrNotFound
	}
	return s, nil
}

// closedSessions are the sessions that a transaction has closed: ids.
var closedSessions = storage.NewTable[struct{}]("authztest_closed_session")

// isClosed reports whether CloseSession has closed a session in tx or in an earlier transaction that was committed.
func (p *People) isClosed(tx storage.Tx, id string) (bool, error) {
	if !p.closing[id] {
		return false, nil
	}
	return closedSessions.Has(tx, id)
}

// Session implements authz.Subjects.
func (p *People) Session(tx storage.Tx, id string, now time.Time) (authn.Session, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.sessions[id]
	closed, err := closedSessions.Has(tx, id) // read in any case, so a later change invalidates the answer
	switch {
	case err != nil:
		return authn.Session{}, err
	case closed:
		return authn.Session{}, storage.ErrNotFound
	case p.failure != nil:
		return authn.Session{}, p.failure
	case s == nil || !s.Ends.After(now):
		return authn.Session{}, storage.ErrNotFound
	}
	return s.Session, nil
}

// SwitchOff disables a provider of sign-ins, as the settings would.
func (p *People) SwitchOff(provider string) {
	defer p.changed()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.off = append(p.off, provider)
}

// SwitchOn enables a provider that SwitchOff has disabled.
func (p *People) SwitchOn(provider string) {
	defer p.changed()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.off = slices.DeleteFunc(p.off, func(one string) bool { return one == provider })
}

// SignsIn implements authz.Subjects.
func (p *People) SignsIn(_ storage.Tx, provider string) (bool, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !slices.Contains(p.off, provider), nil
}

// GroupExists implements authz.Subjects: the groups of the persons exist, and staff.
func (p *People) GroupExists(_ storage.Tx, name string) (bool, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, one := range p.persons {
		if slices.Contains(one.Groups, name) {
			return true, p.failure
		}
	}
	return name == "staff", p.failure
}

// Permissions implements authz.Subjects: the staff can read, other groups have no permissions.
func (p *People) Permissions(_ storage.Tx, _ string, groups []string) (map[string][]string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := map[string][]string{}
	for _, g := range groups {
		out[g] = map[string][]string{"staff": {"read"}}[g]
		if out[g] == nil {
			out[g] = []string{}
		}
	}
	return out, p.failure
}

// Sessions implements authz.Subjects.
func (p *People) Sessions(tx storage.Tx, subject string, now time.Time) ([]authn.Session, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var out []authn.Session
	for _, s := range p.sessions {
		closed, err := p.isClosed(tx, s.SessionID)
		if err != nil {
			return nil, err
		}
		counts := s.Epoch == p.persons[subject].Epoch && !slices.Contains(p.off, s.Provider)
		if !closed && s.Subject == subject && s.Ends.After(now) && counts {
			out = append(out, s.Session)
		}
	}
	slices.SortFunc(out, func(a, b authn.Session) int {
		return cmp.Or(a.AuthTime.Compare(b.AuthTime), cmp.Compare(a.SessionID, b.SessionID))
	})
	return out, p.failure
}

// StoredSessions implements authz.Subjects.
func (p *People) StoredSessions(tx storage.Tx, subject string) (ids []string, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.sessions {
		closed, err := p.isClosed(tx, s.SessionID)
		if err != nil {
			return nil, err
		}
		if !closed && s.Subject == subject {
			ids = append(ids, s.SessionID)
		}
	}
	slices.Sort(ids)
	return ids, p.failure
}

// CloseSession implements authz.Subjects.
func (p *People) CloseSession(tx storage.Tx, subject, id string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.sessions[id]
	closed, err := p.isClosed(tx, id)
	switch {
	case err != nil:
		return err
	case p.failure != nil:
		return p.failure
	case s == nil || s.Subject != subject || closed:
		return storage.ErrNotFound
	}
	p.closing[id] = true
	return closedSessions.Put(tx, id, struct{}{}, never)
}

// Touch implements authz.Subjects.
func (p *People) Touch(_ context.Context, id string) error {
	defer p.changed()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.touched[id]++
	if s := p.sessions[id]; s != nil {
		s.Seen = p.clock.Now()
	}
	return nil
}

// Current implements authz.Authenticator.
func (p *People) Current(r *http.Request) (*authn.Result, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.failure != nil {
		return nil, p.failure
	}
	s := p.current(r)
	if s == nil {
		return nil, nil //nolint:nilnil // as the interface says
	}
	result := s.Result
	return &result, nil
}

func (p *People) current(r *http.Request) *session {
	c, err := r.Cookie(sessionCookie)
	if err != nil {
		return nil
	}
	s := p.sessions[c.Value]
	if s == nil || p.hasClosed(r.Context(), c.Value) || !s.Ends.After(p.clock.Now()) || !p.persons[s.Subject].Active ||
		p.persons[s.Subject].Epoch != s.Epoch {
		return nil
	}
	return s
}

func (p *People) hasClosed(ctx context.Context, id string) (closed bool) {
	if p.closing[id] {
		err := p.store.View(ctx, func(tx storage.Tx) (err error) {
			closed, err = p.isClosed(tx, id)
			return err
		})
		closed = closed || err != nil
	}
	return closed
}

// Authenticate implements authz.Authenticator: a browser without a sufficient session is sent to the button.
func (p *People) Authenticate(w http.ResponseWriter, r *http.Request, d authn.Demand) (*authn.Result, error) {
	result, err := p.vouch(w, r, d)
	if result == nil && err == nil {
		result, err = p.authenticate(w, r, d)
	}
	p.mu.Lock()
	after := p.after
	p.mu.Unlock()
	if err == nil && after != nil {
		after(result)
	}
	return result, err
}

func (p *People) authenticate(w http.ResponseWriter, r *http.Request, d authn.Demand) (*authn.Result, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.panics {
		p.panics = false
		panic("a defect that the test asked for")
	}
	if p.failure != nil {
		return nil, p.failure
	}
	p.demands = append(p.demands, d)
	s := p.current(r)
	now := p.clock.Now()
	refusal := &authn.Refusal{Code: "login_required", Reason: "no one is signed in"}
	if s != nil {
		switch {
		case d.MaxAge >= 0 && now.Sub(s.AuthTime) > d.MaxAge, !d.SelectAccount && s.AuthTime.Before(d.NotBefore):
			refusal.Reason = "the sign-in is too old"
		case d.SelectAccount && s.confirmed.Before(d.NotBefore):
			refusal = &authn.Refusal{Code: "account_selection_required", Reason: "the account has to be chosen"}
		case s.Level < d.Level:
			refusal = &authn.Refusal{Code: "interaction_required", Reason: "the level is too low"}
		case p.persons[s.Subject].Assurance.Level(now) < d.Assurance:
			return nil, &authn.Refusal{Code: "unmet_authentication_requirements", Reason: "the identity is not assured"}
		default:
			result := s.Result
			return &result, nil
		}
	}
	if d.Passive && (!p.elsewhere || d.Return == "") {
		refusal.Elsewhere = p.elsewhere
		return nil, refusal
	}
	if d.Level > 3 {
		return nil, &authn.Refusal{Code: "unmet_authentication_requirements", Reason: "the level cannot be reached"}
	}
	q := url.Values{"return": {d.Return}, "cancel": {d.Cancel}, "level": {strconv.Itoa(max(1, d.Level))}}
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	http.Redirect(w, r, buttonPath+"?"+q.Encode(), http.StatusSeeOther)
	return nil, authn.ErrResponded
}

// RefreshDetails implements authz.Subjects.
func (p *People) RefreshDetails(ctx context.Context, _, _, _ string) (map[string][]string, error) {
	p.mu.Lock()
	refresh := p.refresh
	p.mu.Unlock()
	if refresh == nil {
		return nil, nil //nolint:nilnil // no provider can be asked
	}
	return refresh(ctx)
}

// Farewell makes every sign-out visit an identity provider, at /test/farewell?ret=….
func (p *People) Farewell() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.farewell = true
}

// Elsewhere makes an unsatisfied passive demand one that an identity provider could satisfy without a page.
func (p *People) Elsewhere() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.elsewhere = true
}

// OnRefresh sets the answer of the identity provider when it is asked for details again.
func (p *People) OnRefresh(fn func(ctx context.Context) (map[string][]string, error)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refresh = fn
}

// SignOut implements authz.Authenticator.
func (p *People) SignOut(w http.ResponseWriter, r *http.Request, ret string) (via string, err error) {
	p.mu.Lock()
	s, failure := p.current(r), p.failure
	if p.farewell && s != nil {
		via = "/test/farewell?" + url.Values{"ret": {ret}}.Encode()
	}
	if s != nil && failure == nil {
		delete(p.sessions, s.SessionID)
	}
	p.mu.Unlock()
	p.changed()
	if failure != nil {
		return "", failure
	}
	if s != nil {
		if err := p.ended(s.Subject, s.SessionID); err != nil {
			return "", err
		}
	}
	http.SetCookie(w, &http.Cookie{Name: sessionCookie, Path: "/", MaxAge: -1})
	return via, nil
}

// button shows the sign-in page of the test, or signs in: POST as=<person>, or confirm=true for the signed-in person.
func (p *People) button(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		fmt.Fprintln(w, "sign in")
		return
	}
	q := r.URL.Query()
	if r.FormValue("confirm") != "" {
		p.mu.Lock()
		if s := p.current(r); s != nil {
			s.confirmed = p.clock.Now()
		}
		p.mu.Unlock()
	} else {
		level, err := strconv.Atoi(q.Get("level"))
		if err != nil {
			level = 1
		}
		// Like a SameSite=Lax cookie, a Browser sends it with navigations.
		http.SetCookie(w, &http.Cookie{Name: sessionCookie, Value: p.SignIn(r.FormValue("as"), level), Path: "/"})
	}
	http.Redirect(w, r, q.Get("return"), http.StatusSeeOther)
}
