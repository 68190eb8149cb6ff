package denial

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/gatehouse-id/gatehouse/storage"
	"github.com/gatehouse-id/gatehouse/storage/badgerstore"
	"github.com/gatehouse-id/gatehouse/storage/storagetest"
)

type counted struct {
	mu sync.Mutex // guards n
	n  int
}

func (c *counted) CountRefusal(*Refusal) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n++
}

func (*counted) CountEntry(Entry) {}

func (*counted) CountCode(*Refusal) {}

// recorder is a Recorder with a clock of its own.
type recorder struct {
	*Recorder
	store storage.Store
	time  time.Time
	count counted
}

func newRecorder(t *testing.T) *recorder {
	t.Helper()
	store, err := badgerstore.OpenMemory()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	r := &recorder{store: store, time: time.Date(2096, 1, 2, 3, 4, 5, 0, time.UTC)} // the store collects by the system's clock
	r.Recorder = NewRecorder(storagetest.Twice(store), &r.count, func() time.Time { return r.time }, rand.Reader, zap.NewNop())
	return r
}

var denied = Refusal{
	Where: Site, Reason: GroupMissing, Status: 403, Site: "wiki.example.com", Method: "GET", Path: "/reports",
	PersonID: "p1", Username: "demo@example.com", WantedGroups: []string{"staff", "admins"}, Groups: []string{"guests"},
}

func TestWhy(t *testing.T) {
	t.Parallel()
	r := newRecorder(t)
	ref := r.Refuse(t.Context(), zap.NewNop(), denied, nil)
	got, err := r.Find(t.Context(), ref)
	if err != nil || got.Username != "demo@example.com" || !got.At.Equal(r.time) {
		t.Fatalf("Find(%q) = %+v, %v, want the refusal", ref, got, err)
	}
	const want = "demo@example.com (person p1) was refused GET wiki.example.com/reports: needs one of the groups staff, admins; " +
		"has guests."
	if s := got.Sentence(); s != want {
		t.Errorf("Sentence() =\n%s, want\n%s", s, want)
	}
	if _, err := r.Find(t.Context(), "AAAA-AAAA"); !errors.Is(err, ErrUnknown) {
		t.Errorf("Find of another reference = %v, want ErrUnknown", err)
	}
	r.time = r.time.Add(Kept)
	if _, err := r.Find(t.Context(), ref); !errors.Is(err, ErrUnknown) {
		t.Errorf("Find after 24 hours = %v, want ErrUnknown", err)
	}
}

// TestList: an operator finds the callers that a site has refused recently, newest first, page by page.
func TestList(t *testing.T) {
	t.Parallel()
	r := newRecorder(t)
	var refs []string
	for i := range 5 {
		f := denied
		if i == 2 {
			f.Site, f.PersonID, f.Reason = "shop.example.com", "p2", LevelTooLow
		}
		refs = append([]string{r.Refuse(t.Context(), zap.NewNop(), f, nil)}, refs...)
		r.time = r.time.Add(time.Second)
	}
	list := func(f Filter) (out []string, more bool) {
		t.Helper()
		found, more, err := r.List(t.Context(), f)
		if err != nil {
			t.Fatal(err)
		}
		for _, one := range found {
			out = append(out, one.Ref)
		}
		return out, more
	}
	for what, tt := range map[string]struct {
		f    Filter
		want []string
		more bool
	}{
		"all":            {Filter{}, refs, false},
		"the newest two": {Filter{Limit: 2}, refs[:2], true},
		"the next two":   {Filter{Limit: 2, Behind: refs[1]}, refs[2:4], true},
		"the last one":   {Filter{Limit: 2, Behind: refs[3]}, refs[4:], false},
		"of a site":      {Filter{Sites: []string{"shop.example.com"}}, refs[2:3], false},
		"of a person":    {Filter{Person: "p2"}, refs[2:3], false},
		"for a reason":   {Filter{Reason: LevelTooLow}, refs[2:3], false},
		"somewhere else": {Filter{Where: OAuth}, nil, false},
	} {
		if got, more := list(tt.f); strings.Join(got, " ") != strings.Join(tt.want, " ") || more != tt.more {
			t.Errorf("%s: %v, %t, want %v, %t", what, got, more, tt.want, tt.more)
		}
	}
	r.time = r.time.Add(Kept)
	if got, _ := list(Filter{}); got != nil {
		t.Errorf("after a day: %v", got)
	}
}

