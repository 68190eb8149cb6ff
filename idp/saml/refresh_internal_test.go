package saml

import (
	"context"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/beevik/etree"
	dsig "github.com/russellhaering/goxmldsig"

	"github.com/gatehouse-id/gatehouse/idp"
	"github.com/gatehouse-id/gatehouse/idp/saml/safexml"
	"github.com/gatehouse-id/gatehouse/internal/clocktest"
)

// publisher is the web server of the provider.
type publisher struct {
	mu    sync.Mutex // guards the fields below
	body  string
	etag  string // of body. Empty: none
	since string // Last-Modified of body. Empty: none
	sent  int    // bodies
	code  int
	err   error
	asked int
	wait  chan struct{} // responses wait until it is closed
}

func (p *publisher) serve(r *http.Request) (*http.Response, error) {
	p.mu.Lock()
	p.asked++
	wait, body, code, err := p.wait, p.body, p.code, p.err
	header := http.Header{"Etag": {p.etag}, "Last-Modified": {p.since}}
	if p.etag != "" && r.Header.Get("If-None-Match") == p.etag || p.since != "" && r.Header.Get("If-Modified-Since") == p.since {
		code, body = http.StatusNotModified, ""
	} else {
		p.sent++
	}
	p.mu.Unlock()
	if wait != nil {
		select {
		case <-wait:
		case <-r.Context().Done():
			return nil, r.Context().Err()
		}
	}
	if err != nil {
		return nil, err
	}
	answer := answerOf(max(code, http.StatusOK), body)
	answer.Header = header
	return answer, nil
}

func (p *publisher) set(f func(*publisher)) { p.mu.Lock(); defer p.mu.Unlock(); f(p) }

func (p *publisher) count() int { p.mu.Lock(); defer p.mu.Unlock(); return p.asked }

const metadataURL = "https://idp.example.com/metadata"

func newPublished(t *testing.T, cfg Config, p *publisher) *world {
	t.Helper()
	cfg.Metadata = metadataURL
	return newWorld(t, cfg, func(w *world) { w.calls = p.serve })
}

// settle waits until no fetch is running.
func (s *source) settle() {
	s.mu.Lock()
	running := s.running
	s.mu.Unlock()
	if running != nil {
		<-running
	}
}

func valid(metadata, until string) string {
	return strings.Replace(metadata, "entityID=", `validUntil="`+until+`" entityID=`, 1)
}

func TestRefresh(t *testing.T) {
	t.Parallel()
	p := &publisher{body: metadataOf(entity, idpKey())}
	w := newPublished(t, Config{}, p)
	first, err := w.metadata.get(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	w.clock.Advance(defaultRefresh - time.Second)
	if again, err := w.metadata.get(t.Context()); again != first || err != nil || p.count() != 1 {
		t.Errorf("young metadata was fetched %d times, %v", p.count(), err)
	}
	p.set(func(p *publisher) { p.body = metadataOf(entity, otherKey()) })
	w.clock.Advance(time.Second)
	if second, err := w.metadata.get(t.Context()); err != nil || second == first || !second.Signing[0].Equal(otherKey().Certificate) {
		t.Errorf("old metadata is still used: %v", err)
	}
	for name, bad := range map[string]func(*publisher){
		"garbage":   func(p *publisher) { p.body = "<html>down</html>" },
		"an error":  func(p *publisher) { p.code = http.StatusBadGateway },
		"no answer": func(p *publisher) { p.err = errors.New("connection refused") },
		"too long":  func(p *publisher) { p.body = strings.Repeat(" ", safexml.MaxMetadata+1) },
		"a redirect": func(p *publisher) {
			p.code = http.StatusFound
		},
	} {
		before := p.count()
		p.set(bad)
		w.clock.Advance(defaultRefresh)
		if m, err := w.metadata.get(t.Context()); err != nil || !m.Signing[0].Equal(otherKey().Certificate) {
			t.Errorf("%s: the last good metadata is not used: %v", name, err)
		}
		if p.count() == before {
			t.Errorf("%s: the provider was not asked", name)
		}
		p.set(func(p *publisher) { p.code, p.err = 0, nil })
	}
}

func TestRefreshInterval(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		cfg    Config
		cache  time.Duration
		expect time.Duration
	}{
		{"nothing is said", Config{Metadata: metadataURL}, 0, time.Hour},
		{"the provider says", Config{Metadata: metadataURL}, 2 * time.Hour, 2 * time.Hour},
		{"the provider says a second", Config{Metadata: metadataURL}, time.Second, minRefresh},
		{"the provider says a year", Config{Metadata: metadataURL}, 365 * 24 * time.Hour, maxRefresh},
		{"the operator says", Config{Metadata: metadataURL, Refresh: 10 * time.Minute}, time.Hour, 10 * time.Minute},
		{"a file", Config{Metadata: "/idp.xml"}, time.Hour, fileRefresh},
	} {
		s := &source{cfg: tt.cfg}
		if got := s.interval(&idpMetadata{CacheDuration: tt.cache}); got != tt.expect {
			t.Errorf("%s: interval = %s, want %s", tt.name, got, tt.expect)
		}
	}
}

