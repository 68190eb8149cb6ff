package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// host is a machine on which docs/operation.md is followed: its directories are below dir, and the test is its service
// manager.
type host struct {
	t             *testing.T
	dir           string
	paths         *strings.Replacer // of the document to those below dir
	issuer, admin string
	unit          string          // the unit file
	roots         map[string]bool // the files of the service that root has made while it did not run
	cmd           *exec.Cmd
	exit          chan error
	log           bytes.Buffer
}

// TestOperationGuide runs every command of docs/operation.md in its order: the service starts, is upgraded, restored
// and moved, and the keys and clients are still there.
func TestOperationGuide(t *testing.T) {
	t.Parallel()
	guide := read(t, "../docs/operation.md")
	ports := freePorts(t, 2)
	h := &host{
		t: t, dir: t.TempDir(), roots: map[string]bool{},
		issuer: fmt.Sprintf("http://localhost:%d", ports[0]), admin: fmt.Sprintf("localhost:%d", ports[1]),
	}
	h.paths = strings.NewReplacer("/usr/local/bin", h.dir+"/bin", "/etc/caddy", h.dir+"/etc", "/var/lib/gatehouse", h.dir+"/lib",
		"/var/backups", h.dir+"/backups", "/tmp/caddy-new", h.dir+"/bin/new", "https://auth.example.com", h.issuer,
		"auth.example.com {", h.issuer+" {")
	blocks := map[string][]string{}
	for _, m := range regexp.MustCompile("(?s)```([a-z]+)\n(.*?)```").FindAllStringSubmatch(guide, -1) {
		blocks[m[1]] = append(blocks[m[1]], h.paths.Replace(m[2]))
	}
	rotated := slices.IndexFunc(blocks["caddyfile"], func(c string) bool { return strings.Contains(c, "encryption_key") })
	if rotated < 1 || len(blocks["ini"]) != 1 || len(blocks["sh"]) < 7 {
		t.Fatalf("the guide shows %d Caddyfiles, %d units and %d blocks of commands", len(blocks["caddyfile"]),
			len(blocks["ini"]), len(blocks["sh"]))
	}
	h.unit = blocks["ini"][0]
	if !slices.ContainsFunc(blocks["sh"], copyOfStorage.MatchString) {
		t.Error("the guide copies no storage")
	}
	h.install(blocks["caddyfile"][0])
	t.Cleanup(func() {
		if h.cmd != nil {
			h.systemctl("stop")
		}
		if t.Failed() {
			t.Logf("the log:\n%s", h.log.String())
		}
	})
	keys := ""
	for _, block := range blocks["sh"] {
		if strings.HasPrefix(block, "install ") { // the new machine
			if err := os.Rename(h.dir+"/lib", h.dir+"/lib.old-machine"); err != nil {
				t.Fatal(err)
			}
		}
		copied := copyOfStorage.FindStringSubmatch(block)
		if copied != nil && !strings.HasPrefix(copied[2], h.dir+"/lib/") {
			t.Fatalf("the unit cannot write to %s", copied[2])
		}
		for line := range strings.Lines(block) {
			h.do(strings.TrimSpace(line))
		}
		if copied != nil {
			before := read(t, h.dir+"/etc/Caddyfile")
			h.write("etc/Caddyfile", strings.Replace(before, "badger "+copied[1]+"\n", "badger "+copied[2]+"\n", 1))
			h.systemctl("start")
			h.issues()
			if h.get("/oauth/jwks") != keys {
				t.Error("on the copy the signing keys are others")
			}
			h.systemctl("stop")
			h.write("etc/Caddyfile", before)
			h.systemctl("start")
		}
		if h.cmd == nil {
			continue
		}
		h.issues()
		if now := h.get("/oauth/jwks"); keys == "" {
			keys = now
		} else if now != keys {
			t.Errorf("after\n%sthe signing keys are others", block)
		}
	}
	// A new encryption key before the old one.
	h.systemctl("stop")
	h.write("etc/Caddyfile", h.local(blocks["caddyfile"][rotated]))
	h.write("etc/secrets.env", "GATEHOUSE_KEY=MTIzNDU2Nzg5MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTI=\n")
	h.systemctl("start")
	if h.get("/oauth/jwks") != keys {
		t.Error("with a new encryption key before the old one the signing keys are others")
	}
}

// copyOfStorage is the command that copies the records of a directory into another.
var copyOfStorage = regexp.MustCompile(`(?m)^caddy gatehouse storage copy (\S+) (\S+)$`)

func (h *host) mkdir(name string) {
	h.t.Helper()
	if err := os.MkdirAll(filepath.Join(h.dir, name), 0o700); err != nil {
		h.t.Fatal(err)
	}
}

func (h *host) write(name, content string) {
	h.t.Helper()
	if err := os.WriteFile(filepath.Join(h.dir, name), []byte(content), 0o700); err != nil { //nolint:gosec // some are run
		h.t.Fatal(err)
	}
}

// local adds what a Caddyfile needs besides other tests.
func (h *host) local(caddyfile string) string {
	return strings.Replace(caddyfile, "{\n", "{\n\tadmin "+h.admin+"\n\tauto_https off\n", 1)
}

