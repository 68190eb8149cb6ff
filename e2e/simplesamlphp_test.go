package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// simpleSAML is a running SimpleSAMLphp: an independent SAML identity provider.
type simpleSAML struct {
	t    *testing.T
	dir  string
	URL  string
	port int
}

// startSimpleSAML serves it until the end of the test, as the guide does. For a browser 127.0.0.1 is another site than
// localhost, so posts from its pages carry no cookies, as with a provider on the internet.
func startSimpleSAML(t *testing.T) *simpleSAML {
	t.Helper()
	i := &simpleSAML{t: t, dir: t.TempDir(), port: freePorts(t, 1)[0]}
	i.URL = fmt.Sprintf("http://127.0.0.1:%d", i.port)
	i.serve("../scripts/simplesamlphp.sh", fmt.Sprint(i.port), i.dir)
	return i
}

// serve runs the command in its own process group, because its workers are processes too.
func (i *simpleSAML) serve(command string, args ...string) {
	t := i.t
	t.Helper()
	out := new(lockedBuffer)
	cmd := exec.Command(command, args...)
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	gone := make(chan error, 1)
	go func() { gone <- cmd.Wait() }()
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) // it may be gone
		select {
		case <-gone:
		case <-time.After(10 * time.Second):
			_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
			<-gone
		}
		if t.Failed() {
			// for the message, as far as it exists
			log, _ := os.ReadFile(filepath.Join(i.dir, "log", "simplesamlphp.log"))
			t.Logf("SimpleSAMLphp says:\n%s", tail(log, 6000))
		}
	})
	untilItAnswers(t, "SimpleSAMLphp", i.metadata(), gone, out)
}

func (i *simpleSAML) metadata() string { return i.URL + "/saml2/idp/metadata.php" }

// know introduces a service provider, with SimpleSAMLphp settings for it alone.
func (i *simpleSAML) know(name, metadata string, settings map[string]any) {
	i.t.Helper()
	resp, err := http.Get(metadata)
	if err != nil {
		i.t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		i.t.Fatalf("GET %s: %s, %v", metadata, resp.Status, err)
	}
	if got := resp.Header.Get("Content-Type"); !strings.HasPrefix(got, "application/samlmetadata+xml") {
		i.t.Errorf("GET %s: Content-Type %s", metadata, got)
	}
	files := map[string][]byte{name + ".xml": raw}
	if settings != nil {
		if files[name+".json"], err = json.Marshal(settings); err != nil {
			i.t.Fatal(err)
		}
	}
	for file, content := range files {
		if err := os.WriteFile(filepath.Join(i.dir, "sp", file), content, 0o600); err != nil {
			i.t.Fatal(err)
		}
	}
}

// signIn fills the sign-in page of SimpleSAMLphp and waits for the page after it.
func (i *simpleSAML) signIn(b *tab, username, password, then string) {
	b.t.Helper()
	i.asks(b)
	b.fill("#username", username)
	b.fill("#password", password)
	b.click("#submit_button, button[type=submit], input[type=submit]")
	b.reaches(then)
}

// asks waits for the sign-in page of SimpleSAMLphp.
func (i *simpleSAML) asks(b *tab) {
	b.t.Helper()
	b.until("location.href.startsWith(" + quote(i.URL) + ") && document.querySelector('#password')")
}
