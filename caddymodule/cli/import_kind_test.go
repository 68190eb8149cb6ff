package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gatehouse-id/gatehouse/caddymodule/servertest"
	"github.com/gatehouse-id/gatehouse/identity/person"
)

// TestImportFromOtherSystems: people come from the exports of other systems, sign in with the passwords that they had
// there, and are the same persons for applications; clients are printed for the Caddyfile.
func TestImportFromOtherSystems(t *testing.T) {
	p := servertest.NewProvisioning(t)
	export := func(name string) string { return filepath.Join("testdata", "movein", name) }
	const realmID = "9b1c7a52-6f0e-4a0a-8a53-2a6f6f6c4d11"
	imports := func(args ...string) (out, report string, err error) {
		t.Helper()
		file := filepath.Join(t.TempDir(), "report.json")
		out, err = servertest.Run(t, "", append([]string{"import", "--address", p.Admin, "--report", file}, args...)...)
		raw, readErr := os.ReadFile(file)
		if readErr != nil {
			t.Fatalf("import %v = %v, and no report: %v", args, err, readErr)
		}
		if strings.Contains(out+string(raw), "planted") {
			t.Errorf("import %v prints a secret:\n%s%s", args, out, raw)
		}
		return out, string(raw), err
	}
	type report struct {
		Persons struct {
			Created, Updated, Exists, Failed, Skipped int

			Errors []struct{ Line int }
			Notes  []struct {
				Text string
				Line int
			}
		}
		Caddyfile string
	}

	_, text, err := imports("keycloak", export("realm.json"), "--dry-run")
	if err == nil || !strings.Contains(err.Error(), "1 person would not be imported") {
		t.Errorf("dry run = %v, want it to say that one person would not come", err)
	}
	dry := servertest.Decode[report](t, text)
	if dry.Persons.Created != 1 || dry.Persons.Failed != 1 || dry.Persons.Skipped != 1 || len(dry.Persons.Notes) != 1 ||
		!strings.Contains(dry.Persons.Notes[0].Text, "authenticator app") ||
		dry.Persons.Notes[0].Line != 4 || dry.Persons.Errors[0].Line != 28 {
		t.Errorf("the report of the dry run is %s", text)
	}
	p.Refused("no person ada.moved", "", "person", "show", "ada.moved")

	out, text, err := imports("keycloak", export("realm.json"))
	if err == nil || !strings.Contains(err.Error(), "1 person not imported") || !strings.Contains(out, "client moved-shop {") ||
		!strings.Contains(out, "{env.MOVED_SHOP_SECRET}") ||
		strings.Contains(out, "shop.example.com/*") || servertest.Decode[report](t, text).Caddyfile != out {
		t.Errorf("import = %v:\n%s%s", err, out, text)
	}
	if got := servertest.Decode[person.Details](t, p.Run("", "person", "show", "ada.moved", "--json")); got.ID != realmID ||
		len(got.Groups) != 1 {
		t.Errorf("ada is %+v, want her with the id %s", got, realmID)
	}
	p.Token("legacy", p.Password("ada.moved", "correct horse 1"))
	if _, text, _ := imports("keycloak", export("realm.json")); servertest.Decode[report](t, text).Persons.Exists != 1 {
		t.Errorf("the second import = %s, want ada as she is", text)
	}

	out, text, err = imports("authelia", export("configuration.yml"), export("users_database.yml"))
	if err != nil || servertest.Decode[report](t, text).Persons.Created != 1 || !strings.Contains(out, "client moved-grafana {") {
		t.Errorf("import = %v:\n%s%s", err, out, text)
	}
	p.Token("legacy", p.Password("cid.moved", "correct horse 1"))

	if _, text, err := imports("htpasswd", export("htpasswd")); err == nil || servertest.Decode[report](t, text).Persons.Created != 1 ||
		servertest.Decode[report](t, text).Persons.Errors[0].Line != 2 {
		t.Errorf("import = %v:\n%s, want one person and one line that is refused", err, text)
	}
	p.Token("legacy", p.Password("dan.moved", "correct horse 1"))

	if _, text, err := imports("auth0", export("auth0.ndjson")); err != nil || servertest.Decode[report](t, text).Persons.Created != 1 ||
		len(servertest.Decode[report](t, text).Persons.Notes) != 1 {
		t.Errorf("import = %v:\n%s", err, text)
	}

	dex, text, err := imports("dex", export("dex.yaml"), "--dry-run")
	if err != nil || servertest.Decode[report](t, text).Persons.Created != 1 ||
		servertest.Decode[report](t, text).Persons.Notes[0].Line != 13 {
		t.Errorf("dry run = %v:\n%s", err, text)
	}
	p.Refused("no person eve.moved", "", "person", "show", "eve.moved@example.com")
	if _, text, err := imports("dex", export("dex.yaml")); err != nil || servertest.Decode[report](t, text).Persons.Created != 1 {
		t.Errorf("import = %v:\n%s", err, text)
	}
	p.Token("legacy", p.Password("eve.moved@example.com", "correct horse 1"))
	authentik, text, err := imports("authentik", export("authentik.yaml"))
	if err != nil || servertest.Decode[report](t, text).Persons.Created != 1 || !strings.Contains(authentik, "client moved-wiki-client {") {
		t.Errorf("import = %v:\n%s%s", err, authentik, text)
	}
	hydra, text, err := imports("hydra", export("hydra.json"))
	if err != nil || !strings.Contains(text, "implicit") || strings.Contains(text, `"persons"`) {
		t.Errorf("import = %v:\n%s", err, text)
	}
	t.Run("what is printed is a Caddyfile", func(t *testing.T) {
		s := servertest.NewServer(t)
		s.Extra = dex + hydra + authentik
		if adapted := string(s.JSON()); !strings.Contains(adapted, "moved-corp") || !strings.Contains(adapted, "moved-wiki") ||
			!strings.Contains(adapted, "moved-job") || !strings.Contains(adapted, "moved-app") {
			t.Errorf("adapted: %s", adapted)
		}
	})
	p.Refused("is not a kind of export: want one of auth0, authelia, authentik, caddy-security, csv, dex, htpasswd, hydra, jsonl, keycloak, ldif, oauth2-proxy", "", "import", "okta", "x")
	p.Refused("no such file", "", "import", "keycloak", export("nowhere.json"))
	p.Refused("htpasswd: the file is not JSON", "", "import", "keycloak", export("htpasswd"))
	p.Refused("is a second file of the same kind", "", "import", "authelia", export("configuration.yml"), export("configuration.yml"))
	p.Refused("keycloak takes at most 1 file", "", "import", "keycloak", export("realm.json"), export("realm.json"))
}
