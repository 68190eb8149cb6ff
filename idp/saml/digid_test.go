package saml_test

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/beevik/etree"

	"github.com/gatehouse-id/gatehouse/idp"
	"github.com/gatehouse-id/gatehouse/idp/saml"
	"github.com/gatehouse-id/gatehouse/idp/saml/samltest"
)

// TestDigiD: a sign-in by artifact, on a back channel with certificates.
func TestDigiD(t *testing.T) {
	t.Parallel()
	n := newNation(t, saml.DigiD, "middle", func(c *saml.Config) {
		c.Mapping = idp.Mapping{Attributes: []idp.Attribute{{From: "bsn", To: "citizen_number"}}}
	})
	root := n.query.XML.Root()
	if root.SelectElement("NameIDPolicy") != nil || n.query.Class() != midden {
		t.Errorf("the request asks for %s", samltest.Bytes(n.query.XML))
	}
	id, err := n.answers(citizen)
	if err != nil {
		t.Fatal(err)
	}
	if id.Subject != citizen || id.Level != 2 || !slices.Equal(id.Details["citizen_number"], []string{"111222333"}) {
		t.Errorf("Finish = %+v", id)
	}
	if old, err := n.answers("s00000001:111222333"); err != nil || old.Subject == id.Subject {
		t.Errorf("a number of another register: %+v, %v", old, err)
	}
	for _, name := range []string{
		"111222333", "s00000000:111222334", "s00000000:000000000", "s00000002:111222333", "s00000000:1112223330",
		"s00000000:111222333 ", "x",
	} {
		if id, err := n.answers(name); err == nil || id != nil {
			t.Errorf("the NameID %q signs in %+v", name, id)
		}
	}
	_, err = n.answers(citizen, func(a *samltest.Answer) { *a = samltest.Cancelled(n.query) })
	if no := new(idp.Rejection); !errors.As(err, &no) || !no.Cancelled || !strings.HasSuffix(no.SAMLStatus, ":AuthnFailed") {
		t.Errorf("gone back: %v, want a rejection that says so", err)
	}
	if _, err := n.Begin(t.Context(), idp.Request{Flow: flow, MaxAge: -1, Passive: true}); !errors.As(err, new(*idp.Rejection)) {
		t.Errorf("without a page: %v, want a rejection", err)
	}
}

// TestDigiDLevels: each level asks for its class, and takes no lower one.
func TestDigiDLevels(t *testing.T) {
	t.Parallel()
	levels(t, saml.DigiD, []string{basis, midden, subst, hoog}, []int{1, 2, 3, 4},
		func(n *nation, c string) (*idp.Identity, error) { return n.answers(citizen, class(c)) })
}

// TestDigiDLogout: the service signs a person out by a request of its own.
func TestDigiDLogout(t *testing.T) {
	t.Parallel()
	n := newNation(t, saml.DigiD, "basic")
	slo := strings.Replace(acs, "/acs", "/slo", 1)
	ask := func(body []byte, kind string) (*httptest.ResponseRecorder, *ending) {
		r := httptest.NewRequest(http.MethodPost, slo, bytes.NewReader(body))
		r.Header.Set("Content-Type", kind)
		w, h := httptest.NewRecorder(), &ending{}
		if !n.Handle(w, r, "slo", h) {
			t.Fatal("there is no such endpoint")
		}
		return w, h
	}
	request := n.service.LogoutBySOAP(slo, citizen, "session-1")
	w, h := ask(request, "text/xml; charset=utf-8")
	if len(h.queries) != 1 || h.queries[0].Issuer != n.service.EntityID || len(h.queries[0].Sessions) != 1 {
		t.Fatalf("%d %s ends %+v (%v), want one session", w.Code, w.Body, h.queries, h.failed)
	}
	answer := etree.NewDocument()
	if err := answer.ReadFromBytes(w.Body.Bytes()); err != nil {
		t.Fatal(err)
	}
	said := answer.FindElement("/Envelope/Body/LogoutResponse")
	asked := samltest.Parse(request).FindElement("/Envelope/Body/LogoutRequest")
	if said == nil || said.SelectElement("Signature") == nil || said.SelectAttrValue("InResponseTo", "") != asked.SelectAttrValue("ID", "") ||
		said.FindElement("./Status/StatusCode").SelectAttrValue("Value", "") != samltest.Success {
		t.Errorf("the answer is %s", w.Body)
	}
	unsigned := samltest.Parse(n.service.LogoutBySOAP(slo, citizen, "session-1"))
	remove(unsigned.FindElement(".//Signature"))
	for what, body := range map[string][]byte{
		"attack 783: the same again":      request,
		"attack 783: without a signature": samltest.Bytes(unsigned),
		"attack 783: of another person": bytes.Replace(n.service.LogoutBySOAP(slo, citizen, "session-1"),
			[]byte("111222333"), []byte("123456782"), 1),
		"attack 783: for another endpoint": n.service.LogoutBySOAP("https://other.example/slo", citizen, "session-1"),
		"attack 783: no envelope":          []byte("<x/>"),
		"attack 783: too long":             bytes.Repeat([]byte("x"), 2<<20),
	} {
		t.Run(what, func(t *testing.T) {
			if w, h := ask(body, "text/xml"); h.failed == nil || len(h.queries) > 0 {
				t.Errorf("%d ends %+v", w.Code, h.queries)
			}
		})
	}
	w, h = ask(n.service.LogoutBySOAP(slo, citizen, strings.Repeat("x", 5000)), "text/xml")
	if h.failed != nil || len(h.queries) > 0 || !strings.Contains(w.Body.String(), "urn:oasis:names:tc:SAML:2.0:status:Requester") {
		t.Errorf("a signed request with a malformed session: %d %s ends %+v (%v), want status Requester", w.Code, w.Body, h.queries, h.failed)
	}
	if _, h := ask(n.service.LogoutBySOAP(slo, citizen, "session-1"), "application/x-www-form-urlencoded"); h.failed == nil ||
		len(h.queries) > 0 {
		t.Errorf("as a form it ends %+v", h.queries)
	}
	metadata := httptest.NewRecorder()
	n.Handle(metadata, httptest.NewRequest(http.MethodGet, sp, nil), "metadata", &ending{})
	if got := metadata.Body.String(); !strings.Contains(got, `bindings:SOAP" Location="`+slo) ||
		strings.Contains(got, `bindings:HTTP-POST" Location="`+acs) {
		t.Errorf("our metadata are %s", got)
	}
}

// ending remembers what a provider wants of the identity service.
type ending struct {
	queries []idp.EndQuery
	failed  error
}

func (e *ending) EndSessions(_ context.Context, q idp.EndQuery, _ *http.Request) (int, error) {
	e.queries = append(e.queries, q)
	return 1, nil
}

func (*ending) Ended(http.ResponseWriter, *http.Request, string) ([]byte, string, error) {
	return nil, "", idp.ErrNoFlow
}

func (*ending) Home() string { return "/" }

func (*ending) Go(http.ResponseWriter, *http.Request, *idp.Next) {}

func (e *ending) Fail(_ http.ResponseWriter, _ *http.Request, err error) { e.failed = err }
