package dbsc

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/gatehouse-id/gatehouse/internal/cookie"
	"github.com/gatehouse-id/gatehouse/internal/ratelimit"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

// The paths of the exchange at each origin that has bound sessions.
const (
	RegisterPath = "/.gatehouse/device/register"
	RefreshPath  = "/.gatehouse/device/refresh"
)

// maxID bounds the names of sessions that browsers send, in bytes.
const maxID = 64

// Sessions are the sessions that an exchange is about.
type Sessions interface {
	// Find returns the state of the live session that a cookie opens, or storage.ErrNotFound.
	Find(tx storage.Tx, token string, now time.Time) (Device, error)
	// Binder returns what stores the key of the session of a request, which is not bound.
	Binder(q Request) (func(tx storage.Tx, key []byte, now time.Time) error, error)
}

// Exchange lets the browsers of one origin register keys and prove that they have them.
type Exchange struct {
	Guard    *Guard
	Store    storage.Store
	Sessions Sessions
	Origin   string
	Jar      cookie.Jar
	Session  string // kind of the session's cookie
	// Offered says that browsers are offered to register now. The sessions that are bound stay bound without it.
	Offered bool
	// Noted is told of each step that has an outcome. nil: no one
	Noted func(Outcome)
	Now   func() time.Time
}

// Outcome is the outcome of a step, for counts.
type Outcome string

// The outcomes.
const (
	Bound     Outcome = "bound"     // a session was bound
	Refreshed Outcome = "refreshed" // a device has proved its key
	Refused   Outcome = "refused"   // a proof was wrong
)

// Request is a request to an exchange. The cookies are taken from where they are known, since a gateway keeps them
// from the request that it passes on.
type Request struct {
	*http.Request

	Token string // of the session's cookie
}

// Handles reports whether a path is one of the exchange.
func Handles(path string) bool { return path == RegisterPath || path == RefreshPath }

// Serve answers a request to one of the two paths.
func (x *Exchange) Serve(w http.ResponseWriter, q Request) {
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Content-Security-Policy", "default-src 'none'")
	switch {
	case q.Method != http.MethodPost:
		w.Header().Set("Allow", http.MethodPost)
		http.Error(w, "a browser sends a POST here by itself", http.StatusMethodNotAllowed)
	case !x.byBrowser(q.Request):
		http.Error(w, "a browser sends this by itself, and no page does", http.StatusForbidden)
	default:
		step := x.refresh
		if q.URL.Path == RegisterPath {
			step = x.register
		}
		if err := step(w, q); err != nil {
			http.Error(w, "not available", http.StatusServiceUnavailable)
		}
	}
}

// byBrowser reports whether the browser itself can have sent a request, and no script: a script that sets the header of
// a proof sends another mode. (Fetch Metadata)
func (x *Exchange) byBrowser(r *http.Request) bool {
	for name, want := range map[string]string{"Sec-Fetch-Site": "same-origin", "Sec-Fetch-Mode": "no-cors", "Origin": x.Origin} {
		if v := r.Header[name]; len(v) > 0 && (len(v) != 1 || v[0] != want) {
			return false
		}
	}
	return true
}

// proofOf returns the proof that a request carries, or "".
func proofOf(r *http.Request) string {
	v := r.Header["Secure-Session-Response"]
	if len(v) != 1 {
		return ""
	}
	return strings.Trim(v[0], `"`)
}

// opened is a session that a cookie has just opened, before anything else is known of it.
func opened(token string) Device { return Device{Subject: secret.Hash(token)} }

// Offer lets the browser that gets the cookie of a new session bind it to its device. Browsers that cannot ignore it.
func (x *Exchange) Offer(h http.Header, token string) error {
	if !x.Offered {
		return nil
	}
	challenge, err := x.Guard.challenge(forRegistration, opened(token), x.Now())
	if err == nil {
		h.Set("Secure-Session-Registration", `(ES256 RS256);path="`+RegisterPath+`";challenge="`+challenge+`"`)
	}
	return err
}

// register serves the request that offers a key for a session. A browser that is refused goes on without.
func (x *Exchange) register(w http.ResponseWriter, q Request) error {
	now, proof := x.Now(), proofOf(q.Request)
	challenge, key, err := readProof(proof, nil)
	if err != nil || !x.Offered {
		x.refuse(w)
		return nil
	}
	bind, err := x.Sessions.Binder(q)
	if err != nil {
		return err
	}
	var d Device
	err = x.Store.Update(q.Context(), func(tx storage.Tx) (err error) {
		if d, err = x.Sessions.Find(tx, q.Token, now); err != nil {
			return err
		}
		if d.isBound() || x.Guard.check(forRegistration, opened(q.Token), challenge, now, challengeLife) == "" {
			return errProof
		}
		if err := bind(tx, key, now); err != nil {
			return err
		}
		d, err = x.Sessions.Find(tx, q.Token, now)
		return err
	})
	switch {
	case errors.Is(err, errProof), errors.Is(err, storage.ErrNotFound):
		x.refuse(w)
	case err != nil:
		return err
	default:
		x.note(Bound)
		x.instruct(w, d, now)
	}
	return nil
}

