package authz_test

import (
	"context"
	"iter"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/gatehouse-id/gatehouse/authz"
	"github.com/gatehouse-id/gatehouse/authz/authztest"
	"github.com/gatehouse-id/gatehouse/authz/client"
	"github.com/gatehouse-id/gatehouse/internal/event/eventtest"
	"github.com/gatehouse-id/gatehouse/storage"
)

// attack runs an attack against a server of its own, and checks the invariants afterwards.
func attack(t *testing.T, name string, f func(t *testing.T, h *authztest.Harness), opts ...authztest.Option) {
	t.Helper()
	t.Run(name, func(t *testing.T) {
		t.Parallel()
		h := authztest.New(t, opts...)
		f(t, h)
		h.Invariants(t)
	})
}

// wantError asserts the OAuth error of an answer. (RFC 6749 5.2; token server document, "OAuth error response")
func wantError(t *testing.T, what string, res *authztest.Response, status int, code string) {
	t.Helper()
	if res.Status != status || res.Text("error") != code {
		t.Errorf("%s = %d %s, want %d %s", what, res.Status, res.Body, status, code)
	}
	wantAPIHeaders(t, what, res)
	for _, member := range []string{"error", "error_description"} {
		for _, c := range res.Text(member) {
			if c < ' ' || c > '~' || c == '"' || c == '\\' {
				t.Errorf("%s: %s has %q", what, member, c)
			}
		}
	}
}

func wantAPIHeaders(t *testing.T, what string, res *authztest.Response) {
	t.Helper()
	for name, want := range map[string]string{
		"Content-Type": "application/json;charset=UTF-8", "Cache-Control": "no-store", "Pragma": "no-cache", "X-Content-Type-Options": "nosniff",
	} {
		if got := res.Header.Get(name); got != want {
			t.Errorf("%s: %s = %q, want %q", what, name, got, want)
		}
	}
}

func wantStatus(t *testing.T, what string, res *authztest.Response, status int) {
	t.Helper()
	if res.Status != status {
		t.Errorf("%s = %d %s, want %d", what, res.Status, res.Body, status)
	}
}

func wantActive(t *testing.T, h *authztest.Harness, what, token string, want bool) {
	t.Helper()
	if got := h.Active(token); got != want {
		t.Errorf("%s: active = %t, want %t", what, got, want)
	}
}

// eventsOf returns the types of the events of a person, newest first; those without a person for "".
func eventsOf(t *testing.T, h *authztest.Harness, person string) []string {
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

func wantEvent(t *testing.T, h *authztest.Harness, person, kind string, count int) {
	t.Helper()
	got := 0
	for _, k := range eventsOf(t, h, person) {
		if k == kind {
			got++
		}
	}
	if got != count {
		t.Errorf("%d events %s of %q, want %d: %v", got, kind, person, count, eventsOf(t, h, person))
	}
}

// together runs f n times at once, behind a barrier, and returns the answers.
func together(n int, f func(i int) *authztest.Response) []*authztest.Response {
	out := make([]*authztest.Response, n)
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

func countStatus(all []*authztest.Response, status int) (n int) {
	for _, res := range all {
		if res.Status == status {
			n++
		}
	}
	return n
}

const formType = "application/x-www-form-urlencoded"

// postRaw posts a body as it is to the token endpoint as the client reports.
func postRaw(h *authztest.Harness, target, body string, headers ...string) *authztest.Response {
	if !slices.Contains(headers, "Content-Type") {
		headers = append(headers, "Content-Type", formType)
	}
	return h.Do(http.MethodPost, target, body, append(headers, authztest.Basic("reports", authztest.Secret("reports"))...)...)
}

// own gets a client-credentials token of the client reports.
func own(h *authztest.Harness, changes ...string) *authztest.Response {
	f := url.Values{"grant_type": {"client_credentials"}}
	for i := 0; i+1 < len(changes); i += 2 {
		f.Set(changes[i], changes[i+1])
	}
	return h.Token("reports", f)
}

// countingStore counts transactions and the records read in them. Of a closure that an engine runs several times, the
// last run counts.
type countingStore struct {
	storage.Store

	views, updates, reads, scans atomic.Int64
}

func (s *countingStore) View(ctx context.Context, fn func(storage.Tx) error) error {
	s.views.Add(1)
	reads, scans := int64(0), int64(0)
	defer func() { s.reads.Add(reads); s.scans.Add(scans) }()
	return s.Store.View(ctx, func(tx storage.Tx) error { reads, scans = 0, 0; return fn(countingTx{tx, &reads, &scans}) })
}

func (s *countingStore) Update(ctx context.Context, fn func(storage.Tx) error) error {
	s.updates.Add(1)
	reads, scans := int64(0), int64(0)
	defer func() { s.reads.Add(reads); s.scans.Add(scans) }()
	return s.Store.Update(ctx, func(tx storage.Tx) error { reads, scans = 0, 0; return fn(countingTx{tx, &reads, &scans}) })
}

// work runs f and returns its cost: views, updates, records read.
func (s *countingStore) work(f func()) [3]int64 {
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

// scopesOf returns the scope member of an answer in order.
func scopesOf(res *authztest.Response) string {
	s := strings.Fields(res.Text("scope"))
	slices.Sort(s)
	return strings.Join(s, " ")
}

// narrowAudience lets reports ask for tokens that the API client narrow can read.
func narrowAudience(c *authz.Config) {
	changeClient(c, "reports", func(c *client.Client) { c.Audiences = []string{"https://narrow.example.com"} })
}

func clientCredentials(scope string) url.Values {
	return url.Values{"grant_type": {"client_credentials"}, "scope": {scope}}
}
