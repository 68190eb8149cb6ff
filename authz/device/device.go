// Package device implements the device authorization grant (RFC 8628): a device without a browser shows a short code, a
// person enters it elsewhere and decides, and the device gets tokens. (docs/decisions/token-endpoint.md#device-grant)
package device

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/gatehouse-id/gatehouse/authz/clientstore"
	"github.com/gatehouse-id/gatehouse/authz/grant"
	"github.com/gatehouse-id/gatehouse/authz/oauth"
	"github.com/gatehouse-id/gatehouse/authz/token"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/authn"
	"github.com/gatehouse-id/gatehouse/internal/cookie"
	"github.com/gatehouse-id/gatehouse/internal/denial"
	"github.com/gatehouse-id/gatehouse/internal/depcache"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/internal/web"
	"github.com/gatehouse-id/gatehouse/storage"
)

// GrantType is the grant_type by which a device asks for its tokens. (RFC 8628 3.4)
const GrantType = "urn:ietf:params:oauth:grant-type:device_code"

// The paths that people see.
const (
	EnterPath = "/device"
	AllowPath = "/device/allow"
)

// ApproveScope lets the access token of a person approve devices. (token server document, "Device authorization")
const ApproveScope = "access:device-authorization:approve"

const (
	lifetime      = 10 * time.Minute // of a request
	kept          = time.Hour        // how long after that a device still learns that it has expired
	visitLifetime = 10 * time.Minute // of the question
	freshness     = 15 * time.Minute // the oldest sign-in that approves

	firstInterval  = 5           // seconds between two polls (RFC 8628 3.2)
	slowDown       = 5           // more of them after a poll that came too early (RFC 8628 3.5)
	longest        = 60          // seconds
	pollTolerance  = time.Second // by which a poll may be early, since networks delay some more than others
	beginWindow    = 10 * time.Minute
	mostBegun      = 20_000 // requests of a client with credentials in the window
	sessionWindow  = time.Minute
	sessionEntries = 5
	networkWindow  = time.Hour
	networkEntries = 50
)

// Authenticator signs people in.
type Authenticator interface {
	// Authenticate returns the browser's sign-in when it satisfies d. Otherwise it redirects the browser to a page that
	// leads back to d.Return and returns authn.ErrResponded, or returns a *authn.Refusal.
	Authenticate(w http.ResponseWriter, r *http.Request, d authn.Demand) (*authn.Result, error)
	// Current returns the browser's sign-in, or nil when the browser is signed out. It shows no page.
	Current(r *http.Request) (*authn.Result, error)
}

// Deps are the dependencies of the grant. All are required.
type Deps struct {
	Store   storage.Store
	Auth    Authenticator
	Clients *clientstore.Registry
	Tokens  *token.Ledger
	Grants  *grant.Grants
	Events  *audit.Recorder
	Pages   *web.Renderer
	// SignedIn checks that the person is active and the session live, and that the client is usable. Otherwise it
	// returns a *authn.Refusal, or an error with a *denial.GroupError.
	SignedIn func(tx storage.Tx, clientID string, result *authn.Result, now time.Time) (token.Standing, error)
	// Needs returns the level that a sign-in of a person needs for a client, where no page can ask for more: that of the
	// second step, asks being second_factor of the client, and of its organisations. A *authn.Refusal: no sign-in does.
	Needs func(tx storage.Tx, client, asks, subject string, now time.Time) (level int, err error)
	// FailPage writes an error as a page. again is a link on our origin for "Start again", or "".
	FailPage func(w http.ResponseWriter, r *http.Request, err error, key, again string)
	// Record notes why someone was refused, for an answer that is written elsewhere.
	Record func(r *http.Request, err error)
	Admit  func(r *http.Request, size int) bool // whether a stranger may store one more request, of size bytes
	Origin func(*http.Request) audit.Origin
	Now    func() time.Time
	Random io.Reader
}

// Service is the grant of one configuration. It is safe for concurrent use.
type Service struct {
	deps   Deps
	issuer string
	jar    cookie.Jar
	polls  polls
	// waits are the answers to devices that no one has allowed yet.
	waits *depcache.Cache[waiting]
}

// waiting is a device that a person has not decided about.
type waiting struct {
	client   string
	interval int // seconds between two polls
}

// waitsKept bounds waits, in bytes: some 20,000 devices.
const waitsKept = 8 << 20

