package e2e

import (
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestSAMLGuide follows the instructions in docs/saml.md, on other ports and in other directories.
func TestSAMLGuide(t *testing.T) {
	t.Parallel()
	guide := read(t, "../docs/saml.md")
	moved := move(t, guide)
	guide = moved(guide)
	i := &simpleSAML{t: t, dir: t.TempDir()}
	guide = strings.ReplaceAll(guide, "/tmp/saml-provider", i.dir)

	var steps []string
	for _, m := range regexp.MustCompile("(?s)```sh\n(.*?)\n```").FindAllStringSubmatch(guide, -1) {
		steps = append(steps, m[1])
	}
	if len(steps) != 4 || steps[0] != "make install build" || !strings.Contains(steps[2], " run --config ") {
		t.Fatalf("the guide has the steps %q: this test expects install, provider, run, introduce", steps)
	}
	caddyfile := regexp.MustCompile("(?s)```caddyfile\n(.*?)```").FindStringSubmatch(guide)[1]
	find := func(pattern string) string {
		t.Helper()
		m := regexp.MustCompile(pattern).FindStringSubmatch(guide)
		if m == nil {
			t.Fatalf("the guide does not say %s", pattern)
		}
		return m[1]
	}

	i.URL = find(`metadata (http://127.0.0.1:\d+)/`)
	provider := strings.Fields(steps[1])
	i.serve("../"+provider[0], provider[1:]...)

	s := &server{t: t, dir: t.TempDir(), secrets: map[string]string{}}
	s.write(strings.Replace(caddyfile, "{\n", "{\n\tadmin off\n\tauto_https off\n\tgrace_period 100ms\n\tdefault_bind 127.0.0.1\n", 1))
	s.Issuer, s.Wiki = find(`issuer (http://\S+)`), find("Open `(http://[^/]+)/`")
	s.run(filepath.Join(s.dir, "Caddyfile"), s.dir)
	s.await(s.Issuer + "/healthz")

	if out, err := exec.CommandContext(t.Context(), "sh", "-c", steps[3]).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", steps[3], err, out)
	}
	b := s.browse(t)
	b.open(s.Wiki + "/")
	if want := strings.Trim(find(`choose (\*[^*]+\*)`), "*"); !strings.Contains(b.text("main"), want) {
		t.Errorf("the sign-in page does not say %q: %s", want, b.text("main"))
	}
	b.choose("partner")
	i.signIn(b, find("sign in as `([^`]+)`"), find("with the password `([^`]+)`"), s.Wiki)
	if got, want := b.text("body"), find("greeted: `([^`]+)`"); got != want {
		t.Fatalf("at %s the page says %q, want %q", b.location(), got, want)
	}
	b.leave()
	if !strings.Contains(guide, "`"+s.Wiki+"/.gatehouse/logout`") {
		t.Error("the guide does not say where to sign out")
	}
	b.open(s.Wiki + "/")
	b.choose("partner")
	i.asks(b)
}
