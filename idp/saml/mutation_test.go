package saml_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/beevik/etree"

	"github.com/gatehouse-id/gatehouse/idp"
	"github.com/gatehouse-id/gatehouse/idp/saml"
	"github.com/gatehouse-id/gatehouse/idp/saml/samltest"
	"github.com/gatehouse-id/gatehouse/internal/modeltest"
)

// TestMutations makes as many changes to valid signed answers as GATEHOUSE_MUTATIONS says (make faults: 10,000). An
// answer must be refused unless it still says the same as the original, and none may cause a panic. If the number is
// given, it also measures the time of each attempt.
func TestMutations(t *testing.T) {
	t.Parallel()
	mutations(t, newMutator(t))
}

// TestArtifactMutations is TestMutations for what a provider answers to an artifact: the envelope and all in it.
func TestArtifactMutations(t *testing.T) {
	t.Parallel()
	t.Run("attack 785: changed answers to artifacts", func(t *testing.T) { mutations(t, newArtifactMutator(t)) })
}

func mutations(t *testing.T, m *mutator) {
	t.Helper()
	n, measured := mutationCount(t), os.Getenv("GATEHOUSE_MUTATIONS") != ""
	accepted := 0
	var costs []time.Duration
	kinds := map[string]int{}
	for seed := range uint64(n) {
		raw, kind := m.mutate(seed)
		kinds[kind]++
		id, cost := m.try(t, seed, raw)
		if measured && cost > 50*time.Millisecond { // measured again below, since another process may have run
			for range 4 {
				_, again := m.try(t, seed, raw)
				cost = min(cost, again)
			}
			if cost > 50*time.Millisecond {
				t.Errorf("mutation %d (%s) costs %s, want 50ms at most", seed, kind, cost)
			}
		}
		costs = append(costs, cost)
		if id == nil {
			continue
		}
		accepted++
		if !slices.ContainsFunc(m.same, func(want *idp.Identity) bool { return reflect.DeepEqual(id, want) }) {
			t.Errorf("mutation %d (%s) signs in %+v\n%s", seed, kind, id, raw)
		}
	}
	slices.Sort(costs)
	t.Logf("%d mutations of %d kinds, %d accepted with the same meaning; cost: median %s, 99%% %s, most %s",
		n, len(kinds), accepted, costs[n/2], costs[n*99/100], costs[n-1])
}

// mutationCount is the number of changes to make.
func mutationCount(t testing.TB) int {
	t.Helper()
	s := os.Getenv("GATEHOUSE_MUTATIONS")
	if s == "" {
		return modeltest.Rounds(200, 500)
	}
	n, err := strconv.Atoi(s)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// mutator changes answers. The stranger is another person at the same provider. Parts of the stranger's answers are
// spliced in.
type mutator struct {
	*lab
	base     [][]byte
	same     []*idp.Identity // the identities of the originals
	stranger []byte
	dice     *rand.Rand

	send func(raw []byte) (*idp.Identity, error) // finishes a sign-in
}

// steady is a random source for the IDs of our messages: each is another one until the source is held.
type steady struct {
	next byte
	held bool
}

func (s *steady) Read(b []byte) (int, error) {
	if !s.held {
		s.next++
	}
	for i := range b {
		b[i] = s.next
	}
	return len(b), nil
}

// newArtifactMutator changes the answers of an artifact resolution service.
func newArtifactMutator(t *testing.T) *mutator {
	m := &mutator{lab: newLab(t)}
	m.idp.Artifact = "https://idp.example/artifact"
	ids := &steady{}
	var answer []byte
	env := m.env()
	env.Once = func(context.Context, string, time.Time) error { return nil } // replays are tested elsewhere
	env.Random = ids
	env.Checked = &http.Client{Transport: resolved(func() []byte { return answer })}
	p, err := saml.New(saml.Config{
		Metadata: string(m.idp.Metadata()), Artifact: true, Mapping: idp.Mapping{Attributes: []idp.Attribute{{From: "mail", To: "email"}}},
	}, env)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	m.Provider = p
	m.begin(idp.Request{Flow: flow, MaxAge: -1})
	ids.next++
	ids.held = true // each ArtifactResolve has the ID that the answers name
	resolve := "_" + strings.Repeat(fmt.Sprintf("%02x", ids.next), 20)
	service := &samltest.National{Provider: m.idp}
	artifact := service.IssueRaw(m.query, nil)
	m.send = func(raw []byte) (*idp.Identity, error) {
		answer = raw
		return m.Finish(context.Background(), m.state, httptest.NewRequest(http.MethodGet, artifact, nil))
	}
	add := func(raw []byte) {
		m.base = append(m.base, raw)
		id, err := m.send(raw)
		if err != nil {
			t.Fatalf("Finish = %v\n%s", err, raw)
		}
		m.same = append(m.same, id)
	}
	for _, s := range signings {
		a := m.honest()
		a.SignResponse, a.SignAssertion = s.response, s.assertion
		raw := service.Resolved(resolve, m.idp.Response(a))
		add(raw)
		bare := samltest.Parse(raw)
		remove(find(bare.Root(), "./Body/ArtifactResponse/Signature"))
		add(samltest.Bytes(bare))
	}
	a := m.honest()
	a.SignAssertion = false
	add(service.Resolved(resolve, m.idp.Response(a))) // the envelope's signature alone
	a.Encrypt = samltest.NewKey("sp", m.now).Certificate
	add(service.Resolved(resolve, m.idp.Response(a)))
	a = samltest.Honest(m.query, "mallory@example")
	a.Request, a.SignResponse = "_of_mallory", true
	m.stranger = service.Resolved("_of_mallory", m.idp.Response(a))
	return m
}

// resolved answers every request by the message.
type resolved func() []byte

func (f resolved) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: io.NopCloser(bytes.NewReader(f()))}, nil
}