func TestRefreshValidUntil(t *testing.T) {
	t.Parallel()
	p := &publisher{body: valid(metadataOf(entity, idpKey()), start.Add(90*time.Minute).Format(instant))}
	w := newPublished(t, Config{}, p)
	if _, err := w.metadata.get(t.Context()); err != nil {
		t.Fatal(err)
	}
	request, _, state := w.begin(idp.Request{MaxAge: -1})
	p.set(func(p *publisher) { p.err = errors.New("connection refused") })
	w.clock.Advance(89 * time.Minute)
	if _, err := w.metadata.get(t.Context()); err != nil {
		t.Errorf("metadata in its last minute: %v", err)
	}
	w.clock.Advance(time.Minute)
	t.Run("attack 146: the provider's metadata has ended", func(t *testing.T) {
		if _, err := w.Begin(t.Context(), idp.Request{Flow: flowID}); err == nil {
			t.Error("a sign-in begins by metadata that is no longer valid")
		}
		if id, err := w.Finish(t.Context(), state, w.posted(w.answerTo(request.SelectAttrValue("ID", "")), flowID)); err == nil {
			t.Errorf("Finish = %+v", id)
		}
	})
}

// TestRefreshDown: if the provider does not answer, one sign-in waits for an attempt, and the next ones do not wait
// until the pause is over.
func TestRefreshDown(t *testing.T) {
	t.Parallel()
	p := &publisher{err: errors.New("connection refused")}
	w := newPublished(t, Config{}, p)
	w.metadata.settle()
	for range 100 {
		if _, err := w.Begin(t.Context(), idp.Request{Flow: flowID}); err == nil {
			t.Fatal("a sign-in begins without metadata")
		}
	}
	if n := p.count(); n != 1 {
		t.Errorf("the provider was asked %d times in a moment, want once", n)
	}
	p.set(func(p *publisher) { p.err, p.body = nil, metadataOf(entity, idpKey()) })
	w.clock.Advance(firstPause)
	if _, err := w.Begin(t.Context(), idp.Request{Flow: flowID}); err != nil {
		t.Errorf("the provider is there again: %v", err)
	}
}

func TestRefreshSlow(t *testing.T) {
	t.Parallel()
	p := &publisher{body: metadataOf(entity, idpKey()), wait: make(chan struct{})}
	w := newPublished(t, Config{}, p)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := w.Begin(ctx, idp.Request{Flow: flowID}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Begin = %v, want it to end with its context", err)
	}
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			if _, err := w.Begin(t.Context(), idp.Request{Flow: flowID}); err != nil {
				t.Errorf("Begin after a slow answer: %v", err)
			}
		})
	}
	close(p.wait)
	wg.Wait()
	if n := p.count(); n != 1 {
		t.Errorf("the provider was asked %d times at once", n)
	}
}

