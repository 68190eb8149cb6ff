package client

import (
	"cmp"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/gatehouse-id/gatehouse/caddymodule/internal/options"
	"github.com/gatehouse-id/gatehouse/caddymodule/internal/reference"
)

// parse reads a block.
func parse(t *testing.T, text string) Client {
	t.Helper()
	d := caddyfile.NewTestDispenser(text)
	d.Next()
	c, err := Read(d, nil)
	if err != nil {
		t.Fatalf("%v:\n%s", err, text)
	}
	c.token = caddyfile.Token{}
	return c
}

// TestClientsAsCaddyfile: a client that is printed reads as the same client, with each option that there is.
func TestClientsAsCaddyfile(t *testing.T) {
	t.Parallel()
	examples := map[string]string{"exchange": "exchange {\n\tfrom web\n\tto https://stock.example.com\n\tid_jag https://auth.chat.example wiki-at-chat chat.read\n}\ngrants token_exchange"}
	for _, o := range reference.Lifetimes.Options {
		examples["lifetimes "+o.Word] = "lifetimes {\n\t" + o.Example + "\n}"
	}
	for _, o := range reference.Client.Options {
		if o.Later || len(o.Blocks) > 0 {
			continue
		}
		examples[o.Word] = strings.Replace(o.Example, "name The shop", `name "The \"shop\" {and} more #1"`, 1)
		if o.Instead == "-" {
			examples[o.Word] += "\n-"
		}
	}
	for word, example := range examples {
		t.Run(word, func(t *testing.T) {
			t.Parallel()
			lines := strings.Split(strings.TrimSuffix(example, "\n-"), "\n")
			if !strings.HasSuffix(example, "\n-") {
				said := make([]string, len(lines))
				for i, l := range lines {
					said[i], _, _ = strings.Cut(l, " ")
				}
				for l := range strings.SplitSeq(reference.Client.Needs, "\n") {
					if w, _, _ := strings.Cut(l, " "); !slices.Contains(said, w) && !(w == "secret" && slices.Contains(said, "secret_hash")) {
						lines = append(lines, l)
					}
				}
			}
			want := parse(t, "client shop {\n"+strings.Join(lines, "\n")+"\n}\n")
			text := want.Caddyfile()
			if got := parse(t, text); !reflect.DeepEqual(got, want) {
				t.Errorf("printed as\n%s\nwhich reads as\n%+v\nwant\n%+v", text, got, want)
			}
			if first, _, _ := strings.Cut(word, " "); !strings.Contains(text, "\t\t"+cmp.Or(first, word)) {
				t.Errorf("the text does not have %s:\n%s", word, text)
			}
		})
	}
}

// TestQuotedWords: whatever a word is, the Caddyfile reads it as one.
func TestQuotedWords(t *testing.T) {
	t.Parallel()
	for _, word := range []string{"", "{", "}", "a {", "#x", "a #x", `say "no"`, `back\slash`, `\`, "`tick`", "<<EOF", "ünï", "a\tb", `"`} {
		c := Client{ID: "app", Name: word, Secrets: []options.Sensitive{"0123456789012345678901234567890123456789"}, Grants: []string{"client_credentials"}, Scopes: []string{"read"}}
		if got := parse(t, c.Caddyfile()); got.Name != word {
			t.Errorf("%q is read as %q:\n%s", word, got.Name, c.Caddyfile())
		}
	}
	if c := (&Client{ID: "app", Name: "a\n}\nclient evil {\n"}); strings.Count(c.Caddyfile(), "\n") != 3 {
		t.Errorf("a name with ends of lines is printed as\n%s", c.Caddyfile())
	}
}
