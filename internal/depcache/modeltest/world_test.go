// Package modeltest compares the cached answers of servers with those from the store, while everything that they depend
// on changes.
package modeltest

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/authz"
	"github.com/gatehouse-id/gatehouse/authz/client"
	"github.com/gatehouse-id/gatehouse/authz/keys"
	"github.com/gatehouse-id/gatehouse/identity"
	"github.com/gatehouse-id/gatehouse/identity/passkey"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/session"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/authn"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/internal/web"
	"github.com/gatehouse-id/gatehouse/storage"
	"github.com/gatehouse-id/gatehouse/storage/badgerstore"
)

const (
	issuer = "https://auth.example.com"
	wiki   = "https://wiki.example.com"
	files  = "https://files.example.com"
	// clientSecret is that of every client.
	clientSecret = "a-secret-of-more-than-thirty-two-characters"
)

var admin = audit.Actor{ID: "admin", Name: "admin", Origin: audit.Self}

// world is one store with persons, groups and clients, and servers on it.
type world struct {
	*clock

	t     *testing.T
	disk  *badgerstore.Store
	store *between
	keys  *keys.Keys
	ring  *secret.Keyring
	pages *web.Renderer
	id    *identity.Service
	cfg   authz.Config
	// servers are those of the running configuration, and of the one before, whose requests are still under way.
	servers []pair
	persons []string
	groups  []string
	result  *authn.Result // of the next sign-in
}

// clock is the clock of a world. It does not lead to the world, so a store which is closed keeps nothing else.
type clock struct{ now time.Time }

func (c *clock) Now() time.Time { return c.now }

// pair is two servers of one configuration.
type pair struct {
	cfg           authz.Config
	cached, plain *authz.Server
}

// between is a store in which something else happens in the midst of a read.
type between struct {
	storage.Store
	tracker       storage.Tracker
	before, after func()
}

func (b *between) Track(ctx context.Context, fn func(storage.Tx) error) (*storage.Reading, error) {
	before, after := b.before, b.after
	b.before, b.after = nil, nil
	r, err := b.tracker.Track(ctx, func(tx storage.Tx) error {
		if before != nil {
			before()
		}
		return fn(tx)
	})
	if after != nil {
		after()
	}
	return r, err
}

// plain is a store that cannot tell what has changed, so nothing is kept.
type plain struct{ storage.Store }

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, clock: &clock{time.Date(2035, 3, 1, 12, 0, 0, 0, time.UTC)}}
	var err error
	w.disk, err = badgerstore.OpenMemory(func(o *badgerstore.Options) { o.Now = w.clock.Now })
	w.must(err)
	w.store = &between{Store: w.disk, tracker: w.disk}
	w.ring, err = secret.NewKeyring(make([]byte, secret.KeySize))
	w.must(err)
	w.plantKeys()
	w.keys, err = keys.New(t.Context(), w.disk, w.ring, w.clock.Now, nil, nil)
	w.must(err)
	w.pages, err = web.New(web.Config{Issuer: issuer, Key: w.ring.Derive("csrf"), Log: zap.NewNop()})
	w.must(err)
	events := &audit.Recorder{Random: randomReader, Now: w.clock.Now, PartitionOf: person.PartitionOfID}
	w.id, err = identity.New(context.WithoutCancel(t.Context()), identity.Config{Issuer: issuer, Passkeys: passkey.Config{Off: true}},
		identity.Deps{
			Store: w.store, Keyring: w.ring, Hasher: secret.NewHasher(secret.HashCost{MemoryKiB: 8, Iterations: 1, Concurrency: 1}),
			Events: events, Pages: w.pages, Log: zap.NewNop(), Now: w.clock.Now,
		})
	w.must(err)
	for _, name := range []string{"ann", "ben", "cem"} {
		p, err := w.id.Person.AddPerson(t.Context(), person.NewPerson{Username: name + "@example.com", Name: name}, admin)
		w.must(err)
		w.persons = append(w.persons, p.ID)
	}
	for _, name := range []string{"staff", "editors"} {
		g, err := w.id.Person.AddGroup(t.Context(),
			person.GroupChange{Name: name, Permissions: []string{name + ".read"}, Add: w.persons[:1]}, admin)
		w.must(err)
		w.groups = append(w.groups, g.ID)
	}
	w.cfg = authz.Config{
		Issuer: issuer, SiteOrigins: []string{wiki, files},
		Clients: []*client.Client{w.client("own"), w.client("jwt"), w.client("shop")},
		Scopes:  []client.Scope{{Name: "twice", UsageLimit: 2}},
		APIClients: []*client.APIClient{
			{ID: "ops", Secrets: []secret.String{secret.New(clientSecret)}, APIs: []string{"introspection"}},
		},
	}
	w.cfg.Clients[1].TokenFormat = "jwt"
	w.reload(w.cfg)
	stored := w.client("stored")
	_, err = w.server().Clients().Add(t.Context(), *stored, admin)
	w.must(err)
	return w
}

func (w *world) client(id string) *client.Client {
	return &client.Client{
		ID: id, Name: "The " + id, Secrets: []secret.String{secret.New(clientSecret)}, Grants: []string{"client_credentials", "password"},
		Scopes: []string{"openid", "groups", "permissions", "orders", "twice"}, DefaultScopes: []string{"orders"}, Consent: "off",
	}
}