// TestRefreshNewKey: the provider signs with a new key that is not yet in our copy of its metadata.
func TestRefreshNewKey(t *testing.T) {
	t.Parallel()
	p := &publisher{body: metadataOf(entity, otherKey())}
	w := newPublished(t, Config{}, p)
	request, _, state := w.begin(idp.Request{MaxAge: -1})
	answer := func() *http.Request { return w.posted(w.answerTo(request.SelectAttrValue("ID", "")), flowID) }
	if _, err := w.Finish(t.Context(), state, answer()); !isInvalid(err) {
		t.Fatalf("an answer by an unknown key: %v", err)
	}
	p.set(func(p *publisher) { p.body = metadataOf(entity, otherKey(), idpKey()) })
	if _, err := w.Finish(t.Context(), state, answer()); !isInvalid(err) || p.count() != 1 {
		t.Errorf("metadata of this moment was fetched again: %d, %v", p.count(), err)
	}
	w.clock.Advance(eager)
	if _, err := w.Finish(t.Context(), state, answer()); err != nil {
		t.Errorf("an answer by the new key: %v", err)
	}
	for range 10 {
		e := w.answerTo(request.SelectAttrValue("ID", ""))
		e.CreateAttr("Destination", "https://evil.example")
		if _, err := w.Finish(t.Context(), state, w.posted(e, flowID)); !isInvalid(err) {
			t.Errorf("a wrong answer: %v", err)
		}
	}
	if n := p.count(); n != 2 {
		t.Errorf("wrong answers made us ask the provider: %d times", n)
	}
}

// TestNotReadAgain: what newer metadata could not settle does not make us ask for it.
func TestNotReadAgain(t *testing.T) {
	t.Parallel()
	p := &publisher{body: metadataOf(entity, idpKey())}
	w := newPublished(t, Config{AllowUnsolicited: true}, p)
	used := w.answerTo("")
	if err := sign(used, idpKey()); err != nil {
		t.Fatal(err)
	}
	again := func() *http.Request { return w.form("acs", url.Values{paramResponse: {encoded(t, used)}}) }
	if _, err := w.Finish(t.Context(), nil, again()); err != nil {
		t.Fatal(err)
	}
	w.clock.Advance(eager)
	logout := func() *etree.Element { return w.theirs("LogoutRequest", logoutOf("p-1")) }
	late := logout()
	late.CreateAttr("NotOnOrAfter", start.Format(instant))
	text := base64.StdEncoding.EncodeToString([]byte("any text"))
	for name, r := range map[string]*http.Request{
		"an answer that was used before": again(),
		"an answer that is no XML":       w.form("acs", url.Values{paramResponse: {text}}),
		"an answer for another place":    w.posted(moved(w.answerTo("")), ""),
		"an answer to another request":   w.posted(w.answerTo("_other"), ""),
		"an answer without a signature":  w.form("acs", url.Values{paramResponse: {encoded(t, w.answerTo(""))}}),
		"a logout that is no XML":        w.form("slo", url.Values{paramRequest: {text}}),
		"a logout without a signature":   w.form("slo", url.Values{paramRequest: {encoded(t, logout())}}),
		"a logout for another place":     w.arrives(moved(logout()), bindingPost, paramRequest, "", idpKey()),
		"a logout that is too late":      w.arrives(late, bindingRedirect, paramRequest, "", idpKey()),
		"a logout by no known algorithm": w.query(t, "none"),
	} {
		if strings.HasSuffix(r.URL.Path, "/slo") {
			if h := w.slo(r); len(h.queries) > 0 {
				t.Errorf("%s ends a session", name)
			}
		} else if _, err := w.Finish(t.Context(), nil, r); !isInvalid(err) {
			t.Errorf("%s: %v, want it refused", name, err)
		}
		w.metadata.settle()
		if n := p.count(); n != 1 {
			t.Fatalf("%s: the provider was asked %d times, want once at the start", name, n)
		}
	}
}

