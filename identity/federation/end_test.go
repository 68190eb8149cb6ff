package federation_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gatehouse-id/gatehouse/identity/federation"
	"github.com/gatehouse-id/gatehouse/identity/identitytest"
	"github.com/gatehouse-id/gatehouse/idp"
	"github.com/gatehouse-id/gatehouse/storage"
)

// holding returns ann's identity with data that the provider needs later.
func holding() *idp.Identity {
	id := identitytest.Ann()
	id.Held, id.Sessions = []byte("held secret"), []string{"sid-1", "sid-2"}
	return id
}

// TestFarewell: a sign-out here continues at the provider and returns to the destination of the sign-out.
func TestFarewell(t *testing.T) {
	t.Parallel()
	e := identitytest.NewFederated(t)
	e.At("partner")
	var ended []idp.EndRequest
	e.Partner.OnEnd(func(_ context.Context, q idp.EndRequest) (*idp.Next, error) {
		ended = append(ended, q)
		return &idp.Next{URL: "https://idp.example/logout?" + url.Values{"state": {q.Flow}}.Encode(), State: []byte("request 1")}, nil
	})
	states := []string{}
	e.Partner.OnHandle(func(w http.ResponseWriter, r *http.Request, op string, h idp.Host) bool {
		if op != "signed-out" {
			return false
		}
		state, ret, err := h.Ended(w, r, r.URL.Query().Get("state"))
		if err != nil {
			h.Fail(w, r, err)
			return true
		}
		states = append(states, string(state))
		h.Go(w, r, &idp.Next{URL: ret})
		return true
	})
	b := e.Browser()
	e.MustEnter(b, holding())
	a := b.Post(b.Get("/sign-out"))
	if a.Code != http.StatusSeeOther || b.IsSignedIn() {
		t.Fatalf("sign-out: %d, signed in %t", a.Code, b.IsSignedIn())
	}
	away := b.Leave(a.Header().Get("Location"))
	if !strings.HasPrefix(away, "https://idp.example/logout") || len(ended) != 1 || string(ended[0].Held) != "held secret" {
		t.Fatalf("sent to %q, End was asked %+v", away, ended)
	}
	back := "/oidc/partner/signed-out?state=" + identitytest.State(t, away)
	if other := e.Browser().Get(back); other.Code != http.StatusBadRequest {
		t.Errorf("another browser: %d, want 400", other.Code)
	}
	if a := b.Get(back); a.URL != "/sign-out" || !strings.Contains(a.Body.String(), "You’re signed out") ||
		!cmp.Equal(states, []string{"request 1"}) {
		t.Errorf("back at %s: %d, states %q", a.URL, a.Code, states)
	}
	// A message that is refused speaks of signing out, and leads on.
	if a := b.Get(back); a.Code != http.StatusBadRequest || !strings.Contains(a.Body.String(), "We couldn’t complete your sign-out") ||
		!strings.Contains(a.Body.String(), `href="/sign-out"`) {
		t.Errorf("a second time: %d, want 400 with a way on\n%s", a.Code, a.Body)
	}
	for name, end := range map[string]func(context.Context, idp.EndRequest) (*idp.Next, error){
		"nothing to do": func(context.Context, idp.EndRequest) (*idp.Next, error) { return nil, nil },
		"down":          func(context.Context, idp.EndRequest) (*idp.Next, error) { return nil, errors.New("down") },
	} {
		e.Partner.OnEnd(end)
		b := e.Browser()
		e.MustEnter(b, holding())
		a := b.Get(b.Post(b.Get("/sign-out")).Header().Get("Location"))
		a = b.Get(strings.TrimPrefix(a.Header().Get("Refresh"), "0; url="))
		if a.URL != "/sign-out" || a.Code != http.StatusOK || b.IsSignedIn() {
			t.Errorf("%s: ended at %s with %d", name, a.URL, a.Code)
		}
	}
	// The sign-out of a session without a provider stays here.
	e.At("identity")
	p := e.Browser()
	p.SignIn(identitytest.Demo, identitytest.DemoPassword)
	if a := p.Post(p.Get("/sign-out")); a.Header().Get("Location") != "/sign-out" {
		t.Errorf("sign-out of a password: to %q", a.Header().Get("Location"))
	}
}

