package dpop_test

import (
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/authz/dpop"
	"github.com/gatehouse-id/gatehouse/authz/dpop/dpoptest"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage/badgerstore"
)

const (
	at   = "https://api.example.com/orders"
	text = "an-access-token"
)

// BenchmarkCheck checks proofs of one key, as of a client that sends one with each request. Most of it is the
// signature.
func BenchmarkCheck(b *testing.B) {
	store, err := badgerstore.OpenMemory()
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = store.Close() })
	ring, err := secret.NewKeyring(make([]byte, secret.KeySize))
	if err != nil {
		b.Fatal(err)
	}
	p := dpop.New(dpop.Deps{Store: store, Keyring: ring, Now: time.Now})
	key := dpoptest.NewKey(b)
	var sent [64]http.Header
	for i := range sent {
		sent[i] = http.Header{dpop.Header: {key.Proof(http.MethodGet, at, text, time.Now(), dpoptest.Claims{"jti": strconv.Itoa(i)})}}
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if _, err := p.Check(sent[i%len(sent)], dpop.Request{Method: http.MethodGet, URL: at, Token: text}); err != nil {
			b.Fatal(err)
		}
	}
}