// moved changes the destination of a message.
func moved(e *etree.Element) *etree.Element {
	e.CreateAttr("Destination", "https://other.example.com")
	return e
}

// query is a sign-out that anyone can send: any text, with a signature that no one has made.
func (w *world) query(t *testing.T, algorithm string) *http.Request {
	t.Helper()
	message, err := deflate([]byte("any text"))
	if err != nil {
		t.Fatal(err)
	}
	values := url.Values{paramRequest: {message}, paramAlg: {algorithm}, paramSig: {"AAAA"}}
	return httptest.NewRequestWithContext(t.Context(), http.MethodGet, w.at("slo")+"?"+values.Encode(), nil)
}

// federationOf is the metadata of a federation to which the scripted provider belongs.
func federationOf(keys ...*idp.Key) string {
	return `<md:EntitiesDescriptor xmlns:md="` + nsMetadata + `">` + metadataOf("https://other.example.com", otherKey()) +
		metadataOf(entity, keys...) + `</md:EntitiesDescriptor>`
}

// TestUnchangedFederation: a federation is asked for its metadata only if it is newer than our copy, which counts as
// read again. A copy that has expired is no reason to do without.
func TestUnchangedFederation(t *testing.T) {
	t.Parallel()
	for name, publish := range map[string]func(p *publisher, version string){
		"ETag":          func(p *publisher, version string) { p.etag = `"` + version + `"` },
		"Last-Modified": func(p *publisher, version string) { p.since = "Tue, 21 Jul 2026 10:00:0" + version + " GMT" },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := &publisher{body: federationOf(otherKey())}
			publish(p, "1")
			w := newPublished(t, Config{Entity: entity}, p)
			first, err := w.metadata.get(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for range 3 {
				w.clock.Advance(defaultRefresh)
				if m, err := w.metadata.get(t.Context()); err != nil || m != first {
					t.Errorf("get = %v, %v, want the same metadata", m, err)
				}
				w.metadata.settle()
			}
			if p.asked != 4 || p.sent != 1 || w.Warnings() != nil {
				t.Errorf("asked %d times, sent %d times, warnings %q, want 4, 1 and none", p.asked, p.sent, w.Warnings())
			}
			p.set(func(p *publisher) {
				p.body = strings.Replace(federationOf(idpKey()), "<md:EntitiesDescriptor", `<md:EntitiesDescriptor validUntil="`+
					w.clock.Now().Add(90*time.Minute).Format(instant)+`"`, 1)
				publish(p, "2")
			})
			w.clock.Advance(defaultRefresh)
			if m, err := w.metadata.get(t.Context()); err != nil || !m.Signing[0].Equal(idpKey().Certificate) {
				t.Errorf("changed metadata is not read: %v", err)
			}
			p.set(func(p *publisher) { p.body = federationOf(idpKey()) })
			w.clock.Advance(defaultRefresh)
			if _, err := w.metadata.get(t.Context()); err != nil || p.sent != 3 {
				t.Errorf("the copy has expired: sent %d times, %v, want 3", p.sent, err)
			}
		})
	}
}

