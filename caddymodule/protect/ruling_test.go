package protect

import (
	"context"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/gatehouse-id/gatehouse/caddymodule/policy"
	"github.com/gatehouse-id/gatehouse/caddymodule/protect/sitepath"
	"github.com/gatehouse-id/gatehouse/internal/recheck"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

// shelf is a library that a test changes, over the store of an authority that tells open requests of changes.
type shelf struct {
	fake *fakeAuthority

	mu   sync.Mutex // guards book
	book *policy.Book
}

func (s *shelf) Current(ctx context.Context) (book *policy.Book, on recheck.Basis, err error) {
	on.Until = s.fake.now().Add(time.Hour)
	on.Reading, err = s.fake.store.Track(ctx, func(tx storage.Tx) error {
		if _, err := tx.GetMany([]byte("policies/all")); err != nil {
			return err
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		book = s.book
		return nil
	})
	return book, on, err
}

// put stores the policy later. "": it is removed.
func (s *shelf) put(t testing.TB, text string) {
	t.Helper()
	all := map[string]*policy.Policy{}
	if text != "" {
		ctx, cancel := caddy.NewContext(caddy.Context{Context: context.Background()})
		t.Cleanup(cancel)
		p, at, err := policy.Load(ctx, "later", []byte(text), sitepath.CheckPublic)
		if err != nil {
			t.Fatalf("%s: %v", at, err)
		}
		all["later"] = p
	}
	s.mu.Lock()
	s.book = policy.NewBook(all)
	s.mu.Unlock()
	if err := s.fake.store.Update(t.Context(),
		func(tx storage.Tx) error { return tx.Put([]byte("policies/all"), nil, time.Time{}) }); err != nil {
		t.Fatal(err)
	}
}

// A site decides by the policy of the configuration API as it is at each request, together with those of the Caddyfile,
// and refuses everybody while it is missing.
func TestPolicyThatIsNotInTheCaddyfile(t *testing.T) {
	g := startGateway(t, push(t))
	raw := newToken(t, secret.AccessToken)
	g.fake.set(func() { g.fake.tokens[raw] = person(1, "staff") })
	ask := func(path string, status int) {
		t.Helper()
		a := g.raw(t, "GET "+path+" HTTP/1.1", "Host: later.test", "Authorization: Bearer "+raw)
		if status == http.StatusOK {
			g.passed(t, a)
		} else {
			g.refused(t, a, status)
		}
	}
	ask("/x", http.StatusForbidden)
	ask("/office/x", http.StatusForbidden) // though the rule of the Caddyfile would let it pass
	ask("/open", http.StatusForbidden)     // though the site says that it is public
	g.fake.shelf.put(t, `{"allow":[{"match":[{"path":["/x"]}]}],"public":["/later"]}`)
	ask("/x", http.StatusOK)
	ask("/office/x", http.StatusOK)
	ask("/other", http.StatusForbidden)
	ask("/%2e/x", http.StatusBadRequest)
	for _, open := range []string{"/open", "/later"} {
		g.passed(t, g.raw(t, "GET "+open+" HTTP/1.1", "Host: later.test"))
	}
	g.fake.shelf.put(t, `{"deny":[{"match":[{"path":["/x","/open"]}]}],"allow":[{}]}`)
	ask("/x", http.StatusForbidden)
	ask("/open", http.StatusForbidden)
	ask("/other", http.StatusOK)
	g.refused(t, g.raw(t, "GET /later HTTP/1.1", "Host: later.test"), http.StatusUnauthorized)
	g.fake.shelf.put(t, "")
	ask("/other", http.StatusForbidden)
	log, err := os.ReadFile(g.log)
	if err != nil {
		t.Fatal(err)
	}
	if log := string(log); !strings.Contains(log, "policy_missing") ||
		!strings.Contains(log, "the site names the policy later, which is neither in the Caddyfile nor in the configuration API") {
		t.Errorf("the log does not say what is missing:\n%s", log)
	}
}

// What is open is judged again when a policy changes: by the request as it came, whatever the handlers behind have made
// of it, and what is still let in stays open. In this test nothing is looked at by the clock.
func TestChangedPolicyCutsOpenRequests(t *testing.T) {
	g := startGateway(t, push(t))
	raw := newToken(t, secret.AccessToken)
	g.fake.set(func() { g.fake.tokens[raw] = person(1, "staff") })
	open := func(query string) answer {
		t.Helper()
		a := g.raw(t, slices.Concat([]string{"GET /ws?" + query + " HTTP/1.1", "Host: later.test", "Authorization: Bearer " + raw}, handshake)...)
		if a.StatusCode != http.StatusSwitchingProtocols {
			t.Fatalf("status = %d, want 101", a.StatusCode)
		}
		roundTrip(t, a, "hello")
		return a
	}
	const both = `{"allow":[{"match":[{"query":{"goes":["1"]}}],"need":{"groups":["staff"]}},` +
		`{"match":[{"query":{"stays":["1"]},"header":{"Upgrade":["websocket"]},"method":["GET"],"path":["/ws"],"host":["later.test"],"remote_ip":{"ranges":["127.0.0.0/8"]},"client_ip":{"ranges":["127.0.0.0/8"]}}]}]}`
	g.fake.shelf.put(t, both)
	stays := open("stays=1")
	for name, change := range map[string]string{
		"a rule for other requests": strings.Replace(both, `"goes"`, `"others"`, 1),
		"a rule for another group":  strings.Replace(both, `"staff"`, `"admins"`, 1),
		"a rule that refuses":       strings.Replace(both, `{"allow"`, `{"deny":[{"match":[{"query":{"goes":["1"]}}]}],"allow"`, 1),
	} {
		g.fake.shelf.put(t, both)
		goes := open("goes=1")
		g.fake.shelf.put(t, change)
		if rest, err := io.ReadAll(goes.br); err != nil || len(rest) == 0 {
			t.Errorf("%s: the end of the connection was % x, %v, want a close frame", name, rest, err)
		}
		roundTrip(t, stays, "still here")
	}
	g.fake.shelf.put(t, "")
	if rest, err := io.ReadAll(stays.br); err != nil || len(rest) == 0 {
		t.Errorf("without the policy: the end of the connection was % x, %v, want a close frame", rest, err)
	}
}
