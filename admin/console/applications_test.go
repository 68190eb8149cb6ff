package console

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/authz/client"
	"github.com/gatehouse-id/gatehouse/internal/audit"
)

// call sends a form to an endpoint of the authorization server with Basic credentials.
func (h *harness) call(path, id, secret string, form url.Values) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, issuer+path, strings.NewReader(form.Encode()))
	r.RemoteAddr = "198.51.100.7:4711"
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.SetBasicAuth(id, secret)
	w := httptest.NewRecorder()
	h.az.ServeHTTP(w, r)
	return w
}

// applicationsOn are the ids of the applications of a page, in its order.
func applicationsOn(a *answer) (ids []string) {
	for _, m := range regexp.MustCompile(`class="row" href="/admin/applications/([^"?]+)"`).FindAllStringSubmatch(a.form(), -1) {
		ids = append(ids, m[1])
	}
	return ids
}

// TestLastUseOfApplications: an application was used when it has shown who it is, or was used for a person. What an API
// client asks about its tokens does not count, nor does a wrong secret. The list shows it, and has the longest unused
// first if someone wants it so.
func TestLastUseOfApplications(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	secrets := map[string]string{}
	for _, id := range []string{"alpha", "zeta"} {
		made, err := h.az.Clients().Add(t.Context(),
			client.Client{ID: id, Grants: []string{"client_credentials"}, Scopes: []string{"orders.read"}, DefaultScopes: []string{"orders.read"}},
			audit.Actor{})
		h.must(err)
		secrets[id] = made
	}
	b, path := h.as("viewer@example.com"), "/admin/applications"
	if a := b.get(path); !slices.Equal(applicationsOn(a), []string{"alpha", "shop", "zeta"}) || strings.Contains(a.form(), "<time") {
		t.Errorf("applications that no one has used:\n%s", a.form())
	}
	if a := b.get(path + "?order=unused"); !slices.Equal(applicationsOn(a), []string{"alpha", "shop", "zeta"}) {
		t.Errorf("applications that no one has used are in the order %q", applicationsOn(a))
	}

	// 12:01 the shop by a code, 12:02 alpha for itself, 12:03 an API client about a token of the shop.
	h.clock.Advance(time.Minute)
	person := h.as("nobody@example.com")
	q := url.Values{"client_id": {"shop"}, "response_type": {"code"}, "scope": {"openid"}, "redirect_uri": {"https://shop.example.com/cb"}}
	asked := person.do(http.MethodGet, "/oauth/authorize?"+q.Encode(), "")
	to, err := url.Parse(person.submit(asked, "decision", "allow").Header().Get("Location"))
	h.must(err)
	shopSecret := strings.Repeat("s3cret-", 6)
	got := h.call("/oauth/token", "shop", shopSecret,
		url.Values{"grant_type": {"authorization_code"}, "code": {to.Query().Get("code")}, "redirect_uri": {"https://shop.example.com/cb"}})
	token := regexp.MustCompile(`"access_token":"([^"]+)"`).FindStringSubmatch(got.Body.String())
	if token == nil {
		t.Fatalf("the code of %s: %d %s", to, got.Code, got.Body)
	}
	h.clock.Advance(time.Minute)
	if got := h.call("/oauth/token", "alpha", secrets["alpha"], url.Values{"grant_type": {"client_credentials"}}); got.Code != http.StatusOK {
		t.Fatalf("client credentials: %d %s", got.Code, got.Body)
	}
	h.clock.Advance(time.Minute)
	if got := h.call("/oauth/api/v2/token/introspect", "billing", strings.Repeat("planted", 6),
		url.Values{"token": {token[1]}}); got.Code != http.StatusOK || !strings.Contains(got.Body.String(), `"active":true`) {
		t.Fatalf("introspection: %d %s", got.Code, got.Body)
	}
	if got := h.call("/oauth/token", "zeta", "wrong", url.Values{"grant_type": {"client_credentials"}}); got.Code != http.StatusUnauthorized {
		t.Fatalf("a wrong secret: %d %s", got.Code, got.Body)
	}
	h.counts.Flush(t.Context())
	h.clock.Advance(time.Minute)
	h.count()
	a := b.get(path)
	if !slices.Equal(applicationsOn(a), []string{"alpha", "shop", "zeta"}) {
		t.Errorf("the list is not in the order of the ids: %q", applicationsOn(a))
	}
	rows := strings.Split(a.form(), "<tr role=\"row\"><td")[1:]
	for i, want := range []string{"12:02 UTC", "12:01 UTC", ">—<"} {
		if !strings.Contains(rows[i], want) {
			t.Errorf("row %d does not say %s: %s", i, want, rows[i])
		}
	}
	if a := b.get(path + "?order=unused"); !slices.Equal(applicationsOn(a), []string{"zeta", "shop", "alpha"}) ||
		!strings.Contains(a.form(), "<option value=\"unused\" selected") {
		t.Errorf("the longest unused first: %q\n%s", applicationsOn(a), a.form())
	}
	if a := b.get(path + "?order=unused&after=shop"); !slices.Equal(applicationsOn(a), []string{"alpha"}) {
		t.Errorf("behind the shop: %q", applicationsOn(a))
	}
	if a := b.get(path + "?after=beta"); !slices.Equal(applicationsOn(a), []string{"shop", "zeta"}) {
		t.Errorf("behind one that is gone: %q", applicationsOn(a))
	}
	for id, wants := range map[string][]string{
		"alpha": {"Last authentication", "12:02 UTC", "198.51.100.7"},
		"shop":  {"Last authentication", "12:01 UTC", "Last sign-in", "198.51.100.7"},
	} {
		for _, want := range wants {
			if a := b.get(path + "/" + id); !strings.Contains(a.form(), want) || strings.Contains(a.form(), "12:03") {
				t.Errorf("the page of %s does not say %q, or something of 12:03:\n%s", id, want, a.form())
			}
		}
	}
	if a := b.get(path + "/zeta"); strings.Contains(a.form(), "Last authentication") {
		t.Errorf("a wrong secret counts:\n%s", a.form())
	}
}