// TestFederationIsAskedSparingly: a stranger sends messages with signatures of no one, without a sign-in or a cookie.
// The metadata of a federation, which is large, is read again each quarter of an hour at most, also while the
// federation refuses. A new key of the provider is found nevertheless.
func TestFederationIsAskedSparingly(t *testing.T) {
	t.Parallel()
	p := &publisher{body: federationOf(otherKey())}
	w := newPublished(t, Config{Entity: entity, AllowUnsolicited: true, Refresh: 24 * time.Hour}, p)
	if _, err := w.metadata.get(t.Context()); err != nil {
		t.Fatal(err)
	}
	stranger := func() {
		t.Helper()
		if h := w.slo(w.query(t, algRSASHA256)); !isInvalid(h.failed) {
			t.Errorf("a sign-out with a signature of no one: %v", h.failed)
		}
		if _, err := w.Finish(t.Context(), nil, w.posted(w.answerTo(""), "")); !isInvalid(err) {
			t.Errorf("an answer with a signature of someone else: %v", err)
		}
		w.metadata.settle()
	}
	hour := func() int {
		t.Helper()
		before := p.count()
		for range 60 {
			w.clock.Advance(time.Minute)
			stranger()
		}
		return p.count() - before
	}
	t.Run("attack 6242: signatures of no one, each minute", func(t *testing.T) {
		if n := hour(); n != 4 {
			t.Errorf("the federation was asked %d times in an hour, want each quarter", n)
		}
	})
	t.Run("attack 6242: while the federation refuses", func(t *testing.T) {
		p.set(func(p *publisher) { p.code = http.StatusTooManyRequests })
		if n := hour(); n != 4 {
			t.Errorf("the federation was asked %d times in an hour, want each quarter", n)
		}
	})
	p.set(func(p *publisher) { p.code, p.body = 0, federationOf(otherKey(), idpKey()) })
	w.clock.Advance(15 * time.Minute)
	if _, err := w.Finish(t.Context(), nil, w.posted(w.answerTo(""), "")); err != nil {
		t.Errorf("an answer by the new key: %v", err)
	}
}

// TestLogoutNewKey: a provider that has replaced its key signs people out by each binding, although our copy of its
// metadata is older.
func TestLogoutNewKey(t *testing.T) {
	t.Parallel()
	for _, binding := range []string{bindingRedirect, bindingPost} {
		t.Run(binding, func(t *testing.T) {
			t.Parallel()
			p := &publisher{body: metadataOf(entity, otherKey())}
			w := newPublished(t, Config{}, p)
			next, err := w.End(t.Context(), idp.EndRequest{Flow: flowID, Held: kept(t, "s-1")})
			if err != nil {
				t.Fatal(err)
			}
			var f flow
			if err := json.Unmarshal(next.State, &f); err != nil {
				t.Fatal(err)
			}
			p.set(func(p *publisher) { p.body = metadataOf(entity, idpKey()) })
			w.clock.Advance(eager)
			h := w.slo(w.arrives(w.theirs("LogoutRequest", logoutOf("p-1")), binding, paramRequest, "", idpKey()))
			if h.failed != nil || len(h.queries) != 1 {
				t.Errorf("a request by the new key: %v, ended %v, want one sign-out", h.failed, h.queries)
			}
			if h := w.slo(w.arrives(w.theirs("LogoutRequest", logoutOf("p-1")), binding, paramRequest, "", otherKey())); !isInvalid(h.failed) {
				t.Errorf("a request by the old key: %v, want it refused", h.failed)
			}

			p.set(func(p *publisher) { p.body = metadataOf(entity, otherKey()) })
			w.clock.Advance(eager)
			w.host.state, w.host.ret = next.State, "/bye"
			answer := w.theirs("LogoutResponse", func(e *etree.Element) {
				e.CreateAttr("InResponseTo", f.ID)
				e.CreateElement("samlp:Status").CreateElement("samlp:StatusCode").CreateAttr("Value", statusSuccess)
			})
			if h := w.slo(w.arrives(answer, binding, paramResponse, flowID, otherKey())); h.failed != nil || h.went.URL != "/bye" {
				t.Errorf("an answer by the next key: %v", h.failed)
			}
			if m, err := w.metadata.get(t.Context()); err != nil || !m.Signing[0].Equal(otherKey().Certificate) {
				t.Errorf("after an answer by the next key the metadata is still the earlier one: %v", err)
			}
		})
	}
}

