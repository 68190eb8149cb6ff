package dbsc_test

import (
	"bytes"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/internal/cookie"
	"github.com/gatehouse-id/gatehouse/internal/dbsc"
	"github.com/gatehouse-id/gatehouse/internal/dbsc/dbsctest"
	"github.com/gatehouse-id/gatehouse/storage"
	"github.com/gatehouse-id/gatehouse/storage/badgerstore"
)

const origin = "https://wiki.example.com"

// world is an exchange with sessions in memory. A session is called by its cookie.
type world struct {
	dbsc.Exchange
	t        *testing.T
	mu       sync.Mutex // guards sessions, counts and now
	sessions map[string][]byte
	counts   map[dbsc.Outcome]int
	now      time.Time
}

func newWorld(t *testing.T) *world {
	t.Helper()
	store, err := badgerstore.OpenMemory()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	w := &world{
		t: t, sessions: map[string][]byte{"ann": nil, "eve": nil}, counts: map[dbsc.Outcome]int{},
		now: time.Date(2035, 1, 1, 0, 0, 0, 0, time.UTC),
	}
	w.Exchange = dbsc.Exchange{
		Guard: dbsc.NewGuard(rand.Reader, bytes.Repeat([]byte{1}, 32)), Store: store, Sessions: w, Origin: origin,
		Jar: cookie.For(origin), Session: "site", Offered: true, Now: w.clock,
		Noted: func(o dbsc.Outcome) { w.mu.Lock(); w.counts[o]++; w.mu.Unlock() },
	}
	return w
}

func (w *world) clock() time.Time { w.mu.Lock(); defer w.mu.Unlock(); return w.now }

func (w *world) pass(d time.Duration) { w.mu.Lock(); w.now = w.now.Add(d); w.mu.Unlock() }

func (w *world) Find(_ storage.Tx, token string, _ time.Time) (dbsc.Device, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	key, ok := w.sessions[token]
	if !ok {
		return dbsc.Device{}, storage.ErrNotFound
	}
	return dbsc.Device{Subject: token, Key: key}, nil
}

func (w *world) Binder(q dbsc.Request) (func(storage.Tx, []byte, time.Time) error, error) {
	return func(_ storage.Tx, key []byte, _ time.Time) error {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.sessions[q.Token] = key
		return nil
	}, nil
}

// post sends a request of the browser of a session.
func (w *world) post(token, path string, headers ...string) *httptest.ResponseRecorder {
	return w.send(token, dbsctest.Request(origin, path, headers...))
}

func (w *world) send(token string, r *http.Request) *httptest.ResponseRecorder {
	rec := httptest.NewRecorder()
	w.Serve(rec, dbsc.Request{Request: r, Token: token})
	return rec
}

// offer returns what a browser gets with its session.
func (w *world) offer(token string) http.Header {
	h := http.Header{}
	if err := w.Offer(h, token); err != nil {
		w.t.Fatal(err)
	}
	return h
}

// second returns the second cookie of an answer, or "".
func second(rec *httptest.ResponseRecorder) string {
	for _, c := range rec.Result().Cookies() {
		if c.Name == cookie.For(origin).Name(dbsc.Cookie) {
			return c.Value
		}
	}
	return ""
}

// bind registers a new device for a session.
func (w *world) bind(token string) (d *dbsctest.Device, cookie string) {
	w.t.Helper()
	d = dbsctest.New(w.t)
	rec := w.post(token, dbsc.RegisterPath, d.Registration(w.offer(token))...)
	if rec.Code != http.StatusOK || second(rec) == "" {
		w.t.Fatalf("registration = %d %s", rec.Code, rec.Body)
	}
	in := d.Learn(rec.Body.String())
	if in.Scope.Origin != origin || len(in.Credentials) != 1 || in.Credentials[0].Name != cookie2() {
		w.t.Errorf("instructions = %+v", in)
	}
	return d, second(rec)
}

func cookie2() string { return cookie.For(origin).Name(dbsc.Cookie) }

// admits reports whether a session counts with a second cookie.
func (w *world) admits(token, second string) bool {
	d, err := w.Find(nil, token, w.clock())
	return err == nil && w.Guard.Admits(d, second, w.clock())
}

