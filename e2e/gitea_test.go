//go:build apps

package e2e

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestGitea builds Gitea and runs it with the settings of its page in docs/integrations: accounts are made at the first
// sign-in, a group makes administrators, another fills a team and is asked for, and the sign-out ends the session of
// Gitea alone.
func TestGitea(t *testing.T) {
	t.Parallel()
	const head = "ada@example.com"
	a := apply(t, "gitea", "git.example.com", func(config string) string {
		return strings.Replace(config, "person "+person+" {", "person "+head+" {\n\t\t\t\tpassword {env.TEST_PASSWORD}\n"+
			"\t\t\t\tname \"Ada\"\n\t\t\t\tgroups admins\n\t\t\t}\n\t\t\tperson "+person+" {", 1)
	})
	gitea := a.serveGitea(t)

	press := func(b *tab) {
		t.Helper()
		b.open(a.here + "/user/login")
		b.click(`a[href="/user/oauth2/gatehouse"]`)
	}
	leave := func(b *tab) {
		t.Helper()
		b.open(a.here + "/user/settings")
		if status := eval[int](b, `(() => {
			const r = new XMLHttpRequest()
			r.open("POST", "/user/logout", false)
			r.setRequestHeader("X-Csrf-Token", window.config.csrfToken)
			r.send()
			return r.status
		})()`); status != http.StatusOK {
			t.Fatalf("the sign-out of Gitea answers %d", status)
		}
	}
	enter := func(name string) *tab {
		t.Helper()
		b := a.browse(t)
		press(b)
		b.signIn(name, a.Password)
		b.click("button[value=allow]")
		b.reaches(a.here + "/")
		b.open(a.here + "/user/settings")
		want, _, _ := strings.Cut(name, "@")
		if got := eval[string](b, "document.querySelector('#username')?.value"); got != want {
			t.Fatalf("at %s Gitea knows %q, want %q", b.location(), got, want)
		}
		return b
	}
	manages := func(b *tab, want int64) {
		t.Helper()
		if got := b.open(a.here + "/-/admin"); got != want {
			t.Errorf("the page of administrators answers %d, want %d: %s", got, want, b.text("body"))
		}
	}
	demo := enter(person)
	manages(demo, http.StatusOK) // the first account of all, without the group
	ada := enter(head)
	manages(ada, http.StatusOK)
	leave(demo)
	demo.open(a.here + "/user/settings")
	demo.reaches(a.here + "/user/login")
	press(demo) // the session at Gatehouse goes on
	demo.reaches(a.here + "/")
	manages(demo, http.StatusForbidden)

	says := func(expression string) []string {
		t.Helper()
		m := regexp.MustCompile(expression).FindStringSubmatch(a.text)
		if m == nil {
			t.Fatalf("the page does not say %s", expression)
		}
		return m[1:]
	}
	mapped := says("`--group-team-map '(\\{\"staff\": \\{\"(\\w+)\": \\[\"(\\w+)\"\\]\\}\\})'`")
	org, team := mapped[1], mapped[2]
	said := strings.Fields(gitea("admin", "user", "generate-access-token", "--username=ada", "--raw"))
	ask := func(method, path, body string, want int) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, a.here+"/api/v1"+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Authorization", "token "+said[len(said)-1])
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("%s %s: %s, want %d", method, path, resp.Status, want)
		}
	}
	ask("POST", "/orgs", `{"username":"`+org+`"}`, http.StatusCreated)
	ask("POST", "/orgs/"+org+"/teams", `{"name":"`+team+`","permission":"read","units":["repo.code"]}`, http.StatusCreated)
	// the first team of an organisation is that of its owners
	ask("PUT", "/teams/2/members/ada", "", http.StatusNoContent)
	again := func(b *tab) {
		t.Helper()
		leave(b)
		press(b)
		b.reaches(a.here + "/")
	}
	gitea("admin", "auth", "update-oauth", "--id=1", "--group-team-map="+mapped[0], "--group-team-map-removal")
	again(demo)
	again(ada)
	ask("GET", "/teams/2/members/demo", "", http.StatusOK)
	ask("GET", "/teams/2/members/ada", "", http.StatusNotFound)

	gitea(append([]string{"admin", "auth", "update-oauth", "--id=1"},
		strings.Fields(says("`(--required-claim-name groups --required-claim-value staff)`")[0])...)...)
	again(demo)
	leave(ada)
	press(ada)
	ada.reaches(a.here + "/user/oauth2/gatehouse/callback")
	if got := ada.text("body"); !strings.Contains(got, "prohibited") {
		t.Errorf("at %s somebody without the group sees %q", ada.location(), got)
	}
}

// serveGitea builds Gitea and serves it with the settings of its page. It returns what runs a command of it.
func (a *applied) serveGitea(t *testing.T) (gitea func(args ...string) string) {
	t.Helper()
	const module, name = "apps/gitea", "code.gitea.io/gitea"
	program := compiled(t, module, name, "-tags=sqlite,sqlite_unlock_notify")
	dir := t.TempDir()
	me, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "app.ini")
	// Templates and texts come from the module. It has no scripts and styles, as those of a release are made by npm, and
	// pages raise an alert without the first script.
	scripts := filepath.Join(dir, "custom/public/assets/js")
	if err := os.MkdirAll(scripts, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(scripts, "index.js"), []byte("// none\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, fmt.Appendf(nil, `RUN_USER = %s
I_AM_BEING_UNSAFE_RUNNING_AS_ROOT = true
[server]
HTTP_ADDR = 127.0.0.1
HTTP_PORT = %s
ROOT_URL = %s/
STATIC_ROOT_PATH = %s
OFFLINE_MODE = true
DISABLE_SSH = true
[database]
DB_TYPE = sqlite3
[security]
INSTALL_LOCK = true
[log]
LEVEL = Warn
%s`, me.Username, a.here[strings.LastIndex(a.here, ":")+1:], a.here, goes(t, module, "list", "-m", "-f={{.Dir}}", name), a.says("ini")),
		0o600); err != nil {
		t.Fatal(err)
	}
	with := []string{"--config", file, "--work-path", dir}
	gitea = func(args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), program, append(with, args...)...)
		cmd.Dir, cmd.Env = dir, environ(dir)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%q: %v\n%s", args, err, out)
		}
		return string(out)
	}
	gitea("migrate")
	gitea(strings.Fields(strings.ReplaceAll(a.says("text"), "\\\n", " "))[1:]...)
	a.runs(t, dir, nil, program, append(with, "web")...)
	return gitea
}