func newMutator(t *testing.T) *mutator {
	m := &mutator{lab: newLab(t)}
	m.send = m.finish
	ec := samltest.NewKey("ec", m.now)
	cfg := saml.Config{Metadata: string(m.idp.Metadata(ec)), Mapping: idp.Mapping{Attributes: []idp.Attribute{{From: "mail", To: "email"}}}}
	env := m.env()
	env.Once = func(context.Context, string, time.Time) error { return nil } // replays are tested elsewhere
	p, err := saml.New(cfg, env)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	saml.SetPause(p, func(context.Context, time.Duration) {}) // TestCiphertextsTellNothing measures it
	m.Provider = p
	m.begin(idp.Request{Flow: flow, MaxAge: -1})
	add := func(edit func(a *samltest.Answer)) {
		a := m.honest()
		edit(&a)
		raw := m.idp.Response(a)
		m.base = append(m.base, raw)
		m.same = append(m.same, m.accepts(t, raw, "anna@example"))
	}
	to := samltest.NewKey("sp", m.now).Certificate
	for _, s := range signings {
		add(func(a *samltest.Answer) { a.SignResponse, a.SignAssertion = s.response, s.assertion })
		add(func(a *samltest.Answer) {
			a.SignResponse, a.SignAssertion, a.Signature = s.response, s.assertion, samltest.Signature{Key: ec, Canonical: samltest.Inclusive}
		})
		add(func(a *samltest.Answer) { a.SignResponse, a.SignAssertion, a.Encrypt = s.response, s.assertion, to })
	}
	add(func(a *samltest.Answer) { a.SignResponse, a.Encrypt, a.Content = true, to, samltest.AES128CBC })
	a := samltest.Honest(m.query, "mallory@example")
	a.Request, a.SignResponse = "_of_mallory", true
	m.stranger = m.idp.Response(a)
	return m
}

// try finishes the sign-in with raw. It must not panic, and must fail only with an error that is about the answer.
func (m *mutator) try(t *testing.T, seed uint64, raw []byte) (id *idp.Identity, cost time.Duration) {
	defer func() {
		if p := recover(); p != nil {
			t.Fatalf("mutation %d panics: %v\n%s", seed, p, raw)
		}
	}()
	began := time.Now()
	id, err := m.send(raw)
	cost = time.Since(began)
	if err != nil && !errors.As(err, new(*idp.Invalid)) && !errors.As(err, new(*idp.Rejection)) {
		t.Errorf("mutation %d: Finish = %v (%T)\n%s", seed, err, err, raw)
	}
	return id, cost
}

// mutate returns one of the answers after one to three changes, and the names of these changes.
func (m *mutator) mutate(seed uint64) (raw []byte, kind string) {
	m.dice = rand.New(rand.NewPCG(seed, 130171)) //nolint:gosec // reproducible
	doc := samltest.Parse(m.base[m.dice.IntN(len(m.base))])
	var names []string
	for range 1 + m.dice.IntN(3) {
		c := changes[m.dice.IntN(len(changes))]
		names = append(names, c.name)
		c.apply(m, doc.Root())
	}
	raw = samltest.Bytes(doc)
	if m.dice.IntN(3) == 0 {
		c := encodings[m.dice.IntN(len(encodings))]
		names = append(names, c.name)
		raw = c.apply(m, raw)
	}
	return raw, strings.Join(names, ", ")
}

var words = []string{
	"samlp:Response", "samlp:Extensions", "samlp:Status", "samlp:StatusDetail", "saml:Assertion", "saml:Advice", "saml:Subject",
	"saml:NameID", "saml:AttributeValue",
	"saml:EncryptedAssertion", "ds:Signature", "ds:Object", "ds:SignedInfo", "ds:KeyInfo", "ds:Reference", "saml:Conditions", "Assertion",
	"x:Assertion", "saml:assertion",
}