// challenge returns what a browser is asked to sign.
func (w *world) challenge(token string, d *dbsctest.Device) http.Header {
	w.t.Helper()
	rec := w.post(token, dbsc.RefreshPath, d.Asks()...)
	if rec.Code != http.StatusForbidden || dbsctest.Challenge(rec.Header()) == "" {
		w.t.Fatalf("refresh without a proof = %d %v", rec.Code, rec.Header())
	}
	return rec.Header()
}

// TestBoundSession: a session counts alone until it is bound, then with its second cookie, which the device renews.
func TestBoundSession(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	if !w.admits("ann", "") {
		t.Error("a session that is not bound needs a second cookie")
	}
	d, first := w.bind("ann")
	if w.admits("ann", "") || !w.admits("ann", first) {
		t.Error("a bound session counts without its second cookie, or not with it")
	}
	w.pass(9 * time.Minute)
	rec := w.post("ann", dbsc.RefreshPath, d.Refresh(w.challenge("ann", d))...)
	if rec.Code != http.StatusOK || !w.admits("ann", second(rec)) {
		t.Fatalf("refresh = %d %s", rec.Code, rec.Body)
	}
	if !w.admits("ann", first) {
		t.Error("the former second cookie ended with the new one: requests that are on the way would be refused")
	}
	w.pass(90 * time.Second)
	if w.admits("ann", first) || !w.admits("ann", second(rec)) {
		t.Error("a second cookie lasts longer than ten minutes, or the new one does not count")
	}
	w.pass(time.Hour)
	if rec := w.post("ann", dbsc.RefreshPath, d.Refresh(w.challenge("ann", d))...); !w.admits("ann", second(rec)) {
		t.Error("a browser that has slept for an hour gets no second cookie")
	}
	if w.counts[dbsc.Bound] != 1 || w.counts[dbsc.Refreshed] != 2 || w.counts[dbsc.Refused] != 0 {
		t.Errorf("counts = %v", w.counts)
	}
}

// TestRefreshesAtOnce: two tabs ask at the same time, and both get a second cookie.
func TestRefreshesAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	d, _ := w.bind("ann")
	a, b := w.challenge("ann", d), w.challenge("ann", d)
	for _, h := range []http.Header{b, a} {
		if rec := w.post("ann", dbsc.RefreshPath, d.Refresh(h)...); rec.Code != http.StatusOK || !w.admits("ann", second(rec)) {
			t.Errorf("refresh = %d", rec.Code)
		}
	}
}

// TestEndedSession: a browser whose session has ended forgets it, and one that was bound before goes on with the new
// one.
func TestEndedSession(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	d, _ := w.bind("ann")
	w.mu.Lock()
	w.sessions["ann"] = nil // the person has signed in again: the session is not bound yet
	w.mu.Unlock()
	rec := w.post("ann", dbsc.RefreshPath, d.Asks()...)
	if in := d.Learn(rec.Body.String()); in.Continue == nil || *in.Continue || len(rec.Result().Cookies()) > 0 {
		t.Errorf("the former key of a session: %d %s %v", rec.Code, rec.Body, rec.Result().Cookies())
	}
	w.mu.Lock()
	delete(w.sessions, "ann")
	w.mu.Unlock()
	rec = w.post("ann", dbsc.RefreshPath, d.Asks()...)
	if in := d.Learn(rec.Body.String()); in.Continue == nil || *in.Continue || len(rec.Result().Cookies()) != 2 {
		t.Errorf("an ended session: %d %s %v, want its two cookies removed", rec.Code, rec.Body, rec.Result().Cookies())
	}
}

// TestKeysOfTheServer: what an older key of the server has signed still counts, and what another server has does not.
func TestKeysOfTheServer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	_, first := w.bind("ann")
	old, fresh := bytes.Repeat([]byte{1}, 32), bytes.Repeat([]byte{2}, 32)
	w.Guard = dbsc.NewGuard(rand.Reader, fresh, old)
	if !w.admits("ann", first) {
		t.Error("a new key of the server ends second cookies")
	}
	w.Guard = dbsc.NewGuard(rand.Reader, fresh)
	if w.admits("ann", first) {
		t.Error("a second cookie of another server counts")
	}
}

