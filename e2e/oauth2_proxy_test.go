//go:build apps

package e2e

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestOAuth2Proxy builds oauth2-proxy and runs it with the settings of its page in docs/integrations: the person gets
// through with their groups, those of another group do not, and the sign-out of the page ends both sessions.
func TestOAuth2Proxy(t *testing.T) {
	t.Parallel()
	program := compiled(t, "apps", "github.com/oauth2-proxy/oauth2-proxy/v7")
	behind := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "%s in %s", r.Header.Get("X-Forwarded-Preferred-Username"), r.Header.Get("X-Forwarded-Groups"))
	}))
	t.Cleanup(behind.Close)
	a := apply(t, "oauth2-proxy", "app.example.com", nil)
	only := regexp.MustCompile("`(allowed_groups = .*?)`").FindStringSubmatch(a.text)[1]
	begin := func(t *testing.T, only string) {
		t.Helper()
		dir := t.TempDir()
		file := filepath.Join(dir, "oauth2-proxy.cfg")
		if err := os.WriteFile(file, []byte(a.says("ini")+only+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		a.runs(t, dir, nil, program, "--config="+file, "--cookie-secret="+random(24), "--cookie-secure=false",
			"--http-address="+strings.TrimPrefix(a.here, "http://"), "--upstream="+behind.URL)
	}
	enter := func(t *testing.T) *tab {
		t.Helper()
		b := a.browse(t)
		b.open(a.here + "/")
		b.click("form button")
		b.signIn(person, a.Password)
		return b
	}

	t.Run("in and out", func(t *testing.T) { //nolint:paralleltest // the programs listen at one address
		begin(t, only)
		b := enter(t)
		b.click("button[value=allow]")
		b.reaches(a.here + "/")
		if got := b.text("body"); got != person+" in staff" {
			t.Fatalf("at %s the upstream sees %q", b.location(), got)
		}
		out := a.at.Replace(regexp.MustCompile("`(https://auth[^`]*/oauth/logout[^`]*)`").FindStringSubmatch(a.text)[1])
		b.open(a.here + "/oauth2/sign_out?rd=" + url.QueryEscape(out))
		b.click("main form button:not([type])")
		b.reaches(a.Issuer)
		b.open(a.here + "/")
		b.click("form button")
		if !b.has("#password") {
			t.Errorf("after the sign-out the browser is at %s, want to be asked for the password", b.location())
		}
	})
	t.Run("another group", func(t *testing.T) { //nolint:paralleltest // the programs listen at one address
		begin(t, strings.Replace(only, "staff", "board", 1))
		b := enter(t) // what was allowed is remembered
		b.reaches(a.here + "/")
		if got := b.text("body"); !strings.Contains(got, "403") {
			t.Errorf("at %s somebody who is not in the group sees %q", b.location(), got)
		}
	})
}
