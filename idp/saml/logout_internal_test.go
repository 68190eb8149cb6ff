package saml

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/beevik/etree"

	"github.com/gatehouse-id/gatehouse/idp"
)

// kept returns the data that a sign-in stores for the sign-out.
func kept(t *testing.T, session string) []byte {
	t.Helper()
	raw, err := json.Marshal(held{
		Idp:    entity,
		NameID: nameID{Value: `p "<1234>"`, Format: formatPersistent, NameQualifier: entity, SPNameQualifier: "x"}, Session: session,
	})
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func TestEnd(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Config{})
	next, err := w.End(t.Context(), idp.EndRequest{Flow: flowID, Held: kept(t, "s-1")})
	if err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(next.URL)
	if err != nil {
		t.Fatal(err)
	}
	e := w.inflated(u.Query().Get(paramRequest))
	if !strings.HasPrefix(next.URL, sloAt+"?") || e.SelectAttrValue("Destination", "") != sloAt || u.Query().Get(paramRelay) != flowID ||
		u.Query().Get(paramSig) == "" {
		t.Errorf("End leads to %s", next.URL)
	}
	n := e.SelectElement("NameID")
	if n.Text() != `p "<1234>"` || n.SelectAttrValue("Format", "") != formatPersistent || n.SelectAttrValue("NameQualifier", "") != entity ||
		e.SelectElement("SessionIndex").Text() != "s-1" {
		t.Errorf("the request names %q", n.Text())
	}
	var f flow
	if err := json.Unmarshal(next.State, &f); err != nil || f.ID != e.SelectAttrValue("ID", "") {
		t.Errorf("state = %s, %v", next.State, err)
	}

	for name, tt := range map[string]struct {
		cfg  Config
		held []byte
	}{
		"nothing kept":            {Config{}, nil},
		"garbage kept":            {Config{}, []byte("{")},
		"another provider":        {Config{Metadata: metadataOf("https://other.example.com", idpKey())}, kept(t, "")},
		"no place for a sign-out": {Config{Metadata: without(metadataOf(entity, idpKey()), sloRedirect, sloPost)}, kept(t, "")},
	} {
		if next, err := newWorld(t, tt.cfg).End(t.Context(), idp.EndRequest{Flow: flowID, Held: tt.held}); next != nil || err != nil {
			t.Errorf("%s: End = %+v, %v, want nothing to do", name, next, err)
		}
	}
	next, err = newWorld(t, Config{Metadata: without(metadataOf(entity, idpKey()), sloRedirect)}).End(t.Context(),
		idp.EndRequest{Flow: flowID, Held: kept(t, "")})
	if err != nil || next.Form == nil || next.Form.Action != sloAt {
		t.Errorf("End at a provider with POST alone = %+v, %v", next, err)
	}
}

const (
	sloRedirect = `<md:SingleLogoutService Binding="` + bindingRedirect + `" Location="` + sloAt + `" ResponseLocation="` + sloBackAt + `"/>`
	sloPost     = `<md:SingleLogoutService Binding="` + bindingPost + `" Location="` + sloAt + `"/>`
)

// theirs returns a logout message of the scripted provider.
func (w *world) theirs(kind string, add func(*etree.Element)) *etree.Element {
	id, err := newID(w.env.Random)
	if err != nil {
		w.t.Fatal(err)
	}
	e := message(kind, id, entity, w.at("slo"), w.clock.Now())
	add(e)
	return e
}

func logoutOf(name string, sessions ...string) func(*etree.Element) {
	return func(e *etree.Element) {
		e.CreateElement("saml:NameID").SetText(name)
		for _, s := range sessions {
			e.CreateElement("samlp:SessionIndex").SetText(s)
		}
	}
}

// arrives delivers a message by a binding, signed with the key.
func (w *world) arrives(e *etree.Element, binding, param, relay string, key *idp.Key) *http.Request {
	w.t.Helper()
	if binding == bindingPost {
		if err := sign(e, key); err != nil {
			w.t.Fatal(err)
		}
		return w.form("slo", url.Values{param: {encoded(w.t, e)}, paramRelay: {relay}})
	}
	raw, err := write(e)
	if err != nil {
		w.t.Fatal(err)
	}
	u, err := redirectURL(w.env.Random, w.at("slo"), param, raw, relay, key)
	if err != nil {
		w.t.Fatal(err)
	}
	return httptest.NewRequestWithContext(w.t.Context(), http.MethodGet, u, nil)
}