// TestAttacksOnRegistration: to register a key for a session of someone else, or without a challenge of it.
func TestAttacksOnRegistration(t *testing.T) {
	t.Parallel()
	t.Run("attack 8301: a key for a session of another person, without a challenge, or with a weak one", func(t *testing.T) {
		weak, err := rsa.GenerateKey(rand.Reader, 1024) //nolint:gosec // that is the attack
		if err != nil {
			t.Fatal(err)
		}
		plain := func(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }
		for name, attack := range map[string]func(w *world, d *dbsctest.Device) (proof string, more []string){
			"challenge of another session": func(w *world, d *dbsctest.Device) (string, []string) {
				return d.Proof(dbsctest.Offered(w.offer("eve")), true), nil
			},
			"challenge that has ended": func(w *world, d *dbsctest.Device) (string, []string) {
				challenge := dbsctest.Offered(w.offer("ann"))
				w.pass(6 * time.Minute)
				return d.Proof(challenge, true), nil
			},
			"made-up challenge": func(_ *world, d *dbsctest.Device) (string, []string) { return d.Proof("zzzzzz.a.b", true), nil },
			"no challenge":      func(_ *world, d *dbsctest.Device) (string, []string) { return d.Proof("", true), nil },
			"no key": func(w *world, d *dbsctest.Device) (string, []string) {
				return d.Proof(dbsctest.Offered(w.offer("ann")), false), nil
			},
			"no proof": func(*world, *dbsctest.Device) (string, []string) { return "", nil },
			"another kind of JWT": func(w *world, d *dbsctest.Device) (string, []string) {
				return d.ProofAs("dpop+jwt", dbsctest.Offered(w.offer("ann")), true), nil
			},
			"alg none": func(w *world, _ *dbsctest.Device) (string, []string) {
				return plain(`{"alg":"none","typ":"dbsc+jwt"}`) + "." + plain(`{"jti":"`+dbsctest.Offered(w.offer("ann"))+`"}`) + ".", nil
			},
			"weak RSA key": func(w *world, d *dbsctest.Device) (string, []string) {
				d.Key = weak
				return d.Proof(dbsctest.Offered(w.offer("ann")), true), nil
			},
			"huge proof": func(w *world, d *dbsctest.Device) (string, []string) {
				return d.Proof(dbsctest.Offered(w.offer("ann"))+strings.Repeat("a", 9<<10), true), nil
			},
			"script of the page": func(w *world, d *dbsctest.Device) (string, []string) {
				return d.Proof(dbsctest.Offered(w.offer("ann")), true), []string{"Sec-Fetch-Mode", "cors"}
			},
			"page of a neighbour": func(w *world, d *dbsctest.Device) (string, []string) {
				return d.Proof(dbsctest.Offered(w.offer("ann")), true), []string{"Sec-Fetch-Site", "same-site"}
			},
			"another origin": func(w *world, d *dbsctest.Device) (string, []string) {
				return d.Proof(dbsctest.Offered(w.offer("ann")), true), []string{"Origin", "https://evil.example.com"}
			},
			"bound session": func(w *world, d *dbsctest.Device) (string, []string) {
				before := dbsctest.Offered(w.offer("ann"))
				w.bind("ann")
				return d.Proof(before, true), nil
			},
			"not offered": func(w *world, d *dbsctest.Device) (string, []string) {
				challenge := dbsctest.Offered(w.offer("ann"))
				w.Offered = false
				return d.Proof(challenge, true), nil
			},
			"challenge of a refresh": func(w *world, d *dbsctest.Device) (string, []string) {
				bound, _ := w.bind("ann")
				challenge := dbsctest.Challenge(w.challenge("ann", bound))
				w.mu.Lock()
				w.sessions["ann"] = nil
				w.mu.Unlock()
				return d.Proof(challenge, true), nil
			},
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				w, thief := newWorld(t), dbsctest.New(t)
				proof, more := attack(w, thief)
				before := w.sessions["ann"]
				rec := w.post("ann", dbsc.RegisterPath, append([]string{"Secure-Session-Response", proof}, more...)...)
				if rec.Code != http.StatusForbidden || second(rec) != "" || !bytes.Equal(w.sessions["ann"], before) {
					t.Errorf("registration = %d %q, want 403 and nothing bound", rec.Code, rec.Body)
				}
			})
		}
	})
}