func (m *mutator) word() string { return words[m.dice.IntN(len(words))] }

// any returns a random element below root, or root if it has no children.
func (m *mutator) any(root *etree.Element) *etree.Element {
	if all := root.FindElements(".//*"); len(all) > 0 {
		return all[m.dice.IntN(len(all))]
	}
	return root
}

// insert puts el at a random place in root, but not into itself.
func (m *mutator) insert(root, el *etree.Element) {
	to := m.any(root)
	for up := to; up != nil; up = up.Parent() {
		if up == el {
			return
		}
	}
	to.InsertChildAt(m.dice.IntN(len(to.Child)+1), el)
}

// take removes el from its place. The root stays.
func take(el *etree.Element) *etree.Element {
	if p := el.Parent(); p != nil && p.Parent() != nil {
		p.RemoveChild(el)
		return el
	}
	return el.Copy()
}

var changes = []struct {
	name  string
	apply func(m *mutator, root *etree.Element)
}{
	{"moved", func(m *mutator, root *etree.Element) { m.insert(root, take(m.any(root))) }},
	{"copied", func(m *mutator, root *etree.Element) { m.insert(root, m.any(root).Copy()) }},
	{"copied and evil", func(m *mutator, root *etree.Element) { m.insert(root, evil(m.any(root).Copy())) }},
	{"copied with another ID", func(m *mutator, root *etree.Element) {
		c := evil(m.any(root).Copy())
		c.CreateAttr("ID", "_"+strconv.FormatUint(m.dice.Uint64(), 36))
		m.insert(root, c)
	}},
	{"removed", func(m *mutator, root *etree.Element) { take(m.any(root)) }},
	{"evil", func(_ *mutator, root *etree.Element) { evil(root) }},
	{"wrapped", func(m *mutator, root *etree.Element) {
		el := m.any(root)
		w := etree.NewElement(m.word())
		if p := el.Parent(); p != nil && p.Parent() != nil {
			at := el.Index()
			p.RemoveChildAt(at)
			w.AddChild(el)
			p.InsertChildAt(at, w)
		}
	}},
	{"unwrapped", func(m *mutator, root *etree.Element) {
		el := m.any(root)
		if p := el.Parent(); p != nil && p.Parent() != nil {
			for _, c := range el.ChildElements() {
				p.AddChild(c)
			}
			p.RemoveChild(el)
		}
	}},
	{"renamed", func(m *mutator, root *etree.Element) {
		el := m.any(root)
		el.Space, el.Tag, _ = strings.Cut(m.word(), ":")
		if el.Tag == "" {
			el.Space, el.Tag = "", el.Space
		}
	}},
	{"swapped", func(m *mutator, root *etree.Element) {
		a, b := m.any(root), m.any(root)
		of, other := a.Copy(), b.Copy()
		for _, p := range []struct{ to, from *etree.Element }{{a, other}, {b, of}} {
			for len(p.to.Child) > 0 {
				p.to.RemoveChildAt(0)
			}
			for len(p.from.Child) > 0 {
				p.to.AddChild(p.from.Child[0])
			}
		}
	}},
	{"with attributes of another", func(m *mutator, root *etree.Element) {
		a, b := m.any(root), m.any(root)
		for _, x := range a.Attr {
			b.CreateAttr(x.FullKey(), x.Value)
		}
	}},
	{"without an attribute", func(m *mutator, root *etree.Element) {
		if el := m.any(root); len(el.Attr) > 0 {
			el.RemoveAttr(el.Attr[m.dice.IntN(len(el.Attr))].FullKey())
		}
	}},
	{"with an ID", func(m *mutator, root *etree.Element) {
		names := []string{"ID", "Id", "id", "xml:id", "saml:ID", "samlp:Id"}
		m.any(root).CreateAttr(names[m.dice.IntN(len(names))], m.any(root).SelectAttrValue("ID", "_x"))
	}},
	{"with a namespace", func(m *mutator, root *etree.Element) {
		prefixes, uris := []string{"xmlns", "xmlns:saml", "xmlns:samlp", "xmlns:ds", "xmlns:x"},
			[]string{samltest.Assertion, samltest.Protocol, "urn:x", "", "relative"}
		m.any(root).CreateAttr(prefixes[m.dice.IntN(len(prefixes))], uris[m.dice.IntN(len(uris))])
	}},
	{"with text", func(m *mutator, root *etree.Element) { m.any(root).SetText("mallory@example") }},
	{"with a comment", func(m *mutator, root *etree.Element) {
		el := m.any(root)
		el.InsertChildAt(m.dice.IntN(len(el.Child)+1), etree.NewComment("x"))
	}},
	{"with another algorithm", func(m *mutator, root *etree.Element) {
		all := root.FindElements(".//*[@Algorithm]")
		if len(all) > 0 {
			all[m.dice.IntN(len(all))].CreateAttr("Algorithm", all[m.dice.IntN(len(all))].SelectAttrValue("Algorithm", ""))
		}
	}},
	{"spliced", func(m *mutator, root *etree.Element) { m.insert(root, m.any(samltest.Parse(m.stranger).Root()).Copy()) }},
	{"replaced by a stranger's", func(m *mutator, root *etree.Element) {
		theirs := samltest.Parse(m.stranger).Root()
		el := m.any(root)
		if other := theirs.FindElement(".//" + el.FullTag()); other != nil && el.Parent() != nil {
			at, p := el.Index(), el.Parent()
			p.RemoveChildAt(at)
			p.InsertChildAt(at, other.Copy())
		}
	}},
	{"re-signed", func(m *mutator, root *etree.Element) {
		el := m.any(root)
		if m.dice.IntN(2) == 0 {
			if el = root.SelectElement("saml:Assertion"); el == nil {
				el = root
			}
		}
		for _, sig := range el.SelectElements("ds:Signature") {
			el.RemoveChild(sig)
		}
		evil(el)
		if el.SelectAttr("ID") == nil {
			el.CreateAttr("ID", "_resigned")
		}
		defer func() { _ = recover() }() // an earlier change may have made canonicalization impossible
		samltest.Sign(el, samltest.Signature{Key: samltest.NewKey("stranger", m.now), NoKeyInfo: m.dice.IntN(2) == 0})
	}},
	{"wrapped by number", func(m *mutator, root *etree.Element) {
		defer func() { _ = recover() }() // an earlier change may have removed the parts to wrap
		wrap(1+m.dice.IntN(8), root, m.dice.IntN(2) == 0)
	}},
	{"with another ciphertext", func(m *mutator, root *etree.Element) {
		for _, v := range root.FindElements(".//xenc:CipherValue") {
			if b, err := base64.StdEncoding.DecodeString(v.Text()); err == nil && len(b) > 0 {
				b[m.dice.IntN(len(b))] ^= 1 << m.dice.IntN(8)
				v.SetText(base64.StdEncoding.EncodeToString(b[:len(b)-m.dice.IntN(2)*m.dice.IntN(len(b))]))
			}
		}
	}},
}

