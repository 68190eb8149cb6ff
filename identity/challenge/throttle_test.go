package challenge_test

import (
	"context"
	"errors"
	"net/http"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/identity"
	"github.com/gatehouse-id/gatehouse/identity/identitytest"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/secret"
)

func TestThrottle(t *testing.T) {
	t.Parallel()
	t.Run("attack 221: after five failures no try is taken for a while", func(t *testing.T) {
		t.Parallel()
		h := identitytest.New(t)
		b := h.Browser()
		for i := range 5 {
			if a := b.Wrong(identitytest.Demo, 1); a.Code != http.StatusUnprocessableEntity {
				t.Fatalf("failure %d: status %d, want 422", i+1, a.Code)
			}
		}
		before := h.Hasher.Computed()
		a := b.Try(identitytest.Demo, identitytest.DemoPassword)
		if a.Code != http.StatusTooManyRequests || a.Header().Get("Retry-After") != "30" ||
			!strings.Contains(a.Body.String(), "Too many tries. Try again in 30 seconds.") || b.Session() != "" {
			t.Errorf("sixth try: status %d, Retry-After %q:\n%s", a.Code, a.Header().Get("Retry-After"), a.Body)
		}
		if h.Hasher.Computed() != before {
			t.Error("the sixth password was looked at")
		}
		if n := h.Events(); n["login.LoginFailedEvent"] != 5 || n["login.LoginThrottledEvent"] != 1 {
			t.Errorf("events %v, want 5 Login Failed and 1 Login Throttled", n)
		}
		h.Clock.Advance(30 * time.Second)
		b.SignIn(identitytest.Demo, identitytest.DemoPassword)
		// A successful sign-in clears the failures of this person from this address.
		b.Post(b.Get("/sign-out"))
		if a := b.Wrong(identitytest.Demo, 1); a.Code != http.StatusUnprocessableEntity {
			t.Errorf("failure after a sign-in: status %d, want 422", a.Code)
		}
		h.CheckInvariants()
	})
	t.Run("attack 221: of a hundred tries at once five are looked at", func(t *testing.T) {
		t.Parallel()
		h := identitytest.New(t)
		forms := make([]*identitytest.Answer, 100)
		browsers := make([]*identitytest.Browser, len(forms))
		for i := range forms {
			browsers[i] = h.Browser()
			forms[i] = browsers[i].Get("/next")
		}
		before := h.Hasher.Computed()
		var done sync.WaitGroup
		var refused, throttled atomic.Int64
		for i, form := range forms {
			done.Go(func() {
				switch a := browsers[i].Post(form, "username", identitytest.Demo, "password", "guess "+strconv.Itoa(i)); a.Code {
				case http.StatusUnprocessableEntity:
					refused.Add(1)
				case http.StatusTooManyRequests:
					throttled.Add(1)
				default:
					t.Errorf("status %d", a.Code)
				}
			})
		}
		done.Wait()
		if n := h.Hasher.Computed() - before; n != 5 || refused.Load() != 5 || throttled.Load() != 95 {
			t.Errorf("%d passwords looked at, %d refused, %d not taken, want 5, 5, 95", n, refused.Load(), throttled.Load())
		}
		if n := h.Events()["login.LoginFailedEvent"]; n != 5 {
			t.Errorf("%d events Login Failed, want 5", n)
		}
	})
	t.Run("attack 222: all spellings of a name share one counter", func(t *testing.T) {
		t.Parallel()
		h := identitytest.New(t)
		if _, err := h.Person.AddPerson(t.Context(), person.NewPerson{Username: "Ren\u00e9e", Password: secret.New("sail-1-x")},
			identitytest.Admin); err != nil {
			t.Fatal(err)
		}
		b := h.Browser()
		for _, name := range []string{"ren\u00e9e", "REN\u00c9E", "  rene\u0301e ", "Rene\u0301E", "\uff32en\u00e9e"} {
			b.Wrong(name, 1)
		}
		if a := b.Try("Ren\u00e9e", "sail-1-x"); a.Code != http.StatusTooManyRequests {
			t.Errorf("sixth try: status %d, want 429", a.Code)
		}
		for _, name := range []string{"nobody", "NOBODY", " nobody", "Nobody", "nObody"} {
			b.Wrong(name, 1)
		}
		if a := b.Try("nobody", "x"); a.Code != http.StatusTooManyRequests {
			t.Errorf("sixth try of nobody: status %d, want 429 as for anybody", a.Code)
		}
	})
	t.Run("attack 222: with the default partition and without, whether the person exists or not", func(t *testing.T) {
		t.Parallel()
		for _, name := range []string{identitytest.Demo, "nobody"} {
			h := identitytest.New(t, func(c *identity.Config) { c.Partitions.On = true })
			b := h.Browser()
			for _, spelling := range []string{name, `default\` + name, `Default\ ` + name, ` default\` + strings.ToUpper(name), name + " "} {
				if a := b.Wrong(spelling, 1); a.Code != http.StatusUnprocessableEntity {
					t.Errorf("%q: status %d, want 422", spelling, a.Code)
				}
			}
			if a := b.Wrong(name, 1); a.Code != http.StatusTooManyRequests {
				t.Errorf("sixth try of %s: status %d, want 429", name, a.Code)
			}
		}
	})
	t.Run("attack 223: strangers cannot keep a person out", func(t *testing.T) {
		t.Parallel()
		h := identitytest.New(t)
		own := h.Browser()
		own.SignIn(identitytest.Demo, identitytest.DemoPassword)
		own.Post(own.Get("/sign-out"))
		attacker := h.Browser() // at the same address
		attacker.Wrong(identitytest.Demo, 5)
		for i := range 15 {
			h.Clock.Advance(10 * time.Second)
			newAddress(h, "198.51.100."+strconv.Itoa(i+1)+":1").Wrong(identitytest.Demo, 1)
		}
		if a := newAddress(h, "192.0.2.99:1").Try(identitytest.Demo, identitytest.DemoPassword); a.Code != http.StatusTooManyRequests {
			t.Errorf("unknown browser elsewhere after 20 failures of strangers: status %d, want 429", a.Code)
		}
		own.SignIn(identitytest.Demo, identitytest.DemoPassword)
		h.Clock.Advance(30 * time.Second)
		newAddress(h, "192.0.2.99:1").SignIn(identitytest.Demo, identitytest.DemoPassword) // the wait ends by itself
		h.CheckInvariants()
	})
	t.Run("attack 223: one office is not locked out by one person", func(t *testing.T) {
		t.Parallel()
		h := identitytest.New(t)
		if _, err := h.Person.AddPerson(t.Context(), person.NewPerson{Username: "anna", Password: secret.New("sail-1-x")},
			identitytest.Admin); err != nil {
			t.Fatal(err)
		}
		h.Browser().Wrong("anna", 12)
		h.Browser().SignIn(identitytest.Demo, identitytest.DemoPassword)
	})
	t.Run("attack 224: a restart forgets no failure", func(t *testing.T) {
		t.Parallel()
		h := identitytest.New(t)
		h.Browser().Wrong(identitytest.Demo, 4)
		h.Start()
		h.Browser().Wrong(identitytest.Demo, 1)
		h.Start()
		if a := h.Browser().Try(identitytest.Demo, identitytest.DemoPassword); a.Code != http.StatusTooManyRequests {
			t.Errorf("sixth try after two restarts: status %d, want 429", a.Code)
		}
	})
}

func newAddress(h *identitytest.Harness, address string) *identitytest.Browser {
	b := h.Browser()
	b.Address = address
	return b
}

func TestWaitGrows(t *testing.T) {
	t.Parallel()
	h := identitytest.New(t)
	b := h.Browser()
	b.Wrong(identitytest.Demo, 5)
	for _, want := range []int{30, 60, 120, 240, 480, 900, 900} {
		a := b.Wrong(identitytest.Demo, 1)
		if got := a.Header().Get("Retry-After"); got != strconv.Itoa(want) {
			t.Fatalf("wait %q, want %d s", got, want)
		}
		h.Clock.Advance(time.Duration(want) * time.Second)
		if a := b.Wrong(identitytest.Demo, 1); a.Code != http.StatusUnprocessableEntity {
			t.Fatalf("after %d s: status %d, want 422", want, a.Code)
		}
	}
	h.Clock.Advance(30 * time.Minute) // the wait, and the window for counting failures
	for i := range 5 {
		if a := b.Wrong(identitytest.Demo, 1); a.Code != http.StatusUnprocessableEntity {
			t.Errorf("failure %d of a new window: status %d, want 422", i+1, a.Code)
		}
	}
}

func TestWindow(t *testing.T) {
	t.Parallel()
	h := identitytest.New(t)
	b := h.Browser()
	b.Wrong(identitytest.Demo, 4)
	h.Clock.Advance(15 * time.Minute)
	if a := b.Wrong(identitytest.Demo, 5); a.Code != http.StatusUnprocessableEntity {
		t.Errorf("fifth failure of the next window: status %d, want 422", a.Code)
	}
	if a := b.Wrong(identitytest.Demo, 1); a.Code != http.StatusTooManyRequests {
		t.Errorf("sixth: status %d, want 429", a.Code)
	}
}

func TestAddressLimit(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ first, second, other string }{
		"IPv4":        {"203.0.113.7:1", "203.0.113.7:2", "203.0.113.8:1"},
		"IPv4 mapped": {"203.0.113.7:1", "[::ffff:203.0.113.7]:2", "203.0.113.8:1"},
		"IPv6":        {"[2001:db8:1:2::1]:1", "[2001:db8:1:2:ffff::9]:1", "[2001:db8:1:3::1]:1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := identitytest.New(t)
			for i := range 100 {
				newAddress(h, c.first).Wrong("user"+strconv.Itoa(i), 1)
			}
			if a := newAddress(h, c.second).Try(identitytest.Demo, identitytest.DemoPassword); a.Code != http.StatusTooManyRequests {
				t.Errorf("101st try from %s: status %d, want 429", c.second, a.Code)
			}
			newAddress(h, c.other).SignIn(identitytest.Demo, identitytest.DemoPassword)
		})
	}
}

// TestOwnAccountDoesNotWipeTheAddress: signing in to an account does not reset the failures of the network address.
func TestOwnAccountDoesNotWipeTheAddress(t *testing.T) {
	t.Parallel()
	h := identitytest.New(t)
	for i := range 100 {
		if i%10 == 9 {
			h.Browser().SignIn(identitytest.Demo, identitytest.DemoPassword)
		}
		h.Browser().Wrong("user"+strconv.Itoa(i), 1)
	}
	if a := h.Browser().Try("anna", "x"); a.Code != http.StatusTooManyRequests {
		t.Errorf("101st failure: status %d, want 429", a.Code)
	}
}

func TestBusyHasher(t *testing.T) {
	t.Parallel()
	h := identitytest.New(t)
	h.Hasher = secret.NewHasher(secret.HashCost{MemoryKiB: 8 << 10, Iterations: 1, Concurrency: 1})
	h.Start()
	b := h.Browser()
	form := b.Get("/next")
	// The longest computation that a stored hash can ask for runs, and another one is next, so the line of this network
	// does not move. It is full as soon as a caller is turned away.
	var flood sync.WaitGroup
	long, finish := context.WithCancel(t.Context())
	for range 2 {
		flood.Go(func() {
			h.Hasher.Verify(long, "$argon2id$v=19$m=65536,t=32,p=1$"+strings.Repeat("A", 22)+"$"+strings.Repeat("A", 43), //nolint:errcheck // it is cancelled
				"x")
		})
	}
	for h.Hasher.Waiting() == 0 {
		runtime.Gosched()
	}
	ctx, cancel := context.WithCancel(secret.AskedBy(t.Context(), secret.LineOf("203.0.113.7"), nil))
	turnedAway := make(chan struct{}, 100)
	for range cap(turnedAway) {
		flood.Go(func() {
			if errors.Is(h.Hasher.Waste(ctx, "x"), secret.ErrBusy) {
				turnedAway <- struct{}{}
			}
		})
	}
	<-turnedAway
	for range 6 {
		if a := b.Post(form, "username", identitytest.Demo, "password", "wrong password"); a.Code != http.StatusServiceUnavailable ||
			a.Header().Get("Retry-After") == "" {
			t.Errorf("try while the hasher is busy: status %d, Retry-After %q, want 503 with it", a.Code, a.Header().Get("Retry-After"))
		}
	}
	finish()
	elsewhere := h.Browser()
	elsewhere.Address = "198.51.100.9:4711"
	elsewhere.SignIn(identitytest.Demo, identitytest.DemoPassword) // a flood keeps only its own network waiting
	cancel()
	flood.Wait()
	b.SignIn(identitytest.Demo, identitytest.DemoPassword) // the six attempts that were never checked do not count
	h.CheckInvariants()
}

// TestNewPasswordsKeepNobodyOut: people can sign in while a directory sets many passwords at once.
func TestNewPasswordsKeepNobodyOut(t *testing.T) {
	t.Parallel()
	h := identitytest.New(t)
	h.Hasher = secret.NewHasher(secret.HashCost{MemoryKiB: 1 << 10, Iterations: 2, Concurrency: 1})
	h.Start()
	ctx, cancel := context.WithCancel(t.Context())
	var flood sync.WaitGroup
	turnedAway := make(chan struct{}, 1)
	for range 200 {
		flood.Go(func() {
			for ctx.Err() == nil {
				if errors.Is(h.Person.SetPassword(ctx, "ben", secret.New(identitytest.DemoPassword), audit.Actor{}), secret.ErrBusy) {
					select {
					case turnedAway <- struct{}{}:
					case <-ctx.Done():
					}
				}
			}
		})
	}
	for range 5 {
		<-turnedAway
		h.Browser().SignIn(identitytest.Demo, identitytest.DemoPassword)
	}
	cancel()
	flood.Wait()
}

func TestChangedPasswordMakesDevicesUnknown(t *testing.T) {
	t.Parallel()
	h := identitytest.New(t)
	b := h.Browser()
	b.SignIn(identitytest.Demo, identitytest.DemoPassword)
	b.Post(b.Get("/sign-out"))
	if err := h.Person.SetPassword(t.Context(), identitytest.Demo, secret.New("another one"), identitytest.Admin); err != nil {
		t.Fatal(err)
	}
	h.Browser().Wrong(identitytest.Demo, 5)
	if a := b.Try(identitytest.Demo, "another one"); a.Code != http.StatusTooManyRequests {
		t.Errorf("device of before the change, after five failures at its address: status %d, want 429", a.Code)
	}
}
