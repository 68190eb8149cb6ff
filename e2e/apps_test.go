//go:build apps

package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// applied is a server with the client of a page in docs/integrations, whose application is to listen at an address of
// this machine.
type applied struct {
	*server
	integrated
	here, text string            // the address of the application, and the page
	at         *strings.Replacer // from the addresses and the secret of the page to those of the test
}

// apply serves the client of a page that has the application at a host. edit makes further changes to the
// configuration; nil: none.
func apply(t *testing.T, page, host string, edit func(caddyfile string) string) *applied {
	t.Helper()
	apps, clients, _ := integrations(t)
	app := apps[slices.IndexFunc(apps, func(a integrated) bool { return a.page == page })]
	local := fmt.Sprintf("localhost:%d", freePorts(t, 1)[0])
	here := "http://" + local
	s := startEdited(t, "", func(config string) string {
		if edit != nil {
			config = edit(config)
		}
		return strings.Replace(config, "client shop {", strings.ReplaceAll(clients, "https://"+host, here)+"client shop {", 1)
	})
	s.secret("secret of "+page, app.secret)
	return &applied{s, app, here, read(t, "../docs/integrations/"+page+".md"), strings.NewReplacer(
		"https://auth.example.com", s.Issuer, "https://"+host, here, "…", app.secret, host, local,
		"auth.example.com", strings.TrimPrefix(s.Issuer, "http://"))}
}

// says returns what the blocks of the page in a language say.
func (a *applied) says(lang string) (text string) {
	for _, b := range a.blocks {
		if b.lang == lang {
			text += a.at.Replace(b.text)
		}
	}
	return text
}

// runs starts the application in a directory.
func (a *applied) runs(t *testing.T, dir string, env []string, command string, args ...string) {
	t.Helper()
	(&guide{server: &server{t: t, dir: dir}}).launch(a.here, dir, env, command, args...)
}

// compiled builds a program of a module below the directory apps.
func compiled(t *testing.T, module, name string, flags ...string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "program")
	goes(t, module, append(append([]string{"build", "-o", file}, flags...), name)...)
	return file
}

// goes runs the go command in a module below the directory apps, with its own flags, and returns what it prints.
func goes(t *testing.T, module string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Dir, cmd.Env = module, append(os.Environ(), "GOFLAGS=-trimpath")
	out, err := cmd.Output()
	if err != nil {
		var said []byte
		if e, ok := err.(*exec.ExitError); ok { //nolint:errorlint // of Output itself
			said = e.Stderr
		}
		t.Fatalf("go %s: %v\n%s", args[0], err, said)
	}
	return strings.TrimSpace(string(out))
}
