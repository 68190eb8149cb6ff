package cli

import (
	"cmp"
	"time"

	"github.com/spf13/cobra"

	"github.com/gatehouse-id/gatehouse/internal/calllog"
)

func listCallsCommand() *cobra.Command {
	var since, until, person, client, address, site, path string
	var most int
	cmd := &cobra.Command{
		Use:   "calls",
		Short: "Lists the calls that sites with \"audit log\" have let pass",
		Long: `Lists recorded calls, newest first: who has called what, and how it ended. --since and --until take the
times of "events list". --path takes a path, or the beginning of one with * at the end.
Calls of sites with "audit" alone are events: events list --type call.CallPassedEvent.`,
		Example: `  caddy gatehouse events calls --since today --client shop
  caddy gatehouse events calls --person ada@example.com --path "/orders/*" --json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			q := query(map[string]string{"person": person, "client": client, "address": address, "site": site, "path": path})
			if err := setTimes(q, since, until, time.Now()); err != nil {
				return err
			}
			header := []string{"TIME", "METHOD", "SITE", "PATH", "PERSON", "CLIENT", "ADDRESS", "OUTCOME", "REF"}
			return printList(cmd, "/calls", q, most, "call", header, callCells)
		},
	}
	f := cmd.Flags()
	f.StringVar(&since, "since", "", "Only calls from this time on")
	f.StringVar(&until, "until", "", "Only calls before this time")
	f.StringVar(&person, "person", "", "Only calls of this person: a username or id")
	f.StringVar(&client, "client", "", "Only calls by this client")
	f.StringVar(&address, "ip", "", "Only calls from this IP address")
	f.StringVar(&site, "site", "", "Only calls at this site, such as https://api.example.com")
	f.StringVar(&path, "path", "", "Only calls of this path")
	f.IntVar(&most, "limit", 100, "Print at most so many; 0 prints all")
	completeFlag(cmd, "person", completeAnyPerson)
	completeFlag(cmd, "client", completeClients)
	return cmd
}

func callCells(c *calllog.Found) []string {
	return []string{
		c.At.Local().Format("2006-01-02 15:04:05"), c.Method, c.Site, c.Path, cmp.Or(c.Username, c.PersonID), c.ClientID, c.IP,
		c.Outcome(), c.Ref,
	}
}
