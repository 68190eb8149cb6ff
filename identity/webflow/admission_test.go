package webflow_test

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/gatehouse-id/gatehouse/identity/identitytest"
	"github.com/gatehouse-id/gatehouse/internal/authn"
)

// TestSignInCountsByItsSize: a sign-in keeps what the request that leads to it has brought, which strangers choose.
func TestSignInCountsByItsSize(t *testing.T) {
	t.Parallel()
	const large = 10_000
	h := identitytest.New(t)
	var counted atomic.Int64
	h.Admit = func(_ *http.Request, size int) bool {
		counted.Add(int64(size))
		return true
	}
	h.Start()
	begin := func() int64 {
		counted.Store(0)
		h.Browser().Get("/next?client")
		return counted.Load()
	}
	small := begin()
	plain := h.Demand
	h.Demand = func(r *http.Request) authn.Demand {
		d := plain(r)
		d.CustomParams = map[string][]string{"k": {strings.Repeat("v", large)}}
		return d
	}
	if n := begin() - small; small == 0 || n < large || n > large+100 {
		t.Errorf("%d bytes more than the %d of a small sign-in were counted, want some more than %d", n, small, large)
	}
}
