package saml_test

import (
	"encoding/base64"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/gatehouse-id/gatehouse/idp"
	"github.com/gatehouse-id/gatehouse/idp/idptest"
	"github.com/gatehouse-id/gatehouse/idp/saml/samltest"
)

// TestContract runs the tests that every provider with a redirect must pass.
func TestContract(t *testing.T) {
	t.Parallel()
	idptest.TestRedirector(t, func(t *testing.T) idptest.Subject {
		t.Helper()
		l := newLab(t)
		return idptest.Subject{Redirector: l.Provider, Answer: func(n *idp.Next) *http.Request {
			q, err := samltest.ReadRequest(httptest.NewRequest(http.MethodGet, n.URL, nil))
			if err != nil {
				t.Fatal(err)
			}
			form := url.Values{
				"SAMLResponse": {base64.StdEncoding.EncodeToString(l.idp.Response(samltest.Honest(q, "ann")))}, "RelayState": {q.RelayState},
			}
			r := httptest.NewRequest(http.MethodPost, acs, strings.NewReader(form.Encode()))
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			return r
		}}
	})
}
