package cli

import (
	"net/url"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/gatehouse-id/gatehouse/caddymodule/adminapi"
	"github.com/gatehouse-id/gatehouse/internal/csvfile"
	"github.com/gatehouse-id/gatehouse/internal/usage"
)

func usageCommand() *cobra.Command {
	var from, to, client, site string
	var most int
	var table bool
	cmd := &cobra.Command{
		Use:   "usage",
		Short: "Lists how many requests each client has made, per site and day",
		Long: `Lists the requests of each client at each protected site, per day in UTC, newest first: those that passed, and
those that a limit or quota has refused. Without --from and --to it lists the last 30 days.`,
		Example: `  caddy gatehouse limits usage --client shop
  caddy gatehouse limits usage --from 2026-01-01 --to 2026-01-31 --csv > january.csv`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkLimit(most); err != nil {
				return err
			}
			q := url.Values{}
			for name, v := range map[string]string{"from": from, "to": to, "client": client, "site": site} {
				if v != "" {
					q.Set(name, v)
				}
			}
			if table {
				most = 0
			}
			all, more, err := readUsage(cmd, q, most)
			if err != nil {
				return err
			}
			return printUsage(cmd, all, more, table)
		},
	}
	f := cmd.Flags()
	f.StringVar(&from, "from", "", "From this day on, such as 2026-01-31")
	f.StringVar(&to, "to", "", "Until this day, included")
	f.StringVar(&client, "client", "", "Only requests of this client")
	f.StringVar(&site, "site", "", "Only requests at this site, such as api.example.com")
	f.IntVar(&most, "limit", 100, "Print at most so many; 0 prints all")
	f.BoolVar(&table, "csv", false, "Print all of them as CSV")
	completeFlag(cmd, "client", completeClients)
	return cmd
}

// readUsage reads at most so many rows. most 0: all
func readUsage(cmd *cobra.Command, q url.Values, most int) (all []usage.Row, more bool, err error) {
	all = []usage.Row{}
	for {
		n := adminapi.MaxPersons
		if most > 0 {
			n = min(n, most-len(all))
		}
		q.Set("limit", strconv.Itoa(n))
		var part adminapi.UsagePage
		if err := call(cmd, "/usage?"+q.Encode(), nil, &part); err != nil {
			return nil, false, err
		}
		all = append(all, part.Items...)
		if part.Next == "" || most > 0 && len(all) >= most {
			return all, part.Next != "", nil
		}
		q.Set("after", part.Next)
	}
}

func printUsage(cmd *cobra.Command, all []usage.Row, more, csv bool) error {
	if csv {
		out := csvfile.New(cmd.OutOrStdout(), usage.Columns...)
		for i := range all {
			out.Row(all[i].Cells()...)
		}
		return out.Flush()
	}
	t := table{noun: "row", header: []string{"DAY", "CLIENT", "SITE", "REQUESTS", "LIMITED"}}
	for i := range all {
		t.rows = append(t.rows, printed(all[i].Cells()))
	}
	if more {
		t.more = "There are more: use --limit."
	}
	return printResult(cmd, all, t.lines()...)
}
