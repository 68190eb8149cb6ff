//go:build apps

package e2e

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestOAuth2Proxy builds oauth2-proxy and runs it with the settings of its page in docs/integrations: the person gets
// through with their groups, those of another group do not, and the sign-out of the page ends both sessions.
func TestOAuth2Proxy(t *testing.T) {
	t.Parallel()
	program := filepath.Join(t.TempDir(), "oauth2-proxy")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", program, "github.com/oauth2-proxy/oauth2-proxy/v7")
	build.Dir = "apps"
	build.Env = append(os.Environ(), "GOFLAGS=-trimpath")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	behind := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "%s in %s", r.Header.Get("X-Forwarded-Preferred-Username"), r.Header.Get("X-Forwarded-Groups"))
	}))
	t.Cleanup(behind.Close)
	port := freePorts(t, 1)[0]
	here := fmt.Sprintf("http://localhost:%d", port)
	apps, clients, _ := integrations(t)
	app := apps[slices.IndexFunc(apps, func(a integrated) bool { return a.page == "oauth2-proxy" })]
	s := startEdited(t, "", func(config string) string {
		return strings.Replace(config, "client shop {", strings.ReplaceAll(clients, "https://app.example.com", here)+"client shop {", 1)
	})
	s.secret("secret of oauth2-proxy", app.secret)
	at := strings.NewReplacer("https://auth.example.com", s.Issuer, "https://app.example.com", here, `"…"`, `"`+app.secret+`"`,
		"app.example.com", fmt.Sprintf("localhost:%d", port), "auth.example.com", strings.TrimPrefix(s.Issuer, "http://"))
	page := read(t, "../docs/integrations/oauth2-proxy.md")
	settings := ""
	for _, b := range app.blocks {
		if b.lang == "ini" {
			settings += at.Replace(b.text)
		}
	}
	only := regexp.MustCompile("`(allowed_groups = .*?)`").FindStringSubmatch(page)[1]
	begin := func(t *testing.T, settings string) {
		t.Helper()
		dir := t.TempDir()
		file := filepath.Join(dir, "oauth2-proxy.cfg")
		if err := os.WriteFile(file, []byte(settings), 0o600); err != nil {
			t.Fatal(err)
		}
		g := &guide{server: &server{t: t, dir: dir}}
		g.launch(here, dir, nil, program, "--config="+file, "--cookie-secret="+random(24), "--cookie-secure=false",
			"--http-address="+strings.TrimPrefix(here, "http://"), "--upstream="+behind.URL)
	}

	enter := func(t *testing.T) *tab {
		t.Helper()
		b := s.browse(t)
		b.open(here + "/")
		b.click("form button")
		b.signIn(person, s.Password)
		return b
	}

	t.Run("in and out", func(t *testing.T) { //nolint:paralleltest // the programs listen at one address
		begin(t, settings+only+"\n")
		b := enter(t)
		b.click("button[value=allow]")
		b.reaches(here + "/")
		if got := b.text("body"); got != person+" in staff" {
			t.Fatalf("at %s the upstream sees %q", b.location(), got)
		}
		out := at.Replace(regexp.MustCompile("`(https://auth[^`]*/oauth/logout[^`]*)`").FindStringSubmatch(page)[1])
		b.open(here + "/oauth2/sign_out?rd=" + url.QueryEscape(out))
		b.click("main form button:not([type])")
		b.reaches(s.Issuer)
		b.open(here + "/")
		b.click("form button")
		if !b.has("#password") {
			t.Errorf("after the sign-out the browser is at %s, want to be asked for the password", b.location())
		}
	})
	t.Run("another group", func(t *testing.T) { //nolint:paralleltest // the programs listen at one address
		begin(t, settings+strings.Replace(only, "staff", "board", 1)+"\n")
		b := enter(t) // what was allowed is remembered
		b.reaches(here + "/")
		if got := b.text("body"); !strings.Contains(got, "403") {
			t.Errorf("at %s somebody who is not in the group sees %q", b.location(), got)
		}
	})
}
