package authztest

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"io"
	"iter"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/authz"
	"github.com/gatehouse-id/gatehouse/authz/client"
	"github.com/gatehouse-id/gatehouse/internal/audit/eventtest"
	"github.com/gatehouse-id/gatehouse/storage"
)

// Evil is an origin that no client has registered.
const Evil = "https://evil.example"

// WantPage fails the test unless res is an error page without a link or redirect.
func WantPage(t *testing.T, what string, res *Response, status int) {
	t.Helper()
	if res.Status != status || res.Location() != "" || !strings.HasPrefix(res.Header.Get("Content-Type"), "text/html") {
		t.Errorf("Authorize(%s) = %d %q, want a page %d without Location", what, res.Status, res.Location(), status)
	}
}

// WantRedirectError fails the test unless res takes an error to the client, with the state and the issuer.
func WantRedirectError(t *testing.T, h *Harness, what string, res *Response, code string) {
	t.Helper()
	target, params := res.Redirect()
	if res.Status != http.StatusFound && res.Status != http.StatusSeeOther {
		t.Errorf("Authorize(%s) status = %d, want a redirect with %s", what, res.Status, code)
		return
	}
	if !strings.Contains(target, ".example") && !strings.HasPrefix(target, "http://127.0.0.1") {
		t.Errorf("Authorize(%s) leads to %s", what, target)
	}
	if params.Get("error") != code || params.Get("iss") != h.Issuer || params.Has("code") {
		t.Errorf("Authorize(%s) = %s, want error %s and iss %s", what, res.Location(), code, h.Issuer)
	}
	for _, c := range params.Get("error_description") {
		if c < ' ' || c > '~' || c == '"' || c == '\\' {
			t.Errorf("Authorize(%s) error_description = %q, want printable ASCII", what, params.Get("error_description"))
		}
	}
}

// FAPIPrefix begins the names of the conformance modules of FAPI 2.0.
const FAPIPrefix = "fapi2-security-profile-final-"

// AskedForConsent reports whether the consent page was seen since the last call.
func AskedForConsent(b *Browser) bool {
	for _, page := range b.Pages {
		if strings.Contains(page.Body, `value="allow"`) {
			b.Pages = nil
			return true
		}
	}
	return false
}

// ValidateBearer is the grant type that validates an access token.
const ValidateBearer = "urn:service:oauth2:grant_type:validate_bearer" //nolint:gosec // a name, no credentials

// ErrFull is the failure of a store on a full disk.
var ErrFull = storage.ErrFull

// Attack runs an attack against a server of its own, and checks the invariants afterwards.
func Attack(t *testing.T, name string, f func(t *testing.T, h *Harness), opts ...Option) {
	t.Helper()
	t.Run(name, func(t *testing.T) {
		t.Parallel()
		h := New(t, opts...)
		f(t, h)
		h.Invariants(t)
	})
}

// WantError asserts the OAuth error of an answer. (RFC 6749 5.2; token server document, "OAuth error response")
func WantError(t *testing.T, what string, res *Response, status int, code string) {
	t.Helper()
	if res.Status != status || res.Text("error") != code {
		t.Errorf("%s = %d %s, want %d %s", what, res.Status, res.Body, status, code)
	}
	WantAPIHeaders(t, what, res)
	for _, member := range []string{"error", "error_description"} {
		for _, c := range res.Text(member) {
			if c < ' ' || c > '~' || c == '"' || c == '\\' {
				t.Errorf("%s: %s has %q", what, member, c)
			}
		}
	}
}

// WantAPIHeaders asserts the headers of every answer of an API.
func WantAPIHeaders(t *testing.T, what string, res *Response) {
	t.Helper()
	for name, want := range map[string]string{
		"Content-Type": "application/json;charset=UTF-8", "Cache-Control": "no-store", "Pragma": "no-cache", "X-Content-Type-Options": "nosniff",
	} {
		if got := res.Header.Get(name); got != want {
			t.Errorf("%s: %s = %q, want %q", what, name, got, want)
		}
	}
}

// WantStatus asserts the status of an answer.
func WantStatus(t *testing.T, what string, res *Response, status int) {
	t.Helper()
	if res.Status != status {
		t.Errorf("%s = %d %s, want %d", what, res.Status, res.Body, status)
	}
}

