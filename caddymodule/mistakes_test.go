package caddymodule_test

import (
	"encoding/json"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/gatehouse-id/gatehouse/admin/diagnostic"
	"github.com/gatehouse-id/gatehouse/caddymodule/servertest"
	"github.com/gatehouse-id/gatehouse/caddymodule/servertest/caddytest"
)

// mistake is a Caddyfile with a mistake that people make, in a directory of its own.
type mistake struct {
	*testing.T

	text        string
	port, other string
}

// TestMistakes holds the messages of the mistakes that people make: a Caddyfile above the line, and below it what they
// are told by `caddy validate`, at the start and by `caddy gatehouse check`. Each message names the place, the reason
// and the fix, as far as it is ours: 10 is Caddy's.
func TestMistakes(t *testing.T) {
	files, err := filepath.Glob("testdata/mistakes/*.caddyfiletest")
	if err != nil || len(files) != 72 {
		t.Fatalf("%d files: %v", len(files), err)
	}
	home, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("XDG_DATA_HOME", t.TempDir()) // the storage that is the default may be there already
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".caddyfiletest")
		t.Run(name, func(t *testing.T) {
			raw, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			input, want, _ := strings.Cut(string(raw), separator)
			t.Chdir(t.TempDir())
			m := &mistake{T: t, port: caddytest.FreePort(t), other: caddytest.FreePort(t)}
			m.text = strings.NewReplacer("$PORT", m.port, "$OTHER", m.other).Replace(input)
			m.write("Caddyfile", m.text)
			got := m.told(name)
			if *update {
				if err := os.WriteFile(filepath.Join(home, file), []byte(input+separator+got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("messages differ from %s (-want +got):\n%s", file, diff)
			}
		})
	}
}

func (m *mistake) write(name, text string) {
	m.Helper()
	servertest.WriteFile(m.T, name, text, 0o600)
}

// told returns what the operator is told, with what differs from run to run replaced.
func (m *mistake) told(name string) string {
	m.Helper()
	m.prepare(name)
	lines := m.lines(strings.Contains(m.text, "storage badger"))
	if len(lines) == 0 {
		m.Error("silence")
	}
	dir, err := os.Getwd()
	if err != nil {
		m.Fatal(err)
	}
	out := strings.NewReplacer(dir, "$DIR", m.port, "$PORT", m.other, "$OTHER").Replace(strings.Join(lines, "\n") + "\n")
	if name == "10_port_of_another_program" && (strings.Contains(out, "address already in use") || strings.Contains(out, "another process")) {
		return "start    either Caddy or Gatehouse says it, whichever starts first\n"
	}
	return regexp.MustCompile(`process \([0-9]+\)`).ReplaceAllString(out, "process ($$PID)")
}

// lines are the messages. A configuration that can be tried only by starting it is started.
func (m *mistake) lines(start bool) (lines []string) {
	m.Helper()
	raw, warnings, err := caddyconfig.GetAdapter("caddyfile").Adapt([]byte(m.text), map[string]any{"filename": "Caddyfile"})
	if err != nil {
		return []string{"error    " + err.Error()}
	}
	for _, w := range warnings {
		if w.Directive == "protect" || w.Directive == "gatehouse" {
			lines = append(lines, "adapt    "+w.String())
		}
	}
	found, err := diagnostic.Collect(func() error {
		var config caddy.Config
		if err := json.Unmarshal(raw, &config); err != nil {
			return err
		}
		return caddy.Validate(&config)
	})
	for _, f := range found {
		if f.Severity == diagnostic.Warning { // err has the others
			lines = append(lines, "warning  "+f.String())
		}
	}
	if err != nil {
		// Caddy provisions its apps in random order, and says through which of them it came.
		text := err.Error()
		return append(lines, "validate ... "+text[strings.LastIndex(text, "provision gatehouse: ")+len("provision gatehouse: "):])
	}
	if !start {
		return lines
	}
	admin := servertest.FreeAddr(m.T)
	raw = servertest.KeepSockets(m.T, raw) // check says the same of every mistake without it
	raw = []byte(strings.Replace(string(raw), "{", `{"admin":{"listen":"`+admin+`","config":{"persist":false}},`, 1))
	m.Cleanup((&servertest.Server{T: m.T}).Stop)
	if err := caddy.Load(raw, true); err != nil {
		return append(lines, "start    "+err.Error())
	}
	out, err := servertest.Run(m.T, "", "check", "--address", admin, "--json")
	var answer struct {
		Findings []diagnostic.Finding `json:"findings"`
	}
	if out != "" {
		answer.Findings = servertest.Decode[struct {
			Findings []diagnostic.Finding `json:"findings"`
		}](m.T, out).Findings
	}
	for _, f := range answer.Findings {
		lines = append(lines, "check    "+string(f.Severity)+" "+f.String())
	}
	if err != nil {
		lines = append(lines, "check    "+err.Error())
	}
	return lines
}