// TestAttacksOnRefresh: to get a second cookie without the key of the device.
func TestAttacksOnRefresh(t *testing.T) {
	t.Parallel()
	t.Run("attack 8302: a second cookie without the key of the device", func(t *testing.T) {
		for name, attack := range map[string]func(w *world, d, thief *dbsctest.Device) []string{
			"another key": func(w *world, d, thief *dbsctest.Device) []string {
				thief.ID = d.ID
				return thief.Refresh(w.challenge("ann", d))
			},
			"another key in the proof": func(w *world, d, thief *dbsctest.Device) []string {
				return append(d.Asks(), "Secure-Session-Response", thief.Proof(dbsctest.Challenge(w.challenge("ann", d)), true))
			},
			"proof that was used": func(w *world, d, _ *dbsctest.Device) []string {
				headers := d.Refresh(w.challenge("ann", d))
				if rec := w.post("ann", dbsc.RefreshPath, headers...); rec.Code != http.StatusOK {
					w.t.Fatalf("refresh = %d", rec.Code)
				}
				return headers
			},
			"challenge that has ended": func(w *world, d, _ *dbsctest.Device) []string {
				headers := d.Refresh(w.challenge("ann", d))
				w.pass(6 * time.Minute)
				return headers
			},
			"challenge of another session": func(w *world, d, thief *dbsctest.Device) []string {
				own, _ := w.bind("eve")
				thief.ID = own.ID
				return append(d.Asks(), "Secure-Session-Response", d.Proof(dbsctest.Challenge(w.challenge("eve", own)), false))
			},
			"challenge of a registration": func(w *world, d, _ *dbsctest.Device) []string {
				return append(d.Asks(), "Secure-Session-Response", d.Proof(dbsctest.Offered(w.offer("ann")), false))
			},
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				w := newWorld(t)
				d, _ := w.bind("ann")
				rec := w.post("ann", dbsc.RefreshPath, attack(w, d, dbsctest.New(t))...)
				if rec.Code != http.StatusForbidden || second(rec) != "" || dbsctest.Challenge(rec.Header()) == "" {
					t.Errorf("refresh = %d %q, want 403 and another challenge", rec.Code, rec.Body)
				}
				if w.counts[dbsc.Refused] != 1 {
					t.Errorf("counts = %v, want one refused proof", w.counts)
				}
			})
		}
	})
}

// TestAttacksOnSecondCookies: second cookies of other sessions, made up, or changed.
func TestAttacksOnSecondCookies(t *testing.T) {
	t.Parallel()
	t.Run("attack 8303: second cookies of other sessions, made up or changed", func(t *testing.T) {
		w := newWorld(t)
		d, first := w.bind("ann")
		_, other := w.bind("eve")
		challenge := dbsctest.Challenge(w.challenge("ann", d))
		late := "zzzzzzz" + first[strings.IndexByte(first, '.'):]
		for name, text := range map[string]string{
			"none": "", "of another session": other, "a challenge": challenge, "a later end": late, "cut": first[:len(first)-1],
			"longer": first + "A", "long": strings.Repeat("a", 300) + first, "dots": "...", "huge end": "9999999999999999999..x",
		} {
			if w.admits("ann", text) {
				t.Errorf("a second cookie that is %s counts", name)
			}
		}
	})
}

// TestFloodOfRefreshes: refreshes without end.
func TestFloodOfRefreshes(t *testing.T) {
	t.Parallel()
	t.Run("attack 8304: refreshes without end", func(t *testing.T) {
		w := newWorld(t)
		d, _ := w.bind("ann")
		refused := 0
		for range 100 {
			if rec := w.post("ann", dbsc.RefreshPath, d.Asks()...); rec.Code == http.StatusTooManyRequests {
				refused++
			}
		}
		if refused < 60 {
			t.Errorf("%d of 100 refreshes were refused", refused)
		}
		eve, _ := w.bind("eve")
		w.challenge("eve", eve) // is not slowed down
		rec := w.send("ann", httptest.NewRequest(http.MethodGet, origin+dbsc.RefreshPath, http.NoBody))
		if rec.Code != http.StatusMethodNotAllowed {
			t.Errorf("GET = %d", rec.Code)
		}
	})
}
