package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/gatehouse-id/gatehouse/caddymodule/adminapi"
)

func upgradeCommands() *cobra.Command {
	return group("upgrade", "Ends an upgrade of servers that share a storage", finishCommand())
}

func finishCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "finish",
		Short: "Lets all servers write what only the new version can read",
		Long: `After an upgrade, servers that share a storage go on writing records in the form of the older version, so
each of them can go back to it. When all run the new version and none will go back, this command
ends that: an older version refuses to start from then on. It is refused while an older one runs. Most
versions have the same form as the one before, and then there is nothing to do. A server with a storage
of its own needs no such command.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return tell(cmd, "/upgrade/finish", struct{}{}, func(a *adminapi.UpgradeAnswer) string {
				if a.Before == a.Now {
					return fmt.Sprintf("nothing to do: the records have format %d, the newest that this version knows", a.Now)
				}
				return fmt.Sprintf("the records had format %d and have %d from now on: an older version can no longer use them", a.Before, a.Now)
			})
		},
	}
}
