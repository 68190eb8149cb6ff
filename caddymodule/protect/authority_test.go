package protect

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/authz"
	"github.com/gatehouse-id/gatehouse/authz/dpop"
	"github.com/gatehouse-id/gatehouse/authz/oauth"
	"github.com/gatehouse-id/gatehouse/authz/savedforms"
	"github.com/gatehouse-id/gatehouse/authz/token"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/authn"
	"github.com/gatehouse-id/gatehouse/internal/botauth"
	"github.com/gatehouse-id/gatehouse/internal/dbsc"
	"github.com/gatehouse-id/gatehouse/internal/limit"
	"github.com/gatehouse-id/gatehouse/internal/recheck"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
	"github.com/gatehouse-id/gatehouse/storage/badgerstore"
)

// fakeAuthority is an authorization server whose answers a test decides.
type fakeAuthority struct {
	mu         sync.Mutex // guards all below
	tokens     map[string]*token.Introspection
	sessions   map[string]*token.Introspection // origin and token
	uses       map[string]*token.Introspection // what the use of a token finds that tokens did not know yet
	codes      map[string]fakeCode
	flows      []fakeFlow
	err        error
	panics     bool
	gone       error // no one can be asked
	patient    bool  // open requests are not judged again by the clock
	asked      int
	ended      []string
	usedAt     []string      // sites and addresses where app passwords were used
	clock      time.Duration // how far the clock of protect is ahead
	savedForms *savedforms.Forms
	formers    map[string]string // persons of sessions, those that have ended too, by origin and token
	closed     bool              // to strangers
	access     *fakeAccess
	counter    counter

	assertions asserter
	transacts  transactor
	proofs     *dpop.Proofs

	store    *badgerstore.Store // tells open requests of changes; nil: they are looked at again every few milliseconds
	hasRules func(string) bool  // nil: every site has the rules that it had
	limits   *limit.Counters
	robots   *botauth.Verifier
	robot    string // the domain of the robot of robots.localhost and robots.test
	shelf    *shelf // with store
}

// Former implements savedforms.Sites.
func (f *fakeAuthority) Former(_ storage.Tx, origin, raw string) (string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.formers[origin+" "+raw], nil
}

// policies is grants for what is not in the Caddyfile.
func (f *fakeAuthority) policies() library {
	if f.shelf == nil {
		return nil
	}
	return f.shelf
}

// grants returns what Entrance takes: an interface that holds no pointer is nil.
func (f *fakeAuthority) grants() Access {
	if f.access == nil {
		return nil
	}
	return f.access
}

func newForms(t testing.TB, f *fakeAuthority) *savedforms.Forms {
	t.Helper()
	store, err := badgerstore.OpenMemory()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	ring, err := secret.NewKeyring(make([]byte, secret.KeySize))
	if err != nil {
		t.Fatal(err)
	}
	return savedforms.New(savedforms.Deps{Store: store, Keyring: ring, Sites: f, Now: f.now, Random: rand.Reader})
}

func newProofs(t testing.TB, f *fakeAuthority) *dpop.Proofs {
	t.Helper()
	store, err := badgerstore.OpenMemory()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	ring, err := secret.NewKeyring(make([]byte, secret.KeySize))
	if err != nil {
		t.Fatal(err)
	}
	return dpop.New(dpop.Deps{Store: store, Keyring: ring, Now: f.now})
}

func (f *fakeAuthority) now() time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return time.Now().Add(f.clock)
}

type fakeCode struct{ origin, binding, to string }

type fakeFlow struct {
	authz.SiteDemand
	binding string
}