// WantActive asserts whether a token is active.
func WantActive(t *testing.T, h *Harness, what, token string, want bool) {
	t.Helper()
	if got := h.Active(token); got != want {
		t.Errorf("%s: active = %t, want %t", what, got, want)
	}
}

// EventsOf returns the types of the events of a person, newest first; those without a person for "".
func EventsOf(t *testing.T, h *Harness, person string) []string {
	t.Helper()
	var out []string
	err := h.Store.View(t.Context(), func(tx storage.Tx) error {
		out = nil
		for e, err := range eventtest.All(tx) {
			if err != nil {
				return err
			}
			if e.PersonID == person {
				out = append(out, e.Type)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// WantEvent asserts how many events of a kind a person has.
func WantEvent(t *testing.T, h *Harness, person, kind string, count int) {
	t.Helper()
	got := 0
	for _, k := range EventsOf(t, h, person) {
		if k == kind {
			got++
		}
	}
	if got != count {
		t.Errorf("%d events %s of %q, want %d: %v", got, kind, person, count, EventsOf(t, h, person))
	}
}

// Together runs f n times at once, behind a barrier, and returns the answers.
func Together(n int, f func(i int) *Response) []*Response {
	out := make([]*Response, n)
	start := make(chan struct{})
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			<-start
			out[i] = f(i)
		})
	}
	close(start)
	wg.Wait()
	return out
}

// CountStatus counts the answers with a status.
func CountStatus(all []*Response, status int) (n int) {
	for _, res := range all {
		if res.Status == status {
			n++
		}
	}
	return n
}

// FormType is the media type of forms.
const FormType = "application/x-www-form-urlencoded"

// PostRaw posts a body as it is to the token endpoint as the client reports.
func PostRaw(h *Harness, target, body string, headers ...string) *Response {
	if !slices.Contains(headers, "Content-Type") {
		headers = append(headers, "Content-Type", FormType)
	}
	return h.Do(http.MethodPost, target, body, append(headers, Basic("reports", Secret("reports"))...)...)
}

// OwnToken gets a client-credentials token of the client reports.
func OwnToken(h *Harness, changes ...string) *Response {
	f := url.Values{"grant_type": {"client_credentials"}}
	for i := 0; i+1 < len(changes); i += 2 {
		f.Set(changes[i], changes[i+1])
	}
	return h.Token("reports", f)
}

// CountingStore counts transactions and the records read in them. Of a closure that an engine runs several times, the
// last run counts.
type CountingStore struct {
	storage.Store

	views, updates, reads, Scans atomic.Int64
}

// View counts the transaction.
func (s *CountingStore) View(ctx context.Context, fn func(storage.Tx) error) error {
	s.views.Add(1)
	reads, scans := int64(0), int64(0)
	defer func() { s.reads.Add(reads); s.Scans.Add(scans) }()
	return s.Store.View(ctx, func(tx storage.Tx) error { reads, scans = 0, 0; return fn(countingTx{tx, &reads, &scans}) })
}

// Update counts the transaction.
func (s *CountingStore) Update(ctx context.Context, fn func(storage.Tx) error) error {
	s.updates.Add(1)
	reads, scans := int64(0), int64(0)
	defer func() { s.reads.Add(reads); s.Scans.Add(scans) }()
	return s.Store.Update(ctx, func(tx storage.Tx) error { reads, scans = 0, 0; return fn(countingTx{tx, &reads, &scans}) })
}

// Work runs f and returns its cost: views, updates, records read.
func (s *CountingStore) Work(f func()) [3]int64 {
	before := [3]int64{s.views.Load(), s.updates.Load(), s.reads.Load()}
	f()
	return [3]int64{s.views.Load() - before[0], s.updates.Load() - before[1], s.reads.Load() - before[2]}
}

type countingTx struct {
	storage.Tx

	reads, scans *int64
}

func (t countingTx) Get(key []byte) ([]byte, error) {
	*t.reads++
	return t.Tx.Get(key)
}

func (t countingTx) GetMany(keys ...[]byte) ([][]byte, error) {
	*t.reads += int64(len(keys))
	return t.Tx.GetMany(keys...)
}

func (t countingTx) Scan(r storage.Range) iter.Seq2[storage.Record, error] {
	*t.scans++
	return t.Tx.Scan(r)
}

// ScopesOf returns the scope member of an answer in order.
func ScopesOf(res *Response) string {
	s := strings.Fields(res.Text("scope"))
	slices.Sort(s)
	return strings.Join(s, " ")
}

// NarrowAudience lets reports ask for tokens that the API client narrow can read.
func NarrowAudience(c *authz.Config) {
	ChangeClient(c, "reports", func(c *client.Client) { c.Audiences = []string{"https://narrow.example.com"} })
}

// ClientCredentials returns the form of a client that asks for a token of its own.
func ClientCredentials(scope string) url.Values {
	return url.Values{"grant_type": {"client_credentials"}, "scope": {scope}}
}

// IntrospectPath is the path of the introspection API.
const IntrospectPath = "/oauth/api/v2/token/introspect"

// IntrospectAs introspects as an API client.
func IntrospectAs(h *Harness, id string, f url.Values) *Response {
	return h.Post(IntrospectPath, f, Basic(id, Secret(id))...)
}

// Randomness is random.
var Randomness io.Reader = rand.Reader

// RefreshWith redeems a refresh token as a client.
func RefreshWith(h *Harness, client, token string, changes ...string) *Response {
	f := url.Values{"grant_type": {"refresh_token"}, "refresh_token": {token}}
	for i := 0; i+1 < len(changes); i += 2 {
		f.Add(changes[i], changes[i+1])
	}
	return h.Token(client, f)
}

// ChangeClient changes a client of a configuration.
func ChangeClient(c *authz.Config, id string, change func(*client.Client)) {
	for i, old := range c.Clients {
		if old.ID == id {
			next := *old
			if old.Exchange != nil { // which tests that run at the same time share
				exchange := *old.Exchange
				next.Exchange = &exchange
			}
			change(&next)
			c.Clients[i] = &next
		}
	}
}

// AnswerOf reads an authorization response and how it came.
func AnswerOf(t *testing.T, res *Response) (mode string, answer url.Values) {
	t.Helper()
	if res.Status == http.StatusOK {
		action, fields := Form(res.Body)
		if !strings.Contains(action, "/callback") {
			t.Fatalf("a page without an answer: %s", res.Body)
		}
		return "form_post", fields
	}
	u, err := url.Parse(res.Location())
	if err != nil {
		t.Fatal(err)
	}
	mode, raw := "query", u.RawQuery
	if u.Fragment != "" {
		if u.RawQuery != "" {
			t.Errorf("answer %q stands in query and fragment", res.Location())
		}
		mode, raw = "fragment", u.EscapedFragment()
	}
	answer, err = url.ParseQuery(raw)
	if err != nil {
		t.Fatal(err)
	}
	return mode, answer
}

// LimitUses gives scopes usage limits: two.read can be used twice, ten.read ten times.
func LimitUses(c *authz.Config) {
	c.Scopes = append(c.Scopes, client.Scope{Name: "two.read", UsageLimit: 2}, client.Scope{Name: "ten.read", UsageLimit: 10})
	for _, client := range c.Clients {
		if client.ID == "shop" || client.ID == "reports" {
			client.Scopes = append(client.Scopes, "two.read", "ten.read")
		}
	}
}

// UsersPath begins the paths of the API about what people have granted.
const UsersPath = "/oauth/api/v1/users/"

// AsRegistrar calls the API as the API client registrar, which is allowed the API persons.
func AsRegistrar(h *Harness, method, path string) *Response {
	return h.Do(method, UsersPath+path, "", Basic("registrar", Secret("registrar"))...)
}

// HeldItem is an item of a list of the API about what people have granted.
type HeldItem struct {
	ID, Scope string
	ClientID  string    `json:"client_id"`
	CreatedAt time.Time `json:"created_at"`
	ExpiresAt time.Time `json:"expires_at"`
}

// HeldItems returns the items of a list of that API.
func HeldItems(t *testing.T, h *Harness, path string) []HeldItem {
	t.Helper()
	res := AsRegistrar(h, http.MethodGet, path)
	WantStatus(t, "GET "+path, res, 200)
	WantAPIHeaders(t, "GET "+path, res)
	var list struct{ Items []HeldItem }
	if err := json.Unmarshal([]byte(res.Body), &list); err != nil || list.Items == nil {
		t.Fatalf("GET %s = %s: %v", path, res.Body, err)
	}
	return list.Items
}
