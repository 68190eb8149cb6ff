package importer_test

import (
	"errors"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/gatehouse-id/gatehouse/identity/importer"
)

// TestAuthentik reads the users and groups of a blueprint.
func TestAuthentik(t *testing.T) {
	t.Parallel()
	r, err := importer.New(strings.NewReader(`version: 1
entries:
- model: authentik_core.group
  identifiers: {pk: 0b1d}
  attrs: {name: staff, is_superuser: true, users: [7]}
- model: authentik_core.group
  identifiers: {pk: 4c2e}
  attrs: {name: wiki}
- model: authentik_core.user
  identifiers: {pk: 7}
  attrs:
    username: ada
    name: Ada Berg
    email: ada@example.com
    password: planted
    groups: [0b1d, 4c2e, ffff]
    path: users/london
    type: external
    attributes: {team: red, settings: {locale: de}, age: 36}
- model: authentik_core.user
  identifiers: {pk: 8}
  attrs: {username: bot, type: internal_service_account}
- model: authentik_core.user
  identifiers: {pk: 9}
  attrs: {username: eve, is_active: false, type: internal}
- model: authentik_core.user
  attrs: {name: No One}
- model: authentik_core.user
  attrs: {username: [list]}
`), importer.Authentik)
	if err != nil {
		t.Fatal(err)
	}
	ada, line, err := r.Next()
	notes := strings.Join(ada.Notes, "\n")
	if err != nil || line != 9 || ada.Username != "ada" || ada.Name != "Ada Berg" || ada.Email != "ada@example.com" || ada.Inactive ||
		strings.Join(ada.Groups, " ") != "staff wiki" || ada.Locale != "de" || ada.PasswordHash != "" ||
		len(ada.Profile.CustomAttributes) != 1 || ada.Profile.CustomAttributes[0].Value != "red" {
		t.Errorf("ada is %+v on line %d, %v", ada, line, err)
	}
	for _, want := range []string{"without a password", "a group does not come", "age", "path", "external", "password does not come"} {
		if !strings.Contains(notes, want) {
			t.Errorf("the notes do not mention %q:\n%s", want, notes)
		}
	}
	if strings.Contains(notes, "planted") {
		t.Errorf("a secret is told: %s", notes)
	}
	if eve, _, err := r.Next(); err != nil || eve.Username != "eve" || !eve.Inactive || len(eve.Groups) != 0 {
		t.Errorf("eve is %+v, %v", eve, err)
	}
	for _, want := range []int{26, 28} {
		wrong := new(importer.LineError)
		if _, _, err := r.Next(); !errors.As(err, &wrong) || wrong.Line != want {
			t.Errorf("Next = %v, want an error of line %d", err, want)
		}
	}
	if _, _, err := r.Next(); !errors.Is(err, io.EOF) {
		t.Errorf("Next = %v, want the end", err)
	}
	if n := r.(importer.Skipper).Skipped(); n != 1 {
		t.Errorf("%d are skipped, want the service account", n)
	}
	for _, bad := range []string{"", "- a", "version: 1\n", "entries: [a]", "entries: [{attrs: {}}]", "entries: [{model: authentik_core.group}]", ":\n:"} {
		if _, err := importer.New(strings.NewReader(bad), importer.Authentik); err == nil {
			t.Errorf("%q is read", bad)
		}
	}
}

// TestAuthentikExample reads the file of the tests of the command.
func TestAuthentikExample(t *testing.T) {
	t.Parallel()
	f, err := os.Open("../../caddymodule/cli/testdata/movein/authentik.yaml")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r, err := importer.New(f, importer.Authentik)
	if err != nil {
		t.Fatal(err)
	}
	if p, _, err := r.Next(); err != nil || p.Username != "gil.moved" {
		t.Errorf("the person is %+v, %v", p, err)
	}
}
