package provider_test

import (
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gatehouse-id/gatehouse/caddymodule/servertest"
	"github.com/gatehouse-id/gatehouse/idp/ldap/ldaptest"
	"github.com/gatehouse-id/gatehouse/idp/oidc/oidctest"
)

// TestFirstSignInByAnOldServer: people sign in on our page with what a directory or the token endpoint of an old server
// knows, and from then on with what is here, while the old server is gone.
func TestFirstSignInByAnOldServer(t *testing.T) {
	directory := ldaptest.Start(t, annInDirectory())
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, directory.CA, 0o600); err != nil {
		t.Fatal(err)
	}
	op := oidctest.New(t)
	op.Change(func(s *oidctest.Script) { s.Sub, s.Passwords = "bob", map[string]string{"bob": "bob password"} })
	t.Setenv("LDAP_PASSWORD", ldaptest.ReaderPW)
	t.Setenv("OLD_SECRET", oidctest.ClientSecret)
	s := servertest.NewServer(t)
	s.Site = "protect {\n\t\tlogin\n\t\theaders Remote-User username\n\t\theaders Remote-Groups groups\n\t}\n\trespond `[{http.request.header.Remote-User}] [{http.request.header.Remote-Groups}]`"
	s.Extra = `
		idp directory ldap {
			url ` + directory.URL + `
			ca ` + ca + `
			bind ` + ldaptest.Reader + ` {env.LDAP_PASSWORD}
			base ` + ldaptest.People + `
			match (|(uid=%s)(mail=%s))
			map uid username
			groups {
				map staff crew
			}
			migrate password
		}
		idp old oidc {
			issuer ` + op.URL + `
			client_id ` + oidctest.ClientID + `
			client_secret {env.OLD_SECRET}
			scopes openid email
			map preferred_username username
			couple email
			migrate password
		}`
	s.MustLoad()
	site := "http://" + s.API + "/"
	walk := func(username, password string) (*http.Response, string) {
		b := servertest.NewBrowser(t)
		page, body := b.Open(site)
		if strings.Contains(body, "directory") {
			t.Errorf("the old directory is offered: %s", body)
		}
		return b.Submit(page, body, url.Values{"username": {username}, "password": {password}})
	}
	if page, _ := walk("ann", "wrong"); page.StatusCode != http.StatusUnprocessableEntity {
		t.Errorf("a wrong password: %d", page.StatusCode)
	}
	want := map[string]string{"ann": "[ann] [crew]", "bob": "[bob] []"}
	signIn := func(when string) {
		t.Helper()
		for name, want := range want {
			if page, body := walk(name, name+" password"); body != want {
				t.Errorf("%s, %s: %d %s, want %s", when, name, page.StatusCode, body, want)
			}
		}
	}
	signIn("the first time")
	asked := op.Count("/token")
	directory.Stop()
	op.Change(func(s *oidctest.Script) { s.Passwords = map[string]string{"bob": "changed there"} })
	signIn("while the old servers are gone")
	if n := op.Count("/token"); n != asked {
		t.Errorf("the old server was asked %d more times", n-asked)
	}
	if page, body := walk("carol", "carol password"); page.StatusCode != http.StatusServiceUnavailable ||
		!strings.Contains(body, "can’t be checked right now") {
		t.Errorf("somebody unknown while the directory is gone: %d %s", page.StatusCode, body)
	}
	if out := s.Run("", "person", "list"); !strings.Contains(out, "ann") || !strings.Contains(out, "bob") || strings.Contains(out, "carol") {
		t.Errorf("persons: %s", out)
	}
}
