package authz_test

import (
	"fmt"
	"html"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/gatehouse-id/gatehouse/authz"
	"github.com/gatehouse-id/gatehouse/authz/authztest"
)

// document answers every request with the metadata document of a client whose redirect URIs it is.
type document string

func (d document) RoundTrip(r *http.Request) (*http.Response, error) {
	body := fmt.Sprintf(`{"client_id":"%s","client_name":"Assistant","redirect_uris":[%s],"token_endpoint_auth_method":"none"}`,
		authztest.DocumentID, string(d))
	return &http.Response{
		StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}},
		Body: io.NopCloser(strings.NewReader(body)), ContentLength: -1, Request: r,
	}, nil
}

// TestErrorsOfUnregisteredClients: the issuer sends no browser to a place that only a stranger has named, before the
// person has decided about it. (RFC 9700 4.11.2)
func TestErrorsOfUnregisteredClients(t *testing.T) {
	t.Parallel()
	const evil, known, program, app = "https://evil.example/cb", "https://app.example/cb", "http://127.0.0.1:4711/cb", "com.example.app:/cb"
	all := fmt.Sprintf(`"%s","%s","http://127.0.0.1/cb","%s","HTTPS://evil.example/upper"`, evil, known, app)
	ways := map[string]func(t *testing.T, change func(*authz.Config)) (h *authztest.Harness, id string){
		"by a document": func(t *testing.T, change func(*authz.Config)) (*authztest.Harness, string) {
			return authztest.New(t, authztest.WithHTTP(&http.Client{Transport: document(all)}), authztest.WithConfig(func(c *authz.Config) {
				c.Documents.On = true
				change(c)
			})), authztest.DocumentID
		},
		"by registration": func(t *testing.T, change func(*authz.Config)) (*authztest.Harness, string) {
			h := authztest.NewWithRegistration(t)
			metadata := fmt.Sprintf(`{"redirect_uris":[%s],"token_endpoint_auth_method":"none"}`, all)
			id, _ := authztest.MustRegister(t, h, metadata)["client_id"].(string)
			h.Restart(change)
			return h, id
		},
	}
	silent, wrong := []string{"prompt", "none"}, []string{"scope", "nonsense"}
	ask := func(b *authztest.Browser, id, redirect string, changes ...string) *authztest.Response {
		v := authztest.RegisteredParams(id, redirect, "openid")
		v.Del("resource")
		for i := 0; i+1 < len(changes); i += 2 {
			v.Set(changes[i], changes[i+1])
		}
		return b.Get("/oauth/authorize?" + v.Encode())
	}
	for way, start := range ways {
		attack := func(name string, change func(*authz.Config), f func(t *testing.T, h *authztest.Harness, id string)) {
			t.Run("attack 5917: "+name+", "+way, func(t *testing.T) {
				t.Parallel()
				h, id := start(t, change)
				f(t, h, id)
				h.Invariants(t)
			})
		}
		nothing := func(*authz.Config) {}
		attack("the issuer as a redirector, and as an oracle of sign-ins", nothing, func(t *testing.T, h *authztest.Harness, id string) {
			in, out := h.Browser(authztest.Demo).SignIn(authztest.Demo), h.Browser(authztest.Demo)
			for name, res := range map[string]*authztest.Response{
				"a wrong scope":                      ask(out, id, evil, wrong...),
				"a wrong scope, signed in":           ask(in, id, evil, wrong...),
				"a scheme in capitals":               ask(out, id, "HTTPS://evil.example/upper", wrong...),
				"prompt=none":                        ask(out, id, evil, silent...),
				"prompt=none, signed in":             ask(in, id, evil, silent...),
				"a level that is not reached":        ask(in, id, evil, "prompt", "none", "acr_values", "urn:gatehouse:level:4"),
				"an answer in the fragment":          ask(out, id, evil, "scope", "nonsense", "response_mode", "fragment"),
				"an answer by a form, without a way": ask(out, id, evil, "scope", "nonsense", "response_mode", "form_post"),
			} {
				authztest.WantPage(t, name, res, http.StatusBadRequest)
				if !strings.Contains(res.Body, "Continue to evil.example") || strings.Contains(res.Body, "<script") || res.Header.Get("Refresh") != "" {
					t.Errorf("%s: the page does not leave it to the person to go to evil.example:\n%s", name, res.Body)
				}
			}
		})
		attack("the link of the page", nothing, func(t *testing.T, h *authztest.Harness, id string) {
			res := ask(h.Browser(authztest.Demo), id, evil, wrong...)
			_, link, _ := strings.Cut(res.Body, `href="`+evil)
			link, _, _ = strings.Cut(link, `"`)
			u, err := url.Parse(evil + html.UnescapeString(link))
			if err != nil || u.Query().Get("error") != "invalid_scope" || u.Query().Get("state") != "s" || u.Query().Get("iss") != h.Issuer {
				t.Errorf("the link leads to %v, %v; want the answer that the client expects", u, err)
			}
			form := ask(h.Browser(authztest.Demo), id, evil, "scope", "nonsense", "response_mode", "form_post")
			action, fields := authztest.Form(form.Body)
			if action != evil || fields.Get("error") != "invalid_scope" ||
				!strings.Contains(form.Header.Get("Content-Security-Policy"), "form-action 'self' "+evil) {
				t.Errorf("the form goes to %s with %v", action, fields)
			}
		})
		for name, change := range map[string]func(*authz.Config){
			"a host of redirect_hosts": func(c *authz.Config) { c.Registration.RedirectHosts = []string{"app.example"} },
			"hosts below one":          func(c *authz.Config) { c.Registration.RedirectHosts = []string{"*.example"} },
		} {
			t.Run(name+", "+way, func(t *testing.T) {
				t.Parallel()
				h, id := start(t, change)
				b := h.Browser(authztest.Demo)
				authztest.WantRedirectError(t, h, "a wrong scope", ask(b, id, known, wrong...), "invalid_scope")
				authztest.WantRedirectError(t, h, "prompt=none", ask(b, id, known, silent...), "login_required")
			})
		}
		t.Run("applications of this machine, "+way, func(t *testing.T) {
			t.Parallel()
			h, id := start(t, nothing)
			b := h.Browser(authztest.Demo)
			for _, uri := range []string{program, app} {
				if target, params := ask(b, id, uri, wrong...).Redirect(); target != uri || params.Get("error") != "invalid_scope" {
					t.Errorf("an application that waits at %s gets %s %v, want the error", uri, target, params)
				}
			}
		})
		t.Run("what the person has decided, "+way, func(t *testing.T) {
			t.Parallel()
			h, id := start(t, nothing)
			v := authztest.RegisteredParams(id, evil, "openid")
			v.Del("resource")
			b := h.Browser(authztest.Demo)
			b.Decision = "deny"
			authztest.WantRedirectError(t, h, "denied", b.Follow("/oauth/authorize?"+v.Encode()), "access_denied")
			authztest.WantPage(t, "after a denial", ask(b, id, evil, silent...), http.StatusBadRequest)
			b.Decision = "allow"
			authztest.AllowDocument(t, h, b, v)
			authztest.WantRedirectError(t, h, "allowed before", ask(b, id, evil, wrong...), "invalid_scope")
			if code := ask(b, id, evil, silent...); !strings.HasPrefix(code.Location(), evil+"?code=") {
				t.Errorf("prompt=none after the person has allowed it = %d %s, want a code", code.Status, code.Location())
			}
			authztest.WantPage(t, "another person", ask(h.Browser(authztest.Guest).SignIn(authztest.Guest), id, evil, silent...),
				http.StatusBadRequest)
		})
	}
	t.Run("a document of a host that the operator trusts", func(t *testing.T) {
		t.Parallel()
		h, id := ways["by a document"](t, func(c *authz.Config) { c.Documents.Trust = []string{"app.example"} })
		authztest.WantRedirectError(t, h, "a wrong scope", ask(h.Browser(authztest.Demo), id, evil, wrong...), "invalid_scope")
	})
}

// TestSchemeInCapitals: the consent page names the host of an address whose scheme is written in capitals.
func TestSchemeInCapitals(t *testing.T) {
	t.Parallel()
	authztest.Attack(t, "attack 5917: a host behind a scheme in capitals", func(t *testing.T, h *authztest.Harness) {
		b := h.Browser(authztest.Demo)
		b.Decision = "-"
		v := authztest.DocumentParams("HTTPS://evil.example/upper", "openid")
		v.Del("resource")
		if page := b.Follow("/oauth/authorize?" + v.Encode()); !strings.Contains(page.Body, "You will then go to evil.example.") {
			t.Errorf("the page does not name the host:\n%s", page.Body)
		}
	}, authztest.WithHTTP(&http.Client{Transport: document(`"HTTPS://evil.example/upper"`)}),
		authztest.WithConfig(func(c *authz.Config) { c.Documents.On = true }))
}