// refresh serves the request for another second cookie: without a proof it asks for one.
func (x *Exchange) refresh(w http.ResponseWriter, q Request) error {
	now, about := x.Now(), strings.Trim(q.Header.Get("Sec-Secure-Session-Id"), `"`)
	if about == "" || len(about) > maxID { // no page can send this header, and no form
		http.Error(w, "a browser names the session here", http.StatusBadRequest)
		return nil
	}
	d, err := x.find(q.Context(), q.Token, now)
	switch {
	case err != nil && !errors.Is(err, storage.ErrNotFound):
		return err
	case err != nil:
		x.Jar.Clear(w, x.Session)
		x.Jar.Clear(w, Cookie)
		x.stop(w, about)
		return nil
	case !d.isBound() || about != d.id(): // of a session before this one
		x.stop(w, about)
		return nil
	case !x.Guard.refreshes.Allow(d.Subject, now):
		ratelimit.RetryAfter(w, time.Second)
		http.Error(w, "too often", http.StatusTooManyRequests)
		return nil
	}
	proof := proofOf(q.Request)
	if proof == "" {
		return x.ask(w, d, now)
	}
	challenge, _, err := readProof(proof, d.Key)
	if err == nil {
		err = x.spend(q.Context(), d, challenge, now)
	}
	switch {
	case errors.Is(err, errProof):
		x.note(Refused)
		return x.ask(w, d, now)
	case err != nil:
		return err
	}
	x.note(Refreshed)
	x.instruct(w, d, now)
	return nil
}

func (x *Exchange) find(ctx context.Context, token string, now time.Time) (d Device, err error) {
	err = x.Store.View(ctx, func(tx storage.Tx) error {
		d, err = x.Sessions.Find(tx, token, now)
		return err
	})
	return d, err
}

// spend uses a challenge up, or returns errProof when it is not the session's, has ended, or was used before.
func (x *Exchange) spend(ctx context.Context, d Device, challenge string, now time.Time) error {
	signed := x.Guard.check(forRefresh, d, challenge, now, challengeLife)
	if signed == "" {
		return errProof
	}
	err := x.Store.Update(ctx, func(tx storage.Tx) error {
		return used.Create(tx, storage.Key(d.Subject, signed), struct{}{}, now.Add(challengeLife+ahead))
	})
	if errors.Is(err, storage.ErrExists) {
		return errProof
	}
	return err
}

// ask asks for a proof by a new challenge.
func (x *Exchange) ask(w http.ResponseWriter, d Device, now time.Time) error {
	challenge, err := x.Guard.challenge(forRefresh, d, now)
	if err == nil {
		w.Header().Set("Secure-Session-Challenge", `"`+challenge+`";id="`+d.id()+`"`)
		w.WriteHeader(http.StatusForbidden)
	}
	return err
}

func (x *Exchange) refuse(w http.ResponseWriter) {
	x.note(Refused)
	http.Error(w, "this session cannot be bound", http.StatusForbidden)
}

func (x *Exchange) note(o Outcome) {
	if x.Noted != nil {
		x.Noted(o)
	}
}

// instructions tell a browser what is bound, and where to prove it.
type instructions struct {
	ID          string       `json:"session_identifier"`
	Continue    *bool        `json:"continue,omitempty"`
	RefreshURL  string       `json:"refresh_url,omitempty"`
	Scope       *scope       `json:"scope,omitempty"`
	Credentials []credential `json:"credentials,omitempty"`
}

// scope limits the session to one origin, without the other hosts of its site.
type scope struct {
	Origin        string     `json:"origin"`
	IncludeSite   bool       `json:"include_site"`
	Specification []struct{} `json:"scope_specification"`
}

type credential struct {
	Type       string `json:"type"`
	Name       string `json:"name"`
	Attributes string `json:"attributes"`
}

// instruct gives the browser a second cookie, and says when it needs another one.
func (x *Exchange) instruct(w http.ResponseWriter, d Device, now time.Time) {
	x.Jar.Set(w, Cookie, x.Guard.cookie(d, now), CookieLife)
	writeJSON(w, instructions{
		ID: d.id(), RefreshURL: RefreshPath, Scope: &scope{Origin: x.Origin, Specification: []struct{}{}},
		Credentials: []credential{{"cookie", x.Jar.Name(Cookie), "Path=/; Secure; HttpOnly; SameSite=Lax"}},
	})
}

// stop ends a session at the browser's side.
func (x *Exchange) stop(w http.ResponseWriter, id string) {
	no := false
	writeJSON(w, instructions{ID: id, Continue: &no})
}

func writeJSON(w http.ResponseWriter, v instructions) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v) // the browser has left
}
