package settings

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gatehouse-id/gatehouse/identity/settings/effect"
	"github.com/gatehouse-id/gatehouse/identity/settings/kind"
	"github.com/gatehouse-id/gatehouse/identity/settings/wire"
	"github.com/gatehouse-id/gatehouse/internal/alias"
	"github.com/gatehouse-id/gatehouse/internal/goldentest"
)

// TestEveryMemberHasAnEffect: each member of each unit is in the table, in one row, and each row is about something
// that there is.
func TestEveryMemberHasAnEffect(t *testing.T) {
	t.Parallel()
	used, count := map[string]bool{}, map[string]int{}
	var table strings.Builder
	for _, m := range members() {
		e, _ := effect.Of(m.path)
		word, text := "effect", e.Does
		if e.Later != nil {
			word, text = "reason", e.Later.Error()
		}
		if strings.Contains(e.Does, "nothing else reads it") || strings.HasPrefix(e.Does, "Is stored") {
			t.Errorf("%s is only stored: %s", m.path, e.Does)
		}
		count[word]++
		fmt.Fprintf(&table, "%s  %s  %s\n", word, m.path, text)
		var rows []string
		for _, e := range effect.All {
			if e.Path == m.path || strings.HasSuffix(e.Path, ".*") && strings.HasPrefix(m.path, strings.TrimSuffix(e.Path, "*")) {
				rows = append(rows, e.Path)
				used[e.Path] = true
			}
		}
		if len(rows) != 1 {
			t.Errorf("%s has the rows %q in effects, want one", m.path, rows)
		}
	}
	t.Logf("members of the document: %d with an effect, %d with a reason\n%s", count["effect"], count["reason"], table.String())
	for _, e := range effect.All {
		if !used[e.Path] {
			t.Errorf("effects tells of %s, which there is not", e.Path)
		}
		if (e.Does == "") == (e.Later == nil) || (e.Does == "") != (e.Test == "") {
			t.Errorf("%s: want either its effect and the test of it, or the missing function", e.Path)
		}
	}
}

