package identity_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/gatehouse-id/gatehouse/identity"
	"github.com/gatehouse-id/gatehouse/storage"
)

// BenchmarkCurrent measures finding out who is signed in.
func BenchmarkCurrent(b *testing.B) {
	h := newHarness(b)
	br := h.browser()
	br.signIn(demo, demoPassword)
	r := httptest.NewRequest(http.MethodGet, issuer+"/x", nil)
	for name, v := range br.cookies {
		r.AddCookie(&http.Cookie{Name: name, Value: v})
	}
	b.ReportAllocs()
	for b.Loop() {
		if result, err := h.Session.CurrentOf(r); result == nil || err != nil {
			b.Fatal(result, err)
		}
	}
}

// BenchmarkGet measures reading what busy requests need to know of a person.
func BenchmarkGet(b *testing.B) {
	h := newHarness(b)
	p, err := h.Person.Person(b.Context(), demo)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		err := h.store.View(b.Context(), func(tx storage.Tx) error {
			_, err := h.Person.Get(tx, p.ID)
			return err
		})
		if err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkPages measures answering a request for a page, up to the last byte. No password is hashed here.
func BenchmarkPages(b *testing.B) {
	h := newHarness(b, func(c *identity.Config) { c.Locales = []string{"en", "nl", "de", "fr"} })
	person, stranger := h.browser(), h.browser()
	person.signIn(demo, demoPassword)
	form := stranger.get("/next")
	for _, of := range []struct {
		browser *browser
		path    string
	}{
		{stranger, form.url}, {stranger, "/nowhere"}, {person, "/account"}, {person, "/account/security"}, {person, "/account/security/authenticator"}, {person, "/sign-out"},
	} {
		path, _, _ := strings.Cut(of.path, "?")
		b.Run(path[1:], func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if a := of.browser.do(http.MethodGet, of.path, ""); a.Code >= http.StatusInternalServerError {
					b.Fatal(a.Code)
				}
			}
		})
	}
}

// BenchmarkPasskey measures checking the answer of a passkey: its JSON, two reads and the signature.
func BenchmarkPasskey(b *testing.B) {
	for name, key := range signers(b) {
		b.Run(name, func(b *testing.B) {
			h, k := newHarness(b, passkeysOn), newToken(b)
			k.key, k.steps = key, 0
			br := h.browser()
			br.signIn(demo, demoPassword)
			br.addPasskey(k)
			challenge := make([]byte, 32)
			answer := k.use(options{Challenge: b64(challenge)})
			b.ReportAllocs()
			for b.Loop() {
				if err := h.VerifyPasskey(b.Context(), challenge, answer); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
