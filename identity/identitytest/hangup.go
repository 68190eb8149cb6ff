package identitytest

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fxamacker/cbor/v2"

	"github.com/gatehouse-id/gatehouse/identity/notify/notifytest"
	"github.com/gatehouse-id/gatehouse/internal/clocktest"
	"github.com/gatehouse-id/gatehouse/storage"
	"github.com/gatehouse-id/gatehouse/storage/badgerstore"
	"github.com/gatehouse-id/gatehouse/storage/storagetest"
)

// The tests of identity send forms to every handler. When a test is over, hangUp sends its forms again, to a copy
// of the service on a copy of the store, from a browser that hangs up: the context ends after the first Update of the
// request, after the second, and so on. Then it checks what the request has left behind:
//
//   - An attempt is counted only if the whole request would have counted it.
//   - The same form, sent again, meets nothing that is stuck: no failure of the server, and no lock that the whole
//     request would not have set.
//
// It tries this many forms of each combination of path, answer and number of Updates, in each package. Benchmarks are
// left out.
const hangUpsOfEach = 2

var hangUps struct {
	mu    sync.Mutex // guards the fields below
	tried map[string]int
	paths map[string]bool // those with at least one Update
}

// posted is a form that a test has sent.
type posted struct {
	request *http.Request
	body    string
	records map[string]string // those before the form
	now     time.Time
}

// willHangUp keeps a form for hangUp until the test ends.
func (h *Harness) willHangUp(r *http.Request, body string) {
	if _, benchmark := h.T.(*testing.B); benchmark || h.shadow || h.Store.Down.Load() || h.Store.ReadOnly.Load() ||
		r.Method != http.MethodPost {
		return
	}
	path := r.URL.Path
	if strings.HasPrefix(path, "/oidc/") || strings.HasPrefix(path, "/saml/") {
		return // the test itself stands in for the provider, and would count twice
	}
	hangUps.mu.Lock()
	defer hangUps.mu.Unlock()
	if hangUps.tried == nil {
		hangUps.tried, hangUps.paths = map[string]int{}, map[string]bool{}
	}
	if hangUps.tried["form "+path]++; hangUps.tried["form "+path] > 8 {
		return
	}
	p := posted{request: r.Clone(context.Background()), body: body, records: h.records(h.Store.Store), now: h.Clock.Now()}
	snapshot := *h
	h.T.Cleanup(func() { snapshot.hangUp(p) })
}

// hangUp sends a form from browsers that hang up, one after each Update of the request.
func (h *Harness) hangUp(p posted) {
	whole := h.send(p, p.records, 0)
	if whole.updates == 0 || whole.panics > 0 {
		return
	}
	path := p.request.URL.Path
	hangUps.mu.Lock()
	kind := path + " " + http.StatusText(whole.status) + string(rune('0'+whole.updates))
	hangUps.tried[kind]++
	enough := hangUps.tried[kind] > hangUpsOfEach
	hangUps.paths[path] = true
	hangUps.mu.Unlock()
	if enough {
		return
	}
	before, after := counters(h.T, p.records), counters(h.T, whole.records)
	second := h.send(p, whole.records, 0)
	for n := int64(1); n <= whole.updates; n++ {
		left := h.send(p, p.records, n)
		if left.panics > 0 {
			h.T.Errorf("POST %s, left after Update %d of %d: panic", path, n, whole.updates)
		}
		for key, count := range counters(h.T, left.records) {
			if most := max(before[key], after[key]); count > most {
				h.T.Errorf("POST %s, left after Update %d of %d: %q is %d; it was %d, and a browser that stays makes it %d",
					path, n, whole.updates, key, count, before[key], after[key])
			}
		}
		again := h.send(p, left.records, 0)
		throttled := again.status == http.StatusTooManyRequests && whole.status != again.status && second.status != again.status
		if again.status >= 500 || again.panics > 0 || throttled {
			h.T.Errorf("POST %s, left after Update %d of %d and sent again: status %d, want that of a browser that stays: %d",
				path, n, whole.updates, again.status, whole.status)
		}
	}
}

// left is the state that a request leaves behind.
type left struct {
	status  int
	updates int64
	panics  int64
	records map[string]string
}

// send sends a form to a service on these records, from a browser that hangs up after n Updates. If n is 0, it stays.
func (h *Harness) send(p posted, records map[string]string, n int64) left {
	c := clocktest.New(p.now)
	inner, err := badgerstore.OpenMemory(func(o *badgerstore.Options) { o.Now = c.Now })
	if err != nil {
		h.T.Fatal(err)
	}
	defer inner.Close() //nolint:errcheck // in memory
	if err := inner.Update(context.Background(), func(tx storage.Tx) error {
		for key, value := range records {
			if err := tx.Put([]byte(key), []byte(value), time.Time{}); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		h.T.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	s := *h
	s.shadow, s.Clock = true, c
	s.Store = &FaultyStore{Store: inner}
	if s.Notices != nil {
		s.Notices = &notifytest.Notices{}
	}
	if s.Texts != nil {
		s.Texts = &notifytest.Texts{}
	}
	if s.Prompts != nil {
		s.Prompts = &notifytest.Prompts{}
	}
	s.Start()
	store := &storagetest.Interrupter{Store: inner, After: n, HangUp: cancel}
	s.Store.Store = store
	r := p.request.Clone(ctx)
	r.Body = io.NopCloser(strings.NewReader(p.body))
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return left{w.Code, store.Updates(), s.Panics(), s.records(inner)}
}

// lenient decodes records. Their strings can hold any bytes.
var lenient, _ = cbor.DecOptions{UTF8: cbor.UTF8DecodeInvalid}.DecMode()

// counters returns the counters of attempts in these records, by key and member.
func counters(t testing.TB, records map[string]string) map[string]uint64 {
	t.Helper()
	out := map[string]uint64{}
	for key, value := range records {
		table, _, _ := strings.Cut(key, "/")
		for name, path := range countingMembers[table] {
			var v any
			if err := lenient.Unmarshal([]byte(value), &v); err != nil {
				t.Fatal(err)
			}
			for _, member := range path {
				m, _ := v.(map[any]any)
				v = m[member]
			}
			if n, ok := v.(uint64); ok {
				out[key+" "+name] = n
			}
		}
	}
	return out
}

// countingMembers are the members of records that count attempts, by table.
var countingMembers = map[string]map[string][]uint64{
	"identity_failure":          {"failures": {1}},
	"identity_step_up":          {"PIN": {4, 2}},
	"identity_sent_code":        {"tries": {3}},
	"identity_delivered_code":   {"tries": {3}},
	"identity_invitation":       {"tries": {5}},
	"identity_step_up_new_push": {"tries": {6}},
}
