package cli_test

import (
	"fmt"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gatehouse-id/gatehouse/caddymodule/servertest"
	"github.com/gatehouse-id/gatehouse/identity/person"
)

func TestImportCommand(t *testing.T) {
	p := servertest.NewProvisioning(t)
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		servertest.WriteFile(t, path, text, 0o600)
		return path
	}
	people := file("people.csv", `username,password_hash,given_name,family_name,groups,password
anna@example.com,{SSHA}CsaB3rS0+/WKJxYq0vZ36uYesYJzYWx0c2FsdA==,Anna,Berg,crew,
ben,,Ben,,,short
carl,,Carl,,,a password of carl
two words,,,,,
dora,{MD5}AAAA,,,,
`)
	type summary struct {
		Persons struct {
			Created, Updated, Exists, Failed, Skipped int
			Errors                                    []struct {
				Line  int
				Error string
			}
		}
	}
	out, err := servertest.Run(t, "", "import", people, "--json", "--address", p.Admin)
	if err == nil || !strings.Contains(err.Error(), "3 people not imported") {
		t.Errorf("import of a file with wrong lines = %v, want it said", err)
	}
	got := servertest.Decode[summary](t, out).Persons
	if got.Created != 2 || got.Failed != 3 || len(got.Errors) != 3 || got.Errors[0].Line != 3 ||
		!strings.HasPrefix(got.Errors[0].Error, "password must have") ||
		got.Errors[1].Line != 5 || got.Errors[2].Line != 6 {
		t.Errorf("import = %s", out)
	}
	if strings.Contains(out, "short") || strings.Contains(out, "two words") {
		t.Errorf("import repeats what is in the file: %s", out)
	}
	token := p.Token("legacy", p.Password("anna@example.com", "correct horse 1"))
	if status := p.Enters(token); status != http.StatusOK {
		t.Errorf("protect = %d for an imported person of the group, want 200", status)
	}
	p.Token("legacy", p.Password("carl", "a password of carl"))

	t.Run("again", func(t *testing.T) {
		out, err := servertest.Run(t, "", "import", people, "--from", "4", "--json", "--update", "--address", p.Admin)
		if got := servertest.Decode[summary](t, out).Persons; err == nil || got.Created != 0 || got.Exists != 1 || got.Failed != 2 {
			t.Errorf("import --from 4 = %s, %v, want carl to exist and two to fail", out, err)
		}
	})
	t.Run("JSON lines from standard input, many of them", func(t *testing.T) {
		var in strings.Builder
		for i := range 1000 {
			fmt.Fprintf(&in, `{"username":"p%d","email":"p%d@example.com","profile":{"email_addresses":[],"custom_attributes":[{"name":"n","value":"%s"}]}}`+"\n", i, i, strings.Repeat("x", 500))
		}
		if out := p.Run(in.String(), "import", "jsonl", "-"); !strings.Contains(out, "1000 people: 1000 created, 0 updated, 0 exist, 0 failed") {
			t.Errorf("import = %s", out)
		}
		if out := p.Run(in.String(), "import", "jsonl", "-", "--from", "501"); !strings.Contains(out,
			"500 people: 0 created, 0 updated, 500 exist, 0 failed") {
			t.Errorf("import again = %s", out)
		}
		all := servertest.Decode[[]person.Person](t, p.Run("", "person", "list", "--json"))
		if len(all) != 1003 {
			t.Errorf("%d persons, want 1003", len(all))
		}
	})
	t.Run("LDIF", func(t *testing.T) {
		ldif := file("people.ldif", "version: 1\n\ndn: ou=x\nobjectClass: organizationalUnit\nou: x\n\ndn: uid=emil,ou=x\nobjectClass: inetOrgPerson\nuid: emil\ncn: Emil\nmemberOf: cn=crew,ou=groups\n")
		if out := p.Run("", "import", ldif); !strings.Contains(out, "1 created") || !strings.Contains(out, "1 entry is not a person") {
			t.Errorf("import = %s", out)
		}
		update := file("update.jsonl", `{"username":"emil","family_name":"Tal"}`+"\n")
		if out := p.Run("", "import", update, "--update"); !strings.Contains(out, "0 created, 1 updated") {
			t.Errorf("import --update = %s", out)
		}
	})
	p.Refused("is not a kind of export", "", "import", file("people", "x"))
	p.Refused("did you mean jsonl?", "", "import", "jsnol", file("people", "x"))
	p.Refused("no file given", "", "import", "csv")
	p.Refused("no such file", "", "import", filepath.Join(dir, "nowhere.csv"))
	p.Refused("names no column username", "", "import", file("bad.csv", "email\n"))
	p.Refused("1 person not imported", "", "import", file("other.jsonl", `{"username":"x","partition":"acme"}`), "--json")

	t.Run("what cannot be read on", func(t *testing.T) {
		_, err := servertest.Run(t, "", "import", file("quote.csv", "username\nfirst\nsecond\"x\nthird\n"), "--address", p.Admin)
		if err == nil || !strings.Contains(err.Error(), "line 3") {
			t.Errorf("import of a broken file = %v, want the line", err)
		}
		if out := p.Run("", "person", "list"); !strings.Contains(out, "\nfirst ") {
			t.Error("the person before the broken line was not imported")
		}
	})
}

