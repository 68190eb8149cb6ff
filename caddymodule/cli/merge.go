package cli

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gatehouse-id/gatehouse/caddymodule/adminapi"
)

func mergeCommand() *cobra.Command {
	var dry bool
	cmd := &cobra.Command{
		Use:   "merge <username or id> <other username or id>",
		Short: "Makes one account of two that belong to the same human",
		Long: `Makes one account of two that belong to the same human. The first one stays, and
gets the linked accounts, groups, e-mail addresses and telephone numbers of the
other one, which is removed. The password, sign-in methods, sessions, tokens,
consents and app passwords of the removed account end. What goes over is shown
first; --dry-run shows it and changes nothing.`,
		Example: "  caddy gatehouse person merge ada ada@old.example.com --dry-run",
		Args:    cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			in := adminapi.MergeRequest{Person: args[0], Other: args[1], DryRun: true}
			var plan adminapi.Merge
			if err := call(cmd, "/persons/merge", in, &plan); err != nil {
				return err
			}
			if dry {
				return printResult(cmd, plan, mergeLines(&plan)...)
			}
			question := strings.Join(mergeLines(&plan), "\n") + "\nMerge " + plan.Removed.Username + " into " +
				plan.Person.Username + " permanently?"
			if err := confirm(cmd, question); err != nil {
				return err
			}
			// By their ids: what was shown is what is done.
			in = adminapi.MergeRequest{Person: plan.Person.ID, Other: plan.Removed.ID}
			if err := call(cmd, "/persons/merge", in, &plan); err != nil {
				return err
			}
			return printResult(cmd, plan,
				append(mergeLines(&plan), fmt.Sprintf("merged %s into %s", plan.Removed.Username, plan.Person.Username))...)
		},
	}
	cmd.Flags().BoolVar(&dry, "dry-run", false, "Show what would go over, and change nothing")
	return yesFlag(cmd)
}

// mergeLines say what goes over, and what ends.
func mergeLines(m *adminapi.Merge) []string {
	list := func(values []string) string {
		if len(values) == 0 {
			return "none"
		}
		return strings.Join(values, ", ")
	}
	var f fields
	f.add("stays", "%s", m.Person.Username+" ("+m.Person.ID+")")
	f.add("removed", "%s", m.Removed.Username+" ("+m.Removed.ID+")")
	f.add("linked accounts", "%s", list(m.Providers))
	f.add("links that end", "%s", list(m.Left))
	f.add("groups", "%s", list(m.Groups))
	f.add("addresses", "%s", list(m.Addresses))
	f.add("sessions that end", "%s", strconv.Itoa(m.Sessions))
	f.add("tokens that end", "%s", strconv.Itoa(m.Tokens))
	return f.lines()
}
