package identity_test

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

	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/proof"
	"github.com/gatehouse-id/gatehouse/internal/event"
	"github.com/gatehouse-id/gatehouse/internal/secret"
)

// wrong sends n wrong passwords and returns the last answer.
func (b *browser) wrong(username string, n int) (a *answer) {
	b.h.t.Helper()
	for range n {
		a = b.try(username, "wrong password")
	}
	return a
}

func TestThrottle(t *testing.T) {
	t.Parallel()
	t.Run("attack 221: after five failures no try is taken for a while", func(t *testing.T) {
		t.Parallel()
		h := newHarness(t)
		b := h.browser()
		for i := range 5 {
			if a := b.wrong(demo, 1); a.Code != http.StatusUnprocessableEntity {
				t.Fatalf("failure %d: status %d, want 422", i+1, a.Code)
			}
		}
		before := h.hasher.Computed()
		a := b.try(demo, demoPassword)
		if a.Code != http.StatusTooManyRequests || a.Header().Get("Retry-After") != "30" || !strings.Contains(a.Body.String(), "Too many tries. Try again in 30 seconds.") || b.session() != "" {
			t.Errorf("sixth try: status %d, Retry-After %q:\n%s", a.Code, a.Header().Get("Retry-After"), a.Body)
		}
		if h.hasher.Computed() != before {
			t.Error("the sixth password was looked at")
		}
		if n := h.events(); n["login.LoginFailedEvent"] != 5 || n["login.LoginThrottledEvent"] != 1 {
			t.Errorf("events %v, want 5 Login Failed and 1 Login Throttled", n)
		}
		h.clock.Advance(30 * time.Second)
		b.signIn(demo, demoPassword)
		// A successful sign-in clears the failures of this person from this address.
		b.post(b.get("/sign-out"))
		if a := b.wrong(demo, 1); a.Code != http.StatusUnprocessableEntity {
			t.Errorf("failure after a sign-in: status %d, want 422", a.Code)
		}
		h.checkInvariants()
	})
	t.Run("attack 221: of a hundred tries at once five are looked at", func(t *testing.T) {
		t.Parallel()
		h := newHarness(t)
		forms := make([]*answer, 100)
		browsers := make([]*browser, len(forms))
		for i := range forms {
			browsers[i] = h.browser()
			forms[i] = browsers[i].get("/next")
		}
		before := h.hasher.Computed()
		var done sync.WaitGroup
		var refused, throttled atomic.Int64
		for i, form := range forms {
			done.Go(func() {
				switch a := browsers[i].post(form, "username", demo, "password", "guess "+strconv.Itoa(i)); a.Code {
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
		if n := h.hasher.Computed() - before; n != 5 || refused.Load() != 5 || throttled.Load() != 95 {
			t.Errorf("%d passwords looked at, %d refused, %d not taken, want 5, 5, 95", n, refused.Load(), throttled.Load())
		}
		if n := h.events()["login.LoginFailedEvent"]; n != 5 {
			t.Errorf("%d events Login Failed, want 5", n)
		}
	})
	t.Run("attack 222: all spellings of a name share one counter", func(t *testing.T) {
		t.Parallel()
		h := newHarness(t)
		if _, err := h.Person.AddPerson(t.Context(), person.NewPerson{Username: "Ren\u00e9e", Password: secret.New("12345678")}, admin); err != nil {
			t.Fatal(err)
		}
		b := h.browser()
		for _, name := range []string{"ren\u00e9e", "REN\u00c9E", "  rene\u0301e ", "Rene\u0301E", "\uff32en\u00e9e"} {
			b.wrong(name, 1)
		}
		if a := b.try("Ren\u00e9e", "12345678"); a.Code != http.StatusTooManyRequests {
			t.Errorf("sixth try: status %d, want 429", a.Code)
		}
		for _, name := range []string{"nobody", "NOBODY", " nobody", "Nobody", "nObody"} {
			b.wrong(name, 1)
		}
		if a := b.try("nobody", "x"); a.Code != http.StatusTooManyRequests {
			t.Errorf("sixth try of nobody: status %d, want 429 as for anybody", a.Code)
		}
	})
	t.Run("attack 223: strangers cannot keep a person out", func(t *testing.T) {
		t.Parallel()
		h := newHarness(t)
		own := h.browser()
		own.signIn(demo, demoPassword)
		own.post(own.get("/sign-out"))
		attacker := h.browser() // at the same address
		attacker.wrong(demo, 5)
		for i := range 15 {
			h.clock.Advance(10 * time.Second)
			h.newAddress("198.51.100."+strconv.Itoa(i+1)+":1").wrong(demo, 1)
		}
		if a := h.newAddress("192.0.2.99:1").try(demo, demoPassword); a.Code != http.StatusTooManyRequests {
			t.Errorf("unknown browser elsewhere after 20 failures of strangers: status %d, want 429", a.Code)
		}
		own.signIn(demo, demoPassword)
		h.clock.Advance(30 * time.Second)
		h.newAddress("192.0.2.99:1").signIn(demo, demoPassword) // the wait ends by itself
		h.checkInvariants()
	})
	t.Run("attack 223: one office is not locked out by one person", func(t *testing.T) {
		t.Parallel()
		h := newHarness(t)
		if _, err := h.Person.AddPerson(t.Context(), person.NewPerson{Username: "anna", Password: secret.New("12345678")}, admin); err != nil {
			t.Fatal(err)
		}
		h.browser().wrong("anna", 12)
		h.browser().signIn(demo, demoPassword)
	})
	t.Run("attack 224: a restart forgets no failure", func(t *testing.T) {
		t.Parallel()
		h := newHarness(t)
		h.browser().wrong(demo, 4)
		h.start()
		h.browser().wrong(demo, 1)
		h.start()
		if a := h.browser().try(demo, demoPassword); a.Code != http.StatusTooManyRequests {
			t.Errorf("sixth try after two restarts: status %d, want 429", a.Code)
		}
	})
}

func (h *harness) newAddress(address string) *browser {
	b := h.browser()
	b.address = address
	return b
}

func TestWaitGrows(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	b := h.browser()
	b.wrong(demo, 5)
	for _, want := range []int{30, 60, 120, 240, 480, 900, 900} {
		a := b.wrong(demo, 1)
		if got := a.Header().Get("Retry-After"); got != strconv.Itoa(want) {
			t.Fatalf("wait %q, want %d s", got, want)
		}
		h.clock.Advance(time.Duration(want) * time.Second)
		if a := b.wrong(demo, 1); a.Code != http.StatusUnprocessableEntity {
			t.Fatalf("after %d s: status %d, want 422", want, a.Code)
		}
	}
	h.clock.Advance(30 * time.Minute) // the wait, and the window for counting failures
	for i := range 5 {
		if a := b.wrong(demo, 1); a.Code != http.StatusUnprocessableEntity {
			t.Errorf("failure %d of a new window: status %d, want 422", i+1, a.Code)
		}
	}
}

func TestWindow(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	b := h.browser()
	b.wrong(demo, 4)
	h.clock.Advance(15 * time.Minute)
	if a := b.wrong(demo, 5); a.Code != http.StatusUnprocessableEntity {
		t.Errorf("fifth failure of the next window: status %d, want 422", a.Code)
	}
	if a := b.wrong(demo, 1); a.Code != http.StatusTooManyRequests {
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
			h := newHarness(t)
			for i := range 100 {
				h.newAddress(c.first).wrong("user"+strconv.Itoa(i), 1)
			}
			if a := h.newAddress(c.second).try(demo, demoPassword); a.Code != http.StatusTooManyRequests {
				t.Errorf("101st try from %s: status %d, want 429", c.second, a.Code)
			}
			h.newAddress(c.other).signIn(demo, demoPassword)
		})
	}
}

// TestOwnAccountDoesNotWipeTheAddress: signing in to an account does not reset the failures of the network address.
func TestOwnAccountDoesNotWipeTheAddress(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	for i := range 100 {
		if i%10 == 9 {
			h.browser().signIn(demo, demoPassword)
		}
		h.browser().wrong("user"+strconv.Itoa(i), 1)
	}
	if a := h.browser().try("anna", "x"); a.Code != http.StatusTooManyRequests {
		t.Errorf("101st failure: status %d, want 429", a.Code)
	}
}

func TestBusyHasher(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.hasher = secret.NewHasher(secret.HashCost{MemoryKiB: 8 << 10, Iterations: 1, Concurrency: 1})
	h.start()
	b := h.browser()
	form := b.get("/next")
	// The longest computation that a stored hash can ask for runs, and another one is next, so the line of this network
	// does not move. It is full as soon as a caller is turned away.
	var flood sync.WaitGroup
	long, finish := context.WithCancel(t.Context())
	for range 2 {
		flood.Go(func() {
			h.hasher.Verify(long, "$argon2id$v=19$m=65536,t=32,p=1$"+strings.Repeat("A", 22)+"$"+strings.Repeat("A", 43), "x") //nolint:errcheck // it is cancelled
		})
	}
	for h.hasher.Waiting() == 0 {
		runtime.Gosched()
	}
	ctx, cancel := context.WithCancel(secret.AskedBy(t.Context(), proof.QueueOf("203.0.113.7"), nil))
	turnedAway := make(chan struct{}, 100)
	for range cap(turnedAway) {
		flood.Go(func() {
			if errors.Is(h.hasher.Waste(ctx, "x"), secret.ErrBusy) {
				turnedAway <- struct{}{}
			}
		})
	}
	<-turnedAway
	for range 6 {
		if a := b.post(form, "username", demo, "password", "wrong password"); a.Code != http.StatusServiceUnavailable || a.Header().Get("Retry-After") == "" {
			t.Errorf("try while the hasher is busy: status %d, Retry-After %q, want 503 with it", a.Code, a.Header().Get("Retry-After"))
		}
	}
	finish()
	elsewhere := h.browser()
	elsewhere.address = "198.51.100.9:4711"
	elsewhere.signIn(demo, demoPassword) // a flood keeps only its own network waiting
	cancel()
	flood.Wait()
	b.signIn(demo, demoPassword) // the six attempts that were never checked do not count
	h.checkInvariants()
}

// TestNewPasswordsKeepNobodyOut: people can sign in while a directory sets many passwords at once.
func TestNewPasswordsKeepNobodyOut(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.hasher = secret.NewHasher(secret.HashCost{MemoryKiB: 1 << 10, Iterations: 2, Concurrency: 1})
	h.start()
	ctx, cancel := context.WithCancel(t.Context())
	var flood sync.WaitGroup
	turnedAway := make(chan struct{}, 1)
	for range 200 {
		flood.Go(func() {
			for ctx.Err() == nil {
				if errors.Is(h.Person.SetPassword(ctx, "ben", secret.New(demoPassword), event.Actor{}), secret.ErrBusy) {
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
		h.browser().signIn(demo, demoPassword)
	}
	cancel()
	flood.Wait()
}

func TestChangedPasswordMakesDevicesUnknown(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	b := h.browser()
	b.signIn(demo, demoPassword)
	b.post(b.get("/sign-out"))
	if err := h.Person.SetPassword(t.Context(), demo, secret.New("another one"), admin); err != nil {
		t.Fatal(err)
	}
	h.browser().wrong(demo, 5)
	if a := b.try(demo, "another one"); a.Code != http.StatusTooManyRequests {
		t.Errorf("device of before the change, after five failures at its address: status %d, want 429", a.Code)
	}
}
