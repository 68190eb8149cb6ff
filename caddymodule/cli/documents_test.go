package cli_test

import (
	"fmt"
	"strings"
	"testing"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	_ "github.com/gatehouse-id/gatehouse/caddymodule/cli"
	"github.com/gatehouse-id/gatehouse/internal/goldentest"
)

// TestCommandsDocuments writes docs/commands, a document for each command, which has its subcommands.
func TestCommandsDocuments(t *testing.T) {
	t.Parallel()
	root := &cobra.Command{Use: "caddy"}
	caddycmd.Commands()["gatehouse"].CobraFunc(root)
	documents := map[string]string{}
	for _, cmd := range root.Commands() {
		switch {
		case cmd.Name() == "help" || cmd.Name() == "completion":
		case cmd.HasSubCommands():
			text := fmt.Sprintf("# %s\n\n%s.\n", cmd.Name(), cmd.Short)
			for _, c := range cmd.Commands() {
				text += "\n#" + describe(cmd.Name()+" ", c)
			}
			documents[cmd.Name()+".md"] = text
		default:
			documents[cmd.Name()+".md"] = describe("", cmd)
		}
	}
	goldentest.Documents(t, "../../docs/commands", documents)
}

// describe returns the part about a command without subcommands.
func describe(group string, c *cobra.Command) string {
	var b strings.Builder
	name, _, _ := strings.Cut(c.Use, " ")
	line := strings.Replace(strings.ReplaceAll(c.UseLine(), " [flags]", ""), "caddy", "caddy gatehouse", 1)
	fmt.Fprintf(&b, "# %s%s\n\n%s.\n\n```text\n%s\n```\n", group, name, strings.TrimSuffix(c.Short, "."), line)
	if c.Long != "" {
		fmt.Fprintf(&b, "\n%s\n", strings.TrimSpace(c.Long))
	}
	if rows := flagRows(c); rows != "" {
		fmt.Fprintf(&b, "\n| flag | meaning |\n|---|---|\n%s", rows)
	}
	if c.Example != "" {
		fmt.Fprintf(&b, "\n```sh\n%s\n```\n", unindent(c.Example))
	}
	return b.String()
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
