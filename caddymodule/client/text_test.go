package client

import (
	"cmp"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/gatehouse-id/gatehouse/authz/client"
	"github.com/gatehouse-id/gatehouse/caddymodule/internal/caddyfileutil"
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

// TestStoredClientsAsCaddyfile: what is printed of a stored client makes the same client, but for its secret.
func TestStoredClientsAsCaddyfile(t *testing.T) {
	t.Setenv("SHOP_SECRET", strings.Repeat("s3cret-", 6))
	build := func(c Client) *client.Client {
		t.Helper()
		r := caddyfileutil.NewResolver(caddy.NewReplacer())
		out := c.Build(r)
		if r.Err() != nil {
			t.Fatal(r.Err())
		}
		out.Secrets = nil
		return out.WithDefaults()
	}
	for name, lines := range map[string]string{
		"plain":     "secret {env.SHOP_SECRET}\nredirect_uris https://shop.example.com/callback\ngrants authorization_code\nscopes openid",
		"public":    "public\nredirect_uris https://spa.example.com/\ngrants authorization_code refresh_token\nscopes openid profile\nconsent off",
		"a machine": "secret {env.SHOP_SECRET}\ngrants client_credentials\nscopes a b\ntoken_format jwt\nlifetimes {\n\taccess_token 5m\n}\nmax_sessions 3\ndpop required",
		"much": "secret {env.SHOP_SECRET}\nname \"The {env.SHOP_SECRET} {$HOME} `shop`\"\nredirect_uris https://shop.example.com/callback https://shop.example.com/b\ngrants authorization_code refresh_token\n" +
			"scopes openid profile\ndefault_scopes openid\nid_token_claims on\nid_token_alg ES256\nsubject_type pairwise\npkce required\npar required\norigins https://www.example.com\ndisabled\n" +
			"backchannel_logout_uri https://shop.example.com/out\ninitiate_login_uri https://shop.example.com/in\napp com.example.app android 4.2.0\naudiences https://api.example.com",
	} {
		want := build(parse(t, "client shop {\n"+lines+"\n}\n"))
		if name == "much" {
			want.Name = "The {env.SHOP_SECRET} {$HOME} `shop`" // whatever it says
		}
		text := Source(want)
		if !strings.HasPrefix(text, "client shop {\n\t") || !strings.HasSuffix(text, "\n}\n") {
			t.Errorf("%s does not begin and end at the margin:\n%s", name, text)
		}
		got := build(parse(t, text))
		got.Name = strings.Replace(got.Name, "{ $HOME", "{$HOME", 1)
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s is printed as\n%s\nwhich makes\n%+v\nwant\n%+v", name, text, got, want)
		}
		if strings.Contains(text, "s3cret") || strings.Contains(text, "max_sessions 25") || strings.Contains(text, "consent on") {
			t.Errorf("%s is printed as\n%s", name, text)
		}
	}
}

// TestQuotedWords: whatever a word is, the Caddyfile reads it as one.
func TestQuotedWords(t *testing.T) {
	t.Parallel()
	for _, word := range []string{"", "{", "}", "a {", "#x", "a #x", `say "no"`, `back\slash`, `\`, "`tick`", "<<EOF", "ünï", `"`} {
		c := Client{
			ID: "app", Name: word, Secrets: []caddyfileutil.Sensitive{"0123456789012345678901234567890123456789"},
			Grants: []string{"client_credentials"}, Scopes: []string{"read"},
		}
		if got := parse(t, c.Caddyfile()); got.Name != word {
			t.Errorf("%q is read as %q:\n%s", word, got.Name, c.Caddyfile())
		}
	}
	if c := (&Client{ID: "app", Name: "a\n}\nclient evil {\n"}); strings.Count(c.Caddyfile(), "\n") != 3 {
		t.Errorf("a name with ends of lines is printed as\n%s", c.Caddyfile())
	}
}
