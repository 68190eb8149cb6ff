package caddymodule_test

import (
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strings"
	"testing"
)

var refForm = regexp.MustCompile(`\b[A-Z2-7]{4}-[A-Z2-7]{4}\b`)

// logged returns the lines of the log that hold all of these texts.
func (w *walk) logged(all ...string) (lines []string) {
	w.t.Helper()
	raw, err := os.ReadFile(w.log)
	if err != nil {
		w.t.Fatal(err)
	}
next:
	for line := range strings.SplitSeq(string(raw), "\n") {
		for _, s := range all {
			if !strings.Contains(line, s) {
				continue next
			}
		}
		lines = append(lines, line)
	}
	return lines
}

// TestWhyOfASite: a person who is kept from a site gets a reference, and the administrator learns everything from it.
func TestWhyOfASite(t *testing.T) {
	w := newWalk(t)
	w.inIdentity = "person guest@example.com {\n\t\tpassword \"" + testPassword + "\"\n\t\tgroups guests\n\t}"
	w.reload()
	b := newBrowser(t)
	res, body := b.open(w.wiki + "/reports?token=in-the-query")
	res, body = b.submit(res, body, url.Values{"username": {"guest@example.com"}, "password": {testPassword}})
	ref := refForm.FindString(body)
	if res.StatusCode != http.StatusForbidden || ref == "" {
		t.Fatalf("a person who is in none of the groups gets %d and no reference: %s", res.StatusCode, body)
	}
	out := w.run("", "why", strings.ToLower(ref))
	for _, want := range []string{"guest@example.com (person ", "was refused GET " + strings.TrimPrefix(w.wiki, "http://") + "/reports: the person is in none of the groups", "wanted: staff; there: guests", "Add the person"} {
		if !strings.Contains(out, want) {
			t.Errorf("why %s = %s, want %q in it", ref, out, want)
		}
	}
	answer := decode[map[string]any](t, w.run("", "why", ref, "--json"))
	if answer["ref"] != ref || answer["reason"] != "group_missing" || answer["username"] != "guest@example.com" || answer["path"] != "/reports" || strings.Contains(out, "in-the-query") {
		t.Errorf("why --json = %v", answer)
	}
	lines := w.logged(`"request refused"`, ref, `"username":"guest@example.com"`, `"wanted_groups":["staff"]`, `"groups":["guests"]`, `"reason":"group_missing"`, `"path":"/reports"`, `"method":"GET"`)
	if len(lines) != 1 || strings.Contains(lines[0], "in-the-query") {
		t.Errorf("log lines of the refusal = %q, want one that names person, site, path and groups", lines)
	}
	// A bad reference says so, and changes nothing.
	w.refused("want a reference such as", "", "why", "nonsense!")
	w.refused("no refusal of the last 24 hours", "", "why", "AAAA-AAAA")
	w.refused("accepts 1 arg", "", "why")
	if again := w.run("", "why", ref); again != out {
		t.Errorf("after bad references: %s", again)
	}
	// A program that is refused finds the reference in the JSON.
	_, body = w.do(w.request(http.MethodGet, "http://"+w.api+"/", nil))
	got := decode[map[string]string](t, body)
	if got["error"] != "unauthorized" || !refForm.MatchString(got["ref"]) {
		t.Fatalf("a request without a token gets %s, want a reference", body)
	}
	if out := w.run("", "why", got["ref"]); !strings.Contains(out, "somebody who was not signed in was refused GET "+w.api+"/: the request carried neither a token nor a session") {
		t.Errorf("why = %s", out)
	}
}
