package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
)

// TestAppPassword: a person makes an app password on the account page, git clones with it, and the person sees that and
// revokes it.
func TestAppPassword(t *testing.T) {
	t.Parallel()
	g := newGit(t)
	served := regexp.MustCompile(`(\t\tlogin\n)(\t}\n)\treverse_proxy [^\n]+\n`)
	s := startEdited(t, "", func(caddyfile string) string {
		once := served.FindString(caddyfile)
		return strings.Replace(caddyfile, once, "\t\tlogin\n\t\taccept app_passwords\n\t}\n\troot * "+g.dir+"\n\tfile_server\n", 1)
	})
	repository := strings.Replace(s.Wiki, "://", "://ann@", 1) + "/repo.git"
	if out, err := g.run(s.Password, "ls-remote", repository); err == nil || !strings.Contains(out, "Authentication failed") {
		t.Errorf("git with the password of the account: %v, %s", err, out)
	}

	b := s.browse(t)
	call(b, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
	b.open(s.Issuer + "/account")
	b.signIn(person, s.Password)
	call(b, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{})
	see := look(b, "app-passwords-")
	b.open(s.Issuer + "/account/security")
	see("security")
	b.click(`a[href="/account/security/app-passwords"]`)
	see("none")
	b.fill("#name", " ")
	b.click("section[aria-labelledby=new] form button")
	see("wrong")
	b.fill("#name", "Git on my <laptop>")
	b.click("section[aria-labelledby=new] form button")
	see("made")
	password := b.text("p.secret code")
	if !strings.HasPrefix(password, "ghpw_") {
		t.Fatalf("the page shows %q as app password: %s", password, b.text("main"))
	}
	s.secret("the app password", password)
	if out, err := g.run(password, "clone", repository, filepath.Join(g.dir, "copy")); err != nil {
		t.Fatalf("git with the app password: %v, %s", err, out)
	}
	b.open(s.Issuer + "/account/security/app-passwords")
	see("used")
	if text := b.text("main"); !strings.Contains(text, "Git on my <laptop>") || !strings.Contains(text, "127.0.0.1") &&
		!strings.Contains(text, "::1") {
		t.Errorf("the page does not say where the app password was used: %s", text)
	}
	b.click("section[aria-labelledby=have] form button")
	see("revoked")
	if out, err := g.run(password, "ls-remote", repository); err == nil || !strings.Contains(out, "Authentication failed") {
		t.Errorf("git with a revoked app password: %v, %s", err, out)
	}
}

// git runs git with a configuration of its own. dir holds repo.git, a repository with one commit.
type git struct {
	t   *testing.T
	dir string
}

func newGit(t *testing.T) *git {
	t.Helper()
	g := &git{t, t.TempDir()}
	ask := "#!/bin/sh\necho \"$TEST_PASSWORD\"\n"
	if err := os.WriteFile(filepath.Join(g.dir, ".ask"), []byte(ask), 0o700); err != nil { //nolint:gosec // git runs it
		t.Fatal(err)
	}
	work := filepath.Join(g.dir, "work")
	for _, args := range [][]string{
		{"init", "--quiet", "--initial-branch=main", work},
		{"-C", work, "commit", "--quiet", "--allow-empty", "--message=first"},
		{"clone", "--quiet", "--bare", work, filepath.Join(g.dir, "repo.git")},
		{"-C", filepath.Join(g.dir, "repo.git"), "update-server-info"},
	} {
		if out, err := g.run("", args...); err != nil {
			t.Fatalf("git %s: %v, %s", strings.Join(args, " "), err, out)
		}
	}
	return g
}

// run runs git, which asks for a password and gets this one.
func (g *git) run(password string, args ...string) (string, error) {
	g.t.Helper()
	cmd := exec.CommandContext(g.t.Context(), "git", args...)
	cmd.Env = append(os.Environ(), "HOME="+g.dir, "GIT_CONFIG_NOSYSTEM=1", "GIT_TERMINAL_PROMPT=0",
		"GIT_ASKPASS="+filepath.Join(g.dir, ".ask"), "TEST_PASSWORD="+password,
		"GIT_AUTHOR_NAME=Ann", "GIT_AUTHOR_EMAIL=ann@example.com", "GIT_COMMITTER_NAME=Ann", "GIT_COMMITTER_EMAIL=ann@example.com", "LC_ALL=C")
	out, err := cmd.CombinedOutput()
	return string(out), err
}
