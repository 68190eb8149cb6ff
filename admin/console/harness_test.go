package console

import (
	"bytes"
	"context"
	"crypto/rand"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/admin"
	"github.com/gatehouse-id/gatehouse/admin/alert"
	"github.com/gatehouse-id/gatehouse/admin/backup"
	"github.com/gatehouse-id/gatehouse/admin/console/layout"
	"github.com/gatehouse-id/gatehouse/admin/console/sites"
	"github.com/gatehouse-id/gatehouse/admin/diagnostic"
	"github.com/gatehouse-id/gatehouse/authz"
	"github.com/gatehouse-id/gatehouse/authz/client"
	"github.com/gatehouse-id/gatehouse/authz/clientstore"
	"github.com/gatehouse-id/gatehouse/authz/keys"
	"github.com/gatehouse-id/gatehouse/authz/keys/keystest"
	"github.com/gatehouse-id/gatehouse/identity"
	"github.com/gatehouse-id/gatehouse/identity/access"
	"github.com/gatehouse-id/gatehouse/identity/notify"
	"github.com/gatehouse-id/gatehouse/identity/notify/notifytest"
	"github.com/gatehouse-id/gatehouse/identity/passkey"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/personindex"
	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/calllog"
	"github.com/gatehouse-id/gatehouse/internal/clocktest"
	"github.com/gatehouse-id/gatehouse/internal/denial"
	"github.com/gatehouse-id/gatehouse/internal/limit"
	"github.com/gatehouse-id/gatehouse/internal/logo"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/internal/stats"
	"github.com/gatehouse-id/gatehouse/internal/web"
	"github.com/gatehouse-id/gatehouse/storage"
	"github.com/gatehouse-id/gatehouse/storage/badgerstore"
	"github.com/gatehouse-id/gatehouse/storage/storagetest"
)

const (
	issuer   = "https://auth.example.com"
	password = "correct horse 1"
)

// harness is an issuer with a console and a person of each role: viewer@, helpdesk@, operator@, owner@ and
// nobody@example.com, and a second one of each, two.viewer@ and so on.
type harness struct {
	t       *testing.T
	clock   *clocktest.Clock
	store   storage.Store
	id      *identity.Service
	az      *authz.Server
	console *Console
	strict  *Console // the same at level 2
	notices *notifytest.Notices
	access  *access.Service
	refused *denial.Recorder
	sites   []sites.Site
	doctor  doctor

	declared map[string]settings.FixedPolicy
	ref      string // of a refusal by the wiki
	on       bool
	machine  Machine
	more     func(*settings.Units) // changes the settings. nil: nothing

	meanwhile *meanwhile // store
	backups   *backup.Service

	recorder  *audit.Recorder
	counts    *stats.Buffer
	limits    *limit.Counters
	calls     *calllog.Log
	settings  *settings.Service
	keys      *keys.Keys
	providers *fakeProviders
	jobID     string
	ticks     chan time.Time // end the pauses of streams
	pauses    chan struct{}  // has one for each that has begun
	keyring   *secret.Keyring
	alerts    *alert.Service
	alertsOf  map[string]string // ids by usernames
	server    mailServer
	mail      *notify.Mail // its queue is what the console shows
	out       *wayOut
	pages     *web.Renderer
}

func newHarness(t *testing.T) *harness {
	t.Helper()
	return newHarnessOver(t, func(s storage.Store) storage.Store { return storagetest.Closures(t, s) })
}

