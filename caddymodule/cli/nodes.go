package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gatehouse-id/gatehouse/internal/cluster"
)

func nodesCommand() *cobra.Command {
	return &cobra.Command{
		Use: "nodes", Short: "Lists the servers that use the storage", Args: cobra.NoArgs,
		Long: `Lists the servers that share the storage: when each was started and last seen, how far its clock is ahead
of that of the storage, how long it takes to write there, and what it alone does for all of them. A
server that ended without a word, such as one that was killed, is listed for a day. With a storage
that belongs to one server the list has this one.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return show(cmd, "/nodes", nil, nodeLines)
		},
	}
}

func nodeLines(all *[]cluster.Info) []string {
	header := []string{"ID", "HOST", "VERSION", "STATE", "STARTED", "SEEN", "CLOCK", "LAG", "DOES"}
	lines := tableOf("server", header, *all, func(n *cluster.Info) []string {
		state := "running"
		switch {
		case n.This:
			state = "this one"
		case !n.Alive:
			state = "gone"
		}
		return []string{
			n.ID, n.Host, n.Version, state, day(n.Started), day(n.Seen), fmt.Sprintf("%+d ms", n.Ahead), fmt.Sprintf("%d ms", n.Lag),
			strings.Join(n.Roles, ", "),
		}
	}).lines()
	for _, n := range *all {
		if n.This && n.Written > 0 && n.Written < n.Format {
			lines = append(lines, fmt.Sprintf("The records have format %d, so servers can go back to the older version. When none will: caddy gatehouse upgrade finish", n.Written))
		}
		if n.Problem != "" {
			lines = append(lines, "WRONG  "+n.Problem)
		}
	}
	return lines
}
