package identity_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/gatehouse-id/gatehouse/storage"
)

// BenchmarkCurrent is what it costs to find out who is signed in.
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
		if result, err := h.Current(r); result == nil || err != nil {
			b.Fatal(result, err)
		}
	}
}

// BenchmarkGet is what the hot paths read of a person.
func BenchmarkGet(b *testing.B) {
	h := newHarness(b)
	p, err := h.Person(b.Context(), demo)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		err := h.store.View(b.Context(), func(tx storage.Tx) error {
			_, err := h.Get(tx, p.ID)
			return err
		})
		if err != nil {
			b.Fatal(err)
		}
	}
}