// TestFloodOfRefusals: strangers cannot fill the disk, nor crowd out the storage with writes.
func TestFloodOfRefusals(t *testing.T) {
	t.Parallel()
	r := newRecorder(t)
	var all []string
	for range 3 * perSecond {
		all = append(all, r.Refuse(t.Context(), zap.NewNop(), denied, nil))
	}
	if n := r.Lost(); n != 2*perSecond {
		t.Errorf("%d of %d refusals of one second are lost, want %d", n, len(all), 2*perSecond)
	}
	if r.count.n != len(all) {
		t.Errorf("%d are counted, want every one of %d", r.count.n, len(all))
	}
	if _, err := r.Find(t.Context(), all[perSecond-1]); err != nil {
		t.Errorf("Find of the hundredth = %v", err)
	}
	if _, err := r.Find(t.Context(), all[perSecond]); !errors.Is(err, ErrUnknown) {
		t.Errorf("Find of the next = %v, want ErrUnknown", err)
	}
	first := all[0]
	for written := perSecond; written < slotCount+1; written++ {
		if written%perSecond == 0 {
			r.time = r.time.Add(time.Second)
			r.ring.Flush(t.Context())
		}
		r.Refuse(t.Context(), zap.NewNop(), denied, nil)
	}
	if _, err := r.Find(t.Context(), first); !errors.Is(err, ErrUnknown) {
		t.Errorf("Find of the oldest = %v, want its slot overwritten", err)
	}
	n := 0
	if err := r.store.View(t.Context(), func(tx storage.Tx) error {
		n = 0
		for _, err := range kept.Slots.Scan(tx, storage.Range{}) {
			if err != nil {
				return err
			}
			n++
		}
		return nil
	}); err != nil || n != slotCount {
		t.Errorf("%d records, %v, want %d", n, err, slotCount)
	}
}

func TestManyRefuseAtOnce(t *testing.T) {
	t.Parallel()
	r := newRecorder(t)
	ctx, stop := context.WithCancel(t.Context())
	var worker, callers sync.WaitGroup
	worker.Go(func() { r.Run(ctx) })
	var mu sync.Mutex
	refs := map[string]bool{}
	for range 20 {
		callers.Go(func() {
			ref := r.Refuse(t.Context(), zap.NewNop(), denied, nil)
			mu.Lock()
			defer mu.Unlock()
			refs[ref] = true
		})
	}
	callers.Wait()
	stop()
	worker.Wait() // what waited is written
	for ref := range refs {
		if _, err := r.Find(t.Context(), ref); err != nil {
			t.Errorf("Find(%s) = %v", ref, err)
		}
	}
	if len(refs) != 20 {
		t.Errorf("%d references for 20 refusals", len(refs))
	}
}

// TestRefusalsDuringAFailure: the disk is full, and people are refused all the same.
func TestRefusalsDuringAFailure(t *testing.T) {
	t.Parallel()
	r := newRecorder(t)
	r.store.Close() //nolint:errcheck // on purpose
	if ref := r.Refuse(t.Context(), zap.NewNop(), denied, nil); len(ref) != 9 {
		t.Errorf("Refuse = %q, want a reference", ref)
	}
	r.ring.Flush(t.Context())
	if r.Lost() != 1 {
		t.Errorf("Lost() = %d, want 1", r.Lost())
	}
	var none *Recorder
	if ref := none.Refuse(t.Context(), zap.NewNop(), denied, nil); ref != "" {
		t.Errorf("Refuse without a recorder = %q, want none", ref)
	}
}

