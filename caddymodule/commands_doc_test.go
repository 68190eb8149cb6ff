package caddymodule_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// TestCommandsDocument: docs/commands.md describes every command as the binary does.
func TestCommandsDocument(t *testing.T) {
	t.Parallel()
	root := &cobra.Command{Use: "caddy"}
	caddycmd.Commands()["gatehouse"].CobraFunc(root)
	var b strings.Builder
	b.WriteString(`# Commands

The commands of ` + "`caddy gatehouse`" + `. They reach the running server through Caddy's admin API, which listens on a loopback
address; ` + "`--address`" + ` names another one, ` + "`--config`" + ` the Caddyfile in which it is set. Only ` + "`init`, `secret`, `version`, `restore`, `accept-loss` and `storage copy`" + ` work
without a server. Each command prints text for people and, with ` + "`--json`" + `, one JSON value for programs; errors go to
standard error, with ` + "`--json`" + ` as ` + "`{\"error\": \"…\"}`" + `.

The exit status is 0 when the command did what it was asked for, and 1 otherwise. ` + "`caddy completion bash`" + ` (or zsh, fish)
prints what completes commands, usernames and clients in a shell.

This file is generated from the commands: ` + "`go test ./caddymodule -run CommandsDocument -update`" + `.
`)
	describe(&b, root)
	const path = "../docs/commands.md"
	if *update {
		writeFile(t, path, b.String(), 0o644)
	}
	raw, err := os.ReadFile(path)
	if err != nil || string(raw) != b.String() {
		t.Errorf("%s is stale (%v): go test ./caddymodule -run CommandsDocument -update", path, err)
	}
}

func describe(b *strings.Builder, cmd *cobra.Command) {
	for _, c := range cmd.Commands() {
		if c.Name() == "help" || c.Name() == "completion" {
			continue
		}
		if c.HasSubCommands() {
			fmt.Fprintf(b, "\n## %s\n\n%s.\n", c.Name(), c.Short)
			describe(b, c)
			continue
		}
		level := "###"
		if !cmd.HasParent() {
			level = "##"
		}
		name, _, _ := strings.Cut(c.Use, " ")
		if cmd.HasParent() {
			name = cmd.Name() + " " + name
		}
		fmt.Fprintf(b, "\n%s %s\n\n%s.\n\n```text\n%s\n```\n", level, name, strings.TrimSuffix(c.Short, "."), strings.Replace(strings.ReplaceAll(c.UseLine(), " [flags]", ""), "caddy", "caddy gatehouse", 1))
		if c.Long != "" {
			fmt.Fprintf(b, "\n%s\n", strings.TrimSpace(c.Long))
		}
		if rows := flagRows(c); rows != "" {
			fmt.Fprintf(b, "\n| flag | meaning |\n|---|---|\n%s", rows)
		}
		if c.Example != "" {
			fmt.Fprintf(b, "\n```sh\n%s\n```\n", unindent(c.Example))
		}
	}
}

func unindent(example string) string {
	lines := strings.Split(example, "\n")
	for i, l := range lines {
		lines[i] = strings.TrimPrefix(l, "  ")
	}
	return strings.Join(lines, "\n")
}

func flagRows(c *cobra.Command) string {
	var b strings.Builder
	c.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if f.Name == "help" {
			return
		}
		kind, usage := pflag.UnquoteUsage(f)
		if kind != "" {
			kind = " " + kind
		}
		fmt.Fprintf(&b, "| `--%s%s` | %s |\n", f.Name, kind, strings.ReplaceAll(usage, "|", `\|`))
	})
	return b.String()
}