func (h *host) install(caddyfile string) {
	h.t.Helper()
	for _, dir := range []string{"bin", "etc", "backups", "stubs"} {
		h.mkdir(dir)
	}
	for _, name := range []string{"caddy", "new"} {
		if err := os.Symlink(binary, filepath.Join(h.dir, "bin", name)); err != nil {
			h.t.Fatal(err)
		}
	}
	h.write("etc/Caddyfile", h.local(caddyfile))
	h.write("etc/secrets.env", "REPORTS_SECRET="+reportsOfGuide+"\n")
	h.write("stubs/chown", "#!/bin/sh\n")   // there is no user caddy
	h.write("stubs/useradd", "#!/bin/sh\n") // and none is added
	// Commands that talk to the server find its admin address, which is not the usual one.
	h.write("stubs/caddy", fmt.Sprintf("#!/bin/sh\ncase \"$1 $2\" in\n'gatehouse restore'|'gatehouse storage'|validate*) exec %[1]s/bin/caddy \"$@\";;\n*) exec %[1]s/bin/caddy \"$@\" --address %[2]s;;\nesac\n", h.dir, h.admin))
}

const reportsOfGuide = "the-secret-of-reports-in-the-guide-of-operation"

// env is the environment of the service and of the commands.
func (h *host) env() []string {
	env := []string{"PATH=" + h.dir + "/stubs:" + os.Getenv("PATH"), "HOME=" + h.dir}
	for _, m := range regexp.MustCompile(`(?m)^Environment=(.*)$`).FindAllStringSubmatch(h.unit, -1) {
		env = append(env, strings.Fields(m[1])...)
	}
	return env
}

// do runs a line of the guide.
func (h *host) do(line string) {
	h.t.Helper()
	if action, ok := strings.CutPrefix(line, "systemctl "); ok {
		h.systemctl(strings.TrimSuffix(action, " caddy"))
		return
	}
	before := h.files()
	cmd := exec.Command("sh", "-c", line)
	cmd.Dir, cmd.Env = h.dir, h.env()
	if out, err := cmd.CombinedOutput(); err != nil {
		h.t.Fatalf("%s: %v\n%s", line, err, out)
	}
	if h.cmd != nil {
		return
	}
	for file := range h.files() {
		h.roots[file] = h.roots[file] || !before[file]
	}
	if dir, ok := strings.CutPrefix(line, "chown -R caddy:caddy "); ok {
		maps.DeleteFunc(h.roots, func(file string, _ bool) bool { return strings.HasPrefix(file+"/", dir+"/") })
	}
}

// files are those of the service, with their directories.
func (h *host) files() map[string]bool {
	h.t.Helper()
	all := map[string]bool{}
	err := filepath.WalkDir(h.dir+"/lib", func(file string, _ fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) { // the service removes files too
			return nil
		}
		all[file] = true
		return err
	})
	if err != nil {
		h.t.Fatal(err)
	}
	return all
}

// command returns the command of the unit with this name.
func (h *host) command(name string) *exec.Cmd {
	h.t.Helper()
	m := regexp.MustCompile(`(?m)^` + name + `=(.+)$`).FindStringSubmatch(h.unit)
	if m == nil {
		h.t.Fatalf("the unit has no %s", name)
	}
	args := strings.Fields(m[1])
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = h.dir, h.env(), &h.log, &h.log
	for line := range strings.Lines(read(h.t, filepath.Join(h.dir, "etc/secrets.env"))) {
		cmd.Env = append(cmd.Env, strings.TrimSpace(line))
	}
	return cmd
}

func (h *host) systemctl(action string) {
	h.t.Helper()
	switch action {
	case "start":
		for file, of := range h.roots {
			if of {
				h.t.Fatalf("%s belongs to root at the start of the service", file)
			}
		}
		h.mkdir("lib") // as StateDirectory has it
		h.cmd, h.exit = h.command("ExecStart"), make(chan error, 1)
		if err := h.cmd.Start(); err != nil {
			h.t.Fatal(err)
		}
		go func(cmd *exec.Cmd, exit chan error) { exit <- cmd.Wait() }(h.cmd, h.exit)
		for deadline := time.Now().Add(2 * time.Minute); ; {
			if resp, err := http.Get(h.issuer + "/healthz"); err == nil {
				resp.Body.Close()
				if resp.StatusCode == http.StatusOK {
					return
				}
			}
			select {
			case err := <-h.exit:
				h.cmd = nil
				h.t.Fatalf("the service ended at its start: %v", err)
			case <-time.After(20 * time.Millisecond):
			}
			if time.Now().After(deadline) {
				h.t.Fatal("the service is not ready after two minutes")
			}
		}
	case "stop":
		if err := h.cmd.Process.Signal(syscall.SIGTERM); err != nil {
			h.t.Fatal(err)
		}
		if err := <-h.exit; err != nil {
			h.t.Errorf("the service ended with %v", err)
		}
		h.cmd = nil
	case "restart":
		h.systemctl("stop")
		h.systemctl("start")
	case "reload":
		if err := h.command("ExecReload").Run(); err != nil {
			h.t.Fatalf("reload: %v", err)
		}
	default:
		h.t.Fatalf("systemctl %s is not known to this test", action)
	}
}

func (h *host) get(path string) string {
	h.t.Helper()
	resp, err := http.Get(h.issuer + path)
	if err != nil {
		h.t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		h.t.Fatalf("GET %s = %d %s, %v", path, resp.StatusCode, raw, err)
	}
	return string(raw)
}

// issues gets a token for the client of the guide.
func (h *host) issues() {
	h.t.Helper()
	req, err := http.NewRequestWithContext(h.t.Context(), http.MethodPost, h.issuer+"/oauth/token",
		strings.NewReader(url.Values{"grant_type": {"client_credentials"}}.Encode()))
	if err != nil {
		h.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.SetBasicAuth("reports", reportsOfGuide)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		h.t.Fatal(err)
	}
	defer resp.Body.Close()
	if raw, _ := io.ReadAll(resp.Body); resp.StatusCode != http.StatusOK {
		h.t.Errorf("POST /oauth/token = %d %s", resp.StatusCode, raw)
	}
}
