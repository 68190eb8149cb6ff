package cli

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/gatehouse-id/gatehouse/admin"
	"github.com/gatehouse-id/gatehouse/caddymodule/adminapi"
)

func limitCommands() *cobra.Command {
	return group("limits", "Lists the callers near a limit, lifts one once, and tells how much clients have used", listLimitsCommand(), liftLimitCommand(), usageCommand())
}

func listLimitsCommand() *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "Lists the callers near a limit or above it", Args: cobra.NoArgs,
		Long: `Lists the callers that have used at least 80 percent of a limit or quota at this server, those that have
used most of it first, at most 100.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			header := []string{"KIND", "CALLER", "LIMIT", "USED", "RESET", "ID"}
			return showTable(cmd, "/limits", nil, "caller", header, func(u *admin.LimitUse) []string {
				reset := time.Duration(u.ResetSecs) * time.Second
				return []string{u.Kind, u.Caller, u.Limit, fmt.Sprintf("%d of %d", u.Used, u.Of), reset.String(), u.ID}
			})
		},
	}
}

func liftLimitCommand() *cobra.Command {
	return &cobra.Command{
		Use: "lift <id>", Short: "Lifts a limit or quota of one caller once", Args: cobra.ExactArgs(1),
		Long: `Forgets what a caller has used of a limit or quota so far, so it can go on at once. The limit holds as before.
The id is that of "limits list".`,
		Example: `  caddy gatehouse limits lift 9f86d081884c7d65.01000000000000000000000000000000.shop`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := call(cmd, "/limits/lift", adminapi.LimitID{ID: args[0]}, nil); err != nil {
				return err
			}
			return printResult(cmd, struct{}{}, "It is lifted.")
		},
	}
}
