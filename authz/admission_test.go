package authz_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/gatehouse-id/gatehouse/authz/authztest"
)

// TestStoredBytesAreCounted: strangers choose how large a request is, and a short address can have it stored again.
func TestStoredBytesAreCounted(t *testing.T) {
	t.Parallel()
	const large = 10_000
	padded := func(h *authztest.Harness) url.Values {
		v := h.Params("spa")
		for i := range 20 {
			v.Set(fmt.Sprintf("external_idp_custom_param.k%d", i), strings.Repeat("v", large/20))
		}
		return v
	}
	var counted atomic.Int64
	authztest.Attack(t, "attack 9268: large requests of strangers", func(t *testing.T, h *authztest.Harness) {
		want := func(what string, res *authztest.Response, status int) {
			t.Helper()
			authztest.WantStatus(t, what, res, status)
			if n := counted.Swap(0); n < large || n > 2*large {
				t.Errorf("%s: %d bytes were counted, want some more than %d", what, n, large)
			}
		}
		want("GET", h.Get("/oauth/authorize?"+padded(h).Encode()), http.StatusSeeOther)
		res := h.Post("/oauth/authorize", padded(h))
		want("POST", res, http.StatusSeeOther)
		for range 2 {
			want("GET after the POST", h.Get(res.Location()), http.StatusSeeOther)
		}
		want("PAR", h.Post("/oauth/par", padded(h)), http.StatusCreated)
	}, authztest.WithAdmission(func(_ *http.Request, size int) bool {
		counted.Add(int64(size))
		return true
	}))
}