// New returns the grant of an issuer and adds it to those of the token endpoint.
func New(issuer string, deps Deps) *Service {
	s := &Service{deps: deps, issuer: issuer, jar: cookie.For(issuer)}
	s.waits = depcache.New(deps.Store, waitsKept, func(w waiting) int { return len(w.client) })
	deps.Grants.Serve(GrantType, grantName, s.redeem)
	return s
}

func (s *Service) update(ctx context.Context, fn func(storage.Tx) error) error {
	return oauth.StorageError(s.deps.Store.Update(ctx, fn))
}

func (s *Service) view(ctx context.Context, fn func(storage.Tx) error) error {
	return oauth.StorageError(s.deps.Store.View(ctx, fn))
}

func (s *Service) now() time.Time { return s.deps.Now().UTC() }

// count counts one more in a window, or returns how long to wait.
func count(tx storage.Tx, table storage.Table[countRecord], key string, window time.Duration, most int,
	now time.Time,
) (wait time.Duration, err error) {
	rec, found, err := table.Find(tx, key)
	if err != nil {
		return 0, err
	}
	if !found || !rec.Since.Add(window).After(now) || rec.Since.After(now) {
		rec = countRecord{Since: now}
	}
	if rec.Count >= most {
		return rec.Since.Add(window).Sub(now), nil
	}
	rec.Count++
	return 0, table.Put(tx, key, rec, rec.Since.Add(window+token.CollectMargin))
}

// alphabet is that of user codes: no vowels, so no words, and nothing that looks like something else. (RFC 8628 6.1)
const (
	alphabet = "BCDFGHJKLMNPQRSTVWXZ"
	codeSize = 8
)

// readUserCode returns a user code as it is stored, from what a person has typed: in either case, with or without the
// dash. "": it cannot be one.
func readUserCode(typed string) string {
	if len(typed) > 64 {
		return ""
	}
	code := strings.Map(func(c rune) rune {
		switch {
		case strings.ContainsRune(alphabet, c):
			return c
		case c >= 'a' && c <= 'z':
			return c - 'a' + 'A'
		case c == '-', c == ' ', c == '\t', c == '\u2010', c == '\u2011', c == '\u2013', c == '_', c == '.':
			return -1
		}
		return '?'
	}, typed)
	if len(code) != codeSize || strings.Trim(code, alphabet) != "" {
		return ""
	}
	return code
}

// showUserCode writes a user code as people read it.
func showUserCode(code string) string {
	if len(code) != codeSize {
		return code
	}
	return code[:codeSize/2] + "-" + code[codeSize/2:]
}

var (
	errUnknown   = errors.New("no device waits with this code")
	errWrongCode = denial.New(denial.WrongCode, "no device waits with this code")
	errLate      = denial.New(denial.FlowExpired, "the request of the device has expired, was decided, or was entered in another browser")
)

// undecided finds the request of a user code (its hash) that a person can decide about.
func undecided(tx storage.Tx, userCode string, now time.Time) (key string, rec requestRecord, err error) {
	lead, found, err := userCodes.Find(tx, userCode)
	if err != nil {
		return "", rec, err
	}
	if !found {
		return "", rec, errUnknown
	}
	rec, err = open(tx, lead.Request, now)
	return lead.Request, rec, err
}

// open reads a request that a person can decide about, or returns errUnknown.
func open(tx storage.Tx, key string, now time.Time) (requestRecord, error) {
	rec, found, err := requests.Find(tx, key)
	if err == nil && (!found || rec.Decision != pending || !rec.ExpiresAt.After(now)) {
		err = errUnknown
	}
	return rec, err
}

func put(tx storage.Tx, key string, rec *requestRecord) error {
	return requests.Put(tx, key, *rec, rec.ExpiresAt.Add(kept))
}

// polls remembers when devices asked last. It is of this process alone: what a device learns by asking too early is
// stored, not each time that it asks.
type polls struct {
	mu          sync.Mutex // guards all below
	young, aged map[string]time.Time
	turned      time.Time
}

// last notes a poll and returns the one before.
func (p *polls) last(key string, now time.Time) (time.Time, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.young == nil || now.Sub(p.turned) > lifetime || now.Before(p.turned) {
		p.aged, p.young, p.turned = p.young, map[string]time.Time{}, now
	}
	last, found := p.young[key]
	if !found {
		last, found = p.aged[key]
	}
	p.young[key] = now
	return last, found
}

// hashOf is the key of a code.
func hashOf(code string) string { return secret.Hash(code) }