// TestRefreshRollover: a provider that changes its key publishes the next one next to the old one, signs with it, and
// takes the old one away: from then on that counts no longer, and one that was never there does not at any time.
func TestRefreshRollover(t *testing.T) {
	t.Parallel()
	p := &publisher{}
	w := newPublished(t, Config{}, p)
	for i, step := range []struct {
		published []*idp.Key
		by        *idp.Key
		want      bool
	}{
		{[]*idp.Key{idpKey()}, idpKey(), true},
		{[]*idp.Key{idpKey()}, otherKey(), false},
		{[]*idp.Key{idpKey(), otherKey()}, idpKey(), true},
		{[]*idp.Key{idpKey(), otherKey()}, otherKey(), true},
		{[]*idp.Key{otherKey()}, otherKey(), true},
		{[]*idp.Key{otherKey()}, idpKey(), false},
	} {
		p.set(func(p *publisher) { p.body = metadataOf(entity, step.published...) })
		w.clock.Advance(defaultRefresh)
		request, _, state := w.begin(idp.Request{MaxAge: -1})
		answer := w.answerTo(request.SelectAttrValue("ID", ""))
		if err := sign(answer, step.by); err != nil {
			t.Fatal(err)
		}
		got := w.form("acs", url.Values{paramResponse: {encoded(t, answer)}, paramRelay: {flowID}})
		if _, err := w.Finish(t.Context(), state, got); (err == nil) != step.want || err != nil && !isInvalid(err) {
			t.Errorf("step %d, %d keys: %v, want the answer to be taken: %t", i+1, len(step.published), err, step.want)
		}
	}
}

func TestMetadataFile(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "idp.xml")
	put := func(content string) {
		t.Helper()
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	// A file that is not there, or that cannot be read, keeps the people of this provider waiting, and no one else.
	w := newWorld(t, Config{Metadata: name})
	if m, err := w.metadata.get(t.Context()); m != nil || err == nil || !strings.Contains(err.Error(), name) {
		t.Errorf("get without the file = %v, %v, want an error that names it", m, err)
	}
	if said := w.Warnings(); len(said) != 1 || !strings.Contains(said[0].Reason, "no one can sign in") {
		t.Errorf("Warnings without the file = %q", said)
	}
	put(metadataOf(entity, idpKey()))
	w.clock.Advance(lastPause)
	first, err := w.metadata.get(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	put("<half")
	w.clock.Advance(fileRefresh)
	if m, err := w.metadata.get(t.Context()); err != nil || m != first {
		t.Errorf("a file that is being written: %v", err)
	}
	put(metadataOf(entity, otherKey()))
	w.clock.Advance(fileRefresh)
	if m, err := w.metadata.get(t.Context()); err != nil || !m.Signing[0].Equal(otherKey().Certificate) {
		t.Errorf("the new file is not read: %v", err)
	}
	if err := os.Remove(name); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(name, 0o700); err != nil {
		t.Fatal(err)
	}
	w.clock.Advance(fileRefresh)
	if m, err := w.metadata.get(t.Context()); err != nil || m == nil {
		t.Errorf("get with a directory = %v, %v, want what was read last", m, err)
	}
	if said := w.Warnings(); len(said) != 1 || !strings.Contains(said[0].Reason, "not a regular file") {
		t.Errorf("Warnings with a directory = %q", said)
	}
}

func TestMetadataCertificate(t *testing.T) {
	t.Parallel()
	signed := func(by *idp.Key) string {
		e := parsed(t, []byte(strings.Replace(metadataOf(entity, idpKey()), "entityID=", `ID="_m" entityID=`, 1)))
		ctx, err := dsig.NewSigningContext(by.Signer, nil)
		if err != nil {
			t.Fatal(err)
		}
		ctx.Canonicalizer = dsig.MakeC14N10ExclusiveCanonicalizerWithPrefixList("")
		sig, err := ctx.ConstructSignature(e, true)
		if err != nil {
			t.Fatal(err)
		}
		e.InsertChildAt(0, sig)
		raw, err := write(e)
		if err != nil {
			t.Fatal(err)
		}
		return string(raw)
	}
	certificate := func(k *idp.Key) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: k.Certificate.Raw}))
	}
	file := filepath.Join(t.TempDir(), "federation.pem")
	if err := os.WriteFile(file, []byte(certificate(otherKey())), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name, metadata, certificate string
		good                        bool
	}{
		{"signed", signed(otherKey()), certificate(otherKey()), true},
		{"signed, the certificate in a file", signed(otherKey()), file, true},
		{"attack 146: metadata signed by another key", signed(idpKey()), certificate(otherKey()), false},
		{"attack 141: metadata without its signature", metadataOf(entity, idpKey()), certificate(otherKey()), false},
		{
			"attack 142: metadata changed after it was signed", strings.Replace(signed(otherKey()), sloAt, "https://evil.example/", 1),
			certificate(otherKey()), false,
		},
		{"no certificate in it", signed(otherKey()), "-----BEGIN nothing", false},
		{"a file that is not there", signed(otherKey()), file + "x", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p, err := New(Config{Metadata: tt.metadata, MetadataCertificate: tt.certificate}, newEnv(&world{clock: clocktest.New(start)}))
			if (err == nil) != tt.good {
				t.Errorf("New = %v", err)
			}
			if p != nil {
				p.Close()
			}
		})
	}
}

