package saml_test

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/beevik/etree"
	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/idp"
	"github.com/gatehouse-id/gatehouse/idp/saml"
	"github.com/gatehouse-id/gatehouse/idp/saml/samltest"
)

const (
	partner = "https://idp.example/entity"
	acs     = "https://auth.example/saml/partner/acs"
	sp      = "https://auth.example/saml/partner/metadata"
	flow    = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFG"
)

// lab is a service provider with an identity provider that it trusts and a sign-in that has begun.
type lab struct {
	*saml.Provider
	t     testing.TB
	idp   *samltest.Provider
	now   time.Time
	state []byte
	query samltest.Request
	used  sync.Map
	until time.Time // expiry of the last mark
	once  error     // error to return instead of marking

	waited int // pauses before failures were answered

	library *library // judges the answers too. nil outside of TestLibrary
	name    string   // of the test that sends the next answer
}

func newLab(t testing.TB, edit ...func(*saml.Config)) *lab {
	t.Helper()
	l := &lab{t: t, now: time.Date(2026, 5, 6, 7, 8, 9, 0, time.UTC), library: libraryOf(t), name: t.Name()}
	l.idp = samltest.New(partner, func() time.Time { return l.now })
	cfg := saml.Config{Metadata: string(l.idp.Metadata())}
	for _, e := range edit {
		e(&cfg)
	}
	l.open(cfg)
	return l
}

// open creates the service provider again and begins a sign-in.
func (l *lab) open(cfg saml.Config) {
	l.t.Helper()
	l.library.open(l, cfg)
	p, err := saml.New(cfg, l.env())
	if err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(func() { p.Close() })
	l.Provider = p
	saml.SetPause(p, func(_ context.Context, d time.Duration) {
		if d != saml.EvenStep { // the clock of the tests stands still
			l.t.Errorf("a pause of %s, want a step", d)
		}
		l.waited++
	})
	l.begin(idp.Request{Flow: flow, MaxAge: -1})
}

func (l *lab) begin(q idp.Request) {
	l.t.Helper()
	next, err := l.Begin(context.Background(), q)
	if err != nil {
		l.t.Fatal(err)
	}
	l.state = next.State
	if l.query, err = samltest.ReadRequest(httptest.NewRequest(http.MethodGet, next.URL, nil)); err != nil {
		l.t.Fatal(err)
	}
}

func (l *lab) env() idp.Env {
	key := samltest.NewKey("sp", l.now)
	return idp.Env{
		ID: "partner", Issuer: "https://auth.example", Now: func() time.Time { return l.now }, Random: rand.Reader, Log: zap.NewNop(),
		Client: &http.Client{}, Checked: &http.Client{},
		Once: func(_ context.Context, key string, until time.Time) error {
			if l.once != nil {
				return l.once
			}
			if _, there := l.used.LoadOrStore(key, until); there {
				return idp.ErrReplayed
			}
			l.until = until
			return nil
		},
		KeyPair: func(_ context.Context, name string) (*idp.Key, error) {
			return &idp.Key{Name: name, Certificate: key.Certificate, Signer: key.Signer}, nil
		},
	}
}

// honest returns the answer to the current sign-in.
func (l *lab) honest() samltest.Answer {
	a := samltest.Honest(l.query, "anna@example")
	a.Attributes = []samltest.Attribute{{Name: "mail", Values: []string{"anna@example"}}}
	a.Session = "session-1"
	return a
}

func (l *lab) finish(raw []byte) (*idp.Identity, error) {
	return l.finishState(l.state, raw)
}

func (l *lab) finishState(state, raw []byte) (*idp.Identity, error) {
	form := url.Values{"SAMLResponse": {base64.StdEncoding.EncodeToString(raw)}, "RelayState": {flow}}
	r := httptest.NewRequest(http.MethodPost, acs, strings.NewReader(form.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	id, err := l.Finish(context.Background(), state, r)
	l.library.judge(l, state, raw, err)
	return id, err
}

// accepts checks that the answer signs in subject.
func (l *lab) accepts(t testing.TB, raw []byte, subject string) *idp.Identity {
	t.Helper()
	l.name = t.Name()
	id, err := l.finish(raw)
	if err != nil {
		t.Fatalf("Finish = %v, want %q\n%s", err, subject, raw)
	}
	if id.Subject != subject || id.Issuer != partner {
		t.Fatalf("Finish = %q of %q, want %q of %q", id.Subject, id.Issuer, subject, partner)
	}
	return id
}

// refuses checks that the answer is refused with a logged reason that contains reason.
func (l *lab) refuses(t testing.TB, raw []byte, reason string) {
	t.Helper()
	l.name = t.Name()
	id, err := l.finish(raw)
	l.refused(t, id, err, reason)
	if t.Failed() {
		t.Logf("%.6000s", raw)
	}
}

func (l *lab) refused(t testing.TB, id *idp.Identity, err error, reason string) {
	t.Helper()
	var wrong *idp.Invalid
	switch {
	case id != nil || err == nil:
		t.Errorf("Finish = %+v, want it refused", id)
	case !errors.As(err, &wrong):
		t.Errorf("Finish = %v (%T), want *idp.Invalid", err, err)
	case !strings.Contains(err.Error(), reason):
		t.Errorf("Finish = %q, want a reason with %q", err, reason)
	}
}

// find returns the element at the path and panics if it is missing.
func find(root *etree.Element, path string) *etree.Element {
	el := root.FindElement(path)
	if el == nil {
		panic("no " + path)
	}
	return el
}

func remove(el *etree.Element) { el.Parent().RemoveChild(el) }

// edited returns the honest answer, changed before signing.
func (l *lab) edited(edit func(root *etree.Element)) []byte {
	a := l.honest()
	a.Edit = edit
	return l.idp.Response(a)
}

// tampered returns the honest answer, changed after signing.
func (l *lab) tampered(tamper func(root *etree.Element)) []byte {
	a := l.honest()
	a.Tamper = tamper
	return l.idp.Response(a)
}

// signings are the three ways in which providers sign.
var signings = []struct {
	name                string
	response, assertion bool
}{{"response", true, false}, {"assertion", false, true}, {"both", true, true}}