func newToken(t testing.TB, kind secret.Kind) string {
	t.Helper()
	s, err := secret.NewToken(rand.Reader, kind)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func (f *fakeAuthority) set(change func()) {
	f.mu.Lock()
	change()
	store := f.store
	f.mu.Unlock()
	if store != nil {
		if err := store.Update(context.Background(),
			func(tx storage.Tx) error { return tx.Put([]byte("fake/all"), nil, time.Time{}) }); err != nil {
			panic(err)
		}
	}
}

// observe asks, and returns what the answer rests on.
func (f *fakeAuthority) observe(ctx context.Context, ask func() (*token.Introspection, error)) (who *token.Introspection,
	b recheck.Basis, err error,
) {
	if f.store == nil {
		who, err = ask()
		return who, b, err
	}
	b.Until = f.now().Add(time.Hour)
	b.Reading, err = f.store.Track(ctx, func(tx storage.Tx) error {
		if _, err := tx.GetMany([]byte("fake/all")); err != nil {
			return err
		}
		who, err = ask()
		return err
	})
	return who, b, err
}

func (f *fakeAuthority) Observe(ctx context.Context, raw string) (*token.Introspection, recheck.Basis, error) {
	return f.observe(ctx, func() (*token.Introspection, error) { return f.Recheck(ctx, raw) })
}

func (f *fakeAuthority) ObserveSite(ctx context.Context, origin, raw string) (*token.Introspection, recheck.Basis, error) {
	return f.observe(ctx, func() (*token.Introspection, error) { return f.SiteSession(ctx, origin, raw, "") })
}

func (*fakeAuthority) KeysVersion() uint64 { return 1 }

// push makes open requests wait for what they are told, and for nothing else.
func push(t *testing.T) func(*fakeAuthority) {
	t.Helper()
	s, err := badgerstore.OpenMemory()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return func(f *fakeAuthority) { f.store, f.shelf = s, &shelf{fake: f} }
}

func (f *fakeAuthority) answer(m map[string]*token.Introspection, key string) (*token.Introspection, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked++
	if f.panics {
		panic("fake")
	}
	if f.err != nil {
		return nil, f.err
	}
	if in := m[key]; in != nil {
		c := *in
		if in.Person != nil { // a test may change it while the answer is looked at
			person := *in.Person
			c.Person = &person
		}
		return &c, nil
	}
	return &token.Introspection{}, nil
}

func (f *fakeAuthority) Introspect(_ context.Context, raw string) (*token.Introspection, error) {
	return f.answer(f.tokens, raw)
}

func (f *fakeAuthority) Recheck(_ context.Context, raw string) (*token.Introspection, error) {
	return f.answer(f.tokens, raw)
}

func (f *fakeAuthority) Use(_ context.Context, raw string) (*token.Introspection, error) {
	f.mu.Lock()
	_, changed := f.uses[raw]
	f.mu.Unlock()
	if changed {
		return f.answer(f.uses, raw)
	}
	return f.answer(f.tokens, raw)
}

func (f *fakeAuthority) UseAt(_ context.Context, raw, site string, from audit.Origin) (*token.Introspection, error) {
	f.set(func() { f.usedAt = append(f.usedAt, site+" "+from.ClientIP) })
	return f.answer(f.tokens, raw)
}

func (f *fakeAuthority) SiteSession(_ context.Context, origin, raw, _ string) (*token.Introspection, error) {
	return f.answer(f.sessions, origin+" "+raw)
}

func (f *fakeAuthority) SiteDevices(origin string, offered bool, _ func(dbsc.Outcome)) *dbsc.Exchange {
	return &dbsc.Exchange{Guard: dbsc.NewGuard(rand.Reader, make([]byte, 32)), Origin: origin, Offered: offered, Now: time.Now}
}

func (f *fakeAuthority) BeginSite(_ context.Context, d authz.SiteDemand, binding string) (string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.flows = append(f.flows, fakeFlow{d, binding})
	return fmt.Sprintf("https://issuer.test/oauth/site?flow=%d", len(f.flows)), f.err
}

func (f *fakeAuthority) FinishSite(_ context.Context, origin, code, binding string, _ audit.Origin) (authz.SiteLogin, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err != nil {
		return authz.SiteLogin{}, f.err
	}
	c, ok := f.codes[code]
	delete(f.codes, code)
	if !ok || c.origin != origin || c.binding != binding {
		return authz.SiteLogin{}, &oauth.Error{Status: http.StatusBadRequest, Code: "invalid_grant", Description: "the code is not good here"}
	}
	raw, err := secret.NewToken(rand.Reader, secret.SiteSession)
	f.sessions[origin+" "+raw], f.formers[origin+" "+raw] = person(2, "staff"), person(2).Subject
	return authz.SiteLogin{Token: raw, Return: c.to}, err
}

func (f *fakeAuthority) EndSite(_ context.Context, origin, raw string) (string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.sessions, origin+" "+raw)
	f.ended = append(f.ended, raw)
	return f.LogoutURL(origin) + "&at_once", f.err
}

func (f *fakeAuthority) LogoutURL(origin string) string {
	return "https://issuer.test/oauth/logout?post_logout_redirect_uri=" + origin
}

// person returns the data of a signed-in person.
func person(level int, groups ...string) *token.Introspection {
	return &token.Introspection{
		Active: true, Subject: "f81d4fae-7dec-11d0-a765-00a0c91e6bf6", ClientID: "shop", Scope: []string{"a", "b"},
		Level: level, AuthTime: time.Now(),
		Person: &authn.Subject{
			Active: true, Username: "demo@example.com", Groups: groups,
			Profile: map[string]string{"name": "Demo Pérson", "email": "demo@example.com", "email_verified": "true"},
		},
	}
}

// limited returns what is known of a token that allows two uses.
func limited(who *token.Introspection) *token.Introspection {
	who.UsageLimit = 2
	return who
}