func TestGroupCommands(t *testing.T) {
	p := servertest.NewProvisioning(t)
	of := p.Password("demo@example.com", servertest.TestPassword)
	if out := p.Run("", "group", "add", "crew", "--permissions", "sail,row"); !strings.Contains(out, "added crew") {
		t.Errorf("group add = %s", out)
	}
	p.Refused("is taken", "", "group", "add", "crew")
	p.Refused("must have 1 to 256 characters", "", "group", "add", " ")
	p.Run("", "group", "join", "crew", "demo@example.com")
	token := p.Token("legacy", of)
	if status := p.Enters(token); status != http.StatusOK {
		t.Errorf("protect = %d after group join, want 200", status)
	}
	list := servertest.Decode[[]person.Group](t, p.Run("", "group", "list", "--json"))
	if len(list) != 2 || list[0].Name != "crew" || list[0].Members != 1 || fmt.Sprint(list[0].Permissions) != "[sail row]" ||
		list[1].Name != "staff" {
		t.Errorf("group list = %+v", list)
	}
	p.Run("", "group", "leave", "crew", "demo@example.com")
	if status := p.Enters(token); status != http.StatusForbidden {
		t.Errorf("protect = %d after group leave, want 403", status)
	}
	p.Run("", "group", "set", "staff", "--name", "crew2", "--permissions", "")
	p.Run("", "group", "remove", "crew")
	p.Run("", "group", "set", "crew2", "--name", "crew")
	if status := p.Enters(token); status != http.StatusOK {
		t.Errorf("protect = %d after the group was renamed, want 200", status)
	}
	p.Refused("no group", "", "group", "join", "nobody", "demo@example.com")
	p.Refused("no person", "", "group", "join", "crew", "nobody")
	p.Run("", "group", "remove", "crew")
	if status := p.Enters(token); status != http.StatusForbidden {
		t.Errorf("protect = %d after the group was removed, want 403", status)
	}
	p.Run("", "person", "remove", "demo@example.com")
	if status := p.Enters(token); status != http.StatusUnauthorized {
		t.Errorf("protect = %d after the person was removed, want 401", status)
	}
	p.Refused("no person", "", "person", "block", "demo@example.com")
}

// TestPartitionsOfServer: sign-in, commands, SCIM and events of a server with partitions.
func TestPartitionsOfServer(t *testing.T) {
	s := servertest.NewServer(t)
	s.InIdentity = "partitions acme"
	s.Site = "protect orders.read {\n\t\tpartition default acme\n\t}"
	s.Extra = `client legacy {
		secret ` + servertest.TestSecret + `
		grants password
		scopes orders.read
		default_scopes orders.read
	}
	api_client registrar {
		secret ` + servertest.TestSecret + `
		apis persons events
	}`
	s.MustLoad()
	p := &servertest.Provisioning{Server: s}
	s.Run("the one of acme\n", "person", "add", `acme\anna`, "--name", "Anna of Acme")
	s.Run("the one of default\n", "person", "add", "anna")
	s.Run("another of acme\n", "person", "add", "ben", "--partition", "acme")
	s.Refused("is not one of this service", "a password of it\n", "person", "add", `other\anna`)
	s.Refused("is taken", "the one of acme\n", "person", "add", "anna", "--partition", "acme")
	if out := s.Run("", "person", "list"); !strings.Contains(out, "\nacme\\anna ") || !strings.Contains(out, "Anna of Acme") ||
		!strings.Contains(out, "\nanna ") {
		t.Errorf("person list = %s", out)
	}
	for username, password := range map[string]string{
		"anna": "the one of default", `acme\anna`: "the one of acme",
		`acme\ben`: "another of acme",
	} {
		if status := s.Enters(p.Token("legacy", p.Password(username, password))); status != http.StatusOK {
			t.Errorf("protect = %d for %s, want 200", status, username)
		}
	}
	scim := func(partition string) (int, string) {
		r := s.Request(http.MethodGet, s.Issuer()+"/scim/v2/Users?attributes=userName", nil)
		r.SetBasicAuth("registrar", servertest.TestSecret)
		if partition != "" {
			r.Header.Set("X-Service-Persons-Partition-Id", partition)
		}
		resp, body := s.Do(r)
		return resp.StatusCode, body
	}
	if status, _ := scim(""); status != http.StatusBadRequest {
		t.Errorf("SCIM without the header = %d, want 400", status)
	}
	if status, body := scim("acme"); status != http.StatusOK || !strings.Contains(body, `"totalResults":2`) {
		t.Errorf("SCIM of acme = %d %s, want two users", status, body)
	}
	ben := servertest.Decode[[]person.Person](t, s.Run("", "person", "list", "--json"))
	for _, one := range ben {
		if one.Username != "ben" {
			continue
		}
		r := s.Request(http.MethodGet, s.Issuer()+"/api/events?"+url.Values{"userId": {one.ID}, "limit": {"100"}, "offset": {"0"}}.Encode(), nil)
		r.SetBasicAuth("registrar", servertest.TestSecret)
		_, body := s.Do(r)
		if n := strings.Count(body, `"partition_id":"acme"`); n < 2 || strings.Contains(body, `"partition_id":"default"`) {
			t.Errorf("events of a person of acme = %s, want them of acme", body)
		}
	}
	s.Run("", "person", "block", `acme\anna`)
	r := s.Request(http.MethodPost, s.Issuer()+"/oauth/token", strings.NewReader(p.Password(`acme\anna`, "the one of acme").Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.SetBasicAuth("legacy", servertest.TestSecret)
	if resp, body := s.Do(r); resp.StatusCode != http.StatusBadRequest {
		t.Errorf("Token of a blocked person = %d %s, want 400", resp.StatusCode, body)
	}
	p.Token("legacy", p.Password("anna", "the one of default"))
}