func TestLogLine(t *testing.T) {
	t.Parallel()
	r := newRecorder(t)
	core, lines := observer.New(zap.InfoLevel)
	f := denied
	f.Path, f.Groups = "/a\r\nforged: line"+strings.Repeat("x", 5000), make([]string, 500)
	ref := r.Refuse(t.Context(), zap.New(core), f, errors.New("cause"), zap.String("client_ip", "192.0.2.1"))
	got := lines.All()
	if len(got) != 1 || got[0].Message != "request refused" {
		t.Fatalf("lines = %+v, want one", got)
	}
	fields := got[0].ContextMap()
	for key, want := range map[string]any{
		"ref": ref, "reason": "group_missing", "site": "wiki.example.com", "method": "GET", "person_id": "p1", "username": "demo@example.com",
		"client_ip": "192.0.2.1", "cause": "cause", "status": 403,
	} {
		if fields[key] != want {
			t.Errorf("%s = %v, want %v", key, fields[key], want)
		}
	}
	if path := fields["path"].(string); strings.ContainsAny(path, "\r\n") || len(path) > maxText {
		t.Errorf("path = %q, want one short line", path)
	}
	if groups := fields["groups"].([]any); len(groups) > maxList {
		t.Errorf("%d groups are logged", len(groups))
	}
	f.Where, f.Reason = SignIn, "made up"
	f.Status = 503
	r.Refuse(t.Context(), zap.New(core), f, nil)
	if l := lines.All()[1]; l.Level != zap.ErrorLevel || l.ContextMap()["reason"] != "internal_error" {
		t.Errorf("a failure is logged as %+v", l)
	}
}

func TestParseRef(t *testing.T) {
	t.Parallel()
	ref := NewRef(bytes.NewReader([]byte{0x17, 0xff, 0x08, 0x00, 0x41}))
	for _, typed := range []string{
		ref, strings.ToLower(ref), strings.ReplaceAll(ref, "-", ""), " " + strings.ReplaceAll(ref, "-", " ") + "\n",
		strings.ReplaceAll(ref, "B", "8"),
	} {
		if got, err := ParseRef(typed); err != nil || got != ref {
			t.Errorf("ParseRef(%q) = %q, %v, want %q", typed, got, err, ref)
		}
	}
	for _, typed := range []string{
		"", "MZXW", "MZXW-6YTBA", "MZXW-6YT!", "MZXW-6YT9", "../../etc",
		strings.Repeat("A", 1<<16), "MZXW-6YT\x00",
	} {
		if got, err := ParseRef(typed); err == nil || len(err.Error()) > 100 {
			t.Errorf("ParseRef(%.20q) = %q, %v, want a short error", typed, got, err)
		}
	}
}

// TestReasons: every reason that is declared has a meaning, and no word is there twice.
func TestReasons(t *testing.T) {
	t.Parallel()
	file, err := parser.ParseFile(token.NewFileSet(), "reasons.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || spec.Type == nil {
			return true
		}
		word, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
		if err != nil {
			t.Fatal(err)
		}
		r := Reason(word)
		if r.why() == "" || strings.HasSuffix(r.why(), ".") || !strings.HasSuffix(r.Fix(), ".") {
			t.Errorf("%s: why %q, fix %q: want a clause and a sentence", word, r.why(), r.Fix())
		}
		if seen[word] {
			t.Errorf("%s is there twice", word)
		}
		seen[word] = true
		return true
	})
	if len(seen) != len(meanings) || len(seen) < 50 {
		t.Errorf("%d reasons are declared, %d have a meaning", len(seen), len(meanings))
	}
}

