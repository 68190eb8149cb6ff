package explain_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gatehouse-id/gatehouse/caddymodule/servertest"
)

// Rules are tried in the shadow of those that hold: no one notices, and the operator sees who would change sides.
func TestShadow(t *testing.T) {
	w := servertest.NewWalk(t)
	config, host := w.Config, servertest.FreeAddr(t)
	site := "http://" + host
	own := `allow {
				name now
				need groups staff
			}
			shadow {
				deny {
					name  plans
					match path /plans/*
				}
				allow {
					name  soon
					need  groups staff
				}
			}`
	w.Config = func() string {
		return config() + fmt.Sprintf("\n%s {\n\tprotect {\n\t\tlogin\n\t\t%s\n\t}\n\trespond \"inside\"\n}\n", site, own)
	}
	w.Reload()
	b := servertest.NewBrowser(t)
	if res, body := b.SignIn(site + "/page"); body != "inside" {
		t.Fatalf("sign-in: %d %s", res.StatusCode, body)
	}
	for range 3 {
		if _, body := b.Open(site + "/plans/2027?token=in-the-query"); body != "inside" {
			t.Fatalf("a shadow rule is enforced: %s", body)
		}
	}
	out := w.Run("", "policy", "diff", "--since", "1h")
	if !strings.Contains(out, "demo@example.com  GET     "+site+"/plans/2027  allow  deny       plans") ||
		!strings.Contains(out, "1 change") || strings.Contains(out, "/page") || strings.Contains(out, "in-the-query") {
		t.Errorf("policy diff = %s", out)
	}
	_, metrics := w.Do(w.Request(http.MethodGet, "http://"+w.Admin+"/metrics", nil))
	for _, want := range []string{
		`gatehouse_policy_shadow_total{live="allow",rule="plans",shadow="deny",site="` + host + `"} 3`,
		`gatehouse_policy_shadow_total{live="allow",rule="soon",shadow="allow",site="` + host + `"} 1`,
	} {
		if !strings.Contains(metrics, want+"\n") {
			t.Errorf("/metrics lacks %s", want)
		}
	}
	if lines := logged(w, "shadow rule differs", `"rule":"plans"`, `"username":"demo@example.com"`); len(lines) != 1 ||
		strings.Contains(lines[0], "in-the-query") {
		t.Errorf("log lines of three requests that differ = %q, want one", lines)
	}
	// Another configuration is asked about the same requests, and not started.
	other := filepath.Join(t.TempDir(), "Caddyfile")
	own = "allow {\n\t\t\t\tname rest\n\t\t\t\tmatch not path /page\n\t\t\t\tneed groups staff\n\t\t\t}"
	if err := os.WriteFile(other, []byte(w.Config()), 0o600); err != nil {
		t.Fatal(err)
	}
	out = w.Run("", "policy", "replay", "--config", other)
	if !strings.Contains(out, site+"/page  allow  deny") || strings.Contains(out, "/plans") || !strings.Contains(out, "1 change") {
		t.Errorf("policy replay = %s", out)
	}
	if _, body := b.Open(site + "/page"); body != "inside" {
		t.Errorf("after a replay: %s", body)
	}
	w.Refused("want a duration up to 168h", "", "policy", "diff", "--since", "1000h")
	w.Refused("name the other configuration", "", "policy", "replay")
	for text, want := range map[string]string{
		"shadow x":                                     "its rules belong in a block",
		"shadow {\n\t\t\t\tpublic /x\n\t\t\t}":         "unrecognized",
		"shadow {\n\t\t\t\tdeny {\n\t\t\t\t}\n\t\t\t}": "refuses everything to everyone",
		"shadow {\n\t\t\t}\n\t\t\tshadow {\n\t\t\t}":   "already set",
		"shadow {\n\t\t\t\tneed level 9\n\t\t\t}":      "level",
	} {
		own = text
		if err := os.WriteFile(other, []byte(w.Config()), 0o600); err != nil {
			t.Fatal(err)
		}
		w.Refused(want, "", "policy", "replay", "--config", other)
	}
}
