package cli

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/spf13/cobra"

	"github.com/gatehouse-id/gatehouse/admin/mcpcheck"
)

func mcpCommands() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "check <url>",
		Short: "Looks for the authorization server of an MCP server, as its clients do",
		Long: `Sends a request without a token to the address of an MCP server, follows what the refusal says to the metadata
of the resource and of the authorization server, and compares what clients compare. Each step is printed. It
needs no server of its own and no admin API. The exit status is 0 only if no step has failed.`,
		Args: cobra.ExactArgs(1),
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		steps, err := mcpcheck.Run(cmd.Context(),
			&http.Client{Transport: &http.Transport{Proxy: http.ProxyFromEnvironment, DisableKeepAlives: true}}, args[0])
		if err != nil {
			return err
		}
		lines, failed := []string{}, false
		for _, s := range steps {
			lines, failed = append(lines, fmt.Sprintf("%-8s %s: %s", s.Result, s.Name, s.What)), failed || s.Result == mcpcheck.Failed
		}
		if err := printResult(cmd, map[string]any{"steps": steps}, lines...); err != nil {
			return err
		}
		if failed {
			return errors.New("clients do not find the way to the authorization server")
		}
		return nil
	}
	return group("mcp", "Looks at servers of the Model Context Protocol", cmd)
}