func TestOwnMetadata(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Config{Sign: []string{"next"}, Decrypt: []string{"next"}, NameID: "persistent"})
	raw, err := w.ownMetadata(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	e := parsed(t, raw)
	if got := e.SelectAttrValue("entityID", ""); got != issuer0+"/saml/partner/metadata" {
		t.Errorf("entityID = %q", got)
	}
	for path, want := range map[string]int{
		"./SPSSODescriptor[@AuthnRequestsSigned='true']/KeyDescriptor[@use='signing']":                  1,
		"./SPSSODescriptor/KeyDescriptor[@use='encryption']/EncryptionMethod":                           len(encryptions),
		"./SPSSODescriptor/SingleLogoutService[@Location='" + issuer0 + "/saml/partner/slo']":           2,
		"./SPSSODescriptor/AssertionConsumerService[@Location='" + issuer0 + "/saml/partner/acs']":      2,
		"./SPSSODescriptor/AssertionConsumerService[@isDefault='true'][@Binding='" + bindingPost + "']": 1,
		"./SPSSODescriptor/AssertionConsumerService[@Binding='" + bindingArtifact + "']":                1,
		"./SPSSODescriptor/NameIDFormat": 1,
	} {
		if got := len(e.FindElements(path)); got != want {
			t.Errorf("%d of %s, want %d\n%s", got, path, want, raw)
		}
	}
	if strings.Contains(string(raw), "PRIVATE") {
		t.Error("the metadata holds a private key")
	}
}

// TestKeyRollover: the next key is published before it signs, and messages encrypted for either key are decrypted.
func TestKeyRollover(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Config{})
	w.cfg.Sign, w.cfg.Decrypt = []string{"", "next"}, []string{"next", ""}
	raw, err := w.ownMetadata(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var got []*x509.Certificate
	for _, c := range parsed(t, raw).FindElements("./SPSSODescriptor/KeyDescriptor[@use='signing']//X509Certificate") {
		der, err := base64.StdEncoding.DecodeString(c.Text())
		if err != nil {
			t.Fatal(err)
		}
		cert, err := x509.ParseCertificate(der)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, cert)
	}
	if len(got) != 2 || !got[0].Equal(ourKey().Certificate) || !got[1].Equal(nextKey().Certificate) {
		t.Errorf("%d signing certificates, want the current and the next one", len(got))
	}
	if keys, err := w.decrypters(t.Context()); err != nil || len(keys) != 2 {
		t.Errorf("%d keys decrypt, %v, want two", len(keys), err)
	}
	if key, err := w.signer(t.Context()); err != nil || key != ourKey() {
		t.Errorf("signer = %v, %v, want the first key", key, err)
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	p := &publisher{body: metadataOf(entity, idpKey())}
	w := newPublished(t, Config{}, p)
	if steps := w.Check(t.Context()); steps.Err() != nil || steps[0].What != "of "+entity || steps[1].Name != "signing certificate 1" {
		t.Errorf("Check = %+v", steps)
	}
	p.set(func(p *publisher) { p.code = http.StatusNotFound })
	if steps := w.Check(t.Context()); steps.Err() == nil {
		t.Error("Check finds nothing wrong with metadata that is not there")
	}
}