// TestEffectsAreShown: the tests that the table names are there.
func TestEffectsAreShown(t *testing.T) {
	t.Parallel()
	there := map[string]bool{}
	name := regexp.MustCompile(`(?m)^func Test(\w+)\(`)
	err := filepath.WalkDir("../..", func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		raw, err := os.ReadFile(path)
		for _, m := range name.FindAllStringSubmatch(string(raw), -1) {
			there[m[1]] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range effect.All {
		if e.Test != "" && !there[e.Test] {
			t.Errorf("%s: there is no Test%s", e.Path, e.Test)
		}
	}
}

// TestLimits: every string, number, array and object of a unit says what it may be.
func TestLimits(t *testing.T) {
	t.Parallel()
	for _, m := range members() {
		word, _, _ := strings.Cut(m.tag, ",")
		switch m.kind.Kind() {
		case reflect.Bool:
		case reflect.Int:
			if word != "int" {
				t.Errorf("%s: a number without a range", m.path)
			}
		case reflect.String:
			if _, ok := kind.All[word]; !ok && word != "enum" {
				t.Errorf("%s: a string of no kind (%q)", m.path, m.tag)
			}
		default:
			if word != "most" && m.path != "messages" {
				t.Errorf("%s: a list without a limit", m.path)
			}
		}
	}
	var lists func(rt reflect.Type, path string)
	lists = func(rt reflect.Type, path string) {
		switch rt.Kind() {
		case reflect.Pointer:
			lists(rt.Elem(), path)
		case reflect.Struct:
			for f := range wire.Fields(rt) {
				if k := f.Type.Kind(); (k == reflect.Slice || k == reflect.Map) && !strings.HasPrefix(f.Check, "most,") {
					t.Errorf("%s.%s: a list without a limit", path, f.Name)
				}
				lists(f.Type, path+"."+f.Name)
			}
		case reflect.Slice, reflect.Map:
			lists(rt.Elem(), path+"[]")
		}
	}
	lists(reflect.TypeFor[Units](), "")
}

// TestConfigurationDocuments writes docs/configuration, a document for each unit and one for the words of the
// Caddyfile.
func TestConfigurationDocuments(t *testing.T) {
	t.Parallel()
	goldentest.Documents(t, "../../docs/configuration", configurationDocuments())
}

// about says what each unit is.
var about = map[string]string{
	"attributes":          "Fields of persons. `GET`, `POST /api/v2/attributes`.",
	"custom_messages":     "Texts of the pages. `GET`, `PUT /api/v2/config/custom-messages`, `PUT …/{locale_variant}/batch`, `DELETE …/{locale_variant}/{message_key}`. `default` as locale_variant means the texts for every language.",
	"features":            "Switches. `GET`, `POST /api/v2/config/features`, and `…/action-token/whitelisted-urls`.",
	"login_methods":       "The ways to sign in. `GET /api/v2/config/login-methods`, changed by `POST /api/v2/config`. Providers of the Caddyfile are shown here and changed there.",
	"organisations":       "Organisations and their service providers. `GET /api/v2/config/organisations`, `GET`, `POST …/{organisation-id}/service-providers` and `…/{serviceProviderId}`; organisations themselves are changed by `POST /api/v2/config`.",
	"redirects":           "Redirects. `GET`, `POST /api/v2/config/redirects`, and `…/whitelisted-urls`.",
	"step_up":             "Levels. `GET`, `POST /api/v2/config/step-up`.",
	"ui_extension":        "External pages. `GET`, `POST /api/v2/config/ui-extension`.",
	"email_notifications": "E-mails to persons. `GET`, `POST /api/v2/config/notifications/email`.",
	"password_policy":     "Rules for new passwords. `GET /api/config`, `POST /api/v2/config/password-policy`.",
	"profile":             "Required attributes of a person. `GET /api/config`, changed by `POST /api/v2/config`.",
	"policies":            "Rules that sites share. `GET /api/v2/config/policies`, `GET`, `PUT`, `DELETE …/{name}`, for API clients with `policies`. [api.md](api.md#policies) has examples.",
	"messages":            "Texts of the pages, by locale. `GET /api/config`, changed by `POST /api/v2/config`.",
}

// wordsHead begins the document about the words of the Caddyfile.
const wordsHead = `# Settings in the Caddyfile

Some switches have a word in the block ` + "`identity`" + ` of the Caddyfile, with on or off: ` + "`identity { sign_up on }`" + `. That is their
value until the configuration API, ` + "`caddy gatehouse config import`" + ` or the bootstrap file sets the same switch, which then
keeps what was set. ` + "`caddy gatehouse check`" + ` names the words that are overruled in this way.

| word | switches |
|---|---|
`

func configurationDocuments() map[string]string {
	documents := map[string]string{}
	words := wordsHead
	for _, a := range alias.Words {
		words += fmt.Sprintf("| `%s` | `%s` |\n", a.Name, strings.Join(a.Paths, "`, `"))
	}
	documents["in-the-caddyfile.md"] = words
	d := Defaults()
	standard := map[string]string{}
	for _, un := range table {
		d.visitMembers(un, func(v reflect.Value, p place) {
			if !p.entry {
				standard[p.path] = string(encode(v.Interface()))
			}
		})
	}
	for _, m := range members() {
		name, path, _ := strings.Cut(m.path, ".")
		if bare, list, ok := strings.Cut(name, "["); ok {
			name, path = bare, "["+list+"."+path
		}
		file := strings.TrimSuffix(name, "{}") + ".md"
		if documents[file] == "" {
			documents[file] = fmt.Sprintf("# %s\n\n%s\n\n| member | type | default | effect |\n|---|---|---|---|\n", name,
				goldentest.Relative(about[strings.TrimSuffix(name, "{}")]))
		}
		e, _ := effect.Of(m.path)
		does := e.Does
		if does == "" {
			does = "Not yet: " + e.Later.Error() + "."
		}
		if path == "" {
			path = "(all of it)"
		}
		shownDefault := standard[m.path]
		if shownDefault != "" {
			shownDefault = "`" + shownDefault + "`"
		}
		if slices.Contains(withMail, m.path) {
			shownDefault += ", with `mail` in the Caddyfile `true`"
		}
		documents[file] += fmt.Sprintf("| `%s` | %s | %s | %s |\n", path, typeName(m), shownDefault, goldentest.Relative(does))
	}
	return documents
}

func typeName(m member) string {
	word, rest, _ := strings.Cut(m.tag, ",")
	switch m.kind.Kind() {
	case reflect.Bool:
		return "boolean"
	case reflect.Int:
		return "integer, " + strings.Replace(rest, ",", " to ", 1)
	case reflect.String:
		if word == "enum" {
			return "one of " + strings.ReplaceAll(strings.TrimPrefix(rest, "|"), "|", ", ")
		}
		return "string"
	case reflect.Slice:
		return "array of strings"
	}
	return "object"
}