// prepare makes the surroundings of some mistakes.
func (m *mistake) prepare(name string) {
	m.Helper()
	switch name {
	case "09_storage_not_writable":
		// A file where the directory should be: root, who may run this test, can write to every directory.
		m.write("sealed", "")
	case "10_port_of_another_program":
		l, err := net.Listen("tcp", "127.0.0.1:"+m.port)
		if err != nil {
			m.Fatal(err)
		}
		m.Cleanup(func() { _ = l.Close() })
	case "11_port_of_another_gatehouse":
		listenElsewhere(m.T, m.port)
	case "25_bootstrap_typo":
		m.write("units.json", `{"features":{"signup_enabled":true,"password_reset_enable":true},"password_policy":{"min_lengt":10}}`)
	case "33_storage_of_another_process":
		lockStorage(m.T, "store")
	case "54_metadata_is_html":
		m.write("page.html", "<!doctype html>\n<html><body>Sign in to download</body></html>\n")
	case "36_key_lost":
		m.startOnce(m.text)
		if err := os.Remove("store.key"); err != nil {
			m.Fatal(err)
		}
	case "37_person_changed":
		m.startOnce(strings.NewReplacer("another password of demo", "the first password of demo", "Demo Two", "Demo One",
			"staff admins\n", "staff\n",
			"identity {\n", "identity {\n\t\t\tperson gone@example.com {\n\t\t\t\tname Gone\n\t\t\t}\n").Replace(m.text))
	}
}

// startOnce starts a Caddyfile and stops it again.
func (m *mistake) startOnce(text string) {
	m.Helper()
	raw, _, err := caddyconfig.GetAdapter("caddyfile").Adapt([]byte(text), map[string]any{"filename": "Caddyfile"})
	if err != nil {
		m.Fatal(err)
	}
	if err := caddy.Load([]byte(strings.Replace(string(raw), "{", `{"admin":{"disabled":true,"config":{"persist":false}},`, 1)),
		true); err != nil {
		m.Fatal(err)
	}
	(&servertest.Server{T: m.T}).Stop()
}

// lockStorage locks a storage as process 4242 would.
func lockStorage(t *testing.T, dir string) {
	t.Helper()
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	f, err := os.Create(filepath.Join(dir, "GATEHOUSE.LOCK"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	if _, err := f.WriteString("4242\n"); err != nil {
		t.Fatal(err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
}

const listenVariable = "GATEHOUSE_TEST_LISTEN"

// listenElsewhere lets another process listen at a port that it shares, as Caddy does.
func listenElsewhere(t *testing.T, port string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestListenElsewhere$")
	cmd.Env = append(os.Environ(), listenVariable+"="+port)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	if n, err := out.Read(make([]byte, 9)); err != nil || n != 9 {
		t.Fatalf("the other process does not listen: %v", err)
	}
}

// TestListenElsewhere is the other process of listenElsewhere.
func TestListenElsewhere(t *testing.T) {
	port := os.Getenv(listenVariable)
	if port == "" {
		return
	}
	config := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) (err error) {
		ctlErr := c.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEPORT, 1) })
		if err == nil {
			err = ctlErr
		}
		return err
	}}
	if _, err := config.Listen(t.Context(), "tcp", "127.0.0.1:"+port); err != nil {
		t.Fatal(err)
	}
	os.Stdout.WriteString("listening")
	<-t.Context().Done()
	select {} // until it is killed
}