// TestMetadataAddressIsNotTold checks that a key in the address of the metadata does not appear in logs.
func TestMetadataAddressIsNotTold(t *testing.T) {
	t.Parallel()
	p := &publisher{err: errors.New("refused")}
	w := newWorld(t, Config{Metadata: metadataURL + "?key=hush"}, func(w *world) { w.calls = p.serve })
	_, err := w.Begin(t.Context(), idp.Request{Flow: strings.Repeat("f", 43), MaxAge: -1})
	if err == nil || strings.Contains(err.Error(), "hush") || !strings.Contains(err.Error(), "refused") {
		t.Errorf("Begin = %v, want why, and not where", err)
	}
}

// TestKeysBeside: the metadata have the keys that is next to the one that signs, and all of them decrypt.
func TestKeysBeside(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Config{})
	w.env.KeyPair = func(context.Context, string) (*idp.Key, error) {
		key := *ourKey()
		key.Others = []*idp.Key{nextKey(), {Signer: nextKey().Signer}} // the last one lacks a certificate to publish
		return &key, nil
	}
	raw, err := w.ownMetadata(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for name, key := range map[string]*idp.Key{"present": ourKey(), "next": nextKey()} {
		if n := strings.Count(string(raw), base64.StdEncoding.EncodeToString(key.Certificate.Raw)); n != 2 {
			t.Errorf("the %s certificate is %d times in the metadata, want to sign and to encrypt", name, n)
		}
	}
	signer, err := w.signer(t.Context())
	if err != nil || !signer.Certificate.Equal(ourKey().Certificate) {
		t.Errorf("the present key does not sign: %v", err)
	}
	if keys, err := w.decrypters(t.Context()); err != nil || len(keys) != 3 {
		t.Errorf("decrypters = %d, %v, want all keys", len(keys), err)
	}
	if len(w.Certificates()) == 0 || len(w.KeyUses()) != 2 {
		t.Errorf("certificates of the provider = %d, uses of our keys = %v", len(w.Certificates()), w.KeyUses())
	}
}

// TestExpiredCertificates: a key whose certificate has expired signs no one in, unless the operator trusts keys
// whatever their certificates say.
func TestExpiredCertificates(t *testing.T) {
	t.Parallel()
	for name, accept := range map[string]bool{"by default": false, "accepted": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newPublished(t, Config{AcceptExpired: accept}, &publisher{body: metadataOf(entity, idpKey())})
			if _, err := w.metadata.get(t.Context()); err != nil {
				t.Fatal(err)
			}
			w.clock.Advance(3650 * 24 * time.Hour)
			request, _, state := w.begin(idp.Request{MaxAge: -1})
			answer := w.answerTo(request.SelectAttrValue("ID", ""))
			id, err := w.Finish(t.Context(), state, w.posted(answer, flowID))
			if accepted := err == nil && id.Subject != ""; accepted != accept {
				t.Errorf("Finish = %+v, %v, want accepted: %t", id, err, accept)
			}
			if got := w.Warnings(); (got == nil) != accept {
				t.Errorf("Warnings = %v, want none: %t", got, accept)
			}
		})
	}
}
