package faults

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/faults/lab"
)

const (
	visitors  = 16                                    // visitors who try the provider all the time
	passwords = 4                                     // persons who sign in by password meanwhile
	patience  = 5*time.Second + 1500*time.Millisecond // 5 s, and a margin for a busy machine
)

// providersDown is F18: an external identity provider that is down, slow, flapping or answers garbage shows its own
// users a page with a way back, and does not affect others.
func providersDown(t *testing.T, rep *report) {
	p := partner(t, false)
	expired := partner(t, true)
	c := lab.Config{Persons: passwords, Global: servers(""), Gatehouse: fmt.Sprintf(`		idp partner saml {
			metadata %s/saml/metadata
		}
		idp corp oidc {
			issuer %s
			client_id gatehouse
			client_secret %s
		}
		idp expired saml {
			metadata https://localhost:%d/saml/metadata
		}
		client sso {
			secret %s
			redirect_uris %s
			grants authorization_code
			scopes openid
			idps identity partner corp expired
		}`, p.Origin(), p.Origin(), strings.Repeat("p", 40), expired.Port, strings.Repeat("s", 40), lab.Callback)}
	s := start(t, c, passwords)
	d := 20 * time.Second
	if testing.Short() {
		d = time.Second
	}
	modes := []string{lab.Down, lab.Slow, lab.HalfOpen, lab.Drip, lab.Garbage, lab.Endless, lab.Flapping}
	if testing.Short() {
		modes = []string{lab.Slow, lab.Garbage, lab.Flapping}
	}
	both := []string{"partner", "corp"}
	idle := s.Server.Metric(t.Context(), "go_goroutines")
	var base *signInCounts
	for _, mode := range modes {
		base = s.signIns(t, d/2, both) // just before, because the machine's speed varies
		taken := p.Taken.Load()
		p.Be(mode)
		s.renew(t, mode) // nothing about the provider is cached any more
		got := s.signIns(t, d, both)
		s.judge(t, mode, got, base, idle)
		taken = p.Taken.Load() - taken
		p.Be(lab.Good)
		back, ok := eventually(t.Context(), 40*time.Second, func() bool { return s.begins(t, "partner") && s.begins(t, "corp") })
		if !ok {
			t.Errorf("%s: the provider works again, but sign-ins do not", mode)
		}
		rep.add("%s: password sign-ins 99%% %d ms (%d before), %d tries, longest %d ms, %d connections, goroutines +%.0f, back after %d ms", mode,
			got.p99().Milliseconds(), base.p99().Milliseconds(), got.tries.Load(), got.longest.Load(), taken, max(got.goroutines-idle, 0), back.Milliseconds())
	}
	got := s.signIns(t, d/2, []string{"expired"})
	s.judge(t, "expired certificate", got, base, idle)
	s.tokens(t, p, rep)
}