func TestEndSessions(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name     string
		provider string
		q        idp.EndQuery
		want     int
	}{
		{"subject", "partner", idp.EndQuery{Issuer: identitytest.PartnerIssuer, Subject: "4711"}, 1},
		{"session", "partner", idp.EndQuery{Issuer: identitytest.PartnerIssuer, Sessions: []string{"sid-2"}}, 1},
		{"both", "partner", idp.EndQuery{Issuer: identitytest.PartnerIssuer, Subject: "4711", Sessions: []string{"sid-1", "sid-9"}}, 1},
		{"subject, other session", "partner", idp.EndQuery{Issuer: identitytest.PartnerIssuer, Subject: "4711", Sessions: []string{"sid-9"}}, 0},
		{"other subject, session", "partner", idp.EndQuery{Issuer: identitytest.PartnerIssuer, Subject: "4712", Sessions: []string{"sid-1"}}, 0},
		{"other issuer", "partner", idp.EndQuery{Issuer: "https://evil.example", Subject: "4711"}, 0},
		{"other case", "partner", idp.EndQuery{Issuer: identitytest.PartnerIssuer, Sessions: []string{"SID-1"}}, 0},
		{"another provider", "corp", idp.EndQuery{Issuer: identitytest.PartnerIssuer, Subject: "4711"}, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			e := identitytest.NewFederated(t)
			e.At("partner")
			watch := identitytest.NewWatcher()
			e.Person.Watch(watch)
			b := e.Browser()
			e.MustEnter(b, holding())
			got := -1
			handle := func(w http.ResponseWriter, r *http.Request, _ string, h idp.Host) bool {
				n, err := h.EndSessions(r.Context(), tc.q, r)
				if got = n; err != nil {
					t.Error(err)
				}
				return true
			}
			e.Partner.OnHandle(handle)
			e.Corp.OnHandle(handle)
			path := map[string]string{"partner": "/oidc/partner/back", "corp": "/saml/corp/back"}[tc.provider]
			e.Browser().Do(http.MethodPost, path, "")
			// The watcher is told of the tokens and of the session.
			told := len(watch.Told.Take(t, e.Store))
			if got != tc.want || b.IsSignedIn() != (tc.want == 0) || told != 2*tc.want {
				t.Errorf("EndSessions(%+v) = %d, signed in %t, told %d, want %d", tc.q, got, b.IsSignedIn(), told, tc.want)
			}
		})
	}
}

// TestEndOfASessionThatDoesNotCount: what a provider signs out while the session does not count, as that of someone who
// is an administrator for a time, does not come back.
func TestEndOfASessionThatDoesNotCount(t *testing.T) {
	t.Parallel()
	t.Run("attack 6482: a provider signs out a session that does not count now", func(t *testing.T) {
		t.Parallel()
		e := identitytest.NewFederated(t)
		e.At("partner")
		b := e.Browser()
		opened := e.MustEnter(b, holding())
		ended := 0
		e.Partner.OnHandle(func(_ http.ResponseWriter, r *http.Request, _ string, h idp.Host) bool {
			n, err := h.EndSessions(r.Context(), idp.EndQuery{Issuer: identitytest.PartnerIssuer, Subject: "4711"}, r)
			if ended = n; err != nil {
				t.Error(err)
			}
			return true
		})
		identitytest.WhileOff(t, e.Store, opened.SessionID, func() { e.Browser().Do(http.MethodPost, "/oidc/partner/back", "") })
		if ended != 1 || b.IsSignedIn() {
			t.Errorf("%d sessions ended, signed in %t; want one, and signed out", ended, b.IsSignedIn())
		}
	})
}

// TestFramesOfAnEndedSession: when a provider ends the session of the browser that it sends here, the clients are
// loaded in frames before the browser goes back, as after a sign-out that began here. Another browser learns of none.
func TestFramesOfAnEndedSession(t *testing.T) {
	t.Parallel()
	const frame, back = "https://shop.example.com/signed-out?sid=1", "https://idp.example/done?SAMLResponse=1"
	for name, own := range map[string]bool{"the browser of the session": true, "another browser": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := identitytest.NewFederated(t)
			e.At("partner")
			watch := identitytest.NewWatcher()
			watch.Frames = []string{frame}
			e.Person.Watch(watch)
			b, by := e.Browser(), e.Browser()
			e.MustEnter(b, holding())
			if own {
				by = b
			}
			e.Partner.OnHandle(func(w http.ResponseWriter, r *http.Request, _ string, h idp.Host) bool {
				n, err := h.EndSessions(r.Context(), idp.EndQuery{Issuer: identitytest.PartnerIssuer, Sessions: []string{"sid-1"}}, r)
				if n != 1 || err != nil {
					t.Errorf("EndSessions = %d, %v, want 1", n, err)
				}
				h.Go(w, r, &idp.Next{URL: back})
				return true
			})
			a := by.Do(http.MethodGet, "/oidc/partner/slo", "")
			to := a.Header().Get("Location")
			if !own {
				if !strings.HasPrefix(to, back) {
					t.Errorf("another browser is sent to %q, want %s", to, back)
				}
				return
			}
			if page := by.Get(to); !strings.Contains(page.Body.String(), `<iframe src="`+frame) {
				t.Errorf("%s loads no frame: %d\n%s", to, page.Code, page.Body)
			}
			if a := by.Do(http.MethodGet, to+"&end=1", ""); !strings.HasPrefix(a.Header().Get("Location"), back) {
				t.Errorf("the end of it = %d to %q, want %s", a.Code, a.Header().Get("Location"), back)
			}
			if b.IsSignedIn() {
				t.Error("the session goes on")
			}
		})
	}
}