// newHarnessOver is newHarness with a store over that in memory, or in place of it.
func newHarnessOver(t *testing.T, over func(storage.Store) storage.Store) *harness {
	t.Helper()
	h := &harness{
		t: t, clock: clocktest.New(time.Date(2035, 11, 21, 12, 0, 0, 0, time.UTC)), notices: &notifytest.Notices{}, on: true,
		providers: &fakeProviders{}, ticks: make(chan time.Time), pauses: make(chan struct{}, 1000),
	}
	raw, err := badgerstore.OpenMemory(func(o *badgerstore.Options) { o.Now = h.clock.Now })
	h.must(err)
	kept := over(raw)
	t.Cleanup(func() { h.must(kept.Close()) })
	h.meanwhile = &meanwhile{Store: kept}
	h.store = h.meanwhile
	h.notices.In(kept)
	keyring, err := secret.NewKeyring(make([]byte, secret.KeySize))
	h.must(err)
	pages, err := web.New(web.Config{Issuer: issuer, Locales: []string{"en", "nl", "de", "fr"}, Key: make([]byte, 32), Random: rand.Reader})
	h.must(err)
	hasher := secret.NewHasher(secret.HashCost{MemoryKiB: 8, Iterations: 1, Concurrency: 100})
	events := &audit.Recorder{Random: rand.Reader, Now: h.clock.Now, PartitionOf: person.PartitionOfID}
	events.Note = personindex.Note
	events.Also = func(tx storage.Tx, _ audit.Ref, e audit.Event) error { return stats.Event(tx, e, e.Partition) }
	h.recorder, h.counts = events, stats.NewBuffer(h.store, h.clock.Now, rand.Reader, zap.NewNop())
	stored := settings.Config{
		Fixed:    []settings.LoginMethod{{ID: "declared", Name: "Declared", Type: settings.TypeSAML, Enabled: true}},
		Verify:   func(settings.LoginMethod) error { return nil },
		Switches: map[string]bool{"features.accepting_invitation_enabled": true},
	}
	policies(&stored)
	h.declared = stored.Policies
	h.settings, err = settings.New(t.Context(), stored, settings.Deps{Store: h.store, Keyring: keyring, Events: events, Now: h.clock.Now})
	h.must(err)
	pages.SetOverrides(h.settings.Overrides)
	units := func(tx storage.Tx) (*settings.Units, error) {
		u, err := h.settings.Units(tx)
		if err != nil {
			return nil, err
		}
		now := *u
		now.Features.AdminConsoleEnabled = h.on
		if h.more != nil {
			h.more(&now)
		}
		return &now, nil
	}
	cfg := identity.Config{Issuer: issuer, Locales: []string{"en", "nl", "de", "fr"}, Passkeys: passkey.Config{Off: true}}
	for _, name := range []string{"nobody", "viewer", "helpdesk", "operator", "owner"} {
		for _, prefix := range []string{"", "two."} {
			p := person.NewPerson{
				Username: prefix + name + "@example.com", Password: secret.New(password),
				Name: strings.ToUpper(name[:1]) + name[1:] + " Example", Groups: []string{"staff"},
			}
			if name != "nobody" {
				p.Groups = append(p.Groups, "gatehouse-"+name)
			}
			cfg.Persons = append(cfg.Persons, p)
		}
	}
	h.id, err = identity.New(context.WithoutCancel(t.Context()), cfg, identity.Deps{
		Store: h.store, Hasher: hasher, Pages: pages, Log: zap.NewNop(), Now: h.clock.Now, Random: rand.Reader, Events: events, Keyring: keyring,
		Units: units, Notify: h.notices,
	})
	h.must(err)
	h.must(keystest.Plant(kept, keyring, h.clock.Now))
	signing, err := keys.New(t.Context(), h.store, keyring, h.clock.Now, nil, zap.NewNop())
	h.must(err)
	h.keys = signing
	h.az, err = authz.New(t.Context(), authz.Config{Issuer: issuer, Clients: []*client.Client{{
		ID: "shop", Name: "The shop", Secrets: []secret.String{secret.New(strings.Repeat("s3cret-", 6))},
		RedirectURIs: []string{"https://shop.example.com/cb"}, Grants: []string{"authorization_code"}, Scopes: []string{"openid"},
	}}, APIClients: []*client.APIClient{{
		ID: "billing", Secrets: []secret.String{secret.New(strings.Repeat("planted", 6))},
		APIs: []string{"events", "introspection"},
	}}, Providers: []clientstore.Provider{{ID: "declared"}}}, authz.Deps{
		Store: h.store, Keys: signing, Keyring: keyring, Hasher: hasher, Events: events, Auth: h.id, Subjects: h.id.Subjects(), Passwords: h.id,
		Pages: pages, Log: zap.NewNop(), Now: h.clock.Now,
		Called: h.counts.Called, ClientCalled: h.counts.ClientCalled, Origin: audit.PeerOrigin,
	})
	h.must(err)
	h.pages = pages
	pages.SetLogos(logo.Shown{
		Store: h.store, Declares: h.az.Clients().Declares,
		Providers: func(ctx context.Context) (map[string]*web.Logo, error) { return h.settings.PageLogos(ctx) },
	})
	h.id.Person.Watch(h.az)
	h.id.Account.Tie(h.az)
	h.limits = limit.NewCounters(h.store, h.clock.Now, zap.NewNop())
	h.calls = calllog.New(h.store, h.clock.Now, zap.NewNop())
	h.calls.Recorder = func() *audit.Recorder { return events }
	deps := Deps{
		Identity: h.id, Manage: &admin.Service{
			Identity: h.id, Authz: h.az, Store: h.store, Recorder: events, Keyring: keyring, Limits: h.limits,
		},
		Clients: h.az.Clients(), Store: h.store, Units: units, Pages: pages, Mails: true, Now: h.clock.Now, Log: zap.NewNop(),
		After: func(time.Duration) <-chan time.Time {
			h.pauses <- struct{}{}
			return h.ticks
		},
		PlaceOf: func(option string) string {
			if option == "client shop" {
				return "Caddyfile:12"
			}
			return ""
		},
		SourceOf:  func(c *client.Client) string { return "client " + c.ID + " {\n\tname " + c.Name + "\n}\n" },
		GroupUses: func(context.Context, string) ([]string, error) { return []string{"Caddyfile:30"}, nil },
		Machine:   func(context.Context) (Machine, error) { return h.machine, nil },
		Findings: func(context.Context) ([]diagnostic.Finding, error) {
			return []diagnostic.Finding{{Severity: diagnostic.Warning, Place: "Caddyfile:3", Reason: "something is odd", Fix: "fix it"}}, nil
		},
	}
	h.keyring = keyring
	h.openQueues(deps.Manage, pages)
	h.alerts = alert.New(h.alertDeps())
	deps.Alerts = h.alerts
	deps.Gateway, deps.Setup, deps.Upkeep, deps.Settings = h.gateway(deps.Manage), h.setup(), h.upkeep(raw), h.settingsDeps(deps.Manage)
	deps.Messages = h.messagesDeps(deps.Settings)
	deps.Messages.Manage = deps.Manage
	h.strict = New(layout.Config{Level: 2}, deps)
	h.console = New(layout.Config{Level: 1, SeeAs: layout.Operator}, deps)
	h.alerts.Allow = h.console.MayAlert
	return h
}