func (w *world) slo(r *http.Request) *scriptedHost {
	w.t.Helper()
	w.host.went, w.host.failed = nil, nil
	if !w.Handle(httptest.NewRecorder(), r, "slo", w.host) {
		w.t.Fatal("there is no slo")
	}
	return w.host
}

func TestLogoutByProvider(t *testing.T) {
	t.Parallel()
	for _, binding := range []string{bindingRedirect, bindingPost} {
		t.Run(binding, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, Config{})
			for _, tt := range []struct {
				sessions []string
				want     []string
			}{
				{nil, sessionNames("p-1")},
				{[]string{"a", "b"}, sessionNames("p-1", "a", "b")[1:]},
			} {
				e := w.theirs("LogoutRequest", logoutOf("p-1", tt.sessions...))
				h := w.slo(w.arrives(e, binding, paramRequest, "their state", idpKey()))
				if h.failed != nil {
					t.Fatal(h.failed)
				}
				q := h.queries[len(h.queries)-1]
				if q.Issuer != entity || q.Subject != "" || !slices.Equal(q.Sessions, tt.want) {
					t.Errorf("ended %+v, want %q", q, tt.want)
				}
				var answer *etree.Element
				if binding == bindingPost {
					raw, err := decodeBase64(h.went.Form.Fields[0].Value)
					if err != nil || h.went.Form.Action != sloAt || h.went.Form.Fields[0].Name != paramResponse ||
						h.went.Form.Fields[1].Value != "their state" {
						t.Fatalf("the answer is %+v, %v", h.went.Form, err)
					}
					answer = parsed(t, raw)
					if answer.SelectElement("Signature") == nil {
						t.Error("the answer is not signed")
					}
				} else {
					u, err := url.Parse(h.went.URL)
					if err != nil || !strings.HasPrefix(h.went.URL, sloBackAt+"?") || u.Query().Get(paramRelay) != "their state" ||
						u.Query().Get(paramSig) == "" {
						t.Fatalf("the answer goes to %s, %v", h.went.URL, err)
					}
					answer = w.inflated(u.Query().Get(paramResponse))
				}
				if got := answer.SelectAttrValue("InResponseTo", ""); got != e.SelectAttrValue("ID", "") {
					t.Errorf("the answer is to %q", got)
				}
				if got := answer.FindElement("./Status/StatusCode").SelectAttrValue("Value", ""); got != statusSuccess {
					t.Errorf("status = %s", got)
				}
			}
			w.host.err = errors.New("the storage is away")
			h := w.slo(w.arrives(w.theirs("LogoutRequest", logoutOf("p-1")), bindingRedirect, paramRequest, "", idpKey()))
			u, err := url.Parse(h.went.URL)
			if err != nil {
				t.Fatal(err)
			}
			if got := w.inflated(u.Query().Get(paramResponse)).FindElement("./Status/StatusCode").SelectAttrValue("Value",
				""); got != statusResponder {
				t.Errorf("status when sessions cannot be ended = %s", got)
			}
		})
	}
}

