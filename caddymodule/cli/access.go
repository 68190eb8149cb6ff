package cli

import (
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/gatehouse-id/gatehouse/caddymodule/adminapi"
	"github.com/gatehouse-id/gatehouse/identity/access"
)

func accessCommands() *cobra.Command {
	return group("access", "Decides about access that people have asked for at sites with request_access",
		listAccessCommand(), grantAccessCommand(),
		decideAccessCommand("refuse", "Turns a request down",
			"The person reads the note on the page of the site, and can ask again an hour after the request."),
		decideAccessCommand("revoke", "Ends a grant", "The person is refused from the next request on. Open connections end immediately."))
}

func listAccessCommand() *cobra.Command {
	var open bool
	cmd := &cobra.Command{
		Use: "list", Short: "Lists requests for access and what was decided", Args: cobra.NoArgs,
		Example: "  caddy gatehouse access list --open",
		RunE: func(cmd *cobra.Command, _ []string) error {
			var all adminapi.AccessList
			if err := call(cmd, "/access", nil, &all); err != nil {
				return err
			}
			shown := []access.Request{}
			t := table{noun: "request", header: []string{"PERSON", "SITE", "STATE", "ASKED", "REASON", "UNTIL", "USES"}}
			for _, r := range all.Items {
				if open && r.State != access.Open {
					continue
				}
				shown = append(shown, r)
				until, uses := "", ""
				if r.State == access.Granted {
					until, uses = day(r.Ends), "any"
					if r.Uses > 0 {
						uses = strconv.Itoa(r.Used) + " of " + strconv.Itoa(r.Uses)
					}
				}
				t.rows = append(t.rows, []string{r.Username, r.Site, string(r.State), day(r.AskedAt), r.Reason, until, uses})
			}
			return printResult(cmd, shown, t.lines()...)
		},
	}
	cmd.Flags().BoolVar(&open, "open", false, "Only open requests")
	return cmd
}

func grantAccessCommand() *cobra.Command {
	in := adminapi.AccessDecision{Decision: "grant"}
	cmd := &cobra.Command{
		Use: "grant <person> <site>", Short: "Lets a person open a site for a time or a number of uses", Args: cobra.ExactArgs(2),
		Long: `Lets a person pass who has asked, though the groups, the needs or the rules of the
site say otherwise. A deny rule, the level and the age of the sign-in still apply.
Requests within 15 minutes are one use. A grant with uses alone ends after 30 days.`,
		Example: "  caddy gatehouse access grant ada@example.com https://wiki.example.com --for 8h",
		RunE: func(cmd *cobra.Command, args []string) error {
			in.Person, in.Site = args[0], args[1]
			return decideAccess(cmd, in)
		},
	}
	cmd.Flags().StringVar(&in.For, "for", "", "How long, such as 8h")
	cmd.Flags().IntVar(&in.Uses, "uses", 0, "How many uses (default: any number)")
	noteFlag(cmd, &in.Note)
	return cmd
}

func decideAccessCommand(decision, short, long string) *cobra.Command {
	in := adminapi.AccessDecision{Decision: decision}
	cmd := &cobra.Command{
		Use: decision + " <person> <site>", Short: short, Long: long, Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			in.Person, in.Site = args[0], args[1]
			return decideAccess(cmd, in)
		},
	}
	noteFlag(cmd, &in.Note)
	return cmd
}

func noteFlag(cmd *cobra.Command, to *string) {
	cmd.Flags().StringVar(to, "note", "", "What the person reads about it")
}

func decideAccess(cmd *cobra.Command, in adminapi.AccessDecision) error {
	return tell(cmd, "/access", in, func(out *access.Request) string {
		line := fmt.Sprintf("%s at %s: %s", out.Username, out.Site, out.State)
		if out.State == access.Granted {
			line += " until " + day(out.Ends)
		}
		return line
	})
}
