package identity_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/gatehouse-id/gatehouse/identity"
	"github.com/gatehouse-id/gatehouse/identity/identitytest"
	"github.com/gatehouse-id/gatehouse/identity/passkey"
	"github.com/gatehouse-id/gatehouse/storage"
)

// BenchmarkCurrent measures finding out who is signed in.
func BenchmarkCurrent(b *testing.B) {
	h := identitytest.New(b)
	br := h.Browser()
	br.SignIn(identitytest.Demo, identitytest.DemoPassword)
	r := httptest.NewRequest(http.MethodGet, identitytest.Issuer+"/x", nil)
	for name, v := range br.Cookies {
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
	h := identitytest.New(b)
	p, err := h.Person.Person(b.Context(), identitytest.Demo)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		err := h.Store.View(b.Context(), func(tx storage.Tx) error {
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
	h := identitytest.New(b, func(c *identity.Config) { c.Locales = []string{"en", "nl", "de", "fr"} })
	person, stranger := h.Browser(), h.Browser()
	person.SignIn(identitytest.Demo, identitytest.DemoPassword)
	form := stranger.Get("/next")
	for _, of := range []struct {
		browser *identitytest.Browser
		path    string
	}{
		{stranger, form.URL},
		{stranger, "/nowhere"},
		{person, "/account"},
		{person, "/account/security"},
		{person, "/account/security/authenticator"},
		{person, "/sign-out"},
	} {
		path, _, _ := strings.Cut(of.path, "?")
		b.Run(path[1:], func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if a := of.browser.Do(http.MethodGet, of.path, ""); a.Code >= http.StatusInternalServerError {
					b.Fatal(a.Code)
				}
			}
		})
	}
}

// BenchmarkPasskey measures checking the answer of a passkey: its JSON, two reads and the signature.
func BenchmarkPasskey(b *testing.B) {
	for name, key := range identitytest.Signers(b) {
		b.Run(name, func(b *testing.B) {
			h, k := identitytest.New(b, identitytest.PasskeysOn), identitytest.NewAuthenticator(b)
			k.Key, k.Steps = key, 0
			br := h.Browser()
			br.SignIn(identitytest.Demo, identitytest.DemoPassword)
			br.AddPasskey(k)
			challenge := make([]byte, 32)
			answer := k.Use(identitytest.Options{Challenge: identitytest.B64(challenge)})
			b.ReportAllocs()
			for b.Loop() {
				said, err := passkey.ReadAssertion(answer)
				if err != nil {
					b.Fatal(err)
				}
				_, set, err := h.StepUp.Passkeys.OwnerOf(b.Context(), said.RawID)
				if err != nil {
					b.Fatal(err)
				}
				if _, _, err := h.StepUp.Passkeys.Verify(&set, challenge, said, false); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
