package cli

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/gatehouse-id/gatehouse/caddymodule/adminapi"
)

func adminCommands() *cobra.Command {
	return group("admin", "Lets people into the admin console", inviteAdminCommand())
}

func inviteAdminCommand() *cobra.Command {
	return &cobra.Command{
		Use: "invite <username>", Short: "Makes an owner of the admin console, and prints a link for the first sign-in", Args: cobra.ExactArgs(1),
		Long: `Makes a person an owner of the admin console: the one of the username, or a new one. It
prints a link that works once and for 24 hours: the person who opens it chooses a password,
signs in, sets up a second factor where the console demands one, and is in the console.
Anyone who has the link can use it, so hand it over to that person alone.`,
		Example: "  caddy gatehouse admin invite ann@example.com",
		RunE: func(cmd *cobra.Command, args []string) error {
			var out adminapi.OwnerLink
			if err := call(cmd, "/admins", adminapi.PersonRequest{Person: args[0]}, &out); err != nil {
				return err
			}
			if _, err := fmt.Fprintf(cmd.ErrOrStderr(), "%s is an owner of %s; the link is valid until %s\n", out.Username, out.Console,
				out.ExpiresAt.UTC().Format(time.RFC3339)); err != nil {
				return err
			}
			return printResult(cmd, out, out.Link)
		},
	}
}
