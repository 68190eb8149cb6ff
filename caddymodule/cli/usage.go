package cli

import (
	"net/url"

	"github.com/spf13/cobra"

	"github.com/gatehouse-id/gatehouse/internal/csvfile"
	"github.com/gatehouse-id/gatehouse/internal/usage"
)

func usageCommand() *cobra.Command {
	var from, to, client, site string
	var most int
	var asCSV bool
	cmd := &cobra.Command{
		Use:   "usage",
		Short: "Lists how many requests each client has made, per site and day",
		Long: `Lists the requests of each client at each protected site, per day in UTC, newest first: those that passed, and
those that a limit or quota has refused. Without --from and --to it lists the last 30 days.`,
		Example: `  caddy gatehouse limits usage --client shop
  caddy gatehouse limits usage --from 2026-01-01 --to 2026-01-31 --csv > january.csv`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			q := query(map[string]string{"from": from, "to": to, "client": client, "site": site})
			if asCSV {
				return writeUsage(cmd, q)
			}
			header := []string{"DAY", "CLIENT", "SITE", "REQUESTS", "LIMITED"}
			return printList(cmd, "/usage", q, most, "row", header, func(r *usage.Row) []string { return r.Cells() })
		},
	}
	f := cmd.Flags()
	f.StringVar(&from, "from", "", "From this day on, such as 2026-01-31")
	f.StringVar(&to, "to", "", "Until this day, included")
	f.StringVar(&client, "client", "", "Only requests of this client")
	f.StringVar(&site, "site", "", "Only requests at this site, such as api.example.com")
	f.IntVar(&most, "limit", 100, "Print at most so many; 0 prints all")
	f.BoolVar(&asCSV, "csv", false, "Print all of them as CSV")
	completeFlag(cmd, "client", completeClients)
	return cmd
}

// writeUsage writes all rows as CSV.
func writeUsage(cmd *cobra.Command, q url.Values) error {
	all, _, err := readList[usage.Row](cmd, "/usage", q, 0)
	if err != nil {
		return err
	}
	out := csvfile.New(cmd.OutOrStdout(), usage.Columns...)
	for i := range all {
		out.Row(all[i].Cells()...)
	}
	return out.Flush()
}