// encodings are changes of the octets.
var encodings = []struct {
	name  string
	apply func(m *mutator, raw []byte) []byte
}{
	{"a flipped bit", func(m *mutator, raw []byte) []byte { raw[m.dice.IntN(len(raw))] ^= 1 << m.dice.IntN(8); return raw }},
	{"a byte less", func(m *mutator, raw []byte) []byte { at := m.dice.IntN(len(raw)); return slices.Delete(raw, at, at+1) }},
	{"a byte more", func(m *mutator, raw []byte) []byte {
		return slices.Insert(raw, m.dice.IntN(len(raw)), "<>&\"'/ \x00\xff\n"[m.dice.IntN(10)])
	}},
	{"references", func(m *mutator, raw []byte) []byte {
		return bytes.ReplaceAll(raw, []byte("anna"), fmt.Appendf(nil, "&#x%x;nna", 'a'))
	}},
	{"CDATA", func(_ *mutator, raw []byte) []byte {
		return bytes.ReplaceAll(raw, []byte("anna@example"), []byte("<![CDATA[anna@example]]>"))
	}},
	{"a comment in the name", func(_ *mutator, raw []byte) []byte {
		return bytes.ReplaceAll(raw, []byte("anna@"), []byte("anna<!---->@"))
	}},
	{"a document type", func(_ *mutator, raw []byte) []byte { return append([]byte(`<!DOCTYPE a [<!ENTITY b "c">]>`), raw...) }},
	{"a declaration", func(_ *mutator, raw []byte) []byte {
		return append([]byte(`<?xml version="1.0" encoding="UTF-8"?>`), raw...)
	}},
	{"other prefixes", func(_ *mutator, raw []byte) []byte {
		return bytes.ReplaceAll(bytes.ReplaceAll(raw, []byte("saml:"), []byte("s2:")), []byte(":saml="), []byte(":s2="))
	}},
	{"UTF-16", func(_ *mutator, raw []byte) []byte { return utf16le(string(raw)) }},
	{"twice", func(_ *mutator, raw []byte) []byte { return append(raw, raw...) }},
	{"line ends", func(_ *mutator, raw []byte) []byte { return bytes.ReplaceAll(raw, []byte("><"), []byte(">\r\n<")) }},
}