func TestLogoutRefused(t *testing.T) {
	t.Parallel()
	for name, make := range map[string]func(w *world) *http.Request{
		"attack 141: signed by another key": func(w *world) *http.Request {
			return w.arrives(w.theirs("LogoutRequest", logoutOf("p-1")), bindingRedirect, paramRequest, "", otherKey())
		},
		"attack 141: signed by another key, by POST": func(w *world) *http.Request {
			return w.arrives(w.theirs("LogoutRequest", logoutOf("p-1")), bindingPost, paramRequest, "", otherKey())
		},
		"attack 141: not signed, by POST": func(w *world) *http.Request {
			return w.form("slo", url.Values{paramRequest: {encoded(w.t, w.theirs("LogoutRequest", logoutOf("p-1")))}})
		},
		"attack 141: not signed": func(w *world) *http.Request {
			r := w.arrives(w.theirs("LogoutRequest", logoutOf("p-1")), bindingRedirect, paramRequest, "", idpKey())
			r.URL.RawQuery = r.URL.RawQuery[:strings.Index(r.URL.RawQuery, "&"+paramSig)]
			return r
		},
		"attack 142: another destination": func(w *world) *http.Request {
			e := w.theirs("LogoutRequest", logoutOf("p-1"))
			e.CreateAttr("Destination", "https://other.example.com/slo")
			return w.arrives(e, bindingRedirect, paramRequest, "", idpKey())
		},
		"attack 163: a second time": func(w *world) *http.Request {
			e := w.theirs("LogoutRequest", logoutOf("p-1"))
			if h := w.slo(w.arrives(e, bindingRedirect, paramRequest, "", idpKey())); h.failed != nil {
				w.t.Fatal(h.failed)
			}
			w.host.queries = nil
			return w.arrives(e, bindingRedirect, paramRequest, "", idpKey())
		},
		"attack 157: empty": func(w *world) *http.Request {
			return httptest.NewRequestWithContext(w.t.Context(), http.MethodGet, w.at("slo"), nil)
		},
		"attack 157: an answer where a request should be": func(w *world) *http.Request {
			return w.arrives(w.theirs("LogoutResponse", func(*etree.Element) {}), bindingRedirect, paramRequest, "", idpKey())
		},
		"attack 152: two messages in a form": func(w *world) *http.Request {
			return w.form("slo", url.Values{paramRequest: {"a", "b"}})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, Config{})
			h := w.slo(make(w))
			if h.failed == nil || h.went != nil || len(h.queries) != 0 {
				t.Errorf("failed = %v, went = %+v, ended %v", h.failed, h.went, h.queries)
			}
		})
	}
}

// TestLogoutRefusedWithAnswer: a LogoutRequest that the provider has signed for us, and that is refused all the same,
// ends no session and is answered, so the provider does not wait.
func TestLogoutRefusedWithAnswer(t *testing.T) {
	t.Parallel()
	for name, make := range map[string]func(w *world) *http.Request{
		"attack 142: another issuer": func(w *world) *http.Request {
			e := w.theirs("LogoutRequest", logoutOf("p-1"))
			e.SelectElement("Issuer").SetText("https://other.example.com")
			return w.arrives(e, bindingRedirect, paramRequest, "", idpKey())
		},
		"attack 161: an hour old": func(w *world) *http.Request {
			r := w.arrives(w.theirs("LogoutRequest", logoutOf("p-1")), bindingRedirect, paramRequest, "", idpKey())
			w.clock.Advance(time.Hour)
			return r
		},
		"attack 161: after the time that it names": func(w *world) *http.Request {
			e := w.theirs("LogoutRequest", logoutOf("p-1"))
			e.CreateAttr("NotOnOrAfter", "2020-01-01T00:00:00Z")
			return w.arrives(e, bindingRedirect, paramRequest, "", idpKey())
		},
		"attack 157: two names, one of them encrypted": func(w *world) *http.Request {
			e := w.theirs("LogoutRequest", logoutOf("p-1"))
			e.CreateElement("EncryptedID").CreateAttr("xmlns", nsAssertion)
			return w.arrives(e, bindingRedirect, paramRequest, "", idpKey())
		},
		"attack 157: without a name": func(w *world) *http.Request {
			return w.arrives(w.theirs("LogoutRequest", func(*etree.Element) {}), bindingRedirect, paramRequest, "", idpKey())
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, Config{})
			h := w.slo(make(w))
			if h.failed != nil || h.went == nil || len(h.queries) != 0 {
				t.Fatalf("failed = %v, went = %+v, ended %v, want an answer alone", h.failed, h.went, h.queries)
			}
			u, err := url.Parse(h.went.URL)
			if err != nil || !strings.HasPrefix(h.went.URL, sloBackAt+"?") || u.Query().Get(paramSig) == "" {
				t.Fatalf("the answer goes to %s, %v", h.went.URL, err)
			}
			answer := w.inflated(u.Query().Get(paramResponse))
			if got := answer.FindElement("./Status/StatusCode").SelectAttrValue("Value", ""); got != statusRequester ||
				answer.SelectAttrValue("InResponseTo", "") == "" {
				t.Errorf("the answer to %q has status %s, want %s", answer.SelectAttrValue("InResponseTo", ""), got, statusRequester)
			}
		})
	}
}