// TestEndSessionsBehindMany: the provider can end a session even behind the records of many sessions that have ended.
func TestEndSessionsBehindMany(t *testing.T) {
	t.Parallel()
	e := identitytest.NewFederated(t)
	e.At("partner")
	b := e.Browser()
	e.MustEnter(b, holding())
	si, err := e.SessionOf(b)
	if err != nil {
		t.Fatal(err)
	}
	names := storage.NewTable[struct{}]("identity_held_name") // provider, name, session
	err = e.Store.Update(t.Context(), func(tx storage.Tx) error {
		var under []string
		for n, err := range names.Scan(tx, storage.Range{}) {
			if err != nil {
				return err
			}
			under = append(under, storage.Parts(n.Key)[1])
		}
		for _, n := range under {
			for i := range 1500 { // sorted before every session id
				if err := names.Put(tx, storage.Key("partner", n, fmt.Sprintf("-%d", i)), struct{}{}, si.Ends); err != nil {
					return err
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	e.Partner.OnHandle(func(_ http.ResponseWriter, r *http.Request, _ string, h idp.Host) bool {
		if n, err := h.EndSessions(r.Context(), idp.EndQuery{Issuer: identitytest.PartnerIssuer, Subject: "4711"}, r); n != 1 || err != nil {
			t.Errorf("EndSessions = %d, %v, want 1", n, err)
		}
		return true
	})
	e.Browser().Do(http.MethodPost, "/oidc/partner/back", "")
	if b.IsSignedIn() {
		t.Error("the session is still there")
	}
}

// TestLinkedIdentity: an identity at a provider leads to the person who signs in with it, by its issuer and subject
// to the letter, and to no one by an address.
func TestLinkedIdentity(t *testing.T) {
	t.Parallel()
	e := identitytest.NewFederated(t)
	e.At("partner")
	id := identitytest.Ann()
	id.Issuer = identitytest.PartnerIssuer
	si := e.MustEnter(e.Browser(), id)
	for _, c := range []struct{ provider, issuer, subject, want string }{
		{"partner", identitytest.PartnerIssuer, id.Subject, si.Subject},
		{"partner", identitytest.PartnerIssuer, strings.ToUpper(id.Subject) + "x", ""},
		{"partner", identitytest.PartnerIssuer + "/", id.Subject, ""},
		{"other", identitytest.PartnerIssuer, id.Subject, ""},
		{"partner", identitytest.PartnerIssuer, id.Email, ""},
		{"partner", identitytest.PartnerIssuer, si.Subject, ""},
		{"partner", "", "", ""},
	} {
		err := e.Store.View(t.Context(), func(tx storage.Tx) error {
			got, _, err := e.Subjects().Linked(tx, c.provider, c.issuer, c.subject)
			if got != c.want || (c.want == "") != errors.Is(err, storage.ErrNotFound) {
				t.Errorf("Linked(%q, %q, %q) = %q, %v, want %q", c.provider, c.issuer, c.subject, got, err, c.want)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestRefreshDetails(t *testing.T) {
	t.Parallel()
	e := identitytest.NewFederated(t)
	e.At("partner")
	b := e.Browser()
	si := e.MustEnter(b, holding())
	var mu sync.Mutex // guards seen
	var seen []string
	answer := func(id *idp.Identity, err error) {
		e.Partner.OnRefresh(func(_ context.Context, held []byte) (*idp.Identity, error) {
			mu.Lock()
			defer mu.Unlock()
			seen = append(seen, string(held))
			return id, err
		})
	}
	fresh := holding()
	fresh.Details, fresh.Held = map[string][]string{"email": {"new@partner.example"}}, []byte("held secret 2")
	answer(fresh, nil)
	details, err := e.Federation.RefreshDetails(t.Context(), si.Subject, si.SessionID, "partner")
	if err != nil || !cmp.Equal(details, fresh.Details) {
		t.Fatalf("RefreshDetails = %v, %v, want what the provider says now", details, err)
	}
	if now, err := e.SessionOf(b); err != nil || !cmp.Equal(now.Details, fresh.Details) {
		t.Errorf("session has %v, %v", now.Details, err)
	}
	answer(nil, errors.New("down"))
	if details, err := e.Federation.RefreshDetails(t.Context(), si.Subject, si.SessionID, "partner"); err == nil {
		t.Errorf("RefreshDetails while down = %v, want an error", details)
	}
	other := holding()
	other.Subject = "4712"
	answer(other, nil)
	if details, err := e.Federation.RefreshDetails(t.Context(), si.Subject, si.SessionID, "partner"); err == nil {
		t.Errorf("RefreshDetails of another person = %v, want an error", details)
	}
	if now, err := e.SessionOf(b); err != nil || !cmp.Equal(now.Details, fresh.Details) {
		t.Errorf("session has %v, %v, want it as it was", now.Details, err)
	}
	if want := []string{"held secret", "held secret 2", "held secret 2"}; !cmp.Equal(seen, want) {
		t.Errorf("the provider was given %q, want %q", seen, want)
	}
	for name, who := range map[string][3]string{
		"another person's session": {"someone", si.SessionID, "partner"}, "no session": {si.Subject, "none", "partner"},
		"a sign-in by another provider before": {si.Subject, si.SessionID, "corp"},
	} {
		if details, err := e.Federation.RefreshDetails(t.Context(), who[0], who[1], who[2]); err != nil || details != nil {
			t.Errorf("%s: %v, %v, want nothing", name, details, err)
		}
	}
	// A refresh token may be valid only once, so concurrent callers never send it at the same time.
	answer(fresh, nil)
	seen = nil
	var busy atomic.Int64
	e.Partner.OnRefresh(func(_ context.Context, _ []byte) (*idp.Identity, error) {
		if busy.Add(1) > 1 {
			t.Error("two refreshes of one session at a time")
		}
		defer busy.Add(-1)
		return fresh, nil
	})
	var wg sync.WaitGroup
	for range 10 {
		wg.Go(func() {
			if _, err := e.Federation.RefreshDetails(t.Context(), si.Subject, si.SessionID, "partner"); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	e.Partner.OnRefresh(func(ctx context.Context, _ []byte) (*idp.Identity, error) { <-ctx.Done(); return nil, ctx.Err() })
	if _, err := e.Federation.RefreshDetails(ctx, si.Subject, si.SessionID, "partner"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("RefreshDetails while slow = %v, want the end of the time", err)
	}
}

func TestOnce(t *testing.T) {
	t.Parallel()
	e := identitytest.NewFederated(t)
	partner, corp := federation.Once(e.Store, e.Clock.Now, "partner"), federation.Once(e.Store, e.Clock.Now, "corp")
	until := e.Clock.Now().Add(time.Minute)
	if err := partner(t.Context(), "id-1", until); err != nil {
		t.Fatal(err)
	}
	for name, got := range map[string]error{
		"again": partner(t.Context(), "id-1", until), "another provider's": corp(t.Context(), "id-1", until),
		"another": partner(t.Context(), "id-2", until),
	} {
		if want := map[string]error{"again": idp.ErrReplayed}[name]; !errors.Is(got, want) {
			t.Errorf("Once(%s) = %v, want %v", name, got, want)
		}
	}
	e.Start() // as after a restart
	if err := federation.Once(e.Store, e.Clock.Now, "partner")(t.Context(), "id-1", until); !errors.Is(err, idp.ErrReplayed) {
		t.Errorf("Once after a restart = %v, want replayed", err)
	}
	e.Store.Down.Store(true)
	if err := partner(t.Context(), "id-3", until); err == nil || errors.Is(err, idp.ErrReplayed) {
		t.Errorf("Once without storage = %v, want an error of its own", err)
	}
	e.Store.Down.Store(false)
}

// TestHeldIsSealed: data held for a provider cannot be read from the storage or the session.
func TestHeldIsSealed(t *testing.T) {
	t.Parallel()
	e := identitytest.NewFederated(t)
	e.At("partner")
	b := e.Browser()
	b.Leave("/next")
	away := b.Leave("/next")
	b.Do(http.MethodGet, identitytest.Callback(identitytest.State(t, away), e.Partner.Answer(holding(), nil)), "")
	e.MustEnter(e.Browser(), holding())
	for key, value := range e.Dump() {
		for _, bad := range []string{"held secret", "state of ", "sid-1"} {
			if strings.Contains(key+value, bad) {
				t.Errorf("record %q holds %q", key, bad)
			}
		}
	}
}