func TestSentences(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		f    Refusal
		want string
	}{
		{
			Refusal{Where: SignIn, Reason: UnknownName, By: "password", ClientID: "shop"},
			"someone who was not signed in was refused the sign-in by password for client shop: unknown username.",
		},
		{
			Refusal{
				Where: OAuth, Reason: RedirectURI, Method: "GET", Site: "auth.example.com", Path: "/oauth/authorize", ClientID: "shop",
				RedirectHost: "evil.example",
			},
			"client shop was refused GET auth.example.com/oauth/authorize: the redirect URI is not registered for the client (its host is evil.example).",
		},
		{
			Refusal{Where: StepUp, Reason: NoSecondFactor, PersonID: "p1", WantedLevel: 3, Level: 1},
			"person p1 was refused a stronger sign-in: the account has no method that reaches the required level (needs level 3; has 1).",
		},
		{
			Refusal{
				Where: Site, Reason: ScopeMissing, Method: "GET", Site: "api.example.com", Path: "/", ClientID: "reports",
				WantedScopes: []string{"orders.read"},
			},
			"client reports was refused GET api.example.com/: the access token lacks a scope that the site requires (needs orders.read; has none).",
		},
	} {
		if got := tt.f.Sentence(); got != tt.want {
			t.Errorf("Sentence() =\n%s, want\n%s", got, tt.want)
		}
	}
}

// TestReasonsAreDocumented: docs/troubleshooting.md lists every reason with its meaning and what to do.
func TestReasonsAreDocumented(t *testing.T) {
	t.Parallel()
	guide, err := os.ReadFile("../../docs/troubleshooting.md")
	if err != nil {
		t.Fatal(err)
	}
	for r := range meanings {
		row := "| `" + string(r) + "` | " + r.why() + " | "
		if _, do, found := strings.Cut(string(guide), row); !found || strings.HasPrefix(do, "|") {
			t.Errorf("docs/troubleshooting.md lacks the row\n%s…", row)
		}
	}
}

// TestWhyNamesThePerson: a refusal that knows the person by the id alone is kept with username and partition.
func TestWhyNamesThePerson(t *testing.T) {
	t.Parallel()
	r := newRecorder(t)
	r.Know(func(_ storage.Tx, id string) (string, string, error) { return id + "@example.com", "west", nil })
	ref := r.Refuse(t.Context(), zap.NewNop(), Refusal{Where: OAuth, Reason: CodeReplayed, PersonID: "p1"}, nil)
	if got, err := r.Find(t.Context(), ref); err != nil || got.Username != "p1@example.com" || got.Partition != "west" {
		t.Errorf("Find(%s) = %+v, %v, want username and partition", ref, got, err)
	}
}

// TestOneRefusalPerRequest: what follows from a refusal is told under its reference, and counted once.
func TestOneRefusalPerRequest(t *testing.T) {
	t.Parallel()
	r := newRecorder(t)
	core, lines := observer.New(zap.InfoLevel)
	req := r.Begin(httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/sign-in?flow=secret", nil),
		"192.0.2.1", Refusal{Where: Page})
	if Told(req.Context()) != "" {
		t.Error("a request that is not refused has a reference")
	}
	Learn(req.Context(), func(f *Refusal) { f.ClientID = "shop" })
	first := r.Refuse(req.Context(), zap.New(core), Refusal{Where: SignIn, Reason: WrongPassword}, nil, zap.String("client_ip", "192.0.2.1"))
	second := r.Refuse(req.Context(), zap.New(core), Refusal{Where: OAuth, Reason: GrantInvalid, Code: "invalid_grant"}, nil)
	if first == "" || first != second || Told(req.Context()) != first || RefOf(req.Context()) != first || r.count.n != 1 {
		t.Errorf("references %q, %q, told %q, counted %d, want one", first, second, Told(req.Context()), r.count.n)
	}
	got := lines.All()
	if len(got) != 1 || got[0].ContextMap()["path"] != "/sign-in" || got[0].ContextMap()["client_id"] != "shop" {
		t.Fatalf("lines = %+v, want one", got)
	}
	ips := 0
	for _, f := range got[0].Context {
		if f.Key == "client_ip" {
			ips++
		}
	}
	if ips != 1 {
		t.Errorf("client_ip is %d times in the line", ips)
	}
}