// reload starts servers of another configuration. Those of the one before go on for a while.
func (w *world) reload(cfg authz.Config) {
	w.cfg = cfg
	p := pair{cfg: cfg, cached: w.start(cfg, w.store), plain: w.start(cfg, plain{w.disk})}
	w.servers = append(w.servers[max(0, len(w.servers)-1):], p)
	w.id.Person.Watch(p.cached)
}

func (w *world) start(cfg authz.Config, store storage.Store) *authz.Server {
	s, err := authz.New(context.WithoutCancel(w.t.Context()), cfg, authz.Deps{
		Store: store, Keys: w.keys, Keyring: w.ring, Auth: w, Subjects: w.id.Subjects(), Passwords: w, Pages: w.pages,
		Log: zap.NewNop(), Now: w.clock.Now,
	})
	w.must(err)
	return s
}

// server is that of the running configuration.
func (w *world) server() *authz.Server { return w.servers[len(w.servers)-1].cached }

func (w *world) close() {
	if err := w.disk.Close(); err != nil {
		w.t.Error(err)
	}
}

func (w *world) must(err error) {
	if err != nil {
		w.t.Helper()
		w.t.Fatal(err)
	}
}

// planted are the signing keys of every world, since making them takes long.
var planted struct {
	once    sync.Once
	records []storage.Record
}

func (w *world) plantKeys() {
	planted.once.Do(func() {
		_, err := keys.New(w.t.Context(), w.disk, w.ring, w.clock.Now, nil, nil)
		w.must(err)
		w.must(w.disk.View(w.t.Context(), func(tx storage.Tx) error {
			planted.records = nil
			for rec, err := range tx.Scan(storage.Range{Prefix: []byte("authz_key/")}) {
				if err != nil {
					return err
				}
				planted.records = append(planted.records, rec)
			}
			return nil
		}))
	})
	w.must(w.disk.Update(w.t.Context(), func(tx storage.Tx) error {
		for _, rec := range planted.records {
			if err := tx.Put(rec.Key, rec.Value, time.Time{}); err != nil {
				return err
			}
		}
		return nil
	}))
}

// Authenticate implements authz.Authenticator.
func (w *world) Authenticate(http.ResponseWriter, *http.Request, authn.Demand) (*authn.Result, error) {
	return w.result, nil
}

// Current implements authz.Authenticator.
func (w *world) Current(*http.Request) (*authn.Result, error) { return w.result, nil }

// SignOut implements authz.Authenticator.
func (*world) SignOut(http.ResponseWriter, *http.Request, string) (string, error) { return "", nil }

// CheckPassword implements grant.Passwords: the username is the id.
func (w *world) CheckPassword(ctx context.Context, _, id, _ string, _ audit.Origin) (s *authn.Session, err error) {
	err = w.disk.View(ctx, func(tx storage.Tx) error {
		p, err := w.id.Person.Get(tx, id)
		s = &authn.Session{
			Result: authn.Result{Subject: id, AuthTime: w.now, Level: 1, AMR: []string{"DEFAULT"}, Provider: "identity"},
			Epoch:  p.Epoch,
		}
		if err == nil && !p.Active {
			return authn.ErrBadCredentials
		}
		return err
	})
	return s, err
}

// CheckPasswordOnly implements grant.Passwords.
func (w *world) CheckPasswordOnly(ctx context.Context, clientID, id, password string, from audit.Origin) (*authn.Session, error) {
	return w.CheckPassword(ctx, clientID, id, password, from)
}

// post sends a form to a server.
func post(s *authz.Server, path, user string, form url.Values) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, issuer+path, strings.NewReader(form.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.SetBasicAuth(user, clientSecret)
	rec := httptest.NewRecorder()
	s.ServeHTTP(rec, r)
	return rec
}

// openSite signs a person in and opens a session at a site; "": the person cannot sign in.
func (w *world) openSite(personID string) (cookie, sessionID string) {
	ctx := w.t.Context()
	id, err := secret.ID(randomReader, 16)
	w.must(err)
	err = w.disk.Update(ctx, func(tx storage.Tx) error {
		p, err := person.Records.Get(tx, personID)
		if err == nil && p.State != person.Active {
			return errInactive
		}
		if err != nil {
			return err
		}
		sessionID, _, err = w.id.Session.Begin(tx, id, "cookie of "+id, "", session.Record{
			PersonID: personID, Epoch: p.Epoch, AuthTime: w.now, Opened: w.now, Seen: w.now, Level: 1,
			AMR: []string{"DEFAULT"}, Provider: "identity",
		})
		return err
	})
	if errors.Is(err, errInactive) {
		return "", ""
	}
	w.must(err)
	w.result = &authn.Result{
		Subject: personID, SessionID: sessionID, AuthTime: w.now, Level: 1,
		AMR: []string{"DEFAULT"}, Provider: "identity",
	}
	at, err := w.server().BeginSite(ctx, authz.SiteDemand{Origin: wiki, Return: wiki + "/"}, "binding")
	w.must(err)
	rec := httptest.NewRecorder()
	w.server().ServeHTTP(rec, httptest.NewRequest(http.MethodGet, at, http.NoBody))
	back, err := url.Parse(rec.Header().Get("Location"))
	w.must(err)
	got, err := w.server().FinishSite(ctx, wiki, back.Query().Get(authz.SiteCodeParam), "binding", audit.Self)
	w.must(err)
	return got.Token, sessionID
}

var errInactive = errors.New("the person cannot sign in")
