package oidc_test

import (
	"net/http"
	"testing"

	"github.com/gatehouse-id/gatehouse/idp"
	"github.com/gatehouse-id/gatehouse/idp/idptest"
	"github.com/gatehouse-id/gatehouse/idp/oidc/oidctest"
)

// TestContract runs the contract tests of a Redirector.
func TestContract(t *testing.T) {
	t.Parallel()
	idptest.TestRedirector(t, func(t *testing.T) idptest.Subject {
		t.Helper()
		l := open(t)
		hang := func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
		return idptest.Subject{
			Redirector: l.Provider, Answer: func(n *idp.Next) *http.Request { return l.visit(n) },
			Down: func() {
				l.op.Change(func(s *oidctest.Script) {
					s.Handlers = map[string]http.HandlerFunc{"/.well-known/openid-configuration": hang}
				})
			},
		}
	})
}
