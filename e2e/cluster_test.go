package e2e

import (
	"errors"
	"io"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// output is the output of a running program.
type output struct {
	mu   sync.Mutex // guards text
	text strings.Builder
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(b)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// TestMakeCluster runs scripts/cluster.sh on other ports and does what it says: a token of one node opens the API at
// the other, a node and the database are killed and come back, and Ctrl-C leaves nothing behind.
func TestMakeCluster(t *testing.T) {
	t.Parallel()
	script, example := read(t, "../scripts/cluster.sh"), read(t, "../Caddyfile.example")
	moved := move(t, script+example)
	root := t.TempDir()
	if err := os.CopyFS(filepath.Join(root, "example"), os.DirFS("../example")); err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{"scripts/cluster.sh": script, "Caddyfile.example": example} {
		name = filepath.Join(root, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o700), //nolint:gosec // a script
			os.WriteFile(name, []byte(moved(content)), 0o700)); err != nil {
			t.Fatal(err)
		}
	}
	var said output
	cmd := exec.Command(filepath.Join(root, "scripts/cluster.sh"))
	cmd.Env, cmd.Stdout, cmd.Stderr = environ(root, "GATEHOUSE_BIN="+binary), &said, &said
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // as a shell starts it
	if signal.Ignored(syscall.SIGINT) {                   // this run is in the background of a shell, and a script cannot trap what is ignored
		signal.Notify(make(chan os.Signal, 1), syscall.SIGINT)
		defer signal.Ignore(syscall.SIGINT)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	var once sync.Once
	var exit error
	ctrlC := func() {
		once.Do(func() {
			_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGINT) // it may have ended
			select {
			case exit = <-ended:
			case <-time.After(2 * time.Minute):
				_ = cmd.Process.Kill() // the test has failed already
				exit = errors.Join(errors.New("it still runs after 2 minutes"), <-ended)
			}
		})
	}
	t.Cleanup(ctrlC)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	until := func(what string, done func() bool) {
		t.Helper()
		for limit := time.After(3 * time.Minute); !done(); {
			select {
			case exit = <-ended:
				ended <- exit
				t.Fatalf("the script ended (%v):\n%s", exit, said.String())
			case <-limit:
				t.Fatalf("%s: not within 3 minutes:\n%s", what, said.String())
			case <-tick.C:
			}
		}
	}
	until("all is up", func() bool { return strings.Contains(said.String(), "Ctrl-C") })
	guide := said.String()
	basic := regexp.MustCompile(`-u (\w+):(\S+)`).FindStringSubmatch(guide)
	issuer := regexp.MustCompile(`(http://localhost:\d+)/oauth/token`).FindStringSubmatch(guide)
	api := regexp.MustCompile(`"Authorization: Bearer \$TOKEN" (\S+)`).FindStringSubmatch(guide)
	dir := regexp.MustCompile(`logs lie in (\S+),`).FindStringSubmatch(guide)
	look := regexp.MustCompile(`The nodes +(\S+)`).FindStringSubmatch(guide)
	admin := regexp.MustCompile(`gatehouse nodes --address (\S+)`).FindStringSubmatch(guide)
	if basic == nil || issuer == nil || api == nil || dir == nil || look == nil || admin == nil {
		t.Fatalf("the script does not say what to do:\n%s", guide)
	}
	ask := func(method, url, body string, set func(*http.Request)) (status int, node, answer string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		set(req)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return 0, "", err.Error()
		}
		defer resp.Body.Close()
		raw, err := io.ReadAll(resp.Body)
		if err != nil {
			return 0, "", err.Error()
		}
		return resp.StatusCode, resp.Header.Get("X-Node"), string(raw)
	}
	status, _, answer := ask(http.MethodPost, issuer[1]+"/oauth/token", "grant_type=client_credentials", func(r *http.Request) {
		r.SetBasicAuth(basic[1], basic[2])
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	})
	token := regexp.MustCompile(`"access_token":"([^"]+)"`).FindStringSubmatch(answer)
	if status != http.StatusOK || token == nil {
		t.Fatalf("a token = %d %s", status, answer)
	}
	call := func() (int, string) {
		status, node, _ := ask(http.MethodGet, api[1], "", func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+token[1]) })
		return status, node
	}
	both := func() bool {
		seen := map[string]bool{}
		for range 4 {
			if status, node := call(); status == http.StatusOK {
				seen[node] = true
			}
		}
		return len(seen) == 2
	}
	until("the token opens the API at both nodes", both)
	if status, _, answer := ask(http.MethodGet, look[1], "", func(*http.Request) {}); status != http.StatusOK ||
		!strings.Contains(answer, "node-2") {
		t.Errorf("HAProxy shows %d %.200s", status, answer)
	}
	s := &server{t: t, dir: t.TempDir()}
	if out, err := s.gatehouse("", "gatehouse", "nodes", "--address", admin[1]); err != nil || !strings.Contains(out, "2 servers") {
		t.Errorf("gatehouse nodes = %s %v", out, err)
	}
	kill := func(name string) {
		t.Helper()
		raw, err := os.ReadFile(filepath.Join(dir[1], name+".pid"))
		if err != nil {
			t.Fatal(err)
		}
		pid, err := strconv.Atoi(strings.TrimSpace(string(raw)))
		if err != nil {
			t.Fatal(err)
		}
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
	}
	kill("node-1")
	until("the other node serves", func() bool { status, node := call(); return status == http.StatusOK && node == "node-2" })
	kill("postgres")
	until("both are back, and the token is not lost", both)
	ctrlC()
	if exit != nil {
		t.Errorf("after Ctrl-C the script ended with %v:\n%s", exit, said.String())
	}
	if _, err := os.Stat(dir[1]); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%s is left behind: %v", dir[1], err)
	}
	if resp, err := http.Get(look[1]); err == nil { //nolint:noctx // no one must listen
		resp.Body.Close()
		t.Error("HAProxy still runs")
	}
	if strings.Contains(said.String(), "Killed") {
		t.Errorf("the shell talks of its own affairs:\n%s", said.String())
	}
}