func partner(t *testing.T, expired bool) *lab.Partner {
	t.Helper()
	p, err := lab.NewPartner(expired)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

// renew loads the same configuration again, with another comment.
func (s setup) renew(t *testing.T, comment string) {
	t.Helper()
	if a := s.Server.Load(t.Context(), s.Server.Caddyfile(s.Server.Ports, s.Server.Secrets, comment)); a.Status != http.StatusOK {
		t.Fatalf("Load = %d %s: %v", a.Status, a.Body, a.Err)
	}
}

// signInCounts is the outcome of sign-ins.
type signInCounts struct {
	mu         sync.Mutex // guards times, failed and wrong
	times      []time.Duration
	failed     []string // sign-ins by password
	wrong      []string // unexpected answers to tries at a provider
	tries      atomic.Int64
	longest    atomic.Int64 // ms of a try
	goroutines float64      // maximum
}

func (r *signInCounts) p99() time.Duration {
	if len(r.times) == 0 {
		return 0
	}
	return slices.Sorted(slices.Values(r.times))[len(r.times)*99/100]
}

// signIns lets persons sign in by password for d, while visitors try the providers.
func (s setup) signIns(t *testing.T, d time.Duration, providers []string) *signInCounts {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	r := &signInCounts{}
	var wg sync.WaitGroup
	for i := range passwords {
		wg.Go(func() {
			for ctx.Err() == nil {
				b := s.Server.NewBrowser()
				b.Person = lab.Person(i)
				began := time.Now()
				_, _, err := b.SignIn(t.Context(), lab.WebClient(i))
				took := time.Since(began)
				b.Forget()
				r.mu.Lock()
				r.times = append(r.times, took)
				if err != nil {
					r.failed = append(r.failed, err.Error())
				}
				r.mu.Unlock()
				lab.Pause(ctx, 20*time.Millisecond)
			}
		})
	}
	for i := range visitors * min(len(providers), 1) {
		wg.Go(func() {
			for n := i; ctx.Err() == nil; n++ {
				a := s.try(t, providers[n%len(providers)])
				r.tries.Add(1)
				r.mu.Lock()
				r.longest.Store(max(r.longest.Load(), a.Took.Milliseconds()))
				if problem := judgeTry(a); problem != "" {
					r.wrong = append(r.wrong, problem)
				}
				r.mu.Unlock()
				lab.Pause(ctx, 100*time.Millisecond)
			}
		})
	}
	for lab.Pause(ctx, 250*time.Millisecond) {
		r.goroutines = max(r.goroutines, s.Server.Metric(t.Context(), "go_goroutines"))
	}
	wg.Wait()
	return r
}

// try goes to a provider as a new browser does, up to our last redirect.
func (s setup) try(t *testing.T, provider string) lab.Answer {
	b := s.Server.NewBrowser()
	defer b.Forget()
	_, challenge := lab.Challenge()
	target := s.Server.AuthorizeURL("sso", challenge, "scope", "openid", "idp", provider)
	began := time.Now()
	var a lab.Answer
	for range 5 {
		a = b.Page(t.Context(), target)
		next := a.Header.Get("Location")
		if a.Status < 300 || a.Status >= 400 || next == "" {
			break
		}
		if strings.HasPrefix(next, "/") {
			next = s.Server.Issuer() + next
		}
		target = next
		if !strings.HasPrefix(target, s.Server.Issuer()) {
			break
		}
	}
	a.Took = time.Since(began)
	return a
}

// judgeTry returns what is wrong with the end of a try: it must lead to the provider, or to a page with a way back, in
// time.
func judgeTry(a lab.Answer) string {
	page := string(a.Body)
	switch {
	case a.Err != nil:
		return a.Err.Error()
	case a.Took > patience:
		return fmt.Sprintf("answered after %v", a.Took)
	case a.Status == http.StatusSeeOther || a.Status == http.StatusFound:
		return ""
	case a.Status < 500 || a.Status == http.StatusInternalServerError:
		return fmt.Sprintf("status %d: %.300s", a.Status, page)
	case !strings.Contains(page, "<a ") || !strings.Contains(page, "/sign-in"):
		return fmt.Sprintf("a page without a way back: %.2000s", page)
	}
	return ""
}

// begins tells whether a sign-in reaches the provider.
func (s setup) begins(t *testing.T, provider string) bool {
	a := s.try(t, provider)
	return (a.Status == http.StatusSeeOther || a.Status == http.StatusFound) && !strings.HasPrefix(a.Header.Get("Location"), s.Server.Issuer())
}

func (s setup) judge(t *testing.T, mode string, got, base *signInCounts, idle float64) {
	t.Helper()
	if len(got.failed) > 0 {
		t.Errorf("%s: %d of %d sign-ins by password failed; the first: %s", mode, len(got.failed), len(got.times), got.failed[0])
	}
	if len(got.wrong) > 0 {
		t.Errorf("%s: %d of %d tries at the provider ended badly; the first: %s", mode, len(got.wrong), got.tries.Load(), got.wrong[0])
	}
	// a short round has too few sign-ins for a statement about their times
	if limit := max(2*base.p99(), base.p99()+100*time.Millisecond); got.p99() > limit && !testing.Short() {
		t.Errorf("%s: 99%% of the sign-ins by password within %v, want %v", mode, got.p99(), limit)
	}
	if most := idle + 12*visitors + 100; got.goroutines > most {
		t.Errorf("%s: %.0f goroutines, want %.0f at most", mode, got.goroutines, most)
	}
}

// tokens makes discovery work and the token endpoint fail: the callback is answered in time.
func (s setup) tokens(t *testing.T, p *lab.Partner, rep *report) {
	t.Helper()
	for _, mode := range []string{lab.Slow, lab.Garbage, lab.Down} {
		p.Token(mode)
		b := s.Server.NewBrowser()
		_, challenge := lab.Challenge()
		a, at := b.Visit(t.Context(), s.Server.AuthorizeURL("sso", challenge, "scope", "openid", "idp", "corp"))
		u, err := url.Parse(at)
		if err != nil || !strings.HasPrefix(at, p.Origin()+"/authorize?") {
			t.Fatalf("the browser is at %s, want the provider: %d %v", at, a.Status, a.Err)
		}
		q := url.Values{"code": {"x"}, "state": {u.Query().Get("state")}, "iss": {p.Origin()}}
		a, at = b.Visit(t.Context(), s.Server.Issuer()+"/oidc/corp/callback?"+q.Encode())
		if problem := judgeTry(a); problem != "" {
			t.Errorf("token endpoint %s: at %s: %s", mode, at, problem)
		}
		rep.add("token endpoint %s: %d after %d ms", mode, a.Status, a.Took.Milliseconds())
		b.Forget()
	}
}