func (h *harness) must(err error) {
	h.t.Helper()
	if err != nil {
		h.t.Fatal(err)
	}
}

// count counts what has happened, as a worker does each second.
func (h *harness) count() {
	h.t.Helper()
	h.must(stats.New(h.store, h.clock.Now, zap.NewNop()).Count(h.t.Context()))
}

// listPersons brings the lists of persons up to date, as a worker does.
func (h *harness) listPersons() {
	h.t.Helper()
	h.must(personindex.New(h.store, h.clock.Now, zap.NewNop()).Keep(h.t.Context()))
}

// personID returns the id of a person.
func (h *harness) personID(username string) string {
	h.t.Helper()
	p, err := h.id.Person.Person(h.t.Context(), username)
	h.must(err)
	return p.ID
}

// link links a person to an account at a provider.
func (h *harness) link(provider, id string) {
	h.t.Helper()
	h.must(h.store.Update(h.t.Context(), func(tx storage.Tx) error {
		key := storage.Key(provider, id)
		rec := person.IdentityRecord{PersonID: id, Issuer: "https://" + provider + ".example.com", Subject: id, Since: h.clock.Now()}
		if err := person.Identities.Put(tx, key, rec, time.Time{}); err != nil {
			return err
		}
		return person.IdentitiesOf.Put(tx, storage.Key(id, provider, key), struct{}{}, time.Time{})
	}))
}

// job begins work of the helpdesk on no one, and returns its id.
func (h *harness) job() string {
	h.t.Helper()
	if h.jobID != "" {
		return h.jobID
	}
	n := admin.NewJob{
		Kind: admin.JobEnd,
		By:   admin.Requester{ID: h.personID("helpdesk@example.com"), Name: "helpdesk@example.com", Role: int(layout.Helpdesk)},
	}
	n.Filter.Text = "zzz"
	id, err := h.console.Manage.StartJob(h.t.Context(), n, audit.Actor{ID: "test"})
	h.must(err)
	h.jobID = id
	return id
}

// groupID returns the id of a group.
func (h *harness) groupID(name string) (id string) {
	h.t.Helper()
	h.must(h.store.View(h.t.Context(), func(tx storage.Tx) (err error) {
		id, err = h.id.Person.GroupID(tx, audit.DefaultPartition, name)
		return err
	}))
	return id
}

