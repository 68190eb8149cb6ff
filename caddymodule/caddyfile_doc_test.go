package caddymodule_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/gatehouse-id/gatehouse/caddymodule/internal/reference"
)

// example is the Caddyfile at the top of the document.
const example = `{
	servers {
		listener_wrappers {
			gatehouse
			tls
		}
	}
	gatehouse {
		issuer https://auth.example.com
		client shop {
			secret {env.SHOP_SECRET}
			redirect_uris https://shop.example.com/callback
			grants authorization_code
			scopes openid profile
		}
		identity {
			person ada@example.com {
				password {env.ADA_PASSWORD}
				groups staff
			}
		}
	}
}

auth.example.com {
	gatehouse
}

wiki.example.com {
	protect {
		login
		groups staff
	}
	reverse_proxy localhost:9001
}
`

const introduction = `# The Caddyfile

Everything that Gatehouse adds to the Caddyfile: each block with its options, their defaults and an example.
[guide.md](guide.md) shows the parts of Gatehouse one after the other, [configuration.md](configuration.md) the settings
that change without a reload, and [troubleshooting.md](troubleshooting.md) what messages mean.

This file is generated from the tables of the parsers: ` + "`go test ./caddymodule -run CaddyfileDocument -update`" + `. A test
loads each example.

` + "```caddyfile\n" + example + "```" + `

The names in it:

| where | name | what it is |
|---|---|---|
| global options | [` + "`gatehouse`" + `](#gatehouse) | the authorization server, the identity service and all of their options |
| ` + "`servers`, `listener_wrappers`" + ` | ` + "`gatehouse`" + ` | in front of ` + "`tls`" + `: a reload loses no connection that waits to be accepted, and over plain HTTP no request. Without options |
| a site | ` + "`gatehouse [<matcher>]`" + ` | serves every endpoint and page of the issuer, and ` + "`/healthz`" + `, in the site whose address is ` + "`issuer`" + `; requests for another host are answered 421. Without options |
| a site | [` + "`protect`" + `](#protect) | guards a site or an API |

## How values are written

- **Placeholders.** Values can be or contain ` + "`{env.NAME}` or `{file./path}`" + `, which are resolved when the configuration
  is loaded. ` + "`{$NAME}`" + ` is replaced when the Caddyfile is read. Secrets belong into one of them.
- **Durations** are written like ` + "`30s`, `15m`, `12h` or `30d`, **sizes** like `128MiB`" + `. **Files** without a leading slash
  are found from the directory that Caddy runs in.
- **Several values** stand on one line, ` + "`groups staff admins`" + `. An option can stand there once, unless its row says that it
  can be repeated. Texts need no quotes: ` + "`name The shop`" + `.
- **Mistakes** are errors with file and line, a reason and what to do: by ` + "`caddy validate`, `caddy adapt`" + ` and at each start
  and reload. An unknown option is one.

An option without a default is off, or empty. *Since* is the first version that has the option; what is in no release
yet is listed under the next one.
`

// TestCaddyfileDocument holds docs/caddyfile.md against the tables.
func TestCaddyfileDocument(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	b.WriteString(introduction)
	b.WriteString("\n## Blocks\n\n")
	for _, p := range places() {
		fmt.Fprintf(&b, "%s- [%s](#%s)\n", strings.Repeat("  ", len(p)-1), p.name(), p.anchor())
	}
	for _, p := range places() {
		describeBlock(&b, p)
	}
	if *update {
		if err := os.WriteFile(caddyfileDocument, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	raw, err := os.ReadFile(caddyfileDocument)
	if err != nil || string(raw) != b.String() {
		t.Errorf("%s is stale (%v): go test ./caddymodule -run CaddyfileDocument -update", caddyfileDocument, err)
	}
}

func describeBlock(b *strings.Builder, p place) {
	block := p.block()
	fmt.Fprintf(b, "\n## %s\n\n", p.name())
	switch around := p[:len(p)-1]; {
	case len(around) > 0:
		fmt.Fprintf(b, "`%s` in [%s](#%s). ", block.Head, around.name(), around.anchor())
	case block == &reference.Gatehouse:
		b.WriteString("Global option. ")
	default:
		fmt.Fprintf(b, "`%s` in a site. ", block.Head)
	}
	b.WriteString(block.Text + "\n\n")
	if len(p) > 1 || block == &reference.Protect {
		fmt.Fprintf(b, "```text\n%s\n```\n\n", sample(block))
	}
	b.WriteString("| option | meaning | default | example | since |\n|---|---|---|---|---|\n")
	for _, o := range block.Options {
		meaning, shown := o.Text, []string{}
		if o.Repeats {
			meaning += " Can be repeated."
		}
		for line := range strings.Lines(o.Example) {
			shown = append(shown, code(strings.TrimSpace(line)))
		}
		for _, inner := range o.Blocks {
			at := append(p[:len(p):len(p)], inner)
			shown = append(shown, fmt.Sprintf("[%s](#%s)", at.name(), at.anchor()))
		}
		since := o.Since
		switch {
		case o.Later:
			since = "not yet"
		case since == "":
			since = "0.1"
		}
		fmt.Fprintf(b, "| %s | %s | %s | %s | %s |\n", code(strings.TrimSpace(o.Word+" "+o.Arguments)), cell(meaning), cell(o.Default), strings.Join(shown, "<br>"), since)
	}
}

// code is a text as code in a cell.
func code(s string) string {
	if strings.Contains(s, "`") {
		return "`` " + cell(s) + " ``"
	}
	return "`" + cell(s) + "`"
}

func cell(s string) string { return strings.ReplaceAll(s, "|", `\|`) }

// picture is a PNG of one pixel.
const picture = "\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x00\x01\x00\x00\x00\x01\x08\x06\x00\x00\x00\x1f\x15\xc4\x89\x00\x00\x00\rIDATx\x9cc\xf8\xcf\xc0\xf0\x1f\x00\x05\x00\x01\xff\x89\x99=\x1d\x00\x00\x00\x00IEND\xaeB`\x82"