func TestSignedOut(t *testing.T) {
	t.Parallel()
	answer := func(w *world, to, status string) *etree.Element {
		return w.theirs("LogoutResponse", func(e *etree.Element) {
			e.CreateAttr("InResponseTo", to)
			e.CreateElement("samlp:Status").CreateElement("samlp:StatusCode").CreateAttr("Value", status)
		})
	}
	for _, tt := range []struct {
		name string
		make func(w *world, to string) *http.Request
		want string // the address that the browser is sent to; empty: an error page
	}{
		{"by redirect", func(w *world, to string) *http.Request {
			return w.arrives(answer(w, to, statusSuccess), bindingRedirect, paramResponse, flowID, idpKey())
		}, "/bye"},
		{"by POST", func(w *world, to string) *http.Request {
			return w.arrives(answer(w, to, statusSuccess), bindingPost, paramResponse, flowID, idpKey())
		}, "/bye"},
		{"not everywhere", func(w *world, to string) *http.Request {
			return w.arrives(answer(w, to, statusResponder), bindingRedirect, paramResponse, flowID, idpKey())
		}, "/bye"},
		{"attack 166: an unknown RelayState", func(w *world, to string) *http.Request {
			return w.arrives(answer(w, to, statusSuccess), bindingRedirect, paramResponse, "https://evil.example/", idpKey())
		}, ""},
		{"attack 166: somebody else's flow", func(w *world, to string) *http.Request {
			return w.arrives(answer(w, to, statusSuccess), bindingRedirect, paramResponse, strings.Repeat("x", idp.FlowLength), idpKey())
		}, ""},
		{"attack 166: no RelayState", func(w *world, to string) *http.Request {
			return w.arrives(answer(w, to, statusSuccess), bindingPost, paramResponse, "", idpKey())
		}, ""},
		// What is refused does not lose the way back: the person has signed out here, and the flow is this browser's.
		{"attack 162: an answer to another request", func(w *world, _ string) *http.Request {
			return w.arrives(answer(w, "_other", statusSuccess), bindingRedirect, paramResponse, flowID, idpKey())
		}, "/bye"},
		{"attack 141: signed by another key", func(w *world, to string) *http.Request {
			return w.arrives(answer(w, to, statusSuccess), bindingRedirect, paramResponse, flowID, otherKey())
		}, "/bye"},
		{"attack 141: signed by another key, by POST", func(w *world, to string) *http.Request {
			return w.arrives(answer(w, to, statusSuccess), bindingPost, paramResponse, flowID, otherKey())
		}, "/bye"},
		{"a request in place of an answer", func(w *world, _ string) *http.Request {
			return w.arrives(w.theirs("LogoutRequest", logoutOf("p-1")), bindingRedirect, paramResponse, flowID, idpKey())
		}, "/bye"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, Config{})
			next, err := w.End(t.Context(), idp.EndRequest{Flow: flowID, Held: kept(t, "s-1")})
			if err != nil {
				t.Fatal(err)
			}
			var f flow
			if err := json.Unmarshal(next.State, &f); err != nil {
				t.Fatal(err)
			}
			w.host.state, w.host.ret = next.State, "/bye"
			h := w.slo(tt.make(w, f.ID))
			switch {
			case tt.want == "" && (h.failed == nil || h.went != nil):
				t.Errorf("failed = %v, went to %+v, want it refused", h.failed, h.went)
			case tt.want != "" && (h.failed != nil || h.went == nil || h.went.URL != tt.want):
				t.Errorf("failed = %v, went to %+v, want %s", h.failed, h.went, tt.want)
			}
			if len(h.queries) != 0 {
				t.Error("an answer has ended sessions")
			}
			if tt.want == "" && !errors.As(h.failed, new(*idp.Invalid)) {
				t.Errorf("failed = %v, want an answer that is not believed: 400", h.failed)
			}
		})
	}
}

func TestHandleUnknown(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Config{})
	for op, want := range map[string]bool{"metadata": true, "acs": false, "": false, "slo/x": false} {
		rec := httptest.NewRecorder()
		if got := w.Handle(rec, httptest.NewRequestWithContext(t.Context(), http.MethodGet, w.at(op), nil), op, w.host); got != want {
			t.Errorf("Handle(%q) = %t, want %t", op, got, want)
		}
	}
	for op, method := range map[string]string{"metadata": http.MethodPost, "slo": http.MethodPut} {
		rec := httptest.NewRecorder()
		w.Handle(rec, httptest.NewRequestWithContext(t.Context(), method, w.at(op), nil), op, w.host)
		if rec.Code != http.StatusMethodNotAllowed || rec.Header().Get("Allow") == "" {
			t.Errorf("%s %s = %d", method, op, rec.Code)
		}
	}
}