// browser keeps cookies and sends the headers that a browser sends.
type browser struct {
	h       *harness
	console *Console
	cookies map[string]string
	site    string // Sec-Fetch-Site of its forms
}

func (h *harness) browser() *browser {
	return &browser{h: h, console: h.console, cookies: map[string]string{}, site: "same-origin"}
}

// as is a browser in which a person is signed in.
func (h *harness) as(username string) *browser {
	h.t.Helper()
	b := h.browser()
	b.signIn("/account", username)
	return b
}

// signIn signs a person in on the way to a page.
func (b *browser) signIn(to, username string) *answer {
	b.h.t.Helper()
	a := b.submit(b.get(to), "username", username, "password", password)
	if a.Code != http.StatusSeeOther {
		b.h.t.Fatalf("sign-in of %s: status %d\n%s", username, a.Code, a.Body)
	}
	return b.get(a.Header().Get("Location"))
}

type answer struct {
	*httptest.ResponseRecorder
	url string
}

func (b *browser) do(method, target, body string) *answer {
	r := httptest.NewRequest(method, issuer+target, strings.NewReader(body))
	r.RemoteAddr = "203.0.113.7:4711"
	r.Header.Set("User-Agent", "Mozilla/5.0 (X11; Linux x86_64) Firefox/140.0")
	for name, value := range b.cookies {
		r.AddCookie(&http.Cookie{Name: name, Value: value})
	}
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Sec-Fetch-Site", b.site)
	}
	w := httptest.NewRecorder()
	if r.URL.Path == layout.Root || strings.HasPrefix(r.URL.Path, layout.Root+"/") {
		b.console.ServeHTTP(w, r)
	} else if strings.HasPrefix(r.URL.Path, "/oauth/") {
		b.h.az.ServeHTTP(w, r)
	} else {
		b.h.id.ServeHTTP(w, r)
	}
	for _, c := range w.Result().Cookies() {
		if c.MaxAge < 0 {
			delete(b.cookies, c.Name)
		} else {
			b.cookies[c.Name] = c.Value
		}
	}
	if w.Body != nil { // what a long name breaks at is not part of it
		w.Body = bytes.NewBuffer(bytes.ReplaceAll(w.Body.Bytes(), []byte("<wbr>"), nil))
	}
	return &answer{w, target}
}

// get opens a page and follows redirects.
func (b *browser) get(target string) *answer {
	b.h.t.Helper()
	for range 10 {
		a := b.do(http.MethodGet, target, "")
		if target = a.Header().Get("Location"); target == "" {
			return a
		}
	}
	b.h.t.Fatalf("GET %s leads in circles", target)
	return nil
}

var (
	csrfField  = regexp.MustCompile(`<input type="hidden" name="csrf" value="([^"]*)">`)
	formAction = regexp.MustCompile(`<form method="post" action="([^"]*)"`)
	hidden     = regexp.MustCompile(`<input type="hidden" name="([^"]*)" value="([^"]*)">`)
)

// form is the main part of a page.
func (a *answer) form() string {
	_, form, _ := strings.Cut(a.Body.String(), "<main")
	return form
}

func (a *answer) csrf() string {
	if m := csrfField.FindStringSubmatch(a.form()); m != nil {
		return m[1]
	}
	return ""
}

// submit sends the first form of a page with these fields. It does not follow the redirect.
func (b *browser) submit(page *answer, fields ...string) *answer {
	b.h.t.Helper()
	at := formAction.FindStringIndex(page.form())
	if at == nil {
		b.h.t.Fatalf("GET %s: status %d, no form:\n%s", page.url, page.Code, page.Body)
	}
	form, _, _ := strings.Cut(page.form()[at[0]:], "</form>")
	action, v := formAction.FindStringSubmatch(form), url.Values{}
	for _, m := range hidden.FindAllStringSubmatch(form, -1) {
		v.Set(m[1], strings.ReplaceAll(m[2], "&#43;", "+"))
	}
	for i := 0; i+1 < len(fields); i += 2 {
		v.Set(fields[i], fields[i+1])
	}
	return b.do(http.MethodPost, strings.ReplaceAll(action[1], "&amp;", "&"), v.Encode())
}

// acts opens the page of an act, sends its form and follows the redirect.
func (b *browser) acts(target string, fields ...string) *answer {
	b.h.t.Helper()
	a := b.submit(b.get(target), fields...)
	if to := a.Header().Get("Location"); to != "" {
		return b.get(to)
	}
	return a
}
